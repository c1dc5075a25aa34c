"""Notebook 20 defines the guide's pieces with the code of causalnb/sci/guide.py, docstrings aside."""

import ast
import json

import pytest

from tests.repo.tree import ROOT, code_of


def definitions(source: str) -> dict[str, list[str]]:
    """Name -> syntax trees, without docstrings, of the classes and functions at the top of a source."""
    found = {}
    for node in ast.parse(source).body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            for part in ast.walk(node):
                if isinstance(part, (ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(part) is not None:
                    part.body = part.body[1:]
            found.setdefault(node.name, []).append(ast.dump(node))
    return found


GUIDE = definitions((ROOT / "causalnb/sci/guide.py").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def notebook():
    return definitions(
        code_of(json.loads((ROOT / "notebooks/20_sci_components.ipynb").read_text(encoding="utf-8")))
    )


@pytest.mark.parametrize("name", GUIDE)
def test_the_notebook_shows_the_code_of_the_guide(name, notebook):
    assert notebook.get(name) == GUIDE[name]


SOURCE = 'class A:\n    """Doc."""\n    def f(self):\n        return 1'


@pytest.mark.parametrize(
    "other, same",
    [
        (SOURCE.replace('    """Doc."""\n', "    # said otherwise\n"), True),
        (SOURCE.replace("1", "2"), False),
        (SOURCE + "\n" + SOURCE, False),
        (SOURCE.replace("f(self)", "f(self, x=1)"), False),
        ("", False),
    ],
)
def test_a_drift_is_seen(other, same):
    assert (definitions(other).get("A") == definitions(SOURCE)["A"]) is same
