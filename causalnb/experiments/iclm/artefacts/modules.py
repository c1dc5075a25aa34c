"""Figure 1 of ICLM drawn from the code, with what each loss trains; and what the paper's size trains."""

from causalnb.lab.registry import artefact

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
PAPER = {"num_modules": 2, "router_trainable": True, "router_projection": 64}  # the published code's router


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
            gradients = [one - none for one, none in zip(alone, gradients, strict=False)]
    finally:
        model.config.weights = paper
    names = [name for name, p in model.named_parameters() if p.requires_grad]
    groups = dict.fromkeys(PARTS, 0.0)

    def add(part, gradient):
        groups[part] += float(gradient.square().sum())

    domains = {"chosen domain": 0, "other domain": 1, "invariant": "invariant", "router": "router"}
    for name, gradient in zip(names, gradients, strict=False):
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

    from causalnb.lab.figures import COLOURS

    drawn = {}
    for name, (x, y, text, colour) in BOXES.items():
        look = dict(
            boxstyle="round,pad=0.4",
            facecolor=to_rgba(COLOURS[colour], 0.35),
            linestyle="--" if name == "domain 1" else "-",
        )
        drawn[name] = ax.text(x, y, text, ha="center", va="center", fontsize=8, bbox=look)
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

    matrix = np.array([[found[loss][part] for part in PARTS] for loss in LOSSES])
    shown = np.full_like(matrix, np.nan)
    np.log10(matrix, out=shown, where=matrix > 0)
    image = ax.imshow(shown, aspect="auto")
    for row, column in zip(*np.nonzero(matrix == 0), strict=False):
        ax.text(column, row, "0", ha="center", va="center", color="0.4")
    ax.set_xticks(range(len(PARTS)), [part.replace(" ", "\n") for part in PARTS], fontsize=7)
    ax.set_yticks(range(len(LOSSES)), LOSSES.values())
    ax.grid(False)
    ax.set_title("backward: which loss trains what")
    return image


def figure(seed: int = 0):
    """(figure, alt): the architecture, and the gradient of each loss in each part."""
    import matplotlib.pyplot as plt

    found = reach(seed)
    fig, (left, right) = plt.subplots(1, 2, figsize=(10.4, 3.5), width_ratios=(1, 1.15))
    draw_architecture(left)
    fig.colorbar(draw_reach(right, found), ax=right, label="norm of the gradient, log10")
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


# Parameters at the paper's size


def full_size(**settings):
    """An ICLM on a decoder of LLaMA2-7B's shape, without memory: its tensors have shapes and no numbers."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    from causalnb.iclm import ICLMForCausalLM

    shape = LlamaConfig(
        vocab_size=32_000,
        hidden_size=4096,
        intermediate_size=11_008,
        num_hidden_layers=32,
        num_attention_heads=32,
        tie_word_embeddings=False,
    )
    with torch.device("meta"):
        return ICLMForCausalLM.from_base(LlamaForCausalLM(shape), **settings)


def parameter_counts() -> dict[str, int]:
    """{part: number of parameters} of the paper's model, counted on our classes at full size."""
    model = full_size(**PAPER)
    modules = len(model.modules_in_order())
    adapters = sum(layer.A.numel() + layer.B.numel() for layer in model._adapted.values())
    return {
        "base": sum(p.numel() for p in model.base.parameters()) - adapters,
        "one module's adapters": adapters // modules,
        "all adapters": adapters,
        "router projection": sum(p.numel() for p in model.router.project.parameters()),
        "centroids": model.router.choose.codebook.numel(),
        "fused head": model.aggregation.head.weight.numel(),
        "normalisation": sum(p.numel() for p in model.aggregation.norm.parameters()),
    }


def parameters_table():
    """What is trained and what is held, beside the base of 6.7 billion."""
    from causalnb.iclm.configuration import LORA
    from causalnb.lab.tables import Table

    counts = parameter_counts()
    base = counts.pop("base")
    counts.pop("one module's adapters")
    trained, modules = sum(counts.values()), PAPER["num_modules"] + 2

    def share(part, whole):
        return f"{part / whole:.2%}" if part / whole >= 5e-5 else "below 0.01%"

    rows = [[name, f"{n:,}", share(n, base), share(n, trained)] for name, n in counts.items()]
    rows += [
        ["all that is trained", f"{trained:,}", share(trained, base), share(trained, trained)],
        ["base, frozen, held once here", f"{base:,}", share(base, base), ""],
        [f"base, {modules} copies in the published code", f"{modules * base:,}", share(modules, 1), ""],
    ]
    return Table(
        "iclm.parameters",
        ["part", "parameters", "of the base", "of what is trained"],
        rows,
        "Parameters of ICLM on LLaMA2-7B",
        f"{PAPER['num_modules']} domain modules, an invariant one and the router; LoRA of rank "
        f"{LORA['r']} on q, k, v and o; the router's {PAPER['router_projection']} features as in "
        "the published code. Counted on our classes at full size, without their numbers.",
    )


@artefact(
    "iclm.fig1",
)
def fig1(profile):
    """Figure 1: the architecture, and which loss trains which part."""
    from causalnb.lab.figures import save_figure

    fig, alt = figure()
    save_figure(
        fig,
        "iclm.fig1",
        alt=alt,
        profile=profile,
        caption="The architecture for one input, and the gradients of each loss in a tiny model.",
    )


@artefact(
    "iclm.parameters",
    extra=True,
    printed_as="Section 5.1",
    notebook="30_iclm_modules",
    shows="parameters that ICLM trains and holds on LLaMA2-7B",
)
def parameters(profile):
    """Section 5.1's sentence on parameters, counted."""
    from causalnb.lab.tables import save_table

    save_table(parameters_table(), profile)
