"""Figure 1 of ICLM: which loss trains which part, exactly; and the parameters at the paper's size."""

import matplotlib.pyplot as plt
import pytest
import torch

from causalnb.experiments.iclm.artefacts import fig1, parameters
from causalnb.lab import building


@pytest.fixture(scope="module")
def found():
    return fig1.reach()


def test_each_loss_trains_the_parts_of_the_drawing_and_no_other(found):
    reached = {loss: {part for part, size in parts.items() if size} for loss, parts in found.items()}
    assert reached == {
        "output": {"invariant", "chosen domain", "fused head"},
        "invariant": {"invariant"},
        "domain": {"chosen domain"},
        "routing": {"router", "chosen centroid"},
        "mutual_information": {"invariant", "chosen domain"},
    }


def test_a_share_of_the_total_is_the_gradient_of_its_own_loss(found):
    model, inputs = fig1.tiny_model()
    weights = dict(model.config.weights)
    out = model(**inputs)
    assert out.module.tolist() == [0]
    codebook = model.router.choose.codebook
    (own,) = torch.autograd.grad(weights["gamma"] * out.routing.loss, codebook, retain_graph=True)
    assert found["routing"]["chosen centroid"] == pytest.approx(own.norm().item(), rel=1e-9)
    layers = model._adapted.values()
    hidden = model.states(inputs["input_ids"], module="invariant")[:, 5:7].flatten(0, 1)
    loss = torch.nn.functional.cross_entropy(model.base.lm_head(hidden), inputs["labels"][0, 6:])
    own = torch.autograd.grad(weights["alpha"] * loss, [w for layer in layers for w in (layer.A, layer.B)])
    place = model.number("invariant")
    size = sum(g[place].square().sum() for g in own).sqrt().item()
    assert found["invariant"]["invariant"] == pytest.approx(size, rel=1e-6)  # its norms are in single
    assert model.config.weights == weights  # as it was


def test_the_drawing_has_the_parts_and_its_text_says_what_it_shows(found):
    named = {name for flow in fig1.FLOWS + fig1.SHARED for name in flow}
    assert named == set(fig1.BOXES)
    fig, alt = fig1.architecture_figure()
    zeros = [text.get_text() for text in fig.axes[1].texts].count("0")
    plt.close(fig)
    assert "by the routing loss alone" in fig.get_suptitle()
    assert fig.get_suptitle().endswith("no loss reaches the other centroid or the other domain")
    assert zeros == sum(size == 0 for parts in found.values() for size in parts.values()) == 26
    assert "routing reaches router, chosen centroid; mutual information reaches invariant, chosen dom" in alt


def test_parameters_at_full_size_are_those_of_the_formulas():
    width, vocabulary, layers, inner, rank = 4096, 32_000, 32, 11_008, 8
    counts = parameters.parameter_counts()
    assert (
        counts["base"]
        == (2 * vocabulary * width + width + layers * (4 * width**2 + 3 * width * inner + 2 * width))
        == 6_738_415_616
    )
    assert counts["one module's adapters"] == layers * 4 * rank * 2 * width == 8_388_608
    assert counts["all adapters"] == 4 * counts["one module's adapters"]
    assert counts["fused head"] == 2 * width * vocabulary == 262_144_000
    assert counts["router projection"] == 64 * width + 64 and counts["centroids"] == 2 * 64
    assert counts["normalisation"] == 2 * width


def test_the_table_adds_up():
    table = parameters.parameters_table()
    cells = {row[0]: row[1:] for row in table.rows}
    assert cells["all that is trained"] == ["295,968,960", "4.39%", "100.00%"]
    assert cells["fused head"][1:] == ["3.89%", "88.57%"] and cells["centroids"][1] == "below 0.01%"
    assert cells["base, 4 copies in the published code"][:2] == ["26,953,662,464", "400.00%"]


def test_both_are_built(tmp_path, monkeypatch):
    monkeypatch.setenv("CAUSALNB_FIGURES", str(tmp_path))
    assert sorted(path.name for path in building.build("iclm.fig1")) == ["fig1.png", "fig1.svg"]
    assert sorted(path.name for path in building.build("iclm.parameters")) == [
        "parameters.csv",
        "parameters.md",
        "parameters.tex",
    ]
