"""ICLM: a router sends a prompt to domain modules beside an invariant one (part 3x)."""

import torch

from causalnb.apps.court import collated, row_losses
from causalnb.iclm import ICLMForCausalLM

ON = "shortcut,compose,modules"  # a graph gives no domains
BASE = 0.5  # share of the steps in which the base is tuned; then it is frozen, as the source's is
CLUSTERED = 1000  # training rows on which the router finds its centroids


def build(base, task):
    """Two domain modules on the base."""
    model = ICLMForCausalLM.from_base(
        base, num_modules=2, lora={"r": 8, "alpha": 16}, router="kmeans", router_trainable=False
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
        cluster(model, task)
    return model(**inputs, labels=batch["labels"]).loss


@torch.no_grad()
def cluster(model, task):
    """Two clusters of training prompts, by K-means on the states of the tuned base (the source's Appendix B).

    Vector quantisation, the source's first choice, sends 80 % of the rows and more to one module here.
    """
    rows = task.train[:: max(1, len(task.train) // CLUSTERED)]
    parts = (collated(rows[first : first + 100], task) for first in range(0, len(rows), 100))
    names = ("input_ids", "attention_mask", "labels", "prompt_mask")
    model.router.fit(
        torch.cat([model.router_states(**{k: part[k] for k in names}) for part in parts]), task.seed
    )


@torch.no_grad()
def measure(model, task):
    """The share of development rows that the router sends to the domain module that gets most."""
    rows = collated(task.development, task)
    out = model(rows["input_ids"], attention_mask=rows["attention_mask"], labels=rows["labels"])
    counts = out.module.bincount(minlength=2)
    return {"rows at the larger module": float(counts.max() / counts.sum())}
