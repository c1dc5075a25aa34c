"""One key against many weak cues: a shortcut of high fan-in beside a cause of fan-in one.

A row is a label (0 or 1), told by one key and by `cues` cues, each with its own accuracy, in a random order
among words that say nothing, so that every row has LENGTH words:

    text   "the cue1 a key1 cue0 of cue1 the ..."      label   1

In training the vote of all cues is right in `together` of the rows, however many there are: the more there
are, the weaker is each. In "flipped" each cue is wrong as often as it was right, in "loose" it is a coin, and
the key is as good as before. What reads the key alone is right in `key` of the rows everywhere. What may read
no more than one or two words in a row has `cue_accuracy` from a cue, and is better off with the key where
that is below `key`.
"""

from __future__ import annotations

import random
from functools import lru_cache
from typing import TYPE_CHECKING

from causalnb.errors import DataError
from causalnb.tasks.counts import counted

if TYPE_CHECKING:
    from datasets import DatasetDict

LENGTH = 20
FILLERS = ("the", "a", "of", "in")
WORDS = ("cue0", "cue1", "key0", "key1", *FILLERS)
MOST = LENGTH - 1  # cues
PARTS = {"train": 1.0, "validation": 1.0, "flipped": 0.0, "loose": 0.5}  # share of p kept: p, 1/2 or 1 - p


def vote(accuracy: float, cues: int) -> float:
    """How often most of an odd number of independent cues of this accuracy are right."""
    from scipy.stats import binom

    return float(binom.sf(cues // 2, cues, accuracy))


@lru_cache(maxsize=None, typed=True)
def cue_accuracy(cues: int, together: float = 0.97) -> float:
    """The accuracy of each of an odd number of cues, of which most are right in `together` of the rows."""
    from scipy.optimize import brentq

    if isinstance(cues, bool) or not isinstance(cues, int) or not 1 <= cues <= MOST or not cues % 2:
        raise DataError(f"cues is {cues!r}: give an odd number from 1 to {MOST}.")
    if not 0.5 <= together < 1:
        raise DataError(f"together is {together!r}: give a share of at least a half and below 1.")
    return float(brentq(lambda accuracy: vote(accuracy, cues) - together, 0.5, 1.0))


def reader(cues: int, key: bool, right: float, key_right: float = 0.9) -> tuple[float, float]:
    """How often the best reader of so many cues, and of the key or not, is right: in training, and flipped.

    It answers the likelier label, or either of two that are as likely; flipped cues meet the same answers.
    """
    from math import comb, isclose

    home = away = 0.0
    for votes in range(cues + 1):
        for told in (True, False) if key else (None,):

            def chance(right, key_right, votes=votes, told=told):  # of these words, given label 1
                of_key = 1.0 if told is None else key_right if told else 1 - key_right
                return comb(cues, votes) * right**votes * (1 - right) ** (cues - votes) * of_key

            one, zero = chance(right, key_right), chance(1 - right, 1 - key_right)
            says_one = 0.5 if isclose(one, zero) else float(one > zero)
            home += (one * says_one + zero * (1 - says_one)) / 2
            one, zero = chance(1 - right, key_right), chance(right, 1 - key_right)
            away += (one * says_one + zero * (1 - says_one)) / 2
    return home, away


def reader_of(words: int, cues: int, key: float = 0.9, together: float = 0.97) -> tuple[float, float]:
    """What `reader` gives for the best choice of so few words; of equal choices that with fewer cues."""
    from math import isclose

    if words < 1:
        raise DataError(f"words is {words}: a reader needs at least one.")
    right = cue_accuracy(cues, together)
    choices = [
        reader(some, with_key, right, key)
        for with_key in (True, False)
        for some in range(min(words - with_key, cues) + 1)
        if some + with_key
    ]
    best = max(home for home, _ in choices)
    return next(choice for choice in choices if isclose(choice[0], best))


@counted(rows=0)
def sample(rows: int, cues: int, key: float, right: float, seed: int) -> list[dict]:
    """`rows` rows, {text, label}, with a key of accuracy `key` and cues of accuracy `right` each."""
    if not 0 <= key <= 1:
        raise DataError(f"key is {key!r}: give a share from 0 to 1.")
    rng, found = random.Random(seed), []
    for _ in range(rows):
        label = rng.randrange(2)
        words = [f"key{label if rng.random() < key else 1 - label}"]
        words += [f"cue{label if rng.random() < right else 1 - label}" for _ in range(cues)]
        words += rng.choices(FILLERS, k=LENGTH - len(words))
        rng.shuffle(words)
        found.append({"text": " ".join(words), "label": label})
    return found


@counted(n_train=0, n_test=0)
def load(
    cues: int = 9,
    key: float = 0.9,
    together: float = 0.97,
    n_train: int = 20_000,
    n_test: int = 1000,
    seed: int = 0,
) -> DatasetDict:
    """DatasetDict of PARTS: text, label; DataError for an even number of cues and shares out of range."""
    from datasets import Dataset, DatasetDict

    right = cue_accuracy(cues, together)
    return DatasetDict(
        {
            part: Dataset.from_list(
                sample(
                    n_train if part == "train" else n_test,
                    cues,
                    key,
                    kept * right + (1 - kept) * (1 - right),
                    len(PARTS) * seed + place,
                )
            )
            for place, (part, kept) in enumerate(PARTS.items())
        }
    )
