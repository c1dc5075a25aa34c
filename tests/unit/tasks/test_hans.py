"""What is published on HANS: the file's format, reports by hand, the audited numbers of the real files."""

import os

import numpy as np
import pytest

from causalnb.errors import DataError
from causalnb.tasks import files, hans, overlap

needs_files = pytest.mark.skipif(
    not os.environ.get("CAUSALNB_DATA"), reason="needs CAUSALNB_DATA, a mirror of the data files"
)


def tsv(rows: list[dict]) -> str:
    lines = [
        [
            overlap.LABELS[row["label"]],
            "( x )",
            "( y )",
            "(ROOT x)",
            "(ROOT y)",
            row["sentence1"],
            row["sentence2"],
            f"ex{i}",
            row["heuristic"],
            row["subcase"],
            row["template"],
        ]
        for i, row in enumerate(rows)
    ]
    return "".join("\t".join(line) + "\n" for line in ([*hans.COLUMNS], *lines))


def test_the_file_is_read_as_generated_rows(tmp_path):
    rows = overlap.challenge(2)
    path = tmp_path / "heuristics_evaluation_set.txt"
    path.write_text(tsv(rows), encoding="utf-8")
    assert hans.read(path) == [{**row, "pairID": f"ex{i}"} for i, row in enumerate(rows)]


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("non-entailment", "no", "line 2: 'no' is no label; expected one of entailment, non-entailment"),
        ("ln_passive", "ln_active", "line 5: 'ln_active' is no subcase of HANS"),
        ("ex3\t", "", "line 5: expected 11 columns .gold_label, .*, template. with tabs"),
        ("pairID", "pair", "line 1: expected 11 columns"),
    ],
)
def test_wrong_lines_are_named(old, new, sentence):
    text = tsv(overlap.challenge(1)).replace(old, new)
    with pytest.raises(DataError, match=f"^hans.txt, {sentence}"):
        hans.parse(text, "hans.txt")


def test_a_path_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(DataError, match="none.txt cannot be read as HANS .*: give the path of its TSV file"):
        hans.read(tmp_path / "none.txt")


def test_report_by_hand():
    known = ("ln_passive", "le_passive", "se_adjective")
    rows = [row for row in overlap.challenge(1) if row["subcase"] in known]
    found = hans.report(rows, ["neutral", 1, "entailment"])
    assert found == {
        "accuracy": 2 / 3,
        "non-entailment": 1.0,
        "entailment": 0.5,
        "heuristics": {
            "non-entailment": {"lexical_overlap": 1.0},
            "entailment": {"lexical_overlap": 0.0, "subsequence": 1.0},
        },
        "subcases": {"ln_passive": 1.0, "le_passive": 0.0, "se_adjective": 1.0},
    }
    with pytest.raises(DataError, match="2 predictions for 3 rows: give one for each row"):
        hans.report(rows, [0, 1])
    with pytest.raises(DataError, match="'maybe' is no prediction on HANS; give one of 'entailment', "):
        hans.report(rows, [0, 1, "maybe"])


def test_a_constant_answer_is_right_half_of_the_time():
    rows = hans.published_rows()
    assert len(rows) == 30_000
    found = hans.report(rows, [0] * len(rows))
    assert (found["accuracy"], found["entailment"], found["non-entailment"]) == (0.5, 1, 0)
    assert [*found["subcases"]] == [*overlap.SUBCASES]


def predicted() -> list[str]:
    return ["pairID,gold_label", *(f"ex{i},neutral" for i in reversed(range(30_000)))]


@pytest.mark.parametrize(
    ("place", "line", "sentence"),
    [
        (1, "ex5,neutral", "line 29996: expected a new pairID and a label, .* found 'ex5,neutral'"),
        (2, "ex30000,neutral", "line 3: expected a new pairID"),
        (2, "ex29998,maybe", "line 3: expected a new"),
        (2, "29998,neutral", "line 3: expected a new"),
    ],
)
def test_wrong_predictions_are_named(place, line, sentence):
    lines = predicted()
    lines[place] = line
    with pytest.raises(DataError, match=f"^some.txt, {sentence}"):
        hans.parse_predictions("\n".join(lines), "some.txt")


def test_predictions_are_put_in_order():
    lines = predicted()
    lines[-3] = "ex2,entailment"
    said = hans.parse_predictions("\n".join(lines), "some.txt")
    assert [i for i, label in enumerate(said) if label == "entailment"] == [2] and len(said) == 30_000
    with pytest.raises(DataError, match="some.txt has no prediction for 1 of 30000 pairs, such as ex0; take"):
        hans.parse_predictions("\n".join(lines[:-1]), "some.txt")
    with pytest.raises(DataError, match="No predictions of 'GPT' on HANS are published; choose one of BERT"):
        hans.predictions("GPT")


def test_runs_are_read_and_wrong_ones_refused(monkeypatch):
    found = hans.parse_runs("Run,MNLI,ln_passive\nRun 0,0.5,1\nRun 1,.25,0\n\nMean,1,1\n,,\n", "runs.csv")
    assert {name: values.tolist() for name, values in found.items()} == {
        "MNLI": [0.5, 0.25],
        "ln_passive": [1, 0],
    }
    for text in ("Run,MNLI\nRun 0,much\n", "Run,MNLI\nRun 0\n", "Run,MNLI\nMean,1\n", "", "\n\n"):
        with pytest.raises(DataError, match="runs.csv: expected a line of names, then lines that begin with"):
            hans.parse_runs(text, "runs.csv")
    monkeypatch.setattr(files, "read", lambda name: b"one\ttwo\n")
    with pytest.raises(DataError, match="mnli_contradicting_examples, line 1: expected two sentences and a"):
        hans.contradicting()


@needs_files
@pytest.mark.parametrize(
    ("model", "accuracy", "entailed", "wrong"),
    [
        ("BERT", 54.8, (94.6, 99.3, 98.4), (16.4, 3.9, 16.1)),
        ("Decomposable attention", 50.3, None, None),
        ("ESIM", 50.0, None, None),
        ("SPINN", 50.5, None, None),
    ],
)
def test_published_models_score_as_audited(model, accuracy, entailed, wrong):
    found = hans.report(hans.published_rows(), hans.predictions(model))
    assert round(100 * found["accuracy"], 1) == accuracy
    for half, expected in (("entailment", entailed), ("non-entailment", wrong)):
        said = tuple(round(100 * found["heuristics"][half][name], 1) for name in overlap.HEURISTICS.values())
        assert expected in (None, said)
    if model == "BERT":
        assert round(100 * found["subcases"]["ln_subject/object_swap"], 1) == 0.1


@needs_files
@pytest.mark.parametrize(
    ("column", "mean", "deviation", "ends"),
    [
        ("MNLI dev acc.", 84.34, 0.24, None),
        ("Overall accuracy", 56.7, 2.4, (52.7, 62.7)),
        ("Lexical (nonent)", 27.7, 12.4, (5.2, 54.5)),
        ("ln_subject/object_swap", 19.0, 17.3, (0.0, 66.2)),
    ],
)
def test_the_hundred_runs_are_as_audited(column, mean, deviation, ends):
    runs = hans.bert_runs()
    assert {*overlap.SUBCASES} <= {*runs} and {values.shape for values in runs.values()} == {(100,)}
    values, digits = 100 * runs[column], 2 if ends is None else 1
    assert (round(values.mean(), digits), round(np.std(values, ddof=1), digits)) == (mean, deviation)
    assert ends in (None, (round(values.min(), 1), round(values.max(), 1)))


@needs_files
def test_the_contradicting_pairs():
    rows = hans.contradicting()
    assert len(rows) == 261 and {row["label"] for row in rows} == {1}
    assert rows[0]["sentence2"] == "I am keeping back facts."
