"""Tables and figures of Sudoku and the spurious token game, on made-up results with known numbers."""

import csv
import shutil
from dataclasses import replace

import matplotlib.pyplot as plt
import pytest

from causalnb.errors import LabError
from causalnb.experiments.c2dlm.artefacts import fig5, fig6, fig8, fig9, games, table3, table4
from causalnb.lab import building, evidence, registry, results
from causalnb.lab.report import share
from causalnb.tasks import stg
from tests.unit.experiments import made_up

IDS = [*map(table3.home, table3.ROWS), *map(table4.home, table4.SIZES), table4.MANY]
SEEDS = dict.fromkeys(IDS, 3)
LEVEL = {
    "autoregressive": 0.2,
    "diffusion": 0.4,
    "c2dlm": 0.5,
    "placebo": 0.3,
    "no_v": 0.45,
    "isolated": 0.6,
    "enforced": 0.7,
    "swapped": 0.55,
    "half_swapped": 0.65,
    "half_enforced": 0.62,
    "half_placebo": 0.35,
}


def number(experiment, arm, seed, metric):
    """A value that tells where it comes from: level of the arm, and a little for each part of its name."""
    place = sum(map(ord, experiment + metric)) % 50 / 1000
    return LEVEL[arm.removesuffix("_scratch").removesuffix("_s2000")] + place + 0.01 * seed


def metrics(experiment, arm, seed):
    names = [*table3.SCORES, "iid_accuracy", "ood_accuracy", "raw_causal", "weighted_causal"]
    found = {"": {name: number(experiment, arm, seed, name) for name in names}}
    for kind in ("raw", "weighted"):
        for effect in (*games.kinds(), "Answer"):
            its = found[f"{kind}/{effect}"] = {}
            for place, cause in enumerate(games.kinds()):
                its[cause] = (
                    (place + 1) / 100
                    + (effect == "Answer") * LEVEL[arm.removesuffix("_scratch").removesuffix("_s2000")] / 10
                    + 0.001 * seed
                )
    return found


def history(arm):
    late = {"diffusion": 2, "c2dlm": 1, "placebo": 4}.get(arm, 3)
    return [
        {"step": step, "loss": 1.0, "accuracy": min(1.0, step / late / 10), "within_5": min(1.0, step / 40)}
        for step in range(1, 41)
    ]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Three seeds of every result that the artefacts need, written once."""
    folder = tmp_path_factory.mktemp("written")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CAUSALNB_RESULTS", str(folder))
        made_up.everything(patch, SEEDS, metrics, history)
    return folder


@pytest.fixture
def stored(written, tmp_path, monkeypatch):
    """A copy of what is written, for a test to read and to change."""
    made_up.moved(monkeypatch, tmp_path)
    shutil.copytree(written, tmp_path / "results")
    for id, count in SEEDS.items():
        made_up.counted(monkeypatch, id, count)
    with evidence.stored_only():
        yield tmp_path / "results"
    plt.close("all")


def table(made):
    return list(csv.reader(made.csv().splitlines()))[1:]


def rows_of(made, *start):
    return [row for row in table(made) if row[: len(start)] == list(start)]


@pytest.mark.parametrize(
    "id, files",
    [
        ("c2dlm.table3", {"table3.csv", "table3_contrasts.md", "table3.svg"}),
        ("c2dlm.table4", {"table4.csv", "table4_contrasts.md"}),
        ("c2dlm.fig5", {"fig5.png", "fig5.svg"}),
        ("c2dlm.fig6", {"fig6.png", "fig6_shares.md"}),
        ("c2dlm.fig8", {"fig8.svg"}),
        ("c2dlm.fig9", {"fig9.svg"}),
    ],
)
def test_each_is_built_from_its_results_and_stale_after(id, files, stored):
    made = building.build(id, "quick")
    assert files <= {path.name for path in made}
    assert building.status(id, "quick")[0] == "built"
    need = registry.find(id).needs[0]
    changed = results.read(need, "c2dlm", 0, "quick")
    results.write(replace(changed, rows=[*changed.rows, ["iid", "more", 0.123]]))
    assert building.status(id, "quick")[0] == "stale"


@pytest.mark.parametrize(
    "make, need",
    [
        (table3.accuracies(), "c2dlm.long.sudoku_n500"),
        (table3.contrasts(), "c2dlm.long.sudoku_n50"),
        (table3.efficiency_figure, "c2dlm.long.sudoku_n50"),
        (table4.accuracies(), "c2dlm.long.stg_m"),
        (table4.contrasts(), "c2dlm.long.stg_h"),
        (fig5.curves_figure, "c2dlm.long.stg_h"),
        (fig6.answer_figure, "c2dlm.long.stg_l"),
        (fig8.maps_figure, "c2dlm.long.stg_l"),
        (fig9.bars_figure, "c2dlm.long.stg_l"),
        (fig6.shares, "c2dlm.long.stg_l"),
    ],
)
def test_what_is_missing_is_named(make, need, stored):
    shutil.rmtree(stored / "quick" / need)
    plt.close("all")
    with pytest.raises(LabError, match=f"causalnb run {need}"):
        make("quick")
    assert not plt.get_fignums()  # a notebook would show it, empty


def test_table_3_has_every_arm_and_the_papers_number(stored):
    made = table3.accuracies()("quick")
    assert len(made.rows) == 5 + 7 + 2 + 3
    (row,) = rows_of(made, "500", "C2DLM")
    assert row[2] == "cells 91.21%"
    cells = [number("c2dlm.long.sudoku_n500", "c2dlm", seed, "test_cells") for seed in range(3)]
    assert row[3] == share(cells) and row[3].endswith("(3)")
    (row,) = rows_of(made, "200", "autoregressive")
    assert row[2].startswith("puzzles 3.00% (Llama-3.2-1B), 67.40%")
    few = table3.accuracies((200,))("quick")
    assert {row[0] for row in table(few)} == {"200"}


def test_solved_puzzles_are_drawn_by_how_many_were_trained_on(stored):
    fig, alt = table3.efficiency_figure("quick")
    (ax,) = fig.axes
    few = [number("c2dlm.long.sudoku_n50", "c2dlm", seed, "test_solved_unique") for seed in range(3)]
    assert f"C2DLM: 50 puzzles {100 * sum(few) / 3:.1f}, 200 puzzles" in alt
    assert "autoregressive: 200 puzzles" in alt and len(ax.lines) == len(table3.LOOKS)
    assert len(ax.collections[2].get_offsets()) == 4 * 3  # of C2DLM, a dot a seed


def test_differences_are_paired_by_seed(stored):
    made = table3.contrasts()("quick")
    (row,) = rows_of(made, "5000", "C2DLM - SFT")
    assert row[2:] == ["+0.83%", "+10.0 [+10.0, +10.0] (3)", "+10.0 [+10.0, +10.0] (3)", "reproduced"]
    (row,) = rows_of(made, "200", "placebo graph - SFT")
    assert row[3] == "-10.0 [-10.0, -10.0] (3)" and row[5] == "below 0"
    (row,) = rows_of(made, "50", "graph enforced, at test too (ours) - SFT")
    assert row[3] == "+30.0 [+30.0, +30.0] (3)"
    (row,) = rows_of(made, "50", "C2DLM - SFT")
    assert row[2] == "none" and row[5] == "above 0"
    (row,) = rows_of(made, "200", "SFT - autoregressive")
    assert row[2] == "+9.65%" and row[5] == "reproduced"
    (row,) = rows_of(made, "200 - 5000")
    assert row[2] == "+10.01%" and row[3].startswith("+0.0 ")
    assert row[5] == "excluded, but plain tuning still gains by twice the steps"
    assert not rows_of(table3.contrasts((500,))("quick"), "200 - 5000")


def test_table_4_puts_rules_beside_the_paper(stored):
    made = table4.accuracies()("quick")
    (row,) = rows_of(made, "paper: C2DLM")
    assert row[1:] == ["88.00%", "88.50%", "93.00%", "95.00%", "93.50%", "92.25%", "35.20%", "32.40%"]
    (row,) = rows_of(made, "no network: the most frequent answer")
    assert row[5:7] == ["68.75", "66.50"]  # of the audit
    (row,) = rows_of(made, "no network: the rule, read off the spurious")
    assert row[1:] == ["94.75", "62.75"] * 3 + ["", ""]
    (row,) = rows_of(made, "ours: graph enforced, at test too (ours)")
    assert float(row[1].split()[0]) > 70 and row[7:] == ["", ""] and len(made.columns) == 9
    (row,) = rows_of(made, "ours: C2DLM without V")
    assert [bool(cell) for cell in row[1:]] == [False] * 4 + [True] * 2 + [False] * 2
    assert len(table4.accuracies(("L",))("quick").columns) == 3


def test_differences_of_the_game(stored):
    made = table4.contrasts()("quick")
    (row,) = rows_of(made, "H", "C2DLM - SFT")
    assert row[2] == "+10.40% / +6.80%" and row[4] == "+10.0 [+10.0, +10.0] (3)" and row[5] == "reproduced"
    (row,) = rows_of(made, "M", "C2DLM - SFT")
    assert row[5] == "above 0"  # though a gain of 12 points is printed: the baseline is below the source's
    (row,) = rows_of(made, "M", "C2DLM - autoregressive")
    assert row[2] == "/ +13.00%" and row[5].startswith("reproduced, but plain tuning on this size is below")
    assert {row[0] for row in table(made) if "isolated" in row[1]} == {"L"}
    (row,) = rows_of(made, "S", "graph enforced (ours) - SFT")
    assert row[4] == "+30.0 [+30.0, +30.0] (3)" and not rows_of(made, "S", "C2DLM - placebo graph")
    (row,) = rows_of(made, "all", "C2DLM - SFT, mean of all columns")
    assert row[2:5] == ["+7.43%", "", "+10.0 [+10.0, +10.0] (3)"]
    assert row[5].startswith("reproduced, but on S and M plain tuning is below")
    (row,) = rows_of(made, "all", "o.o.d. minus i.i.d., C2DLM - SFT")
    assert row[4].startswith(("+0.0 ", "-0.0 "))


def test_least_squares_knows_the_rule_of_h():
    found = table4.simple_rules("H", {part: rows[:300] for part, rows in stg.generate_h().items()})
    assert found["least squares, causes"]["ood"] > 0.9 > 0.2 > found["least squares, spurious"]["iid"]
    assert "the rule, read off the spurious" not in found


def test_simple_rules_by_hand():
    low, high = "Smoking: 1, Weight: 1, Exercise: 9", "Smoking: 9, Weight: 9, Exercise: 1"
    rest = ", Yellow fingers: {}, Clothing size: {}, Hormones: {}, Certain gene: 5, Room size: 5 Answer: "
    pairs = [
        (low + rest.format(1, 1, 4), "Low Risk"),
        (high + rest.format(13, 9, 0), "High Risk"),
        (low + rest.format(1, 1, 4), "Low Risk"),
    ]
    turned = [(low + rest.format(13, 9, 0), "Low Risk"), (high + rest.format(1, 1, 4), "High Risk")]
    found = table4.simple_rules("S", {"train": pairs, "test": pairs, "ood": turned})
    assert found["the most frequent answer"] == {"iid": 2 / 3, "ood": 0.5}
    assert found["the rule, read off the spurious"] == {"iid": 1.0, "ood": 0.0}
    assert found["least squares, causes"] == {"iid": 1.0, "ood": 1.0}
    assert found["least squares, spurious"] == {"iid": 1.0, "ood": 0.0}
    assert found["least squares, all"]["iid"] == 1.0


def test_learning_curves_and_speed_ups(stored):
    found = fig5.speed_ups("quick")
    # smoothed over 3, SFT is first at 1 at step 22, C2DLM at step 12, and the placebo at step 40 is not yet
    assert found["c2dlm"].quotients == dict.fromkeys(range(3), pytest.approx(22 / 12))
    fig, alt = fig5.curves_figure("quick")
    assert f"speed-up of C2DLM: {found['c2dlm']}" in alt
    assert found["placebo"].reached == 0 and "placebo graph: not reached" in alt
    crosses = [line for line in fig.axes[2].lines if line.get_marker() == "x"]
    assert len(crosses) == 3 and all(line.get_xdata()[0] == 0 for line in crosses)


def test_bars_are_coloured_by_kind_and_hatched(stored):
    assert list(games.kinds().values()).count("causal") == 3 and len(games.kinds()) == 8
    fig, alt = fig6.answer_figure("quick")
    assert "C2DLM: Smoking 0.061" in alt  # 0.01 + 0.5 / 10, and half a thousandth a seed
    for ax in fig.axes[2:4]:
        assert len({(bar.get_facecolor(), bar.get_hatch()) for bar in ax.patches}) == 3
    fig, alt = fig9.bars_figure("quick")
    assert len(fig.axes) == 4 and alt.count("Smoking") == 4
    shares = fig6.shares("quick")
    (row,) = rows_of(shares, "C2DLM")
    assert row[3] == "+10.0 [+10.0, +10.0] (3)" and row[4] == "reproduced" and "37.5" in shares.notes


def test_maps_hold_the_stored_shares(stored):
    flow = games.attribute_flow("c2dlm", "raw", "quick")
    assert flow.shape == (3, 9, 8) and flow[0, 0, 0] == pytest.approx(0.01)
    assert flow[2, 8, 7] == pytest.approx(0.08 + 0.05 + 0.002)
    fig, alt = fig8.maps_figure("quick")
    drawn = [ax.images[0].get_array() for ax in fig.axes if ax.images]
    assert len(drawn) == 4 and drawn[2][8, 7] == pytest.approx(flow.mean(0)[8, 7])
    assert alt.count("the answer's row") == 4
    whole = flow.sum((0, 1))
    assert f"C2DLM {100 * whole[:3].sum() / whole.sum():.0f} % raw" in fig.get_suptitle()


def test_the_larger_game(stored):
    (row,) = rows_of(table4.many("quick"), "every concept isolated (ours)")
    assert row[3:] == ["+20.0 [+20.0, +20.0] (3)", "+30.0 [+30.0, +30.0] (3)"]
    (row,) = rows_of(table4.many("quick"), "diffusion, SFT")
    assert row[3:] == ["", "+10.0 [+10.0, +10.0] (3)"]
