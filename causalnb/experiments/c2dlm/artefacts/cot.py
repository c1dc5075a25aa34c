"""COT-OrderPerturb as C2DLM prints it: graph, orders, the algorithm that draws the data, and shortcuts."""

from causalnb.lab.registry import artefact

HEIGHTS = {
    "Zorin": 1.4,
    "Vortex": -0.3,
    "Quasar": 1.3,
    "Flux": -0.6,
    "Radiant": 0.6,
    "Nova": 2.5,
    "Gravity": 1.5,
    "Pulse": -0.3,
    "Helix": 1.5,
    "Echo": -1.3,
    "Comet": 2.5,
    "Nebula": 1.9,
    "Aether": 0.25,
    "Celestia": 0.4,
    "Stardust": 0.4,
}  # so that no edge runs through a variable
ORDERS = ("normal", "LR", "OF", "DFS", "R3", "R1", "R2", "RE")


def depths() -> dict[str, int]:
    """Length of the longest path from an input to each variable."""
    from causalnb.tasks import cot_order_perturb as cot

    found = dict.fromkeys(cot.SOURCES, 0)
    for name in cot.STEPS:
        found[name] = 1 + max(found[cause] for cause in cot.GRAPH[name])
    return found


def graph_figure():
    """(figure, alt): Figure 7, the 15 variables in columns by depth and their 28 edges."""
    import matplotlib.pyplot as plt
    import networkx as nx

    from causalnb.lab.figures import COLOURS, draw_graph
    from causalnb.tasks import cot_order_perturb as cot

    graph = nx.DiGraph((cause, effect) for effect, causes in cot.GRAPH.items() for cause in causes)
    dead = [name for name in cot.STEPS if not graph.out_degree(name) and name != cot.TARGET]
    kinds = {
        "input": ("yellow", cot.SOURCES),
        "step": ("sky", ()),
        "step without an effect": ("orange", dead),
        "answer": ("vermillion", (cot.TARGET,)),
    }
    fig, ax = plt.subplots(figsize=(9.6, 3.8))
    place = {name: (x, HEIGHTS[name]) for name, x in depths().items()}
    draw_graph(
        ax,
        graph,
        pos=place,
        size=1700,
        colours={name: colour for colour, names in kinds.values() for name in names},
    )
    for kind, (colour, _) in kinds.items():
        ax.scatter([], [], s=70, color=COLOURS[colour], edgecolors="black", linewidths=0.8, label=kind)
    ax.legend(fontsize=8, loc="lower right")
    told = "; ".join(f"{effect} from {' and '.join(causes)}" for effect, causes in cot.GRAPH.items())
    return fig, (
        f"The graph of COT-OrderPerturb: {graph.number_of_nodes()} variables, "
        f"{graph.number_of_edges()} edges, inputs on the left, {cot.TARGET} on the right. {told}."
    )


def orders_figure(orders: tuple[str, ...] = ORDERS):
    """(figure, alt): Figure 3, the steps of a chain in each order, and which effects precede a cause."""
    import matplotlib.pyplot as plt
    from matplotlib.patches import FancyArrowPatch

    from causalnb.lab.figures import COLOURS
    from causalnb.tasks import cot_order_perturb as cot

    fig, axes = plt.subplots(1, len(orders), figsize=(1.08 * len(orders), 3.0), sharey=True)
    for ax, mode in zip(axes, orders, strict=True):
        names = cot.order(mode)
        place = {name: -i for i, name in enumerate(names)}
        for effect in names:
            for cause in (c for c in cot.GRAPH[effect] if c in place):
                wrong = place[effect] > place[cause]
                ax.add_patch(
                    FancyArrowPatch(
                        (0, place[cause]),
                        (0, place[effect]),
                        arrowstyle="-|>",
                        mutation_scale=5,
                        shrinkA=2,
                        shrinkB=2,
                        connectionstyle=f"arc3,rad={-0.42 if wrong else 0.42}",
                        color=COLOURS["vermillion"] if wrong else "0.75",
                        linewidth=1.1 if wrong else 0.5,
                        linestyle="-" if wrong else (0, (4, 2)),
                    )
                )
        for name, height in place.items():
            bold = "bold" if name == cot.TARGET else "normal"
            ax.text(0.12, height, name, fontsize=6, va="center", fontweight=bold)
        ax.set(xlim=(-1.15, 0.95), ylim=(-12.6, 0.6))
        ax.set_title(f"{mode}\n{cot.violations(names)} of 23 reversed", fontsize=7)
        ax.set_axis_off()
    told = "; ".join(
        f"{mode}: {cot.violations(cot.order(mode))} reversed, {cot.TARGET} in place "
        f"{cot.order(mode).index(cot.TARGET) + 1} of 13"
        for mode in orders
    )
    return fig, (
        "The 13 steps of a chain of thought in each order, from top to bottom. Dashed arcs lead "
        "from a cause down to its effect, solid ones up, where the effect is said first. "
        f"{told}."
    )


def algorithm_table():
    """Algorithm 1: what is drawn, by the paper's words and by ours, computed anew."""
    from hashlib import sha256

    from causalnb.lab.tables import Table
    from causalnb.tasks import cot_order_perturb as cot

    table = cot.table()
    target = table[:, cot.VARIABLES.index(cot.TARGET)]
    train, test = cot.split()
    digest = sha256(",".join(map(str, target.tolist())).encode()).hexdigest()[:16]
    rows = [
        ["inputs", "Zorin, Vortex uniform on 0 to 100", f"{len(table):,} pairs, all of them in a table"],
        [
            "signature (Zorin, Vortex, Stardust)",
            "sampled until new",
            f"{len({(*row[:2], row[-1]) for row in table.tolist()}):,} different: the inputs alone decide",
        ],
        [
            "Stardust",
            "not said",
            f"{len(set(target.tolist()))} values from {target.min()} to {target.max()}; "
            f"{(target < 0).sum()} are negative",
        ],
        ["Stardust of all inputs, sha256", "not said", digest],
        ["training inputs", "2,000", f"{len(set(train)):,}"],
        [
            "test inputs",
            "500 different ones (text); the training inputs (Algorithm 1)",
            f"{len(set(test)):,}, of which {len(set(train) & set(test))} are training inputs",
        ],
        ["random orders", "R1 to R3 (text), R1 to R4 (Algorithm 1)", "R1, R2, R3"],
        ["the same inputs for every order", "yes", "yes"],
    ]
    return Table(
        "c2dlm.algorithm1",
        ["", "paper", "here"],
        rows,
        "COT-OrderPerturb: what Algorithm 1 draws, in the paper's words and computed here",
    )


def shortcuts(train, test) -> dict[str, float]:
    """Share of test answers that readers without a chain get: a constant, a neighbour, polynomials."""
    import numpy as np
    from sklearn.linear_model import LinearRegression
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import PolynomialFeatures, StandardScaler

    from causalnb.tasks import cot_order_perturb as cot

    asked, wanted = (np.array(part) for part in (train, test))
    told, truth = (np.array([cot.values(*pair)[cot.TARGET] for pair in part]) for part in (train, test))
    numbers, counts = np.unique(told, return_counts=True)
    found = {
        "most frequent answer": np.full(len(truth), numbers[counts.argmax()]),
        "nearest training input": KNeighborsClassifier(1).fit(asked, told).predict(wanted),
    }
    for degree, name in ((1, "linear fit"), (3, "cubic fit"), (6, "fit of degree 6")):
        fit = make_pipeline(StandardScaler(), PolynomialFeatures(degree), LinearRegression())
        found[name] = np.rint(fit.fit(asked, told).predict(wanted))
    return {name: float((guess == truth).mean()) for name, guess in found.items()}


def step_shortcuts(train, test) -> dict[str, float]:
    """Share of test steps that are right in the chain of the nearest input, or by a cubic fit a step."""
    import numpy as np
    from sklearn.linear_model import LinearRegression
    from sklearn.neighbors import KNeighborsRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import PolynomialFeatures, StandardScaler

    from causalnb.tasks import cot_order_perturb as cot

    told, truth = (
        np.array([[cot.values(*pair)[step] for step in cot.STEPS] for pair in part]) for part in (train, test)
    )
    readers = {
        "the chain of the nearest training input": KNeighborsRegressor(1),
        "a cubic fit for each step": make_pipeline(
            StandardScaler(), PolynomialFeatures(3), LinearRegression()
        ),
    }
    return {
        name: float((np.rint(reader.fit(train, told).predict(test)) == truth).mean())
        for name, reader in readers.items()
    }


@artefact(
    "c2dlm.fig3",
)
def fig3(profile):
    """The steps of a chain in each order, and which effects precede a cause."""
    from causalnb.lab.figures import save_figure

    fig, alt = orders_figure()
    save_figure(
        fig,
        "c2dlm.fig3",
        alt=alt,
        caption="A chain of thought in each order; solid arcs lead from "
        "an effect that is said before its cause.",
    )


@artefact(
    "c2dlm.fig7",
)
def fig7(profile):
    """The graph that generates the data."""
    from causalnb.lab.figures import save_figure

    fig, alt = graph_figure()
    save_figure(fig, "c2dlm.fig7", alt=alt, caption="The graph of COT-OrderPerturb, read from its formulas.")


@artefact(
    "c2dlm.algorithm1",
)
def algorithm1(profile):
    """What Algorithm 1 draws."""
    from causalnb.lab.tables import save_table

    save_table(algorithm_table())
