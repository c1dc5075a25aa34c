"""The settings of a training on a user's own data, as its command line flags have them."""

import json
import math
from dataclasses import asdict, dataclass, field

from causalnb.errors import LabError

from ..records import MOST, option

SYSTEMS = ("sci", "iclm", "c2dlm", "causal-transformer")
OPTIONS = {  # of a system alone, with their defaults
    "sci": {
        "separated": False,
        "structure_level": "column",
        "n_structural_slots": 8,
        "cbm_layers": None,
        "scl_weight": 0.1,
    },
    "iclm": {"num_modules": 2, "aggregation": "latent"},
    "c2dlm": {"graphs": None, "alpha": 3.0, "lam": 1.0, "gamma": 1.0},
    "causal-transformer": {"causal_weight": 0.1},
}
AGGREGATIONS = ("latent", "logit", "probability")
LEVELS = ("column", "grammar", "pos", "dependency")


@dataclass(frozen=True)
class Settings:
    """What decides the numbers of a training of one of SYSTEMS; LabError for a value out of range.

    base_model: "tiny", "tiny:<layers>", or a folder or hub name; columns: our names to those of the data;
    learning_rate None: 2e-3 for a tiny base, 1e-4 for a trained one; max_steps None: as the epochs say;
    evaluate_every None: each epoch, at least five times; lora: rank, 0 trains all weights (of ICLM's
    modules: 8); validation: the share of rows held out; options: those of the system, as in OPTIONS.
    """

    system: str
    data: str
    columns: dict[str, str] = field(default_factory=dict)
    base_model: str = "tiny"
    epochs: int = 3
    learning_rate: float | None = None
    batch_size: int = 16
    max_steps: int | None = None
    evaluate_every: int | None = None
    validation: float = 0.1
    bf16: bool = False
    lora: int = 0
    seed: int = 0
    options: dict = field(default_factory=dict)

    def __post_init__(self):
        if self.system not in SYSTEMS:
            raise LabError(f"there is no system {self.system!r}: choose one of {', '.join(SYSTEMS)}.")
        known = OPTIONS[self.system]
        if unknown := set(self.options) - set(known):
            raise LabError(
                f"{option(min(unknown))} is no option of {self.system}: it has {', '.join(known)}."
            )
        object.__setattr__(self, "options", {**known, **self.options})
        for name in ("epochs", "batch_size", "max_steps", "evaluate_every"):
            value = getattr(self, name)
            if value is not None and not 1 <= value <= MOST:
                raise LabError(f"{option(name)} is {value}: give at least 1, at most {MOST}.")
        if not 0 <= self.lora <= MOST or not 0 <= self.seed < 2**32:
            raise LabError(
                f"--lora is {self.lora} and --seed {self.seed}: give 0 or more, a seed below {2**32}."
            )
        if self.learning_rate is not None and not 0 < self.learning_rate < 1:
            raise LabError(f"--learning-rate is {self.learning_rate}: give one above 0, such as 1e-4.")
        if not 0 < self.validation < 1:
            raise LabError(f"--validation is {self.validation}: give a share of the rows, such as 0.1.")
        for name in ("scl_weight", "alpha", "lam", "gamma", "causal_weight"):
            if name in self.options and not 0 <= self.options[name] < math.inf:
                raise LabError(f"{option(name)} is {self.options[name]}: give 0 or more, and finite.")
        if self.options.get("alpha") == 0:
            raise LabError("--alpha is 0, and nothing would be drawn to causes: give a number above 0.")
        self._check_idle()
        if self.options.get("aggregation", AGGREGATIONS[0]) not in AGGREGATIONS:
            raise LabError(
                f"--aggregation is {self.options['aggregation']!r}: choose one of {', '.join(AGGREGATIONS)}."
            )
        if self.options.get("structure_level", LEVELS[0]) not in LEVELS:
            raise LabError(
                f"--structure-level is {self.options['structure_level']!r}: choose one of "
                f"{', '.join(LEVELS)}."
            )

    def _check_idle(self) -> None:
        """LabError for an option that nothing would read."""
        changed = [name for name, default in OPTIONS[self.system].items() if self.options[name] != default]
        if self.system == "c2dlm" and not self.options["graphs"] and changed:
            raise LabError(
                f"{option(changed[0])} weighs what graphs say, and none are given: add --graphs FILE, or "
                "leave it out."
            )
        if self.system == "sci" and self.options["separated"] and "cbm_layers" in changed:
            raise LabError(
                "--cbm-layers says where SCI binds, and with --separated content meets the output alone: "
                "give one of the two."
            )

    def record(self) -> dict:
        """The settings as JSON has them."""
        return json.loads(json.dumps(asdict(self)))
