"""The mix of the ICLM base: every skill is right by another way of computing it, and no task is in it."""

import numpy as np
import pytest

from causalnb.errors import DataError
from causalnb.tasks import icl_pretraining, icl_rows, icl_words


def drawn(skill, n=100):
    draw = np.random.default_rng(3)
    return [icl_pretraining.SKILLS[skill](draw) for _ in range(n)]


def said(row):
    return [word for word, answer in zip(row["words"], row["answer"], strict=False) if answer]


def test_lists_are_copied_and_what_is_lacking_is_named():
    for row in drawn("copy"):
        at = row["words"].index(icl_rows.SEPARATOR)
        assert said(row) == row["words"][:at] == row["words"][at + 1 :]
    for row in drawn("lacking"):
        at, mark = row["words"].index(icl_rows.SEPARATOR), row["words"].index(">")
        names, other = row["words"][:mark], row["words"][mark + 1 : at]
        assert {*said(row)} == {*names} - {*other} | {";"}
        assert said(row)[:-1] == [name for name in names if name in said(row)]


def test_what_was_paired_is_looked_up():
    for row in drawn("lookup"):
        text = " ".join(row["words"])
        *pairs, _ = text[: text.rindex(";")].split(" ; ") + [""]
        known = dict(pair.split() for pair in pairs)
        asked = text[text.rindex(";") + 1 :].split(">")
        keys = [part.split()[-1] for part in asked[:-1]]
        assert [known[key] for key in keys] == said(row) and keys


def test_marks_are_those_of_the_groups_a_name_is_in():
    for row in drawn("marks"):
        shown, asked = " ".join(row["words"]).split(f" {icl_rows.SEPARATOR} ")
        groups = [group.split(" > ") for group in shown.removesuffix(" ;").split(" ; ")]
        for one in asked.removesuffix(" ;").split(" ;"):
            name, marks = (part.strip() for part in f"{one} ".split(" >", 1))
            assert marks.split() == [mark for names, mark in groups if name in names.split()]


def test_a_seed_makes_the_same_rows_and_every_word_is_known():
    rows = icl_pretraining.generate(400, 5)
    assert rows == icl_pretraining.generate(400, 5) != icl_pretraining.generate(400, 6)
    assert len(rows) == 400 and all(icl_words.encode(row)["input_ids"] for row in rows)
    assert all(any(row["supervised"]) for row in rows)


def test_half_are_contexts_without_a_query_and_without_a_ninth_panel():
    rows = [row for row in icl_pretraining.generate(480, 5) if not any(row["answer"])]
    acre = [row for row in rows if ">" in row["words"]]
    raven = [row for row in rows if "|" in row["words"]]
    assert len(rows) == 240 and len(acre) == len(raven) == 120
    assert all(row["words"].count(";") == 5 and icl_rows.SEPARATOR not in row["words"] for row in acre)
    assert all(row["words"].count("|") == 5 and row["words"].count(";") == 2 for row in raven)
    assert all(row["words"][-1] not in ("|", ";") for row in raven)
    for part in (acre, raven):  # in both formats
        assert sum(bool({"on", "off", "rotated"} & {*row["words"]}) for row in part) == 60
    inside = sum("inside" in row["words"] or "/" in row["words"] for row in raven)
    several = sum("," in row["words"] for row in raven)
    assert inside == 40 and 30 < several <= 40  # four panels of one figure look like the third kind


def test_at_least_one_row_is_asked_for():
    with pytest.raises(DataError, match="0 rows were asked for: ask for at least one."):
        icl_pretraining.generate(0)
