"""Notebooks executed in place: what stays in the file, and what a failure says."""

import sys

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from causalnb.errors import LabError
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
    foreign.write_text('{"argv": ["false"], "display_name": "x", "language": "python"}')
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    monkeypatch.setenv("CAUSALNB_PROFILE", "gpu")
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    told = []
    path = written(
        tmp_path / "a.ipynb",
        "import os, sys\nprint(os.environ['CAUSALNB_PROFILE'], os.getcwd())",
        "print('10 %\\r100 %')\nsys.executable, os.environ['OMP_NUM_THREADS']",
    )
    seconds = notebooks.execute(path, "quick", timeout=60, progress=lambda *now: told.append(now))
    assert 0 < seconds < 60 and told == [(0, 3, "a"), (1, 3, "a"), (2, 3, "a"), (3, 3, "a")]
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


def test_clean_strips_what_changes():
    cell = new_code_cell(
        "x",
        metadata={"execution": {"start": "1"}, "tags": ["t"]},
        outputs=[
            new_output("display_data", {notebooks.WIDGET: {}, "text/plain": "bar"}),
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
        path.write_text(text)
    with pytest.raises(LabError, match="a.ipynb cannot be read as a notebook"):
        notebooks.execute(path)
