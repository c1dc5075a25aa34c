"""Commands that make tables and figures."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from causalnb.cli.common import EXIT_FAILED, Ids, Profile, app
from causalnb.lab import building, evidence, manifest, profiles, registry
from causalnb.paths import shown


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


@app.command()
def tables(
    ids: Ids = None,
    profile: Profile = None,
    format: Annotated[TableFormat, typer.Option(help="md, tex or csv.")] = TableFormat.md,
) -> None:
    """Rebuild tables from the stored results and print them; the files of all formats are written."""
    files, failed = rebuild(ids, {f".{format}"}, profile)
    print("\n".join(file.read_text() for file in files), end="")
    raise typer.Exit(EXIT_FAILED if failed else 0)


@app.command()
def figures(
    ids: Ids = None,
    profile: Profile = None,
    pdf: Annotated[bool, typer.Option("--pdf", help="PDF beside SVG and PNG.")] = False,
) -> None:
    """Rebuild figures from the stored results and name their files."""
    from causalnb.lab.figures import also

    with also(*["pdf"] * pdf):
        files, failed = rebuild(ids, {".svg", ".png", ".pdf"}, profile)
    for file in files:
        print(shown(file))
    raise typer.Exit(EXIT_FAILED if failed else 0)
