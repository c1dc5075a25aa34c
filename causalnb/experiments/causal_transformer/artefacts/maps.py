"""Figures 8 and 9 of the Causal Transformer: two attention maps, their strong arcs, and counts over many."""

from causalnb.experiments.causal_transformer.artefacts.translation import (
    DIRECTIONS,
    SNLI,
    SOURCE,
    gain,
    side,
    verdict_table,
)
from causalnb.lab import evidence
from causalnb.lab.registry import artefact

MODELS = {  # stack -> experiment, what begins its metrics, arm of each column
    "encoder": (SNLI, "test", {"vanilla": "full", "causal": "both"}),
    "decoder": (DIRECTIONS["DE-EN"], "decoder", {"vanilla": "vanilla", "causal": "both"}),
}
MEASURES = {  # metric -> column of the table beside Figure 9
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
PER_ARC = {
    "loops": "on a self-loop, per strong arc",
    "two_cycles": "in a two-cycle, per strong arc",
    "cycles": "on a cycle, per strong arc",
}  # fewer arcs make fewer cycles, whatever they connect
HEIGHT = 0.5  # of an arc, in units of its width


def example(stack: str, column: str, profile: str | None = None, seed: int = 0):
    """(tokens, map (T, T)) of head 1 in layer 1 on the paper's pair; LabError where results are missing.

    The encoder is SNLI's and reads both sentences; the decoder writes English and reads the hypothesis. In
    layer 1 no decoder has looked at its source yet.
    """
    import torch

    from causalnb.lab import results

    id, _, arms = MODELS[stack]
    evidence.require(id, profile, [arms[column]])
    found = results.curves(id, profile, [arms[column]])
    found = found[(found["stack"] == stack) & (found["seed"] == seed)]
    weights = found[[f"to_{j}" for j in range(len(found))]].to_numpy(float)
    return [*found["token"]], torch.tensor(weights)


def panels(profile: str | None = None, seed: int = 0) -> dict[tuple[str, str], tuple]:
    """{(stack, column): (tokens, map)} of both figures."""
    return {
        (stack, column): example(stack, column, profile, seed)
        for stack, (_, _, arms) in MODELS.items()
        for column in arms
    }


# Figure 8


def maps_figure(profile: str | None = None, seed: int = 0):
    """(figure, alt): the four maps as heat maps."""
    import matplotlib.pyplot as plt
    from matplotlib.colors import PowerNorm

    from causalnb.causal_transformer import describe

    found, told = panels(profile, seed), []
    fig, axes = plt.subplots(2, 2, figsize=(8.2, 7.6), height_ratios=[1.5, 1])
    for ax, ((stack, column), (tokens, weights)) in zip(axes.flat, found.items(), strict=True):
        image = ax.imshow(weights.numpy(), norm=PowerNorm(0.5, 0, 1))
        ax.grid(False)
        ax.set_xticks(range(len(tokens)), tokens, rotation=90, fontsize=6)
        ax.set_yticks(range(len(tokens)), tokens, fontsize=6)
        ax.set(xlabel="token that is read", ylabel="token that reads")
        spread = describe(weights[None, None], causal=stack == "decoder")["neighbours"]
        ax.set_title(f"{stack}, {column}: {spread:.1f} effective neighbours", fontsize=9)
        strongest = [tokens[j] for j in weights.sum(0).topk(2).indices.tolist()]
        told.append(
            f"{stack}, {column}: {spread:.1f} effective neighbours a token, most read "
            f"{' and '.join(map(repr, strongest))}"
        )
    fig.colorbar(image, ax=axes, label="attention, colours by its square root", shrink=0.5)
    return fig, (
        f"Heat maps of attention, head 1 of layer 1, in the runs of seed {seed}. {'; '.join(told)}. "
        "The decoder's maps are lower triangular."
    )


@artefact(
    f"{SOURCE}.fig8",
    needs=tuple(id for id, _, _ in MODELS.values()),
)
def fig8(profile):
    """Figure 8: maps of the vanilla and of the causal model on the paper's pair, and the claim on them."""
    from causalnb.lab.figures import save_figure
    from causalnb.lab.tables import save_table

    fig, alt = maps_figure(profile)
    save_figure(
        fig,
        f"{SOURCE}.fig8",
        alt=alt,
        caption="Attention, head 1 of layer 1, on the paper's own "
        "pair: encoders trained on SNLI-10k, decoders that translate into English; one seed.",
    )
    save_table(verdict_table(f"{SOURCE}.fig8", profile))


# Figure 9


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

    found, told = panels(profile, seed), []
    fig, axes = plt.subplots(2, 2, figsize=(9.0, 5.6))
    for ax, ((stack, column), (tokens, weights)) in zip(axes.flat, found.items(), strict=True):
        draw_arcs(ax, tokens, weights)
        count = counted(weights)
        said = (
            f"arcs: {count['arcs']}, self-loops: {count['loops']}, two-cycles: {count['two_cycles']}, "
            f"on a cycle: {count['cycles']} of {len(tokens)}, hubs: {count['hubs']}"
        )
        ax.set_title(f"{stack}, {column}\n{said}", fontsize=8)
        told.append(f"{stack}, {column}: {said}")
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
    from causalnb.lab.figures import COLOURS

    graph = arcs(weights[None, None])[0, 0]
    ax.axhline(0, color="0.7", linestyle="-", marker="", linewidth=0.8, zorder=0)
    for i, j in graph.nonzero().tolist():
        if i == j:
            ax.plot(i, 0, "o", color="none", markeredgecolor=COLOURS["orange"], markersize=6)
            continue
        both, width = bool(graph[j, i]), abs(i - j)
        start = 0 if j < i else 180
        ax.add_patch(
            Arc(
                ((i + j) / 2, 0),
                width,
                2 * HEIGHT * width,
                theta1=start,
                theta2=start + 180,
                linewidth=0.6 + 1.8 * float(weights[i, j]),
                linestyle="--" if both else "-",
                edgecolor=COLOURS["vermillion" if both else "blue"],
            )
        )
    ax.set_xticks(range(len(tokens)), tokens, rotation=90, fontsize=6)
    readers = (graph & ~graph.diagonal().diag()).sum(0)
    for label, hub in zip(ax.get_xticklabels(), (readers > MOST_PARENTS).tolist(), strict=True):
        label.set_fontweight("bold" if hub else "normal")
    reach = HEIGHT * len(tokens)
    ax.set(xlim=(-0.8, len(tokens) - 0.2), ylim=(-reach if graph.triu(1).any() else -1, reach), yticks=[])
    ax.grid(False)
    ax.spines["left"].set_visible(False)


def counts(stack: str, profile: str | None = None) -> dict[str, tuple]:
    """{measure: (Series of vanilla, of causal) by seed} of a stack: MEASURES, and PER_ARC beside strong arcs.

    Where no arc is strong, what there is of it has no value.
    """

    id, prefix, arms = MODELS[stack]
    found = evidence.require(id, profile, list(arms.values())).set_index(["arm", "seed"])

    def both(metric):
        return tuple(found.loc[arm][f"{prefix}_{metric}"] for arm in arms.values())

    told = {name: both(metric) for metric, name in MEASURES.items()}
    edges = [each.where(each > 0) for each in both("arcs")]
    return told | {
        name: tuple((each / arcs).dropna() for each, arcs in zip(both(metric), edges, strict=True))
        for metric, name in PER_ARC.items()
    }


def arcs_remark(profile: str | None = None) -> str:
    """How strong arcs differ, and cycles per arc where a map can have any: a sentence for each stack."""
    from causalnb.lab.statistics import mean_ci

    told = []
    for stack in MODELS:
        found = counts(stack, profile)
        one, two = (mean_ci(each).mean for each in found[MEASURES["arcs"]])
        gap = (found[PER_ARC["cycles"]][1] - found[PER_ARC["cycles"]][0]).dropna()
        cycles = (
            f"nodes on a cycle per strong arc differ by {gain(gap, 4)}, {side(gap)}"
            if stack == "encoder"
            else "its mask leaves no room for a cycle"
        )
        told.append(
            f"{stack.capitalize()}: {one:.3f} strong arcs a node in the vanilla model, {two:.3f} in "
            f"the causal one; {cycles}."
            if len(gap)
            else f"{stack.capitalize()}: no strong arcs to compare."
        )
    return " ".join(told)


def counts_table(profile: str | None = None):
    """Means over many sentences, all layers and heads: vanilla, causal, and their difference by seeds."""
    from causalnb.lab.statistics import mean_ci
    from causalnb.lab.tables import Table, estimate

    rows = []
    for stack in MODELS:
        for name, (one, two) in counts(stack, profile).items():
            gap = (two - one).dropna()
            rows.append(
                [
                    stack,
                    name,
                    *(estimate(mean_ci(each), 4) if len(each) else "no arcs" for each in (one, two)),
                    gain(gap, 4) if len(gap) else "",
                ]
            )
    columns = ["stack", "measure", *MODELS["encoder"][2], "causal - vanilla"]
    return Table(
        f"{SOURCE}.fig9_counts",
        columns,
        rows,
        "What maps are like over many sentences, all layers and heads: mean ± half of the 95 % "
        "interval (seeds), and the difference of the same seeds [95 % interval]",
        "Shares of tokens unless said. A strong arc has more than a third of a token's attention; a "
        "hub is read strongly by more than two others. Encoders on test pairs of SNLI, decoders on "
        "right translations into English, whose first token can read itself alone. The causal "
        "models have the GCN and the loss, the translator in both stacks.",
    )


def cycles_verdict(profile: str | None = None):
    """The claim on Figure 9, on cycles of the encoder beside its strong arcs: few arcs close few cycles."""
    one, two = counts("encoder", profile)[PER_ARC["cycles"]]
    return verdict_table(
        f"{SOURCE}.fig9",
        profile,
        4,
        {f"{SOURCE}.claim18": (f"causal - vanilla, {PER_ARC['cycles']}", (two - one).dropna())},
    )


@artefact(
    f"{SOURCE}.fig9",
    needs=tuple(id for id, _, _ in MODELS.values()),
)
def fig9(profile):
    """Figure 9: strong arcs, their counts over many sentences, and the claim on it."""
    from causalnb.lab.figures import save_figure
    from causalnb.lab.tables import save_table

    fig, alt = arcs_figure(profile)
    save_figure(
        fig,
        f"{SOURCE}.fig9",
        alt=alt,
        caption="Strong attention as arcs, on the paper's own pair: "
        "above the line an earlier token is read, below it a later one; dashed in both directions, "
        "rings for self-loops, bold for hubs.",
    )
    for table in (counts_table(profile), cycles_verdict(profile)):
        save_table(table)
