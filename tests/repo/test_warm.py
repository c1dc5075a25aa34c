"""Kernels forked from a warm process: nbval sees what it sees with others, and nothing is left running."""

import os
import signal
import subprocess
import sys
import time

import nbformat
import psutil
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from tests.repo.tree import ROOT

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks on Linux alone")
BARELY = """
import sys
from functools import partial
from tests import warm

warm.heat = partial(warm.heat, [])
sys.exit(warm.main(sys.argv[1:]))
"""
NBVAL = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider"]
NBVAL += ["-p", "tests.no_stderr", "--nbval-lax", "--nbval-kernel-name", "warm", "--nbval-cell-timeout", "5"]


def written(folder, **books):
    """Notebooks by name, each of (source, stored output or None) pairs; what is stored is compared."""
    for name, cells in books.items():
        made = [
            new_code_cell(
                source,
                metadata={"tags": ["nbval-check-output"]} if stored else {},
                outputs=[new_output("stream", text=stored)] if stored else [],
                execution_count=1,
            )
            for source, stored in cells
        ]
        nbformat.write(new_notebook(cells=made), folder / f"{name}.ipynb")
    return [str(folder / f"{name}.ipynb") for name in books]


def started(folder, books):
    words = [sys.executable, "-c", BARELY, *NBVAL, *books]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(folder), "LEFT_TO_NOTEBOOKS": "5"}
    return subprocess.Popen(words, cwd=folder, env=env, stdout=subprocess.PIPE, encoding="utf-8")


def family(folder):
    """All running processes whose environment was made by `started` in this folder."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("TMPDIR") == str(folder) and process.pid != os.getpid():
                found += [process] if process.status() != psutil.STATUS_ZOMBIE else []
        except psutil.Error:
            continue
    return found


def all_ended(folder, seconds=5.0):
    end = time.monotonic() + seconds
    while family(folder) and time.monotonic() < end:
        time.sleep(0.1)
    return not family(folder)


def test_nbval_says_of_a_fork_what_it_says_of_a_kernel(tmp_path):
    books = written(
        tmp_path,
        passes=[
            (
                "import os, warnings; x = int(os.environ['LEFT_TO_NOTEBOOKS']); print(x); warnings.warn('x')",
                "5\n",
            ),
            ("assert x == 5 and 'BARELY' not in globals()", None),
        ],
        alone=[
            ("assert 'x' not in globals()", None),
            ("import pandas; print(pandas.get_option('display.max_columns'))", "20\n"),
        ],
        wrong=[("print(6)", "7\n")],
        fails=[("assert False", None)],
        hangs=[("import time; time.sleep(60)", None)],
        dies=[("import os; os._exit(1)", None)],
    )
    done = started(tmp_path, books)
    out, _ = done.communicate(timeout=120)
    assert done.returncode == 1 and "4 failed, 4 passed" in out, out
    assert "mismatch 'stdout'" in out and "Timeout of 5 seconds" in out
    for name in ("wrong", "fails", "hangs", "dies"):
        assert f"{name}.ipynb::Cell 0" in out.partition("short test summary")[2]
    assert all_ended(tmp_path)


@pytest.mark.parametrize("whom", ["the server", "nbval"])
def test_forks_end_with_those_who_asked_for_them(tmp_path, whom):
    books = written(tmp_path, hangs=[("open('at', 'w').close(); import time; time.sleep(60)", None)])
    server = started(tmp_path, books)
    end = time.monotonic() + 60
    while not (tmp_path / "at").exists():
        assert time.monotonic() < end and server.poll() is None
        time.sleep(0.05)
    if whom == "nbval":
        child = next(p for p in psutil.Process(server.pid).children() if "pytest" in p.cmdline())
        child.send_signal(signal.SIGKILL)
    else:
        server.terminate()
    assert server.wait(timeout=10) != 0 and all_ended(tmp_path)
    server.stdout.close()
