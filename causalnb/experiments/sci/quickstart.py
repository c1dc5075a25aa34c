"""The guide's quick start: train SCI on SCAN over any base model, and evaluate what was saved."""

import json
import math
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

from causalnb.errors import CausalnbError, LabError, sentence
from causalnb.lab import files
from causalnb.lab.probes import scored
from causalnb.lab.registry import Experiment, Run, register
from causalnb.paths import shown
from causalnb.tasks import scan

TINY = re.compile(r"tiny(?::(\d+))?")
RECORD, CHECKPOINTS, STAGED = "training.json", "checkpoints", "saving"  # in the output folder
SCHEMA = 1
INPUTS = ("input_ids", "attention_mask", "labels", "prompt_mask")
VALIDATION_ROWS, CURVE_ROWS = 200, 200


@dataclass(frozen=True)
class Settings:
    """What decides the numbers of a training, with the guide's names; LabError for a value out of range.

    base_model: "tiny", "tiny:<layers>", or a folder or hub name; cbm_layers None: 27, 50 and 73 % of depth;
    learning_rate None: 2e-3 for a tiny base, 1e-4 for a trained one; max_steps None: as the epochs say;
    evaluate_every None: each epoch, at least five times; lora: rank, 0 trains all weights.
    """

    base_model: str = "tiny"
    dataset: str = "scan"
    split: str = "length"
    n_structural_slots: int = 8
    cbm_layers: tuple[int, ...] | None = None
    scl_weight: float = 0.1
    epochs: int = 20
    learning_rate: float | None = None
    batch_size: int = 64
    structure_level: str = "verb"
    seed: int = 0
    max_steps: int | None = None
    evaluate_every: int | None = None
    bf16: bool = False
    lora: int = 0

    def __post_init__(self):
        for name in ("epochs", "batch_size", "max_steps", "evaluate_every"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise LabError(f"{option(name)} is {value}: give at least 1.")
        for name in ("scl_weight", "seed", "lora"):
            if not 0 <= getattr(self, name) < math.inf:
                raise LabError(f"{option(name)} is {getattr(self, name)}: give 0 or more, and finite.")
        if self.seed > 2**32 - 1:
            raise LabError(f"--seed is {self.seed}: give at most {2**32 - 1}.")
        if self.learning_rate is not None and not 0 < self.learning_rate < 1:
            raise LabError(f"--learning-rate is {self.learning_rate}: give one above 0, such as 1e-4.")
        if self.structure_level not in scan.LEVELS:
            known = ", ".join(scan.LEVELS)
            raise LabError(f"--structure-level is {self.structure_level!r}: choose one of {known}.")

    def record(self) -> dict:
        """The settings as JSON has them."""
        return json.loads(json.dumps(asdict(self)))


def option(name: str) -> str:
    """The option of a setting: "--batch-size" for "batch_size"."""
    return f"--{name.replace('_', '-')}"


def layers(text: str | None) -> tuple[int, ...] | None:
    """Layers as typed: "6,11,16" -> (6, 11, 16), in order, each once; LabError for anything else."""
    if text is None:
        return None
    if not re.fullmatch(r"\s*\d+\s*(,\s*\d+\s*)*", text):
        raise LabError(f"--cbm-layers is {text!r}: give layers, counted from 0, such as 6,11,16.")
    return tuple(sorted({int(number) for number in text.split(",")}))


# data


def scan_pairs(dataset: str, split: str) -> tuple[list, list]:
    """(train, test) pairs of command and actions; LabError for another data set, DataError for a split."""
    if dataset != "scan":
        raise LabError(f"there is no data set {dataset!r} for this model: use --dataset scan.")
    return scan.split(split)


def scan_ids(pairs: Sequence[tuple[str, str]], tokenizer) -> list[tuple[list[int], list[int]]]:
    """(prompt, answer) token ids of pairs: SCAN's own words, or a text tokenizer's "IN: x OUT:" and " y"."""
    if tokenizer.get_vocab() == scan.VOCABULARY:
        rows = [scan.encode(*pair) for pair in pairs]
        ends = [sum(row["prompt_mask"]) for row in rows]
        return [(row["input_ids"][:end], row["input_ids"][end:]) for row, end in zip(rows, ends, strict=True)]
    begin = [] if tokenizer.bos_token_id is None else [tokenizer.bos_token_id]

    def ids(texts: list[str]) -> list[list[int]]:
        return tokenizer(texts, add_special_tokens=False)["input_ids"]

    prompts = ids([f"IN: {command} OUT:" for command, _ in pairs])
    answers = ids([f" {actions}" for _, actions in pairs])
    end = [tokenizer.eos_token_id]
    return [(begin + prompt, answer + end) for prompt, answer in zip(prompts, answers, strict=True)]


def scan_rows(pairs: Sequence[tuple[str, str]], tokenizer, level: str = "verb") -> list[dict]:
    """Rows with input_ids, prompt_mask, labels, structure and text."""
    return [
        {
            "input_ids": prompt + answer,
            "prompt_mask": [1] * len(prompt) + [0] * len(answer),
            "labels": [-100] * len(prompt) + answer,
            "structure": scan.structure(command, level),
            "text": command,
        }
        for (command, _), (prompt, answer) in zip(pairs, scan_ids(pairs, tokenizer), strict=True)
    ]


def held_out(rows: list[dict], count: int) -> tuple[list[dict], list[dict]]:
    """(training, validation): `count` rows taken out, none of which is repeated; the same for every seed."""
    from numpy.random import default_rng

    times = Counter(row["text"] for row in rows)
    single = [text for text, number in times.items() if number == 1]
    chosen = set(default_rng(0).choice(sorted(single), count, replace=False).tolist())
    return [r for r in rows if r["text"] not in chosen], [r for r in rows if r["text"] in chosen]


def sample(rows: list, count: int) -> list:
    """`count` rows of the data, the same draw every time, or all of them."""
    from numpy.random import default_rng

    return [rows[i] for i in default_rng(0).permutation(len(rows))[:count]]


# base models


def tiny_llama(layers: int = 3, width: int = 64, heads: int = 4):
    """A Llama with random weights over SCAN's words."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=len(scan.VOCABULARY),
        hidden_size=width,
        intermediate_size=4 * width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        max_position_embeddings=128,
        initializer_range=0.4 / width**0.5,
        tie_word_embeddings=True,
        pad_token_id=scan.VOCABULARY["<pad>"],
        bos_token_id=scan.VOCABULARY["<bos>"],
        eos_token_id=scan.VOCABULARY["<eos>"],
    )
    return LlamaForCausalLM(config)


def base_and_tokenizer(name: str):
    """A decoder in float32 and its tokenizer: tiny, tiny:<layers>, or a folder or name on the hub.

    LabError for what cannot be loaded, sees what follows, or has a tokenizer that does not fit SCAN or it.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()
    if tiny := TINY.fullmatch(name):
        if tiny[1] == "0":
            raise LabError("--base-model tiny:0 has no layers: give at least 1.")
        return tiny_llama(int(tiny[1] or 3)), scan.tokenizer()
    try:
        tokenizer = AutoTokenizer.from_pretrained(name)
        base = AutoModelForCausalLM.from_pretrained(name, dtype=torch.float32)
    except Exception as error:  # whatever a half-copied folder makes transformers raise
        why = (str(error) or type(error).__name__).splitlines()[0][:200].rstrip(".")
        raise LabError(
            f"no language model could be loaded from --base-model {name!r} ({why}): give tiny, a folder that "
            "transformers saved, or, with a network, a name on the Hugging Face hub."
        ) from error
    if tokenizer.eos_token_id is None:
        raise LabError(f"the tokenizer of {name!r} has no end-of-text token: set its eos_token and save it.")
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token  # never read: masked, and no label
    words = tokenizer(" ".join((*scan.WORDS, *scan.ACTIONS)), add_special_tokens=False)["input_ids"]
    if tokenizer.unk_token_id in words:
        raise LabError(f"the tokenizer of {name!r} does not know all of SCAN's words: choose another base.")
    known = base.get_input_embeddings().num_embeddings
    if max(*words, tokenizer.eos_token_id, tokenizer.pad_token_id) >= known:
        raise LabError(
            f"the tokenizer of {name!r} has ids beyond the {known} of its model: save them together."
        )
    other = next(id for id in words if id != words[3])
    with torch.no_grad():
        first = base.eval()(torch.tensor([words[:4], [*words[:3], other]])).logits[:, 0]
    if not torch.allclose(*first, rtol=1e-4, atol=1e-5):
        raise LabError(f"{name!r} sees the words that follow: choose a causal decoder as --base-model.")
    return base, tokenizer


def build(settings: Settings):
    """SCI on the settings' base, and the tokenizer; LabError for layers and slots that do not fit it."""
    from peft import LoraConfig, get_peft_model

    from causalnb.sci import SCITransformer

    base, tokenizer = base_and_tokenizer(settings.base_model)
    depth, chosen = base.config.num_hidden_layers, settings.cbm_layers
    if chosen and max(chosen) >= depth:
        raise LabError(
            f"--cbm-layers names layer {max(chosen)}, but the base {settings.base_model} has {depth} layers: "
            f"leave --cbm-layers out, choose from 0 to {depth - 1}, or take --base-model tiny:22."
        )
    if settings.lora:
        rank = settings.lora
        base = get_peft_model(base, LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear"))
    try:
        model = SCITransformer.from_base(
            base,
            n_structural_slots=settings.n_structural_slots,
            cbm_layers=list(chosen) if chosen else None,
            scl_weight=settings.scl_weight,
        )
    except ValueError as error:
        raise LabError(f"{sentence(error)}.") from error
    return model, tokenizer


# training


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


def fits(model, rows: list[dict], name: str) -> None:
    """LabError if a row is longer than the model's positions."""
    longest = max(len(row["input_ids"]) for row in rows)
    room = getattr(model.config.base_config, "max_position_embeddings", None) or longest
    if longest > room:
        raise LabError(f"SCAN has rows of {longest} tokens, but {name!r} reads {room}: choose another base.")


def read_record(folder: Path) -> dict | None:
    """What a training wrote into its folder, None if there is nothing; LabError if it is not readable."""
    try:
        record = json.loads((folder / RECORD).read_bytes())
        if record["schema"] != SCHEMA:
            raise ValueError(f"schema {record['schema']}, this version reads {SCHEMA}")
        return {name: record[name] for name in ("schema", "settings", "finished", "history")}
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LabError(
            f"{shown(folder / RECORD)} cannot be read ({sentence(error)}): choose another --output."
        ) from error


def write_record(folder: Path, settings: Settings, finished: bool, history: list[dict]) -> dict:
    """Write, and return, the record of a training."""
    record = {"schema": SCHEMA, "settings": settings.record(), "finished": finished, "history": history}
    files.write_atomic(folder / RECORD, (json.dumps(record, indent=1) + "\n").encode())
    return record


def same_run(folder: Path, settings: Settings) -> dict | None:
    """The record of the same training in `folder`; LabError if the folder holds anything else."""
    record = read_record(folder)
    if record is None and folder.exists() and (not folder.is_dir() or any(folder.glob("[!.]*"))):
        raise LabError(f"{shown(folder)} holds something else: choose another --output.")
    asked = settings.record()
    if record and record["settings"] != asked:
        other = next(name for name in asked if record["settings"].get(name) != asked[name])
        raise LabError(
            f"{shown(folder)} holds a training with {option(other)} {record['settings'].get(other)}, not "
            f"{asked[other]}: choose another --output, or delete the folder."
        )
    return record


@contextmanager
def owned(folder: Path) -> Iterator[None]:
    """Within this context no other command trains into `folder`."""
    name = f"train.{sha256(str(folder.resolve()).encode()).hexdigest()[:16]}"
    with files.lock(name, f"another command trains into {shown(folder)}: wait, or choose another --output."):
        yield


def save(model, tokenizer, folder: Path) -> None:
    """Put model and tokenizer into `folder`, written aside first; LabError if the disk refuses."""
    import shutil

    from safetensors import SafetensorError

    staged = folder / STAGED
    try:
        shutil.rmtree(staged, ignore_errors=True)
        model.save_pretrained(staged)
        tokenizer.save_pretrained(staged)
        for file in staged.iterdir():
            os.replace(file, folder / file.name)
        staged.rmdir()
    except (OSError, RuntimeError, SafetensorError) as error:  # a full disk has all three faces
        raise LabError(
            f"the model could not be saved in {shown(folder)} ({sentence(error)}): make room and run the "
            "same command again; its last checkpoint is kept."
        ) from error


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
    rank, processes = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    with owned(output) if rank == 0 else nullcontext():
        try:
            record = same_run(output, settings) if rank == 0 else read_record(output)
            if record and record["finished"]:
                say(f"{shown(output)} is trained already: {at(record['history'][-1])}.")
                return record
            plan = prepare(settings, processes)
        except CausalnbError:
            if rank:
                sys.exit(2)  # the first process says it
            raise
        return _train(settings, plan, output, say, progress, device, rank, processes)


def _train(settings, plan, output, say, progress, device, rank, processes) -> dict:
    import shutil

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
        save(plan.model, plan.tokenizer, output)
        write_record(output, settings, True, history)
        shutil.rmtree(output / CHECKPOINTS, ignore_errors=True)
    PartialState().destroy_process_group()
    return record


def best_device() -> str:
    """The device: "cuda" where there is a GPU, unless accelerate was told to use the CPU."""
    import torch
    from accelerate.utils import parse_flag_from_env

    return "cuda" if torch.cuda.is_available() and not parse_flag_from_env("ACCELERATE_USE_CPU") else "cpu"


def at(entry: dict, steps: int | None = None) -> str:
    """In words: "step 40 of 100: exact match 0.81 on validation, 0.02 on a sample of the test rows"."""
    return (
        f"step {entry['step']:,}" + (f" of {steps:,}" if steps else "") + f": exact match "
        f"{entry['validation']:.3f} on validation, {entry['test_sample']:.3f} on a sample of the test rows"
    )


# evaluation


def load_sci(checkpoint: Path):
    """(model, tokenizer, settings) that train_sci saved; LabError if it is unfinished or damaged."""
    from transformers import AutoTokenizer
    from transformers.utils import logging

    from causalnb.sci import SCITransformer

    logging.disable_progress_bar()
    record = read_record(checkpoint)
    if record is None:
        raise LabError(f"{shown(checkpoint)} holds no training: give the --output of causalnb train sci.")
    if not record["finished"]:
        raise LabError(f"the training in {shown(checkpoint)} is not finished: run the same command again.")
    try:
        model = SCITransformer.from_pretrained(checkpoint)
        tokenizer = AutoTokenizer.from_pretrained(checkpoint, config=model.config.base_config)
    except (OSError, ValueError) as error:
        raise LabError(
            f"the model in {shown(checkpoint)} cannot be loaded ({sentence(error).rstrip('.')}): restore the "
            "folder, or delete it and train again."
        ) from error
    return model.eval(), tokenizer, record["settings"]


def evaluate_sci(
    checkpoint: Path,
    dataset: str = "scan",
    split: str = "length",
    rows: int | None = None,
    decoded: int = 300,
    device: str | None = None,
) -> dict:
    """Exact match on `rows` test rows of a split (None: all), forced, and greedy on `decoded` of them.

    Also how many of the rows were training commands, as happens with another split than that of the training.
    """
    from causalnb.lab.evaluation import greedy_matches, teacher_forced_matches
    from causalnb.lab.training import PromptAnswerCollator

    for name, value in (("--rows", rows), ("--decoded", decoded)):
        if value is not None and value < 1:
            raise LabError(f"{name} is {value}: give at least 1.")
    _, pairs = scan_pairs(dataset, split)
    model, tokenizer, settings = load_sci(checkpoint)
    model = model.to(device or best_device())
    trained = {command for command, _ in scan_pairs(settings["dataset"], settings["split"])[0]}
    test = scored(scan_rows(sample(pairs, rows or len(pairs)), tokenizer))
    fits(model, test, str(checkpoint))
    pad, end = tokenizer.pad_token_id, tokenizer.eos_token_id
    forced = teacher_forced_matches(model, test, PromptAnswerCollator(pad, INPUTS))
    longest = max(len(row["labels"]) - sum(row["prompt_mask"]) for row in test[:decoded])
    greedy = greedy_matches(model, test[:decoded], pad, end, max_new_tokens=longest)
    return {
        "checkpoint": str(checkpoint),
        "base_model": settings["base_model"],
        "trained_on": settings["split"],
        "dataset": dataset,
        "split": split,
        "exact_match": float(forced.mean()),
        "rows": len(forced),
        "greedy_exact_match": float(greedy.mean()),
        "decoded": len(greedy),
        "forced_equals_greedy": float((forced[: len(greedy)] == greedy).mean()),
        "rows_trained_on": sum(row["text"] in trained for row in test),
    }


# the experiment


def run_quickstart(run: Run) -> dict:
    """The two commands, one after the other."""
    config = {**run.config, "max_steps": run.config["steps"]}
    settings = Settings(
        **{name: config[name] for name in Settings.__dataclass_fields__ if name in config},
        seed=run.seed,
    )
    folder = run.folder / "model"
    history = train_sci(settings, folder, progress=run.progress, device=run.device)["history"]
    asked = settings.dataset, settings.split, config["rows"], config["decoded"], run.device
    found = evaluate_sci(folder, *asked)
    model = load_sci(folder)[0]
    whole, base = (sum(p.numel() for p in part.parameters()) for part in (model, model.base))
    numbers = ("exact_match", "greedy_exact_match", "forced_equals_greedy", "rows", "decoded")
    return {
        "metrics": {
            **{name: found[name] for name in numbers},
            "validation_exact_match": history[-1]["validation"],
            "steps": history[-1]["step"],
            "parameters": whole,
            "sci_parameters": whole - base,
        },
        "history": history,
    }


register(
    Experiment(
        id="sci.quickstart",
        title="The guide's quick start: its two commands with its flags, on a tiny base",
        arms={"sci": {}, "sci_22": {"base_model": "tiny:22", "cbm_layers": [6, 11, 16], "epochs": 1}},
        settings={
            "laptop": {
                "base_model": "tiny",
                "dataset": "scan",
                "split": "length",
                "n_structural_slots": 8,
                "cbm_layers": None,
                "scl_weight": 0.1,
                "epochs": 3,
                "learning_rate": None,
                "batch_size": 64,
                "structure_level": "verb",
                "steps": None,
                "evaluate_every": None,
                "bf16": False,
                "rows": None,
                "decoded": 300,
            },
            "quick": {"steps": 6, "batch_size": 12, "evaluate_every": 3, "rows": 24, "decoded": 4},
            "gpu": {"epochs": 20, "bf16": True},
            "paper": {
                "base_model": "TinyLlama/TinyLlama-1.1B-Chat-v1.0",
                "cbm_layers": [6, 11, 16],
                "epochs": 20,
                "bf16": True,
            },
        },
        seeds={"quick": 1, "laptop": 3},
        cost={"quick": 15, "laptop": 200, "gpu": 900, "paper": 100_000},
        run=run_quickstart,
        # fmt: skip
        notebook="21_sci_scan",
    )
)
