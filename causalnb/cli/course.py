"""Commands on the course: reproduce, lab."""

import shutil
import subprocess
import sys
import time
from pathlib import Path

import typer

from causalnb.cli.common import EXIT_FAILED, Fresh, Jobs, Profile, app, show, steps
from causalnb.cli.reports import buildable
from causalnb.errors import CausalnbError, LabError
from causalnb.lab import building, evidence, profiles, registry
from causalnb.paths import TEMPORARY, cache_dir, notebooks_dir, shown


@app.command()
def reproduce(profile: Profile = None, jobs: Jobs = None, fresh: Fresh = False) -> None:
    """Rebuild all tables and figures, run every notebook; what is missing and short is trained first.

    What was never built because its results are still to come is named, and is no failure.
    """
    from causalnb.lab import notebooks, runner

    scale, rows = profiles.current(profile), []
    profiles.device(scale)
    books = sorted(notebooks_dir().glob("[0-9]*.ipynb"))
    if not books:
        raise LabError(f"there is no notebook in {shown(notebooks_dir())}: run causalnb in its checkout.")
    every = [experiment.id for experiment in registry.experiments()]
    if not fresh:
        short = {id: evidence.lacking(id, scale.name) for id in every}
        every = [id for id, (todo, seconds) in short.items() if todo and evidence.live(seconds, scale.name)]
    if every:
        rows += [
            (f"{job['experiment']} {job['arm']} {job['seed']}", job["seconds"], job["error"])
            for job in runner.run(every, scale.name, jobs=jobs, fresh=fresh)
            if job["outcome"] != "kept"
        ]
    builders, to_come = buildable(scale)
    with steps(len(books) + len(builders)) as step:
        for id in builders:
            step(id)
            start = time.perf_counter()
            made = building.build_all(scale.name, [id])[0]
            rows.append((id, time.perf_counter() - start, made["error"]))
            step(id, made["error"] or "built", 1.0, done=True)
        for book in books:
            rows.append((shown(book), *execute(book, scale, notebooks.execute, step)))
    failed = [row for row in rows if row[2]]
    show(
        ("what", "seconds", "outcome"),
        [(name, f"{seconds:.1f}", error or "done") for name, seconds, error in rows]
        + [(id, "", f"to come: it needs {', '.join(needs)}") for id, needs in to_come.items()],
    )
    total = sum(seconds for _, seconds, _ in rows)
    print(f"{len(rows) - len(failed)} of {len(rows)} done, {total:.0f} s, {scale.name} profile")
    raise typer.Exit(EXIT_FAILED if failed else 0)


def execute(book: Path, scale: profiles.Profile, run_notebook, step) -> tuple[float, str]:
    """(seconds, error) of a notebook; in place, or a copy where the profile's numbers are not kept."""
    start, error = time.perf_counter(), ""
    try:
        if scale.name in TEMPORARY:
            aside = cache_dir() / "notebooks" / scale.name / book.name
            aside.parent.mkdir(parents=True, exist_ok=True)
            book = Path(shutil.copy(book, aside))

        def progress(done: int, total: int, _: str) -> None:
            step(book.name, f"cell {done}/{total}", done / total)

        run_notebook(book, scale.name, progress=progress)
    except (CausalnbError, OSError) as failure:
        error = str(failure)
    seconds = time.perf_counter() - start
    step(book.name, error or f"{seconds:.0f} s", 1.0, done=True)
    return seconds, error


@app.command()
def lab() -> None:
    """Open the course in JupyterLab."""
    from importlib.util import find_spec

    if not find_spec("jupyterlab"):
        raise LabError("JupyterLab is not installed in this environment: run make setup.")
    start = notebooks_dir() / "00_start_here.ipynb"
    if not start.exists():
        raise LabError(f"there is no {shown(start)}: run causalnb in its checkout.")
    raise typer.Exit(subprocess.call([sys.executable, "-m", "jupyterlab", str(start)]))
