"""Slides of a notebook: ten to fifteen, each a heading, a thought, and a figure, an equation or an output."""

import re
import shutil
from importlib.resources import files as resources
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from causalnb.course.copies import described
from causalnb.course.source import DETAILS, EQUATION, Source, sections, tags, text
from causalnb.errors import LabError
from causalnb.lab import files

FEWEST, MOST = 10, 15
WORDS = 60  # of the thought on a slide; the rest of its section is in the speaker's notes
LINES = 14  # of an output that a slide can hold
HERE = Path(__file__).parent / "static"


class Slide(NamedTuple):
    """Markdown, an output to show or None, and the notes of who speaks."""

    words: str
    shows: dict | None = None
    notes: str = ""


def slides(source: Source) -> list[Slide]:
    """The title, the sections that show most, exercises and summary; between FEWEST and MOST.

    A section is what follows a heading up to the next; one with a figure comes before one with an
    equation, and that before one with an output or words alone.
    """
    made, exercises, summary = [], None, None
    for level, title, cells in _sections(source):
        told = "\n\n".join(DETAILS.sub("", text(cell)) for cell in cells if cell["cell_type"] == "markdown")
        notes = re.sub(r"!\[([^]]*)\]\([^)]*\)", r"\1", told)  # a speaker is told what pictures show
        if level == 1:
            made.append((4, Slide(f"# {title}\n\n{_header(notes)}", notes=notes)))
        elif "exercise" in title.lower():
            exercises = exercises or Slide(f"## {title}\n\n{_exercises(source)}", notes=notes)
        elif "summary" in title.lower():
            summary = Slide(f"## {title}\n\n{_bullets(notes)}", notes=notes)
        elif found := _slide(title, notes, cells):
            made.append(found)
    room = MOST - bool(exercises) - bool(summary)
    kept = sorted(sorted(range(len(made)), key=lambda at: -made[at][0])[:room])
    return [made[at][1] for at in kept] + [slide for slide in (exercises, summary) if slide]


def _sections(source: Source):
    """(level, title, cells) of each heading: its cells, the one that holds it cut there."""
    heads = [(number, level, title) for number, level, title in sections(source.cells) if level <= 3]
    for at, (number, level, title) in enumerate(heads):
        end = heads[at + 1][0] if at + 1 < len(heads) else len(source.cells) - 1
        cells = [dict(cell) for cell in source.cells[number : end + 1] if "solution" not in tags(cell)]
        first = text(cells[0]).split(f" {title}", 1)[-1]
        cells[0]["source"] = re.split(r"^#{1,3} ", first, maxsplit=1, flags=re.M)[0]
        if end > number and at + 1 < len(heads):
            cells[-1]["source"] = re.split(r"^#{1,3} ", text(cells[-1]), maxsplit=1, flags=re.M)[0]
        yield level, title, cells


def _slide(title: str, notes: str, cells: list[dict]) -> tuple[int, Slide] | None:
    """(how much it shows, the slide) of a section; None for one without words."""
    thought, figure, printed = _thought(notes), None, None
    for cell in cells:
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if "<img" in "".join(data.get("text/html", "")):
                figure = figure or output
            elif output["output_type"] == "stream" and "".join(output["text"]).count("\n") <= LINES:
                printed = printed or output
    if not thought:
        return None
    equation = next(iter(EQUATION.findall(notes)), "")
    if figure:
        return 3, Slide(f"## {title}\n\n{thought}", figure, notes)
    if equation:
        return 2, Slide(f"## {title}\n\n{thought}\n\n$$\n{equation.strip()}\n$$", printed, notes)
    return (1 if printed else 0), Slide(f"## {title}\n\n{thought}", printed, notes)


def _thought(notes: str) -> str:
    """The first whole sentences of a text, up to WORDS words; lists, tables and equations left out."""
    prose = [
        part
        for part in re.split(r"\n\s*\n", EQUATION.sub("\n\n", notes))
        if part.strip() and not re.match(r"\s*([-*|>#]|\d+\.|```)", part)
    ]
    if not prose:
        return ""
    kept: list[str] = []
    for sentence in re.split(r"(?<=[.!?])\s+(?=[A-Z*$`])", " ".join(prose[0].split())):
        if kept and len(" ".join([*kept, sentence]).split()) > WORDS:
            break
        kept.append(sentence)
    return " ".join(kept)


def _header(notes: str) -> str:
    """Rows of the notebook's header table as a list, else its first sentences."""
    rows = re.findall(r"^\| *(source|you build|you know) *\| *(.+?) *\|$", notes, flags=re.M)
    return "\n".join(f"- **{name}**: {value}" for name, value in rows) or _thought(notes)


def _bullets(notes: str) -> str:
    found = re.findall(r"^- (.+(?:\n  .+)*)", notes, flags=re.M)
    return "\n".join(f"- {' '.join(one.split())}" for one in found[:5])


def _exercises(source: Source) -> str:
    """How many there are of each difficulty, and how to get help."""
    lines = [
        f"- {task.name if task.kind == 'exercise' else f'`{task.name}`'}: difficulty {task.difficulty} of 5, "
        f"about {task.minutes} minutes"
        for task in source.tasks
        if task.kind == "exercise"
    ]
    return "\n".join([*lines, "\nStuck? `hint(1)`, then `hint(1, 2)`."])


def notebook(source: Source):
    """The slides as a notebook for nbconvert."""
    import nbformat

    described(source.notebook)
    made = nbformat.v4.new_notebook(metadata={"title": source.title})

    def add(cell, kind: str) -> None:
        cell.metadata["slideshow"] = {"slide_type": kind}
        made.cells.append(cell)

    for slide in slides(source):
        add(nbformat.v4.new_markdown_cell(slide.words), "slide")
        if slide.shows:
            add(nbformat.v4.new_code_cell("", outputs=[slide.shows]), "-")
        if slide.notes.strip():
            add(nbformat.v4.new_markdown_cell(slide.notes), "notes")
    return made


def build(source: Source, out: Path) -> Path:
    """Write the slides of a notebook, and beside them what they need; LabError without the extra `site`."""
    for needed in ("nbconvert", "sphinx_revealjs", "sphinx-mathjax-offline"):
        if not find_spec(needed):
            raise LabError(f"slides need {needed}, which is not installed: pip install -e '.[site]'.")
    from nbconvert import SlidesExporter

    beside(out / "beside")
    exporter = SlidesExporter(
        extra_template_basedirs=[str(HERE)],
        template_file=str(HERE / "slides.html.j2"),
        reveal_url_prefix="beside/reveal",
        reveal_theme="white",  # other themes load their letters from elsewhere
        mathjax_url="beside/mathjax/tex-chtml.js",
        exclude_input=True,
    )
    body, _ = exporter.from_notebook_node(notebook(source))
    path = out / f"{source.name}.html"
    files.write_atomic(path, body.encode())
    return path


def beside(folder: Path) -> None:
    """Copy reveal.js and MathJax from the packages that bring them, unless they are there."""
    reveal = Path(str(resources("sphinx_revealjs"))) / "_static/revealjs"
    mathjax = Path(str(resources("sphinx-mathjax-offline"))) / "static/mathjax"
    for part in ("dist", "plugin/notes"):
        shutil.copytree(reveal / part, folder / "reveal" / part, dirs_exist_ok=True)
    (folder / "mathjax").mkdir(parents=True, exist_ok=True)
    shutil.copy(mathjax / "tex-chtml.js", folder / "mathjax")
    fonts = "output/chtml/fonts"
    shutil.copytree(mathjax / fonts, folder / "mathjax" / fonts, dirs_exist_ok=True)
