"""LoRA that is kept in a file: adding it changes nothing, what is trained comes back, misfits are refused."""

import pytest
import torch

from causalnb.errors import LabError
from causalnb.lab import adapters
from causalnb.lab.bases import pretrained

TEXTS = ["the editors returned", "the barber slept"]
PAIR = {"input_ids": torch.tensor([[1, 5, 6, 2, 7]]), "token_type_ids": torch.tensor([[0, 0, 0, 0, 1]])}


def classifier():
    torch.manual_seed(0)
    off = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    return pretrained("tiny", TEXTS, "classifier", num_labels=2, **off).model.eval()


def trained(model, steps=3):
    optimizer = torch.optim.Adam([one for one in model.parameters() if one.requires_grad], lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        model(**PAIR, labels=torch.tensor([1])).loss.backward()
        optimizer.step()
    return model


def test_adding_changes_no_answer_and_leaves_the_base_untrained():
    model = classifier()
    before, known = model(**PAIR).logits, {name for name, _ in model.named_parameters()}
    adapters.add(model, 4)
    assert torch.equal(model(**PAIR).logits, before)
    moving = {name for name, one in model.named_parameters() if one.requires_grad}
    assert {name for name in moving & known} == {
        name for name in known if "classifier" in name or "pooler" in name
    }
    assert all("lora_" in name for name in moving - known)
    adapted = sum("lora_A" in name for name in moving)
    assert adapted == 2 * 6  # query, key, value, output, and two of the feed-forward part, of two layers


def test_what_was_trained_comes_back_to_half_precision(tmp_path):
    model, file = classifier(), tmp_path / "some.experiment.arm.safetensors"
    before = model(**PAIR).logits
    adapters.add(model, 4)
    after = trained(model)(**PAIR).logits
    adapters.save(model, file)
    other = classifier()
    adapters.add(other, 4)
    assert torch.equal(other(**PAIR).logits, before) and not torch.allclose(after, before, atol=0.1)
    adapters.load(other, file)
    assert torch.allclose(other(**PAIR).logits, after, atol=2e-2)
    small = sum(one.numel() for one in model.parameters() if one.requires_grad)
    assert file.stat().st_size < 2.2 * small + 8000


def test_another_rank_and_a_missing_file_are_refused(tmp_path):
    model, file = classifier(), tmp_path / "some.experiment.arm.safetensors"
    adapters.add(model, 4)
    with pytest.raises(LabError, match="make it with `causalnb run some.experiment`"):
        adapters.load(model, file)
    adapters.save(model, file)
    other = classifier()
    adapters.add(other, 2)
    with pytest.raises(LabError, match="does not fit: make it again with `causalnb run some.experiment`"):
        adapters.load(other, file)
