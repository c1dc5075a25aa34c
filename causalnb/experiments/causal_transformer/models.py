"""The models of the Causal Transformer's experiments: built, trained, asked, and looked into."""

from math import ceil, floor

from causalnb.experiments.causal_transformer.data import collate, encoded
from causalnb.lab.registry import Run

PASSED_ON = (
    "d_model",
    "num_heads",
    "d_ff",
    "encoder_layers",
    "dropout",
    "pre_norm",
    "gcn",
    "blanket",
    "blanket_in",
    "self_loop",
    "blanket_settings",
    "causal_weight",
    "pattern",
    "pattern_width",
    "pattern_share",
    "pattern_global",
    "relative",
)  # settings of the room's configuration
EXAMPLE = ("no, sir i'm afraid i didn't", "yes, of course i did, sir")  # the pair of Figures 8 and 9


def settings(config: dict, steps: int) -> dict:
    """The room's settings among config's; `ramp` is in shares of `steps`, `draw` the random mask's seed."""
    ramp = None
    if config["ramp"] is not None:
        first, last = config["ramp"]
        ramp = [floor(first * steps), ceil(last * steps)]
    passed = {name: config[name] for name in PASSED_ON}
    return {**passed, "causal_ramp": ramp, "pattern_seed": config["draw"]}


def build_classifier(config: dict, vocabulary: int, labels: int, steps: int):
    """The model of an arm over a vocabulary: config's `model` is "transformer", "entropy", or a contrast."""
    from causalnb.causal_transformer import (
        CausalTransformerConfig,
        CausalTransformerForSequenceClassification,
    )
    from causalnb.causal_transformer.contrasts import (
        ContrastConfig,
        ContrastForSequenceClassification,
        EntropyPenaltyConfig,
        EntropyPenaltyForSequenceClassification,
    )

    size = dict(vocab_size=vocabulary, num_labels=labels)
    if config["model"] == "transformer":
        return CausalTransformerForSequenceClassification(
            CausalTransformerConfig(**size, **settings(config, steps))
        )
    if config["model"] == "entropy":
        return EntropyPenaltyForSequenceClassification(
            EntropyPenaltyConfig(config["entropy_target"], **size, **settings(config, steps))
        )
    return ContrastForSequenceClassification(
        ContrastConfig(config["model"], **size, d_model=config["d_model"], dropout=config["dropout"])
    )


def fit(run: Run, model, rows: list[dict], batches: list[list[int]], measure=None, collator=collate):
    """Train a model on batches of encoded rows; the history."""
    from causalnb.lab.training import TrainingSettings, train

    return train(
        model,
        rows,
        collator,
        batches,
        TrainingSettings.of(run.config, seed=run.seed),
        run.folder,
        measure,
        run.progress,
        run.device,
    )


def logits(model, rows: list[dict], batch: int = 256):
    """What a classifier says of each encoded row: an array (rows, labels)."""
    import numpy as np
    import torch

    from causalnb.lab.evaluation import by_length

    model.eval()
    found: list = [None] * len(rows)
    with torch.no_grad():
        for chosen in by_length([len(row["input_ids"]) for row in rows], batch):
            given = collate([rows[i] for i in chosen])
            del given["labels"]
            said = model(**{name: value.to(model.device) for name, value in given.items()}).logits
            for place, one in zip(chosen, said.cpu().numpy(), strict=True):
                found[place] = one
    return np.stack(found)


def predictions(model, rows: list[dict], batch: int = 256, among: slice = slice(None)):
    """The likeliest label of each encoded row, of those in `among`: an array (rows,)."""
    return logits(model, rows, batch)[:, among].argmax(-1) + (among.start or 0)


def right(model, rows: list[dict], among: slice = slice(None)):
    """Of each encoded row whether its label is the likeliest: an array (rows,) of bool."""
    import numpy as np

    return predictions(model, rows, among=among) == np.array([row["labels"] for row in rows])


def map_measures(maps, valid, causal: bool = False) -> dict[str, float]:
    """What `describe` and `count_arcs` find in maps of all layers, (B, H, T, T) each: means over layers.

    All models are measured at the same bounds, those that tolerate self-loops, in decoders those without.
    """
    from causalnb.causal_transformer import describe
    from causalnb.causal_transformer.arcs import count_arcs

    layers = [describe(one, valid, not causal, causal) | count_arcs(one, valid) for one in maps]
    return {name: sum(layer[name] for layer in layers) / len(layers) for name in layers[0]}


def attention_measures(model, rows: list[dict]) -> dict[str, float]:
    """`map_measures` of a classifier's encoder on encoded rows; of a model without attention nothing."""
    import torch

    from causalnb.causal_transformer import CausalTransformerForSequenceClassification

    if not isinstance(model, CausalTransformerForSequenceClassification):
        return {}
    given = {name: value.to(model.device) for name, value in collate(rows).items() if name != "labels"}
    model.eval()
    with torch.no_grad():
        maps = model(**given, output_attentions=True).encoder_attentions
    return map_measures(maps, given["attention_mask"])


def shown_map(stack: str, maps, tokens: list[str]) -> list[dict]:
    """Head 1 of layer 1 of maps (1, H, T, T): for each query a row with stack, token, to_0, to_1, ..."""
    return [
        {"stack": stack, "token": token} | {f"to_{j}": round(weight, 5) for j, weight in enumerate(row)}
        for token, row in zip(tokens, maps[0][0, 0].tolist(), strict=True)
    ]


def read_tokens(ids, tokenizer) -> list[str]:
    """What each of ids (1, T) says, as `shown_map` takes it."""
    return [tokenizer.decode([one]).strip() for one in ids[0].tolist()]


def example_map(model, tokenizer) -> list[dict]:
    """`shown_map` of a classifier's encoder on the paper's pair."""
    import torch

    given = collate(
        encoded([dict(zip(("sentence1", "sentence2"), EXAMPLE, strict=True), label=0)], tokenizer)
    )
    del given["labels"]
    model.eval()
    with torch.no_grad():
        maps = model(
            **{name: value.to(model.device) for name, value in given.items()}, output_attentions=True
        ).encoder_attentions
    return shown_map("encoder", maps, read_tokens(given["input_ids"], tokenizer))
