"""Files that are complete or absent, and locks that vanish with their process."""

import errno
import fcntl
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import file_digest
from pathlib import Path, PureWindowsPath

from causalnb.errors import FileError, LabError
from causalnb.lab.records import parsed
from causalnb.paths import shown
from causalnb.writing import write_whole

FULL = {errno.ENOSPC, errno.EDQUOT}


def below(folder: Path, name: str) -> Path:
    """The path of the file called `name` in a folder, with "/" for those in it.

    ValueError for a name that leads out of it: absolute, with a drive, by .. or through a link.
    """
    path, parts = folder / name, PureWindowsPath(name)  # which takes both slashes and a drive apart
    outside = parts.anchor or ".." in parts.parts or not parts.parts
    if outside or not path.resolve().is_relative_to(folder.resolve()):
        raise ValueError(f"{name!r} leads out of {shown(folder)}")
    return path


def disk_error(path: Path, error: OSError) -> FileError:
    """The sentence for a file that could not be written."""
    why = "the disk is full" if error.errno in FULL else error.strerror or str(error)
    todo = "free some space" if error.errno in FULL else "make the folder writable"
    return FileError(
        f"{shown(path)} could not be written because {why}: {todo} and run the same command "
        "again; what was there before is untouched."
    )


@contextmanager
def full_disk_said(place: Path) -> Iterator[None]:
    """Within, a full disk is a LabError that names the file, or `place` where the error names none."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise disk_error(Path(error.filename if isinstance(error.filename, str) else place), error) from error


def write_atomic(path: Path, data: bytes) -> None:
    """As `write_whole`; LabError if it fails."""
    try:
        write_whole(path, data)
    except OSError as error:
        raise disk_error(path, error) from error


def digest(path: Path) -> str:
    """The sha256 of a file."""
    with open(path, "rb") as file:
        return file_digest(file, "sha256").hexdigest()


def check_sums(folder: Path, sums: str) -> set[str]:
    """The names that a folder's file of checksums holds; OSError or ValueError unless each is as it says."""
    try:
        kept = parsed((folder / sums).read_bytes())
    except ValueError as error:
        raise ValueError(f"{shown(folder / sums)} cannot be read ({error})") from error
    if not kept:
        raise ValueError(f"{shown(folder / sums)} names no file")
    for name, hashed in kept.items():
        file = below(folder, name)
        if not os.path.isfile(file) or digest(file) != hashed:
            raise ValueError(f"{shown(file)} is missing or damaged: its sha256 is not the one in {sums}")
    return set(kept)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """SIGINT and SIGTERM wait until the block is done, so that files that belong together agree.

    Only the main thread takes signals: in another one nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came, numbers = [], (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, lambda number, _: came.append(number)) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)
    for number in came[:1]:  # type: ignore[assignment]
        signal.raise_signal(number)


@contextmanager
def lock(path: Path, taken: str, wait: float = 0.0) -> Iterator[None]:
    """Hold the lock of a file or folder, a file beside it; LabError(taken) if still held after `wait` s.

    The lock ends with the process, and its file, .<name>.lock, with the lock.
    """
    path = path.resolve()
    file, end = path.with_name(f".{path.name}.lock"), time.monotonic() + wait
    while True:
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            handle = open(file, "a", encoding="utf-8")
        except OSError as error:
            raise disk_error(file, error) from error
        with handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= end:
                    raise LabError(taken) from None
                time.sleep(0.05)
                continue
            if os.fstat(handle.fileno()).st_nlink:  # else it was removed when it was let go
                try:
                    yield
                finally:
                    with suppress(OSError):
                        file.unlink()
                return
