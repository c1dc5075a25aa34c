"""Table 6 of C2DLM, the ablation: as printed with what test sizes imply, and as measured on three tasks."""

import math
import re
from collections.abc import Callable

from causalnb.experiments.c2dlm.artefacts import counts
from causalnb.experiments.c2dlm.artefacts.counts import ABLATED, ALPHAS, ITEMS, SFT
from causalnb.lab import registry
from causalnb.lab.report import Arm, Measured, Report, Row, arm, builds, draw, in_percent, save
from causalnb.lab.statistics import Summary
from causalnb.lab.tables import Table

WITHOUT = ("α=3, w/o S_γ", "α=3, w/o V-aware")
MEASURES = {  # heading -> task, metric
    "Sudoku: cells": ("sudoku", "test_cells"),
    "chain of thought: exact": ("cot", "test_exact"),
    "token game L: i.i.d.": ("stg", "iid_accuracy"),
    "token game L: o.o.d.": ("stg", "ood_accuracy"),
}
HOMES = {  # task -> the experiment of C2DLM, of plain diffusion and of C2DLM without values
    "sudoku": "c2dlm.parts.sudoku",
    "cot": "c2dlm.parts.cot",
    "stg": "c2dlm.long.stg_l",
}
PARTS = {
    "w/o schedule of γ": "no_schedule",
    "w/o V-aware": "no_v",
    "norm of the query, as printed": "query_norm",
    "mutual graph (ours)": "mutual",
    "diffusion (SFT)": "diffusion",
}


def table6(profile: str | None = None) -> Table:
    """Table 6 as printed, with intervals, averages from counts, and z against the default and against SFT."""
    found = counts.scores("table6")
    plain, default = {task: counts.scores("table5")[SFT][task] for task in ABLATED}, found["α=3"]

    def mean(row):
        printed = f"{row['Avg']:.2f}" if "Avg" in row else "not printed"
        return f"{printed}; {counts.average(row, ABLATED):.2f}"

    def against(row, other):
        gain, error = counts.mean_gain(other, row, ABLATED)
        return "" if row is other or gain == 0 else f"{gain:+.2f} ± {error:.2f} (z {gain / error:.2f})"

    rows = [
        [name, *(counts.interval(row[task], ITEMS[task]) for task in ABLATED)]
        + [mean(row), against(row, default), against(row, plain)]
        for name, row in {"SFT (Table 5)": plain, **found}.items()
    ]
    tasks = (f"{task} ({ITEMS[task]:,})" for task in ABLATED)
    return Table(
        "c2dlm.table6",
        ["setting", *tasks, "mean: printed; from counts", "minus default α=3", "minus SFT"],
        rows,
        "Table 6 as printed, with Wilson's 95 % intervals, and differences of means ± standard error",
        " ".join(remarks6()),
    )


def remarks6() -> list[str]:
    """What the printed Table 6 says about alpha and about the two parts, in sentences that are computed."""
    means = {name: counts.average(row, ABLATED) for name, row in counts.scores("table6").items()}
    by_alpha = [means[f"α={alpha}"] for alpha in ALPHAS]
    sft = counts.average(counts.scores("table5")[SFT], ABLATED)
    steps = [after - before for before, after in zip(by_alpha, by_alpha[1:], strict=False)]
    one_peak = re.fullmatch(r"\+*-*", "".join("+" if step > 0 else "-" for step in steps)) is not None
    best = ALPHAS[by_alpha.index(max(by_alpha))]
    changes = ", ".join(f"{step:+.2f}" for step in steps)
    return [
        f"From α = {ALPHAS[0]} to {ALPHAS[-1]} the mean changes by {changes}: it "
        f"{'rises and then falls' if one_peak else 'does not rise to one peak and then fall'}.",
        f"The best mean is at α = {best}, which is "
        f"{'the default' if best == 3 else 'not the default'}; no validation set is named.",
        f"{sum(means[name] < sft for name in WITHOUT)} of the {len(WITHOUT)} rows without a part are below "
        f"plain SFT ({sft:.2f}).",
    ]


def default_of(task: str) -> Arm:
    """C2DLM's own arm, with the default alpha."""
    return arm(HOMES[task], "c2dlm")


def settings(task: str) -> dict[str, Arm]:
    """{row of our Table 6: its arm}, of rows that were run; that of the default alpha is C2DLM's own arm."""
    homes, default = (
        (HOMES[task], f"c2dlm.parts.{task}"),
        registry.config(HOMES[task], "c2dlm", "laptop")["alpha"],
    )
    wanted = {f"α={alpha}": "c2dlm" if alpha == default else f"alpha{alpha}" for alpha in ALPHAS} | PARTS
    placed = {
        row: next((id for id in homes if name in registry.arms(id)), None) for row, name in wanted.items()
    }
    return {row: arm(placed[row], name) for row, name in wanted.items() if placed[row]}


def _rows():
    arms = {head: settings(task) for head, (task, _) in MEASURES.items()}
    for name in (*(f"α={alpha}" for alpha in ALPHAS), *PARTS):
        yield Row(name, {head: of_task[name] for head, of_task in arms.items() if name in of_task})


def _columns():
    for head, (task, metric) in MEASURES.items():
        yield Measured(head, metric)
        less = {"minus": default_of(task), "of": head, "same": "default"}
        yield Measured("minus default", metric, **less)


ablation = Report(
    "c2dlm.table6_ours",
    ["small scale", *_columns()],
    _rows,
    "Ours, small scale, in the shape of Table 6: percent, mean ± half of the 95 % interval (seeds), and "
    "the difference from C2DLM with its default α on the seeds that both have",
    "The default α is the paper's for each task: 5 for Sudoku and the token game, 3 for the chain of "
    "thought. γ has no printed value; 0.3, for Sudoku and the token game, and 1, for the chain of "
    "thought, are of three tried on another draw (notebook 43). Random weights; Sudoku: 200 puzzles and "
    "2,000 steps; the chain of thought: 3,000 steps. Mutual: answers also cause answers (notebook 44).",
)


def plain_of(task: str) -> Arm:
    """Plain diffusion of a task."""
    return settings(task)["diffusion (SFT)"]


def gaps(
    profile: str | None = None, beside: Callable[[str], Arm] = default_of
) -> dict[str, dict[str, object]]:
    """{heading: {row: Summary in points of row minus default on common seeds, None of the default}}.

    beside: another arm of each task in the default's place.
    """
    found = {head: {} for head in MEASURES}
    for row in _rows():
        for head, (task, metric) in MEASURES.items():
            if head not in row.value:
                continue
            gap = row.value[head] - beside(task)
            same = row.value[head] == beside(task)
            found[head][row.label] = None if same else gap.summary(in_percent(metric), profile)
    return found


def ablation_figure(profile: str | None = None):
    """(figure, alt): every setting's paired difference from C2DLM's default, a panel for each metric."""
    import matplotlib.pyplot as plt

    from causalnb.lab.figures import headline, intervals, text_size

    found, told, names = gaps(profile), [], [row.label for row in _rows()]
    fig, axes = plt.subplots(1, len(found), figsize=(8.6, 3.3), sharey=True)
    for ax, (heading, column) in zip(axes, found.items(), strict=True):
        for name, gap in column.items():
            place = len(names) - names.index(name)
            if gap is None:
                ax.scatter(0, place, marker="|", color="black", s=60)
                continue
            look = ("vermillion", "s") if name in PARTS else ("blue", "o")
            intervals(ax, [place], [gap], *look, across=True)
            half = f" ± {gap.half:.1f}" if gap.n > 1 else " (one seed)"
            told.append(f"{heading}, {name} {gap.mean:+.1f}{half}")
        ax.axvline(0, color="black", linewidth=1, linestyle=":")
        ax.set_title(heading.replace(": ", ":\n"), fontsize=text_size(9))
    axes[0].set_yticks(range(len(names), 0, -1), names)
    known = [gap for column in found.values() for gap in column.values() if gap is not None]
    ranges = [gap for gap in known if gap.n > 1]
    clear = sum(gap.low > 0 or gap.high < 0 for gap in ranges)
    headline(fig, f"{clear} of {len(ranges)} intervals of differences from C2DLM's default leave out 0")
    bars = "95 % interval; no bar: one seed" if len(ranges) < len(known) else "95 % interval"
    axis = f"minus C2DLM's default (the black mark), points (paired seeds, {bars})"
    fig.supxlabel(axis, fontsize=text_size(9))
    return fig, (
        "Differences from C2DLM with its default alpha, points with 95 % intervals, a panel for "
        f"each metric, a line at 0; a bar marks the default. {'; '.join(told)}."
    )


def p_of(gap: Summary) -> float:
    """The p of Student's t test of a mean, read from its 95 % interval."""
    from scipy.stats import t

    errors = abs(gap.mean) / gap.half * t.ppf(0.975, gap.n - 1) if gap.half else math.inf
    return float(2 * t.sf(errors, gap.n - 1))


def ablation_remarks(profile: str | None = None) -> list[str]:
    """How many intervals leave out 0, by row of our ablation, and which beside plain diffusion; sentences."""
    found, sentences = gaps(profile), []
    for name in [row.label for row in _rows()]:
        apart = {head: column[name] for head, column in found.items() if column.get(name) is not None}
        apart = {head: gap for head, gap in apart.items() if gap.n > 1}
        if not apart:
            continue
        worse = [f"{head}, p {p_of(gap):.3f}" for head, gap in apart.items() if gap.high < 0]
        better = [f"{head}, p {p_of(gap):.3f}" for head, gap in apart.items() if gap.low > 0]
        named = [f" ({'; '.join(heads)})" if heads else "" for heads in (worse, better)]
        sentences.append(
            f"{name}: beside the default below 0 on {len(worse)} of {len(apart)} measures{named[0]}, "
            f"above 0 on {len(better)}{named[1]}."
        )
    plain = [
        (f"{name} on {head} {gap.mean:+.1f} [{gap.low:+.1f}, {gap.high:+.1f}]", gap.low > 0 or gap.high < 0)
        for head, column in gaps(profile, plain_of).items()
        for name, gap in column.items()
        if gap is not None and gap.n > 1
    ]
    clear = [told for told, beyond in plain if beyond]
    return [
        *sentences,
        f"Beside diffusion (SFT) {len(clear)} of {len(plain)} intervals leave out 0"
        f"{': ' * bool(clear)}{'; '.join(clear)}.",
    ]


@builds("c2dlm.table6", needs=ablation.needed())
def build_table6(profile):
    """Table 6: the printed rows with their intervals, and our ablation on three tasks."""
    save(profile, table6, ablation)
    caption = "Ours, small scale: differences from C2DLM's default."
    draw(profile, "c2dlm.table6", ablation_figure(profile), caption)
