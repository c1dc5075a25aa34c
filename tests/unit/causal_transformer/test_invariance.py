"""Words are interchanged as they should be, classes are known by hand, patterns and losses are literal."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from causalnb.causal_transformer import MarkovBlanketLoss
from causalnb.causal_transformer.invariance import (
    InvariantConfig,
    InvariantForSequenceClassification,
    attention_shift,
    interchange,
    parents_pattern,
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
    model = InvariantForSequenceClassification(
        InvariantConfig(interchanged=interchanged, causal_weight=causal_weight, **SIZES | settings)
    )
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
    tokens = [
        [1, 3, draw.integers(5, 9), draw.integers(10, 12), 3, draw.integers(5, 9), 2] for _ in range(500)
    ]
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


# sparse and directed


def literal_pattern(place, types, heads, parents, directed):
    seen = torch.zeros(len(place), heads, place.shape[1], place.shape[1], dtype=torch.bool)
    for b, h, i, j in np.ndindex(*seen.shape):
        before, after = 0 <= place[b, i] - place[b, j] <= parents, 0 <= place[b, j] - place[b, i] <= parents
        sides = before or after if not directed else before if h < heads // 2 else after
        seen[b, h, i, j] = sides and types[b, i] == types[b, j]
    return seen


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("parents", [1, 3])
def test_parents_are_literal(parents, directed):
    place = torch.tensor([[0, 1, 2, 3, 4, 0, 1, 2], [0, 1, 2, 3, 4, 0, 1, 1]])
    found = parents_pattern(place, TYPES, 3, parents, directed)
    assert torch.equal(found, literal_pattern(place, TYPES, 3, parents, directed))


def test_maps_are_sparse_and_without_cycles():
    model = invariant(parents=2, encoder_layers=2).eval()
    maps = model(**batch(), output_attentions=True).encoder_attentions
    valid, eye = IDS != 0, torch.eye(8, dtype=torch.bool)
    for one in maps:
        arcs = (one > 0) & ~eye & valid[:, None, :, None]
        assert arcs.sum(-1).max() == 2 and not (arcs & arcs.mT).any()
        assert (arcs[:, 0].float().matrix_power(8) == 0).all() and arcs[:, 0].triu().sum() == 0
        assert arcs[:, 1].tril().sum() == 0 and arcs[:, 1].sum() > 0
        assert not (arcs & (TYPES[:, None, :, None] != TYPES[:, None, None])).any()


def test_a_sentence_does_not_depend_on_the_other(double):
    """do(second sentence := another, longer one): states of the first stay, to the bit; answers do not."""
    model, stack = invariant(parents=2).eval(), []
    model.encoder.final_norm.register_forward_hook(lambda module, given, out: stack.append(out))
    other = IDS.clone()
    other[:, 5:] = torch.tensor([9, 12, 13])
    before = model(**batch()).logits
    after = model(
        input_ids=other,
        token_type_ids=torch.tensor([[0] * 5 + [1] * 3] * 2),
        attention_mask=torch.ones_like(other),
    ).logits
    assert torch.equal(stack[0][:, :5], stack[1][:, :5]) and (before != after).all()
    longer = torch.cat([IDS[:, :3], torch.full((2, 2), 11), IDS[:, 3:]], 1)
    kinds = torch.cat([TYPES[:, :3], torch.zeros_like(TYPES[:, :2]), TYPES[:, 3:]], 1)
    model(input_ids=longer, token_type_ids=kinds, attention_mask=(longer != 0).long())
    assert torch.allclose(stack[2][:, 7:9], stack[0][:, 5:7], atol=1e-12)
    assert not torch.allclose(stack[2][:, :5], stack[0][:, :5], atol=1e-3)


@pytest.mark.parametrize("parents", [None, 2])
def test_answers_are_literal(parents, double):
    """Token by token and head by head, for the row without padding; gradients too."""
    model = invariant(parents=parents, interchanged=False, causal_weight=0.0, encoder_layers=1)
    given = {name: value[:1] for name, value in batch().items()}
    width, heads = 6, 2
    block, place = model.encoder.layers[0], [0, 1, 2, 3, 4, 0, 1, 2] if parents else list(range(8))

    def literal():
        states = []
        for token, kind, at in zip(IDS[0], TYPES[0], place, strict=True):
            angles = [at * 10_000 ** (-i / 6) for i in range(6)]
            told = torch.tensor([np.sin(a) for a in angles] + [np.cos(a) for a in angles])
            states.append(
                (model.encoder.embed_tokens.weight[token] + model.encoder.embed_types.weight[kind]) * 12**0.5
                + told
            )
        q, k, v = (
            [p(one) for one in states]
            for p in (block.self_attn.q_proj, block.self_attn.k_proj, block.self_attn.v_proj)
        )
        after = []
        for i in range(8):
            gathered = []
            for h in range(heads):
                part = slice(h * width, (h + 1) * width)
                sides = [(place[i] - place[j]) * (1 if h == 0 else -1) for j in range(8)]
                seen = [
                    j
                    for j in range(8)
                    if parents is None or TYPES[0, i] == TYPES[0, j] and 0 <= sides[j] <= parents
                ]
                chance = torch.stack([q[i][part] @ k[j][part] / width**0.5 for j in seen]).softmax(0)
                gathered.append(sum(w * v[j][part] for w, j in zip(chance, seen, strict=True)))
            one = block.self_norm(states[i] + block.self_attn.out_proj(torch.cat(gathered)))
            after.append(block.ffn_norm(one + block.ffn(one)))
        u, w = (
            torch.stack([one for one, kind in zip(after, TYPES[0], strict=True) if kind == which]).amax(0)
            for which in (0, 1)
        )
        return model.classifier(F.gelu(model.hidden(torch.cat([u, w, (u - w).abs(), u * w]))))

    found = model(**given).logits[0]
    assert torch.allclose(found, literal(), atol=1e-10)
    weight = block.self_attn.q_proj.weight
    fast, slow = (
        torch.autograd.grad(one.log_softmax(-1)[0], weight, retain_graph=True)[0]
        for one in (found, literal())
    )
    assert torch.allclose(fast, slow, atol=1e-10) and fast.abs().max() > 1e-6


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
    with pytest.raises(ValueError, match="there are no maps to compare: ask both times"):
        attention_shift([], [])


@pytest.mark.parametrize(
    "tokens, settings, told",
    [
        ([], {}, "no word has a neighbour: give sentences"),
        ([[3]], {}, "no word has a neighbour"),
        ([[3, 3]], {}, "there are 1 words to classify"),
        ([[3, 4, 5]], dict(alone=(4, 5)), "there are 1 words"),
        ([[3, 4]], dict(distance=0), "distance is 0: choose a number above 0"),
    ],
)
def test_words_to_classify_are_asked_for(tokens, settings, told):
    with pytest.raises(ValueError, match=told):
        word_classes(tokens, 7, **settings)


@pytest.mark.parametrize("interchanged", [False, True])
@pytest.mark.parametrize("parents", [None, 2])
def test_the_loss_of_the_model_is_literal(parents, interchanged, double):
    model, given, labels = invariant(interchanged, parents=parents), batch(), torch.tensor([0, 1])
    torch.manual_seed(1)
    out = model(**given, labels=labels)
    torch.manual_seed(1)
    renamed = given | dict(input_ids=interchange(IDS, TYPES, MARKS))
    assert not torch.equal(renamed["input_ids"], IDS)
    model.eval()
    seen, moved = (model(**one, output_attentions=True) for one in (given, renamed))
    chances = (moved if interchanged else seen).logits.log_softmax(-1)
    task = -(chances[0, 0] + chances[1, 1]) / 2
    shift = attention_shift(seen.encoder_attentions, moved.encoder_attentions, given["attention_mask"])
    assert out.task_loss.item() == pytest.approx(task.item(), abs=1e-6)
    assert out.causal_loss.item() == pytest.approx(shift.item(), abs=1e-6) and shift > 1e-3
    assert out.loss.item() == pytest.approx((task + 0.5 * shift).item(), abs=1e-6)
    assert out.encoder_attentions is None and model.passes == 1


def test_gradient_of_the_shift_reaches_the_queries(double):
    grads = []
    for weight in (0.0, 0.5):
        model = invariant(causal_weight=weight)
        torch.manual_seed(1)
        model(**batch(), labels=torch.tensor([0, 1])).loss.backward()
        grads.append((model.encoder.layers[0].self_attn.q_proj.weight.grad, model.classifier.weight.grad))
    (queries, head), (held, same) = grads
    assert (queries - held).abs().max() > 1e-6 and torch.allclose(head, same, atol=1e-12)


def test_without_its_parts_it_is_a_vanilla_transformer(double):
    model = invariant(False, 0.0, parents=None, compared=False)
    vanilla = classifier(gcn="none", blanket="none").train()
    given = batch() | dict(labels=torch.tensor([0, 1]))
    vanilla.load_state_dict({name: value for name, value in model.state_dict().items() if name != "classes"})
    for mask in (given["attention_mask"], None):
        assert model(**given | dict(attention_mask=mask)).loss.item() == pytest.approx(
            vanilla(**given | dict(attention_mask=mask)).loss.item(), abs=1e-12
        )


@pytest.mark.parametrize("normalise", ["rows", "sinkhorn"])
@pytest.mark.parametrize("gcn", ["none", "paper"])
def test_with_a_blanket_it_is_the_papers_model(gcn, normalise, double):
    settings = dict(gcn=gcn, blanket="hinge", causal_weight=0.7, blanket_settings={"normalise": normalise})
    model = invariant(False, parents=None, compared=False, **settings)
    printed = classifier(**settings).train()
    printed.load_state_dict({name: value for name, value in model.state_dict().items() if name != "classes"})
    given = batch() | dict(labels=torch.tensor([0, 1]))
    for mode in (True, False):
        ours, theirs = (one.train(mode)(**given) for one in (model, printed))
        for name in ("loss", "task_loss", "causal_loss", "violated"):
            assert ours[name].item() == pytest.approx(theirs[name].item(), abs=1e-12)
    assert ours.causal_loss > 0 and ours.encoder_attentions is None and model.passes == 1


@pytest.mark.parametrize("compared", [False, True])
def test_equation_6_with_a_comparison_is_literal(compared, double):
    model = invariant(False, parents=None, compared=compared, blanket="hinge", gcn="paper", causal_weight=0.7)
    given, labels = batch(), torch.tensor([0, 1])
    out = model(**given, labels=labels)
    seen = model(**given, output_attentions=True)
    held = [
        MarkovBlanketLoss(self_loop=model.config.self_loop)(one, given["attention_mask"] == 1)
        for one in seen.encoder_attentions
    ]
    literal = F.cross_entropy(seen.logits, labels) + 0.7 * sum(held) / len(held)
    assert out.loss.item() == pytest.approx(literal.item(), abs=1e-6)
    query = model.encoder.layers[0].self_attn.q_proj.weight
    slopes = [torch.autograd.grad(loss, query)[0] for loss in (out.loss, literal)]
    assert (slopes[0] - slopes[1]).abs().max() < 1e-6 < slopes[1].abs().max()


def test_in_evaluation_nothing_is_interchanged():
    model, given = invariant().eval(), batch() | dict(labels=torch.tensor([0, 1]))
    out = model(**given)
    expected = F.cross_entropy(model(**batch()).logits, given["labels"])
    assert out.loss.item() == pytest.approx(expected.item()) and out.causal_loss is None


def test_classes_are_saved(tmp_path):
    invariant(False).save_pretrained(tmp_path)
    again = InvariantForSequenceClassification.from_pretrained(tmp_path)
    assert torch.equal(again.classes, MARKS) and not again.config.interchanged


def test_words_of_a_vanilla_transformer_are_alone(tmp_path):
    classifier(gcn="none", blanket="none").save_pretrained(tmp_path)
    model = InvariantForSequenceClassification.from_pretrained(
        tmp_path, config=InvariantConfig(compared=False, **SIZES)
    )
    assert torch.equal(model.classes, torch.arange(VOCABULARY))


def test_sentences_must_be_told_apart():
    with pytest.raises(ValueError, match="token_type_ids are missing: give 0"):
        invariant()(IDS, labels=torch.tensor([0, 1]))


def test_it_keeps_to_the_ways_of_the_model():
    model = invariant().eval()
    assert torch.equal(model(**batch(), return_dict=False)[0], model(**batch()).logits)
    with pytest.raises(ValueError, match=r"input_ids has shape \(0, 8\), an empty batch"):
        model(**{name: value[:0] for name, value in batch().items()})
    with pytest.raises(ValueError, match="inputs_embeds has shape"):
        model(**batch(), inputs_embeds=torch.zeros(2, 8, 12))


def test_a_pair_has_both_sentences():
    with pytest.raises(ValueError, match="a pair has tokens of one type alone: give"):
        invariant()(IDS, token_type_ids=torch.zeros_like(IDS))


@pytest.mark.parametrize(
    "settings, told",
    [
        (
            dict(blanket="hinge"),
            "blanket is 'hinge' beside parents=2 and interchanged=True: choose 'none', or",
        ),
        (dict(blanket="hinge", interchanged=False), "beside parents=2 and interchanged=False"),
        (dict(blanket="hinge", parents=None), "beside parents=None and interchanged=True"),
        (dict(pattern="band"), "pattern is 'band': choose 'full', parents say"),
        (dict(parents=0), "parents is 0: choose a count from 1 on, or None"),
        (dict(parents=1.5), "parents is 1.5: choose a count from 1 on, or None"),
        (dict(num_heads=1), "a single head cannot look both ways: choose num_heads=2"),
    ],
)
def test_settings_out_of_range_are_refused(settings, told):
    with pytest.raises(ValueError, match=told):
        InvariantConfig(**settings)
