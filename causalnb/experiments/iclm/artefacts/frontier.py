"""One module and ICLM over rates and sizes on RAVEN's mirrored shift, then with those chosen on the true."""

from itertools import product
from statistics import fmean

from causalnb.experiments.iclm.artefacts.scores import CHOSEN, FORMATS, scored
from causalnb.experiments.iclm.artefacts.shifts import CELLS, SHIFTED, named
from causalnb.experiments.iclm.artefacts.table1 import GATE
from causalnb.experiments.iclm.grid import FRONTIER, MIRRORED, RATES, SIDES
from causalnb.experiments.iclm.matched import HEADLINE, chosen
from causalnb.lab import registry
from causalnb.lab.report import (
    Arm,
    Measured,
    Reader,
    Reading,
    Report,
    Row,
    Values,
    arm,
    builds,
    draw,
    first,
    fraction,
    gain,
    mean,
    tested,
)

SEARCH, TEST, BASE = "iclm.frontier.raven", "iclm.matched.raven", "iclm.shift_rows.raven"
SCORE = CHOSEN["raven"]
NAMES = {"single": "one module", "iclm": "ICLM"}
LOOKS = {"single": ("vermillion", "s"), "iclm": ("blue", "o")}
WITHIN = 0.01  # of the level that both sides must reach i.i.d.
ROWS = {  # of the true shift: arm, and which module is asked
    "base, as it is": ("base", ""),
    NAMES["single"]: ("single", ""),
    NAMES["iclm"]: ("iclm", ""),
    "oracle router": ("oracle", ""),
    "invariant module alone": ("iclm", "invariant"),
    "domain module alone": ("iclm", "domain"),
}
DIFFERENCES = (
    (NAMES["iclm"], NAMES["single"]),
    (NAMES["iclm"], "oracle router"),
    ("invariant module alone", NAMES["single"]),
    ("invariant module alone", "oracle router"),
    ("domain module alone", "oracle router"),
    (NAMES["single"], "base, as it is"),
    (NAMES["iclm"], "base, as it is"),
)
PARTS = {  # what is i.i.d. and what is shifted: cells
    "i.i.d.": [cell for cell in CELLS["raven"][1] if cell not in SHIFTED],
    "shifted": [cell for cell in CELLS["raven"][1] if cell in SHIFTED],
}


def tried(name: str, shifted: bool) -> Arm:
    """An arm of the frontier, i.i.d. or under the mirrored shift."""
    inside, *outside = MIRRORED["raven"]["cells"]
    return arm(SEARCH, name, scored(SCORE, outside if shifted else inside))


def points(profile: str | None = None) -> dict[str, tuple[float, float]]:
    """{arm: (i.i.d., shifted)}: shares of right answers, one seed."""
    return {
        name: tuple(tried(name, shifted).of(profile=profile)[0] for shifted in (False, True))
        for name in FRONTIER
    }


def side(name: str) -> str:
    """The side, of SIDES, that an arm of FRONTIER is on."""
    return name.split("_")[0]


def best(found: dict[str, tuple[float, float]]) -> dict[str, str]:
    """{side: its arm for the test}: the best under shift of those that reach the i.i.d. level of both.

    The level is the lower of the two sides' best i.i.d. scores, less WITHIN.
    """
    of = {one: [name for name in found if side(name) == one] for one in SIDES}
    level = min(max(found[name][0] for name in names) for names in of.values()) - WITHIN
    able = {one: [name for name in names if found[name][0] >= level] for one, names in of.items()}
    return {one: max(names, key=lambda name: found[name][1]) for one, names in able.items()}


def _frontier_rows():
    for name, settings in FRONTIER.items():
        used = "yes" if name in chosen().values() else ""
        label = (NAMES[side(name)], f"{settings['lora_rank']}", f"{settings['learning_rate']:g}", used)
        yield Row(label, {"i.i.d.": tried(name, False), "shifted": tried(name, True)})


def _frontier_notes(profile):
    config = registry.config(SEARCH, "iclm_r16_1e-3", profile)
    return (
        "Mirrored: trained on a figure in another, tested on one figure, the reverse of the true shift; "
        f"{config['steps']:,} steps, {config['test_rows']:,} questions a cell. Used on the true shift: of "
        f"the arms within {100 * WITHIN:g} point of the i.i.d. score that both reach, the best under shift."
    )


frontier_table = Report(
    "iclm.frontier",
    [
        "",
        "rank",
        "rate",
        "used",
        Measured("i.i.d.", format=first("{:.3f}")),
        Measured("shifted", format=first("{:.3f}")),
    ],
    _frontier_rows,
    "RAVEN: one module and ICLM over rates and sizes on the mirrored shift: the likeliest of eight balanced "
    "candidates, mean over formats, one seed",
    _frontier_notes,
)


def _score(row: str, cell: str, format: str) -> Values:
    """One of ROWS on a cell of the true shift."""
    name, alone = ROWS[row]
    measure = "_".join(filter(None, (alone, SCORE)))
    return arm(BASE if name == "base" else TEST, name, scored(measure, cell, format))


def over(row: str, part: str) -> Values:
    """One of ROWS on the true shift, mean over what is i.i.d. or shifted."""
    return mean(*(_score(row, cell, format) for cell, format in product(PARTS[part], FORMATS)))


def _matched_rows():
    for cell, format in product([cell for cells in PARTS.values() for cell in cells], FORMATS):
        yield Row(named(cell, format), {row: _score(row, cell, format) for row in ROWS})
    for part in PARTS:
        yield Row(f"mean: {part}", {row: over(row, part) for row in ROWS})


matched_table = Report(
    "iclm.frontier_matched",
    ["cell", *(Measured(row, format=fraction()) for row in ROWS)],
    _matched_rows,
    "RAVEN's true shift, one module and ICLM with the settings chosen for one i.i.d. score on the mirrored "
    "one: the likeliest of eight balanced candidates, mean ± half of the 95 % interval (seeds)",
    "Modules alone: on the first 500 questions of a cell.",
)
matched_differences = Report(
    "iclm.frontier_differences",
    ["difference", *(Measured(f"{part}, points", format=tested) for part in PARTS), Reading("reading")],
    [
        Row(f"{row} - {other}", {f"{part}, points": over(row, part) - over(other, part) for part in PARTS})
        for row, other in DIFFERENCES
    ],
    "RAVEN's true shift, settings chosen for one i.i.d. score on the mirrored one: differences of the same "
    "seeds, mean [95 % interval] (seeds), p of a sign-flip test, and on which side of 0 the last lies",
)


def matched_remark(profile: str | None = None) -> str:
    """Whether one module reaches the gate, which side is better under shift, and what equal seeds have."""
    of = {
        which: {part: over(name, part).by_seed(Reader(profile)) for part in PARTS}
        for which, name in NAMES.items()
    }
    alone = fmean(of["single"]["i.i.d."].values())
    so = "at or above" if alone >= GATE else "below"
    gap = {
        part: gain((over(NAMES["iclm"], part) - over(NAMES["single"], part)).of(profile=profile))
        for part in PARTS
    }
    least = min(of["single"]["i.i.d."].values()) - WITHIN
    able = [seed for seed, value in of["iclm"]["i.i.d."].items() if value >= least]
    ours, theirs = [of["iclm"]["shifted"][seed] for seed in able], of["single"]["shifted"].values()
    told = f", under shift {min(ours):.3f} to {max(ours):.3f}" if able else ""
    return (
        f"One module answers {alone:.1%} i.i.d., {so} the gate of {GATE:.0%}, on balanced candidates, which "
        f"are easier than those the gate was set for; ICLM less it {gap['i.i.d.']} points i.i.d., "
        f"{gap['shifted']} shifted. Of ICLM's {len(of['iclm']['i.i.d.'])} seeds {len(able)} come within "
        f"{100 * WITHIN:g} point of the module's lowest i.i.d. score{told}; the module's have "
        f"{min(theirs):.3f} to {max(theirs):.3f} there."
    )


def _mirrored(ax, profile: str | None) -> list[str]:
    """The frontier, a line over the rates of each size; what it says."""
    from causalnb.lab.figures import COLOURS, text_size

    found, told = points(profile), []
    for one, (_, ranks) in SIDES.items():
        colour, marker = LOOKS[one]
        used = chosen()[one]
        low = (3, 6) if one == "single" else (3, -9)  # where the labels of the larger size find room
        for rank, line, away in zip(ranks, (":", "-"), ((3, 3), low), strict=True):
            names = [f"{one}_r{rank}_{rate}" for rate in RATES]
            inside, shifted = zip(*(found[name] for name in names), strict=True)
            look = {"color": COLOURS[colour], "marker": marker, "linestyle": line}
            ax.plot(inside, shifted, label=f"{NAMES[one]}, rank {rank}", **look)
            for rate, name in zip(RATES, names, strict=True):
                if name in (names[0], names[-1], used):
                    place = tuple(found[name])
                    ax.annotate(rate, place, away, textcoords="offset points", fontsize=text_size(6))
        ax.scatter(*found[used], s=120, facecolors="none", edgecolors=COLOURS[colour], linewidths=1.4)
        told.append(
            f"{NAMES[one]}: used {used.replace('_', ' ')}, i.i.d. {found[used][0]:.3f}, shifted "
            f"{found[used][1]:.3f}"
        )
    ax.set(title="mirrored shift: choosing", xlabel="accuracy i.i.d.", ylabel="accuracy under shift")
    ax.legend(fontsize=text_size(7), loc="best")
    return told


def _true(ax, profile: str | None) -> list[str]:
    """Both sides on the true shift, a point a seed, and the base; what it says."""
    from causalnb.lab.figures import COLOURS, text_size

    told = []
    for one, (colour, marker) in LOOKS.items():
        inside, shifted = (over(NAMES[one], part).of(profile=profile) for part in PARTS)
        ax.scatter(inside, shifted, s=30, color=COLOURS[colour], marker=marker, alpha=0.7, label=NAMES[one])
        reached = f"i.i.d. {fmean(inside):.3f}, shifted {fmean(shifted):.3f}"
        told.append(f"true shift, {NAMES[one]}: {reached}")
    bare = fmean(over("base, as it is", "shifted").of(profile=profile))
    ax.axhline(bare, color="black", linestyle="--", marker="", linewidth=1, label="base, as it is")
    ax.set(title="true shift: testing", xlabel="accuracy i.i.d.")
    ax.locator_params(axis="x", nbins=5)
    ax.legend(fontsize=text_size(7), loc="best")
    return [*told, f"true shift, base as it is: shifted {bare:.3f}"]


def frontier_figure(profile: str | None = None):
    """(figure, alt): accuracy under shift against i.i.d., over rates and sizes, then on the true shift."""
    import matplotlib.pyplot as plt

    from causalnb.lab.figures import headline

    fig, axes = plt.subplots(1, 2, figsize=(8.4, 3.4))
    told = [*_mirrored(axes[0], profile), *_true(axes[1], profile)]
    gap = over(NAMES["iclm"], "shifted") - over(NAMES["single"], "shifted")
    headline(fig, f"RAVEN: ICLM less one module under a true shift: {gain(gap.of(profile=profile))} points")
    return fig, (
        "Accuracy under shift against i.i.d. accuracy on RAVEN. Left, mirrored shift: a point for each "
        "learning rate, a line for each size, a ring around the setting that is used. Right, true shift: a "
        f"point for each seed. {'; '.join(told)}."
    )


@builds(
    "iclm.frontier",
    frontier_table,
    matched_table,
    matched_differences,
    extra=True,
    printed_as="ours",
    kind="measured",
    notebook="32_reasoning",
    shows="i.i.d. and shifted accuracy of one module and ICLM over rates and sizes, then with those chosen",
)
def frontier(profile):
    """The frontier on the mirrored shift, and what is used, on the true one."""
    caption = (
        "One module and ICLM over learning rates and sizes on RAVEN's mirrored shift, and with the settings "
        f"used on the true one, {HEADLINE} seeds."
    )
    draw(profile, "iclm.frontier", frontier_figure(profile), caption)
