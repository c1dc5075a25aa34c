"""What comes with a checkpoint is data: code that lies in it does not run, whatever is answered."""

import json

import pytest
import transformers
from safetensors.torch import load_file, save_file

from causalnb import checkpoints
from causalnb.apps.sci.base import base_and_tokenizer, tiny_llama
from causalnb.errors import LabError
from causalnb.experiments.c2dlm import text as c2dlm_text
from causalnb.experiments.iclm import text as iclm_text
from causalnb.sci import SCITransformer
from causalnb.tasks import scan

CODE = """
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
open({mark!r}, "w").close()
class Config(LlamaConfig): model_type = "own"
class Model(LlamaForCausalLM): config_class = Config
class Words(PreTrainedTokenizerFast): pass
"""
MODEL = {"auto_map": {"AutoConfig": "own.Config", "AutoModelForCausalLM": "own.Model"}}
FILES = {
    "config.json": {**MODEL, "model_type": "own"},
    "tokenizer_config.json": {"auto_map": {"AutoTokenizer": [None, "own.Words"]}, "tokenizer_class": "Words"},
}


def change(file, **entries):
    file.write_text(json.dumps(json.loads(file.read_text(encoding="utf-8")) | entries), encoding="utf-8")


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "base"
    tiny_llama(1).save_pretrained(place)
    scan.tokenizer().save_pretrained(place)
    return place


@pytest.fixture
def hostile(folder, monkeypatch):
    """(folder, mark): code that leaves the mark beside a base, and a reader who says yes to all questions."""
    mark = folder.parent / "ran"
    (folder / "own.py").write_text(CODE.format(mark=str(mark)), encoding="utf-8")
    monkeypatch.setattr("builtins.input", lambda question: "y")
    return folder, mark


def settings(folder):
    return {"base_model": str(folder), "bf16": False, "bits": 16}


LOADS = {
    "train sci": (lambda folder: base_and_tokenizer(str(folder)), LabError),
    "c2dlm": (lambda folder: c2dlm_text.text_base(settings(folder), []), LabError),
    "iclm": (lambda folder: iclm_text.text_base(settings(folder), []), LabError),
    "both": (lambda folder: (checkpoints.tokenizer(folder), checkpoints.decoder(folder)), ValueError),
}


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("load, kind", LOADS.values(), ids=LOADS)
def test_code_in_a_folder_is_not_run_when_someone_says_yes(file, load, kind, hostile):
    folder, mark = hostile
    change(folder / file, **FILES[file])
    with pytest.raises(
        kind, match="base needs Python code that lies in it, and foreign code is not"
    ) as caught:
        load(folder)
    assert not mark.exists() and "\n" not in str(caught.value) and str(folder) in str(caught.value)


def test_code_is_left_out_where_transformers_has_the_kind(hostile):
    folder, mark = hostile
    change(folder / "config.json", **MODEL)
    assert type(checkpoints.decoder(folder)) is transformers.LlamaForCausalLM and not mark.exists()


def test_the_base_in_a_checkpoint_brings_no_code(hostile):
    folder, mark = hostile
    SCITransformer.from_base(checkpoints.decoder(folder), n_structural_slots=4).save_pretrained(folder)
    whole = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    change(folder / "config.json", base_config=whole["base_config"] | MODEL, **MODEL)
    assert type(SCITransformer.from_pretrained(folder).base) is transformers.LlamaForCausalLM
    change(folder / "config.json", base_config=whole["base_config"] | {**MODEL, "model_type": "own"})
    with pytest.raises(ValueError, match="own"):
        SCITransformer.from_pretrained(folder)
    assert not mark.exists()


@pytest.mark.parametrize("load, kind", LOADS.values(), ids=LOADS)
@pytest.mark.parametrize("kept", [0, 3])
def test_a_base_that_lacks_weights_is_refused(kept, load, kind, folder):
    weights = load_file(folder / "model.safetensors")
    save_file(dict(list(weights.items())[:kept]), folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(kind, match="the checkpoint .*base has no [a-z]+[._]") as caught:
        load(folder)
    assert "\n" not in str(caught.value)


def test_a_head_of_other_classes_is_drawn_anew_only_where_they_are_asked_for(tmp_path):
    settings = dict(
        vocab_size=20, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2
    )
    model = transformers.BertForSequenceClassification(transformers.BertConfig(**settings, num_labels=3))
    model.save_pretrained(tmp_path)
    assert checkpoints.classifier(tmp_path).config.num_labels == 3
    assert checkpoints.classifier(tmp_path, num_labels=2).classifier.out_features == 2
    change(tmp_path / "config.json", id2label={"0": "a", "1": "b"}, label2id={"a": 0, "b": 1})
    with pytest.raises(ValueError, match="has another size of classifier"):
        checkpoints.classifier(tmp_path)
