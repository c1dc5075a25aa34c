"""The guide's quick start as an experiment: its two commands, one after the other."""

from dataclasses import dataclass

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
            "": {
                **{name: found[name] for name in numbers},
                "steps": history[-1]["step"],
                "parameters": whole,
                "sci_parameters": whole - base,
            },
            "validation": {"exact_match": history[-1]["validation"]},
        },
        "history": history,
    }


@dataclass(frozen=True)
class QuickstartSettings:
    """The flags of the two commands; None leaves a choice to them."""

    base_model: str = "tiny"
    dataset: str = "scan"
    split: str = "length"
    n_structural_slots: int = 8
    cbm_layers: list | None = None
    scl_weight: float = 0.1
    epochs: int = 20
    learning_rate: float | None = None
    batch_size: int = 64
    structure_level: str = "verb"
    steps: int | None = None
    evaluate_every: int | None = None
    bf16: bool = False
    rows: int | None = None
    decoded: int = 300


register(
    Experiment(
        id="sci.quickstart",
        title="The guide's quick start: its two commands with its flags, on a tiny base",
        arms={
            "sci": {},
            "simple": {"split": "simple"},
            "sci_22": {"base_model": "tiny:22", "cbm_layers": [6, 11, 16], "epochs": 1},
        },
        settings={
            "laptop": QuickstartSettings(),
            "quick": {"steps": 6, "batch_size": 12, "evaluate_every": 3, "rows": 24, "decoded": 4},
            "gpu": {"bf16": True},
            "paper": {
                "base_model": "TinyLlama/TinyLlama-1.1B-Chat-v1.0",
                "cbm_layers": [6, 11, 16],
                "bf16": True,
            },
        },
        seeds={"quick": 1, "laptop": 3},
        cost={"quick": 15, "laptop": 1000, "gpu": 900, "paper": 100_000},
        run=run_quickstart,
        notebook="21_sci_scan",
    )
)
