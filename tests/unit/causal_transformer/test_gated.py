"""Value updates on models of others: closed they change nothing, open they are Equation 4 beside A V."""

import copy

import pytest
import torch
import torch.nn.functional as F

from causalnb.attention import attention_maps, tap
from causalnb.causal_transformer import GatedValueUpdate, gate_values, markov_blanket_penalty
from tests.unit.causal_transformer.test_penalty import inputs_of, kinds, model_of

MODES = pytest.mark.parametrize("mode", ["paper", "two_hop"])


def gated(kind, mode="paper", gate=0.5, implementation="sdpa", **settings):
    model = model_of(kind).double()
    model.set_attn_implementation(implementation)
    torch.manual_seed(1)
    for update in gate_values(model, mode, **settings):
        with torch.no_grad():
            update.gate.copy_(gate * torch.arange(1, len(update.gate) + 1))
    return model


def literal(update, attention, value):
    """One head and one line at a time."""
    whole = torch.zeros(*attention.shape[:3], value.shape[-1], dtype=value.dtype)
    groups = attention.shape[1] // value.shape[1]
    for head in range(attention.shape[1]):
        own, weight = value[:, head // groups], update.weight[head // groups]
        for row in range(attention.shape[2]):
            line = attention[:, head, row, None]  # (B, 1, S)
            first = own if update.mode == "paper" else attention[:, head] @ own
            convolved = F.gelu(line @ (F.gelu(first) @ weight))
            whole[:, head, row] = (line @ own + update.reach * update.gate[head] * convolved)[:, 0]
    return whole.transpose(1, 2)


@kinds
def test_closed_gates_leave_a_model_as_it_was(kind):
    inputs, _ = inputs_of(kind)
    model = model_of(kind).double()
    before = model(**inputs)[0]
    assert all(update.gate.eq(0).all() for update in gate_values(model))
    torch.testing.assert_close(model(**inputs)[0], before)


@MODES
def test_an_open_gate_is_the_literal_equation_with_its_gradients(mode):
    torch.manual_seed(2)
    update = GatedValueUpdate(4, 2 if mode == "paper" else 4, 3, mode, reach=2.0).double()
    with torch.no_grad():
        update.gate.normal_()
    scores = torch.randn(2, 4, 5, 5, dtype=torch.float64, requires_grad=True)
    value = torch.randn(2, len(update.weight), 5, 3, dtype=torch.float64, requires_grad=True)

    def attend(value):
        wide = value.repeat_interleave(4 // value.shape[1], 1)
        return (scores.softmax(-1) @ wide).transpose(1, 2), None

    leaves = (scores, value, update.weight, update.gate)
    made, told = update(attend, value)[0], literal(update, scores.softmax(-1), value)
    torch.testing.assert_close(made, told)
    for one, other in zip(
        *(torch.autograd.grad(each.square().sum(), leaves) for each in (made, told)), strict=True
    ):
        torch.testing.assert_close(one, other)


@kinds
@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_a_layer_of_a_model_gives_what_the_equation_says(kind, implementation):
    model, (inputs, _) = gated(kind, implementation=implementation), inputs_of(kind)
    if implementation == "eager":  # where hidden rows are nan in float64
        model.float()
    outputs, hooks = {}, []
    for module in model.modules():
        if isinstance(module, GatedValueUpdate):
            hooks.append(module.register_forward_hook(lambda one, _, out: outputs.update({one: out[0]})))
    with torch.no_grad(), tap(model) as records:
        model(**inputs)
    assert len(records) == len(outputs) == len(hooks)
    for record in records:
        update = record.module.value_update
        told = literal(update, record.attention(), record.value)
        there = inputs["attention_mask"].bool()
        torch.testing.assert_close(outputs[update][there], told[there])


@kinds
def test_maps_and_the_loss_on_them_are_read_as_before(kind):
    model, (inputs, _) = gated(kind, gate=0.0), inputs_of(kind)
    plain = model_of(kind).double()
    for one, other in zip(attention_maps(model, **inputs), attention_maps(plain, **inputs), strict=True):
        torch.testing.assert_close(one, other)
    with markov_blanket_penalty(model) as penalty:
        model(**inputs)
        penalty.loss().backward()
    open_ = gated(kind)
    assert not torch.allclose(open_(**inputs)[0], plain(**inputs)[0])


def test_gates_open_by_training_and_travel_with_the_model(tmp_path):
    model, (inputs, _) = gated("bert", gate=0.0), inputs_of("bert")
    model(**inputs)[0].square().mean().backward()
    for module in model.modules():
        if isinstance(module, GatedValueUpdate):
            assert module.gate.grad.abs().min() > 0 and module.weight.grad.eq(0).all()
    trained = gated("bert")
    torch.testing.assert_close(copy.deepcopy(trained)(**inputs)[0], trained(**inputs)[0])
    again = gated("bert", gate=0.0)
    again.load_state_dict(trained.state_dict())
    torch.testing.assert_close(again(**inputs)[0], trained(**inputs)[0])


def test_a_decoder_generates_with_its_cache_what_it_says_of_whole_sentences():
    model, (inputs, _) = gated("llama"), inputs_of("llama", padding=False)
    ids, asked = inputs["input_ids"], {"max_new_tokens": 4, "do_sample": False, "pad_token_id": 0}
    cached = model.generate(ids, use_cache=True, **asked)
    assert torch.equal(cached, model.generate(ids, use_cache=False, **asked))


def test_what_cannot_be_gated_is_refused():
    for changed, message in (
        ({"mode": "none"}, "mode 'none' adds nothing"),
        ({"mode": "three_hop"}, "mode is 'three_hop'"),
        ({"activation": "tanh"}, "activation is 'tanh'"),
        ({"reach": float("nan")}, "reach"),
    ):
        with pytest.raises(ValueError, match=message):
            gate_values(model_of("bert"), **changed)
    with pytest.raises(ValueError, match="two_hop needs values of all 2 heads, and there are 1"):
        gate_values(model_of("llama"), "two_hop")
    with pytest.raises(ValueError, match="the model's attention is 'gated_sdpa'"):
        gate_values(gated("bert"))
    marian, (inputs, _) = gated("marian", "two_hop"), inputs_of("marian", padding=False)
    with pytest.raises(ValueError, match="which a cache does not keep"):
        marian.generate(inputs["input_ids"], max_new_tokens=4, num_beams=1)
