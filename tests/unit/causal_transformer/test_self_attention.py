"""Causal self-attention: its arms against the literal layer, relative positions, and the cross-attention."""

import pytest
import torch
import torch.nn.functional as F

from causalnb.causal_transformer import CausalSelfAttention, Visible, attention_pattern, fused, tau
from causalnb.causal_transformer.self_attention import MultiHeadAttention
from tests.unit.causal_transformer.small import padded

D, H, T = 6, 2, 6
masks = pytest.mark.parametrize("causal", [False, True])
every_gcn = pytest.mark.parametrize("gcn", ["none", "paper", "two_hop"])


def literal(layer, hidden, visible):
    """Equation 4 written out for every head, its map, and the map's tau."""
    valid = torch.ones(hidden.shape[:2], dtype=torch.bool) if visible.valid is None else visible.valid
    outputs, maps = [], []
    for h in range(H):
        part = slice(h * D // H, (h + 1) * D // H)
        query, key, value = (
            (hidden @ p.weight.T + p.bias)[..., part] for p in (layer.q_proj, layer.k_proj, layer.v_proj)
        )
        scores = query @ key.transpose(1, 2) / (D / H) ** 0.5
        for i in range(T):
            for j in range(T):
                if layer.relative:
                    kind = max(-layer.relative, min(layer.relative, j - i)) + layer.relative
                    distance = layer.distance.weight[kind] / (D / H) ** 0.5
                    scores[:, i, j] = scores[:, i, j] + query[:, i] @ distance
                for b in range(len(hidden)):
                    seen = valid[b, j] and not (visible.causal and j > i)
                    seen = seen and (visible.pattern is None or visible.pattern[0, i, j])
                    if not seen and i != j:
                        scores[b, i, j] = -torch.inf
        attention = scores.softmax(-1)
        if layer.update.mode == "none":
            found = attention @ value
        else:
            inner = attention @ value if layer.update.mode == "two_hop" else value
            found = F.gelu(attention @ F.gelu(inner) @ layer.update.weight[h])
        outputs.append(found)
        maps.append(attention)
    output = torch.cat(outputs, -1) @ layer.out_proj.weight.T + layer.out_proj.bias
    return output, torch.stack(maps, 1)


@every_gcn
@masks
@pytest.mark.parametrize("relative", [0, 2])
def test_every_arm_is_the_literal_layer(double, monkeypatch, gcn, causal, relative):
    layer = CausalSelfAttention(D, H, gcn, relative=relative)
    hidden, valid = torch.randn(3, T, D), padded(T)
    for kept in (T, T - 1):  # the map is kept, and computed again
        monkeypatch.setattr(fused, "KEPT", kept)
        for visible in (
            Visible(None, causal),
            Visible(valid, causal),
            Visible(valid, causal, attention_pattern("band", T, 2)[None]),
        ):
            expected, attention = literal(layer, hidden, visible)
            real = valid if visible.valid is not None else torch.ones_like(valid)
            rows, columns = tau(attention, visible.valid)
            n = real.sum(1)[:, None, None] * real[:, None]
            for measure in (False, True):
                for maps in (False, True):
                    found = layer(hidden, visible, measure, maps)
                    torch.testing.assert_close(found.output[real], expected[real], rtol=0, atol=1e-12)
                    if maps:
                        torch.testing.assert_close(
                            found.attention.transpose(1, 2)[real],
                            attention.transpose(1, 2)[real],
                            rtol=0,
                            atol=1e-12,
                        )
                    if measure:
                        torch.testing.assert_close(found.rows + n, rows, rtol=0, atol=1e-12)
                        torch.testing.assert_close(found.columns + n, columns, rtol=0, atol=1e-12)
                    assert (found.rows is None) == (not measure) and (found.attention is None) == (not maps)


@every_gcn
def test_gradients_reach_every_weight_through_output_and_tau(double, gcn):
    layer, hidden = CausalSelfAttention(D, H, gcn), torch.randn(3, T, D)

    def slopes(maps):
        found = layer(hidden, Visible(padded(T)), True, maps)
        loss = found.output.square().sum() + (found.rows * found.columns).sum()
        return torch.autograd.grad(loss, list(layer.parameters()))

    fast, slow = slopes(False), slopes(True)
    torch.testing.assert_close(fast, slow, rtol=1e-9, atol=1e-12)
    assert all(
        (part.abs().max() > 1e-9)
        for name, part in zip(dict(layer.named_parameters()), fast, strict=False)
        if name != "k_proj.bias"
    )  # a constant on all keys moves no softmax


def test_without_a_mask_everything_is_seen():
    layer, hidden = CausalSelfAttention(D, H), torch.randn(1, T, D)
    assert torch.equal(layer(hidden).output, layer(hidden, Visible()).output)


def test_cross_attention_is_ordinary(double):
    layer = MultiHeadAttention(D, H)
    hidden, states, valid = torch.randn(3, 4, D), torch.randn(3, T, D), padded(T)
    theirs = torch.nn.MultiheadAttention(D, H, batch_first=True)
    with torch.no_grad():
        projections = layer.q_proj, layer.k_proj, layer.v_proj
        theirs.in_proj_weight.copy_(torch.cat([one.weight for one in projections]))
        theirs.in_proj_bias.copy_(torch.cat([one.bias for one in projections]))
        theirs.out_proj.load_state_dict(layer.out_proj.state_dict())
    expected, weights = theirs(hidden, states, states, key_padding_mask=~valid, average_attn_weights=False)
    for maps in (False, True):
        found = layer(hidden, states, Visible(valid), maps)
        torch.testing.assert_close(found.output, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(found.attention, weights, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: CausalSelfAttention(10, 4), "a width of 10 does not divide among 4 heads"),
        (lambda: CausalSelfAttention(10, 0), "num_heads is 0: choose 1 or more"),
        (lambda: CausalSelfAttention(8, 4, relative=-1), "relative is -1: choose a distance"),
        (
            lambda: CausalSelfAttention(8, 4)(torch.zeros(1, 2, 8), measure=True, cache=object()),
            "a cached pass sees a part of the map",
        ),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
