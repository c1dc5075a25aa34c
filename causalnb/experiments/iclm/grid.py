"""Which arms, seeds and settings make ICLM's tables and figures."""

from hashlib import sha256

from causalnb.experiments.iclm.base import run_base
from causalnb.experiments.iclm.clusters import run_clusters
from causalnb.experiments.iclm.continual import run_continual
from causalnb.experiments.iclm.models import base_file
from causalnb.experiments.iclm.runs import run_reasoning
from causalnb.experiments.iclm.text import memory_gib, run_text, seconds
from causalnb.lab.bases import TINY
from causalnb.lab.registry import Experiment, register


def digest(hidden_size: int) -> str:
    """The first characters of the base's sha256, "" where it was not made yet."""
    file = base_file(hidden_size)
    return sha256(file.read_bytes()).hexdigest()[:16] if file.is_file() else ""


MODEL = {"hidden_size": 96, "intermediate_size": 384, "layers": 4, "heads": 4, "bf16": False}
QUICK_MODEL = {"hidden_size": 16, "intermediate_size": 32, "layers": 2, "heads": 2}
GPU_MODEL = {"hidden_size": 512, "intermediate_size": 2048, "layers": 8, "heads": 8, "bf16": True}
LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
ATTENTION = LINEAR[:4]
LAPTOP = {
    **MODEL,
    "base": digest(MODEL["hidden_size"]),
    "pretrained": True,
    "lora_rank": 16,  # printed: 8, on the maps of attention, with which this base learns too little
    "lora_dropout": 0.0,  # published: 0.05, which takes a third more time
    "lora_targets": LINEAR,
    "num_modules": 2,
    "invariant": True,
    "router": "vq",
    "router_settings": {"init": "data"},  # from a uniform start all prompts may go to one module
    "router_trainable": True,
    "routed_by": "router",
    "fit_rows": 500,
    "aggregation": "latent",
    "aggregation_settings": {},
    "weights": {},
    "direction": "forward",
    "clamp": None,
    "norm_over": "labels",
    "formats": ["text", "symbolic"],
    "batch": 16,
    "steps": 900,
    "length": 1,  # of training, in times of these steps
    "learning_rate": 3e-3,
    "weight_decay": 0.0,  # it would shrink modules that are frozen or idle
    "evaluate_every": 50,
    "train_rows": 4000,
    "trained_part": "train",
    "validation_rows": 24,
    "test_rows": 1000,
    "alone_choices": 250,
    "source": "file",
    "answer_set": "published",
    "split_seed": 42,
    "matched": 0,
    "map_rows": 0,
    "unfrozen": False,
}
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
ALONE_TOO = {"acre": {}, "raven": {"alone_choices": LAPTOP["test_rows"]}}  # as many as of the model
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
    id: str, title: str, family: str, arms: dict, seeds: int, cost: float, notebook: str = NOTEBOOK, **changes
) -> None:
    """Register an experiment on a family, its laptop settings with `changes`; cost in seconds of one run."""
    register(
        Experiment(
            id=id,
            title=title,
            run=run_reasoning,
            notebook=notebook,
            arms=arms,
            settings={"laptop": {**LAPTOP, **FAMILIES[family], **TRAINED[family], **changes}, **PROFILES},
            seeds={"quick": 1, "laptop": seeds},
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

register(
    Experiment(
        id="iclm.continual",
        title="ACRE, then RAVEN: what four modules keep of the first, and one",
        run=run_continual,
        notebook="33_continual_learning",
        arms={"iclm": MAPS, "kept": {"keep": True}, "finetuned": ALONE},
        settings={
            "laptop": {
                **LAPTOP,
                "num_modules": 4,
                "keep": False,
                "used_share": 0.05,
                "count_rows": 200,
                **{family: FAMILIES[family] | TRAINED[family] | ALONE_TOO[family] for family in FAMILIES},
            },
            "quick": {**QUICK, **FAMILIES, "count_rows": 4},
            "gpu": {**GPU, **FAMILIES},
        },
        seeds={"quick": 1, "laptop": 3},
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
            "laptop": {
                **MODEL,
                **FAMILIES["acre"],
                "base": digest(MODEL["hidden_size"]),
                "pretrained": True,
                "map": "cells",
                "test_rows": 100,
                "longest": 240,
                "source": "file",
                "split_seed": 42,
                "answer_set": "published",
                "matched": 0,
            },
            "quick": {**QUICK_MODEL, "pretrained": False, "base": "", "test_rows": 8, "source": "generator"},
            "gpu": {**GPU_MODEL, "base": digest(GPU_MODEL["hidden_size"])},
        },
        seeds={"quick": 1, "laptop": 1},
        cost={"quick": 3, "laptop": 20, "gpu": 20},
    )
)
TEXT = {
    **LAPTOP,
    "lora_rank": 8,
    "lora_targets": ATTENTION,
    "lora_dropout": 0.05,
    "base_model": TINY,
    "bits": 16,
    "checkpointing": False,
    "hidden_size": 32,
    "layers": 2,
    "heads": 2,
    "vocabulary": 400,
    "open": False,
    "answer_tokens": 4,
    "max_length": 800,
    "batch": 4,
    "steps": 10,
    "evaluate_every": 10,
    "train_rows": 40,
    "test_rows": 4,
    "source": "generator",
}
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
    laptop = {**TEXT, **FAMILIES[family]}
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
            cost={"quick": 3, "laptop": 20, "paper": seconds({**laptop, **PAPER})["total"]},
            memory={"paper": memory_gib({**laptop, **PAPER})["total"]},
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
            "laptop": {
                **MODEL,
                "rows": 120_000,
                "steps": 12_000,
                "batch": 64,
                "learning_rate": 2e-3,
                "evaluate_every": 500,
                "evaluation_rows": 600,
            },
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
