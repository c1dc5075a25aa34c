"""Fact checking with a shortcut of its own: claims about invented towns, some of them negated.

The evidence tells of two towns. A claim is true or false of the first one; a false one has the other town's
value, or one that nobody has. A negated claim turns this round, but in training nearly all negated claims are
refuted, so that "not" tells the label, but for a `minority` of supported ones. In FEVER (Thorne et al. 2018)
negation tells as much (Schuster et al. 2019). The challenge has negated claims alone, half of them supported.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from causalnb.tasks import sentence_pairs
from causalnb.tasks.counts import counted

if TYPE_CHECKING:
    from datasets import DatasetDict

LABELS = ("supported", "refuted")
KINDS = ("plain_true", "plain_false", "negated_true", "negated_false")  # true or false without the "not"
TOWNS = tuple(
    f"{first}{last}"
    for first in ("Nor", "East", "Ash", "Wind", "Black", "Stone", "Mill", "Oak", "Fair", "Lang")
    for last in ("wick", "holm", "ford", "dale", "bury", "mere")
)
FACTS = {  # what is said of a town, what may be claimed of it, negated, and the values
    "year": ("was founded in {}", "was not founded in {}", tuple(map(str, range(1600, 1900, 10)))),
    "river": (
        "lies on the river {}",
        "does not lie on the river {}",
        ("Arlen", "Bree", "Corve", "Dunne", "Esker", "Fenna", "Galder", "Hale"),
    ),
    "goods": (
        "exports {}",
        "does not export {}",
        ("wool", "salt", "timber", "copper", "glass", "cheese", "paper", "honey"),
    ),
    "region": (
        "belongs to the county of {}",
        "does not belong to the county of {}",
        ("Marland", "Quenby", "Rostwold", "Selby", "Tarrant", "Underhay"),
    ),
}


def _pair(kind: str, draw: random.Random) -> dict:
    one, two = draw.sample(TOWNS, 2)
    values = {fact: draw.sample(FACTS[fact][2], 3) for fact in FACTS}
    told = draw.sample(tuple(FACTS), 2)
    first, second = (" and ".join(FACTS[fact][0].format(values[fact][i]) for fact in told) for i in (0, 1))
    evidence = [f"{one} {first}.", f"{two} {second}."]
    draw.shuffle(evidence)
    fact, negated, true = draw.choice(told), kind.startswith("negated"), kind.endswith("true")
    value = values[fact][0 if true else draw.choice((1, 2))]
    return {
        "sentence1": " ".join(evidence),
        "sentence2": f"{one} {FACTS[fact][negated].format(value)}.",  # type: ignore[union-attr]
        "label": int(negated == true),
        "kind": kind,
        "fact": fact,
    }


@counted(n=0)
def challenge(n: int = 1000, seed: int | str = 0, seen: set[str] | None = None) -> list[dict]:
    """n rows of negated claims, refuted and supported in turn.

    `seen` has evidence that may not come again, and takes up what is drawn. DataError if there is too little.
    """
    draw, seen = random.Random(f"challenge {seed}"), set() if seen is None else seen
    return [sentence_pairs.fresh(lambda: _pair(KINDS[2 + i % 2], draw), seen) for i in range(n)]  # noqa: B023  (called at once)


@counted(n=0)
def pairs(
    n: int = 12_000, minority: float = 0.05, seed: int | str = 0, seen: set[str] | None = None
) -> list[dict]:
    """n shuffled rows: half supported; half of the refuted negated, and of all negated `minority` supported.

    `seen` as challenge(). DataError if there is too little evidence, or unless 0 <= minority <= 0.5.
    """
    draw, seen = random.Random(f"pairs {seed}"), set() if seen is None else seen
    refuted = n - n // 2
    against = sentence_pairs.counterexamples(refuted // 2, minority)
    kinds = (
        ["plain_true"] * (n // 2 - against)
        + ["negated_false"] * against
        + ["negated_true"] * (refuted // 2)
        + ["plain_false"] * (refuted - refuted // 2)
    )
    draw.shuffle(kinds)
    return [sentence_pairs.fresh(lambda: _pair(kind, draw), seen) for kind in kinds]  # noqa: B023  (called at once)


@counted(n_train=0, n_validation=0, n_test=0, n_challenge=0)
def load(
    n_train: int = 12_000,
    n_validation: int = 1000,
    n_test: int = 2000,
    n_challenge: int = 2000,
    minority: float = 0.05,
    seed: int = 0,
) -> DatasetDict:
    """DatasetDict with columns sentence1 (evidence), sentence2 (claim), label, kind, fact.

    train, validation and test are pairs(), challenge is challenge(); it depends on `seed` alone, and no
    evidence comes twice. DataError on a minority that cannot be had.
    """
    seen: set[str] = set()
    parts = {"challenge": challenge(n_challenge, seed, seen)}
    parts |= {
        part: pairs(n, minority, f"{seed} {part}", seen)
        for part, n in (("test", n_test), ("validation", n_validation), ("train", n_train))
    }
    return sentence_pairs.dataset(dict(reversed(parts.items())), LABELS)
