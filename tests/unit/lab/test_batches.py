import math

import pytest

from causalnb.errors import LabError
from causalnb.lab.batches import grouped

LENGTHS = [3 + (7 * i) % 41 for i in range(60)]
ROWS = [{"input_ids": [0] * length} for length in LENGTHS]


def widths(order):
    return sum(max(LENGTHS[i] for i in batch) - min(LENGTHS[i] for i in batch) for batch in order)


def test_batches_hold_every_row_once_and_like_lengths():
    order = grouped(ROWS, 7, 18, 0, window=4)
    assert order == grouped(ROWS, 7, 18, 0, window=4) != grouped(ROWS, 7, 18, 1, window=4)
    for once in (order[:9], order[9:]):
        assert sorted(i for batch in once for i in batch) == [*range(60)]
    assert widths(order) < widths(grouped(ROWS, 7, 18, 0, window=1)) / 2


def test_more_steps_begin_with_the_same_batches():
    assert grouped(ROWS, 8, 30)[:11] == grouped(ROWS, 8, 11)


@pytest.mark.parametrize(
    "wrong", [{"window": True}, {"window": 1.5}, {"size": 0}, {"steps": math.nan}, {"steps": -1}]
)
def test_counts_that_are_none_are_refused(wrong):
    given = {"size": 2, "steps": 3, "window": 2} | wrong
    with pytest.raises(LabError, match=f"{[*wrong.values()][0]}.*: give rows, and whole numbers"):
        grouped([{"input_ids": [1]}] * 4, **given)
