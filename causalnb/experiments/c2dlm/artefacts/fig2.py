"""Figure 2 of C2DLM, its pipeline from the teacher to the loss, drawn with the arrays of one short chain."""

from dataclasses import dataclass

from causalnb.lab.report import builds, draw

SOURCES = (80, 79)  # Zorin and Vortex of the printed example
STEPS = ("Quasar", "Flux", "Radiant")  # the first formulas of the chain
SMALL = {"hidden_size": 64, "layers": 2, "heads": 4}
ALPHA, LAM, GAMMA = 3.0, 10.0, 1.0
SHARPEN = 4.0  # what the random query maps are multiplied by: with less, the attention is nearly flat
SIGNS = {1: "+", -1: "–", 0: ""}
TITLES = (
    "1  the teacher's graph",
    "2  mask M",
    "3  attention A",
    "4  value norms ‖V‖",
    "5  weighted attention, marked by M",
    "6  loss of the rows",
)


@dataclass(frozen=True)
class Chain:
    """One text on its way through the pipeline; T tokens."""

    words: list  # (T,) as said
    seen: list  # (T,) as noised
    reply: str  # the teacher's
    graph: object  # ConceptGraph
    supervision: object  # Supervision of T tokens
    batch: dict  # what the collator made of it


def rule(question: str, answer: str) -> dict[str, list[str]]:
    """The teacher of COT-OrderPerturb: each step that is told, and what its formula reads; all as quoted."""
    from causalnb.tasks.cot_order_perturb import GRAPH

    said = f"{question} {answer}".split()
    quoted = {name: f"{name} {value}" for name, value in zip(said[::2], said[1::2], strict=True)}
    return {quoted[name]: [quoted[cause] for cause in GRAPH[name]] for name in quoted if name in GRAPH}


def chain(seed: int = 0) -> Chain:
    """The first three steps of the printed example: annotated, found again in its tokens, and noised."""
    import torch

    from causalnb.c2dlm import ConceptGraph, MaskedDiffusionCollator, RuleTeacher, annotate, supervision
    from causalnb.experiments.c2dlm.models import EOS, MASK
    from causalnb.tasks import cot_order_perturb as cot
    from causalnb.tasks import words

    values = cot.values(*SOURCES)
    question, answer = (" ".join(f"{name} {values[name]}" for name in part) for part in (cot.SOURCES, STEPS))
    (note,) = annotate(RuleTeacher(rule), [(question, answer)])
    told = {name: step for name, step in cot.steps().items() if name in (*cot.SOURCES, *STEPS)}
    graph = ConceptGraph(note.edges, {f"{name} {values[name]}": step for name, step in told.items()})
    text = f"{question} <sep> {answer} <eos>"
    found = words.tokenizer()(text, return_offsets_mapping=True, add_special_tokens=False)
    mask = supervision(graph, text, found["offset_mapping"], response_start=text.index(answer), strict=True)
    row = {**words.encode(question, answer), "supervision": mask}
    assert row["input_ids"] == found["input_ids"]
    torch.manual_seed(seed)
    batch = MaskedDiffusionCollator(MASK, EOS)([row])
    name = {number: word for word, number in words.VOCABULARY.items()}
    seen = ["[M]" if number == MASK else name[number] for number in batch["input_ids"][0].tolist()]
    return Chain(text.split(), seen, note.reply, graph, mask, batch)


def model_of(seed: int = 0):
    """A small bidirectional Llama with random weights and the re-attention loss of this figure."""
    import torch

    from causalnb.c2dlm import MaskedDiffusionModel, ReattentionLoss
    from causalnb.experiments.c2dlm.models import MASK, small_llama

    torch.manual_seed(seed)
    loss = ReattentionLoss(ALPHA, LAM, backend="eager")
    model = MaskedDiffusionModel.from_base(small_llama(SMALL), MASK, loss, gamma=GAMMA)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "q_proj" in name:
                weight.mul_(SHARPEN)
    return model.eval()


def arrays(model, one: Chain) -> dict:
    """The mask (T, T), attention (T, T), norms (T,), weighted map (T, T) and row losses of one text.

    Maps and norms are means over heads and layers; the losses total, diffusion and reattention are the
    model's own.
    """
    import torch

    from causalnb.attention import tap
    from causalnb.c2dlm import row_loss, value_weighted_attention
    from causalnb.c2dlm.forms import map_of

    with torch.no_grad():
        with tap(model.base) as records:
            model.base(input_ids=one.batch["input_ids"])
        out = model(**one.batch)
        maps = [map_of(record) for record in records]
        raw = torch.stack([found.mean(1) for found in maps]).mean(0)[0]  # (T, T)
        norms = torch.stack([record.value.norm(dim=-1).mean(1) for record in records]).mean(0)[0]  # (T,)
        pairs = zip(maps, (record.value for record in records), strict=True)
        weighted = torch.stack([value_weighted_attention(*pair) for pair in pairs]).mean(0)[0]
        mask = one.supervision.dense()
        rows = row_loss(weighted, mask, model.reattention.alpha, model.reattention.lam)
    losses = {"total": out.loss, "diffusion": out.diffusion_loss, "reattention": out.reattention_loss}
    tensors = {"mask": mask, "attention": raw, "norms": norms, "weighted": weighted, "rows": rows}
    return tensors | {name: float(loss) for name, loss in losses.items()}


def pipeline_figure(one: Chain | None = None, model=None):
    """(figure, alt): teacher's graph, mask, attention, value norms, weighted attention, loss of each row."""
    import matplotlib.pyplot as plt
    import networkx as nx
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Rectangle

    from causalnb.lab.figures import COLOURS, draw_graph, headline, text_size

    one, model = one or chain(), model or model_of()
    found = arrays(model, one)
    mask, tokens = found["mask"], len(one.words)
    fig, axes = plt.subplots(2, 3, figsize=(8.2, 5.5))
    graph = nx.DiGraph(one.graph.pairs)
    levels = enumerate(nx.topological_generations(graph))
    place = {name: (x - (len(names) - 1) / 2, -y) for y, names in levels for x, name in enumerate(names)}
    labels = {name: name.replace(" ", "\n") for name in graph}
    draw_graph(axes[0, 0], graph, labels=labels, pos=place, size=1250, font_size=7.5)
    axes[0, 0].margins(0.35, 0.2)

    colours = ListedColormap([COLOURS["vermillion"], "0.93", COLOURS["blue"]])
    axes[0, 1].imshow(mask.numpy(), cmap=colours, vmin=-1, vmax=1)
    for q in range(tokens):
        for k in range(tokens):
            axes[0, 1].text(
                k, q, SIGNS[int(mask[q, k])], ha="center", va="center", color="white", fontsize=text_size(9)
            )
    for ax, name in ((axes[0, 2], "attention"), (axes[1, 1], "weighted")):
        picture = ax.imshow(found[name].numpy(), vmin=0)
        fig.colorbar(picture, ax=ax, shrink=0.75)
    for q, k in mask.nonzero().tolist():
        good = mask[q, k] == 1
        for width, colour in ((2.6, "black"), (1.3, "white" if good else COLOURS["orange"])):
            look = {"linewidth": width, "edgecolor": colour, "linestyle": "-" if good else (0, (1.2, 1))}
            axes[1, 1].add_patch(Rectangle((k - 0.38, q - 0.38), 0.76, 0.76, fill=False, **look))
    for ax in (axes[0, 1], axes[0, 2], axes[1, 1]):
        ax.grid(False)
        ax.set_xticks(range(tokens), one.seen, rotation=90, fontsize=text_size(7))
        ax.set_yticks(range(tokens), one.words, fontsize=text_size(7))  # masked where the x axis has [M]
        ax.set(xlabel="key k (cause)", ylabel="query q (effect)")
    edge = {"edgecolor": "black", "linewidth": 0.5}
    axes[1, 0].bar(range(tokens), found["norms"].tolist(), color=COLOURS["green"], **edge)
    axes[1, 0].set_xticks(range(tokens), one.seen, rotation=90, fontsize=text_size(7))
    axes[1, 0].set(xlabel="key k", ylabel="norm of the value")

    rows = found["rows"]
    valid = rows.valid.nonzero()[:, 0].tolist()
    places = list(range(len(valid)))[::-1]
    ax, parts = axes[1, 2], {"ratio loss": (rows.ratio, "blue", "")}
    parts["negative loss"] = (rows.neg, "vermillion", "//")
    for label, (part, colour, hatch) in parts.items():
        look = {"color": COLOURS[colour], "hatch": hatch, "label": label, **edge}
        ax.barh(places, [float(part[q]) for q in valid], **look)
    ax.axvline(0, color="black", linewidth=0.8)
    pairs = [(one.words[q], one.seen[q]) for q in valid]
    names = [word if word == seen else f"{word} ({seen})" for word, seen in pairs]
    ax.set_yticks(places, names, fontsize=text_size(7))
    ax.set(xlabel="loss of the row")
    ax.legend(fontsize=text_size(7), loc="upper center", bbox_to_anchor=(0.4, -0.24), ncols=2)
    for ax, title in zip(axes.flat, TITLES, strict=True):
        ax.set_title(title, fontsize=text_size(9), loc="left")
    plus, minus = (int((mask == sign).sum()) for sign in (1, -1))
    headline(
        fig,
        f"M asks for {plus} entries of A, against {minus} others: loss {found['total']:.2f} = "
        f"diffusion {found['diffusion']:.2f} + γ {GAMMA:g} × rows' mean {found['reattention']:.2f}",
    )
    edges = "; ".join(f"{effect} from {' and '.join(causes)}" for effect, causes in one.graph.edges.items())
    low, high = float(found["norms"].min()), float(found["norms"].max())
    return fig, (
        f"Six numbered panels for the text “{' '.join(one.words)}”, seen as “{' '.join(one.seen)}”. "
        f"1: a graph, {edges}. 2: a grid with {plus} plus signs, from effects as rows to "
        f"causes as columns, and {minus} minus signs. 3: the attention map. 4: bars of the "
        f"value norms, from {low:.2f} to {high:.2f}. 5: the attention weighted by the norms, squares around "
        f"the entries marked in 2. 6: ratio and negative loss of {len(valid)} rows, with mean "
        f"{found['reattention']:.2f}."
    )


@builds("c2dlm.fig2")
def fig2(profile):
    """The pipeline on one text: teacher, graph, mask, attention, value norms, weighted attention, loss."""
    caption = (
        "C2DLM's pipeline, with the arrays of a short chain of thought in a small model with random weights."
    )
    draw(profile, "c2dlm.fig2", pipeline_figure(), caption)
