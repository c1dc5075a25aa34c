"""Swapped words: what labels of structure give away without a model, as new training rows.

Two rows of one structure that differ in one word of the prompt and one of the answer say which word of the
answer follows which of the prompt:

    walk twice   I_WALK I_WALK
    jump twice   I_JUMP I_JUMP     walk -> jump goes with I_WALK -> I_JUMP

Whoever is told the structures can write the one for the other in any row. It is what a method that learns
from such labels has to be compared with.

Often nobody has to be told: rows that agree in all words but one mostly share their structure. In SCAN the
same swaps are found with one label for all rows; in `verb_final` these, and at most a few of determiners.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from causalnb.errors import DataError
from causalnb.tasks.counts import counted

HOLE = "\0"  # no word


class Swap(NamedTuple):
    """A word of the prompt for another, and the word of the answer that follows it for the other's."""

    word: str
    other: str
    said: str
    instead: str


def find(pairs: Sequence[tuple[str, str]], structures: Sequence[str]) -> list[Swap]:
    """The swaps that rows of one structure show, sorted; both ways each.

    Two rows show one if their prompts are equal but for one word, wherever it stands, and their answers are.
    A word that goes with different words of the answer in different rows has the pair most rows show, and
    none where two are shown equally often. DataError where there is not one structure a pair.
    """
    if len(pairs) != len(structures):
        raise DataError(f"{len(structures)} structures for {len(pairs)} pairs: give one a pair.")
    groups: dict[tuple, dict[str, str]] = defaultdict(dict)
    for (prompt, answer), structure in zip(pairs, structures, strict=True):
        words = prompt.split()
        for word in set(words):
            groups[structure, tuple(HOLE if one == word else one for one in words)][word] = answer
    counts: dict[tuple[str, str], dict[tuple[str, str], int]] = defaultdict(lambda: defaultdict(int))
    for answers in groups.values():
        for word, answer in answers.items():
            for other, instead in answers.items():
                if word != other and (differing := _differing(answer, instead)):
                    counts[word, other][differing] += 1
    found = []
    for (word, other), seen in counts.items():
        most = max(seen.values())
        if len(best := [said for said, count in seen.items() if count == most]) == 1:
            found.append(Swap(word, other, *best[0]))
    return sorted(found)


def _differing(answer: str, instead: str) -> tuple[str, str] | None:
    """The one pair of words in which two answers of equal length differ; None without or with several."""
    one, two = answer.split(), instead.split()
    pairs = {(a, b) for a, b in zip(one, two, strict=False) if a != b}
    return pairs.pop() if len(one) == len(two) and len(pairs) == 1 else None


def swapped(pair: tuple[str, str], swaps: Sequence[Swap]) -> tuple[str, str]:
    """A (prompt, answer) with all swaps made at once, everywhere in both."""
    words = {swap.word: swap.other for swap in swaps}
    answers = {swap.said: swap.instead for swap in swaps}
    prompt, answer = (text.split() for text in pair)
    return " ".join(words.get(one, one) for one in prompt), " ".join(answers.get(one, one) for one in answer)


@counted(copies=0)
def augmented(
    pairs: Sequence[tuple[str, str]], structures: Sequence[str], seed: int, copies: int = 1
) -> list[tuple[str, str]]:
    """Of each pair so many more: each of its words with swaps is kept or swapped, all choices equally likely.

    Pairs without such a word have none; DataError as find, and for a number of copies below 0.
    """
    known, draw = defaultdict(list), random.Random(seed)
    for swap in find(pairs, structures):
        known[swap.word].append(swap)
    more = []
    for _ in range(copies):
        for pair in pairs:
            if words := [word for word in dict.fromkeys(pair[0].split()) if word in known]:
                chosen = [draw.choice([None, *known[word]]) for word in words]
                more.append(swapped(pair, [swap for swap in chosen if swap]))
    return more
