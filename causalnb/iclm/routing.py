"""Which domain module an input goes to: vector quantisation (Equation 1), K-means, and soft distances."""

import math
from numbers import Integral
from typing import NamedTuple

import torch
from torch import Tensor, nn

from causalnb.wrapping import check_counts, check_finite, is_number

NU_ON = ("codebook", "commitment")
NORMS = ("running", "batch")


class Routing(NamedTuple):
    """module (B,) of each input, the loss, and weights (B, N) of all modules, None where one has them all."""

    module: Tensor
    loss: Tensor
    weights: Tensor | None = None


def mean_pooled(states: Tensor, mask: Tensor) -> Tensor:
    """Mean over the tokens that mask (B, T) marks, of states (B, T, D): (B, D), in float32 at least.

    The centroid nearest to this mean is the one whose squared distances to all tokens sum to the least.
    Raises ValueError for a row without a token.
    """
    if mask.is_floating_point() and mask.isnan().any():
        raise ValueError("the mask of tokens has NaN: give 1 for a token and 0 for padding")
    mask = mask.bool()
    empty = (~mask.any(1)).nonzero()
    if len(empty):
        raise ValueError(f"row {int(empty[0])} has no token to route by: unmask at least one")
    precision = torch.promote_types(states.dtype, torch.float32)
    summed = states.masked_fill(~mask[..., None], 0).sum(1, dtype=precision)
    return summed / mask.sum(1, keepdim=True)


class StateNorm(nn.Module):
    """Centres and scales states (B, D) by running statistics, in training too, after they took the batch in.

    So an input is routed alike in any batch, also alone. The first batches are averaged, later ones enter
    with `momentum`, and none once the statistics are held. With by="batch", as in the published code, a batch
    in training is normalised by its own statistics until then; ValueError where it has a single row.
    """

    def __init__(self, dim: int, momentum: float = 0.05, eps: float = 1e-5, by: str = "running"):
        super().__init__()
        if by not in NORMS:
            raise ValueError(f"by is {by!r}: choose {', '.join(map(repr, NORMS))}")
        check_counts(1, dim=dim)
        check_finite(momentum=momentum, eps=eps)
        self.momentum, self.eps, self.by = momentum, eps, by
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("variance", torch.ones(dim))
        self.register_buffer("batches", torch.zeros((), dtype=torch.int64))
        self.register_buffer("held", torch.tensor(False))

    @torch.no_grad()
    def update(self, states: Tensor) -> None:
        """Take a batch (B, D) into the statistics."""
        self.batches += 1
        share = max(self.momentum, 1 / int(self.batches))
        variance, mean = torch.var_mean(states.to(self.mean.dtype), 0, correction=0)
        self.variance.lerp_(variance + (1 - share) * (mean - self.mean).square(), share)
        self.mean.lerp_(mean, share)

    @torch.no_grad()
    def hold(self, states: Tensor) -> None:
        """Take the statistics of states (n, D) alone, for good."""
        self.batches.zero_()
        self.update(states)
        self.held.fill_(True)

    def forward(self, states: Tensor) -> Tensor:
        """(B, D) with the running mean at 0 and the running variance at 1."""
        mean, variance = self.mean, self.variance  # which update changes in place
        if self.training and not self.held:
            if self.by == "batch" and len(states) < 2:
                raise ValueError(
                    "a batch of one input has no statistics of its own: use a larger batch, or norm 'running'"
                )
            self.update(states)
            if self.by == "batch":
                variance, mean = torch.var_mean(states.to(self.mean.dtype), 0, correction=0)
        return (states.to(self.mean.dtype) - mean) * (variance + self.eps).rsqrt()


class VectorQuantizer(nn.Module):
    """Equation 1: each input goes to the nearest of num_modules centroids, which follow their inputs.

    loss = MSE(sg(h_c), h_R) + MSE(h_c, sg(h_R)), with nu on the second term, which moves the codebook, as the
    paper prints it, or on the first, which moves the states, as in the published code and the VQ-VAE. The
    task's loss reaches neither. Centroids start uniform in +-1/N, or with init="data" at inputs of the first
    batch in training that lie far apart. Centroids marked in the buffer frozen (N,) get no gradient.
    """

    def __init__(
        self, num_modules: int, dim: int, nu: float = 0.25, nu_on: str = "codebook", init: str = "uniform"
    ):
        super().__init__()
        _checked_size(num_modules, dim)
        if nu_on not in NU_ON:
            raise ValueError(f"nu_on is {nu_on!r}: choose 'codebook' (Equation 1) or 'commitment'")
        if init not in ("uniform", "data"):
            raise ValueError(f"init is {init!r}: choose 'uniform' or 'data'")
        if not is_number(nu) or not 0 <= nu < math.inf:
            raise ValueError(f"nu is {nu!r}: choose a finite one, 0 or more")
        self.nu, self.nu_on = nu, nu_on
        self.codebook = _small(num_modules, dim)
        self.register_buffer("frozen", torch.zeros(num_modules, dtype=torch.bool))
        self.register_buffer("started", torch.tensor(init == "uniform"))

    def forward(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Assignment (B,) of states (B, D) and the loss, a mean over B and D.

        Raises ValueError for another width, for NaN, and where init="data" finds fewer inputs than centroids.
        """
        _checked_states(states, self.codebook.shape[1])
        if self.training and not self.started:
            self._start(states.detach())
        codebook = torch.where(self.frozen[:, None], self.codebook.detach(), self.codebook)
        module = _nearest(states.detach(), codebook.detach())
        chosen = codebook[module]  # (B, D)
        commitment = (chosen.detach() - states).square().mean()
        follow = (chosen - states.detach()).square().mean()
        if self.nu_on == "codebook":
            return module, commitment + self.nu * follow
        return module, follow + self.nu * commitment

    @torch.no_grad()
    def _start(self, states: Tensor) -> None:
        """The input farthest from the mean, then each time the one farthest from those taken."""
        if len(states) < len(self.codebook):
            raise ValueError(
                f"a first batch of {len(states)} inputs cannot start {len(self.codebook)} "
                "centroids: raise the batch size, or choose init='uniform'"
            )
        far = (states - states.mean(0)).square().sum(1)
        for place in range(len(self.codebook)):
            self.codebook[place] = states[far.argmax()]
            far = torch.cdist(_tall(states), _tall(self.codebook[: place + 1])).amin(1)
        self.started.fill_(True)


class KMeansRouter(nn.Module):
    """Appendix B: centroids found beforehand on training states, in `components` dimensions; no loss.

    The paper reduces the states by multidimensional scaling and refits it at every step, which turns the map
    anew each time. Classical scaling of Euclidean distances is the projection on the leading principal axes,
    and that has an exact value for a new input; so it is done here, once.
    """

    def __init__(self, num_modules: int, dim: int, components: int = 64):
        super().__init__()
        _checked_size(num_modules, dim)
        if not (is_number(components) and isinstance(components, Integral)) or components < 1:
            raise ValueError(f"components is {components!r}: choose 1 or more, a whole number")
        components = min(components, dim)
        self.register_buffer("centre", torch.zeros(dim))
        self.register_buffer("axes", torch.zeros(dim, components))
        self.register_buffer("codebook", torch.zeros(num_modules, components))
        self.register_buffer("fitted", torch.tensor(False))

    @torch.no_grad()
    def fit(self, states: Tensor, seed: int = 0) -> "KMeansRouter":
        """Find the axes and the centroids on states (n, D); ValueError for fewer states than modules."""
        from sklearn.cluster import KMeans
        from sklearn.decomposition import PCA

        modules, components = self.codebook.shape
        _checked_states(states, len(self.centre))
        if len(states) < modules:
            raise ValueError(f"{len(states)} states cannot make {modules} clusters: pass at least {modules}")
        found = PCA(min(components, len(states)), random_state=seed).fit(states.cpu().double().numpy())
        axes = torch.zeros_like(self.axes)
        axes[:, : found.n_components_] = torch.as_tensor(found.components_.T).to(axes)
        self.centre.copy_(torch.as_tensor(found.mean_))
        self.axes.copy_(axes)
        reduced = self.reduce(states)
        clusters = KMeans(modules, n_init=10, random_state=seed).fit(reduced.cpu().double().numpy())
        self.codebook.copy_(torch.as_tensor(clusters.cluster_centers_))
        self.fitted.fill_(True)
        return self

    def reduce(self, states: Tensor) -> Tensor:
        """States (B, D) on the leading axes: (B, components)."""
        return (states.to(self.axes.dtype) - self.centre) @ self.axes

    def forward(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Assignment (B,) of states (B, D), and 0 for the loss. Raises ValueError before `fit`."""
        if not self.fitted:
            raise ValueError("the K-means router has no centroids yet: call fit(states) on training inputs")
        _checked_states(states, len(self.centre))
        return _nearest(self.reduce(states.detach()), self.codebook), states.new_zeros(())


class DistanceWeightingRouter(nn.Module):
    """Appendix B: weights softmin of the squared distance to each centroid; every module is active.

    Distances are means over features, divided by `temperature`. The task's loss moves the centroids, and the
    router's states where they are trained; there is no loss of its own. Centroids marked in the buffer frozen
    (N,) get no gradient; it is not saved.
    """

    def __init__(self, num_modules: int, dim: int, temperature: float = 1.0):
        super().__init__()
        _checked_size(num_modules, dim)
        if not is_number(temperature) or not 0 < temperature < math.inf:
            raise ValueError(f"temperature is {temperature!r}: choose a positive one, finite")
        self.temperature = temperature
        self.codebook = _small(num_modules, dim)
        self.register_buffer("frozen", torch.zeros(num_modules, dtype=torch.bool), persistent=False)

    def forward(self, states: Tensor) -> Tensor:
        """Weights (B, N) of states (B, D); rows sum to 1. Raises ValueError for another width and for NaN."""
        _checked_states(states, self.codebook.shape[1])
        codebook = torch.where(self.frozen[:, None], self.codebook.detach(), self.codebook)
        distance = (states[:, None] - codebook).square().mean(-1)  # (B, N)
        return (-distance / self.temperature).softmax(1)


ROUTERS = {"vq": VectorQuantizer, "kmeans": KMeansRouter, "distance": DistanceWeightingRouter}


class Router(nn.Module):
    """From pooled states (B, D) to a Routing: projected to `projection` features if asked, normed, routed.

    kind "vq", "kmeans" or "distance"; norm "running" or "batch" as in `StateNorm`; settings go to that class.
    """

    def __init__(
        self,
        kind: str,
        num_modules: int,
        dim: int,
        projection: int | None = None,
        norm: str = "running",
        **settings,
    ):
        super().__init__()
        if kind not in ROUTERS:
            raise ValueError(f"router is {kind!r}: choose {', '.join(map(repr, ROUTERS))}")
        inner = dim if projection is None else projection
        self.dim = dim
        self.choose = ROUTERS[kind](num_modules, inner, **settings)
        self.project = nn.Identity() if projection is None else nn.Linear(dim, projection)
        self.norm = StateNorm(inner, by=norm)

    def forward(self, states: Tensor) -> Routing:
        """Routing of pooled states (B, D). Raises ValueError for a width that does not fit and for NaN."""
        _checked_states(states, self.dim)
        states = self.norm(self.project(self._cast(states)))
        if isinstance(self.choose, DistanceWeightingRouter):
            weights = self.choose(states)
            return Routing(weights.argmax(1), states.new_zeros(()), weights)
        return Routing(*self.choose(states))

    @torch.no_grad()
    def fit(self, states: Tensor, seed: int = 0) -> "Router":
        """Hold the statistics of pooled training states (n, D) from now on; for K-means find centroids."""
        _checked_states(states, self.dim)
        states = self.project(self._cast(states))
        self.norm.hold(states)
        if isinstance(self.choose, KMeansRouter):
            self.choose.fit(self.norm(states), seed)
        return self

    def _cast(self, states: Tensor) -> Tensor:
        return states.to(self.norm.mean.dtype)


def _nearest(states: Tensor, centroids: Tensor) -> Tensor:
    """(B,): by differences, so that an input's centroid does not depend on its batch to the last bit."""
    return torch.cdist(_tall(states), _tall(centroids), compute_mode="donot_use_mm_for_euclid_dist").argmin(1)


def _tall(states: Tensor) -> Tensor:
    """In float32 at least: distances in half precision do not exist."""
    return states.to(torch.promote_types(states.dtype, torch.float32))


def _small(num_modules: int, dim: int) -> nn.Parameter:
    """Centroids near the origin, where normalised states have their mean."""
    return nn.Parameter(torch.empty(num_modules, dim).uniform_(-1 / num_modules, 1 / num_modules))


def _checked_size(num_modules, dim) -> None:
    check_counts(1, num_modules=num_modules, dim=dim)


def _checked_states(states, width) -> None:
    if states.dim() != 2 or len(states) == 0 or states.shape[1] != width:
        raise ValueError(
            f"router states have shape {tuple(states.shape)}: pass (inputs, {width}), of the "
            "base that this router was trained on"
        )
    wrong = (~torch.isfinite(states).all(1)).nonzero()
    if len(wrong):
        raise ValueError(
            f"input {int(wrong[0])} has states that are not finite: lower the learning rate or "
            "look for the step where it began"
        )
