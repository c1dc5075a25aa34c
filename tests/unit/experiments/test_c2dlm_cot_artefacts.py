"""COT-OrderPerturb's figures and table say what the task's module computes."""

import matplotlib.pyplot as plt
import pytest

from causalnb.experiments.c2dlm.artefacts import algorithm1, chains, fig3, fig7
from causalnb.tasks import cot_order_perturb as cot


def test_depth_grows_along_every_edge():
    depth = fig7.depths()
    assert all(depth[effect] > depth[cause] for effect, causes in cot.GRAPH.items() for cause in causes)
    assert depth["Zorin"] == 0 and depth["Stardust"] == max(depth.values()) == 7
    assert set(fig7.HEIGHTS) == set(cot.VARIABLES)


def test_the_graph_is_drawn_whole():
    fig, alt = fig7.graph_figure()
    assert "15 variables, 28 edges" in alt and "Celestia from Nebula and Aether and Echo" in alt
    assert {text.get_text() for text in fig.axes[0].texts} >= set(cot.VARIABLES)
    assert "path to Stardust has 7 steps" in fig.get_suptitle() and fig.get_suptitle().endswith("from Nova")
    plt.close(fig)


def test_every_order_shows_its_reversed_edges():
    fig, alt = fig3.orders_figure()
    for ax, mode in zip(fig.axes, fig3.ORDERS, strict=True):
        assert [text.get_text() for text in ax.texts] == [*cot.order(mode)]
        solid = [patch for patch in ax.patches if patch.get_linestyle() in ("-", "solid")]
        assert len(solid) == cot.violations(cot.order(mode)) and len(ax.patches) == 23
    assert "R1: 13 reversed, Stardust in place 2 of 13" in alt
    assert fig.get_suptitle().endswith("0 of 23 in order normal, 23 in order RE")
    fig, _ = fig3.orders_figure(("R1", "DFS", "R3"))
    assert fig.get_suptitle().replace("\n", " ").endswith("10 of 23 in order DFS, 13 in order R1")
    plt.close("all")


def test_the_algorithm_is_computed():
    rows = {row[0]: row[2] for row in algorithm1.algorithm_table().rows}
    assert rows["Stardust of all inputs, sha256"] == "61ff52f3871e0afd"  # of the audit
    assert rows["test inputs"] == "500, of which 0 are training inputs"
    assert rows["Stardust"] == "106 values from -4 to 106; 9 are negative"


def test_shortcuts_are_what_their_names_say():
    train, test = cot.split(60, 30, seed=3)
    found = chains.shortcuts(train, test)

    def answer(pair):
        return cot.values(*pair)["Stardust"]

    def nearest(pair):
        return min(train, key=lambda other: (other[0] - pair[0]) ** 2 + (other[1] - pair[1]) ** 2)

    assert found["nearest training input"] == pytest.approx(
        sum(answer(nearest(pair)) == answer(pair) for pair in test) / 30, abs=1 / 30
    )
    assert found["most frequent answer"] <= 0.2 and set(found) >= {"linear fit", "fit of degree 6"}

    copied, fitted = chains.step_shortcuts(train, test).values()
    both = [(cot.values(*nearest(pair)), cot.values(*pair)) for pair in test]
    alike = [copy[step] == chain[step] for copy, chain in both for step in cot.STEPS]
    assert copied == pytest.approx(sum(alike) / len(alike), abs=1 / 30) and copied < fitted < 1
