"""English into a verb-final language: translations by hand, dependencies that are trees, honest new words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from causalnb.errors import DataError
from causalnb.tasks import english, swaps, verb_final
from causalnb.tasks.structures import similarities, structures_from_text

FORMS = english.structures(300)
some_sentence = st.builds(
    lambda form, seed: english.sentences(form, 1, seed)[0], st.sampled_from(FORMS), st.integers(0, 999)
)


@pytest.mark.parametrize(
    ("sentence", "translation"),
    [
        ("the dog waited", "DOG THE ga WAITED"),
        ("a big dog chased no cat", "DOG BIG A ga CAT NO o CHASED"),
        ("the dog chased a cat quickly", "DOG THE ga CAT A o QUICKLY CHASED"),
        ("the dog waited near every king", "DOG THE ga KING EVERY NEAR WAITED"),
        ("the dog under a tree waited", None),  # no such word
        ("the dog under a bird waited", "BIRD A UNDER DOG THE ga WAITED"),
        (
            "the dog near a bird chased every big cat",
            "BIRD A NEAR DOG THE ga CAT BIG EVERY o CHASED",
        ),
        ("the dog that waited smiled", "WAITED THAT DOG THE ga SMILED"),
        ("the dog that chased a cat smiled", "CAT A o CHASED THAT DOG THE ga SMILED"),
        ("the dog that a cat chased smiled", "CAT A ga CHASED THAT DOG THE ga SMILED"),
        ("a cat was chased by the big dog", "DOG BIG THE ga CAT A o CHASED"),
        (
            "the dog waited while a cat was helped by no king",
            "DOG THE ga WAITED KING NO ga CAT A o HELPED WHILE",
        ),
    ],
)
def test_translations_by_hand(sentence, translation):
    if translation is None:
        with pytest.raises(DataError, match="Unknown word 'tree'"):
            verb_final.translate(sentence)
    else:
        assert verb_final.translate(sentence) == translation


def test_active_and_passive_are_told_alike():
    assert verb_final.translate("the dog chased a cat") == verb_final.translate("a cat was chased by the dog")


@given(some_sentence)
def test_every_word_is_translated_once_and_verbs_come_last(sentence):
    said = verb_final.translate(sentence).split()
    kept = [word.upper() for word in sentence.split() if word not in ("was", "by")]
    assert sorted(word for word in said if word not in (verb_final.ACTS, verb_final.ACTED_ON)) == sorted(kept)
    last = said[-2] if said[-1].lower() in english.JOINTS else said[-1]
    assert english.CLASS[last.lower()] in ("VI", "VT")


@given(some_sentence)
def test_dependencies_are_a_tree_and_tell_no_word(sentence):
    tokens = verb_final.parse(sentence)
    assert [token.text for token in tokens] == sentence.split() and [token.i for token in tokens] == [
        *range(len(tokens))
    ]
    assert [token.dep_ for token in tokens if token.head is token] == ["ROOT"]
    for token in tokens:
        steps = 0
        while token.head is not token:
            token, steps = token.head, steps + 1
            assert steps < len(tokens)
    told = english.structure(sentence)
    other = english.sentences(told, 3, 7)[-1]
    one, two = structures_from_text([sentence, other], "dependency", verb_final.Parser())
    assert one == two and len(one.split()) == len(tokens)


def test_dependencies_by_hand_and_alike_over_determiners():
    told = structures_from_text(
        [
            "the dog waited",
            "no cat smiled",
            "a big cat was chased by the dog",
            "the dog that a cat chased waited near the king",
            "the dog waited while a cat was helped by no king",
        ],
        "dependency",
        verb_final.Parser(),
    )
    assert told[0] == told[1] == "det+1 nsubj+1 ROOT"
    assert told[2] == "det+2 amod+1 nsubjpass+2 auxpass+1 ROOT agent-1 det+1 pobj-2"
    assert told[3] == "det+1 nsubj+5 dobj+3 det+1 nsubj+1 relcl-4 ROOT prep-1 det+1 pobj-2"
    joined = "det+1 nsubj+1 ROOT cc-1 det+1 nsubjpass+2 auxpass+1 conj-5 agent-1 det+1 pobj-2"
    assert told[4] == joined
    alike = similarities(told)
    assert alike[0, 1] == 1 and 0 < alike[0, 2] < 1
    (form,) = structures_from_text(["the dog waited"], "pos", verb_final.Parser())
    assert form == "the NOUN VERB"


def test_new_words_are_trained_in_their_frames_beside_old_ones():
    train, test = verb_final.split(60, 6, seed=1)
    new = {word for words in english.NEW.values() for word in words}
    framed = [text for text in train if new & {*text.split()}]
    assert framed and {english.structure(text) for text in framed} == {*english.FRAMES.values()}
    old = {english.structure(text) for text in train if not new & {*text.split()}}
    assert {*english.FRAMES.values()} < old
    assert all(len(new & {*text.split()}) == 1 for text in test)
    assert not {english.structure(text) for text in test} & {*english.FRAMES.values()}
    assert {english.structure(text) for text in test} <= old
    assert verb_final.split(60, 6, seed=1) == (train, test) != verb_final.split(60, 6, seed=2)


def test_rows_with_swapped_words_are_true_and_reach_every_new_word():
    train, _ = verb_final.split(200, 12)
    pairs = [(text, verb_final.translate(text)) for text in train]
    alone = {*swaps.find(pairs, [""] * len(pairs))}
    for level in ("grammar", "dependency"):
        told = structures_from_text(train, level, verb_final.Parser())
        more = swaps.augmented(pairs, told, 0, 1)
        wrong = [(text, said) for text, said in more if said != verb_final.translate(text)]
        assert more and not wrong
        framed = english.FRAMES.values()
        words = {word for text, _ in more if english.structure(text) not in framed for word in text.split()}
        assert {word for some in english.NEW.values() for word in some} < words
        found = {*swaps.find(pairs, told)}  # nearly all of it the rows tell alone
        assert found <= alone and all(one.word in english.DETERMINERS for one in alone - found)


def test_rows_are_encoded_and_unknown_words_named():
    row = verb_final.encode("the dog waited", "DOG THE ga WAITED")
    names = {number: word for word, number in verb_final.VOCABULARY.items()}
    assert " ".join(names[i] for i in row["input_ids"]) == (
        "<bos> the dog waited <sep> DOG THE ga WAITED <eos>"
    )
    assert row["prompt_mask"] == [1] * 5 + [0] * 5
    assert row["labels"] == [-100] * 5 + row["input_ids"][5:]
    with pytest.raises(DataError, match="Unknown word 'HUND'"):
        verb_final.encode("the dog waited", "HUND THE ga WAITED")
    with pytest.raises(DataError, match="no sentence of this grammar"):
        verb_final.parse("waited the dog")
    with pytest.raises(DataError, match="contents"):
        verb_final.split(60, 1)
