"""The Markov-blanket loss where it is obeyed, on a base that can do the task, with its control."""

from causalnb.experiments.causal_transformer.grid import (
    CHOICES,
    COMPARED,
    DEVELOPMENT,
    EARLY,
    LOSS,
    MINORITIES,
    RAMP,
    SPREAD_TRIES,
    SPREAD_USED,
    BeyondSettings,
    pairs_settings,
    register_beyond,
)

WEIGHTS, RAMPS = (3, 10, 30, 100), {"early": EARLY, "late": RAMP}
TRIES = {
    f"loss_{weight}_{name}": {**COMPARED, **LOSS, "causal_weight": float(weight), "ramp": ramp}
    for weight in WEIGHTS
    for name, ramp in RAMPS.items()
}
SEARCH, USED, NATS = "beyond.obeyed.search.nli", CHOICES["obeyed"], CHOICES["obeyed_entropy"]
HELD = {"entropy_weight": SPREAD_TRIES[SPREAD_USED["nli"]]["entropy_weight"], "entropy_target": NATS}

register_beyond(
    "obeyed.search.nli",
    "nli",
    "weights and schedules that keep the comparison's maps in bounds, on templates for development",
    TRIES,
    1,
    60,
    pairs_settings("nli", MINORITIES["m5"], BeyondSettings, **DEVELOPMENT),
)
register_beyond(
    "obeyed.nli",
    "nli",
    "the loss where the comparison obeys it, and maps as spread without it, 5 % of counter-examples",
    {"obeyed": TRIES[USED], "entropy": {**COMPARED, **HELD}},
    10,
    110,
    pairs_settings("nli", MINORITIES["m5"], BeyondSettings),
)
