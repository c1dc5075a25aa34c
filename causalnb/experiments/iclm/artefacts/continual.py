"""ACRE, then RAVEN: the arms, their scores before and after, and the modules' layers."""

from causalnb.experiments.iclm.artefacts.layers import tables_of
from causalnb.experiments.iclm.artefacts.scores import SETS, scored, shares
from causalnb.experiments.iclm.continual import PARTS, TASKS
from causalnb.lab import evidence, registry, results
from causalnb.lab.report import Arm, arm

CONTINUAL = "iclm.continual"
ROUTED = {"iclm": "ICLM", "kept": "ICLM, ACRE's part kept"}
ARMS = {**ROUTED, "finetuned": "Finetuned-Sequential"}
FIRST, SECOND = TASKS
IID = {task: next(iter(SETS[task])) for task in TASKS}
BACK = {part: part for part in PARTS} | {"served": "serving module"}  # what is put back, and its name


def on_acre(name: str, format: str, when: str, measure: str = "exact") -> Arm:
    """An arm on ACRE in a format, mean over its sets: before or after RAVEN, or with a part put back."""
    return arm(CONTINUAL, name, scored(measure, SETS[FIRST], format, when))


def rows_of(name: str, profile: str | None = None):
    """DataFrame of an arm's rows: seed, cell, measure, value; LabError where results are missing."""
    return evidence.rows(CONTINUAL, profile, [name])


def first_task_modules(rows, profile: str | None = None) -> dict[int, list[int]]:
    """{seed: domain modules that serve ACRE before RAVEN}, of an arm's rows.

    They are given at least the share of i.i.d. inputs from which the experiment calls a module used.
    """
    least = registry.config(CONTINUAL, "iclm", profile)["used_share"]
    given = shares(rows, IID[FIRST], when="before")
    return {seed: [*row.index[row >= least]] for seed, row in given.iterrows()}


def histories(task: str, profile: str | None = None):
    """DataFrame of the transfer model's history on a task; LabError where results are missing."""
    evidence.require(CONTINUAL, profile, ["iclm"])
    rows = results.curves(CONTINUAL, profile, ["iclm"])
    return rows[rows.task == task]


def layer_tables(task: str, profile: str | None = None, cell: str | None = None, seed: int = 0) -> dict:
    """`tables_of` a seed of the transfer model on a cell of a task, None for its i.i.d. one."""
    rows = histories(task, profile)
    return tables_of(rows[rows.seed == seed], cell or IID[task])
