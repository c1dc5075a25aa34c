"""The course as a site: Sphinx with myst-nb, with all that its pages need, so that it works offline."""

import io
import re
import shutil
import tempfile
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

from causalnb.course import claims
from causalnb.course.copies import described, table_row, write
from causalnb.course.source import Source, stated, tags, text
from causalnb.errors import LabError
from causalnb.lab import manifest, registry
from causalnb.paths import figures_dir, root, shown

STATIC = Path(__file__).parent / "static"
PICTURE = re.compile(r"\]\(\.\./figures/([\w./]+)\)")
ROUTE = re.compile(r"<!-- route (.+?) -->")
MATHJAX = ("tex-chtml.js", "input", "output")
NEEDS = ("sphinx", "myst_nb", "furo", "sphinxcontrib.bibtex", "sphinx-mathjax-offline")
SOURCES = {
    "causal_transformer": "Causal Transformer",
    "sci": "SCI",
    "iclm": "ICLM",
    "c2dlm": "C2DLM",
}
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


def prepare(books: list[Source], pages: Path) -> None:
    """Put what Sphinx reads into a folder: course/, notebooks, figures, results, API."""
    shutil.copytree(root() / "course", pages)
    shutil.copytree(STATIC, pages / "_static")
    for book in books:
        for cell in book.cells:
            if "solution" in tags(cell):
                cell.metadata["tags"] = [*tags(cell), "hide-cell"]
            for picture in PICTURE.findall(text(cell)) if cell["cell_type"] == "markdown" else ():
                _beside(picture, pages)
        table_row(book, book.cells[0])
        described(book.notebook)
        write(book.notebook, pages / "notebooks" / book.path.name)
    for source, name in SOURCES.items():
        (pages / "figures").mkdir(exist_ok=True)
        (pages / "figures" / f"{source}.md").write_text(_figures(source, name, pages), encoding="utf-8")
    (pages / "results.md").write_text(claims.page(claims.judged(), SOURCES), encoding="utf-8")
    (pages / "api.md").write_text(_api(), encoding="utf-8")
    syllabus = pages / "syllabus.md"
    told = ROUTE.sub(lambda found: route(found[1], books), syllabus.read_text(encoding="utf-8"))
    syllabus.write_text(told, encoding="utf-8")
    (pages / "index.md").write_text(_index(books), encoding="utf-8")


def _beside(file: str, pages: Path) -> str:
    """Copy a file of figures/ to where pages of figures/ and notebooks/ find it; its name for the former."""
    path = pages / "figures" / file
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(figures_dir("laptop") / file, path)
    return file


def slug(title: str) -> str:
    """The name by which JupyterLab knows a heading."""
    return title.strip().replace(" ", "-")


def _index(books: list[Source]) -> str:
    """The first page: the map of the course with minutes, and the tree of pages."""
    trees = [
        ("Course", ["syllabus", "glossary", "notation", "references"]),
        ("Notebooks", [f"notebooks/{book.name}" for book in books]),
        ("Results", ["results", *(f"figures/{source}" for source in SOURCES)]),
        ("Package", ["api"]),
    ]
    parts = [
        "# Causality in four language models\n",
        "A course in Jupyter notebooks on four systems that put causality into language models: the "
        "attention map (Causal Transformer), the representation (SCI), the modules (ICLM) and the concepts "
        "(C2DLM). Every piece is built from its equation, checked on a toy whose answer is known by hand, "
        "trained, and put beside the numbers its source prints: [every claim with its verdict](results.md). "
        "Begin with the [syllabus](syllabus.md), or with the first notebook.\n",
        route("all", books),
    ]
    for caption, names in trees:
        parts += [f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n:maxdepth: 1\n", *names, "```"]
    return "\n".join(parts) + "\n"


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


def _figures(source: str, name: str, pages: Path) -> str:
    """The page of a source's figures and tables, from figures/ and its manifest."""
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
                parts += [
                    f"```{{image}} {_beside(file, pages)}\n:alt: {' '.join(entry['alt'].split())}\n```\n"
                ]
            elif path.suffix == ".md":
                parts += [path.read_text(encoding="utf-8") + "\n"]
    return "\n".join(parts)


def _api() -> str:
    """The reference of public names, from docstrings."""
    blocks = [f"## {name}\n\n```{{eval-rst}}\n.. automodule:: {name}\n   :members:\n```\n" for name in API]
    return "# API: the public names\n\n" + "\n".join(blocks)


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
