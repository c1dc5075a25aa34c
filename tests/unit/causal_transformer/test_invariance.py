"""Words are interchanged as they should be, weights and classes are known by hand, the loss is literal."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from causalnb.causal_transformer.invariance import (
    InvariantConfig,
    InvariantForSequenceClassification,
    attention_shift,
    independence_weights,
    interchange,
    word_classes,
)

from .small import SIZES, VOCABULARY, classifier, maps, padded

CLASSES = torch.arange(VOCABULARY) // 4
IDS = torch.tensor([[1, 8, 9, 16, 2, 16, 8, 2], [1, 8, 9, 10, 2, 9, 2, 0]])
TYPES = torch.tensor([[0, 0, 0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 0, 1, 1, 0]])
MARKS = torch.tensor([0, 1, 2, 3, *range(10, 29)]).where(torch.arange(VOCABULARY) < 4, CLASSES + 4)


def batch() -> dict:
    return dict(input_ids=IDS, token_type_ids=TYPES, attention_mask=(IDS != 0).long())


def invariant(interchanged=True, causal_weight=0.5, **settings) -> InvariantForSequenceClassification:
    torch.manual_seed(0)
    model = InvariantForSequenceClassification(InvariantConfig(
        interchanged=interchanged, causal_weight=causal_weight, **SIZES | settings))
    model.classes.copy_(MARKS)
    return model.train()


# interchanged words


def test_words_that_both_sentences_share_are_interchanged_within_their_class():
    torch.manual_seed(0)
    drawn = torch.stack([interchange(IDS, TYPES, MARKS) for _ in range(400)])
    assert (MARKS[drawn] == MARKS[IDS]).all()
    kept = torch.tensor([[0, 2, 4, 7], [0, 1, 3, 7]])  # marks, and words of one sentence alone
    for row, places in enumerate(kept):
        assert (drawn[:, row, places] == IDS[row, places]).all()
    for row in (0, 1):
        same = drawn[:, row, :, None] == drawn[:, row, None, :]
        assert (same == (IDS[row, :, None] == IDS[row, None, :])).all()
    often = torch.bincount(drawn[:, 0, 1], minlength=VOCABULARY)[8:12] / 400
    assert often[1] == 0 and (often[[0, 2, 3]] - 1 / 3).abs().max() < 0.08  # 9 stands there already
    assert torch.bincount(drawn[:, 1, 2], minlength=VOCABULARY)[8:12].tolist()[::2] == [0, 0]


def test_pairs_are_permuted_apart_and_single_words_stay():
    torch.manual_seed(0)
    many = interchange(IDS[:1].expand(50, -1), TYPES[:1].expand(50, -1), MARKS)
    assert len(many.unique(dim=0)) > 5
    assert (interchange(IDS, TYPES, torch.arange(VOCABULARY)) == IDS).all()


# classes


def test_words_in_the_same_places_are_of_a_class():
    draw = np.random.default_rng(0)
    tokens = [[1, 3, draw.integers(5, 9), draw.integers(10, 12), 3, draw.integers(5, 9), 2]
              for _ in range(500)]
    found = word_classes(tokens, 14)
    assert len(set(found[5:9].tolist())) == len(set(found[10:12].tolist())) == 1
    others = [0, 1, 2, 3, 4, 5, 9, 10, 12, 13]
    assert len(set(found[others].tolist())) == len(others) == found.max() + 1
    apart = word_classes(tokens, 14, alone=(5,))
    assert apart[5] not in apart[6:9] and len(set(apart[6:9].tolist())) == 1


def test_sides_of_a_context_differ():
    tokens = [[3, 4, 5]] * 3 + [[5, 6, 3]] * 3
    assert len(word_classes(tokens, 7, distance=1.0)[[4, 6]].unique()) == 2
    assert len(word_classes([[3, 4, 5]] * 3 + [[3, 6, 5]] * 3, 7, distance=1.0)[[4, 6]].unique()) == 1


# weights


def pairs_where_overlap_misleads(n=2000):
    """Half of the second sentences have a new word: label 0; of the others one in ten has label 0."""
    draw = np.random.default_rng(0)
    first = [draw.choice(np.arange(3, 20), 4, replace=False).tolist() for _ in range(n)]
    new = np.arange(n) % 2 == 0
    second = [one[::-1][: 4 - extra] + [20] * extra for one, extra in zip(first, new.tolist(), strict=True)]
    return first, second, np.where(new, 0, draw.random(n) > 0.1).astype(int), new


def test_weights_make_labels_independent_of_overlap():
    first, second, labels, new = pairs_where_overlap_misleads()
    weights = independence_weights(first, second, labels, 21)
    assert weights.mean() == pytest.approx(1) and labels[~new].mean() > 0.88
    before = labels.mean()
    assert np.average(labels[~new], weights=weights[~new]) == pytest.approx(before, abs=0.04)


def test_a_row_does_not_explain_itself():
    """A word of its own in every row tells nothing: seen in training it would halve the weight of label 0."""
    labels = (np.arange(300) % 10 > 0).astype(int)
    own = [[3, 4 + i] for i in range(300)]
    weights = independence_weights(own, [[3]] * 300, labels, 304)
    assert weights[labels == 0].mean() / weights[labels == 1].mean() == pytest.approx(1, abs=0.1)


def test_no_weight_is_larger_than_asked():
    first, second, labels, _ = pairs_where_overlap_misleads(400)
    weights = independence_weights(first, second, labels, 21, smallest=0.5)
    assert weights.max() / weights.min() <= 2 * (1 - labels.mean()) / labels.mean() + 1e-9


def test_a_label_needs_as_many_rows_as_folds():
    with pytest.raises(ValueError, match="label 7 has 2 rows and there are 5 folds: choose fewer"):
        independence_weights([[3]] * 12, [[3]] * 12, [7, 7] + [1] * 10, 4)


# the loss


def test_shift_is_literal(double):
    valid = padded()
    one, other = ([maps(valid), maps(valid)] for _ in range(2))
    total, count = 0.0, 0
    for layer in range(2):
        for b, h, i in torch.cartesian_prod(torch.arange(3), torch.arange(2), torch.arange(6)).tolist():
            if valid[b, i]:
                apart = one[layer][b, h, i] - other[layer][b, h, i]
                total, count = total + sum(x * x for x in apart.tolist()) / 2, count + 1
    assert attention_shift(one, other, valid).item() == pytest.approx(total / count, abs=1e-14)
    eye = torch.eye(4).expand(1, 1, 4, 4)
    assert attention_shift([eye], [eye.roll(1, -1)]) == 1 and attention_shift([eye], [eye]) == 0


def test_shift_has_its_gradient(double):
    one, other = maps(batch=1, tokens=3).requires_grad_(), maps(batch=1, tokens=3).requires_grad_()
    valid = torch.tensor([[True, True, False]])
    assert torch.autograd.gradcheck(lambda a, b: attention_shift([a], [b], valid), (one, other))


def test_shift_needs_maps_of_the_same_sentences():
    with pytest.raises(ValueError, match="give those of the same layers"):
        attention_shift([maps()], [maps(tokens=5)])


@pytest.mark.parametrize("interchanged", [False, True])
def test_the_loss_of_the_model_is_literal(interchanged, double):
    model, given, labels = invariant(interchanged), batch(), torch.tensor([0, 1])
    weights = torch.tensor([0.5, 3.0])
    torch.manual_seed(1)
    out = model(**given, labels=labels, weights=weights)
    torch.manual_seed(1)
    renamed = given | dict(input_ids=interchange(IDS, TYPES, MARKS))
    assert not torch.equal(renamed["input_ids"], IDS)
    model.eval()
    seen, moved = (model(**one, output_attentions=True) for one in (given, renamed))
    chances = (moved if interchanged else seen).logits.log_softmax(-1)
    task = -(0.5 * chances[0, 0] + 3 * chances[1, 1]) / 2
    shift = attention_shift(seen.encoder_attentions, moved.encoder_attentions, given["attention_mask"])
    assert out.task_loss.item() == pytest.approx(task.item(), abs=1e-6)
    assert out.causal_loss.item() == pytest.approx(shift.item(), abs=1e-6) and shift > 1e-3
    assert out.loss.item() == pytest.approx((task + 0.5 * shift).item(), abs=1e-6)
    assert out.encoder_attentions is None and model.passes == 1


def test_gradient_reaches_the_queries_from_the_shift_alone(double):
    model = invariant()
    model(**batch(), labels=torch.tensor([0, 1]), weights=torch.zeros(2)).loss.backward()
    assert model.encoder.layers[0].self_attn.q_proj.weight.grad.abs().max() > 1e-6
    assert model.classifier.weight.grad.abs().max() == 0


def test_without_both_it_is_a_vanilla_transformer(double):
    settings = dict(gcn="none", blanket="none")
    model, vanilla = invariant(False, 0.0), classifier(**settings).train()
    given = batch() | dict(labels=torch.tensor([0, 1]))
    vanilla.load_state_dict({name: value for name, value in model.state_dict().items() if name != "classes"})
    assert model(**given).loss.item() == pytest.approx(vanilla(**given).loss.item(), abs=1e-12)


def test_in_evaluation_nothing_is_interchanged_or_weighted():
    model, given = invariant().eval(), batch() | dict(labels=torch.tensor([0, 1]))
    out = model(**given, weights=torch.tensor([9.0, 9.0]))
    expected = F.cross_entropy(model(**batch()).logits, given["labels"])
    assert out.loss.item() == pytest.approx(expected.item()) and out.causal_loss is None


def test_classes_are_saved(tmp_path):
    invariant(False).save_pretrained(tmp_path)
    again = InvariantForSequenceClassification.from_pretrained(tmp_path)
    assert torch.equal(again.classes, MARKS) and not again.config.interchanged


def test_words_of_a_vanilla_transformer_are_alone(tmp_path):
    classifier(gcn="none", blanket="none").save_pretrained(tmp_path)
    model = InvariantForSequenceClassification.from_pretrained(tmp_path, config=InvariantConfig(**SIZES))
    assert torch.equal(model.classes, torch.arange(VOCABULARY))


def test_sentences_must_be_told_apart():
    with pytest.raises(ValueError, match="token_type_ids are missing: give 0"):
        invariant()(IDS, labels=torch.tensor([0, 1]))


def test_a_blanket_is_refused():
    with pytest.raises(ValueError, match="blanket is 'hinge': choose 'none'"):
        InvariantConfig(blanket="hinge")
