"""What ICLM's tables and figures share: sets and formats, scores of cells, the rows of Table 1."""

from collections.abc import Callable, Iterable
from itertools import product
from statistics import fmean

from causalnb.errors import LabError
from causalnb.experiments.iclm.grid import TABLE_1, VARIANTS
from causalnb.lab import evidence, results
from causalnb.lab.report import Arm, Measured, OfRows, arm
from causalnb.lab.verdicts import Verdict, by_claim, claims

FAMILIES = {"acre": "ACRE", "raven": "RAVEN"}
SETS = {  # cell -> heading in the paper, the i.i.d. one first
    "acre": {"IID": "ACRE", "Comp": "ACRE-Comp", "Sys": "ACRE-Sys"},
    "raven": {"center": "RAVEN", "four": "RAVEN-Four", "in_center": "RAVEN-In-Center"},
}
FORMATS = {"text": "Text", "symbolic": "Symb"}
CHOSEN = {"acre": "exact", "raven": "choice"}  # as the paper scores: one of three words, one of eight panels
ROWS = {  # row of Table 1 -> arm, score, row in the paper ("" for ours)
    "base": ("base", "exact", "LLaMA2-Base"),
    "fine-tuned": ("finetuned", "exact", "LLaMA2-Finetuned-All"),
    "fine-tuned, ICLM's size": ("finetuned_wide", "exact", ""),
    "ICLM": ("iclm", "exact", "ICLM"),
    "no invariant module": ("no_invariant", "exact", "ICLM-No-Inv"),
    "no invariant module, ICLM's head": ("no_invariant_head", "exact", ""),
    "invariant module alone": ("iclm", "invariant", "ICLM-Invariant"),
    "domain module alone": ("iclm", "domain", "ICLM-Domain"),
    "oracle router": ("oracle", "exact", "LLaMA2-Finetuned-Oracle-Router"),
}


def placed(rows):
    """Rows whose cell is [when/task/]set/format, with a column for each part but the task, without NaN.

    The set takes the column "cell"; when is "" where there is none.
    """
    rows = rows[rows.cell.str.contains("/")].dropna(subset="value")
    when, cell, format = zip(*map(_parts, rows.cell), strict=True) if len(rows) else ([], [], [])
    return rows.assign(when=when, cell=cell, format=format)


def _parts(cell: str) -> tuple[str, str, str]:
    """(when, set, format) of a cell, "" for what it does not say."""
    parts = cell.split("/")
    return parts[0] if parts[2:] else "", parts[-2] if parts[1:] else "", parts[-1]


def _listed(parts: str | Iterable[str]) -> list[str]:
    return [parts] if isinstance(parts, str) else [*parts]


def _chosen(rows, cells: str | Iterable[str], formats: str | Iterable[str], when: str):
    rows = placed(rows)
    return rows[rows.cell.isin(_listed(cells)) & rows.format.isin(_listed(formats)) & (rows.when == when)]


def scored(measure: str, cells, formats=tuple(FORMATS), when: str = "") -> OfRows:
    """A metric of arms: a measure on a cell and format, or its mean over several."""

    def read(rows):
        import pandas as pd

        places, found = [*product(_listed(cells), _listed(formats))], {}
        rows = rows[rows.measure == measure]
        for seed, cell, value in zip(rows.seed, rows.cell, rows.value, strict=True):
            its_when, *place = _parts(cell)
            if its_when != when or tuple(place) not in places:
                continue
            its = found.setdefault(seed, {})
            if tuple(place) in its:
                raise LabError(f"there are two {measure!r} of {'/'.join(place)}: name their tasks apart.")
            its[tuple(place)] = value
        if not found:
            raise LabError(f"there is no {measure!r} of {cells} in {formats}: correct the table or the arm.")
        each = {seed: [its[place] for place in places if place in its] for seed, its in found.items()}
        return pd.Series({seed: fmean(each[seed]) for seed in sorted(each)})

    return OfRows(read)


def shares(rows, cell: str, formats=tuple(FORMATS), when: str = ""):
    """DataFrame of a row for each seed and a column for each domain module: its share of a cell's inputs."""
    rows = _chosen(rows, cell, formats, when)
    rows = rows[rows.measure.str.startswith("module")]
    return rows.groupby(["seed", rows.measure.str.removeprefix("module").astype(int)]).value.mean().unstack()


def symbolic_module(rows, family: str):
    """Series by seed: the module, 0 or 1, that gets a larger share of symbolic i.i.d. prompts than of others.

    It is the paper's n = 0; which number it has is chance.
    """
    first = next(iter(SETS[family]))
    return (shares(rows, first, "symbolic")[0] < shares(rows, first, "text")[0]).astype(int)


def headings(family: str) -> dict[str, tuple[str, str]]:
    """{heading of the paper: (cell, format)} of the six columns of a family."""
    return {
        f"{SETS[family][cell]} {FORMATS[format]}": (cell, format)
        for cell, format in product(SETS[family], FORMATS)
    }


def columns(family: str, format: Callable | None = None) -> list[Measured]:
    """A column for each set and format of a family, with the paper's rows beside ours."""
    return [
        Measured(head, format=format, paper={"group": SETS[family][cell], "column": FORMATS[its]})
        for head, (cell, its) in headings(family).items()
    ]


def in_columns(family: str, experiment: str, name: str, measure: str, when: str = "") -> dict[str, Arm]:
    """{heading: an arm in a measure} of the columns of a family."""
    return {
        head: arm(experiment, name, scored(measure, *place, when)) for head, place in headings(family).items()
    }


def measure_of(row: str, score: str) -> str:
    """What a row of ROWS is scored by: "exact" or "choice", of the model or of a module alone."""
    own = ROWS[row][1]
    return own if score == "exact" else score if own == "exact" else f"{own}_{score}"


def home(family: str, name: str) -> str:
    """The experiment that trains an arm on a family."""
    part = "" if name in TABLE_1 else "variants." if name in VARIANTS else "controls."
    return f"iclm.{part}{family}"


def rows_of(family: str, name: str, profile: str | None = None):
    """DataFrame of an arm's rows: seed, cell, measure, value; LabError where results are missing."""
    return evidence.rows(home(family, name), profile, [name])


def history(family: str, name: str, profile: str | None = None, column: str = ""):
    """DataFrame of an arm's histories, or of those rows that have a column; LabError as rows_of."""
    evidence.require(home(family, name), profile, [name])
    rows = results.curves(home(family, name), profile, [name])
    return rows[rows[column].notna()].dropna(axis=1, how="all") if column else rows


def stated(column: str) -> float:
    """A number that the paper has in its text."""
    from causalnb.lab.tables import paper

    return float(paper("iclm.text").set_index("column")["value"][column])


def decided(claim: str, differences: Iterable[float]) -> Verdict:
    """The verdict on a claim of ICLM from differences, by the direction and the size of claims.csv."""
    return by_claim([*differences], claims("iclm").set_index("id").loc[claim])
