"""One key against many weak cues: what reads the cues, by their number and by what attention is held to."""

import re
from collections.abc import Callable

from causalnb.experiments.causal_transformer.grid import FanInSettings
from causalnb.lab import evidence, registry
from causalnb.lab.report import Measured, Report, Row, arm, builds, draw, number, share
from causalnb.tasks.fan_in import cue_accuracy

HOME = "causal_transformer.fan_in"
NAMES = {
    "transformer": "plain",
    **{f"blanket_{weight}": f"blanket loss, weight {weight}" for weight in (10, 100)},
    **{f"apart_{weight}": f"rows and columns apart, weight {weight}" for weight in (10, 100)},
    **{f"entropy_{weight}": f"entropy to 0, weight {weight}" for weight in (1, 10)},
    "random": "random mask",
    "transformer_deep": "two layers: plain",
    "blanket_100_deep": "two layers: blanket loss, weight 100",
    "apart_100_deep": "two layers: apart, weight 100",
    "entropy_10_deep": "two layers: entropy to 0, weight 10",
}


def settings(profile: str | None = None) -> FanInSettings:
    """What all arms share in a profile."""
    config = registry.config(HOME, "transformer", profile)
    return FanInSettings(**{name: config[name] for name in FanInSettings.__dataclass_fields__})


def with_most(measure: str) -> Callable:
    """A metric: the measure where there are most cues."""

    def read(frame):
        known = [int(found[1]) for name in frame if (found := re.fullmatch(rf"n(\d+)_{measure}", name))]
        return frame[f"n{max(known)}_{measure}"]

    return read


def _caption(profile: str | None = None) -> str:
    return f"{max(settings(profile).cues)} weak cues against one key: accuracy in %, and where attention goes"


def _notes(profile: str | None = None) -> str:
    made = settings(profile)
    return (
        f"The key is right in {made.key:.0%} of the rows, the vote of the cues in {made.together:.0%} of the "
        f"training rows and in {1 - made.together:.0%} of those with flipped cues. The label is read from "
        "the first token, whose row in the last layer is the reading row; the rest of it stays at home or at "
        "words that say nothing."
    )


fan_in_table = Report(
    "causal_transformer.fan_in",
    [
        "attention is held by",
        Measured("as in training", with_most("validation_accuracy"), share),
        Measured("cues flipped", with_most("flipped_accuracy"), share),
        Measured("nodes outside the bounds", with_most("violated"), share),
        Measured("outside, rows and columns apart", with_most("violated_apart"), share),
        Measured("nats of the reading row", with_most("read_entropy"), number(2)),
        Measured("of it to the key", with_most("to_key"), share),
        Measured("to cues", with_most("to_cue"), share),
    ],
    [Row(name, arm(HOME, known)) for known, name in NAMES.items()],
    _caption,
    _notes,
)


def grid_of(measure: str, profile: str | None = None):
    """(arms, numbers of cues) of a measure, "flipped_accuracy" or "violated": means over seeds."""
    import numpy as np

    asked = settings(profile).cues
    frames = [evidence.require(HOME, profile, [name]) for name in NAMES]
    return np.array([[frame[f"n{cues}_{measure}"].mean() for cues in asked] for frame in frames])


def border(profile: str | None = None) -> float:
    """Where, among the columns, one cue alone falls below the key: a half more than the last it is above."""
    made = settings(profile)
    return sum(cue_accuracy(cues, made.together) > made.key for cues in made.cues) - 0.5


def fan_in_figure(profile: str | None = None):
    """(figure, alt): accuracy with flipped cues, and nodes outside the bounds, by arm and number of cues."""
    import matplotlib.pyplot as plt

    from causalnb.lab.figures import text_size

    asked, right, outside = (
        settings(profile).cues,
        grid_of("flipped_accuracy", profile),
        grid_of("violated", profile),
    )
    fig, axes = plt.subplots(1, 2, figsize=(8.4, 4.4), sharey=True)
    for ax, shown, title in (
        (axes[0], right, "right with flipped cues, %"),
        (axes[1], outside, "nodes outside the bounds, %"),
    ):
        ax.imshow(shown, cmap="cividis", vmin=0, vmax=1, aspect="auto")
        for row in range(shown.shape[0]):
            for column in range(shown.shape[1]):
                value = shown[row, column]
                colour = "black" if value > 0.5 else "white"
                ax.text(column, row, f"{100 * value:.0f}", ha="center", va="center", color=colour)
        ax.axvline(border(profile), color="white", linewidth=2, linestyle="--", marker="")
        ax.set_xticks(range(len(asked)), asked)
        ax.set_title(title, fontsize=text_size(9))
        ax.grid(False)
    axes[0].set_yticks(range(len(NAMES)), NAMES.values())
    fig.supxlabel("cues that tell the label together")
    many = {name: (100 * right[row, -1], 100 * outside[row, -1]) for row, name in enumerate(NAMES.values())}
    told = "; ".join(f"{name} {score:.0f} and {share:.0f}" for name, (score, share) in many.items())
    return fig, (
        f"Two maps with a row for each way to hold attention and a column for each of {asked} cues; right "
        f"of a dashed line one cue alone is worse than the key. With {asked[-1]} cues, % right with them "
        f"flipped and % of nodes outside: {told}."
    )


@builds(
    "causal_transformer.fan_in",
    fan_in_table,
    extra=True,
    printed_as="ours",
    kind="measured",
    shows="whether a bound on attention keeps a model from many weak cues beside one key",
    notebook="11_spurious_correlations",
)
def fan_in(profile):
    """Which ways to hold attention keep a model from many weak cues."""
    caption = (
        "Accuracy where all cues are turned, and the share of nodes outside the bounds, means over seeds. "
        "Right of the dashed line one cue is worse than the key."
    )
    draw(profile, "causal_transformer.fan_in", fan_in_figure(profile), caption)
