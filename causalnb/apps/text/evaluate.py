"""Evaluate what was trained on a user's own data, on rows like those and, beside them, on a challenge."""

import json
import shlex
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from causalnb.errors import DataError, FileError, LabError, sentence
from causalnb.lab import files
from causalnb.paths import shown

from ..records import CHECKSUMS, RECORD, check, read_record
from ..training import best_device
from .data import digest, rows_of
from .settings import Settings
from .systems import KINDS
from .train import TRAINED


def load_text(folder: Path):
    """(system, model, tokenizer) that train_text saved; LabError if unfinished, damaged or another's."""
    from transformers.utils import logging

    from causalnb import checkpoints

    logging.disable_progress_bar()
    record = read_record(folder)
    if record is None:
        raise LabError(
            f"{shown(folder)} holds no training: give the --output of causalnb train, which has a {RECORD} "
            f"and a {CHECKSUMS}."
        )
    if "system" not in record["settings"]:
        raise LabError(
            f"{shown(folder)} was trained on SCAN: call causalnb evaluate sci --checkpoint "
            f"{shlex.quote(shown(folder))}."
        )
    if not record["finished"]:
        raise LabError(f"the training in {shown(folder)} is not finished: run the same command again.")
    check(folder)
    try:
        known = {name: value for name, value in record["settings"].items() if name != "contents"}
        system = KINDS[record["settings"]["system"]](Settings(**known))
        model = system.load(folder)
        tokenizer = checkpoints.tokenizer(folder, config=getattr(model.config, "base_config", model.config))
    except Exception as error:  # whatever files that another program wrote make transformers raise
        raise FileError(
            f"the model in {shown(folder)} cannot be loaded ({sentence(error).rstrip('.')}): restore the "
            "folder, or delete it and train again."
        ) from error
    return system, model.eval(), tokenizer


def evaluate_text(
    folder: Path,
    data: str,
    challenge: str | None = None,
    device: str | None = None,
    columns: Mapping[str, str] | None = None,
    challenge_columns: Mapping[str, str] | None = None,
    predictions: Path | None = None,
) -> dict:
    """Accuracy, with Wilson's 95 % interval, on rows of `data` and of `challenge` that were not trained on.

    An answer is right where its every token, the end included, is the likeliest (equal to greedy decoding),
    or where `sample` fills it in; a label where it is the likeliest class. A row that the model cannot read
    or answer, as one with a label that was not trained on, counts as wrong. columns: names of columns of
    data, default those of the training; challenge_columns: of challenge, default those of data. predictions:
    a file for a line of each row, with what the model says.
    Returns {"data": ..., "challenge": ...}, each with accuracy, low, high, rows, trained_on, the rows left
    out for that reason, unanswerable, those that count as wrong unasked, first_unanswerable, a sentence on
    the first of them or None, majority, the share of the commonest label or None without labels, and domains
    {name: the first four}. DataError for data that do not fit, and where no row can be answered.
    """
    system, model, tokenizer = load_text(folder)
    if predictions is not None:
        _check_written(predictions, folder, data, challenge)
    model = model.to(device or best_device())
    trained = set(json.loads((folder / TRAINED).read_text(encoding="utf-8")))
    columns = dict(columns or {})
    asked: dict = {"data": (data, columns), "challenge": (challenge, dict(challenge_columns or columns))}
    parts = {  # all are read before one is scored
        name: _new(system, trained, source, named)
        for name, (source, named) in asked.items()
        if source is not None
    }
    found: dict = {
        "folder": str(folder),
        "system": system.settings.system,
        "base_model": system.settings.base_model,
        "challenge": None,
    }
    lines = []
    for name, (rows, known) in parts.items():
        scores, said = _scores(system, model, tokenizer, rows, predictions is not None)
        found[name] = {"source": asked[name][0], "trained_on": known, **scores}
        lines += [{"part": name, **line} for line in said]
    if predictions is not None:
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        files.write_atomic(predictions, text.encode())
    return found


def _check_written(file: Path, folder: Path, *read: str | None) -> None:
    """LabError for a file of predictions that is a folder, one of those read, or beside the model."""
    same = file.resolve()
    if (
        file.is_dir()
        or same.parent == folder.resolve()
        or same in [Path(one).resolve() for one in read if one]
    ):
        raise LabError(
            f"--predictions {shown(file)} is a folder, read by this command or beside the model: give "
            "another file, such as said.jsonl."
        )


def _new(system, trained: set[str], source: str, named: Mapping[str, str]) -> tuple[list[dict], int]:
    """(rows of a source that were not trained on, how many were)."""
    may = tuple(name for name in system.may if name != "structure")  # which training alone reads
    before = {name: given for name, given in system.settings.columns.items() if name in (*system.needs, *may)}
    rows = rows_of(source, named or before, system.needs, may, part="test", lenient=not named)
    new = [row for row in rows if digest(row) not in trained]
    if not new:
        raise DataError(f"all {len(rows)} rows of {source} were trained on: give rows that were not.")
    return new, len(rows) - len(new)


def _scores(system, model, tokenizer, rows: list[dict], say: bool) -> tuple[dict, list[dict]]:
    """(scores, lines of what is said, empty unless asked for) of rows."""
    import numpy as np

    made = system.made(rows, tokenizer, model)
    misfits = system.misfits(rows, made, tokenizer, model)
    fit = [i for i in range(len(rows)) if i not in misfits]
    first = misfits[min(misfits)] if misfits else None
    if not fit:
        raise DataError(f"none of the {len(rows)} rows can be answered: {first}")
    asked = [made[i] for i in fit]
    right = np.zeros(len(rows), dtype=bool)
    right[fit] = system.right(model, asked, tokenizer)
    lines = []
    if say:
        said = dict(zip(fit, system.said(model, asked, tokenizer), strict=True))
        lines = [
            row
            | {"said": said.get(i), "right": bool(right[i])}
            | ({"why": misfits[i]} if i in misfits else {})
            for i, row in enumerate(rows)
        ]
    domains: dict[str, list[bool]] = {}
    for row, one in zip(rows, right.tolist(), strict=True):
        if "domain" in row:
            domains.setdefault(row["domain"], []).append(one)
    labels = Counter(row["label"] for row in rows if "label" in row)
    found = _interval(right.tolist()) | {
        "unanswerable": len(misfits),
        "first_unanswerable": first,
        "majority": max(labels.values()) / len(rows) if labels else None,
        "domains": {name: _interval(domains[name]) for name in sorted(domains)},
    }
    return found, lines


def _interval(right: list[bool]) -> dict:
    from causalnb.lab.statistics import wilson

    share = wilson(sum(right), len(right))
    return {"accuracy": share.mean, "low": share.low, "high": share.high, "rows": share.n}
