"""ICLMForCausalLM: an invariant and N domain modules on one frozen base, a router, and their aggregation."""

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Self

import torch
import torch.nn.functional as F
from peft import LoraConfig
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import DynamicCache, GenerationMixin
from transformers.pytorch_utils import Conv1D
from transformers.utils import ModelOutput, can_return_tuple

from causalnb.parallel import own_rows, processes, shared_mean, shared_rows, widest
from causalnb.wrapping import DecoderWrapper, OfThread, decoder_layers, unknown_keywords

from .adapters import Rows, adapt
from .aggregation import LatentAggregation
from .configuration import AGGREGATIONS, ICLMConfig
from .independence import routed_alignment, routed_mutual_information
from .routing import Router, Routing, mean_pooled


@dataclass
class ICLMOutput(ModelOutput):
    """loss of Equation 4 and its parts; logits (B, T, V), or (n, V) at the n labels; the routing."""

    loss: Tensor | None = None
    logits: Tensor | None = None
    losses: dict[str, Tensor] | None = None
    routing: Routing | None = None
    past_key_values: "ModuleCache | None" = None

    @property
    def module(self) -> Tensor | None:
        """The domain module (B,) of each input; None where one module answered alone."""
        return None if self.routing is None else self.routing.module


class ModuleCache(DynamicCache):
    """Keys and values of all modules' rows, and the routing that the prompt was given.

    An empty cache that the caller hands in shares the layers, so that its length can be asked; it has no
    place for the routing, and rows are chosen and repeated here alone.
    """

    def __init__(self, config, routing: Routing | None):
        super().__init__(config=config)
        self.routing = routing

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Keep the rows beam_idx of every module."""
        self.batch_select_indices(beam_idx)

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keep the rows of the inputs `indices`, of every module."""
        module, loss, weights = self.routing
        for layer in self.layers:  # shared layers hold one row for each input, the others one for each module
            copies = torch.arange(len(layer.keys) // len(module), device=indices.device)
            rows = (copies[:, None] * len(module) + indices).flatten()
            layer.batch_select_indices(rows.to(layer.keys.device))
        self.routing = Routing(module[indices], loss, None if weights is None else weights[indices])

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Repeat the rows of each input, of every module."""
        rows = torch.arange(len(self.routing.module), device=self.routing.module.device)
        self.batch_select_indices(rows.repeat_interleave(repeats))


@dataclass
class Pass:
    """One pass through the base, in which a row of each input becomes one for each module that runs on it.

    The routing is settled before, or by the shared layers' states where prompt (B, T) is. everyone: whether
    all domain modules run. whole: where processes share a batch, the routing of all of it.
    """

    inputs: int
    everyone: bool
    routing: Routing | None
    prompt: Tensor | None
    whole: Routing | None = None

    def settle(self, whole: Routing) -> None:
        """Take this process's part of the routing of all inputs."""
        module, loss, weights = whole
        weights = None if weights is None else own_rows(weights, self.inputs)
        self.routing, self.whole = Routing(own_rows(module, self.inputs), loss, weights), whole

    def repeated(self, value, modules: int):
        """A tensor of one row for each input, once for every module; what has no such rows stays as it is."""
        if isinstance(value, Tensor) and value.dim() > 1 and len(value) == self.inputs:
            return value.repeat(modules, *[1] * (value.dim() - 1))
        return value


class ICLMForCausalLM(DecoderWrapper, GenerationMixin):
    """The paper's model on one frozen Hugging Face decoder: each module is a row of low-rank adapters.

    Only the invariant module and the one an input is routed to run; all of them with distance weights, and
    where the loss is asked for with information="all".
    Module numbers: domains 0 to N - 1, then "invariant", then "router" where it is trainable. A Trainer with
    a label_smoothing_factor computes its own loss of the logits, without those of modules and router.
    """

    config_class = ICLMConfig
    accepts_loss_kwargs = True
    _pass, _only = OfThread(), OfThread()  # the pass that runs, a Pass, and the number of one module alone
    _supports_sdpa = _supports_flash_attn = True
    resize_token_embeddings = DecoderWrapper.keep_vocabulary  # the aggregation has its size

    def __init__(self, config: ICLMConfig, base_model: nn.Module | None = None):
        super().__init__(config, base_model)
        if hasattr(self.aggregation, "base_head"):
            self.aggregation.register_forward_pre_hook(self._hand_head)

    def _hand_head(self, aggregation: nn.Module, _) -> None:
        """Before an aggregation of the modules' own logits: the base's head, which may be another by then."""
        aggregation.base_head = (self.get_output_embeddings(),)

    def _connect(self, config: ICLMConfig) -> None:
        head = self.base.get_output_embeddings()
        if head is None:
            raise ValueError(
                f"{type(self.base).__name__} has no output embeddings: pass a model with a language head"
            )
        width, lora = config.base_config.hidden_size, config.lora
        self.rows = Rows()
        layers = decoder_layers(self.base)[config.shared_layers :]
        self._adapted = adapt(
            layers,
            lora["target_modules"],
            len(self.modules_in_order()),
            self.rows,
            lora["r"],
            lora["alpha"],
            lora["dropout"],
        )
        self.router = Router(
            config.router,
            config.num_modules,
            width,
            config.router_projection,
            config.router_norm,
            **config.router_settings,
        )
        self.aggregation = self._aggregation(head)
        if config.shared_layers:
            for layer in layers:
                layer.register_forward_pre_hook(self._fan_out, with_kwargs=True)
        precision = torch.promote_types(self.base.get_input_embeddings().weight.dtype, torch.float32)
        self.router.to(dtype=precision)  # what is trained or averaged over many steps needs the digits
        if self.aggregation is not None:
            self.aggregation.to(dtype=precision)
        self._train_adapters_alone()

    def _aggregation(self, head) -> nn.Module | None:
        config = self.config
        settings = config.aggregation_settings
        if config.aggregation == "latent":
            return LatentAggregation(head, config.invariant, **settings)
        run = config.num_modules if config.router == "distance" else 1
        share = config.invariant_weight if config.invariant else None
        kind = AGGREGATIONS[config.aggregation]
        return None if kind is None else kind(head, run + config.invariant, share, **settings)

    def _train_adapters_alone(self) -> None:
        self.base.requires_grad_(False)
        for layer in self._adapted.values():
            layer.A.requires_grad_()
            layer.B.requires_grad_()

    @classmethod
    def from_base(cls, base_model: nn.Module, **settings) -> Self:
        """As DecoderWrapper.from_base, with the base frozen.

        Raises ValueError for a base with adapters, without a language head, or one that does more between
        its last states and its logits than that head, too.
        """
        if hasattr(base_model, "peft_config"):
            raise ValueError("the base carries adapters already: merge them (merge_and_unload) and wrap that")
        _checked_base(base_model)
        model = super().from_base(base_model, **settings)
        model.generation_config = copy.deepcopy(base_model.generation_config)
        device = base_model.get_input_embeddings().weight.device
        model.router.to(device)
        if model.aggregation is not None:
            model.aggregation.to(device)
        return model

    @classmethod
    def from_pretrained(cls, folder, *arguments, **keywords):
        """As DecoderWrapper.from_pretrained, with the base frozen, and modules that were when saved."""
        loaded = super().from_pretrained(folder, *arguments, **keywords)
        model = loaded[0] if isinstance(loaded, tuple) else loaded
        model._train_adapters_alone()
        held = next(iter(model._adapted.values())).frozen.nonzero()[:, 0].tolist()
        model.freeze_modules([model.modules_in_order()[number] for number in held])
        return loaded

    def _set_gradient_checkpointing(self, enable=True, gradient_checkpointing_func=checkpoint, **kwargs):
        """Recomputed in the backward pass, a layer takes the adapters again that it took before."""
        if getattr(gradient_checkpointing_func, "keywords", {}).get("use_reentrant"):
            raise ValueError("reentrant checkpoints forget the rows of the modules: set use_reentrant=False")
        same = partial(gradient_checkpointing_func, context_fn=self._same_rows)
        super()._set_gradient_checkpointing(enable, same, **kwargs)

    def _same_rows(self):
        return nullcontext(), self.rows.of(self.rows.module)

    # Modules and their adapters

    def modules_in_order(self) -> list[int | str]:
        """Names of the modules: place m has row m of every adapter."""
        config = self.config
        return [
            *range(config.num_modules),
            *["invariant"] * config.invariant,
            *["router"] * config.router_trainable,
        ]

    def number(self, module: int | str) -> int:
        """Adapter row of a domain module's number, "invariant" or "router"; ValueError for another."""
        names = self.modules_in_order()
        if module not in names:
            raise ValueError(f"there is no module {module!r}: choose {', '.join(map(repr, names))}")
        return names.index(module)

    def freeze_modules(self, modules: Sequence[int | str]) -> None:
        """Give the adapters of these modules, and the centroids of the domains among them, no gradient.

        With "router" its projection has none either; its statistics are held by `router.fit` alone.
        Those named before and not now are trained again. They stay where they are under an optimiser made
        afterwards, without weight decay: momentum and decay move weights that have no gradient, too.
        """
        numbers = [self.number(module) for module in modules]
        for layer in self._adapted.values():
            layer.frozen.fill_(False)
            layer.frozen[numbers] = True
        frozen = getattr(self.router.choose, "frozen", None)
        if frozen is not None:
            frozen.fill_(False)
            frozen[[number for number in numbers if number < self.config.num_modules]] = True
        self.router.project.requires_grad_("router" not in modules)

    @contextmanager
    def only(self, module: int | str) -> Iterator["ICLMForCausalLM"]:
        """Within this context one module answers alone, through the base's head; also in generate."""
        previous, self._only = self._only, self.number(module)
        try:
            yield self
        finally:
            self._only = previous

    def export_adapter(self, module: int | str, folder: str | Path) -> None:
        """Write one module as an ordinary peft adapter of the base."""
        number, lora, folder = self.number(module), self.config.lora, Path(folder)
        transposed = any(isinstance(layer.base, Conv1D) for layer in self._adapted.values())
        config = LoraConfig(
            task_type="CAUSAL_LM",
            r=lora["r"],
            lora_alpha=lora["alpha"],
            lora_dropout=lora["dropout"],
            target_modules=lora["target_modules"],
            bias="none",
            fan_in_fan_out=transposed,
            layers_to_transform=list(range(self.config.shared_layers, self.base.config.num_hidden_layers)),
            base_model_name_or_path=self.config.base_config.name_or_path,
        )
        names = {layer: name for name, layer in self.base.named_modules()}
        weights = {}
        for layer in self._adapted.values():
            for kind in "AB":
                key = f"base_model.model.{names[layer]}.lora_{kind}.weight"
                weights[key] = getattr(layer, kind)[number].detach().cpu().contiguous()
        folder.mkdir(parents=True, exist_ok=True)
        config.save_pretrained(folder)
        save_file(weights, folder / "adapter_model.safetensors")

    # States and routing

    def states(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        module: int | str | None = None,
        all_layers: bool = False,
        **kwargs,
    ) -> Tensor:
        """Last hidden states (B, T, D) of a module, None for the bare base; all_layers: (L + 1, B, T, D)."""
        number = None if module is None else self.number(module)
        with self.rows.of(number):
            out = self._decoder(input_ids, attention_mask, output_hidden_states=all_layers, **kwargs)
        return torch.stack(out.hidden_states) if all_layers else out.last_hidden_state

    def router_states(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        prompt_mask: Tensor | None = None,
        **kwargs,
    ) -> Tensor:
        """What the router reads of each input: its states' mean over the prompt (B, D).

        The prompt is where prompt_mask (B, T) is 1; without one, what stands before the first of labels
        (B, T), or the whole input; with router_over="tokens" all positions are read, padding and answers
        included. Where words of the prompt are labels too, as in dense supervision, it must
        be given: a router that reads one part of a prompt in training and another later routes by chance.
        Without router_trainable no gradient flows, and the states of a data set may be computed once and
        handed to forward. Raises ValueError for a prompt_mask of another shape or without a token.
        """
        mask = self._router_mask(input_ids, attention_mask, labels, prompt_mask)
        end = int(mask.any(0).nonzero()[-1]) + 1  # what follows does not reach the states of a causal decoder
        input_ids, mask = input_ids[:, :end], mask[:, :end]
        attention_mask = None if attention_mask is None else attention_mask[:, :end]
        if kwargs.get("position_ids") is not None:
            kwargs["position_ids"] = kwargs["position_ids"][:, :end]  # unprobed: in no experiment
        if self.config.router_trainable:
            return mean_pooled(self.states(input_ids, attention_mask, "router", **kwargs), mask)
        modes = [(part, part.training) for part in self.base.modules()]
        self.base.eval()
        try:
            with torch.no_grad():
                if self.config.shared_layers:
                    out = self._decoder(input_ids, attention_mask, output_hidden_states=True, **kwargs)
                    return mean_pooled(out.hidden_states[self.config.shared_layers], mask)
                return mean_pooled(self.states(input_ids, attention_mask, **kwargs), mask)
        finally:
            for part, training in modes:  # each its own: who tunes may keep a part in evaluation
                part.training = training

    def _router_mask(self, input_ids, attention_mask, labels, prompt_mask) -> Tensor:
        """True (B, T) where the router reads."""
        prompt = _prompt(input_ids, attention_mask, labels, prompt_mask)
        return prompt if self.config.router_over == "prompt" else torch.ones_like(prompt)

    def _routed(self, states: Tensor) -> Routing:
        """Routing of the pooled states (B, D) of all processes that share a batch.

        Raises ValueError where the router in place has other modules.
        """
        known = len(self.router.choose.codebook)
        if known != self.config.num_modules:
            raise ValueError(
                f"the router knows {known} modules and the model {self.config.num_modules}: "
                "build both with one num_modules"
            )
        states = shared_rows(states)[0] if processes() > 1 else states
        return self.router(states)

    def _route(
        self, routing, router_states, input_ids, attention_mask, labels, prompt_mask, position_ids
    ) -> Pass:
        """The pass of a batch: its routing is the one given, or by states given or asked of the base."""
        read = input_ids, attention_mask, labels, prompt_mask
        late = routing is None and router_states is None and self.config.shared_layers
        prompt = self._router_mask(*read) if late else None
        everyone = labels is not None and self.config.information == "all"
        now = Pass(len(input_ids), everyone, routing, prompt)
        if routing is None and not late:
            ask = self.router_states
            states = ask(*read, position_ids=position_ids) if router_states is None else router_states
            now.settle(self._routed(states))
        return now

    # Running

    def _decoder(self, input_ids, attention_mask, **kwargs):
        kwargs = {"use_cache": False} | kwargs | {"return_dict": True}
        return self.base.base_model(input_ids=input_ids, attention_mask=attention_mask, **kwargs)

    def _run(self, now: Pass, input_ids, attention_mask, **kwargs):
        """Last hidden states (M, B, T, D) of the modules that ran, and the cache; now.routing is settled."""
        run = self._run_together if self.config.shared_layers else self._run_apart
        out = run(now, input_ids, attention_mask, **kwargs)
        return out.last_hidden_state.unflatten(0, (-1, now.inputs)), out.past_key_values

    def _run_together(self, now: Pass, input_ids, attention_mask, **kwargs):
        """The base's output, modules apart from their first adapted layer on."""
        self._pass = now
        try:
            return self._decoder(input_ids, attention_mask, **kwargs)
        finally:
            self._pass, self.rows.module = None, None

    def _run_apart(self, now: Pass, input_ids, attention_mask, **kwargs):
        """The base's output, every layer once for each module."""
        modules = self._assigned(now)
        count = len(modules)
        repeated = {name: now.repeated(value, count) for name, value in kwargs.items()}
        with self.rows.of(modules.flatten()):
            mask = now.repeated(attention_mask, count)
            return self._decoder(input_ids.repeat(count, 1), mask, **repeated)

    def _assigned(self, now: Pass) -> Tensor:
        """Adapter rows (M, B) that run for B inputs: the invariant module's, then the domains'."""
        device = now.routing.module.device
        domains = now.routing.module[None]
        if now.routing.weights is not None or now.everyone:
            domains = torch.arange(self.config.num_modules, device=device)[:, None].expand(-1, now.inputs)
        if not self.config.invariant:
            return domains
        return torch.cat([torch.full((1, now.inputs), self.number("invariant"), device=device), domains])

    def _fan_out(self, layer, given: tuple, named: dict):
        """Before an adapted layer, one row for each input becomes one for each module that runs on it.

        Masks and positions do so before every layer, the states before the first, which also routes by them.
        """
        now = self._pass
        if now is None:
            return None
        if now.routing is None:
            hidden = given[0] if given else named["hidden_states"]
            now.settle(self._routed(mean_pooled(hidden.detach(), now.prompt)))
        modules = self._assigned(now)
        self.rows.module = modules.flatten()

        def repeated(value):
            return (
                tuple(map(repeated, value)) if isinstance(value, tuple) else now.repeated(value, len(modules))
            )

        return repeated(given), {name: repeated(value) for name, value in named.items()}

    # Forward

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        router_states: Tensor | None = None,
        routing: Routing | Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: ModuleCache | None = None,
        use_cache: bool = False,
        logits_to_keep: int = 0,
        prompt_mask: Tensor | None = None,
        answers_only: bool = False,
        num_items_in_batch: Tensor | int | None = None,
        **kwargs,
    ) -> ICLMOutput:
        """Logits (B, T, V), and with labels (B, T), -100 off the answer, Equation 4.

        answers_only: with labels, the logits (n, V) alone where the n labels are predicted, one place before
        each, in the order of labels[:, 1:]; so it is in training always, which needs no others. prompt_mask
        (B, T) as in `router_states`, whose states (B, D) save the router's pass; a routing, or modules (B,)
        as an oracle names them, settles the matter. losses has output, invariant, domain, routing,
        mutual_information, unweighted, and alignment where delta is not 0. num_items_in_batch as in
        DecoderWrapper. Raises ValueError for labels all ignored, for arguments of another shape, unknown
        modules, and states that are not finite.
        """
        self.refuse_replicas("share one routing")
        if unknown_keywords(self, kwargs):
            raise ValueError(unknown_keywords(self, kwargs))
        if isinstance(routing, Tensor):
            routing = Routing(routing, torch.zeros((), device=routing.device))
        given = None if isinstance(past_key_values, ModuleCache) else routing  # with a cache goes its own
        _checked_inputs(input_ids, labels, given, self.config.num_modules)
        for name in ("output_hidden_states", "output_attentions"):
            if kwargs.pop(name, None):
                raise ValueError(
                    f"{name} has no one meaning for several modules: ask a module, as in "
                    "states(input_ids, module=0, all_layers=True)"
                )
        kwargs["position_ids"] = position_ids  # named above, so that generate makes them for padded prompts
        if self._only is not None:
            out = self._alone(
                input_ids,
                attention_mask,
                labels,
                past_key_values,
                use_cache,
                logits_to_keep,
                answers_only,
                **kwargs,
            )
            out.loss = self.part_of_step(out.loss, labels, num_items_in_batch)
            return out
        cached = _checked_cache(past_key_values)
        grown = cached is not None and cached.get_seq_length() > 0
        routing = routing if cached is None else cached.routing
        marks = labels, prompt_mask, routing, router_states
        if self.training and torch.is_grad_enabled() and all(mark is None for mark in marks):
            raise ValueError(
                "in training neither labels nor a prompt_mask say where answers begin (a Trainer with "
                "label_smoothing_factor or compute_loss_func takes labels out), and they would route: pass "
                "prompt_mask, of ones where all is prompt, or call eval()"
            )
        now = self._route(
            routing, router_states, input_ids, attention_mask, labels, prompt_mask, position_ids
        )
        if cached is None and labels is None and (use_cache or past_key_values is not None):
            cached = ModuleCache(self.base.config, now.routing)
        states, cached = self._run(
            now, input_ids, attention_mask, past_key_values=cached, use_cache=use_cache, **kwargs
        )
        if labels is None:
            out = self._continued(now.routing, states, cached, attention_mask, grown, logits_to_keep)
            if isinstance(past_key_values, DynamicCache) and past_key_values is not cached:
                past_key_values.layers = cached.layers  # unprobed: an empty one of the caller's
            return out
        out = self._with_losses(now, states, labels, answers_only)
        out.loss = self.part_of_step(out.loss, labels, num_items_in_batch)
        return out

    def _prefill(self, input_ids, generation_config, model_kwargs, *arguments, **keywords):
        """As in transformers.

        Raises ValueError for a prompt in chunks, of which the first alone would route, and for a cache of
        another kind: static, for which masks are made before an input has a row for each module, quantized
        or offloading.
        """
        if generation_config.prefill_chunk_size is not None:
            raise ValueError("the whole prompt routes: leave prefill_chunk_size out")
        _checked_kind(model_kwargs.get("past_key_values"))
        return super()._prefill(input_ids, generation_config, model_kwargs, *arguments, **keywords)

    def _update_model_kwargs_for_generation(self, outputs, model_kwargs, *arguments, **keywords):
        """The prompt's routing holds until the end of the text, without a cache too."""
        model_kwargs["routing"] = outputs.routing
        return super()._update_model_kwargs_for_generation(outputs, model_kwargs, *arguments, **keywords)

    # Scoring

    def _continued(self, routing, states, cached, attention_mask, grown: bool, logits_to_keep) -> ICLMOutput:
        """The output without labels, with the cache that was filled; states must be finite at first."""
        if cached is not None:
            cached.routing = routing
        if not grown:
            _checked_finite(states, attention_mask)
        logits = self._answered(routing, states, logits_to_keep)
        return ICLMOutput(logits=logits, routing=routing, past_key_values=cached)

    def _answered(self, routing: Routing, states: Tensor, logits_to_keep: int) -> Tensor:
        """Logits (B, T, V) of the modules' states (M, B, T, D), or of the last logits_to_keep places."""
        states = states[:, :, -logits_to_keep:] if logits_to_keep else states
        weights = _domain_weights(routing).repeat_interleave(states.shape[2], 1)
        return self._logits(states.flatten(1, 2), weights).unflatten(0, states.shape[1:3])

    def _logits(self, states: Tensor, weights: Tensor, rows: Tensor | None = None) -> Tensor:
        """Logits (n, V) of states (M, n, D) and the domains' weights (N, n), at rows alone."""
        if self.aggregation is not None:
            return self.aggregation(states, weights, rows)
        states, weights = (states, weights) if rows is None else (states[:, rows], weights[:, rows])
        return self.get_output_embeddings()(_mixed(states, weights))

    def _with_losses(self, now: Pass, states: Tensor, labels: Tensor, answers_only: bool) -> ICLMOutput:
        routing = now.routing
        if processes() > 1:  # the losses are of all rows together
            routing, states, labels = _of_all(now, states, labels)  # unprobed: runs have one process
        where, targets = _label_rows(labels)
        tokens, weights = labels.shape[1], _domain_weights(routing)
        chosen, everyone = states[:, where[0], where[1]], None  # (M, n, D)
        _checked_finite(chosen, owner=where[0])
        if len(states) > self.config.invariant + len(weights):  # all ran for Equation 3, and one answers
            inputs = torch.arange(len(labels), device=labels.device)
            states = torch.stack([states[0], states[1 + routing.module, inputs]])
            chosen, everyone = states[:, where[0], where[1]], chosen[1:]
        if self.config.norm_over == "tokens":
            logits = self._logits(
                states.flatten(1, 2), weights.repeat_interleave(tokens, 1), where[0] * tokens + where[1]
            )
        else:
            logits = self._logits(chosen, weights[:, where[0]])
        losses = {"output": _surprise(logits, targets), "routing": routing.loss}
        if self.config.aggregation != "own":
            losses |= self._module_losses(routing, chosen, everyone, weights[:, where[0]], where[0], targets)
        total = losses["output"] + sum(
            self.config.weights[_WEIGHT_OF[name]] * loss for name, loss in losses.items() if name != "output"
        )
        if not total.isfinite():
            wrong = next((name for name, loss in losses.items() if not loss.isfinite()), "weighted")
            raise ValueError(
                f"the {wrong} loss is {total.item()}: lower the learning rate or look for the "
                "step where it began"
            )
        if not (answers_only or self.training):
            logits = self._answered(routing, states, 0)  # unprobed: without answers_only alone
            logits = own_rows(logits, now.inputs)  # unprobed: the same
        elif processes() > 1:
            logits = logits[_own(where[0], now.inputs, len(labels))]  # unprobed: runs have one process
        return ICLMOutput(total, logits, {name: loss.detach() for name, loss in losses.items()}, now.routing)

    def _module_losses(self, routing, states, everyone, weights, owner, targets) -> dict[str, Tensor]:
        """Cross-entropy of the modules' own logits, and the mutual information, from states (M, n, D).

        The latter from those of all domain modules (N, n, D) where everyone has them.
        """
        head, domains = self.get_output_embeddings(), states[int(self.config.invariant) :]
        found = {"domain": _surprise(head(_mixed(domains, weights)), targets)}
        domains = domains if everyone is None else everyone
        if not self.config.invariant:
            return found
        found["invariant"] = _surprise(head(states[0]), targets)
        module = (
            routing.module[owner]
            if len(domains) < self.config.num_modules
            else torch.arange(len(domains), device=owner.device).repeat_interleave(len(owner))
        )
        pairs = (states[0].repeat(len(domains), 1), domains.flatten(0, 1), module, self.config.num_modules)
        found["mutual_information"] = routed_mutual_information(
            *pairs, self.config.direction, self.config.clamp
        ).sum()
        if self.config.weights["delta"]:
            found["alignment"] = routed_alignment(*pairs).sum()
        return found

    def _alone(
        self,
        input_ids,
        attention_mask,
        labels,
        past_key_values,
        use_cache,
        logits_to_keep,
        answers_only,
        **kwargs,
    ):
        with self.rows.of(self._only):
            out = self._decoder(
                input_ids, attention_mask, past_key_values=past_key_values, use_cache=use_cache, **kwargs
            )
        states, head = out.last_hidden_state, self.get_output_embeddings()
        if labels is None:
            states = states[:, -logits_to_keep:] if logits_to_keep else states
            return ICLMOutput(logits=head(states), past_key_values=out.past_key_values)
        where, targets = _label_rows(labels)
        logits = head(states[where])
        loss = _surprise(logits, targets)
        if processes() > 1:
            loss = shared_mean(loss, labels)  # unprobed: runs have one process
        logits = logits if answers_only or self.training else head(states)
        return ICLMOutput(loss, logits, {"output": loss.detach()})


_WEIGHT_OF = {
    "invariant": "alpha",
    "domain": "beta",
    "routing": "gamma",
    "mutual_information": "epsilon",
    "alignment": "delta",
}


def _of_all(now: Pass, states: Tensor, labels: Tensor) -> tuple[Routing, Tensor, Tensor]:
    """Routing, states (M, B, T, D) and labels (B, T) of the inputs of all processes, padded to one width."""
    if now.whole is None:  # it was given, and settled by no router
        module, loss, weights = now.routing
        weights = None if weights is None else shared_rows(weights)[0]
        now.whole = Routing(*shared_rows(module), loss, weights)
    more = widest(labels.shape[1], labels.device) - labels.shape[1]
    states, labels = F.pad(states, (0, 0, 0, more)), F.pad(labels, (0, more), value=-100)
    by_input, labels = shared_rows(states.transpose(0, 1).contiguous(), labels)
    return now.whole, by_input.transpose(0, 1), labels


def _own(owner: Tensor, inputs: int, everyone: int) -> Tensor:
    """Whether this process has the input owner (n,), one of everyone's."""
    return torch.isin(owner, own_rows(torch.arange(everyone, device=owner.device), inputs))


def _domain_weights(routing: Routing) -> Tensor:
    """Weights (N, B) of the domain modules that ran: the router's, or 1 for the one (1, B)."""
    if routing.weights is not None:
        return routing.weights.T
    return torch.ones(1, len(routing.module), device=routing.module.device)


def _mixed(states: Tensor, weights: Tensor) -> Tensor:
    """States (N, n, D) summed with weights (N, n): (n, D)."""
    return (weights[..., None].to(states.dtype) * states).sum(0)


def _prompt(input_ids, attention_mask, labels, prompt_mask) -> Tensor:
    """True (B, T) where the prompt is."""
    seen = torch.ones_like(input_ids) if attention_mask is None else attention_mask
    seen = seen.bool()
    if prompt_mask is not None:
        if prompt_mask.shape != input_ids.shape or not (prompt_mask.bool() & seen).any(1).all():
            raise ValueError(
                f"prompt_mask has shape {tuple(prompt_mask.shape)} for input_ids of "
                f"{tuple(input_ids.shape)}: mark with 1 at least one token of every input"
            )
        return prompt_mask.bool() & seen
    if labels is None:
        return seen
    before = seen & ((labels != -100).cumsum(1) == 0)
    return torch.where(before.any(1, keepdim=True), before, seen)


def _label_rows(labels: Tensor) -> tuple[tuple[Tensor, Tensor], Tensor]:
    """(input, position) that predict a label, and the labels (n,); ValueError when all are ignored."""
    where = (labels[:, 1:] != -100).nonzero(as_tuple=True)
    if len(where[0]) == 0:
        raise ValueError("all labels are -100: mark the answer's tokens with their ids")
    return where, labels[:, 1:][where]


def _surprise(logits: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(logits.to(torch.promote_types(logits.dtype, torch.float32)), targets)


@torch.no_grad()
def _checked_base(base: nn.Module) -> None:
    """ValueError unless the base's logits are its head's, of its decoder's last states."""
    head, where = base.get_output_embeddings(), base.get_input_embeddings().weight.device
    if head is None or where.type == "meta":
        return  # a base without a head is refused where it is wrapped
    ids, modes = torch.tensor([[0, 1]], device=where), {module: module.training for module in base.modules()}
    base.eval()
    try:
        states = base.base_model(input_ids=ids, use_cache=False).last_hidden_state
        said = base(input_ids=ids, use_cache=False).logits.to(states.device)
        read, digits = head(states), 8 * torch.finfo(states.dtype).eps
        fits = states.shape[-1] == getattr(base.config, "hidden_size", None) and torch.allclose(
            read.float(), said.float(), digits, digits * said.abs().max().item(), equal_nan=True
        )
    finally:
        for module, training in modes.items():
            module.training = training
    if not fits:
        raise ValueError(
            f"{type(base).__name__} makes its logits by more than a head on states of its "
            "hidden_size, as by a cap, a scale or a projection, which modules would not have: "
            "pass another decoder"
        )


def _checked_finite(states: Tensor, mask: Tensor | None = None, owner: Tensor | None = None) -> None:
    """ValueError for states (M, B, T, D) where mask marks, or (M, n, D) of inputs owner, not finite."""
    wrong = ~torch.isfinite(states).all(-1).all(0)
    if owner is None and mask is not None and mask.dim() == 2:
        wrong &= mask[:, -wrong.shape[1] :].bool()
    if wrong.any():
        row = owner[wrong][0] if owner is not None else wrong.any(1).nonzero()[0]
        raise ValueError(
            f"input {int(row)} has states that are not finite: lower the learning rate or look "
            "for the step where it began"
        )


def _checked_inputs(input_ids, labels, routing, num_modules) -> None:
    if input_ids.dim() != 2:
        raise ValueError(
            f"input_ids have shape {tuple(input_ids.shape)}: pass (batch, tokens), also for one row"
        )
    if labels is not None and labels.shape != input_ids.shape:
        raise ValueError(
            f"labels have shape {tuple(labels.shape)}, but input_ids {tuple(input_ids.shape)}: "
            "pass one label for each token"
        )
    if routing is not None and len(routing.module) != len(input_ids):
        raise ValueError(
            f"a routing of {len(routing.module)} inputs was passed with {len(input_ids)}: give "
            "each its module"
        )
    if routing is not None and (
        routing.module.is_floating_point()
        or not ((routing.module >= 0) & (routing.module < num_modules)).all()
    ):
        raise ValueError(
            f"a routing names modules {routing.module.unique().tolist()}: give whole numbers "
            f"from 0 to {num_modules - 1}"
        )


def _checked_kind(cache) -> None:
    """ValueError for a cache that is not one of transformers' dynamic ones, or that offloads its layers."""
    if cache is None or (isinstance(cache, DynamicCache) and not cache.offloading):
        return
    kind = "a DynamicCache that offloads" if isinstance(cache, DynamicCache) else f"a {type(cache).__name__}"
    raise ValueError(
        f"{kind} was asked for, and modules keep their rows in a dynamic cache beside the model: leave "
        "out cache_implementation and past_key_values"
    )


def _checked_cache(cache) -> ModuleCache | None:
    """The cache of this model; None where there is none, or an empty one of the caller's or of generation."""
    if cache is None or isinstance(cache, ModuleCache):
        return cache
    _checked_kind(cache)  # unprobed: a cache that is not ICLM's, in no experiment
    if cache.get_seq_length():
        raise ValueError(
            "past_key_values hold no routing, so that another model filled them or they are the empty ones "
            "that were handed in before: pass those that this model returned"
        )
    return None
