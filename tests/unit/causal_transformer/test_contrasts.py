"""The older models read what they say they read; entropy is held as it says."""

import math

import pytest
import torch
import torch.nn.functional as F

from causalnb.causal_transformer.contrasts import (
    KINDS,
    ContrastConfig,
    ContrastForSequenceClassification,
    EntropyPenaltyConfig,
    EntropyPenaltyForSequenceClassification,
    row_entropy,
)

from .small import SIZES, classifier, maps, padded

TYPES = torch.tensor([[0, 0, 0, 0, 1, 1, 1]])


def contrast(kind, seed=0):
    """A tiny contrast of a kind, in evaluation."""
    torch.manual_seed(seed)
    config = ContrastConfig(kind, vocab_size=23, d_model=8, num_labels=3)
    return ContrastForSequenceClassification(config).eval()


def pair(ids, types=TYPES) -> dict:
    """The arguments of one pair without padding."""
    ids = torch.tensor([ids])
    return dict(input_ids=ids, attention_mask=torch.ones_like(ids), token_type_ids=types)


def test_bag_of_words_knows_no_order_and_the_lstm_does():
    first, second = pair([3, 4, 5, 6, 7, 8, 9]), pair([5, 3, 6, 4, 9, 7, 8])
    assert torch.allclose(contrast("bow")(**first).logits, contrast("bow")(**second).logits, atol=1e-6)
    states = [contrast("bilstm")(**one).logits for one in (first, second)]
    assert not torch.allclose(*states, atol=1e-3)


@pytest.mark.parametrize("kind", ["bow", "bilstm"])
def test_sentences_are_told_apart(kind):
    one = contrast(kind)(**pair([3, 4, 5, 6, 7, 8, 9])).logits
    other = contrast(kind)(**pair([3, 4, 5, 6, 7, 8, 9], torch.tensor([[0, 0, 1, 1, 1, 1, 1]]))).logits
    assert not torch.allclose(one, other, atol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_padding_changes_nothing(kind):
    model, alone = contrast(kind), pair([3, 4, 5, 6, 7, 8, 9])
    longer = {name: F.pad(value, (0, 3)) for name, value in alone.items()}
    longer["token_type_ids"][:, -3:] = 1
    assert torch.allclose(model(**alone).logits, model(**longer).logits, atol=1e-6)


def test_the_constant_learns_how_frequent_labels_are():
    model, labels = contrast("constant"), torch.tensor([0, 0, 0, 2])
    given = {name: value.expand(4, -1) for name, value in pair([3, 4, 5, 6, 7, 8, 9]).items()}
    optimiser = torch.optim.SGD(model.parameters(), 1.0)
    for _ in range(200):
        optimiser.zero_grad()
        model(**given, labels=labels).loss.backward()
        optimiser.step()
    assert model(**given).logits[0].softmax(-1).tolist() == pytest.approx([0.75, 0, 0.25], abs=0.02)
    other = {**given, "input_ids": given["input_ids"] + 5}
    assert torch.equal(model(**given).logits, model(**other).logits)


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_saved_and_loaded(kind, tmp_path):
    model, given = contrast(kind), pair([3, 4, 5, 6, 7, 8, 9])
    model.save_pretrained(tmp_path)
    again = ContrastForSequenceClassification.from_pretrained(tmp_path).eval()
    assert {*again.state_dict()} == {*model.state_dict()} and again.config.kind == kind
    assert all(torch.equal(value, again.state_dict()[name]) for name, value in model.state_dict().items())
    torch.testing.assert_close(model(**given).logits, again(**given).logits)  # kernels round by alignment


def test_bad_settings_and_pairs_are_refused():
    with pytest.raises(ValueError, match="kind is 'gru': choose among 'constant', 'bow', 'bilstm'"):
        ContrastConfig("gru")
    with pytest.raises(ValueError, match="d_model is 7: choose an even width"):
        ContrastConfig(d_model=7)
    with pytest.raises(ValueError, match="d_model is None: choose an even width"):
        ContrastConfig(d_model=None)
    for dropout in (2.0, "0.1"):
        with pytest.raises(ValueError, match=f"dropout is {dropout!r}: choose it in"):
            ContrastConfig(dropout=dropout)
    with pytest.raises(ValueError, match="entropy_target is None: choose 0 nats or more"):
        EntropyPenaltyConfig(None)
    with pytest.raises(ValueError, match="tokens of one type alone"):
        contrast("bow")(**pair([3, 4, 5, 6, 7, 8, 9], torch.zeros_like(TYPES)))


def test_masks_and_types_are_asked_for_where_they_are_read():
    given = pair([3, 4, 5, 6, 7, 8, 9])
    for name in ("attention_mask", "token_type_ids"):
        with pytest.raises(ValueError, match="attention_mask or token_type_ids are missing: give 1"):
            contrast("bow")(**given | {name: None})
        assert contrast("constant")(**given | {name: None}).logits.shape == (1, 3)
        with pytest.raises(TypeError, match=name):
            contrast("constant")(**{key: value for key, value in given.items() if key != name})
    left, none = given["attention_mask"].clone(), torch.zeros_like(given["attention_mask"])
    left[:, 0] = 0
    with pytest.raises(ValueError, match="a token after padding, which an LSTM would misread: pad on the ri"):
        contrast("bilstm")(**given | dict(attention_mask=left))
    assert contrast("bow")(**given | dict(attention_mask=left)).logits.shape == (1, 3)
    with pytest.raises(ValueError, match="attention_mask hides every token of a pair"):
        contrast("bilstm")(**given | dict(attention_mask=none))


def test_one_loss_is_penalised_at_a_time():
    model = EntropyPenaltyForSequenceClassification(EntropyPenaltyConfig(1.2, **SIZES))
    given = pair([3, 4, 5, 6, 7, 8, 9])
    assert model.eval()(**given).logits.shape == (1, 2)
    with pytest.raises(ValueError, match="blanket is 'hinge' beside a penalty on entropy: choose blanket='n"):
        model(**given, labels=torch.tensor([1]))
    with pytest.raises(ValueError, match="there are no maps: ask a model with output_attentions=True"):
        row_entropy(())


@pytest.mark.parametrize(
    "make",
    [
        lambda: contrast("bow"),
        lambda: EntropyPenaltyForSequenceClassification(EntropyPenaltyConfig(**SIZES | dict(blanket="none"))),
    ],
)
def test_contrasts_keep_to_the_ways_of_the_model(make):
    model, given = make().eval(), pair([3, 4, 5, 6, 7, 8, 9]) | dict(labels=torch.tensor([1]))
    out, told = model(**given), model(**given, return_dict=False)
    assert isinstance(told, tuple) and torch.equal(told[0], out.loss) and torch.equal(told[1], out.logits)
    model.config.return_dict = False
    assert isinstance(model(**given), tuple)
    with pytest.raises(ValueError, match=r"input_ids has shape \(0, 7\), an empty batch"):
        model(**{name: value[:0] for name, value in given.items()})
    with pytest.raises(ValueError, match="output_hidden_states is True, which these models do not take"):
        model(**given, output_hidden_states=True)


# entropy


def test_entropy_by_hand_and_its_gradient_is_finite():
    uniform, sure = torch.full((1, 2, 4, 4), 0.25), torch.eye(4).expand(1, 2, 4, 4)
    assert row_entropy((uniform,)).item() == pytest.approx(math.log(4))
    assert row_entropy((uniform, sure)).item() == pytest.approx(math.log(4) / 2)
    scores = torch.randn(1, 1, 4, 4).masked_fill(torch.eye(4) > 0, -torch.inf).requires_grad_()
    row_entropy((scores.softmax(-1),)).backward()
    assert scores.grad.isfinite().all() and scores.grad.abs().max() > 0


def test_entropy_leaves_padding_out():
    valid = padded()
    given = maps(valid)
    rows = torch.special.entr(given).sum(-1).transpose(1, 2)[valid]
    assert row_entropy((given,), valid).item() == pytest.approx(rows.mean().item(), abs=1e-6)


@pytest.mark.parametrize("target", [0.0, 1.2, 3.0])
def test_the_penalty_is_added_with_its_weight(target):
    torch.manual_seed(0)
    settings = SIZES | dict(blanket="none", gcn="none", causal_weight=0.3, causal_ramp=[1, 2])
    model = EntropyPenaltyForSequenceClassification(EntropyPenaltyConfig(target, **settings)).train()
    given = dict(input_ids=torch.randint(3, 20, (4, 7)), labels=torch.tensor([0, 1, 0, 1]))
    plain = classifier(blanket="none", gcn="none")
    plain.load_state_dict(model.state_dict())
    expected = plain(**given, output_attentions=True)
    for weight in (0.0, 0.0, 0.3):  # of passes 0, 1, 2
        out = model(**given)
        off = abs(row_entropy(expected.encoder_attentions).item() - target)
        assert out.loss.item() == pytest.approx(expected.loss.item() + weight * off, abs=1e-5)
        assert out.encoder_attentions is None
    assert out.causal_loss.item() == pytest.approx(off, abs=1e-5)
    with pytest.raises(ValueError, match="entropy_target is -1"):
        EntropyPenaltyConfig(-1)
    shown = model(given["input_ids"], output_attentions=True)
    assert len(shown.encoder_attentions) == 2 and shown.loss is None
