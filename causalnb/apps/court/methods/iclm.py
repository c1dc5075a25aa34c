"""ICLM: a router sends a prompt to domain modules beside an invariant one (part 3x)."""

import torch

from causalnb.apps.court import collated, row_losses
from causalnb.iclm import ICLMForCausalLM

ON = "shortcut,compose,modules"  # a graph gives no domains
BASE = 0.5  # share of the steps in which the base is tuned; then it is frozen, as the source's is


def build(base, task):
    """Two domain modules on the base."""
    model = ICLMForCausalLM.from_base(
        base, num_modules=2, lora={"r": 8, "alpha": 16}, router_settings={"init": "data"}
    )
    model.taken = 0
    return model.requires_grad_(True)


def loss(model, batch, task):
    """The loss of the bare base, then of ICLM, which routes by the prompt and reads no label of a domain."""
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
    model.taken += 1
    if model.taken <= BASE * task.steps:
        logits = model.base.lm_head(model.states(**inputs))
        return row_losses(logits, batch["labels"]).mean()
    if model.taken - 1 <= BASE * task.steps:  # the first step of the modules
        own = {id(p) for name, p in model.base.named_parameters() if not name.endswith((".A", ".B"))}
        for p in model.parameters():
            p.requires_grad_(id(p) not in own)
    return model(**inputs, labels=batch["labels"]).loss


@torch.no_grad()
def measure(model, task):
    """The share of development rows that the router sends to the domain module that gets most."""
    rows = collated(task.development, task)
    out = model(rows["input_ids"], attention_mask=rows["attention_mask"], labels=rows["labels"])
    counts = out.module.bincount(minlength=2)
    return {"rows at the larger module": float(counts.max() / counts.sum())}
