"""Writes real_chosen.json: the rate of each arm that is best on validation and the search's held-out verb.

python -m causalnb.experiments.sci.real_choose
"""

import json

from causalnb.experiments.sci.real import ARMS, CHOSEN, RATES
from causalnb.lab import results

SEARCH = "sci.real.search"


def score(arm: str, rate: float) -> float:
    """The mean of exact match on validation and test of the search, whose verb no other run holds out."""
    found = results.read(SEARCH, f"{arm}_lr{10_000 * rate:g}", 0, "laptop")
    return sum(found.value(cell, "exact_match") for cell in ("validation", "test")) / 2


def computed() -> dict[str, float]:
    """{arm: rate} from the stored search, the first of those that are equally good."""
    return {arm: max(RATES, key=lambda rate: score(arm, rate)) for arm in ARMS}


if __name__ == "__main__":
    CHOSEN.write_text(json.dumps(computed()) + "\n", encoding="utf-8")
