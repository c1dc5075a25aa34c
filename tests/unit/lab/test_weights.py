"""Weights of a small model: half precision, once each, and refused where they do not fit."""

from hashlib import sha256

import pytest
import torch
from safetensors.torch import load_file, save
from transformers import LlamaConfig, LlamaForCausalLM

from causalnb.errors import LabError
from causalnb.lab import weights
from causalnb.lab.weights import load_weights, save_weights


def small(width=8):
    torch.manual_seed(width)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=11,
            hidden_size=width,
            intermediate_size=8,
            num_hidden_layers=1,
            num_attention_heads=2,
            tie_word_embeddings=True,
        )
    )


def test_saved_and_loaded_they_are_the_same_to_half_precision(tmp_path):
    model, file = small(), tmp_path / "models" / "small.safetensors"
    digest = save_weights(model, file)
    assert len(digest) == 64 and digest == save_weights(model, file) and not [*tmp_path.rglob("*.part")]
    assert file.stat().st_size < 2.2 * sum(p.numel() for p in model.parameters()) + 2000  # the tied ones once
    torch.manual_seed(1)
    other = load_weights(small(), file, "make it")
    for name, value in model.state_dict().items():
        assert torch.equal(other.state_dict()[name], value.half().float())
    assert other.lm_head.weight is other.model.embed_tokens.weight


def test_what_is_missing_or_of_another_size_is_refused(tmp_path):
    file = tmp_path / "small.safetensors"
    with pytest.raises(LabError, match="small.safetensors: make it with `causalnb run it`."):
        load_weights(small(), file, "causalnb run it")
    save_weights(small(), file)
    with pytest.raises(LabError, match="that does not fit: make it again with `causalnb run it`."):
        load_weights(small(16), file, "causalnb run it")


def written(file, data: bytes) -> None:
    file.write_bytes(data)
    file.with_name(f"{file.name}.sha256").write_text(
        f"{sha256(data).hexdigest()}  {file.name}\n", encoding="utf-8"
    )


@pytest.mark.parametrize("at", [0, 3, 9, 200, -1, -300])
def test_one_flipped_bit_is_refused_and_changes_no_setting(tmp_path, at):
    file = tmp_path / "small.safetensors"
    sums = save_weights(small(), file)
    assert (tmp_path / "small.safetensors.sha256").read_text(
        encoding="utf-8"
    ) == f"{sums}  small.safetensors\n"
    data = bytearray(file.read_bytes())
    data[at] ^= 1
    file.write_bytes(data)
    with pytest.raises(LabError, match="small.safetensors is damaged: its sha256 .* with `make it`"):
        load_weights(small(), file, "make it")
    assert weights.digest(file) == sums


@pytest.mark.parametrize(
    "change",
    [
        lambda data, sums: (b"", sums),
        lambda data, sums: (data[:-1], sums),
        lambda data, sums: (data, None),
        lambda data, sums: (data, b""),
        lambda data, sums: (data, b"\xff\xfe"),
    ],
)
def test_a_file_without_its_sum_is_refused(tmp_path, change):
    file = tmp_path / "small.safetensors"
    beside = tmp_path / "small.safetensors.sha256"
    save_weights(small(), file)
    data, sums = change(file.read_bytes(), beside.read_bytes())
    file.write_bytes(data)
    beside.unlink()
    if sums is not None:
        beside.write_bytes(sums)
    with pytest.raises(LabError, match="small.safetensors"):
        load_weights(small(), file, "make it")


def test_other_weights_than_the_model_has_are_refused(tmp_path):
    file = tmp_path / "small.safetensors"
    save_weights(small(), file)
    whole, before = load_file(file), small().state_dict()
    first = next(iter(whole))
    for contents, match in (
        ({}, f"has no {first}: make it again with `make it`"),
        ({n: v for n, v in whole.items() if "norm" not in n}, "has no .*norm.*: make it again"),
        ({**whole, "more": whole[first].clone()}, "has a more of .* that does not fit: make it again"),
    ):
        written(file, save(contents))
        model = small()
        with pytest.raises(LabError, match=match):
            load_weights(model, file, "make it")
        assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    written(file, b"no weights at all")
    with pytest.raises(LabError, match="small.safetensors holds no weights .*make it again with `make it`"):
        load_weights(small(), file, "make it")
