"""Noising and the loss against loops, and by hand; the view of logits at chosen positions."""

import math

import pytest
import torch

from causalnb import c2dlm
from causalnb.c2dlm.diffusion import loss_at_masked
from tests.unit.c2dlm.small import MASK, VOCABULARY, base, bert

B, T, P = 4, 9, 3
pytestmark = pytest.mark.usefixtures("double")


def problem():
    ids = torch.randint(3, MASK, (B, T))
    prompt = torch.arange(T) < torch.tensor([[P], [P + 1], [P], [0]])
    noised, masked, p = c2dlm.mask_tokens(ids, prompt, MASK, generator=torch.Generator().manual_seed(1))
    return ids, prompt, noised, masked, p


def literal_loss(logits, ids, masked, p, prompt, weight):
    total = 0
    for b in range(B):
        inner, length = 0, sum(not prompt[b, i] for i in range(T))
        for i in range(T):
            if masked[b, i]:
                surprise = -math.log(1) - (logits[b, i, ids[b, i]] - torch.log(torch.exp(logits[b, i]).sum()))
                inner = inner + surprise / (p[b] if weight == "1/t" else 1)
        total = total + inner / length
    return total / B


@pytest.mark.parametrize("weight", ["1/t", "none"])
def test_the_loss_is_the_literal_one_with_gradients(weight):
    ids, prompt, _, masked, p = problem()
    logits, found = torch.randn(B, T, VOCABULARY), []
    for loss in (c2dlm.diffusion_loss, literal_loss):
        given = logits.clone().requires_grad_()
        value = loss(given, ids, masked, p, prompt, weight)
        value.backward()
        found.append((value.detach(), given.grad))
    torch.testing.assert_close(found[0], found[1], rtol=0, atol=1e-10)
    assert masked.any(1).all() and (found[0][1][~masked] == 0).all()


def test_the_loss_by_hand():
    """One of two response tokens masked at p = 1/4, uniform over 8: log(8) / (2 * 1/4)."""
    prompt = torch.tensor([[True, False, False]])
    masked, p = torch.tensor([[False, True, False]]), torch.tensor([0.25])
    loss = c2dlm.diffusion_loss(torch.zeros(1, 3, 8), torch.tensor([[1, 2, 3]]), masked, p, prompt)
    assert loss.item() == pytest.approx(2 * math.log(8))


def test_nothing_masked_is_zero_with_a_gradient():
    logits = torch.randn(1, 3, 8, requires_grad=True)
    none, prompt = torch.zeros(1, 3, dtype=torch.bool), torch.tensor([[True, False, False]])
    loss = c2dlm.diffusion_loss(logits, torch.ones(1, 3, dtype=torch.long), none, torch.ones(1), prompt)
    loss.backward()
    assert loss.item() == 0 and (logits.grad == 0).all()


def test_prompts_stay_and_masks_are_drawn_at_p():
    ids, prompt = torch.randint(3, MASK, (3000, 20)), torch.zeros(3000, 20, dtype=torch.bool)
    prompt[:, :5] = True
    draw = torch.Generator().manual_seed(5)
    noised, masked, p = c2dlm.mask_tokens(ids, prompt, MASK, generator=draw)
    assert (noised[:, :5] == ids[:, :5]).all() and not masked[:, :5].any()
    assert torch.equal(noised == MASK, masked) and torch.equal(noised[~masked], ids[~masked])
    assert p.shape == (3000,) and 1e-3 < p.min() < 0.01 and 0.99 < p.max() <= 1
    rate = masked[:, 5:].double().mean(1)
    assert (rate / p).mean().item() == pytest.approx(1, abs=0.05)  # E[m / p] = 1
    assert abs(p.mean().item() - 0.5005) < 0.02 and (rate - p).abs().mean() < 0.1
    assert torch.equal(c2dlm.mask_tokens(ids, prompt, MASK, generator=draw.manual_seed(5))[1], masked)


def test_t_may_be_given():
    ids, prompt, *_ = problem()
    everything = c2dlm.mask_tokens(ids, prompt, MASK, t=1.0)
    assert torch.equal(everything[1], ~prompt) and (everything[2] == 1).all()
    p = c2dlm.mask_tokens(ids, prompt, MASK, t=torch.tensor([0.2, 0.4, 0.6, 1.0]), eps=0.1)[2]
    torch.testing.assert_close(p, torch.tensor([0.28, 0.46, 0.64, 1.0]))


def test_what_does_not_fit_is_refused():
    ids, prompt, *_ = problem()
    for t in (0.0, 1.5, -1.0, float("nan")):
        with pytest.raises(ValueError, match=rf"t is {t:g}: the share of noise must lie in \(0, 1\]"):
            c2dlm.mask_tokens(ids, prompt, MASK, t=t)
    with pytest.raises(ValueError, match=r"eps is 1: choose it in \[0, 1\)"):
        c2dlm.mask_tokens(ids, prompt, MASK, eps=1)
    prompt[2] = True
    with pytest.raises(ValueError, match="row 2 is prompt throughout: mark its response with 0"):
        c2dlm.mask_tokens(ids, prompt, MASK)
    with pytest.raises(ValueError, match=r"prompt_mask \(4, 8\): both must be \(batch, tokens\)"):
        c2dlm.mask_tokens(ids, prompt[:, 1:], MASK)
    ids, prompt, _, masked, p = problem()
    with pytest.raises(ValueError, match="weight is '1/p': choose '1/t' or 'none'"):
        loss_at_masked(torch.zeros(1, 5), ids, masked, p, prompt, "1/p")


@pytest.mark.parametrize("model", [base(), base("gpt2"), bert()], ids=lambda m: type(m).__name__)
def test_logits_at_chosen_positions_are_the_models_own(model):
    ids = torch.randint(3, MASK, (2, 6))
    masked = torch.rand(2, 6) < 0.5
    whole = model(input_ids=ids).logits
    with c2dlm.logits_at(model, (masked,)):
        chosen = model(input_ids=ids).logits
    torch.testing.assert_close(chosen[0], whole[masked], rtol=0, atol=1e-5)
    assert chosen.shape == (1, int(masked.sum()), VOCABULARY)
    assert torch.equal(model(input_ids=ids).logits, whole)
    with pytest.raises(ValueError, match="has no output embeddings: pass a model with a language head"):
        with c2dlm.logits_at(model.base_model, (masked,)):
            pass


def test_noise_in_order_keeps_the_first_by_rank():
    ids, prompt, *_ = problem()
    ids, prompt = ids.repeat(500, 1), prompt.repeat(500, 1)
    rank = torch.randint(0, 5, ids.shape)
    noised, masked, p = c2dlm.mask_in_order(ids, prompt, MASK, rank, torch.Generator().manual_seed(0))
    kept = []
    for b in range(len(ids)):
        order = sorted((i for i in range(T) if not prompt[b, i]), key=lambda i: (int(rank[b, i]), i))
        clean = [i for i in order if not masked[b, i]]
        assert clean == order[: len(clean)] and not masked[b][prompt[b]].any()
        assert p[b] == (len(order) - len(clean)) / len(order)
        kept.append(len(clean) / len(order))
    assert set(kept[0::4]) == {k / (T - P) for k in range(T - P)}
    assert torch.equal(noised, ids.masked_fill(masked, MASK))
    with pytest.raises(ValueError, match=r"rank has shape \(3,\), but input_ids \(2000, 9\): give one rank"):
        c2dlm.mask_in_order(ids, prompt, MASK, rank[0, :3])


def test_the_loss_in_order_is_the_sum_over_its_chain():
    """With the loss of the next token alone, noise in order is the chain rule; here k is enumerated."""
    ids, prompt = torch.tensor([[3, 4, 5, 6]]), torch.tensor([[True, False, False, False]])
    rank, seen = torch.tensor([[0, 2, 1, 3]]), {}
    for seed in range(60):
        _, masked, p = c2dlm.mask_in_order(ids, prompt, MASK, rank, torch.Generator().manual_seed(seed))
        seen[float(p)] = masked[0].tolist()
    assert seen == {
        1.0: [False, True, True, True],
        2 / 3: [False, True, False, True],
        1 / 3: [False, False, False, True],
    }


def test_a_mask_of_numbers_and_labels_that_are_missing():
    ids, prompt = torch.tensor([[3, 4, 5, 6]]), torch.tensor([[1, 0, 0, 0]])
    logits, masked, p = torch.randn(1, 4, 9), torch.tensor([[0, 1, 0, 1]]), torch.tensor([0.5])
    expected = c2dlm.diffusion_loss(logits, ids, masked.bool(), p, prompt.bool())
    assert torch.equal(c2dlm.diffusion_loss(logits, ids, masked, p, prompt), expected)
    clean = ids.masked_fill(masked == 0, -100)
    assert torch.equal(c2dlm.diffusion_loss(logits, clean, masked, p, prompt), expected)
    with pytest.raises(ValueError, match="the label -100 stands at a masked position: give its clean id"):
        c2dlm.diffusion_loss(logits, torch.full_like(ids, -100), masked, p, prompt)


def test_rows_draw_from_generators_of_their_own():
    ids, prompt = torch.arange(1, 41).view(4, 10), (torch.arange(10) < 3).repeat(4, 1)
    ranks = torch.arange(10).flip(0).repeat(4, 1)

    def own():
        return [torch.Generator().manual_seed(seed) for seed in range(4)]

    for noise, given in ((c2dlm.mask_tokens, {}), (c2dlm.mask_in_order, {"rank": ranks})):
        together = noise(ids, prompt, MASK, **given, generator=own())
        for row, generator in enumerate(own()):
            at = slice(row, row + 1)
            alone = noise(
                ids[at], prompt[at], MASK, **{k: v[at] for k, v in given.items()}, generator=generator
            )
            assert all(map(torch.equal, [whole[at] for whole in together], alone))
        with pytest.raises(ValueError, match="3 generators came with 4 rows"):
            noise(ids, prompt, MASK, **given, generator=own()[:3])
