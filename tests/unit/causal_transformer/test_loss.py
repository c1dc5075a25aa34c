"""The loss in its three modes against loops over nodes, its multipliers, and the report of a map."""

import math

import pytest
import torch

from causalnb.causal_transformer import MarkovBlanketLoss, describe, no_loop, sinkhorn, tau
from tests.unit.causal_transformer.small import maps, padded

LOW, HIGH = 2 * math.exp(1 / 2) - 2, math.e - 1  # of tau - n
LOW_LOOP, HIGH_LOOP = 3 * math.exp(1 / 3) - 3, math.exp(1 / 3) + math.exp(2 / 3) - 2
BOUNDS = {False: (LOW, HIGH), True: (LOW_LOOP, HIGH), "set": (LOW_LOOP, HIGH_LOOP)}
every_self_loop = pytest.mark.parametrize("self_loop", BOUNDS)
masks = pytest.mark.parametrize("causal", [False, True])
pads = pytest.mark.parametrize("valid", [None, padded()], ids=["full", "padded"])


def violations(attention, valid, causal, self_loop=False):
    """(below, above) for every valid node, node by node: [item][head][node]."""
    rows, columns = tau(attention, valid)
    low, high = BOUNDS[self_loop]
    found = []
    for b in range(len(attention)):
        real = [i for i in range(attention.shape[-1]) if valid is None or valid[b, i]]
        n = len(real)
        for h in range(attention.shape[1]):
            for i in real:
                row, column = rows[b, h, i] - n, columns[b, h, i] - n
                if causal:  # the first token's forced look at itself does not count
                    found.append((b, h, low - row, column - (HIGH if i == real[0] else 0) - high))
                else:
                    found.append((b, h, 2 * low - row - column, row + column - 2 * high))
    return found


@every_self_loop
@masks
@pads
def test_the_hinge_is_a_mean_over_nodes(double, self_loop, causal, valid):
    attention = maps(valid, causal, sharp=3.0)
    nodes = violations(attention, valid, causal, self_loop)
    below = sum(max(0.0, low.item()) for *_, low, _ in nodes) / len(nodes)
    above = sum(max(0.0, high.item()) for *_, high in nodes) / len(nodes)
    assert below > 0 and above > 0
    for gammas, expected in ((None, below + above), ((0.5, 3.0), 0.5 * below + 3.0 * above)):
        loss = MarkovBlanketLoss(gammas=gammas, self_loop=self_loop)(attention, valid, causal)
        assert loss.item() == pytest.approx(expected, abs=1e-12)
    for side, expected in (("low", below), ("high", above)):
        loss = MarkovBlanketLoss(self_loop=self_loop, sides=(side,))(attention, valid, causal)
        assert loss.item() == pytest.approx(expected, abs=1e-12)


@masks
@pads
@pytest.mark.parametrize("gammas", [(1.0, 1.0), (0.5, 3.0)])
def test_the_hinge_has_the_gradient_of_its_nodes(double, causal, valid, gammas):
    scores = (3 * torch.randn(3, 2, 6, 6)).requires_grad_()
    seen = torch.ones(3, 1, 6, 6, dtype=torch.bool).tril() if causal else torch.ones(3, 1, 6, 6) > 0
    if valid is not None:
        seen = (seen & valid[:, None, None]) | torch.eye(6, dtype=torch.bool)
    attention = scores.masked_fill(~seen, -torch.inf).softmax(-1)
    nodes = violations(attention, valid, causal)
    literal = sum(
        gammas[0] * low.clamp(min=0) + gammas[1] * high.clamp(min=0) for *_, low, high in nodes
    ) / len(nodes)
    loss = MarkovBlanketLoss(gammas=gammas)(attention, valid, causal)
    slopes = [torch.autograd.grad(one, scores, retain_graph=True)[0] for one in (loss, literal)]
    torch.testing.assert_close(loss, literal, rtol=0, atol=1e-12)
    torch.testing.assert_close(*slopes, rtol=0, atol=1e-12)
    assert slopes[0].abs().max() > 1e-3


@masks
@pads
@pytest.mark.parametrize("heads", [1, 2])
def test_the_lagrangian_and_its_ascent(double, causal, valid, heads):
    attention, rho = maps(valid, causal, sharp=3.0), 0.7
    nodes = violations(attention, valid, causal)
    criterion = MarkovBlanketLoss("auglag", gammas=(0.1, 0.4), rho=rho, heads=heads, gamma_max=0.9).train()
    gammas = [[0.1, 0.4], [0.1, 0.4]]  # of each head
    for _ in range(3):
        loss = criterion(attention, valid, causal).item()
        expected = sum(
            gammas[h][side] * max(0.0, c[side].item()) + rho / 2 * max(0.0, c[side].item()) ** 2
            for _, h, *c in nodes
            for side in (0, 1)
        ) / len(nodes)
        assert loss == pytest.approx(expected, rel=1e-6)
        for h in range(2):
            mine = [c for _, g, *c in nodes if heads == 1 or g == h]
            for side in (0, 1):
                missed = sum(max(0.0, c[side].item()) for c in mine) / len(mine)
                gammas[h][side] = min(0.9, gammas[h][side] + rho * missed)
        expected = torch.tensor(gammas).T[:, :heads]
        torch.testing.assert_close(criterion.multipliers.double(), expected.double(), rtol=1e-5, atol=1e-6)
    assert (gammas[0] != gammas[1]) == (heads == 2) and max(gammas[0]) == 0.9


@pads
def test_rows_and_columns_apart_keep_to_the_bounds_of_one_each(double, valid):
    attention = maps(valid, sharp=3.0).requires_grad_()
    rows, columns = tau(attention, valid)
    below, above, nodes, outside = 0.0, 0.0, 0, 0
    for b in range(len(attention)):
        real = [i for i in range(6) if valid is None or valid[b, i]]
        for h in range(attention.shape[1]):
            for i in real:
                each = rows[b, h, i] - len(real), columns[b, h, i] - len(real)
                low, high = (
                    sum((LOW - one).clamp(min=0) for one in each),
                    sum((one - HIGH).clamp(min=0) for one in each),
                )
                below, above, nodes = below + low, above + high, nodes + 1
                outside += max(low.item(), high.item()) > 1e-5
    criterion = MarkovBlanketLoss(gammas=(0.5, 3.0), apart=True)
    literal, loss = (0.5 * below + 3.0 * above) / nodes, criterion(attention, valid)
    torch.testing.assert_close(loss, literal, rtol=0, atol=1e-12)
    slopes = [torch.autograd.grad(one, attention, retain_graph=True)[0] for one in (loss, literal)]
    torch.testing.assert_close(*slopes, rtol=0, atol=1e-12)
    if valid is None:
        assert criterion.violated(rows - 6, columns - 6).item() == pytest.approx(outside / nodes)
    causal = maps(valid, causal=True)
    assert criterion(causal, valid, causal=True) == MarkovBlanketLoss(gammas=(0.5, 3.0))(causal, valid, True)


def test_a_node_within_the_sums_bounds_may_read_any_number_of_others():
    """The first reads all alike, and one token reads the first: within the sum's bounds, not apart."""
    n = 16
    reader = torch.full((n,), 1 / n)
    attention = torch.eye(n).roll(1, 1)  # each reads the next, the last the first
    attention[0] = reader
    rows, columns = (one[0, 0, 0] - n for one in tau(attention[None, None]))
    assert 2 * LOW <= (rows + columns).item() <= 2 * HIGH and rows.item() < LOW


def test_multipliers_are_a_buffer_that_only_training_moves():
    criterion, attention = MarkovBlanketLoss("auglag", heads=2), maps()
    assert not list(criterion.parameters()) and list(criterion.state_dict()) == ["multipliers"]
    criterion.eval()(attention)
    assert (criterion.multipliers == 0).all()
    criterion.train()(attention)
    assert (criterion.multipliers[0] > 0).all()
    one_sided = MarkovBlanketLoss("auglag", sides=("high",))
    one_sided(attention)
    assert one_sided.multipliers[0] == 0


def test_multipliers_rise_until_every_node_keeps_to_its_bound():
    """A hinge of fixed weight loses to a task that pulls harder; multipliers do not."""
    target, left = (1.5 * torch.randn(4, 1, 6, 6)).softmax(-1), {}
    for mode in ("hinge", "auglag"):
        scores = torch.randn(4, 1, 6, 6, requires_grad=True)
        criterion = MarkovBlanketLoss(mode, sides=("low",), gamma_max=50.0)
        optimiser = torch.optim.Adam([scores], 0.1)
        for _ in range(150):
            attention = scores.softmax(-1)
            loss = 4 * (attention - target).square().sum((-1, -2)).mean() + criterion(attention)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        left[mode] = MarkovBlanketLoss(sides=("low",))(scores.softmax(-1)).item()
    assert left["hinge"] > 0.2 and left["auglag"] < 0.05


@pads
@pytest.mark.parametrize("self_loop, causal", [(False, False), (True, False), (True, True)])
def test_paper_mode_is_equation_3(double, valid, self_loop, causal):
    attention = maps(valid, causal)
    gammas, slack = (0.3, 0.7, 1.1, 2.3), (0.05, 0.02)
    most = (0.7045, 0.5062) if self_loop and not causal else (0.0, 0.0)
    rows, columns = tau(attention, valid)
    total = 0.0
    for b in range(3):
        real = [i for i in range(6) if valid is None or valid[b, i]]
        low, high = len(real) - 2 + 2 * math.exp(0.5), len(real) - 1 + math.e
        for h in range(2):
            for i in real:
                s = (rows[b, h, i] + columns[b, h, i]).item()
                total += gammas[0] * (slack[0] - most[0]) + gammas[1] * (slack[1] - most[1])
                total += gammas[2] * (2 * low - s + 2 * slack[0])
                total += gammas[3] * (s - 2 * high + 2 * slack[1])
    criterion = MarkovBlanketLoss("paper", gammas=gammas, slack=slack, self_loop=self_loop)
    assert criterion(attention, valid, causal).item() == pytest.approx(total / 6, abs=1e-10)


@pytest.mark.parametrize(
    "settings",
    [
        dict(),
        dict(self_loop="set"),
        dict(mode="auglag", gammas=(0.2, 0.3)),
        dict(normalise="sinkhorn"),
        dict(mode="paper", gammas=(1, 1, 2, 1)),
    ],
    ids=str,
)
def test_gradients(double, settings):
    criterion = MarkovBlanketLoss(**settings).eval()
    scores = (2 * torch.randn(2, 1, 4, 4)).requires_grad_()
    assert torch.autograd.gradcheck(lambda s: criterion(s.softmax(-1)), scores)
    if criterion.normalise == "rows":
        above = torch.ones(4, 4).triu(1) > 0
        assert torch.autograd.gradcheck(
            lambda s: criterion(s.masked_fill(above, -torch.inf).softmax(-1), causal=True), scores
        )


def test_sinkhorn_is_measured_in_place_of_the_softmax_map(double):
    attention, valid = maps(padded()), padded()
    expected = MarkovBlanketLoss()(sinkhorn(attention, valid), valid)
    assert torch.equal(MarkovBlanketLoss(normalise="sinkhorn")(attention, valid), expected)
    assert not torch.isclose(expected, MarkovBlanketLoss()(attention, valid))


@masks
def test_padding_changes_nothing(double, causal):
    attention = maps(tokens=4, batch=1, causal=causal)
    for before in (0, 2):
        wide = torch.eye(6).expand(1, 2, 6, 6).clone()
        wide[:, :, before : before + 4, before : before + 4] = attention
        valid = torch.zeros(1, 6, dtype=torch.bool)
        valid[:, before : before + 4] = True
        for mode in ("paper", "hinge", "auglag"):
            criterion = MarkovBlanketLoss(mode).eval()
            torch.testing.assert_close(criterion(wide, valid, causal), criterion(attention, causal=causal))


@pads
@masks
def test_the_report_of_a_map(double, valid, causal):
    attention = maps(valid, causal, sharp=3.0)
    found = describe(attention, valid, causal=causal)
    nodes = violations(attention, valid, causal)
    broken = sum(max(low, high).item() > 1e-5 for *_, low, high in nodes) / len(nodes)
    assert found["violated"] == pytest.approx(broken) and 0 < broken < 1
    spread, entropy, weight, sums, loops = [], [], [], [], []
    for b in range(3):
        real = torch.ones(6, dtype=torch.bool) if valid is None else valid[b]
        for h in range(2):
            part = attention[b, h][real][:, real]
            spread += [(part.exp().sum(0) + part.exp().sum(1) - 2 * len(part))]
            entropy += [-(part * part.clamp(min=1e-300).log()).sum(1)]
            weight += [part.diagonal()]
            sums += [part.sum(0)]
            loops += [no_loop(part - torch.diag(part.diagonal()))]
    for name, parts in (("spread", spread), ("entropy", entropy), ("self_weight", weight)):
        assert found[name] == pytest.approx(torch.cat(parts).mean().item(), rel=1e-10), name
    assert found["neighbours"] == pytest.approx(math.exp(found["entropy"]))
    assert found["column_min"] == pytest.approx(torch.cat(sums).min().item())
    assert found["column_max"] == pytest.approx(torch.cat(sums).max().item())
    assert found["no_loop"] == pytest.approx(torch.stack(loops).mean().item(), abs=1e-12)


@pytest.mark.parametrize(
    "settings, message",
    [
        (dict(mode="lagrange"), "mode is 'lagrange': choose among 'paper', 'hinge', 'auglag'"),
        (dict(self_loop="third"), "self_loop is 'third'"),
        (dict(normalise="columns"), "normalise is 'columns': choose among 'rows', 'sinkhorn'"),
        (dict(sides=()), r"sides is \(\): choose among 'low' and 'high'"),
        (dict(sides=("upper",)), "choose among 'low' and 'high'"),
        (dict(mode="paper", sides=("low",)), "Equation 3 has both"),
        (dict(mode="paper", apart=True), "apart is True: choose False or True, and False in mode 'paper'"),
        (dict(apart="rows"), "apart is 'rows': choose False or True"),
        (dict(gammas=(1.0, -2.0)), "a multiplier is -2.0: choose finite gammas, 0 or"),
        (dict(gammas=(1, math.nan)), "a multiplier is nan: choose finite gammas, 0 or m"),
        (dict(gammas=1.0), r"gammas is 1.0: give 2 numbers, as in \(1.0, 1.0\)"),
        (dict(mode="paper", gammas="ab"), r"gammas is 'ab': give 4 numbers"),
        (dict(heads=0), "heads is 0: choose 1, for all heads together, or the map's number"),
        (dict(gammas=(1, math.inf)), "a multiplier is inf: choose finite gammas"),
        (dict(mode="auglag", heads=1.5), "heads is 1.5: choose 1"),
        (dict(mode="auglag", heads=True), "heads is True: choose 1"),
        (dict(mode="auglag", rho=math.inf), "rho is inf and gamma_max 10.0: choose a finite rho above 0"),
        (dict(mode="paper", slack=1.0), "slack is 1.0: give two numbers, in mode 'paper' alone"),
        (dict(mode="paper", gammas=(1.0, 1.0)), "2 multipliers were given: mode 'paper' has 4"),
        (dict(mode="auglag", rho=0), "rho is 0 and gamma_max 10.0"),
        (dict(mode="auglag", gammas=(20, 0)), "gamma_max of at least the multipliers' 20.0"),
        (dict(slack=(0.1, 0.0)), "in mode 'paper' alone"),
        (dict(mode="paper", slack=(0.1,)), "give two numbers"),
    ],
)
def test_bad_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        MarkovBlanketLoss(**settings)


def test_bad_maps_are_named():
    with pytest.raises(ValueError, match="normalise is 'sinkhorn' on a causal map"):
        MarkovBlanketLoss(normalise="sinkhorn")(maps(causal=True), causal=True)
    with pytest.raises(ValueError, match="sum of 1"):
        MarkovBlanketLoss()(maps() * 1.1)
    with pytest.raises(ValueError, match="attention has dtype torch.int64: give weights after the softmax"):
        MarkovBlanketLoss()(torch.eye(4, dtype=torch.int64)[None, None])
    for measure in (MarkovBlanketLoss(), sinkhorn, tau, describe):
        with pytest.raises(ValueError, match=r"shape \(0, 2, 6, 6\), an empty batch: give at least one map"):
            measure(maps()[:0])
    with pytest.raises(ValueError, match="multipliers of 3 heads and the map has 2"):
        MarkovBlanketLoss("auglag", heads=3)(maps())


def test_the_loss_says_what_it_is():
    assert "mode='auglag', self_loop='set', sides=('low',)" in repr(
        MarkovBlanketLoss("auglag", self_loop="set", sides=("low",))
    )
