"""Chains over graphs of their own: times, gains and speed-ups, on made-up results with known numbers."""

import matplotlib.pyplot as plt
import pytest

from causalnb.experiments.c2dlm.artefacts import varying
from causalnb.lab import building, registry
from tests.unit.experiments import made_up

SLOPE = {"diffusion": 0.1, "c2dlm": 0.2, "placebo": 0.05}  # of steps right, by evaluation


def metrics(id: str, arm: str, seed: int) -> dict:
    score = 0.5 + SLOPE.get(arm, 0.1) + 0.01 * seed
    flow = {"causes": 0.1 + 0.01 * seed, "against": 0.2}
    return {"test": {"steps": score, "exact": score - 0.2}, "flow/weighted": flow}


def history(arm: str) -> list[dict]:
    slope = SLOPE.get(arm, 0.1)
    return [{"step": 50 * i, "loss": 1.0, "steps": min(1.0, slope * i)} for i in range(1, 11)]


@pytest.fixture(autouse=True)
def stored(monkeypatch, tmp_path):
    made_up.moved(monkeypatch, tmp_path)
    made_up.everything(monkeypatch, {varying.HOME: 3, varying.DRAWN: 1, varying.WHY: 2}, metrics, history)
    yield
    plt.close("all")


def by_label(table) -> dict[str, list[str]]:
    return {row[0]: row[1:] for row in table.rows}


def test_times_to_each_level_and_scores():
    rows = by_label(varying.varying_table("quick"))
    assert rows["diffusion (SFT)"][:3] == ["250 (250 to 250)", "350 (350 to 350)", "450 (450 to 450)"]
    assert rows["C2DLM"][:3] == ["150 (150 to 150)", "200 (200 to 200)", "250 (250 to 250)"]
    assert rows["placebo graph"][0] == "500 (500 to 500)"
    assert rows["placebo graph"][1] == "never (never to never; 0 of 3 seeds)" and rows["C2DLM"][3].startswith(
        "71.0 ± "
    )
    assert len(rows) == len(registry.arms(varying.HOME))


def test_gains_are_paired_with_plain_tuning():
    rows = {tuple(row[:2]): row[2:] for row in varying.gains_table("quick").rows}
    assert rows["C2DLM", "diffusion (SFT)"][0].startswith("+10.0")
    assert rows["C2DLM", "placebo graph"][1].startswith("+15.0") and len(rows) == 4


def test_parts_of_the_loss_stand_beside_the_whole():
    rows = by_label(varying.why_table("quick"))
    assert rows["C2DLM"][:2] == ["150 (150 to 150)", "250 (250 to 250)"]
    assert rows["C2DLM, the ratio alone (λ = 0)"][0] == "250 (250 to 250)" and rows["C2DLM"][3].startswith(
        "20.0"
    )
    assert len(rows) == len(registry.arms(varying.WHY))


def test_speed_is_where_plain_tuning_is_at_its_best():
    found = varying.speed_ups("quick")
    assert found["c2dlm"].median == 2.0 and found["placebo"].median is None
    assert found["enforced"].median == 1.0 and "diffusion" not in found


def test_it_is_built_with_its_figure():
    building.build("c2dlm.varying", "quick")
    assert building.status("c2dlm.varying", "quick")[0] == "built"
    _, alt = varying.varying_figure("quick")
    assert "C2DLM ends at 1.00, steps to 90 %: 250 (250 to 250)" in alt
    tried = varying.tried_table("quick").rows
    assert ["C2DLM, the last layer alone", "8", "0.002", "0.3", "3", "60.0 (1)"] in [
        list(row) for row in tried
    ]
    assert ["diffusion (SFT)", "8", "0.004", "", ""] in [list(row[:5]) for row in tried]
    assert len(tried) == len(registry.arms(varying.DRAWN))


def test_the_median_counts_what_never_gets_there(monkeypatch):
    monkeypatch.setattr(varying, "times", lambda *_: {0: 50.0, 1: None, 2: None, 3: 100.0})
    assert varying._reached("diffusion", 0.5, "quick") == "100 (50 to never; 2 of 4 seeds)"
