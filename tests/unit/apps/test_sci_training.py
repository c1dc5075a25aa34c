"""The quick start trains on any base, goes on where it stopped, in two processes too, and is read back."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    BertConfig,
    BertLMHeadModel,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

from causalnb.apps import records
from causalnb.apps.sci import Settings, data, evaluate_sci, layers, load_sci, train_sci
from causalnb.apps.training import best_device
from causalnb.errors import CausalnbError, LabError
from causalnb.lab import training
from causalnb.tasks import scan

ROOT = Path(__file__).parents[3]
SAVED = ("README.md", "config.json", "generation_config.json", "model.safetensors", "tokenizer.json",
         "tokenizer_config.json", "training.json")  # fmt: skip
SHORT = Settings(batch_size=10, max_steps=6, evaluate_every=2)


@pytest.fixture(scope="module", autouse=True)
def few_rows():
    """The splits with 400 training rows and 40 test rows; with short ones, so that little is decoded."""
    split = scan.split

    def small(name, seed=None):
        train, test = (sorted(set(part), key=lambda pair: (len(pair[1]), pair)) for part in split(name, seed))
        return train[:400], test[:40]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan, "split", small)
        patch.setenv("ACCELERATE_USE_CPU", "true")
        yield split


class Stop(Exception):
    """An interruption."""


def stop_at(step):
    def progress(done, total, note):
        if done == step:
            raise Stop

    return progress


def interrupted(folder, settings=SHORT, step=3):
    with pytest.raises(Stop):
        train_sci(settings, folder, progress=stop_at(step))
    return folder


def same_weights(one, other, **close):
    one, other = (load_file(folder / "model.safetensors") for folder in (one, other))
    return one.keys() == other.keys() and all(torch.allclose(one[k], other[k], **close) for k in one)


EXACT = {"rtol": 0, "atol": 0}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """(folder, lines said) of the training that others must equal."""
    folder, said = tmp_path_factory.mktemp("quickstart") / "sci", []
    train_sci(SHORT, folder, said.append)
    return folder, said


# training and evaluating


def test_it_says_what_it_does_and_saves_a_model(trained):
    folder, said = trained
    assert said[0].startswith("tiny: 198,592 parameters, SCI adds ") and "after layers 1, 2;" in said[0]
    assert said[0].endswith("200 commands, 6 steps on cpu")
    assert [line.partition(":")[0] for line in said[1:]] == [f"step {n} of 6" for n in (2, 4, 6)]
    assert {path.name for path in folder.iterdir()} == {"checksums.json", *SAVED}
    record = json.loads((folder / "training.json").read_text(encoding="utf-8"))
    assert record["settings"] == SHORT.record() and record["finished"]
    assert [list(entry) for entry in record["history"]] == [["step", "loss", "test_sample", "validation"]] * 3


def test_what_was_saved_is_evaluated_with_the_flags_of_the_guide(trained):
    found = evaluate_sci(trained[0], "scan", "length", decoded=5)
    assert (found["rows"], found["decoded"], found["rows_trained_on"]) == (40, 5, 0)
    assert 0 <= found["exact_match"] <= 1 and found["forced_equals_greedy"] == 1
    assert evaluate_sci(trained[0], split="length", rows=7, decoded=30)["decoded"] == 7
    other = evaluate_sci(trained[0], split="simple", decoded=1)
    assert other["trained_on"] == "length" and other["rows_trained_on"] == 40
    assert load_sci(trained[0])[1].get_vocab() == scan.VOCABULARY


def test_it_learns(tmp_path):
    record = train_sci(replace(SHORT, max_steps=40, evaluate_every=10), tmp_path)
    losses = [entry["loss"] for entry in record["history"]]
    assert losses == sorted(losses, reverse=True) and losses[-1] < 0.8 * losses[0]


def test_an_interrupted_training_goes_on_to_the_same_numbers(trained, tmp_path):
    interrupted(tmp_path)
    with pytest.raises(LabError, match="is not finished: run the same command again"):
        evaluate_sci(tmp_path)
    said = []
    train_sci(SHORT, tmp_path, said.append)
    assert said[1] == "going on from step 2" and said[2].startswith("step 4 of 6: ")
    assert same_weights(trained[0], tmp_path, **EXACT)
    assert (trained[0] / "training.json").read_text(encoding="utf-8") == (
        tmp_path / "training.json"
    ).read_text(encoding="utf-8")


def test_checkpoints_that_a_kill_left_of_a_finished_training_go(trained):
    left = trained[0] / "checkpoints" / "checkpoint-6"
    left.mkdir(parents=True)
    train_sci(SHORT, trained[0])
    assert not left.parent.exists()


def test_a_finished_training_is_left_alone(trained):
    before, said = (trained[0] / "model.safetensors").stat().st_mtime_ns, []
    record = train_sci(SHORT, trained[0], said.append)
    assert record["finished"] and "is trained already: step 6: exact match" in said[0]
    assert (trained[0] / "model.safetensors").stat().st_mtime_ns == before


def test_a_full_disk_costs_nothing(trained, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(records.os, "replace", full)
        patch.setattr(records.files, "write_atomic", lambda path, data: path.write_bytes(data))
        tmp_path.joinpath(".keep").touch()  # a hidden file is no other training
        with pytest.raises(LabError, match="could not be saved in .*No space left.* is kept"):
            train_sci(SHORT, tmp_path)
    steps = []
    train_sci(SHORT, tmp_path, progress=lambda *said: steps.append(said))
    assert steps == [] and same_weights(trained[0], tmp_path, **EXACT)


def test_a_base_of_22_layers_takes_the_layers_of_the_guide(tmp_path):
    said = []
    settings = replace(SHORT, base_model="tiny:22", cbm_layers=(6, 11, 16), max_steps=1, lora=2, bf16=True)
    train_sci(settings, tmp_path, said.append)
    assert "after layers 6, 11, 16;" in said[0]
    model = load_sci(tmp_path)[0]
    assert model.config.cbm_layers == [6, 11, 16] and model.config.base_adapter["r"] == 2


def test_a_gpu_is_used_unless_accelerate_says_cpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert best_device() == "cpu"
    monkeypatch.delenv("ACCELERATE_USE_CPU")
    assert best_device() == "cuda"


# any base


def byte_tokenizer(**special):
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=["<end>"], initial_alphabet=alphabet,
                                  show_progress=False)  # fmt: skip
    core.train_from_iterator([f"{c} {a}" for c, a in scan.generate()[::100]], trainer)
    return PreTrainedTokenizerFast(tokenizer_object=core, **{"eos_token": "<end>", **special})


SIZES = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2}
BASES = {
    "llama": lambda n: LlamaForCausalLM(LlamaConfig(vocab_size=n, **SIZES)).to(torch.bfloat16),
    "gpt2": lambda n: GPT2LMHeadModel(GPT2Config(vocab_size=n, n_embd=16, n_layer=3, n_head=2)),
    "short": lambda n: LlamaForCausalLM(LlamaConfig(vocab_size=n, max_position_embeddings=20, **SIZES)),
    "small": lambda n: LlamaForCausalLM(LlamaConfig(vocab_size=50, **SIZES)),
    "bert": lambda n: BertLMHeadModel(BertConfig(vocab_size=n, **SIZES)),
}


@pytest.fixture(scope="module")
def bases(tmp_path_factory):
    """A folder of checkpoints with a byte-level tokenizer that has no pad token, and of damaged ones."""
    folder, tokenizer = tmp_path_factory.mktemp("bases"), byte_tokenizer()
    torch.manual_seed(0)
    for name, make in BASES.items():
        make(len(tokenizer)).save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
    for name, other in {"endless": byte_tokenizer(eos_token=None), "unknown": words_tokenizer()}.items():
        shutil.copytree(folder / "llama", folder / name)
        other.save_pretrained(folder / name)
    (folder / "empty").mkdir()
    return folder


def words_tokenizer():
    core = Tokenizer(models.WordLevel({"<unk>": 0, "walk": 1, "<end>": 2}, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=core, unk_token="<unk>", eos_token="<end>")


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_any_causal_checkpoint_is_a_base(name, bases, tmp_path):
    settings = replace(SHORT, base_model=str(bases / name), max_steps=2, cbm_layers=(1,))
    train_sci(settings, tmp_path / "sci")
    found = evaluate_sci(tmp_path / "sci", rows=6, decoded=3)
    assert found["forced_equals_greedy"] == 1 and found["base_model"] == str(bases / name)
    model, tokenizer, _ = load_sci(tmp_path / "sci")
    assert tokenizer.pad_token == "<end>" and model.dtype == torch.float32


def test_rows_of_a_text_tokenizer():
    tokenizer = byte_tokenizer(bos_token="<end>")
    row = data.scan_rows([("jump twice", "I_JUMP I_JUMP")], tokenizer)[0]
    assert tokenizer.decode(row["input_ids"]) == "<end>IN: jump twice OUT: I_JUMP I_JUMP<end>"
    prompt = [i for i, marked in zip(row["input_ids"], row["prompt_mask"], strict=True) if marked]
    assert tokenizer.decode(prompt) == "<end>IN: jump twice OUT:"
    assert row["labels"] == [-100] * len(prompt) + row["input_ids"][len(prompt):]  # fmt: skip
    assert row["structure"] == "_ twice"


def test_rows_of_the_tiny_base_are_those_of_the_task():
    pair = ("jump twice", "I_JUMP I_JUMP")
    row = data.scan_rows([pair], scan.tokenizer(), "verb_coindexed")[0]
    assert row == {**scan.encode(*pair), "structure": "A0 twice", "text": "jump twice"}


@pytest.mark.parametrize("name, sentence", [
    ("short", "SCAN has rows of .* tokens, but .* reads 20: choose another base"),
    ("small", "has ids beyond the 50 of its model"),
    ("bert", "sees the words that follow: choose a causal decoder"),
    ("endless", "has no end-of-text token"),
    ("unknown", "does not know all of SCAN's words"),
    ("empty", "no language model could be loaded from --base-model .*: give tiny, a folder"),
    ("nowhere", "no language model could be loaded"),
])  # fmt: skip
def test_a_base_that_does_not_fit_is_refused(name, sentence, bases, tmp_path):
    with pytest.raises(LabError, match=sentence) as caught:
        train_sci(replace(SHORT, base_model=str(bases / name)), tmp_path / "sci")
    assert "\n" not in str(caught.value) and not (tmp_path / "sci").exists()


# what cannot be


@pytest.mark.parametrize("change, sentence", [
    ({"base_model": "tiny:0"}, "tiny:0 has no layers"),
    ({"base_model": "org/nothing"}, "no language model could be loaded from --base-model 'org/nothing'"),
    ({"cbm_layers": (6, 11, 16)}, "layer 16, but the base tiny has 3 layers: .* from 0 to 2, or .* tiny:22"),
    ({"n_structural_slots": 64}, "64 structural slots do not fit"),
    ({"dataset": "cogs"}, "there is no data set 'cogs' for this model: use --dataset scan"),
    ({"split": "lenght"}, "Unknown SCAN split 'lenght'; choose one of simple, length"),
    ({"structure_level": "word"}, "--structure-level is 'word': choose one of verb, "),
    ({"batch_size": 2000}, "--batch-size 2000 is too large"),
    ({"epochs": 0}, "--epochs is 0: give at least 1"), ({"max_steps": 0}, "--max-steps is 0"),
    ({"lora": -1}, "--lora is -1: give 0 or more"), ({"learning_rate": 0.0}, "--learning-rate is 0.0"),
    ({"scl_weight": float("nan")}, "--scl-weight is nan: give 0 or more, and finite"),
    ({"scl_weight": float("inf")}, "--scl-weight is inf: give 0 or more, and finite"),
    ({"seed": 2**32}, "--seed is 4294967296: give at most 4294967295"),
    ({"lora": 100}, "--lora is 100, and tiny is 64 wide: give a rank below, such as 16"),
])  # fmt: skip
def test_a_wrong_setting_is_one_sentence(change, sentence, tmp_path):
    with pytest.raises(CausalnbError, match=sentence) as caught:
        train_sci(replace(SHORT, **change), tmp_path / "sci")
    assert "\n" not in str(caught.value) and not (tmp_path / "sci").exists()


def test_another_training_in_the_folder_is_refused(trained, tmp_path):
    with pytest.raises(LabError, match="holds a training with --epochs 20, not 3: choose another --output"):
        train_sci(replace(SHORT, epochs=3), trained[0])
    (tmp_path / "notes.txt").touch()
    for place in (tmp_path, tmp_path / "notes.txt"):
        with pytest.raises(LabError, match="holds something else"):
            train_sci(SHORT, place)
    kept = json.loads((trained[0] / "training.json").read_text(encoding="utf-8"))
    broken = json.dumps(kept | {"history": ["x"]})
    for text in ("{", '{"schema": 9}', '{"schema": 1}', "[]", broken):
        (tmp_path / "training.json").write_text(text, encoding="utf-8")
        with pytest.raises(LabError, match="training.json cannot be read .*: choose another --output"):
            train_sci(SHORT, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes.txt", "training.json"]


def test_two_trainings_into_one_folder_are_refused(tmp_path):
    with records.owned(tmp_path), pytest.raises(LabError, match="another command trains into"):
        train_sci(SHORT, tmp_path)


@pytest.mark.parametrize("numbers", [{"rows": 0}, {"decoded": 0}])
def test_an_evaluation_of_nothing_is_refused(trained, numbers):
    with pytest.raises(LabError, match="is 0: give at least 1"):
        evaluate_sci(trained[0], **numbers)


def copied(trained, tmp_path):
    return shutil.copytree(trained[0], tmp_path / "sci")


def refused(folder, sentence):
    for use in (evaluate_sci, lambda place: train_sci(SHORT, place)):
        with pytest.raises(LabError, match=sentence) as caught:
            use(folder)
        assert "\n" not in str(caught.value)


def summed(folder):
    """The checksums of what is in the folder now, as another program would write them."""
    names = [file.name for file in folder.iterdir() if file.name != "checksums.json"]
    sums = {name: sha256((folder / name).read_bytes()).hexdigest() for name in names}
    (folder / "checksums.json").write_text(json.dumps(sums), encoding="utf-8")


def test_what_holds_no_training_is_refused(trained, tmp_path):
    wanted = "holds no training: give the --output of causalnb train sci, which has a training.json and a ch"
    with pytest.raises(LabError, match=f"nowhere {wanted}"):
        evaluate_sci(tmp_path / "nowhere")
    load_sci(trained[0])[0].save_pretrained(tmp_path / "other")
    with pytest.raises(LabError, match=f"other {wanted}"):
        evaluate_sci(tmp_path / "other")


@pytest.mark.parametrize("name", SAVED)
@pytest.mark.parametrize("at", [None, -9, 0.5])
def test_a_file_that_is_not_what_was_saved_is_named(name, at, trained, tmp_path):
    file = copied(trained, tmp_path) / name
    data = bytearray(file.read_bytes())
    if at is None:
        file.unlink()
    else:
        data[int(at * len(data)) if at == 0.5 else at] ^= 1
        file.write_bytes(data)
    if name == "training.json":  # read first, and without it there is no training
        with pytest.raises(LabError):
            evaluate_sci(file.parent)
    else:
        refused(
            file.parent, f"sci/{name} is missing or damaged: its sha256 is not the one in checksums.json; re"
        )


def test_another_record_of_a_training_is_named(trained, tmp_path):
    file = copied(trained, tmp_path) / "training.json"
    file.write_text(
        file.read_text(encoding="utf-8").replace('"split": "length"', '"split": "simple"'), encoding="utf-8"
    )
    with pytest.raises(LabError, match="sci/training.json is missing or damaged: its sha256"):
        evaluate_sci(file.parent)


@pytest.mark.parametrize("sums", [None, "", "[]", "3", "{}", '{"config.json": 1}', "\xff"])
def test_checksums_that_say_nothing_are_refused(sums, trained, tmp_path):
    file = copied(trained, tmp_path) / "checksums.json"
    file.unlink()
    if sums is None:
        return refused(
            file.parent, "sci has no checksums.json, in which causalnb train writes what it saved: re"
        )
    file.write_bytes(sums.encode("latin1"))
    refused(file.parent, "sci/.*(cannot be read .*|names no file|is missing or damaged.*); restore")


@pytest.mark.parametrize("name", ["adapter_config.json", "chat_template.jinja", "model-00001.safetensors"])
def test_a_file_that_was_added_is_named(name, trained, tmp_path):
    folder = copied(trained, tmp_path)
    (folder / "notes.md").touch()
    load_sci(folder)
    (folder / name).write_text("{}", encoding="utf-8")
    refused(folder, f"sci/{name} was not saved by the training: move it out of the folder")


def kept(count):
    """A change of a file of weights that keeps so many of them."""
    return lambda file: save_file(dict([*load_file(file).items()][:count]), file, {"format": "pt"})


@pytest.mark.parametrize("name, change, sentence", [
    ("model.safetensors", kept(0), "sci has no "),
    ("model.safetensors", kept(-1), "sci has no "),
    ("model.safetensors", lambda file: file.write_bytes(b""), "the weights in .*sci cannot be read"),
    ("model.safetensors", lambda file: file.unlink(), "model.safetensors"),
    ("config.json", lambda file: file.write_text("[]", encoding="utf-8"), ""),
    ("tokenizer.json", lambda file: file.write_text("{}", encoding="utf-8"), ""),
])  # fmt: skip
def test_what_another_program_wrote_is_refused_in_one_sentence(name, change, sentence, trained, tmp_path):
    folder = copied(trained, tmp_path)
    change(folder / name)
    summed(folder)
    with pytest.raises(
        LabError, match=f"the model in .*sci cannot be loaded .*{sentence}.*: restore"
    ) as caught:
        evaluate_sci(folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text, wanted", [(None, None), ("6,11,16", (6, 11, 16)), (" 2, 1,2 ", (1, 2))])
def test_layers(text, wanted):
    assert layers(text) == wanted


@pytest.mark.parametrize("text", ["", "6;11", "-1", "one", "1,,2"])
def test_no_layers(text):
    with pytest.raises(LabError, match="give layers, counted from 0, such as 6,11,16"):
        layers(text)


# several processes


def test_two_processes_go_on_as_one(few_rows, tmp_path, monkeypatch):
    """accelerate continues what one process began, to the losses and weights of one process alone."""
    monkeypatch.setattr(scan, "split", few_rows)
    train_sci(SHORT, tmp_path / "one")
    interrupted(tmp_path / "two")
    words = "--batch-size 10 --max-steps 6 --evaluate-every 2 --output".split()
    launch = "accelerate.commands.launch --multi_gpu --num_processes 2 --main_process_port 0 -m causalnb"
    done = subprocess.run(
        [sys.executable, "-m", *launch.split(), "train", "sci", *words, str(tmp_path / "two")],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, encoding="utf-8",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "6 steps on cpu, 2 processes" in done.stderr and done.stderr.count("going on from step 2") == 1
    assert done.stderr.count("step 6 of 6") == 1 and done.stdout == ""
    one, two = (
        json.loads((tmp_path / n / "training.json").read_text(encoding="utf-8"))["history"]
        for n in ("one", "two")
    )
    assert [entry["loss"] for entry in two] == pytest.approx([entry["loss"] for entry in one], abs=1e-5)
    assert same_weights(tmp_path / "one", tmp_path / "two", rtol=0, atol=1e-4)
    assert not (tmp_path / "two" / "checkpoints").exists()


def test_a_batch_that_cannot_be_shared_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.raises(LabError, match="--batch-size 10 cannot be shared evenly by 4 processes: give a mult"):
        train_sci(SHORT, tmp_path / "sci")
    monkeypatch.setenv("RANK", "1")
    with pytest.raises(SystemExit) as exit:  # the first process has said it
        train_sci(SHORT, tmp_path / "sci")
    assert exit.value.code == 2 and not (tmp_path / "sci").exists()
    with pytest.raises(LabError, match="a batch of 3 rows cannot be shared evenly by 2 processes"):
        training._Shared([[0, 1], [2, 3, 4]], 2)
    assert list(training._Shared([[0, 1], [2, 3]], 2)) == [[0, 1], [2, 3]]
