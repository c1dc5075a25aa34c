"""Definition 1 as numbers: tau, its bounds, the no-loop measure of Equation 1, and Sinkhorn's map."""

import math

import torch
from torch import Tensor

from causalnb.wrapping import check_counts

SELF_LOOPS = (False, True, "set")


def tau(attention: Tensor, valid: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """tau of Definition 1 by rows and by columns (B, H, T): sum_j exp(A_ij) and sum_j exp(A_ji).

    attention (B, H, T, T) after the softmax; valid (B, T) says which tokens are no padding: sums run over
    these alone, and padding has tau 0. Differentiable. Raises ValueError for shapes that do not fit, for
    fewer than two valid tokens and for rows that do not sum to 1 over them.
    """
    valid = checked_map(attention, valid)
    rows, columns = excess(attention, valid)
    n = counted(attention.shape[-1], valid)
    return rows + n, columns + n


def counted(tokens: int, valid: Tensor | None) -> Tensor | int:
    """The number n of valid tokens where a token is valid and 0 where it is padding, (B, 1, T)."""
    return tokens if valid is None else (valid.sum(1, keepdim=True) * valid)[:, None]


def excess(
    attention: Tensor, valid: Tensor | None = None, among: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """tau - n by rows and columns (B, H, T), n the valid tokens: sums of exp(A) - 1, where n has no digits.

    among (B, T): the tokens whose rows are read (None: all). Nothing is checked. An entry that is masked out
    adds nothing, so that causal maps need no special case.
    """
    grown = attention.to(torch.promote_types(attention.dtype, torch.float32)).expm1()
    if valid is not None:
        grown = grown * (valid[:, None, :, None] & valid[:, None, None])
    if among is not None:
        grown = grown * among[:, None, :, None]
    return grown.sum(-1), grown.sum(-2)


def markov_blanket_bounds(n, self_loop: bool | str = False):
    """Bounds (low, high) of tau by rows + tau by columns for a node with one or two neighbours (Equation 2).

    n >= 2, a number or a tensor of valid tokens. Without self-loops 2H' = 2(n - 2 + 2 exp(1/2)) (two
    neighbours of weight 1/2) and 2H'' = 2(n - 1 + e) (one of weight 1). self_loop=True tolerates a node's own
    weight of up to 1/3: low falls to three entries of 1/3. "set" takes the interval of a weight of just 1/3:
    high falls to 1/3 and 2/3 as well; no bound asks for the loop itself. Raises ValueError for n below 2 and
    for another self_loop.
    """
    if not (torch.as_tensor(n) >= 2).all():
        raise ValueError(f"n is {torch.as_tensor(n).min().item()}: a blanket needs at least two tokens")
    low, high = excess_bounds(self_loop)
    return 2 * (n + low), 2 * (n + high)


def excess_bounds(self_loop: bool | str = False) -> tuple[float, float]:
    """(H' - N, H'' - N): the bounds of one tau without its N; self_loop as in `markov_blanket_bounds`."""
    if self_loop not in SELF_LOOPS:
        raise ValueError(f"self_loop is {self_loop!r}: choose False, True (tolerated) or 'set'")
    low = 3 * math.expm1(1 / 3) if self_loop else 2 * math.expm1(1 / 2)
    high = math.expm1(1 / 3) + math.expm1(2 / 3) if self_loop == "set" else math.expm1(1)
    return low, high


def no_loop(weights: Tensor) -> Tensor:
    """h(W) = tr(exp(W o W)) - N (Equation 1), 0 only for acyclic graphs; weights (..., N, N) -> (...).

    Cycles of length k weigh 1/k!, so that it hardly sees long ones. Raises ValueError for maps not square.
    """
    if weights.dim() < 2 or weights.shape[-1] != weights.shape[-2]:
        raise ValueError(f"weights have shape {tuple(weights.shape)}: give square maps (..., N, N)")
    return torch.matrix_exp(weights * weights).diagonal(dim1=-2, dim2=-1).sum(-1) - weights.shape[-1]


def sinkhorn(attention: Tensor, valid: Tensor | None = None, iterations: int = 5) -> Tensor:
    """The map (B, H, T, T) scaled until its columns sum to 1 as its rows do, which Definition 1 asks for.

    Columns and rows are divided by their sums in turn, in logarithms; rows sum to 1 at the end. Padding is
    left out. Raises ValueError for a causal map, whose only doubly stochastic limit is the identity, for
    iterations below 1, and as `tau`.
    """
    valid = checked_map(attention, valid)
    check_counts(1, iterations=iterations)
    if (
        not (attention if valid is None else attention * valid[:, None, :, None] * valid[:, None, None])
        .triu(1)
        .any()
    ):
        raise ValueError(
            "the map is causal, and its only doubly stochastic limit is the identity: use "
            "Sinkhorn on bidirectional maps alone"
        )
    logs = attention.clamp(min=torch.finfo(attention.dtype).tiny).log()
    outside = torch.zeros((), dtype=torch.bool, device=attention.device)
    if valid is not None:
        outside = ~(valid[:, None, :, None] & valid[:, None, None])
    for _ in range(iterations):
        for over in (-2, -1):
            logs = logs.masked_fill(outside, -1e4)
            logs = logs - logs.logsumexp(over, keepdim=True)
    return logs.exp().masked_fill(outside, 0)


def checked_valid(
    valid: Tensor | None, batch: int, tokens: int, name: str = "valid", least: int = 2
) -> Tensor | None:
    """valid (B, T) as bool, or None where no token is padding.

    Raises ValueError for another shape, where every token of an item is hidden, and for fewer than `least`.
    """
    if tokens < least:
        raise ValueError(f"the input has {tokens} token: a blanket needs at least {least}")
    if valid is None:
        return None
    if not isinstance(valid, Tensor):
        raise ValueError(f"{name} is a {type(valid).__name__}: give a tensor (B, T)")
    if valid.shape != (batch, tokens):
        raise ValueError(
            f"{name} has shape {tuple(valid.shape)}, but there are {batch} items of {tokens} "
            "tokens: give one entry for each token"
        )
    valid = valid.bool()
    counts = valid.sum(1)
    if (counts < least).any():
        item = int(counts.argmin())
        left = "every token" if counts[item] == 0 else "all tokens but one"
        raise ValueError(f"{name} hides {left} of item {item}: leave each item at least {least}")
    return None if valid.all() else valid


def checked_map(attention: Tensor, valid: Tensor | None) -> Tensor | None:
    """`checked_valid` of a map (B, H, T, T); ValueError where a row of it does not sum to 1.

    Raises ValueError for maps that are not square, an empty batch and integers, too.
    """
    if attention.dim() != 4 or attention.shape[-1] != attention.shape[-2]:
        raise ValueError(f"attention has shape {tuple(attention.shape)}: give square maps (B, H, T, T)")
    if not attention.numel():
        raise ValueError(
            f"attention has shape {tuple(attention.shape)}, an empty batch: give at least one map"
        )
    if not attention.is_floating_point():
        raise ValueError(f"attention has dtype {attention.dtype}: give weights after the softmax, as floats")
    valid = checked_valid(valid, attention.shape[0], attention.shape[-1])
    with torch.no_grad():
        off = attention.float() if valid is None else attention.float() * valid[:, None, None]
        off = (off.sum(-1) - 1).abs()
        off = off if valid is None else off * valid[:, None]
        worst = off.max()
    allowed = 1e-3 if torch.finfo(attention.dtype).bits > 16 else 0.05
    if not worst <= allowed:
        item, head, row = (at.item() for at in torch.unravel_index(off.argmax(), off.shape))
        raise ValueError(
            f"row {row} of the attention (item {item}, head {head}) differs from a sum of 1 by "
            f"{worst.item():.3g}: pass the map after the softmax and before dropout, and valid "
            "where there is padding"
        )
    return valid
