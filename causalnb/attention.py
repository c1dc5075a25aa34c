"""Tap on the queries, keys and values of any Hugging Face model: record them, or hand them to a function.

    with tap(model) as records:
        out = model(**inputs)
    loss = out.loss + penalty(records[-1].attention())

The tap stands in front of the attention implementation that the model already uses (sdpa, eager, flash, ...)
and calls it with all its arguments, so outputs and gradients are bitwise those of the untapped model.
Shapes: B batch, T query and S key positions, H heads, G key-value heads (as many or fewer), d head width.
"""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from threading import get_ident

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedConfig, PreTrainedModel
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

__all__ = ["KINDS", "KNOWN", "Record", "attention_maps", "tap", "verify"]

TESTED = ("bert", "gpt2", "llama", "marian", "mistral", "qwen2", "qwen3")
ADDED = ("gemma3_text",)  # tested as well; TESTED stands in the code by which stored results were made
KNOWN = (*TESTED, *ADDED)
KINDS = ("self", "cross")
_VERIFIED: set[type] = set()
_NUMBER = count()


@dataclass(frozen=True, eq=False)
class Record:
    """One call of one attention layer: its tensors as the implementation received them, in the graph."""

    layer: int
    kind: str  # "self" | "cross"
    stack: str  # "encoder" | "decoder"
    query: Tensor = field(repr=False)  # (B, H, T, d)
    key: Tensor = field(repr=False)  # (B, G, S, d)
    value: Tensor = field(repr=False)  # (B, G, S, d)
    mask: Tensor | None = field(repr=False)  # (B, 1, T, S): True = attend, or a number added to the scores
    scaling: float
    implementation: str
    module: nn.Module = field(repr=False)
    options: Mapping = field(repr=False)  # every other keyword of the call: sliding_window, is_causal, ...

    def attention(self) -> Tensor:
        """The attention map (B, H, T, S) by the model's own eager code, without dropout; rows sum to 1.

        Differentiable in query and key. Raises ValueError unless the model runs under eager or sdpa.
        """
        if self.implementation not in ("eager", "sdpa"):
            raise ValueError(
                f"attention() is exact under 'eager' and 'sdpa' and the model runs under "
                f"{self.implementation!r}: load it with attn_implementation='sdpa'."
            )
        eager = _namespace(self.module)["eager_attention_forward"]
        return eager(
            self.module,
            self.query,
            self.key,
            self.value[..., :1],
            self._additive_mask(),
            scaling=self.scaling,
            dropout=0.0,
            **self.options,
        )[1]

    def _additive_mask(self) -> Tensor | None:
        """The mask as eager takes it: sdpa's None stands for causal where the layer is, its True for 0."""
        mask, (rows, columns) = self.mask, (self.query.shape[2], self.key.shape[2])
        causal = self.options.get("is_causal")
        causal = getattr(self.module, "is_causal", True) if causal is None else causal
        if mask is None and self.implementation == "sdpa" and causal and rows > 1:
            mask = torch.ones(rows, columns, dtype=torch.bool, device=self.query.device).tril()[None, None]
        if mask is None or mask.dtype != torch.bool:
            return mask
        lowest = max(torch.finfo(dtype).min for dtype in (self.query.dtype, torch.float32))
        return torch.zeros_like(mask, dtype=self.query.dtype).masked_fill(~mask, lowest)  # (B, 1, T, S)


@contextmanager
def tap(
    model: nn.Module,
    fn: Callable[[Record], None] | None = None,
    *,
    layers: Iterable[int] | None = None,
    kinds: Iterable[str] = ("self",),
) -> Iterator[list[Record]]:
    """Record every call of the model's attention layers in a list, or hand each record to `fn` instead.

    layers: which layer numbers, from 0 in each stack (None: all); kinds: among "self" and "cross".
    Under gradient checkpointing the recomputation in the backward pass is not recorded a second time. A
    static cache overwrites its keys in place: use `fn` there.
    One thread may tap a model and run it, in as many taps as it likes, each closed before those around it;
    copies of the model made within a tap are untapped. Raises ValueError for a model that the tap was not
    shown to reproduce (see `verify`), for re-entrant checkpointing (its records carry no gradient), also
    where it is switched on later, for another thread that taps or runs the tapped model, for an unknown kind
    and for a layer the model lacks.
    """
    _refuse(model)
    sites, records = _sites(model, layers, kinds), []
    names: dict[str, str] = {}

    def register(previous: str) -> str:
        if previous not in names:
            names[previous] = name = _Name(previous, f"tap{next(_NUMBER)}+{previous}")
            AttentionInterface.register(name, _listener(previous, sites, fn or records.append))
            if previous in ALL_MASK_ATTENTION_FUNCTIONS:
                AttentionMaskInterface.register(name, ALL_MASK_ATTENTION_FUNCTIONS[previous])
        return names[previous]

    configs = [m.config for m in model.modules() if isinstance(m, PreTrainedModel)]
    for config in configs:
        if getattr(config._attn_implementation, "thread", get_ident()) != get_ident():
            raise ValueError(f"another thread taps this {type(model).__name__}: give each thread a copy")
    watch = model.register_forward_pre_hook(partial(_watched, id(model)))
    try:
        with _renamed(configs, register):
            yield records
    finally:
        watch.remove()
        for name in names.values():
            AttentionInterface._global_mapping.pop(name)
            AttentionMaskInterface._global_mapping.pop(name, None)


class _Name(str):
    """The name under which a tap is registered; copied or pickled, the one that it stands in front of."""

    previous: str
    thread: int

    def __new__(cls, previous: str, name: str):
        made = super().__new__(cls, name)
        made.previous, made.thread = previous, get_ident()
        return made

    def __reduce_ex__(self, protocol):
        return str, (_plain(self),)


def _plain(name: str) -> str:
    """The name of an implementation behind all taps."""
    return _plain(name.previous) if isinstance(name, _Name) else name


def attention_maps(model: nn.Module, *, kinds: Iterable[str] = ("self",), **inputs) -> list[Tensor]:
    """The attention maps (B, H, T, S) of one forward pass in the order of the calls (an encoder's first).

    Without gradients and in the model's present mode: call `model.eval()` before. Raises as `tap` does.
    """
    maps: list[Tensor] = []
    with torch.no_grad(), tap(model, lambda record: maps.append(record.attention()), kinds=kinds):
        model(**inputs)
    return maps


def verify(model: nn.Module, inputs: Mapping) -> None:
    """Show on `inputs` that the tap reproduces the model, and admit its class for the rest of the process.

    Outputs and gradients must be bitwise those of the untapped model, and `attention()` the maps that the
    model itself returns under eager, to the tolerance of `torch.testing.assert_close`: give inputs without
    padding. Raises ValueError, naming what differs.
    """
    name = type(model).__name__
    if model.training:
        raise ValueError(f"verify compares two runs and {name} is in training mode: call model.eval() first.")
    fresh = {type(m) for m in _innermost(model)} - _VERIFIED
    _VERIFIED.update(fresh)
    try:
        plain = _outputs_and_gradients(model, inputs)
        with tap(model, kinds=KINDS) as records:
            tapped = _outputs_and_gradients(model, inputs)
        with _renamed([m.config for m in _innermost(model)], lambda _: "eager"), torch.no_grad():
            own = model(**inputs, output_attentions=True)
        layers = sum(len(maps) for key, maps in own.items() if key.endswith("attentions"))
        if not records or len(records) != layers:
            raise ValueError(
                f"the tap sees {len(records)} of the {layers} attention layers of {name}: the "
                "others do not call AttentionInterface."
            )
        if not all(map(torch.equal, plain, tapped)):
            raise ValueError(f"{name} gives other outputs or gradients under the tap: it cannot be tapped.")
        for record in records:
            group = (
                "cross_attentions"
                if record.kind == "cross"
                else (f"{record.stack}_attentions" if model.config.is_encoder_decoder else "attentions")
            )
            try:
                torch.testing.assert_close(record.attention(), own[group][record.layer])
            except (AssertionError, IndexError, KeyError, ValueError) as error:
                raise ValueError(f"attention() differs from {name}'s own map: {record}.") from error
    except BaseException:
        _VERIFIED.difference_update(fresh)
        raise


def _outputs_and_gradients(model: nn.Module, inputs: Mapping) -> list[Tensor]:
    """The tensors that the model returns, and the gradients of their summed tanh in its parameters."""
    outputs = [t for t in model(**inputs).to_tuple() if torch.is_tensor(t)]
    loss = sum(torch.tanh(t.float()).sum() for t in outputs)
    parameters = [p for p in model.parameters() if p.requires_grad]
    return outputs + list(torch.autograd.grad(loss, parameters, materialize_grads=True) if parameters else ())


def _innermost(model: nn.Module) -> list[PreTrainedModel]:
    """The Hugging Face models inside `model` that hold no other: those with the attention layers."""
    found = [m for m in model.modules() if isinstance(m, PreTrainedModel)]
    return [
        m
        for m in found
        if not any(isinstance(child, PreTrainedModel) for child in m.modules() if child is not m)
    ]


def _refuse(model: nn.Module) -> None:
    """Raise ValueError, by name, for what the tap was not shown to reproduce."""
    if not (innermost := _innermost(model)):
        raise ValueError(f"{type(model).__name__} holds no Hugging Face model: tap a PreTrainedModel.")
    for m in innermost:
        if m.config.model_type not in (*TESTED, *ADDED) and not _interfaced(m):
            raise ValueError(
                f"{type(m).__name__} (model type {m.config.model_type!r}) does not call AttentionInterface, "
                f"and so its attention cannot be seen: use one of {', '.join(KNOWN)}."
            )
        if m.config.model_type not in (*TESTED, *ADDED) and type(m) not in _VERIFIED:
            raise ValueError(
                f"the tap was not shown to reproduce {type(m).__name__} (model type "
                f"{m.config.model_type!r}): call causalnb.attention.verify(model, inputs) "
                f"first, or use one of {', '.join(KNOWN)}."
            )
        if getattr(m.config, "reorder_and_upcast_attn", False) and m.config._attn_implementation == "eager":
            raise ValueError(
                f"{type(m).__name__} has reorder_and_upcast_attn=True, which under eager goes "
                "past the attention interface: load it with attn_implementation='sdpa'."
            )
    _refuse_reentrant(model)


def _interfaced(model: nn.Module) -> bool:
    """Whether the file of a model knows the attention interface."""
    return any("eager_attention_forward" in vars(sys.modules[cls.__module__]) for cls in type(model).__mro__)


def _watched(tapped: int, model: nn.Module, arguments: tuple) -> None:
    """Forward pre-hook of the model of that id, not of its copies."""
    if id(model) == tapped:
        _refuse_reentrant(model)


def _refuse_reentrant(model: nn.Module) -> None:
    """Raise ValueError where a model that trains is checkpointed with use_reentrant=True."""
    for m in model.modules():
        if m.training and getattr(m, "gradient_checkpointing", False) and torch.is_grad_enabled():
            options = getattr(m._gradient_checkpointing_func, "keywords", {})
            if options.get("use_reentrant", True) is not False:
                raise ValueError(
                    f"{type(m).__name__} is checkpointed with use_reentrant=True, under which "
                    "records carry no gradient: enable checkpointing with use_reentrant=False."
                )


def _sites(model: nn.Module, layers: Iterable[int] | None, kinds: Iterable[str]) -> dict[int, tuple]:
    """id(module) -> (layer, kind, stack) for the modules whose attention calls are wanted."""
    kinds = tuple(kinds)
    if unknown := set(kinds) - set(KINDS):
        raise ValueError(f"unknown kind {sorted(unknown)[0]!r}: choose among {KINDS}, as in kinds=('self',).")
    sites = {}
    for m in _innermost(model):
        for path, module in m.named_modules():
            if number := re.search(r"(?:^|\.)(\d+)\.", path):
                tail = path[number.end() :].lower()
                kind = "cross" if re.search(r"cross|encoder_attn|encdec", tail) else "self"
                causal = getattr(module, "is_decoder", False) or getattr(module, "is_causal", False)
                stack = "decoder" if causal or kind == "cross" else "encoder"
                sites[id(module)] = (int(number[1]), kind, stack)
    present = {layer for layer, _, _ in sites.values()}
    layers = present if layers is None else set(layers)
    if missing := layers - present:
        raise ValueError(f"no layer {min(missing)} in {type(model).__name__}: it has 0 to {max(present)}.")
    return {key: site for key, site in sites.items() if site[0] in layers and site[1] in kinds}


def _namespace(module: nn.Module) -> dict:
    """The globals of the modeling file of `module`: its attention interface and its eager function."""
    for cls in type(module).__mro__:
        space = vars(sys.modules[cls.__module__])
        if "eager_attention_forward" in space and "ALL_ATTENTION_FUNCTIONS" in space:
            return space
    raise ValueError(
        f"{type(module).__name__} has no eager_attention_forward in its file: tap another model."
    )


def _listener(previous: str, sites: Mapping[int, tuple], deliver: Callable[[Record], None]) -> Callable:
    """An attention function that delivers a record and returns what the one named `previous` returns."""
    root, thread = getattr(ALL_ATTENTION_FUNCTIONS.get(previous), "root", previous), get_ident()

    def listen(module, query, key, value, attention_mask, **kwargs):
        recomputed = torch._C._current_graph_task_id() != -1  # a backward pass runs: this is a checkpoint's
        if not recomputed and get_ident() != thread:
            raise ValueError("another thread runs this model while it is tapped: give each thread a copy")
        if id(module) in sites and not recomputed:
            options = {name: v for name, v in kwargs.items() if name not in ("scaling", "dropout")}
            scaling = kwargs.get("scaling")
            scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
            with saved_tensors_hooks(lambda t: t, lambda t: t):  # what fn saves is no part of a checkpoint
                deliver(
                    Record(
                        *sites[id(module)], query, key, value, attention_mask, scaling, root, module, options
                    )
                )
        space = _namespace(module)
        function = space["ALL_ATTENTION_FUNCTIONS"].get_interface(previous, space["eager_attention_forward"])
        with _renamed([module.config], lambda _: previous):  # some (flash) read their own name there
            return function(module, query, key, value, attention_mask, **kwargs)

    listen.root = root
    return listen


@contextmanager
def _renamed(configs: Iterable[PreTrainedConfig], rename: Callable[[str], str]) -> Iterator[None]:
    """Rename the attention implementation in each config, and put the old name back whatever happens."""
    saved = {id(config): (config, config._attn_implementation) for config in configs}
    try:
        for config, name in saved.values():
            config._attn_implementation_internal = rename(name)
        yield
    finally:
        for config, name in saved.values():
            config._attn_implementation_internal = name
