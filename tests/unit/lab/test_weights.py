"""Weights of a small model: half precision, once each, and refused where they do not fit."""

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from causalnb.errors import LabError
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
