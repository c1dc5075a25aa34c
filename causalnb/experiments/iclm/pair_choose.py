"""Writes pair_chosen.json: rates of one module and of ICLM, then weights, from the stored search.

python -m causalnb.experiments.iclm.pair_choose

Searched on other pairs than those of the test, the weights at ICLM's rate: where that is another than
before, the search has to be run again, and the command given again.
"""

import json
from statistics import fmean

from causalnb.errors import LabError
from causalnb.experiments.iclm.pair import CHOSEN, RATES, WEIGHED, chosen, tried
from causalnb.lab import registry, results

SEARCH = "iclm.pair.search"
LEARNED = 0.99  # i.i.d. accuracy from which a try can be chosen


def reached(arm: str) -> tuple[float, float]:
    """Accuracy i.i.d. and o.o.d. of an arm of the search, means over seeds; LabError for other settings."""
    config, found = registry.config(SEARCH, arm, "laptop"), []
    for seed in registry.seeds(SEARCH, "laptop", arm):
        stored = results.read(SEARCH, arm, seed, "laptop")
        if not registry.same_settings(SEARCH, stored.config, config):
            raise LabError(f"{SEARCH} {arm} has other settings now: run it first.")
        found.append([stored.value(part, "accuracy") for part in ("iid", "ood")])
    iid, ood = (fmean(values) for values in zip(*found, strict=True))
    return iid, ood


def best(arm: str, values):
    """Of the values that were tried and learned the task, the first with the highest o.o.d. accuracy."""
    scores = {value: reached(tried(arm, value)) for value in values}
    if able := {value: ood for value, (iid, ood) in scores.items() if iid >= LEARNED}:
        return max(able, key=able.__getitem__)
    raise LabError(f"No {arm} of the search reaches {LEARNED:.0%} i.i.d.: give it more steps or rates.")


def computed(before: dict) -> dict:
    """The choice; with another rate of ICLM than before the weights stay, until they are searched at it."""
    rates = {"single": RATES[best("single", RATES)], "iclm": RATES[best("none", RATES)]}
    if rates["iclm"] != before["rates"]["iclm"]:
        return {**before, "rates": rates}
    return {"rates": rates, "weights": {arm: best(arm, weights) for arm, (_, weights) in WEIGHED.items()}}


if __name__ == "__main__":
    CHOSEN.write_text(json.dumps(computed(chosen()), indent=1) + "\n", encoding="utf-8")
