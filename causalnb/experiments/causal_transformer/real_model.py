"""What the arms on a real encoder add to it: a loss on maps, a pull on their entropy, a band."""

from contextlib import ExitStack, contextmanager

from causalnb.experiments.causal_transformer.data import collate


@contextmanager
def on_the_loss(model, term, weight: float, ramp: list[float] | None):
    """Within, weight times term(inputs) is on the model's loss in training; it rises between passes `ramp`.

    They are counted in a buffer of the model, so that checkpoints have them.
    """
    import torch

    first, last = ramp or (-1.0, 0.0)
    model.register_buffer("passes", torch.zeros((), dtype=torch.long))

    def add(model, arguments: tuple, given: dict, output):
        if model.training:
            share = ((model.passes - first) / (last - first)).clamp(0, 1)
            output["loss"] = output["loss"] + weight * share * term(given)
            model.passes += 1
        return output

    hook = model.register_forward_hook(add, with_kwargs=True)
    try:
        yield
    finally:
        hook.remove()


@contextmanager
def off_entropy(model, target: float):
    """Within, a function of the latest pass in training: |H - target|, H the mean entropy of maps' rows."""
    from causalnb.attention import tap
    from causalnb.causal_transformer.contrasts import row_entropy

    maps: list = []

    def keep(record) -> None:
        if model.training:
            maps.append(record.attention())

    def off(given: dict):
        entropy = row_entropy(tuple(maps), given["attention_mask"])
        maps.clear()
        return (entropy - target).abs()

    with tap(model, keep):
        yield off


def banded(width: int):
    """A hook before the forward pass: tokens see neighbours up to `width` away, and the first one all."""
    from causalnb.causal_transformer.patterns import attention_pattern

    def narrow(model, arguments: tuple, given: dict) -> tuple[tuple, dict]:
        there = given["attention_mask"].bool()
        seen = attention_pattern("band", there.shape[1], width, global_tokens=1).to(there.device)
        return arguments, {**given, "attention_mask": there[:, None, None] & seen}  # (B, 1, T, T)

    return narrow


@contextmanager
def added(model, config: dict):
    """Within, the model is that of an arm: with the loss, the pull on entropy, or the band."""
    from causalnb.causal_transformer import MarkovBlanketLoss
    from causalnb.causal_transformer.penalty import markov_blanket_penalty

    ramp = config["ramp"] and [share * config["steps"] for share in config["ramp"]]
    pull = {"weight": config["weight"], "ramp": ramp}
    with ExitStack() as stack:
        if config["blanket"] != "none":  # a part of the model, so that checkpoints have its multipliers
            model.blanket = MarkovBlanketLoss(config["blanket"], self_loop=True, **config["blanket_settings"])
            penalty = stack.enter_context(markov_blanket_penalty(model, criterion=model.blanket))
            stack.enter_context(on_the_loss(model, lambda _: penalty.loss(), **pull))
        if config["entropy"] is not None:
            off = stack.enter_context(off_entropy(model, config["entropy"]))
            stack.enter_context(on_the_loss(model, off, **pull))
        if config["band"]:
            hook = model.register_forward_pre_hook(banded(config["band"]), with_kwargs=True)
            stack.callback(hook.remove)
        yield


def map_shape(model, rows: list[dict]) -> dict[str, float]:
    """violated, the share of nodes outside the bounds, and row entropy in nats, over layers, on encoded rows.

    All arms are measured at the bounds that tolerate self-loops.
    """
    import torch

    from causalnb.attention import attention_maps
    from causalnb.causal_transformer import MarkovBlanketLoss
    from causalnb.causal_transformer.contrasts import row_entropy
    from causalnb.causal_transformer.measure import excess

    given = {name: value.to(model.device) for name, value in collate(rows).items() if name != "labels"}
    model.eval()
    maps, valid = attention_maps(model, **given), given["attention_mask"].bool()
    bounds = MarkovBlanketLoss(self_loop=True)
    shares = [bounds.violated(*excess(one, valid), valid) for one in maps]
    return {
        "violated": float(torch.stack(shares).mean()),
        "entropy": float(row_entropy(tuple(maps), valid)),
    }
