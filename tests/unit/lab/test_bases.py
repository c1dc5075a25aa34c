"""Pre-trained models cut to the tokens in use, as `lab.bases` gives them."""

import copy
import hashlib

import pytest
import torch

from causalnb.apps.bases import with_lora
from causalnb.apps.sci.base import tiny_llama
from causalnb.errors import LabError
from causalnb.lab import bases

TEXTS = ["walk twice and jump", "jump left after run"]


def test_a_cut_decoder_says_the_same_of_the_tokens_that_are_left():
    shape = {"vocabulary": 300, "hidden_size": 32, "layers": 2, "heads": 2}
    torch.manual_seed(0)
    whole, *_ = bases.tiny_base(shape, TEXTS)
    part, kept = copy.deepcopy(whole), [0, 3, 7, 11, 280]
    bases.cut(part, kept)
    ids = torch.tensor([[7, 280, 3, 11]])
    places = torch.tensor([[kept.index(one) for one in ids[0].tolist()]])
    labels = {"labels": places}  # for which the model reads the size of its vocabulary
    torch.testing.assert_close(part(places, **labels).logits, whole(ids).logits[..., kept])
    assert part.get_input_embeddings().weight.shape == part.get_output_embeddings().weight.shape == (5, 32)
    assert part.config.vocab_size == 5 and part.config.eos_token_id == 0


def test_a_head_that_shares_the_embedding_shares_it_when_cut():
    tied = tiny_llama(layers=1, width=32, words=20)
    bases.cut(tied, [0, 2, 5])
    assert tied.get_input_embeddings().weight is tied.get_output_embeddings().weight
    apart, *_ = bases.tiny_base({"vocabulary": 300, "hidden_size": 32, "layers": 1, "heads": 2}, TEXTS)
    bases.cut(apart, [0, 2, 5])
    assert apart.get_input_embeddings().weight is not apart.get_output_embeddings().weight


def test_ids_are_places_among_the_kept_tokens_and_a_lost_token_is_named():
    base = bases.pretrained("tiny", TEXTS)
    assert max(base.ids(TEXTS[0])) < len(base.places) == base.model.config.vocab_size
    assert base.special("eos") == base.places[base.tokenizer.eos_token_id]
    with pytest.raises(LabError, match="'Z' is none of them: name the texts"):
        base.ids("Z")


@pytest.mark.parametrize("kind", ["decoder", "classifier"])
def test_the_digest_tells_weights_apart_and_leaves_a_drawn_head_out(kind):
    more = {"num_labels": 3} if kind == "classifier" else {}
    torch.manual_seed(0)
    one = bases.pretrained("tiny", TEXTS, kind, **more)
    torch.manual_seed(0)
    same = bases.pretrained("tiny", TEXTS, kind, **more)
    other = bases.pretrained("tiny", TEXTS, kind, **more)
    assert one.digest == same.digest != other.digest
    if kind == "classifier":
        torch.nn.init.normal_(same.model.classifier.weight)
        assert bases.digest(same.model.base_model) == one.digest


def test_an_origin_has_the_sum_of_the_files_and_the_licence_on_the_card(tmp_path, monkeypatch):
    monkeypatch.setenv("CAUSALNB_BASES", str(tmp_path))
    folder = tmp_path / "us" / "small"
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "README.md").write_text("---\nlicense: apache-2.0\n---\n# Small\n", encoding="utf-8")
    found = bases.origin("us/small")
    assert found == {
        "us/small, files": hashlib.sha256(b"weights").hexdigest(),
        "us/small, licence": "apache-2.0",
    }
    (folder / "model.safetensors").write_bytes(b"others")
    assert bases.origin("us/small")["us/small, files"] != found["us/small, files"]
    (folder / "README.md").unlink()
    assert bases.origin("us/small")["us/small, licence"] == "not named" and bases.origin("tiny") == {}


def test_a_base_that_is_nowhere_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setenv("CAUSALNB_BASES", str(tmp_path))
    with pytest.raises(
        LabError, match="the base no/such is no folder here and cannot be downloaded .*: give a"
    ):
        bases.pretrained("no/such", TEXTS)


def test_two_texts_are_read_as_the_tokenizer_joins_them():
    base = bases.pretrained("tiny", TEXTS, "classifier", num_labels=2)
    ids = base.ids("walk", "jump", special=True)
    assert ids[0] == base.special("cls") and ids.count(base.special("sep")) == 2


def test_the_sign_of_a_zero_changes_no_digest():
    base = bases.pretrained("tiny", TEXTS)
    weight = base.model.get_input_embeddings().weight
    with torch.no_grad():
        weight[0, 0], weight[0, 1] = 0.0, 1.0
        plain = bases.digest(base.model)
        weight[0, 0] = -0.0
        assert bases.digest(base.model) == plain
        weight[0, 1] = -1.0
    assert bases.digest(base.model) != plain


def test_the_frozen_maps_of_layers_alone_are_halved():
    base = bases.pretrained("tiny", TEXTS)
    with_lora(base.model, 2)
    bases.halve(base.model)
    inside = {f"{name}.weight" for name, one in base.model.named_modules() if type(one) is torch.nn.Linear}
    halved = {name for name, one in base.model.named_parameters() if one.dtype == torch.bfloat16}
    frozen = {name for name, one in base.model.named_parameters() if not one.requires_grad}
    assert halved == {name for name in inside & frozen if ".layers." in name} and len(halved) == 2 * 7
    assert any(name.startswith("lm_head") for name in frozen - halved)
