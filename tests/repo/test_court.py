"""The cards that the course stores are what its court makes of the trainings that lie beside them."""

import json
import shutil

import pytest

from causalnb.apps.court import card, judge
from causalnb.paths import court_dir

CARDS = sorted(path.parent.name for path in court_dir().glob(f"*/{card.CARD}"))
FOUR = {"causal_transformer", "sci", "iclm", "c2dlm"}


def test_the_four_systems_have_a_card():
    assert FOUR <= set(CARDS)


@pytest.mark.parametrize("name", CARDS)
def test_a_card_is_made_of_the_trainings_beside_it(name, tmp_path, monkeypatch):
    """Of five seeds of today's file of the method, on today's tasks: no training is made again."""
    for folder in (judge.CONTROLS, name):
        shutil.copytree(court_dir() / folder, tmp_path / folder)
    again = "a stored training is of another version of its method or task: causalnb try, --output data/court"
    monkeypatch.setattr(judge._Room, "_trained", lambda *_: pytest.fail(again))
    asked = judge.Asked(judge.method_file(name), seeds=5, profile="laptop")
    made = card.write(asked, judge.judge(asked, tmp_path), tmp_path)
    assert tuple(made["tasks"]) == asked.tasks
    for file in (card.CARD, "card.md"):
        assert (tmp_path / name / file).read_bytes() == (court_dir() / name / file).read_bytes()


def test_nothing_lies_there_that_no_card_has():
    for folder in court_dir().iterdir():
        records = [json.loads(path.read_bytes()) for path in folder.glob("*-*-*.json")]
        assert folder.name in {*CARDS, judge.CONTROLS} and records
        assert all(record["arm"] in judge.ARMS and record["seed"] < 5 for record in records)
