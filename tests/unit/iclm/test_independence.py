"""Mutual information literally, its bounds and blind spots; correlation; and centred kernel alignment."""

import math
from inspect import signature

import pytest
import torch
import torch.nn.functional as F

from causalnb.iclm import (
    layer_correlations,
    linear_cka,
    mutual_information,
    pearson,
    routed_alignment,
    routed_mutual_information,
)


def joint_of(h_invariant, h_specific):
    """P(i, j): the mean over contexts of P(i | c) P(j | c), entry by entry, and its marginals' product."""
    n, features = h_invariant.shape
    p, q = h_invariant.softmax(1), h_specific.softmax(1)
    joint = torch.stack(
        [
            torch.stack([sum(p[c, i] * q[c, j] for c in range(n)) / n for j in range(features)])
            for i in range(features)
        ]
    )
    return joint, joint.sum(1)[:, None] * joint.sum(0)[None]


def equation_2(h_invariant, h_specific):
    joint, product = joint_of(h_invariant, h_specific)
    return (joint * (joint / product).log()).sum()


def published(h_invariant, h_specific, clamp):
    """What the published code computes: PyTorch's KL(input, target) = sum target (target - input)."""
    joint, product = joint_of(h_invariant, h_specific)
    joint, product = (v.clamp(clamp, 1 - clamp).log() for v in (joint, product))
    return F.kl_div(joint, product, reduction="none", log_target=True).sum()


def states(n=6, features=5, scale=2.0):
    return [torch.randn(n, features, requires_grad=True) * scale for _ in range(2)]


def assert_same_with_gradients(found, expected, inputs):
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-13)
    for one, other in zip(
        torch.autograd.grad(found, inputs, retain_graph=True),
        torch.autograd.grad(expected, inputs),
        strict=False,
    ):
        assert one.abs().max() > 1e-4
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


def test_equation_2_and_its_gradients(double):
    a, b = states()
    assert_same_with_gradients(mutual_information(a, b), equation_2(a, b), [a, b])


@pytest.mark.parametrize("clamp", [1e-2, 1e-9])
def test_reverse_and_clamped_it_is_the_published_loss(double, clamp):
    a, b = states()
    assert_same_with_gradients(mutual_information(a, b, "reverse", clamp), published(a, b, clamp), [a, b])


def test_reverse_without_a_clamp_is_the_other_divergence(double):
    a, b = states()
    joint, product = joint_of(a, b)
    expected = (product * (product / joint).log()).sum()
    assert_same_with_gradients(mutual_information(a, b, "reverse"), expected, [a, b])
    assert abs(expected - mutual_information(a, b)) > 1e-3


def test_forward_and_clamped(double):
    a, b = states()
    joint, product = (v.clamp(0.01, 0.99) for v in joint_of(a, b))
    expected = (joint * (joint / product).log()).sum()
    assert_same_with_gradients(mutual_information(a, b, clamp=0.01), expected, [a, b])


def test_the_marginals_of_the_joint_are_the_modules_own(double):
    a, b = states()
    joint, _ = joint_of(a, b)
    torch.testing.assert_close(joint.sum(1), a.softmax(1).mean(0), rtol=1e-12, atol=0)
    torch.testing.assert_close(joint.sum(0), b.softmax(1).mean(0), rtol=1e-12, atol=0)


@pytest.mark.parametrize("scale", [0.1, 3.0, 300.0])
def test_it_lies_between_0_and_log_n(double, scale):
    for n in (1, 2, 7):
        a, b = states(n, 40, scale)
        assert -1e-12 <= mutual_information(a, b) <= math.log(n) + 1e-12
    sharp = 500 * torch.eye(7)
    assert mutual_information(sharp, sharp).item() == pytest.approx(math.log(7), rel=1e-10)
    assert abs(mutual_information(a, b[:1].expand_as(b))) < 1e-12  # one side says the same everywhere
    reverse = mutual_information(sharp, sharp, "reverse")
    assert torch.isfinite(reverse) and reverse > math.log(7)  # it has no bound


def test_the_clamp_makes_it_negative_and_takes_its_gradient():
    """At 1024 features nearly all entries of the joint are below 1e-6, where the clamp is flat."""
    draw = torch.Generator().manual_seed(0)
    a, b = (torch.randn(48, 1024, generator=draw, requires_grad=True) for _ in range(2))
    clamped = mutual_information(a, b, "reverse", 1e-6)
    assert clamped < 0 < 0.01 < mutual_information(a, b)
    small = [0.3 * h.detach().repeat(1, 2).requires_grad_() for h in (a, b)]
    gradients = torch.autograd.grad(mutual_information(*small, "reverse", 1e-6), small)
    assert all(g.abs().max() == 0 for g in gradients)


def test_half_precision_is_computed_in_single():
    a, b = (h.detach().bfloat16() for h in states(9, 7))
    found = mutual_information(a, b)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, mutual_information(a.float(), b.float()))


@pytest.mark.parametrize("measure", [mutual_information, pearson, linear_cka])
def test_autocast_changes_no_measure_and_no_gradient(measure):
    draw = torch.Generator().manual_seed(0)
    pair = [torch.randn(48, 4096, generator=draw, requires_grad=True) for _ in range(2)]
    expected = measure(*pair)
    names = [*signature(measure).parameters][:2]
    with torch.autocast("cpu", torch.bfloat16):
        found = measure(**dict(zip(names, pair, strict=False)))
    assert torch.equal(found, expected)
    for one, other in zip(
        torch.autograd.grad(found, pair), torch.autograd.grad(expected, pair), strict=False
    ):
        assert torch.equal(one, other)


def test_layers_in_half_precision_are_compared_in_single():
    draw = torch.Generator().manual_seed(0)
    layers = [torch.randn(3, 20, 64, generator=draw).bfloat16() for _ in range(2)]
    exact = layer_correlations(*(h.float() for h in layers))
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(layer_correlations(*layers), exact)


def test_equation_3_over_all_modules(double):
    """Every module on every row: its states one after the other, each row once for every module."""
    a, b = states(6)
    modules = torch.stack([b, b.roll(1, 0), 2 * b])
    found = routed_mutual_information(
        a.repeat(3, 1), modules.flatten(0, 1), torch.arange(3).repeat_interleave(6), 3
    )
    expected = [equation_2(a, h) for h in modules]
    torch.testing.assert_close(found, torch.stack(expected), rtol=1e-9, atol=1e-12)
    assert_same_with_gradients(found.sum(), sum(expected), [a, b])


def test_each_module_counts_its_own_rows(double):
    a, b = states(9)
    module = torch.tensor([2, 0, 0, 2, 0, 2, 2, 0, 3])
    found = routed_mutual_information(a, b, module, 5)
    expected = [
        mutual_information(a[module == k], b[module == k]) if (module == k).any() else a.new_zeros(())
        for k in range(5)
    ]
    torch.testing.assert_close(found, torch.stack(expected), rtol=1e-12, atol=1e-14)
    assert found[1] == found[4] == 0 and abs(found[3]) < 1e-12 and found[0] > 0 < found[2]  # 3 has one row
    (gradient,) = torch.autograd.grad(found[0], b)
    assert (gradient[module != 0] == 0).all() and (gradient[module == 0] != 0).any()


def test_a_module_without_rows_has_a_finite_gradient():
    a, b = states(4)
    for direction in ("forward", "reverse"):
        loss = routed_mutual_information(a, b, torch.tensor([1, 1, 1, 1]), 2, direction).sum()
        assert all(torch.isfinite(g).all() for g in torch.autograd.grad(loss, [a, b]))


# what tells modules apart


def estimates(n, features, equal, seed):
    """Mutual information, and alignment, of two modules that are equal or independent."""
    draw = torch.Generator().manual_seed(seed)
    a = 2 * torch.randn(n, features, generator=draw)
    b = a if equal else 2 * torch.randn(n, features, generator=draw)
    return mutual_information(a, b).item(), linear_cka(a, b).item()


def test_few_rows_hide_identity_from_mutual_information_but_not_from_alignment():
    same, apart = ([estimates(48, 512, equal, seed) for seed in range(3)] for equal in (True, False))
    information = [[value[0] for value in kind] for kind in (same, apart)]
    assert min(information[0]) < max(information[1]) and min(information[1]) > 0.4
    assert abs(sum(information[0]) - sum(information[1])) / 3 < 0.05
    assert all(value[1] == pytest.approx(1, abs=1e-4) for value in same)
    assert all(abs(value[1]) < 0.1 for value in apart)


def test_alignment_counts_each_modules_rows_and_falls_by_its_gradient(double):
    a, b = states(14)
    b[:6] += a[:6]
    b.requires_grad_()
    module = torch.tensor([2] * 6 + [0] * 3 + [1] * 5)
    found = routed_alignment(a, b, module, 4)
    assert found[2] == linear_cka(a[:6], b[:6]) > 0 and found[1] == linear_cka(a[9:], b[9:]).clamp(min=0)
    assert found[0] == found[3] == 0  # three rows, and none
    (gradient,) = torch.autograd.grad(found[2], b)
    assert (gradient[6:] == 0).all() and linear_cka(a[:6], (b - 1e-3 * gradient)[:6]) < found[2]


def test_alignment_below_chance_is_let_be():
    pairs = (torch.randn(2, 8, 30, generator=torch.Generator().manual_seed(seed)) for seed in range(20))
    a, b = next(pair for pair in pairs if linear_cka(*pair) < 0).requires_grad_()
    loss = routed_alignment(a, b, torch.zeros(8, dtype=torch.long), 1).sum()
    assert loss == 0 and (torch.autograd.grad(loss, b)[0] == 0).all()


def test_many_rows_do_tell():
    assert estimates(1500, 16, True, 0)[0] > 5 * estimates(1500, 16, False, 0)[0]


def test_pearson(double):
    a, b = torch.randn(4, 3), torch.randn(4, 3)
    expected = torch.corrcoef(torch.stack([a.flatten(), b.flatten()]))[0, 1]
    torch.testing.assert_close(pearson(a, b), expected, rtol=1e-12, atol=0)
    assert pearson(a, 3 * a + 1).item() == pytest.approx(1) and pearson(a, torch.ones(4, 3)) == 0
    layers = torch.randn(3, 4, 5), torch.randn(2, 4, 5)
    found = layer_correlations(*layers)
    expected = torch.stack([torch.stack([pearson(x, y) for y in layers[1]]) for x in layers[0]])
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-14)


def slow_hsic(a, b, unbiased):
    """Mean over 4-tuples of different rows, or over all of them, of the kernel of HSIC."""
    n, (k, m), total, count = len(a), [h @ h.T for h in (a, b)], 0.0, 0
    for i in range(n):
        for j in range(n):
            for q in range(n):
                for r in range(n):
                    if unbiased and len({i, j, q, r}) < 4:
                        continue
                    total, count = total + k[i, j] * (m[i, j] + m[q, r] - 2 * m[i, q]), count + 1
    return total / count


@pytest.mark.parametrize("debiased", [True, False])
def test_alignment_is_that_of_all_tuples(double, debiased):
    a, b = torch.randn(6, 3, requires_grad=True), torch.randn(6, 4)
    slow = slow_hsic(a, b, debiased) / (slow_hsic(a, a, debiased) * slow_hsic(b, b, debiased)).sqrt()
    fast = linear_cka(a, b, debiased)
    torch.testing.assert_close(fast, slow, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(
        *(torch.autograd.grad(value, a)[0] for value in (fast, slow)), rtol=1e-8, atol=1e-11
    )


def test_alignment_does_not_change_under_turns_scales_and_shifts(double):
    a, b = torch.randn(9, 4), torch.randn(9, 3)
    turn = torch.linalg.qr(torch.randn(4, 4))[0]
    torch.testing.assert_close(linear_cka(a, b), linear_cka(3 * a @ turn + 7, b), rtol=1e-9, atol=1e-12)
    assert linear_cka(a, a @ turn).item() == pytest.approx(1)
    assert linear_cka(torch.full((9, 4), 1000.3), b).abs() < 1e-3  # nothing varies, nothing aligns
    half = linear_cka(a.bfloat16(), b.bfloat16())
    assert half.dtype == torch.float32


# bad input


@pytest.mark.parametrize(
    "call, message",
    [
        (
            lambda a: mutual_information(a, a[:2]),
            r"states have shapes \(4, 3\) and \(2, 3\): pass two of one sh",
        ),
        (lambda a: mutual_information(a[:0], a[:0]), r"pass two of one shape \(n, C\) with at least one row"),
        (lambda a: mutual_information(a, a, "both"), "direction is 'both': choose 'forward'"),
        (lambda a: mutual_information(a, a, clamp=0.5), r"clamp is 0.5: choose it in \(0, 0.5\), or None"),
        (lambda a: mutual_information(a, a, clamp="x"), r"clamp is 'x': choose it in \(0, 0.5\), or None"),
        (
            lambda a: mutual_information(a, a / 0),
            "row 0 of the states is not finite: lower the learning rate",
        ),
        (
            lambda a: routed_mutual_information(a, a, torch.tensor([0, 1, 2, 0]), 2),
            r"module has shape \(4,\) and values \[0, 1, 2\]: give each of 4 rows one in \[0, 2\)",
        ),
        (
            lambda a: routed_mutual_information(a, a, torch.tensor([], dtype=torch.long), 2),
            r"module has shape \(0,\) and values \[\]: give each of 4 rows",
        ),
        (
            lambda a: pearson(a, a[:2]),
            r"states of shapes \(4, 3\) and \(2, 3\) have no correlation entry by ent",
        ),
        (lambda a: layer_correlations(a[None], a[None, :2]), "have no correlation layer by layer: pass"),
        (lambda a: linear_cka(a[:3], a[:3]), r"have no alignment: pass \(n, C\).* of 4 or more"),
        (lambda a: linear_cka(a[:1], a[:1], debiased=False), "of 2 or more"),
    ],
)
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call(torch.randn(4, 3))
