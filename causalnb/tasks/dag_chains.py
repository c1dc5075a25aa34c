"""Chains of thought over a graph that is drawn anew for every row: copying and addition modulo 5.

A row names variables at random from NAMES. Two of them have values, every other one is the sum of two terms:
a variable told before, and another one, or 0, so that it is a copy. The response tells the values one after
the other, and the graph of a row, not a token's place, says where its causes stand:

    prompt    Quasar 3 Flux 1 Nova Quasar + Flux Echo Nova + 0
    response  Nova 4 Echo 4

COT-OrderPerturb (C2DLM, appendix C) has one graph and thirteen functions for all rows. Here the functions are
easy and the graph is what has to be found.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from causalnb.errors import DataError
from causalnb.tasks import cot_order_perturb
from causalnb.tasks.counts import counted

if TYPE_CHECKING:
    from datasets import DatasetDict

MODULUS, SOURCES = 5, 2
NAMES = cot_order_perturb.VARIABLES
MOST = len(NAMES) - SOURCES  # steps
COPIES = 0.5  # how often the second term is 0


@dataclass(frozen=True)
class Chain:
    """One row: {variable: value} of the sources and then of the steps, {step: its two terms}."""

    values: dict[str, int]
    terms: dict[str, tuple[str, str | int]]

    @property
    def graph(self) -> dict[str, tuple[str, ...]]:
        """{step: its causes}, one or two."""
        return {
            step: tuple(dict.fromkeys(term for term in terms if isinstance(term, str)))
            for step, terms in self.terms.items()
        }


def draw(steps: int, rng: random.Random) -> Chain:
    """A chain of `steps` steps; DataError outside 1 to MOST."""
    if isinstance(steps, bool) or not isinstance(steps, int) or not 1 <= steps <= MOST:
        raise DataError(f"a chain of {steps!r} steps: give a whole number from 1 to {MOST}.")
    names = rng.sample(NAMES, SOURCES + steps)
    values = {name: rng.randrange(MODULUS) for name in names[:SOURCES]}
    terms: dict[str, tuple[str, str | int]] = {}
    for step in names[SOURCES:]:
        first, other = rng.sample([*values], 2)
        second = 0 if rng.random() < COPIES else other
        added = values[second] if isinstance(second, str) else second
        terms[step], values[step] = (first, second), (values[first] + added) % MODULUS
    return Chain(values, terms)


@counted(rows=0)
def sample(rows: int, steps: int, seed: int) -> list[Chain]:
    """`rows` chains, independent of each other; DataError for a number of rows below 0."""
    rng = random.Random(seed)
    return [draw(steps, rng) for _ in range(rows)]


def render(chain: Chain) -> tuple[str, str]:
    """(prompt, response) of a chain, words of `causalnb.tasks.words`: 4 + 4 steps words, and 2 a step."""
    given = [f"{name} {chain.values[name]}" for name in chain.values if name not in chain.terms]
    rules = [f"{step} {first} + {second}" for step, (first, second) in chain.terms.items()]
    return " ".join(given + rules), " ".join(f"{step} {chain.values[step]}" for step in chain.terms)


def spans(chain: Chain) -> dict[str, tuple[int, int, int]]:
    """{variable: (part, start, end)}: where its value stands, in the prompt (0) or in the response (1)."""
    places, at = {}, [0, 0]
    for name, value in chain.values.items():
        part = int(name in chain.terms)
        start = at[part] + len(name) + 1
        end = start + len(str(value))
        places[name], at[part] = (part, start, end), end + 1
    return places


def load(steps: int = 4, n_train: int = 20_000, n_test: int = 500, seed: int = 0) -> DatasetDict:
    """DatasetDict train/test: prompt, response, graph (JSON, {step: causes}); DataError as sample."""
    from datasets import Dataset, DatasetDict

    def rows(number: int, part: int) -> Dataset:
        chains = sample(number, steps, 10 * seed + part)
        said = [render(chain) for chain in chains]
        return Dataset.from_dict(
            {
                "prompt": [prompt for prompt, _ in said],
                "response": [response for _, response in said],
                "graph": [json.dumps(chain.graph) for chain in chains],
            }
        )

    return DatasetDict(train=rows(n_train, 0), test=rows(n_test, 1))
