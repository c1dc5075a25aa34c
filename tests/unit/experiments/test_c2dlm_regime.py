"""The map of where guidance pays, on made-up results with known numbers."""

import pytest

from causalnb.experiments.c2dlm.artefacts import regime
from causalnb.lab import building
from causalnb.lab.report import values
from tests.unit.experiments import made_up

LEVEL = {
    "diffusion": 0.5,
    "placebo": 0.4,
    "c2dlm": 0.6,
    "isolated": 0.5,
    "half_swapped": 0.9,
    "enforced": 0.97,
}


def level(arm: str) -> float:
    """C2DLM is above SFT where the cue is at least .95, below elsewhere."""
    name, rows, cue = arm.rsplit("_", 2)
    turned = -1 if name == "c2dlm" and int(cue.removeprefix("cue")) < 95 else 1
    return 0.5 + turned * (LEVEL[name] - 0.5) + int(rows.removeprefix("n")) / 100_000


@pytest.fixture(autouse=True)
def stored(monkeypatch, tmp_path):
    made_up.moved(monkeypatch, tmp_path)
    made_up.everything(
        monkeypatch, {regime.HOME: 2}, lambda id, arm, seed: {"ood": {"accuracy": level(arm) + 0.01 * seed}}
    )


def test_the_map_has_a_cell_for_each_cue_and_number_of_rows():
    plain = regime.accuracies("diffusion", "quick")
    assert plain.shape == (3, 3) and plain[0].tolist() == pytest.approx([50.9] * 3)
    assert regime.gains("c2dlm", "quick")[2].tolist() == pytest.approx([-10, -10, 10])


def test_gains_are_of_the_seeds_that_both_have(monkeypatch):
    known = {"diffusion": {0: 0.5, 1: 0.9}, "c2dlm": {0: 0.6}}  # plain SFT's mean is above C2DLM's
    monkeypatch.setattr(regime, "trained", lambda name, rows, cue: values(lambda profile: known[name]))
    assert regime.gains("c2dlm", "quick").ravel().tolist() == pytest.approx([10.0] * 9)


def test_it_is_built_and_says_where_guidance_pays():
    building.build("c2dlm.regime", "quick")
    assert building.status("c2dlm.regime", "quick")[0] == "built"
    _, alt = regime.regime_figure("quick")
    assert "C2DLM adds -10 to +10 points, above 0 in 3 of 9 cells" in alt
    assert "placebo graph adds -10 to -10 points, above 0 in 0 of 9 cells" in alt
    rows = [row for row in regime.regime_table("quick").rows if row[0] == "C2DLM"]
    assert [row[1] for row in rows] == ["400", "1,600", "6,400"] and rows[0][2].startswith("40.9 ")


def test_the_cells_chosen_by_seed_0_are_judged_on_the_others(monkeypatch):
    def stored(id, arm, seed):
        lucky = 0.4 if seed == 0 and arm == "c2dlm_n400_cue50" else 0.0
        return {"ood": {"accuracy": level(arm) + 0.01 * seed + lucky}}

    made_up.everything(monkeypatch, {regime.HOME: 5}, stored)
    rows = [row for row in regime.regime_again("quick").rows if row[:2] == ["400", "0.5"]]
    assert [row[2] for row in rows] == [
        "C2DLM - diffusion, SFT",
        "placebo graph - diffusion, SFT",
        "C2DLM - placebo graph",
    ]
    assert [row[3] for row in rows] == ["-10.0 [-10.0, -10.0] (4)"] * 2 + ["+0.0 [+0.0, +0.0] (4)"]


def test_twice_the_steps_are_compared_with_once(monkeypatch):
    made_up.everything(
        monkeypatch,
        {regime.HOME: 2, regime.LONGER: 2},
        lambda id, arm, seed: {
            part: {"accuracy": level(arm) + 0.05 * (id == regime.LONGER)} for part in ("iid", "ood")
        },
    )
    found = {tuple(row[:3]): row[4] for row in regime.longer_table("quick").rows}
    assert len(found) == 8
    assert found["400", "0.5", "SFT, twice the steps - once"].startswith("+5.0")
    assert found["400", "0.5", "C2DLM - SFT, both twice"].startswith("-10.0")
    assert found["1,600", "0.5", "C2DLM, once - SFT, twice"].startswith("-15.0")
