"""The control of held attention: its loss is a distance in entropy; without weight it is the model itself."""

import pytest
import torch
import torch.nn.functional as F
from transformers import AutoModelForSequenceClassification, set_seed

from causalnb.causal_transformer import invariance
from causalnb.causal_transformer.spread import SpreadConfig, SpreadForSequenceClassification

SIZE = dict(
    vocab_size=20, num_labels=2, d_model=8, num_heads=2, d_ff=8, encoder_layers=2, dropout=0.0, pre_norm=True
)


def batch():
    ids = torch.tensor([[1, 5, 6, 7, 2, 7, 6, 5, 2], [1, 8, 9, 2, 9, 8, 2, 0, 0]])
    types = torch.tensor([[0] * 5 + [1] * 4, [0] * 4 + [1] * 5])
    return {
        "input_ids": ids,
        "attention_mask": (ids != 0).long(),
        "token_type_ids": types,
        "labels": torch.tensor([0, 1]),
    }


def model(kind=SpreadForSequenceClassification, **more):
    set_seed(0)
    return kind(kind.config_class(**SIZE, **more)).double().train()


def entropy(maps, valid):
    """Literally, over layers, heads and valid tokens."""
    rows = [
        -sum(weight * weight.log() for weight in row if weight > 0)
        for one in maps
        for b in range(len(valid))
        for head in one[b]
        for row, there in zip(head, valid[b], strict=True)
        if there
    ]
    return torch.stack(rows).mean()


@pytest.mark.parametrize("target", [0.1, 1.0])
def test_the_loss_is_the_literal_one_and_so_are_its_gradients(target):
    given, one = batch(), model(entropy_target=target, entropy_weight=0.7)
    out = one(**given)  # classes of one word each: renaming changes nothing
    maps = one(**{**given, "labels": None}, output_attentions=True).encoder_attentions
    off = (entropy(maps, given["attention_mask"].bool()) - target).abs()
    logits = one(**{**given, "labels": None}).logits
    literal = F.cross_entropy(logits.float(), given["labels"]) + 0.7 * off
    torch.testing.assert_close(out.causal_loss, off.detach(), rtol=0, atol=1e-12)
    torch.testing.assert_close(out.loss, literal, rtol=0, atol=1e-6)
    weights = [p for p in one.parameters() if p.requires_grad]
    for fast, slow in zip(
        *(torch.autograd.grad(loss, weights, allow_unused=True) for loss in (out.loss, literal)), strict=True
    ):
        assert (fast is None) == (slow is None)
        if fast is not None:
            torch.testing.assert_close(fast, slow, rtol=0, atol=1e-6)


def test_without_weight_and_in_evaluation_it_is_the_invariant_model():
    given, plain = batch(), model(invariance.InvariantForSequenceClassification)
    off, on = model(entropy_weight=0.0), model(entropy_target=0.3)
    assert off(**given).loss == plain(**given).loss < on(**given).loss
    assert off(**given).encoder_attentions is None and on(**given).encoder_attentions is None
    assert on.eval()(**given).loss == plain.eval()(**given).loss
    assert torch.equal(on(**given).logits, plain(**given).logits)


def test_it_is_saved_and_loaded(tmp_path):
    one = model(entropy_target=0.4, entropy_weight=0.2)
    one.save_pretrained(tmp_path)
    other = AutoModelForSequenceClassification.from_pretrained(tmp_path).double()
    assert isinstance(other, SpreadForSequenceClassification)
    assert (other.config.entropy_target, other.config.entropy_weight) == (0.4, 0.2)
    assert torch.equal(other(**batch()).logits, one.eval()(**batch()).logits)


@pytest.mark.parametrize(
    "wrong, told",
    [
        (dict(entropy_target=-1), "entropy_target is -1: choose 0 or more"),
        (dict(entropy_weight=-0.5), "entropy_weight is -0.5: choose 0 or more"),
        (dict(entropy_target=float("nan")), "entropy_target is nan"),
        (dict(causal_weight=0.5), "causal_weight is 0.5 beside a penalty on entropy: choose 0"),
    ],
)
def test_what_cannot_be_is_refused(wrong, told):
    with pytest.raises(ValueError, match=told):
        SpreadConfig(**SIZE, **wrong)
