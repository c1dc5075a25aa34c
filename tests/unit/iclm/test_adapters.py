"""Adapters chosen by row, against separate peft models; what is wrapped, and where."""

import copy

import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch import nn
from transformers.pytorch_utils import Conv1D

from causalnb.iclm.adapters import RowLoRA, Rows, adapt
from tests.unit.iclm.small import BASES, base

every_base = pytest.mark.parametrize("name", BASES)


def layers_of(decoder):
    return decoder.transformer.h if hasattr(decoder, "transformer") else decoder.model.layers


def adapted(name, modules=3, dtype=torch.float64, dropout=0.0):
    """A base whose adapters are all drawn, and its Rows."""
    decoder, rows = base(name, dtype), Rows()
    found = adapt(layers_of(decoder), BASES[name][3], modules, rows, 2, 6.0, dropout)
    with torch.no_grad():
        for layer in found.values():
            layer.B.normal_(0, 0.3)
    return decoder, rows, found


def peft_twin(name, found, module):
    """The same base with one module's weights in an ordinary peft model."""
    twin = get_peft_model(
        base(name, torch.float64),
        LoraConfig(r=2, lora_alpha=6, target_modules=BASES[name][3], fan_in_fan_out=name == "gpt2"),
    )
    prefix = "transformer.h." if name == "gpt2" else "model.layers."
    with torch.no_grad():
        for place, layer in found.items():
            own = twin.base_model.model.get_submodule(prefix + place)
            own.lora_A["default"].weight.copy_(layer.A[module])
            own.lora_B["default"].weight.copy_(layer.B[module])
    return twin.eval()


@pytest.mark.parametrize("transposed", [False, True])
def test_the_literal_sum_and_its_gradients(double, transposed):
    linear = Conv1D(5, 4) if transposed else nn.Linear(4, 5)
    nn.init.normal_(linear.weight)
    rows = Rows()
    layer = RowLoRA(linear, 3, rows, 2, 6.0, 0.0)
    layer.B.data.normal_()
    x, module = torch.randn(4, 6, 4, requires_grad=True), torch.tensor([2, 0, 2, 1])
    with rows.of(module):
        found = layer(x)
    expected = torch.stack(
        [
            torch.stack([linear(x[i, t]) + 6 / 2 * layer.B[m] @ (layer.A[m] @ x[i, t]) for t in range(6)])
            for i, m in enumerate(module)
        ]
    )
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    weights, leaves = torch.randn_like(found), [x, layer.A, layer.B]
    for one, other in zip(
        torch.autograd.grad((found * weights).sum(), leaves),
        torch.autograd.grad((expected * weights).sum(), leaves),
        strict=False,
    ):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("module, modules", [(1, 2), (torch.zeros(4, dtype=torch.long), 1)])
def test_a_module_alone_of_high_rank_takes_one_product(double, transposed, module, modules, monkeypatch):
    linear, rows = Conv1D(5, 4) if transposed else nn.Linear(4, 5), Rows()
    nn.init.normal_(linear.weight)
    linear.weight.requires_grad_(False)
    layer, calls = RowLoRA(linear, modules, rows, 3, 6.0, 0.0), []
    layer.B.data.normal_()
    assert layer.merges and not RowLoRA(nn.Linear(40, 50), 1, rows, 2, 6.0, 0.0).merges
    assert not RowLoRA(linear, modules, rows, 3, 6.0, 0.1).merges  # dropout acts on what A reads alone
    x, m = torch.randn(4, 6, 4, requires_grad=True), module if isinstance(module, int) else 0
    with rows.of(module), monkeypatch.context() as patch:
        patch.setattr(type(linear), "forward", lambda *_: pytest.fail("the frozen map was applied as well"))
        found = layer(x)
    hook = linear.register_forward_hook(lambda *_: calls.append(1))  # which somebody waits for
    with rows.of(module):
        torch.testing.assert_close(layer(x), found, rtol=1e-12, atol=1e-12)
    assert len(calls) == 1
    hook.remove()
    expected = linear(x) + 6 / 3 * x @ layer.A[m].mT @ layer.B[m].mT
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    weights, leaves = torch.randn_like(found), [x, layer.A, layer.B]
    for one, other in zip(
        torch.autograd.grad((found * weights).sum(), leaves),
        torch.autograd.grad((expected * weights).sum(), leaves),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


@every_base
def test_every_row_is_answered_by_its_own_peft_model(name):
    decoder, rows, found = adapted(name)
    ids, module = torch.randint(3, 23, (5, 7)), torch.tensor([1, 0, 2, 1, 0])
    with rows.of(module), torch.no_grad():
        together = decoder(ids).logits
    with torch.no_grad():
        plain = decoder(ids).logits
        torch.testing.assert_close(plain, base(name, torch.float64)(ids).logits, rtol=0, atol=0)
        for m in range(3):
            alone = peft_twin(name, found, m)(ids[module == m]).logits
            torch.testing.assert_close(together[module == m], alone, rtol=1e-11, atol=1e-11)
            with rows.of(m):
                torch.testing.assert_close(decoder(ids).logits[module == m], alone, rtol=1e-11, atol=1e-11)
    assert (together - plain).abs().amax((1, 2)).min() > 0.1


def test_a_module_that_no_row_takes_gets_an_exact_zero():
    decoder, rows, found = adapted("llama", dtype=torch.float32)
    found["0.self_attn.q_proj"].frozen[2] = True
    with rows.of(torch.tensor([0, 2])):
        decoder(torch.randint(3, 23, (2, 5))).logits.square().sum().backward()
    for layer in found.values():
        for weight in (layer.A, layer.B):
            assert (weight.grad[1] == 0).all() and (weight.grad[0] != 0).any()
    frozen, free = found["0.self_attn.q_proj"], found["0.self_attn.k_proj"]
    assert (frozen.A.grad[2] == 0).all() and (frozen.B.grad[2] == 0).all() and (free.B.grad[2] != 0).any()


def test_untouched_adapters_change_nothing_and_dropout_acts_in_training_alone():
    linear, rows = nn.Linear(4, 4), Rows()
    layer, x = RowLoRA(linear, 1, rows, 2, 4.0, 0.5), torch.randn(2, 50, 4)
    with rows.of(torch.tensor([0, 0])):
        assert torch.equal(layer(x), linear(x))
        layer.B.data.normal_()
        assert not torch.equal(layer(x), layer(x))
        layer.eval()
        assert torch.equal(layer(x), layer(x)) and not torch.equal(layer(x), linear(x))
    assert torch.equal(layer(x), linear(x)) and rows.module is None


@pytest.mark.parametrize("dtype, own", [(torch.bfloat16, torch.float32), (torch.float64, torch.float64)])
def test_adapters_of_a_half_precision_base_are_single(dtype, own):
    linear, rows = nn.Linear(4, 4).to(dtype), Rows()
    layer = RowLoRA(linear, 2, rows, 2, 4.0, 0.0)
    with rows.of(1):
        assert layer(torch.randn(1, 3, 4, dtype=dtype)).dtype == dtype
    assert layer.A.dtype == layer.B.dtype == own


def test_a_quantised_base_gets_adapters_too():
    """Its weights are packed integers of another shape; only in_features and out_features tell the sizes."""

    class Packed(nn.Module):
        in_features, out_features = 6, 4

        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(12, 1, dtype=torch.uint8), requires_grad=False)

        def forward(self, x):
            return torch.zeros(*x.shape[:-1], self.out_features, dtype=torch.bfloat16)

    rows = Rows()
    layer = RowLoRA(Packed(), 2, rows, 3, 3.0, 0.0)
    with rows.of(torch.tensor([1, 0])):
        assert layer(torch.randn(2, 5, 6)).shape == (2, 5, 4)
    assert layer.A.shape == (2, 3, 6) and layer.B.shape == (2, 4, 3) and layer.A.dtype == torch.float32


def test_what_cannot_be_adapted_is_refused():
    rows = Rows()
    given = dict(modules=2, rows=rows, rank=2, alpha=4.0, dropout=0.0)
    layers = layers_of(base())
    with pytest.raises(ValueError, match="lora has r = 0: choose 1 or more"):
        adapt(layers, ["q_proj"], **given | {"rank": 0})
    with pytest.raises(ValueError, match="no layer of the base is called c_attn or query: name its attentio"):
        adapt(layers, ["c_attn", "query"], **given)
    with pytest.raises(ValueError, match="layer 0.input_layernorm is a LlamaRMSNorm: name linear maps in lo"):
        adapt(layers, ["q_proj", "input_layernorm"], **given)
    assert not any(isinstance(module, RowLoRA) for module in layers.modules())  # nothing was half done
    adapt(layers, ["q_proj"], **given)
    with pytest.raises(ValueError, match="the base is part of an ICLM already: load it anew"):
        adapt(layers, ["k_proj"], **given)
    layer = layers[0].self_attn.q_proj
    with rows.of(torch.tensor([0, 1])), pytest.raises(ValueError, match=r"2 rows was given \(6, 16\): name"):
        layer(torch.randn(6, 16))


def test_names_are_matched_whole():
    with pytest.raises(ValueError, match="no layer of the base is called proj: name its attention maps"):
        adapt(layers_of(base()), ["proj", "q_proj"], 1, Rows(), 1, 1.0, 0.0)
    found = adapt(layers_of(base()), ["q_proj"], 1, Rows(), 1, 1.0, 0.0)
    assert sorted(found) == [f"{n}.self_attn.q_proj" for n in range(3)]


def test_rows_come_back_after_an_error():
    rows = Rows()
    with pytest.raises(KeyError):
        with rows.of(1):
            with rows.of(None):
                assert rows.module is None
            assert rows.module == 1
            raise KeyError
    assert rows.module is None


def test_a_copy_of_rows_is_in_no_context():
    rows = Rows()
    with rows.of(1):
        assert copy.deepcopy(rows).module is None
        assert rows.module == 1
