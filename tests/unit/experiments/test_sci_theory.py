"""Overhead and identifiability: counts against formulas, measures of agreement against known answers."""

import csv
import math
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

from causalnb.experiments.sci import identifiability as identify
from causalnb.experiments.sci import overhead
from causalnb.experiments.sci.artefacts import table1, theorem
from causalnb.experiments.sci.artefacts.verdicts import claims_on
from causalnb.lab import building, registry, results, runner
from causalnb.lab.verdicts import claims
from causalnb.tasks import english, scan
from tests.unit.experiments.made_up import counted, number, wide, write

registry.load_all()


def drawn(rows=400, width=6, seed=0):
    return np.random.default_rng(seed).standard_normal((rows, width))


def turned(rows, angle_seed=1):
    return rows @ identify.rotation(rows.shape[1], angle_seed)


HALF = np.arange(400) < 200


# --- measures of agreement


def test_mcc_is_one_up_to_order_sign_and_scale_and_small_for_strangers():
    rows = drawn()
    copy = rows[:, [3, 0, 5, 1, 4, 2]] * [1, -2, 0.1, -5, 3, 1] + 7
    assert identify.mcc(rows, copy) == pytest.approx(1)
    assert identify.mcc(rows, drawn(seed=1)) < 0.15
    assert identify.mcc(rows, turned(rows)) < 0.9
    assert identify.mcc(rows, np.zeros_like(rows)) == 0


def test_mcc_matches_one_to_one():
    """Two columns that both look like one of the other side cannot both have it."""
    x, y = drawn(width=1)[:, 0], drawn(width=1, seed=1)[:, 0]
    assert identify.mcc(np.stack([x, x], 1), np.stack([x, y], 1)) == pytest.approx(0.5, abs=0.06)


def test_slot_mcc_finds_the_order_of_slots():
    slots = drawn(width=3 * 6).reshape(-1, 3, 6)
    assert identify.slot_mcc(slots, slots[:, [2, 0, 1]][:, :, ::-1] * -2) == pytest.approx(1)
    assert identify.slot_mcc(slots, drawn(width=18, seed=1).reshape(-1, 3, 6)) < 0.2


def test_maps_are_found_by_the_family_that_has_them():
    rows = drawn()
    rotated, sheared = 2 * turned(rows) + 1, rows @ drawn(6, 6, 3)
    assert identify.procrustes_r2(rows, rotated, HALF) == pytest.approx(1)
    assert identify.linear_r2(rows, rotated, HALF) == pytest.approx(1, abs=1e-4)
    assert identify.procrustes_r2(rows, sheared, HALF) < 0.95 < identify.linear_r2(rows, sheared, HALF)
    strangers = drawn(seed=1)
    assert identify.procrustes_r2(rows, strangers, HALF) < 0.1
    assert identify.linear_r2(rows, strangers, HALF) < 0.1


def test_similarities_of_similarities_see_through_rotations():
    rows = identify.unit(drawn(80))
    assert identify.rsa(rows, turned(rows)) == pytest.approx(1)
    assert abs(identify.rsa(rows, identify.unit(drawn(80, seed=1)))) < 0.1


def test_a_rotation_is_orthogonal_and_of_its_seed():
    turn = identify.rotation(5, 3)
    assert np.allclose(turn @ turn.T, np.eye(5)) and np.array_equal(turn, identify.rotation(5, 3))
    assert not np.allclose(turn, identify.rotation(5, 4))


def test_invariance_by_hand():
    one, other = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[1.0, 0.0], [0.8, 0.6]])
    assert identify.invariance(one, other) == (pytest.approx(0.8), pytest.approx(0.4), 1.0)
    assert identify.invariance(one, other[::-1])[2] == 0.0


def test_a_probe_reads_what_is_there_and_guesses_otherwise():
    rows = drawn()
    labels = np.where(rows[:, 2] > 0, "up", "down")
    accuracy, commonest = identify.probe(rows, labels, HALF)
    assert accuracy > 0.95 and 0.4 < commonest < 0.6
    accuracy, commonest = identify.probe(rows, np.random.default_rng(1).permutation(labels), HALF)
    assert abs(accuracy - commonest) < 0.15
    assert identify.probe(rows, ["same"] * 400, HALF) == (1.0, 1.0)
    rare = np.where(np.arange(400) == 7, "once", labels)  # a label with a single row to fit
    assert identify.probe(rows, rare, HALF)[0] > 0.95


# --- data


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("jump", ("none", "none", "none", "none", "jump")),
        ("turn opposite left twice and run", ("and", "twice", "opposite", "left", "run")),
        ("walk after look around right thrice", ("after", "none", "none", "none", "walk")),
        ("look right after turn left", ("after", "none", "none", "right", "look")),
    ],
)
def test_factors_of_commands(command, found):
    assert identify.scan_factors(command) == dict(
        zip(("connective", "repeat", "manner", "direction", "content"), found, strict=True)
    )


@pytest.mark.parametrize(
    ("sentence", "found"),
    [
        ("the dog waited", ("none", "VI", "none", "the", "dog")),
        ("no big cat that waited chased a boy", ("none", "VT", "that", "no", "cat")),
        ("a king that chased the boy rested", ("none", "VI", "that", "a", "king")),
        ("a king that every boy chased was helped by a girl", ("none", "was", "that", "a", "king")),
        ("every poet near the cat was helped by a girl", ("none", "was", "place", "every", "poet")),
        ("the poet waited but a cat was helped by a girl", ("but", "VI", "none", "the", "poet")),
        ("the poet waited near a cat", ("none", "VI", "none", "the", "poet")),
    ],
)
def test_factors_of_sentences(sentence, found):
    names = ("connective", "predicate", "modifier", "determiner", "content")
    assert identify.english_factors(sentence) == dict(zip(names, found, strict=True))


@pytest.mark.parametrize("name", ["scan", "english"])
def test_unseen_structures_are_unseen_and_contents_differ(name):
    config = registry.config("sci.identifiability", name, "quick")
    task, texts_of, factors_of = identify.TASKS[name]
    trained, unseen, new = texts_of(config, 0)
    known = {task.structure(text) for text in trained}
    assert len(known) >= config["train_structures"] and len(unseen) == config["unseen_structures"]
    for group in unseen:
        assert len(set(group)) == config["contents"] and len({task.structure(text) for text in group}) == 1
        assert task.structure(group[0]) not in known
    assert set(identify.FACTORS[name]) == set(factors_of(trained[0])) - {"content"}
    words = {word for part in english.NEW.values() for word in part}
    for old, text in new:
        assert task.structure(old) == task.structure(text) and task.structure(old) in known
        assert len(words & set(text.split())) == 1 and not words & set(old.split())
    assert len({task.structure(old) for old, _ in new}) == len(new)
    assert bool(new) == (name == "english")
    assert texts_of(config, 0) == (trained, unseen, new) and texts_of(config, 1)[1] != unseen


def test_rows_have_no_answer_and_slots_are_those_of_the_text_alone():
    config = registry.config("sci.identifiability", "scan", "quick")
    encoder = identify.build_encoder(config, len(scan.VOCABULARY)).eval()
    (row,) = identify.rows_of(scan, ["jump twice"])
    assert row["structure"] == "_ twice" and set(row["labels"]) == {-100}
    texts = ["jump", "walk left twice after run", "jump"]
    slots = identify.slots_of(encoder, scan, texts)
    assert slots.shape == (3, config["structural_slots"], config["width"])
    assert np.allclose(slots[0], slots[2]) and not np.allclose(slots[0], slots[1], atol=1e-3)
    unpadded = identify.slots_of(encoder, scan, texts[:1])[0]
    assert np.allclose(unpadded, slots[0], atol=1e-5)


def test_the_loss_falls_and_the_two_encoders_differ(tmp_path):
    config = registry.config("sci.identifiability", "scan", "quick") | {"steps": 40, "evaluate_every": 20}
    run = registry.Run("x", "scan", 0, "quick", config, tmp_path, "cpu", lambda *_: None)
    made = identify.run_identifiability(run)
    first, last = made["history"]
    assert (first["step"], last["step"]) == (20, 40)
    assert last["loss"] < first["loss"] and last["second_loss"] < first["second_loss"]
    assert last["loss"] != last["second_loss"]
    found = made["metrics"]
    assert found[""]["mcc_shuffled"] < found[""]["mcc"] < 1 and found[""]["retrieval"] > 0.3
    assert found["new"]["retrieval"] is None
    assert identify.run_identifiability(run)["metrics"] == found  # from the checkpoints, which are complete


def test_untrained_encoders_have_no_history(tmp_path):
    config = registry.config("sci.identifiability", "english_untrained", "quick")
    run = registry.Run("x", "english_untrained", 0, "quick", config, tmp_path, "cpu", lambda *_: None)
    made = identify.run_identifiability(run)
    assert made["history"] == [] and 0 <= made["metrics"]["new"]["retrieval"] <= 1


# --- overhead


def config(arm, **changes):
    return registry.config("sci.overhead", arm, "quick") | changes


def test_an_embedding_is_no_operation_and_a_product_is_two_a_weight():
    linear = torch.nn.Linear(5, 7)
    assert overhead.flops(lambda: linear(torch.randn(3, 5))) == 2 * 3 * 5 * 7
    assert overhead.flops(lambda: torch.nn.Embedding(4, 9)(torch.zeros(2, dtype=torch.long))) == 0
    assert overhead.parameters(linear, linear) == 5 * 7 + 7


@pytest.mark.parametrize("tokens", [5, 16])
def test_the_base_costs_what_its_shape_says(tokens):
    """Two operations a weight and token, embedding and norms apart; and two products of attention."""
    settings = config("shipped")
    base = overhead.base_model(settings)
    norms = (2 * settings["layers"] + 1) * settings["hidden_size"]
    weights = overhead.parameters(base) - base.get_input_embeddings().weight.numel() - norms
    attention = settings["layers"] * 4 * tokens**2 * settings["hidden_size"]
    assert overhead.base_flops(base, tokens) == 2 * tokens * weights + attention


@pytest.mark.parametrize("width", [None, 32, 128])
def test_the_parts_are_the_model(width):
    """The whole model on real tensors minus its base: the sum of what is counted by part."""
    from transformers import LlamaConfig, LlamaForCausalLM

    from causalnb.sci import SCITransformer

    settings = config("shipped", d_structure=width)
    sizes, _, operations = overhead.package_parts(settings, overhead.base_model(settings))
    base = LlamaForCausalLM(overhead.base_model(settings).config)
    assert isinstance(base.config, LlamaConfig)
    ids = torch.randint(5, (1, 9))
    below = overhead.flops(lambda: base(ids))
    plain = overhead.parameters(base)
    model = SCITransformer.from_base(base, d_structure=width, cbm_layers=settings["cbm_layers"]).eval()
    assert overhead.parameters(model) - plain == sum(sizes.values())
    assert overhead.flops(lambda: model(ids)) - below == sum(operations(9).values())


def test_the_guides_parts_by_formula():
    settings = config("guide")
    sizes, embedding, operations = overhead.guide_parts(settings)
    width, slots = settings["hidden_size"], settings["structural_slots"]
    square = width * width
    assert embedding == settings["vocabulary"] * width
    assert sizes["content_encoder"] == 2 * (square + width) + 2 * width
    encoder = slots * width + (4 * square + 3 * width + 1) + 4 * (square + width) + 2 * (square + width)
    assert sizes["structural_encoder"] == encoder + 2 * (square + width) + 4 * width
    messages, update = 3 * square + 2 * width, 6 * square + 6 * width
    assert sizes["causal_binding"] == (
        4 * (square + width) + 2 * (square + width) + messages + update + 2 * square + width
    )
    assert operations(16)["content_encoder"] == 2 * 2 * 16 * square
    assert operations(16)["causal_binding"] % len(settings["cbm_layers"]) == 0


def test_what_the_source_states_is_what_it_prints():
    with open("data/paper/sci_table1.csv", newline="", encoding="utf-8") as file:
        printed = {(row["row"], row["column"], row["bound"]): row["value"] for row in csv.DictReader(file)}
    names = {
        "parameters_structural_encoder": "Structural Encoder",
        "parameters_content_encoder": "Content Encoder",
        "parameters_causal_binding": "Causal Binding Mechanism",
        "parameters_total": "Total",
    }
    for name, row in names.items():
        assert overhead.STATED[name] == float(printed[row, "Additional Parameters", ""])
    assert overhead.STATED["flops_largest"] == float(printed["Total", "FLOPS Overhead", "high"])
    assert overhead.STATED_STEP == float(printed["SCL", "FLOPS Overhead", ""])


def test_calls_are_timed_in_turn_and_compared_turn_by_turn():
    calls = []
    times = overhead.in_turn({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, 3)
    assert "".join(calls) == "abbaabba" and [len(some) for some in times.values()] == [3, 3]
    assert overhead.added([2.0, 30.0, 4.0], [1.0, 20.0, 2.0]) == pytest.approx(100)


def test_timed_models_agree_before_they_are_trained():
    settings = registry.config("sci.overhead.time", "timed", "quick")
    torch.manual_seed(0)
    plain, wrapped = overhead.two_models(settings)
    ids = torch.randint(3, settings["vocabulary"], (2, 6))
    with torch.no_grad():
        assert torch.equal(plain.eval()(ids).logits, wrapped.eval()(ids).logits)
    before = plain.state_dict()["model.embed_tokens.weight"].clone()
    overhead.training_steps(settings, plain, wrapped)["plain"]()
    assert not torch.equal(before, plain.state_dict()["model.embed_tokens.weight"])
    calls = overhead.decodings(settings, plain, wrapped)
    assert calls["plain", 5]().shape == (1, settings["prompt_tokens"] + 5)


# --- tables and figures

IDS = ("sci.overhead", "sci.overhead.time", "sci.identifiability", "sci.identifiability.brief")


@pytest.fixture(scope="module")
def names():
    """The metrics of each experiment and arm, from one quick run of each."""
    return {
        (id, arm): set(wide(runner.execute(id, arm, 0, "quick").rows))
        for id in IDS
        for arm in registry.arms(id)
    }


@pytest.fixture
def stored(names, tmp_path, monkeypatch):
    """Three seeds of everything the artefacts need, every metric drawn by name; no new words on SCAN."""
    for name in ("RESULTS", "FIGURES", "CACHE"):
        monkeypatch.setenv(f"CAUSALNB_{name}", str(tmp_path / name.lower()))
    for (id, arm), metrics in names.items():
        spec = counted(monkeypatch, id, 3)
        for seed in range(3):
            values = {name: number(id, arm, seed, name) for name in metrics}
            if arm.startswith("scan"):
                values |= {name: None for name in metrics if name.startswith("new_")}
            write(spec, arm, seed, {"": values}, [])
    yield
    plt.close("all")


def mean(id, arm, name):
    return math.fsum(number(id, arm, seed, name) for seed in range(3)) / 3


def row(table, title):
    (found,) = [cells for cells in table.rows if cells[0] == title]
    return found


@pytest.mark.parametrize("id", ["sci.table1", "sci.theorem"])
def test_each_artefact_is_built_from_its_results_and_stale_after(id, stored):
    made = building.build(id, "quick")
    assert {path.suffix for path in made} == {".csv", ".md", ".png", ".svg", ".tex"}
    assert building.status(id, "quick")[0] == "built"
    content = {path: path.read_bytes() for path in made}
    assert {path: path.read_bytes() for path in building.build(id, "quick")} == content
    for needed in registry.find(id).needs:
        arm = registry.arms(needed)[0]
        result = results.read(needed, arm, 0, "quick")
        results.write(replace(result, rows=[[*place, 0.123] for *place, _ in result.rows]))
        assert building.status(id, "quick")[0] == "stale"
        results.write(result)
        assert building.status(id, "quick")[0] == "built"


def test_the_cost_table_prints_the_guide_beside_the_counts(stored):
    table = table1.cost_table("quick")
    few, many = registry.config("sci.overhead", "guide", "quick")["tokens"]
    cells = row(table, "Causal Binding Mechanism")
    assert cells[1:3] == ["~3M", "~5%"]
    for place, arm in enumerate(table1.LOOKS):
        size, low, high = (
            mean("sci.overhead", arm, name)
            for name in (
                "parameters_causal_binding",
                f"flops_causal_binding_{few}",
                f"flops_causal_binding_{many}",
            )
        )
        assert cells[3 + 2 * place : 5 + 2 * place] == [f"{size:.2f}M", f"{low:.2f} to {high:.2f} %"]
    assert row(table, "Total")[1:3] == ["~10M", "~15-20%"] and row(table, "SCL")[1:3] == ["0", "~7%"]
    assert row(table, "projection to width d_s")[3:5] == ["", ""]


def test_every_version_has_its_row_of_lengths(stored):
    table = table1.lengths_table("quick")
    assert len(table.rows) == len(registry.arms("sci.overhead")) + 1
    total = mean("sci.overhead", "d128", "flops_total_16")
    assert row(table, "corrected, d_s = 128")[-1] == f"{total:.2f} %"
    from causalnb.sci import SCIConfig

    base = overhead.base_model(registry.config("sci.overhead", "shipped", "laptop")).config
    assert f"d_s = {SCIConfig(base).d_structure}" in table1.VERSIONS["shipped"]


def test_times_stand_beside_what_they_are_compared_with(stored):
    table = table1.time_table("quick")
    *_, last = table.rows
    before, after = (mean("sci.overhead.time", "timed", f"token_{name}_ms") for name in ("plain", "sci"))
    assert last[1:3] == [f"{before:.1f}", f"{after:.1f}"]
    assert last[3].startswith(f"{mean('sci.overhead.time', 'timed', 'token_sci'):.1f} ±")


def test_the_theorem_table_has_every_stage_and_leaves_out_what_was_not_measured(stored):
    table = theorem.theorem_table("quick")
    cells = row(table, "MCC across seeds")
    long, brief = "sci.identifiability", "sci.identifiability.brief"
    arms = [(long, "scan_untrained"), (brief, "scan"), (long, "scan"), (long, "english_untrained"),
            (long, "english")]  # fmt: skip
    for summary, (id, arm) in zip(cells[2:], arms, strict=True):
        assert summary.mean == pytest.approx(mean(id, arm, "mcc")) and summary.n == 3
    assert row(table, "new word: retrieval@1")[2:5] == [None] * 3
    assert "SCAN, 800 steps" in table.columns
    for name, encoder in theorem.STAGES.items():
        steps = registry.config(encoder.experiment, encoder.name, "laptop")["steps"]
        assert name == (f"{steps} steps" if steps else "untrained")


def test_the_probes_table_reads_both_places_before_and_after(stored):
    table = theorem.probes_table("quick")
    assert len(table.rows) == 10
    cells = [cells for cells in table.rows if cells[1] == "content: first noun"][0]
    expected = [
        mean("sci.identifiability", arm, f"probe_content_{place}")
        for arm in ("english_untrained", "english")
        for place in ("mean", "slots")
    ]
    assert [cell.mean for cell in cells[3:]] == pytest.approx(expected)


@pytest.mark.parametrize(("id", "count"), [("sci.table1", 7), ("sci.theorem", 2)])
def test_the_claims_are_decided_by_their_contrast(id, count, stored):
    table, decided = claims_on(id)("quick"), claims("sci").query("artefact == @id")
    assert [cells[0] for cells in table.rows] == list(decided.claim) and len(decided) == count
    for cells, (_, claim) in zip(table.rows, decided.iterrows(), strict=True):
        ours, _, theirs = claim.our_metric.partition("|")
        treated = mean(claim.experiment, claim.our_treatment, ours)
        difference = treated - mean(claim.experiment, claim.our_baseline, theirs)
        assert (
            float(cells[2].split()[0]) == pytest.approx(difference, abs=6e-4)
            and cells[3].label != "not attempted"
        )


def test_alternative_texts_tell_the_numbers(stored):
    _, cost = table1.cost_figure("quick")
    _, agreement = theorem.theorem_figure("quick")
    for arm in table1.LOOKS:
        total = mean("sci.overhead", arm, "parameters_total")
        assert f"{total:.1f} ({table1.VERSIONS[arm]})" in cost
    long, brief = "sci.identifiability", "sci.identifiability.brief"
    stages = [mean(id, arm, "mcc") for id, arm in ((long, "scan_untrained"), (brief, "scan"), (long, "scan"))]
    assert f"MCC across seeds {', '.join(f'{value:.2f}' for value in stages)}" in agreement
    assert "nan" not in cost + agreement
