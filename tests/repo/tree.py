"""What the repository checks look at: the files git would commit, their syntax trees, the notebooks."""

import ast
import json
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROFILES = {"quick", "laptop", "gpu", "paper"}
TEXT = {".py", ".md", ".toml", ".yml", ".ipynb", ".json", ".cff", ".txt", ".csv", ".tex", ".svg", ""}


@cache
def files() -> tuple[Path, ...]:
    """Tracked files and new ones that git does not ignore."""
    ask = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(ask, cwd=ROOT, check=True, capture_output=True, encoding="utf-8").stdout.split(
        "\0"
    )
    return tuple(path for path in sorted({ROOT / name for name in names if name}) if path.is_file())


def python(*folders: str) -> list[Path]:
    """The Python files under these top folders."""
    return [path for path in files() if path.suffix == ".py" and path.relative_to(ROOT).parts[0] in folders]


def notebooks() -> list[Path]:
    """The notebooks of the course."""
    return [path for path in files() if path.suffix == ".ipynb" and path.parent == ROOT / "notebooks"]


def code_of(notebook: dict) -> str:
    """The code cells of a notebook as one Python source, magics and shell lines blanked."""
    lines = [
        line
        for cell in notebook["cells"]
        if cell["cell_type"] == "code"
        for line in "".join(cell["source"]).splitlines()
    ]
    return "\n".join("" if line.lstrip().startswith(("%", "!")) else line for line in lines)


def sources() -> list[tuple[str, str]]:
    """(name, Python source) of every .py file and every notebook."""
    found = [
        (str(path.relative_to(ROOT)), path.read_text(encoding="utf-8"))
        for path in files()
        if path.suffix == ".py"
    ]
    return found + [
        (f"notebooks/{path.name}", code_of(json.loads(path.read_text(encoding="utf-8"))))
        for path in notebooks()
    ]


def named(value: str) -> str:
    """The id of a (name, source) pair in a report of pytest: the name alone."""
    return value if value.endswith((".py", ".ipynb")) else ""


def imports(source: str, module: str = "") -> set[str]:
    """Dotted names a source imports; `module` (dotted, .__init__ for packages) resolves relative ones."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = module.split(".")[: -node.level] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            names |= {f"{base}.{alias.name}" for alias in node.names}
    return names
