"""What arms on a real encoder add to it: value updates, losses on maps, a band, a comparison, other words."""

from contextlib import ExitStack, contextmanager

from causalnb.errors import LabError
from causalnb.experiments.causal_transformer.beyond import sentence
from causalnb.experiments.causal_transformer.data import collate, encoded
from causalnb.experiments.causal_transformer.models import EXAMPLE, map_measures, shown_map


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


def classes_of(rows: list[dict], vocabulary: int, distance: float, marks: list[int]):
    """The classes (V,) of the pieces of words in encoded pairs, as `word_classes`; marks are of none."""
    from causalnb.causal_transformer.invariance import word_classes

    return word_classes([sentence(row, kind) for row in rows for kind in (0, 1)], vocabulary, distance, marks)


@contextmanager
def interchanged(model, classes):
    """Within, a model in training reads do(x) of pairs x, as `interchange`, and answers that.

    Yields a list that holds x and its attention_mask, of the latest pass in training.
    """
    from causalnb.causal_transformer.invariance import interchange

    before: list = []

    def change(model, arguments: tuple, given: dict) -> tuple[tuple, dict]:
        if model.training:
            before[:] = given["input_ids"], given["attention_mask"]
            ids = interchange(given["input_ids"], given["token_type_ids"], classes.to(model.device))
            given = {**given, "input_ids": ids}
        return arguments, given

    hook = model.register_forward_pre_hook(change, with_kwargs=True)
    try:
        yield before
    finally:
        hook.remove()


@contextmanager
def off_shift(model, before: list):
    """Within, a function of the latest pass in training: attention_shift of its maps from those of x.

    before: what `interchanged` yields. Costs a second pass through the base; gradients go through both.
    """
    from causalnb.attention import tap
    from causalnb.causal_transformer.invariance import attention_shift

    maps: list = []

    def keep(record) -> None:
        if model.training:
            maps.append(record.attention())

    def off(given: dict):
        ours = [*maps]
        maps.clear()
        ids, there = before
        asked = {name: value for name, value in given.items() if name != "labels"}
        model.base_model(**{**asked, "input_ids": ids})
        theirs = [*maps]
        maps.clear()
        return attention_shift(ours, theirs, there)

    with tap(model, keep):
        yield off


def shift_of(model, rows: list[dict], classes, seed: int) -> float:
    """attention_shift between encoded rows and do(x) of one draw, in evaluation."""
    import torch

    from causalnb.attention import attention_maps
    from causalnb.causal_transformer.invariance import attention_shift, interchange

    given = {name: value.to(model.device) for name, value in collate(rows).items() if name != "labels"}
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        ids = interchange(given["input_ids"], given["token_type_ids"], classes.to(model.device))
    model.eval()
    both = (attention_maps(model, **{**given, "input_ids": one}) for one in (given["input_ids"], ids))
    return float(attention_shift(*both, given["attention_mask"]))


def banded(width: int):
    """A hook before the forward pass: tokens see neighbours up to `width` away, and the first one all."""
    from causalnb.causal_transformer.patterns import attention_pattern

    def narrow(model, arguments: tuple, given: dict) -> tuple[tuple, dict]:
        there = given["attention_mask"].bool()
        seen = attention_pattern("band", there.shape[1], width, global_tokens=1).to(there.device)
        return arguments, {**given, "attention_mask": there[:, None, None] & seen}  # (B, 1, T, T)

    return narrow


@contextmanager
def compared(model):
    """Within, each sentence is read alone, and the answer is read from their means u and v, compared.

    The base's pooler becomes tanh(W [u, v, |u - v|, u v] + b), and stays: after that the model is of no use.
    Tokens of type 1 are the second sentence, with places of its own. LabError for a base without a pooler.
    """
    import torch
    from torch import nn

    if getattr(model.base_model, "pooler", None) is None:
        raise LabError(f"{type(model).__name__} has no pooler to compare two sentences in: take a BERT.")
    width, parts = model.config.hidden_size, []  # each sentence's tokens, (B, 2, T), of the latest pass

    class Comparison(nn.Module):
        def __init__(self):
            super().__init__()
            self.dense = nn.Linear(4 * width, width)

        def forward(self, states):
            there = parts[0].to(states.dtype)
            u, v = (there @ states / there.sum(-1, keepdim=True)).unbind(1)
            return torch.tanh(self.dense(torch.cat((u, v, (u - v).abs(), u * v), -1)))

    def apart(model, arguments: tuple, given: dict) -> tuple[tuple, dict]:
        there, second = given["attention_mask"].bool(), given["token_type_ids"].bool()
        parts[:] = [torch.stack((there & ~second, there & second), 1)]
        places = torch.arange(there.shape[1], device=there.device) - second * (there & ~second).sum(1, True)
        own = there[:, None, None] & (second[:, None, :, None] == second[:, None, None])  # (B, 1, T, T)
        changes = {"attention_mask": own, "position_ids": places, "token_type_ids": torch.zeros_like(places)}
        return arguments, {**given, **changes}

    model.base_model.pooler = Comparison().to(model.device)
    hook = model.register_forward_pre_hook(apart, with_kwargs=True)
    try:
        yield
    finally:
        hook.remove()
        parts.clear()


@contextmanager
def added(model, config: dict, classes=None):
    """Within, the model is that of an arm: with value updates, loss, pull, comparison or band.

    classes: of its words, for an arm in which they are interchanged. LabError for maps that are held where
    none is, and beside another loss on maps.
    """
    from causalnb.causal_transformer import MarkovBlanketLoss, gate_values
    from causalnb.causal_transformer.penalty import markov_blanket_penalty

    if config["held"] and not config["interchanged"]:
        raise LabError("maps are held where words are interchanged: set interchanged, too.")
    if config["held"] and (config["blanket"] != "none" or config["entropy"] is not None):
        raise LabError("passes are counted for one loss on maps: leave out held, or blanket and entropy.")
    ramp = config["ramp"] and [share * config["steps"] for share in config["ramp"]]
    pull = {"weight": config["weight"], "ramp": ramp}
    with ExitStack() as stack:
        if config["gcn"] != "none":
            gate_values(model, config["gcn"], reach=config["reach"])
        if config["blanket"] != "none":  # a part of the model, so that checkpoints have its multipliers
            model.blanket = MarkovBlanketLoss(config["blanket"], self_loop=True, **config["blanket_settings"])
            penalty = stack.enter_context(markov_blanket_penalty(model, criterion=model.blanket))
            stack.enter_context(on_the_loss(model, lambda _: penalty.loss(), **pull))
        if config["entropy"] is not None:
            off = stack.enter_context(off_entropy(model, config["entropy"]))
            stack.enter_context(on_the_loss(model, off, **pull))
        if config["interchanged"]:  # before sentences are compared, where types of tokens are no more
            before = stack.enter_context(interchanged(model, classes))
            if config["held"]:
                off = stack.enter_context(off_shift(model, before))
                stack.enter_context(on_the_loss(model, off, config["held"], ramp))
        if config["compared"]:
            stack.enter_context(compared(model))
        if config["band"]:
            hook = model.register_forward_pre_hook(banded(config["band"]), with_kwargs=True)
            stack.callback(hook.remove)
        yield


def updates(model) -> list:
    """The value updates of a model, layer by layer."""
    from causalnb.causal_transformer import GatedValueUpdate

    return [module for module in model.modules() if isinstance(module, GatedValueUpdate)]


def gates(model) -> list:
    """r g (H,) of each value update of a model."""
    return [(update.reach * update.gate).detach() for update in updates(model)]


@contextmanager
def shut(model):
    """Within, all gates of value updates are closed."""
    import torch

    kept = [(update.gate, update.gate.detach().clone()) for update in updates(model)]
    with torch.no_grad():
        for gate, _ in kept:
            gate.zero_()
        try:
            yield
        finally:
            for gate, before in kept:
                gate.copy_(before)


def map_shape(model, rows: list[dict], more: bool = False) -> dict[str, float]:
    """violated, the share of nodes outside the bounds, and row entropy in nats, over layers, on encoded rows.

    All arms are measured at the bounds that tolerate self-loops. more: with all that `map_measures` tells.
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
    return (map_measures(maps, valid) if more else {}) | {
        "violated": float(torch.stack(shares).mean()),
        "entropy": float(row_entropy(tuple(maps), valid)),
    }


def example_map(model, base, read) -> list[dict]:
    """`shown_map` of a tuned base on the paper's pair, its pieces of words without their marks."""
    from causalnb.attention import attention_maps

    pair = dict(zip(("sentence1", "sentence2"), EXAMPLE, strict=True), label=0)
    given = {name: value.to(model.device) for name, value in collate(encoded([pair], read)).items()}
    del given["labels"]
    back = {place: token for token, place in base.places.items()}
    ids = [back[place] for place in given["input_ids"][0].tolist()]
    pieces = base.tokenizer.convert_ids_to_tokens(ids)
    return shown_map(
        "encoder", attention_maps(model.eval(), **given), [one.removeprefix("##") for one in pieces]
    )
