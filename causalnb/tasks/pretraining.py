"""What the small base models of the diffusion experiments read before any task: lists, sums and short stories.

Prompts and responses in the words of causalnb.tasks.words. Half of the rows are the six synthetic tasks of
causalnb.tasks.reasoning; the others practise single skills on random words and numbers: adding, subtracting,
multiplying and dividing, repeating and reversing a list, sorting it, naming the letter that is missing, and
looking up the value that a word was given. No chain of COT-OrderPerturb, no Sudoku and no row of the spurious
token game is among them, though their words are.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import lru_cache

from causalnb.errors import DataError
from causalnb.tasks import reasoning, words

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
    said = " ".join(f"{key} {value}" for key, value in zip(keys, values))
    return f"{said} ? {keys[which]}", values[which]


SKILLS: dict[str, Callable[[random.Random], Pair]] = {
    "sum": _sum, "product": _product, "repeat": _repeat, "reverse": _reverse, "sort": _sort,
    "missing": _missing, "lookup": _lookup}


def generate(n: int, seed: int = 0) -> list[Pair]:
    """`n` (prompt, response), half skills and half stories in turn; a seed's rows begin alike for every n.

    Rows may repeat. DataError unless n is at least 1.
    """
    if n < 1:
        raise DataError(f"{n} rows were asked for: ask for at least one.")
    draw, rows = random.Random(f"pretraining {seed}"), []
    for number in range(n):
        if number % 2:
            story = reasoning.draw_row(draw.choice(list(reasoning.SYNTHETIC)), draw)
            rows.append((story["prompt"], story["response"]))
        else:
            rows.append(SKILLS[draw.choice(list(SKILLS))](draw))
    return rows
