"""What the paper's mathematics does and does not say, each as a number."""

import math
from itertools import product

import pytest
import torch
from scipy.optimize import linprog

from causalnb.causal_transformer import (
    GCNValueUpdate,
    MarkovBlanketLoss,
    describe,
    excess_bounds,
    markov_blanket_bounds,
    no_loop,
    sinkhorn,
    tau,
)
from causalnb.causal_transformer.loss import PRINTED_SLACK
from tests.unit.causal_transformer.small import maps

pytestmark = pytest.mark.usefixtures("double")
E = math.e


def cycle(tokens):
    """Every node looks at the next, the last at the first."""
    return torch.eye(tokens).roll(1, 1)[None, None]


@pytest.mark.parametrize("sharp", [0.0, 1.0, 10.0, 100.0])
def test_the_upper_bound_says_nothing_about_rows(sharp):
    rows, columns = tau(maps(tokens=9, sharp=sharp))
    _, high = markov_blanket_bounds(9)
    assert (rows <= high / 2 + 1e-12).all()  # exp is convex: its sum over a simplex is largest at a corner
    if sharp >= 10:
        assert (columns > high / 2).any()
    torch.testing.assert_close(tau(cycle(9))[0], torch.full((1, 1, 9), high / 2))


def test_what_0_7045_and_0_5062_are():
    low, high = PRINTED_SLACK
    assert low == round(E - math.exp(0.7), 4)  # a neighbour's weight from 1 to 2/3, rounded to 0.7
    assert round(E - math.exp(2 / 3), 4) == 0.7705
    assert high == round(2 * (math.exp(1 / 2) - math.exp(1 / 3)), 4)  # two neighbours' from 1/2 to 1/3
    (whole_low, whole_high), (part_low, part_high) = excess_bounds(), excess_bounds("set")
    assert 2 * (whole_low - part_low) == pytest.approx(0.2212, abs=1e-4)  # with the node's own exp(1/3) - 1
    assert 2 * (whole_high - part_high) == pytest.approx(0.7499, abs=1e-4)


def test_printed_slack_leaves_no_feasible_map():
    (low, high), (slack_low, slack_high) = (2 * bound for bound in excess_bounds()), PRINTED_SLACK
    assert low < high
    for times in (1, 2):  # Equation 2, and Equation 3's 2 eps
        assert low + times * slack_low > high - times * slack_high
    assert low + slack_low == pytest.approx(3.2994, abs=1e-4)
    assert high - slack_high == pytest.approx(2.9304, abs=1e-4)
    grid = [k / 10 for k in range(11)]
    feasible = [(a, b) for a, b in product(grid, grid) if low + a * slack_low <= high - b * slack_high]
    assert (0.0, 0.0) in feasible and (1.0, 1.0) not in feasible  # what is minimised is 0 at the tightest


def test_the_printed_loss_has_no_gradient():
    scores = torch.randn(2, 3, 8, 8, requires_grad=True)
    for gammas in ((1, 1, 1, 1), (0.3, 2.0, 5.0, 5.0)):
        loss = MarkovBlanketLoss("paper", gammas=gammas)(scores.softmax(-1))
        (slope,) = torch.autograd.grad(loss, scores)
        assert slope.abs().max() < 1e-15
    (slope,) = torch.autograd.grad(MarkovBlanketLoss()(scores.softmax(-1)), scores)
    assert slope.abs().max() > 1e-3


def test_with_other_multipliers_it_only_sharpens_or_flattens():
    scores = torch.randn(1, 1, 8, 8)
    entropies = {}
    for g3, g4 in ((2.0, 1.0), (1.0, 2.0)):
        free = scores.clone().requires_grad_()
        criterion = MarkovBlanketLoss("paper", gammas=(1, 1, g3, g4))
        for _ in range(20):
            (slope,) = torch.autograd.grad(criterion(free.softmax(-1)), free)
            free = (free - slope).detach().requires_grad_()
        entropies[g3 > g4] = describe(free.softmax(-1))["entropy"]
        moved = tau(free.softmax(-1))[0].sum()
        torch.testing.assert_close(
            criterion(free.softmax(-1)) - criterion(scores.softmax(-1)),
            2 * (g4 - g3) * (moved - tau(scores.softmax(-1))[0].sum()),
        )
    assert entropies[True] < describe(scores.softmax(-1))["entropy"] < entropies[False]


def test_descent_on_a_multiplier_turns_the_constraint_round():
    """d h / d gamma_3 is the violation: descent lowers gamma_3 below 0 as long as the bound is broken."""
    attention, gamma = torch.full((1, 1, 8, 8), 1 / 8), torch.tensor(1.0, requires_grad=True)
    total = sum(tau(attention)) - 16
    broken = (2 * excess_bounds()[0] - total).sum()
    (slope,) = torch.autograd.grad(gamma * broken, gamma)
    assert broken > 0 and slope == broken
    criterion = MarkovBlanketLoss("auglag")
    for _ in range(3):
        criterion(attention)
    assert criterion.multipliers[0] > 0  # ascent
    ends = {}
    for sign in (-1, 1):  # the map descends, the multiplier descends or ascends
        free, gamma = torch.randn(8, 8, generator=torch.Generator().manual_seed(4)), torch.tensor(1.0)
        for _ in range(40):
            free, gamma = free.requires_grad_(), gamma.requires_grad_()
            s = sum(tau(free.softmax(-1)[None, None])) - 16
            h = gamma * (2 * excess_bounds()[0] - s).sum() + (s - 2 * excess_bounds()[1]).sum()
            down, slope = torch.autograd.grad(h, (free, gamma))
            free, gamma = (free - 0.1 * down).detach(), (gamma + sign * 0.05 * slope).detach()
        ends[sign] = gamma, s.mean()
    assert ends[-1][0] < 0 < 1 < ends[1][0] and ends[-1][1] < 2.2 < 2.6 < ends[1][1]


def test_a_free_slack_runs_to_minus_infinity():
    """d h / d eps' = gamma_1 + 2 gamma_3 for every token: nothing in Equation 3 holds eps at 0 or above."""
    attention, n, far = maps(tokens=5, batch=1, heads=1), 5, []
    for slack in ((0.0, 0.0), (-1.0, 0.0), (-100.0, 0.0), (0.0, -1.0)):
        criterion = MarkovBlanketLoss("paper", gammas=(0.5, 2.0, 3.0, 1.0), slack=slack)
        far.append(criterion(attention).item())
    assert far[1] - far[0] == pytest.approx(-n * (0.5 + 2 * 3.0))
    assert far[2] - far[0] == pytest.approx(100 * (far[1] - far[0]))
    assert far[3] - far[0] == pytest.approx(-n * (2.0 + 2 * 1.0))


def test_no_row_stochastic_map_is_acyclic():
    """Without self-loops every node has a successor, and following them closes a cycle."""
    for _ in range(20):
        attention = maps(tokens=7, batch=1, heads=1, sharp=4.0)
        off = attention * (1 - torch.eye(7))
        assert no_loop(off / off.sum(-1, keepdim=True)) > 1e-4
    n = 4
    for nexts in product(range(n), repeat=n):
        if all(i != j for i, j in enumerate(nexts)):
            graph = torch.zeros(n, n)
            graph[torch.arange(n), torch.tensor(nexts)] = 1
            assert no_loop(graph) > 0.04


def test_feasible_maps_are_cyclic_and_long_cycles_hardly_count():
    n = 8
    ring = (cycle(n) + cycle(n).transpose(2, 3)) / 2
    for one, spread, loops in (
        (torch.eye(n)[None, None], 3.4366, n * (E - 1)),
        (cycle(n), 3.4366, 2e-4),
        (ring, 2.5949, None),
    ):
        found = describe(one)
        assert found["violated"] == 0 and found["spread"] == pytest.approx(spread, abs=1e-4)
        assert no_loop(one).item() > 1e-4
        if loops is not None:
            assert no_loop(one).item() == pytest.approx(loops, rel=0.01)
    assert no_loop(cycle(n)).item() == pytest.approx(n / math.factorial(n), rel=1e-6)


def test_definition_1_with_a_causal_mask_is_the_identity():
    """No lower triangular map with row and column sums of 1 has anything off its diagonal."""
    n = 5
    places = [(i, j) for i in range(n) for j in range(i + 1)]
    sums = [[float(index == k) for index, _ in places] for k in range(n)]
    sums += [[float(index == k) for _, index in places] for k in range(n)]
    most = linprog([-float(i != j) for i, j in places], A_eq=sums, b_eq=[1.0] * (2 * n), bounds=(0, 1))
    assert most.status == 0 and most.fun == pytest.approx(0, abs=1e-12)
    attention, weights = maps(tokens=n, causal=True), []
    for _ in range(3):
        for _ in range(300):
            attention = attention / attention.sum(-2, keepdim=True)
            attention = attention / attention.sum(-1, keepdim=True)
        weights.append(attention.diagonal(dim1=-2, dim2=-1).min().item())
    assert 0.9 < weights[0] < weights[1] < weights[2] < 1
    with pytest.raises(ValueError, match="limit is the identity"):
        sinkhorn(maps(tokens=n, causal=True))


def test_the_printed_graph_convolution_reaches_one_hop():
    """On a path 0 <- 1 <- 2 node 0 changes with node 2 only where A is applied twice."""
    path = torch.tensor([[0.0, 1, 0], [0, 0, 1], [0, 0, 1]])[None, None]
    value = torch.randn(1, 1, 3, 4)
    other = value.clone()
    other[:, :, 2] += 1
    for mode, reaches in (("paper", False), ("two_hop", True), ("none", False)):
        update = GCNValueUpdate(1, 4, mode)
        changed = (update(path, other) - update(path, value))[0, 0, 0].abs().max() > 1e-6
        assert changed == reaches, mode


def test_no_version_reaches_a_spouse_without_a_cycle_of_two():
    """A -> child <- S: A changes with S only where A reads its child, too, and A is applied twice."""
    family = torch.tensor([[1.0, 0, 0], [0, 1, 0], [0.5, 0.5, 0]])[None, None]  # rows: A, S and the child
    looped = family.clone()
    looped[..., 0, :] = torch.tensor([0.5, 0, 0.5])
    value = torch.randn(1, 1, 3, 4)
    other = value.clone()
    other[:, :, 1] += 1
    for mode in ("paper", "two_hop", "none"):
        update = GCNValueUpdate(1, 4, mode)
        moved = [
            (update(graph, other) - update(graph, value))[0, 0, 0].abs().max() for graph in (family, looped)
        ]
        assert moved[0] == 0 and (moved[1] > 1e-6) == (mode == "two_hop"), mode


def best_total(tokens, causal_rule, steps):
    """The least mean violation that descent on causal maps without self-loops finds, and its nodes."""
    seen = torch.ones(tokens, tokens, dtype=torch.bool).tril(-1)
    seen[0, 0] = True  # the first row has nothing else
    scores = torch.randn(1, 1, tokens, tokens, requires_grad=True)
    criterion = MarkovBlanketLoss()
    optimiser = torch.optim.Adam([scores], 0.3)
    for _ in range(steps):
        attention = scores.masked_fill(~seen, -torch.inf).softmax(-1)
        loss = criterion(attention, causal=causal_rule)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    rows, columns = (part - tokens for part in tau(attention.detach()))
    return loss.item() * tokens, criterion.violation(rows, columns, None, causal_rule)[:, 0, 0]


def test_the_printed_rule_is_infeasible_for_the_last_token_and_ours_is_not():
    n = 8
    low, high = excess_bounds()
    assert high < 2 * low  # a last token without self-loop has tau - N <= e - 1 by rows, and 0 by columns
    total, broken = best_total(n, False, steps=60)
    assert broken[0, -1] >= 2 * low - high - 1e-9 and total > 2 * low - high
    least = 2 * low - high  # own weight a: exp(a) + exp(1 - a) - 2 by rows and exp(a) - 1 by columns
    a = 0.5
    for _ in range(50):
        a -= (2 * math.exp(a) + math.exp(1 - a) - 3 - 2 * low) / (2 * math.exp(a) - math.exp(1 - a))
    assert least > 0 and a == pytest.approx(0.78, abs=0.01)
    total, broken = best_total(n, True, steps=150)
    assert total < 0.02
    chain = torch.diag(torch.ones(n - 1), -1)
    chain[0, 0] = 1
    assert MarkovBlanketLoss()(chain[None, None], causal=True).item() == pytest.approx(0, abs=1e-12)
    assert (
        MarkovBlanketLoss()(chain[None, None]).item() > 0.1
        and no_loop(chain - torch.diag(chain.diagonal())) == 0
    )


def test_it_is_an_entropy_penalty_in_disguise():
    found = []
    for sharp in torch.linspace(0.1, 5, 40):
        attention = maps(tokens=16, batch=1, heads=1, sharp=float(sharp))
        found.append([sum(tau(attention)).mean(), attention.square().sum(), describe(attention)["entropy"]])
    spread, square, entropy = torch.tensor(found).T
    assert torch.corrcoef(torch.stack([spread, square]))[0, 1] > 0.99
    assert torch.corrcoef(torch.stack([spread, entropy]))[0, 1] < -0.95


def test_near_uniform_attention_hardly_learns_when_sentences_are_long():
    slopes = []
    for tokens in (8, 64, 256):
        scores = (0.1 * torch.randn(1, 1, tokens, tokens)).requires_grad_()
        (slope,) = torch.autograd.grad(MarkovBlanketLoss()(scores.softmax(-1)) * tokens, scores)
        slopes.append(slope.norm(dim=-1).mean().item())
    assert slopes[0] > 10 * slopes[1] > 40 * slopes[2]
