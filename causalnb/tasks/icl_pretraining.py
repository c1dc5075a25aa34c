"""What the small base of the ICLM experiments reads before any task, in the words of icl_words.

Half of the rows practise single skills on random words: copying a list, looking up what a word was paired
with, telling under which marks a name was seen, which words of one list another lacks, and pointer value
retrieval. The other half are contexts of ACRE and RAVEN in both formats, without a query: the six views, and
the eight panels of a matrix, of all three configurations. No query of ACRE and no ninth panel of RAVEN is
among them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from causalnb.errors import DataError
from causalnb.tasks import acre, icl_rows, icl_words, pvr, raven
from causalnb.tasks.counts import counted

_PLAIN = [
    word
    for word in icl_words.VOCABULARY
    if word not in (*icl_words.SPECIALS.values(), icl_rows.FILLER, ";", ">", "|", "/", ",", "and")
]
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
    pieces = icl_rows.plain([word for pair in zip(keys, values, strict=False) for word in (*pair, ";")])
    for i in asked:
        pieces += [*icl_rows.plain([keys[i], ">"]), (values[i], icl_rows.ANSWER)]
    return icl_rows.make(pieces)


def _marks(draw: np.random.Generator) -> dict:
    """Groups of names with one of two marks each; of every name: the marks of its groups, in their order."""
    *names, first, second = _some(draw, int(draw.integers(5, 11)))
    groups = [
        (draw.permutation(names)[: draw.integers(1, 4)].tolist(), (first, second)[draw.integers(2)])
        for _ in range(int(draw.integers(3, 7)))
    ]
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
    "copy": _copy,
    "lookup": _lookup,
    "marks": _marks,
    "lacking": _lacking,
}
_SHARES = {"copy": 1, "lookup": 4, "marks": 3, "lacking": 1, "pvr": 1}  # look-up comes late, or not at all


def _context(row: dict, words: int) -> dict:
    """The first words of a row, all of them to be predicted."""
    return icl_rows.make([(word, icl_rows.DEDUCIBLE) for word in row["words"][:words]])


def _contexts(n: int, seed: int) -> list[dict]:
    """Contexts of ACRE and RAVEN by turns, in both formats and in RAVEN all configurations by turns."""
    made, block = [], 0
    while len(made) < n:
        several = min(_BLOCK, n - len(made)) // 12 + 1
        views = acre.generate("IID", 3 * several, [seed, block])
        panels = [
            problem
            for of_each in zip(
                *(raven.generate(kind, several, [seed, block], "balanced") for kind in raven.CONFIGURATIONS),
                strict=False,
            )
            for problem in of_each
        ]
        for one, other in zip(views, panels, strict=True):
            for format in acre.FORMATS:
                (row,) = acre.rows([one], format, len(made), dense=True)
                made.append(_context(row, row["words"].index(icl_rows.SEPARATOR)))
                (row,) = raven.rows([other], format)
                made.append(_context(row, row["answer"].index(True) - 1))
        block += 1
    return made[:n]


@counted(n=0)
def generate(n: int, seed: int = 0) -> list[dict]:
    """`n` compact rows, skills and contexts by turns, shuffled. DataError unless n is at least 1."""
    if n < 1:
        raise DataError(f"{n} rows were asked for: ask for at least one.")
    draw = np.random.default_rng([seed, 0])
    names = [name for name, share in _SHARES.items() for _ in range(share)]
    chosen = draw.integers(0, len(names), n - n // 2)
    chosen = [names[i] for i in chosen]  # type: ignore[assignment]
    pointers = iter(pvr.rows(pvr.generate(chosen.count("pvr"), seed)))  # type: ignore[attr-defined]
    rows = [next(pointers) if name == "pvr" else SKILLS[name](draw) for name in chosen]
    rows += _contexts(n // 2, seed)
    return [rows[i] for i in draw.permutation(n)]
