"""4x4 Sudoku: counts known from enumeration, every drawn puzzle solved again, the published files."""

import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from causalnb.errors import DataError
from causalnb.tasks import files, load, words
from causalnb.tasks import sudoku4 as sudoku

PUZZLE, SOLUTION = "3102200002100320", "3142243142131324"
TWO = "0204040221434321"  # 1 and 3 can change places
REAL = Path(os.environ.get("CAUSALNB_DATA", ""), "sudoku")
UNIQUE = {
    4: 25_728,
    5: 284_160,
    6: 1_041_408,
    7: 2_141_184,
    8: 2_961_024,
    9: 2_958_336,
    10: 2_204_928,
    11: 1_239_552,
    12: 522_624,
    13: 161_280,
    14: 34_560,
    15: 4_608,
    16: 288,
}


def test_all_grids():
    grids = sudoku.grids()
    assert grids.shape == (288, 16) and len(np.unique(grids, axis=0)) == 288
    boxes = grids.reshape(288, 2, 2, 2, 2).transpose(0, 1, 3, 2, 4).reshape(288, 4, 4)
    for units in (grids.reshape(288, 4, 4), grids.reshape(288, 4, 4).transpose(0, 2, 1), boxes):
        assert (np.sort(units, axis=2) == [1, 2, 3, 4]).all()
    assert grids[0].tolist() == [1, 2, 3, 4, 3, 4, 1, 2, 2, 1, 4, 3, 4, 3, 2, 1]


def test_peers_and_graph():
    assert {len(peers) for peers in sudoku.PEERS} == {7} and sum(map(len, sudoku.PEERS)) == 2 * 56
    assert sudoku.PEERS[0] == (1, 2, 3, 4, 5, 8, 12)
    assert all(i in sudoku.PEERS[j] for i in range(16) for j in sudoku.PEERS[i])
    assert {len(causes) for causes in sudoku.GRAPH.values()} == {15} and len(sudoku.GRAPH) == 16
    assert sudoku.GRAPH["answer 0"][:3] == ("clue 0", "clue 1", "answer 1")


def test_unique_puzzles_are_counted():
    assert sudoku.count_unique() == UNIQUE and sum(UNIQUE.values()) == 13_579_680
    few = sudoku.unique_masks()[:, [mask for mask in range(1 << 16) if mask.bit_count() == 4]].sum(axis=1)
    assert Counter(few.tolist()) == {12: 96, 128: 192}


@given(st.integers(0, 287), st.integers(0, (1 << 16) - 1))
def test_a_mask_is_unique_where_there_is_one_solution(grid, mask):
    puzzle = "".join(str(digit) if mask >> i & 1 else "0" for i, digit in enumerate(sudoku.grids()[grid]))
    found = sudoku.solutions(puzzle)
    assert sudoku.unique_masks()[grid, mask] == (len(found) == 1)
    assert sudoku.count_solutions([puzzle, puzzle]).tolist() == [len(found)] * 2
    assert "".join(map(str, sudoku.grids()[grid])) in found


def test_solve():
    assert sudoku.solve(PUZZLE) == SOLUTION and sudoku.solutions(SOLUTION) == [SOLUTION]
    assert len(sudoku.solutions("0" * 16)) == 288


@pytest.mark.parametrize(
    ("puzzle", "sentence"),
    [
        ("1100" + "0" * 12, "1100000000000000 has no solution: cells 1 and 2 of one row both hold 1; empty"),
        ("1000" * 2 + "0" * 8, "no solution: cells 1 and 5 of one column both hold 1"),
        ("1000" + "0100" + "0" * 8, "no solution: cells 1 and 6 of one box both hold 1"),
        ("1230" + "0004" + "0" * 8, "no solution: no rule is broken yet, but its clues fit none of the 288"),
        (TWO, f"Puzzle {TWO} has 2 solutions: they differ in cells 1, 3, 5, 7; fill in one of these"),
        ("0" * 16, "has 288 solutions: they differ in cells 1, 2, .*, 16; fill in one of these"),
        ("0" * 15, "is no 4x4 Sudoku: give 16 digits from 0 to 4"),
        ("5" * 16, "is no 4x4 Sudoku"),
        (None, "None is no 4x4 Sudoku"),
    ],
)
def test_what_cannot_be_solved_is_refused_in_one_sentence(puzzle, sentence):
    with pytest.raises(DataError, match=sentence) as refusal:
        sudoku.solve(puzzle)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("blanks", [0, 8, 12, None])
def test_drawn_puzzles_have_one_solution(blanks):
    drawn = sudoku.sample(250, blanks, seed=3)
    puzzles = [puzzle for puzzle, _ in drawn]
    assert len(set(puzzles)) == 250 and (sudoku.count_solutions(puzzles) == 1).all()
    assert all(sudoku.solve(puzzle) == solution for puzzle, solution in drawn[:20])
    assert blanks is None or {puzzle.count("0") for puzzle in puzzles} == {blanks}
    assert drawn == sudoku.sample(250, blanks, seed=3) != sudoku.sample(250, blanks, seed=4)


def test_every_puzzle_can_be_drawn():
    assert len({puzzle for puzzle, _ in sudoku.sample(25_728, 12)}) == UNIQUE[4]
    everything = sudoku.sample(288, 0)
    assert not {puzzle for puzzle, _ in sudoku.sample(100, 0, exclude=[p for p, _ in everything[:188]])} & {
        puzzle for puzzle, _ in everything[:188]
    }


def test_puzzles_with_several_solutions_can_be_drawn():
    drawn = sudoku.sample(400, 8, unique=False)
    counts = sudoku.count_solutions([puzzle for puzzle, _ in drawn])
    assert 0.6 < (counts == 1).mean() < 0.9 and counts.min() == 1
    assert all(solution in sudoku.solutions(puzzle) for puzzle, solution in drawn)
    assert sudoku.sample(1, 16, unique=False)[0][0] == "0" * 16


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (dict(n=289, blanks=0), "289 .* 0 empty cells cannot be drawn: there are 288 with one solution"),
        (dict(n=1, blanks=13), "there are 0 with one solution"),
        (dict(n=0, blanks=None), "any number of empty"),
        (dict(n=2, blanks=16, unique=False), "there are 1,"),
        (dict(n=2, blanks=17), "17 empty cells .* 0 to 16"),
        (dict(n=2, blanks="8"), "'8' empty cells"),
    ],
)
def test_what_cannot_be_drawn_is_refused(wrong, sentence):
    with pytest.raises(DataError, match=sentence):
        sudoku.sample(**wrong)


def test_ambiguity_by_hand():
    found = sudoku.ambiguity([PUZZLE, TWO])
    assert found["n_solutions"] == {1: 1, 2: 1} and found["several"] == [TWO]
    assert found["puzzle_ceiling"] == 0.75 and found["cell_ceiling"] == (8 + 4 / 2) / 12  # all four differ
    with pytest.raises(DataError, match="has no solution"):
        sudoku.ambiguity(["11" + "0" * 14])


@pytest.mark.parametrize("encoding", sudoku.ENCODINGS)
def test_rendering_and_spans(encoding):
    texts = sudoku.render(PUZZLE, SOLUTION, encoding)
    said = {name: texts[part][start:end] for name, (part, start, end) in sudoku.spans(encoding).items()}
    assert "".join(said[f"clue {i}"] for i in range(16)) == PUZZLE
    assert "".join(said[f"answer {i}"] for i in range(16)) == SOLUTION
    assert {*said} == {*sudoku.GRAPH, *(cause for causes in sudoku.GRAPH.values() for cause in causes)}
    assert sudoku.read_answer(texts[1]) == SOLUTION
    if encoding == "compact":
        assert len(words.encode(*texts)["input_ids"]) == 34
    with pytest.raises(DataError, match="encoding 'long'; choose one of text, compact"):
        sudoku.render(PUZZLE, SOLUTION, "long")


@pytest.mark.parametrize(
    ("response", "read"),
    [
        (f"so 12 ... <answer>\n{SOLUTION}\n</answer> 4", SOLUTION),
        (f"<answer>{SOLUTION}", SOLUTION),
        (f"of 4 cells {SOLUTION}.", SOLUTION),
        ("<answer>3142", "3142" + "0" * 12),
        ("", "0" * 16),
        (f"<answer>{SOLUTION}111</answer>", SOLUTION),
    ],
)
def test_answers_are_read(response, read):
    assert sudoku.read_answer(response) == read


def test_scores():
    assert sudoku.score(PUZZLE, SOLUTION, SOLUTION) == {"cells": 8, "blanks": 8, "solved": 1, "valid": 1}
    one_off = SOLUTION[:2] + "1" + SOLUTION[3:]
    assert sudoku.score(PUZZLE, SOLUTION, one_off) == {"cells": 7, "blanks": 8, "solved": 0, "valid": 0}
    wrong_clue = "1" + SOLUTION[1:]
    assert sudoku.score(PUZZLE, SOLUTION, wrong_clue) == {"cells": 8, "blanks": 8, "solved": 1, "valid": 0}
    empty = "0" * 16
    first, other = sudoku.solutions(empty)[:2]
    assert sudoku.score(empty, first, other)["valid"] == 1 and not sudoku.score(empty, first, other)["solved"]


def test_load():
    data = load("sudoku4", n_train=60, n_test=40, encoding="compact")
    assert {part: rows.num_rows for part, rows in data.items()} == {"train": 60, "test": 40}
    assert data["test"].column_names == ["prompt", "response", "puzzle", "solution", "n_solutions"]
    assert not {*data["train"]["puzzle"]} & {*data["test"]["puzzle"]}
    assert {*data["test"]["n_solutions"]} == {1}
    for options in (dict(source="web"), dict(ambiguous="hide")):
        with pytest.raises(DataError, match="choose 'generator' or 'file', and one of keep, drop, refuse"):
            load("sudoku4", **options)


def test_a_malformed_line_is_numbered():
    good = f"Puzzle,Solution\n{PUZZLE},{SOLUTION}\n"
    assert sudoku.parse_lines(good, "few.csv") == [(PUZZLE, SOLUTION)]
    for wrong in ("x", f"{PUZZLE};{SOLUTION}", f"{PUZZLE},{SOLUTION[::-1]}", f"{PUZZLE},{SOLUTION}1"):
        with pytest.raises(DataError, match="few.csv, line 3: expected a puzzle and its solution"):
            sudoku.parse_lines(f"{good}{wrong}\n", "few.csv")


def test_ambiguous_puzzles_of_a_file(monkeypatch):
    text = f"Puzzle,Solution\n{PUZZLE},{SOLUTION}\n{TWO},1234341221434321\n"
    monkeypatch.setattr(files, "read", lambda name: text.encode())
    kept, dropped = (load("sudoku4", n_train=300, source="file", ambiguous=how) for how in ("keep", "drop"))
    assert kept["test"]["n_solutions"][:] == [1, 2] and dropped["test"]["puzzle"][:] == [PUZZLE]
    assert PUZZLE not in kept["train"]["puzzle"] and kept["grids"].num_rows == 2
    with pytest.raises(DataError, match=f"Puzzle {TWO} has 2 solutions"):
        load("sudoku4", n_train=3, source="file", ambiguous="refuse")


@pytest.mark.skipif(not REAL.is_dir(), reason="needs CAUSALNB_DATA, a mirror of the data files")
def test_the_published_files():
    data = load("sudoku4", n_train=1000, source="file")
    puzzles = data["test"]["puzzle"][:]
    found = sudoku.ambiguity(puzzles)
    assert found["n_solutions"] == {1: 376, 2: 115, 3: 8, 4: 1} and len(found["several"]) == 124
    assert round(found["cell_ceiling"], 3) == 0.936 and round(found["puzzle_ceiling"], 3) == 0.873
    assert {puzzle.count("0") for puzzle in puzzles} == {8} and len({*data["test"]["solution"]}) == 229
    assert {puzzle.count("0") for puzzle in data["grids"]["puzzle"]} == {9}
    assert len({*data["grids"]["solution"]}) == 288 and {*data["grids"]["n_solutions"]} == {1}
    assert not {*puzzles} & {*data["train"]["puzzle"]}
