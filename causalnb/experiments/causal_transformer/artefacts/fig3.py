"""Figure 3 of the Causal Transformer: graphs that meet the no-loop constraint and still fail."""

from causalnb.lab.report import builds, draw

LOOP_FREE = {  # panel -> nodes, edges cause -> effect, what is wrong with it
    "(a) no edge": (5, [], "too simple"),
    "(b) pairs": (5, [(0, 1), (3, 4)], "too simple"),
    "(c) neighbours": (5, [(0, 1), (1, 2), (2, 3), (3, 4)], "too simple"),
    "(d) mediator": (3, [(0, 1), (1, 2)], "undecided"),
    "(e) confounder": (3, [(1, 0), (1, 2)], "undecided"),
}


def loop_free(panel: str):
    """The graph of a panel, nodes 0 to n - 1, an edge from cause to effect."""
    import networkx as nx

    nodes, edges, _ = LOOP_FREE[panel]
    graph = nx.DiGraph(edges)
    graph.add_nodes_from(range(nodes))
    return graph


def facts(graph) -> dict:
    """no_loop of a graph; the node pairs it leaves independent; those that become so given one other."""
    from itertools import combinations

    import networkx as nx
    import torch

    from causalnb.causal_transformer import no_loop

    nodes, free, given = sorted(graph), [], []
    for i, j in combinations(nodes, 2):
        if nx.is_d_separator(graph, {i}, {j}, set()):
            free.append((i, j))
            continue
        others = (k for k in nodes if k not in (i, j))
        given += [(i, j, k) for k in others if nx.is_d_separator(graph, {i}, {j}, {k})]
    weights = torch.tensor(nx.to_numpy_array(graph, nodelist=nodes))
    return {"no_loop": abs(no_loop(weights).item()), "independent": free, "given": given}


def loops_figure():
    """(figure, alt): five graphs without loops, what h says of each, and which independences it has."""
    import matplotlib.pyplot as plt

    from causalnb.lab.figures import draw_graph, headline, text_size

    fig, axes = plt.subplots(1, len(LOOP_FREE), figsize=(9.2, 2.7))
    told, found = [], {}
    for ax, (panel, (nodes, _, wrong)) in zip(axes, LOOP_FREE.items(), strict=True):
        graph = loop_free(panel)
        labels, marked = {x: f"$x_{x + 1}$" for x in graph}, {1: "yellow"} if wrong == "undecided" else {}
        draw_graph(ax, graph, labels, _arc(nodes), marked, size=330)
        found[panel] = facts(graph)
        h, said = _said(found[panel], nodes, wrong)
        ax.set_title(panel)
        look = {"ha": "center", "va": "top", "fontsize": text_size(8)}
        ax.text(0.5, -0.02, f"$h = {h}$\n{said}", transform=ax.transAxes, **look)
        told.append(f"{panel}: h is {h}, {said}".translate({10: " ", 36: None, 95: None}))
    headline(fig, _message(found))
    return fig, "Five graphs that meet the no-loop constraint. " + "; ".join(told) + "."


def _message(found: dict[str, dict]) -> str:
    """What h says of graphs and does not say; found: the facts of each panel."""
    zero = sum(one["no_loop"] < 1e-12 for one in found.values())
    what = {panel: (one["independent"], one["given"]) for panel, one in found.items()}
    alike = [panel for panel, one in what.items() if list(what.values()).count(one) > 1]
    poor = sum(any(one) for panel, one in what.items() if panel not in alike)
    names = " and ".join(panel.split()[-1] for panel in alike)
    return (
        f"h is 0 for {zero} of {len(found)} graphs: {poor} lose pairs of tokens; {names} have the same "
        "independences"
    )


def _arc(nodes: int) -> dict:
    """Places on an upper half circle; three nodes stand as a triangle."""
    from math import cos, pi, sin

    return {x: (-cos(pi * x / (nodes - 1)), sin(pi * x / (nodes - 1))) for x in range(nodes)}


def _said(found: dict, nodes: int, wrong: str) -> tuple[str, str]:
    h, pairs = f"{found['no_loop']:.3g}", nodes * (nodes - 1) // 2
    if wrong == "undecided":
        ((i, j, k),) = found["given"]
        return h, f"$x_{i + 1}$ and $x_{j + 1}$ independent\ngiven $x_{k + 1}$ only"
    if found["independent"]:
        return h, f"{len(found['independent'])} of {pairs} pairs\nindependent"
    lost = {pair[:2] for pair in found["given"]}
    return h, f"{len(lost)} of {pairs} pairs lost\ngiven one token"


@builds("causal_transformer.fig3")
def fig3(profile):
    """Figure 3: graphs that meet the no-loop constraint and still fail."""
    caption = (
        "The constraint h = 0 of Equation 1 holds for all five. Graphs are ours, of the caption's two kinds."
    )
    draw(profile, "causal_transformer.fig3", loops_figure(), caption)
