"""Figure 1 of ICLM drawn from the code, with what each loss trains."""

from causalnb.lab.report import builds, draw

LOSSES = {
    "output": "$L_o$",
    "invariant": r"$\alpha L_{inv}$",
    "domain": r"$\beta L_{dom}$",
    "routing": r"$\gamma L_R$",
    "mutual_information": r"$\epsilon L_I$",
}
PARTS = (
    "router",
    "chosen centroid",
    "other centroid",
    "invariant",
    "chosen domain",
    "other domain",
    "fused head",
)


def tiny_model(seed: int = 0):
    """(ICLM of a random decoder in float64, one input with two labels that goes to domain module 0)."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    from causalnb.iclm import ICLMForCausalLM

    torch.manual_seed(seed)
    base = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=16,
            hidden_size=16,
            intermediate_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            max_position_embeddings=16,
            initializer_range=0.2,
        )
    ).double()
    model = ICLMForCausalLM.from_base(base, lora={"r": 2, "dropout": 0.0}, router_trainable=True).eval()
    ids = torch.randint(16, (1, 8))
    labels = ids.masked_fill(torch.arange(8) < 6, -100)
    with torch.no_grad():
        for layer in model._adapted.values():
            layer.B.normal_(0, 0.1)  # at the start all modules are equal, and equal states have no gradients
        near = model.router.norm(model.router_states(ids, labels=labels))[0] + 0.1
        model.router.choose.codebook.copy_(near + torch.tensor([[0.0], [9.0]], dtype=torch.float64))
    return model, {"input_ids": ids, "labels": labels}


def gradients_by_part(model, inputs, loss: str) -> dict[str, float]:
    """{part: norm of the gradient} of one weighted loss of Equation 4; 0.0 where there is exactly none.

    The total is linear in the weights, so a loss's share is its total's gradient less that of none of them.
    """
    import torch

    weights = {"invariant": "alpha", "domain": "beta", "routing": "gamma", "mutual_information": "epsilon"}
    paper, trained = dict(model.config.weights), [p for p in model.parameters() if p.requires_grad]

    def found(**chosen):
        model.config.weights = dict.fromkeys(paper, 0.0) | chosen
        return torch.autograd.grad(model(**inputs).loss, trained)

    try:
        gradients = found()
        if loss != "output":
            alone = found(**{weights[loss]: paper[weights[loss]]})
            gradients = [one - none for one, none in zip(alone, gradients, strict=True)]
    finally:
        model.config.weights = paper
    names = [name for name, p in model.named_parameters() if p.requires_grad]
    groups = dict.fromkeys(PARTS, 0.0)

    def add(part, gradient):
        groups[part] += float(gradient.square().sum())

    domains = {"chosen domain": 0, "other domain": 1, "invariant": "invariant", "router": "router"}
    for name, gradient in zip(names, gradients, strict=True):
        if name.startswith("base"):
            for part, module in domains.items():
                add(part, gradient[model.number(module)])
        elif name == "router.choose.codebook":
            add("chosen centroid", gradient[0])
            add("other centroid", gradient[1])
        else:
            add("fused head", gradient)
    return {part: total**0.5 for part, total in groups.items()}


def reach(seed: int = 0) -> dict[str, dict[str, float]]:
    """{loss: {part: gradient's norm}} of one step of the tiny model."""
    model, inputs = tiny_model(seed)
    return {loss: gradients_by_part(model, inputs, loss) for loss in LOSSES}


# name: (x, y, text, colour)
BOXES = {
    "input": (0.0, 1.5, "input\ntext", "sky"),
    "router": (1.5, 3.0, "router", "vermillion"),
    "domain 0": (1.5, 2.0, "domain\nmodule 1", "vermillion"),
    "domain 1": (1.5, 1.0, "domain\nmodule N", "vermillion"),
    "invariant": (1.5, 0.0, "invariant\nmodule", "vermillion"),
    "strategy": (3.2, 3.0, "routing\nstrategy", "purple"),
    "information": (3.4, 0.55, "mutual\ninformation", "green"),
    "aggregation": (3.2, 1.75, "aggregation:\nnorm, head", "orange"),
    "output": (4.8, 1.75, "next\nword", "sky"),
}
FLOWS = (
    ("input", "router"),
    ("input", "domain 0"),
    ("input", "domain 1"),
    ("input", "invariant"),
    ("router", "strategy"),
    ("strategy", "domain 0"),
    ("domain 0", "aggregation"),
    ("invariant", "aggregation"),
    ("aggregation", "output"),
)
SHARED = (("domain 0", "information"), ("invariant", "information"))


def draw_architecture(ax) -> None:
    """The boxes of the paper's Figure 1 for one input; dashed, what this input does not activate."""
    from matplotlib.colors import to_rgba

    from causalnb.lab.figures import COLOURS, text_size

    drawn = {}
    for name, (x, y, text, colour) in BOXES.items():
        look = dict(
            boxstyle="round,pad=0.4",
            facecolor=to_rgba(COLOURS[colour], 0.35),
            linestyle="--" if name == "domain 1" else "-",
        )
        drawn[name] = ax.text(x, y, text, ha="center", va="center", fontsize=text_size(8), bbox=look)
    for start, end in FLOWS + SHARED:
        line = dict(arrowstyle="-|>", linestyle="-", color="black", shrinkA=2, shrinkB=2)
        if end == "domain 1":
            line |= dict(linestyle="--", color="0.5")
        if (start, end) in SHARED:
            line |= dict(arrowstyle="-", linestyle=":", color=COLOURS["green"], linewidth=1.8)
        if start == "strategy":
            line |= dict(color=COLOURS["purple"], connectionstyle="arc3,rad=-0.15")
        ax.annotate(
            "",
            BOXES[end][:2],
            BOXES[start][:2],
            arrowprops=line | dict(patchA=drawn[start].get_bbox_patch(), patchB=drawn[end].get_bbox_patch()),
        )
    ax.set(xlim=(-0.6, 5.4), ylim=(-0.5, 3.5))
    ax.set_axis_off()
    ax.set_title("forward, one input")


def draw_reach(ax, found: dict[str, dict[str, float]]):
    """A matrix: rows losses, columns parts; the size of the gradient, and 0 where it is exactly that."""
    import numpy as np

    from causalnb.lab.figures import text_size

    matrix = np.array([[found[loss][part] for part in PARTS] for loss in LOSSES])
    shown = np.full_like(matrix, np.nan)
    np.log10(matrix, out=shown, where=matrix > 0)
    image = ax.imshow(shown, aspect="auto")
    for row, column in np.argwhere(matrix == 0):
        ax.text(column, row, "0", ha="center", va="center", color="0.4")
    ax.set_xticks(range(len(PARTS)), [part.replace(" ", "\n") for part in PARTS], fontsize=text_size(7))
    ax.set_yticks(range(len(LOSSES)), LOSSES.values())
    ax.grid(False)
    ax.set_title("backward: which loss trains what")
    return image


def architecture_figure(seed: int = 0):
    """(figure, alt): the architecture, and the gradient of each loss in each part."""
    import matplotlib.pyplot as plt

    from causalnb.lab.figures import headline

    found = reach(seed)
    fig, (left, right) = plt.subplots(1, 2, figsize=(10.4, 3.8), width_ratios=(1, 1.15))
    draw_architecture(left)
    fig.colorbar(draw_reach(right, found), ax=right, label="norm of the gradient, log10")
    router = " and ".join(loss.replace("_", " ") for loss, parts in found.items() if parts["router"])
    idle = " or ".join(f"the {part}" for part in PARTS if not any(found[loss][part] for loss in LOSSES))
    headline(fig, f"The router is trained by the {router} loss alone; for this input no loss reaches {idle}")
    told = [
        f"{loss.replace('_', ' ')} reaches {', '.join(part for part, size in parts.items() if size)}"
        for loss, parts in found.items()
    ]
    alt = (
        "Left: an input text goes to the router, to the domain modules and to the invariant module. The "
        "router's states go to the routing strategy, which picks domain module 1; module N is dashed. The "
        "picked and the invariant module meet in the aggregation, which gives the next word, and a dotted "
        f"line joins both to the mutual information. Right: gradients of a tiny model: {'; '.join(told)}; "
        "all other gradients are exactly 0."
    )
    return fig, alt


@builds("iclm.fig1")
def fig1(profile):
    """Figure 1: the architecture, and which loss trains which part."""
    caption = "The architecture for one input, and the gradients of each loss in a tiny model."
    draw(profile, "iclm.fig1", architecture_figure(), caption)
