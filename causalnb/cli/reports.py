"""Commands that make tables and figures."""

import csv
import re
import tempfile
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from causalnb.cli.common import EXIT_FAILED, Ids, Profile, app
from causalnb.errors import CausalnbError
from causalnb.lab import building, evidence, manifest, profiles, registry
from causalnb.lab.tables import requested
from causalnb.paths import given, shown


class TableFormat(StrEnum):
    """What `tables` prints."""

    md = "md"
    tex = "tex"
    csv = "csv"


def buildable(scale: profiles.Profile) -> tuple[list[str], dict[str, list[str]]]:
    """Ids of artefacts that can be built, and {id: experiments} of those never built for want of results.

    One that was built before is among the first even if its results are lost: then building it fails.
    """
    known, ready, to_come = manifest.entries(scale.name), [], {}
    for item in registry.artefacts(extras=True):
        if not item.build:
            continue
        lacking = {} if item.id in known else {id: evidence.lacking(id, scale.name) for id in item.needs}
        needs = [
            id for id, (jobs, seconds) in lacking.items() if jobs and not evidence.live(seconds, scale.name)
        ]
        if needs:
            to_come[item.id] = needs
        else:
            ready.append(item.id)
    return ready, to_come


def rebuild(ids: list[str] | None, suffixes: set[str], profile: str | None) -> tuple[list[Path], bool]:
    """Files with one of `suffixes` of artefacts (default: all that have such), made anew; did one fail."""
    scale = profiles.current(profile)
    known = manifest.entries(scale.name)

    def may_have(id: str) -> bool:
        return id not in known or any(Path(name).suffix in suffixes for name in known[id]["files"])

    ready, to_come = ([], {}) if ids else buildable(scale)
    for id, needs in to_come.items():
        typer.echo(f"{id}: to come: it needs {', '.join(needs)}", err=True)
    chosen = ids or [id for id in ready if may_have(id)]
    for id in chosen:
        registry.find(id)
    made = building.build_all(scale.name, chosen)
    for one in made:
        if one["error"]:
            typer.echo(f"{one['id']}: {one['error']}", err=True)
        elif ids and not any(Path(name).suffix in suffixes for name in one["files"]):
            typer.echo(f"{one['id']}: made, but it has no {' or '.join(sorted(suffixes))} file", err=True)
    if not made:
        typer.echo("nothing to make yet: see causalnb list", err=True)
    files = [Path(name) for one in made for name in one["files"] if Path(name).suffix in suffixes]
    return files, any(one["error"] for one in made)


Out = Annotated[
    Path | None, typer.Option(help="Write only what is asked for, into this folder; figures/ stays as it is.")
]


def listed(text: str | None) -> list[str]:
    """What commas separate; a part that has a comma itself stands in quotation marks."""
    return [part.strip() for part in next(csv.reader([text], skipinitialspace=True))] if text else []


def inches(text: str | None) -> float | None:
    """A length such as 5.5in, 14cm, 345pt (LaTeX's) or 5.5 in inches; CausalnbError if it is none."""
    match = re.fullmatch(r"([0-9]+\.?[0-9]*|\.[0-9]+)\s*(in|cm|mm|pt|)", text.strip()) if text else None
    if match is None and text:
        raise CausalnbError(f"--width {text!r} is no length: write 5.5in, 14cm or 345pt.")
    per_inch = {"in": 1.0, "": 1.0, "cm": 2.54, "mm": 25.4, "pt": 72.27}
    return float(match[1]) / per_inch[match[2]] if match else None


@app.command()
def tables(
    ids: Ids = None,
    profile: Profile = None,
    format: Annotated[TableFormat, typer.Option(help="md, tex or csv.")] = TableFormat.md,
    columns: Annotated[
        str | None, typer.Option(help='Only these, by name or number: model,"cells, points",3.')
    ] = None,
    fit: Annotated[bool, typer.Option("--fit", help="LaTeX: scaled to the width of any text.")] = False,
    longtable: Annotated[bool, typer.Option("--longtable", help="LaTeX: broken across pages.")] = False,
    out: Out = None,
) -> None:
    """Rebuild tables from the stored results and print them; the files of all formats are written.

    With --columns, --fit or --longtable they are printed, or written to --out, and the files stay.
    """
    suffixes, keep = {f".{format}"}, listed(columns)
    with ExitStack() as stack:
        request = stack.enter_context(requested(keep, fit, longtable))
        if out or keep or fit or longtable:
            folder = given(out or stack.enter_context(tempfile.TemporaryDirectory()), "--out")
            stack.enter_context(manifest.aside(folder.absolute(), suffixes))
        files, failed = rebuild(ids, suffixes, profile)
        print(
            "\n".join(str(file) if out else file.read_text(encoding="utf-8") for file in files),
            end="\n" if out else "",
        )
    for why in request.left_out:
        typer.echo(f"left out: {why}", err=True)
    raise typer.Exit(EXIT_FAILED if failed or request.left_out and not files else 0)


@app.command()
def figures(
    ids: Ids = None,
    profile: Profile = None,
    format: Annotated[str, typer.Option(help="svg, png, pdf, pgf, with commas between.")] = "svg,png",
    width: Annotated[str | None, typer.Option(help="Width of the files: 5.5in, 14cm, 345pt.")] = None,
    style: Annotated[str | None, typer.Option(help="paper, slides or a file of matplotlib settings.")] = None,
    out: Out = None,
) -> None:
    """Rebuild figures from the stored results and name their files.

    --width, --style and pgf need --out: the files in figures/ have the house style.
    """
    from causalnb.lab import figures

    formats = listed(format)
    if not out and (width or style or "pgf" in formats):
        raise CausalnbError("figures/ keeps the house style: say with --out where other files go.")
    with ExitStack() as stack:
        stack.enter_context(figures.requested(formats, style, inches(width)))
        if out:
            suffixes = {f".{format}" for format in formats}
            stack.enter_context(manifest.aside(given(out, "--out").absolute(), suffixes))
        files, failed = rebuild(ids, {f".{format}" for format in (*formats, "svg", "png")}, profile)
    for file in files:
        if file.suffix.removeprefix(".") in formats:
            print(shown(file))
    raise typer.Exit(EXIT_FAILED if failed else 0)
