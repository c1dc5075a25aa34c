"""Figure 9 of the Causal Transformer: strong arcs of two maps, and counts over many."""

from functools import partial

from causalnb.experiments.causal_transformer.artefacts.fig8 import (
    MODELS,
    NEEDS,
    name_words,
    panels,
    spelled,
)
from causalnb.experiments.causal_transformer.artefacts.translation import SOURCE, side, signed, verdict_table
from causalnb.lab.report import Arm, Measured, Report, Row, arm, builds, draw, number
from causalnb.lab.statistics import mean_ci

MEASURES = {  # metric -> row of the table
    "entropy": "entropy of rows, nats",
    "neighbours": "effective neighbours",
    "violated": "outside the bounds",
    "arcs": "strong arcs a node",
    "loops": "on a self-loop",
    "two_cycles": "in a two-cycle",
    "cycles": "on a cycle",
    "hubs": "hubs",
    "column_max": "largest column sum",
}
PER_ARC = {  # fewer arcs make fewer cycles, whatever they connect
    metric: f"{MEASURES[metric]}, per strong arc" for metric in ("loops", "two_cycles", "cycles")
}
HEIGHT = 0.5  # of an arc, in units of its width


def counted(weights) -> dict[str, int]:
    """What a map (T, T) draws above the threshold: arcs, loops, two_cycles, nodes on cycles, hubs."""
    from causalnb.causal_transformer.arcs import MOST_PARENTS, arcs, on_cycle

    graph = arcs(weights[None, None])[0, 0]
    loops = graph.diagonal()
    others = graph & ~loops.diag()
    found = {
        "arcs": others,
        "loops": loops,
        "two_cycles": (others & others.T).triu(),
        "cycles": on_cycle(others),
        "hubs": others.sum(0) > MOST_PARENTS,
    }
    return {name: int(each.sum()) for name, each in found.items()}


def arcs_figure(profile: str | None = None, seed: int = 0):
    """(figure, alt): the same maps as arcs from a token to those it reads with more than a third."""
    import matplotlib.pyplot as plt

    from causalnb.causal_transformer.arcs import STRONG
    from causalnb.lab.figures import headline, text_size

    fig, axes = plt.subplots(2, 2, figsize=(9.0, 5.2))
    told: list[str] = []
    ends: dict[str, list[str]] = {}
    for ax, stack, column, tokens, weights in panels(axes.flat, profile, seed):
        draw_arcs(ax, tokens, weights)
        count = counted(weights)
        said = (
            f"arcs: {count['arcs']}, self-loops: {count['loops']}, two-cycles: {count['two_cycles']}, "
            f"on a cycle: {count['cycles']} of {len(tokens)}, hubs: {count['hubs']}"
        )
        ax.set_title(f"{stack}, {column}\n{said}", fontsize=text_size(8))
        told.append(f"{stack}, {column}: {said}")
        ends.setdefault(stack, []).append(f"{column} {count['arcs']}")
    counts = "; ".join(f"{stack}, {', '.join(each)}" for stack, each in ends.items())
    headline(fig, f"Arcs to other tokens, above {STRONG:.2f} of attention: {counts}")
    fig.supxlabel(
        "arc above the line: reads an earlier token; below: a later one; width: weight; ring: reads itself; "
        "ticks: between words; bold: with a hub",
        fontsize=text_size(8),
    )
    return fig, (
        f"Tokens on a line with an arc where one reads another with more than {STRONG:.2f} of its "
        f"attention, in the runs of seed {seed}. {'; '.join(told)}."
    )


def draw_arcs(ax, tokens: list[str], weights) -> None:
    """Arcs to earlier tokens above a line, to later ones below it, those of two-cycles dashed.

    Rings are self-loops, tokens in bold hubs.
    """
    from matplotlib.patches import Arc

    from causalnb.causal_transformer.arcs import MOST_PARENTS, arcs
    from causalnb.lab.figures import COLOURS, text_size

    graph = arcs(weights[None, None])[0, 0]
    ax.axhline(0, color="0.7", linestyle="-", marker="", linewidth=0.8, zorder=0)
    for i, j in graph.nonzero().tolist():
        if i == j:
            ax.plot(i, 0, "o", color="none", markeredgecolor=COLOURS["orange"], markersize=6)
            continue
        both, width, start = bool(graph[j, i]), abs(i - j), 0 if j < i else 180
        look = {"linestyle": "--" if both else "-", "edgecolor": COLOURS["vermillion" if both else "blue"]}
        look |= {"theta1": start, "theta2": start + 180, "linewidth": 0.6 + 1.8 * float(weights[i, j])}
        ax.add_patch(Arc(((i + j) / 2, 0), width, 2 * HEIGHT * width, **look))
    name_words(ax.xaxis, tokens, rotation=90, fontsize=text_size(8))
    hubs = ((graph & ~graph.diagonal().diag()).sum(0) > MOST_PARENTS).tolist()
    for label, (first, last, _) in zip(ax.get_xticklabels(), spelled(tokens), strict=True):
        label.set_fontweight("bold" if any(hubs[first : last + 1]) else "normal")
    reach = HEIGHT * max([abs(i - j) for i, j in graph.nonzero().tolist()], default=0) + 1
    ax.set(xlim=(-0.8, len(tokens) - 0.2), ylim=(-reach if graph.triu(1).any() else -1, reach), yticks=[])
    ax.grid(False)
    ax.spines["left"].set_visible(False)


def per_arc(metric: str, arcs: str, frame):
    """A count by seed beside that of strong arcs, of runs that have such."""
    return (frame[metric] / frame[arcs].where(frame[arcs] > 0)).dropna()


def measures(stack: str, models: dict = MODELS) -> dict[str, list[Arm]]:
    """{row of the table: vanilla and causal model, or those of `models`, in its metric} of a stack."""
    id, prefix, arms = models[stack]
    metrics = {words: f"{prefix}_{name}" for name, words in MEASURES.items()} | {
        words: partial(per_arc, f"{prefix}_{name}", f"{prefix}_arcs") for name, words in PER_ARC.items()
    }
    return {words: [arm(id, name, metric) for name in arms.values()] for words, metric in metrics.items()}


def arcs_remark(profile: str | None = None) -> str:
    """How strong arcs differ, and cycles per arc where a map can have any: a sentence for each stack."""
    told = []
    for stack in MODELS:
        models = measures(stack)
        vanilla, causal = (mean_ci(model.of(profile=profile)).mean for model in models[MEASURES["arcs"]])
        before, after = models[PER_ARC["cycles"]]
        gap = (after - before).of(profile=profile)
        if not gap:
            told.append(f"{stack.capitalize()}: no strong arcs to compare.")
            continue
        cycles = (
            f"nodes on a cycle per strong arc differ by {signed(4)(gap)}, {side(gap)}"
            if stack == "encoder"
            else "its mask leaves no room for a cycle"
        )
        told.append(
            f"{stack.capitalize()}: {vanilla:.3f} strong arcs a node in the vanilla model, {causal:.3f} in "
            f"the causal one; {cycles}."
        )
    return " ".join(told)


def _rows():
    for stack in MODELS:
        for words, (vanilla, causal) in measures(stack).items():
            yield Row((stack, words), {"vanilla": vanilla, "causal": causal, GAP: causal - vanilla})


def level(values) -> str:
    """A format of what is a share or a count for each arc, which a model without arcs lacks."""
    return number(4)(values) if values else "no arcs"


GAP = "causal - vanilla"
counts = Report(
    f"{SOURCE}.fig9_counts",
    [
        "stack",
        "measure",
        Measured("vanilla", format=level),
        Measured("causal", format=level),
        Measured(GAP, format=lambda values: signed(4)(values) if values else ""),
    ],
    _rows,
    "What maps are like over many sentences, all layers and heads: mean ± half of the 95 % "
    "interval (seeds), and the difference of the same seeds [95 % interval]",
    "Shares of tokens unless said. A strong arc has more than a third of a token's attention; a "
    "hub is read strongly by more than two others. Encoders on test pairs of SNLI, decoders on "
    "right translations into English, whose first token can read itself alone. The causal "
    "models have the GCN and the loss, the translator in both stacks.",
)


def _cycles() -> Row:
    """Cycles of the encoder beside its strong arcs: few arcs close few cycles."""
    vanilla, causal = measures("encoder")[PER_ARC["cycles"]]
    return Row(f"{GAP}, {PER_ARC['cycles']}", causal - vanilla, claim=f"{SOURCE}.claim18")


verdicts = verdict_table(f"{SOURCE}.fig9", 4, {f"{SOURCE}.claim18": _cycles()})


@builds(f"{SOURCE}.fig9", counts, verdicts, needs=NEEDS)
def fig9(profile):
    """Figure 9: strong arcs, their counts over many sentences, and the claim on it."""
    caption = (
        "Strong attention as arcs, on the paper's own pair: above the line an earlier token is read, below "
        "it a later one; dashed in both directions, rings for self-loops, bold for hubs."
    )
    draw(profile, f"{SOURCE}.fig9", arcs_figure(profile), caption)
