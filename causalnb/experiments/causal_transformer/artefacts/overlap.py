"""Table 1 of the Causal Transformer with controls and paired differences, and the search before it."""

from functools import lru_cache
from importlib import import_module

from causalnb.experiments.causal_transformer.grid import ENTROPIES, GCN_RATES, MINORITIES, OVERLAP
from causalnb.lab import evidence
from causalnb.lab.registry import artefact
from causalnb.lab.statistics import sign_flip
from causalnb.lab.tables import points

PUBLISHED = "causal_transformer.published"
TASKS = {  # task -> its name, its columns in the paper, its labels: the one that overlap tells, and the other
    "nli": ("entailment", ("MNLI-m", "HANS"), ("entailment", "non-entailment")),
    "paraphrase": ("paraphrase", ("QQP", "PAWS-QQP"), ("paraphrase", "other")),
}
IDS = {
    (task, minority): f"causal_transformer.overlap.{task}.{minority}"
    for task in OVERLAP
    for minority in MINORITIES
}
MASKED = {task: f"causal_transformer.masked.{task}" for task in OVERLAP}
SEARCHES = {task: f"causal_transformer.search.{task}" for task in OVERLAP}
AGAIN = {task: f"causal_transformer.search.rate.{task}" for task in GCN_RATES}  # + both, at + GCN's rate
AGAIN_USED = {task: f"causal_transformer.rate.{task}" for task in GCN_RATES}
DRAWS = "causal_transformer.draws.paraphrase"
LONGER = {task: f"causal_transformer.longer.{task}" for task in OVERLAP}
DECISIVE = "m5"  # the minority that the search used and the claims are decided at
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
CONTRASTS = [
    *((arm, PLAIN) for arm in ("bow", "bilstm", "gcn", "loss", "both", "entropy", "band", "random")),
    ("loss", "entropy"),
    ("both_stl", "transformer_stl"),
]
LOOKS = {
    "bow": ("orange", "--", "s"),
    "bilstm": ("yellow", "-.", "^"),
    PLAIN: ("black", "-", "o"),
    "gcn": ("sky", "--", "v"),
    "loss": ("green", "-.", "P"),
    "both": ("blue", "-", "D"),
    "entropy": ("purple", ":", "X"),
}
NOT_GIVEN = object()  # of a setting that a try leaves as it is
SAID = {"other": "no paraphrase"}  # labels whose name says too little in a table
CLAIMS = [f"causal_transformer.claim{number}" for number in (*range(1, 14), 19, 21, 22)]


def share(minority: str) -> str:
    """A key of MINORITIES as a reader says it."""
    return f"{100 * MINORITIES[minority]:g} %"


# Table 1


def measured(profile: str | None = None) -> dict[tuple[str, str], object]:
    """{(task, minority): DataFrame of all arms by (arm, seed)}; LabError where results are missing."""
    from pandas import concat

    found = {key: evidence.require(id, profile).set_index(["arm", "seed"]) for key, id in IDS.items()}
    for task, id in MASKED.items():
        masked = evidence.require(id, profile).set_index(["arm", "seed"])
        found[task, DECISIVE] = concat([found[task, DECISIVE], masked])
    return found


def real_cells(task: str, profile: str | None = None) -> list[str]:
    """The published sets that a task's models are asked in a profile."""
    from causalnb.lab import registry

    return registry.config(IDS[task, DECISIVE], PLAIN, profile)["real"]


def headings(task: str, profile: str | None = None) -> dict[str, str]:
    """{metric: heading} of a task's full table."""
    halves = {f"challenge_{label}": f"challenge, {SAID.get(label, label)}" for label in TASKS[task][2]}
    found = {
        "test_accuracy": "in distribution",
        "challenge_accuracy": "challenge",
        **halves,
        "held_out_accuracy": "other templates",
    }
    real = {
        "mnli_contradicting": {"accuracy": "MNLI's contradicting pairs"},
        "paws_qqp": {"accuracy": "PAWS-QQP", "other": f"PAWS-QQP, {SAID['other']}"},
    }
    return found | {
        f"{cell}_{score}": heading
        for cell in real_cells(task, profile)
        for score, heading in real[cell].items()
    }


def percent(values) -> str:
    """A table cell: the mean of shares in percent, half of its interval, how many."""
    from causalnb.lab.statistics import mean_ci
    from causalnb.lab.tables import estimate

    return estimate(mean_ci([100 * value for value in values]), 1)


def score(arm: str, values) -> str:
    """A table cell: `percent` of an arm; of the constant answer what each of both labels scores.

    Labels are balanced, so that a seed answers this or that by chance.
    """
    if arm != "constant":
        return percent(values)
    return " or ".join(
        f"{100 * one:.1f}"
        for one in sorted({round(one, 3) for value in values for one in (value, 1 - value)})
    )


def published(profile: str | None = None) -> dict[str, dict[str, float]]:
    """{arm: metrics} of the published files."""

    found = evidence.require(PUBLISHED, profile).set_index("arm").drop(columns="seed")
    return {arm: row.dropna().to_dict() for arm, row in found.iterrows()}


def constant_scores(profile: str | None = None) -> dict[str, float]:
    """{column of the paper: accuracy of its most frequent answer, 0 to 1} of both challenge sets."""
    from causalnb.tasks import hans

    labels = [row["label"] for row in hans.published_rows()]
    likeliest, no = max(sum(labels), len(labels) - sum(labels)) / len(labels), always_no(profile)
    return {"HANS": likeliest, "PAWS-QQP": max(no, 1 - no)}


def always_no(profile: str | None = None) -> float:
    """The accuracy on PAWS-QQP, 0 to 1, of who calls no pair a paraphrase."""
    one = published(profile)["paws_qqp"]
    pairs, positive = (
        sum(value for name, value in one.items() if name.startswith(kind)) for kind in ("pairs_", "label_")
    )
    return (pairs - positive) / pairs


def printed_scores() -> dict[str, dict[str, float]]:
    """{row: {column: accuracy in %}} of the paper's Table 1, nan where it prints none."""
    from causalnb.lab.tables import paper

    table = paper("causal_transformer.table1")
    return table.pivot(index="row", columns="column", values="value").loc[table.row.unique()].T.to_dict()


def table1(found: dict, profile: str | None = None):
    """Table 1 in its printed shape: the paper's rows, the best constant answer, and ours at DECISIVE."""
    from causalnb.lab.tables import Table

    columns = [column for _, names, _ in TASKS.values() for column in names]
    rows = [
        [
            f"paper: {row}",
            *("" if cells[column] != cells[column] else f"{cells[column]:.1f}" for column in columns),
        ]
        for row, cells in printed_scores().items()
    ]
    constant = constant_scores(profile)
    rows.append(
        [
            "the most frequent answer",
            *(f"{100 * constant[column]:.1f}" if column in constant else "" for column in columns),
        ]
    )
    for arm, name in ARMS.items():
        cells = [
            score(arm, found[task, DECISIVE].loc[arm, f"{cell}_accuracy"])
            for task in TASKS
            for cell in ("test", "challenge")
        ]
        rows.append([f"ours: {name}", *cells])
    return Table(
        "causal_transformer.table1",
        ["", *columns],
        rows,
        "Table 1: accuracy in %; ours: mean ± half of the 95 % interval (seeds)",
        f"Ours stand under the columns they imitate: small models and pairs made by templates, "
        f"{share(DECISIVE)} of the pairs with full overlap against the rule. The paper's numbers "
        "are one each, without a word on seeds; its STL rows mean two different things.",
    )


def full_table(task: str, found: dict, profile: str | None = None):
    """Every arm of a task at every minority, with both halves of the challenge."""
    from causalnb.lab.tables import Table

    heads = headings(task, profile)
    rows = [
        [
            share(minority),
            name,
            *(score(arm, found[task, minority].loc[arm, metric]) for metric in heads),
            entropy(found[task, minority].loc[arm]),
        ]
        for minority in MINORITIES
        for arm, name in ARMS.items()
        if arm in found[task, minority].index
    ]
    held = ", ".join(f"{ENTROPIES[task][minority]:g} at {share(minority)}" for minority in MINORITIES)
    return Table(
        f"causal_transformer.table1_{task}",
        ["counter-examples", "arm", *heads.values(), "entropy of attention, nats"],
        rows,
        f"Table 1, {TASKS[task][0]}: accuracy in %, mean ± half of the 95 % interval (seeds)",
        "With no counter-examples the training pairs do not say what the second half of the "
        f"challenge asks; settings were chosen at {share(DECISIVE)} for all rows, on other "
        "templates. Masks, and models trained on challenge pairs, have the settings of the arm that "
        "they vary. Published sets are asked of models that never read most of their content words. "
        "Entropy of attention's rows: mean over challenge pairs, layers and heads. "
        f"{ARMS['entropy']} is held to what {ARMS['loss']} ends with on validation pairs, mean over "
        f"seeds: {held} of counter-examples.",
    )


def entropy(one) -> object:
    """A table cell: the mean entropy of attention on the challenge of an arm's DataFrame, "" without any."""
    from causalnb.lab.statistics import mean_ci
    from causalnb.lab.tables import estimate

    values = one["challenge_entropy"]
    return "" if values.isna().any() else estimate(mean_ci(values), 2)


def kinds(task: str) -> dict[str, list[str]]:
    """{heading: metrics whose mean it is} of the challenge: heuristic and half, or kind of question."""
    from causalnb.tasks import overlap, paraphrase

    if task == "paraphrase":
        return {kind: [f"challenge_{kind}"] for kind in paraphrase.SAME_WORDS}
    found = {}
    for subcase in overlap.SUBCASES:
        heading = f"{overlap.HEURISTICS[subcase[0]]}, {overlap.LABELS[subcase[1] == 'n']}".replace("_", " ")
        found.setdefault(heading, []).append(f"challenge_{subcase}")
    return found


def kinds_table(task: str, found: dict):
    """Every arm on the kinds of a task's challenge pairs, at DECISIVE."""
    from causalnb.lab.tables import Table

    heads = kinds(task)
    rows = [
        [
            name,
            *(score(arm, found[task, DECISIVE].loc[arm, metrics].mean(axis=1)) for metrics in heads.values()),
        ]
        for arm, name in ARMS.items()
    ]
    return Table(
        f"causal_transformer.table1_{task}_kinds",
        ["arm", *heads],
        rows,
        f"Table 1, {TASKS[task][0]}: accuracy in % by kind of challenge pair, {share(DECISIVE)} of "
        "counter-examples, mean ± half of the 95 % interval (seeds)",
        "BoW reads no order: where it is right on kinds of both labels, words tell them apart; "
        "where on one alone, that may be the habit of one answer.",
    )


def bert_runs(profile: str | None = None):
    """DataFrame of the published runs of BERT: mnli, accuracy on HANS, and its two halves, 0 to 1."""
    from causalnb.lab import results

    evidence.require(PUBLISHED, profile, ["bert_runs"])
    return results.curves(PUBLISHED, profile, ["bert_runs"]).drop(columns=["arm", "seed"])


def published_table(profile: str | None = None):
    """HANS as published predictions answer it, and one fine-tuning of BERT repeated."""
    from causalnb.lab.tables import Table
    from causalnb.tasks import hans, overlap

    cells, found = ("accuracy", *overlap.LABELS), published(profile)["hans"]
    rows = [
        [model, "", *(f"{100 * found[f'{model}_{cell}']:.1f}" for cell in cells)] for model in hans.MODELS
    ]
    runs = 100 * bert_runs(profile)
    each, name = [runs[cell] for cell in ("mnli", *cells)], f"BERT, {len(runs)} runs"
    rows += [
        [f"{name}: mean ± sd", *(f"{one.mean():.1f} ± {one.std():.1f}" for one in each)],
        [f"{name}: range", *(f"{one.min():.1f} to {one.max():.1f}" for one in each)],
    ]
    return Table(
        "causal_transformer.table1_published",
        ["model", "MNLI-m", "HANS", *overlap.LABELS],
        rows,
        "Published answers on HANS, scored again: accuracy in %",
        "The runs differ in the seed alone, which initialises the classifier and orders the data.",
    )


def gap(found: dict, task: str, arm: str, other: str, metric: str, minorities=tuple(MINORITIES)):
    """Series by seed: arm - other in a metric, mean over minorities, of the seeds that all have."""
    gaps = [
        found[task, minority].loc[arm][metric] - found[task, minority].loc[other][metric]
        for minority in minorities
    ]
    return (sum(gaps) / len(gaps)).dropna()


def tested(differences) -> str:
    """A table cell: a mean difference in points with its interval, and the p of the sign-flip test."""
    from causalnb.lab.statistics import mean_ci

    return f"{points(mean_ci(differences))}, p {sign_flip(differences):.2g}"


PUBLISHED_SCORE = "PAWS-QQP, macro-F"
ONE_LABEL = (
    "Accuracy on a published set with more of one label grows with the habit of that answer: so "
    "PAWS-QQP is compared by macro-F, and MNLI's contradicting pairs, of one label, not at all."
)


def two_labelled(task: str, profile: str | None = None) -> list[str]:
    """The scores by which arms are compared on a task's published sets: none of a set with one label."""
    return [f"{cell}_macro_f" for cell in real_cells(task, profile) if cell == "paws_qqp"]


def counted_tests(rows: list) -> str:
    """How many p values stand in a table's rows, in words."""
    return f"the {sum(', p ' in cell for row in rows for cell in row)} tests of this table"


def contrasts_table(found: dict, profile: str | None = None):
    """Paired differences of arms, in distribution and on the challenge, at each minority and over all."""
    from causalnb.lab.tables import Table

    rows = []
    for task, (name, *_) in TASKS.items():
        real = two_labelled(task, profile)
        for arm, other in CONTRASTS:
            both = [minority for minority in MINORITIES if arm in found[task, minority].index]
            cells = [
                tested(gap(found, task, arm, other, "challenge_accuracy", [minority]))
                if minority in both
                else ""
                for minority in MINORITIES
            ]
            cells += [
                tested(gap(found, task, arm, other, metric, both))
                for metric in ("challenge_accuracy", "test_accuracy", "held_out_accuracy", *real)
            ]
            rows.append([name, f"{ARMS[arm]} - {ARMS[other]}", *cells, *[""] * (1 - len(real))])
    heads = [f"challenge, {share(minority)}" for minority in MINORITIES] + [
        f"{cell}, mean" for cell in ("challenge", "in distribution", "other templates", PUBLISHED_SCORE)
    ]
    seeds = {
        minority: min(len(found[task, minority].loc[PLAIN]) for task in TASKS) for minority in MINORITIES
    }
    floors = "; ".join(f"{share(minority)}, {n} seeds: {2 / 2**n:.2g}" for minority, n in seeds.items())
    return Table(
        "causal_transformer.table1_contrasts",
        ["task", "difference, points", *heads],
        rows,
        "Table 1: differences of the same seeds, mean [95 % interval] (seeds), and the p of the "
        "exact sign-flip test",
        "mean: over the shares of counter-examples at which both arms ran, of the seeds that all "
        f"have. No p can be below, at {floors}. Nothing is corrected for {counted_tests(rows)}. "
        f"{ONE_LABEL}",
    )


def at_minority(claim: dict, minority: str) -> dict:
    """A row of claims.csv, decided at DECISIVE, with the experiments of another minority."""
    moved = {
        name: claim[name].replace(f".{DECISIVE}", f".{minority}")
        for name in ("experiment", "our_treatment", "our_baseline")
        if isinstance(claim[name], str)
    }
    return {**claim, **moved}


def decided(ids=tuple(CLAIMS), profile: str | None = None) -> dict[str, tuple]:
    """{claim: (its row, {minority: Verdict})}; one on no experiment of IDS has DECISIVE's alone."""
    from causalnb.lab.verdicts import claims, decide

    rows = claims("causal_transformer").set_index("id", drop=False)
    found = {}
    for id in ids:
        row = rows.loc[id].to_dict()
        everywhere = row["experiment"] in IDS.values()
        found[id] = (
            row,
            {
                minority: decide(at_minority(row, minority), profile)
                for minority in (MINORITIES if everywhere else [DECISIVE])
            },
        )
    return found


def stated(row: dict) -> str:
    """What a claim says of its contrast, "higher 4.9 pp"."""
    size = f" {row['size']:g} {row['unit']}" if row["size"] == row["size"] else ""
    return ("higher" if row["direction"] == "+" else "lower") + size


def verdicts_table(profile: str | None = None):
    """The claims on Table 1 and on the loss, the contrast at every minority, and the verdict at DECISIVE."""
    from causalnb.lab.tables import Table, estimate

    def cell(row, verdicts, minority):
        if minority not in verdicts or verdicts[minority].summary is None:
            return ""
        return estimate(verdicts[minority].summary, 1 if row["unit"] == "pp" else 3)

    rows = [
        [row["claim"], stated(row), *(cell(row, found, minority) for minority in MINORITIES), found[DECISIVE]]
        for row, found in decided(profile=profile).values()
    ]
    return Table(
        "causal_transformer.table1_verdicts",
        [
            "the paper's claim",
            "stated",
            *(f"ours, {share(minority)}" for minority in MINORITIES),
            f"verdict, {share(DECISIVE)}",
        ],
        rows,
        "The paper's claims: mean ± half of the 95 % interval (seeds), and the verdict by rule",
        "pp: percentage points; otherwise shares. BiLSTM stands for ESIM, Transformer for BERT "
        'trained from scratch, + both for the Causal Transformer. The rule takes "no better" for '
        '"lower": with 0 inside the interval, neither is shown. Rows on the loss and '
        "on masks are means over both tasks, which need not agree: see the differences.",
    )


def minority_figure(found: dict):
    """(figure, alt): accuracy on the challenge's second half over the minority, a line for each arm."""
    import matplotlib.pyplot as plt
    import numpy as np

    from causalnb.lab.figures import COLOURS
    from causalnb.lab.statistics import mean_ci

    fig, axes = plt.subplots(1, len(TASKS), figsize=(7.4, 3.0), sharey=True)
    told = []
    for ax, (task, (name, _, (_, other))) in zip(axes, TASKS.items(), strict=False):
        for place, (arm, (colour, line, marker)) in enumerate(LOOKS.items()):
            each = [mean_ci(100 * found[task, one].loc[arm, f"challenge_{other}"]) for one in MINORITIES]
            where = np.arange(len(each)) + 0.03 * (place - len(LOOKS) / 2)
            ends = [
                [one.mean - max(one.low, 0) for one in each],
                [min(one.high, 100) - one.mean for one in each],
            ]
            ax.errorbar(
                where,
                [one.mean for one in each],
                yerr=np.nan_to_num(ends),
                color=COLOURS[colour],
                linestyle=line,
                marker=marker,
                capsize=2,
                label=ARMS[arm],
            )
            told.append(f"{name}, {ARMS[arm]}: " + " / ".join(f"{one.mean:.0f}" for one in each))
        ax.set_xticks(range(len(MINORITIES)), map(share, MINORITIES))
        ax.set(
            xlabel="counter-examples in training",
            ylim=(-3, 103),
            title=f"challenge pairs: {SAID.get(other, other)}",
        )
    axes[0].set_ylabel("accuracy, %")
    fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8)
    return fig, (
        f"Two panels, accuracy in % on challenge pairs against the rule, for "
        f"{', '.join(map(share, MINORITIES))} of counter-examples. {'; '.join(told)}."
    )


def minority_remark(found: dict) -> str:
    """What counter-examples do for the plain Transformer, and what the method does; a sentence a task."""
    from causalnb.lab.statistics import mean_ci

    first, *_, last = MINORITIES
    told = []
    for task, (name, *_) in TASKS.items():
        plain = {one: found[task, one].loc[PLAIN, "challenge_accuracy"] for one in (first, last)}
        data = mean_ci((plain[last] - plain[first]).dropna())
        method = mean_ci(gap(found, task, "both", PLAIN, "challenge_accuracy"))
        told.append(
            f"{name.capitalize()}: {share(last)} of counter-examples in place of {share(first)} "
            f"change the plain Transformer's challenge score by {points(data)} points. The whole "
            f"method changes it by {points(method)} points, mean over the shares of "
            "counter-examples."
        )
    return " ".join(told)


@lru_cache(None)
def but_exceptions(task: str, minority: str = DECISIVE, pairs: int = 12_000) -> float:
    """The accuracy in distribution of who misses nothing but the counter-examples, of so many drawn pairs.

    These have all words in common and not the label that overlap tells.
    """
    from causalnb.tasks.sentence_pairs import words

    home = import_module(f"causalnb.tasks.{OVERLAP[task]['task']}")
    told = home.LABELS.index(TASKS[task][2][0])
    rows = home.pairs(pairs, MINORITIES[minority])
    return (
        1
        - sum(
            row["label"] != told and {*words(row["sentence2"])} <= {*words(row["sentence1"])} for row in rows
        )
        / pairs
    )


def gate_remark(found: dict, slack: float = 0.005) -> str:
    """Whether each Transformer misses little but the counter-examples, `slack` at most; a sentence a task."""
    told = []
    for task, (name, *_) in TASKS.items():
        most = but_exceptions(task)
        scores = {
            ARMS[arm]: found[task, DECISIVE].loc[arm, "test_accuracy"].mean()
            for arm in (PLAIN, "gcn", "loss", "both", "entropy")
        }
        short = [f"{arm} ({score:.1%})" for arm, score in scores.items() if score < most - slack]
        told.append(
            f"{name.capitalize()}: who misses nothing but the counter-examples has {most:.1%} in "
            f"distribution; more than {100 * slack:.2g} points below are "
            + (f"{', '.join(short)}, and what they lack on the challenge may be this." if short else "none.")
        )
    return " ".join(told)


def longer_table(found: dict, profile: str | None = None):
    """The Transformer and the whole method of Table 1 at DECISIVE, and after twice the steps."""
    from causalnb.lab import registry
    from causalnb.lab.tables import Table

    steps = {
        key: registry.config(id, PLAIN, profile)["steps"]
        for key, id in (("once", IDS["nli", DECISIVE]), ("twice", LONGER["nli"]))
    }
    rows = []
    for task, (name, *_) in TASKS.items():
        both = {
            "once": found[task, DECISIVE],
            "twice": evidence.require(LONGER[task], profile).set_index(["arm", "seed"]),
        }
        for arm in registry.experiment(LONGER[task]).arms:
            cells = [
                percent(one.loc[arm, f"{cell}_accuracy"])
                for cell in ("test", "challenge")
                for one in both.values()
            ]
            more = both["twice"].challenge_accuracy
            gain = (more[arm] - more[PLAIN]).dropna()
            rows.append([name, ARMS[arm], *cells, "" if arm == PLAIN else tested(gain)])
    most = " and ".join(f"{but_exceptions(task):.1%} ({name})" for task, (name, *_) in TASKS.items())
    return Table(
        "causal_transformer.longer",
        [
            "task",
            "arm",
            "in distribution",
            "in distribution, longer",
            "challenge",
            "challenge, longer",
            "challenge - Transformer's, longer",
        ],
        rows,
        "Table 1's Transformer, the whole method, and twice the training: accuracy in %, mean ± "
        "half of the 95 % interval (seeds)",
        f"{steps['once']:,} steps, longer {steps['twice']:,}; {share(DECISIVE)} of "
        f"counter-examples. Who misses nothing but these has {most} in distribution. Last column: "
        "points, differences of the same seeds, and the p of the exact sign-flip test.",
    )


@artefact("causal_transformer.table1", needs=(*IDS.values(), *MASKED.values(), PUBLISHED))
def build_table1(profile):
    """Table 1: its printed shape, both tasks in full, published answers, paired differences, the claims."""
    from causalnb.lab.figures import save_figure
    from causalnb.lab.tables import save_table

    found = measured(profile)
    for table in (
        table1(found, profile),
        *(full_table(task, found, profile) for task in TASKS),
        *(kinds_table(task, found) for task in TASKS),
        published_table(profile),
        contrasts_table(found, profile),
        verdicts_table(profile),
    ):
        save_table(table)
    fig, alt = minority_figure(found)
    save_figure(
        fig,
        "causal_transformer.table1_minority",
        alt=alt,
        caption="What moves the challenge score: counter-examples in training, or the architecture.",
    )


@artefact(
    "causal_transformer.longer",
    needs=(*(IDS[task, DECISIVE] for task in OVERLAP), *LONGER.values()),
    extra=True,
    printed_as="ours",
    kind="measured",
    notebook="11_spurious_correlations",
    shows="the Transformer and the whole method of Table 1 after twice the training",
)
def build_longer(profile):
    """What twice the training changes."""
    from causalnb.lab.tables import save_table

    found = {
        (task, DECISIVE): evidence.require(IDS[task, DECISIVE], profile).set_index(["arm", "seed"])
        for task in TASKS
    }
    save_table(longer_table(found, profile))


def by_draw(profile: str | None = None) -> dict[str, object]:
    """{arm: DataFrame by seed} on paraphrases: Table 1's Transformer, each draw of the mask, relative places.

    All have the seeds of DRAWS; the draw 0 is Table 1's "+ random mask".
    """

    more = evidence.require(DRAWS, profile).set_index(["arm", "seed"])
    table = {
        arm: evidence.require(id, profile, [arm]).set_index(["arm", "seed"])
        for arm, id in ((PLAIN, IDS["paraphrase", DECISIVE]), ("random", MASKED["paraphrase"]))
    }
    found = {arm: more.loc[arm] for arm in more.index.unique("arm")}
    seeds = sorted(set.intersection(*(set(one.index) for one in found.values())))
    first = {name: table[arm].loc[arm].loc[seeds] for name, arm in ((PLAIN, PLAIN), ("draw_0", "random"))}
    return first | found


def draws_table(profile: str | None = None):
    """Table 1's Transformer on paraphrases through five draws of one mask, and with relative positions."""
    from causalnb.lab import registry
    from causalnb.lab.tables import Table

    heads = {
        "test_accuracy": "in distribution",
        "challenge_accuracy": "challenge",
        **{f"challenge_{kind}": f"challenge, {kind}" for kind in kinds("paraphrase")},
        "held_out_accuracy": "other templates",
    }
    names = {PLAIN: ARMS[PLAIN], "draw_0": "draw 0, Table 1's", "relative": "no mask, relative positions"}
    rows = [
        [names.get(arm, arm.replace("_", " ")), *(percent(one[metric]) for metric in heads)]
        for arm, one in by_draw(profile).items()
    ]
    config = registry.config(MASKED["paraphrase"], "random", profile)
    return Table(
        "causal_transformer.draws",
        ["", *heads.values()],
        rows,
        "The random mask of Table 1 drawn anew, paraphrase: accuracy in %, mean ± half of the 95 % "
        "interval (seeds)",
        f"A draw lets a token see each other one with probability {config['pattern_share']:g}, the "
        "same in all layers, heads and sentences; the first token sees all and is seen by all. "
        f"{share(DECISIVE)} of counter-examples, settings of Table 1's Transformer. Draws 1 to 4 "
        "were made after Table 1 was seen, and answer the same challenge pairs.",
    )


def draws_remark(profile: str | None = None) -> str:
    """What the mask adds to the Transformer, draws being the units; three sentences."""
    from causalnb.lab.statistics import mean_ci

    found = by_draw(profile)
    gains = {
        arm: (one.challenge_accuracy - found[PLAIN].challenge_accuracy).mean()
        for arm, one in found.items()
        if arm != PLAIN
    }
    places = gains.pop("relative")
    each = ", ".join(f"{100 * gain:+.1f}" for gain in gains.values())
    return (
        f"Over {len(gains)} draws of the mask, each the mean of the same {len(found[PLAIN])} seeds, the "
        f"challenge score moves by {points(mean_ci(list(gains.values())))} points; by draw {each}. "
        "The interval holds for the Transformers of these seeds, whose own error is not in it. "
        f"Relative positions without a mask move it by {100 * places:+.1f} points."
    )


@artefact(
    "causal_transformer.draws",
    needs=(IDS["paraphrase", DECISIVE], MASKED["paraphrase"], DRAWS),
    extra=True,
    printed_as="ours",
    kind="measured",
    notebook="11_spurious_correlations",
    shows="the random mask of Table 1 drawn four more times, and relative positions in its place",
)
def build_draws(profile):
    """Whether what the random mask does is the mask's or that of one draw."""
    from causalnb.lab.tables import save_table

    save_table(draws_table(profile))


# The search


def tries(task: str, profile: str | None = None):
    """DataFrame of all tries: arm, number, what varies (a text), used (as in Table 1), and the scores."""
    from causalnb.lab import registry

    found = evidence.require(SEARCHES[task], profile)
    found["try"] = found.arm.str.rpartition("_")[2].astype(int)
    given, kinds = registry.experiment(SEARCHES[task]).arms, found.arm.str.rpartition("_")[0]
    settings, used = {}, {}
    for name, arm in zip(found.arm, kinds, strict=True):
        siblings = [given[one] for one in given if one.rpartition("_")[0] == arm]
        varied = {
            key
            for one in siblings
            for key in one
            if any(other.get(key, NOT_GIVEN) != one[key] for other in siblings)
        }
        settings[name] = ", ".join(
            f"{key} {'constant' if value is None else value}"  # of a schedule alone
            for key, value in given[name].items()
            if key in varied
        )
        tried, ran = (
            registry.config(*where, profile) for where in ((SEARCHES[task], name), (IDS[task, DECISIVE], arm))
        )
        used[name] = all(tried[key] == ran[key] for key in varied)
    found["settings"], found["used"] = found.arm.map(settings), found.arm.map(used)
    return found.assign(arm=kinds).set_index(["arm", "try"]).sort_index()


def search_table(profile: str | None = None):
    """Every try of every arm on both tasks."""
    from causalnb.lab import registry
    from causalnb.lab.tables import Table

    found = {task: tries(task, profile) for task in TASKS}
    base, rows = registry.config(SEARCHES["nli"], f"{PLAIN}_0", profile), []
    for arm, number in sorted(found["nli"].index, key=lambda key: ([*ARMS].index(key[0]), key[1])):
        here = {task: one.loc[(arm, number)] for task, one in found.items()}
        cells = [
            f"{100 * one[f'{cell}_accuracy']:.1f}"
            for one in here.values()
            for cell in ("validation", "challenge")
        ]
        rows.append(
            [
                ARMS[arm],
                here["nli"].settings,
                *cells,
                ", ".join(TASKS[task][0] for task, one in here.items() if one.used),
            ]
        )
    more = {task: again(task, profile) for task in AGAIN}
    for number, settings in found["nli"].loc["both", "settings"].items():
        cells = [
            f"{100 * more[task].loc[number, f'{cell}_accuracy']:.1f}" if task in more else ""
            for task in TASKS
            for cell in ("validation", "challenge")
        ]
        rows.append([f"{ARMS['both']}, at {ARMS['gcn']}'s rate", settings, *cells, ""])
    heads = [f"{name}, {cell}" for name, *_ in TASKS.values() for cell in ("validation", "challenge")]
    return Table(
        "causal_transformer.search",
        ["arm", "settings", *heads, "used in Table 1"],
        rows,
        "Every try of the search: accuracy in % on the development templates, one seed",
        f"Data of another seed and of a family of templates that Table 1 never sees; "
        f"{share(DECISIVE)} of counter-examples; {base['steps']:,} steps, where Table 1 has "
        f"{registry.config(IDS['nli', DECISIVE], PLAIN, profile)['steps']:,}. Every arm here has as "
        "many tries as any other: learning rates without a penalty, and with one its weight and "
        f"schedule (constant: at weight {base['causal_weight']:g}) at the Transformer's best rate. "
        "Used is the best mean of validation and challenge, so that counter-examples are chosen "
        f"for, here alone. {again_remark(profile)}",
    )


def again(task: str, profile: str | None = None):
    """DataFrame by number of the tries of + both at + GCN's rate, one of AGAIN."""

    found = evidence.require(AGAIN[task], profile)
    return found.set_index(found.arm.str.rpartition("_")[2].astype(int))


def again_remark(profile: str | None = None) -> str:
    """What the best try of + both at + GCN's rate reaches in Table 1, where that is not the Transformer's."""

    told = []
    for task, id in AGAIN_USED.items():
        ours, here = evidence.require(id, profile).set_index("seed"), IDS[task, DECISIVE]
        frame = evidence.require(here, profile).set_index(["arm", "seed"])
        parts = [
            f"{name} {percent(ours[metric])}, {ARMS['both']} as used "
            f"{percent(frame.loc['both', metric])}, the Transformer {percent(frame.loc[PLAIN, metric])}"
            for name, metric in (("in distribution", "test_accuracy"), ("challenge", "challenge_accuracy"))
        ]
        told.append(
            f"Last, as a check: {ARMS['both']} in {TASKS[task][0]} at {ARMS['gcn']}'s best rate, "
            "which is another there. The best of these tries has on Table 1's data: "
            f"{'; '.join(parts)}."
        )
    return " ".join(told)


def search_figure(profile: str | None = None):
    """(figure, alt): the challenge score of every try, a column for each arm; those used are filled."""
    import matplotlib.pyplot as plt

    from causalnb.lab.figures import COLOURS

    every = [(name, tries(task, profile)) for task, (name, *_) in TASKS.items()]
    fig, axes = plt.subplots(1, len(TASKS), figsize=(7.4, 2.6), sharey=True)
    told = []
    for ax, (name, found) in zip(axes, every, strict=True):
        arms = [arm for arm in ARMS if arm in found.index]
        for place, arm in enumerate(arms):
            one = found.loc[arm]
            for number, row in one.iterrows():
                ax.plot(
                    place + 0.1 * (number - (len(one) - 1) / 2),
                    100 * row.challenge_accuracy,
                    "o",
                    color=COLOURS["blue"],
                    fillstyle="full" if row.used else "none",
                    linestyle="",
                )
            told.append(
                f"{name}, {ARMS[arm]}: {100 * one.challenge_accuracy.min():.0f} to "
                f"{100 * one.challenge_accuracy.max():.0f}"
            )
        ax.set_xticks(range(len(arms)), [ARMS[arm] for arm in arms], rotation=30, ha="right")
        ax.set(title=name)
    axes[0].set_ylabel("challenge, %")
    return fig, (
        "Two panels, a column of dots for each arm: the challenge score of every try in %, filled "
        f"where Table 1 uses the settings. {'; '.join(told)}."
    )


def search_remark(profile: str | None = None) -> str:
    """For each task, how far tries of one arm are apart, and best tries of different arms."""
    told = []
    for task, (name, *_) in TASKS.items():
        scores = 100 * tries(task, profile).challenge_accuracy
        spread = (scores.groupby("arm").max() - scores.groupby("arm").min()).mean()
        best = scores.groupby("arm").max()
        told.append(
            f"{name.capitalize()}: the best and the worst try of an arm are {spread:.1f} points "
            f"apart on average; with its best try, + both scores {best['both'] - best[PLAIN]:+.1f} "
            f"points against the Transformer with its best."
        )
    return " ".join(told)


@artefact(
    "causal_transformer.search",
    needs=(
        *SEARCHES.values(),
        *AGAIN.values(),
        *AGAIN_USED.values(),
        *(IDS[task, DECISIVE] for task in AGAIN),
    ),
    extra=True,
    printed_as="ours",
    kind="measured",
    notebook="11_spurious_correlations",
    shows="every try of the search for learning rates, and for weights and schedules of the loss",
)
def build_search(profile):
    """The search."""
    from causalnb.lab.figures import save_figure
    from causalnb.lab.tables import save_table

    save_table(search_table(profile))
    fig, alt = search_figure(profile)
    save_figure(
        fig,
        "causal_transformer.search_tries",
        alt=alt,
        caption="Every try of the search, on templates that Table 1 does not train on.",
    )
