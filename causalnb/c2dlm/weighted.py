"""The weighted map of section 3.2, the loss of its rows, and the rows that supervision makes valid."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from causalnb.wrapping import is_number

from .graph import mask_rows

NORM_INDICES = ("key", "query_as_printed", "none")


def value_weighted_attention(attention: Tensor, value: Tensor, norm_index: str = "key") -> Tensor:
    """Weighted map of 3.2 (B, T, T), mean over heads of A[q, k] |V_k|; A (B, H, T, T), V (B, G, T, d).

    norm_index="query_as_printed" takes |V_q|, as the paper prints it, which leaves every ratio within a row
    and head as it was; "none" is the arm without V. Raises ValueError for another index and heads that do not
    fit.
    """
    if norm_index not in NORM_INDICES:
        raise ValueError(f"norm_index is {norm_index!r}: choose among {', '.join(NORM_INDICES)}")
    heads, groups = attention.shape[1], value.shape[1]
    if heads % groups:
        raise ValueError(
            f"{heads} heads of attention do not divide among {groups} of values: pass one layer's"
        )
    if norm_index == "none":
        return attention.mean(1)
    norm = value.norm(dim=-1).repeat_interleave(heads // groups, 1)  # (B, H, T)
    return (attention * (norm[:, :, None] if norm_index == "key" else norm[..., None])).mean(1)


def norms_of(value, norm_index, detach, scale, ignore) -> Tensor:
    """|V| (B, G, T) as the loss weighs by it; "mean1" has mean 1 over the keys that ignore (B, T) leaves."""
    if norm_index == "none":
        return torch.ones_like(value[..., 0])
    norm = value.norm(dim=-1)
    norm = norm.detach() if detach else norm
    if scale == "raw":
        return norm
    kept = (~ignore)[:, None]
    return norm / (norm.masked_fill(~kept, 0).sum(-1, keepdim=True) / kept.sum(-1, keepdim=True).clamp(min=1))


class Parts(NamedTuple):
    """What rows contribute, each (...) or summed: loss = ratio + neg; has_ratio, and if it meets alpha."""

    loss: Tensor
    ratio: Tensor
    neg: Tensor
    hinge: Tensor
    satisfied: Tensor
    has_ratio: Tensor

    def summed(self, valid: Tensor, dtype: torch.dtype) -> "Parts":
        """Sums over the valid rows."""
        return Parts(*(part.masked_fill(~valid, 0).to(dtype).sum() for part in self))


@dataclass
class RowLoss:
    """Per row (...): ratio, neg, and hinge = max(0, alpha / (1 + alpha) + ratio), its continuous twin.

    has_ratio (bool): there are encouraged and neutral keys; satisfied: and they meet alpha; valid: there are
    encouraged or penalised keys.
    """

    ratio: Tensor
    neg: Tensor
    hinge: Tensor
    has_ratio: Tensor
    satisfied: Tensor
    valid: Tensor

    def parts(self) -> Parts:
        """What each row contributes."""
        loss = self.ratio + self.neg
        return Parts(loss, self.ratio, self.neg, self.hinge, self.satisfied, self.has_ratio)


def check_weights(alpha: float, lam: float) -> None:
    """ValueError unless alpha is above 0 and lam 0 or more, both finite."""
    if not (is_number(alpha) and is_number(lam) and 0 < alpha < math.inf and 0 <= lam < math.inf):
        raise ValueError(
            f"alpha is {alpha!r} and lam {lam!r}: choose alpha above 0 and lam 0 or more, both finite"
        )


def row_loss(weighted: Tensor, mask: Tensor, alpha: float, lam: float) -> RowLoss:
    """Ratio and negative loss (section 3.2) of rows weighted (..., T) under mask (..., T), 2 = ignored."""
    check_weights(alpha, lam)
    one, zero, against = mask == 1, mask == 0, mask == -1
    ones, zeros = one.sum(-1), zero.sum(-1)
    a1 = weighted.masked_fill(~one, 0).sum(-1) / ones.clamp(min=1)
    a0 = weighted.masked_fill(~zero, 0).sum(-1) / zeros.clamp(min=1)
    neg = lam * weighted.masked_fill(~against, 0).square().sum(-1)
    ratio, hinge, has, satisfied = ratio_of(a1, a0, ones, zeros, alpha)
    return RowLoss(ratio, neg, hinge, has, satisfied, (ones > 0) | against.any(-1))


def ratio_of(a1, a0, ones, zeros, alpha):
    """Per row: the printed ratio loss, its hinge, has_ratio and satisfied, from averages and set sizes."""
    has = (ones > 0) & (zeros > 0)
    unmet = has & (a1 < alpha * a0)
    share = a1 / torch.where(unmet, a1 + a0, 1)
    ratio = torch.where(unmet, -share, 0)
    return ratio, torch.where(unmet, alpha / (1 + alpha) - share, 0), has, has & ~unmet


@dataclass
class Counts:
    """A batch of supervision with what follows from it: which rows are valid, how many keys are of a kind."""

    concept: Tensor  # (B, T)
    relation: Tensor  # (B, C, C), after the rule of steps
    ignore: Tensor  # (B, T)
    rows: Tensor  # (B, T)

    def __post_init__(self):
        kept = (self.concept >= 0) & ~self.ignore
        size = self.relation.new_zeros(len(self.relation), self.relation.shape[-1], dtype=torch.int64)
        self.size = size.scatter_add(1, self.concept.clamp(min=0), kept.long())  # keys of a concept, (B, C)
        present = (self.size > 0)[:, None]
        asked = self.rows & (self.concept >= 0)
        place = self.concept.clamp(min=0)
        self.has_neg = ((self.relation == -1) & present).any(-1).gather(1, place) & asked  # (B, T)
        self.has_pos = ((self.relation == 1) & present).any(-1).gather(1, place) & asked
        self.valid = self.has_neg | self.has_pos

    def penalised(self, lam: float) -> bool:
        """Whether any row has a penalised key that counts."""
        return lam > 0 and bool(self.has_neg.any())

    def sizes(self) -> tuple[int, int, int]:
        """Tokens, the most valid rows of an item, and columns of concept mass."""
        return self.concept.shape[1], int(self.valid.sum(1).max()), self.relation.shape[-1] + 1

    def mask(self) -> Tensor:
        """M (B, T, T) int8."""
        return mask_rows(self.relation, self.concept, self.ignore, self.concept.masked_fill(~self.rows, -1))

    def columns(self) -> Tensor:
        """Membership (B, T, C + 1) bool, its last column every key that is not ignored."""
        member = F.one_hot(self.concept.clamp(min=0), self.relation.shape[-1]).bool()
        member &= ((self.concept >= 0) & ~self.ignore)[..., None]
        return torch.cat([member, ~self.ignore[..., None]], -1)

    def averages(self, mass: Tensor):
        """A1, A0 (B, T) and the number of keys behind each, for rows whose masses are (B, T, C + 1)."""
        lines = self.relation.gather(
            1, self.concept.clamp(min=0)[..., None].expand(-1, -1, self.relation.shape[-1])
        )  # (B, T, C)
        one, other = (lines == 1).to(mass.dtype), (lines != 0).to(mass.dtype)
        size = self.size[:, None].to(mass.dtype)
        ones, zeros = (one * size).sum(-1), (~self.ignore).sum(1)[:, None] - (other * size).sum(-1)
        neutral = mass[..., -1] - (other * mass[..., :-1]).sum(-1)
        return ((one * mass[..., :-1]).sum(-1) / ones.clamp(min=1), neutral / zeros.clamp(min=1), ones, zeros)
