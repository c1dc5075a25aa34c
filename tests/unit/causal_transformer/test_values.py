"""Equation 4's updater against loops over neighbours, and the sparse patterns of Figure 2."""

import pytest
import torch
import torch.nn.functional as F

from causalnb.causal_transformer import GCNValueUpdate, attention_pattern
from tests.unit.causal_transformer.small import maps

SIGMA = {"gelu": F.gelu, "relu": F.relu}


def literal(update, attention, value):
    """Sums over neighbours, head by head and node by node."""
    sigma = SIGMA[update.activation]

    def gather(states):
        return torch.stack(
            [
                torch.stack(
                    [
                        torch.stack(
                            [sum(attention[b, h, i, j] * states[b, h, j] for j in range(4)) for i in range(4)]
                        )
                        for h in range(2)
                    ]
                )
                for b in range(2)
            ]
        )

    if update.mode == "none":
        return gather(value)
    first = sigma(gather(value)) if update.mode == "two_hop" else sigma(value)
    second = torch.stack([first[:, h] @ update.weight[h] for h in range(2)], 1)
    return sigma(gather(second))


@pytest.mark.parametrize("mode", ["paper", "two_hop", "none"])
@pytest.mark.parametrize("activation", SIGMA)
def test_the_update_is_equation_4(double, mode, activation):
    update = GCNValueUpdate(2, 3, mode, activation)
    attention, value = maps(tokens=4, batch=2), torch.randn(2, 2, 4, 3)
    expected = literal(update, attention, value)
    torch.testing.assert_close(update(attention, value), expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(update(lambda v: attention @ v, value), expected, rtol=0, atol=1e-12)


def test_w1_is_one_small_matrix_for_each_head():
    count = sum(p.numel() for p in GCNValueUpdate(8, 64).parameters())
    assert count == 8 * 64 * 64 and not list(GCNValueUpdate(8, 64, "none").parameters())
    assert "mode='two_hop', activation='relu'" in repr(GCNValueUpdate(2, 3, "two_hop", "relu"))


@pytest.mark.parametrize(
    "settings, message",
    [
        (dict(mode="one_hop"), "mode is 'one_hop': choose among 'paper', 'two_hop', 'none'"),
        (dict(activation="tanh"), "activation is 'tanh': choose among 'gelu', 'relu'"),
    ],
)
def test_unknown_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        GCNValueUpdate(2, 3, **settings)


PICTURES = {
    "full": ["11111"] * 5,
    "band": ["11000", "11100", "01110", "00111", "00011"],
    "dilated": ["10100", "01010", "10101", "01010", "00101"],
    "block": ["11000", "11000", "00110", "00110", "00001"],
    "star": ["11111", "11100", "11110", "10111", "10011"],
}


@pytest.mark.parametrize("kind", PICTURES)
def test_patterns_by_hand(kind):
    width = 2 if kind == "block" else 1
    found = attention_pattern(kind, 5, width)
    assert ["".join(str(int(seen)) for seen in row) for row in found] == PICTURES[kind]


@pytest.mark.parametrize("kind", [*PICTURES, "random"])
def test_a_pattern_is_the_corner_of_a_larger_one(kind):
    large, small = attention_pattern(kind, 40, 3), attention_pattern(kind, 17, 3)
    assert torch.equal(large[:17, :17], small) and large.diagonal().all()


@pytest.mark.parametrize("kind", [*PICTURES, "random"])
def test_global_tokens_see_all_and_are_seen_by_all(kind):
    plain, found = attention_pattern(kind, 12, 2), attention_pattern(kind, 12, 2, global_tokens=2)
    assert found[:2].all() and found[:, :2].all() and torch.equal(found[2:, 2:], plain[2:, 2:])


def test_random_pairs_have_their_share():
    off = ~torch.eye(60, dtype=torch.bool)
    found = attention_pattern("random", 60, share=0.25)
    assert found[off].float().mean().item() == pytest.approx(0.25, abs=0.03)
    assert not torch.equal(found, found.T) and not torch.equal(found, attention_pattern("random", 60, seed=1))
    assert torch.equal(attention_pattern("random", 6, share=0.0), torch.eye(6, dtype=torch.bool))
    assert attention_pattern("random", 6, share=1.0).all()


@pytest.mark.parametrize(
    "settings, message",
    [
        (dict(kind="ring", tokens=4), "pattern is 'ring': choose among 'full', 'band'"),
        (dict(kind="band", tokens=0), "tokens is 0: choose 1 or more"),
        (dict(kind="band", tokens=4, width=0), "width is 0: choose 1 or more"),
        (dict(kind="random", tokens=4, share=1.5), "share is 1.5: choose one in"),
        (dict(kind="band", tokens=4, global_tokens=-1), "global_tokens is -1: choose 0 or more"),
    ],
)
def test_bad_patterns_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        attention_pattern(**settings)
