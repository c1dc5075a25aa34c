"""Experiments of SCI run in the quick profile."""

import pytest

from causalnb.experiments.sci import components
from tests.unit.experiments import quick_runs
from tests.unit.experiments.made_up import wide


@pytest.mark.parametrize("id, arm", quick_runs.jobs("sci"))
def test_runs_in_quick_and_stores_numbers(id, arm):
    quick_runs.check(id, arm)


def test_the_leak_is_there_for_one_arm_and_exactly_absent_for_the_other():
    assert quick_runs.made("sci.leak", "prompt").value("", "first_logit_change") == 0
    assert quick_runs.made("sci.leak", "prompt_and_answer").value("", "first_logit_change") > 0


def test_findings_are_as_the_audit_says():
    found = wide(quick_runs.made("sci.components", "findings").rows)
    assert {name.split(".")[1] for name in found} == {finding.__name__ for finding in components.FINDINGS}
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
