"""SCAN as rows for any tokenizer, and what is held out of them."""

from collections import Counter
from collections.abc import Sequence

from causalnb.errors import LabError
from causalnb.tasks import scan

INPUTS = ("input_ids", "attention_mask", "labels", "prompt_mask")


def scan_pairs(dataset: str, split: str) -> tuple[list, list]:
    """(train, test) pairs of command and actions; LabError for another data set, DataError for a split."""
    if dataset != "scan":
        raise LabError(f"there is no data set {dataset!r} for this model: use --dataset scan.")
    return scan.split(split)


def scan_ids(pairs: Sequence[tuple[str, str]], tokenizer) -> list[tuple[list[int], list[int]]]:
    """(prompt, answer) token ids of pairs: SCAN's own words, or a text tokenizer's "IN: x OUT:" and " y"."""
    if tokenizer.get_vocab() == scan.VOCABULARY:
        rows = [scan.encode(*pair) for pair in pairs]
        ends = [sum(row["prompt_mask"]) for row in rows]
        return [(row["input_ids"][:end], row["input_ids"][end:]) for row, end in zip(rows, ends, strict=True)]
    begin = [] if tokenizer.bos_token_id is None else [tokenizer.bos_token_id]

    def ids(texts: list[str]) -> list[list[int]]:
        return tokenizer(texts, add_special_tokens=False)["input_ids"]

    prompts = ids([f"IN: {command} OUT:" for command, _ in pairs])
    answers = ids([f" {actions}" for _, actions in pairs])
    end = [tokenizer.eos_token_id]
    return [(begin + prompt, answer + end) for prompt, answer in zip(prompts, answers, strict=True)]


def scan_rows(pairs: Sequence[tuple[str, str]], tokenizer, level: str = "verb") -> list[dict]:
    """Rows with input_ids, prompt_mask, labels, structure and text."""
    return [
        {
            "input_ids": prompt + answer,
            "prompt_mask": [1] * len(prompt) + [0] * len(answer),
            "labels": [-100] * len(prompt) + answer,
            "structure": scan.structure(command, level),
            "text": command,
        }
        for (command, _), (prompt, answer) in zip(pairs, scan_ids(pairs, tokenizer), strict=True)
    ]


def held_out(rows: list[dict], count: int) -> tuple[list[dict], list[dict]]:
    """(training, validation): `count` rows taken out, none of which is repeated; the same for every seed."""
    from numpy.random import default_rng

    times = Counter(row["text"] for row in rows)
    single = [text for text, number in times.items() if number == 1]
    chosen = set(default_rng(0).choice(sorted(single), count, replace=False).tolist())
    return [r for r in rows if r["text"] not in chosen], [r for r in rows if r["text"] in chosen]


def sample(rows: list, count: int) -> list:
    """`count` rows of the data, the same draw every time, or all of them."""
    from numpy.random import default_rng

    return [rows[i] for i in default_rng(0).permutation(len(rows))[:count]]
