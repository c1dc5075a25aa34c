"""Predictions: what is kept, what is refused, and how they are scored."""

import json

import numpy as np
import pytest

from causalnb.course import claims, predictions
from causalnb.course.predictions import LABELS, predict
from causalnb.errors import LabError

CLAIM = "sci.claim1"


@pytest.fixture(autouse=True)
def work(tmp_path, monkeypatch):
    monkeypatch.setenv("CAUSALNB_WORK", str(tmp_path / "work"))
    return tmp_path / "work"


def test_a_prediction_is_kept_until_another_replaces_it(work, capsys):
    predict(CLAIM, reproduced=0.5, same_direction=0.2)
    predict("c2dlm.claim1", opposite=1)
    assert predictions.stored()[CLAIM] == pytest.approx(
        dict(zip(LABELS, (0.5, 0.2, 0.1, 0.1, 0.1), strict=True))
    )
    predict(CLAIM, undecided=1.0)
    assert predictions.stored()[CLAIM]["undecided"] == 1 and len(predictions.stored()) == 2
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("Kept: reproduced 0.50, same direction 0.20, opposite 0.10")
    assert [path.name for path in work.iterdir()] == ["predictions.json"]


def test_without_probabilities_nothing_is_kept_and_nothing_is_given_away(work, capsys):
    predict(CLAIM)
    said = capsys.readouterr().out
    assert f'predict("{CLAIM}", reproduced=..., same_direction=...' in said and not work.exists()
    predict(CLAIM, reproduced=1)
    capsys.readouterr()
    predict(CLAIM)
    assert capsys.readouterr().out == said


@pytest.mark.parametrize(
    "given, said",
    [
        ({"claim": "sci.claim1000", "reproduced": 1}, "no claim 'sci.claim1000': did you mean sci.claim1"),
        ({"refuted": 0.5}, "no verdict 'refuted': there are reproduced"),
        ({"not_attempted": 0.5}, "no verdict 'not attempted'"),
        ({"reproduced": 1.2}, "reproduced has the probability 1.2"),
        ({"reproduced": float("nan")}, "has the probability nan"),
        ({"reproduced": True}, "has the probability True"),
        ({"reproduced": "half"}, "has the probability 'half'"),
        ({"reproduced": 0.7, "opposite": 0.7}, "sum to 1.4"),
        (dict.fromkeys((label.replace(" ", "_") for label in LABELS), 0.1), "sum to 0.5"),
    ],
)
def test_what_is_no_prediction_is_refused_and_nothing_is_kept(work, given, said):
    with pytest.raises(LabError, match=said):
        predict(given.pop("claim", CLAIM), **given)
    assert not work.exists()


@pytest.mark.parametrize("damage", ["{", "[]", '{"a": 1}', '{"a": {"reproduced": NaN}}', '{"a": {"x": 1}}'])
def test_a_damaged_file_is_named_and_stays(work, damage):
    work.mkdir()
    (work / "predictions.json").write_text(damage, encoding="utf-8")
    for call in (predictions.stored, lambda: predict(CLAIM, reproduced=1)):
        with pytest.raises(LabError, match="predictions.json cannot be read"):
            call()
    assert (work / "predictions.json").read_text(encoding="utf-8") == damage


def test_sliders_keep_their_weights(work, monkeypatch):
    import IPython
    import IPython.display

    shown = []
    monkeypatch.setattr(IPython, "get_ipython", lambda: object())
    monkeypatch.setattr(IPython.display, "display", shown.append)
    predict(CLAIM)
    *sliders, button, said = shown[0].children
    assert [slider.description for slider in sliders] == list(LABELS)
    for slider, value in zip(sliders, (0, 0, 0, 0, 0), strict=True):
        slider.value = value
    button.click()
    assert "at least one verdict" in said.value and not work.exists()
    sliders[0].value, sliders[2].value = 30, 10
    button.click()
    assert said.value.startswith("Kept: reproduced 0.75, same direction 0.00, opposite 0.25")
    assert json.loads((work / "predictions.json").read_text(encoding="utf-8"))[CLAIM]["opposite"] == 0.25


def test_scores_and_base_rates():
    sure = predictions.complete({"reproduced": 1})
    assert predictions.brier(sure, "reproduced") == 0 and predictions.brier(sure, "opposite") == 2
    assert predictions.brier(predictions.complete({}), "excluded") == pytest.approx(0.8)
    rates = predictions.base_rates(["reproduced"] * 3 + ["excluded"])
    assert rates["reproduced"] == 0.75 and np.isclose(sum(rates.values()), 1)
    with pytest.raises(LabError, match="no base rates"):
        predictions.base_rates([])


def test_only_what_the_rule_decides_is_scored(monkeypatch):
    blank = dict.fromkeys(claims.Judged._fields, "")
    words = ("reproduced", "not attempted", claims.ELSEWHERE)
    rows = [claims.Judged(**{**blank, "id": str(at), "verdict": word}) for at, word in enumerate(words)]
    monkeypatch.setattr(claims, "judged", lambda profile: rows)
    assert predictions.decided() == {"0": "reproduced"}
    monkeypatch.setattr(claims, "judged", lambda profile: rows[1:])
    with pytest.raises(LabError, match="no claim is decided in the laptop profile"):
        predictions.decided()
