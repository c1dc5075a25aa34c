"""Component 3: binding content to slots, intervening on slots, and handing them to the tokens."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from causalnb.wrapping import check_counts, matrix, offset

from .structure import Attention


class CausalInterventionLayer(nn.Module):
    """Message passing with do(): n_iterations of m_i = sum_j E[j, i] MLP([h_i; h_j]), h_i <- GRU(m_i, h_i).

    `normalize` divides the sum by the in-degree sum_j E[j, i] when that exceeds 1. The pair MLP is split into
    its two halves, so that its linear maps see K rows instead of K (K - 1). Effects reach slots at most
    n_iterations edges away.
    """

    def __init__(self, d_model: int, n_iterations: int = 3, normalize: bool = True):
        super().__init__()
        check_counts(0, n_iterations=n_iterations)
        self.d_model, self.n_iterations, self.normalize = d_model, n_iterations, normalize
        self.message_fn = nn.Sequential(
            nn.Linear(2 * d_model, d_model), nn.GELU(), nn.Linear(d_model, d_model)
        )
        self.update_fn = nn.GRUCell(d_model, d_model)

    def forward(self, slot_values: torch.Tensor, edges: torch.Tensor, do: dict | None = None) -> torch.Tensor:
        """Slots (B, K, D) after propagation; do={slot: (B, D)} cuts edges into the slot and holds its value.

        Raises ValueError for edges that are not (B, K, K), for a slot outside 0..K-1 and for a value that is
        not (B, D).
        """
        if slot_values.dim() != 3 or slot_values.shape[-1] != self.d_model:
            raise ValueError(
                f"slots have shape {tuple(slot_values.shape)}: the layer needs (batch, slots, {self.d_model})"
            )
        batch, slots, width = slot_values.shape
        if edges.shape != (batch, slots, slots):
            raise ValueError(
                f"edges have shape {tuple(edges.shape)}, but {slots} slots in {batch} rows need "
                f"{(batch, slots, slots)}"
            )
        weights = edges * (1 - torch.eye(slots, dtype=edges.dtype, device=edges.device))
        held, values = self._held(slot_values, do)
        if held is not None:
            weights = weights * ~held[:, 0]  # graph surgery: no edge into a held slot
            slot_values = torch.where(held, values, slot_values)
        incoming = weights.transpose(1, 2)  # (B, K, K): receiver, sender
        if self.normalize:
            incoming = incoming / incoming.sum(-1, keepdim=True).clamp(min=1.0)
        first, second = self.message_fn[0], self.message_fn[2]
        to_receiver, to_sender = matrix(first).split(width, dim=1)
        to_message, start, rest = matrix(second), offset(first), offset(second)
        hidden = slot_values
        for _ in range(self.n_iterations):
            receiver = F.linear(hidden, to_receiver, start)  # (B, K, D)
            sender = F.linear(hidden, to_sender)
            pair = F.gelu(receiver[:, :, None] + sender[:, None])  # (B, K, K, D)
            mixed = (incoming[:, :, None] @ pair).squeeze(2)  # (B, K, D)
            messages = F.linear(mixed, to_message) + incoming.sum(-1, keepdim=True) * rest
            hidden = self.update_fn(messages.flatten(0, 1), hidden.flatten(0, 1)).view_as(hidden)
            if held is not None:
                hidden = torch.where(held, values, hidden)
        return hidden

    @staticmethod
    def _held(slot_values, do):
        """do={slot: (B, D)} as (held (K, 1) bool, values (B, K, D)); (None, None) without an intervention."""
        if not do:
            return None, None
        batch, slots, width = slot_values.shape
        held = torch.zeros(slots, 1, dtype=torch.bool, device=slot_values.device)
        values = slot_values.detach().clone()
        for slot, value in do.items():
            if not 0 <= int(slot) < slots:
                raise ValueError(f"do() names slot {slot}, but the slots are 0 to {slots - 1}")
            if tuple(value.shape) != (batch, width):
                raise ValueError(
                    f"do() on slot {slot} got a value of shape {tuple(value.shape)}: pass {(batch, width)}"
                )
            held[int(slot)] = True
            values[:, int(slot)] = value
        return held, values


@dataclass
class BoundSlots:
    """What tokens read of slots (B, K, d) after propagation and do, in the tokens' own width.

    keys (B, H K, hidden_size) and values (B, L, H K, hidden_size), one row for each head and slot.
    """

    keys: torch.Tensor
    values: torch.Tensor
    slots: torch.Tensor

    def expand(self, batch: int) -> "BoundSlots":
        """Repeat rows for their beams or samples, up to `batch` rows; ValueError when they do not divide."""
        rows = self.keys.shape[0]
        if batch == rows:
            return self
        if batch % rows:
            raise ValueError(f"slots were prepared for {rows} prompts, but the model runs {batch} rows")
        return BoundSlots(
            *(part.repeat_interleave(batch // rows, 0) for part in (self.keys, self.values, self.slots))
        )


class SlotReader(nn.Module):
    """Hands slots (B, K, d) to the tokens of n_layers base layers, each with its own output map W_l.

    t = softmax(q(h) k(U)^T / sqrt(d)) v(U) per token, h <- h + W_l t, with W_l = 0 at first: the base model
    starts undisturbed. Slots live at width d (d_model), tokens at hidden_size. There are fewer slots than
    tokens, so q and W_l are folded into the slots' keys and values once a prompt: a token then costs two
    products with H K rows and none of width d.
    """

    def __init__(self, d_model: int, hidden_size: int, n_layers: int = 1, n_heads: int = 4):
        super().__init__()
        check_counts(1, d_model=d_model, n_heads=n_heads, n_layers=n_layers)
        self.n_heads = n_heads
        self.slot_norm = nn.LayerNorm(d_model)
        self.slot_key, self.slot_value = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.token_query = nn.Linear(hidden_size, d_model, bias=False)
        self.output_proj = nn.ModuleList(nn.Linear(d_model, hidden_size, bias=False) for _ in range(n_layers))
        for projection in self.output_proj:
            nn.init.zeros_(projection.weight)

    def fold(self, slots: torch.Tensor) -> BoundSlots:
        """What tokens read of slots (B, K, d)."""
        normed = self.slot_norm(slots)
        keys, values = (
            states.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)  # (B, H, K, d/H)
            for states in (self.slot_key(normed), self.slot_value(normed))
        )
        query = matrix(self.token_query).unflatten(0, (self.n_heads, -1))  # (H, d/H, hidden)
        output = torch.stack([matrix(projection).T for projection in self.output_proj])
        output = output.unflatten(1, (self.n_heads, -1))  # (L, H, d/H, hidden)
        return BoundSlots(
            torch.einsum("bhkd,hdm->bhkm", keys / keys.shape[-1] ** 0.5, query).flatten(1, 2),
            torch.einsum("bhkd,lhdm->blhkm", values, output).flatten(2, 3),
            slots,
        )

    def read(self, hidden_states: torch.Tensor, bound: BoundSlots, layer: int) -> torch.Tensor:
        """Tokens (B, T, hidden_size) plus what each, by itself, reads from the slots at one of the layers."""
        normed = F.rms_norm(hidden_states, hidden_states.shape[-1:])
        scores = normed @ bound.keys.transpose(1, 2)  # (B, T, H K)
        weights = scores.unflatten(-1, (self.n_heads, -1)).softmax(-1).flatten(2)
        if torch.is_autocast_enabled(hidden_states.device.type):  # which would round the residual stream
            return hidden_states + torch.bmm(weights, bound.values[:, layer])
        return torch.baddbmm(hidden_states, weights, bound.values[:, layer])


class CausalBindingMechanism(SlotReader):
    """Bind content to slots, propagate under do(), and add to each token what it reads from the slots."""

    def __init__(
        self,
        d_model: int,
        hidden_size: int,
        n_layers: int = 1,
        n_heads: int = 4,
        n_iterations: int = 3,
        normalize: bool = True,
    ):
        super().__init__(d_model, hidden_size, n_layers, n_heads)
        self.binding_attention = Attention(d_model, n_heads)
        self.intervention_layer = CausalInterventionLayer(d_model, n_iterations, normalize)

    def bind(self, structure, edges, content, mask=None, do=None) -> BoundSlots:
        """Slots (B, K, d) filled from content (B, T, d) where mask (B, T) allows, propagated under do."""
        if content.dim() != 3 or content.shape[::2] != structure.shape[::2]:
            raise ValueError(
                f"content of shape {tuple(content.shape)} cannot fill slots of shape "
                f"{tuple(structure.shape)}: they need one batch and one width"
            )
        slots = self.intervention_layer(self.binding_attention(structure, content, mask), edges, do)
        bound = self.fold(structure + slots)
        return BoundSlots(bound.keys, bound.values, slots)

    def weights(self, structure, content, mask=None) -> torch.Tensor:
        """Which content token fills which slot: weights (B, H, K, T), each row summing to one."""
        return self.binding_attention.weights(structure, content, mask)

    def forward(self, structural_graph, edges, content, hidden_states, mask=None, do=None, layer: int = 0):
        """hidden_states (B, T, hidden_size) plus the slots' contribution: bind and read in one."""
        return self.read(hidden_states, self.bind(structural_graph, edges, content, mask, do), layer)
