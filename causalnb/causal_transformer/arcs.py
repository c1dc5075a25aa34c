"""The graph that an attention map draws when only its strong weights are kept, and what is wrong with it."""

import torch
from torch import Tensor

from .measure import checked_map

STRONG = 1 / 3  # of a node with a self-loop and two neighbours each has as much; a row has two above it
MOST_PARENTS = 2


def arcs(attention: Tensor, valid: Tensor | None = None, threshold: float = STRONG) -> Tensor:
    """Which entries of maps (B, H, T, T) are above `threshold` in (0, 1): query i attends strongly to key j.

    Padding, outside valid (B, T), has none. Raises ValueError as `tau`, and for another threshold.
    """
    if not 0 < threshold < 1:
        raise ValueError(f"threshold is {threshold}: choose a weight between 0 and 1")
    valid = checked_map(attention, valid)
    strong = attention > threshold
    return strong if valid is None else strong & valid[:, None, :, None] & valid[:, None, None]


def count_arcs(attention: Tensor, valid: Tensor | None = None, threshold: float = STRONG) -> dict[str, float]:
    """Shares of a map's nodes, from 0 to 1, averaged over valid tokens and heads.

    loops: attend strongly to themselves; two_cycles: to another that does so to them; cycles: stand on a
    directed cycle of two or more; hubs: are attended to strongly by more than MOST_PARENTS others. arcs: the
    number of strong arcs a node sends to others. Raises ValueError as `arcs`.
    """
    graph = arcs(attention, valid, threshold)
    loops = graph.diagonal(dim1=-2, dim2=-1)
    others = graph & ~torch.eye(graph.shape[-1], dtype=torch.bool, device=graph.device)
    found = dict(
        loops=loops,
        two_cycles=(others & others.transpose(-1, -2)).any(-1),
        cycles=on_cycle(others),
        hubs=others.sum(-2) > MOST_PARENTS,
        arcs=others.sum(-1),
    )
    if valid is None:
        return {name: each.double().mean().item() for name, each in found.items()}
    there = valid.bool()[:, None].expand_as(loops)
    return {name: each[there].double().mean().item() for name, each in found.items()}


def on_cycle(graph: Tensor) -> Tensor:
    """Which nodes (..., T) of graphs (..., T, T) without self-loops can reach themselves, along any path.

    Paths double in length with each squaring, so that log2 T of them see the longest cycle.
    """
    reach = graph.float()
    length = 1
    while length < graph.shape[-1]:
        reach = ((reach + reach @ reach) > 0).float()
        length *= 2
    return reach.diagonal(dim1=-2, dim2=-1) > 0
