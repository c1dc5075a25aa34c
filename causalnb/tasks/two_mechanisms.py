"""Two domains that share one mechanism and have one each: where modules that are independent pay.

A row names its domain and a word; the answer is what the domain says to the word's class:

    text   "in1 word17"      answer   "say12"      domain   1      borrowed   "say4"

Shared is which class a word has, drawn at random, each class as often; a domain's own is what it says to a
class. The two say the same to `similarity` of the classes, and to the others words that only one of them
has: scores of a class and of a domain, added, then tell every answer, as they could not if both domains used
one set of words. `both` of the words are trained in both domains, half of the others in each. "ood" asks for
these in the other domain: each class of a word and each answer to a class was trained, this pair was not.
Classes are drawn and not computed, as a sum of numbers is, which half of the sums would teach without the
other domain. There is no other i.i.d. row than those of training, all of which "iid" asks again.

borrowed is what the other domain says. `reached` tells what readers of different tables get.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from causalnb.errors import DataError
from causalnb.tasks.counts import counted

if TYPE_CHECKING:
    from datasets import DatasetDict

DOMAINS = 2
READERS = ("composer", "lookup", "borrower", "chance")


@dataclass(frozen=True)
class Pair:
    """classes[w] of each word; answers[d][c] of a domain to a class; words trained in both, and in one."""

    classes: tuple[int, ...]
    answers: tuple[tuple[int, ...], ...]
    both: tuple[int, ...]
    alone: tuple[tuple[int, ...], ...]

    def combinations(self, part: str) -> list[tuple[int, int]]:
        """(domain, word) of "train", the same as "iid", or of "ood", the domains in turn."""
        first, second = self.alone
        lists = (second, first) if part == "ood" else ((*self.both, *first), (*self.both, *second))
        return [
            (domain, words[place])
            for place in range(max(map(len, lists)))
            for domain, words in enumerate(lists)
            if place < len(words)
        ]

    def row(self, domain: int, word: int) -> dict:
        """text, answer, domain, borrowed."""
        said, borrowed = (self.answers[one][self.classes[word]] for one in (domain, 1 - domain))
        return {
            "text": f"in{domain} word{word}",
            "answer": f"say{said}",
            "domain": domain,
            "borrowed": f"say{borrowed}",
        }


def vocabulary(words: int, classes: int) -> tuple[str, ...]:
    """All words of rows: domains, words, answers, and the classes' names, which no row has."""
    return (
        *(f"in{domain}" for domain in range(DOMAINS)),
        *(f"word{word}" for word in range(words)),
        *(f"say{said}" for said in range(DOMAINS * classes)),
        *(f"class{one}" for one in range(classes)),
    )


def _checked(words, classes, similarity, both) -> None:
    if words % classes:
        raise DataError(f"{words} words do not fill {classes} classes alike: give a multiple of {classes}.")
    for name, share in (("similarity", similarity), ("both", both)):
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
            raise DataError(f"{name} is {share!r}: give a share from 0 to 1.")
    if abs(similarity * classes - round(similarity * classes)) > 1e-9:
        raise DataError(f"similarity is {similarity!r} of {classes} classes: give a multiple of 1/{classes}.")


@counted(words=1, classes=2)
def draw(
    words: int = 96, classes: int = 8, similarity: float = 0.0, both: float = 0.5, seed: int = 0
) -> Pair:
    """A pair of domains; the same words, classes and parts for every similarity of a seed."""
    _checked(words, classes, similarity, both)
    rng = random.Random(seed)
    of_word = [word % classes for word in range(words)]
    rng.shuffle(of_word)
    order = rng.sample(range(words), words)
    shared, rest = order[: round(both * words)], order[round(both * words) :]
    said, unlike = rng.sample(range(classes), classes), rng.sample(range(classes), classes)
    unlike = unlike[round(similarity * classes) :]
    other = [said[one] + classes * (one in unlike) for one in range(classes)]
    return Pair(
        tuple(of_word), (tuple(said), tuple(other)), tuple(shared), (tuple(rest[0::2]), tuple(rest[1::2]))
    )


def reached(reader: str, classes: int = 8, similarity: float = 0.0, both: float = 0.5) -> dict[str, float]:
    """{"iid", "ood"}: the accuracy that is expected of a reader, by what it keeps a table of.

    composer: of a word's class and of a domain's answers, as an oracle; lookup: of answers to a domain and a
    word, with one of the domain's answers drawn for a new pair; borrower: of answers to a word, from either
    domain, with a coin where there are two; chance: of a domain's answers. DataError for another.
    """
    if reader not in READERS:
        raise DataError(f"There is no reader {reader!r}: choose one of {', '.join(READERS)}.")
    _checked(classes, classes, similarity, both)
    twice = 2 * both / (1 + both)  # the share of training rows whose word is trained in both domains
    return {
        "composer": {"iid": 1.0, "ood": 1.0},
        "lookup": {"iid": 1.0, "ood": 1 / classes},
        "borrower": {"iid": 1 - twice * (1 - similarity) / 2, "ood": similarity},
        "chance": {"iid": 1 / classes, "ood": 1 / classes},
    }[reader]


@counted(words=1, classes=2)
def as_datasets(
    words: int = 96, classes: int = 8, similarity: float = 0.0, both: float = 0.5, seed: int = 0
) -> DatasetDict:
    """DatasetDict of train, iid, ood: text, answer, domain, borrowed; DataError for shares out of range."""
    from datasets import Dataset, DatasetDict

    pair = draw(words, classes, similarity, both, seed)
    return DatasetDict(
        {
            part: Dataset.from_list([pair.row(*one) for one in pair.combinations(part)])
            for part in ("train", "iid", "ood")
        }
    )
