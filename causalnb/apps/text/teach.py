"""Concept graphs of a user's own texts, from a teacher: its cost is told before, its replies are kept."""

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from causalnb.errors import FileError, LabError, sentence
from causalnb.lab import files
from causalnb.paths import shown

from .data import rows_of

IN_A_ROW = 5  # texts without a graph, none having had one, after which it is no use to go on
CHARACTERS = 4  # of a token, before anyone has counted
WRITTEN = 295.3 / 865.2  # tokens that a teacher writes for one of a text, C2DLM's appendix D
LEAST = 20  # that it writes of a text however short: a cause and an effect in quotes and brackets
Item = tuple[str, str]


def items_of(data: str, columns: Mapping[str, str]) -> list[Item]:
    """(prompt, answer) of the rows of a file, a folder of texts or a data set; DataError as for training."""
    return [(row["prompt"], row["answer"]) for row in rows_of(data, columns, ("prompt", "answer"))]


def cost(items: Sequence[Item], price_in: float | None = None, price_out: float | None = None) -> dict:
    """{"texts", "tokens_in", "tokens_out", "price"}, an estimate; prices are of a million tokens.

    price is None without prices; LabError for one alone, and for one that is negative or not finite.
    """
    from causalnb.c2dlm.teacher import messages

    prices = (price_in, price_out)
    told = [price for price in prices if price is not None]
    if len(told) == 1 or not all(0 <= price < math.inf for price in told):
        raise LabError(
            f"--price-in is {price_in} and --price-out {price_out}: give both, each of a million tokens and "
            "at least 0."
        )
    read = sum(len(part["content"]) for item in items for part in messages(*item)) / CHARACTERS
    written = sum(max(LEAST, WRITTEN * sum(map(len, item)) / CHARACTERS) for item in items)
    price = (read * told[0] + written * told[1]) / 1e6 if told else None
    return {"texts": len(items), "tokens_in": round(read), "tokens_out": round(written), "price": price}


def teacher_of(name: str, endpoint: str | None = None, key_from: str | None = None) -> Callable:
    """A chat model on this computer, or one behind an endpoint; LabError for what cannot be asked.

    key_from: the environment variable that holds the endpoint's key.
    """
    from causalnb import checkpoints
    from causalnb.c2dlm import Endpoint, LocalChat

    from ..bases import loaded
    from ..training import best_device

    if endpoint is not None:
        if key_from is not None and not os.environ.get(key_from):
            raise LabError(
                f"the variable {key_from} of --key-from is not set: put the endpoint's key into it."
            )
        try:
            return Endpoint(endpoint, name, os.environ[key_from] if key_from else None)
        except ValueError as error:
            raise LabError(f"{sentence(error)}.") from error
    if key_from is not None:
        raise LabError("--key-from is the key of an endpoint: give it with --endpoint.")
    model, tokenizer = loaded(name, checkpoints.decoder, "chat model", "--teacher")
    if not tokenizer.chat_template:
        raise LabError(f"the tokenizer of {name!r} has no chat template: choose a chat model as --teacher.")
    return LocalChat(model.eval().to(best_device()), tokenizer)


def check_output(output: Path) -> None:
    """LabError for a folder where a file of graphs is to be."""
    if output.is_dir():
        raise LabError(f"--output {shown(output)} is a folder: give a file, such as graphs.jsonl.")


def teach(
    items: Sequence[Item],
    teacher: Callable[[str, str], str],
    output: Path,
    progress: Callable[[int, int, str], None] = lambda done, total, note: None,
    retries: int = 2,
    wait: float = 1.0,
) -> dict:
    """Ask the teacher for each item's graph, and write them to `output`, a line each; a summary of them.

    Each reply is kept beside `output` as it comes: the same call goes on after it, and asks again where there
    was no graph. LabError where IN_A_ROW texts have none and no text has one, and for a folder as `output`;
    FileError for a damaged file.
    """
    from causalnb.c2dlm import teacher as room

    check_output(output)
    partial = output.with_name(f"{output.name}.partial")
    with files.lock(output, f"another command writes {shown(output)}: wait, or choose another --output."):
        known = {(one.question, one.answer): one for one in _kept(output, partial) if one.edges is not None}
        failed = 0
        with files.full_disk_said(partial), open(partial, "a", encoding="utf-8") as journal:
            for done, item in enumerate(items):
                progress(done, len(items), f"{failed} without a graph")
                if item in known:
                    continue
                [one] = room.annotate(teacher, [item], retries, wait)
                known[item], failed = one, failed + (one.edges is None)
                journal.write(json.dumps(asdict(one)) + "\n")
                journal.flush()
                if failed == IN_A_ROW == sum(one.edges is None for one in known.values()) == len(known):
                    raise LabError(
                        f"{failed} texts in a row got no graph ({one.error}): correct what is said there, "
                        "and run the same command again."
                    )
        annotations = [known[item] for item in items]
        room.save_annotations(annotations, output)
        partial.unlink()
        progress(len(items), len(items), "done")
        return {name: int(count) for name, count in room.summary(annotations).items()}


def _kept(output: Path, partial: Path) -> list:
    """What was annotated before: of the finished file, then of the one that was being written."""
    from causalnb.c2dlm.teacher import Annotation, load_annotations

    found = []
    try:
        if output.exists():
            found += load_annotations(output)
        lines = partial.read_text(encoding="utf-8").split("\n") if partial.exists() else [""]
        found += [Annotation(**json.loads(line)) for line in lines[:-1]]  # a kill may have cut the last one
    except (OSError, ValueError, TypeError) as error:
        raise FileError(
            f"{shown(output)} or its .partial holds no graphs of ours ({sentence(error)}): restore it, or "
            "choose another --output."
        ) from error
    if lines[-1]:
        files.write_atomic(partial, "".join(f"{line}\n" for line in lines[:-1]).encode())
    return found
