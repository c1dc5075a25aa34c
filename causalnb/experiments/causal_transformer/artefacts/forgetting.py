"""Figures 1 and 7 of the Causal Transformer: what three tasks in sequence leave, and what overlap tells."""

from causalnb.experiments.causal_transformer.artefacts.overlap import ARMS, LOOKS, PUBLISHED, stated
from causalnb.experiments.causal_transformer.grid import STAGES
from causalnb.experiments.causal_transformer.published import GROUPS, PAIRS
from causalnb.lab import evidence
from causalnb.lab.registry import artefact
from causalnb.lab.tables import points

SEQUENCE = "causal_transformer.sequence"
MODELS = ("bow", "bilstm", "transformer", "both")
HATCHES = {"bow": "//", "bilstm": "..", "transformer": "", "both": "xx"}
NAMES = {"overlap": "entailment", "paraphrase": "paraphrase", "fact_check": "fact check"}
EARLIER = [*STAGES][:-1]  # tasks that others follow
LOST = [f"lost_{task}" for task in EARLIER]
FORGOTTEN = [f"forgotten_{task}" for task in STAGES]
SETS = {  # arm of PUBLISHED -> name, label that overlap should tell
    "snli_train": ("SNLI, validation set", "entailment"),
    "snli_test": ("SNLI, test set", "entailment"),
    "mnli": ("MNLI, development set", "entailment"),
    "mnli_contradicting": ("MNLI, contradicting pairs", "entailment"),
    "paws_qqp": ("PAWS-QQP", "paraphrase"),
    "our_nli": ("ours, entailment", "entailment"),
    "our_challenge": ("ours, challenge", "entailment"),
    "our_questions": ("ours, questions", "paraphrase"),
    "our_swapped": ("ours, swapped questions", "paraphrase"),
}
CURVES = {
    "snli_train": ("blue", "-", "o"),
    "mnli": ("green", "--", "s"),
    "our_nli": ("purple", "-.", "^"),
    "paws_qqp": ("vermillion", ":", "D"),
}
SHOWN = (  # examples of Figure 7: arm of PUBLISHED, whether the pair has the label that overlap should tell
    ("snli_train", True),
    ("mnli", True),
    ("our_challenge", False),
    ("mnli_contradicting", False),
    ("paws_qqp", True),
    ("paws_qqp", False),
)
LEAST = 20  # pairs of a group of which Figure 7 shows a share
FULL = len(GROUPS) - 1


# Figure 1


def sequence(profile: str | None = None):
    """DataFrame of the metrics of MODELS by (arm, seed); LabError where results are missing."""

    return evidence.require(SEQUENCE, profile, MODELS).set_index(["arm", "seed"])


def probes(profile: str | None = None) -> int:
    """How many training examples of a task are looked at again and again."""
    from causalnb.lab import registry

    return registry.config(SEQUENCE, MODELS[0], profile)["probe_rows"]


def sequence_figure(profile: str | None = None):
    """(figure, alt): the share of learned examples lost in later stages, and accuracies after each stage."""
    import matplotlib.pyplot as plt
    import numpy as np

    from causalnb.lab.figures import COLOURS
    from causalnb.lab.statistics import mean_ci

    found, tasks = sequence(profile), [*STAGES]
    fig, (bars, *lines) = plt.subplots(1, 1 + len(tasks), figsize=(9.4, 3.0), width_ratios=[1.4, 1, 1, 1])
    width, told = 0.8 / len(MODELS), []
    for place, arm in enumerate(MODELS):
        each = [mean_ci(100 * found.loc[arm, name]) for name in LOST]
        where = np.arange(len(EARLIER)) + (place - (len(MODELS) - 1) / 2) * width
        bars.bar(
            where,
            [one.mean for one in each],
            width,
            yerr=np.nan_to_num([one.half for one in each]),
            color=COLOURS[LOOKS[arm][0]],
            hatch=HATCHES[arm],
            capsize=2,
            error_kw={"ecolor": "0.4"},
            edgecolor="white" if arm == "transformer" else "black",
        )
        told.append(
            f"{ARMS[arm]} lost "
            + ", ".join(f"{one.mean:.0f} % of {NAMES[task]}" for one, task in zip(each, EARLIER, strict=True))
        )
    bars.set_xticks(range(len(EARLIER)), [NAMES[task] for task in EARLIER])
    bars.set(ylabel="lost in later stages, %", title="(a) learned, then lost")
    bars.set_ylim(bottom=0)
    for stage, (ax, task) in enumerate(zip(lines, tasks, strict=True), 1):
        told += _after_stages(ax, found, task)
        ax.set(title=f"(b) {stage}: {NAMES[task]}", ylim=(0, 103), xlabel="after stage")
        ax.tick_params(labelleft=ax is lines[0])
    lines[0].set_ylabel("test accuracy, %")
    fig.legend(*lines[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(MODELS))
    return fig, (
        f"Left, bars: of those of {probes(profile)} training examples a task that were right at the "
        "end of their own stage, the share that was wrong at a later look. Right, a panel for each "
        "task with its test accuracy after each of three stages, its own stage marked by "
        f"a dotted line. {'; '.join(told)}."
    )


def _after_stages(ax, found, task: str) -> list[str]:
    """Accuracy on a task after each stage, a line for each of MODELS; what it shows, in words."""
    import numpy as np

    from causalnb.lab.figures import COLOURS
    from causalnb.lab.statistics import mean_ci

    told = []
    for arm in MODELS:
        each = [mean_ci(100 * found.loc[arm, f"after_{stage}_{task}"]) for stage in STAGES]
        colour, line, marker = LOOKS[arm]
        ax.errorbar(
            range(len(each)),
            [one.mean for one in each],
            color=COLOURS[colour],
            linestyle=line,
            marker=marker,
            yerr=np.nan_to_num([one.half for one in each]),
            capsize=2,
            label=ARMS[arm],
        )
        told.append(f"{NAMES[task]}, {ARMS[arm]}: " + " / ".join(f"{one.mean:.0f}" for one in each))
    ax.axvline([*STAGES].index(task), color="0.5", linestyle=":", marker="", linewidth=1)
    ax.set_xticks(range(len(STAGES)), range(1, len(STAGES) + 1))
    return told


def sequence_table(profile: str | None = None):
    """What each model lost and forgot, and its accuracy on each task after its own stage and at the end."""
    from causalnb.lab.statistics import mean_ci
    from causalnb.lab.tables import Table, estimate

    found, last = sequence(profile), [*STAGES][-1]
    rows = []
    for arm in MODELS:
        one = 100 * found.loc[arm]
        metrics = [
            *LOST,
            *FORGOTTEN,
            *(f"after_{stage}_{task}" for task in STAGES for stage in dict.fromkeys((task, last))),
        ]
        rows.append([ARMS[arm], *(estimate(mean_ci(one[name]), 1) for name in metrics)])
    heads = (
        [f"{NAMES[task]}, lost" for task in EARLIER]
        + [f"{NAMES[task]}, forgotten" for task in STAGES]
        + [
            f"{NAMES[task]}, {'its own stage' if stage == task else 'the end'}"
            for task in STAGES
            for stage in dict.fromkeys((task, last))
        ]
    )
    return Table(
        "causal_transformer.fig1_forgotten",
        ["model", *heads],
        rows,
        "Three tasks in sequence: training examples lost and forgotten, and test accuracy, in %, "
        "mean ± half of the 95 % interval (seeds)",
        f"Of {probes(profile)} training examples a task. Lost: of those right at the end of their "
        "own stage the share that is wrong at a later look. Forgotten: right at one look and wrong "
        "at the next, from the own stage on, so that the ups and downs of slow learning count too. "
        "The first task is looked at through two later stages, the second through one. Each model "
        "has one learning rate, searched on the first task alone.",
    )


def forgetting_remark(profile: str | None = None) -> str:
    """The claim on Figure 1 and the whole method beside the plain Transformer, in two sentences."""
    from causalnb.lab.statistics import mean_ci
    from causalnb.lab.verdicts import claims, decide

    found = sequence(profile)[LOST].mean(axis=1)
    row = claims("causal_transformer").set_index("id", drop=False).loc["causal_transformer.claim14"]
    verdict, method = decide(row, profile), mean_ci((found["both"] - found["transformer"]).dropna())
    return (
        f"Mean of the tasks that others follow: the Transformer loses {points(verdict.summary)} points "
        f"of what it had learned more than BoW and BiLSTM; the claim that it forgets fewer: {verdict}. "
        f"+ both loses {points(method)} points more than the Transformer."
    )


@artefact(
    "causal_transformer.fig1",
    needs=(SEQUENCE,),
)
def fig1(profile):
    """Figure 1: what later stages lose, and accuracies, when three tasks are learned in sequence."""
    from causalnb.lab.figures import save_figure
    from causalnb.lab.tables import save_table

    fig, alt = sequence_figure(profile)
    save_figure(
        fig,
        "causal_transformer.fig1",
        alt=alt,
        caption="Three tasks learned in sequence: what later stages lose of each, and what is left.",
    )
    save_table(sequence_table(profile))


# Figure 7


def counted(profile: str | None = None) -> dict[str, list[tuple[int, int]]]:
    """{arm of PUBLISHED: (pairs, those with the label that overlap should tell) of each of GROUPS}."""

    found = evidence.require(PUBLISHED, profile, PAIRS).set_index("arm")
    return {
        arm: [(int(row[f"pairs_{k}"]), int(row[f"label_{k}"])) for k in range(len(GROUPS))]
        for arm, row in found.iterrows()
    }


def shown_pairs(profile: str | None = None) -> list[tuple[str, str, str, str]]:
    """(set, label, first sentence, second) of the examples SHOWN."""
    from causalnb.lab import results

    evidence.require(PUBLISHED, profile, PAIRS)
    found = results.curves(PUBLISHED, profile, PAIRS).set_index(["arm", "has_label"])
    told = []
    for arm, has in SHOWN:
        row, (name, label) = found.loc[(arm, has)], SETS[arm]
        told.append((name, label if has else f"not {label}", row.sentence1, row.sentence2))
    return told


def overlap_figure(profile: str | None = None):
    """(figure, alt): pairs with their common words in blue and bold; the share of a label by overlap."""
    import matplotlib.pyplot as plt

    from causalnb.lab.figures import COLOURS
    from causalnb.lab.statistics import wilson

    fig, (texts, ax) = plt.subplots(1, 2, figsize=(8.6, 3.5), width_ratios=[1.05, 1])
    pairs, found, told = shown_pairs(profile), counted(profile), []
    for place, (name, label, *sentences) in enumerate(pairs):
        _pair(texts, 1 - place / len(pairs), f"{name}: {label}", sentences)
        told.append(f"{name}, {label}: {' / '.join(sentences)}")
    texts.set_axis_off()
    for arm, (colour, line, marker) in CURVES.items():
        there = {k: wilson(labelled, n) for k, (n, labelled) in enumerate(found[arm]) if n >= LEAST}
        ax.errorbar(
            [*there],
            [100 * one.mean for one in there.values()],
            color=COLOURS[colour],
            linestyle=line,
            marker=marker,
            capsize=2,
            label=SETS[arm][0],
            yerr=[
                [100 * (one.mean - one.low) for one in there.values()],
                [100 * (one.high - one.mean) for one in there.values()],
            ],
        )
        told.append(
            f"{SETS[arm][0]}: " + ", ".join(f"{GROUPS[k]} {100 * one.mean:.0f} %" for k, one in there.items())
        )
    ax.set_xticks(range(len(GROUPS)), [name.replace(" to ", "\nto ") for name in GROUPS])
    ax.set(
        xlabel="words of the second sentence that the first has",
        ylim=(-3, 103),
        ylabel="entailment or paraphrase, %",
    )
    ax.legend(fontsize=7)
    return fig, (
        "Left, pairs of sentences, words that both have in blue and bold. Right, a line for each "
        f"set: the share of pairs with the label that overlap should tell. {'; '.join(told)}."
    )


def _pair(ax, top: float, title: str, sentences: list[str]) -> None:
    """A title and two sentences below each other, common words in blue and bold."""
    from matplotlib.offsetbox import AnnotationBbox, HPacker, TextArea, VPacker

    from causalnb.lab.figures import COLOURS
    from causalnb.tasks.sentence_pairs import words

    common = {*words(sentences[0])} & {*words(sentences[1])}
    blue = {"color": COLOURS["blue"], "weight": "bold", "size": 8}
    lines = [TextArea(title, textprops={"style": "italic", "size": 7.5})]
    for sentence in sentences:
        said = [
            TextArea(word, textprops=blue if common & {*words(word)} else {"size": 8})
            for word in sentence.split()
        ]
        lines.append(HPacker(children=said, pad=0, sep=2.5))
    ax.add_artist(
        AnnotationBbox(
            VPacker(children=lines, pad=0, sep=1.5),
            (0, top),
            frameon=False,
            pad=0,
            xycoords="axes fraction",
            box_alignment=(0, 1),
        )
    )


def overlap_table(profile: str | None = None):
    """How often pairs of every set have the label: all of them, with full overlap, with little."""
    from causalnb.lab.statistics import wilson
    from causalnb.lab.tables import Table

    def cell(groups) -> str:
        n, labelled = map(sum, zip(*groups, strict=False))
        if not n:
            return ""
        one = wilson(labelled, n)
        return f"{100 * one.mean:.1f} [{100 * one.low:.1f}, {100 * one.high:.1f}] ({n:,})"

    rows = [
        [name, label, cell(groups), cell(groups[FULL:]), cell(groups[:2])]
        for (name, label), groups in ((SETS[arm], groups) for arm, groups in counted(profile).items())
    ]
    return Table(
        "causal_transformer.fig7_overlap",
        ["pairs", "label", "all", "every word in common", "less than half in common"],
        rows,
        "How often a pair has the label: %, Wilson's 95 % interval (pairs)",
        "In common: words of the second sentence that stand in the first. Of MNLI, the development "
        "set without its numerals. HANS itself has 50.0 by design, and every word in common.",
    )


def between(one: tuple[int, int], two: tuple[int, int], direction: int):
    """Verdict on the share of one group's (pairs, labelled) less another's; Newcombe's 95 % interval."""
    from causalnb.lab.statistics import Summary, wilson
    from causalnb.lab.verdicts import judged

    first, second = (wilson(labelled, n) for n, labelled in (one, two))
    mean = first.mean - second.mean
    low = ((first.mean - first.low) ** 2 + (second.high - second.mean) ** 2) ** 0.5
    high = ((first.high - first.mean) ** 2 + (second.mean - second.low) ** 2) ** 0.5
    return judged(Summary(mean, mean - low, mean + high, one[0]), direction=direction)


def overlap_verdicts(profile: str | None = None) -> list[tuple[str, str, object]]:
    """(claim, contrast in words, Verdict) of the two claims on overlap; the unit is a pair, not a seed.

    The second claim is decided as its words have it, within a challenge set. HANS is none that could decide:
    its pairs all have full overlap and half of them are entailed, by design.
    """
    found = counted(profile)
    full = {arm: tuple(found[arm][FULL]) for arm in ("mnli", "paws_qqp")}
    rest = {arm: tuple(map(sum, zip(*found[arm][:FULL], strict=False))) for arm in full}
    return [
        (
            "causal_transformer.claim15",
            "MNLI: full overlap - the rest",
            between(full["mnli"], rest["mnli"], 1),
        ),
        (
            "causal_transformer.claim16",
            "PAWS-QQP: full overlap - the rest",
            between(full["paws_qqp"], rest["paws_qqp"], -1),
        ),
    ]


def overlap_verdicts_table(profile: str | None = None):
    """The claims on Figure 7."""
    from causalnb.lab.tables import Table, estimate
    from causalnb.lab.verdicts import claims

    rows = claims("causal_transformer").set_index("id", drop=False)
    cells = [
        [rows.loc[id].claim, words, stated(rows.loc[id]), estimate(found.summary), found]
        for id, words, found in overlap_verdicts(profile)
    ]
    return Table(
        "causal_transformer.fig7_verdicts",
        ["the paper's claim", "contrast", "stated", "ours", "verdict"],
        cells,
        "The paper's claims on overlap: difference of shares, mean ± half of the 95 % interval (pairs)",
        "In HANS all pairs have full overlap and half are entailed, by design: overlap says nothing "
        "there, and nothing is to be estimated. In PAWS-QQP nearly all have it. A link weaker than "
        "in training is not a reversed one.",
    )


@artefact(
    "causal_transformer.fig7",
    needs=(PUBLISHED,),
)
def fig7(profile):
    """Figure 7: example pairs and how far overlap tells the label in published sets and in ours."""
    from causalnb.lab.figures import save_figure
    from causalnb.lab.tables import save_table

    fig, alt = overlap_figure(profile)
    save_figure(
        fig,
        "causal_transformer.fig7",
        alt=alt,
        caption="Example pairs, and the share of entailment or paraphrase by word overlap.",
    )
    save_table(overlap_table(profile))
    save_table(overlap_verdicts_table(profile))
