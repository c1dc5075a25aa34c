"""A course of one notebook."""

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from causalnb.course import copies, source

PNG = "iVBORw0KGgo="
ALT = "A line that rises from left to right."
LITERAL = "def literal_mean(x):  # (n,) -> number\n    total = sum(x)\n    return total / len(x)\n\n\n"
CHECKING = "assert literal_mean([1, 2, 6]) == 3\nprint('mean')"
EXERCISE = (
    "from causalnb.lab.notebooks import check\n\nanswer_1 = None  # a number\n\n\n"
    "def check_1(answer):\n    return check(1, answer, lambda x: x == 3, 'Add, then divide.')\n\n\n"
    "print(check_1(answer_1))"
)


def course_notebook():
    picture = new_output(
        "display_data", {"image/png": PNG, "text/plain": ALT}, metadata={"image/png": {"alt": ALT}}
    )
    solution = new_code_cell('assert check_1(3) == "Right."\nassert check_1(2) != "Right."  # forgot one')
    solution.metadata = {"tags": ["solution"], "jupyter": {"source_hidden": True}}
    return new_notebook(
        cells=[
            new_markdown_cell("# 10 · Means\n\n| | |\n|---|---|\n| time | about 2 minutes on a laptop |"),
            new_markdown_cell(
                "## Build\n\nThe mean is\n\n$$\\bar x = \\frac{1}{n} \\sum_i x_i .$$\n\n**Predict** it."
            ),
            new_code_cell(LITERAL + CHECKING),
            new_markdown_cell("## Look\n\nA picture follows here."),
            new_code_cell("1 + 1", outputs=[picture]),
            new_markdown_cell("## Exercises\n\n**1 (easy).** The mean of 1, 2 and 6?"),
            new_code_cell(EXERCISE),
            new_markdown_cell("<details><summary>Solution 1</summary>\n\nNine by three.\n\n</details>"),
            solution,
            new_markdown_cell("## Summary\n\n- A mean is a sum over a count."),
        ],
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
    )


@pytest.fixture
def book(tmp_path, monkeypatch):
    monkeypatch.setenv("CAUSALNB_HOME", str(tmp_path))
    path = tmp_path / "notebooks/10_means.ipynb"
    copies.write(course_notebook(), path)
    return source.books(["10"])[0]
