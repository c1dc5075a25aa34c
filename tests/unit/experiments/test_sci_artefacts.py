"""Tables and figures of SCI say what the stored results say: checked on results with known numbers."""

import re
import shutil
from dataclasses import replace
from functools import partial

import matplotlib.pyplot as plt
import numpy as np
import pytest

from causalnb.errors import LabError
from causalnb.experiments.sci import components as findings
from causalnb.experiments.sci.artefacts import ablations, components, extension, scan, search, table2
from causalnb.experiments.sci.artefacts.names import (
    ARMS,
    JUMP,
    LONGER,
    MODELS,
    SWAPPED,
    TOKENS,
    WITH_OURS,
    means,
)
from causalnb.experiments.sci.artefacts.verdicts import on, verdict_table
from causalnb.lab import building, evidence, figures, registry, results
from causalnb.lab.report import arm
from causalnb.lab.statistics import mean_ci, share_ci
from causalnb.lab.tables import estimate, points
from causalnb.lab.verdicts import claims
from tests.unit.experiments.made_up import counted, number, write

FINDINGS = [finding.__name__ for finding in findings.FINDINGS]
SCORES = ("exact_match", "greedy_exact_match", "validation_exact_match", "cosine_same", "cosine_different",
          "structure_retrieval")  # fmt: skip
SEARCH = "sci.scan.search"


def claimed():
    """Every metric that decides a claim."""
    return {name for text in claims("sci").our_metric.dropna() for name in re.split(r"[-|]", text)}


def metrics(id, arm, seed):
    names = {*SCORES, "forced_exact_match", *claimed()}
    names |= {f"{version}.{name}" for version in components.VERSIONS for name in FINDINGS}
    return {name: number(id, arm, seed, name) for name in names}


def measured(id, arm, metric):
    least = -1.0 if metric.startswith("cosine") else 0.0
    return mean_ci([number(id, arm, seed, metric) for seed in range(3)], within=(least, 1.0))


def experiments():
    registry.load_all()
    tested = {
        *claims("sci").experiment.dropna(),
        "sci.components",
        "sci.leak",
        "sci.ablations",
        "sci.contrasts",
    }
    scans = {item.id for item in registry.experiments() if item.id.startswith("sci.scan.")}
    return sorted(tested | scans)


def three_seeds(patch):
    for id in experiments():
        counted(patch, id, 1 if id == SEARCH else 3)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Three seeds of every result that the artefacts need, their numbers drawn by name, written once."""
    folder = tmp_path_factory.mktemp("written")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CAUSALNB_RESULTS", str(folder))
        three_seeds(patch)
        for id in experiments():
            for name in registry.arms(id):
                for seed in registry.seeds(id, "quick"):
                    drawn = partial(number, id, name, seed)
                    history = [
                        {
                            "step": step,
                            "loss": 1.0,
                            "validation": drawn("v", step),
                            "test_sample": drawn("t", step),
                        }
                        for step in (3, 6)
                    ]
                    write(registry.experiment(id), name, seed, {"": metrics(id, name, seed)}, history)
    return folder


@pytest.fixture
def stored(written, tmp_path, monkeypatch):
    """A copy of what is written, for a test to read and to change."""
    for name in ("RESULTS", "FIGURES", "CACHE"):
        monkeypatch.setenv(f"CAUSALNB_{name}", str(tmp_path / name.lower()))
    shutil.copytree(written, tmp_path / "results")
    three_seeds(monkeypatch)
    with figures.style():
        yield
    plt.close("all")


@pytest.mark.parametrize(
    "id, drawn",
    [
        ("sci.components", True),
        ("sci.scan", True),
        ("sci.search", False),
        ("sci.table2", False),
        ("sci.ablations", True),
        ("sci.verdicts", False),
        ("sci.extension", True),
    ],
)
def test_each_is_built_from_its_results_and_stale_after(id, drawn, stored, monkeypatch):
    monkeypatch.setattr(extension, "_told", lambda *_: ["14"] * 4)  # which reads all of SCAN
    assert building.status(id, "quick")[0] == "missing"
    made = building.build(id, "quick")
    assert {path.suffix for path in made} == {".csv", ".md", ".tex", *([".png", ".svg"] if drawn else [])}
    assert building.status(id, "quick")[0] == "built"
    content = {path: path.read_bytes() for path in made}
    assert {path: path.read_bytes() for path in building.build(id, "quick")} == content
    needed = registry.find(id).needs[0]
    changed = results.read(needed, registry.arms(needed)[0], 0, "quick")
    results.write(replace(changed, rows=[*changed.rows, ["", "more", 0.123]]))
    assert building.status(id, "quick")[0] == "stale"


def test_copies_spell_out_much_of_the_test_and_one_label_finds_false_swaps():
    config = registry.config("sci.scan.swapped_add_prim_jump", "plain", "laptop")
    given = (config[name] for name in ("validation_rows", "structure_level", "swaps"))
    row = extension._told("add_prim_jump", *given)
    by_labels, by_one = map(int, row[:2])
    assert by_labels == 14 < by_one
    (test, of_test), (validation, of_validation) = (
        map(int, cell.replace(",", "").split(" of ")) for cell in row[2:]
    )
    assert of_test == 7706 and test > of_test / 2
    assert of_validation == config["validation_rows"] and validation > of_validation / 2


def test_the_extension_is_an_extra_that_is_marked_as_ours():
    item = registry.find("sci.extension")
    assert item.extra and item.printed_as == "ours" and item.notebook == "23_sci_separated"
    assert item.id not in {other.id for other in registry.artefacts()}


def wanted(splits, arms):
    """(split, arm) in the order of tables."""
    return [(split, name) for split in splits for name in arms if name in registry.arms(f"sci.scan.{split}")]


def test_the_scan_table_holds_the_means_of_each_arm(stored):
    rows, pairs = scan.scan_table("quick").rows, wanted(scan.SPLITS, ARMS)
    assert [row[:2] for row in rows] == [[scan.SPLITS[split], ARMS[name]] for split, name in pairs]
    for row, (split, name) in zip(rows, pairs, strict=True):
        assert row[2:] == [measured(f"sci.scan.{split}", name, score) for score in SCORES]
    assert [row[1] for row in rows].count("plain decoder") == len(scan.SPLITS)


def test_the_extension_table_holds_every_model_of_every_split_and_every_missing_part(stored):
    rows = extension.extension_table("quick").rows
    sources = []
    for split in extension.SHOWN:
        if split == LONGER:
            names = {
                "plain_swap": "plain + swapped words",
                "sci_separated_tokens": TOKENS["separated_tokens"],
            }
            sources += [(f"sci.scan.{split}", name, title) for name, title in names.items()]
            continue
        sources += [(f"sci.scan.{split}", name, MODELS[name]) for _, name in wanted([split], MODELS)]
        some = ["plain", "sci"] if split != "renamed" else []
        sources += [(f"sci.scan.swapped_{split}", name, SWAPPED[f"{name}_swap"]) for name in some]
        sources += [(f"sci.scan.tokens_{split}", "sci_separated", TOKENS["separated_tokens"])] if some else []
    assert any(name == "plain_labels" for _, name, _ in sources)
    sources += [("sci.ablations", name, title) for name, title in extension.PARTS.items()]
    for row, (id, name, title) in zip(rows, sources, strict=True):
        assert row[2:] == [measured(id, name, score) for score in SCORES[:3]]
        split = id.removeprefix("sci.scan.").removeprefix("swapped_").removeprefix("tokens_")
        assert row[0] == extension.SHOWN.get(split, extension.SPLITS["add_prim_jump"])
        assert row[1].endswith(title)


def test_what_the_labels_are_worth_without_sci_is_paired_by_seed(stored):
    rows = {row[0]: row[1:] for row in extension.swapped_table("quick").rows}
    assert [*rows] == [title for split, title in extension.SHOWN.items() if split != "renamed"]
    ours, swapped, tokens = (
        [number(f"sci.scan.{id}", name, seed, "exact_match") for seed in range(3)]
        for id, name in (
            ("length", "sci_separated"),
            ("swapped_length", "plain"),
            ("tokens_length", "sci_separated"),
        )
    )
    found = rows[extension.SPLITS["length"]]
    for place, (one, other) in {1: (ours, swapped), 2: (tokens, swapped), 3: (tokens, ours)}.items():
        assert found[place] == points(mean_ci(np.subtract(one, other)))
    one, other = (
        [number(f"sci.scan.{LONGER}", name, seed, "exact_match") for seed in range(3)]
        for name in ("sci_separated_tokens", "plain_swap")
    )
    longer = rows[extension.SHOWN[LONGER]]
    assert longer[0] == longer[1] == "" and longer[2] == points(mean_ci(np.subtract(one, other)))


def test_the_tables_of_what_was_taken_apart_hold_the_means_of_each_arm(stored):
    names = ("exact_match", "validation_exact_match", "structure_retrieval")
    rows = table2.contrasts_table("quick").rows
    for row, (title, (name, _)) in zip(rows, table2.CONTRASTS.items(), strict=False):
        assert row[0] == title and row[4:] == [measured("sci.contrasts", name, score) for score in names]
        assert all(row[1:4])
    assert rows[-1][4:] == [measured(JUMP, "sci_separated", score) for score in names]
    assert {name for name, _ in table2.CONTRASTS.values()} == set(registry.arms("sci.contrasts"))
    assert set(ablations.ABLATIONS) == set(registry.arms("sci.ablations"))
    shown = {row[0]: row[1:] for row in ablations.ablations_table("quick").rows}
    names = (*SCORES[:3], "structure_retrieval")
    for name, title in ablations.ABLATIONS.items():
        assert shown[title] == [measured("sci.ablations", name, score) for score in names]


def test_verdicts_are_those_of_the_claims_that_were_tested(stored):
    tested = claims("sci").dropna(subset=["experiment"])
    rows = verdict_table("quick").rows
    assert [row[0] for row in rows] == list(tested.claim) and len(tested) >= 18

    def value(claim, arm, metric, seed):
        experiment, _, arm = arm.rpartition(":")
        scores = metrics(experiment or claim.experiment, arm, seed)
        first, *rest = metric.split("-")
        return scores[first] - sum(scores[name] for name in rest)

    for (_, claim), row in zip(tested.iterrows(), rows, strict=True):
        ours, _, theirs = claim.our_metric.partition("|")
        scale, digits = (100, 1) if claim.unit == "pp" else (1, 3)
        interval = mean_ci(
            scale * value(claim, claim.our_treatment, ours, seed)
            - scale * value(claim, claim.our_baseline, theirs or ours, seed)
            for seed in range(3)
        )
        assert row[-2] == estimate(interval, digits)
        beyond = interval.low > 0 if claim.direction == "+" else interval.high < 0
        assert (row[-1].label in ("reproduced", "same direction")) is beyond


def test_verdicts_can_be_narrowed_to_artefacts(stored):
    tested = claims("sci").dropna(subset=["experiment"])
    some = tested[tested.artefact.isin(["sci.table2", "sci.components"])]
    table = verdict_table("quick", only=on("sci.table2", "sci.components"))
    assert [row[0] for row in table.rows] == list(some.claim) and 0 < len(some) < len(tested)


def test_the_findings_table_has_both_versions_of_each(stored):
    rows = components.findings_table("quick").rows
    assert [tuple(row[:2]) for row in rows] == [components.FINDINGS[name] for name in FINDINGS]
    for row, name in zip(rows, FINDINGS, strict=True):
        for cell, version in zip(row[2:], ("guide", "corrected"), strict=True):
            mean = measured("sci.components", "findings", f"{version}.{name}").mean
            assert cell.startswith(f"{mean:.2g}") and cell.endswith("(3)")


def test_the_search_table_has_every_arm_and_its_rate(stored):
    rows = {(row[0], float(row[1])): row[2:] for row in search.search_table("quick").rows}
    assert len(rows) == len(registry.arms(SEARCH))
    more = {"weight10": ", invariance weight 10", "noise0": ", abstraction noise 0",
            "noise0_2": ", abstraction noise 0.2", "slots4": ", structural slots 4",
            "slots8": ", structural slots 8"}  # fmt: skip
    for name in registry.arms(SEARCH):
        config = registry.config(SEARCH, name, "quick")
        title = WITH_OURS[config["model"]] + more.get(name.removeprefix(config["model"] + "_"), "")
        assert rows[title, config["learning_rate"]] == searched(name)


def searched(name):
    return [f"{number(SEARCH, name, 0, score):.4g}" for score in ("validation_exact_match", "exact_match")]


def test_the_settings_are_those_of_the_extension_alone(stored):
    rows = search.settings_table("quick").rows
    arms = [a for a in registry.arms(SEARCH) if registry.config(SEARCH, a)["model"] == "sci_separated"]
    assert len(rows) == len(arms) >= 6
    for row, name in zip(rows, arms, strict=True):
        config = registry.config(SEARCH, name, "quick")
        assert [float(cell) for cell in row[:4]] == [config[setting] for setting in search.SETTINGS]
        assert row[4:] == searched(name)


def test_alternative_texts_tell_the_numbers(stored):
    _, curves = scan.scan_figure("quick")
    pair, leak = components.findings_figure("quick")
    _, apart = ablations.ablations_figure("quick")
    for name, title in ARMS.items():
        end = mean_ci([number(JUMP, name, seed, "t", 6) for seed in range(3)]).mean
        assert f"{title} ends at {end:.2f}" in curves
        assert f"{title} on add_prim_jump {measured(JUMP, name, 'exact_match').mean:.3f}" in curves
    for name, title in ablations.ABLATIONS.items():
        mean = measured("sci.ablations", name, "greedy_exact_match").mean
        assert re.search(rf"{re.escape(title)}: 0.\d\d, {mean:.2f}", apart)
    for name in ("prompt", "prompt_and_answer"):
        forced, greedy = (
            measured("sci.leak", name, f"{way}_exact_match").mean for way in ("forced", "greedy")
        )
        assert f"see {name.replace('_', ' ')}: forced {forced:.2f}, greedy {greedy:.2f}" in leak
        assert f" {100 * greedy:.0f} %" in pair.get_suptitle()
    assert not re.search(r"\bnan\b", curves + leak + apart)


def dots(ax):
    return [x for part in ax.collections for x, _ in part.get_offsets()]


def test_the_figure_of_the_extension_shows_the_means_and_its_text_tells_them(stored):
    fig, alt = extension.extension_figure("quick")
    left, right = fig.axes
    for split, name in wanted(extension.SPLITS, MODELS):
        mean = measured(f"sci.scan.{split}", name, "exact_match").mean
        assert f"{MODELS[name]} on {extension.SPLITS[split]} {mean:.3f}" in alt
        assert any(abs(x - mean) < 1e-12 for x in dots(left))
    for name, title in extension.PARTS.items():
        mean = measured("sci.ablations", name, "exact_match").mean
        assert f"{title} {mean:.3f}" in alt and any(abs(x - mean) < 1e-12 for x in dots(right))
    said = fig.get_suptitle().replace("\n", " ")
    assert said.startswith("SCI separated, a slot a token, and plain + swapped words: a new verb ")
    ours, swapped = ("sci.scan.tokens_length", "sci_separated"), ("sci.scan.swapped_length", "plain")
    longer = ((f"sci.scan.{LONGER}", name) for name in ("sci_separated_tokens", "plain_swap"))
    for split, what, arms in (
        ("length", "longer answers", (ours, swapped)),
        (LONGER, "a new phrase", longer),
    ):
        one, other = (measured(*arm, "exact_match").mean for arm in arms)
        assert f"{what} {one:.2f}, {other:.2f}" in said
        assert f"plain + swapped words on {extension.SHOWN[split]} {other:.3f}" in alt
    assert [text.get_text() for text in left.get_yticklabels()] == list(extension.SHOWN.values())
    assert not re.search(r"\bnan\b", alt)
    assert {text.get_text() for text in fig.legends[0].get_texts()} == {*extension.COMPARED.values()}
    for line in (segment for ax in fig.axes for part in ax.collections if hasattr(part, "get_segments")
                 for segment in part.get_segments()):  # fmt: skip
        assert line[:, 0].min() >= -0.03 and line[:, 0].max() <= 1.03


def test_one_seed_is_a_dot_without_an_interval(stored, monkeypatch):
    counted(monkeypatch, "sci.ablations", 1)
    _, alt = extension.extension_figure("quick")
    value = number("sci.ablations", "separated_no_invariance", 0, "exact_match")
    assert f"no aligned invariance {value:.3f}" in alt and "nan" not in alt


def test_a_missing_result_is_named(stored):
    results.path("sci.scan.renamed", "sci_separated", 2, "quick").unlink()
    with evidence.stored_only(), pytest.raises(LabError, match="1 of 3 quick results of sci.scan.renamed"):
        extension.extension_table("quick")


def test_what_has_nothing_to_compare_is_a_dash_and_not_a_number(stored):
    assert means([0.0, 0.5]) == share_ci([0.0, 0.5]) and means([float("nan")] * 2) == "-"
    result = results.read(JUMP, "sci", 0, "quick")
    rows = [[*place, None if place[1] == "cosine_same" else value] for *place, value in result.rows]
    for seed in range(3):
        results.write(replace(result, seed=seed, rows=rows))
    assert means(arm(JUMP, "sci").of("cosine_same", "quick")) == "-"
