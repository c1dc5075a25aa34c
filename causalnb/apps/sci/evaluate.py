"""Evaluate an SCI that was trained and saved here."""

from pathlib import Path

from causalnb.errors import FileError, LabError, sentence
from causalnb.lab.probes import scored
from causalnb.paths import shown

from ..records import CHECKSUMS, RECORD, check, read_record
from ..training import best_device
from .base import fits
from .data import INPUTS, sample, scan_pairs, scan_rows


def load_sci(checkpoint: Path):
    """(model, tokenizer, settings) that train_sci saved; LabError if it is unfinished or damaged."""
    from transformers.utils import logging

    from causalnb import checkpoints
    from causalnb.sci import SCITransformer

    logging.disable_progress_bar()
    record = read_record(checkpoint)
    if record is None:
        raise LabError(
            f"{shown(checkpoint)} holds no training: give the --output of causalnb train sci, which has a "
            f"{RECORD} and a {CHECKSUMS}."
        )
    if "system" in record["settings"]:
        raise LabError(
            f"{shown(checkpoint)} was trained on your own data: call causalnb evaluate {shown(checkpoint)} "
            "--data FILE."
        )
    if not record["finished"]:
        raise LabError(f"the training in {shown(checkpoint)} is not finished: run the same command again.")
    check(checkpoint)
    try:
        model = SCITransformer.from_pretrained(checkpoint)
        tokenizer = checkpoints.tokenizer(checkpoint, config=model.config.base_config)
    except Exception as error:  # whatever files that another program wrote make transformers raise
        raise FileError(
            f"the model in {shown(checkpoint)} cannot be loaded ({sentence(error).rstrip('.')}): restore the "
            "folder, or delete it and train again."
        ) from error
    return model.eval(), tokenizer, record["settings"]


def evaluate_sci(
    checkpoint: Path,
    dataset: str = "scan",
    split: str = "length",
    rows: int | None = None,
    decoded: int = 300,
    device: str | None = None,
) -> dict:
    """Exact match on `rows` test rows of a split (None: all), forced, and greedy on `decoded` of them.

    Also how many of the rows were training commands, as happens with another split than that of the training.
    """
    from causalnb.lab.evaluation import greedy_matches, teacher_forced_matches
    from causalnb.lab.training import PromptAnswerCollator

    for name, value in (("--rows", rows), ("--decoded", decoded)):
        if value is not None and value < 1:
            raise LabError(f"{name} is {value}: give at least 1.")
    _, pairs = scan_pairs(dataset, split)
    model, tokenizer, settings = load_sci(checkpoint)
    model = model.to(device or best_device())
    trained = {command for command, _ in scan_pairs(settings["dataset"], settings["split"])[0]}
    test = scored(scan_rows(sample(pairs, rows or len(pairs)), tokenizer))
    fits(model, test, str(checkpoint))
    pad, end = tokenizer.pad_token_id, tokenizer.eos_token_id
    forced = teacher_forced_matches(model, test, PromptAnswerCollator(pad, INPUTS))
    longest = max(len(row["labels"]) - sum(row["prompt_mask"]) for row in test[:decoded])
    greedy = greedy_matches(model, test[:decoded], pad, end, max_new_tokens=longest)
    return {
        "checkpoint": str(checkpoint),
        "base_model": settings["base_model"],
        "trained_on": settings["split"],
        "dataset": dataset,
        "split": split,
        "exact_match": float(forced.mean()),
        "rows": len(forced),
        "greedy_exact_match": float(greedy.mean()),
        "decoded": len(greedy),
        "forced_equals_greedy": float((forced[: len(greedy)] == greedy).mean()),
        "rows_trained_on": sum(row["text"] in trained for row in test),
    }
