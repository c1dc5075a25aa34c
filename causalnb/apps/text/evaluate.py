"""Evaluate what was trained on a user's own data, on rows like those and, beside them, on a challenge."""

import json
from pathlib import Path

from causalnb.errors import DataError, FileError, LabError, sentence
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
            f"{shown(folder)} was trained on SCAN: call causalnb evaluate sci --checkpoint {shown(folder)}."
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


def evaluate_text(folder: Path, data: str, challenge: str | None = None, device: str | None = None) -> dict:
    """Accuracy, with Wilson's 95 % interval, on rows of `data` and of `challenge` that were not trained on.

    An answer is right where its every token, the end included, is the likeliest (equal to greedy decoding),
    or where `sample` fills it in; a label where it is the likeliest class. Returns {"data": ..., "challenge":
    ...}, each with accuracy, low, high, rows, trained_on, the rows left out for that reason, and domains
    {name: the same}.
    """
    system, model, tokenizer = load_text(folder)
    model = model.to(device or best_device())
    trained = set(json.loads((folder / TRAINED).read_text(encoding="utf-8")))
    found: dict = {
        "folder": str(folder),
        "system": system.settings.system,
        "base_model": system.settings.base_model,
    }
    for name, source in (("data", data), ("challenge", challenge)):
        found[name] = None if source is None else _scores(system, model, tokenizer, source, trained)
    return found


def _scores(system, model, tokenizer, source: str, trained: set[str]) -> dict:
    may = tuple(name for name in system.may if name != "structure")  # which training alone reads
    named = {name: given for name, given in system.settings.columns.items() if name in (*system.needs, *may)}
    rows = rows_of(source, named, system.needs, may, part="test")
    new = [row for row in rows if digest(row) not in trained]
    if not new:
        raise DataError(f"all {len(rows)} rows of {source} were trained on: give rows that were not.")
    right = system.right(model, system.rows(new, tokenizer, model), tokenizer)
    domains: dict[str, list[bool]] = {}
    for row, one in zip(new, right.tolist(), strict=True):
        if "domain" in row:
            domains.setdefault(row["domain"], []).append(one)
    found = {"source": source, "trained_on": len(rows) - len(new), **_interval(right.tolist())}
    return found | {"domains": {name: _interval(domains[name]) for name in sorted(domains)}}


def _interval(right: list[bool]) -> dict:
    from causalnb.lab.statistics import wilson

    share = wilson(sum(right), len(right))
    return {"accuracy": share.mean, "low": share.low, "high": share.high, "rows": share.n}
