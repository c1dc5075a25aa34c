"""A verb that comes after training: which rows are fitted, what is asked, and what a run stores."""

import pytest
import torch

from causalnb.experiments.sci import later, scan
from causalnb.lab import registry, runner
from causalnb.tasks import scan as grammar

FIRST = len(grammar.VOCABULARY)
JUMP, ACT = grammar.VOCABULARY["jump"], grammar.VOCABULARY["I_JUMP"]


def rows_of(*commands: str) -> list[dict]:
    return scan.scan_rows([(command, grammar.interpret(command)) for command in commands])


def model_of(arm: str):
    torch.manual_seed(0)
    return scan.build_model(registry.config("sci.later.search", arm, "quick"), 16)


def test_a_new_verb_takes_the_place_of_the_old_one():
    (row,) = rows_of("jump left and walk")
    (one,) = later.composed([row], "jump", FIRST, 1, 0)
    assert [a for a, b in zip(one["input_ids"], row["input_ids"], strict=True) if a != b] == [
        FIRST,
        FIRST + 1,
    ]
    back = {FIRST: JUMP, FIRST + 1: ACT}
    assert [back.get(token, token) for token in one["input_ids"]] == row["input_ids"]
    (many,) = later.composed([row], "jump", FIRST, 8, 0)
    asked = [token - FIRST for token in many["input_ids"] if token >= FIRST]
    assert len(asked) == 4 and len(set(asked)) == 4 and max(asked) < 16  # two verbs, two actions
    assert [word + 1 for word in asked if word % 2 == 0] != [] and all(
        word - word % 2 + 1 in asked for word in asked
    )
    assert not {JUMP, ACT, grammar.VOCABULARY["walk"], grammar.VOCABULARY["I_WALK"]} & set(many["input_ids"])


@pytest.mark.parametrize(
    "arm, kind", [("plain", "all"), ("sci_separated", "content"), ("sci_separated", "all")]
)
def test_only_rows_of_the_new_verb_move(arm, kind):
    model = model_of(arm)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    example = later.composed(rows_of("jump"), "jump", FIRST, 1, 0)
    losses = dict(later.learned(model, kind, example, "jump", FIRST, 0.05, [1, 20]))
    assert losses[20] < losses[1]
    moved = {name for name, value in model.state_dict().items() if not torch.equal(value, before[name])}
    assert moved and all("embed" in name or "lm_head" in name for name in moved)
    for name in moved:
        old, new = before[name], model.state_dict()[name]
        assert torch.equal(old[:FIRST], new[:FIRST]) and torch.equal(old[FIRST + 2 :], new[FIRST + 2 :])
    tables = later.tables_of(model, "all")
    assert len(tables) == (2 if arm == "sci_separated" else 1)
    if kind == "content":  # elsewhere the verb stays what a verb is on average
        known = [grammar.VOCABULARY[verb] for verb in grammar.VERBS if verb != "jump"]
        structural = model.get_input_embeddings().weight
        assert torch.allclose(structural[FIRST], structural[known].mean(0))


def test_a_run_tests_what_it_fitted(monkeypatch, tmp_path):
    monkeypatch.setenv("CAUSALNB_RESULTS", str(tmp_path))
    result = runner.execute("sci.later.search", "sci_separated", 0, "quick")
    cells = {cell for cell, measure, _ in result.rows if measure == "composed"}
    assert cells == {
        f"{n}/{kind}_0.01_{step}" for n in (1, 4) for kind in ("content", "all") for step in (1, 2)
    }
