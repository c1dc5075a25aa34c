"""Writes real_chosen.json: the rate of each method and the weight of guidance, from the stored search.

python -m causalnb.experiments.c2dlm.real_choose
"""

import json
from statistics import fmean

from causalnb.errors import LabError
from causalnb.experiments.c2dlm.real import CHOSEN, SEARCHED
from causalnb.lab import registry, results

SEARCH = "c2dlm.real.search"
KEPT = {  # method -> the settings that the search decides
    "diffusion": ("learning_rate",),
    "c2dlm": ("learning_rate", "gamma"),
    "autoregressive": ("learning_rate",),
}


def score(arm: str) -> float | None:
    """The mean of i.i.d. and shifted accuracy on development rows, None where the arm was not run.

    LabError for a result with other settings than today's.
    """
    try:
        found = results.read(SEARCH, arm, 0, "laptop")
    except LabError:
        return None
    if not registry.same_settings(SEARCH, found.config, registry.config(SEARCH, arm, "laptop")):
        raise LabError(f"{SEARCH} {arm} has other settings now: run it first.")
    return fmean(found.value(part, "accuracy") or 0.0 for part in ("iid", "ood"))


def computed(before: dict) -> dict:
    """The choices: of each method the first arm with the highest score; where none was run, as before."""
    chosen = dict(before)
    for method, names in KEPT.items():
        scores = {arm: score(arm) for arm in SEARCHED if arm.startswith(f"{method}_")}
        if tried := {arm: value for arm, value in scores.items() if value is not None}:
            settings = registry.config(SEARCH, max(tried, key=tried.__getitem__), "laptop")
            chosen[method] = {name: settings[name] for name in names}
    return chosen


if __name__ == "__main__":
    chosen = computed(json.loads(CHOSEN.read_text(encoding="utf-8")))
    CHOSEN.write_text(json.dumps(chosen, indent=1) + "\n", encoding="utf-8")
