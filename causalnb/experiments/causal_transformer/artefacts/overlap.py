"""What the tables and figures on word overlap share: experiments, names, looks, and how scores are told."""

from itertools import product

from causalnb.experiments.causal_transformer.grid import MINORITIES, OVERLAP
from causalnb.lab import evidence, registry
from causalnb.lab.report import Arm, Measured, Values, arm, share, tested
from causalnb.lab.statistics import Summary, mean_ci

PUBLISHED = "causal_transformer.published"
TASKS = {  # task -> its name, its columns in the paper, its labels: the one that overlap tells, and the other
    "nli": ("entailment", ("MNLI-m", "HANS"), ("entailment", "non-entailment")),
    "paraphrase": ("paraphrase", ("QQP", "PAWS-QQP"), ("paraphrase", "other")),
}
IDS = {key: f"causal_transformer.overlap.{'.'.join(key)}" for key in product(OVERLAP, MINORITIES)}
MASKED = {task: f"causal_transformer.masked.{task}" for task in OVERLAP}
DECISIVE = "m5"  # the minority that the search used and the claims are decided at
SHARES = {minority: f"{100 * share:g} %" for minority, share in MINORITIES.items()}
PLAIN = "transformer"
ARMS = {
    "constant": "constant answer",
    "bow": "BoW",
    "bilstm": "BiLSTM",
    PLAIN: "Transformer",
    "gcn": "+ GCN",
    "loss": "+ loss",
    "both": "+ both",
    "entropy": "+ entropy alone",
    "band": "+ band mask",
    "random": "+ random mask",
    "transformer_stl": "Transformer, trained on challenge pairs",
    "both_stl": "+ both, trained on challenge pairs",
}
LOOKS = {  # colour, marker, line
    "bow": ("orange", "s", "--"),
    "bilstm": ("yellow", "^", "-."),
    PLAIN: ("black", "o", "-"),
    "gcn": ("sky", "v", "--"),
    "loss": ("green", "P", "-."),
    "both": ("blue", "D", "-"),
    "entropy": ("purple", "X", ":"),
}
SAID = {"other": "no paraphrase"}  # labels whose name says too little in a table
CELLS = {  # metric -> how tables of differences call it
    "challenge_accuracy": "challenge",
    "test_accuracy": "in distribution",
    "held_out_accuracy": "other templates",
}
EXTRA = {"extra": True, "printed_as": "ours", "kind": "measured", "notebook": "11_spurious_correlations"}
ONE_LABEL = (
    "Accuracy on a published set with more of one label grows with the habit of that answer: so "
    "PAWS-QQP is compared by macro-F, and MNLI's contradicting pairs, of one label, not at all."
)


def first_with(name: str, *ids: str) -> Arm | None:
    """An arm in the first of some experiments that has it; None where none has."""
    return next((arm(id, name) for id in ids if name in registry.arms(id)), None)


def trained(task: str, minority: str, name: str) -> Arm | None:
    """An arm of Table 1; None where it was not trained at that minority."""
    return first_with(name, IDS[task, minority], *[MASKED[task]] * (minority == DECISIVE))


def asked(metric: str):
    """A metric of the published sets, without values where their files were not there to be asked."""
    return lambda frame: frame.get(metric, {})


def either(values) -> str:
    """A table cell: of the constant answer what each of both labels scores, in percent.

    Labels are balanced, so that a seed answers this or that by chance.
    """
    both = sorted({round(share, 3) for value in values for share in (value, 1 - value)})
    return " or ".join(f"{100 * share:.1f}" for share in both)


class Scored(Measured):
    """A column of shares in percent, "" where nothing was asked; `either` of the constant answer."""

    def cell(self, row, at, labels):
        """As Column.cell."""
        values = self.found(row, at)
        constant = getattr(self.value(row), "name", "") == "constant"
        return (either if constant else self.format or share)(values) if values else ""


def scores(task: str) -> list[Scored]:
    """The columns of a task's full tables: accuracy in every cell, and in halves where one label is easy."""
    _, _, labels = TASKS[task]
    halves = [Scored(f"challenge, {SAID.get(label, label)}", f"challenge_{label}") for label in labels]
    sets = {
        "nli": {"MNLI's contradicting pairs": "mnli_contradicting_accuracy"},
        "paraphrase": {
            "PAWS-QQP": "paws_qqp_accuracy",
            "PAWS-QQP, paraphrase": "paws_qqp_paraphrase",
            "PAWS-QQP, no paraphrase": "paws_qqp_other",
        },
    }
    return [
        Scored("in distribution", "test_accuracy"),
        Scored("challenge", "challenge_accuracy"),
        *halves,
        Scored("other templates", "held_out_accuracy"),
        *(Scored(heading, asked(metric)) for heading, metric in sets[task].items()),
    ]


def compared(more: str = "") -> list[Scored]:
    """The columns of differences: CELLS, and on PAWS-QQP macro-F; `more` ends their headings."""
    metrics = {heading: metric for metric, heading in CELLS.items()}
    metrics["PAWS-QQP, macro-F"] = asked("paws_qqp_macro_f")
    return [Scored(f"{heading}{more}", metric, tested) for heading, metric in metrics.items()]


def kinds(task: str) -> dict[str, list[str]]:
    """{heading: metrics whose mean it is} of the challenge: heuristic and half, or kind of question."""
    from causalnb.tasks import overlap, paraphrase

    if task == "paraphrase":
        return {kind: [f"challenge_{kind}"] for kind in paraphrase.SAME_WORDS}
    metrics = {}
    for subcase in overlap.SUBCASES:
        heading = f"{overlap.HEURISTICS[subcase[0]]}, {overlap.LABELS[subcase[1] == 'n']}".replace("_", " ")
        metrics.setdefault(heading, []).append(f"challenge_{subcase}")
    return metrics


def percentage(values: Values, metric=None, profile: str | None = None) -> Summary:
    """The mean of shares over seeds with its interval, in percent."""
    return mean_ci([100 * value for value in values.of(metric, profile)])


def counted_tests(rows: list) -> str:
    """How many p values stand in a table's rows, in words."""
    return f"the {sum(', p ' in cell for row in rows for cell in row)} tests of this table"


def published(name: str, profile: str | None = None) -> dict[str, dict[str, float]]:
    """{cell: {measure: value}} of what was counted in a published file."""
    rows = evidence.rows(PUBLISHED, profile, [name])
    return {cell: dict(zip(its.measure, its.value, strict=True)) for cell, its in rows.groupby("cell")}


def always_no(profile: str | None = None) -> float:
    """The accuracy on PAWS-QQP, 0 to 1, of who calls no pair a paraphrase."""
    counts = published("paws_qqp", profile)
    pairs, positive = (sum(counts[kind].values()) for kind in ("pairs", "label"))
    return (pairs - positive) / pairs
