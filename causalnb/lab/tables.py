"""Tables as a reader wants them: Markdown, LaTeX and CSV from the same cells."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from causalnb.errors import LabError
from causalnb.lab import manifest
from causalnb.lab.statistics import Summary
from causalnb.paths import paper_dir, shown


def estimate(summary: Summary, digits: int = 3) -> str:
    """A table cell: "0.984 ± 0.003 (5)", mean, half the interval, number of values; no interval of one."""
    if summary.mean != summary.mean:
        return f"diverged ({summary.n})"
    half = f" ± {summary.half:.{digits}f}" if summary.half == summary.half else ""
    return f"{summary.mean:.{digits}f}{half} ({summary.n})"


def percent(summary) -> str:
    """A table cell in percent: mean ± half of the 95 % interval, and the number of seeds."""
    half = f" ± {100 * summary.half:.1f}" if summary.half == summary.half else ""
    return f"{100 * summary.mean:.1f}{half} ({summary.n})"


def points(summary) -> str:
    """A difference in percentage points, with its sign and its 95 % interval."""
    ends = f" [{100 * summary.low:+.1f}, {100 * summary.high:+.1f}]" if summary.half == summary.half else ""
    return f"{100 * summary.mean:+.1f}{ends} ({summary.n})"


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
    columns: Sequence[str]
    rows: Sequence[Sequence]
    caption: str
    notes: str = ""

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

    def latex(self) -> str:
        """A table environment (booktabs), label tab:<id>; everything is escaped."""
        from tabulate import tabulate

        def escaped(text: str) -> str:
            row = tabulate([[text]], tablefmt="latex", disable_numparse=True).split("\n")[2]
            return row.strip().removesuffix(r"\\").strip()

        head, *rows = self._cells(header=True)
        body = tabulate(rows, head, "latex_booktabs", disable_numparse=True)
        notes = f"\\par\\small {escaped(self.notes)}\n" if self.notes else ""
        title = f"\\caption{{{escaped(self.caption)}}}\n\\label{{tab:{self.id}}}"
        text = f"\\begin{{table}}\n\\centering\n{title}\n{body}\n{notes}\\end{{table}}\n"
        return text.replace("±", r"$\pm$")

    def csv(self) -> str:
        """Columns and cells only."""
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows(self._cells(header=True))
        return out.getvalue()

    def _repr_markdown_(self) -> str:
        return self.markdown()


def save_table(table: Table, profile: str | None = None) -> list[Path]:
    """Write figures/<source>/<name>.{md,tex,csv} and the manifest."""
    content = {".md": table.markdown(), ".tex": table.latex(), ".csv": table.csv()}
    alt = f"Table with {len(table.rows)} rows and the columns {', '.join(map(str, table.columns))}."
    content = {suffix: text.encode() for suffix, text in content.items()}  # type: ignore[misc]
    return manifest.save(table.id, content, alt, table.caption, profile)  # type: ignore[arg-type]


def printed(name: str):
    """DataFrame of data/paper/<name>.csv; LabError naming what there is."""
    import pandas as pd

    path = paper_dir() / f"{name}.csv"
    try:
        return pd.read_csv(path, keep_default_na=False, na_values=[""])  # "None" may be a row's name
    except FileNotFoundError:
        known = ", ".join(sorted(file.stem for file in paper_dir().glob("*.csv"))) or "no file"
        raise LabError(f"there is no {shown(path)}: there is {known}.") from None
    except (OSError, ValueError) as error:
        raise LabError(f"{shown(path)} cannot be read ({error}): restore it from git.") from error


def paper(id: str):
    """DataFrame of the numbers as a source prints them: data/paper/<source>_<name>.csv."""
    return printed(id.replace(".", "_", 1))
