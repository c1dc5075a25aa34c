"""Table 3 and Figures 3, 4 and 7 of ICLM say what the stored results say: checked on results made up here."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from causalnb.errors import LabError
from causalnb.experiments.iclm import grid as iclm_grid  # noqa: F401  (registers the experiments)
from causalnb.experiments.iclm.artefacts import controls, fig3, fig4, fig7, scores, table3, training
from causalnb.lab import building, evidence, figures, registry, results
from causalnb.lab.statistics import mean_ci, share_ci
from causalnb.lab.tables import estimate
from tests.unit.experiments.iclm_made_up_scores import history, sent, store
from tests.unit.experiments.made_up import number

SEEDS = 2  # in the second one the modules have changed places


@pytest.fixture(scope="module", autouse=True)
def stored(tmp_path_factory):
    folder = tmp_path_factory.mktemp("independence")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("RESULTS", "FIGURES", "CACHE"):
            patch.setenv(f"CAUSALNB_{name}", str(folder / name.lower()))
        store(patch, dict.fromkeys(training.NEEDS, SEEDS))
        with evidence.stored_only():
            yield


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def by_label(table) -> dict[str, dict[str, str]]:
    return {row[0]: dict(zip(table.columns, row, strict=True)) for row in table.rows}


# Routing


def test_the_symbolic_module_is_the_same_whatever_its_number():
    found = scores.rows_of("acre", "iclm")
    assert list(scores.symbolic_module(found, "acre")) == [0, 1]
    shares = table3.routed(found, "acre")
    shown = [sent("iclm.acre", "iclm", 0, "Sys", "text"), 1 - sent("iclm.acre", "iclm", 1, "Sys", "text")]
    assert list(shares["Sys", "text"]) == pytest.approx(shown) and max(shown) < 0.2
    assert (table3.split(shares, "Comp") > 0.8).all()


@pytest.mark.parametrize(
    "short, long, cut", [([1, 2, 3], [7, 9], 5), ([1, 2], [2, 4], 3), ([5], [5], 4), ([4, 9], [5, 30], 19.5)]
)
def test_a_cut_misses_as_few_as_it_can(short, long, cut):
    # [1, 2] and [2, 4] lose one at 1.5 and at 3, in the wider gap; [5] and [5] lose one anywhere
    assert table3.cut_between(short, long) == pytest.approx(cut)


def test_length_alone_splits_acre_and_not_prompts_of_equal_length():
    rows = table3.length_rows("acre", rows=12)
    free, ours, equal, fillers = rows.values()
    for cell in scores.SETS["acre"]:
        assert (
            table3.split(free, cell) == 1.0 and 0.3 < table3.split(ours, cell) < 0.9
        )  # compact rows overlap
        assert abs(table3.split(equal, cell)) < 0.3
        assert table3.split(fillers, cell) > 0.6  # what the length told is told by the fillers now
    cut, _ = table3.by_length(table3.printed_lengths("acre", 12))
    assert 372 < cut < 695  # the longest symbolic and the shortest prompt in text


def test_own_words_are_no_fillers():
    row = {
        "words": ["a", "_", "b", "_", ">", "on"],
        "answer": [False] * 5 + [True],
        "supervised": [False] * 5 + [True],
    }
    assert table3.own_words(row) == 3 / 5


def test_length_alone_takes_two_figures_in_symbols_for_text():
    shares = table3.by_length(table3.printed_lengths("raven", 12))[1]
    assert table3.split(shares, "center") == 1.0 and table3.split(shares, "in_center") == 0.0
    assert 0 < shares["four", "symbolic"] < 1


def test_table_3_has_the_papers_rows_and_all_controls():
    rows = by_label(table3.routing("acre", 12)())
    assert rows["paper: n=0"]["ACRE-Sys Symb"] == "1.0"
    shares = table3.routed(scores.rows_of("acre", "untrained"), "acre")
    assert rows["ours: untrained base, n=0"]["ACRE Symb"] == estimate(share_ci(shares["IID", "symbolic"]), 2)
    one, other = (rows[f"ours: ICLM, n={n}"]["ACRE Text"] for n in (0, 1))
    assert float(one[:4]) + float(other[:4]) == pytest.approx(1, abs=0.011)
    right = [
        np.mean(
            [
                number("iclm.controls.acre", "matched", seed, f"IID_{format}", "exact")
                for format in scores.FORMATS
            ]
        )
        for seed in range(SEEDS)
    ]
    assert rows["ours: equal lengths, n=0"]["exact, i.i.d."] == estimate(share_ci(right), 2)
    ours = [label for label in rows if label.startswith("ours") and label.endswith("n=0")]
    assert ours == [
        f"ours: {training.NAMES[arm]}, n=0" for arm in ("iclm", "uniform_start", "matched", "untrained")
    ]
    assert sum(label.startswith("length alone") for label in rows) == 3
    assert sum(label.startswith("fillers alone") for label in rows) == 1
    assert not any(label.startswith("paper") for label in by_label(table3.routing("raven", 12)()))


def test_the_remark_names_accuracy_beside_every_split():
    told = table3.routing_remark("acre")
    assert told.startswith("ACRE. ICLM: split 0.9") and "untrained base: split" in told
    assert told.endswith("paper's prompts alone: split 1.00.")


# In training


def test_measurements_are_those_of_their_step():
    found = training.measured("raven", "untrained")
    rows = [history("iclm.controls.raven", "untrained", seed) for seed in range(SEEDS)]
    assert list(training.at_end(found).pearson) == [one[9]["pearson"] for one in rows]
    assert list(training.at_step(found, 50).forward) == [one[2]["forward"] for one in rows]  # step 60
    assert list(training.at_step(found, 1e9).forward) == [one[9]["forward"] for one in rows]


def test_claims_are_decided_by_the_history_over_both_families():
    told = {claim: controls.contrast(claim).of() for claim in controls.CLAIMS}
    assert set(told) == {7, 18, 19, 20, 21, 22}
    scale = np.array([1.0, 1.1])
    assert told[18] == pytest.approx(list(scale * (0.04 - 0.4)))
    assert told[19] == pytest.approx(list(scale * (0.001 - 0.1)))
    assert told[20] == pytest.approx(list(scale * (0.1 / 9 - 0.1 / 10)))
    assert told[21] == pytest.approx(list(scale * 0.001 - 0.0001))
    sets = {"acre": ("IID", "Comp", "Sys"), "raven": ("center", "four", "in_center")}
    tested = [
        np.mean(
            [
                np.average(
                    [
                        number(f"iclm.{family}", "iclm", seed, cell, f"invariant|{domain}", 1, 1)
                        for cell in cells
                    ],
                    weights=(2, 1, 1),
                )  # i.i.d. as much as o.o.d.
                for family, cells in sets.items()
                for domain in (0, 1)
            ]
        )
        for seed in range(SEEDS)
    ]
    shares = table3.routed(scores.rows_of("acre", "iclm"), "acre")  # the i.i.d. set chose n=0 and is left out
    apart = [shares[cell, "symbolic"] - shares[cell, "text"] for cell in ("Comp", "Sys")]
    assert told[7] == pytest.approx(list(sum(apart) / 2))
    assert told[22] == pytest.approx(list(np.array(tested) - (0.5 + scale * 0.04)))
    rows = controls.claims()().rows
    assert len(rows) == 6 and all(": " in row[-1] for row in rows)


def test_every_claim_is_one_of_figure_3_4_7_or_table_3():
    from causalnb.lab.verdicts import claims

    rows = claims("iclm").set_index("id")
    places = {rows.loc[f"iclm.claim{claim}"].artefact for claim in controls.CLAIMS}
    assert places == {"iclm.table3", "iclm.fig3", "iclm.fig4", "iclm.fig7"}


def test_figure_3_has_the_control_in_every_panel():
    fig, alt = fig3.dependence_figure()
    titles = [ax.get_title() for ax in fig.axes]
    assert titles == [
        f"{family}: {what}"
        for family in ("ACRE", "RAVEN")
        for what in ("correlation of states", "mutual information")
    ]
    for ax in fig.axes:
        labels = [line.get_label() for line in ax.lines]
        assert {label.partition(":")[0] for label in labels} == {"ICLM", "untrained base"}
        assert ax.get_xscale() == "log"
    assert "ACRE, ICLM, Pearson's r: 0.92 at step 20, lowest 0.54, 0.54 at the end" in alt


def test_figure_7_shows_three_estimators_and_the_papers_floor():
    fig, alt = fig7.information_figure()
    left, right = fig.axes
    assert fig7.stated_floor() == 0.0001
    for ax in (left, right):
        assert len(ax.lines) == len(fig7.ESTIMATORS) + 2
        assert ax.get_xscale() == ax.get_yscale() == "log"
        assert [*ax.lines[-1].get_ydata()] == [0.0001, 0.0001]
    assert "the code's: 0.1" in alt and "lowest -0.00095" in alt


# At test time


def test_matrices_turn_with_the_modules_numbers():
    found = fig4.matrices("raven", "iclm")

    def of(seed, cells, pair):
        return np.mean([number("iclm.raven", "iclm", seed, cell, pair, 1, 1) for cell in cells])

    assert found["iid"][0, 0, 1] == pytest.approx(of(0, ["center"], "invariant|0"))
    assert found["iid"][1, 0, 1] == pytest.approx(of(1, ["center"], "invariant|1"))
    assert found["ood"][1, 2, 1] == pytest.approx(of(1, ["four", "in_center"], "0|1"))
    assert (found["ood"].transpose(0, 2, 1) == found["ood"]).all()


def test_figure_4_has_the_papers_numbers_over_ours_and_the_controls():
    printed = fig4.printed_matrices()
    assert printed["acre", "ood"].tolist() == [[1, 0.7, 0.69], [0.7, 1, 0.64], [0.69, 0.64, 1]]
    fig, alt = fig4.matrices_figure()
    panels = [ax for ax in fig.axes if ax.texts]
    assert len(panels) == 3 * 4
    assert [text.get_text() for text in panels[2].texts][1:3] == ["0.77", "0.79"]
    mean = fig4.matrices("acre", "untrained")["ood"].mean(0)
    assert f"untrained base, ACRE o.o.d.: Inv and Dom 0 {mean[0, 1]:.2f}" in alt
    each = [found.mean(0) for family in ("acre", "raven") for found in fig4.matrices(family, "iclm").values()]
    ours = np.mean([[one[0, 1], one[0, 2], one[1, 2]] for one in each])
    assert f"ICLM {ours:.2f}," in fig.get_suptitle() and "the paper 0.73," in fig.get_suptitle()


# Controls


def test_controls_show_accuracy_beside_independence():
    table = controls.controls_table()()
    arms = [registry.arms(f"iclm.controls.{family}") for family in ("acre", "raven")]
    assert len(table.rows) == 2 + sum(map(len, arms))
    rows = {tuple(row[:2]): dict(zip(table.columns, row, strict=False)) for row in table.rows}
    line = rows["RAVEN", "CKA in place of information"]
    last = [history("iclm.controls.raven", "aligned", seed)[9]["forward"] for seed in range(SEEDS)]
    assert line[controls.INFORMATION] == estimate(mean_ci(last), 5)
    right = [
        np.mean(
            [
                number("iclm.controls.raven", "aligned", seed, f"{cell}_{format}", "choice")
                for cell in ("four", "in_center")
                for format in scores.FORMATS
            ]
        )
        for seed in range(SEEDS)
    ]
    assert line["choice, o.o.d."] == estimate(share_ci(right))
    assert rows["ACRE", "ICLM"]["choice, o.o.d."] == ""
    assert set(training.NAMES) == {"iclm", *arms[0], *arms[1]}


def test_every_artefact_is_built(monkeypatch):
    saved = []
    monkeypatch.setattr(figures, "save_figure", lambda fig, id, **more: saved.append((id, more["alt"])))
    for module in (fig3, fig4, fig7):
        getattr(module, module.__name__.rpartition(".")[2])("quick")
    assert [id for id, _ in saved] == ["iclm.fig3", "iclm.fig4", "iclm.fig7"]
    for id in ("iclm.table3", "iclm.controls"):
        assert all(file.is_file() for file in building.build(id))


def test_a_missing_result_is_named():
    gone = results.path("iclm.controls.raven", "untrained", 1)
    kept = gone.read_bytes()
    gone.unlink()
    try:
        for make in (
            fig3.dependence_figure,
            fig4.matrices_figure,
            fig7.information_figure,
            controls.controls_table(),
            controls.claims(),
        ):
            with pytest.raises(LabError, match="iclm.controls.raven are not there"):
                make()
        assert not plt.get_fignums()  # a notebook would show what is left open
    finally:
        gone.write_bytes(kept)
