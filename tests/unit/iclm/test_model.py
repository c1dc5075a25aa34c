"""The whole model: Equation 4 from its parts, what each loss reaches, and the ways of Hugging Face."""

import copy

import pytest
import torch
import torch.nn.functional as F
import transformers
from peft import LoraConfig, get_peft_model
from transformers import AutoConfig, AutoModelForCausalLM, DynamicCache

from causalnb.iclm import ICLMConfig, ICLMForCausalLM, Router, Routing, linear_cka, mutual_information
from causalnb.wrapping import decoder_layers
from tests.unit.iclm.small import (
    BASES,
    DECODER,
    LAYERS,
    VOCABULARY,
    WIDTH,
    base,
    batch_of,
    gradients,
    prompts_of,
    shake,
    wrapped,
)

every_base = pytest.mark.parametrize("name", BASES)
VARIANTS = {
    "latent": {},
    "unshared": dict(aggregation_settings={"shared": False, "start": "base"}),
    "logit": dict(aggregation="logit", invariant_weight=0.3),
    "probability": dict(aggregation="probability"),
    "distance": dict(router="distance", num_modules=3, router_projection=5),
    "distance, probability": dict(router="distance", num_modules=3, aggregation="probability"),
    "no invariant": dict(invariant=False),
    "own": dict(invariant=False, aggregation="own"),
    "own, distance": dict(invariant=False, aggregation="own", router="distance"),
    "trained router": dict(router_trainable=True, router_settings={"nu_on": "commitment"}),
    "tokens": dict(norm_over="tokens"),
    "published loss": dict(direction="reverse", clamp=1e-6, num_modules=4),
    "all modules": dict(information="all", num_modules=3, weights={"epsilon": 0.5}),
    "all modules, shared layers": dict(information="all", num_modules=3, shared_layers=1, norm_over="tokens"),
    "router over tokens": dict(router_over="tokens", router_trainable=True),
    "shared layers, router over tokens": dict(router_over="tokens", shared_layers=1),
    "aligned": dict(weights={"delta": 0.5}, aggregation_settings={"start": "base"}),
    "one shared layer": dict(shared_layers=1),
    "two shared layers, distance": dict(shared_layers=2, router="distance"),
}
every_variant = pytest.mark.parametrize("variant", VARIANTS)


def routed_in_two(model, batch):
    """The model with its first two modules (or all, softly) at the first two inputs, which differ in kind."""
    if model.config.router == "vq" and model.config.router_projection is None:
        states = model.router.norm(model.router_states(**batch).detach())
        with torch.no_grad():
            model.router.choose.codebook.fill_(50.0)
            model.router.choose.codebook[:2] = states[:2]
        assert set(model(**batch).module.tolist()) == {0, 1}
    return model


# Equation 4


def slow_logits(model, invariant, domains, share):
    """Fused logits (n, V) of states (n, H) of all modules and weights (n, N), with running statistics."""
    config, head = model.config, model.base.lm_head
    mixed = sum(share[:, k, None] * h for k, h in enumerate(domains))
    if config.aggregation == "own":
        return head(mixed)
    norm = getattr(model.aggregation, "norm", None)

    def normed(states, group):
        group = 0 if norm.shared else group
        centred = (states - norm.mean[group]) / (norm.variance[group] + norm.eps).sqrt()
        return centred * norm.scale[group] + norm.shift[group]

    if config.aggregation == "latent":
        halves = [mixed, mixed] if invariant is None else [invariant, mixed]
        halves = [normed(half, group) for group, half in enumerate(halves)]
        return torch.cat(halves, 1) @ model.aggregation.head.weight.T
    w = config.invariant_weight
    pairs = [(torch.full((len(mixed),), w), invariant)] + [
        ((1 - w) * share[:, k], h) for k, h in enumerate(domains)
    ]
    if config.aggregation == "logit":
        return sum(weight[:, None] * normed(head(h), 0) for weight, h in pairs)
    pairs = [(weight[:, None], head(h).softmax(1)) for weight, h in pairs]
    return sum(((1 - weight) / 2 + weight * p).log() for weight, p in pairs)


def slow_loss(model, batch):
    """Equation 4 with every module run alone, its parts {name: loss}, and the logits; in evaluation."""
    config, head, labels = model.config, model.base.lm_head, batch["labels"]
    given, count = (batch["input_ids"], batch["attention_mask"]), model.config.num_modules
    routing = model.router(model.router_states(**batch))
    places = [(b, t) for b, row in enumerate(labels) for t in range(len(row) - 1) if row[t + 1] != -100]
    targets = torch.stack([labels[b, t + 1] for b, t in places])

    def at_places(module):
        states = model.states(*given, module)
        return torch.stack([states[b, t] for b, t in places])

    hard = F.one_hot(routing.module, count).to(routing.loss.dtype)
    share = torch.stack([(hard if routing.weights is None else routing.weights)[b] for b, _ in places])
    domains = [at_places(k) for k in range(count)]
    invariant = at_places("invariant") if config.invariant else None
    logits = slow_logits(model, invariant, domains, share)
    parts = {"output": F.cross_entropy(logits, targets), "routing": routing.loss}
    if config.aggregation != "own":
        mixed = sum(share[:, k, None] * h for k, h in enumerate(domains))
        parts["domain"] = F.cross_entropy(head(mixed), targets)
    if config.invariant:
        parts["invariant"] = F.cross_entropy(head(invariant), targets)
        mine = [(share[:, k] > 0) | (config.information == "all") for k in range(count)]
        parts["mutual_information"] = sum(
            mutual_information(invariant[rows], h[rows], config.direction, config.clamp)
            for rows, h in zip(mine, domains, strict=False)
            if rows.any()
        )
        if config.weights["delta"]:
            parts["alignment"] = sum(
                linear_cka(invariant[rows], h[rows]).clamp(min=0)
                for rows, h in zip(mine, domains, strict=False)
                if rows.sum() >= 4
            )
    names = {
        "invariant": "alpha",
        "domain": "beta",
        "routing": "gamma",
        "mutual_information": "epsilon",
        "alignment": "delta",
    }
    total = parts["output"] + sum(config.weights[names[n]] * parts[n] for n in names.keys() & parts.keys())
    return total, parts, logits


@every_variant
def test_equation_4_and_its_gradients_from_modules_run_alone(double, variant):
    model = wrapped(decoder=base(dtype=torch.float64), **VARIANTS[variant])
    batch = batch_of(rows=5)
    routed_in_two(model, batch)
    out = model(**batch, answers_only=True)
    total, parts, logits = slow_loss(model, batch)
    assert out.losses.keys() == parts.keys() and all(
        part != 0 for name, part in out.losses.items() if name != "routing" or model.config.router == "vq"
    )
    for name, part in parts.items():
        torch.testing.assert_close(out.losses[name], part.detach(), rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(out.loss, total, rtol=1e-10, atol=0)
    torch.testing.assert_close(out.logits.log_softmax(1), logits.log_softmax(1), rtol=1e-8, atol=1e-10)
    trained = [p for p in model.parameters() if p.requires_grad]
    fast, slow = (torch.autograd.grad(loss, trained, allow_unused=True) for loss in (out.loss, total))
    reached = 0
    for one, other in zip(fast, slow, strict=False):
        one, other = (torch.zeros(()) if g is None else g for g in (one, other))
        reached += bool(one.abs().max() > 0)
        torch.testing.assert_close(*torch.broadcast_tensors(one, other), rtol=1e-7, atol=1e-10)
    assert reached >= 2 * 4 * (LAYERS - model.config.shared_layers)


def test_the_defaults_are_the_papers():
    config = wrapped().config
    assert config.weights == dict(alpha=0.1, beta=0.1, gamma=0.1, epsilon=0.01, delta=0.0)  # delta is ours
    assert config.num_modules == 2 and ICLMConfig().router_trainable
    assert (config.direction, config.clamp, config.router, config.aggregation) == (
        "forward",
        None,
        "vq",
        "latent",
    )
    assert ICLMConfig(base().config).lora == dict(
        r=8, alpha=16, dropout=0.05, target_modules=["q_proj", "k_proj", "v_proj", "o_proj"]
    )
    assert wrapped().router.choose.nu == 0.25 and wrapped().router.choose.nu_on == "codebook"


@pytest.mark.parametrize(
    "config, names",
    [
        (transformers.GPT2Config(), ["c_attn"]),
        (transformers.GPTNeoXConfig(), ["query_key_value"]),
        (transformers.OPTConfig(), ["q_proj", "k_proj", "v_proj", "out_proj"]),
        (transformers.PhiConfig(), ["q_proj", "k_proj", "v_proj", "dense"]),
        (transformers.Phi3Config(), ["qkv_proj", "o_proj"]),
        (transformers.GPTBigCodeConfig(), ["c_attn"]),
        (transformers.Qwen3Config(), ["q_proj", "k_proj", "v_proj", "o_proj"]),
    ],
    ids=lambda part: getattr(part, "model_type", ""),
)
def test_adapters_go_on_the_attention_of_any_architecture(config, names):
    assert ICLMConfig(config).lora["target_modules"] == names
    assert ICLMConfig(config, lora={"target_modules": ["x"]}).lora["target_modules"] == ["x"]


def test_gpt2_needs_no_names_of_its_maps(tmp_path):
    model = ICLMForCausalLM.from_base(base("gpt2"))
    assert len(model._adapted) == LAYERS and all("c_attn" in name for name in model._adapted)
    model.save_pretrained(tmp_path)
    again = ICLMForCausalLM.from_pretrained(tmp_path)
    assert again.config.lora == model.config.lora and again._adapted.keys() == model._adapted.keys()


def test_training_normalises_by_the_labels_rows_or_by_all_tokens():
    batch, pads = batch_of(), batch_of(padded=False)
    wide = dict(batch)  # two more padding tokens in front of every row
    for name, fill in (("input_ids", 0), ("attention_mask", 0), ("labels", -100)):
        wide[name] = F.pad(batch[name], (2, 0), value=fill)
    for over, moved in (("labels", False), ("tokens", True)):
        one, two = (wrapped(norm_over=over).train() for _ in range(2))
        out, padded = one(**batch), two(**wide)
        assert torch.equal(out.module, padded.module)
        change = (out.logits - padded.logits).abs().max()
        assert (change > 1e-2) == moved
        logits = wrapped(norm_over=over).eval()(**{k: v for k, v in pads.items() if k != "labels"}).logits
        few = wrapped(norm_over=over)(**pads, answers_only=True).logits
        torch.testing.assert_close(few, logits[:, 5:-1].flatten(0, 1))


# what reaches what


def test_the_tasks_loss_reaches_neither_the_router_nor_inactive_modules():
    model = wrapped(router_trainable=True, num_modules=3, weights={"gamma": 0.0})
    batch = batch_of()
    states = model.router.norm(model.router_states(**batch).detach())
    with torch.no_grad():
        model.router.choose.codebook.copy_(torch.stack([states[0], states.mean(0) + 100, states[1] + 100]))
    assert (model(**batch).module == 0).all()
    _, found = gradients(model, batch)
    for name, gradient in found.items():
        if name.endswith((".A", ".B")):
            zero = [bool((gradient[m] == 0).all()) for m in range(5)]
            assert zero == [False, True, True, False, True], name  # domains 0, 1, 2, invariant, router
        elif name.startswith("router"):
            assert (gradient == 0).all()
    assert not any(name.startswith("base") and not name.endswith((".A", ".B")) for name in found)


def test_the_router_learns_from_its_own_loss_alone():
    model, batch = wrapped(router_trainable=True), batch_of()
    routed_in_two(model, batch)
    out = model(**batch)
    trained = [p for n, p in model.named_parameters() if n.endswith((".A", ".B"))]
    trained.append(model.router.choose.codebook)
    whole = torch.autograd.grad(out.loss, trained, retain_graph=True)
    own = torch.autograd.grad(0.1 * out.routing.loss, trained)
    place = model.number("router")
    for one, other in zip(whole[:-1], own[:-1], strict=False):
        assert other[place].abs().max() > 0 and (other[:place] == 0).all()
        torch.testing.assert_close(one[place], other[place], rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(whole[-1], own[-1])


def test_soft_routing_lets_the_task_move_the_router():
    model = wrapped(router="distance", weights={"gamma": 0.0})
    _, found = gradients(model, batch_of())
    assert found["router.choose.codebook"].abs().max() > 0
    assert all((g[m] != 0).any() for n, g in found.items() if n.endswith(".B") for m in range(3))


def test_frozen_modules_stay_and_are_freed_again():
    model, batch = wrapped(router_trainable=True), batch_of()
    routed_in_two(model, batch)
    before = {n: p.detach().clone() for n, p in model.named_parameters()}
    model.freeze_modules([0, "invariant"])

    def step():
        trained = [p for p in model.parameters() if p.requires_grad]
        optimiser = torch.optim.AdamW(trained, 1e-2, weight_decay=0)
        for _ in range(2):
            optimiser.zero_grad()
            model(**batch).loss.backward()
            optimiser.step()
        changed = {n: p.detach() != before[n] for n, p in model.named_parameters()}
        moved = [any(c[m].any() for n, c in changed.items() if n.endswith((".A", ".B"))) for m in range(4)]
        return moved, changed["router.choose.codebook"].any(1).tolist()

    assert step() == ([False, True, False, True], [False, True])
    model.freeze_modules([1])
    before = {n: p.detach().clone() for n, p in model.named_parameters()}
    assert step() == ([True, False, True, True], [True, False])


@pytest.mark.parametrize("router", ["vq", "distance"])
def test_frozen_modules_stay_so_when_loaded(router, tmp_path):
    model = wrapped(router=router, router_trainable=True, router_projection=4)
    for frozen in ([], [0, "router"], ["router"], [1, "invariant"]):
        model.freeze_modules(frozen)
        model.save_pretrained(tmp_path)
        again = ICLMForCausalLM.from_pretrained(tmp_path)
        held = torch.tensor([name in frozen for name in model.modules_in_order()])
        for one in (model, again):
            _, found = gradients(one, batch_of())
            still = found["router.choose.codebook"].abs().amax(1) == 0
            assert still[held[:2]].all() and (router == "vq" or torch.equal(still, held[:2]))
            assert all((g[held] == 0).all() for name, g in found.items() if name.endswith((".A", ".B")))
            assert ("router.project.weight" in found) == ("router" not in frozen)


# routing


@pytest.mark.parametrize(
    "settings",
    [{}, dict(shared_layers=2), dict(router="distance", num_modules=3), dict(router_trainable=True)],
)
def test_in_evaluation_a_batch_is_answered_as_its_inputs_alone(settings):
    model, batch = wrapped(**settings), batch_of(padded=False)
    routed_in_two(model, batch)
    del batch["labels"]
    together = model(**batch)
    for i in range(4):
        alone = model(**{name: value[i : i + 1] for name, value in batch.items()})
        assert alone.module[0] == together.module[i]
        torch.testing.assert_close(alone.logits[0], together.logits[i], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("settings", [{}, dict(shared_layers=1)])
def test_answers_do_not_route_and_prompts_may_be_pooled_beforehand(settings):
    model, batch = wrapped(**settings), batch_of()
    pooled = model.router_states(**batch)
    assert pooled.shape == (4, WIDTH) and not pooled.requires_grad
    changed = batch | {"input_ids": torch.where(batch["labels"] != -100, 4, batch["input_ids"])}
    torch.testing.assert_close(model.router_states(**changed), pooled)
    assert not torch.allclose(model.router_states(changed["input_ids"], batch["attention_mask"]), pooled)
    torch.testing.assert_close(model(**batch, router_states=pooled).loss, model(**batch).loss)
    calls = []
    hook = model.base.base_model.register_forward_hook(lambda *_: calls.append(1))
    model(**batch, router_states=pooled)
    assert len(calls) == 1
    hook.remove()
    everything = batch | {"labels": batch["input_ids"]}  # no prompt: all tokens route
    torch.testing.assert_close(
        model.router_states(**everything), model.router_states(batch["input_ids"], batch["attention_mask"])
    )


def test_reading_states_leaves_each_part_in_its_mode():
    model, batch = wrapped().train(), batch_of()
    kept = model.base.get_input_embeddings().eval()
    model.router_states(**batch)
    assert model.base.training and not kept.training


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_the_router_runs_on_prompts_alone_and_finds_what_it_finds_on_all(name):
    """Against states of whole texts, gradients too: a causal decoder's do not depend on what follows."""
    model = wrapped(name, base(name, torch.float64), router_trainable=True)
    batch, widths = batch_of(), []
    ids, seen, prompt = batch["input_ids"], batch["attention_mask"], (batch["labels"] == -100).long()
    place = (seen.cumsum(1) - 1).clamp(min=0)
    with model.base.base_model.register_forward_hook(lambda *passed: widths.append(passed[2][0].shape[1])):
        found = model.router_states(ids, seen, prompt_mask=prompt, position_ids=place)
    assert widths == [6] and ids.shape[1] == 9
    states = model.states(ids, seen, "router", position_ids=place)
    where = (prompt * seen).to(states)[..., None]
    expected = (states * where).sum(1) / where.sum(1)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    weights = torch.randn_like(found)
    adapters = [layer.A for layer in model._adapted.values()]
    for one, other in zip(
        torch.autograd.grad((found * weights).sum(), adapters),
        torch.autograd.grad((expected * weights).sum(), adapters),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("settings", [{}, dict(shared_layers=1), dict(router_trainable=True)])
def test_the_router_reads_the_same_prompt_however_much_of_it_is_supervised(settings):
    model, batch = wrapped(**settings), batch_of()
    routed_in_two(model, batch)
    prompt = (batch["labels"] == -100).long()
    dense = batch | {"labels": batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)}
    expected, found = (model(**given) for given in (batch, dense | {"prompt_mask": prompt}))
    torch.testing.assert_close(model.router_states(**dense, prompt_mask=prompt), model.router_states(**batch))
    assert torch.equal(found.module, expected.module) and len(set(found.module.tolist())) == 2
    torch.testing.assert_close(found.losses["routing"], expected.losses["routing"])
    assert not torch.allclose(model.router_states(**dense), model.router_states(**batch))
    later = batch["labels"].clone()  # what follows the first label is no prompt, labelled or not
    later[:, 7] = -100
    torch.testing.assert_close(model.router_states(**batch | {"labels": later}), model.router_states(**batch))


@pytest.mark.parametrize("mask", [torch.ones(4, 3), torch.tensor([[1] * 9] * 3 + [[0] * 9])])
def test_a_prompt_mask_must_mark_a_token_of_every_input(mask):
    with pytest.raises(ValueError, match="prompt_mask has shape .* mark with 1 at least one token of every"):
        wrapped()(**batch_of(), prompt_mask=mask)


def test_a_given_routing_settles_the_matter():
    model, batch = wrapped(num_modules=3, invariant=False, aggregation="own"), batch_of()
    chosen = Routing(torch.tensor([2, 0, 1, 2]), torch.zeros(()))
    out = model(**batch, routing=chosen, answers_only=True)
    assert torch.equal(out.module, chosen.module) and out.losses["routing"] == 0
    hidden = [
        model.states(batch["input_ids"], batch["attention_mask"], int(m))[i]
        for i, m in enumerate(chosen.module)
    ]
    expected = model.base.lm_head(torch.stack(hidden)[:, 5:-1]).flatten(0, 1)
    torch.testing.assert_close(out.logits, expected)


def test_the_router_reads_the_frozen_base_without_dropout():
    model = wrapped("gpt2", base("gpt2", resid_pdrop=0.5)).train()
    batch = batch_of()
    assert torch.equal(model.router_states(**batch), model.router_states(**batch))
    assert model.base.training and not torch.equal(model(**batch).loss, model(**batch).loss)


def test_states_by_module_and_layer():
    model, ids = wrapped(), batch_of(padded=False)["input_ids"]
    plain = base()
    torch.testing.assert_close(model.states(ids), plain.model(ids).last_hidden_state)
    layers = model.states(ids, module=1, all_layers=True)
    assert layers.shape == (LAYERS + 1, *ids.shape, WIDTH)
    torch.testing.assert_close(layers[-1], model.states(ids, module=1))
    assert not torch.allclose(model.states(ids, module=0), model.states(ids, module="invariant"))


# Hugging Face


@every_variant
def test_saved_and_loaded_it_is_the_same(variant, tmp_path):
    model, batch = wrapped(**VARIANTS[variant]), batch_of()
    model.train()(**batch)  # the running statistics are no longer those of the start
    model.freeze_modules([1])
    model.eval().save_pretrained(tmp_path)
    again = ICLMForCausalLM.from_pretrained(tmp_path).eval()
    one, two = model.state_dict(), again.state_dict()
    assert one.keys() == two.keys() and all(torch.equal(one[key], two[key]) for key in one)
    assert torch.equal(model(**batch).loss, again(**batch).loss)
    settings = [{k: v for k, v in m.config.to_dict().items() if k != "base_config"} for m in (model, again)]
    for name in VARIANTS[variant] | {"lora": 0, "weights": 0}:
        assert settings[0][name] == settings[1][name]
    assert [n for n, p in model.named_parameters() if p.requires_grad] == [
        n for n, p in again.named_parameters() if p.requires_grad
    ]
    assert not list(tmp_path.glob("*.bin"))


@pytest.mark.parametrize("tied", [True, False])
@every_base
def test_every_base_comes_back(name, tied, tmp_path):
    model = wrapped(name, base(name, tie_word_embeddings=tied))
    model.generation_config.max_new_tokens = 3
    model.save_pretrained(tmp_path)
    again = ICLMForCausalLM.from_pretrained(tmp_path).eval()
    batch = prompts_of(batch_of())
    assert torch.equal(model(**batch).logits, again(**batch).logits)
    assert again.generation_config.max_new_tokens == 3 and again.config.pad_token_id == 0
    assert (again.get_output_embeddings().weight is again.get_input_embeddings().weight) == tied


def test_a_half_precision_base_stays_so_and_what_is_trained_is_single(tmp_path):
    base(dtype=torch.bfloat16).save_pretrained(tmp_path / "base")
    decoder = AutoModelForCausalLM.from_pretrained(tmp_path / "base")  # with rotations in single, as always
    model = wrapped(decoder=decoder, router_projection=4)
    assert {p.dtype for p in model.parameters() if not p.requires_grad} == {torch.bfloat16}
    assert {p.dtype for p in model.parameters() if p.requires_grad} == {torch.float32}
    batch = batch_of()
    loss, found = gradients(model.train(), batch)
    assert torch.isfinite(torch.tensor(loss)) and all(torch.isfinite(g).all() for g in found.values())
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.isfinite(model(**batch).loss)
    model.eval().save_pretrained(tmp_path)
    again = ICLMForCausalLM.from_pretrained(tmp_path).eval()
    assert [p.dtype for p in again.parameters()] == [p.dtype for p in model.parameters()]
    assert again.router.norm.mean.dtype == torch.float32
    assert torch.equal(model(**batch).loss, again(**batch).loss)


@pytest.mark.parametrize(
    "name, settings",
    [
        ("llama", {}),
        ("llama", dict(shared_layers=1)),
        ("llama", dict(router="distance", aggregation="logit")),
        ("llama", dict(router_trainable=True)),
        ("qwen2", {}),
        ("gpt2", {}),
        ("gpt2", dict(shared_layers=1)),
    ],
)
def test_generation_is_the_same_with_and_without_a_cache(name, settings):
    model, batch = wrapped(name, **settings), batch_of()
    routed_in_two(model, batch)
    prompts = prompts_of(batch)
    for search in (dict(num_beams=1), dict(num_beams=3)):
        given = dict(max_new_tokens=5, min_new_tokens=5, do_sample=False, **search)
        cached = model.generate(**prompts, **given)
        assert torch.equal(cached, model.generate(**prompts, **given, use_cache=False))
        assert cached.shape == (4, 11) and torch.equal(cached[:, :6], prompts["input_ids"])
    for i in range(4):  # and each prompt's is its own, without its padding
        alone = model.generate(prompts["input_ids"][i : i + 1, i % 3 :], **given)
        assert torch.equal(alone[0, -5:], cached[i, -5:])


def test_a_cache_of_another_kind_is_refused():
    model, prompts = wrapped(), prompts_of(batch_of())
    given, config = dict(max_new_tokens=2, do_sample=False), model.base.config
    own = transformers.StaticCache(config, max_cache_len=8)
    moved = DynamicCache(config=config)
    moved.offloading = True  # as offloading=True, whose stream needs a GPU
    for cache, told in (
        (dict(cache_implementation="static"), "a StaticCache was asked for, .* leave out cache"),
        (dict(past_key_values=own), "a StaticCache was asked for, .* leave out cache"),
        (dict(past_key_values=moved), "a DynamicCache that offloads was asked for, .* leave out cache"),
    ):
        with pytest.raises(ValueError, match=told):
            model.generate(**prompts, **given, **cache)
        with pytest.raises(ValueError, match=told), model.only(0):
            model.generate(**prompts, **given, **cache)
    for cache, told in ((own, "a StaticCache"), (moved, "a DynamicCache that off"), (((),), "a tuple was")):
        with pytest.raises(ValueError, match=told):
            model(**prompts, past_key_values=cache)


def test_the_prompt_routes_until_the_end():
    model, batch = wrapped(invariant=False, aggregation="own"), batch_of(padded=False)
    routed_in_two(model, batch)
    prompts = prompts_of(batch)
    out = model(**prompts, use_cache=True)
    with torch.no_grad():
        model.router.choose.codebook.add_(1000.0)  # routed now, all would go elsewhere or to one module
    step = model(batch["input_ids"][:, 6:7], past_key_values=out.past_key_values, use_cache=True)
    assert torch.equal(step.module, out.module)
    whole = model(batch["input_ids"][:, :7], routing=out.routing)
    torch.testing.assert_close(step.logits[:, -1], whole.logits[:, -1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("use_cache", [True, False])
@pytest.mark.parametrize("shaped", [True, False])
def test_an_empty_cache_of_the_callers_is_filled(use_cache, shaped):
    model, batch = wrapped(shared_layers=1), prompts_of(batch_of(padded=False))
    own = DynamicCache(config=model.base.config) if shaped else DynamicCache()
    out = model(**batch, past_key_values=own, use_cache=use_cache)
    assert own.get_seq_length() == out.past_key_values.get_seq_length() == batch["input_ids"].shape[1]
    ids = torch.full((4, 1), 5)
    with pytest.raises(ValueError, match="they are the empty ones that were handed in before: pass those"):
        model(ids, past_key_values=own)  # it would begin anew, at place 0
    step = model(ids, past_key_values=out.past_key_values)
    whole = model(torch.cat([batch["input_ids"], ids], 1))
    torch.testing.assert_close(step.logits[:, -1], whole.logits[:, -1], rtol=1e-4, atol=1e-5)


def test_a_cache_of_the_callers_stays_empty_where_it_is_not_returned():
    model, batch, own = wrapped(shared_layers=1), batch_of(padded=False), DynamicCache()
    assert model(**batch, past_key_values=own).past_key_values is None
    prompts = prompts_of(batch)
    model.train()
    with pytest.raises(ValueError, match="in training neither labels nor a prompt_mask say where answers"):
        model(**prompts, past_key_values=own)
    model.eval()
    weight = model.base.model.norm.weight.detach()  # after the states that the router reads
    kept = weight.clone()
    weight.fill_(torch.nan)
    with pytest.raises(ValueError, match="states that are not finite"):
        model(**prompts, past_key_values=own)
    weight.copy_(kept)
    assert own.get_seq_length() == 0
    assert model(**prompts, past_key_values=own).past_key_values.get_seq_length() == own.get_seq_length() > 0


def test_the_cache_follows_chosen_and_repeated_inputs():
    model, batch = wrapped(shared_layers=1), prompts_of(batch_of(padded=False))
    routed_in_two(model, batch_of(padded=False))
    out = model(**batch, use_cache=True)
    expected = out.module
    out.past_key_values.batch_select_indices(torch.tensor([3, 0]))
    out.past_key_values.batch_repeat_interleave(2)
    ids = torch.tensor([[5], [5], [5], [5]])
    step = model(ids, past_key_values=out.past_key_values, use_cache=True)
    whole = model(torch.cat([batch["input_ids"][[3, 3, 0, 0]], ids], 1))
    assert torch.equal(step.module, expected[[3, 3, 0, 0]])
    torch.testing.assert_close(step.logits[:, -1], whole.logits[:, -1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("settings", [{}, dict(shared_layers=1)])
def test_one_module_alone(settings):
    model, batch = wrapped(**settings), batch_of()
    prompts = prompts_of(batch)
    for module in (1, "invariant"):
        hidden = model.states(**prompts, module=module)
        with model.only(module):
            torch.testing.assert_close(model(**prompts).logits, model.base.lm_head(hidden))
            out = model(**batch)
            texts = [
                model.generate(**prompts, max_new_tokens=4, do_sample=False, use_cache=cache)
                for cache in (True, False)
            ]
        logits = model.base.lm_head(model.states(batch["input_ids"], batch["attention_mask"], module))
        expected = F.cross_entropy(logits[:, 5:-1].flatten(0, 1), batch["labels"][:, 6:].flatten())
        torch.testing.assert_close(out.loss, expected)
        assert out.module is None and torch.equal(*texts)
    assert model(**batch).module is not None


@pytest.mark.parametrize("settings", [{}, dict(shared_layers=1)])
@every_base
def test_an_exported_module_is_a_peft_adapter_of_the_base(name, settings, tmp_path):
    from peft import PeftModel

    model, batch = wrapped(name, **settings), prompts_of(batch_of())
    for module in (0, "invariant"):
        model.export_adapter(module, tmp_path / str(module))
        other = PeftModel.from_pretrained(base(name), tmp_path / str(module)).eval()
        with model.only(module):
            torch.testing.assert_close(other(**batch).logits, model(**batch).logits, rtol=1e-5, atol=1e-5)
    folder = tmp_path / "0"
    assert {file.name for file in folder.iterdir()} >= {"adapter_config.json", "adapter_model.safetensors"}


@pytest.mark.parametrize("settings", [{}, dict(shared_layers=1), dict(router_trainable=True)])
@every_base
def test_gradient_checkpointing_changes_no_gradient(name, settings):
    batch, model = batch_of(), wrapped(name, **settings)
    loss, plain = gradients(routed_in_two(model, batch).train(), batch)
    again = wrapped(name, **settings)
    routed_in_two(again, batch).train().activation_checkpointing_enable()
    calls = []
    for layer in decoder_layers(again.base):
        layer.self_attn.register_forward_hook(
            lambda *_: calls.append(1)
        ) if name != "gpt2" else layer.attn.register_forward_hook(lambda *_: calls.append(1))
    found, checkpointed = gradients(again, batch)
    assert len(calls) >= 2 * (LAYERS - model.config.shared_layers)  # layers did run twice
    assert found == pytest.approx(loss, rel=1e-6) and plain.keys() == checkpointed.keys()
    for key in plain:
        torch.testing.assert_close(checkpointed[key], plain[key], rtol=1e-4, atol=1e-6)
    with pytest.raises(ValueError, match="reentrant checkpoints forget the rows of the modules: set use_ree"):
        again.activation_checkpointing_enable({"use_reentrant": True})


def arguments(folder, **settings):
    from transformers import TrainingArguments

    return TrainingArguments(
        **dict(
            output_dir=str(folder),
            max_steps=3,
            per_device_train_batch_size=4,
            learning_rate=1e-2,
            report_to="none",
            save_strategy="steps",
            save_steps=2,
            logging_strategy="no",
            use_cpu=True,
            disable_tqdm=True,
            dataloader_pin_memory=False,
            seed=1,
        )
        | settings
    )


def test_the_trainer_runs_three_steps_and_resumes(tmp_path):
    from transformers import Trainer

    batch = batch_of(rows=8)
    rows = [{key: value[i] for key, value in batch.items()} for i in range(8)]

    def trainer(folder):
        torch.manual_seed(0)
        model = wrapped(
            router_trainable=True, router_settings={"init": "data"}, lora={"dropout": 0.1}, awake=False
        )
        return Trainer(model, arguments(folder), train_dataset=rows, eval_dataset=rows)

    whole = trainer(tmp_path / "whole")
    start = {name: p.detach().clone() for name, p in whole.model.named_parameters()}
    whole.train()
    end = whole.model.state_dict()
    moved = {name for name, p in whole.model.named_parameters() if not torch.equal(p, start[name])}
    assert {n for n in moved if n.startswith("base")} == {n for n in start if n.endswith((".A", ".B"))}
    assert {"router.choose.codebook", "aggregation.head.weight"} < moved
    assert end["router.norm.batches"] == 3
    resumed = trainer(tmp_path / "again")
    resumed.train(resume_from_checkpoint=str(tmp_path / "whole" / "checkpoint-2"))
    again = resumed.model.state_dict()
    assert all(torch.equal(end[name], again[name]) for name in end)
    metrics = whole.evaluate()
    assert metrics["eval_loss"] > 0 and whole.predict(rows).predictions.shape == (8, 9, VOCABULARY)


def test_a_copy_works_on_its_own():
    model, batch = wrapped(shared_layers=1), batch_of()
    twin = copy.deepcopy(model)
    shake(twin, seed=9)
    before = model(**batch).loss
    assert not torch.equal(twin(**batch).loss, before) and torch.equal(model(**batch).loss, before)


def test_a_copy_made_within_only_is_whole():
    model, batch = wrapped(), batch_of()
    with model.only(0):
        twin = copy.deepcopy(model)
        assert model(**batch).routing is None
    assert torch.equal(twin(**batch).loss, model(**batch).loss)


@pytest.mark.parametrize("aggregation", ["logit", "probability"])
def test_the_modules_logits_are_of_the_head_that_is_there(aggregation, tmp_path):
    model, batch = wrapped(aggregation=aggregation), batch_of()
    before = model(**batch).logits
    with torch.no_grad():
        head = torch.nn.Linear(WIDTH, VOCABULARY, bias=False)
        head.weight.copy_(2 * model.get_output_embeddings().weight)
    model.set_output_embeddings(head)
    after, twin = model(**batch).logits, copy.deepcopy(model)
    assert (after - before).abs().max() > 0.1
    model.save_pretrained(tmp_path)
    again = ICLMForCausalLM.from_pretrained(tmp_path).eval()
    assert torch.equal(again(**batch).logits, after)
    adapted = get_peft_model(
        model, LoraConfig(target_modules=["lm_head"], r=2, init_lora_weights=False, lora_dropout=0.0)
    ).eval()
    assert (adapted(**batch).logits - after).abs().max() > 0.01
    with adapted.disable_adapter():
        assert torch.equal(adapted(**batch).logits, after)
    assert torch.equal(twin(**batch).logits, after)


def test_a_batch_of_one_trains():
    one = {name: value[:1] for name, value in batch_of().items()}
    for settings in ({}, dict(aggregation="probability"), dict(shared_layers=1)):
        _, found = gradients(wrapped(**settings).train(), one)
        assert all(torch.isfinite(g).all() for g in found.values())


# bad input


@pytest.mark.parametrize(
    "settings, message",
    [
        (dict(num_modules=0), "num_modules is 0: choose at least 1 domain module"),
        (dict(router="nearest"), "router is 'nearest': choose 'vq', 'kmeans', 'distance'"),
        (dict(aggregation="sum"), "aggregation is 'sum': choose 'latent', 'logit', 'probability', 'own'"),
        (dict(direction="both"), "direction is 'both': choose"),
        (dict(clamp=2), "clamp is 2: choose it in"),
        (dict(norm_over="rows"), "norm_over is 'rows': choose 'labels', 'tokens'"),
        (dict(invariant_weight=1.5), r"invariant_weight is 1.5: choose it in \[0, 1\]"),
        (dict(aggregation="own"), "aggregation 'own' is the routed module's alone: set invariant=False"),
        (dict(shared_layers=3), "shared_layers is 3 and the base has 3 layers: leave at least one"),
        (dict(shared_layers=-1), "shared_layers is -1"),
        (dict(shared_layers=1, router_trainable=True), "with shared_layers the shared, frozen layers route"),
        (dict(weights={"zeta": 1}), "weights has no setting 'zeta': give alpha, beta, gamma, epsilon, delta"),
        (dict(lora={"rank": 1}), "lora has no setting 'rank': give r, alpha, dropout, target_modules"),
        (dict(lora={"target_modules": "q_proj"}), "lora's target_modules is 'q_proj': give a list of names"),
        (dict(aggregation_settings={"start": "zero"}), "start is 'zero': choose 'random' or 'base'"),
        (dict(aggregation_settings={"begin": "base"}), "aggregation_settings has no setting 'begin': give"),
        (dict(router="kmeans", router_settings={"nu": 1}), "router_settings has no setting 'nu': give"),
        (dict(router_settings={"nu": -1.0}), "nu is -1.0: choose a finite one, 0 or more"),
        (dict(weights={"alpha": float("nan")}), "the weight alpha is nan: choose a finite one, 0 or more"),
        (dict(weights={"alpha": "x"}), "the weight alpha is 'x': choose a finite one, 0 or more"),
        (dict(weights={"beta": True}), "the weight beta is True: choose a finite one, 0 or more"),
        (dict(weights=[1]), r"weights is \[1\]: give a dictionary of settings"),
        (dict(lora={"r": 8.0}), "lora's r is 8.0: choose 1 or more, a whole number"),
        (dict(lora={"r": True}), "lora's r is True: choose 1 or more, a whole number"),
        (dict(lora={"alpha": float("nan")}), "lora's alpha is nan: choose a finite one, 0 or more"),
        (dict(lora={"alpha": "16"}), "lora's alpha is '16': choose a finite one, 0 or more"),
        (dict(lora={"dropout": "0.1"}), r"lora's dropout is '0.1': choose it in \[0, 1\]"),
        (dict(invariant_weight="a"), r"invariant_weight is 'a': choose it in \[0, 1\]"),
        (dict(clamp="x"), "clamp is 'x': choose it in"),
        (dict(router_settings={"nu": "0.2"}), "nu is '0.2': choose a finite one, 0 or more"),
        (dict(router="distance", router_settings={"temperature": "1"}), "temperature is '1': choose a posit"),
        (dict(router="kmeans", router_settings={"components": 0}), "components is 0: choose 1 or more"),
        (dict(num_module=3), "there is no setting 'num_module': give num_modules, lora, router"),
        (
            dict(information="all", invariant=False),
            "information 'all' needs an invariant module: set informatio",
        ),
        (dict(information="some"), "information is 'some': choose 'routed', 'all'"),
        (dict(router_over="words"), "router_over is 'words': choose 'prompt', 'tokens'"),
        (dict(router_norm="layer"), "router_norm is 'layer': choose 'running', 'batch'"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        wrapped(awake=False, **settings)


def test_bases_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="the base carries adapters already: merge them"):
        ICLMForCausalLM.from_base(get_peft_model(base(), LoraConfig(target_modules=["q_proj"])))
    with pytest.raises(ValueError, match="LlamaModel has no output embeddings: pass a model with a language"):
        ICLMForCausalLM.from_base(base().model)
    decoder = base()
    wrapped(decoder=decoder)
    with pytest.raises(ValueError, match="the base is part of an ICLM already: load it anew"):
        wrapped(decoder=decoder)
    decoder = base()
    decoder.model.layers.append(decoder.model.layers[0])
    with pytest.raises(ValueError, match="no list of 3 layers was found in LlamaForCausalLM: pass a Hugging"):
        ICLMForCausalLM.from_base(decoder)


@pytest.mark.parametrize(
    "family, settings",
    [
        ("Gemma2", dict(head_dim=8, final_logit_softcapping=1.0)),
        ("Cohere", dict(logit_scale=0.1)),
        ("OPT", dict(ffn_dim=20, word_embed_proj_dim=8)),
    ],
)
def test_a_base_that_does_more_than_its_head_is_refused(family, settings):
    import transformers

    config = getattr(transformers, family + "Config")(**DECODER | settings)
    decoder = getattr(transformers, family + "ForCausalLM")(config).train()
    decoder.get_input_embeddings().eval()
    with pytest.raises(ValueError, match=f"{family}ForCausalLM makes its logits by more than a head"):
        ICLMForCausalLM.from_base(decoder)
    assert decoder.training and not decoder.get_input_embeddings().training


def test_inputs_that_do_not_fit_are_refused():
    model, batch = wrapped(), batch_of()
    ids, seen = batch["input_ids"], batch["attention_mask"]
    with pytest.raises(ValueError, match=r"input_ids have shape \(9,\): pass \(batch, tokens\), also for on"):
        model(ids[0])
    with pytest.raises(ValueError, match=r"labels have shape \(4, 8\), but input_ids \(4, 9\): pass one lab"):
        model(ids, seen, batch["labels"][:, 1:])
    with pytest.raises(ValueError, match="all labels are -100: mark the answer's tokens with their ids"):
        model(ids, seen, torch.full_like(ids, -100))
    with pytest.raises(ValueError, match="all labels are -100"), model.only(0):
        model(ids, seen, torch.full_like(ids, -100))
    with pytest.raises(ValueError, match="row 2 has no token to route by: unmask at least one"):
        model(ids, seen.index_fill(0, torch.tensor(2), 0))
    with pytest.raises(ValueError, match=r"router states have shape \(4, 3\): pass \(inputs, 16\), of the b"):
        model(ids, seen, router_states=torch.zeros(4, 3))
    with pytest.raises(ValueError, match="a routing of 1 inputs was passed with 4: give each its module"):
        model(ids, seen, routing=Routing(torch.tensor([0]), torch.zeros(())))
    for wrong in ([2, 0, 0, 0], [-1, 0, 0, 0], [0.5, 0, 0, 0]):
        with pytest.raises(ValueError, match="a routing names modules .*: give whole numbers from 0 to 1"):
            model(ids, seen, routing=torch.tensor(wrong))
    with pytest.raises(ValueError, match="ICLMForCausalLM has no argument 'promt_mask': pass what its doc"):
        model(ids, seen, promt_mask=seen)
    with pytest.raises(ValueError, match="output_hidden_states has no one meaning for several mod"):
        model(ids, seen, output_hidden_states=True)
    with pytest.raises(
        ValueError, match="ICLMForCausalLM keeps its base's 23 tokens and 40 were asked for: resize"
    ):
        model.resize_token_embeddings(40)
    for size in (None, VOCABULARY):
        assert model.resize_token_embeddings(size) is model.base.get_input_embeddings()
    with pytest.raises(ValueError, match="there is no module 2: choose 0, 1, 'invariant'"):
        model.states(ids, module=2)
    with pytest.raises(ValueError, match="there is no module 'router': choose 0, 1, 'invariant'"):
        model.freeze_modules(["router"])
    filled = base()(ids, use_cache=True).past_key_values
    with pytest.raises(
        ValueError, match="past_key_values hold no routing, so .*: pass those that this model returned"
    ):
        model(ids, past_key_values=filled, use_cache=True)
    assert model(ids, past_key_values=DynamicCache(), use_cache=True).past_key_values.get_seq_length() == 9
    with pytest.raises(ValueError, match="the K-means router has no centroids yet: call fit"):
        wrapped(router="kmeans")(**batch)


def test_states_that_are_not_finite_are_reported():
    model, batch = wrapped(), batch_of()
    with torch.no_grad():
        model._adapted["0.self_attn.q_proj"].A[model.number("invariant")] = float("nan")
    for given in (batch, prompts_of(batch)):
        with pytest.raises(ValueError, match="input 0 has states that are not finite: lower the"):
            model(**given)
    model, ids, seen = wrapped(), batch["input_ids"][:, :6], batch["attention_mask"][:, :6]
    model.base.model.norm.register_forward_hook(
        lambda *given: given[2].masked_fill(
            (seen == 0).repeat(len(given[2]) // 4, 1)[:, :, None], float("nan")
        )
    )
    assert model(ids, seen).logits[:, -1].isfinite().all()  # what padding is does not matter
    model = wrapped(invariant=False)
    with torch.no_grad():
        model._adapted["0.self_attn.q_proj"].A[1] = float("nan")
    with pytest.raises(ValueError, match="input 2 has states that are not finite"):
        model(**batch, routing=torch.tensor([0, 0, 1, 1]))
    assert model(**batch, routing=torch.zeros(4, dtype=torch.long)).loss.isfinite()
    model = wrapped()
    with torch.no_grad():
        model.aggregation.head.weight[3] = float("nan")
    with pytest.raises(ValueError, match="the output loss is nan: lower the learning rate or look for"):
        model(**batch)
    with torch.no_grad():
        model.base.model.norm.weight.fill_(float("nan"))
    with pytest.raises(ValueError, match="input 0 has states that are not finite: lower the learning rate"):
        model(**batch)


@pytest.mark.parametrize(
    "changes, message",
    [
        (
            dict(num_modules=3),
            "has another size of base.model.layers.0.self_attn.k_proj.A: load it with the set",
        ),
        (
            dict(router_projection=4),
            "has no router.project.bias: load it with the settings it was saved with, o",
        ),
        (dict(aggregation="own", invariant=False), "has another size of"),
        (dict(aggregation="probability"), "has an unknown aggregation.head.weight"),
    ],
)
def test_a_checkpoint_of_other_settings_is_refused(changes, message, tmp_path):
    wrapped().save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=f"the checkpoint {tmp_path} {message}"):
        ICLMForCausalLM.from_pretrained(tmp_path, **changes)


def test_a_checkpoint_without_router_statistics_is_refused(tmp_path):
    model = wrapped()
    state = {name: value for name, value in model.state_dict().items() if name != "router.norm.mean"}
    model.save_pretrained(tmp_path, state_dict=state)
    with pytest.raises(ValueError, match="has no router.norm.mean: load it with the settings it was saved w"):
        ICLMForCausalLM.from_pretrained(tmp_path)
    model.save_pretrained(tmp_path / "whole")
    again, info = ICLMForCausalLM.from_pretrained(tmp_path / "whole", output_loading_info=True)
    assert isinstance(again, ICLMForCausalLM) and not info["missing_keys"]


def test_a_fitted_k_means_router_is_saved_and_routes(tmp_path):
    model, batch = wrapped(router="kmeans", router_settings={"components": 3}), batch_of(rows=8)
    model.router.fit(model.router_states(**batch))
    module = model.train()(**batch).module
    assert set(module.tolist()) == {0, 1}
    model.save_pretrained(tmp_path)
    assert torch.equal(ICLMForCausalLM.from_pretrained(tmp_path)(**batch).module, module)


def test_a_router_of_another_model_is_refused():
    model, batch = wrapped(), batch_of()
    model.router = Router("vq", 4, WIDTH)
    with pytest.raises(ValueError, match="the router knows 4 modules and the model 2: build both"):
        model(**batch)


def test_the_whole_model_in_half_precision_routes_and_learns():
    model, batch = wrapped(router_settings={"init": "data"}).to(torch.bfloat16).train(), batch_of()
    loss, found = gradients(model, batch)
    assert torch.isfinite(torch.tensor(loss)) and all(torch.isfinite(g).all() for g in found.values())


def test_modules_that_are_not_asked_get_a_gradient_from_equation_3_alone():
    batch, moved = batch_of(), {}
    for information in ("routed", "all"):
        model = wrapped(information=information, num_modules=3)
        _, found = gradients(model, batch | {"routing": torch.zeros(4, dtype=torch.long)})
        moved[information] = [
            max(g[k].abs().max() for name, g in found.items() if name[-2:] == ".B") > 0 for k in range(4)
        ]
    assert moved == {"routed": [True, False, False, True], "all": [True] * 4}


def test_router_states_are_normalised_by_their_batch_where_asked():
    batch, found = batch_of(), {}
    for norm in ("running", "batch"):
        model = wrapped(router_norm=norm, router_trainable=True).train()
        model(**batch_of(seed=4))  # statistics that are not this batch's
        states = model.router_states(**batch)
        out = model(**batch)
        found[norm] = out.losses["routing"]
        mean, variance = (
            (states.mean(0), states.var(0, unbiased=False))
            if norm == "batch"
            else (model.router.norm.mean, model.router.norm.variance)
        )
        normed = (states - mean) / (variance + model.router.norm.eps).sqrt()
        torch.testing.assert_close(model.router.choose(normed)[1].detach(), found[norm])
        out.loss.backward()
        reached = model._adapted["0.self_attn.q_proj"].B.grad[model.number("router")].clone()
        model.router.choose(normed)[1].backward()
        torch.testing.assert_close(
            model._adapted["0.self_attn.q_proj"].B.grad[model.number("router")],
            reached * (1 + 1 / model.config.weights["gamma"]),
            rtol=1e-3,
            atol=1e-7,
        )
    assert (found["batch"] - found["running"]).abs() > 1e-3


def test_padding_can_route():
    batch = batch_of()
    mean = wrapped(router_over="tokens").router_states(**batch)
    torch.testing.assert_close(mean, wrapped().states(batch["input_ids"], batch["attention_mask"]).mean(1))
    assert (mean - wrapped().router_states(**batch)).abs().max() > 0.01


def test_it_is_found_by_name(tmp_path):
    model, batch = wrapped(), prompts_of(batch_of())
    model.save_pretrained(tmp_path)
    again = AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    assert isinstance(again, ICLMForCausalLM) and isinstance(AutoConfig.from_pretrained(tmp_path), ICLMConfig)
    assert torch.equal(again(**batch).logits, model(**batch, return_dict=False)[0])


def test_a_frozen_router_keeps_its_projection():
    model, batch = wrapped(router_trainable=True, router_projection=4), batch_of()
    assert "router.project.weight" in gradients(model, batch)[1]
    model.freeze_modules(["router"])
    assert "router.project.weight" not in gradients(model, batch)[1]
    model.freeze_modules([])
    assert "router.project.weight" in gradients(model, batch)[1]


def test_embeddings_are_the_bases():
    model = wrapped()
    model.set_input_embeddings(torch.nn.Embedding(31, WIDTH))
    assert model.base.get_input_embeddings().num_embeddings == 31
    assert model.get_input_embeddings() is model.base.get_input_embeddings()


def test_replicas_of_data_parallel_are_refused():
    replica = wrapped()._replicate_for_data_parallel()
    with pytest.raises(ValueError, match="replicas of ICLMForCausalLM would share one routing"):
        replica(**batch_of())
