"""The wrapped decoder: bidirectional, its loss, its collator, saving, LoRA, and the plain Trainer on it."""

import copy
from contextlib import nullcontext

import numpy as np
import pytest
import torch
import transformers
from peft import LoraConfig, PeftModel, get_peft_model

from causalnb import c2dlm
from causalnb.c2dlm import MaskedDiffusionCollator, NumberedRows, ReattentionLoss
from causalnb.c2dlm import model as modelling
from tests.unit.c2dlm.small import BASES, EOS, MASK, VOCABULARY, base, batch_of, gradients, masks, wrapped

every_base = pytest.mark.parametrize("name", BASES)
EDGE = dict(alpha=3.0, lam=10.0)


@every_base
def test_every_position_sees_every_other_under_sdpa(name):
    decoder, ids = base(name), torch.randint(3, MASK, (1, 6))
    causal = decoder(input_ids=ids).logits
    model = wrapped(decoder)
    assert model.base.config._attn_implementation == "sdpa"
    before = model(ids).logits
    assert before.shape == (1, 6, VOCABULARY) and (before - causal)[0, 0].abs().max() > 1e-3
    changed = ids.clone()
    changed[0, 5] = 3 + (changed[0, 5] - 2) % (MASK - 3)
    assert ((model(changed).logits - before).abs().amax(-1) > 1e-5).all()
    changed = causal_change(name, ids, changed)
    assert (changed[0, :5] == 0).all()  # the autoregressive twin is the same decoder, unwrapped


def causal_change(name, ids, changed):
    twin = base(name)
    return twin(input_ids=changed).logits - twin(input_ids=ids).logits


def test_the_loss_in_forward_is_the_public_one():
    model, batch = wrapped(), batch_of()
    logits = model(batch["input_ids"]).logits
    for weight in ("1/t", "none"):
        model.config.weight = weight
        out = model(**batch)
        given = (batch[name] for name in ("labels", "masked", "p", "prompt_mask"))
        expected = c2dlm.diffusion_loss(logits, *given, weight)
        torch.testing.assert_close(out.loss, expected, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(out.logits, logits)
        assert torch.equal(out.loss.detach(), out.diffusion_loss)
        trained = model.train()(**batch)
        assert trained.logits is None
        torch.testing.assert_close(trained.loss, out.loss)
        model.eval()


@pytest.mark.parametrize("backend", ["eager", "rows", "mass"])
def test_the_whole_loss_adds_gamma_times_re_attention(backend):
    model = wrapped(reattention=ReattentionLoss(**EDGE, backend=backend), gamma=0.5)
    batch = batch_of(supervised=True)
    out = model(**batch)
    assert out.reattention_loss.abs() > 1e-3 and out.gamma == 0.5
    torch.testing.assert_close(out.loss.detach(), out.diffusion_loss + 0.5 * out.reattention_loss)
    torch.testing.assert_close(out.reattention_loss, out.ratio + out.neg)
    _, found = gradients(model.train(), batch)
    assert set(found) == {name for name, _ in model.named_parameters()}
    without = batch | {"supervision": None}
    assert torch.equal(model(**without).loss.detach(), out.diffusion_loss) and model(**without).ratio is None


def test_gamma_follows_its_schedule_in_training_alone():
    schedule = dict(total_steps=4, gamma_min=0.0, gamma_max=2.0, warmup=0.5)
    model = wrapped(reattention=ReattentionLoss(**EDGE), gamma=schedule)
    batch = batch_of(supervised=True)
    assert [model(**batch).gamma.item() for _ in range(2)] == [0, 0]
    model.train()
    assert [model(**batch).gamma.item() for _ in range(6)] == [0, 1, 2, 1, 0, 0]
    assert int(model.passes) == 6


def test_a_text_longer_than_a_window_is_refused():
    model = wrapped(base("mistral", sliding_window=4))
    ids = torch.full((1, 5), 7)
    with pytest.raises(ValueError, match="texts of 5 tokens are longer than the window of 4 that layers of"):
        model(ids)
    changed = ids[:, :4].clone()
    changed[0, 0] = 9
    one, other = (model(some).logits[0, -1] for some in (ids[:, :4], changed))
    assert not torch.allclose(one, other)
    config = transformers.Gemma3TextConfig(num_hidden_layers=6, sliding_window=4)
    assert modelling.beyond_window(config, 9)
    config.layer_types = ["full_attention"] * 6
    assert not modelling.beyond_window(config, 9)


def test_saved_and_loaded_it_is_the_same(tmp_path):
    schedule = dict(total_steps=9, gamma_min=0.5, gamma_max=2.0)
    loss = ReattentionLoss(2.5, 4.0, [0, 2], norm_index="query_as_printed", step_rule="off", backend="mass")
    lora = LoraConfig(r=3, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    batch = batch_of(supervised=True)
    for decoder in (base(), get_peft_model(base(), lora)):
        model = wrapped(decoder, loss, gamma=schedule)
        model.train()(**batch)
        model.eval().save_pretrained(tmp_path)
        again = c2dlm.MaskedDiffusionModel.from_pretrained(tmp_path).eval()
        assert again.reattention.settings() == loss.settings() and int(again.passes) == 1
        assert torch.equal(again(**batch).loss, model(**batch).loss)
        trainable = [{n for n, p in m.named_parameters() if p.requires_grad} for m in (model, again)]
        assert trainable[0] == trainable[1]
        assert all("lora" in name for name in trainable[0]) == isinstance(decoder, PeftModel)


@pytest.mark.parametrize(
    "name, backend",
    [("llama", "eager"), *((name, backend) for name in BASES for backend in ("rows", "mass"))],
)
def test_gradient_checkpointing_changes_no_gradient(name, backend):
    batch = batch_of(supervised=True)
    model = wrapped(base(name), ReattentionLoss(**EDGE, backend=backend)).train()
    loss, plain = gradients(model, batch)
    model.gradient_checkpointing_enable({"use_reentrant": False})
    again, checkpointed = gradients(model, batch)
    assert again == pytest.approx(loss, rel=1e-6) and plain.keys() == checkpointed.keys()
    for key in plain:
        torch.testing.assert_close(checkpointed[key], plain[key], rtol=1e-4, atol=1e-5)


def test_lora_trains_its_own_weights_alone():
    decoder = get_peft_model(base(), LoraConfig(r=3, target_modules=["q_proj", "k_proj", "v_proj"]))
    model = wrapped(decoder, ReattentionLoss(**EDGE)).train()
    _, found = gradients(model, batch_of(supervised=True))
    assert found and all("lora" in name for name in found)
    model.enable_input_require_grads()
    model.gradient_checkpointing_enable({"use_reentrant": False})
    assert gradients(model, batch_of(supervised=True))[1].keys() == found.keys()


def test_a_prompt_mask_of_attention_hides_keys_and_leaves_them_out_of_the_loss():
    batch = batch_of(supervised=True)
    seen = torch.ones_like(batch["labels"])
    seen[0, -3:] = 0
    hidden = batch["supervision"]["ignore"].clone()
    hidden[0, -3:] = True
    for backend in ("eager", "rows", "mass"):
        model = wrapped(reattention=ReattentionLoss(3.0, 0.0, backend=backend))
        one = model(**batch, attention_mask=seen)
        two = model(**batch | {"supervision": batch["supervision"] | {"ignore": hidden}}, attention_mask=seen)
        assert torch.equal(one.loss, two.loss) and one.loss != model(**batch).loss


def apart(tokens: int, first: int) -> torch.Tensor:
    """The first tokens and the others do not see each other: True (T, T) within either group."""
    group = torch.arange(tokens) < first
    return group[:, None] == group


@every_base
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_an_enforced_graph_hides_what_it_does_not_allow(name, attention):
    model = wrapped(base(name, attn_implementation=attention))
    ids = torch.randint(3, MASK, (2, 7))
    changed = ids.clone()
    changed[:, 4:] = 3 + (changed[:, 4:] - 2) % (MASK - 3)
    seen = apart(7, 4)[None, None].expand(2, -1, -1, -1)
    one, two = (model(some, attention_mask=seen).logits for some in (ids, changed))
    assert torch.equal(one[:, :4], two[:, :4]) and not torch.equal(one[:, 4:], two[:, 4:])
    assert not torch.allclose(one[:, :4], model(ids).logits[:, :4])


def test_the_collator_gives_a_hard_mask_for_rows_that_have_one():
    rows = rows_of(5, 7)
    assert "attention_mask" not in MaskedDiffusionCollator(MASK, EOS)(rows)
    rows[0]["visible"] = apart(5, 2)
    batch = MaskedDiffusionCollator(MASK, EOS)(rows)
    seen = batch["attention_mask"]
    assert seen.shape == (2, 1, 7, 7) and seen[1].all() and torch.equal(seen[0, 0, :5, :5], apart(5, 2))
    assert seen[0, 0, 5:].all() and seen[0, 0, :, 5:].all()
    logits = wrapped()(batch["labels"], attention_mask=seen).logits
    assert not torch.allclose(logits[0], wrapped()(batch["labels"]).logits[0])
    rows[0]["visible"] = apart(4, 2)
    with pytest.raises(
        ValueError, match=r"5 input_ids and visible of shape \(4, 4\): give \(tokens, tokens\)"
    ):
        MaskedDiffusionCollator(MASK, EOS)(rows)


def test_a_share_of_rows_is_read_under_the_mask():
    rows = [row | {"visible": apart(5, 2), "draw": draw} for draw, row in enumerate(rows_of(*[5] * 400))]
    whole = MaskedDiffusionCollator(MASK, EOS)(rows)
    half, again = (MaskedDiffusionCollator(MASK, EOS, enforced=0.5)(rows) for _ in range(2))
    free = half["attention_mask"].flatten(1).all(1)
    assert 160 < free.sum() < 240 and torch.equal(half["attention_mask"], again["attention_mask"])
    assert torch.equal(half["attention_mask"][~free], whole["attention_mask"][~free])
    assert torch.equal(half["input_ids"], whole["input_ids"])  # the noise is the same
    assert MaskedDiffusionCollator(MASK, EOS, enforced=0)(rows)["attention_mask"].all()
    unnumbered = [{name: value for name, value in row.items() if name != "draw"} for row in rows]
    free = MaskedDiffusionCollator(MASK, EOS, enforced=0.25)(unnumbered)["attention_mask"].flatten(1).all(1)
    assert 260 < free.sum() < 340
    with pytest.raises(ValueError, match="enforced is 1.5: give the share of rows under the mask, 0 to 1"):
        MaskedDiffusionCollator(MASK, EOS, enforced=1.5)


def test_a_graph_guides_or_is_enforced():
    model, batch = wrapped(reattention=ReattentionLoss(**EDGE)), batch_of(supervised=True)
    tokens = batch["labels"].shape[1]
    with pytest.raises(ValueError, match="the graph guides attention or is enforced, so pass one of them"):
        model(**batch, attention_mask=torch.ones(len(batch["labels"]), 1, tokens, tokens, dtype=torch.bool))


def test_generate_points_to_sample():
    with pytest.raises(TypeError, match=r"does not generate from left to right: call causalnb.c2dlm.sample"):
        wrapped().generate(torch.tensor([[3]]))


def test_what_does_not_fit_is_refused():
    model, batch = wrapped(), batch_of(supervised=True)
    for missing in ("masked", "p", "prompt_mask"):
        with pytest.raises(ValueError, match="labels came without masked, p and prompt_mask: let MaskedDiff"):
            model(**{k: v for k, v in batch.items() if k != missing})
    with pytest.raises(ValueError, match="supervision or masked came without labels .*: pass both"):
        model(batch["input_ids"], supervision=batch["supervision"])
    with pytest.raises(ValueError, match=r"p \(2,\) do not fit input_ids \(3, 12\): pass what one call"):
        model(**batch | {"p": batch["p"][:2]})
    with pytest.raises(ValueError, match="mask_token_id is 23, outside the vocabulary of 23: add a"):
        c2dlm.MaskedDiffusionModel.from_base(base(), VOCABULARY)
    with pytest.raises(ValueError, match="weight is 't': choose '1/t' or 'none'"):
        wrapped(weight="t")
    with pytest.raises(
        ValueError, match="gamma is -1: choose a finite one, 0 or more, or the settings of a schedule"
    ):
        wrapped(gamma=-1)
    with pytest.raises(ValueError, match="gamma has 'steps': give gamma_max, gamma_min, total_steps, warmup"):
        wrapped(gamma=dict(steps=3))


def test_a_decoder_that_stays_causal_is_refused(monkeypatch):
    from transformers.models.llama import modeling_llama

    original = modeling_llama.create_causal_mask

    def always(config, **given):
        causal = copy.deepcopy(config)
        causal.is_causal = True
        return original(causal, **given | {"allow_is_causal_skip": False})

    monkeypatch.setattr(modeling_llama, "create_causal_mask", always)
    with pytest.raises(ValueError, match="layer 0 of LlamaForCausalLM stays causal with config.is_causal"):
        wrapped()


# the collator


def rows_of(*lengths, **more):
    return [dict(input_ids=[*range(3, 3 + n)], prompt_mask=[1, 1] + [0] * (n - 2), **more) for n in lengths]


def test_the_collator_pads_with_eos_that_is_a_target():
    given = [row | {"draw": i} for i, row in enumerate(rows_of(5, 8))]
    batch = MaskedDiffusionCollator(MASK, EOS)(given)
    assert batch["labels"][0].tolist() == [3, 4, 5, 6, 7, EOS, EOS, EOS]
    assert batch["prompt_mask"].sum(1).tolist() == [2, 2] and batch["p"].shape == (2,)
    assert torch.equal(batch["input_ids"], batch["labels"].masked_fill(batch["masked"], MASK))
    assert "supervision" not in batch
    padded = [
        MaskedDiffusionCollator(MASK, EOS, max_length=10)([row | {"draw": i} for row in rows_of(5)])
        for i in range(60)
    ]
    assert padded[0]["labels"].shape == (1, 10)
    assert 20 < sum(bool(part["masked"][0, 9]) for part in padded) < 40


def test_noise_is_a_function_of_seed_and_draw():
    collate, given = MaskedDiffusionCollator(MASK, EOS), NumberedRows(rows_of(12, 9), [0, 1, 0, 0])
    assert len(given) == 4 and given[2]["draw"] == 2 and len(given[1]["input_ids"]) == 9
    with pytest.raises(IndexError):
        given[4]
    one = collate([given[0], given[2]])
    torch.rand(7)
    two = collate([given[2], given[1]])
    assert torch.equal(one["input_ids"][1], two["input_ids"][0])
    assert not torch.equal(one["input_ids"][0], one["input_ids"][1])
    other = MaskedDiffusionCollator(MASK, EOS, seed=1)([given[0], given[2]])
    assert not torch.equal(other["p"], one["p"])
    unseeded = collate(rows_of(12)), collate(rows_of(12))
    assert unseeded[0]["p"] != unseeded[1]["p"]


def test_supervision_comes_as_objects_lists_or_not_at_all():
    item = masks(1, 7)[0]
    rows = rows_of(7, 9, 9)
    rows[0]["supervision"], rows[1]["supervision"] = item, masks(1, 9)[0].to_lists()
    batch = MaskedDiffusionCollator(MASK, EOS)(rows)["supervision"]
    assert batch["relation"].shape == (3, 5, 5) and batch["concept"].shape == (3, 9)
    assert torch.equal(batch["concept"][0, :7], item.concept) and (batch["concept"][0, 7:] == -1).all()
    assert batch["ignore"][0, 7:].all() and not batch["rows"][0, 7:].any()  # padded EOS is not even neutral
    assert not batch["rows"][2].any() and torch.equal(batch["relation"][0], item.relation)


def test_the_collator_refuses_what_does_not_fit():
    collate = MaskedDiffusionCollator(MASK, EOS, max_length=8)
    with pytest.raises(ValueError, match="a row has 9 tokens, more than max_length 8: raise it or cut rows"):
        collate(rows_of(9))
    with pytest.raises(ValueError, match="a row has 4 input_ids and 3 entries of prompt_mask: give one"):
        collate([dict(input_ids=[3] * 4, prompt_mask=[1, 0, 0])])
    with pytest.raises(ValueError, match="row 0 is prompt throughout: mark its response with 0"):
        MaskedDiffusionCollator(MASK, EOS)([dict(input_ids=[3] * 4, prompt_mask=[1] * 4)])


# the plain Trainer


def lesson():
    """Eight rows 'a b = (a b) a b', supervised: each copied token has its source as its cause."""
    rows, relation = [], [[0, 0, 0, 0], [0, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0]]
    graph = c2dlm.Supervision([0, 1, -1, 2, 3], relation, [-1] * 4, [False] * 5, [False] * 3 + [True] * 2)
    for a in range(8):
        b = (3 * a + 1) % 8
        ids = [4 + a, 4 + b, 3, 4 + a, 4 + b]
        rows.append(dict(input_ids=ids, prompt_mask=[1, 1, 1, 0, 0], supervision=graph))
    return rows


def test_the_plain_trainer_overfits_a_handful_of_rows(tmp_path):
    torch.manual_seed(0)
    config = transformers.LlamaConfig(**BASES["llama"][2] | dict(num_hidden_layers=2, hidden_size=32))
    model = c2dlm.MaskedDiffusionModel.from_base(
        transformers.LlamaForCausalLM(config),
        MASK,
        ReattentionLoss(3.0, 1.0),
        gamma=dict(total_steps=120, gamma_min=0.0, gamma_max=0.5),
    )
    rows = lesson()
    batch = MaskedDiffusionCollator(MASK, EOS)([row | {"draw": 0} for row in rows])
    satisfied = model.eval()(**batch).satisfied
    arguments = transformers.TrainingArguments(
        str(tmp_path),
        max_steps=120,
        per_device_train_batch_size=8,
        learning_rate=1e-2,
        report_to="none",
        save_strategy="no",
        logging_strategy="no",
        remove_unused_columns=False,
        use_cpu=True,
        disable_tqdm=True,
        dataloader_pin_memory=False,
        lr_scheduler_type="constant",
    )
    trainer = transformers.Trainer(
        model,
        arguments,
        train_dataset=NumberedRows(rows, [i % 8 for i in range(960)]),
        eval_dataset=rows,
        data_collator=MaskedDiffusionCollator(MASK, EOS),
    )
    before = trainer.evaluate()["eval_loss"]
    trainer.train()
    assert trainer.evaluate()["eval_loss"] < 0.2 < 1 < before and int(model.passes) == 120
    prompts = torch.tensor([row["input_ids"][:3] for row in rows])
    ids = c2dlm.sample(model.eval(), prompts, 2, 2, 2)
    assert ids.tolist() == [row["input_ids"] for row in rows]
    assert satisfied < 0.3 < 0.6 < model(**batch).satisfied


def test_the_collator_noises_in_order():
    rows = [
        dict(input_ids=[3, 4, 5, 6], prompt_mask=[1, 0, 0, 0], rank=[0, 3, 2, 1], draw=0),
        dict(input_ids=[3, 4, 5], prompt_mask=[1, 0, 0], rank=[0, 1, 2], draw=1),
    ]
    seen = set()
    for seed in range(40):
        batch = c2dlm.MaskedDiffusionCollator(MASK, 1, seed=seed, in_order=True)(rows)
        seen.add(tuple(map(tuple, batch["masked"].int().tolist())))
        assert torch.equal(batch["masked"].sum(1) / 3, batch["p"])
    first, second = ({row[i] for row in seen} for i in (0, 1))
    assert first == {(0, 1, 1, 1), (0, 1, 1, 0), (0, 1, 0, 0)}
    assert second == {(0, 1, 1, 1), (0, 0, 1, 1), (0, 0, 0, 1)}  # padding comes last
    with pytest.raises(ValueError, match="row 1 has no rank for each of its 3 tokens: give ranks"):
        c2dlm.MaskedDiffusionCollator(MASK, 1, in_order=True)([rows[0], {**rows[1], "rank": [0]}])
    with pytest.raises(ValueError, match="row 1 has no rank for each of its 3 tokens: give ranks"):
        c2dlm.MaskedDiffusionCollator(MASK, 1, in_order=True)([rows[0], {**rows[1], "rank": None}])


# loading, resizing and what is refused


def reloaded(model, folder, **settings):
    model.save_pretrained(folder)
    return c2dlm.MaskedDiffusionModel.from_pretrained(folder, **settings)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("size", [VOCABULARY + 6, VOCABULARY])
def test_a_resized_model_is_saved_and_loaded(tmp_path, tied, size):
    model, ids = wrapped(base(tie_word_embeddings=tied)), torch.randint(3, MASK, (2, 6))
    table = model.resize_token_embeddings(size)
    assert table is model.get_input_embeddings() and len(table.weight) == size
    again = reloaded(model, tmp_path).eval()
    assert again(ids).logits.shape == (2, 6, size) and torch.equal(again(ids).logits, model(ids).logits)
    for one in (model, again):
        assert (one.get_output_embeddings().weight is one.get_input_embeddings().weight) == tied
    with pytest.raises(ValueError, match="22 tokens leave out the mask, token 22: choose more"):
        model.resize_token_embeddings(MASK)


def test_a_base_that_was_resized_itself_is_saved_and_loaded(tmp_path):
    model = wrapped()
    model.base.resize_token_embeddings(30)
    assert len(reloaded(model, tmp_path).get_input_embeddings().weight) == 30


def test_the_output_layer_can_be_set():
    model, head = wrapped(), torch.nn.Linear(24, VOCABULARY, bias=False)
    model.set_output_embeddings(head)
    assert model.get_output_embeddings() is model.base.lm_head is head


LORA = dict(r=3, target_modules=["q_proj", "v_proj"], init_lora_weights=False)


@pytest.mark.parametrize(
    "name, more",
    [("llama", {}), ("llama", dict(modules_to_save=["lm_head"])), ("qwen2", dict(bias="all"))],
    ids=str,
)
@pytest.mark.parametrize("bare", [True, False])
def test_adapters_come_back_with_what_was_trained(tmp_path, name, more, bare):
    decoder, ids = get_peft_model(base(name), LoraConfig(**LORA | more)), torch.randint(3, MASK, (2, 6))
    model = wrapped(decoder.get_base_model() if bare else decoder)
    again = reloaded(model, tmp_path).eval()
    assert torch.equal(again(ids).logits, model(ids).logits)
    trained = [{n for n, p in m.named_parameters() if p.requires_grad} for m in (model, again)]
    assert trained[0] == trained[1] and any("lora_A" in n for n in trained[0])


def test_a_decoder_under_flex_attention_is_refused():
    said = r"runs under flex attention, .*: call decoder.set_attn_implementation\('sdpa'\)"
    with pytest.raises(ValueError, match=said):
        wrapped(base(attn_implementation="flex_attention"))


def test_the_auto_classes_know_it(tmp_path):
    wrapped().save_pretrained(tmp_path)
    assert isinstance(transformers.AutoConfig.from_pretrained(tmp_path), c2dlm.MaskedDiffusionConfig)
    for auto in (transformers.AutoModel, transformers.AutoModelForMaskedLM):
        assert isinstance(auto.from_pretrained(tmp_path), c2dlm.MaskedDiffusionModel)


@pytest.mark.parametrize(
    "settings, said",
    [
        (dict(gama=3), "there is no setting 'gama': give weight, gamma"),
        (dict(base_adapter={}), "there is no setting 'base_adapter'"),
        (dict(gamma={"gamma_max": 1}), "gamma lacks 'gamma_min': give gamma_max, gamma_min and total_steps"),
        (dict(gamma="1"), "gamma is '1': choose a finite one, 0 or more"),
        (dict(gamma=None), "gamma is None: choose a finite one, 0 or more"),
        (
            dict(gamma={"gamma_max": 1, "gamma_min": 0, "total_steps": "10"}),
            "the schedule of gamma is step 0 of '10', from 0 to 1, warmup 0.1: give numbers",
        ),
    ],
)
def test_settings_that_do_not_fit(settings, said):
    with pytest.raises(ValueError, match=said):
        wrapped(**settings)


def test_settings_of_transformers_pass_and_a_mask_token_of_numpy():
    model = c2dlm.MaskedDiffusionModel.from_base(base(), np.int64(MASK), return_dict=True)
    assert type(model.config.mask_token_id) is int and model.config.to_json_string()


@pytest.mark.parametrize(
    "change, said",
    [
        (dict(gamma=-3), "gamma is -3: choose a finite one, 0 or more"),
        (dict(weight="t"), "weight is 't': choose '1/t' or 'none'"),
    ],
)
def test_settings_changed_while_loading_are_checked(tmp_path, change, said):
    with pytest.raises(ValueError, match=said):
        reloaded(wrapped(), tmp_path, **change)


def test_loading_tells_what_it_loaded(tmp_path):
    model, info = reloaded(wrapped(), tmp_path, output_loading_info=True)
    assert isinstance(model, c2dlm.MaskedDiffusionModel) and not info["missing_keys"]


def test_unknown_arguments_of_forward_are_refused():
    model, batch = wrapped(), batch_of(supervised=True)
    with pytest.raises(ValueError, match="MaskedDiffusionModel has no argument 'supervison': pass what"):
        model(**{k: v for k, v in batch.items() if k != "supervision"}, supervison=batch["supervision"])
    positions = torch.arange(12)[None]
    assert torch.equal(model(**batch, position_ids=positions, num_items_in_batch=3).loss, model(**batch).loss)
    for name in ("visible", "draw", "rank"):
        with pytest.raises(ValueError, match="visible, draw and rank are for the collator"):
            model(**batch, **{name: batch["input_ids"]})


def test_outputs_as_tuples_and_with_states():
    model, batch = wrapped(reattention=ReattentionLoss(**EDGE)), batch_of(supervised=True)
    (logits,), whole = model(batch["input_ids"], return_dict=False), model(batch["input_ids"])
    assert torch.equal(logits, whole.logits)
    assert torch.equal(model(**batch, return_dict=False)[0], model(**batch).loss)
    for given in ({"input_ids": batch["input_ids"]}, batch, batch | {"supervision": None}):
        states = model(**given, output_hidden_states=True).hidden_states
        assert [state.shape for state in states] == [(3, 12, 24)] * 4 and model(**given).hidden_states is None
    model.set_attn_implementation("eager")
    assert len(model(batch["input_ids"], output_attentions=True).attentions) == 3


def test_modes_are_those_of_the_decoder():
    decoder = base()
    assert not c2dlm.MaskedDiffusionModel.from_base(decoder, MASK).training
    decoder.train().model.layers[0].eval()
    model = c2dlm.MaskedDiffusionModel.from_base(decoder, MASK)
    assert model.training and decoder.model.layers[1].training and not decoder.model.layers[0].training


def test_passes_without_gradients_are_no_training():
    model, batch = wrapped().train(), batch_of()
    with torch.no_grad():
        model(**batch)
    assert int(model.passes) == 0
    model(**batch)
    assert int(model.passes) == 1


def test_flex_attention_is_not_supported():
    with pytest.raises(ValueError, match="does not support an attention implementation through torch's flex"):
        wrapped().set_attn_implementation("flex_attention")


@pytest.mark.parametrize(
    "rows, said",
    [
        (
            rows_of(7, supervision=masks(1, 9)[0]),
            "a row has 7 input_ids and supervision of 9 tokens: take it",
        ),
        (
            rows_of(7, supervision=masks(1, 3)[0].to_lists()),
            "a row has 7 input_ids and supervision of 3 tokens",
        ),
        (
            rows_of(5, draw=1) + rows_of(5),
            "row 1 has no draw and others have: number all rows, as NumberedRows",
        ),
        (rows_of(4, rank=[0, 0.9, 0.5, 0.1]), "row 0 has ranks that are no whole numbers: number its tokens"),
    ],
)
def test_rows_that_do_not_fit(rows, said):
    with pytest.raises(ValueError, match=said):
        MaskedDiffusionCollator(MASK, EOS, in_order="rank" in rows[0])(rows)


@pytest.mark.parametrize("backend", ["eager", "rows", "mass"])
def test_supervision_made_before_or_after_the_end_token_is_the_same(backend):
    text, graph = "q: two plus three; a: five", c2dlm.ConceptGraph({"five": ["two", "three"]})
    spans = [(0, 2), (3, 6), (7, 11), (12, 17), (17, 18), (19, 21), (22, 26)]
    made = {
        "before": c2dlm.supervision(graph, text, spans, response_start=19),
        "after, without a place": c2dlm.supervision(graph, text, [*spans, (0, 0)], response_start=19),
        "after, as text": c2dlm.supervision(graph, text + " <eos>", [*spans, (27, 32)], response_start=19),
    }
    model = wrapped(reattention=ReattentionLoss(**EDGE, backend=backend))
    row = {"input_ids": [3, 4, 5, 6, 7, 8, 9, EOS], "prompt_mask": [1] * 5 + [0] * 3, "draw": 0}
    longer = {"input_ids": [*row["input_ids"], 4, EOS], "prompt_mask": [1] * 5 + [0] * 5, "draw": 1}
    collate = MaskedDiffusionCollator(MASK, EOS)
    losses = [model(**collate([row | {"supervision": one}, longer])) for one in made.values()]
    assert losses[0].reattention_loss.abs() > 1e-3
    for other in losses[1:]:
        torch.testing.assert_close(other.loss, losses[0].loss)
    with pytest.raises(ValueError, match="a row has 10 input_ids and supervision of 7 tokens"):
        collate([longer | {"supervision": made["before"]}])  # what is missing is more than an end


@pytest.mark.parametrize("rows", [1, 3])
def test_a_model_that_does_not_see_the_hook_has_the_same_loss(rows, monkeypatch):
    """As after torch.compile, whose graph of another pass has none."""
    model, batch = wrapped().train(), batch_of()
    batch = {name: value[:rows] for name, value in batch.items()}
    seen = model(**batch).loss
    monkeypatch.setattr(modelling, "logits_at", lambda *_: nullcontext())
    assert torch.equal(model(**batch).loss, seen)
