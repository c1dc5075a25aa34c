"""Beyond the paper, the Causal Transformer: what sparse, directed and invariant dependencies reach."""

from causalnb.experiments.causal_transformer.artefacts.overlap import (
    ONE_LABEL,
    PLAIN,
    PUBLISHED_SCORE,
    TASKS,
    always_no,
    counted_tests,
    gap,
    headings,
    percent,
    real_cells,
    share,
    tested,
    two_labelled,
)
from causalnb.experiments.causal_transformer.artefacts.overlap import SEARCHES as TABLE_1_SEARCHES
from causalnb.experiments.causal_transformer.artefacts.overlap import tries as table_1_tries
from causalnb.experiments.causal_transformer.grid import (
    APART,
    BEYOND_TRIES,
    BLANKET_TRIES,
    BLANKETS,
    CHOSEN,
    COMPARED_RATES,
    RATE_TRIES,
    SPREAD_TRIES,
    SPREAD_USED,
)
from causalnb.experiments.causal_transformer.grid import RATES as TABLE_1_RATES
from causalnb.lab import evidence
from causalnb.lab.registry import artefact
from causalnb.lab.statistics import mean_ci, sign_flip

OURS = {
    PLAIN: "Transformer",
    "compared": "+ comparison",
    "directed": "+ comparison, directed",
    "interchanged": "+ comparison, interchanged",
    "all": "+ all three",
    "held_attention": "+ all three, held attention",
}
PAPERS = {
    arm: f"+ comparison, GCN and loss, weight {one['causal_weight']:g}" for arm, one in BLANKET_TRIES.items()
}
ARMS = OURS | {"spread": "+ all three, as spread"} | {arm: PAPERS[arm] for arm in BLANKETS}
SIMPLE = "bilstm"  # the simplest reader that sees order, from Table 1
SHOWN = ARMS | {SIMPLE: "BiLSTM, as in Table 1"}
RATES = {arm: f"+ comparison, learning rate {one['learning_rate']:g}" for arm, one in RATE_TRIES.items()}
TRIED = (
    OURS
    | RATES
    | {
        **dict.fromkeys(APART, "+ comparison, sentences read apart"),
        "one_parent": "all three, 1 parent",
        "three_parents": "all three, 3 parents",
        "own_sentence": "all three, all tokens before or after in the sentence",
        "undirected": "all three, neighbours on both sides in every head",
    }
    | PAPERS
    | {arm: f"all three, as spread, weight {one['entropy_weight']:g}" for arm, one in SPREAD_TRIES.items()}
)
IDS = {
    (task, minority): f"causal_transformer.beyond.{task}.{minority}"
    for task in TASKS
    for minority in ("m1", "m5")
}
SPREADS = {(task, "m5"): f"causal_transformer.beyond.spread.{task}" for task in TASKS}
READERS = {key: f"causal_transformer.beyond.reader.{'.'.join(key)}" for key in IDS}  # SIMPLE, on their seeds
SEARCHES = {task: f"causal_transformer.beyond.search.{task}" for task in TASKS}
SPREAD_SEARCHES = {task: f"causal_transformer.beyond.spread.search.{task}" for task in TASKS}
CONTRASTS = (
    ("compared", PLAIN),
    ("directed", "compared"),
    ("interchanged", "compared"),
    ("all", "compared"),
    (CHOSEN, "all"),
    ("spread", "all"),
    (CHOSEN, "spread"),
    (CHOSEN, "compared"),
    (CHOSEN, PLAIN),
    *((arm, "compared") for arm in BLANKETS),
    (CHOSEN, SIMPLE),
)
WANTED, LOST, LEVEL = 5, 1, 0.05  # points to gain on the challenge, that may be lost, and the test's level
MARKS = {
    "compared": "s",
    "directed": ">",
    "interchanged": "D",
    "all": "*",
    "held_attention": "P",
    "spread": "v",
    PLAIN: "o",
    SIMPLE: "^",
} | dict(zip(BLANKETS, "X", strict=True))
COLOURED = dict(
    zip(
        SHOWN,
        ("black", "orange", "sky", "green", "blue", "vermillion", "purple", "black", "black"),
        strict=True,
    )
)
BY_KIND = ("compared", "directed", "interchanged", CHOSEN)  # arms of kinds_figure
CELLS = {"challenge": "challenge", "held_out": "other templates"}


def measured(profile: str | None = None) -> dict[tuple[str, str], object]:
    """{(task, minority): DataFrame of SHOWN's arms by (arm, seed)}; LabError where results are missing."""
    from pandas import concat

    parts = {key: [part[key] for part in (IDS, READERS, SPREADS) if key in part] for key in IDS}
    return {
        key: concat([evidence.require(id, profile) for id in ids]).set_index(["arm", "seed"])
        for key, ids in parts.items()
    }


def arms_table(task: str, found: dict, profile: str | None = None):
    """Every arm on a task, at each share of counter-examples."""
    from causalnb.lab.tables import Table

    heads = headings(task, profile)
    rows = [
        [share(minority), name, *(percent(frame.loc[arm, metric]) for metric in heads)]
        for (of, minority), frame in found.items()
        if of == task
        for arm, name in SHOWN.items()
        if arm in frame.index
    ]
    return Table(
        f"causal_transformer.beyond_{task}",
        ["counter-examples", "arm", *heads.values()],
        rows,
        f"Beyond the paper, {TASKS[task][0]}: accuracy in %, mean ± half of the 95 % interval (seeds)",
        "comparison: the label is read from both sentences' maxima, not the first token. "
        "directed: a head sees two tokens before a token, or two after it, of its own sentence. "
        "interchanged: trained where words that both sentences share change places. "
        "held attention: a penalty on what that changes in the maps. as spread: one on the maps' "
        "mean entropy instead, which holds it at that of held attention. The Transformer "
        "and the BiLSTM have their best learning rates of Table 1's search, all others the "
        "comparison's best.",
    )


def contrasts_table(found: dict, profile: str | None = None):
    """Paired differences of arms at each share of counter-examples."""
    from causalnb.lab.tables import Table

    rows = []
    for (task, minority), frame in found.items():
        real = two_labelled(task, profile)
        for arm, other in CONTRASTS:
            if {arm, other} <= {*frame.index.unique("arm")}:
                cells = [
                    tested(gap(found, task, arm, other, metric, [minority]))
                    for metric in ("challenge_accuracy", "test_accuracy", "held_out_accuracy", *real)
                ]
                rows.append(
                    [
                        TASKS[task][0],
                        share(minority),
                        f"{SHOWN[arm]} - {SHOWN[other]}",
                        *cells,
                        *[""] * (1 - len(real)),
                    ]
                )
    seeds = min(len(frame.loc[arm]) for frame in found.values() for arm in (PLAIN, SIMPLE))
    return Table(
        "causal_transformer.beyond_contrasts",
        [
            "task",
            "counter-examples",
            "difference, points",
            "challenge",
            "in distribution",
            "other templates",
            PUBLISHED_SCORE,
        ],
        rows,
        "Beyond the paper: differences of the same seeds, mean [95 % interval] (seeds), and the p "
        "of the exact sign-flip test",
        f"No p can be below {2 / 2**seeds:.2g}. Nothing is corrected for {counted_tests(rows)}. {ONE_LABEL}",
    )


def tries(task: str, profile: str | None = None):
    """DataFrame of what was tried on the development templates, by (arm, seed)."""
    from pandas import concat

    return concat(
        [evidence.require(searches[task], profile) for searches in (SEARCHES, SPREAD_SEARCHES)]
    ).set_index(["arm", "seed"])


def tries_table(profile: str | None = None):
    """Everything tried on the way, on the development templates."""
    from causalnb.lab import registry
    from causalnb.lab.tables import Table

    steps, later = (
        registry.config(id, PLAIN, profile)["steps"] for id in (SEARCHES["nli"], IDS["nli", "m5"])
    )
    found = {task: tries(task, profile) for task in TASKS}
    cells = {
        "validation": "validation_accuracy",
        "challenge": "challenge_accuracy",
        "outside the bounds": "challenge_violated",
    }
    rows = [
        [name, *(percent(frame.loc[arm, metric]) for frame in found.values() for metric in cells.values())]
        for arm, name in TRIED.items()
    ]
    heads = [f"{name}, {cell}" for name, *_ in TASKS.values() for cell in cells]
    return Table(
        "causal_transformer.beyond_tries",
        ["arm", *heads],
        rows,
        "What was tried beyond the paper: accuracy in % on the development templates, mean ± half "
        "of the 95 % interval (seeds)",
        f"Templates that none of the tables on trial has, the search of Table 1 alone; {steps:,} "
        f"steps, where those have {later:,}. Outside the bounds: the share of tokens that break the "
        "Markov-blanket bounds of the paper, in challenge pairs of entailment and in swapped "
        "questions.",
    )


def choice_remark(profile: str | None = None) -> str:
    """Which of BEYOND_TRIES is on trial, and by how much it led: a sentence."""
    scored = [
        100
        * tries(task, profile)[[f"{cell}_accuracy" for cell in ("validation", "challenge")]]
        .mean(axis=1)
        .groupby("arm")
        .mean()[[*BEYOND_TRIES]]
        for task in TASKS
    ]
    best, second, *_ = (sum(scored) / len(scored)).sort_values(ascending=False).items()
    return (
        f"The best mean of validation and challenge over the {len(TASKS)} tasks has *{TRIED[best[0]]}*, "
        f"{best[1]:.1f} %; the next is *{TRIED[second[0]]}*, {second[1]:.1f} %."
    )


def rate_remark(profile: str | None = None) -> str:
    """What the comparison scores at the learning rate of Table 1's Transformer and at its own best."""
    told = []
    for task, (name, *_) in TASKS.items():
        found = 100 * tries(task, profile).challenge_accuracy.groupby("arm").mean()
        at = {one["learning_rate"]: found[arm] for arm, one in RATE_TRIES.items()}
        first, own = TABLE_1_RATES[task], COMPARED_RATES[task]
        told.append(
            f"{name.capitalize()}: on the development challenge *{OURS['compared']}* has "
            f"{at[first]:.1f} % at {first:g}, the best rate of Table 1's Transformer"
            + (", and its own best." if first == own else f", and {at[own]:.1f} % at {own:g}, its own.")
        )
    return " ".join(told)


def reader_remark(profile: str | None = None) -> str:
    """What Table 1's BiLSTM has on the development templates, beside the arm on trial: sentences."""
    cells = [f"{cell}_accuracy" for cell in ("validation", "challenge")]
    read, ours = [], []
    for task in TASKS:
        line = table_1_tries(task, profile).loc[SIMPLE]
        read += [100 * line[line.used][cell].iloc[0] for cell in cells]
        ours += [(100 * tries(task, profile)[cell][CHOSEN]).mean() for cell in cells]  # as the table rounds
    where = [f"{TASKS[task][0]}, {cell}" for task in TASKS for cell in ("validation", "challenge")]
    told = "; ".join(
        f"{name} {one:.1f} and {two:.1f} %" for name, one, two in zip(where, read, ours, strict=False)
    )
    return (
        f"Table 1's BiLSTM, with its best try there (one seed), and *{ARMS[CHOSEN]}*: {told}. Means: "
        f"{sum(read) / len(read):.1f} and {sum(ours) / len(ours):.1f} %."
    )


def entropy_remark(profile: str | None = None) -> str:
    """How spread attention is without and with the penalty of the arm on trial, by seed: a sentence."""
    told = []
    for task, (name, *_) in TASKS.items():
        found = tries(task, profile)["challenge_entropy"]
        each = {
            arm: " and ".join(f"{one:.2f}" for one in found[arm])
            for arm in ("all", CHOSEN, SPREAD_USED[task])
        }
        told.append(f"{name} " + ", ".join(f"*{TRIED[arm]}* {nats}" for arm, nats in each.items()))
    return f"Entropy of attention on the development challenge in nats, by seed: {'; '.join(told)}."


def beyond_figure(found: dict):
    """(figure, alt): accuracy in distribution, on the challenge and in other templates, a mark for each seed.

    A row of panels for each task, a line for each of SHOWN; filled 5 %, hollow 1 % of counter-examples.
    """
    import matplotlib.pyplot as plt
    from matplotlib.lines import Line2D

    from causalnb.lab.figures import COLOURS

    cells = {"test": "in distribution"} | CELLS
    fig, axes = plt.subplots(len(TASKS), len(cells), figsize=(7.8, 5.4), sharex="col", sharey=True)
    told, lines = [], {arm: at for at, arm in enumerate(SHOWN)}
    for row, (task, (name, *_)) in zip(axes, TASKS.items(), strict=False):
        for ax, (cell, title) in zip(row, cells.items(), strict=False):
            for arm in SHOWN:
                for minority, face, lower in (("m5", COLOURS[COLOURED[arm]], -0.16), ("m1", "none", 0.2)):
                    if arm not in found[task, minority].index:
                        continue
                    seeds = 100 * found[task, minority].loc[arm, f"{cell}_accuracy"]
                    ax.plot(
                        seeds,
                        [lines[arm] + lower] * len(seeds),
                        MARKS[arm],
                        linestyle="",
                        markerfacecolor=face,
                        markeredgecolor=COLOURS[COLOURED[arm]],
                        markersize=5,
                    )
                    told.append(f"{name}, {title}, {share(minority)}, {SHOWN[arm]}: {seeds.mean():.0f}")
            if cell != "test":
                ax.axvline(50, color=COLOURS["black"], linewidth=0.8, linestyle=":", marker="")
        row[0].set(
            ylabel=name,
            ylim=(len(SHOWN) - 0.5, -0.5),
            yticks=[*lines.values()],
            yticklabels=[*SHOWN.values()],
        )
    for ax, title in zip(axes[0], cells.values(), strict=False):
        ax.set_title(title)
    for ax in axes[-1]:
        ax.set_xlabel("accuracy, %")
    fig.legend(
        handles=[
            Line2D(
                [],
                [],
                color=COLOURS["black"],
                linestyle="",
                marker="o",
                markerfacecolor=face,
                label=f"{share(minority)} of counter-examples",
            )
            for minority, face in (("m5", COLOURS["black"]), ("m1", "none"))
        ],
        loc="outside lower center",
        ncols=2,
    )
    return fig, (
        f"Six panels, a line for each arm and a mark for each seed, filled with {share('m5')} of "
        f"counter-examples, hollow with {share('m1')}. Means in %: {'; '.join(told)}."
    )


def by_kind(task: str, found: dict, cell: str):
    """DataFrame of mean accuracy in %, kinds of pairs by BY_KIND's arms, m5, in a cell of CELLS.

    Of entailment the subcases in which overlap misleads; first what CHOSEN gains most on in other templates.
    """
    from causalnb.tasks import overlap, paraphrase

    names = {"nli": [one for one in overlap.SUBCASES if one[1] == "n"], "paraphrase": paraphrase.SAME_WORDS}[
        task
    ]
    means = {
        part: 100
        * found[task, "m5"][[f"{part}_{one}" for one in names]]
        .groupby("arm")
        .mean()
        .set_axis(names, axis=1)
        .loc[[*BY_KIND]]
        .T
        for part in CELLS
    }
    gained = means["held_out"][CHOSEN] - means["held_out"]["compared"]
    return means[cell].loc[gained.sort_values(ascending=False, kind="stable").index]


def kinds_figure(found: dict):
    """(figure, alt): `by_kind` of both tasks, a row of panels each, a column for each cell of CELLS."""
    import matplotlib.pyplot as plt

    from causalnb.lab.figures import COLOURS

    lines = [len(by_kind(task, found, "challenge")) for task in TASKS]
    fig, axes = plt.subplots(
        len(TASKS), len(CELLS), figsize=(7.4, 6.2), sharex=True, sharey="row", height_ratios=lines
    )
    told = []
    for row, (task, (name, *_)) in zip(axes, TASKS.items(), strict=False):
        for ax, (cell, title) in zip(row, CELLS.items(), strict=False):
            means = by_kind(task, found, cell)
            for at, arm in enumerate(BY_KIND):  # beside each other, since many are equal
                ax.plot(
                    means[arm],
                    [line - 0.27 + 0.18 * at for line in range(len(means))],
                    MARKS[arm],
                    color=COLOURS[COLOURED[arm]],
                    linestyle="",
                    markersize=4.5,
                    label=SHOWN[arm],
                )
            ax.set(
                xlim=(-4, 104),
                ylim=(len(means) - 0.4, -0.6),
                title=f"{name}, {title}",
                yticks=range(len(means)),
                yticklabels=[one.replace("_", " ") for one in means.index],
            )
            told += [
                f"{title}, {one}: {line['compared']:.0f} to {line[CHOSEN]:.0f}"
                for one, line in means.iterrows()
            ]
    for ax in axes[-1]:
        ax.set_xlabel("accuracy, %")
    fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return fig, (
        f"Four panels, accuracy by kind of pair, {share('m5')} of counter-examples. From "
        f"{SHOWN['compared']} to {SHOWN[CHOSEN]}: {'; '.join(told)}."
    )


def reached(found: dict, task: str, minority: str, other: str, real: list[str]) -> dict[str, tuple]:
    """{part of the aim: (differences by seed, whether it is met)} of the CHOSEN arm against another.

    challenge: WANTED points or more, p below LEVEL. In distribution: at most LOST points less. It holds on
    other templates, and on PAWS-QQP where that is among the `real` cells, if the gain's interval is above 0;
    on PAWS-QQP that of macro-F too, since accuracy alone grows with every further "no".
    """

    def differences(metric):
        return gap(found, task, CHOSEN, other, metric, [minority])

    gained, lost = differences("challenge_accuracy"), differences("test_accuracy")
    met = {
        "challenge": (gained, 100 * mean_ci(gained).mean >= WANTED and sign_flip(gained) < LEVEL),
        "in distribution": (lost, 100 * mean_ci(lost).mean >= -LOST),
    }
    held = {"other templates": "held_out_accuracy"}
    if "paws_qqp" in real:
        held |= {"PAWS-QQP": "paws_qqp_accuracy", "PAWS-QQP, macro-F": "paws_qqp_macro_f"}
    for name, metric in held.items():
        kept = differences(metric)
        met[name] = kept, mean_ci(kept).low > 0
    return met


def aim_remark(found: dict, profile: str | None = None) -> str:
    """Whether the aim is reached, part by part with its p: a line for each task, share and other arm.

    Where PAWS-QQP is asked, what a constant answer scores there comes last.
    """
    told = []
    for task, minority in found:
        for other in (PLAIN, "compared"):
            met = reached(found, task, minority, other, real_cells(task, profile))
            parts = [
                f"{name} {tested(values)} ({'met' if good else 'not met'})"
                for name, (values, good) in met.items()
            ]
            whole = "reached" if all(good for _, good in met.values()) else "not reached"
            told.append(
                f"{TASKS[task][0].capitalize()}, {share(minority)}, {ARMS[CHOSEN]} against "
                f"{ARMS[other]}, points: {'; '.join(parts)}: {whole}."
            )
    if any("paws_qqp" in real_cells(task, profile) for task, _ in found):
        no = always_no(profile)
        told.append(f'Always "no" scores {no:.1%} on PAWS-QQP, macro-F {no / (1 + no):.1%}.')
    return "\n".join(f"- {one}" for one in told)


def one_label_remark(found: dict, profile: str | None = None) -> str:
    """What the CHOSEN arm and the paper's method lose or gain on MNLI's contradicting pairs: a line a share.

    No part of the aim: all have one label, so that a habit of answering cannot be told from reading.
    """
    told = []
    for (task, minority), frame in found.items():
        if "mnli_contradicting" in real_cells(task, profile):
            parts = [
                f"{SHOWN[arm]} - {SHOWN[other]} "
                + tested(gap(found, task, arm, other, "mnli_contradicting_accuracy", [minority]))
                for arm, other in CONTRASTS
                if arm in {CHOSEN, *BLANKETS} and {arm, other} <= {*frame.index.unique("arm")}
            ]
            told.append(
                f"MNLI's contradicting pairs, of one label, {share(minority)}, points: {'; '.join(parts)}."
            )
    return "\n".join(f"- {one}" for one in told)


@artefact(
    "causal_transformer.beyond",
    extra=True,
    needs=(
        *IDS.values(),
        *READERS.values(),
        *SPREADS.values(),
        *SEARCHES.values(),
        *SPREAD_SEARCHES.values(),
        *TABLE_1_SEARCHES.values(),
    ),
    printed_as="ours",
    kind="measured",
    notebook="13_directed_dependencies",
    shows="attention with few parents, one way, in its own sentence, held where words change places",
)
def build_beyond(profile):
    """Beyond the paper: both tasks, paired differences, what was tried, and a figure."""
    from causalnb.lab.figures import save_figure
    from causalnb.lab.tables import save_table

    found = measured(profile)
    for table in (
        *(arms_table(task, found, profile) for task in TASKS),
        contrasts_table(found, profile),
        tries_table(profile),
    ):
        save_table(table)
    fig, alt = beyond_figure(found)
    save_figure(
        fig,
        "causal_transformer.beyond",
        alt=alt,
        caption="Every seed of every arm: what is gained on the challenge, and what it costs.",
    )
    fig, alt = kinds_figure(found)
    save_figure(
        fig,
        "causal_transformer.beyond_kinds",
        alt=alt,
        caption="Where each part gains and loses, kind by kind.",
    )
