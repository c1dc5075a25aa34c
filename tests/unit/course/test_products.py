"""`causalnb course` and `causalnb lab`, on a course of one notebook."""

import json
import os
import subprocess

import pytest
from nbformat import NotebookNode
from typer.testing import CliRunner

import causalnb
from causalnb import cli
from causalnb.course import checking, site, source
from causalnb.errors import LabError


def call(*words, code=0):
    result = CliRunner().invoke(cli.app, list(map(str, words)))
    assert result.exit_code == code, (result.stdout, result.stderr, result.exception)
    return result.stdout, result.stderr


def test_build_writes_a_folder_for_each_product(book, tmp_path):
    out, _ = call("course", "build", "10", "--to", "student", "--to", "tutor", "--out", tmp_path / "out")
    assert [(tmp_path / line).is_file() for line in out.split()] == [True, True]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["student", "tutor"]
    assert "--colab is for" in call("course", "build", "--to", "tutor", "--colab", "https://a.b/c", code=2)[1]
    assert "--nbgrader is for" in call("course", "build", "--to", "tutor", "--nbgrader", code=2)[1]


def test_check_says_what_passes_and_exits_with_1_for_the_rest(book, tmp_path, monkeypatch):
    outcomes = {"a": "passed", "b": "failed", "c": None}

    def check(path, profile, timeout):
        if outcomes[path.stem] is None:
            raise LabError("c.ipynb is no student's copy")
        return "10_means", [checking.Outcome("1", "exercise", 1, 5, outcomes[path.stem], "")]

    monkeypatch.setattr(checking, "check", check)
    assert call("course", "check", "a.ipynb")[0] == "a.ipynb\t1\t1\tpassed\n"
    out, _ = call("course", "check", "a.ipynb", "b.ipynb", "c.ipynb", "--json", code=1)
    found = json.loads(out)
    assert [[task["outcome"] for task in one["tasks"]] for one in found] == [["passed"], ["failed"], []]
    assert found[2]["error"] == "c.ipynb is no student's copy" and found[0]["notebook"] == "10_means"


def test_lab_opens_copies_and_leaves_work_alone(book, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(subprocess, "call", lambda words: asked.append(words[-1]) or 0)
    book.path.rename(book.path.with_name("00_start_here.ipynb"))
    call("lab")
    copy = tmp_path / "work/00_start_here.ipynb"
    assert asked == [str(copy)] and "raise NotImplementedError" in copy.read_text(encoding="utf-8")
    copy.write_text("mine", encoding="utf-8")
    call("lab")
    assert copy.read_text(encoding="utf-8") == "mine"


def test_a_copy_for_colab_installs_this_version_where_it_is_missing(book, tmp_path):
    address = "https://host.org/owner/causalnb"
    call("course", "build", "--to", "student", "--colab", address, "--out", tmp_path / "out")
    made = source.Source(tmp_path / "out/student/10_means.ipynb")
    first = source.text(made.cells[1])
    assert f"--branch v{causalnb.__version__} {address} course\n" in first and "desk(" in source.text(
        made.cells[2]
    )
    exec(source.plain(first), {})  # it is installed here: nothing happens
    assert os.environ["CAUSALNB_HOME"] == str(tmp_path)
    for wrong in ("ftp://a.b/c", "https://a.b", "https://a.b/c; rm x", "https://a.b/c\n%pip install y"):
        assert "is no address" in call("course", "build", "--to", "student", "--colab", wrong, code=2)[1]


def test_broken_links_and_pictures_are_found(tmp_path):
    (tmp_path / "a.html").write_text(
        '<a href="b.html#there">1</a><a href="b.html#gone">2</a>', encoding="utf-8"
    )
    (tmp_path / "b.html").write_text(
        '<p id="there"><img src="c.png"><a href="https://x.org">', encoding="utf-8"
    )
    assert site.broken(tmp_path) == [("a.html", "b.html#gone"), ("b.html", "c.png")]


def test_the_site_folds_solutions_and_evidence():
    cells = [NotebookNode(metadata=NotebookNode(tags=[tag])) for tag in ("solution", "evidence", "data")]
    site.fold(cells)
    assert ["hide-cell" in cell.metadata["tags"] for cell in cells] == [True, True, False]


def test_a_site_without_its_packages_is_refused(book, tmp_path, monkeypatch):
    monkeypatch.setattr(site, "NEEDS", ("no_such_package",))
    with pytest.raises(LabError, match="needs no_such_package, which is not installed: pip install -e"):
        site.build([book], tmp_path / "site")


def test_a_route_adds_its_minutes_up(book):
    table = site.route("10", [book])
    assert f"| [10 · Means](notebooks/10_means.ipynb) | {book.reading} | 2 | {book.writing} |" in table
    assert table.endswith(f"| **together** | {book.reading} | 2 | {book.writing} |")
