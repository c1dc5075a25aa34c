"""Pages of the site as they are written: the claims, the first page, the reference of the package."""

import runpy
import types

import pytest

from causalnb.course import claims, site
from tests.repo.tree import ROOT

ROW = claims.Judged(
    "sci.claim1",
    "sci",
    "a < b",
    "+2 pp",
    "0.4 ± 0.9 pp",
    "5 pairs",
    "excluded",
    "",
    "sci.x",
    "Table 1",
    "20_a",
)
ROWS = [ROW, ROW._replace(id="sci.claim2", verdict="opposite", artefact="sci.y", printed_as="Figure 2")]
MADE = {"sci.x": {"files": {"sci/x.md": ""}}, "sci.y": {"files": {"sci/y.svg": ""}, "alt": 'A "line".'}}


@pytest.fixture
def page(monkeypatch):
    monkeypatch.setattr(claims.manifest, "entries", lambda profile: MADE)
    return claims.page(ROWS, {"sci": "SCI", "iclm": "ICLM"})


def test_the_page_of_claims_has_a_row_for_each_and_its_filters(page):
    assert "2 claims that can be checked" in page and "a &lt; b" in page and "<small>5 pairs</small>" in page
    assert page.count("<tr id=") == 2 and 'href="figures/sci.html#sci-x"' in page
    assert '<option value="excluded">' in page and '<option value="reproduced">' not in page
    assert page.count("<dt>") == 2 and claims.MEANINGS["excluded"] in page


def test_bars_count_and_link_and_a_claim_unfolds_its_figure_but_no_table(page):
    assert 'aria-label="SCI: 1 opposite" href="results.html?source=sci&amp;verdict=opposite">1</a>' in page
    assert "ICLM: " not in page
    assert "<summary>Show Figure 2</summary>" in page and "Show Table 1" not in page
    assert 'loading="lazy" src="_static/figures/sci/y.svg" alt="A &quot;line&quot;."' in page


def test_the_first_page_has_parts_minutes_and_a_tree(book, tmp_path):
    (tmp_path / "README.md").write_text(
        "| [10 All means](notebooks/10_means.ipynb) | how a mean is made |\n", encoding="utf-8"
    )
    page = site._index([book], ROWS, {})
    assert "### Causal Transformer: the attention map\n" in page and "(results.md)" in page
    assert "- **[10 All means](notebooks/10_means.ipynb)**<br>how a mean is made<br>" in page
    assert f"{book.reading} minutes to read, 2 to run, {book.writing} to write" in page
    assert (
        ":caption: Causal Transformer: the attention map\n:maxdepth: 1\n\n10 All means <notebooks/10_means>"
        in page
    )


def test_public_names_are_listed_with_what_they_do():
    def told():
        """What is *told* of `x_y`.

        More.
        """

    module = types.SimpleNamespace(__name__="here", __all__=["told", "number"], told=told, number=3)
    assert [name for name, _ in site._public(module)] == ["told"]
    assert site._line(told) == r"What is \*told\* of `x_y`."


@pytest.mark.parametrize(
    "docstring, page",
    [
        ("It adds. ValueError for none.", "It adds.\n\n**Raises** ValueError for none."),
        ("It adds.\n\nRaises LabError\nfor x.\n\nOf a.", "It adds.\n\nOf a.\n\n**Raises** LabError\nfor x."),
        (
            "Not measured: ValueError. Then a_b.c, e.g. f(x=1).",
            "Not measured: ValueError. Then ``a_b.c``, e.g. ``f(x=1)``.",
        ),
        ('A "b" of `c d` * 2:\n\n  x\n  y', 'A \\\\"b\\\\" of ``c d`` \\\\* 2:\n\n|   x\n|   y'),
    ],
)
def test_a_docstring_says_what_it_does_before_what_it_raises(docstring, page):
    configuration = runpy.run_path(str(ROOT / "course/conf.py"))
    lines = docstring.split("\n")
    configuration["plain"](None, "function", "f", None, None, lines)
    assert "\n".join(lines).strip().replace("\\ ", "") == page.replace("\\\\", "\\")
