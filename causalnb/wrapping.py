"""A model around a Hugging Face decoder: how it is made, saved and loaded, with the adapter of its base.

A wrapper keeps the base without its peft wrapper and the adapter's settings in its own config, and `rebuild`
makes both again when a checkpoint is loaded.
"""

import copy
import math
from collections.abc import Iterable, Mapping
from inspect import signature
from numbers import Integral, Real
from threading import get_ident
from typing import Self, cast

import torch
from peft import PeftModel, get_peft_model
from peft.mapping import PEFT_TYPE_TO_CONFIG_MAPPING
from peft.tuners.tuners_utils import BaseTunerLayer
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForCausalLM, PretrainedConfig, PreTrainedModel
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
from transformers.utils import TransformersKwargs

from causalnb.cards import plain, unfit, upload_card, write_card
from causalnb.checkpoints import check_depth, whole
from causalnb.parallel import part_of_step

KEPT_ADAPTERS = ("LORA", "ADALORA", "C3A", "HRA", "IA3", "LN_TUNING", "LOHA", "LOKR", "MISS")


class OfThread:
    """An attribute of which every thread has a value of its own, None where it set none."""

    def __set_name__(self, owner: type, name: str):
        self.kept = f"_{name}_of_thread"

    def __get__(self, instance, owner: type | None = None):
        return self if instance is None else vars(instance).get(self.kept, {}).get(get_ident())

    def __set__(self, instance, value):
        values = vars(instance).setdefault(self.kept, {})
        values[get_ident()] = value
        if value is None:
            del values[get_ident()]


def of_all_threads(state: Mapping) -> dict:
    """An instance's state as a copy takes it: without the values of OfThread, which are of running calls."""
    return {name: value for name, value in state.items() if not name.endswith("_of_thread")}


def register_decoder(kind: type[PreTrainedModel]) -> None:
    """Register a class under AutoModelForCausalLM, and by the name by which a Trainer shifts its labels."""
    config: type[PretrainedConfig] = kind.config_class  # type: ignore[assignment]
    AutoConfig.register(config.model_type, config)
    AutoModelForCausalLM.register(config, kind)
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[config.model_type] = kind.__name__  # read under label smoothing alone


def check_settings(kind: type[PretrainedConfig], settings: Iterable[str], given: Iterable[str] = ()) -> None:
    """ValueError for a name that is no setting of a configuration, of its parents or of every configuration.

    given: what from_base finds itself, so that it is no setting of its caller.
    """
    kinds = kind.__mro__[: kind.__mro__.index(PretrainedConfig)]
    names = dict.fromkeys(name for one in reversed(kinds) for name in signature(one).parameters)
    known = [name for name in names if name not in {"base_config", "base_adapter", "kwargs", *given}]
    every = signature(PretrainedConfig.__init__).parameters
    if unknown := set(settings) - set(known) - set(every):
        raise ValueError(f"there is no setting {sorted(unknown)[0]!r}: give {', '.join(known)}")


def check_counts(least: int, **values: object) -> None:
    """ValueError unless each is a whole number from `least` on."""
    for name, value in values.items():
        if not isinstance(value, Integral) or isinstance(value, bool) or int(value) < least:
            raise ValueError(f"{name} is {value!r}: choose {least} or more, a whole number")


def is_number(value: object) -> bool:
    """Whether it is a real number, and neither true nor false."""
    return isinstance(value, Real) and not isinstance(value, bool)


def check_finite(**values: float) -> None:
    """ValueError unless each is a finite number, 0 or more."""
    for name, value in values.items():
        if not is_number(value) or not 0 <= value < math.inf:
            raise ValueError(f"{name} is {value!r}: choose a finite one, 0 or more")


def base_configuration(given: PretrainedConfig | Mapping | None) -> PretrainedConfig | None:
    """The configuration of a base, made from a checkpoint's settings; ValueError as check_depth."""
    config = AutoConfig.for_model(**given) if isinstance(given, Mapping) else given
    check_depth(config)
    return config


def unwrap(decoder: nn.Module) -> tuple[nn.Module, dict | None]:
    """The decoder without its peft wrapper, and its adapter's settings as JSON holds them, or None.

    Raises ValueError for adapters that would be lost when the decoder is saved and loaded.
    """
    adapters = getattr(decoder, "peft_config", None) or {}
    for name, one in adapters.items():
        if one.is_prompt_learning:
            raise ValueError(
                f"the adapter {name!r} ({one.peft_type.value}) learns tokens outside the base, "
                "which would be lost: use one that changes its layers, such as LoRA"
            )
        if one.peft_type.value not in KEPT_ADAPTERS:
            raise ValueError(
                f"the adapter {name!r} is of a kind, {one.peft_type.value}, that was not shown to come back "
                f"from a checkpoint: use one of {', '.join(KEPT_ADAPTERS)}"
            )
    if len(adapters) > 1:
        raise ValueError(
            f"the base has {len(adapters)} adapters, {', '.join(adapters)}, and one is kept: "
            "delete the others, or merge them (merge_and_unload)"
        )
    if adapters and "default" not in adapters:
        raise ValueError(
            f"the base's adapter is named {next(iter(adapters))!r}, and would come back as "
            "'default': add it by that name"
        )
    base = decoder.get_base_model() if isinstance(decoder, PeftModel) else decoder
    if not adapters:
        return base, None
    kept = adapters["default"].to_dict()
    return base, {name: sorted(one) if isinstance(one, set) else one for name, one in kept.items()}


def rebuild(base_config: PretrainedConfig, adapter: Mapping | None) -> tuple[nn.Module, set[str] | None]:
    """A base with untrained weights and its adapter; names of what the adapter trains, None without one."""
    base = AutoModelForCausalLM.from_config(base_config, trust_remote_code=False)
    if adapter is None:
        return base, None
    settings = dict(adapter)
    kind = PEFT_TYPE_TO_CONFIG_MAPPING[settings.pop("peft_type")]
    base = get_peft_model(base, kind(**settings)).get_base_model()
    return base, {name for name, weight in base.named_parameters() if weight.requires_grad}


def decoder_layers(model: nn.Module) -> nn.ModuleList:
    """The decoder layers of any Hugging Face decoder; ValueError names a model without them."""
    depth = model.config.num_hidden_layers  # type: ignore[union-attr]
    for module in model.modules():
        if isinstance(module, nn.ModuleList) and len(module) == depth:
            return module
    raise ValueError(
        f"no list of {depth} layers was found in {type(model).__name__}: pass a Hugging Face decoder"
    )


def matrix(linear: nn.Module) -> Tensor:
    """The matrix (out, in) of a linear map, with what adapters of peft add to it."""
    if type(linear) is nn.Linear:
        return linear.weight
    own = cast(nn.Linear, getattr(linear, "base_layer", linear))  # unprobed: runs adapt bases alone
    one = torch.eye(own.in_features, device=own.weight.device, dtype=own.weight.dtype)  # unprobed: the same
    return (linear(one) - linear(torch.zeros_like(one[:1]))).mT  # unprobed: the same


def offset(linear: nn.Module) -> Tensor:
    """What a linear map adds to every product (out,), with what adapters of peft do."""
    if type(linear) is nn.Linear:
        return linear.bias
    own = cast(nn.Linear, getattr(linear, "base_layer", linear))  # unprobed: runs adapt bases alone
    return linear(own.weight.new_zeros(1, own.in_features))[0]  # unprobed: the same


def unknown_keywords(model: nn.Module, given: Mapping) -> str:
    """What is wrong with keywords of forward that neither the model nor its base takes, or ""."""
    known = {*signature(model.base.forward).parameters, *TransformersKwargs.__annotations__}  # type: ignore[union-attr]
    known |= {"shift_labels", "ignore_index"}  # which the base's loss takes
    unknown = sorted(given.keys() - known)
    names = f"what its docstring or {type(model.base).__name__} names"
    return f"{type(model).__name__} has no argument {unknown[0]!r}: pass {names}" if unknown else ""


class DecoderWrapper(PreTrainedModel):
    """A model around a Hugging Face decoder: made from it, saved and loaded with it and the adapter it had.

    A child's `_build` makes the modules that stand before .base in a checkpoint, `_connect` what needs it.
    Losses are means over a batch. Where accepts_loss_kwargs is true and num_items_in_batch is passed, as by a
    Trainer, forward's loss is this batch's part of an optimiser step, its mean times the share of its labels:
    so in gradient accumulation every label counts for as much as in one large batch.
    """

    base_model_prefix = "base"
    supports_gradient_checkpointing = True
    accepts_loss_kwargs = False  # a child whose forward takes num_items_in_batch says so
    _trained: set[str] | None = None  # what the base's adapter trains

    def __init__(self, config: PretrainedConfig, base_model: nn.Module | None = None):
        super().__init__(config)
        self._build(config)
        self.base = self._rebuilt(config) if base_model is None else self._kept(base_model)
        self._connect(config)
        self.post_init()

    def _rebuilt(self, config: PretrainedConfig) -> nn.Module:
        base, self._trained = rebuild(config.base_config, getattr(config, "base_adapter", None))
        return base

    @staticmethod
    def _kept(base: nn.Module) -> nn.Module:
        """The base, marked so that post_init does not draw its weights anew."""
        for module in base.modules():
            module._is_hf_initialized = True  # type: ignore[assignment]
        return base

    def _build(self, config: PretrainedConfig) -> None:
        """The modules that do not need the base."""

    def _connect(self, config: PretrainedConfig) -> None:
        """What is put around the base, and on it."""

    def _init_weights(self, module: nn.Module):
        """Every module draws its weights when it is built, and the base brings its own."""

    def __getstate__(self) -> dict:
        """As in PyTorch, without what a thread set for a call of its own."""
        return of_all_threads(super().__getstate__())

    @classmethod
    def from_base(cls, base_model: nn.Module, **settings) -> Self:
        """Wrap a Hugging Face decoder (or its peft wrapper) in place; settings as in the configuration.

        Raises ValueError for an unknown setting and for adapters that a checkpoint would lose.
        """
        return cls._wrapped(base_model, settings)

    @classmethod
    def _wrapped(cls, base_model: nn.Module, settings: Mapping, **own) -> Self:
        """own: settings that from_base finds by itself."""
        check_settings(cls.config_class, settings, given=own)  # type: ignore[arg-type]
        base_model, adapter = unwrap(base_model)
        if base_model.config.get_text_config() is not base_model.config:  # type: ignore[union-attr, operator]
            raise ValueError(
                f"{type(base_model).__name__} holds a language model beside other parts: load its text "
                "decoder alone and wrap that"
            )
        adapted = {} if adapter is None else {"base_adapter": adapter}
        config = cls.config_class(copy.deepcopy(base_model.config), **adapted, **own, **settings)  # type: ignore[arg-type, misc]
        return cls(config, base_model)

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path, *arguments, **keywords):
        """As in transformers; with an adapter, what peft trains of it is trainable, and nothing else.

        Raises ValueError as `checkpoints.whole`.
        """
        loaded = whole(super().from_pretrained, pretrained_model_name_or_path, *arguments, **keywords)
        model = loaded[0] if isinstance(loaded, tuple) else loaded
        if model._trained is not None:  # loading sets every weight trainable again
            for name, weight in model.base.named_parameters():
                weight.requires_grad_(name in model._trained)
        return loaded

    @property
    def card(self) -> Mapping | None:
        """What its model card is told: data, task, metrics and command, as `cards.card`."""
        return vars(self).get("_card")

    @card.setter
    def card(self, told: Mapping | None):
        self._card = plain(told)

    def save_pretrained(self, save_directory, *arguments, **keywords):
        """As in transformers, with a model card, for which .card says what the model cannot know.

        Raises ValueError for adapters put on after from_base, which would not load again, and for a .card
        that `cards.card` refuses.
        """
        if unfit(self.card):
            raise ValueError(unfit(self.card))
        kept = getattr(self.config, "base_adapter", None)
        if kept is None and not getattr(self, "_hf_peft_config_loaded", False):
            if any(isinstance(module, BaseTunerLayer) for module in self.modules()):
                raise ValueError(
                    "the base got adapters after from_base, which a checkpoint could not "
                    "rebuild: put them on the decoder and wrap that, or merge them "
                    "(merge_and_unload)"
                )
        self.config.base_config.vocab_size = self.base.config.vocab_size  # where the base was resized itself
        super().save_pretrained(save_directory, *arguments, **keywords)
        if keywords.get("is_main_process", True):
            told = getattr(self, "card", None)  # of the training: data, metrics, command
            method = (type(self).__doc__ or "").split("\n")[0]
            write_card(save_directory, self.config, method, self.config.base_config.name_or_path, told)

    def _upload_modified_files(self, working_dir, *arguments, **keywords):
        method, base = (type(self).__doc__ or "").split("\n")[0], self.config.base_config.name_or_path
        upload_card(working_dir, self.config, method, base, self.card)
        return super()._upload_modified_files(working_dir, *arguments, **keywords)

    def get_input_embeddings(self) -> nn.Module:
        """The base's."""
        return self.base.get_input_embeddings()  # type: ignore[operator]

    def set_input_embeddings(self, value: nn.Module) -> None:
        """As in transformers, of the base."""
        self.base.set_input_embeddings(value)  # type: ignore[operator]

    def get_output_embeddings(self) -> nn.Module | None:
        """The base's."""
        return self.base.get_output_embeddings()  # type: ignore[operator]

    def set_output_embeddings(self, value: nn.Module) -> None:
        """As in transformers, of the base."""
        self.base.set_output_embeddings(value)  # type: ignore[operator]

    def resize_token_embeddings(self, *arguments, **keywords) -> nn.Module:  # type: ignore[override]
        """As in transformers, of the base, whose new size the configuration keeps."""
        embeddings = self.base.resize_token_embeddings(*arguments, **keywords)  # type: ignore[operator]
        self.config.base_config.vocab_size = self.base.config.vocab_size  # type: ignore[union-attr]
        return embeddings

    def keep_vocabulary(self, new_num_tokens: int | None = None, *_, **__) -> nn.Module:
        """resize_token_embeddings of what has the vocabulary's size: ValueError for another one."""
        size = self.config.base_config.vocab_size
        if new_num_tokens not in (None, size):
            raise ValueError(
                f"{type(self).__name__} keeps its base's {size} tokens and {new_num_tokens} were asked for: "
                "resize the base before from_base wraps it"
            )
        return self.get_input_embeddings()

    @staticmethod
    def part_of_step(loss: Tensor, labels: Tensor | None, counted: Tensor | int | None) -> Tensor:
        """A batch's mean as its part of an optimiser step of `counted` labels; as it is without them."""
        return loss if labels is None or counted is None else loss * part_of_step(labels, counted)

    def refuse_replicas(self, fault: str) -> None:
        """Raise ValueError in a replica of nn.DataParallel, in which the model would have a fault."""
        if getattr(self, "_is_replica", False):
            raise ValueError(
                f"nn.DataParallel's replicas of {type(self).__name__} would {fault}: use accelerate or "
                "DistributedDataParallel"
            )
