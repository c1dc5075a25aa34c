"""Train SCI on SCAN over a base model, going on where an interrupted training stopped."""

import os
import re
import shutil
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from causalnb.errors import CausalnbError, LabError, sentence
from causalnb.lab.probes import scored
from causalnb.paths import shown

from .base import TINY, best_device, build, fits
from .data import INPUTS, held_out, sample, scan_pairs, scan_rows
from .records import CHECKPOINTS, SCHEMA, check, owned, read_record, same_run, save, write_record
from .settings import Settings

VALIDATION_ROWS, CURVE_ROWS = 200, 200


@dataclass(frozen=True)
class Prepared:
    """What a training needs, checked before anything is written."""

    model: object
    tokenizer: object
    rows: list
    validation: list
    curve: list
    batches: object
    every: int
    learning_rate: float

    @property
    def steps(self) -> int:
        """How many batches there are."""
        return len(self.batches)


def launched(variable: str, alone: int) -> int:
    """What accelerate told this process by a variable; LabError for what it does not tell."""
    told = os.environ.get(variable, str(alone))
    if not re.fullmatch(r"[0-9]{1,6}", told):
        raise LabError(
            f"{variable} is {told!r} and no count of processes: unset it, or use accelerate launch."
        )
    return int(told)


def prepare(settings: Settings, processes: int = 1) -> Prepared:
    """Data, model and batches of the settings; an epoch passes once through the batches' random rows."""
    from transformers import set_seed

    from causalnb.sci import StructureBalancedBatches

    pairs, test = scan_pairs(settings.dataset, settings.split)
    if settings.batch_size % processes:
        raise LabError(
            f"--batch-size {settings.batch_size} cannot be shared evenly by {processes} processes: give a "
            f"multiple of {processes}."
        )
    set_seed(settings.seed)
    model, tokenizer = build(settings)
    level, curve = settings.structure_level, sample(test, CURVE_ROWS)
    rows, validation = held_out(scan_rows(pairs, tokenizer, level), VALIDATION_ROWS)
    curve = scan_rows(curve, tokenizer, level)
    fits(model, [*rows, *curve], settings.base_model)
    paired = settings.batch_size // 5  # two rows each
    random_rows = settings.batch_size - 2 * paired
    epoch = -(-len(rows) // random_rows)
    steps = min(settings.epochs * epoch, settings.max_steps or settings.epochs * epoch)
    try:
        batches = StructureBalancedBatches(
            [row["structure"] for row in rows],
            [row["text"] for row in rows],
            random_rows,
            paired,
            steps,
            settings.seed,
            lengths=[len(row["input_ids"]) for row in rows],
        )
    except ValueError as error:
        raise LabError(f"--batch-size {settings.batch_size} is too large: {sentence(error)}.") from error
    every = settings.evaluate_every or min(epoch, -(-steps // 5))
    rate = settings.learning_rate or (2e-3 if TINY.fullmatch(settings.base_model) else 1e-4)
    return Prepared(model, tokenizer, rows, validation, curve, batches, every, rate)


def train_sci(
    settings: Settings,
    output: Path,
    say: Callable[[str], None] = lambda line: None,
    progress: Callable[[int, int, str], None] = lambda done, total, note: None,
    device: str | None = None,
) -> dict:
    """Train SCI and save it with its tokenizer and settings in `output`; returns the record written there.

    The same call goes on after an interruption, with the numbers of an uninterrupted run; a finished one is
    left as it is. Started by accelerate, the processes share each batch and the first one writes. LabError
    for a folder with another training, and for settings that do not fit the base, the data or the processes.
    """
    rank, _, processes = (launched(*one) for one in (("RANK", 0), ("LOCAL_RANK", 0), ("WORLD_SIZE", 1)))
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    with owned(output) if rank == 0 else nullcontext():
        try:
            record = same_run(output, settings) if rank == 0 else read_record(output)
            if record and record["finished"]:
                check(output)
                shutil.rmtree(output / CHECKPOINTS, ignore_errors=True)  # which a kill may have left
                say(f"{shown(output)} is trained already: {at(record['history'][-1])}.")
                return record
            plan = prepare(settings, processes)
        except CausalnbError:
            if rank:
                sys.exit(2)  # the first process says it
            raise
        return _train(settings, plan, output, say, progress, device, rank, processes)


def _train(settings, plan, output, say, progress, device, rank, processes) -> dict:
    from accelerate import PartialState

    from causalnb.lab.evaluation import teacher_forced_matches
    from causalnb.lab.training import PromptAnswerCollator, TrainingSettings, last_checkpoint, train

    device, pad = device or best_device(), plan.tokenizer.pad_token_id
    whole, base = (sum(p.numel() for p in part.parameters()) for part in (plan.model, plan.model.base))
    say(
        f"{settings.base_model}: {base:,} parameters, SCI adds {whole - base:,}; it binds after layers "
        f"{', '.join(map(str, plan.model.config.cbm_layers))}; {len(plan.rows):,} commands, {plan.steps:,} "
        f"steps on {device}" + (f", {processes} processes" if processes > 1 else "")
    )
    if rank == 0:
        write_record(output, settings, False, [])
    reached, last = 0, last_checkpoint(output / CHECKPOINTS)
    if last:
        reached = int(last.name.rpartition("-")[2])
        say(f"going on from step {reached:,}")

    def note(done: int, total: int, text: str) -> None:
        nonlocal reached
        reached = done
        progress(done, total, text)

    def measure(model) -> dict:
        plainly = PromptAnswerCollator(pad, INPUTS)
        found = {
            "validation": float(teacher_forced_matches(model, scored(plan.validation), plainly).mean()),
            "test_sample": float(teacher_forced_matches(model, scored(plan.curve), plainly).mean()),
        }
        say(at({"step": reached + 1, **found}, plan.steps))
        return found

    history = train(
        plan.model,
        plan.rows,
        PromptAnswerCollator(pad, (*INPUTS, "structure_ids")),
        plan.batches,
        TrainingSettings(
            steps=plan.steps,
            learning_rate=plan.learning_rate,
            evaluate_every=plan.every,
            seed=settings.seed,
            bf16=settings.bf16,
        ),
        output / CHECKPOINTS,
        measure,
        note,
        device,
    )
    record = {"schema": SCHEMA, "settings": settings.record(), "finished": True, "history": history}
    if rank == 0:
        save(plan.model, plan.tokenizer, settings, history, output)
        shutil.rmtree(output / CHECKPOINTS, ignore_errors=True)
    PartialState().destroy_process_group()
    return record


def at(entry: dict, steps: int | None = None) -> str:
    """An evaluation in words, "step 40 of 100: exact match 0.81 on validation, 0.02 on a sample ..."."""
    return (
        f"step {entry['step']:,}" + (f" of {steps:,}" if steps else "") + f": exact match "
        f"{entry['validation']:.3f} on validation, {entry['test_sample']:.3f} on a sample of the test rows"
    )
