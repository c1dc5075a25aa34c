"""ICLM tuned on a real base, as tables and remarks tell it of made-up results."""

import pytest

from causalnb.experiments.iclm.artefacts import real as made
from causalnb.experiments.iclm.real_data import OF_RAVEN
from causalnb.lab import building, evidence
from tests.unit.experiments.made_up import everything, moved, number

FORMATS = ("text", "symbolic")
HOMES = {home for _, home in made.ARMS.values()}
TO_FIRST = {"text": 0.875, "symbolic": 0.25}  # shares of rows that go to module 0


def metrics(id: str, arm: str, seed: int) -> dict:
    cells = {
        f"{cell}/{format}": {
            "choice": number(id, arm, seed, f"{cell}{format}"),
            "exact": number(id, arm, seed, f"exact {cell}{format}"),
            "module0": TO_FIRST[format],
            "module1": 1 - TO_FIRST[format],
        }
        for cell in OF_RAVEN[False]
        for format in FORMATS
    }
    return {"": {"trainable_parameters": 1234.0, "parameters": 5000.0}, **cells}


def history(arm: str) -> list[dict]:
    looks = ({"choice": 0.25, "forward": 0.5, "pearson": 0.75, "cka": 1.0}, {"choice": 0.5, "forward": 0.25})
    return [{"step": step, "pearson": 0.5, "cka": 0.125, **one} for step, one in enumerate(looks, 1)]


@pytest.fixture(scope="module", autouse=True)
def stored(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        moved(patch, tmp_path_factory.mktemp("real"))
        everything(patch, dict.fromkeys(HOMES, 1), metrics, history)
        with evidence.stored_only():
            yield


def of(arm: str, cell: str, measure: str = "") -> float:
    return sum(number(made.ARMS[arm][1], arm, 0, f"{measure}{cell}{format}") for format in FORMATS) / 2


def lines(report) -> dict:
    table = report("quick")
    return {row[0]: dict(zip(table.columns, row, strict=True)) for row in table.rows}


def test_every_arm_has_its_row_and_every_cell():
    rows = lines(made.tuned)
    assert [*rows] == [words for words, _ in made.ARMS.values()]
    for arm, (words, _) in made.ARMS.items():
        row = rows[words]
        assert row["trained parameters"] == "1,234"
        assert [row[heading] for heading in made.LOOKS] == ["25.0", "50.0", "50.0"]
        for cell, heading in made.CELLS.items():
            assert row[heading] == f"{100 * of(arm, cell):.1f}"
        assert row["written exactly, i.i.d."] == f"{100 * of(arm, 'iid', 'exact '):.1f}"


def test_modules_are_followed_look_by_look():
    rows = lines(made.watched)
    assert [*rows] == ["1", "2"]
    assert rows["1"]["MI, nats"].startswith("0.5000") and rows["2"]["CKA, debiased"].startswith("0.12")


def test_remarks_say_what_luck_alone_makes_of_a_difference():
    said = made.gap_remark("quick")
    for other in ("single", "single_matched"):
        ours, theirs = of("iclm", "iid"), of(other, "iid")
        luck = 1.96 * ((ours * (1 - ours) + theirs * (1 - theirs)) / 2) ** 0.5  # of two problems
        told = f"i.i.d. {100 * (ours - theirs):+.1f} \u00b1 {100 * luck:.1f}"
        assert f"{made.ARMS[other][0]}, points: {told}" in said
    assert "(2 problems each" in said


def test_the_router_s_share_is_that_of_the_better_naming():
    expected = 100 * (TO_FIRST["text"] + 1 - TO_FIRST["symbolic"]) / 2
    assert made.router_remark("quick").count(f"{expected:.1f}") == len(made.CELLS)


def test_it_is_built():
    building.build(made.ID, "quick")
    assert building.status(made.ID, "quick")[0] == "built"
