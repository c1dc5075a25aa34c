"""What a method is given: a task without its tests, rows as tokens, and the loss of each row of a batch."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Task:
    """What a method may know of a task; the tests stay with the judge.

    name; label, which says what is told of a row: group, structure, domain or graph; values, the texts that
    are told of rows, none for graphs; tokenizer; train and development, rows as `encoded` makes them;
    answer_tokens, of the longest answer with its end; steps, batch_size, learning_rate, seed of the training.
    """

    name: str
    label: str
    values: list[str]
    tokenizer: object
    train: list[dict]
    development: list[dict]
    answer_tokens: int
    steps: int
    batch_size: int
    learning_rate: float
    seed: int

    def __getattr__(self, name: str):
        raise AttributeError(
            f"a task has no {name!r}: it has {', '.join(one.name for one in fields(self))}, and its test "
            "rows stay with the judge"
        )


def encoded(rows: list[dict], tokenizer, values: list[str]) -> list[dict]:
    """Rows with input_ids, prompt_mask and labels (T,), -100 on the prompt, beside prompt, answer and told.

    A prompt is <bos> words <sep>, an answer words <eos>. number is the place of told in values; a graph gives
    causes (T,) in its place, 1 on the prompt's tokens that are in a cause.
    """
    made, prompts = [], prompt_ids([row["prompt"] for row in rows], tokenizer)
    answers = tokenizer([row["answer"] for row in rows], add_special_tokens=False)["input_ids"]
    numbers = {value: number for number, value in enumerate(values)}
    for row, prompt, words in zip(rows, prompts, answers, strict=True):
        answer, places = words + [tokenizer.eos_token_id], []
        new = row | {
            "input_ids": prompt + answer,
            "prompt_mask": [1] * len(prompt) + [0] * len(answer),
            "labels": [-100] * len(prompt) + answer,
        }
        if isinstance(row["told"], str):
            new["number"] = numbers[row["told"]]
        else:
            text = f" {row['prompt']} "
            for cause in (cause for found in row["told"].values() for cause in found):
                first = text[: text.index(f" {cause} ")].count(" ") + 1  # <bos> stands before the words
                places += range(first, first + cause.count(" ") + 1)
            new["causes"] = [int(t in places) for t in range(len(prompt) + len(answer))]
        made.append(new)
    return made


def prompt_ids(prompts: list[str], tokenizer) -> list[list[int]]:
    """The ids of prompts, each with <bos> before it and <sep> after it."""
    return tokenizer([f"{prompt} {tokenizer.sep_token}" for prompt in prompts])["input_ids"]


def collated(rows: list[dict], task: Task) -> dict[str, torch.Tensor]:
    """The batch that a method without a collator gets: right-padded tensors (B, T), and what is told.

    input_ids, attention_mask, labels, prompt_mask; group_ids, structure_ids or domain_ids (B,), places in
    task.values; of a graph causes (B, T).
    """
    import torch

    width = max(len(row["input_ids"]) for row in rows)
    fill = {"input_ids": task.tokenizer.pad_token_id, "labels": -100, "prompt_mask": 0}
    fill |= {"causes": 0} if task.label == "graph" else {}
    batch = {
        name: torch.tensor([row[name] + [value] * (width - len(row[name])) for row in rows])
        for name, value in fill.items()
    }
    lengths = torch.tensor([len(row["input_ids"]) for row in rows])
    batch["attention_mask"] = (torch.arange(width) < lengths[:, None]).long()
    if task.label != "graph":
        batch[f"{task.label}_ids"] = torch.tensor([row["number"] for row in rows])
    return batch


def row_losses(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The mean cross-entropy of each row's answer (B,), from logits (B, T, V) and labels (B, T)."""
    import torch.nn.functional as F

    each = F.cross_entropy(logits[:, :-1].transpose(1, 2), labels[:, 1:], reduction="none")  # (B, T-1)
    return each.sum(1) / (labels[:, 1:] != -100).sum(1)
