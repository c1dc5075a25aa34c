"""Swapped words: what labels of structure give away without a model, as new training rows.

Two rows of one structure that differ in one word of the prompt and one of the answer say which word of the
answer follows which of the prompt:

    walk twice   I_WALK I_WALK
    jump twice   I_JUMP I_JUMP     walk -> jump goes with I_WALK -> I_JUMP

Whoever is told the structures can write the one for the other in any row. It is what a method that learns
from such labels has to be compared with.

Often nobody has to be told: rows that agree in all words but one mostly share their structure. With one
label for all rows the same swaps are found in the published rows of SCAN, and a few false ones where some of
the rows are missing; in `verb_final` the same, and at most a few of determiners.

Where rows are few, few of them differ in one word. `by_places` does without such pairs: which word of the
answer follows which of the prompt is told by their counts, and which words may stand for each other by the
labels, in whose structures they have one place.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
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
    _count(pairs, structures)
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


def _count(pairs: Sequence, structures: Sequence) -> None:
    if len(pairs) != len(structures):
        raise DataError(f"{len(structures)} structures for {len(pairs)} pairs: give one a pair.")


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


def lexicon(pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    """The word of answers that goes with each word of prompts: of the greatest Dice coefficient.

    2 n(w, a) / (n(w) + n(a)), n counting the different pairs that have the prompt's word w, the answer's a,
    or both. A word whose greatest is shared by two words of answers has none.
    """
    said, both = Counter(), Counter()
    asked: Counter[str] = Counter()
    for prompt, answer in set(pairs):
        words, answers = set(prompt.split()), set(answer.split())
        asked.update(words)
        said.update(answers)
        both.update((word, one) for word in words for one in answers)
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for (word, one), count in both.items():
        found[word][one] = 2 * count / (asked[word] + said[one])
    best = {word: max(values.values()) for word, values in found.items()}
    kept = {word: [one for one in found[word] if found[word][one] == best[word]] for word in sorted(found)}
    return {word: ones[0] for word, ones in kept.items() if len(ones) == 1}


def by_places(pairs: Sequence[tuple[str, str]], structures: Sequence[str]) -> list[Swap]:
    """The swaps of words that have one place in some structure, each with its word of `lexicon`, sorted.

    Places are carried on: words that share one with a third may stand for each other. DataError as find.
    """
    _count(pairs, structures)
    known, kin = lexicon(pairs), {}  # kin: word -> the set of its class
    places: dict[tuple[str, int], str] = {}
    for (prompt, _), structure in zip(pairs, structures, strict=True):
        for place, word in enumerate(prompt.split()):
            own = kin.setdefault(word, {word})
            other = kin[places.setdefault((structure, place), word)]
            if own is not other:
                other |= own
                kin |= dict.fromkeys(own, other)
    return sorted(
        Swap(word, other, known[word], known[other])
        for word in known
        for other in kin[word] & known.keys()
        if known[word] != known[other]
    )


@counted(copies=0)
def augmented(
    pairs: Sequence[tuple[str, str]],
    structures: Sequence[str],
    seed: int,
    copies: int = 1,
    found: Callable = find,
) -> list[tuple[str, str]]:
    """Of each pair so many more: each of its words with swaps is kept or swapped, all choices equally likely.

    found: `find` or `by_places`, which swaps there are. Pairs without such a word have none; DataError as
    find, and for a number of copies below 0.
    """
    known, draw = defaultdict(list), random.Random(seed)
    for swap in found(pairs, structures):
        known[swap.word].append(swap)
    more = []
    for _ in range(copies):
        for pair in pairs:
            if words := [word for word in dict.fromkeys(pair[0].split()) if word in known]:
                chosen = [draw.choice([None, *known[word]]) for word in words]
                more.append(swapped(pair, [swap for swap in chosen if swap]))
    return more
