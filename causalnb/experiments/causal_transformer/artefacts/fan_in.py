"""One key against many weak cues: what reads the cues, by their number and by what attention is held to."""

import re
from collections.abc import Callable
from functools import partial

from causalnb.experiments.causal_transformer.grid import FanInSettings
from causalnb.lab import evidence, registry
from causalnb.lab.report import Measured, Reading, Report, Row, arm, builds, draw, number, share, tested
from causalnb.tasks.fan_in import reader_of

HOME = "causal_transformer.fan_in"
WITHIN = 0.1  # share of nodes outside, below which the bounds are in force
SHARP = 0.1  # nats of the reading row, below which it has one word
KEPT = 0.7  # share right with flipped cues, above which a model reads the key, and not the key and cues
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
HELD, SHARPEST = "blanket_100", "entropy_10"


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


def beyond(profile: str | None = None, words: int = 1) -> list[int]:
    """The numbers of cues with which the best reader of so few words keeps to the key."""
    made = settings(profile)
    return [cues for cues in made.cues if reader_of(words, cues, made.key, made.together)[1] > 0.5]


def over_many(part: str) -> Callable:
    """A metric: the accuracy in a part, its mean over the numbers of cues `beyond` the border of one word."""

    def read(frame):
        made = settings()
        known = [
            name
            for name in frame
            if (found := re.fullmatch(rf"n(\d+)_{part}_accuracy", name))
            and reader_of(1, int(found[1]), made.key, made.together)[1] > 0.5
        ]
        return frame[known].mean(axis=1, skipna=False)

    return read


PAIRS = (
    ("blanket_100", "transformer"),
    ("apart_100", "transformer"),
    ("random", "transformer"),
    ("entropy_10", "transformer"),
    ("blanket_100", "entropy_10"),
    ("apart_100", "entropy_10"),
    ("blanket_100_deep", "transformer_deep"),
    ("apart_100_deep", "transformer_deep"),
    ("entropy_10_deep", "transformer_deep"),
    ("blanket_100_deep", "entropy_10_deep"),
)


def _contrasts_caption(profile: str | None = None) -> str:
    asked = ", ".join(map(str, beyond(profile)))
    return f"Does the blanket do more than concentration? Differences in points, means over {asked} cues"


fan_in_contrasts = Report(
    "causal_transformer.fan_in_contrasts",
    [
        "difference",
        Measured("cues flipped", over_many("flipped"), tested),
        Measured("as in training", over_many("validation"), tested),
        Reading("flipped: it is", of="cues flipped"),
    ],
    [Row(f"{NAMES[one]} - {NAMES[other]}", arm(HOME, one) - arm(HOME, other)) for one, other in PAIRS],
    _contrasts_caption,
    "Differences of the same seeds, mean with its 95 % interval (seeds), and p of the sign-flip test.",
)


def _within(cues: int, profile: str | None = None) -> str:
    """How many models with the blanket loss are within the bounds at so many cues."""
    outside = evidence.require(HOME, profile, [HELD])[f"n{cues}_violated"]
    return f"{(outside < WITHIN).sum()} of {len(outside)}"


def _by_cues():
    for cues in beyond():
        one, other = (arm(HOME, name, f"n{cues}_flipped_accuracy") for name in (HELD, SHARPEST))
        yield Row((str(cues), partial(_within, cues)), one - other)


fan_in_by_cues = Report(
    "causal_transformer.fan_in_by_cues",
    ["cues", "within the bounds", Measured("cues flipped, points", format=tested), Reading("it is")],
    _by_cues,
    f"{NAMES[HELD]} - {NAMES[SHARPEST]}, by the number of cues",
    "Differences of the same seeds, mean with its 95 % interval (seeds), and p of the sign-flip test.",
)


def grid_of(measure: str, profile: str | None = None):
    """(arms, numbers of cues) of a measure, "flipped_accuracy" or "violated": means over seeds."""
    import numpy as np

    asked = settings(profile).cues
    frames = [evidence.require(HOME, profile, [name]) for name in NAMES]
    return np.array([[frame[f"n{cues}_{measure}"].mean() for cues in asked] for frame in frames])


def models(profile: str | None = None):
    """Every trained model as a row: arm, seed, cues, flipped, outside, nats of the reading row, to_cue."""
    import pandas as pd

    measures = {
        "flipped": "flipped_accuracy",
        "validation": "validation_accuracy",
        "outside": "violated",
        "nats": "read_entropy",
        "to_cue": "to_cue",
    }
    rows = []
    for name in NAMES:
        frame = evidence.require(HOME, profile, [name]).set_index("seed")
        for cues in settings(profile).cues:
            read = frame[[f"n{cues}_{measure}" for measure in measures.values()]]
            rows += [
                {"arm": name, "seed": seed, "cues": cues, **dict(zip(measures, values, strict=True))}
                for seed, *values in read.itertuples()
            ]
    return pd.DataFrame(rows)


def key_readers(profile: str | None = None) -> dict[str, tuple[int, int]]:
    """(that read the key, all) of the models beyond the border: by arm, and of "within" and "sharp" ones.

    "within" keep to the bounds, "sharp" have a reading row of one word; "deep within" and "deep sharp" have
    two layers, the others one.
    """
    found = models(profile)
    found = found[found.cues.isin(beyond(profile))]
    deep = found.arm.str.endswith("_deep")
    kinds = {name: found.arm == name for name in NAMES}
    for kind, said in (("within", found.outside < WITHIN), ("sharp", found.nats < SHARP)):
        kinds |= {kind: said & ~deep, f"deep {kind}": said & deep}
    return {kind: (int((found[some].flipped > KEPT).sum()), int(some.sum())) for kind, some in kinds.items()}


def border(profile: str | None = None, words: int = 1) -> float:
    """Where, among the columns, the best reader of so few words begins to keep to the key."""
    return len(settings(profile).cues) - len(beyond(profile, words)) - 0.5


def fan_in_figure(profile: str | None = None):
    """(figure, alt): accuracy with flipped cues, and nodes outside the bounds, by arm and number of cues."""
    import matplotlib.pyplot as plt

    from causalnb.lab.figures import text_size

    asked, right, outside = (
        settings(profile).cues,
        grid_of("flipped_accuracy", profile),
        grid_of("violated", profile),
    )
    shallow = sum(not name.endswith("_deep") for name in NAMES)
    fig, axes = plt.subplots(1, 2, figsize=(8.8, 4.8), sharey=True)
    for ax, shown, title in (
        (axes[0], right, "right where all cues are flipped, %"),
        (axes[1], outside, "nodes outside the bounds, %"),
    ):
        ax.imshow(shown, cmap="cividis", vmin=0, vmax=1, aspect="auto")
        for row in range(shown.shape[0]):
            for column in range(shown.shape[1]):
                value = shown[row, column]
                colour = "black" if value > 0.5 else "white"
                ax.text(column, row, f"{100 * value:.0f}", ha="center", va="center", color=colour)
        ax.axhline(shallow - 0.5, color="white", linewidth=4, linestyle="-", marker="")
        for words, line in ((1, "--"), (3, ":")):
            place = border(profile, words)
            ax.axvline(place, color="white", linewidth=3.5, linestyle="-", marker="")
            ax.axvline(place, color="black", linewidth=1.5, linestyle=line, marker="")
        ax.set_xticks(range(len(asked)), asked)
        ax.set_title(title, fontsize=text_size(9))
        ax.grid(False)
    axes[0].set_yticks(range(len(NAMES)), NAMES.values())
    fig.supxlabel(
        "cues that tell the label together; right of the dashed line the best reader of one word takes the "
        "key,\nright of the dotted one the best reader of three",
        fontsize=text_size(9),
    )
    told = key_readers(profile)
    within, sharp, deep = ("{} of {}".format(*told[kind]) for kind in ("within", "sharp", "deep sharp"))
    message = (
        f"Right of the dashed line {within} models within the bounds keep to the key (one layer),\n"
        f"{sharp} whose reading row has one word; with two layers {deep} of these"
    )
    fig.suptitle(message, fontsize=text_size(11))
    many = {name: (100 * right[row, -1], 100 * outside[row, -1]) for row, name in enumerate(NAMES.values())}
    ends = "; ".join(f"{name} {score:.0f} and {share:.0f}" for name, (score, share) in many.items())
    return fig, (
        f"Two maps with a row for each way to hold attention and a column for each of {asked} cues; right "
        f"of a dashed line the best reader of one word takes the key, right of a dotted one the best reader "
        f"of three. {message.replace(chr(10), ' ')}. "
        f"With {asked[-1]} cues, % right with them flipped and % of nodes outside: {ends}."
    )


def fan_in_verdict(profile: str | None = None) -> str:
    """Whether the blanket does more than concentration, and more than nothing, as a sentence each."""
    told = key_readers(profile)
    lines = [
        "Models beyond the border that read the key: {}.".format(
            "; ".join("{} {} of {}".format(name, *told[known]) for known, name in NAMES.items())
        )
    ]
    for kind, words in (("", "one layer"), ("deep ", "two layers")):
        lines.append(
            "Of models with {} that keep to the bounds {} of {} do; of those whose reading row has under {} "
            "nats, {} of {}.".format(words, *told[f"{kind}within"], SHARP, *told[f"{kind}sharp"])
        )
    for one, other in (
        ("blanket_100", "entropy_10"),
        ("blanket_100", "transformer"),
        ("entropy_10", "transformer"),
        ("random", "transformer"),
    ):
        found = (arm(HOME, one) - arm(HOME, other)).summary(over_many("flipped"), profile)
        side = "above 0" if found.low > 0 else "below 0" if found.high < 0 else "0 is inside"
        lines.append(
            f"**{NAMES[one]}** minus **{NAMES[other]}**, with flipped cues: {100 * found.mean:+.1f} points "
            f"[{100 * found.low:+.1f}, {100 * found.high:+.1f}], {side}."
        )
    return "\n".join(f"- {line}" for line in lines)


@builds(
    "causal_transformer.fan_in",
    fan_in_table,
    fan_in_contrasts,
    fan_in_by_cues,
    extra=True,
    printed_as="ours",
    kind="measured",
    shows="whether a bound on attention keeps a model from many weak cues beside one key",
    notebook="14_when_bounds_help",
)
def fan_in(profile):
    """Which ways to hold attention keep a model from many weak cues."""
    caption = (
        "Accuracy where all cues are turned, and the share of nodes outside the bounds, means over seeds. "
        "Right of the dashed line the best reader of one word takes the key, of the dotted one that of three."
    )
    draw(profile, "causal_transformer.fan_in", fan_in_figure(profile), caption)
