"""Students' copies of a small course: gaps, what fills them, hints, checks; tutors' copies and slides."""

import json

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell

from causalnb.course import checking, copies, desk, slides, source
from causalnb.errors import LabError

ALT = "A line that rises from left to right."
LITERAL = "def literal_mean(x):  # (n,) -> number\n    total = sum(x)\n    return total / len(x)\n\n\n"


def test_tasks_are_found_with_difficulty_minutes_and_checks(book):
    function, exercise = book.tasks
    assert function[:2] == ("literal_mean", "function") and function.cell == 2 and function.checks == (2,)
    assert exercise[:4] == ("1", "exercise", 1, 5) and exercise.checks == (6,)
    assert 1 <= function.difficulty <= 5 and book.reading >= 1 and source.stated(book.path) == 120


def test_a_function_that_nothing_checks_is_not_blanked(book):
    book.cells[2]["source"] = LITERAL + "print(literal_mean([1]))"
    assert [task.kind for task in book.tasks] == ["exercise"]


def test_minutes_are_counted_at_200_words_and_ten_lines(book):
    book.cells[:] = [new_markdown_cell("# T\n\n" + "word " * 999), new_code_cell("x = 1\n" * 20)]
    assert book.reading == 7


def test_a_students_copy_has_gaps_and_no_solutions(book):
    made = copies.student(book)
    nbformat.validate(made)
    whole = "\n".join(cell.source for cell in made.cells)
    assert "Nine by three" not in whole and "total / len" not in whole and "forgot one" not in whole
    (gap,) = [cell for cell in made.cells if cell.metadata.get("causalnb", {}).get("write") == "literal_mean"]
    assert "def literal_mean(x):  # (n,) -> number" in gap.source and "\\frac{1}{n}" in gap.source
    assert gap.source.endswith("raise NotImplementedError") and "@write" in gap.source
    assert (
        "| you write | 1 function (about 3 minutes) and 1 exercise (about 5 minutes) |"
        in made.cells[0].source
    )
    (picture,) = [output for cell in made.cells if cell.cell_type == "code" for output in cell.outputs]
    assert f'alt="{ALT}"' in picture.data["text/html"] and "image/png" not in picture.data


def test_nbgrader_collects_gaps_and_grades_checks(book):
    marked = [
        cell.metadata.nbgrader
        for cell in copies.student(book, nbgrader=True).cells
        if "nbgrader" in cell.metadata
    ]
    assert [mark["solution"] for mark in marked] == [True, False, True, False]
    assert [mark.get("points") for mark in marked] == [None, 1, None, 1]


def test_what_is_not_written_is_the_courses_version(book, capsys):
    write, hint = desk.desk("10_means")
    names = {"write": write}
    exec("@write\ndef literal_mean(x):\n    '''Doc.'''\n    raise NotImplementedError", names)
    assert names["literal_mean"]([1, 2, 6]) == 3
    assert "not written yet" in capsys.readouterr().out
    exec("@write\ndef literal_mean(x):\n    return 0", names)
    assert names["literal_mean"]([1, 2, 6]) == 0 and capsys.readouterr().out == ""
    hint("literal_mean", 3)
    assert "return total / len(x)" in capsys.readouterr().out


def test_hints_come_by_degrees(book):
    first, second, third = (desk.hints(book, "literal_mean", degree) for degree in (1, 2, 3))
    assert "2 lines and no loops" in first and "total" not in first
    assert "total = ..." in second and "return ..." in second and "len(x)" in third
    assert desk.hints(book, "1") == "Add, then divide."
    assert desk.hints(book, "1", 2) == "Nine by three." and "check_1(3)" in desk.hints(book, "1", 3)
    for name, degree, said in (
        ("x", 1, "no task 'x'"),
        ("9", 1, "no exercise 9"),
        ("1", 4, "no hint of degree 4"),
    ):
        with pytest.raises(LabError, match=said):
            desk.hints(book, name, degree)


def fill(made, **written):
    for cell in made.cells:
        name = cell.metadata.get("causalnb", {}).get("write")
        if name in written:
            cell.source = written[name]
    return made


@pytest.mark.parametrize(
    "written, outcomes",
    [
        ({"1": "answer_1 = 3"}, ["unwritten", "passed"]),
        (
            {"literal_mean": "def literal_mean(x):\n    return sum(x)", "1": "answer_1 = 4"},
            ["failed", "failed"],
        ),
    ],
)
def test_a_copy_is_checked(book, tmp_path, written, outcomes):
    made = fill(copies.student(book), **written)
    for cell in made.cells:  # a check that a student made easier counts for nothing
        if "check" in cell.metadata.get("causalnb", {}):
            cell.source = "pass"
    path = tmp_path / "work/10.ipynb"
    copies.write(made, path)
    before = path.read_bytes()
    name, found = checking.check(path, "quick", 60)
    assert name == "10_means" and [one.outcome for one in found] == outcomes and path.read_bytes() == before
    assert all(bool(one.why) == (one.outcome == "failed") for one in found)


def test_what_is_no_copy_and_what_lost_its_cells(book, tmp_path, monkeypatch):
    with pytest.raises(LabError, match="is no student's copy"):
        checking.check(book.path)
    monkeypatch.setattr(checking.notebooks, "execute", lambda *_: None)
    made = copies.student(book)
    made.cells = [cell for cell in made.cells if "write" not in cell.metadata.get("causalnb", {})]
    copies.write(made, tmp_path / "short.ipynb")
    assert {one.why for one in checking.check(tmp_path / "short.ipynb")[1]} == {
        "its cell is gone: build the copy again"
    }
    written = "def literal_mean(x):\n    return sum(x) / len(x)"
    copies.write(fill(copies.student(book), literal_mean=written), tmp_path / "whole.ipynb")
    assert [one.outcome for one in checking.check(tmp_path / "whole.ipynb")[1]] == ["passed", "unwritten"]


def test_tutors_see_solutions_wrong_answers_and_where_to_stop(book):
    made = copies.tutor(book)
    nbformat.validate(made)
    notes = "\n".join(cell.source for cell in made.cells if "tutor" in cell.metadata.get("tags", []))
    assert "forgot one" in notes and "Stop here" in notes and "`literal_mean`" in notes
    assert not any(cell.metadata.get("jupyter") for cell in made.cells)


def test_a_section_is_a_slide(book):
    made = slides.slides(book)
    assert [slide.words.splitlines()[0] for slide in made] == [
        "# 10 · Means",
        "## Build",
        "## Look",
        "## Exercises",
        "## Summary",
    ]
    assert "\\frac{1}{n}" in made[1].words and "difficulty 1 of 5" in made[3].words
    assert [cell.metadata.slideshow.slide_type for cell in slides.notebook(book).cells].count("slide") == 5


def test_slides_are_at_most_fifteen(book):
    more = [new_markdown_cell(f"## Part {number}\n\nSome words about it.") for number in range(30)]
    book.cells[3:3] = more
    assert len(slides.slides(book)) == slides.MOST


def test_unknown_notebooks_are_refused(book, tmp_path):
    with pytest.raises(LabError, match="there is no notebook '99': there are 10_means"):
        source.books(["99"])
    (tmp_path / "notebooks/11_bad.ipynb").write_text(json.dumps([]), encoding="utf-8")
    with pytest.raises(LabError, match="cannot be read as a notebook"):
        source.books()
