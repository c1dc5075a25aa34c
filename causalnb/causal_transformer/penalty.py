"""The Markov-blanket loss on any Hugging Face model, through the attention interface.

    with markov_blanket_penalty(model, mode="hinge") as penalty:
        out = model(**inputs)
    loss = out.loss + 0.1 * penalty.loss()
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from causalnb.attention import Record, tap

from .loss import MarkovBlanketLoss
from .measure import checked_valid, excess, sinkhorn


class MarkovBlanketPenalty:
    """What self-attention was measured at: (rows, columns, valid, causal) for each call of a layer."""

    def __init__(self, criterion: MarkovBlanketLoss):
        self.criterion, self.measured = criterion, []

    def loss(self) -> Tensor:
        """The mean of the loss over the layers that ran, a scalar; ValueError where none did."""
        return torch.stack([self.criterion.of_excess(*one) for one in self._seen()]).mean()

    def violated(self) -> Tensor:
        """The share of nodes outside the bounds, without gradient; ValueError where no layer ran."""
        return torch.stack([self.criterion.violated(*one) for one in self._seen()]).mean()

    def _seen(self) -> list[tuple]:
        if not self.measured:
            raise ValueError("no self-attention was measured: call the model within the context first")
        return self.measured

    def measure(self, record: Record) -> None:
        """Measure one call of an attention layer; ValueError for a cached pass and as MarkovBlanketLoss."""
        batch, _, tokens, _ = record.query.shape
        if record.key.shape[2] != tokens:
            raise ValueError(f"layer {record.layer} has {tokens} queries and {record.key.shape[2]} keys: "
                             "pass whole sentences, with use_cache=False and without past_key_values")
        causal = _is_causal(record)
        self.criterion.check_causal(causal)
        valid = checked_valid(_valid_of(record, causal), batch, tokens, "the attention mask")
        attention = record.attention()
        if self.criterion.normalise == "sinkhorn":
            attention = sinkhorn(attention, valid)
        self.measured.append((*excess(attention, valid), valid, causal))


@contextmanager
def markov_blanket_penalty(model: nn.Module, layers: Iterable[int] | None = None, mode: str = "hinge",
                           criterion: MarkovBlanketLoss | None = None,
                           **settings) -> Iterator[MarkovBlanketPenalty]:
    """Within this context every pass of `model` is measured; then penalty.loss() is the mean over layers.

    layers: their numbers from 0 in each stack (None: all). mode and settings are those of MarkovBlanketLoss,
    or pass one as `criterion`: an augmented Lagrangian keeps its multipliers there from batch to batch. Which
    tokens are padding, and which maps causal, is read off the model's own masks. Maps are those of
    `causalnb.attention.tap`, so that the model runs as it does otherwise. Raises ValueError as the tap and
    MarkovBlanketLoss do, and for settings beside a criterion.
    """
    if criterion is not None and (settings or mode != "hinge"):
        raise ValueError(f"mode {mode!r} and {settings} came with a criterion: give one or the other")
    penalty = MarkovBlanketPenalty(MarkovBlanketLoss(mode, **settings) if criterion is None else criterion)
    with tap(model, penalty.measure, layers=layers, kinds=("self",)):
        yield penalty


def _is_causal(record: Record) -> bool:
    given = record.options.get("is_causal")
    return bool(getattr(record.module, "is_causal", True) if given is None else given)


def _valid_of(record: Record, causal: bool) -> Tensor | None:
    """Tokens (B, T) that are no padding, read off the mask (B, 1, T, T); None without one."""
    mask = record.mask
    if mask is None:
        return None
    seen = mask[:, 0] if mask.dtype == torch.bool else mask[:, 0] > torch.finfo(mask.dtype).min / 2
    seen = seen.expand(len(record.query), -1, -1)
    if not causal:
        return seen.any(1)
    own, ahead = seen.diagonal(dim1=1, dim2=2), seen.triu(1).any(2)  # empty rows may be shown all keys
    return own & ~ahead
