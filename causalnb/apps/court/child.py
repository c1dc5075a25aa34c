"""The child process: a method trained on one task's training rows, then asked the prompts of its tests.

What it is sent holds no test row; prompts come after training, and the answers to them never. The generators
of the tasks cannot be imported here.
"""

import importlib.util
import inspect
import json
import math
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from types import ModuleType

import torch
from tokenizers import Tokenizer
from torch import nn
from torch.utils.data import DataLoader
from transformers import PreTrainedTokenizerFast, Trainer, TrainingArguments, set_seed
from transformers.models.llama.modeling_llama import LlamaForCausalLM  # noqa: F401  (kept warm for all children)
from transformers.trainer_callback import PrinterCallback
from transformers.utils import logging

import causalnb
from causalnb.apps.sci.base import tiny_llama
from causalnb.lab.batches import grouped
from causalnb.tasks.scan import SPECIALS

from .task import Task, collated, encoded, prompt_ids

TASKS = "causalnb.tasks"
OPTIONAL = ("loss", "collator", "batches", "answer", "measure")
LAYERS, WIDTH = 2, 64  # of the base
ANSWERED = 128  # prompts at a time


class Refused(Exception):
    """What is wrong with a method, as the end of a sentence that begins with its name."""


def serve(connection, request: dict) -> None:
    """Train as the request asks, say so, then answer the prompts that come; what goes wrong is told too."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the judge ends this process
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    _hide_tasks()
    try:
        told = trained(connection, request)
    except Refused as error:
        told = {"refused": str(error)}
    connection.send_bytes(json.dumps(told).encode())


def trained(connection, request: dict) -> dict:
    """What is to be told of a training, with answers to the prompts that the connection gives after it.

    Refused for a method that cannot be judged.
    """
    task, path = _task(request), request["method"]
    method = ModuleType("plain") if path is None else _loaded(Path(path))
    set_seed(task.seed)
    base = tiny_llama(LAYERS, WIDTH, words=len(task.tokenizer))
    start = _seconds()
    model = base if path is None else _said("build", method.build, base, task)
    if not isinstance(model, nn.Module):
        raise Refused(f"build gave a {type(model).__name__}: return a torch.nn.Module")
    if not hasattr(method, "answer") and not hasattr(model, "generate"):
        raise Refused(
            f"build gave a {type(model).__name__} without generate: return a model of transformers, or write "
            "answer(model, prompts, task)"
        )
    free = [p for p in model.parameters() if p.requires_grad]
    if not free:
        raise Refused("build gave a model with nothing to train: leave requires_grad on for some of it")
    done = _fitted(method, model, task, start)
    counts = {
        "parameters": sum(p.numel() for p in model.parameters()),
        "trained": sum(map(torch.numel, free)),
    }
    if hasattr(method, "measure"):
        done["measures"] = _numbers(_said("measure", method.measure, model, task))
    connection.send_bytes(json.dumps({"trained": True}).encode())
    prompts = json.loads(connection.recv_bytes())
    return done | counts | {"answers": _answers(method, model, prompt_ids(prompts, task.tokenizer), task)}


def _hide_tasks() -> None:
    """Make the generators of the tasks, by which a method could draw the tests, no modules any more."""
    for name in {TASKS, *(name for name in sys.modules if name.startswith(TASKS))}:
        sys.modules[name] = None
    del causalnb.tasks


def _task(request: dict) -> Task:
    told = {name: request[name] for name in ("name", "label", "steps", "batch_size", "learning_rate", "seed")}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(request["tokenizer"]), padding_side="left", **SPECIALS
    )
    rows = [*request["train"], *request["development"]]
    values = sorted({row["told"] for row in rows if isinstance(row["told"], str)})
    train, development = (encoded(request[part], tokenizer, values) for part in ("train", "development"))
    longest = max(sum(label != -100 for label in row["labels"]) for row in train)
    return Task(
        **told,
        values=values,
        tokenizer=tokenizer,
        train=train,
        development=development,
        answer_tokens=longest,
    )


def _loaded(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("method", path)
    method = importlib.util.module_from_spec(spec)
    sys.modules["method"] = method
    _said("its first lines", spec.loader.exec_module, method)
    for name in OPTIONAL:
        if not callable(getattr(method, name, print)):
            raise Refused(
                f"{name} is a {type(getattr(method, name)).__name__}: write a function, or leave it out"
            )
    if not callable(getattr(method, "build", None)):
        raise Refused("there is no build: write def build(base, task) that returns a model")
    return method


def _said(part: str, call: Callable, *arguments):
    """call(*arguments); Refused says in which part and line of the method's file it raised what."""
    try:
        return call(*arguments)
    except Refused:
        raise
    except BaseException as error:  # whatever a stranger's file raises, its exits too
        file = getattr(sys.modules.get("method"), "__file__", None)
        lines = [
            frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file
        ]
        if isinstance(error, SyntaxError):
            lines.append(error.lineno)
        where = f" in line {lines[-1]}" if lines else ""
        if isinstance(error, ModuleNotFoundError) and str(error.name).startswith(TASKS):
            raise Refused(
                f"{part} imports {error.name}{where}, by which the tests are drawn: take rows from task.train"
            ) from None
        why = " ".join(str(error).split())[:300].rstrip(".")
        raise Refused(f"{part} raised {type(error).__name__}{where} ({why}): correct it") from None


class _Court(Trainer):
    """The plain Trainer with the batches and the loss of a method; Refused for a loss that trains nothing."""

    def __init__(self, *arguments, batches: list[list[int]], losses: Callable, **keywords):
        super().__init__(*arguments, **keywords)
        self._batches, self._losses = batches, losses

    def get_train_dataloader(self) -> DataLoader:
        return DataLoader(self.train_dataset, batch_sampler=self._batches, collate_fn=self.data_collator)

    def compute_loss(self, model, inputs, *arguments, **keywords):
        loss, step = self._losses(model, inputs), self.state.global_step + 1
        if not isinstance(loss, torch.Tensor) or loss.shape:
            shape = f" of shape {tuple(loss.shape)}" if isinstance(loss, torch.Tensor) else ""
            raise Refused(f"the loss is a {type(loss).__name__}{shape} at step {step}: give one number")
        if not loss.isfinite():
            raise Refused(f"the loss is {loss.item()} at step {step}: lower the rate or clip what grows")
        if not loss.requires_grad:
            raise Refused(
                f"the loss at step {step} depends on nothing that is trained: compute it from the model"
            )
        return loss


def _seconds() -> float:
    """Of the processor, in this process and those that it started and has ended."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def _fitted(method: ModuleType, model: nn.Module, task: Task, start: float) -> dict:
    """Train; its seconds since `start`, the share of development rows answered right, a hash of the state."""
    before = [p.detach().clone() for p in model.parameters() if p.requires_grad]

    def losses(model, batch):
        if hasattr(method, "loss"):
            return _said("loss", method.loss, model, batch, task)
        known = inspect.signature(model.forward).parameters
        return _said("the model", lambda: model(**{k: batch[k] for k in batch if k in known}).loss)

    def collate(rows):
        if hasattr(method, "collator"):
            return _said("collator", method.collator, rows, task)
        return collated(rows, task)

    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            max_steps=task.steps,
            learning_rate=task.learning_rate,
            warmup_steps=task.steps // 10,
            lr_scheduler_type="cosine",
            weight_decay=0.01,
            seed=task.seed,
            use_cpu=True,
            logging_strategy="no",
            save_strategy="no",
            disable_tqdm=True,
            report_to="none",
            remove_unused_columns=False,
            dataloader_pin_memory=False,
        )
        trainer = _Court(
            model,
            arguments,
            data_collator=collate,
            train_dataset=task.train,
            batches=_batches(method, task),
            losses=losses,
        )
        trainer.remove_callback(PrinterCallback)
        _said("training", trainer.train)
        seconds = _seconds() - start
    after = [p.detach().contiguous() for p in model.parameters() if p.requires_grad]
    if all(map(torch.equal, before, after)):
        raise Refused(f"{task.steps} steps changed no weight of the model: give a loss that depends on them")
    asked = [row["input_ids"][: sum(row["prompt_mask"])] for row in task.development]
    truth = [[label for label in row["labels"] if label != -100] for row in task.development]
    answers = _answers(method, model, asked, task)
    right = [said[: len(wanted)] == wanted for said, wanted in zip(answers, truth, strict=True)]
    return {
        "seconds": seconds,
        "development": sum(right) / len(right),
        "steps": task.steps,
        "weights": _print_of(model),
        "measures": {},
    }


def _print_of(model: nn.Module) -> str:
    """A hash of all that the model holds, buffers and frozen parameters too."""
    held = [*model.named_parameters(), *model.named_buffers()]
    state = [
        name.encode() + t.detach().contiguous().view(-1).view(torch.uint8).numpy().tobytes()
        for name, t in held
    ]
    return sha256(b"".join(state)).hexdigest()[:16]


def _batches(method: ModuleType, task: Task) -> list[list[int]]:
    if not hasattr(method, "batches"):
        return grouped(task.train, min(task.batch_size, len(task.train)), task.steps, task.seed)
    found = _said("batches", lambda: [list(map(int, batch)) for batch in method.batches(task)])
    if len(found) != task.steps or not all(
        batch and 0 <= min(batch) <= max(batch) < len(task.train) for batch in found
    ):
        raise Refused(
            f"batches gave {len(found)} lists of row numbers: give task.steps = {task.steps}, none empty, "
            f"with numbers from 0 to {len(task.train) - 1}"
        )
    return found


@torch.no_grad()
def _answers(method: ModuleType, model: nn.Module, prompts: list[list[int]], task: Task) -> list[list[int]]:
    """The ids that follow each prompt; prompts of one length are answered together, none is padded."""
    model.eval()
    by_length: dict[int, list[int]] = {}
    for i, prompt in enumerate(prompts):
        by_length.setdefault(len(prompt), []).append(i)
    found: list[list[int]] = [[] for _ in prompts]
    for places in by_length.values():
        for first in range(0, len(places), ANSWERED):
            chosen = places[first : first + ANSWERED]
            ids = torch.tensor([prompts[i] for i in chosen])
            call = method.answer if hasattr(method, "answer") else _greedy
            said = _said("answer", call, model, ids, task)
            said = said.tolist() if isinstance(said, torch.Tensor) else said
            lists = isinstance(said, list) and all(isinstance(one, list) for one in said)
            if not lists or len(said) != len(chosen) or not all(type(i) is int for one in said for i in one):
                raise Refused(
                    f"answer gave a {type(said).__name__} for {len(chosen)} prompts (B, T): give token ids "
                    "(B, n), what follows each prompt"
                )
            for i, one in zip(chosen, said, strict=True):
                found[i] = one
    return found


def _greedy(model, prompts: torch.Tensor, task: Task) -> torch.Tensor:
    out = model.generate(
        input_ids=prompts,
        attention_mask=torch.ones_like(prompts),
        max_new_tokens=task.answer_tokens,
        do_sample=False,
        pad_token_id=task.tokenizer.pad_token_id,
        eos_token_id=task.tokenizer.eos_token_id,
    )
    return out[:, prompts.shape[1] :]


def _numbers(found) -> dict[str, float]:
    try:
        numbers = {str(name): float(value) for name, value in found.items()}
        if all(map(math.isfinite, numbers.values())):
            return numbers
    except (AttributeError, TypeError, ValueError):
        pass
    raise Refused(f"measure gave {found!r:.60}: give a dict of names and finite numbers")
