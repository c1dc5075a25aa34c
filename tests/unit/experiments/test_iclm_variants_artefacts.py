"""Tables 4 to 7 and Figure 8 of ICLM say what the stored results say: checked on results made up here."""

import math
from statistics import mean

import matplotlib.pyplot as plt
import pandas as pd
import pytest
import torch

from causalnb.errors import LabError
from causalnb.experiments.iclm import grid as iclm_grid
from causalnb.experiments.iclm.artefacts import fig8, scores, table4, table5, table6, table7
from causalnb.experiments.iclm.artefacts import variants as made
from causalnb.iclm import ProbabilityAggregation
from causalnb.lab import building, evidence, figures, registry
from causalnb.lab.statistics import mean_ci, paired, share_ci
from causalnb.lab.tables import estimate, points
from causalnb.lab.verdicts import claims, decide
from tests.unit.experiments.iclm_made_up import STEPS, information, real, store
from tests.unit.experiments.made_up import number, wide


@pytest.fixture(scope="module", autouse=True)
def stored(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch, evidence.stored_only():
        store(patch, tmp_path_factory.mktemp("iclm"))
        yield
    plt.close("all")


TABLES = (table4, table5, table6, table7)


def accuracies(family, arm, seed, score="exact"):
    return [
        number(scores.home(family, arm), arm, seed, f"{cell}_{format}", score)
        for cell, format in scores.headings(family).values()
    ]


def by_label(table) -> dict[str, dict]:
    return {row[0]: dict(zip(table.columns, row, strict=False)) for row in table.rows}


def test_a_table_has_the_papers_rows_and_ours():
    rows = by_label(table4.scores())
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
    assert ours["ACRE-Comp Symb"] == estimate(share_ci([one[3] for one in each]))
    assert ours["mean of 6"] == estimate(share_ci([*map(mean, each)])) and len(each) == 4


def test_the_formats_are_apart_by_the_shares_of_the_modules():
    rows = by_label(table4.scores())
    apart = rows["ours: ICLM-K-Means, exact"]["formats apart"]
    assert apart == "0.750 ± 0.000 (3)"  # shares of 7/8 and 1/8, in turn
    assert rows["ours: ICLM-Weighted, exact"]["formats apart"] == "soft"  # the largest weight is no route


def test_raven_is_scored_twice():
    rows = by_label(table7.scores())
    chosen = rows["ours: ICLM-Logits, choice of eight"]
    each = [accuracies("raven", "logit", seed, "choice")[2] for seed in range(3)]
    assert chosen["RAVEN-Four Text"] == estimate(share_ci(each))
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
    table = table6.scores()
    rows, vocabulary = by_label(table), made.vocabularies()
    assert rows["paper: ICLM-Probas"]["floor, nats"] == "8.18" and vocabulary["LLaMA2"] == 32_000
    ours = rows["ours: ICLM-Probas, exact"]
    assert ours["floor, nats"] == f"{math.log((vocabulary['ours'] + 8) / 9):.2f}"
    assert ours["loss at the end, nats"] == f"{3 - STEPS[-1] / 500:.3f} ± 0.000 (3)"
    assert rows["ours: ICLM, exact"]["floor, nats"] == "" and f"V = {vocabulary['ours']}" in table.notes


def test_contrasts_pair_seeds_with_the_default():
    rows = by_label(table5.contrasts())
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
    found = [[1, 1.1, 0.9], [-1, -1.1, -0.9], [-1, 0, 1], [2, 2.1, 2]]
    assert made.sides(map(mean_ci, found)) == "2 above, 1 below"


@pytest.mark.parametrize("table", TABLES)
def test_the_claims_are_those_of_the_table(table):
    family, rows = table.made.family, claims("iclm").set_index("id")
    score = {"acre": "exact", "raven": "choice"}[family]
    six = "+".join(f"{cell}_{format}_{score}" for cell, format in scores.headings(family).values())
    claimed = [row for row in table.contrasts.all_rows() if row.claim]
    assert {row.claim for row in claimed} == set(rows.index[rows["artefact"] == table.made.id])
    for row in claimed:
        claim = rows.loc[row.claim]
        assert claim["our_metric"] == six and set(claim["our_treatment"].split("+")) <= set(table.made.arms)
        assert decide(claim).summary.mean == pytest.approx(100 * row.value.summary().mean)  # in points


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
        f"{cell}_{format}_{score}"
        for cell, format in scores.headings(family).values()
        for score in made.SCORES[family]
    }
    assert wanted <= set(wide(found["metrics"])) and {"step", "loss", "forward"} <= set(found["history"][0])
    places = scores.headings(family).values()
    assert all("module1" in found["metrics"][f"{cell}/{format}"] for cell, format in places)


def test_remarks_give_both_numbers():
    first, second = table4.remarks()
    assert first.startswith("ICLM-Weighted differs from ICLM on ACRE by ") and "+9.6." in first
    assert "K-Means" in second


# figure 8


def test_a_spike_stands_above_its_neighbours():
    curve = pd.Series([1.0, 1, 1, 4, 1, 1, 1.4], index=range(0, 70, 10))
    assert fig8.spikes(curve) == fig8.Spikes(1, 4.0) and fig8.spikes(curve[::-1]) == fig8.spikes(curve)
    assert fig8.spikes(curve, after=40) == fig8.Spikes(0, pytest.approx(1 / 1.2))  # 1 before 1 and 1.4
    assert fig8.spikes(curve, factor=4.1).count == 0
    assert fig8.spikes(pd.Series([16.0, 8, 4, 2, 1])) == fig8.Spikes(0, pytest.approx(8 / 16))  # a fall
    assert fig8.spikes(pd.Series([1.0, 1, 1, 4, 4, 1, 1, 1])).count == 2  # both of a wide one
    with pytest.raises(LabError, match="2 evaluations"):  # as of a quick run, which notebook 34 then tells
        fig8.spikes(curve[:2])


def test_the_steadier_aggregation_has_fewer_spikes():
    rows = fig8.spikes_table().rows
    spike = information("logit", 240) / information("logit", 160)  # of 120, 160, 200
    at = {row[1]: row for row in rows if row[0] == "RAVEN"}
    assert at["logits"][3].startswith("1.000 ") and at["logits"][4] == f"{spike:.2f}"
    assert at["one head for both"][3].startswith("0.000 ") and at["one head for both"][2] == "0.0091"
    assert fig8.steadier.of() == [-1, -1, -1] and rows[-1][4] == "reproduced" and fig8.spike_start() == 100


def test_curves_are_drawn_for_each_aggregation():
    fig, alt = fig8.curves_figure()
    assert [ax.get_title() for ax in fig.axes] == ["ACRE", "RAVEN"]
    lines = {line.get_label(): line.get_ydata() for line in fig.axes[1].lines}
    assert lines["logits"][5] == pytest.approx(information("logit", 240))
    assert fig.axes[0].get_xscale() == "log"
    assert "probabilities 0.0091" in alt and "step 100" in alt


# all of them


def test_every_artefact_is_built(monkeypatch):
    monkeypatch.setattr(figures, "render", lambda fig, format: b"a picture")
    for id in (*(table.made.id for table in TABLES), "iclm.fig8"):
        assert all(file.is_file() for file in building.build(id))
        assert registry.find(id).notebook == "34_routing_and_variants"


@pytest.mark.parametrize(
    "make",
    [
        table4.scores,
        table7.contrasts,
        lambda: made.final_loss("acre", made.SOFT),
        fig8.curves_figure,
        fig8.spikes_table,
    ],
)
def test_missing_results_are_named(make, tmp_path, monkeypatch):
    monkeypatch.setenv("CAUSALNB_RESULTS", str(tmp_path))
    plt.close("all")
    with pytest.raises(LabError, match=r"results of iclm\.\S+ are not there: `causalnb run iclm"):
        make()
    assert not plt.get_fignums()  # a notebook would show a figure that was begun


def test_columns_are_the_papers():
    for table in TABLES:
        assert [*made.printed_rows(table.made.id)] == [made.NAMES[arm] for arm in ("iclm", *table.made.arms)]
        assert set(table.made.arms) <= set(iclm_grid.VARIANTS)
