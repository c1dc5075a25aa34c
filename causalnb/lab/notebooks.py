"""Executes a notebook headless, in place, and keeps nothing in it that changes from run to run."""

import os
import time
from collections.abc import Callable
from pathlib import Path

from causalnb.errors import LabError
from causalnb.lab import files, profiles
from causalnb.paths import shown

WIDGET = "application/vnd.jupyter.widget-view+json"


def clean(notebook) -> None:
    """Strip widgets and their state, time stamps and the Python patch version from a notebook."""
    notebook.metadata.pop("widgets", None)
    notebook.metadata.get("language_info", {}).pop("version", None)
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if WIDGET not in output.get("data", {})]


def execute(
    path: Path | str,
    profile: str | None = None,
    timeout: float | None = None,
    progress: Callable[[int, int, str], None] | None = None,
) -> float:
    """Run every cell in a kernel of this environment with one thread; returns seconds.

    The file is replaced only when all cells passed; LabError names the notebook and the cell that failed,
    took longer than `timeout` seconds, or killed the kernel.
    """
    import nbformat
    from jupyter_client.kernelspec import KernelSpecManager
    from jupyter_client.manager import AsyncKernelManager
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

    path, scale, started = Path(path), profiles.current(profile), time.perf_counter()
    try:
        notebook = nbformat.read(path, as_version=4)
    except (OSError, ValueError, AttributeError) as error:
        name = shown(path.resolve())
        raise LabError(f"{name} cannot be read as a notebook ({error}): restore it from git.") from error
    total, at = len(notebook.cells), 0

    def cell_starts(cell, cell_index: int) -> None:
        nonlocal at
        at = cell_index
        if progress:
            progress(cell_index, total, path.stem)

    here = KernelSpecManager(kernel_dirs=[])  # python3 is this environment's own
    client = NotebookClient(
        notebook,
        timeout=timeout,
        km=AsyncKernelManager(kernel_name="python3", kernel_spec_manager=here),
        extra_arguments=["--log-level=ERROR"],  # no lecture on transport encryption
        resources={"metadata": {"path": str(path.resolve().parent)}},
        coalesce_streams=True,
        on_cell_start=cell_starts,
    )
    env = {
        **os.environ,
        "CAUSALNB_PROFILE": scale.name,
        "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
    where = f"{shown(path.resolve())}, cell"
    try:
        client.execute(env=env)
    except CellExecutionError as error:
        raise LabError(f"{where} {at + 1}: {error.ename}: {' '.join(error.evalue.split())}") from error
    except CellTimeoutError as error:
        raise LabError(f"{where} {at + 1} took longer than {timeout:g} s: raise the timeout.") from error
    except DeadKernelError as error:
        raise LabError(f"{where} {at + 1} ended the kernel, often for lack of memory: free some.") from error
    clean(notebook)
    files.write_atomic(path, (nbformat.writes(notebook).rstrip() + "\n").encode())
    if progress:
        progress(total, total, path.stem)
    return time.perf_counter() - started
