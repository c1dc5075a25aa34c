"""The command that has a teacher draw concept graphs: teach."""

import os
import shlex
from pathlib import Path
from typing import Annotated

import typer

from causalnb.cli.common import Columns, app, one_training, stoppable, tally
from causalnb.paths import given


@app.command("teach")
def teach(
    data: Annotated[
        str, typer.Option(help="Rows with prompt and answer, as for train c2dlm, or a folder of .txt files.")
    ],
    teacher: Annotated[str, typer.Option(help="A chat model: a folder or hub name, or the endpoint's name.")],
    endpoint: Annotated[
        str | None, typer.Option(help="An OpenAI-compatible address, up to and without /chat/completions.")
    ] = None,
    key_from: Annotated[str | None, typer.Option(help="The variable that holds the endpoint's key.")] = None,
    columns: Columns = None,
    price_in: Annotated[float | None, typer.Option(help="Of a million tokens that it reads.")] = None,
    price_out: Annotated[float | None, typer.Option(help="Of a million tokens that it writes.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell the cost.")] = False,
    output: Annotated[Path, typer.Option(help="File of the graphs, a line for each row.")] = Path(
        "graphs.jsonl"
    ),
) -> None:
    """Concept graphs of your texts for train c2dlm --graphs; interrupted, the same command goes on."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    from causalnb.apps import text
    from causalnb.apps.text import teach as lessons

    output = given(output, "--output")
    lessons.check_output(output)
    items = lessons.items_of(data, text.columns(columns))
    found = lessons.cost(items, price_in, price_out)
    price = "" if found["price"] is None else f", {found['price']:.2f} by your prices"
    with stoppable(), one_training() as (tell, progress):
        tell(
            f"{found['texts']:,} texts: about {found['tokens_in']:,} tokens to read and "
            f"{found['tokens_out']:,} to write{price}; what is asked again comes on top"
        )
        if dry_run:
            return
        counts = lessons.teach(items, lessons.teacher_of(teacher, endpoint, key_from), output, progress)
        words = ["causalnb", "train", "c2dlm", "--data", data, "--graphs", str(output)]
        tell(f"{output}: {tally(counts)}; now: {shlex.join(words)}")
