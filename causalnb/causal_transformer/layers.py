"""The blocks and stacks of Figure 6, their positions sinusoids that padding does not shift."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.utils import ModelOutput, TransformersKwargs, can_return_tuple

from .configuration import CausalTransformerConfig
from .fused import Visible
from .measure import checked_valid
from .patterns import attention_pattern
from .self_attention import CausalSelfAttention, MultiHeadAttention
from .values import ACTIVATIONS

ABSENT = {  # what models of Hugging Face may be asked and these may not -> what to do instead
    "inputs_embeds": "pass input_ids, which say what padding is",
    "decoder_inputs_embeds": "pass decoder_input_ids",
    "output_hidden_states": "read them with forward hooks on the layers",
}
PASSING = {"return_dict", "cache_position", "position_ids", "decoder_position_ids"}  # in calls of generate


def refuse(asked: dict) -> None:
    """Raise ValueError for an argument of ABSENT that was given."""
    for name, instead in ABSENT.items():
        given = asked.get(name)
        if given is not None and given is not False:
            said = f"has shape {tuple(given.shape)}" if isinstance(given, Tensor) else f"is {given!r}"
            raise ValueError(f"{name} {said}, which these models do not take: {instead}")


def unknown(asked: dict) -> str:
    """What is wrong with arguments that forward does not name, nor ABSENT, nor transformers, or ""."""
    names = sorted(asked.keys() - ABSENT.keys() - TransformersKwargs.__annotations__.keys() - PASSING)
    return f"these models have no argument {names[0]!r}: pass what forward's docstring names" if names else ""


def check_tokens(tokens: Tensor | None, name: str) -> None:
    """Raise ValueError where tokens (B, T) are missing, none, or of another number of axes."""
    if tokens is None:
        raise ValueError(f"{name} is missing: pass tokens (B, T)")
    if not tokens.numel():
        raise ValueError(f"{name} has shape {tuple(tokens.shape)}, an empty batch: pass at least one token")
    if tokens.dim() != 2:
        raise ValueError(f"{name} has shape {tuple(tokens.shape)}: pass tokens (B, T), also of a single item")


def sinusoids(positions: Tensor, width: int) -> Tensor:
    """Sines and cosines (B, T, width) of positions (B, T), at wavelengths from 2 pi to 20,000 pi."""
    half = (width + 1) // 2
    rates = torch.exp(torch.arange(half, device=positions.device) * (-math.log(10_000) / half))
    angles = positions[..., None] * rates
    return torch.cat([angles.sin(), angles.cos()], -1)[..., :width]


class FeedForward(nn.Module):
    """Position-wise W2 sigma(W1 x), (B, T, D) to (B, T, D)."""

    def __init__(self, config: CausalTransformerConfig):
        super().__init__()
        self.up_proj = nn.Linear(config.d_model, config.d_ff)
        self.down_proj = nn.Linear(config.d_ff, config.d_model)
        self.sigma = ACTIVATIONS[config.activation]

    def forward(self, hidden: Tensor) -> Tensor:
        """W_down sigma(W_up h), of shape (B, T, D) as hidden."""
        return self.down_proj(self.sigma(self.up_proj(hidden)))


class Block(GradientCheckpointingLayer):
    """Causal self-attention, in the decoder cross-attention, then feed-forward, each with Add & Norm."""

    def __init__(self, config: CausalTransformerConfig, decoder: bool):
        super().__init__()
        width, heads = config.d_model, config.num_heads
        relative = 0 if decoder else config.relative
        self.self_attn = CausalSelfAttention(width, heads, config.gcn, config.activation, relative)
        self.self_norm = nn.LayerNorm(width)
        if decoder:
            self.cross_attn = MultiHeadAttention(width, heads)
            self.cross_norm = nn.LayerNorm(width)
        self.ffn, self.ffn_norm = FeedForward(config), nn.LayerNorm(width)
        self.dropout, self.pre_norm = nn.Dropout(config.dropout), config.pre_norm

    def forward(self, hidden, visible, measure, maps, states=None, there=None, layer=0, past_key_values=None):
        """hidden (B, T, D), tau - n by rows and columns, and the maps of both attentions; None where unasked.

        states (B, S, D) are the encoder's, `there` says which of them may be seen.
        """
        found = self.self_attn(
            self._before(hidden, self.self_norm), visible, measure, maps, past_key_values, layer
        )
        hidden = self._after(hidden, found.output, self.self_norm)
        cross = None
        if states is not None:
            seen = self.cross_attn(
                self._before(hidden, self.cross_norm), states, there, maps, past_key_values, layer
            )
            hidden, cross = self._after(hidden, seen.output, self.cross_norm), seen.attention
        hidden = self._after(hidden, self.ffn(self._before(hidden, self.ffn_norm)), self.ffn_norm)
        return hidden, found.rows, found.columns, found.attention, cross

    def _before(self, hidden, norm) -> Tensor:
        return norm(hidden) if self.pre_norm else hidden

    def _after(self, hidden, added, norm) -> Tensor:
        hidden = hidden + self.dropout(added)
        return hidden if self.pre_norm else norm(hidden)


@dataclass
class StackOutput(ModelOutput):
    """last_hidden_state (B, T, D); maps of every layer; tau - n by rows and columns; valid and measured."""

    last_hidden_state: Tensor | None = None
    attentions: tuple[Tensor, ...] | None = None
    cross_attentions: tuple[Tensor, ...] | None = None
    sums: tuple[tuple[Tensor, Tensor], ...] | None = None
    valid: Tensor | None = None
    measured: Tensor | None = None


class Stack(nn.Module):
    """Token, type and position vectors, and the blocks of one stack."""

    main_input_name = "input_ids"  # read by generate

    def __init__(self, config: CausalTransformerConfig, decoder: bool):
        super().__init__()
        self.config, self.decoder = config, decoder
        self.embed_tokens = nn.Embedding(config.vocab_size, config.d_model, padding_idx=config.pad_token_id)
        if not decoder:
            self.embed_types = nn.Embedding(config.type_vocab_size, config.d_model)
        depth = config.decoder_layers if decoder else config.encoder_layers
        self.layers = nn.ModuleList(Block(config, decoder) for _ in range(depth))
        self.dropout = nn.Dropout(config.dropout)
        self.final_norm = nn.LayerNorm(config.d_model) if config.pre_norm else nn.Identity()
        self._pattern = None

    @can_return_tuple
    def forward(
        self,
        input_ids=None,
        attention_mask=None,
        token_type_ids=None,
        output_attentions=False,
        measure=False,
        states=None,
        there=None,
        past_key_values=None,
        among=None,
        place=None,
        pattern=None,
        **kwargs,
    ) -> StackOutput:
        """What the stack makes of input_ids (B, T); measure asks for tau - n, output_attentions for the maps.

        attention_mask (B, T) covers the cached tokens too; among (B, T) says which tokens are measured (None:
        all). states (B, S, D) and `there` are the encoder's. place (B or 1, T) and pattern (B, T, T) or
        (B, H, T, T) are the tokens' places and who may see whom, None: their order and what the configuration
        says. Raises ValueError for a mask of another shape, or that hides every token of an item, for an
        empty batch, for fewer than two tokens where they are measured, and for what is in ABSENT.
        """
        refuse(kwargs)
        check_tokens(input_ids, "decoder_input_ids" if self.decoder else "input_ids")
        batch, tokens = input_ids.shape
        past = 0 if past_key_values is None else past_key_values.get_seq_length()
        name = "decoder_attention_mask" if self.decoder else "attention_mask"
        valid = checked_valid(attention_mask, batch, past + tokens, name, 1 + measure)
        in_order = torch.arange(past + tokens, device=input_ids.device)[None]
        if place is None:
            place = in_order if valid is None else (valid.cumsum(1) - 1).clamp(min=0)
        measured = among if measure and not past else None
        measured = measured if measured is None or valid is None else measured & valid
        pattern = self._pattern_at(place) if pattern is None else pattern
        visible = Visible(valid, self.decoder, pattern, measured)
        hidden = self._embedded(input_ids, token_type_ids, place[:, past:])
        kept = []
        for number, block in enumerate(self.layers):
            hidden, *found = block(
                hidden,
                visible,
                measure,
                output_attentions,
                states,
                there,
                number,
                past_key_values=past_key_values,
            )
            kept.append(found)
        rows, columns, maps, cross = zip(*kept, strict=False)
        return StackOutput(
            self.final_norm(hidden),
            maps if output_attentions else None,
            cross if output_attentions and self.decoder else None,
            tuple(zip(rows, columns, strict=False)) if measure else None,
            valid,
            measured,
        )

    def _embedded(self, input_ids, token_type_ids, place) -> Tensor:
        hidden = self.embed_tokens(input_ids)
        if token_type_ids is not None:
            hidden = hidden + self.embed_types(token_type_ids)
        width = hidden.shape[-1]
        return self.dropout(hidden * width**0.5 + sinusoids(place, width).to(hidden.dtype))

    def _pattern_at(self, place) -> Tensor | None:
        """The encoder's sparse attention between tokens at these places, (B or 1, T, T)."""
        config, tokens = self.config, place.shape[1]
        if self.decoder or config.pattern == "full":
            return None
        if self._pattern is None or len(self._pattern) < tokens:
            self._pattern = attention_pattern(
                config.pattern,
                tokens,
                config.pattern_width,
                config.pattern_share,
                config.pattern_seed,
                config.pattern_global,
            )
        self._pattern = self._pattern.to(place.device)
        return self._pattern[place[:, :, None], place[:, None]]
