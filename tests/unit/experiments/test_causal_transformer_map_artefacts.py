"""Figures 8 and 9 of the Causal Transformer draw and count what was stored: checked on maps known by hand."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

from causalnb.errors import LabError
from causalnb.experiments.causal_transformer.artefacts import fig8
from causalnb.experiments.causal_transformer.artefacts import fig9 as made
from causalnb.experiments.causal_transformer.artefacts.translation import SNLI, SOURCE, signed
from causalnb.lab import building, evidence
from causalnb.lab.statistics import mean_ci
from causalnb.lab.tables import estimate
from tests.unit.experiments.made_up import number, without
from tests.unit.experiments.translation_made_up import TOKENS, drawn, store

SEEDS = 3


@pytest.fixture(scope="module", autouse=True)
def stored(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch, evidence.stored_only():
        store(patch, tmp_path_factory.mktemp("maps"), SEEDS)
        yield
    plt.close("all")


def test_the_maps_are_those_of_the_arms():
    places = []
    for _, stack, column, tokens, weights in fig8.panels(range(4)):
        places.append((stack, column))
        assert tokens == [*TOKENS]
        assert torch.allclose(weights, drawn(stack, fig8.MODELS[stack][2][column]).double(), atol=1e-5)
    assert places == [(stack, column) for stack in ("encoder", "decoder") for column in ("vanilla", "causal")]


def test_what_a_map_draws_is_counted_by_hand():
    cycle = torch.eye(4).roll(1, 0)
    assert made.counted(cycle) == {"arcs": 4, "loops": 0, "two_cycles": 0, "cycles": 4, "hubs": 0}
    ring = (cycle + cycle.T) / 2  # 0-1-2-3-0, every arc in both directions
    assert made.counted(ring) == {"arcs": 8, "loops": 0, "two_cycles": 4, "cycles": 4, "hubs": 0}
    hub = torch.zeros(4, 4)
    hub[:, 0] = 1
    assert made.counted(hub) == {"arcs": 3, "loops": 1, "two_cycles": 0, "cycles": 0, "hubs": 1}
    assert not any(made.counted(torch.full((4, 4), 0.25)).values())


def test_arcs_are_drawn_as_they_are():
    weights = torch.tensor([[0, 1, 0, 0], [1, 0, 0, 0], [0.6, 0, 0.4, 0], [1, 0, 0, 0.0]])
    _, ax = plt.subplots()
    made.draw_arcs(ax, ["a", "b", "c", "d"], weights)
    assert [(arc.center[0], arc.width, arc.theta1, arc.get_linestyle()) for arc in ax.patches] == [
        (0.5, 1, 180, "--"),
        (0.5, 1, 0, "--"),
        (1.0, 2, 0, "-"),
        (1.5, 3, 0, "-"),
    ]  # 180: below the line
    assert [line.get_xdata()[0] for line in ax.lines[1:]] == [2]  # the ring of c
    assert [label.get_fontweight() for label in ax.get_xticklabels()] == ["bold", *3 * ["normal"]]
    assert all(0 < arc.height / 2 <= ax.get_ylim()[1] for arc in ax.patches)


def test_alt_texts_tell_the_counts():
    fig, alt = made.arcs_figure()
    vanilla, causal = (
        [made.counted(weights)["arcs"] for *_, column, _, weights in fig8.panels(range(4)) if column == name]
        for name in ("vanilla", "causal")
    )
    assert causal == [5, 4] and fig.get_suptitle().endswith(
        f"encoder, vanilla {vanilla[0]}, causal 5; decoder, vanilla {vanilla[1]}, causal 4"
    )
    assert "encoder, vanilla: arcs: 0, self-loops: 0, two-cycles: 0, on a cycle: 0 of 5, hubs: 0" in alt
    assert "encoder, causal: arcs: 5, self-loops: 0, two-cycles: 0, on a cycle: 5 of 5, hubs: 0" in alt
    assert "decoder, causal: arcs: 4, self-loops: 1" in alt
    fig, alt = fig8.maps_figure()
    assert "encoder, vanilla: 5.0 effective neighbours" in alt and "decoder, causal: 1.0" in alt
    assert len(fig.axes) == 5


def test_counts_pair_seeds():
    rows = {tuple(row[:2]): row[2:] for row in made.counts().rows}
    assert len(rows) == 2 * (len(made.MEASURES) + len(made.PER_ARC))
    for stack, metric in (("encoder", "cycles"), ("decoder", "violated")):
        id, prefix, arms = fig8.MODELS[stack]
        vanilla, causal = (
            [number(id, arm, seed, f"{prefix}_{metric}") for seed in range(SEEDS)] for arm in arms.values()
        )
        assert rows[stack, made.MEASURES[metric]] == [
            estimate(mean_ci(vanilla), 4),
            estimate(mean_ci(causal), 4),
            signed(4)(np.subtract(causal, vanilla)),
        ]
    id, prefix, arms = fig8.MODELS["encoder"]
    each = [
        [
            number(id, arm, seed, f"{prefix}_loops") / number(id, arm, seed, f"{prefix}_arcs")
            for seed in range(SEEDS)
        ]
        for arm in arms.values()
    ]
    assert rows["encoder", made.PER_ARC["loops"]][2] == signed(4)(np.subtract(each[1], each[0]))
    encoder, decoder = made.arcs_remark().split("Decoder: ")
    assert encoder.startswith("Encoder: ") and "nodes on a cycle per strong arc differ by" in encoder
    assert "strong arcs a node" in decoder and decoder.endswith("its mask leaves no room for a cycle.")


def test_the_figures_are_built_with_counts_and_verdicts():
    names = {file.name for id in ("fig8", "fig9") for file in building.build(f"{SOURCE}.{id}")}
    assert {"fig8.svg", "fig9.svg", "fig9_counts.md", "fig8_verdicts.md", "fig9_verdicts.md"} <= names
    (claim,) = made.verdicts().rows  # beside arcs: few arcs close few cycles
    id, prefix, arms = fig8.MODELS["encoder"]
    gap = np.subtract(
        *(
            [
                number(id, arm, seed, f"{prefix}_cycles") / number(id, arm, seed, f"{prefix}_arcs")
                for seed in range(SEEDS)
            ]
            for arm in (arms["causal"], arms["vanilla"])
        )
    )
    assert claim[3] == estimate(mean_ci(gap), 4)


def test_a_missing_map_is_named():
    with (
        without(SNLI, "both", 0),
        pytest.raises(LabError, match="1 of 3 quick results of causal_transformer.snli are not there"),
    ):
        fig8.maps_figure()
