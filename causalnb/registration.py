"""Our configurations under transformers' Auto classes, from `import causalnb` on and without its cost.

A stand-in of each class is registered when transformers' table of configurations is loaded, or at once where
it is; whoever asks the stand-in for anything imports the room, which registers the classes themselves.
"""

import sys
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder, SourceFileLoader

TABLE = "transformers.models.auto.configuration_auto"
CLASSES = {
    "causal_transformer": ("causal_transformer", "CausalTransformerConfig"),
    "causal_transformer_contrast": ("causal_transformer.contrasts", "ContrastConfig"),
    "causal_transformer_entropy": ("causal_transformer.contrasts", "EntropyPenaltyConfig"),
    "causal_transformer_grouped": ("causal_transformer.groups", "GroupedConfig"),
    "causal_transformer_invariant": ("causal_transformer.invariance", "InvariantConfig"),
    "causal_transformer_spread": ("causal_transformer.spread", "SpreadConfig"),
    "iclm": ("iclm", "ICLMConfig"),
    "masked_diffusion": ("c2dlm", "MaskedDiffusionConfig"),
    "sci": ("sci", "SCIConfig"),
    "sci_constructions": ("sci.contrasts", "ConstructionConfig"),
    "sci_contrast": ("sci.contrasts", "SlotDecoderConfig"),
    "sci_contrastive_decoder": ("sci.baseline", "ContrastiveDecoderConfig"),
    "sci_separated": ("sci.separated", "SeparatedSCIConfig"),
}


class StandIn:
    """What transformers asks of a configuration class, from the class itself, imported when it is asked."""

    def __init__(self, module: str, name: str):
        self.__module__, self.__name__ = f"causalnb.{module}", name

    def _class(self) -> type:
        return getattr(import_module(self.__module__), self.__name__)

    def __getattr__(self, asked: str):
        return getattr(self._class(), asked)

    def __call__(self, *arguments, **settings):
        """A configuration."""
        return self._class()(*arguments, **settings)


def register(table) -> None:
    """Put a stand-in for each of CLASSES that is not there into the module `table`, transformers' TABLE."""
    for model_type, where in CLASSES.items():
        if model_type not in table.CONFIG_MAPPING:
            table.CONFIG_MAPPING.register(model_type, StandIn(*where))


class _Loader(SourceFileLoader):
    """The loader of TABLE, which registers when it is done."""

    def exec_module(self, module) -> None:
        """Load the module and register."""
        sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _Finder)]
        super().exec_module(module)
        register(module)


class _Finder(MetaPathFinder):
    """Finds TABLE, until it is loaded, for _Loader to load; nothing else."""

    def find_spec(self, fullname, path=None, target=None):
        """The spec of TABLE with _Loader, None for another name."""
        if fullname != TABLE:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(fullname, spec.loader.path)
        return spec


def register_later() -> None:
    """Register now where transformers' TABLE is loaded, else when it is."""
    if TABLE in sys.modules:
        register(sys.modules[TABLE])
    elif not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
