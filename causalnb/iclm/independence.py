"""How dependent the modules' states are: mutual information (Equations 2 and 3), correlation, and CKA."""

import torch
from torch import Tensor

DIRECTIONS = ("forward", "reverse")
TINY = 1e-20  # log(0) never happens, and 0 log 0 is 0


def mutual_information(h_invariant: Tensor, h_specific: Tensor, direction: str = "forward",
                       clamp: float | None = None) -> Tensor:
    """Equation 2 between two modules' states (n, C), each read as logits over C features: a scalar in nats.

    A row is a context c; given it the two features are drawn independently, so that the joint distribution is
    the mean over rows of softmax(h_I) softmax(h_S)^T. Forward is KL(joint || product of marginals), between 0
    and log n, from entropies alone; reverse is the KL of the published code; clamp bounds both distributions
    to [clamp, 1 - clamp] before the logarithm, as there, and may make either negative. Raises ValueError for
    states that do not fit, that hold no row or a NaN, and for unknown directions.
    """
    _checked_pair(h_invariant, h_specific, direction, clamp)
    return _mutual_information(h_invariant[None], h_specific[None], None, direction, clamp)[0]


def routed_mutual_information(h_invariant: Tensor, h_specific: Tensor, module: Tensor, num_modules: int,
                              direction: str = "forward", clamp: float | None = None) -> Tensor:
    """Equation 2 for each of num_modules over the rows routed to it: (N,), 0 for a module without rows.

    module (n,) says which domain module made row i of h_specific (n, C). Equation 3 is the sum.
    """
    _checked_pair(h_invariant, h_specific, direction, clamp)
    counts = module.bincount(minlength=num_modules)
    order = module.argsort(stable=True)
    owner = module[order]
    place = torch.arange(len(owner), device=owner.device) - (counts.cumsum(0) - counts)[owner]
    shape = num_modules, int(counts.max())
    seen = torch.zeros(shape, dtype=torch.bool, device=owner.device).index_put((owner, place), owner >= 0)
    padded = [h.new_zeros(*shape, h.shape[1]).index_put((owner, place), h[order])
              for h in (h_invariant, h_specific)]  # (N, most rows, C)
    found = _mutual_information(*padded, seen, direction, clamp)
    return torch.where(counts > 0, found, torch.zeros_like(found))


def _mutual_information(first, second, seen, direction, clamp) -> Tensor:
    """(G,) from logits (G, n, C), of which seen (G, n) count."""
    precision = torch.promote_types(first.dtype, torch.float32)
    first, second = first.to(precision).softmax(-1), second.to(precision).softmax(-1)
    rows = first.shape[1]
    if seen is not None:
        first, second = first * seen[..., None], second * seen[..., None]
        rows = seen.sum(1).clamp(min=1).to(precision)[:, None, None]
    joint = first.mT @ (second / rows)  # (G, C, C)
    p, q = first.sum(1) / _flat(rows), second.sum(1) / _flat(rows)  # (G, C)
    if clamp is None and direction == "forward":
        return _entropy(p) + _entropy(q) - _entropy(joint.flatten(1))
    if clamp is None:
        return -_entropy(p) - _entropy(q) - (p[:, :, None] * q[:, None] * _log(joint)).sum((1, 2))
    product = (p[:, :, None] * q[:, None]).clamp(clamp, 1 - clamp)
    joint = joint.clamp(clamp, 1 - clamp)
    left, right = (joint, product) if direction == "forward" else (product, joint)
    return (left * (left.log() - right.log())).sum((1, 2))


def _flat(rows):
    return rows[..., 0] if isinstance(rows, Tensor) else rows


def _log(value: Tensor) -> Tensor:
    return value.clamp(min=TINY).log()


def _entropy(p: Tensor) -> Tensor:
    """Entropy in nats of the last axis."""
    return -(p * _log(p)).sum(-1)


def pearson(a: Tensor, b: Tensor) -> Tensor:
    """Pearson's correlation of all entries of two arrays of one shape, in [-1, 1].

    The paper does not say how one coefficient comes from two matrices of states; this is the plainest way,
    and the mean vector dominates it. Raises ValueError for shapes that differ.
    """
    if a.shape != b.shape:
        raise ValueError(f"states of shapes {tuple(a.shape)} and {tuple(b.shape)} have no correlation entry "
                         "by entry: pass one shape, or use linear_cka")
    a, b = a.flatten() - a.mean(), b.flatten() - b.mean()
    return (a @ b) / (a.norm() * b.norm()).clamp(min=TINY)


def layer_correlations(first: Tensor, second: Tensor) -> Tensor:
    """Pearson's correlation of every layer of one module with every layer of another: (L, L').

    first (L, n, D) and second (L', n, D) are the states of the same n positions.
    """
    a, b = (h.flatten(1) - h.flatten(1).mean(1, keepdim=True) for h in (first, second))
    a, b = (h / h.norm(dim=1, keepdim=True).clamp(min=TINY) for h in (a, b))
    return a @ b.T


def linear_cka(a: Tensor, b: Tensor, debiased: bool = True) -> Tensor:
    """Centred kernel alignment with linear kernels of states (n, C) and (n, C'): 1 for equal ones.

    Debiased, it uses the unbiased estimate of HSIC (n >= 4): around 0 for independent states however few the
    rows are beside the features, where the plain one, and the mutual information of Equation 2, cannot tell
    them from equal ones. Differentiable, O(n^2 C). Raises ValueError for row counts that differ or too few.
    """
    least = 4 if debiased else 2
    if a.dim() != 2 or b.dim() != 2 or len(a) != len(b) or len(a) < least:
        raise ValueError(f"states of shapes {tuple(a.shape)} and {tuple(b.shape)} have no alignment: pass "
                         f"(n, C) and (n, C') with the same n of {least} or more")
    hsic = _unbiased_hsic if debiased else _hsic
    left, right = a @ a.T, b @ b.T
    scale = (hsic(left, left) * hsic(right, right)).clamp(min=TINY).sqrt()
    return hsic(left, right) / scale


def _hsic(k: Tensor, m: Tensor) -> Tensor:
    def centred(g):
        return g - g.mean(0) - g.mean(1, keepdim=True) + g.mean()

    return (centred(k) * centred(m)).sum()


def _unbiased_hsic(k: Tensor, m: Tensor) -> Tensor:
    n = len(k)
    k, m = (g - torch.diag(g.diagonal()) for g in (k, m))
    cross = (k * m).sum() - 2 * (k.sum(0) @ m.sum(0)) / (n - 2)
    return (cross + k.sum() * m.sum() / ((n - 1) * (n - 2))) / (n * (n - 3))


def _checked_pair(a, b, direction, clamp) -> None:
    if a.dim() != 2 or a.shape != b.shape or len(a) == 0:
        raise ValueError(f"states have shapes {tuple(a.shape)} and {tuple(b.shape)}: pass two of one shape "
                         "(n, C) with at least one row")
    if direction not in DIRECTIONS:
        raise ValueError(f"direction is {direction!r}: choose 'forward' (the paper's) or 'reverse'")
    if clamp is not None and not 0 < clamp < 0.5:
        raise ValueError(f"clamp is {clamp}: choose it in (0, 0.5), or None")
    wrong = (~(torch.isfinite(a) & torch.isfinite(b)).all(1)).nonzero()
    if len(wrong):
        raise ValueError(f"row {int(wrong[0])} of the states is not finite: lower the learning rate or look "
                         "for the step where it began")
