"""Imports point one way, notebooks, cli > experiments > apps > {rooms, tasks, lab}; no profile branches."""

import ast
import subprocess
import sys

import pytest

from tests.repo import tree
from tests.repo.tree import PROFILES, ROOT, imports, python, sources

ROOMS = ("causal_transformer", "sci", "iclm", "c2dlm")
SHARED = {"paths", "errors"}
MAY = {
    room: {room, "attention", "cards", "checkpoints", "network", "parallel", "wrapping", "writing"}
    for room in ROOMS
} | {
    "attention": {"attention"},
    "__init__": {"registration"},
    "cards": {"cards"},
    "checkpoints": {"checkpoints"},
    "registration": {"registration"},
    "wrapping": {"cards", "checkpoints", "parallel", "wrapping"},
    "network": {"network"},
    "parallel": {"parallel"},
    "writing": {"writing"},
    "paths": SHARED,
    "errors": SHARED,
    "lab": SHARED | {"checkpoints", "lab", "writing"},
    "tasks": SHARED | {"network", "tasks", "writing"},
    "apps": SHARED | {"apps", "lab", "tasks", "attention", "cards", "checkpoints", "wrapping", *ROOMS},
}
MAY["course"] = SHARED | {"course", "lab", "apps"}  # the site has a page of the court's cards
MAY["experiments"] = MAY["apps"] | {"experiments"}
MAY["cli"] = MAY["__main__"] = MAY["experiments"] | {"cli", "course"}


def wrong_imports(source: str, module: str) -> list[str]:
    """Imports of ours that the part holding `module` may not make."""
    part = module.split(".")[1]
    ours = {name.split(".")[1] for name in imports(source, module) if name.startswith("causalnb.")}
    return [f"{module} imports causalnb.{name}" for name in sorted(ours - MAY.get(part, set()))]


def profile_branches(source: str) -> list[int]:
    """Lines that compare something with a profile's name; asking whether a mapping has the key does not."""
    lines = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare) and not (
            isinstance(node.left, ast.Constant) and isinstance(node.ops[0], (ast.In, ast.NotIn))
        ):
            sides = [node.left, *node.comparators]
        else:
            sides = [node.value] if isinstance(node, ast.MatchValue) else []
        words = {
            inner.value
            for side in sides
            for inner in ast.walk(side)
            if isinstance(inner, ast.Constant) and isinstance(inner.value, str)
        }
        lines += [node.lineno] if words & PROFILES else []
    return lines


def named(source: str, words: tuple[str, ...]) -> set[str]:
    """Which of these words a source uses as a name or as a part of a string, docstrings apart."""
    tree, found = ast.parse(source), set()
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and ast.get_docstring(node) is not None
    }
    for node in ast.walk(tree):
        text = node.id if isinstance(node, ast.Name) else node.value if isinstance(node, ast.Constant) else ""
        if isinstance(text, str) and id(node) not in docs:
            found |= set(text.replace("/", ".").split(".")) & set(words)
    return found


def dotted(path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


@pytest.mark.parametrize("path", python("causalnb"), ids=dotted)
def test_imports(path):
    assert not wrong_imports(path.read_text(encoding="utf-8"), dotted(path))


@pytest.mark.parametrize(
    "source, module",
    [
        ("from causalnb.lab import results", "causalnb.sci.model"),
        ("from ..tasks import scan", "causalnb.sci.model"),
        ("import causalnb.iclm", "causalnb.sci.__init__"),
        ("from causalnb import sci", "causalnb.tasks.scan"),
        ("def f():\n    import causalnb.sci.model", "causalnb.lab.training"),
        ("from .. import lab", "causalnb.tasks.__init__"),
        ("from causalnb.experiments.sci import scan", "causalnb.apps.sci.train"),
        ("from ...cli import common", "causalnb.apps.sci.train"),
        ("from causalnb.apps import sci", "causalnb.lab.training"),
        ("from causalnb.apps.sci import Settings", "causalnb.sci.model"),
    ],
)
def test_a_wrong_import_is_seen(source, module):
    assert wrong_imports(source, module)


def test_allowed_imports_pass():
    source = "from .structure import A\nfrom causalnb.attention import tap\nimport torch"
    source += "\nfrom causalnb.wrapping import unwrap"
    assert not wrong_imports(source, "causalnb.sci.model")
    source = "from causalnb.apps import sci"
    assert not wrong_imports(source, "causalnb.cli.applications")
    assert not wrong_imports(source, "causalnb.experiments.sci.quickstart")


def circles(edges: dict[str, set[str]]) -> list[set[str]]:
    """Sets of modules that import each other, in functions or not."""
    import networkx as nx

    graph = nx.DiGraph((one, other) for one, others in edges.items() for other in others)
    return [part for part in nx.strongly_connected_components(graph) if len(part) > 1]


def test_no_module_is_in_a_circle():
    known = {dotted(path).removesuffix(".__init__"): path for path in python("causalnb")}

    def meant(name: str) -> str:
        while name not in known:
            name = name.rpartition(".")[0]
        return name

    edges = {}
    for module, path in known.items():
        whole = f"{module}.__init__" if path.name == "__init__.py" else module
        named = {
            meant(name)
            for name in imports(path.read_text(encoding="utf-8"), whole)
            if name.startswith("causalnb.")
        }
        edges[module] = {name for name in named if known[name].name != "__init__.py"} - {module}
    assert sum(map(len, edges.values())) > 400 and not circles(edges)
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [{"a", "b", "c"}]


def test_the_lab_knows_no_experiment():
    for path in python("causalnb"):
        if path.parent.name == "lab":
            assert "causalnb.experiments" not in path.read_text(encoding="utf-8"), path.name


def test_the_lab_names_no_source():
    for path in python("causalnb"):
        if path.parent.name == "lab":
            assert not named(path.read_text(encoding="utf-8"), (*ROOMS, "scan")), path.name
    assert named('path = "data/sci/x.json"', ROOMS) == {"sci"} and not named('"""about sci."""', ROOMS)


@pytest.mark.parametrize(
    "name, source", [pair for pair in sources() if not pair[0].startswith("tests/")], ids=tree.named
)
def test_profiles_change_values_never_the_path(name, source):
    assert name == "causalnb/lab/profiles.py" or not profile_branches(source)


@pytest.mark.parametrize(
    "source",
    [
        'if p == "quick": pass',
        'x = 1 if p.name in ("gpu", "paper") else 2',
        'big = "laptop" != p',
        'match p:\n    case "quick":\n        pass',
    ],
)
def test_a_profile_branch_is_seen(source):
    assert profile_branches(source)


def test_asking_for_a_key_is_no_branch():
    assert not profile_branches('if "laptop" not in values: pass\nsteps = pick(quick=1, laptop=600)')


def test_importing_the_package_is_light():
    """`import causalnb` and the registry bring in neither torch nor transformers nor pandas."""
    heavy = "{'torch', 'transformers', 'pandas', 'datasets', 'matplotlib', 'sklearn'}"
    code = (
        "import sys, causalnb, causalnb.cli; from causalnb.lab import registry; registry.load_all(); "
        f"print(sorted({heavy} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, encoding="utf-8", check=True
    )
    assert done.stdout == "[]\n"
