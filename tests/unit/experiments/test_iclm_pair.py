"""The pair of domains: what is measured of modules, on states that are known; the search; the tables."""

from types import SimpleNamespace

import pytest
import torch

from causalnb.experiments.iclm import pair, pair_choose
from causalnb.experiments.iclm.artefacts import pair as artefact
from causalnb.lab import building, registry, results
from causalnb.tasks import two_mechanisms
from tests.unit.experiments import made_up


def model_of(arm: str):
    """(config, model, encoded rows of both domains) of an arm in the quick profile."""
    config = registry.config("iclm.pair", pair.name_of(arm, 0.0), "quick")
    drawn = two_mechanisms.draw(config["words"], config["classes"], seed=2)
    rows = [drawn.row(*one) for one in drawn.combinations("iid")]
    torch.manual_seed(0)
    model = pair.build_model(config, pair.build_base(config))
    for name, weight in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=0.5)
    return config, model, rows


def with_word(row: dict, place: int, token: int) -> dict:
    """An encoded row with another token at a place."""
    ids = list(row["input_ids"])
    ids[place] = token
    return row | {"input_ids": ids}


def states_after(model, row: dict) -> dict:
    return pair.states_at_answers(model, [row])


@pytest.mark.parametrize("arm, apart", [("built", True), ("oracle", False)])
def test_modules_that_are_built_apart_see_their_part_alone(arm, apart):
    config, model, rows = model_of(arm)
    row = pair.encoded(rows, config)[0]
    ids = pair.word_ids(config)
    before = states_after(model, row)
    other_word = states_after(
        model, with_word(row, pair.WORD, ids["word1" if row["input_ids"][2] != ids["word1"] else "word2"])
    )
    other_domain = states_after(model, with_word(row, pair.DOMAIN, ids[f"in{1 - rows[0]['domain']}"]))
    assert torch.equal(before["invariant"], other_domain["invariant"]) == apart
    assert torch.equal(before[0], other_word[0]) == apart
    assert not torch.equal(before["invariant"], other_word["invariant"])
    assert not torch.equal(before[0], other_domain[0])


def test_one_module_trains_as_much_as_all_of_iclm():
    counted = {}
    for arm in ("single", "none", "separate"):
        _, model, _ = model_of(arm)
        of = {name: p.numel() for name, p in model.named_parameters() if p.requires_grad and "lora_" in name}
        counted[arm] = (
            sum(of.values()) / registry.config("iclm.pair", pair.name_of(arm, 0.0), "quick")["lora_rank"]
        )
    # adapters of a rank r hold r numbers for each input and output: three modules of rank r, one of rank 3 r
    assert counted["none"] == 3 * counted["single"] and counted["separate"] == 2 * counted["single"]
    ranks = [
        registry.config("iclm.pair", f"{arm}_s0", "laptop")["lora_rank"] for arm in ("none_n4", "single_n4")
    ]
    assert ranks[1] == 5 * ranks[0]


def test_rows_and_how_they_are_routed():
    config, _, rows = model_of("none")
    ids = pair.word_ids(config)
    for how, expected in (("router", {"routed": True}), ("domain", {"module": 1}), ("nobody", {"module": 0})):
        (row,) = pair.encoded([next(row for row in rows if row["domain"] == 1)], config | {"routed_by": how})
        assert expected.items() <= row.items()
    text = next(row for row in rows if row["domain"] == 1)
    assert row["input_ids"] == [pair.BOS, *(ids[word] for word in text["text"].split()), ids[text["answer"]]]
    assert row["labels"] == [-100] * 3 + [ids[text["answer"]]] and row["prompt_mask"] == [1, 1, 1, 0]
    assert min(ids.values()) > pair.ANY


def test_homes_and_right_routes():
    domains, modules = [0, 0, 0, 1, 1, 1], [1, 1, 0, 0, 0, 0]
    assert pair.homes(domains, modules, 2) == {0: 1, 1: 0}
    assert pair.rightly(domains, modules) == pytest.approx(5 / 6)
    assert pair.rightly(domains, [0] * 6) == 0.5  # one module for all
    assert pair.rightly(domains, [3, 3, 2, 1, 0, 1]) == 1.0


def adder():
    """A model whose logits are the sum of two states, as many as there are words."""
    return SimpleNamespace(_logits=lambda states, weights: states.sum(0), eval=lambda: None)


@pytest.mark.parametrize("idle, kept", [(True, (1.0, 0.0)), (False, (0.0, 1.0))])
def test_states_are_exchanged_within_a_domain_and_module(idle, kept):
    """Where the domain module says nothing, answers stay; where it alone speaks, none does."""
    says = torch.eye(4)
    nothing = torch.zeros(4, 4)
    states = {"invariant": says if idle else nothing, 0: nothing if idle else says}
    rows = [{"labels": [-100, word]} for word in range(4)]
    found = pair.exchanged(adder(), states, rows, [0, 0, 0, 0], [0, 0, 0, 0])
    assert (found["domain"], found["invariant"]) == kept
    alone = pair.exchanged(adder(), states, rows, [0, 1, 2, 3], [0, 0, 0, 0])
    assert (alone["domain"], alone["invariant"]) == (1.0, 1.0)  # nobody to exchange with


def test_dependence_is_measured_on_a_module_s_own_rows():
    torch.manual_seed(0)
    first = torch.randn(64, 6)
    states = {"invariant": first, 0: first.clone(), 1: torch.randn(64, 6)}
    same = pair.own_dependence(states, [0] * 64)
    other = pair.own_dependence(states, [1] * 64)
    assert same["pearson"] == pytest.approx(1) and same["cka"] == pytest.approx(1, abs=1e-4)
    assert abs(other["pearson"]) < 0.2 and other["cka"] < 0.3
    both = pair.own_dependence(states, [0] * 32 + [1] * 32)
    assert other["pearson"] < both["pearson"] < same["pearson"]
    assert pair.own_dependence(states, [0, 1] + [0] * 62).keys() == same.keys()  # one row of 1: left out
    assert pair.own_dependence({"invariant": first[:2], 0: first[:2]}, [0, 0]) == {}


def test_a_run_measures_accuracy_routes_and_modules(tmp_path):
    for arm in ("free_strong_n2_s0", "separate_n2_s0", "single_n4_s50"):
        config = registry.config("iclm.pair", arm, "quick")
        run = registry.Run("iclm.pair", arm, 0, "quick", config, tmp_path / arm, "cpu", lambda *_: None)
        found = pair.run_pair(run)
        assert {"iid", "ood"} <= {*found["metrics"]} and {"iid", "ood"} <= {*found["history"][-1]}
        assert ("routing" in found["metrics"]) == (config["num_modules"] > 1)
        assert ("exchanged" in found["metrics"]) == config["invariant"]


def store(monkeypatch, accuracy):
    """Read accuracy(arm) -> (i.i.d., o.o.d.) as the search's results."""

    def read(id, arm, seed, profile):
        iid, ood = accuracy(arm)
        rows = [["iid", "accuracy", iid], ["ood", "accuracy", ood + 0.01 * seed]]
        config = registry.config(id, arm, profile)
        stored = SimpleNamespace(config=config, rows=rows)
        stored.value = lambda cell, measure: dict((row[0], row[2]) for row in rows)[cell]
        return stored

    monkeypatch.setattr(results, "read", read)


def test_rates_are_chosen_before_weights(monkeypatch):
    best = {
        "single_1e-2": (1.0, 0.7),
        "single_1e-3": (0.98, 0.9),
        "none_3e-3": (1.0, 0.6),
        "ours_0_03": (1, 0.8),
    }
    store(monkeypatch, lambda arm: best.get(arm, (1.0, 0.5)))
    before = {"rates": {"single": 1e-3, "iclm": 1e-3}, "weights": {"ours": 7.0}}
    assert pair_choose.computed(before) == {"rates": {"single": 1e-2, "iclm": 3e-3}, "weights": {"ours": 7.0}}
    at = pair_choose.computed({"rates": {"single": 1e-3, "iclm": 3e-3}, "weights": {}})
    assert at["weights"] == {"strong": 1.0, "ours": 0.03, "free_strong": 0.1, "free_ours": 0.03}


def test_what_never_learned_is_not_chosen(monkeypatch):
    store(monkeypatch, lambda arm: (0.9, 0.9))
    with pytest.raises(pair_choose.LabError, match="No single of the search reaches 99% i.i.d."):
        pair_choose.computed(pair.chosen())


def test_results_of_other_settings_are_not_read(monkeypatch):
    store(monkeypatch, lambda arm: (1.0, 0.9))
    read = results.read
    changed = lambda *place: SimpleNamespace(**vars(read(*place)) | {"config": {"steps": 1}})  # noqa: E731
    monkeypatch.setattr(results, "read", changed)
    with pytest.raises(pair_choose.LabError, match="single_1e-3 has other settings now"):
        pair_choose.computed(pair.chosen())


OOD = {"single": 0.7, "built": 1.0, "none": 0.4, "free_strong": 0.6}


def measured(id, arm, seed):
    """Accuracy o.o.d. by arm; the more a loss lowers the information, the better, but for `strong`."""
    name = arm.partition("_n")[0]
    ood = OOD.get(name, 0.3) + 0.01 * seed
    turned = 5 * ood if name in artefact.ALONE else 1 - ood  # among these alone the sign is another
    parts = {"own_states": {"forward": turned, "pearson": ood, "cka": ood}, "exchanged": {"domain": ood}}
    parts |= {"invariant/iid": {"accuracy": 0.9}, "own/iid": {"accuracy": 0.1}}
    parts |= {"invariant/ood": {"accuracy": 0.55}}
    return {"iid": {"accuracy": 1.0}, "ood": {"accuracy": ood}} | (
        parts if name not in ("single", "small", "separate") else {}
    )


def test_tables_and_figure(monkeypatch, tmp_path):
    made_up.moved(monkeypatch, tmp_path)
    made_up.everything(monkeypatch, {artefact.HOME: 3, artefact.SEARCH: 2}, measured)
    building.build(artefact.HOME, "quick")
    rows = {row[0]: row[1:] for row in artefact.pair_table("quick").rows}
    assert rows["expected: reader of both tables"][:2] == ["1.000", "1.000"]
    assert rows["expected: reader of pairs"][:2] == ["1.000", "0.125"]
    assert rows["one module"][1].startswith("0.710") and rows["one module"][3] == ""
    assert rows["ICLM, told the domain"][4].startswith("0.900")
    differences = {row[0]: row[1:] for row in artefact.pair_differences("quick").rows}
    assert differences["ICLM, no loss of independence - one module"][0].startswith("-30.0")
    assert differences["ICLM, each module shown its part alone - one module"][1] == "above 0"
    mapped = artefact.pair_map("quick").rows
    assert len(mapped) == 2 * len(artefact.MAPPED) and {row[1] for row in mapped} == {"2", "4"}
    predicts = {tuple(row[:2]): row[2] for row in artefact.pair_predicts("quick").rows}
    every, some = artefact.OVER
    assert predicts[every, "mutual information"][0] == "-" and len(artefact.ALONE) == 7
    assert predicts[some, "mutual information"].startswith("1.00")
    assert len(predicts) == 2 * len(artefact.DEPENDENCE)
    for over in artefact.OVER:
        assert predicts[over, "Pearson's correlation"].startswith("1.00")
        assert predicts[over, "answers that change with the domain module's state"].startswith("-1.00")
    assert len(artefact.pair_search("quick").rows) == len(pair.searched())
    edges = artefact.pair_search("quick").notes.partition(" is used by ")[2].strip(".").split("; ")
    weights = pair.chosen()["weights"]
    at = [arm for arm, (_, tried) in pair.WEIGHED.items() if weights[arm] in (min(tried), max(tried))]
    assert edges == [artefact.NAMES[arm] for arm in at]
    _, alt = artefact.pair_figure("quick")
    assert "no shared answer ICLM" not in alt and "one module has 0.71" in alt
    remarks = artefact.pair_remarks("quick")
    assert "ICLM, no loss of independence 0.41, " in remarks[0] and "to have 0.125" in remarks[0]
    assert "has 0.41 of the new pairs, its invariant module alone 0.55" in remarks[1]
    assert "the most tried: 1.5500 nats; alone the invariant module answers 0.90" in remarks[2]
    assert "mutual information +1.00, " in remarks[-1] and "mutual information -" in remarks[-2]


def test_what_twice_the_steps_change_is_told_of_the_chosen_rates(monkeypatch, tmp_path):
    rates = {
        side: next(name for name, rate in pair.RATES.items() if rate == pair.chosen()["rates"][side])
        for side in ("single", "iclm")
    }
    made_up.moved(monkeypatch, tmp_path)
    ood = {pair.tried("single", rates["single"]): 0.6, pair.tried("none", rates["iclm"]): 0.4}
    ood |= {"single_twice": 0.9, "none_twice": 0.5}
    made_up.everything(
        monkeypatch,
        {artefact.SEARCH: 2},
        lambda id, arm, seed: {part: {"accuracy": ood.get(arm, 0.1)} for part in pair.PARTS},
    )
    said = artefact.pair_longer("quick")
    assert "one module from 0.60 to 0.90, ICLM, no loss of independence from 0.40 to 0.50" in said


def test_an_arm_has_more_seeds_where_no_answer_is_shared():
    many = {
        arm
        for arm in registry.arms("iclm.pair")
        if len(registry.seeds("iclm.pair", "laptop", arm)) == pair.HEADLINE
    }
    assert many == {arm for arm in registry.arms("iclm.pair") if arm.endswith("_n2_s0")}
    assert {*artefact.NAMES} == {arm.removesuffix("_n2_s0") for arm in many}
