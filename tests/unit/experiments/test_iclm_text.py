"""ICLM on the source's own prompts: any base by name, decoding, estimates; on tiny random bases."""

import copy
from importlib.util import find_spec

import pytest
import torch

from causalnb.errors import LabError
from causalnb.experiments.iclm import text as iclm_text
from causalnb.lab import doctor, registry
from causalnb.lab.registry import Run


def config(family="acre", arm="iclm", **changes):
    return {**registry.config(f"iclm.text.{family}", arm, "quick"), **changes}


def run(folder, family="acre", arm="iclm", **changes):
    settings = config(family, arm, **changes)
    return iclm_text.run_text(Run("iclm.text", arm, 0, "quick", settings, folder, "cpu", lambda *_: None))


@pytest.fixture(scope="module")
def base():
    settings = config()
    torch.manual_seed(0)
    return iclm_text.text_base(settings, ["\n".join(pair) for pair in iclm_text.training_texts(settings, 0)])


@pytest.mark.parametrize("family", ["acre", "raven"])
def test_each_arm_trains_and_is_scored_in_every_cell(family, tmp_path):
    found, plain = run(tmp_path / "a", family)["metrics"], run(tmp_path / "b", family, "finetuned")["metrics"]
    cells = {f"{cell}/{format}" for cell in config(family)["cells"] for format in ("text", "symbolic")}
    assert {*found} == {*plain} == {"", *cells}
    assert all({*found[cell]} == {"exact", "invariant"} and {*plain[cell]} == {"exact"} for cell in cells)
    found, plain = found[""], plain[""]
    assert found["rows"] == 8 and found["rows_too_long"] == 0
    assert 3 * plain["trainable_parameters"] < found["trainable_parameters"]


def test_texts_ask_the_same_in_both_formats_in_the_sources_words():
    said = iclm_text.asked(config(), "IID", 3, 6)
    assert [len(pairs) for pairs in said.values()] == [6, 6]
    words = {"0": "off", "1": "undetermined", "2": "on"}
    assert [words[answer] for _, answer in said["symbolic"]] == [answer for _, answer in said["text"]]
    letters = iclm_text.asked(config("raven"), "center", 3, 5)
    assert {answer for _, answer in letters["text"]} <= set("ABCDEFGH")
    panels = iclm_text.asked(config("raven", open=True), "center", 3, 1)
    assert panels["text"][0][0].endswith("9. ") and len(panels["text"][0][1]) > 20


def test_an_answer_and_its_end_are_the_labels(base):
    _, tokenizer = base
    prompt, answer = iclm_text.asked(config(), "IID", 0, 1)["text"][0]
    row = iclm_text.encode(tokenizer, prompt, answer, 800)
    said = [label for label in row["labels"] if label != -100]
    assert tokenizer.decode(said[:-1]) == answer and said[-1] == tokenizer.eos_token_id
    assert tokenizer.decode(row["input_ids"][: -len(said)]) == prompt + "\n"
    assert row["prompt_mask"].count(0) == len(said)
    assert iclm_text.encode(tokenizer, prompt, answer, len(row["input_ids"]) - 1) is None


def test_a_base_that_was_trained_with_marks_gets_them(base):
    from tokenizers.processors import TemplateProcessing

    tokenizer = copy.deepcopy(base[1])
    bare, end = iclm_text.prompt_ids(tokenizer, "A light?"), tokenizer.eos_token_id
    mark = tokenizer.mask_token_id
    for template, ids in (("<mask> $A", [mark, *bare]), ("<mask> $A <eos>", [mark, *bare])):
        tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
            template, special_tokens=[("<mask>", mark), ("<eos>", end)]
        )
        assert iclm_text.prompt_ids(tokenizer, "A light?") == ids
        row = iclm_text.encode(tokenizer, "A light?", "on", 99)
        assert row["input_ids"] == [*ids, *(t for t in row["labels"] if t != -100)]
        assert row["input_ids"].count(mark) == row["input_ids"].count(end) == 1
    tokenizer.chat_template = "{{ messages[0]['content'] }}!"
    assert (
        iclm_text.prompt_ids(tokenizer, "A light?")
        == tokenizer("A light?!", add_special_tokens=False)["input_ids"]
    )


def test_an_answer_counts_without_its_case_and_outer_spaces(base, monkeypatch):
    decoder, tokenizer = base
    monkeypatch.setattr(iclm_text, "decoded", lambda model, tokenizer, prompt, tokens: f" {prompt}\n")
    model = torch.nn.Linear(1, 1)
    assert iclm_text.exact(model, tokenizer, [("On", "on"), ("off", "on")], 3) == 0.5


def test_decoding_stops_at_the_end(base):
    _, tokenizer = base

    class Says:
        device = "cpu"

        def generate(self, input_ids, max_new_tokens, **_):
            said = tokenizer("off", add_special_tokens=False)["input_ids"] + [tokenizer.eos_token_id]
            assert len(said) <= max_new_tokens
            return torch.cat([input_ids, torch.tensor([said])], 1)

    assert iclm_text.decoded(Says(), tokenizer, "A light?", 8) == "off"


def test_a_long_text_is_left_out_and_counted(base, tmp_path):
    with pytest.raises(LabError, match="more than 3 tokens: raise max_length"):
        run(tmp_path, max_length=3)
    _, tokenizer = base
    sizes = sorted(
        len(iclm_text.encode(tokenizer, *pair, 800)["input_ids"])
        for pair in iclm_text.training_texts(config(), 0)
    )
    found = run(tmp_path, max_length=sizes[4], cells=["IID"], test_rows=1)["metrics"][""]
    assert found["rows"] + found["rows_too_long"] == 8 and found["rows_too_long"] > 0


def test_a_base_is_read_from_a_folder(base, tmp_path, monkeypatch):
    decoder, tokenizer = base
    decoder.save_pretrained(tmp_path / "base")
    tokenizer.save_pretrained(tmp_path / "base")
    found, _ = iclm_text.text_base(config(base_model=str(tmp_path / "base")), [])
    assert all(torch.equal(value, found.state_dict()[name]) for name, value in decoder.state_dict().items())
    metrics = run(tmp_path / "run", base_model=str(tmp_path / "base"), cells=["IID"])["metrics"]
    assert 0 <= metrics["IID/text"]["exact"] <= 1
    monkeypatch.setenv("CAUSALNB_BASES", str(tmp_path))
    assert iclm_text.downloaded("base") == tmp_path / "base"


def test_the_papers_settings_train_on_a_small_base(base, tmp_path, monkeypatch):
    """LLaMA-2's name, a tiny model in its place: 16 bits, recomputed layers, batches of 16."""
    decoder, tokenizer = base
    decoder.save_pretrained(tmp_path / "meta-llama" / "Llama-2-7b-hf")
    tokenizer.save_pretrained(tmp_path / "meta-llama" / "Llama-2-7b-hf")
    monkeypatch.setenv("CAUSALNB_BASES", str(tmp_path))
    settings = registry.config("iclm.text.acre", "iclm", "paper")
    assert settings["bf16"] and settings["checkpointing"] and settings["router_settings"] == {}
    assert settings["base_model"] == "meta-llama/Llama-2-7b-hf" and settings["lora_rank"] == 8
    few = {"steps": 2, "train_rows": 16, "test_rows": 2, "cells": ["IID"], "source": "generator"}
    found = iclm_text.run_text(
        Run("iclm.text", "iclm", 0, "paper", settings | few, tmp_path / "run", "cpu", lambda *_: None)
    )["metrics"]
    assert found[""]["rows"] + found[""]["rows_too_long"] == 32 and 0 <= found["IID/text"]["exact"] <= 1


def test_what_cannot_be_had_is_said(base, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(LabError, match="nobody/nothing is no folder here and cannot be downloaded"):
        iclm_text.text_base(config(base_model="nobody/nothing"), [])
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    with pytest.raises(LabError, match="(?s)cannot be read .*: give a folder with config.json"):
        iclm_text.text_base(config(base_model=str(tmp_path)), [])
    decoder, tokenizer = base
    decoder.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    if not find_spec("bitsandbytes"):
        with pytest.raises(LabError, match="4 bit needs bitsandbytes"):
            iclm_text.text_base(config(base_model=str(tmp_path), bits=4), [])
    tokenizer.eos_token = None
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(LabError, match="has no end of text: choose a base with an eos token"):
        iclm_text.text_base(config(base_model=str(tmp_path)), [])


def test_the_published_setting_is_estimated():
    assert iclm_text.base_parameters(iclm_text.LLAMA_2_7B) == pytest.approx(6.74e9, rel=0.01)
    settings = registry.config("iclm.text.acre", "iclm", "paper")
    parts = iclm_text.memory_gib(settings)
    assert parts["total"] == pytest.approx(sum(parts[name] for name in parts if name != "total"))
    assert parts["head"] == pytest.approx(262.1e6 * 16 / 2**30, rel=1e-3)  # the audit's count of weights
    assert parts["adapters"] == pytest.approx(4 * 8.39e6 * 16 / 2**30, rel=1e-3)
    assert iclm_text.memory_gib({**settings, "bits": 4})["weights"] == parts["weights"] / 4
    took, longer = (iclm_text.seconds({**settings, "test_rows": rows}) for rows in (1000, 2000))
    assert longer["decoding"] == 2 * took["decoding"] and longer["training"] == took["training"]
    rows = {row["experiment"]: row["memory_gib"] for row in doctor.work("paper")}
    assert rows["iclm.text.acre"] == pytest.approx(parts["total"])
