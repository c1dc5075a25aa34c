"""Files of sentence pairs that a reader has, in the shapes in which they are published."""

import json
import os

import pytest

from causalnb import tasks
from causalnb.errors import DataError
from causalnb.tasks import files, hans, pair_files, paraphrase

HANS = dict.fromkeys(hans.COLUMNS, "x") | {
    "gold_label": "non-entailment",
    "sentence1": "The senator ran .",
    "sentence2": 'The "judge ran .',
}
SNLI = {
    "annotator_labels": ["neutral"],
    "gold_label": "contradiction",
    "sentence1": "A man sleeps.",
    "sentence2": "A man runs.",
}
QUORA = [
    '"id"\t"qid1"\t"qid2"\t"question1"\t"question2"\t"is_duplicate"',
    '"0"\t"1"\t"2"\t"What is ""it""?"\t"What\nis this?"\t"1"',
]
GLUE = ["id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate", '0\t1\t2\tWhat is "it?\tWhat is this?\t0']
PAWS = ["id\tsentence1\tsentence2\tlabel", "1\tFrom Paris to Rome .\tFrom Rome to Paris .\t0"]

PAWS_QQP = [PAWS[0], "\t".join(["1", 'b"Why \'s it ?"', r"b'What was the caf\xc3\xa9 ?'", "1"])]


def write(folder, name, lines):
    (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder / name


def table(*rows):
    return ["\t".join(rows[0]), *("\t".join(row.values()) for row in rows)]


@pytest.mark.parametrize(
    "task, name, lines, expected",
    [
        (
            "overlap",
            "heuristics_evaluation_set.txt",
            table(HANS),
            ("The senator ran .", 'The "judge ran .', 1),
        ),
        (
            "snli",
            "snli_1.0_dev.jsonl",
            [json.dumps(SNLI), "", json.dumps(SNLI | {"gold_label": "-"})],
            ("A man sleeps.", "A man runs.", 2),
        ),
        ("paraphrase", "quora_duplicate_questions.tsv", QUORA, ('What is "it"?', "What\nis this?", 1)),
        ("paraphrase", "dev.tsv", GLUE, ('What is "it?', "What is this?", 0)),
        ("paraphrase", "final.tsv", PAWS, ("From Paris to Rome .", "From Rome to Paris .", 0)),
        ("paraphrase", "dev_and_test.tsv", PAWS_QQP, ("Why 's it ?", "What was the café ?", 1)),
    ],
)
def test_published_shapes_are_read(task, name, lines, expected, tmp_path):
    file = write(tmp_path, name, lines)
    data = tasks.load(task, path=file)
    assert [*data] == ["test"] and data["test"].features["label"].names == [*pair_files.LABELS[task]]
    assert [tuple(row.values()) for row in data["test"]] == [expected]
    parts = tasks.load(task, path={"train": file, "challenge": str(file)})
    assert parts["train"][0] == parts["challenge"][0] == data["test"][0]


@pytest.mark.parametrize(
    "name, lines, said",
    [
        (
            "a.tsv",
            ["id\ttext\tlabel", "1\tx\t0"],
            "line 2: no column is called sentence1 or question1; it has id",
        ),
        ("a.tsv", [*PAWS, "2\tx"], "line 3: expected 4 cells with tabs between them, found 2 in '2 x'"),
        ("a.tsv", [*PAWS, "2\tx\ty\tmaybe"], "line 3: 'maybe' is no label"),
        ("a.tsv", [*PAWS, "2\tx\t \t1"], "line 3: sentence2 is empty"),
        (
            "a.tsv",
            [*PAWS_QQP, "2\tb'Why ?'\tb'Why ?\t1"],
            "line 3: sentence2 should be a bytes literal such as b'Why [?]', found b'Why [?]; take",
        ),
        (
            "a.tsv",
            [PAWS[0], "1\tWhy ?\tWhy not ?\t0", PAWS_QQP[1]],  # the first one is the malformed one
            "line 2: sentence1 should be a bytes literal such as b'Why [?]', found Why [?]; take",
        ),
        ("a.tsv", [*PAWS_QQP, "2\tb''\tb'Why ?'\t1"], "line 3: sentence1 is empty"),
        (
            "a.tsv",
            [*PAWS, "2\t" + 200_000 * "a" + "\ty\t1"],
            "line 3: field larger than field limit .*; take a",
        ),
        (
            "a.tsv",
            ["id\tsentence1\tsentence2\tsentence1\tlabel", "1\ta\tb\tc\t0"],
            "line 1: two columns are called 'sentence1': give each its own name",
        ),
        ("a.tsv", PAWS[:1], "has no pair with a label"),
        (
            "a.jsonl",
            [json.dumps(SNLI | {"label": 1}), json.dumps(SNLI | {"label": 1, "sentence2": None})],
            "line 2: sentence2 is null; expected a text: take a fresh copy",
        ),
        ("a.jsonl", [json.dumps(SNLI | {"label": [1]})], r"line 1: label is \[1\]; expected a text"),
        ("a.jsonl", ["{}", "[1]"], "line 1: no column is called sentence1"),
        ("a.jsonl", ["[1]"], r"line 1: expected a JSON object, found '\[1\]'"),
        ("a.jsonl", ["{"], "line 1: expected a JSON object"),
    ],
)
def test_what_is_malformed_is_named_with_its_line(name, lines, said, tmp_path):
    with pytest.raises(DataError, match=said):
        tasks.load("paraphrase", path=write(tmp_path, name, lines))


def test_a_line_separator_within_a_text_ends_no_line(tmp_path):
    row = SNLI | {"sentence1": "A man\u2028sleeps."}
    file = write(tmp_path, "a.jsonl", [json.dumps(row, ensure_ascii=False)] * 2)
    assert tasks.load("snli", path=file)["test"]["sentence1"][:] == [row["sentence1"]] * 2


def test_a_plain_sentence_may_begin_as_a_literal_does(tmp_path):
    file = write(tmp_path, "a.tsv", [*PAWS, "2\tb'day or 'birthday' ?\tWhy ?\t0"])
    assert tasks.load("paraphrase", path=file)["test"]["sentence1"][1] == "b'day or 'birthday' ?"


@pytest.mark.skipif(
    not os.environ.get("CAUSALNB_DATA"), reason="needs CAUSALNB_DATA, a mirror of the data files"
)
def test_the_published_paws_qqp_is_read_as_by_its_task(tmp_path):
    (tmp_path / "dev_and_test.tsv").write_bytes(files.read(paraphrase.PUBLISHED))
    assert tasks.load("paraphrase", path=tmp_path / "dev_and_test.tsv")["test"].to_list() == paraphrase.read()


def test_what_cannot_be_read_is_said(tmp_path):
    with pytest.raises(DataError, match="none.tsv cannot be read .* give a text file of sentence pairs"):
        tasks.load("snli", path=tmp_path / "none.tsv")
    (tmp_path / "bytes.tsv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="bytes.tsv cannot be read"):
        tasks.load("snli", path=tmp_path / "bytes.tsv")
    with pytest.raises(DataError, match="Task 'scan' reads no file of yours; path is for overlap, snli"):
        tasks.load("scan", path="x")
    with pytest.raises(DataError, match="A file at path is read as it is: leave source out"):
        tasks.load("snli", path="x", source="mnli")


@pytest.mark.parametrize(
    "task, source", [(task, one) for task, some in tasks.ON_THE_HUB.items() for one in some]
)
def test_without_the_hub_one_sentence_says_so(task, source, monkeypatch):
    import datasets

    def refuse(*arguments, **keywords):
        raise RuntimeError("Dataset scripts are no longer supported,\nbut found one")

    monkeypatch.setattr(datasets, "load_dataset", refuse)
    monkeypatch.delenv("CAUSALNB_OFFLINE", raising=False)
    told = "Dataset scripts are no longer supported, but found one.: go online, or (give path=|choose)"
    with pytest.raises(DataError, match=f"'{source}' cannot be had from the hub .{told}"):
        tasks.load(task, source=source)
    monkeypatch.setenv("CAUSALNB_OFFLINE", "1")
    with pytest.raises(DataError, match=f"'{source}' is on the hub and CAUSALNB_OFFLINE forbids"):
        tasks.load(task, source=source)


def test_a_line_that_is_nested_too_deep_is_named(tmp_path):
    file = tmp_path / "deep.jsonl"
    file.write_text("[" * 100_000 + "]" * 100_000, encoding="utf-8")
    with pytest.raises(DataError, match="deep.jsonl, line 1: expected a JSON object"):
        pair_files.read("snli", file)
