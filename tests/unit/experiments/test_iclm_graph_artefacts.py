"""What is drawn and tabulated of ICLM's graphs, and interventions on real training steps against them."""

import csv

import matplotlib.pyplot as plt
import pytest
import torch

from causalnb.errors import LabError
from causalnb.experiments.iclm import interventions
from causalnb.experiments.iclm.artefacts import claims_graph
from causalnb.experiments.iclm.artefacts import graphs as artefacts
from causalnb.experiments.iclm.artefacts import interventions as effect
from causalnb.iclm import Node, check_claims, graphs, temporal_graph
from causalnb.lab import building, records, registry
from causalnb.paths import figures_dir

SHORT = {"steps": 3}


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def by_part(rows):
    """{part: changes after each step}."""
    return {
        part: [row["change"] for row in rows if row["part"] == part]
        for part in dict.fromkeys(row["part"] for row in rows)
    }


# Interventions: (arm, parts that stay as they are, bit by bit, for so many steps)


@pytest.mark.parametrize(
    "arm, still",
    [
        ("no_invariant", {"domain_1": 3, "router": 3}),
        ("no_invariant_mixed", {"domain_1": 3, "router": 3}),
        ("no_invariant_norm", {"domain_1": 3, "router": 3}),
        ("no_invariant_norm_mixed", {"router": 3}),
        ("no_invariant_head", {"domain_1": 1, "router": 3}),
        ("no_invariant_clip", {"domain_1": 1}),
        ("no_invariant_soft", {}),
        ("invariant", {"domain_1": 1, "router": 3}),
        ("invariant_clip", {"domain_1": 1}),
        ("invariant_soft", {}),
        ("information", {"domain_1": 1, "router": 3}),
        ("do_invariant", {"domain_1": 1, "router": 3}),
        ("paper", {"domain_1": 1, "router": 3}),
    ],
)
def test_weights_change_where_the_graph_lets_them_and_nowhere_else(arm, still):
    rows = interventions.intervene(arm, **SHORT)
    for part, changes in by_part(rows).items():
        assert [change == 0 for change in changes] == [step < still.get(part, 0) for step in range(3)], part
    assert [bool(row["path"]) for row in rows] == [row["change"] > 0 for row in rows]


def test_a_change_below_the_rounding_of_single_precision_is_still_a_change():
    """With clipping a path reaches domain 1, and the effect is some 1e-7 of a weight."""
    rows = interventions.intervene("no_invariant_clip", **SHORT)
    assert 0 < by_part(rows)["domain_1"][1] < 1e-5 < by_part(rows)["router"][1]
    single = interventions.intervene("no_invariant", precision="float32", **SHORT)
    assert by_part(single)["domain_1"] == [0, 0, 0]


def test_a_fault_that_joins_modules_is_seen(monkeypatch):
    """Were the weights of module 1 moved by its neighbour's, a cell that the graph separates would change."""
    honest = interventions.weights

    def joined(model):
        found = honest(model)
        return found | {"WS1": found["WS1"] + 1e-12 * found["WS0"]}

    monkeypatch.setattr(interventions, "weights", joined)
    assert interventions.metrics(interventions.intervene("no_invariant", steps=2))["broken"] == 2


def test_minimised_information_does_not_separate():
    """After training with a strong loss the states share little, and a change passes on as before."""
    changes = dict(before=20, steps=2)
    plain, strong = (
        interventions.metrics(interventions.intervene(arm, **changes))
        for arm in ("later_without", "later_strong")
    )
    assert strong["information"] < plain["information"] / 3
    assert strong["share"] > 0.3 and strong["domain_1"] > 0
    assert plain["broken"] == strong["broken"] == 0


def test_the_graph_is_that_of_the_model():
    alone = interventions.graph(interventions.settings("no_invariant"))
    assert not {"HI", "WI", "WO", "LI", "G"} & {node.kind for node in alone}
    head = interventions.graph(interventions.settings("no_invariant_head"))
    assert head.has_edge(Node("LY", 0, None, 0), Node("WO", 1))
    mixed = interventions.graph(interventions.settings("no_invariant_norm_mixed"))
    assert mixed.has_edge(Node("HS", 0, None, 0), Node("Y", 0, None, 1)) and Node("WO", 0) not in mixed
    later = interventions.graph(interventions.settings("later"))
    assert max(node.step for node in later) == 2 and later.has_edge(Node("LI", 0, 0), Node("WI", 1))
    assert not later.has_edge(Node("LI", 0, 0), Node("WS", 1, 1))


@pytest.mark.parametrize("arm", ["later", "no_invariant_mixed"])
def test_batches_hold_the_domains_of_the_plan(arm):
    config = interventions.settings(arm)
    found = interventions.batches(config, 3)
    assert len(found) == config["before"] + config["steps"]
    for domains, batch in zip(interventions.plan(config), found, strict=False):
        halves = (batch["input_ids"] >= interventions.VOCABULARY // 2).long()
        assert halves[:, 0].tolist() == sorted(list(domains) * (interventions.ROWS // len(domains)))
        assert torch.equal(halves, halves[:, :1].expand_as(halves))
        assert (batch["labels"] == -100).sum(1).tolist() == [interventions.TOKENS - interventions.ANSWER] * 4
    assert not torch.equal(found[0]["input_ids"], interventions.batches(config, 4)[0]["input_ids"])


def test_bad_settings_are_refused():
    with pytest.raises(LabError, match="no intervention 'noise': choose among no_invariant"):
        interventions.intervene("noise")
    with pytest.raises(LabError, match="no setting 'lrate': there are invariant, epsilon"):
        interventions.intervene("invariant", lrate=1)


def test_a_batch_that_is_routed_elsewhere_is_refused(monkeypatch):
    honest = interventions.batches
    monkeypatch.setattr(
        interventions, "batches", lambda config, seed: honest(config, seed)[:: -1 if seed == 0 else 1]
    )
    with pytest.raises(LabError, match=r"step 0 was routed to \[1, 1, 1, 1\]: lower lr or take another seed"):
        interventions.intervene("no_invariant", 0, steps=2)


# Tables and figures


def rows_of(table):
    return {next(iter(row.values())): row for row in csv.DictReader(table.csv().splitlines())}


def test_the_claims_as_a_table():
    table = claims_graph.claims_table()
    found = {
        name: "".join({"holds": "h", "": "-"}.get(cell) or cell[-1] for cell in list(row.values())[1:])
        for name, row in rows_of(table).items()
    }
    assert list(found.values()) == [
        "hhhh",
        "h-1-",
        "h-h-",
        "h-1-",
        "h-h-",
        "h-1-",
        "h-2-",
        "1-2-",
        "1-1-",
        "hh21",
        "1121",
        "1111",
        "hh11",
        "hh21",
        "1111",
        "1111",
    ]
    assert list(found) == list(claims_graph.SETTINGS) and "do(HSm)" in table.columns[3]
    paths = claims_graph.paths_table().rows
    fails = [
        one
        for name in claims_graph.SETTINGS
        for one in check_claims(claims_graph.graph_of(name))
        if not one.holds
    ]
    assert len(paths) == len(fails) > 20 and all(" > " in path for _, _, path in paths)


def test_symbols_are_those_of_the_figures():
    printed = [
        artefacts.label(node, True, False)
        for node in (
            Node("HS", 0, 0),
            Node("LY", -1),
            Node("LR", 0),
            Node("YT", 0),
            Node("C", 0),
            Node("WR", 0),
        )
    ]
    assert printed == [
        "$H_{S_n}$",
        r"$L_{Y}^{\tau-1}$",
        r"$L_{R}^\tau$",
        r"$Y_{\mathrm{true}}$",
        "$C$",
        "$W_{R}$",
    ]
    assert artefacts.label(Node("WS", 3, 1)) == "$W_{S_1}$" and artefacts.label(Node("LY", 0)) == "$L_{Y}$"


@pytest.mark.parametrize("variants, links", [(("base",), 2), (graphs.VARIANTS, 7)])
def test_printed_graphs_are_drawn_edge_by_edge(variants, links):
    fig, alt = artefacts.printed_figure(variants)
    arrows = [patch for ax in fig.axes for patch in ax.patches]
    edges = sum(temporal_graph(one, 1, modules=1, literal=True).size() for one in variants)
    assert len(arrows) == edges
    dotted = [arrow for arrow in arrows if arrow.get_linestyle() == artefacts.EDGES["link"][1]]
    assert len(dotted) == links and alt.count("LY to LY") == len(variants)
    assert [text.get_text() for text in fig.legends[0].get_texts()] == [
        "forward pass",
        "backward pass",
        "to the next step",
    ]


def test_a_path_is_drawn_thick_and_named():
    graph = temporal_graph("base", 2, [0, 1])
    (path,) = (one.path for one in check_claims(graph) if not one.holds)
    fig, alt = artefacts.path_figure(graph, path, "Equation 8.")
    thick = [patch for patch in fig.axes[0].patches if patch.get_linewidth() > 2]
    assert len(thick) == len(path) - 1 and "HS0_0 > HS_0 > Y_0 > LY_0 > WI_1 > HI_1" in alt
    assert {"step 0", "step 1"} <= {text.get_text() for text in fig.axes[0].texts}
    assert "no path is marked" in artefacts.path_figure(graph, ())[1]


@pytest.fixture
def effects():
    return interventions.measure(["no_invariant", "invariant"], [0, 1], steps=2)


def test_effects_as_table_and_figure(effects):
    row = rows_of(effect.interventions_table(effects))
    alone, joined = row["no invariant module"], row["invariant module"]
    assert (alone["domain 1"], alone["router"], alone["invariant"]) == ("0", "0", "")
    assert joined["router"] == "0" and joined["domain 1"].endswith(" after 2")
    assert joined["domain 0"].endswith(" after 1") and alone["changed though separated"] == "0 of 8"
    fig, alt = effect.interventions_figure(effects)
    zeros = [text for text in fig.axes[0].texts if text.get_text() == "0"]
    assert len(zeros) == 4 + 3
    said = fig.get_suptitle().replace("\n", " ")
    assert said.startswith("Exactly 0: 7 of 7 cells") and said.endswith("0 of the 7 others")
    moved = effects.assign(change=effects.change.where(effects.step > 0, 1e-3))
    fig, _ = effect.interventions_figure(moved)
    assert fig.get_suptitle().startswith("Exactly 0: 3 of 7 cells")
    assert "no invariant module: domain_1 1, domain_1 2, router 1, router 2; " in alt
    assert alt.endswith("invariant module: domain_1 1, router 1, router 2.")


def test_builders_save_what_they_promise():
    for id, suffixes in (("iclm.fig2", 2), ("iclm.fig6", 2), ("iclm.claims_graph", 8)):
        assert len(building.build(id)) == suffixes
    folder = figures_dir("quick") / "iclm"
    names = {file.name for file in folder.iterdir()}
    assert {"fig2.svg", "fig6.png", "claims_graph.svg", "claims_graph_paths.md"} <= names


def test_a_run_stores_effects(effects, tmp_path):
    run = registry.Run(
        "iclm.interventions",
        "invariant",
        0,
        "quick",
        interventions.settings("invariant", steps=2),
        tmp_path,
        "cpu",
        lambda *_: None,
    )
    found = interventions.run_interventions(run)
    its = found["metrics"][""]
    assert its["router"] == its["broken"] == 0 < its["domain_1"]
    stored = records.plain(found["history"])
    live = effects[(effects.arm == "invariant") & (effects.seed == 0)]
    assert [row["change"] for row in stored] == live.change.tolist()
    assert registry.config("iclm.interventions", "later_strong")["epsilon"] == 100.0
