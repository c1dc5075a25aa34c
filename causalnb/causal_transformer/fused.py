"""Attention and tau in one pass, without keeping a map of T x T numbers for the backward pass."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .measure import checked_valid, counted

KEPT = 256  # up to so many tokens the map is kept, as in eager attention


@dataclass
class Visible:
    """Which keys a query may attend to; with a causal mask or a pattern every token sees itself."""

    valid: Tensor | None = None  # (B, S): False where the key is padding
    causal: bool = False
    pattern: Tensor | None = None  # (B or 1, T, S) or by head (B, H, T, S): True where there may be an entry
    measured: Tensor | None = None  # (B, T), of the valid those whose rows are measured (None: all)

    @property
    def nodes(self) -> Tensor | None:
        """The tokens (B, T) whose rows are measured, None where all are."""
        return self.valid if self.measured is None else self.measured

    def lines(self, first: int, last: int, keys: int, device) -> Tensor | None:
        """Lines first to last of the mask (B or 1, 1 or H, last - first or 1, keys), None: all is seen."""
        query, key = torch.arange(first, last, device=device)[:, None], torch.arange(keys, device=device)
        seen = (key <= query)[None, None] if self.causal and keys > first + 1 else None
        if self.pattern is not None:
            pattern = self.pattern if self.pattern.dim() == 4 else self.pattern[:, None]
            lines = pattern[:, :, first:last, :keys]
            seen = lines if seen is None else seen & lines
        if self.valid is None:
            return seen
        there = self.valid[:, None, None, :keys]
        seen = there if seen is None else seen & there
        return seen | (key == query) if self.causal or self.pattern is not None else seen


def attention_with_tau(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    valid: Tensor | None = None,
    causal: bool = False,
    chunk: int = 64,
) -> tuple[Tensor, Tensor, Tensor]:
    """softmax(q k^T / sqrt(d)) v (B, H, T, d_v) and the map's tau by rows and by columns (B, H, T).

    query and key (B, H, T, d), value (B, H, T, d_v), valid (B, T) as in `tau`. Up to KEPT tokens the map is
    kept for the backward pass; longer ones are computed again there, `chunk` rows at a time, in both passes.
    Raises ValueError for shapes that do not fit, an empty batch, integers, fewer than two valid tokens and a
    chunk below 1.
    """
    if not query.shape == key.shape or query.dim() != 4 or value.shape[:3] != key.shape[:3]:
        shapes = [tuple(part.shape) for part in (query, key, value)]
        raise ValueError("query {}, key {} and value {} do not fit: give (B, H, T, d)".format(*shapes))
    if not query.numel():
        raise ValueError(f"query has shape {tuple(query.shape)}, an empty batch: give at least one item")
    if not query.is_floating_point():
        raise ValueError(f"query has dtype {query.dtype}: give floats")
    if chunk < 1:
        raise ValueError(f"chunk is {chunk}: choose at least one row")
    valid = checked_valid(valid, query.shape[0], query.shape[2])
    output, rows, columns = attention_with_excess(query, key, value, Visible(valid, causal), chunk)
    n = counted(query.shape[2], valid)
    return output, rows + n, columns + n


def attention_with_excess(
    query: Tensor, key: Tensor, value: Tensor, visible: Visible, chunk: int = 64, keep: bool | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """`attention_with_tau` for any mask, with tau - n in place of tau; nothing is checked.

    keep: whether the map is kept for the backward pass (None: up to KEPT tokens).
    """
    keep = query.shape[2] <= KEPT if keep is None else keep
    return _Measured.apply(query, key, value, visible, query.shape[2] if keep else chunk, keep)


class _Measured(torch.autograd.Function):
    """O = P V, r_i = sum_j (exp P_ij - 1), c_j = sum_i (exp P_ij - 1), for P = softmax(s Q K^T) in chunks.

    Backward, per chunk: dP = dO V^T + (dr_i + dc_j) exp P, dS = P (dP - sum_j P dP), dQ = s dS K, dK = s dS^T
    Q, dV = P^T dO. Inside, batch and heads are one axis of B H maps.
    """

    @staticmethod
    def forward(ctx, query, key, value, visible, chunk, keep):
        shape, tall = query.shape[:3], torch.promote_types(query.dtype, torch.float32)
        q, k, v = (query * query.shape[-1] ** -0.5).flatten(0, 1), key.flatten(0, 1), value.flatten(0, 1)
        rows, columns = torch.zeros(2, *q.shape[:2], dtype=tall, device=q.device)
        output, maps = torch.empty_like(v), []
        keep = keep and any(ctx.needs_input_grad)
        real = _lines_of(visible.nodes, shape)  # (B H, T, 1), or None
        with torch.autocast(query.device.type, enabled=False):
            for part, keys in _chunks(shape[2], chunk, visible.causal):
                weights = _weights(q, k, visible, part, keys, shape)  # (B H, R, keys)
                output[:, part] = weights.to(v.dtype) @ v[:, :keys]
                if keep:
                    maps.append(weights)
                grown = weights.expm1() if keep else weights.expm1_()
                if real is not None:
                    grown *= real[:, part]
                rows[:, part] = grown.sum(-1)
                columns[:, :keys] += grown.sum(-2)
        ctx.save_for_backward(q, k, v, *maps)
        ctx.visible, ctx.chunk, ctx.shape = visible, chunk, shape
        return tuple(part.unflatten(0, shape[:2]) for part in (output, rows, columns))

    @staticmethod
    @once_differentiable
    def backward(ctx, *given):
        q, k, v, *maps = ctx.saved_tensors
        visible, shape = ctx.visible, ctx.shape
        d_output, d_rows, d_columns = (part.flatten(0, 1) for part in given)
        real = _lines_of(visible.nodes, shape)
        d_q, d_k, d_v = torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(v)
        with torch.autocast(q.device.type, enabled=False):
            for number, (part, keys) in enumerate(_chunks(shape[2], ctx.chunk, visible.causal)):
                weights = maps[number] if maps else _weights(q, k, visible, part, keys, shape)
                slope = d_rows[:, part, None] + d_columns[:, None, :keys]
                if real is not None:
                    slope *= real[:, part]
                slope *= weights.exp()
                flow = _added(slope, d_output[:, part], v[:, :keys].transpose(1, 2))  # dP
                flow *= weights
                flow.addcmul_(weights, flow.sum(-1, keepdim=True), value=-1)  # dS
                flow, weights = flow.to(q.dtype), weights.to(v.dtype)
                torch.bmm(flow, k[:, :keys], out=d_q[:, part])
                d_k[:, :keys].baddbmm_(flow.transpose(1, 2), q[:, part])
                d_v[:, :keys].baddbmm_(weights.transpose(1, 2), d_output[:, part])
        d_q *= q.shape[-1] ** -0.5
        return *(part.unflatten(0, shape[:2]) for part in (d_q, d_k, d_v)), None, None, None


def _chunks(tokens: int, chunk: int, causal: bool):
    """(rows, number of keys they may see) of each chunk."""
    for first in range(0, tokens, chunk):
        last = min(first + chunk, tokens)
        yield slice(first, last), last if causal else tokens


def _lines_of(valid, shape) -> Tensor | None:
    """valid (B, T) for every head's map, (B H, T, 1)."""
    return None if valid is None else valid.repeat_interleave(shape[1], 0)[..., None]


def _weights(q, k, visible, part, keys, shape) -> Tensor:
    """P (B H, R, keys) of some rows, its softmax in float32 at least; q is scaled."""
    scores = q[:, part] @ k[:, :keys].transpose(1, 2)
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    seen = visible.lines(part.start, part.stop, keys, q.device)
    if seen is not None:
        scores.view(*shape[:2], -1, keys).masked_fill_(~seen, -torch.inf)
    return scores.softmax(-1)


def _added(slope, left, right) -> Tensor:
    """slope + left right, into slope where the precision is the same."""
    return slope.baddbmm_(left, right) if left.dtype == slope.dtype else slope.add_(left @ right)
