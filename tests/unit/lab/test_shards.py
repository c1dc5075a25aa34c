"""Parts of a plan: disjoint, whole, balanced, and the same whatever is stored."""

import random
from dataclasses import replace
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from causalnb.errors import LabError
from causalnb.lab import registry, results, runner


def priced(**costs):
    """Give toy experiments other registered costs."""
    for name, cost in costs.items():
        spec = registry.experiment(f"toy.{name}")
        registry.register(replace(spec, cost={"laptop": cost}))


def names(jobs):
    return [job[:3] for job in jobs]


@pytest.mark.parametrize("text, part", [("1/1", (1, 1)), ("3/16", (3, 16)), ("007/7", (7, 7))])
def test_a_shard_is_a_number_of_a_number(text, part):
    assert runner.shard(text) == part


WRONG = [
    "0/4",
    "5/4",
    "a/b",
    "",
    "/",
    "3",
    "1/0",
    "-1/4",
    "1/4/4",
    " 1/4",
    "1/4\n",
    "1.0/4",
    "٣/٤",
    "1/9999999",
]


@pytest.mark.parametrize("text", WRONG)
def test_what_is_no_shard_is_refused(text):
    with pytest.raises(LabError) as error:
        runner.shard(text)
    assert str(error.value) == f"the shard is {text!r}: give K/N, with K from 1 to N, such as 3/16."


@pytest.mark.parametrize("parts", [1, 2, 3, 5, 40])
def test_parts_are_disjoint_and_together_whole(lab, parts):
    planned = runner.plan(["toy"], seeds=3)
    found = runner.divided(planned, parts)
    assert len(found) == parts and sorted(job for part in found for job in part) == sorted(planned)
    shares = [runner.part_of(planned, runner.Shard(k + 1, parts)) for k in range(parts)]
    assert [sorted(share) for share in shares] == [sorted(part) for part in found]
    assert all(share == [job for job in planned if job in share] for share in shares)
    assert runner.part_of(planned, None) == planned


@given(st.lists(st.integers(1, 1000), min_size=7, max_size=7), st.integers(1, 6), st.integers(1, 4))
def test_no_part_costs_much_more_than_another(own_lab, costs, parts, seeds):
    """The dearest part and the cheapest differ by no more than a job."""
    jobs = [
        runner.Job(f"x.{at}", "it", seed, "missing", 0.0) for at in range(len(costs)) for seed in range(seeds)
    ]
    own_lab(costs)
    found = runner.divided(jobs, parts)
    loads = [sum(costs[int(job.experiment[2:])] for job in part) for part in found]
    assert max(loads) - min(loads) <= max(costs)
    assert max(loads) <= ceil(sum(loads) / parts) + max(costs)
    mixed = random.Random(0).sample(jobs, len(jobs))
    assert [names(part) for part in runner.divided(mixed, parts)] == [names(part) for part in found]


@pytest.fixture(scope="module")
def own_lab():
    """set(costs) registers an experiment for each cost, which exists within the test alone."""
    before = dict(registry._experiments)

    def register(costs):
        for at, cost in enumerate(costs):
            registry._experiments[f"x.{at}"] = registry.Experiment(
                f"x.{at}", "", {"it": {}}, {"laptop": {}}, {"laptop": 1}, len, {"laptop": cost}
            )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "load_all", lambda: None)
        yield register
    registry._experiments.clear()
    registry._experiments.update(before)


def test_the_plan_is_divided_and_not_what_is_missing(lab, monkeypatch):
    """What one machine has stored, how long that took there, and its device change no part."""
    priced(sum=50, bad=20, slow=20)
    asked = ["toy.sum", "toy.bad", "toy.slow"]
    before = [names(part) for part in runner.divided(runner.plan(asked), 3)]
    code = runner.digest(runner.plan(asked))
    runner.execute("toy.sum", "two", 1)
    result = results.read("toy.sum", "two", 1)
    results.write(replace(result, cpu_seconds=5000.0))
    after = runner.plan(asked)
    assert {job.state for job in after} == {"fresh", "missing"} and 5000.0 in {job.estimate for job in after}
    assert [names(part) for part in runner.divided(after, 3)] == before
    monkeypatch.setenv("CAUSALNB_DEVICE", "cuda")
    assert [names(part) for part in runner.divided(runner.plan(asked), 3)] == before
    assert [names(part) for part in runner.divided(runner.plan(asked[::-1]), 3)] == before
    assert runner.digest(after) == runner.digest(runner.plan(asked[::-1])) == code
    assert runner.digest(runner.plan(asked[1:])) != code != runner.digest(runner.plan(asked, "gpu"), "gpu")
    priced(sum=51)
    assert runner.digest(runner.plan(asked)) != code


def test_the_arms_of_an_experiment_are_spread(lab):
    """Arms of one experiment have one registered cost and may take unlike times: each part has of each."""
    found = runner.divided(runner.plan(["toy.sum"], seeds=4), 4)
    assert [sorted(job.arm for job in part) for part in found] == [["one", "two"]] * 4


def test_a_part_is_made_and_the_rest_left(lab, capsys):
    summary = runner.run(["toy.sum"], part=runner.Shard(1, 2))
    other = runner.run(["toy.sum"], part=runner.Shard(2, 2))
    assert {job["outcome"] for job in [*summary, *other]} == {"done"} and len(summary) == len(other) == 2
    assert {job["outcome"] for job in runner.run(["toy.sum"])} == {"kept"}


def test_without_all_experiments_nothing_is_divided(lab, monkeypatch):
    monkeypatch.setattr(registry, "unread", lambda: ["data/x.csv is damaged: restore it."])
    planned = runner.plan(["toy.sum"])
    assert runner.part_of(planned, None) == planned
    with pytest.raises(LabError, match="not those of other machines: data/x.csv is damaged: restore it."):
        runner.part_of(planned, runner.Shard(1, 2))
