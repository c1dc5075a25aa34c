"""Files that are complete or absent."""

import os
from pathlib import Path


def write_whole(path: Path, data: bytes) -> None:
    """Replace `path` by `data`: a kill at any moment leaves the old or the new file; OSError if it fails."""
    temporary = path.parent / f".{path.name}.{os.getpid()}.tmp"
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
