"""Reweighting: each group, structure or domain weighs the same in the loss, however many rows it has."""

from collections import Counter

import torch

from causalnb.apps.court import row_losses

ON = "shortcut,compose,modules"  # a graph gives no groups


def build(base, task):
    """The base, with a weight for each value of what is told, the inverse of its share."""
    counts = Counter(row["number"] for row in task.train)
    weights = [len(task.train) / len(task.values) / counts.get(i, 1) for i in range(len(task.values))]
    base.register_buffer("row_weights", torch.tensor(weights))
    return base


def loss(model, batch, task):
    """sum_i w_i l_i / B, with l_i the loss of row i and w_i its group's weight."""
    logits = model(batch["input_ids"], attention_mask=batch["attention_mask"]).logits
    weights = model.row_weights[batch[f"{task.label}_ids"]]
    return (weights * row_losses(logits, batch["labels"])).mean()
