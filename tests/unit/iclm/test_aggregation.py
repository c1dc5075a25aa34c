"""The shared normalisation and the three schemes, literally; Equations 14 to 16 and their floor."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from causalnb.iclm import (
    LatentAggregation,
    LogitAggregation,
    ProbabilityAggregation,
    SharedBatchNorm,
    shared_batch_norm,
)

ROWS, WIDTH, VOCABULARY = 6, 4, 7


def slow_norm(rows, eps=1e-5):
    """Every feature of rows (n, H) minus its mean, divided by its standard deviation, one at a time."""
    out = torch.empty_like(rows)
    for j in range(rows.shape[1]):
        column = rows[:, j]
        mean = sum(column) / len(column)
        out[:, j] = (column - mean) / (sum((x - mean) ** 2 for x in column) / len(column) + eps).sqrt()
    return out


def head():
    return nn.Linear(WIDTH, VOCABULARY, bias=False)


def modules_states(modules=2):
    return torch.randn(modules, ROWS, WIDTH) + torch.arange(modules)[:, None, None]


def one_domain():
    return torch.ones(1, ROWS)


# shared batch norm


def test_the_statistics_are_of_all_modules_rows(double):
    a, b = modules_states().requires_grad_()
    first, second = shared_batch_norm(a, b)
    expected = slow_norm(torch.cat([a, b]))
    torch.testing.assert_close(torch.cat([first, second]), expected, rtol=1e-10, atol=1e-12)
    found = SharedBatchNorm(WIDTH)(torch.stack([a, b]))
    torch.testing.assert_close(found.flatten(0, 1), expected, rtol=1e-10, atol=1e-12)
    weights = torch.randn(2 * ROWS, WIDTH)
    found = (found.flatten(0, 1) * weights).sum()
    for one, other in zip(
        torch.autograd.grad(found, [a, b], retain_graph=True),
        torch.autograd.grad((expected * weights).sum(), [a, b]),
        strict=False,
    ):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)


def test_unshared_it_is_the_published_codes_own_for_each_half(double):
    states = modules_states()
    published = nn.BatchNorm1d(2 * WIDTH)
    expected = published(torch.cat([*states], 1))
    norm = SharedBatchNorm(WIDTH, shared=False)
    torch.testing.assert_close(torch.cat([*norm(states)], 1), expected, rtol=1e-10, atol=1e-12)
    again = modules_states()
    torch.testing.assert_close(
        torch.cat([*norm.eval()(again)], 1), published.eval()(torch.cat([*again], 1)), rtol=1e-10, atol=1e-12
    )
    assert sum(p.numel() for p in norm.parameters()) == 4 * WIDTH


def test_only_unshared_every_module_has_mean_0_and_variance_1(double):
    states = modules_states() * torch.tensor([1.0, 3.0])[:, None, None]
    shared, apart = SharedBatchNorm(WIDTH)(states), SharedBatchNorm(WIDTH, shared=False)(states)
    assert apart.mean(1).abs().max() < 1e-10 and (apart.var(1, correction=0) - 1).abs().max() < 1e-4
    assert (shared.mean(1)[0] - shared.mean(1)[1]).abs().max() > 0.3
    assert (shared.var(1)[0] - shared.var(1)[1]).abs().min() > 0.1


def test_running_statistics_are_pytorchs(double):
    norm, plain = SharedBatchNorm(WIDTH, momentum=0.1), nn.BatchNorm1d(WIDTH, momentum=0.1)
    for _ in range(3):
        states = modules_states()
        norm(states), plain(states.flatten(0, 1))
    torch.testing.assert_close(norm.mean.flatten(), plain.running_mean, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(norm.variance.flatten(), plain.running_var, rtol=1e-12, atol=1e-14)
    before = norm.mean.clone()
    torch.testing.assert_close(norm.eval()(states).flatten(0, 1), plain.eval()(states.flatten(0, 1)))
    assert torch.equal(norm.mean, before)


@pytest.mark.parametrize("shared, modules", [(True, 1), (False, 2)])
def test_a_single_row_is_no_batch(shared, modules):
    norm = SharedBatchNorm(WIDTH, modules, shared)
    with pytest.raises(ValueError, match="batch normalisation in training needs more than one row: use a la"):
        norm(torch.randn(modules, 1, WIDTH))
    assert torch.isfinite(norm.eval()(torch.randn(modules, 1, WIDTH))).all()


# latent


@pytest.mark.parametrize("invariant", [True, False])
def test_latent_is_one_head_on_both_halves(double, invariant):
    base_head = head()
    aggregation = LatentAggregation(base_head, invariant)
    states = modules_states(1 + invariant)
    normed = slow_norm(states.flatten(0, 1)).view_as(states)
    weight = aggregation.head.weight
    expected = torch.stack([weight @ torch.cat([normed[0, i], normed[-1, i]]) for i in range(ROWS)])
    torch.testing.assert_close(aggregation(states, one_domain()), expected, rtol=1e-10, atol=1e-12)
    assert weight.shape == (VOCABULARY, 2 * WIDTH)
    rows = torch.tensor([4, 1])
    some = aggregation(states, one_domain(), rows)
    torch.testing.assert_close(some, expected[rows], rtol=1e-10, atol=1e-12)


def test_domains_are_mixed_by_the_routers_weights(double):
    aggregation = LatentAggregation(head()).eval()
    states, weights = modules_states(3), torch.rand(2, ROWS).softmax(0)
    mixed = torch.stack([states[0], weights[0, :, None] * states[1] + weights[1, :, None] * states[2]])
    torch.testing.assert_close(
        aggregation(states, weights), aggregation(mixed, one_domain()), rtol=1e-12, atol=1e-14
    )


def test_the_head_starts_at_random_or_as_half_the_bases_twice(double):
    base_head = head()
    states = modules_states()
    warm = LatentAggregation(base_head, start="base").eval()
    expected = (base_head(states[0]) + base_head(states[1])) / 2 / math.sqrt(1 + 1e-5)
    torch.testing.assert_close(warm(states, one_domain()), expected, rtol=1e-10, atol=1e-12)
    assert warm.head.weight.requires_grad
    cold = LatentAggregation(base_head).head.weight
    assert not torch.equal(cold, warm.head.weight)
    with pytest.raises(ValueError, match="start is 'zero': choose 'random' or 'base'"):
        LatentAggregation(base_head, start="zero")
    biased = torch.nn.Linear(*reversed(base_head.weight.shape))
    with pytest.raises(
        ValueError, match="the base's head has a bias, which this head has not: choose start="
    ):
        LatentAggregation(biased, start="base")


# logits


@pytest.mark.parametrize("share", [0.5, 0.8, None])
def test_logits_are_summed_after_one_norm_for_all_modules(double, share):
    base_head, modules = head(), 2 if share is None else 3
    aggregation = LogitAggregation(base_head, modules, share)
    states, weights = modules_states(modules), torch.rand(2, ROWS).softmax(0)
    normed = slow_norm(base_head(states).flatten(0, 1)).view(modules, ROWS, VOCABULARY)
    own = weights if share is None else torch.stack([torch.full((ROWS,), share), *((1 - share) * weights)])
    expected = torch.stack([sum(own[a, i] * normed[a, i] for a in range(modules)) for i in range(ROWS)])
    torch.testing.assert_close(aggregation(states, weights), expected, rtol=1e-10, atol=1e-12)
    rows = torch.tensor([5, 0])
    torch.testing.assert_close(aggregation(states, weights, rows), expected[rows], rtol=1e-10, atol=1e-12)
    assert {name for name, _ in aggregation.named_parameters()} == {"norm.scale", "norm.shift"}


# probabilities


def equations_14_to_16(logits, weights):
    """Equation 16 from logits (M, n, V), a word at a time, with the B_a that the package leaves out."""
    modules, rows, vocabulary = logits.shape
    total = torch.zeros(rows, vocabulary)
    for a in range(modules):
        for i in range(rows):
            normaliser = sum(logits[a, i, y].exp() for y in range(vocabulary))
            for y in range(vocabulary):
                probability = logits[a, i, y].exp() / normaliser
                bounded = (1 - weights[a, i]) / 2 + weights[a, i] * probability
                total[i, y] = total[i, y] + bounded.log() + normaliser.log()
    return total.softmax(1)


@pytest.mark.parametrize("share, domains", [(0.5, 1), (0.3, 2), (None, 2)])
def test_equations_14_to_16_and_their_gradients(double, share, domains):
    base_head = head()
    modules = domains + (share is not None)
    states, router = modules_states(modules).requires_grad_(), torch.rand(domains, ROWS).softmax(0)
    own = router if share is None else torch.stack([torch.full((ROWS,), share), *((1 - share) * router)])
    found = ProbabilityAggregation(base_head, modules, share)(states, router).softmax(1)
    expected = equations_14_to_16(base_head(states), own)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-14)
    weights = torch.randn(ROWS, VOCABULARY)
    for one, other in zip(
        torch.autograd.grad((found * weights).sum(), [states, base_head.weight]),
        torch.autograd.grad((expected * weights).sum(), [states, base_head.weight]),
        strict=False,
    ):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-12)


def test_a_module_of_weight_0_changes_nothing(double):
    base_head, states = head(), modules_states(3)
    one = ProbabilityAggregation(base_head, 3)(states, torch.tensor([[1.0], [0.0]]).expand(2, ROWS))
    two = ProbabilityAggregation(base_head, 2)(states[:2], one_domain())
    torch.testing.assert_close(one.softmax(1), two.softmax(1), rtol=1e-12, atol=0)


@pytest.mark.parametrize("vocabulary", [5, 60, 512])
def test_no_word_gets_more_than_9_parts_of_v_plus_8(double, vocabulary):
    sure = nn.Linear(1, vocabulary, bias=False)
    sure.weight.data.zero_()
    sure.weight.data[3] = 1e4
    states = torch.ones(2, 1, 1)
    aggregation = ProbabilityAggregation(sure)
    found = aggregation(states, torch.ones(1, 1)).softmax(1)[0]
    assert found[3].item() == pytest.approx(9 / (vocabulary + 8), rel=1e-12)
    random = nn.Linear(1, vocabulary, bias=False)
    for scale in (1, 10, 100):
        random.weight.data.normal_(0, scale)
        found = ProbabilityAggregation(random)(states, torch.ones(1, 1)).softmax(1)
        assert found.max() < 9 / (vocabulary + 8)


def test_published_norm_first_and_rows(double):
    base_head, states = head(), modules_states()
    aggregation = ProbabilityAggregation(base_head, norm=True)
    normed = slow_norm(base_head(states).flatten(0, 1)).view(2, ROWS, VOCABULARY)
    expected = equations_14_to_16(normed, torch.full((2, ROWS), 0.5))
    torch.testing.assert_close(aggregation(states, one_domain()).softmax(1), expected, rtol=1e-10, atol=1e-12)
    rows = torch.tensor([2, 2, 0])
    torch.testing.assert_close(
        aggregation(states, one_domain(), rows).softmax(1), expected[rows], rtol=1e-10, atol=1e-12
    )


def test_a_probability_of_0_is_no_nan():
    sure = nn.Linear(1, 4, bias=False)
    sure.weight.data.copy_(torch.tensor([[0.0], [1e5], [0.0], [0.0]]))
    states = torch.ones(1, 3, 1, requires_grad=True)
    logits = ProbabilityAggregation(sure, 1, None)(states, torch.ones(1, 3))
    loss = F.cross_entropy(logits, torch.tensor([1, 0, 2]))
    loss.backward()
    assert torch.isfinite(loss) and torch.isfinite(states.grad).all()


@pytest.mark.parametrize("make", [LatentAggregation, LogitAggregation, ProbabilityAggregation])
def test_states_of_half_precision_are_aggregated_in_single(make):
    base_head = head().bfloat16()
    aggregation = make(base_head).float()
    found = aggregation(modules_states().bfloat16(), one_domain())
    assert found.dtype == torch.float32 and torch.isfinite(found).all()
