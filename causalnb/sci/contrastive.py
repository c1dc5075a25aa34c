"""Component 4, structural contrastive learning: the loss, its pairs, and a sampler that finds positives."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence

import numpy as np
import torch
from torch import nn
from torch.autograd.function import once_differentiable

from causalnb.wrapping import check_counts


class _ContrastiveLoss(torch.autograd.Function):
    """The loss of slots (B, K, D) with its gradient in closed form.

    Z are the slot means over their norms n, S = Z Z^T / t off the diagonal, P its softmax by rows and
    W = a labels / (their sum in the row), a the row's largest: 1 / (positives of the row) on positives, and a
    1 in the A = sum a rows that have one:
    loss = -sum(W log P) / A, dS = (a P - W) / A, dZ = (dS + dS^T) Z / t, dmean = (dZ - Z (Z dZ)) / n.
    """

    @staticmethod
    def forward(ctx, slots, pair_labels, temperature):
        mean = slots.mean(1, dtype=torch.promote_types(slots.dtype, torch.float32))  # (B, D)
        norm = mean.norm(dim=1, keepdim=True).clamp_(min=1e-12)
        unit = mean.div_(norm)
        with torch.autocast(unit.device.type, enabled=False):
            similarity = (unit @ unit.T).div_(temperature)
        similarity.diagonal().fill_(float("-inf"))
        pull = pair_labels.to(unit.dtype, copy=True)
        pull.diagonal().zero_()
        count = pull.sum(1, keepdim=True)
        anchors = pull.amax(1, keepdim=True) if len(pull) else count  # 1 with a positive, 0 without
        total = anchors.sum(dtype=torch.get_default_dtype()).clamp_(min=1e-12)
        pull.div_(count.clamp_(min=1e-12)).mul_(anchors)
        log_softmax = similarity.log_softmax(1)
        log_softmax.diagonal().zero_()  # -inf * 0 would be nan
        loss = -(log_softmax * pull).sum() / total
        slope = log_softmax.exp_()  # P, but for the ones on its diagonal
        slope.diagonal().zero_()
        slope.mul_(anchors).sub_(pull).div_(total * temperature)
        ctx.save_for_backward(unit, norm, slope)
        ctx.slots = slots.shape[1]
        return loss.to(slots.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        unit, norm, slope = ctx.saved_tensors
        inward = (slope + slope.T) @ unit
        inward -= unit * (inward * unit).sum(1, keepdim=True)
        inward *= gradient / (norm * ctx.slots)
        return inward.to(gradient.dtype)[:, None].expand(-1, ctx.slots, -1), None, None


class StructuralContrastiveLoss(nn.Module):
    """Supervised contrastive loss on cosines of slot means: -log softmax(cos / temperature) of positives.

    Of soft labels, similarities in [0, 1], it is the mean weighted by them. Averaged over the anchors that
    have a positive, each as much as its most similar row is similar; 0 (with a gradient graph) when none has.
    Raises ValueError for a temperature <= 0 and for labels that are not (B, B), or neither boolean nor in [0,
    1].
    """

    def __init__(self, temperature: float = 0.07):
        super().__init__()
        if not temperature > 0:
            raise ValueError(f"the temperature is {temperature}: it must be positive")
        self.temperature = temperature

    def forward(self, structural_reps: torch.Tensor, pair_labels: torch.Tensor) -> torch.Tensor:
        """Scalar loss of structural_reps (B, K, D); pair_labels (B, B): if, or how far, rows share one."""
        if structural_reps.dim() != 3:
            raise ValueError(
                f"structural_reps have shape {tuple(structural_reps.shape)}: pass (batch, slots, width), "
                "with one slot for a plain vector"
            )
        batch = structural_reps.shape[0]
        if pair_labels.shape != (batch, batch):
            raise ValueError(
                f"pair_labels have shape {tuple(pair_labels.shape)}: {batch} rows need {(batch, batch)}"
            )
        soft = pair_labels.dtype != torch.bool
        if soft and not pair_labels.is_floating_point():
            raise ValueError(
                f"pair_labels are {pair_labels.dtype}: pass booleans, or similarities from 0 to 1"
            )
        if soft and not bool(((pair_labels >= 0) & (pair_labels <= 1)).all()):
            raise ValueError(
                f"pair_labels go from {pair_labels.min():g} to {pair_labels.max():g}: give similarities "
                "from 0 to 1"
            )
        return _ContrastiveLoss.apply(structural_reps, pair_labels, self.temperature)

    def of_ids(self, structural_reps: torch.Tensor, structure_ids: torch.Tensor) -> torch.Tensor:
        """The loss with pairs from structure_ids (B,); rows with a negative id take no part at all."""
        if structure_ids.shape != structural_reps.shape[:1]:
            raise ValueError(
                f"structure_ids have shape {tuple(structure_ids.shape)}: pass one id for each of the "
                f"{len(structural_reps)} rows"
            )
        named = structure_ids >= 0
        ids = structure_ids[named]
        return self(structural_reps[named], ids[:, None] == ids)


def structure_ids(structures: Sequence[Hashable]) -> torch.Tensor:
    """Number structures in order of first appearance, (B,) int64."""
    numbers: dict[Hashable, int] = {}
    return torch.tensor(
        [numbers.setdefault(structure, len(numbers)) for structure in structures], dtype=torch.long
    )


def generate_structural_pairs(
    batch: Sequence[str], grammar=None, parser: Callable[[str], Hashable] | None = None
):
    """Pair labels (B, B) bool: True where two different rows share a structure; each text is parsed once.

    The structure is grammar.extract_structure(text) or parser(text). Raises ValueError when neither is given.
    """
    extract = parser if grammar is None else grammar.extract_structure
    if extract is None:
        raise ValueError(
            "structural pairs need a grammar with extract_structure(text) or a parser(text): pass one"
        )
    ids = structure_ids([extract(text) for text in batch])
    return (ids[:, None] == ids) & ~torch.eye(len(ids), dtype=torch.bool)


class StructureBalancedBatches:
    """Batches of row indices: random rows, and pairs of rows with one structure and different texts.

    A pair begins with a random row (anchors="rows": a frequent text is a frequent anchor) or with a random
    structure (anchors="structures"), and goes on with another text of that structure. Yields `steps` lists, a
    function of the seed alone, so that an interrupted run continues on the same rows. Random rows pass
    through the data in shuffled epochs. With `lengths`, each `window` of batches is sorted by length and then
    shuffled as whole batches, so that little is padded. Raises ValueError when no structure has two texts.
    """

    def __init__(
        self,
        structures: Sequence[Hashable],
        texts: Sequence[str],
        random_rows: int,
        pairs: int,
        steps: int,
        seed: int = 0,
        lengths: Sequence[int] | None = None,
        window: int = 8,
        anchors: str = "rows",
    ):
        if anchors not in ("rows", "structures"):
            raise ValueError(f"anchors are {anchors!r}: choose 'rows' or 'structures'")
        check_counts(0, random_rows=random_rows, pairs=pairs, steps=steps)
        check_counts(1, window=window)
        groups: dict[Hashable, dict[str, int]] = defaultdict(dict)
        for row, (structure, text) in enumerate(zip(structures, texts, strict=True)):
            groups[structure].setdefault(text, row)
        varied = {structure: group for structure, group in groups.items() if len(group) > 1}
        if pairs and not varied:
            raise ValueError("no structure has two different texts: pairs cannot be drawn, set pairs=0")
        if random_rows > len(texts):
            raise ValueError(f"{random_rows} random rows do not fit data of {len(texts)} rows: choose fewer")
        self.sizes = np.array([len(group) for group in varied.values()], dtype=int)
        self.first = np.concatenate([[0], self.sizes.cumsum()]).astype(int)  # of each group among the members
        self.members = np.array([row for group in varied.values() for row in group.values()], dtype=int)
        number = {structure: i for i, structure in enumerate(varied)}
        place = {row: i for i, row in enumerate(self.members.tolist())}
        paired = [row for row, structure in enumerate(structures) if structure in number]
        self.anchors = np.array(
            [(number[structures[row]], place[groups[structures[row]][texts[row]]]) for row in paired]
        ).reshape(-1, 2)
        self.by_row = anchors == "rows"
        self.rows, self.random_rows, self.pairs, self.steps, self.seed = (
            len(texts),
            random_rows,
            pairs,
            steps,
            seed,
        )
        self.lengths, self.window = (
            None if lengths is None else np.asarray(lengths),
            window if lengths is not None else 1,
        )

    def __len__(self) -> int:
        return self.steps

    def _draw_pairs(self, generator, count: int) -> np.ndarray:
        """Rows (count, 2): an anchor, and another text of its structure."""
        if self.by_row:
            group, place = self.anchors[generator.integers(len(self.anchors), size=count)].T
            offset = place - self.first[group]
        else:
            group = generator.integers(len(self.sizes), size=count)
            offset = generator.integers(self.sizes[group])
        other = (offset + generator.integers(1, self.sizes[group])) % self.sizes[group]
        return self.members[self.first[group][:, None] + np.stack([offset, other], 1)]

    def __iter__(self):
        generator = np.random.default_rng(self.seed)
        order, produced = np.empty(0, dtype=int), 0
        while produced < self.steps:
            wanted = self.window * self.random_rows
            while len(order) < wanted:
                order = np.concatenate([order, generator.permutation(self.rows)])
            random, order = order[:wanted], order[wanted:]
            pairs = np.empty((0, 2), dtype=int)
            if self.pairs:
                pairs = self._draw_pairs(generator, self.window * self.pairs)
            if self.lengths is not None:
                random = random[np.argsort(self.lengths[random], kind="stable")]
                pairs = pairs[np.argsort(self.lengths[pairs].max(1), kind="stable")] if self.pairs else pairs
            random = random.reshape(self.window, self.random_rows)
            pairs = pairs.reshape(self.window, 2 * self.pairs)
            for batch in generator.permutation(self.window)[: self.steps - produced]:
                yield np.concatenate([random[batch], pairs[batch]]).tolist()
            produced += self.window
