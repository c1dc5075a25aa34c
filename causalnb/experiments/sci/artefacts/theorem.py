"""The identifiability theorem: agreement of encoders across seeds, probes, verdicts and a figure."""

from causalnb.experiments.sci.artefacts.verdicts import claims_on
from causalnb.experiments.sci.identifiability import FACTORS
from causalnb.lab.report import Measured, Report, Row, arm, builds, draw
from causalnb.lab.statistics import mean_ci, share_ci

MAIN = "sci.identifiability"
STAGES = {  # of the training on SCAN
    "untrained": arm(MAIN, "scan_untrained"),
    "200 steps": arm("sci.identifiability.brief", "scan"),
    "800 steps": arm(MAIN, "scan"),
}
ENCODERS = {f"SCAN, {name}": value for name, value in STAGES.items()} | {
    "English, untrained": arm(MAIN, "english_untrained"),
    "English, 800 steps": arm(MAIN, "english"),
}
TASKS = {"scan": ("SCAN", "first verb"), "english": ("English", "first noun")}
READ = [(task, name) for task in TASKS for name in (*FACTORS[task], "content")]
MEASURES = {  # of each encoder, then of two; what is measured, and what the theorem needs
    "cosine_same": ("cosine, same structure", "1"),
    "cosine_different": ("cosine, other structure", "below"),
    "retrieval": ("retrieval@1", "1"),
    "slot_cosine_same": ("cosine by slot, same structure", "1"),
    "slot_cosine_different": ("cosine by slot, other structure", "below"),
    "new_cosine_same": ("new word: cosine, same structure", "1"),
    "new_retrieval": ("new word: retrieval@1", "1"),
    "mcc": ("MCC across seeds", "near 1"),
    "mcc_rotated": ("MCC of a rotated copy", ""),
    "mcc_shuffled": ("MCC, rows shuffled", ""),
    "slot_mcc": ("MCC, slots matched", "near 1"),
    "procrustes_r2": ("Procrustes R2", ""),
    "linear_r2": ("ridge R2", "near 1"),
    "rsa": ("RSA", ""),
}


def _whole(values):
    """Mean and interval, nothing where a pair was not measured."""
    return mean_ci(values) if all(value == value for value in values) else None


theorem_table = Report(
    "sci.theorem",
    ["measure on unseen structures (new word: on trained ones)", "the theorem needs"]
    + [Measured(heading, format=_whole) for heading in ENCODERS],
    [
        Row(texts, {heading: arm(of.experiment, of.name, metric) for heading, of in ENCODERS.items()})
        for metric, texts in MEASURES.items()
    ],
    "Encoders trained with the contrastive loss alone: mean ± half of the 95 % interval (pairs of seeds)",
    "Cosines and retrieval concern each encoder, the rest two that differ in their seed. By slot: slot by "
    "slot, not of the mean. A new word was trained in one frame and is tested in others, which were trained "
    "with other words. "
    "R2 is measured on structures that the map was not fitted on.",
)
PLACES = {  # heading of a column of probes -> end of the arm's name, and what is read
    "untrained, mean slot": ("_untrained", "mean"),
    "untrained, all slots": ("_untrained", "slots"),
    "trained, mean slot": ("", "mean"),
    "trained, all slots": ("", "slots"),
}


def _probed():
    for task, name in READ:
        title, content = TASKS[task]
        label = f"content: {content}" if name == "content" else f"structure: {name}"
        values = {head: arm(MAIN, task + end, f"probe_{name}_{part}") for head, (end, part) in PLACES.items()}
        yield Row((title, label), {"commonest": arm(MAIN, task, f"chance_{name}"), **values})


probes_table = Report(
    "sci.theorem_probes",
    ["task", "what is read", *(Measured(heading, format=share_ci) for heading in ("commonest", *PLACES))],
    _probed,
    "Accuracy of linear probes on unseen structures: mean ± half of the 95 % interval (pairs of seeds)",
)


def theorem_figure(profile: str | None = None):
    """(figure, alt): agreement of two encoders against training, and what probes read from the slots."""
    import matplotlib.pyplot as plt
    import numpy as np

    from causalnb.lab.figures import COLOURS, headline, intervals, text_size

    fig, (left, right) = plt.subplots(1, 2, figsize=(9.6, 4.2), width_ratios=[1, 1.1])
    lines, read = [], []
    for name, label, *look in (
        ("retrieval", "retrieval@1, each encoder", "green", "D", "-"),
        ("linear_r2", "ridge R2 across seeds", "sky", "s", "--"),
        ("mcc_rotated", "MCC of a rotated copy", "black", "v", ":"),
        ("mcc", "MCC across seeds", "vermillion", "o", "-"),
        ("mcc_shuffled", "MCC, rows shuffled", "purple", "^", "-."),
    ):
        summaries = [value.summary(name, profile) for value in STAGES.values()]
        intervals(left, range(len(STAGES)), summaries, *look, capsize=2, label=label)
        lines.append(f"{label} {', '.join(f'{summary.mean:.2f}' for summary in summaries)}")
    last = [*STAGES][-1]
    pair, copy = (STAGES[last].summary(name, profile).mean for name in ("mcc", "mcc_rotated"))
    headline(
        fig,
        f"After {last} two encoders agree in their coordinates to an MCC of {pair:.2f}, one and a rotated "
        f"copy of it to {copy:.2f}; the theorem needs 1",
    )
    left.axhline(1, color="0.5", linewidth=1)
    left.text(1.5, 0.975, "MCC that the theorem needs", ha="center", va="top", fontsize=text_size(8))
    left.set_xticks(range(len(STAGES)), STAGES)
    left.set(ylim=(-0.03, 1.05), ylabel="on unseen SCAN structures")
    left.set_xlabel("training with the contrastive loss")
    left.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2, fontsize=text_size(8))
    places = np.arange(len(READ))[::-1]

    def means(metric, end=""):
        return [arm(MAIN, task + end).summary(metric.format(name), profile).mean for task, name in READ]

    for end, label, colour, marker in (
        ("_untrained", "untrained", "orange", "s"),
        ("", "trained", "blue", "o"),
    ):
        values = means("probe_{}_slots", end)
        right.scatter(values, places, color=COLOURS[colour], marker=marker, s=38, label=label, zorder=3)
        numbers = (f"{task} {name} {value:.2f}" for (task, name), value in zip(READ, values, strict=True))
        read.append(f"{label}: {', '.join(numbers)}")
    bar = {"color": "black", "marker": "|", "s": 160, "linewidths": 2, "zorder": 2}
    right.scatter(means("chance_{}"), places, label="commonest label", **bar)
    for place, (_, name) in zip(places, READ, strict=True):
        if name == "content":
            right.axhspan(place - 0.45, place + 0.45, color="0.9", zorder=0)
    right.set_yticks(places, [f"{TASKS[task][0]}: {name}" for task, name in READ], fontsize=text_size(8))
    right.set(xlim=(-0.03, 1.05), xlabel="accuracy of a linear probe on the slots")
    right.legend(loc="lower center", bbox_to_anchor=(0.4, 1), ncols=3, fontsize=text_size(8))
    return fig, (
        f"Left, at {', '.join(STAGES)}: {'; '.join(lines)}. Right, accuracy of probes on the slots, "
        f"content rows shaded. {'; '.join(read)}."
    )


@builds("sci.theorem", theorem_table, probes_table, claims_on("sci.theorem"))
def theorem(profile):
    """The identifiability theorem: agreement across seeds, probes, verdicts and a figure."""
    caption = "Left: what encoders of two seeds share, mean and 95 % interval. Right: what S(x) tells."
    draw(profile, "sci.theorem", theorem_figure(profile), caption)
