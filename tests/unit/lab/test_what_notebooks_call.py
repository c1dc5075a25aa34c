"""What a reader of a notebook sees through `shown` and `check`, which all notebooks share."""

import base64
import io

import matplotlib.pyplot as plt
import pandas as pd
import pytest
from PIL import Image

from causalnb.errors import DataError, LabError
from causalnb.lab import evidence, notebooks, pictures, tables

TABLE = tables.Table("toy.table1", ["arm", "score"], [["a | b", 0.5]], "Scores")


@pytest.fixture
def seen(monkeypatch):
    """What is displayed: data by MIME type, or the object itself, in order."""
    found = []
    monkeypatch.setattr("IPython.display.display", lambda one, **_: found.append(one))
    return found


def fails(error):
    raise error


@pytest.mark.parametrize(
    "made, markdown",
    [
        ("a **text**", "a **text**"),
        (["one", "two"], "- one\n- two"),
        (TABLE, TABLE.markdown()),
    ],
)
def test_texts_lists_and_tables_are_shown_as_markdown(seen, made, markdown):
    notebooks.shown(lambda: made)
    (one,) = seen
    assert one._repr_markdown_() == markdown and "Summary" not in repr(one) and "rows=" not in repr(one)


def test_another_object_is_shown_as_it_is_and_arguments_are_handed_on(seen):
    notebooks.shown(pd.Series, [1, 2])
    assert isinstance(seen[0], pd.Series) and [*seen[0]] == [1, 2]


@pytest.mark.parametrize(
    ("apart", "said"), [(0.0, "below 1e-12"), (8e-12, "below 1e-09"), (2e-7, "below 1e-06"), (0.2, "2e-01")]
)
def test_a_difference_is_said_so_that_its_rounding_does_not_show(apart, said):
    assert notebooks.below(apart) == said


def test_a_figure_is_shown_with_its_alt_text_at_the_resolution_and_closed(seen):
    def drawn(width):
        fig, ax = plt.subplots(figsize=(width, 1))
        ax.plot([0, 1])
        return fig, "A line that rises from left to right."

    notebooks.shown(drawn, 2, dpi=50)
    (data,) = seen
    assert data["text/plain"].startswith("A line") and plt.get_fignums() == []
    assert (
        Image.open(io.BytesIO(base64.b64decode(pictures.PICTURE.fullmatch(data["text/html"])[2]))).width
        == 100
    )


def test_missing_results_are_one_sentence(seen):
    notebooks.shown(fails, LabError("3 of 5 results\n are not there: run them."))
    assert [one._repr_markdown_() for one in seen] == [
        "*Not there yet:* 3 of 5 results are not there: run them."
    ]


def test_missing_data_are_one_sentence_that_keeps_the_stored_outputs(seen):
    notebooks.shown(fails, DataError("rows.txt is not on this machine."))
    (data,) = seen
    assert data["text/markdown"] == "*rows.txt is not on this machine.*" and notebooks.MISSING in data


def test_another_error_is_not_swallowed(seen):
    with pytest.raises(ZeroDivisionError):
        notebooks.shown(lambda: 1 / 0)
    assert seen == []


def test_nothing_is_trained_for_it_unless_it_is_live(lab, seen):
    def required():
        return f"{len(evidence.require('toy.sum'))} runs"

    notebooks.shown(required)
    assert "are not there: `causalnb run toy.sum" in seen[0]._repr_markdown_()
    notebooks.shown(required, live=True)
    assert seen[1]._repr_markdown_().endswith(" runs")
    notebooks.shown(required)
    assert seen[2]._repr_markdown_() == seen[1]._repr_markdown_()


@pytest.mark.parametrize(
    "answer, told",
    [
        (None, "Exercise 2 is unanswered: fill in answer_2."),
        (4, "Right."),
        (0, "Not yet. Take its root."),
        ("x", 'Your answer raises TypeError: can only concatenate str (not "int") to str. Take its root.'),
    ],
)
def test_a_student_is_told_what_the_answer_is_worth(answer, told):
    assert notebooks.check(2, answer, lambda given: given + 5 == 9, "Take its root.") == told
