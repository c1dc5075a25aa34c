"""The Markov-blanket loss where it is obeyed, on a base that can do the task, with its control."""

from causalnb.experiments.causal_transformer.artefacts.beyond import ARMS as BEYOND
from causalnb.experiments.causal_transformer.artefacts.beyond import trained
from causalnb.experiments.causal_transformer.artefacts.overlap import (
    CELLS,
    DECISIVE,
    EXTRA,
    SAID,
    SHARES,
    TASKS,
)
from causalnb.experiments.causal_transformer.grid import BLANKETS
from causalnb.experiments.causal_transformer.obeyed import SEARCH, TRIES, USED
from causalnb.lab.report import Arm, Measured, Report, Row, arm, builds, number, share, tested

HOME = "causal_transformer.beyond.obeyed.nli"
NAMES = {"compared": BEYOND["compared"]} | {name: BEYOND[name] for name in BLANKETS}
NAMES |= {
    "obeyed": f"{BEYOND['compared']}, loss obeyed",
    "entropy": f"{BEYOND['compared']}, its entropy alone",
}
PAIRS = (("obeyed", "compared"), ("entropy", "compared"), ("obeyed", "entropy"))
OUTSIDE, NATS = "challenge_violated", "challenge_entropy"
LABELS = TASKS["nli"][2]


def of(name: str, metric: object = None) -> Arm:
    """An arm of NAMES; what was not trained here is notebook 13's."""
    return arm(HOME, name, metric) if name in ("obeyed", "entropy") else trained("nli", DECISIVE, name)


scores = Report(
    "causal_transformer.obeyed_scores",
    [
        "arm",
        Measured("nodes outside the bounds", OUTSIDE, share),
        Measured("entropy, nats", NATS, number(2)),
        Measured("in distribution", "test_accuracy", share),
        *(Measured(f"challenge, {SAID.get(label, label)}", f"challenge_{label}", share) for label in LABELS),
        Measured("challenge", "challenge_accuracy", share),
        Measured("other templates", "held_out_accuracy", share),
    ],
    [Row(said, of(name)) for name, said in NAMES.items()],
    f"Entailment, {SHARES[DECISIVE]} of counter-examples: the loss where it is obeyed, % of nodes and of "
    "pairs, mean ± half of the 95 % interval (seeds)",
    "A node is outside where its tau, loop included, is below the lower bound or above the upper one. Its "
    "entropy alone: held, without a graph, to the mean entropy at which the obeyed arm ends.",
)

contrasts = Report(
    "causal_transformer.obeyed_contrasts",
    ["difference, points", *(Measured(said, metric, tested) for metric, said in CELLS.items())],
    [Row(f"{NAMES[name]} - {NAMES[other]}", of(name) - of(other)) for name, other in PAIRS],
    "The loss where it is obeyed: differences of the same seeds, mean [95 % interval] (seeds), and the p of "
    "the exact sign-flip test",
)

searched = Report(
    "causal_transformer.obeyed_tries",
    [
        "weight",
        "rises",
        "used",
        Measured("nodes outside the bounds", OUTSIDE, share),
        Measured("validation", "validation_accuracy", share),
        Measured("challenge", "challenge_accuracy", share),
    ],
    [
        Row((*name.split("_")[1:], "yes" if name == USED else ""), arm(f"causal_transformer.{SEARCH}", name))
        for name in TRIES
    ],
    "Every weight and schedule tried, on the development templates, one seed: % of nodes and of pairs",
    "Used is, of those with less than a tenth of the nodes outside, the one with the best mean of the last "
    "two columns; where none has, the one with the fewest outside.",
)


@builds(
    "causal_transformer.obeyed",
    scores,
    contrasts,
    searched,
    shows="what the loss does where it is obeyed, on a base that can do the task, and its control",
    **EXTRA | {"notebook": "14_when_bounds_help"},
)
def obeyed(profile):
    """The loss where it is obeyed beside its base and its control, and every try."""
