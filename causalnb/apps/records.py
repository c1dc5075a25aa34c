"""What a training leaves in its folder: the record of its settings and history, checkpoints, the model.

The model lies beside the sha256 of each of its files, by which `check` knows what was saved.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from causalnb.errors import FileError, LabError, sentence
from causalnb.lab import files
from causalnb.lab.records import parsed
from causalnb.paths import shown

RECORD, CHECKPOINTS, STAGED = "training.json", "checkpoints", "saving"  # in the output folder
CHECKSUMS = "checksums.json"
READ = {".json", ".safetensors", ".jinja", ".model", ".txt", ".bin"}  # what from_pretrained may read
SCHEMA = 1
WRITTEN = {"settings": dict, "finished": bool, "history": list}
MOST = 10**8  # of whatever is counted


def option(name: str) -> str:
    """The flag of a setting: "--batch-size" for "batch_size"."""
    return f"--{name.replace('_', '-')}"


def _as_written(name: str, record: dict):
    """A part of a record; ValueError where it is not as `write_record` leaves it."""
    value = record[name]
    good = type(value) is WRITTEN[name]
    if good and name == "settings":
        good = isinstance(value.get("base_model"), str)
    elif good and name == "history":
        good = all(isinstance(line, dict) and isinstance(line.get("step"), int) for line in value)
        good = good and all(isinstance(part, (int, float)) for line in value for part in line.values())
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


def write_record(folder: Path, settings: Mapping, finished: bool, history: list[dict]) -> dict:
    """Write, and return, the record of a training."""
    record = {"schema": SCHEMA, "settings": dict(settings), "finished": finished, "history": history}
    files.write_atomic(folder / RECORD, (json.dumps(record, indent=1) + "\n").encode())
    return record


def same_run(folder: Path, asked: Mapping) -> dict | None:
    """The record of the same training in `folder`; LabError if the folder holds anything else."""
    record = read_record(folder)
    if record is None and folder.exists() and (not folder.is_dir() or any(folder.glob("[!.]*"))):
        raise LabError(f"{shown(folder)} holds something else: choose another --output.")
    if record and record["settings"] != asked:
        there, here = _options(record["settings"]), _options(asked)
        other = next(name for name in {**here, **there} if there.get(name) != here.get(name))
        raise LabError(
            f"{shown(folder)} holds a training with {option(other)} {there.get(other)}, not "
            f"{here.get(other)}: choose another --output, or delete the folder."
        )
    return record


def _options(settings: Mapping) -> dict:
    """Settings by the names of their flags, those of a system alone among them."""
    shared = {name: value for name, value in settings.items() if name != "options"}
    return shared | dict(settings.get("options", {}))


@contextmanager
def owned(folder: Path) -> Iterator[None]:
    """Within this context no other command trains into `folder`."""
    missing = [place for place in folder.resolve().parents if not place.exists()]
    taken = f"another command trains into {shown(folder)}: wait, or choose another --output."
    try:
        with files.lock(folder, taken):
            yield
    finally:
        with suppress(OSError):  # the first that is not empty, as those around it then are
            for place in missing:  # which the lock made, and a refused training leaves empty
                place.rmdir()  # unprobed: no result depends on it


def save(
    model,
    tokenizer,
    settings: Mapping,
    history: list[dict],
    folder: Path,
    beside: Mapping[str, str] | None = None,
) -> None:
    """Put a finished training's model, tokenizer, checksums and record into `folder`, written aside first.

    beside: texts of further files, by name. LabError if the disk refuses.
    """
    import shutil

    from safetensors import SafetensorError

    staged = folder / STAGED
    try:
        shutil.rmtree(staged, ignore_errors=True)
        model.save_pretrained(staged)
        tokenizer.save_pretrained(staged)
        for name, text in (beside or {}).items():
            (staged / name).write_text(text, encoding="utf-8")  # unprobed: what a caller puts beside
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
            f"{shown(folder)} has no {CHECKSUMS}, in which causalnb train writes what it saved: {again}."
        ) from None
    except (OSError, ValueError) as error:
        raise FileError(f"{sentence(error)}; {again}.") from error
    for file in sorted(folder.glob("[!.]*")):
        if file.suffix in READ and file.name not in {CHECKSUMS, *names}:
            raise FileError(f"{shown(file)} was not saved by the training: move it out of the folder.")
