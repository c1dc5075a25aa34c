"""Swapped words: found from pairs of rows of one structure, and right in every row they are made in."""

from itertools import permutations

import pytest

from causalnb.errors import DataError
from causalnb.tasks import scan, swaps, verb_final
from causalnb.tasks.structures import structures_from_text
from causalnb.tasks.swaps import Swap

ROWS = [("walk twice", "I_WALK I_WALK"), ("jump twice", "I_JUMP I_JUMP"), ("walk left", "I_TURN_LEFT I_WALK")]


def test_rows_of_one_structure_show_both_ways():
    assert swaps.find(ROWS, ["_ twice", "_ twice", "_ left"]) == [
        Swap("jump", "walk", "I_JUMP", "I_WALK"),
        Swap("walk", "jump", "I_WALK", "I_JUMP"),
    ]


@pytest.mark.parametrize(
    "rows, structures",
    [
        (ROWS, ["a", "b", "c"]),  # no two rows of one structure
        ([("a b", "x y"), ("c d", "z w")], ["s", "s"]),  # two words of the prompt
        ([("a b", "x y"), ("c b", "z w")], ["s", "s"]),  # two words of the answer
        ([("a b", "x y"), ("c b", "z y z")], ["s", "s"]),  # another length
        ([("a b", "x"), ("c b", "x")], ["s", "s"]),  # nothing follows the word
        (
            [("a b", "x"), ("c b", "y"), ("a d", "x"), ("c d", "z")],
            ["s", "s", "t", "t"],
        ),  # two words equally often
    ],
)
def test_what_shows_no_swap(rows, structures):
    assert swaps.find(rows, structures) == []


def test_the_pair_that_most_rows_show():
    rows = [("a b", "x"), ("c b", "y"), ("a d", "x"), ("c d", "z"), ("a e", "x"), ("c e", "y")]
    assert Swap("a", "c", "x", "y") in swaps.find(rows, ["s", "s", "t", "t", "u", "u"])


def english_rows(structures, contents):
    """(pairs, labels of the grammar) of few sentences, each with its translation."""
    train, _ = verb_final.split(structures, contents)
    return [(text, verb_final.translate(text)) for text in train], structures_from_text(
        train, "grammar", verb_final.Parser()
    )


FEW = [
    ("the dog slept", "DOG THE SLEPT"),
    ("a cat ran", "CAT A RAN"),
    ("the wizard ran", "WIZARD THE RAN"),
    ("a dog ran", "DOG A RAN"),
]


def test_places_and_counts_do_without_pairs_that_differ_in_one_word():
    words = {"a", "the", "cat", "dog", "wizard", "ran", "slept"}
    assert swaps.lexicon(FEW) == {word: word.upper() for word in words}
    found = swaps.by_places(FEW, ["D N V"] * 4)
    assert {(swap.word, swap.other) for swap in found} == {
        pair
        for kin in (("a", "the"), ("cat", "dog", "wizard"), ("ran", "slept"))
        for pair in permutations(kin, 2)
    }
    assert all((swap.said, swap.instead) == (swap.word.upper(), swap.other.upper()) for swap in found)
    shown = {(swap.word, swap.other) for swap in swaps.find(FEW, ["D N V"] * 4)}
    assert shown == {("cat", "dog"), ("dog", "cat")}
    assert swaps.by_places(FEW, [*"abcd"]) == []  # no label says which words may stand for each other


def test_a_word_whose_best_is_tied_has_no_entry():
    assert swaps.lexicon([("a b", "x y")]) == {}
    assert swaps.lexicon([("a b", "x y"), ("a", "x")]) == {"a": "x", "b": "y"}
    with pytest.raises(DataError, match="2 structures for 1 pairs"):
        swaps.by_places([("a", "x")], ["s", "t"])


def test_places_carry_a_class_on():
    rows = [("a", "x"), ("b", "y"), ("b !", "y"), ("c !", "z")]
    found = swaps.by_places(rows, ["s", "s", "t", "t"])
    assert Swap("a", "c", "x", "z") in found and all(swap.word != "!" for swap in found)


def test_places_find_what_pairs_find_and_more_in_few_rows_of_english():
    rows, structures = english_rows(structures=60, contents=4)
    pairs, places = swaps.find(rows, structures), swaps.by_places(rows, structures)
    assert set(pairs) <= set(places) and len(places) > 1.5 * len(pairs)
    more = swaps.augmented(rows, structures, 0, 2, swaps.by_places)
    assert len(more) == 2 * len(rows) and all(verb_final.translate(text) == said for text, said in more)


def test_swaps_are_made_everywhere_and_at_once():
    pair = ("walk and run left and walk", "I_WALK I_TURN_LEFT I_RUN I_WALK")
    chosen = [Swap("walk", "run", "I_WALK", "I_RUN"), Swap("run", "walk", "I_RUN", "I_WALK")]
    assert swaps.swapped(pair, chosen) == ("run and walk left and run", "I_RUN I_TURN_LEFT I_WALK I_RUN")
    assert swaps.swapped(pair, []) == pair


@pytest.mark.parametrize("split", ["add_prim_jump", "template_around_right"])
def test_scan_gets_right_rows_and_some_that_it_lacked(split):
    train, test = scan.split(split)
    structures = [scan.structure(command, "verb_direction") for command, _ in train]
    assert len(swaps.find(train, structures)) == 14
    assert swaps.find(train, [""] * len(train)) == swaps.find(train, structures)  # the rows tell it alone
    more = swaps.augmented(train, structures, 0)
    assert all(scan.interpret(command) == actions for command, actions in more)
    assert more == swaps.augmented(train, structures, 0) != swaps.augmented(train, structures, 1)
    assert len(set(more) & set(test)) > len(test) / 5
    assert len(swaps.augmented(train, structures, 0, 3)) == 3 * len(more)


def test_structures_and_pairs_must_fit():
    with pytest.raises(DataError, match="1 structures for 3 pairs"):
        swaps.find(ROWS, ["s"])
