"""`causalnb reproduce` stopped by a signal at several moments: it ends soon, and leaves nothing behind."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import psutil
import pytest
from nbformat.v4 import new_code_cell, new_notebook

ROOT = Path(__file__).parents[2]
COURSE = """
import time
from pathlib import Path

from causalnb import cli
from causalnb.lab import registry

registry._experiments, registry._artefacts = dict(), dict()
registry.load_all = lambda: None


def table(profile):
    from causalnb.lab.tables import Table, save_table

    save_table(Table("sci.components", ["a"], [[1]], "A toy table"))
    Path("at_building").touch()
    time.sleep(60)


if {building}:
    registry.artefact("sci.components")(table)
cli.app(["reproduce"])
"""
CELLS = [
    "import time\nfrom pathlib import Path",
    "Path('at_asleep').touch(); time.sleep({asleep})",
    "Path('at_busy').touch()\nend = time.monotonic() + {busy}\nwhile time.monotonic() < end: pass",
    "Path('at_deaf').touch()\nimport signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "end = time.monotonic() + {deaf}\n"
    "while time.monotonic() < end:\n    try: time.sleep(1)\n    except KeyboardInterrupt: pass",
    "import subprocess; subprocess.Popen(['sleep', '600']); Path('at_parent').touch(); time.sleep({parent})",
]
MOMENTS = ("building", "starting", "asleep", "busy", "deaf", "parent")


def course(folder: Path, moment: str) -> None:
    """A course that waits where `moment` says: in building a table, or in a notebook."""
    seconds = {name: 60 if name == moment else 0 for name in MOMENTS}
    (folder / "data/paper").mkdir(parents=True)
    (folder / "notebooks").mkdir()
    shutil.copy(ROOT / "data/paper/artefacts.csv", folder / "data/paper")
    cells = [new_code_cell(source.format(**seconds)) for source in CELLS]
    nbformat.write(new_notebook(cells=cells), folder / "notebooks/00_toy.ipynb")
    (folder / "course.py").write_text(COURSE.format(building=moment == "building"), encoding="utf-8")


def waited(happened, seconds: float = 60.0):
    end = time.monotonic() + seconds
    while not (value := happened()):
        assert time.monotonic() < end, "it never came to the moment"
        time.sleep(0.02)
    return value


def ended(process: psutil.Process) -> bool:
    """Whether it runs no more; one that nobody has waited for yet does not."""
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


@pytest.mark.parametrize(
    "moment, number",
    [*((moment, signal.SIGTERM) for moment in MOMENTS), ("building", signal.SIGINT), ("busy", signal.SIGINT)],
)
def test_a_signal_ends_it_within_five_seconds(tmp_path, moment, number):
    course(tmp_path, moment)
    book = tmp_path / "notebooks/00_toy.ipynb"
    before = book.read_bytes()
    moved = {f"CAUSALNB_{name}": str(tmp_path / name.lower()) for name in ("FIGURES", "RESULTS", "CACHE")}
    env = {**os.environ, **moved, "CAUSALNB_HOME": str(tmp_path), "CAUSALNB_PROFILE": "laptop"}
    env["PYTHONPATH"] = str(ROOT)
    words = [sys.executable, "course.py"]
    started = subprocess.Popen(
        words, cwd=tmp_path, env=env, stderr=subprocess.PIPE, encoding="utf-8", start_new_session=True
    )
    try:
        me = psutil.Process(started.pid)
        if moment == "starting":
            waited(lambda: me.children(recursive=True))
        else:
            at = tmp_path / f"at_{moment}" if moment == "building" else tmp_path / f"notebooks/at_{moment}"
            waited(at.exists)
        family = me.children(recursive=True)
        assert len(family) == {"building": 0, "parent": 2}.get(moment, 1)
        sent = time.monotonic()
        os.kill(started.pid, number)
        _, said = started.communicate(timeout=30)
        assert time.monotonic() - sent < 5 and started.returncode == 1, said
        assert "causalnb: stopped" in said and "Traceback" not in said
        assert all(map(ended, family)) and book.read_bytes() == before
        assert not [*tmp_path.rglob("*.tmp"), *tmp_path.glob("figures/*/*")]
    finally:
        for left in [*family, me] if started.poll() is None else []:
            left.kill()


def test_files_that_belong_together_are_written_before_a_signal_is_heard():
    from causalnb.lab import files

    done = []
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    try:
        with pytest.raises(KeyboardInterrupt):
            with files.uninterrupted():
                signal.raise_signal(signal.SIGINT)
                done.append("the second file")
            done.append("too late")
    finally:
        signal.signal(signal.SIGINT, before)
    assert done == ["the second file"]
