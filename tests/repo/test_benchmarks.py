"""The benchmarks measure what they name, and say where a bar is missed."""

import json

import pytest
import torch

from tests.benchmarks import bench_causal_transformer as bench
from tests.benchmarks import common


def test_a_bar_is_missed_above_it_and_by_what_is_no_number():
    rows = [
        common.row("slow", "ms", 10, 13, 1.25),
        common.row("at it", "ms", 10, 12.5, 1.25),
        common.row("no bar", "ms", 1, 9),
        common.row("nothing", "ms", 1, float("nan"), 2.0),
    ]
    assert common.missed(rows) == ["slow", "nothing"]


@pytest.mark.parametrize("strict", [True, False])
def test_a_missed_bar_fails_where_it_is_asked_to(strict, tmp_path, monkeypatch, capsys):
    file = tmp_path / "rows.json"
    monkeypatch.setattr("sys.argv", ["bench", "--json", str(file), *["--strict"] * strict])

    def run():
        common.show("some", "A title", "About.", lambda repeats, say: [common.row("slow", "ms", 1, 2, 1.5)])

    if strict:
        with pytest.raises(SystemExit, match="missed: slow"):
            run()
    else:
        run()
    assert "MISSED" in capsys.readouterr().out
    assert json.loads(file.read_text(encoding="utf-8"))["some"][0]["ratio"] == 2


@pytest.mark.parametrize("length", [*bench.LENGTHS, bench.LONGEST])
def test_a_batch_has_sentences_of_the_length_that_is_measured(length):
    batch = bench.batch_of(length)
    assert batch["input_ids"].shape == (max(1, bench.TOKENS // length), length)
    assert len(batch["labels"]) == len(batch["input_ids"]) > 0


def test_the_longest_batch_has_a_loss():
    with torch.no_grad():
        assert torch.isfinite(bench.model_of("GCN + loss")(**bench.batch_of(bench.LONGEST)).loss)


def test_kept_and_computed_again_are_the_same():
    kept, again = (call() for call in bench.kept_or_computed(64).values())
    assert all(one.abs().max() > 0 for one in kept) and len(kept) == len(again) == 3
