"""What the runs on real bases are on a GPU: larger, and still runs; each is made here on a tiny base."""

import math

import pytest

from causalnb.errors import DataError
from causalnb.lab import profiles, registry, runner

TARGETS = ("causal_transformer.real", "sci.real", "iclm.real", "c2dlm.real")  # as `make gpu` has them
TINY = {"base": "tiny", "steps": 2, "evaluate_every": 1}  # whatever else is small comes from quick
SNLI = "causal_transformer.real.snli"
READ = {"iclm.real.router", "iclm.real.dependence", "iclm.real.said", "c2dlm.real.sinks"}  # nothing trains
SLOT = 8 * 60  # seconds of `make gpu`


def asked():
    return registry.resolve(TARGETS)


def trained():
    return [id for id in asked() if id not in READ]


def larger():
    """(experiment, first arm of it that differs): one of each kind of run, and of each change of settings."""
    found = {}
    for id in trained():
        arms = registry.arms(id)
        kept = "lora" in registry.config(id, arms[0], "gpu") and not registry.seeds(id, "gpu")
        if not kept and not id.startswith("iclm."):  # whose own test has these settings
            found.setdefault((registry.experiment(id).run, id.split(".")[0]), (id, arms[-1]))
    return [*found.values()]


def test_all_that_train_have_settings_of_their_own_there():
    assert all(registry.settings_profile(id, "gpu") == "gpu" for id in trained())
    for id in trained():
        for arm in registry.arms(id):
            small, large = (registry.config(id, arm, profile) for profile in ("laptop", "gpu"))
            assert {*small} == {*large} and small != large


def test_what_is_asked_for_there_is_told_with_its_time():
    planned = runner.plan(TARGETS, "gpu")
    assert {job.experiment.split(".")[0] for job in planned} == {name.split(".")[0] for name in TARGETS}
    hours = sum(runner.costs(planned, "gpu").values()) / 3600
    assert 10 < hours < 64


def test_adapters_of_the_notebooks_are_not_made_anew():
    for id in ("causal_transformer.real.adapters", "c2dlm.real.adapters"):
        assert not registry.seeds(id, "gpu") and not runner.plan([id], "gpu")
        assert runner.plan([id], "laptop")


def test_headlines_have_five_seeds():
    for id in ("causal_transformer.real.nli.m5", "sci.real.jump", "sci.real.nonce", "c2dlm.real.stg_l"):
        assert all(len(registry.seeds(id, "gpu", arm)) == 5 for arm in registry.arms(id))
    assert all(len(registry.seeds(SNLI, "gpu", arm)) >= 3 for arm in registry.arms(SNLI))


def test_a_larger_base_is_tuned_at_its_own_rate_and_a_search_at_all_of_its_rates():
    for id in ("causal_transformer.real.snli", "c2dlm.real.stg_l"):
        rates = {registry.config(id, arm, "gpu")["learning_rate"] for arm in registry.arms(id)}
        assert rates == {5e-5}
        assert registry.config(id, registry.arms(id)[0], "laptop")["learning_rate"] == 1e-4
    search = "causal_transformer.real.search.snli"
    for arm in ("rate_3e-5", "rate_1e-4", "rate_3e-4"):
        one, other = (registry.config(search, arm, profile) for profile in ("laptop", "gpu"))
        assert one["learning_rate"] == other["learning_rate"] == float(arm.removeprefix("rate_"))


def test_of_snli_half_is_read_and_in_twice_the_steps_all_of_it_once():
    for id, share in ((SNLI, 0.5), ("causal_transformer.real.snli.longer", 1.0)):
        settings = registry.config(id, "vanilla", "gpu")
        assert settings["data"] == {"source": "snli_full"}
        assert settings["steps"] * settings["batch"] / 549_367 == pytest.approx(share, rel=0.01)


def test_every_training_comes_to_a_checkpoint_within_a_slot():
    for id in trained():
        for arm in registry.arms(id):
            settings, cost = (
                registry.config(id, arm, "gpu"),
                profiles.pick("gpu", **registry.experiment(id).cost),
            )
            steps = settings["steps"]
            every = settings.get("evaluate_every", steps // 2)
            assert cost * every / steps <= SLOT - 60, id  # which has a base to load and rows to read, too


def small(id, arm):
    """The settings of a GPU at a tiny size: those of quick lie over what is large."""
    quick, large = registry.config(id, arm, "quick"), registry.config(id, arm, "gpu")
    sizes = {"batch", "map_rows", "lora_rank", "train_rows", "test_rows", "validation_rows", "curve_rows"}
    sizes |= {"random_rows", "pairs", "data", "real"}
    over = {name: value for name, value in quick.items() if name in sizes}
    if "bf16" in large:
        over["bf16"] = quick["bf16"]
    return {**large, **over, **{name: value for name, value in TINY.items() if name in large}}


@pytest.mark.parametrize("id, arm", larger())
def test_each_kind_of_run_is_made_with_the_settings_of_a_gpu(id, arm, tmp_path):
    settings = small(id, arm)
    run = registry.Run(id, arm, 0, "gpu", settings, tmp_path, "cpu", lambda *_: None)
    try:
        found = registry.experiment(id).run(run)
    except DataError as missing:
        pytest.skip(str(missing))
    assert found["bases"].keys() == {"tiny"} and found["history"]
    numbers = [value for cell in found["metrics"].values() for value in cell.values()]
    assert numbers and all(value is None or math.isfinite(value) for value in numbers)
