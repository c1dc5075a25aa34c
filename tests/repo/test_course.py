"""course/ against the notebooks: what they cite is in references.bib, and links lead somewhere."""

import json
import re

import pytest

from causalnb.course import copies, site
from causalnb.course.source import Source, plain
from causalnb.tasks import english
from tests.repo.tree import ROOT, notebooks

BIB = (ROOT / "course/references.bib").read_text(encoding="utf-8")
TITLES = {key: title for key, title in re.findall(r"@\w+\{(\w+),.*?title = \{\{(.+?)\}\}", BIB, re.S)}


def bare(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "", text.lower())


def cited(path) -> list[str]:
    """The titles, in italics, in the references at a notebook's end."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"][-2:]
    whole = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    starts = [found.start() for found in re.finditer(r"References|\*\*The four sources", whole)]
    return re.findall(r"(?<!\*)\*([^*]+)\*(?!\*)", whole[starts[-1] :])


def unknown(titles: list[str]) -> list[str]:
    known = list(map(bare, TITLES.values()))
    return [
        one for one in titles if not any(k.startswith(bare(one)) or bare(one).startswith(k) for k in known)
    ]


@pytest.mark.parametrize("path", notebooks(), ids=lambda path: path.name)
def test_what_a_notebook_cites_is_in_the_bibliography(path):
    assert cited(path) and not unknown(cited(path))


def test_an_unknown_title_is_seen():
    assert unknown(["Attention is all you need", "A paper that nobody wrote"]) == [
        "A paper that nobody wrote"
    ]


def test_every_entry_is_cited():
    whole = "".join(bare(title) for path in notebooks() for title in cited(path))
    assert not [key for key, title in TITLES.items() if bare(title.split(":")[0]) not in whole]


@pytest.mark.parametrize("name", ["syllabus", "glossary", "notation"])
def test_links_and_routes_name_notebooks(name):
    text = (ROOT / f"course/{name}.md").read_text(encoding="utf-8")
    names = {path.name for path in notebooks()}
    linked = re.findall(r"\]\(([^)]+)\)", text)
    assert linked and set(linked) <= {f"../notebooks/{one}" for one in names}
    numbers = {word for route in re.findall(r"<!-- route (.+?) -->", text) for word in route.split()}
    assert not numbers - {"all"} - {name[:2] for name in names}


def test_a_route_is_named_below_its_comment_and_the_site_has_its_table_alone():
    text = (ROOT / "course/syllabus.md").read_text(encoding="utf-8")
    routes = re.findall(r"<!-- route (.+?) -->\n(.*)\n", text)
    assert len(routes) == text.count("<!-- route") > 5
    for names, line in routes:
        said = "All notebooks" if names == "all" else f"Notebooks {', '.join(names.split())}"
        assert line == f"*{said}.*"
    page = site.adapted(text, [])
    assert page.count("| **together** |") == len(routes)
    assert not re.search(r"<!--|^\*(Notebooks|All)", page, re.M)
    assert "../notebooks/" not in page and page.count("[page of results](results.md)") == 2


@pytest.mark.parametrize("path", notebooks(), ids=lambda path: path.name)
def test_a_students_copy_of_every_notebook_has_gaps_and_no_solution(path):
    source = Source(path)
    made = copies.student(source)
    gaps = [cell for cell in made.cells if "write" in cell.metadata.get("causalnb", {})]
    assert len(gaps) == len(source.tasks) >= 4
    assert not [cell for cell in made.cells if "solution" in cell.metadata.get("tags", [])]
    assert "<details>" not in "".join(cell["source"] for cell in made.cells if cell.cell_type == "markdown")
    ids = [cell["id"] for cell in made.cells]
    assert len(ids) == len(set(ids)) and all(len(id) <= 64 for id in ids)
    for cell in made.cells:
        if cell.cell_type == "code":
            compile(plain(cell["source"]), path.name, "exec")


RARE = {"bird", "baker"}  # never in the place of a reason in the rows of training


def own_text(name: str) -> list[dict]:
    lines = (ROOT / f"course/own_text/{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return list(map(json.loads, lines))


def halves(row: dict) -> tuple[str, str, str]:
    """What happened, the word between, and what happened besides."""
    english.structure(row["prompt"])  # or DataError
    return re.fullmatch(r"(.+) (because|and|but|while) (.+)", row["prompt"]).groups()


@pytest.mark.parametrize("name, count", [("rows", 300), ("unlike", 60)])
def test_the_rows_of_notebook_50_follow_their_rule(name, count):
    rows = own_text(name)
    assert len(rows) == len({row["prompt"] for row in rows}) == count
    for row in rows:
        first, joint, second = halves(row)
        assert row["answer"] == (second if joint == "because" else "nobody knows"), row
        assert row["second"] in (first, second) and first != second
        assert row["label"] == ("yes" if joint == "because" and row["second"] == second else "no"), row
        assert bool(RARE & set(second.split())) == (name == "unlike"), row
        assert row["domain"] == (
            "animals" if {"dog", "cat", "horse", "bird"} & set(first.split()) else "people"
        )
    assert {halves(row)[1] for row in rows} == ({"because"} if name == "unlike" else set(english.JOINTS))


def test_the_challenge_of_notebook_50_asks_for_words_that_its_rows_have():
    rows, challenge = own_text("rows"), own_text("unlike")
    assert not {row["prompt"] for row in rows} & {row["prompt"] for row in challenge}
    words = {word for row in rows for word in row["prompt"].split()}
    assert {word for row in challenge for word in row["prompt"].split()} <= words and words >= RARE
