"""What a training leaves in its folder: the record of its settings and history, checkpoints, the model.

The model lies beside the sha256 of each of its files, by which `check` knows what was saved.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from causalnb.errors import FileError, LabError, sentence
from causalnb.lab import files
from causalnb.lab.records import parsed
from causalnb.paths import shown

from .settings import Settings, option

RECORD, CHECKPOINTS, STAGED = "training.json", "checkpoints", "saving"  # in the output folder
CHECKSUMS = "checksums.json"
READ = {".json", ".safetensors", ".jinja", ".model", ".txt", ".bin"}  # what from_pretrained may read
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
        good = all(isinstance(line, dict) for line in value)
        good = good and all(isinstance(line.get(part), (int, float)) for line in value for part in measured)
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
    missing = [place for place in folder.resolve().parents if not place.exists()]
    taken = f"another command trains into {shown(folder)}: wait, or choose another --output."
    try:
        with files.lock(folder, taken):
            yield
    finally:
        for place in missing:  # which the lock made, and a refused training leaves empty
            with suppress(OSError):
                place.rmdir()


def save(model, tokenizer, settings: Settings, history: list[dict], folder: Path) -> None:
    """Put a finished training's model, tokenizer, checksums and record into `folder`, written aside first.

    LabError if the disk refuses.
    """
    import shutil

    from safetensors import SafetensorError

    staged = folder / STAGED
    try:
        shutil.rmtree(staged, ignore_errors=True)
        model.save_pretrained(staged)
        tokenizer.save_pretrained(staged)
        write_record(staged, settings, True, history)
        sums = {file.name: files.digest(file) for file in sorted(staged.iterdir())}
        files.write_atomic(staged / CHECKSUMS, (json.dumps(sums, indent=1) + "\n").encode())
        for file in sorted(staged.iterdir(), key=lambda file: file.name == RECORD):  # it says all is there
            os.replace(file, folder / file.name)
        staged.rmdir()
    except (OSError, RuntimeError, SafetensorError) as error:  # a full disk has all three faces
        raise LabError(
            f"the model could not be saved in {shown(folder)} ({sentence(error)}): make room and run the "
            "same command again; its last checkpoint is kept."
        ) from error


def check(folder: Path) -> None:
    """FileError that names a file of a finished training which is missing, damaged or was not saved by it."""
    again = "restore the folder, or delete it and train again"
    try:
        names = files.check_sums(folder, CHECKSUMS)
    except FileNotFoundError:
        raise FileError(
            f"{shown(folder)} has no {CHECKSUMS}, in which causalnb train sci writes what it saved: {again}."
        ) from None
    except (OSError, ValueError) as error:
        raise FileError(f"{sentence(error)}; {again}.") from error
    for file in sorted(folder.glob("[!.]*")):
        if file.suffix in READ and file.name not in {CHECKSUMS, *names}:
            raise FileError(f"{shown(file)} was not saved by the training: move it out of the folder.")
