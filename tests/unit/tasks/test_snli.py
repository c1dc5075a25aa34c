"""Three-class inference: captions by a rule of our own, files refused by line, overlap of the real ones."""

import os
from collections import Counter
from pathlib import Path

import pytest

from causalnb.errors import DataError
from causalnb.tasks import files, sentence_pairs, snli

needs_files = pytest.mark.skipif(
    not os.environ.get("CAUSALNB_DATA"), reason="needs CAUSALNB_DATA, a mirror of the data files"
)
SNLI = "premise\thypothesis\tlabel\nA man sat.\tA man sat.\t0\nA man sat.\tA man ran.\t2\nA dog.\tA cat.\t1\n"
MNLI = "index\tsentence1\tsentence2\tgold_label\n0\tIt is so.\tIt is.\tentailment\n"


def read_caption(row: dict) -> int:
    """The label from the words alone: 1 if something is added, 0 if all is known or wider, else 2."""
    said, known = row["sentence2"].lower(), {*sentence_pairs.words(row["sentence1"])}
    if any(word in said for word in (*snli.ADDED, *snli.REASONS)):
        return 1
    for wide in (snli.PEOPLE, snli.PLACES):
        known |= {kind for name, kind in wide.items() if {*name.split()} <= known}
    return 0 if {*sentence_pairs.words(said)} <= known | {"someone", "the"} else 2


def test_captions_say_what_their_label_is():
    rows = snli.generate(900, seed=2)
    assert Counter(row["label"] for row in rows) == {0: 300, 1: 300, 2: 300}
    assert len({row["sentence1"] for row in rows}) == 900
    for row in rows:
        assert read_caption(row) == row["label"], row
    assert snli.generate(9, seed=1) == snli.generate(9, seed=1) != snli.generate(9, seed=2)


def test_captions_overlap_as_in_the_real_files():
    found = sentence_pairs.statistics(snli.generate(1500))
    assert found["share"] == 1 / 3 and found["share_overlapping"] > 0.95


def test_no_caption_is_in_two_parts():
    data = snli.load(n_train=600, n_validation=90, n_test=90, seed=3)
    assert data.num_rows == {"train": 600, "validation": 90, "test": 90}
    assert len({said for rows in data.values() for said in rows["sentence1"]}) == 780
    assert data["train"].features["label"].names == ["entailment", "neutral", "contradiction"]
    with pytest.raises(DataError, match="Unknown source 'file' of snli; choose one of generator, snli, mnli"):
        snli.load("file")


def test_tables_are_read_and_wrong_lines_refused(monkeypatch):
    assert [row["label"] for row in snli.parse_snli(SNLI, "a.tsv")] == [0, 2, 1]
    assert snli.parse_mnli(MNLI, "a.tsv") == [{"sentence1": "It is so.", "sentence2": "It is.", "label": 0}]
    with pytest.raises(DataError, match="^a.tsv, line 3: '3' is no label; expected one of 0, 1, 2"):
        snli.parse_snli(SNLI.replace("\t2\n", "\t3\n"), "a.tsv")
    with pytest.raises(DataError, match="^a.tsv, line 2: 'maybe' is no label; expected one of entailment"):
        snli.parse_mnli(MNLI.replace("entailment", "maybe"), "a.tsv")
    with pytest.raises(DataError, match="^a.tsv, line 2: expected 3 columns"):
        snli.parse_snli(SNLI.replace("A man sat.\tA man sat.", "A man sat."), "a.tsv")
    for parse, text, column in (
        (snli.parse_snli, SNLI.replace("\tA man ran.", "\t "), "line 3: hypothesis"),
        (snli.parse_snli, SNLI.replace("A dog.", ""), "line 4: premise"),
        (snli.parse_mnli, MNLI.replace("It is.", ""), "line 2: sentence2"),
    ):
        with pytest.raises(DataError, match=f"^a.tsv, {column} is empty; take a fresh copy of the file"):
            parse(text, "a.tsv")
    with pytest.raises(DataError, match="Unknown part 'dev' of the published pairs; choose one of train"):
        snli.read("dev")
    monkeypatch.setattr(files, "read", lambda name: (MNLI if "mnli" in name else SNLI).encode())
    assert snli.load("mnli")["test"]["sentence1"][:] == ["It is so."]
    data = snli.load("snli", n_validation=1)
    assert data["test"].num_rows == 3 and data["train"].num_rows + data["validation"].num_rows == 3
    with pytest.raises(DataError, match="The part 'train' would have 0 rows: ask for at least one"):
        snli.load("snli", n_validation=3)


def test_pairs_of_one_sentence_are_held_out_together():
    rows = [{"sentence1": f"s{i // 3}", "sentence2": str(i), "label": 0} for i in range(30)]
    kept, out = snli.hold_out(rows, 4, seed=0)
    assert len(out) == 6 and sorted(kept + out, key=lambda row: int(row["sentence2"])) == rows
    assert not {row["sentence1"] for row in kept} & {row["sentence1"] for row in out}
    assert snli.hold_out(rows, 0) == (rows, []) and snli.hold_out(rows, 4, seed=1) != (kept, out)


@needs_files
@pytest.mark.parametrize(
    ("part", "audited"),
    [
        ("train", "9,842 | 33.8 % | 333 | 97.6 % | 19.8 %"),
        ("test", "9,824 | 34.3 % | 336 | 98.2 % | 20.2 %"),
        ("mnli", "9,815 | 35.4 % | 253 | 84.6 % | 21.3 %"),
    ],
)
def test_the_real_overlap_is_as_audited(part, audited):
    found = sentence_pairs.statistics(snli.read(part))
    shares = [f"{100 * found[key]:.1f} %" for key in ("share", "share_overlapping", "share_apart")]
    said = [f"{found['pairs']:,}", shares[0], str(found["pairs_overlapping"]), *shares[1:]]
    assert " | ".join(said) == audited
    assert f"| {part} | {audited} |" in (Path(__file__).parents[3] / "data" / "README.md").read_text(
        encoding="utf-8"
    )


@needs_files
def test_the_real_parts_share_no_first_sentence():
    data = snli.load("snli", n_validation=900)
    first = {part: {*rows["sentence1"]} for part, rows in data.items()}
    assert not first["train"] & first["validation"] and not first["train"] & first["test"]
    assert 900 <= data["validation"].num_rows < 920
    assert data["train"].num_rows + data["validation"].num_rows == 9842
