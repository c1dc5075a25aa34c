"""Re-attention: the loops of section 3.2, the eager form and the two fast ones are equal, gradients too."""

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks

from causalnb import c2dlm
from causalnb.attention import Record
from causalnb.c2dlm import ReattentionLoss, Supervision, reattention
from causalnb.c2dlm.forms import MASS_ATTENTION, choose_form, mass_attention
from tests.unit.c2dlm.small import base, batch_of, gradients, masks, wrapped

B, H, G, T, D = 3, 4, 2, 9, 5
FORMS = ("eager", "rows", "mass")
pytestmark = pytest.mark.usefixtures("double")


def layer(seed, tokens=T, masked=False):
    """Leaves (query, key, value) of a layer with H heads and G of keys, and its mask."""
    draw = torch.Generator().manual_seed(seed)
    shapes = (B, H, tokens, D), (B, G, tokens, D), (B, G, tokens, D)
    leaves = [torch.randn(shape, generator=draw).requires_grad_() for shape in shapes]
    seen = torch.rand(B, 1, tokens, tokens, generator=draw) < 0.7
    return leaves, (seen | torch.eye(tokens, dtype=torch.bool)) if masked else None


def record(number, leaves, mask, **options):
    module = SimpleNamespace(layer_idx=number, num_key_value_groups=H // G, is_causal=False)
    return Record(number, "self", "decoder", *leaves, mask, D**-0.5, "sdpa", module, options)


def loss_of(form, layers, given, **settings):
    """The loss of some layers in one of the forms, from queries, keys and values."""
    loss = ReattentionLoss(**settings, backend=form, chunk_rows=2)
    records = [record(i, *parts) for i, parts in enumerate(layers)]
    if form != "mass":
        return loss(records, given)
    watch = reattention.MassForm(loss, loss._count(given))
    for one in records:
        given_to = one.module, one.query, one.key, one.value, one.mask, one.scaling
        out, _ = mass_attention(*given_to, **watch.extra, is_causal=False)
        plain, _ = mass_attention(*given_to, is_causal=False)
        torch.testing.assert_close(out, plain, rtol=0, atol=1e-12)
    watch.records += records if watch.listens else []
    return watch.loss()


def literal(layers, given, alpha, lam, norm_index="key", step_rule="no_lookahead", over_layers="map"):
    """Section 3.2 with a loop over every token, head and pair."""
    dense, maps = Supervision(**given).dense(step_rule), []
    for (query, key, value), seen in layers:
        weighted = [[[0.0] * T for _ in range(T)] for _ in range(B)]
        for b in range(B):
            for h in range(H):
                k, v = key[b, h * G // H], value[b, h * G // H]
                for i in range(T):
                    scores = [(query[b, h, i] * k[j]).sum() / math.sqrt(D) for j in range(T)]
                    if seen is not None:
                        scores = [s if seen[b, 0, i, j] else s - 1e9 for j, s in enumerate(scores)]
                    weights = torch.stack(scores).exp() / torch.stack(scores).exp().sum()
                    for j in range(T):
                        at = {"key": j, "query_as_printed": i}.get(norm_index)
                        norm = 1.0 if at is None else v[at].square().sum().sqrt()
                        weighted[b][i][j] = weighted[b][i][j] + weights[j] * norm / H
        maps.append(weighted)
    if over_layers == "map":
        maps = [
            [
                [[sum(m[b][i][j] for m in maps) / len(maps) for j in range(T)] for i in range(T)]
                for b in range(B)
            ]
        ]
    total = 0.0
    for weighted in maps:
        losses = []
        for b in range(B):
            for i in range(T):
                sets = {k: [weighted[b][i][j] for j in range(T) if dense[b, i, j] == k] for k in (-1, 0, 1)}
                if not sets[1] and not sets[-1]:
                    continue
                row = lam * sum(a**2 for a in sets[-1])
                if sets[1] and sets[0]:
                    a1, a0 = sum(sets[1]) / len(sets[1]), sum(sets[0]) / len(sets[0])
                    if a1 / a0 < alpha:
                        row = row - a1 / (a1 + a0)
                losses.append(row)
        total = total + sum(losses) / len(losses) / len(maps)
    return total


def with_gradients(value, layers):
    leaves = [leaf for parts, _ in layers for leaf in parts]
    return value.detach(), torch.autograd.grad(value, leaves, materialize_grads=True)


@pytest.mark.parametrize(
    "settings",
    [
        dict(alpha=1.1, lam=0.0),
        dict(alpha=3.0, lam=10.0),
        dict(alpha=1.02, lam=7.0, norm_index="query_as_printed"),
        dict(alpha=3.0, lam=2.0, norm_index="none", step_rule="off"),
        dict(alpha=2.0, lam=5.0, step_rule="prune_earlier", over_layers="loss"),
    ],
    ids=str,
)
@pytest.mark.parametrize("masked", [False, True])
def test_every_form_is_the_literal_loss_with_gradients(settings, masked):
    layers = [layer(1, masked=masked), layer(2)]
    given = Supervision.stack(masks(B, T), T)
    expected = with_gradients(literal(layers, given, **settings), layers)
    assert any((grad != 0).any() for grad in expected[1])
    for form in FORMS:
        found = with_gradients(loss_of(form, layers, given, **settings).loss, layers)
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-10, msg=lambda m, f=form: f"{f}: {m}")


@pytest.mark.parametrize("settings", [dict(detach_norm=True), dict(norm_scale="mean1")], ids=str)
def test_the_forms_agree_on_norms_detached_or_scaled(settings):
    layers, given = [layer(3), layer(4)], Supervision.stack(masks(B, T), T)
    found = [loss_of(form, layers, given, alpha=3.0, lam=10.0, **settings) for form in FORMS]
    plain = loss_of("eager", layers, given, alpha=3.0, lam=10.0)
    grads = [with_gradients(out.loss, layers) for out in found]
    torch.testing.assert_close(grads[1:], [grads[0]] * 2, rtol=0, atol=1e-10)
    values = [grads[0][1][2], with_gradients(plain.loss, layers)[1][2]]
    assert (values[0] == 0).all() == ("detach_norm" in settings) and not torch.allclose(*values)


def test_the_parts_that_are_logged_agree_and_add_up():
    layers, given = [layer(5), layer(6)], Supervision.stack(masks(B, T), T)
    settings = dict(alpha=1.05, lam=3.0)
    found = [loss_of(form, layers, given, **settings) for form in FORMS]
    for name in ("loss", "ratio", "neg", "hinge", "satisfied", "rows"):
        parts = [getattr(out, name).detach().double() for out in found]
        torch.testing.assert_close(parts[1:], [parts[0]] * 2, rtol=0, atol=1e-10)
    out = found[0]
    torch.testing.assert_close(out.loss.detach(), out.ratio + out.neg)
    assert 0 < out.satisfied < 1 and out.hinge > 0 and out.neg > 0 > out.ratio


def test_gradients_by_finite_differences():
    given = Supervision.stack(masks(B, T), T)
    leaves = layer(7)[0]
    for form in ("rows", "mass"):

        def run(*tensors, form=form):
            return loss_of(form, [(tensors, None)], given, alpha=3.0, lam=10.0).loss

        assert torch.autograd.gradcheck(run, leaves, fast_mode=True)


def one_row(kinds):
    """Supervision of one item whose only supervised row is token 0, its keys of the given kinds."""
    mask = torch.zeros(len(kinds), len(kinds), dtype=torch.int8)
    mask[0] = torch.tensor(kinds)
    return mask


def test_row_loss_by_hand():
    """a1 = 0.3, a0 = 0.1: ratio 3. Below alpha = 4 it costs -0.75; at alpha = 3 it is met."""
    weighted = torch.tensor([0.3, 0.1, 0.1, 0.2, 0.6])
    mask = torch.tensor([1, 0, 0, -1, 2])
    row = c2dlm.row_loss(weighted, mask, 4.0, 10.0)
    assert row.ratio.item() == pytest.approx(-0.75) and row.neg.item() == pytest.approx(0.4)
    assert row.hinge.item() == pytest.approx(0.05) and row.has_ratio and row.valid and not row.satisfied
    met = c2dlm.row_loss(weighted, mask, 2.9, 10.0)
    assert met.ratio == met.hinge == 0 and met.satisfied
    only = c2dlm.row_loss(weighted, torch.tensor([0, 0, 0, -1, 2]), 4.0, 10.0)
    assert only.ratio == 0 and only.neg.item() == pytest.approx(0.4) and only.valid and not only.has_ratio
    assert not c2dlm.row_loss(weighted, torch.tensor([0, 0, 2, 2, 0]), 4.0, 10.0).valid
    everything = c2dlm.row_loss(weighted, torch.tensor([1, 1, 1, 2, 2]), 4.0, 10.0)  # nothing neutral
    assert everything.ratio == 0 and everything.valid and not everything.satisfied


def test_the_printed_loss_jumps_where_its_twin_does_not():
    a0, alpha = 0.1, 3.0
    a1 = torch.tensor([alpha * a0 - 1e-9, alpha * a0 + 1e-9], requires_grad=True)
    row = c2dlm.row_loss(torch.stack([a1, torch.full_like(a1, a0)], -1), torch.tensor([1, 0]), alpha, 1.0)
    assert row.ratio.tolist() == [pytest.approx(-0.75), 0]
    assert row.hinge.tolist() == [pytest.approx(0, abs=1e-8), 0]
    slopes = [torch.autograd.grad(part[0], a1, retain_graph=True)[0] for part in (row.ratio, row.hinge)]
    torch.testing.assert_close(*slopes)


def test_the_norm_of_the_query_cancels_within_a_head():
    """Finding 1: as printed, weighing by |V_i| leaves A1 / (A1 + A0) as it was; by |V_j| it does not."""
    attention, value = torch.randn(2, 1, T, T).softmax(-1), torch.randn(2, 1, T, D)
    mask = one_row([1, 1, 0, 0, 0, 0, 0, 0, 0])[:1]

    def ratio(index):
        weighted = c2dlm.value_weighted_attention(attention, value, index)
        return c2dlm.row_loss(weighted[:, :1], mask, 1e9, 0.0).ratio

    assert (ratio("query_as_printed") - ratio("none")).abs().max() < 1e-12
    assert (ratio("key") - ratio("none")).abs().max() > 1e-3


@pytest.mark.parametrize("index", ["key", "query_as_printed", "none"])
def test_value_weighted_attention_is_the_literal_mean(index):
    attention, value = torch.randn(B, H, T, T).softmax(-1), torch.randn(B, G, T, D)
    found, expected = c2dlm.value_weighted_attention(attention, value, index), torch.zeros(B, T, T)
    for b in range(B):
        for h in range(H):
            for i in range(T):
                for j in range(T):
                    at = {"key": j, "query_as_printed": i}.get(index)
                    norm = 1 if at is None else math.sqrt(sum(x**2 for x in value[b, h // 2, at].tolist()))
                    expected[b, i, j] += attention[b, h, i, j] * norm / H
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def test_ignored_keys_are_not_even_neutral():
    """Twenty pads beside one row change nothing, where as neutral keys they would meet any alpha."""
    attention = torch.full((1, 1, 24, 24), 1 / 24)
    attention[..., 4:] = 1e-6
    weighted = c2dlm.value_weighted_attention(attention, torch.ones(1, 1, 24, 1))[0, :1]
    kinds = torch.tensor([1, 0, 0, 0] + [0] * 20)
    neutral = c2dlm.row_loss(weighted, kinds, 3.0, 0.0)
    ignored = c2dlm.row_loss(weighted, torch.where(torch.arange(24) < 4, kinds, 2), 3.0, 0.0)
    assert neutral.satisfied and not ignored.satisfied and ignored.ratio.item() == pytest.approx(-0.5)


def test_without_supervised_rows_the_loss_is_zero_with_a_graph():
    layers, given = [layer(8)], Supervision.stack([None] * B, T)
    for form in FORMS:
        out = loss_of(form, layers, given, alpha=3.0, lam=10.0)
        value, grads = with_gradients(out.loss, layers)
        assert value == 0 and out.rows == 0 and all((grad == 0).all() for grad in grads)


def test_no_whole_map_is_kept_for_the_backward_pass():
    tokens, kept = 40, {}
    mask = torch.zeros(tokens, tokens, dtype=torch.int8)
    mask[:10, 20:], mask[10:14, :3] = 1, -1
    given = Supervision.stack([Supervision.from_dense(mask)] * B, tokens)
    given["concept"], given["relation"] = given["concept"] % 8, given["relation"][:, :8, :8].contiguous()
    given["relation"][:, 0, 1], given["step"] = 1, given["step"][:, :8]
    for form, lam in (("eager", 1.0), ("rows", 1.0), ("mass", 0.0)):
        sizes = []
        with saved_tensors_hooks(lambda t, sizes=sizes: sizes.append(t.numel()) or t, lambda t: t):
            loss_of(form, [layer(9, tokens)], given, alpha=3.0, lam=lam).loss.backward()
        kept[form] = max(sizes)
    assert kept["eager"] >= B * H * tokens * tokens
    assert kept["rows"] <= B * H * tokens * D and kept["mass"] <= B * H * tokens * 2 * 16


@pytest.mark.parametrize("lam", [0.0, 10.0])
@pytest.mark.parametrize("layers", ["all", [2], [0, 2]], ids=str)
def test_the_forms_agree_in_a_whole_model(lam, layers):
    """GPT-2 computes in float64 throughout; loss, logits and the gradient of every parameter."""
    batch, found = batch_of(supervised=True), []
    batch["attention_mask"] = torch.ones_like(batch["labels"])
    batch["attention_mask"][1, -2:] = 0
    for form in FORMS:
        loss = ReattentionLoss(3.0, lam, layers, backend=form)
        model = wrapped(base("gpt2", torch.float64), loss, gamma=2.0)
        found.append(gradients(model, batch))
    for loss, grads in found[1:]:
        assert loss == pytest.approx(found[0][0], rel=0, abs=1e-10)
        for name, grad in grads.items():
            torch.testing.assert_close(grad, found[0][1][name], rtol=0, atol=1e-10)


def test_plain_attention_stays_on_the_main_path(monkeypatch):
    """One fused call a layer and pass in every fast form; logits are those of the plain model."""
    batch, calls = batch_of(supervised=True), []
    fused = torch.nn.functional.scaled_dot_product_attention
    monkeypatch.setattr(
        torch.nn.functional,
        "scaled_dot_product_attention",
        lambda *a, **k: calls.append(a[2].shape) or fused(*a, **k),
    )
    plain = wrapped(base())(**batch).loss
    for form in ("rows", "mass"):
        calls.clear()
        out = wrapped(base(), ReattentionLoss(3.0, 0.0, backend=form))
        calls.clear()
        torch.testing.assert_close(out(**batch).diffusion_loss, plain.detach(), rtol=1e-5, atol=1e-6)
        assert len(calls) == 3 and {shape[-1] for shape in calls} == ({6} if form == "rows" else {16})


def test_auto_takes_rows_for_penalties_and_short_texts(monkeypatch):
    assert choose_form(192, 90, 17) == "rows" and choose_form(1600, 1600, 17) == "mass"
    assert choose_form(1600, 400, 17) == "rows" and choose_form(1600, 1600, 1600) == "rows"
    batch = batch_of(supervised=True)
    for lam in (0.0, 10.0):
        losses = [
            wrapped(base(), ReattentionLoss(3.0, lam, backend=form))(**batch).loss.item()
            for form in ("auto", "rows", "mass")
        ]
        assert losses[0] == losses[1] == pytest.approx(losses[2], rel=1e-4)
    monkeypatch.setattr(reattention, "choose_form", lambda *_: "mass")
    both = [wrapped(base(), ReattentionLoss(3.0, 0.0, backend=form)) for form in ("auto", "mass")]
    assert torch.equal(*(model(**batch).loss for model in both))


def test_a_small_mass_beside_large_ones_is_the_same_in_bfloat16():
    torch.manual_seed(0)
    tokens, concept = 300, torch.full((300,), -1)
    concept[-1], concept[:2], concept[2:40] = 1, 0, 2  # the last token asks; two causes, 38 reversed
    relation = torch.tensor([[0, -1, 0], [1, 0, -1], [0, 1, 0]])
    asks, steps = torch.arange(tokens) == tokens - 1, torch.full((3,), -1)
    one = Supervision(concept, relation, steps, torch.zeros(tokens, dtype=torch.bool), asks)
    query, key, value = (torch.randn(1, 1, tokens, 16) * scale for scale in (0.0, 0.1, 1.0))
    query[..., 0], key[0, 0, 2:40, 0] = 1, 36.0
    tensors, module = [part.bfloat16() for part in (query, key, value)], torch.nn.Module()
    module.layer_idx, module.is_causal = 0, False
    found = []
    for dtype in (torch.float32, torch.bfloat16):
        loss = ReattentionLoss(3.0, 0.0, norm_index="none", backend="mass")
        form = reattention.FORMS["mass"](loss, loss._count(Supervision.stack([one], tokens)))
        given = (part.to(dtype) for part in tensors)
        mass_attention(module, *given, None, concept_mass=form.mass, is_causal=False)
        found.append(form.loss())
    assert found[0].satisfied == found[1].satisfied == 0
    assert found[1].loss.item() == pytest.approx(found[0].loss.item(), rel=1e-4)


def test_bfloat16_stays_close():
    batch, found = batch_of(supervised=True), []
    for dtype, form in ((torch.float32, "eager"), (torch.bfloat16, "rows"), (torch.bfloat16, "mass")):
        model = wrapped(base(dtype=dtype), ReattentionLoss(3.0, 1.0, backend=form))
        loss, grads = gradients(model, batch)
        found.append(model(**batch).reattention_loss.item())
        assert all(grad.isfinite().all() for grad in grads.values())
    assert found[1:] == [pytest.approx(found[0], rel=0.1)] * 2
    assert found[2] == pytest.approx(found[1], rel=1e-3)


@pytest.mark.parametrize(
    "change, said",
    [
        (dict(alpha=0.0), "alpha is 0.0 and lam 1.0: choose alpha above 0 and lam 0 or more"),
        (dict(lam=-1.0), "alpha is 3.0 and lam -1.0"),
        (dict(lam=math.inf), "alpha is 3.0 and lam inf: .* finite"),
        (dict(alpha=math.inf), "alpha is inf and lam 1.0: .* finite"),
        (dict(alpha="3"), "alpha is '3' and lam 1.0: choose alpha above 0"),
        (dict(lam=None), "alpha is 3.0 and lam None: choose alpha above 0"),
        (dict(alpha=True), "alpha is True and lam 1.0: choose alpha above 0"),
        (dict(layers=1), "layers is 1: choose 'all' or a list of layer numbers"),
        (dict(norm_index="value"), "norm_index is 'value': choose among key, query_as_printed, none"),
        (dict(backend="fast"), "backend is 'fast': choose among eager, rows, mass, auto"),
        (dict(step_rule="on"), "step_rule is 'on': choose among no_lookahead, prune_earlier, off"),
        (dict(over_layers="sum"), "over_layers is 'sum': choose among map, loss"),
        (dict(norm_scale="max"), "norm_scale is 'max': choose among raw, mean1"),
        (dict(layers="last"), "layers is 'last': choose 'all' or a list of layer numbers"),
        (dict(layers=[]), r"layers is \[\]: choose 'all'"),
        (dict(layers=[0.5]), r"layers is \[0.5\]: choose 'all'"),
        (dict(chunk_rows=0), "chunk_rows is 0: choose 1 or more"),
    ],
)
def test_settings_out_of_range(change, said):
    with pytest.raises(ValueError, match=said):
        ReattentionLoss(**dict(alpha=3.0, lam=1.0) | change)


def test_layers_of_numpy_are_numbers_that_a_config_can_hold():
    assert ReattentionLoss(3.0, 1.0, layers=np.arange(2)).settings()["layers"] == [0, 1]
    assert json.dumps(ReattentionLoss(3.0, 1.0, layers=np.array([1, 1])).settings())


def test_what_cannot_be_computed_is_refused():
    given, loss = Supervision.stack(masks(B, T), T), ReattentionLoss(3.0, 1.0)
    with pytest.raises(ValueError, match="no attention was recorded: pass the records of a tap"):
        loss([], given)
    leaves, _ = layer(1)
    with pytest.raises(ValueError, match="re-attention is for bidirectional attention and this"):
        loss([record(0, leaves, None, is_causal=True)], given)
    heads = torch.zeros(B, H, T, T)
    with pytest.raises(ValueError, match="the attention mask has 4 heads: choose backend='eager'"):
        loss([record(0, leaves, heads)], given)
    with pytest.raises(ValueError, match="4 heads of attention do not divide among 3 of values"):
        c2dlm.value_weighted_attention(torch.zeros(1, 4, 2, 2), torch.zeros(1, 3, 2, 2))
    with pytest.raises(ValueError, match="norm_index is 'v'"):
        c2dlm.value_weighted_attention(torch.zeros(1, 4, 2, 2), torch.zeros(1, 4, 2, 2), "v")
    with pytest.raises(ValueError, match=rf"needs another attention than 'sdpa'.*{MASS_ATTENTION}"):
        with ReattentionLoss(3.0, 1.0, backend="mass").watch(base(), given):
            pass
    model = wrapped(reattention=ReattentionLoss(3.0, 0.0, backend="mass"))
    with model.reattention.watch(model.base, Supervision.stack(masks(B, T), T)) as watch:
        model.base(torch.zeros(B, T, dtype=torch.long))  # without watch.extra
    with pytest.raises(ValueError, match="the attention handed nothing to the loss: its layers take no"):
        watch.loss()
    with pytest.raises(ValueError, match="no layer 7 in LlamaForCausalLM: it has 0 to 2"):
        wrapped(reattention=ReattentionLoss(3.0, 1.0, [7]))(**batch_of(supervised=True))


# the schedule of gamma


def test_gamma_schedule():
    values = [c2dlm.gamma_schedule(step, 20, 0.5, 2.5) for step in range(21)]
    assert values[0] == 0.5 and values[2] == 2.5 and values[20] == 0.5
    for t in range(21):  # as printed
        expected = 0.5 + t / 2 * 2 if t <= 2 else 2.5 - (t - 2) / (20 - 2) * 2
        assert values[t] == pytest.approx(expected, abs=1e-12)
    assert c2dlm.gamma_schedule(0, 10, 0, 1, warmup=0) == c2dlm.gamma_schedule(10, 10, 0, 1, warmup=1) == 1
    assert c2dlm.gamma_schedule(3, 10, 2, 2) == 2


@pytest.mark.parametrize(
    "given, said",
    [
        ((11, 10, 0, 1), r"step 11 is outside \[0, 10\]"),
        ((0, 0, 0, 1), r"step 0 is outside \[0, 0\]"),
        ((1, 10, 2, 1), "gamma runs from 2 to 1: choose 0 <= gamma_min <= gamma_max"),
        ((1, "10", 0, 1), "the schedule of gamma is step 1 of '10', from 0 to 1, warmup 0.1: give numbers"),
        ((1, 10, 0, 1, 1.5), r"warmup is 1.5: choose a share of the steps in \[0, 1\]"),
    ],
)
def test_gamma_out_of_range(given, said):
    with pytest.raises(ValueError, match=said):
        c2dlm.gamma_schedule(*given)


# what a backend cannot measure


@pytest.mark.parametrize("backend", ["eager", "rows", "mass"])
def test_reentrant_checkpoints_are_refused(backend):
    model = wrapped(reattention=ReattentionLoss(3.0, 0.0, backend=backend)).train()
    model.gradient_checkpointing_enable({"use_reentrant": True})
    with pytest.raises(ValueError, match="is checkpointed with use_reentrant=True, under which records"):
        model(**batch_of(supervised=True))


@pytest.mark.parametrize("backend", ["eager", "rows", "mass"])
@pytest.mark.parametrize("layers", [[7], [0, 7]], ids=str)
def test_layers_that_are_not_there_are_refused(backend, layers):
    with pytest.raises(ValueError, match="no layer 7 in LlamaForCausalLM: it has 0 to 2"):
        wrapped(reattention=ReattentionLoss(3.0, 0.0, layers, backend=backend))(**batch_of(supervised=True))


@pytest.mark.parametrize("name, dropout", [("llama", "attention_dropout"), ("gpt2", "attn_pdrop")])
def test_dropout_of_attention_is_for_rows(monkeypatch, name, dropout):
    monkeypatch.setattr(reattention, "choose_form", lambda *_: "mass")
    model = {
        form: wrapped(base(name, **{dropout: 0.5}), ReattentionLoss(3.0, 0.0, backend=form))
        for form in ("mass", "rows", "auto")
    }
    batch, found = batch_of(supervised=True), {}
    assert model["mass"](**batch).reattention_loss != 0  # none in evaluation
    with pytest.raises(ValueError, match="attention has a dropout of 0.5, after which backend 'mass' would"):
        model["mass"].train()(**batch)
    for form in ("rows", "auto"):
        torch.manual_seed(0)
        found[form] = model[form].train()(**batch).reattention_loss
    assert torch.equal(found["rows"], found["auto"])


def test_scaled_norms_do_not_see_padding():
    given, layers = Supervision.stack(masks(B, T), T), [layer(3), layer(4)]
    seen = ~given["ignore"]
    more = 6
    wider = Supervision.stack([{name: part[i] for name, part in given.items()} for i in range(B)], T + more)
    mask = torch.nn.functional.pad(seen, (0, more))[:, None, None].expand(-1, 1, T + more, -1)
    grown = [
        ([torch.nn.functional.pad(leaf, (0, 0, 0, more), value=5.0) for leaf in leaves], mask)
        for leaves, _ in layers
    ]
    short = [(leaves, seen[:, None, None].expand(-1, 1, T, -1)) for leaves, _ in layers]
    for form in FORMS:
        both = [
            loss_of(form, part, said, alpha=3.0, lam=10.0, norm_scale="mean1").loss
            for part, said in ((short, given), (grown, wider))
        ]
        torch.testing.assert_close(*both, rtol=0, atol=1e-10)


@pytest.mark.parametrize("form", ["eager", "rows"])
def test_masks_of_flash_attention_are_of_keys(form):
    given, (leaves, _) = Supervision.stack(masks(B, T), T), layer(5)
    keys = torch.arange(T) < torch.tensor([[T], [T - 2], [T - 3]])
    both = [
        loss_of(form, [(leaves, mask)], given, alpha=3.0, lam=10.0).loss
        for mask in (keys.long(), keys[:, None, None].expand(-1, 1, T, -1))
    ]
    assert torch.equal(*both)


def test_without_supervised_rows_the_loss_is_zero_in_half_precision_too():
    leaves = [torch.full((B, heads, 600, D), 60.0, dtype=torch.float16) for heads in (H, G, G)]  # sums to inf
    given = Supervision.stack([None] * B, 600)
    assert ReattentionLoss(3.0, 1.0)([record(0, leaves, None, is_causal=False)], given).loss == 0
