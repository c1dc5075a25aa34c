"""Rows, masks and scores of the C2DLM experiments, by hand; every arm trains a step in the quick profile."""

import pytest
import torch

from causalnb.experiments.c2dlm import base as c2dlm_base
from causalnb.experiments.c2dlm import data as c2dlm_tasks
from causalnb.experiments.c2dlm import grid as c2dlm_grid
from causalnb.experiments.c2dlm import models as c2dlm_models
from causalnb.experiments.c2dlm import runs as c2dlm_runs
from causalnb.lab import registry, weights
from causalnb.lab.registry import Run
from causalnb.tasks import cot_order_perturb as cot
from causalnb.tasks import dag_chains, reasoning, stg, sudoku4, words
from tests.unit.experiments.made_up import wide

CONFIG = {
    "graph": "causal",
    "scope": "result",
    "train_rows": 12,
    "test_rows": 6,
    "validation_rows": 3,
    "split_seed": 5,
    "mode": "normal",
    "blanks": 8,
    "source": "generator",
    "size": "S",
    "shift": "published",
    "chain_steps": 4,
    "enforced": 0.0,
    "step_rule": "no_lookahead",
    "cue": 1.0,
    "swapped": 0,
}


def token(row, place):
    return list(words.VOCABULARY)[row["input_ids"][place]]


def test_a_chain_of_thought_attends_to_the_numbers_of_its_causes():
    (row,) = c2dlm_tasks.cot_rows([(80, 79)], "normal", CONFIG, 0)
    mask = row["supervision"].dense()
    place = {token(row, i): i + 1 for i in range(len(row["input_ids"])) if token(row, i) in cot.VARIABLES}
    for effect, causes in cot.GRAPH.items():
        encouraged = (mask[place[effect]] == 1).nonzero()[:, 0].tolist()
        assert encouraged == sorted(place[cause] for cause in causes)
    assert (mask[place["Quasar"], place["Flux"] :: 2][:-1] == -1).all()  # later steps
    assert mask[:5].count_nonzero() == 0


@pytest.mark.parametrize("mode", cot.MODES)
def test_ranks_put_causes_first_in_every_order(mode):
    (row,) = c2dlm_tasks.cot_rows([(3, 50)], mode, {**CONFIG, "graph": "none"}, 0)
    assert len(row["rank"]) == len(row["input_ids"])
    rank = {
        token(row, i): row["rank"][i + 1]
        for i in range(len(row["input_ids"]) - 1)
        if token(row, i) in cot.VARIABLES
    }
    rows = [(effect, cause) for effect, causes in cot.GRAPH.items() for cause in causes if effect in rank]
    assert all(rank[effect] > rank[cause] for effect, cause in rows) and len(rows) == (mode != "no_cot") * 28
    assert row["rank"][-1] == max(row["rank"]) and "supervision" not in row


@pytest.mark.parametrize("graph", ["none", "causal"])
def test_rules_stand_between_a_steps_name_and_its_number(graph):
    changes = {"graph": graph, "encoding": "formulas"}
    (row,) = c2dlm_tasks.cot_rows([(3, 50)], "RE", CONFIG | changes, 0)
    known = list(words.vocabulary("formulas"))
    said, values = [known[i] for i in row["input_ids"]], cot.values(3, 50)
    assert " ".join(said) == f"Zorin 3 Vortex 50 <sep> {cot.render(3, 50, 'RE', 'formulas')[1]} <eos>"
    begins = {said[at - 1]: at - 1 for at, word in enumerate(said) if word == "=" and said[at - 1] in values}
    place = {name: at + len(cot.SPACED[name].split()) + 3 for name, at in begins.items()}
    assert len(row["rank"]) == len(said) and [*place] == list(cot.order("RE"))
    assert all(said[at] == str(values[name]) for name, at in place.items())
    for effect, causes in cot.GRAPH.items():
        start, end = begins[effect], place[effect]
        assert len({*row["rank"][start:end]}) == 1 and row["rank"][end] == row["rank"][start] + 1
        assert all(row["rank"][place[cause]] < row["rank"][start] for cause in causes if cause in place)
        if graph == "causal":
            mask, asked = row["supervision"].dense(), {"Zorin": 1, "Vortex": 3} | place
            assert (mask[end] == 1).nonzero()[:, 0].tolist() == sorted(asked[cause] for cause in causes)


def test_scores_of_chains():
    rows = c2dlm_tasks.cot_rows([(80, 79), (0, 0)], "normal", {**CONFIG, "graph": "none"}, 0)
    answers = [cot.render(*pair, "normal", "compact")[1].split() for pair in ((80, 79), (0, 0))]
    assert c2dlm_tasks.cot_score(rows, answers) == {"exact": 1.0, "within_1": 1.0, "steps": 1.0}
    answers[1][-1] = str(int(answers[1][-1]) + 1)
    assert c2dlm_tasks.cot_score(rows, answers) == {"exact": 0.5, "within_1": 1.0, "steps": 1.0}
    answers[0] = ["Quasar"]
    assert c2dlm_tasks.cot_score(rows, answers) == {"exact": 0.0, "within_1": 0.5, "steps": 0.5}


@pytest.mark.parametrize("graph", ["causal", "mutual"])
def test_a_cell_attends_to_the_clues_of_its_peers(graph):
    pairs = [("3102200002100320", "3142243142131324")]
    (row,) = c2dlm_tasks.sudoku_rows(pairs, {**CONFIG, "graph": graph}, 0)
    mask = row["supervision"].dense()
    for cell in range(16):
        peers = [*sudoku4.PEERS[cell]]
        wanted = sorted([cell, *peers, *(17 + peer for peer in peers if graph == "mutual")])
        assert (mask[17 + cell] == 1).nonzero()[:, 0].tolist() == wanted
    assert not (mask == -1).any() and mask[:17].count_nonzero() == 0


def test_an_enforced_cell_sees_its_peers_and_a_mark_itself():
    pairs = [("3102200002100320", "3142243142131324")]
    config = {**CONFIG, "graph": "isolated", "enforced": 1.0}
    (row,) = c2dlm_tasks.sudoku_rows(pairs, config, 0)
    seen = row["visible"]
    for cell in range(16):
        peers = [*sudoku4.PEERS[cell]]
        wanted = sorted([cell, *peers, 17 + cell, *(17 + peer for peer in peers)])
        assert seen[17 + cell].nonzero()[:, 0].tolist() == wanted
    alone = [*range(17), 33]  # the clues, and the two marks
    assert torch.equal(seen[alone], torch.eye(34, dtype=torch.bool)[alone])


def test_an_enforced_placebo_sees_as_many_cells_elsewhere():
    pairs = [("3102200002100320", "3142243142131324")]
    true, false = (
        c2dlm_tasks.sudoku_rows(pairs, {**CONFIG, "graph": graph, "enforced": 0.5}, 1)[0]["visible"]
        for graph in ("isolated", "isolated_placebo")
    )
    assert torch.equal(true.sum(1), false.sum(1)) and not torch.equal(true, false)
    alone = [*range(17), 33]
    assert torch.equal(true[alone], false[alone]) and false[range(34), range(34)].all()


def test_a_placebo_has_as_many_causes_elsewhere():
    pairs = [("3102200002100320", "3142243142131324")]
    true, false = (
        c2dlm_tasks.sudoku_rows(pairs, {**CONFIG, "graph": graph}, 1)[0]["supervision"].dense()
        for graph in ("causal", "placebo")
    )
    assert torch.equal((true == 1).sum(1), (false == 1).sum(1)) and not torch.equal(true, false)
    assert not (false == -1).any() and (false == 1)[:, 16:].sum() == 0  # still clues


def test_scores_of_puzzles():
    puzzle, solution = "3102200002100320", "3142243142131324"
    rows = c2dlm_tasks.sudoku_rows([(puzzle, solution)] * 2, {**CONFIG, "graph": "none"}, 0)
    found = c2dlm_tasks.sudoku_score(rows, [[*solution, "<eos>"], [*puzzle.replace("0", "1")]])
    ones = sum(a == "0" and b == "1" for a, b in zip(puzzle, solution, strict=False))
    assert found["cells"] == (8 + ones) / 16 and found["solved"] == found["valid"] == 0.5


def test_an_answer_attends_to_its_causes_and_isolated_attributes_to_themselves():
    pair = stg.generate(0)["train"][0]
    (row,) = c2dlm_tasks.stg_rows([pair], CONFIG, 0)
    said = [token(row, i) for i in range(len(row["input_ids"]))]
    mask, answer = row["supervision"].dense(), len(said) - 2
    causes = {i + more for i, word in enumerate(said) if word in stg.CAUSES for more in (0, 1)}
    assert set((mask[answer] == 1).nonzero()[:, 0].tolist()) == causes and len(causes) == 6
    assert mask[:answer].count_nonzero() == 0
    (row,) = c2dlm_tasks.stg_rows([pair], {**CONFIG, "graph": "isolated"}, 0)
    apart = row["supervision"].dense()
    assert set((apart[answer] == 1).nonzero()[:, 0].tolist()) == causes | {answer}
    for first in range(0, 16, 2):  # eight attributes, name and value
        assert (apart[first, :16] == 1).nonzero()[:, 0].tolist() == [first, first + 1]
        assert (apart[first, :16] == -1).sum() == 14
    for mark in (16, answer + 1):  # no number passes through <sep> or <eos>
        assert (apart[mark] == 1).nonzero()[:, 0].tolist() == [mark] and (apart[mark] == 0).sum() == 0
        assert apart[answer, mark] == -1


def test_a_reversed_shift_turns_spurious_numbers_alone():
    for pairs in (stg.generate(3)["test"], stg.generate_h(3, 1, 50, 1)["test"]):
        turned = c2dlm_tasks.reversed_spurious(pairs)
        before, after = ([stg.values(prompt) for prompt, _ in rows] for rows in (pairs, turned))
        for name in before[0]:
            old, new = ([row[name] for row in rows] for rows in (before, after))
            if name in stg.SPURIOUS or name in stg.SPURIOUS_H:
                ends = min(old) + max(old)
                assert new == pytest.approx([ends - value for value in old], abs=1e-9) and old != new
            else:
                assert old == new
        assert [label for _, label in turned] == [label for _, label in pairs]


def test_more_people_than_published_are_none_of_the_tested():
    config = {**CONFIG, "graph": "none", "train_rows": 3000, "test_rows": 400}
    train, _, parts, _ = c2dlm_tasks.stg_data(config, 0)
    _, _, published, _ = c2dlm_tasks.stg_data({**config, "train_rows": 10}, 0)
    asked = {tuple(row["input_ids"][:17]) for row in train}
    assert len(train) == 3000 and parts == published
    assert not any(tuple(row["input_ids"][:17]) in asked for rows in parts.values() for row in rows)


@pytest.mark.parametrize("kind", c2dlm_models.MODELS)
def test_the_map_of_attributes_is_that_of_single_attention_rows(kind):
    from causalnb.attention import tap

    config = {**registry.config("c2dlm.long.stg_l", "diffusion", "quick"), "model": kind, "pretrained": False}
    _, _, parts, _ = c2dlm_tasks.stg_data(config, 0)
    torch.manual_seed(0)
    model, row = c2dlm_models.build_model(config).eval(), parts["iid"][0]
    found = c2dlm_runs.attribute_map(model, [row])
    ids, place = torch.tensor([row["input_ids"]]), 17 if kind == "diffusion" else 16
    if kind == "diffusion":
        ids[:, 17:] = c2dlm_models.MASK
    with torch.no_grad(), tap(model) as records:
        model(input_ids=ids)
    said = [token(row, i) for i in range(0, 16, 2)]
    for name, first in zip((word.replace("_", " ") for word in said), range(0, 16, 2), strict=True):
        raw = sum(record.attention()[0, :, place, first : first + 2].sum(-1).mean() for record in records)
        assert found["raw/Answer"][name] == pytest.approx(float(raw) / len(records), abs=1e-5)
    for effect in ("Smoking", "Answer"):
        assert 0 < sum(found[f"weighted/{effect}"][name.replace("_", " ")] for name in said) <= 1
    causes = sum(found["weighted/Answer"][name] for name in stg.CAUSES)
    whole = sum(found["weighted/Answer"][name.replace("_", " ")] for name in said)
    assert found["weighted"]["causal"] == pytest.approx(causes / whole, abs=1e-3)


@pytest.mark.parametrize("task", ["cot", "sudoku", "stg", "chain"])
def test_the_flow_along_the_graph_is_that_of_single_rows(task):
    from causalnb.attention import tap
    from causalnb.c2dlm import MaskedDiffusionCollator, value_weighted_attention

    config = registry.config(f"c2dlm.curves.{task}", registry.arms(f"c2dlm.curves.{task}")[0], "quick")
    config = {**config, "model": "diffusion", "graph": "causal", "train_rows": 3}
    torch.manual_seed(0)
    model = c2dlm_models.build_model(config).eval()
    rows = c2dlm_tasks.DATA[task](config, 0)[0]
    found = c2dlm_runs.relation_flow(model, rows, "no_lookahead")
    noise = MaskedDiffusionCollator(c2dlm_models.MASK, c2dlm_models.EOS)
    for kind, index in (("raw", "none"), ("weighted", "key")):
        shares = {"causes": [], "against": [], "others": []}
        for draw, row in enumerate(rows):
            mask = row["supervision"].dense().tolist()
            with torch.no_grad(), tap(model) as records:
                model(input_ids=noise([{**row, "draw": draw}])["input_ids"])
            flow = sum(value_weighted_attention(r.attention(), r.value, index)[0] for r in records).tolist()
            for told, paid in zip(mask, flow, strict=True):
                if 1 not in told:
                    continue
                whole = sum(p for m, p in zip(told, paid, strict=True) if m != 2)
                for name, value in (("causes", 1), ("against", -1), ("others", 0)):
                    mine = sum(p for m, p in zip(told, paid, strict=True) if m == value)
                    shares[name].append(mine / whole)
        for name, values in shares.items():
            assert found[f"flow/{kind}"][name] == pytest.approx(sum(values) / len(values), abs=1e-5)
        assert sum(found[f"flow/{kind}"].values()) == pytest.approx(1)


def test_the_index_of_size_h_is_scored_nearly_too():
    rows = [{"said": ["Answer", "52"]}, {"said": ["Answer", "20"]}]
    found = c2dlm_tasks.stg_score(rows, [["Answer", "52"], ["Answer", "25"]])
    assert found == {"accuracy": 0.5, "within_5": 1.0}
    assert c2dlm_tasks.stg_score(rows, [["Answer"], []]) == {"accuracy": 0.0, "within_5": 0.0}


def test_quoted_phrases_are_found_in_a_story():
    story = reasoning.generate("purchases", 1, 0)[0]
    (row,) = c2dlm_tasks.reasoning_rows("purchases", [story], CONFIG, 0)
    report = row["supervision"].report
    assert report.kept == report.edges == sum(map(len, story["graph"].values())) and not report.problems
    right = c2dlm_tasks.reasoning_score([row], [story["response"].split()])
    wrong = c2dlm_tasks.reasoning_score([row], [["####", "-1"]])
    assert right == {"accuracy": 1.0} and wrong == {"accuracy": 0.0}


@pytest.mark.parametrize("task", c2dlm_tasks.DATA)
def test_test_rows_are_the_same_for_every_graph_and_never_trained(task):
    found = {graph: c2dlm_tasks.DATA[task]({**CONFIG, "graph": graph}, 0) for graph in ("none", "causal")}
    plain, guided = (
        {
            name: [row["input_ids"] for row in rows]
            for name, rows in {"train": train, "validation": validation, **parts}.items()
        }
        for train, validation, parts, _ in found.values()
    )
    assert plain == guided
    train, *others = ({tuple(ids) for ids in part} for part in plain.values())
    assert all(not train & other for other in others)
    assert all(row.get("supervision") for row in found["causal"][0])
    assert not any(row.get("supervision") for row in found["none"][0])


def test_a_chain_attends_to_the_values_of_its_own_causes():
    chains = dag_chains.sample(30, 4, seed=1)
    rows = c2dlm_tasks.chain_rows(chains, CONFIG, 0)
    for row, chain in zip(rows, chains, strict=True):
        mask, start = row["supervision"].dense(), sum(row["prompt_mask"])
        place = {name: i for i, name in enumerate([*chain.values][: dag_chains.SOURCES])}
        place |= {step: start + i for i, step in enumerate(chain.causes)}
        for step, causes in chain.graph.items():
            assert (mask[place[step]] == 1).nonzero()[:, 0].tolist() == sorted(place[name] for name in causes)
            later = [place[name] for name in chain.causes if place[name] > place[step]]
            assert (mask[place[step], later] == -1).all()
        assert row["rank"] == [0] * start + [*range(1, 6)]
    others = c2dlm_tasks.chain_rows(chains, {**CONFIG, "graph": "placebo"}, 0)
    moved = [
        not torch.equal(a["supervision"].dense(), b["supervision"].dense())
        for a, b in zip(rows, others, strict=True)
    ]
    assert sum(moved) > 20


def test_scores_of_varying_chains():
    chain = dag_chains.Chain({"Flux": 1, "Nova": 1, "Echo": 1}, {"Nova": "Flux", "Echo": "Nova"})
    answers = [["Nova=1", "Echo=1"], ["Nova=1", "Flux=1"], ["Echo=1", "Echo=2", "<eos>"], []]
    score = c2dlm_tasks.chain_score([{"chain": chain}] * 4, answers)
    assert score == {"steps": 3 / 8, "named": 0.5, "exact": 0.25, "last": 0.25}


@pytest.mark.parametrize("task", ["stg", "chain", "cot"])
def test_an_enforced_graph_is_there_at_the_test_too(task):
    config = {**CONFIG, "graph": "isolated", "enforced": 1.0}
    train, validation, parts, _ = c2dlm_tasks.DATA[task](config, 0)
    for row in (*train, *validation, *(row for rows in parts.values() for row in rows)):
        assert "supervision" not in row and row["visible"].shape == (len(row["input_ids"]),) * 2
        assert not row["visible"].all() and row["visible"].diagonal().all()
    train, validation, *_ = c2dlm_tasks.DATA[task]({**config, "enforced": 0.5}, 0)
    assert all("visible" in row for row in train) and not any("visible" in row for row in validation)


def test_an_enforced_graph_is_what_a_model_is_decoded_under():
    config = registry.config("c2dlm.curves.chain", "enforced", "quick")
    train, *_ = c2dlm_tasks.chain_data({**config, "train_rows": 40}, 0)
    torch.manual_seed(0)
    model = c2dlm_models.build_model(config)
    assert model.reattention is None
    free = [{name: value for name, value in row.items() if name != "visible"} for row in train]
    assert c2dlm_models.decode(model, train, config) != c2dlm_models.decode(model, free, config)


def test_numbers_begin_in_their_order():
    table = c2dlm_models.number_embeddings(64)
    near, far = (table[41:] - table[40:-1]).norm(dim=1), (table[60:] - table[40:-20]).norm(dim=1)
    assert near.max() < far.min() and table.shape == (193, 64)
    model = c2dlm_models.small_llama({"hidden_size": 64, "layers": 1, "heads": 2})
    rows = model.get_input_embeddings().weight[list(words.NUMBER_IDS.values())]
    cosine = torch.nn.functional.cosine_similarity(rows[50:-1], rows[51:]).mean()
    assert cosine > 0.5 > torch.nn.functional.cosine_similarity(rows[:-90], rows[90:]).mean()


def test_batches_are_permutations_one_after_the_other():
    order = c2dlm_models.row_order(5, 4, 4, 3)
    assert sorted(order[:5]) == sorted(order[5:10]) == sorted(order[10:15]) == [0, 1, 2, 3, 4]
    assert len(order) == 16 and order != c2dlm_models.row_order(5, 4, 4, 4)


def quick(experiment, arm, folder, **changes):
    config = {**registry.config(experiment, arm, "quick"), **changes}
    return c2dlm_runs.run_task(Run(experiment, arm, 0, "quick", config, folder, "cpu", lambda *_: None))


@pytest.mark.parametrize(
    ("experiment", "arm"),
    [
        ("c2dlm.long.sudoku_n200", "autoregressive"),
        ("c2dlm.parts.sudoku", "mutual"),
        ("c2dlm.long.stg_l", "isolated"),
        ("c2dlm.long.cot", "c2dlm"),
        ("c2dlm.parts.cot", "ordered"),
        ("c2dlm.long.order", "diffusion_no_cot"),
        ("c2dlm.downstream", "placebo"),
    ],
)
def test_an_arm_trains_and_is_scored(experiment, arm, tmp_path):
    found = quick(experiment, arm, tmp_path)
    counted = found["metrics"].pop("")
    shares = {name: value for name, value in wide(found["metrics"]).items() if "rows" not in name}
    assert shares and all(0 <= value <= 1 for value in shares.values())
    assert [entry["step"] for entry in found["history"]] == [1, 2]
    if arm == "c2dlm":
        assert "ranked_test_exact" in shares
    config = registry.config(experiment, arm, "quick")
    whole = counted["trainable_parameters"] == counted["parameters"]
    assert whole == (not config["pretrained"])


@pytest.mark.parametrize("kind", c2dlm_models.MODELS)
def test_attention_is_read_of_diffusion_models_only(kind, tmp_path):
    metrics = quick("c2dlm.long.cot", kind, tmp_path, watched=2)["metrics"]
    assert ("flow/weighted" in metrics) is (kind == "diffusion")
    assert "flow/weighted" not in quick("c2dlm.long.cot", kind, tmp_path / "off")["metrics"]


def test_a_missing_base_is_said_in_a_sentence(monkeypatch, tmp_path):
    from causalnb.errors import LabError

    monkeypatch.setattr(c2dlm_models, "models_dir", lambda profile: tmp_path)
    with pytest.raises(LabError, match="c2dlm_base_diffusion_64.safetensors: make it with `causalnb run"):
        c2dlm_models.load_base("diffusion", {"hidden_size": 64, "layers": 1, "heads": 2})
    assert c2dlm_grid.digests(64)["diffusion"] == ""


def test_a_base_is_kept_in_half_precision(monkeypatch, tmp_path):
    from causalnb.errors import LabError

    monkeypatch.setattr(c2dlm_models, "models_dir", lambda profile: tmp_path)
    size = {"hidden_size": 64, "layers": 1, "heads": 2}
    model = c2dlm_models.small_llama(size)
    weights.save_weights(model, c2dlm_models.base_file("diffusion", 64))
    again = c2dlm_models.load_base("diffusion", size)
    assert (
        len(c2dlm_grid.digests(64)["diffusion"]) == 16
        and again.lm_head.weight is again.get_input_embeddings().weight
    )
    for one, other in zip(model.parameters(), again.parameters(), strict=True):
        torch.testing.assert_close(other, one.half().float(), rtol=0, atol=0)
    with pytest.raises(LabError, match="has no model.layers.1.* with `causalnb run c2dlm.base`"):
        c2dlm_models.load_base("diffusion", {**size, "layers": 2})


def test_a_base_reads_two_batches_of_skills_for_one_of_stories_of_like_length():
    skills, stories = parts = c2dlm_base.base_rows(4 * 48, 0, whole=True)
    order = c2dlm_base.base_order(parts, 4)
    assert sorted(order) == [*range(len(skills) + len(stories))]
    batches = [order[at : at + 4] for at in range(0, len(order), 4)]
    assert [batch[0] >= len(skills) for batch in batches] == [False, False, True] * 16
    rows = [*skills, *stories]

    def spread(batches):
        length = [len(row["input_ids"]) - sum(row["prompt_mask"]) for row in rows]
        return sum(max(length[i] for i in batch) - min(length[i] for i in batch) for batch in batches)

    drawn = [[*range(at, at + 4)] for at in range(0, len(rows), 4)]
    assert spread(batches) < spread(drawn) / 2
    assert [sum(row["prompt_mask"]) == 0 for row in skills] == [False, True] * (len(skills) // 2)
    assert all(sum(row["prompt_mask"]) for part in c2dlm_base.base_rows(30, 0, whole=False) for row in part)


def test_a_base_is_right_when_the_last_word_is(monkeypatch):
    rows = [words.encode("2 + 3 =", "5"), words.encode("Solve 2 x = 4 for x .", "x = 2 . \\boxed{ 2 }")]
    for said, share in (
        ([["5"], ["\\boxed{", "2", "}"]], 1.0),
        ([["4"], ["\\boxed{", "2", "}"]], 0.5),
        ([["5"], ["\\boxed{", "3", "}"]], 0.5),
        ([[], ["}"]], 0.0),
    ):
        monkeypatch.setattr(c2dlm_base, "decode", lambda *_, said=said: said)
        assert c2dlm_base.answers_right(None, rows, {}) == share
