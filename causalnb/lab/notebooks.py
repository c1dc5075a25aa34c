"""What notebooks call, and what executes them: headless, in place, keeping nothing that changes by itself."""

import asyncio
import copy
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from causalnb import paths
from causalnb.errors import DataError, LabError, sentence
from causalnb.lab import evidence, files, pictures, profiles, tables

WIDGET = "application/vnd.jupyter.widget-view+json"
MISSING = "application/vnd.causalnb.missing+json"  # beside the sentence that `missing` shows
DATA, VARIES = "data", "varies"  # tags of cells whose outputs need data files, or are never twice the same
SOURCE = "output_of"  # in the metadata of a cell that varies: the digest of the source that gave its outputs
TICK_SECONDS = 10.0  # between two calls of `progress` for one cell
STOP_SECONDS = 2.0  # in which a kernel ends by itself before it is killed


class Bounds(NamedTuple):
    """Seconds: a cell may run, an idle kernel may owe its reply, a kernel may take to start."""

    cell: float = 3600.0
    idle: float = 30.0
    start: float = 120.0


class Executed(NamedTuple):
    """How long it took, and a sentence for each reason to keep outputs as they were."""

    seconds: float
    kept: tuple[str, ...] = ()


class _TooLong(Exception):
    """A cell ran longer than its bound."""


class _NoAnswer(Exception):
    """A kernel did not start, or owes a reply and is idle; another one may do better."""


class _Failed(Exception):
    """What a widget called raised an error: the kernel shows it in the widget and goes on."""


def clean(notebook) -> None:
    """Strip widgets, their state, standard error, time stamps, the Python patch version; pictures as PNG."""
    notebook.metadata.pop("widgets", None)
    notebook.metadata.get("language_info", {}).pop("version", None)
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = [
                output
                for output in cell.outputs
                if WIDGET not in output.get("data", {}) and output.get("name") != "stderr"
            ]
            for output in cell.outputs:
                pictures.to_png(output)


def below(apart: float) -> str:
    """How small a difference is, "below 1e-12", so that the rounding of another machine does not show.

    The least of 1e-12, 1e-9, 1e-6 and 1e-3 that it is below; a larger one as it is.
    """
    limit = next((limit for limit in (1e-12, 1e-9, 1e-6, 1e-3) if apart < limit), None)
    return f"{apart:.0e}" if limit is None else f"below {limit:.0e}"


def missing(error: Exception) -> None:
    """Show in a notebook which data file is missing.

    A headless run then keeps the outputs stored for this cell, and for those tagged `data` after it.
    """
    from IPython.display import display

    why = sentence(error)
    display({"text/markdown": f"*{why}*", "text/plain": why, MISSING: {"why": why}}, raw=True)


def shown(make: Callable, *given, dpi: int = 150, live: bool = False) -> None:
    """Show in a notebook what `make(*given)` returns: (figure, alt text), a table, Markdown, lines of a list.

    Where it raises LabError, as `evidence.require` does without results, its sentence is shown instead, and
    where it raises DataError, `missing` shows which file is not there. Nothing is trained for it, unless it
    is `live`: then what is short may be. `dpi` is for a figure.
    """
    from IPython.display import Markdown, display

    try:
        with nullcontext() if live else evidence.stored_only():
            found = make(*given)
    except DataError as error:
        return missing(error)
    except LabError as error:
        found = f"*Not there yet:* {sentence(error)}"
    if isinstance(found, tuple):
        from causalnb.lab import figures

        fig, alt = found
        return figures.show(fig, alt, dpi)
    if isinstance(found, list):
        found = "\n".join(f"- {line}" for line in found)
    elif isinstance(found, tables.Table):  # the repr of its rows would take most of what a notebook may hold
        found = found.markdown()
    display(Markdown(found) if isinstance(found, str) else found)


def check(number: int, answer, right: Callable, hint: str) -> str:
    """What a student is told of the answer to exercise `number`: "Right." where right(answer) is true.

    Else that it is unanswered (None), what it raises, or that it is not right yet; both of these with `hint`.
    """
    if answer is None:
        return f"Exercise {number} is unanswered: fill in answer_{number}."
    try:
        good = right(answer)
    except Exception as error:
        return f"Your answer raises {type(error).__name__}: {error}. {hint}"
    return "Right." if good else f"Not yet. {hint}"


def digest(source: str) -> str:
    """What `SOURCE` holds for a cell with this source."""
    return sha256(source.encode()).hexdigest()[:16]


def keep(stored, notebook, fresh: bool = False) -> tuple[str, ...]:
    """Put the outputs of `stored` back where data were missing, or where they vary and the source did not.

    `fresh` takes new ones for what varies. Returns a sentence for each reason, naming the cells by number.
    """
    reasons, why = {}, ""
    for number, (before, now) in enumerate(zip(stored.cells, notebook.cells, strict=True), 1):
        if now.cell_type != "code":
            continue
        tags = now.metadata.get("tags", [])
        said = [
            output.data.pop(MISSING)["why"] for output in now.outputs if MISSING in output.get("data", {})
        ]
        why = said[0] if said else why
        if before.outputs and (said or why and DATA in tags):
            now.outputs = before.outputs
            reasons.setdefault(why, []).append(str(number))
        elif VARIES in tags:
            same = before.metadata.get(SOURCE) == digest(now.source)
            now.outputs = before.outputs if same and not fresh else now.outputs
            now.metadata[SOURCE] = digest(now.source)
    return tuple(f"cell {', '.join(numbers)}: {why}" for why, numbers in reasons.items())


def execute(
    path: Path | str,
    profile: str | None = None,
    timeout: float | None = None,
    progress: Callable[[int, int, str], None] | None = None,
    bounds: Bounds | None = None,
    fresh: bool = False,
) -> Executed:
    """Run every cell in a kernel of this environment with one thread.

    The file is replaced only when all cells passed; `keep` says which outputs stay as they are. However this
    ends, the kernel and what it started end with it. `timeout` replaces the bound on a cell. A kernel that
    does not start, or is idle and owes a reply, is replaced once and all cells run again.
    `progress(index, cells, name)` is called when a cell starts, and every ten seconds while it runs. LabError
    names the notebook and the cell that failed, took too long, killed the kernel or was never answered.
    """
    import nbformat
    from nbclient.exceptions import CellExecutionError, DeadKernelError

    path, scale, started = Path(path), profiles.current(profile), time.perf_counter()
    bounds = bounds or Bounds()
    bounds = bounds if timeout is None else bounds._replace(cell=timeout)
    try:
        stored = nbformat.read(path, as_version=4)
    except (OSError, ValueError, AttributeError) as error:
        name = paths.shown(path.resolve())
        raise LabError(f"{name} cannot be read as a notebook ({error}): restore it from git.") from error
    total, at = len(stored.cells), None

    def note(index: int) -> None:
        nonlocal at
        at = index
        if progress:
            progress(index, total, path.stem)

    env = {
        **os.environ,
        "CAUSALNB_PROFILE": scale.name,
        "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
    for last in (False, True):
        notebook, at = copy.deepcopy(stored), None
        try:
            with tempfile.TemporaryDirectory() as work, asyncio.Runner() as runner:
                env["CAUSALNB_WORK"] = work  # a student's predictions are no part of it
                runner.get_loop().set_exception_handler(lambda *_: None)  # of what a signal cuts short
                runner.run(_run(notebook, path.resolve().parent, env, bounds, note))
            break
        except (_NoAnswer, _Failed, _TooLong, CellExecutionError, DeadKernelError) as error:
            if isinstance(error, _NoAnswer) and not last:
                continue
            where = paths.shown(path.resolve()) + ("" if at is None else f", cell {at + 1}")
            raise LabError(where + _why(error, bounds)) from error
    kept = keep(stored, notebook, fresh)
    clean(notebook)
    files.write_atomic(path, (nbformat.writes(notebook).rstrip() + "\n").encode())
    if progress:
        progress(total, total, path.stem)
    return Executed(time.perf_counter() - started, kept)


def _why(error: Exception, bounds: Bounds) -> str:
    """What follows the name of the notebook and the number of the cell."""
    match error:
        case _NoAnswer():
            return f": twice {error}: run the same command again."
        case _Failed():
            return f", in its widget: {error}"
        case _TooLong():
            return f" took longer than {bounds.cell:g} s: raise the timeout."
        case object(ename=name, evalue=value):
            return f": {name}: {' '.join(value.split())}"
    return " ended the kernel, often for lack of memory: free some."


async def _run(notebook, folder: Path, env: dict, bounds: Bounds, note: Callable[[int], None]) -> None:
    """Execute `notebook` in `folder`, in a kernel that is gone afterwards; note(index) as cells start."""
    from jupyter_client.kernelspec import KernelSpecManager
    from jupyter_client.manager import AsyncKernelManager
    from nbclient import NotebookClient

    here = KernelSpecManager(kernel_dirs=[])  # python3 is this environment's own
    manager = AsyncKernelManager(kernel_name="python3", kernel_spec_manager=here)
    manager.shutdown_wait_time = STOP_SECONDS
    client = NotebookClient(
        notebook,
        km=manager,
        extra_arguments=["--log-level=ERROR"],  # no lecture on transport encryption
        resources={"metadata": {"path": str(folder)}},
        coalesce_streams=True,
        store_widget_state=False,
        iopub_timeout=math.ceil(bounds.idle),
        raise_on_iopub_timeout=True,
        startup_timeout=math.ceil(bounds.start),
    )
    failures = []
    client.widget_registry = {"@jupyter-widgets/output": {"OutputModel": partial(_unseen(), failures)}}
    group, ready, log = None, False, tempfile.TemporaryFile()  # what it writes outside of cells
    try:
        try:
            async with asyncio.timeout(bounds.start):
                with files.uninterrupted():  # or a kernel could live that nobody knows of
                    await client.async_start_new_kernel(env=env, stdout=log, stderr=log)
                    group = manager.provisioner.pgid  # type: ignore[union-attr]
                await client.async_start_new_kernel_client()
                reply = await client.async_wait_for_reply(client.kc.kernel_info())  # type: ignore[union-attr]
        except (TimeoutError, RuntimeError) as error:
            log.seek(0)
            said = log.read().decode(errors="replace").split("\n")
            why = next((f" ({line.strip()})" for line in reversed(said) if line.strip()), "")
            raise _NoAnswer(f"no kernel was ready within {bounds.start:g} s{why}") from error
        ready = True
        notebook.metadata["language_info"] = reply["content"]["language_info"]  # type: ignore[index]
        for index, cell in enumerate(notebook.cells):
            note(index)
            await _answered(client, cell, index, bounds, note)
            if failures:
                raise _Failed(failures[0])
    finally:
        if isinstance(sys.exception(), KeyboardInterrupt | asyncio.CancelledError):
            _killed(manager, group)  # no clean-up: it waits for ever for a socket that is half made
        else:
            await _ended(client, manager, group, ready)
        log.close()


async def _answered(client, cell, index: int, bounds: Bounds, note: Callable[[int], None]) -> None:
    """Execute one cell; _TooLong or _NoAnswer where it does not end."""
    from nbclient.exceptions import CellTimeoutError

    work = asyncio.ensure_future(client.async_execute_cell(cell, index, client.code_cells_executed + 1))
    owing = asyncio.ensure_future(_owing(client.km, bounds.idle))
    clock = asyncio.get_running_loop().time
    end = clock() + bounds.cell
    try:
        while True:
            patience = min(TICK_SECONDS, max(0.0, end - clock()))
            await asyncio.wait({work, owing}, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                return work.result()
            if owing.done():
                owing.result()
                raise _NoAnswer(f"the kernel was idle for {bounds.idle:g} s and owed a reply")
            if clock() >= end:
                raise _TooLong
            note(index)
    except CellTimeoutError as error:  # the reply came, its outputs did not
        raise _NoAnswer(f"the kernel owed the outputs of a cell for {bounds.idle:g} s") from error
    finally:
        work.cancel()
        owing.cancel()
        await asyncio.gather(work, owing, return_exceptions=True)


async def _owing(manager, patience: float) -> None:
    """Return once the kernel was idle at both ends of half of `patience`, a reply to a cell unsent.

    A kernel answers in the order it is asked: what is asked after a cell waits until that cell is done.
    A request from another client also wakes a kernel that has not seen the first one (ipykernel's issue
    1554), which is why one answer is not enough.
    """
    session = manager.session.clone()
    session.session += "-watch"  # an identity of its own, or it would be sent the reply to the cell
    for _ in range(2):
        await asyncio.sleep(patience / 2)
        asking = manager.client(session=session)
        asking.start_channels(iopub=False, stdin=False, hb=False, control=False)
        try:
            asking.kernel_info()
            await asking.get_shell_msg()
        finally:
            asking.stop_channels()
    await asyncio.sleep(min(1.0, patience))


async def _ended(client, manager, group: int | None, ready: bool) -> None:
    """End the kernel and all processes of its group, in whatever state; at once if it was never ready."""
    try:
        if client.kc:
            client.kc.stop_channels()
        async with asyncio.timeout(STOP_SECONDS + 1):
            await manager.shutdown_kernel(now=not ready)
    except (TimeoutError, RuntimeError):  # it died before, or does not answer
        pass
    finally:
        _killed(manager, group)


def _killed(manager, group: int | None) -> None:
    """Kill all processes of a kernel's group, and remove its connection file."""
    if group:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
    if process := getattr(manager.provisioner, "process", None):
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS)
    manager.cleanup_connection_file()


def _unseen() -> type:
    """Stands for the output area of a widget where nobody looks: takes all, shows nothing, keeps errors.

    nbclient's own sends its state to the kernel while that executes the cell, which can cost the reply.
    """
    from nbclient.output_widget import OutputWidget

    class Unseen(OutputWidget):
        def __init__(self, failures: list[str], *given):
            super().__init__(*given)
            self.failures = failures

        def output(self, outputs, message, display_id, index) -> None:
            content = message["content"]
            if message["msg_type"] == "error":
                self.failures.append(f"{content['ename']}: {' '.join(content['evalue'].split())}")

        def clear_output(self, outputs, message, index) -> None:
            pass

    return Unseen
