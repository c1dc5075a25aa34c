"""Tables and figures of SCI say what the stored results say: checked on results with known numbers."""

import csv
import re
import shutil
from dataclasses import replace

import matplotlib.pyplot as plt
import pandas as pd
import pytest

from causalnb.experiments.sci import components as sci_components
from causalnb.experiments.sci.artefacts import scan as sci_artefacts
from causalnb.lab import building, figures, registry, results
from causalnb.lab.statistics import mean_ci
from causalnb.lab.tables import estimate
from causalnb.lab.verdicts import claims
from tests.unit.experiments.made_up import write

SCAN = tuple(f"sci.scan.{split}" for split in sci_artefacts.SPLITS)
APART = ("sci.ablations", "sci.contrasts")
SEEDS = {"quick": 3, "laptop": 3}


def number(*parts):
    """A value in (0, 1) of its own for each text."""
    return int(results.settings_hash({"of": parts}), 16) / 16**16


def claimed():
    """Every metric that decides a claim."""
    return {name for text in claims("sci").our_metric.dropna() for name in re.split(r"[-|]", text)}


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
        *claimed(),
    )
    return {name: number(experiment, arm, seed, name) for name in names}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Three seeds of every result that the artefacts need, their numbers drawn by name, written once."""
    folder = tmp_path_factory.mktemp("written")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CAUSALNB_RESULTS", str(folder))
        write_all(patch)
    return folder


@pytest.fixture
def stored(written, tmp_path, monkeypatch):
    """A copy of what is written, for a test to read and to change."""
    for name in ("RESULTS", "FIGURES", "CACHE"):
        monkeypatch.setenv(f"CAUSALNB_{name}", str(tmp_path / name.lower()))
    shutil.copytree(written, tmp_path / "results")
    three_seeds(monkeypatch)
    yield
    plt.close("all")


def experiments():
    registry.load_all()
    tested = set(claims("sci").experiment.dropna())
    return sorted({"sci.components", "sci.leak", *SCAN, *APART, "sci.scan.search", *tested})


def three_seeds(patch):
    for id in experiments():
        if id != "sci.scan.search":
            patch.setitem(registry._experiments, id, replace(registry.experiment(id), seeds=SEEDS))


def write_all(patch):
    three_seeds(patch)
    for id in experiments():
        spec = registry.experiment(id)
        for arm in spec.arms:
            for seed in registry.seeds(id, "quick"):
                history = [
                    {
                        "step": step,
                        "loss": 1.0,
                        "validation": number("v", id, arm, seed, step),
                        "test_sample": number("t", id, arm, seed, step),
                    }
                    for step in (3, 6)
                ]
                write(registry.experiment(id), arm, seed, metrics(id, arm, seed), history)


@pytest.mark.parametrize(
    "id, files",
    [
        ("sci.components", {"csv", "md", "png", "svg", "tex"}),
        ("sci.scan", {"csv", "md", "png", "svg", "tex"}),
        ("sci.search", {"csv", "md", "tex"}),
        ("sci.table2", {"csv", "md", "tex"}),
        ("sci.ablations", {"csv", "md", "png", "svg", "tex"}),
        ("sci.verdicts", {"csv", "md", "tex"}),
    ],
)
def test_each_is_built_from_its_results_and_stale_after(id, files, stored):
    assert building.status(id, "quick")[0] == "missing"
    made = building.build(id, "quick")
    assert files <= {path.suffix[1:] for path in made}
    assert building.status(id, "quick")[0] == "built"
    content = {path: path.read_bytes() for path in made}
    assert {path: path.read_bytes() for path in building.build(id, "quick")} == content
    changed = results.read(
        registry.find(id).needs[0], registry.arms(registry.find(id).needs[0])[0], 0, "quick"
    )
    results.write(replace(changed, metrics={**changed.metrics, "exact_match": 0.123}))
    assert building.status(id, "quick")[0] == "stale"


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
        for arm in sci_artefacts.ARMS
        if arm in registry.arms(id)
    ]
    assert [row[2:] for row in rows] == expected
    assert [row[1] for row in rows].count("plain decoder") == len(SCAN)
    assert {row[0] for row in rows} == set(sci_artefacts.SPLITS.values())


def test_the_tables_of_what_was_taken_apart_hold_the_means_of_each_arm(stored):
    def means(id, arm, *names):
        return [mean_ci([metrics(id, arm, seed)[name] for seed in range(3)]) for name in names]

    table = sci_artefacts.contrasts_table("quick")
    names = ("exact_match", "validation_exact_match", "structure_retrieval")
    for row, (title, (arm, _)) in zip(table.rows, sci_artefacts.CONTRASTS.items(), strict=False):
        assert row[0] == title and row[4:] == means("sci.contrasts", arm, *names) and all(row[1:4])
    assert table.rows[-1][4:] == means("sci.scan.add_prim_jump", "sci_separated", *names)
    assert {arm for arm, _ in sci_artefacts.CONTRASTS.values()} == set(registry.arms("sci.contrasts"))
    table = sci_artefacts.ablations_table("quick")
    assert set(sci_artefacts.ABLATIONS) == set(registry.arms("sci.ablations"))
    shown = {row[0]: row[1:] for row in table.rows}
    for arm, title in sci_artefacts.ABLATIONS.items():
        assert shown[title] == means("sci.ablations", arm, "exact_match", "greedy_exact_match",
                                     "validation_exact_match", "structure_retrieval")  # fmt: skip


def test_verdicts_are_those_of_the_claims_that_were_tested(stored):
    tested = claims("sci").dropna(subset=["experiment"])
    table = sci_artefacts.verdict_table("quick")
    assert [row[0] for row in table.rows] == list(tested.claim) and len(tested) >= 18

    def value(claim, arm, metric, seed):
        experiment, _, arm = arm.rpartition(":")
        found = metrics(experiment or claim.experiment, arm, seed)
        first, *rest = metric.split("-")
        return found[first] - sum(found[name] for name in rest)

    for (_, claim), row in zip(tested.iterrows(), table.rows, strict=False):
        ours, _, theirs = claim.our_metric.partition("|")
        differences = [
            value(claim, claim.our_treatment, ours, seed)
            - value(claim, claim.our_baseline, theirs or ours, seed)
            for seed in range(3)
        ]
        interval = mean_ci(differences)
        assert row[-2] == interval
        direction = 1 if claim.direction == "+" else -1
        beyond = interval.low > 0 if direction > 0 else interval.high < 0
        assert (row[-1].label in ("reproduced", "same direction")) is beyond


def test_the_findings_table_has_both_versions_of_each(stored):
    table = sci_artefacts.findings_table("quick")
    assert [sci_artefacts.FINDINGS[f.__name__] for f in sci_components.FINDINGS] == [
        tuple(row[:2]) for row in table.rows
    ]
    for row, finding in zip(table.rows, sci_components.FINDINGS, strict=False):
        for cell, version in zip(row[2:], ("guide", "corrected"), strict=False):
            mean = mean_ci([number(version, finding.__name__, seed) for seed in range(3)]).mean
            assert cell.startswith(f"{mean:.2g}") and cell.endswith("(3)")


def test_the_search_table_has_every_arm_and_its_rate(stored):
    table = sci_artefacts.search_table("quick")
    found = {(row[0], float(row[1])): row[2:] for row in table.rows}
    arms = registry.arms("sci.scan.search")
    assert len(found) == len(arms)
    titles = {**sci_artefacts.ARMS, "sci_separated": sci_artefacts.SEPARATED}
    more = {"weight10": ", invariance weight 10", "noise0": ", abstraction noise 0",
            "noise0_2": ", abstraction noise 0.2", "slots4": ", structural slots 4",
            "slots8": ", structural slots 8"}  # fmt: skip
    for arm in arms:
        config, measured = (
            registry.config("sci.scan.search", arm, "quick"),
            metrics("sci.scan.search", arm, 0),
        )
        title = titles[config["model"]] + more.get(arm.removeprefix(config["model"] + "_"), "")
        assert found[title, config["learning_rate"]] == [
            measured["validation_exact_match"],
            measured["exact_match"],
        ]


def test_alternative_texts_tell_the_numbers(stored):
    with figures.style():
        _, curves = sci_artefacts.scan_figure("quick")
        _, findings = sci_artefacts.findings_figure("quick")
        _, apart = sci_artefacts.ablations_figure("quick")
    for arm, name in sci_artefacts.ARMS.items():
        end = mean_ci([number("t", "sci.scan.add_prim_jump", arm, seed, 6) for seed in range(3)]).mean
        assert f"{name} ends at {end:.2f}" in curves
        found = [metrics("sci.scan.add_prim_jump", arm, seed)["exact_match"] for seed in range(3)]
        mean = mean_ci(found).mean
        assert f"{name} on add_prim_jump {mean:.3f}" in curves
    for arm, name in sci_artefacts.ABLATIONS.items():
        mean = mean_ci([metrics("sci.ablations", arm, seed)["greedy_exact_match"] for seed in range(3)]).mean
        assert re.search(rf"{re.escape(name)}: 0.\d\d, {mean:.2f}", apart)
    for arm in ("prompt", "prompt_and_answer"):
        forced = mean_ci([metrics("sci.leak", arm, seed)["forced_exact_match"] for seed in range(3)]).mean
        assert f"forced {forced:.2f}" in findings
    assert not re.search(r"\bnan\b", curves + findings + apart)


def test_what_has_nothing_to_compare_is_a_dash_and_not_a_number():
    found = pd.DataFrame({"arm": ["sci"] * 2, "exact_match": [0.0, 0.5], "cosine_same": [None, None]})
    assert sci_artefacts._means(found, "sci", ("exact_match", "cosine_same")) == [mean_ci([0.0, 0.5]), "-"]


def test_verdicts_can_be_narrowed_to_artefacts(stored):
    tested = claims("sci").dropna(subset=["experiment"])
    wanted = tested[tested.artefact.isin(["sci.table2", "sci.components"])]
    table = sci_artefacts.verdict_table("quick", artefacts=("sci.table2", "sci.components"))
    assert [row[0] for row in table.rows] == list(wanted.claim) and 0 < len(wanted) < len(tested)
