"""Routers: Equation 1 literally, the mean in place of all tokens, statistics, K-means, soft distances."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from causalnb.iclm import DistanceWeightingRouter, KMeansRouter, Router, VectorQuantizer, mean_pooled
from causalnb.iclm.routing import StateNorm


def equation_1(states, codebook, nu, nu_on):
    """Assignment and loss, an input at a time, as printed or with nu where the published code has it."""
    module, moves_states, moves_codebook = [], [], []
    for h_r in states:
        distances = torch.stack([((h_r - h_c) ** 2).sum().sqrt() for h_c in codebook])
        module.append(int(distances.argmin()))
        h_c = codebook[module[-1]]
        moves_states.append(((h_c.detach() - h_r) ** 2).mean())
        moves_codebook.append(((h_c - h_r.detach()) ** 2).mean())
    first, second = sum(moves_states) / len(states), sum(moves_codebook) / len(states)
    return module, first + nu * second if nu_on == "codebook" else second + nu * first


@pytest.mark.parametrize("nu_on", ["codebook", "commitment"])
def test_equation_1_and_its_gradients(double, nu_on):
    router = VectorQuantizer(3, 5, nu=0.4, nu_on=nu_on)
    states = torch.randn(8, 5, requires_grad=True)
    module, loss = router(states)
    expected_module, expected = equation_1(states, router.codebook, 0.4, nu_on)
    assert module.tolist() == expected_module and len(set(expected_module)) > 1
    torch.testing.assert_close(loss, expected, rtol=1e-10, atol=0)
    for found, wanted in zip(
        torch.autograd.grad(loss, [states, router.codebook]),
        torch.autograd.grad(expected, [states, router.codebook]),
        strict=False,
    ):
        assert found.abs().max() > 0
        torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-14)


def test_nu_weighs_the_side_it_is_set_on():
    states = torch.tensor([[1.0, 0.0]], requires_grad=True)
    sizes = {}
    for nu_on in ("codebook", "commitment"):
        router = VectorQuantizer(1, 2, nu=0.25, nu_on=nu_on)
        router.codebook.data.zero_()
        gradients = torch.autograd.grad(router(states)[1], [states, router.codebook])
        sizes[nu_on] = [g.norm().item() for g in gradients]
    assert sizes == {"codebook": [1, 0.25], "commitment": [0.25, 1]}  # d mean((1, 0)^2) = 1


def test_squared_distances_to_all_tokens_choose_as_the_mean_does(double):
    """sum_t |z_t - c|^2 = sum_t |z_t - mean|^2 + T |mean - c|^2; the plain distances of the paper differ."""
    tokens, codebook = torch.randn(300, 6, 4), torch.randn(3, 4) * 0.3
    distances = torch.cdist(tokens, codebook)  # (B, T, K)
    mean = mean_pooled(tokens, torch.ones(300, 6))
    spread = (tokens - mean[:, None]).square().sum((1, 2))
    expected = spread[:, None] + 6 * torch.cdist(mean, codebook).square()
    torch.testing.assert_close(distances.square().sum(1), expected, rtol=1e-10, atol=1e-10)
    router = VectorQuantizer(3, 4)
    router.codebook.data.copy_(codebook)
    module, _ = router(mean)
    assert torch.equal(module, distances.square().sum(1).argmin(1))
    same = (module == distances.sum(1).argmin(1)).double().mean()
    assert 0.8 < same < 1


def test_the_mean_leaves_masked_tokens_out_whatever_they_hold():
    states, mask = torch.randn(2, 4, 3), torch.tensor([[0, 1, 1, 1], [1, 0, 0, 0]])
    states[0, 0] = float("nan")
    found = mean_pooled(states, mask)
    torch.testing.assert_close(found, torch.stack([states[0, 1:].mean(0), states[1, 0]]))
    half = mean_pooled(states.bfloat16(), mask)
    assert half.dtype == torch.float32
    torch.testing.assert_close(half, mean_pooled(states.bfloat16().float(), mask))
    with pytest.raises(ValueError, match="row 1 has no token to route by: unmask at least one"):
        mean_pooled(states, torch.tensor([[0, 1, 1, 1], [0, 0, 0, 0]]))


def test_the_task_loss_reaches_no_router():
    router, states = VectorQuantizer(2, 3), torch.randn(4, 3, requires_grad=True)
    module, _ = router(states)
    assert not module.requires_grad and not module.is_floating_point()


def test_frozen_centroids_get_no_gradient():
    router = VectorQuantizer(2, 2)
    router.codebook.data.copy_(torch.tensor([[1.0, 0.0], [-1.0, 0.0]]))
    router.frozen[0] = True
    router(torch.tensor([[2.0, 0.0], [-2.0, 0.0]]))[1].backward()
    assert router.codebook.grad[0].abs().max() == 0 < router.codebook.grad[1].abs().max()


def test_centroids_start_at_inputs_far_apart():
    states = torch.tensor([[0.0, 0.1], [5.0, 0.0], [-5.0, 0.0], [0.0, 7.0], [0.1, 0.0]])
    router = VectorQuantizer(3, 2, init="data")
    router.eval()(states)
    assert not router.started and router.codebook.abs().max() < 0.5
    router.train()(states)
    assert sorted(router.codebook.tolist()) == sorted(states[[3, 1, 2]].tolist())
    before = router.codebook.clone()
    router(states + 1)
    assert router.started and torch.equal(router.codebook, before)
    with pytest.raises(ValueError, match="a first batch of 2 inputs cannot start 3 centroids: raise the bat"):
        VectorQuantizer(3, 2, init="data")(states[:2])


# statistics


@given(st.lists(st.integers(1, 6), min_size=1, max_size=5), st.floats(0.0, 1000.0))
def test_running_statistics_of_few_batches_are_those_of_all_batch_means(sizes, offset):
    norm = StateNorm(3, momentum=0.05).double()
    batches = [torch.randn(n, 3, dtype=torch.float64) + offset for n in sizes]
    for batch in batches:
        norm(batch)
    means = torch.stack([b.mean(0) for b in batches])
    squares = torch.stack([b.square().mean(0) for b in batches])
    torch.testing.assert_close(norm.mean, means.mean(0))
    torch.testing.assert_close(norm.variance, squares.mean(0) - means.mean(0).square(), rtol=1e-6, atol=1e-6)


def test_statistics_of_the_batch_are_batch_normalisations():
    norm, reference = StateNorm(4, by="batch").train(), torch.nn.BatchNorm1d(4, affine=False).train()
    for seed in range(3):
        batch = torch.randn(6, 4, generator=torch.Generator().manual_seed(seed)) + seed
        torch.testing.assert_close(norm(batch), reference(batch))
    assert (norm.eval()(batch) - reference(batch)).abs().max() > 0.1  # then, the running ones
    norm.hold(batch)
    assert torch.equal(norm.train()(batch[:2]), norm.eval()(batch[:2]))
    fresh = StateNorm(4, by="batch").train()
    with pytest.raises(ValueError, match="a batch of one input has no statistics of its own: use a larger"):
        fresh(batch[:1])
    assert fresh.batches == 0  # what is refused does not count
    with pytest.raises(ValueError, match="by is 'layer': choose 'running', 'batch'"):
        StateNorm(4, by="layer")


def test_a_large_mean_costs_the_variance_no_digits():
    states = 1000 + 0.01 * torch.randn(64, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    norm = StateNorm(2)
    norm(states.float())
    exact = states.float().double().var(0, correction=0)
    torch.testing.assert_close(norm.variance.double(), exact, rtol=1e-3, atol=0)


def test_old_statistics_fade_until_they_are_held():
    norm = StateNorm(1, momentum=0.5)
    for value in (0.0, 0.0, 8.0):
        norm(torch.full((2, 1), value))
    assert norm.mean.item() == 4
    norm.hold(torch.tensor([[1.0], [3.0]]))
    norm(torch.full((2, 1), 100.0))
    assert norm.mean.item() == 2 and norm.variance.item() == 1
    assert norm(torch.tensor([[3.0]])).item() == pytest.approx(1, rel=1e-4)


@pytest.mark.parametrize("kind", ["vq", "kmeans", "distance"])
@pytest.mark.parametrize("projection", [None, 3])
def test_in_evaluation_an_input_is_routed_alike_in_any_batch(kind, projection):
    router, states = Router(kind, 4, 6, projection), torch.randn(60, 6) * 3 + 1
    if projection is None or kind == "kmeans":
        router.fit(states)
    router.eval()
    whole = router(states).module
    assert len(set(whole.tolist())) > 1
    assert torch.equal(whole, torch.cat([router(row[None]).module for row in states]))
    assert torch.equal(whole, torch.cat([router(part).module for part in states.split(7)]))


def test_a_projected_router_normalises_after_the_projection_and_trains_it():
    router, states = Router("vq", 2, 6, projection=3), torch.randn(9, 6)
    routing = router(states)
    routing.loss.backward()
    assert router.norm.mean.shape == (3,) and router.project.weight.grad.abs().max() > 0
    torch.testing.assert_close(router.norm.mean, router.project(states).mean(0))


def test_one_row_alone_can_train_the_router():
    router = Router("vq", 2, 3)
    for _ in range(3):
        router(torch.randn(1, 3)).loss.backward()
    assert torch.isfinite(router.choose.codebook.grad).all()


# K-means


def test_k_means_finds_two_domains_and_needs_no_refit():
    states = torch.cat([torch.randn(20, 8) - 4, torch.randn(20, 8) + 4])
    router = Router("kmeans", 2, 8, components=3).fit(states)
    module = router(states).module
    assert module[:20].unique().numel() == module[20:].unique().numel() == 1 and module[0] != module[-1]
    again = [router(states[30:]).module for _ in range(3)]
    assert all(torch.equal(found, module[30:]) for found in again)
    assert router(states).loss == 0
    assert router.norm.held and torch.equal(router.train()(states).module, module)


def test_its_reduction_is_classical_scaling():
    """B = -1/2 J D^2 J of squared distances: its leading axes give the same coordinates, but for signs."""
    states = torch.randn(12, 6, dtype=torch.float64)
    router = KMeansRouter(2, 6, components=2).double().fit(states)
    squared, n = torch.cdist(states, states).square(), len(states)
    centring = torch.eye(n, dtype=torch.float64) - 1 / n
    values, vectors = torch.linalg.eigh(-centring @ squared @ centring / 2)
    scaled = vectors[:, -2:].flip(1) * values[-2:].flip(0).sqrt()
    torch.testing.assert_close(router.reduce(states).abs(), scaled.abs(), rtol=1e-8, atol=1e-8)


def test_k_means_refuses_what_it_cannot_do():
    with pytest.raises(ValueError, match="the K-means router has no centroids yet: call fit"):
        KMeansRouter(2, 3)(torch.randn(2, 3))
    with pytest.raises(ValueError, match="1 states cannot make 2 clusters: pass at least 2"):
        KMeansRouter(2, 3).fit(torch.randn(1, 3))
    few = KMeansRouter(2, 9, components=5).fit(torch.randn(3, 9))
    assert few.axes.shape == (9, 5) and (few.axes[:, 3:] == 0).all()


# soft distances


def test_distance_weights_are_a_softmin_and_the_task_moves_them(double):
    router, states = DistanceWeightingRouter(3, 4, temperature=0.5), torch.randn(5, 4, requires_grad=True)
    found = router(states)
    for b, h in enumerate(states):
        raw = torch.stack([(-((h - c) ** 2).mean() / 0.5).exp() for c in router.codebook])
        torch.testing.assert_close(found[b], raw / raw.sum(), rtol=1e-10, atol=0)
    (found * torch.randn(5, 3)).sum().backward()
    assert router.codebook.grad.abs().max() > 0 < states.grad.abs().max()
    routing = Router("distance", 3, 4)(states)
    assert torch.equal(routing.module, routing.weights.argmax(1)) and routing.loss == 0


def test_frozen_centroids_of_distance_weights_stay(double):
    router, states = DistanceWeightingRouter(3, 4), torch.randn(5, 4)
    found, whole = router(states), torch.randn(5, 3)
    (moved,) = torch.autograd.grad((found * whole).sum(), router.codebook)
    router.frozen[1] = True
    assert torch.equal(router(states), found) and list(router.state_dict()) == ["codebook"]
    (held,) = torch.autograd.grad((router(states) * whole).sum(), router.codebook)
    assert torch.equal(held, moved * torch.tensor([[1.0], [0.0], [1.0]])) and (moved != 0).all()


def test_summed_over_tokens_the_softmin_is_a_hard_choice(double):
    states, centroids = torch.randn(50, 1, 4), torch.randn(2, 4) * 0.3
    tokens = states + 0.1 * torch.randn(50, 200, 4)
    distance = (tokens[:, :, None] - centroids).square().sum(-1)  # (B, T, K)
    summed, mean = (-distance.sum(1)).softmax(1), (-distance.mean(1)).softmax(1)
    assert summed.amax(1).mean() > 0.98 and mean.amax(1).mean() < 0.9


# bad input


@pytest.mark.parametrize(
    "make, message",
    [
        (
            lambda: VectorQuantizer(0, 3),
            "num_modules is 0: choose 1 or more, a whole number",
        ),
        (lambda: KMeansRouter(2, 0), "dim is 0: choose 1 or more"),
        (lambda: KMeansRouter(2, 3, components=0), "components is 0: choose 1 or more, a whole number"),
        (lambda: KMeansRouter(2, 3, components=2.5), "components is 2.5: choose 1 or more, a whole number"),
        (lambda: VectorQuantizer(2, 3, nu="0.2"), "nu is '0.2': choose a finite one, 0 or more"),
        (lambda: VectorQuantizer(2, 3, nu=True), "nu is True: choose a finite one, 0 or more"),
        (lambda: DistanceWeightingRouter(2, 3, temperature="1"), "temperature is '1': choose a positive one"),
        (lambda: VectorQuantizer(2, 3, nu_on="both"), "nu_on is 'both': choose 'codebook'"),
        (lambda: VectorQuantizer(2, 3, init="zero"), "init is 'zero': choose 'uniform' or 'data'"),
        (lambda: DistanceWeightingRouter(2, 3, temperature=0), "temperature is 0: choose a positive one"),
        (lambda: Router("nearest", 2, 3), "router is 'nearest': choose 'vq', 'kmeans', 'distance'"),
    ],
)
def test_settings_that_make_no_router_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("kind", ["vq", "kmeans", "distance"])
def test_states_that_do_not_fit_are_refused_before_they_count(kind):
    states = torch.randn(6, 4)
    router = Router(kind, 2, 4).fit(states)
    router.norm.held.fill_(False)
    mean = router.norm.mean.clone()
    for wrong in (torch.randn(6, 5), torch.randn(2, 3, 4), torch.randn(0, 4)):
        with pytest.raises(ValueError, match=r"router states have shape \(.*\): pass \(inputs, 4\), of the"):
            router(wrong)
    states[2, 1] = float("inf")
    with pytest.raises(ValueError, match="input 2 has states that are not finite: lower the learning rate"):
        router(states)
    with pytest.raises(ValueError, match="input 2 has states that are not finite"):
        router.fit(states)
    assert torch.equal(router.norm.mean, mean)
    with pytest.raises(ValueError, match=r"router states have shape \(6, 5\): pass \(inputs, 4\)"):
        router.choose(torch.randn(6, 5))
