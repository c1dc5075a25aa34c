"""The sampler against a plain loop, on our model and on a plain masked one; what it must never do."""

from collections import Counter
from contextlib import nullcontext

import pytest
import torch
import transformers

from causalnb import c2dlm
from causalnb.c2dlm import sampling
from tests.unit.c2dlm.small import MASK, VOCABULARY, base, bert, wrapped

B, P = 3, 4


def literal(model, prompt, gen_length, block_length, steps, eos=(), last=False):
    """One sequence at a time, whole logits, one loop for each token to fix."""
    out = []
    for row in prompt:
        x = torch.cat([row, torch.full((gen_length,), MASK)])
        turns = steps // (gen_length // block_length)
        for first in range(len(row), len(x), block_length):
            for turn in range(turns):
                logits = model(input_ids=x[None]).logits[0].double()
                logits[:, MASK] = -torch.inf
                probability = logits.softmax(-1)
                confidence, token = probability.max(-1)
                for _ in range(block_length // turns + (turn < block_length % turns)):
                    best = None
                    for place in range(first, first + block_length):
                        key = (not (last and token[place] in eos), confidence[place].item())
                        if x[place] == MASK and (best is None or key > best[0]):
                            best = (key, place)
                    x[best[1]] = token[best[1]]
        out.append(x)
    return torch.stack(out)


@pytest.mark.parametrize(
    "model", [wrapped(base(dtype=torch.float64)), bert(torch.float64)], ids=lambda m: type(m).__name__
)
@pytest.mark.parametrize("block, steps", [(8, 8), (8, 3), (4, 6), (2, 4), (1, 8)])
def test_equal_to_the_plain_loop(model, block, steps):
    prompt = torch.randint(3, MASK, (B, P))
    ids = c2dlm.sample(model, prompt, 8, block, steps, mask_token_id=MASK)
    assert torch.equal(ids, literal(model, prompt, 8, block, steps))
    assert torch.equal(ids[:, :P], prompt) and not (ids == MASK).any()


def test_the_vocabulary_is_computed_at_open_positions_only():
    model, seen = wrapped(), []
    model.get_output_embeddings().register_forward_hook(lambda *given: seen.append(given[2].shape))
    c2dlm.sample(model, torch.randint(3, MASK, (B, P)), 8, 4, 4)
    assert seen == [(1, B, n, VOCABULARY) for n in (4, 2, 4, 2)]


@pytest.mark.parametrize("rows", [1, B])
def test_a_model_that_does_not_see_the_hook_samples_the_same(rows, monkeypatch):
    """As after torch.compile, whose graph of another pass has none."""
    model, prompt = wrapped(), torch.randint(3, MASK, (rows, P))
    seen = c2dlm.sample(model, prompt, 8, 4, 4)
    monkeypatch.setattr(sampling, "logits_at", lambda *_: nullcontext())
    assert torch.equal(c2dlm.sample(model, prompt, 8, 4, 4), seen)


def test_the_order_and_blocks_of_one_token():
    model, prompt = wrapped(), torch.randint(3, MASK, (B, P))
    _, order = c2dlm.sample(model, prompt, 6, 1, 6, return_order=True)
    assert (order == torch.arange(6)).all()  # left to right
    ids, order = c2dlm.sample(model, prompt, 6, 3, 4, return_order=True)
    for line in order.tolist():
        assert Counter(line[:3]) == {0: 2, 1: 1} and Counter(line[3:]) == {2: 2, 3: 1}
    rank = torch.tensor([2, 1, 0, 0, 1, 2])
    _, ranked = c2dlm.sample(model, prompt, 6, 6, 6, rank=rank, return_order=True)
    assert (ranked[:, [2, 3]].amax(1) < ranked[:, [1, 4]].amin(1)).all()
    assert (ranked[:, [1, 4]].amax(1) < ranked[:, [0, 5]].amin(1)).all()


def test_under_a_mask_of_queries_and_keys():
    model, prompt = wrapped(base(dtype=torch.float64)), torch.randint(3, MASK, (B, P))
    seen = torch.rand(B, 1, P + 6, P + 6) < 0.6
    seen |= torch.eye(P + 6, dtype=torch.bool)
    ids = c2dlm.sample(model, prompt, 6, 6, 6, attention_mask=seen)
    for row, sheet, out in zip(prompt, seen, ids, strict=True):

        def masked(input_ids, sheet=sheet):
            return model(input_ids=input_ids, attention_mask=sheet[None])

        assert torch.equal(literal(masked, row[None], 6, 6, 6)[0], out)
    assert not torch.equal(ids, c2dlm.sample(model, prompt, 6, 6, 6))
    for dtype in (torch.float64, torch.int64):
        assert torch.equal(c2dlm.sample(model, prompt, 6, 6, 6, attention_mask=seen.to(dtype)), ids)
    with pytest.raises(ValueError, match="attention_mask holds -1: mark with 1 and 0"):
        c2dlm.sample(model, prompt, 6, 6, 6, attention_mask=seen.double() - 1)


def test_a_mask_of_queries_and_keys_is_refused_where_attention_would_add_it():
    prompt, seen = torch.full((B, P), 5), torch.ones(B, 1, P + 4, P + 4, dtype=torch.bool)
    model = bert()
    model.set_attn_implementation("eager")
    with pytest.raises(
        ValueError, match=r"under eager attention, which would add it .*: call model.set_attn"
    ):
        c2dlm.sample(model, prompt, 4, 4, 4, mask_token_id=MASK, attention_mask=seen)
    seen[..., 1:3] = False
    ours = wrapped()
    ours.base.set_attn_implementation("eager")
    hidden = prompt.clone()
    hidden[:, 1:3] = 9
    one, other = (c2dlm.sample(ours, ids, 4, 4, 4, attention_mask=seen)[:, P:] for ids in (prompt, hidden))
    assert torch.equal(one, other)


def test_ids_may_be_short_and_must_be_whole():
    model, prompt = wrapped(), torch.randint(3, MASK, (B, P))
    assert torch.equal(c2dlm.sample(model, prompt.int(), 4, 4, 4), c2dlm.sample(model, prompt, 4, 4, 4))
    with pytest.raises(ValueError, match="prompt_ids are of torch.float32: pass ids, whole numbers"):
        c2dlm.sample(model, prompt.float(), 4, 4, 4)


def test_random_remasking_and_temperature_take_their_generator():
    model, prompt = wrapped(), torch.randint(3, MASK, (1, P)).expand(200, -1)
    draws = [
        c2dlm.sample(
            model,
            prompt[:20],
            6,
            6,
            3,
            remasking="random",
            return_order=True,
            generator=torch.Generator().manual_seed(seed),
        )
        for seed in (0, 0, 1)
    ]
    assert torch.equal(draws[0][1], draws[1][1]) and torch.equal(draws[0][0], draws[1][0])
    assert not torch.equal(draws[0][1], draws[2][1])
    ids = c2dlm.sample(model, prompt, 1, 1, 1, temperature=1.0, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        logits = model(torch.cat([prompt[:1], torch.tensor([[MASK]])], 1)).logits[0, -1]
    logits[MASK] = -torch.inf
    shares = torch.bincount(ids[:, -1], minlength=VOCABULARY) / 200
    assert (shares - logits.softmax(-1)).abs().max() < 0.1
    greedy = c2dlm.sample(model, prompt, 1, 1, 1)
    assert (greedy[:, -1] == logits.argmax()).all()


def test_eos_last_and_never():
    model, prompt = wrapped(base(dtype=torch.float64)), torch.randint(3, MASK, (B, P))
    ids = c2dlm.sample(model, prompt, 8, 8, 8)
    changed = 0
    common = sorted(set(ids[:, P:].flatten().tolist()))[:3]
    both = c2dlm.sample(model, prompt, 8, 8, 8, eos_token_id=common, eos="last")
    assert torch.equal(both, literal(model, prompt, 8, 8, 8, common, True))
    never = c2dlm.sample(model, prompt, 8, 8, 8, eos_token_id=common, eos="never")
    assert not torch.isin(never[:, P:], torch.tensor(common)).any()
    for eos in common:
        never = c2dlm.sample(model, prompt, 8, 8, 8, eos_token_id=eos, eos="never")
        assert not (never[:, P:] == eos).any()
        last = c2dlm.sample(model, prompt, 8, 8, 8, eos_token_id=eos, eos="last")
        assert torch.equal(last, literal(model, prompt, 8, 8, 8, [eos], True))
        changed += not torch.equal(last, ids)
    assert changed


def test_left_padding_changes_nothing():
    model, prompt = wrapped(base(dtype=torch.float64)), torch.randint(3, MASK, (B, P))
    padded = torch.cat([torch.zeros(B, 3, dtype=torch.long), prompt], 1)
    mask = torch.cat([torch.zeros(B, 3, dtype=torch.long), torch.ones_like(prompt)], 1)
    both = [c2dlm.sample(model, prompt, 6, 3, 6), c2dlm.sample(model, padded, 6, 3, 6, attention_mask=mask)]
    assert torch.equal(both[0], both[1][:, 3:])


@pytest.mark.parametrize(
    "change, said",
    [
        (dict(gen_length=7), "gen_length 7 is not a multiple of block_length 4: choose lengths that divide"),
        (dict(steps=3), "3 steps do not divide among 2 blocks: choose a multiple of 2"),
        (dict(steps=10), "10 steps are more than the 8 tokens to fill: choose at most that many"),
        (
            dict(prompt_ids=torch.tensor([[3, MASK], [MASK, MASK]])),
            "prompt 1 is all mask: give it at least one",
        ),
        (dict(prompt_ids=torch.tensor([3, 4])), r"prompt_ids have shape \(2,\): pass \(batch, tokens\)"),
        (dict(temperature=-1.0), r"temperature is -1.0: choose 0 \(greedy\) or more"),
        (dict(remasking="high"), "remasking is 'high': choose 'low_confidence' or 'random'"),
        (dict(eos="last"), "eos is 'last' with eos_token_id None: choose 'free', or 'last' or 'never' with"),
    ],
)
def test_what_does_not_fit_is_refused(change, said):
    given = dict(prompt_ids=torch.tensor([[3, 4]]), gen_length=8, block_length=4, steps=8)
    with pytest.raises(ValueError, match=said):
        c2dlm.sample(wrapped(), **given | change)


def test_a_model_that_names_no_mask_token():
    with pytest.raises(ValueError, match="BertForMaskedLM names no mask token: pass mask_token_id"):
        c2dlm.sample(bert(), torch.tensor([[3, 4]]), 4, 4, 4)


def roberta():
    """A masked model that numbers positions past its padding."""
    torch.manual_seed(0)
    config = transformers.RobertaConfig(
        vocab_size=VOCABULARY,
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=20,
        max_position_embeddings=40,
        pad_token_id=1,
    )
    model = transformers.RobertaForMaskedLM(config).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return model


def test_positions_past_the_padding():
    model, prompt = roberta(), torch.randint(3, MASK, (4, P))
    seen = torch.ones_like(prompt)
    both = [
        c2dlm.sample(model, prompt, 6, 6, 6, mask_token_id=MASK, attention_mask=mask) for mask in (None, seen)
    ]
    assert torch.equal(*both)
    seen[1, 0] = 0
    with pytest.raises(ValueError, match="RobertaForMaskedLM numbers its positions from 2, past its padding"):
        c2dlm.sample(model, prompt, 6, 6, 6, mask_token_id=MASK, attention_mask=seen)
    with pytest.raises(ValueError, match=r"attention_mask has shape \(4, 3\), but prompt_ids \(4, 4\): pass"):
        c2dlm.sample(model, prompt, 6, 6, 6, mask_token_id=MASK, attention_mask=seen[:, 1:])
