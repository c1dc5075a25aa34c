"""What a student's copy works with: `write` marks what is to be written, `hint` helps by degrees."""

import ast
import builtins
import copy
import re
from collections.abc import Callable

from causalnb.course.source import DETAILS, Source, tags, text
from causalnb.errors import LabError
from causalnb.paths import notebooks_dir

BLANK = "raise NotImplementedError"


def desk(notebook: str) -> tuple[Callable, Callable]:
    """(write, hint) of a notebook, `20_sci_components`; LabError where the course does not have it.

    `@write` keeps a function that is written; in the place of one that only raises NotImplementedError
    it puts the course's version, so that the cells below run. `hint(name, degree)` prints what helps.
    """
    source = Source(notebooks_dir() / f"{notebook}.ipynb")

    def write(function: Callable) -> Callable:
        if function.__code__.co_names != ("NotImplementedError",):
            return function
        name, own = function.__name__, {}
        definition = _function(source, name)
        exec(compile(ast.Module([definition], []), str(source.path), "exec"), function.__globals__, own)
        print(f'{name} is not written yet: the course\'s version stands in. hint("{name}") helps.')
        return own[name]

    def hint(name: str | int, degree: int = 1) -> None:
        print(hints(source, str(name), degree))

    return write, hint


def hints(source: Source, name: str, degree: int = 1) -> str:
    """A hint on a function (its name) or an exercise (its number), from 1, a nudge, to 3, the whole of it.

    LabError for what is no task and no degree.
    """
    if degree not in (1, 2, 3):
        raise LabError(f"there is no hint of degree {degree}: ask for 1, 2 or 3.")
    if name.isdecimal():
        return _on_exercise(source, name, degree)
    definition = _function(source, name)
    if degree == 1:
        return _nudge(definition)
    return ast.unparse(_Skeleton().visit(definition)) if degree == 2 else ast.unparse(definition)


def _function(source: Source, name: str) -> ast.FunctionDef:
    """A copy of the course's version; LabError where the notebook has none."""
    if name not in source.literals:
        known = ", ".join(task.name for task in source.tasks)
        raise LabError(f"{source.name} has no task {name!r}: its tasks are {known}.")
    return copy.deepcopy(source.literals[name][1])


def _nudge(definition: ast.FunctionDef) -> str:
    """How long the course's version is, whether it loops, and what it calls, in order."""
    lines = len(ast.unparse(ast.Module(definition.body, [])).splitlines())
    loops = sum(isinstance(node, ast.For | ast.While | ast.comprehension) for node in ast.walk(definition))
    calls = [
        node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        for node in ast.walk(definition)
        if isinstance(node, ast.Call)
    ]
    used = ", ".join(dict.fromkeys(name for name in calls if name and not hasattr(builtins, name)))
    size = f"{lines} line{'s' * (lines != 1)} and {loops or 'no'} loop{'s' * (loops != 1)}"
    return f"The course's version has {size}, and calls {used or 'no function of a library'}."


class _Skeleton(ast.NodeTransformer):
    """Keeps loops, conditions and the names that are set, and blanks what is computed."""

    def visit_Assign(self, node):
        node.value = ast.Constant(...)
        return node

    visit_AugAssign = visit_Return = visit_Assign


def _on_exercise(source: Source, number: str, degree: int) -> str:
    """The hint of its check, then the text of its solution, then the code."""
    task = next((task for task in source.tasks if task.kind == "exercise" and task.name == number), None)
    if task is None:
        raise LabError(
            f"{source.name} has no exercise {number}: it has {', '.join(t.name for t in source.tasks)}."
        )
    after = source.cells[task.cell :]
    end = next((at for at, cell in enumerate(after) if "solution" in tags(cell)), 0)
    if degree == 3:
        return text(after[end])
    if degree == 1 and (said := _said(source, task.cell)):
        return said
    near = source.cells[max(0, task.cell - 1) : task.cell + end]
    told = [found for cell in near for found in DETAILS.findall(text(cell))]
    return re.sub(r"</?details>|<summary>.*?</summary>", "", told[-1]).strip() if told else text(after[end])


def _said(source: Source, place: int) -> str:
    """The hint in the exercise's call of `check`, in its cell or the code cell before; "" without one."""
    before = [number for number in source.trees if number <= place][-2:]
    for number in reversed(before):
        for node in ast.walk(source.trees[number]):
            match node:
                case ast.Call(func=ast.Name(id="check"), args=[_, _, _, ast.Constant(value=str(said))]):
                    return said
    return ""
