"""Tables and figures of SCI say what the stored results say: checked on results with known numbers."""

import csv
import re
from dataclasses import replace

import matplotlib.pyplot as plt
import pytest

from causalnb.experiments import sci_artefacts, sci_components
from causalnb.lab import figures, registry, results
from causalnb.lab.statistics import mean_ci
from causalnb.lab.tables import estimate

SCAN = ("sci.scan.simple", "sci.scan.add_prim_jump")
SEEDS = {"quick": 3, "laptop": 3}


def number(*parts):
    """A value in (0, 1) of its own for each text."""
    return int(results.config_hash({"of": parts}), 16) / 16**16


def metrics(experiment, arm, seed):
    if experiment == "sci.components":
        return {
            f"{version}.{finding.__name__}": number(version, finding.__name__, seed)
            for version in ("guide", "corrected")
            for finding in sci_components.FINDINGS
        }
    names = (
        "exact_match",
        "greedy_exact_match",
        "validation_exact_match",
        "cosine_same",
        "cosine_different",
        "structure_retrieval",
        "forced_exact_match",
    )
    return {name: number(experiment, arm, seed, name) for name in names}


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """Three seeds of every result that the artefacts need, their numbers drawn by name."""
    for name in ("RESULTS", "FIGURES", "CACHE"):
        monkeypatch.setenv(f"CAUSALNB_{name}", str(tmp_path / name.lower()))
    registry.load_all()
    for id in ("sci.components", "sci.leak", *SCAN, "sci.scan.search"):
        spec = registry.experiment(id)
        if id != "sci.scan.search":
            monkeypatch.setitem(registry._experiments, id, replace(spec, seeds=SEEDS))
        for arm in spec.arms:
            for seed in registry.seeds(id, "quick"):
                config = registry.config(id, arm, "quick")
                history = [
                    {
                        "step": step,
                        "loss": 1.0,
                        "validation": number("v", id, arm, seed, step),
                        "test_sample": number("t", id, arm, seed, step),
                    }
                    for step in (3, 6)
                ]
                results.write(
                    results.Result(
                        id,
                        arm,
                        seed,
                        "quick",
                        config,
                        results.config_hash(config),
                        results.code_hash(spec.code),
                        metrics(id, arm, seed),
                        history,
                        "cpu",
                        {},
                        {"commit": None, "dirty": None},
                        1.0,
                        1.0,
                        "2000-01-01",
                    )
                )
    yield
    plt.close("all")


@pytest.mark.parametrize(
    "id, files",
    [
        ("sci.components", {"csv", "md", "png", "svg", "tex"}),
        ("sci.scan", {"csv", "md", "png", "svg", "tex"}),
        ("sci.search", {"csv", "md", "tex"}),
    ],
)
def test_each_is_built_from_its_results_and_stale_after(id, files, stored):
    assert registry.status(id, "quick")[0] == "missing"
    made = registry.build(id, "quick")
    assert files <= {path.suffix[1:] for path in made}
    assert registry.status(id, "quick")[0] == "built"
    content = {path: path.read_bytes() for path in made}
    assert {path: path.read_bytes() for path in registry.build(id, "quick")} == content
    changed = results.read(
        registry.find(id).needs[0], registry.arms(registry.find(id).needs[0])[0], 0, "quick"
    )
    results.write(replace(changed, metrics={**changed.metrics, "exact_match": 0.123}))
    assert registry.status(id, "quick")[0] == "stale"


def test_the_scan_table_holds_the_means_of_each_arm(stored):
    rows = list(csv.reader(sci_artefacts.scan_table("quick").csv().splitlines()))[1:]
    order = (
        "exact_match",
        "greedy_exact_match",
        "validation_exact_match",
        "cosine_same",
        "cosine_different",
        "structure_retrieval",
    )
    expected = [
        [estimate(mean_ci([metrics(id, arm, seed)[name] for seed in range(3)])) for name in order]
        for id in SCAN
        for arm in ("plain", "plain_labels", "sci")
    ]
    assert [row[2:] for row in rows] == expected
    assert [row[1] for row in rows] == ["plain decoder", "plain + labels", "SCI"] * 2


def test_verdicts_are_those_of_the_claims_that_were_tested(stored):
    from causalnb.lab.verdicts import claims

    tested = claims("sci").dropna(subset=["experiment"])
    table = sci_artefacts.verdict_table("quick")
    assert [row[0] for row in table.rows] == list(tested.claim) and len(tested) >= 2
    for (_, claim), row in zip(tested.iterrows(), table.rows):
        ours, _, theirs = claim.our_metric.partition("|")
        differences = [
            metrics(claim.experiment, claim.our_treatment, seed)[ours]
            - metrics(claim.experiment, claim.our_baseline, seed)[theirs or ours]
            for seed in range(3)
        ]
        assert row[-2] == mean_ci(differences)
        interval = mean_ci(differences)
        direction = 1 if claim.direction == "+" else -1
        beyond = interval.low > 0 if direction > 0 else interval.high < 0
        assert (row[-1].label in ("reproduced", "same direction")) is beyond


def test_the_findings_table_has_both_versions_of_each(stored):
    table = sci_artefacts.findings_table("quick")
    assert [sci_artefacts.FINDINGS[f.__name__] for f in sci_components.FINDINGS] == [
        tuple(row[:2]) for row in table.rows
    ]
    for row, finding in zip(table.rows, sci_components.FINDINGS):
        for cell, version in zip(row[2:], ("guide", "corrected")):
            mean = mean_ci([number(version, finding.__name__, seed) for seed in range(3)]).mean
            assert cell.startswith(f"{mean:.2g}") and cell.endswith("(3)")


def test_the_search_table_has_every_arm_and_its_rate(stored):
    table = sci_artefacts.search_table("quick")
    found = {(row[0], float(row[1])): row[2:] for row in table.rows}
    assert len(found) == len(registry.arms("sci.scan.search"))
    for arm in registry.arms("sci.scan.search"):
        config, measured = (
            registry.config("sci.scan.search", arm, "quick"),
            metrics("sci.scan.search", arm, 0),
        )
        assert found[sci_artefacts.ARMS[config["model"]], config["learning_rate"]] == [
            measured["validation_exact_match"],
            measured["exact_match"],
        ]


def test_alternative_texts_tell_the_numbers(stored):
    with figures.style():
        _, curves = sci_artefacts.scan_figure("quick")
        _, findings = sci_artefacts.findings_figure("quick")
    for id in SCAN:
        for arm in ("plain", "plain_labels", "sci"):
            end = mean_ci([number("t", id, arm, seed, 6) for seed in range(3)]).mean
            split = id.rsplit(".", 1)[1]
            assert f"{sci_artefacts.ARMS[arm]} on {split} ends at {end:.2f}" in curves
    for arm in ("prompt", "prompt_and_answer"):
        forced = mean_ci([metrics("sci.leak", arm, seed)["forced_exact_match"] for seed in range(3)]).mean
        assert f"forced {forced:.2f}" in findings
    assert not re.search(r"\bnan\b", curves + findings)
