"""When `reproduce` expects to end, and what it says meanwhile."""

import json
import signal
import threading
from datetime import datetime

import pytest

from causalnb.cli import common, course


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CAUSALNB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.parametrize(
    "says, seconds",
    [
        ("| time | about two minutes on a laptop, most of it training |", 120),
        ("**Time.** About 12 minutes; half an hour with reading", 720),
        ("under a minute on a laptop", 60),
        ("a minute and a half on a laptop", 90),
        ("some minutes", 60),
        ("no time at all", 60),
    ],
)
def test_a_notebook_says_how_long_it_takes(tmp_path, says, seconds):
    book = tmp_path / "a.ipynb"
    book.write_text(json.dumps({"cells": [{"source": ["# A title\n", says]}]}), encoding="utf-8")
    assert course.stated(book) == seconds
    book.write_text("no notebook", encoding="utf-8")
    assert course.stated(book) == 60


def test_the_expected_end_follows_what_each_piece_took(cache, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(course.time, "monotonic", lambda: clock[0])
    schedule = course.Schedule("laptop", {"table": 60.0, "book": 600.0})
    schedule.starts("table")
    assert str(schedule).startswith("all done in about 11 min, at ")
    clock[0] = 30.0
    assert "about 10 min" in str(schedule)  # 10.5, to even
    clock[0] = 500.0
    assert "about 10 min" in str(schedule)  # late, but the notebook is still to come
    schedule.ends(500.0)
    schedule.starts("new")
    schedule.ends(1.0, failed=True)
    schedule.starts("book")
    schedule.ends(300.0)
    assert "about 1 s" in str(schedule) and f"{datetime.now():%H}:" in str(schedule)
    again = course.Schedule("laptop", {"table": 60.0, "book": 600.0, "new": 100.0})
    assert sum(again.left.values()) == 900
    assert sum(course.Schedule("quick", {"table": 60.0}).left.values()) == 60


@pytest.mark.parametrize("damage", ["{", "[]", '{"table": "long"}'])
def test_a_damaged_memory_is_no_failure(cache, damage):
    path = cache / "reproduce/laptop.json"
    path.parent.mkdir(parents=True)
    path.write_text(damage, encoding="utf-8")
    assert course.Schedule("laptop", {"table": 60.0}).left == {"table": 60.0}


def test_what_is_not_done_is_told_every_ten_seconds(monkeypatch, capsys):
    clock = [0.0]
    monkeypatch.setattr(common.time, "monotonic", lambda: clock[0])
    with common.steps(2) as step:
        step("a", "cell 1 of 3")
        clock[0] = 10.0
        step("a", "cell 2 of 3")
        clock[0] = 15.0
        step("a", "cell 3 of 3")
        step("a", "9 s", 1.0, done=True)
        clock[0] = 26.0
        step("b")
        step("b", "cell 1 of 1")
    assert capsys.readouterr().err.splitlines() == [
        "[1/2] a: cell 2 of 3",
        "[1/2] a: 9 s",
        "[2/2] b: cell 1 of 1",
    ]


def test_without_a_signal_nothing_changes():
    before = [signal.getsignal(number) for number in common.STOPPING]
    with common.stoppable():
        assert signal.getsignal(signal.SIGTERM) not in before
    assert [signal.getsignal(number) for number in common.STOPPING] == before
    reached = []
    other = threading.Thread(target=lambda: reached.append(common.stoppable().__enter__()))
    other.start()
    other.join()
    assert reached == [None]
