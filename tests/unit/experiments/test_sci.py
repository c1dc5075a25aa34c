"""What SCI's experiments measure is what they say, and all settings exist."""

import numpy as np
import pytest
import torch

from causalnb.experiments.sci import contrasts as sci_contrasts
from causalnb.experiments.sci import grid as sci_grid
from causalnb.experiments.sci import scan as sci_scan
from causalnb.lab import registry
from causalnb.tasks import scan

registry.load_all()
ADAPTERS_KEPT = {"causal_transformer.real.adapters", "c2dlm.real.adapters"}  # the notebooks', on
every_experiment = pytest.mark.parametrize("experiment", registry.experiments(), ids=lambda e: e.id)


@every_experiment
def test_its_settings_exist(experiment):
    for profile in ("quick", "laptop", "gpu", "paper"):
        for arm in experiment.arms:
            registry.config(experiment.id, arm, profile)
        kept = profile in ("gpu", "paper") and experiment.id in ADAPTERS_KEPT
        assert len(registry.seeds(experiment.id, profile)) >= (0 if kept else 1), profile


GRID = ("simple", "add_prim_turn_left", "template_around_right", "length")


def test_the_headline_has_five_seeds_and_every_split_three():
    assert len(registry.seeds("sci.scan.add_prim_jump", "laptop")) == 5
    assert set(registry.arms("sci.scan.add_prim_jump")) == {"plain", "plain_labels", "sci", "sci_separated"}
    for split in GRID:
        assert len(registry.seeds(f"sci.scan.{split}", "laptop")) == 3
        assert set(registry.arms(f"sci.scan.{split}")) == {"plain", "sci", "sci_separated"}


def test_settings_are_the_same_on_every_split():
    def shared(id, arm):
        config = registry.config(id, arm, "laptop")
        return {key: value for key, value in config.items() if key not in ("split", "renamed")}

    for split in (*GRID, "renamed", "add_prim_run"):
        for arm in registry.arms(f"sci.scan.{split}"):
            assert shared(f"sci.scan.{split}", arm) == shared("sci.scan.add_prim_jump", arm)


def test_the_search_tries_every_arm_at_the_same_rates():
    rates = {}
    for arm in registry.arms("sci.scan.search"):
        config = registry.config("sci.scan.search", arm, "laptop")
        rates.setdefault(config["model"], set()).add(config["learning_rate"])
        assert config["split"] not in scan.PUBLISHED
    assert len(set(map(frozenset, rates.values()))) == 1 and rates.keys() == set(sci_grid.SCAN_ARMS)


# what the experiments do


def config(**changes):
    return registry.config("sci.scan.add_prim_jump", "sci", "quick") | changes


@pytest.mark.parametrize("model", sci_grid.SCAN_ARMS)
def test_every_arm_learns(model, tmp_path):
    """40 steps on 300 commands: the loss falls at every look, by a quarter at least."""
    rows = sci_scan.scan_rows(scan.split("simple")[0][:300])
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
    found = sci_scan.run_scan(run, data=lambda *_: (rows, rows[:4], rows[4:8]))
    losses = [entry["loss"] for entry in found["history"]]
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


@pytest.mark.parametrize("seed", range(3))
def test_actions_are_renamed_one_to_one_and_anew_for_each_seed(seed):
    names = sci_scan.renaming(seed)
    assert set(names) == set(names.values()) == set(scan.ACTIONS)
    assert names == sci_scan.renaming(seed) != sci_scan.renaming(seed + 1)
    row = sci_scan.scan_rows([("jump left", "I_TURN_LEFT I_JUMP")], names=names)[0]
    shown = [list(scan.VOCABULARY)[i] for i in row["input_ids"][4:6]]
    assert shown == [names["I_TURN_LEFT"], names["I_JUMP"]]
    assert row["labels"][4:] == row["input_ids"][4:]


@pytest.mark.parametrize("model", ["plain_labels", "sci", "sci_separated"])
def test_arms_share_their_base(model):
    torch.manual_seed(0)
    plain = sci_scan.build_model(config(model="plain"))
    torch.manual_seed(0)
    other = sci_scan.build_model(config(model=model))
    assert all(torch.equal(value, other.base.state_dict()[key]) for key, value in plain.state_dict().items())
    training, evaluation = sci_scan.collators(other)
    assert set(training.keys) - set(evaluation.keys) == {"structure_ids"} and "prompt_mask" in training.keys
    assert sci_scan.collators(plain)[0].keys == ("input_ids", "attention_mask", "labels")
    if model != "sci_separated":  # which reads its tokens through the abstraction layer
        ids = torch.randint(5, 20, (2, 7))
        assert torch.equal(other.eval()(ids).logits, plain.eval()(ids).logits)


def test_binding_layers_beyond_the_base_are_refused():
    with pytest.raises(ValueError, match="binding layer 2 does not exist in a base of 2 layers"):
        sci_scan.build_model(config(layers=2, cbm_layers=[0, 1, 2]))


@pytest.mark.parametrize("model", sci_grid.SCAN_ARMS)
def test_representations_are_unit_states_of_the_prompt_alone(model):
    torch.manual_seed(0)
    network = sci_scan.build_model(config(model=model))
    _, collator = sci_scan.collators(network)
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


# what is taken apart


def arm(name, **changes):
    id = "sci.ablations" if name in registry.arms("sci.ablations") else "sci.contrasts"
    return registry.config(id, name, "quick") | changes


def test_an_ablation_lacks_what_it_says():
    whole = sci_scan.build_model(config()).state_dict().keys()
    lost = {}
    for name in ("no_abstraction", "no_content_encoder", "no_leak_control"):
        lost[name] = whole - sci_contrasts.build_arm(arm(name)).state_dict().keys()
    assert all("abstraction_layer" in key for key in lost["no_abstraction"]) and lost["no_abstraction"]
    assert all("content_encoder" in key for key in lost["no_content_encoder"]) and lost["no_content_encoder"]
    assert not lost["no_leak_control"]
    leaking = sci_contrasts.build_arm(arm("no_leak_control"))
    rows = sci_scan.scan_rows([("jump", "I_JUMP"), ("jump", "I_WALK")])
    states = sci_scan.representations(leaking, rows, sci_scan.collators(leaking)[1])
    assert not np.allclose(states[0], states[1], atol=1e-4)


def test_invented_verbs_stand_alone_and_in_compositions():
    rows, *_ = sci_scan.scan_data("add_prim_jump", 50, 30, "verb_direction")
    size, invented = len(scan.VOCABULARY), sci_contrasts.invented_rows(rows, 7, 0)
    assert len({row["text"] for row in invented if " " not in row["text"]}) == 7  # each of them alone
    for row in invented[::500]:
        words = [token - size for token in row["input_ids"][: sum(row["prompt_mask"])] if token >= size]
        actions = {token - size for token in row["labels"] if token >= size}
        assert actions == {word + 1 for word in words} and not any(word % 2 for word in words)
        assert max(words) < 14 and len(row["labels"]) == len(row["input_ids"])
        assert not set(row["text"].split()) & set(scan.VERBS)
    model = sci_contrasts.build_arm(arm("augmentation", primitives=7))
    assert model.config.vocab_size == size + 14


def test_constructions_are_those_of_the_grammar():
    known = sci_contrasts.constructions()
    structures = {scan.structure(command, "verb_direction") for command, _ in scan.generate()}
    assert len(known["constructions"]) == len(structures)
    model = sci_contrasts.build_arm(arm("construction_templates"))
    rows = sci_scan.scan_rows([(c, scan.interpret(c)) for c in ("jump left", "walk right", "jump twice")])
    batch = sci_scan.collators(model)[1](rows)
    numbers = model.construction_of(batch["input_ids"], batch["prompt_mask"])
    assert numbers[0] == numbers[1] != numbers[2] and numbers.max() < len(known["constructions"])
