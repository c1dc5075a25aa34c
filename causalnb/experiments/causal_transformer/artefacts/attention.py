"""Figures 2 to 6 of the Causal Transformer, computed: masks, graphs, a blanket, tau's space, the blocks."""

from causalnb.lab.registry import artefact

TOKENS = 9
MASKS = {  # Figure 2: name -> settings of attention_pattern
    "full": {},
    "band": {"width": 1},
    "dilated": {"width": 2},
    "random": {"share": 0.25, "seed": 18},
    "block": {"width": 3},
}
LOOP_FREE = {  # Figure 3: panel -> nodes, edges cause -> effect, what is wrong with it
    "(a) no edge": (5, [], "too simple"),
    "(b) pairs": (5, [(0, 1), (3, 4)], "too simple"),
    "(c) neighbours": (5, [(0, 1), (1, 2), (2, 3), (3, 4)], "too simple"),
    "(d) mediator": (3, [(0, 1), (1, 2)], "undecided"),
    "(e) confounder": (3, [(1, 0), (1, 2)], "undecided"),
}
FAMILY = [
    ("G", "P"),
    ("P", "A"),
    ("Q", "A"),
    ("A", "C"),
    ("A", "D"),
    ("S", "C"),
    ("T", "D"),
    ("C", "E"),
    ("G", "S"),
    ("Q", "R"),
    ("R", "T"),
]  # Figure 4, cause -> effect
PLACES = {
    "G": (-0.2, 2),
    "P": (1, 2),
    "Q": (3, 2),
    "R": (4.4, 2),
    "A": (2, 1),
    "C": (1, 0),
    "D": (3, 0),
    "S": (-0.2, 0.8),
    "T": (4.4, 0.8),
    "E": (-0.2, -0.4),
}
ROLES = {
    "self": ("sky", "A"),
    "parent": ("green", "parent"),
    "child": ("yellow", "child"),
    "spouse": ("vermillion", "spouse"),
}
BOXES = {  # Figure 6: module -> what its box says
    "embed_tokens": "token + position vectors",
    "self_attn": "causal self-attention",
    "self_attn.update": "GCN value update",
    "self_norm": "Add & Norm",
    "cross_attn": "cross-attention",
    "cross_norm": "Add & Norm",
    "ffn": "feed-forward",
    "ffn_norm": "Add & Norm",
}
SUBLAYERS = (("self_attn", "self_norm"), ("cross_attn", "cross_norm"), ("ffn", "ffn_norm"))


# Figure 2


def cut_pairs(mask) -> int:
    """How many (output, input) pairs a layer with this mask (T, T) does not join."""
    return int((~mask).sum())


def layers_until_full(mask) -> int | None:
    """How many layers with this mask (T, T) until every output depends on every input; None if never."""
    reach = mask
    for layer in range(1, len(mask) + 1):
        if reach.all():
            return layer
        reach = (reach.float() @ mask.float()) > 0
    return None


def masks() -> dict:
    """{name: mask (TOKENS, TOKENS)}."""
    from causalnb.causal_transformer import attention_pattern

    return {name: attention_pattern(name, TOKENS, **settings) for name, settings in MASKS.items()}


def masks_figure():
    """(figure, alt): each mask as a matrix, and who reads whom, one output's inputs in bold."""
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(2, len(MASKS), figsize=(9.2, 3.9), height_ratios=[1.6, 1])
    told, middle = [], TOKENS // 2
    for (top, below), (name, mask) in zip(axes.T, masks().items(), strict=False):
        depth = layers_until_full(mask)
        later = "never whole" if depth is None else f"whole after {depth} layer{'s' * (depth > 1)}"
        _matrix(top, mask, f"{name}\n{cut_pairs(mask)} of {mask.numel()} pairs cut\n{later}")
        _readers(below, mask, middle)
        told.append(f"{name} cuts {cut_pairs(mask)} pairs and is {later}")
    axes[0, 0].set_ylabel("output token")
    axes[0, 0].set_xlabel("input token")
    return fig, (
        f"Five {TOKENS} by {TOKENS} masks above and the lines they leave between inputs and outputs "
        f"below, those of output {middle + 1} in bold: {'; '.join(told)}."
    )


def _matrix(ax, mask, title) -> None:
    """A mask as squares, the seen pairs dark."""
    ax.imshow(mask.numpy(), cmap="Blues", vmin=0, vmax=1.25)
    ax.set_xticks([x - 0.5 for x in range(len(mask))], [])
    ax.set_yticks([x - 0.5 for x in range(len(mask))], [])
    ax.tick_params(length=0)
    ax.grid(color="white", alpha=1, linewidth=1)
    ax.set_title(title, fontsize=8)


def _readers(ax, mask, chosen: int) -> None:
    """Inputs below, outputs above, a line where an output reads an input."""
    from causalnb.lab.figures import COLOURS

    for output, key in mask.nonzero().tolist():
        bold = output == chosen
        ax.plot(
            [key, output],
            [0, 1],
            marker="",
            linestyle="-",
            zorder=2 if bold else 1,
            color=COLOURS["vermillion"] if bold else "0.8",
            linewidth=2 if bold else 0.7,
        )
    for height in (0, 1):
        picked = [
            height == 1 and x == chosen or height == 0 and bool(mask[chosen, x]) for x in range(len(mask))
        ]
        ax.scatter(
            range(len(mask)),
            [height] * len(mask),
            s=30,
            zorder=3,
            edgecolors="black",
            linewidths=0.7,
            color=[COLOURS["vermillion"] if one else "white" for one in picked],
        )
    ax.set_axis_off()
    ax.margins(0.06, 0.15)
    if chosen and ax.get_subplotspec().is_first_col():
        for height, name in ((0, "x"), (1, r"$\hat{x}$")):
            ax.text(-0.9, height, name, ha="right", va="center")


# Figure 3


def loop_free(panel: str):
    """The graph of a panel of Figure 3, nodes 0 to n - 1, an edge from cause to effect."""
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
        given += [
            (i, j, k)
            for k in nodes
            if k not in (i, j) and nx.is_d_separator(graph, {i}, {j}, {k}) and (i, j) not in free
        ]
    weights = torch.tensor(nx.to_numpy_array(graph, nodelist=nodes))
    return {"no_loop": abs(no_loop(weights).item()), "independent": free, "given": given}


def loops_figure():
    """(figure, alt): five graphs without loops, what h says of each, and which independences it has."""
    import matplotlib.pyplot as plt

    from causalnb.lab.figures import draw_graph

    fig, axes = plt.subplots(1, len(LOOP_FREE), figsize=(9.2, 2.5))
    told = []
    for ax, panel in zip(axes, LOOP_FREE, strict=False):
        graph, wrong = loop_free(panel), LOOP_FREE[panel][2]
        found, nodes = facts(graph), len(graph)
        draw_graph(
            ax,
            graph,
            {x: f"$x_{x + 1}$" for x in graph},
            _arc(nodes),
            {x: "yellow" for x in graph if wrong == "undecided" and x == 1},
            size=330,
        )
        said = _said(found, nodes, wrong)
        ax.set_title(panel)
        ax.text(
            0.5,
            -0.02,
            f"$h = {found['no_loop']:.3g}$\n{said}",
            transform=ax.transAxes,
            ha="center",
            va="top",
            fontsize=8,
        )
        told.append(f"{panel}: h is {found['no_loop']:.3g}, {said}".translate({10: " ", 36: None, 95: None}))
    return fig, "Five graphs that meet the no-loop constraint. " + "; ".join(told) + "."


def _arc(nodes: int) -> dict:
    """Places on an upper half circle; three nodes stand as a triangle."""
    from math import cos, pi, sin

    return {x: (-cos(pi * x / (nodes - 1)), sin(pi * x / (nodes - 1))) for x in range(nodes)}


def _said(found: dict, nodes: int, wrong: str) -> str:
    pairs = nodes * (nodes - 1) // 2
    if wrong == "undecided":
        ((i, j, k),) = found["given"]
        return f"$x_{i + 1}$ and $x_{j + 1}$ independent\ngiven $x_{k + 1}$ only"
    if found["independent"]:
        return f"{len(found['independent'])} of {pairs} pairs\nindependent"
    lost = {pair[:2] for pair in found["given"]}
    return f"{len(lost)} of {pairs} pairs lost\ngiven one token"


# Figure 4


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

    from causalnb.lab.figures import COLOURS

    graph = family()
    role = {node: name for name, nodes in blanket_of(graph, "A").items() for node in nodes} | {"A": "self"}
    fig, ax = plt.subplots(figsize=(5.6, 3.6))
    fills = [COLOURS[ROLES[role[node]][0]] if node in role else "white" for node in graph]
    nx.draw_networkx_nodes(
        graph, PLACES, ax=ax, node_size=620, edgecolors="black", linewidths=1, node_color=fills
    )
    nx.draw_networkx_labels(graph, PLACES, ax=ax, font_size=10)
    for seen, width, shade in ((True, 2.4, "black"), (False, 1.0, "0.55")):
        edges = [edge for edge in graph.edges if ("A" in edge) == seen]
        nx.draw_networkx_edges(
            graph,
            PLACES,
            edges,
            ax=ax,
            node_size=620,
            width=width,
            edge_color=shade,
            style="-" if seen else "--",
            arrowsize=14,
        )
    for node, (x, y) in PLACES.items():
        if node in role and node != "A":
            ax.text(x, y - 0.27, ROLES[role[node]][1], ha="center", va="top", fontsize=8)
    ax.margins(0.12, 0.14)
    ax.set_axis_off()
    told = "; ".join(f"{name}: {', '.join(sorted(nodes))}" for name, nodes in blanket_of(graph, "A").items())
    return fig, (
        f"A graph of {len(graph)} nodes around A. Markov blanket: {told}. Edges at A are bold, all "
        "others dashed; the spouses' edges enter no row and no column of A."
    )


# Figure 5


def tau_of(*weights) -> float:
    """tau - N of a row whose other entries are 0."""
    from numpy import expm1

    return sum(expm1(weight) for weight in weights)


def intervals() -> dict[str, tuple[float, float]]:
    """Name -> (from, to) for tau by rows + tau by columns - 2N, the printed ones as printed."""
    from causalnb.causal_transformer import excess_bounds
    from causalnb.causal_transformer.loss import PRINTED_SLACK

    (low, high), (slack_low, slack_high) = (2 * bound for bound in excess_bounds()), PRINTED_SLACK
    found = {"no self-loop": (low, high)}
    for name, times in (("Equation 2, largest ε", 1), ("Equation 3, largest ε (2ε)", 2)):
        found[name] = (low + times * slack_low, high - times * slack_high)
    for name, setting in (("self-loop of 1/3, corrected", "set"), ("self-loop up to 1/3", True)):
        found[name] = tuple(2 * bound for bound in excess_bounds(setting))
    return found


def space_figure():
    """(figure, alt): tau over two neighbours, over three weights, and the intervals of each version."""
    import matplotlib.pyplot as plt

    fig, (curves, simplex, lines) = plt.subplots(1, 3, figsize=(10.2, 3.2), width_ratios=[1.1, 1.05, 1.2])
    _curves(curves)
    _simplex(simplex)
    _intervals(lines)
    empty = [name for name, (low, high) in intervals().items() if low > high]
    told = "; ".join(f"{name} from {low:.2f} to {high:.2f}" for name, (low, high) in intervals().items())
    return fig, (
        "Left, two U-shaped curves of tau over the weight of one of two neighbours, the one with "
        "self-loop lower and flatter. Middle, a triangle of three weights, tau smallest at its "
        f"centre and largest at its corners. Right, intervals of tau by rows and columns: {told}. "
        f"Empty: {' and '.join(empty)}."
    )


def _curves(ax) -> None:
    """tau of a row of two neighbours, without self-loop and with one of 1/3."""
    import numpy as np

    from causalnb.lab.figures import COLOURS

    share = np.linspace(0, 1, 101)
    ax.plot(
        share, tau_of(share, 1 - share), color=COLOURS["blue"], linestyle="-", marker="", label="no self-loop"
    )
    ax.plot(
        share,
        tau_of(1 / 3, 2 / 3 * share, 2 / 3 * (1 - share)),
        color="black",
        linestyle="--",
        marker="",
        label="self-loop of 1/3",
    )
    for height, name, up in ((tau_of(0.5, 0.5), "H' − N", -0.05), (tau_of(1), "H'' − N", 0.015)):
        ax.axhline(height, color=COLOURS["blue"], linestyle=":", marker="", linewidth=1)
        ax.text(0.5, height + up, name, ha="center", fontsize=8, color=COLOURS["blue"])
    ax.set(xlabel="share of parent m among m and n", ylabel="τ of the row − N", ylim=(1.1, 1.82))
    ax.legend(fontsize=8, loc="lower center", ncols=2, columnspacing=1, handlelength=1.6)


def _simplex(ax, steps: int = 60) -> None:
    """tau of rows of three weights: self, m and n; the line is H', the dashed one a self-loop of 1/3."""
    import numpy as np

    from causalnb.lab.figures import COLOURS

    grid = [(a, b, steps - a - b) for a in range(steps + 1) for b in range(steps + 1 - a)]
    own, m, n = np.array(grid).T / steps
    x, y, height = m / 2 + n, m * 3**0.5 / 2, tau_of(own, m, n)
    shade = ax.tricontourf(x, y, height, levels=np.linspace(tau_of(*[1 / 3] * 3), tau_of(1), 12))
    ax.tricontour(x, y, height, levels=[tau_of(0.5, 0.5)], colors="white", linestyles="-", linewidths=2)
    ax.plot([1 / 3, 2 / 3], [3**-0.5, 0], color="white", marker="", linestyle="--", linewidth=1.5)
    ax.plot(0.5, 3**0.5 / 6, "o", color=COLOURS["vermillion"], markeredgecolor="white", markersize=8)
    for corner, name, side in ((0, "self", "right"), (1, "n", "left"), (0.5, "m", "center")):
        ax.text(corner, 0.93 if name == "m" else -0.03, name, ha=side, va="top" if name != "m" else "center")
    ax.set_aspect("equal")
    ax.set_title("white: τ = H'; dashed: self = 1/3;\ndot: all three 1/3", fontsize=8, pad=18)
    ax.set_axis_off()
    ax.figure.colorbar(shade, ax=ax, shrink=0.8, label="τ of the row − N", format="%.2f")


def _intervals(ax) -> None:
    """The interval of each version; where it is empty, an arrow from its lower to its upper end."""
    from causalnb.lab.figures import COLOURS

    found = intervals()
    for place, (name, (low, high)) in enumerate(found.items()):
        empty = low > high
        colour = COLOURS["vermillion" if empty else "blue"]
        if empty:
            ax.annotate(
                "",
                (high, place),
                (low, place),
                arrowprops=dict(arrowstyle="-|>", color=colour, linestyle="--"),
            )
            ax.text((low + high) / 2, place - 0.12, "empty", color=colour, ha="center", fontsize=8)
        else:
            ax.plot(
                [low, high],
                [place, place],
                linestyle="-",
                linewidth=5,
                color=colour,
                marker="",
                solid_capstyle="butt",
            )
        ax.text(low, place - 0.12, f"{low:.2f}", ha="left" if empty else "right", fontsize=7)
        ax.text(high, place - 0.12, f"{high:.2f}", ha="right" if empty else "left", fontsize=7)
    ax.set_yticks(range(len(found)), [name.replace(", ", ",\n") for name in found], fontsize=8)
    ax.set(xlabel="τ by rows + τ by columns − 2N", xlim=(2.0, 4.35), ylim=(len(found) - 0.5, -0.6))


# Figure 6


def tiny_model():
    """(model, inputs): a small encoder-decoder with random weights, and one pair of sentences."""
    import torch

    from causalnb.causal_transformer import CausalTransformerConfig, CausalTransformerForConditionalGeneration

    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = CausalTransformerForConditionalGeneration(
            CausalTransformerConfig(
                vocab_size=20, d_model=16, num_heads=2, d_ff=32, encoder_layers=2, decoder_layers=2
            )
        )
    ids = torch.arange(3, 10)[None]
    return model.eval(), dict(input_ids=ids, labels=ids.flip(1))


def trace() -> dict:
    """{"encoder": modules of its first layer in the order they ran, ..., "maps": ..., "depth": ...}."""
    import torch

    model, inputs = tiny_model()
    ran, hooks = {"encoder": [], "decoder": []}, []
    for stack, called in ran.items():
        part = model.get_submodule(stack)
        named = {"embed_tokens": part.embed_tokens} | dict(part.layers[0].named_modules())
        hooks += [
            module.register_forward_pre_hook(lambda *_, name=name, called=called: called.append(name))
            for name, module in named.items()
            if name in BOXES
        ]
    with torch.no_grad():
        out = model(**inputs, output_attentions=True)
    for hook in hooks:
        hook.remove()
    maps = {"encoder": out.encoder_attentions[0][0, 0], "decoder": out.decoder_attentions[0][0, 0]}
    losses = {
        stack: model.losses[stack][0].self_loop if stack == "encoder" else False
        for stack in ran
        if stack in model.losses
    }
    return dict(ran=ran, maps=maps, depth=len(model.encoder.layers), losses=losses)


def blocks_figure():
    """(figure, alt): encoder and decoder, a box for each module in the order in which it ran."""
    import matplotlib.pyplot as plt

    found = trace()
    fig, ax = plt.subplots(figsize=(7.6, 5.4))
    places = {
        stack: _column(ax, names, 1.6 if stack == "encoder" else 6.0, stack)
        for stack, names in found["ran"].items()
    }
    _cross(ax, places)
    for stack, side in (("encoder", -1), ("decoder", 1)):
        if stack in found["losses"]:
            _measured(ax, places[stack]["self_attn"], side, found["maps"][stack], found["losses"][stack])
    ax.set(xlim=(-2.0, 9.6), ylim=(-0.7, 8.9), aspect="auto")
    ax.set_axis_off()
    told = "; ".join(
        f"{stack}: {', '.join(BOXES[name] for name in names)}" for stack, names in found["ran"].items()
    )
    return fig, (
        f"Two columns of boxes from below to above, {told}. The encoder's states enter the "
        "decoder's cross-attention. Beside each self-attention its map, full in the encoder and "
        "lower triangular in the decoder, with the loss h."
    )


def _column(ax, names, x: float, stack: str) -> dict:
    """Boxes upwards with arrows between and skips around sublayers; returns their centres."""
    from matplotlib.patches import FancyBboxPatch

    places = {name: (x, 0.95 * row) for row, name in enumerate(names)}
    for name, (_, y) in places.items():
        shade = {"self_attn": "#CFE8F7", "self_attn.update": "#F7DCC8"}.get(
            name, "#F2F2F2" if name.endswith("norm") else "#FFFFFF"
        )
        ax.add_patch(
            FancyBboxPatch(
                (x - 1.3, y - 0.26), 2.6, 0.52, boxstyle="round,pad=0.02", facecolor=shade, edgecolor="black"
            )
        )
        ax.text(x, y, BOXES[name], ha="center", va="center", fontsize=8.5)
    heights = [y for _, y in places.values()]
    for low, high in zip(heights, heights[1:], strict=False):
        _arrow(ax, (x, low + 0.28), (x, high - 0.28))
    for first, norm in SUBLAYERS:
        if first in places:
            before, end = places[first][1] - 0.47, places[norm][1]
            ax.plot(
                [x, x + 1.5, x + 1.5],
                [before, before, end],
                color="0.45",
                marker="",
                linestyle="-",
                linewidth=1,
            )
            _arrow(ax, (x + 1.5, end), (x + 1.32, end), "0.45")
    top = heights[-1]
    _arrow(ax, (x, top + 0.28), (x, top + 0.75))
    name = "states" if stack == "encoder" else "next token"
    ax.text(x, top + 0.82, f"{stack}: {name}", ha="center", va="bottom", fontsize=9, weight="bold")
    return places


def _arrow(ax, start, end, colour: str = "black") -> None:
    ax.annotate("", end, start, arrowprops=dict(arrowstyle="-|>", color=colour, shrinkA=0, shrinkB=0))


def _cross(ax, places) -> None:
    """The encoder's states on their way to the decoder's cross-attention."""
    from causalnb.lab.figures import COLOURS

    (x, y), (to, height) = list(places["encoder"].values())[-1], places["decoder"]["cross_attn"]
    ax.plot(
        [x, x + 2.2, x + 2.2],
        [y + 0.55, y + 0.55, height],
        color=COLOURS["blue"],
        marker="",
        linestyle="-",
        linewidth=1.6,
    )
    _arrow(ax, (x + 2.2, height), (to - 1.32, height), COLOURS["blue"])


def _measured(ax, place, side: int, weights, self_loop) -> None:
    """The map of a self-attention beside its box, and the loss that measures it."""
    from causalnb.lab.figures import COLOURS

    x, y = place
    end = x + side * 1.32
    inset = ax.inset_axes((x + side * 2.55 - 0.75, y - 0.55, 1.5, 1.3), transform=ax.transData)
    inset.imshow((weights > 0).numpy(), cmap="Blues", vmin=0, vmax=1.6, aspect="auto")
    inset.set_xticks([k - 0.5 for k in range(len(weights))], [])
    inset.set_yticks([k - 0.5 for k in range(len(weights))], [])
    inset.tick_params(length=0)
    inset.grid(color="white", alpha=1, linewidth=0.8)
    ax.plot(
        [end, x + side * 1.78], [y, y], color=COLOURS["vermillion"], marker="", linestyle="--", linewidth=1.4
    )
    tolerated = "self-loops tolerated" if self_loop else "no slack for self-loops"
    ax.text(
        x + side * 2.55,
        y - 0.7,
        f"loss h(A)\n{tolerated}",
        ha="center",
        va="top",
        fontsize=8,
        color=COLOURS["vermillion"],
    )


# Builders


def _save(id: str, made, caption: str) -> None:
    from causalnb.lab.figures import save_figure

    fig, alt = made
    save_figure(fig, f"causal_transformer.{id}", alt=alt, caption=caption)


@artefact(
    "causal_transformer.fig2",
)
def fig2(profile):
    """Figure 2: full, band, dilated, random and block attention."""
    _save(
        "fig2",
        masks_figure(),
        "Sparse attentions that are fixed beforehand. A pair that one layer cuts "
        "may be joined again by further layers.",
    )


@artefact(
    "causal_transformer.fig3",
)
def fig3(profile):
    """Figure 3: graphs that meet the no-loop constraint and still fail."""
    _save(
        "fig3",
        loops_figure(),
        "The constraint h = 0 of Equation 1 holds for all five. Graphs are ours, of the caption's two kinds.",
    )


@artefact(
    "causal_transformer.fig4",
)
def fig4(profile):
    """Figure 4: the Markov blanket of a node."""
    _save(
        "fig4",
        blanket_figure(),
        "The Markov blanket of A. tau of its row and column sees the four bold edges, and no spouse.",
    )


@artefact(
    "causal_transformer.fig5",
)
def fig5(profile):
    """Figure 5: the space of tau with and without self-loop."""
    _save(
        "fig5",
        space_figure(),
        "tau of a row with two parents, with and without self-loop; the printed "
        "slack, at its largest, leaves no feasible map.",
    )


@artefact(
    "causal_transformer.fig6",
)
def fig6(profile):
    """Figure 6: encoder and decoder."""
    _save(
        "fig6",
        blocks_figure(),
        "One layer of encoder and decoder: boxes are modules of the package in the order in which they ran.",
    )
