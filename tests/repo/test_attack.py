"""A few attacks of every kind, and the attack itself: it finds what it looks for, and says where."""

import time

import pytest

from causalnb.errors import LabError
from tests.attack import table
from tests.attack.table import BAD, KINDS, again
from tests.attack.tries import Kind, Seen, Try, attack, judged, seen

SEED = 1
SAMPLED = [pytest.param(kind, id=kind.name) for kind in KINDS.values() if kind.sample]


@pytest.mark.parametrize("kind", SAMPLED)
def test_nothing_silent_and_nothing_raw(kind):
    outcomes = attack(kind, SEED, kind.sample)
    assert len(outcomes) == kind.sample
    assert not [again(kind.name, SEED, one) for one in outcomes if one.outcome in BAD]


def fails(error):
    raise error


@pytest.mark.parametrize(
    "came, outcome",
    [
        (seen(lambda: 1), "harmless"),
        (seen(lambda: 2), "silent"),
        (seen(lambda: fails(LabError("x.json is damaged: restore it."))), "named"),
        (seen(lambda: fails(LabError("something is damaged: restore it."))), "raw"),
        (seen(lambda: fails(KeyError("x.json"))), "raw"),
        (seen(lambda: fails(RecursionError())), "raw"),
        (Seen(1, "it is as ever; x.json is damaged", refused=True), "named"),
        (Seen(2, "x.json is damaged"), "silent"),
        (Seen(2, "as ever", refused=True), "raw"),
    ],
)
def test_what_came_is_judged(came, outcome):
    assert judged(came, Seen(1, "as ever"), ("x.json",))[0] == outcome


def toy(random, folder):
    """Tries of which the third is silent, and the fourth hangs."""
    for number in range(5):
        came = {2: lambda: Seen(random.random()), 3: lambda: time.sleep(60)}.get(number, lambda: Seen(0))
        yield Try(f"try {number} in {folder.name[:6]}", came, lambda: Seen(0), ("x",), 0.2)


def test_a_fault_fails_the_attack_and_can_be_seen_again(monkeypatch, capsys):
    kinds = {"toy": Kind("toy", toy, 5, 0)}
    for outcomes in (attack(kinds["toy"], 0, 5), attack(kinds["toy"], 0, 5, only=3)):
        assert [(one.number, one.outcome) for one in outcomes if one.outcome in BAD][-1] == (3, "raw")
    assert [one.outcome for one in attack(kinds["toy"], 0, 5)] == ["harmless"] * 2 + [
        "silent",
        "raw",
        "harmless",
    ]

    class Pool:
        """Runs what it is given at once."""

        def __init__(self, *_, **__):
            pass

        __enter__ = lambda self: self  # noqa: E731
        __exit__ = lambda self, *_: None  # noqa: E731

        def submit(self, call, name, seed, count, only):
            return type(
                "Job", (), {"result": lambda _: (name, attack(kinds[name], seed, count, only), 1.0)}
            )()

    monkeypatch.setattr(table, "KINDS", kinds)
    monkeypatch.setattr(table, "ProcessPoolExecutor", Pool)
    monkeypatch.setattr(table, "as_completed", list)
    assert table.main(["toy", "--seed", "7"]) == 1
    said = capsys.readouterr().out
    assert "silent: try 2 in attack" in said and "python -m tests.attack 'toy' --seed 7 --only 2" in said
    assert "toy                     5        0           3         1      1  1 s" in said
    assert table.main(["toy", "--seed", "7", "--only", "4"]) == 0
    with pytest.raises(SystemExit):
        table.main(["other"])
    assert "there is no kind 'other'" in capsys.readouterr().err
