"""Files that are complete or absent."""

import glob
import os
from pathlib import Path


def _sweep(path: Path) -> None:
    """Remove what processes that have ended left of `path`."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        try:
            os.kill(int(left.name.split(".")[-2]), 0)  # unprobed: after a kill
        except ProcessLookupError:
            left.unlink(missing_ok=True)  # unprobed: after a kill
        except (OSError, ValueError, OverflowError):
            continue


def write_whole(path: Path, data: bytes) -> None:
    """Replace `path` by `data`: a kill at any moment leaves the old or the new file; OSError names it."""
    temporary = path.parent / f".{path.name}.{os.getpid()}.tmp"
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        # a write on a full disk does not know it
        error.filename = error.filename or str(path)  # unprobed: it raises
        raise
    finally:
        temporary.unlink(missing_ok=True)
        _sweep(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
