"""Figure 8 of the Causal Transformer: maps of the vanilla and of the causal model on the paper's pair."""

from causalnb.experiments.causal_transformer.artefacts.translation import (
    DIRECTIONS,
    SNLI,
    SOURCE,
    verdict_table,
)
from causalnb.lab import evidence, results
from causalnb.lab.report import builds, draw

MODELS = {  # stack -> experiment, what begins its metrics, arm of each column
    "encoder": (SNLI, "test", {"vanilla": "full", "causal": "both"}),
    "decoder": (DIRECTIONS["DE-EN"], "decoder", {"vanilla": "vanilla", "causal": "both"}),
}
NEEDS = tuple(id for id, _, _ in MODELS.values())
verdicts = verdict_table(f"{SOURCE}.fig8")


def example(stack: str, column: str, profile: str | None = None, seed: int = 0, models: dict = MODELS):
    """(tokens, map (T, T)) of head 1 in layer 1 on the paper's pair; LabError where results are missing.

    The encoder is SNLI's and reads both sentences; the decoder writes English and reads the hypothesis. In
    layer 1 no decoder has looked at its source yet. models: others, like MODELS.
    """
    import torch

    id, _, arms = models[stack]
    evidence.require(id, profile, [arms[column]])
    found = results.curves(id, profile, [arms[column]])
    found = found[(found["stack"] == stack) & (found["seed"] == seed)]
    weights = found[[f"to_{j}" for j in range(len(found))]].to_numpy(float)
    return [*found["token"]], torch.tensor(weights)


def panels(axes, profile: str | None = None, seed: int = 0, models: dict = MODELS):
    """(axes, stack, column, tokens, map) of each map of Figures 8 and 9, or of other models."""
    places = [(stack, column) for stack, (_, _, arms) in models.items() for column in arms]
    for ax, place in zip(axes, places, strict=True):
        yield ax, *place, *example(*place, profile, seed, models)


def spelled(tokens: list[str]) -> list[tuple[int, int, str]]:
    """(first, last, word) of each word of the paper's pair that the tokens spell; other tokens are alone."""
    import re

    from causalnb.experiments.causal_transformer.models import EXAMPLE

    words, found, at = {*re.findall(r"[\w']+|[^\w\s]", " ".join(EXAMPLE))}, [], 0
    while at < len(tokens):
        ends = range(len(tokens), at + 1, -1)
        end = next((end for end in ends if "".join(tokens[at:end]) in words), at + 1)
        found.append((at, end - 1, "".join(tokens[at:end])))
        at = end
    return found


def name_words(axis, tokens: list[str], **look) -> None:
    """Name on an axis with a place for each token whole words, each in the middle of its pieces."""
    words = spelled(tokens)
    axis.set_ticks([first - 0.5 for first, _, _ in words] + [len(tokens) - 0.5], minor=True)  # between words
    axis.set_ticks([(first + last) / 2 for first, last, _ in words], [word for *_, word in words], **look)
    axis.set_tick_params(which="major", length=0)
    axis.set_tick_params(which="minor", length=5)


def draw_map(ax, tokens: list[str], weights, causal: bool):
    """A map (T, T) as a heat map: (the image, effective neighbours of a token, the two words most read)."""
    from matplotlib.colors import PowerNorm

    from causalnb.causal_transformer import describe
    from causalnb.lab.figures import text_size

    image = ax.imshow(weights.numpy(), norm=PowerNorm(0.5, 0, 1))
    ax.grid(False)
    name_words(ax.xaxis, tokens, rotation=90, fontsize=text_size(8))
    name_words(ax.yaxis, tokens, fontsize=text_size(8))
    of_word = {at: word for first, last, word in spelled(tokens) for at in range(first, last + 1)}
    strongest = [of_word[j] for j in weights.sum(0).topk(2).indices.tolist()]
    return image, describe(weights[None, None], causal=causal)["neighbours"], strongest


def maps_figure(profile: str | None = None, seed: int = 0):
    """(figure, alt): the four maps as heat maps."""
    import matplotlib.pyplot as plt

    from causalnb.lab.figures import headline, text_size

    fig, axes = plt.subplots(2, 2, figsize=(8.6, 7.7), height_ratios=[1.6, 1], sharey="row")
    told: list[str] = []
    ends: dict[str, list[str]] = {}
    for ax, stack, column, tokens, weights in panels(axes.flat, profile, seed):
        image, neighbours, strongest = draw_map(ax, tokens, weights, stack == "decoder")
        spread = f"{stack}, {column}: {neighbours:.1f} effective neighbours"
        ax.set_title(spread, fontsize=text_size(9))
        ends.setdefault(stack, []).append(f"{column} {neighbours:.1f}")
        told.append(f"{spread} a token, most read tokens of {' and '.join(map(repr, strongest))}")
    means = "; ".join(f"{stack}, {', '.join(each)}" for stack, each in ends.items())
    headline(fig, f"Tokens that a token reads, effectively: {means}")
    fig.supxlabel("is read (a row and a column for each token, ticks between words)", fontsize=text_size(9))
    fig.supylabel("reads", fontsize=text_size(9))
    fig.colorbar(image, ax=axes, label="attention, colours by its square root", shrink=0.5)
    return fig, (
        f"Heat maps of attention, head 1 of layer 1, in the runs of seed {seed}. {'; '.join(told)}. "
        "The decoder's maps are lower triangular."
    )


@builds(f"{SOURCE}.fig8", verdicts, needs=NEEDS)
def fig8(profile):
    """Figure 8: maps of the vanilla and of the causal model on the paper's pair, and the claim on them."""
    caption = (
        "Attention, head 1 of layer 1, on the paper's own pair: encoders trained on SNLI-10k, decoders "
        "that translate into English; one seed."
    )
    draw(profile, f"{SOURCE}.fig8", maps_figure(profile), caption)
