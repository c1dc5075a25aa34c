"""Competence of C2DLM's baselines: the table and the curves, on made-up results with known numbers."""

import pytest

from causalnb.errors import LabError
from causalnb.experiments.c2dlm.artefacts import competence
from causalnb.lab import building, evidence, registry
from tests.unit.experiments import made_up

HOMES = {home for home, *_ in competence.TASKS.values()} | {competence.FORMULAS}


def steps_of(arm: str) -> int:
    return int(arm.rpartition("_s")[2])


def metrics(experiment, arm, seed):
    score = steps_of(arm) / 100_000
    scores = {"test_cells": score, "test_exact": score + 0.1, "iid_accuracy": score + 0.2}
    scores["test_steps"] = 0.5 + score if experiment == competence.FORMULAS else score
    return {"": scores | {"ood_accuracy": registry.config(experiment, arm, "laptop")["learning_rate"]}}


def history(arm):
    best = 0.25 if arm.startswith("autoregressive") else 0.5
    return [{"step": steps_of(arm) * i // 8, "cells": i / 8, "exact": best * i / 8} for i in range(1, 9)]


@pytest.fixture(autouse=True)
def stored(monkeypatch, tmp_path):
    made_up.moved(monkeypatch, tmp_path)
    made_up.everything(monkeypatch, dict.fromkeys(HOMES, 1), metrics, history)


def test_a_row_has_the_scores_around_the_steps_used_and_what_the_source_has():
    rows = {tuple(row[:2]): row[2:] for row in competence.competence("quick").rows}
    used = registry.config("c2dlm.long.cot", "diffusion", "laptop")["steps"]
    around = [f"{steps / 1000 + 10:.1f}" for steps in (used // 2, used, 2 * used)]
    assert rows["chain of thought, normal order", "diffusion, SFT"] == [f"{used:,}", *around, "38.6"]
    assert rows["chain of thought, normal order", "autoregressive"][-1] == "47.6"
    assert rows["Sudoku, 200 puzzles", "diffusion, SFT"][3:] == ["not run", "77.05%"]
    assert rows["spurious token game M, i.i.d.", "diffusion, SFT"] == [
        "500",
        "not run",
        "20.5",
        "21.0",
        "85.8",
    ]
    tried = [
        (task, model) for task, (_, used, *_) in competence.TASKS.items() for model in registry.arms(used)
    ]
    asked = sum(model in competence.MODELS for _, model in tried)
    bare = [one for one in competence.scores("quick") if not {"half", "used", "twice"} & one.keys()]
    assert len(rows) == asked - len(bare) and len(bare) == 3  # rows without any score say nothing


def test_what_was_tried_is_shown_for_every_task_that_tried_it():
    rows = {tuple(row[:3]): row[3:] for row in competence.tried("quick").rows}
    assert rows["diffusion, SFT", "0.003", ""] == ["2.0 (1)", "13.0 (1)", "21.0 (1)", "0.3 (1)"]
    assert rows["autoregressive", "0.001", ""][3] == "0.1 (1)"
    assert rows["C2DLM", "0.003", "1"] == ["", "13.0 (1)", "", ""]
    assert [row[:2] for row in rows if row[0] == "C2DLM"].count(("C2DLM", "0.001")) == 3
    used = {
        home: registry.config(home, "c2dlm", "laptop")
        for home in ("c2dlm.long.sudoku_n200", "c2dlm.long.stg_l", "c2dlm.long.cot")
    }
    assert [config["gamma"] for config in used.values()] == [0.3, 0.3, 1.0]  # as the table's note says
    assert {config["learning_rate"] for config in used.values()} == {0.001}


def test_the_chain_with_its_rules_stands_beside_the_one_without():
    plain, ruled = competence.formulas("quick").rows
    assert plain[0] == "its name and number" and plain[3:] == ["13.0 (1)", "3.0 (1)"]
    assert ruled[3:] == ["13.0 (1)", "53.0 (1)"]
    configs = [
        registry.config(home, competence.SAME, "quick") for home in (competence.COT, competence.FORMULAS)
    ]
    assert [line[1] for line in (plain, ruled)] == [str(config["gen_length"]) for config in configs]
    laptop = [
        registry.config(home, competence.SAME, "laptop") for home in (competence.COT, competence.FORMULAS)
    ]
    differs = {name for name in laptop[0] if laptop[0][name] != laptop[1][name]}
    lengths = {"gen_length", "block_length", "decode_steps"}
    assert differs == {"encoding", "batch", "validation_rows"} | lengths  # and nothing else


def test_it_is_built_and_a_missing_curve_is_named():
    building.build("c2dlm.competence", "quick")
    assert building.status("c2dlm.competence", "quick")[0] == "built"
    fig, alt = competence.curves_figure("quick")
    said = fig.get_suptitle().replace("\n", " ")
    assert "Sudoku, 200 puzzles 1.00 to 1.00;" in said and said.endswith("chains, 9,000 inputs 0.25 to 0.50")
    assert (
        "chains, 9,000 inputs, C2DLM ends at 0.50" in alt
        and "200 puzzles, diffusion, SFT ends at 1.00" in alt
    )
    with (
        made_up.without(competence.COT, "diffusion_n2000_s6000", 0),
        evidence.stored_only(),
        pytest.raises(LabError, match="1 of 3 quick results of c2dlm.curves.cot are not there"),
    ):
        competence.competence("quick")
