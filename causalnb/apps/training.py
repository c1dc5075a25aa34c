"""One training of a user's, whatever its model and data: prepared, watched, resumed, saved."""

import math
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from causalnb.errors import CausalnbError, LabError
from causalnb.paths import shown

from .records import CHECKPOINTS, SCHEMA, check, owned, read_record, same_run, save, write_record


@dataclass(frozen=True)
class Prepared:
    """What a training needs, checked before anything is written.

    measure(model) scores it by numbers, `within` is entered around the training, and finished(model, history)
    gives the model that is saved and the texts of files beside it, by name.
    """

    model: object
    tokenizer: object
    rows: list
    collator: Callable
    batches: object
    every: int
    learning_rate: float
    introduction: str
    measure: Callable[[object], dict]
    within: Callable[[], AbstractContextManager] = nullcontext
    finished: Callable[[object, list[dict]], tuple] = lambda model, history: (model, {})

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


def train_prepared(
    prepare: Callable[[int], Prepared],
    settings: Mapping,
    output: Path,
    said: Callable[[dict], str],
    say: Callable[[str], None] = lambda line: None,
    progress: Callable[[int, int, str], None] = lambda done, total, note: None,
    device: str | None = None,
    report: Callable[[dict, int], None] | None = None,
) -> dict:
    """Train what prepare(processes) gives and save it in `output`; returns the record written there.

    settings, with seed and bf16 among them, are what decides the numbers. The same call goes on after an
    interruption, with the numbers of an uninterrupted run; a finished one is left as it is. Started by
    accelerate, the processes share each batch and the first one writes. said(scores) is what is told of them;
    report(values, step) gets loss and scores. LabError for a folder with another training, and whatever
    prepare raises.
    """
    rank, _, processes = (launched(*one) for one in (("RANK", 0), ("LOCAL_RANK", 0), ("WORLD_SIZE", 1)))
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    with owned(output) if rank == 0 else nullcontext():
        try:
            record = same_run(output, settings) if rank == 0 else read_record(output)
            if record and record["finished"]:
                check(output)
                shutil.rmtree(output / CHECKPOINTS, ignore_errors=True)  # which a kill may have left
                last = record["history"][-1]
                say(f"{shown(output)} is trained already: {at(last, None, said)}.")
                return record
            plan = prepare(processes)
        except CausalnbError:
            if rank:
                sys.exit(2)  # the first process says it
            raise
        return _train(settings, plan, output, said, say, progress, device, report, rank, processes)


def _train(settings, plan, output, said, say, progress, device, report, rank, processes) -> dict:
    from accelerate import PartialState

    from causalnb.lab.training import TrainingSettings, last_checkpoint, train

    device = device or best_device()
    say(
        f"{plan.introduction}, {plan.steps:,} steps on {device}"
        + (f", {processes} processes" if processes > 1 else "")
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
        found = plan.measure(model)
        loss = {"loss": sum(losses) / len(losses)} if losses else {}  # since the last one
        losses.clear()
        say(at({"step": reached + 1, **found, **loss}, plan.steps, said))
        if report is not None and rank == 0:
            report(found, reached + 1)
        return found

    losses: list[float] = []
    with plan.within(), _losses(plan.model, report if rank == 0 else None, lambda: reached + 1, losses):
        history = train(
            plan.model,
            plan.rows,
            plan.collator,
            plan.batches,
            TrainingSettings(
                steps=plan.steps,
                learning_rate=plan.learning_rate,
                evaluate_every=plan.every,
                seed=settings["seed"],
                bf16=settings["bf16"],
            ),
            output / CHECKPOINTS,
            measure,
            note,
            device,
        )
    record = {"schema": SCHEMA, "settings": dict(settings), "finished": True, "history": history}
    if rank == 0:
        model, beside = plan.finished(plan.model, history)
        save(model, plan.tokenizer, settings, history, output, beside)
        shutil.rmtree(output / CHECKPOINTS, ignore_errors=True)
    PartialState().destroy_process_group()
    return record


@contextmanager
def _losses(
    model, report: Callable[[dict, int], None] | None, step: Callable[[], int], kept: list[float]
) -> Iterator[None]:
    """Within this context each loss is kept, and reported with its step; LabError for one not finite."""

    def tell(module, given, out) -> None:
        if not module.training or out.get("loss") is None:
            return
        loss = float(out["loss"].detach())
        if not math.isfinite(loss):
            raise LabError(
                f"the loss is {loss} at step {step():,}, and nothing could be learned from there: lower the "
                "learning rate or the weight of a loss, or look at the base, and choose another --output."
            )
        kept.append(loss)
        if report is not None:
            report({"loss": loss}, step())

    hook = model.register_forward_hook(tell)
    try:
        yield
    finally:
        hook.remove()


def at(entry: dict, steps: int | None, said: Callable[[dict], str]) -> str:
    """An evaluation in words, "step 40 of 100: ..."."""
    return f"step {entry['step']:,}" + (f" of {steps:,}" if steps else "") + f": {said(entry)}"


def best_device() -> str:
    """The name "cuda" where there is a GPU, else "cpu"; that too if accelerate was told to use the CPU."""
    import torch
    from accelerate.utils import parse_flag_from_env

    return "cuda" if torch.cuda.is_available() and not parse_flag_from_env("ACCELERATE_USE_CPU") else "cpu"
