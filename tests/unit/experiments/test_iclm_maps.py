"""Maps of a tuned ICLM, the bare base's clusters, and the parts that forget."""

import numpy as np
import pytest
import torch

from causalnb.experiments.iclm import clusters as iclm_clusters
from causalnb.experiments.iclm import continual as iclm_continual
from causalnb.experiments.iclm import data as iclm_tasks
from causalnb.experiments.iclm import maps as iclm_maps
from causalnb.experiments.iclm import models as iclm_models
from causalnb.experiments.iclm import runs as iclm_runs
from causalnb.iclm import pearson
from causalnb.lab import registry


def config(id="iclm.acre", arm="iclm", **changes):
    return registry.config(id, arm, "quick") | changes


def stirred(config):
    """A model whose modules differ."""
    torch.manual_seed(0)
    model = iclm_models.build_model(config).eval()
    with torch.no_grad():
        for layer in model._adapted.values():
            layer.B.normal_(0, 0.3)
    return model


@pytest.fixture(scope="module")
def model():
    return stirred(config())


def rows_of(config, cell="IID"):
    return {
        format: iclm_runs.prepared(rows, config)
        for format, rows in iclm_tasks.test_rows(config, cell).items()
    }


def test_layers_are_correlated_at_the_labels(model):
    rows = [row for some in rows_of(config()).values() for row in some]
    found = iclm_maps.layer_rows(model, rows, "IID")
    pairs = list(dict.fromkeys(row["pair"] for row in found))
    assert pairs == [
        "router|router",
        "router|invariant",
        "router|0",
        "router|1",
        "invariant|invariant",
        "invariant|0",
        "invariant|1",
        "0|0",
        "0|1",
        "1|1",
    ]
    layers = model.config.base_config.num_hidden_layers + 1
    assert len(found) == len(pairs) * layers
    last = next(row for row in found if row["pair"] == "invariant|1" and row["layer"] == layers - 1)
    batch = iclm_models.collate(rows)
    where = batch["labels"][:, 1:] != -100
    with torch.no_grad():
        a, b = (
            model.states(batch["input_ids"], batch["attention_mask"], m)[:, :-1][where]
            for m in ("invariant", 1)
        )
    assert last[f"to_{layers - 1}"] == pytest.approx(pearson(a, b).item(), abs=1e-4) != 1
    same = [row for row in found if row["pair"] == "0|0"]
    assert [row[f"to_{row['layer']}"] for row in same] == [1.0] * layers


def test_the_map_shows_where_the_router_sends_each_input(model):
    cells = {"IID": rows_of(config()), "Sys": rows_of(config(), "Sys")}
    found = [row for row in iclm_maps.followed(model, cells) if "x" in row]
    assert [(row["cell"], row["format"]) for row in found] == [
        (cell, format) for cell in cells for format in ("text", "symbolic") for _ in range(4)
    ]
    sent = [iclm_models.modules_of(model, rows) for formats in cells.values() for rows in formats.values()]
    assert [row["module"] for row in found] == [module for some in sent for module in some]


def test_a_plane_stays_a_plane():
    points = np.random.default_rng(0).normal(size=(12, 2)) @ np.random.default_rng(1).normal(size=(2, 5))
    flat = iclm_maps.flattened(points)
    apart = [np.linalg.norm(p[:, None] - p[None], axis=-1) for p in (points, flat)]
    np.testing.assert_allclose(*apart, atol=0.02 * apart[0].max())


def test_a_kmeans_router_is_fitted_before_training():
    settings = config("iclm.variants.acre", "kmeans", train_rows=6)
    model = stirred(settings)
    rows = iclm_runs.prepared(iclm_tasks.training_rows(settings, 0), settings)
    with pytest.raises(ValueError, match="no centroids yet"):
        iclm_models.modules_of(model, rows)
    iclm_runs.started(model, rows, settings)
    assert set(iclm_models.modules_of(model, rows)) == {0, 1}


def test_training_prompts_are_matched_when_asked():
    rows = iclm_tasks.training_rows(config(arm="iclm", matched=5, train_rows=4), 0)
    lengths = [iclm_tasks.icl_rows.prompt_length(row) for row in rows]
    assert lengths[:4] == lengths[4:]


# two tasks


def test_the_parts_are_what_training_moves():
    settings = config("iclm.continual")
    masks = iclm_continual.part_masks(model := stirred(settings))
    moved = {name for name, p in model.named_parameters() if p.requires_grad}
    covered = {name: torch.zeros_like(value, dtype=torch.long) for name, value in model.state_dict().items()}
    for part in iclm_continual.PARTS:
        for name, mask in masks[part].items():
            covered[name] += mask
    domains = [masks[number] for number in range(model.config.num_modules)]
    for name, mask in masks["domains"].items():
        assert torch.equal(sum(part[name].long() for part in domains), mask.long())
    assert all((covered[name] == 1).all() for name in moved)  # each once
    assert all(
        (covered[name] == 0).all()
        for name in covered
        if name.startswith("base") and name not in moved and "frozen" not in name
    )


@pytest.mark.parametrize("part", [*iclm_continual.PARTS, 0, 2])
def test_one_part_is_put_back_and_then_taken_away(part):
    settings = config("iclm.continual")
    model, other = stirred(settings), stirred(settings)
    with torch.no_grad():
        for p in other.parameters():
            p.add_(torch.randn_like(p))
    before = {name: value.clone() for name, value in other.state_dict().items()}
    now = {name: value.clone() for name, value in model.state_dict().items()}
    mask = iclm_continual.part_masks(model)[part]
    with iclm_continual.put_back(model, before, part):
        for name, value in model.state_dict().items():
            its = mask.get(name, torch.zeros_like(value, dtype=torch.bool))
            assert torch.equal(value, torch.where(its, before[name], now[name]))
    assert all(torch.equal(value, now[name]) for name, value in model.state_dict().items())


def test_a_place_is_served_by_the_module_that_has_most_of_its_rows():
    config = {"cells": ["IID", "Sys"], "num_modules": 3}
    shares = {
        "IID/text": (0.2, 0.7, 0.1),
        "IID/symbolic": (0, 0, 1),
        "Sys/text": (1, 0, 0),
        "Sys/symbolic": (0, 0.4, 0.6),
    }
    metrics = {
        f"before/acre/{place}": {f"module{i}": share for i, share in enumerate(those)}
        for place, those in shares.items()
    }
    assert iclm_continual.serving(metrics, config) == {
        0: {"Sys/text"},
        1: {"IID/text"},
        2: {"IID/symbolic", "Sys/symbolic"},
    }


def test_modules_in_use_are_those_with_a_share(monkeypatch):
    settings = config("iclm.continual", **registry.config("iclm.continual", "iclm", "quick")["acre"])
    monkeypatch.setattr(iclm_continual, "modules_of", lambda model, rows: [3] * 19 + [1])
    assert iclm_continual.used_modules(None, settings | {"used_share": 0.05}, 0) == [1, 3]
    assert iclm_continual.used_modules(None, settings | {"used_share": 0.06}, 0) == [3]


# clusters of the base


def test_pooled_states_are_the_prompts_means():
    settings = config("iclm.clusters", "acre")
    model = iclm_models.build_base(settings).eval()
    rows = iclm_clusters.sets_of(settings)["IID text"]
    found = iclm_clusters.pooled_states(model, rows, (-1, -2), batch=3)
    row = iclm_models.encoded(rows[5])
    with torch.no_grad():
        states = model(input_ids=torch.tensor([row["input_ids"]]), output_hidden_states=True).hidden_states
    prompt = torch.tensor([label == -100 for label in row["labels"]])
    for i, layer in enumerate((-1, -2)):
        torch.testing.assert_close(found[i, 5], states[layer][0][prompt].mean(0), rtol=1e-4, atol=1e-5)


def test_sets_that_lie_apart_score_one():
    draw = np.random.default_rng(0)
    names = [f"{cell} {format}" for cell in ("a", "b") for format in ("text", "symbolic") for _ in range(9)]
    places = {name: 50 * draw.normal(size=3) for name in names}
    states = np.array([places[name] + 0.01 * draw.normal(size=3) for name in names])
    clusters, found = iclm_clusters.cluster_scores(states, names, 0)
    assert found["rand"] == 1 and found["silhouette_sets"] > 0.99 > found["silhouette_formats"]
    assert len(set(clusters)) == 4


def test_six_sets_are_six():
    made = iclm_clusters.sets_of(config("iclm.clusters", "six"))
    assert [*made] == ["acre text", "acre symbolic", "raven text", "raven symbolic", "pvr", "arc"]
    assert all(0 < len(rows) <= 8 for rows in made.values())
