"""What a training leaves in its folder: the record of its settings and history, checkpoints, the model."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from causalnb.errors import LabError, sentence
from causalnb.lab import files
from causalnb.paths import shown

from .settings import Settings, option

RECORD, CHECKPOINTS, STAGED = "training.json", "checkpoints", "saving"  # in the output folder
SCHEMA = 1


def read_record(folder: Path) -> dict | None:
    """What a training wrote into its folder, None if there is nothing; LabError if it is not readable."""
    try:
        record = json.loads((folder / RECORD).read_bytes())
        if record["schema"] != SCHEMA:
            raise ValueError(f"schema {record['schema']}, this version reads {SCHEMA}")
        return {name: record[name] for name in ("schema", "settings", "finished", "history")}
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LabError(
            f"{shown(folder / RECORD)} cannot be read ({sentence(error)}): choose another --output."
        ) from error


def write_record(folder: Path, settings: Settings, finished: bool, history: list[dict]) -> dict:
    """Write, and return, the record of a training."""
    record = {"schema": SCHEMA, "settings": settings.record(), "finished": finished, "history": history}
    files.write_atomic(folder / RECORD, (json.dumps(record, indent=1) + "\n").encode())
    return record


def same_run(folder: Path, settings: Settings) -> dict | None:
    """The record of the same training in `folder`; LabError if the folder holds anything else."""
    record = read_record(folder)
    if record is None and folder.exists() and (not folder.is_dir() or any(folder.glob("[!.]*"))):
        raise LabError(f"{shown(folder)} holds something else: choose another --output.")
    asked = settings.record()
    if record and record["settings"] != asked:
        other = next(name for name in asked if record["settings"].get(name) != asked[name])
        raise LabError(
            f"{shown(folder)} holds a training with {option(other)} {record['settings'].get(other)}, not "
            f"{asked[other]}: choose another --output, or delete the folder."
        )
    return record


@contextmanager
def owned(folder: Path) -> Iterator[None]:
    """Within this context no other command trains into `folder`."""
    missing = [place for place in folder.resolve().parents if not place.exists()]
    taken = f"another command trains into {shown(folder)}: wait, or choose another --output."
    try:
        with files.lock(folder, taken):
            yield
    finally:
        for place in missing:  # which the lock made, and a refused training leaves empty
            with suppress(OSError):
                place.rmdir()


def save(model, tokenizer, folder: Path) -> None:
    """Put model and tokenizer into `folder`, written aside first; LabError if the disk refuses."""
    import shutil

    from safetensors import SafetensorError

    staged = folder / STAGED
    try:
        shutil.rmtree(staged, ignore_errors=True)
        model.save_pretrained(staged)
        tokenizer.save_pretrained(staged)
        for file in staged.iterdir():
            os.replace(file, folder / file.name)
        staged.rmdir()
    except (OSError, RuntimeError, SafetensorError) as error:  # a full disk has all three faces
        raise LabError(
            f"the model could not be saved in {shown(folder)} ({sentence(error)}): make room and run the "
            "same command again; its last checkpoint is kept."
        ) from error
