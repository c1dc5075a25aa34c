"""SCITransformer's forward pass: no leak, a base undisturbed, gradients everywhere, refusals."""

import copy
from contextlib import nullcontext

import peft
import pytest
import torch
import transformers
from transformers import GenerationConfig

from causalnb import sci
from causalnb.sci.contrasts import ConstructionTransformer, SlotDecoder
from causalnb.wrapping import decoder_layers
from tests.unit.sci.tiny import BASES, SLOTS, VOCABULARY, WIDTH, awake, base, batch, gradients
from tests.unit.sci.tiny import sci as wrapped

every_base = pytest.mark.parametrize("name", BASES)


def test_the_output_and_its_shapes():
    model, given = wrapped(), batch(structure_ids=[0, 1, 0])
    out = model(**given)
    assert out.logits.shape == (3, 9, VOCABULARY) and out.structure.shape == out.slots.shape == (
        3,
        SLOTS,
        WIDTH,
    )
    assert torch.equal(out.edges, out.edges.triu(1)) and out.edges.shape == (3, SLOTS, SLOTS)
    assert (sci.acyclicity(out.edges).abs() < 1e-12).all()
    shifted = out.logits[:, :-1].flatten(0, 1), given["labels"][:, 1:].flatten()
    torch.testing.assert_close(
        out.lm_loss.double(), torch.nn.functional.cross_entropy(*shifted), rtol=1e-6, atol=0
    )
    contrastive = sci.StructuralContrastiveLoss(0.07).of_ids(out.structure, given["structure_ids"])
    assert torch.equal(out.contrastive_loss, contrastive) and contrastive > 0
    assert torch.equal(out.loss, 0.1 * out.contrastive_loss + out.lm_loss)
    assert out.hidden_states is None and len(model(**given, output_hidden_states=True).hidden_states) == 4


def test_losses_come_when_asked_for():
    model, given = wrapped(scl_weight=0.3, scl_temperature=0.5), batch(structure_ids=[0, 1, 0])
    ids, labels = given.pop("structure_ids"), given.pop("labels")
    assert model(**given).loss is None and model(**given).contrastive_loss is None
    only = model(**given, structure_ids=ids)
    torch.testing.assert_close(only.loss, 0.3 * only.contrastive_loss)
    assert only.lm_loss is None
    plain = model(**given, labels=labels)
    assert torch.equal(plain.loss, plain.lm_loss)
    assert only.contrastive_loss == sci.StructuralContrastiveLoss(0.5).of_ids(only.structure, ids)


@every_base
def test_at_first_the_base_computes_the_same_bits(name):
    given = batch()
    expected = base(name)(input_ids=given["input_ids"]).logits
    model = sci.SCITransformer.from_base(
        base(name), n_structural_slots=SLOTS, d_structure=WIDTH, n_structural_heads=2
    )
    assert torch.equal(model.eval()(**given).logits, expected)
    moved = awake(model)(**given).logits
    assert (moved - expected).abs().amax((1, 2)).min() > 1e-3
    assert torch.equal(
        model.base(input_ids=given["input_ids"]).logits, expected
    )  # outside forward nothing is bound


@every_base
def test_hidden_states_have_what_is_added_though_the_base_was_asked_for_them_before(name):
    given, found = batch(), []
    for asked in (False, True):
        fresh = base(name)
        fresh(input_ids=given["input_ids"], output_hidden_states=asked)
        model = awake(wrapped(fresh))
        found.append(model(**given, output_hidden_states=True).hidden_states)
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))
    plain = fresh(input_ids=given["input_ids"], output_hidden_states=True).hidden_states
    assert not all(torch.allclose(one, other) for one, other in zip(found[0][:-1], plain[:-1], strict=True))


@every_base
def test_no_answer_token_reaches_an_earlier_logit(name):
    model, given = wrapped(base(name)), batch(rows=1)
    before = model(**given)
    for place in range(4, 9):
        edited = {**given, "input_ids": given["input_ids"].clone()}
        edited["input_ids"][0, place] = 3 + (edited["input_ids"][0, place] - 2) % (VOCABULARY - 3)
        after = model(**edited)
        assert torch.equal(after.structure, before.structure) and torch.equal(after.slots, before.slots)
        assert torch.equal(after.logits[:, :place], before.logits[:, :place])
        assert not torch.equal(after.logits[:, place], before.logits[:, place])


def test_a_prompt_mask_over_the_answer_leaks_it():
    model, given = wrapped(), batch(rows=1, labels=False)
    everything = dict(input_ids=given["input_ids"], prompt_mask=torch.ones_like(given["prompt_mask"]))
    edited = {**everything, "input_ids": given["input_ids"].clone()}
    edited["input_ids"][0, -1] = 3 + (edited["input_ids"][0, -1] - 2) % (VOCABULARY - 3)
    assert (model(**edited).logits - model(**everything).logits)[0, 3].abs().max() > 1e-3


@pytest.mark.parametrize("control", [False, True])
def test_without_a_prompt_mask_the_prompt_ends_before_the_first_label(control):
    model = sci.ContrastiveDecoder.from_base(base()) if control else awake(wrapped())
    given = batch(structure_ids=[0, 0, 1])
    seen = torch.ones_like(given["input_ids"])
    seen[1, :2] = 0  # padding on the left, of which no prompt is made
    marked = model(**given | {"prompt_mask": given["prompt_mask"] * seen}, attention_mask=seen)
    derived = model(**given | {"prompt_mask": None}, attention_mask=seen)
    assert torch.equal(marked.loss, derived.loss) and torch.equal(marked.structure, derived.structure)


def test_without_a_prompt_mask_the_attended_input_is_the_prompt():
    model, ids = wrapped(), batch()["input_ids"]
    everything, shorter = torch.ones_like(ids), (torch.arange(9) < 6).long().expand(3, -1)
    assert torch.equal(model(ids).logits, model(ids, prompt_mask=everything).logits)
    masked = model(ids, attention_mask=shorter)
    assert torch.equal(masked.structure, model(ids, prompt_mask=shorter).structure)
    assert not torch.equal(masked.structure, model(ids).structure)


@every_base
def test_padding_and_neighbours_change_nothing(name):
    """Three lengths and prompts in one batch, padded on either side, against each row alone."""
    model, rows = (
        wrapped(base(name)),
        [batch(rows=1, tokens=t, prompt=p, seed=t) for t, p in ((9, 4), (7, 5), (5, 2))],
    )
    alone = [model(**row) for row in rows]
    for left in (False, True):
        columns = {}
        for key, fill in (("input_ids", 0), ("prompt_mask", 0), ("labels", -100)):
            padded = [
                torch.nn.functional.pad(
                    row[key], ((9 - row[key].shape[1], 0) if left else (0, 9 - row[key].shape[1])), value=fill
                )
                for row in rows
            ]
            columns[key] = torch.cat(padded)
        mask = torch.stack([(torch.arange(9) < row["input_ids"].shape[1]).long() for row in rows])
        mask = mask.flip(1) if left else mask
        positions = (mask.cumsum(1) - 1).clamp(min=0)
        together = model(**columns, attention_mask=mask, position_ids=positions)
        for place, one in enumerate(alone):
            kept = mask[place].bool()
            torch.testing.assert_close(
                together.logits[place, kept], one.logits[0], rtol=0, atol=1e-6
            )  # RoPE is float32
            torch.testing.assert_close(together.structure[place], one.structure[0], rtol=0, atol=1e-6)
            torch.testing.assert_close(together.edges[place], one.edges[0], rtol=0, atol=1e-6)


def test_word_order_matters_to_the_structure():
    model, given = wrapped(), batch(labels=False)
    swapped = given["input_ids"].clone()
    swapped[:, [0, 3]] = swapped[:, [3, 0]]
    assert (model(**given).structure - model(**{**given, "input_ids": swapped}).structure).abs().max() > 1e-3


def test_do_holds_a_slot_and_moves_only_what_it_causes():
    model, given, value = (
        wrapped(n_iterations=SLOTS - 1),
        batch(labels=False),
        torch.randn(3, WIDTH, dtype=torch.float64),
    )
    before, after = model(**given), model(**given, do={2: value})
    assert torch.equal(after.slots[:, 2], value) and torch.equal(after.structure, before.structure)
    assert torch.equal(after.slots[:, :2], before.slots[:, :2])
    assert (after.slots[:, 3:] - before.slots[:, 3:]).abs().amax((0, 2)).min() > 1e-6
    assert (after.logits - before.logits).abs().max() > 1e-4
    value.requires_grad_()
    model(**given, do={2: value}).logits.square().sum().backward()
    assert (value.grad != 0).all()


def test_gradients_reach_every_weight_and_the_embeddings():
    model, given = wrapped().train(), batch(structure_ids=[0, 1, 0])
    _, found = gradients(model, given)
    silent = {name for name, p in model.named_parameters() if name not in found or not found[name].any()}
    assert all(name.endswith("key.bias") for name in silent)  # a shift of all keys moves no attention
    loss = model(**{**given, "labels": None}).loss
    model.zero_grad()
    loss.backward()
    rows = model.get_input_embeddings().weight.grad.abs().sum(1) > 0
    assert set(rows.nonzero()[:, 0].tolist()) == set(given["input_ids"][:, :4].flatten().tolist())


def test_gradient_checks_of_the_sci_part_in_the_model():
    """On GPT-2, whose norms stay in float64; forward's loss is float32, so one is taken from logits."""
    given = batch(rows=2, tokens=5, prompt=3, structure_ids=[0, 0], labels=False)
    model, answer = wrapped(base("gpt2", n_layer=1), cbm_layers=[0]), given["input_ids"][:, 3:].flatten()
    names = [name for name, _ in model.named_parameters() if ".h." not in name]
    values = [dict(model.named_parameters())[name].detach().clone().requires_grad_() for name in names]

    def losses(*tensors):
        out = torch.func.functional_call(model, dict(zip(names, tensors, strict=False)), (), given)
        return out.loss, torch.nn.functional.cross_entropy(out.logits[:, 2:-1].flatten(0, 1), answer)

    assert torch.autograd.gradcheck(losses, values, fast_mode=True)


@pytest.mark.parametrize("name", ["llama", "gpt2"])
@pytest.mark.parametrize("reentrant", [False, True])
def test_gradient_checkpointing_gives_the_same_gradients(name, reentrant):
    model, given = wrapped(base(name)).train(), batch(structure_ids=[0, 1, 0])
    loss, expected = gradients(model, given)
    calls = []
    layers = model.base.model.layers if name == "llama" else model.base.transformer.h
    first = layers[1].mlp
    first.register_forward_pre_hook(lambda *_: calls.append(1))
    model.gradient_checkpointing_enable({"use_reentrant": reentrant})
    again, found = gradients(model, given)
    assert len(calls) == 2  # it did recompute
    assert loss == again and expected.keys() == found.keys()
    assert all(torch.equal(expected[key], found[key]) for key in expected)


@pytest.mark.parametrize(
    "dtype, context",
    [(torch.float32, torch.autocast("cpu", torch.bfloat16)), (torch.bfloat16, nullcontext())],
    ids=["autocast", "bf16"],
)
def test_lower_precision_trains_close_to_float64(dtype, context):
    given, value = batch(structure_ids=[0, 1, 0]), torch.randn(3, WIDTH)
    loss, expected = gradients(wrapped(), {**given, "do": {1: value.double()}})
    model = wrapped().to(dtype).train()
    with context:
        out = model(**given, do={1: value})
    out.loss.backward()
    assert out.loss.item() == pytest.approx(loss, rel=0.05)
    found = torch.cat([p.grad.flatten().double() for name, p in model.named_parameters() if name in expected])
    wanted = torch.cat([expected[name].flatten() for name, _ in model.named_parameters() if name in expected])
    assert torch.nn.functional.cosine_similarity(found, wanted, dim=0) > 0.95
    assert all(p.grad is not None for p in model.parameters())


def test_the_sci_part_takes_the_type_of_its_base():
    assert {p.dtype for p in wrapped(base(dtype=torch.bfloat16)).parameters()} == {torch.bfloat16}


def test_wrapping_one_base_twice_keeps_both_apart():
    decoder, given = base(), batch()
    one, other = wrapped(decoder, seed=1), wrapped(decoder, seed=7)
    alone = wrapped(base(), seed=1)
    assert torch.equal(one(**given).logits, alone(**given).logits)
    assert not torch.equal(one(**given).logits, other(**given).logits)


def test_an_error_inside_the_base_leaves_nothing_bound():
    model = wrapped()
    with pytest.raises(IndexError):
        model(input_ids=torch.full((1, 3), VOCABULARY))
    assert model._bound is None


def test_a_deep_copy_is_bound_as_well():
    model, given = wrapped(), batch()
    twin = copy.deepcopy(model)
    assert torch.equal(twin(**given).logits, model(**given).logits)
    awake(twin)
    assert not torch.equal(twin(**given).logits, model(**given).logits)


# settings


def test_settings_left_out_follow_the_base():
    config = sci.SCIConfig(transformers.LlamaConfig(num_hidden_layers=22, hidden_size=2048))
    assert config.cbm_layers == [6, 11, 16] and config.d_structure == 192  # the guide's layers
    config = sci.SCIConfig(base(num_hidden_layers=1).config)
    assert config.cbm_layers == [0] and config.d_structure == 24
    assert sci.SCIConfig(base().config, n_structural_heads=5).d_structure == 20
    assert sci.SCIConfig().base_config is None


def test_the_width_recommended_for_a_1b_model_costs_what_the_guide_claims():
    with torch.device("meta"):
        model = sci.SCITransformer.from_base(
            transformers.LlamaForCausalLM(
                transformers.LlamaConfig(
                    vocab_size=32000,
                    hidden_size=2048,
                    intermediate_size=5632,
                    num_hidden_layers=22,
                    num_attention_heads=32,
                    num_key_value_heads=4,
                )
            )
        )
    base_size = sum(p.numel() for p in model.base.parameters())
    added = sum(p.numel() for p in model.parameters()) - base_size
    assert base_size == 1_100_048_384 and added <= 10.5e6 and added < 0.01 * base_size


@pytest.mark.parametrize(
    "settings, message",
    [
        (dict(cbm_layers=[1, 3]), "binding layer 3 does not exist in a base of 3 layers: choose from 0 to 2"),
        (dict(cbm_layers=[-1]), "binding layer -1 does not exist"),
        (
            dict(n_structural_slots=8),
            "8 structural slots do not fit a structural width of 8: choose between 1 and 7",
        ),
        (dict(n_structural_slots=0), "0 structural slots do not fit"),
        (dict(dag="perm"), "dag is 'perm': choose 'upper'"),
        (dict(ortho="loss"), "ortho is 'loss': choose 'project' or 'none'"),
        (dict(projection="svd"), "projection is 'svd': choose 'gram' or 'qr' or 'sequential'"),
        (dict(scl_temperature=0.0), "temperature is 0.0: it must be positive"),
        (dict(scl_temperature=float("inf")), "temperature is inf: it must be positive and finite"),
        (dict(scl_temperature=None), "temperature is None: it must be positive"),
        (dict(scl_weight="0.1"), "scl_weight is '0.1': choose a finite one, 0 or more"),
        (dict(cbm_layers=2), r"cbm_layers is 2: give a list of layers' numbers, such as \[2\]"),
        (dict(cbm_layers="02"), "cbm_layers is '02': give a list"),
        (dict(cbm_layers=[True]), r"cbm_layers is \[True\]: give a list"),
        (dict(scl_weight=-1.0), "scl_weight is -1.0: choose a finite one, 0 or more"),
        (dict(scl_weight=float("nan")), "scl_weight is nan: choose a finite one, 0 or more"),
        (dict(scl_weight=float("inf")), "scl_weight is inf: choose a finite one, 0 or more"),
        (dict(n_iterations=-1), "n_iterations is -1: choose 0 or more"),
        (dict(n_structural_heads=0), "n_structural_heads is 0: choose 1 or more"),
        (dict(cbm_layers=[]), "cbm_layers is empty: name at least one layer"),
        (
            dict(d_structure=10),
            "width of 10 does not split into 2 heads of even width: choose a multiple of 4",
        ),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        wrapped(**settings)


def test_a_model_without_decoder_layers_is_refused_by_name():
    class Odd(torch.nn.Module):
        config = transformers.LlamaConfig(num_hidden_layers=3)

    with pytest.raises(ValueError, match="no list of 3 layers was found in Odd: pass a Hugging Face decoder"):
        decoder_layers(Odd())


@pytest.mark.parametrize(
    "change, message",
    [
        (
            dict(prompt_mask=None, labels=torch.ones(3, 9, dtype=torch.long)),
            "row 0 has no token before its first label, and so no prompt: .*PromptAnswerCollator",
        ),
        (dict(prompt_mask=torch.ones(3, 8)), r"prompt_mask has shape \(3, 8\), but input_ids \(3, 9\)"),
        (dict(attention_mask=torch.ones(2, 9)), r"attention_mask has shape \(2, 9\), but input_ids \(3, 9\)"),
        (dict(labels=torch.ones(3, 10)), r"labels has shape \(3, 10\), but input_ids \(3, 9\)"),
        (
            dict(prompt_mask=torch.zeros(3, 9)),
            "row 0 has no prompt token: mark at least one with 1",
        ),
        (
            dict(prompt_mask=torch.tensor([[1] * 9, [0] * 9, [1] * 9])),
            "row 1 has no prompt token.*mark at least one",
        ),
        (
            dict(structure_ids=torch.zeros(2)),
            r"structure_ids have shape \(2,\): pass one id for each of the 3 rows",
        ),
        (dict(do={SLOTS: torch.zeros(3, WIDTH)}), r"do\(\) names slot 5, but the slots are 0 to 4"),
        (dict(do={0: torch.zeros(WIDTH)}), r"do\(\) on slot 0 got a value of shape \(8,\): pass \(3, 8\)"),
        (
            dict(past_key_values=transformers.DynamicCache()),
            "takes no past_key_values: call generate to use the cache",
        ),
    ],
)
def test_inputs_that_do_not_fit_are_refused(change, message):
    model = wrapped()
    with pytest.raises(ValueError, match=message):
        model(**batch() | change)
    assert model._bound is None


# the control


def test_the_control_is_the_base_with_a_loss_on_its_last_prompt_state():
    given = batch(structure_ids=[0, 1, 0])
    expected = base()(input_ids=given["input_ids"], labels=given["labels"], output_hidden_states=True)
    control = sci.ContrastiveDecoder.from_base(base(), scl_weight=0.3, scl_temperature=0.5).eval()
    out = control(**given)
    assert torch.equal(out.logits, expected.logits) and torch.equal(out.lm_loss, expected.loss)
    assert torch.equal(out.structure, expected.hidden_states[-1][:, 3:4])
    contrastive = sci.StructuralContrastiveLoss(0.5).of_ids(out.structure, given["structure_ids"])
    assert torch.equal(out.contrastive_loss, contrastive) and torch.equal(
        out.loss, 0.3 * contrastive + out.lm_loss
    )
    added = [name for name, _ in control.named_parameters() if not name.startswith("base.")]
    assert not added


def test_the_controls_losses_come_when_asked_for():
    control, given = sci.ContrastiveDecoder.from_base(base()).eval(), batch(structure_ids=[0, 1, 0])
    ids, labels = given.pop("structure_ids"), given.pop("labels")
    assert control(**given).loss is None
    torch.testing.assert_close(
        control(**given, structure_ids=ids).loss, 0.1 * control(**given, structure_ids=ids).contrastive_loss
    )
    plain = control(**given, labels=labels)
    assert torch.equal(plain.loss, plain.lm_loss)
    whole = control(given["input_ids"])
    assert torch.equal(
        whole.structure, control.base(given["input_ids"], output_hidden_states=True).hidden_states[-1][:, -1:]
    )


def test_what_the_control_does_not_read_is_refused():
    control, given = sci.ContrastiveDecoder.from_base(base()).eval(), batch()
    filled = base()(given["input_ids"], use_cache=True).past_key_values
    for name, value in {"past_key_values": filled, "output_hidden_states": True}.items():
        with pytest.raises(ValueError, match=f"forward reads whole texts, and takes .*{name}.*: call .base"):
            control(**given, **{name: value})
    empty = {**given, "prompt_mask": given["prompt_mask"] * torch.tensor([[1], [0], [1]])}
    with pytest.raises(ValueError, match="a row's prompt_mask marks nothing that is seen: mark at least one"):
        control(**empty)
    with pytest.raises(ValueError, match="an SCIOutput has no attentions: leave output_attentions out"):
        awake(wrapped())(**given, output_attentions=True)
    assert peft.get_peft_model(control, peft.LoraConfig(target_modules=["q_proj"], task_type="CAUSAL_LM"))


def test_the_control_generates_as_its_base_and_comes_back_from_disk(tmp_path):
    control, ids = sci.ContrastiveDecoder.from_base(base()).eval(), batch()["input_ids"]
    expected = base().generate(
        input_ids=ids, max_new_tokens=3, min_new_tokens=3, do_sample=False, pad_token_id=0
    )
    assert torch.equal(
        control.generate(ids, max_new_tokens=3, min_new_tokens=3, do_sample=False, pad_token_id=0), expected
    )
    control.save_pretrained(tmp_path)
    for again in (
        sci.ContrastiveDecoder.from_pretrained(tmp_path),
        transformers.AutoModelForCausalLM.from_pretrained(tmp_path),
    ):
        assert type(again) is sci.ContrastiveDecoder
        assert again.state_dict().keys() == control.state_dict().keys()
        assert all(torch.equal(again.state_dict()[key], value) for key, value in control.state_dict().items())


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_the_control_takes_its_bases_attention_and_generation(implementation, tmp_path):
    control = sci.ContrastiveDecoder.from_base(base(dtype=torch.float32))
    control.generation_config = GenerationConfig(eos_token_id=[2, 7], repetition_penalty=1.3, pad_token_id=0)
    assert control.base.generation_config.eos_token_id == [2, 7]
    control.save_pretrained(tmp_path)
    again, _ = sci.ContrastiveDecoder.from_pretrained(
        tmp_path, attn_implementation=implementation, output_loading_info=True
    )
    assert again.base.config._attn_implementation == again.config._attn_implementation == implementation
    assert again.generation_config.eos_token_id == [2, 7]
    assert again.base.generation_config.repetition_penalty == 1.3
    (tmp_path / "generation_config.json").unlink()
    assert sci.ContrastiveDecoder.from_pretrained(tmp_path).generation_config.eos_token_id == 2
    state = control.state_dict()
    assert sci.ContrastiveDecoder.from_pretrained(None, config=control.config, state_dict=state)


def test_padding_is_no_prompt_of_the_control():
    control, ids = sci.ContrastiveDecoder.from_base(base()).eval(), batch()["input_ids"]
    seen = (torch.arange(9) < 6).long().expand(3, -1)
    whole = control(ids, seen, prompt_mask=torch.ones_like(ids)).structure
    assert torch.equal(whole, control(ids, seen, prompt_mask=seen).structure)
    assert not torch.equal(whole, control(ids, prompt_mask=torch.ones_like(ids)).structure)


def test_inputs_that_do_not_fit_the_control_are_refused():
    control = sci.ContrastiveDecoder.from_base(base())
    with pytest.raises(ValueError, match="ContrastiveDecoder has no argument 'structure_id': pass what"):
        control(**batch(), structure_id=torch.zeros(3))
    with pytest.raises(ValueError, match="row 0 has no token before its first label"):
        control(batch()["input_ids"], labels=batch()["input_ids"])
    with pytest.raises(ValueError, match=r"prompt_mask has shape \(3, 8\), but input_ids \(3, 9\)"):
        control(**batch() | {"prompt_mask": torch.ones(3, 8)})


def test_a_single_row_without_its_batch_is_refused():
    with pytest.raises(ValueError, match=r"input_ids have shape \(9,\): pass \(batch, tokens"):
        wrapped()(batch()["input_ids"][0])


@pytest.mark.parametrize(
    "settings",
    [dict(dag="perm"), dict(ortho="loss"), dict(projection="svd"), dict(n_structural_heads=3, d_structure=8),
     dict(scl_temperature=-1.0)],
)  # fmt: skip
def test_the_settings_refuse_by_themselves(settings):
    with pytest.raises(ValueError, match="choose|must be positive"):
        sci.SCIConfig(base().config, **settings)


@pytest.mark.parametrize("wrapper", [sci.SCITransformer, sci.SeparatedSCI, sci.ContrastiveDecoder])
@pytest.mark.parametrize("name", ["scl_wieght", "base_adapter"])
def test_an_unknown_setting_is_refused_by_name(wrapper, name):
    with pytest.raises(ValueError, match=f"there is no setting '{name}': give .*scl_weight"):
        wrapper.from_base(base(), **{name: 5})


def test_what_every_configuration_has_may_be_set():
    assert sci.SCITransformer.from_base(base(), output_hidden_states=True).config.output_hidden_states


@pytest.mark.parametrize("wrapper", [sci.SCITransformer, sci.SeparatedSCI])
def test_replicas_of_data_parallel_are_refused(wrapper):
    settings = dict(n_structural_slots=SLOTS, d_structure=WIDTH, n_structural_heads=2)
    replica = wrapper.from_base(base(), **settings)._replicate_for_data_parallel()
    for call in (replica, replica.generate):
        with pytest.raises(ValueError, match="replicas of .* unbound: use accelerate or Distributed"):
            call(batch()["input_ids"])


@pytest.mark.parametrize("wrapper", [sci.SCITransformer, sci.SeparatedSCI, sci.ContrastiveDecoder])
def test_tuples_come_when_asked_for(wrapper):
    settings = dict(n_structural_slots=SLOTS, d_structure=WIDTH, n_structural_heads=2)
    model, given = wrapper.from_base(base(), **settings).eval(), batch(structure_ids=[0, 1, 0])
    loss, logits, *_ = model(**given, return_dict=False)
    expected = model(**given)
    assert torch.equal(loss, expected.loss) and torch.equal(logits, expected.logits)


@pytest.mark.parametrize("wrapper", [sci.SCITransformer, sci.SeparatedSCI])
def test_padding_is_no_prompt(wrapper):
    settings = dict(n_structural_slots=SLOTS, d_structure=WIDTH, n_structural_heads=2)
    model, ids = wrapper.from_base(base(), **settings).eval(), batch()["input_ids"]
    seen = (torch.arange(9) >= 2).long().expand(3, -1)
    prompt = (torch.arange(9) < 5).long().expand(3, -1)
    exact = model(ids, attention_mask=seen, prompt_mask=prompt * seen)
    for mask in (prompt, prompt.bool(), prompt.float()):
        out = model(ids, attention_mask=seen, prompt_mask=mask)
        assert torch.equal(out.structure, exact.structure) and torch.equal(out.logits, exact.logits)
    assert not torch.equal(model(ids, prompt_mask=prompt).structure, exact.structure)


def test_encoding_no_prompt_at_all_is_refused():
    ids = batch()["input_ids"]
    with pytest.raises(ValueError, match="the prompt mask marks no token at all"):
        wrapped().encode(ids, torch.zeros_like(ids))


def test_the_automatic_classes_know_the_models():
    for kind in (sci.SCITransformer, sci.SeparatedSCI, SlotDecoder, ConstructionTransformer):
        config = kind.config_class
        assert type(transformers.AutoConfig.for_model(config.model_type)) is config
        assert transformers.AutoModelForCausalLM._model_mapping[config] is kind
