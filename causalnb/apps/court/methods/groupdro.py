"""GroupDRO (Sagawa et al. 2020): the groups that are answered worst weigh most."""

import torch

from causalnb.apps.court import row_losses

ON = "shortcut,compose,modules"  # a graph gives no groups
STEP = 0.01  # eta of the paper's Algorithm 1


def build(base, task):
    """The base, with the weights q of the groups, equal at the start."""
    base.register_buffer("q", torch.full((len(task.values),), 1 / len(task.values)))
    return base


def loss(model, batch, task):
    """sum_g q_g l_g with l_g the mean loss of group g in the batch, after q_g <- q_g exp(eta l_g) / sum."""
    logits = model(batch["input_ids"], attention_mask=batch["attention_mask"]).logits
    each, groups = row_losses(logits, batch["labels"]), batch[f"{task.label}_ids"]
    total = torch.zeros_like(model.q).index_add(0, groups, each)
    means = total / groups.bincount(minlength=len(model.q)).clamp(min=1)  # 0 for groups that the batch lacks
    model.q *= (STEP * means.detach()).exp()
    model.q /= model.q.sum()
    return (model.q * means).sum()


def measure(model, task):
    """The largest weight of a group, and the weight that all would have."""
    return {"largest weight": float(model.q.max()), "equal weight": 1 / len(model.q)}
