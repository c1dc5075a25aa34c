"""Component 3: vectorised message passing against loops, do() as graph surgery, binding by token."""

import pytest
import torch
import torch.nn.functional as F

from causalnb import sci
from causalnb.sci import guide
from tests.unit.sci.tiny import check_gradients, into, same_gradients

B, T, K, D, HIDDEN = 3, 7, 5, 8, 12
pytestmark = pytest.mark.usefixtures("double")


def literally_normalised(layer, slots, edges):
    """The layer's equation, pair by pair, with each sum divided by the in-degree where that exceeds 1."""
    hidden = slots
    for _ in range(layer.n_iterations):
        after = []
        for i in range(slots.shape[1]):
            degree, total = 0.0, 0.0
            for j in range(slots.shape[1]):
                if i != j:
                    edge = edges[:, j, i, None]
                    total = total + edge * layer.message_fn(torch.cat([hidden[:, i], hidden[:, j]], -1))
                    degree = degree + edge
            after.append(layer.update_fn(total / torch.clamp(degree, min=1.0), hidden[:, i]))
        hidden = torch.stack(after, 1)
    return hidden


@pytest.mark.parametrize("batch, slots", [(B, K), (K, K), (D, K), (2, D), (1, K)])
def test_equal_to_the_guides_loop_with_gradients(batch, slots):
    ours, literal = sci.CausalInterventionLayer(D, 3, normalize=False), guide.CausalInterventionLayer(D, 3)
    ours.load_state_dict(literal.state_dict())
    same_gradients(ours, literal, torch.randn(batch, slots, D), torch.rand(batch, slots, slots))


def test_a_slot_without_others_gets_no_message():
    ours, literal = sci.CausalInterventionLayer(D, 2), guide.CausalInterventionLayer(D, 2)
    ours.load_state_dict(literal.state_dict())
    slots, edges = torch.randn(B, 1, D), torch.rand(B, 1, 1)
    torch.testing.assert_close(ours(slots, edges), literal(slots, edges), rtol=0, atol=1e-12)


@pytest.mark.parametrize("scale", [0.1, 1.0])  # in-degrees below and above 1
def test_normalised_equals_a_literal_loop_with_gradients(scale):
    layer, edges = sci.CausalInterventionLayer(D, 2), torch.rand(B, K, K) * scale

    class Literal(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.message_fn, self.update_fn, self.n_iterations = layer.message_fn, layer.update_fn, 2

        def forward(self, slots, edges):
            return literally_normalised(self, slots, edges)

    same_gradients(layer, Literal(), torch.randn(B, K, D), edges)


@pytest.mark.parametrize("normalize", [True, False])
def test_gradients_also_into_a_held_value(normalize):
    layer, edges = sci.CausalInterventionLayer(D, 2, normalize), torch.rand(B, K, K).triu(1)
    assert check_gradients(layer, torch.randn(B, K, D), edges)

    def held(layer, slots, edges, value):
        return layer(slots, edges, do={1: value, 3: value.flip(0)})

    assert check_gradients(layer, torch.randn(B, K, D), edges, torch.randn(B, D), call=held)


def chain(edges=((0, 1), (1, 2), (2, 3))):
    """Edges (1, K, K) with weight 1 along the pairs."""
    found = torch.zeros(1, K, K)
    for sender, receiver in edges:
        found[0, sender, receiver] = 1.0
    return found


def moved(layer, edges, do, slots=None):
    """Which slots do() moves, besides where it holds them."""
    slots = torch.randn(1, K, D) if slots is None else slots
    return [bool(x) for x in ((layer(slots, edges, do) - layer(slots, edges)).abs().amax(-1)[0] > 1e-9)]


def test_do_holds_its_slot_exactly_moves_descendants_and_nobody_else():
    layer, value, slots = sci.CausalInterventionLayer(D, K - 1), torch.randn(1, D), torch.randn(1, K, D)
    after = layer(slots, chain(), {1: value})
    assert torch.equal(after[:, 1], value)
    assert moved(layer, chain(), {1: value}, slots) == [False, True, True, True, False]
    untouched = layer(slots, chain())
    assert torch.equal(after[:, [0, 4]], untouched[:, [0, 4]])


def test_fewer_iterations_than_depth_leave_far_descendants():
    value = torch.randn(1, D)
    for iterations, expected in (
        (1, [False, True, True, False]),
        (2, [False, True, True, True]),
        (0, [False, True]),
    ):
        layer = sci.CausalInterventionLayer(D, iterations)
        assert moved(layer, chain(), {1: value})[: len(expected)] == expected


def test_do_cuts_the_edges_into_its_slot():
    layer, value, slots = sci.CausalInterventionLayer(D), torch.randn(1, D), torch.randn(1, K, D)
    other = slots.clone()
    other[:, 0] = torch.randn(D)  # a cause of slot 1
    assert torch.equal(layer(slots, chain(), {1: value})[:, 1:], layer(other, chain(), {1: value})[:, 1:])
    assert not torch.equal(layer(slots, chain())[:, 1], layer(other, chain())[:, 1])


def test_do_on_several_slots_at_once_and_for_each_row_its_own_value():
    layer, slots, edges = sci.CausalInterventionLayer(D), torch.randn(B, K, D), torch.rand(B, K, K).triu(1)
    first, last = torch.randn(B, D), torch.randn(B, D)
    after = layer(slots, edges, {0: first, 4: last})
    assert torch.equal(after[:, 0], first) and torch.equal(after[:, 4], last)
    for row in range(B):
        alone = layer(
            slots[row : row + 1], edges[row : row + 1], {0: first[row : row + 1], 4: last[row : row + 1]}
        )
        torch.testing.assert_close(alone[0], after[row], rtol=0, atol=1e-12)
    everything = {slot: torch.randn(B, D) for slot in range(K)}
    assert torch.equal(
        layer(slots, edges, everything), torch.stack([everything[slot] for slot in range(K)], 1)
    )
    assert torch.equal(layer(slots, edges, {}), layer(slots, edges))


def test_setting_a_start_value_is_no_intervention():
    """The guide's message passing lets the set slot drift, and pulls its causes along."""
    literal, slots, edges = guide.CausalInterventionLayer(D), torch.randn(1, K, D), torch.rand(1, K, K)
    started = slots.clone()
    started[:, 2] = value = torch.randn(1, D)
    assert (literal(started, edges)[:, 2] - value).abs().max() > 0.1
    assert (literal(started, edges) - literal(slots, edges))[:, 0].abs().max() > 1e-4


def test_a_slots_edge_to_itself_is_ignored():
    layer, slots, edges = sci.CausalInterventionLayer(D), torch.randn(B, K, D), torch.rand(B, K, K)
    assert torch.equal(layer(slots, edges), layer(slots, edges + 5 * torch.eye(K)))


def mechanism(layers=2, awake=True, **settings):
    torch.manual_seed(3)
    found = sci.CausalBindingMechanism(D, HIDDEN, layers, 2, **settings)
    for projection in found.output_proj if awake else ():
        torch.nn.init.normal_(projection.weight)
    return found


def inputs():
    mask = torch.ones(B, T, dtype=torch.bool)
    mask[1, 4:] = False
    return dict(
        structure=torch.randn(B, K, D),
        edges=torch.rand(B, K, K).triu(1),
        content=torch.randn(B, T, D),
        mask=mask,
    )


def test_binding_is_the_guides_with_the_batch_first():
    ours = sci.CausalBindingMechanism(16, HIDDEN, 1, 8, normalize=False)
    literal = guide.CausalBindingMechanism(16, K, batch_first=True)
    into(ours.binding_attention, literal.binding_attention)
    ours.intervention_layer.load_state_dict(literal.intervention_layer.state_dict())
    structure, content = torch.randn(B, K, 16), torch.randn(B, T, 16)
    edges, seen = literal.edge_predictor(structure), []
    literal.intervention_layer.register_forward_hook(lambda layer, given, out: seen.append(out))
    literal(structure, content, torch.randn(B, T, 16))
    torch.testing.assert_close(ours.bind(structure, edges, content).slots, seen[0], rtol=0, atol=1e-10)


def test_the_guides_binding_takes_the_batch_for_the_sequence():
    literal = guide.CausalBindingMechanism(8, K)
    structure, content, hidden = torch.randn(B, K, 8), torch.randn(B, K, 8), torch.randn(B, T, 8)
    other = torch.cat([content[:1], torch.randn(B - 1, K, 8)])
    assert (literal(structure, content, hidden) - literal(structure, other, hidden))[0].abs().max() > 1e-4
    with pytest.raises((AssertionError, RuntimeError)):
        literal(structure, torch.randn(B, T, 8), hidden)  # tokens other than slots


@pytest.mark.parametrize("tokens", [T, K, B])
def test_rows_do_not_meet_even_when_sizes_coincide(tokens):
    structure, edges = torch.randn(B, K, D), torch.rand(B, K, K).triu(1)
    content, hidden = torch.randn(B, tokens, D), torch.randn(B, tokens, HIDDEN)
    other = torch.cat([content[:1], torch.randn(B - 1, tokens, D)])
    one, two = (mechanism()(structure, edges, given, hidden) for given in (content, other))
    torch.testing.assert_close(one[0], two[0], rtol=0, atol=1e-12)
    assert (one[1:] - two[1:]).abs().amax((1, 2)).min() > 1e-4


def test_masked_content_is_not_read():
    given, cbm = inputs(), mechanism()
    other = given["content"].clone()
    other[1, 4:] = 99.0
    assert torch.equal(cbm.bind(**given).slots, cbm.bind(**given | {"content": other}).slots)
    weights = cbm.weights(given["structure"], given["content"], given["mask"])
    assert weights.shape == (B, 2, K, T) and (weights[1, :, :, 4:] == 0).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(B, 2, K))


def test_reading_is_its_equation():
    cbm, hidden, given = mechanism(), torch.randn(B, T, HIDDEN), inputs()
    bound = cbm.bind(**given)
    slots = cbm.slot_norm(given["structure"] + bound.slots)
    query = cbm.token_query(
        hidden / (hidden.square().mean(-1, keepdim=True) + torch.finfo(hidden.dtype).eps).sqrt()
    )
    read = []
    for head in range(2):
        part = slice(4 * head, 4 * head + 4)
        keys, values = cbm.slot_key(slots)[..., part], cbm.slot_value(slots)[..., part]
        read.append((query[..., part] @ keys.transpose(1, 2) / 4**0.5).softmax(-1) @ values)
    for layer in range(2):
        expected = hidden + torch.cat(read, -1) @ cbm.output_proj[layer].weight.T
        torch.testing.assert_close(cbm.read(hidden, bound, layer), expected, rtol=0, atol=1e-10)


def test_each_token_reads_by_itself():
    cbm, hidden, given = mechanism(), torch.randn(B, T, HIDDEN), inputs()
    bound = cbm.bind(**given)
    whole = cbm.read(hidden, bound, 1)
    piecewise = torch.cat([cbm.read(hidden[:, t : t + 1], bound, 1) for t in range(T)], 1)
    torch.testing.assert_close(whole, piecewise, rtol=0, atol=1e-12)
    structure, edges, content, mask = given.values()
    both = cbm(structure, edges, content, hidden, mask, layer=1)
    torch.testing.assert_close(both, whole, rtol=0, atol=0)
    assert torch.equal(mechanism(awake=False)(structure, edges, content, hidden, mask), hidden)


def test_do_reaches_the_tokens():
    cbm, hidden, given, value = mechanism(), torch.randn(B, T, HIDDEN), inputs(), torch.randn(B, D)
    bound = cbm.bind(**given, do={2: value})
    assert torch.equal(bound.slots[:, 2], value)
    assert (cbm.read(hidden, bound, 0) - cbm.read(hidden, cbm.bind(**given), 0)).abs().max() > 1e-3


def test_gradients_of_the_whole_mechanism():
    hidden, given, value = torch.randn(B, T, HIDDEN), inputs(), torch.randn(B, D)

    def call(cbm, structure, edges, content, hidden, value):
        return cbm(structure, edges, content, hidden, given["mask"], do={1: value}, layer=1)

    structure, edges, content, _ = given.values()
    assert check_gradients(mechanism(), structure, edges, content, hidden, value, call=call)


def test_slots_are_repeated_for_beams_in_order():
    bound = mechanism().bind(**inputs())
    assert bound.expand(B) is bound
    wide = bound.expand(2 * B)
    for part, repeated in zip(
        (bound.keys, bound.values, bound.slots), (wide.keys, wide.values, wide.slots), strict=False
    ):
        assert torch.equal(repeated[::2], part) and torch.equal(repeated[1::2], part)
    with pytest.raises(ValueError, match="prepared for 3 prompts, but the model runs 4 rows"):
        bound.expand(4)


def test_what_does_not_fit_is_refused():
    layer, slots, edges = sci.CausalInterventionLayer(D), torch.randn(B, K, D), torch.rand(B, K, K)
    with pytest.raises(
        ValueError, match=r"edges have shape \(3, 5, 4\), but 5 slots in 3 rows need \(3, 5, 5\)"
    ):
        layer(slots, edges[..., :4])
    for slot in (5, -1):
        with pytest.raises(ValueError, match=rf"do\(\) names slot {slot}, but the slots are 0 to 4"):
            layer(slots, edges, {slot: torch.randn(B, D)})
    for shape in ((D,), (1, D), (B, D + 1)):
        with pytest.raises(ValueError, match=r"do\(\) on slot 2 got a value of shape .*: pass \(3, 8\)"):
            layer(slots, edges, {2: torch.randn(shape)})


def test_gelu_of_the_split_pair_is_that_of_the_pair():
    """The identity behind the fast form: W [a; b] = W_a a + W_b b."""
    layer, a, b = sci.CausalInterventionLayer(D), torch.randn(B, D), torch.randn(B, D)
    first = layer.message_fn[0]
    left, right = first.weight.split(D, dim=1)
    torch.testing.assert_close(
        F.linear(a, left, first.bias) + F.linear(b, right), first(torch.cat([a, b], -1)), rtol=0, atol=1e-12
    )


def test_slots_and_content_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"slots have shape \(5, 8\): the layer needs \(batch, slots, 8\)"):
        sci.CausalInterventionLayer(D)(torch.randn(K, D), torch.rand(K, K))
    for shape in ((2, T, D), (B, T, D + 1), (B, D)):
        with pytest.raises(ValueError, match="cannot fill slots of shape .*one batch and one width"):
            mechanism().bind(**inputs() | {"content": torch.randn(shape)})


def test_autocast_does_not_round_what_the_tokens_were():
    reader = sci.binding.SlotReader(D, HIDDEN, n_heads=2).float()
    hidden = torch.randn(B, T, HIDDEN, dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        read = reader.read(hidden, reader.fold(torch.randn(B, K, D, dtype=torch.float32)), 0)
    assert torch.equal(read, hidden)  # the output map is zero at first


def test_a_reader_of_no_layers_is_refused():
    with pytest.raises(ValueError, match="n_layers is -1"):
        sci.binding.SlotReader(8, 8, n_layers=-1)
