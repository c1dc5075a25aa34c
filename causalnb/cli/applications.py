"""Commands on a user's own model: train, evaluate."""

import os
import shlex
from pathlib import Path
from typing import Annotated

import typer

from causalnb.cli.common import (
    FOLDER,
    BaseModel,
    BatchSize,
    Bf16,
    Columns,
    Data,
    Dataset,
    Epochs,
    EvaluateEvery,
    Json,
    Lora,
    MaxSteps,
    Rate,
    ReportTo,
    Split,
    Validation,
    evaluate,
    one_training,
    say,
    show,
    train,
)
from causalnb.errors import LabError
from causalnb.paths import given

OUTPUTS = Path("outputs")
SHARED = (  # options of every training on a user's own rows
    "base_model",
    "epochs",
    "learning_rate",
    "batch_size",
    "max_steps",
    "evaluate_every",
    "validation",
    "bf16",
    "lora",
    "seed",
)
SCI_OPTIONS = ("separated", "structure_level", "n_structural_slots", "cbm_layers", "scl_weight")
Seed = Annotated[int, typer.Option(help="Of the first weights, the order of the rows and the noise.")]


@train.command("sci")
def train_sci(
    base_model: BaseModel = "tiny",
    dataset: Annotated[str | None, typer.Option(help="scan, where no --data is given.")] = None,
    split: Annotated[
        str | None, typer.Option(help="A split of it, such as simple, length or add_prim_jump.")
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            help="Your rows: a .jsonl, .json, .csv, .tsv or .parquet file, a folder of .txt files or of the "
            "datasets library, or a hub name."
        ),
    ] = None,
    columns: Columns = None,
    separated: Annotated[bool, typer.Option("--separated", help="SCI separated, of --data.")] = False,
    n_structural_slots: Annotated[int, typer.Option(help="Slots that hold the structure.")] = 8,
    cbm_layers: Annotated[
        str | None,
        typer.Option(help="Bind after these layers, from 0, as in 6,11,16; default: at 27, 50, 73 % depth."),
    ] = None,
    scl_weight: Annotated[float, typer.Option(help="Weight of the contrastive loss.")] = 0.1,
    epochs: Annotated[
        int | None, typer.Option(help="Passes through the data; default: 20, of --data 3.")
    ] = None,
    learning_rate: Rate = None,
    batch_size: Annotated[
        int | None, typer.Option(help="Rows a step, those of pairs included; default: 64, of --data 16.")
    ] = None,
    structure_level: Annotated[
        str | None,
        typer.Option(
            help="What counts as structure: verb, verb_coindexed or verb_direction; of --data column, "
            "grammar, pos or dependency."
        ),
    ] = None,
    max_steps: MaxSteps = None,
    evaluate_every: EvaluateEvery = None,
    validation: Annotated[
        float | None, typer.Option(help="Share of the rows of --data held out; default: 0.1.")
    ] = None,
    bf16: Bf16 = False,
    lora: Lora = 0,
    seed: Seed = 0,
    output: Annotated[Path, typer.Option(help="Folder of the model.")] = OUTPUTS / "sci",
    report_to: ReportTo = "none",
) -> None:
    """SCI on your own --data, or on SCAN as in the guide; interrupted, the same command resumes."""
    from causalnb.apps import sci

    layers = sci.layers(cbm_layers)
    if data is not None:
        if dataset or split:
            raise LabError("--data is your own and --dataset and --split are SCAN's: give one of the two.")
        asked = locals() | {"cbm_layers": None if layers is None else list(layers)}
        return _train("sci", asked, *SCI_OPTIONS)
    if columns or separated or report_to != "none" or validation is not None:
        raise LabError(
            "--columns, --separated, --validation and --report-to are for your own rows: give them with "
            "--data."
        )
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    dataset, split = dataset or "scan", split or "length"
    settings = sci.Settings(
        base_model=base_model,
        dataset=dataset,
        split=split,
        n_structural_slots=n_structural_slots,
        cbm_layers=layers,
        scl_weight=scl_weight,
        learning_rate=learning_rate,
        max_steps=max_steps,
        evaluate_every=evaluate_every,
        bf16=bf16,
        lora=lora,
        seed=seed,
        **_said(epochs=epochs, batch_size=batch_size, structure_level=structure_level),
    )
    output = given(output, "--output")
    with one_training() as (say, progress):
        sci.train_sci(settings, output, say, progress)
        say(
            f"saved in {output}; now: causalnb evaluate sci --checkpoint {shlex.quote(str(output))} "
            f"--dataset {dataset} --split {split}"
        )
    return None


@train.command("iclm")
def train_iclm(
    data: Data,
    base_model: BaseModel = "tiny",
    columns: Columns = None,
    num_modules: Annotated[int, typer.Option(help="Domain modules, beside the invariant one.")] = 2,
    aggregation: Annotated[
        str,
        typer.Option(
            help="How modules answer together: latent, by a new head, twice as large as the base's; logit, "
            "through the base's own; probability, too, where no word is over 9 times as likely as another."
        ),
    ] = "latent",
    epochs: Epochs = None,
    learning_rate: Rate = None,
    batch_size: BatchSize = None,
    max_steps: MaxSteps = None,
    evaluate_every: EvaluateEvery = None,
    validation: Validation = 0.1,
    bf16: Bf16 = False,
    lora: Annotated[int, typer.Option(help="Rank of the modules; 0: 8.")] = 0,
    seed: Seed = 0,
    output: Annotated[Path, typer.Option(help="Folder of the model.")] = OUTPUTS / "iclm",
    report_to: ReportTo = "none",
) -> None:
    """ICLM's modules on a frozen decoder and your own data; interrupted, the same command resumes."""
    _train("iclm", locals(), "num_modules", "aggregation")


@train.command("c2dlm")
def train_c2dlm(
    data: Data,
    base_model: BaseModel = "tiny",
    columns: Columns = None,
    graphs: Annotated[
        str | None,
        typer.Option(help="A file with a concept graph, {effect: [causes]}, on the line of each row."),
    ] = None,
    alpha: Annotated[float, typer.Option(help="How much attention causes are to get, of the graphs.")] = 3.0,
    lam: Annotated[float, typer.Option(help="Weight of what is to get none.")] = 1.0,
    gamma: Annotated[float, typer.Option(help="Weight of the re-attention loss.")] = 1.0,
    epochs: Epochs = None,
    learning_rate: Rate = None,
    batch_size: BatchSize = None,
    max_steps: MaxSteps = None,
    evaluate_every: EvaluateEvery = None,
    validation: Validation = 0.1,
    bf16: Bf16 = False,
    lora: Lora = 0,
    seed: Seed = 0,
    output: Annotated[Path, typer.Option(help="Folder of the model.")] = OUTPUTS / "c2dlm",
    report_to: ReportTo = "none",
) -> None:
    """C2DLM's masked diffusion on a decoder and your own data; interrupted, the same command resumes."""
    _train("c2dlm", locals(), "graphs", "alpha", "lam", "gamma")


@train.command("causal-transformer")
def train_causal_transformer(
    data: Data,
    base_model: BaseModel = "tiny",
    columns: Columns = None,
    causal_weight: Annotated[float, typer.Option(help="Weight of the Markov-blanket loss.")] = 0.1,
    epochs: Epochs = None,
    learning_rate: Rate = None,
    batch_size: BatchSize = None,
    max_steps: MaxSteps = None,
    evaluate_every: EvaluateEvery = None,
    validation: Validation = 0.1,
    bf16: Bf16 = False,
    lora: Lora = 0,
    seed: Seed = 0,
    output: Annotated[Path, typer.Option(help="Folder of the model.")] = OUTPUTS / "causal-transformer",
    report_to: ReportTo = "none",
) -> None:
    """A classifier under the Markov-blanket loss on your own data; interrupted, the same command resumes."""
    _train("causal-transformer", locals(), "causal_weight")


def _said(**options) -> dict:
    """The options that were given."""
    return {name: value for name, value in options.items() if value is not None}


def _train(system: str, asked: dict, *options: str) -> None:
    """Train a system on a user's own rows; asked: all options of its command, `options` those of it alone."""
    from causalnb.apps import text

    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    settings = text.Settings(
        system,
        asked["data"],
        text.columns(asked["columns"]),
        **_said(**{name: asked[name] for name in SHARED}),
        options=_said(**{name: asked[name] for name in options}),
    )
    output = given(asked["output"], "--output")
    with one_training() as (say, progress):
        text.train_text(settings, output, say, progress, report_to=asked["report_to"])
        folder = shlex.quote(str(output))
        say(f"saved in {output}; now: causalnb evaluate {folder} --data FILE --challenge FILE")


@evaluate.command("sci")
def evaluate_sci(
    checkpoint: Annotated[Path, typer.Option(help="The --output of causalnb train sci.")],
    dataset: Dataset = "scan",
    split: Split = "length",
    rows: Annotated[int | None, typer.Option(help="Test rows to score; default: all.")] = None,
    decoded: Annotated[int, typer.Option(help="How many of them to decode as well.")] = 300,
    json_: Json = False,
) -> None:
    """Exact match of a trained SCI on a split's test rows: answer given (forced) and decoded (greedy)."""
    from causalnb.apps import sci

    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    checkpoint = given(checkpoint, "--checkpoint")
    found = sci.evaluate_sci(checkpoint, dataset, split, rows, decoded)
    if json_:
        return say(found)
    show(
        ("exact match", "value", "test rows"),
        [
            ("forced", f"{found['exact_match']:.4f}", found["rows"]),
            ("greedy", f"{found['greedy_exact_match']:.4f}", found["decoded"]),
        ],
        f"{checkpoint}, trained on {found['trained_on']}, on the test rows of {split}",
    )
    if found["rows_trained_on"]:
        print(
            f"{found['rows_trained_on']} of the {found['rows']} rows were trained on: the training was on "
            f"{found['trained_on']}"
        )


@evaluate.command(FOLDER)
def evaluate_folder(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The --output of causalnb train ... --data.")],
    data: Annotated[str, typer.Option(help="Rows as those of the training: i.i.d.")],
    challenge: Annotated[str | None, typer.Option(help="Rows that are unlike them.")] = None,
    columns: Annotated[
        str | None, typer.Option(help="Names of columns of --data; default: as in the training.")
    ] = None,
    challenge_columns: Annotated[
        str | None, typer.Option(help="Of --challenge; default: as in --data.")
    ] = None,
    predictions: Annotated[
        Path | None, typer.Option(help="Write what the model says to each row into this file, as JSON lines.")
    ] = None,
    json_: Json = False,
) -> None:
    """Accuracy of what was trained on your own data, with its 95 % interval; i.i.d. beside a challenge."""
    from causalnb.apps import text

    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    if challenge_columns and challenge is None:
        raise LabError("--challenge-columns names columns of --challenge: give it too.")
    found = text.evaluate_text(
        given(folder, "DIR"),
        data,
        challenge,
        columns=text.columns(columns),
        challenge_columns=text.columns(challenge_columns, "--challenge-columns"),
        predictions=None if predictions is None else given(predictions, "--predictions"),
    )
    if json_:
        return say(found)
    lines = []
    for kind, scores in (("i.i.d.", found["data"]), ("challenge", found["challenge"])):
        for name, part in [(kind, scores), *(scores or {}).get("domains", {}).items()] if scores else ():
            label = name if part is scores else f"{kind}, {name}"
            bounds = f"[{part['low']:.3f}, {part['high']:.3f}]"
            lines.append((label, f"{part['accuracy']:.4f}", bounds, part["rows"]))
        if scores and scores["majority"] is not None:
            lines.append((f"{kind}, always the commonest label", f"{scores['majority']:.4f}", "", ""))
    show(("rows", "accuracy", "95 % interval", "count"), lines, f"{folder}: {found['system']}")
    for scores in filter(None, (found["data"], found["challenge"])):
        if scores["trained_on"]:
            print(f"{scores['trained_on']} rows of {scores['source']} were trained on, and are left out")
        if scores["unanswerable"]:
            print(
                f"{scores['unanswerable']} rows of {scores['source']} cannot be answered, and count as "
                f"wrong; the first: {scores['first_unanswerable']}"
            )
    if predictions is not None:
        print(f"{predictions} has what was said")
