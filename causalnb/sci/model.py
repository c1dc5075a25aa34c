"""SCITransformer: any Hugging Face decoder with structure and content encoders and binding hooks."""

from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Self

import torch
from torch import nn
from transformers import GenerationConfig
from transformers.utils import ModelOutput, can_return_tuple

from causalnb.parallel import shared_mean, shared_rows
from causalnb.wrapping import DecoderWrapper, OfThread, decoder_layers, unknown_keywords

from .binding import BoundSlots, CausalBindingMechanism
from .configuration import SCIConfig
from .content import ContentEncoder
from .contrastive import StructuralContrastiveLoss
from .structure import StructuralEncoder

COLLATOR = "causalnb.lab.training.PromptAnswerCollator"
HUB = ("cache_dir", "force_download", "local_files_only", "token", "revision", "subfolder", "proxies")


def with_generation_config(load, folder, *arguments, **keywords):
    """load(folder, ...), a from_pretrained, with the generation_config of the checkpoint, if it has one."""
    loaded = load(folder, *arguments, **keywords)
    model = loaded[0] if isinstance(loaded, tuple) else loaded
    given = {name: keywords[name] for name in HUB if name in keywords}
    if folder is not None:  # weights may come as a state_dict
        with suppress(OSError):  # an older checkpoint has no such file
            model.generation_config = GenerationConfig.from_pretrained(folder, **given)
    return loaded


def prompt_before_labels(labels: torch.Tensor, attention_mask: torch.Tensor | None = None) -> torch.Tensor:
    """The prompt (B, T) that stands before each row's first label of labels (B, T), padding left out.

    Raises ValueError for a row without one, as where every token is a label: encoders would read the answer.
    """
    seen = torch.ones_like(labels) if attention_mask is None else attention_mask.to(labels.dtype)
    prompt = seen * ((labels != -100).cumsum(1) == 0)
    empty = ~prompt.bool().any(1)
    if empty.any():
        raise ValueError(
            f"row {int(empty.nonzero()[0])} has no token before its first label, and so no prompt: set "
            f"labels to -100 on the prompt, as {COLLATOR} does, or pass a prompt_mask"
        )
    return prompt


@dataclass
class SCIOutput(ModelOutput):
    """loss = lm_loss + scl_weight * contrastive_loss; logits (B, T, V); structure (B, K, d_s)."""

    loss: torch.Tensor | None = None
    logits: torch.Tensor | None = None
    structure: torch.Tensor | None = None
    edges: torch.Tensor | None = None
    slots: torch.Tensor | None = None
    hidden_states: tuple[torch.Tensor, ...] | None = None
    lm_loss: torch.Tensor | None = None
    contrastive_loss: torch.Tensor | None = None


HIDDEN = (
    "in training neither labels nor a prompt_mask say where answers begin (a Trainer with "
    "label_smoothing_factor or compute_loss_func takes labels out), and they would be read as prompt: pass "
    "prompt_mask, of ones where all is prompt, or call eval()"
)


class SCITransformer(DecoderWrapper):
    """A decoder whose layers read, after each of cbm_layers, from slots bound to the prompt's content.

    Structure and content see the prompt alone (prompt_mask), so that no answer leaks; slots are bound once
    for each sequence and every token reads them by itself, so that caching, beams and padding change nothing.
    A Trainer with a label_smoothing_factor computes its own loss of the logits, without the contrastive one,
    and takes the labels out: rows then need a prompt_mask, or the answer would be read as prompt.
    """

    config_class = SCIConfig
    _supports_sdpa = _supports_flash_attn = _supports_flex_attn = True  # as far as the base does
    accepts_loss_kwargs = True
    _bound = OfThread()  # BoundSlots, within `binding`

    def __init__(self, config: SCIConfig, base_model: nn.Module | None = None):
        super().__init__(config, base_model)
        self.loss_type = "ForCausalLM"  # by which a Trainer counts labels from the second token on
        self.contrastive = StructuralContrastiveLoss(config.scl_temperature)

    def _build(self, config: SCIConfig) -> None:
        """The modules around the base."""
        if not config.cbm_layers:
            raise ValueError("cbm_layers is empty: name at least one layer to bind after")
        hidden, width = config.base_config.hidden_size, config.d_structure
        self.down_proj = nn.Linear(hidden, width, bias=False)
        self.down_norm = nn.LayerNorm(width)
        self.structural_encoder = StructuralEncoder(
            width,
            config.n_structural_slots,
            config.n_structural_layers,
            config.n_structural_heads,
            config.dag,
        )
        self.content_encoder = ContentEncoder(width, config.ortho, config.projection)
        self.causal_binding = CausalBindingMechanism(
            width, hidden, len(config.cbm_layers), config.n_structural_heads, config.n_iterations
        )

    def _connect(self, config: SCIConfig) -> None:
        """Hook the binding mechanism to the base's layers."""
        for place, layer in enumerate(config.cbm_layers):
            decoder_layers(self.base)[layer].register_forward_hook(
                partial(self._add_contribution, place),
                prepend=True,  # before any that records the states
            )

    @classmethod
    def from_base(cls, base_model: nn.Module, **settings) -> Self:
        """As DecoderWrapper.from_base; what is added gets the base's device and precision."""
        model = super().from_base(base_model, **settings)
        like = next(model.base.parameters())
        for name, module in model.named_children():
            if name != "base":  # whose buffers may be of another precision on purpose
                module.to(like.device, like.dtype)
        for parameter in model.parameters(recurse=False):
            parameter.data = parameter.data.to(like.device, like.dtype)
        return model

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path, *arguments, **keywords):
        """As DecoderWrapper.from_pretrained, with the base's generation_config."""
        load = super().from_pretrained
        return with_generation_config(load, pretrained_model_name_or_path, *arguments, **keywords)

    @classmethod
    def can_generate(cls) -> bool:
        """Yes, by the base; so save_pretrained keeps its generation_config."""
        return True

    @property
    def generation_config(self) -> GenerationConfig:
        """The base's, by which it generates."""
        return self.base.generation_config

    @generation_config.setter
    def generation_config(self, value):
        if "base" in self._modules:  # PreTrainedModel sets one before there is a base
            self.base.generation_config = value

    def _add_contribution(self, place: int, layer: nn.Module, arguments: tuple, output):
        """Forward hook of the base layer at `place` among cbm_layers; does nothing outside `binding`."""
        if self._bound is None:
            return output
        hidden = output[0] if isinstance(output, tuple) else output
        hidden = self.causal_binding.read(hidden, self._bound.expand(len(hidden)), place)
        return (hidden, *output[1:]) if isinstance(output, tuple) else hidden

    @contextmanager
    def binding(self, bound: BoundSlots):
        """Within this context the base's layers read from the bound slots."""
        previous, self._bound = self._bound, bound
        try:
            yield
        finally:
            self._bound = previous

    @staticmethod
    def prompt_columns(prompt_mask: torch.Tensor) -> slice:
        """The columns that hold prompt in any row; ValueError when there are none."""
        columns = prompt_mask.bool().any(0).nonzero()[:, 0]
        if len(columns) == 0:
            raise ValueError("the prompt mask marks no token at all: mark the instruction's tokens with 1")
        return slice(int(columns[0]), int(columns[-1]) + 1)

    def encode(self, input_ids, prompt_mask):
        """Structure (B, K, d_s), edges (B, K, K), content (B, P, d_s) and mask (B, P) of P prompt columns."""
        columns = self.prompt_columns(prompt_mask)
        mask = prompt_mask[:, columns].bool()
        tokens = self.down_norm(self.down_proj(self.get_input_embeddings()(input_ids[:, columns])))
        structure, edges = self._structure(input_ids[:, columns], tokens, mask)
        return structure, edges, self.content_encoder(tokens, structure), mask

    def _structure(self, input_ids, tokens, mask):
        """Structure (B, K, d_s) and edges (B, K, K) of prompts (B, P), tokens (B, P, d_s), mask (B, P)."""
        return self.structural_encoder(tokens, mask)

    def _checked_mask(self, input_ids, attention_mask, prompt_mask, labels):
        """Where the prompt is (B, T), padding left out."""
        self.refuse_replicas("run unbound")
        if input_ids.dim() != 2:
            raise ValueError(
                f"input_ids have shape {tuple(input_ids.shape)}: pass (batch, tokens), also for one row"
            )
        for name, value in (
            ("attention_mask", attention_mask),
            ("prompt_mask", prompt_mask),
            ("labels", labels),
        ):
            if value is not None and value.shape != input_ids.shape:
                raise ValueError(
                    f"{name} has shape {tuple(value.shape)}, but input_ids {tuple(input_ids.shape)}"
                )
        if prompt_mask is None and labels is not None:
            prompt_mask = prompt_before_labels(labels, attention_mask)  # unprobed: rows without a mask
        elif prompt_mask is None:
            prompt_mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        elif attention_mask is not None:
            prompt_mask = prompt_mask * (attention_mask != 0)
        empty = ~prompt_mask.bool().any(1)
        if empty.any():
            row = int(empty.nonzero()[0])
            raise ValueError(f"row {row} has no prompt token: mark at least one with 1 in its prompt mask")
        return prompt_mask

    def _answers_hidden(self, labels, prompt_mask, structure_ids) -> bool:
        """Whether nothing says in training where answers begin, which contrasts of prompts do not need."""
        told = labels is not None or prompt_mask is not None or structure_ids is not None
        replica = getattr(self, "_is_replica", False)  # which is refused by name
        return self.training and torch.is_grad_enabled() and not told and not replica

    def _attended(self, input_ids, attention_mask, settings: dict):
        """attention_mask (B, T), inferred from the padding as Hugging Face does where it is None."""
        if attention_mask is not None:
            return attention_mask
        own, given = self.generation_config, settings.get("generation_config")
        pad, end = (
            next((value for value in (settings.get(name), getattr(given, name, None)) if value is not None),
                 getattr(own, name)) for name in ("pad_token_id", "eos_token_id")
        )  # fmt: skip
        ends = end if isinstance(end, (list, tuple)) else [end]
        return None if pad is None or pad in ends else (input_ids != pad).long()

    @can_return_tuple
    def forward(
        self,
        input_ids,
        attention_mask=None,
        prompt_mask=None,
        labels=None,
        structure_ids=None,
        do=None,
        num_items_in_batch=None,
        **kwargs,
    ) -> SCIOutput:
        """Logits (B, T, V); loss with labels (B, T), -100 off the answer.

        The prompt is where prompt_mask (B, T) is 1; without one, what stands before the first label, or
        without labels, which training refuses, the whole input.

        structure_ids (B,) add the contrastive loss; rows with a negative id take no part in it. An id names
        one structure in all processes that share a batch.
        do={slot: (B, d_s)} holds slots at values. num_items_in_batch as in DecoderWrapper. Raises ValueError
        for labels that leave no prompt, for shapes that do not fit, for empty prompts, in training for
        neither labels nor prompt_mask, and for keywords that the base does not know.
        """
        if kwargs.get("past_key_values") is not None:
            raise ValueError(
                "forward reads the whole prompt and takes no past_key_values: call generate to use the cache"
            )
        if unknown_keywords(self, kwargs):
            raise ValueError(unknown_keywords(self, kwargs))
        if kwargs.get("output_attentions"):
            raise ValueError(
                "an SCIOutput has no attentions: leave output_attentions out, and read the base's maps with "
                "causalnb.attention.tap(model.base)"
            )
        if self._answers_hidden(labels, prompt_mask, structure_ids):
            raise ValueError(HIDDEN)
        prompt_mask = self._checked_mask(input_ids, attention_mask, prompt_mask, labels)
        structure, edges, content, mask = self.encode(input_ids, prompt_mask)
        bound = self.causal_binding.bind(structure, edges, content, mask, do)
        with self.binding(bound):
            out = self.base(input_ids=input_ids, attention_mask=attention_mask, labels=labels, **kwargs)
        lm_loss = loss = None if labels is None else shared_mean(out.loss, labels)
        contrastive = None
        if structure_ids is not None:
            contrastive = self.contrastive.of_ids(*shared_rows(structure, structure_ids))
            loss = self.config.scl_weight * contrastive + (0 if loss is None else loss)
        loss = self.part_of_step(loss, labels, num_items_in_batch)
        return SCIOutput(
            loss, out.logits, structure, edges, bound.slots, out.get("hidden_states"), lm_loss, contrastive
        )

    def prepare_inputs_for_generation(self, *arguments, **keywords):
        """The base's, which peft asks for."""
        return self.base.prepare_inputs_for_generation(*arguments, **keywords)

    @torch.no_grad()
    def generate(self, input_ids, attention_mask=None, do=None, **kwargs):
        """The base's generate, slots bound once from the whole input, which is the prompt; ids (B, T)."""
        attention_mask = self._attended(input_ids, attention_mask, kwargs)
        prompt_mask = self._checked_mask(input_ids, attention_mask, None, None)
        bound = self.causal_binding.bind(*self.encode(input_ids, prompt_mask), do)
        with self.binding(bound):
            return self.base.generate(input_ids=input_ids, attention_mask=attention_mask, **kwargs)
