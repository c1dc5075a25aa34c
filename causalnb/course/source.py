"""A notebook as the source of all products: what is to be written, what checks it, how long it takes."""

import ast
import math
import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from causalnb.errors import LabError
from causalnb.lab.records import parsed
from causalnb.paths import notebooks_dir, shown

LITERAL = re.compile(
    r"^(literal|slow|equations?)_|_literal$"
)  # functions that write an equation as it stands
ANSWER = re.compile(r"^(answer_\d+\w*|your_\w+)$")  # variables that wait for the answer to an exercise
DETAILS = re.compile(r"\n*<details>.*?</details>\n*", re.S)
EQUATION = re.compile(r"\$\$(.+?)\$\$", re.S)
LEVEL = re.compile(r"\((easy|medium|hard|open)\b[^)]*\)")
LEVELS = {"easy": (1, 5), "medium": (3, 10), "hard": (4, 20), "open": (5, 30)}  # difficulty, minutes
# of a function, by the nodes in the syntax tree of the course's version: at most, difficulty, minutes
SIZES = ((25, 1, 3), (50, 2, 5), (80, 3, 10), (120, 4, 15), (math.inf, 5, 20))
NUMBERS = {"a": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5}
WORDS_A_MINUTE, LINES_A_MINUTE = 200, 10


class Task(NamedTuple):
    """What a student writes: a function (`name` is its name) or the answer to exercise `name`."""

    name: str
    kind: str  # "function" or "exercise"
    difficulty: int  # 1 to 5
    minutes: int
    cell: int  # in the notebook
    checks: tuple[int, ...]  # the cells that hold it against the package


def text(cell: dict) -> str:
    """The source of a cell as one string."""
    source = cell["source"]
    return source if isinstance(source, str) else "".join(source)


def tags(cell: dict) -> list[str]:
    """The tags of a cell."""
    return cell["metadata"].get("tags", [])


def plain(code: str) -> str:
    """Code with lines for the shell and for IPython blanked, so that it is Python."""
    lines = code.splitlines()
    return "\n".join("" if line.lstrip().startswith(("%", "!")) else line for line in lines)


def words(markdown: str) -> int:
    """Words that a reader reads: no displayed formulas, code blocks, tags of HTML or targets of links."""
    bare = re.sub(r"```.*?```|\$\$.*?\$\$|<[^>]*>|\]\([^)]*\)", " ", markdown, flags=re.S)
    return sum(bool(re.search(r"[^\W\d_]", word)) for word in bare.split())


def sections(cells: Iterable[dict]) -> Iterator[tuple[int, int, str]]:
    """(cell, level, title) of each heading in Markdown cells, outside code blocks."""
    for number, cell in enumerate(cells):
        if cell["cell_type"] == "markdown":
            bare = re.sub(r"```.*?```", "", text(cell), flags=re.S)
            for marks, title in re.findall(r"^(#{1,6}) (.+)$", bare, flags=re.M):
                yield number, len(marks), title


def loaded(tree: ast.AST) -> set[str]:
    """Names that some code reads."""
    return {
        node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }


def asserts(tree: ast.AST) -> bool:
    """Whether some code has an assert statement, in functions or outside."""
    return any(isinstance(node, ast.Assert) for node in ast.walk(tree))


def stated(book: Path) -> float:
    """The seconds that a notebook says it takes in its first cell, 60 where it does not say."""
    try:
        first = text(parsed(book.read_bytes())["cells"][0])
    except (OSError, ValueError, LookupError, TypeError):
        return 60.0
    said = re.search(r"(\w{1,9}) minutes?\b( and a half)?", first)
    if not said:
        return 60.0
    number = NUMBERS.get(said[1]) or (int(said[1]) if said[1].isdecimal() else 1)
    return 60.0 * (number + bool(said[2]) / 2)


class Source:
    """A notebook of the course, read; LabError where there is none of that name or it is no notebook."""

    def __init__(self, path: Path):
        import nbformat

        self.path, self.name = path, path.stem
        if not path.is_file():
            raise LabError(f"there is no notebook {shown(path)}: run causalnb in its checkout.")
        try:
            self.notebook = nbformat.read(path, as_version=4)
        except (OSError, ValueError, AttributeError) as error:
            raise LabError(
                f"{shown(path)} cannot be read as a notebook ({error}): restore it from git."
            ) from error
        self.cells = self.notebook.cells

    @cached_property
    def title(self) -> str:
        """The heading of level 1."""
        return next((title for _, level, title in sections(self.cells) if level == 1), self.name)

    @cached_property
    def reading(self) -> int:
        """Minutes to read it: prose at WORDS_A_MINUTE, code at LINES_A_MINUTE, solutions left out."""
        minutes = 0.0
        for cell in self.cells:
            if cell["cell_type"] == "markdown":
                minutes += words(DETAILS.sub("", text(cell))) / WORDS_A_MINUTE
            elif "solution" not in tags(cell):
                minutes += sum(bool(line.strip()) for line in text(cell).splitlines()) / LINES_A_MINUTE
        return max(1, round(minutes))

    @cached_property
    def writing(self) -> int:
        """Minutes to write all its tasks."""
        return sum(task.minutes for task in self.tasks)

    @cached_property
    def trees(self) -> dict[int, ast.Module]:
        """{cell: its syntax tree} of the code cells that are no solutions."""
        return {
            number: ast.parse(plain(text(cell)))
            for number, cell in enumerate(self.cells)
            if cell["cell_type"] == "code" and "solution" not in tags(cell)
        }

    @cached_property
    def literals(self) -> dict[str, tuple[int, ast.FunctionDef]]:
        """{name: (cell, definition)} of the functions that write an equation literally."""
        return {
            node.name: (number, node)
            for number, tree in self.trees.items()
            for node in tree.body
            if isinstance(node, ast.FunctionDef) and LITERAL.search(node.name)
        }

    @cached_property
    def tasks(self) -> list[Task]:
        """What a student writes, in order: literal functions that something checks, and exercises."""
        found = []
        for name, (number, node) in self.literals.items():
            if checks := self._checks(name):
                size = sum(
                    1 for _ in ast.walk(ast.Module(node.body, [])) if isinstance(_, ast.expr | ast.stmt)
                )
                difficulty, minutes = next(rest for bound, *rest in SIZES if size <= bound)
                found.append(Task(name, "function", difficulty, minutes, number, checks))
        number = 0
        for place, tree in self.trees.items():
            if any(map(answers, tree.body)):
                number += 1
                difficulty, minutes = LEVELS[self._level(place)]
                found.append(Task(str(number), "exercise", difficulty, minutes, place, (place,)))
        return sorted(found, key=lambda task: task.cell)

    def _checks(self, name: str) -> tuple[int, ...]:
        """Cells whose code, definitions apart, reads the function and asserts, or calls what asserts.

        Where there is none, those that do so through another function of the notebook.
        """
        defined = {
            node.name: node
            for tree in self.trees.values()
            for node in tree.body
            if isinstance(node, ast.FunctionDef)
        }
        helpers = {other for other, node in defined.items() if asserts(node)}
        through = {other for other, node in defined.items() if other != name and name in loaded(node)}
        for readers in ({name}, through):
            cells = tuple(
                number
                for number, tree in self.trees.items()
                for code in [
                    ast.Module([part for part in tree.body if not isinstance(part, ast.FunctionDef)], [])
                ]
                if readers & loaded(code) and (asserts(code) or helpers & loaded(code))
            )
            if cells:
                return cells
        return ()

    def _level(self, place: int) -> str:
        """The level of the exercise in a cell, as the last Markdown before it has it."""
        for cell in reversed(self.cells[:place]):
            if cell["cell_type"] == "markdown" and (said := LEVEL.findall(text(cell))):
                return said[-1]
        return "medium"

    def equation(self, place: int) -> str:
        """The last displayed equation between a code cell and the heading above it; "" without one."""
        for cell in reversed(self.cells[:place]):
            if cell["cell_type"] == "markdown":
                source = text(cell)
                if found := EQUATION.findall(source):
                    return found[-1].strip("\n")
                if re.search(r"^#", source, flags=re.M):
                    break
        return ""


def answers(statement: ast.stmt) -> bool:
    """Whether a statement is where a student puts the answer to an exercise: `answer_3 = None`."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=None)):
            return bool(ANSWER.match(name))
    return False


def books(names: Iterable[str] = ()) -> list[Source]:
    """The notebooks of the course in order, or those whose names begin so; LabError for an unknown one."""
    every = sorted(notebooks_dir().glob("[0-9]*.ipynb"))
    if not every:
        raise LabError(f"there is no notebook in {shown(notebooks_dir())}: run causalnb in its checkout.")
    chosen = set()
    for name in names:
        found = {path for path in every if path.stem.startswith(Path(name).stem)}
        if not found:
            raise LabError(
                f"there is no notebook {name!r}: there are {', '.join(path.stem for path in every)}."
            )
        chosen |= found
    return [Source(path) for path in every if path in chosen or not chosen]
