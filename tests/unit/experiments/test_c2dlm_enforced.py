"""The enforced graph's table and figure, on made-up results with known numbers."""

import pytest

from causalnb.experiments.c2dlm.artefacts import enforced
from causalnb.lab import building
from tests.unit.experiments import made_up

IID = {name: 0.98 - 0.02 * place for place, name in enumerate(reversed(enforced.ORDER))}
LOST = {
    name: 0.0 if name in ("enforced", "half_swapped", "half_swapped_s2000") else 0.2
    for name in enforced.ORDER
}


def metrics(experiment, arm, seed):
    iid = IID[arm] + 0.001 * seed
    return {"iid": {"accuracy": iid}, "ood": {"accuracy": iid - LOST[arm]}}


@pytest.fixture(autouse=True)
def stored(monkeypatch, tmp_path):
    made_up.moved(monkeypatch, tmp_path)
    made_up.everything(monkeypatch, {enforced.HOME: 3}, metrics)


def test_the_table_says_what_is_lost_and_what_needs_the_graph():
    rows = {row[0]: row[1:] for row in enforced.enforced_table("quick").rows}
    assert len(rows) == len(enforced.ORDER)
    assert [name for name, row in rows.items() if row[0] == "yes"] == ["graph enforced, at test too (ours)"]
    assert rows["C2DLM"][3].startswith("-20.0 ") and rows["graph enforced, at test too (ours)"][3].startswith(
        "+0.0 "
    )
    gain = 100 * (IID["half_swapped"] - IID["diffusion"] + LOST["diffusion"])
    assert rows["swapped rows, half enforced (ours)"][4].startswith(f"{gain:+.1f} ")
    assert rows["diffusion, SFT"][4] == ""


def test_it_is_built():
    building.build("c2dlm.enforced", "quick")
    assert building.status("c2dlm.enforced", "quick")[0] == "built"
    _, alt = enforced.enforced_figure("quick")
    assert "graph enforced, at test too (ours) 98.1 and 98.1" in alt
