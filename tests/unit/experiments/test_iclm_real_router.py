"""What a router and a loss between modules read of a base's states: on states whose answer is known."""

import math

import pytest
import torch

from causalnb.experiments.iclm import real_router as made
from causalnb.lab import registry
from causalnb.lab.bases import pretrained

CONFIG = {**registry.config("iclm.real.router", "bare", "quick"), "steps": 200}
TEXTS = ["the red cube is on", "the light", "blue sphere and red cube are off and the light is on"]


def blobs(seed=0, n=12, far=6.0):
    draw = torch.Generator().manual_seed(seed)
    one, other = torch.randn(2, n, 5, generator=draw)
    return one, other + far  # in every feature: a router norms each


@pytest.mark.parametrize("router", made.ROUTERS)
def test_a_router_parts_what_lies_apart_and_an_input_is_named_by_its_owner(router):
    parts = blobs()
    model = made.fitted(torch.cat(parts), made.ROUTERS[router], CONFIG, seed=0)
    modules, owners = model(torch.cat(parts)).module.tolist(), [0] * 12 + [1] * 12
    order = made.named(modules, owners, 2)
    assert sorted(order) == [0, 1]
    assert all(order[own] == module for own, module in zip(owners, modules, strict=True))
    swapped = made.named([1 - module for module in modules], owners, 2)
    assert swapped == order[::-1]


def test_shares_are_of_both_formats_and_shifts_that_move_across_are_half_right():
    one, other = blobs()
    sets = {
        f"{family} {cell} {format}"
        for family, cells in made.SETS.items()
        for cell in cells
        for format in made.FORMATS
    }
    told = {name: dict.fromkeys(made.READ, one if name.endswith("text") else other) for name in sets}
    states = {"train": told, "test": {**told, "raven four text": dict.fromkeys(made.READ, other)}}
    found = made.routed(states, CONFIG, seed=0)
    assert len(found) == len(made.SETS) * len(made.READ) * len(made.ROUTERS)
    assert found["acre/last/kmeans"] == {"IID": 1, "Comp": 1, "Sys": 1, "used": 2}
    assert found["raven/words/kmeans"] == {"center": 1, "four": 0.5, "in_center": 1, "used": 2}


def test_dependence_is_whole_for_the_same_states_and_none_for_others_and_0_where_one_feature_rules():
    draw = torch.Generator().manual_seed(1)
    flat = 4 * torch.randn(60, 20, generator=draw)
    found = made.dependence(flat, [10, 60], 1e-6, seed=0)
    same, other = found["itself/1"], found["another/1"]
    assert [same[name] for name in ("pearson", "centred", "cka")] == pytest.approx([1, 1, 1])
    assert abs(other["pearson"]) < 0.1 and abs(other["cka"]) < 0.1
    assert (
        0.9 < same["printed"] < math.log(20)
        and other["printed"] < same["printed"]
        and same["printed_gradient"] > 0
    )
    ruled = flat + 100 * torch.eye(20)[3]
    told = made.dependence(ruled, [10, 60], 1e-6, seed=0)["itself/1"]
    assert told["printed"] == pytest.approx(0, abs=1e-9) and told["printed_gradient"] < 1e-9
    assert told["cka"] == pytest.approx(1) and told["kept"] == pytest.approx(1 / 400)
    assert made.peaks(ruled) == pytest.approx(
        {"width": 20, "deviation": ruled.double().std().item(), "largest": 1, "commonest": 1}
    )
    assert made.peaks(flat)["commonest"] < 0.5


def test_states_are_means_over_a_prompts_own_tokens_whatever_it_is_batched_with():
    torch.manual_seed(0)
    base = pretrained("tiny", TEXTS)
    together, alone = made.read(base, TEXTS, 2), [made.read(base, [text], 2) for text in TEXTS]
    assert [*together] == [*made.READ]
    for what, value in together.items():
        for row, one in zip(value, alone, strict=True):
            torch.testing.assert_close(row, one[what][0], atol=1e-5, rtol=1e-4)
    ids = [base.ids(text, special=True) for text in TEXTS]
    assert together["length"][:, 0].tolist() == [*map(len, ids)]
    hidden = base.model(torch.tensor([ids[2]]), output_hidden_states=True).hidden_states
    torch.testing.assert_close(together["last"][2], hidden[-1][0].mean(0), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(together["first_words"][2], hidden[0][0, :2].mean(0), atol=1e-5, rtol=1e-4)
    found = made.places(base, TEXTS, seed=0)
    torch.testing.assert_close(found["answer"][2], hidden[-1][0, -1], atol=1e-5, rtol=1e-4)
    assert any(torch.allclose(found["any"][2], state, atol=1e-5) for state in hidden[-1][0, 1:])


def test_prompts_are_of_so_many_problems_and_training_ones_are_no_test_ones():
    found = made.prompts(CONFIG, seed=0)
    assert set(found["train"]) == {
        "acre IID text",
        "acre IID symbolic",
        "raven center text",
        "raven center symbolic",
        "pvr",
        "arc",
    }
    assert len(found["test"]) == 14 and {
        len(texts) for part in found.values() for texts in part.values()
    } == {4}
    assert not {*found["train"]["arc"]} & {*found["test"]["arc"]}
    assert found != made.prompts(CONFIG, seed=1)


def test_states_of_answers_stand_at_their_first_token_behind_the_prompts_of_training():
    config = CONFIG | {"train_rows": 3}
    pairs, told = made.answered(config, seed=0), made.prompts(config, seed=0)["train"]
    for family, cells in made.SETS.items():
        prompts = [prompt for prompt, _ in pairs[family]]
        assert prompts == [
            text for format in made.FORMATS for text in told[f"{family} {cells[0]} {format}"][:3]
        ]
    base = pretrained("tiny", [part for pair in pairs["acre"] for part in pair])
    base.model.eval()
    found = made.states_of_answers(base, pairs["acre"])
    prompt, answer = pairs["acre"][1]
    before = base.ids(prompt, special=True)
    given = torch.tensor([before + base.ids(answer)[:1]])
    states = base.model(given, output_hidden_states=True).hidden_states[-1]
    torch.testing.assert_close(found[1], states[0, -1], atol=1e-5, rtol=1e-4)
