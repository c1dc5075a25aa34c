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


def foreign_code(source: str) -> list[str]:
    """Loads of any model, configuration or tokenizer by name that do not say trust_remote_code=False.

    A method of an Auto class may be called, or be given to a function that is told the same.
    """
    tree = ast.parse(source)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    stated = {
        id(part)
        for call in calls
        if any(
            word.arg == "trust_remote_code" and ast.unparse(word.value) == "False" for word in call.keywords
        )
        for part in (call.func, *call.args)
    }
    methods = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    loads = [
        node for node in methods if re.search(r"\bAuto\w+\.from_(pretrained|config)$", ast.unparse(node))
    ]
    loads += [call.func for call in calls if ast.unparse(call.func).split(".")[-1] == "pipeline"]
    return [f"line {node.lineno}: {ast.unparse(node)}" for node in loads if id(node) not in stated]


@pytest.mark.parametrize(
    "name, source", [pair for pair in sources() if not pair[0].startswith("tests/")], ids=named
)
def test_no_foreign_code(name, source):
    assert not foreign_code(source)


@pytest.mark.parametrize(
    "source",
    [
        "AutoTokenizer.from_pretrained(folder)",
        "transformers.AutoModel.from_pretrained(folder, trust_remote_code=None)",
        "AutoModelForCausalLM.from_config(config, dtype=dtype)",
        "whole(AutoConfig.from_pretrained, folder)",
        "load = AutoConfig.from_pretrained\nload(folder, trust_remote_code=False)",
        "transformers.pipeline('text-generation', name)",
    ],
)
def test_foreign_code_is_seen(source):
    assert foreign_code(source)


def test_what_runs_no_foreign_code_passes():
    assert not foreign_code(
        "AutoModel.from_pretrained(f, trust_remote_code=False)\nAutoConfig.for_model('llama')\n"
        "whole(AutoConfig.from_pretrained, f, trust_remote_code=False)\n"
        "make_pipeline(a)\nSCITransformer.from_pretrained(f)"
    )


def test_no_path_of_one_machine():
    found = [
        f"{path.relative_to(ROOT)}: {hit[0]}"
        for path in files()
        if path.suffix in TEXT
        for hit in [MACHINE.search(path.read_text(errors="replace", encoding="utf-8"))]
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


def unnamed_encodings(source: str) -> list[str]:
    """Calls that read or write text in whatever encoding the computer has; ruff sees those of known types."""
    found = []
    for call in (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)):
        named = {word.arg: ast.unparse(word.value) for word in call.keywords}
        *_, name = ast.unparse(call.func).split(".")
        if name in ("read_text", "write_text"):
            plain = len(call.args) == (name == "write_text")
        elif name in ("open", "fdopen") and not re.match(
            r"(os|gzip|tarfile|\w*[Ii]mage)\.open", ast.unparse(call.func)
        ):
            place = name == "fdopen" or isinstance(call.func, ast.Name)
            mode = named.get("mode") or " ".join(map(ast.unparse, call.args[place : place + 1]))
            plain = "b" not in mode.replace("os.devnull", "")
        else:
            plain = name in ("run", "Popen", "check_output") and "text" in named
        if plain and "encoding" not in named:
            found.append(f"line {call.lineno}: {ast.unparse(call)[:80]}")
    return found


@pytest.mark.parametrize("name, source", [pair for pair in sources() if pair[0].endswith(".py")], ids=named)
def test_text_names_its_encoding(name, source):
    assert not unnamed_encodings(source)


@pytest.mark.parametrize(
    "source",
    [
        "path.read_text()",
        "path.read_text(errors='replace')",
        "(a / b).write_text('x')",
        "open(a)",
        "open(a, 'w', buffering=1)",
        "os.fdopen(1, 'w')",
        "path.open(mode='a')",
        "subprocess.run(words, text=True)",
    ],
)
def test_an_encoding_that_is_not_named_is_seen(source):
    assert unnamed_encodings(source)


def test_named_encodings_and_bytes_pass():
    assert not unnamed_encodings(
        "p.read_text('utf-8')\np.write_text(x, encoding='ascii')\nopen(a, 'rb')\nos.open(a, 1)\n"
        "p.open('wb')\nrun(words, encoding='utf-8')\nrun(words)\nos.fdopen(1, 'wb')"
    )


def test_no_large_file():
    sizes = {str(path.relative_to(ROOT)): path.stat().st_size for path in files()}
    models = {name: size for name, size in sizes.items() if name.startswith("data/models/")}
    for source in ("c2dlm", "iclm"):
        assert sum(n for name, n in models.items() if name.startswith(f"data/models/{source}_")) <= 5_000_000
    assert not {name: size for name, size in sizes.items() if size >= 1_000_000 and name not in models}


def test_nothing_but_text_lies_at_the_top():
    assert not [path.name for path in files() if path.parent == ROOT and path.suffix not in {*TEXT, ".yaml"}]
