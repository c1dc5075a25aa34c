"""What the figures of training share: names and looks of arms, curves by step, and their words."""

from causalnb.experiments.iclm.artefacts.scores import FAMILIES, history

NEEDS = tuple(f"iclm.{part}{family}" for part in ("", "controls.") for family in FAMILIES)
NAMES = {
    "iclm": "ICLM",
    "untrained": "untrained base",
    "matched": "equal lengths",
    "uniform_start": "centroids from a uniform start",
    "no_information": "no information loss",
    "aligned": "CKA in place of information",
    "frozen_router": "frozen router",
}
LOOKS = {"iclm": ("blue", "-", "o"), "untrained": ("vermillion", "--", "s")}


def measured(family: str, name: str, profile: str | None = None):
    """The rows of an arm's histories that were measured in training."""
    return history(family, name, profile, "step")


def at_end(rows):
    """DataFrame by seed: the last measurement in training."""
    return rows.sort_values("step").groupby("seed").last()


def at_step(rows, step: float):
    """DataFrame by seed: the first measurement at or after a step, the last where training ends before."""
    late = rows.sort_values("step")
    return late[late.step >= min(step, late.step.max())].groupby("seed").first()


def log_steps(ax) -> None:
    """Training steps along x, logarithmic, in plain numbers."""
    from matplotlib.ticker import LogLocator, NullFormatter

    ax.set_xscale("log")
    ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.xaxis.set_major_formatter("{x:g}")
    ax.xaxis.set_minor_formatter(NullFormatter())


def course(curve, metric: str) -> str:
    """Where the mean of a metric over seeds begins, its lowest, and where it ends, in words."""
    mean = curve.groupby("step")[metric].mean()
    ends = f"{mean.iloc[0]:.2g} at step {mean.index[0]:g}", f"{mean.iloc[-1]:.2g} at the end"
    return f"{ends[0]}, lowest {mean.min():.2g}, {ends[1]}"
