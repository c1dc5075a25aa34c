"""Beyond the paper, the Causal Transformer: what sparse, directed and invariant dependencies reach."""

from dataclasses import replace
from itertools import product

from causalnb.experiments.causal_transformer.artefacts import search
from causalnb.experiments.causal_transformer.artefacts.overlap import (
    EXTRA,
    ONE_LABEL,
    PLAIN,
    SHARES,
    TASKS,
    Scored,
    always_no,
    asked,
    compared,
    counted_tests,
    first_with,
    scores,
)
from causalnb.experiments.causal_transformer.grid import (
    APART,
    BEYOND_TRIES,
    BLANKET_TRIES,
    BLANKETS,
    CHOSEN,
    COMPARED_RATES,
    RATE_TRIES,
    RATES,
    SPREAD_TRIES,
    SPREAD_USED,
)
from causalnb.lab import evidence, registry
from causalnb.lab.report import Arm, Report, Row, Values, builds, draw, mean_of, share, tested
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
    name: f"+ comparison, GCN and loss, weight {given['causal_weight']:g}"
    for name, given in BLANKET_TRIES.items()
}
ARMS = OURS | {"spread": "+ all three, as spread"} | {name: PAPERS[name] for name in BLANKETS}
SIMPLE = "bilstm"  # the simplest reader that sees order, from Table 1
SHOWN = ARMS | {SIMPLE: "BiLSTM, as in Table 1"}
TRIED = {
    **OURS,
    **{name: f"+ comparison, learning rate {given['learning_rate']:g}" for name, given in RATE_TRIES.items()},
    **dict.fromkeys(APART, "+ comparison, sentences read apart"),
    "one_parent": "all three, 1 parent",
    "three_parents": "all three, 3 parents",
    "own_sentence": "all three, all tokens before or after in the sentence",
    "undirected": "all three, neighbours on both sides in every head",
    **PAPERS,
    **{
        name: f"all three, as spread, weight {given['entropy_weight']:g}"
        for name, given in SPREAD_TRIES.items()
    },
}
IDS = {key: f"causal_transformer.beyond.{'.'.join(key)}" for key in product(TASKS, ("m1", "m5"))}
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
    *((name, "compared") for name in BLANKETS),
    (CHOSEN, SIMPLE),
)
WANTED, LOST, LEVEL = 5, 1, 0.05  # points to gain on the challenge, that may be lost, and the test's level
MARKS = dict(zip(SHOWN, "os>D*PvX^", strict=True))
COLOURED = dict(zip(SHOWN, "black orange sky green blue vermillion purple black black".split(), strict=True))
BY_KIND = ("compared", "directed", "interchanged", CHOSEN)  # arms of kinds_figure
CELLS = {"challenge": "challenge", "held_out": "other templates"}
DEVELOPED = ("validation", "challenge")  # cells of the development templates


def trained(task: str, minority: str, name: str) -> Arm | None:
    """An arm on trial; None where it was not trained at that minority."""
    key = task, minority
    return first_with(name, *(part[key] for part in (IDS, READERS, SPREADS) if key in part))


def contrasts_at(task: str, minority: str) -> dict[tuple[str, str], Values]:
    """{(arm, other): their difference} of CONTRASTS of which both were trained."""
    pairs = {pair: [trained(task, minority, name) for name in pair] for pair in CONTRASTS}
    return {pair: ours - theirs for pair, (ours, theirs) in pairs.items() if ours and theirs}


def on_trial(task: str) -> Report:
    """Every arm on a task, at each share of counter-examples."""
    return Report(
        f"causal_transformer.beyond_{task}",
        ["counter-examples", "arm", *scores(task)],
        [
            Row((SHARES[minority], words), found)
            for of, minority in IDS
            if of == task
            for name, words in SHOWN.items()
            if (found := trained(task, minority, name))
        ],
        f"Beyond the paper, {TASKS[task][0]}: accuracy in %, mean ± half of the 95 % interval (seeds)",
        "comparison: the label is read from both sentences' maxima, not the first token. directed: a head "
        "sees two tokens before a token, or two after it, of its own sentence. interchanged: trained where "
        "words that both sentences share change places. held attention: a penalty on what that changes in "
        "the maps. as spread: one on the maps' mean entropy instead, which holds it at that of held "
        "attention. The Transformer and the BiLSTM have their best learning rates of Table 1's search, all "
        "others the comparison's best. A published set's half of one label tells nothing without the other: "
        "causal_transformer.halves has both halves, and AUC.",
    )


_differences = Report(
    "causal_transformer.beyond_contrasts",
    ["task", "counter-examples", "difference, points", *compared()],
    [
        Row((TASKS[task][0], SHARES[minority], f"{SHOWN[name]} - {SHOWN[other]}"), gap)
        for task, minority in IDS
        for (name, other), gap in contrasts_at(task, minority).items()
    ],
    "Beyond the paper: differences of the same seeds, mean [95 % interval] (seeds), and the p "
    "of the exact sign-flip test",
)


def _contrast_notes(profile):
    seeds = min(len(registry.seeds(id, profile)) for id in (*IDS.values(), *READERS.values()))
    tests = counted_tests(_differences(profile).rows)
    return f"No p can be below {2 / 2**seeds:.2g}. Nothing is corrected for {tests}. {ONE_LABEL}"


contrasts = replace(_differences, notes=_contrast_notes)


def tried(task: str, name: str) -> Arm | None:
    """An arm on the development templates."""
    return first_with(name, SEARCHES[task], SPREAD_SEARCHES[task])


def tries(task: str, profile: str | None = None):
    """DataFrame of what was tried on the development templates, by (arm, seed)."""
    from pandas import concat

    ids = SEARCHES[task], SPREAD_SEARCHES[task]
    return concat([evidence.require(id, profile) for id in ids]).set_index(["arm", "seed"])


def _tries_notes(profile):
    steps, later = (
        registry.config(id, PLAIN, profile)["steps"] for id in (SEARCHES["nli"], IDS["nli", "m5"])
    )
    return (
        f"Templates that none of the tables on trial has, the search of Table 1 alone; {steps:,} "
        f"steps, where those have {later:,}. Outside the bounds: the share of tokens that break the "
        "Markov-blanket bounds of the paper, in challenge pairs of entailment and in swapped questions."
    )


TRIED_ON = {  # heading -> task, metric
    f"{TASKS[task][0]}, {cell}": (task, metric)
    for task in TASKS
    for cell, metric in {
        "validation": "validation_accuracy",
        "challenge": "challenge_accuracy",
        "outside the bounds": "challenge_violated",
    }.items()
}
everything = Report(
    "causal_transformer.beyond_tries",
    ["arm", *(Scored(heading, metric) for heading, (_, metric) in TRIED_ON.items())],
    [
        Row(words, {heading: tried(task, name) for heading, (task, _) in TRIED_ON.items()})
        for name, words in TRIED.items()
    ],
    "What was tried beyond the paper: accuracy in % on the development templates, mean ± half "
    "of the 95 % interval (seeds)",
    _tries_notes,
)


def choice_remark(profile: str | None = None) -> str:
    """Which of BEYOND_TRIES is on trial, and by how much it led: a sentence."""
    metrics = [f"{cell}_accuracy" for cell in DEVELOPED]
    by_task = [tries(task, profile)[metrics].mean(axis=1).groupby("arm").mean() for task in TASKS]
    means = (100 * sum(by_task) / len(by_task))[[*BEYOND_TRIES]]
    best, second, *_ = means.sort_values(ascending=False).items()
    return (
        f"The best mean of validation and challenge over the {len(TASKS)} tasks has *{TRIED[best[0]]}*, "
        f"{best[1]:.1f} %; the next is *{TRIED[second[0]]}*, {second[1]:.1f} %."
    )


def rate_remark(profile: str | None = None) -> str:
    """What the comparison scores at the learning rate of Table 1's Transformer and at its own best."""
    told = []
    for task, (words, *_) in TASKS.items():
        means = 100 * tries(task, profile).challenge_accuracy.groupby("arm").mean()
        at = {given["learning_rate"]: means[name] for name, given in RATE_TRIES.items()}
        first, own = RATES[task], COMPARED_RATES[task]
        told.append(
            f"{words.capitalize()}: on the development challenge *{OURS['compared']}* has "
            f"{at[first]:.1f} % at {first:g}, the best rate of Table 1's Transformer"
            + (", and its own best." if first == own else f", and {at[own]:.1f} % at {own:g}, its own.")
        )
    return " ".join(told)


def reader_remark(profile: str | None = None) -> str:
    """What Table 1's BiLSTM has on the development templates, beside the arm on trial: sentences."""
    both = {}
    for task, (words, *_) in TASKS.items():
        lines, ours = search.tries(task, profile).loc[SIMPLE], tries(task, profile).loc[CHOSEN]
        for cell in DEVELOPED:
            metric = f"{cell}_accuracy"
            read = 100 * lines[lines.used][metric].iloc[0]
            both[f"{words}, {cell}"] = read, (100 * ours[metric]).mean()  # as the table rounds
    told = "; ".join(f"{name} {read:.1f} and {ours:.1f} %" for name, (read, ours) in both.items())
    read, ours = (sum(values) / len(values) for values in zip(*both.values(), strict=True))
    return (
        f"Table 1's BiLSTM, with its best try there (one seed), and *{ARMS[CHOSEN]}*: {told}. Means: "
        f"{read:.1f} and {ours:.1f} %."
    )


def entropy_remark(profile: str | None = None) -> str:
    """How spread attention is without and with the penalty of the arm on trial, by seed: a sentence."""
    told = []
    for task, (words, *_) in TASKS.items():
        nats = tries(task, profile)["challenge_entropy"]
        each = (
            f"*{TRIED[name]}* " + " and ".join(f"{value:.2f}" for value in nats[name])
            for name in ("all", CHOSEN, SPREAD_USED[task])
        )
        told.append(f"{words} {', '.join(each)}")
    return f"Entropy of attention on the development challenge in nats, by seed: {'; '.join(told)}."


def beyond_figure(profile: str | None = None):
    """(figure, alt): accuracy in distribution, on the challenge and in other templates, a mark for each seed.

    A row of panels for each task, a line for each of SHOWN; filled 5 %, hollow 1 % of counter-examples.
    """
    import matplotlib.pyplot as plt
    from matplotlib.lines import Line2D

    from causalnb.lab.figures import COLOURS, headline

    cells = {"test": "in distribution"} | CELLS
    fig, axes = plt.subplots(len(TASKS), len(cells), figsize=(7.8, 5.6), sharex="col", sharey=True)
    told, ends, looks = [], {}, {"m5": ("full", -0.16), "m1": ("none", 0.2)}
    for row, (task, (words, *_)) in zip(axes, TASKS.items(), strict=True):
        for ax, (cell, title) in zip(row, cells.items(), strict=True):
            for at, name in enumerate(SHOWN):
                for minority, (filled, lower) in looks.items():
                    if not (values := trained(task, minority, name)):
                        continue
                    seeds = [100 * value for value in values.of(f"{cell}_accuracy", profile)]
                    look = {"color": COLOURS[COLOURED[name]], "fillstyle": filled, "markersize": 5}
                    ax.plot(seeds, [at + lower] * len(seeds), MARKS[name], linestyle="", **look)
                    mean = mean_ci(seeds).mean
                    told.append(f"{words}, {title}, {SHARES[minority]}, {SHOWN[name]}: {mean:.0f}")
                    ends[words, title, minority, name] = mean
            ax.grid(axis="x", visible=False)
            if cell != "test":
                ax.axvline(50, color=COLOURS["black"], linewidth=0.8, linestyle=":", marker="")
        lines = {"yticks": range(len(SHOWN)), "yticklabels": [*SHOWN.values()]}
        row[0].set(ylabel=words, ylim=(len(SHOWN) - 0.5, -0.5), **lines)
    for top, bottom, title in zip(axes[0], axes[-1], cells.values(), strict=True):
        top.set_title(title)
        bottom.set_xlabel("accuracy, %")
    held = (f"{words} {ends[words, CELLS['challenge'], 'm5', CHOSEN]:.0f} %" for words, *_ in TASKS.values())
    headline(fig, f"Held attention, challenge at {SHARES['m5']}: {', '.join(held)}")
    look = {"color": COLOURS["black"], "linestyle": "", "marker": "o"}
    marks = [
        Line2D([], [], fillstyle=filled, label=f"{SHARES[minority]} of counter-examples", **look)
        for minority, (filled, _) in looks.items()
    ]
    fig.legend(handles=marks, loc="outside lower center", ncols=2)
    return fig, (
        f"Six panels, a line for each arm and a mark for each seed, filled with {SHARES['m5']} of "
        f"counter-examples, hollow with {SHARES['m1']}. Means in %: {'; '.join(told)}."
    )


def by_kind(task: str, cell: str, profile: str | None = None):
    """DataFrame of mean accuracy in %, kinds of pairs by BY_KIND's arms, m5, in a cell of CELLS.

    Of entailment the subcases in which overlap misleads; first what CHOSEN gains most on in other templates.
    """
    from causalnb.tasks import overlap, paraphrase

    kinds = [kind for kind in overlap.SUBCASES if kind[1] == "n"] if task == "nli" else paraphrase.SAME_WORDS
    frame = evidence.require(IDS[task, "m5"], profile, BY_KIND).groupby("arm", sort=False).mean()
    means = {
        part: 100 * frame[[f"{part}_{kind}" for kind in kinds]].set_axis(kinds, axis=1).T for part in CELLS
    }
    gained = means["held_out"][CHOSEN] - means["held_out"]["compared"]
    return means[cell].loc[gained.sort_values(ascending=False, kind="stable").index]


def kinds_figure(profile: str | None = None):
    """(figure, alt): `by_kind` of both tasks, a row of panels each, a column for each cell of CELLS."""
    import matplotlib.pyplot as plt

    from causalnb.lab.figures import COLOURS

    tables = [[by_kind(task, cell, profile) for cell in CELLS] for task in TASKS]
    shape = {"figsize": (7.4, 6.2), "height_ratios": [len(means) for means, *_ in tables]}
    fig, axes = plt.subplots(len(TASKS), len(CELLS), sharex=True, sharey="row", **shape)
    told = []
    for row, of_task, (words, *_) in zip(axes, tables, TASKS.values(), strict=True):
        for ax, means, title in zip(row, of_task, CELLS.values(), strict=True):
            for at, name in enumerate(BY_KIND):  # beside each other, since many are equal
                heights = [line - 0.27 + 0.18 * at for line in range(len(means))]
                look = {"color": COLOURS[COLOURED[name]], "linestyle": "", "markersize": 4.5}
                ax.plot(means[name], heights, MARKS[name], label=SHOWN[name], **look)
            lines = {
                "yticks": range(len(means)),
                "yticklabels": [kind.replace("_", " ") for kind in means.index],
            }
            ax.set(xlim=(-4, 104), ylim=(len(means) - 0.4, -0.6), title=f"{words}, {title}", **lines)
            told += [
                f"{title}, {kind}: {line['compared']:.0f} to {line[CHOSEN]:.0f}"
                for kind, line in means.iterrows()
            ]
    for ax in axes[-1]:
        ax.set_xlabel("accuracy, %")
    fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return fig, (
        f"Four panels, accuracy by kind of pair, {SHARES['m5']} of counter-examples. From "
        f"{SHOWN['compared']} to {SHOWN[CHOSEN]}: {'; '.join(told)}."
    )


def reached(gap: Values, profile: str | None = None) -> dict[str, tuple]:
    """{part of the aim: (differences by seed, whether it is met)} of the CHOSEN arm minus another.

    challenge: WANTED points or more, p below LEVEL. In distribution: at most LOST points less. It holds on
    other templates, and on PAWS-QQP where that was asked, if the gain's interval is above 0; on PAWS-QQP
    that of macro-F too, since accuracy alone grows with every further "no".
    """
    gained, lost = (gap.of(f"{cell}_accuracy", profile) for cell in ("challenge", "test"))
    met = {
        "challenge": (gained, 100 * mean_ci(gained).mean >= WANTED and sign_flip(gained) < LEVEL),
        "in distribution": (lost, 100 * mean_ci(lost).mean >= -LOST),
    }
    held = {
        "other templates": "held_out_accuracy",
        "PAWS-QQP": asked("paws_qqp_accuracy"),
        "PAWS-QQP, macro-F": asked("paws_qqp_macro_f"),
    }
    kept = {name: gap.of(metric, profile) for name, metric in held.items()}
    return met | {name: (values, mean_ci(values).low > 0) for name, values in kept.items() if values}


def aim_remark(profile: str | None = None) -> str:
    """Whether the aim is reached, part by part with its p: a line for each task, share and other arm.

    Where PAWS-QQP is asked, what a constant answer scores there comes last.
    """
    told, paws = [], False
    for task, minority in IDS:
        for other in (PLAIN, "compared"):
            met = reached(trained(task, minority, CHOSEN) - trained(task, minority, other), profile)
            parts = [
                f"{name} {tested(values)} ({'met' if good else 'not met'})"
                for name, (values, good) in met.items()
            ]
            whole = "reached" if all(good for _, good in met.values()) else "not reached"
            paws = paws or "PAWS-QQP" in met
            told.append(
                f"{TASKS[task][0].capitalize()}, {SHARES[minority]}, {ARMS[CHOSEN]} against "
                f"{ARMS[other]}, points: {'; '.join(parts)}: {whole}."
            )
    if paws:
        no = always_no(profile)
        told.append(f'Always "no" scores {no:.1%} on PAWS-QQP, macro-F {no / (1 + no):.1%}.')
    return "\n".join(f"- {line}" for line in told)


def one_label_remark(profile: str | None = None) -> str:
    """What the CHOSEN arm and the paper's method lose or gain on MNLI's contradicting pairs: a line a share.

    No part of the aim: all have one label, so that these pairs alone do not tell a habit of answering from
    reading; `halves` has the pairs of full overlap with the other label beside them.
    """
    told = []
    for task, minority in IDS:
        gaps = {
            pair: gap.of(asked("mnli_contradicting_accuracy"), profile)
            for pair, gap in contrasts_at(task, minority).items()
            if pair[0] in {CHOSEN, *BLANKETS}
        }
        parts = [
            f"{SHOWN[name]} - {SHOWN[other]} {tested(gap)}" for (name, other), gap in gaps.items() if gap
        ]
        if parts:
            told.append(
                f"MNLI's contradicting pairs, of one label, {SHARES[minority]}, points: {'; '.join(parts)}."
            )
    return "\n".join(f"- {line}" for line in told)


def paws_remark(profile: str | None = None) -> list[str]:
    """Both halves of PAWS-QQP and their mean by arm, and what CHOSEN gains in it; a line a share.

    The mean is 50 % for any constant answer.
    """
    halves = [f"paws_qqp_{label}" for label in TASKS["paraphrase"][2]]
    both, told = mean_of(*halves), []
    for minority in dict.fromkeys(minority for task, minority in IDS if task == "paraphrase"):
        arms = {name: trained("paraphrase", minority, name) for name in SHOWN}
        asked_of = {name: one for name, one in arms.items() if one and one.of(asked(halves[0]), profile)}
        parts = []
        for name, values in asked_of.items():
            one, other = (100 * values.summary(half, profile).mean for half in halves)
            parts.append(f"*{SHOWN[name]}* {one:.0f} and {other:.0f}, mean {share(values.of(both, profile))}")
        if {CHOSEN, "compared"} <= asked_of.keys():
            gap = asked_of[CHOSEN] - asked_of["compared"]
            parts.append(
                f"points of that mean, {SHOWN[CHOSEN]} - {SHOWN['compared']} {tested(gap.of(both, profile))}"
            )
        if parts:
            shown = "; ".join(parts)
            told.append(f"PAWS-QQP, {SHARES[minority]}, % of paraphrases and of the others: {shown}.")
    return told


@builds(
    "causal_transformer.beyond",
    *map(on_trial, TASKS),
    contrasts,
    everything,
    needs=search.SEARCHES.values(),
    shows="attention with few parents, one way, in its own sentence, held where words change places",
    **EXTRA | {"notebook": "13_directed_dependencies"},
)
def beyond(profile):
    """Beyond the paper: both tasks, paired differences, what was tried, and a figure."""
    caption = "Every seed of every arm: what is gained on the challenge, and what it costs."
    draw(profile, "causal_transformer.beyond", beyond_figure(profile), caption)
    caption = "Where each part gains and loses, kind by kind."
    draw(profile, "causal_transformer.beyond_kinds", kinds_figure(profile), caption)
