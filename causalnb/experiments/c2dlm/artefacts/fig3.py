"""Figure 3 of C2DLM: a chain of thought in each order."""

from causalnb.lab.report import builds, draw
from causalnb.tasks import cot_order_perturb as cot

ORDERS = ("normal", "LR", "OF", "DFS", "R3", "R1", "R2", "RE")
EDGES = sum(cause in cot.STEPS for causes in cot.GRAPH.values() for cause in causes)  # between listed steps
ARROW = {"arrowstyle": "-|>", "mutation_scale": 5, "shrinkA": 2, "shrinkB": 2}


def orders_figure(orders: tuple[str, ...] = ORDERS):
    """(figure, alt): Figure 3, the steps of a chain in each order, and which effects precede a cause."""
    import matplotlib.pyplot as plt
    from matplotlib.patches import FancyArrowPatch

    from causalnb.lab.figures import COLOURS, headline, text_size

    looks = {  # whether the effect is said first
        False: {"linewidth": 0.5, "color": "0.75", "linestyle": (0, (4, 2))},
        True: {"linewidth": 1.1, "color": COLOURS["vermillion"], "linestyle": "-"},
    }
    bends = {False: "arc3,rad=0.38", True: "arc3,rad=-0.38"}
    fig, axes = plt.subplots(1, len(orders), figsize=(len(orders), 3.0), sharey=True)
    for ax, mode in zip(axes, orders, strict=True):
        names = cot.order(mode)
        place = {name: -i for i, name in enumerate(names)}
        for effect in names:
            for cause in (c for c in cot.GRAPH[effect] if c in place):
                ends = (0, place[cause]), (0, place[effect])
                first = place[effect] > place[cause]
                look = ARROW | looks[first] | {"connectionstyle": bends[first]}
                ax.add_patch(FancyArrowPatch(*ends, **look))
        for name, height in place.items():
            bold = "bold" if name == cot.TARGET else "normal"
            ax.text(0.12, height, name, fontsize=text_size(6), va="center", fontweight=bold)
        ax.set(xlim=(-1.15, 0.95), ylim=(-12.6, 0.6))
        ax.set_title(f"{mode}\n{cot.violations(names)} of {EDGES} reversed", fontsize=text_size(7))
        ax.set_axis_off()
    counts = {mode: cot.violations(cot.order(mode)) for mode in orders}
    least, most = min(orders, key=counts.__getitem__), max(orders, key=counts.__getitem__)
    headline(
        fig,
        f"Effects said before their cause: {counts[least]} of {EDGES} in order {least}, "
        f"{counts[most]} in order {most}",
    )
    told = "; ".join(
        f"{mode}: {cot.violations(cot.order(mode))} reversed, {cot.TARGET} in place "
        f"{cot.order(mode).index(cot.TARGET) + 1} of 13"
        for mode in orders
    )
    return fig, (
        "The 13 steps of a chain of thought in each order, from top to bottom. Dashed arcs lead from a cause "
        f"down to its effect, solid ones up, where the effect is said first. {told}."
    )


@builds("c2dlm.fig3")
def fig3(profile):
    """The steps of a chain in each order, and which effects precede a cause."""
    caption = (
        "A chain of thought in each order; solid arcs lead from an effect that is said before its cause."
    )
    draw(profile, "c2dlm.fig3", orders_figure(), caption)
