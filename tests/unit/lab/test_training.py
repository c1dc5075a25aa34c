"""Training is what its settings say, is kept whole or not at all, and goes on bit for bit."""

import json
import math
import resource
import signal
import subprocess
import sys
from contextlib import contextmanager
from hashlib import sha256
from types import SimpleNamespace

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, get_cosine_schedule_with_warmup

from causalnb.errors import LabError
from causalnb.lab import training
from causalnb.lab.training import PromptAnswerCollator, TrainingSettings, history, train

STEPS, EVERY = 6, 2
FILES = [
    "checksums.json",
    "model.safetensors",
    "optimizer.pt",
    "rng_state.pth",
    "scheduler.pt",
    "trainer_state.json",
]


def tiny(dropout=0.1):
    """A model of one layer with dropout, so that the state of the random numbers matters."""
    torch.manual_seed(3)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=23,
            hidden_size=16,
            intermediate_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            max_position_embeddings=32,
            attention_dropout=dropout,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
        )
    )


def rows(count=10):
    """Rows of 6, 7 or 8 tokens, three of them the prompt."""
    found = []
    for index in range(count):
        ids = torch.randint(3, 23, (6 + index % 3,), generator=torch.Generator().manual_seed(index)).tolist()
        found.append(
            {
                "input_ids": ids,
                "prompt_mask": [1] * 3 + [0] * (len(ids) - 3),
                "labels": [-100] * 3 + ids[3:],
                "structure": f"s{index % 4}",
            }
        )
    return found


BATCHES = [[(3 * step + place) % 10 for place in range(4)] for step in range(STEPS)]


def settings(**changes):
    return TrainingSettings(**dict(steps=STEPS, learning_rate=1e-2, evaluate_every=EVERY) | changes)


def measure(model):
    """Something that depends on every weight."""
    return {"size": sum(p.double().abs().sum().item() for p in model.parameters())}


def run(folder, progress=None, model=None, evaluate=measure, **changes):
    """(history, weights) of the training that every test here makes, in `folder`."""
    model = tiny() if model is None else model
    torch.manual_seed(5)
    found = train(
        model, rows(), PromptAnswerCollator(0), BATCHES, settings(**changes), folder, evaluate, progress
    )
    return SimpleNamespace(
        history=found, weights={k: v.clone() for k, v in model.state_dict().items()}, model=model
    )


def checkpoints(folder):
    return sorted(path.name for path in folder.glob("checkpoint-*"))


def same(one, other):
    return one.history == other.history and all(
        torch.equal(v, other.weights[k]) for k, v in one.weights.items()
    )


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """The run that all others must equal."""
    return run(tmp_path_factory.mktemp("uninterrupted"))


class Stop(Exception):
    """An interruption."""


def stop_at(step):
    def progress(done, total, note):
        if done == step:
            raise Stop

    return progress


def interrupted(folder, step=5):
    """A folder left behind by a run that stopped in `step`."""
    with pytest.raises(Stop):
        run(folder, stop_at(step))
    return folder


# what training is


def test_history_has_an_entry_at_every_interval_and_at_the_end(tmp_path):
    seen, modes = [], []

    def evaluate(model):
        modes.append((model.training, torch.is_grad_enabled()))
        return {"size": 1.5, "share": 0.5}

    found = run(tmp_path, lambda *said: seen.append(said), evaluate=evaluate, evaluate_every=4)
    assert [list(entry) for entry in found.history] == [["step", "loss", "share", "size"]] * 2
    assert [entry["step"] for entry in found.history] == [4, 6]
    assert seen == [(step, 6, "training") for step in range(1, 7)]
    assert modes == [(False, False)] * 2 and not found.model.training
    assert checkpoints(tmp_path) == ["checkpoint-6"]
    assert set(FILES) <= {file.name for file in (tmp_path / "checkpoint-6").iterdir()}
    json.dumps(found.history, allow_nan=False)


def test_the_loss_of_an_entry_is_the_mean_since_the_last_one(tmp_path):
    every = run(tmp_path / "one", evaluate=None, evaluate_every=1).history
    third = run(tmp_path / "three", evaluate=None, evaluate_every=3).history
    assert [list(entry) for entry in third] == [["step", "loss"]] * 2
    for place, entry in enumerate(third):
        assert entry["loss"] == pytest.approx(
            sum(e["loss"] for e in every[3 * place : 3 * place + 3]) / 3, rel=1e-5
        )


def test_a_loss_that_is_no_number_is_told(tmp_path):
    model = tiny()
    with torch.no_grad():
        next(model.parameters()).fill_(math.nan)
    found = train(model, rows(), PromptAnswerCollator(0), BATCHES, settings(evaluate_every=3), tmp_path)
    assert all(math.isnan(entry["loss"]) for entry in found) and len(found) == 2


def test_training_is_adamw_with_warmup_cosine_and_clipping(tmp_path):
    """Against a loop written out; decay spares norms, as the Trainer's does."""
    given = settings(warmup=0.34, weight_decay=0.1, max_grad_norm=0.5)
    ours = tiny(dropout=0.0)
    train(ours, rows(), PromptAnswerCollator(0), BATCHES, given, tmp_path)
    literal, collate, data = tiny(dropout=0.0).train(), PromptAnswerCollator(0), rows()
    groups = [
        {"params": [p for n, p in literal.named_parameters() if ("norm" in n) is norm], "weight_decay": decay}
        for norm, decay in ((False, 0.1), (True, 0.0))
    ]
    optimizer = torch.optim.AdamW(groups, lr=1e-2)
    schedule = get_cosine_schedule_with_warmup(optimizer, round(0.34 * STEPS), STEPS)
    for batch in BATCHES:
        optimizer.zero_grad()
        literal(**collate([data[row] for row in batch])).loss.backward()
        torch.nn.utils.clip_grad_norm_(literal.parameters(), 0.5)
        optimizer.step()
        schedule.step()
    for name, weight in literal.state_dict().items():
        torch.testing.assert_close(ours.state_dict()[name], weight, rtol=1e-5, atol=1e-7)
    assert schedule.get_last_lr()[0] == 0


def test_settings_come_from_a_config_and_its_other_entries_are_left():
    found = TrainingSettings.of({"steps": 3, "learning_rate": 1e-3, "hidden_size": 64, "seed": 4}, seed=7)
    assert found == TrainingSettings(steps=3, learning_rate=1e-3, seed=7)


def test_bf16_trains_and_resumes(tmp_path):
    whole = run(tmp_path / "whole", bf16=True)
    folder = tmp_path / "broken"
    with pytest.raises(Stop):
        run(folder, stop_at(5), bf16=True)
    assert same(run(folder, bf16=True), whole)
    assert all(math.isfinite(entry["loss"]) for entry in whole.history)


def test_history_takes_losses_and_measurements_only():
    log = [
        {"step": 2, "measured_x": 1.0, "epoch": 0.1},
        {"step": 2, "loss": 3.0, "grad_norm": 1.0},
        {"step": 1, "loss": 4.0},
        {"step": 2, "train_loss": 9.0},
    ]
    assert history(log) == [{"step": 1, "loss": 4.0}, {"step": 2, "x": 1.0, "loss": 3.0}]


# the collator


def test_rows_are_padded_on_the_right():
    batch = PromptAnswerCollator(9, ("input_ids", "attention_mask", "labels", "prompt_mask"))(
        [
            {"input_ids": [1, 2, 3], "prompt_mask": [1, 0, 0], "labels": [-100, 2, 3]},
            {"input_ids": [4, 5], "prompt_mask": [1, 1], "labels": [-100, -100]},
        ]
    )
    assert {name: value.tolist() for name, value in batch.items()} == {
        "input_ids": [[1, 2, 3], [4, 5, 9]],
        "attention_mask": [[1, 1, 1], [1, 1, 0]],
        "labels": [[-100, 2, 3], [-100, -100, -100]],
        "prompt_mask": [[1, 0, 0], [1, 1, 0]],
    }
    assert all(value.dtype == torch.long for value in batch.values())


def test_structures_are_numbered_in_the_batch_and_repeated_texts_are_left_out():
    texts = [([1, 2], "b"), ([3, 4], "a"), ([1, 2], "b"), ([5, 6], "b"), ([3, 4], "a"), ([7, 8], "c")]
    given = [
        {"input_ids": ids, "prompt_mask": [1, 0], "labels": [-100, ids[1]], "structure": s}
        for ids, s in texts
    ]
    batch = PromptAnswerCollator(0, ("input_ids", "structure_ids"))(given)
    assert batch["structure_ids"].tolist() == [0, 1, -1, 0, -1, 2]
    assert list(batch) == ["input_ids", "structure_ids"]
    del given[0]["structure"]
    assert list(PromptAnswerCollator(0, ("labels",))(given)) == ["labels"]


# going on


@pytest.mark.parametrize("step", [1, 3, 4, 6])
def test_an_interrupted_run_equals_one_that_was_not(step, uninterrupted, tmp_path):
    interrupted(tmp_path, step)
    assert checkpoints(tmp_path) == [f"checkpoint-{kept}" for kept in (2, 4) if kept < step][-1:]
    assert same(run(tmp_path), uninterrupted)
    assert checkpoints(tmp_path) == ["checkpoint-6"]


def test_interrupted_again_and_again(uninterrupted, tmp_path):
    seen = []
    for step in (3, 4, 5, 6):
        with pytest.raises(Stop):
            run(
                tmp_path,
                lambda done, total, note, step=step: (seen.append(done), stop_at(step)(done, total, note)),
            )
    assert seen == [1, 2, 3, 3, 4, 3, 4, 5, 5, 6]
    assert same(run(tmp_path), uninterrupted)


def test_a_finished_run_is_not_trained_again(uninterrupted, tmp_path):
    assert same(run(tmp_path), uninterrupted)
    steps = []
    assert same(run(tmp_path, lambda *said: steps.append(said)), uninterrupted)
    assert steps == []


def test_what_an_evaluation_draws_does_not_matter_to_the_resumed_run(tmp_path):
    def evaluate(model):
        return {"drawn": torch.rand(()).item()}

    whole = run(tmp_path / "whole", evaluate=evaluate)
    with pytest.raises(Stop):
        run(tmp_path / "broken", stop_at(5), evaluate=evaluate)
    assert same(run(tmp_path / "broken", evaluate=evaluate), whole)


CHILD = """
import os, shutil, signal, sys
from pathlib import Path
import torch
from tests.unit.lab import test_training as t
from transformers import Trainer

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def after(call):
    return lambda *given, **named: (call(*given, **named), die())

def second(call, then):
    calls = []
    def either(*given, **named):
        calls.append(1)
        return (then if len(calls) > 1 else call)(*given, **named)
    return either

def in_a_step(place):
    t.training._Reporter.on_step_end = second(t.training._Reporter.on_step_end, die)

def before_the_save(place):
    Trainer._save_checkpoint = second(Trainer._save_checkpoint, die)

def half_written(place):
    def half(self, *_):
        weights = sorted(Path(self.args.output_dir).glob("unfinished/*/model.safetensors"))[-1]
        weights.write_bytes(weights.read_bytes()[: weights.stat().st_size // 2])
        die()
    Trainer._save_optimizer_and_scheduler = second(Trainer._save_optimizer_and_scheduler, half)

def before_the_rename(place):
    os.rename = second(os.rename, die)

def after_the_rename(place):
    os.rename = second(os.rename, after(os.rename))

def while_the_old_one_is_removed(place):
    def partly(path, *_, **__):
        if Path(path).name == "checkpoint-2":
            (Path(path) / "model.safetensors").unlink()
            die()
    t.training.shutil.rmtree = partly

for point in sys.argv[2:]:
    child = os.fork()
    if child == 0:
        try:
            globals()[point](None)
            t.run(Path(sys.argv[1]) / point)
        finally:
            os._exit(7)
    print(point, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
POINTS = {
    "in_a_step": [],
    "before_the_save": ["checkpoint-2"],
    "half_written": ["checkpoint-2"],
    "before_the_rename": ["checkpoint-2"],
    "after_the_rename": ["checkpoint-2", "checkpoint-4"],
    "while_the_old_one_is_removed": ["checkpoint-2", "checkpoint-4"],
}


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """A folder per point at which a real process was ended by SIGKILL."""
    folder = tmp_path_factory.mktemp("killed")
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(folder), *POINTS], capture_output=True, encoding="utf-8", check=True
    )
    assert done.stdout.split("\n")[:-1] == [f"{point} {-signal.SIGKILL}" for point in POINTS], done.stderr
    return folder


@pytest.mark.parametrize("point", POINTS)
def test_a_killed_run_equals_one_that_was_not(point, killed, uninterrupted):
    folder = killed / point
    assert checkpoints(folder) == POINTS[point]
    if point in ("half_written", "before_the_rename"):
        assert (folder / "unfinished" / "checkpoint-4" / "model.safetensors").exists()
    for name in POINTS[point][-1:]:
        assert set(FILES) <= {file.name for file in (folder / name).iterdir()}
    assert same(run(folder), uninterrupted)
    assert checkpoints(folder) == ["checkpoint-6"]


# what cannot go on


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("damage", ["changed", "gone"])
def test_a_damaged_checkpoint_is_named_and_left_alone(file, damage, tmp_path):
    path = interrupted(tmp_path) / "checkpoint-4" / file
    if damage == "gone":
        path.unlink()
    else:
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    named = "" if (file, damage) == ("checksums.json", "changed") else file
    with pytest.raises(
        LabError, match=f"{tmp_path}/checkpoint-4 is damaged .*{named}.*: move it away"
    ) as caught:
        run(tmp_path)
    assert "\n" not in str(caught.value)
    assert checkpoints(tmp_path) == ["checkpoint-4"] and path.exists() is (damage == "changed")


@pytest.mark.parametrize("names", [{"../x": sha256(b"x").hexdigest()}, {}, ["config.json"], 3])
def test_checksums_are_of_the_checkpoint_alone(names, tmp_path):
    (tmp_path / "x").write_bytes(b"x")
    (sums := interrupted(tmp_path) / "checkpoint-4" / "checksums.json").write_text(
        json.dumps(names), encoding="utf-8"
    )
    with pytest.raises(LabError, match="checkpoint-4 is damaged .*: move it away"):
        run(tmp_path)
    assert sums.exists()


def test_moved_away_the_run_starts_from_the_beginning(uninterrupted, tmp_path):
    (interrupted(tmp_path / "run") / "checkpoint-4").rename(tmp_path / "damaged")
    assert same(run(tmp_path / "run"), uninterrupted)


@contextmanager
def no_file_larger_than(size):
    """Writing beyond `size` bytes of a file fails, wherever the write is made: as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("size", [500, 6_000, 20_000], ids=["config", "weights", "optimizer"])
def test_a_full_disk_is_one_sentence_and_costs_nothing(size, uninterrupted, tmp_path):
    interrupted(tmp_path)
    message = f"checkpoint-6 could not be written in {tmp_path} .*make room.*what was saved before is kept"
    with pytest.raises(LabError, match=message) as caught, no_file_larger_than(size):
        run(tmp_path)
    assert "\n" not in str(caught.value)
    assert checkpoints(tmp_path) == ["checkpoint-4"]
    assert same(run(tmp_path), uninterrupted)


@pytest.mark.parametrize("step", [1, 5])
def test_an_error_of_the_model_or_the_data_is_not_blamed_on_the_checkpoint(step, tmp_path):
    interrupted(tmp_path)

    def evaluate(model):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        run(tmp_path if step == 5 else tmp_path / "new", evaluate=evaluate)


@pytest.mark.parametrize(
    "wrong",
    [{"steps": math.nan}, {"steps": -1}, {"evaluate_every": 0}, {"learning_rate": math.inf}]
    + [{"warmup": math.nan}, {"weight_decay": -0.1}, {"max_grad_norm": True}, {"steps": 0}, {"warmup": 50}],
)
def test_settings_that_are_no_numbers_or_train_nothing_are_refused(wrong):
    with pytest.raises(LabError, match=f"{min(wrong)} is .*: give "):
        training.TrainingSettings(**({"steps": 3, "learning_rate": 0.1} | wrong))
