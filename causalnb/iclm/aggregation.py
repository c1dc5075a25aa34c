"""From the invariant and the domain states to one distribution: in latent, logit or probability space."""

import torch
from torch import Tensor, nn

from causalnb.wrapping import check_counts, check_finite


def shared_batch_norm(*states: Tensor, eps: float = 1e-5) -> tuple[Tensor, ...]:
    """Section 3.3: states (n, D) of several modules, normalised by the statistics of all their rows together.

    All modules then have one mean and variance over both; the published code normalises each by its own.
    """
    check_finite(eps=eps)
    rows = torch.cat(states)
    spread = (rows.var(0, unbiased=False) + eps).rsqrt()
    return tuple((h - rows.mean(0)) * spread for h in states)


class SharedBatchNorm(nn.Module):
    """`shared_batch_norm` with running statistics for evaluation; each feature's scale and shift are trained.

    With shared=False each of the modules keeps statistics, scale and shift of its own, as the published code
    does.
    """

    def __init__(
        self, width: int, modules: int = 2, shared: bool = True, momentum: float = 0.1, eps: float = 1e-5
    ):
        super().__init__()
        check_counts(1, width=width, modules=modules)
        check_finite(momentum=momentum, eps=eps)
        groups = 1 if shared else modules
        self.shared, self.momentum, self.eps = shared, momentum, eps
        self.scale = nn.Parameter(torch.ones(groups, 1, width))
        self.shift = nn.Parameter(torch.zeros(groups, 1, width))
        self.register_buffer("mean", torch.zeros(groups, 1, width))
        self.register_buffer("variance", torch.ones(groups, 1, width))

    def forward(self, states: Tensor) -> Tensor:
        """States (M, n, D) normalised, in training by their own statistics over modules and rows.

        Raises ValueError in training where these are of a single row: nothing would be left of it.
        """
        states = states.to(self.scale.dtype)
        mean, variance = self.mean, self.variance
        if self.training:
            rows = states.shape[1] * (len(states) if self.shared else 1)
            if rows < 2:
                raise ValueError(
                    "batch normalisation in training needs more than one row: use a larger "
                    "batch, or norm_over='tokens'"
                )
            axes = (0, 1) if self.shared else (1,)
            variance, mean = torch.var_mean(states, axes, correction=0, keepdim=True)  # (1 or M, 1, D)
            with torch.no_grad():
                self.mean.lerp_(mean, self.momentum)
                self.variance.lerp_(variance * rows / (rows - 1), self.momentum)  # the unbiased one
        return (states - mean) * ((variance + self.eps).rsqrt() * self.scale) + self.shift


def _module_weights(invariant: float | None, domains: Tensor) -> Tensor:
    """Appendix C's weights (M, n): w_I, then (1 - w_I) r of the router's r (N, n); r where w_I is None."""
    if invariant is None:
        return domains
    return torch.cat([torch.full_like(domains[:1], invariant), (1 - invariant) * domains])


class LatentAggregation(nn.Module):
    """Section 3.3: normalised states side by side (n, 2D) through one trained head to logits (n, V).

    Domains are summed by the router's weights first. The head is drawn at random as in the paper, or with
    start="base" is half the base's head twice, so that it begins as the mean of the modules' logits, of
    normalised states. Without an invariant module the domain's states stand twice: the head keeps its size.
    Raises ValueError for another start.
    """

    def __init__(
        self, base_head: nn.Module, invariant: bool = True, shared: bool = True, start: str = "random"
    ):
        super().__init__()
        if start not in ("random", "base"):
            raise ValueError(f"start is {start!r}: choose 'random' or 'base'")
        if start == "base" and getattr(base_head, "bias", None) is not None:
            raise ValueError("the base's head has a bias, which this head has not: choose start='random'")
        vocabulary, width = base_head.weight.shape
        self.invariant = invariant
        self.norm = SharedBatchNorm(width, 1 + invariant, shared)
        self.head = nn.Linear(2 * width, vocabulary, bias=False)
        if start == "base":
            with torch.no_grad():
                self.head.weight.copy_(base_head.weight.repeat(1, 2) / 2)

    def forward(self, states: Tensor, weights: Tensor, rows: Tensor | None = None) -> Tensor:
        """Logits of states (M, n, D), the invariant's first, and domains' weights (N, n); at rows alone."""
        first = int(self.invariant)
        domain = (weights[..., None].to(states.dtype) * states[first:]).sum(0)
        normed = self.norm(torch.stack([*states[:first], domain]))  # (1 or 2, n, D)
        normed = normed if rows is None else normed[:, rows]
        return self.head(torch.cat([normed[0], normed[-1]], -1))


class LogitAggregation(nn.Module):
    """Appendix C: the modules' own logits, batch-normalised together for each word, in a weighted sum.

    invariant_weight is w_I in [0, 1], None without an invariant module.
    """

    def __init__(
        self,
        base_head: nn.Module,
        modules: int = 2,
        invariant_weight: float | None = 0.5,
        shared: bool = True,
    ):
        super().__init__()
        self.base_head = (base_head,)  # the base's own: not registered a second time
        self.invariant_weight = invariant_weight
        self.norm = SharedBatchNorm(base_head.weight.shape[0], modules, shared)

    def forward(self, states: Tensor, weights: Tensor, rows: Tensor | None = None) -> Tensor:
        """Logits (n, V) of states (M, n, D) and the domains' weights (N, n); at rows alone."""
        normed = self.norm(self.base_head[0](states))
        weights = _module_weights(self.invariant_weight, weights)
        summed = (weights[..., None].to(normed.dtype) * normed).sum(0)
        return summed if rows is None else summed[rows]


class ProbabilityAggregation(nn.Module):
    """Equations 14 to 16: the log of each module's probabilities, bounded by its weight, summed.

    B_a, and every module of weight 0, add the same to all words and are left out: the softmax is unchanged.
    With two weights of 1/2 no word can be more than 9 times as likely as another. norm=True batch-normalises
    the logits first, as the published code does. invariant_weight is w_I in [0, 1], None without the module.
    """

    def __init__(
        self,
        base_head: nn.Module,
        modules: int = 2,
        invariant_weight: float | None = 0.5,
        shared: bool = True,
        norm: bool = False,
    ):
        super().__init__()
        self.base_head, self.invariant_weight = (base_head,), invariant_weight
        self.norm = SharedBatchNorm(base_head.weight.shape[0], modules, shared) if norm else nn.Identity()

    def forward(self, states: Tensor, weights: Tensor, rows: Tensor | None = None) -> Tensor:
        """Logits (n, V) of states (M, n, D) and the domains' weights (N, n); at rows alone."""
        logits = self.norm(self.base_head[0](states))
        if rows is not None:
            logits, weights = logits[:, rows], weights[:, rows]
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        weights = _module_weights(self.invariant_weight, weights)[..., None].to(logits.dtype)
        bounded = (1 - weights) / 2 + weights * logits.softmax(-1)
        return bounded.clamp(min=torch.finfo(bounded.dtype).tiny).log().sum(0)
