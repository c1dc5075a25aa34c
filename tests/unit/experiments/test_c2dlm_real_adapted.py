"""A causal decoder on its way to a masked diffusion model: what it is at first, and what comes into sight."""

import copy

import pytest
import torch
from transformers import set_seed

from causalnb.c2dlm import MaskedDiffusionModel, NumberedRows, sample
from causalnb.experiments.c2dlm import real
from causalnb.experiments.c2dlm.real_adapted import AnnealedCollator, keep_shift
from causalnb.lab import registry
from causalnb.lab.bases import pretrained
from causalnb.lab.registry import Run

ID, ARM, TEXT = (
    "c2dlm.real.adapted",
    "shifted",
    "What follows a token comes into its sight a little at a time.",
)


@pytest.fixture
def both():
    """A tiny decoder as it was, and its copy as a diffusion model that keeps the shift; float64."""
    set_seed(0)
    base = pretrained("tiny", [TEXT])
    before = base.model.double().eval()
    decoder = copy.deepcopy(before)
    keep_shift(decoder)
    return base, before, MaskedDiffusionModel.from_base(decoder, base.special("mask"))


def rows_of(base, count):
    ids = base.ids(TEXT)
    rows = [{"input_ids": ids, "prompt_mask": [1] * 5 + [0] * (len(ids) - 5)}] * count
    return NumberedRows(rows, range(count))


def test_at_first_it_is_the_decoder_that_was_trained(both):
    base, before, model = both
    collator = AnnealedCollator(base.special("mask"), base.special("eos"), causal=8)
    batch = collator([rows_of(base, 1)[0]])
    seen = {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"]}
    with torch.no_grad():
        told = before(batch["input_ids"]).logits
        torch.testing.assert_close(model.eval()(**seen).logits[:, 1:], told[:, :-1], rtol=0, atol=1e-12)
        masked = batch["masked"].nonzero()
        surprise = [-told[row, at - 1].log_softmax(-1)[batch["labels"][row, at]] for row, at in masked]
        expected = sum(surprise) / batch["p"][0] / (batch["prompt_mask"] == 0).sum()
        for mode in (True, False):  # at masked places alone, and at all
            torch.testing.assert_close(model.train(mode)(**batch).loss, expected, rtol=1e-6, atol=1e-9)
        assert not torch.allclose(model.eval()(batch["input_ids"]).logits[:, 1:], told[:, :-1])


def test_what_is_sampled_is_read_one_place_before(both):
    base, before, model = both
    ids = torch.tensor([base.ids(TEXT)[:6]])
    before.config.is_causal = False
    with torch.no_grad():
        masks = torch.full((1, 2), base.special("mask"))
        surest = before(torch.cat([ids, masks], 1), use_cache=False).logits[0, 5:7].softmax(-1).max(-1)
    place = int(surest.values.argmax())
    assert sample(model.eval(), ids, 2, 2, 2)[0, 6 + place] == surest.indices[place]


def test_what_follows_comes_into_sight_by_degrees(both):
    base, *_ = both
    rows = rows_of(base, 64)
    collator = AnnealedCollator(base.special("mask"), base.special("eos"), seed=3, causal=32)
    tokens = len(rows[0]["input_ids"])
    later, shares = torch.ones(tokens, tokens, dtype=torch.bool).triu(1), []
    for draw in range(32):
        seen = collator([rows[draw]])["attention_mask"][0, 0]
        assert seen[~later].all()
        shares.append(float(seen[later].double().mean()))
    assert shares[0] == 0
    assert all(abs(share - draw / 32) < 0.15 for draw, share in enumerate(shares))
    assert "attention_mask" not in collator([rows[32], rows[63]])
    pair = collator([rows[40], rows[20]])["attention_mask"]
    assert pair[0].all() and torch.equal(pair[1:], collator([rows[20]])["attention_mask"])
    other = AnnealedCollator(base.special("mask"), base.special("eos"), seed=4, causal=32)
    assert not torch.equal(pair[1:], other([rows[20]])["attention_mask"])
    with pytest.raises(ValueError, match="row 0 has no draw: number rows, as NumberedRows does"):
        collator([dict(rows[0], draw=None)])


@pytest.mark.parametrize("bf16", [False, True])
@pytest.mark.parametrize("shifted", [False, True])
def test_it_trains_and_is_scored(shifted, bf16, tmp_path):
    settings = registry.config(ID, ARM, "quick")
    settings = {**settings, "bf16": bf16, "shifted": shifted, "annealed": 0.5 * shifted}
    out = real.run_real(Run(ID, ARM, 0, "quick", settings, tmp_path, "cpu", lambda *_: None))
    assert len(out["history"]) == 2 and 0 <= out["metrics"]["iid"]["accuracy"] <= 1
    assert registry.config(ID, ARM, "laptop")["bf16"]
