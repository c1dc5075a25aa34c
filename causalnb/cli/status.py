"""Commands that say what is there: list, doctor."""

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from causalnb.cli.common import EXIT_FAILED, Extras, Json, Profile, Source, app, say, show, tally
from causalnb.errors import DataError, LabError
from causalnb.lab import manifest, registry
from causalnb.paths import figures_dir, shown

NOT_MADE = {"files": (), "paper": []}  # what the manifest has of an artefact that was not made


def place(artefact: registry.Artefact) -> str:
    """The notebook of an artefact as a path below the checkout, "" if it has none."""
    return f"notebooks/{Path(artefact.notebook).stem}.ipynb" if artefact.notebook else ""


@app.command("list")
def list_(
    source: Source = None,
    extras: Extras = False,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Exit with 1 unless all is built, and nothing stale or unverified."),
    ] = False,
    json_: Json = False,
) -> None:
    """Every table, figure and algorithm of the sources: is it built, and in which notebook.

    Unverified: built, from results whose code has changed since; causalnb verify compares the numbers.
    """
    from causalnb.lab import doctor

    items = registry.artefacts(extras)
    sources = sorted({item.source for item in items})
    if source is not None and source not in sources:
        raise LabError(f"there is no source {source!r}: there are {', '.join(sources)}.")
    items = [item for item in items if source in (None, item.source)]
    states, problems = doctor.artefacts(items)
    made = manifest.entries("laptop") if "unreadable" not in {status for status, _ in states.values()} else {}
    rows = []
    for item in items:
        status, reason = states[item.id]
        entry = made.get(item.id, NOT_MADE) if status != "missing" else NOT_MADE
        rows.append(
            {
                "id": item.id,
                "source": item.source,
                "printed_as": item.printed_as,
                "shows": item.shows,
                "kind": item.kind,
                "status": status,
                "reason": reason,
                "notebook": place(item),
                "files": [shown(figures_dir("laptop") / name) for name in entry["files"]],
                "paper": entry["paper"],
            }
        )
    for problem in problems:
        typer.echo(f"causalnb: {problem}", err=True)
    failed = bool(problems) or strict and any(row["status"] != "built" for row in rows)
    if json_:
        say(rows)
        raise typer.Exit(EXIT_FAILED if failed else 0)
    show(
        ("id", "status", "notebook", "what it shows"),
        [
            (
                row["id"],
                row["status"]
                if row["status"] in ("built", "missing")
                else f"{row['status']}: {row['reason']}",
                Path(row["notebook"]).stem,
                row["shows"],
            )
            for row in rows
        ],
    )
    counts = Counter({key: 0 for key in ("built", "unverified", "stale", "missing")})
    counts.update(row["status"] for row in rows)
    print(f"{len(rows)} artefacts: {tally(counts)}")
    raise typer.Exit(EXIT_FAILED if failed else 0)


@app.command()
def doctor(profile: Profile = None, json_: Json = False) -> None:
    """What is installed, what device, what data, and what would run how long."""
    from causalnb.lab import doctor
    from causalnb.lab.results import duration
    from causalnb.tasks import files

    found = doctor.report(profile)
    try:
        found["data"] = dict(files.verify())
    except DataError as error:
        found["data"] = {}
        found["problems"].append(str(error))
    states, problems = doctor.artefacts(registry.artefacts())
    found["artefacts"] = dict(Counter(status for status, _ in states.values()))
    found["problems"] = list(dict.fromkeys([*found["problems"], *problems]))
    found["problems"] += [state for state in found["data"].values() if state not in {"ok", "missing"}]
    if json_:
        say(found)
    else:
        here = found["machine"]
        show(
            ("", ""),
            [
                ("python", f"{here['python']} on {here['system']}"),
                ("cores", here["cores"]),
                ("memory", f"{here['memory_gib']} GiB"),
                ("free disk", f"{here['disk_free_gib']} GiB"),
                ("device", here["gpu"] or f"CPU, {here['threads']} threads"),
                (
                    "data",
                    tally(
                        Counter(
                            state if state in {"ok", "missing"} else "refused"
                            for state in found["data"].values()
                        )
                    ),
                ),
                ("artefacts", tally(found["artefacts"])),
            ],
        )
        print()
        show(
            ("package", "installed", "needed", ""),
            [
                (need["name"], need["installed"] or "-", need["range"], "ok" if need["ok"] else "problem")
                for need in found["packages"]
            ],
        )
        print()
        show(
            ("experiment", f"results ({found['profile']})", "settings of", "still to train", "memory"),
            [
                (
                    row["experiment"],
                    tally(row["results"]),
                    row["settings"],
                    duration(row["seconds"]) if row["seconds"] else "nothing",
                    f"{row['memory_gib']:.0f} GiB" if row["memory_gib"] else "",
                )
                for row in found["work"]
            ],
        )
        print("\n".join(["", *found["problems"]]) if found["problems"] else "\nready")
    raise typer.Exit(EXIT_FAILED if found["problems"] else 0)
