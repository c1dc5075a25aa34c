"""Two fast forms of the re-attention loss: supervised rows recomputed in chunks, and masses of concepts."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS

from causalnb.attention import Record

from .graph import mask_rows
from .weighted import norms_of, row_loss

MASS_ATTENTION = "causalnb_concept_mass"


def unlike_softmax(options: Mapping) -> str:
    """What is wrong with attention that is no plain softmax, of which the loss reads another map, or ""."""
    names = [name for name in ("softcap", "s_aux") if options.get(name) is not None]
    return f"re-attention reads plain softmax attention, and this base has {names[0]}" if names else ""


def mask_of(record: Record) -> Tensor | None:
    """The record's mask (B, 1 or H, T or 1, T), or None where every token sees every other."""
    if unlike_softmax(record.options):
        raise ValueError(f"{unlike_softmax(record.options)}: choose another base")
    if record.mask is None:
        causal = record.options.get("is_causal")
        if getattr(record.module, "is_causal", True) if causal is None else causal:
            raise ValueError(
                "re-attention is for bidirectional attention and this layer is causal: set "
                "config.is_causal = False"
            )
    if record.mask is not None and record.mask.dim() == 2:  # flash attention's, of keys alone
        return record.mask.bool()[:, None, None]
    return record.mask


def map_of(record: Record) -> Tensor:
    """The whole map (B, H, T, T), its softmax in float32 at least."""
    key = record.key.repeat_interleave(record.query.shape[1] // record.key.shape[1], 1)
    scores = record.query @ key.transpose(-1, -2)
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32)) * record.scaling
    mask = mask_of(record)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    return scores.softmax(-1)


def mask_lines(record: Record, place: Tensor) -> Tensor | None:
    """The lines of the record's mask at rows place (B, R): (B, 1, R, T), or None where everything is seen."""
    mask = mask_of(record)
    if mask is None:
        return None
    if mask.shape[1] != 1:
        raise ValueError(f"the attention mask has {mask.shape[1]} heads: choose backend='eager'")
    index = place[:, None, :, None].expand(-1, -1, -1, mask.shape[-1])
    return mask.expand(len(place), -1, record.query.shape[2], -1).gather(2, index)


class RowLossSum(torch.autograd.Function):
    """Sum of row losses of R rows, recomputed from queries and keys, with its gradient in closed form.

    W = mean over L layers and H heads of A n, A = softmax(s q k^T); U = dL/dW is -a0/(a1+a0)^2/|I1| on causes
    and a1/(a1+a0)^2/|I0| on neutral keys of unmet rows, 2 lam W on penalised ones. Then dS = A (U n - sum_k A
    U n), dq = s dS k, dk = s dS^T q, dn = sum_q A U, all over L H. Rows go through in chunks: no T x T map is
    kept, and backward, the loss being a scalar, only scales what forward has found.
    """

    @staticmethod
    def forward(ctx, problem, *tensors):
        """The loss, a scalar, and its parts; tensors: L queries, then L keys, then L norms."""
        layers = len(tensors) // 3
        query, key, norm = tensors[:layers], tensors[layers : 2 * layers], tensors[2 * layers :]
        wanted = any(ctx.needs_input_grad)
        tall = torch.promote_types(query[0].dtype, torch.float32)
        slopes = [torch.zeros_like(t, dtype=tall) for t in tensors] if wanted else []
        sums = 0
        with torch.autocast(query[0].device.type, enabled=False):
            for first in range(0, query[0].shape[3], problem.chunk):
                rows = slice(first, first + problem.chunk)
                found, maps, upward = problem.loss(query, key, norm, rows, wanted)
                sums = sums + found
                if wanted:
                    problem.slopes(query, key, norm, rows, maps, upward, slopes)
        ctx.save_for_backward(*slopes)
        ctx.dtypes = [t.dtype for t in tensors]
        loss, parts = sums[0], sums[1:].clone()
        ctx.mark_non_differentiable(parts)
        return loss, parts

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient, _):
        """The kept slopes times the gradient of the loss, a scalar; none for the problem."""
        return None, *(
            (slope * gradient).to(dtype) for slope, dtype in zip(ctx.saved_tensors, ctx.dtypes, strict=False)
        )


@dataclass
class Rows:
    """What rows share; queries are (B, G, J, R, d), J = H / G, keys (B, G, T, d), norms (B, G, T or R)."""

    relation: Tensor  # (B, C, C)
    concept: Tensor  # (B, T)
    ignore: Tensor  # (B, T)
    queried: Tensor  # (B, R), -1 where the row is padding
    allowed: list[Tensor | None]  # per layer (B, 1, R, T): True, or a number to add
    scaling: list[float]
    alpha: float
    lam: float
    by_query: bool
    ratio: bool
    chunk: int

    def loss(self, query, key, norm, rows, wanted):
        """Sums [loss, ratio, neg, hinge, satisfied, has_ratio], the maps A, and U of a chunk of rows."""
        maps, weighted = [], 0
        for q, k, n, allowed, scaling in zip(query, key, norm, self.allowed, self.scaling, strict=False):
            a = self._map(q[:, :, :, rows], k, allowed if allowed is None else allowed[:, :, rows], scaling)
            n = n[..., rows] if self.by_query else n
            n = n[..., :, None] if self.by_query else n[..., None, :]  # (B, G, R, 1) or (B, G, 1, T)
            heads = a.shape[1] * a.shape[2]
            whole = torch.zeros_like(a[:, 0, 0])
            for g in range(a.shape[1]):
                for j in range(a.shape[2]):
                    whole.addcmul_(a[:, g, j], n[:, g].to(a.dtype), value=1 / heads)
            weighted = weighted + whole
            maps.append(a if wanted else None)
        weighted = weighted / len(query)  # (B, R, T)
        mask = mask_rows(self.relation, self.concept, self.ignore, self.queried[:, rows])
        found = row_loss(weighted, mask, self.alpha, self.lam)
        if not self.ratio:
            found.ratio, found.hinge = torch.zeros_like(found.ratio), torch.zeros_like(found.hinge)
        sums = torch.stack([part.to(weighted.dtype).sum() for part in found.parts()])
        return sums, maps, self._upward(weighted, mask, found) if wanted else None

    def _map(self, q, k, allowed, scaling):
        """A (B, G, J, R, T), its softmax in float32 at least."""
        scores = (q * scaling).flatten(2, 3) @ k.transpose(-1, -2)  # (B, G, J R, T)
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32)).view(*q.shape[:-1], -1)
        if allowed is not None:
            allowed = allowed[:, :, None]  # (B, 1, 1, R, T)
            hide = allowed.dtype == torch.bool
            scores = scores.masked_fill_(~allowed, -torch.inf) if hide else scores.add_(allowed)
        return scores.softmax(-1)

    def _upward(self, weighted, mask, found):
        """U (B, R, T), the slope of the summed loss in the weighted map."""
        one, zero = mask == 1, mask == 0
        ones, zeros = one.sum(-1).clamp(min=1), zero.sum(-1).clamp(min=1)
        a1 = weighted.masked_fill(~one, 0).sum(-1) / ones
        a0 = weighted.masked_fill(~zero, 0).sum(-1) / zeros
        unmet = found.has_ratio & ~found.satisfied & self.ratio
        square = torch.where(unmet, (a1 + a0).square(), 1)
        toward = torch.where(unmet, -a0 / square / ones, 0)[..., None]
        away = torch.where(unmet, a1 / square / zeros, 0)[..., None]
        slope = 2 * self.lam * weighted.masked_fill_(mask != -1, 0)
        return torch.where(one, toward, torch.where(zero, away, slope))

    def slopes(self, query, key, norm, rows, maps, upward, slopes):
        """Add the gradients of a chunk of rows in queries, keys and norms to `slopes`."""
        layers = len(query)
        for i, (q, k, n, a, scaling) in enumerate(zip(query, key, norm, maps, self.scaling, strict=False)):
            upward_here = upward / (layers * a.shape[1] * a.shape[2])
            flow = a * upward_here[:, None, None]  # A U, (B, G, J, R, T)
            if self.by_query:
                slopes[2 * layers + i][..., rows] += flow.sum((2, 4))
                flow *= n[:, :, None, rows, None].to(flow.dtype)
            else:
                slopes[2 * layers + i] += flow.sum((2, 3))
                flow *= n[:, :, None, None].to(flow.dtype)
            flow.addcmul_(a, flow.sum(-1, keepdim=True), value=-1)  # dS
            flow = flow.flatten(2, 3).to(q.dtype)  # (B, G, J R, T)
            part = q[:, :, :, rows] * scaling
            slopes[i][:, :, :, rows] = (flow @ k).view_as(part) * scaling
            slopes[layers + i] += flow.transpose(-1, -2) @ part.flatten(2, 3)


class ConceptMass:
    """What the attention puts on every concept, gathered layer by layer from columns added to the values.

    A small mass may be the difference of large ones, which 16 bits do not hold: there the columns have a call
    of their own, in 32.
    """

    def __init__(self, member: Tensor, layers: set[int] | None, norm_index: str, detach: bool, scale: str):
        self.member, self.layers = member, layers  # (B, T, C)
        self.norm_index, self.detach, self.scale = norm_index, detach, scale
        self.found: dict[int, Tensor] = {}  # layer -> (B, T, C)

    def attend(self, module, query, key, value, attention_mask, scaling, **options):
        """The attention's own output (B, T, H, d); the mass of each concept stays here.

        Raises ValueError under dropout, after which masses would be measured.
        """
        if options.get("dropout"):
            raise ValueError(
                f"attention has a dropout of {options['dropout']}, after which backend 'mass' "
                "would measure it: choose backend='rows' or set the dropout of attention to 0"
            )
        width, extra = value.shape[-1], self.member.shape[-1]
        norm = norms_of(value, self.norm_index, self.detach, self.scale, ~self.member[..., -1])
        columns = self.member[:, None].to(value.dtype).expand(-1, value.shape[1], -1, -1)
        if self.norm_index == "key":
            columns = columns * norm[..., None]  # (B, G, T, C)
        half = value.dtype.itemsize < 4
        parts = ((value,), (columns,)) if half else ((value, columns),)
        calls = []
        for part, dtype in zip(parts, (value.dtype, torch.float32), strict=False):
            given = (query, key, torch.cat(part, -1))
            wide = max(given[2].shape[-1], query.shape[-1])
            wide += -wide % 8  # a width that fused kernels take
            given = (F.pad(one.to(dtype), (0, wide - one.shape[-1])) for one in given)
            mask = attention_mask
            if mask is not None and mask.is_floating_point():
                mask = mask.to(dtype)
            calls.append(sdpa_attention_forward(module, *given, mask, scaling=scaling, **options)[0])
        out = calls[0]
        mass = calls[1][..., :extra] if half else out[..., width : width + extra]  # (B, T, H, C)
        if self.norm_index == "query_as_printed":
            mass = mass * norm.repeat_interleave(mass.shape[2] // norm.shape[1], 1).transpose(1, 2)[..., None]
        if torch._C._current_graph_task_id() == -1:  # not in the recomputation of a checkpoint
            self.found[module.layer_idx] = mass.mean(2)
        return out[..., :width], None


def mass_attention(module, query, key, value, attention_mask, scaling=None, concept_mass=None, **options):
    """SDPA, and where a ConceptMass asks for this layer, its concept masses from the same call."""
    layers = None if concept_mass is None else concept_mass.layers
    if concept_mass is None or (layers is not None and module.layer_idx not in layers):
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **options)
    if unlike_softmax(options):
        raise ValueError(f"{unlike_softmax(options)}: choose another base")
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    return concept_mass.attend(module, query, key, value, attention_mask, scaling, **options)


AttentionInterface.register(MASS_ATTENTION, mass_attention)
AttentionMaskInterface.register(MASS_ATTENTION, ALL_MASK_ATTENTION_FUNCTIONS["sdpa"])


def choose_form(tokens: int, rows: int, columns: int) -> str:
    """The faster form of the ratio loss as measured on a CPU: "mass" for long texts and many rows."""
    return "mass" if tokens >= 256 and 48 * rows > tokens * columns else "rows"
