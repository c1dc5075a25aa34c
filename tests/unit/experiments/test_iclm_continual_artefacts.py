"""Table 2 and Figures 16 and 17 of ICLM say what the stored results say: checked on results made up here."""

import math
from statistics import mean

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from causalnb.errors import LabError
from causalnb.experiments.iclm import grid as iclm_grid  # noqa: F401  (registers the experiments)
from causalnb.experiments.iclm.artefacts import continual as made
from causalnb.experiments.iclm.artefacts import fig16, forgetting, layers, scores, table2
from causalnb.lab import building, evidence, figures, registry, results, runner
from causalnb.lab.statistics import mean_ci, paired, share_ci
from causalnb.lab.tables import percent, points
from causalnb.lab.verdicts import claims, decide
from tests.unit.experiments.made_up import counted, number, wide, write

SEEDS = {made.CONTINUAL: 3, "iclm.acre": 4, "iclm.raven": 4}
LAYERS = 5
NAMES = ("router", "invariant", "0", "1", "2", "3")
RAVEN = ("center", "four", "in_center")
SERVES = {"text": 1, "symbolic": 3}  # the modules that ACRE uses, here


def made_scores(cells, arm: str, seed: int, place: str) -> dict:
    """Made-up scores of some cells; inputs go to the module that serves their format, RAVEN's mostly to 0."""
    found = {}
    for cell in cells:
        for format in scores.FORMATS:
            name, its = (
                f"{place}{cell}/{format}".replace("/", "_"),
                found.setdefault(f"{place}{cell}/{format}", {}),
            )
            kinds = ("exact", *["choice"] * (cell in RAVEN))
            kinds += () if arm == "finetuned" else ("invariant", "domain")
            kinds += ("invariant_choice", "domain_choice") if arm != "finetuned" and cell in RAVEN else ()
            its |= {kind: number(arm, seed, name, kind) for kind in kinds}
            if arm != "finetuned":
                own = SERVES[format] if "acre" in place else 0
                its |= {f"module{i}": 0.1 + 0.6 * (i == own) for i in (0, SERVES[format], 2)}
                its |= {f"module{i}": its.get(f"module{i}", 0.0) for i in range(4)}
                if own == 0:
                    its["module0"] = 0.8
                if "before" in place:  # nothing goes to modules 0 and 2 yet
                    its |= {f"module{i}": float(i == own) for i in range(4)}
    return found


def metrics(experiment: str, arm: str, seed: int) -> dict:
    config = registry.config(made.CONTINUAL, "iclm")
    if experiment != made.CONTINUAL:
        return made_scores(config[experiment.split(".")[1]]["cells"], arm, seed, "")
    acre, raven = (config[task]["cells"] for task in made.TASKS)
    places = [(acre, "before/acre/"), (acre, "after/acre/"), (raven, "after/raven/")]
    places += [(acre, f"{part}_back/acre/") for part in made.BACK if arm != "finetuned"]
    found = {
        cell: its for cells, place in places for cell, its in made_scores(cells, arm, seed, place).items()
    }
    for cell, its in found.items():
        if cell.startswith("after/acre/") and arm != "finetuned":
            its["served"] = number(arm, seed, f"{cell}/served")
    return found


def correlations(a: str, b: str, layer: int, seed: int) -> list[float]:
    """Module 2 has next to none, in seeds 0 and 1; all else 0.8, less between layers far apart."""
    apart = 0.1 if "2" in (a, b) and seed < 2 else 0.8
    return [1.0 if a == b and to == layer else apart - 0.02 * abs(to - layer) for to in range(LAYERS)]


def history(arm: str, seed: int) -> list[dict]:
    rows = [{"task": task, "step": 20, "loss": 1.0, "exact": 0.5} for task in made.TASKS]
    if arm != "iclm":
        return rows
    config = registry.config(made.CONTINUAL, "iclm")
    return rows + [
        {
            "task": task,
            "cell": cell,
            "pair": f"{a}|{b}",
            "layer": layer,
            **{f"to_{to}": value for to, value in enumerate(correlations(a, b, layer, seed))},
        }
        for task in made.TASKS
        for cell in config[task]["cells"]
        for i, a in enumerate(NAMES)
        for b in NAMES[i:]
        for layer in range(LAYERS)
    ]


@pytest.fixture(autouse=True)
def stored(tmp_path, monkeypatch):
    for name in ("RESULTS", "FIGURES", "CACHE"):
        monkeypatch.setenv(f"CAUSALNB_{name}", str(tmp_path / name.lower()))
    for id, seeds in SEEDS.items():
        spec = counted(monkeypatch, id, seeds)
        for arm in spec.arms if id == made.CONTINUAL else ("iclm", "finetuned"):
            for seed in range(seeds):
                past = history(arm, seed) if id == made.CONTINUAL else []
                write(spec, arm, seed, metrics(id, arm, seed), past)
    with evidence.stored_only():
        yield
    plt.close("all")


def values(name: str, arm: str = "iclm", seeds: int = 3, experiment: str = made.CONTINUAL) -> list[float]:
    return [wide(metrics(experiment, arm, seed))[name] for seed in range(seeds)]


def by_label(table) -> dict[str, dict[str, str]]:
    return {row[0]: dict(zip(table.columns, row, strict=False)) for row in table.rows}


def test_table_2_has_the_papers_rows_and_ours():
    table = table2.continual_table()
    rows, heads = by_label(table), table.columns[2:]
    assert heads[0] == "ACRE Text" and heads[-1] == "RAVEN-In-Center Symb" and len(heads) == 12
    assert len([name for name in rows if name.startswith("paper")]) == 5
    sequential = rows["paper: LLaMA2-Finetuned-Sequential"]
    assert (sequential["ACRE Symb"], sequential["RAVEN-In-Center Symb"]) == ("37.6", "6.9")
    assert rows["paper: ICLM ACRE"]["RAVEN Text"] == "" and rows["paper: ICLM RAVEN"]["RAVEN Text"] == "100.0"
    ours = rows["ours: ICLM"]
    said = percent(share_ci(values("after_raven_in_center_text_exact")))
    assert ours["seeds"] == "3" and ours["RAVEN-In-Center Text"] == said.removesuffix(" (3)")
    alone = rows["ours: ICLM RAVEN only, N = 2"]
    told = percent(share_ci(values("four_symbolic_exact", seeds=4, experiment="iclm.raven")))
    assert alone["seeds"] == "4" and alone["RAVEN-Four Symb"] == told.removesuffix(" (4)")
    assert alone["ACRE Text"] == ""


@pytest.mark.parametrize(
    "label, column, metric, arm",
    [
        ("ICLM before RAVEN, N = 4", "ACRE-Sys Text", "before_acre_Sys_text_exact", "iclm"),
        ("ICLM, likeliest of eight", "RAVEN-Four Text", "after_raven_four_text_choice", "iclm"),
        ("ICLM, ACRE's part kept", "ACRE-Comp Symb", "after_acre_Comp_symbolic_exact", "kept"),
        ("ICLM-Invariant", "ACRE Text", "after_acre_IID_text_invariant", "iclm"),
        ("ICLM-Domain", "RAVEN Symb", "after_raven_center_symbolic_domain", "iclm"),
        ("Finetuned-Sequential", "RAVEN Text", "after_raven_center_text_exact", "finetuned"),
    ],
)
def test_a_row_of_ours_is_its_metric(label, column, metric, arm):
    row = by_label(table2.continual_table())[f"ours: {label}"]
    assert row[column] == percent(share_ci(values(metric, arm))).removesuffix(" (3)")


def test_seeds_are_counted_in_a_column_of_their_own_and_listed_in_a_cell():
    cell = table2.continual_table.columns[-1].format
    assert (cell([0.49, 0.5, 0.51]), cell([0.1, 0.9])) == ("50.0 ± 2.5", "50.0 (10.0, 90.0)")


def test_what_is_lost_and_what_comes_back_is_paired():
    table = forgetting.forgetting_table()
    rows = {tuple(row[:2]): dict(zip(table.columns, row, strict=False)) for row in table.rows}
    sets = ("IID", "Comp", "Sys")

    def means(when, arm="iclm"):
        return [
            mean(one)
            for one in zip(*(values(f"{when}_acre_{cell}_text_exact", arm) for cell in sets), strict=False)
        ]

    iclm = rows["ICLM", "text"]
    assert iclm["before RAVEN"] == percent(share_ci(means("before")))
    assert iclm["lost"] == points(mean_ci(paired(means("before"), means("after"))))
    assert iclm["head back"] == points(mean_ci(paired(means("head_back"), means("after"))))
    assert iclm["serving module back"] == points(mean_ci(paired(means("served_back"), means("after"))))
    alone = rows["Finetuned-Sequential", "text"]
    assert alone["router back"] == "" and alone["after"] == percent(share_ci(means("after", "finetuned")))
    assert len(rows) == 6


def test_the_module_that_served_is_asked_again():
    table = forgetting.alone_table()
    rows = {tuple(row[:3]): dict(zip(table.columns, row, strict=False)) for row in table.rows}
    assert len(rows) == 8

    def means(name):
        return [
            mean(one)
            for one in zip(
                *(values(name.format(cell), "kept") for cell in ("IID", "Comp", "Sys")), strict=False
            )
        ]

    line = rows[made.ROUTED["kept"], "symbolic", "serving"]
    before, after = means("before_acre_{}_symbolic_domain"), means("after_acre_{}_symbolic_served")
    assert line["after"] == percent(share_ci(after))
    assert line["lost"] == points(mean_ci(paired(before, after)))


def test_remarks_name_the_part_that_brings_most_back(monkeypatch):
    def found(profile=None):
        lost = {
            "lost": [0.3, 0.32, 0.31],
            "router": [0.0, 0.01, 0.0],
            "domains": [0.2, 0.21, 0.2],
            "invariant": [0.05, 0.04, 0.05],
            "head": [0.1, 0.1, 0.09],
        }
        return {
            ("iclm", "text"): lost,
            ("kept", "text"): {**lost, "lost": [0.1, -0.1, 0.0]},
            ("finetuned", "text"): {"lost": lost["lost"]},
        }

    def before(profile=None):
        return {key: {"before": {2: 0.5, 0: 0.4, 1: 0.2}} for key in found()}

    monkeypatch.setattr(forgetting, "losses", found)
    monkeypatch.setattr(forgetting, "forgetting", before)
    first, second, third, runs = forgetting.forgetting_remarks()
    assert "most comes back with the domains (+20.3" in first and first.endswith("least with the router.")
    assert "does not show a loss; by seed +10.0 of 40.0, -10.0 of 20.0, +0.0 of 50.0." in second
    assert third.startswith("Finetuned-Sequential, text: +31.0") and "back" not in third
    assert "of the 4 losses of 10 points or more" in runs
    assert "most comes back with the domain modules in 4; both arms share their first stages" in runs


def test_the_picture_of_forgetting_has_every_score():
    fig, alt = forgetting.forgetting_figure()
    assert len(fig.axes) == 2 and len(fig.axes[0].get_yticks()) == 5
    printed = mean((0.653, 0.663, 0.634))
    assert f"text, paper: ICLM: before {100 * printed:.1f}, after 8.6" in alt
    back = mean(
        mean(values(f"router_back_acre_{cell}_symbolic_exact", "kept")) for cell in ("IID", "Comp", "Sys")
    )
    assert f"router back {100 * back:.1f}" in alt
    for format in ("text", "symbolic"):
        score = {
            when: 100 * mean(each.values()) for when, each in forgetting.forgetting()["iclm", format].items()
        }
        back = max(score[f"{part}_back"] for part in forgetting.BACK) - score["after"]
        said = f"{format} {score['after'] - score['before']:+.0f}, {back:+.0f} ("
        assert said in fig.get_suptitle().replace("\n", " ")
    seeds = [line.get_xdata() for line in fig.axes[1].lines if len(line.get_xdata()) == 3]
    assert len(seeds) == 6  # of our three models, before and after
    found = forgetting.forgetting()["kept", "symbolic"]["after"]
    assert any(sorted(one) == pytest.approx(sorted(100 * value for value in found.values())) for one in seeds)


def test_modules_of_the_first_task_are_those_with_a_share():
    rows = made.rows_of("iclm")
    assert made.first_task_modules(rows) == dict.fromkeys(range(3), [1, 3])
    shares = table2.routing_shares(rows)
    # of ACRE: text 0.7 to module 1 and none to 3, symbolic the same with 3; before, all
    assert shares["first"] == pytest.approx(dict.fromkeys(range(3), 0.7))
    assert shares["overlap"] == pytest.approx(dict.fromkeys(range(3), 0.7))
    assert shares["second"] == pytest.approx(dict.fromkeys(range(3), 0.1))
    assert [row[:3] for row in table2.routing_table().rows][0] == ["ICLM", "text", "2.0"]


def test_panels_stand_in_the_papers_order():
    tables = made.layer_tables("acre")
    pairs = fig16.panels(tables)
    assert len(pairs) == 21 and pairs[0] == ("router", "router") and pairs[6] == ("invariant", "invariant")
    assert pairs[11:15] == [(i, i) for i in "0123"] and pairs[15] == ("0", "1") and pairs[-1] == ("2", "3")
    assert all(table.shape == (LAYERS, LAYERS) for table in tables.values())
    np.testing.assert_allclose(tables["0", "1"][3], correlations("0", "1", 3, 0))


def test_ties_by_hand():
    own = np.array([[1, 0.4], [0.4, 1]])
    flat = {
        pair: np.full((2, 2), value)
        for pair, value in {("router", "0"): 0.2, ("router", "1"): 0.6, ("0", "1"): 0.4}.items()
    }
    found = fig16.ties({("router", "router"): own, ("0", "0"): own, ("1", "1"): np.ones((2, 2)), **flat})
    assert found["0"] == pytest.approx((0.4, 0.3)) and found["1"] == pytest.approx((1.0, 0.5))
    assert fig16.shares_of_others(found) == pytest.approx({"0": 0.35 / 0.75, "1": 0.75 / 0.35})


def test_a_collapsed_module_is_named():
    rows = fig16.ties_table("acre")().rows
    assert [(row[0], row[1]) for row in rows if row[-1] == "yes"] == [(0, "Dom 2"), (1, "Dom 2")]
    assert rows[1][5:7] == ["35", "5"]  # module 1: of text alone, 0.7 of ACRE and 0.1 of RAVEN
    contrast = fig16.collapse_contrast("acre")
    assert contrast[0] < 0 < contrast[2]
    fig, alt = fig16.layers_figure("acre", seed=1)
    images = fig.axes[0].images
    assert len(images) == 21 and {image.get_clim() for image in images} == {(-1, 1)}
    np.testing.assert_allclose(images[15].get_array(), made.layer_tables("acre", seed=1)["0", "1"])
    assert "(p) Dom 0-Dom 1" in [text.get_text() for text in fig.axes[0].texts]
    assert "seed 1; their means: Router-Router" in alt


def test_claims_are_decided_by_their_contrast():
    found = table2.claims.verdicts()
    assert [*found] == [f"iclm.claim{number}" for number in range(12, 18)]
    gain = paired(
        values("after_raven_in_center_text_choice"),
        values("in_center_text_choice", seeds=3, experiment="iclm.raven"),
    )
    assert found["iclm.claim12"].summary.mean == pytest.approx(100 * mean_ci(gain).mean)
    dropped = [
        paired(values(f"before_acre_IID_{format}_exact"), values(f"after_acre_IID_{format}_exact"))
        for format in ("symbolic", "text")
    ]
    assert found["iclm.claim15"].summary.mean == pytest.approx(100 * mean_ci(paired(*dropped)).mean)
    assert found["iclm.claim16"].label == "reproduced"  # 0.1 of RAVEN in ACRE's modules, in every seed
    assert found["iclm.claim16"].summary.mean == pytest.approx(-80)
    assert found["iclm.claim17"].label == "undecided"  # two of three seeds
    rows = claims("iclm").set_index("id", drop=False)
    assert all(decide(rows.loc[id]).label in ("not attempted", one.label) for id, one in found.items())


def test_controls_stand_beside_the_claims():
    rows = table2.claims().rows
    assert len(rows) == 6 + len(table2.CONTROLS)
    routed = table2.claims.verdicts()["iclm.claim16"].summary
    assert rows[4][3] == f"{routed.mean:+.1f} [{routed.low:+.1f}, {routed.high:+.1f}] ({routed.n})"
    gain = paired(
        values("after_raven_in_center_text_choice", "finetuned"),
        values("in_center_text_choice", "finetuned", experiment="iclm.raven"),
    )
    assert rows[6][3] == points(mean_ci(gain)) and rows[6][4] in ("above 0", "below 0", "0 is inside")
    assert rows[0][2] == "+31.8" and rows[3][2] == "-51.5" and rows[4][2] == ""


def test_every_artefact_is_built_and_a_missing_result_is_named(monkeypatch):
    monkeypatch.setattr(figures, "render", lambda fig, format: b"drawn")  # all but the drawing, which is slow
    for id in ("iclm.table2", "iclm.forgetting", "iclm.fig16", "iclm.fig17"):
        assert all(file.is_file() for file in building.build(id))
    results.path(made.CONTINUAL, "kept", 1).unlink()
    with pytest.raises(LabError, match="1 of 3 quick results of iclm.continual are not there"):
        forgetting.forgetting_table()
    with pytest.raises(LabError, match="iclm.continual"):
        table2.claims()


def test_the_claims_metrics_are_measured(tmp_path, monkeypatch):
    """Of a real quick run of each arm."""
    monkeypatch.setenv("CAUSALNB_RESULTS", str(tmp_path / "real"))
    rows = claims("iclm").set_index("id", drop=False)
    named = rows[rows.artefact.isin(["iclm.table2"]) & rows.experiment.notna()]
    contrasts = list(zip(named.our_treatment, named.our_baseline, named.our_metric, strict=False))
    asked = {}
    for treatment, baseline, metric in contrasts:
        ours, _, theirs = metric.partition("|")
        for arm, names in ((treatment, ours), (baseline, theirs or ours)):
            experiment, _, arm = arm.rpartition(":")
            place = asked.setdefault((experiment or made.CONTINUAL, arm), set())
            place.update(names.replace("+", "-").split("-"))
    parts = [part for difference in table2.CONTROLS.values() for part in difference.parts]
    for part in parts:
        asked.setdefault((part.experiment, part.name), set())
    assert len(named) == 4 and len(asked) == 5
    for (experiment, arm), names in asked.items():
        runner.execute(experiment, arm, 0, "quick", lambda *_: None)
        found = results.read(experiment, arm, 0, "quick")
        assert names <= set(wide(found.rows))
        if (experiment, arm) == (made.CONTINUAL, "iclm"):
            rows = results.curves(experiment, "quick", ["iclm"])
            pairs = layers.tables_of(rows[rows.task == "raven"], "center")
            assert set(pairs) == {(a, b) for i, a in enumerate(NAMES) for b in NAMES[i:]}
    for part in parts:
        rows = results.long(part.experiment, "quick", [part.name])
        assert [*part.metric.read(rows).index] == [0]


def test_a_metric_is_the_mean_over_its_places_by_seed():
    rows = pd.DataFrame(
        [
            (1, "IID/symbolic", "exact", 0.25),
            (0, "after/acre/IID/text", "exact", 0.5),
            (1, "IID/text", "exact", 0.75),
            (0, "IID/text", "exact", 1.0),
            (0, "IID/symbolic", "exact", float("nan")),
            (0, "Sys/text", "exact", 0.0),
            (0, "IID/text", "choice", 0.0),
            (0, "", "exact", 0.0),
        ],
        columns=["seed", "cell", "measure", "value"],
    )
    found = scores.scored("exact", "IID").read(rows).to_dict()
    assert found == pytest.approx({0: math.nan, 1: 0.5}, nan_ok=True)  # what diverged is no score
    assert scores.scored("exact", "IID", "text", "after").read(rows).to_dict() == {0: 0.5}
    with pytest.raises(LabError, match="there is no 'exact' of Comp"):
        scores.scored("exact", "Comp").read(rows)
    with pytest.raises(LabError, match="there are two 'exact' of IID/symbolic: name their tasks apart."):
        scores.scored("exact", "IID").read(pd.concat([rows, rows]))
