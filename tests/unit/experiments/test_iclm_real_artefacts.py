"""ICLM tuned on a real base, as tables and remarks tell it of made-up results."""

from statistics import fmean

import matplotlib.pyplot as plt
import pytest

from causalnb.experiments.iclm.artefacts import real as made
from causalnb.experiments.iclm.real_data import OF_RAVEN
from causalnb.lab import building, evidence
from tests.unit.experiments.made_up import everything, moved, number

FORMATS = ("text", "symbolic")
SEEDS = 2
LOOKS = ("25.0", "50.0", "50.0")  # of the history below, after each third
HOMES = {home for _, home in made.ARMS.values()} | {made.ACRE}
TO_FIRST = {"text": 0.875, "symbolic": 0.25}  # shares of rows that go to module 0


def metrics(id: str, arm: str, seed: int) -> dict:
    cells = {
        f"{cell}/{format}": {
            "choice": number(id, arm, seed, f"{cell}{format}"),
            "exact": number(id, arm, seed, f"exact {cell}{format}"),
            "module0": TO_FIRST[format],
            "module1": 1 - TO_FIRST[format],
        }
        for cell in {**OF_RAVEN[False], **made.OF_ACRE}
        for format in FORMATS
    }
    return {"": {"trainable_parameters": 1234.0, "parameters": 5000.0}, **cells}


def history(arm: str) -> list[dict]:
    looks = ({"choice": 0.25, "forward": 0.5, "pearson": 0.75, "cka": 1.0}, {"choice": 0.5, "forward": 0.25})
    rest = {"exact": 0.625, "pearson": 0.5, "cka": 0.125, "reverse": 1.5, "clamped": 1.0}
    return [{"step": step, **rest, **one} for step, one in enumerate(looks, 1)]


@pytest.fixture(scope="module", autouse=True)
def stored(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        moved(patch, tmp_path_factory.mktemp("real"))
        everything(patch, dict.fromkeys(HOMES, SEEDS), metrics, history)
        with evidence.stored_only():
            yield


def of(arm: str, cell: str, measure: str = "", seed: int = 0) -> float:
    return sum(number(made.ARMS[arm][1], arm, seed, f"{measure}{cell}{format}") for format in FORMATS) / 2


def percent(shares) -> str:
    return ", ".join(f"{100 * share:.1f}" for share in shares)


def lines(report) -> dict:
    table = report("quick")
    return {row[0]: dict(zip(table.columns, row, strict=True)) for row in table.rows}


def test_every_arm_has_its_row_and_every_cell():
    rows = lines(made.tuned)
    assert [*rows] == [words for words, _ in made.ARMS.values()]
    for arm, (words, _) in made.ARMS.items():
        row = rows[words]
        assert row["trained parameters"] == "1,234"
        assert [row[heading] for heading in made.LOOKS] == [", ".join([look] * SEEDS) for look in LOOKS]
        for cell, heading in made.CELLS.items():
            assert row[heading] == percent(of(arm, cell, seed=seed) for seed in range(SEEDS))
            exact = percent(of(arm, cell, "exact ", seed) for seed in range(SEEDS))
            assert row[f"{heading}{made.WRITTEN}"] == exact


def test_one_module_has_its_row_on_acre():
    row = lines(made.acre)[made.ARMS["single"][0]]
    assert [row[heading] for heading in made.LOOKS] == [", ".join(["62.5"] * SEEDS)] * 3
    for cell, heading in made.OF_ACRE.items():
        seen = [
            [number(made.ACRE, "single", seed, f"exact {cell}{one}") for one in FORMATS]
            for seed in range(SEEDS)
        ]
        assert row[heading] == percent(map(fmean, seen))


def test_modules_are_followed_look_by_look():
    rows = lines(made.watched)
    assert [*rows] == ["1", "2"]
    assert rows["1"]["MI, nats"].startswith("0.5000") and rows["2"]["CKA, debiased"].startswith("0.12")


def test_figures_3_and_7_are_drawn_of_the_base():
    fig, alt = made.modules_figure("quick")
    assert fig.get_suptitle() == "At the end: r 0.50, mutual information 0.25 nats; the paper: below 0.0001"
    assert "Pearson's r: 0.75 at step 1, lowest 0.5, 0.5 at the end" in alt
    assert "reversed: 1.5 at step 1" in alt and len(fig.axes) == 2
    plt.close(fig)


def test_differences_are_of_the_same_seeds():
    rows = lines(made.gaps)
    assert len(rows) == len(made.PAIRS)
    for name, other in made.PAIRS:
        row = rows[f"{made.ARMS[name][0]} - {made.ARMS[other][0]}"]
        for cell, heading in made.CELLS.items():
            each = [of(name, cell, seed=seed) - of(other, cell, seed=seed) for seed in range(SEEDS)]
            assert row[heading].startswith(f"{100 * fmean(each):+.1f} [") and row[heading].endswith(
                f"({SEEDS})"
            )


def test_remarks_say_what_luck_alone_makes_of_a_difference():
    said = made.luck_remark("quick")
    for line, other in zip(said, ("single", "single_matched"), strict=True):
        shares = [fmean(of(arm, "iid", seed=seed) for seed in range(SEEDS)) for arm in ("iclm", other)]
        luck = 1.96 * (sum(one * (1 - one) for one in shares) / (2 * SEEDS)) ** 0.5  # of two problems a seed
        assert (
            line.startswith(f"ICLM - {made.ARMS[other][0]}, ") and f"i.i.d. \u00b1 {100 * luck:.1f}" in line
        )


def test_the_router_s_share_is_that_of_the_better_naming():
    expected = 100 * (TO_FIRST["text"] + 1 - TO_FIRST["symbolic"]) / 2
    assert made.router_remark("quick").count(f"{expected:.1f}") == SEEDS * len(made.CELLS)


def test_it_is_built():
    files = {file.name for file in building.build(made.ID, "quick")}
    assert {"real_tuned.svg", "real_tuned.md"} <= files
    assert building.status(made.ID, "quick")[0] == "built"
