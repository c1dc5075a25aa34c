"""Writes real_chosen.json: what the searches on the real base chose, from their stored results.

python -m causalnb.experiments.causal_transformer.real_choose
"""

import json

from causalnb.experiments.causal_transformer import real
from causalnb.experiments.causal_transformer.searches import MOST, mean, rounded, stored

STILL = 0.1  # of the shift that interchanging alone leaves; set when weight 10 had been seen and 1 had not
OPEN = 0.1  # mean |r g| from which on a value update counts as there; set when 25 had left them at 0.03


def accuracy(found: list) -> float:
    """The mean accuracy over the cells of a search's results: development data, and their shift."""
    cells = found[0].config["cells"]
    return mean([(result, result.value(cell, "accuracy")) for result in found for cell in cells])


def final(found: list, measure: str) -> float:
    """The mean of what the history's last look at validation pairs measured."""
    return mean([(result, result.history[-1][measure]) for result in found])


def shift(found: list) -> float:
    """How far interchanging words moves the maps of the search's challenge, on average."""
    return mean([(one, one.value("challenge", "shift")) for one in found])


def computed() -> dict:
    """The choices, by real.NAMES; LabError for the first result that is missing.

    Of the losses that come late, tried on the templates, the best of those obeyed, or, where none is, the one
    with the fewest nodes outside. Of the reaches of value updates, tried on SNLI, the best of those whose
    gates open (OPEN), or, where none does, the one whose gates open most. Of the weights of held maps, tried
    on the templates, the best of those that keep still (STILL), or, where none does, the stillest.
    """
    rates = {}
    for name in real.TASKS:
        tries = {arm: accuracy(stored(f"real.search.{name}", arm)) for arm in real.RATES}
        rates[name] = real.RATES[max(tries, key=tries.__getitem__)]
    late = {arm: stored("real.search.nli", arm) for arm in real.LATE}
    outside = {arm: final(found, "violated") for arm, found in late.items()}
    reached = {arm: stored("real.search.snli", arm) for arm in real.REACHES}
    gates = {arm: mean([(one, one.value("", "gate")) for one in found]) for arm, found in reached.items()}
    opened = [arm for arm in gates if gates[arm] >= OPEN]
    reach = (
        max(opened, key=lambda arm: accuracy(reached[arm])) if opened else max(gates, key=gates.__getitem__)
    )
    obeyed = [arm for arm in late if outside[arm] < MOST]
    loss = (
        max(obeyed, key=lambda arm: accuracy(late[arm])) if obeyed else min(outside, key=outside.__getitem__)
    )
    held = {arm: stored("real.search.nli", arm) for arm in real.HELD}
    moved = {arm: shift(found) for arm, found in held.items()}
    most = STILL * shift(stored("real.search.nli", "interchanged"))
    kept = [arm for arm in held if moved[arm] <= most]
    weight = max(kept, key=lambda arm: accuracy(held[arm])) if kept else min(moved, key=moved.__getitem__)
    nats = {"entropy": late[loss], "snli_entropy": stored("real.snli", "loss_late")}
    nats["longer_entropy"] = stored("real.snli.longer", "loss_late")
    nats["held_entropy"] = held[weight]
    chosen = {**rates, "late": loss, "reach": reach, "held": weight}
    return {**chosen, **{name: rounded(final(found, "entropy")) for name, found in nats.items()}}


if __name__ == "__main__":
    real.FILE.write_text(json.dumps(computed(), indent=1) + "\n", encoding="utf-8")
