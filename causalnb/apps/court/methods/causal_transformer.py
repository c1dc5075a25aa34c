"""The Markov-blanket loss of the Causal Transformer on the attention maps of the base (part 1x)."""

import torch

from causalnb.apps.court import collated
from causalnb.causal_transformer import markov_blanket_penalty

WEIGHT = 3.0  # at which fewer than a tenth of the tokens are outside, on development rows of causes


def build(base, task):
    """The base as it is; what it is told of the rows is not used."""
    return base


def loss(model, batch, task):
    """L + w P, with P the mean over layers of what the maps have outside the bounds of a blanket."""
    with markov_blanket_penalty(model) as penalty:
        out = model(batch["input_ids"], attention_mask=batch["attention_mask"], labels=batch["labels"])
        return out.loss + WEIGHT * penalty.loss()


@torch.no_grad()
def measure(model, task):
    """The share of the tokens of development rows whose attention is outside the bounds."""
    rows = collated(task.development, task)
    with markov_blanket_penalty(model) as penalty:
        model(rows["input_ids"], attention_mask=rows["attention_mask"], use_cache=False)
    return {"share outside the bounds": float(penalty.violated())}
