"""A verb that comes after training: what its one example is worth to each model."""

from functools import partial

from causalnb.experiments.sci.artefacts.names import BY_TOKENS, EXTRA, LOOKS, MODELS, TOKENS, WHOLE
from causalnb.lab import evidence, registry
from causalnb.lab.report import Measured, Report, Row, arm, builds, draw, gain, share, values

HOME, SEARCH = "sci.later.jump", "sci.later.search"
FITTED = {  # title -> arm, tables that are fitted
    MODELS["plain"]: ("plain", "all"),
    "plain + swapped words": ("plain_swap", "all"),
    "plain + 100 invented verbs": ("plain_invented", "all"),
    MODELS["sci"]: ("sci", "all"),
    f"{MODELS[WHOLE]} (ours), content": (WHOLE, "content"),
    f"{MODELS[WHOLE]} (ours), structure too": (WHOLE, "all"),
    f"{TOKENS[BY_TOKENS]}, content": (f"{WHOLE}_tokens", "content"),
    f"{TOKENS[BY_TOKENS]}, structure too": (f"{WHOLE}_tokens", "all"),
}
OURS = f"{TOKENS[BY_TOKENS]}, content"
ONE, MANY = "one new verb", "several at once"


def _words(profile: str | None) -> dict[str, int]:
    """{heading: new verbs that are learned at once}."""
    return dict(zip((ONE, MANY), registry.config(HOME, "plain", profile)["new_words"], strict=True))


def _measured(home: str, name: str, kind: str, words: int, profile: str | None):
    """DataFrame of the share of compositions that are right, after each fit: cell, seed, value."""
    rows = evidence.rows(home, profile, [name])
    return rows[(rows.measure == "composed") & rows.cell.str.startswith(f"{words}/{kind}_")]


def fit_of(title: str, heading: str, profile: str | None = None) -> tuple[float, int]:
    """(rate, steps), the best for so many new verbs on another; of equals the shortest, then slowest."""
    words = _words(profile)[heading]
    found = _measured(SEARCH, *FITTED[title], words, profile).groupby("cell").value.mean()
    settings = {cell: cell.split("_")[1:] for cell in found.index}
    best = max(found.index, key=lambda cell: (found[cell], *(-float(part) for part in settings[cell][::-1])))
    rate, steps = settings[best]
    return float(rate), int(steps)


def composed(title: str, heading: str, profile: str | None = None) -> dict[int, float]:
    """{seed: share of the compositions of new verbs that are right} after the fit of `fit_of`."""
    rate, steps = fit_of(title, heading, profile)
    found = _measured(HOME, *FITTED[title], _words(profile)[heading], profile)
    found = found[found.cell.str.endswith(f"_{rate:g}_{steps}")]
    return dict(zip(found.seed, found.value, strict=True))


def _values(title: str) -> dict:
    return {heading: values(partial(composed, title, heading), HOME, SEARCH) for heading in (ONE, MANY)}


def _said(title: str, heading: str, profile: str | None = None) -> str:
    rate, steps = fit_of(title, heading, profile)
    return f"{rate:g}, {steps} steps"


def _rows():
    for title, (name, _) in FITTED.items():
        yield Row(
            (title, *(partial(_said, title, heading) for heading in (ONE, MANY))),
            {**_values(title), "trained": arm(HOME, name)},
        )


later_table = Report(
    "sci.later",
    [
        "model, and what is fitted",
        *(f"fit of {heading}" for heading in (ONE, MANY)),
        Measured(ONE, format=share),
        Measured(MANY, format=share),
        Measured("verbs of training", "validation_exact_match", of="trained"),
    ],
    _rows,
    "A verb that comes after training: exact match in % on its compositions, after rows of the tables were "
    "fitted to the verb alone",
    "Fits are the best on 'look'. 'jump' is no part of training; its rows begin as the mean of the known "
    "verbs'. Several: eight new verbs learned at once, and all verbs of a command are new ones.",
)
gains_table = Report(
    "sci.later_gains",
    [f"{OURS}, minus", Measured(ONE, format=gain), Measured(MANY, format=gain)],
    lambda: [
        Row(title, {heading: _values(OURS)[heading] - its for heading, its in _values(title).items()})
        for title in FITTED
        if title != OURS
    ],
    "A verb that comes after training: points that SCI separated is ahead, by seed",
)
COLOURS = {
    **{name: look[0] for name, look in LOOKS.items()},
    "plain_invented": "sky",
    f"{WHOLE}_tokens": LOOKS[BY_TOKENS][0],
}


def later_figure(profile: str | None = None):
    """(figure, alt): compositions of new verbs that are right, a bar for each model, a dot for each seed."""
    import matplotlib.pyplot as plt

    from causalnb.lab.figures import COLOURS as SHADES
    from causalnb.lab.figures import headline

    fig, axes = plt.subplots(1, 2, figsize=(8.2, 3.1), sharey=True, sharex=True)
    told, ends = [], []
    for ax, (heading, words) in zip(axes, _words(profile).items(), strict=True):
        for height, (title, (name, _)) in enumerate(FITTED.items()):
            found = [100 * value for value in composed(title, heading, profile).values()]
            mean = sum(found) / len(found)
            ax.barh(height, mean, color=SHADES[COLOURS[name]], alpha=0.7)
            ax.scatter(found, [height] * len(found), s=12, color="black", zorder=3)
            told.append(f"{title}, {heading}: {mean:.0f} %")
            if ax is axes[0] and title in (MODELS["plain"], "plain + swapped words", OURS):
                ends.append(f"{title} {mean:.0f} %")
        ax.set(xlim=(0, 104), xlabel="compositions right, %", title=f"{words} new verb{'s' * (words > 1)}")
    headline(fig, f"A new verb, compositions right: {', '.join(ends)}")
    axes[0].set_yticks(range(len(FITTED)), FITTED)
    axes[0].invert_yaxis()
    return fig, f"Two bar charts of exact match on compositions of new verbs. {'; '.join(told)}."


@builds(
    "sci.later",
    later_table,
    gains_table,
    **EXTRA,
    shows="a verb learned after training from one example, by SCI separated and by plain decoders",
    notebook="23_sci_separated",
)
def later(profile):
    """What one example of a new verb is worth to each model."""
    caption = "Exact match on compositions of verbs that were learned after training; dots are seeds."
    draw(profile, "sci.later", later_figure(profile), caption)
