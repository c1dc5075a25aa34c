"""The small English grammar: what it makes it accepts, what is held out is held out, ids go round."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from causalnb.errors import DataError
from causalnb.sci import generate_structural_pairs
from causalnb.tasks import english

FORMS = english.structures(400)
some_form = st.sampled_from(FORMS)


@pytest.mark.parametrize(
    ("sentence", "form"),
    [
        ("the dog waited", "the N VI"),
        ("a big dog chased no cat near every king", "a A N VT no N near every N"),
        ("every child that a young poet helped smiled", None),
        ("every child that a poet helped smiled quickly", "every N that a N VT VI R"),
        ("no nurse under the bird was warned by a clever guard", "no N under the N was VT by a A N"),
        ("the robot rested but a pirate tickled the baker", "the N VI but a N VT the N"),
    ],
)
def test_structures_by_hand(sentence, form):
    if form is None:  # no adjective in a relative clause
        with pytest.raises(DataError):
            english.structure(sentence)
    else:
        assert english.structure(sentence) == form == english.Grammar().extract_structure(sentence)


@pytest.mark.parametrize(
    "sentence",
    [
        "",
        "the dog",
        "dog waited",
        "the dog waited waited",
        "the dog chased",
        "the dog waited a cat",
        "the dog that waited near a cat",
        "the dog near a cat waited and a cat waited",
        "the dog was waited by a cat",
        "the dog was chased",
        "the dog waited and",
        "the dog waited and a cat waited but a king waited",
        "the the dog",
        "the N VI",
        "The dog waited",
        "the dog waited.",
    ],
)
def test_any_other_text_is_refused(sentence):
    with pytest.raises(DataError):
        english.structure(sentence)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("the dgo waited", "Unknown word 'dgo'.*82"),
        ("the dog", r"'the dog' \(the N\) is no sentence"),
        (3, "got 3"),
    ],
)
def test_errors_name_the_fault(text, message):
    with pytest.raises(DataError, match=message):
        english.structure(text)


@given(some_form, st.integers(0, 10**6))
def test_what_is_made_is_accepted_with_its_structure(form, seed):
    made = english.sentences(form, 5, seed)
    assert len(set(made)) == 5 and {english.structure(text) for text in made} == {form}
    assert english.sentences(form, 5, seed) == made
    assert not set(" ".join(made).split()) & {word for part in english.NEW.values() for word in part}


@given(some_form)
def test_one_word_is_new_where_it_is_asked_for(form):
    for part in english.NEW:
        if part in form.split():
            for text in english.sentences(form, 3, 0, part):
                assert english.structure(text) == form
                assert sum(word in english.NEW[part] for word in text.split()) == 1
        else:
            with pytest.raises(DataError, match="fits"):
                english.sentences(form, 1, 0, part)


def test_every_rule_is_used_and_drawn_structures_are_distinct():
    assert len(set(FORMS)) == 400 and english.structures(400) == FORMS != english.structures(400, 1)
    text = " | ".join(english.structures(2000))
    for piece in (
        *english.DETERMINERS,
        *english.PREPOSITIONS,
        *english.JOINTS,
        "that VI",
        r"that VT \w+ N VI",
        r"that \w+ N VT",
        "was VT by",
        "VI R",
        "VT the A N",
        " A N",
    ):
        assert re.search(piece, text), piece
    assert not set(english.FRAMES.values()) & set(english.structures(2000))
    assert max(len(form.split()) for form in english.structures(2000)) <= 22


@pytest.mark.parametrize(
    "call",
    [
        lambda: english.structures(0),
        lambda: english.structures(10**6),
        lambda: english.sentences("the N", 1),
        lambda: english.sentences("the N VI", 201),
        lambda: english.sentences("the N VI", 1, 0, "VT"),
        lambda: english.sentences("the N VI R", 1, 0, "R"),
        lambda: english.split("jump"),
        lambda: english.encode("the dgo waited"),
    ],
)
def test_bad_requests(call):
    with pytest.raises(DataError):
        call()


def test_a_structure_gives_all_its_sentences():
    assert len(english.sentences("the N VI", 200)) == 200  # 20 nouns, 10 verbs


def test_the_split_by_structures():
    train, test = english.split("structures", 100, 4, 3)
    known, asked = ({english.structure(text) for text in part} for part in (train, test))
    assert (len(train), len(test)) == (320, 80) and not known & asked and len(known | asked) == 100
    assert {*train, *test} == set(english.generate(100, 4, 3))


def test_the_split_by_new_words():
    train, test = english.split("new_words", 100, 4)
    new = {word for part in english.NEW.values() for word in part}
    framed = [text for text in train if new & set(text.split())]
    assert len(framed) == len(train) // 10 == 44
    assert {english.structure(text) for text in framed} == set(english.FRAMES.values())
    assert {word for text in framed for word in text.split()} >= new
    for text in framed:  # a noun in the one frame, a verb in the other
        assert (text.split()[2] in english.NEW["VT"]) == (english.structure(text) == english.FRAMES["VT"])
    assert all(len(new & set(text.split())) == 1 for text in test) and len(test) >= 200
    assert {english.structure(text) for text in test} <= {english.structure(text) for text in train}
    assert not {english.structure(text) for text in test} & set(english.FRAMES.values())


def test_pairs_from_the_grammar():
    batch = ["the dog waited", "the king smiled", "a king smiled", "the cat waited"]
    pairs = generate_structural_pairs(batch, english.Grammar())
    assert pairs.tolist() == [
        [False, True, False, True],
        [True, False, False, True],
        [False] * 4,
        [True, True, False, False],
    ]


def test_load():
    data = english.load("new_words", 30, 2)
    assert set(data) == {"train", "test"} and data["train"].column_names == ["sentence", "structure"]
    assert all(english.structure(row["sentence"]) == row["structure"] for row in data["test"])


@given(some_form)
def test_ids_go_round(form):
    (text,) = english.sentences(form, 1)
    row, tokenizer = english.encode(text), english.tokenizer()
    assert row["input_ids"] == tokenizer(f"<bos> {text} <sep>").input_ids
    assert tokenizer.decode(row["input_ids"][1:-1]) == text
    assert row["prompt_mask"] == [1] * len(row["input_ids"])


def test_classes_do_not_share_words():
    classes = [some for part in (english.OPEN, english.NEW) for some in part.values()]
    words = [*english.CLOSED, *(word for some in classes for word in some)]
    assert len(words) == len(set(words)) == len(english.WORDS) == 82
    assert list(english.VOCABULARY.values()) == list(range(87))
    assert all(word[0] not in "aeiou" for part in ("N", "A") for word in english.OPEN[part])  # "a" fits all
