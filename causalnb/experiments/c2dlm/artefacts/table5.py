"""Table 5 of C2DLM, six tasks: as printed with what test sizes imply, and four arms on synthetic tasks."""

from causalnb.experiments.c2dlm.artefacts import counts
from causalnb.experiments.c2dlm.artefacts.counts import BASE, ITEMS, OURS, SFT
from causalnb.lab.report import Measured, Report, Row, arm, builds, draw, mean_of, save
from causalnb.lab.statistics import Summary, mean_ci
from causalnb.lab.tables import Table
from causalnb.tasks.reasoning import SYNTHETIC

DOWNSTREAM = "c2dlm.downstream"
ARMS = {
    "autoregressive": "autoregressive",
    "diffusion": "diffusion (SFT)",
    "c2dlm": "C2DLM",
    "placebo": "placebo graph",
}
CONTRASTS = (("c2dlm", "diffusion"), ("placebo", "diffusion"), ("c2dlm", "placebo"))
LOOKS = {"c2dlm": ("blue", "o", 0.14), "placebo": ("vermillion", "^", -0.14)}
SOME = tuple(task for task in ITEMS if task != "SAT")


def table5(profile: str | None = None) -> Table:
    """Table 5 as printed, with what its counts imply: intervals, z by task, the mean with and without SAT."""
    found, tasks = counts.scores("table5"), tuple(ITEMS)
    plain, guided = found[SFT], found[OURS]
    pairs = counts.pairs(plain, guided)
    gains = [counts.difference(*pair) for pair in pairs.values()]
    gains += [counts.mean_gain(plain, guided), counts.mean_gain(plain, guided, SOME)]
    moved = {task: after - before for task, (before, after, _) in pairs.items()}
    rows = [
        [name, *(counts.interval(found[name][task], items) for task, items in ITEMS.items())]
        + [f"{found[name]['Avg']:.2f}; {counts.average(found[name], tasks):.2f}"]
        + [f"{counts.average(found[name], SOME):.2f}"]
        for name in (BASE, SFT, OURS)
    ]
    least_to_greatest = ("{:.2f} to {:.2f}".format(*counts.paired_z(*pair)) for pair in pairs.values())
    rows += [
        ["gain ± standard error", *(f"{gain:+.2f} ± {error:.2f}" for gain, error in gains)],
        ["z, two samples", *(f"{gain / error:.2f}" for gain, error in gains)],
        ["z, same items: least to greatest", *least_to_greatest, "", ""],
        ["items", *(f"{n:,}" for n in (*ITEMS.values(), sum(ITEMS.values()), sum(ITEMS[t] for t in SOME)))],
        ["items gained"]
        + [f"{n:+d}" for n in (*moved.values(), sum(moved.values()), sum(moved[t] for t in SOME))],
    ]
    return Table(
        "c2dlm.table5",
        ["", *tasks, "mean: printed; from counts", "mean without SAT"],
        rows,
        "Table 5 as printed, with Wilson's 95 % intervals and what the test sizes imply (percent)",
        "Standard errors hold the sampling of test items only: one training seed is reported. Both models "
        "answer the same items; z of the pairs depends on how many items change, which is not printed. "
        "Gains are from counts: the printed ones are 1.22 on GSM8K and 0.59 on ARC_C.",
    )


def gains_figure():
    """(figure, alt): the printed gains of Table 5 with 95 % intervals; the mean with and without SAT."""
    import matplotlib.pyplot as plt

    from causalnb.lab.figures import intervals

    plain, guided = (counts.scores("table5")[name] for name in (SFT, OURS))
    gains = {
        f"{task} ({ITEMS[task]:,})": counts.difference(*pair)
        for task, pair in counts.pairs(plain, guided).items()
    }
    gains["mean of six"] = counts.mean_gain(plain, guided)
    gains["mean without SAT"] = counts.mean_gain(plain, guided, SOME)
    ends = {name: (gain - 1.96 * error, gain + 1.96 * error) for name, (gain, error) in gains.items()}
    fig, ax = plt.subplots(figsize=(5.8, 3.0))
    for place, name in enumerate([*gains][::-1]):
        look = ("vermillion", "D") if name.startswith("mean") else ("blue", "o")
        intervals(ax, [place], [Summary(gains[name][0], *ends[name], 1)], *look, across=True)
    ax.axvline(0, color="black", linewidth=1, linestyle=":")
    ax.axhline(1.5, color="0.8", linewidth=1)
    ax.set_yticks(range(len(gains)), [*gains][::-1])
    ax.set_xlabel("C2DLM − SFT, points (95 % interval over test items)")
    told = (
        f"{name} {gains[name][0]:+.2f}, from {low:+.2f} to {high:+.2f}" for name, (low, high) in ends.items()
    )
    return fig, f"Gains of Table 5 as dots with 95 % intervals, in points, a line at 0. {'; '.join(told)}."


def measures(without: str = "") -> dict:
    """{task or "mean": metric} of the six synthetic tasks, the mean over all but one."""
    names = {task: f"{task}_accuracy" for task in SYNTHETIC}
    return names | {"mean": mean_of(*(name for task, name in names.items() if task != without))}


def contrast(a: str, b: str):
    """The paired difference of two arms."""
    return arm(DOWNSTREAM, a) - arm(DOWNSTREAM, b)


def points(values) -> Summary:
    """The mean of shares in percent, or of their differences in points, with its interval."""
    return mean_ci([100 * value for value in values])


downstream = Report(
    "c2dlm.table5_ours",
    ["small scale"]
    + [
        Measured(f"{task} (for {SYNTHETIC[task]})" if task in SYNTHETIC else task, metric)
        for task, metric in measures().items()
    ],
    [Row(name, arm(DOWNSTREAM, id)) for id, name in ARMS.items()]
    + [Row(f"{ARMS[a]} − {ARMS[b]}", contrast(a, b)) for a, b in CONTRASTS],
    "Ours, small scale, in the shape of Table 5: accuracy on six synthetic tasks in percent, mean ± half "
    "of the 95 % interval (seeds), and differences of paired seeds",
    "The tasks are generated and have the shape of the real ones only; a number here says nothing about "
    "GSM8K or GPQA. The intervals are over training seeds; all runs are tested on the same items.",
)


def downstream_figure(profile: str | None = None):
    """(figure, alt): paired differences from plain diffusion, for C2DLM and for the placebo graph."""
    import matplotlib.pyplot as plt

    from causalnb.lab.figures import headline, intervals, text_size

    fig, ax = plt.subplots(figsize=(5.8, 3.2))
    names, told, ends = [*measures()][::-1], [], []
    for id, (colour, marker, shift) in LOOKS.items():
        for task, metric in measures().items():
            summary = points(contrast(id, "diffusion").of(metric, profile))
            look = {"across": True, "label": ARMS[id] if task == "mean" else None}
            intervals(ax, [names.index(task) + shift], [summary], colour, marker, **look)
            told.append(f"{ARMS[id]} on {task} {summary.mean:+.1f} ± {summary.half:.1f}")
            ends += [f"{ARMS[id]} {summary.mean:+.1f} ± {summary.half:.1f}"] if task == "mean" else []
    ax.axvline(0, color="black", linewidth=1, linestyle=":")
    ax.axhline(0.5, color="0.8", linewidth=1)
    ax.set_yticks(range(len(names))[::-1], names[::-1])
    ax.set_xlabel("minus plain diffusion, points (paired seeds, 95 % interval)")
    ax.legend(fontsize=text_size(8), loc="best")
    headline(fig, f"Points over plain diffusion, mean of six tasks: {', '.join(ends)}")
    return fig, (
        "Differences from plain diffusion on six synthetic tasks and their mean, points with 95 % "
        f"intervals, a line at 0. {'; '.join(told)}."
    )


def said(name: str, summary: Summary) -> str:
    """A sentence about a difference in points: above 0, below 0, or not to be told from 0."""
    reading = "above 0" if summary.low > 0 else "below 0" if summary.high < 0 else "not to be told from 0"
    half = f" ± {summary.half:.1f}" if summary.half == summary.half else ""
    return f"{name}: {summary.mean:+.1f}{half} points ({summary.n} seeds), {reading}."


def downstream_remarks(profile: str | None = None) -> list[str]:
    """The mean over the six tasks of every contrast, and without the task that gains most, in sentences."""
    sentences = []
    for a, b in CONTRASTS:
        gap = contrast(a, b)
        each = {task: points(gap.of(metric, profile)) for task, metric in measures().items()}
        whole = each.pop("mean")
        sentences.append(said(f"{ARMS[a]} minus {ARMS[b]}, mean of six tasks", whole))
        if whole.low > 0:
            most = max(each, key=lambda task: each[task].mean)
            ends = [points(arm(DOWNSTREAM, id).of(measures()[most], profile)).mean for id in (b, a)]
            rest = points(gap.of(measures(without=most)["mean"], profile))
            sentences[-1] += f" Its largest part is `{most}`, from {ends[0]:.1f} to {ends[1]:.1f} %; "
            sentences[-1] += said("without it", rest)
    return sentences


@builds("c2dlm.table5", needs=downstream.needed())
def build_table5(profile):
    """Table 5: the printed rows with their intervals, and four arms on six synthetic tasks."""
    save(profile, table5, downstream)
    draw(
        profile, "c2dlm.table5", gains_figure(), "The printed gains, with the uncertainty of the test items."
    )
    caption = "Ours, small scale: differences from plain diffusion."
    draw(profile, "c2dlm.table5_ours", downstream_figure(profile), caption)
