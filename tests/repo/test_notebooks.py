"""The anatomy of a notebook (CONTRIBUTING.md), checked on each one, and each check on a faulty one."""

import ast
import json
import re
import statistics
from itertools import groupby

import pytest

from causalnb.lab.notebooks import SOURCE, VARIES, digest
from tests.repo.tree import ROOT, code_of, files, notebooks


def text(cell: dict) -> str:
    return "".join(cell["source"])


def code_lines(cell: dict) -> int:
    return sum(bool(line.strip()) for line in text(cell).splitlines())


def tags(cell: dict) -> list[str]:
    return cell["metadata"].get("tags", [])


def prose(cell: dict) -> list[str]:
    """Words a reader reads: no displayed formulas, code blocks, tags of HTML or link targets."""
    bare = re.sub(r"```.*?```|\$\$.*?\$\$|<[^>]*>|\]\([^)]*\)", " ", text(cell), flags=re.S)
    return [word for word in bare.split() if re.search(r"[^\W\d_]", word)]


def headings(cell: dict) -> list[tuple[int, str]]:
    """(level, title) of each heading outside code blocks."""
    return [
        (len(marks), title)
        for marks, title in re.findall(
            r"^(#{1,6}) (.+)$", re.sub(r"```.*?```", "", text(cell), flags=re.S), flags=re.M
        )
    ]


def pace(nb: dict) -> list[str]:
    """Lengths of code cells, code cells in a row, words per line of code."""
    code = [cell for cell in nb["cells"] if cell["cell_type"] == "code"]
    lengths = sorted(code_lines(cell) for cell in code)
    if not lengths or not lengths[0]:
        return ["a notebook needs code cells, none of them empty"]
    kinds = groupby(cell["cell_type"] for cell in nb["cells"])
    rows = [len(list(run)) for kind, run in kinds if kind == "code"]
    middle, long = statistics.median(lengths), sum(length > 22 for length in lengths)
    rate = sum(len(prose(cell)) for cell in nb["cells"] if cell["cell_type"] == "markdown") / sum(lengths)
    return [
        message
        for bad, message in [
            (middle > 8, f"median code cell of {middle} lines (8 at most)"),
            (
                long > 0.1 * len(lengths),
                f"{long} of {len(lengths)} code cells exceed 22 lines (a tenth at most)",
            ),
            (lengths[-1] > 45, f"a code cell of {lengths[-1]} lines (45 at most)"),
            (max(rows) > 3, f"{max(rows)} code cells in a row without prose (3 at most)"),
            (not 5 <= rate <= 12, f"{rate:.1f} words of prose per line of code (5 to 12)"),
        ]
        if bad
    ]


def outputs(nb: dict) -> list[str]:
    """Executed once, top to bottom, without error; figures described; checked outputs there to check."""
    found, counts = [], []
    for number, cell in enumerate(nb["cells"]):
        if cell["cell_type"] != "code":
            continue
        counts.append(cell["execution_count"])
        checked = "nbval-check-output" in tags(cell) or "NBVAL_CHECK_OUTPUT" in text(cell)
        found += [f"cell {number} checks an output it does not have"] * (checked and not cell["outputs"])
        for output in cell["outputs"]:
            pictures = [mime for mime in output.get("data", {}) if mime.startswith("image/")]
            found += [f"cell {number} checks a picture"] * bool(checked and pictures)  # which runs as HTML
            alt = output.get("metadata", {})
            found += [f"cell {number} holds an error"] if output["output_type"] == "error" else []
            found += [
                f"cell {number}: a figure without alt text"
                for mime in pictures
                if not (alt.get("alt") or alt.get(mime, {}).get("alt"))
            ]
    size = sum(len(json.dumps(cell.get("outputs", []))) for cell in nb["cells"])
    return found + [
        message
        for bad, message in [
            (
                None in counts or counts != sorted(set(counts)),
                "code cells not executed once from top to bottom",
            ),
            (size > 300_000, f"{size} bytes of outputs (300,000 at most)"),
            ("widgets" in nb["metadata"], "widget state is saved in it"),
        ]
        if bad
    ]


CLOCK = re.compile(r"\b(process_time|perf_counter|monotonic|in_turn|time\.time|doctor\.report|disk_usage)\(")


def settled(nb: dict) -> list[str]:
    """No output that changes from run to run, but in cells tagged `varies`, whose outputs are kept."""
    found = []
    for number, cell in enumerate(nb["cells"]):
        if cell["cell_type"] != "code":
            continue
        varies = VARIES in tags(cell)
        timed = CLOCK.search(text(cell)) and cell["outputs"] and not varies
        found += [f"cell {number} shows what a clock or a disk says, and is not tagged"] * bool(timed)
        streams = {output.get("name") for output in cell["outputs"]}
        found += [f"cell {number} keeps its standard error"] * ("stderr" in streams)
        old = varies and cell["metadata"].get(SOURCE) != digest(text(cell))
        found += [f"cell {number} varies, and its outputs are of another source"] * old
    return found


def structure(nb: dict) -> list[str]:
    """One title, headings that skip no level, alt text, and the sections every notebook has."""
    marked = [cell for cell in nb["cells"] if cell["cell_type"] == "markdown"]
    heads = [head for cell in marked for head in headings(cell)]
    levels = [level for level, _ in heads]
    bare = re.compile(r"!\[\s*\]\(|<img(?![^>]*\balt=\"[^\"]+\")[^>]*>")
    pictures = [hit for cell in marked for hit in bare.findall(text(cell))]
    hidden = [
        cell["metadata"].get("jupyter", {}).get("source_hidden")
        for cell in nb["cells"]
        if "solution" in tags(cell)
    ]
    first = next((code_lines(cell) for cell in nb["cells"] if cell["cell_type"] == "code"), 0)
    few = [dpi for cell in nb["cells"] for dpi in re.findall(r"\bdpi=(\d+)", text(cell)) if int(dpi) < 110]
    folded = [
        all(cell["metadata"].get("jupyter", {}).get(f"{part}_hidden") for part in ("source", "outputs"))
        for cell in nb["cells"]
        if "evidence" in tags(cell)
    ]
    return [
        message
        for bad, message in [
            (not nb["cells"] or not text(nb["cells"][0]).startswith("# "), "the first cell is not the title"),
            (levels.count(1) != 1, f"{levels.count(1)} titles of level 1 (one)"),
            (
                any(after > before + 1 for before, after in zip(levels, levels[1:], strict=False)),
                "a heading skips a level",
            ),
            (bool(pictures), "a picture without alt text"),
            (not hidden, "no cell is tagged `solution`"),
            (not all(hidden), "a solution is not collapsed (metadata jupyter.source_hidden)"),
            (first > 15, f"the first code cell has {first} lines (15): import where it is used"),
            (bool(few), f"figures of {', '.join(few)} dots an inch (110 at least)"),
            (not all(folded), "evidence is not folded (jupyter.source_hidden and .outputs_hidden)"),
            *[
                (not any(word in title.lower() for _, title in heads), f"no section on {word}")
                for word in ("exercise", "summary")
            ],
        ]
        if bad
    ]


def cell(kind: str, source: str, **more) -> dict:
    return {"cell_type": kind, "source": [source], "metadata": {}, **more}


def good() -> dict:
    """A notebook in which every check passes."""
    ran = [cell("code", f"x = {n}\nx", execution_count=n, outputs=[]) for n in (1, 2, 3)]
    ran[2]["metadata"] = {"tags": ["solution"], "jupyter": {"source_hidden": True}}
    heads = ("# Title", "## Exercises", "## Summary")
    told = [cell("markdown", f"{head}\n\n" + " word" * 12) for head in heads]
    return {"metadata": {}, "cells": [told[0], ran[0], told[1], ran[1], ran[2], told[2]]}


def change(where: int, **values):
    return lambda nb: nb["cells"][where].update(values)


FAULTS = {
    "median": (pace, lambda nb: [one.update(source=["y\n" * 9]) for one in nb["cells"] if "outputs" in one]),
    "exceed 22": (pace, change(1, source=["y\n" * 23])),
    "of 46 lines": (pace, change(1, source=["y\n" * 46])),
    "in a row": (pace, lambda nb: nb["cells"].extend(3 * [nb["cells"][1]] + [nb["cells"][1]])),
    "words of prose": (pace, lambda nb: nb["cells"][0].update(source=["# Title"])),
    "none of them empty": (pace, change(1, source=[""])),
    "from top to bottom": (outputs, change(1, execution_count=None)),
    "not executed once": (outputs, change(1, execution_count=3)),
    "holds an error": (outputs, change(1, outputs=[{"output_type": "error"}])),
    "does not have": (outputs, change(1, metadata={"tags": ["nbval-check-output"]})),
    "figure without alt": (
        outputs,
        change(
            1,
            outputs=[
                {"output_type": "display_data", "metadata": {"image/png": {}}, "data": {"image/png": "x"}}
            ],
        ),
    ),
    "checks a picture": (
        outputs,
        change(
            1,
            metadata={"tags": ["nbval-check-output"]},
            outputs=[{"output_type": "display_data", "metadata": {}, "data": {"image/png": "x"}}],
        ),
    ),
    "bytes of outputs": (outputs, change(1, outputs=[{"output_type": "stream", "text": "x" * 300_001}])),
    "widget state": (outputs, lambda nb: nb["metadata"].update(widgets={})),
    "what a clock": (
        settled,
        change(1, source=["time.process_time()"], outputs=[{"output_type": "execute_result", "data": {}}]),
    ),
    "keeps its standard error": (
        settled,
        change(1, outputs=[{"output_type": "stream", "name": "stderr", "text": "100 %"}]),
    ),
    "of another source": (settled, change(1, metadata={"tags": [VARIES], SOURCE: digest("x = 0")})),
    "not the title": (structure, change(0, source=["Title"])),
    "titles of level 1": (structure, change(5, source=["# Summary"])),
    "skips a level": (structure, change(2, source=["### Exercises"])),
    "picture without alt": (structure, change(2, source=["## Exercises\n![](x.svg)"])),
    "import where it is used": (structure, change(1, source=["y\n" * 16])),
    "dots an inch": (structure, change(1, source=["show(fig, 'a line', dpi=76)"])),
    "no section on exercise": (structure, change(2, source=["## Else"])),
    "no cell is tagged": (structure, change(4, metadata={})),
    "not collapsed": (structure, change(4, metadata={"tags": ["solution"]})),
    "not folded": (structure, change(1, metadata={"tags": ["evidence"], "jupyter": {"source_hidden": True}})),
}


@pytest.mark.parametrize("path", notebooks(), ids=lambda path: path.name)
@pytest.mark.parametrize("check", [pace, outputs, settled, structure])
def test_notebook(path, check):
    assert not check(json.loads(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("check", [pace, outputs, settled, structure])
def test_a_good_notebook_passes(check):
    assert not check(good())


@pytest.mark.parametrize("message", FAULTS)
def test_a_fault_is_seen(message):
    check, spoil = FAULTS[message]
    notebook = good()
    spoil(notebook)
    assert any(message in problem for problem in check(notebook))


def test_names_and_places():
    """NN_slug.ipynb, all in notebooks/, numbers used once."""
    names = [path.name for path in notebooks()]
    assert all(re.fullmatch(r"\d\d_[a-z0-9_]+\.ipynb", name) for name in names)
    assert len({name[:2] for name in names}) == len(names)
    assert {path for path in files() if path.suffix == ".ipynb"} == set(notebooks())


def test_what_all_notebooks_share_is_imported():
    """`check` and `shown` of causalnb.lab.notebooks, so that a student meets one of each."""
    own = {
        (path.name, node.name)
        for path in notebooks()
        for node in ast.walk(ast.parse(code_of(json.loads(path.read_text(encoding="utf-8")))))
        if isinstance(node, ast.FunctionDef) and node.name in ("check", "shown", "stored", "picture")
    }
    assert not own


def test_the_readme_lists_every_notebook():
    named = set(re.findall(r"\]\(notebooks/([\w.]+)\)", (ROOT / "README.md").read_text(encoding="utf-8")))
    assert named == {path.name for path in notebooks()}
