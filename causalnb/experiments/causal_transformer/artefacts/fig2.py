"""Figure 2 of the Causal Transformer: attentions that are sparse from the start."""

from causalnb.lab.report import builds, draw

TOKENS = 9
MASKS = {  # name -> settings of attention_pattern
    "full": {},
    "band": {"width": 1},
    "dilated": {"width": 2},
    "random": {"share": 0.25, "seed": 18},
    "block": {"width": 3},
}


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

    from causalnb.lab.figures import headline, text_size

    fig, axes = plt.subplots(2, len(MASKS), figsize=(9.2, 4.1), height_ratios=[1.6, 1])
    told, joined, never, middle = [], [], [], TOKENS // 2
    for (top, below), (name, mask) in zip(axes.T, masks().items(), strict=True):
        depth = layers_until_full(mask)
        later = "never whole" if depth is None else f"whole after {depth} layer{'s' * (depth > 1)}"
        squares(top, mask, vmax=1.25)
        top.set_title(
            f"{name}\n{cut_pairs(mask)} of {mask.numel()} pairs cut\n{later}", fontsize=text_size(8)
        )
        _readers(below, mask, middle)
        told.append(f"{name} cuts {cut_pairs(mask)} pairs and is {later}")
        if depth is None:
            never.append(name)
        elif depth > 1:
            joined.append(f"{depth} in {name}")
    headline(
        fig,
        f"Layers until all pairs that one layer cuts are joined again: {', '.join(joined)}; "
        f"never in {' and '.join(never)}",
    )
    axes[0, 0].set(ylabel="output token", xlabel="input token")
    return fig, (
        f"Five {TOKENS} by {TOKENS} masks above and the lines they leave between inputs and outputs "
        f"below, those of output {middle + 1} in bold: {'; '.join(told)}."
    )


def squares(ax, mask, vmax: float, linewidth: float = 1, **look) -> None:
    """Draw a mask (T, T) as squares, the seen pairs dark."""
    ax.imshow(mask.numpy(), cmap="Blues", vmin=0, vmax=vmax, **look)
    ax.set_xticks([x - 0.5 for x in range(len(mask))], [])
    ax.set_yticks([x - 0.5 for x in range(len(mask))], [])
    ax.tick_params(length=0)
    ax.grid(color="white", alpha=1, linewidth=linewidth)


def _readers(ax, mask, chosen: int) -> None:
    """Inputs below, outputs above, a line where an output reads an input."""
    from causalnb.lab.figures import COLOURS

    red = COLOURS["vermillion"]
    for output, key in mask.nonzero().tolist():
        bold = output == chosen
        look = {"color": red, "linewidth": 2} if bold else {"color": "0.8", "linewidth": 0.7}
        ax.plot([key, output], [0, 1], marker="", linestyle="-", zorder=1 + bold, **look)
    places, inputs = range(len(mask)), mask[chosen].tolist()
    for height, picked in ((0, inputs), (1, [x == chosen for x in places])):
        fills = [red if dark else "white" for dark in picked]
        look = {"edgecolors": "black", "linewidths": 0.7, "color": fills}
        ax.scatter(places, [height] * len(mask), s=30, zorder=3, **look)
    ax.set_axis_off()
    ax.margins(0.06, 0.15)
    if chosen and ax.get_subplotspec().is_first_col():
        for height, name in ((0, "x"), (1, r"$\hat{x}$")):
            ax.text(-0.9, height, name, ha="right", va="center")


@builds("causal_transformer.fig2")
def fig2(profile):
    """Figure 2: full, band, dilated, random and block attention."""
    caption = (
        "Sparse attentions that are fixed beforehand. A pair that one layer cuts may be joined again by "
        "further layers."
    )
    draw(profile, "causal_transformer.fig2", masks_figure(), caption)
