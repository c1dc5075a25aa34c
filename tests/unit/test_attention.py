"""The tap changes nothing of the model, and its records give back the model's own attention maps."""

import copy
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from itertools import count
from threading import Thread

import pytest
import torch
import transformers
from peft import LoraConfig, get_peft_model
from torch import nn
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.utils.generic import is_flash_attention_requested

from causalnb import attention
from causalnb.attention import KNOWN, attention_maps, tap, verify

DECODER = dict(
    vocab_size=50,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=64,
)
MARIAN = dict(
    vocab_size=50,
    d_model=32,
    encoder_layers=2,
    decoder_layers=3,
    encoder_attention_heads=4,
    decoder_attention_heads=4,
    encoder_ffn_dim=48,
    decoder_ffn_dim=48,
    max_position_embeddings=64,
    pad_token_id=0,
    eos_token_id=1,
    decoder_start_token_id=0,
    forced_eos_token_id=None,
)
MODELS = {
    "llama": ("LlamaForCausalLM", "LlamaConfig", DECODER),
    "qwen2": ("Qwen2ForCausalLM", "Qwen2Config", DECODER),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3Config", DECODER | dict(head_dim=16)),
    "mistral": ("MistralForCausalLM", "MistralConfig", DECODER | dict(sliding_window=3)),
    "gpt2": (
        "GPT2LMHeadModel",
        "GPT2Config",
        dict(vocab_size=50, n_embd=32, n_layer=2, n_head=4, n_positions=64, bos_token_id=0, eos_token_id=1),
    ),
    "bert": (
        "BertForMaskedLM",
        "BertConfig",
        dict(vocab_size=50, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4),
    ),
    "marian": ("MarianMTModel", "MarianConfig", MARIAN),
    "gemma3_text": (
        "Gemma3ForCausalLM",
        "Gemma3TextConfig",
        DECODER
        | dict(
            head_dim=8,
            query_pre_attn_scalar=4,
            sliding_window=4,
            layer_types=["sliding_attention", "full_attention"],
        ),
    ),
    "gemma2": (
        "Gemma2ForCausalLM",
        "Gemma2Config",
        DECODER | dict(head_dim=8, attn_logit_softcapping=0.5, query_pre_attn_scalar=4, sliding_window=4),
    ),
    "t5": (
        "T5ForConditionalGeneration",
        "T5Config",
        dict(vocab_size=50, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, decoder_start_token_id=0),
    ),
    "bloom": ("BloomForCausalLM", "BloomConfig", dict(vocab_size=50, hidden_size=32, n_layer=2, n_head=4)),
}
MODELS["mpnet"] = ("MPNetModel", "MPNetConfig", MODELS["bert"][2])
LAYERS = {name: 2 for name in MODELS} | {"marian": 2 + 3 + 3}
every_model = pytest.mark.parametrize("name", KNOWN)


def build(name, implementation="sdpa", dtype=torch.float32, **settings):
    """A tiny random model in eval mode, with weights large enough for maps far from uniform."""
    model, config, defaults = MODELS[name]
    config = getattr(transformers, config)(**defaults | settings, attn_implementation=implementation)
    torch.manual_seed(0)
    model = getattr(transformers, model)(config).to(dtype).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return model


def inputs_for(model, padding="right"):
    """Two sequences of 7 tokens, the second of them padded."""
    ids = torch.randint(2, 50, (2, 7), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    if padding:
        mask[1, slice(5, None) if padding == "right" else slice(2)] = 0
    inputs = dict(input_ids=ids, attention_mask=mask)
    return inputs | (dict(decoder_input_ids=ids[:, :5]) if model.config.is_encoder_decoder else {})


def gradients(model):
    """The gradients of the parameters that have one, and remove them."""
    found = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    return found


def train_step(model, inputs, around):
    """Logits and gradients of one seeded training step inside the context `around`."""
    torch.manual_seed(5)
    with around:
        logits = model(**inputs).logits
        logits.square().sum().backward()
    return logits.detach(), gradients(model)


def own_maps(model, inputs):
    """The maps that the model returns under eager, keyed by (stack, kind)."""
    model = copy.deepcopy(model)
    model.set_attn_implementation("eager")
    with torch.no_grad():
        out = model(**inputs, output_attentions=True)
    if model.config.is_encoder_decoder:
        return {
            ("encoder", "self"): out.encoder_attentions,
            ("decoder", "self"): out.decoder_attentions,
            ("decoder", "cross"): out.cross_attentions,
        }
    return {("encoder" if model.config.model_type == "bert" else "decoder", "self"): out.attentions}


# outputs and gradients


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
@every_model
def test_the_model_computes_the_same_bits_inside_a_tap(name, implementation):
    model = build(name, implementation).train()  # with dropout
    inputs = inputs_for(model)
    records = []
    plain, plain_gradients = train_step(model, inputs, nullcontext())
    tapped, tapped_gradients = train_step(model, inputs, tap(model, records.append, kinds=("self", "cross")))
    assert torch.equal(plain, tapped)
    assert plain_gradients.keys() == tapped_gradients.keys() != set()
    assert all(torch.equal(plain_gradients[key], tapped_gradients[key]) for key in plain_gradients)
    assert len(records) == LAYERS[name]


@pytest.mark.parametrize("name", ["llama", "mistral", "gpt2", "marian"])
def test_generation_with_a_cache_is_the_same_and_recorded_step_by_step(name):
    model = build(name)
    inputs = {key: value for key, value in inputs_for(model, "left").items() if key != "decoder_input_ids"}
    options = dict(max_new_tokens=4, min_new_tokens=4, do_sample=False, pad_token_id=0)
    plain = model.generate(**inputs, **options)
    with tap(model) as records:
        tapped = model.generate(**inputs, **options)
    assert torch.equal(plain, tapped)
    first, *later = [r for r in records if r.layer == 0 and r.stack == "decoder"]
    assert first.query.shape[2] == (1 if name == "marian" else 7)
    assert [r.query.shape[2] for r in later] == [1, 1, 1]
    for r in [first, *later]:
        rows = r.attention().sum(-1)
        torch.testing.assert_close(rows, torch.ones_like(rows))


def test_a_step_with_a_cache_gives_the_last_row_of_the_whole_map():
    model = build("llama")
    ids = inputs_for(model, None)["input_ids"]
    whole = attention_maps(model, input_ids=ids)
    cache = model(input_ids=ids[:, :-1], use_cache=True).past_key_values
    step = attention_maps(model, input_ids=ids[:, -1:], past_key_values=cache)
    for a, b in zip(step, whole, strict=True):
        torch.testing.assert_close(a, b[:, :, -1:])


# attention()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@every_model
def test_attention_is_bitwise_what_the_layer_itself_returns_under_eager(name, dtype):
    model = build(name, "eager", dtype)
    inputs = inputs_for(model)
    with tap(model, kinds=("self", "cross")) as records:
        model(**inputs)
    own = own_maps(model, inputs)
    assert len(records) == sum(map(len, own.values())) == LAYERS[name]
    for r in records:
        assert torch.equal(r.attention(), own[r.stack, r.kind][r.layer])


@pytest.mark.parametrize("padding", [None, "right", "left"])
@every_model
def test_attention_under_sdpa_is_the_map_of_eager(name, padding):
    model = build(name)
    inputs = inputs_for(model, padding)
    with tap(model, kinds=("self", "cross")) as records, torch.no_grad():
        model(**inputs)
    own = own_maps(model, inputs)
    if padding is None:
        assert any(r.mask is None for r in records) != (name == "mistral")  # causality left to sdpa
    for r in records:
        ours, theirs = r.attention(), own[r.stack, r.kind][r.layer]
        if padding == "left" and r.layer > 0 and not model.config.is_encoder_decoder and name != "bert":
            ours, theirs = [torch.cat([m[0], m[1, :, 2:]], dim=1) for m in (ours, theirs)]  # rows that attend
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-6)


@pytest.mark.parametrize("padding", [None, "right", "left"])
@every_model
def test_in_double_precision_the_first_layer_agrees_to_1e12(name, padding):
    model = build(name, dtype=torch.float64)  # Llama's eager code rounds its maps, so later layers differ
    inputs = inputs_for(model, padding)
    with tap(model, layers=[0], kinds=("self", "cross")) as records, torch.no_grad():
        model(**inputs)
    own = own_maps(model, inputs)
    compared = [r for r in records if r.kind == "self"]
    assert len(compared) == (2 if name == "marian" else 1)
    for r in compared:
        ours, theirs = r.attention(), own[r.stack, r.kind][0]
        assert ours.dtype == torch.float64 and ours.isfinite().all()
        if padding == "left":  # Llama's own map is not a number in the rows that attend to nothing
            ours, theirs = ours[..., 2:, :], theirs[..., 2:, :]
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["llama", "mistral", "qwen3"])
def test_attention_times_value_is_what_sdpa_returned(name):
    model, outputs = build(name), []
    for layer in model.model.layers:
        layer.self_attn.o_proj.register_forward_pre_hook(lambda _, args: outputs.append(args[0]))
    with tap(model) as records, torch.no_grad():
        model(**inputs_for(model))
    for r, output in zip(records, outputs, strict=True):
        value = r.value.repeat_interleave(r.query.shape[1] // r.value.shape[1], dim=1)  # (B, H, S, d)
        torch.testing.assert_close((r.attention() @ value).transpose(1, 2).flatten(2), output)


def test_a_sliding_window_and_grouped_heads_by_hand():
    model = build("mistral")
    with tap(model, layers=[1]) as records:
        model(**inputs_for(model, None))
    [r] = records
    assert (r.layer, r.kind, r.stack, r.implementation) == (1, "self", "decoder", "sdpa")
    assert r.query.shape == (2, 4, 7, 8) and r.key.shape == r.value.shape == (2, 2, 7, 8)
    rows, columns = torch.arange(7)[:, None], torch.arange(7)
    key = r.key.repeat_interleave(2, dim=1)
    scores = (r.query @ key.mT * r.scaling).masked_fill((columns > rows) | (rows - columns >= 3), -torch.inf)
    torch.testing.assert_close(r.attention(), scores.softmax(-1))


def test_a_bidirectional_decoder_attends_to_the_future():
    model = build("llama", is_causal=False)
    inputs = inputs_for(model, None)
    maps = attention_maps(model, **inputs)
    assert all((m > 0).all() for m in maps)
    for ours, theirs in zip(maps, own_maps(model, inputs)["decoder", "self"], strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-6)


def test_a_call_may_say_that_it_is_causal_and_its_keys_may_be_longer_than_its_queries():
    model = build("bert")
    with tap(model, layers=[0]) as records:
        model(**inputs_for(model, None))
    causal = replace(records[0], query=records[0].query[:, :, :3], options={"is_causal": True})
    assert torch.equal(causal.attention() > 0, torch.ones(3, 7).tril().bool().expand(2, 4, 3, 7))
    assert (replace(causal, query=causal.query[:, :, :1]).attention() > 0).all()  # one query sees every key
    assert (replace(causal, implementation="eager").attention() > 0).all()  # eager takes no mask for no mask


def test_a_given_mask_of_numbers_is_added_to_the_scores():
    model = build("llama", "sdpa")
    bias = torch.randn(2, 1, 7, 7)
    with tap(model, layers=[0]) as records:
        model(input_ids=inputs_for(model)["input_ids"], attention_mask=bias)
    [r] = records
    scores = r.query @ r.key.repeat_interleave(2, dim=1).mT * r.scaling + bias
    torch.testing.assert_close(r.attention(), scores.softmax(-1))


def test_a_layer_that_gives_no_scaling_has_one_over_the_root_of_the_width():
    model = build("bert")
    for module in model.modules():
        if hasattr(module, "scaling"):
            module.scaling = None
    with tap(model) as records:
        model(**inputs_for(model))
    assert [r.scaling for r in records] == [8**-0.5, 8**-0.5]


def test_a_loss_on_the_maps_reaches_query_and_key_and_not_the_value():
    model = build("llama")
    with tap(model, layers=[1]) as records:
        model(**inputs_for(model))
    records[0].attention().square().sum().backward()
    reached = gradients(model)
    assert reached["model.layers.1.self_attn.q_proj.weight"].abs().sum() > 0
    assert reached["model.layers.1.self_attn.k_proj.weight"].abs().sum() > 0
    assert reached["model.layers.0.mlp.down_proj.weight"].abs().sum() > 0
    value = reached.get("model.layers.1.self_attn.v_proj.weight")
    assert value is None or value.abs().sum() == 0


def test_maps_leave_dropout_and_the_graph_out():
    model = build("bert")
    inputs = inputs_for(model, None)
    maps = attention_maps(model, **inputs)
    for ours, theirs in zip(maps, own_maps(model, inputs)["encoder", "self"], strict=True):
        assert not ours.requires_grad
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-6)
    with tap(model.train(), layers=[0]) as records:
        model(**inputs)
    torch.testing.assert_close(records[0].attention().sum(-1), torch.ones(2, 4, 7))


# what is recorded


def test_stacks_and_kinds_are_told_apart():
    model = build("marian")
    inputs = inputs_for(model)
    with tap(model) as records, tap(model, kinds=["cross"], layers=range(1, 3)) as cross:
        model(**inputs)
    assert [(r.stack, r.layer) for r in records] == [
        ("encoder", 0),
        ("encoder", 1),
        ("decoder", 0),
        ("decoder", 1),
        ("decoder", 2),
    ]
    assert [(r.stack, r.kind, r.layer) for r in cross] == [("decoder", "cross", 1), ("decoder", "cross", 2)]
    assert cross[0].attention().shape == (2, 4, 5, 7)
    assert [m.shape[-2:] for m in attention_maps(model, kinds=("cross",), **inputs)] == [(5, 7)] * 3
    encoder = model.get_encoder()
    assert len(attention_maps(encoder, input_ids=inputs["input_ids"])) == 2
    assert len(attention_maps(model.get_decoder(), input_ids=inputs["decoder_input_ids"])) == 3


@pytest.mark.parametrize("name,settings", [("gpt2", {}), ("bert", {"is_decoder": True})])
def test_cross_attention_of_one_stack_models(name, settings):
    model = build(name, add_cross_attention=True, **settings)
    encoded = torch.randn(2, 4, 32)
    with tap(model, kinds=("self", "cross")) as records:
        model(**inputs_for(model, None), encoder_hidden_states=encoded)
    assert [(r.layer, r.kind, r.stack, r.key.shape[2]) for r in records] == [
        (i, kind, "decoder", length) for i in range(2) for kind, length in (("self", 7), ("cross", 4))
    ]
    assert all((r.attention() > 0).all() for r in records if r.kind == "cross")
    assert all((r.attention()[..., 0, 1:] == 0).all() for r in records if r.kind == "self")


def test_a_function_gets_the_records_instead_of_the_list():
    model, seen = build("gpt2"), []
    with tap(model, seen.append) as records:
        model(**inputs_for(model))
        model(**inputs_for(model))
    assert records == [] and [r.layer for r in seen] == [0, 1, 0, 1]
    assert "Record(layer=0, kind='self', stack='decoder', scaling=" in repr(seen[0])


class Pair(nn.Module):
    """Two language models side by side, and something else."""

    def __init__(self, *models):
        super().__init__()
        self.models, self.head = nn.ModuleList(models), nn.Linear(2, 2)

    def forward(self, **inputs):
        return sum(m(**inputs).logits for m in self.models)


def test_models_inside_another_module_keep_their_own_layer_numbers():
    pair = Pair(build("llama"), build("gpt2"))
    with tap(pair) as records:
        pair(**inputs_for(pair.models[0]))
    assert [r.layer for r in records] == [0, 1, 0, 1]


# gradient checkpointing, LoRA


@pytest.mark.parametrize("name", ["llama", "gpt2", "bert", "marian"])
@pytest.mark.parametrize("deliver", ["list", "function"])
def test_checkpointing_records_once_and_the_loss_on_the_maps_is_the_same(name, deliver):
    def step(model):
        torch.manual_seed(5)
        losses = []
        with tap(
            model,
            None if deliver == "list" else lambda r: losses.append(r.attention().square().sum()),
            kinds=("self", "cross"),
        ) as records:
            logits = model(**inputs).logits
            losses += [r.attention().square().sum() for r in records]
            before = list(records)
            (logits.square().mean() + sum(losses)).backward()
        assert len(losses) == LAYERS[name]
        assert all(a is b for a, b in zip(records, before, strict=True))
        return gradients(model)

    model = build(name).train()
    inputs = inputs_for(model)
    plain = step(model)
    model.activation_checkpointing_enable({"use_reentrant": False})
    calls = count_attention_calls(model)
    checkpointed = step(model)
    assert calls[0] > LAYERS[name]  # the layers were run again
    assert plain.keys() == checkpointed.keys()
    for key in plain:
        torch.testing.assert_close(plain[key], checkpointed[key])


def count_attention_calls(model):
    """A one-element list with the number of forward calls of the modules that attend."""
    calls = [0]

    def hook(*_):
        calls[0] += 1

    for module in model.modules():
        if hasattr(module, "is_causal"):
            module.register_forward_hook(hook)
    return calls


@pytest.mark.parametrize("options", [{"use_reentrant": True}, {"preserve_rng_state": True}])
def test_reentrant_checkpointing_is_refused_while_gradients_are_wanted(options):
    model = build("llama").train()
    model.activation_checkpointing_enable(options)
    with pytest.raises(ValueError, match="use_reentrant=False"), tap(model):
        pass
    with torch.no_grad(), tap(model):
        pass
    with tap(model.eval()) as records:
        model(**inputs_for(model))
    assert records[0].query.requires_grad


def test_lora_is_tapped_like_its_base():
    lora = LoraConfig(target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    model = get_peft_model(build("llama"), lora)
    inputs = inputs_for(model)
    plain, plain_gradients = train_step(model, inputs, nullcontext())
    tapped, tapped_gradients = train_step(model, inputs, tap(model))
    assert torch.equal(plain, tapped)
    assert all(torch.equal(plain_gradients[key], tapped_gradients[key]) for key in plain_gradients)
    with tap(model, layers=[1]) as records:
        model(**inputs)
    records[0].attention().square().sum().backward()
    layer = "base_model.model.model.layers.1.self_attn."
    reached = {key for key, gradient in gradients(model).items() if key.startswith(layer) and gradient.any()}
    assert reached == {f"{layer}q_proj.lora_{half}.default.weight" for half in "AB"}


def test_reentrant_checkpointing_is_refused_where_it_is_switched_on_within_a_tap():
    model = build("llama").train()
    with tap(model):
        copied = copy.deepcopy(model)
        model.activation_checkpointing_enable({"use_reentrant": True})
        with pytest.raises(ValueError, match="use_reentrant=False"):
            model(**inputs_for(model))
    assert model(**inputs_for(model)).logits.requires_grad  # outside it is nobody's business
    copied.activation_checkpointing_enable({"use_reentrant": True})
    assert copied(**inputs_for(copied)).logits.requires_grad


# the configuration, nesting


def test_copies_made_within_a_tap_are_untapped(tmp_path):
    model = build("llama")
    inputs = inputs_for(model)
    plain = model(**inputs).logits
    with tap(model), tap(model) as records:
        copies = [copy.deepcopy(model)]
        model.save_pretrained(tmp_path)
        copies.append(transformers.AutoModelForCausalLM.from_pretrained(tmp_path))
        for one in copies:
            assert set(names_of(one)) == {"sdpa"} and torch.equal(one(**inputs).logits, plain)
        assert not records and model(**inputs) and len(records) == 2
        made, given = model.config._attn_implementation.__reduce_ex__(4)  # as a pickle takes it
        assert made(*given) == "sdpa" and type(made(*given)) is str
    assert all(torch.equal(one(**inputs).logits, plain) for one in copies)


def test_another_thread_neither_taps_nor_runs_a_tapped_model():
    model, said = build("llama"), []

    def elsewhere():
        for act in (lambda: tap(model).__enter__(), lambda: model(**inputs_for(model))):
            try:
                act()
            except ValueError as error:
                said.append(str(error))

    with tap(model) as records:
        other = Thread(target=elsewhere)
        other.start()
        other.join(60)
        assert not records and model(**inputs_for(model)) and len(records) == 2
    assert [text.partition(":")[0] for text in said] == [
        "another thread taps this LlamaForCausalLM", "another thread runs this model while it is tapped"
    ]  # fmt: skip
    assert set(names_of(model)) == {"sdpa"}


def names_of(model):
    """The implementation in each config of the model."""
    return [m.config._attn_implementation for m in model.modules() if hasattr(m, "config")]


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_the_configuration_is_restored_also_after_an_exception(implementation):
    model = build("marian", implementation)
    registered = [set(ALL_ATTENTION_FUNCTIONS), set(ALL_MASK_ATTENTION_FUNCTIONS)]
    before = names_of(model)
    with pytest.raises(ZeroDivisionError), tap(model, lambda record: 1 / 0):
        assert set(names_of(model)).isdisjoint(before)
        model(**inputs_for(model))
    assert names_of(model) == before == [implementation] * len(before)
    assert [set(ALL_ATTENTION_FUNCTIONS), set(ALL_MASK_ATTENTION_FUNCTIONS)] == registered
    model(**inputs_for(model))


def test_taps_nest_and_each_gets_what_it_asked_for():
    model = build("llama")
    inputs = inputs_for(model)
    plain = model(**inputs).logits
    with tap(model) as outer:
        with tap(model, layers=[1]) as inner:
            assert torch.equal(model(**inputs).logits, plain)
        model(**inputs)
    assert [r.layer for r in outer] == [0, 1, 0, 1] and [r.layer for r in inner] == [1]
    assert torch.equal(inner[0].attention(), outer[1].attention())
    assert names_of(model)[0] == "sdpa"


@pytest.mark.parametrize("shared", [False, True])
def test_two_models_are_tapped_at_once_even_with_one_config(shared):
    first, second = build("llama"), build("llama" if shared else "bert")
    if shared:
        second = type(first)(first.config).eval()
        assert second.config is first.config
    inputs = inputs_for(first)
    with ExitStack() as stack:
        mine = stack.enter_context(tap(first))
        first(**inputs), second(**inputs)
        other = stack.enter_context(tap(second))
        first(**inputs), second(**inputs)
    assert [r.layer for r in mine] == [0, 1, 0, 1] and [r.layer for r in other] == [0, 1]
    assert torch.equal(mine[0].query, mine[2].query) and not torch.equal(mine[0].query, other[0].query)
    assert names_of(first)[0] == names_of(second)[0] == "sdpa"


def test_an_implementation_of_ones_own_gets_every_argument_and_its_own_name(monkeypatch):
    calls = []

    def probe(module, query, key, value, attention_mask, **kwargs):
        calls.append((module.config._attn_implementation, attention_mask, kwargs))
        return ALL_ATTENTION_FUNCTIONS["sdpa"](module, query, key, value, attention_mask, **kwargs)

    model = build("mistral")
    monkeypatch.setitem(ALL_ATTENTION_FUNCTIONS._global_mapping, "probe", probe)
    model.set_attn_implementation("probe")
    inputs = inputs_for(model)
    plain = model(**inputs, marker=3).logits
    with tap(model) as outer, tap(model) as records:
        assert torch.equal(model(**inputs, marker=3).logits, plain)
    untapped, tapped = calls[:2], calls[2:]
    for (name, mask, kwargs), (same_name, same_mask, same_kwargs) in zip(untapped, tapped, strict=True):
        assert name == same_name == "probe"
        assert mask is None and same_mask is None  # no mask function is registered for it
        assert kwargs.keys() == same_kwargs.keys() >= {"scaling", "dropout", "sliding_window", "marker"}
        assert kwargs["sliding_window"] == same_kwargs["sliding_window"] == 3
    assert len(outer) == 2 and records[0].implementation == outer[0].implementation == "probe"
    with pytest.raises(ValueError, match="'probe': load it with attn_implementation='sdpa'"):
        records[0].attention()


def test_the_name_in_a_tap_stands_for_the_same_version_of_flash_attention(monkeypatch):
    monkeypatch.setattr(attention, "_NUMBER", count(2))
    model = build("llama")
    model.config._attn_implementation = "flash_attention_3"
    with tap(model):
        assert is_flash_attention_requested(model.config, version=3)
        assert not is_flash_attention_requested(model.config, version=2)


# what is refused, and verify


def test_what_the_tap_was_not_shown_to_reproduce_is_refused_by_name():
    with pytest.raises(ValueError, match=r"Gemma2Model \(model type 'gemma2'\): call .*\.verify"):
        tap(build("gemma2", "eager")).__enter__()
    for name in ("bloom", "mpnet"):
        with pytest.raises(
            ValueError, match=rf"\(model type '{name}'\) does not call AttentionInterface, and"
        ):
            tap(build(name, "eager")).__enter__()
    with pytest.raises(ValueError, match="Linear holds no Hugging Face model"):
        tap(nn.Linear(2, 2)).__enter__()
    with pytest.raises(ValueError, match="GPT2Model has reorder_and_upcast_attn=True"):
        tap(build("gpt2", "eager", reorder_and_upcast_attn=True)).__enter__()
    upcast = build("gpt2", reorder_and_upcast_attn=True)
    assert len(attention_maps(upcast, **inputs_for(upcast))) == 2


@pytest.mark.parametrize(
    "options,message",
    [
        (dict(layers=[0, 2]), "no layer 2 in LlamaForCausalLM: it has 0 to 1"),
        (dict(layers=[-1]), "no layer -1"),
        (dict(kinds=("cros",)), "unknown kind 'cros': choose among"),
    ],
)
def test_an_unknown_layer_or_kind_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        tap(build("llama"), **options).__enter__()


def test_a_layer_whose_eager_code_is_nowhere_is_refused():
    class Lonely:
        pass

    with pytest.raises(ValueError, match="Lonely has no eager_attention_forward"):
        attention._namespace(Lonely())


@pytest.fixture
def nothing_verified(monkeypatch):
    monkeypatch.setattr(attention, "_VERIFIED", set())


def test_verify_admits_a_class_with_softcap_and_windows(nothing_verified):
    model = build("gemma2", "eager")
    inputs = inputs_for(model, None)
    verify(model, inputs)
    with tap(model) as records:
        model(**inputs)
    assert all(r.options["softcap"] == 0.5 for r in records)
    for r, own in zip(records, own_maps(model, inputs)["decoder", "self"], strict=True):
        assert torch.equal(r.attention(), own)


def test_verify_admits_an_encoder_and_decoder_with_position_biases(nothing_verified):
    model = build("t5").requires_grad_(False)
    inputs = inputs_for(model, None)
    verify(model, inputs)
    with tap(model, kinds=("self", "cross")) as records:
        model(**inputs)
    assert [(r.stack, r.kind, r.layer) for r in records] == [
        ("encoder", "self", 0),
        ("encoder", "self", 1),
        *[("decoder", kind, layer) for layer in range(2) for kind in ("self", "cross")],
    ]


def test_verify_refuses_a_model_that_does_not_call_the_interface(nothing_verified):
    model = build("bloom", "eager")
    with pytest.raises(ValueError, match="BloomModel .* does not call AttentionInterface"):
        verify(model, inputs_for(model, None))
    with pytest.raises(ValueError, match="call model.eval"):
        verify(build("llama").train(), inputs_for(model, None))


@pytest.mark.parametrize(
    "fault,message",
    [
        ("output", "other outputs or gradients"),
        ("gradient", "other outputs or gradients"),
        ("map", "differs from Gemma2ForCausalLM's own map: Record.layer=0"),
        ("hidden layer", "sees 1 of the 2 attention layers of Gemma2ForCausalLM"),
    ],
)
def test_verify_sees_what_is_wrong(nothing_verified, monkeypatch, fault, message):
    model = build("gemma2", "eager")
    layer = model.model.layers[1].self_attn

    def tapped():
        return "tap" in layer.config._attn_implementation

    if fault == "output":
        layer.register_forward_hook(lambda _, args, out: (out[0] + tapped(), out[1]))
    elif fault == "gradient":
        layer.o_proj.register_full_backward_pre_hook(lambda _, grads: (grads[0] * (1 + tapped()),))
    elif fault == "map":
        monkeypatch.setattr(attention.Record, "attention", lambda r: torch.full((2, 4, 7, 7), 1 / 7))
    else:
        layer.config = copy.deepcopy(layer.config)
    with pytest.raises(ValueError, match=message):
        verify(model, inputs_for(model, None))
    assert attention._VERIFIED == set()
