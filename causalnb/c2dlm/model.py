"""MaskedDiffusionModel: a Hugging Face decoder made bidirectional, its loss in forward, and its collator."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Self

import numpy as np
import torch
from torch import nn
from transformers import AutoConfig, PretrainedConfig
from transformers.utils import ModelOutput, can_return_tuple

from causalnb.attention import tap
from causalnb.wrapping import DecoderWrapper, base_configuration, is_number, unknown_keywords

from .diffusion import WEIGHTS, as_mask, logits_at, logits_there, loss_at_masked, mask_in_order, mask_tokens
from .forms import MASS_ATTENTION
from .graph import Supervision
from .reattention import ReattentionLoss, gamma_schedule

SCHEDULE = {"total_steps", "gamma_min", "gamma_max", "warmup"}


def beyond_window(config: PretrainedConfig, tokens: int) -> str:
    """What is wrong with texts of so many tokens where layers see a window alone, or ""."""
    window, kinds = getattr(config, "sliding_window", None), getattr(config, "layer_types", None)
    narrow = window is not None and (kinds is None or "sliding_attention" in kinds) and tokens > window
    return (
        f"texts of {tokens} tokens are longer than the window of {window} that layers of this base see, so "
        "causes outside it would have no attention to be drawn: give shorter texts, or set sliding_window to "
        "None and every one of layer_types to 'full_attention' in the base's configuration"
        if narrow
        else ""
    )


class MaskedDiffusionConfig(PretrainedConfig):
    """Settings of MaskedDiffusionModel: mask_token_id, weight "1/t" or "none", reattention as its settings().

    gamma >= 0 is constant, or the settings of `gamma_schedule` with total_steps counted in forward passes of
    training. Raises ValueError for a mask token outside the vocabulary and for settings out of range.
    """

    model_type = "masked_diffusion"
    sub_configs = {"base_config": AutoConfig}
    keys_to_ignore_at_inference = [
        "diffusion_loss",
        "reattention_loss",
        "ratio",
        "neg",
        "hinge",
        "satisfied",
        "gamma",
        "hidden_states",
        "attentions",
    ]

    def __init__(
        self,
        base_config=None,
        mask_token_id: int | None = None,
        weight: str = "1/t",
        reattention: dict | None = None,
        gamma: float | dict = 1.0,
        base_adapter: dict | None = None,
        **kwargs,
    ):
        base_config = base_configuration(base_config)
        if isinstance(mask_token_id, bool):
            raise ValueError(f"mask_token_id is {mask_token_id}: give the number of a token")
        mask_token_id = int(mask_token_id) if isinstance(mask_token_id, Integral) else mask_token_id
        self.base_config, self.mask_token_id, self.weight = base_config, mask_token_id, weight
        self.reattention, self.gamma, self.base_adapter = reattention, gamma, base_adapter
        self.check()
        super().__init__(**kwargs)

    def check(self) -> None:
        """Raise ValueError for a setting out of range."""
        if self.weight not in WEIGHTS:
            raise ValueError(f"weight is {self.weight!r}: choose '1/t' or 'none'")
        if self.base_config is not None and not (
            isinstance(self.mask_token_id, int) and 0 <= self.mask_token_id < self.base_config.vocab_size
        ):
            raise ValueError(
                f"mask_token_id is {self.mask_token_id}, outside the vocabulary of "
                f"{self.base_config.vocab_size}: add a mask token and resize the embeddings"
            )
        if isinstance(self.gamma, Mapping):
            if unknown := set(self.gamma) - SCHEDULE:
                raise ValueError(f"gamma has {sorted(unknown)[0]!r}: give {', '.join(sorted(SCHEDULE))}")
            if missing := SCHEDULE - {"warmup"} - set(self.gamma):
                raise ValueError(
                    f"gamma lacks {sorted(missing)[0]!r}: give gamma_max, gamma_min and total_steps"
                )
            gamma_schedule(0, **self.gamma)
        elif not is_number(self.gamma) or not 0 <= self.gamma < math.inf:
            raise ValueError(
                f"gamma is {self.gamma!r}: choose a finite one, 0 or more, or the settings of a schedule"
            )


@dataclass
class MaskedDiffusionOutput(ModelOutput):
    """loss = diffusion_loss + gamma * reattention_loss; logits (B, T, V), None in training with labels."""

    loss: torch.Tensor | None = None
    logits: torch.Tensor | None = None
    diffusion_loss: torch.Tensor | None = None
    reattention_loss: torch.Tensor | None = None
    ratio: torch.Tensor | None = None
    neg: torch.Tensor | None = None
    hinge: torch.Tensor | None = None
    satisfied: torch.Tensor | None = None
    gamma: float | None = None
    hidden_states: tuple[torch.Tensor, ...] | None = None
    attentions: tuple[torch.Tensor, ...] | None = None


class MaskedDiffusionModel(DecoderWrapper):
    """A decoder without its causal mask, whose logits stand at the positions they predict.

    The diffusion loss is a mean over rows, of whatever length: accumulated batches of as many rows train as
    one. The re-attention loss is a mean over a batch's guided tokens: in accumulated batches those of a batch
    that has few of them count for more than in one large batch. The buffer `passes` counts forward passes in
    training, for the schedule of gamma. Adapters of peft go on the decoder, before from_base wraps it.
    """

    config_class = MaskedDiffusionConfig
    _supports_sdpa = _supports_flash_attn = True
    _supports_flex_attn = False  # its masks are no tensors that the re-attention loss could read

    def __init__(self, config: MaskedDiffusionConfig, base_model: nn.Module | None = None):
        config.check()  # from_pretrained may have changed a setting
        super().__init__(config, base_model)

    def _connect(self, config: MaskedDiffusionConfig) -> None:
        self.base.config.is_causal = self.base.config.use_cache = False
        self.reattention = None if config.reattention is None else ReattentionLoss(**config.reattention)
        if self.reattention is not None and self.reattention.backend in ("mass", "auto"):
            self.base.set_attn_implementation(MASS_ATTENTION)
        self.register_buffer("passes", torch.zeros((), dtype=torch.int64))

    @classmethod
    def from_base(
        cls, base_model: nn.Module, mask_token_id: int, reattention: ReattentionLoss | None = None, **settings
    ) -> Self:
        """As DecoderWrapper.from_base.

        Raises ValueError for a decoder that stays causal or runs under flex attention, too.
        """
        if base_model.config._attn_implementation == "flex_attention":
            raise ValueError(
                "the decoder runs under flex attention, whose masks are no tensors: call "
                "decoder.set_attn_implementation('sdpa')"
            )
        kept = None if reattention is None else reattention.settings()
        model = cls._wrapped(base_model, settings, mask_token_id=mask_token_id, reattention=kept)
        model.passes = model.passes.to(next(model.base.parameters()).device)
        model.training = model.base.training
        model._require_bidirectional()
        return model

    def _require_bidirectional(self) -> None:
        """Raise ValueError where the first of two tokens does not see the second."""
        device = next(self.base.parameters()).device
        if device.type == "meta":
            return
        modes = {module: module.training for module in self.base.modules()}
        try:
            with torch.no_grad(), tap(self.base.eval()) as records:
                self.base(input_ids=torch.zeros(1, 2, dtype=torch.long, device=device))
        finally:
            for module, training in modes.items():
                module.training = training
        for record in records:
            mask = record.mask
            entry = None if mask is None else mask[0, 0, 0, 1]
            seen = entry is not None and bool(entry if entry.dtype == torch.bool else entry == 0)
            if not seen and not (mask is None and record.options.get("is_causal") is False):
                raise ValueError(
                    f"layer {record.layer} of {type(self.base).__name__} stays causal with "
                    "config.is_causal=False: choose another decoder"
                )

    def resize_token_embeddings(self, new_num_tokens: int | None = None, *arguments, **keywords) -> nn.Module:
        """As in transformers; ValueError for a size that cuts off the mask token."""
        if new_num_tokens is not None and new_num_tokens <= self.config.mask_token_id:
            raise ValueError(
                f"{new_num_tokens} tokens leave out the mask, token {self.config.mask_token_id}: choose more"
            )
        return super().resize_token_embeddings(new_num_tokens, *arguments, **keywords)

    def gamma(self) -> float:
        """The weight of the re-attention loss at the present count of training passes."""
        if not isinstance(self.config.gamma, Mapping):
            return float(self.config.gamma)
        settings = self.config.gamma
        return gamma_schedule(min(int(self.passes), settings["total_steps"]), **settings)

    @can_return_tuple
    def forward(
        self,
        input_ids,
        labels=None,
        masked=None,
        p=None,
        prompt_mask=None,
        supervision=None,
        attention_mask=None,
        visible=None,
        draw=None,
        rank=None,
        **kwargs,
    ) -> MaskedDiffusionOutput:
        """Logits (B, T, V), and with labels (clean ids) the loss of noised input_ids, as the collator gives.

        In training with labels logits are made at masked positions alone, and not returned. masked and
        prompt_mask are (B, T), p (B,); supervision as Supervision.stack gives it; attention_mask (B, T), 0 on
        padding, or True (B, 1, T, T) where a query sees a key. visible, draw and rank are columns of rows,
        named so that a Trainer hands them to the collator. Raises ValueError for one of these, for labels
        without masked, p and prompt_mask, for labels of another shape, for supervision without labels or with
        a mask of queries and keys, and for keywords that the base does not know.
        """
        if not (visible is draw is rank is None):
            raise ValueError("visible, draw and rank are for the collator: pass the batch that it returns")
        if unknown_keywords(self, kwargs):
            raise ValueError(unknown_keywords(self, kwargs))
        if beyond_window(self.base.config, input_ids.shape[1]):
            raise ValueError(beyond_window(self.base.config, input_ids.shape[1]))
        if attention_mask is not None and attention_mask.dim() == 4 and attention_mask.dtype == torch.bool:
            hidden = torch.finfo(self.base.dtype).min  # eager attention adds its mask
            attention_mask = attention_mask.logical_not().to(self.base.dtype) * hidden
        if labels is None:
            if supervision is not None or masked is not None:
                raise ValueError(
                    "supervision or masked came without labels (which a Trainer with label_smoothing_factor "
                    "or compute_loss_func takes out): pass both, as MaskedDiffusionCollator does"
                )
            out = self.base(input_ids=input_ids, attention_mask=attention_mask, **kwargs)
            return MaskedDiffusionOutput(logits=out.logits, **_states(out))
        if masked is None or p is None or prompt_mask is None:
            raise ValueError(
                "labels came without masked, p and prompt_mask: let MaskedDiffusionCollator noise rows"
            )
        if not labels.shape == masked.shape == input_ids.shape or p.shape != input_ids.shape[:1]:
            shapes = [tuple(part.shape) for part in (labels, masked, p, input_ids)]
            raise ValueError(
                "labels {}, masked {} and p {} do not fit input_ids {}: pass what one call of "
                "the collator returned".format(*shapes)
            )
        given = dict(input_ids=input_ids, attention_mask=attention_mask, **kwargs)
        reattention = None
        if supervision is None or self.reattention is None:
            out, logits = self._run(masked, given)
            if self.reattention is not None:  # unprobed: guided runs guide every batch
                self.reattention.sit_out(labels.device)  # unprobed: the same, and runs have one process
        else:
            if attention_mask is not None and attention_mask.dim() != 2:
                raise ValueError(
                    f"supervision came with an attention_mask of shape {tuple(attention_mask.shape)}: the "
                    "graph guides attention or is enforced, so pass one of them"
                )
            if attention_mask is not None:
                supervision = {**supervision, "ignore": supervision["ignore"] | ~attention_mask.bool()}
            with self.reattention.watch(self.base, supervision) as watch:
                out, logits = self._run(masked, given | watch.extra)
            reattention = watch.loss()
        diffusion = loss_at_masked(logits, labels, masked, p, prompt_mask, self.config.weight)
        whole = None if self.training else out.logits
        gamma = self.gamma()
        if self.training and torch.is_grad_enabled():
            self.passes += 1
        if reattention is None:
            return MaskedDiffusionOutput(diffusion, whole, diffusion.detach(), **_states(out))
        loss = diffusion + gamma * reattention.loss.to(diffusion.dtype)
        return MaskedDiffusionOutput(
            loss,
            whole,
            diffusion.detach(),
            reattention.loss.detach(),
            reattention.ratio,
            reattention.neg,
            reattention.hinge,
            reattention.satisfied,
            torch.tensor(gamma, device=loss.device),
            **_states(out),
        )

    def _run(self, masked, given):
        """The base's output, and its logits (n, V) at masked positions, in the order of masked.nonzero()."""
        if not self.training:
            out = self.base(**given)  # unprobed: runs train by this loss, and score what is sampled
            return out, out.logits[masked.bool()]  # unprobed: the same
        places = masked.bool()
        with logits_at(self.base, (places,)):
            out = self.base(**given)
        return out, logits_there(out.logits, places)

    def generate(self, *arguments, **keywords):
        """Raises TypeError: this model fills masks in any order."""
        raise TypeError(
            "a masked diffusion model does not generate from left to right: call "
            "causalnb.c2dlm.sample(model, prompt_ids, gen_length, block_length, steps)"
        )


def _states(out) -> dict:
    """What output_hidden_states and output_attentions ask of the base, None where they do not."""
    return {name: getattr(out, name, None) for name in ("hidden_states", "attentions")}


class NumberedRows(Sequence):
    """rows[order[i]] for i = 0, 1, ..., each with draw=i, from which the collator draws its noise.

    So the noise of a training step does not depend on what ran before it, and a resumed run is the same run.
    One pass is the whole training: gone through again, every row gets the noise it had, so let `order` name a
    row once for each epoch.
    """

    def __init__(self, rows: Sequence[Mapping], order: Sequence[int]):
        self.rows, self.order = rows, order

    def __len__(self) -> int:
        return len(self.order)

    def __getitem__(self, number: int) -> dict:
        if not 0 <= number < len(self):
            raise IndexError(f"row {number} of {len(self)}")
        return {**self.rows[int(self.order[number])], "draw": number}


@dataclass
class MaskedDiffusionCollator:
    """Noised batch of rows with input_ids, prompt_mask and, where given, supervision (object, lists or None).

    Rows are padded with eos_token_id to the longest (or to max_length); padding is an ordinary target, and
    ignored as a key by the re-attention loss. Rows that carry a number `draw` get noise that is a function
    of (seed, draw); others take torch's, so that two evaluations of them differ in loss. With in_order the
    noise is `mask_in_order`, by each row's rank (T,), whole numbers. Of rows with `visible` (T, T), as
    Supervision.visible gives it, a share `enforced` is read under it as a hard mask: attention_mask (B, 1,
    T, T), in which padding is seen and sees; which rows is drawn as their noise is. Returns input_ids,
    labels, masked, p, prompt_mask and, where any row has it, supervision and attention_mask.
    Raises ValueError for rows longer than max_length, without a response, or without the rank that is asked
    for, for supervision or `visible` of another length, where some rows alone have a draw, and for a share
    outside [0, 1].
    """

    mask_token_id: int
    eos_token_id: int
    eps: float = 1e-3
    seed: int = 0
    max_length: int | None = None
    in_order: bool = False
    enforced: float = 1.0

    def __post_init__(self):
        if not 0 <= self.enforced <= 1:
            raise ValueError(f"enforced is {self.enforced}: give the share of rows under the mask, 0 to 1")

    def __call__(self, rows: Sequence[Mapping]) -> dict:
        """The noised batch of rows: tensors (B, T), by the names that `forward` takes."""
        lengths = [len(row["input_ids"]) for row in rows]
        tokens = self.max_length or max(lengths)
        if max(lengths) > tokens:
            raise ValueError(
                f"a row has {max(lengths)} tokens, more than max_length {tokens}: raise it or cut rows"
            )
        for row, length in zip(rows, lengths, strict=False):
            if len(row["prompt_mask"]) != length:
                raise ValueError(
                    f"a row has {length} input_ids and {len(row['prompt_mask'])} entries of "
                    "prompt_mask: give one for each token"
                )
        supervised = [
            None if row.get("supervision") is None else Supervision.of(row["supervision"]) for row in rows
        ]
        supervised = [self._to_the_end(one, row) for one, row in zip(supervised, rows, strict=True)]
        labels = self._padded([row["input_ids"] for row in rows], self.eos_token_id, tokens)
        prompt = as_mask(self._padded([row["prompt_mask"] for row in rows], 0.0, tokens), "prompt_mask")
        noised, masked, p = self._noise(rows, labels, prompt)
        batch = dict(input_ids=noised, labels=labels, masked=masked, p=p, prompt_mask=prompt)
        if any(one is not None for one in supervised):
            batch["supervision"] = Supervision.stack(supervised, tokens)
        if any(row.get("visible") is not None for row in rows):
            batch["attention_mask"] = self._visible(rows, tokens)
        return batch

    def _to_the_end(self, supervised: Supervision | None, row: Mapping) -> Supervision | None:
        """A row's supervision, which may have been made before its end tokens were added."""
        if supervised is None:
            return None
        ids, known = [*row["input_ids"]], len(supervised.concept)
        if known > len(ids) or any(token != self.eos_token_id for token in ids[known:]):
            raise ValueError(
                f"a row has {len(ids)} input_ids and supervision of {known} tokens: take it from this very "
                "text"
            )
        return supervised.extended(len(ids))

    def _visible(self, rows, tokens: int) -> torch.Tensor:
        """True (B, 1, T, T) where a query sees a key; everything, in rows without `visible`."""
        whole = torch.ones(len(rows), 1, tokens, tokens, dtype=torch.bool)
        for sheet, row in zip(whole[:, 0], rows, strict=True):
            if row.get("visible") is not None:
                seen, length = torch.as_tensor(row["visible"], dtype=torch.bool), len(row["input_ids"])
                if seen.shape != (length, length):
                    raise ValueError(
                        f"a row has {length} input_ids and visible of shape {tuple(seen.shape)}: give "
                        "(tokens, tokens)"
                    )
                if self._enforces(row):
                    sheet[:length, :length] = seen
        return whole

    def _enforces(self, row) -> bool:
        if self.enforced in (0, 1):
            return bool(self.enforced)
        if row.get("draw") is None:
            return bool(torch.rand(()) < self.enforced)
        return np.random.default_rng((self.seed, row["draw"], 1)).random() < self.enforced

    def _noise(self, rows, labels, prompt):
        draws = [row.get("draw") for row in rows]
        if None in draws and any(draw is not None for draw in draws):
            raise ValueError(
                f"row {draws.index(None)} has no draw and others have: number all rows, as "
                "NumberedRows does, or none"
            )
        generators = None
        if None not in draws:
            seeds = [int(np.random.SeedSequence((self.seed, draw)).generate_state(1)[0]) for draw in draws]
            generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        if self.in_order:
            ranks = self._ranks(rows, labels)
            return mask_in_order(labels, prompt, self.mask_token_id, ranks, generators)
        return mask_tokens(labels, prompt, self.mask_token_id, eps=self.eps, generator=generators)

    def _ranks(self, rows, labels) -> torch.Tensor:
        for number, row in enumerate(rows):
            if row.get("rank") is None or len(row["rank"]) != len(row["input_ids"]):
                raise ValueError(
                    f"row {number} has no rank for each of its {len(row['input_ids'])} tokens: "
                    "give ranks, or choose in_order=False"
                )
            if torch.as_tensor(row["rank"]).is_floating_point():
                raise ValueError(
                    f"row {number} has ranks that are no whole numbers: number its tokens 0, 1, 2, ..."
                )
        last = max(max(row["rank"]) for row in rows) + 1  # padding comes last
        return self._padded([row["rank"] for row in rows], last, labels.shape[1])

    @staticmethod
    def _padded(values, fill, tokens) -> torch.Tensor:
        whole = torch.full((len(values), tokens), fill)
        for line, value in zip(whole, values, strict=False):
            line[: len(value)] = torch.as_tensor(value)
        return whole
