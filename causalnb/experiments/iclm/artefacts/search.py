"""What was tried for the true shifts, on mirrored ones, and what is used."""

from causalnb.experiments.iclm.artefacts.scores import CHOSEN, FAMILIES, FORMATS, scored
from causalnb.experiments.iclm.artefacts.shifts import NO_SHIFT
from causalnb.experiments.iclm.grid import FAMILIES as REGIMES
from causalnb.experiments.iclm.grid import MIRRORED, TRIES, USED, WIDE
from causalnb.lab import registry
from causalnb.lab.report import Arm, Measured, Report, Row, arm, builds, first

NAMES = {"finetuned_wide": ("fine-tuned, ICLM's size", WIDE), "strong": ("ICLM", {})}


def tried(family: str, name: str, attempt: int, shifted: bool) -> Arm:
    """A try for an arm, scored by CHOSEN i.i.d. or under the mirrored shift, of which NO_SHIFT is no part."""
    inside, *outside = (REGIMES[family] | MIRRORED[family])["cells"]
    asked = [format for format in FORMATS if (outside[0], format) not in NO_SHIFT]
    place = (outside, asked) if shifted else (inside,)
    return arm(f"iclm.search.{family}", f"{name}_{attempt}", scored(CHOSEN[family], *place))


def tries_table(families=tuple(FAMILIES)) -> Report:
    """Every try, its scores on the mirrored shifts, and where it is used."""
    heads = {
        f"{family.upper()}, {said}": (family, shifted)
        for family in families
        for said, shifted in (("i.i.d.", False), ("shifted", True))
    }

    def rows():
        for name, (said, known) in NAMES.items():
            for attempt, settings in enumerate(TRIES[name]):
                new = (f"{key} {value}" for key, value in settings.items() if known.get(key) != value)
                used = [family.upper() for family in families if USED[family][name] == attempt]
                scores = {
                    head: tried(family, name, attempt, shifted) for head, (family, shifted) in heads.items()
                }
                yield Row((said, ", ".join(new) or "as in Table 1", ", ".join(used)), scores)

    def notes(profile):
        asked = registry.config(f"iclm.search.{families[0]}", "strong_0", profile)["test_rows"]
        text = "; ACRE's score under shift is of text, as symbols have no unseen objects"
        return (
            "Mirrored: trained on what the true shift asks for, tested on what it trains on, with "
            f"{asked:,} questions a cell{text * ('acre' in families)}. Used is the best score under shift; "
            "each side has as many tries, but the single module's vary the learning rate, and ICLM's do not."
        )

    scores = (Measured(head, format=first("{:.3f}")) for head in heads)
    return Report(
        "iclm.search",
        ["arm", "settings", *scores, "used on the true shift"],
        rows,
        "Every try for the true shifts, on mirrored ones: accuracy, mean over formats, one seed",
        notes,
    )


@builds(
    "iclm.search",
    tries_table(),
    extra=True,
    printed_as="ours",
    kind="measured",
    notebook="32_reasoning",
    shows="what was tried for the true shifts, on mirrored ones",
)
def search(profile):
    """The search."""
