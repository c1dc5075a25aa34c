"""Evaluation that any sequence task shares: exact match, teacher-forced or decoded."""

from collections.abc import Sequence

import numpy as np
import torch


def by_length(lengths: Sequence[int], batch_size: int) -> list[list[int]]:
    """Row indices in batches of similar length, each row once."""
    order = np.argsort(np.asarray(lengths), kind="stable")
    return [order[start : start + batch_size].tolist() for start in range(0, len(order), batch_size)]


@torch.no_grad()
def teacher_forced_matches(model, rows: Sequence[dict], collator, batch_size: int = 256) -> np.ndarray:
    """Whether the argmax is right at every label of a row, end token included: bool (rows,).

    Equal to greedy exact match for a model that cannot see the answer: greedy decoding follows the labels
    as long as it is right.
    """
    matches = np.zeros(len(rows), dtype=bool)
    model.eval()
    for batch in by_length([len(row["input_ids"]) for row in rows], batch_size):
        inputs = {name: value.to(model.device) for name, value in collator([rows[i] for i in batch]).items()}
        labels = inputs["labels"][:, 1:]
        right = (model(**inputs).logits[:, :-1].argmax(-1) == labels) | (labels == -100)
        matches[batch] = right.all(1).cpu().numpy()
    return matches


@torch.no_grad()
def greedy_matches(
    model,
    rows: Sequence[dict],
    pad_token_id: int,
    eos_token_id: int,
    max_new_tokens: int,
    batch_size: int = 128,
) -> np.ndarray:
    """Whether greedy decoding of a row's prompt gives its labels, end token included: bool (rows,)."""
    matches = np.zeros(len(rows), dtype=bool)
    model.eval()
    for batch in by_length([len(row["input_ids"]) for row in rows], batch_size):
        prompts = [row["input_ids"][: sum(row["prompt_mask"])] for row in (rows[i] for i in batch)]
        width = max(map(len, prompts))
        ids = torch.tensor([[pad_token_id] * (width - len(p)) + p for p in prompts], device=model.device)
        mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts], device=model.device)
        out = model.generate(
            input_ids=ids,
            attention_mask=mask,
            max_new_tokens=max_new_tokens,
            do_sample=False,
            pad_token_id=pad_token_id,
            eos_token_id=eos_token_id,
        )[:, width:].tolist()
        for row, produced in zip(batch, out, strict=False):
            answer = [label for label in rows[row]["labels"] if label != -100]
            matches[row] = produced[: len(answer)] == answer
    return matches
