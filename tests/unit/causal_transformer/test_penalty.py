"""The loss on models of others: equal to the loss of the maps they return, and no change to what they do."""

from contextlib import nullcontext

import pytest
import torch
import transformers

from causalnb.causal_transformer import MarkovBlanketLoss, markov_blanket_penalty, sinkhorn, tau
from tests.unit.causal_transformer.small import padded

VOCABULARY, TOKENS = 19, 7
SHARED = dict(vocab_size=VOCABULARY, pad_token_id=0, eos_token_id=1)
ENCODER = SHARED | dict(hidden_size=12, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2)
KINDS = {
    "bert": lambda: transformers.BertModel(
        transformers.BertConfig(**ENCODER, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    ),
    "llama": lambda: transformers.LlamaForCausalLM(
        transformers.LlamaConfig(**ENCODER, num_key_value_heads=1, bos_token_id=2)
    ),
    "marian": lambda: transformers.MarianMTModel(
        transformers.MarianConfig(
            **SHARED,
            d_model=12,
            encoder_layers=2,
            decoder_layers=2,
            encoder_attention_heads=2,
            decoder_attention_heads=2,
            encoder_ffn_dim=16,
            decoder_ffn_dim=16,
            decoder_start_token_id=0,
            dropout=0.0,
        )
    ),
}
kinds = pytest.mark.parametrize("kind", KINDS)


def model_of(kind):
    torch.manual_seed(0)
    model = KINDS[kind]()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model.eval()


def inputs_of(kind, padding=True):
    valid = padded(TOKENS) if padding else torch.ones(3, TOKENS, dtype=torch.bool)
    ids = torch.randint(3, VOCABULARY, (3, TOKENS))
    inputs = dict(input_ids=ids, attention_mask=valid.long())
    if kind == "marian":
        inputs |= dict(decoder_input_ids=ids.flip(1), decoder_attention_mask=valid.long())
    if kind == "llama":
        inputs["use_cache"] = False
    return inputs, valid


def own_maps(model, inputs):
    """(map, causal) of every self-attention, as the model itself returns them."""
    model.set_attn_implementation("eager")
    out = model(**inputs, output_attentions=True)
    model.set_attn_implementation("sdpa")
    names = ("attentions", "encoder_attentions", "decoder_attentions")
    causal = type(model).__name__.startswith("Llama")
    return [(one, causal or name.startswith("decoder")) for name in names for one in out.get(name) or ()]


@kinds
@pytest.mark.parametrize("padding", [True, False])
@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_the_penalty_is_the_loss_of_the_models_own_maps(kind, padding, implementation):
    model, (inputs, valid) = model_of(kind), inputs_of(kind, padding)
    maps = own_maps(model, inputs)
    assert len(maps) == (4 if kind == "marian" else 2)
    model.set_attn_implementation(implementation)
    for settings in (dict(), dict(mode="auglag"), dict(mode="paper", self_loop=True)):
        criterion = MarkovBlanketLoss(**settings).eval()
        with markov_blanket_penalty(model, criterion=criterion) as penalty:
            model(**inputs)
        expected = torch.stack([criterion(one, valid, causal) for one, causal in maps]).mean()
        torch.testing.assert_close(penalty.loss(), expected, rtol=1e-4, atol=1e-5)
    sums = [(*tau(one, valid), valid, causal) for one, causal in maps]
    n = valid.sum(1)[:, None, None] * valid[:, None]
    share = [criterion.violated(rows - n, columns - n, *rest) for rows, columns, *rest in sums]
    torch.testing.assert_close(penalty.violated(), torch.stack(share).mean())
    assert 0 < penalty.violated() < 1


@kinds
def test_outputs_stay_and_gradients_reach_the_queries(kind):
    model, (inputs, _) = model_of(kind), inputs_of(kind)
    plain = model(**inputs)[0]
    with markov_blanket_penalty(model, layers=[1], mode="hinge") as penalty:
        assert torch.equal(model(**inputs)[0], plain)
    loss = penalty.loss()
    loss.backward()
    moved = {name for name, p in model.named_parameters() if p.grad is not None and p.grad.abs().max() > 0}
    layer = {
        "bert": "layer.1.attention.self.query",
        "llama": "layers.1.self_attn.q_proj",
        "marian": "encoder.layers.1.self_attn.q_proj",
    }[kind]
    assert any(f"{layer}.weight" in name for name in moved)
    assert torch.equal(model(**inputs)[0], plain)


def test_descent_on_the_penalty_lowers_it():
    model, (inputs, _) = model_of("bert"), inputs_of("bert")
    optimiser, found = torch.optim.Adam(model.parameters(), 0.01), []
    for _ in range(25):
        with markov_blanket_penalty(model) as penalty:
            model(**inputs)
        found.append(penalty.loss())
        optimiser.zero_grad()
        found[-1].backward()
        optimiser.step()
    assert found[-1] < 0.7 * found[0]


# A training loop


def task_of(kind, model, inputs):
    """A loss of the task's own: something that moves every layer."""
    return model(**inputs)[0].sin().mean()


def trained(kind, penalties, micro=1, checkpointed=False, steps=3, **settings):
    """Parameters and multipliers after some steps of `micro` batches, under the one context of penalties.

    Where that is none, each batch has its own.
    """
    model = model_of(kind).train()
    if checkpointed:
        model.gradient_checkpointing_enable(dict(use_reentrant=False))
    optimiser = torch.optim.SGD(model.parameters(), 0.05)
    criterion = MarkovBlanketLoss(**settings)
    torch.manual_seed(1)
    with penalties(model, criterion) as shared:
        for _ in range(steps):
            optimiser.zero_grad()
            for _ in range(micro):
                inputs, _ = inputs_of(kind)
                if shared is None:
                    with markov_blanket_penalty(model, criterion=criterion) as penalty:
                        task = task_of(kind, model, inputs)
                else:
                    task, penalty = task_of(kind, model, inputs), shared
                ((task + penalty.loss()) / micro).backward()
            optimiser.step()
    return [p.detach().clone() for p in model.parameters()], getattr(criterion, "multipliers", None)


def one_context(model, criterion):
    return markov_blanket_penalty(model, criterion=criterion)


@pytest.mark.parametrize("kind", ["bert", "llama"])
@pytest.mark.parametrize("mode", ["hinge", "auglag"])
@pytest.mark.parametrize("micro", [1, 2])
@pytest.mark.parametrize("checkpointed", [False, True])
def test_a_training_loop_stands_within_one_context(kind, mode, micro, checkpointed):
    """As with a context for each batch."""
    found, gammas = trained(kind, one_context, micro, checkpointed, mode=mode)
    expected, others = trained(kind, lambda *_: nullcontext(), micro, False, mode=mode)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    assert any(
        not torch.equal(one, start) for one, start in zip(found, model_of(kind).parameters(), strict=False)
    )
    if mode == "auglag":
        torch.testing.assert_close(gammas, others)
        assert (gammas > 0).any()


def test_passes_without_a_loss_are_forgotten():
    """What is looked at between two steps, in evaluation, is no part of the next loss."""
    model, (inputs, _), (other, _) = model_of("bert"), inputs_of("bert"), inputs_of("bert", False)
    with markov_blanket_penalty(model) as penalty:
        model(**inputs)
    alone = penalty.loss()
    with markov_blanket_penalty(model) as penalty:
        for _ in range(3):
            with torch.no_grad():
                model(**other)
        model(**inputs)
        assert len(penalty.measured) == 2 and torch.equal(penalty.loss(), alone)
        model(**other)
        assert not torch.equal(penalty.loss(), alone)


@kinds
def test_multipliers_are_one_for_all_layers_and_rise_once_a_pass(kind):
    model, (inputs, valid) = model_of(kind), inputs_of(kind)
    maps = own_maps(model, inputs)
    start = dict(mode="auglag", gammas=(0.3, 0.2), rho=0.7)
    held = MarkovBlanketLoss(**start).eval()
    expected = torch.stack([held(one, valid, causal) for one, causal in maps]).mean()
    criterion = MarkovBlanketLoss(**start)
    with markov_blanket_penalty(model, criterion=criterion) as penalty:
        model.eval()(**inputs)
        torch.testing.assert_close(penalty.loss(), expected, rtol=1e-4, atol=1e-5)
        assert torch.equal(criterion.multipliers, held.multipliers)  # the model does not train
        model.train()(**inputs)
        found = [penalty.loss(), penalty.loss()]
    torch.testing.assert_close(found, [expected, expected], rtol=1e-4, atol=1e-5)
    sides = [
        [MarkovBlanketLoss(sides=(side,))(one, valid, causal) for one, causal in maps]
        for side in ("low", "high")
    ]
    risen = held.multipliers + 0.7 * torch.stack([torch.stack(side).mean() for side in sides])[:, None]
    torch.testing.assert_close(criterion.multipliers, risen, rtol=1e-4, atol=1e-5)


def test_a_criterion_that_does_not_train_keeps_its_multipliers():
    model, (inputs, _) = model_of("bert").train(), inputs_of("bert")
    criterion = MarkovBlanketLoss(mode="auglag", gammas=(0.3, 0.2)).eval()
    with markov_blanket_penalty(model, criterion=criterion) as penalty:
        model(**inputs)
    assert penalty.loss() > 0 and torch.equal(criterion.multipliers, criterion.start())


def test_layers_that_a_pass_leaves_out_are_not_in_its_loss():
    model, (inputs, _) = model_of("bert"), inputs_of("bert")
    with markov_blanket_penalty(model) as penalty:
        model(**inputs)
        first = MarkovBlanketLoss().of_excess(*penalty.measured[0])
        assert not torch.equal(penalty.loss(), first)
        model.encoder.layer = model.encoder.layer[:1]
        model(**inputs)
    assert torch.equal(penalty.loss(), first)


def test_sinkhorn_on_an_encoder_and_not_on_a_decoder():
    model, (inputs, valid) = model_of("bert"), inputs_of("bert")
    with markov_blanket_penalty(model, normalise="sinkhorn") as penalty:
        model(**inputs)
    doubly = [MarkovBlanketLoss()(sinkhorn(one, valid), valid) for one, _ in own_maps(model, inputs)]
    torch.testing.assert_close(penalty.loss(), torch.stack(doubly).mean(), rtol=1e-4, atol=1e-5)
    model, (inputs, _) = model_of("llama"), inputs_of("llama")
    with (
        pytest.raises(ValueError, match="on a causal map"),
        markov_blanket_penalty(model, normalise="sinkhorn"),
    ):
        model(**inputs)


def test_bad_use_is_named():
    model, (inputs, _) = model_of("llama"), inputs_of("llama")
    with markov_blanket_penalty(model) as penalty, pytest.raises(ValueError, match="no self-attention was"):
        penalty.loss()
    with pytest.raises(ValueError, match="came with a criterion: give one or the other"):
        with markov_blanket_penalty(model, self_loop=True, criterion=MarkovBlanketLoss()):
            pass
    cache = model(input_ids=inputs["input_ids"], use_cache=True).past_key_values
    with pytest.raises(ValueError, match="layer 0 has 1 queries and 8 keys: pass whole sentences"):
        with markov_blanket_penalty(model):
            model(input_ids=inputs["input_ids"][:, :1], past_key_values=cache)
    with pytest.raises(ValueError, match="the attention mask hides all tokens but one of item 1"):
        with markov_blanket_penalty(model):
            hidden = torch.ones(3, TOKENS, dtype=torch.long)
            hidden[1, 1:] = 0
            model(input_ids=inputs["input_ids"], attention_mask=hidden)
    with pytest.raises(ValueError, match="no layer 7"), markov_blanket_penalty(model, layers=[7]):
        pass


def test_steps_of_generation_are_not_measured():
    """As under predict_with_generate, where a Trainer generates within the context that it trains in."""
    for kind in ("llama", "marian"):
        model, (inputs, _) = model_of(kind), inputs_of(kind, padding=False)
        labels = {"labels": inputs["input_ids"]}
        with markov_blanket_penalty(model, weight=1.0) as penalty:
            before = model(**inputs, **labels).loss
            model.generate(inputs["input_ids"], max_new_tokens=3, do_sample=False)
            torch.testing.assert_close(model(**inputs, **labels).loss, before)
            assert penalty.held(training=False) > 0


def test_the_penalty_is_a_part_of_a_step_as_the_models_loss_is():
    model, (inputs, _) = model_of("llama"), inputs_of("llama", padding=False)
    labels = inputs["input_ids"].clone()
    labels[0, :4] = -100  # of 3 x 6 that are predicted, 3 are not
    alone = model(**inputs, labels=labels).loss
    with markov_blanket_penalty(model, weight=0.5) as penalty:
        whole = model(**inputs, labels=labels).loss
        part = model(**inputs, labels=labels, num_items_in_batch=torch.tensor(45)).loss
        added = 0.5 * penalty.loss()
    torch.testing.assert_close(whole, alone + added)
    torch.testing.assert_close(part, (alone + added) * 15 / 45)
