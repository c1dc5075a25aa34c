"""Rows, batches and scores of the ICLM experiments, by hand."""

from contextlib import nullcontext

import pytest
import torch

from causalnb.experiments.iclm import data as iclm_tasks
from causalnb.experiments.iclm import grid as iclm_grid
from causalnb.experiments.iclm import models as iclm_models
from causalnb.experiments.iclm import runs as iclm_runs
from causalnb.lab import registry, weights
from causalnb.tasks import acre, icl_rows, icl_words, raven


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
            logits = model(**batch, answers_only=True).logits.argmax(-1).tolist()
            places = [i for i, label in enumerate(row["labels"]) if label != -100]
            for place, word in zip(places, logits, strict=True):
                row["labels"][place] = word
    right = iclm_models.answers_right(model, rows)
    assert right[::2] == [True] * 4 and not all(right)


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
        return iclm_runs.run_reasoning(run)["metrics"][""]["trainable_parameters"]

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


def literal_told(model, row, said, settings):
    """A candidate's log-probability, and whether it is written, from one pass over prompt and candidate."""
    words = icl_rows.plain(row["words"][: icl_rows.prompt_length(row)])
    whole = icl_rows.make([*words, *((word, icl_rows.ANSWER) for word in said)], format=row["format"])
    (ready,) = iclm_runs.prepared([whole], settings)
    with torch.no_grad():
        logits = model(**iclm_models.collate([ready]), answers_only=True).logits
    targets = torch.tensor([label for label in ready["labels"] if label != -100])
    told = logits.log_softmax(-1).gather(1, targets[:, None]).sum().item()
    return told, bool((logits.argmax(-1) == targets).all())


@pytest.mark.parametrize("arm", ["iclm", "no_invariant", "oracle", "finetuned", "weighted", "logit"])
@pytest.mark.parametrize("alone", [False, True])
def test_a_panel_is_chosen_and_written_as_from_whole_rows(arm, alone):
    id = "iclm.variants.raven" if arm in iclm_grid.VARIANTS else "iclm.raven"
    settings = registry.config(id, arm, "quick") | {"test_rows": 5}
    torch.manual_seed(1)
    model = iclm_models.build_model(settings).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    rows = [row for some in iclm_tasks.test_rows(settings, "four").values() for row in some]
    assert len({icl_rows.prompt_length(row) for row in rows}) > 3
    assert len({len(said) for row in rows for said in row["candidates"]}) > 3
    with model.only(0) if alone else nullcontext():
        found = iclm_runs.panels_answered(model, rows, settings, alone, batch=4)
        told = [[literal_told(model, row, said, settings) for said in row["candidates"]] for row in rows]
        modules = iclm_models.modules_of(model, iclm_runs.prepared(rows, settings))
    for row, one, eight, module in zip(rows, found, told, modules, strict=True):
        assert one == (eight[row["target"]][1], max(eight)[0] == eight[row["target"]][0], module)


def test_soft_weights_reach_the_candidates(monkeypatch):
    settings = registry.config("iclm.variants.raven", "weighted", "quick") | {
        "test_rows": 2,
        "router_settings": {"temperature": 1e3},
    }  # weights near one half
    torch.manual_seed(1)
    model = iclm_models.build_model(settings).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    kept, told = iclm_runs.candidates_told, []
    monkeypatch.setattr(iclm_runs, "candidates_told", lambda *given: told.append(kept(*given)) or told[-1])
    rows = iclm_tasks.test_rows(settings, "center")["symbolic"][:1]
    iclm_runs.panels_answered(model, rows, settings)
    expected = [literal_told(model, rows[0], said, settings)[0] for said in rows[0]["candidates"]]
    torch.testing.assert_close(told[0][0][0], torch.tensor(expected), rtol=1e-4, atol=1e-4)


def test_what_is_told_of_candidates_equals_whole_rows(model):
    rows = [
        row for some in iclm_tasks.test_rows(config("raven", test_rows=2), "four").values() for row in some
    ]
    ready = iclm_runs.prepared(rows, config("raven"))
    prompts = [
        [t for t, read in zip(one["input_ids"], one["prompt_mask"], strict=False) if read] for one in ready
    ]
    said = [[[*icl_words.ids(words), iclm_models.EOS] for words in row["candidates"]] for row in rows]
    routing = torch.tensor(iclm_models.modules_of(model, ready))
    with torch.no_grad():
        told, written = iclm_runs.candidates_told(model, prompts, said, routing)
    expected = [[literal_told(model, row, one, config("raven")) for one in row["candidates"]] for row in rows]
    torch.testing.assert_close(
        told, torch.tensor([[told for told, _ in eight] for eight in expected]), rtol=1e-4, atol=1e-4
    )
    assert written.tolist() == [[right for _, right in eight] for eight in expected]


@pytest.mark.parametrize("family", ["acre", "raven"])
@pytest.mark.parametrize("matched", [0, 4])
def test_a_router_reads_the_same_of_a_problem_in_training_and_in_tests(family, matched):
    settings = config(family, matched=matched, train_rows=3)
    tuned = iclm_tasks.training_rows(settings, 1)
    model = iclm_models.build_model(settings).eval()

    def states(rows, labelled):
        batch = iclm_models.collate(iclm_runs.prepared(rows, settings, labelled))
        with torch.no_grad():
            return model.router_states(
                batch["input_ids"], batch["attention_mask"], prompt_mask=batch["prompt_mask"]
            ), batch["prompt_mask"].sum(1)

    asked = []  # the first question alone, as in tests
    for row in tuned:
        end = row["answer"].index(True) + (1 if family == "acre" else len(row["words"]))
        asked.append(row | {name: row[name][:end] for name in ("words", "answer", "supervised")})
    (dense, lengths), (tested, _) = states(tuned, "supervised"), states(asked, "labels")
    torch.testing.assert_close(dense, tested)
    assert (lengths > 8).all() and (not matched or torch.equal(lengths[:3], lengths[3:]))


def test_the_base_is_part_of_the_settings(tmp_path, monkeypatch):
    monkeypatch.setattr(iclm_grid, "base_file", lambda size: tmp_path / f"{size}")
    assert iclm_grid.digest(5) == ""
    found = set()
    for value in (0.0, 1.0):
        model = torch.nn.Linear(2, 2)
        torch.nn.init.constant_(model.weight, value)
        sums = weights.save_weights(model, tmp_path / "5")
        assert iclm_grid.digest(5) == sums[:16]
        found.add(iclm_grid.digest(5))
    assert len(found) == 2
