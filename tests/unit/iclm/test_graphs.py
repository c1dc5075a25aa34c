"""The graphs of Figures 2 and 6, edge by edge, and every verdict on Equations 5 to 8, cell by cell."""

import networkx as nx
import pytest

from causalnb.iclm import Node, check_claims, do, graphs, temporal_graph, without_links, witness

STEPS, TURNS, BOTH = 4, [0, 1, 0, 1], [[0, 1]] * 4

FORWARD = {  # a printed step with one domain module
    "no_invariant": "C>HR C>HS0 WR>HR WS0>HS0 HR>HS HS0>HS HS>Y Y>LY YT>LY HR>LR",
    "base": "C>HI WI>HI HI>Y",
    "mutual_information": "HI>LI HS0>LI",
}
BACKWARD = {"no_invariant": "LY>WS0 LR>WR", "base": "LY>WI", "mutual_information": "LI>WI LI>WS0"}
LINKS = {"no_invariant": "LY LR", "base": "", "mutual_information": "LI"}


def up_to(variant, edges):
    """The words of a variant and of those before it, which it extends."""
    return " ".join(edges[name] for name in graphs.VARIANTS[: graphs.VARIANTS.index(variant) + 1]).split()


def short(node):
    return str(node).rpartition("_")[0]


def spelt(path):
    return " > ".join(map(str, path))


@pytest.mark.parametrize("variant", graphs.VARIANTS)
def test_the_figures_edge_by_edge(variant):
    printed = temporal_graph(variant, 1, modules=1, literal=True)
    found = {kind: set() for kind in ("forward", "backward", "link")}
    for cause, effect, kind in printed.edges(data="kind"):
        found[kind].add((str(cause), str(effect)))

    def edges(words, before, after):
        return {(f"{a}_{before}", f"{b}_{after}") for a, b in (word.split(">") for word in words)}

    assert found["forward"] == edges(up_to(variant, FORWARD), 0, 0)
    assert found["backward"] == edges(up_to(variant, BACKWARD), -1, 0)
    assert found["link"] == {(f"{loss}_0", f"{loss}_-1") for loss in up_to(variant, LINKS)}


@pytest.mark.parametrize("variant", graphs.VARIANTS)
def test_links_close_a_cycle_and_their_loss_opens_it(variant):
    printed = temporal_graph(variant, 1, literal=True)
    with pytest.raises(ValueError, match=r"cycle HS_0 > .*LY_0 > LY_-1 > WS0_0 > HS0_0 > HS_0: unroll it"):
        check_claims(printed)
    assert all(finding.holds and finding.lag == "0" for finding in check_claims(without_links(printed)))
    assert len(printed) == len(without_links(printed))


@pytest.mark.parametrize("variant", graphs.VARIANTS)
def test_unrolled_steps_repeat_the_printed_one(variant):
    """Forward edges in every step, backward ones from each step to the next, and parameters remembered."""
    unrolled = temporal_graph(variant, 3)
    found = {"forward": set(), "backward": set(), "memory": set()}
    for cause, effect, kind in unrolled.edges(data="kind"):
        found[kind].add((short(cause), short(effect), cause.step, effect.step))
    printed = [
        (kind, cause, effect)
        for cause, effect, kind in temporal_graph(variant, 1, literal=True).edges(data="kind")
    ]
    for kind, later in (("forward", 0), ("backward", 1)):
        once = [(short(a), short(b)) for k, a, b in printed if k == kind]
        assert found[kind] == {(a, b, t, t + later) for a, b in once for t in range(3 - later)}
    weights = {short(node) for node in unrolled if node.kind[0] == "W"}
    assert found["memory"] == {(name, name, t, t + 1) for name in weights for t in range(2)}
    assert nx.is_directed_acyclic_graph(unrolled)


# Verdicts: (at lag 0, at lag > 0), or where it fails later the path by which it does.

SOFT_5 = "HS0_0 > HS_0 > Y_0 > LY_0 > WR_1 > HR_1"
CLIP_5 = "HS0_0 > HS_0 > Y_0 > LY_0 > G_0 > WR_1 > HR_1"
TO_HI = "HS0_0 > HS_0 > Y_0 > LY_0 > WI_1 > HI_1"
APPENDIX_A = TO_HI + " > Y_1 > LY_1 > WS1_2 > HS1_2"
ROWS = dict(active=BOTH, per_sample_loss=True)
TABLE = {
    "6a, not routed": ("no_invariant", {}, {5: True, 7: "HS0_0 > HS_0 > Y_0 > LY_0 > WS1_1 > HS1_1"}),
    "6a": ("no_invariant", dict(active=TURNS), {5: True, 7: True}),
    "6a, both in a batch": (
        "no_invariant",
        dict(active=BOTH),
        {5: True, 7: "HS0_0 > HS_0 > Y_0 > LY_0 > WS1_1 > HS1_1"},
    ),
    "6a, a loss per sample": ("no_invariant", ROWS, {5: True, 7: True}),
    "6a, shared batch norm": (
        "no_invariant",
        dict(ROWS, shared_batch_norm=True),
        {5: True, 7: "HS0_0[0] > HS_0[0] > Y_0[1] > LY_0[1] > WS1_1 > HS1_1[0]"},
    ),
    "6a, samples, clipping": (
        "no_invariant",
        dict(ROWS, clipping=True),
        {
            5: "HS0_0[0] > HS_0[0] > Y_0[0] > LY_0[0] > G_0 > WR_1 > HR_1[0]",
            7: "HS0_0[0] > HS_0[0] > Y_0[0] > LY_0[0] > G_0 > WS1_1 > HS1_1[0]",
        },
    ),
    "6a, shared head": (
        "no_invariant",
        dict(active=TURNS, shared_head=True),
        {5: True, 7: "HS0_0 > HS_0 > Y_0 > LY_0 > WO_1 > Y_1 > LY_1 > WS1_2 > HS1_2"},
    ),
    "6b": ("base", dict(active=TURNS), {5: True, 6: True, 7: APPENDIX_A, 8: TO_HI}),
    "6c": (
        "mutual_information",
        dict(active=TURNS),
        {5: True, 6: True, 7: "HS0_0 > LI_0 > WS1_1 > HS1_1", 8: "HS0_0 > LI_0 > WI_1 > HI_1"},
    ),
    "6c, a term per module": (
        "mutual_information",
        dict(active=TURNS, information="routed"),
        {
            5: True,
            6: True,
            7: "HS0_0 > LI0_0 > WI_1 > HI_1 > LI1_1 > WS1_2 > HS1_2",
            8: "HS0_0 > LI0_0 > WI_1 > HI_1",
        },
    ),
    "6a, soft": (
        "no_invariant",
        dict(routing="soft"),
        {5: SOFT_5, 7: "HS0_0 > HS_0 > Y_0 > LY_0 > WS1_1 > HS1_1"},
    ),
    "6b, soft": (
        "base",
        dict(routing="soft"),
        {
            5: SOFT_5,
            6: "HI_0 > Y_0 > LY_0 > WR_1 > HR_1",
            7: "HS0_0 > HS_0 > Y_0 > LY_0 > WS1_1 > HS1_1",
            8: TO_HI,
        },
    ),
    "6a, clipping": (
        "no_invariant",
        dict(active=TURNS, clipping=True),
        {5: CLIP_5, 7: CLIP_5 + " > LR_1 > G_1 > WS1_2 > HS1_2"},
    ),
    "6b, clipping": (
        "base",
        dict(active=TURNS, clipping=True),
        {5: CLIP_5, 6: "HI_0 > Y_0 > LY_0 > G_0 > WR_1 > HR_1", 7: APPENDIX_A, 8: TO_HI},
    ),
}


@pytest.mark.parametrize("name", TABLE)
def test_the_verdict_on_every_equation(name):
    variant, options, expected = TABLE[name]
    graph = temporal_graph(variant, STEPS, **options)
    found = {(one.equation, one.lag): one for one in check_claims(graph)}
    assert set(found) == {(equation, lag) for equation in expected for lag in graphs.LAGS}
    for equation, verdict in expected.items():
        assert found[equation, "0"].holds and not found[equation, "0"].path
        later = found[equation, ">0"]
        assert later.holds == (verdict is True)
        assert spelt(later.path) == ("" if verdict is True else verdict)
        assert nx.is_path(graph, list(later.path))


def test_the_path_of_appendix_a_is_in_the_graph_also_when_information_is_minimised():
    """And so is the one by which module 1 reaches module 0 where nothing is routed."""
    for variant in ("base", "mutual_information"):
        graph = temporal_graph(variant, 3, TURNS[:3])
        assert APPENDIX_A in {
            spelt(path) for path in nx.all_simple_paths(graph, Node("HS", 0, 0), Node("HS", 2, 1), cutoff=9)
        }
    plain = temporal_graph("no_invariant", 2)
    assert (
        spelt(witness(plain, Node("HS", 0, 1), Node("HS", 1, 0)))
        == "HS1_0 > HS_0 > Y_0 > LY_0 > WS0_1 > HS0_1"
    )


@pytest.mark.parametrize("name", TABLE)
def test_remembered_parameters_change_no_verdict(name):
    """The figures leave the edges W > W of the next step out."""
    variant, options, _ = TABLE[name]
    graph = temporal_graph(variant, STEPS, **options)
    bare = graph.copy()
    bare.remove_edges_from([edge for *edge, kind in graph.edges(data="kind") if kind == "memory"])
    assert bare.size() < graph.size()
    assert [one[:4] for one in check_claims(graph)] == [one[:4] for one in check_claims(bare)]


def test_more_modules_and_the_order_of_turns():
    """From module 1 to 2 it takes two steps: module 2 has to learn from what the invariant one became."""
    graph = temporal_graph("base", 4, [0, 1, 2, 2], modules=3)
    assert not witness(graph, Node("HS", 1, 1), Node("HS", 2, 2))
    assert witness(graph, Node("HS", 1, 1), Node("HS", 3, 2))[0] == Node("HS", 1, 1)
    assert not witness(graph, Node("HS", 3, 2), Node("HI", 3))
    never = temporal_graph("base", 4, [0, 0, 0, 0])
    assert not witness(never, Node("HS", 0, 1), Node("HI", 3))  # a module that is never active does nothing
    assert not witness(never, Node("HS", 0, 0), Node("WS", 3, 1))  # and nothing is done to it


def test_do_cuts_what_comes_in_and_nothing_else():
    graph = temporal_graph("base", 2, TURNS[:2])
    nodes = [Node("HS", 0, 0), Node("HI", 1)]
    for given in (nodes, nodes[:1], nodes[0]):
        cut, set_ = do(graph, given), [given] if given is nodes[0] else given
        assert set(graph.edges) - set(cut.edges) == {edge for edge in graph.edges if edge[1] in set_}
        assert set(cut) == set(graph) and set(cut.edges) < set(graph.edges)
    assert graph.in_degree(nodes[0]) == 2


@pytest.mark.parametrize("seed", range(20))
def test_a_witness_is_there_exactly_when_an_effect_can_be_reached(seed):
    """By Equation 13 with nothing known, what is set changes its descendants and nothing else."""
    random = nx.gnp_random_graph(9, 0.25, seed=seed, directed=True)
    graph = nx.DiGraph((Node("X", a), Node("X", b)) for a, b in random.edges if a < b)
    graph.add_nodes_from(Node("X", number) for number in range(9))
    reached = nx.descendants(graph, Node("X", 2))
    for number in (0, 1, 3, 4, 5, 6, 7, 8):
        path = witness(graph, Node("X", 2), Node("X", number))
        assert bool(path) == (Node("X", number) in reached)
        if path:
            assert path[0] == Node("X", 2) and path[-1] == Node("X", number) and nx.is_path(graph, list(path))
            assert len(path) == 1 + nx.shortest_path_length(graph, path[0], path[-1])


def test_a_common_cause_separates_nothing_that_is_set():
    """C moves both states, so they vary together; setting one of them does not move the other."""
    graph = temporal_graph("base", 1, [0])
    invariant, specific = Node("HI", 0), Node("HS", 0, 0)
    assert not nx.is_d_separator(graph, {invariant}, {specific}, set())
    assert not witness(graph, specific, invariant) and not witness(graph, invariant, specific)


LAYOUTS = [
    *((variant, 1, dict(literal=True, modules=n)) for variant in graphs.VARIANTS for n in (1, 2)),
    (
        "mutual_information",
        3,
        dict(
            active=[[0, 1]] * 3,
            per_sample_loss=True,
            information="routed",
            clipping=True,
            shared_head=True,
            shared_batch_norm=True,
        ),
    ),
    ("mutual_information", 2, dict(active=[0, 5], modules=6, clipping=True, shared_head=True)),
]


@pytest.mark.parametrize("variant, steps, options", LAYOUTS)
def test_every_node_has_a_place_of_its_own(variant, steps, options):
    graph = temporal_graph(variant, steps, **options)
    places = graphs.layout(graph)
    assert set(places) == set(graph)
    points = list(places.values())
    apart = min(abs(a[0] - b[0]) + abs(a[1] - b[1]) for i, a in enumerate(points) for b in points[:i])
    assert apart > 0.2
    for cause, effect, kind in graph.edges(data="kind"):
        rightwards = places[effect][0] >= places[cause][0]
        assert rightwards != (kind == "link")


def test_names_can_be_read():
    names = (Node("HS", 2, 1), Node("HS", 2), Node("LY", 0, None, 3), Node("WS", 10, 0))
    assert [str(node) for node in names] == ["HS1_2", "HS_2", "LY_0[3]", "WS0_10"]
    statements = {one.equation: one.statement for one in check_claims(temporal_graph("base", 1))}
    assert statements == {
        5: "P(HR | do(HSn)) = P(HR)",
        6: "P(HR | do(HI)) = P(HR)",
        7: "P(HSn | do(HSm)) = P(HSn)",
        8: "P(HI | do(HSn)) = P(HI)",
    }


@pytest.mark.parametrize(
    "arguments, options, message",
    [
        (("6b", 2), {}, "variant is '6b': choose among no_invariant, base"),
        (("base", 0), {}, "steps is 0: give a whole number from 1 on"),
        (("base", 2.5), {}, "steps is 2.5"),
        (("base", True), {}, "steps is True"),
        (("base", 2), dict(modules=0), "modules is 0"),
        (("base", 2), dict(routing="top-1"), "routing is 'top-1': choose among hard, soft"),
        (("base", 2), dict(information="none"), "information is 'none': choose among all, routed"),
        (("base", 2, [0, 1]), dict(routing="soft"), "soft routing activates every module: leave active out"),
        (("base", 2, [0]), {}, "active names modules for 1 steps of 2"),
        (("base", 2, [0, 2]), {}, r"step 1 activates \[2\]: choose modules from 0 to 1"),
        (("base", 2, [0, []]), {}, r"step 1 activates \[\]"),
        (("base", 2, "01"), {}, "active is '01': give a list"),
        (("base", 2, 1), {}, "active is 1: give a list"),
        (("base", 1, [0.5]), {}, r"step 0 activates \[0.5\]"),
        (("base", 2), dict(per_sample_loss=True), "give active for per_sample_loss"),
        (("base", 2), dict(information="routed"), "give active for per_sample_loss and for routed"),
        (("base", 2), dict(literal=True), "a literal graph is one step as printed: give steps=1"),
        (("base", 1), dict(literal=True, clipping=True), "only variant and modules"),
    ],
)
def test_what_makes_no_graph_is_refused(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        temporal_graph(*arguments, **options)


@pytest.mark.parametrize(
    "act",
    [
        lambda graph, node: do(graph, node),
        lambda graph, node: do(graph, [Node("HI", 0), node]),
        lambda graph, node: witness(graph, node, Node("HI", 0)),
        lambda graph, node: witness(graph, Node("HI", 0), node),
    ],
)
def test_a_node_that_is_not_there_is_named(act):
    with pytest.raises(ValueError, match="there is no HS7_0 in the graph: choose among its 14 nodes"):
        act(temporal_graph("base", 1, [0]), Node("HS", 0, 7))


def test_setting_a_state_in_a_cyclic_graph_is_refused():
    with pytest.raises(ValueError, match="the graph has the cycle .*take it without_links"):
        witness(temporal_graph("base", 1, literal=True), Node("HI", 0), Node("HR", 0))
