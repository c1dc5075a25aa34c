"""Notebooks executed in place: what stays in the file, and what a failure says."""

import copy
import subprocess
import sys
from contextlib import suppress

import nbformat
import psutil
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from causalnb.errors import DataError, LabError
from causalnb.lab import notebooks


def written(path, *sources):
    cells = [new_markdown_cell("# A title"), *map(new_code_cell, sources)]
    nbformat.write(
        new_notebook(
            cells=cells,
            metadata={
                "widgets": {"state": {}},
                "kernelspec": {"name": "somewhere-else", "display_name": "x", "language": "python"},
            },
        ),
        path,
    )
    return path


def test_execute_keeps_outputs_only(tmp_path, monkeypatch):
    foreign = tmp_path / "kernels" / "python3" / "kernel.json"
    foreign.parent.mkdir(parents=True)
    foreign.write_text('{"argv": ["false"], "display_name": "x", "language": "python"}', encoding="utf-8")
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    monkeypatch.setenv("CAUSALNB_PROFILE", "gpu")
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.setenv("CAUSALNB_WORK", str(tmp_path))  # a student predicts in another folder
    told = []
    path = written(
        tmp_path / "a.ipynb",
        "import os, sys\nprint(os.environ['CAUSALNB_PROFILE'], os.getcwd())",
        "print('10 %\\r100 %')\nassert not os.listdir(os.environ['CAUSALNB_WORK'])\n"
        "sys.executable, os.environ['OMP_NUM_THREADS']",
    )
    seconds, kept = notebooks.execute(path, "quick", timeout=60, progress=lambda *now: told.append(now))
    assert 0 < seconds < 60 and not kept and told == [(0, 3, "a"), (1, 3, "a"), (2, 3, "a"), (3, 3, "a")]
    after = nbformat.read(path, as_version=4)
    first, second = after.cells[1:]
    assert first.outputs[0].text == f"quick {tmp_path}\n" and first.execution_count == 1
    assert second.outputs[0].text == "100 %\n" and second.outputs[1].data["text/plain"] == repr(
        (sys.executable, "1")
    )
    assert "widgets" not in after.metadata and all("execution" not in cell.metadata for cell in after.cells)
    before = path.read_bytes()
    notebooks.execute(path, "quick")
    assert path.read_bytes() == before and before.endswith(b"}\n")


@pytest.mark.parametrize(
    "source, timeout, words",
    [
        ("x = 1\nraise KeyError('no\\n such')", None, "a.ipynb, cell 3: KeyError: 'no\\n such'"),
        ("import time; time.sleep(30)", 1, "a.ipynb, cell 3 took longer than 1 s: raise the timeout"),
        ("import os; os._exit(1)", None, "a.ipynb, cell 3 ended the kernel"),
    ],
)
def test_a_failing_cell_is_named_and_the_file_kept(tmp_path, source, timeout, words):
    path = written(tmp_path / "a.ipynb", "1", source)
    before = path.read_bytes()
    with pytest.raises(LabError) as caught:
        notebooks.execute(path, timeout=timeout)
    assert words in str(caught.value) and path.read_bytes() == before


def kernels():
    """The kernels that this process has started and that still run."""
    found = []
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # it ends at this moment; one that nobody waited for is such
            if "ipykernel_launcher" in " ".join(child.cmdline()):
                found.append(child.pid)
    return found


def gone(pid):
    """Whether the process has ended; one that nobody has waited for yet has."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


STARTS_ANOTHER = """
import subprocess, sys
other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open("other.pid", "w").write(str(other.pid))
"""


@pytest.mark.parametrize("ending", ["'done'", "1 / 0", "while True: pass", "import os; os._exit(1)"])
def test_one_kernel_at_a_time_and_none_afterwards(tmp_path, ending):
    """Two notebooks; each starts a process of its own, which ends with its kernel."""
    numbers, passes = [], ending == "'done'"
    for name in "ab" if passes else "a":
        path = written(tmp_path / f"{name}.ipynb", STARTS_ANOTHER, ending)
        try:
            notebooks.execute(path, timeout=5, progress=lambda *_: numbers.append(len(kernels())))
        except LabError:
            assert not passes
        assert kernels() == [] and gone(int((tmp_path / "other.pid").read_text(encoding="utf-8")))
    assert set(numbers) == ({0, 1} if passes else {1})


def test_what_stops_the_caller_stops_the_kernel(tmp_path):
    path = written(tmp_path / "a.ipynb", "1", "2")
    before = path.read_bytes()

    def stop(index, *_):
        if index == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        notebooks.execute(path, progress=stop)
    assert kernels() == [] and path.read_bytes() == before


HALF_MADE = """
import sys, zmq
from jupyter_client.client import KernelClient
from causalnb.lab import notebooks

def start_channels(self, *given, **named):
    self.left = zmq.Socket(self.context, zmq.DEALER)  # no list of sockets has it
    raise KeyboardInterrupt

KernelClient.start_channels = start_channels
try:
    notebooks.execute(sys.argv[1])
except KeyboardInterrupt:
    import psutil, os
    print(len(psutil.Process().children(recursive=True)), flush=True)
    os._exit(0)
"""


def test_a_socket_that_a_signal_left_half_made_is_not_waited_for(tmp_path):
    path = written(tmp_path / "a.ipynb", "1")
    words = [sys.executable, "-c", HALF_MADE, str(path)]
    assert (
        subprocess.run(words, capture_output=True, timeout=60, check=True, encoding="utf-8").stdout == "0\n"
    )


SWALLOWS = """
from pathlib import Path
runs = Path("runs")
runs.write_text(runs.read_text() + "x" if runs.exists() else "x")
session = get_ipython().kernel.session
send = session.send

def swallow(stream, kind, *given, **named):
    lost = kind == "execute_reply" and len(runs.read_text()) <= {times}
    return None if lost else send(stream, kind, *given, **named)

session.send = swallow
"""


@pytest.mark.parametrize("times", [1, 2])
def test_a_kernel_that_swallows_a_reply_is_replaced_once(tmp_path, times):
    path = written(tmp_path / "a.ipynb", SWALLOWS.format(times=times), "print('reached')")
    before, seen, short = path.read_bytes(), set(), notebooks.Bounds(cell=60, idle=1)

    def progress(*_):
        seen.update(kernels())
        assert len(kernels()) <= 1

    if times == 1:
        notebooks.execute(path, progress=progress, bounds=short)
        assert nbformat.read(path, as_version=4).cells[2].outputs[0].text == "reached\n"
    else:
        with pytest.raises(LabError, match="a.ipynb, cell 2: twice the kernel was idle for 1 s and owed"):
            notebooks.execute(path, progress=progress, bounds=short)
        assert path.read_bytes() == before
    assert (tmp_path / "runs").read_text(encoding="utf-8") == "xx" and len(seen) == 2 and kernels() == []


def test_a_long_cell_is_no_idle_kernel_and_is_told_again(tmp_path, monkeypatch):
    monkeypatch.setattr(notebooks, "TICK_SECONDS", 0.5)
    told, path = [], written(tmp_path / "a.ipynb", "import time; time.sleep(4); print('slept')")
    notebooks.execute(path, progress=lambda *now: told.append(now), bounds=notebooks.Bounds(idle=1))
    assert nbformat.read(path, as_version=4).cells[1].outputs[0].text == "slept\n"
    assert told.count((1, 2, "a")) > 3


def test_outputs_that_never_come_are_not_taken_for_none(tmp_path):
    swallow = SWALLOWS.replace('kind == "execute_reply"', 'kind in ("stream", "status")').format(times=2)
    path = written(tmp_path / "a.ipynb", swallow, "print('lost')")
    with pytest.raises(
        LabError, match="a.ipynb, cell 2: twice the kernel owed the outputs of a cell for 1 s"
    ):
        notebooks.execute(path, bounds=notebooks.Bounds(idle=1))


def test_a_kernel_that_fails_at_once_says_why(tmp_path, monkeypatch):
    (tmp_path / "ipykernel_launcher.py").write_text("raise OSError('no room')", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(LabError, match=r"twice no kernel was ready .* \(OSError: no room\)"):
        notebooks.execute(written(tmp_path / "a.ipynb", "1"))


def test_a_kernel_that_does_not_start_is_named(tmp_path):
    path = written(tmp_path / "a.ipynb", "1")
    with pytest.raises(LabError, match="a.ipynb: twice no kernel was ready within 0.01 s"):
        notebooks.execute(path, bounds=notebooks.Bounds(start=0.01))
    assert kernels() == []


WIDGETS = """
from ipywidgets import interact
handlers, told = get_ipython().kernel.shell_handlers, []
handlers["comm_msg"] = lambda *message: told.append(message)

def explore(x=1):
    print("in the widget", x)
    seen.append({result})

seen = []
interact(explore, x=(0, 3));
"""


def test_an_explorer_runs_its_callback_without_a_front_end(tmp_path):
    path = written(tmp_path / "a.ipynb", WIDGETS.format(result="x"), "print(seen, len(told))")
    notebooks.execute(path)
    widget, after = nbformat.read(path, as_version=4).cells[1:]
    assert widget.outputs == [] and after.outputs[0].text == "[1] 0\n"


def test_an_explorer_whose_callback_fails_is_named(tmp_path):
    path = written(tmp_path / "a.ipynb", WIDGETS.format(result="1 / 0"))
    with pytest.raises(LabError, match="a.ipynb, cell 2, in its widget: ZeroDivisionError: division by zero"):
        notebooks.execute(path)


READS = """
from pathlib import Path
from causalnb.errors import DataError
from causalnb.lab import notebooks

try:
    rows = Path("rows.txt").read_text()
except OSError:
    notebooks.missing(DataError("rows.txt is not on this machine."))
    rows = "stand-ins"
print(rows)
"""


def test_outputs_for_which_data_are_missing_stay_and_are_named(tmp_path):
    path = written(tmp_path / "a.ipynb", READS, "print('of', rows)", "print('apart from', rows[:4])")
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[2].metadata["tags"] = [notebooks.DATA]
    nbformat.write(notebook, path)
    (tmp_path / "rows.txt").write_text("real ones", encoding="utf-8")
    assert notebooks.execute(path).kept == ()
    before = nbformat.read(path, as_version=4).cells
    assert before[2].outputs[0].text == "of real ones\n"
    (tmp_path / "rows.txt").unlink()
    assert notebooks.execute(path).kept == ("cell 2, 3: rows.txt is not on this machine.",)
    after = nbformat.read(path, as_version=4).cells
    assert after[:3] == before[:3] and after[3].outputs[0].text != before[3].outputs[0].text


def test_a_reader_sees_what_is_missing(capsys):
    notebooks.missing(DataError("rows.txt is not on this machine."))
    said = capsys.readouterr().out
    assert "*rows.txt is not on this machine.*" in said and notebooks.MISSING in said


def test_where_nothing_was_stored_the_sentence_on_missing_data_is(tmp_path):
    path = written(tmp_path / "a.ipynb", READS)
    assert notebooks.execute(path).kept == ()
    said, stands_in = nbformat.read(path, as_version=4).cells[1].outputs
    assert set(said.data) == {"text/markdown", "text/plain"} and stands_in.text == "stand-ins\n"
    assert said.data["text/markdown"] == "*rows.txt is not on this machine.*"


def test_what_varies_is_taken_anew_when_its_source_changes_or_on_request(tmp_path):
    path = tmp_path / "a.ipynb"

    def run(source=None, fresh=False):
        if source:
            notebook = nbformat.read(written(path, source) if not path.exists() else path, as_version=4)
            notebook.cells[1].source, notebook.cells[1].metadata["tags"] = source, [notebooks.VARIES]
            nbformat.write(notebook, path)
        notebooks.execute(path, fresh=fresh)
        return nbformat.read(path, as_version=4).cells[1].outputs[0].text

    first = run("import time\nprint(time.time_ns())")
    assert run() == first
    edited = run("import time\nprint('', time.time_ns())")
    assert edited != first and run() == edited
    assert run(fresh=True) != edited


def test_clean_strips_what_changes():
    cell = new_code_cell(
        "x",
        metadata={"execution": {"start": "1"}, "tags": ["t"]},
        outputs=[
            new_output("display_data", {notebooks.WIDGET: {}, "text/plain": "bar"}),
            new_output("stream", name="stderr", text="100 %, 3.1 it/s"),
            new_output("stream", text="kept"),
        ],
    )
    notebook = new_notebook(
        cells=[cell], metadata={"widgets": {}, "language_info": {"name": "python", "version": "3"}}
    )
    notebooks.clean(notebook)
    assert [output.output_type for output in cell.outputs] == ["stream"] and cell.metadata == {"tags": ["t"]}
    assert notebook.metadata == {"language_info": {"name": "python"}}


@pytest.mark.parametrize("text", [None, "{", "[]"])
def test_what_is_no_notebook_is_named(tmp_path, text):
    path = tmp_path / "a.ipynb"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(LabError, match="a.ipynb cannot be read as a notebook"):
        notebooks.execute(path)


def test_pictures_are_stored_as_png_and_given_to_readers_as_html():
    from causalnb.lab import pictures

    alt = 'Bars "a" & <b>, 1 > 0.'
    output = {"data": {"text/html": pictures.html(b"\x89PNG", alt), "text/plain": alt}, "metadata": {}}
    shown = copy.deepcopy(output)
    pictures.to_png(output)
    assert output["metadata"] == {"image/png": {"alt": alt}} and set(output["data"]) == {
        "image/png",
        "text/plain",
    }
    pictures.to_html(output)
    assert output == shown and '"a"' not in shown["data"]["text/html"]
    table = {"data": {"text/html": "<table>"}, "metadata": {}}
    pictures.to_png(table)
    assert table == {"data": {"text/html": "<table>"}, "metadata": {}}
