"""What all commands share: the application, options, and what is printed."""

import errno
import faulthandler
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Annotated

import typer

from causalnb.errors import CausalnbError

EXIT_FAILED = 1
LINE_SECONDS = 10.0  # between two lines on what is not done yet
STOP_SECONDS = 4.5  # after a signal; what has not ended by then is left, and the process with it
STOPPING = (signal.SIGINT, signal.SIGTERM)


def stopped() -> str:
    """What is said of a command that was stopped."""
    fresh = ", without --fresh," if "--fresh" in sys.argv else ""
    return f"causalnb: stopped; the same command{fresh} goes on from here."


def tell_unusable(error: OSError) -> None:
    """Say which file, or that standard output, cannot be used; what is left to print then goes nowhere."""
    if error.filename is None:  # standard output takes no more
        with suppress(OSError, ValueError), open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
    if error.errno != errno.EPIPE:  # whoever read it has gone, and asks for no reason
        what = error.filename or "standard output"
        typer.echo(f"causalnb: {what} cannot be used: {error.strerror or error}.", err=True)


class Course(typer.core.TyperGroup):
    """Prints what is wrong with a request in one line, without a traceback."""

    def invoke(self, ctx):
        """Runs the command; a CausalnbError exits with its code, Ctrl-C and an unusable file with 1."""
        try:
            try:
                return super().invoke(ctx)
            finally:
                sys.stdout.flush()
        except CausalnbError as error:
            typer.echo(f"causalnb: {error}", err=True)
            raise typer.Exit(error.code) from None
        except OSError as error:
            tell_unusable(error)
            raise typer.Exit(EXIT_FAILED) from None
        except KeyboardInterrupt:
            typer.echo(stopped(), err=True)
            raise typer.Exit(EXIT_FAILED) from None


@contextmanager
def stoppable() -> Iterator[None]:
    """SIGINT and SIGTERM end what runs inside as Ctrl-C does, once, and the process within five seconds.

    The process is not taken down piece by piece: that alone takes seconds when torch is loaded.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came = []

    def stop(number: int, _) -> None:
        came.append(number)
        for other in STOPPING:
            signal.signal(other, signal.SIG_IGN)
        threading.excepthook = lambda _: None  # threads whose sockets are closed under them: the process ends
        with suppress(RuntimeError, ValueError, OSError):  # where standard error is no file
            faulthandler.dump_traceback_later(STOP_SECONDS, exit=True)
        raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in STOPPING}
    try:
        yield
    finally:
        if came:
            typer.echo(stopped(), err=True)
            sys.stdout.flush()
            os._exit(EXIT_FAILED)
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)


app = typer.Typer(
    cls=Course,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="A course on four systems that put causality into language models.",
)
data = typer.Typer(no_args_is_help=True, help="The public data files.")
app.add_typer(data, name="data")
train = typer.Typer(
    no_args_is_help=True,
    help="Train one of the four systems on your own data; sci without --data: on SCAN, as in the guide.",
)
app.add_typer(train, name="train")


class Saved(typer.core.TyperGroup):
    """Commands, of which FOLDER takes what names no other: evaluate DIR as well as evaluate sci."""

    def resolve_command(self, ctx, args):
        """The command that the first argument names, or FOLDER with all arguments."""
        if args and args[0] not in self.commands:
            return FOLDER, self.commands[FOLDER], args
        return super().resolve_command(ctx, args)


FOLDER = "DIR"
evaluate = typer.Typer(cls=Saved, no_args_is_help=True, help="Evaluate a model that `train` has saved.")
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
BaseModel = Annotated[
    str, typer.Option(help="tiny, tiny:22 (layers), or a folder or Hugging Face name of a model.")
]
Data = Annotated[
    str,
    typer.Option(
        help="A .jsonl, .json, .csv, .tsv or .parquet file, a folder of .txt files or of the datasets "
        "library, or a hub name."
    ),
]
Columns = Annotated[
    str | None, typer.Option(help="Names of columns, as in prompt=question,answer=reply,domain=topic.")
]
Epochs = Annotated[int | None, typer.Option(help="Passes through the data; default: 3.")]
Rate = Annotated[float | None, typer.Option(help="Default: 2e-3 for tiny, 1e-4 for a trained base.")]
BatchSize = Annotated[int | None, typer.Option(help="Rows a step; default: 16.")]
MaxSteps = Annotated[int | None, typer.Option(help="No more steps than these.")]
EvaluateEvery = Annotated[
    int | None, typer.Option(help="Steps between evaluations, each with a checkpoint; default: an epoch.")
]
Validation = Annotated[float, typer.Option(help="Share of the rows held out of training.")]
Bf16 = Annotated[bool, typer.Option("--bf16", help="Mixed precision.")]
Lora = Annotated[int, typer.Option(help="Train adapters of this rank in the base; 0: all of it.")]
ReportTo = Annotated[str, typer.Option(help="trackio, tensorboard or none.")]


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
    """Yields step(name, part="", share=0.0, done=False): a bar on a terminal, else lines.

    A line for each step that is done, and every ten seconds one that says in which part it is.
    """
    from rich.console import Console

    console, count, said = Console(stderr=True), 0, time.monotonic()
    if not console.is_terminal:

        def step(name: str, part: str = "", share: float = 0.0, done: bool = False) -> None:
            nonlocal count, said
            count += done
            if done or part and time.monotonic() - said >= LINE_SECONDS:
                said, at = time.monotonic(), count if done else count + 1
                line = f"[{at}/{total}] {name}: {part}"
                console.print(line, markup=False, highlight=False, soft_wrap=True)

        yield step
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    ) as bars:
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

    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
    ) as bars:
        bar = bars.add_task("training", total=None)

        def progress(done: int, total: int, note: str) -> None:
            bars.update(bar, completed=done, total=total, description=note)

        yield say, progress


def tally(counts: dict[str, int]) -> str:
    """Counts as text: "3 fresh, 2 missing"."""
    return ", ".join(f"{number} {state}" for state, number in counts.items())
