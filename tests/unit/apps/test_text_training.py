"""Each system from a file of a user's own rows to a saved, reloaded, answering model; what is refused."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from transformers import (
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertConfig,
    BertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
    RobertaConfig,
    RobertaForSequenceClassification,
)

from causalnb import attention
from causalnb.apps import records
from causalnb.apps.text import Settings, columns, evaluate_text, load_text, train_text
from causalnb.apps.text.data import held_out, rows_of
from causalnb.apps.text.systems import CausalTransformer, _texts, word_tokenizer
from causalnb.apps.text.train import prepare, read, said, with_graphs
from causalnb.c2dlm import ConceptGraph, forms, sample
from causalnb.errors import CausalnbError, DataError, LabError

ROOT = Path(__file__).parents[3]
WORDS = {"jump": "JUMP", "walk": "WALK", "run": "RUN", "look": "LOOK"}
TIMES = {"": 1, " twice": 2, " thrice": 3}


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch):
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")


def commands():
    rows = []
    for verb, action in WORDS.items():
        for times, count in TIMES.items():
            for and_ in ("", *WORDS):
                prompt = f"{verb}{times}" + (f" and {and_}" if and_ else "")
                answer = " ".join([action] * count + ([WORDS[and_]] if and_ else []))
                structure = f"V{times}" + (" and V" if and_ else "")
                rows.append(
                    {"prompt": prompt, "answer": answer, "structure": structure, "domain": times or "once"}
                )
    return rows


def judged():
    return [
        {
            "prompt": row["prompt"],
            "second": row["answer"],
            "label": "long" if "and" in row["prompt"] else "short",
        }
        for row in commands()
    ]


def lines(path, rows):
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A file of commands, one of judgements, and one of graphs of the commands."""
    folder = tmp_path_factory.mktemp("own")
    lines(folder / "commands.jsonl", commands())
    lines(folder / "judged.jsonl", judged())
    graphs = [{row["answer"].split()[0]: [row["prompt"].split()[0]]} for row in commands()]
    lines(folder / "graphs.jsonl", graphs)
    return folder


SHORT = {"max_steps": 4, "evaluate_every": 2, "batch_size": 10}


def settings_of(system, files, **options):
    data = files / ("judged.jsonl" if system == "causal-transformer" else "commands.jsonl")
    extra = {"graphs": str(files / "graphs.jsonl")} if system == "c2dlm" else {}
    return Settings(system, str(data), **SHORT, options=extra | options)


@pytest.fixture(scope="module")
def trained(files, tmp_path_factory):
    """Folders of trained systems, by name, made on the first use."""
    made = {}

    def folder(system, **options):
        name = "_".join([system, *options])
        if name not in made:
            made[name] = tmp_path_factory.mktemp("trained") / name
            train_text(settings_of(system, files, **options), made[name], device="cpu")
        return made[name]

    return folder


SYSTEMS = ["sci", "iclm", "c2dlm", "causal-transformer"]


# from a file to an answer: what README shows, for each system in at most ten lines


def test_sci_from_a_file_to_an_answer(files, tmp_path):
    train_text(Settings("sci", str(files / "commands.jsonl"), max_steps=3), tmp_path / "sci")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "sci")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "sci")
    prompt = tokenizer("jump twice", return_tensors="pt")
    ids = model.generate(**prompt, max_new_tokens=3)
    assert isinstance(tokenizer.decode(ids[0]), str) and ids.shape[1] <= 3 + 3


def test_iclm_from_a_file_to_an_answer(files, tmp_path):
    train_text(Settings("iclm", str(files / "commands.jsonl"), max_steps=3), tmp_path / "iclm")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "iclm").eval()
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "iclm")
    prompt = tokenizer("jump twice", return_tensors="pt")
    ids = model.generate(**prompt, max_new_tokens=3)
    assert isinstance(tokenizer.decode(ids[0]), str)
    assert model(prompt["input_ids"]).module.tolist()[0] in (0, 1)


def test_c2dlm_from_a_file_to_an_answer(files, tmp_path):
    settings = Settings(
        "c2dlm", str(files / "commands.jsonl"), max_steps=3, options={"graphs": str(files / "graphs.jsonl")}
    )
    train_text(settings, tmp_path / "c2dlm")
    model = AutoModelForMaskedLM.from_pretrained(tmp_path / "c2dlm")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "c2dlm")
    prompt = tokenizer("jump twice", return_tensors="pt")["input_ids"]
    length = model.config.answer_tokens
    ids = sample(model, prompt, length, length, length)
    assert isinstance(tokenizer.decode(ids[0]), str) and ids.shape[1] == 3 + length
    with pytest.raises(TypeError, match="call causalnb.c2dlm.sample"):
        model.generate(prompt)


def test_the_causal_transformer_from_a_file_to_a_label(files, tmp_path):
    train_text(Settings("causal-transformer", str(files / "judged.jsonl"), max_steps=3), tmp_path / "ct")
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "ct").eval()
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "ct")
    given = tokenizer("jump twice", "JUMP JUMP", return_tensors="pt")
    label = model(**given).logits.argmax(-1).item()
    assert model.config.id2label[label] in ("long", "short")


@pytest.mark.parametrize("name", ["c2dlm", "sci"])
def test_rows_are_what_the_tokenizer_gives_and_what_is_marked_in_them(name, files, trained):
    folder = trained(name, separated=True) if name == "sci" else trained(name)
    system, model, tokenizer = load_text(folder)
    given = {"prompt": "jump twice", "answer": "JUMP JUMP", "structure": "V twice", "at": "here"}
    given |= {"graph": ConceptGraph({"JUMP JUMP": ["jump"]}), "graph_at": "there"}
    (row,) = system.training_rows([given], tokenizer, model)
    prompt, ids = tokenizer("jump twice")["input_ids"], row["input_ids"]
    assert ids[: len(prompt)] == prompt and row["prompt_mask"] == [1] * 3 + [0] * (len(ids) - 3)
    assert tokenizer.decode(ids[3:6]).split() == ["JUMP", "JUMP", "<eos>"]
    if name == "sci":
        assert row["word_ids"] == [-1, 0, 1, 2, 3, 4]
        assert model.config.content_slots == "tokens"
    else:
        assert len(ids) == 3 + model.config.answer_tokens
        assert row["supervision"].dense()[3:5].tolist() == [[0, 1, 0, 0, 0]] * 2


# what is saved, said and scored


@pytest.mark.parametrize("system", SYSTEMS)
def test_what_was_saved_is_evaluated_with_intervals(system, files, trained):
    folder = trained(system)
    data = str(settings_of(system, files).data)
    found = evaluate_text(folder, data, challenge=data)
    held = found["data"]
    assert held["unanswerable"] == 0 and held["first_unanswerable"] is None
    assert (held["majority"] is None) == (system != "causal-transformer")
    assert held["rows"] + held["trained_on"] == 60 and held["rows"] == 6  # the rows held out are those scored
    assert 0 <= held["low"] <= held["accuracy"] <= held["high"] <= 1 and held["high"] - held["low"] > 0.1
    assert found["challenge"] == held and found["system"] == system
    if system != "causal-transformer":
        assert sum(part["rows"] for part in held["domains"].values()) == held["rows"]
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert f"causalnb train {system} --data {data}" in card and "accuracy" in card
    assert f"--output {folder}" in card and "\n# accuracy: of 6 rows held out\n```" in card
    task = "text-classification" if system == "causal-transformer" else "text-generation"
    assert f"type: {task}" in card
    record = json.loads((folder / "training.json").read_text(encoding="utf-8"))
    assert [entry["step"] for entry in record["history"]] == [2, 4] and record["finished"]


def test_a_loss_that_is_not_finite_ends_the_training_and_no_model_is_saved(files, tmp_path):
    options = {"causal_weight": 1e39}
    settings = Settings("causal-transformer", str(files / "judged.jsonl"), max_steps=6, options=options)
    with pytest.raises(LabError, match="the loss is (nan|inf) at step [1-6], and nothing could be learned"):
        train_text(settings, tmp_path / "ct", device="cpu")
    assert not records.read_record(tmp_path / "ct")["finished"] and not [
        *(tmp_path / "ct").glob("*.safetensors")
    ]


def test_a_causal_transformer_without_its_loss_is_measured_all_the_same(files, tmp_path):
    told = []
    for weight in (0.0, 1e-9):
        settings = settings_of("causal-transformer", files, causal_weight=weight)
        train_text(replace(settings, max_steps=2), tmp_path / str(weight), told.append)
    plain, held = (one for one in told if "of the nodes outside the bounds" in one)
    assert plain.split("outside")[0].split()[-5:] == held.split("outside")[0].split()[-5:]


def test_modules_may_answer_through_the_head_of_the_base(files, tmp_path):
    settings = settings_of("iclm", files, aggregation="probability")
    train_text(settings, tmp_path / "out")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    assert model.config.aggregation == "probability"
    assert not any(weight.requires_grad for weight in model.get_output_embeddings().parameters())
    with pytest.raises(LabError, match="--aggregation is 'mean': choose one of latent, logit, probability"):
        settings_of("iclm", files, aggregation="mean")


def test_it_learns_the_commands(files, tmp_path):
    settings = Settings(
        "sci", str(files / "commands.jsonl"), max_steps=60, epochs=60, evaluate_every=15, batch_size=20
    )
    history = train_text(settings, tmp_path / "sci")["history"]
    assert history[-1]["loss"] < 0.5 * history[0]["loss"]


@pytest.mark.parametrize("system", [*SYSTEMS, "separated"])
def test_an_interrupted_training_goes_on_bit_by_bit(system, files, trained, tmp_path):
    options = {"separated": True} if system == "separated" else {}
    system = "sci" if options else system
    settings = settings_of(system, files, **options)
    whole = trained(system, **options)

    class Stop(Exception):
        pass

    def stop(done, total, note):
        if done == 3:
            raise Stop

    with pytest.raises(Stop):
        train_text(settings, tmp_path / "again", progress=stop, device="cpu")
    with pytest.raises(LabError, match="is not finished: run the same command again"):
        load_text(tmp_path / "again")
    told = []
    train_text(settings, tmp_path / "again", told.append, device="cpu")
    assert "going on from step 2" in told
    one, two = (load_file(place / "model.safetensors") for place in (whole, tmp_path / "again"))
    assert one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


def test_a_kill_costs_nothing(files, trained, tmp_path):
    code = (
        "import os, signal, sys; from pathlib import Path; from causalnb.apps.text import Settings, "
        "train_text\n"
        "def kill(done, total, note):\n    if done == 3: os.kill(os.getpid(), signal.SIGKILL)\n"
        "train_text(Settings(**eval(sys.argv[1])), Path(sys.argv[2]), progress=kill, device='cpu')"
    )
    settings = settings_of("iclm", files)
    given = {name: getattr(settings, name) for name in Settings.__dataclass_fields__}
    done = subprocess.run(
        [sys.executable, "-c", code, repr(given), str(tmp_path / "killed")],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, encoding="utf-8",
    )  # fmt: skip
    assert done.returncode == -9, done.stderr
    train_text(settings, tmp_path / "killed", device="cpu")
    one, two = (load_file(place / "model.safetensors") for place in (trained("iclm"), tmp_path / "killed"))
    assert all(torch.equal(one[name], two[name]) for name in one)


# bases


@pytest.fixture(scope="module")
def bases(tmp_path_factory):
    """A GPT-2 and a BERT over the words of the rows, and what cannot be a base."""
    folder = tmp_path_factory.mktemp("bases")
    words = word_tokenizer([text for row in commands() for text in (row["prompt"], row["answer"])])
    torch.manual_seed(0)
    gpt2 = GPT2LMHeadModel(GPT2Config(vocab_size=len(words), n_embd=16, n_layer=3, n_head=2, n_positions=24))
    bert = BertForMaskedLM(
        BertConfig(vocab_size=len(words), hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
                   intermediate_size=16, max_position_embeddings=24)
    )  # fmt: skip
    for name, model in (("gpt2", gpt2), ("bert", bert), ("endless", gpt2), ("bare", bert)):
        model.save_pretrained(folder / name)
        words.save_pretrained(folder / name)
    core = words.backend_tokenizer
    PreTrainedTokenizerFast(tokenizer_object=core, pad_token="<pad>").save_pretrained(folder / "endless")
    PreTrainedTokenizerFast(tokenizer_object=core).save_pretrained(folder / "bare")
    (folder / "odd").mkdir()
    (folder / "odd" / "config.json").write_text('{"model_type": "perceptron"}', encoding="utf-8")
    words.save_pretrained(folder / "odd")
    return folder


@pytest.mark.parametrize("system, base, lora", [
    ("sci", "gpt2", 2), ("iclm", "gpt2", 2), ("c2dlm", "gpt2", 2), ("causal-transformer", "bert", 2),
    ("causal-transformer", "bert", 0), ("causal-transformer", "gpt2", 0),
])  # fmt: skip
def test_any_checkpoint_is_a_base(system, base, lora, bases, files, tmp_path):
    told = []
    settings = replace(settings_of(system, files), base_model=str(bases / base), lora=lora, max_steps=2)
    train_text(settings, tmp_path / "out", told.append)
    assert evaluate_text(tmp_path / "out", settings.data)["data"]["rows"] == 6
    if system == "causal-transformer":
        assert "of the nodes outside the bounds" in told[-1]


def test_a_base_is_found_by_its_name_where_bases_lie(bases, files, tmp_path, monkeypatch):
    monkeypatch.setenv("CAUSALNB_BASES", str(bases.parent))
    name = f"{bases.name}/gpt2"
    settings = replace(settings_of("sci", files), base_model=name, lora=2, max_steps=2)
    train_text(settings, tmp_path / "out")
    saved = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    assert saved.config.base_config.name_or_path == name
    assert f"base_model: {name}\n" in (tmp_path / "out" / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("system", ["c2dlm", "causal-transformer"])
def test_a_base_of_another_kind_is_shown_to_be_read_right(system, bases, files, tmp_path, monkeypatch):
    monkeypatch.setattr(attention, "_VERIFIED", set())
    monkeypatch.setattr(attention, "KNOWN", ())
    base = "gpt2" if system == "c2dlm" else "bert"
    settings = replace(settings_of(system, files), base_model=str(bases / base), max_steps=2)
    train_text(settings, tmp_path / "out")
    assert [kind.__name__ for kind in attention._VERIFIED] == [
        "GPT2Model" if system == "c2dlm" else "BertModel"
    ]
    assert all(weight.requires_grad for weight in load_text(tmp_path / "out")[1].parameters())
    if system == "c2dlm":
        with monkeypatch.context() as patch, pytest.raises(LabError, match="its maps are not softmax"):
            patch.setattr(forms, "map_of", lambda record: record.attention().square())
            train_text(settings, tmp_path / "again")
    monkeypatch.setattr(attention, "_VERIFIED", set())
    monkeypatch.setattr(attention.Record, "attention", lambda record: record.query)
    with pytest.raises(LabError, match="the attention of .* cannot be read .*: choose another base"):
        train_text(settings, tmp_path / "again")
    assert not (tmp_path / "again").exists()


@pytest.mark.parametrize("system, base, sentence", [
    ("sci", "odd", "no language model could be loaded from --base-model .*odd.*: give tiny, a folder"),
    ("causal-transformer", "odd", "no classifier could be loaded from --base-model .*odd"),
    ("iclm", "bert", "no language model could be loaded|sees the words that follow: choose a causal decoder"),
    ("sci", "endless", "has no end-of-text token: set its eos_token and save it"),
    ("causal-transformer", "bare", "has no padding token: set its pad_token and save it"),
    ("iclm", "nowhere", "no language model could be loaded from --base-model 'nowhere'"),
])  # fmt: skip
def test_a_base_that_does_not_fit_is_one_sentence(system, base, sentence, bases, files, tmp_path):
    name = base if base == "nowhere" else str(bases / base)
    with pytest.raises(LabError, match=sentence) as caught:
        train_text(replace(settings_of(system, files), base_model=name), tmp_path / "out")
    assert "\n" not in str(caught.value) and not (tmp_path / "out").exists()


def test_a_base_with_nan_is_called_damaged(bases, files, tmp_path):
    model, words = (
        GPT2LMHeadModel.from_pretrained(bases / "gpt2"),
        AutoTokenizer.from_pretrained(bases / "gpt2"),
    )
    with torch.no_grad():
        model.transformer.h[1].mlp.c_fc.weight[0, 0] = float("nan")
    model.save_pretrained(tmp_path / "broken")
    words.save_pretrained(tmp_path / "broken")
    with pytest.raises(LabError, match="broken' says nan of some words, so its weights are damaged: copy or"):
        train_text(replace(settings_of("sci", files), base_model=str(tmp_path / "broken")), tmp_path / "out")


@pytest.mark.parametrize("system, base", [("sci", "tiny"), ("iclm", "gpt2"), ("causal-transformer", "bert")])
def test_adapters_have_a_low_rank(system, base, bases, files, tmp_path):
    name = base if base == "tiny" else str(bases / base)
    with pytest.raises(
        LabError, match="--lora is 100000, and .* is (16|64) wide: give a rank below, such as"
    ):
        train_text(replace(settings_of(system, files), base_model=name, lora=100_000), tmp_path / "out")


def test_a_base_whose_tokenizer_knows_no_word_of_the_answers_is_named(files, tmp_path):
    words = word_tokenizer([row["prompt"] for row in commands()])
    config = Qwen2Config(  # of which transformers reads any tokenizer as one of bytes
        vocab_size=len(words), hidden_size=16, intermediate_size=16, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=2,
    )  # fmt: skip
    Qwen2ForCausalLM(config).save_pretrained(tmp_path / "deaf")
    words.save_pretrained(tmp_path / "deaf")
    settings = replace(settings_of("iclm", files), base_model=str(tmp_path / "deaf"))
    with pytest.raises(DataError, match="line [0-9]+: the tokenizer of .*deaf makes nothing of its answer"):
        train_text(settings, tmp_path / "out")


@pytest.mark.parametrize("system", ["sci", "iclm", "c2dlm"])
def test_a_word_of_an_answer_that_the_tokenizer_does_not_know_is_named(system, files, trained, tmp_path):
    words = word_tokenizer([row["prompt"] for row in commands()] + ["JUMP WALK RUN"])
    base = GPT2LMHeadModel(GPT2Config(vocab_size=len(words), n_embd=16, n_layer=3, n_head=2, n_positions=24))
    base.save_pretrained(tmp_path / "deaf")
    words.save_pretrained(tmp_path / "deaf")
    settings = replace(settings_of(system, files), base_model=str(tmp_path / "deaf"))
    said = "line [0-9]+: the tokenizer of {} does not know '{}' of its answer: choose a base that knows its"
    with pytest.raises(DataError, match=said.format(".*deaf", "LOOK")):
        train_text(settings, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    rows = [{"prompt": "jump twice", "answer": f"JUMP {word}"} for word in ("WALK", "sneezed")]
    new = str(lines(tmp_path / "new.jsonl", rows))
    found = evaluate_text(trained(system), new)["data"]  # <unk> is no right answer
    assert found["unanswerable"] == 1 and found["rows"] == 2
    assert re.search(said.format("tiny", "sneezed"), found["first_unanswerable"])


# data


def test_every_kind_of_file_has_the_same_rows(tmp_path):
    from datasets import Dataset, DatasetDict

    rows = [{"question": row["prompt"], "answer": f'{row["answer"]}, "so"'} for row in commands()]
    table = Dataset.from_list(rows)
    lines(tmp_path / "a.jsonl", rows)
    table.to_csv(tmp_path / "a.csv")
    table.to_csv(tmp_path / "a.tsv", sep="\t")
    table.to_parquet(tmp_path / "a.parquet")
    table.save_to_disk(tmp_path / "one")
    DatasetDict(train=table, test=table.select(range(3))).save_to_disk(tmp_path / "parts")
    (tmp_path / "plain").mkdir()
    lines(tmp_path / "plain" / "train.jsonl", rows)
    named = {"prompt": "question"}
    wanted = [(row["question"], row["answer"]) for row in rows]
    for name in ("a.jsonl", "a.csv", "a.tsv", "a.parquet", "one", "parts", "plain", "parts:train"):
        found = rows_of(str(tmp_path / name), named, ("prompt", "answer"))
        assert [(row["prompt"], row["answer"]) for row in found] == wanted, name
    assert len(rows_of(str(tmp_path / "parts"), named, ("prompt", "answer"), part="test")) == 3
    assert rows_of(str(tmp_path / "a.csv"), named, ("prompt",))[1]["at"] == f"{tmp_path}/a.csv, line 3"
    with pytest.raises(DataError, match="parts has no part 'dev': give one of .*parts:train, .*parts:test"):
        rows_of(str(tmp_path / "parts:dev"), named, ("prompt",))


GOOD = '{"prompt": "jump", "answer": "JUMP", "structure": "V"}\n'


@pytest.mark.parametrize("text, sentence", [
    ("", "own.jsonl has no rows: give at least a few"),
    (GOOD + "jump,JUMP\n", "own.jsonl, line 2 is no JSON: 'jump,JUMP'; write one object on each line"),
    (GOOD + '["jump"]\n', "own.jsonl, line 2 is no object with columns"),
    (GOOD + '{"prompt": "walk", "reply": "WALK"}\n',
     "line 2 has no column 'answer'; it has prompt, reply: name the right one with --columns answer="),
    (GOOD + '{"prompt": 3, "answer": "WALK"}\n', "line 2: prompt is 3: give a text"),
    (GOOD + '{"prompt": " ", "answer": "WALK"}\n', "line 2: prompt is \" \": give a text"),
    (GOOD + '{"prompt": "walk", "answer": null}\n', "line 2: answer is null: give a text"),
    (GOOD + '{"prompt": "walk", "answer": "WALK"}\n',
     "line 2 has no column 'structure': name it with --columns"),
    (GOOD + '{"prompt": "so \\ud83d it is", "answer": "WALK", "structure": "V"}',
     r"line 2: prompt has '.ud83d', half of a character: write it whole, or leave it out"),
    (GOOD, "own.jsonl has 1 different row.s.: give at least 2"),
    (GOOD + GOOD.replace('"V"', '"W"').replace("jump", "walk"),
     "has no structure with two different prompts"),
    (GOOD + json.dumps({"prompt": "walk " * 200, "answer": "W", "structure": "V"}),
     "line 2 has .* tokens and tiny reads 128: shorten it, or choose another --base-model"),
])  # fmt: skip
def test_a_row_that_does_not_fit_is_named(text, sentence, tmp_path):
    (tmp_path / "own.jsonl").write_text(text, encoding="utf-8")
    with pytest.raises(CausalnbError, match=sentence) as caught:
        train_text(Settings("sci", str(tmp_path / "own.jsonl"), max_steps=2), tmp_path / "out")
    assert "\n" not in str(caught.value) and not (tmp_path / "out").exists()


def test_other_files_that_cannot_be_read_are_named(tmp_path):
    (tmp_path / "own.csv").write_text("prompt,answer\njump,JUMP\nwalk,WALK,x\n", encoding="utf-8")
    with pytest.raises(DataError, match="own.csv, line 3 has more cells than the 2 columns: put texts"):
        rows_of(str(tmp_path / "own.csv"), {}, ("prompt", "answer"))
    for name, sentence in (("own.parquet", "give a Parquet file"), ("latin.jsonl", "give a file in UTF-8")):
        (tmp_path / name).write_bytes(b"\xe9\xff" * 9)
        with pytest.raises(DataError, match=f"{name} cannot be read .*: {sentence}"):
            rows_of(str(tmp_path / name), {}, ("prompt",))
    with pytest.raises(DataError, match="gone.jsonl cannot be read"):
        rows_of(str(tmp_path / "gone.jsonl"), {}, ("prompt",))
    for text, sentence in (
        ('prompt,answer\njump,JUMP\nrun,"RUN\nwalk,WALK\n', "own.csv, the row from line 3 on cannot be read"),
        ('prompt,answer\n"so" he said,yes\n', "the row from line 2 on .*: close each quote where its cell"),
        ("prompt,answer,answer\njump,JUMP,WALK\n", "own.csv has the column 'answer' twice: rename one"),
    ):
        (tmp_path / "own.csv").write_text(text, encoding="utf-8")
        with pytest.raises(DataError, match=sentence):
            rows_of(str(tmp_path / "own.csv"), {}, ("prompt", "answer"))
    for empty in ("", " "):
        with pytest.raises(DataError, match="names no data: give a file that ends in"):
            rows_of(empty, {}, ("prompt",))
    with pytest.raises(
        DataError, match="no data could be read from 'nobody/nothing' .*: give a file that ends in"
    ):
        rows_of("nobody/nothing", {}, ("prompt",))


def test_a_colon_is_a_part_only_of_a_data_set_with_parts(tmp_path):
    from datasets import Dataset

    place = tmp_path / "run 12:30"
    Dataset.from_list(commands()).save_to_disk(place / "one")
    assert len(rows_of(str(place / "one"), {}, ("prompt",))) == 60
    with pytest.raises(DataError, match="run 12:30/one has no parts: leave :test out"):
        rows_of(f"{place / 'one'}:test", {}, ("prompt",))


def test_a_folder_of_one_text_is_named(tmp_path):
    (tmp_path / "a, b.txt").write_text("jump\n\nJUMP\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"/a, b\.txt has 1 different row\(s\): give at least 2"):
        held_out(rows_of(str(tmp_path), {}, ("prompt", "answer")), 0.1)


def test_an_array_of_json_and_names_with_blanks_around(tmp_path):
    rows = [{"prompt": " jump ", "label": " yes"}, {"prompt": "walk", "label": 10}]
    (tmp_path / "own.json").write_text(f"\n \n {json.dumps(rows, indent=1)}", encoding="utf-8")
    found = rows_of(str(tmp_path / "own.json"), {}, ("prompt", "label"))
    assert [(row["prompt"], row["label"]) for row in found] == [(" jump ", "yes"), ("walk", "10")]
    assert found[1]["at"].endswith("own.json, row 2")
    (tmp_path / "own.json").write_text('[{"prompt": "jump"}', encoding="utf-8")
    with pytest.raises(DataError, match="own.json is no JSON .*: give an array of objects, or one object on"):
        rows_of(str(tmp_path / "own.json"), {}, ("prompt",))


def test_whole_numbers_as_labels_are_sorted_by_size(files, tmp_path):
    rows = [row | {"label": (i % 12) - 1} for i, row in enumerate(judged())]
    settings = replace(
        settings_of("causal-transformer", files), data=str(lines(tmp_path / "own.jsonl", rows))
    )
    model = prepare(settings, read(settings)).model
    assert list(model.config.label2id) == [str(i) for i in range(-1, 11)]


def test_rows_of_one_structure_and_other_words_are_named(files, tmp_path):
    rows = commands()
    rows[7] |= {"answer": f"{rows[7]['answer']} NOW"}
    settings = replace(
        settings_of("sci", files, separated=True), data=str(lines(tmp_path / "own.jsonl", rows))
    )
    said = (
        r"line \d+ has \d words, marks included, and .*, line \d+, of the same structure 'V.*', has \d: give"
    )
    with pytest.raises(DataError, match=said):
        train_text(settings, tmp_path / "out", device="cpu")
    train_text(replace(settings, options={}), tmp_path / "out", device="cpu")  # SCI does not align


def test_a_sentence_of_another_grammar_is_named_with_its_line(tmp_path):
    rows = [
        {"prompt": text, "answer": "yes"} for text in ("the cat sleeps .", "the cat sleeps .", "jump twice")
    ]
    settings = Settings(
        "sci", str(lines(tmp_path / "own.jsonl", rows)), options={"structure_level": "grammar"}
    )
    with pytest.raises(
        DataError, match="own.jsonl, line 1: Unknown word 'sleeps' .* name a column with --columns"
    ):
        train_text(settings, tmp_path / "out", device="cpu")


def test_what_graphs_guide_is_told(files, tmp_path):
    graphs = [{row["answer"].split()[0]: [row["prompt"].split()[0], "nothing"]} for row in commands()]
    graphs[::2] = [None] * 30
    said = []
    settings = settings_of("c2dlm", files, graphs=str(lines(tmp_path / "graphs.jsonl", graphs)))
    train_text(settings, tmp_path / "out", said.append, device="cpu")
    held = 54
    found = re.search(r"graphs guide (\d+) of 54 rows, by (\d+) of their (\d+) causes, 4 steps", said[0])
    assert found and 20 < int(found[1]) <= 30 < held and int(found[2]) == int(found[1]) == int(found[3]) / 2
    assert "mean loss" in said[1]


def test_one_class_is_no_task(files, tmp_path):
    rows = [row | {"label": "yes"} for row in judged()]
    settings = Settings("causal-transformer", str(lines(tmp_path / "own.jsonl", rows)))
    with pytest.raises(
        DataError, match="all 60 rows of .*own.jsonl have the label 'yes': give rows of at least two"
    ):
        train_text(settings, tmp_path / "out")


def test_a_label_that_was_not_trained_on_is_named(files, trained, tmp_path):
    challenge = lines(tmp_path / "new.jsonl", [{"prompt": "hop", "second": "HOP", "label": "maybe"}])
    with pytest.raises(
        DataError, match="new.jsonl, line 1 has the label 'maybe', none of those trained on: long"
    ):
        evaluate_text(trained("causal-transformer"), str(files / "judged.jsonl"), str(challenge))
    rows = [{"prompt": "hop", "second": "HOP", "label": "long"}, {"prompt": "hop", "label": "long"}]
    with pytest.raises(DataError, match="line 2 has no second text and others have"):
        evaluate_text(trained("causal-transformer"), str(lines(tmp_path / "half.jsonl", rows)))


def test_what_cannot_be_answered_counts_as_wrong(files, trained, tmp_path):
    folder, rows = trained("causal-transformer"), judged()[:4]
    both = [*rows, rows[0] | {"label": "maybe"}, rows[1] | {"label": "perhaps"}]
    trained_on = tmp_path / "copy"
    shutil.copytree(folder, trained_on)
    _forget(trained_on)
    data = str(lines(tmp_path / "new.jsonl", both))
    found = evaluate_text(trained_on, data, predictions=tmp_path / "said.jsonl")["data"]
    alone = evaluate_text(trained_on, str(lines(tmp_path / "good.jsonl", rows)))["data"]
    assert found["rows"] == 6 and found["accuracy"] * 6 == pytest.approx(alone["accuracy"] * 4)
    assert found["unanswerable"] == 2 and "line 5 has the label 'maybe'" in found["first_unanswerable"]
    assert found["majority"] == max(sum(row["label"] == one for row in both) for one in ("long", "short")) / 6
    said = [json.loads(line) for line in (tmp_path / "said.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [line["said"] is None for line in said] == [False] * 4 + [True] * 2
    assert [line["right"] for line in said[:4]] == [line["said"] == line["label"] for line in said[:4]]
    assert "the label 'perhaps', none of" in said[5]["why"] and {line["part"] for line in said} == {"data"}


def _forget(folder):
    """No row was trained on, as far as a folder knows."""
    (folder / "rows.json").write_text("[]", encoding="utf-8")
    sums = json.loads((folder / "checksums.json").read_text(encoding="utf-8"))
    sums["rows.json"] = hashlib.sha256(b"[]").hexdigest()
    (folder / "checksums.json").write_text(json.dumps(sums), encoding="utf-8")


@pytest.mark.parametrize("system", ["sci", "separated", "iclm", "c2dlm"])
def test_what_is_said_is_right_where_the_answer_is(system, files, trained, tmp_path):
    folder = trained("sci", separated=True) if system == "separated" else trained(system)
    shutil.copytree(folder, tmp_path / "model")
    _forget(tmp_path / "model")
    rows = commands()[:20] + [{"prompt": "jump", "answer": "JUMP " * 30, "domain": "long"}]
    data = str(lines(tmp_path / "new.jsonl", rows))
    found = evaluate_text(tmp_path / "model", data, predictions=tmp_path / "said.jsonl")["data"]
    said = [json.loads(line) for line in (tmp_path / "said.jsonl").read_text(encoding="utf-8").splitlines()]
    assert found["accuracy"] == sum(line["right"] for line in said) / 21
    assert all(line["right"] == (line["said"] == line["answer"].strip()) for line in said)
    assert found["unanswerable"] == (system == "c2dlm")
    if system == "c2dlm":
        assert (
            "an answer of 31 tokens, its end included, and the model was trained to fill in 5"
            in said[20]["why"]
        )


def test_a_long_validation_is_sampled_and_its_count_told(tmp_path, monkeypatch):
    rows = [{"prompt": f"row {i}", "label": "A" if i < 300 else "B"} for i in range(600)]
    data = str(lines(tmp_path / "sorted.jsonl", rows))
    settings = Settings("causal-transformer", data, validation=0.5, max_steps=1)
    seen = []
    monkeypatch.setattr(CausalTransformer, "outside", lambda *_: 0.0)
    monkeypatch.setattr(
        CausalTransformer, "right", lambda self, model, rows, _: seen.extend(rows) or torch.ones(len(rows))
    )
    plan = prepare(settings, read(settings))
    scores = plan.measure(plan.model)
    assert scores["scored"] == len(seen) == 200 and len({row["at"] for row in seen}) == 200
    assert 70 < sum(row["labels"] for row in seen) < 130  # of 300 in the order of the file: 50
    assert "accuracy 1.000 on 200 of the rows held out" in said(scores)
    short = replace(settings, validation=0.1)
    assert "scored" not in prepare(short, read(short)).measure(plan.model)


def test_what_is_said_ends_at_the_first_end():
    words = word_tokenizer(["jump walk"])
    jump, walk = words("jump walk", add_special_tokens=False)["input_ids"]
    end = words.eos_token_id
    assert _texts([[jump, end, walk], [jump, walk], [end]], words) == ["jump", "jump walk", ""]


def test_it_says_what_it_learned(files, tmp_path):
    settings = replace(settings_of("sci", files), max_steps=120, evaluate_every=120, epochs=99)
    train_text(settings, tmp_path / "sci", device="cpu")
    shutil.copytree(tmp_path / "sci", tmp_path / "model")
    _forget(tmp_path / "model")
    evaluate_text(tmp_path / "model", settings.data, predictions=tmp_path / "said.jsonl")
    said = [json.loads(line) for line in (tmp_path / "said.jsonl").read_text(encoding="utf-8").splitlines()]
    right = [line["right"] for line in said]
    assert 20 < sum(right) and right == [line["said"] == line["answer"] for line in said]


def test_columns_of_a_challenge_may_be_named_otherwise(files, tmp_path):
    renamed = {"prompt": "q", "answer": "a", "domain": "topic", "structure": "form"}
    own = [{renamed[name]: text for name, text in row.items()} for row in commands()]
    settings = replace(
        settings_of("iclm", files), data=str(lines(tmp_path / "own.jsonl", own)),
        columns={"prompt": "q", "answer": "a", "domain": "topic"},
    )  # fmt: skip
    train_text(settings, tmp_path / "iclm", device="cpu")
    bare = [{"q": f"hop {row['prompt']}", "a": row["answer"]} for row in commands()[:3]]  # without a domain
    other = [{"ask": f"hop {row['prompt']}", "reply": row["answer"]} for row in commands()[:3]]
    found = evaluate_text(
        tmp_path / "iclm", str(lines(tmp_path / "bare.jsonl", bare)),
        str(lines(tmp_path / "other.jsonl", other)), challenge_columns={"prompt": "ask", "answer": "reply"},
    )  # fmt: skip
    assert found["data"]["domains"] == {} and found["challenge"]["rows"] == 3
    assert {name: found["data"][name] for name in ("accuracy", "rows")} == {
        name: found["challenge"][name] for name in ("accuracy", "rows")
    }
    with pytest.raises(DataError, match="other.jsonl, line 1 has no column 'q'; it has ask, reply"):
        evaluate_text(tmp_path / "iclm", settings.data, str(tmp_path / "other.jsonl"))
    with pytest.raises(DataError, match="bare.jsonl, line 1 has no column 'topic'"):
        named = {"prompt": "q", "answer": "a", "domain": "topic"}
        evaluate_text(tmp_path / "iclm", str(tmp_path / "bare.jsonl"), columns=named)


def test_a_model_of_pairs_takes_no_single_texts_nor_the_other_way(files, trained, tmp_path):
    folder = trained("causal-transformer")
    assert load_text(folder)[1].config.pairs
    renamed = [{"prompt": f"hop {i}", "hypothesis": "hop", "label": "long"} for i in range(3)]
    challenge = str(lines(tmp_path / "chal.jsonl", renamed))
    with pytest.raises(DataError, match="chal.jsonl, line 1 has no second text and the model was trained on"):
        evaluate_text(folder, str(files / "judged.jsonl"), challenge)
    named = {"prompt": "prompt", "label": "label", "second": "hypothesis"}
    found = evaluate_text(folder, str(files / "judged.jsonl"), challenge, challenge_columns=named)
    assert found["challenge"]["rows"] == 3
    single = [{"prompt": row["prompt"], "label": row["label"]} for row in judged()]
    settings = settings_of("causal-transformer", files)
    settings = replace(settings, data=str(lines(tmp_path / "single.jsonl", single)), max_steps=1)
    train_text(settings, tmp_path / "single", device="cpu")
    assert evaluate_text(tmp_path / "single", settings.data)["data"]["rows"] == 6
    with pytest.raises(DataError, match="line [0-9]+ has a second text and the model was trained on single"):
        evaluate_text(tmp_path / "single", str(files / "judged.jsonl"))


def test_positions_that_begin_after_the_padding_are_no_room(files, tmp_path):
    words = word_tokenizer([row["prompt"] for row in judged()])
    config = RobertaConfig(
        vocab_size=len(words), hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=16, max_position_embeddings=22, pad_token_id=words.pad_token_id,
    )  # fmt: skip
    RobertaForSequenceClassification(config).save_pretrained(tmp_path / "roberta")
    words.save_pretrained(tmp_path / "roberta")
    room = 22 - words.pad_token_id - 1
    settings = settings_of("causal-transformer", files)
    settings = replace(settings, base_model=str(tmp_path / "roberta"), max_steps=1)
    for count in (room, room + 1):  # <bos> among them
        rows = [{"prompt": "jump " * (count - 1 - i), "label": str(i % 2)} for i in range(6)]
        long = replace(settings, data=str(lines(tmp_path / f"{count}.jsonl", rows)))
        if count == room:
            train_text(long, tmp_path / "out", device="cpu")
            continue
        with pytest.raises(DataError, match=f"line 1 has {count} tokens and .*roberta reads {room}: shorten"):
            train_text(long, tmp_path / "other", device="cpu")


def test_predictions_overwrite_nothing_that_is_read(files, trained, tmp_path):
    data = str(files / "commands.jsonl")
    for file in (Path(data), tmp_path, trained("sci") / "said.json"):
        with pytest.raises(
            LabError, match="--predictions .* is a folder, read by this command or beside the"
        ):
            evaluate_text(trained("sci"), data, predictions=file)


def test_rows_that_were_trained_on_are_no_test(files, trained, tmp_path):
    known = set(json.loads((trained("sci") / "rows.json").read_text(encoding="utf-8")))
    from causalnb.apps.text.data import digest

    seen = [row for row in commands() if digest(row) in known]
    with pytest.raises(DataError, match="all 54 rows of .* were trained on: give rows that were not"):
        evaluate_text(trained("sci"), str(lines(tmp_path / "seen.jsonl", seen)))


@pytest.mark.parametrize("graphs, sentence", [
    ("{}\n" * 3, "graphs.jsonl has 3 graphs and the data 60 rows: give one line for each row, null"),
    ("{\n" + "null\n" * 59, "graphs.jsonl, line 1 is no graph .*: write {effect: .causes.}"),
    ('{"a": [["b"]]}\n' + "null\n" * 59, "graphs.jsonl, line 1 is no graph"),
    ("[" * 100_000 + "\n" + "null\n" * 59, "graphs.jsonl, line 1 is no graph"),
    ('{"cat": ["dog"]}\n' * 60,
     "graphs.jsonl, line .* has no cause and effect in the text of .*commands.jsonl, line .* .1 effect.s. "
     "are not in the text .*: 'cat'.*'dog'.: quote phrases of its prompt and answer, or write null"),
    ("".join(json.dumps({row["answer"]: [row["answer"].split()[0]]}) + "\n" for row in commands()),
     "has no cause and effect in the text of .*concept.s. share tokens with another"),
    ("null\n" * 60, "no graph of .*graphs.jsonl guides an answer: give effects that stand in the answers"),
    ("".join(json.dumps({words[-1]: [words[0]]} if len(words) > 1 and words[0] != words[-1] else None) + "\n"
             for words in (row["prompt"].split() for row in commands())),
     "no graph of .* guides an answer"),
    ("".join(json.dumps({a: [p], p: [a]}) + "\n" for p, a in
             ((row["prompt"].split()[0], row["answer"].split()[0]) for row in commands())),
     "no graph of .* guides an answer: .* a cause that is not its effect in turn"),
])  # fmt: skip
def test_graphs_that_do_not_fit_are_named(graphs, sentence, files, tmp_path):
    (tmp_path / "graphs.jsonl").write_text(graphs, encoding="utf-8")
    with pytest.raises(DataError, match=sentence) as caught:
        train_text(settings_of("c2dlm", files, graphs=str(tmp_path / "graphs.jsonl")), tmp_path / "out")
    assert "\n" not in str(caught.value)


def test_a_line_of_graphs_ends_where_json_lines_end(tmp_path):
    texts = [f"jump{mark}twice" for mark in ("\u2028", "\u2029", "\x85")]
    graphs = "".join(json.dumps({text: ["JUMP"]}, ensure_ascii=False) + "\n" for text in texts)
    (tmp_path / "graphs.jsonl").write_text(graphs, encoding="utf-8-sig")
    found = with_graphs([{"at": n} for n in range(3)], str(tmp_path / "graphs.jsonl"))
    assert [[*row["graph"].edges] for row in found] == [[text] for text in texts]


def test_data_that_changed_since_the_training_began_are_refused(files, tmp_path):
    data = lines(tmp_path / "own.jsonl", commands())
    settings = replace(settings_of("iclm", files), data=str(data), max_steps=1)
    train_text(settings, tmp_path / "out")
    lines(data, commands()[1:])
    with pytest.raises(
        LabError, match="the rows of .*own.jsonl have changed since the training in .*out began"
    ):
        train_text(settings, tmp_path / "out")
    with pytest.raises(LabError, match="holds a training with --seed 0, not 1"):
        train_text(replace(settings, data=str(lines(data, commands())), seed=1), tmp_path / "out")
    with pytest.raises(LabError, match="holds a training with --num-modules 2, not 3: choose another"):
        train_text(replace(settings, options={"num_modules": 3}), tmp_path / "out")


def test_graphs_and_structures_that_changed_are_refused_too(files, tmp_path):
    graphs = lines(
        tmp_path / "graphs.jsonl", map(json.loads, (files / "graphs.jsonl").open(encoding="utf-8"))
    )
    guided = replace(settings_of("c2dlm", files, graphs=str(graphs)), max_steps=1)
    train_text(guided, tmp_path / "guided")
    first, *others = map(json.loads, graphs.read_text(encoding="utf-8").splitlines())
    lines(graphs, [{effect: causes[:1] for effect, causes in first.items()}, *others[::-1]])
    with pytest.raises(LabError, match="or their graphs have changed since the training in .*guided began"):
        train_text(guided, tmp_path / "guided")

    def told(names):
        return lines(tmp_path / "own.jsonl", [row | {"structure": names(row)} for row in commands()])

    settings = replace(settings_of("sci", files), data=str(told(lambda row: "one")), max_steps=1)
    train_text(settings, tmp_path / "out")
    told(lambda row: str(len(row["prompt"].split())))
    with pytest.raises(LabError, match="the rows of .*own.jsonl have changed"):
        train_text(settings, tmp_path / "out")


# settings


@pytest.mark.parametrize("change, sentence", [
    ({"system": "gpt"}, "there is no system 'gpt': choose one of sci, iclm, c2dlm, causal-transformer"),
    ({"epochs": 0}, "--epochs is 0: give at least 1"), ({"lora": -1}, "--lora is -1"),
    ({"learning_rate": 2.0}, "--learning-rate is 2.0: give one above 0"),
    ({"validation": 1.0}, "--validation is 1.0: give a share of the rows"),
    ({"options": {"alpha": 1}}, "--alpha is no option of sci: it has separated, "),
    ({"options": {"scl_weight": float("nan")}}, "--scl-weight is nan: give 0 or more"),
    ({"options": {"structure_level": "verb"}}, "--structure-level is 'verb': choose one of column, grammar"),
    ({"options": {"separated": True, "cbm_layers": [1]}}, "--cbm-layers says where SCI binds, and with"),
    ({"system": "c2dlm", "options": {"alpha": 0.0, "graphs": "g.jsonl"}},
     "--alpha is 0, and nothing would be drawn to causes: give a number above 0"),
    ({"system": "c2dlm", "options": {"alpha": 2.0}},
     "--alpha weighs what graphs say, and none are given: add --graphs FILE, or leave it out"),
])  # fmt: skip
def test_a_wrong_setting_is_one_sentence(change, sentence):
    with pytest.raises(LabError, match=sentence):
        Settings(**{"system": "sci", "data": "x.jsonl"} | change)


@pytest.mark.parametrize("size", [1, 2])
def test_a_step_of_sci_has_a_row_and_a_pair(size, files, tmp_path):
    with pytest.raises(LabError, match=f"--batch-size is {size}, and a step of SCI has .*: give at least 3"):
        train_text(replace(settings_of("sci", files), batch_size=size), tmp_path / "out")


def test_columns():
    assert columns(None) == {} and columns("prompt=q, label = y") == {"prompt": "q", "label": "y"}
    for text in ("prompt", "prompt=", "text=x", "prompt=a,prompt=b"):
        with pytest.raises(LabError, match="--columns has .*: give pairs such as prompt=question"):
            columns(text)
    with pytest.raises(DataError, match="--columns names label, which is not read here: give prompt, answer"):
        rows_of("x.jsonl", {"label": "y"}, ("prompt", "answer"))


def test_a_report_needs_its_package(files, tmp_path):
    settings = settings_of("iclm", files)
    with pytest.raises(LabError, match="--report-to is 'paper': choose one of none, trackio, tensorboard"):
        train_text(settings, tmp_path / "out", report_to="paper")


@pytest.mark.parametrize("system", SYSTEMS)
def test_batches_are_filled_up_to_be_shared(system, files):
    settings = replace(settings_of(system, files), validation=0.15, max_steps=None)  # 51 rows, in tens
    alone, shared = (prepare(settings, read(settings), processes).batches for processes in (1, 2))
    assert len(alone) == len(shared) and all(len(batch) % 2 == 0 for batch in shared)
    if system in ("iclm", "causal-transformer"):
        assert {1, 10} == set(map(len, alone))
        assert [batch[:1] * 2 if len(batch) == 1 else batch for batch in alone] == shared


@pytest.mark.parametrize("system, base", [("iclm", ""), ("c2dlm", ""), ("causal-transformer", "bert")])
def test_two_processes_train_as_one(system, base, bases, files, tmp_path, monkeypatch):
    """accelerate's two processes have the losses and the weights of one, without dropout."""
    monkeypatch.setattr(F, "dropout", lambda states, *_, **__: states)  # each process draws its own
    settings = settings_of(system, files)
    settings = replace(settings, base_model=str(bases / base)) if base else settings
    train_text(settings, tmp_path / "one", device="cpu")
    script = tmp_path / "train.py"
    script.write_text(
        "from pathlib import Path\n"
        "import torch.nn.functional as F\n"
        "from causalnb.apps.text import Settings, train_text\n"
        "F.dropout = lambda states, *_, **__: states\n"
        f"train_text(Settings(**{settings.__dict__!r}), Path({str(tmp_path / 'two')!r}))\n",
        encoding="utf-8",
    )
    launch = "accelerate.commands.launch --multi_gpu --num_processes 2 --main_process_port 0"
    done = subprocess.run(
        [sys.executable, "-m", *launch.split(), str(script)], timeout=300,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, encoding="utf-8",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    folders = tmp_path / "one", tmp_path / "two"
    one, two = (
        json.loads((folder / "training.json").read_text(encoding="utf-8"))["history"] for folder in folders
    )
    assert [entry["loss"] for entry in two] == pytest.approx([entry["loss"] for entry in one], rel=1e-5)
    if base:
        return  # some of its weights hardly have a gradient, of which the optimizer takes the sign
    weights, others = (load_file(folder / "model.safetensors") for folder in folders)
    torch.testing.assert_close(others, weights, rtol=1e-3, atol=1e-4)


def test_folders_of_the_quick_start_and_of_own_rows_are_told_apart(trained, tmp_path):
    from causalnb.apps.sci import load_sci

    with pytest.raises(LabError, match="was trained on your own data: call causalnb evaluate"):
        load_sci(trained("sci"))
    with pytest.raises(LabError, match="holds no training: give the --output of causalnb train, which"):
        load_text(tmp_path)
    records.write_record(tmp_path, {"base_model": "tiny"}, False, [])
    with pytest.raises(LabError, match="was trained on SCAN: call causalnb evaluate sci --checkpoint"):
        load_text(tmp_path)
