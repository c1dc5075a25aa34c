"""Tables by declaration: what each column makes of a row, and what a report needs."""

from dataclasses import replace
from types import SimpleNamespace

import pandas as pd
import pytest

from causalnb.errors import LabError
from causalnb.lab import building, evidence, manifest, registry, report, verdicts
from causalnb.lab.report import Claim, Contrast, Decided, Measured, Ours, Printed, Reading, Report, Row, arm
from causalnb.lab.statistics import Summary, mean_ci, share_ci
from causalnb.lab.tables import estimate, percent, points

A, B = arm("c2dlm.long.sudoku_n200", "c2dlm"), arm("c2dlm.long.sudoku_n200", "diffusion")
SCORES = {"c2dlm": [0.5, 0.62, 0.7], "diffusion": [0.3, 0.41], "placebo": [0.1, 0.2, 0.35]}


@pytest.fixture(autouse=True)
def made_up(monkeypatch):
    def require(experiment, profile=None, arms=None):
        (name,) = arms
        scores = SCORES.get(name)
        if scores is None:
            raise LabError(f"results of {experiment} are not there.")
        lines = [
            {"seed": i, "score": s, "half": s / 2, "size": 7, "test_cells": s} for i, s in enumerate(scores)
        ]
        return pd.DataFrame(lines)

    def rows(experiment, profile=None, arms=None):
        long = require(experiment, profile, arms).melt("seed", var_name="measure").assign(cell="four/text")
        return long[["seed", "cell", "measure", "value"]]

    monkeypatch.setattr(evidence, "require", require)
    monkeypatch.setattr(evidence, "rows", rows)


def table(columns, rows, **more):
    return Report("c2dlm.table3", columns, rows, "What is shown", **more)


def cells(columns, *rows):
    return [list(row) for row in table(columns, rows)("quick").rows]


def test_arms_are_percent_and_differences_points_of_the_seeds_that_both_have():
    (one, other) = cells(["", Measured("x", "score")], Row("a", A), Row("a - b", A - B))
    assert one == ["a", percent(share_ci(SCORES["c2dlm"]))]
    assert other == ["a - b", points(mean_ci([0.5 - 0.3, 0.62 - 0.41]))] and other[1].endswith("(2)")


def test_labels_fill_the_columns_of_texts_and_may_depend_on_the_profile():
    columns = ["one", "two", Printed("paper", "none"), "three"]
    row = Row(("a", lambda profile: f"b of {profile}"), printed="5 %")
    assert cells(columns, row, Row("c")) == [["a", "b of quick", "5 %", ""], ["c", "", "none", ""]]


def test_metrics_are_names_patterns_or_functions():
    columns = [Measured("x", "{which}", report.number(2)), Measured("y", report.mean_of("score", "half"))]
    (row,) = cells(columns, Row((), arm("c2dlm.long.sudoku_n200", "c2dlm", which="half")))
    assert row[0] == "0.30 ± 0.13 (3)" and row[1] == percent(share_ci([0.375, 0.465, 0.525]))
    ((own,),) = cells([Measured("x", "score", report.first("{:,.0f}"))], Row((), arm("a.b", "c2dlm", "size")))
    assert own == "7"
    of_rows = report.OfRows(lambda rows: rows[rows.cell == "four/text"].groupby("seed").value.max())
    ((told,),) = cells([Measured("x", of_rows, report.first("{:.1f}"))], Row((), A))
    assert told == "7.0" and A.of(of_rows) == [7, 7, 7]
    with pytest.raises(LabError, match="does not measure 'speed'"):
        cells([Measured("x", "speed")], Row((), A))


def test_columns_may_have_an_experiment_of_their_own():
    columns = [
        "",
        Measured("x", "score", experiment="c2dlm.long.stg_l"),
        Measured("y", "score", experiment="c2dlm.long.cot"),
    ]
    rows = Row("a", arm(None, "c2dlm")), Row("b", arm(None, "no_v")), Row("a-b", arm(None, "c2dlm") - B)
    made = table(columns, rows[:1] + rows[2:])
    assert made("quick").rows[1][1] == points(mean_ci([0.2, 0.21]))
    assert registry.arms("c2dlm.long.stg_l", ["no_v"]) and "no_v" not in registry.arms("c2dlm.long.cot")
    assert rows[1].value.within("c2dlm.long.cot") is None
    assert made.needed() == ("c2dlm.long.sudoku_n200", "c2dlm.long.stg_l", "c2dlm.long.cot")


def test_columns_of_differences():
    columns = [Measured("m", "score", minus=B), report.Against("g", "score")]
    first, second = cells(columns, Row((), B, against=arm("a.b", "placebo")), Row((), A))
    assert first == ["", points(mean_ci([0.3 - 0.1, 0.41 - 0.2]))]
    assert second == [points(mean_ci([0.5 - 0.3, 0.62 - 0.41])), ""]


def test_a_row_may_have_values_by_column_and_other_cells():
    columns = [Measured("x", "score"), Measured("y", "score"), Reading("reading", "x")]
    (row,) = cells(columns, Row((), {"x": A - B}, cells={"y": lambda profile: f"in {profile}"}))
    assert row == [points(mean_ci([0.2, 0.21])), "in quick", "above 0"]
    assert cells(columns, Row((), {"y": A - B}))[0][2] == ""


def test_readings_are_verdicts_where_something_is_claimed_and_else_the_side_of_0():
    columns = ["", Measured("x", "score"), Reading("reading")]
    below, reached, small = (
        Row("", part, size=size) for part, size in ((B - A, None), (A - B, 20), (A - B, 30))
    )
    claimed = Row("", A - B, claim="c2dlm.claim13")  # higher by 10.84 points
    lower = Row("", A - B, claim="c2dlm.claim7")  # lower by 9
    found = [row[2] for row in cells(columns, below, reached, small, claimed, lower, Row("none"))]
    but = "reproduced, but plain tuning still gains by twice the steps"  # as claims.csv has it
    assert found == ["below 0", "reproduced", "same direction", but, "opposite", ""]


def test_values_of_a_function_and_means():
    made = report.values(lambda profile: {0: 0.5, 1: None, 2: 0.7}, "a.b")
    both = report.mean(made, A)
    (row, other) = cells([Measured("x", "score")], Row((), made), Row((), both))
    assert row == [percent(share_ci([0.5, 0.7]))] and other == [percent(share_ci([0.5, 0.7]))]
    assert both.needs == ("a.b", "c2dlm.long.sudoku_n200")
    assert report.tested([0.1, 0.2]) == f"{points(mean_ci([0.1, 0.2]))}, p 0.5"


def test_a_look_at_a_diverged_run_says_so(monkeypatch):
    runs = [SimpleNamespace(seed=seed, diverged=seed == 1) for seed in range(2)]
    curves = pd.DataFrame({"seed": [0, 0, 1, 1], "score": [0.1, 0.5, 0.2, 0.6]})
    monkeypatch.setattr(report.results, "usable", lambda *_: runs)
    monkeypatch.setattr(report.results, "curves", lambda *_: curves)
    last = report.looked("c2dlm.long.sudoku_n200", "c2dlm", "score", -1)
    assert cells([Measured("x", "score")], Row((), last)) == [["diverged (2)"]]
    runs[1].diverged = False
    assert last.of(profile="quick") == [0.5, 0.6]


def test_shares_are_told_in_percent_or_as_fractions():
    inside, beyond = [0.98, 0.984, 0.988], [0.805, 0.787, 0.435]
    assert report.share(inside) == "98.4 ± 1.0 (3)" and report.share(beyond) == "67.6 (80.5, 78.7, 43.5)"
    assert (
        report.fraction()(inside) == "0.984 ± 0.010 (3)"
        and report.fraction(2)(beyond) == "0.68 (0.81, 0.79, 0.43)"
    )


def test_what_a_diverged_run_leaves_says_so(monkeypatch):
    monkeypatch.setitem(SCORES, "c2dlm", [0.5, float("nan"), 0.7])
    formats = (None, report.tested, report.number(2), lambda values: f"{max(values)}")
    columns = [Measured(str(at), "score", format) for at, format in enumerate(formats)]
    (row,) = cells([*columns, Reading("reading")], Row((), A - arm("c2dlm.long.sudoku_n200", "placebo")))
    assert row == ["diverged (3)"] * 4 + ["not attempted: a run diverged among those of 3 seeds"]
    assert cells([Measured("x", "half", report.first("{:.2f}"))], Row((), A)) == [["diverged (3)"]]
    lost = [float("nan"), 0.5]
    assert report.first("{:.1f}")(lost) == "0.5" and report.first("{:.1f}")(lost[:1]) == "diverged"
    assert report.tested(lost) == "diverged (2)"


def test_diverged_runs_are_named_in_the_notes_of_a_table(monkeypatch):
    def read(experiment, profile=None, arms=None):
        (name,) = arms
        found = pd.DataFrame({"seed": [0, 1], "score": [0.5, 0.6]})
        found.attrs["diverged"] = ["c2dlm.long.sudoku_n200 c2dlm seed 1"] if name == "c2dlm" else []
        return found

    monkeypatch.setattr(evidence, "require", lambda *asked: evidence._complete(read, *asked))
    monkeypatch.setattr(evidence, "_train_short", lambda *_: None)
    saved = []
    monkeypatch.setattr(report, "save_table", saved.append)
    columns = ["", Measured("x", "score")]
    reports = [table(columns, [Row("", part)], notes="Ours.") for part in (A, B, A)]
    with evidence.unchanged():
        report.save("quick", *reports, lambda profile: A.of("score") and table([""], [["made"]])())
    named = "Diverged: c2dlm.long.sudoku_n200 c2dlm seed 1."
    assert [one.notes for one in saved] == [f"Ours. {named}", "Ours.", f"Ours. {named}", named]
    assert A.of("score") == [0.5, 0.6]


def test_printed_cells_stand_beside_ours():
    rows = report.printed_row("paper", "c2dlm.table4", row="C2DLM"), Row("ours", A)
    columns = ["", Measured("S", "score", paper={"group": "STG_S", "column": "IID"}), Measured("x", "score")]
    paper, ours = cells(columns, *rows)
    assert paper == ["paper", "88.00%", ""] and ours[1] == ours[2]
    assert report.cell("c2dlm.table4", "{value:.0f}", row="C2DLM", group="STG_S", column="OOD")() == "88"
    several = report.cell("c2dlm.table3", "{row}", ", ", row_group="AR", column="n=200")()
    assert several.startswith("Llama-3.2-1B, ")
    for where in ({"row": "none"}, {"row": "C2DLM"}):
        with pytest.raises(LabError, match="name one"):
            report.cell("c2dlm.table4", **where)()
    assert report.of_claim("c2dlm.claim16", "+{size:.2f}%")() == "+10.01%"
    with pytest.raises(LabError, match="no claim 'c2dlm.claim0'"):
        report.of_claim("c2dlm.claim0", "")()


VERDICTS = [
    Claim("", "id"),
    Claim("stated", report.higher),
    Contrast("contrast", "metric"),
    Ours("ours"),
    Decided("verdict"),
]


def test_claims_are_decided_by_their_row_or_by_values(monkeypatch):
    monkeypatch.setitem(SCORES, "diffusion", [0.3, 0.41, 0.5])
    beside = {
        "c2dlm.claim16": Row("few - many", report.values(lambda profile: [0.1, 0.12]), claim="c2dlm.claim16")
    }
    rows = report.claim_rows("c2dlm", "c2dlm.table3", beside)
    assert [row.claim for row in rows] == [f"c2dlm.claim{number}" for number in (13, 14, 15, 16, 17)]
    made = table(VERDICTS, [row for row in rows if row.claim[-2:] in ("13", "16")])
    decided, computed = made("quick").rows
    assert decided[:4] == ["c2dlm.claim13", "higher 10.84 pp", "accuracy", estimate(mean_ci([20, 21, 20]), 1)]
    assert computed[1:4] == ["higher 10.01 pp", "few - many", "11.0 ± 12.7 (2)"]
    assert [row[-1].label for row in (decided, computed)] == ["reproduced", "undecided"]
    assert decided[-1].but == computed[-1].but == "plain tuning still gains by twice the steps"
    assert made.needed() == ("c2dlm.long.sudoku_n200",)
    share = table(VERDICTS, [Row("C2DLM", A, claim="c2dlm.claim13")])  # an arm beside it is in a column
    assert share.verdicts("quick")["c2dlm.claim13"].summary.mean == pytest.approx(61 / 3)
    shown = [*VERDICTS[:3], Ours("ours", lambda summary: f"{summary.mean:.2f}"), *VERDICTS[4:]]
    assert [row[3] for row in table(shown, made.rows)("quick").rows] == ["20.33", "11.00"]


def test_a_claim_without_results_or_without_a_contrast():
    rows = [Row(claim="c2dlm.claim17"), Row(claim="c2dlm.claim2"),
            Row("x", report.values(lambda profile: []), claim="c2dlm.claim16")]  # fmt: skip
    made = table(VERDICTS, rows)
    with pytest.raises(LabError, match="not there"):
        made("quick")
    lacking, reason, empty = made("quick", strict=False).rows
    assert lacking[2:] == ["accuracy", "", "no result yet"]
    assert reason[2:4] == ["", ""] and str(reason[4]).startswith("not attempted: ")
    assert empty[2:4] == ["", ""] and "nothing to compare: x" in str(empty[4])
    by_column = table(VERDICTS, [Row("x", {"ours": A, "theirs": B}, claim="c2dlm.claim16")])
    with pytest.raises(LabError, match="the row 'x' has values in 2 columns"):
        by_column("quick")
    only = made("quick", only=lambda row: row.claim == "c2dlm.claim2")
    assert len(only.rows) == 1


def test_the_values_in_one_column_or_a_function_of_the_row_decide_a_claim():
    counted = verdicts.judged(Summary(0.5, 0.4, 0.6, 200))
    rows = [
        Row("over seeds", {"S": A - B}, claim="c2dlm.claim13"),
        Row("over pairs", claim="c2dlm.claim16", decided=lambda profile: counted),
    ]
    found = table(VERDICTS, rows).verdicts("quick")
    assert found["c2dlm.claim13"].summary.mean == pytest.approx(20.5)
    assert found["c2dlm.claim16"] == replace(counted, but=found["c2dlm.claim13"].but)
    assert [row[2] for row in table(VERDICTS, rows)("quick").rows] == ["over seeds", "over pairs"]


def test_finished_rows_functions_of_the_profile_and_notes():
    made = table(
        ["a", "b"], lambda: [["c", 1], lambda profile: [[profile, 2]]], notes=lambda profile: f"In {profile}."
    )
    assert list(made("quick").rows) == [["c", 1], ["quick", 2]] and made("quick").notes == "In quick."
    assert "**What is shown**" in made._repr_markdown_()


def test_an_artefact_is_registered_with_what_its_reports_need(monkeypatch, tmp_path):
    registry.load_all()  # or the others would be registered below
    monkeypatch.setattr(registry, "_artefacts", dict(registry._artefacts))
    monkeypatch.setenv("CAUSALNB_FIGURES", str(tmp_path))
    monkeypatch.setattr(building, "origin", lambda *_: "")
    monkeypatch.setattr(report, "_built", {})
    shown = Report("c2dlm.made_up", ["", Measured("x", "score")], [Row("a", A)], "Made up")
    import matplotlib.pyplot as plt

    @report.builds(
        "c2dlm.made_up", shown, needs=["c2dlm.long.stg_l"], extra=True, printed_as="ours", shows="a"
    )
    def made_up(profile):
        """Made up."""
        figure = plt.figure(), "A figure with nothing on it at all."
        report.draw(profile, "c2dlm.made_up", figure, "Nothing")

    item = registry.find("c2dlm.made_up")
    assert item.needs == ("c2dlm.long.sudoku_n200", "c2dlm.long.stg_l") and item.build.__name__ == "made_up"
    files = {path.name for path in building.build("c2dlm.made_up", "quick")}
    assert {"made_up.md", "made_up.svg"} <= files and report.built() == {"c2dlm.made_up": (shown,)}
    assert manifest.entries("quick")["c2dlm.made_up"]["alt"].startswith("A figure with nothing")
    plt.close("all")


def test_values_for_figures_and_prose_and_what_columns_share():
    assert (A - B).of("score") == pytest.approx([0.2, 0.21]) and A.summary("half").n == 3
    assert (A - B).of(report.in_percent("score")) == pytest.approx([20, 21])
    columns = [
        Measured("x", "score", report.number(1)),
        Measured("less", "score", report.number(1), minus=B, of="x", same="default"),
    ]
    plain, other = cells(columns, Row((), {"x": B}), Row((), {"x": A}))
    assert plain[1] == "default" and other[1] == report.number(1)([0.2, 0.21])
    assert cells(columns, Row((), {}))[0] == ["", ""]
    ((bare,),) = cells([Measured("x", "{way}score")], Row((), A))
    assert bare == percent(share_ci(SCORES["c2dlm"]))
    found = table(VERDICTS, [Row("x", A - B, claim="c2dlm.claim13"), ["finished"] * 5]).verdicts("quick")
    assert [*found] == ["c2dlm.claim13"] and found["c2dlm.claim13"].summary.n == 2
    with pytest.raises(LabError, match="the arm c2dlm of c2dlm.long.sudoku_n200 is read in no metric"):
        table(VERDICTS, [Row("x", A - B, claim="c2dlm.claim16")]).verdicts("quick")


def test_a_mean_of_metrics_is_none_where_one_is():
    frame = pd.DataFrame({"first": [0.2, float("nan")], "second": [0.4, 0.4]})
    mean, missing = report.mean_of("first", "second")(frame)
    assert mean == pytest.approx(0.3) and missing != missing
