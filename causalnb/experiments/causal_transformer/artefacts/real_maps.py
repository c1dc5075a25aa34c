"""What maps of a tuned pre-trained encoder are like, as Figures 8 and 9 tell it of encoders from scratch."""

from causalnb.experiments.causal_transformer.artefacts.fig8 import draw_map, panels
from causalnb.experiments.causal_transformer.artefacts.fig9 import MEASURES, counted, level, measures
from causalnb.experiments.causal_transformer.artefacts.real import EXTRA, NAMED
from causalnb.lab import registry
from causalnb.lab.report import Measured, Report, Row, arm, builds, draw
from causalnb.lab.statistics import mean_ci

HOME = "causal_transformer.real_maps"
MAPS = "causal_transformer.real.maps"
SHORT = {"vanilla": "vanilla", "loss_late": "+ loss, late", "entropy_late": "+ entropy alone, late"}
CYCLES = MEASURES["cycles"]
DRAWN = [MEASURES[name] for name in ("violated", "hubs", "loops", "two_cycles", "cycles")]  # shares
MODELS = {"encoder": (MAPS, "validation", {words: name for name, words in SHORT.items()})}


def _rows():
    names = [*SHORT.values()]
    right = (arm(MAPS, name, "validation_accuracy") for name in SHORT)
    yield Row("right answers, share of pairs", dict(zip(names, right, strict=True)))
    for words, each in measures("encoder", MODELS).items():
        yield Row(words, dict(zip(names, each, strict=True)))


def _notes(profile):
    given = registry.config(MAPS, "vanilla", profile)
    return (
        f"{given['base']} tuned as in the table of SNLI, {given['steps']:,} steps; means over layers and "
        f"heads on {given['map_rows']} of the validation pairs, right answers on all. One seed, which "
        "decides nothing between close values. Shares of tokens unless said. A strong arc has more than a "
        "third of a token's attention; a hub is read strongly by more than two others. "
        f"*{NAMED['snli']['loss_late']}*, and its control *{NAMED['snli']['entropy_late']}*, without value "
        "updates."
    )


counts = Report(
    HOME,
    ["measure", *(Measured(name, format=level) for name in SHORT.values())],
    _rows,
    "What maps of a pre-trained encoder are like after SNLI, all layers and heads",
    _notes,
)


def maps_figure(profile: str | None = None, seed: int = 0):
    """(figure, alt): a map of each arm on the paper's pair as a heat map, and below what all heads do."""
    import matplotlib.pyplot as plt

    from causalnb.lab.figures import COLOURS, headline, text_size

    fig = plt.figure(figsize=(11.0, 6.6))
    grid = fig.add_gridspec(2, len(SHORT), height_ratios=[1.6, 1])
    top, below = [fig.add_subplot(grid[0, at]) for at in range(len(SHORT))], fig.add_subplot(grid[1, :])
    told = []
    for ax, _, column, tokens, weights in panels(top, profile, seed, MODELS):
        image, neighbours, strongest = draw_map(ax, tokens, weights, False)
        ax.set_title(f"{column}: {neighbours:.1f} effective neighbours", fontsize=text_size(9))
        count = counted(weights)
        told.append(
            f"{column}: {neighbours:.1f} effective neighbours a token, most read tokens of "
            f"{' and '.join(map(repr, strongest))}, strong arcs {count['arcs']}, self-loops {count['loops']}"
        )
    top[0].set_ylabel("reads")
    top[1].set_xlabel("is read", fontsize=text_size(9))
    fig.colorbar(image, ax=top, label="attention, colours by its square root", shrink=0.8)
    shares = {
        words: [mean_ci(each.of(profile=profile)).mean for each in measures("encoder", MODELS)[words]]
        for words in DRAWN
    }
    width, looks = 0.8 / len(SHORT), zip(SHORT.values(), ("blue", "vermillion", "green"), strict=True)
    for at, (name, colour) in enumerate(looks):
        heights = [100 * each[at] for each in shares.values()]
        places = [place + (at - (len(SHORT) - 1) / 2) * width for place in range(len(DRAWN))]
        bars = below.bar(places, heights, width, label=name, color=COLOURS[colour])
        below.bar_label(bars, [f"{height:.1f}" for height in heights], fontsize=text_size(8))
    below.set_xticks(range(len(DRAWN)), DRAWN, fontsize=text_size(9))
    below.set(ylabel="% of tokens", ylim=(0, 110))
    below.set_title("all layers and heads, many pairs", fontsize=text_size(9))
    below.legend(fontsize=text_size(8))
    ends = (f"{name} {100 * share:.0f}" for name, share in zip(SHORT.values(), shares[CYCLES], strict=True))
    headline(fig, f"Tokens on a cycle of strong arcs, %: {', '.join(ends)}")
    parts = (
        f"{words} {', '.join(f'{100 * share:.1f} %' for share in each)}" for words, each in shares.items()
    )
    return fig, (
        "A pre-trained encoder tuned on SNLI, head 1 of layer 1 on the paper's pair as a heat map, seed "
        f"{seed}. {'; '.join(told)}. Below, shares of tokens over all heads, in the same order: "
        f"{'; '.join(parts)}."
    )


@builds(
    HOME,
    counts,
    needs=(MAPS,),
    shows="attention maps of a tuned pre-trained encoder: plain, with the loss, and with entropy held alone",
    **EXTRA,
)
def maps(profile):
    """Figures 8 and 9 on the real base."""
    caption = (
        f"Attention of {registry.config(MAPS, 'vanilla', profile)['base']} after SNLI: head 1 of layer 1 on "
        "the paper's own pair, and shares of tokens over all heads; one seed."
    )
    draw(profile, HOME, maps_figure(profile), caption)
