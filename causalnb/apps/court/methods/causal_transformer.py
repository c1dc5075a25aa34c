"""The Markov-blanket loss of the Causal Transformer on the attention maps of the base (part 1x)."""

from causalnb.causal_transformer import markov_blanket_penalty

WEIGHT = 0.1


def build(base, task):
    """The base as it is; what it is told of the rows is not used."""
    return base


def loss(model, batch, task):
    """L + w P, with P the mean over layers of what the maps have outside the bounds of a blanket."""
    with markov_blanket_penalty(model) as penalty:
        out = model(batch["input_ids"], attention_mask=batch["attention_mask"], labels=batch["labels"])
        return out.loss + WEIGHT * penalty.loss()
