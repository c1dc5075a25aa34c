"""No paths of one machine, no unsafe loading, no big files."""

import ast
import re
import sys
from pathlib import Path

import pytest

from tests.repo.tree import ROOT, TEXT, files, named, sources

OWN = "|".join(
    re.escape(str(place)) for place in {ROOT, Path.home(), Path(sys.prefix)} if len(place.parts) > 1
)
MACHINE = re.compile(rf"(?<![\w.])(?:/(?:root|home|Users)/[\w.-]|(?:{OWN})\b)")
RISKY = {"extractall", "read_pickle", "to_pickle", "unpack_archive"}
UNSAFE = {
    "trust_remote_code": True,
    "verify": False,
    "allow_pickle": True,
    "safe_serialization": False,
    "weights_only": False,
    "shell": True,
}
PICKLES = {"pickle", "cloudpickle", "dill", "joblib", "shelve", "marshal"}


def unsafe(source: str) -> list[str]:
    """Calls and imports that run code from a file, skip a check or unpack unseen paths."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names = [alias.name for alias in node.names]
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else names
            found += [f"line {node.lineno}: import {name}" for name in names if name.split(".")[0] in PICKLES]
        if isinstance(node, ast.Attribute) and node.attr in RISKY:
            found.append(f"line {node.lineno}: {node.attr}")
        if isinstance(node, ast.Call):
            said = {word.arg: getattr(word.value, "value", None) for word in node.keywords}
            found += [
                f"line {node.lineno}: {key}={value}"
                for key, value in UNSAFE.items()
                if key in said and said[key] is value
            ]
            if ast.unparse(node.func).endswith("torch.load") and said.get("weights_only") is not True:
                found.append(f"line {node.lineno}: torch.load without weights_only=True")
    return found


def test_no_path_of_one_machine():
    found = [
        f"{path.relative_to(ROOT)}: {hit[0]}"
        for path in files()
        if path.suffix in TEXT
        for hit in [MACHINE.search(path.read_text(errors="replace"))]
        if hit
    ]
    assert not found


@pytest.mark.parametrize("text", [f"see {ROOT}/x", '"/' + 'root/a"', "/home" + "/me/x"])
def test_a_machine_path_is_seen(text):
    assert MACHINE.search(text)


@pytest.mark.parametrize("name, source", sources(), ids=named)
def test_nothing_unsafe(name, source):
    assert not unsafe(source)


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from dill import load",
        "torch.load(f)",
        "torch.load(f, weights_only=False)",
        "tar.extractall('x')",
        "get(url, verify=False)",
        "numpy.load(f, allow_pickle=True)",
        "AutoModel.from_pretrained(n, trust_remote_code=True)",
        "model.save_pretrained(f, safe_serialization=False)",
        "run(line, shell=True)",
    ],
)
def test_unsafe_code_is_seen(source):
    assert unsafe(source)


def test_safe_code_passes():
    assert not unsafe("import json\ntorch.load(f, weights_only=True)\nget(u, verify=True)\nm.save(f)")


def test_no_large_file():
    sizes = {str(path.relative_to(ROOT)): path.stat().st_size for path in files()}
    models = {name: size for name, size in sizes.items() if name.startswith("data/models/")}
    for source in ("c2dlm", "iclm"):
        assert sum(n for name, n in models.items() if name.startswith(f"data/models/{source}_")) <= 5_000_000
    assert not {name: size for name, size in sizes.items() if size >= 1_000_000 and name not in models}
