"""Paraphrases that order alone tells, beside those that the place of an addition told, too."""

from causalnb.experiments.causal_transformer.artefacts.beyond import ARMS as BEYOND
from causalnb.experiments.causal_transformer.artefacts.beyond import CHOSEN
from causalnb.experiments.causal_transformer.artefacts.beyond import trained as beyond
from causalnb.experiments.causal_transformer.artefacts.overlap import (
    ARMS,
    DECISIVE,
    EXTRA,
    PLAIN,
    SAID,
    TASKS,
    Scored,
    asked,
)
from causalnb.experiments.causal_transformer.artefacts.overlap import trained as table1
from causalnb.experiments.causal_transformer.crossed import ON_COMPARISON, TASK
from causalnb.experiments.causal_transformer.grid import TOLD
from causalnb.experiments.causal_transformer.obeyed import TRIES, USED
from causalnb.lab import evidence, registry
from causalnb.lab.report import Arm, Measured, Report, Row, arm, builds, fraction, gain, looked, share, tested

HOME, LONGER = "causal_transformer.crossed", "causal_transformer.crossed.longer"
NAMES = {name: ARMS[name] for name in ("bilstm", PLAIN, "random")} | {"compared": BEYOND["compared"]}
NAMES |= {"compared_longer": f"{BEYOND['compared']}, twice the steps"}
NAMES |= {"compared_balanced": f"{BEYOND['compared']}, reweighted"}
NAMES |= {"obeyed": f"{BEYOND['compared']}, loss, weight {TRIES[USED]['causal_weight']:g}"}
NAMES |= {name: BEYOND[name] for name in ON_COMPARISON if name in BEYOND}
PAIRS = (
    ("bilstm", PLAIN),
    ("random", PLAIN),
    ("compared", PLAIN),
    *((name, "compared") for name in ON_COMPARISON if name != "compared"),
    *((CHOSEN, name) for name in ("compared_longer", "compared_balanced", "directed")),
)
CHALLENGE = "challenge_accuracy"
LABELS = TASKS[TASK][2]


def of(name: str, metric: object = None) -> Arm:
    """An arm of NAMES where order alone tells."""
    return arm(LONGER, "compared", metric) if name == "compared_longer" else arm(HOME, name, metric)


def before(name: str) -> Arm | None:
    """The same arm where the place of the addition told it, too; None where it was not trained there."""
    return (beyond if name in ON_COMPARISON else table1)(TASK, DECISIVE, name)


def _notes(profile: str | None) -> str:
    own = evidence.require(HOME, profile, [PLAIN])
    return (
        f"{own['minority'].mean():.1%} of the pairs of the same words are counter-examples, of "
        f"{own['rows'].mean():,.0f} training pairs. In every pair of the same words the addition changes its "
        "place, so that the order of the two things alone tells. Before crossing: the challenge of notebook "
        "11, asked of the same models. AUC: how often a paraphrase is rated above another pair. Reweighted: "
        "told which pairs are counter-examples."
    )


scores = Report(
    f"{HOME}_scores",
    [
        "arm",
        Measured("in distribution", "test_accuracy", share),
        *(Measured(f"challenge, {SAID.get(label, label)}", f"challenge_{label}", share) for label in LABELS),
        Measured("challenge", CHALLENGE, share),
        Scored("nodes outside the bounds", asked("challenge_violated")),
        Measured("other templates", "held_out_accuracy", share),
        Measured("before crossing", "uncrossed_accuracy", share),
        *(Scored(f"PAWS-QQP, {SAID.get(label, label)}", asked(f"paws_qqp_{label}")) for label in LABELS),
        Scored("PAWS-QQP, AUC", asked("paws_qqp_auc"), fraction()),
    ],
    [Row(said, of(name)) for name, said in NAMES.items()],
    "Paraphrase where order alone tells: accuracy in %, mean ± half of the 95 % interval (seeds)",
    _notes,
)


def _gaps(name: str, other: str) -> dict:
    found = {
        "order alone tells": of(name, CHALLENGE) - of(other, CHALLENGE),
        "other templates": of(name, "held_out_accuracy") - of(other, "held_out_accuracy"),
        "PAWS-QQP, AUC": of(name, asked("paws_qqp_auc")) - of(other, asked("paws_qqp_auc")),
    }
    once = before(name), before(other)
    return found if None in once else {"the place tells, too": once[0] - once[1], **found}


contrasts = Report(
    f"{HOME}_contrasts",
    [
        "difference, points",
        Measured("the place tells, too", CHALLENGE, tested),
        Measured("order alone tells", format=tested),
        Measured("other templates", format=tested),
        Scored("PAWS-QQP, AUC", format=tested),
    ],
    [Row(f"{NAMES[name]} - {NAMES[other]}", _gaps(name, other)) for name, other in PAIRS],
    "Does it read order? Differences of the same seeds on the challenge, mean [95 % interval] (seeds), and "
    "the p of the exact sign-flip test",
    "The first column is of the models of notebooks 11 and 13, trained and asked where the place of the "
    "addition tells, too; empty where an arm was not trained there. All others are of models trained where "
    "order alone tells. Points of AUC are hundredths.",
)


def competence_remark(profile: str | None = None) -> list[str]:
    """How well the plain arms do in distribution, and whether they still gain; a line each."""
    told = []
    for name in (PLAIN, "compared", "compared_longer", "compared_balanced"):
        found = of(name)
        config = registry.config(found.experiment, found.name, profile)
        half = max(0, config["steps"] // config["evaluate_every"] // 2 - 1)
        late, early = (looked(found.experiment, found.name, "accuracy", at) for at in (-1, half))
        told.append(
            f"{NAMES[name]}: {share(found.of('test_accuracy', profile))} in distribution, and "
            f"{gain((late - early).of(None, profile))} points on validation pairs in the second half of "
            "training."
        )
    return told


@builds(
    HOME,
    scores,
    contrasts,
    shows="which gains on questions stay where the order of two things alone tells a paraphrase",
    **EXTRA | {"notebook": TOLD},
)
def crossed(profile):
    """All arms where order alone tells, and their differences beside those where the place told it, too."""
