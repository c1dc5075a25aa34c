"""What is told the counter-examples, and both halves of published sets, by tables of made-up results."""

import numpy as np
import pytest

from causalnb.errors import LabError
from causalnb.experiments.causal_transformer import grid
from causalnb.experiments.causal_transformer import groups as runs
from causalnb.experiments.causal_transformer.artefacts import beyond, halves
from causalnb.experiments.causal_transformer.artefacts import groups as made
from causalnb.experiments.causal_transformer.artefacts import overlap as table1
from causalnb.lab import building, evidence, registry, report
from causalnb.lab.report import fraction, gain, number, share
from tests.unit.experiments.made_up import everything, moved, without
from tests.unit.experiments.made_up import number as drawn

SEEDS = 4
CELLS = ("validation", "test", "challenge", "held_out")
WITH_AUC = (*halves.IDS.values(), *halves.REWEIGHTED.values(), *made.TOLD.values())
ROWS = 475.0


def metrics(id: str, arm: str, seed: int) -> dict:
    task = "nli" if "nli" in id else "paraphrase"
    measures = ("accuracy", "macro_f", *table1.TASKS[task][2])
    published = halves.SETS[task][1] if id in WITH_AUC or task == "paraphrase" else "mnli_contradicting"
    found = {
        cell: {its: 0.5 + drawn(id, arm, seed, cell, its) / 4 for its in measures}
        for cell in (*CELLS, published)
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
        ids = {*made.rules.needed(), *made.searched.needed(), *WITH_AUC}
        ids |= {id for task in table1.TASKS for id in made.beside(task).needed()}
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


@pytest.mark.parametrize("task", table1.TASKS)
def test_every_baseline_stands_beside_what_is_told_nothing(task):
    rows = lines(made.beside(task), 2)
    assert [name for what, name in rows if what == made.YES] == [
        "Transformer, reweighted",
        "+ comparison, reweighted",
        "+ comparison, GroupDRO",
        "+ comparison, IRM",
    ]
    assert {"Transformer", "+ loss", "+ comparison", beyond.SHOWN[grid.CHOSEN]} < {
        name for what, name in rows if what == made.NO
    }
    ours = rows[made.YES, "+ comparison, IRM"]
    assert ours["other templates"] == share(of(made.TOLD[task], "irm", "held_out"))
    first, second = rows[made.YES, "Transformer, reweighted"], rows[made.NO, "+ comparison"]
    id = halves.REWEIGHTED[task]
    assert first["in distribution"] == share(of(id, "balanced", "test"))
    title, cell = halves.SETS[task]
    assert first[f"{title}, AUC"] == fraction()(of(id, "balanced", cell, "auc"))
    assert second["challenge"] == share(of(beyond.IDS[task, "m5"], "compared", "challenge"))
    assert second[f"{title}, AUC"] == fraction()(of(halves.IDS[task], "compared", cell, "auc"))
    assert rows[made.NO, "+ loss"][f"{title}, AUC"] == ""


def test_differences_are_of_the_same_seeds_and_against_what_is_told_the_same():
    rows = lines(made.contrasts, 2)
    assert len(rows) == 2 * len(made.PAIRS)
    id = made.TOLD["nli"]
    gaps = of(id, "groupdro", "challenge") - of(id, "balanced", "challenge")
    told = rows["entailment", "+ comparison, GroupDRO - + comparison, reweighted"]
    assert told["challenge"] == report.tested(gaps) and told["PAWS-QQP, macro-F"] == ""
    held = f"{beyond.SHOWN[grid.CHOSEN]} - + comparison, IRM"
    gaps = of(beyond.IDS["paraphrase", "m5"], grid.CHOSEN, "paws_qqp", "macro_f") - of(
        made.TOLD["paraphrase"], "irm", "paws_qqp", "macro_f"
    )
    assert rows["paraphrase", held]["PAWS-QQP, macro-F"] == report.tested(gaps)


def test_it_is_checked_whether_each_did_what_it_says():
    rows = lines(made.checks, 2)
    assert rows["entailment", "+ comparison, GroupDRO"]["largest loss of a group"] == number(3)(
        [0.125] * SEEDS
    )
    assert rows["paraphrase", "+ comparison, IRM"]["IRM's penalty"] == number(4)([0.5] * SEEDS)


def test_four_questions_are_answered_for_each_task():
    rows = lines(made.rules, 2)
    assert len(rows) == 4 * 2
    competence, manipulation, control, power = (rows[rule, "entailment"]["answer"] for rule in made.RULES)
    assert "+25.0 [+25.0, +25.0] (4) points on validation pairs" in competence
    assert (
        f"+ comparison: {share(of(beyond.IDS['nli', 'm5'], 'compared', 'test'))} in distribution"
        in competence
    )
    assert "GroupDRO - under reweighting: -0.375 [-0.375, -0.375], lower" in manipulation
    assert "IRM - under reweighting: +0.25 [+0.25, +0.25], higher" in manipulation
    id = made.TOLD["nli"]
    gaps = of(id, "groupdro", "challenge") - of(id, "balanced", "challenge")
    assert f"+ comparison, GroupDRO - + comparison, reweighted {gain(gaps)}" in control
    assert (
        power.startswith(f"{SEEDS} seeds; the widest interval")
        and f"of {len(made.PAIRS)} leave out 0" in power
    )


def test_every_try_is_shown_and_the_ones_that_are_used():
    rows = lines(made.searched, 3)
    assert len(rows) == 2 * 3 * runs.TRIES
    used = {names[:2]: names[2] for names, row in rows.items() if row["used"] == "yes"}
    assert len(used) == 6
    given = runs.tries("nli")[f"irm_{runs.CHOSEN['nli']['irm']}"]
    assert used["entailment", "+ comparison, IRM"] == (
        f"penalty_weight {given['penalty_weight']:g}, warm {given['warm']:g}"
    )


@pytest.mark.parametrize("task", table1.TASKS)
def test_both_halves_stand_beside_their_mean_and_auc(task):
    rows, (title, cell) = lines(halves.both(task), 1), halves.SETS[task]
    assert len(rows) == 2 + len(grid.BOTH_HALVES)
    row, id = rows[("+ comparison",)], halves.IDS[task]
    first, second = (of(id, "compared", cell, label) for label in table1.TASKS[task][2])
    headings = [f"{title}, {halves.SAID[label]}" for label in table1.TASKS[task][2]]
    assert [row[heading] for heading in headings] == [share(first), share(second)]
    assert row["mean of both"] == share((first + second) / 2)
    assert row["AUC"] == fraction()(of(id, "compared", cell, "auc"))
    assert halves.both(task)().notes.startswith(f"{ROWS:.0f} pairs of {title}")


def test_a_gain_on_one_half_is_told_with_the_other_and_with_auc(monkeypatch):
    (blanket,) = grid.BLANKETS
    id, cell = halves.IDS["nli"], "mnli_overlapping"
    gaps = {
        its: of(id, blanket, cell, its) - of(id, "compared", cell, its)
        for its in ("entailment", "non-entailment", "auc")
    }
    line = halves.habit_remark()[0]
    assert line.startswith(f"Entailment, {beyond.ARMS[blanket]} - + comparison, points: overlap is right ")
    assert (
        f"overlap is right {gain(gaps['entailment'])}; overlap misleads {gain(gaps['non-entailment'])}"
        in line
    )
    assert f"AUC {gain(gaps['auc'])}: {halves.parted(gaps['auc'])}." in line
    rows = lines(halves.contrasts, 2)
    assert len(rows) == 2 * len(halves.PAIRS)
    assert rows["entailment", f"{beyond.ARMS[blanket]} - + comparison"]["AUC"] == report.tested(gaps["auc"])
    assert halves.parted([0.1, 0.11, 0.12]) == "the pairs are parted better"
    assert halves.parted([-0.1, -0.11, -0.12]) == "the pairs are parted worse"
    assert halves.parted([-0.1, 0.11, 0.12]) == "no better parting is shown"


@pytest.mark.parametrize("id", [made.HOME, halves.HOME])
def test_they_are_built_and_name_a_missing_result(id):
    assert all(file.is_file() for file in building.build(id))
    assert building.status(id, "quick")[0] == "built"
    item = registry.find(id)
    assert item.extra and item.notebook == grid.EXTENSION
    short = {made.HOME: made.TOLD["nli"], halves.HOME: halves.IDS["nli"]}[id]
    table = {made.HOME: made.contrasts, halves.HOME: halves.contrasts}[id]
    arm = registry.arms(short)[1]
    with (
        without(short, arm, 1),
        pytest.raises(LabError, match=f"1 of {SEEDS} quick results of {short} are not"),
    ):
        table()
