"""Pairs of sentences: words and overlap by hand, tables refused by line, the hub asked by name."""

import datasets
import pytest

from causalnb.errors import DataError
from causalnb.tasks import overlap, paraphrase, sentence_pairs, snli

COLUMNS = ("sentence1", "sentence2")


def row(one: str, two: str, label: int = 0) -> dict:
    return {"sentence1": one, "sentence2": two, "label": label}


def test_words_and_overlap_by_hand():
    assert sentence_pairs.words("Don't, said 2 Cats!") == ["don't", "said", "2", "cats"]
    assert sentence_pairs.overlap("The cat sat.", "the cat SAT") == 1
    assert sentence_pairs.overlap("The cat sat.", "The dog sat, the dog slept") == 0.5
    assert sentence_pairs.overlap("The cat.", "...") == 0


def test_statistics_by_hand():
    rows = [row("a b c", "a b"), row("a b c", "a b c", 1), row("a b", "c d", 1), row("a b", "a d", 1)]
    assert sentence_pairs.statistics(rows) == {
        "pairs": 4,
        "pairs_overlapping": 2,
        "pairs_apart": 1,
        "share": 0.25,
        "share_overlapping": 0.5,
        "share_apart": 0,
    }
    with pytest.raises(DataError, match="None of 2 pairs is in the group 'apart': give pairs of every"):
        sentence_pairs.statistics(rows[:2])


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("sentence1\tother\nx\ty\n", 1),
        ("sentence1\tsentence2\nx\ty\nx\n", 3),
        ("sentence1\tsentence2\nx\ty\tz\n", 2),
        ("", 1),
    ],
)
def test_tables_are_refused_by_line(text, line):
    with pytest.raises(DataError, match=f"^a.tsv, line {line}: expected 2 columns .sentence1, sentence2. w"):
        sentence_pairs.table(text, "a.tsv", COLUMNS)


def test_tables_are_read():
    text = 'sentence1\tsentence2\r\n"x\ty"\r\n'
    assert sentence_pairs.table(text, "a.tsv", COLUMNS) == [(2, {"sentence1": '"x', "sentence2": 'y"'})]
    with pytest.raises(DataError, match="a.tsv, line 7: 'maybe' is no label; expected one of yes, no: take"):
        sentence_pairs.label_of("maybe", ("yes", "no"), "a.tsv", 7)


def test_fresh_gives_up():
    seen = set()
    assert sentence_pairs.fresh(lambda: row("x", "y"), seen) == row("x", "y") and seen == {"x"}
    assert sentence_pairs.fresh(lambda: row("a", "x"), seen) == row("a", "x")
    for columns in (("sentence1",), COLUMNS):
        with pytest.raises(DataError, match="Beside 2 sentences no new one like 'x' was found: ask for"):
            sentence_pairs.fresh(lambda: row("x", "z"), seen, columns)
    with pytest.raises(DataError, match="no new one like 'z' was found"):
        sentence_pairs.fresh(lambda: row("z", "x"), seen, COLUMNS)


@pytest.mark.parametrize(
    ("task", "source", "asked", "columns", "parts"),
    [
        (
            overlap,
            "hans",
            ("jhu-cogsci/hans",),
            ("premise", "hypothesis"),
            {"train": "train", "challenge": "validation"},
        ),
        (
            paraphrase,
            "qqp",
            ("nyu-mll/glue", "qqp"),
            ("question1", "question2"),
            {"train": "train", "validation": "validation"},
        ),
        (
            paraphrase,
            "paws_wiki",
            ("google-research-datasets/paws", "labeled_final"),
            ("sentence1", "sentence2"),
            {"train": "train", "validation": "validation", "test": "test"},
        ),
        (
            snli,
            "snli_full",
            ("stanfordnlp/snli",),
            ("premise", "hypothesis"),
            {"train": "train", "validation": "validation", "test": "test"},
        ),
        (
            snli,
            "mnli_full",
            ("nyu-mll/glue", "mnli"),
            ("premise", "hypothesis"),
            {"train": "train", "validation": "validation_matched", "mismatched": "validation_mismatched"},
        ),
    ],
)
def test_the_hub_is_asked_by_name(task, source, asked, columns, parts, monkeypatch):
    def hub(*names):
        assert names == asked
        return {
            part: {columns[0]: ["a", "b"], columns[1]: ["c", part], "label": [-1, 1]}
            for part in parts.values()
        }

    monkeypatch.setattr(datasets, "load_dataset", hub)
    data = task.load(source)
    assert {part: data[part][:] for part in data} == {
        ours: {"sentence1": ["b"], "sentence2": [theirs], "label": [1]} for ours, theirs in parts.items()
    }
    assert data["train"].features["label"].names == [*task.LABELS]
    monkeypatch.setattr(datasets, "load_dataset", lambda *names: {part: {} for part in parts.values()})
    with pytest.raises(DataError, match=f"{asked[0]} on the hub has no '{columns[0]}': its names have"):
        task.load(source)
