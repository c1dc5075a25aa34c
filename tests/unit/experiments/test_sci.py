"""Every experiment really runs in the quick profile, and what it measures is what it says."""

import importlib.util
import math

import numpy as np
import pytest
import torch

from causalnb.experiments import sci_components, sci_scan
from causalnb.lab import registry, results, runner
from causalnb.lab.training import PromptAnswerCollator
from causalnb.tasks import scan

registry.load_all()
JOBS = [
    (e.id, arm)
    for e in registry.experiments()
    for arm in list(e.arms)[: 1 if e.id == "sci.scan.search" else None]
]
every_experiment = pytest.mark.parametrize("experiment", registry.experiments(), ids=lambda e: e.id)


@pytest.fixture(scope="module")
def made():
    """One result per experiment and arm, made once for the tests of this file."""
    found = {}

    def make(id, arm):
        if (id, arm) not in found:
            found[id, arm] = runner.execute(id, arm, 0, "quick")
        return found[id, arm]

    return make


@pytest.mark.parametrize("id, arm", JOBS)
def test_runs_in_quick_and_stores_numbers(id, arm, made):
    result = made(id, arm)
    assert result.metrics and results.state(id, arm, 0, "quick")[0] == "fresh"
    assert all(value is None or math.isfinite(value) for value in result.metrics.values())
    assert all(math.isfinite(value) for entry in result.history for value in entry.values())
    steps = result.config.get("steps")
    assert [entry["step"] for entry in result.history] == ([] if steps is None else [steps // 2, steps])


@every_experiment
def test_its_code_and_its_settings_exist(experiment):
    assert all(importlib.util.find_spec(module) for module in experiment.code)
    assert experiment.run.__module__ in experiment.code
    for profile in ("quick", "laptop", "gpu", "paper"):
        for arm in experiment.arms:
            registry.config(experiment.id, arm, profile)
        assert len(registry.seeds(experiment.id, profile)) >= 1


def test_headline_contrasts_have_five_seeds():
    for split in ("simple", "add_prim_jump"):
        assert len(registry.seeds(f"sci.scan.{split}", "laptop")) >= 5
        assert set(registry.arms(f"sci.scan.{split}")) == {"plain", "plain_labels", "sci"}


def test_the_search_tries_every_arm_at_the_same_rates():
    rates = {}
    for arm in registry.arms("sci.scan.search"):
        config = registry.config("sci.scan.search", arm, "laptop")
        rates.setdefault(config["model"], set()).add(config["learning_rate"])
        assert config["split"] not in scan.PUBLISHED
    assert len(set(map(frozenset, rates.values()))) == 1 and rates.keys() == {"plain", "plain_labels", "sci"}


# what the experiments do


def config(**changes):
    return registry.config("sci.scan.add_prim_jump", "sci", "quick") | changes


@pytest.mark.parametrize("model", ["plain", "plain_labels", "sci"])
def test_every_arm_learns(model, tmp_path, monkeypatch):
    """40 steps on 300 commands: the loss falls at every look, by a quarter at least."""
    rows = sci_scan.scan_rows(scan.split("simple")[0][:300])
    monkeypatch.setattr(sci_scan, "scan_data", lambda *_: (rows, rows[:4], rows[4:8]))
    run = registry.Run(
        "x",
        "y",
        0,
        "quick",
        config(model=model, steps=40, evaluate_every=10),
        tmp_path,
        "cpu",
        lambda *_: None,
    )
    losses = [entry["loss"] for entry in sci_scan.run_scan(run)["history"]]
    assert len(losses) == 4 and losses == sorted(losses, reverse=True) and losses[-1] < 0.75 * losses[0]


def test_validation_rows_are_held_out_whole_and_are_the_same_for_every_arm():
    train, validation, test = sci_scan.scan_data("add_prim_jump", 50, 30)
    texts = [{row["text"] for row in part} for part in (train, validation, test)]
    assert len(validation) == len(texts[1]) == 50 and len(test) == 30
    assert not texts[0] & texts[1] and not texts[0] & texts[2] and not texts[1] & texts[2]
    published = scan.split("add_prim_jump")
    assert len(train) == len(published[0]) - 50
    assert sum(row["text"] == "jump" for row in train) == sum(
        command == "jump" for command, _ in published[0]
    )
    again = sci_scan.scan_data("add_prim_jump", 50, 30)
    assert (train, validation, test) == again
    assert len(sci_scan.scan_data("add_prim_jump", 50, None)[2]) == len(published[1])


def test_rows_say_what_the_task_says():
    row = sci_scan.scan_rows([("jump twice", "I_JUMP I_JUMP")])[0]
    names = list(scan.VOCABULARY)
    assert [names[i] for i in row["input_ids"]] == [
        "<bos>",
        "jump",
        "twice",
        "<sep>",
        "I_JUMP",
        "I_JUMP",
        "<eos>",
    ]
    assert row["prompt_mask"] == [1, 1, 1, 1, 0, 0, 0] and row["labels"][:4] == [-100] * 4
    assert row["structure"] == "_ twice" and row["text"] == "jump twice"


def test_arms_share_their_base():
    torch.manual_seed(0)
    plain, _ = sci_scan.build_model(config(model="plain"))
    for model in ("plain_labels", "sci"):
        torch.manual_seed(0)
        other, inputs = sci_scan.build_model(config(model=model))
        assert all(
            torch.equal(value, other.base.state_dict()[key]) for key, value in plain.state_dict().items()
        )
        assert {"prompt_mask", "structure_ids"} <= set(inputs)
        ids = torch.randint(5, 20, (2, 7))
        assert torch.equal(other.eval()(ids).logits, plain.eval()(ids).logits)


def test_binding_layers_beyond_a_smaller_base_are_left_out():
    model, _ = sci_scan.build_model(config(layers=2, cbm_layers=[0, 1, 2]))
    assert model.config.cbm_layers == [0, 1]


@pytest.mark.parametrize("model", ["plain", "plain_labels", "sci"])
def test_representations_are_unit_states_of_the_prompt_alone(model):
    torch.manual_seed(0)
    network, inputs = sci_scan.build_model(config(model=model))
    collator = PromptAnswerCollator(
        scan.VOCABULARY["<pad>"], tuple(n for n in inputs if n != "structure_ids")
    )
    commands = ["jump", "walk twice", "look left and run thrice", "walk twice"]
    rows = sci_scan.scan_rows([(c, scan.interpret(c)) for c in commands])
    found = sci_scan.representations(network, rows, collator)
    assert np.allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)
    assert np.allclose(found[1], found[3], atol=1e-6) and not np.allclose(found[0], found[1], atol=1e-3)
    rows[2] = sci_scan.scan_rows([(commands[2], "I_WALK I_WALK")])[0]  # another answer
    assert np.allclose(sci_scan.representations(network, rows, collator), found, atol=1e-5)


def test_invariance_by_hand(monkeypatch):
    """Two structures in two dimensions: one pair agrees, the other's partner looks like the first."""
    states = {"jump": [1.0, 0.0], "walk": [1.0, 0.0], "jump twice": [0.0, 1.0], "walk twice": [0.8, 0.6]}
    monkeypatch.setattr(
        sci_scan, "representations", lambda model, rows, _: np.array([states[r["text"]] for r in rows])
    )
    test, train = (
        sci_scan.scan_rows([(c, scan.interpret(c)) for c in part])
        for part in (["jump", "jump twice"], ["walk", "walk twice"])
    )
    found = sci_scan.invariance(None, test, train, None, 10)
    assert found == {
        "cosine_same": pytest.approx(0.8),
        "cosine_different": pytest.approx(0.4),
        "structure_retrieval": 1.0,
    }
    states["jump twice"] = [1.0, 0.0]
    assert sci_scan.invariance(None, test, train, None, 10)["structure_retrieval"] == 0.5
    nothing = {"cosine_same": None, "cosine_different": None, "structure_retrieval": None}
    assert sci_scan.invariance(None, test, train[:1], None, 10) == nothing  # one pair has no other
    assert sci_scan.invariance(None, train, train, None, 10) == nothing  # a text is no partner of itself


def test_the_leak_is_there_for_one_arm_and_exactly_absent_for_the_other(made):
    assert made("sci.leak", "prompt").metrics["first_logit_change"] == 0
    assert made("sci.leak", "prompt_and_answer").metrics["first_logit_change"] > 0


def test_findings_are_as_the_audit_says(made):
    found = made("sci.components", "findings").metrics
    assert {name.split(".")[1] for name in found} == {finding.__name__ for finding in sci_components.FINDINGS}
    pairs = {
        name.split(".")[1]: (found[f"guide.{name.split('.')[1]}"], found[name])
        for name in found
        if name.startswith("corrected.")
    }
    assert pairs["word_order"][0] < 1e-5 < 1e-2 < pairs["word_order"][1]
    for zero in ("neighbour_in_batch", "base_disturbed", "cycles", "held_slot_drift", "effect_upstream"):
        guides, ours = pairs[zero]
        assert guides > 1e-3 and ours < 1e-6, zero
    assert pairs["content_on_slots"][1] < 1e-2 < pairs["content_on_slots"][0]
    assert pairs["anchors_with_positives"][0] < 0.3 < pairs["anchors_with_positives"][1]
