"""Commands on the course: reproduce, lab."""

import json
import math
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from causalnb.cli.common import EXIT_FAILED, Fresh, Jobs, Profile, app, show, steps, stoppable
from causalnb.cli.reports import buildable
from causalnb.course.source import stated
from causalnb.errors import CausalnbError, LabError
from causalnb.lab import building, evidence, files, profiles, registry, results
from causalnb.lab.records import parsed
from causalnb.paths import TEMPORARY, cache_dir, notebooks_dir, shown, work_dir

CellTimeout = Annotated[
    float | None, typer.Option(min=1, help="Seconds that a cell of a notebook may run; default: an hour.")
]


class Schedule:
    """When all pieces should be done: each takes what it took last here, else what was guessed."""

    def __init__(self, profile: str, guesses: dict[str, float]):
        self.file = cache_dir() / "reproduce" / f"{profile}.json"
        try:
            self.took = {name: float(seconds) for name, seconds in parsed(self.file.read_bytes()).items()}
        except (OSError, ValueError, TypeError):
            self.took = {}
        self.left = {name: self.took.get(name, guess) for name, guess in guesses.items()}
        self.now, self.since = "", time.monotonic()

    def starts(self, name: str) -> None:
        """From now on, this piece is made."""
        self.now, self.since = name, time.monotonic()

    def ends(self, seconds: float, failed: bool = False) -> None:
        """The piece took that long; kept for the next time unless it failed."""
        self.left.pop(self.now, None)
        if failed:
            return
        self.took[self.now] = round(seconds, 1)
        with suppress(LabError):  # an estimate is not worth a failure
            files.write_atomic(self.file, json.dumps(self.took, indent=1).encode())

    def __str__(self) -> str:
        spent = min(time.monotonic() - self.since, self.left.get(self.now, 0.0))
        seconds = sum(self.left.values()) - spent
        end = datetime.now() + timedelta(seconds=seconds)
        return f"all done in about {results.duration(seconds)}, at {end:%H:%M}"


@app.command()
def reproduce(
    profile: Profile = None, jobs: Jobs = None, fresh: Fresh = False, cell_timeout: CellTimeout = None
) -> None:
    """Rebuild all tables and figures, run every notebook; what they lack and is short is trained first.

    What was never built because its results are still to come is named, and is no failure. Outputs that vary
    from run to run stay as they are stored unless --fresh, and so do those for which data are missing.
    """
    if cell_timeout is not None and not math.isfinite(cell_timeout):
        raise LabError(f"--cell-timeout is {cell_timeout}: give seconds.")
    with stoppable():
        _reproduce(profile, jobs, fresh, cell_timeout)


def _reproduce(profile: str | None, jobs: int | None, fresh: bool, cell_timeout: float | None) -> None:
    from causalnb.lab import runner

    scale, rows = profiles.current(profile), []
    profiles.device(scale)
    books = sorted(notebooks_dir().glob("[0-9]*.ipynb"))
    if not books:
        raise LabError(f"there is no notebook in {shown(notebooks_dir())}: run causalnb in its checkout.")
    every = [experiment.id for experiment in registry.experiments()]
    if not fresh:  # what no table or figure is made from can wait
        read = {need for item in registry.artefacts(extras=True) for need in item.needs}
        short = {id: evidence.lacking(id, scale.name) for id in every if id in read}
        every = [id for id, (todo, seconds) in short.items() if todo and evidence.live(seconds, scale.name)]
    if every:
        rows += [
            (f"{job['experiment']} {job['arm']} {job['seed']}", job["seconds"], job["error"], "done")
            for job in runner.run(every, scale.name, jobs=jobs, fresh=fresh)
            if job["outcome"] != "kept"
        ]
    builders, to_come = buildable(scale)
    schedule = Schedule(
        scale.name, {**dict.fromkeys(builders, 1.0), **{book.name: stated(book) for book in books}}
    )
    with steps(len(books) + len(builders)) as step:
        for id in builders:
            schedule.starts(id)
            step(id, str(schedule))
            start = time.perf_counter()
            made = building.build_all(scale.name, [id])[0]
            rows.append((id, time.perf_counter() - start, made["error"], "done"))
            schedule.ends(rows[-1][1], failed=bool(rows[-1][2]))
            step(id, made["error"] or "built", 1.0, done=True)
        for book in books:
            schedule.starts(book.name)
            rows.append((shown(book), *execute(book, scale, step, schedule, fresh, cell_timeout)))
            schedule.ends(rows[-1][1], failed=bool(rows[-1][2]))
    failed = [row for row in rows if row[2]]
    show(
        ("what", "seconds", "outcome"),
        [(name, f"{seconds:.1f}", error or outcome) for name, seconds, error, outcome in rows]
        + [(id, "", f"to come: it needs {', '.join(needs)}") for id, needs in to_come.items()],
    )
    total = sum(seconds for _, seconds, *_ in rows)
    print(f"{len(rows) - len(failed)} of {len(rows)} done, {total:.0f} s, {scale.name} profile")
    raise typer.Exit(EXIT_FAILED if failed else 0)


def execute(
    book: Path, scale: profiles.Profile, step, schedule: Schedule, fresh: bool, cell_timeout: float | None
) -> tuple[float, str, str]:
    """(seconds, error, outcome) of a notebook; in place, or of a copy where a profile keeps no numbers."""
    from causalnb.lab import notebooks

    start, error, outcome = time.perf_counter(), "", "done"
    try:
        if scale.name in TEMPORARY:
            aside = cache_dir() / "notebooks" / scale.name / book.name
            aside.parent.mkdir(parents=True, exist_ok=True)
            book = Path(shutil.copy(book, aside))

        def progress(done: int, total: int, _: str) -> None:
            step(book.name, f"cell {min(done + 1, total)} of {total}; {schedule}", done / total)

        ran = notebooks.execute(book, scale.name, cell_timeout, progress, fresh=fresh)
        if ran.kept:
            outcome = f"done; stored outputs kept in {', '.join(ran.kept)}"
    except (CausalnbError, OSError) as failure:
        error = str(failure)
    seconds = time.perf_counter() - start
    step(book.name, error or f"{seconds:.0f} s, {outcome}", 1.0, done=True)
    return seconds, error, outcome


@app.command()
def lab(
    source: Annotated[
        bool, typer.Option("--source", help="The course's own files, not copies to work in.")
    ] = False,
    options: Annotated[
        list[str] | None, typer.Argument(metavar="[-- OPTION]...", help="For JupyterLab.")
    ] = None,
) -> None:
    """Open the course in JupyterLab: copies with gaps, in work/; those that are there stay as they are."""
    from importlib.util import find_spec

    from causalnb.course import copies
    from causalnb.course.source import books

    if not find_spec("jupyterlab"):
        raise LabError("JupyterLab is not installed in this environment: run make setup.")
    folder = notebooks_dir() if source else work_dir()
    for book in () if source else books():
        if not (folder / book.path.name).exists():
            copies.write(copies.student(book), folder / book.path.name)
    start = folder / "00_start_here.ipynb"
    if not start.exists():
        raise LabError(f"there is no {shown(start)}: run causalnb in its checkout.")
    raise typer.Exit(subprocess.call([sys.executable, "-m", "jupyterlab", str(start), *(options or ())]))
