"""The Markov-blanket loss on any Hugging Face model, through the attention interface.

with markov_blanket_penalty(model, mode="hinge") as penalty:
    for inputs in batches:
        out = model(**inputs)
        (out.loss + 0.1 * penalty.loss()).backward()

with markov_blanket_penalty(model, weight=0.1) as penalty:  # the model's own loss has it, for a plain Trainer
    Trainer(model, arguments, train_dataset=rows, callbacks=[penalty.callback()]).train()
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from transformers import TrainerCallback
from transformers.loss.loss_utils import LOSS_MAPPING, ForCausalLMLoss

from causalnb.attention import Record, tap
from causalnb.parallel import part_of_step, shared_average
from causalnb.wrapping import check_finite

from .loss import MarkovBlanketLoss
from .measure import checked_valid, excess, sinkhorn


class MarkovBlanketPenalty:
    """What self-attention was measured at: (rows, columns, valid, causal) of each layer's latest pass.

    After `loss` was asked for, the next pass begins anew. With a weight, `add` puts it on the model's own
    loss.
    """

    def __init__(self, criterion: MarkovBlanketLoss, weight: float | None = None):
        self.criterion, self.weight = criterion, weight
        self._shares: dict[bool, list[Tensor]] = {True: [], False: []}  # of training and of evaluation
        self._latest, self._trains = {}, False
        self._asked, self._multipliers = False, None

    @property
    def measured(self) -> list[tuple]:
        """A tuple for each layer that ran."""
        return [*self._latest.values()]

    def loss(self) -> Tensor:
        """The mean of the loss over the layers that ran, a scalar; ValueError where none did.

        The multipliers of an augmented Lagrangian are the same for all layers. Where the model trains, they
        take one step for each pass, by the layers' mean violation, and a second call takes none.
        """
        seen = self._seen()
        if not self._asked and self.criterion.mode == "auglag":
            self._multipliers = self.criterion.multipliers.clone()
            if self._trains and self.criterion.training:
                missed = [self.criterion.missed(*one) for one in seen]  # unprobed: real bases have a hinge
                self.criterion.ascend(shared_average(torch.stack(missed).mean(0)))  # unprobed: the same
        self._asked = True
        return torch.stack(
            [self.criterion.of_excess(*one, multipliers=self._multipliers) for one in seen]
        ).mean()

    def violated(self) -> Tensor:
        """The share of nodes outside the bounds, without gradient; ValueError where no layer ran."""
        return torch.stack([self.criterion.violated(*one) for one in self._seen()]).mean()

    def add(self, model: nn.Module, arguments: tuple, keywords: dict, output):
        """Forward hook of the model: weight times the loss on its output's, where it has one."""
        if isinstance(output, tuple):
            raise ValueError("the model returned a tuple, whose loss cannot be added to: set return_dict")
        if model.training and torch.is_grad_enabled() and output.get("loss") is None:
            raise ValueError(
                "the model returned no loss to add to: give labels (a Trainer with label_smoothing_factor or "
                "compute_loss_func takes them out), or no weight, and add penalty.loss() yourself"
            )
        if output.get("loss") is not None:
            weight, counted = self.weight, keywords.get("num_items_in_batch")
            if counted is not None and keywords.get("labels") is not None and _counts_labels(model):
                weight = weight * part_of_step(keywords["labels"], counted)  # unprobed: runs have no Trainer
            output["loss"] = output["loss"] + weight * self.loss().to(output["loss"])
            self._shares[model.training].append(self.violated())
        return output

    def held(self, training: bool = True) -> float | None:
        """The mean share of nodes outside the bounds since this was last asked; None if nothing was added."""
        shares, self._shares[training] = self._shares[training], []
        return torch.stack(shares).mean().item() if shares else None

    def callback(self) -> TrainerCallback:
        """What puts `held` into a Trainer's log: violated beside loss, eval_violated beside eval_loss."""
        return _Held(self)

    def _seen(self) -> list[tuple]:
        if not self._latest:
            raise ValueError("no self-attention was measured: call the model within the context first")
        return self.measured

    def measure(self, record: Record) -> None:
        """Measure one call of an attention layer; ValueError for a cached pass and as MarkovBlanketLoss.

        A pass that generates one token, without gradient, is no such call: nothing is measured then.
        """
        batch, _, tokens, _ = record.query.shape
        if not torch.is_grad_enabled() and tokens == 1:
            self._latest, self._asked = {}, False  # unprobed: runs do not generate within
            return  # unprobed: the same
        if record.key.shape[2] != tokens:
            raise ValueError(
                f"layer {record.layer} has {tokens} queries and {record.key.shape[2]} keys: "
                "pass whole sentences, with use_cache=False and without past_key_values"
            )
        causal = _is_causal(record)
        self.criterion.check_causal(causal)
        if causal and _packed(record):
            raise ValueError("a row holds several texts, packed: pass each text as a row of its own")
        valid = checked_valid(_valid_of(record, causal), batch, tokens, "the attention mask")
        attention = record.attention()
        if self.criterion.normalise == "sinkhorn":
            attention = sinkhorn(attention, valid)
        if self._asked:
            self._latest, self._asked = {}, False
        self._latest[record.module] = (*excess(attention, valid), valid, causal)
        self._trains = record.module.training


class _Held(TrainerCallback):
    """Logs the share of nodes outside the bounds."""

    def __init__(self, penalty: MarkovBlanketPenalty):
        self.penalty = penalty

    def on_log(self, args, state, control, logs=None, **_):
        for training, beside, name in ((True, "loss", "violated"), (False, "eval_loss", "eval_violated")):
            if beside in logs and (share := self.penalty.held(training)) is not None:
                logs[name] = state.log_history[-1][name] = share


@contextmanager
def markov_blanket_penalty(
    model: nn.Module,
    layers: Iterable[int] | None = None,
    mode: str = "hinge",
    criterion: MarkovBlanketLoss | None = None,
    weight: float | None = None,
    **settings,
) -> Iterator[MarkovBlanketPenalty]:
    """Within this context every pass of `model` is measured; then penalty.loss() is the mean over layers.

    A whole training loop may run within one context: the loss is of the latest pass. With a weight >= 0 it is
    added, so often, to the loss that the model itself returns, which a plain Trainer then minimises (its
    eval_loss has it, too). Of accumulated batches a decoder's loss is the part that its labels have in the
    step (num_items_in_batch), and so is the penalty; a classifier's is a mean, and the penalty comes whole.

    layers: their numbers from 0 in each stack (None: all). mode and settings are those of
    MarkovBlanketLoss, or pass one as `criterion`: an augmented Lagrangian keeps its multipliers there from
    batch to batch. Which tokens are padding, and which maps causal, is read off the model's own masks. Maps
    are those of `causalnb.attention.tap`, so that the model runs as it does otherwise; they are formed and
    kept for the backward pass, so that memory grows with T^2. Raises ValueError as the tap and
    MarkovBlanketLoss do, and for settings beside a criterion, and for a weight that is negative or not
    finite.
    """
    if weight is not None:
        check_finite(weight=weight)
    if criterion is not None and (settings or mode != "hinge"):
        raise ValueError(f"mode {mode!r} and {settings} came with a criterion: give one or the other")
    penalty = MarkovBlanketPenalty(
        MarkovBlanketLoss(mode, **settings) if criterion is None else criterion, weight
    )
    with tap(model, penalty.measure, layers=layers, kinds=("self",)):
        hook = None if weight is None else model.register_forward_hook(penalty.add, with_kwargs=True)
        try:
            yield penalty
        finally:
            if hook is not None:
                hook.remove()


def _counts_labels(model: nn.Module) -> bool:
    """Whether a Hugging Face model's loss is a part of num_items_in_batch, as decoders' are, or a mean."""
    decodes = LOSS_MAPPING.get(getattr(model, "loss_type", None)) is ForCausalLMLoss
    return decodes and not getattr(model.config, "is_encoder_decoder", False)


def _packed(record: Record) -> bool:
    """Whether a causal row holds several texts, whose first tokens see themselves alone."""
    if record.mask is None:
        return False
    mask, valid = record.mask[:, 0], _valid_of(record, True)
    seen = mask if mask.dtype == torch.bool else mask > torch.finfo(mask.dtype).min / 2
    seen = seen.expand(len(record.query), -1, -1)
    first = (seen.sum(2) == 1) & seen.diagonal(dim1=1, dim2=2) & valid
    return bool((first.sum(1) > 1).any())


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
