"""Files that are complete or absent, and locks that vanish with their process."""

import errno
import fcntl
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from causalnb.errors import FileError, LabError
from causalnb.paths import cache_dir, shown

FULL = {errno.ENOSPC, errno.EDQUOT}


def disk_error(path: Path, error: OSError) -> FileError:
    """The sentence for a file that could not be written."""
    why = "the disk is full" if error.errno in FULL else error.strerror or str(error)
    todo = "free some space" if error.errno in FULL else "make the folder writable"
    return FileError(
        f"{shown(path)} could not be written because {why}: {todo} and run the same command "
        "again; what was there before is untouched."
    )


def write_atomic(path: Path, data: bytes) -> None:
    """Replace `path` by `data`: a kill at any moment leaves the old or the new file; LabError if it fails."""
    temporary = path.parent / f".{path.name}.{os.getpid()}.tmp"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(temporary, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        finally:
            for left in {temporary, *path.parent.glob(f".{path.name}.*.tmp")}:
                left.unlink(missing_ok=True)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise disk_error(path, error) from error


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
def lock(name: str, taken: str, wait: float = 0.0) -> Iterator[None]:
    """Hold the lock `name`, which ends with the process; LabError(taken) if still held after `wait` s."""
    path = cache_dir() / "locks" / f"{name}.lock"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = open(path, "a")
    except OSError as error:
        raise disk_error(path, error) from error
    with handle:
        end = time.monotonic() + wait
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= end:
                    raise LabError(taken) from None
                time.sleep(0.05)
        yield
