"""What the small bases of the diffusion experiments read before any task: lists, sums and short stories.

Prompts and responses in the words of causalnb.tasks.words. A third of the rows are the six synthetic tasks of
causalnb.tasks.reasoning; the others practise single skills on random words and numbers: adding, subtracting,
multiplying and dividing, formulas with a mean or a product, repeating and reversing a list, sorting it,
naming the letter that is missing, looking up the value that a word was given, and completing a Latin square
of words. No chain of COT-OrderPerturb and no row of the spurious token game is among them, though their words
are, and no Latin square that is a Sudoku.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import lru_cache
from itertools import permutations

from causalnb.errors import DataError
from causalnb.tasks import reasoning, words
from causalnb.tasks.counts import counted

Pair = tuple[str, str]

_LETTERS = ("A", "B", "C", "D")


@lru_cache(maxsize=1)
def _plain_words() -> list[str]:
    return [word for word in words.VOCABULARY if word not in words.SPECIALS.values()]


def _sum(draw: random.Random) -> Pair:
    a, b = draw.randint(-40, 100), draw.randint(0, 52)
    sign, value = draw.choice((("+", a + b), ("-", a - b)))
    if value not in words.NUMBERS:
        sign, value = "-", a - min(b, a + 40)
        b = a - value
    return f"{a} {sign} {b} =", str(value)


def _product(draw: random.Random) -> Pair:
    a, b = draw.randint(1, 12), draw.randint(1, 12)
    return (f"{a} * {b} =", str(a * b)) if draw.random() < 0.5 else (f"{a * b} / {b} =", str(a))


def _formula(draw: random.Random) -> Pair:
    a, b, shift = draw.randint(0, 100), draw.randint(0, 100), draw.randint(0, 10)
    said, value = draw.choice(
        (
            (f"( {a} + {b} ) / 2 + {shift}", (a + b) / 2 + shift),
            (f"( {a} - {b} ) / 3 + {shift}", (a - b) / 3 + shift),
            (f"( {a} + 2 * {b} ) / 3", (a + 2 * b) / 3),
            (f"( {a} * {b} ) / 100 + {shift}", a * b / 100 + shift),
        )
    )
    return f"{said} =", str(round(value))


def _repeat(draw: random.Random) -> Pair:
    said = draw.sample(_plain_words(), draw.randint(2, 10))
    return f"and {' '.join(said)}", " ".join(said)


def _reverse(draw: random.Random) -> Pair:
    said = draw.sample(_plain_words(), draw.randint(2, 8))
    return f"- {' '.join(said)}", " ".join(reversed(said))


def _sort(draw: random.Random) -> Pair:
    numbers = draw.sample(words.NUMBERS, draw.randint(2, 8))
    return f"> {' '.join(map(str, numbers))}", " ".join(map(str, sorted(numbers, reverse=True)))


def _missing(draw: random.Random) -> Pair:
    *said, left = draw.sample(_LETTERS, 4)
    return f"? {' '.join(said)}", left


def _lookup(draw: random.Random) -> Pair:
    keys = draw.sample(_plain_words(), draw.randint(2, 8))
    values = [str(draw.choice(words.NUMBERS)) for _ in keys]
    which = draw.randrange(len(keys))
    said = " ".join(f"{key} {value}" for key, value in zip(keys, values, strict=False))
    return f"{said} ? {keys[which]}", values[which]


@lru_cache(maxsize=1)
def _squares() -> list[tuple[int, ...]]:
    """The 288 Latin squares on 0 to 3, row by row, in which a 2x2 box holds something twice."""
    rows = list(permutations(range(4)))
    found = [()]
    for _ in range(4):
        found = [
            (*above, row)  # type: ignore[misc]
            for above in found
            for row in rows
            if all(a != b for other in above for a, b in zip(other, row, strict=False))
        ]
    squares = [sum(square, ()) for square in found]
    boxes = [[4 * (i + a) + j + b for a in (0, 1) for b in (0, 1)] for i in (0, 2) for j in (0, 2)]
    return [square for square in squares if any(len({square[cell] for cell in box}) < 4 for box in boxes)]


def _latin(draw: random.Random) -> Pair:
    names = draw.sample((*_LETTERS, *reasoning.COLOURS, *reasoning.CREATURES), 4)
    cells = [names[i] for i in draw.choice(_squares())]
    empty = set(draw.sample(range(16), draw.randint(4, 8)))
    return " ".join("?" if i in empty else cell for i, cell in enumerate(cells)), " ".join(cells)


SKILLS: dict[str, Callable[[random.Random], Pair]] = {
    "sum": _sum,
    "product": _product,
    "formula": _formula,
    "repeat": _repeat,
    "reverse": _reverse,
    "sort": _sort,
    "missing": _missing,
    "lookup": _lookup,
    "latin": _latin,
}


@counted(n=0)
def generate(n: int, seed: int = 0) -> list[Pair]:
    """`n` (prompt, response), every third one a story; a seed's rows begin alike for every n.

    Rows may repeat. DataError unless n is at least 1.
    """
    if n < 1:
        raise DataError(f"{n} rows were asked for: ask for at least one.")
    draw, rows = random.Random(f"pretraining {seed}"), []
    for number in range(n):
        if number % 3 == 2:
            story = reasoning.draw_row(draw.choice(list(reasoning.SYNTHETIC)), draw)
            rows.append((story["prompt"], story["response"]))
        else:
            rows.append(SKILLS[draw.choice(list(SKILLS))](draw))
    return rows
