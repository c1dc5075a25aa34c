"""Every model under the plain Trainer, with a stock collator if that means something; cards; Auto classes."""

import subprocess
import sys

import numpy as np
import pytest
import torch
import transformers
from huggingface_hub import ModelCard
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    AutoConfig,
    DataCollatorForLanguageModeling,
    DataCollatorForSeq2Seq,
    DataCollatorWithPadding,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
)

from causalnb import c2dlm, iclm, registration, sci
from causalnb.c2dlm import MaskedDiffusionCollator, MaskedDiffusionModel
from causalnb.causal_transformer import (
    CausalTransformerConfig,
    CausalTransformerForConditionalGeneration,
    CausalTransformerForSequenceClassification,
    markov_blanket_penalty,
)
from causalnb.iclm import ICLMForCausalLM

SIZE, EOS = 30, 2
SMALL = dict(
    vocab_size=SIZE, hidden_size=16, intermediate_size=20, num_hidden_layers=3, num_attention_heads=2,
    max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=EOS,
)  # fmt: skip
SLOTS = dict(n_structural_slots=3, d_structure=8, n_structural_heads=2)


def tokenizer():
    words = {"<pad>": 0, "<bos>": 1, "<eos>": EOS} | {f"w{i}": i for i in range(3, SIZE)}
    core = Tokenizer(models.WordLevel(words, unk_token="<pad>"))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=core, pad_token="<pad>", bos_token="<bos>", eos_token="<eos>"
    )


def llama(**settings):
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL | settings))


def bert(classes=3):
    torch.manual_seed(0)
    settings = {name: value for name, value in SMALL.items() if name not in ("bos_token_id", "eos_token_id")}
    config = transformers.BertConfig(**settings, num_labels=classes)
    return transformers.BertForSequenceClassification(config)


def rows(count=6, structured=False):
    """Rows of like structure have like lengths, so that SeparatedSCI can align them."""
    draw, made = np.random.default_rng(0), []
    for i in range(count):
        ids = [1, *draw.integers(3, SIZE, 6 + i % 2).tolist(), EOS]
        made.append({"input_ids": ids, "attention_mask": [1] * len(ids), "labels": [-100] * 4 + ids[4:]})
        made[-1] |= {"structure_ids": i % 2} if structured else {}
    return made


def causal_transformer(kind):
    settings = dict(
        vocab_size=SIZE, d_model=16, num_heads=2, d_ff=20, encoder_layers=1, decoder_layers=1, num_labels=3
    )
    return kind(CausalTransformerConfig(**settings, pad_token_id=0, bos_token_id=1, eos_token_id=EOS))


def classified(count=6):
    return [row | {"labels": i % 3} for i, row in enumerate(rows(count))]


def translated(count=6):
    return [row | {"labels": row["labels"][4:]} for row in rows(count)]


def diffused(count=6):
    return [
        {"input_ids": row["input_ids"], "prompt_mask": [1] * 4 + [0] * (len(row["input_ids"]) - 4)}
        for row in rows(count)
    ]


CASES = {
    "sci": lambda: (
        sci.SCITransformer.from_base(llama(), **SLOTS), rows(structured=True), DataCollatorForSeq2Seq
    ),
    "sci_gpt2": lambda: (
        sci.SCITransformer.from_base(
            transformers.GPT2LMHeadModel(
                transformers.GPT2Config(vocab_size=SIZE, n_embd=16, n_layer=3, n_head=2, n_positions=64)
            ),
            **SLOTS,
        ),
        rows(),
        DataCollatorForSeq2Seq,
    ),
    "sci_separated": lambda: (
        sci.SeparatedSCI.from_base(llama(), **SLOTS), rows(structured=True), DataCollatorForSeq2Seq
    ),
    "iclm": lambda: (ICLMForCausalLM.from_base(llama()), rows(), DataCollatorForSeq2Seq),
    "masked_diffusion": lambda: (
        MaskedDiffusionModel.from_base(llama(), mask_token_id=SIZE - 1),
        diffused(),
        lambda tokenizer: MaskedDiffusionCollator(SIZE - 1, EOS),
    ),
    "causal_transformer": lambda: (
        causal_transformer(CausalTransformerForSequenceClassification), classified(), DataCollatorWithPadding
    ),
    "causal_transformer_seq2seq": lambda: (
        causal_transformer(CausalTransformerForConditionalGeneration), translated(), DataCollatorForSeq2Seq
    ),
    "bert_under_the_penalty": lambda: (bert(), classified(), DataCollatorWithPadding),
}  # fmt: skip


def trainer_of(model, data, collator, folder, **options):
    shapes = {}

    def compute_metrics(prediction):
        assert isinstance(prediction.predictions, np.ndarray)
        labels = prediction.label_ids
        shapes["labels"], shapes["predictions"] = labels.shape, prediction.predictions.shape
        return {"accuracy": float((prediction.predictions.argmax(-1) == labels).mean())}

    arguments = TrainingArguments(
        output_dir=str(folder), max_steps=2, per_device_train_batch_size=3, per_device_eval_batch_size=4,
        use_cpu=True, report_to="none", disable_tqdm=True, logging_steps=1, learning_rate=1e-2,
    )  # fmt: skip
    trainer = Trainer(
        model, arguments, train_dataset=data, eval_dataset=data, data_collator=collator(tokenizer()),
        compute_metrics=compute_metrics, **options,
    )  # fmt: skip
    return trainer, shapes


@pytest.mark.parametrize("case", CASES)
def test_it_trains_and_is_scored(case, tmp_path):
    model, data, collator = CASES[case]()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    trainer, shapes = trainer_of(model, data, collator, tmp_path)
    trainer.train()
    assert any(not torch.equal(before[name], value) for name, value in model.state_dict().items())
    scores = trainer.evaluate()
    assert np.isfinite(scores["eval_loss"]) and 0 <= scores["eval_accuracy"] <= 1
    assert shapes["predictions"] == (
        *shapes["labels"],
        model.config.num_labels if len(shapes["labels"]) == 1 else SIZE,
    )


def test_a_collator_that_marks_no_prompt_is_answered_with_the_one_that_does(tmp_path):
    every_token = DataCollatorForLanguageModeling(tokenizer(), mlm=False)
    model, data, _ = CASES["sci"]()
    data = [{name: row[name] for name in ("input_ids", "attention_mask")} for row in data]
    with pytest.raises(ValueError, match="no prompt: .*causalnb.lab.training.PromptAnswerCollator"):
        trainer_of(model, data, lambda _: every_token, tmp_path)[0].train()
    model = MaskedDiffusionModel.from_base(llama(), mask_token_id=SIZE - 1)
    with pytest.raises(ValueError, match="let MaskedDiffusionCollator noise rows"):
        trainer_of(model, data, lambda _: every_token, tmp_path)[0].train()
    model = ICLMForCausalLM.from_base(
        llama()
    )  # for which every token has a meaning: the router reads them all
    trainer_of(model, data, lambda _: every_token, tmp_path)[0].train()


def test_the_logits_of_iclm_at_the_labels_are_those_of_all_places():
    model, data, collator = CASES["iclm"]()
    batch = collator(tokenizer())(data)
    model.eval()
    whole, few = model(**batch), model(**batch, answers_only=True)
    where = batch["labels"][:, 1:] != -100
    assert whole.logits.shape == (6, 9, SIZE) and torch.equal(whole.loss, few.loss)
    torch.testing.assert_close(whole.logits[:, :-1][where], few.logits)
    with model.only(0):
        torch.testing.assert_close(
            model(**batch).logits[:, :-1][where], model(**batch, answers_only=True).logits
        )


def test_the_penalty_is_in_the_loss_and_its_share_in_the_log(tmp_path):
    plain, _ = trainer_of(bert(), classified(), DataCollatorWithPadding, tmp_path)
    plain.train()
    model = bert()
    with markov_blanket_penalty(model, weight=2.0) as penalty:
        trainer, _ = trainer_of(
            model, classified(), DataCollatorWithPadding, tmp_path, callbacks=[penalty.callback()]
        )
        trainer.train()
        trainer.evaluate()
        out = model.eval()(**DataCollatorWithPadding(tokenizer())(classified()))
    steps = [entry for entry in trainer.state.log_history if "loss" in entry]
    assert len(steps) == 2 and all(0 < entry["violated"] <= 1 for entry in steps)
    assert steps[0]["loss"] > plain.state.log_history[0]["loss"]
    assert "eval_violated" in trainer.state.log_history[-1]
    bare = model(
        **DataCollatorWithPadding(tokenizer())(classified())
    ).loss  # outside, the loss is its own again
    torch.testing.assert_close(out.loss, bare + 2.0 * penalty.loss())
    with pytest.raises(ValueError, match="weight is -1: choose a finite one, 0 or more"):
        with markov_blanket_penalty(model, weight=-1):
            pass


@pytest.mark.parametrize("case", ["sci", "iclm", "masked_diffusion", "causal_transformer"])
def test_a_card_lies_beside_the_weights(case, tmp_path):
    model, *_ = CASES[case]()
    if case != "causal_transformer":
        model.config.base_config.name_or_path = "someone/some-base"
    model.card = {"data": "mine.jsonl", "metrics": {"accuracy": 0.5}, "command": "causalnb train it"}
    model.save_pretrained(tmp_path)
    card = ModelCard.load(tmp_path / "README.md")
    known = card.data.to_dict()
    assert known["library_name"] == "transformers" and model.config.model_type in known["tags"]
    assert known.get("base_model") == (None if case == "causal_transformer" else "someone/some-base")
    result = known["model-index"][0]["results"][0]
    assert (
        result["metrics"] == [{"type": "accuracy", "value": 0.5}]
        and result["dataset"]["name"] == "mine.jsonl"
    )
    assert "causalnb train it" in card.text and "## Settings" in card.text
    mine = card.content.replace(card.content.splitlines()[-1], "my own text")
    (tmp_path / "README.md").write_text("---\nlicense: mit\n---\nmy own text\n", encoding="utf-8")
    model.save_pretrained(tmp_path)
    assert "my own text" in mine and "my own text" in (tmp_path / "README.md").read_text(encoding="utf-8")
    model.card = {"licence": "mit"}
    with pytest.raises(ValueError, match="a card has no 'licence': give command, data, metrics, task"):
        model.save_pretrained(tmp_path)


AUTO = {
    "sci": "AutoModelForCausalLM",
    "sci_separated": "AutoModelForCausalLM",
    "iclm": "AutoModelForCausalLM",
    "masked_diffusion": "AutoModelForMaskedLM",
    "causal_transformer": "AutoModelForSequenceClassification",
}
LOADED = """
import sys, {first}; from transformers import {names}; {names}; import causalnb
for auto, folder in zip([{names}], sys.argv[1:], strict=True):
    model = auto.from_pretrained(folder)
    print(type(model).__name__, float(sum(p.sum() for p in model.parameters())))
"""


@pytest.mark.parametrize("first", ["causalnb", "transformers"])
def test_what_was_saved_loads_after_import_causalnb_alone(first, tmp_path):
    cases = [case for case in AUTO if (case == "iclm") == (first == "transformers")]
    models = [CASES[case]()[0] for case in cases]
    for case, model in zip(cases, models, strict=True):
        model.save_pretrained(tmp_path / case)
    code = LOADED.format(first=first, names=", ".join(AUTO[case] for case in cases))
    folders = [str(tmp_path / case) for case in cases]
    done = subprocess.run(
        [sys.executable, "-c", code, *folders], capture_output=True, encoding="utf-8", check=True
    )
    for model, line in zip(models, done.stdout.splitlines(), strict=True):
        name, total = line.split()
        assert name == type(model).__name__
        assert float(total) == pytest.approx(float(sum(p.sum() for p in model.parameters())), rel=1e-5)


def test_import_causalnb_is_light():
    code = (
        "import time; start = time.process_time(); import causalnb, sys; "
        "print(time.process_time() - start, sorted({'torch', 'transformers', 'huggingface_hub'} & "
        "set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True)
    seconds, _, heavy = done.stdout.partition(" ")
    assert float(seconds) < 0.2 and heavy == "[]\n"


def test_stand_ins_name_every_class_that_a_room_registers():
    import causalnb.causal_transformer.contrasts  # noqa: F401
    import causalnb.causal_transformer.spread  # noqa: F401

    for model_type, (module, name) in registration.CLASSES.items():
        assert registration.StandIn(module, name).model_type == model_type
        assert type(AutoConfig.for_model(model_type)).__name__ == name
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    ours = {
        name for name, kind in CONFIG_MAPPING._extra_content.items() if kind.__module__.startswith("causalnb")
    }
    assert ours == set(registration.CLASSES) and iclm and c2dlm


@pytest.mark.parametrize("kind", ["sci", "iclm"])
def test_labels_are_shifted_under_label_smoothing(kind, tmp_path):
    """Where a Trainer smooths labels it computes the loss itself, and shifts them for decoders it knows."""
    model = (
        sci.SCITransformer.from_base(llama(), **SLOTS)
        if kind == "sci"
        else ICLMForCausalLM.from_base(llama())
    )
    arguments = TrainingArguments(
        str(tmp_path), label_smoothing_factor=0.1, use_cpu=True, report_to="none", remove_unused_columns=False
    )
    trainer = Trainer(model, arguments)
    batch = {name: torch.tensor([row[name] for row in rows(6)[::2]]) for name in ("input_ids", "labels")}
    model.eval()
    with torch.no_grad():
        found = trainer.compute_loss(model, dict(batch))
        logits = model(input_ids=batch["input_ids"]).logits[:, :-1]
    labels = batch["labels"][:, 1:]
    lost = torch.nn.functional.cross_entropy(logits[labels != -100], labels[labels != -100])
    spread = -logits[labels != -100].log_softmax(-1).mean(-1).mean()
    torch.testing.assert_close(found, 0.9 * lost + 0.1 * spread)


def trained(model, data, collator, folder, batch, accumulated):
    """A step of plain descent by a Trainer on four rows: its loss, and the weights after it."""
    arguments = TrainingArguments(
        str(folder), per_device_train_batch_size=batch, gradient_accumulation_steps=accumulated, max_steps=1,
        learning_rate=0.5, optim="sgd", max_grad_norm=0, lr_scheduler_type="constant", use_cpu=True,
        report_to="none", disable_tqdm=True, save_strategy="no", logging_strategy="no",
    )  # fmt: skip
    loss = Trainer(model, arguments, train_dataset=data, data_collator=collator).train().training_loss
    return loss, {name: one.detach().clone() for name, one in model.named_parameters() if one.requires_grad}


ACCUMULATED = {
    "sci": lambda: sci.SCITransformer.from_base(llama(), **SLOTS),
    "sci_separated": lambda: sci.SeparatedSCI.from_base(llama(), **SLOTS, abstraction_noise=0.0),
    "sci_contrastive": lambda: sci.ContrastiveDecoder.from_base(llama()),
    "sci_slot_decoder": lambda: sci.SlotDecoder.from_base(llama(), **SLOTS, penalty_weight=0.0),
    "iclm": lambda: ICLMForCausalLM.from_base(
        llama(), aggregation="own", invariant=False, num_modules=1, lora=dict(r=2, dropout=0.0),
        weights=dict(gamma=0.0),
    ),
    "causal_transformer": lambda: causal_transformer(CausalTransformerForConditionalGeneration),
}  # fmt: skip


@pytest.mark.parametrize("name", ACCUMULATED)
def test_accumulated_batches_train_as_one(name, tmp_path):
    """Rows have 1 to 8 labels: a mean of their means is another loss."""
    torch.manual_seed(0)
    model = ACCUMULATED[name]()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    draw = torch.Generator().manual_seed(1)
    ids = torch.randint(3, SIZE, (4, 12), generator=draw)
    if name == "causal_transformer":
        data = [{"input_ids": row, "labels": row[: 2 + 2 * i]} for i, row in enumerate(ids.tolist())]
        collator = DataCollatorForSeq2Seq(tokenizer(), model)
        model.config.causal_weight = 0.0  # whose mean is over nodes
    else:
        data = [
            {
                "input_ids": row,
                "attention_mask": [1] * 12,
                "labels": [-100] * (11 - 2 * i) + row[11 - 2 * i :],
            }
            for i, row in enumerate(ids.tolist())
        ]
        collator = DataCollatorForSeq2Seq(tokenizer())
    start, found = {key: one.clone() for key, one in model.state_dict().items()}, []
    for batch, accumulated in ((4, 1), (1, 4), (2, 2)):
        model.load_state_dict(start)
        found.append(trained(model, data, collator, tmp_path, batch, accumulated))
    moved = {key for key, one in found[0][1].items() if not torch.equal(one, start[key])}
    assert moved
    for loss, weights in found[1:]:
        assert loss == pytest.approx(found[0][0], abs=2e-6)
        for key, one in weights.items():
            torch.testing.assert_close(one, found[0][1][key], rtol=1e-3, atol=2e-5)
    lone = [model(**collator([row])).loss.item() for row in data]
    whole = model(**collator(data)).loss.item()
    assert sum(lone) / 4 != pytest.approx(whole, abs=1e-4)


def test_a_trainer_hands_the_collator_what_it_draws_and_orders_by(tmp_path):
    seen = []

    class Spy(MaskedDiffusionCollator):
        def __call__(self, rows):
            seen.append(set(rows[0]))
            return super().__call__(rows)

    data = [row | {"draw": i, "rank": list(range(len(row["input_ids"])))} for i, row in enumerate(diffused())]
    data = [row | {"visible": [[True] * len(row["input_ids"])] * len(row["input_ids"])} for row in data]
    model = MaskedDiffusionModel.from_base(llama(vocab_size=SIZE + 1), SIZE)
    trained(model, data, Spy(SIZE, EOS, in_order=True), tmp_path, 4, 1)
    assert seen and all({"draw", "rank", "visible"} <= names for names in seen)
