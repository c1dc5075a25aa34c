"""ICLM on a pre-trained base: rows in plain words, shifts, sizes, each arm's run, what the search chooses."""

import json
from types import SimpleNamespace

import pytest
import torch

from causalnb.errors import LabError
from causalnb.experiments.iclm import real, real_choose, real_data
from causalnb.experiments.iclm.models import collate
from causalnb.experiments.iclm.text import build
from causalnb.lab import registry, results
from causalnb.lab.bases import halve, pretrained
from causalnb.lab.probes import probing
from causalnb.lab.registry import Run
from causalnb.tasks import acre

FAMILIES = real.FAMILIES


def settings_of(family: str, arm: str, profile: str) -> dict:
    return registry.config(f"iclm.real.{family}{real.LATER[family].get(arm, '')}", arm, profile)


def config(family="acre", arm="single", **changes) -> dict:
    return {**settings_of(family, arm, "quick"), **changes}


def base_of(family):
    return pretrained("tiny", [real_data.spoken(word) for word in real_data.WORDS[family]])


def text_of(base, ids) -> str:
    tokens = {place: token for token, place in base.places.items()}
    return base.tokenizer.decode([tokens[one] for one in ids])


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("arm", real.ARMS)
def test_each_arm_trains_on_a_tiny_base(family, arm, tmp_path):
    run = Run("", arm, 0, "quick", config(family, arm), tmp_path, "cpu", lambda *_: None)
    with probing(steps=2) as noted:
        found = real.run_real(run)
    assert [step["gradient"] > 0 for step in noted] == [True, True] and [*found["bases"]] == ["tiny"]
    cells = {f"{cell}/{format}" for cell in real_data.cells(run.config) for format in acre.FORMATS}
    assert cells <= {*found["metrics"]}
    assert ("modules" in found["metrics"]) == (arm in ("iclm", "oracle"))
    measured = found["metrics"]["iid/text"]
    assert ("choice" in measured) == (family == "raven") and ("module0" in measured) == (arm == "iclm")
    assert all(0 <= value <= 1 for value in measured.values())


def test_words_are_said_without_hyphens_but_for_a_minus():
    said = [real_data.spoken(word) for word in ("gray-metal-cube", "top-left", "-45deg", "<sep>", "sC")]
    assert said == [" gray metal cube", " top left", " -45deg", " ?", " sC"]


def test_a_row_of_acre_asks_for_one_word():
    base, settings = base_of("acre"), config("acre", "oracle")
    asked = real_data.test_rows(settings, base, "iid", 1, 0)
    (problem,) = real_data.problems(settings, "iid", 1, 0)
    assert [len(rows) for rows in asked.values()] == [4, 4]
    for number, format in enumerate(acre.FORMATS):
        for (row,), query in zip(asked[format], problem.queries, strict=True):
            text, answer = (
                text_of(base, row["input_ids"]),
                text_of(base, [one for one in row["labels"] if one >= 0]),
            )
            assert row["module"] == number and answer.strip() == acre._ANSWERS[format][query.label]
            prompt = text_of(
                base, [one for one, read in zip(row["input_ids"], row["prompt_mask"], strict=True) if read]
            )
            assert text == prompt + answer and prompt.endswith(" >") and prompt.count(" ?") == 1


def test_a_question_of_raven_has_eight_ends_of_one_prompt():
    base, settings = base_of("raven"), config("raven", "iclm")
    (problem,) = real_data.problems(settings, "iid", 1, 3)
    for format, (options,) in real_data.test_rows(settings, base, "iid", 1, 3).items():
        prompts = {tuple(row["input_ids"][: sum(row["prompt_mask"])]) for row in options}
        said = [
            text_of(base, [one for one in row["labels"] if one >= 0]).removesuffix("<eos>").split()
            for row in options
        ]
        right = real_data.raven.read_words(said[0], format)
        assert len(prompts) == 1 and right == problem.answer
        assert {real_data.raven.read_words(words, format) for words in said} == {*problem.candidates}
        assert all(row["routed"] and row["labels"][-1] == base.special("eos") for row in options)


@pytest.mark.parametrize("mirrored", [False, True])
def test_a_shift_of_acre_changes_one_thing(mirrored):
    settings, kinds, supplies = config(mirrored=mirrored), {}, {}
    for cell in real_data.cells(settings):
        problems = real_data.problems(settings, cell, 30, 0)
        offs = {sum(view.state == "off" for view in problem.views) for problem in problems}
        kinds[cell] = offs
        supplies[cell] = {one for problem in problems for one in problem.objects}
    assert supplies["iid"] == supplies["sys"] and not supplies["iid"] & supplies["comp"]
    assert kinds["iid"] == kinds["comp"] and not kinds["iid"] & kinds["sys"]
    assert supplies["iid"] == {*(acre.TEST_OBJECTS if mirrored else acre.TRAIN_OBJECTS)}


def test_the_search_trains_on_what_no_test_cell_has():
    settings = registry.config("iclm.real.search", "raven_iclm_lr5e-4", "laptop")
    assert settings["mirrored"] and real_data.cells(settings) == ("iid", "center")
    ours = registry.config("iclm.real.raven", "iclm", "laptop")
    assert settings["steps"] == ours["steps"] and settings["split_seed"] != ours["split_seed"]


def test_on_a_gpu_all_layers_are_adapted_and_the_router_too():
    small, large = (settings_of("acre", "iclm", profile) for profile in ("laptop", "gpu"))
    assert small["shared_layers"] and not small["router_trainable"]
    assert not large["shared_layers"] and large["router_trainable"] and large["checkpointing"]
    assert not settings_of("acre", "oracle", "gpu")["router_trainable"]


def test_training_asks_much_of_both_formats():
    base = base_of("acre")
    rows = real_data.training_rows(config(arm="oracle", train_rows=3), base, 0)
    assert [row["module"] for row in rows] == [0] * 3 + [1] * 3
    assert all(sum(one >= 0 for one in row["labels"]) > 8 for row in rows)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("shared", [1, 0])
def test_the_matched_module_trains_as_much_as_iclm(family, shared):
    sizes, each = {}, None
    for arm in ("single", "iclm", "single_matched"):
        base, settings = base_of(family), config(family, arm, shared_layers=shared)
        settings["router_trainable"] = arm == "iclm" and not shared
        if settings["matched"]:
            settings["lora_rank"] = real.matched_rank(settings, base.model)
        sizes[arm] = real.trained_parameters(build(settings, base.model))
    each = sizes["single"] / config()["lora_rank"]
    assert abs(sizes["single_matched"] - sizes["iclm"]) <= each / 2 + 1e-9 < sizes["iclm"] - sizes["single"]


def test_choices_and_answers_are_told_apart(monkeypatch):
    said = [[(-1.0, False, 0), (-2.0, False, 0)], [(-3.0, True, 1), (-1.0, False, 1)]]
    monkeypatch.setattr(real, "told", lambda *_: said)
    found = real.scores(None, [[{}, {}], [{}, {}]], config("raven", "iclm"))
    assert found == {"exact": 0.5, "choice": 0.5, "module0": 0.5, "module1": 0.5}


def written(model, row: dict) -> dict:
    """A row whose labels are what the model writes, one fewer where there are several."""
    end = len(row["labels"]) - (sum(one >= 0 for one in row["labels"]) > 1)
    row = {key: [*value[:end]] if isinstance(value, list) else value for key, value in row.items()}
    for number, at in enumerate(i for i, one in enumerate(row["labels"]) if one >= 0):
        with torch.no_grad():
            out = model(**collate([row]), answers_only=True)
        row["input_ids"][at] = row["labels"][at] = int(out.logits[number].argmax())
    return row


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("arm", ["single", "iclm", "oracle"])
def test_what_is_told_is_what_a_pass_over_whole_rows_tells(family, arm):
    base, settings = base_of(family), config(family, arm)
    torch.manual_seed(0)
    model = build(settings, base.model).eval()
    with torch.no_grad():
        for name, part in model.named_parameters():
            if "lora_B" in name or name.endswith("codebook"):
                part.normal_(std=0.3)
    for asked in real_data.test_rows(settings, base, "iid", 3, 0).values():
        asked = [[written(model, rows[0]), *rows[1:]] for rows in asked]
        told = real.told(model, asked, False, 2)
        assert all(answers[0][1] for answers in told)
        for rows, answers in zip(asked, told, strict=True):
            for row, (total, exact, module) in zip(rows, answers, strict=True):
                given = collate([row])
                with torch.no_grad():
                    out = model(**given, answers_only=True)
                labels = given["labels"][given["labels"] != -100]
                each = out.logits.log_softmax(-1)[torch.arange(len(labels)), labels]
                assert total == pytest.approx(float(each.sum()), abs=1e-3)
                assert exact == bool((out.logits.argmax(-1) == labels).all())
                assert module == (None if out.module is None else int(out.module))


@pytest.mark.parametrize("arm", ["single", "iclm"])
def test_maps_kept_in_bfloat16_change_nothing_under_autocast(arm):
    base, settings = base_of("raven"), config("raven", arm)
    model = build(settings, base.model)
    batch = collate(real_data.training_rows({**settings, "train_rows": 2}, base, 0))

    def gradients():
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(**batch).loss
        loss.backward()
        return loss, {name: one.grad for name, one in model.named_parameters() if one.grad is not None}

    loss, before = gradients()
    halve(model.base)
    again, after = gradients()
    assert model.get_output_embeddings().weight.dtype == torch.float32
    assert sum(one.dtype == torch.bfloat16 for one in model.parameters()) > 0
    assert again == loss and before.keys() == after.keys() and before
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_the_search_chooses_by_iid_and_shifted_accuracy(monkeypatch):
    values = {
        "acre_single_lr2e-4": (0.9, 0.5),
        "acre_single_lr15e-4": (0.8, 0.7),
        "raven_iclm_lr2e-4": (0, 0),
    }
    changed = {}

    def read(id, arm, seed, profile):
        if arm not in values:
            raise LabError(f"{arm} was not run")
        iid, shifted = values[arm]
        return SimpleNamespace(
            config=registry.config(id, arm, profile) | changed,
            value=lambda cell, _: iid if cell.startswith("iid/") else shifted,
        )

    monkeypatch.setattr(results, "read", read)
    before = {family: {"single": 5.0, "iclm": 5.0} for family in FAMILIES}
    assert real_choose.computed(before) == {
        "acre": {"single": 1.5e-3, "iclm": 5.0},
        "raven": {"single": 5.0, "iclm": 2e-4},
    }
    changed["steps"] = 7
    with pytest.raises(LabError, match="other settings now"):
        real_choose.computed(before)


def test_controls_take_the_rates_of_what_they_control():
    chosen = json.loads(real.CHOSEN.read_text(encoding="utf-8"))
    for family in FAMILIES:
        for arm, side in real.TUNED_AS.items():
            settings = settings_of(family, arm, "laptop")
            assert settings["learning_rate"] == chosen[family][side]
