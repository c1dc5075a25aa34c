"""Commands on a user's own model: train, evaluate."""

import os
from pathlib import Path
from typing import Annotated

import typer

from causalnb.cli.common import Dataset, Json, Split, evaluate, one_training, say, show, train
from causalnb.paths import given


@train.command("sci")
def train_sci(
    base_model: Annotated[
        str, typer.Option(help="tiny, tiny:22 (layers), or a folder or Hugging Face name of a causal LM.")
    ] = "tiny",
    dataset: Dataset = "scan",
    split: Split = "length",
    n_structural_slots: Annotated[int, typer.Option(help="Slots that hold the structure.")] = 8,
    cbm_layers: Annotated[
        str | None,
        typer.Option(help="Bind after these layers, from 0, as in 6,11,16; default: at 27, 50, 73 % depth."),
    ] = None,
    scl_weight: Annotated[float, typer.Option(help="Weight of the contrastive loss.")] = 0.1,
    epochs: Annotated[int, typer.Option(help="Passes through the data.")] = 20,
    learning_rate: Annotated[
        float | None, typer.Option(help="Default: 2e-3 for tiny, 1e-4 for a trained base.")
    ] = None,
    batch_size: Annotated[int, typer.Option(help="Rows a step, those of pairs included.")] = 64,
    structure_level: Annotated[
        str, typer.Option(help="What counts as structure: verb, verb_coindexed or verb_direction.")
    ] = "verb",
    max_steps: Annotated[int | None, typer.Option(help="No more steps than these.")] = None,
    evaluate_every: Annotated[
        int | None, typer.Option(help="Steps between evaluations, each with a checkpoint; default: an epoch.")
    ] = None,
    bf16: Annotated[bool, typer.Option("--bf16", help="Mixed precision.")] = False,
    lora: Annotated[int, typer.Option(help="Train adapters of this rank in the base; 0: all of it.")] = 0,
    seed: int = 0,
    output: Annotated[Path, typer.Option(help="Folder of the model.")] = Path("outputs/sci"),
) -> None:
    """SCI on SCAN, with the flags of the guide's quick start; interrupted, the same command resumes."""
    from causalnb.apps import sci

    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    settings = sci.Settings(
        base_model,
        dataset,
        split,
        n_structural_slots,
        sci.layers(cbm_layers),
        scl_weight,
        epochs,
        learning_rate,
        batch_size,
        structure_level,
        seed,
        max_steps,
        evaluate_every,
        bf16,
        lora,
    )
    output = given(output, "--output")
    with one_training() as (say, progress):
        sci.train_sci(settings, output, say, progress)
        say(
            f"saved in {output}; now: causalnb evaluate sci --checkpoint {output} --dataset {dataset} "
            f"--split {split}"
        )


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
