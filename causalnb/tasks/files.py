"""The real data files: how a checked copy of one of `registry` is found.

Order: a mirror folder ($CAUSALNB_DATA), then the downloads folder, files plain or .gz in both, then the
network.
A copy whose uncompressed content has another sha256 than the registry is refused by name, never used,
replaced or deleted. A file that lies at no address is looked for in the two folders alone.
"""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Callable, Iterable
from hashlib import sha256
from pathlib import Path

from causalnb import network
from causalnb.errors import DataError
from causalnb.paths import downloads_dir, moved
from causalnb.tasks.registry import REGISTRY, File
from causalnb.writing import write_whole

SECONDS, LIMIT = 600, 64 * 2**20  # of a download, and bytes of a file, unpacked too


def fetch(name: str) -> Path:
    """Path of a checked copy of a file of REGISTRY (may end in .gz), downloaded if needed; else DataError."""
    return _checked(name)[0]


def read(name: str) -> bytes:
    """Uncompressed, checked content of a file of REGISTRY, downloaded if there is no copy, or DataError."""
    return _checked(name)[1]


def verify(names: Iterable[str] | None = None) -> list[tuple[str, str]]:
    """(name, state) of every file without downloading: "ok", "missing", or the sentence why it is refused.

    DataError for a mirror that is no folder.
    """
    _folders()
    return [
        (name, _state(lambda: "ok" if _local(_known(name)) else "missing"))  # noqa: B023  (called at once)
        for name in (REGISTRY if names is None else names)
    ]


def fetch_all(
    names: Iterable[str] | None = None, report: Callable[[int, int, str], None] | None = None
) -> list[tuple[str, str]]:
    """Fetches every file; (name, "ok" or why not) of each. report(done, total, name) is called after each.

    DataError as `verify`.
    """
    _folders()
    names, states = list(REGISTRY if names is None else names), []
    for name in names:
        states.append((name, _state(lambda: "ok" if fetch(name) else "missing")))  # noqa: B023  (called at once)
        if report:
            report(len(states), len(names), name)
    return states


def homeless(name: str) -> str:
    """The sentence for a file of REGISTRY that lies at no address and is not on this machine."""
    file = _known(name)
    return (
        f"{name} lies at no address: it is {file.made}; point CAUSALNB_DATA at a folder that has it, put "
        f"it at {downloads_dir() / name}, or use generated data."
    )


def _state(check: Callable[[], str]) -> str:
    try:
        return check()
    except DataError as error:
        return str(error)


def _known(name: str) -> File:
    if name not in REGISTRY:
        raise DataError(f"No data file is registered as {name!r}; the registry has {', '.join(REGISTRY)}.")
    return REGISTRY[name]


def _checked(name: str) -> tuple[Path, bytes]:
    file = _known(name)
    found = _local(file)
    if not (found or file.url):
        raise DataError(homeless(name))
    return found or _download(file)


def _folders() -> list[Path]:
    """Where copies may lie."""
    folders = [downloads_dir()]
    if mirror := moved("CAUSALNB_DATA"):
        if not mirror.is_dir():
            raise DataError(
                f"CAUSALNB_DATA is {os.environ['CAUSALNB_DATA']!r}, which is no folder; point it at a mirror "
                "of the data files or unset it."
            )
        folders.insert(0, mirror)
    return folders


def _local(file: File) -> tuple[Path, bytes] | None:
    for path in (folder / f"{file.name}{zipped}" for folder in _folders() for zipped in ("", ".gz")):
        if path.is_file():
            return path, _content(file, path)
    return None


def _content(file: File, path: Path) -> bytes:
    try:
        content = _unpacked(path.read_bytes(), path)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(
            f"{path} cannot be read ({error}); replace it with a fresh copy of {file.url or file.made}."
        ) from None
    found = sha256(content).hexdigest()
    if found != file.sha256:
        raise DataError(
            f"{path} is refused: the sha256 of its content is {found[:12]}, expected "
            f"{file.sha256[:12]}; replace it with a fresh copy of {file.url or file.made}."
        )
    return content


def _unpacked(raw: bytes, path: Path) -> bytes:
    return gzip.open(io.BytesIO(raw)).read(LIMIT) if path.suffix == ".gz" else raw


def _download(file: File) -> tuple[Path, bytes]:
    elsewhere = "point CAUSALNB_DATA at a folder that has it"
    if os.environ.get("CAUSALNB_OFFLINE", "0") not in ("", "0"):
        raise DataError(
            f"{file.name} is not on this machine and CAUSALNB_OFFLINE forbids the download; "
            f"unset it or {elsewhere}."
        )
    zipped = file.url.endswith(".gz") and not file.name.endswith(".gz")
    target = downloads_dir() / (f"{file.name}.gz" if zipped else file.name)
    try:
        raw = network.answer(file.url, SECONDS, LIMIT, follow=True)
    except ConnectionError as error:
        raise DataError(
            f"{file.url} cannot be downloaded ({error}); check the network or {elsewhere}."
        ) from None
    try:
        content = _unpacked(raw, target)
    except (OSError, EOFError, zlib.error):
        content = b""
    if sha256(content).hexdigest() != file.sha256:
        raise DataError(
            f"{file.url} is refused: what it sent does not have the sha256 {file.sha256[:12]}; "
            f"it was not kept, try again or {elsewhere}."
        )
    try:
        write_whole(target, raw)
    except OSError as error:
        raise DataError(
            f"{target} cannot be written ({error.strerror or error}); free some space or set "
            f"CAUSALNB_CACHE to another folder."
        ) from None
    return target, content
