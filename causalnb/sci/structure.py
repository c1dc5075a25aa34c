"""Component 1: the structural encoder, order-aware, acyclic and blind to whatever is not prompt."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from causalnb.wrapping import check_counts


def rotate(x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """Rotary position encoding of x (B, H, T, d), d even, at integer positions (B, T)."""
    half = x.shape[-1] // 2
    frequency = 10_000.0 ** (-torch.arange(half, device=x.device, dtype=torch.float32) / half)  # (d/2)
    angle = positions[:, None, :, None].float() * frequency  # (B, 1, T, d/2)
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    first, second = x[..., :half], x[..., half:]
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


class Attention(nn.Module):
    """Multi-head attention of query (B, Q, D) over context (B, T, D), mask (B, T)."""

    def __init__(self, d_model: int, n_heads: int = 4):
        super().__init__()
        check_counts(1, d_model=d_model, n_heads=n_heads)
        if d_model % (2 * n_heads):
            raise ValueError(
                f"a width of {d_model} does not split into {n_heads} heads of even width: "
                f"choose a multiple of {2 * n_heads}"
            )
        self.n_heads = n_heads
        self.query, self.key = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.value, self.output = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)

    def heads(self, x: torch.Tensor) -> torch.Tensor:
        """Split (B, T, D) into (B, H, T, D/H)."""
        return x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)

    def forward(self, query, context, mask=None, positions=None) -> torch.Tensor:
        """Attend, output (B, Q, D); positions (B, T) rotate queries and keys (then Q = T)."""
        q, k, v = (
            self.heads(self.query(query)),
            self.heads(self.key(context)),
            self.heads(self.value(context)),
        )
        if positions is not None:
            q, k = rotate(q, positions), rotate(k, positions)
        attended = F.scaled_dot_product_attention(q, k, v, None if mask is None else mask[:, None, None, :])
        return self.output(attended.transpose(1, 2).flatten(2))

    def weights(self, query, context, mask=None) -> torch.Tensor:
        """The attention weights (B, H, Q, T) of forward, without rotation: rows sum to one."""
        q, k = self.heads(self.query(query)), self.heads(self.key(context))
        scores = q @ k.transpose(2, 3) / q.shape[-1] ** 0.5
        if mask is not None:
            scores = scores.masked_fill(~mask[:, None, None, :], float("-inf"))
        return scores.softmax(-1)


class AbstractionLayer(nn.Module):
    """x * (sigmoid(W2 GELU(W1 x)) + g): learned multiplicative damping of x (B, T, D); g starts at 0.1.

    width is that of the detector's hidden layer, 2 D as in the guide when it is left out.
    """

    def __init__(self, d_model: int, residual_gate: float = 0.1, width: int | None = None):
        super().__init__()
        check_counts(1, d_model=d_model, width=1 if width is None else width)
        if not math.isfinite(residual_gate):
            raise ValueError(f"residual_gate is {residual_gate}: choose a finite one")
        width = 2 * d_model if width is None else width
        self.structural_detector = nn.Sequential(
            nn.Linear(d_model, width), nn.GELU(), nn.Linear(width, d_model), nn.Sigmoid()
        )
        self.residual_gate = nn.Parameter(torch.tensor(float(residual_gate)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Damp x (B, T, D); a feature is never removed, at least the share g of it passes."""
        return x * (self.structural_detector(x) + self.residual_gate)


class EdgePredictor(nn.Module):
    """E = sigmoid(q(S) k(S)^T / sqrt(D)) (B, K, K), E[:, j, i] for j -> i; "upper" keeps j < i: a DAG."""

    def __init__(self, d_model: int, dag: str = "upper"):
        super().__init__()
        if dag not in ("upper", "none"):
            raise ValueError(
                f"dag is {dag!r}: choose 'upper' (slot order, acyclic) or 'none' (the guide's, cyclic)"
            )
        self.dag = dag
        self.query, self.key = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)

    def forward(self, slots: torch.Tensor) -> torch.Tensor:
        """Edges (B, K, K) of slots (B, K, D); ValueError for another shape or width."""
        if slots.dim() != 3 or slots.shape[-1] != self.query.in_features:
            raise ValueError(
                f"slots have shape {tuple(slots.shape)}: edges need (batch, slots, {self.query.in_features})"
            )
        edges = torch.sigmoid(self.query(slots) @ self.key(slots).transpose(1, 2) / slots.shape[-1] ** 0.5)
        return edges.triu(1) if self.dag == "upper" else edges


class StructuralGNN(nn.Module):
    """n_layers of h <- LayerNorm(h + GELU(E^T h W)): messages run along the edges, slots (B, K, D)."""

    def __init__(self, d_model: int, n_layers: int = 2):
        super().__init__()
        check_counts(0, n_layers=n_layers)
        self.linears = nn.ModuleList(nn.Linear(d_model, d_model) for _ in range(n_layers))
        self.norms = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(n_layers))

    def forward(self, slots: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        """Slots (B, K, D) after message passing over edges (B, K, K)."""
        for linear, norm in zip(self.linears, self.norms, strict=False):
            slots = norm(slots + F.gelu(linear(edges.transpose(1, 2) @ slots)))
        return slots


class StructuralEncoder(nn.Module):
    """S(x) (B, K, D) and its edges (B, K, K) from token states (B, T, D): abstraction, order, slots, graph.

    Between abstraction and slots one bidirectional self-attention with rotary positions gives the tokens
    their order: without it, S(x) is a function of the bag of words. Raises ValueError for a row without any
    token.
    """

    def __init__(
        self, d_model: int, n_slots: int = 8, n_layers: int = 2, n_heads: int = 4, dag: str = "upper"
    ):
        super().__init__()
        check_counts(1, d_model=d_model, n_slots=n_slots)
        self.structure_queries = nn.Parameter(torch.randn(n_slots, d_model))
        self.abstraction_layer = AbstractionLayer(d_model)
        self.order_norm = nn.LayerNorm(d_model)
        self.order_attention = Attention(d_model, n_heads)
        self.cross_attention = Attention(d_model, n_heads)
        self.edge_predictor = EdgePredictor(d_model, dag)
        self.structural_gnn = StructuralGNN(d_model, n_layers)

    def forward(self, hidden_states: torch.Tensor, attention_mask: torch.Tensor | None = None):
        """Slots (B, K, D) and edges (B, K, K) of hidden_states (B, T, D); mask 0 = unread."""
        if hidden_states.dim() != 3 or hidden_states.shape[-1] != self.structure_queries.shape[-1]:
            width = self.structure_queries.shape[-1]
            raise ValueError(
                f"hidden states have shape {tuple(hidden_states.shape)}: pass (batch, tokens, {width})"
            )
        if attention_mask is not None and attention_mask.shape != hidden_states.shape[:2]:
            raise ValueError(
                f"the mask has shape {tuple(attention_mask.shape)}, but the states are "
                f"{tuple(hidden_states.shape)}: pass one entry a token"
            )
        if attention_mask is None:
            attention_mask = hidden_states.new_ones(hidden_states.shape[:2])
        mask = attention_mask.bool()
        if not mask.any(1).all():
            row = int((~mask.any(1)).nonzero()[0])
            raise ValueError(
                f"row {row} has no prompt token to read structure from: mark at least one in its mask"
            )
        slots = self.fill(self.ordered(hidden_states, mask), mask)
        edges = self.edge_predictor(slots)
        return self.structural_gnn(slots, edges), edges

    def ordered(self, hidden_states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Abstracted tokens (B, T, D) that know their order, of hidden states (B, T, D) and a bool mask."""
        positions = (mask.long().cumsum(1) - 1).clamp(min=0)
        tokens = self.abstraction_layer(hidden_states)  # (B, T, D)
        normed = self.order_norm(tokens)
        return tokens + self.order_attention(normed, normed, mask, positions)

    def fill(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Slots (B, K, D), each a query's reading of the tokens (B, T, D), before the graph."""
        return self.cross_attention(self.structure_queries.expand(len(tokens), -1, -1), tokens, mask)


def acyclicity(edges: torch.Tensor) -> torch.Tensor:
    """NOTEARS h = tr(exp(E * E)) - K of edges (..., K, K): 0 for a DAG, >= 0 otherwise."""
    return torch.matrix_exp(edges * edges).diagonal(dim1=-2, dim2=-1).sum(-1) - edges.shape[-1]
