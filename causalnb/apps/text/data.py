"""Rows of a user's own data: a file of JSON lines, CSV or Parquet, a folder of texts or a data set."""

import csv
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path

from causalnb.errors import DataError, LabError, sentence
from causalnb.paths import shown

COLUMNS = ("prompt", "second", "answer", "label", "domain", "structure")
NAMES = ("label", "domain", "structure")  # whose texts are names: blanks around them say nothing
HALF = re.compile(r"[\ud800-\udfff]")  # of a character that JSON writes as two
FILES = (".jsonl", ".json", ".csv", ".tsv", ".parquet")


def columns(text: str | None, flag: str = "--columns") -> dict[str, str]:
    """Columns from a text, "prompt=question" -> {"prompt": "question"}; LabError, of a flag, for others."""
    found: dict[str, str] = {}
    for part in (text or "").split(",") if text else ():
        name, equals, given = (piece.strip() for piece in part.partition("="))
        if not equals or not given or name not in COLUMNS or name in found:
            raise LabError(
                f"{flag} has {part!r}: give pairs such as prompt=question,answer=reply, each of "
                f"{', '.join(COLUMNS)} once."
            )
        found[name] = given
    return found


def rows_of(
    source: str,
    named: Mapping[str, str],
    needs: Sequence[str],
    may: Sequence[str] = (),
    part: str = "train",
    lenient: bool = False,
) -> list[dict]:
    """Rows of `source` with the columns `needs` and, where it has them, `may`; `at` says where each stands.

    named gives other names of columns; one of `may` that is named must be there, unless lenient. Of a data
    set with parts `part` is read, or the one after a colon, as in name:test. DataError names the file and
    the line of a row that does not fit, and an empty source.
    """
    if not source.strip():
        raise DataError(
            f"{source!r} names no data: give a file that ends in {', '.join(FILES)}, or a folder."
        )
    wanted = {name: named.get(name, name) for name in (*needs, *may)}
    asked = {name for name in wanted if name in needs or name in named and not lenient}
    if stray := set(named) - set(wanted):
        raise DataError(f"--columns names {min(stray)}, which is not read here: give {', '.join(wanted)}.")
    rows = [_row(where, cells, wanted, asked) for where, cells in _lines(source, part)]
    if not rows:
        raise DataError(f"{source} has no rows: give at least a few.")
    return rows


def _row(where: str, cells: object, wanted: Mapping[str, str], asked: set[str]) -> dict:
    if not isinstance(cells, Mapping):
        raise DataError(f'{where} is no object with columns: write {{"{next(iter(wanted))}": ...}}.')
    row = {"at": where}
    for name, column in wanted.items():
        value = cells.get(column)
        if column not in cells and name not in asked:
            continue
        if column not in cells:
            have = ", ".join(map(str, cells))[:80] or "none"
            raise DataError(
                f"{where} has no column {column!r}; it has {have}: name the right one with --columns "
                f"{name}=..."
            )
        if name in NAMES and isinstance(value, (int, bool)):
            value = str(value)
        if not isinstance(value, str) or not value.strip():
            raise DataError(f"{where}: {column} is {json.dumps(value, default=str)[:60]}: give a text.")
        if half := HALF.search(value):
            raise DataError(
                f"{where}: {column} has {half[0]!r}, half of a character: write it whole, or leave it out."
            )
        row[name] = value.strip() if name in NAMES else value
    return row


def _lines(source: str, part: str) -> Iterator[tuple[str, object]]:
    """(where it stands, its cells) of every row of a source."""
    path = Path(source)
    if path.is_dir() and (texts := sorted(path.glob("*.txt"))):
        yield from map(_text, texts)
        return
    if path.suffix.lower() not in FILES or path.is_dir():
        yield from _data_set(source, part)
        return
    try:
        if path.suffix.lower() == ".parquet":
            yield from _numbered(_parquet(path), path, "row")
        elif path.suffix.lower() in (".csv", ".tsv"):
            yield from _table(path, "\t" if path.suffix.lower() == ".tsv" else ",")
        else:
            yield from _json(path)
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read ({sentence(error)}): give a file in UTF-8.") from error


def _text(file: Path) -> tuple[str, dict]:
    """A text as a row: its first paragraph is the prompt, what follows the answer."""
    try:
        text = file.read_text(encoding="utf-8-sig").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{file} cannot be read ({sentence(error)}): give a text in UTF-8.") from error
    prompt, *answer = re.split(r"\n[^\S\n]*\n\s*", text, maxsplit=1)
    if not answer:
        raise DataError(f"{file} has no second paragraph: write what is asked, an empty line, the answer.")
    return str(file), {"prompt": prompt, "answer": answer[0]}


def _table(path: Path, delimiter: str) -> Iterator[tuple[str, dict]]:
    """Rows of a table whose first line names its columns; DataError for a name twice and for stray quotes."""
    with open(path, encoding="utf-8-sig", newline="") as file:
        table = csv.DictReader(file, delimiter=delimiter, strict=True)
        begins = 1
        try:
            names = [name for name in table.fieldnames or () if name]
            if twice := [name for name, count in Counter(names).items() if count > 1]:
                raise DataError(f"{path} has the column {twice[0]!r} twice: rename one of them.")
            begins = table.line_num + 1
            for cells in table:
                if None in cells:
                    raise DataError(
                        f"{path}, line {table.line_num} has more cells than the "
                        f"{len(table.fieldnames or ())} "
                        "columns: put texts with commas in quotes."
                    )
                yield f"{path}, line {table.line_num}", cells
                begins = table.line_num + 1
        except csv.Error as error:
            raise DataError(
                f"{path}, the row from line {begins} on cannot be read ({error}): close each quote where its "
                "cell ends, and write one within a cell twice."
            ) from error


def _json(path: Path) -> Iterator[tuple[str, object]]:
    """Objects, one on each line, or those of one array."""
    with open(path, encoding="utf-8-sig") as file:
        first = next(filter(None, map(str.strip, file)), "")
        file.seek(0)
        if first.startswith("["):
            try:
                rows = json.load(file)
            except (ValueError, RecursionError) as error:
                raise DataError(
                    f"{path} is no JSON ({sentence(error)[:120]}): give an array of objects, or one object "
                    "on each line."
                ) from None
            yield from _numbered(rows, path, "row")
            return
        for number, line in enumerate(file, 1):
            if line.strip():
                try:
                    yield f"{path}, line {number}", json.loads(line)
                except (ValueError, RecursionError):
                    raise DataError(
                        f"{path}, line {number} is no JSON: {line.strip()[:60]!r}; write one object on "
                        "each line."
                    ) from None


def _parquet(path: Path) -> Iterable[dict]:
    import pandas as pd

    try:
        table = pd.read_parquet(path)
    except ValueError as error:
        raise DataError(f"{path} cannot be read ({sentence(error)[:120]}): give a Parquet file.") from error
    return table.astype(object).where(table.notna(), None).to_dict("records")


def _numbered(rows: Iterable, source: object, word: str) -> Iterator[tuple[str, object]]:
    for number, cells in enumerate(rows, 1):
        yield f"{source}, {word} {number}", cells


def _data_set(source: str, part: str) -> Iterator[tuple[str, object]]:
    from datasets import DatasetDict, load_dataset, load_from_disk

    name, colon, asked = source.rpartition(":")
    if not colon or Path(source).exists():
        name, colon, asked = source, "", ""
    saved = any((Path(name) / file).exists() for file in ("dataset_dict.json", "state.json"))
    try:
        found = load_from_disk(name) if saved else load_dataset(name)
    except Exception as error:  # the hub, its cache and every builder have errors of their own
        raise DataError(
            f"no data could be read from {source!r} ({sentence(error)[:120]}): give a file that ends in "
            f"{', '.join(FILES)}, a folder of the datasets library, or, with a network, a name on the hub."
        ) from error
    if isinstance(found, DatasetDict):
        wanted = asked if colon else next((one for one in (part, "validation") if one in found), part)
        if wanted not in found:
            raise DataError(
                f"{name} has no part {wanted!r}: give one of {', '.join(f'{name}:{p}' for p in found)}."
            )
        found = found[wanted]
    elif colon:
        raise DataError(f"{name} has no parts: leave :{asked} out.")
    yield from _numbered(found, shown(Path(name)) if Path(name).exists() else name, "row")


def digest(row: Mapping) -> str:
    """A short hash of what a row says, by which it is known again."""
    said = [row.get(name) for name in ("prompt", "second", "answer", "label")]
    return blake2b(json.dumps(said).encode(), digest_size=8).hexdigest()


def held_out(rows: list[dict], share: float) -> tuple[list[dict], list[dict]]:
    """(training, validation): a share of the different rows, at least one, held out for every seed."""
    from numpy.random import default_rng

    different = sorted({digest(row) for row in rows})
    if len(different) < 2:
        name = re.sub(", (line|row) [0-9]+$", "", rows[0]["at"])
        raise DataError(f"{name} has {len(different)} different row(s): give at least 2.")
    count = min(max(1, round(share * len(different))), len(different) - 1)
    chosen = {different[i] for i in default_rng(0).permutation(len(different))[:count]}
    return ([r for r in rows if digest(r) not in chosen], [r for r in rows if digest(r) in chosen])
