"""Held attention costs more a step: is its gain more than that of longer training without it?"""

from causalnb.experiments.causal_transformer.artefacts.beyond import CELLS, CHOSEN, IDS
from causalnb.experiments.causal_transformer.artefacts.overlap import DECISIVE, EXTRA
from causalnb.lab import registry, results
from causalnb.lab.report import Measured, Report, Row, arm, builds, tested

ONCE, LONGER = IDS["nli", DECISIVE], "causal_transformer.beyond.compute.nli"
HELD, PLAIN, MORE = arm(ONCE, CHOSEN), arm(ONCE, "all"), arm(LONGER, "all")


def seconds(experiment: str, name: str, profile: str | None = None) -> float:
    """CPU-seconds of a run, the mean over seeds."""
    found = results.usable(experiment, profile, [name])
    return sum(result.cpu_seconds for result in found) / len(found)


def _notes(profile: str | None = None) -> str:
    runs = (ONCE, CHOSEN), (ONCE, "all"), (LONGER, "all")
    held, once, more = (seconds(*run, profile) for run in runs)
    few, many = (registry.config(*run, profile)["steps"] for run in runs[1:])
    return (
        f"{few:,} steps take {held:.0f} CPU-seconds with held attention and {once:.0f} without; {many:,} "
        f"steps without take {more:.0f}. Points, differences of the same seeds, and the p of the exact "
        "sign-flip test."
    )


compute_table = Report(
    "causal_transformer.compute",
    ["difference", *(Measured(said, f"{cell}_accuracy", tested) for cell, said in CELLS.items())],
    [
        Row("held attention - without, steps alike", HELD - PLAIN),
        Row("without, longer - without", MORE - PLAIN),
        Row("held attention - without, longer", HELD - MORE),
    ],
    "Entailment: held attention against longer training without it",
    _notes,
)


@builds(
    "causal_transformer.compute",
    compute_table,
    needs=[ONCE, LONGER],
    shows="held attention against longer training without it",
    **{**EXTRA, "notebook": "13_directed_dependencies"},
)
def compute(profile):
    """What held attention adds to longer training without it."""
