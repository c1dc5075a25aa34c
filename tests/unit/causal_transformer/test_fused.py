"""Attention with tau, kept and in chunks: the literal equations, gradients, and what is left in memory."""

import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks

from causalnb.causal_transformer import Visible, attention_pattern, attention_with_tau, fused, tau
from causalnb.causal_transformer.fused import attention_with_excess
from causalnb.causal_transformer.measure import excess
from tests.unit.causal_transformer.small import padded

B, H, T, D = 3, 2, 9, 4
forms = pytest.mark.parametrize("keep, chunk", [(True, T), (False, 4), (False, 1), (False, 64)])
masks = pytest.mark.parametrize("causal", [False, True])
pads = pytest.mark.parametrize("valid", [None, padded(T)], ids=["full", "padded"])


def leaves(tokens=T, dtype=None, wide=D):
    return [torch.randn(B, H, tokens, d, dtype=dtype).requires_grad_() for d in (D, D, wide)]


def literal(query, key, value, valid, causal, pattern=None):
    """Softmax over what may be seen, then tau of the whole map."""
    tokens = query.shape[2]
    seen = torch.ones(B, 1, tokens, tokens, dtype=torch.bool)
    if causal:
        seen = seen.tril()
    if pattern is not None:
        seen = seen & pattern
    if valid is not None:
        seen = (seen & valid[:, None, None]) | torch.eye(tokens, dtype=torch.bool)
    scores = query @ key.transpose(-1, -2) / D**0.5
    attention = scores.masked_fill(~seen, -torch.inf).softmax(-1)
    return attention @ value, *tau(attention, valid)


def weighed(parts, valid):
    """A scalar that reaches the valid part of every output, and its gradients."""
    output, rows, columns = parts
    weight = 1.0 if valid is None else valid[:, None].double()
    return ((output.sin().sum(-1) + rows.square() + (columns + rows).cos()) * weight).sum()


@forms
@masks
@pads
def test_every_form_is_the_literal_one_with_gradients(double, keep, chunk, causal, valid):
    given = leaves(wide=5)
    expected = literal(*given, valid, causal)
    output, rows, columns = attention_with_excess(*given, Visible(valid, causal), chunk, keep)
    n = T if valid is None else (valid.sum(1, keepdim=True) * valid)[:, None]
    found = output, rows + n, columns + n
    real = torch.ones(B, T, dtype=torch.bool) if valid is None else valid
    for one, other in zip(found, expected, strict=True):
        one, other = (part.transpose(1, 2)[real] for part in (one, other))
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)
    slopes = [torch.autograd.grad(weighed(parts, valid), given) for parts in (found, expected)]
    torch.testing.assert_close(*slopes, rtol=0, atol=1e-12)


@pytest.mark.parametrize("keep", [True, False])
def test_sparse_patterns_come_in(double, keep):
    given, pattern = leaves(), attention_pattern("star", T)
    for causal in (False, True):
        expected = literal(*given, padded(T), causal, pattern)
        output, rows, _ = attention_with_excess(*given, Visible(padded(T), causal, pattern[None]), 2, keep)
        real = padded(T)
        torch.testing.assert_close(output.transpose(1, 2)[real], expected[0].transpose(1, 2)[real])
        more = (expected[1] - padded(T).sum(1)[:, None, None]).transpose(1, 2)[real]
        torch.testing.assert_close(rows.transpose(1, 2)[real], more, rtol=0, atol=1e-12)


@masks
@pads
@pytest.mark.parametrize("keep", [True, False])
def test_some_rows_alone_are_measured(double, causal, valid, keep):
    """A column holds what the measured rows read; a row all that it reads."""
    given, measured = leaves(), torch.rand(B, T) < 0.6
    measured = measured if valid is None else measured & valid
    attention = literal(*given[:2], torch.eye(T).expand(B, H, T, T), valid, causal)[0]
    grown = attention.expm1() * measured[:, None, :, None]
    expected = attention @ given[2], grown.sum(-1), grown.sum(-2)
    torch.testing.assert_close(excess(attention, valid, measured), expected[1:], rtol=0, atol=1e-12)
    found = attention_with_excess(*given, Visible(valid, causal, measured=measured), 4, keep)
    torch.testing.assert_close(found[1:], expected[1:], rtol=0, atol=1e-12)
    slopes = [torch.autograd.grad(weighed(parts, valid), given) for parts in (found, expected)]
    torch.testing.assert_close(*slopes, rtol=0, atol=1e-12)


@masks
@pytest.mark.parametrize("keep", [True, False])
def test_gradcheck(double, causal, keep):
    given = [torch.randn(1, 2, 5, 3, requires_grad=True) for _ in range(3)]
    valid = torch.tensor([[False, True, True, True, True]])
    assert torch.autograd.gradcheck(
        lambda *parts: attention_with_excess(*parts, Visible(valid, causal), 2, keep), given
    )


def test_the_public_form_on_both_sides_of_the_limit(double, monkeypatch):
    given = leaves()
    found = []
    for kept in (T, T - 1):
        monkeypatch.setattr(fused, "KEPT", kept)
        found.append(attention_with_tau(*given, padded(T), causal=True, chunk=4))
    torch.testing.assert_close(*found, rtol=0, atol=1e-12)
    found = attention_with_tau(*given)
    torch.testing.assert_close(found, literal(*given, None, False), rtol=0, atol=1e-12)


def saved_sizes(keep):
    given, sizes = leaves(32), []
    with saved_tensors_hooks(lambda t: sizes.append(t.numel()) or t, lambda t: t):
        attention_with_excess(*given, Visible(), 4, keep)
    return sizes


def test_no_map_is_kept_in_chunks():
    assert max(saved_sizes(False)) == B * H * 32 * D
    assert max(saved_sizes(True)) == B * H * 32 * 32


def test_nothing_is_kept_without_gradients(monkeypatch):
    given = [part.detach() for part in leaves()]
    torch.testing.assert_close(
        attention_with_excess(*given, Visible(), 4, True), attention_with_excess(*given, Visible(), 4, False)
    )
    assert not attention_with_excess(*given, Visible())[0].requires_grad


@pytest.mark.parametrize("keep", [True, False])
def test_half_precision_is_measured_in_float32(keep):
    given = leaves(dtype=torch.bfloat16)
    exact = [part.detach().double() for part in given]
    output, rows, columns = attention_with_excess(*given, Visible(), 4, keep)
    assert (output.dtype, rows.dtype, columns.dtype) == (torch.bfloat16, torch.float32, torch.float32)
    _, expected, _ = attention_with_excess(*exact, Visible(), 4, keep)
    torch.testing.assert_close(rows.double(), expected, rtol=0.02, atol=0)
    (output.float().sum() + rows.square().sum()).backward()
    slow = [part.requires_grad_() for part in exact]
    output, rows, _ = attention_with_excess(*slow, Visible(), 4, keep)
    (output.sum() + rows.square().sum()).backward()
    for one, other in zip(given, slow, strict=False):
        assert one.grad.dtype == torch.bfloat16
        torch.testing.assert_close(one.grad.double(), other.grad, rtol=0.1, atol=0.05)


@pytest.mark.parametrize(
    "change, message",
    [
        (dict(key=torch.zeros(B, H, T + 1, D)), "do not fit: give"),
        (dict(value=torch.zeros(B, H + 1, T, D)), r"value \(3, 3, 9, 4\) do not fit"),
        (dict(valid=torch.zeros(B, T)), "hides every token of item 0"),
        (dict(chunk=0), "chunk is 0: choose at least one row"),
        (
            dict.fromkeys(("query", "key", "value"), torch.zeros(0, H, T, D)),
            "an empty batch: give at least one",
        ),
        (dict.fromkeys(("query", "key"), torch.zeros(B, H, T, D).int()), "dtype torch.int32: give floats"),
    ],
)
def test_bad_input_is_named(change, message):
    given = dict(zip(("query", "key", "value"), leaves(), strict=False)) | change
    with pytest.raises(ValueError, match=message):
        attention_with_tau(**given)
