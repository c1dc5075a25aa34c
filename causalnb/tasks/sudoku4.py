"""Sudoku on a 4x4 grid: each row, column and 2x2 box holds 1, 2, 3 and 4 once.

A grid is a text of 16 digits, row by row; in a puzzle 0 is an empty cell. There are 288 grids, and a puzzle
keeps some cells of one of them, so that all puzzles are among the 288 x 65,536 pairs of a grid and a mask.
13,579,680 of them have one solution: they are counted and drawn here, and no file is needed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np

from causalnb.errors import DataError
from causalnb.tasks import files
from causalnb.tasks.counts import counted

if TYPE_CHECKING:
    from datasets import DatasetDict

Pair = tuple[str, str]

CELLS = 16
_ROW, _COLUMN = np.divmod(np.arange(CELLS), 4)
_BOX = _ROW // 2 * 2 + _COLUMN // 2
_UNITS = {"row": _ROW, "column": _COLUMN, "box": _BOX}
PEERS = tuple(
    tuple(j for j in range(CELLS) if j != i and any(unit[i] == unit[j] for unit in _UNITS.values()))
    for i in range(CELLS)
)  # 7 cells each
GRAPH = {
    f"answer {i}": (f"clue {i}", *(f"{part} {j}" for j in PEERS[i] for part in ("clue", "answer")))
    for i in range(CELLS)
}  # effect -> causes: the cell's own clue, and its peers in puzzle and answer
ENCODINGS = ("text", "compact")
AMBIGUOUS = ("keep", "drop", "refuse")
WORDS = tuple("01234")  # of the compact encoding
TEST_FILE = "sudoku/4x4_test_sudoku.csv"
GRIDS_FILE = "sudoku/4x4_sudoku_unique_solution.csv"
_RULES = (
    "Fill in this 4x4 Sudoku. The 16 digits are its cells, row by row, and 0 is an empty cell. "
    "Every row, every column and every 2x2 box must hold each of 1, 2, 3 and 4 once. Give all 16 "
    "digits between <answer> and </answer>."
)


@lru_cache(maxsize=1)
def _grids() -> np.ndarray:
    rows = np.array(list(permutations((1, 2, 3, 4))), dtype=np.uint8)  # (24, 4)
    found = rows
    for _ in range(3):
        above = np.repeat(found, len(rows), axis=0)
        found = np.concatenate([above, np.tile(rows, (len(found), 1))], axis=1)  # (n, 4 to 16)
        cells = found.shape[1]
        for unit in (_COLUMN, _BOX):
            pairs = [(i, j) for i in range(cells) for j in range(i) if unit[i] == unit[j]]
            left, right = np.array(pairs).T
            found = found[(found[:, left] != found[:, right]).all(axis=1)]
    found.setflags(write=False)
    return found


def grids() -> np.ndarray:
    """All 288 solved grids in increasing order, (288, 16) of 1 to 4."""
    return _grids()


def _text(cells: Iterable[int]) -> str:
    return "".join(map(str, cells))


def _cells(puzzle: str) -> np.ndarray:
    if not isinstance(puzzle, str) or not re.fullmatch("[0-4]{16}", puzzle):
        raise DataError(f"{puzzle!r} is no 4x4 Sudoku: give 16 digits from 0 to 4, 0 for an empty cell.")
    return np.frombuffer(puzzle.encode(), dtype=np.uint8) - ord("0")


def solutions(puzzle: str) -> list[str]:
    """Every completion of a puzzle, in increasing order; DataError unless it is 16 digits from 0 to 4."""
    cells = _cells(puzzle)
    return [_text(grid) for grid in grids()[((cells == 0) | (cells == grids())).all(axis=1)]]


def count_solutions(puzzles: Sequence[str]) -> np.ndarray:
    """Number of completions of each puzzle, (n,) of 0 to 288; DataError as solutions."""
    cells = np.array([_cells(puzzle) for puzzle in puzzles], dtype=np.uint8).reshape(-1, 1, CELLS)
    counts = [
        ((part == 0) | (part == grids())).all(axis=2).sum(axis=1)
        for part in np.split(cells, range(1000, len(cells), 1000))
    ]
    return np.concatenate(counts)


def solve(puzzle: str) -> str:
    """The one solution of a puzzle; DataError, saying which, if there are several or none."""
    found = solutions(puzzle)
    if len(found) > 1:
        free = [i + 1 for i in range(CELLS) if len({grid[i] for grid in found}) > 1]
        raise DataError(
            f"Puzzle {puzzle} has {len(found)} solutions: they differ in cells "
            f"{', '.join(map(str, free))}; fill in one of these, or take solutions()."
        )
    if not found:
        raise DataError(f"Puzzle {puzzle} has no solution: {_clash(puzzle)}; empty a cell or correct it.")
    return found[0]


def _clash(puzzle: str) -> str:
    for i in range(CELLS):
        for j in PEERS[i]:
            if j > i and puzzle[i] == puzzle[j] != "0":
                unit = next(name for name, unit in _UNITS.items() if unit[i] == unit[j])
                return f"cells {i + 1} and {j + 1} of one {unit} both hold {puzzle[i]}"
    return "no rule is broken yet, but its clues fit none of the 288 grids"


@lru_cache(maxsize=1)
def _unique() -> np.ndarray:
    bits = 1 << np.arange(CELLS)
    unique = np.empty((len(grids()), 1 << CELLS), dtype=bool)
    for grid, row in zip(grids(), unique, strict=False):
        shared = np.zeros(1 << CELLS, dtype=bool)  # masks that another grid fits as well
        shared[(grid == grids()) @ bits] = True
        shared[-1] = False  # the grid itself
        for i in range(CELLS):  # what fits a mask fits every part of it
            halves = shared.reshape(-1, 2, 1 << i)
            halves[:, 0] |= halves[:, 1]
        np.logical_not(shared, out=row)
    unique.setflags(write=False)
    return unique


def unique_masks() -> np.ndarray:
    """Whether a grid's clues under a mask have one solution: (288, 65536), bit i of a mask is cell i + 1."""
    return _unique()


@lru_cache(maxsize=1)
def _n_clues() -> np.ndarray:
    return ((np.arange(1 << CELLS)[:, None] >> np.arange(CELLS)) & 1).sum(axis=1)


def count_unique() -> dict[int, int]:
    """Number of uniquely solvable puzzles by number of clues, 4 to 16; 13,579,680 together."""
    by_mask = unique_masks().sum(axis=0)
    return {n: int(by_mask[_n_clues() == n].sum()) for n in range(4, CELLS + 1)}


@counted(n=0)
def sample(
    n: int, blanks: int | None = 8, unique: bool = True, seed: int = 0, exclude: Iterable[str] = ()
) -> list[Pair]:
    """`n` different (puzzle, solution), each pair of a grid and a mask as likely; none of `exclude`.

    blanks: empty cells, 0 to 12 (to 16 unless unique), None for any number. unique=False draws puzzles with
    several solutions as well; the solution is then the grid that was masked. DataError if there are too few.
    """
    if blanks is not None and (
        isinstance(blanks, bool) or not isinstance(blanks, int) or not 0 <= blanks <= CELLS
    ):
        raise DataError(f"{blanks!r} empty cells cannot be drawn: give 0 to {CELLS}, or None.")
    allowed = np.ones(1 << CELLS, dtype=bool) if blanks is None else _n_clues() == CELLS - blanks
    masks = unique_masks() & allowed if unique else np.broadcast_to(allowed, (len(grids()), 1 << CELLS))
    total, exclude = int(masks.sum()), set(exclude)
    draw, size, pairs = np.random.default_rng(seed), 0, {}
    while 0 < n <= total and size < total and len(pairs) < n:
        size = min(total, max(n + len(exclude), 2 * size))
        for puzzle, solution in _at(masks, draw.choice(total, size, replace=False)):
            if puzzle not in exclude:
                pairs.setdefault(puzzle, solution)
    if not 0 < n <= len(pairs):
        raise DataError(
            f"{n} different puzzles with {'any number of' if blanks is None else blanks} empty "
            f"cells cannot be drawn: there are {len(pairs) or total:,}"
            f"{' with one solution' if unique else ''}, and at least one must be asked for."
        )
    return list(pairs.items())[:n]


def _at(masks: np.ndarray, ranks: np.ndarray) -> list[Pair]:
    """(puzzle, solution) of the ranks-th allowed pairs of a grid and a mask, grid by grid."""
    per_grid = masks.sum(axis=1)
    which = np.searchsorted(np.cumsum(per_grid), ranks, side="right")
    within = ranks - (np.cumsum(per_grid) - per_grid)[which]
    mask = np.empty_like(ranks)
    for i in np.unique(which):
        mask[which == i] = np.flatnonzero(masks[i])[within[which == i]]
    solved = grids()[which]
    puzzles = solved * ((mask[:, None] >> np.arange(CELLS)) & 1).astype(np.uint8)
    return list(zip(_texts(puzzles), _texts(solved), strict=False))


def _texts(cells: np.ndarray) -> list[str]:
    return np.ascontiguousarray(cells + ord("0")).view(f"S{CELLS}").ravel().astype(str).tolist()


def ambiguity(puzzles: Sequence[str]) -> dict:
    """How far puzzles are from one solution each, and what that leaves to the best guess.

    n_solutions: {number of solutions: puzzles}; several: the puzzles with more than one; cell_ceiling,
    puzzle_ceiling: expected share of empty cells and of puzzles right, the solution on record being one of
    the completions at random. DataError if a puzzle has no solution.
    """
    counts, cells, blanks, whole = {}, 0.0, 0, 0.0
    for puzzle in puzzles:
        found = solutions(puzzle) or [solve(puzzle)]  # solve says why there is none
        empty = _cells(puzzle) == 0
        digits = np.array([_cells(grid) for grid in found])[:, empty]
        counts[len(found)] = counts.get(len(found), 0) + 1
        cells += np.max([(digits == digit).mean(axis=0) for digit in range(1, 5)], axis=0).sum()
        blanks, whole = blanks + int(empty.sum()), whole + 1 / len(found)
    return {
        "n_solutions": dict(sorted(counts.items())),
        "several": [p for p, n in zip(puzzles, count_solutions(puzzles), strict=False) if n > 1],
        "cell_ceiling": float(cells / max(1, blanks)),
        "puzzle_ceiling": whole / max(1, len(puzzles)),
    }


def render(puzzle: str, solution: str, encoding: str = "text") -> tuple[str, str]:
    """(prompt, response): rules, puzzle and the answer in its tags, or compact: 16 and 16 single digits."""
    if encoding not in ENCODINGS:
        raise DataError(f"Unknown Sudoku encoding {encoding!r}; choose one of {', '.join(ENCODINGS)}.")
    if encoding == "compact":
        return " ".join(puzzle), " ".join(solution)
    return f"{_RULES}\nSolve the following Sudoku puzzle: {puzzle}", f"<answer>\n{solution}\n</answer>"


def spans(encoding: str = "text") -> dict[str, tuple[int, int, int]]:
    """Where the cells of GRAPH stand in render(): (0 prompt or 1 response, first character, end)."""
    step = {"text": 1, "compact": 2}
    prompt, response = render("0" * CELLS, "0" * CELLS, encoding)
    first = {"clue": len(prompt) - 1 - step[encoding] * (CELLS - 1), "answer": response.index("0")}
    return {
        f"{name} {i}": (part, at, at + 1)
        for part, name in enumerate(first)
        for i in range(CELLS)
        for at in [first[name] + step[encoding] * i]
    }


def read_answer(response: str) -> str:
    """The 16 digits of a response: those in its last <answer>, else its last 16 in a row, else all.

    What is missing is filled up with 0, and what is too much cut off.
    """
    tagged = re.findall(r"<answer>(.*?)(?:</answer>|$)", response, re.S)
    runs = re.findall(r"(?<!\d)\d{16}(?!\d)", response)
    said = tagged[-1] if tagged else runs[-1] if runs else response
    return "".join(re.findall(r"\d", said))[:CELLS].ljust(CELLS, "0")


def score(puzzle: str, solution: str, response: str) -> dict[str, int]:
    """cells: empty cells filled as in `solution`, of `blanks`; solved: all; valid: any true completion.

    The published metric is the sum of cells over the sum of blanks; clues are not counted.
    """
    said = read_answer(response)
    right = [said[i] == solution[i] for i in range(CELLS) if puzzle[i] == "0"]
    return {
        "cells": sum(right),
        "blanks": len(right),
        "solved": int(all(right)),
        "valid": int(said in solutions(puzzle)),
    }


def parse_lines(text: str, source: str) -> list[Pair]:
    """Pairs of a file with columns Puzzle and Solution; DataError names `source` and the wrong line."""
    pairs = []
    for number, line in enumerate(text.splitlines()[1:], 2):
        found = re.fullmatch(r"([0-4]{16})[,\t]([1-4]{16})\s*", line)
        if not found or found[2] not in solutions(found[1]):
            raise DataError(
                f"{source}, line {number}: expected a puzzle and its solution, 16 digits each, "
                f"found {line[:60]!r}; take a fresh copy of the file."
            )
        pairs.append((found[1], found[2]))
    return pairs


@counted(n_train=0, n_test=0)
def load(
    n_train: int = 5000,
    n_test: int = 500,
    blanks: int | None = 8,
    unique: bool = True,
    seed: int = 42,
    source: str = "generator",
    ambiguous: str = "keep",
    encoding: str = "text",
) -> DatasetDict:
    """DatasetDict train/test with columns prompt, response, puzzle, solution, n_solutions.

    No training puzzle is a test puzzle. source="file": the test part is the published 500 puzzles, and a part
    `grids` holds the published one puzzle a grid. ambiguous: puzzles with several solutions in the file are
    kept, dropped or refused. DataError as sample and render.
    """
    from datasets import Dataset, DatasetDict

    if source not in ("generator", "file") or ambiguous not in AMBIGUOUS:
        raise DataError(
            f"Sudoku source {source!r} with ambiguous={ambiguous!r}: choose 'generator' or "
            f"'file', and one of {', '.join(AMBIGUOUS)}."
        )
    if source == "generator":
        drawn = sample(n_train + n_test, blanks, unique, seed)
        parts = {"train": drawn[:n_train], "test": drawn[n_train:]}
    else:
        test = parse_lines(files.read(TEST_FILE).decode(), TEST_FILE)
        train = sample(n_train, blanks, unique, seed, [puzzle for puzzle, _ in test])
        parts = {
            "train": train,
            "test": [pair for pair in test if _wanted(pair[0], ambiguous)],
            "grids": parse_lines(files.read(GRIDS_FILE).decode(), GRIDS_FILE),
        }

    def rows(pairs: list[Pair]) -> Dataset:
        said = [render(*pair, encoding) for pair in pairs]
        puzzles = [puzzle for puzzle, _ in pairs]
        return Dataset.from_dict(
            {
                "prompt": [prompt for prompt, _ in said],
                "response": [response for _, response in said],
                "puzzle": puzzles,
                "solution": [solution for _, solution in pairs],
                "n_solutions": count_solutions(puzzles).tolist(),
            }
        )

    return DatasetDict({part: rows(pairs) for part, pairs in parts.items()})


def _wanted(puzzle: str, ambiguous: str) -> bool:
    if ambiguous == "refuse":
        return bool(solve(puzzle))
    return ambiguous == "keep" or len(solutions(puzzle)) == 1
