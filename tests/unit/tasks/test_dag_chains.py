"""Chains over a graph of their own: told, read and recomputed by hand, and what their draws look like."""

import json
import random

import pytest

from causalnb.errors import DataError
from causalnb.tasks import dag_chains, load, words

CHAIN = dag_chains.Chain(
    {"Quasar": 3, "Flux": 1, "Orbit": 0, "Comet": 2, "Nova": 1, "Echo": 1}, {"Nova": "Flux", "Echo": "Nova"}
)


def test_a_chain_by_hand():
    prompt, response = dag_chains.render(CHAIN)
    assert prompt == "Quasar=3 Flux=1 Orbit=0 Comet=2 Nova Flux Echo Nova" and response == "Nova=1 Echo=1"
    assert CHAIN.graph == {"Nova": ("Flux",), "Echo": ("Nova",)}
    texts = {name: (prompt, response)[part][a:b] for name, (part, a, b) in dag_chains.spans(CHAIN).items()}
    assert texts == {name: f"{name}={value}" for name, value in CHAIN.values.items()}


@pytest.mark.parametrize("steps", [1, 6, dag_chains.MOST])
def test_every_value_follows_from_what_came_before(steps):
    for chain in dag_chains.sample(200, steps, seed=3):
        names = list(chain.values)
        assert len(set(names)) == dag_chains.SOURCES + steps
        assert list(chain.causes) == names[dag_chains.SOURCES :]
        for step, cause in chain.causes.items():
            assert cause in names[: names.index(step)] and chain.values[step] == chain.values[cause]
        row = words.encode(*dag_chains.render(chain), "chains")
        assert len(row["input_ids"]) == dag_chains.SOURCES + 2 * steps + 1 + steps + 1


def test_draws_vary_and_values_are_even():
    chains = dag_chains.sample(4000, 6, seed=0)
    assert chains == dag_chains.sample(4000, 6, seed=0) != dag_chains.sample(4000, 6, seed=1)
    values = [value for chain in chains for value in chain.values.values()]
    shares = [values.count(value) / len(values) for value in range(dag_chains.VALUES)]
    assert max(abs(share - 0.2) for share in shares) < 0.01
    places = [
        list(chain.values).index(chain.causes[step]) for chain in chains for step in [[*chain.causes][0]]
    ]
    assert max(abs(places.count(place) / len(places) - 0.25) for place in range(4)) < 0.03
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
    with pytest.raises(DataError, match=f"steps: give a whole number from 1 to {dag_chains.MOST}"):
        dag_chains.draw(steps, random.Random(0))


@pytest.mark.parametrize("rows", [-1, True, 1.5])
def test_another_number_of_rows_is_refused(rows):
    with pytest.raises(DataError, match=f"rows is {rows!r}: give a whole number, 0 or more"):
        dag_chains.sample(rows, 4, 0)
