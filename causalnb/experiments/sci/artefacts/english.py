"""SCI on English: new words translated by each model, and what its labels are."""

from causalnb.experiments.sci.artefacts.names import (
    BY_TOKENS,
    EXTRA,
    LOOKS,
    MODELS,
    SWAPPED,
    TOKENS,
    WHOLE,
    means,
)
from causalnb.lab import registry
from causalnb.lab.report import Arm, Measured, Reading, Report, Row, arm, builds, draw, gain

HOME = "sci.english"
OURS = f"{MODELS[WHOLE]} (ours)"
TOLD = {  # arm -> model, labels in its loss or its rows
    "plain": (MODELS["plain"], "none"),
    "plain_swap": (SWAPPED["plain_swap"], "grammar"),
    "plain_labels": (MODELS["plain_labels"], "grammar"),
    "sci": (MODELS["sci"], "grammar"),
    "sci_dependency": (MODELS["sci"], "dependencies"),
    "sci_soft": (MODELS["sci"], "how alike dependencies are"),
    "sci_separated": (OURS, "grammar"),
    BY_TOKENS: (TOKENS[BY_TOKENS], "grammar"),
}
DIFFERENCES = (
    ("plain_swap", "plain"),
    ("plain_labels", "plain"),
    ("sci", "plain"),
    ("sci", "plain_swap"),
    ("sci_dependency", "plain"),
    ("sci_soft", "plain"),
    ("sci_dependency", "sci"),
    ("sci_soft", "sci_dependency"),
    ("sci_separated", "plain"),
    ("sci_separated", "plain_swap"),
    (BY_TOKENS, "sci_separated"),
    (BY_TOKENS, "plain_swap"),
)


FEW = {"sci.english.few": "few rows", "sci.english.fewer": "fewer rows"}
MADE = {  # arm of FEW -> model, and how rows were added to its own
    "plain": MODELS["plain"],
    "plain_swap": "plain + words swapped as pairs of rows tell",
    "plain_places": "plain + words swapped as places and counts tell",
    BY_TOKENS: TOKENS[BY_TOKENS],
}


def _of(name: str) -> Arm:
    return arm(HOME, name)


def _among(id: str) -> dict[str, Arm]:
    """{arm: its values} of one of FEW, in the order of MADE."""
    return {name: arm(id, name) for name in MADE if name in registry.arms(id)}


def _said(name: str) -> str:
    model, labels = TOLD[name]
    return model if labels == "none" else f"{model}, {labels}"


def _notes(profile: str | None) -> str:
    config = registry.config(HOME, "plain", profile)
    return (
        f"{config['steps']:,} steps. New: sentences of {config['structures']:,} structures with one of seven "
        "new words, each trained in one frame alone, where old words stand, too. Held out: sentences of "
        "words that were trained anywhere. All arms draw a part of each batch in pairs of one structure: of "
        "equal dependencies in the arms of dependencies, of the grammar elsewhere. Swapped words need hardly "
        "a label: one for all rows gives the same swaps, and a few of determiners."
    )


english_table = Report(
    HOME,
    [
        "model",
        "labels in the loss or the rows",
        Measured("new words", "exact_match", means),
        Measured("decoded (sample)", "greedy_exact_match", means),
        Measured("held out", "validation_exact_match", means),
    ],
    lambda: [Row(told, _of(name)) for name, told in TOLD.items()],
    "English into a verb-final language: exact translations, mean ± half of the 95 % interval (seeds)",
    _notes,
)
english_gains = Report(
    "sci.english_gains",
    ["difference", Measured("new words, points", "exact_match", gain), Reading("reading")],
    lambda: [Row(f"{_said(name)} - {_said(other)}", _of(name) - _of(other)) for name, other in DIFFERENCES],
    "English into a verb-final language: differences by seed, mean [95 % interval]",
)


def _bars(ax, found: dict[str, tuple[str, Arm]], profile: str | None) -> dict[str, float]:
    """A bar for each of {arm: (what it is, its values)}, a dot for each seed; {arm: mean in percent}."""
    from causalnb.lab.figures import COLOURS

    told = {}
    for height, (name, (_, value)) in enumerate(found.items()):
        shares = [100 * share for share in value.of("exact_match", profile)]
        told[name] = sum(shares) / len(shares)
        colour = LOOKS.get(name, LOOKS["plain_swap" if name in MADE else "sci"])[0]
        ax.barh(height, told[name], color=COLOURS[colour], alpha=0.7)
        ax.scatter(shares, [height] * len(shares), s=12, color="black", zorder=3)
    ax.set_yticks(range(len(found)), [what for what, _ in found.values()])
    ax.invert_yaxis()
    ax.set(xlim=(0, 104), xlabel="sentences with a new word translated exactly, %")
    return told


def english_figure(profile: str | None = None):
    """(figure, alt): new words translated, a bar for each arm, from all rows and from few."""
    import matplotlib.pyplot as plt

    from causalnb.lab.figures import headline

    fig, axes = plt.subplots(3, 1, figsize=(7.2, 7.4), sharex=True, height_ratios=(len(TOLD), len(MADE), 2))
    parts = {"all rows": {name: (_said(name), _of(name)) for name in TOLD}}
    for id, title in FEW.items():
        parts[title] = {name: (MADE[name], value) for name, value in _among(id).items()}
    told = {}
    for ax, (title, found) in zip(axes, parts.items(), strict=True):
        told[title] = _bars(ax, found, profile)
        ax.set_title(title)
        ax.label_outer()
    few = {name: f"{mean:.0f} %" for name, mean in told[FEW["sci.english.few"]].items()}
    swaps = f"{few['plain_swap']} or {few['plain_places']} with swapped words"
    headline(fig, f"From few rows: {TOKENS[BY_TOKENS]} {few[BY_TOKENS]}, plain {few['plain']}, {swaps}")
    lines = "; ".join(
        f"{title}: " + ", ".join(f"{found[name][0]} {mean:.1f} %" for name, mean in told[title].items())
        for title, found in parts.items()
    )
    return fig, f"Three bar charts of exact translations of sentences with a new word. {lines}."


def _mean(values) -> str:
    return f"{sum(values) / len(values):,.0f}"


few_table = Report(
    "sci.english_few",
    [
        "rows",
        "model",
        Measured("training rows", "train_rows", _mean),
        Measured("new words", "exact_match", means),
        Measured("held out", "validation_exact_match", means),
    ],
    lambda: [
        Row((title, MADE[name]), value) for id, title in FEW.items() for name, value in _among(id).items()
    ],
    "English from few rows: exact translations, mean ± half of the 95 % interval (seeds)",
    "As many steps as in the full runs. Pairs: two rows of one structure that differ in one word are a swap. "
    "Places and counts: the translation of a word is what goes with it most often, and words that have one "
    "place in some structure may be swapped. Training rows count the swapped ones.",
)
few_gains = Report(
    "sci.english_few_gains",
    ["rows", "difference", Measured("new words, points", "exact_match", gain), Reading("reading")],
    lambda: [
        Row((title, f"{MADE[BY_TOKENS]} - {MADE[name]}"), found[BY_TOKENS] - value)
        for id, title in FEW.items()
        for found in [_among(id)]
        for name, value in found.items()
        if name != BY_TOKENS
    ],
    "English from few rows: differences by seed, mean [95 % interval]",
)


@builds(
    HOME,
    english_table,
    english_gains,
    few_table,
    few_gains,
    **EXTRA,
    shows="English into a verb-final language: new words by labels of grammar, dependencies, similarity",
    notebook="24_sci_english",
)
def english(profile):
    """What SCI and its labels are worth on English."""
    caption = (
        "Exact translations of English sentences with a word that was trained in one frame; dots are seeds."
    )
    draw(profile, HOME, english_figure(profile), caption)
