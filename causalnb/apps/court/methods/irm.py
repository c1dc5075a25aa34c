"""Invariant risk minimisation (IRMv1, Arjovsky et al. 2019): one scale of the logits is best everywhere."""

import torch

from causalnb.apps.court import row_losses

ON = "shortcut,compose,modules"  # a graph gives no environments
WEIGHT, WARM = 10.0, 0.3  # of the penalty, and the share of the steps before it has it


def build(base, task):
    """The base, with a count of its steps."""
    base.register_buffer("taken", torch.tensor(0))
    return base


def loss(model, batch, task):
    """mean_e R_e + w mean_e |d R_e(s f) / d s at s = 1|^2, R_e the risk in environment e of the batch."""
    scale = torch.ones((), requires_grad=True)
    logits = model(batch["input_ids"], attention_mask=batch["attention_mask"]).logits
    each, groups = row_losses(scale * logits, batch["labels"]), batch[f"{task.label}_ids"]
    risks = torch.stack([each[groups == group].mean() for group in groups.unique()])
    slopes = [torch.autograd.grad(risk, scale, create_graph=True)[0] for risk in risks]
    model.taken += 1
    weight = WEIGHT if model.taken > WARM * task.steps else 1.0
    return (risks.mean() + weight * torch.stack(slopes).square().mean()) / weight
