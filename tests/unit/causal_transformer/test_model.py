"""Both models: Equation 6 from its parts, padding, caches and beams, saving, checkpoints, and adapters."""

import copy
import math
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from peft import LoraConfig, get_peft_model
from transformers import (
    AutoConfig,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    DataCollatorForSeq2Seq,
    DynamicCache,
    Trainer,
    TrainingArguments,
)

from causalnb.causal_transformer import (
    CausalTransformerConfig,
    CausalTransformerForSequenceClassification,
    MarkovBlanketLoss,
    describe,
)
from causalnb.causal_transformer.contrasts import (
    EntropyPenaltyConfig,
    EntropyPenaltyForSequenceClassification,
)
from causalnb.causal_transformer.layers import sinusoids
from tests.unit.causal_transformer.small import (
    EOS,
    PAD,
    START,
    VOCABULARY,
    batch_of,
    classifier,
    labels_of,
    translator,
)

CLASSES = torch.tensor([0, 1, 1, 0])
ARMS = {
    "vanilla": dict(gcn="none", blanket="none"),
    "gcn": dict(blanket="none"),
    "loss": dict(gcn="none"),
    "both": {},
    "two hops": dict(gcn="two_hop"),
    "paper's loss": dict(blanket="paper"),
    "auglag": dict(blanket="auglag"),
    "band": dict(pattern="band", pattern_width=2),
    "random": dict(pattern="random", pattern_share=0.4),
    "relative": dict(relative=2),
    "pre-norm": dict(pre_norm=True, activation="relu"),
    "sinkhorn": dict(blanket_settings=dict(normalise="sinkhorn"), blanket_in=["encoder"]),
}
every_arm = pytest.mark.parametrize("arm", ARMS)


def gradients(model, inputs):
    model.zero_grad()
    loss = model(**inputs).loss
    loss.backward()
    return loss.detach(), {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


# Equation 6


def penalty_of(model, maps, valid, causal):
    """The mean over layers of the loss of the maps that a model returned."""
    config = model.config
    if config.blanket == "none" or ("decoder" if causal else "encoder") not in config.blanket_in:
        return []
    criterion = MarkovBlanketLoss(
        config.blanket, self_loop=False if causal else config.self_loop, **config.blanket_settings or {}
    ).eval()
    return [criterion(one, valid, causal) for one in maps]


def equation_6(out, task, found, weight=0.1):
    torch.testing.assert_close(out.task_loss, task.detach())
    if not found:
        assert out.causal_loss is None and torch.equal(out.loss, task)
        return
    causal = torch.stack(found).mean()
    torch.testing.assert_close(out.causal_loss, causal.detach(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(out.loss, task + weight * causal, rtol=1e-5, atol=1e-5)
    assert 0 < out.violated <= 1


@every_arm
def test_equation_6_of_the_classifier(arm):
    model, batch = classifier(**ARMS[arm]).eval(), batch_of()
    out = model(**batch, labels=CLASSES)
    shown = model(**batch, output_attentions=True)
    torch.testing.assert_close(out.logits, shown.logits, rtol=1e-4, atol=1e-5)
    assert out.logits.shape == (4, 2) and out.encoder_attentions is None and shown.loss is None
    assert [tuple(one.shape) for one in shown.encoder_attentions] == [(4, 2, 7, 7)] * 2
    valid = batch["attention_mask"].bool()
    equation_6(
        out, F.cross_entropy(out.logits, CLASSES), penalty_of(model, shown.encoder_attentions, valid, False)
    )


@every_arm
def test_equation_6_of_the_translator(arm):
    model, batch, labels = translator(**ARMS[arm]).eval(), batch_of(), labels_of()
    out = model(**batch, labels=labels)
    shown = model(
        **batch,
        decoder_input_ids=model.prepare_decoder_input_ids_from_labels(labels),
        decoder_attention_mask=labels != -100,
        output_attentions=True,
    )
    torch.testing.assert_close(out.logits, shown.logits, rtol=1e-4, atol=1e-5)
    assert [tuple(one.shape) for one in shown.cross_attentions] == [(4, 2, 6, 7)] * 2
    found = penalty_of(model, shown.encoder_attentions, batch["attention_mask"].bool(), False)
    found += penalty_of(model, shown.decoder_attentions, labels != -100, True)
    equation_6(out, F.cross_entropy(out.logits.flatten(0, 1), labels.flatten()), found)


def slopes(model, loss):
    return torch.autograd.grad(loss, [*model.parameters()], retain_graph=True, materialize_grads=True)


@every_arm
@pytest.mark.parametrize("make", [classifier, translator])
def test_equation_6_in_float64_with_gradients(double, make, arm):
    """The model's loss, its attention fused, against the loss of the maps it returns."""
    model, batch = make(**ARMS[arm], causal_weight=0.7).eval(), batch_of()
    labels = CLASSES if make is classifier else labels_of()
    out = model(**batch, labels=labels)
    shown = model(**batch, labels=labels, output_attentions=True)
    found = penalty_of(model, shown.encoder_attentions, batch["attention_mask"].bool(), False)
    if make is translator:
        found += penalty_of(model, shown.decoder_attentions, labels != -100, True)
    literal = F.cross_entropy(shown.logits.flatten(0, -2), labels.flatten())
    literal = literal + (0.7 * torch.stack(found).mean() if found else 0)
    assert out.loss.dtype == torch.float64
    torch.testing.assert_close(out.loss, literal, rtol=0, atol=1e-12)
    torch.testing.assert_close(slopes(model, out.loss), slopes(model, literal), rtol=0, atol=1e-11)


def test_label_smoothing_is_in_the_task_loss_alone():
    model, batch = classifier(label_smoothing=0.2).eval(), batch_of()
    out = model(**batch, labels=CLASSES)
    torch.testing.assert_close(out.task_loss, F.cross_entropy(out.logits, CLASSES, label_smoothing=0.2))


def test_the_loss_changes_what_queries_learn():
    model, batch = classifier().eval(), batch_of() | dict(labels=CLASSES)
    model.config.causal_weight = 0.0
    plain = gradients(model, batch)[1]
    model.config.causal_weight = 1.0
    held = gradients(model, batch)[1]
    changed = {name for name in plain if not torch.allclose(plain[name], held[name])}
    assert any("q_proj.weight" in name for name in changed) and "classifier.weight" not in changed


def test_the_ramp_counts_training_passes():
    model, batch = classifier(causal_ramp=[1, 3], causal_weight=0.4), batch_of() | dict(labels=CLASSES)
    weights, measured = [], []
    for _ in range(5):
        weights.append(model.causal_weight())
        measured.append(model.train()(**batch).causal_loss is not None)
        model.eval()(**batch)
    assert weights == pytest.approx([0, 0, 0.2, 0.4, 0.4]) and measured == [False, False, True, True, True]


def test_multipliers_rise_in_training_and_are_saved(tmp_path):
    model, batch = classifier(blanket="auglag").train(), batch_of() | dict(labels=CLASSES)
    for _ in range(3):
        model(**batch)
    kept = [loss.multipliers for loss in model.losses["encoder"]]
    assert all((one[0] > 0).all() and one.shape == (2, 2) for one in kept)
    assert not any("multipliers" in name for name, _ in model.named_parameters())
    model.save_pretrained(tmp_path)
    again = CausalTransformerForSequenceClassification.from_pretrained(tmp_path)
    assert all(map(torch.equal, kept, [loss.multipliers for loss in again.losses["encoder"]]))
    assert again.passes == 3


def test_multipliers_that_a_checkpoint_lacks_start_anew(tmp_path):
    classifier(blanket="none").save_pretrained(tmp_path)
    config = CausalTransformerConfig.from_pretrained(
        tmp_path, blanket="auglag", blanket_settings=dict(gammas=[0.5, 0.25])
    )
    model = CausalTransformerForSequenceClassification.from_pretrained(tmp_path, config=config)
    assert model.losses["encoder"][1].multipliers.tolist() == [[0.5, 0.5], [0.25, 0.25]]


# Padding, positions and masks


@every_arm
def test_padding_changes_no_logits(arm):
    model = classifier(**ARMS[arm]).eval()
    ids = batch_of(rows=3)["input_ids"][:1, :5]
    alone = model(ids, labels=CLASSES[:1])
    for before in (0, 3):
        wide = torch.full((2, 8), PAD)
        wide[0, before : before + 5], mask = ids[0], torch.zeros(2, 8, dtype=torch.long)
        mask[0, before : before + 5], mask[1] = 1, 1
        together = model(wide, mask)
        torch.testing.assert_close(together.logits[0], alone.logits[0], rtol=1e-4, atol=1e-5)


def test_a_pattern_hides_what_lies_outside():
    batch = batch_of()
    near, far = (classifier(pattern=kind, encoder_layers=1).eval() for kind in ("band", "full"))
    changed = batch["input_ids"].clone()
    changed[0, 3:] = 5
    for model, same in ((near, True), (far, False)):
        one, other = (model(ids[:1]).logits for ids in (batch["input_ids"], changed))
        assert torch.allclose(one, other, atol=1e-6) == same


def test_token_types_are_told_apart():
    model, batch = classifier().eval(), batch_of()
    types = (torch.arange(7) > 3).long().expand(4, -1)
    assert not torch.allclose(model(**batch, token_type_ids=types).logits, model(**batch).logits)


def test_sinusoids_by_hand():
    found = sinusoids(torch.tensor([[0, 3]]), 5)
    rates = [1, 10_000 ** (-1 / 3), 10_000 ** (-2 / 3)]
    expected = [math.sin(3 * rate) for rate in rates] + [math.cos(3 * rate) for rate in rates[:2]]
    assert found[0, 0].tolist() == [0, 0, 0, 1, 1] and found[0, 1].tolist() == pytest.approx(expected)


# Translation


@every_arm
def test_the_decoder_sees_no_later_word(arm):
    model, batch, ids = translator(**ARMS[arm]).eval(), batch_of(), labels_of().clamp(min=3)
    changed = ids.clone()
    changed[:, 4:] = 7
    one, other = (model(**batch, decoder_input_ids=target).logits for target in (ids, changed))
    torch.testing.assert_close(one[:, :4], other[:, :4], rtol=1e-4, atol=1e-5)
    assert not torch.allclose(one[:, 4:], other[:, 4:])


@every_arm
@pytest.mark.parametrize("beams", [1, 3])
def test_cache_and_beams_write_what_whole_passes_write(arm, beams):
    model, batch = translator(**ARMS[arm]).eval(), batch_of()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.4 * torch.randn_like(parameter))  # answers that differ between inputs
    settings = dict(
        max_new_tokens=6, min_new_tokens=5, num_beams=beams, do_sample=False, num_return_sequences=beams
    )
    fast = model.generate(**batch, **settings)
    slow = model.generate(**batch, **settings, use_cache=False)
    assert torch.equal(fast, slow) and len(fast) == 4 * beams and (fast[:, 0] == START).all()
    assert len({tuple(row) for row in fast.tolist()}) > 1


@pytest.mark.parametrize("gcn", ["none", "paper", "two_hop"])
def test_the_cache_is_exact_also_for_several_words_at_once(double, gcn):
    model, batch = translator(gcn=gcn).double().eval(), batch_of()
    ids = labels_of().clamp(min=3)
    whole = model(**batch, decoder_input_ids=ids, output_attentions=True)
    first = model(**batch, decoder_input_ids=ids[:, :2], use_cache=True)
    second = model(
        **batch, decoder_input_ids=ids[:, 2:5], past_key_values=first.past_key_values, output_attentions=True
    )
    third = model(**batch, decoder_input_ids=ids[:, 5:], past_key_values=first.past_key_values)
    found = torch.cat([first.logits, second.logits, third.logits], 1)
    torch.testing.assert_close(found, whole.logits, rtol=0, atol=1e-12)
    torch.testing.assert_close(
        second.decoder_attentions[1], whole.decoder_attentions[1][:, :, 2:5, :5], rtol=0, atol=1e-12
    )


def test_encoder_outputs_can_be_handed_in():
    model, batch, labels = translator(blanket="none").eval(), batch_of(), labels_of()
    states = model.get_encoder()(**batch)
    given = model(attention_mask=batch["attention_mask"], encoder_outputs=states, labels=labels)
    assert torch.equal(given.loss, model(**batch, labels=labels).loss)


def test_labels_are_shifted():
    model = translator()
    labels = torch.tensor([[5, 6, EOS], [7, EOS, -100]])
    shifted = model.prepare_decoder_input_ids_from_labels(labels)
    assert shifted.tolist() == [[START, 5, 6], [START, 7, EOS]]
    longer = torch.tensor([[7, EOS, -100, -100]])
    assert model.prepare_decoder_input_ids_from_labels(longer).tolist() == [[START, 7, EOS, PAD]]


def test_labels_whose_padding_is_not_at_the_end_make_no_inputs():
    model, batch = translator().eval(), batch_of()
    labels = labels_of().clamp(min=3)
    labels[2, 1] = -100
    with pytest.raises(ValueError, match="labels of item 2 are -100 before its last token: pad at the e"):
        model(**batch, labels=labels)
    labels[1, 0] = -100
    with pytest.raises(ValueError, match="labels of item 1 are -100 before its last token"):
        model(**batch, labels=labels)


def hidden_labels():
    """Decoder inputs (4, 6), and labels of which some are -100: at the start, in the middle, at the end."""
    ids = labels_of().clamp(min=3)
    labels = ids.roll(-1, 1)
    labels[0, :2] = labels[1, 2:4] = labels[2, 4:] = -100
    return ids, labels


@every_arm
@pytest.mark.parametrize("mask", [False, True])
def test_labels_beside_decoder_inputs_change_no_logits(double, arm, mask):
    model, batch, (ids, labels) = translator(**ARMS[arm]).eval(), batch_of(), hidden_labels()
    given = batch | dict(decoder_input_ids=ids)
    if mask:
        given["decoder_attention_mask"] = torch.ones_like(ids).index_fill_(1, torch.tensor([5]), 0)
    for maps in (False, True):
        alone, told = (model(**given, labels=one, output_attentions=maps) for one in (None, labels))
        torch.testing.assert_close(told.logits, alone.logits, rtol=0, atol=1e-12)
        if maps:
            torch.testing.assert_close(told.decoder_attentions, alone.decoder_attentions, rtol=0, atol=1e-12)
    task = F.cross_entropy(alone.logits.flatten(0, 1), labels.flatten())
    torch.testing.assert_close(told.task_loss, task.detach(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("maps", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_only_tokens_with_a_label_are_measured(double, maps, masked):
    """Their rows are whole, and what others read is no one's reader; nor are those that a mask hides."""
    model, batch, (ids, labels) = translator(blanket_in=["decoder"]).eval(), batch_of(), hidden_labels()
    seen = torch.ones_like(ids).index_fill_(1, torch.tensor([5]), 1 - masked)
    given = batch | dict(decoder_input_ids=ids, decoder_attention_mask=seen)
    out = model(**given, labels=labels, output_attentions=maps)
    shown = model(**given, output_attentions=True)
    low, high, found, broken = 2 * math.expm1(1 / 2), math.expm1(1), [], []
    for attention in shown.decoder_attentions:
        for b in range(4):
            real = [i for i in range(6) if labels[b, i] != -100 and seen[b, i]]
            grown = attention[b].expm1()  # (H, T, T)
            for i in real:
                row, column = grown[:, i].sum(-1), grown[:, real, i].sum(-1)
                column = column - (high if i == 0 else 0)
                found.append((low - row).clamp(min=0) + (column - high).clamp(min=0))
                broken.append(((low - row > 1e-5) | (column - high > 1e-5)).double())
    torch.testing.assert_close(out.causal_loss, torch.stack(found).mean().detach(), rtol=0, atol=1e-12)
    torch.testing.assert_close(out.violated, torch.stack(broken).mean(), rtol=0, atol=1e-12)


def test_labels_beside_a_cache_change_no_logits():
    model, batch, (ids, labels) = translator(blanket="none").eval(), batch_of(), hidden_labels()
    mask, found = torch.ones_like(ids), []
    for given in (None, labels[:, 4:]):
        past = model(**batch, decoder_input_ids=ids[:, :4], use_cache=True).past_key_values
        found.append(
            model(
                **batch,
                decoder_input_ids=ids[:, 4:],
                decoder_attention_mask=mask,
                labels=given,
                past_key_values=past,
            ).logits
        )
    assert torch.equal(*found)
    held = translator().eval()
    past = held(**batch, decoder_input_ids=ids[:, :4], use_cache=True).past_key_values
    with pytest.raises(ValueError, match="a cached pass sees a part of the map"):
        held(
            **batch,
            decoder_input_ids=ids[:, 4:],
            decoder_attention_mask=mask,
            labels=labels[:, 4:],
            past_key_values=past,
        )


@every_arm
def test_padding_at_the_end_is_hidden_as_by_a_mask(double, arm):
    """Derived inputs see what the labels' mask shows; handed in, as by a collator, they lose as much."""
    model, batch, labels = translator(**ARMS[arm]).eval(), batch_of(), labels_of()
    ids = model.prepare_decoder_input_ids_from_labels(labels)
    derived = model(**batch, labels=labels)
    masked = model(**batch, labels=labels, decoder_input_ids=ids, decoder_attention_mask=labels != -100)
    handed = model(**batch, labels=labels, decoder_input_ids=ids)
    for name in ("loss", "task_loss", "logits", *(["causal_loss", "violated"] if model.losses else [])):
        assert torch.equal(derived[name], masked[name]), name
        if name != "logits":
            torch.testing.assert_close(handed[name], derived[name], rtol=0, atol=1e-12)


def test_the_seq2seq_collator_of_transformers_serves():
    class Tokenizer:
        padding_side, pad_token_id = "right", PAD

        def pad(self, rows, **_):
            width = max(len(row["input_ids"]) for row in rows)
            return {
                key: torch.tensor([row[key] + [0] * (width - len(row[key])) for row in rows])
                for key in ("input_ids", "attention_mask")
            }

    model = translator().eval()
    rows = [
        dict(input_ids=[5, 6, 7], attention_mask=[1] * 3, labels=[8, 9, EOS]),
        dict(input_ids=[5, 6], attention_mask=[1] * 2, labels=[8, EOS]),
    ]
    batch = dict(DataCollatorForSeq2Seq(Tokenizer(), model)(rows))
    assert "decoder_input_ids" in batch and torch.isfinite(model(**batch).loss)


# The ways of Hugging Face


@pytest.mark.parametrize("make", [classifier, translator])
@pytest.mark.parametrize("arm", ["vanilla", "both", "two hops", "relative"])
def test_saved_and_loaded_models_are_equal(make, arm, tmp_path):
    model = make(**ARMS[arm]).eval()
    model.save_pretrained(tmp_path)
    again, info = type(model).from_pretrained(tmp_path, output_loading_info=True)
    assert not any(info.values())
    labels = CLASSES if make is classifier else labels_of()
    one, other = (m.eval()(**batch_of(), labels=labels) for m in (model, again))
    assert torch.equal(one.loss, other.loss) and torch.equal(one.logits, other.logits)


def test_embeddings_are_shared_and_can_be_replaced():
    model = translator()
    weight = model.get_input_embeddings().weight
    assert model.lm_head.weight is weight and model.decoder.embed_tokens.weight is weight
    model.resize_token_embeddings(30)
    assert model.lm_head.weight is model.get_input_embeddings().weight
    assert model.decoder.embed_tokens.weight is model.lm_head.weight
    assert model(**batch_of(), labels=labels_of()).logits.shape[-1] == 30
    one = classifier()
    one.resize_token_embeddings(30)
    assert one.encoder.embed_tokens.num_embeddings == 30


def test_untied_embeddings_are_resized_each_by_itself(tmp_path):
    model = translator(tie_word_embeddings=False).eval()
    given = batch_of() | dict(decoder_input_ids=labels_of().clamp(min=0))
    before = model(**given).logits
    model.resize_token_embeddings(30)
    assert not torch.equal(model.decoder.embed_tokens.weight, model.encoder.embed_tokens.weight)
    assert model.decoder.embed_tokens.num_embeddings == 30
    torch.testing.assert_close(model(**given).logits[..., :VOCABULARY], before)
    model.set_input_embeddings(torch.nn.Embedding(30, 12))
    assert model.decoder.embed_tokens is not model.get_input_embeddings()
    model.save_pretrained(tmp_path)
    again = type(model).from_pretrained(tmp_path).eval()
    assert torch.equal(again(**given).logits, model(**given).logits)


def test_models_are_found_by_their_type(tmp_path):
    entropy = partial(
        EntropyPenaltyForSequenceClassification,
        EntropyPenaltyConfig(vocab_size=20, d_model=8, num_heads=2, ffn_dim=12, encoder_layers=1),
    )
    kinds = {
        classifier: AutoModelForSequenceClassification,
        entropy: AutoModelForSequenceClassification,
        translator: AutoModelForSeq2SeqLM,
    }
    for make, auto in kinds.items():
        model = make()
        model.save_pretrained(tmp_path)
        assert type(AutoConfig.from_pretrained(tmp_path)) is model.config_class
        again = auto.from_pretrained(tmp_path, attn_implementation="sdpa")
        assert type(again) is type(model) and again.config._attn_implementation == "sdpa"


@pytest.mark.parametrize("make, labels", [(classifier, CLASSES), (translator, labels_of())])
def test_tuples_are_returned_where_asked(make, labels):
    model, given = make().eval(), batch_of() | dict(labels=labels)
    out, told = model(**given), model(**given, return_dict=False)
    assert isinstance(told, tuple) and torch.equal(told[0], out.loss) and torch.equal(told[1], out.logits)
    model.config.return_dict = False
    assert isinstance(model(**given), tuple) and torch.equal(model(**given)[0], out.loss)
    assert model(**given, return_dict=True).logits.equal(out.logits)


def test_encoder_outputs_may_be_a_tuple():
    model, batch, labels = translator(blanket_in=["decoder"]).eval(), batch_of(), labels_of()
    states = model.get_encoder()(**batch, return_dict=False)
    given = model(attention_mask=batch["attention_mask"], encoder_outputs=states, labels=labels)
    assert isinstance(states, tuple) and torch.equal(given.loss, model(**batch, labels=labels).loss)


@pytest.mark.parametrize("make, labels", [(classifier, CLASSES), (translator, labels_of())])
@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpointing_changes_neither_loss_nor_gradients(make, labels, reentrant):
    found = []
    for checkpointed in (False, True):
        model = make(blanket="auglag").train()
        if checkpointed:
            model.gradient_checkpointing_enable(dict(use_reentrant=reentrant))
        found.append(gradients(model, batch_of() | dict(labels=labels)))
        losses = [loss.multipliers for part in model.losses.values() for loss in part]
    torch.testing.assert_close(found[0], found[1], rtol=1e-5, atol=1e-6)
    assert all((one[0] > 0).all() for one in losses)


@pytest.mark.parametrize("make, labels", [(classifier, CLASSES), (translator, labels_of())])
def test_peft_adapts_the_projections(make, labels, tmp_path):
    model = make().eval()
    settings = LoraConfig(r=2, target_modules=["q_proj", "v_proj"], modules_to_save=[])
    before = model(**batch_of(), labels=labels).loss
    adapted = get_peft_model(model, settings)
    assert torch.equal(adapted(**batch_of(), labels=labels).loss, before)
    _, grads = gradients(adapted, batch_of() | dict(labels=labels))
    assert grads and all("lora_" in name for name in grads)
    assert any("self_attn.q_proj" in name for name in grads)
    adapted.save_pretrained(tmp_path)
    assert (tmp_path / "adapter_model.safetensors").exists()


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_multipliers_stay_single_in_half_precision(kind, tmp_path):
    model = classifier(blanket="auglag").train()
    criterion = model.losses["encoder"][0]
    criterion.multipliers.fill_(0.501)
    model.save_pretrained(tmp_path)
    loaded = type(model).from_pretrained(tmp_path, dtype=kind)
    assert loaded.dtype == kind
    for one in (model.to(kind), copy.deepcopy(model), loaded):
        held = one.train().losses["encoder"][0].multipliers
        assert held.dtype == torch.float32 and torch.equal(held, torch.full_like(held, 0.501))
    for _ in range(10):
        criterion.ascend(torch.full_like(criterion.multipliers, 1e-4))
    torch.testing.assert_close(criterion.multipliers, torch.full_like(criterion.multipliers, 0.502))
    assert model(**batch_of(), labels=CLASSES).loss.isfinite()
    torch.set_default_dtype(kind)
    try:
        assert classifier(blanket="auglag").losses["encoder"][0].multipliers.dtype == torch.float32
    finally:
        torch.set_default_dtype(torch.float32)
    assert model.double().losses["encoder"][0].multipliers.dtype == torch.float64


def test_bfloat16_and_autocast():
    model, batch = classifier().train(), batch_of() | dict(labels=CLASSES)
    exact = model(**batch)
    with torch.autocast("cpu", torch.bfloat16):
        loose = model(**batch)
    loose.loss.backward()
    torch.testing.assert_close(loose.causal_loss, exact.causal_loss, rtol=0.05, atol=0.01)
    half = model.bfloat16()(**batch)
    half.loss.backward()
    torch.testing.assert_close(half.causal_loss, exact.causal_loss, rtol=0.05, atol=0.01)


@pytest.mark.parametrize("make, width", [(classifier, 2), (translator, 6)])
def test_the_plain_trainer_serves(make, width, tmp_path):
    model, batch = make(blanket="auglag", causal_ramp=[0, 2]), batch_of()
    labels = CLASSES if make is classifier else labels_of()
    rows = [
        dict(input_ids=ids, attention_mask=mask, labels=label)
        for ids, mask, label in zip(batch["input_ids"], batch["attention_mask"], labels, strict=False)
    ]
    trainer = Trainer(
        model,
        TrainingArguments(
            str(tmp_path),
            max_steps=3,
            per_device_train_batch_size=2,
            report_to=[],
            save_strategy="no",
            disable_tqdm=True,
            use_cpu=True,
        ),
        train_dataset=rows,
        eval_dataset=rows,
    )
    trainer.train()
    told = trainer.predict(rows)
    assert model.passes == 3 and model.causal_weight() == 0.1
    assert told.predictions.shape[:2] == (4, width) and told.metrics["test_loss"] > 0


def test_training_lowers_both_parts():
    model = classifier(causal_weight=1.0, pre_norm=True).train()
    batch, found = batch_of() | dict(labels=CLASSES), []
    optimiser = torch.optim.Adam(model.parameters(), 0.01)
    for _ in range(30):
        found.append(model(**batch))
        optimiser.zero_grad()
        found[-1].loss.backward()
        optimiser.step()
    assert found[-1].task_loss < 0.2 * found[0].task_loss
    assert found[-1].causal_loss < 0.8 * found[0].causal_loss


def test_the_default_size_is_the_papers():
    config = CausalTransformerConfig()
    assert (config.d_model, config.num_heads, config.encoder_layers, config.decoder_layers) == (512, 8, 6, 6)
    assert config.d_model // config.num_heads == 64 and config.dropout == 0.1
    again = CausalTransformerConfig.from_dict(config.to_dict())
    assert again.to_dict() == config.to_dict()


# Bad input


@pytest.mark.parametrize(
    "settings, message",
    [
        (dict(gcn="three"), "gcn is 'three': choose among"),
        (dict(blanket="lasso"), "blanket is 'lasso'"),
        (dict(activation="tanh"), "activation is 'tanh'"),
        (dict(pattern="ring"), "pattern is 'ring'"),
        (dict(blanket_in="encoder"), r"blanket_in is 'encoder': give a list, such as \['encoder'\]"),
        (dict(blanket_in=None), "blanket_in is None: give a list"),
        (dict(blanket_in=["both"]), r"blanket_in is \['both'\]"),
        (dict(causal_weight=-1), "causal_weight is -1"),
        (dict(causal_ramp=[3, 3]), r"causal_ramp is \[3, 3\]"),
        (dict(dropout=1.0), "dropout is 1.0"),
        (dict(label_smoothing=-0.1), "label_smoothing is -0.1"),
        (dict(encoder_layers=0), "there are 0 encoder"),
        (dict(blanket_settings=dict(gammas=[1, -1])), "a multiplier is -1.0"),
        (dict(blanket_settings=dict(gama=[1, 1])), "blanket_settings has 'gama': choose among 'gammas', 's"),
        (dict(blanket="none", blanket_settings=dict(mode="hinge")), "blanket_settings has 'mode'"),
        (dict(num_heads=0), "num_heads is 0: choose 1 or more"),
        (dict(d_ff=0), "d_ff is 0: choose 1 or more"),
        (dict(d_model=10, num_heads=4), "a width d_model of 10 does not divide among 4 heads"),
        (dict(pattern_width=0), "pattern_width is 0: choose 1 or more"),
        (dict(pattern_share=3), r"pattern_share is 3: choose a share in \[0, 1\]"),
        (dict(pattern_share=None), "pattern_share is None: choose a share"),
        (dict(dropout=None), r"dropout is None: choose it in \[0, 1\)"),
        (dict(label_smoothing="0.1"), "label_smoothing is '0.1': choose it in"),
        (dict(d_model=None), "a width d_model of None does not divide among 8 heads"),
        (dict(d_model=12.0, num_heads=2), "a width d_model of 12.0 does not divide"),
        (dict(activation=[]), r"activation is \[\]: choose among"),
        (dict(blanket_settings=True), "blanket_settings is True: give a dictionary, such as {'rho': 1}"),
        (dict(blanket="auglag", blanket_settings=dict(rho=None)), "rho is None and gamma_max 10.0: choose"),
        (dict(causal_ramp=["a", "b"]), r"causal_ramp is \['a', 'b'\]: give the training passes"),
        (dict(pattern_global=-1), "pattern_global is -1: choose"),
        (dict(relative=-1), "relative is -1: choose"),
        (dict(causal_weight=None), "causal_weight is None: choose a number"),
        (dict(causal_weight=float("inf")), "causal_weight is inf"),
        (dict(causal_ramp=5), "causal_ramp is 5: give the training passes"),
        (dict(self_loop="third"), "self_loop is 'third'"),
    ],
)
def test_bad_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        CausalTransformerConfig(**settings)


@pytest.mark.parametrize("name", ["pad_token_id", "decoder_start_token_id"])
def test_a_decoder_asks_for_its_padding_and_its_start(name):
    with pytest.raises(ValueError, match=f"{name} (is )?None.*: a decoder needs both, so give the vocabular"):
        translator(**{name: None})
    assert classifier(**{name: None})(**batch_of(), labels=CLASSES).loss.isfinite()


def test_bad_input_is_named():
    model, batch = classifier(), batch_of()
    hidden = batch["attention_mask"].clone()
    hidden[2] = 0
    with pytest.raises(ValueError, match="attention_mask hides every token of item 2: leave each item at"):
        model(batch["input_ids"], hidden)
    hidden[2, 3] = 1
    assert model(batch["input_ids"], hidden).logits.shape == (4, 2)  # one token is enough to classify
    with pytest.raises(ValueError, match="hides all tokens but one of item 2"):
        model(batch["input_ids"], hidden, labels=CLASSES)
    with pytest.raises(ValueError, match=r"attention_mask has shape \(4, 6\), but there are 4 items of 7"):
        model(batch["input_ids"], batch["attention_mask"][:, 1:])
    with pytest.raises(ValueError, match=r"input_ids has shape \(7,\): pass tokens \(B, T\), also of a sing"):
        model(batch["input_ids"][0])
    with pytest.raises(ValueError, match="on a causal map"):
        translator(blanket_settings=dict(normalise="sinkhorn"))
    with pytest.raises(ValueError, match="neither decoder_input_ids nor labels were given"):
        translator()(**batch)
    with pytest.raises(ValueError, match="a cached pass sees a part of the map"):
        translator()(**batch, labels=labels_of(), use_cache=True)
    with pytest.raises(ValueError, match="decoder_attention_mask hides every token of item 0"):
        translator()(**batch, decoder_input_ids=labels_of(), decoder_attention_mask=torch.zeros(4, 6))


def test_an_empty_batch_is_named():
    none = torch.zeros(0, 7, dtype=torch.long)
    for call, name in (
        (lambda: classifier()(none), "input_ids"),
        (lambda: classifier()(none, labels=CLASSES[:0]), "input_ids"),
        (lambda: translator()(none, decoder_input_ids=none), "input_ids"),
        (lambda: translator()(none, labels=none), "labels"),
        (lambda: translator()(**batch_of(), decoder_input_ids=none), "decoder_input_ids"),
        (lambda: translator().generate(none, max_new_tokens=2), "input_ids"),
    ):
        with pytest.raises(ValueError, match=rf"^{name} has shape \(0, 7\), an empty batch: pass at least"):
            call()
    with pytest.raises(ValueError, match=r"input_ids is missing: pass tokens \(B, T\)"):
        translator()(labels=labels_of())


def test_targets_without_labels_are_named():
    model, batch, labels = translator(), batch_of(), labels_of()
    labels[2] = -100
    with pytest.raises(ValueError, match="labels are -100 for every token of item 2: give each .* least 2"):
        model(**batch, labels=labels)
    labels[2, 0] = 5
    with pytest.raises(ValueError, match="labels are -100 for all tokens but one of item 2: give each"):
        model(**batch, labels=labels)
    assert torch.isfinite(translator(blanket="none")(**batch, labels=labels).loss)
    ids, labels[2] = labels.clamp(min=3), -100  # of one item among others, beside decoder inputs
    assert torch.isfinite(model(**batch, decoder_input_ids=ids, labels=labels).loss)
    with pytest.raises(ValueError, match="labels are -100 for every token of item 0: give each .* least 1"):
        model(**batch, decoder_input_ids=ids, labels=torch.full_like(labels, -100))


def test_what_is_not_there_is_refused_in_a_sentence():
    model, batch, states = translator().eval(), batch_of(), torch.zeros(4, 7, 12)
    with pytest.raises(ValueError, match="output_hidden_states is True, which these models do not take"):
        model.generate(**batch, max_new_tokens=3, output_hidden_states=True, return_dict_in_generate=True)
    for call in (
        lambda: model.generate(inputs_embeds=states, max_new_tokens=3),
        lambda: model(inputs_embeds=states, labels=labels_of()),
        lambda: classifier()(inputs_embeds=states),
    ):
        with pytest.raises(ValueError, match=r"inputs_embeds has shape \(4, 7, 12\), which these models"):
            call()
    for asked in (model, classifier()):
        with pytest.raises(ValueError, match="these models have no argument 'atention_mask': pass what"):
            asked(batch["input_ids"], atention_mask=batch["attention_mask"], labels=CLASSES)
    for cache in (dict(cache_implementation="static"), dict(past_key_values=DynamicCache())):
        with pytest.raises(ValueError, match="past_key_values holds a (Static|Dynamic)Cache: leave cache"):
            model.generate(**batch, max_new_tokens=3, **cache)


def test_what_is_violated_is_of_the_map_that_the_model_reads_by():
    model, batch = classifier(**ARMS["sinkhorn"]).eval(), batch_of()
    valid = batch["attention_mask"].bool()
    maps = model(**batch, output_attentions=True).encoder_attentions
    shares = [describe(one, valid, model.config.self_loop)["violated"] for one in maps]
    found = model(**batch, labels=CLASSES).violated.item()
    assert found == pytest.approx(sum(shares) / len(shares), abs=1e-6)
