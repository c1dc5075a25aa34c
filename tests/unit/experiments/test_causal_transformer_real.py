"""The Markov-blanket loss on a real base: arms, what they add to the loss, cells, choices; on tiny bases."""

import json
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F

from causalnb.attention import attention_maps, tap
from causalnb.causal_transformer import MarkovBlanketLoss, describe
from causalnb.causal_transformer.invariance import attention_shift, interchange
from causalnb.errors import LabError
from causalnb.experiments.causal_transformer import data, real, real_choose, real_model
from causalnb.experiments.causal_transformer.models import EXAMPLE
from causalnb.experiments.causal_transformer.readers import word_reader
from causalnb.lab import registry
from causalnb.lab.bases import pretrained
from causalnb.tasks import paraphrase, snli

SNLI, NLI = "causal_transformer.real.snli", "causal_transformer.real.nli.m5"
MAPS = "causal_transformer.real.maps"
LOSS = {"blanket": "hinge", "weight": 3.0}
RAMP = {"ramp": [0.25, 0.75], "steps": 4}  # the weight rises over two passes, after one


def config(arm="vanilla", id=SNLI, profile="quick", **changes):
    return {**registry.config(id, arm, profile), **changes}


def run(folder, arm="vanilla", id=SNLI, progress=lambda *_: None, **changes):
    settings = config(arm, id, **changes)
    return real.run_real(registry.Run(id, arm, 0, "quick", settings, folder, "cpu", progress))


@pytest.fixture(scope="module")
def rows():
    return snli.generate(12, seed=3)


@pytest.fixture
def base(rows):
    torch.manual_seed(0)
    texts = [row[name] for row in rows for name in ("sentence1", "sentence2")]
    off = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    return pretrained("tiny", texts, "classifier", num_labels=3, initializer_range=0.5, **off)


@pytest.fixture
def batch(base, rows):
    return data.collate(data.encoded(rows, real.reader(base, False)))


@pytest.mark.parametrize("arm", ["vanilla", "loss", "entropy", "hypothesis", "band", "both"])
def test_every_arm_on_snli_is_scored_on_the_same_rows(arm, tmp_path):
    found = run(tmp_path, arm)
    assert {*found["metrics"]} == {"", "test", "hard"} and [*found["bases"]] == ["tiny"]
    assert found["metrics"]["test"]["rows"] == 8 and 0 < found["metrics"]["hard"]["rows"] < 8
    assert {"accuracy", "macro_f", "violated", "entropy"} < {*found["metrics"]["test"]}
    assert [entry["step"] for entry in found["history"]] == [1, 2]
    assert all({"accuracy", "violated", "entropy", "loss"} < {*entry} for entry in found["history"])


def test_templates_are_scored_on_their_shifts_with_auc_and_counter_examples_weigh_more(tmp_path):
    plain, more = (run(tmp_path / arm, arm, NLI)["metrics"] for arm in ("vanilla", "balanced"))
    assert {*plain} == {"", "test", "challenge", "held_out"}
    assert all("auc" in values for cell, values in plain.items() if cell)
    assert "violated" in plain["challenge"] and "violated" not in plain["test"]
    assert plain[""]["rows"] == 40 < more[""]["rows"]
    real_cells = config("vanilla", NLI, "laptop")["real"]
    assert set(real_cells) <= {*data.REAL} and "paws_qqp" in real_cells


def test_arms_differ_in_what_their_names_say():
    plain, nli = config(profile="laptop"), config("vanilla", NLI, "laptop")
    assert config("hypothesis", profile="laptop") == plain | {"alone": True}
    assert config("band", profile="laptop") == plain | {"band": 3}
    update = real.REACHES[real.CHOSEN["reach"]]
    assert update["gcn"] == "paper" and config("gcn", profile="laptop") == plain | update
    assert config("both", profile="laptop") == config("loss_late", profile="laptop") | update
    assert config("loss", profile="laptop") == plain | {"blanket": "hinge", "weight": 10.0}
    late = config("loss_late", NLI, "laptop")
    assert late == nli | real.LATE[real.CHOSEN["late"]] and late["ramp"] == real.RAMP
    assert config("entropy_late", NLI, "laptop") == nli | {
        "entropy": real.CHOSEN["entropy"],
        "ramp": real.RAMP,
    }
    assert config("balanced", NLI, "laptop") == nli | {"balanced": True}
    words = config("interchanged", NLI, "laptop")
    assert words == nli | {"interchanged": True} and words["held"] == 0
    assert config("held", NLI, "laptop") == words | real.HELD[real.CHOSEN["held"]]
    pulled = words | {"entropy": real.CHOSEN["held_entropy"]}
    assert config("interchanged_entropy", NLI, "laptop") == pulled and not pulled["ramp"]


def test_a_search_sees_development_data_alone():
    for name, cells in (("snli", ["validation"]), ("nli", ["validation", "challenge"])):
        for arm in (*real.RATES, *real.TRIES[name]):
            settings = config(arm, f"causal_transformer.real.search.{name}", "laptop")
            assert settings["cells"] == cells and settings["real"] == []
            assert settings["steps"] == config(id=SNLI if name == "snli" else NLI, profile="laptop")["steps"]
            assert name == "snli" or settings["data"]["family"] == "development"


def test_a_reader_gives_the_ids_of_the_cut_model(base, rows):
    pairs, halves = (data.encoded(rows, real.reader(base, alone)) for alone in (False, True))
    for row, pair, half in zip(rows, pairs, halves, strict=True):
        assert pair["input_ids"] == base.ids(row["sentence1"], row["sentence2"], special=True)
        assert half["input_ids"] == base.ids(row["sentence2"], special=True)
        assert pair["labels"] == half["labels"] == row["label"]
        ends = [i for i, one in enumerate(pair["input_ids"]) if one == base.special("sep")]
        assert pair["token_type_ids"] == [0] * (ends[0] + 1) + [1] * (ends[1] - ends[0])


def losses_of(base, batch, training=True, **changes):
    """(loss, cross-entropy) of the model under an arm, on four passes of a batch."""
    base.model.train(training)
    with real_model.added(base.model, config(**changes)):
        passes = [base.model(**batch) for _ in range(4)]
    return [(out["loss"], F.cross_entropy(out["logits"], batch["labels"])) for out in passes]


def test_the_loss_is_the_blankets_of_the_maps(base, batch):
    valid = batch["attention_mask"].bool()
    given = {name: value for name, value in batch.items() if name != "labels"}
    maps = attention_maps(base.model.eval(), **given)
    aim = torch.stack([MarkovBlanketLoss(self_loop=True)(one, valid) for one in maps]).mean()
    assert aim > 0.01
    for (loss, task), share in zip(losses_of(base, batch, **LOSS, **RAMP), (0, 0, 0.5, 1), strict=True):
        torch.testing.assert_close(loss, task + 3 * share * aim)
    assert base.model.passes == 4 and not base.model._forward_hooks


def test_entropy_is_pulled_from_either_side_in_training_alone(base, batch):
    valid = batch["attention_mask"].bool()
    given = {name: value for name, value in batch.items() if name != "labels"}
    maps = attention_maps(base.model.eval(), **given)
    rows = [torch.special.entr(one).sum(-1).transpose(1, 2)[valid] for one in maps]  # (tokens, H) each
    entropy = torch.stack(rows).mean()
    for target in (entropy.item() + 0.5, entropy.item() - 0.5):
        loss, task = losses_of(base, batch, entropy=target, weight=2.0, **RAMP)[-1]
        torch.testing.assert_close(loss, task + 1.0, rtol=0, atol=1e-4)
        base.model.zero_grad()
        loss.backward()
        assert base.model.bert.encoder.layer[0].attention.self.query.weight.grad.abs().sum() > 0
    loss, task = losses_of(base, batch, entropy=entropy.item() + 0.5, weight=2.0)[0]  # from the first pass on
    torch.testing.assert_close(loss, task + 1.0, rtol=0, atol=1e-4)
    loss, task = losses_of(base, batch, training=False, entropy=0.0)[-1]
    torch.testing.assert_close(loss, task)
    assert not base.model._forward_hooks


def test_value_updates_begin_closed_open_in_training_and_can_be_shut(base, batch, tmp_path):
    given = {name: value for name, value in batch.items() if name != "labels"}
    model = base.model.eval()
    before = model(**given).logits
    with real_model.added(model, config("gcn", reach=25.0)):
        torch.testing.assert_close(model(**given).logits, before)
        opened = real_model.gates(model)
        assert len(opened) == model.config.num_hidden_layers and not torch.stack(opened).any()
        for module in model.modules():
            if hasattr(module, "gate"):
                module.gate.data += 0.1
        torch.testing.assert_close(torch.stack(real_model.gates(model)), torch.full((2, 2), 2.5))
        now = model(**given).logits
        assert not torch.allclose(now, before)
        with real_model.shut(model):
            torch.testing.assert_close(model(**given).logits, before)
        torch.testing.assert_close(model(**given).logits, now)
    found = run(tmp_path, "gcn")["metrics"]
    assert found[""]["gate"] > 0 and 0 <= found["test"]["shut"] <= 1 and "shut" not in found["hard"]


@pytest.mark.parametrize("arm", ["vanilla", "loss_late", "entropy_late"])
def test_maps_that_are_shown_are_of_validation_pairs_and_of_the_paper_s_pair(arm, tmp_path):
    found = run(tmp_path, arm, MAPS)
    told, drawn = found["metrics"]["validation"], found["history"][2:]
    assert {*found["metrics"]} == {"", "validation"}
    assert {"violated", "entropy", "neighbours", "arcs", "cycles", "hubs", "column_max"} < {*told}
    tokens = [row["token"] for row in drawn]
    assert tokens[0] == "[CLS]" and tokens.count("[SEP]") == 2 and not any("##" in one for one in tokens)
    assert "".join(tokens[1:-1]).replace("[SEP]", "") == "".join(EXAMPLE).replace(" ", "")
    for row in drawn:
        assert row["stack"] == "encoder"
        assert sum(row[f"to_{j}"] for j in range(len(tokens))) == pytest.approx(1, abs=1e-3)


def test_compared_sentences_are_each_read_alone(base, rows):
    model, encoder, seen = base.model.eval(), base.model.base_model, {}
    given = data.collate(data.encoded(rows, real.reader(base, False, apart=True)))
    second = given["token_type_ids"].bool()
    assert len({*given["attention_mask"].sum(1).tolist()}) > 1  # some are padded
    del given["labels"]

    def alone(text: str):
        ids = torch.tensor([base.placed(base.tokenizer(text)["input_ids"])])
        return encoder(input_ids=ids).last_hidden_state.mean(1)[0]

    with torch.no_grad():
        pairs = [[alone(row[name]) for name in ("sentence1", "sentence2")] for row in rows]
        with real_model.compared(model):
            encoder.pooler.register_forward_hook(lambda _, asked, out: seen.update(states=asked[0], out=out))
            said = model(**given).logits
            for (u, v), out in zip(pairs, seen["out"], strict=True):
                both = torch.cat((u, v, (u - v).abs(), u * v))
                literal = torch.tanh(encoder.pooler.dense(both))
                torch.testing.assert_close(out, literal, atol=1e-5, rtol=1e-4)
            before, first = seen["states"], given["attention_mask"].bool() & ~second
            other = given | {"input_ids": given["input_ids"].where(~second, given["input_ids"].flip(0))}
            model(**other)
            torch.testing.assert_close(seen["states"][first], before[first])
            assert not torch.allclose(seen["states"][second], before[second])
            torch.testing.assert_close(model(**given).logits, said)
        with pytest.raises(IndexError):  # outside it is of no use
            model(**given)
        encoder.pooler = None
        with pytest.raises(LabError, match="no pooler"), real_model.compared(model):
            pass


def test_the_comparison_is_trained(tmp_path):
    found = run(tmp_path, "compared", NLI)
    assert {"accuracy", "violated"} < {*found["metrics"]["challenge"]}


OTHER = "causal_transformer.real.search.nli"


@pytest.fixture
def marks(base):
    return [base.special(name) for name in ("pad", "cls", "sep")]


@pytest.fixture
def classes(base, rows, marks):
    found = real_model.classes_of(
        data.encoded(rows, real.reader(base, False)), base.model.config.vocab_size, 0.4, marks
    )
    assert len(found.unique()) < len(found)  # some words are alike
    return found


def test_words_are_classed_by_their_neighbours_and_marks_are_alone(base, rows, marks):
    ready = data.encoded(rows, real.reader(base, False))
    all_alike = real_model.classes_of(ready, base.model.config.vocab_size, 1.42, marks)
    met = {one for row in ready for one in row["input_ids"]}
    assert len({all_alike[one].item() for one in met - {*marks}}) == 1
    assert all((all_alike == all_alike[mark]).sum() == 1 for mark in marks)


def test_classes_are_those_of_training_pairs(monkeypatch, tmp_path):
    asked = []

    def spied(rows, *arguments):
        asked.append(len(rows))
        return torch.arange(arguments[0])

    monkeypatch.setattr(real, "classes_of", spied)
    found = run(tmp_path, "interchanged", OTHER)["metrics"]
    assert asked == [found[""]["rows"]] and found["challenge"]["shift"] == 0


def drawn(batch, classes):
    torch.manual_seed(3)
    return interchange(batch["input_ids"], batch["token_type_ids"], classes)


def test_words_that_both_sentences_have_are_interchanged_in_training_alone(base, batch, classes):
    ids, read = batch["input_ids"], []
    hook = base.model.bert.register_forward_pre_hook(lambda _, given: read.append(given[0]))
    with real_model.added(base.model.train(), config(interchanged=True), classes):
        torch.manual_seed(3)
        loss = base.model(**batch)["loss"]
        base.model.eval()(**batch)
    renamed = drawn(batch, classes)
    assert not torch.equal(renamed, ids) and torch.equal(read[0], renamed) and torch.equal(read[1], ids)
    hook.remove()
    assert not base.model._forward_pre_hooks
    torch.testing.assert_close(loss, base.model(**{**batch, "input_ids": renamed})["loss"])


@pytest.mark.parametrize("apart", [False, True])
def test_held_maps_are_pulled_to_those_of_the_words_before(apart, base, rows, classes):
    ready = data.encoded(rows, real.reader(base, False, apart))
    batch = data.collate(ready)
    asked = {name: value for name, value in batch.items() if name != "labels"}
    changes = config(interchanged=True, held=5.0, compared=apart, **RAMP)
    queries = base.model.bert.encoder.layer[0].attention.self.query.weight
    with real_model.added(base.model, changes, classes):
        for share in (0, 0, 0.5, 1):
            torch.manual_seed(3)
            out = base.model.train()(**batch)
            task = F.cross_entropy(out["logits"], batch["labels"])
            maps, ids = [], drawn(batch, classes)
            for words in (ids, asked["input_ids"]):  # gradients go through both
                with tap(base.model.eval()) as records:
                    base.model(**asked | {"input_ids": words})
                maps.append([record.attention() for record in records])
            shift = attention_shift(*maps, batch["attention_mask"])
            torch.testing.assert_close(out["loss"], task + 5 * share * shift)
        ours, literal = (torch.autograd.grad(one, queries)[0] for one in (out["loss"] - task, 5 * shift))
        assert literal.abs().sum() > 0
        torch.testing.assert_close(ours, literal, rtol=1e-3, atol=1e-6)
        assert real_model.shift_of(base.model, ready, classes, 3) == pytest.approx(shift.item(), rel=1e-4)
    assert not base.model._forward_hooks and not base.model._forward_pre_hooks


def test_maps_are_held_where_words_change_and_beside_no_other_loss(base, classes):
    for changes, said in (
        ({"held": 1.0}, "maps are held where words are interchanged: set interchanged"),
        ({"held": 1.0, "interchanged": True, "entropy": 1.0}, "one loss on maps: leave out held, or"),
        ({"held": 1.0, "interchanged": True, **LOSS}, "one loss on maps: leave out held, or"),
    ):
        with pytest.raises(LabError, match=said), real_model.added(base.model, config(**changes), classes):
            pass


def test_arms_with_other_words_tell_how_far_maps_move_and_go_on_where_they_stopped(tmp_path):
    def stop(step, *_):
        if step == 3:
            raise KeyboardInterrupt

    for held in (0.0, 10.0):
        changes = {"steps": 4, "held": held}
        whole = run(tmp_path / f"{held}", "interchanged", OTHER, **changes)
        assert (
            0 < whole["metrics"]["challenge"]["shift"] < 1 and "shift" not in whole["metrics"]["validation"]
        )
        folder = tmp_path / f"{held}, stopped"
        with pytest.raises(KeyboardInterrupt):
            run(folder, "interchanged", OTHER, stop, **changes)
        assert (folder / "checkpoint-2").is_dir()
        assert run(folder, "interchanged", OTHER, **changes) == whole


def test_pieces_of_words_are_shown_without_their_marks(base):
    asked = []

    def pieces(ids):
        asked.extend(ids)
        return [f"##{one}" for one in ids]

    stand_in = SimpleNamespace(tokenizer=SimpleNamespace(convert_ids_to_tokens=pieces), places=base.places)
    read = real.reader(base, False)
    shown = real_model.example_map(base.model, stand_in, read)
    pair = base.tokenizer(*EXAMPLE)["input_ids"]
    kept = [one if one in base.places else base.tokenizer.unk_token_id for one in pair]
    assert asked == kept and [row["token"] for row in shown] == [str(one) for one in kept]


def test_in_a_band_tokens_see_their_neighbours_and_the_first_one(base, batch):
    given = {name: value for name, value in batch.items() if name != "labels"}
    with real_model.added(base.model.eval(), config(band=3)):
        maps = attention_maps(base.model, **given)
    tokens = batch["input_ids"].shape[1]
    place = torch.arange(tokens)
    near = ((place[:, None] - place).abs() <= 3) | (place == 0) | (place[:, None] == 0)
    seen = near & batch["attention_mask"].bool()[:, None, None]
    assert tokens > 10 and not batch["attention_mask"].all()
    for one in maps:
        assert torch.equal(one > 0, seen.expand_as(one))
    assert not base.model._forward_pre_hooks


def test_maps_are_measured_as_described(base, rows):
    ready = data.encoded(rows, real.reader(base, False))
    batch = data.collate(ready)
    valid = batch["attention_mask"].bool()
    maps = attention_maps(base.model.eval(), **{k: v for k, v in batch.items() if k != "labels"})
    told = [describe(one, valid, self_loop=True) for one in maps]
    shape = real_model.map_shape(base.model, ready)
    for name, value in shape.items():
        assert value == pytest.approx(sum(one[name] for one in told) / len(told), abs=1e-5)
    assert 0 < shape["violated"] <= 1


def test_a_stopped_run_goes_on_with_its_multipliers(tmp_path):
    changes = {"steps": 4, "blanket": "auglag", "blanket_settings": {"rho": 5.0, "gamma_max": 30.0}}
    whole = run(tmp_path / "whole", **changes)

    def stop(step, *_):
        if step == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "stopped", progress=stop, **changes)
    assert (tmp_path / "stopped" / "checkpoint-2").is_dir()
    again = run(tmp_path / "stopped", **changes)
    assert again["history"][-1]["loss"] > 2  # multipliers that began anew would weigh less
    assert again == whole


def test_hard_rows_are_those_that_words_of_the_second_sentence_mislead_on():
    found = data.parts("snli", config()["data"], 0)
    asked = real.scored_cells(found, config())
    said = word_reader(found, "sentence2")
    right = sum(label == row["label"] for label, row in zip(said, found["test"], strict=True))
    assert len(asked["hard"]) == len(asked["test"]) - right > 0
    assert all(row in found["test"] for row in asked["hard"])


def test_a_paraphrase_follows(monkeypatch):
    pairs = [{"sentence1": "a b", "sentence2": "b a", "label": label} for label in (0, 1)]
    monkeypatch.setitem(data.REAL, "paws_qqp", lambda: pairs)
    asked = real.scored_cells({"test": pairs}, {"cells": ["test"], "real": ["paws_qqp"]})
    assert [row["label"] for row in asked["paws_qqp"]] == [1 - row["label"] for row in pairs]
    assert asked["test"] == pairs
    assert paraphrase.LABELS[1] == "paraphrase" and data.LABELS["overlap"][0] == "entailment"


# what is chosen


def made_up(accuracy, violated, entropy=1.0, gate=None, shift=None):
    told = {"gate": gate, "shift": shift}
    return SimpleNamespace(
        experiment="x",
        arm="y",
        seed=0,
        config={"cells": ["validation", "challenge"]},
        value=lambda cell, measure: told.get(measure, accuracy if cell == "validation" else 0.5),
        history=[{"violated": 0.9, "entropy": 9.0}, {"violated": violated, "entropy": entropy}],
    )


@pytest.mark.parametrize(
    "outside, loss",
    [
        ((0.09, 0.05, 0.01), "late_30"),  # of three that are obeyed the best
        ((0.3, 0.2, 0.11), "late_100"),  # of none the nearest
    ],
)
@pytest.mark.parametrize(
    "gates, reach",
    [
        ((0.03, 0.2, 0.7), "reach_1000"),  # of two whose gates open the better
        ((0.03, 0.2, 0.08), "reach_250"),
        ((0.03, 0.05, 0.04), "reach_250"),  # of none the one that opens most
    ],
)
@pytest.mark.parametrize(
    "shifts, weight",
    [
        ((0.07, 0.02), "held_1"),  # of two that keep still the better
        ((0.09, 0.02), "held_10"),
        ((0.3, 0.2), "held_10"),  # of none the stiller
    ],
)
def test_of_what_is_there_the_best_is_chosen(monkeypatch, outside, loss, gates, reach, shifts, weight):
    tries = dict(zip(real.RATES, [made_up(a, 0.9) for a in (0.6, 0.8, 0.7)], strict=True))
    for arm, accuracy, share in zip(real.LATE, (0.7, 0.8, 0.6), outside, strict=True):
        tries[arm] = made_up(accuracy, share, 2.0 + share)
    for arm, accuracy, gate in zip(real.REACHES, (0.8, 0.6, 0.7), gates, strict=True):
        tries[arm] = made_up(accuracy, 0.9, gate=gate)
    for arm, accuracy, shift in zip(real.HELD, (0.7, 0.6), shifts, strict=True):
        tries[arm] = made_up(accuracy, 0.9, 3.0 + shift, shift=shift)
    tries["interchanged"] = made_up(0.9, 0.9, shift=0.8)
    tries["loss_late"] = made_up(0.5, 0.1, 1.234)  # on SNLI itself
    monkeypatch.setattr(real_choose, "stored", lambda search, arm: [tries[arm]])
    entropy = {"late_30": 2.05, "late_100": 2.11}[loss]
    rates = {"snli": 1e-4, "nli": 1e-4}
    ended = {"entropy": entropy, "snli_entropy": 1.23, "longer_entropy": 1.23}
    ended["held_entropy"] = round(3.0 + dict(zip(real.HELD, shifts, strict=True))[weight], 2)
    assert real_choose.computed() == {**rates, "late": loss, "reach": reach, "held": weight, **ended}


def test_the_choices_are_those_of_the_stored_search(monkeypatch):
    monkeypatch.delenv("CAUSALNB_RESULTS", raising=False)
    assert real_choose.computed() == real.read_chosen()


def test_choices_that_lack_one_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(real, "FILE", tmp_path / "real_chosen.json")
    with pytest.raises(LabError, match="real_chosen.json holds no choices .*: restore it from git"):
        real.read_chosen()
    whole = dict.fromkeys(real.NAMES, 1)
    real.FILE.write_text(json.dumps(whole), encoding="utf-8")
    assert real.read_chosen() == whole
    del whole["entropy"]
    real.FILE.write_text(json.dumps(whole), encoding="utf-8")
    with pytest.raises(LabError, match="real_chosen.json lacks 'entropy': restore it"):
        real.read_chosen()
