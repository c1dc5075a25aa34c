"""C2DLM: masked diffusion, in which the attention of answers is drawn to their causes (part 4x)."""

import re

import torch

from causalnb.apps.court import collated
from causalnb.attention import tap
from causalnb.c2dlm import (
    ConceptGraph,
    MaskedDiffusionCollator,
    MaskedDiffusionModel,
    ReattentionLoss,
    sample,
    supervision,
)

ON = "causes"


def build(base, task):
    """Diffusion on the base with a mask token and the re-attention loss; rows get supervision."""
    task.tokenizer.add_special_tokens({"mask_token": "<mask>"})
    base.resize_token_embeddings(len(task.tokenizer))
    for row in task.train:
        text, asked = f"{row['prompt']} {row['answer']}", len(row["prompt"].split())
        words = [found.span() for found in re.finditer(r"\S+", text)]
        places = [(0, 0), *words[:asked], (0, 0), *words[asked:]]  # <bos> prompt <sep> answer
        graph = ConceptGraph(row["told"])
        row["supervision"] = supervision(graph, text, places, response_start=len(row["prompt"]))
    return MaskedDiffusionModel.from_base(base, task.tokenizer.mask_token_id, ReattentionLoss(3.0, 1.0))


def collator(rows, task):
    """The rows with noise."""
    return MaskedDiffusionCollator(task.tokenizer.mask_token_id, task.tokenizer.eos_token_id)(rows)


def loss(model, batch, task):
    """The diffusion bound and the re-attention loss."""
    return model(**batch).loss


def answer(model, prompts, task):
    """Answers, filled in a token at a time, the surest first."""
    tokens = task.answer_tokens
    return sample(model, prompts, tokens, tokens, tokens)[:, prompts.shape[1] :]


@torch.no_grad()
def measure(model, task):
    """The share of a masked answer's attention that is on its causes, in development rows."""
    rows = collated(task.development, task)
    hidden = rows["labels"] != -100
    ids = rows["input_ids"].masked_fill(hidden, task.tokenizer.mask_token_id)
    with tap(model) as layers:
        model(ids, attention_mask=rows["attention_mask"])
    maps = torch.stack([layer.attention().mean(1) for layer in layers]).mean(0)  # (B, T, T)
    return {"attention on causes": float((maps * rows["causes"][:, None]).sum(2)[hidden].mean())}
