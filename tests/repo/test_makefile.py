"""`make setup` against a stand-in for Python that records what it is asked, and the README's commands."""

import os
import re
import shutil
import subprocess
import sys

import pytest

from tests.repo.tree import ROOT

STAND_IN = """#!/bin/sh
case "$0" in */ruff|*/mypy) echo "-m ${{0##*/}} $*" >> "{log}" ;; *) echo "$@" >> "{log}" ;; esac
case "$*" in
  *"-m venv"*) mkdir -p "$3/bin" && for tool in python ruff mypy; do cp "$0" "$3/bin/$tool"; done ;;
  -c*) exec "{python}" -c "import sys; sys.version_info = {version}
$2" ;;
esac
case "${{0##*/}} $*" in *"{fails}"*) exit 1 ;; esac
"""
LINT = ["-m ruff format --check causalnb tests", "-m ruff check causalnb tests", "-m mypy"]


class Clone:
    """The Makefile in a folder of its own, with a Python that installs nothing."""

    def __init__(self, folder, version=(3, 11, 2), fails="nothing"):
        self.folder, self.log, self.version = folder, folder / "log", version
        for name in ("Makefile", "pyproject.toml", "constraints.txt"):
            shutil.copy(ROOT / name, folder)
        self.answer(fails)

    def answer(self, fails):
        script = self.folder / "python"
        values = {"log": self.log, "python": sys.executable, "version": self.version, "fails": fails}
        script.write_text(STAND_IN.format(**values), encoding="utf-8")
        script.chmod(0o755)
        if (self.folder / ".venv/bin").exists():
            for tool in ("python", "ruff", "mypy"):
                shutil.copy(script, self.folder / ".venv/bin" / tool)

    def make(self, *targets):
        self.log.write_text("", encoding="utf-8")
        words = ["make", "PYTHON=./python", *targets]
        done = subprocess.run(words, cwd=self.folder, capture_output=True, encoding="utf-8")
        return done, [
            line.strip()
            for line in self.log.read_text(encoding="utf-8").splitlines()
            if line.startswith("-m ")
        ]


def test_setup_installs_torch_first_and_pinned_then_nothing(tmp_path):
    clone = Clone(tmp_path)
    done, asked = clone.make("setup")
    assert done.returncode == 0, done.stderr
    venv, torch, rest = asked
    assert venv == "-m venv .venv"
    assert torch.startswith("-m pip install") and torch.endswith("-c constraints.txt torch")
    assert rest.startswith("-m pip install") and rest.endswith("-c constraints.txt -e .[lab,test]")
    assert clone.make("setup")[1] == []


@pytest.mark.parametrize("name", ["pyproject.toml", "constraints.txt"])
def test_setup_again_after_a_change(tmp_path, name):
    clone = Clone(tmp_path)
    clone.make("setup")
    later = (tmp_path / ".venv/.causalnb").stat().st_mtime + 10
    os.utime(tmp_path / name, (later, later))
    assert len(clone.make("setup")[1]) == 2


def test_an_interrupted_setup_is_completed(tmp_path):
    clone = Clone(tmp_path, fails="torch")
    assert clone.make("setup")[0].returncode == 2
    clone.answer("nothing")
    done, asked = clone.make("setup")
    assert done.returncode == 0 and len(asked) == 2


def test_an_old_python_is_refused_in_one_sentence(tmp_path):
    done, asked = Clone(tmp_path, version=(3, 9, 1)).make("setup")
    assert done.returncode == 2 and asked == []
    assert "causalnb needs Python 3.11 or newer, and ./python is 3.9: install one and run" in done.stderr


@pytest.mark.parametrize(
    "target, command",
    [
        ("reproduce", "-m causalnb reproduce --jobs 2"),
        ("lab", "-m causalnb lab --jobs 2"),
        (
            "gpu",
            "-m causalnb run causal_transformer.real sci.real iclm.real c2dlm.real --profile gpu --minutes 8 "
            "--archive gpu.tar.gz --jobs 2",
        ),
        ("bench", "-m tests.benchmarks --jobs 2"),
        ("attack", "-m tests.attack --jobs 2"),
    ],
)
def test_targets_set_up_and_call_the_package(tmp_path, target, command):
    done, asked = Clone(tmp_path).make(target, "ARGS=--jobs 2")
    assert done.returncode == 0 and asked[0] == "-m venv .venv" and asked[-1] == command


def test_make_test_runs_three_suites_and_leaves_nothing(tmp_path):
    done, asked = Clone(tmp_path).make("test")
    assert done.returncode == 0, done.stderr
    lint, (*suites, copies, last) = asked[3:6], asked[6:]
    suites.append(last)
    assert lint == LINT and copies.startswith("-m causalnb course build 00 20 --to student --to tutor --out ")
    assert last.split()[-2] == f"{copies.split()[-1]}/student"
    assert [line.split()[-1] for line in suites] == ["tests/unit", "tests/repo", "notebooks"]
    assert "--nbval-lax" in suites[2]


@pytest.mark.parametrize("suite", ["tests/unit", "tests/repo", "notebooks"])
def test_make_test_fails_with_any_suite(tmp_path, suite):
    assert Clone(tmp_path, fails=suite).make("test")[0].returncode == 2


@pytest.mark.parametrize("tool", LINT)
def test_make_test_begins_with_lint_and_ends_where_it_fails(tmp_path, tool):
    done, asked = Clone(tmp_path, fails=tool.removeprefix("-m ")).make("test")
    assert done.returncode == 2 and asked[3:] == LINT[: LINT.index(tool) + 1]


def test_make_lint_calls_ruff_and_mypy_and_nothing_else(tmp_path):
    done, asked = Clone(tmp_path).make("lint")
    assert done.returncode == 0 and asked[3:] == LINT


def test_make_release_is_make_test_with_its_coverage_that_refuses_what_is_not_verified(tmp_path):
    clone = Clone(tmp_path)
    tested, refusal = clone.make("test")[1], "-m causalnb list --extras --strict"
    released, covered = clone.make("release")[1], "--cov=causalnb --cov-fail-under=95 "
    tested, released = (
        [re.sub(r"/\S+/course", "course", line) for line in lines] for lines in (tested, released)
    )
    assert [line.replace(covered, "") for line in released] == [*tested[3:], refusal]
    assert [covered in line for line in released].count(True) == 1 and covered + "tests/unit" in released[3]
    clone.answer(fails=refusal.removeprefix("-m "))
    assert clone.make("release")[0].returncode == 2


def test_clean_keeps_results(tmp_path):
    clone = Clone(tmp_path)
    for name in (
        "data/results/laptop/a.json",
        "data/results/laptop/.b.json.lock",
        "data/downloads/b",
        "data/cache/runs/c",
        "build/d",
        "figures/e",
        "causalnb/__pycache__/f",
        "tests/g",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert clone.make("clean")[0].returncode == 0
    left = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {
        "Makefile",
        "pyproject.toml",
        "constraints.txt",
        "python",
        "log",
        "tests/g",
        "data/results/laptop/a.json",
        "data/results/laptop/.b.json.lock",
        "data/downloads/b",
        "figures/e",
    }


def test_the_documents_name_real_targets_and_commands():
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.M))
    from typer.main import get_command

    from causalnb.cli import app

    known = {"make": targets, "causalnb": set(get_command(app).commands)}
    command = re.compile(r"^`?(?:[A-Z_]+=\S+ )*(make|causalnb) (\w+)", re.M)
    for name in ("README.md", "CONTRIBUTING.md"):
        code = re.findall(r"```.*?```|`[^`\n]+`", (ROOT / name).read_text(encoding="utf-8"), flags=re.S)
        said = [pair for block in code for pair in command.findall(block)]
        assert said and not [(tool, word) for tool, word in said if word not in known[tool]]
