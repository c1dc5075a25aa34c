"""Training in one thin place: transformers.Trainer, whole checkpoints, exact resumption."""

import json
import math
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import file_digest
from numbers import Integral, Real
from pathlib import Path

import torch
from safetensors import SafetensorError
from torch.utils.data import DataLoader
from transformers import Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint
from transformers.utils import logging

from causalnb.errors import FileError, LabError
from causalnb.lab import files, probes

STAGING = "unfinished"  # a checkpoint is written in here and renamed when it is complete
CHECKSUMS = "checksums.json"


@dataclass(frozen=True)
class TrainingSettings:
    """Steps, peak learning rate (warm-up share, then a cosine to 0), decay, clipping, evaluation interval.

    LabError for no step, for what is no count or no finite number from 0 on, and for a share above 1.
    """

    steps: int
    learning_rate: float
    warmup: float = 0.1
    weight_decay: float = 0.01
    max_grad_norm: float = 1.0
    evaluate_every: int = 100
    seed: int = 0
    bf16: bool = False

    def __post_init__(self):
        for name in ("learning_rate", "warmup", "weight_decay", "max_grad_norm"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= value < math.inf:
                raise LabError(f"{name} is {value!r}: give a finite number, 0 or more.")
        for name, least in (("steps", 0), ("evaluate_every", 1)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
                raise LabError(f"{name} is {value!r}: give a whole number, {least} or more.")
        if self.steps == 0:
            raise LabError("steps is 0, which the Trainer takes for no limit: give 1 or more.")
        if self.warmup > 1:
            raise LabError(f"warmup is {self.warmup!r}: give the share of the steps, 1 at most.")

    @classmethod
    def of(cls, config: dict, **changes) -> "TrainingSettings":
        """The settings among the entries of an experiment's config."""
        known = {name: config[name] for name in cls.__dataclass_fields__ if name in config}
        return cls(**{**known, **changes})


@dataclass
class PromptAnswerCollator:
    """Right-padded batch (B, T) of rows with input_ids, prompt_mask, labels and, where given, structure.

    `keys` names what the model takes. structure becomes structure_ids (B,), numbered within the batch;
    a row whose input_ids came before in the batch gets -1: equal texts are no evidence of invariance.
    """

    pad_token_id: int
    keys: tuple[str, ...] = ("input_ids", "attention_mask", "labels")

    def __call__(self, rows: Sequence[dict]) -> dict[str, torch.Tensor]:
        """The batch of rows: tensors (B, T) of `keys`, and whatever else is asked for."""
        width = max(len(row["input_ids"]) for row in rows)
        fill = {"input_ids": self.pad_token_id, "prompt_mask": 0, "labels": -100}
        batch = {
            name: torch.tensor([list(row[name]) + [value] * (width - len(row[name])) for row in rows])
            for name, value in fill.items()
        }
        lengths = torch.tensor([len(row["input_ids"]) for row in rows])
        batch["attention_mask"] = (torch.arange(width) < lengths[:, None]).long()
        if "structure_ids" in self.keys:
            batch["structure_ids"] = self._structure_ids(rows)
        return {name: batch[name] for name in self.keys}

    @staticmethod
    def _structure_ids(rows) -> torch.Tensor:
        numbers, seen, ids = {}, set(), []
        for row in rows:
            text = tuple(row["input_ids"])
            ids.append(-1 if text in seen else numbers.setdefault(row["structure"], len(numbers)))
            seen.add(text)
        return torch.tensor(ids)


class _Reporter(TrainerCallback):
    """Evaluates and logs every `every` steps and at the end, right before that step's checkpoint."""

    def __init__(self, trainer, every, evaluate, progress):
        self.trainer, self.every, self.evaluate, self.progress = trainer, every, evaluate, progress

    def on_step_end(self, args, state, control, **_):
        step, last = state.global_step, state.max_steps
        if (probe := probes.now()) is not None and step == probe.steps:
            last = step
        if step % self.every == 0 or step == last:
            if self.evaluate is not None:
                model = self.trainer.model
                model.eval()
                with torch.no_grad():
                    self.trainer.log(
                        {f"measured_{name}": value for name, value in self.evaluate(model).items()}
                    )
                model.train()
            control.should_log = control.should_save = True  # after log(), which resets it
        if self.progress is not None:
            self.progress(step, last, "training")
        return control


class _Noted(TrainerCallback):
    """Notes the first steps for a probe: loss, norms of gradient and update, rate; then ends the training."""

    def __init__(self, probe: probes.Probing):
        self.probe, self.loss, self.before = probe, math.nan, []

    def on_pre_optimizer_step(self, args, state, control, model, **_):
        self.before = [p.detach().clone() for p in model.parameters() if p.requires_grad]

    def on_optimizer_step(self, args, state, control, model, optimizer, **_):
        trained = [p for p in model.parameters() if p.requires_grad]
        moved = [p.detach() - old for p, old in zip(trained, self.before, strict=True)]
        gradients = [p.grad for p in trained if p.grad is not None]
        self.probe.noted.append(
            {
                "step": state.global_step + 1,
                "loss": self.loss,
                "gradient": float(torch.nn.utils.get_total_norm(gradients)),
                "update": float(torch.nn.utils.get_total_norm(moved)),
                "learning_rate": optimizer.param_groups[0]["lr"],
            }
        )

    def on_step_end(self, args, state, control, **_):
        control.should_training_stop = state.global_step >= self.probe.steps
        return control


class _LabTrainer(Trainer):
    """Trainer that takes its batches from a batch sampler and saves checkpoints whole or not at all."""

    def __init__(self, *arguments, batches: Iterable[list[int]], **keywords):
        super().__init__(*arguments, **keywords)
        self._batches = batches
        self.noted = _Noted(probe) if (probe := probes.now()) is not None else None

    def training_step(self, *arguments, **keywords) -> torch.Tensor:
        loss = super().training_step(*arguments, **keywords)
        if self.noted is not None:
            self.noted.loss = float(loss)
        return loss

    def get_train_dataloader(self) -> DataLoader:
        loader = DataLoader(self.train_dataset, batch_sampler=self._batches, collate_fn=self.data_collator)  # type: ignore[arg-type]
        return self.accelerator.prepare(loader)

    def _save(self, output_dir=None, state_dict=None):
        """Without what is frozen, which whoever builds the model again has: a base may be large."""
        if frozen := self._frozen():
            whole = self.model.state_dict() if state_dict is None else state_dict
            state_dict = {name: value for name, value in whole.items() if name not in frozen}
        super()._save(output_dir, state_dict)

    def _frozen(self) -> set[str]:
        weights = self.model.named_parameters(remove_duplicate=False)  # type: ignore[union-attr]
        return {name for name, weight in weights if not weight.requires_grad}

    def _issue_warnings_after_load(self, load_result):
        frozen = self._frozen()
        load_result.missing_keys[:] = [name for name in load_result.missing_keys if name not in frozen]
        super()._issue_warnings_after_load(load_result)

    def _get_output_dir(self, trial):
        return os.path.join(self.args.output_dir, STAGING)

    def _save_checkpoint(self, model, trial):
        name, folder = f"checkpoint-{self.state.global_step}", Path(self.args.output_dir)
        try:
            super()._save_checkpoint(model, trial)
            self.accelerator.wait_for_everyone()  # each process writes a part
            if self.args.should_save:
                publish(folder / STAGING / name, folder / name)
        except (OSError, RuntimeError, SafetensorError) as error:  # a full disk has all three faces
            raise LabError(
                f"{name} could not be written in {folder} ({str(error).splitlines()[0]}): "
                "make room or fix access and "
                "run the same command again; what was saved before is kept."
            ) from error


class _Shared:
    """Batches that `batch_size` processes share evenly, as accelerate asks; LabError for one they cannot."""

    def __init__(self, batches: Iterable[list[int]], batch_size: int):
        for batch in batches:
            if len(batch) % batch_size:
                raise LabError(
                    f"a batch of {len(batch)} rows cannot be shared evenly by {batch_size} processes: "
                    "change the batch size or the number of processes."
                )
        self.batches, self.batch_size = batches, batch_size

    def __len__(self) -> int:
        return len(self.batches)  # type: ignore[arg-type]

    def __iter__(self):
        return iter(self.batches)


def _digest(file: Path) -> str:
    with open(file, "rb") as handle:
        return file_digest(handle, "sha256").hexdigest()


def _flush(place: Path) -> None:
    handle = os.open(place, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def publish(staged: Path, target: Path) -> None:
    """Move a finished folder to its place in one rename, hashed and flushed first; then drop older ones."""
    hashes = {str(file.relative_to(staged)): _digest(file) for file in staged.rglob("*") if file.is_file()}
    (staged / CHECKSUMS).write_text(json.dumps(hashes, indent=1), encoding="utf-8")
    for place in (*staged.rglob("*"), staged):
        _flush(place)
    os.rename(staged, target)
    _flush(target.parent)
    for other in target.parent.glob("checkpoint-*"):
        if other != target:
            shutil.rmtree(other)


def last_checkpoint(folder: Path) -> Path | None:
    """The newest checkpoint in `folder`, checked against its hashes; FileError names a damaged one."""
    found = get_last_checkpoint(folder) if folder.is_dir() else None
    return None if found is None else _whole(Path(found))


def _whole(checkpoint: Path) -> Path:
    """A checkpoint, as it was published; FileError if it is not."""
    try:
        files.check_sums(checkpoint, CHECKSUMS)
    except (OSError, ValueError) as error:
        raise FileError(
            f"The checkpoint {checkpoint} is damaged ({error}): move it away and run the same command "
            "again to start from the beginning."
        ) from error
    return checkpoint


def train(
    model,
    rows: Sequence[dict],
    collator: Callable,
    batches: Iterable[list[int]],
    settings: TrainingSettings,
    folder: Path,
    evaluate: Callable | None = None,
    progress: Callable[[int, int, str], None] | None = None,
    device: str = "cpu",
) -> list[dict]:
    """Train `model` in place on rows[i] for i in each of batches (settings.steps of them).

    History: [{"step", "loss", ...what evaluate(model) gives}], one entry every evaluate_every steps. A
    checkpoint is kept in `folder` at each entry; the same call continues from the last one with bit-identical
    numbers (one thread, one device). Within a probe it ends after the first steps. Raises LabError for a
    damaged checkpoint and for a disk that cannot be written.
    """
    folder = Path(folder)
    logging.disable_progress_bar()
    shutil.rmtree(folder / STAGING, ignore_errors=True)
    arguments = TrainingArguments(
        output_dir=str(folder),
        max_steps=settings.steps,
        learning_rate=settings.learning_rate,
        warmup_steps=round(settings.warmup * settings.steps),
        lr_scheduler_type="cosine",
        weight_decay=settings.weight_decay,
        max_grad_norm=settings.max_grad_norm,
        seed=settings.seed,
        bf16=settings.bf16,
        use_cpu=device == "cpu",
        logging_strategy="no",
        logging_nan_inf_filter=False,  # a loss that is no number is told as it is
        save_strategy="no",
        disable_tqdm=True,
        report_to="none",
        remove_unused_columns=False,
        dataloader_pin_memory=False,
    )
    arguments._n_gpu = min(arguments.n_gpu, 1)  # several GPUs are for accelerate to launch, not DataParallel
    if arguments.world_size > 1:  # processes share each batch, collated once: it is the same however many
        arguments.accelerator_config.split_batches = arguments.accelerator_config.dispatch_batches = True  # type: ignore[union-attr]
        batches = _Shared(batches, arguments.world_size)
    trainer = _LabTrainer(model, arguments, data_collator=collator, train_dataset=rows, batches=batches)
    for callback in list(trainer.callback_handler.callbacks):
        if type(callback).__name__ in ("PrinterCallback", "ProgressCallback"):
            trainer.remove_callback(callback)
    if trainer.noted is not None:
        trainer.add_callback(trainer.noted)
    trainer.add_callback(_Reporter(trainer, settings.evaluate_every, evaluate, progress))
    last = last_checkpoint(folder)
    trainer.train(resume_from_checkpoint=str(last) if last else None)
    model.eval()
    return history(trainer.state.log_history)


def history(log: list[dict]) -> list[dict]:
    """One entry a step of what was measured: {"step", "loss", ...}, from a Trainer's log."""
    entries: dict[int, dict] = {}
    for record in log:
        measured = {
            name.removeprefix("measured_"): value
            for name, value in record.items()
            if name == "loss" or name.startswith("measured_")
        }
        if measured:
            entries.setdefault(record["step"], {}).update(measured)
    return [{"step": step, **dict(sorted(entries[step].items()))} for step in sorted(entries)]
