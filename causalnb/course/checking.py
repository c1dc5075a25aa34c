"""What of a student's copy is written and right: its own checks, run from top to bottom."""

import ast
import re
import tempfile
from pathlib import Path
from typing import NamedTuple

from causalnb.course.copies import OWN, student, write
from causalnb.course.desk import BLANK
from causalnb.course.source import Source, Task, plain, text
from causalnb.errors import LabError
from causalnb.lab import notebooks
from causalnb.paths import notebooks_dir, shown

ANSWERED = re.compile(r"^Right\b", re.M)
UNANSWERED = re.compile(r"\b(unanswered|not answered yet)\b")


class Outcome(NamedTuple):
    """passed, failed or unwritten, and why it failed."""

    task: str
    kind: str
    difficulty: int
    minutes: int
    outcome: str
    why: str = ""


def check(
    path: Path, profile: str | None = None, timeout: float | None = None, progress=None
) -> tuple[str, list[Outcome]]:
    """(notebook, what is there of each of its tasks). The file stays as it is; its checks are the course's.

    It runs in a copy, on past cells that fail. LabError for a file that is no student's copy, and where a
    cell takes longer than `timeout` seconds or ends the kernel.
    """
    copy = Source(path)
    name = copy.notebook.metadata.get(OWN, {}).get("notebook")
    if not isinstance(name, str):
        raise LabError(
            f"{shown(path)} is no student's copy: `causalnb course build --to student` makes them."
        )
    source = Source(notebooks_dir() / f"{Path(name).name}.ipynb")
    right = {cell["id"]: cell for cell in student(source).cells if "check" in cell.metadata.get(OWN, {})}
    for cell in copy.cells:
        if cell.get("id") in right:
            cell["source"] = text(right[cell["id"]])
        if cell["cell_type"] == "code":
            cell.outputs = []
            cell.metadata["tags"] = ["raises-exception"]
    with tempfile.TemporaryDirectory() as folder:
        beside = Path(folder) / path.name
        write(copy.notebook, beside)
        notebooks.execute(beside, profile, timeout, progress)
        ran = Source(beside)
    return name, [_outcome(task, ran.cells) for task in source.tasks]


def _outcome(task: Task, cells: list) -> Outcome:
    def about(part: str) -> list:
        return [cell for cell in cells if task.name in _named(cell, part)]

    gaps, checks = about("write"), about("check")
    if not gaps or not checks:
        found = "failed", "its cell is gone: build the copy again"
    elif task.kind == "function":
        errors = [said for cell in (*gaps, *checks) if (said := _error(cell))]
        blank = any(map(_blank, gaps))
        found = ("unwritten", "") if blank else ("failed", errors[0]) if errors else ("passed", "")
    else:
        found = _answered(gaps, checks)
    return Outcome(task.name, task.kind, task.difficulty, task.minutes, *found)


def _named(cell: dict, part: str) -> list[str]:
    named = cell["metadata"].get(OWN, {}).get(part, [])
    return [named] if isinstance(named, str) else named


def _error(cell: dict) -> str:
    """What a cell raised, in a line; "" if nothing."""
    for output in cell["outputs"]:
        if output["output_type"] == "error":
            return " ".join(f"{output['ename']}: {output['evalue']}".split())
    return ""


def _blank(cell: dict) -> bool:
    """Whether a function is as it was given: nothing but a docstring and BLANK."""
    try:
        tree = ast.parse(plain(text(cell)))
    except SyntaxError:
        return False
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    return any(ast.unparse(node.body[-1]) == BLANK and len(node.body) <= 2 for node in functions)


def _answered(gaps: list, checks: list) -> tuple[str, str]:
    """What the check of an exercise said of the answer."""
    if error := next((said for cell in (*gaps, *checks) if (said := _error(cell))), ""):
        return "failed", error
    said = "".join(
        "".join(output["text"])
        for cell in checks
        for output in cell["outputs"]
        if output["output_type"] == "stream"
    )
    if UNANSWERED.search(said) or not said.strip():
        return "unwritten", ""
    return ("passed", "") if ANSWERED.search(said) else ("failed", " ".join(said.split()))
