"""Figure 5 of the Causal Transformer: the space of tau with and without self-loop."""

from causalnb.lab.report import builds, draw


def tau_of(*weights) -> float:
    """The tau - N of a row whose other entries are 0."""
    from numpy import expm1

    return sum(expm1(weight) for weight in weights)


def intervals() -> dict[str, tuple[float, float]]:
    """Name -> (from, to) for tau by rows + tau by columns - 2N, the printed ones as printed."""
    from causalnb.causal_transformer import excess_bounds
    from causalnb.causal_transformer.loss import PRINTED_SLACK

    (low, high), (slack_low, slack_high) = (2 * bound for bound in excess_bounds()), PRINTED_SLACK
    return {
        "no self-loop": (low, high),
        "Equation 2, largest ε": (low + slack_low, high - slack_high),
        "Equation 3, largest ε (2ε)": (low + 2 * slack_low, high - 2 * slack_high),
        "self-loop of 1/3, corrected": tuple(2 * bound for bound in excess_bounds("set")),
        "self-loop up to 1/3": tuple(2 * bound for bound in excess_bounds(True)),
    }


def space_figure():
    """(figure, alt): tau over two neighbours, over three weights, and the intervals of each version."""
    import matplotlib.pyplot as plt

    from causalnb.lab.figures import headline

    fig, (curves, simplex, lines) = plt.subplots(1, 3, figsize=(10.2, 3.4), width_ratios=[1.1, 1.05, 1.2])
    _curves(curves)
    _simplex(simplex)
    _intervals(lines)
    empty = {name: ends for name, ends in intervals().items() if ends[0] > ends[1]}
    asked = (
        f"from {low:.2f} to {high:.2f} in {name.partition(',')[0]}" for name, (low, high) in empty.items()
    )
    headline(fig, f"The printed slack at its largest leaves no map: intervals {', '.join(asked)}")
    told = "; ".join(f"{name} from {low:.2f} to {high:.2f}" for name, (low, high) in intervals().items())
    return fig, (
        "Left, two U-shaped curves of tau over the weight of one of two neighbours, the one with self-loop "
        "lower and flatter. Middle, a triangle of three weights, tau smallest at its centre and largest at "
        f"its corners. Right, intervals of tau by rows and columns: {told}. Empty: {' and '.join(empty)}."
    )


def _curves(ax) -> None:
    """The tau of a row of two neighbours, without self-loop and with one of 1/3."""
    import numpy as np

    from causalnb.lab.figures import COLOURS, text_size

    share, blue = np.linspace(0, 1, 101), COLOURS["blue"]
    for label, loop, colour, line in (
        ("no self-loop", 0, blue, "-"),
        ("self-loop of 1/3", 1 / 3, "black", "--"),
    ):
        heights = tau_of(loop, (1 - loop) * share, (1 - loop) * (1 - share))
        ax.plot(share, heights, color=colour, linestyle=line, marker="", label=label)
    for height, name, up in ((tau_of(0.5, 0.5), "H' − N", -0.05), (tau_of(1), "H'' − N", 0.015)):
        ax.axhline(height, color=blue, linestyle=":", marker="", linewidth=1)
        ax.text(0.5, height + up, name, ha="center", fontsize=text_size(8), color=blue)
    ax.set(xlabel="share of parent m among m and n", ylabel="τ of the row − N", ylim=(1.1, 1.82))
    look = {"loc": "lower center", "columnspacing": 1, "handlelength": 1.6}
    look |= {"ncols": 2} if text_size(1) == 1 else {"bbox_to_anchor": (0.5, 1)}  # two have no room in others
    ax.legend(fontsize=text_size(8), **look)


def _simplex(ax, steps: int = 60) -> None:
    """The tau of rows of three weights, self, m and n; the line is H', the dashed one a self-loop of 1/3."""
    import numpy as np

    from causalnb.lab.figures import COLOURS, text_size

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
    ax.set_title("white: τ = H'; dashed: self = 1/3;\ndot: all three 1/3", fontsize=text_size(8), pad=18)
    ax.set_axis_off()
    ax.figure.colorbar(shade, ax=ax, shrink=0.8, label="τ of the row − N", format="%.2f")


def _intervals(ax) -> None:
    """The interval of each version; where it is empty, an arrow from its lower to its upper end."""
    from causalnb.lab.figures import COLOURS, text_size

    found = intervals()
    for place, (low, high) in enumerate(found.values()):
        empty = low > high
        colour, sides = COLOURS["vermillion" if empty else "blue"], ("left", "right")[:: 1 if empty else -1]
        if empty:
            arrow = {"arrowstyle": "-|>", "color": colour, "linestyle": "--"}
            ax.annotate("", (high, place), (low, place), arrowprops=arrow)
            ax.text((low + high) / 2, place - 0.12, "empty", color=colour, ha="center", fontsize=text_size(8))
        else:
            look = {"linestyle": "-", "linewidth": 5, "color": colour, "marker": ""}
            ax.plot([low, high], [place, place], solid_capstyle="butt", **look)
        for end, side in zip((low, high), sides, strict=True):
            ax.text(end, place - 0.12, f"{end:.2f}", ha=side, fontsize=text_size(7))
    ax.set_yticks(range(len(found)), [name.replace(", ", ",\n") for name in found], fontsize=text_size(8))
    ax.set(xlabel="τ by rows + τ by columns − 2N", xlim=(2.0, 4.35), ylim=(len(found) - 0.5, -0.6))


@builds("causal_transformer.fig5")
def fig5(profile):
    """Figure 5: the space of tau with and without self-loop."""
    caption = (
        "tau of a row with two parents, with and without self-loop; the printed slack, at its largest, "
        "leaves no feasible map."
    )
    draw(profile, "causal_transformer.fig5", space_figure(), caption)
