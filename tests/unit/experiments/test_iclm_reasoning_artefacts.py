"""Table 1 of ICLM and the true shifts say what the stored results say: checked on results made up here."""

from itertools import product
from math import sqrt
from statistics import mean

import numpy as np
import pandas as pd
import pytest

from causalnb.errors import LabError
from causalnb.experiments.iclm import grid as iclm_grid
from causalnb.experiments.iclm import matched, models, runs
from causalnb.experiments.iclm.artefacts import (
    frontier,
    gate,
    scores,
    search,
    shift_rows,
    shifts,
    table1,
    table1_paper,
)
from causalnb.lab import building, evidence, registry, results
from causalnb.lab.statistics import mean_ci, share_ci, sign_flip, wilson
from causalnb.lab.tables import estimate, percent, points
from causalnb.lab.verdicts import claims, decide
from tests.unit.experiments.iclm_made_up_scores import history, metrics, store
from tests.unit.experiments.made_up import number, wide

SEEDS = 3


@pytest.fixture(scope="module", autouse=True)
def stored(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reasoning")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("RESULTS", "FIGURES", "CACHE"):
            patch.setenv(f"CAUSALNB_{name}", str(folder / name.lower()))
        store(
            patch,
            dict.fromkeys(
                (
                    "iclm.acre",
                    "iclm.raven",
                    "iclm.gate.acre",
                    "iclm.gate.raven",
                    *shifts.TRUE,
                    frontier.TEST,
                    *(id.replace("shift", "shift_rows") for id in shifts.TRUE),
                ),
                SEEDS,
            )
            | dict.fromkeys((*(f"iclm.search.{family}" for family in scores.FAMILIES), frontier.SEARCH), 1),
        )
        with evidence.stored_only():
            yield


def values(experiment, arm, cells, score="exact") -> list[float]:
    """By seed: the mean over cells and formats."""
    return [
        mean(
            number(experiment, arm, seed, f"{cell}_{format}", score)
            for cell in cells
            for format in scores.FORMATS
        )
        for seed in range(SEEDS)
    ]


def by_label(table) -> dict[str, dict[str, str]]:
    return {row[0]: dict(zip(table.columns, row, strict=True)) for row in table.rows}


# As printed


def test_the_papers_tests_had_101_items():
    assert table1_paper.implied_items() == (101, 59, 60)
    assert 0.732 not in table1_paper.shares_of(101) and 0.653 in table1_paper.shares_of(101)
    assert set(table1_paper.starred()) == {row for _, _, row in scores.ROWS.values() if row} - {
        "LLaMA2-Base",
        "LLaMA2-Finetuned-Oracle-Router",
    }


def test_every_printed_gain_of_iclm_is_within_chance():
    found = table1_paper.fisher("ICLM", table1_paper.BASELINE)
    assert found["ACRE", "Text"] == (66 - 84, pytest.approx(0.0059, abs=5e-5))
    assert [cell for cell, (gain, p) in found.items() if p < 0.05] == [
        ("ACRE", "Text"),
        ("ACRE-Comp", "Text"),
        ("ACRE-Sys", "Text"),
        ("RAVEN-In-Center", "Text"),
    ]
    assert table1_paper.wins("ICLM", table1_paper.BASELINE) == {
        "more": 6,
        "fewer": 6,
        "significantly more": 0,
        "significantly fewer": 4,
    }
    assert "better on 0 and worse on 4" in table1_paper.printed_remark()


def test_the_printed_table_has_wilsons_intervals():
    rows = by_label(table1_paper.printed_table())
    p, z = 66 / 101, 1.959964
    middle, half = p + z**2 / 202, z * sqrt(p * (1 - p) / 101 + z**2 / (4 * 101**2))
    low, high = ((middle + sign * half) / (1 + z**2 / 101) for sign in (-1, 1))
    assert rows["ICLM"]["ACRE Text"] == f"0.653 [{low:.2f}, {high:.2f}]"
    assert wilson(66, 101).low == pytest.approx(low, abs=1e-4)
    assert rows["LLaMA2-Base"]["ACRE Text"] == "0.014"  # taken over: of how many items is not known


# As measured


def test_table_1_puts_the_papers_rows_over_ours():
    rows = by_label(table1.accuracies("raven")())
    assert rows["paper: ICLM-Domain"]["RAVEN-In-Center Symb"] == "0.228"
    for name, arm, score in (
        ("ICLM", "iclm", "exact"),
        ("domain module alone", "iclm", "domain"),
        ("no invariant module, ICLM's head", "no_invariant_head", "exact"),
    ):
        of = [number("iclm.raven", arm, seed, "four_text", score) for seed in range(SEEDS)]
        assert rows[f"ours: {name}"]["RAVEN-Four Text"] == estimate(share_ci(of))
    assert len(rows) == 7 + 9


def test_the_choice_among_eight_has_modules_alone_too():
    table = table1.accuracies("raven", "choice")()
    assert table.notes.endswith(table1.gate_remark(["raven"])) and "our gate" in table.notes
    rows = by_label(table)
    of = [number("iclm.raven", "oracle", seed, "center_symbolic", "choice") for seed in range(SEEDS)]
    assert rows["ours: oracle router"]["RAVEN Symb"] == estimate(share_ci(of))
    of = [number("iclm.raven", "iclm", seed, "four_symbolic", "domain_choice") for seed in range(SEEDS)]
    assert rows["ours: domain module alone"]["RAVEN-Four Symb"] == estimate(share_ci(of))
    assert len(rows) == 7 + 9 and table.id == "iclm.table1_raven_choice"


def test_contrasts_pair_seeds():
    rows = by_label(table1.contrasts()())
    gap = np.subtract(
        values("iclm.acre", "iclm", ["Comp", "Sys"]), values("iclm.acre", "finetuned", ["Comp", "Sys"])
    )
    assert rows["ICLM - fine-tuned"]["ACRE o.o.d., exact"] == points(mean_ci(gap))
    gap = np.subtract(
        values("iclm.raven", "iclm", ["center"], "choice"),
        values("iclm.raven", "oracle", ["center"], "choice"),
    )
    assert rows["ICLM - oracle router"]["RAVEN i.i.d., choice"] == points(mean_ci(gap))
    gap = np.subtract(
        values("iclm.raven", "iclm", ["center"], "invariant_choice"),
        values("iclm.raven", "finetuned", ["center"], "choice"),
    )
    assert rows["invariant module alone - fine-tuned"]["RAVEN i.i.d., choice"] == points(mean_ci(gap))


def test_the_gate_is_read_from_the_results():
    value = mean(values("iclm.acre", "finetuned", ["IID"]))
    told = table1.gate_remark()
    assert (
        f"{value:.1%} of the i.i.d. problems (every word of the answer right), below our gate of 90%" in told
    )
    value = mean(values("iclm.raven", "finetuned", ["center"], "choice"))
    assert f"{value:.1%} of the i.i.d. problems (the right panel is the likeliest of eight)" in told
    value = mean(values("iclm.acre", "finetuned", ["IID"]))
    assert "at or above our gate" in table1.gate_remark(["acre"], wanted=value / 2)


def test_the_gates_rows_are_of_one_module_in_four_settings():
    table = gate.gate_table()()
    rows = by_label(table)
    assert len(rows) == len(gate.GATE) == 4 and table.columns[3:] == [
        "ACRE Text",
        "ACRE Symb",
        "RAVEN Text",
        "RAVEN Symb",
        "RAVEN Text, of eight",
        "RAVEN Symb, of eight",
    ]
    for name, (experiment, arm) in gate.GATE.items():
        told = [number(f"{experiment}.raven", arm, seed, "center_symbolic", "exact") for seed in range(SEEDS)]
        assert rows[name]["RAVEN Symb"] == percent(share_ci(told)) and rows[name]["trained parameters"] == "7"
        told = [number(f"{experiment}.raven", arm, seed, "center_text", "choice") for seed in range(SEEDS)]
        assert rows[name]["RAVEN Text, of eight"] == percent(share_ci(told))
    for name, (experiment, arm) in gate.GATE.items():
        times = 2 if arm == "longer" else 1
        steps = {
            f"{times * registry.config(f'{experiment}.{family}', arm)['steps']:,}": family
            for family in ("acre", "raven")
        }
        assert rows[name]["steps"].split(", ") == [*steps]


def test_claims_are_decided_over_both_families():
    rows = {row.claim: row for row in table1.claims().all_rows()}
    assert set(rows) == {f"iclm.claim{n}" for n in range(1, 7)}
    told = {claim: row.value.of() for claim, row in rows.items()}
    ood = [
        values(f"iclm.{family}", arm, [*scores.SETS[family]][1:], scores.CHOSEN[family])
        for arm in ("iclm", "finetuned")
        for family in scores.FAMILIES
    ]
    assert told["iclm.claim1"] == pytest.approx(list(np.mean(ood[:2], axis=0) - np.mean(ood[2:], axis=0)))
    won = [
        sum(
            np.sign(
                number(f"iclm.{family}", "iclm", seed, f"{cell}_{format}", scores.CHOSEN[family])
                - number(f"iclm.{family}", "finetuned", seed, f"{cell}_{format}", scores.CHOSEN[family])
            )
            for family in scores.FAMILIES
            for cell in scores.SETS[family]
            for format in scores.FORMATS
        )
        for seed in range(SEEDS)
    ]
    assert told["iclm.claim3"] == won
    alike = {"acre": ("invariant", "exact"), "raven": ("invariant_choice", "choice")}
    alone, tuned = (
        [
            mean(pair)
            for pair in zip(
                *(
                    values(f"iclm.{family}", arm, scores.SETS[family], score[i])
                    for family, score in alike.items()
                ),
                strict=False,
            )
        ]
        for i, arm in enumerate(("iclm", "finetuned"))
    )
    assert told["iclm.claim4"] == pytest.approx(list(np.subtract(alone, tuned)))
    assert len(table1.claims()().rows) == 6


def test_claims_csv_names_the_same_contrasts():
    decided = 0
    rows = claims("iclm").set_index("id", drop=False)
    for claim, verdict in table1.claims().verdicts().items():
        row = rows.loc[claim]
        if isinstance(row.experiment, str):
            said, decided = decide(row), decided + 1
            assert (said.label, said.summary.mean) == (verdict.label, pytest.approx(verdict.summary.mean))
    assert decided == 2


def test_real_runs_measure_what_claims_and_made_up_results_have(tmp_path):
    for arm in ("iclm", "finetuned"):
        config = registry.config("iclm.raven", arm, "quick") | {"test_rows": 1, "alone_choices": 1}
        run = registry.Run("iclm.raven", arm, 0, "quick", config, tmp_path / arm, "cpu", lambda *_: None)
        real, invented = registry.experiment("iclm.raven").run(run), history("iclm.raven", arm, 0)
        assert {cell: {*its} for cell, its in real["metrics"].items()} == {
            cell: {*its} for cell, its in metrics("iclm.raven", arm, 0).items()
        }
        assert set(pd.DataFrame(invented)) <= set(pd.DataFrame(real["history"]))
        assert {row.get("pair") for row in invented} == {row.get("pair") for row in real["history"]}


def test_modules_are_asked_alone_where_a_table_has_rows_for_it(tmp_path):
    config = registry.config("iclm.raven", "iclm", "quick") | {"test_rows": 1, "map_rows": 0, "steps": 0}
    found = [
        registry.experiment("iclm.raven").run(
            registry.Run(
                "iclm.raven",
                "iclm",
                0,
                "quick",
                config | {"alone_choices": some},
                tmp_path,
                "cpu",
                lambda *_: None,
            )
        )
        for some in (1, 0)
    ]
    asked, not_asked = (wide(one["metrics"]) for one in found)
    alone = {name for name in asked if "_invariant" in name or "_domain" in name}
    assert len(alone) == 3 * 2 * 4 and not_asked == {
        name: value for name, value in asked.items() if name not in alone
    }


# True shifts


def test_shifts_stand_beside_what_does_not_shift():
    found = shifts.shift_scores()
    cells = {(cell, score) for cell, _, score in found}
    assert cells == {
        *product(("comp_iid", "comp_true", "sys_iid", "sys_true"), ["exact"]),
        *product(("center", "four", "in_center"), ["exact", "choice"]),
    }
    groups = shifts.shift_groups()
    assert {
        "ACRE shifted, exact",
        "ACRE i.i.d., exact",
        "RAVEN shifted, choice",
        "RAVEN i.i.d., choice",
    } <= groups.keys()
    each = found["sys_true", "text", "exact"]["strong"].of()
    assert each[1] == number("iclm.shift.acre_sys", "strong", 1, "sys_true_text", "exact")


def test_the_table_of_shifts_pairs_seeds_and_means():
    rows = by_label(shifts.shifts_table()())
    pair = [
        [number("iclm.shift.raven", arm, seed, "four_text", "choice") for seed in range(SEEDS)]
        for arm in ("strong", "finetuned_wide")
    ]
    gap = np.subtract(*pair)
    head = "ICLM, best try - fine-tuned, ICLM's size, points"
    line = rows["RAVEN, one to four figures, text, choice"]
    assert line[head] == f"{points(mean_ci(gap))}, p {sign_flip(gap):.2g}"
    both = [
        [
            mean(
                [
                    mean(
                        [
                            number(
                                "iclm.shift.acre_comp", arm, s, "comp_true_text", "exact"
                            ),  # alone shifted
                            *(
                                number("iclm.shift.acre_sys", arm, s, f"sys_true_{format}", "exact")
                                for format in scores.FORMATS
                            ),
                        ]
                    ),
                    values("iclm.shift.raven", arm, ["four", "in_center"], "choice")[s],
                ]
            )
            for s in range(SEEDS)
        ]
        for arm in ("strong", "finetuned_wide")
    ]
    line = rows["mean: ACRE shifted, exact and RAVEN shifted, choice"]
    assert line[head].startswith(points(mean_ci(np.subtract(*both))))
    assert "ACRE, unseen objects, symbolic (no shift), exact" in rows
    assert "RAVEN shifted, exact:" in shifts.shifts_remark()


def test_the_rows_of_table_1_stand_on_the_true_shifts():
    table = shift_rows.shift_rows_table()()
    rows = by_label(table)
    assert [*rows] == [name for name in scores.ROWS if name != "no invariant module, ICLM's head"]
    assert len(table.columns) == 1 + 2 * (4 + 3)
    for name, arm, id, cell, score in (
        ("fine-tuned, ICLM's size", "finetuned_wide", "shift.acre_comp", "comp_true_text", "exact"),
        ("oracle router", "oracle", "shift_rows.acre_sys", "sys_iid_symbolic", "exact"),
        ("ICLM", "strong", "shift.acre_sys", "sys_true_text", "exact"),  # its best try is Table 1's
        ("domain module alone", "strong", "shift.acre_sys", "sys_true_text", "domain"),
        ("invariant module alone", "iclm", "shift_rows.raven", "four_text", "invariant_choice"),
    ):
        place, _, format = cell.rpartition("_")
        told = [number(f"iclm.{id}", arm, seed, cell, score) for seed in range(SEEDS)]
        assert rows[name][f"{shifts.NAMED[place]}, {format}"] == estimate(share_ci(told))


def test_every_try_is_shown_and_the_used_one_marked():
    table = search.tries_table()()
    assert len(table.rows) == sum(map(len, iclm_grid.TRIES.values())) == 8
    assert len({len(some) for some in iclm_grid.TRIES.values()}) == 1  # as many for each side
    for family, column in (("ACRE", -1), ("RAVEN", -1)):
        assert sum(family in row[column] for row in table.rows) == 2
    told = mean(
        number("iclm.search.acre", "strong_2", 0, f"comp_iid_{format}", "exact") for format in scores.FORMATS
    )
    (line,) = [row for row in table.rows if row[1] == "aggregation logit"]
    shifted = number("iclm.search.acre", "strong_2", 0, "comp_iid_text", "exact")
    assert line[3] == f"{shifted:.3f}" != f"{told:.3f}"  # in symbols no object is unseen


def test_each_side_uses_its_best_try(monkeypatch):
    """Of the stored search, not of the made-up one."""
    monkeypatch.delenv("CAUSALNB_RESULTS")
    for family, (arm, tries) in product(scores.FAMILIES, iclm_grid.TRIES.items()):
        try:
            told = [
                search.tried(family, arm, i, True).summary(profile="laptop").mean for i in range(len(tries))
            ]
        except LabError as missing:
            pytest.skip(str(missing))
        assert told.index(max(told)) == iclm_grid.USED[family][arm]


def test_sides_meet_at_a_level_that_both_reach():
    found = {
        "single_r35_5e-4": (0.80, 0.9),  # best under shift, and not able i.i.d.
        "single_r35_1e-3": (0.945, 0.5),
        "single_r67_1e-3": (0.96, 0.4),
        "iclm_r8_1e-3": (0.94, 0.3),
        "iclm_r8_2e-3": (0.95, 0.2),
        "iclm_r16_2e-3": (0.93, 0.8),
    }
    assert frontier.best(found) == {"single": "single_r35_1e-3", "iclm": "iclm_r8_1e-3"}
    found["iclm_r16_2e-3"] = (0.97, 0.8)  # now both reach 0.96
    assert frontier.best(found) == {"single": "single_r67_1e-3", "iclm": "iclm_r16_2e-3"}


def test_both_sides_are_tried_at_the_same_rates_and_with_as_many_parameters():
    assert {frontier.side(name) for name in iclm_grid.FRONTIER} == {*iclm_grid.SIDES} == {*frontier.NAMES}
    config = registry.config("iclm.acre", "iclm", "laptop") | {"pretrained": False}
    for ranks in zip(*(ranks for _, ranks in iclm_grid.SIDES.values()), strict=True):
        sizes = [
            runs.trained_parameters(models.build_model(config | settings | {"lora_rank": rank}))
            for rank, (settings, _) in zip(ranks, iclm_grid.SIDES.values(), strict=True)
        ]
        assert max(sizes) / min(sizes) < 1.02


def test_the_frontier_has_every_setting_and_marks_what_is_used():
    table = frontier.frontier_table()
    assert len(table.rows) == len(iclm_grid.FRONTIER) == 16
    marked = [name for name, row in zip(iclm_grid.FRONTIER, table.rows, strict=True) if row[3] == "yes"]
    assert {frontier.side(name): name for name in marked} == matched.chosen() and len(marked) == 2
    inside, shifted = (
        mean(
            number(frontier.SEARCH, "iclm_r8_2e-3", 0, f"{cell}_{format}", "choice")
            for format in scores.FORMATS
        )
        for cell in ("in_center", "center")
    )
    assert frontier.points()["iclm_r8_2e-3"] == pytest.approx((inside, shifted))
    fig, alt = frontier.frontier_figure()
    assert [line.get_label() for line in fig.axes[0].lines] == [
        f"{frontier.NAMES[side]}, rank {rank}"
        for side, (_, ranks) in iclm_grid.SIDES.items()
        for rank in ranks
    ]
    for side, name in matched.chosen().items():
        inside, shifted = frontier.points()[name]
        told = f"{frontier.NAMES[side]}: used {name.replace('_', ' ')}, i.i.d. {inside:.3f}"
        assert f"{told}, shifted {shifted:.3f}" in alt


def test_the_settings_of_the_test_are_what_the_stored_frontier_says(monkeypatch):
    """Of the stored frontier, not of the made-up one."""
    monkeypatch.delenv("CAUSALNB_RESULTS")
    assert frontier.best(frontier.points("laptop")) == matched.chosen()


def test_the_oracle_is_the_single_module_for_each_format():
    single, oracle = (registry.config(frontier.TEST, arm, "laptop") for arm in ("single", "oracle"))
    assert {key: oracle[key] for key in oracle if oracle[key] != single[key]} == {
        "num_modules": 2,
        "routed_by": "format",
    }
    used = matched.chosen()["single"]
    assert single["learning_rate"] == iclm_grid.FRONTIER[used]["learning_rate"]
    assert single["regime"] != registry.config(frontier.SEARCH, used)["regime"]


def test_the_matched_test_pairs_seeds_and_asks_modules_alone():
    id = frontier.TEST
    rows, head = by_label(frontier.matched_table()), "RAVEN, a figure in another, text"
    told = [number(id, "iclm", seed, "in_center_text", "choice") for seed in range(SEEDS)]
    alone = [number(id, "iclm", seed, "in_center_text", "invariant_choice") for seed in range(SEEDS)]
    assert rows[head]["ICLM"] == estimate(share_ci(told))
    assert rows[head]["invariant module alone"] == estimate(share_ci(alone))
    gaps = by_label(frontier.matched_differences())
    gap = np.subtract(*(values(id, arm, ["four", "in_center"], "choice") for arm in ("iclm", "single")))
    assert gaps["ICLM - one module"]["shifted, points"] == f"{points(mean_ci(gap))}, p {sign_flip(gap):.2g}"
    told = frontier.matched_remark()
    assert points(mean_ci(gap)) in told
    inside = {arm: values(id, arm, ["center"], "choice") for arm in ("iclm", "single")}
    able = [i for i, value in enumerate(inside["iclm"]) if value >= min(inside["single"]) - 0.01]
    shifted = values(id, "iclm", ["four", "in_center"], "choice")
    ours, theirs = [shifted[i] for i in able], values(id, "single", ["four", "in_center"], "choice")
    there = f", under shift {min(ours):.3f} to {max(ours):.3f}" if able else ""
    assert (
        f"Of ICLM's {SEEDS} seeds {len(able)} come within 1 point of the module's lowest i.i.d. "
        f"score{there}; the module's have {min(theirs):.3f} to {max(theirs):.3f} there."
    ) in told
    _, alt = frontier.frontier_figure()
    assert f"true shift, ICLM: i.i.d. {mean(values(id, 'iclm', ['center'], 'choice')):.3f}" in alt


# Built


def test_the_tables_are_built_and_a_missing_arm_is_named():
    for id in ("iclm.table1", "iclm.shifts", "iclm.shift_rows", "iclm.search", "iclm.frontier"):
        assert all(file.is_file() for file in building.build(id))
    gone = results.path("iclm.shift.raven", "strong", 1)
    kept = gone.read_bytes()
    gone.unlink()
    try:
        with pytest.raises(LabError, match="1 of 3 quick results of iclm.shift.raven are not there"):
            shifts.shifts_table()()
    finally:
        gone.write_bytes(kept)
