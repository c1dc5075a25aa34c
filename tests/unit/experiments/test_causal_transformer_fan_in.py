"""The experiment on fan-in: what it reads off maps, on a model whose attention is known."""

from types import SimpleNamespace

import pytest
import torch

from causalnb.experiments.causal_transformer import fan_in
from causalnb.experiments.causal_transformer.artefacts import fan_in as artefact
from causalnb.experiments.causal_transformer.data import collate
from causalnb.lab import building, registry
from causalnb.tasks import fan_in as task
from tests.unit.experiments import made_up


def reader(row: torch.Tensor):
    """A model of one map, whose tokens read themselves and a neighbour, the first one as `row` (T,) says."""

    def model(input_ids, token_type_ids, attention_mask, output_attentions):
        own = torch.eye(len(row))
        maps = (0.9 * own + 0.1 * own.roll(1, 1)).repeat(len(input_ids), 1, 1, 1)
        maps[:, :, 0] = row
        return SimpleNamespace(encoder_attentions=(maps,))

    model.device, model.eval = torch.device("cpu"), lambda: None
    return model


def test_where_the_label_is_read_from():
    rows = fan_in.encoded([{"text": "key1 cue0 cue1 cue1 the of", "label": 1}])
    assert rows[0]["input_ids"][0] == fan_in.FIRST and len({*fan_in.VOCABULARY.values()}) == len(task.WORDS)
    row = torch.tensor([0.5, 0.2, 0.1, 0.1, 0.05, 0.05, 0.0])
    found = fan_in.attention_of(reader(row), rows)
    assert found["to_itself"] == pytest.approx(0.5) and found["to_key"] == pytest.approx(0.2)
    assert found["to_cue"] == pytest.approx(0.25)
    assert found["read_entropy"] == pytest.approx(-float((row[:6] * row[:6].log()).sum()), abs=1e-5)


def test_a_broad_row_is_within_the_bounds_if_most_of_it_stays_at_home():
    """Sixteen cues have a quarter of the weight among them, and no node is outside, apart or summed."""
    rows = fan_in.encoded([{"text": " ".join(["key1", *["cue1"] * 16]), "label": 1}])
    found = fan_in.attention_of(reader(torch.tensor([0.75, 0.0, *[1 / 64] * 16])), rows)
    assert found["violated"] == found["violated_apart"] == 0 and found["to_cue"] == pytest.approx(0.25)
    spread = fan_in.attention_of(reader(torch.full((18,), 1 / 18)), rows)
    assert spread["violated_apart"] == pytest.approx(1 / 18)


def test_maps_are_read_as_in_training():
    """Token types have an embedding, so that maps without them are those of another model."""
    rows = fan_in.encoded([{"text": "key1 cue0 cue1 cue1 the of", "label": 1}])
    given: dict = {}

    def model(**inputs):
        given.update(inputs)
        return SimpleNamespace(encoder_attentions=(torch.full((1, 1, 7, 7), 1 / 7),))

    model.device, model.eval = torch.device("cpu"), lambda: None
    fan_in.attention_of(model, rows)
    assert {*collate(rows)} - {"labels"} == {*given} - {"output_attentions"}


def test_a_run_trains_a_model_for_each_number_of_cues(tmp_path):
    id = "causal_transformer.fan_in"
    run = registry.Run(
        id, "apart_10", 0, "quick", registry.config(id, "apart_10", "quick"), tmp_path, "cpu", lambda *_: None
    )
    found = fan_in.run_fan_in(run)
    assert {line["cues"] for line in found["history"]} == {1, 3}
    cells = {f"n{n}/{part}" for n in (1, 3) for part in ("validation", "flipped", "loose")}
    assert {*found["metrics"]} == cells | {"n1", "n3"}
    assert registry.config(id, "apart_10", "laptop")["blanket_settings"] == {"apart": True}


def measured(id, arm, seed):
    """Entropy alone keeps to the key, where there are three cues; nothing is outside but in plain models."""
    right = {"entropy_10": 0.9}.get(arm, 0.1)
    outside = {"violated": 0.5 * (arm == "transformer"), "violated_apart": 0.25, "read_entropy": 1.5}
    found = {}
    for cues in (1, 3):
        for part in ("validation", "flipped", "loose"):
            found[f"n{cues}/{part}"] = {"accuracy": right if cues == 3 and part == "flipped" else 0.8}
        found[f"n{cues}"] = {**outside, "to_key": 0.2, "to_cue": 0.4 + 0.01 * seed}
    return found


def test_the_table_and_the_map_have_a_row_for_each_way_to_hold_attention(monkeypatch, tmp_path):
    made_up.moved(monkeypatch, tmp_path)
    made_up.everything(monkeypatch, {artefact.HOME: 2}, measured)
    building.build("causal_transformer.fan_in", "quick")
    table = artefact.fan_in_table("quick")
    rows = {row[0]: row[1:] for row in table.rows}
    assert len(rows) == len(registry.arms(artefact.HOME)) == len(artefact.NAMES)
    assert rows["entropy to 0, weight 10"][1].startswith("90.0") and rows["plain"][1].startswith("10.0")
    assert rows["plain"][2].startswith("50.0") and rows["random mask"][2].startswith("0.0")
    assert table.caption.startswith("3 weak cues against one key")
    assert artefact.grid_of("flipped_accuracy", "quick").shape == (len(rows), 2)
    assert artefact.border("quick") == 0.5  # of three cues each is worse than the key
    _, alt = artefact.fan_in_figure("quick")
    assert "With 3 cues" in alt and "entropy to 0, weight 10 90 and 0" in alt
    assert "2 of 14 models within the bounds keep to the key (one layer), 0 of 0 whose" in alt


def test_contrasts_and_verdict_are_read_where_one_cue_is_worse_than_the_key(monkeypatch, tmp_path):
    made_up.moved(monkeypatch, tmp_path)
    made_up.everything(monkeypatch, {artefact.HOME: 2}, measured)
    assert artefact.beyond("quick") == [3]
    told = artefact.key_readers(
        "quick"
    )  # the bounds hold but in the plain model, whose row is as broad as all
    assert told["within"] == (2, 14) and told["deep within"] == (0, 8) and told["sharp"] == (0, 0)
    assert told["entropy_10"] == (2, 2) and told["transformer"] == (0, 2)
    rows = {row[0]: row[1:] for row in artefact.fan_in_contrasts("quick").rows}
    assert rows["entropy to 0, weight 10 - plain"][0].startswith("+80.0 [+80.0, +80.0] (2)")
    assert rows["blanket loss, weight 100 - entropy to 0, weight 10"][2] == "below 0"
    assert rows["random mask - plain"][2] == "0 is inside"
    told = artefact.fan_in_verdict("quick")
    assert "keep to the bounds 2 of 14 do" in told and "entropy to 0, weight 10 2 of 2" in told
    assert (
        "minus **entropy to 0, weight 10**, with flipped cues: -80.0 points [-80.0, -80.0], below 0" in told
    )
    assert "**random mask** minus **plain**, with flipped cues: +0.0 points [+0.0, +0.0], 0 is inside" in told
