"""SCI on English: new words translated by each model, and what its labels are."""

from causalnb.experiments.sci.artefacts.names import EXTRA, LOOKS, MODELS, SWAPPED, WHOLE, means
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
}
DIFFERENCES = (
    ("plain_swap", "plain"),
    ("plain_labels", "plain"),
    ("sci", "plain"),
    ("sci", "plain_swap"),
    ("sci_dependency", "sci"),
    ("sci_soft", "sci_dependency"),
    ("sci_separated", "plain"),
    ("sci_separated", "plain_swap"),
)


def _of(name: str) -> Arm:
    return arm(HOME, name)


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


def english_figure(profile: str | None = None):
    """(figure, alt): new words translated, a bar for each arm, a dot for each seed."""
    import matplotlib.pyplot as plt

    from causalnb.lab.figures import COLOURS, headline

    fig, ax = plt.subplots(figsize=(6.4, 3.2))
    told = {}
    for height, name in enumerate(TOLD):
        found = [100 * value for value in _of(name).of("exact_match", profile)]
        look = LOOKS.get(name, LOOKS["sci"])
        told[name] = sum(found) / len(found)
        ax.barh(height, told[name], color=COLOURS[look[0]], alpha=0.7)
        ax.scatter(found, [height] * len(found), s=12, color="black", zorder=3)
    ax.set_yticks(range(len(TOLD)), map(_said, TOLD))
    ax.invert_yaxis()
    ax.set(xlim=(0, 104), xlabel="sentences with a new word translated exactly, %")
    ends = ", ".join(f"{_said(name)} {told[name]:.0f} %" for name in ("plain", "plain_swap", "sci", WHOLE))
    headline(fig, f"New words of English translated: {ends}")
    lines = "; ".join(f"{_said(name)} {mean:.1f} %" for name, mean in told.items())
    return fig, f"Bar chart of exact translations of sentences with a new word. {lines}."


@builds(
    HOME,
    english_table,
    english_gains,
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
