"""V-aware re-attention: the loss that draws weighted attention to causes, and the schedule of its weight."""

import math
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Integral

import torch
from torch import Tensor

from causalnb.attention import Record, tap

from .forms import MASS_ATTENTION, ConceptMass, RowLossSum, Rows, choose_form, map_of, mask_lines
from .graph import STEP_RULES, with_steps
from .weighted import NORM_INDICES, Counts, norms_of, ratio_of, row_loss, value_weighted_attention

BACKENDS = ("eager", "rows", "mass", "auto")
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
        if not 0 < alpha < math.inf or not 0 <= lam < math.inf:
            raise ValueError(
                f"alpha is {alpha} and lam {lam}: choose alpha above 0 and lam 0 or more, both finite"
            )
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
        layers = layers if isinstance(layers, str) else [*layers]
        if layers != "all" and not (layers and all(isinstance(number, Integral) for number in layers)):
            raise ValueError(f"layers is {layers!r}: choose 'all' or a list of layer numbers")
        if chunk_rows is not None and chunk_rows < 1:
            raise ValueError(f"chunk_rows is {chunk_rows}: choose at least 1")
        self.alpha, self.lam, self.backend = float(alpha), float(lam), backend
        self.layers = layers if layers == "all" else sorted({int(number) for number in layers})
        self.norm_index, self.step_rule, self.over_layers = norm_index, step_rule, over_layers
        self.detach_norm, self.norm_scale, self.chunk_rows = detach_norm, norm_scale, chunk_rows

    def settings(self) -> dict:
        """The arguments that build this loss again."""
        return dict(vars(self))

    @contextmanager
    def watch(self, model, supervision: dict[str, Tensor]):
        """Yields a _Watch: call model(..., **watch.extra) within it, then watch.loss() once.

        supervision as Supervision.stack gives it. The forms "mass" and "auto" need the attention
        implementation MASS_ATTENTION; a model under gradient checkpointing needs use_reentrant=False.
        """
        counted = self._count(supervision)
        form = self._form(counted, model)
        layers = None if self.layers == "all" else self.layers
        records: list[Record] = []
        mass = None
        if form == "mass":
            mass = ConceptMass(
                counted.columns(),
                None if layers is None else set(layers),
                self.norm_index,
                self.detach_norm,
                self.norm_scale,
            )
        watch = _Watch(self, form, counted, records, mass)
        if form == "mass" and not counted.penalised(self.lam):
            with tap(model, layers=layers):
                pass  # refuses missing layers and reentrant checkpoints, as for the other forms
            yield watch
            return
        with tap(model, records.append, layers=layers):
            yield watch

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
        counted = self._count(supervision)
        if not records:
            raise ValueError("no attention was recorded: pass the records of a tap on the model")
        form = "eager" if self.backend == "eager" else "rows"
        return _Watch(self, form, counted, list(records), None).loss()

    def _count(self, supervision) -> Counts:
        relation = with_steps(supervision["relation"], supervision["step"], self.step_rule)
        return Counts(supervision["concept"], relation, supervision["ignore"], supervision["rows"])

    def _eager(self, records, counted) -> Tensor:
        maps = []
        for record in records:
            norm = norms_of(record.value, self.norm_index, self.detach_norm, self.norm_scale, counted.ignore)
            index = "key" if self.norm_index == "none" else self.norm_index
            maps.append(value_weighted_attention(map_of(record), norm[..., None], index))
        weighted = torch.stack(maps).mean(0)  # (B, T, T)
        found = row_loss(weighted, counted.mask(), self.alpha, self.lam)
        parts = [part.masked_fill(~counted.valid, 0) for part in found.parts()]
        return torch.stack([part.to(weighted.dtype).sum() for part in parts])

    def _rows(self, records, counted, ratio=True) -> Tensor:
        wanted = counted.valid if ratio else counted.has_neg
        most = int(wanted.sum(1).max())
        if most == 0:
            return records[0].query[:0].sum().float() * records[0].query.new_zeros(6)
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
            norm = norms_of(record.value, self.norm_index, self.detach_norm, self.norm_scale, counted.ignore)
            if self.norm_index == "query_as_printed":
                norm = norm.gather(2, place[:, None].expand(-1, groups, -1))
            norms.append(norm)
            allowed.append(mask_lines(record, place))
        per_row = len(records) * batch * heads * records[0].key.shape[2]  # numbers in the maps of one row
        room = 2**22 if records[0].query.device.type == "cpu" else 2**26  # what fits a cache
        chunk = self.chunk_rows or max(16, room // per_row)
        problem = Rows(
            counted.relation,
            counted.concept,
            counted.ignore,
            counted.concept.gather(1, place).masked_fill(~real, -1),
            allowed,
            [r.scaling for r in records],
            self.alpha,
            self.lam,
            self.norm_index == "query_as_printed",
            ratio,
            chunk,
        )
        loss, parts = RowLossSum.apply(problem, *queries, *keys, *norms)
        return torch.cat([loss[None], parts])

    def _from_mass(self, mass: Tensor, counted: Counts) -> Tensor:
        """The ratio part from concept masses (B, T, C + 1), their last column all that is not ignored."""
        a1, a0, ones, zeros = counted.averages(mass)
        ratio, hinge, has, satisfied = ratio_of(a1, a0, ones, zeros, self.alpha)
        parts = (ratio, ratio, torch.zeros_like(ratio), hinge, satisfied, has)
        return torch.stack([part.masked_fill(~counted.valid, 0).to(mass.dtype).sum() for part in parts])

    @staticmethod
    def _output(sums: Tensor, counted: Counts) -> ReattentionOutput:
        rows = counted.valid.sum().clamp(min=1)
        loss, ratio, neg, hinge = (sums[:4] / rows).unbind()
        share = sums[4] / sums[5].clamp(min=1)
        return ReattentionOutput(
            loss, ratio.detach(), neg.detach(), hinge.detach(), share.detach(), counted.valid.sum()
        )


@dataclass
class _Watch:
    """What one forward pass left for the loss."""

    owner: ReattentionLoss
    form: str
    counted: Counts
    records: list[Record]
    mass: ConceptMass | None

    @property
    def extra(self) -> dict:
        """Keywords for the model's forward."""
        return {} if self.mass is None else {"concept_mass": self.mass}

    def _groups(self) -> list[list[Record]]:
        return [self.records] if self.owner.over_layers == "map" else [[record] for record in self.records]

    def loss(self) -> ReattentionOutput:
        """The loss; ValueError when the attention did not reach it."""
        owner, counted = self.owner, self.counted
        if self.mass is None:
            each = owner._eager if self.form == "eager" else owner._rows
            sums = [each(group, counted) for group in self._groups() if group]
        else:
            found = [self.mass.found[layer] for layer in sorted(self.mass.found)]
            groups = [torch.stack(found).mean(0)] if found and owner.over_layers == "map" else found
            sums = [owner._from_mass(mass, counted) for mass in groups]
            if self.records:
                parts = [owner._rows(group, counted, ratio=False) for group in self._groups()]
                sums = [
                    torch.cat([one[:1] + two[:1], one[1:2], two[2:3], one[3:]])
                    for one, two in zip(sums, parts, strict=True)
                ]
        if not sums:
            raise ValueError(
                "the attention handed nothing to the loss: its layers take no keywords; choose backend='rows'"
            )
        return _mean([owner._output(part, counted) for part in sums])


def _mean(outputs: list[ReattentionOutput]) -> ReattentionOutput:
    if len(outputs) == 1:
        return outputs[0]
    means = [
        torch.stack([getattr(out, name) for out in outputs]).mean(0)
        for name in ("loss", "ratio", "neg", "hinge", "satisfied")
    ]
    return ReattentionOutput(*means, outputs[0].rows)


def gamma_schedule(step, total_steps, gamma_min, gamma_max, warmup=0.1) -> float:
    """gamma_t of section 3.2: up to gamma_max at T1 = warmup T2, down to gamma_min at T2 = total_steps.

    Raises ValueError for a step outside [0, total_steps], gamma_min above gamma_max and warmup outside [0,
    1].
    """
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
