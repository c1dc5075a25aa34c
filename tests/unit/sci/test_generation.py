"""Decoding with slots bound once: cached equals uncached equals forward, padded, in beams."""

import pytest
import torch
from transformers import GenerationConfig

from causalnb import sci
from causalnb.sci.contrasts import SlotDecoder
from tests.unit.sci.tiny import BASES, FORCED, SLOTS, VOCABULARY, WIDTH, base, left_padded
from tests.unit.sci.tiny import sci as wrapped

every_base = pytest.mark.parametrize("name", BASES)
PROMPTS = [torch.randint(3, VOCABULARY, (n,), generator=torch.Generator().manual_seed(n)) for n in (7, 3, 5)]


def greedy_by_forward(model, prompt, steps, do=None):
    """Greedy decoding spelt out: the whole sequence through forward at every step, without the end."""
    ids = prompt[None]
    for _ in range(steps):
        mask = (torch.arange(ids.shape[1]) < len(prompt)).long()[None]
        logits = model(ids, prompt_mask=mask, do=do).logits[:, -1].detach()
        logits[:, model.base.generation_config.eos_token_id] = -torch.inf
        ids = torch.cat([ids, logits.argmax(-1, keepdim=True)], 1)
    return ids[0]


@every_base
def test_cached_uncached_one_by_one_and_by_forward_agree(name):
    model = wrapped(base(name))
    ids, mask = left_padded(PROMPTS)
    together = model.generate(ids, mask, **FORCED)
    assert torch.equal(together, model.generate(ids, mask, **FORCED, use_cache=False))
    for row, prompt in enumerate(PROMPTS):
        alone = model.generate(prompt[None], **FORCED)[0]
        assert torch.equal(alone, greedy_by_forward(model, prompt, 6))
        assert torch.equal(together[row, -len(alone) :], alone)
    assert not torch.equal(together, base(name).generate(input_ids=ids, attention_mask=mask, **FORCED))
    assert model._bound is None


@every_base
def test_scores_with_a_cache_are_those_without(name):
    model = wrapped(base(name))
    ids, mask = left_padded(PROMPTS)
    kept = dict(return_dict_in_generate=True, output_logits=True)
    cached, uncached = (
        model.generate(ids, mask, **FORCED, **kept, use_cache=use).logits for use in (True, False)
    )
    torch.testing.assert_close(cached, uncached, rtol=0, atol=1e-6)  # RoPE and RMS norms are float32
    first = torch.stack([model(prompt[None]).logits[0, -1] for prompt in PROMPTS])
    torch.testing.assert_close(cached[0], first.float(), rtol=0, atol=1e-5)


@every_base
@pytest.mark.parametrize("returned", [1, 3])
def test_beams_agree_with_and_without_a_cache_and_one_by_one(name, returned):
    model = wrapped(base(name))
    ids, mask = left_padded(PROMPTS)
    beams = FORCED | dict(num_beams=3, num_return_sequences=returned)
    together = model.generate(ids, mask, **beams)
    assert len(together) == 3 * returned
    assert torch.equal(together, model.generate(ids, mask, **beams, use_cache=False))
    for row, prompt in enumerate(PROMPTS):
        alone = model.generate(prompt[None], **beams)
        assert torch.equal(together[returned * row : returned * row + returned, -alone.shape[1] :], alone)


def test_several_samples_of_a_prompt_read_its_slots():
    model, prompt = wrapped(), PROMPTS[1][None]
    settings = dict(do_sample=True, max_new_tokens=6, min_new_tokens=6, pad_token_id=0)
    torch.manual_seed(0)
    drawn = model.generate(prompt, **settings, num_return_sequences=4)
    torch.manual_seed(0)
    assert torch.equal(drawn, model.generate(prompt.expand(4, -1), **settings))
    assert len({tuple(row.tolist()) for row in drawn}) > 1


def test_greedy_is_the_only_beam():
    model = wrapped()
    ids, mask = left_padded(PROMPTS)
    torch.testing.assert_close(
        model.generate(ids, mask, **FORCED), model.generate(ids, mask, **FORCED, num_beams=1)
    )


def test_an_end_token_ends_its_row_alone():
    model, settings = wrapped(), dict(max_new_tokens=8, do_sample=False, pad_token_id=0)
    ids, mask = left_padded(PROMPTS)
    free = model.generate(ids, mask, **settings, eos_token_id=1)[:, ids.shape[1] :].tolist()
    assert 1 not in sum(free, [])
    ending = next(token for token in free[0] if any(token not in row for row in free))
    expected = [
        row[: row.index(ending) + 1] + [0] * (7 - row.index(ending)) if ending in row else row for row in free
    ]
    ended = model.generate(ids, mask, **settings, eos_token_id=ending)[:, ids.shape[1] :].tolist()
    assert ended == expected != free


@pytest.mark.parametrize("beams", [1, 2])
def test_do_holds_while_decoding(beams):
    model = wrapped()
    ids, mask = left_padded(PROMPTS)
    value = 3 * torch.randn(3, WIDTH, dtype=torch.float64)
    plain, held = (model.generate(ids, mask, do=do, **FORCED, num_beams=beams) for do in (None, {0: value}))
    assert not torch.equal(plain, held)
    assert torch.equal(
        held, model.generate(ids, mask, do={0: value}, **FORCED, num_beams=beams, use_cache=False)
    )
    for row, prompt in enumerate(PROMPTS if beams == 1 else []):
        alone = greedy_by_forward(model, prompt, 6, do={0: value[row : row + 1]})
        assert torch.equal(held[row, -len(alone) :], alone)


def test_generation_needs_no_gradient_and_refuses_what_does_not_fit():
    model = wrapped()
    ids, mask = left_padded(PROMPTS)
    assert (
        not model.generate(ids, mask, **FORCED, return_dict_in_generate=True, output_logits=True)
        .logits[0]
        .requires_grad
    )
    with pytest.raises(ValueError, match=r"attention_mask has shape \(3, 6\), but input_ids \(3, 7\)"):
        model.generate(ids, mask[:, 1:], **FORCED)
    with pytest.raises(ValueError, match="row 0 has no prompt token"):
        model.generate(ids, torch.zeros_like(mask), **FORCED)
    with pytest.raises(ValueError, match="row 1 has no prompt token"):
        model.generate(ids, mask * torch.tensor([[1], [0], [1]]), **FORCED)
    with pytest.raises(ValueError, match=rf"do\(\) names slot {SLOTS}"):
        model.generate(ids, mask, do={SLOTS: torch.zeros(3, WIDTH)}, **FORCED)
    assert model._bound is None


def test_the_sliding_window_is_shorter_than_the_sequences():
    assert base("mistral").config.sliding_window < min(map(len, PROMPTS)) + FORCED["max_new_tokens"] - 1
    model, wide = wrapped(base("mistral")), wrapped(base("mistral", sliding_window=None))
    assert (model(PROMPTS[0][None]).logits - wide(PROMPTS[0][None]).logits).abs().max() > 1e-3


@pytest.mark.parametrize("wrapper", [sci.SCITransformer, sci.SeparatedSCI, SlotDecoder])
def test_padding_is_seen_without_a_mask(wrapper):
    settings = dict(n_structural_slots=SLOTS, d_structure=WIDTH, n_structural_heads=2)
    if wrapper is sci.SeparatedSCI:
        settings["class_width"] = 2.0  # so that content counts in an untrained model
    model = wrapper.from_base(base(pad_token_id=None), **settings).eval()
    for projection in getattr(getattr(model, "causal_binding", None), "output_proj", []):
        torch.nn.init.normal_(projection.weight, std=0.7)
    ids, mask = left_padded(PROMPTS)
    kept = dict(max_new_tokens=3, min_new_tokens=3, return_dict_in_generate=True, output_logits=True)
    kept["do_sample"] = False

    def first(*given, **keywords):
        return model.generate(*given, **kept | keywords).logits[0]

    masked, whole = first(ids, mask, pad_token_id=0), first(ids, torch.ones_like(mask), pad_token_id=0)
    assert not torch.equal(masked[1], whole[1])
    assert torch.equal(first(ids, pad_token_id=0), masked)
    assert torch.equal(first(ids, generation_config=GenerationConfig(pad_token_id=0, eos_token_id=2)), masked)
    assert torch.equal(first(ids, pad_token_id=0, eos_token_id=[2, 0]), first(
        ids, torch.ones_like(mask), pad_token_id=0, eos_token_id=[2, 0]))  # fmt: skip
    model.base.generation_config.pad_token_id = 0
    assert torch.equal(first(ids), masked)
