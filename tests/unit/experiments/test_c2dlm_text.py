"""C2DLM in full text: masks by offsets, any base by name, LLaDA's layout, estimates; on tiny random bases."""

import json

import pytest
import torch
from safetensors.torch import save_file

from causalnb.c2dlm import to_llada
from causalnb.errors import LabError
from causalnb.experiments.c2dlm import grid as c2dlm_grid
from causalnb.experiments.c2dlm import text as c2dlm_text
from causalnb.lab import doctor, registry
from causalnb.lab.registry import Run
from tests.unit.experiments.made_up import wide


def config(task, arm="c2dlm", **changes):
    return {**registry.config(f"c2dlm.text.{task}", arm, "quick"), **changes}


def run(task, folder, **changes):
    settings = config(task, **changes)
    return c2dlm_text.run_text(Run("c2dlm.text", "arm", 0, "quick", settings, folder, "cpu", lambda *_: None))


def base(settings):
    told, _, _ = c2dlm_text.stories(settings, 0)
    return told, c2dlm_text.tiny_base(settings, [f"{one['prompt']}\n{one['response']}" for one in told])


@pytest.mark.parametrize("task", c2dlm_grid.TEXTS)
def test_every_task_trains_and_is_scored_in_full_text(task, tmp_path):
    guided, plain = run(task, tmp_path / "a"), run(task, tmp_path / "b", graph="none")
    counted = guided["metrics"].pop("")
    assert counted["edges_kept"] == 1.0 and "edges_kept" not in plain["metrics"][""]
    assert guided["history"][-1]["loss"] != plain["history"][-1]["loss"]
    scores = {
        name: value
        for name, value in wide(guided["metrics"]).items()
        if name.endswith(("exact", "cells", "accuracy"))
    }
    assert scores and all(0 <= value <= 1 for value in scores.values())
    assert counted["trainable_parameters"] < counted["parameters"] / 10


def test_supervision_lies_on_the_tokens_of_the_concepts():
    settings = config("stg")
    told, (_, tokenizer, _, end) = base(settings)
    row = c2dlm_text.encode(tokenizer, told[0], end, 800)
    said = [tokenizer.decode([token]) for token in row["input_ids"]]
    mask, first = row["supervision"].dense(), row["prompt_mask"].index(0)
    assert "".join(said[first:-1]) == told[0]["response"] and row["input_ids"][-1] == end
    assert "".join(said[:first]) == told[0]["prompt"] + "\n"
    encouraged = "".join(said[k] for k in (mask[first] == 1).nonzero()[:, 0].tolist())
    numbers = {
        name: told[0]["prompt"].split(f"{name}: ")[1].split(",")[0].split(" ")[0]
        for name in ("Smoking", "Weight", "Exercise")
    }
    assert all(f"{name}: {number}" in encouraged for name, number in numbers.items())
    assert "Hormones" not in encouraged and mask[:first].count_nonzero() == 0
    assert c2dlm_text.encode(tokenizer, told[0], end, 5) is None


def test_a_chat_template_is_put_around_the_prompt():
    settings = config("sudoku")
    told, (_, tokenizer, _, end) = base(settings)
    plain = c2dlm_text.encode(tokenizer, told[0], end, 800)
    tokenizer.chat_template = "User: {{ messages[0]['content'] }} Assistant: "
    row = c2dlm_text.encode(tokenizer, told[0], end, 800)
    answer = tokenizer.decode(row["input_ids"][sum(row["prompt_mask"]) : -1])
    assert answer == told[0]["response"] and len(row["input_ids"]) > len(plain["input_ids"])
    assert row["supervision"].report.kept == plain["supervision"].report.kept > 0


def test_a_long_text_is_left_out_and_counted(tmp_path):
    told, (_, tokenizer, _, end) = base(config("reasoning"))
    sizes = sorted(len(c2dlm_text.encode(tokenizer, one, end, 800)["input_ids"]) for one in told)
    found = run("reasoning", tmp_path, max_length=sizes[5], test_rows=1)["metrics"][""]
    assert found["rows"] + found["rows_too_long"] == 12 and found["rows_too_long"] > 0
    with pytest.raises(LabError, match="more than 3 tokens: raise max_length"):
        run("reasoning", tmp_path, max_length=3)


@pytest.mark.parametrize("layout", ["llada", "llama"])
def test_a_base_is_read_from_a_folder(layout, tmp_path):
    settings = config("stg")
    _, (decoder, tokenizer, mask, end) = base(settings)
    folder = tmp_path / "base"
    if layout == "llama":
        decoder.save_pretrained(folder)
        tokenizer.mask_token = None
    else:
        folder.mkdir()
        own = decoder.config
        (folder / "config.json").write_text(
            json.dumps(
                {
                    "model_type": "llada",
                    "d_model": own.hidden_size,
                    "n_heads": own.num_attention_heads,
                    "n_layers": own.num_hidden_layers,
                    "mlp_hidden_size": own.intermediate_size,
                    "vocab_size": own.vocab_size,
                    "max_sequence_length": 2048,
                    "rope_theta": 10000.0,
                    "rms_norm_eps": own.rms_norm_eps,
                    "mask_token_id": mask,
                    "eos_token_id": end,
                }
            ),
            encoding="utf-8",
        )
        save_file(
            {name: value.contiguous() for name, value in to_llada(decoder.state_dict()).items()},
            folder / "model.safetensors",
        )
    tokenizer.save_pretrained(folder)
    found, read, its_mask, its_end = c2dlm_text.text_base({**settings, "base_model": str(folder)}, [])
    assert its_end == end and len(read) >= len(tokenizer)
    assert its_mask == mask if layout == "llada" else its_mask < found.config.vocab_size
    before, after = decoder.state_dict(), found.state_dict()
    size = len(before["model.embed_tokens.weight"])
    assert all(
        torch.equal(value, after[name][:size] if value.dim() == 2 else after[name])
        for name, value in before.items()
    )
    metrics = run("stg", tmp_path / "run", base_model=str(folder))["metrics"]
    assert 0 <= metrics["iid"]["accuracy"] <= 1 and metrics[""]["edges_kept"] == 1.0


def test_what_cannot_be_had_is_said(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(LabError, match="nobody/nothing is no folder here and cannot be downloaded"):
        c2dlm_text.text_base(config("stg", base_model="nobody/nothing"), [])
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    with pytest.raises(LabError, match="cannot be read"):
        c2dlm_text.text_base(config("stg", base_model=str(tmp_path)), [])
    with pytest.raises(LabError, match="there are no teacher's graphs in missing.jsonl: annotate"):
        c2dlm_text.stories(config("reasoning", annotated="missing.jsonl"), 0)


def test_teachers_graphs_come_from_a_file(tmp_path):
    file = tmp_path / "graphs.jsonl"
    line = {"prompt": "Ann has 2 pens.", "response": "So 4.", "graph": {"4": ["2"]}}
    file.write_text(json.dumps(line) + "\n", encoding="utf-8")
    told, tests, _ = c2dlm_text.stories(config("reasoning", annotated=str(file)), 0)
    assert len(told) == 1 and list(told[0]["graph"].pairs) == [("2", "4")]
    assert {name: len(rows) for name, rows in tests.items()} == {"purchases": 2, "kinds": 2}


def test_shorter_answers_take_fewer_passes():
    settings = {"gen_length": 512, "block_length": 64, "decode_steps": 256, "shorter": {"arc_c": 32}}
    assert c2dlm_text.lengths(settings, "gsm8k") == (512, 64, 256)
    assert c2dlm_text.lengths(settings, "arc_c") == (32, 32, 16)


def test_the_published_setting_is_estimated():
    assert c2dlm_text.base_parameters(c2dlm_text.LLADA_8B) == pytest.approx(8.02e9, rel=0.01)
    settings = registry.config("c2dlm.text.cot", "c2dlm", "paper")
    parts = c2dlm_text.memory_gib(settings)
    assert parts["total"] == pytest.approx(sum(parts[name] for name in parts if name != "total"))
    assert parts["weights"] == pytest.approx(14.93, abs=0.05)
    longer = c2dlm_text.memory_gib({**settings, "batch": 2 * settings["batch"]})
    assert longer["logits"] == 2 * parts["logits"] and longer["adapters"] == parts["adapters"]
    took = c2dlm_text.seconds(settings, {"test": 500})
    assert c2dlm_text.seconds(settings, {"test": 1000})["decoding"] == 2 * took["decoding"]
    assert took["total"] == took["training"] + took["decoding"]
    rows = {row["experiment"]: row["memory_gib"] for row in doctor.work("paper")}
    assert rows["c2dlm.text.cot"] == pytest.approx(parts["total"]) and rows["c2dlm.base"] is None


@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=ascii)
def test_lines_of_a_file_end_at_line_feeds_alone(tmp_path, end):
    line = {"prompt": "Ann\u2028has\u2029 2\x85pens.", "response": "So 4.", "graph": {"4": ["2"]}}
    (tmp_path / "graphs").write_bytes((json.dumps(line, ensure_ascii=False) + end).encode() * 2)
    told, _, _ = c2dlm_text.stories(config("reasoning", annotated=str(tmp_path / "graphs")), 0)
    assert [story["prompt"] for story in told] == [line["prompt"]] * 2
