"""What the tables and figures of SCI share: names of models and scores, looks, and how means are told."""

from collections.abc import Iterable, Sequence
from functools import partial

from causalnb.experiments.sci.grid import SCAN_ARMS, SPLITS
from causalnb.lab import registry
from causalnb.lab.report import Arm, Measured, arm
from causalnb.lab.statistics import Summary, mean_ci

JUMP = "sci.scan.add_prim_jump"
WHOLE = "sci_separated"
MODELS = dict(zip(SCAN_ARMS, ("plain decoder", "plain + labels", "SCI", "SCI separated"), strict=True))
ARMS = {name: MODELS[name] for name in MODELS if name != WHOLE}
SWAPPED = {"plain_swap": "plain + swapped words", "sci_swap": "SCI + swapped words"}
BY_TOKENS = "separated_tokens"
LONGER = "longer_template_around_right"
TOKENS = {BY_TOKENS: f"{MODELS[WHOLE]}, a slot a token"}
WITH_OURS = MODELS | {WHOLE: f"{MODELS[WHOLE]} (ours)"}
LOOKS = {  # colour, line, marker
    "plain": ("black", ":", "o"),
    "plain_labels": ("orange", "--", "s"),
    "sci": ("blue", "-", "^"),
    "sci_separated": ("vermillion", "-.", "D"),
    "separated_tokens": ("purple", "", "*"),
    "plain_swap": ("green", "", "P"),
    "sci_swap": ("sky", "", "v"),
}
SCORES = {
    "exact_match": "test exact match",
    "greedy_exact_match": "decoded (sample)",
    "validation_exact_match": "validation",
    "cosine_same": "cosine same",
    "cosine_different": "cosine different",
    "structure_retrieval": "retrieval@1",
}
EXTRA = {"extra": True, "printed_as": "ours", "kind": "measured"}


def means(values: Sequence[float], least: float = 0.0) -> Summary | str:
    """A format of means, of what is between `least` and 1; "-" of what had nothing to compare in any seed."""
    return "-" if all(value != value for value in values) else mean_ci(values, within=(least, 1.0))


cosines = partial(means, least=-1.0)


def scores(*metrics: str) -> list[Measured]:
    """Columns of means of some SCORES."""
    formats = {metric: cosines if metric.startswith("cosine") else means for metric in metrics}
    return [Measured(SCORES[metric], metric, format) for metric, format in formats.items()]


def trained(split: str, names: Iterable[str] = MODELS) -> dict[str, Arm]:
    """Those of the models that are trained on a split."""
    id = f"sci.scan.{split}"
    return {name: arm(id, name) for name in names if name in registry.arms(id)}


def swapped(split: str) -> dict[str, Arm]:
    """SWAPPED on a split of SCAN; none where no words were swapped."""
    id = f"sci.scan.swapped_{split}"
    return {name: arm(id, name.removesuffix("_swap")) for name in SWAPPED if split in SPLITS}


def by_tokens(split: str) -> dict[str, Arm]:
    """TOKENS on a split of SCAN; none where it was not trained."""
    return {BY_TOKENS: arm(f"sci.scan.tokens_{split}", WHOLE)} if split in SPLITS else {}


def longer() -> dict[str, Arm]:
    """All models on template_around_right in twice the steps."""
    id = f"sci.scan.{LONGER}"
    return {name.replace(f"{WHOLE}_tokens", BY_TOKENS): arm(id, name) for name in registry.arms(id)}
