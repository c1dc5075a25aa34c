"""Numbers of rows that are none are refused by every task, before anything is drawn."""

import pytest

from causalnb.errors import DataError
from causalnb.tasks import (
    cot_order_perturb,
    dag_chains,
    pvr,
    reasoning,
    sentence_pairs,
    snli,
    stg,
    sudoku4,
    translation,
)
from causalnb.tasks.counts import counted


@counted(n=1)
def drawn(seed: int, n: int | None = None) -> int | None:
    return n


def test_a_count_passes_and_none_stands_for_all_where_it_is_the_default():
    assert drawn(0, 3) == 3 and drawn(0) is None and drawn(0, None) is None and drawn(0, n=1) == 1


@pytest.mark.parametrize("wrong", [0, -1, True, 1.0, 2.5, float("nan"), "3"])
def test_what_is_no_count_is_named(wrong):
    with pytest.raises(DataError, match="n is .*: give a whole number, 1 or more"):
        drawn(0, wrong)


@pytest.mark.parametrize(
    "draw",
    [
        lambda n: stg.generate(n_train=n),
        lambda n: stg.generate_h(n_test=n),
        lambda n: sudoku4.sample(n),
        lambda n: sudoku4.load(n_train=n),
        lambda n: cot_order_perturb.split(n),
        lambda n: dag_chains.load(n_train=n),
        lambda n: reasoning.generate(next(iter(reasoning.SYNTHETIC)), n, 0),
        lambda n: pvr.generate(n),
        lambda n: snli.generate(n),
        lambda n: translation.generate(n),
    ],
)
@pytest.mark.parametrize("wrong", [-1, True, 1.5, float("nan")])
def test_tasks_refuse_what_is_no_number_of_rows(draw, wrong):
    with pytest.raises(DataError, match="give a whole number"):
        draw(wrong)


@counted(n=0)
def seeded(n, seed=0):
    return seed


@pytest.mark.parametrize("seed", [True, 1.5, -1, float("nan"), None])
def test_a_seed_that_is_no_count_is_refused(seed):
    with pytest.raises(DataError, match=f"seed is {seed}: give a whole number, 0 or more"):
        seeded(1, seed=seed)


@pytest.mark.parametrize("seed", [0, 2**70, "5 train", [0, 1]])
def test_a_seed_made_by_another_task_is_taken(seed):
    assert seeded(1, seed) == seed


def test_blanks_are_counted_and_no_truth():
    with pytest.raises(DataError, match="True empty cells cannot be drawn"):
        sudoku4.sample(2, blanks=True)


@pytest.mark.parametrize("n", [1.5, -1, True, float("inf")])
def test_counterexamples_to_no_number_of_pairs_are_refused(n):
    with pytest.raises(DataError, match=f"n is {n}"):
        sentence_pairs.counterexamples(n, 0.1)
