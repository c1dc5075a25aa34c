"""A wrapper's base comes back with its adapter and what that trains; what would be lost is refused."""

import pytest
import torch
from peft import LoraConfig, PromptTuningConfig, get_peft_model
from safetensors.torch import load_file, save_file

from causalnb import c2dlm, iclm, sci
from causalnb.causal_transformer import contrasts
from causalnb.wrapping import check_settings, rebuild, unwrap
from tests.unit.causal_transformer import small
from tests.unit.sci.tiny import base

MASK = 3


def lora(**settings):
    return LoraConfig(**dict(target_modules=["q_proj", "v_proj"], r=2, init_lora_weights=False) | settings)


def adapted(name="default", **settings):
    return get_peft_model(base(dtype=torch.float32), lora(**settings), adapter_name=name)


def adapted_twice():
    decoder = adapted()
    decoder.add_adapter("more", lora())
    return decoder


def trainable(model):
    return {name for name, weight in model.named_parameters() if weight.requires_grad}


WRAPPERS = {
    "sci": lambda decoder, **settings: sci.SCITransformer.from_base(
        decoder, n_structural_slots=4, d_structure=16, n_structural_heads=2, **settings
    ),
    "control": sci.ContrastiveDecoder.from_base,
    "c2dlm": lambda decoder, **settings: c2dlm.MaskedDiffusionModel.from_base(decoder, MASK, **settings),
}
every_wrapper = pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS)


@pytest.mark.parametrize("settings", [{}, dict(modules_to_save=["lm_head"]), dict(bias="all")], ids=str)
@pytest.mark.parametrize("bare", [True, False])
def test_a_base_is_built_again_with_what_its_adapter_trains(settings, bare):
    decoder = adapted(**settings)
    inner, kept = unwrap(decoder.get_base_model() if bare else decoder)
    assert inner is decoder.get_base_model()
    again, trained = rebuild(inner.config, kept)
    again.load_state_dict(inner.state_dict())
    assert trainable(again) == trainable(inner) == trained and any("lora_A" in name for name in trained)
    ids = torch.tensor([[4, 5, 6]])
    assert torch.equal(again(ids).logits, inner(ids).logits)


@pytest.mark.parametrize("decoder", [base, lambda: adapted().merge_and_unload()])
def test_without_adapters_all_trains(decoder):
    one = decoder()
    inner, kept = unwrap(one)
    assert inner is one and kept is None
    again, trained = rebuild(inner.config, kept)
    assert trained is None and all(weight.requires_grad for weight in again.parameters())


@every_wrapper
@pytest.mark.parametrize("decoder, said", [
    (adapted_twice, "the base has 2 adapters, default, more, and one is kept: delete the others, or merge"),
    (lambda: adapted("mine"), "adapter is named 'mine', and would come back as 'default': add it by that"),
    (lambda: get_peft_model(base(), PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=3)),
     r"the adapter 'default' \(PROMPT_TUNING\) learns tokens outside the base, which would be lost: use one"),
], ids=["two", "named", "prompt"])  # fmt: skip
def test_adapters_that_would_be_lost_are_refused(wrap, decoder, said):
    with pytest.raises(ValueError, match=said):
        wrap(decoder())


@every_wrapper
def test_a_wrapper_with_an_adapter_comes_back(wrap, tmp_path):
    model, ids = wrap(adapted(modules_to_save=["lm_head"])).eval(), torch.tensor([[4, 5, 6]])
    model.save_pretrained(tmp_path)
    again = type(model).from_pretrained(tmp_path).eval()
    assert torch.equal(again(ids).logits, model(ids).logits)
    assert trainable(again) == trainable(model) != {name for name, _ in model.named_parameters()}


@every_wrapper
def test_adapters_put_on_afterwards_are_not_saved(wrap, tmp_path):
    model, ids = wrap(base(dtype=torch.float32)), torch.tensor([[4, 5, 6]])
    outer = get_peft_model(model, lora())
    with pytest.raises(ValueError, match="the base got adapters after from_base, .*: put them on the"):
        model.save_pretrained(tmp_path)
    merged = outer.merge_and_unload().eval()
    merged.save_pretrained(tmp_path)
    assert torch.equal(type(model).from_pretrained(tmp_path).eval()(ids).logits, merged(ids).logits)


@every_wrapper
@pytest.mark.parametrize("name", ["wieght", "base_adapter", "base_config"])
def test_an_unknown_setting_is_refused_by_name(wrap, name):
    with pytest.raises(ValueError, match=f"there is no setting '{name}': give \\w+, \\w+"):
        wrap(base(), **{name: 5})


@every_wrapper
def test_the_embeddings_are_the_bases_and_a_new_size_is_kept(wrap, tmp_path):
    model = wrap(base(dtype=torch.float32))
    table, head = torch.nn.Embedding(29, 24), torch.nn.Linear(24, 29, bias=False)
    model.set_input_embeddings(table)
    model.set_output_embeddings(head)
    assert model.get_input_embeddings() is model.base.get_input_embeddings() is table
    assert model.get_output_embeddings() is model.base.get_output_embeddings() is head
    model.resize_token_embeddings(31)
    assert model.config.base_config.vocab_size == model.get_input_embeddings().num_embeddings == 31
    model.base.resize_token_embeddings(33)
    model.save_pretrained(tmp_path)
    assert type(model).from_pretrained(tmp_path).get_output_embeddings().out_features == 33


MODELS = {
    **{name: lambda wrap=wrap: wrap(base()) for name, wrap in WRAPPERS.items()},
    "iclm": lambda: iclm.ICLMForCausalLM.from_base(base(), num_modules=2),
    "classifier": small.classifier,
    "translator": small.translator,
    "contrast": lambda: contrasts.ContrastForSequenceClassification(
        contrasts.ContrastConfig(kind="bilstm", vocab_size=11, d_model=8)
    ),
}


def without(file):
    weights = load_file(file)
    weights.pop(sorted(weights)[-1])
    save_file(weights, file, {"format": "pt"})


def with_more(file):
    save_file(load_file(file) | {"more": torch.zeros(1)}, file, {"format": "pt"})


def narrower(file):
    weights = load_file(file)
    name = max(weights, key=lambda name: weights[name].numel())
    save_file(weights | {name: weights[name][:-1].clone()}, file, {"format": "pt"})


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize(
    "damage, said",
    [
        (without, "has no "),
        (with_more, "has an unknown more: load it with the settings it was saved with, or copy or save"),
        (narrower, "has another size of "),
        (lambda file: save_file({}, file, {"format": "pt"}), "has no "),
        (
            lambda file: file.write_bytes(file.read_bytes()[:-1]),
            "cannot be read .*copy or save the checkpoint",
        ),
        (lambda file: file.write_bytes(b""), "cannot be read .*copy or save the check"),
    ],
    ids=["without", "more", "narrower", "empty", "cut", "nothing"],
)
def test_a_checkpoint_that_is_not_whole_is_refused(make, damage, said, tmp_path):
    model = make()
    model.save_pretrained(tmp_path)
    again, info = type(model).from_pretrained(tmp_path, output_loading_info=True)
    assert type(again) is type(model) and not info["missing_keys"]
    damage(tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match=f"{tmp_path}.* {said}"):
        type(model).from_pretrained(tmp_path)


def test_sizes_that_are_to_be_ignored_are(tmp_path):
    small.classifier().save_pretrained(tmp_path)
    asked = dict(num_labels=5, ignore_mismatched_sizes=True)
    assert small.classifier().from_pretrained(tmp_path, **asked).config.num_labels == 5


def test_settings_of_parents_and_of_every_configuration_are_known():
    check_settings(sci.SeparatedSCIConfig, ["class_width", "scl_weight", "output_hidden_states"])
    with pytest.raises(ValueError, match="there is no setting 'mask_token_id': give weight, gamma"):
        check_settings(c2dlm.MaskedDiffusionConfig, ["mask_token_id"], given=["mask_token_id", "reattention"])
