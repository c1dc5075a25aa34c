"""Rows, batches and scores of the ICLM experiments, by hand."""

import pytest
import torch

from causalnb.experiments import iclm_grid, iclm_models, iclm_runs, iclm_tasks
from causalnb.lab import registry
from causalnb.tasks import acre, icl_rows, raven


def config(family="acre", arm="iclm", **changes):
    return registry.config(f"iclm.{family}", arm, "quick") | changes


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return iclm_models.build_model(config()).eval()


@pytest.mark.parametrize("family", ["acre", "raven"])
def test_training_rows_stand_in_both_formats(family):
    rows = iclm_tasks.training_rows(config(family, train_rows=3), 1)
    assert [row["format"] for row in rows] == ["text"] * 3 + ["symbolic"] * 3
    one, other = rows[0], rows[3]
    read = acre.read_row if family == "acre" else raven.read_row
    if family == "raven":
        assert read(one) == read(other) and sum(one["answer"]) == len(one["candidates"][one["target"]])
    else:  # the same problem, all its objects asked
        assert [v.state for v in read(one)[0]] == [v.state for v in read(other)[0]]
        objects = {o for view in read(one)[0] for o in view.objects}
        assert objects == {o for group, _ in read(one)[1] for o in group}
    assert rows != iclm_tasks.training_rows(config(family, train_rows=3), 2)


@pytest.mark.parametrize("family, cell", [(f, c) for f, cells in iclm_tasks.CELLS.items() for c in cells])
def test_a_cell_asks_the_same_in_both_formats(family, cell):
    found = iclm_tasks.test_rows(config(family, test_rows=6), cell)
    assert [*found] == ["text", "symbolic"] and all(len(rows) == 6 for rows in found.values())
    if family == "acre":
        assert [r["label"] for r in found["text"]] == [r["label"] for r in found["symbolic"]]
    else:
        assert [r["target"] for r in found["text"]] == [r["target"] for r in found["symbolic"]]
    longer = iclm_tasks.test_rows(config(family, test_rows=6, matched=5), cell)
    lengths = [[icl_rows.prompt_length(row) for row in rows] for rows in longer.values()]
    assert lengths[0] == lengths[1]


def test_an_answer_is_right_when_every_word_is_the_likeliest(model):
    rows = [iclm_models.encoded(row) for row in iclm_tasks.training_rows(config(train_rows=4), 0)]
    with torch.no_grad():
        for row in rows[::2]:  # make their labels what the model says
            batch = iclm_models.collate([row])
            logits = model(**batch).logits.argmax(-1).tolist()
            places = [i for i, label in enumerate(row["labels"]) if label != -100]
            for place, word in zip(places, logits, strict=True):
                row["labels"][place] = word
    right = iclm_models.answers_right(model, rows)
    assert right[::2] == [True] * 4 and not all(right)
    some = iclm_models.likelihoods(model, rows)
    batch = iclm_models.collate([rows[3]])
    loss = torch.nn.functional.cross_entropy(model(**batch).logits, batch["labels"][batch["labels"] != -100],
                                             reduction="sum")
    assert some[3] == pytest.approx(-loss.item(), rel=1e-4)


def test_modules_are_the_routers_or_given():
    assert "module" not in iclm_runs.prepared([{"format": "text", **row()}], config())[0]
    rows = [{"format": format, **row()} for format in iclm_tasks.FORMATS]
    assert [r["module"] for r in iclm_runs.prepared(rows, config(arm="oracle"))] == [0, 1]
    assert [r["module"] for r in iclm_runs.prepared(rows, config(arm="finetuned"))] == [0, 0]
    model = iclm_models.build_model(config(arm="oracle"))
    assert iclm_models.modules_of(model, iclm_runs.prepared(rows, config(arm="oracle"))) == [0, 1]


def test_acre_is_asked_for_one_word_and_raven_for_a_panel_and_its_end():
    for family, end in (("acre", False), ("raven", True)):
        settings = registry.config(f"iclm.{family}", "finetuned", "quick")
        (cell, *_), last = settings["cells"], iclm_models.EOS
        for rows in iclm_tasks.test_rows(settings, cell).values():
            for one in iclm_runs.prepared(rows, settings):
                assert (one["input_ids"][-1] == last) == (one["labels"][-1] == last) == end
                assert len(one["input_ids"]) == len(one["labels"]) == len(one["prompt_mask"])
        tuned = iclm_runs.prepared(iclm_tasks.training_rows(settings, 0), settings, "supervised")
        assert all(row["labels"][-1] == last for row in tuned)


def test_unfrozen_the_base_is_trained_too(tmp_path):
    def trained(arm):
        settings = registry.config("iclm.gate.acre", arm, "quick") | {"cells": []}
        run = registry.Run("iclm", arm, 0, "quick", settings, tmp_path / arm, "cpu", lambda *_: None)
        return iclm_runs.run_reasoning(run)["metrics"]["trainable_parameters"]

    whole = sum(p.numel() for p in iclm_models.build_base(config()).parameters())
    assert trained("all_weights") > whole
    assert trained("paper_lora") < whole


def row():
    return icl_rows.make([("o1", icl_rows.PLAIN), (">", icl_rows.PLAIN), ("2", icl_rows.ANSWER)])


def test_independence_of_equal_modules_is_none(model):
    rows = iclm_runs.prepared(iclm_tasks.training_rows(config(train_rows=4), 0), config())
    found = iclm_runs.independence(model, rows)  # adapters add nothing yet
    assert found["pearson"] == pytest.approx(1, abs=1e-5) and found["cka"] == pytest.approx(1, abs=1e-4)
    assert 0 < found["forward"] and set(found) == {"forward", "reverse", "clamped", "pearson", "cka"}


def test_the_likeliest_of_eight_is_chosen(monkeypatch):
    rows = iclm_tasks.test_rows(config("raven", test_rows=3), "center")["symbolic"]
    said = []

    def score(model, encoded):
        said.extend(encoded)
        return [float(i % 8 == rows[i // 8]["target"]) - (i // 8 == 2) * 2 * (i % 8 == rows[2]["target"])
                for i in range(len(encoded))]

    monkeypatch.setattr(iclm_runs, "likelihoods", score)
    assert iclm_runs.choices_right(None, rows, config("raven")) == pytest.approx(2 / 3)
    right = said[rows[0]["target"]]["labels"]
    assert [r for r in right if r != -100] == [r for r in iclm_models.encoded(rows[0])["labels"] if r != -100]


def test_the_base_is_part_of_the_settings(tmp_path, monkeypatch):
    monkeypatch.setattr(iclm_grid, "base_file", lambda size: tmp_path / f"{size}")
    assert iclm_grid.digest(5) == ""
    (tmp_path / "5").write_bytes(b"weights")
    assert len(iclm_grid.digest(5)) == 16
