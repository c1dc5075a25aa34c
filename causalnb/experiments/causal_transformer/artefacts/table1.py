"""Table 1 of the Causal Transformer with controls and paired differences, and the claims on it."""

from dataclasses import replace
from functools import lru_cache
from importlib import import_module

from causalnb.experiments.causal_transformer.artefacts.overlap import (
    ARMS,
    DECISIVE,
    IDS,
    LOOKS,
    ONE_LABEL,
    PLAIN,
    PUBLISHED,
    SAID,
    SHARES,
    TASKS,
    Scored,
    always_no,
    asked,
    compared,
    counted_tests,
    kinds,
    percentage,
    published,
    scores,
    trained,
)
from causalnb.experiments.causal_transformer.grid import ENTROPIES, MINORITIES, OVERLAP
from causalnb.lab import evidence, registry
from causalnb.lab.report import Report, Row, Values, builds, draw, higher, mean, mean_of, number, tested
from causalnb.lab.tables import estimate, paper, points

CONTRASTS = [
    *((name, PLAIN) for name in ("bow", "bilstm", "gcn", "loss", "both", "entropy", "band", "random")),
    ("loss", "entropy"),
    ("both_stl", "transformer_stl"),
]
CLAIMS = [f"causal_transformer.claim{number}" for number in (*range(1, 14), 19, 21, 22)]
COLUMNS = {  # of the paper -> task, metric of ours
    heading: (task, metric)
    for task, (_, headings, _) in TASKS.items()
    for heading, metric in zip(headings, ("test_accuracy", "challenge_accuracy"), strict=True)
}


def contrast(task: str, name: str, other: str, minorities=tuple(MINORITIES)) -> Values:
    """An arm minus another, mean over those minorities at which both were trained."""
    pairs = [[trained(task, minority, part) for part in (name, other)] for minority in minorities]
    return mean(*(ours - theirs for ours, theirs in pairs if ours and theirs))


def constant_scores(profile: str | None = None) -> dict[str, float]:
    """{column of the paper: accuracy of its most frequent answer, 0 to 1} of both challenge sets."""
    from causalnb.tasks import hans

    labels = [row["label"] for row in hans.published_rows()]
    likeliest, no = max(sum(labels), len(labels) - sum(labels)) / len(labels), always_no(profile)
    return {"HANS": likeliest, "PAWS-QQP": max(no, 1 - no)}


def _not_ours(profile):
    """The paper's rows, and the best constant answer."""
    lines = paper("causal_transformer.table1")
    table = lines.pivot(index="row", columns="column", values="value").loc[lines.row.unique(), [*COLUMNS]]
    for name, values in table.iterrows():
        yield [f"paper: {name}", *("" if value != value else f"{value:.1f}" for value in values)]
    constant = constant_scores(profile)
    shares = (constant.get(column) for column in COLUMNS)
    yield ["the most frequent answer", *("" if share is None else f"{100 * share:.1f}" for share in shares)]


accuracies = Report(
    "causal_transformer.table1",
    ["", *(Scored(heading, metric) for heading, (_, metric) in COLUMNS.items())],
    [
        _not_ours,
        *(
            Row(
                f"ours: {words}", {head: trained(task, DECISIVE, name) for head, (task, _) in COLUMNS.items()}
            )
            for name, words in ARMS.items()
        ),
    ],
    "Table 1: accuracy in %; ours: mean ± half of the 95 % interval (seeds)",
    "Ours stand under the columns they imitate: small models and pairs made by templates, "
    f"{SHARES[DECISIVE]} of the pairs with full overlap against the rule. The paper's numbers "
    "are one each, without a word on seeds; its STL rows mean two different things.",
    needs=(PUBLISHED,),
)


def full(task: str) -> Report:
    """Every arm of a task at every minority, with both halves of the challenge."""
    places = [(minority, name) for minority in MINORITIES for name in ARMS]
    held = ", ".join(f"{ENTROPIES[task][minority]:g} at {SHARES[minority]}" for minority in MINORITIES)
    return Report(
        f"causal_transformer.table1_{task}",
        [
            "counter-examples",
            "arm",
            *scores(task),
            Scored("entropy of attention, nats", asked("challenge_entropy"), number(2)),
            Scored("nodes outside the bounds", asked("challenge_violated")),
        ],
        [
            Row((SHARES[minority], ARMS[name]), found)
            for minority, name in places
            if (found := trained(task, minority, name))
        ],
        f"Table 1, {TASKS[task][0]}: accuracy in %, mean ± half of the 95 % interval (seeds)",
        "With no counter-examples the training pairs do not say what the second half of the challenge asks; "
        f"settings were chosen at {SHARES[DECISIVE]} for all rows, on development templates. Masks, and "
        "models trained on challenge pairs, have the settings of the arm that they vary. Published sets are "
        "asked of models that never read most of their content words. Entropy of attention's rows: mean over "
        f"challenge pairs, layers and heads. {ARMS['entropy']} is held to what {ARMS['loss']} ends with on "
        f"validation pairs, mean over seeds: {held} of counter-examples.",
    )


def by_kind(task: str) -> Report:
    """Every arm on the kinds of a task's challenge pairs, at DECISIVE."""
    return Report(
        f"causal_transformer.table1_{task}_kinds",
        ["arm", *(Scored(heading, mean_of(*metrics)) for heading, metrics in kinds(task).items())],
        [Row(words, trained(task, DECISIVE, name)) for name, words in ARMS.items()],
        f"Table 1, {TASKS[task][0]}: accuracy in % by kind of challenge pair, {SHARES[DECISIVE]} of "
        "counter-examples, mean ± half of the 95 % interval (seeds)",
        "BoW reads no order: where it is right on kinds of both labels, words tell them apart; "
        "where on one alone, that may be the habit of one answer.",
    )


def bert_runs(profile: str | None = None):
    """DataFrame of the published runs of BERT: mnli, accuracy on HANS, and its two halves, 0 to 1."""
    from causalnb.lab import results

    evidence.require(PUBLISHED, profile, ["bert_runs"])
    return results.curves(PUBLISHED, profile, ["bert_runs"]).drop(columns=["arm", "seed"])


HALVES = TASKS["nli"][2]


def _published_rows(profile):
    from causalnb.tasks import hans

    counted = published("hans", profile)
    for model in hans.MODELS:
        yield [model, "", *(f"{100 * counted[model][cell]:.1f}" for cell in ("accuracy", *HALVES))]
    runs = 100 * bert_runs(profile)
    each, name = [runs[cell] for cell in ("mnli", "accuracy", *HALVES)], f"BERT, {len(runs)} runs"
    yield [f"{name}: mean ± sd", *(f"{cell.mean():.1f} ± {cell.std():.1f}" for cell in each)]
    yield [f"{name}: range", *(f"{cell.min():.1f} to {cell.max():.1f}" for cell in each)]


answers = Report(
    "causal_transformer.table1_published",
    ["model", "MNLI-m", "HANS", *HALVES],
    [_published_rows],
    "Published answers on HANS, scored again: accuracy in %",
    "The runs differ in the seed alone, which initialises the classifier and orders the data.",
    needs=(PUBLISHED,),
)


def _contrasts():
    for task, (words, *_) in TASKS.items():
        for name, other in CONTRASTS:
            both = [minority for minority in MINORITIES if trained(task, minority, name)]
            at = {
                f"challenge, {SHARES[minority]}": contrast(task, name, other, [minority]) for minority in both
            }
            average = {column.heading: contrast(task, name, other, both) for column in MEANS}
            yield Row((words, f"{ARMS[name]} - {ARMS[other]}"), at | average)


def _contrast_notes(profile):
    seeds = {
        share: min(len(registry.seeds(IDS[task, minority], profile)) for task in TASKS)
        for minority, share in SHARES.items()
    }
    floors = "; ".join(f"{share}, {n} seeds: {2 / 2**n:.2g}" for share, n in seeds.items())
    return (
        "mean: over the shares of counter-examples at which both arms ran, of the seeds that all "
        f"have. No p can be below, at {floors}. Nothing is corrected for "
        f"{counted_tests(_differences(profile).rows)}. {ONE_LABEL}"
    )


MEANS = compared(", mean")
_differences = Report(
    "causal_transformer.table1_contrasts",
    [
        "task",
        "difference, points",
        *(Scored(f"challenge, {share}", "challenge_accuracy", tested) for share in SHARES.values()),
        *MEANS,
    ],
    _contrasts,
    "Table 1: differences of the same seeds, mean [95 % interval] (seeds), and the p of the "
    "exact sign-flip test",
)
contrasts = replace(_differences, notes=_contrast_notes)


def at_minority(claim: dict, minority: str) -> dict:
    """A row of claims.csv, decided at DECISIVE, with the experiments of another minority."""
    old, new = f".{DECISIVE}", f".{minority}"
    return {name: cell.replace(old, new) if isinstance(cell, str) else cell for name, cell in claim.items()}


def decided(profile: str | None = None) -> dict[str, tuple]:
    """{claim of CLAIMS: (its row, {minority: Verdict})}; one on no experiment of IDS has DECISIVE's alone."""
    from causalnb.lab.verdicts import claims, decide

    found = {}
    lines = claims("causal_transformer").set_index("id", drop=False).loc[CLAIMS]
    for id, claim in lines.to_dict("index").items():
        minorities = MINORITIES if claim["experiment"] in IDS.values() else [DECISIVE]
        found[id] = (
            claim,
            {minority: decide(at_minority(claim, minority), profile) for minority in minorities},
        )
    return found


def _decided_rows(profile):
    for claim, found in decided(profile).values():
        summaries = [minority in found and found[minority].summary for minority in MINORITIES]
        digits = 1 if claim["unit"] == "pp" else 3
        cells = [estimate(summary, digits) if summary else "" for summary in summaries]
        yield [claim["claim"], higher(claim), *cells, found[DECISIVE]]


verdicts = Report(
    "causal_transformer.table1_verdicts",
    [
        "the paper's claim",
        "stated",
        *(f"ours, {share}" for share in SHARES.values()),
        f"verdict, {SHARES[DECISIVE]}",
    ],
    [_decided_rows],
    "The paper's claims: mean ± half of the 95 % interval (seeds), and the verdict by rule",
    "pp: percentage points; otherwise shares. BiLSTM stands for ESIM, Transformer for BERT "
    'trained from scratch, + both for the Causal Transformer. The rule takes "no better" for '
    '"lower": with 0 inside the interval, neither is shown. Rows on the loss and '
    "on masks are means over both tasks, which need not agree: see the differences. The random mask is asked "
    "questions that order alone answers (notebook 15), on the seeds that both experiments have.",
)


def minority_figure(profile: str | None = None):
    """(figure, alt): accuracy on the challenge's second half over the minority, a line for each arm."""
    import matplotlib.pyplot as plt
    import numpy as np

    from causalnb.lab.figures import headline, intervals, text_size

    fig, axes = plt.subplots(1, len(TASKS), figsize=(7.4, 3.2), sharey=True)
    told, ends = [], {words: [] for words, *_ in TASKS.values()}
    for ax, (task, (words, _, (_, other))) in zip(axes, TASKS.items(), strict=True):
        for place, (name, look) in enumerate(LOOKS.items()):
            each = [
                percentage(trained(task, minority, name), f"challenge_{other}", profile)
                for minority in MINORITIES
            ]
            where = np.arange(len(each)) + 0.11 * (place - (len(LOOKS) - 1) / 2)  # side by side
            intervals(ax, where, each, *look, within=(0, 100), capsize=2, label=ARMS[name], linewidth=1)
            told.append(f"{words}, {ARMS[name]}: " + " / ".join(f"{score.mean:.0f}" for score in each))
            if name in ("bilstm", "transformer", "both"):
                end = f"{ARMS[name]} {each[-1].mean:.0f} %"
                ends[words].append(end.replace(" ", "\N{NO-BREAK SPACE}"))  # a line ends behind it
        ax.set_xticks(range(len(SHARES)), SHARES.values())
        title = f"challenge pairs: {SAID.get(other, other)}"
        ax.set(xlabel="counter-examples in training", ylim=(-3, 103), title=title)
    sides = (f"{words} {', '.join(scores)}" for words, scores in ends.items())
    headline(fig, f"Against the rule, most counter-examples: {'; '.join(sides)}")
    axes[0].set_ylabel("accuracy, %")
    fig.legend(
        *axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=text_size(8)
    )
    return fig, (
        f"Two panels, accuracy in % on challenge pairs against the rule, for "
        f"{', '.join(SHARES.values())} of counter-examples. {'; '.join(told)}."
    )


def minority_remark(profile: str | None = None) -> str:
    """What counter-examples do for the plain Transformer, and what the method does; a sentence a task."""
    first, *_, last = MINORITIES
    told = []
    for task, (words, *_) in TASKS.items():
        data = trained(task, last, PLAIN) - trained(task, first, PLAIN)
        moved, method = (
            points(gap.summary("challenge_accuracy", profile))
            for gap in (data, contrast(task, "both", PLAIN))
        )
        told.append(
            f"{words.capitalize()}: {SHARES[last]} of counter-examples in place of {SHARES[first]} "
            f"change the plain Transformer's challenge score by {moved} points. The whole "
            f"method changes it by {method} points, mean over the shares of counter-examples."
        )
    return " ".join(told)


@lru_cache(None)
def but_exceptions(task: str, minority: str = DECISIVE, pairs: int = 12_000) -> float:
    """The accuracy in distribution of who misses nothing but the counter-examples, of so many drawn pairs.

    These have all words in common and not the label that overlap tells.
    """
    from causalnb.tasks.sentence_pairs import words

    home = import_module(f"causalnb.tasks.{OVERLAP[task]['task']}")
    expected = home.LABELS.index(TASKS[task][2][0])
    missed = [
        {*words(row["sentence2"])} <= {*words(row["sentence1"])}
        for row in home.pairs(pairs, MINORITIES[minority])
        if row["label"] != expected
    ]
    return 1 - sum(missed) / pairs


def gate_remark(profile: str | None = None, slack: float = 0.005) -> str:
    """Whether each Transformer misses little but the counter-examples, `slack` at most; a sentence a task."""
    told = []
    for task, (words, *_) in TASKS.items():
        most = but_exceptions(task)
        means = {
            ARMS[name]: trained(task, DECISIVE, name).summary("test_accuracy", profile).mean
            for name in (PLAIN, "gcn", "loss", "both", "entropy")
        }
        short = [f"{name} ({share:.1%})" for name, share in means.items() if share < most - slack]
        told.append(
            f"{words.capitalize()}: who misses nothing but the counter-examples has {most:.1%} in "
            f"distribution; more than {100 * slack:.2g} points below are "
            + (f"{', '.join(short)}, and what they lack on the challenge may be this." if short else "none.")
        )
    return " ".join(told)


@builds(
    "causal_transformer.table1",
    accuracies,
    *map(full, TASKS),
    *map(by_kind, TASKS),
    answers,
    contrasts,
    verdicts,
)
def table1(profile):
    """Table 1: its printed shape, both tasks in full, published answers, paired differences, the claims."""
    caption = "What moves the challenge score: counter-examples in training, or the architecture."
    draw(profile, "causal_transformer.table1_minority", minority_figure(profile), caption)
