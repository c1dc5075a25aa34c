"""The files of data/paper: numbers as printed, claims, the list of artefacts; what is read is noted."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from io import StringIO

from causalnb.errors import FileError
from causalnb.paths import paper_dir, shown

LISTED = "artefacts.csv"
_noted: ContextVar[set[str] | None] = ContextVar("noted", default=None)


@contextmanager
def noted() -> Iterator[set[str]]:
    """Within this context, note what is read: "sci_table2.csv", "claims.csv sci" of one source's rows."""
    token = _noted.set(found := set())
    try:
        yield found
    finally:
        _noted.reset(token)


def text(name: str, source: str = "") -> str:
    """The text of data/paper/<name>, of which only the rows of `source` are used; FileError if it is damaged.

    FileNotFoundError where there is none.
    """
    if (found := _noted.get()) is not None:
        found.add(f"{name} {source}".rstrip())
    path = paper_dir() / name
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        raise damaged(name, error) from error


def damaged(name: str, error: object) -> FileError:
    """The sentence for a file that cannot be read."""
    wrong = "is no list of artefacts" if name == LISTED else "cannot be read"
    return FileError(f"{shown(paper_dir() / name)} {wrong} ({error}): restore it from git.")


def rows(name: str, columns: Sequence[str], source: str = "") -> list[dict[str, str]]:
    """The rows of data/paper/<name> as texts, without pandas; none if there is no file, else as `text`."""
    try:
        found = [*csv.DictReader(StringIO(text(name, source), newline=""), strict=True)]
    except FileNotFoundError:
        return []
    except csv.Error as error:
        raise damaged(name, error) from error
    for number, row in enumerate(found, 2):
        wrong = [column for column in columns if column not in row]
        if wrong or None in row or None in row.values():
            raise damaged(name, f"row {number} has {f'no {wrong[0]!r}' if wrong else 'not a cell a column'}")
    return found


def used(read: Iterable[str]) -> list[str]:
    """The texts of what was `noted`, in order, with their names."""
    found = []
    for name in sorted(read):
        file, _, source = name.partition(" ")
        try:
            lines = text(file).split("\n")
        except FileNotFoundError:
            lines = []
        found += [name, *(line for line in lines if line.startswith(f"{source}." if source else ""))]
    return found
