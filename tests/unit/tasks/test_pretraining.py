"""The mix of the small bases: every skill is right by another way of computing it; no later task is in it."""

from fractions import Fraction

import pytest

from causalnb.errors import DataError
from causalnb.tasks import pretraining, sudoku4, words


def drawn(skill, n=300):
    import random

    draw = random.Random(skill)
    return [pretraining.SKILLS[skill](draw) for _ in range(n)]


@pytest.mark.parametrize("skill", ["sum", "product", "formula"])
def test_numbers_are_right(skill):
    for prompt, response in drawn(skill):
        said = prompt.removesuffix(" =").split()
        exact = eval(
            "".join(f"Fraction({word})" if word.lstrip("-").isdigit() else word for word in said),
            {"Fraction": Fraction},
        )
        assert round(exact) == int(response), prompt


def test_lists_are_right():
    assert all(prompt == f"and {response}" for prompt, response in drawn("repeat"))
    assert all(prompt.split()[1:] == response.split()[::-1] for prompt, response in drawn("reverse"))
    for prompt, response in drawn("sort"):
        assert sorted(map(int, prompt.split()[1:])) == [*map(int, response.split())][::-1]
    assert all({*prompt.split()[1:], response} == {*"ABCD"} for prompt, response in drawn("missing"))
    for prompt, response in drawn("lookup"):
        *pairs, mark, key = prompt.split()
        assert mark == "?" and dict(zip(pairs[::2], pairs[1::2], strict=False))[key] == response


def test_latin_squares_are_complete_and_none_is_a_sudoku():
    boxes = 0
    for prompt, response in drawn("latin"):
        asked, cells = prompt.split(), response.split()
        assert len(asked) == len(cells) == 16 and 4 <= asked.count("?") <= 8
        assert all(a in ("?", b) for a, b in zip(asked, cells, strict=False))
        assert not {*cells} & {*"1234"}
        names = sorted({*cells})
        grid = "".join(str(names.index(cell) + 1) for cell in cells)
        assert all(len({*grid[4 * i : 4 * i + 4]}) == len({*grid[i::4]}) == 4 for i in range(4))
        boxes += grid in sudoku4.solutions("0" * 16)
    assert len(pretraining._squares()) == 288 and boxes == 0


def test_rows_are_of_the_vocabulary_and_repeatable():
    rows = pretraining.generate(300, seed=1)
    assert rows[:30] == pretraining.generate(30, seed=1) != pretraining.generate(30, seed=2)
    assert all(len(words.encode(*row)["input_ids"]) <= 64 for row in rows)
    told = ("How many", "Solve", "Who is the oldest", "What is")
    stories = [i for i, (prompt, _) in enumerate(rows) if any(f"{phrase} " in prompt for phrase in told[::2])]
    assert all(any(f"{phrase} " in rows[i][0] for phrase in told) for i in range(2, 300, 3))
    assert set(stories) <= set(range(2, 300, 3)) and len(stories) > 20
    with pytest.raises(DataError, match="0 rows were asked for: ask for at least one."):
        pretraining.generate(0)
