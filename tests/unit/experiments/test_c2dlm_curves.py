"""Smoothing and speed-up on curves whose answers are known by hand."""

import matplotlib.pyplot as plt
import pandas as pd
import pytest

from causalnb.experiments.c2dlm.curves import SpeedUp, draw_curve, first_at, smoothed, speed_up


def runs(*scores, every=10):
    """Histories of one run a seed, evaluated every 10 steps."""
    return pd.DataFrame(
        [
            {"seed": seed, "step": every * (i + 1), "accuracy": score}
            for seed, run in enumerate(scores)
            for i, score in enumerate(run)
        ]
    )


def test_a_window_looks_back_and_starts_full():
    curve = smoothed(runs([0.0, 0.3, 0.6, 0.0]), "accuracy", 3)
    assert curve.index.tolist() == [30, 40] and curve.tolist() == pytest.approx([0.3, 0.3])
    assert smoothed(runs([0.2, 0.4]), "accuracy", 5).tolist() == pytest.approx([0.3])
    assert smoothed(runs([0.2, 0.4])[::-1], "accuracy", 1).tolist() == pytest.approx([0.2, 0.4])
    with pytest.raises(ValueError, match="window is 0"):
        smoothed(runs([0.2]), "accuracy", 0)
    with pytest.raises(ValueError, match="empty"):
        smoothed(runs([0.2])[:0], "accuracy")


def test_first_at():
    curve = pd.Series([0.1, 0.5, 0.2], index=[10, 20, 30])
    assert first_at(curve, 0.5) == 20 and first_at(curve, 0.1) == 10 and first_at(curve, 0.6) is None


def test_the_speed_up_is_the_quotient_of_first_arrivals():
    slow, fast = runs([0.1, 0.2, 0.3, 0.4], [0.1, 0.4, 0.3, 0.2]), runs([0.1, 0.5, 0, 0], [0.4, 0, 0, 0])
    found = speed_up(slow, fast, "accuracy", 1)
    assert found.quotients == {0: 40 / 20, 1: 20 / 10} and found.median == found.low == found.high == 2
    assert found.reached == 2
    assert str(found) == "2.00× (95 % interval from 2.00× to 2.00×; reached by 2 of 2 seeds)"
    assert speed_up(slow, slow, "accuracy", 2).quotients == {0: 1.0, 1: 1.0}


def test_smoothing_comes_before_the_comparison():
    noisy, steady = runs([0.0, 1.0, 0.0, 0.2]), runs([0.3, 0.7, 0.3, 0.3])
    assert speed_up(noisy, steady, "accuracy", 1).quotients == {0: None}  # never 1.0
    assert speed_up(noisy, steady, "accuracy", 2).quotients == {0: 20 / 20}  # 0.5 at its best, at step 20


def test_what_is_not_reached_counts_as_slowest():
    slow = runs(*[[0.1, 0.2, 0.3, 0.4]] * 3)
    found = speed_up(slow, runs([0.4, 0, 0, 0], [0, 0, 0, 0.4], [0, 0, 0, 0]), "accuracy", 1)
    assert list(found.quotients.values()) == [4.0, 1.0, None] and found.reached == 2
    assert (found.median, found.low, found.high) == (1.0, None, 4.0)
    assert str(found).startswith("1.00× (95 % interval from not reached to 4.00×; reached by 2 of 3")
    never = speed_up(slow, runs(*[[0, 0, 0, 0]] * 3), "accuracy", 1)
    assert (never.median, never.low, never.high) == (None, None, None)
    assert str(never).startswith("not reached (")


def test_seeds_are_paired():
    with pytest.raises(ValueError, match=r"\[0, 1\] and \[0\] are no pairs"):
        speed_up(runs([0.1], [0.2]), runs([0.1]), "accuracy")
    assert isinstance(speed_up(runs([0.1]), runs([0.1]), "accuracy"), SpeedUp)


def test_a_curve_is_drawn_with_its_band():
    fig, ax = plt.subplots()
    end = draw_curve(ax, runs([0.0, 0.2, 0.4], [0.2, 0.4, 0.8]), "accuracy", 2, label="mean")
    assert end == pytest.approx(0.45)
    assert ax.lines[0].get_ydata().tolist() == pytest.approx([0.2, 0.45])
    assert ax.lines[0].get_xdata().tolist() == [20, 30] and len(ax.collections) == 1
    band = ax.collections[0].get_paths()[0].vertices
    assert band[:, 1].min() == pytest.approx(0.1) and band[:, 1].max() == pytest.approx(0.6)
    plt.close(fig)


def test_of_two_seeds_one_that_is_not_reached_is_the_median():
    found = speed_up(runs([0.1, 0.4], [0.1, 0.4]), runs([0.4, 0], [0, 0]), "accuracy", 1)
    assert list(found.quotients.values()) == [2.0, None] and found.median is None
    assert str(found).startswith("not reached (95 % interval from not reached to 2.00×")
