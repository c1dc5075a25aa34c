"""Figure 6 of the Causal Transformer: the blocks of encoder and decoder, as they run."""

from itertools import pairwise

from causalnb.experiments.causal_transformer.artefacts.fig2 import squares
from causalnb.lab.report import builds, draw

BOXES = {  # module -> what its box says
    "embed_tokens": "token + position vectors",
    "self_attn": "causal self-attention",
    "self_attn.update": "GCN value update",
    "self_norm": "Add & Norm",
    "cross_attn": "cross-attention",
    "cross_norm": "Add & Norm",
    "ffn": "feed-forward",
    "ffn_norm": "Add & Norm",
}
SHADES = {"self_attn": "#CFE8F7", "self_attn.update": "#F7DCC8"} | dict.fromkeys(
    ("self_norm", "cross_norm", "ffn_norm"), "#F2F2F2"
)
SUBLAYERS = (("self_attn", "self_norm"), ("cross_attn", "cross_norm"), ("ffn", "ffn_norm"))


def tiny_model():
    """(model, inputs): a small encoder-decoder with random weights, and one pair of sentences."""
    import torch

    from causalnb.causal_transformer import CausalTransformerConfig, CausalTransformerForConditionalGeneration

    with torch.random.fork_rng():
        torch.manual_seed(0)
        size = {"d_model": 16, "num_heads": 2, "d_ff": 32, "encoder_layers": 2, "decoder_layers": 2}
        model = CausalTransformerForConditionalGeneration(CausalTransformerConfig(vocab_size=20, **size))
    ids = torch.arange(3, 10)[None]
    return model.eval(), dict(input_ids=ids, labels=ids.flip(1))


def trace() -> dict:
    """{"ran": {stack: modules of its first layer in the order they ran}, "maps": ..., "losses": ...}."""
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
        stack: stack == "encoder" and model.losses[stack][0].self_loop
        for stack in ran
        if stack in model.losses
    }
    return dict(ran=ran, maps=maps, losses=losses)


def blocks_figure():
    """(figure, alt): encoder and decoder, a box for each module in the order in which it ran."""
    import matplotlib.pyplot as plt

    from causalnb.lab.figures import headline

    found = trace()
    fig, ax = plt.subplots(figsize=(7.6, 5.4))
    across = {"encoder": 1.6, "decoder": 6.0}
    places = {stack: _column(ax, names, across[stack], stack) for stack, names in found["ran"].items()}
    _cross(ax, places)
    for stack, side in (("encoder", -1), ("decoder", 1)):
        if stack in found["losses"]:
            _measured(ax, places[stack]["self_attn"], side, found["maps"][stack], found["losses"][stack])
    ax.set(xlim=(-2.0, 9.6), ylim=(-0.7, 8.0), aspect="auto")
    ax.set_axis_off()
    both = [stack for stack in found["losses"] if "self_attn.update" in found["ran"][stack]]
    headline(
        fig,
        f"Self-attention is causal in {' and '.join(both)}: a loss h on its map and a GCN on its values",
    )
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

    from causalnb.lab.figures import text_size

    places = {name: (x, 0.95 * row) for row, name in enumerate(names)}
    for name, (_, y) in places.items():
        look = {"facecolor": SHADES.get(name, "#FFFFFF"), "edgecolor": "black"}
        ax.add_patch(FancyBboxPatch((x - 1.3, y - 0.26), 2.6, 0.52, boxstyle="round,pad=0.02", **look))
        ax.text(x, y, BOXES[name], ha="center", va="center", fontsize=text_size(8.5))
    heights = [y for _, y in places.values()]
    for low, high in pairwise(heights):
        _arrow(ax, (x, low + 0.28), (x, high - 0.28))
    for first, norm in SUBLAYERS:
        if first in places:
            _way(ax, x, places[first][1] - 0.47, x + 1.5, places[norm][1], x + 1.32, "0.45", 1)
    top = heights[-1]
    _arrow(ax, (x, top + 0.28), (x, top + 0.75))
    name = "states" if stack == "encoder" else "next token"
    ax.text(x, top + 0.82, f"{stack}: {name}", ha="center", va="bottom", fontsize=text_size(9), weight="bold")
    return places


def _arrow(ax, start, end, colour: str = "black") -> None:
    ax.annotate("", end, start, arrowprops=dict(arrowstyle="-|>", color=colour, shrinkA=0, shrinkB=0))


def _way(ax, x, y, aside, height, end, colour: str, width: float) -> None:
    """From a point aside, up to a height, and with an arrow to an end there."""
    look = {"color": colour, "marker": "", "linestyle": "-", "linewidth": width}
    ax.plot([x, aside, aside], [y, y, height], **look)
    _arrow(ax, (aside, height), (end, height), colour)


def _cross(ax, places) -> None:
    """The encoder's states on their way to the decoder's cross-attention."""
    from causalnb.lab.figures import COLOURS

    (x, y), (to, height) = list(places["encoder"].values())[-1], places["decoder"]["cross_attn"]
    _way(ax, x, y + 0.55, x + 2.2, height, to - 1.32, COLOURS["blue"], 1.6)


def _measured(ax, place, side: int, weights, self_loop) -> None:
    """The map of a self-attention beside its box, and the loss that measures it."""
    from causalnb.lab.figures import COLOURS, text_size

    (x, y), red = place, COLOURS["vermillion"]
    centre = x + side * 2.55
    squares(
        ax.inset_axes((centre - 0.75, y - 0.55, 1.5, 1.3), transform=ax.transData),
        weights > 0,
        vmax=1.6,
        linewidth=0.8,
        aspect="auto",
    )
    ends = [x + side * 1.32, x + side * 1.78]
    ax.plot(ends, [y, y], color=red, marker="", linestyle="--", linewidth=1.4)
    tolerated = "self-loops tolerated" if self_loop else "no slack for self-loops"
    look = {"ha": "center", "va": "top", "fontsize": text_size(8), "color": red}
    ax.text(centre, y - 0.7, f"loss h(A)\n{tolerated}", **look)


@builds("causal_transformer.fig6")
def fig6(profile):
    """Figure 6: encoder and decoder."""
    caption = (
        "One layer of encoder and decoder: boxes are modules of the package in the order in which they ran."
    )
    draw(profile, "causal_transformer.fig6", blocks_figure(), caption)
