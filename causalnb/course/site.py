"""The course as a site: Sphinx with myst-nb, with all that its pages need, so that it works offline."""

import importlib
import inspect
import io
import re
import shutil
import tempfile
from html import escape
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

from causalnb.course import claims
from causalnb.course.copies import described, table_row, write
from causalnb.course.source import Source, stated, tags, text
from causalnb.errors import LabError
from causalnb.lab import manifest, registry
from causalnb.paths import court_dir, figures_dir, root, shown

STATIC = Path(__file__).parent / "static"
PICTURE = re.compile(r"\]\(\.\./figures/([\w./]+)\)")
CARD_PICTURE = re.compile(r"!\[(.*?)\]\(card\.png\)")
HEADING = re.compile(r"^#+ ", re.M)
ROUTE = re.compile(r"<!-- route (.+?) -->(?:\n\*(?:Notebooks|All notebooks)[^*\n]*\*)?")
RESULTS = "page of results"
MATHJAX = ("tex-chtml.js", "input", "output")
NEEDS = ("sphinx", "myst_nb", "furo", "sphinxcontrib.bibtex", "sphinx-mathjax-offline")
SOURCES = {
    "causal_transformer": "Causal Transformer",
    "sci": "SCI",
    "iclm": "ICLM",
    "c2dlm": "C2DLM",
}
PARTS = {  # by the first digit of a notebook
    "0": "Begin here",
    "1": "Causal Transformer: the attention map",
    "2": "SCI: the representation",
    "3": "ICLM: the modules",
    "4": "C2DLM: the concepts",
    "5": "Your own text, your own method",
    "6": "Looking back",
}
IN_README = re.compile(r"^\| \[([^]]+)\]\(notebooks/(\w+)\.ipynb\) \| (.+?) \|$", re.M)
HEADLINE = "sci.extension"  # the figure of the first page
API = (
    "causalnb.causal_transformer",
    "causalnb.sci",
    "causalnb.iclm",
    "causalnb.c2dlm",
    "causalnb.attention",
    "causalnb.wrapping",
    "causalnb.tasks",
    "causalnb.lab.report",
    "causalnb.lab.verdicts",
    "causalnb.lab.evidence",
    "causalnb.lab.figures",
    "causalnb.lab.notebooks",
)


def build(books: list[Source], out: Path) -> Path:
    """Make the site in a folder; returns its first page. Nothing is executed.

    LabError where the extra `site` is not installed, for what Sphinx warns of, and for broken links.
    """
    if missing := [name for name in NEEDS if not _there(name)]:
        raise LabError(f"the site needs {missing[0]}, which is not installed: pip install -e '.[site]'.")
    from sphinx.application import Sphinx
    from sphinx.util.docutils import docutils_namespace

    with tempfile.TemporaryDirectory() as folder:
        pages, warnings = Path(folder) / "pages", io.StringIO()
        prepare(books, pages)
        with docutils_namespace():
            app = Sphinx(pages, pages, out, Path(folder) / "trees", "html", status=None, warning=warnings)
            app.build()
    for path in (out / "_static/mathjax").iterdir():  # of 20 MB, the pages use five
        if path.name not in MATHJAX:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    if said := warnings.getvalue().strip():
        raise LabError(f"Sphinx warns of {len(said.splitlines())} things, first: {said.splitlines()[0]}.")
    if wrong := broken(out):
        page, target = wrong[0]
        raise LabError(f"{len(wrong)} links are broken, first {target} on {page}: correct its source.")
    return out / "index.html"


def _there(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def fold(cells: list) -> None:
    """Have the site show solutions and evidence on a click only."""
    for cell in cells:
        if {"solution", "evidence"} & {*tags(cell)}:
            cell.metadata["tags"] = [*tags(cell), "hide-cell"]


def prepare(books: list[Source], pages: Path) -> None:
    """Put what Sphinx reads into a folder: course/, notebooks, figures, results, API."""
    shutil.copytree(root() / "course", pages)
    shutil.copytree(STATIC, pages / "_static")
    for book in books:
        fold(book.cells)
        for cell in book.cells:
            for picture in PICTURE.findall(text(cell)) if cell["cell_type"] == "markdown" else ():
                _copy(picture, pages / "figures")
        table_row(book, book.cells[0])
        described(book.notebook)
        write(book.notebook, pages / "notebooks" / book.path.name)
    for path in pages.glob("*.md"):
        path.write_text(adapted(path.read_text(encoding="utf-8"), books), encoding="utf-8")
    rows, made = claims.judged(), manifest.entries("laptop")
    for entry in made.values():
        for file in entry["files"]:
            if file.endswith(".svg"):
                _copy(file, pages / "_static/figures")
    for folder in ("figures", "api"):
        (pages / folder).mkdir(exist_ok=True)
    for source, name in SOURCES.items():
        (pages / "figures" / f"{source}.md").write_text(_figures(source, name, rows), encoding="utf-8")
    (pages / "results.md").write_text(claims.page(rows, SOURCES), encoding="utf-8")
    (pages / "court.md").write_text(_court(pages / "_static/court"), encoding="utf-8")
    (pages / "api.md").write_text(_api(), encoding="utf-8")
    for name in API:
        (pages / "api" / f"{name}.md").write_text(_module(name), encoding="utf-8")
    (pages / "index.md").write_text(_index(books, rows, made), encoding="utf-8")


def _copy(file: str, folder: Path) -> None:
    """Copy a file of figures/ into a folder, under the name it has there."""
    path = folder / file
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(figures_dir("laptop") / file, path)


def slug(title: str) -> str:
    """The name by which JupyterLab knows a heading."""
    return title.strip().replace(" ", "-")


def _index(books: list[Source], rows: list[claims.Judged], made: dict) -> str:
    """The first page: what the course is, what came of the claims, notebooks by part; the tree of pages."""
    told = {name: (short, what) for short, name, what in IN_README.findall(_readme())}
    parts = [
        "# Causality in four language models\n",
        '<p class="lead">Four systems promise that causality makes a language model more robust. Build each '
        f"from its equations, train it on a laptop, and hold its claims, {len(rows)} in all, against numbers "
        "with seeds and intervals.</p>\n",
        _actions([(f"notebooks/{books[0].name}", "Begin"), ("syllabus", "Choose a route")]),
        "## What came of the claims\n",
        "How many of a source's claims have which verdict; a count leads to its claims, and "
        "[the page of results](results.md) says what the words mean.\n",
        claims.bars(rows, SOURCES),
        "<p>"
        + " ".join(claims.badge(kind) for kind in claims.MEANINGS if any(row.verdict == kind for row in rows))
        + "</p>\n",
    ]
    if HEADLINE in made:
        file = next(name for name in made[HEADLINE]["files"] if name.endswith(".svg"))
        parts += [
            "## A finding, and what it led to\n",
            "SCI's structure becomes invariant to content, as its guide wants, and the model composes a new "
            "verb no better than a plain decoder. The notebooks find out why, put the same principle where "
            "the decoder reads and writes, and then new verbs compose, as they do for a plain decoder that "
            "trains on rows with words swapped; longer answers do not.\n",
            claims.picture(file, made[HEADLINE]["alt"], "") + "\n",
        ]
    parts += [
        "## The notebooks\n",
        "Each stands here with its outputs; a student's copy has gaps to fill, checks and hints.\n",
    ]
    trees = [
        (
            "Course",
            ["syllabus", "Results <results>", "The court <court>", "glossary", "notation", "references"],
        )
    ]
    for digit in dict.fromkeys(book.name[0] for book in books):
        caption, names = PARTS.get(digit, "More"), []
        parts.append(f"\n### {caption}\n")
        for book in books:
            if book.name[0] == digit:
                short, what = told.get(book.name, (book.title, ""))
                names.append(f"{short} <notebooks/{book.name}>")
                running = round(stated(book.path) / 60)
                parts.append(
                    f"- **[{short}](notebooks/{book.path.name})**<br>{what}<br><small>{book.reading} minutes "
                    f"to read, {running} to run, {book.writing} to write</small>"
                )
        trees.append((caption, names))
    trees += [("Figures and tables", [f"{name} <figures/{source}>" for source, name in SOURCES.items()])]
    trees += [("Package", ["API <api>"])]
    for caption, names in trees:
        parts += [f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n:maxdepth: 1\n", *names, "```"]
    return "\n".join(parts) + "\n"


def _readme() -> str:
    path = root() / "README.md"
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def _actions(links: list[tuple[str, str]]) -> str:
    inner = "".join(f'<a href="{page}.html">{said}</a>' for page, said in links)
    return f'<p class="actions">{inner}</p>\n'


def adapted(page: str, books: list[Source]) -> str:
    """A page of course/ as the site has it: notebooks lie beside it, a route is a table, results a link."""
    page = page.replace("](../notebooks/", "](notebooks/").replace(RESULTS, f"[{RESULTS}](results.md)")
    return ROUTE.sub(lambda found: route(found[1], books), page)


def route(names: str, books: list[Source]) -> str:
    """A table of notebooks, named by their numbers or `all`, with their minutes and the sums of these."""
    chosen = [book for book in books if names.strip() == "all" or book.name[:2] in names.split()]
    rows = [(book.reading, round(stated(book.path) / 60), book.writing) for book in chosen]
    lines = ["| notebook | minutes to read | to run | to write |", "|---|---|---|---|"]
    for book, minutes in zip(chosen, rows, strict=True):
        cells = (f"[{book.title.replace('|', '/')}](notebooks/{book.path.name})", *map(str, minutes))
        lines.append(f"| {' | '.join(cells)} |")
    sums = [str(sum(column)) for column in zip(*rows, strict=True)] or ["0"] * 3
    return "\n".join([*lines, f"| **together** | {' | '.join(sums)} |"])


def _figures(source: str, name: str, rows: list[claims.Judged]) -> str:
    """The page of a source's figures and tables, from figures/ and its manifest, with the claims on each."""
    made, folder = manifest.entries("laptop"), figures_dir("laptop")
    parts = [f"# {name}: figures and tables\n"]
    for item in registry.artefacts(extras=True):
        if item.source != source or item.id not in made:
            continue
        entry = made[item.id]
        parts += [f"({claims.anchor(item.id)})=\n## {item.printed_as}: {item.shows}\n"]
        if item.notebook:
            parts += [f"In [notebook {item.notebook[:2]}](../notebooks/{item.notebook}.ipynb).\n"]
        for file in sorted(entry["files"]):
            path = folder / file
            if path.suffix == ".svg":
                parts += [claims.picture(file, entry["alt"], "../") + "\n"]
            elif path.suffix == ".md":
                parts += [path.read_text(encoding="utf-8") + "\n"]
        if about := [row for row in rows if row.artefact == item.id]:
            inner = "\n".join(
                f"<li>{claims.badge(row.verdict)} "
                f'<a href="../results.html#{row.id}">{escape(row.claim)}</a></li>'
                for row in about
            )
            parts += [f'<ul class="about">\n{inner}\n</ul>\n']
    return "\n".join(parts)


def _court(pictures: Path) -> str:
    """The page of the cards that the course stores: the board drawn, then each card."""
    from causalnb.apps.court import card
    from causalnb.lab import figures

    cards, folder = card.board(court_dir()), court_dir()
    pictures.mkdir(parents=True)
    with figures.closed(), figures.style():
        figure, alt = card.draw_board(cards)
        (pictures / "board.svg").write_bytes(figures.render(figure, "svg"))
    parts = [
        "# Before one court\n",
        "The four systems on four tasks, each beside controls that the program makes. "
        "[Notebook 51](notebooks/51_before_the_court.ipynb) says what for, "
        "[notebook 61](notebooks/61_what_the_four_share.ipynb) what came of it.\n",
        f'<img src="_static/court/board.svg" alt="{escape(alt)}">\n',
        card.board_table(cards) + "\n",
    ]
    for one in cards:
        name = one["method"]
        shutil.copy(folder / name / "card.svg", pictures / f"{name}.svg")
        text = (folder / name / "card.md").read_text(encoding="utf-8")
        if found := CARD_PICTURE.search(text):
            shown_there = f'<img src="_static/court/{name}.svg" alt="{escape(found[1])}">'
            text = text.replace(found[0], shown_there)
        parts.append(HEADING.sub(r"#\g<0>", text))
    return "\n".join(parts)


def _api() -> str:
    """The list of public names, each with the first line of its docstring, and the tree of their pages."""
    parts = ["# API: the public names\n", "What each does; its page has arguments, shapes and errors.\n"]
    for name in API:
        module = importlib.import_module(name)
        parts += [f"## [{name}](api/{name}.md)\n", f"{_line(module)}\n"]
        parts += [f"- {{py:obj}}`{key} <{name}.{key}>`: {_line(value)}" for key, value in _public(module)]
        parts.append("")
    return "\n".join([*parts, "```{toctree}\n:hidden:\n", *(f"api/{name}" for name in API), "```"]) + "\n"


def _public(module) -> list[tuple[str, object]]:
    """(name, object) of the functions and classes that a module offers."""
    own = [key for key, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
    names = getattr(module, "__all__", None) or [key for key in own if not key.startswith("_")]
    found = [(key, getattr(module, key)) for key in names]
    return [(key, value) for key, value in found if inspect.isclass(value) or inspect.isroutine(value)]


def _line(value: object) -> str:
    """The first line of a docstring as Markdown, what is in backticks as code."""
    first = (inspect.getdoc(value) or "").split("\n")[0]
    parts = re.split(r"(`[^`]+`)", first)
    return "".join(
        part if at % 2 else re.sub(r"([\\*_$<\[])", r"\\\1", part) for at, part in enumerate(parts)
    )


def _module(name: str) -> str:
    """The page of a module: its public names from their docstrings."""
    options = ":members:\n   :exclude-members: config_class, extra_repr"
    return f"# {name}\n\n```{{eval-rst}}\n.. automodule:: {name}\n   {options}\n```\n"


class _Links(HTMLParser):
    """Ids of a page, and what it links to and shows."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.targets: list[str] = []

    def handle_starttag(self, tag, attrs) -> None:
        for key, value in attrs:
            if key in ("id", "name") and value:
                self.ids.add(value)
            elif key in ("href", "src") and value:
                self.targets.append(value)


def broken(site: Path) -> list[tuple[str, str]]:
    """(page, target) of links and pictures within a built site that lead nowhere, anchors included."""
    pages = {}
    for path in sorted(site.rglob("*.html")):
        pages[path.resolve()] = parser = _Links()
        parser.feed(path.read_text(encoding="utf-8"))
    wrong = []
    for path, parser in pages.items():
        for target in parser.targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            file = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            lost = parts.fragment and file in pages and unquote(parts.fragment) not in pages[file].ids
            if not file.exists() or lost and not re.fullmatch(r"#?(furo-.*)?", parts.fragment):
                wrong.append((shown(path.relative_to(site.resolve())), target))
    return wrong
