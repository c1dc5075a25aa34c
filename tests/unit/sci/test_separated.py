"""The extension: its logits and losses against loops, no leak, decoding, saving, do() and bad input."""

import copy

import pytest
import torch
import torch.nn.functional as F
import transformers
from transformers import LogitsProcessor

from causalnb import sci
from tests.unit.sci.tiny import (
    BASES,
    DECODER,
    FORCED,
    SLOTS,
    VOCABULARY,
    WIDTH,
    base,
    batch,
    gradients,
    left_padded,
)  # fmt: skip

IDS = torch.tensor([4, 9, 4])
PROMPTS = [torch.randint(3, VOCABULARY, (n,), generator=torch.Generator().manual_seed(n)) for n in (7, 3, 5)]
every_base = pytest.mark.parametrize("name", BASES)
both_slots = pytest.mark.parametrize("content_slots", ["tokens", "structural"])


def separated(decoder=None, seed=1, **settings):
    decoder = base() if decoder is None else decoder
    torch.manual_seed(seed)
    defaults = dict(n_structural_slots=SLOTS, d_structure=WIDTH, n_structural_heads=2, content_scale=3.0)
    return sci.SeparatedSCI.from_base(decoder, **defaults | settings).eval()


def literal_logits(model, input_ids, prompt_mask):
    """The docstring's equation, a row, a token, a slot and a word at a time."""
    chosen = model.config.content_slots == "structural"
    words = model.base.get_input_embeddings().weight
    head = model.base.get_output_embeddings().weight
    table = torch.stack([model.abstraction_layer(word) for word in head])
    total = sum(feature.var() for feature in table.T)
    found = []
    for ids, seen in zip(input_ids, prompt_mask.bool(), strict=False):
        abstracted = torch.stack([model.abstraction_layer(words[token]) for token in ids])
        hidden = model.base.base_model(inputs_embeds=abstracted[None]).last_hidden_state[0]
        prompt = model.down_norm(model.down_proj(abstracted[seen]))[None]
        everything = torch.ones(1, len(prompt[0]), dtype=torch.bool)
        tokens = model.structural_encoder.ordered(prompt, everything)[0]
        slots = model.structural_encoder(prompt, everything)[0][0] if chosen else tokens
        rows = []
        for state in hidden:
            query = model.token_query(state)
            share = torch.stack([query @ model.slot_key(slot) for slot in slots]) / WIDTH**0.5
            votes = [torch.zeros(()) for _ in head]
            for place, (weight, slot) in enumerate(zip(share.softmax(0), slots, strict=True)):
                if chosen:
                    binding = (model.prompt_key(tokens) @ model.slot_query(slot) / WIDTH**0.5).softmax(0)
                else:
                    alone = 1 / sum(literal_kin(table[ids[seen][place]], table, total)).detach()
                    binding = F.one_hot(torch.tensor(place), len(slots)) * (1 - alone)
                bound = sum(
                    part * content_of(model, token) for part, token in zip(binding, ids[seen], strict=False)
                )
                for word in range(len(head)):
                    unit = content_of(model, word)
                    votes[word] = votes[word] + weight * model.content_scale * (bound @ unit)
            rows.append(torch.stack([state @ word for word in table]) + literal_within(votes, table, total))
        found.append(torch.stack(rows))
    return torch.stack(found)


def literal_kin(word, table, total, width=0.1):
    """How far each word of the table is one class with this one."""
    return [torch.exp(-((word - other) ** 2).sum() / (2 * width**2 * total)) for other in table]


def literal_within(votes, table, total, width=0.1):
    """What each word's vote is worth among its kin, a pair of words at a time."""
    worth = []
    for vote, word in zip(votes, table, strict=False):
        kin = literal_kin(word, table, total, width)
        worth.append(vote - torch.log(sum(k * other.exp() for k, other in zip(kin, votes, strict=False))))
    return torch.stack(worth)


def content_of(model, token):
    return F.normalize(model.content_encoder(model.content_embedding.weight[token]), dim=0)


def literal_invariance(tokens, mask, ids):
    """Squared distances to the mean of each place of each structure, a place at a time."""
    distances = []
    for structure in {int(i) for i in ids if i >= 0}:
        rows = [[t for t, kept in zip(row, keep, strict=False) if kept]
                for row, keep, i in zip(tokens, mask, ids, strict=False) if i == structure]  # fmt: skip
        for place in zip(*rows, strict=False):
            if len(place) > 1:
                mean = sum(place) / len(place)
                distances += [((state - mean) ** 2).sum() for state in place]
    return sum(distances) / len(distances) if distances else tokens.sum() * 0


@pytest.mark.usefixtures("double")
@both_slots
def test_logits_are_their_equation_with_gradients(content_slots):
    given = batch(labels=False)
    found = []
    for logits in (lambda m: m(**given).logits, lambda m: literal_logits(m, *given.values())):
        model = separated(content_slots=content_slots)
        out = logits(model)
        (out * torch.arange(out.numel()).view_as(out).cos()).sum().backward()
        found.append((out.detach(), {n: p.grad for n, p in model.named_parameters() if p.grad is not None}))
    torch.testing.assert_close(found[0][0], found[1][0], rtol=0, atol=1e-6)  # RoPE and RMS norms are float32
    assert found[0][1].keys() == found[1][1].keys()
    for name, gradient in found[0][1].items():
        torch.testing.assert_close(gradient, found[1][1][name], rtol=1e-5, atol=1e-5, msg=name)


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize(
    "ids", [[0, 1, 0, 1, -1], [3, 3, 3, 3, 3], [0, 1, 2, 3, 4], [-1, -1, 7, -1, 7]], ids=str
)
@pytest.mark.parametrize("padding", ["left", "right", "none"])
def test_invariance_is_its_loop_with_gradients(ids, padding):
    ids = torch.tensor(ids)
    mask = torch.ones(5, 6, dtype=torch.long)
    lengths = torch.tensor([6, 4, 6, 4, 6])
    if padding != "none" and len(set(ids.tolist())) > 1:
        kept = torch.arange(6)[None] < lengths[:, None]
        mask = (kept.flip(1) if padding == "left" else kept).long()
    found = []
    for loss in (sci.aligned_invariance, literal_invariance):
        torch.manual_seed(0)
        tokens = torch.randn(5, 6, 3, requires_grad=True)
        value = loss(tokens, mask, ids)
        value.backward()
        found.append((value.detach(), tokens.grad))
    torch.testing.assert_close(found[0], found[1], rtol=0, atol=1e-12)


@pytest.mark.usefixtures("double")
def test_votes_count_within_a_class_only():
    """Two words alike and one apart: the pair shares its class's probability, the other's vote is void."""
    table = torch.tensor([[1.0, 0.0], [1.0, 0.0], [-3.0, 2.0]])
    kin = sci.kinship(table, 0.1)
    torch.testing.assert_close(kin, torch.tensor([[1.0, 1, 0], [1, 1, 0], [0, 0, 1]]), rtol=0, atol=1e-10)
    for votes in ([3.0, 1.0, 50.0], [3.0, 1.0, -50.0]):
        worth = sci.within_classes(torch.tensor(votes), kin)
        torch.testing.assert_close(worth[:2].exp().sum(), torch.tensor(1.0))
        torch.testing.assert_close(worth[0] - worth[1], torch.tensor(2.0))
        torch.testing.assert_close(worth[2], torch.tensor(0.0))
    steep = torch.tensor([0.0, 0.0, 500.0])
    assert sci.within_classes(steep, kin).isfinite().all()


@pytest.mark.usefixtures("double")
def test_gradients_of_classes():
    table, votes = torch.randn(4, 3, requires_grad=True), torch.randn(2, 4, requires_grad=True)

    def worth(table, votes):
        return sci.within_classes(votes, sci.kinship(table, 1.5))

    assert torch.autograd.gradcheck(worth, (table, votes))


def test_words_of_as_many_tokens_align_as_tokens_do():
    draw = torch.Generator().manual_seed(1)
    tokens = torch.randn(5, 6, 3, generator=draw, requires_grad=True)
    mask = torch.ones(5, 6)
    mask[2:4, 4:] = 0
    given, words = (tokens, mask, torch.tensor([0, 0, 1, 1, -1])), torch.arange(6).expand(5, -1) // 2
    plain, worded = sci.aligned_invariance(*given), sci.aligned_invariance(*given, words)
    assert torch.equal(plain, worded)
    assert torch.equal(*(torch.autograd.grad(loss, tokens)[0] for loss in (plain, worded)))


def test_words_of_other_numbers_of_tokens_align_piece_by_piece():
    a, b, c, d = torch.eye(4)
    tokens = torch.stack([torch.stack([a, b, c, a]), torch.stack([a, b, d, d])])
    mask, words = torch.tensor([[1, 1, 1, 0], [1, 1, 1, 1]]), torch.tensor([[5, 6, 6, -1], [5, 6, 6, 6]])
    # word 5: equal. Word 6, (b, c) beside (b, d, d), cut at 1/3, 1/2 and 2/3: b b, b d, c d, c d, in shares
    # of (2/3, 1), (1/3, 1/2), (1/3, 1/2), (2/3, 1) of a token; weights v, w at distance^2 2: 2 v w / (v + w)
    apart = 2 * (2 * (1 / 3 * 1 / 2) / (1 / 3 + 1 / 2) + (2 / 3 * 1) / (2 / 3 + 1))
    found = sci.aligned_invariance(tokens, mask, torch.tensor([0, 0]), words)
    torch.testing.assert_close(found, torch.tensor(apart / 7))  # seven tokens, two of them of word 5
    same = torch.stack([torch.stack([a, b, a, a]), torch.stack([a, b, b, b])])
    assert (
        sci.aligned_invariance(same, torch.tensor([[1, 1, 0, 0], [1, 1, 1, 1]]), torch.zeros(2).long(), words)
        == 0
    )


def test_rows_whose_words_have_other_tokens_train():
    model, given = separated().train(), batch(structure_ids=[0, 0, 1])
    seen = torch.ones_like(given["input_ids"])
    seen[1, 7:] = 0
    words = torch.arange(9).expand(3, -1).clone()
    words[0] = torch.tensor([0, 1, 2, 3, 4, 5, 5, 6, 6])
    with pytest.raises(ValueError, match="give their word_ids, by which words align"):
        model(**given, attention_mask=seen)
    out = model(**given, attention_mask=seen, word_ids=words)
    assert out.invariance_loss > 0
    out.loss.backward()
    words[1, 6] = 5
    with pytest.raises(ValueError, match="a row of 6 words shares its structure with one of 7"):
        model(**given, attention_mask=seen, word_ids=words)


def test_rows_of_one_structure_must_align():
    with pytest.raises(ValueError, match="4 tokens shares its structure with one of 6"):
        mask = torch.tensor([[1] * 6, [1] * 4 + [0] * 2])
        sci.aligned_invariance(torch.randn(2, 6, 3), mask, torch.tensor([0, 0]))


def test_the_loss_is_the_sum_of_its_parts():
    model = separated(invariance_weight=2.0, scl_weight=0.5)
    out = model(**batch(structure_ids=IDS.tolist()))
    assert out.invariance_loss > 0 and out.contrastive_loss > 0
    torch.testing.assert_close(out.loss, out.lm_loss + 0.5 * out.contrastive_loss + 2 * out.invariance_loss)
    bare = model(**batch())
    assert bare.loss == bare.lm_loss and bare.invariance_loss is None
    assert model(**batch(labels=False)).loss is None
    alone = model(**batch(labels=False, structure_ids=IDS.tolist()))
    torch.testing.assert_close(alone.loss, out.loss - out.lm_loss)


@both_slots
def test_every_weight_learns(content_slots):
    model = separated(content_slots=content_slots).train()
    _, found = gradients(model, batch(structure_ids=IDS.tolist()))
    silent = [name for name, _ in model.named_parameters() if name not in found or not found[name].any()]
    assert all(name.endswith("structural_encoder.cross_attention.key.bias") or ".key.bias" in name
               or name == "prompt_key.bias" for name in silent), silent  # a softmax ignores them  # fmt: skip


def test_noise_is_for_training_and_grows_with_its_setting():
    given = batch()
    still, little, much = (separated(abstraction_noise=noise) for noise in (0.0, 0.05, 0.5))
    expected = still(**given).logits
    assert torch.equal(much(**given).logits, expected)
    assert torch.equal(still.train()(**given).logits, expected)
    moved = [(model.train()(**given).logits - expected).abs().mean() for model in (little, much)]
    assert 0 < 3 * moved[0] < moved[1]


@both_slots
@every_base
def test_the_answer_does_not_leak(name, content_slots):
    model, given = separated(base(name), content_slots=content_slots), batch(labels=False)
    edited = given | {"input_ids": given["input_ids"].clone()}
    edited["input_ids"][:, -1] = (edited["input_ids"][:, -1] + 1) % VOCABULARY
    one, other = model(**given).logits, model(**edited).logits
    assert torch.equal(one[:, :-1], other[:, :-1]) and not torch.equal(one[:, -1], other[:, -1])


def test_tokens_of_one_abstraction_are_one_to_the_structure():
    """Words that the abstraction makes equal change nothing but the content that is bound."""
    model, given = separated(), batch(labels=False)
    with torch.no_grad():
        for parameter in model.abstraction_layer.parameters():
            parameter.zero_()
        model.abstraction_layer.residual_gate.fill_(-0.5)  # sigmoid(0) - 1/2: everything is abstracted away
    one, other = model(**given), model(**given | {"input_ids": given["input_ids"].flip(0)})
    assert torch.equal(one.structure, other.structure)
    assert torch.equal(one.binding_weights, other.binding_weights)
    assert not torch.equal(one.logits, other.logits)
    with torch.no_grad():
        model.content_scale.zero_()
    logits = model(**given).logits
    assert torch.equal(logits[0], logits[1])


@both_slots
@every_base
def test_cached_uncached_and_one_by_one_agree_with_forward(name, content_slots):
    model = separated(base(name), content_slots=content_slots)
    ids, mask = left_padded(PROMPTS)
    together = model.generate(ids, mask, **FORCED)
    assert torch.equal(together, model.generate(ids, mask, **FORCED, use_cache=False))
    for row, prompt in enumerate(PROMPTS):
        alone = model.generate(prompt[None], **FORCED)
        assert torch.equal(together[row, -alone.shape[1] :], alone[0])
        seen = (torch.arange(alone.shape[1]) < len(prompt)).long()[None]
        logits = model(alone, prompt_mask=seen).logits[0, len(prompt) - 1 : -1].clone()
        logits[:, 2] = -torch.inf  # the end is held back by min_new_tokens
        assert torch.equal(logits.argmax(-1), alone[0, len(prompt) :])
    assert model._bound is None


@both_slots
def test_beams_and_samples_read_their_own_prompt(content_slots):
    model = separated(content_slots=content_slots)
    ids, mask = left_padded(PROMPTS)
    beams = FORCED | dict(num_beams=3, num_return_sequences=2)
    together = model.generate(ids, mask, **beams)
    for row, prompt in enumerate(PROMPTS):
        alone = model.generate(prompt[None], **beams)
        assert torch.equal(together[2 * row : 2 * row + 2, -alone.shape[1] :], alone)
    with pytest.raises(ValueError, match="prepared for 3 prompts, but the model runs 4"):
        embedded = model.abstraction_layer(model.get_input_embeddings()(ids))
        model.bind(embedded, ids, mask)[0].expand(4)


class Watch(LogitsProcessor):
    """Keeps the scores it is shown."""

    def __init__(self):
        self.seen = []

    def __call__(self, input_ids, scores):
        self.seen.append(scores)
        return scores


@both_slots
def test_do_binds_another_content(content_slots):
    wide = {"content_slots": content_slots, "class_width": 2.0}  # a word without kin has no content
    model, given = separated(**wide), batch(rows=1, labels=False)
    content = model.content_of(torch.tensor([7]))
    assert content.shape == (1, WIDTH)
    torch.testing.assert_close(content.norm(dim=-1), torch.ones(1, dtype=content.dtype))
    free, held = model(**given), model(**given, do={2: content})
    assert torch.equal(held.slots[:, 2], content) and torch.equal(held.slots[:, :2], free.slots[:, :2])
    assert torch.equal(held.structure, free.structure) and not torch.equal(held.logits, free.logits)
    prompt, watch = given["input_ids"], Watch()
    model.generate(prompt, do={2: content}, logits_processor=[watch], **FORCED)
    expected = model(prompt, do={2: content}).logits[:, -1]
    torch.testing.assert_close(watch.seen[0][:, 3:], expected[:, 3:].float(), rtol=0, atol=1e-5)
    for slot, value in ((held.slots.shape[1], content), (-1, content), (0, content[:, :3])):
        with pytest.raises(ValueError, match=f"do\\(\\) on slot {slot} got a value of shape"):
            model(**given, do={slot: value})


@pytest.mark.parametrize("tied", [True, False])
@every_base
def test_round_trip(name, tied, tmp_path):
    model = separated(base(name, torch.float32, tie_word_embeddings=tied), abstraction_noise=0.3)
    model.save_pretrained(tmp_path)
    again = sci.SeparatedSCI.from_pretrained(tmp_path).eval()
    state, other = model.state_dict(), again.state_dict()
    assert state.keys() == other.keys() and all(torch.equal(state[key], other[key]) for key in state)
    assert again.config.abstraction_noise == 0.3 and again.config.cbm_layers == []
    torch.testing.assert_close(model(**batch()).logits, again(**batch()).logits, rtol=1e-5, atol=1e-5)
    ids = batch()["input_ids"]
    assert torch.equal(again.generate(ids, **FORCED), model.generate(ids, **FORCED))


def test_a_word_without_kin_has_no_content():
    kin = torch.tensor([[1.0, 1, 0], [1, 1, 0], [0, 0, 1]], requires_grad=True)
    found = sci.company(kin)
    assert found.tolist() == [0.5, 0.5, 0.0] and not found.requires_grad


def test_do_on_a_token_is_another_word():
    """To bind another word's content to a token is to say that word, where both are abstracted alike."""
    model, given = separated(content_slots="tokens"), batch(rows=1, labels=False)
    with torch.no_grad():
        for parameter in model.abstraction_layer.parameters():
            parameter.zero_()
        model.abstraction_layer.residual_gate.fill_(-0.5)
    ids = given["input_ids"].clone()
    ids[0, 1] = (ids[0, 1] + 1) % VOCABULARY
    held = model(**given, do={1: model.content_of(ids[:, 1])})
    assert torch.equal(held.logits, model(**given | {"input_ids": ids}).logits)


def test_what_is_no_prompt_is_no_slot():
    """Of three prompts of other lengths, each row's shares are on its own tokens."""
    model = separated(content_slots="tokens")
    ids, mask = left_padded(PROMPTS)
    bound = model.bind(model.abstraction_layer(model.get_input_embeddings()(ids)), ids, mask)[0]
    hidden = torch.randn(*ids.shape, bound.keys.shape[-1], generator=torch.Generator().manual_seed(0))
    shares = model.reads(hidden.to(bound.keys), bound)
    torch.testing.assert_close(shares.sum(-1), torch.ones_like(shares[..., 0]))
    assert not shares.masked_select(~mask.bool()[:, None].expand_as(shares)).any()


def test_a_copy_stands_alone():
    model = separated()
    expected, twin = model(**batch()).logits, copy.deepcopy(model)
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.zero_()
    assert torch.equal(model(**batch()).logits, expected)
    apart = twin(**batch()).logits
    assert torch.equal(apart, apart[..., :1].expand_as(apart))  # nothing is left to tell words apart


def test_checkpointing_gives_the_same_gradients():
    plain, saving = separated(base(use_cache=False)), separated(base(use_cache=False))
    saving.gradient_checkpointing_enable()
    given = batch(structure_ids=IDS.tolist())
    for model in (plain, saving):
        model.config.abstraction_noise = 0.0
        model.train()
    (loss, one), (other_loss, other) = gradients(plain, given), gradients(saving, given)
    assert loss == pytest.approx(other_loss) and one.keys() == other.keys()
    for name in one:
        torch.testing.assert_close(one[name], other[name], rtol=1e-5, atol=1e-6)


def test_bfloat16_base():
    model = separated(base(dtype=torch.bfloat16))
    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}
    assert model.train()(**batch(structure_ids=IDS.tolist())).loss.isfinite()


def test_bad_input():
    with pytest.raises(ValueError, match="abstraction_noise is -0.1: choose a finite one"):
        separated(abstraction_noise=-0.1)
    with pytest.raises(ValueError, match="class_width is 0.0: choose more than 0"):
        separated(class_width=0.0)
    with pytest.raises(ValueError, match="content_slots is 'words': choose 'structural'"):
        separated(content_slots="words")
    with pytest.raises(ValueError, match="row 0 has no token before its first label"):
        given = batch()
        separated()(given["input_ids"], labels=given["input_ids"])
    with pytest.raises(ValueError, match="call generate"):
        separated()(batch()["input_ids"], past_key_values=object())
    seen = torch.ones_like(given["input_ids"]) * torch.tensor([[1], [1], [0]])
    with pytest.raises(ValueError, match="row 2 has no prompt token: mark at least one"):
        separated()(given["input_ids"], prompt_mask=seen)
    with pytest.raises(ValueError, match="row 2 has no prompt token: mark at least one"):
        separated().generate(given["input_ids"], seen, **FORCED)


def literal_kinship(table):
    """The formula as it stands, without regard to precision."""
    squares = table.square().sum(-1)
    apart = (squares[:, None] + squares - 2 * table @ table.T).clamp(min=0)
    return torch.exp(-apart / (2 * 0.1**2 * table.var(0).sum()))


def test_in_float32_the_classes_are_the_same_bits():
    torch.manual_seed(0)
    found, start = [], torch.randn(2, 6, 9) * 8
    for literal in (False, True):
        table, votes = torch.randn(9, 4, generator=torch.Generator().manual_seed(1)), start.clone()
        table.requires_grad_(), votes.requires_grad_()
        if literal:
            kin, steep = literal_kinship(table), votes - votes.amax(-1, keepdim=True)
            worth = steep - (steep.exp() @ kin).clamp(min=torch.finfo(torch.float32).tiny).log()
        else:
            kin = sci.kinship(table, 0.1)
            worth = sci.within_classes(votes, kin)
        (worth * torch.arange(worth.numel()).view_as(worth).cos()).sum().backward()
        found.append((kin, worth, table.grad, votes.grad))
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=False))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_classes_in_half_precision(dtype):
    """A class of two words, and words apart from them, all far from the origin; votes 12 to 30 apart."""
    torch.manual_seed(0)
    table = (8 + torch.randn(6, 16)).to(dtype)
    table[1] = table[0]
    kin = sci.kinship(table, 0.1)
    torch.testing.assert_close(kin.double(), sci.kinship(table.double(), 0.1), rtol=0, atol=1e-4)
    assert torch.equal(kin.diagonal(), torch.ones(6)) and kin[0, 1] > 0.999
    votes = torch.tensor([0.0, -3, 5, -12, 17, -13], dtype=dtype)
    worth = sci.within_classes(votes, kin)
    assert worth.dtype == dtype
    expected = sci.within_classes(votes.double(), kin.double())
    torch.testing.assert_close(worth.double(), expected, rtol=torch.finfo(dtype).eps, atol=1e-3)


def test_a_vote_beyond_the_smallest_number_is_its_own_class():
    votes = torch.tensor([0.0, -200.0], requires_grad=True)
    worth = sci.within_classes(votes, torch.eye(2))
    worth[1].backward()
    assert torch.equal(worth, torch.zeros(2)) and torch.equal(votes.grad, torch.zeros(2))


def test_classes_are_not_rounded_by_autocast():
    table, votes = 8 + torch.randn(6, 16), torch.randn(3, 6)
    kin = sci.kinship(table, 0.5)
    worth = sci.within_classes(votes, kin)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(sci.kinship(table, 0.5), kin)
        assert torch.equal(sci.within_classes(votes, kin), worth)


def kin_of_two_words(tied, steps=80):
    """The kinship of two words after training on sentences in which they share a place."""
    decoder = base(dtype=torch.float32, tie_word_embeddings=tied, num_hidden_layers=1)
    torch.manual_seed(0)
    settings = dict(n_structural_slots=2, d_structure=WIDTH, n_structural_heads=2)
    model = sci.SeparatedSCI.from_base(decoder, **settings).train()
    ids = torch.tensor([[5, 10, 7, 10, 2], [5, 11, 7, 11, 2]])
    mask = torch.tensor([[1, 1, 1, 0, 0]] * 2)
    given = dict(input_ids=ids, prompt_mask=mask, labels=ids.masked_fill(mask.bool(), -100))
    optimizer = torch.optim.Adam(model.parameters(), 2e-2)
    for _ in range(steps):
        optimizer.zero_grad()
        model(**given, structure_ids=torch.zeros(2, dtype=torch.long)).loss.backward()
        optimizer.step()
    with torch.no_grad():
        kin = sci.kinship(model.abstraction_layer(model.get_output_embeddings().weight), 0.1)
    return kin[10, 11].item(), kin[10, 5].item()


@pytest.mark.parametrize("tied", [True, False])
def test_words_that_share_a_place_become_one_class(tied):
    together, apart = kin_of_two_words(tied)
    assert together > 0.5 and apart < 0.01


@pytest.mark.parametrize("tied", [True, False])
def test_the_invariance_is_of_the_rows_read_and_the_rows_said(tied):
    model, given = separated(base(tie_word_embeddings=tied)), batch(structure_ids=IDS.tolist())
    expected = 0
    heads = [model.get_input_embeddings().weight] + [model.get_output_embeddings().weight] * (not tied)
    for words in heads:
        table = model.abstraction_layer(words)
        everything = torch.ones_like(given["input_ids"])
        loss = literal_invariance(table[given["input_ids"]], everything.bool(), IDS)
        expected = expected + loss / table.var(0).sum()
    torch.testing.assert_close(model(**given).invariance_loss, expected)


def test_noise_on_what_is_read_follows_the_scale_of_the_input_embeddings():
    config = transformers.Gemma3TextConfig(**DECODER | dict(head_dim=8), layer_types=["full_attention"] * 3)
    model = separated(transformers.Gemma3ForCausalLM(config).double())
    embeddings, ids = model.get_input_embeddings(), batch()["input_ids"]
    assert embeddings.weight is model.get_output_embeddings().weight  # tied, but scaled where they are read
    read = model.abstraction_layer(embeddings(torch.arange(VOCABULARY))).var(0).mean()
    said = model.abstraction_layer(embeddings.weight).var(0).mean()
    spread = model.bind(model.abstraction_layer(embeddings(ids)), ids, torch.ones_like(ids))[3]
    torch.testing.assert_close(spread, read)
    assert read > 2 * said


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda base: setattr(base, "lm_head", torch.nn.Linear(24, VOCABULARY)), "has a bias"),
        (lambda base: separated(base), "has a forward or a hook of its own, as after another wrapping"),
        (lambda base: setattr(base, "lm_head", Doubled(24, VOCABULARY, bias=False)), "is a .*.Doubled"),
    ],
)
def test_a_head_that_would_be_bypassed_is_refused(change, message):
    decoder = base()
    change(decoder)
    with pytest.raises(ValueError, match=f"output layer of LlamaForCausalLM {message}: pass a fresh base"):
        separated(decoder)


class Doubled(torch.nn.Linear):
    """An output layer that does more than its weight says."""

    def forward(self, states):
        return 2 * super().forward(states)


def test_another_size_of_the_vocabulary_is_refused_before_anything_changes():
    model = separated()
    assert model.resize_token_embeddings(VOCABULARY) is model.get_input_embeddings()
    with pytest.raises(ValueError, match="keeps its base's 29 tokens and 31 were asked for: resize the base"):
        model.resize_token_embeddings(31)
    assert model.get_input_embeddings().num_embeddings == model.base.config.vocab_size == VOCABULARY


def test_do_takes_values_of_another_precision():
    model, given = separated(base(dtype=torch.bfloat16)), batch(labels=False)
    value = torch.nn.functional.normalize(torch.randn(3, WIDTH), dim=-1)
    held = model(**given, do={1: value})
    assert torch.equal(held.slots[:, 1], value.bfloat16())


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["invariance_weight", "content_scale", "abstraction_noise", "class_width"])
def test_weights_and_widths_are_finite(name, value):
    with pytest.raises(ValueError, match=f"{name} is {value}: choose a finite one, 0 or more"):
        separated(**{name: value})


def test_layers_to_bind_after_are_refused():
    with pytest.raises(ValueError, match=r"cbm_layers is \[1\]: leave it out"):
        separated(cbm_layers=[1])
