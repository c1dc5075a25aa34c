"""What is saved comes back: weights bit by bit, settings, adapters and which weights train."""

import json

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, GenerationConfig, Trainer, TrainingArguments

from causalnb import sci
from causalnb.sci.contrasts import SlotDecoder
from tests.unit.sci.tiny import BASES, FORCED, SLOTS, VOCABULARY, WIDTH, awake, base, batch, gradients
from tests.unit.sci.tiny import sci as wrapped

SETTINGS = dict(n_structural_slots=SLOTS, d_structure=WIDTH, n_structural_heads=2)
SCI_PARTS = ["structural_encoder", "content_encoder", "causal_binding", "down_proj", "down_norm"]


def lora(**settings):
    return LoraConfig(**dict(target_modules=["q_proj", "v_proj"], r=2, init_lora_weights=False) | settings)


def trainable(model):
    return {name for name, p in model.named_parameters() if p.requires_grad}


def same(one, other, given=None):
    """Equal state bit by bit; equal outputs up to what another place in memory does to a kernel's sums."""
    one_state, other_state = one.state_dict(), other.state_dict()
    assert one_state.keys() == other_state.keys()
    assert all(torch.equal(one_state[key], other_state[key]) for key in one_state)
    given = batch() if given is None else given
    torch.testing.assert_close(one.eval()(**given).logits, other.eval()(**given).logits, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name, tied", [(name, tied) for name in BASES for tied in (True, False)])
def test_round_trip(name, tied, tmp_path):
    model = wrapped(
        base(name, torch.float32, tie_word_embeddings=tied), cbm_layers=[0, 2], scl_weight=0.3, ortho="none"
    )
    model.save_pretrained(tmp_path)
    assert not list(tmp_path.glob("*.bin")) + list(tmp_path.glob("*.pt"))
    again = sci.SCITransformer.from_pretrained(tmp_path)
    same(model, again)
    for setting in ("cbm_layers", "scl_weight", "ortho", "n_structural_slots", "d_structure"):
        assert getattr(again.config, setting) == getattr(model.config, setting)
    assert type(again.base) is type(model.base) and trainable(again) == trainable(model)
    shared = again.base.get_output_embeddings().weight is again.base.get_input_embeddings().weight
    assert shared is tied
    ids = batch()["input_ids"]
    assert torch.equal(again.generate(ids, **FORCED), model.generate(ids, **FORCED))


@pytest.mark.parametrize("name", ["llama", "mistral"])
def test_a_half_precision_base_is_left_as_it_was_and_comes_back(name, tmp_path):
    base(name, torch.bfloat16).save_pretrained(tmp_path / "base")
    decoder = AutoModelForCausalLM.from_pretrained(tmp_path / "base").eval()
    expected, buffers = (
        decoder(batch()["input_ids"]).logits,
        {name: b.dtype for name, b in decoder.named_buffers()},
    )
    model = sci.SCITransformer.from_base(
        decoder, n_structural_slots=SLOTS, d_structure=WIDTH, n_structural_heads=2
    ).eval()
    assert {p.dtype for p in model.parameters()} == {torch.bfloat16}
    assert torch.equal(model(**batch()).logits, expected)  # binding starts at zero
    assert {name: b.dtype for name, b in decoder.named_buffers()} == buffers
    awake(model).save_pretrained(tmp_path / "sci")
    again = sci.SCITransformer.from_pretrained(tmp_path / "sci")
    assert again.dtype == torch.bfloat16
    same(model, again)


def test_saving_twice_writes_the_same_bytes(tmp_path):
    for place in ("one", "other"):
        wrapped(base(dtype=torch.float32)).save_pretrained(tmp_path / place)
    for file in ("model.safetensors", "config.json"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "other" / file).read_bytes()


@pytest.mark.parametrize("keep", [0.5, 0.001])
def test_a_truncated_checkpoint_is_refused_by_name(tmp_path, keep):
    wrapped(base(dtype=torch.float32)).save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    file.write_bytes(file.read_bytes()[: int(keep * file.stat().st_size)])
    with pytest.raises(
        ValueError, match=f"the weights in {tmp_path} cannot be read .*: copy or save the checkpoint again"
    ):
        sci.SCITransformer.from_pretrained(tmp_path)


def test_the_saved_settings_are_json_with_the_bases_own(tmp_path):
    wrapped().save_pretrained(tmp_path)
    saved = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    assert saved["model_type"] == "sci" and saved["base_config"]["model_type"] == "llama"
    assert saved["base_config"]["num_hidden_layers"] == 3


def test_the_base_comes_along_unchanged_and_can_be_saved_alone(tmp_path):
    decoder, ids = base(dtype=torch.float32), batch()["input_ids"]
    expected = decoder(ids).logits
    wrapped(decoder).base.save_pretrained(tmp_path)
    again = type(decoder).from_pretrained(tmp_path).eval()
    torch.testing.assert_close(again(ids).logits, expected, rtol=1e-5, atol=1e-6)
    assert not any(name.startswith(tuple(SCI_PARTS)) for name in load_file(tmp_path / "model.safetensors"))


def test_resized_embeddings_are_the_bases():
    model = wrapped(base(dtype=torch.float32))
    model.set_input_embeddings(torch.nn.Embedding(31, 24))
    assert model.base.get_input_embeddings().num_embeddings == 31
    assert model.get_output_embeddings() is model.base.get_output_embeddings()


def test_the_plain_trainer_trains_saves_and_gives_back(tmp_path):
    model, given = wrapped(base(dtype=torch.float32)), batch(rows=4, structure_ids=[0, 1, 0, 1])
    rows = [{key: value[row] for key, value in given.items()} for row in range(4)]
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    arguments = TrainingArguments(
        str(tmp_path),
        max_steps=3,
        per_device_train_batch_size=4,
        learning_rate=1e-2,
        use_cpu=True,
        report_to="none",
        disable_tqdm=True,
        save_strategy="no",
        remove_unused_columns=False,
    )
    trainer = Trainer(model, arguments, train_dataset=rows)
    start = model(**given).loss.item()
    trainer.train()
    assert model.eval()(**given).loss.item() < start
    assert {
        name.split(".")[0] for name, p in model.named_parameters() if not torch.equal(p, before[name])
    } == {"base", *SCI_PARTS}
    trainer.save_model(tmp_path / "last")
    same(model, sci.SCITransformer.from_pretrained(tmp_path / "last"))


@pytest.mark.parametrize("wrapper", [sci.SCITransformer, sci.ContrastiveDecoder])
def test_a_module_that_was_put_into_the_base_stays_as_it_is(wrapper):
    decoder = base(dtype=torch.float32)
    decoder.model.layers[1].mlp.up_proj = torch.nn.Linear(24, 20, bias=False)
    expected = decoder(batch()["input_ids"]).logits
    model = wrapper.from_base(
        decoder, n_structural_slots=SLOTS, d_structure=WIDTH, n_structural_heads=2
    ).eval()
    assert torch.equal(model(**batch()).logits, expected)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("size", [VOCABULARY + 4, VOCABULARY - 3])
def test_another_vocabulary_is_the_bases_and_comes_back(tied, size, tmp_path):
    model = wrapped(base(dtype=torch.float32, tie_word_embeddings=tied))
    before = model.get_input_embeddings().weight.detach()[: VOCABULARY - 3].clone()
    assert model.resize_token_embeddings(size) is model.get_input_embeddings()
    assert model.config.base_config.vocab_size == model.base.config.vocab_size == size
    assert torch.equal(model.get_input_embeddings().weight[: VOCABULARY - 3], before)
    ids = batch()["input_ids"].clamp(max=size - 1)
    assert model(ids).logits.shape == (3, 9, size)
    model.save_pretrained(tmp_path)
    same(model, sci.SCITransformer.from_pretrained(tmp_path), dict(input_ids=ids))


@pytest.mark.parametrize("wrapper", [sci.SCITransformer, sci.SeparatedSCI])
def test_what_generation_is_told_comes_back(wrapper, tmp_path):
    model = wrapper.from_base(base(dtype=torch.float32), **SETTINGS)
    assert model.generation_config is model.base.generation_config
    model.generation_config = GenerationConfig(eos_token_id=[2, 7], repetition_penalty=1.3, pad_token_id=0)
    assert model.base.generation_config.eos_token_id == [2, 7]
    model.save_pretrained(tmp_path)
    again = wrapper.from_pretrained(tmp_path)
    assert again.base.generation_config.eos_token_id == [2, 7]
    assert again.generation_config.repetition_penalty == 1.3
    (tmp_path / "generation_config.json").unlink()
    assert wrapper.from_pretrained(tmp_path).generation_config.eos_token_id == 2  # the base's configuration


def test_a_damaged_checkpoint_by_keyword_is_refused_by_name(tmp_path):
    wrapped(base(dtype=torch.float32)).save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(ValueError, match=f"the weights in {tmp_path} cannot be read"):
        sci.SCITransformer.from_pretrained(pretrained_model_name_or_path=tmp_path)


def test_what_was_loaded_is_told_when_asked_for(tmp_path):
    model = wrapped(base(dtype=torch.float32))
    model.save_pretrained(tmp_path)
    again, info = sci.SCITransformer.from_pretrained(tmp_path, output_loading_info=True)
    same(model, again)
    assert not info["missing_keys"] and not info["unexpected_keys"]


def test_weights_come_from_a_state_dict_as_well():
    model = wrapped(base(dtype=torch.float32))
    state = model.state_dict()
    same(model, sci.SCITransformer.from_pretrained(None, config=model.config, state_dict=state))


@pytest.mark.parametrize("other", [sci.SeparatedSCI, SlotDecoder])
def test_a_checkpoint_of_another_class_is_refused(other, tmp_path):
    other.from_base(base(dtype=torch.float32), **SETTINGS).save_pretrained(tmp_path)
    found = other.config_class.model_type
    with pytest.raises(ValueError, match=f"is of model_type '{found}', not 'sci': load it with its"):
        sci.SCITransformer.from_pretrained(tmp_path)


@pytest.mark.parametrize("kind", [sci.SCITransformer, sci.SeparatedSCI, SlotDecoder])
def test_the_automatic_class_loads_a_checkpoint(kind, tmp_path):
    kind.from_base(base(dtype=torch.float32), **SETTINGS).save_pretrained(tmp_path)
    assert type(AutoModelForCausalLM.from_pretrained(tmp_path)) is kind


def test_the_trainer_predicts_logits_alone(tmp_path):
    model, given = sci.SeparatedSCI.from_base(base(dtype=torch.float32), **SETTINGS), batch(rows=4)
    given["structure_ids"] = torch.tensor([0, 1, 0, 1])
    rows = [{key: value[row] for key, value in given.items()} for row in range(4)]
    arguments = TrainingArguments(
        str(tmp_path), use_cpu=True, report_to="none", disable_tqdm=True, remove_unused_columns=False
    )
    predicted = Trainer(model, arguments).predict(rows).predictions
    torch.testing.assert_close(torch.tensor(predicted), model(**given).logits, rtol=1e-4, atol=1e-5)


# peft inside: a base with adapters is wrapped


@pytest.mark.parametrize("name, targets", [("llama", ["q_proj", "v_proj"]), ("gpt2", ["c_attn"])])
@pytest.mark.parametrize("trained", [False, True])
def test_adapters_inside_stay_as_they_were(name, targets, trained):
    adapted = get_peft_model(
        base(name, torch.float32),
        lora(target_modules=targets, init_lora_weights=not trained, fan_in_fan_out=name == "gpt2"),
    ).eval()
    weights = {key: value.clone() for key, value in adapted.state_dict().items()}
    expected = adapted(input_ids=batch()["input_ids"]).logits
    model = sci.SCITransformer.from_base(
        adapted, n_structural_slots=SLOTS, d_structure=WIDTH, n_structural_heads=2
    ).eval()
    assert all(torch.equal(value, weights[key]) for key, value in adapted.state_dict().items())
    assert torch.equal(model(**batch()).logits, expected)  # binding starts at zero


@pytest.mark.parametrize("name, targets", [("llama", ["q_proj", "v_proj"]), ("gpt2", ["c_attn"])])
def test_adapters_inside_train_and_come_back(name, targets, tmp_path):
    settings = lora(target_modules=targets, fan_in_fan_out=name == "gpt2")
    model = wrapped(get_peft_model(base(name, torch.float32), settings))
    _, found = gradients(model, batch())
    assert found.keys() == trainable(model)
    assert all(("lora" in key) == key.startswith("base.") for key in found)
    model.save_pretrained(tmp_path)
    again = sci.SCITransformer.from_pretrained(tmp_path)
    same(model, again)
    assert trainable(again) == trainable(model)
    ids = batch()["input_ids"]
    assert torch.equal(again.generate(ids, **FORCED), model.generate(ids, **FORCED))


@pytest.mark.parametrize(
    "name, settings",
    [("llama", dict(modules_to_save=["lm_head"])), ("llama", dict(modules_to_save=["embed_tokens"])),
     ("qwen2", dict(bias="all")), ("qwen2", dict(bias="lora_only"))],
    ids=str,
)  # fmt: skip
def test_what_trains_beside_the_adapters_trains_again(name, settings, tmp_path):
    adapted = get_peft_model(base(name, torch.float32, tie_word_embeddings=False), lora(**settings))
    model = wrapped(adapted)
    assert any("lora" not in key for key in trainable(model.base))
    model.save_pretrained(tmp_path)
    again = sci.SCITransformer.from_pretrained(tmp_path)
    same(model, again)
    assert trainable(again) == trainable(model)


def test_adapters_in_the_head_are_no_plain_head():
    with pytest.raises(ValueError, match="of LlamaForCausalLM is a peft.*Linear: pass a fresh base"):
        sci.SeparatedSCI.from_base(get_peft_model(base(), lora(target_modules=["lm_head"])), **SETTINGS)


# peft outside: an SCI model gets adapters


def test_adapters_outside_train_the_sci_part_as_modules_to_save(tmp_path):
    given, model = batch(structure_ids=[0, 1, 0]), wrapped()
    expected = model(**given).logits
    outside = get_peft_model(model, lora(init_lora_weights=True, modules_to_save=SCI_PARTS)).eval()
    torch.testing.assert_close(outside(**given).logits, expected, rtol=1e-5, atol=1e-6)
    optimizer = torch.optim.SGD([p for p in outside.parameters() if p.requires_grad], lr=0.3)
    for _ in range(2):
        optimizer.zero_grad()
        outside(**given).loss.backward()
        assert {name for name, p in outside.named_parameters() if p.grad is not None} == trainable(outside)
        optimizer.step()
    assert (outside(**given).logits - expected).abs().max() > 1e-2
    outside.save_pretrained(tmp_path)
    again = PeftModel.from_pretrained(wrapped(), tmp_path)
    same(outside, again, given)
    ids = batch()["input_ids"]
    assert torch.equal(again.generate(input_ids=ids, **FORCED), outside.generate(input_ids=ids, **FORCED))
    with outside.disable_adapter():
        torch.testing.assert_close(outside(**given).logits, expected, rtol=1e-5, atol=1e-6)
