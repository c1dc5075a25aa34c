"""The code of the course in units that do not know where they stand: what ran, and is it still there?

A unit is a function with what is defined inside it, a class without its methods, or a constant of a module.
Its hash leaves out layout, comments, docstrings, types, checks that only raise, and imports of ours, so that
code can be formatted, documented, typed and moved from file to file without being another.
"""

import ast
import functools
import importlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from types import CodeType
from typing import Any, TypeVar

import causalnb
from causalnb import paths
from causalnb.errors import LabError
from causalnb.lab import files
from causalnb.paths import cache_dir, shown

DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
SILENT = (
    ast.Raise,
    ast.Pass,
    ast.Global,
    ast.Nonlocal,
    ast.Import,
    ast.ImportFrom,
    *DEFINITIONS,
    ast.ClassDef,
)
COMPOUND = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Match)
TYPES = ("annotation", "returns", "type_comment")
UNPROBED = b"# unprobed: "  # and why no stored run comes to the line that it ends
DIGITS = 8
CACHED = type(functools.cache(len))
Function = TypeVar("Function", bound=Callable)
UNRECORDED = {__file__, paths.__file__}  # files: this one, and where things lie
_unrecorded: dict[int, CodeType] = {}  # by id: equal ones may be of other functions


def _short(text: str, digits: int = DIGITS) -> str:
    return sha256(text.encode()).hexdigest()[:digits]


def _guard(node) -> bool:
    """An `if` that does nothing but raise: it stops a run, and changes no number of one that ended.

    What stands in a `try` is no guard, since the raising may be caught there; nor is a test that assigns.
    """
    return (
        isinstance(node, ast.If)
        and not node.orelse
        and isinstance(node.body[-1], ast.Raise)
        and all(isinstance(step, (ast.Assign, ast.Raise)) for step in node.body)
        and not any(isinstance(part, ast.NamedExpr) for part in ast.walk(node.test))
    )


def _check(node) -> bool:
    """A call of a function named check_..., which does nothing but raise, or an `if` of nothing but those."""
    if isinstance(node, ast.If):
        walrus = any(isinstance(part, ast.NamedExpr) for part in ast.walk(node.test))
        return not node.orelse and not walrus and all(map(_check, node.body))
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
        return False
    name = getattr(node.value.func, "attr", getattr(node.value.func, "id", ""))
    calls = sum(isinstance(part, ast.Call) for part in ast.walk(node))
    return name.startswith("check_") and calls == 1  # what is called for its arguments is seen


def _ours(node) -> bool:
    """An import of what belongs to the course, whose place may change."""
    roots = {name.partition(".")[0] for name in ("causalnb", *causalnb.CATALOGUES)}
    if isinstance(node, ast.ImportFrom):
        return bool(node.level) or (node.module or "").partition(".")[0] in roots
    return isinstance(node, ast.Import) and all(a.name.partition(".")[0] in roots for a in node.names)


def tree(node, caught: bool = False) -> str:
    """`node` as text without positions, docstrings, guards, imports of ours, types and empty fields."""
    if isinstance(node, list):
        kept = (part for part in node if not _ours(part) and (caught or not _guard(part)))
        return "[" + ",".join(tree(part, caught) for part in kept) + "]"
    if not isinstance(node, ast.AST):
        return repr(node)
    if isinstance(node, ast.AnnAssign):
        target = tree(node.target, caught)
        if node.value is None:
            return f"Declared({target})"
        return f"Assign(targets=[{target}],value={tree(node.value, caught)})"
    parts, caught = [], caught or isinstance(node, ast.Try)
    documented = isinstance(node, (ast.Module, ast.ClassDef, *DEFINITIONS))
    for name, value in ast.iter_fields(node):
        if name == "body" and documented and ast.get_docstring(node, clean=False) is not None:  # type: ignore[arg-type]
            value = value[1:]
        if name == "keywords" and isinstance(node, ast.Call) and ast.unparse(node.func) == "zip":
            value = [word for word in value if ast.unparse(word) != "strict=False"]
        if name not in TYPES and value is not None and value != []:
            parts.append(f"{name}={tree(value, caught)}")
    return f"{type(node).__name__}({','.join(parts)})"


@dataclass(eq=False)
class Unit:
    """A piece of code: where it stands, its hash, and the units that it names, {name in it: unit}."""

    module: str
    name: str
    file: Path
    node: Any  # a statement
    hash: str
    names: dict[str, "Unit"] = field(default_factory=dict)
    owner: "Unit | None" = None  # a method's class
    trusted: frozenset[int] = frozenset()  # lines of its file that are marked with UNPROBED

    @property
    def callable(self) -> bool:
        """Whether it runs when it is called, and not when it is imported."""
        return isinstance(self.node, DEFINITIONS)

    @property
    def first(self) -> int:
        """The line on which it begins, with its decorators."""
        return min([self.node.lineno, *(part.lineno for part in getattr(self.node, "decorator_list", ()))])

    def ran(self, lines: set[int]) -> bool:
        """Whether a statement of its body is among the executed lines."""
        body = self.node.body
        return any(line in lines for line in range(body[0].lineno, body[-1].end_lineno + 1))

    def missed(self, lines: set[int]) -> dict[str, int]:
        """{hash: line} of its statements that are not among the executed lines.

        Raising ones do not count, nor those marked with UNPROBED.
        """
        found = {}
        for node in _statements(self.node):
            first = node.lineno
            last = node.body[0].lineno - 1 if isinstance(node, COMPOUND[:-1]) else node.end_lineno
            last = node.subject.end_lineno if isinstance(node, ast.Match) else max(first, last)  # type: ignore[type-var]
            own = range(first, last + 1)  # type: ignore[operator]
            if self.trusted.isdisjoint(own) and not any(line in lines for line in own):
                found[_short(_header(node))] = first
        return found


def _statements(node, caught: bool = False) -> Iterator[ast.stmt]:
    """The statements of a definition that can be seen to run, outermost first; no guards, no docstrings."""
    caught = caught or isinstance(node, ast.Try)
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            if not caught and (_guard(child) or _check(child)):
                continue
            quoted = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
            if not quoted and not isinstance(child, (*SILENT, ast.Try)):
                yield child
        if isinstance(child, (ast.stmt, ast.excepthandler, ast.match_case)):
            yield from _statements(child, caught)


def _header(node: ast.stmt) -> str:
    """A statement without the statements in it."""
    inner = ("body", "orelse", "cases")
    if not isinstance(node, COMPOUND):
        return tree(node)
    parts = [f"{name}={tree(value)}" for name, value in ast.iter_fields(node) if name not in inner]
    return f"{type(node).__name__}({','.join(parts)})"


class Codebase:
    """All units of packages, found without importing them."""

    def __init__(self, roots: Mapping[str, Path]):
        self.roots = dict(roots)
        self.units: list[Unit] = []
        self.files: dict[Path, list[Unit]] = {}
        self._trusted: dict[Path, frozenset[int]] = {}
        self._scopes: dict[str, dict] = {}  # module -> {name: unit or ("import", module, name)}
        for top, place in roots.items():
            for file in sorted(place.rglob("*.py")):
                parts = file.relative_to(place).with_suffix("").parts
                self._add(".".join([top, *parts]).removesuffix(".__init__"), file)
        for unit in self.units:
            unit.names = self._named(unit)

    def _add(self, module: str, file: Path) -> None:
        try:
            content = file.read_bytes()
            body = ast.parse(content).body
        except (SyntaxError, ValueError) as error:
            line = getattr(error, "lineno", None)
            raise LabError(f"{shown(file)} line {line} is not valid Python: correct it.") from error
        marked = enumerate(content.splitlines(), 1) if UNPROBED in content else ()
        self._trusted[file] = frozenset(number for number, line in marked if UNPROBED in line)
        scope = self._scopes[module] = {}
        package = module if file.name == "__init__.py" else module.rpartition(".")[0]
        for node in body:
            if isinstance(node, DEFINITIONS):
                scope[node.name] = self._unit(module, node.name, file, node)
            elif isinstance(node, ast.ClassDef):
                methods = [part for part in node.body if isinstance(part, DEFINITIONS)]
                rest = [part for part in node.body if part not in methods]
                bare = ast.ClassDef(**{**dict(ast.iter_fields(node)), "body": rest or [ast.Pass()]})
                scope[node.name] = owner = self._unit(module, node.name, file, ast.copy_location(bare, node))
                for part in methods:
                    self._unit(module, f"{node.name}.{part.name}", file, part).owner = owner
            elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                unit = self._unit(module, ast.unparse(targets[0]), file, node)
                scope |= {n.id: unit for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)}
            else:
                scope |= _imported([node], package)

    def _unit(self, module: str, name: str, file: Path, node: ast.AST) -> Unit:
        unit = Unit(module, name, file, node, _short(tree(node)), trusted=self._trusted[file])
        self.units.append(unit)
        self.files.setdefault(file.resolve(), []).append(unit)
        return unit

    def _resolved(self, bound, depth: int = 8):
        """The unit or ("module", name) that something bound to a name is, None for what is not ours."""
        while depth and isinstance(bound, tuple):
            _, module, name = bound
            inner = f"{module}.{name}" if name else module
            if name and name in self._scopes.get(module, {}):
                bound, depth = self._scopes[module][name], depth - 1
            else:
                return ("module", inner) if inner in self._scopes else None
        return bound

    def _named(self, unit: Unit) -> dict[str, Unit]:
        scope = self._scopes[unit.module]
        package = unit.module if unit.file.name == "__init__.py" else unit.module.rpartition(".")[0]
        inside = _imported(ast.walk(unit.node), package)
        found = {}
        for node in ast.walk(unit.node):
            chain = _chain(node)
            if not chain or not (bound := inside.get(chain[0]) or scope.get(chain[0])):
                continue
            target, rest = self._resolved(bound), list(chain[1:])
            while isinstance(target, tuple) and rest:
                target = self._resolved(("import", target[1], rest.pop(0)))
            if isinstance(target, Unit) and target is not unit:
                found[".".join(chain)] = target
        return found

    def at(self, ran: Mapping[Path, set[int]]) -> list[Unit]:
        """The functions that executed lines of files belong to, with the classes and constants they name."""
        todo = [
            unit
            for file, lines in ran.items()
            for unit in self.files.get(Path(file).resolve(), ())
            if unit.callable and unit.ran(lines)
        ]
        return self._with_named(todo)

    def called(self, ran: Mapping[Path, set[int]]) -> list[Unit]:
        """As `at`, from the first lines of the functions that were called, those inside others included."""
        todo = [
            unit
            for file, lines in ran.items()
            for unit in self.files.get(Path(file).resolve(), ())
            if unit.callable and any(line in lines for line in range(unit.first, unit.node.end_lineno + 1))
        ]
        return self._with_named(todo)

    def _with_named(self, todo: list[Unit]) -> list[Unit]:
        found = dict.fromkeys(todo)
        while todo:
            unit = todo.pop()
            more = [named for named in unit.names.values() if not named.callable]
            for other in [*more, *([unit.owner] if unit.owner else [])]:
                if other not in found:
                    found[other] = None
                    todo.append(other)
        return list(found)

    @staticmethod
    def statements(units: Iterable[Unit]) -> set[str]:
        """Hashes of all statements in the functions among units."""
        return {hash for unit in units if unit.callable for hash in unit.missed(set())}

    @staticmethod
    def changed(units: Iterable[Unit], lines: Mapping[Path, set[int]], known: set[str]) -> dict[str, str]:
        """{hash: "file line n"} of statements in units that ran which did not, and are not among `known`."""
        found = {}
        for unit in units:
            if unit.callable:
                for hash, line in unit.missed(lines.get(unit.file.resolve(), set())).items():
                    if hash not in known:
                        found[hash] = f"{shown(unit.file)} line {line}"
        return found


def _imported(nodes: Iterable[ast.AST], package: str) -> dict[str, tuple]:
    """{name: ("import", module, name in it)} of import statements; whether they are ours is seen later."""
    found: dict[str, tuple] = {}
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            up = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            module = ".".join([*up, *([node.module] if node.module else [])])
            found |= {a.asname or a.name: ("import", module, a.name) for a in node.names}
        elif isinstance(node, ast.Import):
            for a in node.names:
                name = a.name if a.asname else a.name.partition(".")[0]
                found[a.asname or name] = ("import", name, "")
    return found


def _chain(node) -> tuple[str, ...]:
    """("a", "b", "c") of a.b.c, () of anything else."""
    if isinstance(node, ast.Attribute):
        inner = _chain(node.value)
        return (*inner, node.attr) if inner else ()
    return (node.id,) if isinstance(node, ast.Name) else ()


@dataclass(frozen=True)
class Index:
    """What the state of a result is read from: {hash of a unit: [(name in it, hash of what that means)]}."""

    names: dict[str, list]
    known: dict[str, str] = field(default_factory=dict)

    def holds(self, units: str, edges: str) -> bool:
        """Whether code is still here: the hashes of its units, apart by spaces, and what they name."""
        hashes = frozenset(units.split())
        if not hashes <= self.names.keys():
            return False
        if units not in self.known:
            self.known[units] = self.edges(hashes)
        return self.known[units] == edges

    def edges(self, hashes: frozenset[str]) -> str:
        """Digest of which of these units names which other, so that a name that means another one is seen."""
        lines = {
            f"{hash} {name} {other}"
            for hash in hashes
            for name, other in self.names.get(hash, ())
            if other in hashes
        }
        return _short("\n".join(sorted(lines)), 16)

    @functools.cached_property
    def digest(self) -> str:
        """16 hex digits of all code."""
        return _short("\n".join(sorted(self.names)), 16)


def described(units: Iterable[Unit]) -> dict[str, str]:
    """{units, edges} of code, as `Index.holds` takes them."""
    hashes = frozenset(unit.hash for unit in units)
    return {"units": " ".join(sorted(hashes)), "edges": index().edges(hashes)}


def roots() -> dict[str, Path]:
    """{package: folder} of all code that results may depend on."""
    tops = dict.fromkeys(name.partition(".")[0] for name in ("causalnb", *causalnb.CATALOGUES))
    return {top: Path(importlib.import_module(top).__file__).parent for top in tops}  # type: ignore[arg-type]


@functools.lru_cache(None)
def current() -> Codebase:
    """The code of this process: the course, and every package that registers experiments."""
    return Codebase(roots())


@functools.lru_cache(None)
def index() -> Index:
    """The index of `current`, kept in the cache for as long as no file changes."""
    text = sha256()
    for top, place in roots().items():
        for file in sorted(place.rglob("*.py")):
            text.update(f"{top} {file.relative_to(place)} ".encode() + sha256(file.read_bytes()).digest())
    place, name = cache_dir(), f"code-{text.hexdigest()[:16]}"
    for kept in place.glob(f"{name}-*.json"):  # which ends in the sum of its content
        if kept.stem.endswith(sha256(data := kept.read_bytes()).hexdigest()[:16]):
            return Index(json.loads(data))
    names: dict[str, list] = {}
    for unit in current().units:
        found = {(name.rpartition(".")[2], other.hash) for name, other in unit.names.items()}
        names[unit.hash] = sorted({*map(tuple, names.get(unit.hash, ())), *found})
    data = json.dumps(names).encode()
    for old in place.glob("code-*.json"):
        old.unlink(missing_ok=True)
    with suppress(LabError):  # it is only kept to be faster
        files.write_atomic(place / f"{name}-{sha256(data).hexdigest()[:16]}.json", data)
    return Index(names)


def unrecorded(function: Function) -> Function:
    """Mark a function that reads or keeps what is stored: `recorded` notes neither it nor what it calls."""
    code = function.__code__
    _unrecorded[id(code)] = code
    return function


def _forget(ours: tuple[str, ...]) -> None:
    """Empty the caches of functions of ours, but for those of what is not recorded."""
    for module in [*sys.modules.values()]:
        file = getattr(module, "__file__", None) or ""
        for value in vars(module).values() if file.startswith(ours) and file not in UNRECORDED else ():
            if type(value) is CACHED and id(getattr(value.__wrapped__, "__code__", None)) not in _unrecorded:
                value.cache_clear()


@contextmanager
def recorded() -> Iterator[dict[Path, set[int]]]:
    """Within, note the first lines of all functions of ours that are called, by file.

    It is the same whatever was done before: caches are emptied first, and what is called while a module of
    ours is imported is not noted.
    """
    ours = tuple(str(place) for place in roots().values())
    _forget(ours)
    outside, frame = {}, sys._getframe().f_back
    while frame:
        outside[id(frame)], frame = frame, frame.f_back
    called: dict[int, CodeType] = {}

    def counts(frame) -> bool:
        while frame and id(frame) not in outside:
            code = frame.f_code
            importing = code.co_name == "<module>" and code.co_filename.startswith(ours)
            if importing or id(code) in _unrecorded:
                return False
            frame = frame.f_back
        return True

    def note(frame, event: str, _) -> None:  # it is called a million times for a figure
        code = frame.f_code
        if id(code) not in called and event == "call":
            if not code.co_filename.startswith(ours) or counts(frame):
                called[id(code)] = code

    found: dict[Path, set[int]] = {}
    traced = sys.gettrace() is not None  # by coverage, say: a profile sees the same calls, more slowly
    get: Callable = sys.getprofile if traced else sys.gettrace
    set_: Callable = sys.setprofile if traced else sys.settrace
    before = get()
    set_(note)
    try:
        yield found
    finally:
        set_(before)
        for code in called.values():
            file = code.co_filename
            if file.startswith(ours) and file not in UNRECORDED and code.co_name != "<module>":
                found.setdefault(Path(file), set()).add(code.co_firstlineno)
