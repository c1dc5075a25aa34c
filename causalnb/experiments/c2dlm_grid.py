"""Which arms, seeds and settings make C2DLM's tables and figures; this file is in no `code`.

Settings are part of a result's own hash, the pre-trained weights included: a new arm makes no old result stale.
"""

from hashlib import sha256

from causalnb.experiments.c2dlm_models import MODELS, base_file
from causalnb.experiments.c2dlm_runs import run_task
from causalnb.lab.registry import Experiment, register
from causalnb.tasks.cot_order_perturb import MODES

CODE = (
    "causalnb.attention",
    "causalnb.c2dlm.diffusion",
    "causalnb.c2dlm.sampling",
    "causalnb.c2dlm.graph",
    "causalnb.c2dlm.weighted",
    "causalnb.c2dlm.forms",
    "causalnb.c2dlm.reattention",
    "causalnb.c2dlm.model",
    "causalnb.tasks.words",
    "causalnb.lab.training",
    "causalnb.experiments.c2dlm_models",
    "causalnb.experiments.c2dlm_tasks",
    "causalnb.experiments.c2dlm_runs",
)
TASK_CODE = {
    "cot": ("causalnb.tasks.cot_order_perturb",),
    "sudoku": ("causalnb.tasks.sudoku4",),
    "stg": ("causalnb.tasks.stg",),
}


def digests(hidden_size: int) -> dict[str, str]:
    """The first characters of the sha256 of the two bases, "" for one that was not made yet."""
    files = {kind: base_file(kind, hidden_size) for kind in MODELS}
    return {kind: sha256(file.read_bytes()).hexdigest()[:16] if file.is_file() else ""
            for kind, file in files.items()}


LAPTOP = {
    "model": "diffusion",
    "graph": "none",
    "pretrained": True,
    "base": digests(128),
    "hidden_size": 128,
    "layers": 4,
    "heads": 4,
    "lora_rank": 32,
    "batch": 32,
    "learning_rate": 2e-3,
    "alpha": 5.0,
    "lam": 10.0,
    "gamma": 1.0,
    "gamma_schedule": True,
    "norm_index": "key",
    "step_rule": "no_lookahead",
    "over_layers": "map",
    "split_seed": 42,
    "bf16": False,
}
QUICK = {"steps": 2, "batch": 4, "evaluate_every": 1, "train_rows": 8, "test_rows": 4, "validation_rows": 2,
         "lora_rank": 2}
GPU = {"base": digests(512), "hidden_size": 512, "layers": 10, "heads": 8, "lora_rank": 64, "batch": 128,
       "learning_rate": 5e-4, "bf16": True}

COT = {**LAPTOP, "task": "cot", "mode": "normal", "scope": "result", "alpha": 3.0, "lam": 100.0,
       "train_rows": 2000, "test_rows": 500, "validation_rows": 200, "steps": 1500, "evaluate_every": 150,
       "gen_length": 29, "block_length": 29, "decode_steps": 29}
SUDOKU = {**LAPTOP, "task": "sudoku", "source": "file", "blanks": 8,
          "train_rows": 5000, "test_rows": 500, "validation_rows": 200, "steps": 800, "evaluate_every": 100,
          "gen_length": 17, "block_length": 17, "decode_steps": 17}
STG = {**LAPTOP, "task": "stg", "size": "S",
       "train_rows": 400, "test_rows": 400, "validation_rows": 200, "steps": 500, "evaluate_every": 50,
       "gen_length": 2, "block_length": 2, "decode_steps": 2}
QUICKS = {"cot": {**QUICK, "decode_steps": 2}, "sudoku": {**QUICK, "source": "generator", "decode_steps": 2},
          "stg": QUICK}
