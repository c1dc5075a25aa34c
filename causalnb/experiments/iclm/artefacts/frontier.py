"""What one module and ICLM reach i.i.d. and under a mirrored shift, over rates and sizes."""

from causalnb.experiments.iclm.artefacts.scores import CHOSEN, FAMILIES, FORMATS, scored
from causalnb.experiments.iclm.artefacts.shifts import NO_SHIFT
from causalnb.experiments.iclm.grid import FAMILIES as REGIMES
from causalnb.experiments.iclm.grid import FRONTIER, MIRRORED, RATES, SIDES
from causalnb.lab import registry
from causalnb.lab.report import Arm, Measured, Report, Row, arm, builds, draw, first

NAMES = {"single": "one module", "iclm": "ICLM"}
LOOKS = {"single": ("vermillion", "s"), "iclm": ("blue", "o")}
WITHIN = 0.01  # of the level that both sides must reach i.i.d.


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


def matched(found: dict[str, tuple[float, float]]) -> dict[str, str]:
    """{side: its arm for the test}: the best under shift of those that reach the i.i.d. level of both.

    The level is the lower of the two sides' best i.i.d. scores, less WITHIN.
    """
    of = {one: [name for name in found if side(name) == one] for one in SIDES}
    level = min(max(found[name][0] for name in names) for names in of.values()) - WITHIN
    able = {one: [name for name in names if found[name][0] >= level] for one, names in of.items()}
    return {one: max(names, key=lambda name: found[name][1]) for one, names in able.items()}


def frontier_table(families=tuple(FAMILIES)) -> Report:
    """Every arm of the frontier, and where it is used."""
    heads = {
        f"{family.upper()}, {said}": (family, shifted)
        for family in families
        for said, shifted in (("i.i.d.", False), ("shifted", True))
    }

    def used(name):
        def told(profile):
            chosen = [family for family in families if name in matched(points(family, profile)).values()]
            return ", ".join(FAMILIES[family] for family in chosen)

        return told

    def rows():
        for name, settings in FRONTIER.items():
            label = (
                NAMES[side(name)],
                f"{settings['lora_rank']}",
                f"{settings['learning_rate']:g}",
                used(name),
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
        return (
            "Mirrored: trained on what the true shift asks for, tested on what it trains on, with "
            f"{configs[0]['test_rows']:,} questions a cell; steps: {steps}. ACRE's score under shift is of "
            "text, as symbols have no unseen objects. Used on the true shift: of the arms within "
            f"{100 * WITHIN:g} point of the i.i.d. score that both sides reach, the best under shift."
        )

    scores = (Measured(head, format=first("{:.3f}")) for head in heads)
    return Report(
        "iclm.frontier",
        ["", "rank", "rate", *scores, "used"],
        rows,
        "One module and ICLM over rates and sizes, on mirrored shifts: accuracy, mean over formats, one seed",
        notes,
    )


def frontier_figure(families=tuple(FAMILIES), profile: str | None = None):
    """(figure, alt): accuracy under the mirrored shift against i.i.d., a line over the rates of each size."""
    import matplotlib.pyplot as plt

    from causalnb.lab.figures import COLOURS, text_size

    fig, axes = plt.subplots(1, len(families), figsize=(4.1 * len(families), 3.2), squeeze=False)
    told = []
    for ax, family in zip(axes[0], families, strict=True):
        found = points(family, profile)
        used = matched(found)
        for one, (_, ranks) in SIDES.items():
            colour, marker = LOOKS[one]
            for rank, line in zip(ranks, (":", "-"), strict=True):
                names = [f"{one}_r{rank}_{rate}" for rate in RATES]
                inside, shifted = zip(*(found[name] for name in names), strict=True)
                look = {"color": COLOURS[colour], "marker": marker, "linestyle": line}
                ax.plot(inside, shifted, label=f"{NAMES[one]}, rank {rank}", **look)
                for rate, *place in zip(RATES, inside, shifted, strict=True):
                    ax.annotate(rate, place, (3, 3), textcoords="offset points", fontsize=text_size(6))
            ax.scatter(
                *found[used[one]], s=120, facecolors="none", edgecolors=COLOURS[colour], linewidths=1.4
            )
            told.append(
                f"{FAMILIES[family]}, {NAMES[one]}: used {used[one].replace('_', ' ')}, i.i.d. "
                f"{found[used[one]][0]:.3f}, shifted {found[used[one]][1]:.3f}"
            )
        ax.set(title=FAMILIES[family], xlabel="accuracy i.i.d.")
    axes[0][0].set_ylabel("accuracy under the mirrored shift")
    axes[0][-1].legend(fontsize=text_size(7), loc="best")
    return fig, (
        "Accuracy under a mirrored shift against i.i.d. accuracy, a point for each learning rate, a line for "
        f"each size; a ring marks the setting that is used. {'; '.join(told)}."
    )


@builds(
    "iclm.frontier",
    frontier_table(),
    extra=True,
    printed_as="ours",
    kind="measured",
    notebook="32_reasoning",
    shows="i.i.d. and shifted accuracy of one module and ICLM over rates and sizes",
)
def frontier(profile):
    """The frontier, and what is used on the true shifts."""
    caption = "One module and ICLM over learning rates and sizes: i.i.d. accuracy and accuracy under shift."
    draw(profile, "iclm.frontier", frontier_figure(profile=profile), caption)
