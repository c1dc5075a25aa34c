"""Code without its place: what a hash sees, what ran, and what a name means."""

import ast
import importlib
import json
import sys
import textwrap
from pathlib import Path

import pytest

import causalnb
from causalnb.errors import LabError
from causalnb.lab import codebase, records
from causalnb.lab.codebase import Codebase, Index, tree

SOURCE = '''"""Doc."""
import os


class A:
    """Doc."""
    x = 1.0

    def f(self, a=1):
        """Doc."""
        return a
'''


def same(one: str, other: str) -> bool:
    return tree(ast.parse(textwrap.dedent(one))) == tree(ast.parse(textwrap.dedent(other)))


@pytest.mark.parametrize(
    "old, new, equal",
    [
        ("Doc", "Other", True),
        ("\n\n\n", "\n\n# why\n", True),
        ("(self, a=1)", "(self,\n        a = 1)", True),
        ('"""Doc."""\n        return', "return", True),
        ("1.0", "1", False),
        ("a=1", "a=2", False),
        ("return a", "return -a", False),
        ("import os", "import sys", False),
        ("import os", "import os\nimport causalnb.lab", True),
        ("import os", "import os\nfrom causalnb.lab.files import lock", True),
        ("import os", "import os\nfrom .files import lock", True),
        ("        return a", "        async def g(): pass\n        return a", False),
        ('"""Doc."""\n    x', "x", True),
        ("x = 1.0", "x: float = 1.0", True),
        ("x = 1.0", "x: float", False),
        ("a=1)", "a: int = 1) -> int", True),
        ("return a", "return zip(a, a, strict=True)", False),
        ("x = 1.0", 'x = 1.0\n    "not a docstring"', False),
    ],
)
def test_a_hash_sees_code_only(old, new, equal):
    changed = SOURCE.replace(old, new)
    assert changed != SOURCE and same(SOURCE, changed) is equal


@pytest.mark.parametrize(
    "lines, equal",
    [
        ("if x < 0:\n        raise ValueError(x)", True),
        ("if x < 0:\n        why = str(x)\n        raise ValueError(why)", True),
        ("if x < 0:\n        x = 0", False),
        ("if x < 0:\n        raise ValueError(x)\n    else:\n        x = 0", False),
        ("if (x := x + 1) < 0:\n        raise ValueError(x)", False),
        ("if x < 0:\n        print(x)\n        raise ValueError(x)", False),
    ],
)
def test_checks_that_only_raise_are_left_out(lines, equal):
    text = "def f(x):\n    {}\n    return 2 * x\n"
    assert same(text.format("pass"), text.format(f"pass\n    {lines}")) is equal


def test_a_zip_that_is_not_strict_is_a_zip():
    assert same("zip(a, b)", "zip(a, b, strict=False)") and not same("zip(a, b)", "zip(a, b, strict=True)")


def test_a_check_inside_a_try_counts():
    text = "try:\n    {}go()\nexcept ValueError:\n    pass\n"
    assert not same(text.format(""), text.format("if x:\n        raise ValueError\n    "))


def test_a_field_that_a_python_version_adds_changes_nothing():
    module = ast.parse("def f(): pass")
    before = tree(module)
    module.body[0].later = []
    module.body[0]._fields = (*module.body[0]._fields, "later")
    assert tree(module) == before


FILES = {
    "__init__.py": "from .models import build as make\n",
    "models.py": '''
        from shop.words import SIZE, names

        LIMIT = SIZE + 1

        class Model:
            width = LIMIT

            def run(self, n):
                """Doc."""
                total = 0
                for i in range(n):
                    total += i
                if n > 3:
                    total = -total
                return total

        def build(n):
            return Model().run(n) + len(names())

        def other():
            return 0
    ''',
    "words.py": "SIZE = 2\nUNUSED = 7\n\n\ndef names():\n    return ['a'] * SIZE\n",
    "deep/__init__.py": "",
    "deep/grid.py": """
        import shop.words as w
        from shop import make
        from ..words import names as n

        def run():
            from shop.models import other
            return make(w.SIZE) + other() + len(n())
    """,
}


@pytest.fixture
def shop(tmp_path):
    """A package of four modules that is never imported."""
    for name, text in FILES.items():
        file = tmp_path / "shop" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text).lstrip(), encoding="utf-8")
    return tmp_path / "shop"


def read(folder: Path) -> Codebase:
    return Codebase({"shop": folder})


def indexed(code: Codebase) -> Index:
    names = {}
    for unit in code.units:
        names.setdefault(unit.hash, []).extend((name, other.hash) for name, other in unit.names.items())
    return Index(names)


def unit(code: Codebase, name: str):
    (found,) = [unit for unit in code.units if unit.name == name]
    return found


@pytest.fixture(autouse=True)
def shop_is_ours(monkeypatch):
    monkeypatch.setattr("causalnb.CATALOGUES", ("shop",))


def test_names_are_followed_to_what_they_mean(shop):
    code = read(shop)
    assert {name: other.name for name, other in unit(code, "run").names.items()} == {
        "w.SIZE": "SIZE",
        "make": "build",
        "other": "other",
        "n": "names",
    }
    assert unit(code, "Model.run").owner is unit(code, "Model")


def lines_of(code: Codebase, *names: str) -> dict:
    found = {}
    for name in names:
        node = unit(code, name).node
        found.setdefault(unit(code, name).file, set()).update(range(node.lineno, node.end_lineno + 1))
    return found


def test_what_ran_brings_its_classes_and_constants(shop):
    code = read(shop)
    ran = code.at(lines_of(code, "Model.run", "names"))
    assert {one.name for one in ran} == {"Model.run", "Model", "LIMIT", "SIZE", "names"}
    assert "UNUSED" not in {one.name for one in code.at(lines_of(code, "build", "run"))}


@pytest.mark.parametrize(
    "file, old, new, holds",
    [
        ("models.py", "total += i", "total += i  # why", True),
        ("models.py", "return 0", "return 1", True),  # other() did not run
        ("words.py", "UNUSED = 7", "UNUSED = 8", True),
        ("models.py", "total += i", "total -= i", False),
        ("models.py", "width = LIMIT", "width = 9", False),
        ("words.py", "SIZE = 2", "SIZE = 3", False),
        ("models.py", "SIZE + 1", "SIZE + 2", False),
    ],
)
def test_code_holds_while_all_that_ran_is_there(shop, file, old, new, holds):
    code = read(shop)
    hashes = frozenset(one.hash for one in code.at(lines_of(code, "Model.run", "build", "names")))
    before = {"units": " ".join(sorted(hashes)), "edges": indexed(code).edges(hashes)}
    assert indexed(code).holds(**before)
    text = (shop / file).read_text(encoding="utf-8")
    assert old in text
    (shop / file).write_text(text.replace(old, new), encoding="utf-8")
    assert indexed(read(shop)).holds(**before) is holds


def test_files_may_move_and_functions_too(shop):
    code = read(shop)
    hashes = frozenset(one.hash for one in code.at(lines_of(code, "Model.run", "build", "names")))
    before = {"units": " ".join(sorted(hashes)), "edges": indexed(code).edges(hashes)}
    (shop / "words.py").rename(shop / "deep" / "terms.py")
    moved = (shop / "models.py").read_text(encoding="utf-8").replace("shop.words", "shop.deep.terms")
    (shop / "models.py").write_text(moved, encoding="utf-8")
    assert indexed(read(shop)).holds(**before)


def test_a_name_that_means_another_function_is_seen(shop):
    (shop / "more.py").write_text("def names():\n    return []\n", encoding="utf-8")
    code = read(shop)
    hashes = frozenset(one.hash for one in code.at(lines_of(code, "build"))) | {unit(code, "build").hash}
    hashes |= {one.hash for one in code.units if one.name == "names"}  # both ran
    before = {"units": " ".join(sorted(hashes)), "edges": indexed(code).edges(hashes)}
    text = (shop / "models.py").read_text(encoding="utf-8")
    (shop / "models.py").write_text(
        text.replace("import SIZE, names", "import SIZE\nfrom shop.more import names"), encoding="utf-8"
    )
    assert not indexed(read(shop)).holds(**before)


def test_lines_that_did_not_run_are_named_once(shop):
    code = read(shop)
    run = unit(code, "Model.run")
    lines = {run.file.resolve(): set(range(run.node.lineno, run.node.end_lineno + 1))}
    taken = next(n.lineno for n in ast.walk(run.node) if isinstance(n, ast.Assign) and "-" in ast.unparse(n))
    lines[run.file.resolve()].discard(taken)
    missed = code.changed([run], lines, set())
    assert [place.rpartition(" ")[2] for place in missed.values()] == [str(taken)]
    assert code.changed([run], lines, set(missed)) == {}
    assert len(code.statements([run])) == 6  # total, for, +=, if, = -, return


def test_checks_that_did_not_run_do_not_count(tmp_path):
    (tmp_path / "shop.py").write_text(
        "def build(size, more=None):\n"
        "    if more is not None:\n"
        "        check_counts(1, more=more)\n"
        "    if size > 3:\n"
        "        check_counts(1, size=draw())\n"
        "    else:\n"
        "        check_counts(2, size=size)\n"
        "    if size:\n"
        "        size = check_counts(1)\n"
        "    return size\n",
        encoding="utf-8",
    )
    code = read(tmp_path)
    build = unit(code, "build")
    places = code.changed([build], {build.file.resolve(): set()}, set()).values()
    # not the first `if`; the second has two branches, of which one draws; and one keeps what a check returns
    assert [int(place.rpartition(" ")[2]) for place in places] == [4, 5, 8, 9, 10]


def test_what_is_named_check_does_nothing_but_raise():
    """So that a new check can be verified by probes that never meet it."""
    found = 0
    for file in (Path(causalnb.__file__).parent).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef) or not node.name.startswith("check_"):
                continue
            if ast.unparse(node.returns or ast.Constant("")) != "None":
                continue  # it is called for what it returns
            stores = [n for n in ast.walk(node) if isinstance(getattr(n, "ctx", None), ast.Store | ast.Del)]
            assert all(isinstance(n, ast.Name | ast.Tuple) for n in stores), (file, node.name)
            calls = [n for n in ast.walk(node) if isinstance(n, ast.Expr) and isinstance(n.value, ast.Call)]
            assert not calls and any(isinstance(n, ast.Raise) for n in ast.walk(node)), (file, node.name)
            assert not any(isinstance(n, ast.Global | ast.Nonlocal) for n in ast.walk(node))
            found += 1
    assert found >= 6


def test_recorded_sees_calls_of_ours_only(monkeypatch):
    monkeypatch.setattr(codebase, "roots", lambda: {"causalnb": Path(codebase.__file__).parents[1]})
    with codebase.recorded() as called:
        records.plain([1.5])
        json.dumps("y")
    assert set(called) == {Path(records.__file__)}
    ran = Codebase({"causalnb": Path(codebase.__file__).parent}).called(called)
    assert {one.name for one in ran} == {"plain"}


LATE = """
from functools import cache

from causalnb.lab.codebase import unrecorded

reads = []


def decorated(function):
    return function


@decorated
def word():
    return "word"


@cache
def words():
    return [word()]


def read():
    reads.append(1)


@cache
@unrecorded
def stored():
    read()


def go():
    stored()
    return words()
"""


def test_recorded_is_the_same_whatever_was_done_before(tmp_path, monkeypatch):
    (tmp_path / "late.py").write_text(LATE, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(codebase, "roots", lambda: {"late": tmp_path})
    units, found = Codebase({"late": tmp_path}), []
    for tracer in (None, None, lambda *_: None):  # the module is imported by the first
        before = sys.gettrace()
        sys.settrace(tracer or before)
        try:
            with codebase.recorded() as called:
                importlib.import_module("late").go()
        finally:
            sys.settrace(before)
        found.append({one.name for one in units.called(called)})
    assert found == [{"go", "words", "word"}] * 3
    assert sys.modules.pop("late").reads == [1]  # what is stored is not read again


def test_broken_code_is_named(shop):
    (shop / "words.py").write_text("x = ", encoding="utf-8")
    with pytest.raises(LabError, match="words.py line 1 is not valid Python: correct it"):
        read(shop)


def test_the_index_is_kept_until_a_file_changes(shop, monkeypatch, tmp_path):
    monkeypatch.setenv("CAUSALNB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(codebase, "roots", lambda: {"shop": shop})

    def fresh() -> Index:
        codebase.index.cache_clear()
        codebase.current.cache_clear()
        return codebase.index()

    try:
        first = fresh()
        (kept,) = (tmp_path / "cache").glob("code-*.json")
        with monkeypatch.context() as patch:
            patch.setattr(codebase, "current", None)
            codebase.index.cache_clear()
            assert codebase.index().names.keys() == first.names.keys()  # from the file, nothing is parsed
        whole = kept.read_bytes()
        kept.write_bytes(whole.replace(b"[", b"{", 1))
        assert fresh().digest == first.digest and kept.read_bytes() == whole  # a damaged one is made again
        (shop / "words.py").write_text("SIZE = 3\n", encoding="utf-8")
        assert fresh().digest != first.digest and not kept.exists()
    finally:
        codebase.index.cache_clear()
        codebase.current.cache_clear()
