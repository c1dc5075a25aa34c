"""Figure 1 of C2DLM, measured: what a causal and a bidirectional decoder use, and what the graph asks."""

from causalnb.lab.report import builds, draw

SMALL = {"hidden_size": 32, "layers": 2, "heads": 4}


def example(zorin: int = 80, vortex: int = 79):
    """(words, ids (T,), mask (T, T) of section 3.1) of one compact chain of thought in causal order."""
    import torch

    from causalnb.experiments.c2dlm.data import cot_rows
    from causalnb.tasks import words

    (row,) = cot_rows([(zorin, vortex)], "normal", {"graph": "causal", "scope": "result"}, seed=0)
    names = list(words.VOCABULARY)
    return [names[i] for i in row["input_ids"]], torch.tensor(row["input_ids"]), row["supervision"].dense()


def influence(model, ids, mask_token_id: int | None = None):
    """(T, T): row i, the gradient's norm of the prediction of token i in each input embedding; 0 = unused.

    With a mask token the model is bidirectional: token i is masked, and its own column is the mask's. Without
    one it is autoregressive: token i is predicted at position i - 1, and row 0 by nothing.
    """
    import torch

    tokens = len(ids)
    batch = ids.repeat(tokens, 1)  # (T, T): row i is the text from which token i is predicted
    place = torch.arange(tokens)
    if mask_token_id is None:
        place = place - 1
    else:
        batch.fill_diagonal_(mask_token_id)
    embedded = model.get_input_embeddings()(batch).detach().requires_grad_()  # (T, T, D)
    decoder = getattr(model, "base", model)
    logits = decoder(inputs_embeds=embedded).logits[torch.arange(tokens), place]  # (T, V)
    draw = torch.Generator().manual_seed(0)
    direction = torch.randn(logits.shape[-1], generator=draw).to(logits)
    said = logits @ direction
    if mask_token_id is None:
        said = said[1:]
    (gradient,) = torch.autograd.grad(said.sum(), embedded)
    return gradient.norm(dim=-1)


def dependence_structures(seed: int = 0):
    """({"AR", "DLM": influences in random decoders (T, T), "C2DLM": the mask}, the words)."""
    import torch

    from causalnb.c2dlm import MaskedDiffusionModel
    from causalnb.experiments.c2dlm.models import MASK, small_llama

    words, ids, mask = example()
    found = {}
    for name in ("AR", "DLM"):
        torch.manual_seed(seed)
        decoder = small_llama(SMALL).double().eval()
        if name == "DLM":
            decoder = MaskedDiffusionModel.from_base(decoder, MASK).eval()
        found[name] = influence(decoder, ids, MASK if name == "DLM" else None)
    return {**found, "C2DLM": mask}, words


def _labels(words: list[str]) -> tuple[list[int], list[str]]:
    """Ticks at the last token of each name and number, with both as label."""
    names = {i: f"{words[i - 1]} {word}" for i, word in enumerate(words) if word.lstrip("-").isdigit()}
    names |= {i: word for i, word in enumerate(words) if word.startswith("<")}
    return sorted(names), [names[i] for i in sorted(names)]


def figure(seed: int = 0):
    """(figure, alt): three matrices, rows the predicted token, columns the tokens seen."""
    import matplotlib.pyplot as plt
    import numpy as np

    from causalnb.lab.figures import COLOURS, headline, text_size

    found, words = dependence_structures(seed)
    ticks, labels = _labels(words)
    tokens, told, uses = len(words), [], []
    fig, axes = plt.subplots(1, 3, figsize=(10.2, 4.4))
    for ax, name in zip(axes[:2], ("AR", "DLM"), strict=True):
        matrix = found[name].numpy()
        shown = np.full_like(matrix, np.nan)
        np.divide(matrix, matrix.max(axis=1, keepdims=True), out=shown, where=matrix > 0)
        image = ax.imshow(np.log10(shown), vmin=-2, vmax=0)
        pairs, used = tokens * (tokens - 1), int((matrix * (1 - np.eye(tokens)) > 0).sum())
        ax.set_title(f"{name}: {used:,} of {pairs:,} pairs used")
        uses.append(f"{name} {used:,}")
        told.append(f"{name}: {used} of {pairs} pairs of different tokens have influence")
    axes[0].text(0.72 * tokens, 0.25 * tokens, "no influence\nat all", ha="center", va="center")
    bar = fig.colorbar(image, ax=axes[:2], location="bottom", shrink=0.5, aspect=40, extend="min")
    bar.set_ticks([-2, -1.5, -1, -0.5, 0])
    bar.set_label("influence, log10 of its share of the row's largest")
    mask, ax = found["C2DLM"].numpy(), axes[2]
    ax.imshow(np.ones_like(mask, float), cmap="Greys", vmin=0, vmax=10)
    looks = {1: ("blue", "s", "+1: direct cause"), -1: ("vermillion", "x", "-1: effect, later step")}
    for value, (colour, marker, label) in looks.items():
        rows, columns = (mask == value).nonzero()
        ax.scatter(columns, rows, s=13, color=COLOURS[colour], marker=marker, linewidths=1, label=label)
        told.append(f"{len(rows)} entries {value:+d}")
    ax.set_title("C2DLM: what its loss asks of attention")
    ax.legend(loc="upper center", ncols=2, fontsize=text_size(7), handletextpad=0.2, columnspacing=0.8)
    headline(
        fig,
        f"Of {pairs:,} pairs of tokens, used: {', '.join(uses)}; the graph asks for {(mask == 1).sum()} "
        f"of them and against {(mask == -1).sum()}",
    )
    for ax in axes:
        ax.set_xticks(ticks, labels, rotation=90, fontsize=text_size(5.5))
        ax.set_yticks(ticks, labels if ax is axes[0] else [], fontsize=text_size(5.5))
        ax.grid(False)
        ax.set_xlabel("token seen")
    axes[0].set_ylabel("token predicted")
    alt = (
        "Three square matrices over the tokens of one chain of thought, rows the token predicted and columns "
        f"the token seen. {told[0]}, all below the diagonal; {told[1]}, on both sides. The third holds the "
        f"mask of the concept graph: {told[2]}, scattered below the diagonal, and {told[3]}, above it; the "
        "rest is 0."
    )
    return fig, alt


@builds("c2dlm.fig1")
def fig1(profile):
    """Dependence structures of an autoregressive, a diffusion and a guided diffusion model."""
    caption = "Figure 1, measured. Gradients of small random decoders, and the mask of the concept graph."
    draw(profile, "c2dlm.fig1", figure(), caption)
