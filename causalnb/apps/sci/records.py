"""What a training leaves in its folder: the record of its settings and history, checkpoints, the model."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from causalnb.errors import FileError, LabError, sentence
from causalnb.lab import files
from causalnb.lab.records import parsed
from causalnb.paths import shown

from .settings import Settings, option

RECORD, CHECKPOINTS, STAGED = "training.json", "checkpoints", "saving"  # in the output folder
SCHEMA = 1
WRITTEN = {"settings": dict, "finished": bool, "history": list}


def _as_written(name: str, record: dict):
    """A part of a record; ValueError where it is not as `write_record` leaves it."""
    value = record[name]
    good = type(value) is WRITTEN[name]
    if good and name == "settings":
        good = all(isinstance(value.get(text), str) for text in ("base_model", "dataset", "split"))
    elif good and name == "history":
        measured = ("step", "validation", "test_sample")
        good = all(isinstance(line.get(part), (int, float)) for line in value for part in measured)
        good = good and bool(value or not record["finished"])
    if not good:
        raise ValueError(f"{name} is not as a training leaves it")
    return value


def read_record(folder: Path) -> dict | None:
    """What a training wrote into its folder, None if there is nothing; LabError if it is not readable."""
    try:
        record = parsed((folder / RECORD).read_bytes())
        if record["schema"] != SCHEMA:
            raise ValueError(f"schema {record['schema']}, this version reads {SCHEMA}")
        return {"schema": SCHEMA, **{name: _as_written(name, record) for name in WRITTEN}}
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError) as error:
        raise FileError(
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
    name = f"train.{sha256(str(folder.resolve()).encode()).hexdigest()[:16]}"
    with files.lock(name, f"another command trains into {shown(folder)}: wait, or choose another --output."):
        yield


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
