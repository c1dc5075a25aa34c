"""Table 3 of C2DLM, Sudoku: accuracies by training puzzles, and paired differences."""

from causalnb.experiments.c2dlm.artefacts.games import NAMES, PAPER, SFT
from causalnb.experiments.c2dlm.grid import GUIDED
from causalnb.lab.report import Measured, Printed, Reading, Report, Row, arm, builds, cell, of_claim

ROWS = (200, 500, 5000)
FEW, MANY = min(ROWS), max(ROWS)
CONTROLS, SCRATCH = "c2dlm.sudoku.controls", "c2dlm.sudoku.scratch"
SCORES = {
    "test_cells": "cells",
    "test_solved": "puzzles",
    "test_valid": "valid",
    "test_cells_unique": "cells*",
    "test_solved_unique": "puzzles*",
}  # *: puzzles with one solution
CLAIMS = dict(zip(ROWS, ("c2dlm.claim13", "c2dlm.claim14", "c2dlm.claim15"), strict=True))


def home(rows: int) -> str:
    """The experiment on so many training puzzles."""
    return f"c2dlm.sudoku.n{rows}"


def _printed(n: int, name: str):
    """What the paper prints of an arm, in the metric that fits."""
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
            for name in GUIDED:
                yield Row((n, NAMES[name]), arm(home(n), name), _printed(n, name))
        if MANY in sizes:
            for name in ("mutual", "no_v"):
                yield Row((MANY, NAMES[name]), arm(CONTROLS, name))
            for name in GUIDED:
                yield Row((MANY, f"{NAMES[name]}, from scratch"), arm(SCRATCH, f"{name}_scratch"))

    scores = (Measured(head, metric) for metric, head in SCORES.items())
    return Report(
        "c2dlm.table3",
        ["training puzzles", "model", Printed("paper", "none"), *scores],
        rows,
        "4x4 Sudoku, 500 test puzzles: percent, mean ± half of the 95 % interval (seeds)",
        "cells: empty cells filled as on record; puzzles: all of them; valid: any true completion; "
        "*: of the puzzles with one solution. The paper names no metric: its autoregressive numbers are "
        "whole 500ths, as puzzles are, its others whole 2048ths, as the 8 cells of 256 puzzles are.",
    )


def contrasts(sizes: tuple[int, ...] = ROWS) -> Report:
    """Differences of Table 3, paired by seed: guidance, its controls, and the paper's claims."""
    cells, puzzles = "cells, points", "puzzles, points"

    def rows():
        for n in sizes:
            plain, guided, placebo, left = (
                arm(home(n), name) for name in (SFT, "c2dlm", "placebo", "autoregressive")
            )
            said = cell("c2dlm.table3", row="Δ", column=f"n={n}")
            yield Row((n, "C2DLM - SFT"), guided - plain, said, CLAIMS[n])
            yield Row((n, "C2DLM - placebo graph"), guided - placebo)
            yield Row((n, "placebo graph - SFT"), placebo - plain)
            if n == FEW:
                said = of_claim("c2dlm.claim17", "+{size:.2f}%")
                yield Row((n, "SFT - autoregressive"), plain - left, said, "c2dlm.claim17")
            if n == MANY:
                yield Row((n, "mutual graph - SFT"), arm(CONTROLS, "mutual") - plain)
                yield Row((n, "C2DLM - C2DLM without V"), guided - arm(CONTROLS, "no_v"))
                guided, plain, placebo = (
                    arm(SCRATCH, f"{name}_scratch") for name in ("c2dlm", SFT, "placebo")
                )
                yield Row((n, "C2DLM - SFT, both from scratch"), guided - plain)
                yield Row((n, "C2DLM - placebo graph, both from scratch"), guided - placebo)
        if {FEW, MANY} <= {*sizes}:
            few, many = (arm(home(n), "c2dlm") - arm(home(n), SFT) for n in (FEW, MANY))
            label, said = (f"{FEW} - {MANY}", "gain of C2DLM over SFT"), "+{size:.2f}%"
            yield Row(label, {cells: few - many}, of_claim("c2dlm.claim16", said), "c2dlm.claim16")

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
        "interval lies. Seeds differ in noise, order and LoRA weights; the puzzles are the same. "
        "The paper's gain over its autoregressive model, and of a gain, are differences of printed cells.",
    )


@builds("c2dlm.table3", accuracies(), contrasts())
def table3(profile):
    """Table 3, Sudoku: accuracies, and paired differences."""
