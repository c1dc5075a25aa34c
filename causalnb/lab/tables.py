"""Tables as a reader wants them: Markdown, LaTeX and CSV from the same cells."""

import csv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from io import StringIO
from pathlib import Path

from causalnb.errors import LabError
from causalnb.lab import latex, manifest
from causalnb.lab import paper as papers
from causalnb.lab.statistics import Summary
from causalnb.paths import paper_dir, shown

MOST = 5  # values that a cell has in place of an interval


def _counted(summary: Summary, said: str) -> str:
    return f"{said if summary.mean == summary.mean else 'diverged'} ({summary.n})"


def estimate(summary: Summary, digits: int = 3, scale: float = 1.0) -> str:
    """A table cell: "0.984 ± 0.003 (5)", mean, half the interval, number of values; no interval of one.

    Of a summary with `values` these in its place, up to MOST, "0.676 (0.805, 0.787, 0.435)", else their ends,
    "0.676 (0.435 to 0.805; 8)".
    LabError for what is no Summary, and for digits that are no count.
    """
    if not hasattr(summary, "half") or isinstance(digits, bool) or not isinstance(digits, int) or digits < 0:
        raise LabError(
            f"a summary {summary!r:.60} with digits={digits!r} is no cell: give a Summary and 0 or more."
        )
    if summary.values:
        told = [f"{scale * value:.{digits}f}" for value in summary.values]
        ends = f"{scale * min(summary.values):.{digits}f} to {scale * max(summary.values):.{digits}f}"
        among = ", ".join(told) if len(told) <= MOST else f"{ends}; {len(told)}"
        return f"{scale * summary.mean:.{digits}f} ({among})"
    half = f" ± {scale * summary.half:.{digits}f}" if summary.half == summary.half else ""
    return _counted(summary, f"{scale * summary.mean:.{digits}f}{half}")


def percent(summary) -> str:
    """A table cell in percent: mean ± half of the 95 % interval, and the number of seeds."""
    return estimate(summary, 1, 100)


def points(summary) -> str:
    """A difference in percentage points, with its sign and its 95 % interval."""
    ends = f" [{100 * summary.low:+.1f}, {100 * summary.high:+.1f}]" if summary.half == summary.half else ""
    return _counted(summary, f"{100 * summary.mean:+.1f}{ends}")


def _text(cell) -> str:
    if cell is None or cell != cell:
        return ""
    if isinstance(cell, Summary):
        return estimate(cell)
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)


@dataclass(frozen=True)
class Table:
    """Rows of cells (texts, numbers, Summary, Verdict, None); LabError if a row has not their number."""

    id: str
    columns: Sequence[str] = field(repr=False)
    rows: Sequence[Sequence] = field(repr=False)
    caption: str = field(repr=False)
    notes: str = field(default="", repr=False)

    def __post_init__(self):
        for row in self.rows:
            if len(row) != len(self.columns):
                counts = f"{len(row)} cells for {len(self.columns)} columns"
                raise LabError(f"a row of {self.id} has {counts}: correct {list(row)!r}.")

    def _cells(self, header: bool = False) -> list[list[str]]:
        rows = [self.columns, *self.rows] if header else self.rows
        return [[" ".join(_text(cell).split()) for cell in row] for row in rows]

    def markdown(self) -> str:
        """Caption, table, notes."""
        from tabulate import tabulate

        head, *rows = [[cell.replace("|", r"\|") for cell in row] for row in self._cells(header=True)]
        body = tabulate(rows, head, "pipe", disable_numparse=True)
        return "\n\n".join(filter(None, [f"**{self.caption}**", body, self.notes])) + "\n"

    def latex(self, fit: bool = False, longtable: bool = False) -> str:
        """A table environment (booktabs), label tab:<id>, as `latex.table` sets it; everything is escaped."""
        return latex.table(self.id, self._cells(header=True), self.caption, self.notes, fit, longtable)

    def only(self, columns: Sequence[str]) -> "Table":
        """This table with `columns` alone, in this order: names, or numbers from 1; LabError for others."""
        names = [*map(str, self.columns)]
        numbers = {str(at): at - 1 for at in range(1, len(names) + 1)}
        places = {**numbers, **{name: at for at, name in reversed([*enumerate(names)])}}
        if lacking := [column for column in columns if column not in places]:
            known = ", ".join(f"{number} {names[at]!r}" for number, at in numbers.items())
            raise LabError(f"{self.id} has no column {lacking[0]!r}: it has {known}.")
        kept = [places[column] for column in columns]
        rows = [[row[at] for at in kept] for row in self.rows]
        return replace(self, columns=[self.columns[at] for at in kept], rows=rows)

    def csv(self) -> str:
        """Columns and cells only."""
        out = StringIO()
        csv.writer(out, lineterminator="\n").writerows(self._cells(header=True))
        return out.getvalue()

    def _repr_markdown_(self) -> str:
        return self.markdown()


@dataclass
class Request:
    """How the tables that are saved shall differ; `left_out` is why some of them were not."""

    columns: Sequence[str] = ()
    fit: bool = False
    longtable: bool = False
    left_out: list[str] = field(default_factory=list)


_request: ContextVar[Request | None] = ContextVar("request", default=None)


@contextmanager
def requested(columns: Sequence[str] = (), fit: bool = False, longtable: bool = False) -> Iterator[Request]:
    """Within this context save_table keeps these columns, and leaves out a table without them."""
    token = _request.set(request := Request(columns, fit, longtable))
    try:
        yield request
    finally:
        _request.reset(token)


def save_table(table: Table, profile: str | None = None) -> list[Path]:
    """Write figures/<source>/<name>.{md,tex,csv} and the manifest, or what was `requested` elsewhere."""
    request = _request.get() or Request()
    try:
        table = table.only(request.columns) if request.columns else table
    except LabError as error:
        request.left_out.append(str(error))
        return manifest.save(table.id, {}, "", "", profile)
    texts = {
        ".md": table.markdown,
        ".tex": lambda: table.latex(request.fit, request.longtable),
        ".csv": table.csv,
    }
    content = {suffix: text() for suffix, text in texts.items() if manifest.wants(suffix)}
    alt = f"Table with {len(table.rows)} rows and the columns {', '.join(map(str, table.columns))}."
    content = {suffix: text.encode() for suffix, text in content.items()}  # type: ignore[misc]
    return manifest.save(table.id, content, alt, table.caption, profile)  # type: ignore[arg-type]


def printed(name: str, source: str = ""):
    """DataFrame of data/paper/<name>.csv; LabError naming what there is.

    source: the one whose rows alone are used, so that a change of others is none.
    """
    import pandas as pd

    file = f"{name}.csv"
    try:
        text = StringIO(papers.text(file, source))
        return pd.read_csv(text, keep_default_na=False, na_values=[""])  # "None" may be a row's name
    except FileNotFoundError:
        known = ", ".join(sorted(file.stem for file in paper_dir().glob("*.csv"))) or "no file"
        raise LabError(f"there is no {shown(paper_dir() / file)}: there is {known}.") from None
    except ValueError as error:
        raise papers.damaged(file, error) from error


def paper(id: str):
    """DataFrame of the numbers as a source prints them: data/paper/<source>_<name>.csv."""
    return printed(id.replace(".", "_", 1))
