"""Files of sentence pairs that a reader has: HANS, SNLI, MNLI, QQP and PAWS as they are published.

Columns are found by the names in the header, so that the files of the authors, of GLUE and of PAWS fit alike;
lines may be tab-separated or JSON. PAWS-QQP has its sentences as Python bytes literals, which are decoded.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from causalnb.errors import DataError
from causalnb.tasks import overlap, paraphrase, sentence_pairs, snli

if TYPE_CHECKING:
    from datasets import DatasetDict

BYTES = re.compile(r"""b(['"]).*\1""", re.DOTALL)  # where one sentence of a file is such a literal, all are
UNDECIDED = "-"  # SNLI's and MNLI's gold label where the annotators disagree
INFERENCE = {
    "sentence1": ("sentence1", "premise"),
    "sentence2": ("sentence2", "hypothesis"),
    "label": ("gold_label", "label"),
}
COLUMNS = {  # by task: our column -> what files call it
    "overlap": INFERENCE,
    "snli": INFERENCE,
    "paraphrase": {
        "sentence1": ("sentence1", "question1"),
        "sentence2": ("sentence2", "question2"),
        "label": ("is_duplicate", "label"),
    },
}
SENTENCES = ("sentence1", "sentence2")
LABELS = {"overlap": overlap.LABELS, "snli": snli.LABELS, "paraphrase": paraphrase.LABELS}


def from_files(task: str, path: str | Path | Mapping[str, str | Path]) -> DatasetDict:
    """DatasetDict with columns sentence1, sentence2, label: a test part, or the parts that `path` names.

    Pairs without a gold label ("-") are left out. DataError for a task without such files, a file that
    cannot be read or has other columns, and a malformed line, named with its number.
    """
    if task not in COLUMNS:
        raise DataError(f"Task {task!r} reads no file of yours; path is for {', '.join(COLUMNS)}.")
    paths = path if isinstance(path, Mapping) else {"test": path}
    return sentence_pairs.dataset({part: read(task, one) for part, one in paths.items()}, LABELS[task])


def read(task: str, path: str | Path) -> list[dict]:
    """Rows of one file, with sentence1, sentence2 and label, an index into the task's labels."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read ({error}): give a text file of sentence pairs.") from None
    lines = _json(text, path) if str(path).endswith((".json", ".jsonl")) else _table(text, path)
    known, rows = LABELS[task], []
    for number, cells in lines:
        row = {}
        for name, others in COLUMNS[task].items():
            column = next((other for other in others if other in cells), None)
            if column is None:
                raise DataError(
                    f"{path}, line {number}: no column is called {' or '.join(others)}; it has "
                    f"{', '.join(map(str, cells))[:80]}."
                )
            row[name] = cells[column]
            if not isinstance(row[name], (str, int) if name == "label" else str):
                raise DataError(
                    f"{path}, line {number}: {column} is {json.dumps(row[name])[:60]}; expected "
                    f"a text: take a fresh copy of the file."
                )
        row["label"] = str(row["label"])
        if row["label"] == UNDECIDED:
            continue
        label = row["label"]
        row["label"] = (
            int(label)
            if label in map(str, range(len(known)))
            else sentence_pairs.label_of(label, known, str(path), number)
        )
        rows.append((number, row))
    if not rows:
        raise DataError(f"{path} has no pair with a label: give a file of sentence pairs.")
    literal = any(BYTES.fullmatch(row[name]) for _, row in rows for name in SENTENCES)
    read_cell = paraphrase.decoded if literal and task == "paraphrase" else sentence_pairs.said
    return [
        row | {name: read_cell(row[name], name, str(path), number) for name in SENTENCES}
        for number, row in rows
    ]


def _json(text: str, path) -> Iterator[tuple[int, dict]]:
    for number, line in enumerate(text.split("\n"), 1):  # not splitlines: a text may have U+2028
        if line.strip():
            try:
                cells = json.loads(line)
            except (ValueError, RecursionError):
                cells = None
            if not isinstance(cells, dict):
                raise DataError(
                    f"{path}, line {number}: expected a JSON object, found {line[:60]!r}; take a "
                    f"fresh copy of the file."
                )
            yield number, cells


def _table(text: str, path) -> Iterator[tuple[int, dict]]:
    """Lines below the header. Fields are quoted in Quora's own file alone, where the first of a line is."""
    head, _, rest = text.partition("\n")
    quoting = csv.QUOTE_MINIMAL if rest.startswith('"') else csv.QUOTE_NONE
    names = [name.strip().strip('"') for name in head.split("\t")]
    if twice := {name for name in names if names.count(name) > 1}:
        raise DataError(f"{path}, line 1: two columns are called {min(twice)!r}: give each its own name.")
    lines = csv.reader(StringIO(rest), delimiter="\t", quoting=quoting)  # type: ignore[arg-type]
    try:
        for cells in lines:
            if len(cells) not in (0, len(names)):
                raise DataError(
                    f"{path}, line {lines.line_num + 1}: expected {len(names)} cells with tabs "
                    f"between them, found {len(cells)} in {' '.join(cells)[:60]!r}; take a fresh "
                    f"copy of the file."
                )
            if cells:
                yield lines.line_num + 1, dict(zip(names, cells, strict=False))
    except csv.Error as error:
        raise DataError(
            f"{path}, line {lines.line_num + 1}: {error}; take a fresh copy of the file."
        ) from None
