"""Which arms, seeds and settings make ICLM's tables and figures."""

from dataclasses import asdict, dataclass, field

from causalnb.experiments.iclm.base import run_base
from causalnb.experiments.iclm.clusters import run_clusters
from causalnb.experiments.iclm.continual import run_continual
from causalnb.experiments.iclm.models import base_file
from causalnb.experiments.iclm.runs import run_reasoning
from causalnb.experiments.iclm.text import memory_gib, run_text, seconds
from causalnb.lab import weights
from causalnb.lab.bases import TINY
from causalnb.lab.registry import Experiment, register


def digest(hidden_size: int) -> str:
    """The first characters of the base's sha256, "" where it was not made yet."""
    return weights.digest(base_file(hidden_size))[:16]


QUICK_MODEL = {"hidden_size": 16, "intermediate_size": 32, "layers": 2, "heads": 2}
GPU_MODEL = {"hidden_size": 512, "intermediate_size": 2048, "layers": 8, "heads": 8, "bf16": True}
LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
ATTENTION = LINEAR[:4]


@dataclass(frozen=True)
class Settings:
    """What all arms of ICLM have."""

    hidden_size: int = 96
    intermediate_size: int = 384
    layers: int = 4
    heads: int = 4
    bf16: bool = False
    base: str = field(default_factory=lambda: digest(96))
    pretrained: bool = True
    lora_rank: int = 16  # printed: 8, on the maps of attention, with which this base learns too little
    lora_dropout: float = 0.0  # published: 0.05, which takes a third more time
    lora_targets: list = field(default_factory=lambda: LINEAR)
    num_modules: int = 2
    invariant: bool = True
    router: str = "vq"
    router_settings: dict = field(
        default_factory=lambda: {"init": "data"}
    )  # from a uniform start all prompts may go to one module
    router_trainable: bool = True
    routed_by: str = "router"
    fit_rows: int = 500
    aggregation: str = "latent"
    aggregation_settings: dict = field(default_factory=dict)
    weights: dict = field(default_factory=dict)
    direction: str = "forward"
    clamp: float | None = None
    norm_over: str = "labels"
    formats: list = field(default_factory=lambda: ["text", "symbolic"])
    batch: int = 16
    steps: int = 900
    length: int = 1  # of training, in times of these steps
    by_length: bool = False  # whether rows of like lengths meet in a batch
    learning_rate: float = 3e-3
    weight_decay: float = 0.0  # it would shrink modules that are frozen or idle
    evaluate_every: int = 50
    train_rows: int = 4000
    trained_part: str = "train"
    validation_rows: int = 24
    test_rows: int = 1000
    alone_choices: int = 250
    source: str = "file"
    answer_set: str = "published"
    split_seed: int = 42
    matched: int = 0
    map_rows: int = 0
    unfrozen: bool = False


@dataclass(frozen=True)
class TaskSettings(Settings):
    """One arm on one family of tasks."""

    family: str = "acre"
    regime: str = "IID"
    cells: list = field(default_factory=lambda: ["IID", "Comp", "Sys"])


@dataclass(frozen=True)
class ContinualSettings(Settings):
    """ACRE, then RAVEN; `acre` and `raven` hold what differs between them."""

    num_modules: int = 4
    keep: bool = False
    used_share: float = 0.05
    count_rows: int = 200
    acre: dict = field(default_factory=dict)
    raven: dict = field(default_factory=dict)


@dataclass(frozen=True)
class ClusterSettings:
    """Inputs of one family's cells, or of six data sets, as the bare base sees them."""

    hidden_size: int = 96
    intermediate_size: int = 384
    layers: int = 4
    heads: int = 4
    bf16: bool = False
    family: str = "acre"
    regime: str = "IID"
    cells: list = field(default_factory=lambda: ["IID", "Comp", "Sys"])
    base: str = field(default_factory=lambda: digest(96))
    pretrained: bool = True
    map: str = "cells"
    test_rows: int = 100
    longest: int = 240
    source: str = "file"
    split_seed: int = 42
    answer_set: str = "published"
    matched: int = 0


@dataclass(frozen=True)
class TextSettings(TaskSettings):
    """The source's own prompts, with a base by name."""

    lora_rank: int = 8
    lora_targets: list = field(default_factory=lambda: ATTENTION)
    lora_dropout: float = 0.05
    base_model: str = TINY
    bits: int = 16
    checkpointing: bool = False
    hidden_size: int = 32
    layers: int = 2
    heads: int = 2
    vocabulary: int = 400
    open: bool = False
    answer_tokens: int = 4
    max_length: int = 800
    batch: int = 4
    steps: int = 10
    evaluate_every: int = 10
    train_rows: int = 40
    test_rows: int = 4
    source: str = "generator"


@dataclass(frozen=True)
class BaseSettings:
    """The base, before any task."""

    hidden_size: int = 96
    intermediate_size: int = 384
    layers: int = 4
    heads: int = 4
    bf16: bool = False
    rows: int = 120_000
    steps: int = 12_000
    batch: int = 64
    learning_rate: float = 2e-3
    evaluate_every: int = 500
    evaluation_rows: int = 600


QUICK = {
    **QUICK_MODEL,
    "pretrained": False,
    "base": "",
    "lora_rank": 2,
    "batch": 4,
    "steps": 2,
    "evaluate_every": 1,
    "train_rows": 4,
    "validation_rows": 2,
    "test_rows": 4,
    "alone_choices": 2,
    "source": "generator",
    "fit_rows": 8,
}
GPU = {
    **GPU_MODEL,
    "base": digest(GPU_MODEL["hidden_size"]),
    "batch": 128,
    "steps": 600,
    "learning_rate": 5e-4,
}
FAMILIES = {
    "acre": {"family": "acre", "regime": "IID", "cells": ["IID", "Comp", "Sys"]},
    "raven": {"family": "raven", "regime": "center", "cells": ["center", "four", "in_center"]},
}
TRAINED = {"acre": {}, "raven": {"steps": 1000, "learning_rate": 5e-3}}
ALONE_TOO = {"acre": {}, "raven": {"alone_choices": Settings.test_rows}}  # as many as of the model
NONE_ALONE = {"acre": {}, "raven": {"alone_choices": 0}}  # where no table has a row for it
ALONE = {
    "num_modules": 1,
    "invariant": False,
    "aggregation": "own",
    "routed_by": "nobody",
    "router_trainable": False,
}
MAPS = {"map_rows": 100}
OFTEN = {"evaluate_every": 10}  # where independence is followed, which falls at once
FOLLOWED = {**MAPS, **OFTEN}
WIDE = {**ALONE, "lora_rank": 67, "learning_rate": 2e-3}  # as many parameters as ICLM trains
TRIES = {  # for the true shifts, as many for each side; tried on MIRRORED
    "finetuned_wide": [
        WIDE,
        {**WIDE, "learning_rate": 1e-3},
        {**WIDE, "learning_rate": 4e-3},
        {**WIDE, "lora_dropout": 0.05},
    ],
    "strong": [
        {},
        {"aggregation_settings": {"start": "base"}},
        {"aggregation": "logit"},
        {"aggregation": "probability"},
    ],
}
RATES = {"5e-4": 5e-4, "1e-3": 1e-3, "2e-3": 2e-3, "4e-3": 4e-3}
SIDES = {  # ranks at which both train as many parameters: 0.31 and 0.59 million
    "single": (ALONE, (35, 67)),
    "iclm": ({"aggregation_settings": {"start": "base"}}, (8, 16)),
}
FRONTIER = {
    f"{side}_r{rank}_{name}": {**settings, "lora_rank": rank, "learning_rate": rate}
    for side, (settings, ranks) in SIDES.items()
    for rank in ranks
    for name, rate in RATES.items()
}
USED = {"acre": {"finetuned_wide": 0, "strong": 0}, "raven": {"finetuned_wide": 1, "strong": 1}}  # the best
TABLE_1 = {
    "base": {**ALONE, "steps": 0},
    "finetuned": ALONE,
    "finetuned_wide": WIDE,
    "iclm": FOLLOWED,
    "no_invariant": {"invariant": False, "aggregation": "own"},
    "no_invariant_head": {"invariant": False},
    "oracle": {**ALONE, "num_modules": 2, "routed_by": "format"},
}
CLAIMED = dict.fromkeys(("iclm", "finetuned", "oracle"), 8)  # the arms that claims compare
VARIANTS = {
    "weighted": {"router": "distance", "router_settings": {}},
    "kmeans": {"router": "kmeans", "router_settings": {}, "router_trainable": False},
    "logit": {"aggregation": "logit", **OFTEN},
    "probability": {"aggregation": "probability", **OFTEN},
}
CONTROLS = {
    "untrained": {**FOLLOWED, "pretrained": False, "base": ""},
    "matched": {**MAPS, "matched": 8},
    "uniform_start": {"router_settings": {}},
}
LOSSES = {  # and a router that is not trained: on one family
    "no_information": {"weights": {"epsilon": 0.0}},
    "aligned": {"weights": {"epsilon": 0.0, "delta": 0.1}},
    "frozen_router": {"router_trainable": False},
}
GATE = {  # what one module can learn: with the paper's adapters, in more steps, with every weight
    "paper_lora": {**ALONE, "lora_rank": 8, "lora_targets": ATTENTION},
    "longer": {**ALONE, "length": 2},
    "all_weights": {**ALONE, "unfrozen": True, "learning_rate": 1e-3},
}
SHIFTS = {  # true ones: no training problem has what these ask for
    "acre_comp": ("acre", {"regime": "comp_true", "cells": ["comp_iid", "comp_true"]}),
    "acre_sys": ("acre", {"regime": "sys_true", "cells": ["sys_iid", "sys_true"]}),
    "raven": ("raven", {"answer_set": "balanced", "source": "generator"}),
}
MIRRORED = {  # shifts for development: what the true ones ask for is trained on, and the reverse asked for
    "acre": {"regime": "comp_true", "trained_part": "test", "cells": ["comp_true", "comp_iid"]},
    "raven": {"regime": "in_center", "cells": ["in_center", "center"], "answer_set": "balanced"},
}
PROFILES = {"quick": QUICK, "gpu": GPU}
NOTEBOOK = "32_reasoning"


def add(
    id: str,
    title: str,
    family: str,
    arms: dict,
    seeds: int,
    cost: float,
    notebook: str = NOTEBOOK,
    more: dict[str, int] | None = None,
    **changes,
) -> None:
    """Register an experiment on a family, its laptop settings with `changes`; cost in seconds of one run.

    more: arms with more seeds at laptop, and how many.
    """
    register(
        Experiment(
            id=id,
            title=title,
            run=run_reasoning,
            notebook=notebook,
            arms=arms,
            settings={
                "laptop": TaskSettings(**{**FAMILIES[family], **TRAINED[family], **changes}),
                **PROFILES,
            },
            seeds={"quick": 1, "laptop": seeds},
            more_seeds={"laptop": more or {}},
            cost={"quick": 5, "laptop": cost, "gpu": 300},
        )
    )


for family, name, cost in (("acre", "ACRE", 300), ("raven", "RAVEN", 250)):
    add(
        f"iclm.{family}",
        f"{name} in two formats: one module, two, an invariant one, an oracle",
        family,
        {**TABLE_1, "iclm": FOLLOWED | ALONE_TOO[family]},
        3,
        cost,
        more=CLAIMED,
    )
    add(f"iclm.gate.{family}", f"{name}: the paper's adapters, and all weights", family, GATE, 3, cost)
    add(
        f"iclm.variants.{family}",
        f"{name}: routers and aggregations",
        family,
        VARIANTS,
        3,
        cost,
        "34_routing_and_variants",
        {"weighted": 5, "kmeans": 5} if family == "raven" else {},
        **NONE_ALONE[family],
    )
    add(
        f"iclm.controls.{family}",
        f"{name}: an untrained base, equal lengths, other losses",
        family,
        CONTROLS | (LOSSES if family == "raven" else {}),
        3,
        cost,
        **NONE_ALONE[family],
    )
for name, (family, changes) in SHIFTS.items():
    said = f"A true shift, {name.replace('_', ' ')}"
    add(
        f"iclm.shift.{name}",
        f"{said}: one module or ICLM at its strongest",
        family,
        {
            arm: TRIES[arm][number] | (ALONE_TOO[family] if not number else NONE_ALONE[family])
            for arm, number in USED[family].items()
        },
        6,
        300,
        **changes,
    )  # six: see sign_flip; try 0 of ICLM is Table 1's, which has rows for modules alone
    add(
        f"iclm.shift_rows.{name}",
        f"{said}: the rows of Table 1",
        family,
        {arm: TABLE_1[arm] for arm in ("base", "finetuned", "no_invariant", "oracle")}
        | ({"iclm": ALONE_TOO[family]} if USED[family]["strong"] else {}),  # else it is the arm strong
        3,
        220,
        **changes,
    )
for family, changes in MIRRORED.items():
    add(
        f"iclm.search.{family}",
        f"{family.upper()}: what is tried for true shifts, on mirrored ones",
        family,
        {f"{arm}_{number}": one for arm, some in TRIES.items() for number, one in enumerate(some)},
        1,
        300,
        **{"source": "generator", "split_seed": 4242, "test_rows": 500, **changes},
    )
add(
    "iclm.frontier.raven",
    "RAVEN: rates and sizes of one module and of ICLM, on the mirrored shift",
    "raven",
    FRONTIER,
    1,
    500,
    **{
        "source": "generator",
        "split_seed": 4242,
        "test_rows": 500,
        "by_length": True,
        "alone_choices": 0,
        **MIRRORED["raven"],
    },
)

register(
    Experiment(
        id="iclm.continual",
        title="ACRE, then RAVEN: what four modules keep of the first, and one",
        run=run_continual,
        notebook="33_continual_learning",
        arms={"iclm": MAPS, "kept": {"keep": True}, "finetuned": ALONE},
        settings={
            "laptop": ContinualSettings(
                **{family: FAMILIES[family] | TRAINED[family] | ALONE_TOO[family] for family in FAMILIES}
            ),
            "quick": {**QUICK, **FAMILIES, "count_rows": 4},
            "gpu": {**GPU, **FAMILIES},
        },
        seeds={"quick": 1, "laptop": 3},
        more_seeds={"laptop": dict.fromkeys(("iclm", "finetuned"), 5)},  # which claims 14 and 15 compare
        cost={"quick": 10, "laptop": 900, "gpu": 600},
    )
)
register(
    Experiment(
        id="iclm.clusters",
        title="Where the bare base sees the inputs of six data sets",
        run=run_clusters,
        notebook="34_routing_and_variants",
        arms={
            "acre": {**FAMILIES["acre"], "map": "cells"},
            "raven": {**FAMILIES["raven"], "map": "cells"},
            "six": {"map": "six"},
        },
        settings={
            "laptop": ClusterSettings(),
            "quick": {**QUICK_MODEL, "pretrained": False, "base": "", "test_rows": 8, "source": "generator"},
            "gpu": {**GPU_MODEL, "base": digest(GPU_MODEL["hidden_size"])},
        },
        seeds={"quick": 1, "laptop": 1},
        cost={"quick": 3, "laptop": 20, "gpu": 20},
    )
)
PAPER = {  # as printed; 3 epochs of 2 x 800 rows, rate from the published configuration
    "router_settings": {},
    "base_model": "meta-llama/Llama-2-7b-hf",
    "bf16": True,
    "checkpointing": True,
    "max_length": 512,
    "batch": 16,
    "steps": 300,
    "evaluate_every": 300,
    "learning_rate": 5e-4,
    "train_rows": 800,
    "test_rows": 1000,
    "source": "file",
}
for family in FAMILIES:
    laptop = TextSettings(**FAMILIES[family])
    register(
        Experiment(
            id=f"iclm.text.{family}",
            title=f"{family.upper()} in the source's own prompts, with a base by name",
            run=run_text,
            notebook=NOTEBOOK,
            arms={
                "finetuned": ALONE,
                "iclm": {},
                "no_invariant": TABLE_1["no_invariant"],
                "four_bit": {"bits": 4},
            },
            settings={
                "laptop": laptop,
                "quick": {
                    "steps": 2,
                    "evaluate_every": 1,
                    "batch": 2,
                    "train_rows": 4,
                    "test_rows": 2,
                    "lora_rank": 2,
                },
                "paper": PAPER,
            },
            seeds={"quick": 1, "laptop": 1, "paper": 1},
            cost={"quick": 3, "laptop": 20, "paper": seconds({**asdict(laptop), **PAPER})["total"]},
            memory={"paper": memory_gib({**asdict(laptop), **PAPER})["total"]},
        )
    )

register(
    Experiment(
        id="iclm.base",
        title="The small language model that all modules share, before any task",
        run=run_base,
        notebook=NOTEBOOK,
        arms={"base": {}},
        settings={
            "laptop": BaseSettings(),
            "quick": {
                **QUICK_MODEL,
                "rows": 16,
                "steps": 2,
                "batch": 8,
                "evaluate_every": 1,
                "evaluation_rows": 8,
            },
            "gpu": {
                **GPU_MODEL,
                "rows": 1_000_000,
                "steps": 20_000,
                "batch": 256,
                "learning_rate": 5e-4,
                "evaluate_every": 2000,
            },
        },
        seeds={"laptop": 1},
        cost={"quick": 3, "laptop": 3000, "gpu": 900},
    )
)
