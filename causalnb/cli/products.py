"""Commands on the course as products: copies for students and tutors, slides, a site; checks of a copy."""

import math
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from causalnb.cli.common import EXIT_FAILED, Json, Profile, app, say, show, steps, stoppable
from causalnb.errors import LabError
from causalnb.paths import given, shown

course = typer.Typer(no_args_is_help=True, help="Copies for students and tutors, slides, a site.")
app.add_typer(course, name="course")


class Product(StrEnum):
    """What `course build` makes."""

    student = "student"
    tutor = "tutor"
    slides = "slides"
    site = "site"


@course.command()
def build(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NOTEBOOK]...", help="20, or 20_sci_components; default: all."),
    ] = None,
    to: Annotated[
        list[Product] | None, typer.Option(help="student, tutor, slides, site; default: all.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder; each product has one of its own in it.")] = Path(
        "build/course"
    ),
    nbgrader: Annotated[
        bool, typer.Option("--nbgrader", help="Students' copies with nbgrader's metadata.")
    ] = False,
    colab: Annotated[
        str,
        typer.Option(metavar="URL", help="Students' copies that install the course from a repository first."),
    ] = "",
) -> None:
    """Make the products of the course from its notebooks; nothing is executed."""
    from causalnb.course import copies, source

    books, wanted, folder = source.books(names or ()), to or list(Product), given(out, "--out")
    for option, asked in (("--nbgrader", nbgrader), ("--colab", colab)):
        if asked and Product.student not in wanted:
            raise LabError(f"{option} is for students' copies: add --to student.")
    made = []
    with steps(len(books) * len(set(wanted) - {Product.site}) + (Product.site in wanted)) as step:
        for product in dict.fromkeys(wanted):
            if product is Product.site:
                from causalnb.course import site

                made.append(site.build(books, folder / product))
                step("site", "built", 1.0, done=True)
                continue
            for book in books:
                path = folder / product / book.path.name
                if product is Product.slides:
                    from causalnb.course import slides

                    path = slides.build(book, folder / product)
                elif product is Product.student:
                    copies.write(copies.student(book, nbgrader, colab), path)
                else:
                    copies.write(copies.tutor(book), path)
                made.append(path)
                step(f"{product} {book.name}", "built", 1.0, done=True)
    for path in made:
        print(shown(path))


@course.command()
def check(
    notebook: Annotated[list[Path], typer.Argument(metavar="COPY...", help="Students' copies, as files.")],
    json: Json = False,
    profile: Profile = None,
    cell_timeout: Annotated[float, typer.Option(min=1, help="Seconds that a cell may run.")] = 600.0,
) -> None:
    """Run students' copies and say which of their tasks pass; exit code 0 where all do."""
    from causalnb.course import checking

    if not math.isfinite(cell_timeout):
        raise LabError(f"--cell-timeout is {cell_timeout}: give seconds.")
    found, failed = [], False
    with stoppable(), steps(len(notebook)) as step:
        for given_path in notebook:
            path = given(given_path, "COPY")
            try:
                name, outcomes = checking.check(path, profile, cell_timeout)
            except LabError as error:
                found.append({"file": str(path), "notebook": None, "error": str(error), "tasks": []})
                step(path.name, str(error), 1.0, done=True)
                failed = True
                continue
            passed = sum(one.outcome == "passed" for one in outcomes)
            failed |= passed < len(outcomes)
            tasks = [one._asdict() for one in outcomes]
            found.append({"file": str(path), "notebook": name, "error": None, "tasks": tasks})
            step(path.name, f"{passed} of {len(outcomes)} pass", 1.0, done=True)
    if json:
        say(found)
    else:
        show(
            ("copy", "task", "difficulty", "outcome"),
            [
                (
                    Path(one["file"]).name,
                    task["task"],
                    task["difficulty"],
                    f"{task['outcome']} {task['why']}".strip(),
                )
                for one in found
                for task in one["tasks"]
            ],
        )
    raise typer.Exit(EXIT_FAILED if failed else 0)
