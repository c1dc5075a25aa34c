"""Pairs of sentences: their words, how far these overlap, tables of them, rows as a data set.

A row is a dict with `sentence1`, `sentence2`, `label` (an index into the names of a task's labels), and more
columns of the task's own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from causalnb.errors import DataError
from causalnb.tasks.counts import counted

if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict

FAMILIES = ("main", "other", "development")  # trained on and tested, held out, and to choose settings on
_WORD = re.compile(r"[a-z0-9']+")


def words(text: str) -> list[str]:
    """The words and numbers of an English text, in lower case and without punctuation."""
    return _WORD.findall(text.lower())


def overlap(sentence1: str, sentence2: str) -> float:
    """Share of the words of sentence2 that sentence1 has, 0 to 1; 0 if it has none."""
    known, said = {*words(sentence1)}, words(sentence2)
    return sum(word in known for word in said) / max(1, len(said))


def statistics(rows: Iterable[dict], label: int = 0) -> dict[str, float]:
    """How far overlap tells `label`: the number of pairs, and the label's share (0 to 1) among them.

    Among all, among those whose overlap is 1, and among those where it is below 0.5. DataError if there is no
    such pair.
    """
    found = [(overlap(row["sentence1"], row["sentence2"]), row["label"] == label) for row in rows]
    groups = {
        "": [is_label for _, is_label in found],
        "_overlapping": [is_label for share, is_label in found if share == 1],
        "_apart": [is_label for share, is_label in found if share < 0.5],
    }
    for name, group in groups.items():
        if not group:
            raise DataError(
                f"None of {len(found)} pairs is in the group {name.strip('_') or 'all'!r}: give "
                f"pairs of every degree of overlap."
            )
    return {f"pairs{name}": len(group) for name, group in groups.items()} | {
        f"share{name}": sum(group) / len(group) for name, group in groups.items()
    }


def table(text: str, source: str, columns: Sequence[str]) -> list[tuple[int, dict[str, str]]]:
    """(line number, cells by column) of tab-separated lines below a header; nothing is quoted.

    DataError names `source` and the line: another header, or another number of cells.
    """
    rows = []
    for number, line in enumerate(text.removesuffix("\n").split("\n"), 1):
        cells = line.rstrip("\r").split("\t")
        if len(cells) != len(columns) or number == 1 and cells != [*columns]:
            raise DataError(
                f"{source}, line {number}: expected {len(columns)} columns "
                f"({', '.join(columns)}) with tabs between them, found {line[:60]!r}; take a "
                f"fresh copy of the file."
            )
        rows.append((number, dict(zip(columns, cells, strict=False))))
    return rows[1:]


def label_of(name: str, labels: Sequence[str], source: str, number: int) -> int:
    """Index of a label's name; DataError names `source` and the line if it is none."""
    if name not in labels:
        raise DataError(
            f"{source}, line {number}: {name!r} is no label; expected one of "
            f"{', '.join(labels)}: take a fresh copy of the file."
        )
    return labels.index(name)


def said(text: str, column: str, source: str, number: int) -> str:
    """A sentence of a file as it is; DataError names `source`, the line and the column if it is empty."""
    if not text.strip():
        raise DataError(f"{source}, line {number}: {column} is empty; take a fresh copy of the file.")
    return text


def fresh(make: Callable[[], dict], seen: set[str], columns: Sequence[str] = ("sentence1",)) -> dict:
    """A row of make() whose sentences in `columns` are not in `seen`, which takes them up.

    DataError if 1,000 rows in turn have known ones.
    """
    for _ in range(1000):
        row = make()
        said = {row[column] for column in columns}
        if not said & seen:
            seen |= said
            return row
    raise DataError(
        f"Beside {len(seen)} sentences no new one like {row['sentence1']!r} was found: ask for fewer pairs."
    )


@counted(n=0)
def counterexamples(n: int, minority: float) -> int:
    """How many pairs against the rule make up a share `minority` of them and n pairs that keep it, rounded.

    DataError unless n is a whole number from 0 on and 0 <= minority <= 0.5.
    """
    if not 0 <= minority <= 0.5:
        raise DataError(
            f"A minority of {minority!r} cannot be had with balanced labels: give a share from 0 to 0.5."
        )
    return round(n * minority / (1 - minority))


def parts(
    challenge: Callable,
    n_challenge: int,
    pairs: Callable,
    sizes: dict[str, int],
    minority: float,
    family: str,
    seed: int,
) -> dict[str, list[dict]]:
    """{part: rows} of a task with FAMILIES: pairs() of `sizes`, challenge_train, challenge, and held_out.

    held_out, of the family "other", is there for "main" alone. Parts are drawn from the last to the first
    with sentences that none had before, so that the last ones do not depend on those for training.
    """
    seen: set[str] = set()
    found = {}
    if family == "main":
        found["held_out"] = challenge(n_challenge, f"{seed} held out", "other", seen)
    found["challenge"] = challenge(n_challenge, seed, family, seen)
    found["challenge_train"] = challenge(n_challenge, f"{seed} train", family, seen)
    for part in reversed(sizes):
        found[part] = pairs(sizes[part], minority, f"{seed} {part}", family, seen)
    return dict(reversed(found.items()))


def check_source(task: str, source: str, sources: Sequence[str]) -> None:
    """DataError if `source` is none of a task's."""
    if source not in sources:
        raise DataError(f"Unknown source {source!r} of {task}; choose one of {', '.join(sources)}.")


def dataset(parts: Mapping[str, Sequence[dict]], labels: Sequence[str]) -> DatasetDict:
    """DatasetDict of rows; `label` is a ClassLabel with these names. DataError if a part has no row."""
    from datasets import ClassLabel, Dataset, DatasetDict, Features, Value

    def part(name: str, rows: Sequence[dict]) -> Dataset:
        if not rows:
            raise DataError(f"The part {name!r} would have 0 rows: ask for at least one.")
        columns = {key: [row[key] for row in rows] for key in rows[0]}
        features = Features(
            {key: ClassLabel(names=[*labels]) if key == "label" else Value("string") for key in columns}
        )
        return Dataset.from_dict(columns, features=features)

    return DatasetDict({name: part(name, rows) for name, rows in parts.items()})


def from_hub(
    home: str, config: str | None, parts: dict[str, str], columns: tuple[str, str], labels: Sequence[str]
) -> DatasetDict:
    """Pairs of a data set of the Hugging Face hub: {our part: its part}, its names of the two sentences.

    Pairs without a label (-1) are left out. DataError if its parts or columns have other names.
    """
    from datasets import load_dataset

    data = load_dataset(home, config) if config else load_dataset(home)

    def rows(part: str) -> list[dict]:
        return [
            {"sentence1": one, "sentence2": two, "label": label}
            for one, two, label in zip(*(data[part][column] for column in (*columns, "label")), strict=False)
            if label >= 0
        ]

    try:
        return dataset({ours: rows(theirs) for ours, theirs in parts.items()}, labels)
    except KeyError as error:
        raise DataError(
            f"{home} on the hub has no {error}: its names have changed, so adapt the loader to them."
        ) from None
