"""Multi-head attention: the causal self-attention of Equation 4, and the decoder's look at the encoder."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .fused import Visible, attention_with_excess
from .measure import excess
from .values import GCNValueUpdate


@dataclass
class Attended:
    """output (B, T, D); tau - n by rows and columns (B, H, T), and the map (B, H, T, S), where asked for."""

    output: Tensor
    rows: Tensor | None = None
    columns: Tensor | None = None
    attention: Tensor | None = None


class MultiHeadAttention(nn.Module):
    """Projections to H heads and back, around softmax(q k^T / sqrt(d)) v: the decoder's cross-attention.

    Raises ValueError for H below 1, and where D is not a multiple of H.
    """

    def __init__(self, d_model: int, num_heads: int):
        super().__init__()
        if num_heads < 1:
            raise ValueError(f"num_heads is {num_heads}: choose 1 or more")
        if d_model % num_heads:
            raise ValueError(f"a width of {d_model} does not divide among {num_heads} heads: choose another")
        self.num_heads = num_heads
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            setattr(self, name, nn.Linear(d_model, d_model))

    def heads(self, states: Tensor) -> Tensor:
        """(B, T, D) as (B, H, T, D/H)."""
        return states.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def merged(self, states: Tensor) -> Tensor:
        """(B, H, T, D/H) as (B, T, D), through the output projection."""
        return self.out_proj(states.transpose(1, 2).flatten(2))

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        """q k^T / sqrt(d), (B, H, T, S)."""
        return (query * query.shape[-1] ** -0.5) @ key.transpose(-1, -2)

    def map_of(self, query: Tensor, key: Tensor, visible: Visible) -> Tensor:
        """The attention map (B, H, T, S), its queries the last T of S places of a causal map."""
        scores = self.scores(query, key)
        seen = self._seen(query, key, visible)
        return scores.softmax(-1) if seen is None else scores.masked_fill(~seen, -torch.inf).softmax(-1)

    @staticmethod
    def _seen(query, key, visible) -> Tensor | None:
        tokens, keys = query.shape[2], key.shape[2]
        first = keys - tokens if visible.causal else 0
        return visible.lines(first, first + tokens, keys, query.device)

    def product(self, query: Tensor, key: Tensor, visible: Visible):
        """The function value (B, H, S, d) -> A value (B, H, T, d), by a fused kernel."""
        if visible.causal and visible.valid is None and visible.pattern is None and query.shape == key.shape:
            return lambda value: F.scaled_dot_product_attention(query, key, value, is_causal=True)
        seen = self._seen(query, key, visible)
        return lambda value: F.scaled_dot_product_attention(query, key, value, attn_mask=seen)

    def forward(
        self, hidden: Tensor, states: Tensor, visible: Visible, maps: bool = False, cache=None, layer: int = 0
    ) -> Attended:
        """What hidden (B, T, D) reads from states (B, S, D); a cache keeps keys and values of the states."""
        query = self.heads(self.q_proj(hidden))
        if cache is not None and cache.is_updated.get(layer):
            kept = cache.cross_attention_cache.layers[layer]
            key, value = kept.keys, kept.values
        else:
            key, value = self.heads(self.k_proj(states)), self.heads(self.v_proj(states))
            if cache is not None:
                key, value = cache.cross_attention_cache.update(key, value, layer)
                cache.is_updated[layer] = True
        if not maps:
            return Attended(self.merged(self.product(query, key, visible)(value)))
        attention = self.map_of(query, key, visible)
        return Attended(self.merged(attention @ value), attention=attention)


class CausalSelfAttention(MultiHeadAttention):
    """Equation 4: self-attention whose values pass a graph convolution, and whose map can be measured.

    gcn and activation as in GCNValueUpdate; relative > 0 adds to the keys learned vectors of the distance
    between two tokens, clipped to +-relative (Shaw et al. 2018). forward(measure=True) returns what
    MarkovBlanketLoss.of_excess takes: gcn="none" unmeasured is the vanilla layer, and the paper's is
    gcn="paper" measured. There is no dropout inside.
    """

    def __init__(
        self, d_model: int, num_heads: int, gcn: str = "paper", activation: str = "gelu", relative: int = 0
    ):
        super().__init__(d_model, num_heads)
        if relative < 0:
            raise ValueError(f"relative is {relative}: choose a distance in tokens, or 0 for none")
        self.update = GCNValueUpdate(num_heads, d_model // num_heads, gcn, activation)
        self.relative = relative
        if relative:
            self.distance = nn.Embedding(2 * relative + 1, d_model // num_heads)

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        """q k^T / sqrt(d) (B, H, T, S), with relative q (k + r_(j - i))^T / sqrt(d)."""
        scores = super().scores(query, key)
        if not self.relative:
            return scores
        tokens, keys = scores.shape[-2:]
        place = torch.arange(keys, device=query.device)
        away = place - place[keys - tokens :, None]  # (T, S)
        kind = away.clamp(-self.relative, self.relative) + self.relative
        by_kind = (query * query.shape[-1] ** -0.5) @ self.distance.weight.T  # (B, H, T, 2 relative + 1)
        return scores + by_kind.gather(-1, kind.expand(*scores.shape[:2], -1, -1))

    def forward(
        self,
        hidden: Tensor,
        visible: Visible | None = None,
        measure: bool = False,
        maps: bool = False,
        cache=None,
        layer: int = 0,
    ) -> Attended:
        """New features of hidden (B, T, D); visible says who may attend to whom (None: all).

        measure asks for tau - n by rows and columns, maps for the map itself. A cache (of generation) keeps
        the keys and what A is applied to; a cached pass cannot be measured: ValueError.
        """
        visible = Visible() if visible is None else visible
        query, key, value = (self.heads(p(hidden)) for p in (self.q_proj, self.k_proj, self.v_proj))
        if cache is not None:
            if measure:
                raise ValueError(
                    "a cached pass sees a part of the map: measure whole sentences, without cache"
                )
            return self._cached(query, key, value, visible, maps, cache.self_attention_cache, layer)
        if maps or self.relative:
            attention = self.map_of(query, key, visible)
            output = self.merged(self.update(attention, value))
            sums = excess(attention, visible.valid, visible.measured) if measure else (None, None)
            return Attended(output, *sums, attention if maps else None)
        product = self.product(query, key, visible)
        if not measure:
            return Attended(self.merged(self.update(product, value)))
        gathered, *sums = attention_with_excess(query, key, self.update.inner(product, value), visible)
        return Attended(self.merged(self.update.outer(gathered)), *sums)

    def _cached(self, query, key, value, visible, maps, cache, layer) -> Attended:
        """New tokens; the cache's values are what A is applied to last, after those of the first hop."""
        past = cache.layers[layer] if layer < len(cache.layers) and cache.get_seq_length(layer) else None
        two_hop, width = self.update.mode == "two_hop", value.shape[-1]
        keys = key if past is None else torch.cat([past.keys, key], 2)
        attention = self.map_of(query, keys, visible) if maps or self.relative else None
        product = attention.matmul if attention is not None else self.product(query, keys, visible)
        if two_hop:
            before = value if past is None else torch.cat([past.values[..., :width], value], 2)
            inner = self.update.sigma(product(before)) @ self.update.weight
            value = torch.cat([value, inner], -1)  # (B, H, T, 2d)
        else:
            value = self.update.inner(product, value)
        _, value = cache.update(key, value, layer)
        output = self.update.outer(product(value[..., -width:]))
        return Attended(self.merged(output), attention=attention if maps else None)
