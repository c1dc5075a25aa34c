"""The approaches SCI is set against: each by its equation, and that they decode, save and hide the answer."""

import copy

import pytest
import torch
from torch.distributions import Normal, kl_divergence
from transformers import DynamicCache

from causalnb import sci
from causalnb.sci import contrasts, guide, guide_model
from tests.unit.sci.tiny import FORCED, SLOTS, VOCABULARY, WIDTH, base, batch, gradients, left_padded

D, K, B, T = 8, 5, 3, 6
MASK = torch.tensor([[1] * 6, [1] * 4 + [0] * 2, [0] + [1] * 5]).bool()
SETTINGS = dict(n_structural_slots=SLOTS, d_structure=WIDTH, n_structural_heads=2)
PROMPTS = [torch.randint(3, VOCABULARY, (n,), generator=torch.Generator().manual_seed(n)) for n in (7, 3, 5)]
CLASSES = [token // 3 for token in range(VOCABULARY)]
KNOWN = [[CLASSES[token] for token in prompt.tolist()] for prompt in PROMPTS]
every_approach = pytest.mark.parametrize("approach", contrasts.APPROACHES)


def model(kind, seed=1, decoder=None):
    decoder = base() if decoder is None else decoder
    torch.manual_seed(seed)
    if kind in contrasts.APPROACHES:
        found = contrasts.SlotDecoder.from_base(decoder, approach=kind, **SETTINGS)
    elif kind == "constructions":
        found = contrasts.ConstructionTransformer.from_base(
            decoder, word_classes=CLASSES, constructions=KNOWN, **SETTINGS
        )
    elif kind == "leaking":
        found = contrasts.LeakingSCI.from_base(decoder, **SETTINGS)
    else:
        found = guide_model.GuideSCITransformer.from_base(decoder, n_structural_slots=SLOTS)
    for projection in getattr(found.causal_binding, "output_proj", []) if kind != "guide" else []:
        torch.nn.init.normal_(projection.weight, std=0.7)
    return found.eval()


@pytest.mark.parametrize("kind", ["leaking", "guide"])
def test_a_contrast_comes_back_by_its_own_name_and_is_not_taken_for_sci(kind, tmp_path):
    saved = model(kind)
    saved.save_pretrained(tmp_path)
    again = type(saved).from_pretrained(tmp_path)
    assert all(torch.equal(again.state_dict()[key], value) for key, value in saved.state_dict().items())
    with pytest.raises(ValueError, match=f"the checkpoint is of model_type 'sci_{kind}', not 'sci'"):
        contrasts.SCITransformer.from_pretrained(tmp_path)


def encoder(kind):
    torch.manual_seed(0)
    return contrasts.APPROACHES[kind](D, K, 2).double().eval()


def tokens():
    return torch.randn(B, T, D, dtype=torch.float64, generator=torch.Generator().manual_seed(3))


@every_approach
def test_what_is_masked_is_not_read(approach):
    network, given = encoder(approach), tokens()
    other = given.clone()
    other[~MASK] = 50.0
    torch.testing.assert_close(network(given, MASK)[0], network(other, MASK)[0], rtol=0, atol=1e-10)
    assert network(given, MASK)[0].shape == (B, K, D)


@every_approach
def test_order_counts(approach):
    network, given = encoder(approach), tokens()
    whole = torch.ones(B, T, dtype=torch.bool)
    moved = network(given, whole)[0] - network(given.flip(1), whole)[0]
    assert moved.abs().max() > 1e-3


@pytest.mark.parametrize("kind", ["information_bottleneck", "causal_vae"])
def test_the_penalty_is_the_divergence_and_training_samples(kind):
    network, given = encoder(kind), tokens()
    slots, *_ = contrasts.TokenSlots.forward(network, given, MASK)
    mean, log_variance = network.moments(slots).chunk(2, -1)
    posterior = Normal(mean, (0.5 * log_variance).exp())
    penalty = network(given, MASK)[2]
    expected = kl_divergence(posterior, Normal(0.0, 1.0)).sum((1, 2)).mean()
    torch.testing.assert_close(penalty, expected, rtol=0, atol=1e-10)
    still, one, other = network(given, MASK)[0], network.train()(given, MASK)[0], network(given, MASK)[0]
    assert not torch.equal(one, other)
    if kind == "information_bottleneck":
        torch.testing.assert_close(still, mean)


def test_causal_factors_follow_their_graph():
    network, given = encoder("causal_vae"), tokens()
    with torch.no_grad():
        network.effects.normal_()
    factors, edges, _ = network(given, MASK)
    noise = network.moments(contrasts.TokenSlots.forward(network, given, MASK)[0]).chunk(2, -1)[0]
    assert torch.equal(edges[0], network.effects.triu(1)) and sci.acyclicity(edges).abs().max() < 1e-10
    for child in range(K):  # z_i = sum_j A[j, i] z_j + e_i
        by_hand = noise[:, child] + sum(edges[0, parent, child] * factors[:, parent] for parent in range(K))
        torch.testing.assert_close(factors[:, child], by_hand, rtol=0, atol=1e-10)


def test_slot_attention_by_loops():
    network, given = encoder("slot_attention"), tokens()
    ordered = network.token_norm(network.ordered(given, MASK))
    expected = []
    for row, keep in zip(ordered, MASK, strict=False):
        row, slots = row[keep], network.queries
        for _ in range(3):
            queries = [network.query(network.slot_norm(slot)) for slot in slots]
            shares = torch.stack(
                [torch.stack([q @ network.key(x) / D**0.5 for q in queries]).softmax(0) + 1e-8 for x in row]
            )
            reads = [
                sum(share[k] * network.value(x) for share, x in zip(shares, row, strict=False))
                / shares[:, k].sum()
                for k in range(K)
            ]
            slots = torch.stack(
                [network.update(read[None], slot[None])[0] for read, slot in zip(reads, slots, strict=False)]
            )
        expected.append(slots)
    torch.testing.assert_close(network(given, MASK)[0], torch.stack(expected), rtol=0, atol=1e-6)


def test_relations_are_all_that_passes():
    """Tokens reach the slots through scores alone: with zero queries, all sentences of a length agree."""
    network, given = encoder("relational_attention"), tokens()
    whole = torch.ones(B, T, dtype=torch.bool)
    assert not torch.allclose(network(given, whole)[0][0], network(given, whole)[0][1])
    with torch.no_grad():
        network.order_attention.query.weight.zero_(), network.order_attention.query.bias.zero_()
    slots = network(given, whole)[0]
    torch.testing.assert_close(slots[0], slots[1], rtol=0, atol=1e-12)


def test_a_prompt_longer_than_the_symbols_is_told():
    network, given = encoder("relational_attention"), tokens()
    long = given.repeat(1, 513, 1)[:, :513]
    network(long[:, :512], torch.ones(B, 512, dtype=torch.bool))
    with pytest.raises(ValueError, match="a prompt has 513 tokens and relational attention symbols for 512"):
        network(long, torch.ones(B, 513, dtype=torch.bool))


KINDS = [*contrasts.APPROACHES, "constructions"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_answer_stays_hidden_and_decoding_agrees(kind):
    network, given = model(kind), batch(labels=False)
    edited = given | {"input_ids": given["input_ids"].clone()}
    edited["input_ids"][:, -1] = (edited["input_ids"][:, -1] + 1) % VOCABULARY
    assert torch.equal(network(**given).logits[:, :-1], network(**edited).logits[:, :-1])
    ids, mask = left_padded(PROMPTS)
    together = network.generate(ids, mask, **FORCED)
    assert torch.equal(together, network.generate(ids, mask, **FORCED, use_cache=False))
    for row, prompt in enumerate(PROMPTS):
        alone = network.generate(prompt[None], **FORCED)[0]
        assert torch.equal(together[row, -len(alone) :], alone)


@pytest.mark.parametrize("kind", [*KINDS, "leaking", "guide"])
def test_every_weight_learns_and_is_saved(kind, tmp_path):
    network = model(kind, decoder=base(dtype=torch.float32)).train()
    given = batch(structure_ids=[4, 9, 4])
    if kind == "guide":
        given = {key: value for key, value in given.items() if key != "prompt_mask"}
        given["attention_mask"] = torch.ones_like(given["input_ids"])
    loss, found = gradients(network, given)
    assert loss > 0
    silent = {name for name, _ in network.named_parameters() if name not in found or not found[name].any()}
    assert all("base.lm_head" not in name and "moments" not in name for name in silent)
    network.eval().save_pretrained(tmp_path)
    again = type(network).from_pretrained(tmp_path).eval()
    given.pop("structure_ids")
    torch.testing.assert_close(network(**given).logits, again(**given).logits, rtol=1e-4, atol=1e-5)


def test_the_penalty_and_the_contrastive_loss_are_in_the_loss():
    network = model("information_bottleneck")
    network.config.penalty_weight, network.config.scl_weight = 0.5, 2.0
    given = batch(structure_ids=[4, 9, 4])
    out, penalty = network(**given), network.slots(given["input_ids"], given["prompt_mask"])[2]
    assert penalty > 0
    expected = out.lm_loss + 0.5 * penalty + 2 * out.contrastive_loss
    torch.testing.assert_close(out.loss, expected)
    network.config.scl_weight = 0.0
    assert network(**batch(structure_ids=[4, 9, 4])).contrastive_loss is None
    assert network(**batch(labels=False)).loss is None


@pytest.mark.parametrize("approach", ["telepathy", ["slot_attention"]])
def test_an_unknown_approach_is_refused(approach):
    with pytest.raises(ValueError, match="approach .* is unknown: choose one of"):
        contrasts.SlotDecoder.from_base(base(), approach=approach)


@pytest.mark.parametrize(
    "change, message",
    [
        (dict(labels=None, prompt_mask=None), "neither labels nor a prompt_mask say where answers begin"),
        (dict(do={0: torch.zeros(3, WIDTH)}), "SlotDecoder has no argument 'do': pass what"),
        (dict(structure_id=torch.zeros(3)), "SlotDecoder has no argument 'structure_id': pass what"),
        (dict(past_key_values=DynamicCache()), "takes no past_key_values: call generate to use the cache"),
    ],
)
def test_a_slot_decoder_refuses_what_sci_does(change, message):
    network = model("slot_attention").train()
    assert network(**batch()).loss.isfinite()
    with pytest.raises(ValueError, match=message):
        network(**batch() | change)


@every_approach
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_approaches_train_in_half_precision(approach, dtype):
    network = model(approach, decoder=base(dtype=dtype)).train()
    loss, found = gradients(network, batch())
    assert found and all(each.dtype == dtype and each.isfinite().all() for each in found.values())
    exact = model(approach, decoder=base(dtype=dtype)).double().eval()
    given = batch()
    torch.testing.assert_close(
        network.eval()(**given).structure.double(), exact(**given).structure, rtol=0.1, atol=0.1
    )


def test_constructions_are_looked_up_by_word_classes():
    network = model("constructions")
    ids, mask = left_padded(PROMPTS)
    assert network.construction_of(ids, mask).tolist() == [0, 1, 2]
    with pytest.raises(
        ValueError, match="word_classes has 1 classes for 29 tokens: give each token of the b"
    ):
        contrasts.ConstructionTransformer.from_base(base(), **SETTINGS)
    same_classes = torch.tensor([[3 * (int(token) // 3) for token in PROMPTS[0]]])
    assert network.construction_of(same_classes, torch.ones_like(same_classes)).tolist() == [0]
    assert network.construction_of(ids[:1, :2], mask[:1, :2]).tolist() == [3]  # none of them


def test_the_leaking_model_sees_the_answer():
    given = batch(labels=False)
    edited = given | {"input_ids": given["input_ids"].flip(1)}
    edited["input_ids"][:, :4] = given["input_ids"][:, :4]
    network = model("leaking")
    assert (network(**given).logits - network(**edited).logits)[:, 3].abs().max() > 1e-4


def test_the_guides_model_leaks_replaces_states_and_freezes_the_embedding():
    network = model("guide")
    ids = batch()["input_ids"]
    seen = torch.ones_like(ids)
    edited = torch.cat([ids[:, :-1], (ids[:, -1:] + 1) % VOCABULARY], 1)
    assert (network(ids, seen).logits - network(edited, seen).logits)[:, 3].abs().max() > 1e-4
    with torch.no_grad():
        network.causal_binding.output_proj.weight.zero_(), network.causal_binding.output_proj.bias.zero_()
    out = network(ids, seen).logits
    assert torch.equal(out[0, 2], out[1, 5])  # nothing of the base is left after a binding layer
    network(ids, seen, ids).loss.backward()
    assert network.base.get_input_embeddings().weight.grad is None


def test_the_guides_model_has_the_guides_loss_and_decodes_by_its_own_forward():
    network = model("guide")
    ids, mask = left_padded(PROMPTS)
    structures = torch.tensor([4, 9, 4])
    out = network(ids, mask, structure_ids=structures)
    pairs = (structures[:, None] == structures) & ~torch.eye(3, dtype=torch.bool)
    expected = guide.StructuralContrastiveLoss(network.config.scl_temperature)(out.structure, pairs)
    torch.testing.assert_close(out.loss, network.config.scl_weight * expected)
    found = network.generate(ids, mask, max_new_tokens=4, pad_token_id=0, eos_token_id=2)
    for row, prompt in enumerate(PROMPTS):
        running = prompt[None]
        for step in range(4):
            token = network(running, torch.ones_like(running)).logits[0, -1].argmax()
            assert found[row, ids.shape[1] + step] == token
            if token == 2:
                assert not found[row, ids.shape[1] + step + 1 :].any()
                break
            running = torch.cat([running, token.view(1, 1)], 1)


@pytest.mark.parametrize("kind", [*KINDS, "leaking"])
def test_a_prompt_without_tokens_is_refused_by_its_row(kind):
    given = batch(labels=False)
    seen = torch.ones_like(given["input_ids"]) * torch.tensor([[1], [0], [1]])
    given["prompt_mask" if kind != "leaking" else "attention_mask"] = seen
    network = model(kind)
    with pytest.raises(ValueError, match="row 1 has no prompt token: mark at least one"):
        network(**given)
    with pytest.raises(ValueError, match="row 1 has no prompt token: mark at least one"):
        network.generate(given["input_ids"], seen, **FORCED)


@pytest.mark.parametrize("kind", [*KINDS, "leaking"])
def test_a_copy_after_a_training_step_stands_alone(kind):
    network, given = model(kind).train(), batch(structure_ids=[4, 9, 4])
    network(**given).loss.backward()
    twin = copy.deepcopy(network).eval()
    assert torch.equal(twin(**given).logits, network.eval()(**given).logits)


def test_constructions_keep_their_vocabulary():
    with pytest.raises(ValueError, match="ConstructionTransformer keeps its base's 29 tokens and 31 were"):
        model("constructions").resize_token_embeddings(31)


@pytest.mark.parametrize("weight", [-1.0, float("nan"), float("inf")])
def test_the_weight_of_a_penalty_is_finite(weight):
    with pytest.raises(ValueError, match=f"penalty_weight is {weight}: choose a finite one, 0 or more"):
        contrasts.SlotDecoder.from_base(base(), penalty_weight=weight, **SETTINGS)


@pytest.mark.parametrize("kind", [*KINDS, "leaking", "guide"])
def test_tuples_come_when_asked_for(kind):
    network, given = model(kind), batch(labels=False)
    given = dict(input_ids=given["input_ids"], attention_mask=torch.ones_like(given["input_ids"]))
    found = network(**given, return_dict=False)
    assert isinstance(found, tuple) and torch.equal(found[0], network(**given).logits)
