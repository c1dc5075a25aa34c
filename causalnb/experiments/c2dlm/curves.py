"""Learning curves of C2DLM's experiments: smoothed, drawn over seeds, and the speed-up read from them.

The paper states speed-ups without a definition. Here: the steps until the baseline's smoothed score is first
at its best, divided by the steps until the treated model's smoothed score first is as good, seed by seed.
"""

from dataclasses import dataclass


def smoothed(history, metric: str, window: int = 3):
    """Series by step: the mean of a metric over the last `window` evaluations of one run.

    It starts where a window is full; a window longer than the history is cut to it. ValueError for a window
    below 1 and for a history without steps.
    """
    if window < 1:
        raise ValueError(f"window is {window}: average over at least 1 evaluation")
    scores = history.sort_values("step").set_index("step")[metric].astype(float)
    if scores.empty:
        raise ValueError(f"the history of {metric!r} is empty: pass the rows of one run")
    return scores.rolling(min(window, len(scores))).mean().dropna()


def first_at(curve, level: float) -> float | None:
    """The first step at which a curve is at a level, up to rounding; None where it never is."""
    there = curve[curve >= level - 1e-9]
    return float(there.index[0]) if len(there) else None


def times(histories, metric: str, level: float) -> dict[int, float | None]:
    """{seed: the first step at which a run's score is at a level; None where it never is}."""
    runs = {int(seed): run.set_index("step")[metric] for seed, run in histories.groupby("seed")}
    return {seed: first_at(scores.sort_index(), level) for seed, scores in runs.items()}


@dataclass(frozen=True)
class SpeedUp:
    """Quotients of steps by seed (None: not reached); their median and its 95 % bootstrap interval.

    A quotient that is not reached counts as 0, below all others; median, low or high is None where it is such
    a one. Of an even number of seeds the median is the lower of the two in the middle.
    """

    quotients: dict
    median: float | None
    low: float | None
    high: float | None

    @property
    def reached(self) -> int:
        """Seeds whose treated run gets as good as its baseline at its best."""
        return sum(quotient is not None for quotient in self.quotients.values())

    def __str__(self) -> str:
        def said(quotient):
            return "not reached" if quotient is None else f"{quotient:.2f}×"

        n = len(self.quotients)
        return (
            f"{said(self.median)} (95 % interval from {said(self.low)} to {said(self.high)}; "
            f"reached by {self.reached} of {n} seeds)"
        )


def speed_up(baseline, treated, metric: str, window: int = 3, draws: int = 10_000) -> SpeedUp:
    """How much sooner `treated` is as good as `baseline` ever gets, by smoothed score; seeds are paired.

    Both are DataFrames of histories (seed, step, metric), as results.curves gives them for one arm. The
    interval is the 95 % percentile interval of the median over seeds drawn with replacement; with 3 seeds it
    is their range. ValueError if the seeds differ.
    """
    import numpy as np

    if set(baseline.seed) != set(treated.seed) or not len(baseline):
        raise ValueError(
            f"seeds {sorted(set(baseline.seed))} and {sorted(set(treated.seed))} are no pairs: "
            "pass the same seeds of both arms"
        )
    quotients = {}
    for seed, runs in baseline.groupby("seed"):
        before = smoothed(runs, metric, window)
        after = smoothed(treated[treated.seed == seed], metric, window)
        there = first_at(after, before.max())
        quotients[int(seed)] = None if there is None else first_at(before, before.max()) / there
    values = np.array([quotient or 0.0 for quotient in quotients.values()])
    picked = np.random.default_rng(0).integers(0, len(values), (draws, len(values)))
    middle = (len(values) - 1) // 2
    medians = np.sort(values[picked], axis=1)[:, middle]
    low, high = np.quantile(medians, (0.025, 0.975), method="inverted_cdf")
    found = (float(part) or None for part in (np.sort(values)[middle], low, high))
    return SpeedUp(quotients, *found)


def draw_curve(
    ax,
    histories,
    metric: str,
    window: int = 3,
    label: str = "",
    colour: str = "blue",
    line="-",
    marker: str = "o",
) -> float:
    """Draw the mean over seeds of smoothed curves, in a band from the lowest to the highest seed; its end.

    histories as in speed_up; colour is a name in COLOURS.
    """
    import pandas as pd

    from causalnb.lab.figures import COLOURS

    curves = pd.DataFrame({seed: smoothed(runs, metric, window) for seed, runs in histories.groupby("seed")})
    mean, look = curves.mean(axis=1), {"color": COLOURS[colour]}
    ax.fill_between(curves.index, curves.min(axis=1), curves.max(axis=1), alpha=0.15, linewidth=0, **look)
    ax.plot(
        mean.index, mean, linestyle=line, marker=marker, markevery=max(1, len(mean) // 5), label=label, **look
    )
    return float(mean.iloc[-1])
