"""Tables by declaration: rows of arms and of their paired contrasts, from which a `Table` is made.

    SFT, GUIDED = (arm("c2dlm.long.sudoku_n200", name) for name in ("diffusion", "c2dlm"))
    gains = Report(
        "c2dlm.table3_contrasts",
        ["difference", Printed("paper"), Measured("cells, points", "test_cells"), Reading("reading")],
        [
            Row("C2DLM - SFT", GUIDED - SFT, printed=cell("c2dlm.table3", row="Δ", column="n=200"),
                claim="c2dlm.claim13"),
            Row("C2DLM", GUIDED),
        ],
        "Sudoku: differences of the same seeds, mean [95 % interval] (seeds)",
    )

    @builds("c2dlm.table3", gains)
    def table3(profile):
        draw(profile, "c2dlm.table3", figure(profile), "What the figure shows, if there is one.")

`gains(profile)` is the Table, and a notebook shows `gains` itself. Nothing is read before that: what depends
on results, on a profile or on a file of the paper is a function of the profile, wherever a text may stand.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, wraps
from itertools import chain

from causalnb.errors import LabError
from causalnb.lab import evidence, paper, registry, results, verdicts
from causalnb.lab.statistics import Summary, mean_ci, share_ci, sign_flip
from causalnb.lab.tables import Table, estimate, percent, points, printed, save_table

# ------------------------------------------------------------------------------- how values become a cell


def share(values: Sequence[float]) -> str:
    """Shares as "98.4 ± 0.3 (5)": mean in percent, half of the 95 % interval, seeds.

    Where the interval would leave 0 to 100 %, the seeds themselves: "67.6 (80.5, 78.7, 43.5)".
    """
    return percent(share_ci(values))


def fraction(digits: int = 3) -> Callable[[Sequence[float]], str]:
    """A format as `share`, to so many digits and not in percent: "0.984 ± 0.003 (5)"."""
    return lambda values: estimate(share_ci(values), digits)


def gain(values: Sequence[float]) -> str:
    """Differences of shares as "+4.1 [-1.8, +10.1] (3)": points with the 95 % interval, seeds."""
    return points(mean_ci(values))


def tested(values: Sequence[float]) -> str:
    """`gain`, and the p of the exact sign-flip test, which a diverged run has not."""
    return f"{gain(values)}, p {sign_flip(values):.2g}" if all(map(math.isfinite, values)) else gain(values)


def number(digits: int = 3, scale: float = 1.0) -> Callable[[Sequence[float]], str]:
    """A format of values times `scale`: mean ± half of the 95 % interval (seeds), to so many digits."""
    return lambda values: estimate(mean_ci([scale * value for value in values]), digits)


def first(text: str) -> Callable[[Sequence[float]], str]:
    """A format of what does not differ from seed to seed, as in str.format: that of a seed which has it."""
    return lambda values: next((text.format(value) for value in values if math.isfinite(value)), "diverged")


# ---------------------------------------------------------------------------------------- values by seed


class Values:
    """Numbers by seed: an arm in a metric, a difference, a mean, or what a function computes."""

    @property
    def needs(self) -> tuple[str, ...]:
        """The experiments that it is read from."""
        return ()

    @property
    def difference(self) -> bool:
        """Whether something is subtracted in it."""
        return False

    def by_seed(self, at: "Reader", metric=None) -> dict[int, float]:
        """{seed: value}, read in the profile of `at`; LabError, as evidence.require, where results lack."""
        raise NotImplementedError

    def within(self, experiment: str | None) -> "Values | None":
        """The same, with arms that name no experiment in this one; None if it has not all of them."""
        return self

    def of(self, metric=None, profile: str | None = None) -> list[float]:
        """The values over seeds, for figures and prose."""
        return [*self.by_seed(Reader(profile), metric).values()]

    def summary(self, metric=None, profile: str | None = None) -> Summary:
        """Their mean with its interval."""
        return mean_ci(self.of(metric, profile))

    def __sub__(self, other: "Values") -> "Values":
        return Combined((self, other), (1, -1))


@dataclass(frozen=True)
class Arm(Values):
    """One arm of an experiment; without a metric it is read in that of the column."""

    experiment: str | None
    name: str
    metric: object = None
    words: tuple = ()

    @property
    def needs(self) -> tuple[str, ...]:
        """Its experiment."""
        return (self.experiment,) if self.experiment else ()

    def within(self, experiment):
        """As Values.within."""
        if self.experiment or not experiment:
            return self
        known = self.name in registry.arms(experiment)
        return Arm(experiment, self.name, self.metric, self.words) if known else None

    def by_seed(self, at, metric=None):
        """As Values.by_seed."""
        metric = metric if self.metric is None else self.metric
        if metric is None:
            raise LabError(f"the arm {self.name} of {self.experiment} is read in no metric: name one.")
        if isinstance(metric, OfRows):
            series = metric.read(at.rows(self.experiment, self.name))
        elif callable(metric):
            series = metric(at.frame(self.experiment, self.name))
        else:
            name, found = (
                metric.format_map(defaultdict(str, self.words)),
                at.frame(self.experiment, self.name),
            )
            if name not in found:
                raise LabError(f"{self.experiment} does not measure {name!r}: correct the column or the arm.")
            series = found[name]
        return {int(seed): float(value) for seed, value in series.items()}


@dataclass(frozen=True)
class Combined(Values):
    """The weighted sum of values, on the seeds that all have."""

    parts: tuple[Values, ...]
    weights: tuple[float, ...]

    @property
    def needs(self) -> tuple[str, ...]:
        """The experiments of all parts."""
        return tuple(dict.fromkeys(chain.from_iterable(part.needs for part in self.parts)))

    @property
    def difference(self) -> bool:
        """Whether something is subtracted in it."""
        return min(self.weights) < 0 or any(part.difference for part in self.parts)

    def within(self, experiment):
        """As Values.within."""
        parts = tuple(part.within(experiment) for part in self.parts)
        return None if None in parts else Combined(parts, self.weights)

    def by_seed(self, at, metric=None):
        """As Values.by_seed."""
        parts = [part.by_seed(at, metric) for part in self.parts]
        seeds = sorted(set.intersection(*map(set, parts)))
        pairs = [*zip(self.weights, parts, strict=True)]
        return {seed: sum(weight * part[seed] for weight, part in pairs) for seed in seeds}


@dataclass(frozen=True)
class Computed(Values):
    """What `make(profile)` gives: a Series or mapping by seed, or a sequence of values; None is left out."""

    make: Callable
    needs: tuple[str, ...] = ()

    def by_seed(self, at, metric=None):
        """As Values.by_seed."""
        found = self.make(at.profile)
        pairs = found.items() if hasattr(found, "items") else enumerate(found)
        return {seed: float(value) for seed, value in pairs if value is not None}


def arm(experiment: str | None, name: str, metric=None, **words) -> Arm:
    """An arm; without an experiment it is taken from that of each column, and is "" where there is none.

    metric: a name, a function of the arm's DataFrame by seed that gives a Series, or OfRows; by default the
    column's, in which `words` replace {what stands in braces}; nothing does where there is no such word.
    """
    return Arm(experiment, name, metric, tuple(words.items()))


def mean(*parts: Values) -> Values:
    """The mean of values, on the seeds that all have."""
    return Combined(parts, (1 / len(parts),) * len(parts))


def values(make: Callable, *needs: str) -> Values:
    """Values by seed that `make(profile)` computes, from results of the experiments `needs`."""
    return Computed(make, needs)


def looked(id: str, name: str, measure: str, at: int) -> Values:
    """What an arm's history has of a measure at its look number `at`, by seed; -1 is the last.

    NaN where the run diverged.
    """

    def make(profile):
        evidence.require(id, profile, [name])
        gone = {run.seed for run in results.usable(id, profile, [name]) if run.diverged}
        looks = results.curves(id, profile, [name]).groupby("seed")[measure]
        return {seed: math.nan if seed in gone else found.iloc[at] for seed, found in looks}

    return values(make, id)


def mean_of(*metrics: str) -> Callable:
    """A metric: the mean of several, seed by seed; NaN where one of them is."""
    return lambda frame: frame[[*metrics]].mean(axis=1, skipna=False)


@dataclass(frozen=True)
class OfRows:
    """A metric: what `read` makes of an arm's `results.long`, a Series by seed."""

    read: Callable


def in_percent(metric: str) -> Callable:
    """A metric: 100 times that of shares, before anything is subtracted from it."""
    return lambda frame: 100 * frame[metric]


# ------------------------------------------------------------------------------- what the source prints


def cell(id: str, text: str = "{printed}", join: str | None = None, **where: str) -> Callable:
    """The cell of a printed table at row=, column=, group= ..., as `text` has it: "{printed}", "{value:.1f}".

    "" where it holds no number. Read when it is called; LabError if no cell is there, or several are and
    `join` does not say what stands between them.
    """

    def read(profile=None):
        lines = printed(id.replace(".", "_", 1))
        for name, wanted in where.items():
            lines = lines[lines[name] == wanted]
        if not len(lines) or len(lines) > 1 and join is None:
            raise LabError(f"{id} has {len(lines)} printed cells at {where}: name one.")
        found = lines.to_dict("records")
        return (join or "").join("" if one["value"] != one["value"] else text.format(**one) for one in found)

    return read


def of_claim(id: str, text: str) -> Callable:
    """A row of claims.csv as `text` has it, "+{size:.2f} points"."""
    return lambda profile=None: text.format(**_claim(id))


def _claim(id: str) -> dict:
    lines = verdicts.claims(id.partition(".")[0]).set_index("id", drop=False)
    if id not in lines.index:
        raise LabError(f"there is no claim {id!r}: correct the row, or add it to claims.csv.")
    return lines.loc[id].to_dict()


def higher(claim: Mapping) -> str:
    """What a claim says of its contrast, "higher 4.9 pp", "not lower"."""
    if claim["direction"] == verdicts.AS_WELL:
        return "not lower"
    size = "" if math.isnan(claim["size"]) else f" {claim['size']:g} {claim['unit']}"
    return ("higher" if claim["direction"] == "+" else "lower") + size


def _decided_by(claim: Mapping[str, str]) -> list[str]:
    arms = f"{claim['our_treatment']}+{claim['our_baseline']}".split("+") if claim["experiment"] else []
    return [part.rpartition(":")[0] or claim["experiment"] for part in arms]


def claims_of(source: str, artefact_id: str | None = None) -> list[dict[str, str]]:
    """The rows of claims.csv as texts, without pandas; none if there is no file."""
    return [
        claim
        for claim in paper.rows("claims.csv", ("id", "source", "artefact"), source)
        if claim["source"] == source and artefact_id in (None, claim["artefact"])
    ]


# ------------------------------------------------------------------------------------------------ rows


@dataclass(frozen=True)
class Row:
    """One row: the texts of its first columns, and what is measured, {heading: values} where columns differ.

    printed: what the source says, a text or `cell`; claim: the id of the claim on it, by which it is judged;
    size: in points, of a gain that is judged though no claim states it; against: what `Against` subtracts;
    paper: `cell` without column=, group= of a row as printed, which each Measured completes by its `paper`;
    cells: {heading: text} of cells that are otherwise; decided: a function of the profile that gives the
    Verdict on its claim, where the unit is no seed. Texts may be functions of the profile.
    """

    label: object = ()
    value: Values | Mapping[str, Values] | None = None
    printed: object = None
    claim: str | None = None
    size: object = None
    against: Values | None = None
    paper: Callable | None = None
    cells: Mapping[str, object] = field(default_factory=dict)
    decided: Callable[[str | None], verdicts.Verdict] | None = None

    @property
    def labels(self) -> tuple:
        """The texts of the first columns."""
        return self.label if isinstance(self.label, tuple) else (self.label,)

    @property
    def needs(self) -> tuple[str, ...]:
        """The experiments it is made from; those that decide its claim, if it has no values."""
        parts = [*self.value.values()] if isinstance(self.value, Mapping) else [self.value]
        named = [id for part in (*parts, self.against) if part is not None for id in part.needs]
        if self.claim and self.value is None:
            claims = claims_of(self.claim.partition(".")[0])
            named += [id for claim in claims if claim["id"] == self.claim for id in _decided_by(claim)]
        return tuple(named)


def printed_row(label, id: str, text: str = "{printed}", **where: str) -> Row:
    """A row as the source prints it: in each Measured, the cell of `where` and of the column's `paper`."""
    return Row(label, paper=lambda more: cell(id, text, **where, **more))


def claim_rows(source: str, artefact_id: str | None = None, beside: Mapping[str, Row] | None = None) -> list:
    """A row for each claim of a source, or on one artefact; `beside`: rows with values of their own.

    A claim without values is decided by the contrast in claims.csv, or not attempted for the reason there.
    """
    beside = beside or {}
    return [beside.get(claim["id"], Row(claim=claim["id"])) for claim in claims_of(source, artefact_id)]


# --------------------------------------------------------------------------------------------- columns


@dataclass
class Reader:
    """What a table is read with: the profile; frames, rows and verdicts by row that are there already."""

    profile: str | None
    strict: bool = True
    frames: dict = field(default_factory=dict)
    long: dict = field(default_factory=dict)
    judged: dict = field(default_factory=dict)

    def frame(self, experiment: str, name: str):
        """DataFrame of one arm by seed."""
        if (experiment, name) not in self.frames:
            found = evidence.require(experiment, self.profile, [name])
            self.frames[experiment, name] = found.set_index("seed")
        return self.frames[experiment, name]

    def rows(self, experiment: str, name: str):
        """DataFrame of one arm's rows: arm, seed, cell, measure, value."""
        if (experiment, name) not in self.long:
            self.long[experiment, name] = evidence.rows(experiment, self.profile, [name])
        return self.long[experiment, name]

    def text(self, said):
        """A text, or what a function of the profile gives."""
        return said(self.profile) if callable(said) else said

    def verdict(self, row: Row) -> verdicts.Verdict | None:
        """The verdict on the claim of a row; None where results are missing, unless strict."""
        if id(row) not in self.judged:
            try:
                self.judged[id(row)] = self._decided(row)
            except LabError:
                if self.strict:
                    raise
                self.judged[id(row)] = None
        return self.judged[id(row)]

    def _decided(self, row: Row) -> verdicts.Verdict:
        claim = _claim(row.claim or "")
        if row.decided is not None:
            return verdicts.qualified(row.decided(self.profile), claim)
        if row.value is None or isinstance(row.value, Arm):  # an arm alone is no contrast
            return verdicts.decide(claim, self.profile)
        values = [*row.value.values()] if isinstance(row.value, Mapping) else [row.value]
        if len(values) > 1:
            raise LabError(
                f"the row {row.label!r} has values in {len(values)} columns: give it those that decide its "
                "claim."
            )
        metric = claim["our_metric"] if isinstance(claim["our_metric"], str) else None
        found = list(values[0].by_seed(self, metric).values())
        if not found:
            return verdicts.not_attempted(f"there is nothing to compare: {row.label}")
        return verdicts.by_claim(found, claim)


@dataclass(frozen=True)
class Column:
    """A column of texts: the row's next label."""

    heading: str

    def cell(self, row: Row, at: Reader, labels: Iterator):
        """The cell of a row; `labels` are its texts that stand in no column yet."""
        return at.text(next(labels, ""))


@dataclass(frozen=True)
class Printed(Column):
    """What the source prints, `otherwise` where it prints nothing."""

    otherwise: str = ""

    def cell(self, row, at, labels):
        """As Column.cell."""
        return self.otherwise if row.printed is None else at.text(row.printed)


@dataclass(frozen=True)
class Measured(Column):
    """The row's values in a metric, as `format` has them; "" for a row without, "diverged" if some are nan.

    format: by default `share`, and `gain` of differences; experiment: of arms that name none; minus: what is
    subtracted, and the cell of which is `same`; paper: the column=, group= ... of the printed table beside
    it; of: the heading under which a row's {heading: values} has them, by default its own.
    """

    metric: object = None
    format: Callable | None = None
    experiment: str | None = None
    minus: Values | None = None
    paper: Mapping[str, str] | None = None
    of: str | None = None
    same: str = ""

    def _own(self, row: Row) -> Values | None:
        return row.value.get(self.of or self.heading) if isinstance(row.value, Mapping) else row.value

    def value(self, row: Row) -> Values | None:
        """What it reads of a row, None of a row without."""
        value = self._own(row)
        if self.minus is not None and value is not None:
            value = None if value == self.minus else value - self.minus
        return value and value.within(self.experiment)

    def found(self, row: Row, at: Reader) -> list[float] | None:
        """The values of a row over seeds, None for a row without."""
        value = self.value(row)
        return None if value is None else [*value.by_seed(at, self.metric).values()]

    def cell(self, row, at, labels):
        """As Column.cell."""
        if row.paper is not None:
            return "" if self.paper is None else row.paper(self.paper)(at.profile)
        found = self.found(row, at)
        if found is None:
            return self.same if self.minus is not None and self._own(row) == self.minus else ""
        if 0 < sum(map(math.isfinite, found)) < len(found):
            return estimate(mean_ci(found))
        return (self.format or (gain if self.value(row).difference else share))(found)


@dataclass(frozen=True)
class Against(Measured):
    """The row's values minus those it is compared with; "" for a row that is compared with nothing."""

    def value(self, row):
        """As Measured.value."""
        return None if row.against is None or row.value is None else row.value - row.against


@dataclass(frozen=True)
class Reading(Column):
    """The verdict on the row's claim or size from the values in column `of`; else the side of 0 they lie on.

    `of` is the heading of a Measured column, by default the last in which the row has values.
    """

    of: str | None = None

    def read(self, row: Row, at: Reader, columns: Sequence[Column]) -> str:
        """The reading of a row; "" for a row without values."""
        values = [
            found
            for column in columns
            if isinstance(column, Measured) and self.of in (None, column.heading)
            if (found := column.found(row, at)) is not None
        ]
        if not values:
            return ""
        if row.claim:
            return str(verdicts.by_claim(values[-1], _claim(row.claim)))
        size = at.text(row.size)
        return verdicts.reading(values[-1], None if size is None else float(size))


@dataclass(frozen=True)
class Claim(Column):
    """Something of the row's claim: a column of claims.csv, or a function of its row; "" without a claim."""

    words: object = "claim"

    def cell(self, row, at, labels):
        """As Column.cell."""
        claim = _claim(row.claim) if row.claim else None
        return "" if claim is None else self.words(claim) if callable(self.words) else claim[self.words]


@dataclass(frozen=True)
class Contrast(Claim):
    """What decides the row's claim: the row's label, else words of the claim; "" if it is not attempted."""

    def cell(self, row, at, labels):
        """As Column.cell."""
        found = at.verdict(row)
        if found is not None and found.summary is None:
            return ""
        return at.text(row.label) if row.labels else super().cell(row, at, labels)


@dataclass(frozen=True)
class Ours(Column):
    """The difference that decides the row's claim: a function of its Summary, or its digits.

    By default 1 digit of what is in points and 3 of what is not.
    """

    format: Callable[[Summary], str] | int | None = None

    def cell(self, row, at, labels):
        """As Column.cell."""
        found = at.verdict(row)
        if found is None or found.summary is None:
            return ""
        if callable(self.format):
            return self.format(found.summary)
        digits = 1 if _claim(row.claim)["unit"] == "pp" else 3
        return estimate(found.summary, digits if self.format is None else self.format)


@dataclass(frozen=True)
class Decided(Column):
    """The verdict on the row's claim."""

    def cell(self, row, at, labels):
        """As Column.cell."""
        found = at.verdict(row)
        return "no result yet" if found is None else found


# ---------------------------------------------------------------------------------------------- reports


@dataclass(frozen=True)
class Report:
    """A table by declaration; called with a profile it is the Table.

    columns: texts, for the labels of rows, and Columns; rows: Rows, finished rows (lists of cells), functions
    of the profile that give finished rows, or one function without arguments that gives all these; `needs`:
    experiments that only functions read. caption and notes may be functions of the profile.
    """

    id: str
    columns: Sequence[str | Column]
    rows: Sequence | Callable[[], Iterable]
    caption: object
    notes: object = ""
    needs: tuple[str, ...] = ()

    def all_rows(self) -> list:
        """The rows as declared."""
        return [*(self.rows() if callable(self.rows) else self.rows)]

    def needed(self) -> tuple[str, ...]:
        """The experiments that it is made from, in the order of rows."""
        named = [id for row in self.all_rows() if isinstance(row, Row) for id in row.needs]
        columns = [column for column in self.columns if isinstance(column, Measured)]
        named += [column.experiment for column in columns if column.experiment]
        named += [id for column in columns if column.minus is not None for id in column.minus.needs]
        return tuple(dict.fromkeys((*named, *self.needs)))

    def __call__(
        self, profile: str | None = None, strict: bool = True, only: Callable[[Row], bool] | None = None
    ) -> Table:
        """The Table in a profile; of those Rows that `only` takes; not strict: claims may lack results."""
        return naming(lambda: self._table(profile, strict, only))

    def _table(self, profile: str | None, strict: bool, only: Callable[[Row], bool] | None) -> Table:
        at = Reader(profile, strict)
        columns = [Column(part) if isinstance(part, str) else part for part in self.columns]
        lines: list[Sequence] = []
        for row in self.all_rows():
            if not isinstance(row, Row):
                lines += row(profile) if callable(row) else [row]
            elif only is None or only(row):
                lines.append(self._line(row, at, columns))
        heads = [column.heading for column in columns]
        return Table(self.id, heads, lines, at.text(self.caption), at.text(self.notes))

    def verdicts(self, profile: str | None = None, strict: bool = True) -> dict[str, verdicts.Verdict | None]:
        """{claim: its Verdict} of all rows with a claim, in order."""
        at = Reader(profile, strict)
        return {row.claim: at.verdict(row) for row in self.all_rows() if isinstance(row, Row) and row.claim}

    @staticmethod
    def _line(row: Row, at: Reader, columns: Sequence[Column]) -> list:
        labels, line = iter(row.labels), []
        for column in columns:
            if column.heading in row.cells and type(column) is not Column:
                line.append(at.text(row.cells[column.heading]))
            elif isinstance(column, Reading):
                line.append(column.read(row, at, columns))
            else:
                line.append(column.cell(row, at, labels))
        return line

    def _repr_markdown_(self) -> str:
        return self().markdown()


def naming(make: Callable[[], Table]) -> Table:
    """The table that `make` gives, with the diverged runs that it was made from named in its notes."""
    with evidence.diverging() as runs:
        table = make()
    return replace(table, notes=f"{table.notes} Diverged: {', '.join(runs)}.".strip()) if runs else table


def save(profile: str | None, *reports: Callable[[str | None], Table]) -> None:
    """Write the tables of reports, or of other functions of the profile, as `save_table` does."""
    for report in reports:
        save_table(naming(partial(report, profile)))


def draw(profile: str | None, id: str, made: tuple, caption: str) -> None:
    """Write a figure as `save_figure` does; `made`: the figure and its alt text."""
    from causalnb.lab.figures import save_figure

    save_figure(made[0], id, alt=made[1], caption=caption, profile=profile)


_built: dict[str, tuple[Report, ...]] = {}


def built() -> dict[str, tuple[Report, ...]]:
    """{artefact: the reports it is declared with} of all that are registered by `builds`."""
    registry.load_all()
    return dict(_built)


def builds(id: str, *reports: Report, needs: Iterable[str] = (), **artefact) -> Callable:
    """Register an artefact as registry.artefact does: what the decorated function saves, and reports.

    What it saves comes first, so that a figure's alt text does. It needs what its reports are made from, and
    `needs`.
    """
    named = [id for report in reports for id in report.needed()]

    def decorate(more: Callable[[str], None]) -> Callable[[str], None]:
        @wraps(more)
        def build(profile: str) -> None:
            more(profile)
            save(profile, *reports)

        registry.artefact(id, dict.fromkeys((*named, *needs)), **artefact)(build)
        _built[id] = reports
        return build

    return decorate
