"""V-aware re-attention: the loss that draws weighted attention to causes, and the schedule of its weight."""

import math
from collections.abc import Iterable, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from numbers import Integral

import torch
from torch import Tensor

from causalnb.attention import Record, tap
from causalnb.parallel import shared_average
from causalnb.wrapping import check_counts, is_number

from .forms import MASS_ATTENTION, ConceptMass, RowLossSum, Rows, choose_form, map_of, mask_lines
from .graph import STEP_RULES, with_steps
from .weighted import (
    NORM_INDICES,
    Counts,
    Parts,
    check_weights,
    norms_of,
    ratio_of,
    row_loss,
    value_weighted_attention,
)

BACKENDS = ("eager", "rows", "mass", "auto")  # three equal forms, and whichever of the last two is faster
DROPOUTS = ("attention_dropout", "attn_pdrop", "attention_probs_dropout_prob")  # of attention, in a config


@dataclass
class ReattentionOutput:
    """loss, the mean row loss over the valid rows; its parts, and the share of rows that meet alpha."""

    loss: Tensor
    ratio: Tensor
    neg: Tensor
    hinge: Tensor
    satisfied: Tensor
    rows: Tensor


class ReattentionLoss:
    """Mean over valid rows of ratio + lam sum A^2 (section 3.2), A averaged over heads, then over `layers`.

    alpha > 0 and lam >= 0; layers "all" or numbers from 0; norm_index "key", "query_as_printed" or "none";
    step_rule as in `with_steps`. over_layers="loss" averages the layers' losses instead of their maps;
    detach_norm keeps the loss from changing norms, norm_scale="mean1" divides them by their mean in each
    head, over the keys that are not ignored. backend: "eager" keeps whole maps; "rows" recomputes supervised
    rows in chunks; "mass" reads the ratio from one attention call with columns added to the values, which
    must have no dropout, and takes the penalised entries by rows; "auto" chooses between the two. Raises
    ValueError for settings out of range.
    """

    def __init__(
        self,
        alpha: float,
        lam: float,
        layers: str | Sequence[int] = "all",
        norm_index: str = "key",
        step_rule: str = "no_lookahead",
        backend: str = "rows",
        over_layers: str = "map",
        detach_norm: bool = False,
        norm_scale: str = "raw",
        chunk_rows: int | None = None,
    ):
        check_weights(alpha, lam)
        choices = dict(
            norm_index=(norm_index, NORM_INDICES),
            backend=(backend, BACKENDS),
            step_rule=(step_rule, STEP_RULES),
            over_layers=(over_layers, ("map", "loss")),
            norm_scale=(norm_scale, ("raw", "mean1")),
        )
        for name, (chosen, known) in choices.items():
            if chosen not in known:
                raise ValueError(f"{name} is {chosen!r}: choose among {', '.join(known)}")
        if not isinstance(layers, Iterable):
            raise ValueError(f"layers is {layers!r}: choose 'all' or a list of layer numbers")
        layers = layers if isinstance(layers, str) else [*layers]
        if layers != "all" and not (layers and all(isinstance(number, Integral) for number in layers)):
            raise ValueError(f"layers is {layers!r}: choose 'all' or a list of layer numbers")
        if chunk_rows is not None:
            check_counts(1, chunk_rows=chunk_rows)
        self.alpha, self.lam, self.backend = float(alpha), float(lam), backend
        self.layers = layers if layers == "all" else sorted({int(number) for number in layers})
        self.norm_index, self.step_rule, self.over_layers = norm_index, step_rule, over_layers
        self.detach_norm, self.norm_scale, self.chunk_rows = detach_norm, norm_scale, chunk_rows

    def settings(self) -> dict:
        """The arguments that build this loss again."""
        return dict(vars(self))

    @contextmanager
    def watch(self, model, supervision: dict[str, Tensor]):
        """Yields a Form: call model(..., **form.extra) within it, then form.loss() once.

        supervision as Supervision.stack gives it. The forms "mass" and "auto" need the attention
        implementation MASS_ATTENTION; a model under gradient checkpointing needs use_reentrant=False.
        """
        counted = self._count(supervision)
        form = FORMS[self._form(counted, model)](self, counted)
        layers = None if self.layers == "all" else self.layers
        listening = partial(tap, model, form.records.append, layers=layers)
        with listening():  # refuses missing layers in every form
            pass
        with listening() if form.listens else nullcontext():
            yield form

    @staticmethod
    def sit_out(device: torch.device) -> None:
        """Count no rows in a process whose batch has no graph: in theirs the others wait for its count."""
        shared_average(torch.zeros((), dtype=torch.int64, device=device))

    def _form(self, counted: Counts, model) -> str:
        if self.backend == "mass" or self.backend == "auto":
            if model.config._attn_implementation != MASS_ATTENTION:
                raise ValueError(
                    f"backend {self.backend!r} needs another attention than "
                    f"{model.config._attn_implementation!r}: call "
                    f"model.set_attn_implementation({MASS_ATTENTION!r})"
                )
        if self.backend != "auto":
            return self.backend
        dropped = model.training and any(getattr(model.config, name, None) for name in DROPOUTS)
        return "rows" if dropped or counted.penalised(self.lam) else choose_form(*counted.sizes())

    def __call__(self, records: Sequence[Record], supervision: dict[str, Tensor]) -> ReattentionOutput:
        """The loss of recorded layers, "eager" or else by rows; supervision as Supervision.stack gives it."""
        form = FORMS["eager" if self.backend == "eager" else "rows"](self, self._count(supervision))
        if not records:
            raise ValueError("no attention was recorded: pass the records of a tap on the model")
        form.records += records
        return form.loss()

    def _count(self, supervision) -> Counts:
        relation = with_steps(supervision["relation"], supervision["step"], self.step_rule)
        return Counts(supervision["concept"], relation, supervision["ignore"], supervision["rows"])


class Form:
    """One of the loss's equal forms: what a forward pass leaves for it, and sums of row losses from that.

    extra: keywords for the model's forward; listens: whether the loss needs the records of its attention.
    """

    listens = True

    def __init__(self, settings: ReattentionLoss, counted: Counts):
        self.settings, self.counted = settings, counted
        self.records: list[Record] = []
        self.extra: dict = {}

    def of(self, records: list[Record]) -> Parts:
        """Sums over the valid rows of the mean of some layers' maps."""
        raise NotImplementedError

    def sums(self) -> list[Parts]:
        """What `of` gives for all layers together, or for each of them."""
        return [self.of(group) for group in self._grouped(self.records)]

    def loss(self) -> ReattentionOutput:
        """The loss; ValueError when the attention did not reach it."""
        rows, means = self.counted.valid.sum(), []
        shared = shared_average(rows)
        for sums in self.sums():
            averages = (part / torch.where(shared > 0, shared, 1) for part in sums[:4])
            means.append((*averages, sums.satisfied / sums.has_ratio.clamp(min=1)))
        if not means:
            raise ValueError(
                "the attention handed nothing to the loss: its layers take no keywords; choose backend='rows'"
            )
        loss, *others = (torch.stack(part).mean(0) for part in zip(*means, strict=True))
        return ReattentionOutput(loss, *(part.detach() for part in others), rows)

    def _grouped(self, layers: list) -> list[list]:
        return [layers] if layers and self.settings.over_layers == "map" else [[layer] for layer in layers]

    def _norm(self, record: Record) -> Tensor:
        chosen = self.settings
        given = chosen.norm_index, chosen.detach_norm, chosen.norm_scale, self.counted.ignore
        return norms_of(record.value, *given)


class EagerForm(Form):
    """Whole maps, row by row as section 3.2 has them."""

    def of(self, records):
        """Sums over the valid rows, from maps (B, T, T) that are kept for the backward pass."""
        index = "key" if self.settings.norm_index == "none" else self.settings.norm_index
        maps = [
            value_weighted_attention(map_of(record), self._norm(record)[..., None], index)
            for record in records
        ]
        weighted = torch.stack(maps).mean(0)  # (B, T, T)
        found = row_loss(weighted, self.counted.mask(), self.settings.alpha, self.settings.lam)
        return found.parts().summed(self.counted.valid, weighted.dtype)


class RowsForm(Form):
    """Supervised rows alone, recomputed in chunks."""

    def of(self, records, ratio: bool = True):
        """Sums over the valid rows; without ratio, over the penalised ones and of their penalty alone."""
        wanted = self.counted.valid if ratio else self.counted.has_neg
        most = int(wanted.sum(1).max())
        return self._summed(records, wanted, most, ratio) if most else self._nothing(records[0].query)

    @staticmethod
    def _nothing(query: Tensor) -> Parts:
        return Parts(*query[:0].sum().float() * query.new_zeros(6))

    def _summed(self, records, wanted: Tensor, most: int, ratio: bool) -> Parts:
        """The sums over rows wanted (B, T), of which no item has more than `most`."""
        counted, by_query = self.counted, self.settings.norm_index == "query_as_printed"
        place = wanted.int().argsort(dim=1, descending=True, stable=True)[:, :most]  # (B, R)
        real = wanted.gather(1, place)
        queries, keys, norms, allowed = [], [], [], []
        for record in records:
            batch, heads, tokens, width = record.query.shape
            groups = record.key.shape[1]
            index = place[:, None, :, None].expand(-1, heads, -1, width)
            query = record.query.gather(2, index)
            queries.append(query.view(batch, groups, heads // groups, most, width))
            keys.append(record.key.to(query.dtype))
            norm = self._norm(record)
            norms.append(norm.gather(2, place[:, None].expand(-1, groups, -1)) if by_query else norm)
            allowed.append(mask_lines(record, place))
        per_row = len(records) * batch * heads * records[0].key.shape[2]  # numbers in the maps of one row
        room = 2**22 if records[0].query.device.type == "cpu" else 2**26  # what fits a cache
        problem = Rows(
            counted.relation,
            counted.concept,
            counted.ignore,
            counted.concept.gather(1, place).masked_fill(~real, -1),
            allowed,
            [r.scaling for r in records],
            self.settings.alpha,
            self.settings.lam,
            by_query,
            ratio,
            self.settings.chunk_rows or max(16, room // per_row),
        )
        loss, parts = RowLossSum.apply(problem, *queries, *keys, *norms)
        return Parts(loss, *parts)


class MassForm(RowsForm):
    """The ratio from what the attention's own call puts on concepts; penalised entries by rows."""

    def __init__(self, settings: ReattentionLoss, counted: Counts):
        super().__init__(settings, counted)
        layers = None if settings.layers == "all" else set(settings.layers)
        weighed = settings.norm_index, settings.detach_norm, settings.norm_scale
        self.mass = ConceptMass(counted.columns(), layers, *weighed)
        self.extra, self.listens = {"concept_mass": self.mass}, counted.penalised(settings.lam)

    def sums(self):
        """Sums over the valid rows, for all layers together or for each of them."""
        groups = self._grouped([self.mass.found[layer] for layer in sorted(self.mass.found)])
        sums = [self._ratio(torch.stack(masses).mean(0)) for masses in groups]
        if not sums or not self.listens:
            return sums
        penalties = [self.of(group, ratio=False) for group in self._grouped(self.records)]
        return [
            ratio._replace(loss=ratio.loss + penalty.loss, neg=penalty.neg)
            for ratio, penalty in zip(sums, penalties, strict=True)
        ]

    def _ratio(self, mass: Tensor) -> Parts:
        """The ratio part from concept masses (B, T, C + 1), their last column all that is not ignored."""
        ratio, hinge, has, satisfied = ratio_of(*self.counted.averages(mass), self.settings.alpha)
        parts = Parts(ratio, ratio, torch.zeros_like(ratio), hinge, satisfied, has)
        return parts.summed(self.counted.valid, mass.dtype)


FORMS = {"eager": EagerForm, "rows": RowsForm, "mass": MassForm}


def gamma_schedule(step, total_steps, gamma_min, gamma_max, warmup=0.1) -> float:
    """gamma_t of section 3.2: up to gamma_max at T1 = warmup T2, down to gamma_min at T2 = total_steps.

    Raises ValueError for a step outside [0, total_steps], gamma_min above gamma_max, warmup outside [0, 1]
    and what is no number.
    """
    if not all(is_number(value) for value in (step, total_steps, gamma_min, gamma_max, warmup)):
        given = f"step {step!r} of {total_steps!r}, from {gamma_min!r} to {gamma_max!r}, warmup {warmup!r}"
        raise ValueError(f"the schedule of gamma is {given}: give numbers")
    if not 0 <= step <= total_steps or total_steps < 1:
        raise ValueError(
            f"step {step} is outside [0, {total_steps}]: pass the number of training steps as total"
        )
    if not 0 <= gamma_min <= gamma_max < math.inf:
        raise ValueError(f"gamma runs from {gamma_min} to {gamma_max}: choose 0 <= gamma_min <= gamma_max")
    if not 0 <= warmup <= 1:
        raise ValueError(f"warmup is {warmup}: choose a share of the steps in [0, 1]")
    peak = warmup * total_steps
    share = step / peak if step < peak else (total_steps - step) / max(total_steps - peak, 1e-300)
    return gamma_min + (1.0 if step == peak else share) * (gamma_max - gamma_min)
