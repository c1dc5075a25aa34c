"""Copies for students, with gaps, and for tutors, with notes."""

import ast
import copy
import re
from pathlib import Path

import causalnb
from causalnb.course.desk import BLANK
from causalnb.course.source import DETAILS, Source, Task, answers, tags, text
from causalnb.errors import LabError
from causalnb.lab import files, pictures

OWN = "causalnb"  # in the metadata of a cell: what it is to a task
CHECKED = "nbval-check-output"  # a tag: the stored output is compared
PREDICT = re.compile(r"\*\*Predict\b|^predict\(", re.M)
REPOSITORY = re.compile(r"https://[\w.-]+(/[\w.~-]+)+")
WRONG = re.compile(r"assert .*(?:!= \"Right\.\"|\bnot right_\d+\().*")


def write(notebook, path: Path) -> None:
    """Write a notebook as `causalnb.lab.notebooks` does: whole or not at all."""
    import nbformat

    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_atomic(path, (nbformat.writes(notebook).rstrip() + "\n").encode())


def described(notebook) -> None:
    """Turn each stored picture into an `<img>` with its alt text, which readers are shown."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            pictures.to_html(output)


def table_row(source: Source, cell: dict) -> None:
    """Add what reading and the tasks take to the header of a notebook, whichever form that has."""
    functions = [task for task in source.tasks if task.kind == "function"]
    exercises = [task for task in source.tasks if task.kind == "exercise"]
    parts = [
        f"{len(some)} {kind}{'s' * (len(some) != 1)} (about {sum(task.minutes for task in some)} minutes)"
        for kind, some in (("function", functions), ("exercise", exercises))
        if some
    ]
    rows = {"reading": f"about {source.reading} minutes", "you write": " and ".join(parts)}
    whole = text(cell)
    table = re.search(r"^\| *time *\|.*$", whole, flags=re.M)
    if table:
        added = "\n".join(f"| {name} | {value} |" for name, value in rows.items() if value)
        cell["source"] = whole[: table.end()] + "\n" + added + whole[table.end() :]
    else:
        cell["source"] = whole + "".join(
            f"\n\n**{k.capitalize()}.** {v.capitalize()}." for k, v in rows.items() if v
        )


def student(source: Source, nbgrader: bool = False, repository: str = ""):
    """The notebook without solutions, with gaps for its tasks, and with what the gaps' checks are marked.

    It runs from top to bottom as it is: `desk.write` puts the course's version into gaps. `nbgrader`
    adds the metadata by which nbgrader collects and grades. With the address of a `repository` its first
    cell installs this version of the course from there where it is not installed, as on Colab.
    """
    made, tasks = copy.deepcopy(source.notebook), {task.cell: [] for task in source.tasks}
    for task in source.tasks:
        tasks[task.cell].append(task)
    checked = {}
    for task in source.tasks:
        for cell in task.checks:
            checked.setdefault(cell, []).append(task.name)
    cells = []
    for number, cell in enumerate(made.cells):
        if "solution" in tags(cell):
            continue
        if cell["cell_type"] == "markdown":
            cell["source"] = DETAILS.sub("\n\n", text(cell)).strip("\n")
            cells += [cell] if cell["source"].strip() else []
        elif number in tasks:
            cells += _gaps(source, cell, tasks[number], checked.get(number, []))
        else:
            _mark(cell, check=checked.get(number, []))
            cells.append(cell)
    table_row(source, cells[0])
    opening = _code(
        f"{source.cells[0].get('id', 'cell')}-desk",
        f'from causalnb.course.desk import desk\n\nwrite, hint = desk("{source.name}")',
    )
    first = [_code(f"{source.cells[0].get('id', 'cell')}-install", install(repository))] if repository else []
    made.cells = [cells[0], *first, opening, *cells[1:]]
    made.metadata[OWN] = {"notebook": source.name}
    described(made)
    for cell in made.cells if nbgrader else ():
        _graded(cell)
    return made


def install(repository: str) -> str:
    """What a cell runs to have this version of the course; LabError for what is no repository's address."""
    if not REPOSITORY.fullmatch(repository):
        raise LabError(f"{repository!r} is no address of a git repository: give https://HOST/OWNER/NAME.")
    return (
        f"# Where the course is not installed, as on Colab: its version {causalnb.__version__}.\n"
        "import os\nfrom importlib.util import find_spec\n\n"
        'if not find_spec("causalnb"):\n'
        f"    !git clone --quiet --depth 1 --branch v{causalnb.__version__} {repository} course\n"
        "    %pip install --quiet ./course\n"
        '    os.environ["CAUSALNB_HOME"] = os.path.abspath("course")'
    )


def _gaps(source: Source, cell, tasks: list[Task], checked: list[str]) -> list:
    """A code cell in parts: what is given, each gap, and what follows, which keeps the outputs."""
    functions = {task.name: task for task in tasks if task.kind == "function"}
    exercise = next((task for task in tasks if task.kind == "exercise"), None)
    lines, start = text(cell).splitlines(), 0
    parts: list[tuple[str, Task | None]] = []
    for node in source.trees[tasks[0].cell].body:
        if isinstance(node, ast.FunctionDef) and node.name in functions:
            written, task = stub(source, node, functions[node.name], lines), functions[node.name]
        elif exercise and answers(node):
            written, task = "\n".join(lines[node.lineno - 1 : node.end_lineno]), exercise
        else:
            continue
        first = min([node.lineno, *(part.lineno for part in getattr(node, "decorator_list", []))])
        parts += [("\n".join(lines[start : first - 1]), None), (written, task)]
        start = node.end_lineno or start
    parts.append(("\n".join(lines[start:]), None))
    made = []
    for number, (part, gap) in enumerate(parts):
        if not part.strip():
            continue
        before = made[-1].metadata.get(OWN, {}).get("write") if made else None
        if gap and gap.name == before:  # an exercise with two answers has one gap
            made[-1]["source"] += "\n" + part.strip("\n")
            continue
        one = _code(f"{cell.get('id', 'cell')}-{number}", part.strip("\n"))
        if gap:
            one.metadata[OWN] = {"write": gap.name, "difficulty": gap.difficulty, "minutes": gap.minutes}
        made.append(one)
    last = made[-1]
    if OWN not in last.metadata:
        last.metadata.update({key: value for key, value in cell.metadata.items() if key != OWN})
        if OWN in made[0].metadata:  # else a part before the gap may have printed some of it
            last.outputs, last.execution_count = cell.outputs, cell.execution_count
        elif CHECKED in tags(last):
            last.metadata["tags"] = [tag for tag in tags(last) if tag != CHECKED]
        _mark(last, check=checked)
    return made


def stub(source: Source, node: ast.FunctionDef, task: Task, lines: list[str]) -> str:
    """The signature of a function, a docstring with its equation, and nothing written yet."""
    first = node.body[0]
    if first.lineno > node.lineno:
        head = lines[node.lineno - 1 : first.lineno - 1]
    else:
        head = [f"def {node.name}({ast.unparse(node.args)}):"]
    equation = source.equation(task.cell).replace('"""', "'''")
    told = ast.get_docstring(node) or "Write what the text above says."
    inner = [f'    r"""{told}'] if equation else [f'    r"""{told}"""']
    if equation:
        inner += [
            "",
            *(f"        {line.strip()}" for line in equation.splitlines() if line.strip()),
            '    """',
        ]
    note = f'# difficulty {task.difficulty} of 5, about {task.minutes} minutes; hint("{task.name}") helps'
    above = [f"@{ast.unparse(decorator)}" for decorator in node.decorator_list]
    return "\n".join([note, *above, "@write", *head, *inner, f"    {BLANK}"])


def _code(id: str, source: str):
    import nbformat

    cell = nbformat.v4.new_code_cell(source)
    cell["id"] = id
    return cell


def _mark(cell, check: list[str]) -> None:
    if check:
        cell.metadata[OWN] = {"check": check}


def _graded(cell) -> None:
    """nbgrader's metadata on a gap, which the student fills, and on a check, which is graded and locked."""
    own = cell.metadata.get(OWN, {})
    if not own:
        return
    gap = "write" in own
    cell.metadata["nbgrader"] = {
        "schema_version": 3,
        "grade_id": cell["id"],
        "solution": gap,
        "grade": not gap,
        "locked": not gap,
        "task": False,
        **({} if gap else {"points": len(own["check"])}),
    }


def tutor(source: Source):
    """The notebook with its solutions unfolded, and a note at each task and where to stop for discussion."""
    import nbformat

    made, cells = copy.deepcopy(source.notebook), []
    tasks = {task.cell: [] for task in source.tasks}
    for task in source.tasks:
        tasks[task.cell].append(task)

    def note(id: str, told: str) -> None:
        cell = nbformat.v4.new_markdown_cell(told, id=f"{id}-tutor")
        cell.metadata["tags"] = ["tutor"]
        cells.append(cell)

    for number, cell in enumerate(made.cells):
        id = cell.get("id", str(number))
        if number in tasks:
            note(id, "\n".join(map(_told, tasks[number])))
        if "solution" in tags(cell):
            cell.metadata.pop("jupyter", None)
            if wrong := WRONG.findall(text(cell)):
                refused = "\n".join(f"    {line}" for line in wrong)
                note(id, f"> **Tutor.** What goes wrong here, each refused by the check:\n\n{refused}")
        cells.append(cell)
        if "solution" not in tags(cell) and PREDICT.search(text(cell)):
            note(id, "> **Tutor.** Stop here. Collect the predictions before anybody runs the next cell.")
    table_row(source, cells[0])
    made.cells = cells
    described(made)
    return made


def _told(task: Task) -> str:
    what = f"`{task.name}`" if task.kind == "function" else f"Exercise {task.name}"
    return f"> **Tutor.** {what}: difficulty {task.difficulty} of 5, about {task.minutes} minutes" + (
        "; students have the signature and the equation, and write the rest."
        if task.kind == "function"
        else "."
    )
