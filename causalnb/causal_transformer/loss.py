"""The Markov-blanket loss: Equation 3 as printed, a hinge for each node, and an augmented Lagrangian."""

import math
from collections.abc import Sequence
from numbers import Integral

import torch
from torch import Tensor, nn

from causalnb.parallel import shared_average
from causalnb.wrapping import is_number

from .measure import SELF_LOOPS, checked_map, excess, excess_bounds, no_loop, sinkhorn

PRINTED = "paper"
MODES = (PRINTED, "hinge", "auglag")
SIDES = ("low", "high")
NORMALISE = ("rows", "sinkhorn")
PRINTED_SLACK = (0.7045, 0.5062)  # eps'_max and eps''_max of Definition 2, in encoders
GAMMAS = {"paper": (1.0, 1.0, 1.0, 1.0), "hinge": (1.0, 1.0), "auglag": (0.0, 0.0)}
TOLERANCE = 1e-5  # of tau, for float32: a permutation lies exactly on the upper bound


def single(tensor: Tensor, before: Tensor | None = None) -> Tensor:
    """`tensor`, in float32 where it is of half precision; then with the values of `before`, if given."""
    if tensor.dtype not in (torch.bfloat16, torch.float16):
        return tensor
    return (tensor if before is None else before).to(tensor.device, torch.float32)


class MarkovBlanketLoss(nn.Module):
    """What keeps every node of an attention map at one or two neighbours: low <= tau rows + columns <= high.

    mode="hinge" is the mean over valid tokens and heads of relu(low - s) + relu(s - high), weighted by gammas
    (two, 1). "auglag" is the augmented Lagrangian of what must vanish, g = mean relu(c) for each side c:
    gamma g + rho / 2 mean relu(c)^2. Its multipliers gamma (2, heads) >= 0 start at gammas (0), are a buffer,
    and take a step of ascent after each call in training, gamma = min(gamma + rho g, gamma_max). (Without the
    relu, satisfied nodes would pay for violated ones.) They stay float32 at least, in a model of half
    precision too, which would lose small steps. "paper" is Equation 3 with gammas (four, 1) and slack
    (two, 0), summed over tokens: with gammas[2] = gammas[3] it has no gradient at all.

    self_loop as in `markov_blanket_bounds`. sides ("low", "high") names the constraints in force, of hinge
    and auglag. The sum of Equation 2 lets a node read any number of others, if one or two read it in return:
    a row of n equal weights (tau - n = 1.03 for 16) and a column of one (1.72) are within 2.59 and 3.44. With
    apart=True rows and columns keep to the bounds of one tau each, and what they miss adds up.

    normalise="sinkhorn" measures the doubly stochastic map of Definition 1 instead of the softmax map. Causal
    maps have a rule of their own, since the printed one has no solution there: the last token has no
    successor and the first has no choice. Rows keep the lower bound of one tau, columns the upper one, and
    the first token's row, which is forced, is no one's neighbour.

    Raises ValueError for unknown settings, multipliers that are no numbers from 0 on and settings that the
    mode does not have.
    """

    def __init__(
        self,
        mode: str = "hinge",
        gammas=None,
        self_loop: bool | str = False,
        sides=SIDES,
        apart: bool = False,
        normalise: str = "rows",
        slack=(0.0, 0.0),
        rho: float = 1.0,
        gamma_max: float = 10.0,
        heads: int = 1,
    ):
        super().__init__()
        choices = dict(
            mode=(mode, MODES), self_loop=(self_loop, SELF_LOOPS), normalise=(normalise, NORMALISE)
        )
        for name, (chosen, known) in choices.items():
            if chosen not in known:
                raise ValueError(f"{name} is {chosen!r}: choose among {', '.join(map(repr, known))}")
        if not sides or not set(sides) <= set(SIDES):
            raise ValueError(f"sides is {sides!r}: choose among 'low' and 'high'")
        if mode == PRINTED and set(sides) != set(SIDES):
            raise ValueError(f"sides is {sides!r}: Equation 3 has both, and gammas weigh them")
        if apart not in (False, True) or apart and mode == PRINTED:
            raise ValueError(f"apart is {apart!r}: choose False or True, and False in mode 'paper'")
        try:
            gammas = tuple(map(float, GAMMAS[mode] if gammas is None else gammas))
        except (TypeError, ValueError):
            raise ValueError(
                f"gammas is {gammas!r}: give {len(GAMMAS[mode])} numbers, as in {GAMMAS[mode]}"
            ) from None
        if len(gammas) != len(GAMMAS[mode]):
            raise ValueError(f"{len(gammas)} multipliers were given: mode {mode!r} has {len(GAMMAS[mode])}")
        if wrong := [gamma for gamma in gammas if not 0 <= gamma < math.inf]:
            raise ValueError(f"a multiplier is {wrong[0]}: choose finite gammas, 0 or more")
        if not (is_number(rho) and is_number(gamma_max) and 0 < rho < math.inf and gamma_max >= max(gammas)):
            raise ValueError(
                f"rho is {rho!r} and gamma_max {gamma_max!r}: choose a finite rho above 0 and "
                f"gamma_max of at least the multipliers' {max(gammas)}"
            )
        if not isinstance(slack, Sequence) or len(slack) != 2 or mode != PRINTED and any(slack):
            raise ValueError(f"slack is {slack!r}: give two numbers, in mode 'paper' alone")
        if isinstance(heads, bool) or not isinstance(heads, Integral) or heads < 1:
            raise ValueError(f"heads is {heads!r}: choose 1, for all heads together, or the map's number")
        self.mode, self.gammas, self.self_loop, self.normalise = mode, gammas, self_loop, normalise
        self.sides, self.slack, self.rho, self.gamma_max = tuple(sides), tuple(slack), rho, gamma_max
        self.apart = apart
        if mode == "auglag":
            self.heads = heads
            self.register_buffer("multipliers", self.start())

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """As in torch, in float32 at least."""
        super().register_buffer(name, tensor if tensor is None else single(tensor), persistent)

    def _apply(self, fn, recurse=True):
        before = getattr(self, "multipliers", None)
        super()._apply(fn, recurse)
        if before is not None:
            self.multipliers = single(self.multipliers, before)  # unprobed: the hinge keeps none
        return self

    def start(self) -> Tensor:
        """The multipliers (2, heads) where they start."""
        return torch.tensor(self.gammas)[:, None].repeat(1, self.heads)

    def extra_repr(self) -> str:
        """What print(model) shows of the settings."""
        return f"mode={self.mode!r}, self_loop={self.self_loop!r}, sides={self.sides!r}"

    def forward(self, attention: Tensor, valid: Tensor | None = None, causal: bool = False) -> Tensor:
        """The loss, a scalar, of maps (B, H, T, T); valid (B, T) as in `tau`, causal for masked maps.

        Raises ValueError as `tau`, and for Sinkhorn on a causal map.
        """
        self.check_causal(causal)
        if self.normalise == "sinkhorn":
            attention = sinkhorn(attention, valid)
        valid = checked_map(attention, valid)
        return self.of_excess(*excess(attention, valid), valid, causal)

    def check_causal(self, causal: bool) -> None:
        """Raise ValueError where Sinkhorn is asked for on a causal map."""
        if causal and self.normalise == "sinkhorn":
            raise ValueError(
                "normalise is 'sinkhorn' on a causal map, whose only doubly stochastic limit is "
                "the identity: choose 'rows'"
            )

    def of_excess(
        self,
        rows: Tensor,
        columns: Tensor,
        valid: Tensor | None = None,
        causal: bool = False,
        among: Tensor | None = None,
        multipliers: Tensor | None = None,
    ) -> Tensor:
        """The loss from tau - n by rows and columns (B, H, T), as `attention_with_excess` gives them.

        among (B, T): the nodes that count (None: the valid ones). multipliers (2, heads) take the place of
        the module's, which then keep where they are.
        """
        real = _real(rows, valid if among is None else among)
        if self.mode == PRINTED:
            return self._printed(rows + columns, real, causal)
        broken = self.violation(rows, columns, valid, causal)  # (2, B, H, T)
        if self.mode == "hinge":
            weights = broken.new_tensor(self.gammas)[:, None, None, None]
            return (weights * broken.relu() * real * self._in_force(broken)).sum() / shared_average(
                real.sum()
            )
        each = broken.relu() * real * self._in_force(broken)
        square, g = (each * broken).sum() / shared_average(real.sum()), self._by_side(each, real)
        if multipliers is None:
            multipliers = self.multipliers.clone()
            if self.training:
                self.ascend(shared_average(g))
        return (multipliers.to(g.device) * g).mean(1).sum() + self.rho / 2 * square

    def missed(
        self,
        rows: Tensor,
        columns: Tensor,
        valid: Tensor | None = None,
        causal: bool = False,
        among: Tensor | None = None,
    ) -> Tensor:
        """g (2, heads), the mean violation of each side, from what `of_excess` takes."""
        real = _real(rows, valid if among is None else among)
        broken = self.violation(rows, columns, valid, causal)
        return self._by_side(broken.relu() * real * self._in_force(broken), real)

    @torch.no_grad()
    def ascend(self, g: Tensor) -> None:
        """One step of the multipliers, gamma = min(gamma + rho g, gamma_max), for `missed`'s g (2, heads)."""
        self.multipliers.copy_((self.multipliers.to(g.device) + self.rho * g).clamp(max=self.gamma_max))

    def violation(
        self, rows: Tensor, columns: Tensor, valid: Tensor | None = None, causal: bool = False
    ) -> Tensor:
        """By how much nodes are below low and above high: (2, B, H, T), positive where a bound is broken."""
        low, high = excess_bounds(self.self_loop)
        if causal:
            first = torch.zeros_like(columns)
            start = 0 if valid is None else valid.int().argmax(1)
            first[torch.arange(len(first)), :, start] = excess_bounds()[1]
            return torch.stack([low - rows, columns - first - high])
        if self.apart:
            both = torch.stack([rows, columns])
            return torch.stack([(low - both).relu().sum(0), (both - high).relu().sum(0)])
        total = rows + columns
        return torch.stack([2 * low - total, total - 2 * high])

    def violated(
        self,
        rows: Tensor,
        columns: Tensor,
        valid: Tensor | None = None,
        causal: bool = False,
        among: Tensor | None = None,
    ) -> Tensor:
        """The share of nodes that break a bound, among as in `of_excess`; a scalar without gradient."""
        broken = self.violation(rows.detach(), columns.detach(), valid, causal)
        real = _real(rows, valid if among is None else among)
        any_side = ((broken > TOLERANCE) & (self._in_force(broken) > 0)).any(0)
        return (any_side * real).sum() / real.sum()

    def _in_force(self, like: Tensor) -> Tensor:
        return like.new_tensor([side in self.sides for side in SIDES])[:, None, None, None]

    def _printed(self, total: Tensor, real: Tensor, causal: bool) -> Tensor:
        """Equation 3: a sum over tokens, its mean over items and heads."""
        low, high = excess_bounds()
        most = PRINTED_SLACK if self.self_loop and not causal else (0.0, 0.0)
        (slack_low, slack_high), (g1, g2, g3, g4) = self.slack, self.gammas
        each = (
            g1 * (slack_low - most[0])
            + g2 * (slack_high - most[1])
            + g3 * (2 * low - total + 2 * slack_low)
            + g4 * (total - 2 * high + 2 * slack_high)
        )
        return (each * real).sum() / (len(total) * total.shape[1])

    def _by_side(self, each: Tensor, real: Tensor) -> Tensor:
        """g (2, heads) of the violations (2, B, H, T) of real nodes."""
        if self.heads not in (1, each.shape[2]):
            raise ValueError(
                f"the loss has multipliers of {self.heads} heads and the map has "
                f"{each.shape[2]}: build it with heads=1, or with the map's"
            )
        if self.heads == 1:
            return each.sum((1, 2, 3))[:, None] / shared_average(real.sum())  # unprobed: one a head
        return each.sum((1, 3)) / shared_average(real.sum((0, 2)))  # (2, H)


def _real(rows: Tensor, valid: Tensor | None) -> Tensor:
    """1 for valid nodes and 0 for padding, in the shape of rows (B, H, T)."""
    return torch.ones_like(rows) if valid is None else valid[:, None].to(rows.dtype).expand_as(rows)


def describe(
    attention: Tensor, valid: Tensor | None = None, self_loop: bool | str = False, causal: bool = False
) -> dict[str, float]:
    """What a map does, averaged over valid tokens and heads.

    violated: share of nodes outside the bounds; spread: mean of tau by rows + columns - 2n; entropy of rows
    in nats and neighbours = exp(entropy); column_min and column_max of column sums; self_weight; no_loop of
    the map without its diagonal. self_loop and causal as in MarkovBlanketLoss. Raises ValueError as `tau`.
    """
    attention = attention.detach().double()
    valid = checked_map(attention, valid)
    rows, columns = excess(attention, valid)
    kept = torch.ones_like(rows[:, :1], dtype=torch.bool) if valid is None else valid[:, None]  # (B, 1, T)
    kept = kept.expand_as(rows)
    inside = attention * kept[..., None] * kept[:, :, None]
    entropy = torch.special.entr(inside).sum(-1)[kept].mean().item()
    sums = inside.sum(-2)[kept]
    off = inside - inside.diagonal(dim1=-2, dim2=-1).diag_embed()
    return dict(
        violated=MarkovBlanketLoss(self_loop=self_loop).violated(rows, columns, valid, causal).item(),
        spread=(rows + columns)[kept].mean().item(),
        entropy=entropy,
        neighbours=math.exp(entropy),
        column_min=sums.min().item(),
        column_max=sums.max().item(),
        self_weight=inside.diagonal(dim1=-2, dim2=-1)[kept].mean().item(),
        no_loop=no_loop(off).mean().item(),
    )
