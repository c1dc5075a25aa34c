"""Pointer value retrieval (Zhang et al. 2021b, as text by Gendron et al.): the first digit says which counts.

A list has 11 digits; the first points at one of the other ten, whose value is the answer. A prompt shows some
lists with their answers and asks for one more. Used for the states of a router, not for training.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from causalnb.errors import DataError
from causalnb.tasks import files, icl_rows
from causalnb.tasks.counts import counted

if TYPE_CHECKING:
    from datasets import DatasetDict

LENGTH = 11
WORDS = (*map(str, range(10)), ">", ";")
FILES = {3: "pvr/train_complexity0.jsonl", 4: "pvr/train_complexity0_4ex.jsonl"}  # by the number of examples

_ASKED = (
    "Figure out the pattern in the following examples and apply it to the test case. Your answer must "
    "follow the format of the examples."
)
_LINE = re.compile(rf"\[(\d(?:, \d){{{LENGTH - 1}}})\] -> (\d?)")


@dataclass(frozen=True)
class Problem:
    """Lists of 11 digits: the examples, whose answers are shown, and the one asked for."""

    examples: tuple[tuple[int, ...], ...]
    query: tuple[int, ...]


def solve(digits: Sequence[int]) -> int:
    """The digit that the first one points at: digits[1 + digits[0]]; DataError if they are not 11 digits."""
    if len(digits) != LENGTH or not {*digits} <= {*range(10)}:
        raise DataError(f"{list(digits)} is no list of pointer value retrieval: give {LENGTH} digits.")
    return digits[1 + digits[0]]


@counted(n=0, examples=1)
def generate(n: int = 250, seed: int = 0, examples: int = 4) -> list[Problem]:
    """n problems of uniform digits with this many examples."""
    drawn = np.random.default_rng(seed).integers(0, 10, (n, examples + 1, LENGTH))
    problems = [tuple(map(tuple, lists)) for lists in drawn.tolist()]
    return [Problem(lists[:-1], lists[-1]) for lists in problems]


def prompt(problem: Problem) -> tuple[str, str]:
    """(prompt, answer) in the source's words."""
    lines = [f"{list(digits)} -> {solve(digits)}" for digits in problem.examples]
    return "\n".join((_ASKED, *lines, f"{list(problem.query)} -> ")), str(solve(problem.query))


def parse_prompt(text: str) -> Problem:
    """The problem of a prompt(): its inverse. DataError names the line that does not fit."""
    head, *lines = text.split("\n")
    found = [_LINE.fullmatch(line) for line in lines]
    lists = [one and tuple(map(int, one[1].split(", "))) for one in found]
    for i, (one, digits) in enumerate(zip(found, lists, strict=False)):
        if not one or one[2] != ("" if i + 1 == len(lines) else str(solve(digits))):  # type: ignore[arg-type]
            raise DataError(
                f"Line {i + 2} of a prompt of pointer value retrieval, {lines[i][:60]!r}, is "
                f"none: expected {LENGTH} digits and, but for the last line, their answer."
            )
    if head != _ASKED or not lists:
        raise DataError(
            f"{text[:60]!r} is no prompt of pointer value retrieval: it must begin with the instruction."
        )
    return Problem(tuple(lists[:-1]), lists[-1])  # type: ignore[arg-type]


def parse_lines(text: str, source: str) -> list[Problem]:
    """Problems of JSON lines with input and ideal; DataError names `source` and the line that is wrong."""
    problems = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            row = json.loads(line)
            problem = parse_prompt("\n".join(one["content"] for one in row["input"]))
            right = solve(problem.query) == row["ideal"]
        except (ValueError, KeyError, TypeError, RecursionError):
            right = False
        if not right:
            raise DataError(
                f"{source}, line {number}: expected JSON with input, lists of {LENGTH} digits, "
                f"and ideal, found {line[:60]!r}; take a fresh copy of the file."
            )
        problems.append(problem)
    return problems


def read(examples: int = 4) -> list[Problem]:
    """The published problems with 3 examples (1,000) or 4 (250); DataError on another number or no copy."""
    if examples not in FILES:
        raise DataError(
            f"No file of pointer value retrieval has {examples!r} examples; choose one of "
            f"{', '.join(map(str, FILES))}."
        )
    return parse_lines(files.read(FILES[examples]).decode(), FILES[examples])


def rows(problems: Sequence[Problem]) -> list[dict]:
    """Compact rows: the digits of each list, ">", its answer; icl_rows' keys and `problem`, the place."""
    made = []
    for number, problem in enumerate(problems):
        pieces = []
        for digits in problem.examples:
            pieces += [*icl_rows.plain([*map(str, digits), ">"]), (str(solve(digits)), icl_rows.DEDUCIBLE)]
            pieces += icl_rows.plain([";"])
        pieces += [
            *icl_rows.plain([*map(str, problem.query), ">"]),
            (str(solve(problem.query)), icl_rows.ANSWER),
        ]
        made.append(icl_rows.make(pieces, problem=number))
    return made


def load(source: str = "generator", n: int = 250, seed: int = 0, examples: int = 4) -> DatasetDict:
    """DatasetDict with one part, train, and columns prompt, response; source "generator" or "file"."""
    from datasets import Dataset, DatasetDict

    if source not in ("generator", "file"):
        raise DataError(
            f"Unknown source {source!r} of pointer value retrieval; choose 'generator' or 'file'."
        )
    problems = read(examples) if source == "file" else generate(n, seed, examples)
    said = [prompt(problem) for problem in problems]
    return DatasetDict(
        {
            "train": Dataset.from_dict(
                dict(zip(("prompt", "response"), map(list, zip(*said, strict=False)), strict=False))
            )
        }
    )
