"""The experiment on fan-in: what it reads off maps, on a model whose attention is known."""

from types import SimpleNamespace

import pytest
import torch

from causalnb.experiments.causal_transformer import fan_in
from causalnb.lab import registry
from causalnb.tasks import fan_in as task


def reader(row: torch.Tensor):
    """A model of one map, whose tokens read themselves and a neighbour, the first one as `row` (T,) says."""

    def model(input_ids, attention_mask, output_attentions):
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
