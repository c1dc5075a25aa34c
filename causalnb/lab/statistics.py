"""Means, paired differences and proportions with their intervals."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from causalnb.errors import LabError

ROUNDING = 1e-9  # of a sum of shares, by which equal ones may pass 1


@dataclass(frozen=True)
class Summary:
    """A mean with its confidence interval [low, high] over n values; low and high are nan where n < 2.

    values: where that interval holds what cannot be, the n values, which say more.
    """

    mean: float
    low: float
    high: float
    n: int
    values: tuple[float, ...] = ()

    @property
    def half(self) -> float:
        """Half the width of the interval."""
        return (self.high - self.low) / 2


def mean_ci(
    values: Sequence[float], level: float = 0.95, within: tuple[float, float] = (-math.inf, math.inf)
) -> Summary:
    """Mean and Student t interval, all nan if a value is nan or None; LabError without values.

    within: the least and the most that a mean can be; where the interval leaves it, the Summary has `values`.
    """
    numbers = [math.nan if value is None else float(value) for value in values]
    if not numbers or not 0 < level < 1:
        raise LabError(f"no {level:g} interval of {len(numbers)} values: give values, and a level in (0, 1).")
    n = len(numbers)
    if not all(map(math.isfinite, numbers)):
        return Summary(math.nan, math.nan, math.nan, n)
    mean = math.fsum(numbers) / n
    mean = min(max(mean, min(numbers)), max(numbers))  # rounding must not carry it past equal values
    if n < 2:
        return Summary(mean, math.nan, math.nan, n)
    from scipy.special import stdtrit

    error = math.sqrt(math.fsum((number - mean) ** 2 for number in numbers) / (n - 1) / n)
    half = float(stdtrit(n - 1, (1 + level) / 2)) * error
    leaves = mean - half < within[0] - ROUNDING or mean + half > within[1] + ROUNDING
    return Summary(mean, mean - half, mean + half, n, tuple(numbers) if leaves else ())


def share_ci(values: Sequence[float]) -> Summary:
    """`mean_ci` of shares, which are between 0 and 1."""
    return mean_ci(values, within=(0.0, 1.0))


def paired(a: Mapping[int, float] | Sequence[float], b: Mapping[int, float] | Sequence[float]) -> list[float]:
    """a - b seed by seed, of mappings or Series by seed or sequences, NaN for NaN or None.

    LabError if the seeds differ, and for infinity.
    """
    left, right = (dict(x.items() if hasattr(x, "items") else enumerate(x)) for x in (a, b))
    if alone := set(left) ^ set(right):
        raise LabError(f"seed {min(alone)} has a value on one side only: pair results of the same seeds.")
    if any(value is not None and math.isinf(value) for side in (left, right) for value in side.values()):
        raise LabError(f"a value of {left} or {right} is infinite: give numbers, NaN or None.")
    return [
        math.nan if None in (left[seed], right[seed]) else float(left[seed]) - float(right[seed])
        for seed in sorted(left)
    ]


def sign_flip(differences: Sequence[float]) -> float:
    """Two-sided p of the exact sign-flip test: signs of paired differences are as likely either way.

    The share of all 2^n ways to sign them with a mean at least as far from 0; it cannot be below 2 / 2^n.
    LabError for more than 20 differences or none, and for one that is no finite number.
    """
    import numpy as np

    values = np.asarray([*differences], float)
    if not 1 <= len(values) <= 20:
        raise LabError(f"{len(values)} differences cannot be signed in all ways: give 1 to 20.")
    if not np.isfinite(values).all():
        raise LabError(f"the differences {values.tolist()} have no p: leave out what is no finite number.")
    signs = np.array([*product((1, -1), repeat=len(values))])
    means = np.abs(signs @ values)
    return float((means >= means[0] * (1 - 1e-12) - 1e-15).mean())


def wilson(k: int, n: int, level: float = 0.95) -> Summary:
    """k / n with Wilson's interval, which stays in [0, 1]; LabError unless 0 <= k <= n and n > 0."""
    if n < 1 or not 0 <= k <= n:
        raise LabError(f"{k} of {n} is no proportion: give 0 <= k <= n and n > 0.")
    from scipy.stats import binomtest

    interval = binomtest(k, n).proportion_ci(level, "wilson")
    return Summary(k / n, float(interval.low), float(interval.high), n)
