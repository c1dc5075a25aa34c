"""Which arms, seeds and settings make ICLM's tables and figures; this file is in no `code`.

Settings are part of a result's own hash, the pre-trained base included, so that a new arm makes no old result
stale.
"""

from hashlib import sha256

from causalnb.experiments.iclm_base import run_base
from causalnb.experiments.iclm_models import base_file
from causalnb.experiments.iclm_runs import run_reasoning
from causalnb.lab.registry import Experiment, register

ROOM = tuple(f"causalnb.iclm.{name}" for name in (
    "adapters", "aggregation", "configuration", "independence", "model", "routing"))
TASKS = tuple(f"causalnb.tasks.{name}" for name in ("acre", "raven", "pvr", "arc", "icl_rows", "icl_words"))
CODE = (*ROOM, *TASKS, "causalnb.lab.training", "causalnb.experiments.iclm_models",
        "causalnb.experiments.iclm_tasks", "causalnb.experiments.iclm_runs")


def digest(hidden_size: int) -> str:
    """The first characters of the base's sha256, "" where it was not made yet."""
    file = base_file(hidden_size)
    return sha256(file.read_bytes()).hexdigest()[:16] if file.is_file() else ""


MODEL = {"hidden_size": 96, "intermediate_size": 384, "layers": 4, "heads": 4, "bf16": False}
QUICK_MODEL = {"hidden_size": 16, "intermediate_size": 32, "layers": 2, "heads": 2}
GPU_MODEL = {"hidden_size": 512, "intermediate_size": 2048, "layers": 8, "heads": 8, "bf16": True}
LAPTOP = {
    **MODEL,
    "base": digest(MODEL["hidden_size"]),
    "pretrained": True,
    "lora_rank": 8,
    "lora_dropout": 0.05,
    "lora_targets": ["q_proj", "k_proj", "v_proj", "o_proj"],
    "num_modules": 2,
    "invariant": True,
    "router": "vq",
    "router_trainable": True,
    "routed_by": "router",
    "aggregation": "latent",
    "formats": ["text", "symbolic"],
    "batch": 32,
    "steps": 600,
    "learning_rate": 5e-3,
    "evaluate_every": 20,
    "train_rows": 4000,
    "validation_rows": 24,
    "test_rows": 1000,
    "choice_rows": 250,
    "source": "file",
    "answer_set": "published",
    "split_seed": 42,
    "matched": 0,
}
QUICK = {**QUICK_MODEL, "pretrained": False, "base": "", "lora_rank": 2, "batch": 4, "steps": 2,
         "evaluate_every": 1, "train_rows": 4, "validation_rows": 2, "test_rows": 4, "choice_rows": 2,
         "source": "generator"}
GPU = {**GPU_MODEL, "base": digest(GPU_MODEL["hidden_size"]), "batch": 128, "learning_rate": 5e-4}
FAMILIES = {
    "acre": {"family": "acre", "regime": "IID", "cells": ["IID", "Comp", "Sys"]},
    "raven": {"family": "raven", "regime": "center", "cells": ["center", "four", "in_center"]},
}
ALONE = {"num_modules": 1, "invariant": False, "aggregation": "own", "routed_by": "nobody",
         "router_trainable": False}
ARMS = {
    "base": {**ALONE, "steps": 0},
    "finetuned": ALONE,
    "iclm": {},
    "no_invariant": {"invariant": False, "aggregation": "own"},
    "oracle": {**ALONE, "num_modules": 2, "routed_by": "format"},
}


def add(id: str, title: str, family: str, arms: dict, seeds: int, cost: float, notebook: str,
        **changes) -> None:
    """Register an experiment on a family, its laptop settings with `changes`; cost in seconds of one run."""
    register(Experiment(
        id=id,
        title=title,
        run=run_reasoning,
        notebook=notebook,
        code=CODE,
        arms=arms,
        settings={"laptop": {**LAPTOP, **FAMILIES[family], **changes}, "quick": QUICK, "gpu": GPU},
        seeds={"quick": 1, "laptop": seeds},
        cost={"quick": 5, "laptop": cost, "gpu": 300},
    ))


for family, name in (("acre", "ACRE"), ("raven", "RAVEN")):
    add(f"iclm.{family}", f"{name} in two formats: one module, two, an invariant one, an oracle", family,
        ARMS, 5, 200, "32_reasoning")

register(Experiment(
    id="iclm.base",
    title="The small language model that all modules share, before any task",
    run=run_base,
    notebook="32_reasoning",
    code=(*TASKS, "causalnb.tasks.icl_pretraining", "causalnb.lab.training",
          "causalnb.experiments.iclm_models", "causalnb.experiments.iclm_base"),
    arms={"base": {}},
    settings={
        "laptop": {**MODEL, "rows": 120_000, "steps": 12_000, "batch": 64, "learning_rate": 2e-3,
                   "evaluate_every": 500, "evaluation_rows": 600},
        "quick": {**QUICK_MODEL, "rows": 16, "steps": 2, "batch": 8, "evaluate_every": 1,
                  "evaluation_rows": 8},
        "gpu": {**GPU_MODEL, "rows": 1_000_000, "steps": 20_000, "batch": 256, "learning_rate": 5e-4,
                "evaluate_every": 2000},
    },
    seeds={"laptop": 1},
    cost={"quick": 3, "laptop": 3000, "gpu": 900},
))
