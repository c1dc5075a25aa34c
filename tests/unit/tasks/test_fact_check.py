"""Fact checking: labels read from the evidence, negation as a shortcut of an exact rate, no leak."""

import re
from collections import Counter

import pytest

from causalnb.errors import DataError
from causalnb.tasks import fact_check


def supported(row: dict) -> bool:
    """Read from the sentences: what the evidence says of the claim's town, against the claim."""
    town, claim = row["sentence2"].rstrip(".").split(" ", 1)
    told = next(said for said in re.findall(r"(\w+) ([^.]+)\.", row["sentence1"]) if said[0] == town)[1]
    plain = (
        claim.replace("was not", "was")
        .replace("does not lie", "lies")
        .replace("does not export", "exports")
        .replace("does not belong", "belongs")
    )
    return (plain in told.split(" and ")) == (plain == claim)


@pytest.fixture(scope="module")
def data():
    return fact_check.load(n_train=2000, n_validation=200, n_test=300, n_challenge=200, seed=1)


def test_every_label_is_what_the_evidence_says():
    for row in fact_check.pairs(1500, 0.2) + fact_check.challenge(300):
        assert supported(row) == (row["label"] == 0), row
        assert (" not " in row["sentence2"]) == row["kind"].startswith("negated")


@pytest.mark.parametrize("minority", [0, 0.01, 0.05, 0.5])
def test_negation_tells_the_label_but_for_the_minority(minority):
    rows = fact_check.pairs(2000, minority)
    assert Counter(row["label"] for row in rows) == {0: 1000, 1: 1000}
    negated = [row["label"] for row in rows if " not " in row["sentence2"]]
    assert abs(negated.count(0) - minority * len(negated)) <= 0.5 and negated.count(1) == 500


def test_the_challenge_is_negated_and_balanced():
    rows = fact_check.challenge(200)
    assert Counter(row["kind"] for row in rows) == {"negated_true": 100, "negated_false": 100}
    assert Counter(row["label"] for row in rows) == {0: 100, 1: 100}


def test_false_values_are_as_often_the_other_towns():
    rows = [row for row in fact_check.pairs(3000, 0) if row["kind"] == "plain_false"]
    value = [row["sentence2"].rstrip(".").rsplit(" ", 1)[1] for row in rows]
    near = sum(
        bool(re.search(rf"\b{said}\b", row["sentence1"])) for said, row in zip(value, rows, strict=False)
    )
    assert 0.4 < near / len(rows) < 0.6


def test_no_evidence_is_in_two_parts(data):
    assert [*data] == ["train", "validation", "test", "challenge"]
    evidence = [said for part in data.values() for said in part["sentence1"]]
    assert len(evidence) == len({*evidence}) == 2700
    same = fact_check.load(n_train=10, n_validation=200, n_test=30, n_challenge=200, minority=0, seed=1)
    assert same["challenge"][:] == data["challenge"][:]
    assert fact_check.pairs(30, seed=2) == fact_check.pairs(30, seed=2) != fact_check.pairs(30, seed=3)
    with pytest.raises(DataError, match="minority of -1 cannot be had with balanced labels: give a share"):
        fact_check.pairs(30, -1)
