"""Figures 2 and 6 of ICLM drawn from its graphs, and Equations 5 to 8 decided on them."""

from collections import defaultdict

from causalnb.lab.registry import artefact

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
TURNS, STEPS = (0, 1, 0, 1), 4
BATCHES = ((0, 1),) * STEPS
ROWS = {"active": BATCHES, "per_sample_loss": True}
ALTERNATE = {"active": TURNS}
SETTINGS = {  # name -> variant and options of temporal_graph, of which literal is one step
    "6b, one step as printed": ("base", {"literal": True}),
    "6a, if every module fed the output": ("no_invariant", {}),
    "6a, one module a step": ("no_invariant", ALTERNATE),
    "6a, both modules in a batch, one loss node": ("no_invariant", {"active": BATCHES}),
    "6a, both modules in a batch, a loss per sample": ("no_invariant", ROWS),
    "the same with shared batch normalisation": ("no_invariant", ROWS | {"shared_batch_norm": True}),
    "6a with a trained shared head": ("no_invariant", ALTERNATE | {"shared_head": True}),
    "6a with gradient clipping": ("no_invariant", ALTERNATE | {"clipping": True}),
    "6a with soft routing": ("no_invariant", {"routing": "soft"}),
    "6b (Figure 2)": ("base", ALTERNATE),
    "6b with gradient clipping": ("base", ALTERNATE | {"clipping": True}),
    "6b with soft routing": ("base", {"routing": "soft"}),
    "6c": ("mutual_information", ALTERNATE),
    "6c, a term for the active module only": ("mutual_information", ALTERNATE | {"information": "routed"}),
    "6c with gradient clipping": ("mutual_information", ALTERNATE | {"clipping": True}),
    "6c with soft routing": ("mutual_information", {"routing": "soft"}),
}

ARMS = {  # arm of iclm.interventions -> how tables call it
    "no_invariant": "no invariant module",
    "no_invariant_mixed": "no invariant module, both domains in a batch",
    "no_invariant_norm": "shared batch normalisation",
    "no_invariant_norm_mixed": "shared batch normalisation, both in a batch",
    "no_invariant_head": "no invariant module, trained shared head",
    "no_invariant_clip": "no invariant module, gradient clipping",
    "no_invariant_soft": "no invariant module, soft routing",
    "invariant": "invariant module",
    "invariant_clip": "invariant module, gradient clipping",
    "invariant_soft": "invariant module, soft routing",
    "information": "mutual information loss",
    "information_clip": "mutual information loss, gradient clipping",
    "do_invariant": "invariant module, whose state is changed",
    "do_invariant_clip": "the same with gradient clipping",
    "paper": "the paper's: information loss, trained head",
    "paper_clip": "the paper's, gradient clipping",
    "later_without": "the paper's without information loss, after 50 steps",
    "later": "the paper's, after 50 steps",
    "later_strong": "the paper's with 10,000 times that loss, after 50 steps",
}


def graph_of(setting: str):
    """The graph of one of SETTINGS, unrolled over STEPS, or one printed step without its links."""
    from causalnb.iclm.graphs import temporal_graph, without_links

    variant, options = SETTINGS[setting]
    if "literal" in options:
        return without_links(temporal_graph(variant, 1, **options))
    return temporal_graph(variant, STEPS, **options)


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


def draw(ax, graph, path=(), size: float = 400, font: float = 8):
    """Draw a temporal graph, edges as the captions say; a path on it is thick, its nodes ringed."""
    import networkx as nx

    from causalnb.iclm.graphs import layout
    from causalnb.lab.figures import COLOURS

    places, on_path = layout(graph), set(zip(path, path[1:], strict=False))
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

    from causalnb.lab.figures import COLOURS

    lines = [
        Line2D([], [], color=COLOURS[colour], linestyle=line, linewidth=width, marker="", label=meaning)
        for kind, (colour, line, width, meaning) in EDGES.items()
        if kind in kinds
    ]
    fig.legend(handles=lines, loc="outside lower center", ncols=len(lines), fontsize=8)


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
    for ax, variant in zip(axes[0], variants, strict=False):
        graph = temporal_graph(variant, 1, modules=1, literal=True)
        draw(ax, graph, size=500 if one else 430)
        told.append(spoken(graph))
        if not one:
            ax.set_title(PANELS[variant])
            told[-1] = f"{PANELS[variant]}: {told[-1]}"
    legend(fig, ("forward", "backward", "link"))
    return fig, f"Causal graph of a training step. {'. '.join(told)}."


def path_figure(graph, path, title: str = ""):
    """(figure, alt): an unrolled graph, with the path by which what is set reaches its effect."""
    import matplotlib.pyplot as plt

    from causalnb.lab.figures import COLOURS

    steps = 1 + max(node.step for node in graph)
    fig, ax = plt.subplots(figsize=(1.2 + 2.9 * steps, 3.7))
    draw(ax, graph, path, size=300, font=7.5)
    ax.set_title(title, fontsize=9)
    legend(fig, {kind for *_, kind in graph.edges(data="kind")})
    if path:
        ax.plot([], [], color=COLOURS["vermillion"], linewidth=2.6, marker="", label="the path")
        ax.legend(loc="upper left", fontsize=7)
    shown = f"in bold the path {spell(path)}" if path else "no path is marked"
    return fig, f"A causal graph of {steps} training steps with {len(graph)} variables; {shown}. {title}"


def spell(path) -> str:
    """A path as text."""
    return " > ".join(map(str, path))


def cells(setting: str) -> dict[str, str]:
    """{"Eq. 5": "holds" | "fails at lag 1" | ""} of one of SETTINGS."""
    from causalnb.iclm.graphs import CLAIMS, check_claims

    found = {f"Eq. {equation}": "" for equation in CLAIMS}
    for one in check_claims(graph_of(setting)):
        lag = one.path[-1].step - one.path[0].step if one.path else 0
        if found[f"Eq. {one.equation}"] in ("", "holds"):
            found[f"Eq. {one.equation}"] = "holds" if one.holds else f"fails at lag {lag}"
    return found


def claims_table():
    """Equations 5 to 8 in every graph."""
    from causalnb.iclm.graphs import CLAIMS, check_claims
    from causalnb.lab.tables import Table

    statements = dict(one[:2] for one in check_claims(graph_of("6b (Figure 2)")))
    rows = [[name, *cells(name).values()] for name in SETTINGS]
    return Table(
        "iclm.claims_graph",
        ["graph", *(f"Eq. {number}: {statements[number]}" for number in CLAIMS)],
        rows,
        "Which do-statements hold in which graph of training, by d-separation",
        f"{STEPS} steps, 2 domain modules, active in turn ({', '.join(map(str, TURNS))}) unless said "
        "otherwise. One state is set at one step; lag: the training steps until another state depends on it, "
        "the fewest. Empty: the graph has no invariant module.",
    )


def paths_table():
    """The shortest path of each equation that fails."""
    from causalnb.iclm.graphs import check_claims
    from causalnb.lab.tables import Table

    rows = [
        [name, one.equation, spell(one.path)]
        for name in SETTINGS
        for one in check_claims(graph_of(name))
        if not one.holds
    ]
    return Table(
        "iclm.claims_graph_paths",
        ["graph", "Eq.", "path from what is set to what changes"],
        rows,
        "How each equation fails: HS1_2 is the state of module 1 at step 2; G, the norm of all "
        "gradients; WO, the shared head; [0], row 0 of the batch",
    )


@artefact(
    "iclm.fig2",
)
def fig2(profile):
    """Figure 2: one training step with an invariant module, as printed."""
    from causalnb.lab.figures import save_figure

    fig, alt = printed_figure()
    save_figure(
        fig,
        "iclm.fig2",
        alt=alt,
        caption="The temporal causal graph of training. Its dotted links "
        "close cycles, so equations are decided on the graph unrolled in time.",
    )


@artefact(
    "iclm.fig6",
)
def fig6(profile):
    """Figure 6: without an invariant module, with it, and with the mutual information loss."""
    from causalnb.lab.figures import save_figure

    fig, alt = printed_figure(tuple(PANELS))
    save_figure(
        fig,
        "iclm.fig6",
        alt=alt,
        caption="The three temporal causal graphs. Each adds edges to "
        "the one before, and an added edge never separates.",
    )


@artefact(
    "iclm.claims_graph",
    extra=True,
    printed_as="ours",
    notebook="31_causal_graphs",
    shows="Equations 5 to 8 in every variant by d-separation, with the paths by which they fail",
)
def claims_graph(profile):
    """Equations 5 to 8 decided in every graph, the paths, and the one of Appendix A drawn."""
    from causalnb.iclm.graphs import check_claims
    from causalnb.lab.figures import save_figure
    from causalnb.lab.tables import save_table

    save_table(claims_table())
    save_table(paths_table())
    graph = graph_of("6b (Figure 2)")
    (path,) = (one.path for one in check_claims(graph) if one.equation == 7 and not one.holds)
    graph = graph.subgraph(node for node in graph if node.step <= path[-1].step)
    title = "Equation 7 with an invariant module: module 0 reaches module 1 in two steps."
    fig, alt = path_figure(graph, path, title)
    save_figure(fig, "iclm.claims_graph", alt=alt, caption="The path of Appendix A in the unrolled graph.")


def interventions_table(effects):
    """What a changed state did to each part's weights: effects as of `iclm_interventions.measure`."""
    from causalnb.experiments.iclm.interventions import PARTS
    from causalnb.lab.tables import Table

    def cell(rows):
        if rows.empty or not rows.change.any():
            return "" if rows.empty else "0"
        moved = 1 + rows[rows.change > 0].step.min()
        return f"{rows.groupby('seed').change.max().mean():.1e} after {moved}"

    rows = []
    for arm in dict.fromkeys(effects.arm):
        mine = effects[effects.arm == arm]
        apart = mine[mine.separated]
        rows.append(
            [
                ARMS[arm],
                *(cell(mine[mine.part == part]) for part in PARTS.values()),
                f"{(apart.change > 0).sum()} of {len(apart)}",
            ]
        )
    seeds, steps = effects.seed.nunique(), 1 + effects.step.max()
    return Table(
        "iclm.interventions",
        ["setting", *(part.replace("_", " ") for part in PARTS.values()), "changed though separated"],
        rows,
        "Largest change of any weight when a state, of domain module 0 unless said otherwise, is changed in "
        "one training step",
        f"Within {steps} steps, or 2 after the 50; mean over {seeds} seeds, and steps until the first "
        "change. 0: equal to the run without, bit by bit; empty: there is no such part. Last column: "
        "weights, by part and step, that the graph separates from the intervention, and how many changed.",
    )


def interventions_figure(effects):
    """(figure, alt): a row for each arm, a column for each part and step; colour is the largest change."""
    import matplotlib.pyplot as plt
    import numpy as np
    from matplotlib.colors import LogNorm
    from matplotlib.patches import Rectangle

    from causalnb.experiments.iclm.interventions import PARTS

    arms, steps = list(dict.fromkeys(effects.arm)), 1 + effects.step.max()
    columns = [(part, step) for part in PARTS.values() for step in range(steps)]
    cells = effects.groupby(["arm", "part", "step"]).agg({"change": "max", "separated": "all"})
    grid = np.full((len(arms), len(columns)), np.nan)
    fig, ax = plt.subplots(figsize=(1.9 + 0.36 * len(columns), 1.2 + 0.27 * len(arms)))
    for (arm, part, step), (change, separated) in cells.iterrows():
        row, column = arms.index(arm), columns.index((part, step))
        grid[row, column] = change if change else np.nan
        if not change:
            ax.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, color="white"))
            ax.text(column, row, "0", ha="center", va="center", fontsize=8)
        if separated:
            ax.add_patch(Rectangle((column - 0.45, row - 0.42), 0.9, 0.84, fill=False, linewidth=1.1))
    image = ax.imshow(grid, aspect="auto", norm=LogNorm(), cmap="cividis")
    fig.colorbar(image, label="largest change of a weight")
    ax.set_xticks(range(len(columns)), [step + 1 for _, step in columns], fontsize=7)
    ax.set_yticks(range(len(arms)), [ARMS[arm] for arm in arms], fontsize=8)
    for place, part in enumerate(PARTS.values()):
        ax.text(steps * (place + 0.5) - 0.5, -0.75, part.replace("_", " "), ha="center", fontsize=8)
        ax.axvline(steps * place - 0.5, color="black", linewidth=0.8, marker="", linestyle="-")
    ax.set(xlabel="training steps after the change of the state", facecolor="0.88")
    ax.grid(False)
    still = (
        cells[cells.change == 0]
        .reset_index()
        .groupby("arm")
        .apply(
            lambda rows: ", ".join(
                f"{part} {step + 1}" for part, step in zip(rows.part, rows.step, strict=False)
            )
        )
    )
    told = "; ".join(f"{ARMS[arm]}: {still.get(arm, 'none')}" for arm in arms)
    return fig, (
        "Changes of weights by part and step, cells framed where the graph separates them from the "
        f"intervention. Cells that are exactly 0, by setting: {told}."
    )


@artefact(
    "iclm.interventions",
    needs=("iclm.interventions",),
    extra=True,
    printed_as="ours",
    kind="measured",
    notebook="31_causal_graphs",
    shows="what a changed state of one module does to the weights of all",
)
def interventions(profile):
    """Interventions on real training steps, beside what the graphs allow."""
    from causalnb.lab import evidence, results
    from causalnb.lab.figures import save_figure
    from causalnb.lab.tables import save_table

    evidence.require("iclm.interventions", profile)  # or say which are missing
    effects = results.curves("iclm.interventions", profile)
    save_table(interventions_table(effects))
    fig, alt = interventions_figure(effects[~effects.arm.str.startswith("later")])
    save_figure(
        fig,
        "iclm.interventions",
        alt=alt,
        caption="What a changed state "
        "did to the weights. Framed cells must be 0 by the graph; grey: there is no such part.",
    )
