"""Rows of the Causal Transformer's experiments: sentence pairs as tokens, batches, cells of tables."""

import re

from causalnb import tasks
from causalnb.errors import LabError
from causalnb.tasks import bpe, fact_check, hans, overlap, paraphrase, snli

PAD, BOS, EOS = 0, 1, 2  # of every tokenizer of bpe
LABELS = {
    "overlap": overlap.LABELS,
    "paraphrase": paraphrase.LABELS,
    "fact_check": fact_check.LABELS,
    "snli": snli.LABELS,
}
REAL = {
    "paws_qqp": paraphrase.read,
    "mnli_contradicting": hans.contradicting,
    "mnli_overlapping": hans.overlapping,
    "hans": lambda: overlap.load("hans")["challenge"].to_list(),  # from the hub
}


COUNTEREXAMPLES = {  # rows on which overlap misleads
    "overlap": lambda row: row["label"] == 1 and row["subcase"] != "new_words",
    "paraphrase": lambda row: row["kind"] == "swapped",
}


def balanced(task: str, rows: list[dict]) -> list[dict]:
    """The rows, and counter-examples again as often as makes them half of those with full overlap.

    What whoever knows them would do first: they weigh as much as the rows on which overlap is right. The rows
    as they are where there is no counter-example; LabError for a task that has none.
    """
    if task not in COUNTEREXAMPLES:
        raise LabError(f"{task!r} has no counter-examples: choose among {', '.join(COUNTEREXAMPLES)}.")
    rare = [row for row in rows if COUNTEREXAMPLES[task](row)]
    with_overlap = sum(_overlaps(row) for row in rows)
    times = (with_overlap - len(rare)) // len(rare) if rare else 1
    return rows + rare * (times - 1)


def _overlaps(row: dict) -> bool:
    """Whether the second sentence has no word that the first has not."""
    one, two = ({*re.findall(r"[\w']+", row[name].lower())} for name in ("sentence1", "sentence2"))
    return two <= one


def parts(task: str, data: dict, seed: int) -> dict[str, list[dict]]:
    """{part: rows} of a task, loaded with the options `data`."""
    return {part: rows.to_list() for part, rows in tasks.load(task, **data, seed=seed).items()}


def cells(found: dict[str, list[dict]], names: list[str], real: list[str]) -> dict[str, list[dict]]:
    """{cell: rows}: parts by name, and published sets of REAL; LabError if there is none so called."""
    for name in (*names, *real):
        if name in names and name not in found or name in real and name not in REAL:
            raise LabError(f"there is no cell {name!r}: choose among {', '.join((*found, *REAL))}.")
    return {name: found[name] for name in names} | {name: REAL[name]() for name in real}


def pair_tokenizer(rows: list[dict], vocabulary: int):
    """A byte-pair tokenizer of at most `vocabulary` tokens, trained on the sentences of rows."""
    return bpe.tokenizer(
        [row[name] for row in rows for name in ("sentence1", "sentence2")], vocabulary, lowercase=True
    )


def encoded(rows: list[dict], tokenizer, first_label: int = 0) -> list[dict]:
    """input_ids and token_type_ids of `<s> sentence1 </s> sentence2 </s>`; labels count from first_label."""
    tokens = tokenizer(
        [row["sentence1"] for row in rows],
        [row["sentence2"] for row in rows],
        return_token_type_ids=True,
        return_attention_mask=False,
    )
    return [
        {"input_ids": ids, "token_type_ids": types, "labels": first_label + row["label"]}
        for ids, types, row in zip(tokens["input_ids"], tokens["token_type_ids"], rows, strict=True)
    ]


def collate(rows: list[dict]) -> dict:
    """A batch of encoded pairs (B, T), padded on the right; labels (B,)."""
    import torch

    names = ("input_ids", "token_type_ids")
    return {**padded(rows, names), "labels": torch.tensor([row["labels"] for row in rows])}


def padded(rows: list[dict], names: tuple[str, ...], filler: int = PAD) -> dict:
    """{name: (B, T)} of lists in rows, filled up on the right; and the attention_mask of the first name."""
    import torch
    from torch.nn.utils.rnn import pad_sequence

    found = {
        name: pad_sequence([torch.tensor(row[name]) for row in rows], batch_first=True, padding_value=filler)
        for name in names
    }
    lengths = torch.tensor([len(row[names[0]]) for row in rows])
    width = found[names[0]].shape[1]
    return found | {"attention_mask": (torch.arange(width) < lengths[:, None]).long()}
