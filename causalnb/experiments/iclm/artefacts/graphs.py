"""Causal graphs of ICLM's training as its figures draw them."""

from collections import defaultdict
from itertools import pairwise

EDGES = {  # kind of edge -> colour, line, width, what it stands for
    "forward": ("black", "-", 1.1, "forward pass"),
    "backward": ("blue", (0, (5, 2)), 1.1, "backward pass"),
    "link": ("vermillion", (0, (1, 1.6)), 1.6, "to the next step"),
    "memory": ("black", (0, (1, 4)), 0.8, "parameters kept"),
}
FILLS = {"W": "#FFFFFF", "L": "#F7DCC8", "G": "#F7DCC8", "C": "#E4E4E4", "Y": "#E4E4E4", "H": "#CFE8F7"}
PANELS = {
    "no_invariant": "(a) no invariant module",
    "base": "(b) with an invariant module",
    "mutual_information": "(c) with the mutual information loss",
}


def label(node, printed: bool = False, numbered: bool = True) -> str:
    """A node's symbol as mathematics; printed: tau or tau - 1 at losses; not numbered: its module is n."""
    if node.kind == "YT":
        return r"$Y_{\mathrm{true}}$"
    letter, below, above = node.kind[0], node.kind[1:], ""
    if node.module is not None:
        below += f"_{node.module if numbered else 'n'}"
    if printed and letter == "L":
        above = "^\\tau" if node.step == 0 else "^{\\tau-1}"
    return f"${letter}{f'_{{{below}}}' if below else ''}{above}$"


def bend(cause, kind: str) -> float:
    """How far an edge is bent: links around the graph, kept parameters past what stands between them."""
    if kind == "link":
        return {"LR": 0.17, "LY": -0.88, "LI": -0.36}[cause.kind]
    return 0.16 if kind == "memory" else 0.0


def draw_temporal(ax, graph, path=(), size: float = 400, font: float = 8):
    """Draw a temporal graph, edges as the captions say; a path on it is thick, its nodes ringed.

    `size`, `font`: of nodes and texts, as in the house style.
    """
    import networkx as nx

    from causalnb.iclm.graphs import layout
    from causalnb.lab.figures import COLOURS, text_size

    size, font = size * text_size(1) ** 2, text_size(font)
    places, on_path = layout(graph), set(pairwise(path))
    printed, numbered = any(n.step < 0 for n in graph), any(n.module for n in graph)
    nx.draw_networkx_nodes(
        graph,
        places,
        ax=ax,
        node_size=size,
        node_color=[FILLS[n.kind[0]] for n in graph],
        linewidths=[2.4 if n in path else 0.8 for n in graph],
        edgecolors=[COLOURS["vermillion" if n in path else "black"] for n in graph],
    )
    names = {node: label(node, printed, numbered) for node in graph}
    nx.draw_networkx_labels(graph, places, names, ax=ax, font_size=font)
    alike = defaultdict(list)
    for cause, effect, kind in graph.edges(data="kind"):
        alike[kind, bend(cause, kind), (cause, effect) in on_path].append((cause, effect))
    for (kind, bent, bold), edges in alike.items():
        colour, line, width, _ = EDGES[kind]
        nx.draw_networkx_edges(
            graph,
            places,
            edges,
            ax=ax,
            node_size=size,
            arrowsize=11 if bold else 8,
            style=line,
            width=2.6 if bold else width,
            connectionstyle=f"arc3,rad={bent}",
            edge_color=COLOURS["vermillion" if bold else colour],
            alpha=1 if bold or not path else 0.45,
        )
    ax.margins(0.04, 0.06)
    if printed:
        ax.set(aspect="equal", ylim=(-2.1, 4.0))
    else:
        bottom = min(y for _, y in places.values())
        ax.set_ylim(bottom - 0.7, 4.2)
        for node, (x, _) in places.items():
            if node.kind == "HR" and not node.row:
                ax.text(x, 3.75, f"step {node.step}", ha="center", fontsize=font)
    ax.set_axis_off()


def legend(fig, kinds) -> None:
    """What the lines mean, below the figure."""
    from matplotlib.lines import Line2D

    from causalnb.lab.figures import COLOURS, text_size

    lines = [
        Line2D([], [], color=COLOURS[colour], linestyle=line, linewidth=width, marker="", label=meaning)
        for kind, (colour, line, width, meaning) in EDGES.items()
        if kind in kinds
    ]
    fig.legend(handles=lines, loc="outside lower center", ncols=len(lines), fontsize=text_size(8))


def spoken(graph) -> str:
    """The edges of a printed graph as words, for those who cannot see it."""
    told = []
    for wanted, (_, _, _, meaning) in EDGES.items():
        edges = [
            " to ".join(f"{node.kind}{'n' * (node.module is not None)}" for node in (cause, effect))
            for cause, effect, kind in graph.edges(data="kind")
            if kind == wanted
        ]
        told += [f"{meaning}: {', '.join(edges)}"] * bool(edges)
    return "; ".join(told)


def printed_figure(variants=("base",)):
    """(figure, alt): one step of each variant as printed, with the links back, one domain module."""
    import matplotlib.pyplot as plt

    from causalnb.iclm.graphs import temporal_graph

    one = len(variants) == 1
    fig, axes = plt.subplots(1, len(variants), figsize=(5.6, 4.6) if one else (11.8, 4.1), squeeze=False)
    told = []
    for ax, variant in zip(axes[0], variants, strict=True):
        graph = temporal_graph(variant, 1, modules=1, literal=True)
        draw_temporal(ax, graph, size=500 if one else 430)
        told.append(spoken(graph))
        if not one:
            ax.set_title(PANELS[variant])
            told[-1] = f"{PANELS[variant]}: {told[-1]}"
    legend(fig, ("forward", "backward", "link"))
    return fig, f"Causal graph of a training step. {'. '.join(told)}."


def path_figure(graph, path, title: str = ""):
    """(figure, alt): an unrolled graph, with the path by which what is set reaches its effect."""
    import matplotlib.pyplot as plt

    from causalnb.lab.figures import COLOURS, text_size

    steps = 1 + max(node.step for node in graph)
    fig, ax = plt.subplots(figsize=(1.2 + 2.9 * steps, 3.7))
    draw_temporal(ax, graph, path, size=300, font=7.5)
    ax.set_title(title, fontsize=text_size(9))
    legend(fig, {kind for *_, kind in graph.edges(data="kind")})
    if path:
        ax.plot([], [], color=COLOURS["vermillion"], linewidth=2.6, marker="", label="the path")
        ax.legend(loc="upper left", fontsize=text_size(7))
    shown = f"in bold the path {spell(path)}" if path else "no path is marked"
    return fig, f"A causal graph of {steps} training steps with {len(graph)} variables; {shown}. {title}"


def spell(path) -> str:
    """A path as text."""
    return " > ".join(map(str, path))
