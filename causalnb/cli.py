"""The command line: list, run, reproduce, tables, figures, train, evaluate, data, doctor, lab."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from causalnb.errors import CausalnbError, LabError
from causalnb.lab import manifest, profiles, registry
from causalnb.paths import TEMPORARY, cache_dir, figures_dir, notebooks_dir, shown

EXIT_FAILED, EXIT_REFUSED = 1, 2


class Course(typer.core.TyperGroup):
    """Prints what is wrong with a request in one line, without a traceback."""

    def invoke(self, ctx):
        """Runs the command; a CausalnbError exits with 2, Ctrl-C with 1."""
        try:
            return super().invoke(ctx)
        except CausalnbError as error:
            typer.echo(f"causalnb: {error}", err=True)
            raise typer.Exit(EXIT_REFUSED) from None
        except KeyboardInterrupt:
            typer.echo("causalnb: stopped; the same command, without --fresh, goes on from here.", err=True)
            raise typer.Exit(EXIT_FAILED) from None


app = typer.Typer(cls=Course, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False,
                  help="A course on four systems that put causality into language models.")
data = typer.Typer(no_args_is_help=True, help="The public data files.")
app.add_typer(data, name="data")
train = typer.Typer(no_args_is_help=True, help="Train a model as its source's quick start does.")
app.add_typer(train, name="train")
evaluate = typer.Typer(no_args_is_help=True, help="Evaluate a model that `train` has saved.")
app.add_typer(evaluate, name="evaluate")

Source = Annotated[str | None, typer.Option(help="Only those of one source.")]
Extras = Annotated[bool, typer.Option("--extras", help="Also our own, which no source prints.")]
Targets = Annotated[list[str], typer.Argument(metavar="TARGET...", help="Experiments, artefacts or sources.")]
Profile = Annotated[str | None, typer.Option(help="Else $CAUSALNB_PROFILE, else laptop.")]
Seeds = Annotated[int | None, typer.Option(min=1, help="Seeds 0 to N-1; default: as the experiment asks.")]
Jobs = Annotated[int | None, typer.Option(min=1, help="Trainings at a time, one core each.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Train again what is there already.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be trained.")]
Json = Annotated[bool, typer.Option("--json", help="JSON on standard output.")]
Ids = Annotated[list[str] | None, typer.Argument(metavar="[ARTEFACT]...", help="Default: all.")]
Files = Annotated[list[str] | None, typer.Argument(metavar="[FILE]...", help="Default: all.")]
Dataset = Annotated[str, typer.Option(help="scan.")]
Split = Annotated[str, typer.Option(help="A split of the data, such as simple, length or add_prim_jump.")]


class TableFormat(StrEnum):
    """What `tables` prints."""

    md = "md"
    tex = "tex"
    csv = "csv"


def main() -> None:
    """The entry point; exit code 0: done, 1: some of the work failed, 2: the request was wrong."""
    app(prog_name="causalnb")


def say(value) -> None:
    """JSON to standard output."""
    print(json.dumps(value, indent=1, ensure_ascii=False))


def show(columns: Sequence[str], rows: Sequence[Sequence], title: str = "") -> None:
    """A table on a terminal; elsewhere a line per row, cells apart by tabs."""
    if not sys.stdout.isatty():
        for row in rows:
            print("\t".join(map(str, row)))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*columns, title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(*(Text(str(cell)) for cell in row))
    Console().print(table)


@contextmanager
def steps(total: int) -> Iterator:
    """Yields step(name, part="", share=0.0, done=False): a bar on a terminal, else a line per step done."""
    from rich.console import Console

    console, count = Console(stderr=True), 0
    if not console.is_terminal:
        def step(name: str, part: str = "", share: float = 0.0, done: bool = False) -> None:
            nonlocal count
            count += done
            if done:
                line = f"[{count}/{total}] {name}: {part}"
                console.print(line, markup=False, highlight=False, soft_wrap=True)

        yield step
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    with Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
                  console=console) as bars:
        whole, one = bars.add_task("all", total=total), bars.add_task("", total=1.0)

        def step(name: str, part: str = "", share: float = 0.0, done: bool = False) -> None:
            bars.update(one, description=f"{name} {part}", completed=share)
            if done:
                bars.advance(whole)
                console.print(f"{name}: {part}", markup=False, highlight=False)

        yield step


@contextmanager
def one_training() -> Iterator:
    """Yields say(line) and progress(done, total, note): lines, on a terminal a bar; of the first process."""
    from rich.console import Console

    console = Console(stderr=True)
    if os.environ.get("RANK", "0") != "0":
        yield lambda line: None, lambda done, total, note: None
        return

    def say(line: str) -> None:
        console.print(line, markup=False, highlight=False, soft_wrap=True)

    if not console.is_terminal:
        yield say, lambda done, total, note: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    with Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
                  console=console) as bars:
        bar = bars.add_task("training", total=None)

        def progress(done: int, total: int, note: str) -> None:
            bars.update(bar, completed=done, total=total, description=note)

        yield say, progress


def tally(counts: dict[str, int]) -> str:
    """"3 fresh, 2 missing"."""
    return ", ".join(f"{number} {state}" for state, number in counts.items())


def place(artefact: registry.Artefact) -> str:
    """The notebook of an artefact as a path below the checkout, "" if it has none."""
    return f"notebooks/{Path(artefact.notebook).stem}.ipynb" if artefact.notebook else ""


@app.command("list")
def list_(source: Source = None, extras: Extras = False, json_: Json = False) -> None:
    """Every table, figure and algorithm of the sources: is it built, and in which notebook."""
    items = registry.artefacts(extras)
    sources = sorted({item.source for item in items})
    if source is not None and source not in sources:
        raise LabError(f"there is no source {source!r}: there are {', '.join(sources)}.")
    made, rows = manifest.entries("laptop"), []
    for item in items:
        if source in (None, item.source):
            status, reason = registry.status(item.id)
            files = made[item.id]["files"] if status != "missing" else ()
            rows.append({"id": item.id, "source": item.source, "printed_as": item.printed_as,
                         "shows": item.shows, "kind": item.kind, "status": status, "reason": reason,
                         "notebook": place(item),
                         "files": [shown(figures_dir("laptop") / name) for name in files]})
    if json_:
        return say(rows)
    show(("id", "status", "notebook", "what it shows"),
         [(row["id"], row["status"] if row["status"] != "stale" else f"stale: {row['reason']}",
           Path(row["notebook"]).stem, row["shows"]) for row in rows])
    counts = Counter(row["status"] for row in rows)
    print(f"{len(rows)} artefacts: " + tally({key: counts[key] for key in ("built", "stale", "missing")}))


def warn_of_other_settings(ids, profile: str | None) -> None:
    """Say which experiments have no settings for a GPU's profile, and whose they take in its place."""
    scale, taken = profiles.current(profile), {}
    for id in ids if scale.device == "cuda" else ():
        taken.setdefault(registry.settings_profile(id, scale), []).append(id)
    for other in taken.keys() - {scale.name}:
        print(f"no settings for the profile {scale.name}, so {other}'s: {', '.join(taken[other])}",
              file=sys.stderr)


@app.command()
def run(targets: Targets, profile: Profile = None, seeds: Seeds = None, jobs: Jobs = None,
        fresh: Fresh = False, dry_run: DryRun = False, json_: Json = False) -> None:
    """Train what is missing or out of date; interrupted, the same command resumes."""
    from causalnb.lab import runner
    from causalnb.lab.results import duration

    planned = runner.plan(targets, profile, seeds)
    todo = [job for job in planned if fresh or job.state != "fresh"]
    if not json_:
        warn_of_other_settings(dict.fromkeys(job.experiment for job in planned), profile)
    if dry_run:
        if json_:
            return say([job._asdict() for job in todo])
        times = [job.estimate for job in todo]
        show(("experiment", "arm", "seed", "now", "expected"),
             [(*job[:4], duration(job.estimate)) for job in todo])
        expected = max([sum(times) / (jobs or profiles.current(profile).jobs), *times])
        print(f"{len(todo)} to train of {len(planned)}" + (f", about {duration(expected)}" if todo else ""))
        return
    if not planned and not json_:
        print(f"{', '.join(targets)}: no training needed, causalnb tables and causalnb figures build at once")
        return
    summary = runner.run(targets, profile, seeds, jobs, fresh)
    failed = [job for job in summary if job["outcome"] == "failed"]
    if json_:
        say(summary)
    else:
        show(("experiment", "arm", "seed", "outcome", "time"),
             [(*(job[key] for key in ("experiment", "arm", "seed")), job["error"] or job["outcome"],
               duration(job["seconds"])) for job in summary if job["outcome"] != "kept"])
        counts = Counter(job["outcome"] for job in summary)
        print(tally({key: counts[key] for key in ("done", "kept", "failed")}))
    raise typer.Exit(EXIT_FAILED if failed else 0)


@app.command()
def reproduce(profile: Profile = None, jobs: Jobs = None, fresh: Fresh = False) -> None:
    """Rebuild all tables and figures, run every notebook; what is missing and short is trained first.

    What was never built because its results are still to come is named, and is no failure.
    """
    from causalnb.lab import notebooks, results, runner

    scale, rows = profiles.current(profile), []
    profiles.device(scale)
    books = sorted(notebooks_dir().glob("[0-9]*.ipynb"))
    if not books:
        raise LabError(f"there is no notebook in {shown(notebooks_dir())}: run causalnb in its checkout.")
    every = [experiment.id for experiment in registry.experiments()]
    if not fresh:
        short = {id: results.lacking(id, scale.name) for id in every}
        every = [id for id, (todo, seconds) in short.items() if todo and results.live(seconds, scale.name)]
    if every:
        rows += [(f"{job['experiment']} {job['arm']} {job['seed']}", job["seconds"], job["error"])
                 for job in runner.run(every, scale.name, jobs=jobs, fresh=fresh) if job["outcome"] != "kept"]
    builders, to_come = buildable(scale)
    with steps(len(books) + len(builders)) as step:
        for id in builders:
            step(id)
            start = time.perf_counter()
            made = registry.build_all(scale.name, [id])[0]
            rows.append((id, time.perf_counter() - start, made["error"]))
            step(id, made["error"] or "built", 1.0, done=True)
        for book in books:
            rows.append((shown(book), *execute(book, scale, notebooks.execute, step)))
    failed = [row for row in rows if row[2]]
    show(("what", "seconds", "outcome"),
         [(name, f"{seconds:.1f}", error or "done") for name, seconds, error in rows]
         + [(id, "", f"to come: it needs {', '.join(needs)}") for id, needs in to_come.items()])
    total = sum(seconds for _, seconds, _ in rows)
    print(f"{len(rows) - len(failed)} of {len(rows)} done, {total:.0f} s, {scale.name} profile")
    raise typer.Exit(EXIT_FAILED if failed else 0)


def buildable(scale: profiles.Profile) -> tuple[list[str], dict[str, list[str]]]:
    """Ids of artefacts that can be built, and {id: experiments} of those never built for want of results.

    One that was built before is among the first even if its results are lost: then building it fails.
    """
    from causalnb.lab import results

    known, ready, to_come = manifest.entries(scale.name), [], {}
    for item in registry.artefacts(extras=True):
        if not item.build:
            continue
        lacking = {} if item.id in known else {id: results.lacking(id, scale.name) for id in item.needs}
        needs = [id for id, (jobs, seconds) in lacking.items()
                 if jobs and not results.live(seconds, scale.name)]
        if needs:
            to_come[item.id] = needs
        else:
            ready.append(item.id)
    return ready, to_come


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


def rebuild(ids: list[str] | None, suffixes: set[str], profile: str | None) -> tuple[list[Path], bool]:
    """Files with one of `suffixes` of artefacts (default: all that have such), made anew; did one fail."""
    scale = profiles.current(profile)
    known = manifest.entries(scale.name)

    def may_have(id: str) -> bool:
        return id not in known or any(Path(name).suffix in suffixes for name in known[id]["files"])

    ready, to_come = ([], {}) if ids else buildable(scale)
    for id, needs in to_come.items():
        typer.echo(f"{id}: to come: it needs {', '.join(needs)}", err=True)
    chosen = ids or [id for id in ready if may_have(id)]
    for id in chosen:
        registry.find(id)
    made = registry.build_all(scale.name, chosen)
    for one in made:
        if one["error"]:
            typer.echo(f"{one['id']}: {one['error']}", err=True)
        elif ids and not any(Path(name).suffix in suffixes for name in one["files"]):
            typer.echo(f"{one['id']}: made, but it has no {' or '.join(sorted(suffixes))} file", err=True)
    if not made:
        typer.echo("nothing to make yet: see causalnb list", err=True)
    files = [Path(name) for one in made for name in one["files"] if Path(name).suffix in suffixes]
    return files, any(one["error"] for one in made)


@app.command()
def tables(ids: Ids = None, profile: Profile = None,
           format: Annotated[TableFormat, typer.Option(help="md, tex or csv.")] = TableFormat.md) -> None:
    """Rebuild tables from the stored results and print them; the files of all formats are written."""
    files, failed = rebuild(ids, {f".{format}"}, profile)
    print("\n".join(file.read_text() for file in files), end="")
    raise typer.Exit(EXIT_FAILED if failed else 0)


@app.command()
def figures(ids: Ids = None, profile: Profile = None,
            pdf: Annotated[bool, typer.Option("--pdf", help="PDF beside SVG and PNG.")] = False) -> None:
    """Rebuild figures from the stored results and name their files."""
    from causalnb.lab.figures import also

    with also(*["pdf"] * pdf):
        files, failed = rebuild(ids, {".svg", ".png", ".pdf"}, profile)
    for file in files:
        print(shown(file))
    raise typer.Exit(EXIT_FAILED if failed else 0)


@train.command("sci")
def train_sci(
        base_model: Annotated[str, typer.Option(
            help="tiny, tiny:22 (layers), or a folder or Hugging Face name of a causal LM.")] = "tiny",
        dataset: Dataset = "scan", split: Split = "length",
        n_structural_slots: Annotated[int, typer.Option(help="Slots that hold the structure.")] = 8,
        cbm_layers: Annotated[str | None, typer.Option(
            help="Bind after these layers, from 0, as in 6,11,16; default: at 27, 50, 73 % depth.")] = None,
        scl_weight: Annotated[float, typer.Option(help="Weight of the contrastive loss.")] = 0.1,
        epochs: Annotated[int, typer.Option(help="Passes through the data.")] = 20,
        learning_rate: Annotated[float | None, typer.Option(
            help="Default: 2e-3 for tiny, 1e-4 for a trained base.")] = None,
        batch_size: Annotated[int, typer.Option(help="Rows a step, those of pairs included.")] = 64,
        structure_level: Annotated[str, typer.Option(
            help="What counts as structure: verb, verb_coindexed or verb_direction.")] = "verb",
        max_steps: Annotated[int | None, typer.Option(help="No more steps than these.")] = None,
        evaluate_every: Annotated[int | None, typer.Option(
            help="Steps between evaluations, each with a checkpoint; default: an epoch.")] = None,
        bf16: Annotated[bool, typer.Option("--bf16", help="Mixed precision.")] = False,
        lora: Annotated[int, typer.Option(help="Train adapters of this rank in the base; 0: all of it.")] = 0,
        seed: int = 0,
        output: Annotated[Path, typer.Option(help="Folder of the model.")] = Path("outputs/sci")) -> None:
    """SCI on SCAN, with the flags of the guide's quick start; interrupted, the same command resumes."""
    from causalnb.experiments import sci_quickstart as quickstart

    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    settings = quickstart.Settings(
        base_model, dataset, split, n_structural_slots, quickstart.layers(cbm_layers), scl_weight, epochs,
        learning_rate, batch_size, structure_level, seed, max_steps, evaluate_every, bf16, lora)
    with one_training() as (say, progress):
        quickstart.train_sci(settings, output, say, progress)
        say(f"saved in {output}; now: causalnb evaluate sci --checkpoint {output} --dataset {dataset} "
            f"--split {split}")


@evaluate.command("sci")
def evaluate_sci(
        checkpoint: Annotated[Path, typer.Option(help="The --output of causalnb train sci.")],
        dataset: Dataset = "scan", split: Split = "length",
        rows: Annotated[int | None, typer.Option(help="Test rows to score; default: all.")] = None,
        decoded: Annotated[int, typer.Option(help="How many of them to decode as well.")] = 300,
        json_: Json = False) -> None:
    """Exact match of a trained SCI on a split's test rows: answer given (forced) and decoded (greedy)."""
    from causalnb.experiments import sci_quickstart as quickstart

    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    found = quickstart.evaluate_sci(checkpoint, dataset, split, rows, decoded)
    if json_:
        return say(found)
    show(("exact match", "value", "test rows"),
         [("forced", f"{found['exact_match']:.4f}", found["rows"]),
          ("greedy", f"{found['greedy_exact_match']:.4f}", found["decoded"])],
         f"{checkpoint}, trained on {found['trained_on']}, on the test rows of {split}")
    if found["rows_trained_on"]:
        print(f"{found['rows_trained_on']} of the {found['rows']} rows were trained on: the training was on "
              f"{found['trained_on']}")


@data.command()
def fetch(names: Files = None) -> None:
    """Download what is not here yet, each file checked against its sha256.

    A file that lies at no address is named, and no failure unless it was asked for by its name.
    """
    from causalnb.tasks import files

    wanted = [name for name in files.REGISTRY if any(name.startswith(prefix) for prefix in names or [""])]
    if not wanted:
        raise LabError(f"there is no data file {' or '.join(names)}: see causalnb data verify.")
    with steps(len(wanted)) as step:
        states = files.fetch_all(wanted, lambda done, total, name: step(name, "looked at", 1.0, done=True))
    report_data(states, forgiven={files.homeless(name) for name in wanted
                                  if not files.REGISTRY[name].url and name not in (names or [])})


@data.command()
def verify() -> None:
    """Check the files at hand, without the network; a missing one is no failure, a wrong one is."""
    from causalnb.tasks import files

    report_data([(name, state) for name, state in files.verify()], forgiven={"missing"})


def report_data(states: list[tuple[str, str]], forgiven: frozenset | set = frozenset()) -> None:
    """A line per file; exits with 1 if one is neither ok nor forgiven."""
    show(("file", "state"), states)
    raise typer.Exit(EXIT_FAILED if any(state not in {"ok", *forgiven} for _, state in states) else 0)


@app.command()
def doctor(profile: Profile = None, json_: Json = False) -> None:
    """What is installed, what device, what data, and what would run how long."""
    from causalnb.lab import doctor
    from causalnb.lab.results import duration
    from causalnb.tasks import files

    found = doctor.report(profile)
    found["data"] = dict(files.verify())
    found["artefacts"] = dict(Counter(registry.status(item.id)[0] for item in registry.artefacts()))
    found["problems"] += [state for state in found["data"].values() if state not in {"ok", "missing"}]
    if json_:
        say(found)
    else:
        here = found["machine"]
        show(("", ""), [
            ("python", f"{here['python']} on {here['system']}"),
            ("cores", here["cores"]),
            ("memory", f"{here['memory_gib']} GiB"),
            ("free disk", f"{here['disk_free_gib']} GiB"),
            ("device", here["gpu"] or f"CPU, {here['threads']} threads"),
            ("data", tally(Counter(state if state in {"ok", "missing"} else "refused"
                                   for state in found["data"].values()))),
            ("artefacts", tally(found["artefacts"]))])
        print()
        show(("package", "installed", "needed", ""),
             [(need["name"], need["installed"] or "-", need["range"], "ok" if need["ok"] else "problem")
              for need in found["packages"]])
        print()
        show(("experiment", f"results ({found['profile']})", "settings of", "still to train", "memory"),
             [(row["experiment"], tally(row["results"]), row["settings"],
               duration(row["seconds"]) if row["seconds"] else "nothing",
               f"{row['memory_gib']:.0f} GiB" if row["memory_gib"] else "") for row in found["work"]])
        print("\n".join(["", *found["problems"]]) if found["problems"] else "\nready")
    raise typer.Exit(EXIT_FAILED if found["problems"] else 0)


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
