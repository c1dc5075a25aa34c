"""The settings of an SCI model, kept with its base model's own configuration."""

from transformers import AutoConfig, PretrainedConfig


class SCIConfig(PretrainedConfig):
    """Settings of SCITransformer: widths in features, layers from 0, K = n_structural_slots < d_structure.

    d_structure=None takes min(192, hidden size): a third of the guide's "~10M" on a 1.1B base;
    cbm_layers=None places binding after 27, 50 and 73 % of the layers. Raises ValueError for a binding layer
    beyond the base's depth and for slots that do not fit the width.
    """

    model_type = "sci"
    sub_configs = {"base_config": AutoConfig}

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
        if isinstance(base_config, dict):
            base_config = AutoConfig.for_model(**base_config)
        self.base_config = base_config
        self.n_structural_slots = n_structural_slots
        self.n_structural_layers = n_structural_layers
        self.n_structural_heads = n_structural_heads
        self.n_iterations = n_iterations
        self.dag, self.ortho, self.projection = dag, ortho, projection
        self.scl_weight, self.scl_temperature = scl_weight, scl_temperature
        self.base_adapter = base_adapter
        self.d_structure, self.cbm_layers = d_structure, cbm_layers
        if base_config is not None:
            depth = base_config.num_hidden_layers
            if d_structure is None:
                self.d_structure = min(192, base_config.hidden_size)
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
