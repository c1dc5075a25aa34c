"""Figure 7 of C2DLM: the graph that generates COT-OrderPerturb."""

from causalnb.lab.report import builds, draw
from causalnb.tasks import cot_order_perturb as cot

# of the variables in order, so that no edge runs through one
_HEIGHTS = (1.4, -0.3, 1.3, -0.6, 0.6, 2.5, 1.5, -0.3, 1.5, -1.3, 2.5, 0.25, 1.9, 0.4, 0.4)
HEIGHTS = dict(zip(cot.VARIABLES, _HEIGHTS, strict=True))


def depths() -> dict[str, int]:
    """Length of the longest path from an input to each variable."""
    lengths = dict.fromkeys(cot.SOURCES, 0)
    for name in cot.STEPS:
        lengths[name] = 1 + max(lengths[cause] for cause in cot.GRAPH[name])
    return lengths


def graph_figure():
    """(figure, alt): Figure 7, the 15 variables in columns by depth and their 28 edges."""
    import matplotlib.pyplot as plt
    import networkx as nx

    from causalnb.lab.figures import COLOURS, draw_graph, headline, text_size

    graph = nx.DiGraph((cause, effect) for effect, causes in cot.GRAPH.items() for cause in causes)
    dead = [name for name in cot.STEPS if not graph.out_degree(name) and name != cot.TARGET]
    kinds = {
        "input": ("yellow", cot.SOURCES),
        "step": ("sky", ()),
        "step without an effect": ("orange", dead),
        "answer": ("vermillion", (cot.TARGET,)),
    }
    fig, ax = plt.subplots(figsize=(9.6, 4.0))
    place = {name: (x, HEIGHTS[name]) for name, x in depths().items()}
    colours = {name: colour for colour, names in kinds.values() for name in names}
    draw_graph(ax, graph, pos=place, size=1700, colours=colours, font_size=8)
    for kind, (colour, _) in kinds.items():
        ax.scatter([], [], s=70, color=COLOURS[colour], edgecolors="black", linewidths=0.8, label=kind)
    ax.legend(fontsize=text_size(8), loc="lower right")
    headline(
        fig,
        f"From {' and '.join(cot.SOURCES)} the longest path to {cot.TARGET} has {depths()[cot.TARGET]} "
        f"steps; no path goes on from {' or '.join(dead)}",
    )
    told = "; ".join(f"{effect} from {' and '.join(causes)}" for effect, causes in cot.GRAPH.items())
    return fig, (
        f"The graph of COT-OrderPerturb: {graph.number_of_nodes()} variables, "
        f"{graph.number_of_edges()} edges, inputs on the left, {cot.TARGET} on the right. {told}."
    )


@builds("c2dlm.fig7")
def fig7(profile):
    """The graph that generates the data."""
    draw(profile, "c2dlm.fig7", graph_figure(), "The graph of COT-OrderPerturb, read from its formulas.")
