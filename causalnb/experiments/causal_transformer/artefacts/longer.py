"""Twice the training of the Causal Transformer's Table 1: its Transformer and its whole method."""

from causalnb.experiments.causal_transformer.artefacts.overlap import (
    ARMS,
    CELLS,
    DECISIVE,
    EXTRA,
    IDS,
    PLAIN,
    SHARES,
    TASKS,
    Scored,
)
from causalnb.experiments.causal_transformer.artefacts.table1 import but_exceptions
from causalnb.lab import registry
from causalnb.lab.report import Report, Row, arm, builds, tested

LONGER = {task: f"causal_transformer.longer.{task}" for task in TASKS}
METRICS = {CELLS[metric]: metric for metric in ("test_accuracy", "challenge_accuracy")}
GAINED = "challenge - Transformer's, longer"


def _rows():
    for task, (words, *_) in TASKS.items():
        for name in (PLAIN, "both"):
            once, twice = arm(IDS[task, DECISIVE], name), arm(LONGER[task], name)
            values = dict.fromkeys(METRICS, once) | {f"{cell}, longer": twice for cell in METRICS}
            if name != PLAIN:
                values[GAINED] = twice - arm(LONGER[task], PLAIN)
            yield Row((words, ARMS[name]), values)


def _notes(profile):
    once, twice = (
        registry.config(id, PLAIN, profile)["steps"] for id in (IDS["nli", DECISIVE], LONGER["nli"])
    )
    most = " and ".join(f"{but_exceptions(task):.1%} ({words})" for task, (words, *_) in TASKS.items())
    return (
        f"{once:,} steps, longer {twice:,}; {SHARES[DECISIVE]} of counter-examples. Who misses nothing but "
        f"these has {most} in distribution. Last column: points, differences of the same seeds, and the p "
        "of the exact sign-flip test."
    )


twice = Report(
    "causal_transformer.longer",
    [
        "task",
        "arm",
        *(Scored(f"{cell}{more}", metric) for cell, metric in METRICS.items() for more in ("", ", longer")),
        Scored(GAINED, "challenge_accuracy", tested),
    ],
    _rows,
    "Table 1's Transformer, the whole method, and twice the training: accuracy in %, mean ± "
    "half of the 95 % interval (seeds)",
    _notes,
)


@builds(
    "causal_transformer.longer",
    twice,
    shows="the Transformer and the whole method of Table 1 after twice the training",
    **EXTRA,
)
def longer(profile):
    """What twice the training changes."""
