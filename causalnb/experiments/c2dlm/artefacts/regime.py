"""Where guidance pays on the spurious token game: strength of the spurious cue, number of rows, guidance."""

from collections.abc import Callable

from causalnb.experiments.c2dlm.artefacts.games import NAMES, SFT
from causalnb.experiments.c2dlm.grid import AGAIN, REGIME, TOLD
from causalnb.lab.report import (
    Measured,
    Reader,
    Reading,
    Report,
    Row,
    Values,
    arm,
    builds,
    draw,
    gain,
    values,
)

HOME, LONGER = "c2dlm.regime", "c2dlm.regime.longer"
GUIDED = [name for name in TOLD if name != SFT]


def trained(name: str, rows: int, cue: float, home: str = HOME):
    """A model's arm in one cell of the map."""
    return arm(home, f"{name}_n{rows}_cue{round(100 * cue)}")


def _rows():
    for name in TOLD:
        for rows in REGIME["rows"]:
            value = {f"{cue:g}": trained(name, rows, cue) for cue in REGIME["cue"]}
            yield Row((NAMES[name], f"{rows:,}"), value)


regime_table = Report(
    "c2dlm.regime",
    ["model", "rows", *(Measured(f"{cue:g}", "ood_accuracy") for cue in REGIME["cue"])],
    _rows,
    "The spurious token game, o.o.d. accuracy in % by the share of spurious numbers that follow their cause "
    "in training",
    "All models train 1,000 steps from random weights. At 1 a spurious number is as good as its cause, in "
    "training; o.o.d. it is drawn on its own.",
)


def on_others(value: Values) -> Values:
    """Differences in o.o.d. accuracy without seed 0, by which it was chosen what to look at."""

    def read(profile: str | None) -> dict[int, float]:
        found = value.by_seed(Reader(profile), "ood_accuracy")
        return {
            seed: difference for seed, difference in found.items() if seed
        } or found  # a profile of one seed

    return values(read, *value.needs)


def _again():
    for rows, cue in AGAIN:
        for name, other in (("c2dlm", SFT), ("placebo", SFT), ("c2dlm", "placebo")):
            difference = trained(name, rows, cue) - trained(other, rows, cue)
            labels = f"{rows:,}", f"{cue:g}", f"{NAMES[name]} - {NAMES[other]}"
            yield Row(labels, on_others(difference))


regime_again = Report(
    "c2dlm.regime_again",
    ["rows", "cue", "difference", Measured("o.o.d. accuracy, points", format=gain), Reading("reading")],
    _again,
    "The two cells of the map where C2DLM gains most, on other seeds than the map's first",
    "The cells were chosen by seed 0, which is left out: paired differences, mean [95 % interval].",
)


def _longer():
    for rows, cue in AGAIN:
        once, twice = (
            {name: trained(name, rows, cue, home) for name in (SFT, "placebo", "c2dlm")}
            for home in (HOME, LONGER)
        )
        for said, value in (
            ("SFT, twice the steps - once", twice[SFT] - once[SFT]),
            ("C2DLM - SFT, both twice", twice["c2dlm"] - twice[SFT]),
            ("placebo graph - SFT, both twice", twice["placebo"] - twice[SFT]),
            ("C2DLM, once - SFT, twice", once["c2dlm"] - twice[SFT]),
        ):
            yield Row((f"{rows:,}", f"{cue:g}", said), value)


longer_table = Report(
    "c2dlm.regime_longer",
    [
        "rows",
        "cue",
        "difference",
        *(
            Measured(f"{said}, points", f"{part}_accuracy", gain)
            for part, said in (("iid", "i.i.d."), ("ood", "o.o.d."))
        ),
    ],
    _longer,
    "The two cells of the map where C2DLM gains most, with twice the steps: paired differences",
)


def accuracies(name: str, profile: str | None = None):
    """(rows, cues) o.o.d. accuracies of a model in percent, means over seeds."""
    return _over_the_map(lambda rows, cue: trained(name, rows, cue), profile)


def gains(name: str, profile: str | None = None):
    """(rows, cues) points that a guidance adds to plain SFT, means over the seeds that both have."""
    return _over_the_map(lambda rows, cue: trained(name, rows, cue) - trained(SFT, rows, cue), profile)


def _over_the_map(value: Callable[[int, float], Values], profile: str | None):
    import numpy as np

    return np.array(
        [
            [100 * np.mean(value(rows, cue).of("ood_accuracy", profile)) for cue in REGIME["cue"]]
            for rows in REGIME["rows"]
        ]
    )


def _panel(ax, values, title: str, shades: dict, signed: bool) -> None:
    """Draw a map with its numbers; where `signed`, with a line around what is above 0."""
    from causalnb.lab.figures import text_size

    ax.imshow(values, origin="lower", aspect="auto", **shades)
    for (row, column), value in ((place, values[place]) for place in _places(values)):
        ax.text(column, row, f"{value:+.0f}" if signed else f"{value:.0f}", ha="center", va="center")
    for row, column in _places(values) if signed else ():
        for down, along in ((0, 1), (1, 0)):
            other = row + down, column + along
            inside = other[0] < values.shape[0] and other[1] < values.shape[1]
            if inside and (values[row, column] > 0) != (values[other] > 0):
                x, y = column + along / 2, row + down / 2
                ends = ([x, x], [y - 0.5, y + 0.5]) if along else ([x - 0.5, x + 0.5], [y, y])
                ax.plot(*ends, color="black", linewidth=2, linestyle="-", marker="")
    ax.set_xticks(range(values.shape[1]), [f"{cue:g}" for cue in REGIME["cue"]])
    ax.set_yticks(range(values.shape[0]), [f"{rows:,}" for rows in REGIME["rows"]])
    ax.set_title(title, fontsize=text_size(9))
    ax.grid(False)


def _places(values):
    return [(row, column) for row in range(values.shape[0]) for column in range(values.shape[1])]


def regime_figure(profile: str | None = None):
    """(figure, alt): o.o.d. accuracy of plain SFT, and what each guidance adds, by cue and rows."""
    import matplotlib.pyplot as plt

    from causalnb.lab.figures import headline

    plain = accuracies(SFT, profile)
    fig, axes = plt.subplots(2, 3, figsize=(8.6, 4.8), sharex=True, sharey=True)
    first, *others = axes.flat
    _panel(first, plain, "diffusion, SFT:\naccuracy, %", {"cmap": "Greys", "vmin": 20, "vmax": 160}, False)
    ends = []
    told = [f"Plain SFT has {plain.min():.0f} to {plain.max():.0f} %"]
    for ax, name in zip(others, GUIDED, strict=True):
        added = gains(name, profile)
        shades = {"cmap": "PuOr_r", "vmin": -60, "vmax": 60}
        title = NAMES[name].removesuffix(" (ours)")
        _panel(ax, added, f"{title}:\nminus SFT, points", shades, True)
        ends.append(f"{title} {added.min():+.0f} to {added.max():+.0f}")
        above = sum(added[place] > 0 for place in _places(added))
        told.append(
            f"{NAMES[name]} adds {added.min():+.0f} to {added.max():+.0f} points, above 0 in {above} of "
            f"{added.size} cells"
        )
    headline(fig, f"Points o.o.d. that guidance adds to plain SFT: {', '.join(ends)}")
    fig.supxlabel("share of spurious numbers that follow their cause in training")
    fig.supylabel("training rows")
    return fig, f"Six maps by strength of the spurious cue and training rows. {'; '.join(told)}."


@builds(
    "c2dlm.regime",
    regime_table,
    regime_again,
    extra=True,
    printed_as="ours",
    kind="measured",
    shows="where guidance pays: cue, rows and guidance of the spurious token game",
    notebook="44_sudoku_and_stg",
)
def regime(profile):
    """What guidance adds out of distribution, by the strength of the cue and the number of rows."""
    caption = (
        "O.o.d. accuracy of plain SFT, and what guidance adds to it; a thick line parts gains from losses."
    )
    draw(profile, "c2dlm.regime", regime_figure(profile), caption)


@builds(
    "c2dlm.regime_longer",
    longer_table,
    extra=True,
    printed_as="ours",
    kind="measured",
    shows="whether twice the steps give plain tuning what guidance gives, where guidance pays",
    notebook="44_sudoku_and_stg",
)
def regime_longer(profile):
    """What twice the steps change where guidance pays."""
