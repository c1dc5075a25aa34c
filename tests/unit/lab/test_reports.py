"""The commands that make tables and figures, on request in another form and place."""

import matplotlib.pyplot as plt
import pytest
from typer.testing import CliRunner

from causalnb import cli
from causalnb.cli import reports
from causalnb.errors import CausalnbError
from causalnb.lab import figures, registry, tables


@pytest.fixture
def course(lab):
    """A table in two parts and a figure, built."""

    @registry.artefact("toy.table1")
    def table(profile):
        columns = ["arm", "cells, points", "puzzles"]
        tables.save_table(tables.Table("toy.table1", columns, [["one", 1, 2]], "A toy table."))
        tables.save_table(tables.Table("toy.table1_more", ["arm", "rest"], [["one", 3]], "Another."))

    @registry.artefact("toy.fig1")
    def figure(profile):
        fig, ax = plt.subplots(figsize=(4, 3))
        ax.set_title("a title", fontsize=figures.text_size(8))
        figures.save_figure(fig, "toy.fig1", alt="Axes with a title and nothing else.")

    call("tables")
    call("figures")
    return lab.folder / "figures"


def call(*words, code=0):
    result = CliRunner().invoke(cli.app, words)
    assert result.exit_code == code, (result.stdout, result.stderr, result.exception)
    return result.stdout, result.stderr


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_tables_elsewhere(course, tmp_path):
    before, out = contents(course), tmp_path / "out"
    words = ("--format", "tex", "--columns", 'arm,"cells, points"', "--longtable", "--out", str(out))
    printed, said = call("tables", "toy.table1", *words)
    assert printed.split() == [str(out / "toy_table1.tex")] and [*out.iterdir()] == [out / "toy_table1.tex"]
    assert "left out: toy.table1_more has no column 'cells, points'" in said
    text = (out / "toy_table1.tex").read_text(encoding="utf-8")
    assert "longtable" in text and "cells, points" in text and "puzzles" not in text
    assert contents(course) == before


def test_tables_in_another_form_are_printed(course):
    before = contents(course)
    printed, _ = call("tables", "toy.table1", "--format", "csv", "--columns", "1")
    assert printed.split() == ["arm", "one", "arm", "one"]
    assert "adjustbox" in call("tables", "toy.table1", "--format", "tex", "--fit")[0]
    assert contents(course) == before
    assert "has no column 'speed'" in call("tables", "--columns", "speed", code=1)[1]


def test_figures_elsewhere(course, tmp_path):
    before, out = contents(course), tmp_path / "out"
    words = ("--format", "pdf,png", "--width", "10.16cm", "--style", "slides", "--out", str(out))
    assert len(call("figures", "toy.fig1", *words)[0].split()) == 2
    assert {path.name for path in out.iterdir()} == {"toy_fig1.pdf", "toy_fig1.png"}
    assert b"MediaBox [ 0 0 288 " in (out / "toy_fig1.pdf").read_bytes()
    assert contents(course) == before


def test_a_pdf_stays_beside(course):
    assert call("figures", "--format", "pdf")[0].split() == ["figures/toy/fig1.pdf"]
    call("figures")
    call("tables")
    assert (course / "toy" / "fig1.pdf").is_file()


def test_what_is_refused(course):
    for words in (("--width", "5in"), ("--style", "paper"), ("--format", "pgf")):
        assert "say with --out where" in call("figures", *words, code=2)[1]
    assert "'wide' is no length" in call("figures", "--width", "wide", "--out", "x", code=2)[1]
    assert "not saved as 'gif'" in call("figures", "--format", "gif", code=2)[1]


def test_lengths():
    lengths = {"5.5in": 5.5, "5.5": 5.5, "72.27pt": 1.0, "2.54 cm": 1.0, "25.4mm": 1.0, None: None}
    assert {text: reports.inches(text) for text in lengths} == pytest.approx(lengths)
    with pytest.raises(CausalnbError, match="'5 ells' is no length"):
        reports.inches("5 ells")
