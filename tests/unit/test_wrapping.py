"""A wrapper's base comes back with its adapter and what that trains; what would be lost is refused."""

from threading import Thread

import numpy as np
import peft
import pytest
import torch
from peft import LoraConfig, PromptTuningConfig, get_peft_model
from safetensors.torch import load_file, save_file

from causalnb import c2dlm, iclm, sci
from causalnb.causal_transformer import contrasts
from causalnb.wrapping import KEPT_ADAPTERS, check_finite, check_settings, matrix, offset, rebuild, unwrap
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


@pytest.mark.parametrize("value", [None, "x", True, -1, float("nan"), float("inf"), [1.0], np.True_])
def test_what_is_no_finite_number_is_refused_by_name(value):
    with pytest.raises(ValueError, match="weight is .*: choose a finite one, 0 or more"):
        check_finite(weight=value)
    check_finite(weight=0, other=np.float32(0.5))


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
    (lambda: get_peft_model(base(dtype=torch.float32), peft.VeraConfig(target_modules=["q_proj"], r=2)),
     "the adapter 'default' is of a kind, VERA, that was not shown to come back from a checkpoint: use"),
    (lambda: adapted("mine"), "adapter is named 'mine', and would come back as 'default': add it by that"),
    (lambda: get_peft_model(base(), PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=3)),
     r"the adapter 'default' \(PROMPT_TUNING\) learns tokens outside the base, which would be lost: use one"),
], ids=["two", "kind", "named", "prompt"])  # fmt: skip
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


KINDS = {
    "LORA": lora(),
    "ADALORA": peft.AdaLoraConfig(target_modules=["q_proj"], init_r=2, target_r=2, total_step=10),
    "C3A": peft.C3AConfig(target_modules=["q_proj"], block_size=2),
    "HRA": peft.HRAConfig(target_modules=["q_proj"], r=2),
    "IA3": peft.IA3Config(target_modules=["q_proj"], feedforward_modules=[]),
    "LN_TUNING": peft.LNTuningConfig(target_modules=["input_layernorm"]),
    "LOHA": peft.LoHaConfig(target_modules=["q_proj"], r=2),
    "LOKR": peft.LoKrConfig(target_modules=["q_proj"], r=2),
    "MISS": peft.MissConfig(target_modules=["q_proj"], r=2),
}


def test_every_kind_of_adapter_that_is_kept_comes_back(tmp_path):
    assert {*KINDS} == {*KEPT_ADAPTERS}
    for kind, settings in KINDS.items():
        decoder = get_peft_model(base(dtype=torch.float32), settings)
        with torch.no_grad():
            for weight in decoder.parameters():
                if weight.requires_grad:
                    weight.add_(0.3 * torch.randn_like(weight))
        model, ids = sci.ContrastiveDecoder.from_base(decoder).eval(), torch.tensor([[4, 5, 6]])
        model.save_pretrained(tmp_path / kind)
        again = type(model).from_pretrained(tmp_path / kind).eval()
        assert torch.equal(again(ids).logits, model(ids).logits), kind
        plain = base(dtype=torch.float32)(ids).logits
        assert not torch.allclose(model(ids).logits, plain), kind


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


THREADED = {
    **{name: WRAPPERS[name] for name in ("sci", "control")},
    "sci_separated": lambda decoder: sci.SeparatedSCI.from_base(
        decoder, n_structural_slots=4, d_structure=16, n_structural_heads=2
    ),
    "iclm": lambda decoder: iclm.ICLMForCausalLM.from_base(
        decoder, num_modules=3, router_trainable=True, lora=dict(r=8, alpha=16, dropout=0.0)
    ),
    "iclm_shared": lambda decoder: iclm.ICLMForCausalLM.from_base(
        decoder, num_modules=3, shared_layers=1, router_trainable=False, lora=dict(r=2, dropout=0.0)
    ),
}


@pytest.mark.parametrize("name", THREADED)
def test_threads_share_a_model(name):
    """Batches of one to three rows, whose slots, routes and adapters another thread must not take."""
    torch.manual_seed(0)
    model = THREADED[name](base(dtype=torch.float32)).eval()
    for layer in getattr(model, "_adapted", {}).values():
        torch.nn.init.normal_(layer.B, std=0.3)
    start = {key: one.clone() for key, one in model.state_dict().items()}
    batches = [torch.randint(4, 20, (1 + i % 3, 6)) for i in range(48)]
    with torch.no_grad():
        alone = [model(ids).logits for ids in batches]
    found = [None] * len(batches)

    @torch.no_grad()
    def work(first):
        for i in range(first, len(batches), 4):
            found[i] = model(batches[i]).logits

    threads = [Thread(target=work, args=(first,)) for first in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(120)
    for one, other in zip(found, alone, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    assert all(torch.equal(one, start[key]) for key, one in model.state_dict().items())


@pytest.mark.parametrize("bias", [True, False])
def test_the_matrix_of_a_linear_map_is_with_its_adapters(bias):
    plain = torch.nn.Linear(3, 5, bias=bias)
    assert matrix(plain) is plain.weight and offset(plain) is plain.bias
    settings = LoraConfig(target_modules=["0"], r=2, init_lora_weights=False, lora_bias=bias)
    tuned = get_peft_model(torch.nn.Sequential(plain), settings)
    x = torch.randn(4, 3)
    torch.testing.assert_close(
        x @ matrix(tuned.base_model.model[0]).mT + offset(tuned.base_model.model[0]), tuned(x)
    )
    merged = tuned.merge_and_unload()[0]
    torch.testing.assert_close(
        x @ merged.weight.mT + (merged.bias if bias else 0),
        x @ matrix(merged).mT + (offset(merged) if bias else 0),
    )


KINDS_OF_SCI = {"sci": WRAPPERS["sci"], "sci_separated": THREADED["sci_separated"]}


@pytest.mark.parametrize("name", KINDS_OF_SCI)
def test_adapters_on_what_is_around_the_base_act_and_merge(name):
    torch.manual_seed(0)
    model = KINDS_OF_SCI[name](base(dtype=torch.float32)).eval()
    for projection in getattr(getattr(model, "causal_binding", None), "output_proj", ()):
        torch.nn.init.normal_(projection.weight)
    ids, labels = torch.randint(4, 20, (4, 7)), torch.randint(4, 20, (4, 7))
    labels[:, :3] = -100
    maps = r".*(token_query|output_proj\.\d|message_fn\.[02]|slot_key)$"
    settings = LoraConfig(task_type="CAUSAL_LM", target_modules=maps, r=2, init_lora_weights=False)
    tuned = get_peft_model(model, settings).eval()
    out = tuned(input_ids=ids, labels=labels, structure_ids=torch.tensor([0, 0, 1, 1]))
    out.loss.backward()
    still = [key for key, one in tuned.named_parameters() if one.requires_grad and not one.grad.any()]
    assert not still and sum(one.requires_grad for one in tuned.parameters()) >= 4
    written = tuned.generate(input_ids=ids[:, :3], max_new_tokens=4, do_sample=False)
    merged = tuned.merge_and_unload()
    torch.testing.assert_close(merged(ids, labels=labels).logits, out.logits, rtol=1e-4, atol=1e-4)
    assert torch.equal(merged.generate(ids[:, :3], max_new_tokens=4, do_sample=False), written)


@pytest.mark.parametrize("name", KINDS_OF_SCI)
def test_a_saved_sci_takes_an_implementation_of_attention(name, tmp_path):
    model, ids = KINDS_OF_SCI[name](base(dtype=torch.float32)).eval(), torch.randint(4, 20, (2, 6))
    model.save_pretrained(tmp_path)
    for implementation in ("sdpa", "eager"):
        again = type(model).from_pretrained(tmp_path, attn_implementation=implementation)
        assert again.base.config._attn_implementation == implementation
        torch.testing.assert_close(again(ids).logits, model(ids).logits, rtol=1e-4, atol=1e-5)
