"""How dependent the modules' states are: mutual information (Equations 2 and 3), correlation, and CKA."""

from functools import wraps
from numbers import Real

import torch
from torch import Tensor

from causalnb.wrapping import check_counts

DIRECTIONS = ("forward", "reverse")
TINY = 1e-20  # log(0) never happens, and 0 log 0 is 0


def _outside_autocast(measure):
    """The measure in the precision of `_precision`: differences of entropies do not survive half of it."""

    @wraps(measure)
    def exact(*given, **named):
        states = next(value for value in (*given, *named.values()) if isinstance(value, Tensor))
        with torch.autocast(states.device.type, enabled=False):
            return measure(*given, **named)

    return exact


def mutual_information(
    h_invariant: Tensor, h_specific: Tensor, direction: str = "forward", clamp: float | None = None
) -> Tensor:
    """Equation 2 between two modules' states (n, C), each read as logits over C features: a scalar in nats.

    A row is a context c; given it the two features are drawn independently, so that the joint distribution is
    the mean over rows of softmax(h_I) softmax(h_S)^T. Forward is KL(joint || product of marginals), between 0
    and log n, from entropies alone; reverse is the KL of the published code; clamp bounds both distributions
    to [clamp, 1 - clamp] before the logarithm, as there, and may make either negative. In float32, also under
    autocast; below 1e-6 nats rounding decides. Raises ValueError for states that do not fit, that hold no row
    or a NaN, and for unknown directions.
    """
    check_estimator(direction, clamp)
    _checked_pair(h_invariant, h_specific)
    return _mutual_information(h_invariant, h_specific, direction, clamp)


def routed_mutual_information(
    h_invariant: Tensor,
    h_specific: Tensor,
    module: Tensor,
    num_modules: int,
    direction: str = "forward",
    clamp: float | None = None,
) -> Tensor:
    """Equation 2 for each domain module over the rows routed to it: (N,), 0 for a module without rows.

    module (n,) in [0, N) says which domain module made row i of h_specific (n, C). The sum takes the place of
    Equation 3, which runs all N modules on all rows; here a module that was not given an input stays out, so
    that the loss reaches active modules alone. Raises ValueError as `mutual_information`, and for `module`.
    """
    check_estimator(direction, clamp)
    owners = _checked_owners(h_invariant, h_specific, module, num_modules)
    found = [h_invariant.new_zeros((), dtype=_precision(h_invariant))] * num_modules
    for number in owners:
        rows = module == number
        found[number] = _mutual_information(h_invariant[rows], h_specific[rows], direction, clamp)
    return torch.stack(found)


def _precision(states: Tensor) -> torch.dtype:
    return torch.promote_types(states.dtype, torch.float32)


@_outside_autocast
def _mutual_information(first, second, direction, clamp) -> Tensor:
    """A scalar from logits (n, C)."""
    first, second = (h.to(_precision(h)).softmax(1) for h in (first, second))
    p, q = first.mean(0), second.mean(0)  # (C,): the marginals of the joint, exactly
    joint = first.T @ (second / len(second))  # (C, C)
    if clamp is None and direction == "forward":
        return _entropy(p) + _entropy(q) - _entropy(joint)
    if clamp is None:
        return -_entropy(p) - _entropy(q) - p @ _log(joint) @ q
    product = (p[:, None] * q).clamp(clamp, 1 - clamp)
    joint = joint.clamp(clamp, 1 - clamp)
    left, right = (joint, product) if direction == "forward" else (product, joint)
    return (left * (left.log() - right.log())).sum()


def _log(value: Tensor) -> Tensor:
    return value.clamp(min=TINY).log()


def _entropy(p: Tensor) -> Tensor:
    """Entropy in nats of all entries together."""
    return -(p * _log(p)).sum()


@_outside_autocast
def pearson(a: Tensor, b: Tensor) -> Tensor:
    """Pearson's correlation of all entries of two arrays of one shape, in [-1, 1].

    The paper does not say how one coefficient comes from two matrices of states; this is the plainest way,
    and the mean vector dominates it. Raises ValueError for shapes that differ.
    """
    if a.shape != b.shape:
        raise ValueError(
            f"states of shapes {tuple(a.shape)} and {tuple(b.shape)} have no correlation entry "
            "by entry: pass one shape, or use linear_cka"
        )
    a, b = (h.to(_precision(h)).flatten() for h in (a, b))
    a, b = a - a.mean(), b - b.mean()
    return (a @ b) / (a.norm() * b.norm()).clamp(min=TINY)


@_outside_autocast
def layer_correlations(first: Tensor, second: Tensor) -> Tensor:
    """Pearson's correlation of every layer of one module with every layer of another: (L, L').

    first (L, n, D) and second (L', n, D) are the states of the same n positions; ValueError for others.
    """
    if first.dim() != 3 or first.shape[1:] != second.shape[1:]:
        raise ValueError(
            f"states of shapes {tuple(first.shape)} and {tuple(second.shape)} have no "
            "correlation layer by layer: pass (layers, positions, width) of the same positions"
        )
    a, b = (h.to(_precision(h)).flatten(1) for h in (first, second))
    a, b = (h - h.mean(1, keepdim=True) for h in (a, b))
    a, b = (h / h.norm(dim=1, keepdim=True).clamp(min=TINY) for h in (a, b))
    return a @ b.T


@_outside_autocast
def linear_cka(a: Tensor, b: Tensor, debiased: bool = True) -> Tensor:
    """Centred kernel alignment with linear kernels of states (n, C) and (n, C'): 1 for equal ones.

    Debiased, it uses the unbiased estimate of HSIC (n >= 4): around 0 for independent states however few the
    rows are beside the features, where the plain one, and the mutual information of Equation 2, cannot tell
    them from equal ones. Differentiable, O(n^2 C). Raises ValueError for row counts that differ or too few.
    """
    least = 4 if debiased else 2
    if a.dim() != 2 or b.dim() != 2 or len(a) != len(b) or len(a) < least:
        raise ValueError(
            f"states of shapes {tuple(a.shape)} and {tuple(b.shape)} have no alignment: pass "
            f"(n, C) and (n, C') with the same n of {least} or more"
        )
    hsic = _unbiased_hsic if debiased else _hsic
    a, b = (h.to(_precision(h)) for h in (a, b))
    a, b = a - a.mean(0), b - b.mean(0)  # changes neither estimate, and saves digits
    left, right = a @ a.T, b @ b.T
    scale = (hsic(left, left) * hsic(right, right)).clamp(min=TINY).sqrt()
    return hsic(left, right) / scale


def routed_alignment(h_invariant: Tensor, h_specific: Tensor, module: Tensor, num_modules: int) -> Tensor:
    """Debiased CKA for each domain module over the rows routed to it: (N,), in [0, 1] up to chance.

    Not in the paper: a regulariser in the place of Equation 3 that can tell independent modules from equal
    ones in a small batch. Where the estimate is below 0, or a module has fewer than 4 rows, it is 0 and has
    no gradient. Raises ValueError as `routed_mutual_information`.
    """
    owners = _checked_owners(h_invariant, h_specific, module, num_modules)
    found = [h_invariant.new_zeros((), dtype=_precision(h_invariant))] * num_modules
    for number in owners:
        rows = module == number
        if int(rows.sum()) >= 4:
            found[number] = linear_cka(h_invariant[rows], h_specific[rows]).clamp(min=0)
    return torch.stack(found)


def _hsic(k: Tensor, m: Tensor) -> Tensor:
    def centred(g):
        return g - g.mean(0) - g.mean(1, keepdim=True) + g.mean()

    return (centred(k) * centred(m)).sum()


def _unbiased_hsic(k: Tensor, m: Tensor) -> Tensor:
    n = len(k)
    k, m = (g - torch.diag(g.diagonal()) for g in (k, m))
    cross = (k * m).sum() - 2 * (k.sum(0) @ m.sum(0)) / (n - 2)
    return (cross + k.sum() * m.sum() / ((n - 1) * (n - 2))) / (n * (n - 3))


def check_estimator(direction: str, clamp: float | None) -> None:
    """Raise ValueError for a direction or a clamp that `mutual_information` does not know."""
    if direction not in DIRECTIONS:
        raise ValueError(f"direction is {direction!r}: choose 'forward' (the paper's) or 'reverse'")
    if clamp is not None and (not isinstance(clamp, Real) or not 0 < clamp < 0.5):
        raise ValueError(f"clamp is {clamp!r}: choose it in (0, 0.5), or None")


def _checked_pair(a, b) -> None:
    if a.dim() != 2 or a.shape != b.shape or len(a) == 0:
        raise ValueError(
            f"states have shapes {tuple(a.shape)} and {tuple(b.shape)}: pass two of one shape "
            "(n, C) with at least one row"
        )
    wrong = (~(torch.isfinite(a) & torch.isfinite(b)).all(1)).nonzero()
    if len(wrong):
        raise ValueError(
            f"row {int(wrong[0])} of the states is not finite: lower the learning rate or look "
            "for the step where it began"
        )


def _checked_owners(h_invariant, h_specific, module, num_modules) -> list[int]:
    """The modules that own a row."""
    _checked_pair(h_invariant, h_specific)
    check_counts(1, num_modules=num_modules)
    owners = module.unique().tolist()
    if module.shape != h_specific.shape[:1] or not set(owners) <= set(range(num_modules)):
        raise ValueError(
            f"module has shape {tuple(module.shape)} and values {owners}: give each of "
            f"{len(h_specific)} rows one in [0, {num_modules})"
        )
    return owners
