"""Component 1: equal to the guide where the guide is right; ordered, masked and acyclic where it is not."""

import math

import pytest
import torch

from causalnb import sci
from causalnb.sci import guide
from causalnb.sci.structure import Attention, rotate
from tests.unit.sci.tiny import check_gradients, into, same_gradients

B, T, K, D = 3, 7, 5, 8
pytestmark = pytest.mark.usefixtures("double")


@pytest.mark.parametrize(
    "ours, literal, inputs",
    [
        (lambda: sci.AbstractionLayer(D), lambda: guide.AbstractionLayer(D), lambda: [torch.randn(B, T, D)]),
        (
            lambda: sci.EdgePredictor(D, "none"),
            lambda: guide.EdgePredictor(D),
            lambda: [torch.randn(B, K, D)],
        ),
        (
            lambda: sci.StructuralGNN(D, 3),
            lambda: guide.StructuralGNN(D, 3),
            lambda: [torch.randn(B, K, D), torch.rand(B, K, K)],
        ),
    ],
    ids=["abstraction", "edges", "gnn"],
)
def test_equal_to_the_guide_with_its_weights(ours, literal, inputs):
    ours, literal = ours(), literal()
    ours.load_state_dict(literal.state_dict())
    same_gradients(ours, literal, *inputs())


def test_attention_is_torchs_and_its_weights_are_those_it_used():
    ours, theirs = Attention(D, 2), torch.nn.MultiheadAttention(D, 2, batch_first=True)
    into(ours, theirs)
    query, context, mask = torch.randn(B, K, D), torch.randn(B, T, D), torch.ones(B, T, dtype=torch.bool)
    mask[0, 4:] = mask[1, :2] = False
    expected, weights = theirs(query, context, context, key_padding_mask=~mask, average_attn_weights=False)
    torch.testing.assert_close(ours(query, context, mask), expected, rtol=0, atol=1e-10)
    torch.testing.assert_close(ours.weights(query, context, mask), weights, rtol=0, atol=1e-10)
    torch.testing.assert_close(ours.weights(query, context).sum(-1), torch.ones(B, 2, K))
    assert (ours.weights(query, context, mask)[0, :, :, 4:] == 0).all()


def test_the_encoder_without_its_order_step_is_the_guides():
    ours, literal = sci.StructuralEncoder(D, K, 2, 4, dag="none"), guide.StructuralEncoder(D, K, 2)
    into(ours.cross_attention, literal.cross_attention)
    ours.load_state_dict({n: w for n, w in literal.state_dict().items() if "cross" not in n}, strict=False)
    torch.nn.init.zeros_(ours.order_attention.output.weight)
    torch.nn.init.zeros_(ours.order_attention.output.bias)
    mask = torch.ones(B, T, dtype=torch.long)
    mask[1, 5:] = 0
    same_gradients(ours, literal, torch.randn(B, T, D), mask)


def test_gradients_of_every_piece():
    mask = torch.ones(B, T, dtype=torch.bool)
    mask[2, 3:] = False
    assert check_gradients(sci.AbstractionLayer(D), torch.randn(B, T, D))
    for dag in ("upper", "none"):
        assert check_gradients(sci.EdgePredictor(D, dag), torch.randn(B, K, D))
    assert check_gradients(sci.StructuralGNN(D, 2), torch.randn(B, K, D), torch.rand(B, K, K))
    positions = torch.arange(T).expand(B, -1)
    assert check_gradients(Attention(D, 2), torch.randn(B, T, D), torch.randn(B, T, D), mask, positions)
    assert check_gradients(
        Attention(D, 2), torch.randn(B, K, D), torch.randn(B, T, D), mask, call=Attention.weights
    )
    assert check_gradients(sci.StructuralEncoder(D, K, 2, 2), torch.randn(B, T, D), mask)
    assert check_gradients(
        torch.nn.Identity(), torch.rand(B, K, K), call=lambda _, edges: sci.acyclicity(edges)
    )


def test_abstraction_keeps_at_least_its_gate():
    layer, x = sci.AbstractionLayer(D, residual_gate=0.3), torch.randn(B, T, D)
    share = layer(x) / x
    assert share.min() > 0.3 and share.max() < 1.3
    assert sci.AbstractionLayer(D).residual_gate.item() == pytest.approx(0.1)


def test_rotation_keeps_norms_and_only_distances_matter():
    q, k = torch.randn(B, 2, T, D), torch.randn(B, 2, T, D)
    near, far = torch.arange(T).expand(B, -1), torch.arange(T).expand(B, -1) + 11
    torch.testing.assert_close(rotate(q, near).norm(dim=-1), q.norm(dim=-1))
    assert torch.equal(rotate(q, near)[:, :, 0], q[:, :, 0])
    score, shifted = (rotate(q, at) @ rotate(k, at).transpose(2, 3) for at in (near, far))
    torch.testing.assert_close(score, shifted, rtol=0, atol=1e-5)  # angles are float32
    assert (score - q @ k.transpose(2, 3)).abs().max() > 0.1


def test_edges_are_strictly_upper_and_acyclic():
    slots = torch.randn(B, K, D)
    edges = sci.EdgePredictor(D)(slots)
    assert torch.equal(edges, edges.triu(1))
    upper = torch.ones(K, K).triu(1).bool()
    assert ((edges[:, upper] > 0) & (edges[:, upper] < 1)).all()
    torch.testing.assert_close(sci.acyclicity(edges), torch.zeros(B), rtol=0, atol=1e-12)
    assert (sci.acyclicity(guide.EdgePredictor(D)(slots)) > 0.1).all()


def test_acyclicity_by_hand():
    two_cycle = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    assert sci.acyclicity(two_cycle).item() == pytest.approx(2 * torch.tensor(1.0).cosh().item() - 2)


def test_an_edge_carries_from_its_row_to_its_column():
    gnn, slots, edges = sci.StructuralGNN(D, 1), torch.randn(1, K, D), torch.zeros(1, K, K)
    edges[0, 1, 3] = 1.0
    other = slots.clone()
    other[0, 1] = torch.randn(D)
    moved = (gnn(slots, edges) - gnn(other, edges)).abs().amax(-1)[0] > 1e-6
    assert moved.tolist() == [False, True, False, True, False]


def encoder(**settings):
    torch.manual_seed(4)
    return sci.StructuralEncoder(D, K, 2, 2, **settings)


def test_order_matters_and_to_the_guide_it_does_not():
    x = torch.randn(1, T, D)
    backwards, mask = x.flip(1), torch.ones(1, T)
    assert (encoder()(x)[0] - encoder()(backwards)[0]).abs().max() > 1e-3
    literal = guide.StructuralEncoder(D, K, 2)
    torch.testing.assert_close(literal(x, mask), literal(backwards, mask), rtol=0, atol=1e-10)


@pytest.mark.parametrize("side", ["left", "right", "both"])
def test_padding_changes_nothing(side):
    x = torch.randn(B, T, D)
    before, after = {"left": (2, 0), "right": (0, 4), "both": (3, 1)}[side]
    padded = torch.cat([torch.randn(B, before, D) * 9, x, torch.randn(B, after, D) * 9], 1)
    mask = torch.cat([torch.zeros(B, before), torch.ones(B, T), torch.zeros(B, after)], 1)
    torch.testing.assert_close(encoder()(padded, mask), encoder()(x), rtol=0, atol=1e-10)
    torch.testing.assert_close(encoder()(x, torch.ones(B, T)), encoder()(x), rtol=0, atol=0)


@pytest.mark.parametrize("batch, tokens", [(B, T), (K, T), (B, K), (T, T), (K, K)])
def test_rows_do_not_meet_even_when_sizes_coincide(batch, tokens):
    x = torch.randn(batch, tokens, D)
    other = torch.cat([x[:1], torch.randn(batch - 1, tokens, D)])
    for one, two in zip(encoder()(x), encoder()(other), strict=False):
        torch.testing.assert_close(one[0], two[0], rtol=0, atol=1e-12)
        assert (one[1:] - two[1:]).abs().max() > 1e-4


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="row 1 has no prompt token.*mark at least one"):
        encoder()(torch.randn(2, T, D), torch.tensor([[1] * T, [0] * T]))
    with pytest.raises(
        ValueError, match="width of 10 does not split into 4 heads of even width.*multiple of 8"
    ):
        Attention(10, 4)
    with pytest.raises(ValueError, match="dag is 'notears': choose 'upper'.*'none'"):
        sci.EdgePredictor(D, "notears")


def test_states_masks_and_slots_of_another_shape_are_refused():
    with pytest.raises(ValueError, match=r"hidden states have shape \(3, 7, 9\): pass \(batch, tokens, 8\)"):
        encoder()(torch.randn(B, T, D + 1))
    with pytest.raises(ValueError, match=r"mask has shape \(3, 6\), but the states are \(3, 7, 8\)"):
        encoder()(torch.randn(B, T, D), torch.ones(B, T - 1))
    with pytest.raises(ValueError, match=r"slots have shape \(5, 8\): edges need \(batch, slots, 8\)"):
        sci.EdgePredictor(D)(torch.randn(K, D))


@pytest.mark.parametrize(
    "given", [{"d_model": 1.5}, {"d_model": -1}, {"width": -1}, {"residual_gate": math.inf}]
)
def test_an_abstraction_of_no_size_is_refused(given):
    with pytest.raises(ValueError, match=f"{min(given)} is"):
        sci.AbstractionLayer(**({"d_model": 8} | given))
