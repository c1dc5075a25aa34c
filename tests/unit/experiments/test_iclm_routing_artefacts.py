"""Figures 5 and 9 to 15 of ICLM and their tables, on results made up here whose structure is known."""

from itertools import combinations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from causalnb.errors import LabError
from causalnb.experiments.iclm.artefacts import fig5, fig13, fig14, layers, maps, scores
from causalnb.lab import building, evidence, figures, registry
from causalnb.lab.results import ROW, rows_of
from causalnb.lab.statistics import mean_ci
from causalnb.lab.tables import estimate
from causalnb.lab.verdicts import claims
from tests.unit.experiments.iclm_made_up import BLOCKS, metrics, real, store, text_module
from tests.unit.experiments.made_up import number


@pytest.fixture(scope="module", autouse=True)
def stored(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch, evidence.stored_only():
        store(patch, tmp_path_factory.mktemp("iclm"))
        yield
    plt.close("all")


# maps


def test_a_silhouette_by_hand():
    points = [[0, 0], [0, 1], [0, 10], [0, 11]]  # own 1, other 10.5 and 9.5
    assert maps.silhouette(points, "aabb") == pytest.approx(1 - (1 / 10.5 + 1 / 9.5) / 2)
    assert maps.silhouette(points, "aaaa") == maps.silhouette(points, "abcd") == 0


def test_separations_tell_formats_and_sets_apart():
    acre, raven = (fig5.separated(family) for family in scores.FAMILIES)
    assert len(acre) == 4 and (acre["formats"] > 0.8).all() and (acre["cells"] < 0.1).all()
    assert (raven["cells"] > 0.5).all() and (raven["split"] == 1).all()
    one = maps.router_map("acre")
    one = one[one["seed"] == 0]
    assert fig5.separations(one.assign(module=0))["split"] == 0
    mixed = one.assign(module=[0, 1] * (len(one) // 2))
    shares = mixed.groupby("format")["module"].mean()
    assert fig5.separations(mixed)["split"] == pytest.approx(abs(shares["text"] - shares["symbolic"]))


def test_claims_8_and_9_are_contrasts_by_seed():
    found = {claim: values.of() for claim, values in fig5.CONTRASTS.items()}
    acre, raven = (fig5.separated(family) for family in scores.FAMILIES)
    assert found["iclm.claim8"][2] == pytest.approx((acre["formats"][2] + raven["formats"][2]) / 2)
    assert found["iclm.claim9"][3] == pytest.approx(raven["cells"][3] - acre["cells"][3])
    *rows, first, second = fig5.separation_table().rows
    assert [row[:2] for row in rows] == [
        [family, arm] for family in scores.FAMILIES.values() for arm in fig5.ARMS.values()
    ]
    assert first[2] == estimate(mean_ci(found["iclm.claim8"]))
    assert second[3].endswith("(4)") and (first[5], second[5]) == ("reproduced", "reproduced")


def test_a_verdict_has_the_direction_of_its_claim():
    assert scores.decided("iclm.claim11", [-1, -1.1, -0.9]).label == "reproduced"  # accuracy is said to fall
    assert scores.decided("iclm.claim8", [-1, -1.1, -0.9]).label == "opposite"


def test_distances_are_in_spreads_of_the_iid_set():
    found = fig13.shift_distances("raven").set_index(["seed", "format", "cell"])
    points = maps.router_map("raven")
    points = points[(points["seed"] == 1) & (points["format"] == "text")].set_index("cell")[["x", "y"]]
    iid = points.loc["center"].to_numpy()
    spread = np.sqrt(((iid - iid.mean(0)) ** 2).sum(1).mean())
    away = np.linalg.norm(points.loc["four"].to_numpy().mean(0) - iid.mean(0)) / spread
    assert found["distance"][1, "text", "four"] == pytest.approx(away)
    far, near = (number("iclm.raven", "iclm", 1, f"{cell}_text", "choice") for cell in ("four", "center"))
    assert found["change"][1, "text", "four"] == pytest.approx(far - near)
    assert len(found) == 4 * 2 * 2


def test_far_sets_are_compared_with_near_ones():
    found = pd.DataFrame(
        [("a", "text", 1.0, 0.5), ("a", "text", 3.0, 0.1), ("b", "text", 2.0, 0.4), ("b", "text", 9.0, 0.2)],
        columns=["family", "format", "distance", "change"],
    )
    assert fig13.far_and_near(found) == (pytest.approx(0.15 - 0.45), pytest.approx((-0.4 - 0.2) / 2))
    assert fig13.far_and_near(found[::-1]) == fig13.far_and_near(found)
    contrasts = fig13.distance_contrasts()
    assert set(contrasts) == {0, 1, 2, 3}
    last, control = fig13.distance_table().rows[-2:]
    assert last[3] == str(scores.decided("iclm.claim11", [one for one, _ in contrasts.values()]))
    assert control[0].endswith("a task and a format") and len(fig13.distance_table().rows) == 8 + 2


def test_figure_5_shows_sets_and_modules():
    fig, alt = fig5.routing_figure(seed=1)
    titles = [ax.get_title() for ax in fig.axes]
    assert titles[0] == "(a) ACRE: the sets" and titles[3].startswith("(d) RAVEN")
    labels = [text.get_text() for text in fig.axes[2].get_legend().get_texts()]
    assert labels[:2] == ["center text", "center symbolic"] and labels[-1] == "in-center symbolic"
    assert [text.get_text() for text in fig.axes[1].get_legend().get_texts()] == ["module 0", "module 1"]
    assert f"text: 100% to module {text_module(1)}" in alt and "30 inputs" in alt


# clusters


@pytest.mark.parametrize("figure, shown", [("iclm.fig9", 10), ("iclm.fig12", 20), ("iclm.fig13", 30)])
def test_clusters_show_their_sets_and_the_rest_grey(figure, shown):
    fig, alt = maps.clusters_figure(figure)
    assert [ax.get_title()[:3] for ax in fig.axes] == ["(a)", "(b)", "(c)", "(d)"]
    for ax in fig.axes:
        grey, *drawn = (len(points.get_offsets()) for points in ax.collections)
        assert (grey, sum(drawn)) == (30 - shown, shown)
    assert f"layer -2: {shown} inputs" in alt


def test_sets_of_the_figures():
    assert [*maps.shown_sets("iclm.fig10")] == ["Comp text", "Comp symbolic", "Sys text", "Sys symbolic"]
    assert [*maps.shown_sets("iclm.fig11")] == ["center text", "center symbolic"]
    assert maps.named("raven symbolic") == "RAVEN symbolic"
    assert maps.named(" in_center text") == "in-center text"


def test_claim_10_is_decided_over_sets():
    each = fig13.set_silhouettes()
    assert set(each) == set(maps.SIX) and min(each.values()) > 0.5
    rows = fig13.clusters_table().rows
    assert rows[4][3] == f"{number('six', 'silhouette_sets_layer1'):.2f}" and rows[-1][3].n == 6
    assert rows[-1][5].label == scores.decided("iclm.claim10", each.values()).label


# layers


@pytest.mark.parametrize("seed", range(2))
def test_domains_are_named_by_what_they_take(seed):
    found = pd.DataFrame(rows_of(metrics("iclm.acre", "iclm", seed)), columns=ROW).assign(seed=seed)
    assert scores.symbolic_module(found, "acre").to_dict() == {seed: 1 - text_module(seed)}
    assert scores.symbolic_module(found.assign(value=0.5), "acre").to_dict() == {seed: 0}


def test_panels_are_aligned_over_seeds():
    found = layers.matrices("raven")
    for seed, panels in found.items():
        assert [*panels] == [*layers.PANELS] and panels["router", "text"].shape == (5, 5)
        assert panels["invariant", "text"][1, 2] == pytest.approx(0.7)
        assert panels["invariant", "symbolic"][1, 2] == pytest.approx(0.8)
        corner = (0, 4) if text_module(seed) else (4, 0)  # stored with module 0 first: turned if that is text
        assert panels["symbolic", "text"][corner] == pytest.approx(0.05)
        assert panels["symbolic", "text"][corner[::-1]] == pytest.approx(0.1)
    means = layers.mean_matrices(found)
    assert means["symbolic", "text"][0, 4] == pytest.approx(0.075)


def brute_force(matrix):
    """The best of all cuts into runs, by trying them."""
    size = len(matrix)
    usual = matrix[np.triu_indices(size, 1)].mean()
    cuts = [cut for n in range(size) for cut in combinations(range(1, size), n)]
    runs = [[list(range(a, b)) for a, b in zip((0, *cut), (*cut, size), strict=False)] for cut in cuts]
    return max(
        runs,
        key=lambda blocks: sum(matrix[i, j] - usual for block in blocks for i, j in combinations(block, 2)),
    )


@pytest.mark.parametrize("seed", range(8))
def test_blocks_are_the_best_of_all_cuts(seed):
    matrix = np.random.default_rng(seed).normal(size=(3 + seed % 5, 3 + seed % 5))
    matrix = matrix + matrix.T
    assert layers.layer_blocks(matrix) == brute_force(matrix)


def test_blocks_need_three_layers():
    with pytest.raises(ValueError, match="2 layers"):
        layers.layer_blocks(np.eye(2))


def test_a_block_contrast_by_hand():
    matrix = np.array([[9.0, 0.8, 0.1], [0.6, 9.0, 0.3], [0.2, 0.4, 9.0]])
    blocks = [[0, 1], [2]]
    assert layers.block_contrast(matrix, blocks, True) == pytest.approx(0.7 - 0.25)
    assert layers.block_contrast(matrix, blocks, False) == pytest.approx((27 + 1.4) / 5 - 0.25)
    assert layers.block_contrast(matrix, [[0], [1], [2]], True) == 0
    assert layers.block_contrast(matrix, [[0, 1, 2]], False) == 0


def test_what_depends_on_distance_alone_has_nothing_beyond():
    apart = abs(np.subtract.outer(range(6), range(6)))
    smooth = 0.8**apart
    np.testing.assert_allclose(layers.by_distance(smooth), smooth)
    lopsided = layers.by_distance(np.array([[1.0, 0.2], [0.4, 3.0]]))
    np.testing.assert_allclose(lopsided, [[2, 0.3], [0.3, 2]])
    panels = {0: dict.fromkeys(layers.PANELS, smooth)}
    found = layers.block_contrasts(panels).loc[0]
    assert found["within"] > 0.2 and found["within_beyond"] == pytest.approx(0, abs=1e-12)


def test_blocks_are_found_and_decide_claims_32_and_33():
    found = layers.matrices("acre")
    assert layers.blocks_of(found) == BLOCKS and layers.said_blocks(BLOCKS) == "0 | 1-2 | 3-4"
    contrasts = layers.block_contrasts(found)
    np.testing.assert_allclose(contrasts["within"], 0.6, atol=1e-9)
    assert (contrasts["within_beyond"] > 0.1).all()
    assert fig14.contrast("within").of()[1] == pytest.approx(0.6)
    rows = fig14.blocks_table().rows
    assert rows[-2][3].startswith("0.600 ") and rows[-2][-1].startswith("reproduced, but")
    assert [row[2] for row in rows[:4]] == ["0 | 1-2 | 3-4"] * 4 and rows[-1][-1].startswith(
        "reproduced, but"
    )


def test_ten_panels_stand_in_the_papers_order():
    fig, alt = layers.layers_figure("raven")
    panels = fig.axes[:10]
    titles = [ax.get_title() for ax in panels]
    assert titles[0] == "(a) Router - Router" and titles[9] == "(j) Dom symb - Dom text"
    assert all(ax.images[0].get_clim() == (-1, 1) for ax in panels)
    assert len(panels[3].lines) == 2 * (len(BLOCKS) - 1) and "blocks 0 | 1-2 | 3-4" in alt


# all of them


def test_a_quick_run_keeps_what_is_read_here(tmp_path):
    found = real("iclm.acre", "iclm", tmp_path)
    pairs = [row for row in found["history"] if "pair" in row]
    stored = {row["pair"] for row in pairs}
    for panel in layers.PANELS:
        names = [{"symbolic": "0", "text": "1"}.get(module, module) for module in panel]
        assert "|".join(names) in stored or "|".join(names[::-1]) in stored
    assert {row["cell"] for row in pairs} == set(scores.SETS["acre"])
    first = [row for row in pairs if row["cell"] == "IID" and row["pair"] == "router|router"]
    square = layers.tables_of(pd.DataFrame(found["history"]), "IID")["router", "router"]
    assert square.shape == (len(first), len(first)) and (square.diagonal() == 1).all()
    points = pd.DataFrame(row for row in found["history"] if "x" in row)
    assert set(fig5.separations(points)) == {"formats", "cells", "split"}


def test_a_quick_map_of_six_sets_has_their_names(tmp_path):
    found = real("iclm.clusters", "six", tmp_path)
    assert {row["set"] for row in found["history"]} == set(maps.SIX)
    assert {row["layer"] for row in found["history"]} == {-1, -2}
    assert {
        f"{kind}_layer{n}" for kind in ("silhouette_formats", "silhouette_sets", "rand") for n in (1, 2)
    } <= set(found["metrics"][""])


def test_claims_decided_here_say_where():
    rows = claims("iclm").set_index("id")
    for number_, figure in ((8, 5), (9, 5), (10, 13), (11, 13), (32, 14), (33, 14)):
        assert rows["reason"][f"iclm.claim{number_}"].endswith(f"beside Figure {figure}")
        assert rows["artefact"][f"iclm.claim{number_}"] == f"iclm.fig{figure}"


def test_every_artefact_is_built(monkeypatch):
    monkeypatch.setattr(figures, "render", lambda fig, format: b"a picture")
    for id in ("iclm.fig5", *maps.SHOWN, "iclm.fig14", "iclm.fig15"):
        assert all(file.is_file() for file in building.build(id))
        assert registry.find(id).notebook == "34_routing_and_variants"


@pytest.mark.parametrize(
    "make",
    [
        fig5.routing_figure,
        fig5.separation_table,
        fig13.distance_table,
        fig13.clusters_table,
        fig14.blocks_table,
        lambda: maps.clusters_figure("iclm.fig9"),
        lambda: layers.layers_figure("acre"),
    ],
)
def test_missing_results_are_named(make, tmp_path, monkeypatch):
    monkeypatch.setenv("CAUSALNB_RESULTS", str(tmp_path))
    plt.close("all")
    with pytest.raises(LabError, match=r"results of iclm\.\S+ are not there: `causalnb run iclm"):
        make()
    assert not plt.get_fignums()  # a notebook would show a figure that was begun
