"""The loss where it is obeyed: which try is used, its control, and its tables from made-up results."""

from types import SimpleNamespace

import numpy as np
import pytest

from causalnb.errors import LabError
from causalnb.experiments.causal_transformer import grid, obeyed, searches
from causalnb.experiments.causal_transformer.artefacts import obeyed as made
from causalnb.lab import building, evidence, registry, report
from causalnb.lab.report import number, share
from tests.unit.experiments.made_up import everything, moved, without
from tests.unit.experiments.made_up import number as drawn

BEYOND = "causal_transformer.beyond.nli.m5"
SEARCH = f"causal_transformer.{obeyed.SEARCH}"
SEEDS = 4


def metrics(id: str, arm: str, seed: int) -> dict:
    measures = ("accuracy", "entailment", "non-entailment", "violated", "entropy")
    cells = ("validation", "test", "challenge", "held_out")
    return {cell: {its: 0.5 + drawn(id, arm, seed, cell, its) / 4 for its in measures} for cell in cells}


@pytest.fixture(scope="module", autouse=True)
def stored(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        moved(patch, tmp_path_factory.mktemp("obeyed"))
        everything(patch, dict.fromkeys((made.HOME, BEYOND, SEARCH), SEEDS), metrics)
        with evidence.stored_only():
            yield


def place(name: str) -> str:
    return made.HOME if name in ("obeyed", "entropy") else BEYOND


def of(name: str, cell: str, measure: str = "accuracy") -> np.ndarray:
    return np.array([metrics(place(name), name, seed)[cell][measure] for seed in range(SEEDS)])


@pytest.mark.parametrize(
    "outside, used",
    [
        ({"a": 0.05, "b": 0.09, "c": 0.2}, "b"),  # of those that are obeyed the best
        ({"a": 0.5, "b": 0.3, "c": 0.2}, "c"),  # of none the nearest
    ],
)
def test_of_the_tries_that_are_obeyed_the_best_is_used(monkeypatch, outside, used):
    right = {"a": 0.7, "b": 0.8, "c": 0.9}

    def stored(id, arm):
        values = {"accuracy": right[arm], "violated": outside[arm]}
        return [SimpleNamespace(experiment=id, arm=arm, seed=0, value=lambda cell, its: values[its])]

    monkeypatch.setattr(searches, "stored", stored)
    assert searches.obeyed(outside, obeyed.SEARCH) == used


def test_the_arms_differ_from_the_comparison_in_the_loss_alone():
    base = registry.config(BEYOND, "compared", "laptop")
    kept, flat = (registry.config(made.HOME, arm, "laptop") for arm in ("obeyed", "entropy"))
    assert {key for key in base if base[key] != kept[key]} == {"blanket", "causal_weight", "ramp"}
    assert {key for key in base if base[key] != flat[key]} == {"entropy_weight", "entropy_target"}
    assert flat["entropy_target"] == obeyed.NATS and kept["blanket"] == "hinge"
    tried = registry.config(SEARCH, obeyed.USED, "laptop")
    assert {tried[key] == kept[key] for key in ("blanket", "causal_weight", "ramp")} == {True}
    assert tried["data"]["family"] == "development"


def test_outside_and_accuracy_stand_side_by_side():
    table = made.scores()
    rows = {row[0]: dict(zip(table.columns, row, strict=True)) for row in table.rows}
    assert [*rows] == [*made.NAMES.values()]
    for name, said in made.NAMES.items():
        assert rows[said]["nodes outside the bounds"] == share(of(name, "challenge", "violated"))
        assert rows[said]["entropy, nats"] == number(2)(of(name, "challenge", "entropy"))
        assert rows[said]["challenge, non-entailment"] == share(of(name, "challenge", "non-entailment"))
        assert rows[said]["other templates"] == share(of(name, "held_out"))


def test_differences_are_of_the_same_seeds():
    table = made.contrasts()
    rows = {row[0]: dict(zip(table.columns, row, strict=True)) for row in table.rows}
    told = rows[f"{made.NAMES['obeyed']} - {made.NAMES['entropy']}"]
    assert told["challenge"] == report.tested(of("obeyed", "challenge") - of("entropy", "challenge"))
    assert told["in distribution"] == report.tested(of("obeyed", "test") - of("entropy", "test"))


def test_every_try_is_shown_and_the_one_that_is_used():
    table = made.searched()
    assert len(table.rows) == len(obeyed.TRIES)
    assert [f"loss_{row[0]}_{row[1]}" for row in table.rows if row[2] == "yes"] == [obeyed.USED]


def test_it_is_built_and_names_a_missing_result():
    assert all(file.is_file() for file in building.build("causal_transformer.obeyed"))
    assert registry.find("causal_transformer.obeyed").notebook == "14_when_bounds_help"
    with without(made.HOME, "obeyed", 1), pytest.raises(LabError, match=f"1 of {SEEDS} quick results of"):
        made.contrasts()
    assert {*grid.BLANKETS} < {*made.NAMES}
