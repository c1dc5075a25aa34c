"""Table 3 of C2DLM, Sudoku: accuracies by training puzzles, and paired differences."""

from causalnb.experiments.c2dlm.artefacts.games import NAMES, PAPER, SFT
from causalnb.lab import registry
from causalnb.lab.report import (
    Measured,
    Printed,
    Reading,
    Report,
    Row,
    arm,
    builds,
    cell,
    draw,
    of_claim,
)

ROWS = (50, 200, 500, 5000)
FEW, MANY = 200, 5000
LOOKS = {  # arm -> colour, line, marker
    "autoregressive": ("sky", ":", "D"),
    "diffusion": ("black", "--", "s"),
    "c2dlm": ("blue", "-", "o"),
    "placebo": ("vermillion", "-.", "^"),
    "half_placebo": ("yellow", "-.", "v"),
    "half_enforced": ("green", "-", "P"),
    "enforced": ("purple", "--", "*"),
}
SCORES = {
    "test_cells": "cells",
    "test_solved": "puzzles",
    "test_valid": "valid",
    "test_cells_unique": "cells*",
    "test_solved_unique": "puzzles*",
}  # *: puzzles with one solution
CLAIMS = {200: "c2dlm.claim13", 500: "c2dlm.claim14", 5000: "c2dlm.claim15"}


def home(rows: int) -> str:
    """The experiment on so many training puzzles."""
    return f"c2dlm.long.sudoku_n{rows}"


def trained(rows: int) -> list[str]:
    """The arms on so many training puzzles."""
    return [name for name in LOOKS if name in registry.arms(home(rows))]


def _printed(n: int, name: str):
    """What the paper prints of an arm, in the metric that fits."""
    if n not in CLAIMS:
        return None
    if name in PAPER:
        return cell("c2dlm.table3", "cells {printed}", row=PAPER[name], column=f"n={n}")
    if name == "autoregressive":
        where = {"row_group": "AR", "column": f"n={n}"}
        return lambda profile: f"puzzles {cell('c2dlm.table3', '{printed} ({row})', ', ', **where)()}"
    return None


def accuracies(sizes: tuple[int, ...] = ROWS) -> Report:
    """Table 3: accuracy by training puzzles, the paper's numbers in the metric that they fit, ours in all."""

    def rows():
        for n in sizes:
            for name in trained(n):
                yield Row((n, NAMES[name]), arm(home(n), name), _printed(n, name))

    scores = (Measured(head, metric) for metric, head in SCORES.items())
    return Report(
        "c2dlm.table3",
        ["training puzzles", "model", Printed("paper", "none"), *scores],
        rows,
        "4x4 Sudoku, 500 test puzzles: percent, mean ± half of the 95 % interval (seeds)",
        "cells: empty cells filled as on record; puzzles: all of them; valid: any true completion; "
        "*: of the puzzles with one solution. The paper names no metric: its autoregressive numbers are "
        "whole 500ths, as puzzles are, its others whole 2048ths, as the 8 cells of 256 puzzles are. Under "
        "the mask an answer sees its clue and the cells of its row, column and box, clues and answers; a "
        "random mask shows it as many others. The graph of the loss has clues alone. "
        f"Training steps: {'; '.join(map(_steps, sizes))}.",
    )


def _steps(n: int) -> str:
    """How many steps the arms on so many puzzles have, those that differ by name."""
    each = {name: registry.config(home(n), name, "laptop")["steps"] for name in trained(n)}
    others = [name for name in each if each[name] != each[SFT]]
    apart = f" ({', '.join(f'{NAMES[name]} {each[name]:,}' for name in others)})" if others else ""
    return f"{n:,} puzzles {each[SFT]:,}{apart}"


def gain(n: int):
    """C2DLM minus plain tuning with so many training puzzles, in cells."""
    return arm(home(n), "c2dlm", "test_cells") - arm(home(n), SFT, "test_cells")


GAIN_OF_FEW = Row(
    f"gain over SFT with {FEW} − with {MANY:,} puzzles, test_cells",
    gain(FEW) - gain(MANY),
    claim="c2dlm.claim16",
)


def contrasts(sizes: tuple[int, ...] = ROWS) -> Report:
    """Differences of Table 3, paired by seed: guidance, its controls, and the paper's claims."""
    cells, puzzles = "cells, points", "puzzles, points"

    def rows():
        for n in sizes:
            at = {name: arm(home(n), name) for name in trained(n)}
            plain, guided = at[SFT], at["c2dlm"]
            said = cell("c2dlm.table3", row="Δ", column=f"n={n}") if n in CLAIMS else None
            yield Row((n, "C2DLM - SFT"), guided - plain, said, CLAIMS.get(n))
            if "placebo" in at:
                yield Row((n, "C2DLM - placebo graph"), guided - at["placebo"])
                yield Row((n, "placebo graph - SFT"), at["placebo"] - plain)
            for name in ("half_placebo", "half_enforced", "enforced"):
                if name in at:
                    yield Row((n, f"{NAMES[name]} - SFT"), at[name] - plain)
            if n == FEW:
                said = of_claim("c2dlm.claim17", "+{size:.2f}%")
                yield Row((n, "SFT - autoregressive"), plain - at["autoregressive"], said, "c2dlm.claim17")
        if {FEW, MANY} <= {*sizes}:
            label, said = (f"{FEW} - {MANY}", "gain of C2DLM over SFT"), "+{size:.2f}%"
            by_cells = {cells: gain(FEW) - gain(MANY)}
            yield Row(label, by_cells, of_claim("c2dlm.claim16", said), "c2dlm.claim16")

    scores = Measured(cells, "test_cells"), Measured(puzzles, "test_solved")
    return Report(
        "c2dlm.table3_contrasts",
        [
            "training puzzles",
            "difference",
            Printed("paper", "none"),
            *scores,
            Reading("reading (cells)", cells),
        ],
        rows,
        "Sudoku: differences of the same seeds, mean [95 % interval] (seeds)",
        "Where the paper claims a gain the reading is the verdict by rule, else the side of 0 on which the "
        "interval lies. Seeds differ in weights, noise and order; the puzzles are the same. "
        "The paper's gain over its autoregressive model subtracts puzzles from cells, if notebook 44's "
        "appendix is right, and is no size to reach; the gain of a gain is a difference of two.",
    )


def efficiency_figure(profile: str | None = None, sizes: tuple[int, ...] = ROWS):
    """(figure, alt): share of the puzzles with one solution that are solved, by training puzzles."""
    import matplotlib.pyplot as plt

    from causalnb.lab.figures import COLOURS, headline, text_size

    solved = {
        name: {
            n: [100 * value for value in arm(home(n), name, "test_solved_unique").of(profile=profile)]
            for n in sizes
            if name in trained(n)
        }
        for name in LOOKS
        if any(name in trained(n) for n in sizes)
    }
    fig, ax = plt.subplots(figsize=(6.8, 3.2))
    told, ends, few = [], [], sizes[len(sizes) > 1]  # 200 puzzles
    for name, found in solved.items():
        colour, line, marker = LOOKS[name]
        means = [sum(values) / len(values) for values in found.values()]
        look = {"color": COLOURS[colour], "markeredgecolor": "black", "markeredgewidth": 0.4}
        ax.plot([*found], means, linestyle=line, marker=marker, label=NAMES[name], **look)
        dots = [(n, value) for n, values in found.items() for value in values]
        ax.scatter(*zip(*dots, strict=True), s=9, color=COLOURS[colour], alpha=0.6)
        said = (f"{n:,} puzzles {mean:.1f}" for n, mean in zip(found, means, strict=True))
        told.append(f"{NAMES[name]}: {', '.join(said)}")
        if name in ("diffusion", "c2dlm", "placebo") and few in found:
            ends.append(f"{NAMES[name]} {sum(found[few]) / len(found[few]):.0f} %")
    headline(fig, f"Solved after {few:,} puzzles: {', '.join(ends)}")
    ax.set(xscale="log", xlabel="training puzzles", ylim=(-3, 103))
    ax.set_ylabel("solved, % of those with one solution")
    ax.set_xticks(sizes, [f"{n:,}" for n in sizes])
    ax.minorticks_off()
    ax.legend(fontsize=text_size(8), loc="center left", bbox_to_anchor=(1.01, 0.5))
    return fig, f"Puzzles solved by training puzzles, a dot a seed, means in percent. {'; '.join(told)}."


@builds("c2dlm.table3", accuracies(), contrasts())
def table3(profile):
    """Table 3, Sudoku: accuracies, and paired differences; and what few puzzles are worth."""
    caption = "Solved puzzles, of those with one solution, by number of training puzzles; a dot a seed."
    draw(profile, "c2dlm.table3", efficiency_figure(profile), caption)
