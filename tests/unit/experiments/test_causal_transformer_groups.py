"""Reweighting, GroupDRO and IRM: who is told what, on which draws, and by which search they are set."""

import json
from collections import Counter
from types import SimpleNamespace

import pytest
import torch

from causalnb.errors import LabError
from causalnb.experiments.causal_transformer import beyond, groups, groups_choose, runs
from causalnb.experiments.causal_transformer import data as tasks
from causalnb.experiments.causal_transformer.grid import BOTH_HALVES, COMPARED_RATES
from causalnb.lab import registry, results
from causalnb.lab.batches import grouped
from tests.unit.experiments.made_up import wide

NLI, SEARCH = "causal_transformer.groups.nli.m5", "causal_transformer.groups.search.nli"
SIZES = {"n_train": 2000, "n_validation": 8, "n_test": 8, "minority": 0.05}


def run_of(folder, arm, progress=lambda *_: None, id=NLI, **changes):
    config = registry.config(id, arm, "quick") | changes
    return registry.Run(id, arm, 0, "quick", config, folder, "cpu", progress)


@pytest.fixture(scope="module", params=["overlap", "paraphrase"])
def drawn(request):
    task = request.param
    return task, tasks.balanced(task, tasks.parts(task, SIZES, 0)["train"])


def test_groups_are_labels_with_and_against_overlap(drawn):
    task, rows = drawn
    found = groups.groups(task, rows)
    kinds = {
        (group, row["label"], tasks.COUNTEREXAMPLES[task](row))
        for group, row in zip(found, rows, strict=True)
    }
    against = {"overlap": 1, "paraphrase": 0}[task]  # the label of counter-examples
    assert kinds == {(0, 0, False), (1, 1, False), (2, against, True)}
    assert min(Counter(found).values()) > 0.2 * len(rows)


def test_environments_differ_in_how_often_overlap_is_right_and_hardly_in_their_labels(drawn):
    task, rows = drawn
    found = groups.environments(task, rows, 0)
    parts = {
        one: [row for row, e in zip(rows, found, strict=True) if e == one]
        for one in (groups.RIGHT, groups.CONTRARY)
    }
    rare = {one: sum(map(tasks.COUNTEREXAMPLES[task], some)) for one, some in parts.items()}
    assert rare[groups.RIGHT] == 0 and 0.5 < rare[groups.CONTRARY] / len(parts[groups.CONTRARY]) < 0.75
    shares = [sum(row["label"] for row in some) / len(some) for some in parts.values()]
    assert abs(shares[0] - shares[1]) < 0.05 and all(0.3 < share < 0.7 for share in shares)
    assert found == groups.environments(task, rows, 0) != groups.environments(task, rows, 1)
    plain = [row for row in rows if not tasks.COUNTEREXAMPLES[task](row)]
    assert set(groups.environments(task, plain, 0)) == {groups.RIGHT}


def test_a_batch_holds_what_is_told(drawn):
    task, rows = drawn
    tokenizer = tasks.pair_tokenizer(rows[:200], 600)
    ready = groups.told(task, rows[:50], tokenizer, 0)
    batch = groups.collate_told(ready)
    plain = tasks.collate(tasks.encoded(rows[:50], tokenizer))
    assert all(torch.equal(batch[name], plain[name]) for name in plain)
    assert batch["groups"].tolist() == groups.groups(task, rows[:50])
    assert batch["environments"].tolist() == groups.environments(task, rows[:50], 0)


def test_what_is_followed_is_the_worst_group_and_the_penalty_by_hand():
    rows = [
        {"input_ids": [3 + at, 4, 2, 3, 2], "token_type_ids": [0, 0, 0, 1, 1], "labels": at % 2}
        | {"groups": (0, 1, 0, 2)[at], "environments": (0, 0, 1, 1)[at]}
        for at in range(4)
    ]
    config = registry.config(NLI, "irm", "quick")
    model = groups.build_grouped(config, 20, 2, 3)
    said = torch.from_numpy(groups.logits(model, rows)).double()
    chances = said.softmax(-1)
    losses = [-chances[at, row["labels"]].log() for at, row in enumerate(rows)]
    steep = [(chances[at] * said[at]).sum() - said[at, row["labels"]] for at, row in enumerate(rows)]
    found = groups.group_measures(model, rows)
    assert found["worst_loss"] == pytest.approx(
        float(max((losses[0] + losses[2]) / 2, losses[1], losses[3])), abs=1e-12
    )
    penalty = (((steep[0] + steep[1]) / 2) ** 2 + ((steep[2] + steep[3]) / 2) ** 2) / 2
    assert found["penalty"] == pytest.approx(float(penalty), abs=1e-12)
    assert found["counter_weight"] == pytest.approx(1 / 3)


@pytest.mark.parametrize("arm", groups.OBJECTIVES)
def test_a_stopped_run_is_the_same(arm, tmp_path):
    """With the weights of groups, and the count of steps before IRM's penalty."""

    class Stop(Exception):
        pass

    def stop(done, total, note):
        if done == 2:
            raise Stop

    changes = dict(steps=4, evaluate_every=1, step=1.0, warm=0.5, penalty_weight=7.0)
    whole = groups.run_groups(run_of(tmp_path / "whole", arm, **changes))
    with pytest.raises(Stop):
        groups.run_groups(run_of(tmp_path / "cut", arm, stop, **changes))
    assert groups.run_groups(run_of(tmp_path / "cut", arm, **changes)) == whole
    weights = [entry["counter_weight"] for entry in whole["history"]]
    assert (len(set(weights)) == len(weights) == 4) == (arm == "groupdro")
    measured = wide(whole["metrics"])
    assert {"challenge_non-entailment", "challenge_auc", "groups"} < set(measured)


def test_all_arms_learn_from_the_draws_of_the_stored_reweighting(tmp_path, monkeypatch):
    """`causal_transformer.balanced.nli`, on Table 1's Transformer, which is told the same."""
    seen = {}
    for module, id, arm, run in (
        (runs, "causal_transformer.balanced.nli", "balanced", runs.run_pairs),
        *((groups, NLI, arm, groups.run_groups) for arm in groups.OBJECTIVES),
    ):
        monkeypatch.setattr(
            module,
            "fit",
            lambda run, model, rows, batches, *more: (
                seen.update({run.experiment + run.arm: (rows, batches)}),
                [],
            )[1],
        )
        run(run_of(tmp_path / arm, arm, id=id))
    first, *others = (
        ([[row[name] for name in ("input_ids", "labels")] for row in rows], batches)
        for rows, batches in seen.values()
    )
    assert len(others) == 3 and all(one == first for one in others)
    rows = seen[f"{NLI}irm"][0]
    config = registry.config(NLI, "irm", "quick")
    assert first[1] == grouped(rows, config["batch"], config["steps"], 0)


def test_their_model_begins_as_the_comparison():
    rows = [{"input_ids": [3, 4, 2, 3, 5], "token_type_ids": [0, 0, 0, 1, 1]}] * 2
    config = registry.config("causal_transformer.beyond.nli.m5", "compared", "quick")
    torch.manual_seed(0)
    plain = beyond.build_invariant(config, 30, 2, rows)
    for arm in groups.OBJECTIVES:
        torch.manual_seed(0)
        ours = groups.build_grouped(registry.config(NLI, arm, "quick"), 30, 2, 3)
        assert ours.config.parents is None and ours.config.compared
        assert {name: value.tolist() for name, value in ours.named_parameters()} == {
            name: value.tolist() for name, value in plain.named_parameters()
        }


def test_data_and_training_are_those_of_the_stored_arms():
    beyond_id, halves = "causal_transformer.beyond.nli.m5", "causal_transformer.beyond.halves.nli"
    ours = registry.config(NLI, "balanced", "laptop")
    stored = registry.config(beyond_id, "compared", "laptop")
    differ = {key for key in ours if key in stored and ours[key] != stored[key]}
    assert differ <= {"balanced", "auc", "real", "probe_rows", "learning_rate"}
    assert registry.seeds(NLI, "laptop") == range(10)
    for arm in BOTH_HALVES:
        asked = registry.config(halves, arm, "laptop")
        stored = registry.config(beyond_id, arm, "laptop")
        assert {key for key in asked if asked[key] != stored.get(key)} <= {"auc", "real"} and asked["auc"]


def test_every_arm_has_as_many_different_tries_on_templates_of_their_own():
    assert set(Counter(arm.rpartition("_")[0] for arm in registry.arms(SEARCH)).values()) == {groups.TRIES}
    configs = [registry.config(SEARCH, arm, "laptop") for arm in registry.arms(SEARCH)]
    assert len({json.dumps(config, sort_keys=True) for config in configs}) == len(configs)
    assert {config["data"]["family"] for config in configs} == {"development"}
    assert COMPARED_RATES["nli"] in {one["learning_rate"] for one in groups.OBJECTIVES["balanced"]}
    for arm, number in groups.CHOSEN.items():
        used = registry.config(NLI, arm, "laptop")
        tried = registry.config(SEARCH, f"{arm}_{number}", "laptop")
        assert {key for key in used if used[key] != tried[key]} <= {
            "data",
            "data_seed",
            "real",
            "cells",
            "steps",
            "map_rows",
        }


# what is chosen


def made_up(accuracy):
    return SimpleNamespace(
        experiment="x", arm="y", seed=0, value=lambda cell, _: accuracy if cell == "challenge" else 0.5
    )


def test_the_best_mean_of_validation_and_challenge_is_chosen(monkeypatch):
    best = {"balanced": 4, "groupdro": 2, "irm": 0}

    def stored(id, name):
        arm, _, number = name.rpartition("_")
        return [made_up(0.9 if best[arm] == int(number) else 0.6)]

    monkeypatch.setattr("causalnb.experiments.causal_transformer.searches.stored", stored)
    assert groups_choose.computed() == best


def test_the_choices_are_those_of_the_stored_search_or_a_result_of_it_is_named_as_missing(monkeypatch):
    monkeypatch.delenv("CAUSALNB_RESULTS", raising=False)
    if len(results.usable(SEARCH, "laptop")) == len(registry.arms(SEARCH)):
        assert groups_choose.computed() == groups.read_chosen()
    else:
        with pytest.raises(LabError, match="there is no result .*groups.search.*: make it with"):
            groups_choose.computed()


def test_choices_that_lack_one_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(groups, "FILE", tmp_path / "groups_chosen.json")
    with pytest.raises(LabError, match="groups_chosen.json holds no choices .*: restore it from git"):
        groups.read_chosen()
    whole = dict.fromkeys(groups.OBJECTIVES, 0)
    groups.FILE.write_text(json.dumps(whole), encoding="utf-8")
    assert groups.read_chosen() == whole
    del whole["irm"]
    groups.FILE.write_text(json.dumps(whole), encoding="utf-8")
    with pytest.raises(LabError, match="groups_chosen.json lacks 'irm': restore it"):
        groups.read_chosen()
