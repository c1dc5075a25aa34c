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
}


def score(arm: str) -> float:
    """The mean of i.i.d. and shifted accuracy on development rows.

    LabError for a result that is missing, or has other settings than today's.
    """
    found = results.read(SEARCH, arm, 0, "laptop")
    if not registry.same_settings(SEARCH, found.config, registry.config(SEARCH, arm, "laptop")):
        raise LabError(f"{SEARCH} {arm} has other settings now: run it first.")
    return fmean(found.value(part, "accuracy") or 0.0 for part in ("iid", "ood"))


def computed() -> dict:
    """The choices: of each method the first arm with the highest score."""
    chosen = {}
    for method, names in KEPT.items():
        best = max((arm for arm in SEARCHED if arm.startswith(f"{method}_")), key=score)
        settings = registry.config(SEARCH, best, "laptop")
        chosen[method] = {name: settings[name] for name in names}
    return chosen


if __name__ == "__main__":
    CHOSEN.write_text(json.dumps(computed(), indent=1) + "\n", encoding="utf-8")
