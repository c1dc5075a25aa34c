"""What a model can do that is told which training pairs are counter-examples: reweighting, GroupDRO, IRM.

The control of whatever is to free a model from a shortcut. Attention is left as it is; the loss is another
mean over the pairs of a batch. Groups are the labels, parted by whether the shortcut is right; environments
are parts in which it is right more or less often. None of it is the source's.
"""

from math import log

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForSequenceClassification, initialization
from transformers.utils import can_return_tuple

from causalnb.wrapping import check_counts, check_finite

from .invariance import InvariantConfig, InvariantForSequenceClassification
from .loss import single
from .model import CausalTransformerOutput, no_classes, wide

OBJECTIVES = ("mean", "dro", "irm")


def part_means(values: Tensor, parts: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Means (G,) of values (B,) over the rows of each part, parts (B,) in 0 .. G - 1; and how many rows (G,).

    0 for a part without rows.
    """
    rows = torch.bincount(parts, minlength=count)
    sums = values.new_zeros(count).index_add(0, parts, values)
    return sums / rows.clamp(min=1), rows


def ascended(log_weights: Tensor, losses: Tensor, step: float) -> Tensor:
    """log of q_g exp(eta l_g) / sum_h q_h exp(eta l_h), from log q and losses l (G,), eta = step >= 0.

    The ascent on q of GroupDRO's Algorithm 1 (Sagawa et al. 2020); in logarithms no weight is lost for good.
    """
    return (log_weights + step * losses).log_softmax(-1)


def slopes(logits: Tensor, labels: Tensor) -> Tensor:
    """d CE(w f_i, y_i) / dw at w = 1, of every row (B,): E_p[f_i] - f_i[y_i] with p = softmax(f_i)."""
    return (logits.softmax(-1) * logits).sum(-1) - logits.gather(-1, labels[:, None])[:, 0]


def irm_penalty(
    logits: Tensor, labels: Tensor, environments: Tensor, count: int, halves: bool = False
) -> Tensor:
    """Mean over the environments e that have rows of (dR_e(w f) / dw at w = 1)^2, the penalty of IRMv1.

    logits (B, C), labels and environments (B,), the last in 0 .. count - 1; R_e is the mean cross-entropy
    (Arjovsky et al. 2019). `halves`: the product of the slopes of every other row and of the others instead
    of the square, without bias in small batches and at times below 0; of environments with two rows or more.
    0 where there is no environment to measure.
    """
    each = slopes(logits, labels)
    if not halves:
        means, rows = part_means(each, environments, count)
        found, measured = means.square(), rows > 0
    else:
        turn = F.one_hot(environments, count).cumsum(0).gather(1, environments[:, None])[:, 0] % 2  # (B,)
        means, rows = part_means(each, 2 * environments + turn, 2 * count)
        found, measured = means.view(count, 2).prod(1), rows.view(count, 2).amin(1) > 0
    return (found * measured).sum() / measured.sum().clamp(min=1)


class GroupedConfig(InvariantConfig):
    """Settings of an invariant Transformer, and of what its training is told of groups and environments.

    objective: "mean", over the rows; "dro", of the groups, weighed by how badly each does, with step >= 0;
    "irm", of the environments, and a penalty whose weight is 1, and penalty_weight >= 0 after penalty_from
    training passes. groups, environments: how many there are. Raises ValueError as InvariantConfig, for an
    objective that is none, numbers that cannot be, and for a loss on attention or interchanged words beside.
    """

    model_type = "causal_transformer_grouped"

    def __init__(
        self,
        objective: str = "mean",
        groups: int = 2,
        environments: int = 2,
        step: float = 0.01,
        penalty_weight: float = 10.0,
        penalty_from: int = 0,
        parents: int | None = None,
        interchanged: bool = False,
        **kwargs,
    ):
        if objective not in OBJECTIVES:
            raise ValueError(f"objective is {objective!r}: choose among {', '.join(map(repr, OBJECTIVES))}")
        check_counts(1, groups=groups, environments=environments)
        check_counts(0, penalty_from=penalty_from)
        check_finite(step=step, penalty_weight=penalty_weight)
        self.objective, self.groups, self.environments = objective, groups, environments
        self.step, self.penalty_weight, self.penalty_from = step, penalty_weight, penalty_from
        super().__init__(parents=parents, interchanged=interchanged, **kwargs)
        if self.blanket != "none" or self.causal_weight != 0 or self.interchanged:
            raise ValueError(
                f"blanket is {self.blanket!r}, causal_weight {self.causal_weight} and interchanged "
                f"{self.interchanged}: choose 'none', 0 and False, so that one loss is measured"
            )


class GroupedForSequenceClassification(InvariantForSequenceClassification):
    """An invariant Transformer whose training is told the group and the environment of each pair.

    With l_g, R_e the mean losses of a batch's groups and environments: "mean" is the plain mean over rows;
    "dro" is sum_g q_g l_g after the step of `ascended`; "irm" is (mean_e R_e + w P) / max(1, w) with P of
    `irm_penalty` by halves, divided as in Arjovsky et al.'s program. The buffer `log_weights` (G,) is log q,
    in float32 at least.
    """

    config_class = GroupedConfig

    def _build(self, *stacks: str) -> None:
        self.register_buffer("log_weights", torch.full((self.config.groups,), -log(self.config.groups)))
        super()._build(*stacks)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """As in torch, in float32 at least, since log_weights take small steps."""
        super().register_buffer(name, tensor if tensor is None else single(tensor), persistent)

    def _apply(self, fn, recurse=True):
        before = self.log_weights
        super()._apply(fn, recurse)
        self.log_weights = single(self.log_weights, before)
        return self

    @torch.no_grad()
    def _init_weights(self, module: nn.Module):
        super()._init_weights(module)
        if module is self:
            initialization.constant_(self.log_weights, -log(self.config.groups))

    def penalty_weight(self) -> float:
        """The weight of IRM's penalty at the present count of training passes."""
        return self.config.penalty_weight if int(self.passes) >= self.config.penalty_from else 1.0

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        groups: Tensor | None = None,
        environments: Tensor | None = None,
        output_attentions: bool = False,
        **kwargs,
    ) -> CausalTransformerOutput:
        """Logits (B, num_labels); with labels (B,) the loss, in evaluation the plain mean over rows.

        In training "dro" needs groups (B,), and "irm" environments (B,); causal_loss is then IRM's penalty.
        Raises ValueError as InvariantForSequenceClassification, and where these are missing or out of range.
        """
        given = dict(output_attentions=output_attentions, return_dict=True)
        out = super().forward(input_ids, attention_mask, token_type_ids, None, **given, **kwargs)
        if labels is None:
            return out
        if no_classes(labels, self.config):
            raise ValueError(no_classes(labels, self.config))
        if (labels < 0).any():
            raise ValueError(f"a label is {int(labels.min())}: every row counts in its group, so label all")
        each = F.cross_entropy(
            wide(out.logits), labels, reduction="none", label_smoothing=self.config.label_smoothing
        )
        out.loss = each.mean()
        if self.training and self.config.objective == "dro":
            out.loss = self._worst(each, self._told("groups", groups, labels))
        if self.training and self.config.objective == "irm":
            told = self._told("environments", environments, labels)
            out.loss, out.causal_loss = self._invariant(each, wide(out.logits), labels, told)
        out.task_loss = each.mean().detach()
        if self.training:
            self.passes += 1
        return out

    def _told(self, name: str, parts: Tensor | None, labels: Tensor) -> Tensor:
        """The groups or environments of a batch, in range."""
        count = getattr(self.config, name)
        if parts is None or parts.shape != labels.shape:
            got = "missing" if parts is None else tuple(parts.shape)
            raise ValueError(f"{name} are {got}: give one number for each of {len(labels)} pairs")
        if parts.numel() and not 0 <= int(parts.min()) <= int(parts.max()) < count:
            raise ValueError(
                f"{name} are from {int(parts.min())} to {int(parts.max())}: number them from 0 to {count - 1}"
            )
        return parts

    def _worst(self, each: Tensor, groups: Tensor) -> Tensor:
        """sum_g q_g l_g of GroupDRO's Algorithm 1, after its step on q; a group without rows has l_g = 0."""
        means, _ = part_means(each, groups, self.config.groups)
        with torch.no_grad():
            self.log_weights.copy_(ascended(self.log_weights, means, self.config.step))
        return (self.log_weights.exp() * means).sum()

    def _invariant(
        self, each: Tensor, logits: Tensor, labels: Tensor, environments: Tensor
    ) -> tuple[Tensor, Tensor]:
        """(mean_e R_e + w P) / max(1, w) over the environments that have rows, and P."""
        count, weight = self.config.environments, self.penalty_weight()
        means, rows = part_means(each, environments, count)
        penalty = irm_penalty(logits, labels, environments, count, halves=True)
        risk = means.sum() / (rows > 0).sum()
        return (risk + weight * penalty) / max(1.0, weight), penalty.detach()


AutoConfig.register(GroupedConfig.model_type, GroupedConfig)
AutoModelForSequenceClassification.register(GroupedConfig, GroupedForSequenceClassification)
