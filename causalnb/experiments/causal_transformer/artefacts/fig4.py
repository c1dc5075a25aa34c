"""Figure 4 of the Causal Transformer: the Markov blanket of a node."""

from causalnb.lab.report import builds, draw

FAMILY = [tuple(edge) for edge in "GP PA QA AC AD SC TD CE GS QR RT".split()]  # cause, effect
PLACES = {"P": (1, 2), "Q": (3, 2), "A": (2, 1), "C": (1, 0), "D": (3, 0)}
PLACES |= {"G": (-0.2, 2), "R": (4.4, 2), "S": (-0.2, 0.8), "T": (4.4, 0.8), "E": (-0.2, -0.4)}
FILLS = {"self": "sky", "parent": "green", "child": "yellow", "spouse": "vermillion"}


def blanket_of(graph, node) -> dict[str, set]:
    """{"parent": ..., "child": ..., "spouse": ...} of a node in a networkx DAG."""
    parents, children = set(graph.predecessors(node)), set(graph.successors(node))
    others = {cause for child in children for cause in graph.predecessors(child)} - {node}
    return {"parent": parents, "child": children, "spouse": others - parents - children}


def family():
    """The graph of Figure 4."""
    import networkx as nx

    return nx.DiGraph(FAMILY)


def blanket_figure():
    """(figure, alt): a DAG with the Markov blanket of A, and in bold the edges that tau of A can see."""
    import matplotlib.pyplot as plt
    import networkx as nx

    from causalnb.lab.figures import COLOURS, headline, text_size

    graph = family()
    blanket = blanket_of(graph, "A")
    role = {node: name for name, nodes in blanket.items() for node in nodes} | {"A": "self"}
    fig, ax = plt.subplots(figsize=(5.6, 3.8))
    fills = [COLOURS[FILLS[role[node]]] if node in role else "white" for node in graph]
    look = {"ax": ax, "node_size": 620}
    nx.draw_networkx_nodes(graph, PLACES, edgecolors="black", linewidths=1, node_color=fills, **look)
    nx.draw_networkx_labels(graph, PLACES, ax=ax, font_size=text_size(10))
    for seen, line in (
        (True, {"width": 2.4, "edge_color": "black", "style": "-"}),
        (False, {"width": 1.0, "edge_color": "0.55", "style": "--"}),
    ):
        edges = [edge for edge in graph.edges if ("A" in edge) == seen]
        nx.draw_networkx_edges(graph, PLACES, edges, arrowsize=14, **line, **look)
    for node, (x, y) in PLACES.items():
        if role.get(node, "self") != "self":
            ax.text(x, y - 0.27, role[node], ha="center", va="top", fontsize=text_size(8))
    spouses = sorted(blanket["spouse"])
    headline(
        fig,
        f"Bold: the {graph.degree('A')} edges that tau of A sees; the spouses {' and '.join(spouses)}, "
        f"in its Markov blanket, have {graph.subgraph(['A', *spouses]).degree('A')} of them",
    )
    ax.margins(0.12, 0.14)
    ax.set_axis_off()
    told = "; ".join(f"{name}: {', '.join(sorted(nodes))}" for name, nodes in blanket.items())
    return fig, (
        f"A graph of {len(graph)} nodes around A. Markov blanket: {told}. Edges at A are bold, all "
        "others dashed; the spouses' edges enter no row and no column of A."
    )


@builds("causal_transformer.fig4")
def fig4(profile):
    """Figure 4: the Markov blanket of a node."""
    caption = "The Markov blanket of A. tau of its row and column sees the four bold edges, and no spouse."
    draw(profile, "causal_transformer.fig4", blanket_figure(), caption)
