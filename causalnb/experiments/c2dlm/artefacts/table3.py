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


def _printed(rows: int, name: str):
    """What the paper prints of an arm, in the metric that fits."""
    if name in PAPER:
        return cell("c2dlm.table3", "cells {printed}", row=PAPER[name], column=f"n={rows}")
    if name == "autoregressive":
        where = {"row_group": "AR", "column": f"n={rows}"}
        return lambda profile: f"puzzles {cell('c2dlm.table3', '{printed} ({row})', ', ', **where)()}"
    return None


def _accuracies():
    for rows in ROWS:
        for name in GUIDED:
            yield Row((rows, NAMES[name]), arm(home(rows), name), printed=_printed(rows, name))
    for name in ("mutual", "no_v"):
        yield Row((MANY, NAMES[name]), arm(CONTROLS, name))
    for name in GUIDED:
        yield Row((MANY, f"{NAMES[name]}, from scratch"), arm(SCRATCH, f"{name}_scratch"))


accuracies = Report(
    "c2dlm.table3",
    [
        "training puzzles",
        "model",
        Printed("paper", "none"),
        *(Measured(head, metric) for metric, head in SCORES.items()),
    ],
    _accuracies,
    "4x4 Sudoku, 500 test puzzles: percent, mean ± half of the 95 % interval (seeds)",
    "cells: empty cells filled as on record; puzzles: all of them; valid: any true completion; "
    "*: of the puzzles with one solution. The paper names no metric: its autoregressive numbers are "
    "whole 500ths, as puzzles are, its others whole 2048ths, as the 8 cells of 256 puzzles are.",
)


def _contrasts():
    for rows in ROWS:
        plain, guided, placebo, left = (
            arm(home(rows), name) for name in (SFT, "c2dlm", "placebo", "autoregressive")
        )
        said = cell("c2dlm.table3", row="Δ", column=f"n={rows}")
        yield Row((rows, "C2DLM - SFT"), guided - plain, said, CLAIMS[rows])
        yield Row((rows, "C2DLM - placebo graph"), guided - placebo)
        yield Row((rows, "placebo graph - SFT"), placebo - plain)
        if rows == FEW:
            said = of_claim("c2dlm.claim17", "+{size:.2f}%")
            yield Row((rows, "SFT - autoregressive"), plain - left, said, "c2dlm.claim17")
    yield Row((MANY, "mutual graph - SFT"), arm(CONTROLS, "mutual") - plain)
    yield Row((MANY, "C2DLM - C2DLM without V"), guided - arm(CONTROLS, "no_v"))
    guided, plain, placebo = (arm(SCRATCH, f"{name}_scratch") for name in ("c2dlm", SFT, "placebo"))
    yield Row((MANY, "C2DLM - SFT, both from scratch"), guided - plain)
    yield Row((MANY, "C2DLM - placebo graph, both from scratch"), guided - placebo)
    few, many = (arm(home(rows), "c2dlm") - arm(home(rows), SFT) for rows in (FEW, MANY))
    yield Row(
        (f"{FEW} - {MANY}", "gain of C2DLM over SFT"),
        {"cells, points": few - many},
        of_claim("c2dlm.claim16", "+{size:.2f}%"),
        "c2dlm.claim16",
    )


contrasts = Report(
    "c2dlm.table3_contrasts",
    [
        "training puzzles",
        "difference",
        Printed("paper", "none"),
        Measured("cells, points", "test_cells"),
        Measured("puzzles, points", "test_solved"),
        Reading("reading (cells)", "cells, points"),
    ],
    _contrasts,
    "Sudoku: differences of the same seeds, mean [95 % interval] (seeds)",
    "Where the paper claims a gain the reading is the verdict by rule, else the side of 0 on which the "
    "interval lies. Seeds differ in noise, order and LoRA weights; the puzzles are the same. "
    "The paper's gain over its autoregressive model, and of a gain, are differences of printed cells.",
)


@builds("c2dlm.table3", accuracies, contrasts)
def table3(profile):
    """Table 3, Sudoku: accuracies, and paired differences."""
