"""The settings of an SCI model, kept with its base model's own configuration."""

import math
from numbers import Integral

from transformers import AutoConfig, PretrainedConfig

from causalnb.wrapping import base_configuration, check_counts, check_finite, is_number

from .content import PROJECTIONS


class SCIConfig(PretrainedConfig):
    """Settings of SCITransformer: widths in features, layers from 0, K = n_structural_slots < d_structure.

    d_structure=None takes min(192, hidden size), down to what the heads divide: a third of the guide's "~10M"
    on a 1.1B base; cbm_layers=None places binding after 27, 50 and 73 % of the layers. dag: "upper" for edges
    from slot to later slot, "none" for all of them; ortho: "project" or "none", by the projection "gram",
    "qr" or "sequential" of OrthogonalProjector; n_iterations, slots and layers from 0, scl_weight finite and
    from 0, scl_temperature finite and above 0. Raises ValueError for a binding layer beyond the base's depth,
    for slots or heads that do not fit the width and for values out of range.
    """

    model_type = "sci"
    sub_configs = {"base_config": AutoConfig}
    keys_to_ignore_at_inference = ["structure", "edges", "slots", "hidden_states", "lm_loss",
                                   "contrastive_loss", "invariance_loss", "binding_weights"]  # fmt: skip

    def __init__(
        self,
        base_config=None,
        n_structural_slots: int = 8,
        n_structural_layers: int = 2,
        d_structure: int | None = None,
        n_structural_heads: int = 4,
        cbm_layers: list[int] | None = None,
        n_iterations: int = 3,
        dag: str = "upper",
        ortho: str = "project",
        projection: str = "gram",
        scl_weight: float = 0.1,
        scl_temperature: float = 0.07,
        base_adapter: dict | None = None,
        **kwargs,
    ):
        base_config = base_configuration(base_config)
        self.base_config = base_config
        self.n_structural_slots = n_structural_slots
        self.n_structural_layers = n_structural_layers
        self.n_structural_heads = n_structural_heads
        self.n_iterations = n_iterations
        self.dag, self.ortho, self.projection = dag, ortho, projection
        self.scl_weight, self.scl_temperature = scl_weight, scl_temperature
        self.base_adapter = base_adapter
        self.d_structure, self.cbm_layers = d_structure, cbm_layers
        self._check()
        if base_config is not None:
            depth = base_config.num_hidden_layers
            if d_structure is None:
                width = min(192, base_config.hidden_size)
                self.d_structure = width - width % (2 * n_structural_heads)
            if cbm_layers is None:
                self.cbm_layers = sorted(
                    {min(round(depth * share), depth - 1) for share in (0.27, 0.50, 0.73)}
                )
            beyond = [layer for layer in self.cbm_layers if not 0 <= layer < depth]
            if beyond:
                raise ValueError(
                    f"binding layer {beyond[0]} does not exist in a base of {depth} layers: "
                    f"choose from 0 to {depth - 1}"
                )
            if not 1 <= n_structural_slots < self.d_structure:
                raise ValueError(
                    f"{n_structural_slots} structural slots do not fit a structural width of "
                    f"{self.d_structure}: "
                    f"choose between 1 and {self.d_structure - 1}"
                )
        super().__init__(**kwargs)

    @classmethod
    def from_dict(cls, config_dict, **kwargs):
        """As in transformers; ValueError for the settings of another class."""
        found = config_dict.get("model_type", cls.model_type)
        if found != cls.model_type:
            raise ValueError(
                f"the checkpoint is of model_type {found!r}, not {cls.model_type!r}: load it with its own "
                "class"
            )
        return super().from_dict(config_dict, **kwargs)

    def _check(self) -> None:
        if self.cbm_layers is not None and not (
            isinstance(self.cbm_layers, (list, tuple))
            and all(isinstance(layer, Integral) and not isinstance(layer, bool) for layer in self.cbm_layers)
        ):
            raise ValueError(
                f"cbm_layers is {self.cbm_layers!r}: give a list of layers' numbers, such as [2]"
            )
        for name, known in (("dag", ("upper", "none")), ("ortho", ("project", "none")),
                            ("projection", PROJECTIONS)):  # fmt: skip
            if getattr(self, name) not in known:
                raise ValueError(f"{name} is {getattr(self, name)!r}: choose {' or '.join(map(repr, known))}")
        counts = ("n_iterations", "n_structural_layers", "n_structural_slots")
        check_counts(0, **{name: getattr(self, name) for name in counts})
        check_counts(1, n_structural_heads=self.n_structural_heads)
        if self.d_structure is not None:
            check_counts(1, d_structure=self.d_structure)
        if self.d_structure is not None and self.d_structure % (2 * self.n_structural_heads):
            raise ValueError(
                f"a width of {self.d_structure} does not split into {self.n_structural_heads} heads of even "
                f"width: choose a multiple of {2 * self.n_structural_heads}"
            )
        check_finite(scl_weight=self.scl_weight)
        if not is_number(self.scl_temperature) or not 0 < self.scl_temperature < math.inf:
            raise ValueError(f"scl_temperature is {self.scl_temperature!r}: it must be positive and finite")
