"""A causal decoder on its way to a masked diffusion model: what it is at first, and what comes into sight."""

import copy
from math import isfinite
from types import SimpleNamespace

import pytest
import torch
from transformers import set_seed

from causalnb.c2dlm import MaskedDiffusionCollator, MaskedDiffusionModel, NumberedRows, sample
from causalnb.c2dlm.adapted import AnnealedCollator, keep_shift
from causalnb.errors import LabError
from causalnb.experiments.c2dlm import real
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
    collator = AnnealedCollator(base.special("mask"), base.special("eos"), anneal_rows=8)
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
    collator = AnnealedCollator(base.special("mask"), base.special("eos"), seed=3, anneal_rows=32)
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
    other = AnnealedCollator(base.special("mask"), base.special("eos"), seed=4, anneal_rows=32)
    assert not torch.equal(pair[1:], other([rows[20]])["attention_mask"])
    with pytest.raises(ValueError, match="row 0 has no draw: number rows, as NumberedRows does"):
        collator([dict(rows[0], draw=None)])


def test_shorter_rows_see_their_padding_as_any_token(both):
    base, *_ = both
    long, short = rows_of(base, 1)[0], {"input_ids": base.ids(TEXT)[:8], "prompt_mask": [1] * 5 + [0] * 3}
    collator = AnnealedCollator(base.special("mask"), base.special("eos"), anneal_rows=9)
    batch = collator([{**long, "draw": 0}, {**short, "draw": 8}])
    tokens = len(long["input_ids"])
    assert batch["attention_mask"].shape == (2, 1, tokens, tokens)
    assert torch.equal(batch["attention_mask"][0, 0], torch.ones(tokens, tokens, dtype=torch.bool).tril())
    assert batch["attention_mask"][1, 0, :8, 8:].any()


def found_by(folder, monkeypatch, progress=lambda *_: None, **changes):
    """What a quick run finds, with the model that it tuned."""
    models, answers = [], real.answers
    monkeypatch.setattr(real, "answers", lambda model, *given: models.append(model) or answers(model, *given))
    settings = {**registry.config(ID, ARM, "quick"), **changes}
    found = real.run_real(Run(ID, ARM, 0, "quick", settings, folder, "cpu", progress))
    return found, models[-1].eval()


@pytest.mark.parametrize("bf16", [False, True])
@pytest.mark.parametrize("shifted", [False, True])
def test_it_trains_and_is_scored_as_its_settings_say(shifted, bf16, tmp_path, monkeypatch):
    given = dict(bf16=bf16, shifted=shifted, annealed=0.5 * shifted)
    out, model = found_by(tmp_path, monkeypatch, **given)
    assert len(out["history"]) == 2 and all(isfinite(look["loss"]) for look in out["history"])
    assert ("flow/raw" in out["metrics"]) == (not shifted)
    frozen = [
        one for one in model.base.modules() if type(one) is torch.nn.Linear and not one.weight.requires_grad
    ]
    kept = {one.weight.dtype for one in frozen if one is not model.get_output_embeddings()}
    assert kept == {torch.bfloat16 if bf16 else torch.float32}
    first, other = torch.tensor([[5, 6, 7, 8]]), torch.tensor([[5, 6, 7, 9]])
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=bf16):
        (one,), (two,) = (model(input_ids=ids).logits for ids in (first, other))
        last = model.base.base_model(input_ids=first).last_hidden_state[0]  # as the hook leaves it
    assert not torch.equal(one[0], two[0])  # what follows is seen
    assert torch.equal(last[0], last[1]) == torch.equal(one[0], one[1]) == shifted


def test_its_collator_hides_what_follows_in_the_first_part_of_the_rows():
    settings = registry.config(ID, ARM, "laptop")
    named = SimpleNamespace(
        special={"mask": 3, "sep": 4, "eos": 4}.get, tokenizer=SimpleNamespace(sep_token_id=None)
    )
    collator = real.collator_of(settings, named, 5)
    assert isinstance(collator, AnnealedCollator) and collator.seed == 5
    assert collator.anneal_rows == settings["annealed"] * settings["steps"] * settings["batch"] == 4800
    plain = real.collator_of({**settings, "annealed": 0.0}, named, 5)
    assert type(plain) is MaskedDiffusionCollator and plain.seed == 5


def test_stopped_half_way_it_ends_with_the_same_numbers(tmp_path, monkeypatch):
    def stopped(step, *_):
        if step == 2:
            raise KeyboardInterrupt

    given = dict(annealed=0.5, steps=3)
    whole, _ = found_by(tmp_path / "whole", monkeypatch, **given)
    with pytest.raises(KeyboardInterrupt):
        found_by(tmp_path / "parts", monkeypatch, stopped, **given)
    again, _ = found_by(tmp_path / "parts", monkeypatch, **given)
    assert again == whole and len(whole["history"]) == 3


@pytest.mark.parametrize("changes", [dict(graph="causal"), dict(enforced=1.0), dict(kind="filler", lora=0)])
@pytest.mark.parametrize("device", [dict(shifted=True, annealed=0.0), dict(shifted=False, annealed=0.3)])
def test_a_graph_and_an_encoder_have_no_shift(changes, device, tmp_path, monkeypatch):
    with pytest.raises(LabError, match="shifted and annealed are for a decoder without a graph"):
        found_by(tmp_path, monkeypatch, **changes, **device)
