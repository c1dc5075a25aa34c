"""Figures 2 to 6 of the Causal Transformer: what they claim is computed, and their files are stable."""

import math

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
import pytest
import torch

from causalnb.causal_transformer import attention_pattern, excess_bounds, no_loop
from causalnb.experiments.causal_transformer.artefacts import fig2, fig3, fig4, fig5, fig6
from causalnb.lab import building
from causalnb.lab.figures import render, style

FIGURES = {
    "fig2": fig2.masks_figure,
    "fig3": fig3.loops_figure,
    "fig4": fig4.blanket_figure,
    "fig5": fig5.space_figure,
    "fig6": fig6.blocks_figure,
}


def drawn(name):
    fig, alt = FIGURES[name]()
    plt.close(fig)
    return fig, alt


def test_pairs_and_layers_by_hand():
    band = attention_pattern("band", 5)
    assert fig2.cut_pairs(band) == 25 - 13 and fig2.layers_until_full(band) == 4
    assert fig2.layers_until_full(attention_pattern("full", 5)) == 1
    assert fig2.layers_until_full(attention_pattern("star", 9)) == 2
    for kind in ("block", "dilated"):
        assert fig2.layers_until_full(attention_pattern(kind, 6, 2)) is None


def test_masks_do_not_change_with_the_default_precision():
    expected = fig2.masks()
    torch.set_default_dtype(torch.float64)
    try:
        found = fig2.masks()
        assert torch.get_default_dtype() == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    for name, settings in fig2.MASKS.items():
        assert torch.equal(found[name], expected[name])
        assert torch.equal(expected[name], attention_pattern(name, fig2.TOKENS, **settings))


def test_masks_have_a_square_and_a_line_for_each_seen_pair():
    fig, alt = drawn("fig2")
    for (name, settings), top, below in zip(fig2.MASKS.items(), fig.axes[:5], fig.axes[5:], strict=False):
        mask = attention_pattern(name, fig2.TOKENS, **settings)
        assert np.array_equal(top.images[0].get_array(), mask) and len(below.lines) == mask.sum()
        bold = [line for line in below.lines if line.get_linewidth() > 1]
        assert sorted(line.get_xdata()[0] for line in bold) == mask[4].nonzero().flatten().tolist()
        assert f"{name} cuts {(~mask).sum()} pairs" in alt


def test_the_headline_of_the_masks_counts_layers(monkeypatch):
    assert drawn("fig2")[0].get_suptitle().endswith("8 in band, 5 in random; never in dilated and block")
    monkeypatch.setattr(fig2, "MASKS", {"full": {}, "band": {"width": 2}, "star": {}, "block": {"width": 3}})
    assert drawn("fig2")[0].get_suptitle().endswith("4 in band, 2 in star; never in block")


def test_graphs_without_loops_still_fail():
    found = {panel: fig3.facts(fig3.loop_free(panel)) for panel in fig3.LOOP_FREE}
    assert all(one["no_loop"] < 1e-12 for one in found.values())
    assert no_loop(torch.eye(2).flip(0)).item() == pytest.approx(2 * math.cosh(1) - 2)
    empty, pairs, chain, mediator, confounder = found.values()
    assert len(empty["independent"]) == 10 and (0, 1) not in pairs["independent"] and not chain["independent"]
    assert {(i, j) for i, j, _ in chain["given"]} == {(i, j) for i in range(5) for j in range(i + 2, 5)}
    assert mediator == confounder and mediator["given"] == [(0, 2, 1)]
    collider = fig3.facts(nx.DiGraph([(0, 1), (2, 1)]))
    assert collider["independent"] == [(0, 2)] and not collider["given"]
    fig, alt = drawn("fig3")
    assert "(d) mediator: h is 0, x1 and x3 independent given x2 only" in alt
    said = fig.get_suptitle()
    assert said.startswith("h is 0 for 5 of 5 graphs: 3 lose") and "; mediator and confounder have" in said


def test_the_blanket_separates_and_none_of_it_can_go():
    graph = fig4.family()
    found = fig4.blanket_of(graph, "A")
    assert found == {"parent": {"P", "Q"}, "child": {"C", "D"}, "spouse": {"S", "T"}}
    blanket = set().union(*found.values())
    rest = set(graph) - blanket - {"A"}
    assert rest and nx.is_d_separator(graph, {"A"}, rest, blanket)
    for node in blanket:
        assert not nx.is_d_separator(graph, {"A"}, rest | {node}, blanket - {node})


def test_edges_that_tau_sees_are_the_bold_ones():
    fig, alt = drawn("fig4")
    widths = [patch.get_linewidth() for patch in fig.axes[0].patches]
    assert len(widths) == len(fig4.FAMILY) and sum(width > 2 for width in widths) == 4
    assert "spouse: S, T" in alt
    said = fig.get_suptitle().replace("\n", " ")
    assert "the 4 edges that" in said and "the spouses S and T" in said and said.endswith("have 0 of them")


def test_intervals_are_those_of_the_package_and_the_printed_ones_are_empty():
    low, high = excess_bounds()
    assert fig5.tau_of(0.5, 0.5) == pytest.approx(low) and fig5.tau_of(1) == pytest.approx(high)
    assert fig5.tau_of(1 / 3, 1 / 3, 1 / 3) == pytest.approx(excess_bounds("set")[0])
    assert fig5.tau_of(1 / 3, 2 / 3) == pytest.approx(excess_bounds("set")[1])
    empty = [name for name, (start, end) in fig5.intervals().items() if start > end]
    assert len(empty) == 2 and all(name.startswith("Equation") for name in empty)
    fig, alt = drawn("fig5")
    assert [text.get_text() for text in fig.axes[2].texts].count("empty") == 2 and empty[0] in alt
    for name in empty:
        start, end = fig5.intervals()[name]
        assert f"from {start:.2f} to {end:.2f} in {name[:10]}" in fig.get_suptitle()
    dashed, dot = fig.axes[1].lines
    for (x, y), weights in zip(
        zip(*dashed.get_data(), strict=False), ((2 / 3, 0), (0, 2 / 3)), strict=True
    ):  # of m and n
        assert (y * 2 / 3**0.5, x - y / 3**0.5) == pytest.approx(weights)  # self = 1/3 at both ends
    assert (dot.get_xdata()[0], dot.get_ydata()[0]) == pytest.approx((1 / 3 / 2 + 1 / 3, 3**0.5 / 6))
    curve, loop = (line.get_ydata() for line in fig.axes[0].lines[:2])
    assert curve.min() == pytest.approx(low) and curve.max() == pytest.approx(high)
    assert (loop < curve).all() and loop.max() < high


def test_boxes_are_the_modules_in_the_order_they_ran():
    found = fig6.trace()
    encoder = ["embed_tokens", "self_attn", "self_attn.update", "self_norm", "ffn", "ffn_norm"]
    decoder = [*encoder[:4], "cross_attn", "cross_norm", *encoder[4:]]
    assert found["ran"] == {"encoder": encoder, "decoder": decoder}
    assert found["losses"] == {"encoder": True, "decoder": False}
    assert (found["maps"]["encoder"] > 0).all() and not found["maps"]["decoder"].triu(1).any()
    fig, _ = drawn("fig6")
    texts = [text.get_text() for text in fig.axes[0].texts]
    for name in {fig6.BOXES[key] for key in decoder}:
        assert texts.count(name) == sum(fig6.BOXES[key] == name for key in encoder + decoder)


def test_drawing_leaves_the_callers_chance_alone():
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    fig6.tiny_model()
    assert torch.equal(torch.rand(1), expected)


@pytest.mark.parametrize("name", FIGURES)
def test_files_are_built_and_the_same_twice(name):
    paths = {path.suffix: path for path in building.build(f"causal_transformer.{name}")}
    assert set(paths) == {".svg", ".png"}
    with style():
        assert paths[".svg"].read_bytes() == render(drawn(name)[0], "svg")
