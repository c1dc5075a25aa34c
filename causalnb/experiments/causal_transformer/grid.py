"""Which arms, seeds and settings make the Causal Transformer's tables and Figure 1."""

from dataclasses import dataclass, field, replace

from causalnb.experiments.causal_transformer import chosen
from causalnb.experiments.causal_transformer.beyond import run_beyond
from causalnb.experiments.causal_transformer.fan_in import run_fan_in
from causalnb.experiments.causal_transformer.readers import run_readers
from causalnb.experiments.causal_transformer.runs import run_pairs
from causalnb.experiments.causal_transformer.sequence import run_sequence
from causalnb.experiments.causal_transformer.translation import run_translation
from causalnb.lab.registry import Experiment, register

CHOICES = chosen.read()  # of the searches, the best mean of validation and challenge accuracy
CELLS = ["test", "challenge", "held_out"]
RAMP = [0.3, 0.6]  # the weight of the loss rises between these shares of training
EARLY = [0.0, 0.3]  # the same, of losses that are to be obeyed from early on


@dataclass(frozen=True)
class Settings:
    """What all models share, and their training."""

    model: str = "transformer"
    d_model: int = 64
    num_heads: int = 4
    d_ff: int = 256
    encoder_layers: int = 2
    dropout: float = 0.1
    pre_norm: bool = True
    gcn: str = "none"
    blanket: str = "none"
    blanket_in: list = field(default_factory=lambda: ["encoder"])
    self_loop: bool = True
    blanket_settings: dict = field(default_factory=dict)
    causal_weight: float = 0.1
    ramp: list | None = field(default_factory=lambda: RAMP)
    pattern: str = "full"
    pattern_width: int = 3
    pattern_share: float = 0.25
    pattern_global: int = 1  # the label is read from the first token, so that it must see the others
    relative: int = 0
    draw: int = 0
    bf16: bool = False
    batch: int = 32
    steps: int = 4000
    learning_rate: float = 2e-3
    evaluate_every: int = 250
    data_seed: int = 0


@dataclass(frozen=True)
class PairsSettings(Settings):
    """Pairs of sentences; entropy_target is of the arm entropy, see `tries`."""

    task: str = "overlap"
    data: dict = field(default_factory=dict)
    cells: list = field(default_factory=lambda: CELLS)
    real: list = field(default_factory=list)
    by: str = ""
    mapped: list = field(default_factory=lambda: ["challenge"])
    train_part: str = "train"
    vocabulary: int = 1000
    validation_rows: int = 500
    probe_rows: int = 500
    follow_rows: int = 48
    map_rows: int = 200
    entropy_target: float = 0.0
    balanced: bool = False  # counter-examples come as often as rows on which overlap is right
    auc: bool = False  # of two labels: how well the logits part the rows, whatever label a model prefers


@dataclass(frozen=True)
class BeyondSettings(PairsSettings):
    """Pairs of sentences, beyond the paper; entropy_weight is of the arm spread alone."""

    causal_weight: float = 0.0
    ramp: list | None = None
    parents: int | None = None
    directed: bool = False
    compared: bool = False
    interchanged: bool = False
    distance: float = 0.4
    entropy_weight: float | None = None


STRONG = 1.0  # the weight decay that the search of reweighting and GroupDRO chose


@dataclass(frozen=True)
class DecayedPairs(PairsSettings):
    """Pairs of sentences, at a strong weight decay."""

    weight_decay: float = STRONG


@dataclass(frozen=True)
class DecayedSettings(BeyondSettings):
    """Beyond the paper, at a strong weight decay."""

    weight_decay: float = STRONG


@dataclass(frozen=True)
class SequenceSettings(Settings):
    """Tasks one after the other."""

    stages: list = field(default_factory=list)
    vocabulary: int = 1500
    validation_rows: int = 300
    probe_rows: int = 300


@dataclass(frozen=True)
class TranslationSettings(Settings):
    """Sentences into another language."""

    data: dict = field(default_factory=dict)
    cells: list = field(default_factory=lambda: ["test", "test2017"])
    d_model: int = 128
    d_ff: int = 512
    decoder_layers: int = 2
    label_smoothing: float = 0.1
    vocabulary: int = 4000
    batch: int = 64
    steps: int = 1200
    learning_rate: float = 1e-3
    test_rows: int = 1000
    beams: int = 4
    longest: int = 40
    validation_rows: int = 300
    map_rows: int = 100


@dataclass(frozen=True)
class FanInSettings(Settings):
    """One key against many weak cues; a run trains a model for each number of them."""

    cues: list = field(default_factory=lambda: [1, 3, 5, 9, 17])
    key: float = 0.9
    together: float = 0.97
    train_rows: int = 20_000
    test_rows: int = 1000
    map_rows: int = 200
    entropy_target: float = 0.0
    d_model: int = 32
    num_heads: int = 1
    d_ff: int = 64
    encoder_layers: int = 1
    dropout: float = 0.0
    ramp: list | None = field(default_factory=lambda: EARLY)
    batch: int = 128
    steps: int = 1200
    evaluate_every: int = 1200


@dataclass(frozen=True)
class ReaderSettings:
    """Readers of one sentence of a pair."""

    task: str = "snli"
    data: dict = field(default_factory=lambda: {"source": "snli", "n_validation": 900})
    column: str = ""


# Words must be matched between sentences: dropout, narrow heads and small batches delay that.
TEMPLATES = {"d_model": 128, "batch": 64, "steps": 2000, "dropout": 0.0, "learning_rate": 1e-3}
QUICK_MODEL = {"d_model": 8, "num_heads": 2, "d_ff": 8, "encoder_layers": 1, "vocabulary": 300}
QUICK_TRAINING = {"batch": 4, "steps": 2, "evaluate_every": 1, "validation_rows": 4}
QUICK = {**QUICK_MODEL, **QUICK_TRAINING, "probe_rows": 4, "follow_rows": 2, "map_rows": 4}
GPU = {
    "d_model": 256,
    "num_heads": 8,
    "d_ff": 1024,
    "encoder_layers": 4,
    "batch": 256,
    "steps": 4000,
    "learning_rate": 5e-4,
    "evaluate_every": 200,
    "bf16": True,
}

GCN, LOSS = {"gcn": "paper"}, {"blanket": "hinge"}
CONTRAST_ARMS = {kind: {"model": kind} for kind in ("constant", "bow", "bilstm")}
ENTROPY = {"model": "entropy"}
ENTROPIES = CHOICES["entropies"]  # nats, which that loss ends with: in the search, and at each of MINORITIES
TABLE_1 = {
    **CONTRAST_ARMS,
    "transformer": {},
    "gcn": GCN,
    "loss": LOSS,
    "both": {**GCN, **LOSS},
    "entropy": ENTROPY,
}
STL = {"train_part": "challenge_train"}  # "single task": on the challenge's own pairs, whatever the minority
MASKS = ("band", "random")  # of Figure 2, which the paper says drop spurious dependencies
DRAWS = {f"draw_{draw}": {"pattern": "random", "draw": draw} for draw in range(1, 5)}  # 0 is in MASKS
PLACES = {**DRAWS, "relative": {"relative": 8}}  # what might explain that mask, or its gain
SMALL = {"n_train": 40, "n_validation": 8, "n_test": 8}
# By name: the task, its data at laptop and at quick, its real cells and the column they split by; how many
# rows are mapped and followed, so that an even stride meets all kinds of a challenge, which come in turn.
OVERLAP = {
    "nli": {
        "task": "overlap",
        "data": {
            "n_train": 48_000,
            "n_validation": 1000,
            "n_test": 2000,
            "per_subcase": 100,
        },  # 12,000 rows are learned by heart
        "quick": {**SMALL, "per_subcase": 2},
        "real": ["mnli_contradicting"],
        "by": "subcase",
        "map_rows": 200,
        "challenge_probe": 428,
    },
    "paraphrase": {
        "task": "paraphrase",
        "data": {"n_train": 12_000, "n_validation": 1000, "n_test": 2000, "n_challenge": 2000},
        "quick": {**SMALL, "n_challenge": 8},
        "real": ["paws_qqp"],
        "by": "kind",
        "map_rows": 222,
        "challenge_probe": 400,
    },
}
BOTH_LABELS = ["mnli_contradicting", "mnli_overlapping"]  # published sets on entailment: one label, and both
MINORITIES = {"m0": 0.0, "m1": 0.01, "m5": 0.05}
NOTEBOOK = "11_spurious_correlations"
EXTENSION, PAIRED = "13_directed_dependencies", 10  # the notebook beyond the paper, and its seeds
TOLD = "15_told_what_misleads"  # the notebook on what knows the counter-examples
NAMES = {"nli": "Entailment", "paraphrase": "Paraphrase"}

TRIES = 6  # for every model: weight and schedule of its loss, or learning rate without one
PLAIN_TRIES = [{"learning_rate": rate} for rate in (1e-3, 2e-3, 4e-3, 8e-3, 5e-4, 2.5e-4)]
BOW_TRIES = [{"learning_rate": rate} for rate in (4e-3, 8e-3, 1.6e-2, 3.2e-2, 2e-3, 6.4e-2)]
LOSS_TRIES = [
    *({"causal_weight": weight} for weight in (0.03, 0.1, 0.3)),
    {"ramp": None},
    *({"causal_weight": weight} for weight in (0.01, 1.0)),
]
SEARCHED = {name: settings for name, settings in TABLE_1.items() if name != "constant"}
USED = CHOICES["used"]  # by task, which try each arm is used with
RATES = {  # the Transformer's best; what is added to it is tried at this one
    name: PLAIN_TRIES[used["transformer"]]["learning_rate"] for name, used in USED.items()
}


def pairs_settings(name: str, minority: float, kind=PairsSettings, **changes) -> dict:
    """The profiles' settings of an experiment on one of OVERLAP, laptop's with `changes` over them."""
    spec = OVERLAP[name]
    data = {
        size: {**spec[size], **changes.get("data", {}), "minority": minority} for size in ("data", "quick")
    }
    here = {part: spec[part] for part in ("task", "real", "by", "map_rows")}
    changes = {**TEMPLATES, "learning_rate": RATES[name], **here, **changes, "data": data["data"]}
    return {"laptop": kind(**changes), "quick": {**QUICK, "data": data["quick"], "real": []}, "gpu": GPU}


def tries(arm: str, name: str) -> list[dict]:
    """The settings that the search tries for an arm on one of OVERLAP, TRIES of them."""
    settings = SEARCHED[arm] | ({"entropy_target": ENTROPIES[name]["search"]} if arm == "entropy" else {})
    penalised = "blanket" in settings or arm == "entropy"
    varied = LOSS_TRIES if penalised else BOW_TRIES if arm == "bow" else PLAIN_TRIES
    return [{"learning_rate": RATES[name], **settings, **one} for one in varied]  # in every profile


def tuned(name: str, minority: str = "m5") -> dict[str, dict]:
    """The arms of Table 1 on one of OVERLAP: settings of the search, and the entropy of their own loss."""
    found = {arm: tries(arm, name)[number] for arm, number in USED[name].items()}
    found["entropy"]["entropy_target"] = ENTROPIES[name][minority]
    return TABLE_1 | found


def single_task(name: str) -> dict[str, dict]:
    """The arms of Table 1's STL rows: two of `tuned`, trained on the challenge's own pairs."""
    return {
        f"{arm}_stl": {**tuned(name)[arm], **STL, "probe_rows": OVERLAP[name]["challenge_probe"]}
        for arm in ("transformer", "both")
    }


def register_pairs(
    id: str,
    name: str,
    title: str,
    arms: dict,
    seeds: int,
    cost: float,
    settings: dict,
    gpu: float = 120,
    **more,
) -> None:
    """Register an experiment of run_pairs on one of OVERLAP; cost and gpu in seconds of one run."""
    register(
        Experiment(
            id=f"causal_transformer.{id}",
            title=f"{NAMES[name]}{title}",
            **{"run": run_pairs, "notebook": NOTEBOOK, **more},
            arms=arms,
            settings=settings,
            seeds={"quick": 1, "laptop": seeds},
            cost={"quick": 2, "laptop": cost, "gpu": gpu},
        )
    )


DEVELOPMENT = {
    "data": {"family": "development"},
    "data_seed": 1000,
    "real": [],
    "cells": ["validation", "challenge"],
    "steps": 1000,
    "map_rows": 200,
}
for name in OVERLAP:
    for suffix, minority in MINORITIES.items():
        register_pairs(
            f"overlap.{name}.{suffix}",
            name,
            f" where word overlap misleads, {100 * minority:g} % of counter-examples",
            tuned(name, suffix) | (single_task(name) if suffix == "m5" else {}),
            5,
            105,
            pairs_settings(name, minority),
        )
    register_pairs(
        f"masked.{name}",
        name,
        ": the Transformer of Table 1 through masks fixed beforehand",
        {mask: {**tuned(name)["transformer"], "pattern": mask} for mask in MASKS},
        5,
        105,
        pairs_settings(name, MINORITIES["m5"]),
    )
    register_pairs(
        f"longer.{name}",
        name,
        ": Transformer and whole method, trained for twice as many steps",
        {arm: tuned(name)[arm] for arm in ("transformer", "both")},
        5,
        210,
        {
            **pairs_settings(name, MINORITIES["m5"], steps=2 * TEMPLATES["steps"]),
            "gpu": {**GPU, "steps": 2 * GPU["steps"]},
        },
        gpu=240,
    )
    register_pairs(
        f"search.{name}",
        name,
        f": {TRIES} tries for every arm, on templates and seeds for development",
        {f"{arm}_{number}": one for arm in SEARCHED for number, one in enumerate(tries(arm, name))},
        1,
        55,
        pairs_settings(name, MINORITIES["m5"], **DEVELOPMENT),
    )

register_pairs(
    "balanced.nli",
    "nli",
    ": the Transformer of Table 1 on rows in which counter-examples weigh as much as the others",
    {
        arm: {**tuned("nli")["transformer"], "balanced": arm == "balanced"}
        for arm in ("transformer", "balanced")
    },
    3,
    105,
    pairs_settings("nli", MINORITIES["m5"], real=BOTH_LABELS, auc=True),
)

GCN_RATES = {
    name: one["learning_rate"]
    for name in OVERLAP  # its best, where + both was tried at another
    if (one := tuned(name)["gcn"])["learning_rate"] != RATES[name]
}
GCN_USED = CHOICES["gcn_used"]
for name, rate in GCN_RATES.items():
    again = {
        f"both_{number}": {**one, "learning_rate": rate} for number, one in enumerate(tries("both", name))
    }
    register_pairs(
        f"search.rate.{name}",
        name,
        ": the whole method's tries again, at its GCN's best rate",
        again,
        1,
        55,
        pairs_settings(name, MINORITIES["m5"], **DEVELOPMENT),
    )
    register_pairs(
        f"rate.{name}",
        name,
        ": the whole method of Table 1, at its GCN's best rate",
        {"both": again[f"both_{GCN_USED[name]}"]},
        5,
        105,
        pairs_settings(name, MINORITIES["m5"]),
    )

register_pairs(
    "draws.paraphrase",
    "paraphrase",
    ": the random mask drawn four more times, and relative positions",
    {arm: {**tuned("paraphrase")["transformer"], **one} for arm, one in PLACES.items()},
    3,
    115,
    pairs_settings("paraphrase", MINORITIES["m5"]),
)

# The loss as it must be weighed to be obeyed: at the paper's bounds, from early on, or by its multipliers.
OBEYED_TRIES = {
    **{
        f"hinge_{weight}_{name}": {**LOSS, "causal_weight": float(weight), "ramp": ramp}
        for weight in (1, 3, 10)
        for name, ramp in (("early", EARLY), ("late", RAMP))
    },
    **{
        f"auglag_{rho}": {
            "blanket": "auglag",
            "blanket_settings": {"rho": float(rho), "gamma_max": 10.0},
            "causal_weight": 1.0,
            "ramp": EARLY,
        }
        for rho in (1, 10)
    },
}
for name in OVERLAP:
    register_pairs(
        f"obeyed.search.{name}",
        name,
        ": weights and schedules under which maps keep to the bounds, on templates for development",
        {"transformer": tuned(name)["transformer"]}
        | {arm: {"learning_rate": RATES[name], **one} for arm, one in OBEYED_TRIES.items()},
        1,
        55,
        pairs_settings(name, MINORITIES["m5"], **DEVELOPMENT),
    )

COMPARED, INTERCHANGED = {"compared": True}, {"interchanged": True}
DIRECTED = {"parents": 2, "directed": True}
BEYOND = {
    "transformer": {},
    "compared": COMPARED,
    "directed": {**COMPARED, **DIRECTED},
    "interchanged": {**COMPARED, **INTERCHANGED},
    "all": {**COMPARED, **DIRECTED, **INTERCHANGED},
}
BEYOND["held_attention"] = {**BEYOND["all"], "causal_weight": 1.0}
CHOSEN = CHOICES["on_trial"]  # of BEYOND_TRIES the best on both tasks
FEWER = {arm: BEYOND[arm] for arm in ("transformer", "compared", CHOSEN)}  # where counter-examples are rare
BEYOND_TRIES = BEYOND | {
    arm: {**BEYOND["all"], **change}
    for arm, change in {
        "one_parent": {"parents": 1},
        "three_parents": {"parents": 3},
        "own_sentence": {"parents": 1000},  # more than any has tokens
        "undirected": {"directed": False},
    }.items()
}
BLANKET_TRIES = {
    f"blanket_{number}": {**COMPARED, **GCN, **LOSS, "causal_weight": weight, "ramp": RAMP}
    for number, weight in enumerate((0.03, 0.1, 0.3, 1.0))
}  # the paper's method, compared
BLANKETS = {arm: BLANKET_TRIES[arm] for arm in (CHOICES["blanket"],)}
RATE_TRIES = {
    f"rate_{number}": {**COMPARED, "learning_rate": rate}
    for number, rate in enumerate((2.5e-4, 5e-4, 1e-3, 2e-3, 4e-3))
}
APART = {"apart": {**COMPARED, "parents": 1000, "directed": False}}  # sentences read alone, and no more
COMPARED_RATES = {  # the comparison's best, at which all on it is tried
    name: RATE_TRIES[arm]["learning_rate"] for name, arm in CHOICES["compared"].items()
}
SPREADS = CHOICES["spreads"]  # nats, CHOSEN's: in the search, and at 5 % of counter-examples
SPREAD_TRIES = {
    f"spread_{number}": {**BEYOND["all"], "entropy_weight": weight}
    for number, weight in enumerate((0.1, 0.3, 1.0))
}  # maps as spread as CHOSEN's, and no more
SPREAD_USED = CHOICES["spread_used"]


def at_their_rates(name: str, arms: dict[str, dict]) -> dict[str, dict]:
    """Arms on one of OVERLAP, at the comparison's rate where they compare, else at the Transformer's."""
    return {
        arm: {"learning_rate": (COMPARED_RATES if "compared" in one else RATES)[name], **one}
        for arm, one in arms.items()
    }


def register_beyond(
    id: str,
    name: str,
    title: str,
    arms: dict,
    seeds: int,
    cost: float,
    settings: dict,
    notebook: str = EXTENSION,
) -> None:
    """Register an experiment of arms beyond the paper on one of OVERLAP; cost in seconds of one run."""
    register(
        Experiment(
            id=f"causal_transformer.beyond.{id}",
            title=f"{NAMES[name]}: {title}",
            notebook=notebook,
            run=run_beyond,
            arms=at_their_rates(name, arms),
            settings=settings,
            seeds={"quick": 1, "laptop": seeds},
            cost={"quick": 2, "laptop": cost, "gpu": 150},
        )
    )


for name in OVERLAP:
    register_beyond(
        f"search.{name}",
        name,
        "what is tried beyond the paper, on templates for development",
        BEYOND_TRIES | APART | BLANKET_TRIES | RATE_TRIES,
        2,
        50,
        pairs_settings(name, MINORITIES["m5"], BeyondSettings, **DEVELOPMENT),
    )
    for suffix, arms in {"m1": FEWER, "m5": BEYOND | BLANKETS}.items():
        register_beyond(
            f"{name}.{suffix}",
            name,
            "dependencies that are sparse, directed and invariant, "
            f"{100 * MINORITIES[suffix]:g} % of counter-examples",
            arms,
            PAIRED,
            95,
            pairs_settings(name, MINORITIES[suffix], BeyondSettings),
        )
        register_pairs(
            f"beyond.reader.{name}.{suffix}",
            name,
            ": Table 1's BiLSTM on the seeds of what goes beyond the paper, "
            f"{100 * MINORITIES[suffix]:g} % of counter-examples",
            {"bilstm": tuned(name, suffix)["bilstm"]},
            PAIRED,
            60,
            pairs_settings(name, MINORITIES[suffix]),
            notebook=EXTENSION,
        )

    aims = {part: {"entropy_target": aim, "entropy_weight": 1.0} for part, aim in SPREADS[name].items()}
    register_beyond(
        f"spread.search.{name}",
        name,
        "how hard to hold maps as spread as held attention's",
        SPREAD_TRIES,
        2,
        60,
        pairs_settings(name, MINORITIES["m5"], BeyondSettings, **aims["search"], **DEVELOPMENT),
    )
    register_beyond(
        f"spread.{name}",
        name,
        "all three, with maps as spread as held attention's",
        {"spread": SPREAD_TRIES[SPREAD_USED[name]]},
        PAIRED,
        110,
        pairs_settings(name, MINORITIES["m5"], BeyondSettings, **aims["m5"]),
    )

BOTH_HALVES = {arm: (BEYOND | BLANKETS)[arm] for arm in ("compared", CHOSEN, *BLANKETS)}
register_beyond(
    "halves.nli",
    "nli",
    "real pairs of both labels, read by AUC, too, 5 % of counter-examples",
    BOTH_HALVES,
    3,
    115,
    pairs_settings("nli", MINORITIES["m5"], BeyondSettings, real=BOTH_LABELS, auc=True),
)

register_beyond(
    "decay.nli",
    "nli",
    "all three, with and without held attention, at the weight decay of the arms that are told",
    {arm: BEYOND[arm] for arm in ("all", CHOSEN)},
    5,
    155,
    pairs_settings("nli", MINORITIES["m5"], DecayedSettings, real=BOTH_LABELS, auc=True),
    TOLD,
)
register_pairs(
    "beyond.reader.decay.nli",
    "nli",
    ": Table 1's BiLSTM at the weight decay of the arms that are told",
    {"bilstm": tuned("nli", "m5")["bilstm"]},
    5,
    60,
    pairs_settings("nli", MINORITIES["m5"], DecayedPairs, real=BOTH_LABELS, auc=True),
    notebook=TOLD,
)

MATCHED = 1.6  # what a run with held attention costs, in runs of the arm it is added to (CPU-seconds)


def matched(kind, **changes) -> dict:
    """pairs_settings of inference, 5 % counter-examples, for held attention's seconds in every profile."""
    made = pairs_settings("nli", MINORITIES["m5"], kind, steps=round(MATCHED * TEMPLATES["steps"]), **changes)
    return {**made, "gpu": {**GPU, "steps": round(MATCHED * GPU["steps"])}}


register_beyond(
    "compute.nli",
    "nli",
    "all but held attention, for held attention's CPU-seconds",
    {"all": BEYOND["all"]},
    PAIRED,
    155,
    matched(BeyondSettings, real=[]),
)
register_beyond(
    "compute.decay.nli",
    "nli",
    "all but held attention, for held attention's CPU-seconds, at the weight decay of the arms that are told",
    {"all": BEYOND["all"]},
    5,
    155,
    matched(DecayedSettings, real=[]),
    TOLD,
)

STAGES = {
    "overlap": OVERLAP["nli"],
    "paraphrase": OVERLAP["paraphrase"],
    "fact_check": {
        "data": {"n_train": 12_000, "n_validation": 1000, "n_test": 2000, "n_challenge": 2000},
        "quick": {**SMALL, "n_challenge": 8},
    },
}
register(
    Experiment(
        id="causal_transformer.sequence",
        title="Entailment, paraphrase, fact checking, one after the other: what is kept of each",
        run=run_sequence,
        notebook=NOTEBOOK,
        arms={arm: tuned("nli")[arm] for arm in ("bow", "bilstm", "transformer", "both")},
        settings={
            "laptop": SequenceSettings(
                **{**TEMPLATES, "steps": 1200},
                stages=[
                    [task, {**spec["data"], "n_validation": 300, "n_test": 1000, "minority": 0.05}]
                    for task, spec in STAGES.items()
                ],
            ),
            "quick": {
                **QUICK_MODEL,
                **QUICK_TRAINING,
                "probe_rows": 4,
                "stages": [[task, spec["quick"]] for task, spec in STAGES.items()],
            },
            "gpu": GPU,
        },
        seeds={"quick": 1, "laptop": 5},
        cost={"quick": 3, "laptop": 180, "gpu": 300},
    )
)

ATTENTIONS = {
    "full": {},
    **{kind: {"pattern": kind} for kind in ("band", "dilated", "random")},
    "star": {"pattern": "star", "pattern_width": 1},  # a ring and its hub; the band has the hub, and is wider
    "block": {"pattern": "block", "pattern_width": 8},
    "relative": {"relative": 8},
    "both": TABLE_1["both"],
}
register(
    Experiment(
        id="causal_transformer.snli",
        title="SNLI-10k: the Markov blanket against attention that is sparse from the start",
        run=run_pairs,
        notebook="12_translation_and_inference",
        arms=ATTENTIONS,
        settings={
            "laptop": PairsSettings(
                task="snli",
                data={"source": "snli", "n_validation": 900},
                cells=["test"],
                mapped=["test"],
                vocabulary=4000,
                batch=64,
                steps=1200,
                learning_rate=1e-3,
            ),
            "quick": {**QUICK, "data": {"source": "generator", **SMALL}},
            "gpu": GPU,
        },
        seeds={"quick": 1, "laptop": 3},
        cost={"quick": 2, "laptop": 150, "gpu": 120},
    )
)

register(
    Experiment(
        id="causal_transformer.readers",
        title="SNLI-10k: what half of a pair tells of its label",
        run=run_readers,
        notebook="12_translation_and_inference",
        arms={
            "commonest": {"column": ""},
            "premise": {"column": "sentence1"},
            "hypothesis": {"column": "sentence2"},
        },
        settings={
            "laptop": ReaderSettings(),
            "quick": {"data": {"source": "generator", **SMALL}},
        },
        seeds={"laptop": 1},
        cost={"laptop": 10},
    )
)

TABLE_2 = {
    "vanilla": {},
    "gcn": GCN,
    "loss_encoder": LOSS,
    "loss_both": {**LOSS, "blanket_in": ["encoder", "decoder"]},
    "both": {**GCN, **LOSS, "blanket_in": ["encoder", "decoder"]},
}
LONGER_TRANSLATION = 2.5  # times the steps of Table 2: 3,000


def register_translation(
    name: str, direction: str, title: str, arms: dict, cost: float, times: float = 1.0
) -> None:
    """Register causal_transformer.translation.<name>: arms on Multi30k, with so many times the steps."""
    multi30k = {"source": "multi30k", "direction": direction}
    laptop = TranslationSettings(data={**multi30k, "max_words": 10})
    gpu = {**GPU, "decoder_layers": 4, "vocabulary": 8000, "data": multi30k, "longest": 80}
    register(
        Experiment(
            id=f"causal_transformer.translation.{name}",
            title=f"Multi30k, {' to '.join(direction.upper().split('-'))}, {title}",
            run=run_translation,
            notebook="12_translation_and_inference",
            arms=arms,
            settings={
                "laptop": replace(laptop, steps=round(times * laptop.steps)),
                "quick": {
                    **QUICK_MODEL,
                    **QUICK_TRAINING,
                    "decoder_layers": 1,
                    "cells": ["test"],
                    "test_rows": 2,
                    "beams": 2,
                    "longest": 4,
                    "map_rows": 2,
                    "data": {**SMALL, "source": "generator", "direction": direction},
                },
                "gpu": {**gpu, "steps": round(times * GPU["steps"])},
            },
            seeds={"quick": 1, "laptop": 3},
            cost={"quick": 2, "laptop": cost, "gpu": 400 * times},
        )
    )


for direction in ("en-de", "de-en"):
    register_translation(direction.replace("-", "_"), direction, "short sentences", TABLE_2, 250)
register_translation(
    "longer",
    "en-de",
    "short sentences, in 3,000 steps",
    {name: TABLE_2[name] for name in ("vanilla", "both")},
    600,
    LONGER_TRANSLATION,
)

DEEPER = {"encoder_layers": 2}
STRICT = {
    **LOSS,
    "self_loop": False,
}  # asked for more than is measured, so that the bounds are not only neared
FAN_IN = {
    "transformer": {},
    **{f"blanket_{weight}": {**STRICT, "causal_weight": float(weight)} for weight in (10, 100)},
    **{
        f"apart_{weight}": {**STRICT, "blanket_settings": {"apart": True}, "causal_weight": float(weight)}
        for weight in (10, 100)
    },
    **{f"entropy_{weight}": {**ENTROPY, "causal_weight": float(weight)} for weight in (1, 10)},
    "random": {"pattern": "random"},
}
DECIDING = ("transformer", "blanket_100", "apart_100", "entropy_10", "random")  # what is compared
DEEP = {name: FAN_IN[name] | DEEPER for name in ("transformer", "blanket_100", "apart_100", "entropy_10")}
register(
    Experiment(
        id="causal_transformer.fan_in",
        title="One key against many weak cues: what a bound on attention keeps a model from",
        run=run_fan_in,
        notebook="14_when_bounds_help",
        arms=FAN_IN | {f"{name}_deep": one for name, one in DEEP.items()},
        settings={
            "laptop": FanInSettings(),
            "quick": {
                "cues": [1, 3],
                "train_rows": 20,
                "test_rows": 4,
                "map_rows": 4,
                "d_model": 8,
                "d_ff": 8,
                "batch": 4,
                "steps": 2,
                "evaluate_every": 1,
            },
            "gpu": {},
        },
        seeds={"quick": 1, "laptop": 5},
        more_seeds={"laptop": dict.fromkeys(DECIDING, 10)},
        cost={"quick": 2, "laptop": 100, "gpu": 60},
    )
)
