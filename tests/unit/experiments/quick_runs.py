"""Every experiment really runs in the quick profile: what the files test_quick_runs_*.py share.

The quick run of an arm is part of its probe. Where today's code and libraries are those that the probe was
verified with, it has been shown; here one arm of each kind of run is trained all the same, and stored. With
CAUSALNB_EVERY_RUN=1, as in the weekly job, all of them are.
"""

import math
import os

import pytest

from causalnb.errors import DataError
from causalnb.lab import probes, registry, results, runner

WHOLE = (
    "c2dlm.base",
    "c2dlm.long.sudoku_n200",
    "iclm.raven",
    "iclm.controls.acre",
    "iclm.continual",
    "iclm.clusters",
)  # of C2DLM and ICLM all arms of these, and elsewhere the last
OF_FILES = ("causal_transformer.published",)  # that count in published files and nothing else
EFFECTS = ("iclm.interventions",)  # rows of its history are effects by part and step, not training
_results: dict = {}


def tried(e) -> list[str]:
    """The arms that are trained here; arms that differ in a number alone are not all of them."""
    if e.id.startswith(("sci.scan.search", "causal_transformer.search", "causal_transformer.groups.search")):
        return list(e.arms)[:1]
    if e.id.endswith((".m0", ".m1", ".de_en")):  # arms of another experiment, on other data
        return list(e.arms)[-1:]
    return list(e.arms)[-1:] if e.id.startswith(("c2dlm", "iclm")) and e.id not in WHOLE else list(e.arms)


def jobs(source: str) -> list[tuple[str, str]]:
    """(experiment, arm) of what is trained here of a source."""
    registry.load_all()
    chosen, kinds = [], set()
    for e in registry.experiments():
        for arm in tried(e) if e.id.startswith(f"{source}.") else ():
            if e.run not in kinds or "CAUSALNB_EVERY_RUN" in os.environ or not probes.state(e.id, arm)[0]:
                chosen.append((e.id, arm))
            kinds.add(e.run)
    return chosen


def made(id: str, arm: str) -> results.Result:
    """One result per experiment and arm, made once in a process."""
    if (id, arm) not in _results:
        try:
            _results[id, arm] = runner.execute(id, arm, 0, "quick")
        except DataError as missing:
            if id not in OF_FILES:
                raise
            pytest.skip(str(missing))
    return _results[id, arm]


def check(id: str, arm: str) -> None:
    """A run of an arm stores finite numbers, fresh, and looks as often as its settings say."""
    result = made(id, arm)
    assert result.rows and results.state(id, arm, 0, "quick")[0] == "fresh"
    assert all(value is None or math.isfinite(value) for *_, value in result.rows)
    values = [value for entry in result.history for value in entry.values()]
    numbers = [value for value in values if not (value is None or isinstance(value, str))]
    assert all(math.isfinite(value) for value in numbers)
    if id in EFFECTS:
        assert len(numbers) > len(result.history) > 0
        return
    steps = (result.config.get("steps") or 0) * result.config.get("length", 1)
    trainings = {"iclm.continual": 2, "causal_transformer.sequence": 3, "causal_transformer.fan_in": 2}
    read = ("iclm.real.router", "iclm.real.dependence", "iclm.real.said", "c2dlm.real.sinks")
    trainings |= dict.fromkeys(read, 0)  # these read a base as it is
    every = result.config.get("evaluate_every") or steps // 2
    looks = [step for step in range(1, steps + 1) if step % every == 0 or step == steps]
    assert [entry["step"] for entry in result.history if "step" in entry] == looks * trainings.get(id, 1)
