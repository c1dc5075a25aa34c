"""The benchmarks measure what they name, and say where a bar is missed."""

import json
from dataclasses import replace

import pytest
import torch
from transformers import Gemma3ForCausalLM, Gemma3TextConfig, LlamaConfig, LlamaForCausalLM

from causalnb.experiments.sci.real import every_word
from causalnb.lab import bases
from tests.benchmarks import bench_bases, common
from tests.benchmarks import bench_causal_transformer as bench


def test_a_bar_is_missed_above_it_and_by_what_is_no_number():
    rows = [
        common.row("slow", "ms", 10, 13, 1.25),
        common.row("at it", "ms", 10, 12.5, 1.25),
        common.row("no bar", "ms", 1, 9),
        common.row("nothing", "ms", 1, float("nan"), 2.0),
    ]
    assert common.missed(rows) == ["slow", "nothing"]


@pytest.mark.parametrize("strict", [True, False])
def test_a_missed_bar_fails_where_it_is_asked_to(strict, tmp_path, monkeypatch, capsys):
    file = tmp_path / "rows.json"
    monkeypatch.setattr("sys.argv", ["bench", "--json", str(file), *["--strict"] * strict])

    def run():
        common.show("some", "A title", "About.", lambda repeats, say: [common.row("slow", "ms", 1, 2, 1.5)])

    if strict:
        with pytest.raises(SystemExit, match="missed: slow"):
            run()
    else:
        run()
    assert "MISSED" in capsys.readouterr().out
    assert json.loads(file.read_text(encoding="utf-8"))["some"][0]["ratio"] == 2


@pytest.mark.parametrize("length", [*bench.LENGTHS, bench.LONGEST])
def test_a_batch_has_sentences_of_the_length_that_is_measured(length):
    batch = bench.batch_of(length)
    assert batch["input_ids"].shape == (max(1, bench.TOKENS // length), length)
    assert len(batch["labels"]) == len(batch["input_ids"]) > 0


def test_the_longest_batch_has_a_loss():
    with torch.no_grad():
        assert torch.isfinite(bench.model_of("GCN + loss")(**bench.batch_of(bench.LONGEST)).loss)


def test_kept_and_computed_again_are_the_same():
    kept, again = (call() for call in bench.kept_or_computed(64).values())
    assert all(one.abs().max() > 0 for one in kept) and len(kept) == len(again) == 3


SHAPE = dict(
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=6,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=8,
)
GEMMA = dict(
    query_pre_attn_scalar=4, sliding_window=4, layer_types=["sliding_attention", "full_attention"] * 3
)
KINDS = {
    "gemma3": (Gemma3ForCausalLM, Gemma3TextConfig, SHAPE | GEMMA),  # its head is its embedding
    "llama": (LlamaForCausalLM, LlamaConfig, SHAPE),
}


@pytest.fixture(params=KINDS)
def small_base(request, tmp_path, monkeypatch):
    """The benchmark's base is a small random one, with a token a word and others that no row has."""
    kind, config, shape = KINDS[request.param]
    size = {"vocabulary": 600, "hidden_size": 8, "layers": 1, "heads": 1}
    _, tokenizer, *_ = bases.tiny_base(size, every_word({}) * 2)
    monkeypatch.setattr(
        torch, "set_num_threads", lambda threads: None
    )  # two wait for each other on busy cores
    torch.manual_seed(0)
    special = {"pad_token_id": 0, "bos_token_id": None, "eos_token_id": 0}
    kind(config(vocab_size=len(tokenizer), **special, **shape)).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    monkeypatch.setattr(bench_bases, "BASE", str(tmp_path))
    return request.param


def test_no_measure_on_a_base_is_fast_by_being_wrong(small_base):
    made = bench_bases.steps()
    assert abs(bench_bases.check(made)) < 0.05
    vocabularies = [made[name].model.get_input_embeddings().num_embeddings for name in bench_bases.CHAIN[1:3]]
    assert vocabularies[0] > vocabularies[1]
    drawn, grouped = (bench_bases.padded(made[name]) for name in bench_bases.GROUPED)
    assert drawn > grouped
    layers = [made[name].model.config.num_hidden_layers for name in bench_bases.CHAIN[4:]]
    trained = [len(made[name].trained) for name in bench_bases.CHAIN[3:]]
    assert layers == [6, 2, 2] and trained == [6 * 14, 2 * 14, 2 * 14, 2 * 14]
    frozen = made["lower two thirds frozen"]
    assert all(weight.grad.abs().max() > 0 for weight in frozen.trained)


def test_a_wrong_measure_on_a_base_is_told(small_base):
    made = bench_bases.steps()
    pairs = {ours: plain for plain, ours in bench_bases.EQUAL}

    def wrong(name, **changed):
        with pytest.raises(AssertionError, match="not close"):
            bench_bases.agree(made[pairs[name]], replace(made[name], **changed))

    batch, cached = (made[name].batches[0] for name in ("vocabulary cut", "their states cached"))
    wrong("vocabulary cut", batches=[batch | {"input_ids": batch["input_ids"].flip(0)}])
    wrong("label rows alone through the head", batches=[batch | {"labels": batch["labels"].roll(1, 1)}])
    wrong("rows grouped by length", batches=made["rows grouped by length"].batches[:-1])
    wrong("their states cached", batches=[cached | {"inputs_embeds": 2 * cached["inputs_embeds"]}])
    if small_base == "gemma3":
        config = made["their states cached"].model.config
        config.layer_types = config.layer_types[::-1]
        wrong("their states cached")


def test_every_measure_on_a_base_has_a_row(small_base, capsys):
    rows = bench_bases.measure(1, lambda what: None)
    assert len(rows) == len(bench_bases.CHAIN) - 1 + 3
    assert all(row["ours"] > 0 and row["bar"] is None for row in rows)
    assert rows[-1]["plain"] == bench_bases.AIM
    assert "bfloat16" in capsys.readouterr().out


def test_without_the_base_nothing_is_measured(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(bench_bases, "BASE", str(tmp_path / "none"))
    bench_bases.main()
    assert capsys.readouterr().out.startswith("no step on a real base was timed: ")
