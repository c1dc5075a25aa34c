"""Tables 5 and 6 of C2DLM and its verdicts: printed numbers by hand, ours on results with known numbers."""

import math
import re
import shutil
from functools import partial

import matplotlib.pyplot as plt
import numpy as np
import pytest

from causalnb.errors import LabError
from causalnb.experiments.c2dlm.artefacts import counts as made
from causalnb.experiments.c2dlm.artefacts import setting, table5, table6, verdicts
from causalnb.lab import building, evidence, registry, report
from causalnb.lab.statistics import mean_ci, share_ci
from causalnb.lab.tables import estimate, percent, points
from causalnb.lab.verdicts import claims
from causalnb.tasks.reasoning import SYNTHETIC
from tests.unit.experiments import made_up
from tests.unit.experiments.made_up import number

MORE = {"c2dlm.long.stg_l": 5, "c2dlm.parts.stg": 4}  # pairs are cut
DEFAULT = ("c2dlm.parts.sudoku", "c2dlm")


# ------------------------------------------------------------------------------------------- by hand
def test_a_printed_percentage_is_a_count():
    assert [made.count(75.0, 220), made.count(78.64, 220), made.count(28.79, 198)] == [165, 173, 57]
    with pytest.raises(ValueError, match="29.24 % is no count of 198"):
        made.count(29.24, 198)
    assert made.fitting([28.79, 29.24, 29.46], 900) == [448, 896]


def test_every_score_of_both_tables_is_a_count():
    for name, tasks in (("table5", made.ITEMS), ("table6", made.ABLATED)):
        rows = {row: cells for row, cells in made.scores(name).items() if row != "Δ"}
        assert len(rows) == (3 if name == "table5" else 6)
        for cells in rows.values():
            assert made.average(cells, tuple(tasks)) == pytest.approx(cells["Avg"], abs=0.0051)


def test_two_samples_and_the_same_items():
    gain, error = made.difference(165, 173, 220)
    assert gain == pytest.approx(100 * 8 / 220)
    assert error == pytest.approx(100 * math.sqrt((165 * 55 + 173 * 47) / 220**3))
    assert made.paired_z(165, 173, 220) == pytest.approx((8 / math.sqrt(102), math.sqrt(8)))
    assert made.paired_z(173, 165, 220) == made.paired_z(165, 173, 220)
    assert made.paired_z(7, 7, 9) == (0.0, 0.0)


def test_the_mean_gain_is_the_printed_one():
    found = made.scores("table5")
    gain, error = made.mean_gain(found[made.SFT], found[made.OURS])
    assert round(gain, 2) == found["Δ"]["Avg"] == 1.31 and round(error, 2) == 1.06  # of the audit
    some = tuple(task for task in made.ITEMS if task != "SAT")
    assert round(made.mean_gain(found[made.SFT], found[made.OURS], some)[0], 2) == 0.85


def test_table_5_says_what_the_counts_imply():
    rows = {row[0]: row[1:] for row in table5.table5().rows}
    assert rows["items gained"] == ["+16", "+5", "+1", "+38", "+7", "+8", "+75", "+67"]
    assert rows["C2DLM"][5] == "78.64 [72.8, 83.5]" and rows["C2DLM"][6] == "62.32; 62.32"
    assert all(abs(float(z)) < 1.96 for z in rows["z, two samples"])
    assert rows["z, same items: least to greatest"][5] == "0.79 to 2.83"


def test_table_6_says_what_the_counts_imply():
    table = table6.table6()
    rows = {row[0]: row[1:] for row in table.rows}
    assert rows["SFT (Table 5)"][3] == "not printed; 63.98" and rows["α=2"][3] == "65.58; 65.58"
    assert rows["α=3"][4] == "" and rows["SFT (Table 5)"][5] == ""
    assert rows["α=3, w/o V-aware"][4].startswith("-4.60 ± ")
    assert rows["α=3, w/o V-aware"][5].startswith("-2.65")
    assert "does not rise to one peak" in table.notes and "2 of the 2 rows" in table.notes
    assert "best mean is at α = 3, which is the default" in table.notes


def test_remarks_follow_the_numbers(monkeypatch):
    other = {name: dict(row) for name, row in made.scores("table6").items()}
    other["α=5"]["GSM8K"] = other["α=5"]["MATH500"] = 0.0
    other["α=3, w/o S_γ"]["SAT"] = 100.0
    plain = made.scores("table5")
    monkeypatch.setattr(made, "scores", lambda name: other if name == "table6" else plain)
    said = table6.remarks6()
    assert said[0].endswith("it rises and then falls.") and said[2].startswith("1 of the 2 rows")


def test_the_best_of_several_leads_by_luck():
    assert not made.best_of(1, 50).any()
    lead = made.best_of(4, 20_000)
    rows, tasks = made.scores("table6")["α=3"], made.ABLATED
    shares = [made.count(rows[t], made.ITEMS[t]) / made.ITEMS[t] for t in tasks]
    one = 100 / 3 * math.sqrt(sum(p * (1 - p) / made.ITEMS[t] for p, t in zip(shares, tasks, strict=True)))
    assert lead.mean() == pytest.approx(1.0294 * one, rel=0.02)  # the mean of the largest of four normals
    assert made.best_of(4, 20_000, 0.8).mean() == pytest.approx(math.sqrt(0.2) * lead.mean(), rel=0.03)
    assert not made.best_of(4, 50, 1.0).any()
    assert made.printed_lead() == pytest.approx(65.93 - (65.58 + 65.93 + 64.16 + 65.49) / 4, abs=0.01)
    for wrong in ({"settings": 0, "draws": 5}, {"settings": 4, "draws": 5, "settled": 1.2}):
        with pytest.raises(ValueError, match="settled items"):
            made.best_of(**wrong)


def test_figures_of_printed_numbers_say_what_they_show():
    fig, alt = table5.gains_figure()
    assert "SAT (220) +3.64, from -4.24 to +11.52" in alt and "mean without SAT +0.85" in alt
    assert len(fig.axes[0].get_yticklabels()) == 8
    fig, alt, found = made.selection_figure(draws=200)
    assert set(found) == {0.0, 0.5, 0.8} and f"{found[0.5].mean():.2f}" in alt
    plt.close("all")


def test_masks_are_drawn_whole():
    fig, alt = setting.masks_figure()
    told = [int(n) for n in re.findall(r"(\d+) entries \+1", alt)]
    drawn = [ax.collections[0].get_offsets() for ax in fig.axes]
    assert [ax.get_title() for ax in fig.axes] == list(SYNTHETIC)
    assert [len(points) for points in drawn] == told and min(told) > 20
    plt.close(fig)


def test_what_is_kept_of_rule_graphs():
    rows = setting.kept_table(drawn=3).rows
    assert [row[0].split()[0] for row in rows] == list(SYNTHETIC)
    assert all(row[4] == "100%" for row in rows)  # rules quote exactly
    assert all(float(row[6]) > 1 for row in rows)


def test_settings_are_those_of_the_experiment_and_gaps_are_marked():
    table = setting.settings_table()
    rows = {row[0]: row[1:] for row in table.rows}
    config = registry.config("c2dlm.downstream", "c2dlm", "laptop")
    assert rows["batch size"] == ["— not given", config["batch"]]
    assert rows["LoRA rank"] == ["128", config["lora_rank"]]
    assert rows["α, other tasks"] == ["3", "3"] and rows["λ, other tasks"] == ["10", "10"]
    gaps = sum(str(row[1]).startswith("—") for row in table.rows)
    assert table.notes.startswith(f"{gaps} of {len(rows)} lines")


def test_costs_are_those_of_the_registered_experiments():
    assert setting.map_bytes(1600) == 32 * 32 * 1600**2 * 2
    found = setting.paper_costs()
    for task, cost in found.items():
        spec = registry.experiment(f"c2dlm.text.{task}")
        assert cost["gib"] == pytest.approx(spec.memory["paper"])
        assert 3600 * (cost["training"] + cost["decoding"]) == pytest.approx(spec.cost["paper"])
    rows = {row[0]: row for row in setting.paper_costs_table().rows}
    assert len(rows) == len(found) == 4
    one, all_arms = rows["c2dlm.text.reasoning"], len(registry.arms("c2dlm.text.reasoning"))
    assert float(one[6]) == pytest.approx(all_arms * (float(one[3]) + float(one[4])), abs=0.1 * all_arms)


# -------------------------------------------------------------------------------------------- results
def names():
    """Every metric that a table or a claim reads."""
    told = {part for text in claims("c2dlm").our_metric.dropna() for part in re.split(r"[-|+]", text)}
    return {
        *told,
        *(f"{task}_accuracy" for task in SYNTHETIC),
        "test_cells",
        "test_exact",
        "iid_accuracy",
        "ood_accuracy",
    }


def metrics(experiment, arm, seed):
    return {name: number(experiment, arm, seed, name) for name in names()}


def deciding():
    """The experiments that decide the claims of C2DLM, by claims.csv."""
    return {id for claim in report.claims_of("c2dlm") for id in report._decided_by(claim)}


def seeds():
    needed = {*table5.downstream.needed(), *table6.ablation.needed(), *deciding()}
    return {id: MORE.get(id, 3) for id in sorted(needed)}


def put(id, arm, seed, values):
    made_up.write(registry.experiment(id), arm, seed, {"": values}, [{"step": 1, "loss": 1.0}])


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("written")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CAUSALNB_RESULTS", str(folder))
        made_up.everything(patch, seeds(), lambda *run: {"": metrics(*run)})
    return folder


@pytest.fixture
def stored(written, tmp_path, monkeypatch):
    made_up.moved(monkeypatch, tmp_path)
    shutil.copytree(written, tmp_path / "results")
    for id, count in seeds().items():
        made_up.counted(monkeypatch, id, count)
    yield
    plt.close("all")


@pytest.fixture
def empty(tmp_path, monkeypatch):
    monkeypatch.setenv("CAUSALNB_RESULTS", str(tmp_path / "none"))


@pytest.mark.parametrize(
    "id, suffixes",
    [
        ("c2dlm.table5", {"csv", "md", "png", "svg", "tex"}),
        ("c2dlm.table6", {"csv", "md", "png", "svg", "tex"}),
        ("c2dlm.verdicts", {"csv", "md", "tex"}),
    ],
)
def test_each_is_built_from_its_results_and_stale_after(id, suffixes, stored):
    assert building.status(id, "quick")[0] == "missing"
    paths = building.build(id, "quick")
    assert {path.suffix[1:] for path in paths} == suffixes and building.status(id, "quick")[0] == "built"
    content = {path: path.read_bytes() for path in paths}
    assert {path: path.read_bytes() for path in building.build(id, "quick")} == content
    need = registry.find(id).needs[0]
    put(need, registry.arms(need)[0], 0, {name: 0.123 for name in names()})
    assert building.status(id, "quick")[0] == "stale"


def test_our_table_5_holds_the_means_and_paired_differences(stored):
    rows = {row[0]: row[1:] for row in table5.downstream("quick").rows}

    def value(arm, task, seed):
        return metrics("c2dlm.downstream", arm, seed)[f"{task}_accuracy"]

    def by_column(read):
        each = [[read(task, seed) for seed in range(3)] for task in SYNTHETIC]
        return [*each, list(np.mean(each, 0))]

    assert len(rows) == len(table5.ARMS) + len(table5.CONTRASTS)
    for arm, title in table5.ARMS.items():
        assert rows[title] == [percent(share_ci(shares)) for shares in by_column(partial(value, arm))]
    for a, b in table5.CONTRASTS:
        gaps = by_column(lambda task, seed, a=a, b=b: value(a, task, seed) - value(b, task, seed))
        assert rows[f"{table5.ARMS[a]} − {table5.ARMS[b]}"] == [points(mean_ci(gap)) for gap in gaps]


def test_our_table_6_pairs_every_setting_with_the_default(stored):
    rows, gaps = {row[0]: row for row in table6.ablation("quick").rows}, table6.gaps("quick")
    assert len(rows) == 9 and [len(column) for column in gaps.values()] == [9, 4, 8, 8]
    homes = {
        "w/o V-aware": ("c2dlm.parts.sudoku", "no_v"),
        "α=2": ("c2dlm.parts.sudoku", "alpha2"),
        "diffusion (SFT)": ("c2dlm.parts.sudoku", "diffusion"),
        "w/o schedule of γ": ("c2dlm.parts.sudoku", "no_schedule"),
    }
    for name, (id, arm) in homes.items():
        many = registry.seeds(id, "quick")
        values = [metrics(id, arm, seed)["test_cells"] for seed in many]
        whole = [metrics(*DEFAULT, seed)["test_cells"] for seed in many]
        both = mean_ci([a - b for a, b in zip(values, whole, strict=True)])
        assert rows[name][1:3] == [percent(share_ci(values)), points(both)]
        apart = gaps["Sudoku: cells"][name]
        assert (apart.mean, apart.half, apart.n) == pytest.approx((100 * both.mean, 100 * both.half, both.n))
    assert gaps["Sudoku: cells"]["α=5"] is None and gaps["chain of thought: exact"]["α=3"] is None
    assert rows["α=5"][2] == "default" and rows["α=3"][4] == "default" and rows["α=3"][2] != "default"


@pytest.mark.parametrize("task", table6.HOMES)
def test_a_row_differs_from_the_default_in_what_its_name_says(task):
    default = registry.config(table6.default_of(task).experiment, "c2dlm", "laptop")
    named = {
        "w/o schedule of γ": {"gamma_schedule": False},
        "w/o V-aware": {"norm_index": "none"},
        "norm of the query, as printed": {"norm_index": "query_as_printed"},
        "mutual graph (ours)": {"graph": "mutual"},
        "diffusion (SFT)": {"graph": "none"},
    }
    named |= {f"α={alpha}": {"alpha": float(alpha)} for alpha in made.ALPHAS}
    for name, place in table6.settings(task).items():
        config = registry.config(place.experiment, place.name, "laptop")
        changed = {key for key, value in (default | named[name]).items() if config[key] != value}
        measured = {
            "also_ranked",
            "watched",
            "maps",
            "evaluate_every",
        }  # what is measured, not what is trained
        assert changed <= measured, (name, changed)


def test_remarks_are_read_off_the_intervals(stored):
    assert table5.said("x", mean_ci([1.0, 1.1, 0.9])) == "x: +1.0 ± 0.2 points (3 seeds), above 0."
    assert table5.said("x", mean_ci([-1.0, -1.1, -0.9])).endswith("below 0.")
    assert table5.said("x", mean_ci([1.0, -1.0])).endswith("not to be told from 0.")
    assert table5.said("x", mean_ci([1.0])) == "x: +1.0 points (1 seeds), not to be told from 0."
    assert len(table5.downstream_remarks("quick")) == len(table5.CONTRASTS)
    first = next(iter(SYNTHETIC))
    for arm, high in (("diffusion", 0.1), ("c2dlm", 0.7)):
        for seed in range(3):
            put(
                "c2dlm.downstream",
                arm,
                seed,
                {f"{task}_accuracy": 0.1 for task in SYNTHETIC} | {f"{first}_accuracy": high + seed / 1000},
            )
    remark = next(line for line in table5.downstream_remarks("quick") if "C2DLM minus diffusion" in line)
    assert "mean of six tasks: +10.0" in remark and f"`{first}`, from 10.1 to 70.1 %" in remark
    assert remark.endswith("without it: +0.0 ± 0.0 points (3 seeds), not to be told from 0.")
    for seed in range(3):
        put(
            "c2dlm.parts.sudoku",
            "alpha2",
            seed,
            {"test_cells": metrics(*DEFAULT, seed)["test_cells"] - 0.3 - seed / 1000},
        )
    said = next(line for line in table6.ablation_remarks("quick") if line.startswith("α=2"))
    assert re.search(r"below 0 on \d of 3 measures \(.*Sudoku: cells", said)


def test_figures_of_results_say_what_they_show(stored):
    _, alt = table5.downstream_figure("quick")
    summary = table5.points(table5.contrast("c2dlm", "diffusion").of(table5.measures()["mean"], "quick"))
    assert f"C2DLM on mean {summary.mean:+.1f} ± {summary.half:.1f}" in alt
    fig, alt = table6.ablation_figure("quick")
    assert len(fig.axes) == 4 and "Sudoku: cells, α=2 " in alt
    assert fig.get_supxlabel().endswith("95 % interval)") and "one seed" not in alt


def test_a_gap_of_one_seed_is_told_from_a_narrow_interval(stored, monkeypatch):
    found = table6.gaps("quick")
    found["Sudoku: cells"]["α=2"] = mean_ci([4.7])
    monkeypatch.setattr(table6, "gaps", lambda profile: found)
    fig, alt = table6.ablation_figure("quick")
    assert fig.get_supxlabel().endswith("no bar: one seed)")
    assert "Sudoku: cells, α=2 +4.7 (one seed)" in alt and "nan" not in alt


def test_verdicts_cover_every_claim(stored):
    table, known = verdicts.verdict_table("quick"), claims("c2dlm")
    assert [row[1] for row in table.rows] == list(known.claim)
    (row,) = (row for row in table.rows if row[0] == "claim29")
    values = [
        100
        * (
            metrics("c2dlm.parts.sudoku", "no_schedule", seed)["test_cells"]
            - metrics(*DEFAULT, seed)["test_cells"]
        )
        for seed in range(3)
    ]
    assert row[4] == estimate(mean_ci(values), 1) and row[2] == "lower 2.95 pp"
    assert row[3] == "no_schedule − c2dlm, test_cells"
    gains = [
        sum(
            sign * 100 * number(f"c2dlm.long.sudoku_n{n}", name, seed, "test_cells")
            for n, name, sign in (
                (200, "c2dlm", 1),
                (200, "diffusion", -1),
                (5000, "c2dlm", -1),
                (5000, "diffusion", 1),
            )
        )
        for seed in range(3)
    ]
    assert abs(sum(gains)) > 0.3  # or its sign would not show
    (row,) = (row for row in table.rows if row[0] == "claim16")
    assert row[4] == estimate(mean_ci(gains), 1) and row[2] == "higher 10.01 pp"
    counts = verdicts.tally("quick")
    assert sum(counts.values()) == len(known) and counts["no result yet"] == 0
    assert counts["not attempted"] == known.experiment.isna().sum() - len(verdicts.OF_TABLES)
    qualified = (known.but.notna() & known.experiment.notna()).sum() + len(verdicts.OF_TABLES)
    assert counts[verdicts.QUALIFIED] == qualified > 0
    decided = len(known) - counts["not attempted"] - qualified
    said = verdicts.tally_remark("quick")
    assert " 0 waiting for results, " in said and f" {decided} decided by a contrast" in said
    told = f"{counts['reproduced']} reproduced in direction, and in size where one is stated, "
    assert f"{told}{counts['same direction']} in direction only" in said
    of_table6 = dict(zip(known.id, known.artefact == "c2dlm.table6", strict=True))
    some = verdicts.verdict_table("quick", only=lambda row: of_table6[row.claim])
    assert len(some.rows) == (known.artefact == "c2dlm.table6").sum() == 4


def test_missing_results_are_said_and_not_hidden(empty):
    with evidence.stored_only():
        for build in (table5.downstream, table6.ablation_figure, verdicts.verdict_table):
            with pytest.raises(LabError, match="causalnb run c2dlm"):
                build("laptop")
        table = verdicts.verdict_table("laptop", strict=False)
        waiting = [row[5] for row in table.rows].count("no result yet")
        assert waiting == claims("c2dlm").experiment.notna().sum() + len(verdicts.OF_TABLES)
        said = verdicts.tally_remark("laptop", strict=False)
    assert re.search(r"[1-9]\d* waiting for results, 0 measured .* 0 decided", said)
    assert "reproduced" not in said


def test_the_experiments_that_decide_are_read_from_the_claims():
    found = deciding()
    assert {"c2dlm.parts.sudoku", "c2dlm.long.sudoku_n200", "c2dlm.long.order"} <= found
    assert set(registry.find("c2dlm.verdicts").needs) == found
    assert all(registry.experiment(id) for id in found)
