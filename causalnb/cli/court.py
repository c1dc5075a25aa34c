"""Commands of the court: try, board."""

import os
import shlex
from pathlib import Path
from typing import Annotated

import typer

from causalnb.cli.common import Json, Profile, app, one_training, say, show, stoppable
from causalnb.errors import LabError
from causalnb.paths import TEMPORARY, court_dir, given, shown

COURT = Path("outputs/court")


@app.command("try")
def try_method(
    method: Annotated[
        str,
        typer.Argument(metavar="METHOD", help="A .py file with def build(base, task), or one that ships."),
    ],
    on: Annotated[
        str | None,
        typer.Option(help="Tasks, of shortcut,compose,modules,causes; default: those of its ON, or all."),
    ] = None,
    seeds: Annotated[int, typer.Option(help="Seeds 0 to N-1.")] = 5,
    seconds: Annotated[float, typer.Option(help="That one training may take, on the clock.")] = 600.0,
    profile: Profile = None,
    output: Annotated[Path, typer.Option(help="Folder of the cards, and of what was trained.")] = COURT,
    json_: Json = False,
) -> None:
    """Judge your own method on four tasks, beside its controls; interrupted, the same command resumes."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    from causalnb.apps.court import card, judge

    tasks = None if on is None else tuple(name.strip() for name in on.split(","))
    asked = judge.Asked(judge.method_file(method), tasks, seeds, seconds, profile)
    output = given(output, "--output")
    unnamed = (COURT.resolve(), court_dir().resolve())  # where a card says nothing of --output
    with stoppable(), one_training() as (tell, progress):
        found = judge.judge(asked, output, tell, progress)
        made = card.write(asked, found, output, None if output.resolve() in unnamed else output)
        tell(f"the card lies in {output / asked.name}; all cards: causalnb board {shlex.quote(str(output))}")
    if json_:
        return say(made)
    show(
        ("task", "verdict", "why"),
        [(name, task["verdict"], task["why"]) for name, task in made["tasks"].items()],
        f"{made['method']}: {made['about']}",
    )


@app.command("board")
def board(
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="[DIR]",
            help=f"The --output of causalnb try; default: {COURT}, else the course's own cards.",
        ),
    ] = None,
    json_: Json = False,
) -> None:
    """The cards of a folder: a line for each method and task."""
    from causalnb.apps.court.card import board

    folder = (COURT if COURT.is_dir() else court_dir()) if folder is None else given(folder, "DIR")
    if not folder.is_dir():
        raise LabError(f"there is no folder {folder}: give the --output of causalnb try.")
    cards = board(folder)
    if json_:
        return say(cards)
    lines = []
    for card in cards:
        for name, task in card["tasks"].items():
            ours, plain = task["arms"]["method"], task["arms"]["plain"]
            lines.append(
                (
                    card["method"] + (f" ({card['profile']})" if card["profile"] in TEMPORARY else ""),
                    name,
                    task["verdict"],
                    f"{ours['challenge'][0]:.1f}",
                    f"{plain['challenge'][0]:.1f}",
                    f"{ours['seconds'] / plain['seconds']:.2f}",
                    f"{ours['parameters']:,}",
                    task["seeds"],
                )
            )
    columns = (
        "method",
        "task",
        "verdict",
        "challenge, %",
        "plain, %",
        "seconds / plain",
        "parameters",
        "seeds",
    )
    show(columns, lines, f"cards in {shown(folder)}")
