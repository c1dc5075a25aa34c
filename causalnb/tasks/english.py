"""English in miniature: sentences of a small grammar of our own, labelled with their parts of speech.

    S    -> SUBJ PRED | NP PRED J NP PRED                              J -> and | but | while | because
    SUBJ -> NP | NP P D N | NP that VI | NP that VT D N | NP that D N VT
    PRED -> VI | VI R | VI P D N | VT NP | VT NP R | VT NP P D N | was VT by NP
    NP   -> D N | D A N                     D -> the | a | every | no      P -> near | behind | with | under

N, A, R, VI and VT are nouns, adjectives, adverbs, intransitive and transitive verbs: the open classes, whose
words are the content. The other words belong to the structure: "the dog waited" is "the N VI". Verbs are
regular and stand in the past tense, so that a passive needs no form of its own.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from causalnb.errors import DataError
from causalnb.tasks.counts import counted

if TYPE_CHECKING:
    from datasets import DatasetDict
    from transformers import PreTrainedTokenizerFast

DETERMINERS = ("the", "a", "every", "no")
PREPOSITIONS = ("near", "behind", "with", "under")
JOINTS = ("and", "but", "while", "because")
CLOSED = (*DETERMINERS, *PREPOSITIONS, *JOINTS, "that", "was", "by")
OPEN = {
    "N": (
        "dog",
        "cat",
        "child",
        "teacher",
        "farmer",
        "king",
        "queen",
        "doctor",
        "sailor",
        "painter",
        "girl",
        "boy",
        "horse",
        "bird",
        "lawyer",
        "baker",
        "singer",
        "nurse",
        "guard",
        "poet",
    ),
    "A": ("big", "small", "young", "quiet", "clever", "tired", "happy", "brave", "lazy", "rich"),
    "R": ("quickly", "quietly", "gladly", "slowly", "often", "rarely", "bravely", "suddenly"),
    "VI": (
        "waited",
        "laughed",
        "shouted",
        "danced",
        "rested",
        "smiled",
        "coughed",
        "worked",
        "yawned",
        "cried",
    ),
    "VT": (
        "chased",
        "followed",
        "helped",
        "watched",
        "called",
        "greeted",
        "pushed",
        "trusted",
        "praised",
        "visited",
        "warned",
        "thanked",
    ),
}
NEW = {"N": ("wizard", "robot", "pirate", "dragon"), "VT": ("tickled", "puzzled", "rescued")}
FRAMES = {"N": "the N VI", "VT": "the N VT the N"}  # the one structure each new word is trained in
CLASS = {word: part for words in (OPEN, NEW) for part in words for word in words[part]}
WORDS = (*CLOSED, *CLASS)
SPECIALS = {
    "pad_token": "<pad>",
    "bos_token": "<bos>",
    "eos_token": "<eos>",
    "sep_token": "<sep>",
    "unk_token": "<unk>",
}
VOCABULARY = {token: i for i, token in enumerate((*SPECIALS.values(), *WORDS))}
SPLITS = ("structures", "new_words")

_D, _P, _J = (f"(?:{'|'.join(words)})" for words in (DETERMINERS, PREPOSITIONS, JOINTS))
_NP = f"{_D} (?:A )?N"
_AFTER = f"(?: {_P} {_D} N| that VI| that VT {_D} N| that {_D} N VT)?"
_PRED = f"(?:(?:VI|VT {_NP})(?: R| {_P} {_D} N)?|was VT by {_NP})"
_SENTENCE = re.compile(f"{_NP}(?:{_AFTER} {_PRED}| {_PRED} {_J} {_NP} {_PRED})")


def _masked(sentence: str) -> str:
    if not isinstance(sentence, str):
        raise DataError(f"A sentence is a text such as 'the dog waited', got {sentence!r}.")
    words = sentence.split()
    for word in words:
        if word not in CLASS and word not in CLOSED:
            raise DataError(
                f"Unknown word {word!r} in {sentence!r}: causalnb.tasks.english.WORDS names the "
                f"{len(WORDS)} that are known."
            )
    return " ".join(CLASS.get(word, word) for word in words)


def structure(sentence: str) -> str:
    """The sentence with its open-class words masked, "the N VI"; DataError if it is none of the grammar's."""
    parts = _masked(sentence)
    if not _SENTENCE.fullmatch(parts):
        raise DataError(
            f"{sentence!r} ({parts}) is no sentence of this grammar: its rules stand at "
            "the top of causalnb.tasks.english."
        )
    return parts


@dataclass(frozen=True)
class Grammar:
    """What the guide calls `grammar`: extract_structure(text)."""

    def extract_structure(self, text: str) -> str:
        """structure(text)."""
        return structure(text)


def _noun_phrase(draw: random.Random) -> list[str]:
    return [draw.choice(DETERMINERS), *(["A"] if draw.random() < 0.4 else []), "N"]


def _predicate(draw: random.Random) -> list[str]:
    verb = draw.choice(("VI", "VT", "was"))
    if verb == "was":
        return ["was", "VT", "by", *_noun_phrase(draw)]
    end = draw.choice(([], ["R"], [draw.choice(PREPOSITIONS), draw.choice(DETERMINERS), "N"]))
    return [verb, *(_noun_phrase(draw) if verb == "VT" else []), *end]


def _draw_structure(draw: random.Random) -> list[str]:
    subject = _noun_phrase(draw)
    if draw.random() < 0.4:
        return [*subject, *_predicate(draw), draw.choice(JOINTS), *_noun_phrase(draw), *_predicate(draw)]
    some = draw.choice(DETERMINERS)
    after = draw.choice(
        (
            [],
            [draw.choice(PREPOSITIONS), some, "N"],
            ["that", "VI"],
            ["that", "VT", some, "N"],
            ["that", some, "N", "VT"],
        )
    )
    return [*subject, *after, *_predicate(draw)]


@counted(count=0)
def structures(count: int, seed: int = 0) -> list[str]:
    """`count` distinct structures out of millions, drawn with `seed`; FRAMES are not among them."""
    if not 0 < count <= 100_000:
        raise DataError(f"{count} structures cannot be drawn: ask for 1 to 100,000.")
    draw, found = random.Random(f"structures {seed}"), {}
    while len(found) < count:
        form = " ".join(_draw_structure(draw))
        if form not in FRAMES.values():
            found.setdefault(form)
    return list(found)


@counted(count=0)
def sentences(form: str, count: int, seed: int = 0, new: str = "") -> list[str]:
    """`count` distinct sentences of a structure, words drawn with `seed`; new="N" or "VT": one is of NEW.

    DataError for a text that is no structure, a class without a place in it, and a count beyond reach.
    """
    if not _SENTENCE.fullmatch(form):
        raise DataError(f"{form!r} is no structure of this grammar: take one from structures().")
    parts = form.split()
    places = [i for i, part in enumerate(parts) if part == new]
    if new and (new not in NEW or not places):
        raise DataError(f"No new word of class {new!r} fits {form!r}: choose N, or VT where there is one.")
    draw, found = random.Random(f"{seed} {new} {form}"), {}
    for _ in range(100 * count):
        here = draw.choice(places) if new else None
        words = [
            draw.choice(NEW[part] if i == here else OPEN[part]) if part in OPEN else part
            for i, part in enumerate(parts)
        ]
        found.setdefault(" ".join(words))
        if len(found) == count:
            break
    if len(found) < count:
        raise DataError(f"{count} different sentences of {form!r} were not found: ask for fewer.")
    return list(found)


@counted(n_structures=1, contents=1)
def generate(n_structures: int = 2000, contents: int = 4, seed: int = 0) -> list[str]:
    """Distinct sentences, `contents` of each of `n_structures` structures, one structure after the other."""
    return [text for form in structures(n_structures, seed) for text in sentences(form, contents, seed)]


@counted(count=0)
def frame_sentences(count: int, seed: int = 0) -> list[str]:
    """`count` rows in which a new word stands in its frame, nouns and verbs in turn; a row may come again."""
    few = [sentences("the N VI", 40, seed, "N"), sentences("the N VT the N", 400, seed, "VT")]
    return [few[i % 2][i // 2 % len(few[i % 2])] for i in range(count)]


@counted(n_structures=1, contents=1)
def split(
    name: str, n_structures: int = 2000, contents: int = 4, seed: int = 0
) -> tuple[list[str], list[str]]:
    """(train, test) sentences of one of SPLITS; DataError on another name.

    structures: a fifth of the structures is only tested. new_words: four nouns and three verbs are trained in
    one frame each, a tenth of the rows; the test puts one of them into sentences of all other structures,
    which are trained with other words.
    """
    if name not in SPLITS:
        raise DataError(f"Unknown English split {name!r}; choose one of {', '.join(SPLITS)}.")
    forms = structures(n_structures, seed)
    rows = {form: sentences(form, contents, seed) for form in forms}
    if name == "structures":
        cut = max(1, len(forms) // 5)
        return tuple([text for form in part for text in rows[form]] for part in (forms[cut:], forms[:cut]))  # type: ignore[return-value]
    train = [text for form in forms for text in rows[form]]
    test = [
        text
        for form in forms
        for new in NEW
        if new in form.split()
        for text in sentences(form, max(1, contents // 2), seed, new)
    ]
    return train + frame_sentences(max(2, len(train) // 9), seed), test


_split = split  # load() has an argument of this name


def load(
    split: str = "structures", n_structures: int = 2000, contents: int = 4, seed: int = 0
) -> DatasetDict:
    """DatasetDict train/test with columns sentence and structure."""
    from datasets import Dataset, DatasetDict

    parts = _split(split, n_structures, contents, seed)
    return DatasetDict(
        {
            part: Dataset.from_dict({"sentence": texts, "structure": [*map(structure, texts)]})
            for part, texts in zip(("train", "test"), parts, strict=False)
        }
    )


def tokenizer(padding_side: str = "right") -> PreTrainedTokenizerFast:
    """Word-level tokenizer over VOCABULARY (5 specials, 82 words); pads on "right" or "left"."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    core = Tokenizer(models.WordLevel(VOCABULARY, unk_token=SPECIALS["unk_token"]))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=core, padding_side=padding_side, clean_up_tokenization_spaces=False, **SPECIALS
    )


def encode(sentence: str) -> dict[str, list[int]]:
    """input_ids of `<bos> sentence <sep>`, prompt_mask of ones, lists (T,); DataError on an unknown word."""
    _masked(sentence)
    ids = [VOCABULARY[token] for token in ("<bos>", *sentence.split(), "<sep>")]
    return {"input_ids": ids, "prompt_mask": [1] * len(ids)}
