"""Chains over a graph of their own: told, read and recomputed by hand, and what their draws look like."""

import json
import random

import pytest

from causalnb.errors import DataError
from causalnb.tasks import dag_chains, load, words

CHAIN = dag_chains.Chain(
    {"Quasar": 3, "Flux": 1, "Nova": 4, "Echo": 4},
    {"Nova": ("Quasar", "Flux"), "Echo": ("Nova", 0)},
)


def test_a_chain_by_hand():
    prompt, response = dag_chains.render(CHAIN)
    assert prompt == "Quasar 3 Flux 1 Nova Quasar + Flux Echo Nova + 0" and response == "Nova 4 Echo 4"
    assert CHAIN.graph == {"Nova": ("Quasar", "Flux"), "Echo": ("Nova",)}
    texts = {name: (prompt, response)[part][a:b] for name, (part, a, b) in dag_chains.spans(CHAIN).items()}
    assert texts == {"Quasar": "3", "Flux": "1", "Nova": "4", "Echo": "4"}


@pytest.mark.parametrize("steps", [1, 4, dag_chains.MOST])
def test_every_value_follows_from_what_came_before(steps):
    for chain in dag_chains.sample(200, steps, seed=3):
        names = list(chain.values)
        assert len(set(names)) == dag_chains.SOURCES + steps and list(chain.terms) == names[2:]
        for step, (first, second) in chain.terms.items():
            before = names[: names.index(step)]
            assert first in before and (second in before or second == 0)
            added = chain.values.get(second, second)
            assert chain.values[step] == (chain.values[first] + added) % dag_chains.MODULUS
        row = words.encode(*dag_chains.render(chain))
        assert len(row["input_ids"]) == 4 + 4 * steps + 1 + 2 * steps + 1


def test_draws_vary_and_values_are_even():
    chains = dag_chains.sample(4000, 4, seed=0)
    assert chains == dag_chains.sample(4000, 4, seed=0) != dag_chains.sample(4000, 4, seed=1)
    values = [value for chain in chains for value in chain.values.values()]
    shares = [values.count(value) / len(values) for value in range(dag_chains.MODULUS)]
    assert max(abs(share - 0.2) for share in shares) < 0.01
    copies = [second == 0 for chain in chains for _, second in chain.terms.values()]
    assert abs(sum(copies) / len(copies) - dag_chains.COPIES) < 0.02
    assert len({tuple(chain.values) for chain in chains}) > 3900


def test_loaded_rows_are_the_drawn_ones():
    data = load("dag_chains", steps=3, n_train=7, n_test=2, seed=4)
    assert {part: len(rows) for part, rows in data.items()} == {"train": 7, "test": 2}
    for row, chain in zip(data["train"], dag_chains.sample(7, 3, 40), strict=True):
        assert (row["prompt"], row["response"]) == dag_chains.render(chain)
        assert json.loads(row["graph"]) == {step: list(causes) for step, causes in chain.graph.items()}
    assert not {*data["train"]["prompt"]} & {*data["test"]["prompt"]}


@pytest.mark.parametrize("steps", [0, dag_chains.MOST + 1, True, 2.0])
def test_another_number_of_steps_is_refused(steps):
    with pytest.raises(DataError, match="steps: give a whole number from 1 to 13"):
        dag_chains.draw(steps, random.Random(0))


@pytest.mark.parametrize("rows", [-1, True, 1.5])
def test_another_number_of_rows_is_refused(rows):
    with pytest.raises(DataError, match=f"rows is {rows!r}: give a whole number, 0 or more"):
        dag_chains.sample(rows, 4, 0)
