"""Compact rows of the in-context tasks: words, and which of them are answers or can be deduced.

A row is a dict of three lists (W,): `words`, one token each; `answer`, True where a word is asked for and
scored; `supervised`, True where a word can be deduced from those before it (every answer can). Other keys are
the task's own. The filler word says nothing: it makes prompts of two formats equally long.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from causalnb.errors import DataError

FILLER = "_"
SEPARATOR = "<sep>"
PLAIN, DEDUCIBLE, ANSWER = range(3)

Piece = tuple[str, int]


def plain(words: Iterable[str]) -> list[Piece]:
    """Words that nobody asks for, as pieces of a row."""
    return [(word, PLAIN) for word in words]


def make(pieces: Iterable[Piece], **more) -> dict:
    """The row of (word, PLAIN | DEDUCIBLE | ANSWER) pieces, with more keys of the task's own."""
    pieces = list(pieces)
    return {
        "words": [word for word, _ in pieces],
        "answer": [kind == ANSWER for _, kind in pieces],
        "supervised": [kind != PLAIN for _, kind in pieces],
        **more,
    }


def prompt_length(row: dict) -> int:
    """Words before the first answer, all of them if there is none."""
    return row["answer"].index(True) if True in row["answer"] else len(row["words"])


def pad(row: dict, length: int, seed: int | np.random.Generator = 0) -> dict:
    """`row` with fillers spread at random over a prompt of `length` words, none before a word to predict.

    DataError if the prompt is longer already.
    """
    missing = length - prompt_length(row)
    if missing < 0:
        raise DataError(f"A prompt of {prompt_length(row)} words cannot be padded to {length}: ask for more.")
    places = [i for i in range(prompt_length(row)) if not row["supervised"][i]]
    draw = np.random.default_rng(seed)
    chosen = np.bincount(draw.choice(places, missing), minlength=len(row["words"]))
    pieces = []
    for i, word in enumerate(row["words"]):
        kind = ANSWER if row["answer"][i] else DEDUCIBLE if row["supervised"][i] else PLAIN
        pieces += [*plain([FILLER] * int(chosen[i])), (word, kind)]
    return {**row, **make(pieces)}


def match_lengths(
    left: list[dict], right: list[dict], extra: int = 0, seed: int = 0
) -> tuple[list[dict], list[dict]]:
    """Both lists with fillers, so that the i-th prompts of both are equally long.

    That is the longer one's length and 0 to `extra` words more, drawn for each pair. DataError if the lists
    differ in length.
    """
    if len(left) != len(right):
        raise DataError(
            f"{len(left)} rows cannot be matched with {len(right)}: give the same problems twice."
        )
    draw = np.random.default_rng(seed)
    more = draw.integers(0, extra + 1, len(left))
    lengths = [
        max(prompt_length(a), prompt_length(b)) + int(m) for a, b, m in zip(left, right, more, strict=False)
    ]
    return tuple([pad(row, n, draw) for row, n in zip(rows, lengths, strict=False)] for rows in (left, right))  # type: ignore[return-value]


def without_fillers(row: dict) -> dict:
    """`row` as it was before pad()."""
    kept = [i for i, word in enumerate(row["words"]) if word != FILLER]
    return {**row, **{key: [row[key][i] for i in kept] for key in ("words", "answer", "supervised")}}
