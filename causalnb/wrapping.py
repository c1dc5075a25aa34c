"""What a model around a Hugging Face decoder needs: the base's adapters in a checkpoint, names of settings.

A wrapper keeps the base without its peft wrapper and the adapter's settings in its own config, and `rebuild`
makes both again when a checkpoint is loaded.
"""

from collections.abc import Iterable, Mapping
from inspect import signature

from peft import PeftModel, get_peft_model
from peft.mapping import PEFT_TYPE_TO_CONFIG_MAPPING
from peft.tuners.tuners_utils import BaseTunerLayer
from torch import nn
from transformers import AutoModelForCausalLM, PretrainedConfig


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
    base = AutoModelForCausalLM.from_config(base_config)
    if adapter is None:
        return base, None
    settings = dict(adapter)
    kind = PEFT_TYPE_TO_CONFIG_MAPPING[settings.pop("peft_type")]
    base = get_peft_model(base, kind(**settings)).get_base_model()
    return base, {name for name, weight in base.named_parameters() if weight.requires_grad}


class KeepsAdapter:
    """Mixin before PreTrainedModel: saves and loads a model around .base with the adapter that base had.

    _trained: the names that `rebuild` gave with the base.
    """

    _trained: set[str] | None = None

    @classmethod
    def from_pretrained(cls, *arguments, **keywords):
        """As in transformers; with an adapter, what peft trains of it is trainable, and nothing else."""
        found = super().from_pretrained(*arguments, **keywords)
        model = found[0] if isinstance(found, tuple) else found
        if model._trained is not None:  # loading sets every weight trainable again
            for name, weight in model.base.named_parameters():
                weight.requires_grad_(name in model._trained)
        return found

    def save_pretrained(self, *arguments, **keywords):
        """As in transformers; ValueError for adapters put on after from_base, which would not load again."""
        if self.config.base_adapter is None and not getattr(self, "_hf_peft_config_loaded", False):
            if any(isinstance(module, BaseTunerLayer) for module in self.modules()):
                raise ValueError(
                    "the base got adapters after from_base, which a checkpoint could not "
                    "rebuild: put them on the decoder and wrap that, or merge them "
                    "(merge_and_unload)"
                )
        return super().save_pretrained(*arguments, **keywords)
