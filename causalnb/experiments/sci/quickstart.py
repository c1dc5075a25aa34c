"""The guide's quick start as an experiment: its two commands, one after the other."""

from causalnb.apps.sci import Settings, evaluate_sci, load_sci, train_sci
from causalnb.lab.registry import Experiment, Run, register


def run_quickstart(run: Run) -> dict:
    """The two commands, one after the other."""
    config = {**run.config, "max_steps": run.config["steps"]}
    settings = Settings(
        **{name: config[name] for name in Settings.__dataclass_fields__ if name in config},
        seed=run.seed,
    )
    folder = run.folder / "model"
    history = train_sci(settings, folder, progress=run.progress, device=run.device)["history"]
    asked = settings.dataset, settings.split, config["rows"], config["decoded"], run.device
    found = evaluate_sci(folder, *asked)
    model = load_sci(folder)[0]
    whole, base = (sum(p.numel() for p in part.parameters()) for part in (model, model.base))
    numbers = ("exact_match", "greedy_exact_match", "forced_equals_greedy", "rows", "decoded")
    return {
        "metrics": {
            **{name: found[name] for name in numbers},
            "validation_exact_match": history[-1]["validation"],
            "steps": history[-1]["step"],
            "parameters": whole,
            "sci_parameters": whole - base,
        },
        "history": history,
    }


register(
    Experiment(
        id="sci.quickstart",
        title="The guide's quick start: its two commands with its flags, on a tiny base",
        arms={"sci": {}, "sci_22": {"base_model": "tiny:22", "cbm_layers": [6, 11, 16], "epochs": 1}},
        settings={
            "laptop": {
                "base_model": "tiny",
                "dataset": "scan",
                "split": "length",
                "n_structural_slots": 8,
                "cbm_layers": None,
                "scl_weight": 0.1,
                "epochs": 3,
                "learning_rate": None,
                "batch_size": 64,
                "structure_level": "verb",
                "steps": None,
                "evaluate_every": None,
                "bf16": False,
                "rows": None,
                "decoded": 300,
            },
            "quick": {"steps": 6, "batch_size": 12, "evaluate_every": 3, "rows": 24, "decoded": 4},
            "gpu": {"epochs": 20, "bf16": True},
            "paper": {
                "base_model": "TinyLlama/TinyLlama-1.1B-Chat-v1.0",
                "cbm_layers": [6, 11, 16],
                "epochs": 20,
                "bf16": True,
            },
        },
        seeds={"quick": 1, "laptop": 3},
        cost={"quick": 15, "laptop": 200, "gpu": 900, "paper": 100_000},
        run=run_quickstart,
        notebook="21_sci_scan",
    )
)
