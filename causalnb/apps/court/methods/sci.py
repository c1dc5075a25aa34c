"""SCI: prompts of one structure are drawn together in slots, to which content is bound (part 2x)."""

import torch

from causalnb.apps.court import collated
from causalnb.sci import SCITransformer, StructureBalancedBatches

ON = "compose"  # where structures are told


def build(base, task):
    """SCI on the base, one binding after its first layer."""
    return SCITransformer.from_base(base, cbm_layers=[0], n_structural_slots=8)


def loss(model, batch, task):
    """The language-modelling loss and the contrastive one, by what is told of the rows."""
    return model(
        batch["input_ids"],
        attention_mask=batch["attention_mask"],
        prompt_mask=batch["prompt_mask"],
        labels=batch["labels"],
        structure_ids=batch[f"{task.label}_ids"],
    ).loss


def batches(task):
    """Random rows, and pairs of one structure and different prompts."""
    structures, texts = ([row[name] for row in task.train] for name in ("told", "prompt"))
    pairs = max(1, task.batch_size // 5)
    singles = max(1, task.batch_size - 2 * pairs)
    return list(StructureBalancedBatches(structures, texts, singles, pairs, task.steps, task.seed))


@torch.no_grad()
def measure(model, task):
    """The mean cosine of 400 training prompts' structural states, of one and of two structures."""
    rows = collated(task.train[-400:], task)
    inputs = {name: rows[name] for name in ("input_ids", "attention_mask", "prompt_mask")}
    states = torch.nn.functional.normalize(model(**inputs).structure.flatten(1), dim=1)
    cosines, ids = states @ states.T, rows[f"{task.label}_ids"]
    same, other = ids == ids[:, None], ~torch.eye(len(ids), dtype=torch.bool)
    return {
        "cosine within a structure": float(cosines[same & other].mean()),
        "across structures": float(cosines[~same].mean()),
    }
