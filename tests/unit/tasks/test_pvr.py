"""Pointer value retrieval: answers by hand, prompts that can be undone, the published files."""

import json
import os
from collections import Counter
from pathlib import Path

import pytest

from causalnb.errors import DataError
from causalnb.tasks import files, pvr

REAL = Path(os.environ.get("CAUSALNB_DATA", ""), "pvr")
FIRST = (5, 7, 4, 1, 8, 9, 8, 1, 9, 8, 4)


def test_the_first_digit_points():
    assert pvr.solve(FIRST) == 8 and pvr.solve((9, *range(10))) == 9 and pvr.solve((0, 3, *[1] * 9)) == 3
    for wrong in ((1, 2), (10, *range(10)), [-1, *range(10)]):
        with pytest.raises(DataError, match="is no list of pointer value retrieval: give 11 digits"):
            pvr.solve(wrong)


def test_prompts_as_printed():
    text, answer = pvr.prompt(pvr.Problem((FIRST,), (0, 2, *[5] * 9)))
    assert (
        text.split("\n")[1:]
        == ["[5, 7, 4, 1, 8, 9, 8, 1, 9, 8, 4] -> 8", "[0, 2, 5, 5, 5, 5, 5, 5, 5, 5, 5] -> "]
        and answer == "2"
    )


def test_problems_prompts_and_rows():
    problems = pvr.generate(300, seed=1)
    assert problems == pvr.generate(300, seed=1) != pvr.generate(300, seed=2)
    digits = Counter(digit for problem in problems for digit in problem.query)
    assert {*digits} == {*range(10)} and max(digits.values()) < 1.4 * min(digits.values())
    for problem, row in zip(problems, pvr.rows(problems), strict=False):
        assert pvr.parse_prompt(pvr.prompt(problem)[0]) == problem and len(problem.examples) == 4
        assert len(row["words"]) == 5 * 13 + 4 and sum(row["answer"]) == 1 and sum(row["supervised"]) == 5
        assert row["words"][-1] == str(pvr.solve(problem.query)) and row["answer"][-1]
        assert row["words"][:11] == [*map(str, problem.examples[0])]
    assert {word for row in pvr.rows(problems) for word in row["words"]} == {*pvr.WORDS}


def test_load(monkeypatch):
    data = pvr.load(n=5, examples=2)
    assert data["train"].num_rows == 5 and data["train"]["prompt"][0].count("->") == 3
    [problem] = pvr.generate(1)
    monkeypatch.setattr(files, "read", lambda name: line(problem).encode())
    assert pvr.load("file")["train"]["response"][:] == [pvr.prompt(problem)[1]]
    with pytest.raises(DataError, match="Unknown source 'web' of pointer value retrieval"):
        pvr.load("web")
    with pytest.raises(DataError, match="No file of pointer value retrieval has 5 examples; choose one of"):
        pvr.read(5)


def line(problem):
    text, answer = pvr.prompt(problem)
    return json.dumps(
        {"input": [{"role": "system", "content": one} for one in text.split("\n")], "ideal": int(answer)}
    )


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda text: text[1:], "must begin with the instruction"),
        (lambda text: text.split("\n")[0], "must begin with the instruction"),
        (lambda text: text.replace("-> ", "-> 9"), "Line 2 of a prompt of pointer value retrieval"),
        (lambda text: text[:-4], "Line 6 of a prompt"),
        (lambda text: text + "3", "Line 6 of a prompt"),
    ],
)
def test_a_wrong_prompt_is_refused(change, sentence):
    with pytest.raises(DataError, match=sentence):
        pvr.parse_prompt(change(pvr.prompt(pvr.generate(1)[0])[0]))


def test_wrong_lines_are_numbered():
    problems = pvr.generate(2)
    text = "".join(f"{line(problem)}\n" for problem in problems)
    assert pvr.parse_lines(text, "few.jsonl") == problems
    wrong_ideal = json.dumps({**json.loads(line(problems[0])), "ideal": 10})
    for wrong in (line(problems[0])[:-9], "[]", line(problems[0]).replace("]", ""), wrong_ideal):
        with pytest.raises(DataError, match="few.jsonl, line 3: expected JSON with input, lists of 11"):
            pvr.parse_lines(f"{text}{wrong}\n", "few.jsonl")


@pytest.mark.skipif(not REAL.is_dir(), reason="needs CAUSALNB_DATA, a mirror of the data files")
def test_the_published_files():
    for examples, n in ((3, 1000), (4, 250)):
        problems = pvr.read(examples)
        assert len(problems) == n and {len(problem.examples) for problem in problems} == {examples}
        rows = [json.loads(one) for one in files.read(pvr.FILES[examples]).decode().splitlines()]
        for row, problem in zip(rows, problems, strict=False):
            assert pvr.prompt(problem) == (
                "\n".join(one["content"] for one in row["input"]),
                str(row["ideal"]),
            )
