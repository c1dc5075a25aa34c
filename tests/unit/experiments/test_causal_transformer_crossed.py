"""Paraphrase where order alone tells: what is drawn and asked, and what arms share with those before."""

import pytest

from causalnb.experiments.causal_transformer import crossed
from causalnb.experiments.causal_transformer import data as tasks
from causalnb.experiments.causal_transformer.grid import CHOSEN
from causalnb.lab import registry
from causalnb.lab.batches import grouped
from causalnb.tasks import paraphrase
from tests.unit.experiments.made_up import wide

ID, LONGER = "causal_transformer.crossed", "causal_transformer.crossed.longer"
CELLS = ("test", "challenge", "held_out", "uncrossed")
STORED = {
    **dict.fromkeys(("bilstm", "transformer"), "causal_transformer.overlap.paraphrase.m5"),
    "random": "causal_transformer.masked.paraphrase",
    **dict.fromkeys(
        ("compared", "directed", CHOSEN),
        "causal_transformer.beyond.paraphrase.m5",
    ),
}
ASKED = {"cells", "auc", "data"}
OF_BEYOND = {"parents", "directed", "compared", "interchanged", "distance", "entropy_weight"}
OF_A_LOSS = {"causal_weight", "ramp"}
NEW = {"compared_balanced": {"balanced"}, "obeyed": {"blanket", "causal_weight", "ramp"}}  # from compared
SIZES = {"n_train": 400, "n_validation": 8, "n_test": 8, "n_challenge": 40, "minority": 0.06}


def run_of(folder, arm, progress=lambda *_: None, **changes):
    return registry.Run(
        ID, arm, 0, "quick", registry.config(ID, arm, "quick") | changes, folder, "cpu", progress
    )


@pytest.mark.parametrize("arm", crossed.ARMS)
def test_every_arm_is_asked_all_cells(arm, tmp_path):
    found = crossed.run_crossed(run_of(tmp_path, arm))
    assert set(found["metrics"]) == {"", *CELLS}
    measured = wide(found["metrics"])
    for its in ("accuracy", "auc"):
        assert all(0 <= measured[f"{cell}_{its}"] <= 1 for cell in CELLS)
    assert {f"{cell}_swapped" for cell in ("challenge", "held_out", "uncrossed")} < set(measured)
    last = set(found["history"][-1])
    assert {"accuracy", "loss"} < last and ("entropy" in last) == (arm != "bilstm")


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """{arm: (rows and batches it learns from, cells it is asked)} of runs that train nothing."""
    found = {}

    def fit(run, model, rows, batches, *_):
        found[run.arm] = [rows, batches]
        return []

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(crossed, "fit", fit)
        patch.setattr(crossed, "cell_scores", lambda model, asked, *_: {"asked": asked})
        for arm in crossed.ARMS:
            metrics = crossed.run_crossed(run_of(tmp_path_factory.mktemp(arm), arm, data=SIZES))["metrics"]
            found[arm] += [metrics["asked"], metrics[""]]
    return found


def test_reweighted_arms_learn_from_more_rows_and_all_others_from_the_same_draws(seen):
    drawn = paraphrase.crossed(tasks.parts("paraphrase", SIZES, 0))["train"]
    config = registry.config(ID, "transformer", "quick")
    tokenizer = tasks.pair_tokenizer(drawn, config["vocabulary"])
    rows = tasks.encoded(drawn, tokenizer)
    rare = tasks.encoded([row for row in drawn if row["kind"] == "swapped"], tokenizer)
    same = [row for row in drawn if row["kind"] in paraphrase.SAME_WORDS]
    for arm, (learned, batches, _, own) in seen.items():
        more = len(learned) - len(rows)
        times = more // len(rare)
        assert learned == rows + times * rare and (times > 5) == (arm == "compared_balanced")
        assert batches == grouped(learned, config["batch"], config["steps"], 0)
        assert own["rows"] == len(drawn) and own["minority"] == pytest.approx(len(rare) / len(same))


def test_the_challenge_is_crossed_and_the_pairs_before_that_are_asked_too(seen):
    before = tasks.parts("paraphrase", SIZES, 0)
    after = paraphrase.crossed(before)
    wanted = {cell: after[cell] for cell in CELLS[:-1]} | {"uncrossed": before["challenge"]}
    assert after["challenge"] != before["challenge"]
    assert all(asked == wanted for _, _, asked, _ in seen.values())


@pytest.mark.parametrize("arm", ["bilstm", "random", "compared_balanced", CHOSEN])
def test_a_stopped_run_is_the_same(arm, tmp_path):
    class Stop(Exception):
        pass

    def stop(done, total, note):
        if done == 2:
            raise Stop

    changes = dict(steps=4, evaluate_every=1)
    whole = crossed.run_crossed(run_of(tmp_path / "whole", arm, **changes))
    with pytest.raises(Stop):
        crossed.run_crossed(run_of(tmp_path / "cut", arm, stop, **changes))
    assert crossed.run_crossed(run_of(tmp_path / "cut", arm, **changes)) == whole
    assert len(whole["history"]) == 4


def differing(one: dict, other: dict) -> set[str]:
    none = object()
    return {key for key in one.keys() | other.keys() if one.get(key, none) != other.get(key, none)}


@pytest.mark.parametrize("profile", ["laptop", "gpu"])
@pytest.mark.parametrize("arm", STORED)
def test_arms_are_those_of_the_stored_results_on_other_data(arm, profile):
    ours, stored = registry.config(ID, arm, profile), registry.config(STORED[arm], arm, profile)
    compared = "compared" in crossed.ARMS[arm]
    assert differing(ours, stored) == (ASKED if compared else ASKED | OF_BEYOND | OF_A_LOSS)
    if not compared:
        assert ours["blanket"] == stored["blanket"] == "none"
        assert not any(ours[name] for name in OF_BEYOND - {"distance"})
    assert differing(ours["data"], stored["data"]) == {"minority"}
    assert ours["cells"] == [*stored["cells"], "uncrossed"] and ours["auc"]
    assert set(registry.seeds(ID, profile)) <= set(registry.seeds(STORED[arm], profile))


def test_what_is_new_differs_from_the_comparison_in_one_thing():
    assert {*STORED, *NEW} == {*registry.arms(ID)}
    for arm, what in NEW.items():
        ours, other = (registry.config(ID, name, "laptop") for name in (arm, "compared"))
        assert differing(ours, other) == what
    assert registry.config(ID, "compared_balanced", "laptop")["balanced"]
    kept = registry.config("causal_transformer.beyond.obeyed.nli", "obeyed", "laptop")
    assert all(kept[name] == registry.config(ID, "obeyed", "laptop")[name] for name in NEW["obeyed"])


@pytest.mark.parametrize("profile", ["laptop", "gpu"])
def test_the_longer_training_is_of_twice_the_steps_and_no_more(profile):
    ours, other = (registry.config(id, "compared", profile) for id in (LONGER, ID))
    assert differing(ours, other) == {"steps"} and ours["steps"] == 2 * other["steps"]
    assert registry.arms(LONGER) == ["compared"]
    assert {*registry.seeds(LONGER, profile)} < {*registry.seeds(ID, profile)}


def test_crossing_leaves_the_share_of_counterexamples_that_the_stored_arms_had():
    config = registry.config(ID, "compared", "laptop")
    before = tasks.parts("paraphrase", config["data"], config["data_seed"])
    after = paraphrase.crossed(before)
    assert all(len(after[part]) >= 0.9 * len(rows) for part, rows in before.items())
    same = [row for row in after["train"] if row["kind"] in paraphrase.SAME_WORDS]
    rare = sum(row["kind"] == "swapped" for row in same) / len(same)
    wanted = registry.config(STORED["compared"], "compared", "laptop")["data"]["minority"]
    assert rare == pytest.approx(wanted, abs=0.004)
