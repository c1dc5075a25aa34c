"""Tables 4 to 7 and Figure 8 of ICLM say what the stored results say: checked on results made up here."""

import math
from statistics import mean

import matplotlib.pyplot as plt
import pandas as pd
import pytest
import torch

from causalnb.errors import LabError
from causalnb.experiments.iclm import grid as iclm_grid
from causalnb.experiments.iclm.artefacts import variants as made
from causalnb.iclm import ProbabilityAggregation
from causalnb.lab import building, evidence, figures, registry
from causalnb.lab.statistics import mean_ci, paired
from causalnb.lab.tables import points
from causalnb.lab.verdicts import claims, decide
from tests.unit.experiments.iclm_made_up import STEPS, information, real, store
from tests.unit.experiments.made_up import number


@pytest.fixture(scope="module", autouse=True)
def stored(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch, evidence.stored_only():
        store(patch, tmp_path_factory.mktemp("iclm"))
        yield
    plt.close("all")


def accuracies(family, arm, seed, score="exact"):
    return [
        number(made.home(family, arm), arm, seed, f"{cell}_{format}", score)
        for cell, format in made.places(family)
    ]


def by_label(table) -> dict[str, dict]:
    return {row[0]: dict(zip(table.columns, row, strict=False)) for row in table.rows}


def test_a_table_has_the_papers_rows_and_ours():
    rows = by_label(made.scores_table("iclm.table4"))
    assert [*rows] == [
        "paper: ICLM",
        "paper: ICLM-Weighted",
        "paper: ICLM-K-Means",
        "ours: ICLM, exact",
        "ours: ICLM-Weighted, exact",
        "ours: ICLM-K-Means, exact",
    ]
    assert (rows["paper: ICLM-Weighted"]["ACRE-Sys Symb"], rows["paper: ICLM"]["mean of 6"]) == (
        "0.970",
        f"{mean([0.653, 0.950, 0.663, 0.931, 0.634, 0.901]):.3f}",
    )
    ours = rows["ours: ICLM, exact"]
    each = [accuracies("acre", "iclm", seed) for seed in range(4)]
    assert ours["ACRE-Comp Symb"].mean == pytest.approx(mean(one[3] for one in each))
    assert ours["mean of 6"].mean == pytest.approx(mean(map(mean, each))) and ours["mean of 6"].n == 4


def test_the_formats_are_apart_by_the_shares_of_the_modules():
    rows = by_label(made.scores_table("iclm.table4"))
    apart = rows["ours: ICLM-K-Means, exact"]["formats apart"]
    assert (apart.mean, apart.n) == (pytest.approx(0.75), 3)  # shares of 7/8 and 1/8, in turn
    assert rows["ours: ICLM-Weighted, exact"]["formats apart"] == "soft"  # the largest weight is no route


def test_raven_is_scored_twice():
    rows = by_label(made.scores_table("iclm.table7"))
    chosen = rows["ours: ICLM-Logits, choice of eight"]
    assert chosen["RAVEN-Four Text"].mean == pytest.approx(
        mean(accuracies("raven", "logit", seed, "choice")[2] for seed in range(3))
    )
    assert chosen["formats apart"] == chosen["loss at the end, nats"] == ""


@pytest.mark.parametrize("weights", [(0.5, 0.5), (0.5, 0.25, 0.25), (0.2, 0.8)])
def test_no_word_is_surer_than_the_floor_allows(weights):
    words, share = 12, weights[0]
    certain = torch.nn.Linear(1, words, bias=False)
    certain.weight.data.copy_(1e4 * (torch.arange(words) == 0)[:, None])
    domains = torch.tensor([[weight / (1 - share)] for weight in weights[1:]])
    joined = ProbabilityAggregation(certain, len(weights), share)(torch.ones(len(weights), 1, 1), domains)
    assert made.entropy_floor(words, weights) == pytest.approx(-joined.log_softmax(-1)[0, 0].item(), rel=1e-5)
    assert made.entropy_floor(words) == pytest.approx(math.log((words + 8) / 9))


def test_probabilities_have_their_floor_beside_them():
    table = made.scores_table("iclm.table6")
    rows, vocabulary = by_label(table), made.vocabularies()
    assert rows["paper: ICLM-Probas"]["floor, nats"] == "8.18" and vocabulary["LLaMA2"] == 32_000
    ours = rows["ours: ICLM-Probas, exact"]
    assert ours["floor, nats"] == f"{math.log((vocabulary['ours'] + 8) / 9):.2f}"
    assert ours["loss at the end, nats"].mean == pytest.approx(3 - STEPS[-1] / 500)
    assert rows["ours: ICLM, exact"]["floor, nats"] == "" and f"V = {vocabulary['ours']}" in table.notes


def test_contrasts_pair_seeds_with_the_default():
    rows = by_label(made.contrasts_table("iclm.table5"))
    assert [*rows] == ["ICLM-Weighted − ICLM", "ICLM-K-Means − ICLM", "ICLM-Weighted and ICLM-K-Means − ICLM"]
    wanted = paired(
        [mean(accuracies("raven", "weighted", seed, "choice")) for seed in range(3)],
        [mean(accuracies("raven", "iclm", seed, "choice")) for seed in range(3)],
    )
    assert rows["ICLM-Weighted − ICLM"]["ours, points"] == points(mean_ci(wanted))
    row = rows["ICLM-Weighted and ICLM-K-Means − ICLM"]
    claim = claims("iclm").set_index("id", drop=False).loc["iclm.claim26"]
    assert row["verdict"] == str(decide(claim)) and row["the paper's claim"] == claim["claim"]


def test_what_the_paper_prints_is_compared_cell_by_cell():
    gap, cells = made.printed_gap("iclm.table4", ("weighted",))
    assert gap == pytest.approx(100 * mean([0.159, -0.029, 0.139, 0.029, 0.208, 0.069]))
    assert cells == "5 above (3 clearly), 1 below (0 clearly)"  # by Fisher's test of text, Comp and Sys text
    assert made.clear(0.653, 0.812) and not made.clear(0.950, 0.921)


def test_sides_count_intervals_beyond_0():
    found = pd.DataFrame({"a": [1, 1.1, 0.9], "b": [-1, -1.1, -0.9], "c": [-1, 0, 1], "d": [2, 2.1, 2]})
    assert made.sides(found) == "2 above, 1 below"


@pytest.mark.parametrize("table", made.CLAIMS)
def test_the_claims_are_those_of_the_table(table):
    family, _, decisive = made.CLAIMS[table]
    rows = claims("iclm").set_index("id")
    assert set(decisive) == set(rows.index[rows["artefact"] == table])
    score = {"acre": "exact", "raven": "choice"}[family]
    six = "+".join(f"{cell}_{format}_{score}" for cell, format in made.places(family))
    for claim, arms in decisive.items():
        row = rows.loc[claim]
        assert row["our_metric"] == six and row["our_treatment"] == "+".join(arms)
        said = made.gap(family, arms).mean(axis=1).mean()
        assert decide(row).summary.mean == pytest.approx(said)


@pytest.mark.parametrize("family, arm", [("acre", "weighted"), ("raven", "logit")])
def test_a_quick_run_measures_what_is_read_here(family, arm, tmp_path):
    found = real(f"iclm.variants.{family}", arm, tmp_path)
    wanted = {
        metric
        for row in claims("iclm").itertuples()
        if row.experiment == f"iclm.variants.{family}"
        for metric in row.our_metric.split("+")
    }
    wanted |= {
        f"{cell}_{format}_{score}" for cell, format in made.places(family) for score in made.SCORES[family]
    }
    assert wanted <= set(found["metrics"]) and {"step", "loss", "forward"} <= set(found["history"][0])
    assert all(f"{cell}_{format}_module1" in found["metrics"] for cell, format in made.places(family))


def test_remarks_give_both_numbers():
    first, second = made.remarks("iclm.table4")
    assert first.startswith("ICLM-Weighted differs from ICLM on ACRE by ") and "+9.6." in first
    assert "K-Means" in second


# figure 8


def test_a_spike_stands_above_its_neighbours():
    curve = pd.Series([1.0, 1, 1, 4, 1, 1, 1.4], index=range(0, 70, 10))
    assert made.spikes(curve) == made.Spikes(1, 4.0) and made.spikes(curve[::-1]) == made.spikes(curve)
    assert made.spikes(curve, after=40) == made.Spikes(0, pytest.approx(1 / 1.2))  # 1 before 1 and 1.4
    assert made.spikes(curve, factor=4.1).count == 0
    assert made.spikes(pd.Series([16.0, 8, 4, 2, 1])) == made.Spikes(0, pytest.approx(8 / 16))  # a fall
    assert made.spikes(pd.Series([1.0, 1, 1, 4, 4, 1, 1, 1])).count == 2  # both of a wide one
    with pytest.raises(LabError, match="2 evaluations"):  # as of a quick run, which notebook 34 then tells
        made.spikes(curve[:2])


def test_the_steadier_aggregation_has_fewer_spikes():
    rows = made.spikes_table().rows
    spike = information("logit", 240) / information("logit", 160)  # of 120, 160, 200
    at = {row[1]: row for row in rows if row[0] == "RAVEN"}
    assert at["logits"][3].mean == 1 and at["logits"][4] == f"{spike:.2f}"
    assert at["one head for both"][3].mean == 0 and at["one head for both"][2] == "0.0091"
    differences, verdict = made.steadier()
    assert differences == {0: -1, 1: -1, 2: -1} and rows[-1][4] == str(verdict)
    assert made.spike_start() == 100 and verdict.label == "reproduced"


def test_curves_are_drawn_for_each_aggregation():
    fig, alt = made.curves_figure()
    assert [ax.get_title() for ax in fig.axes] == ["ACRE", "RAVEN"]
    lines = {line.get_label(): line.get_ydata() for line in fig.axes[1].lines}
    assert lines["logits"][5] == pytest.approx(information("logit", 240))
    assert fig.axes[0].get_xscale() == "log"
    assert "probabilities 0.0091" in alt and "step 100" in alt


# all of them


def test_every_artefact_is_built(monkeypatch):
    monkeypatch.setattr(figures, "render", lambda fig, format: b"a picture")
    for id in (*made.CLAIMS, "iclm.fig8"):
        assert all(file.is_file() for file in building.build(id))
        assert registry.find(id).notebook == "34_routing_and_variants"


@pytest.mark.parametrize(
    "make",
    [
        lambda: made.scores_table("iclm.table4"),
        lambda: made.contrasts_table("iclm.table7"),
        lambda: made.final_loss("acre", made.SOFT),
        made.curves_figure,
        made.spikes_table,
    ],
)
def test_missing_results_are_named(make, tmp_path, monkeypatch):
    monkeypatch.setenv("CAUSALNB_RESULTS", str(tmp_path))
    plt.close("all")
    with pytest.raises(LabError, match=r"results of iclm\.\S+ are not there: `causalnb run iclm"):
        make()
    assert not plt.get_fignums()  # a notebook would show a figure that was begun


def test_columns_are_the_papers():
    for table, (family, arms, _) in made.CLAIMS.items():
        assert len(made.headings(table)) == len(made.places(family)) == 6
        assert [*made.printed_rows(table)] == [made.NAMES[arm] for arm in ("iclm", *arms)]
        assert set(arms) <= set(iclm_grid.VARIANTS)
