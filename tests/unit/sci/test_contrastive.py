"""Component 4: the loss against the guide's loop and by hand, its pairs, and the sampler that feeds it."""

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from causalnb import sci
from causalnb.sci import guide
from causalnb.tasks import scan
from tests.unit.sci.tiny import check_gradients

B, K, D = 6, 5, 8
pytestmark = pytest.mark.usefixtures("double")
IDS = torch.tensor([0, 1, 0, 2, 1, 0])  # five anchors with a positive, one without


def pairs_of(ids):
    return (ids[:, None] == ids) & ~torch.eye(len(ids), dtype=torch.bool)


@pytest.mark.parametrize("ids", [IDS, torch.zeros(B, dtype=torch.long), torch.tensor([3, 3])], ids=str)
@pytest.mark.parametrize("temperature", [0.07, 1.0])
def test_equal_to_the_guides_loop_with_gradients(ids, temperature):
    anchors = pairs_of(ids).any(1).sum()
    reps = torch.randn(len(ids), K, D)
    found = []
    for loss, share in (
        (sci.StructuralContrastiveLoss(temperature), 1.0),
        (guide.StructuralContrastiveLoss(temperature), len(ids) / anchors),
    ):
        given = reps.clone().requires_grad_()
        value = loss(given, pairs_of(ids)) * share
        value.backward()
        found.append((value.detach(), given.grad))
    torch.testing.assert_close(found[0], found[1], rtol=0, atol=1e-10)


def test_by_hand():
    """Cosines 1, 0, 0 at temperature 1/2: log(1 + 2 / e^2) for each of two anchors."""
    reps = (
        torch.eye(3)[[0, 0, 1, 2]][:, None].expand(-1, K, -1)
        * torch.tensor([1.0, 5.0, 2.0, 3.0])[:, None, None]
    )
    labels = torch.zeros(4, 4, dtype=torch.bool)
    labels[0, 1] = labels[1, 0] = True
    loss = sci.StructuralContrastiveLoss(0.5)(reps, labels)
    assert loss.item() == pytest.approx(np.log(1 + 2 / np.exp(2)))


def test_the_diagonal_of_the_labels_is_ignored():
    loss, reps = sci.StructuralContrastiveLoss(), torch.randn(B, K, D)
    assert loss(reps, pairs_of(IDS)) == loss(reps, pairs_of(IDS) | torch.eye(B, dtype=torch.bool))


@pytest.mark.parametrize("rows", [0, 1, 2, B])
def test_without_anchors_the_loss_is_zero_and_has_gradients(rows):
    reps = torch.randn(rows, K, D, requires_grad=True)
    loss = sci.StructuralContrastiveLoss()(reps, torch.zeros(rows, rows, dtype=torch.bool))
    loss.backward()
    assert loss.item() == 0 and torch.equal(reps.grad, torch.zeros_like(reps))


def test_gradients():
    reps = torch.randn(B, K, D, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: sci.StructuralContrastiveLoss(0.2)(x, pairs_of(IDS)), reps)
    assert torch.autograd.gradcheck(lambda x: sci.StructuralContrastiveLoss(0.2).of_ids(x, IDS - 1), reps)
    assert check_gradients(sci.StructuralContrastiveLoss(), torch.randn(B, K, D), pairs_of(IDS))


def test_soft_labels_weigh_the_positives():
    reps, soft = torch.randn(B, K, D, requires_grad=True), torch.rand(B, B)
    soft[3] = 0  # no anchor
    loss = sci.StructuralContrastiveLoss(0.2)
    unit = torch.nn.functional.normalize(reps.mean(1), dim=-1)
    total = 0.0
    for i in (i for i in range(B) if i != 3):
        others = [j for j in range(B) if j != i]
        log_shares = ((unit[i] @ unit[others].T) / 0.2).log_softmax(0)
        most = soft[i, others].max()
        total = total - most * (soft[i, others] / soft[i, others].sum()) @ log_shares
    expected = total / sum(soft[i].masked_fill(torch.arange(B) == i, 0).max() for i in range(B))
    torch.testing.assert_close(loss(reps, soft), expected, rtol=1e-6, atol=0)
    grads = [torch.autograd.grad(value, reps)[0] for value in (loss(reps, soft), expected)]
    torch.testing.assert_close(*grads, rtol=1e-5, atol=1e-7)
    assert torch.equal(loss(reps, pairs_of(IDS).double()), loss(reps, pairs_of(IDS)))


def test_rows_with_a_negative_id_take_no_part():
    loss, reps, named = (
        sci.StructuralContrastiveLoss(),
        torch.randn(B, K, D, requires_grad=True),
        torch.tensor([0, 2, 3, 5]),
    )
    ids = torch.tensor([4, -1, 4, 9, -1, 9])
    value = loss.of_ids(reps, ids)
    value.backward()
    assert value == loss(reps[named], pairs_of(ids[named]))
    assert (reps.grad[[1, 4]] == 0).all() and (reps.grad[named] != 0).any()
    assert loss.of_ids(reps, torch.full((B,), -1)).item() == 0


def test_what_does_not_fit_is_refused():
    loss, reps = sci.StructuralContrastiveLoss(), torch.randn(B, K, D)
    for temperature in (0, -1.0, float("nan")):
        with pytest.raises(ValueError, match=f"temperature is {temperature}: it must be positive"):
            sci.StructuralContrastiveLoss(temperature)
    with pytest.raises(ValueError, match=r"pair_labels have shape \(6, 5\): 6 rows need \(6, 6\)"):
        loss(reps, pairs_of(IDS)[:, :5])
    with pytest.raises(
        ValueError, match="pair_labels are torch.int64: pass booleans, or similarities from 0"
    ):
        loss(reps, pairs_of(IDS).long())
    for wrong in (-0.5, 1.5):
        with pytest.raises(ValueError, match="pair_labels go from .* to .*: give similarities from 0 to 1"):
            loss(reps, pairs_of(IDS) * wrong)
    with pytest.raises(
        ValueError, match=r"structure_ids have shape \(5,\): pass one id for each of the 6 rows"
    ):
        loss.of_ids(reps, IDS[:5])


# pairs

COMMANDS = [command for command, _ in scan.generate()[:80]]


@given(st.lists(st.sampled_from(COMMANDS), max_size=9))
def test_pairs_are_the_guides(batch):
    ours, literal = (
        sci.generate_structural_pairs(batch, scan.Grammar()),
        guide.generate_structural_pairs(batch, scan.Grammar()),
    )
    assert ours.dtype == torch.bool and torch.equal(ours, literal.bool())
    assert torch.equal(ours, sci.generate_structural_pairs(batch, parser=scan.structure))


def test_each_text_is_parsed_once():
    calls = Counter()

    def parser(text):
        calls[text] += 1
        return len(text)

    sci.generate_structural_pairs(["ab", "cd", "e"], parser=parser)
    assert calls == {"ab": 1, "cd": 1, "e": 1}


def test_pairs_need_a_grammar_and_ids_number_by_first_appearance():
    with pytest.raises(ValueError, match="need a grammar with extract_structure.* or a parser.*: pass one"):
        sci.generate_structural_pairs(["walk"])
    assert sci.structure_ids(["b", "a", "b", ("c", 1)]).tolist() == [0, 1, 0, 2]


# the sampler

TEXTS = [f"text {i % 17}" for i in range(23)]  # six texts come twice
STRUCTURES = [f"structure {i % 17 % 5}" if i % 17 < 15 else f"alone {i % 17}" for i in range(23)]
LENGTHS = [3 + 7 * i % 11 for i in range(23)]


def batches(random_rows=4, pairs=2, steps=30, **settings):
    return sci.StructureBalancedBatches(STRUCTURES, TEXTS, random_rows, pairs, steps, **settings)


@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["unsorted", "sorted"])
def test_batches_are_a_function_of_the_seed(lengths):
    once, again = list(batches(lengths=lengths)), list(batches(lengths=lengths))
    assert once == again and len(once) == len(batches()) == 30
    assert once != list(batches(lengths=lengths, seed=1))
    sampler = batches(lengths=lengths)
    assert list(sampler) == list(sampler)
    assert list(batches(lengths=lengths, steps=11)) == once[:11]  # what a resumed run skips is what it saw
    assert all(isinstance(row, int) for row in once[0])


@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["unsorted", "sorted"])
def test_pairs_share_a_structure_and_differ_in_text(lengths):
    seen = Counter()
    for batch in batches(lengths=lengths):
        assert len(batch) == 4 + 2 * 2
        for one, other in (batch[4:6], batch[6:8]):
            assert STRUCTURES[one] == STRUCTURES[other] and TEXTS[one] != TEXTS[other]
            seen[STRUCTURES[one]] += 1
    assert seen.keys() == {f"structure {i}" for i in range(5)}


@pytest.mark.parametrize("lengths, steps", [(None, 23), (LENGTHS, 46)], ids=["unsorted", "sorted"])
def test_random_rows_pass_through_the_data_in_epochs(lengths, steps):
    """4 x 23 rows in 23 batches, or 4 x 46 in 46 (whole windows of 2): each row exactly 4 or 8 times."""
    random = [row for batch in batches(steps=steps, lengths=lengths, window=2) for row in batch[:4]]
    assert set(Counter(random).values()) == {len(random) // 23}
    if lengths is None:
        for epoch in range(4):
            assert sorted(random[23 * epoch : 23 * epoch + 23]) == list(range(23))


def test_sorting_saves_padding_and_shuffles_whole_batches():
    def padding(found):
        return sum(
            max(LENGTHS[r] for r in batch) * len(batch) - sum(LENGTHS[r] for r in batch) for batch in found
        )

    plain, sorted_ = list(batches(steps=64)), list(batches(steps=64, lengths=LENGTHS))
    assert padding(sorted_) < 0.6 * padding(plain)
    longest = [max(LENGTHS[row] for row in batch[:4]) for batch in sorted_[:8]]
    assert longest != sorted(longest)


def test_only_pairs_or_only_random_rows():
    assert {len(batch) for batch in batches(random_rows=0, pairs=3, lengths=LENGTHS)} == {6}
    assert {len(batch) for batch in batches(pairs=0, lengths=LENGTHS)} == {4}
    lonely = sci.StructureBalancedBatches(["a", "b"], ["x", "y"], 2, 0, 3)
    assert [sorted(batch) for batch in lonely] == [[0, 1]] * 3


def test_samplers_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="no structure has two different texts: .* set pairs=0"):
        sci.StructureBalancedBatches(["a", "a", "b"], ["x", "x", "y"], 1, 1, 1)
    with pytest.raises(ValueError, match="24 random rows do not fit data of 23 rows: choose fewer"):
        batches(random_rows=24)
    with pytest.raises(ValueError, match="window is 0: choose 1 or more, a whole number"):
        batches(window=0)
    with pytest.raises(ValueError):
        sci.StructureBalancedBatches(["a"], ["x", "y"], 1, 0, 1)


def test_on_scan_the_sampler_gives_every_pair_its_positive():
    rows = scan.split("add_prim_jump")[0]
    structures, texts = [scan.structure(command) for command, _ in rows], [command for command, _ in rows]
    for batch in sci.StructureBalancedBatches(structures, texts, 10, 3, 4):
        labels = sci.generate_structural_pairs([texts[row] for row in batch], scan.Grammar())
        assert labels[10:].any(1).all()


def test_representations_without_slots_are_refused():
    with pytest.raises(
        ValueError, match=r"structural_reps have shape \(6, 8\): pass \(batch, slots, width\)"
    ):
        sci.StructuralContrastiveLoss()(torch.randn(B, D), pairs_of(IDS))
