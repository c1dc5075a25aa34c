"""Chains of thought over a graph that is drawn anew for every row: each step copies another variable.

A row names variables at random from NAMES. The first SOURCES of them have values, every other one has that of
a variable told before. The response tells them one after the other, and the graph of a row, not a token's
place, says where the cause of a step stands. A variable with its value is one word:

    prompt    Quasar=3 Flux=1 Nova Flux Echo Nova
    response  Nova=1 Echo=1

COT-OrderPerturb (C2DLM, appendix C) has one graph and thirteen functions for all rows. Here the function is
the easiest there is, and the graph is what has to be found. (Told as two words each, "Quasar 3", or with sums
modulo 5 for copies, the game is beyond models of this size: they go on guessing among the values at hand.)
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

VALUES, SOURCES = 5, 4
NAMES = cot_order_perturb.VARIABLES
MOST = len(NAMES) - SOURCES  # steps
WORDS = tuple(f"{name}={value}" for name in NAMES for value in range(VALUES))  # beside NAMES


@dataclass(frozen=True)
class Chain:
    """One row: {variable: value} of the sources and then of the steps, {step: its cause}."""

    values: dict[str, int]
    causes: dict[str, str]

    @property
    def graph(self) -> dict[str, tuple[str, ...]]:
        """{step: its causes}, one each."""
        return {step: (cause,) for step, cause in self.causes.items()}


def draw(steps: int, rng: random.Random) -> Chain:
    """A chain of `steps` steps; DataError outside 1 to MOST."""
    if isinstance(steps, bool) or not isinstance(steps, int) or not 1 <= steps <= MOST:
        raise DataError(f"a chain of {steps!r} steps: give a whole number from 1 to {MOST}.")
    names = rng.sample(NAMES, SOURCES + steps)
    values = {name: rng.randrange(VALUES) for name in names[:SOURCES]}
    causes: dict[str, str] = {}
    for step in names[SOURCES:]:
        causes[step] = rng.choice([*values])
        values[step] = values[causes[step]]
    return Chain(values, causes)


@counted(rows=0)
def sample(rows: int, steps: int, seed: int) -> list[Chain]:
    """`rows` chains, independent of each other; DataError for a number of rows below 0."""
    rng = random.Random(seed)
    return [draw(steps, rng) for _ in range(rows)]


def render(chain: Chain) -> tuple[str, str]:
    """(prompt, response) of a chain, words of `causalnb.tasks.words`' encoding "chains": one a step."""
    said = {name: f"{name}={value}" for name, value in chain.values.items()}
    given = [word for name, word in said.items() if name not in chain.causes]
    rules = [f"{step} {cause}" for step, cause in chain.causes.items()]
    return " ".join(given + rules), " ".join(said[step] for step in chain.causes)


def spans(chain: Chain) -> dict[str, tuple[int, int, int]]:
    """{variable: (part, start, end)}: the word with its value, in the prompt (0) or in the response (1)."""
    places, at = {}, [0, 0]
    for name, value in chain.values.items():
        part = int(name in chain.causes)
        end = at[part] + len(f"{name}={value}")
        places[name], at[part] = (part, at[part], end), end + 1
    return places


def load(steps: int = 6, n_train: int = 20_000, n_test: int = 500, seed: int = 0) -> DatasetDict:
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
