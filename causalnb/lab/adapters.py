"""LoRA on a base whose head is new; what it trains is kept in one small file, as `lab.weights` writes it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from causalnb.lab import weights
from causalnb.paths import models_dir


def add(model, rank: int) -> None:
    """Put LoRA of this rank and scale 2 on a classifier's encoder's linear maps; the head is trained whole.

    W x becomes W x + 2 B A x, A (rank, in) random and B (out, rank) zero, so that nothing changes at first.
    """
    from peft import LoraConfig, inject_adapter_in_model

    targets = r".*\.encoder\..*\.(query|key|value|dense)"
    inject_adapter_in_model(LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=targets), model)
    for name, parameter in model.named_parameters():
        if ".encoder." not in name and ".embeddings." not in name:
            parameter.requires_grad_(True)


@dataclass
class Trained:
    """A model as `lab.weights` takes it, of which only what is trained is written and read."""

    model: object

    def state_dict(self) -> dict:
        """{name: tensor} of the parameters that are trained."""
        return {name: one for name, one in self.model.named_parameters() if one.requires_grad}  # type: ignore[attr-defined]

    def load_state_dict(self, state: dict, strict: bool) -> None:
        """Put what `lab.weights` has read and compared into the model."""
        self.model.load_state_dict(state, strict=strict)  # type: ignore[attr-defined]

    def tie_weights(self) -> None:
        """Nothing that is trained is tied."""


def file_of(experiment: str, arm: str, profile: str = "laptop") -> Path:
    """Where what an arm trained is kept."""
    return models_dir(profile) / f"{experiment}.{arm}.safetensors"


def save(model, file: Path) -> None:
    """Write what is trained of a model to `file` in float16, and beside it its sha256."""
    weights.save_weights(Trained(model), file)


def load(model, file: Path):
    """The model, to which `add` gave the same rank, with what is in `file`; LabError as `load_weights`."""
    experiment = file.name.removesuffix(".safetensors").rpartition(".")[0]
    weights.load_weights(Trained(model), file, f"causalnb run {experiment}")
    return model
