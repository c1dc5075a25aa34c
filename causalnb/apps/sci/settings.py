"""The settings of a training, as its command line flags have them."""

import json
import math
import re
from dataclasses import asdict, dataclass

from causalnb.errors import LabError
from causalnb.tasks import scan

from ..records import MOST, option


@dataclass(frozen=True)
class Settings:
    """What decides the numbers of a training, with the guide's names; LabError for a value out of range.

    base_model: "tiny", "tiny:<layers>", or a folder or hub name; cbm_layers None: 27, 50 and 73 % of depth;
    learning_rate None: 2e-3 for a tiny base, 1e-4 for a trained one; max_steps None: as the epochs say;
    evaluate_every None: each epoch, at least five times; lora: rank, 0 trains all weights.
    """

    base_model: str = "tiny"
    dataset: str = "scan"
    split: str = "length"
    n_structural_slots: int = 8
    cbm_layers: tuple[int, ...] | None = None
    scl_weight: float = 0.1
    epochs: int = 20
    learning_rate: float | None = None
    batch_size: int = 64
    structure_level: str = "verb"
    seed: int = 0
    max_steps: int | None = None
    evaluate_every: int | None = None
    bf16: bool = False
    lora: int = 0

    def __post_init__(self):
        for name in ("epochs", "batch_size", "max_steps", "evaluate_every"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise LabError(f"{option(name)} is {value}: give at least 1.")
        for name in ("scl_weight", "seed", "lora"):
            if not 0 <= getattr(self, name) < math.inf:
                raise LabError(f"{option(name)} is {getattr(self, name)}: give 0 or more, and finite.")
        for name in ("epochs", "batch_size", "max_steps", "lora"):
            value = getattr(self, name)
            if value is not None and value > MOST:
                raise LabError(f"{option(name)} is {value}: give at most {MOST}.")
        if self.seed > 2**32 - 1:
            raise LabError(f"--seed is {self.seed}: give at most {2**32 - 1}.")
        if self.learning_rate is not None and not 0 < self.learning_rate < 1:
            raise LabError(f"--learning-rate is {self.learning_rate}: give one above 0, such as 1e-4.")
        if self.structure_level not in scan.LEVELS:
            known = ", ".join(scan.LEVELS)
            raise LabError(f"--structure-level is {self.structure_level!r}: choose one of {known}.")

    def record(self) -> dict:
        """The settings as JSON has them."""
        return json.loads(json.dumps(asdict(self)))


def layers(text: str | None) -> tuple[int, ...] | None:
    """Layers from a text, "6,11,16" -> (6, 11, 16), in order, each once; LabError for anything else."""
    if text is None:
        return None
    if not re.fullmatch(r"\s*[0-9]{1,9}\s*(,\s*[0-9]{1,9}\s*)*", text):
        raise LabError(f"--cbm-layers is {text!r}: give layers, counted from 0, such as 6,11,16.")
    return tuple(sorted({int(number) for number in text.split(",")}))
