"""pyproject.toml is the one truth: conda, the pins, what we import, CI and the citation agree with it."""

import importlib.metadata
import os
import sys
import tomllib

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

import causalnb
from causalnb.lab.doctor import OPTIONAL
from tests.repo.tree import ROOT, imports, named, sources

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
SETUP = [name for name in EXTRAS if name not in OPTIONAL]  # what `make setup` installs
COURSE = ["site", "browser"]  # and `make course` besides
ADDED = {
    Requirement(line).name.replace("-", "_").replace("sphinxcontrib_", "sphinxcontrib.").split(".")[0]
    for name in OPTIONAL
    for line in EXTRAS[name]
}


def ranges(*extras: str) -> dict:
    """{package: the versions allowed} of the package's own needs and of those of some extras."""
    lines = [*PROJECT["dependencies"], *(line for extra in extras for line in EXTRAS[extra])]
    return {canonicalize_name(need.name): need.specifier for need in map(Requirement, lines)}


RANGES = ranges(*SETUP)
CONDA = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))["dependencies"]
PROVIDERS = importlib.metadata.packages_distributions()
PINS = [
    line
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    if line and line[0] != "#"
]


def conda_problems(dependencies: list) -> list[str]:
    """Where a conda environment says something else than pyproject.toml."""
    named = [Requirement(line) for line in dependencies if isinstance(line, str)]
    pip = [line for entry in dependencies if isinstance(entry, dict) for line in entry["pip"]]
    allowed = RANGES | {"python": SpecifierSet(PROJECT["requires-python"]), "pip": SpecifierSet()}
    wanted = ["-c constraints.txt", f"-e .[{','.join(SETUP)}]"]
    return [
        f"{need} (pyproject.toml: {allowed.get(need.name, 'absent')})"
        for need in named
        if need.specifier != allowed.get(need.name)
    ] + [f"pip: {pip}"] * (pip != wanted)


def pin_problems(pins: list[str]) -> list[str]:
    """Pins that are no plain name==version, ranges without a pin, and pins outside their range."""
    odd = [
        line
        for line in pins
        if [spec.operator for spec in Requirement(line).specifier] != ["=="] or "+" in line or "@" in line
    ]
    exact = {canonicalize_name(line.split("==")[0]): line.split("==")[1] for line in pins if line not in odd}
    return odd + [
        f"{name}{span}: {exact.get(name)}"
        for name, span in ranges(*SETUP, *COURSE).items()
        if name not in exact or not span.contains(exact[name])
    ]


def undeclared(source: str) -> set[str]:
    """Top-level modules a source imports that Python, this project and declared packages do not provide."""
    tops = {name.split(".")[0] for name in imports(source, "causalnb._._")}
    tops -= {"causalnb", "tests"} | ADDED | sys.stdlib_module_names
    return {top for top in tops if not set(map(canonicalize_name, PROVIDERS.get(top, []))) & set(RANGES)}


def test_conda_agrees():
    assert not conda_problems(CONDA)


@pytest.mark.parametrize(
    "fault",
    [
        ["python>=3.10", *CONDA[1:]],
        [*CONDA, "numpy<2"],
        [*CONDA, "sympy"],
        [*CONDA[:-1], {"pip": ["-e .[lab]"]}],
    ],
)
def test_a_conda_disagreement_is_seen(fault):
    assert conda_problems(fault)


def test_pins_are_exact_and_in_range():
    assert not pin_problems(PINS)


@pytest.mark.parametrize(
    "fault",
    [
        PINS[1:],
        [*PINS, "numpy==1.26"],
        [*PINS, "x>=1"],
        [*PINS, "x @ file:///y"],
        [*PINS, "torch==2.13.0+cpu"],
    ],
)
def test_a_bad_pin_is_seen(fault):
    assert pin_problems(fault)


@pytest.mark.parametrize("name", RANGES)
def test_what_is_installed_is_in_range(name):
    assert RANGES[name].contains(importlib.metadata.version(name))


@pytest.mark.parametrize("name, source", sources(), ids=named)
def test_imports_are_declared(name, source):
    made_by_tests = {"toylab", "toylate", "toyline"}
    assert not undeclared(source) - made_by_tests


def test_an_undeclared_import_is_seen():
    source = "import numpy, yaml, os, not_a_package\nfrom flask import Flask\nfrom . import own"
    assert undeclared(source) == {"not_a_package", "flask"}


def test_setup_and_course_install_every_extra():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for extras in (SETUP, [*SETUP, *COURSE]):
        assert f"-c constraints.txt -e '.[{','.join(extras)}]'" in makefile


def test_ci_does_what_a_newcomer_does():
    lines = (ROOT / ".ci/run").read_text(encoding="utf-8").splitlines()
    commands = [line for line in lines if line and not line.startswith(("#", "set ", "cd "))]
    assert commands == ["make test"] and os.access(ROOT / ".ci/run", os.X_OK)
    job = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text(encoding="utf-8"))["jobs"]["test"]
    assert [step["run"] for step in job["steps"] if "run" in step] == [".ci/run"]
    versions, allowed = job["strategy"]["matrix"]["python"], SpecifierSet(PROJECT["requires-python"])
    assert versions and all(allowed.contains(version) for version in versions)


def test_the_citation_agrees():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert (citation["version"], citation["license"]) == (causalnb.__version__, PROJECT["license"])
    assert PROJECT["authors"][0]["name"] == citation["authors"][0]["name"]
    assert "MIT License" in (ROOT / "LICENSE").read_text(encoding="utf-8")
