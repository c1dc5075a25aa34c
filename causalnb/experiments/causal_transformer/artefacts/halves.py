"""Both halves of a published set, and AUC: what a gain on one label leaves beyond a habit of answering."""

from collections.abc import Sequence

from causalnb.experiments.causal_transformer.artefacts.beyond import ARMS as BEYOND
from causalnb.experiments.causal_transformer.artefacts.beyond import CHOSEN
from causalnb.experiments.causal_transformer.artefacts.overlap import DECISIVE, EXTRA, PLAIN, SHARES, TASKS
from causalnb.experiments.causal_transformer.grid import BLANKETS, BOTH_HALVES, TOLD
from causalnb.lab import evidence
from causalnb.lab.report import Arm, Measured, Report, Row, arm, builds, fraction, gain, mean_of, tested
from causalnb.lab.statistics import mean_ci

HOME = "causal_transformer.halves"
ID = "causal_transformer.beyond.halves.nli"
REWEIGHTED = "causal_transformer.balanced.nli"  # of Table 1's Transformer
TITLE, CELL = "MNLI", "mnli_overlapping"  # all of full overlap
LABELS = TASKS["nli"][2]  # first the one on which overlap is right
NAMES = {PLAIN: BEYOND[PLAIN], "balanced": f"{BEYOND[PLAIN]}, reweighted"}
NAMES |= {name: BEYOND[name] for name in BOTH_HALVES}
SAID = {"entailment": "that follow", "non-entailment": "that do not"}
PAIRS = (*((name, "compared") for name in BLANKETS), (CHOSEN, "compared"), ("balanced", PLAIN))
MEAN, AREA = "mean of both", "AUC"
GAPS = ("overlap is right", "overlap misleads", MEAN, AREA)
HALVES = [f"{CELL}_{label}" for label in LABELS]
METRICS = [*HALVES, mean_of(*HALVES), f"{CELL}_auc"]


def asked(name: str, metric: object = None) -> Arm:
    """An arm that was asked both halves."""
    return arm(ID if name in BOTH_HALVES else REWEIGHTED, name, metric)


def _notes(profile: str | None) -> str:
    rows = int(evidence.require(REWEIGHTED, profile, [PLAIN])[f"{CELL}_rows"].iloc[0])
    return (
        f"{rows} pairs of {TITLE}; {SHARES[DECISIVE]} of counter-examples in training. AUC: how often a "
        "pair of one label is rated above one of the other, whatever answer a model prefers. Chance is "
        f"0.5, and 50 % of {MEAN}. Reweighted: told which pairs are counter-examples, and learns from "
        "them as often as from those on which overlap is right."
    )


both = Report(
    f"{HOME}_nli",
    [
        "arm",
        *(Measured(f"{TITLE}, {SAID[label]}", metric) for label, metric in zip(LABELS, HALVES, strict=True)),
        Measured(MEAN, METRICS[2]),
        Measured(AREA, METRICS[3], fraction()),
    ],
    [Row(said, asked(name)) for name, said in NAMES.items()],
    "Entailment, real pairs of both labels: % right, mean ± half of the 95 % interval (seeds)",
    _notes,
)


def gaps(name: str, other: str) -> dict:
    """{heading: difference of two arms}, of GAPS."""
    return {
        heading: asked(name, metric) - asked(other, metric)
        for heading, metric in zip(GAPS, METRICS, strict=True)
    }


contrasts = Report(
    f"{HOME}_contrasts",
    ["difference, points", *(Measured(heading, format=tested) for heading in GAPS)],
    [Row(f"{NAMES[name]} - {NAMES[other]}", gaps(name, other)) for name, other in PAIRS],
    "Real pairs of both labels: differences of the same seeds, mean [95 % interval] (seeds), and the p of "
    "the exact sign-flip test",
    "Points of AUC are hundredths. A habit of one answer moves the halves against each other, and AUC not at "
    "all.",
)


def parted(gap: Sequence[float]) -> str:
    """What differences in AUC show of how well an arm parts the pairs, beside another."""
    found = mean_ci(gap)
    if found.low > 0:
        return "the pairs are parted better"
    return "the pairs are parted worse" if found.high < 0 else "no better parting is shown"


def habit_remark(profile: str | None = None) -> list[str]:
    """What the arms of PAIRS gain in each half and in AUC, and what that shows; a line each."""
    told = []
    for name, other in PAIRS:
        found = {heading: gap.of(None, profile) for heading, gap in gaps(name, other).items()}
        parts = "; ".join(f"{said} {gain(gap)}" for said, gap in found.items())
        told.append(f"{NAMES[name]} - {NAMES[other]}, points: {parts}: {parted(found[AREA])}.")
    return told


@builds(
    HOME,
    both,
    contrasts,
    shows="both halves of real pairs with full overlap, and AUC, where one label alone tells of a habit",
    **EXTRA | {"notebook": TOLD},
)
def halves(profile):
    """Both halves and AUC of MNLI's overlapping pairs, and paired differences."""
