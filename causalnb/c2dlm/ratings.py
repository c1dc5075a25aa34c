"""Appendix F: how people score a teacher's graphs (Table 7), with the recall and agreement it leaves out."""

import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real

from sklearn.metrics import cohen_kappa_score

from .graph import ConceptGraph

SCORES = (0.0, 0.5, 1.0)


@dataclass(frozen=True)
class Rating:
    """One evaluator's scores in {0, 0.5, 1}: for each instance, one a cause-effect pair.

    simulated marks a scripted rater. Raises ValueError for other scores and for instances without pairs.
    """

    evaluator: str
    scores: Sequence[Sequence[float]]
    simulated: bool = False

    def __post_init__(self):
        if not self.scores or not all(len(instance) for instance in self.scores):
            raise ValueError(f"{self.evaluator} rated an instance without pairs: leave failed instances out")
        if wrong := [
            score
            for instance in self.scores
            for score in instance
            if isinstance(score, bool) or score not in SCORES
        ]:
            raise ValueError(f"{self.evaluator} gave the score {wrong[0]}: choose among 0, 0.5 and 1")

    @property
    def pairs(self) -> list[float]:
        """Every score, instance after instance."""
        return [score for instance in self.scores for score in instance]

    @property
    def counts(self) -> dict[float, int]:
        """How many pairs got each score."""
        return {score: self.pairs.count(score) for score in reversed(SCORES)}

    @property
    def accuracy(self) -> float:
        """Overall accuracy of Appendix F, the mean over instances of their mean score."""
        return statistics.fmean(statistics.fmean(instance) for instance in self.scores)

    @property
    def pair_accuracy(self) -> float:
        """The mean over all pairs, which Table 7's counts allow to recompute; it is another number."""
        return statistics.fmean(self.pairs)


def spread(accuracies: Sequence[float]) -> tuple[float, float]:
    """Mean and population standard deviation, the paper's "93.42 +- 1.41" over two evaluators.

    Raises ValueError without accuracies, and for one that is no finite number.
    """
    if not accuracies or not all(isinstance(one, Real) and math.isfinite(one) for one in accuracies):
        raise ValueError(f"the accuracies are {accuracies!r:.80}: give at least one, finite numbers all")
    return statistics.fmean(accuracies), statistics.pstdev(accuracies)


def agreement(one: Rating, other: Rating) -> float:
    """Cohen's kappa over all pairs, 1 where both gave one score throughout; ValueError for other graphs."""
    if [len(instance) for instance in one.scores] != [len(instance) for instance in other.scores]:
        raise ValueError(
            f"{one.evaluator} and {other.evaluator} rated different pairs: compare the same graphs"
        )
    if len({*one.pairs, *other.pairs}) == 1:
        return 1.0
    return float(cohen_kappa_score([str(s) for s in one.pairs], [str(s) for s in other.pairs]))


def precision_recall(found: ConceptGraph, gold: ConceptGraph) -> tuple[float, float]:
    """Share of the found pairs that are gold, and of the gold pairs that were found (no rater scores it)."""
    ours, true = set(found.pairs), set(gold.pairs)
    if not ours or not true:
        raise ValueError(f"{len(ours)} found and {len(true)} gold pairs: both graphs need at least one")
    return len(ours & true) / len(ours), len(ours & true) / len(true)


def scripted_rater(
    name: str, found: Sequence[ConceptGraph], gold: Sequence[ConceptGraph], slip: float = 0.0, seed: int = 0
) -> Rating:
    """A simulated rater who knows the gold graphs, and with probability `slip` gives a pair another score.

    An effect's pairs score 1 when its causes are the gold ones, 0.5 when some are, else 0. Instances without
    pairs are left out. Raises ValueError for a slip outside [0, 1] and lists of different lengths.
    """
    if not 0 <= slip <= 1 or len(found) != len(gold):
        raise ValueError(
            f"slip {slip} with {len(found)} found and {len(gold)} gold graphs: choose slip in "
            "[0, 1] and one gold graph each"
        )
    if isinstance(seed, bool) or not isinstance(seed, Integral):
        raise ValueError(f"seed is {seed!r}: choose a whole number")
    draw, scores = random.Random(seed), []
    for ours, true in zip(found, gold, strict=False):
        instance = []
        for effect, causes in ours.edges.items():
            known = set(true.edges.get(effect, ()))
            score = 1.0 if set(causes) == known else 0.5 if known & set(causes) else 0.0
            instance += [
                draw.choice([s for s in SCORES if s != score]) if draw.random() < slip else score
                for _ in causes
            ]
        scores += [instance] if instance else []
    return Rating(name, scores, simulated=True)
