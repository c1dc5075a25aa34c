"""The settings of an ICLM, kept with its base model's own configuration."""

import math
from collections.abc import Mapping
from inspect import signature
from numbers import Integral

from peft.utils.constants import TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING
from transformers import AutoConfig, PretrainedConfig

from causalnb.wrapping import base_configuration, check_counts, is_number

from .aggregation import LatentAggregation, LogitAggregation, ProbabilityAggregation
from .independence import check_estimator
from .routing import NORMS, ROUTERS

AGGREGATIONS = {
    "latent": LatentAggregation,
    "logit": LogitAggregation,
    "probability": ProbabilityAggregation,
    "own": None,
}
GIVEN = {"num_modules", "dim", "base_head", "modules", "invariant", "invariant_weight"}  # by the model itself
ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"]  # of Llama and what is named as it is
INTO = ATTENTION[:3]
OTHER_NAMES = {  # of architectures with some of these names alone
    "gpt_neo": [*INTO, "out_proj"],
    "gptj": [*INTO, "out_proj"],
    "opt": [*INTO, "out_proj"],
    "phi": [*INTO, "dense"],
    "phi3": ["qkv_proj", "o_proj"],
}
LORA = {"r": 8, "alpha": 16, "dropout": 0.05, "target_modules": None}
WEIGHTS = {"alpha": 0.1, "beta": 0.1, "gamma": 0.1, "epsilon": 0.01, "delta": 0.0}


class ICLMConfig(PretrainedConfig):
    """Settings of ICLMForCausalLM; defaults are the paper's, where it is well defined.

    num_modules N >= 1 domain modules; lora r, alpha, dropout, target_modules (None: the maps of attention, or
    those that peft takes in an architecture with other names); router "vq", "kmeans" or
    "distance" with router_settings for it, reading the base through an adapter of its own unless
    router_trainable is off, router_projection to that many features; aggregation "latent", "logit",
    "probability", or "own" (the routed module's own logits, without an invariant module);
    aggregation_settings for it; invariant_weight w_I in [0, 1], used in logit and probability space;
    weights of Equation 4, and delta (not the paper's) of the modules' alignment; direction and clamp of
    the mutual information; information "routed", of each domain module on the inputs it was given, or "all",
    Equation 3 to the letter, which runs all N on all inputs (the alignment, too); norm_over "labels" or, as
    in the published code, "tokens", padding included, for the batch statistics of training; router_over
    "prompt" or, as there, "tokens", padding included, for what the router reads; router_norm "running" or, as
    there, "batch"; shared_layers lower layers that run once, without adapters, and whose states then route.
    Raises ValueError for unknown or contradictory settings.
    """

    model_type = "iclm"
    sub_configs = {"base_config": AutoConfig}
    keys_to_ignore_at_inference = ["losses", "routing", "past_key_values"]

    def __init__(
        self,
        base_config=None,
        num_modules: int = 2,
        lora: dict | None = None,
        router: str = "vq",
        router_settings: dict | None = None,
        router_trainable: bool = True,
        router_projection: int | None = None,
        aggregation: str = "latent",
        aggregation_settings: dict | None = None,
        invariant: bool = True,
        invariant_weight: float = 0.5,
        weights: dict | None = None,
        direction: str = "forward",
        clamp: float | None = None,
        norm_over: str = "labels",
        shared_layers: int = 0,
        information: str = "routed",
        router_over: str = "prompt",
        router_norm: str = "running",
        **kwargs,
    ):
        base_config = base_configuration(base_config)
        self.base_config, self.num_modules = base_config, num_modules
        self.lora, self.weights = _over(LORA, lora, "lora"), _over(WEIGHTS, weights, "weights")
        self.router, self.router_settings = router, router_settings or {}
        self.router_trainable, self.router_projection = router_trainable, router_projection
        self.aggregation, self.aggregation_settings = aggregation, aggregation_settings or {}
        self.invariant, self.invariant_weight = invariant, invariant_weight
        self.direction, self.clamp, self.information = direction, clamp, information
        self.norm_over, self.shared_layers = norm_over, shared_layers
        self.router_over, self.router_norm = router_over, router_norm
        if self.lora["target_modules"] is None and base_config is not None:
            self.lora["target_modules"] = attention_maps(base_config.model_type)
        self._check()
        super().__init__(**kwargs)
        if base_config is not None:
            self.vocab_size = base_config.vocab_size
            for name in ("pad_token_id", "bos_token_id", "eos_token_id"):
                if kwargs.get(name) is None:
                    setattr(self, name, getattr(base_config, name, None))

    def get_text_config(self, *_, **__):
        """The base's configuration, from which generation reads its cache's shape."""
        return self if self.base_config is None else self.base_config

    def _check(self) -> None:
        for name, value, known in (
            ("router", self.router, ROUTERS),
            ("aggregation", self.aggregation, AGGREGATIONS),
            ("information", self.information, ("routed", "all")),
            ("norm_over", self.norm_over, ("labels", "tokens")),
            ("router_over", self.router_over, ("prompt", "tokens")),
            ("router_norm", self.router_norm, NORMS),
        ):
            if value not in known:
                raise ValueError(f"{name} is {value!r}: choose {', '.join(map(repr, known))}")
        check_estimator(self.direction, self.clamp)
        _over(_settings_of(ROUTERS[self.router]), self.router_settings, "router_settings")
        _over(_settings_of(AGGREGATIONS[self.aggregation]), self.aggregation_settings, "aggregation_settings")
        for name, value in self.weights.items():
            if not is_number(value) or not 0 <= value < math.inf:
                raise ValueError(f"the weight {name} is {value!r}: choose a finite one, 0 or more")
        check_counts(0, num_modules=self.num_modules, shared_layers=self.shared_layers)
        if self.router_projection is not None:
            check_counts(1, router_projection=self.router_projection)
        if self.num_modules < 1:
            raise ValueError(f"num_modules is {self.num_modules}: choose at least 1 domain module")
        if not (is_number(self.lora["r"]) and isinstance(self.lora["r"], Integral)) or self.lora["r"] < 1:
            raise ValueError(f"lora's r is {self.lora['r']!r}: choose 1 or more, a whole number")
        if not is_number(self.lora["alpha"]) or not 0 <= self.lora["alpha"] < math.inf:
            raise ValueError(f"lora's alpha is {self.lora['alpha']!r}: choose a finite one, 0 or more")
        if not is_number(self.lora["dropout"]) or not 0 <= self.lora["dropout"] <= 1:
            raise ValueError(f"lora's dropout is {self.lora['dropout']!r}: choose it in [0, 1]")
        if isinstance(self.lora["target_modules"], str):
            raise ValueError(
                f"lora's target_modules is {self.lora['target_modules']!r}: give a list of names"
            )
        if not is_number(self.invariant_weight) or not 0 <= self.invariant_weight <= 1:
            raise ValueError(f"invariant_weight is {self.invariant_weight!r}: choose it in [0, 1]")
        if self.information == "all" and not self.invariant:
            raise ValueError(
                "information 'all' needs an invariant module: set information='routed' without it"
            )
        if self.aggregation == "own" and self.invariant:
            raise ValueError("aggregation 'own' is the routed module's alone: set invariant=False with it")
        depth = getattr(self.base_config, "num_hidden_layers", None)
        if depth is not None and self.shared_layers >= depth:
            raise ValueError(
                f"shared_layers is {self.shared_layers} and the base has {depth} layers: leave "
                "at least one to the modules"
            )
        if self.shared_layers and self.router_trainable:
            raise ValueError("with shared_layers the shared, frozen layers route: set router_trainable=False")


def attention_maps(model_type: str) -> list[str]:
    """Names of the linear maps that adapters go on by default in an architecture."""
    if model_type in OTHER_NAMES:
        return [*OTHER_NAMES[model_type]]  # unprobed: bases of other architectures
    known = TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING.get(model_type, ATTENTION)
    return ATTENTION if isinstance(known, str) or {*known} & {*ATTENTION} else [*known]


def _settings_of(kind: type | None) -> dict:
    """What a user may set of a router or an aggregation, with its default."""
    return (
        {}
        if kind is None
        else {name: one.default for name, one in signature(kind).parameters.items() if name not in GIVEN}
    )


def _over(defaults: dict, given: dict | None, name: str) -> dict:
    given = given or {}
    if not isinstance(given, Mapping):
        raise ValueError(f"{name} is {given!r}: give a dictionary of settings")
    if unknown := set(given) - set(defaults):
        known = ", ".join(defaults) or "none"
        raise ValueError(f"{name} has no setting {sorted(unknown)[0]!r}: give {known}")
    return {**defaults, **given}
