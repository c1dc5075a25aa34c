"""The extension's table and figure say what the stored results say: checked on results with known numbers."""

import csv
import re
from dataclasses import replace

import matplotlib.pyplot as plt
import pytest

from causalnb.errors import LabError
from causalnb.experiments.sci.artefacts import extension
from causalnb.lab import building, evidence, figures, registry, results
from causalnb.lab.statistics import mean_ci
from causalnb.lab.tables import estimate
from tests.unit.experiments.made_up import write

SPLITS = [f"sci.scan.{split}" for split in extension.SPLITS]
ARMS = ("plain", "plain_labels", "sci", "sci_separated")
SEEDS = {"quick": 3, "laptop": 3}


def number(*parts):
    """A value in (0, 1) of its own for each text."""
    return int(results.settings_hash({"of": parts}), 16) / 16**16


def measured(id, arm, metric, seeds=3):
    return mean_ci([number(id, arm, seed, metric) for seed in range(seeds)])


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """Three seeds of every result that is read and one of the search, numbers drawn by name."""
    for name in ("RESULTS", "FIGURES", "CACHE"):
        monkeypatch.setenv(f"CAUSALNB_{name}", str(tmp_path / name.lower()))
    registry.load_all()
    for id in (*SPLITS, "sci.ablations", "sci.scan.search"):
        spec = registry.experiment(id)
        if id != "sci.scan.search":
            monkeypatch.setitem(registry._experiments, id, replace(spec, seeds=SEEDS))
        for arm in spec.arms:
            for seed in registry.seeds(id, "quick"):
                metrics = {metric: number(id, arm, seed, metric) for metric in extension.METRICS}
                write(registry.experiment(id), arm, seed, metrics, [])
    yield
    plt.close("all")


def test_it_is_built_from_its_results_and_stale_after(stored):
    assert building.status("sci.extension", "quick")[0] == "missing"
    made = building.build("sci.extension", "quick")
    assert {path.suffix[1:] for path in made} == {"csv", "md", "png", "svg", "tex"}
    assert building.status("sci.extension", "quick")[0] == "built"
    content = {path: path.read_bytes() for path in made}
    assert {path: path.read_bytes() for path in building.build("sci.extension", "quick")} == content
    changed = results.read("sci.ablations", "separated_no_invariance", 1, "quick")
    results.write(replace(changed, metrics={**changed.metrics, "exact_match": 0.123}))
    assert building.status("sci.extension", "quick")[0] == "stale"


def test_it_is_an_extra_that_is_marked_as_ours():
    found = registry.find("sci.extension")
    assert found.extra and found.printed_as == "ours" and found.notebook == "23_sci_separated"
    assert found.id not in {item.id for item in registry.artefacts()}


def test_the_table_holds_every_model_of_every_split_and_every_missing_part(stored):
    rows = list(csv.reader(extension.extension_table("quick").csv().splitlines()))[1:]
    wanted = [(id, arm) for id in SPLITS for arm in ARMS if arm in registry.arms(id)]
    wanted += [("sci.ablations", arm) for arm in extension.PARTS]
    assert len(rows) == len(wanted) and any(arm == "plain_labels" for _, arm in wanted)
    for row, (id, arm) in zip(rows, wanted, strict=False):
        assert row[2:] == [estimate(measured(id, arm, metric)) for metric in extension.METRICS]
        split = id.removeprefix("sci.scan.")
        expected = extension.SPLITS.get(split, extension.SPLITS["add_prim_jump"])
        assert row[0] == expected and row[1].endswith(extension.MODELS.get(arm) or extension.PARTS[arm])


def test_splits_and_parts_can_be_narrowed(stored):
    table = extension.extension_table("quick", ["length"], ["separated_no_invariance"])
    assert [row[0] for row in table.rows[:3]] == [extension.SPLITS["length"]] * 3
    assert [row[1] for row in table.rows[3:]] == ["SCI separated, no aligned invariance"]
    names = [name for name, _ in extension.by_part("quick", ["separated_no_invariance"])]
    assert names == ["complete", "no aligned invariance"]


def test_the_settings_are_those_of_the_extension_alone(stored):
    table = extension.settings_table("quick")
    arms = [arm for arm in registry.arms("sci.scan.search") if arm.startswith("sci_separated")]
    assert len(table.rows) == len(arms) >= 6
    for row, arm in zip(table.rows, arms, strict=False):
        config = registry.config("sci.scan.search", arm, "quick")
        names = ("structural_slots", "learning_rate", "invariance_weight", "abstraction_noise")
        assert [float(cell) for cell in row[:4]] == [config[name] for name in names]
        assert row[4:] == [number("sci.scan.search", arm, 0, name)
                           for name in ("validation_exact_match", "exact_match")]  # fmt: skip
    assert len(extension.settings_table("quick", arms[:2]).rows) == 2


def test_the_figure_shows_the_means_and_its_text_tells_them(stored):
    with figures.style():
        fig, alt = extension.extension_figure("quick")
    left, right = fig.axes
    for id in SPLITS:
        for arm in ARMS:
            if arm in registry.arms(id):
                place = extension.SPLITS[id.removeprefix("sci.scan.")]
                mean = measured(id, arm, "exact_match").mean
                assert f"{extension.MODELS[arm]} on {place} {mean:.3f}" in alt
                assert any(abs(x - mean) < 1e-12 for part in left.collections for x, _ in part.get_offsets())
    for arm, name in extension.PARTS.items():
        mean = measured("sci.ablations", arm, "exact_match").mean
        assert f"{name} {mean:.3f}" in alt
        assert any(abs(x - mean) < 1e-12 for part in right.collections for x, _ in part.get_offsets())
    assert [text.get_text() for text in left.get_yticklabels()] == list(extension.SPLITS.values())
    assert not re.search(r"\bnan\b", alt)
    labels = [text.get_text() for text in fig.legends[0].get_texts()]
    assert sorted(labels) == sorted(extension.MODELS.values())
    for line in (segment for ax in fig.axes for part in ax.collections if hasattr(part, "get_segments")
                 for segment in part.get_segments()):  # fmt: skip
        assert line[:, 0].min() >= -0.03 and line[:, 0].max() <= 1.03


def test_one_seed_is_a_dot_without_an_interval(stored, monkeypatch):
    spec = registry.experiment("sci.ablations")
    once = replace(spec, seeds={"quick": 1, "laptop": 1})
    monkeypatch.setitem(registry._experiments, "sci.ablations", once)
    with figures.style():
        fig, alt = extension.extension_figure("quick", ["add_prim_jump"])
    value = number("sci.ablations", "separated_no_invariance", 0, "exact_match")
    assert f"no aligned invariance {value:.3f}" in alt and "nan" not in alt


def test_a_missing_result_is_named(stored, tmp_path):
    results.path("sci.scan.renamed", "sci_separated", 2, "quick").unlink()
    with evidence.stored_only(), pytest.raises(LabError, match="1 of 6 quick results of sci.scan.renamed"):
        extension.extension_table("quick")
