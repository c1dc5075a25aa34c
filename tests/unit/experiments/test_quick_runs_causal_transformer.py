"""Experiments of the Causal Transformer run in the quick profile."""

import pytest

from tests.unit.experiments import quick_runs


@pytest.mark.parametrize("id, arm", quick_runs.jobs("causal_transformer"))
def test_runs_in_quick_and_stores_numbers(id, arm):
    quick_runs.check(id, arm)
