"""tau, its bounds, the no-loop measure and Sinkhorn, against loops over every entry and values by hand."""

import math

import pytest
import torch

from causalnb.causal_transformer import excess_bounds, markov_blanket_bounds, no_loop, sinkhorn, tau
from tests.unit.causal_transformer.small import maps, padded

ROOT, THIRD = math.exp(1 / 2), math.exp(1 / 3)
both = pytest.mark.parametrize("causal", [False, True])


def literal_tau(attention, valid):
    """Definition 1 with a loop over every pair of valid tokens; 0 for padding."""
    batch, heads, tokens, _ = attention.shape
    rows, columns = torch.zeros(2, batch, heads, tokens, dtype=torch.float64)
    attention = attention.tolist()
    for b in range(batch):
        real = [i for i in range(tokens) if valid is None or valid[b, i]]
        for h in range(heads):
            for i in real:
                rows[b, h, i] = sum(math.exp(attention[b][h][i][j]) for j in real)
                columns[b, h, i] = sum(math.exp(attention[b][h][j][i]) for j in real)
    return rows, columns


@both
@pytest.mark.parametrize("valid", [None, padded()], ids=["full", "padded"])
def test_tau_is_definition_1(double, causal, valid):
    attention = maps(valid, causal)
    for found, expected in zip(tau(attention, valid), literal_tau(attention, valid), strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def test_tau_in_float32_is_that_in_float64():
    attention = maps().double()
    for found, expected in zip(tau(attention.float()), literal_tau(attention, None), strict=False):
        torch.testing.assert_close(found.double(), expected, rtol=0, atol=1e-6)


def test_padding_changes_nothing(double):
    attention, valid = maps(tokens=4, batch=1), torch.tensor([[False, True, True, True, True, False]])
    wide = torch.eye(6).expand(1, 2, 6, 6).clone()
    wide[:, :, 1:5, 1:5] = attention
    for narrow, padded_one in zip(tau(attention), tau(wide, valid), strict=False):
        torch.testing.assert_close(padded_one[..., 1:5], narrow, rtol=0, atol=1e-14)
        assert (padded_one[..., [0, 5]] == 0).all()


def test_tau_has_a_gradient(double):
    valid = torch.tensor([[True, True, True, False]])

    def sums(scores):
        return tau(scores.masked_fill(~valid[:, None, None], -torch.inf).softmax(-1), valid)

    assert torch.autograd.gradcheck(sums, torch.randn(1, 1, 4, 4, requires_grad=True))


@pytest.mark.parametrize("neighbours", [1, 2, 3, 4, 8])
def test_tau_of_equal_neighbours(double, neighbours):
    tokens = 9
    ring = sum(torch.eye(tokens).roll(k + 1, 1) for k in range(neighbours)) / neighbours
    for found in tau(ring[None, None]):
        by_hand = tokens - neighbours + neighbours * math.exp(1 / neighbours)
        torch.testing.assert_close(found, torch.full_like(found, by_hand))


def test_bounds_by_hand():
    n = 12
    assert markov_blanket_bounds(n) == pytest.approx((2 * (n - 2 + 2 * ROOT), 2 * (n - 1 + math.e)))
    low, high = 2 * (n - 3 + 3 * THIRD), 2 * (n - 2 + THIRD + THIRD**2)
    assert markov_blanket_bounds(n, True) == pytest.approx((low, 2 * (n - 1 + math.e)))
    assert markov_blanket_bounds(n, "set") == pytest.approx((low, high))
    assert excess_bounds() == pytest.approx((1.29744, 1.71828), abs=1e-5)
    low, high = markov_blanket_bounds(torch.tensor([4, 9]))
    assert high.tolist() == pytest.approx([2 * (3 + math.e), 2 * (8 + math.e)])
    assert (high - low).tolist() == pytest.approx([2 * (math.e + 1 - 2 * ROOT)] * 2, abs=1e-5)


def test_no_loop_by_hand(double):
    chain = torch.diag(torch.ones(3), 1)
    assert no_loop(chain) == 0
    pair = torch.tensor([[0.0, 0.5], [0.5, 0.0]])
    torch.testing.assert_close(no_loop(pair), torch.tensor(2 * math.cosh(0.25) - 2))
    assert no_loop(torch.stack([pair, chain[:2, :2]])).shape == (2,)


@pytest.mark.parametrize("valid", [None, padded()], ids=["full", "padded"])
def test_sinkhorn_is_repeated_division(double, valid):
    attention = maps(valid)
    found = sinkhorn(attention, valid, iterations=3)
    for b in range(3):
        real = torch.ones(6, dtype=torch.bool) if valid is None else valid[b]
        part = attention[b][:, real][:, :, real]
        for _ in range(3):
            part = part / part.sum(-2, keepdim=True)
            part = part / part.sum(-1, keepdim=True)
        torch.testing.assert_close(found[b][:, real][:, :, real], part, rtol=1e-10, atol=1e-12)
        assert (found[b][:, ~real] == 0).all() and (found[b][:, :, ~real] == 0).all()
    long = sinkhorn(attention, valid, iterations=500)
    real = 1.0 if valid is None else valid[:, None].double().expand(-1, 2, -1)
    torch.testing.assert_close(long.sum(-2), torch.ones(3, 2, 6) * real, rtol=0, atol=1e-3)


def test_sinkhorn_has_a_gradient(double):
    assert torch.autograd.gradcheck(
        lambda scores: sinkhorn(scores.softmax(-1), iterations=2), torch.randn(1, 1, 4, 4, requires_grad=True)
    )


@pytest.mark.parametrize(
    "call, message",
    [
        (
            lambda: tau(torch.full((1, 1, 4, 4), 0.3)),
            r"row 0 of the attention \(item 0, head 0\) differs from a sum of 1 by 0.2",
        ),
        (lambda: tau(torch.full((1, 1, 4, 4), torch.nan)), "by nan"),
        (lambda: tau(torch.full((1, 1, 3, 4), 0.25)), r"shape \(1, 1, 3, 4\): give square maps"),
        (lambda: tau(torch.full((4, 4), 0.25)), r"give square maps \(B, H, T, T\)"),
        (lambda: tau(torch.ones(1, 1, 1, 1)), "the input has 1 token: a blanket needs at least 2"),
        (lambda: tau(torch.full((2, 1, 2, 2), 0.5), torch.tensor([[1, 1], [0, 0]])), "every token of item 1"),
        (lambda: tau(torch.full((1, 1, 2, 2), 0.5), torch.tensor([[1, 0]])), "all tokens but one of item 0"),
        (lambda: tau(torch.full((1, 1, 2, 2), 0.5), torch.ones(1, 3)), r"valid has shape \(1, 3\)"),
        (lambda: tau(torch.full((1, 1, 2, 2), 0.5), [[1, 1]]), r"valid is a list: give a tensor \(B, T\)"),
        (lambda: markov_blanket_bounds(1), "n is 1: a blanket needs at least two tokens"),
        (lambda: markov_blanket_bounds(torch.tensor([3, 0])), "n is 0"),
        (lambda: markov_blanket_bounds(4, "third"), "self_loop is 'third': choose False, True"),
        (lambda: no_loop(torch.ones(2, 3)), "give square maps"),
        (lambda: sinkhorn(maps(), iterations=0), "iterations is 0: choose 1 or more"),
        (lambda: sinkhorn(maps(causal=True)), "the map is causal, and its only doubly stochastic limit"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_the_row_that_does_not_sum_to_one_is_named():
    attention = maps()
    attention[2, 1, 4] *= 1.5
    with pytest.raises(ValueError, match=r"row 4 of the attention \(item 2, head 1\) differs .* by 0.5"):
        tau(attention)


def test_a_causal_map_is_one_whatever_its_padding_looks_at():
    """On the left, where a row without a token to see is often even."""
    valid = padded()
    attention = maps(valid, causal=True)
    attention[2, :, :2] = 1 / 6
    with pytest.raises(ValueError, match="the map is causal, and its only doubly stochastic limit"):
        sinkhorn(attention, valid)
    sinkhorn(maps(valid), valid)


def test_rows_may_be_rounded_to_half_precision():
    attention = maps(sharp=1.0).bfloat16()
    rows, _ = tau(attention)
    assert rows.dtype == torch.float32
    with pytest.raises(ValueError, match="sum of 1"):
        tau(attention * 1.2)
