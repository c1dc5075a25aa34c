"""Rows, models, forgotten examples and scores of the Causal Transformer's experiments, by hand."""

import json
import sys
from collections import Counter
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch

from causalnb import paths
from causalnb.causal_transformer import CausalTransformerForSequenceClassification, patterns
from causalnb.errors import DataError, LabError
from causalnb.experiments.causal_transformer import (
    chosen,
    forgetting,
    grid,
    models,
    readers,
    runs,
    searches,
    sequence,
    translation,
)
from causalnb.experiments.causal_transformer import data as tasks
from causalnb.lab import registry, results
from causalnb.lab.batches import grouped
from causalnb.tasks import overlap, paraphrase
from tests.unit.experiments.made_up import wide

NLI = "causal_transformer.overlap.nli.m5"
DE = "causal_transformer.translation.en_de"


def config(arm="transformer", id=NLI, profile="quick", **changes):
    return registry.config(id, arm, profile) | changes


def run_of(folder, id=NLI, arm="transformer", progress=lambda *_: None, **changes):
    return registry.Run(id, arm, 0, "quick", config(arm, id, **changes), folder, "cpu", progress)


@pytest.fixture(scope="module")
def nli():
    rows = overlap.pairs(60, 0.05)
    tokenizer = tasks.pair_tokenizer(rows, 600)
    return rows, tokenizer, tasks.encoded(rows, tokenizer)


def built(arm="transformer", labels=2, vocabulary=600, steps=4, **changes):
    torch.manual_seed(0)
    return models.build_classifier(config(arm, **changes), vocabulary, labels, steps).eval()


# rows


def test_a_pair_is_two_sentences_of_two_types(nli):
    rows, tokenizer, ready = nli
    row = tasks.encoded(rows[:1], tokenizer, 2)[0]
    first = row["token_type_ids"].index(1)
    assert row["input_ids"][0] == tasks.BOS and row["input_ids"][first - 1] == tasks.EOS
    assert row["token_type_ids"] == [0] * first + [1] * (len(row["input_ids"]) - first)
    said = [
        tokenizer.decode(part, skip_special_tokens=True).strip()
        for part in (row["input_ids"][:first], row["input_ids"][first:])
    ]
    assert said == [rows[0]["sentence1"].lower(), rows[0]["sentence2"].lower()]
    assert row["labels"] == rows[0]["label"] + 2 == ready[0]["labels"] + 2


def test_a_batch_is_padded_and_masked(nli):
    ready = sorted(nli[2], key=lambda row: len(row["input_ids"]))
    batch = tasks.collate([ready[0], ready[-1]])
    short, long = (len(ready[i]["input_ids"]) for i in (0, -1))
    assert batch["input_ids"].shape == (2, long) and batch["attention_mask"].sum(1).tolist() == [short, long]
    assert (batch["input_ids"][0, short:] == tasks.PAD).all()
    assert batch["labels"].tolist() == [ready[0]["labels"], ready[-1]["labels"]]


def test_cells_are_parts_and_published_sets():
    found = {"test": [{"label": 0}]}
    assert tasks.cells(found, ["test"], []) == found
    with pytest.raises(LabError, match="no cell 'paws': choose among test, paws_qqp"):
        tasks.cells(found, [], ["paws"])
    for asked in ((["paws_qqp"], []), ([], ["test"])):  # a part that is not there, a set so called
        with pytest.raises(LabError, match="no cell '"):
            tasks.cells(found, *asked)
    try:
        real = tasks.cells(found, [], ["paws_qqp", "mnli_contradicting"])
    except DataError as error:
        pytest.skip(str(error))
    assert [len(rows) for rows in real.values()] == [677, 261]
    ready = tasks.encoded(real["paws_qqp"], tasks.pair_tokenizer(paraphrase.pairs(50), 600))
    assert models.predictions(built(), ready[:20]).shape == (20,)  # words that were never seen have tokens


def test_real_pairs_of_full_overlap_have_both_labels():
    try:
        rows = tasks.REAL["mnli_overlapping"]()
    except DataError as error:
        pytest.skip(str(error))
    assert Counter(row["label"] for row in rows) == {1: 261, 0: 214}
    assert {"sentence1": "In the other bracket , the Broncos beat the New York Jets ."}.items() <= next(
        row for row in rows if row["sentence2"] == "The Broncos beat the New York Jets ."
    ).items()


def test_auc_is_of_pairs_of_rows_whatever_label_a_model_prefers():
    rows = [{"label": label} for label in (0, 1, 1, 0)]
    said = np.array([[0.0, 5.0], [0.0, 6.0], [1.0, 8.0], [0.0, 7.0]])  # label 1 of all; 5, 6, 7, 7
    assert runs.auc(rows, said) == pytest.approx((1 + 1 + 0 + 0.5) / 4)
    assert np.isnan(runs.auc(rows[1:3], said[1:3]))


def test_auc_is_measured_where_it_is_asked_for(nli):
    rows, tokenizer, ready = nli
    asked = config(auc=True, mapped=[])
    found = runs.cell_scores(built(), {"test": rows}, tokenizer, asked)["test"]
    assert found["auc"] == runs.auc(rows, models.logits(built(), ready))
    assert "auc" not in runs.cell_scores(built(), {"test": rows}, tokenizer, asked | {"auc": False})["test"]


@pytest.mark.parametrize("task", ["overlap", "paraphrase"])
def test_balanced_rows_have_as_many_counterexamples_as_rows_where_overlap_is_right(task):
    rows = tasks.parts(task, {"n_train": 2000, "n_validation": 8, "n_test": 8, "minority": 0.05}, 0)["train"]
    rare = [row for row in rows if tasks.COUNTEREXAMPLES[task](row)]
    found = tasks.balanced(task, rows)
    assert found[: len(rows)] == rows and all(tasks.COUNTEREXAMPLES[task](row) for row in found[len(rows) :])
    assert all(tasks._overlaps(row) for row in rare)
    right = sum(tasks._overlaps(row) and not tasks.COUNTEREXAMPLES[task](row) for row in rows)
    wrong = sum(map(tasks.COUNTEREXAMPLES[task], found))
    assert right - len(rare) < wrong <= right and 0 < len(rare) < 0.1 * right
    none = [row for row in rows if not tasks.COUNTEREXAMPLES[task](row)]
    assert tasks.balanced(task, none) == none
    with pytest.raises(LabError, match="'snli' has no counter-examples: choose among overlap, paraphrase"):
        tasks.balanced("snli", rows)


def test_a_spread_has_every_part():
    assert runs.spread([*range(10)], 5) == [0, 2, 4, 6, 8] and runs.spread([1, 2], 5) == [1, 2]
    rows = runs.spread(overlap.challenge(2), 30)
    assert {row["subcase"] for row in rows} == {*overlap.SUBCASES}


# models


def test_settings_alone_make_the_arms():
    vanilla, gcn, loss, both, entropy = map(built, ("transformer", "gcn", "loss", "both", "entropy"))
    assert vanilla.num_parameters() == loss.num_parameters() == entropy.num_parameters()
    assert vanilla.num_parameters() < gcn.num_parameters() == both.num_parameters()
    assert [len(model.losses) for model in (vanilla, gcn, loss, both, entropy)] == [0, 0, 1, 1, 0]
    assert {type(built(arm)).__name__ for arm in ("constant", "bow", "bilstm")} == {
        "ContrastForSequenceClassification"
    }
    stl = config("both_stl")
    assert {key for key in stl if stl[key] != config("both")[key]} == {"train_part", "probe_rows"}


def test_the_ramp_is_in_passes():
    made = built("loss", steps=50, ramp=[0.3, 0.61])
    assert made.config.causal_ramp == [15, 31] and built("loss", steps=2).config.causal_ramp == [0, 2]
    assert built("loss", ramp=None).causal_weight() == config("loss")["causal_weight"]


def test_predictions_are_in_order_and_among_the_labels_asked(nli):
    ready, model = nli[2], built(labels=6)
    found = models.predictions(model, ready, batch=7)
    alone = [models.predictions(model, [row])[0] for row in ready[:10]]
    assert found[:10].tolist() == alone and len(found) == len(ready)
    some = models.predictions(model, ready, among=slice(2, 4))
    assert set(some) <= {2, 3}
    assert models.right(model, ready).tolist() == (found == [row["labels"] for row in ready]).tolist()


def test_attention_is_measured_where_there_is_one(nli):
    assert models.attention_measures(built("bow"), nli[2][:4]) == {}
    found = models.attention_measures(built("both"), nli[2][:4])
    assert {"violated", "entropy", "loops", "two_cycles", "hubs", "cycles"} <= set(found)
    assert all(0 <= found[name] <= 1 for name in ("violated", "loops", "two_cycles", "hubs", "cycles"))
    sure = torch.eye(5).roll(1, 0).expand(2, 1, 5, 5)
    flat = torch.full((2, 1, 5, 5), 0.2)
    mixed = models.map_measures((sure, flat), torch.ones(2, 5))
    assert mixed["cycles"] == mixed["violated"] == 0.5 and mixed["loops"] == 0


@pytest.mark.parametrize("arm", ["bow", "bilstm", "transformer", "both", "entropy"])
def test_every_arm_learns(arm, nli, tmp_path):
    """30 steps on 60 pairs: the loss falls by a tenth at least."""
    run = run_of(
        tmp_path,
        arm=arm,
        steps=30,
        evaluate_every=10,
        d_model=16,
        batch=20,
        learning_rate=1e-2,
        causal_weight=0.01,
        dropout=0.0,
    )
    torch.manual_seed(0)
    model = models.build_classifier(run.config, len(nli[1]), 2, 30)
    history = models.fit(run, model, nli[2], grouped(nli[2], 20, 30, 0))
    assert history[-1]["loss"] < 0.9 * history[0]["loss"]


# what is forgotten and what is right


def test_bits_are_kept_in_digits():
    right = np.arange(13) % 3 == 0
    assert (forgetting.unpacked(forgetting.packed(right), 13) == right).all()
    assert len(forgetting.packed(right)) == 4


def test_forgotten_examples_by_hand():
    looks = [[1, 1, 0, 0], [0, 1, 1, 0], [1, 0, 1, 0], [0, 0, 1, 1]]
    history = [{"step": i, "right_a": forgetting.packed(look)} for i, look in enumerate(looks)]
    found, total = forgetting.count_forgotten(history, {"a": 4})
    assert [entry["forgotten_a"] for entry in found] == [0, 1, 1, 1]
    assert [entry["learned_a"] for entry in found] == [0.5, 0.5, 0.5, 0.5]
    assert total == {"events": {"a": 3}, "forgotten": {"a": 0.5}} and "right_a" not in found[0]
    assert "right_a" in history[0]


def test_what_was_not_looked_at_yet_is_not_forgotten():
    looks = [[1, 1, 0, 0], [0, 0, 0, 0], [1, 0, 1, 0], [0, 0, 1, 1]]
    history = [
        {"step": i} | ({"right_a": forgetting.packed(look)} if i > 1 else {}) for i, look in enumerate(looks)
    ]
    found, total = forgetting.count_forgotten(history, {"a": 4})
    assert total == {"events": {"a": 1}, "forgotten": {"a": 0.25}}
    assert [entry.get("forgotten_a") for entry in found] == [None, None, 0, 1]


def test_what_is_lost_was_right_at_the_end_of_its_stage():
    looks = [[1, 1, 1, 0], [1, 0, 1, 1], [1, 1, 0, 0]]  # lost and found, lost, never right at first
    assert forgetting.lost_later(looks) == pytest.approx(2 / 3)
    assert forgetting.lost_later(looks[:1]) == 0 == forgetting.lost_later([[0, 0], [1, 0]])


def test_scores_by_hand():
    rows = [{"label": label, "kind": kind} for label, kind in ((0, "a"), (0, "b"), (1, "b"), (1, "b"))]
    found = runs.scores(rows, np.array([0, 1, 1, 1]), ("no", "yes"), "kind")
    assert found == pytest.approx(
        {"accuracy": 0.75, "macro_f": (2 / 3 + 4 / 5) / 2, "no": 0.5, "yes": 1.0, "a": 1.0, "b": 2 / 3}
    )
    assert set(runs.scores(rows, np.zeros(4), ("no", "yes"))) == {"accuracy", "macro_f", "no", "yes"}
    one = runs.scores(rows[:2], np.array([0, 0]), ("no", "yes"))
    assert one == {"accuracy": 1.0, "macro_f": 1.0, "no": 1.0}


def test_a_stopped_run_counts_the_same(tmp_path):
    class Stop(Exception):
        pass

    def stop(done, total, note):
        if done == 3:
            raise Stop

    changes = dict(steps=4, evaluate_every=1, learning_rate=0.05)
    whole = runs.run_pairs(run_of(tmp_path / "whole", **changes))
    with pytest.raises(Stop):
        runs.run_pairs(run_of(tmp_path / "cut", progress=stop, **changes))
    assert runs.run_pairs(run_of(tmp_path / "cut", **changes)) == whole
    assert len(whole["history"]) == 4


DRAWS = "causal_transformer.draws.paraphrase"


def test_a_draw_is_the_mask_that_its_number_draws(tmp_path, monkeypatch):
    seen, fit = [], runs.fit

    def spy(run, model, rows, *more):
        history = fit(run, model, rows, *more)
        seen.append(next(m._pattern for m in model.modules() if getattr(m, "_pattern", None) is not None))
        return history

    monkeypatch.setattr(runs, "fit", spy)
    for arm in ("draw_1", "draw_3"):
        runs.run_pairs(run_of(tmp_path / arm, DRAWS, arm))
    drawn = [
        patterns.attention_pattern("random", len(one), share=0.25, seed=seed, global_tokens=1)
        for one, seed in zip(seen, (1, 3), strict=True)
    ]
    assert all(map(torch.equal, seen, drawn)) and not torch.equal(*(one[:12, :12] for one in seen))


def test_the_first_draw_is_table_1s(tmp_path):
    first = runs.run_pairs(run_of(tmp_path / "0", DRAWS, "draw_1", draw=0, steps=3))
    assert first == runs.run_pairs(
        run_of(tmp_path / "mask", "causal_transformer.masked.paraphrase", "random", steps=3)
    )


def test_halves_of_the_challenge_are_told_apart(tmp_path):
    metrics = runs.run_pairs(run_of(tmp_path, arm="constant"))["metrics"]
    for cell in ("challenge", "held_out"):
        halves = [metrics[cell][label] for label in overlap.LABELS]
        assert sorted(halves) == [0, 1] and metrics[cell]["accuracy"] == 0.5
        assert {*overlap.SUBCASES} <= set(metrics[cell])


def test_tasks_in_sequence_have_labels_of_their_own(tmp_path, monkeypatch):
    seen = []

    def fit(run, model, rows, order, measure):
        seen.append((run.folder.name, model, {row["labels"] for row in rows}))
        assert model.passes == 0  # the weight of the loss rises in every stage
        model.passes += 1
        return [{"step": step, **measure(model)} for step in (1, 2)]

    def right(model, rows, among):  # of a probe: what is right at each look, by its task's first label
        if rows is not probes.get(among.start):
            return np.zeros(1)
        return looks[among.start].pop(0)

    looks = {
        0: [[0, 1, 1, 1], [1, 1, 1, 0], [1, 1, 0, 1], [1, 0, 1, 1], [1, 1, 1, 1], [1, 1, 1, 1]],
        2: [[0, 0, 0, 0], [0, 0, 1, 1], [1, 1, 1, 1], [0, 0, 1, 0]],
        4: [[1, 1, 1, 1]] * 2,
    }
    probes = {}
    monkeypatch.setattr(
        sequence, "spread", lambda rows, n: probes.setdefault(rows[0]["labels"] // 2 * 2, rows[:4])
    )
    monkeypatch.setattr(sequence, "right", right)
    monkeypatch.setattr(sequence, "fit", fit)
    found = sequence.run_sequence(run_of(tmp_path, "causal_transformer.sequence", "both"))
    assert [(name, labels) for name, _, labels in seen] == [
        ("overlap", {0, 1}),
        ("paraphrase", {2, 3}),
        ("fact_check", {4, 5}),
    ]
    assert [[name for name in entry if name.startswith("learned_")] for entry in found["history"]] == [
        [f"learned_{task}" for task in [*grid.STAGES][: 1 + stage]] for stage in (0, 0, 1, 1, 2, 2)
    ]
    assert isinstance(seen[0][1], CausalTransformerForSequenceClassification)
    assert seen[0][1].config.num_labels == 6
    names = {
        f"after_{one}_{other}{part}"
        for one in grid.STAGES
        for other in grid.STAGES
        for part in ("", "_challenge")
    }
    assert names < set(wide(found["metrics"]))
    lost = found["metrics"]["lost"]
    assert lost == {"overlap": pytest.approx(2 / 3), "paraphrase": 0.5}  # nothing follows the third
    assert [entry["task"] for entry in found["history"]] == [task for task in grid.STAGES for _ in range(2)]


def test_readers_of_half_a_pair_are_known_by_hand():
    pairs = [("a man", "he runs", 0)] * 3 + [("a dog", "it naps", 1)] * 3 + [("a fox", "nobody runs", 2)] * 4
    rows = [dict(zip(("sentence1", "sentence2", "label"), pair, strict=False)) for pair in pairs]
    found = {"train": rows, "test": [rows[0], rows[3], rows[-1], rows[-1]]}
    assert readers.commonest(found).tolist() == [2] * 4
    assert readers.word_reader(found, "sentence2").tolist() == [0, 1, 2, 2]


def test_readers_are_scored_on_the_test_part(tmp_path):
    told = {
        arm: readers.run_readers(run_of(tmp_path, "causal_transformer.readers", arm))["metrics"]["test"]
        for arm in registry.arms("causal_transformer.readers")
    }
    rows = tasks.parts("snli", {"source": "generator", **grid.SMALL}, 0)["test"]
    labels = Counter(row["label"] for row in rows)
    assert {one["rows"] for one in told.values()} == {labels.total()}
    assert told["commonest"]["accuracy"] in {count / labels.total() for count in labels.values()}
    assert told["commonest"]["macro_f"] < told["commonest"]["accuracy"]


# which arms there are


def test_every_arm_of_the_search_has_as_many_tries_and_other_templates():
    for name in grid.OVERLAP:
        arms = registry.arms(f"causal_transformer.search.{name}")
        counts = {arm: sum(one.rpartition("_")[0] == arm for one in arms) for arm in grid.SEARCHED}
        assert set(counts.values()) == {grid.TRIES} and sum(counts.values()) == len(arms)
        tried = config(arms[0], f"causal_transformer.search.{name}", "laptop")
        test = config("transformer", f"causal_transformer.overlap.{name}.m5", "laptop")
        assert tried["data"] == test["data"] | {"family": "development"}
        assert tried["data_seed"] != test["data_seed"] and "held_out" not in tried["cells"]
        assert not tried["real"]


@pytest.mark.parametrize("arm, part", [("transformer", "train"), ("transformer_stl", "challenge_train")])
def test_an_arm_learns_from_the_part_it_names_alone(arm, part, tmp_path, monkeypatch):
    learned, fit = [], runs.fit
    monkeypatch.setattr(
        runs, "fit", lambda run, model, rows, *more: (learned.append(rows), fit(run, model, rows, *more))[1]
    )
    id = "causal_transformer.overlap.nli.m5"
    run = run_of(tmp_path, id, arm)
    runs.run_pairs(run)
    found = tasks.parts(run.config["task"], run.config["data"], run.seed + run.config["data_seed"])
    tokenizer = tasks.pair_tokenizer(found["train"], run.config["vocabulary"])
    assert learned == [tasks.encoded(found[part], tokenizer)]
    assert not {json.dumps(row) for row in found[part]} & {json.dumps(row) for row in found["challenge"]}


def test_choices_are_those_of_the_stored_searches_and_in_the_stored_runs(monkeypatch):
    monkeypatch.delenv("CAUSALNB_RESULTS")
    assert chosen.read() == searches.computed()
    followed = [
        spec
        for spec in registry.experiments()
        if spec.id.startswith("causal_transformer.") and results.usable(spec.id, "laptop")  # else not run yet
    ]
    for spec in followed:
        for arm in spec.arms:
            held = results.read(spec.id, arm, 0, "laptop").config
            assert registry.same_settings(spec.id, held, registry.config(spec.id, arm, "laptop")), arm
    assert len(followed) > 30


def test_a_missing_choice_and_a_missing_result_are_named(tmp_path, monkeypatch):
    with pytest.raises(LabError, match="there is no result .*bow_0.seed0.json: make it with"):
        searches.stored("search.nli", "bow_0")
    monkeypatch.setattr(chosen, "FILE", tmp_path / "chosen.json")
    with pytest.raises(LabError, match="chosen.json holds no choices .*: restore it from git"):
        chosen.read()
    chosen.FILE.write_text(json.dumps({name: {} for name in chosen.NAMES - {"spreads"}}), encoding="utf-8")
    with pytest.raises(LabError, match="chosen.json lacks 'spreads': restore it"):
        chosen.read()


def test_a_result_of_other_settings_chooses_nothing(monkeypatch):
    monkeypatch.delenv("CAUSALNB_RESULTS")
    now = registry.config("causal_transformer.search.nli", "bow_0", "laptop") | {"steps": 7}
    monkeypatch.setattr(registry, "config", lambda *_: now)
    with pytest.raises(LabError, match="search.nli bow_0 seed 0 has other settings now: run it first"):
        searches.stored("search.nli", "bow_0")


def test_a_run_that_measured_no_number_chooses_nothing(monkeypatch):
    monkeypatch.delenv("CAUSALNB_RESULTS")
    held = results.read("causal_transformer.search.nli", "bow_0", 0, "laptop")
    rows = [[*place, None if place == ["challenge", "accuracy"] else value] for *place, value in held.rows]
    monkeypatch.setattr(results, "read", lambda *_: replace(held, rows=rows))
    with pytest.raises(LabError, match="search.nli bow_0 seed 0 measured no number: look at its history"):
        searches.best(["bow_0"], "search.nli")


@pytest.mark.parametrize("task", grid.OVERLAP)
def test_table_1_uses_each_arms_best_try(task):
    results = Path(paths.__file__).parents[1] / "data" / "results" / "laptop"
    stored = results / f"causal_transformer.search.{task}"
    for arm, picked in grid.USED[task].items():
        scores = []
        for number in range(grid.TRIES):
            found = wide(
                json.loads((stored / f"{arm}_{number}" / "seed0.json").read_text(encoding="utf-8"))["rows"]
            )
            scores.append(found["validation_accuracy"] + found["challenge_accuracy"])
        assert scores[picked] == max(scores)
        used = config(arm, f"causal_transformer.overlap.{task}.m5", "laptop")
        tried = config(f"{arm}_{picked}", f"causal_transformer.search.{task}", "laptop")
        differing = {key for key in used if used[key] != tried[key]}
        aim = {"entropy_target"} if arm == "entropy" else set()
        assert differing - {"map_rows"} == {"cells", "data", "data_seed", "real", "steps"} | aim


@pytest.mark.parametrize("task", grid.OVERLAP)
@pytest.mark.parametrize("minority", grid.MINORITIES)
def test_the_entropy_control_aims_at_what_the_loss_leaves_on_validation_pairs(task, minority):
    id, ends = f"causal_transformer.overlap.{task}.{minority}", []
    for seed in registry.seeds(id, "laptop"):
        stored = Path(paths.__file__).parents[1] / "data" / "results" / "laptop" / id / "loss"
        history = json.loads((stored / f"seed{seed}.json").read_text(encoding="utf-8"))["history"]
        assert history[-1]["step"] == config("loss", id, "laptop")["steps"]
        ends.append(history[-1]["entropy"])
    aim = config("entropy", id, "laptop")["entropy_target"]
    assert aim == grid.ENTROPIES[task][minority] == pytest.approx(np.mean(ends), abs=0.005)


def test_on_trial_beyond_the_paper_is_the_best_try():
    results = Path(paths.__file__).parents[1] / "data" / "results" / "laptop"
    scores = {arm: [] for arm in grid.BEYOND_TRIES | grid.BLANKET_TRIES}
    for task in grid.OVERLAP:
        for arm, seed in product(scores, (0, 1)):
            file = results / f"causal_transformer.beyond.search.{task}" / arm / f"seed{seed}.json"
            found = wide(json.loads(file.read_text(encoding="utf-8"))["rows"])
            scores[arm] += [found["validation_accuracy"], found["challenge_accuracy"]]
    ours, papers = (
        {arm: sum(scores[arm]) for arm in tries} for tries in (grid.BEYOND_TRIES, grid.BLANKET_TRIES)
    )
    assert grid.CHOSEN == max(ours, key=ours.get)
    heaviest = max(papers, key=lambda arm: grid.BLANKET_TRIES[arm]["causal_weight"])
    assert [*grid.BLANKETS] == [max(papers, key=papers.get)] == [heaviest]


@pytest.mark.parametrize("task", grid.GCN_RATES)
def test_the_whole_method_at_its_gcns_rate_has_its_best_try(task):
    results = Path(paths.__file__).parents[1] / "data" / "results" / "laptop"
    scores = []
    for number in range(grid.TRIES):
        file = results / f"causal_transformer.search.rate.{task}" / f"both_{number}" / "seed0.json"
        found = wide(json.loads(file.read_text(encoding="utf-8"))["rows"])
        scores.append(found["validation_accuracy"] + found["challenge_accuracy"])
    chosen = grid.GCN_USED[task]
    assert scores[chosen] == max(scores)
    used = config("both", f"causal_transformer.rate.{task}", "laptop")
    tried = config(f"both_{chosen}", f"causal_transformer.search.rate.{task}", "laptop")
    assert {key for key in used if used[key] != tried[key]} - {"map_rows"} == {
        "cells",
        "data",
        "data_seed",
        "real",
        "steps",
    }
    table_1 = config("both", f"causal_transformer.overlap.{task}.m5", "laptop")
    assert {key for key in used if used[key] != table_1[key]} == {"learning_rate", "causal_weight", "ramp"}


@pytest.mark.parametrize("task", grid.OVERLAP)
def test_the_control_of_held_attention_has_its_entropy_and_the_best_weight(task):
    beyond = Path(paths.__file__).parents[1] / "data" / "results" / "laptop"

    def stored(experiment, arm):
        folder = beyond / f"causal_transformer.beyond.{experiment}" / arm
        return [json.loads(file.read_text(encoding="utf-8")) for file in sorted(folder.glob("seed*.json"))]

    for part, experiment in (("search", f"search.{task}"), ("m5", f"{task}.m5")):
        ends = [found["history"][-1]["entropy"] for found in stored(experiment, grid.CHOSEN)]
        assert len(ends) == len(registry.seeds(f"causal_transformer.beyond.{experiment}", "laptop"))
        assert grid.SPREADS[task][part] == pytest.approx(np.mean(ends), abs=0.0051)
    scores = {
        arm: [
            wide(found["rows"])[f"{cell}_accuracy"]
            for cell in ("validation", "challenge")
            for found in stored(f"spread.search.{task}", arm)
        ]
        for arm in grid.SPREAD_TRIES
    }
    assert {len(one) for one in scores.values()} == {4}
    assert grid.SPREAD_USED[task] == max(scores, key=lambda arm: np.mean(scores[arm]))


def test_single_task_rows_differ_from_table_1_in_their_pairs_alone():
    for name in grid.OVERLAP:
        experiment = f"causal_transformer.overlap.{name}.m5"
        for arm in ("transformer", "both"):
            one, stl = (config(which, experiment, "laptop") for which in (arm, f"{arm}_stl"))
            assert stl == one | {"train_part": "challenge_train", "probe_rows": stl["probe_rows"]} != one


@pytest.mark.parametrize("name, column", [("nli", "subcase"), ("paraphrase", "kind")])
def test_rows_at_equal_distances_meet_what_comes_in_turn(name, column):
    """An even stride through kinds that come in turn may meet one of them alone."""
    settings = config("transformer_stl", f"causal_transformer.overlap.{name}.m5", "laptop")
    parts = runs.parts(settings["task"], settings["data"] | {"n_train": 100, "n_test": 100}, 0)
    for part, n in (("challenge", settings["map_rows"]), ("challenge_train", settings["probe_rows"])):
        shares = [Counter(row[column] for row in rows) for rows in (parts[part], runs.spread(parts[part], n))]
        for kind, count in shares[0].items():
            expected = n * count / len(parts[part])
            assert abs(shares[1][kind] - expected) <= max(2, 0.25 * expected), (part, kind)


def test_every_arm_of_a_sequence_has_the_rate_searched_on_its_first_task():
    arms = registry.arms("causal_transformer.sequence")
    rates = {arm: config(arm, "causal_transformer.sequence", "laptop")["learning_rate"] for arm in arms}
    assert rates["both"] == rates["transformer"] == grid.RATES["nli"]
    assert rates == {
        arm: config(arm, "causal_transformer.overlap.nli.m5", "laptop")["learning_rate"] for arm in arms
    }


def test_minorities_differ_in_their_data_alone():
    for name in grid.OVERLAP:
        settings = [
            config("both", f"causal_transformer.overlap.{name}.{suffix}", "laptop")
            for suffix in grid.MINORITIES
        ]
        rates = [one["data"].pop("minority") for one in settings]
        assert rates == [0, 0.01, 0.05] and settings[0] == settings[1] == settings[2]


def test_table_3_has_all_attentions():
    arms = registry.arms("causal_transformer.snli")
    assert {"full", "band", "dilated", "block", "random", "star", "relative", "both"} == set(arms)
    patterns = {config(arm, "causal_transformer.snli")["pattern"] for arm in arms}
    assert patterns == {"full", "band", "dilated", "block", "random", "star"}


# translation


@pytest.fixture(scope="module")
def captions():
    rows = [{"source": f"a {word} dog", "target": f"ein {word} Hund"} for word in ("big", "red", "old")]
    tokenizer = translation.bpe.tokenizer([text for row in rows for text in row.values()], 280)
    return rows, tokenizer, translation.encoded(rows, tokenizer)


def test_targets_end_and_do_not_begin(captions):
    rows, tokenizer, ready = captions
    batch = translation.collate(ready[:1] + [ready[1] | {"labels": ready[1]["labels"][:2]}])
    assert batch["input_ids"][0, 0] == tasks.BOS and batch["labels"][0, -1] == tasks.EOS
    assert tokenizer.decode(batch["labels"][0], skip_special_tokens=True).strip() == rows[0]["target"]
    assert (batch["labels"][1, 2:] == translation.IGNORED).all() and batch["attention_mask"].all()


def test_what_was_learned_by_heart_is_translated(captions, tmp_path):
    rows, tokenizer, ready = captions
    run = run_of(
        tmp_path,
        DE,
        "vanilla",
        steps=60,
        evaluate_every=60,
        d_model=16,
        d_ff=32,
        batch=3,
        learning_rate=2e-2,
        dropout=0.0,
        label_smoothing=0.0,
    )
    torch.manual_seed(0)
    model = translation.build_translator(run.config, len(tokenizer), 60)
    history = models.fit(
        run,
        model,
        ready,
        grouped(ready, 3, 60, 0),
        lambda model: translation.told(model, ready),
        translation.collate,
    )
    assert history[-1]["accuracy"] == 1 and history[-1]["validation_loss"] < 0.3
    for beams in (1, 2):
        assert translation.translations(model, ready, tokenizer, beams, 20) == [row["target"] for row in rows]
    found = translation.attention_of(model, ready)
    assert found["decoder"]["cycles"] == 0 <= found["encoder"]["violated"] <= 1


def test_the_papers_pair_is_kept_as_a_map(captions, nli):
    rows = runs.example_map(built("both"), nli[1])
    assert rows[0]["token"] == "<s>" and [row["token"] for row in rows].count("</s>") == 2
    assert {row["stack"] for row in rows} == {"encoder"}
    tokenizer = captions[1]
    torch.manual_seed(0)
    model = translation.build_translator(config("vanilla", DE), len(tokenizer), 4).eval()
    found = translation.example_maps(model, tokenizer)
    parts = {stack: [row for row in found if row["stack"] == stack] for stack in ("encoder", "decoder")}
    said = [
        "".join(row["token"] for row in one if row["token"] not in ("<s>", "</s>")) for one in parts.values()
    ]
    assert said == [sentence.replace(" ", "") for sentence in models.EXAMPLE]
    for one in (rows, *parts.values()):
        weights = torch.tensor([[row[f"to_{j}"] for j in range(len(one))] for row in one])
        assert (weights.sum(1) - 1).abs().max() < 1e-3
    assert not weights.triu(1).any() and parts["decoder"][-1]["token"] != "</s>"
    given = tasks.collate(tasks.encoded([{"sentence1": "a", "sentence2": "b", "label": 0}], nli[1]))
    del given["labels"]
    with torch.no_grad():
        maps = built("both", encoder_layers=2)(**given, output_attentions=True).encoder_attentions
    kept = models.shown_map("encoder", maps, ["x"] * maps[0].shape[2])
    assert kept[1]["to_2"] == pytest.approx(maps[0][0, 0, 1, 2].item(), abs=1e-5)


def test_only_everyday_english_keeps_the_papers_pair(tmp_path):
    snli = runs.run_pairs(run_of(tmp_path / "snli", "causal_transformer.snli", "full"))["history"]
    assert len([row for row in snli if row.get("stack") == "encoder"]) > 10
    assert not any("stack" in row for row in runs.run_pairs(run_of(tmp_path / "nli"))["history"])


def test_bleu_of_a_copy_is_100():
    pytest.importorskip("sacrebleu", reason="BLEU needs the package sacrebleu")
    bleu = translation.bleu_metric()
    assert bleu.corpus_score(["a dog in the park"], [["a dog in the park"]]).score == pytest.approx(100)


def test_a_missing_sacrebleu_is_named_before_anything_is_trained(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    monkeypatch.setitem(sys.modules, "sacrebleu.metrics", None)
    with pytest.raises(LabError, match="needs the package sacrebleu.*pip install sacrebleu"):
        translation.run_translation(run_of(tmp_path, DE, "vanilla"))
    assert not [*tmp_path.iterdir()]


def test_the_loss_is_in_the_stacks_of_its_arm():
    stacks = {
        arm: [*translation.build_translator(config(arm, DE), 300, 4).losses] for arm in registry.arms(DE)
    }
    assert stacks == {
        "vanilla": [],
        "gcn": [],
        "loss_encoder": ["encoder"],
        "loss_both": ["encoder", "decoder"],
        "both": ["encoder", "decoder"],
    }
