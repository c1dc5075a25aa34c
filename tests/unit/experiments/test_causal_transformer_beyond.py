"""The runs beyond the paper: words have classes, and arms differ where they should."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from causalnb import paths
from causalnb.causal_transformer import invariance
from causalnb.experiments.causal_transformer import beyond, runs
from causalnb.experiments.causal_transformer import data as tasks
from causalnb.experiments.causal_transformer.grid import (
    BEYOND,
    BEYOND_TRIES,
    BLANKET_TRIES,
    COMPARED_RATES,
    OVERLAP,
    RATE_TRIES,
    RATES,
)
from causalnb.lab import registry
from causalnb.tasks import overlap
from tests.unit.experiments.made_up import wide

NLI = "causal_transformer.beyond.nli.m5"


def run_of(folder, arm, progress=lambda *_: None, **changes):
    return registry.Run(
        NLI, arm, 0, "quick", registry.config(NLI, arm, "quick") | changes, folder, "cpu", progress
    )


@pytest.fixture(scope="module")
def nli():
    rows = overlap.pairs(1200, 0.05)
    tokenizer = tasks.pair_tokenizer(rows, 1000)
    return rows, tokenizer, tasks.encoded(rows, tokenizer)


def test_sentences_are_those_of_the_pair(nli):
    rows, tokenizer, ready = nli
    for row, tokens in zip(rows[:20], ready, strict=False):
        said = [
            tokenizer.decode(beyond.sentence(tokens, kind), skip_special_tokens=True).strip()
            for kind in (0, 1)
        ]
        assert said == [row["sentence1"].lower(), row["sentence2"].lower()]


def test_words_of_a_kind_are_of_a_class_and_marks_are_not(nli):
    _, tokenizer, ready = nli
    config = registry.config(NLI, "all", "quick") | {"distance": 1.4}  # joins all words
    model = beyond.build_invariant(config, len(tokenizer), 2, ready)
    sizes = torch.bincount(model.classes)[model.classes]
    assert sizes[[tasks.PAD, tasks.BOS, tasks.EOS]].tolist() == [1, 1, 1] and sizes.max() > 10
    assert model.config.interchanged and model.config.parents == 2 and model.config.compared


@pytest.mark.parametrize("arm", [*BEYOND])
def test_a_stopped_run_is_the_same(arm, tmp_path):
    class Stop(Exception):
        pass

    def stop(done, total, note):
        if done == 2:
            raise Stop

    changes = dict(steps=3, evaluate_every=1, distance=1.3)
    whole = beyond.run_beyond(run_of(tmp_path / "whole", arm, **changes))
    with pytest.raises(Stop):
        beyond.run_beyond(run_of(tmp_path / "cut", arm, stop, **changes))
    assert beyond.run_beyond(run_of(tmp_path / "cut", arm, **changes)) == whole
    halves = {f"{cell}_{label}" for cell in ("challenge", "held_out") for label in overlap.LABELS}
    assert halves < set(wide(whole["metrics"])) and len(whole["history"]) == 3


def test_the_control_is_all_three_with_another_penalty(tmp_path):
    id = "causal_transformer.beyond.spread.nli"
    config, whole = (registry.config(one, arm, "quick") for one, arm in ((id, "spread"), (NLI, "all")))
    differing = {name for name in {*config, *whole} if config.get(name) != whole.get(name)}
    assert differing == {"entropy_target", "entropy_weight"}
    run = registry.Run(id, "spread", 0, "quick", config, tmp_path / "one", "cpu", lambda *_: None)
    found = beyond.run_beyond(run)["metrics"]
    without = config | {"entropy_weight": 0.0}
    silent = beyond.run_beyond(replace(run, config=without, folder=tmp_path / "two"))
    assert silent["metrics"] == beyond.run_beyond(run_of(tmp_path / "three", "all"))["metrics"] != found


def test_arms_add_one_part_after_the_other():
    for name in OVERLAP:
        seen = {}
        for arm in registry.arms(f"causal_transformer.beyond.{name}.m5"):
            found = registry.config(f"causal_transformer.beyond.{name}.m5", arm, "laptop")
            seen[arm] = (
                found["compared"],
                found["parents"] == 2 and found["directed"],
                found["interchanged"],
                found["causal_weight"] == 1,
            )
        assert seen == {
            "transformer": (False,) * 4,
            "compared": (True, False, False, False),
            "directed": (True, True, False, False),
            "interchanged": (True, False, True, False),
            "all": (True, True, True, False),
            "held_attention": (True,) * 4,
            "blanket_3": (True, False, False, True),
        }
        assert set(registry.arms(f"causal_transformer.beyond.{name}.m1")) < set(seen)
        for minority in ("m1", "m5"):
            ids = (f"causal_transformer.beyond.{part}{name}.{minority}" for part in ("", "reader."))
            assert {registry.seeds(id, "laptop") for id in ids} == {range(10)}  # paired


def test_what_was_tried_differs_from_all_in_one_setting():
    for name in OVERLAP:
        id = f"causal_transformer.beyond.search.{name}"
        whole = registry.config(id, "all", "laptop")
        assert whole["data"]["family"] == "development" and "test" not in whole["cells"]
        for arm in set(BEYOND_TRIES) - set(BEYOND) | {"held_attention"}:
            found = registry.config(id, arm, "laptop")
            assert len({key for key in whole if found[key] != whole[key]}) == 1


def test_the_papers_method_is_tried_on_the_comparison():
    for name in OVERLAP:
        id = f"causal_transformer.beyond.search.{name}"
        plain = registry.config(id, "compared", "laptop")
        for arm in BLANKET_TRIES:
            found = registry.config(id, arm, "laptop")
            assert {key for key in plain if found[key] != plain[key]} == {
                "gcn",
                "blanket",
                "causal_weight",
                "ramp",
            }


def test_the_rate_of_the_comparison_is_tried_alone():
    for name in OVERLAP:
        id = f"causal_transformer.beyond.search.{name}"
        plain, rates = registry.config(id, "compared", "laptop"), set()
        for arm in RATE_TRIES:
            found = registry.config(id, arm, "laptop")
            assert {key for key in plain if found[key] != plain[key]} <= {"learning_rate"}
            rates.add(found["learning_rate"])
        assert {RATES[name], COMPARED_RATES[name]} <= rates and len(rates) == len(RATE_TRIES)


@pytest.mark.parametrize("name", OVERLAP)
def test_what_is_added_to_the_comparison_has_its_best_rate(name):
    scores, id = {}, f"causal_transformer.beyond.search.{name}"
    for arm, tried in RATE_TRIES.items():
        folder = Path(paths.__file__).parents[1] / "data" / "results" / "laptop" / id / arm
        found = [
            wide(json.loads((folder / f"seed{seed}.json").read_text(encoding="utf-8"))["rows"])
            for seed in registry.seeds(id, "laptop")
        ]
        scores[tried["learning_rate"]] = sum(
            one["validation_accuracy"] + one["challenge_accuracy"] for one in found
        )
    assert max(scores, key=scores.get) == COMPARED_RATES[name]
    for experiment in (id, *(f"causal_transformer.beyond.{name}.{suffix}" for suffix in ("m1", "m5"))):
        for arm in {*registry.arms(experiment)} - {*RATE_TRIES}:
            used = registry.config(experiment, arm, "laptop")
            assert used["learning_rate"] == (COMPARED_RATES if used["compared"] else RATES)[name]


def test_models_learn_from_training_pairs_alone(tmp_path, monkeypatch):
    learned, classified = [], []
    word_classes, fit = invariance.word_classes, beyond.fit
    monkeypatch.setattr(
        beyond, "fit", lambda run, model, rows, *more: (learned.append(rows), fit(run, model, rows, *more))[1]
    )
    monkeypatch.setattr(
        invariance,
        "word_classes",
        lambda sentences, *more: (classified.append(sentences), word_classes(sentences, *more))[1],
    )
    beyond.run_beyond(run_of(tmp_path, "all"))
    config = registry.config(NLI, "all", "quick")
    found = tasks.parts(config["task"], config["data"], config["data_seed"])
    train = tasks.encoded(found["train"], tasks.pair_tokenizer(found["train"], config["vocabulary"]))
    assert learned == [train]
    assert classified == [[beyond.sentence(row, kind) for row in train for kind in (0, 1)]]


@pytest.mark.parametrize("name", OVERLAP)
def test_its_transformer_is_table_1s(name, tmp_path):
    """Two code paths train the same model, to the bit; stored runs of two machines need not be."""
    found = []
    for kind, run in (("overlap", runs.run_pairs), ("beyond", beyond.run_beyond)):
        id = f"causal_transformer.{kind}.{name}.m5"
        config = registry.config(id, "transformer", "quick") | {"steps": 6, "evaluate_every": 2}
        found.append(
            run(registry.Run(id, "transformer", 0, "quick", config, tmp_path / kind, "cpu", lambda *_: None))
        )
    one, other = found
    for name in ("loss", "accuracy", "entropy"):
        assert [row[name] for row in one["history"]] == [row[name] for row in other["history"]]
    assert wide(one["metrics"]).items() >= wide(other["metrics"]).items() and len(one["history"]) == 3


def test_data_are_the_tables_own():
    for name in OVERLAP:
        for suffix in ("m1", "m5"):
            ids = [f"causal_transformer.{kind}.{name}.{suffix}" for kind in ("beyond", "overlap")]
            ours, table = (registry.config(id, "transformer", "laptop") for id in ids)
            differ = {key for key in ours if ours[key] != table.get(key)}
            assert differ == {"interchanged", "compared", "directed", "distance", "causal_weight", "ramp"}
