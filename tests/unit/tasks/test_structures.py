"""Structures of plain text: by the grammar, by parts of speech, by dependencies; how alike they are."""

import importlib.util
from types import SimpleNamespace

import numpy as np
import pytest

from causalnb.errors import DataError
from causalnb.tasks import english
from causalnb.tasks.structures import similarities, structures_from_text

TAGS = {
    "the": "DET",
    "a": "DET",
    "dog": "NOUN",
    "cat": "NOUN",
    "Ann": "PROPN",
    "chased": "VERB",
    "slept": "VERB",
}


class Parser:
    """Tags words of TAGS; the verb is the root, determiners depend on the next word, others on the verb."""

    def pipe(self, texts):
        for text in texts:
            words = text.split()
            tokens = [SimpleNamespace(text=word, i=i, pos_=TAGS[word]) for i, word in enumerate(words)]
            verb = next(token for token in tokens if token.pos_ == "VERB")
            for token in tokens:
                token.head = verb if token.pos_ != "DET" else tokens[token.i + 1]
                token.dep_ = {"DET": "det", "VERB": "ROOT"}.get(
                    token.pos_, "nsubj" if token.i < verb.i else "obj"
                )
            yield tokens


def test_the_grammar_is_the_offline_default():
    texts = ["the dog waited", "the cat laughed", "a dog chased the cat"]
    assert structures_from_text(texts) == [english.structure(text) for text in texts]
    assert structures_from_text(texts)[0] == structures_from_text(texts)[1] == "the N VI"
    with pytest.raises(DataError, match="Unknown word 'Ann'"):
        structures_from_text(["the dog followed Ann"])


def test_parts_of_speech_keep_the_words_of_structure():
    texts = ["the dog chased a cat", "the cat chased a dog", "a cat chased a dog", "Ann slept"]
    found = structures_from_text(texts, "pos", Parser())
    assert found == ["the NOUN VERB a NOUN"] * 2 + ["a NOUN VERB a NOUN", "PROPN VERB"]


def test_dependencies_keep_no_word():
    texts = ["the dog chased a cat", "a cat chased the dog", "Ann slept"]
    found = structures_from_text(texts, "dependency", Parser())
    assert found == ["det+1 nsubj+1 ROOT det+1 obj-2"] * 2 + ["nsubj+1 ROOT"]


def test_what_has_no_structure_is_refused():
    with pytest.raises(DataError, match="level is 'words': choose one of grammar, pos, dependency"):
        structures_from_text(["a"], "words")
    for text in ("", " ", None):
        with pytest.raises(DataError, match="text 1 is .*: give a text with words"):
            structures_from_text(["the dog waited", text])


@pytest.mark.skipif(importlib.util.find_spec("spacy") is not None, reason="spaCy is there")
def test_without_a_parser_it_says_what_to_install():
    with pytest.raises(
        DataError,
        match=r"its model en_core_web_sm .*: run pip install .* python -m spacy download en_core_web_sm, or",
    ):
        structures_from_text(["the dog waited"], "pos")


def test_spacy_itself_gives_the_tokens_that_are_read():
    spacy = pytest.importorskip("spacy")
    words = "the dog chased a cat".split()
    document = spacy.tokens.Doc(
        spacy.blank("en").vocab, words, pos=[TAGS[word] for word in words],
        heads=[1, 2, 2, 4, 2], deps=["det", "nsubj", "ROOT", "det", "obj"],
    )  # fmt: skip
    parser = SimpleNamespace(pipe=lambda texts: [document])
    for level in ("pos", "dependency"):
        told, by_hand = (structures_from_text([" ".join(words)], level, one) for one in (parser, Parser()))
        assert told == by_hand


def test_similarities():
    found = similarities(["the N VI", "the N VI", "a N VI", "x y"])
    assert np.array_equal(found, found.T) and (np.diag(found) == 1).all()
    assert found[0, 1] == 1 and found[0, 2] == pytest.approx(2 / 3) and found[0, 3] == 0
    assert similarities([]).shape == (0, 0)
