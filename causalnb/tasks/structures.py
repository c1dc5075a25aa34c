"""Structures of plain text: by the small grammar of `english`, by parts of speech, or by dependencies.

The last two need a parser. spaCy's is loaded where none is given: install causalnb[text] and a model for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from causalnb.errors import DataError
from causalnb.tasks import english

if TYPE_CHECKING:
    import numpy

LEVELS = ("grammar", "pos", "dependency")
PARSER = "en_core_web_sm"
CONTENT = {
    "NOUN",
    "PROPN",
    "VERB",
    "ADJ",
    "ADV",
    "NUM",
    "INTJ",
    "X",
}  # parts of speech whose words are content


def structures_from_text(texts: Sequence[str], level: str = "grammar", parser=None) -> list[str]:
    """The structure of each text, equal for texts that differ in content alone.

    level "grammar": open-class words masked, "the N VI", for sentences of `english`; "pos": words of content
    replaced by their part of speech, "the NOUN VERB"; "dependency": of each word its relation and how far its
    head is, "det+1 nsubj+1 ROOT", without a word. parser: a pipeline of spaCy, or what has its pipe(texts)
    and gives tokens with text, pos_, dep_, i and head. DataError for another level, a text that is none or
    that the grammar does not know, and where no parser is installed.
    """
    if level not in LEVELS:
        raise DataError(f"level is {level!r}: choose one of {', '.join(LEVELS)}.")
    for number, text in enumerate(texts):
        if not isinstance(text, str) or not text.strip():
            raise DataError(f"text {number} is {text!r}: give a text with words.")
    if level == "grammar":
        return [english.structure(text) for text in texts]
    told = _template if level == "pos" else _pattern
    return [told(document) for document in (_spacy() if parser is None else parser).pipe(texts)]


def _spacy():
    try:
        import spacy

        return spacy.load(PARSER, exclude=["ner", "lemmatizer"])
    except (ImportError, OSError) as error:
        raise DataError(
            f"structures by parts of speech or dependencies need spaCy and its model {PARSER} "
            f"({type(error).__name__}): run pip install -e '.[text]' and python -m spacy download {PARSER}, "
            "or choose level 'grammar'."
        ) from error


def _template(document: Iterable) -> str:
    return " ".join(token.pos_ if token.pos_ in CONTENT else token.text.lower() for token in document)


def _pattern(document: Iterable) -> str:
    return " ".join(
        token.dep_ + (f"{token.head.i - token.i:+d}" if token.head.i != token.i else "") for token in document
    )


def similarities(structures: Sequence[str]) -> numpy.ndarray:
    """How alike structures are: (B, B) in [0, 1], 1 for equal ones, by the words that match in order.

    2 M / T for M words in common blocks, of T in both: what StructuralContrastiveLoss takes beside booleans.
    """
    import numpy as np

    words = [structure.split() for structure in structures]
    found = np.eye(len(words))
    for i, one in enumerate(words):
        for j, other in enumerate(words[:i]):
            first, second = sorted((one, other))  # the matcher's answer depends on the order
            found[i, j] = found[j, i] = SequenceMatcher(None, first, second, autojunk=False).ratio()
    return found
