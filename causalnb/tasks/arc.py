"""The abstraction and reasoning corpus (Chollet 2019, as text by Gendron et al.): grids before and after.

A prompt shows pairs of grids of digits, the second made from the first by one rule, and asks for the second
grid of one more pair. Used for the states of a router, not for training: most tasks are long, so take those
that fit, or the first words of each. The tasks drawn here are small, of eight rules of our own choice.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from causalnb.errors import DataError
from causalnb.tasks import files, icl_rows
from causalnb.tasks.counts import counted

if TYPE_CHECKING:
    from datasets import DatasetDict

Grid = tuple[tuple[int, ...], ...]

RULES = {
    "mirror": np.fliplr,
    "flip": np.flipud,
    "turn": np.rot90,
    "transpose": np.transpose,
    "double": lambda grid: np.hstack([grid, grid]),
    "reflect": lambda grid: np.hstack([grid, np.fliplr(grid)]),
    "stack": lambda grid: np.vstack([grid, grid]),
    "next": lambda grid: (grid + 1) % 10,
}
WORDS = (*map(str, range(10)), ",", ">", ";")
PARTS = ("train", "test")

_ASKED = (
    "Figure out the pattern in the following examples and apply it to the test case. Your answer must "
    "follow the format of the examples. "
)
_ARROW = " -> "


@dataclass(frozen=True)
class Problem:
    """Pairs of grids (before, after), the grid asked for, and the answer."""

    pairs: tuple[tuple[Grid, Grid], ...]
    query: Grid
    answer: Grid


def _tuples(grid: np.ndarray) -> Grid:
    return tuple(map(tuple, grid.tolist()))


@counted(n=0, pairs=1)
def generate(n: int = 400, seed: int = 0, pairs: int = 3) -> list[Problem]:
    """n problems of grids of 2 to 4 rows and columns, each by one of RULES."""
    draw = np.random.default_rng(seed)
    problems = []
    for _ in range(n):
        rule = [*RULES.values()][draw.integers(len(RULES))]
        before = [draw.integers(0, 10, draw.integers(2, 5, 2)) for _ in range(pairs + 1)]
        grids = [(_tuples(grid), _tuples(rule(grid))) for grid in before]  # type: ignore[operator]
        problems.append(Problem(tuple(grids[:-1]), *grids[-1]))
    return problems


def show_grid(grid: Grid) -> str:
    """A grid in the source's words: a list of lists."""
    return str([list(row) for row in grid])


def parse_grid(text: str) -> Grid:
    """The grid of show_grid(): its inverse. DataError if the text is none."""
    try:
        found = json.loads(text)
        grid = tuple(tuple(row) for row in found)
    except (ValueError, TypeError, RecursionError):
        grid = ()
    cells = [cell for row in grid for cell in row]
    if (
        not cells
        or len({len(row) for row in grid}) > 1
        or show_grid(grid) != text
        or any(not isinstance(cell, int) or not 0 <= cell <= 9 for cell in cells)
    ):
        raise DataError(f"{text[:60]!r} is no grid: give rows of digits, all of one length.")
    return grid


def prompt(problem: Problem) -> tuple[str, str]:
    """(prompt, answer) in the source's words."""
    lines = [f"{show_grid(before)}{_ARROW}{show_grid(after)}" for before, after in problem.pairs]
    return "\n".join((_ASKED, *lines, f"{show_grid(problem.query)}{_ARROW}")), show_grid(problem.answer)


def parse_prompt(text: str) -> tuple[tuple[tuple[Grid, Grid], ...], Grid]:
    """(pairs, grid asked for) of a prompt(): its inverse. DataError says what does not fit."""
    head, *lines = text.split("\n")
    cut = [line.split(_ARROW) for line in lines]
    if head != _ASKED or not lines or any(len(one) != 2 for one in cut) or cut[-1][1]:
        raise DataError(
            f"{text[:60]!r} is no prompt of ARC: expected the instruction, pairs of grids, and a "
            f"grid with nothing after its arrow."
        )
    return tuple((parse_grid(a), parse_grid(b)) for a, b in cut[:-1]), parse_grid(cut[-1][0])


def parse_lines(text: str, source: str) -> list[Problem]:
    """Problems of JSON lines with input and ideal; DataError names `source` and the line that is wrong."""
    problems = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            row = json.loads(line)
            pairs, query = parse_prompt("\n".join(one["content"] for one in row["input"]))
            problems.append(Problem(pairs, query, parse_grid(row["ideal"])))
        except (ValueError, KeyError, TypeError, RecursionError):
            raise DataError(
                f"{source}, line {number}: expected JSON with input, pairs of grids, and ideal, "
                f"found {line[:60]!r}; take a fresh copy of the file."
            ) from None
    return problems


def read(part: str = "train") -> list[Problem]:
    """The published problems of train (416) or test (419); DataError on another part or no copy."""
    if part not in PARTS:
        raise DataError(f"Unknown part {part!r} of ARC; choose one of {', '.join(PARTS)}.")
    name = f"arc_agi/symbolic_hard_{part}.jsonl"
    return parse_lines(files.read(name).decode(), name)


def _words(grid: Grid) -> list[str]:
    return [word for row in grid for word in (*map(str, row), ",")][:-1]


@counted(limit=0)
def rows(problems: Sequence[Problem], limit: int | None = None, cut: bool = False) -> list[dict]:
    """Compact rows: digits, "," between the rows of a grid, ">" before the second of a pair, ";" after it.

    Rows of more than `limit` words are left out, or with `cut` end there. icl_rows' keys, and `problem`, the
    place in the list.
    """
    made = []
    for number, problem in enumerate(problems):
        pieces = [
            piece
            for before, after in problem.pairs
            for piece in icl_rows.plain([*_words(before), ">", *_words(after), ";"])
        ]
        pieces += icl_rows.plain([*_words(problem.query), ">"])
        pieces += [(word, icl_rows.ANSWER) for word in _words(problem.answer)]
        if limit is None or cut or len(pieces) <= limit:
            made.append(icl_rows.make(pieces[:limit], problem=number))
    return made


@counted(n_train=0, n_test=0)
def load(source: str = "generator", n_train: int = 400, n_test: int = 400, seed: int = 0) -> DatasetDict:
    """DatasetDict train/test with prompt, response; source "generator" or "file"; DataError on another."""
    from datasets import Dataset, DatasetDict

    if source not in ("generator", "file"):
        raise DataError(f"Unknown source {source!r} of ARC; choose 'generator' or 'file'.")
    if source == "file":
        parts = {part: read(part) for part in PARTS}
    else:
        drawn = generate(n_train + n_test, seed)
        parts = {"train": drawn[:n_train], "test": drawn[n_train:]}
    said = {part: [prompt(problem) for problem in problems] for part, problems in parts.items()}
    return DatasetDict(
        {
            part: Dataset.from_dict(
                dict(zip(("prompt", "response"), map(list, zip(*pairs, strict=False)), strict=False))
            )
            for part, pairs in said.items()
        }
    )
