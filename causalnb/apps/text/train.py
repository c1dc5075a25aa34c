"""Train one of the four systems on a user's own data."""

import json
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path

from causalnb.errors import DataError, LabError
from causalnb.paths import shown

from ..bases import TINY
from ..records import option, read_record
from ..sci.data import sample
from ..training import Prepared, train_prepared
from .data import digest, held_out, rows_of
from .settings import OPTIONS, Settings
from .systems import KINDS, SCORED

TRAINED = "rows.json"  # short hashes of the rows that were trained on
REPORTS = ("none", "trackio", "tensorboard")


def with_graphs(rows: list[dict], source: str) -> list[dict]:
    """Rows with `graph`, of the line of a file that stands where the row does; DataError for a misfit.

    A line is a graph as ConceptGraph.from_json reads it, an annotation of save_annotations, or null.
    """
    from causalnb.c2dlm import ConceptGraph

    try:
        with open(source, encoding="utf-8-sig") as file:
            lines = list(file)
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(
            f"{source} cannot be read ({error}): give a file with a graph on each line."
        ) from error
    graphs = []
    for number, line in enumerate(lines, 1):
        at = f"{source}, line {number}"
        try:
            found = json.loads(line) if line.strip() else None
            if isinstance(found, dict) and found.keys() == {"sha256"}:
                continue  # the last line of annotations
            edges = found["edges"] if isinstance(found, dict) and "edges" in found else found
            graphs.append((at, None if edges is None else ConceptGraph.from_json(line)))
        except (ValueError, RecursionError) as error:
            raise DataError(f"{at} is no graph ({str(error)[:120]}): write {{effect: [causes]}}.") from error
    if len(graphs) != len(rows):
        raise DataError(
            f"{source} has {len(graphs)} graphs and the data {len(rows)} rows: give one line for each row, "
            "null where there is none."
        )
    return [row | {"graph": graph, "graph_at": at} for row, (at, graph) in zip(rows, graphs, strict=True)]


def read(settings: Settings) -> list[dict]:
    """The rows that the settings name, with their graphs."""
    kind = KINDS[settings.system]
    rows = rows_of(settings.data, settings.columns, kind.needs, kind.may)
    return with_graphs(rows, settings.options["graphs"]) if settings.options.get("graphs") else rows


def command(settings: Settings, output: Path | None = None) -> str:
    """The command line that has these settings, and writes into `output`."""
    words = ["causalnb", "train", settings.system, "--data", settings.data]
    if settings.columns:
        words += ["--columns", ",".join(f"{name}={given}" for name, given in settings.columns.items())]
    plain = Settings(settings.system, settings.data)
    told = [(name, getattr(settings, name), getattr(plain, name)) for name in Settings.__dataclass_fields__]
    told += [(name, settings.options[name], default) for name, default in OPTIONS[settings.system].items()]
    for name, value, default in told:
        if name in ("system", "data", "columns", "options") or value == default:
            continue
        if value is True:
            words.append(option(name))
        else:
            words += [
                option(name),
                ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value),
            ]
    if output is not None:
        words += ["--output", str(output)]
    return shlex.join(words)


def prepare(settings: Settings, rows: list[dict], processes: int = 1, output: Path | None = None) -> Prepared:
    """Model, rows and batches of the settings; a smaller batch is filled up to be shared, by its own rows.

    output: the folder that the model's card says it is written into.
    """
    from transformers import set_seed

    from causalnb.cards import card

    if settings.batch_size % processes:
        raise LabError(
            f"--batch-size {settings.batch_size} cannot be shared evenly by {processes} processes: give a "
            f"multiple of {processes}."
        )
    set_seed(settings.seed)
    system = KINDS[settings.system](settings)
    model, tokenizer = system.start(rows)
    chosen, validation = held_out(rows, settings.validation)
    scored = system.rows(sample(validation, SCORED), tokenizer, model)
    trained = system.training_rows(chosen, tokenizer, model)
    epoch = system.epoch(trained)
    steps = min(settings.epochs * epoch, settings.max_steps or settings.epochs * epoch)
    count = sum(p.numel() for p in model.parameters())
    free = sum(p.numel() for p in model.parameters() if p.requires_grad)

    def measure(model) -> dict:
        found = {"validation": float(system.right(model, scored, tokenizer).mean())}
        if len(scored) < len(validation):
            found["scored"] = len(scored)
        return found | (
            {"outside": system.outside(model, scored, tokenizer)} if hasattr(system, "outside") else {}
        )

    def finished(model, history: list[dict]) -> tuple:
        model = system.finished(model)
        told = {
            "data": settings.data,
            "metrics": {"accuracy": history[-1]["validation"]},
            "command": f"{command(settings, output)}\n# accuracy: of {len(scored):,} rows held out",
            "task": system.task,
        }
        beside = {TRAINED: json.dumps(sorted({digest(row) for row in chosen}))}
        if type(model).__module__.startswith("causalnb."):  # whose save_pretrained writes a card
            model.card = told
        else:
            method = "A classifier trained under the Markov-blanket loss of the Causal Transformer."
            beside["README.md"] = card(
                model.config, method, settings.base_model, told, "markov_blanket"
            ).content
        return model, beside

    batches = system.batches(trained, steps)
    if processes > 1:
        batches = [batch + batch[: -len(batch) % processes] for batch in batches]
    sequence, batches = system.sequence(trained, batches)
    return Prepared(
        model,
        tokenizer,
        sequence,
        system.collator(tokenizer),
        batches,
        settings.evaluate_every or min(epoch, -(-steps // 5)),
        settings.learning_rate or (2e-3 if TINY.fullmatch(settings.base_model) else 1e-4),
        f"{settings.system} on {settings.base_model}: {count:,} parameters, {free:,} of them trained; "
        f"{len(trained):,} rows, {len(validation):,} held out" + (f"; {system.notes}" * bool(system.notes)),
        measure,
        lambda: system.within(model),
        finished,
    )


def said(scores: dict) -> str:
    """An evaluation in words."""
    held = f", {scores['outside']:.3f} of the nodes outside the bounds" if "outside" in scores else ""
    loss = f", mean loss {scores['loss']:.4g}" if "loss" in scores else ""
    rows = f"{scores['scored']} of the rows" if "scored" in scores else "the rows"
    return f"accuracy {scores['validation']:.3f} on {rows} held out{held}{loss}"


def contents(rows: list[dict], structured: bool = False) -> str:
    """A hash of what a training learns from: what rows say, their structures if it reads them, graphs."""
    whole = blake2b(digest_size=8)
    for row in rows:
        structure = row.get("structure") if structured else None
        graph = row["graph"].to_json() if row.get("graph") else None
        more = "" if structure is graph is None else json.dumps([structure, graph])
        whole.update(f"{digest(row)}{more}".encode())
    return whole.hexdigest()


def train_text(
    settings: Settings,
    output: Path,
    say: Callable[[str], None] = lambda line: None,
    progress: Callable[[int, int, str], None] = lambda done, total, note: None,
    device: str | None = None,
    report_to: str = "none",
) -> dict:
    """Train a system and save it with its tokenizer and settings in `output`, as `train_prepared` does.

    report_to: "trackio" or "tensorboard" gets loss and scores. DataError for data, LabError for settings,
    that do not fit, and for data that have changed since the training began.
    """
    with reporter(report_to, output) as report:
        rows = read(settings)
        whole = contents(rows, settings.options.get("structure_level") == "column")
        asked = settings.record() | {"contents": whole}
        record = read_record(output)
        before = record["settings"] if record else asked
        if before.get("contents") != whole and before | {"contents": whole} == asked:
            what = f"{settings.data}{' or their graphs' if settings.options.get('graphs') else ''}"
            raise LabError(
                f"the rows of {what} have changed since the training in {shown(output)} began: "
                "restore them, or choose another --output."
            )
        return train_prepared(
            lambda processes: prepare(settings, rows, processes, output),
            asked,
            output,
            said,
            say,
            progress,
            device,
            report,
        )


@contextmanager
def reporter(name: str, output: Path) -> Iterator[Callable[[dict, int], None] | None]:
    """Yields what takes (values, step) to trackio or tensorboard, which starts when first it is told.

    LabError for another name, and where it is not installed.
    """
    if name not in REPORTS:
        raise LabError(f"--report-to is {name!r}: choose one of {', '.join(REPORTS)}.")
    if name == "none":
        yield None
        return
    if find_spec(name) is None:
        raise LabError(f"--report-to {name} needs the package {name}: pip install {name}, or choose none.")
    from accelerate import PartialState
    from accelerate.tracking import TensorBoardTracker, TrackioTracker

    started: list = []

    def report(values: dict, step: int) -> None:
        if not started:
            PartialState()
            run = output.name or "causalnb"
            tracker = TrackioTracker(run) if name == "trackio" else TensorBoardTracker("logs", str(output))
            tracker.start()
            started.append(tracker)
        started[0].log(values, step=step)

    try:
        yield report
    finally:
        for tracker in started:
            tracker.finish()
