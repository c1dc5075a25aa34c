"""Figure 8 of ICLM: mutual information in training by aggregation, and its spikes."""

from dataclasses import dataclass
from functools import partial

from causalnb.errors import LabError
from causalnb.experiments.c2dlm.curves import draw_curve
from causalnb.experiments.iclm.artefacts.scores import FAMILIES, decided, history, home, stated
from causalnb.experiments.iclm.artefacts.training import log_steps
from causalnb.lab.report import Measured, Report, Row, Values, builds, draw, mean, number, values
from causalnb.lab.statistics import mean_ci

LINES = {  # arm -> label, colour, line, marker
    "iclm": ("one head for both", "blue", "-", "o"),
    "logit": ("logits", "vermillion", "--", "s"),
    "probability": ("probabilities", "green", "-.", "^"),
}
SPIKE, NEAR = 1.5, 3  # a spike is so many times the medians of so many evaluations before and after


@dataclass(frozen=True)
class Spikes:
    """Of one curve: how many evaluations are spikes, and the tallest as a multiple of its neighbourhood."""

    count: int
    tallest: float


def spike_start() -> float:
    """The training step after which the paper sees spikes."""
    return stated("variants spike after")


def spikes(curve, after: float = 0.0, factor: float = SPIKE, near: int = NEAR) -> Spikes:
    """Evaluations of a Series by step at least `factor` times the medians of `near` before and after.

    Both sides, so that a steep fall has none; the first and the last evaluation have only one. Those from
    step `after` on count. LabError for fewer than 3 values.
    """
    import numpy as np

    curve = curve.sort_index()
    values, heights = curve.to_numpy(float), []
    if len(values) < 3:
        raise LabError(f"a curve of {len(values)} evaluations has no spikes: follow it at 3 or more.")
    for i in range(1, len(values) - 1):
        sides = values[max(0, i - near) : i], values[i + 1 : i + 1 + near]
        usual = float(max(map(np.median, sides)))
        if curve.index[i] >= after and usual > 0:
            heights.append(float(values[i]) / usual)
    return Spikes(sum(height >= factor for height in heights), max(heights, default=0.0))


def _by_seed(family: str, name: str, what: str, profile) -> dict[int, float]:
    """{seed: count or tallest of its Spikes after the paper's step, or the information at the "end"}."""
    curves = history(family, name, profile, "forward").sort_values("step").set_index("step").groupby("seed")
    if what == "end":
        return curves["forward"].last().to_dict()
    return {int(seed): getattr(spikes(curve["forward"], spike_start()), what) for seed, curve in curves}


def of_curves(family: str, name: str, what: str) -> Values:
    """The count or the tallest of the Spikes of an arm's curves, or the information at their "end"."""
    return values(partial(_by_seed, family, name, what), home(family, name))


def _counts(*names: str) -> Values:
    return mean(*(of_curves(family, name, "count") for family in FAMILIES for name in names))


ONE, *OTHERS = LINES
steadier = _counts(ONE) - _counts(*OTHERS)  # claim 23: spikes a curve with one shared head minus without
KINDS = {"at the end, nats": "end", "spikes in a run": "count", "tallest": "tallest"}
FORMATS = (lambda each: f"{mean_ci(each).mean:.4f}", number(), lambda each: f"{max(each):.2f}")


def _verdict(profile) -> str:
    return str(decided("iclm.claim23", steadier.of(profile=profile)))


spikes_table = Report(
    "iclm.fig8",
    ["task", "aggregation", *(Measured(*told) for told in zip(KINDS, KINDS, FORMATS, strict=True))],
    [
        *(
            Row((task, look[0]), {head: of_curves(family, name, what) for head, what in KINDS.items()})
            for family, task in FAMILIES.items()
            for name, look in LINES.items()
        ),
        Row(
            ("both", "one head − the others"),
            {"spikes in a run": steadier},
            claim="iclm.claim23",
            cells={"tallest": _verdict},
        ),
    ],
    lambda profile: (
        f"Spikes of mutual information after step {spike_start():g}: mean ± half of the 95 % interval (seeds)"
    ),
    f"A spike is an evaluation at least {SPIKE:g} times the median of the {NEAR} before it and that of "
    f"the {NEAR} after it; tallest: the largest such multiple of all seeds. Shorter ones than the time "
    "between evaluations are not seen. Last row: below 0 is what the claim predicts.",
)


def curves_figure(profile: str | None = None):
    """(figure, alt): Figure 8, mutual information by training step for the three aggregations."""
    import matplotlib.pyplot as plt

    from causalnb.lab.figures import headline, text_size

    curves = {
        (family, name): history(family, name, profile, "forward") for family in FAMILIES for name in LINES
    }
    fig, axes = plt.subplots(1, 2, figsize=(8.0, 3.4), sharex=True, sharey=True)
    told = []
    for ax, (family, title) in zip(axes, FAMILIES.items(), strict=True):
        ends = []
        for name, (label, *look) in LINES.items():
            end = draw_curve(ax, curves[family, name], "forward", 1, label, *look)
            ends.append(f"{label} {end:.4f}")
        ax.axvline(spike_start(), color="black", linestyle=":", marker="", linewidth=1)
        ax.set(title=title, xlabel="training step", yscale="log")
        log_steps(ax)
        told.append(f"{title}: {', '.join(ends)}")
    headline(fig, f"Mutual information at the end, nats: {'; '.join(told)}")
    axes[0].set_ylabel("mutual information, nats")
    axes[0].legend(fontsize=text_size(8))
    return fig, (
        "Mutual information of the invariant and the domain modules against training steps, both "
        "axes logarithmic, mean over seeds in a band from the lowest to the highest. At the end "
        f"{'; '.join(told)}. A dotted line marks step {spike_start():g}."
    )


@builds("iclm.fig8", spikes_table)
def fig8(profile):
    """Figure 8: mutual information in training by aggregation, and its spikes."""
    caption = (
        "Mutual information during training with one head for both modules, and with weighted sums of "
        "logits or of probabilities."
    )
    draw(profile, "iclm.fig8", curves_figure(profile), caption)
