"""Attention sinks of two language models and their value norms: tables and a figure."""

import math
from collections.abc import Sequence

from causalnb.experiments.c2dlm.real import NOTEBOOK
from causalnb.experiments.c2dlm.sinks import ARMS, HOME
from causalnb.lab import evidence, registry, results
from causalnb.lab.report import Measured, Report, Row, Values, arm, builds, draw, number, share
from causalnb.lab.statistics import mean_ci

ID = "c2dlm.sinks"
NAMES = {"encoder": "MiniLM, sees both sides", "decoder": "gemma-3-270m, sees what is before"}
BASES = {arm: NAMES[arm.removesuffix("_bare")] + (", bare" if arm.endswith("_bare") else "") for arm in ARMS}
MARKS, SPARED = "punctuation, prepositions", "special tokens, no sinks"
KINDS = {  # tokens -> names of their attention, their norm and the words' norm beside it
    "sinks": ("sink_drawn", "sink_norm", "word_norm_beside"),
    SPARED: ("spared_drawn", "spared_norm", "word_norm_spared"),
    MARKS: ("mark_drawn", "mark_norm", "word_norm"),
    "words": ("word_drawn", "word_norm", "word_norm"),
}
MANY, EVEN, NORM = "in a head", "attention / even share", "norm / a word's"
WHAT = {"special, %": "sinks_special", "first of the text, %": "sinks_first", f"{MARKS}, %": "sinks_mark"}


def times(values: Sequence[float]) -> str:
    """Differences of logarithms as a factor with the 95 % interval: "0.031 [0.030, 0.033] (5)"."""
    found = mean_ci(values)
    middle, low, high = (math.exp(one) for one in (found.mean, found.low, found.high))
    return f"{middle:.2g} [{low:.2g}, {high:.2g}] ({found.n})"


def _norm(name: str, kind: str) -> Values:
    _, its, words = KINDS[kind]
    return arm(HOME, name, its) - arm(HOME, name, words)


def _rows():
    for name, said in BASES.items():
        for kind, (attention, *_) in KINDS.items():
            if kind == SPARED and name not in NAMES:
                continue
            cells: dict[str, Values] = {EVEN: arm(HOME, name, attention), NORM: _norm(name, kind)}
            if kind == "sinks":
                cells |= {MANY: arm(HOME, name, "sinks")}
                cells |= {heading: arm(HOME, name, its) for heading, its in WHAT.items()}
            yield Row((said, kind), cells)


def _notes(profile):
    config = registry.config(HOME, "encoder", profile)
    return (
        f"{config['encoder']} and {config['decoder']}, untuned; {config['rows']} rows of the spurious token "
        "game a seed, which draws them; means over texts, heads and layers. Sink: a token that those who see "
        f"it give more than {config['share']:g} of their attention in the mean (Gu et al. 2024), "
        f"where {config['seen']} or more see it. Norm: mean logarithm, against that of the words in the same "
        "heads. Even share: what they would get if every query looked at all it sees alike. Bare: without "
        "the special tokens around a text. Intervals are over draws of rows, for one base of each kind."
    )


table = Report(
    ID,
    [
        "model",
        "tokens",
        Measured(MANY, format=number(2)),
        *(Measured(heading, format=share) for heading in WHAT),
        Measured(EVEN, format=number(2)),
        Measured(NORM, format=times),
    ],
    _rows,
    "Attention that tokens draw, and the norms of their values, in two language models (draws of rows)",
    _notes,
)
weighted = Report(
    f"{ID}_weighted",
    [
        "model",
        Measured("attention, %", "raw", format=share),
        Measured("attention times value norm, %", "weighted", format=share),
    ],
    lambda: [Row(said, arm(HOME, name)) for name, said in NAMES.items()],
    "What of a word's attention goes to special tokens: mean ± half of the 95 % interval (draws of rows)",
)


def _factor(name: str, kind: str, profile: str | None) -> float:
    return math.exp(_norm(name, kind).summary(profile=profile).mean)


def sink_figure(profile: str | None = None):
    """(figure, alt): value norms of sinks and of marks against those of words, by layer."""
    import matplotlib.pyplot as plt
    import numpy as np

    from causalnb.lab.figures import COLOURS, headline, text_size

    fig, axes = plt.subplots(1, len(NAMES), figsize=(7.6, 3.2), sharey=True, width_ratios=[1, 1.7])
    looks = {  # (tokens, ending of the arm) -> name, colour, marker, line
        ("sinks", ""): ("sinks", "vermillion", "o", "-"),
        ("sinks", "_bare"): ("sinks of bare texts", "black", "s", ""),
        (MARKS, ""): (MARKS, "blue", "^", "--"),
    }
    told = []
    for ax, (name, said) in zip(axes, NAMES.items(), strict=True):
        ax.axhline(1, color="black", linestyle=":", linewidth=1)
        for (kind, ending), (label, colour, marker, line) in looks.items():
            evidence.require(HOME, profile, [name + ending])
            layers = results.curves(HOME, profile, [name + ending]).groupby("layer").mean(numeric_only=True)
            _, its, words = KINDS[kind]
            factor = np.exp(layers[its] - layers[words]).dropna()
            look = {"color": COLOURS[colour], "marker": marker, "linestyle": line or "none", "label": label}
            ax.plot(factor.index + 1, factor, **look)
            told.append(f"{said}, {label}: {', '.join(f'{one:.2g}' for one in factor)}")
        ax.set(yscale="log", xlabel="layer", xticks=range(1, len(layers) + 1, 1 + len(layers) // 8))
        ax.set_title(said, fontsize=text_size(9))
    axes[0].set_ylabel("value norm / a word's")
    axes[0].set_yticks([0.01, 0.1, 1], ["1 %", "10 %", "100 %"])
    fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    short, marks = ([_factor(name, kind, profile) for name in NAMES] for kind in ("sinks", MARKS))
    headline(
        fig,
        f"Sinks carry {100 * short[0]:.0f} and {100 * short[1]:.0f} % of a word's value norm, punctuation "
        f"and prepositions {100 * marks[0]:.0f} and {100 * marks[1]:.0f} %",
    )
    return fig, (
        "Mean norms of values against those of words, by layer from the first on, where a layer has sinks. "
        f"{'; '.join(told)}."
    )


def sink_remark(profile: str | None = None) -> list[str]:
    """What sinks are and how long their values, a line for each base, with and without special tokens."""
    told = []
    for name, said in BASES.items():
        many = arm(HOME, name).summary("sinks", profile).mean
        first, marks = (
            100 * arm(HOME, name).summary(which, profile).mean for which in ("sinks_first", "sinks_mark")
        )
        told.append(
            f"{said}: {many:.2f} sinks a head, {first:.0f} % of them the first token and {marks:.0f} % "
            f"punctuation or prepositions; their values have {100 * _factor(name, 'sinks', profile):.0f} % "
            "of a word's norm."
        )
    return told


@builds(
    ID,
    table,
    weighted,
    shows="attention sinks of two language models, and the norms of their values",
    extra=True,
    printed_as="ours",
    kind="measured",
    notebook=NOTEBOOK,
)
def sinks(profile):
    """Value norms of sinks against those of words: tables and a figure."""
    caption = (
        "Value norms of attention sinks, and of punctuation and prepositions, against those of words, by "
        "layer of two untuned language models."
    )
    draw(profile, ID, sink_figure(profile), caption)
