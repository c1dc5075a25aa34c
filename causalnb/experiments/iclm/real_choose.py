"""Writes real_chosen.json: the rates of one module and of ICLM, from the stored search on mirrored shifts.

python -m causalnb.experiments.iclm.real_choose
"""

import json
from statistics import fmean

from causalnb.errors import LabError
from causalnb.experiments.iclm.data import FORMATS
from causalnb.experiments.iclm.real import CHOSEN, FAMILIES, RATES, measure_of
from causalnb.experiments.iclm.real_data import IID, cells
from causalnb.lab import registry, results

SEARCH = "iclm.real.search"


def score(arm: str) -> float | None:
    """I.i.d. accuracy plus the mean over the mirrored shifts, None where the arm was not run.

    Accuracy is the mean over formats. LabError for a result with other settings than today's.
    """
    try:
        found = results.read(SEARCH, arm, 0, "laptop")
    except LabError:
        return None
    config = registry.config(SEARCH, arm, "laptop")
    if not registry.same_settings(SEARCH, found.config, config):
        raise LabError(f"{SEARCH} {arm} has other settings now: run it first.")
    measure = measure_of(config["family"])
    of = {
        cell: fmean(found.value(f"{cell}/{format}", measure) for format in FORMATS)  # type: ignore[misc]
        for cell in cells(config)
    }
    return of.pop(IID) + fmean(of.values())


def computed(before: dict) -> dict:
    """The choices: of each side the first rate with the highest score; where none was run, as before."""
    chosen = {family: dict(before[family]) for family in FAMILIES}
    for family, sides in chosen.items():
        for side in sides:
            scores = {rate: score(f"{family}_{side}_{name}") for name, rate in RATES.items()}
            if tried := {rate: value for rate, value in scores.items() if value is not None}:
                sides[side] = max(tried, key=tried.__getitem__)
    return chosen


if __name__ == "__main__":
    chosen = computed(json.loads(CHOSEN.read_text(encoding="utf-8")))
    CHOSEN.write_text(json.dumps(chosen, indent=1) + "\n", encoding="utf-8")
