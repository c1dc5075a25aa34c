"""ARC: rules of our small tasks by hand, prompts that can be undone, the published files."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from causalnb.errors import DataError
from causalnb.tasks import arc, files

REAL = Path(os.environ.get("CAUSALNB_DATA", ""), "arc_agi")
GRID = ((1, 2), (3, 9))


@pytest.mark.parametrize(
    ("rule", "after"),
    [
        ("mirror", [[2, 1], [9, 3]]),
        ("flip", [[3, 9], [1, 2]]),
        ("turn", [[2, 9], [1, 3]]),
        ("transpose", [[1, 3], [2, 9]]),
        ("double", [[1, 2, 1, 2], [3, 9, 3, 9]]),
        ("reflect", [[1, 2, 2, 1], [3, 9, 9, 3]]),
        ("stack", [[1, 2], [3, 9], [1, 2], [3, 9]]),
        ("next", [[2, 3], [4, 0]]),
    ],
)
def test_rules(rule, after):
    assert arc.RULES[rule](np.array(GRID)).tolist() == after


def test_drawn_problems_follow_one_rule():
    problems = arc.generate(200, seed=1)
    assert problems == arc.generate(200, seed=1) != arc.generate(200, seed=2)
    used = set()
    for problem in problems:
        pairs = [*problem.pairs, (problem.query, problem.answer)]
        fits = {
            name
            for name, rule in arc.RULES.items()
            if all(rule(np.array(before)).tolist() == [[*row] for row in after] for before, after in pairs)
        }
        assert fits and len(pairs) == 4
        used |= fits
    assert used == {*arc.RULES}


def test_prompts_and_rows():
    problem = arc.Problem(((GRID, ((0,),)),), GRID, ((5, 6),))
    text, answer = arc.prompt(problem)
    assert text.split("\n")[1:] == ["[[1, 2], [3, 9]] -> [[0]]", "[[1, 2], [3, 9]] -> "]
    assert answer == "[[5, 6]]"
    [row] = arc.rows([problem])
    assert row["words"] == "1 2 , 3 9 > 0 ; 1 2 , 3 9 > 5 6".split()
    assert row["answer"] == [False] * 14 + [True] * 2
    assert arc.rows([problem], limit=15) == [] and len(arc.rows([problem], limit=16)) == 1
    [row] = arc.rows([problem], limit=5, cut=True)
    assert row["words"] == "1 2 , 3 9".split() and not any(row["answer"])
    for one in arc.generate(50):
        assert arc.parse_prompt(arc.prompt(one)[0]) == (one.pairs, one.query)
        assert arc.parse_grid(arc.prompt(one)[1]) == one.answer
    assert {word for row in arc.rows(arc.generate(50)) for word in row["words"]} == {*arc.WORDS}


@pytest.mark.parametrize(
    "text", ["", "[]", "[[]]", "[[1], [1, 2]]", "[[10]]", "[[1.0]]", "[[1]", "[[1],[2]]", "3", "[1]"]
)
def test_no_grid(text):
    with pytest.raises(DataError, match="is no grid: give rows of digits, all of one length"):
        arc.parse_grid(text)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text[1:],
        lambda text: text.split("\n")[0],
        lambda text: text[:-4],
        lambda text: text + "[[1]]",
        lambda text: text.replace(" -> ", " ", 1),
    ],
)
def test_a_wrong_prompt_is_refused(change):
    with pytest.raises(DataError, match="is no prompt of ARC: expected the instruction, pairs of grids"):
        arc.parse_prompt(change(arc.prompt(arc.generate(1)[0])[0]))


def line(problem):
    text, answer = arc.prompt(problem)
    return json.dumps({"input": [{"role": "user", "content": text}], "ideal": answer})


def test_wrong_lines_are_numbered():
    problems = arc.generate(2)
    text = "".join(f"{line(problem)}\n" for problem in problems)
    assert arc.parse_lines(text, "few.jsonl") == problems
    for wrong in (line(problems[0])[:-9], "[]", line(problems[0]).replace("]]", "]")):
        with pytest.raises(DataError, match="few.jsonl, line 3: expected JSON with input, pairs of grids"):
            arc.parse_lines(f"{text}{wrong}\n", "few.jsonl")


def test_load(monkeypatch):
    data = arc.load(n_train=5, n_test=3)
    assert {part: rows.num_rows for part, rows in data.items()} == {"train": 5, "test": 3}
    [problem] = arc.generate(1)
    monkeypatch.setattr(files, "read", lambda name: line(problem).encode())
    assert arc.load("file")["test"]["response"][:] == [arc.prompt(problem)[1]]
    with pytest.raises(DataError, match="Unknown source 'web' of ARC"):
        arc.load("web")
    with pytest.raises(DataError, match="Unknown part 'val' of ARC; choose one of train, test"):
        arc.read("val")


@pytest.mark.skipif(not REAL.is_dir(), reason="needs CAUSALNB_DATA, a mirror of the data files")
def test_the_published_files():
    for part, n, small in (("train", 416, 133), ("test", 419, 56)):
        problems = arc.read(part)
        assert len(problems) == n and len(arc.rows(problems, 512)) == small
        assert {len(row["words"]) <= 64 for row in arc.rows(problems, 64, cut=True)} == {True}
        lines = files.read(f"arc_agi/symbolic_hard_{part}.jsonl").decode().splitlines()
        rows = [json.loads(one) for one in lines]
        for row, problem in zip(rows[:50], problems, strict=False):
            assert arc.prompt(problem) == ("\n".join(one["content"] for one in row["input"]), row["ideal"])
