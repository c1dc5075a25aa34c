"""What a user's library may do to our models that would train or read another thing: refused, by name."""

from dataclasses import replace

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    BertConfig,
    BertForSequenceClassification,
    Gemma2Config,
    Gemma3Config,
    LlamaConfig,
    LlamaForCausalLM,
    Phi3Config,
    Phi3ForCausalLM,
    Trainer,
    TrainingArguments,
)

from causalnb.attention import tap, verify
from causalnb.c2dlm import (
    MaskedDiffusionCollator,
    MaskedDiffusionModel,
    ReattentionLoss,
    Supervision,
)
from causalnb.c2dlm.forms import map_of
from causalnb.causal_transformer import (
    CausalTransformerConfig,
    CausalTransformerForSequenceClassification,
    markov_blanket_penalty,
)
from causalnb.causal_transformer.groups import GroupedConfig, GroupedForSequenceClassification
from causalnb.causal_transformer.invariance import (
    InvariantConfig,
    InvariantForSequenceClassification,
    interchange,
)
from causalnb.iclm import ICLMForCausalLM
from causalnb.sci import SCITransformer, SeparatedSCI

SMALL = dict(vocab_size=50, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4)
PAIRS = dict(vocab_size=50, d_model=32, num_heads=4, d_ff=48, encoder_layers=2, dropout=0.0)
IDS = torch.randint(3, 50, (4, 9), generator=torch.Generator().manual_seed(0))
LABELS = torch.where(torch.arange(9) < 4, -100, IDS)


def llama(**more):
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(**SMALL, **more))


def arguments(folder, **more):
    return TrainingArguments(
        str(folder),
        max_steps=1,
        use_cpu=True,
        report_to="none",
        save_strategy="no",
        disable_tqdm=True,
        **more,
    )


@pytest.mark.parametrize("kind", [SCITransformer, SeparatedSCI])
def test_sci_in_training_is_told_where_answers_begin(kind, tmp_path):
    model = kind.from_base(llama(), d_structure=16, n_structural_slots=4)
    trainer = Trainer(model, arguments(tmp_path, label_smoothing_factor=0.1))
    model.train()
    with pytest.raises(ValueError, match="neither labels nor a prompt_mask say where answers begin"):
        trainer.compute_loss(model, {"input_ids": IDS, "labels": LABELS})
    masked = {"input_ids": IDS, "labels": LABELS, "prompt_mask": (LABELS == -100).long()}
    assert trainer.compute_loss(model, masked).isfinite()
    assert model(IDS, prompt_mask=torch.ones_like(IDS)).logits.isfinite().all()  # all is prompt
    with torch.no_grad():
        assert model(IDS).logits.isfinite().all()


@pytest.mark.parametrize("kind", [SCITransformer, SeparatedSCI])
def test_a_misspelt_argument_is_named(kind):
    model = kind.from_base(llama(), d_structure=16)
    with pytest.raises(ValueError, match=f"{kind.__name__} has no argument 'structure_id': pass what"):
        model(IDS, labels=LABELS, structure_id=torch.tensor([0, 0, 1, 1]))
    assert model(IDS, labels=LABELS, position_ids=torch.arange(9)[None]).loss.isfinite()


def test_separated_sci_notices_a_head_or_embeddings_that_were_replaced():
    def new():
        return SeparatedSCI.from_base(llama(), d_structure=16, n_structural_slots=4).eval()

    adapted = get_peft_model(new(), LoraConfig(target_modules=["q_proj"], modules_to_save=["lm_head"]))
    with pytest.raises(ValueError, match="output layer were copied or replaced after from_base"):
        adapted(input_ids=IDS)
    model = new()
    model.base.resize_token_embeddings(57)
    with pytest.raises(ValueError, match="were copied or replaced"):
        model.generate(IDS, max_new_tokens=1)
    with pytest.raises(ValueError, match="takes no inputs_embeds"):
        new()(IDS, inputs_embeds=torch.zeros(4, 9, 32))
    assert new()(IDS, inputs_embeds=None).logits.shape == (4, 9, 50)


def test_a_model_of_several_parts_is_no_base():
    text = {**SMALL, "num_key_value_heads": 2, "head_dim": 8, "pad_token_id": 0}
    vision = dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2)
    config = Gemma3Config(
        text_config=text, vision_config=vision | dict(image_size=28, patch_size=14), mm_tokens_per_image=4
    )
    whole = AutoModelForCausalLM.from_config(config)
    for kind, given in ((SCITransformer, ()), (SeparatedSCI, ()), (MaskedDiffusionModel, (49,))):
        with pytest.raises(ValueError, match="holds a language model beside other parts: load its text"):
            kind.from_base(whole, *given)


def test_c2dlm_without_the_labels_that_a_trainer_takes_out(tmp_path):
    model = MaskedDiffusionModel.from_base(llama(), 49)
    rows = [dict(input_ids=row.tolist(), prompt_mask=[1] * 4 + [0] * 5) for row in IDS]
    batch = MaskedDiffusionCollator(49, 2)(rows)
    trainer = Trainer(model, arguments(tmp_path, label_smoothing_factor=0.1, remove_unused_columns=False))
    with pytest.raises(ValueError, match="masked came without labels .which a Trainer with label_smoothing"):
        trainer.compute_loss(model, dict(batch))
    assert model(**batch).loss.isfinite()


def test_reattention_reads_no_capped_scores():
    shape = {**SMALL, "num_key_value_heads": 2, "head_dim": 8, "pad_token_id": 0}
    config = Gemma2Config(**shape, attn_logit_softcapping=2.0)
    base = AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    verify(base, dict(input_ids=IDS))
    model = MaskedDiffusionModel.from_base(base, 49, ReattentionLoss(2.0, 0.5, backend="rows"))
    with tap(model.base) as records:
        model(IDS)
    with pytest.raises(ValueError, match="plain softmax attention, and this base has softcap: choose"):
        map_of(records[0])
    options = {**records[0].options, "softcap": None, "s_aux": torch.zeros(4)}
    with pytest.raises(ValueError, match="plain softmax attention, and this base has s_aux: choose"):
        map_of(replace(records[0], options=options))
    mask = Supervision(
        torch.arange(9) % 3, torch.tensor([[0, 1, -1]] * 3), [-1] * 3, torch.zeros(9), torch.ones(9)
    )
    rows = [dict(input_ids=row.tolist(), prompt_mask=[1] * 4 + [0] * 5, supervision=mask) for row in IDS]
    for backend in ("rows", "mass"):
        with pytest.raises(ValueError, match="softcap"):
            loss = ReattentionLoss(2.0, 0.5, backend=backend)
            MaskedDiffusionModel.from_base(base, 49, loss).train()(**MaskedDiffusionCollator(49, 2)(rows))


def test_names_of_maps_that_are_nowhere():
    base = Phi3ForCausalLM(Phi3Config(**SMALL, pad_token_id=0))
    with pytest.raises(ValueError, match="no layer of the base is called q_prj: name its attention maps"):
        ICLMForCausalLM.from_base(base, lora=dict(target_modules=["o_proj", "q_prj"]))
    assert ICLMForCausalLM.from_base(base, lora=dict(target_modules=["qkv_proj", "o_proj"]))


@pytest.mark.parametrize("kind", ["phi3", "opt", "gptj", "phi"])
def test_the_default_of_a_base_that_nobody_knows_has_what_is_there(kind, tmp_path):
    sizes = {name: SMALL[name] for name in ("vocab_size", "num_hidden_layers", "num_attention_heads")}
    of = {
        "opt": dict(hidden_size=32, ffn_dim=48, word_embed_proj_dim=32),
        "gptj": dict(n_embd=32, rotary_dim=4),
    }
    more = of.get(kind, dict(hidden_size=32, intermediate_size=48))
    base = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **sizes, **more, pad_token_id=0))
    model = ICLMForCausalLM.from_base(base)
    model.save_pretrained(tmp_path)
    again = AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    assert torch.equal(again(IDS).logits, model.eval()(IDS).logits)


def test_iclm_in_training_is_told_what_routes(tmp_path):
    model = ICLMForCausalLM.from_base(llama())
    trainer = Trainer(model, arguments(tmp_path, label_smoothing_factor=0.1))
    model.train()
    with pytest.raises(ValueError, match="say where answers begin .*and they would route: pass prompt_mask"):
        trainer.compute_loss(model, {"input_ids": IDS, "labels": LABELS})
    masked = {"input_ids": IDS, "labels": LABELS, "prompt_mask": (LABELS == -100).long()}
    assert trainer.compute_loss(model, masked).isfinite()


def test_a_prompt_in_chunks_would_route_by_the_first():
    model = ICLMForCausalLM.from_base(llama()).eval()
    with pytest.raises(ValueError, match="the whole prompt routes: leave prefill_chunk_size out"):
        model.generate(IDS, max_new_tokens=2, prefill_chunk_size=4)


def bert():
    torch.manual_seed(0)
    return BertForSequenceClassification(BertConfig(**SMALL))


def test_a_penalty_that_a_trainer_would_lose(tmp_path):
    model, rows = bert(), [dict(input_ids=row, labels=i % 2) for i, row in enumerate(IDS)]
    for smooth in (0.0, 0.1):
        with markov_blanket_penalty(model, weight=1.0) as penalty:
            given = arguments(tmp_path, label_smoothing_factor=smooth)
            trainer = Trainer(model, given, train_dataset=rows, callbacks=[penalty.callback()])
            if not smooth:
                assert trainer.train().global_step == 1
                continue
            with pytest.raises(
                ValueError, match="returned no loss to add to: give labels .a Trainer with label"
            ):
                trainer.train()
            with torch.no_grad():
                model.eval()(input_ids=IDS)
    with markov_blanket_penalty(model, weight=1.0), pytest.raises(ValueError, match="returned a tuple"):
        model(IDS, labels=torch.tensor([0, 1, 0, 1]), return_dict=False)


def test_packed_texts_are_no_one_text():
    model = llama().eval()
    places = torch.tensor([[*range(5), *range(4)]]).expand(4, -1)
    with torch.no_grad(), markov_blanket_penalty(model) as penalty:
        with pytest.raises(ValueError, match="a row holds several texts, packed"):
            model(IDS, position_ids=places, use_cache=False)
        model(IDS, attention_mask=torch.ones_like(IDS).index_fill(1, torch.tensor([0]), 0), use_cache=False)
        assert penalty.loss().isfinite()


def test_labels_that_number_no_class():
    def classifier(**more):
        return CausalTransformerForSequenceClassification(CausalTransformerConfig(**PAIRS, **more)).eval()

    with pytest.raises(
        ValueError, match=r"labels have shape \(4,\) and type torch.float32: give each item its"
    ):
        classifier()(IDS, labels=torch.rand(4))
    with pytest.raises(ValueError, match=r"labels have shape \(4, 2\)"):
        classifier()(IDS, labels=torch.ones(4, 2, dtype=torch.long))
    with pytest.raises(ValueError, match="num_labels is 1, and with one class nothing is learned"):
        classifier(num_labels=1)(IDS, labels=torch.zeros(4, dtype=torch.long))
    with pytest.raises(
        ValueError, match="problem_type is 'regression': this model chooses one of num_labels"
    ):
        classifier(problem_type="regression")(IDS)
    grouped, types = (
        GroupedForSequenceClassification(GroupedConfig(**PAIRS)).eval(),
        (torch.arange(9) > 3) * 1,
    )
    with pytest.raises(ValueError, match="a label is -100: every row counts in its group, so label all"):
        grouped(IDS, token_type_ids=types.expand(4, -1), labels=torch.tensor([0, -100, 1, 0]))


def test_word_classes_outlast_a_resize(tmp_path):
    model = InvariantForSequenceClassification(InvariantConfig(**PAIRS))
    model.classes[10:20] = 10
    model.resize_token_embeddings(60)
    assert model.classes.tolist() == [*range(10), *[10] * 10, *range(20, 60)]
    model.save_pretrained(tmp_path)
    again = AutoModelForSequenceClassification.from_pretrained(tmp_path)
    assert torch.equal(again.classes, model.classes)
    ids, types = IDS.clone(), ((torch.arange(9) > 3) * 1).expand(4, -1)
    ids[0, 0] = 55
    assert model.train()(ids, token_type_ids=types, labels=torch.tensor([0, 1, 0, 1])).loss.isfinite()
    model.resize_token_embeddings(30)
    assert len(model.classes) == 30
    alone = InvariantForSequenceClassification(InvariantConfig(**PAIRS))
    alone.classes.copy_(torch.arange(50).flip(0))
    alone.resize_token_embeddings(30)
    some = torch.randint(3, 30, (64, 9), generator=torch.Generator().manual_seed(1))
    assert torch.equal(interchange(some, types[:1].expand(64, -1), alone.classes), some)
