"""Reweighting, GroupDRO and IRM against sums by hand, and what each does to what it is for."""

from math import exp, log

import pytest
import torch
import torch.nn.functional as F
from transformers import AutoModelForSequenceClassification, set_seed

from causalnb.causal_transformer.groups import (
    GroupedConfig,
    GroupedForSequenceClassification,
    ascended,
    irm_penalty,
    part_means,
    slopes,
)
from causalnb.causal_transformer.invariance import InvariantForSequenceClassification

SIZE = dict(
    vocab_size=20, num_labels=2, d_model=8, num_heads=2, d_ff=8, encoder_layers=2, dropout=0.0, pre_norm=True
)


def batch(rows=6):
    draw = torch.Generator().manual_seed(1)
    ids = torch.randint(3, 20, (rows, 8), generator=draw)
    ids[1, 6:] = 0
    types = torch.tensor([0] * 4 + [1] * 4).expand(rows, -1)
    return {
        "input_ids": ids,
        "attention_mask": (ids != 0).long(),
        "token_type_ids": types,
        "labels": torch.tensor([0, 1] * 3)[:rows],
        "groups": torch.tensor([0, 1, 0, 2, 0, 1])[:rows],
        "environments": torch.tensor([0, 0, 0, 1, 1, 1])[:rows],
    }


def model(kind=GroupedForSequenceClassification, **more):
    set_seed(0)
    return kind(kind.config_class(**SIZE, **more)).double().train()


def literal_exponentiated(weights, losses, step):
    raised = [weight * exp(step * loss) for weight, loss in zip(weights, losses, strict=True)]
    return [one / sum(raised) for one in raised]


def literal_penalty(logits, labels, environments):
    """IRMv1's: by automatic differentiation with respect to a scale of 1."""
    found = []
    for e in sorted(set(environments.tolist())):
        scale = torch.ones((), dtype=logits.dtype, requires_grad=True)
        there = environments == e
        risk = F.cross_entropy(scale * logits[there], labels[there])
        found.append(torch.autograd.grad(risk, scale, create_graph=True)[0] ** 2)
    return torch.stack(found).mean()


def test_means_are_of_the_rows_of_a_part_and_0_without():
    means, rows = part_means(torch.tensor([1.0, 4.0, 3.0]), torch.tensor([0, 2, 0]), 3)
    assert means.tolist() == [2, 0, 4] and rows.tolist() == [2, 0, 1]


def test_the_step_on_weights_is_the_literal_one(double):
    weights, losses = [0.5, 0.3, 0.2], [0.1, 2.0, 0.7]
    for step in (0.0, 0.01, 1.0):
        fast = ascended(torch.tensor(weights).log(), torch.tensor(losses), step).exp()
        literal = torch.tensor(literal_exponentiated(weights, losses, step))
        torch.testing.assert_close(fast, literal, rtol=0, atol=1e-15)
    # by hand: two groups of weight 1/2, losses 0 and log 3, step 1: 1/4 and 3/4
    half = torch.tensor([0.5, 0.5]).log()
    torch.testing.assert_close(
        ascended(half, torch.tensor([0.0, log(3)]), 1.0).exp(), torch.tensor([0.25, 0.75])
    )


def test_the_group_that_does_worst_gains_weight_and_comes_back_from_far_below():
    weights = torch.full((3,), 1 / 3).log()
    assert ascended(weights, torch.tensor([0.2, 0.9, 0.5]), 0.5).exp().argmax() == 1
    for _ in range(2000):
        weights = ascended(weights, torch.tensor([0.0, 1.0, 0.0]), 1.0)
    assert weights.exp()[0] == 0  # as a float, and not for good
    for _ in range(4000):
        weights = ascended(weights, torch.tensor([1.0, 0.0, 0.0]), 1.0)
    assert weights.exp()[0] > 0.99


def test_slopes_are_the_derivative_by_a_scale(double):
    torch.manual_seed(0)
    logits, labels = torch.randn(5, 3), torch.tensor([0, 2, 1, 1, 0])
    each = slopes(logits, labels)
    for row in range(5):
        scale = torch.ones((), requires_grad=True)
        risk = F.cross_entropy(scale * logits[row : row + 1], labels[row : row + 1])
        torch.testing.assert_close(each[row], torch.autograd.grad(risk, scale)[0], rtol=0, atol=1e-15)
    # by hand: logits 0 and log 3, p = 1/4 and 3/4: E_p f = 3/4 log 3, and of label 1 it is - 1/4 log 3
    torch.testing.assert_close(
        slopes(torch.tensor([[0, log(3)]]), torch.tensor([1])), torch.tensor([-log(3) / 4])
    )


def test_the_penalty_is_the_literal_one_and_so_is_its_gradient(double):
    torch.manual_seed(1)
    logits, labels = torch.randn(7, 2, requires_grad=True), torch.tensor([0, 1, 1, 0, 1, 0, 0])
    environments = torch.tensor([2, 0, 0, 2, 2, 0, 2])  # and none of 1
    fast, literal = (
        irm_penalty(logits, labels, environments, 3),
        literal_penalty(logits, labels, environments),
    )
    torch.testing.assert_close(fast, literal, rtol=0, atol=1e-15)
    gradients = [torch.autograd.grad(loss, logits)[0] for loss in (fast, literal)]
    torch.testing.assert_close(*gradients, rtol=0, atol=1e-15)


def test_by_halves_it_is_the_product_of_every_other_row_and_the_others(double):
    torch.manual_seed(2)
    logits, labels = torch.randn(6, 2), torch.tensor([0, 1, 1, 0, 1, 0])
    environments = torch.tensor([0, 1, 0, 0, 1, 2])  # 0: rows 0, 2, 3; 1: rows 1, 4; 2: one row, left out
    each = slopes(logits, labels)
    literal = ((each[0] + each[3]) / 2 * each[2] + each[1] * each[4]) / 2
    torch.testing.assert_close(
        irm_penalty(logits, labels, environments, 3, halves=True), literal, rtol=0, atol=1e-15
    )
    assert irm_penalty(logits[:1], labels[:1], environments[:1], 3, halves=True) == 0


def test_the_halves_are_right_on_average_and_the_square_is_too_large(double):
    draw = torch.Generator().manual_seed(3)
    scores = torch.randn(4000, 2, generator=draw)
    labels = (torch.rand(4000, generator=draw) < 0.7).long()
    one = torch.zeros(4, dtype=torch.int64)
    exact = irm_penalty(scores, labels, torch.zeros(4000, dtype=torch.int64), 1)
    square, halves = (
        torch.stack(
            [irm_penalty(scores[i : i + 4], labels[i : i + 4], one, 1, halves) for i in range(0, 4000, 4)]
        )
        for halves in (False, True)
    )
    assert abs(halves.mean() - exact) < 3 * halves.std() / 1000**0.5
    assert square.mean() > exact + 5 * square.std() / 1000**0.5


def test_it_is_0_where_what_is_read_is_invariant_and_positive_where_it_is_not(double):
    """A cue right in 3/4 of both environments, and a shortcut right in 9 of 10 and in 6 of 10 rows.

    Read by the log odds that are right in each, or, of the shortcut, right on average.
    """

    def penalty(shares, read):
        labels, logits, environments = [], [], []
        for e, share in enumerate(shares):
            for right, times in ((True, round(20 * share)), (False, round(20 * (1 - share)))):
                for label in (0, 1):
                    said = label if right else 1 - label
                    labels += times * [label]
                    logits += times * [[log(1 - read), log(read)][:: 1 if said else -1]]
                    environments += times * [e]
        return irm_penalty(
            *(torch.tensor(one) for one in (logits, labels, environments)), count=len(shares)
        ).item()

    assert penalty((0.75, 0.75), 0.75) == pytest.approx(0, abs=1e-20)
    assert penalty((0.9, 0.6), 0.75) > 0.01
    assert penalty((0.75, 0.75), 0.95) > 0.01  # invariant, and too sure in both


def test_without_a_told_part_it_is_the_invariant_model():
    given, plain = batch(), model(InvariantForSequenceClassification, parents=None, interchanged=False)
    told = ("groups", "environments")
    bare = {name: value for name, value in given.items() if name not in told}
    for objective in ("mean", "dro", "irm"):
        one = model(objective=objective, groups=3)
        assert all(
            torch.equal(ours, theirs)
            for ours, theirs in zip(one.parameters(), plain.parameters(), strict=True)
        )
        if objective == "mean":
            assert one(**given).loss == plain(**bare).loss and one.passes == 1
        assert one.eval()(**bare).loss == plain.eval()(**bare).loss and one.passes == (objective == "mean")
        assert torch.equal(one(**bare).logits, plain(**bare).logits)
        plain.train()


def test_groupdro_weighs_mean_losses_of_groups_after_its_step():
    given, one = batch(), model(objective="dro", groups=4, step=0.7)
    each = F.cross_entropy(
        one(**{**given, "labels": None}).logits.detach(), given["labels"], reduction="none"
    )
    means = [
        each[given["groups"] == g].mean() if g < 3 else torch.zeros((), dtype=torch.float64) for g in range(4)
    ]
    weights = literal_exponentiated([0.25] * 4, [float(loss) for loss in means], 0.7)
    out = one(**given)
    literal = sum(weight * loss for weight, loss in zip(weights, means, strict=True))
    torch.testing.assert_close(out.loss, literal, rtol=0, atol=1e-12)
    torch.testing.assert_close(
        one.log_weights.exp(), torch.tensor(weights, dtype=torch.float64), rtol=0, atol=1e-12
    )
    again = literal_exponentiated(weights, [float(loss) for loss in means], 0.7)
    one(**given)
    torch.testing.assert_close(
        one.log_weights.exp(), torch.tensor(again, dtype=torch.float64), rtol=0, atol=1e-12
    )
    assert not one.log_weights.requires_grad and out.loss.requires_grad
    one.eval()(**given)
    torch.testing.assert_close(
        one.log_weights.exp(), torch.tensor(again, dtype=torch.float64), rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("weight", [0.5, 8.0])
def test_irm_adds_its_penalty_from_a_step_on_and_is_divided_by_a_large_weight(weight):
    given, one = batch(), model(objective="irm", penalty_weight=weight, penalty_from=1)
    logits = one(**{**given, "labels": None}).logits.detach()
    each = F.cross_entropy(logits, given["labels"], reduction="none")
    risk = (each[:3].mean() + each[3:].mean()) / 2
    penalty = irm_penalty(logits, given["labels"], given["environments"], 2, halves=True)
    before, after = one(**given), one(**given)
    torch.testing.assert_close(before.loss, risk + penalty, rtol=0, atol=1e-12)
    torch.testing.assert_close(after.loss, (risk + weight * penalty) / max(1, weight), rtol=0, atol=1e-12)
    torch.testing.assert_close(after.causal_loss, penalty, rtol=0, atol=1e-12)


def test_its_weights_are_saved_and_loaded(tmp_path):
    one = model(objective="dro", groups=3, step=1.0)
    one(**batch())
    one.save_pretrained(tmp_path)
    other = AutoModelForSequenceClassification.from_pretrained(tmp_path).double()
    assert isinstance(other, GroupedForSequenceClassification) and other.config.step == 1.0
    torch.testing.assert_close(other.log_weights, one.log_weights, rtol=0, atol=1e-6)
    assert other.log_weights.max() > -log(3)


def test_its_weights_stay_single_in_half_precision(tmp_path):
    one = model(objective="dro", groups=3, step=0.001).float()
    one(**batch())
    held = one.log_weights.clone()
    one.save_pretrained(tmp_path)
    loaded = GroupedForSequenceClassification.from_pretrained(tmp_path, dtype=torch.bfloat16).train()
    for half in (one.bfloat16(), loaded):
        assert half.dtype == torch.bfloat16 and torch.equal(half.log_weights, held)
        assert half(**batch()).loss.isfinite() and half.log_weights.dtype == torch.float32
        assert 0 < (half.log_weights - held).abs().max() < 0.002  # a step that half precision would lose


@pytest.mark.parametrize(
    "wrong, told",
    [
        (dict(objective="best"), "objective is 'best': choose among 'mean', 'dro', 'irm'"),
        (dict(groups=0), "groups is 0: choose 1 or more"),
        (dict(step=None), "step is None: choose a finite one, 0 or more"),
        (dict(step=-1.0), "step is -1.0: choose a finite one, 0 or more"),
        (dict(penalty_weight=float("nan")), "penalty_weight is nan"),
        (dict(penalty_from=0.5), "penalty_from is 0.5: choose 0 or more"),
        (dict(blanket="hinge"), "blanket is 'hinge'.*so that one loss is measured"),
        (dict(causal_weight=0.5), "causal_weight 0.5"),
        (dict(interchanged=True), "interchanged True"),
    ],
)
def test_what_cannot_be_is_refused(wrong, told):
    with pytest.raises(ValueError, match=told):
        GroupedConfig(**SIZE, **wrong)


@pytest.mark.parametrize(
    "objective, name, value, told",
    [
        ("dro", "groups", None, "groups are missing: give one number for each of 6 pairs"),
        ("irm", "environments", None, "environments are missing"),
        ("dro", "groups", torch.zeros(5, dtype=torch.int64), r"groups are \(5,\)"),
        ("dro", "groups", torch.arange(6), "groups are from 0 to 5: number them from 0 to 2"),
        ("irm", "environments", torch.tensor([-1] * 6), "environments are from -1 to -1"),
    ],
)
def test_what_is_told_wrongly_is_refused_in_training_alone(objective, name, value, told):
    given = batch() | {name: value}
    one = model(objective=objective, groups=3)
    with pytest.raises(ValueError, match=told):
        one(**given)
    assert one.eval()(**given).loss > 0
