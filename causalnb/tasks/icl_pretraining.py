"""What the small base of the ICLM experiments reads before any task, in the words of icl_words.

Half of the rows practise single skills on random words: copying a list, looking up what a word was paired
with, telling under which marks a word was seen, which words of one list another lacks, and pointer value
retrieval. The other half are contexts of ACRE and RAVEN in both formats, without a query: the six views, and
the first two rows of a matrix. No query of ACRE and no third row of RAVEN is among them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from causalnb.errors import DataError
from causalnb.tasks import acre, icl_rows, icl_words, pvr, raven

_PLAIN = [word for word in icl_words.VOCABULARY if word not in (*icl_words.SPECIALS.values(), icl_rows.FILLER,
                                                                 ";", ">", "|", "/", ",")]
_BLOCK = 1000  # problems that are drawn at once


def _some(draw: np.random.Generator, n: int) -> list[str]:
    return [_PLAIN[i] for i in draw.choice(len(_PLAIN), n, replace=False)]


def _row(asked: Sequence[str], said: Sequence[str]) -> dict:
    return icl_rows.make([*icl_rows.plain(asked), *((word, icl_rows.ANSWER) for word in said)])


def _copy(draw: np.random.Generator) -> dict:
    said = _some(draw, int(draw.integers(3, 20)))
    return _row([*said, icl_rows.SEPARATOR], said)


def _lookup(draw: np.random.Generator) -> dict:
    keys = _some(draw, int(draw.integers(2, 9)))
    values = [_PLAIN[i] for i in draw.integers(0, len(_PLAIN), len(keys))]
    asked = draw.permutation(len(keys))
    pieces = icl_rows.plain([word for pair in zip(keys, values) for word in (*pair, ";")])
    for i in asked:
        pieces += [*icl_rows.plain([keys[i], ">"]), (values[i], icl_rows.ANSWER)]
    return icl_rows.make(pieces)


def _marks(draw: np.random.Generator) -> dict:
    """Groups of words with one of two marks each; of every word: the marks of its groups, in their order."""
    *names, first, second = _some(draw, int(draw.integers(5, 11)))
    groups = [(draw.permutation(names)[: draw.integers(1, 4)].tolist(), (first, second)[draw.integers(2)])
              for _ in range(int(draw.integers(3, 7)))]
    pieces = icl_rows.plain([word for group, mark in groups for word in (*group, ">", mark, ";")])
    pieces += icl_rows.plain([icl_rows.SEPARATOR])
    for name in draw.permutation(names).tolist():
        found = [mark for group, mark in groups if name in group]
        pieces += icl_rows.plain([name, ">"]) + [(word, icl_rows.ANSWER) for word in (*found, ";")]
    return icl_rows.make(pieces)


def _lacking(draw: np.random.Generator) -> dict:
    names = _some(draw, int(draw.integers(3, 10)))
    other = draw.permutation(names)[: draw.integers(1, len(names))].tolist()
    return _row([*names, ">", *other, icl_rows.SEPARATOR], [*(w for w in names if w not in other), ";"])


SKILLS: dict[str, Callable[[np.random.Generator], dict]] = {
    "copy": _copy, "lookup": _lookup, "marks": _marks, "lacking": _lacking}


def _context(row: dict, words: int) -> dict:
    """The first words of a row, all of them to be predicted."""
    return icl_rows.make([(word, icl_rows.DEDUCIBLE) for word in row["words"][:words]])


def _contexts(n: int, seed: int) -> list[dict]:
    """Contexts of ACRE and RAVEN by turns, in both formats by turns."""
    made, block = [], 0
    while len(made) < n:
        several = min(_BLOCK, n - len(made)) // 4 + 1
        views = acre.generate("IID", several, [seed, block])
        panels = raven.generate("center_single", several, [seed, block], "balanced")
        for format in acre.FORMATS:
            for row, other in zip(acre.rows(views, format, block, dense=True), raven.rows(panels, format),
                                  strict=True):
                made.append(_context(row, row["words"].index(icl_rows.SEPARATOR)))
                ends = [i for i, word in enumerate(other["words"]) if word == ";"]
                made.append(_context(other, ends[1]))
        block += 1
    return made[:n]


def generate(n: int, seed: int = 0) -> list[dict]:
    """`n` compact rows, skills and contexts by turns, shuffled. DataError unless n is at least 1."""
    if n < 1:
        raise DataError(f"{n} rows were asked for: ask for at least one.")
    draw = np.random.default_rng([seed, 0])
    names = [*SKILLS, "pvr"]
    chosen = draw.integers(0, len(names), n - n // 2)
    pointers = iter(pvr.rows(pvr.generate(int((chosen == names.index("pvr")).sum()), seed)))
    rows = [next(pointers) if names[i] == "pvr" else SKILLS[names[i]](draw) for i in chosen]
    rows += _contexts(n // 2, seed)
    return [rows[i] for i in draw.permutation(n)]
