"""Intervals, verdicts and tables."""

import csv
import io
import math
import warnings
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from causalnb.errors import LabError
from causalnb.lab import building, evidence, tables, verdicts
from causalnb.lab.statistics import Summary, mean_ci, paired, share_ci, sign_flip, wilson
from causalnb.lab.verdicts import Verdict, not_attempted, reading, verdict

NUMBERS = st.floats(-1e6, 1e6, allow_subnormal=False)
SAMPLES = st.lists(NUMBERS, min_size=2, max_size=12)


@given(SAMPLES, st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_mean_ci_is_the_t_interval(values, level):
    found = mean_ci(values, level)
    error = stats.sem(values)
    assume(error > 1e-9 * max(map(abs, values)) > 0)
    low, high = stats.t.interval(level, len(values) - 1, loc=sum(values) / len(values), scale=error)
    assert found.n == len(values) and found.low <= found.mean <= found.high
    assert (found.low, found.high) == pytest.approx((low, high), rel=1e-9, abs=1e-9 * error)


@given(NUMBERS, st.integers(2, 30))
def test_equal_values_have_an_interval_of_no_width(value, n):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert mean_ci([value] * n) == Summary(value, value, value, n)


def test_too_few_or_no_numbers():
    one = mean_ci([0.5])
    assert (one.mean, one.n) == (0.5, 1) and math.isnan(one.low) and math.isnan(one.high)
    for missing in (None, math.nan, math.inf):
        lost = mean_ci([1.0, missing, 2.0])
        assert math.isnan(lost.mean) and math.isnan(lost.low) and lost.n == 3
    for values, level in (([], 0.95), ([1.0, 2.0], 1.0), ([1.0], 0)):
        with pytest.raises(LabError, match="give values, and a level in"):
            mean_ci(values, level)


def test_a_share_has_its_values_where_the_interval_holds_what_cannot_be():
    above, below = [0.805, 0.787, 0.435], [0.0, 0.001, 0.002]
    assert share_ci(above).high > 1 and share_ci(below).low < 0
    for values in (above, below):
        assert share_ci(values) == replace(mean_ci(values), values=tuple(values))
        assert mean_ci(values).values == ()
    for values in ([0.5, 0.51, 0.49], [1.0, 1.0], [0.0, 0.0], [1.0], [1.0, math.nan]):
        assert share_ci(values).values == ()
    assert mean_ci([-0.2, 0.1], within=(-2.0, 2.0)).values == ()
    assert mean_ci([-0.2, 0.1], within=(-1.0, 1.0)).values == (-0.2, 0.1)


def test_rounding_carries_no_share_beyond_1():
    whole = sum(9 * [1 / 9])
    assert whole > 1 and share_ci([whole, 1.0, whole]).values == ()


def test_the_interval_covers_what_it_says():
    import numpy as np

    draws = np.random.default_rng(0).normal(3.0, 2.0, size=(1000, 5))
    covered = sum(found.low <= 3.0 <= found.high for found in map(mean_ci, draws))
    assert 0.93 < covered / 1000 < 0.97


def test_paired_differences_go_by_seed():
    import pandas as pd

    assert paired({0: 1.0, 1: 4.0}, {1: 1.0, 0: 3.0}) == [-2.0, 3.0]
    assert paired(pd.Series([1.0, 4.0], index=[5, 3]), {3: 1.0, 5: 1.0}) == [3.0, 0.0]
    assert paired([1, 2], (3, 5)) == [-2.0, -3.0]
    assert [math.isnan(value) for value in paired([1, None], [1, 2])] == [False, True]
    with pytest.raises(LabError, match="seed 2 has a value on one side only"):
        paired({0: 1.0, 2: 1.0}, {0: 1.0})


def test_signs_are_flipped_in_all_ways():
    assert sign_flip([1, 2, 3, 4, 5]) == 2 / 32
    assert sign_flip([1, -1]) == 1.0
    assert sign_flip([3, -1, 2]) == 4 / 8  # +-(3, 1, 2) and +-(3, -1, 2)
    with pytest.raises(LabError, match="21 differences"):
        sign_flip(range(21))
    for lost in (math.nan, math.inf):
        with pytest.raises(LabError, match=rf"the differences \[{lost}, 1.0\] have no p: leave out"):
            sign_flip([lost, 1])


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson(kn):
    k, n = kn
    found, z, p = wilson(k, n), stats.norm.ppf(0.975), k / n
    middle, half = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    assert (found.low, found.high) == pytest.approx(
        ((middle - half) / scale, (middle + half) / scale), abs=1e-12
    )
    assert found.mean == p and found.n == n and 0 <= found.low <= p <= found.high <= 1
    assert wilson(k, n, 0.5).half <= found.half


@pytest.mark.parametrize("k, n", [(-1, 3), (4, 3), (0, 0)])
def test_no_proportion(k, n):
    with pytest.raises(LabError, match=f"{k} of {n} is no proportion"):
        wilson(k, n)


@pytest.mark.parametrize(
    "differences, size, direction, label",
    [
        ([0.2, 0.3, 0.4], 0.3, 1, "reproduced"),
        ([0.2, 0.3, 0.4], 0.31, 1, "same direction"),
        ([0.2, 0.3, 0.4], None, 1, "reproduced"),
        ([0.2, 0.3, 0.4], 0.1, -1, "opposite"),
        ([-0.2, -0.3, -0.4], 0.3, -1, "reproduced"),
        ([-0.2, -0.3, -0.4], 0.31, -1, "same direction"),
        ([-0.2, -0.3, -0.4], None, 1, "opposite"),
        ([-0.2, 0.3, 0.4], None, 1, "undecided"),
        ([-0.2, 0.3, 0.4], 0.9, 1, "undecided"),
        ([-0.2, 0.3, 0.4], 1.2, 1, "excluded"),
        ([-0.2, 0.3, 0.4], 0.6, -1, "undecided"),
        ([-0.2, 0.3, 0.4], 0.7, -1, "excluded"),
        ([0.3], 100.0, 1, "undecided"),
        ([0.0] * 5, 0.1, 1, "excluded"),
        ([0.3], None, 1, "undecided"),
        ([0.1] * 5, 0.1, 1, "reproduced"),
        ([0.1] * 5, 0.2, 1, "same direction"),
        ([0.1] * 5, None, -1, "opposite"),
        ([0.0] * 5, None, 1, "excluded"),
        ([0.0] * 5, 0.0, -1, "undecided"),
    ],
)
def test_the_rule(differences, size, direction, label):
    found = verdict(differences, size, direction)
    assert (found.label, found.size, found.summary.n) == (label, size, len(differences)) and str(
        found
    ) == label


@pytest.mark.parametrize(
    ("differences", "size", "direction", "label"),
    [
        ([-0.001, 0.001, 0.002], None, 1, "excluded"),
        ([-0.02, -0.01, 0.0, 0.001], None, 1, "excluded"),  # a loss may be larger: no gain of a point
        ([-0.02, -0.01, 0.0, 0.001], None, -1, "undecided"),
        ([-0.02, 0.0, 0.02], None, 1, "undecided"),
        ([0.002, 0.003, 0.004], None, 1, "reproduced"),
        ([-0.02, 0.0, 0.02], 0.5, 1, "excluded"),  # a size that is stated comes first
        ([0.0], None, 1, "undecided"),
    ],
)
def test_where_no_size_is_stated_a_margin_is_the_smallest_gain(differences, size, direction, label):
    assert verdict(differences, size, direction, margin=0.01).label == label


def test_a_claim_in_points_has_its_margin_in_points():
    claim = {"unit": "pp", "size": math.nan, "margin": 1.0, "direction": "+"}
    differences = [-0.003, 0.0, 0.003]  # ± 0.75 points
    assert verdicts.by_claim(differences, claim).label == "excluded"
    assert verdicts.by_claim(differences, {**claim, "margin": 0.5}).label == "undecided"
    assert verdicts.by_claim(differences, {**claim, "margin": math.nan}).label == "undecided"


@pytest.mark.parametrize(
    ("differences", "label"),
    [
        ([0.02, 0.03, 0.04], "reproduced"),
        ([-0.002, 0.0, 0.002], "reproduced"),  # within a point of 0
        ([-0.004, -0.003, -0.002], "reproduced"),  # worse, by less than a point
        ([-0.04, -0.03, -0.04], "opposite"),
        ([-0.02, -0.01, 0.0], "undecided"),
        ([-0.1, 0.2, 0.3], "undecided"),
        ([0.5], "undecided"),
    ],
)
def test_as_well_is_no_more_than_the_margin_worse(differences, label):
    assert verdict(differences, margin=0.01, as_well=True).label == label
    claim = {"unit": "fraction", "size": math.nan, "margin": 0.01, "direction": ">="}
    assert verdicts.by_claim(differences, claim).label == label


@pytest.mark.parametrize("given", [{}, {"margin": 0.01, "size": 0.1}, {"margin": 0.01, "direction": -1}])
def test_as_well_has_a_margin_alone(given):
    with pytest.raises(LabError, match="what does as well has a margin"):
        verdict([1.0, 2.0], as_well=True, **given)


@pytest.mark.parametrize("lost", [None, math.nan, -math.inf])
def test_a_claim_is_not_attempted_by_a_run_that_diverged(lost):
    why = "a run diverged among those of 3 seeds"
    assert verdict([0.2, lost, 0.4], 0.1) == verdict([0.2, 0.4, lost], None, -1) == not_attempted(why)


@given(SAMPLES, st.none() | st.floats(0, 1e6), st.sampled_from([1, -1]))
def test_properties_of_the_rule(values, size, direction):
    found = verdict(values, size, direction)
    inside = found.summary.low <= 0 <= found.summary.high
    assert found.label in verdicts.LABELS and (found.label in ("excluded", "undecided")) is inside
    if inside:
        low, high = found.summary.low, found.summary.high
        assert (found.label == "excluded") is (
            low == high if size is None else not low <= direction * size <= high
        )
    assert verdict([-value for value in values], size, -direction).label == found.label
    other = verdict(values, size, -direction).label
    if not inside:
        assert (found.label == "opposite") is (other in ("reproduced", "same direction"))
        assert (found.label == "opposite") is (found.summary.mean * direction < 0)
    if found.label == "reproduced" and size is not None:
        assert verdict(values, size / 2, direction).label == "reproduced"
        assert verdict(values, abs(found.summary.mean) * 2 + 1, direction).label == "same direction"


@given(SAMPLES, st.floats(0.01, 100))
def test_the_unit_does_not_matter(values, unit):
    found = mean_ci(values)
    assume(min(abs(found.low), abs(found.high)) > 1e-6 * max(map(abs, values)) + 1e-300)
    assert verdict(values).label == verdict([value * unit for value in values]).label


def test_readings():
    assert reading([0.1, 0.11, 0.09]) == "above 0" and reading([0.1, -0.1]) == "0 is inside"
    assert reading([-0.1, -0.11]) == "below 0" and reading([0.1]) == "one seed"
    assert reading([0.1, 0.11, 0.09], 20) == "same direction"
    assert reading([0.1, 0.11, 0.09], 5) == "reproduced"
    for size in (None, 5):
        assert reading([0.1, math.nan], size) == "not attempted: a run diverged among those of 2 seeds"


def test_verdict_refuses():
    with pytest.raises(LabError, match="direction=0 is none"):
        verdict([1.0, 2.0], direction=0)
    for size in (-0.1, math.inf, math.nan):
        with pytest.raises(LabError, match="is no size: give a number from 0 on"):
            verdict([1.0, 2.0], size)
    for margin in (0.0, -0.01, math.inf, math.nan):
        with pytest.raises(LabError, match="is no smallest gain: give a number above 0"):
            verdict([1.0, 2.0], margin=margin)
    assert not_attempted("no GPU") == Verdict("not attempted", why="no GPU")
    assert str(not_attempted("no GPU")) == "not attempted: no GPU"
    with pytest.raises(LabError, match="say why"):
        not_attempted(" ")


def table(**changes):
    values = {
        "id": "toy.table1",
        "columns": ["arm", "ours_|x"],
        "caption": "Sums & more.",
        "notes": "100 % of all.",
        "rows": [
            ["a|b_c", mean_ci([0.98, 0.984, 0.988])],
            [None, 0.123456],
            [3, not_attempted("no\n GPU")],
            [math.nan, mean_ci([0.5])],
        ],
    }
    return tables.Table(**{**values, **changes})


def test_cells_in_percent():
    assert tables.points(Summary(0.1, 0.05, 0.15, 3)) == "+10.0 [+5.0, +15.0] (3)"
    assert tables.percent(mean_ci([0.25])) == "25.0 (1)"
    diverged = mean_ci([0.25, math.nan])
    assert {tables.points(diverged), tables.percent(diverged), tables.estimate(diverged)} == {"diverged (2)"}


def test_cells():
    assert tables.estimate(Summary(0.98412, 0.9811, 0.9871, 5)) == "0.984 ± 0.003 (5)"
    assert tables.estimate(Summary(98.412, 98.2, 98.6, 5), 1) == "98.4 ± 0.2 (5)"
    assert (
        tables.estimate(mean_ci([0.5])) == "0.500 (1)"
        and tables.estimate(mean_ci([0.5, None])) == "diverged (2)"
    )


def test_cells_have_a_few_values_and_the_ends_of_many_in_place_of_an_interval():
    few = share_ci([0.805, 0.787, 0.435])
    assert tables.estimate(few) == "0.676 (0.805, 0.787, 0.435)"
    assert tables.percent(few) == "67.6 (80.5, 78.7, 43.5)"
    shares = [0.9, 0.4, 1.0, 1.0, 1.0]
    assert len(shares) == tables.MOST
    assert tables.estimate(share_ci(shares), 1) == "0.9 (0.9, 0.4, 1.0, 1.0, 1.0)"
    assert tables.estimate(share_ci([*shares, 1.0]), 2) == "0.88 (0.40 to 1.00; 6)"
    assert table(rows=[["a", few]]).csv().splitlines()[1] == 'a,"0.676 (0.805, 0.787, 0.435)"'


def test_markdown():
    lines = table().markdown().splitlines()
    assert lines[0] == "**Sums & more.**" and lines[-1] == "100 % of all."
    lines = [line.strip("|").replace(r"\|", "¦").split("|") for line in lines[2:8]]
    head, _, *cells = [[cell.strip() for cell in line] for line in lines]
    assert head == ["arm", "ours_¦x"]
    assert cells[:2] == [["a¦b_c", "0.984 ± 0.010 (3)"], ["", "0.1235"]]
    assert cells[2:] == [["3", "not attempted: no GPU"], ["", "0.500 (1)"]]
    assert table()._repr_markdown_() == table().markdown() and table(notes="").markdown().endswith("|\n")


def test_latex_is_escaped():
    text = table().latex()
    assert (
        r"\caption{Sums \& more.}" in text and r"\label{tab:toy.table1}" in text and r"100 \% of all." in text
    )
    assert r"0.984 $\pm$~0.010 (3)" in text and r"\toprule" in text and "±" not in text
    assert text.count(r"\begin") == text.count(r"\end") == 3 and "minipage" not in table(notes="").latex()
    assert text.splitlines()[1] == r"% \usepackage{array,booktabs}"


def test_columns_by_name_or_number():
    wide = table(columns=["arm", "cells, points"])
    assert wide.only(["cells, points", "1"]) == wide.only(["2", "arm"])
    assert wide.only(["2"]).columns == ["cells, points"] and wide.only(["2"]).rows[1] == [0.123456]
    with pytest.raises(LabError, match="toy.table1 has no column 'speed': it has 1 'arm', 2 'cells, points'"):
        wide.only(["arm", "speed"])


def test_csv():
    rows = list(csv.reader(io.StringIO(table().csv())))
    assert rows == [
        ["arm", "ours_|x"],
        ["a|b_c", "0.984 ± 0.010 (3)"],
        ["", "0.1235"],
        ["3", "not attempted: no GPU"],
        ["", "0.500 (1)"],
    ]


def test_a_short_row_is_refused():
    with pytest.raises(LabError, match=r"a row of toy.table1 has 1 cells for 2 columns: correct \['a'\]"):
        table(rows=[["a"]])


def test_save_table(lab):
    paths = tables.save_table(table())
    assert [path.name for path in paths] == ["table1.md", "table1.tex", "table1.csv"]
    assert [path.read_text(encoding="utf-8") for path in paths] == [
        table().markdown(),
        table().latex(),
        table().csv(),
    ]
    assert building.status("toy.table1") == ("missing", "no builder yet")


def test_printed_numbers(lab):
    folder = lab.folder / "data" / "paper"
    (folder / "toy_table1.csv").write_text("row,value\nNone,1.5\nNA,\n", encoding="utf-8")
    found = tables.paper("toy.table1")
    assert (
        found["row"].tolist() == ["None", "NA"] and found["value"][0] == 1.5 and math.isnan(found["value"][1])
    )
    with pytest.raises(
        LabError, match="there is no data/paper/toy_table2.csv: there is artefacts, toy_table1"
    ):
        tables.paper("toy.table2")
    (folder / "toy_table2.csv").write_text("", encoding="utf-8")
    with pytest.raises(LabError, match="data/paper/toy_table2.csv cannot be read"):
        tables.paper("toy.table2")


def test_claims(lab):
    (lab.folder / "data" / "paper" / "claims.csv").write_text(
        "id,source,size\ntoy.a,toy,1\nother.b,other,\n", encoding="utf-8"
    )
    assert verdicts.claims()["id"].tolist() == ["toy.a", "other.b"]
    other = verdicts.claims("other")
    assert other["id"].tolist() == ["other.b"] and list(other.index) == [0]
    with pytest.raises(LabError, match="no claim of 'tony': there are those of other, toy"):
        verdicts.claims("tony")


CLAIMS = """id,source,experiment,our_treatment,our_baseline,our_metric,unit,margin,size,direction,reason,but
toy.more,toy,toy.sum,two,one,total,,,9.5,+,
toy.less,toy,toy.sum,one,two,total,pp,,,-,,the tree is small
toy.both,toy,toy.sum,two,two,total|resumed,,,,+,
toy.none,toy,,,,,,,,+,it needs a telescope
toy.across,toy,toy.sum,two,toy.sum:one,total,,,9.5,+,
toy.gap,toy,toy.sum,two,two,total-resumed|total,,,,-,
toy.mean,toy,toy.sum,two+toy.sum:one,one,total+resumed|total,,,,+,
toy.lost,toy,toy.sum,two,one,speed,,,,+,
"""


def test_claims_are_decided_from_results(lab):
    (lab.folder / "data" / "paper" / "claims.csv").write_text(CLAIMS, encoding="utf-8")
    more, less, both, none, across, gap, average, lost = verdicts.claims("toy").itertuples()
    found = verdicts.decide(more)
    assert (found.label, found.size, found.summary.mean) == ("reproduced", 9.5, pytest.approx(10))
    _, series = next(verdicts.claims("toy").iterrows())  # whose .size is the number of its fields
    assert verdicts.decide(series) == found
    found = verdicts.decide(less)
    assert (found.label, found.size, found.summary.mean) == ("reproduced", None, pytest.approx(-1000))
    assert found.but == "the tree is small" and str(found) == "reproduced, but the tree is small"
    assert verdicts.decide(more).but == ""
    assert verdicts.decide(both).summary.mean == pytest.approx(12)
    assert verdicts.decide(across) == verdicts.decide(more)
    resumed = evidence.require("toy.sum", arms=["two"]).resumed
    assert verdicts.decide(gap).summary == mean_ci([-value for value in resumed])
    two, one = (evidence.require("toy.sum", arms=[arm]) for arm in ("two", "one"))
    means = (two.total + two.resumed + one.total + one.resumed) / 4
    assert verdicts.decide(average).summary == mean_ci([*(means - one.total)])
    assert verdicts.decide(none) == not_attempted("it needs a telescope")
    assert verdicts.qualified(not_attempted("no GPU"), {"but": "it rains"}) == not_attempted("no GPU")
    with pytest.raises(LabError, match="toy.lost compares 'speed', which toy.sum does not measure"):
        verdicts.decide(lost)


def test_a_claim_is_not_decided_by_the_seeds_that_did_not_diverge(lab, monkeypatch):
    import pandas as pd

    (lab.folder / "data" / "paper" / "claims.csv").write_text(CLAIMS, encoding="utf-8")
    more, *_, average, _ = verdicts.claims("toy").itertuples()
    lines = {"seed": [0, 1, 2], "total": [1.0, math.nan, 2.0], "resumed": [1.0, 1.0, 1.0]}
    monkeypatch.setattr(evidence, "require", lambda experiment, profile, arms: pd.DataFrame(lines))
    for claim in (more, average):
        assert str(verdicts.decide(claim)) == "not attempted: a run diverged among those of 3 seeds"


def test_a_contrast_across_experiments_pairs_the_seeds_that_both_have(lab, monkeypatch):
    import pandas as pd

    (lab.folder / "data" / "paper" / "claims.csv").write_text(CLAIMS, encoding="utf-8")
    *_, across, _, _, _ = verdicts.claims("toy").itertuples()
    seeds = {"one": [0, 1, 2], "two": [2, 0]}

    def require(experiment, profile, arms):
        return pd.DataFrame({"seed": seeds[arms[0]], "total": [10.0 + seed for seed in seeds[arms[0]]]})

    monkeypatch.setattr(evidence, "require", require)
    assert verdicts.decide(across).summary == mean_ci([0.0, 0.0])


def test_what_is_no_number_gives_no_duration_pair_or_cell():
    from causalnb.lab import results, statistics, tables

    for wrong in (math.nan, math.inf, None):
        with pytest.raises(LabError, match="are no duration: give a finite number"):
            results.duration(wrong)
    with pytest.raises(LabError, match="is infinite: give numbers, NaN or None"):
        statistics.paired([0.5, 1.0], [0.5, math.inf])
    for wrong in ((None, 3), (statistics.mean_ci([1.0, 2.0]), -1)):
        with pytest.raises(LabError, match="is no cell: give a Summary"):
            tables.estimate(*wrong)
