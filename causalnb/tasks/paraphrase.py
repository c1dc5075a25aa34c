"""Paraphrase where word overlap misleads: questions, as QQP in training, as PAWS-QQP in the challenge.

A question names two things. Most pairs of the same words are paraphrases: the end of a question is moved to
its front, or the two things change places where that makes no difference ("between X and Y"). In half of the
challenge they change places where it does ("from X to Y"), as in PAWS (Zhang et al. 2019); in training they
do so in a `minority` of the pairs of the same words. The questions are ours.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from causalnb.errors import DataError
from causalnb.tasks import files, sentence_pairs
from causalnb.tasks.counts import counted
from causalnb.tasks.sentence_pairs import FAMILIES

if TYPE_CHECKING:
    from datasets import DatasetDict

LABELS = ("other", "paraphrase")
SOURCES = ("generator", "paws_qqp", "qqp", "paws_wiki")
PUBLISHED = "paws/paws_qqp_dev_and_test.tsv"
COLUMNS = ("id", "sentence1", "sentence2", "label")
SAME_WORDS = ("moved", "symmetric", "swapped")  # kinds of pairs whose sentences have the same words
THINGS = {
    kind: tuple(said.split())
    for kind, said in {
        "city": "Paris London Rome Berlin Madrid Vienna Prague Lisbon Dublin Oslo Athens Warsaw Cairo Delhi "
        "Tokyo Seoul Lima Boston Chicago Denver",
        "unit": "miles kilometers meters feet inches yards centimeters millimeters leagues fathoms "
        "furlongs cubits",
        "animal": "dog cat horse wolf tiger bear goat donkey camel rabbit fox otter pig mule sheep monkey",
        "subject": "physics chemistry biology history geometry algebra statistics economics geology "
        "philosophy astronomy accounting",
        "language": "French Spanish German Italian Greek Polish Czech Danish Korean Hindi Arabic Turkish",
    }.items()
}
ENDS = (
    "these days",
    "in real life",
    "according to experts",
    "in practice",
    "at this point",
    "for most people",
    "in your opinion",
    "right now",
    "in general",
    "on average",
)


@dataclass(frozen=True)
class Question:
    """Ways to ask one question about two things {0} and {1}; symmetric if they may change places."""

    kind: str
    symmetric: bool
    ways: tuple[str, ...]


_QUESTIONS = {
    "main": (
        (
            "city",
            False,
            "what is the cheapest flight from {0} to {1}",
            "which flight from {0} to {1} is the cheapest",
            "how do I find the cheapest flight from {0} to {1}",
        ),
        (
            "unit",
            False,
            "how do I convert {0} to {1}",
            "how can I convert {0} to {1}",
            "what is the way to convert {0} to {1}",
        ),
        (
            "animal",
            False,
            "can a {0} outrun a {1}",
            "is a {0} able to outrun a {1}",
            "is it true that a {0} can outrun a {1}",
        ),
        (
            "subject",
            False,
            "is {0} harder than {1}",
            "is it true that {0} is harder than {1}",
            "would you say that {0} is harder than {1}",
        ),
        (
            "language",
            False,
            "how do I translate a letter from {0} into {1}",
            "how can I translate a letter from {0} into {1}",
            "what is the way to translate a letter from {0} into {1}",
        ),
        (
            "city",
            True,
            "how far is it between {0} and {1}",
            "what is the distance between {0} and {1}",
            "how great is the distance between {0} and {1}",
        ),
        (
            "unit",
            True,
            "who uses both {0} and {1}",
            "which people use both {0} and {1}",
            "who is it that uses both {0} and {1}",
        ),
        (
            "animal",
            True,
            "who wins, a {0} versus a {1}",
            "which one wins, a {0} versus a {1}",
            "who would win, a {0} versus a {1}",
        ),
        (
            "subject",
            True,
            "what is the difference between {0} and {1}",
            "how do {0} and {1} differ",
            "what makes {0} and {1} different",
        ),
        (
            "language",
            True,
            "what do {0} and {1} have in common",
            "what is it that {0} and {1} have in common",
            "which things do {0} and {1} have in common",
        ),
    ),
    "other": (  # in words of "main", so that a reader of main knows the tokens
        (
            "city",
            False,
            "how do I find the way from {0} to {1}",
            "what is the way from {0} to {1}",
            "which is the way from {0} to {1}",
        ),
        (
            "subject",
            False,
            "who uses {0} in {1}",
            "which people use {0} in {1}",
            "who is it that uses {0} in {1}",
        ),
        (
            "animal",
            False,
            "can a {0} find a {1}",
            "is a {0} able to find a {1}",
            "would you say that a {0} can find a {1}",
        ),
        (
            "city",
            True,
            "what is the cheapest way between {0} and {1}",
            "which way between {0} and {1} is the cheapest",
            "how do people find the cheapest way between {0} and {1}",
        ),
        (
            "subject",
            True,
            "which one is harder, {0} versus {1}",
            "what is harder, {0} versus {1}",
            "which would you say is harder, {0} versus {1}",
        ),
        (
            "language",
            True,
            "which letter do both {0} and {1} use",
            "what letter do both {0} and {1} use",
            "what is the letter that both {0} and {1} use",
        ),
    ),
    "development": (
        (
            "city",
            False,
            "how long is the drive from {0} to {1}",
            "how many hours is the drive from {0} to {1}",
            "how much time does the drive from {0} to {1} take",
        ),
        (
            "unit",
            False,
            "do {0} measure more than {1}",
            "is it right that {0} measure more than {1}",
            "can you confirm that {0} measure more than {1}",
        ),
        (
            "animal",
            False,
            "does a {0} ever attack a {1}",
            "does it happen that a {0} attacks a {1}",
            "are there cases where a {0} attacks a {1}",
        ),
        (
            "subject",
            False,
            "does {0} depend on {1}",
            "is it right that {0} depends on {1}",
            "do you think that {0} depends on {1}",
        ),
        (
            "language",
            False,
            "which words did {0} borrow from {1}",
            "what are the words that {0} borrowed from {1}",
            "can you list the words that {0} borrowed from {1}",
        ),
        (
            "city",
            True,
            "which roads link {0} and {1}",
            "what are the roads that link {0} and {1}",
            "can you list the roads that link {0} and {1}",
        ),
        (
            "unit",
            True,
            "can I add {0} and {1}",
            "is it possible to add {0} and {1}",
            "are there ways to add {0} and {1}",
        ),
        (
            "animal",
            True,
            "do a {0} and a {1} get along",
            "does it happen that a {0} and a {1} get along",
            "do you think that a {0} and a {1} get along",
        ),
        (
            "subject",
            True,
            "which jobs need both {0} and {1}",
            "what are the jobs that need both {0} and {1}",
            "can you list the jobs that need both {0} and {1}",
        ),
        (
            "language",
            True,
            "do {0} and {1} sound alike",
            "is it right that {0} and {1} sound alike",
            "can you confirm that {0} and {1} sound alike",
        ),
    ),
}


def questions(family: str = "main") -> list[Question]:
    """The questions of one of FAMILIES; DataError on another."""
    if family not in FAMILIES:
        raise DataError(f"Unknown family {family!r} of questions; choose one of {', '.join(FAMILIES)}.")
    return [Question(kind, symmetric, tuple(ways)) for kind, symmetric, *ways in _QUESTIONS[family]]


def ask(way: str, things: Sequence[str], end: str, front: bool = False) -> str:
    """The question about these two things, with `end` last, or in front of it: the same words and signs."""
    said = way.format(*things)
    said = f"{end} {said}?" if front else f"{said} {end}?"
    return said[0].upper() + said[1:]


def _pair(question: Question, kind: str, known: Sequence[Question], draw: random.Random) -> dict:
    things, end = draw.sample(THINGS[question.kind], 2), draw.choice(ENDS)
    way, other = draw.sample(question.ways, 2)
    front = draw.random() < 0.5
    second = {
        "moved": (way, things, end, not front),
        "rephrased": (other, things, end, front),
        "symmetric": (way, things[::-1], end, front),
        "swapped": (way, things[::-1], end, front),
    }
    if kind == "new_word":
        second[kind] = way, _renew(things, question.kind, draw), end, front
    if kind == "topic":
        second[kind] = _another(question.kind, end, known, draw)
    return {
        "sentence1": ask(way, things, end, front),
        "sentence2": ask(*second[kind]),
        "label": int(kind in ("moved", "symmetric", "rephrased")),
        "kind": kind,
    }


def _renew(things: list[str], kind: str, draw: random.Random) -> list[str]:
    new = draw.choice([thing for thing in THINGS[kind] if thing not in things])
    return [new, things[1]] if draw.random() < 0.5 else [things[0], new]


def _another(kind: str, end: str, known: Sequence[Question], draw: random.Random) -> tuple:
    question = draw.choice([one for one in known if one.kind != kind])
    return (
        draw.choice(question.ways),
        draw.sample(THINGS[question.kind], 2),
        draw.choice([one for one in ENDS if one != end]),
        draw.random() < 0.5,
    )


def _fresh(make: Callable[[], dict], seen: set[str]) -> dict:
    return sentence_pairs.fresh(make, seen, ("sentence1", "sentence2"))


@counted(n=0)
def challenge(
    n: int = 1000, seed: int | str = 0, family: str = "main", seen: set[str] | None = None
) -> list[dict]:
    """n rows of the same words, kinds in turn: half swapped, a quarter each moved and symmetric.

    `seen` has sentences that may not come again, and takes up those drawn. DataError if there are too few.
    """
    draw, known = random.Random(f"challenge {family} {seed}"), questions(family)
    seen = set() if seen is None else seen
    turn = ("swapped", "moved", "swapped", "symmetric")

    def make(kind: str) -> dict:
        fit = [one for one in known if one.symmetric == (kind == "symmetric")]
        return _pair(draw.choice(fit), kind, known, draw)

    return [_fresh(lambda: make(turn[i % 4]), seen) for i in range(n)]  # noqa: B023  (called at once)


@counted(n=0)
def pairs(
    n: int = 12_000,
    minority: float = 0.05,
    seed: int | str = 0,
    family: str = "main",
    seen: set[str] | None = None,
) -> list[dict]:
    """n shuffled rows in distribution: n // 2 paraphrases; of pairs of the same words `minority` are none.

    Paraphrases are moved, rephrased or symmetric; these counter-examples are swapped; all other pairs ask
    about another thing (new_word) or something else (topic). `seen` as challenge(). DataError if there are
    too few sentences, or unless 0 <= minority <= 0.5.
    """
    draw, known = random.Random(f"pairs {family} {seed}"), questions(family)
    seen = set() if seen is None else seen

    def make(kinds: Sequence[str]) -> dict:
        question = draw.choice(known)
        fit = [kind for kind in kinds if question.symmetric or kind != "symmetric"]
        return _pair(question, draw.choice(fit), known, draw)

    def swap() -> dict:
        return _pair(draw.choice([one for one in known if not one.symmetric]), "swapped", known, draw)

    rows = [_fresh(lambda: make(("moved", "rephrased", "symmetric")), seen) for _ in range(n // 2)]
    same = sum(row["kind"] in SAME_WORDS for row in rows)
    rows += [_fresh(swap, seen) for _ in range(sentence_pairs.counterexamples(same, minority))]
    rows += [_fresh(lambda: make(("new_word", "topic")), seen) for _ in range(n - len(rows))]
    draw.shuffle(rows)
    return rows


def crossed(parts: dict[str, list[dict]]) -> dict[str, list[dict]]:
    """The parts, with the end of the second question on its other side where the two things changed places.

    In `pairs` and `challenge` a swapped pair keeps its end in place, and a moved one its order, so that the
    place of the end tells which is which without order. Here it differs in all pairs of the same words, and
    tells nothing. Rows of an earlier part lose to those of a later one that have the same sentence.
    """
    seen: set[str] = set()
    found = {}
    for part, rows in reversed(parts.items()):
        found[part] = []
        for row in rows:
            if row["kind"] in ("symmetric", "swapped"):
                row = row | {"sentence2": _end_moved(row["sentence2"])}
            said = {row["sentence1"], row["sentence2"]}
            if not said & seen:
                seen |= said
                found[part].append(row)
    return dict(reversed(found.items()))


def _end_moved(sentence: str) -> str:
    said = sentence[0].lower() + sentence[1:-1]
    for end in ENDS:
        if said.startswith(f"{end} "):
            moved = f"{said.removeprefix(end).strip()} {end}?"
        elif said.endswith(f" {end}"):
            moved = f"{end} {said.removesuffix(end).strip()}?"
        else:
            continue
        return moved[0].upper() + moved[1:]
    raise DataError(f"{sentence!r} has no end of ours: cross questions of `pairs` and `challenge` alone.")


def decoded(cell: str, column: str, source: str, number: int) -> str:
    """The sentence that a Python bytes literal holds; DataError names the line and column if it is none."""
    try:
        sentence = ast.literal_eval(cell).decode()
    except (ValueError, SyntaxError, AttributeError):
        raise DataError(
            f"{source}, line {number}: {column} should be a bytes literal such as b'Why ?', "
            f"found {cell[:60]}; take a fresh copy of the file."
        ) from None
    return sentence_pairs.said(sentence, column, source, number)


def parse(text: str, source: str) -> list[dict]:
    """Rows of the published table, whose sentences are Python bytes literals; DataError names the line."""
    rows = []
    for number, cells in sentence_pairs.table(text, source, COLUMNS):
        label = sentence_pairs.label_of(cells["label"], ("0", "1"), source, number)
        one, two = (decoded(cells[name], name, source, number) for name in COLUMNS[1:3])
        rows.append({"sentence1": one, "sentence2": two, "label": label})
    return rows


def read() -> list[dict]:
    """The 677 published pairs of PAWS-QQP, of which 191 are paraphrases; DataError if there is no copy."""
    return parse(files.read(PUBLISHED).decode(), PUBLISHED)


@counted(n_train=0, n_validation=0, n_test=0, n_challenge=0)
def load(
    source: str = "generator",
    n_train: int = 12_000,
    n_validation: int = 1000,
    n_test: int = 2000,
    n_challenge: int = 2000,
    minority: float = 0.05,
    family: str = "main",
    seed: int = 0,
) -> DatasetDict:
    """DatasetDict with columns sentence1, sentence2, label, and for drawn pairs kind.

    train, validation and test are pairs(), challenge_train and challenge are challenge() of the same family;
    held_out, of the family "other", is there for "main" alone. No sentence is in two pairs; challenge and
    held_out depend on `seed` and family alone.
    source="paws_qqp" reads the published challenge, a test part alone; "qqp" and "paws_wiki" are asked for by
    name from the hub. DataError on other values.
    """
    sentence_pairs.check_source("paraphrase", source, SOURCES)
    if source == "paws_qqp":
        return sentence_pairs.dataset({"test": read()}, LABELS)
    if source == "qqp":
        return sentence_pairs.from_hub(
            "nyu-mll/glue",
            "qqp",
            {"train": "train", "validation": "validation"},
            ("question1", "question2"),
            LABELS,
        )
    if source == "paws_wiki":
        return sentence_pairs.from_hub(
            "google-research-datasets/paws",
            "labeled_final",
            {part: part for part in ("train", "validation", "test")},
            ("sentence1", "sentence2"),
            LABELS,
        )
    sizes = {"train": n_train, "validation": n_validation, "test": n_test}
    return sentence_pairs.dataset(
        sentence_pairs.parts(challenge, n_challenge, pairs, sizes, minority, family, seed), LABELS
    )
