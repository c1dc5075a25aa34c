"""Graphs of strong attention, by hand."""

import pytest
import torch

from causalnb.causal_transformer.arcs import arcs, count_arcs, on_cycle

from .small import maps, padded


def permutation(*targets) -> torch.Tensor:
    """The map (1, 1, T, T) in which token i attends to targets[i] alone."""
    return torch.eye(len(targets))[list(targets)][None, None]


@pytest.mark.parametrize(
    "targets, expected",
    [
        ((0, 1, 2), dict(loops=1, two_cycles=0, cycles=0, hubs=0, arcs=0)),
        ((1, 2, 0), dict(loops=0, two_cycles=0, cycles=1, hubs=0, arcs=1)),
        ((1, 0, 2, 0), dict(loops=0.25, two_cycles=0.5, cycles=0.5, hubs=0, arcs=0.75)),
        ((1, 0, 0, 0), dict(loops=0, two_cycles=0.5, cycles=0.5, hubs=0.25, arcs=1)),
        (
            (0, 0, 0),
            dict(loops=1 / 3, two_cycles=0, cycles=0, hubs=0, arcs=2 / 3),
        ),  # two others are no hub yet
    ],
)
def test_counts_of_small_graphs(targets, expected):
    assert count_arcs(permutation(*targets)) == pytest.approx(expected)


def test_uniform_attention_has_no_strong_arc():
    assert not any(count_arcs(torch.full((1, 2, 5, 5), 0.2)).values())
    assert count_arcs(torch.full((1, 2, 5, 5), 0.2), threshold=0.1)["cycles"] == 1


def test_a_cycle_of_any_length_is_seen_and_a_path_is_none():
    for length in (2, 3, 7, 16):
        ring = torch.eye(length, dtype=torch.bool).roll(1, 1)
        assert on_cycle(ring).all()
        ring[-1, 0] = False
        assert not on_cycle(ring).any()


def test_reaching_a_cycle_is_not_standing_on_it():
    graph = torch.zeros(4, 4, dtype=torch.bool)
    graph[0, 1] = graph[1, 2] = graph[2, 1] = graph[2, 3] = True
    assert on_cycle(graph).tolist() == [False, True, True, False]


def test_a_causal_map_has_no_cycle():
    found = count_arcs(maps(causal=True, sharp=8.0))
    assert found["cycles"] == found["two_cycles"] == 0 < found["loops"]


def test_padding_is_left_out():
    valid = padded()
    given = maps(valid, sharp=6.0)
    assert not (arcs(given, valid) & ~(valid[:, None, :, None] & valid[:, None, None])).any()
    alone = [count_arcs(given[i : i + 1][:, :, rows][..., rows]) for i, rows in enumerate(valid)]
    tokens = valid.sum(1).tolist()
    for name, value in count_arcs(given, valid).items():
        each = [one[name] * n for one, n in zip(alone, tokens, strict=True)]
        assert value == pytest.approx(sum(each) / sum(tokens))


@pytest.mark.parametrize("threshold", [0.0, 1.0, -1.0])
def test_other_thresholds_are_refused(threshold):
    with pytest.raises(ValueError, match="choose a weight between 0 and 1"):
        arcs(maps(), threshold=threshold)
