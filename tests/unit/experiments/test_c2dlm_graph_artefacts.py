"""What texts hold of graphs, what ratings and costs recompute to: counted by hand on small cases."""

import csv
import random

import matplotlib.pyplot as plt
import pytest

from causalnb.c2dlm import ConceptGraph, Rating, agreement, annotation_cost
from causalnb.errors import DataError
from causalnb.experiments.c2dlm import coverage as c2dlm_coverage
from causalnb.experiments.c2dlm.artefacts import cost, table7
from causalnb.experiments.c2dlm.artefacts import teacher as artefacts
from causalnb.lab import building, figures, registry
from causalnb.tasks import cot_order_perturb as cot
from causalnb.tasks import reasoning

ROW = {"prompt": "Ann has 5 apples and 5 pears.", "response": "So 10 fruits.", "malformed": 0}


def row(graph):
    return {**ROW, "graph": graph}


@pytest.fixture
def two_files(monkeypatch):
    """Annotated files of two rows each; the third is missing."""
    rows = [row({"10 fruits": ["5 apples", "5 pears"]}), row({})]

    def annotations(name):
        if name == "gsm8k_val":
            raise DataError("cat_annotated/gsm8k_val.jsonl is not on this machine: unset it.")
        return rows

    monkeypatch.setattr(reasoning, "annotations", annotations)


def cells(table):
    """{first cell: {column: cell}} of a table."""
    rows = csv.DictReader(table.csv().splitlines())
    return {next(iter(one.values())): one for one in rows}


@pytest.mark.parametrize(
    "graph, changed",
    [
        ({"10 fruits": ["5 apples", "5 pears"]}, {}),
        ({"10 fruits": ["5 apples", "6 plums"]}, {"cause_found": 1, "both_found": 1, "kept": 1}),
        ({"11 fruits": ["5 apples", "5 pears"]}, {"effect_found": 0, "both_found": 0, "kept": 0}),
        (
            {"5": ["5 apples", "5 pears"]},  # stands twice, in both causes, and has no token of its own
            {"effect_repeated": 1, "before": 1, "overlap": 1, "kept": 0, "bare": 1},
        ),
        ({"5 apples": ["10 fruits", "5 pears"]}, {"before": 2}),
        (
            {"none": ["neither", "nor"]},
            {"effect_found": 0, "cause_found": 0, "both_found": 0, "kept": 0, "bare": 3},
        ),
    ],
)
def test_edges_are_counted(graph, changed):
    expected = dict(
        effects=1,
        edges=2,
        concepts=3,
        effect_found=1,
        effect_repeated=0,
        cause_found=2,
        both_found=2,
        before=0,
        overlap=0,
        kept=2,
        cyclic=0,
        bare=0,
    )
    text = f"{ROW['prompt']}\n{ROW['response']}"
    assert c2dlm_coverage.count_edges(ConceptGraph(graph), text) == expected | changed


def test_records_add_up_and_cycles_and_empty_ones_are_counted():
    knot, one = {"10 fruits": ["5 apples"], "5 apples": ["10 fruits"]}, {"10 fruits": ["5 apples"]}
    total = c2dlm_coverage.count_records([row(knot), row({}), row(one)])
    assert total["records"] == 3 and total["empty"] == 1 and total["cyclic"] == 1 and total["edges"] == 3
    assert artefacts.share(total, "cyclic") == pytest.approx(1 / 3)
    empty = c2dlm_coverage.count_records([row({})])
    assert artefacts.share(empty, "kept") != 1  # nothing to keep is not all kept


def test_rules_are_found_whole_in_every_synthetic_task():
    found = artefacts.coverage([], drawn=5)
    assert len(found) == len(reasoning.SYNTHETIC)
    for one in found.values():
        assert one["records"] == 5 and one["kept"] == one["edges"] > 5 and not one["before"] + one["cyclic"]


def test_files_that_are_missing_are_left_out_where_asked_and_refused_otherwise(two_files):
    assert artefacts.readable() == ["mawps_train", "svamp_train"]
    with pytest.raises(DataError, match="gsm8k_val.jsonl is not on this machine"):
        artefacts.coverage()
    found = artefacts.coverage(artefacts.readable(), drawn=1)
    line = cells(artefacts.coverage_table(found))["SVAMP (annotated)"]
    assert line["records (empty)"] == "2 (1)" and line["edges kept as tokens, %"] == "100.0"
    assert artefacts.coverage(["svamp_train"], rows=1, drawn=1)["SVAMP (annotated)"]["records"] == 1


def test_the_bars_of_a_source_fill_100_percent(two_files):
    found = artefacts.coverage(["svamp_train"], drawn=2)
    found["SVAMP (annotated)"] |= {"edges": 10, "both_found": 8, "kept": 5}
    fig, alt = artefacts.coverage_figure(found)
    widths = [bars[0].get_width() for bars in fig.axes[0].containers]
    assert widths == [50, 30, 20] and "kept: SVAMP (annotated) 50 %" in alt
    plt.close(fig)


def test_the_demonstrations_keep_the_contract():
    lines = cells(artefacts.contract_table())
    for rule in ("4", "5"):
        found, _, asked = lines[rule]["our two demonstrations"].partition(" of ")
        assert found == asked and int(asked) > 8
    assert lines["2"]["our two demonstrations"].startswith("0 of ")


# ratings


def test_table_7_is_recomputed():
    lines = cells(table7.ratings_table())
    means = [lines[f"Human {i}"]["mean of all pairs, %"].split()[0] for i in (1, 2)]
    assert means == ["94.53", "91.80"]
    assert [lines[f"Human {i}"]["printed accuracy, %"] for i in (1, 2)] == ["94.84", "92.02"]
    assert lines["both, as printed in the text"]["printed accuracy, %"] == "93.42 ± 1.41"
    assert lines["both, from this column"]["printed accuracy, %"] == "93.43 ± 1.41"


def test_the_interval_of_a_mean_score():
    mean, half = table7.pair_accuracy({1.0: 3, 0.5: 0, 0.0: 1})
    assert mean == 75 and half == pytest.approx(100 * 1.96 * (0.25 / 4) ** 0.5)


def test_the_range_of_kappa_is_reached_by_raters_with_these_counts():
    one, other = {1.0: 5, 0.5: 2, 0.0: 1}, {1.0: 4, 0.5: 3, 0.0: 1}
    low, high = table7.kappa_range(one, other)
    a, b = ([score for score, count in counts.items() for _ in range(count)] for counts in (one, other))
    draw, found = random.Random(0), []
    for _ in range(400):
        draw.shuffle(b)
        found.append(agreement(Rating("a", [a]), Rating("b", [b])))
    assert min(found) == pytest.approx(low) and max(found) == pytest.approx(high)


def test_graphs_are_spoilt_at_the_rates_asked_for():
    gold, draw = ConceptGraph(cot.graph(80, 79)), random.Random(0)
    assert table7.corrupted(gold, draw) == gold
    dropped = [table7.corrupted(gold, draw, drop_effects=0.5) for _ in range(200)]
    assert sum(len(one.edges) for one in dropped) / 200 / 13 == pytest.approx(0.5, abs=0.05)
    assert all(gold.edges[effect] == causes for one in dropped for effect, causes in one.edges.items())
    fewer = table7.corrupted(gold, draw, drop_causes=1.0)
    assert all(len(causes) == 1 and causes[0] in gold.edges[e] for e, causes in fewer.edges.items())
    other = table7.corrupted(gold, draw, exchange=1.0)
    assert not any(set(causes) & {*gold.edges[e], e} for e, causes in other.edges.items())
    assert len(table7.corrupted(gold, draw, drop_effects=1.0).edges) == 1


def test_what_raters_do_not_see():
    exact = table7.simulate(6, 0, slip=0.0)
    assert set(exact.values()) == {1.0}
    blind = table7.simulate(6, 0, slip=0.0, drop_effects=0.5)
    assert blind["accuracy 1"] == blind["precision"] == 1 and blind["recall"] < 0.75
    seen = table7.simulate(6, 0, slip=0.0, exchange=0.5)
    assert seen["accuracy 1"] < 0.75 and seen["precision"] < 0.75 and seen["kappa"] == 1
    assert table7.simulate(6, 0, slip=0.3)["same score"] < 0.75


# cost


def test_appendix_d_is_recomputed_and_varied():
    variants = cost.cost_variants()
    assert variants["as printed"] == pytest.approx(annotation_cost())
    assert round(variants["as printed"]["cny"], 2) == 3.31 and round(variants["as printed"]["usd"], 2) == 0.46
    assert variants["4% of the calls fail and are repeated"]["usd"] == pytest.approx(0.4640 / 0.96, abs=1e-4)
    assert cost.cost(hidden=1000)["cny"] - cost.cost()["cny"] == pytest.approx(2000 / 865.2)
    assert variants["both prices doubled"]["usd"] == pytest.approx(2 * annotation_cost()["usd"])
    lines = cells(cost.cost_table())
    assert lines["as printed"]["RMB"] == "3.3143"
    assert lines["both prices doubled"]["times the first row"] == "2.00"


@pytest.mark.parametrize(
    "id, files",
    [
        ("c2dlm.teacher", {"teacher.md", "teacher_prompt.csv", "teacher.svg"}),
        ("c2dlm.table7", {"table7.md", "table7_simulated.csv", "table7.svg"}),
        ("c2dlm.cost", {"cost.md", "cost.svg"}),
    ],
)
def test_artefacts_are_built(id, files, two_files, monkeypatch, tmp_path):
    monkeypatch.setenv("CAUSALNB_FIGURES", str(tmp_path))
    monkeypatch.setattr(artefacts, "stored_coverage", lambda profile: artefacts.coverage(["svamp_train"]))
    made = {path.name for path in building.build(id, "quick")}
    assert files <= made


def test_sources_are_counted_one_by_one_and_read_back(two_files, monkeypatch):
    import pandas as pd

    from causalnb.lab import evidence
    from causalnb.lab.registry import Run

    rows = []
    for arm in ("svamp_train", "purchases"):
        config = registry.config("c2dlm.coverage", arm, "quick")
        run = Run("c2dlm.coverage", arm, 0, "quick", config, None, "", None)
        rows.append({"arm": arm, "seed": 0, **c2dlm_coverage.run_coverage(run)["metrics"][""]})
    monkeypatch.setattr(evidence, "require", lambda *_: pd.DataFrame(rows))
    monkeypatch.setattr(artefacts, "TITLES", {row["arm"]: row["arm"] for row in rows})
    found = artefacts.stored_coverage()
    assert found["svamp_train"] == c2dlm_coverage.count_records(reasoning.annotations("svamp_train"))
    assert found["purchases"]["records"] == 10 and found["purchases"]["kept"] == found["purchases"]["edges"]
    missing = Run("c2dlm.coverage", "gsm8k_val", 0, "quick", {"source": "gsm8k_val"}, None, "", None)
    with pytest.raises(DataError, match="gsm8k_val.jsonl is not on this machine"):
        c2dlm_coverage.run_coverage(missing)


def test_figures_say_what_they_show():
    with figures.style():
        for build in (lambda: table7.simulated_figure(4, (0.0, 0.5)), cost.cost_figure):
            fig, alt = build()
            assert len(alt) > 60 and fig.axes[0].lines
            plt.close(fig)
