"""What is told the counter-examples, and both halves of published sets, by tables of made-up results."""

import numpy as np
import pytest

from causalnb.errors import LabError
from causalnb.experiments.causal_transformer import grid
from causalnb.experiments.causal_transformer import groups as runs
from causalnb.experiments.causal_transformer.artefacts import beyond, compute, halves
from causalnb.experiments.causal_transformer.artefacts import groups as made
from causalnb.experiments.causal_transformer.artefacts import overlap as table1
from causalnb.lab import building, evidence, registry, report
from causalnb.lab.report import fraction, gain, number, share
from tests.unit.experiments.made_up import everything, moved, without
from tests.unit.experiments.made_up import number as drawn

SEEDS = 4
CELLS = ("validation", "test", "challenge", "held_out")
WITH_AUC = (halves.ID, halves.REWEIGHTED, made.ID)
ROWS = 475.0


def metrics(id: str, arm: str, seed: int) -> dict:
    measures = ("accuracy", "macro_f", *table1.TASKS["nli"][2])
    published = halves.CELL if id in WITH_AUC else "mnli_contradicting"
    both = {published, "mnli_contradicting"} if id == made.ID else {published}
    both -= both if id == made.AT_ONE[made.LONGER][0] else set()
    found = {
        cell: {its: 0.5 + drawn(id, arm, seed, cell, its) / 4 for its in measures} for cell in (*CELLS, *both)
    }
    if id in WITH_AUC:
        found[published] |= {"auc": 0.5 + drawn(id, arm, seed) / 10, "rows": ROWS}
    if arm == "groupdro":
        found["challenge"]["accuracy"] = 0.9 + drawn(id, seed) / 50
    return found


def history(arm: str) -> list[dict]:
    end = {"balanced": (0.5, 0.25), "groupdro": (0.125, 0.25), "irm": (0.5, 0.5)}.get(arm, (1.0, 1.0))
    return [
        {"step": step, "loss": 1.0, "accuracy": accuracy, "worst_loss": end[0], "penalty": end[1]}
        | {"counter_weight": 0.75, "entropy": 1.0}
        for step, accuracy in ((1, 0.5), (2, 0.75))
    ]


@pytest.fixture(scope="module", autouse=True)
def stored(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        moved(patch, tmp_path_factory.mktemp("groups"))
        reports = (made.beside, made.decays, made.rules, made.searched)
        ids = {*WITH_AUC}.union(*(one.needed() for one in reports))
        everything(patch, dict.fromkeys(ids, SEEDS), metrics, history)
        with evidence.stored_only():
            yield


def lines(made_of, labels: int) -> dict:
    table = made_of()
    found = {tuple(row[:labels]): dict(zip(table.columns, row, strict=True)) for row in table.rows}
    assert len(found) == len(table.rows)
    return found


def of(id: str, arm: str, cell: str, measure: str = "accuracy") -> np.ndarray:
    return np.array([metrics(id, arm, seed)[cell][measure] for seed in range(SEEDS)])


def test_every_baseline_stands_beside_what_is_told_nothing():
    rows = lines(made.beside, 2)
    assert [name for what, name in rows if what == made.YES] == [
        "Transformer, reweighted",
        "+ comparison, reweighted",
        "+ comparison, GroupDRO",
        "+ comparison, IRM",
        "+ comparison, reweighted, decay 1, 1.6 times the steps",
    ]
    assert {"Transformer", "+ loss", "+ comparison", beyond.SHOWN[grid.CHOSEN]} < {
        name for what, name in rows if what == made.NO
    }
    ours = rows[made.YES, "+ comparison, IRM"]
    assert ours["other templates"] == share(of(made.ID, "irm", "held_out"))
    first, second = rows[made.YES, "Transformer, reweighted"], rows[made.NO, "+ comparison"]
    id, title, cell = halves.REWEIGHTED, halves.TITLE, halves.CELL
    assert first["in distribution"] == share(of(id, "balanced", "test"))
    assert first[f"{title}, AUC"] == fraction()(of(id, "balanced", cell, "auc"))
    assert second["challenge"] == share(of(beyond.IDS["nli", "m5"], "compared", "challenge"))
    assert second[f"{title}, AUC"] == fraction()(of(halves.ID, "compared", cell, "auc"))
    assert rows[made.NO, "+ loss"][f"{title}, AUC"] == ""


def test_differences_are_of_the_same_seeds_and_against_what_is_told_the_same():
    rows = lines(made.contrasts, 1)
    assert len(rows) == len(made.PAIRS)
    gaps = of(made.ID, "groupdro", "challenge") - of(made.ID, "balanced", "challenge")
    told = rows[("+ comparison, GroupDRO - + comparison, reweighted",)]
    assert told["challenge"] == report.tested(gaps)
    held = f"{beyond.SHOWN[grid.CHOSEN]} - + comparison, IRM"
    for heading, cell in (("in distribution", "test"), ("other templates", "held_out")):
        gaps = of(beyond.IDS["nli", "m5"], grid.CHOSEN, cell) - of(made.ID, "irm", cell)
        assert rows[(held,)][heading] == report.tested(gaps)


def test_weight_decay_is_crossed_with_what_is_told():
    rows = lines(made.decays, 1)
    gaps = of(made.DECAY, "irm_high", "challenge") - of(made.ID, "balanced", "challenge")
    at_one = rows[("+ comparison, IRM, decay 1 - + comparison, reweighted, decay 1",)]
    assert at_one["challenge"] == report.tested(gaps)
    settings = {name: registry.config(made.DECAY, name, "laptop") for name in made.CROSSED}
    assert [one["weight_decay"] for one in settings.values()] == [1.0, 0.01, 1.0]
    for name, other in (("balanced_low", "balanced"), ("irm_high", "irm")):
        theirs = registry.config(made.ID, other, "laptop")
        assert {key for key in theirs if theirs[key] != settings[name][key]} == {"weight_decay"}


def test_what_is_told_nothing_stands_at_the_decay_of_what_is_told():
    likes = {
        "held_high": beyond.IDS["nli", "m5"],
        "all_high": beyond.IDS["nli", "m5"],
        "bilstm_high": beyond.READERS["nli", "m5"],
        made.LONGER: compute.LONGER,
        made.TOLD_LONGER: made.ID,
    }
    assert likes.keys() == made.AT_ONE.keys()
    for name, (id, arm) in made.AT_ONE.items():
        high, low = (registry.config(one, arm, "laptop") for one in (id, likes[name]))
        assert {high["weight_decay"]} == {
            runs.used()[each]["weight_decay"] for each in ("balanced", "groupdro")
        }
        more = {"steps"} if name == made.TOLD_LONGER else set()
        assert {key for key in low if low[key] != high[key]} <= {"real", "auc", *more}
    longer = (made.AT_ONE[made.LONGER], made.AT_ONE[made.TOLD_LONGER], (compute.LONGER, "all"))
    assert len({registry.config(*one, "laptop")["steps"] for one in longer}) == 1
    id, name = made.AT_ONE["held_high"][0], f"{beyond.SHOWN[grid.CHOSEN]}, decay 1"
    gaps = of(id, grid.CHOSEN, "held_out") - of(made.ID, "balanced", "held_out")
    row = lines(made.decays, 1)[(f"{name} - + comparison, reweighted, decay 1",)]
    assert row["other templates"] == report.tested(gaps)
    assert lines(made.beside, 2)[made.NO, name]["challenge"] == share(of(id, grid.CHOSEN, "challenge"))


def test_it_is_checked_whether_each_did_what_it_says():
    rows = lines(made.checks, 1)
    assert rows[("+ comparison, GroupDRO",)]["largest loss of a group"] == number(3)([0.125] * SEEDS)
    assert rows[("+ comparison, IRM",)]["IRM's penalty"] == number(4)([0.5] * SEEDS)


def test_four_questions_are_answered():
    rows = lines(made.rules, 1)
    assert len(rows) == 4
    competence, manipulation, control, power = (rows[(rule,)]["answer"] for rule in made.RULES)
    assert "+25.0 [+25.0, +25.0] (4) points on validation pairs" in competence
    assert (
        f"+ comparison: {share(of(beyond.IDS['nli', 'm5'], 'compared', 'test'))} in distribution"
        in competence
    )
    assert "GroupDRO - under reweighting: -0.375 [-0.375, -0.375], lower" in manipulation
    assert "IRM - under reweighting: +0.25 [+0.25, +0.25], higher" in manipulation
    gaps = of(made.ID, "groupdro", "challenge") - of(made.ID, "balanced", "challenge")
    assert f"+ comparison, GroupDRO - + comparison, reweighted {gain(gaps)}" in control
    assert (
        power.startswith(f"{SEEDS} seeds; the widest interval")
        and f"of {len(made.PAIRS)} leave out 0" in power
    )


def test_every_try_is_shown_and_the_ones_that_are_used():
    rows = lines(made.searched, 2)
    assert len(rows) == 3 * runs.TRIES
    used = [names for names, row in rows.items() if row["used"] == "yes"]
    assert [name for name, _ in used] == [*made.OURS.values()]
    given = runs.tries()[f"irm_{runs.CHOSEN['irm']}"]
    assert dict(used)["+ comparison, IRM"] == (
        f"penalty_weight {given['penalty_weight']:g}, warm {given['warm']:g}"
    )


def test_both_halves_stand_beside_their_mean_and_auc():
    rows, cell = lines(halves.both, 1), halves.CELL
    assert len(rows) == 2 + len(grid.BOTH_HALVES)
    row, labels = rows[("+ comparison",)], ("entailment", "non-entailment")
    first, second = (of(halves.ID, "compared", cell, label) for label in labels)
    assert [row["MNLI, that follow"], row["MNLI, that do not"]] == [share(first), share(second)]
    assert row["mean of both"] == share((first + second) / 2)
    assert row["AUC"] == fraction()(of(halves.ID, "compared", cell, "auc"))
    assert halves.both().notes.startswith(f"{ROWS:.0f} pairs of MNLI")


def test_a_gain_on_one_half_is_told_with_the_other_and_with_auc(monkeypatch):
    (blanket,) = grid.BLANKETS
    id, cell = halves.ID, "mnli_overlapping"
    gaps = {
        its: of(id, blanket, cell, its) - of(id, "compared", cell, its)
        for its in ("entailment", "non-entailment", "auc")
    }
    line = halves.habit_remark()[0]
    assert line.startswith(f"{beyond.ARMS[blanket]} - + comparison, points: overlap is right ")
    assert (
        f"overlap is right {gain(gaps['entailment'])}; overlap misleads {gain(gaps['non-entailment'])}"
        in line
    )
    assert f"AUC {gain(gaps['auc'])}: {halves.parted(gaps['auc'])}." in line
    rows = lines(halves.contrasts, 1)
    assert len(rows) == len(halves.PAIRS) == len(halves.habit_remark())
    assert rows[(f"{beyond.ARMS[blanket]} - + comparison",)]["AUC"] == report.tested(gaps["auc"])
    assert halves.parted([0.1, 0.11, 0.12]) == "the pairs are parted better"
    assert halves.parted([-0.1, -0.11, -0.12]) == "the pairs are parted worse"
    assert halves.parted([-0.1, 0.11, 0.12]) == "no better parting is shown"


@pytest.mark.parametrize("id", [made.HOME, halves.HOME])
def test_they_are_built_and_name_a_missing_result(id):
    assert all(file.is_file() for file in building.build(id))
    assert building.status(id, "quick")[0] == "built"
    item = registry.find(id)
    assert item.extra and item.notebook == grid.TOLD
    short = {made.HOME: made.ID, halves.HOME: halves.ID}[id]
    table = {made.HOME: made.contrasts, halves.HOME: halves.contrasts}[id]
    arm = registry.arms(short)[1]
    with (
        without(short, arm, 1),
        pytest.raises(LabError, match=f"1 of {SEEDS} quick results of {short} are not"),
    ):
        table()
