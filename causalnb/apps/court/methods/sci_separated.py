"""SCI separated: structure chooses the class of the next word, a token of the prompt which (notebook 23)."""

import torch

from causalnb.apps.court import collated
from causalnb.sci import SeparatedSCI, StructureBalancedBatches

ON = "compose"  # where rows of one structure have as many words


def build(base, task):
    """SCI separated on the base; prompts of one structure must have as many tokens."""
    return SeparatedSCI.from_base(base, n_structural_slots=8, content_slots="tokens")


def loss(model, batch, task):
    """The language-modelling loss, the contrastive one and that of aligned tokens."""
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
