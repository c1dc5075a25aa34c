"""One module and ICLM over rates and sizes on mirrored shifts, then at one i.i.d. score on the true ones."""

from itertools import product

from causalnb.experiments.iclm.artefacts.scores import CHOSEN, FAMILIES, FORMATS, scored
from causalnb.experiments.iclm.artefacts.shifts import CELLS, NO_SHIFT, SHIFTED, named
from causalnb.experiments.iclm.artefacts.table1 import GATE
from causalnb.experiments.iclm.grid import FAMILIES as REGIMES
from causalnb.experiments.iclm.grid import FRONTIER, MIRRORED, RATES, SIDES
from causalnb.experiments.iclm.matched import HEADLINE, MATCHED, chosen
from causalnb.lab import registry
from causalnb.lab.report import (
    Arm,
    Measured,
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

USED = tuple(chosen())  # families whose frontier is complete
NAMES = {"single": "one module", "iclm": "ICLM"}
LOOKS = {"single": ("vermillion", "s"), "iclm": ("blue", "o")}
WITHIN = 0.01  # of the level that both sides must reach i.i.d.
ROWS = {  # of the true shifts: arm, and which module is asked
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


def tried(family: str, name: str, shifted: bool) -> Arm:
    """An arm of the frontier, scored by CHOSEN i.i.d. or under the mirrored shift, less NO_SHIFT."""
    inside, *outside = (REGIMES[family] | MIRRORED[family])["cells"]
    asked = [format for format in FORMATS if (outside[0], format) not in NO_SHIFT]
    place = (outside, asked) if shifted else (inside,)
    return arm(f"iclm.frontier.{family}", name, scored(CHOSEN[family], *place))


def points(family: str, profile: str | None = None) -> dict[str, tuple[float, float]]:
    """{arm: (i.i.d., shifted)} of a family: shares of right answers, one seed."""
    return {
        name: tuple(tried(family, name, shifted).of(profile=profile)[0] for shifted in (False, True))
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


def frontier_table(families=USED) -> Report:
    """Every arm of the frontier, and where it is used."""
    heads = {
        f"{family.upper()}, {said}": (family, shifted)
        for family in families
        for said, shifted in (("i.i.d.", False), ("shifted", True))
    }

    def rows():
        for name, settings in FRONTIER.items():
            used = [FAMILIES[family] for family in families if name in chosen()[family].values()]
            label = (
                NAMES[side(name)],
                f"{settings['lora_rank']}",
                f"{settings['learning_rate']:g}",
                ", ".join(used),
            )
            yield Row(
                label, {head: tried(family, name, shifted) for head, (family, shifted) in heads.items()}
            )

    def notes(profile):
        configs = [
            registry.config(f"iclm.frontier.{family}", "iclm_r16_1e-3", profile) for family in families
        ]
        steps = ", ".join(
            f"{one['steps'] * one['length']:,} for {family.upper()}"
            for family, one in zip(families, configs, strict=True)
        )
        text = " ACRE's score under shift is of text, as symbols have no unseen objects." * (
            "acre" in families
        )
        return (
            "Mirrored: trained on what the true shift asks for, tested on what it trains on, with "
            f"{configs[0]['test_rows']:,} questions a cell; steps: {steps}.{text} Used on the true shift: "
            f"of the arms within {100 * WITHIN:g} point of the i.i.d. score that both sides reach, the best "
            "under shift."
        )

    scores = (Measured(head, format=first("{:.3f}")) for head in heads)
    return Report(
        "iclm.frontier",
        ["", "rank", "rate", *scores, "used"],
        rows,
        "One module and ICLM over rates and sizes, on mirrored shifts: accuracy, mean over formats, one seed",
        notes,
    )


def _score(id: str, row: str, cells, formats=tuple(FORMATS)) -> Values:
    """One of ROWS on a true shift, mean over cells and formats, by CHOSEN."""
    family, (name, alone) = CELLS[MATCHED[id]][0], ROWS[row]
    measure = "_".join(filter(None, (alone, "" if alone and family == "acre" else CHOSEN[family])))
    home = f"iclm.shift_rows.{MATCHED[id]}" if name == "base" else id
    return arm(home, name, scored(measure, cells, formats))


def _parts(id: str) -> dict[str, list[tuple[str, str]]]:
    """{"i.i.d.": [(cell, format), ...], "shifted": ...} of a true shift."""
    parts = {"i.i.d.": [], "shifted": []}
    for cell, format in product(CELLS[MATCHED[id]][1], FORMATS):
        shifted = cell in SHIFTED and (cell, format) not in NO_SHIFT
        parts["shifted" if shifted else "i.i.d."].append((cell, format))
    return parts


def over(ids, row: str, part: str) -> Values:
    """One of ROWS, mean over what is i.i.d. or shifted of true shifts."""
    return mean(*(_score(id, row, *place) for id in ids for place in _parts(id)[part]))


def _by_family(ids) -> dict[str, list[str]]:
    return {
        family: its for family in FAMILIES if (its := [id for id in ids if CELLS[MATCHED[id]][0] == family])
    }


def matched_table(ids=tuple(MATCHED)) -> Report:
    """Both sides on every cell of the true shifts, beside the oracle, the modules alone and the base."""

    def rows():
        for family, some in _by_family(ids).items():
            for id in some:
                for place in (place for part in _parts(id).values() for place in part):
                    yield Row(named(*place), {row: _score(id, row, *place) for row in ROWS})
            for part in ("i.i.d.", "shifted"):
                yield Row(f"mean: {FAMILIES[family]}, {part}", {row: over(some, row, part) for row in ROWS})

    return Report(
        "iclm.frontier_matched",
        ["cell", *(Measured(row, format=fraction()) for row in ROWS)],
        rows,
        "True shifts, one module and ICLM with the settings chosen for one i.i.d. score on mirrored ones: "
        "accuracy, mean ± half of the 95 % interval (seeds)",
        "RAVEN: the likeliest of eight balanced candidates, of modules alone on the first 500 questions of a "
        "cell; ACRE: exact answers.",
    )


def matched_differences(ids=tuple(MATCHED)) -> Report:
    """Differences of paired seeds, i.i.d. and shifted."""
    heads = {
        f"{FAMILIES[family]} {part}, points": (some, part)
        for family, some in _by_family(ids).items()
        for part in ("i.i.d.", "shifted")
    }
    return Report(
        "iclm.frontier_differences",
        ["difference", *(Measured(head, format=tested) for head in heads), Reading("reading")],
        [
            Row(
                f"{row} - {other}",
                {
                    head: over(place[0], row, place[1]) - over(place[0], other, place[1])
                    for head, place in heads.items()
                },
            )
            for row, other in DIFFERENCES
        ],
        "True shifts at one i.i.d. score: differences of the same seeds, mean [95 % interval] (seeds), p of "
        "a sign-flip test, and on which side of 0 the last lies",
    )


def matched_remark(ids=tuple(MATCHED), profile: str | None = None) -> str:
    """Whether the sides reach the gate and one i.i.d. score, and which is better where it shifts."""
    told = []
    for family, some in _by_family(ids).items():
        one, ours = (
            {part: over(some, NAMES[which], part) for part in ("i.i.d.", "shifted")}
            for which in ("single", "iclm")
        )
        alone = one["i.i.d."].summary(profile=profile).mean
        so = "at or above" if alone >= GATE else "below"
        gap = {part: gain((ours[part] - one[part]).of(profile=profile)) for part in one}
        told.append(
            f"{FAMILIES[family]}: one module answers {alone:.1%} i.i.d., {so} the gate of {GATE:.0%}; ICLM "
            f"less it {gap['i.i.d.']} points i.i.d., {gap['shifted']} shifted."
        )
    return " ".join(told)


def _mirrored(ax, family: str, profile: str | None) -> list[str]:
    """The frontier of a family, a line over the rates of each size; what it says."""
    from causalnb.lab.figures import COLOURS, text_size

    found, told = points(family, profile), []
    for one, (_, ranks) in SIDES.items():
        colour, marker = LOOKS[one]
        for rank, line in zip(ranks, (":", "-"), strict=True):
            names = [f"{one}_r{rank}_{rate}" for rate in RATES]
            inside, shifted = zip(*(found[name] for name in names), strict=True)
            look = {"color": COLOURS[colour], "marker": marker, "linestyle": line}
            ax.plot(inside, shifted, label=f"{NAMES[one]}, rank {rank}", **look)
            for rate, *place in zip(RATES, inside, shifted, strict=True):
                ax.annotate(rate, place, (3, 3), textcoords="offset points", fontsize=text_size(6))
        used = chosen()[family][one]
        ax.scatter(*found[used], s=120, facecolors="none", edgecolors=COLOURS[colour], linewidths=1.4)
        told.append(
            f"{FAMILIES[family]}, {NAMES[one]}: used {used.replace('_', ' ')}, i.i.d. {found[used][0]:.3f}, "
            f"shifted {found[used][1]:.3f}"
        )
    ax.set(
        title=f"{FAMILIES[family]}, mirrored: choosing",
        xlabel="accuracy i.i.d.",
        ylabel="accuracy under shift",
    )
    ax.legend(fontsize=text_size(7), loc="best")
    return told


def _true(ax, family: str, ids, profile: str | None) -> list[str]:
    """Both sides on the true shifts of a family, a point a seed, and the base; what it says."""
    from statistics import fmean

    from causalnb.lab.figures import COLOURS, text_size

    told = []
    for one, (colour, marker) in LOOKS.items():
        inside, shifted = (over(ids, NAMES[one], part).of(profile=profile) for part in ("i.i.d.", "shifted"))
        ax.scatter(inside, shifted, s=30, color=COLOURS[colour], marker=marker, alpha=0.7, label=NAMES[one])
        reached = f"i.i.d. {fmean(inside):.3f}, shifted {fmean(shifted):.3f}"
        told.append(f"{FAMILIES[family]}, true shift, {NAMES[one]}: {reached}")
    bare = fmean(over(ids, "base, as it is", "shifted").of(profile=profile))
    ax.axhline(bare, color="black", linestyle="--", marker="", linewidth=1, label="base, as it is")
    ax.set(title=f"{FAMILIES[family]}, true shift: testing", xlabel="accuracy i.i.d.")
    ax.legend(fontsize=text_size(7), loc="best")
    return [*told, f"{FAMILIES[family]}, true shift, base as it is: shifted {bare:.3f}"]


def frontier_figure(families=USED, ids=tuple(MATCHED), profile: str | None = None):
    """(figure, alt): accuracy under shift against i.i.d., over rates and sizes, then on the true shifts."""
    import matplotlib.pyplot as plt

    from causalnb.lab.figures import headline

    fig, axes = plt.subplots(len(families), 2, figsize=(8.4, 3.4 * len(families)), squeeze=False)
    told, ends = [], []
    for row, family in zip(axes, families, strict=True):
        some = _by_family(ids)[family]
        told += [*_mirrored(row[0], family, profile), *_true(row[1], family, some, profile)]
        gap = over(some, NAMES["iclm"], "shifted") - over(some, NAMES["single"], "shifted")
        ends.append(f"{FAMILIES[family]} {gain(gap.of(profile=profile))}")
    headline(fig, f"ICLM less one module under a true shift, points at like i.i.d. scores: {'; '.join(ends)}")
    return fig, (
        "Accuracy under shift against i.i.d. accuracy. Left, mirrored shift: a point for each learning rate, "
        "a line for each size, a ring around the setting that is used. Right, true shift: a point for each "
        f"seed. {'; '.join(told)}."
    )


@builds(
    "iclm.frontier",
    frontier_table(),
    matched_table(),
    matched_differences(),
    extra=True,
    printed_as="ours",
    kind="measured",
    notebook="32_reasoning",
    shows="i.i.d. and shifted accuracy of one module and ICLM over rates and sizes, then at one i.i.d. score",
)
def frontier(profile):
    """The frontier on mirrored shifts, and what is used, on the true ones."""
    caption = (
        "One module and ICLM over learning rates and sizes on mirrored shifts, and with the settings used on "
        f"true ones, {HEADLINE} seeds."
    )
    draw(profile, "iclm.frontier", frontier_figure(profile=profile), caption)
