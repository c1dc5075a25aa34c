"""C2DLM on real bases: what is seen of a sentence, each arm's run on tiny ones, what the search chooses."""

import json
import re
from types import SimpleNamespace

import pytest
import torch
from transformers import AutoModel, set_seed

from causalnb.c2dlm import MaskedDiffusionModel
from causalnb.errors import LabError
from causalnb.experiments.c2dlm import real, real_choose, real_data
from causalnb.lab import adapters, registry, results
from causalnb.lab.bases import pretrained
from causalnb.lab.registry import Run
from causalnb.paths import root
from causalnb.tasks import stg

PROMPT = (
    "Here is a person. Smoking: 3, Yellow fingers: 4, Clothing size: 5, Weight: 5, Exercise: 2, Hormones: 1, "
    "Room size: 9, Certain gene: 7 Answer: "
)
BOTH = "c2dlm.real.bidirectional"
PLAIN, TESTS = ("diffusion", "swapped"), ("validation", "iid", "ood")
TEXTS = {"train": [(PROMPT, "Middle Risk")]}


def config(arm, **changes):
    return {**registry.config("c2dlm.real.stg_l", arm, "quick"), **changes}


def run(folder, arm, seed=0, **changes):
    settings = config(arm, **changes)
    return real.run_real(Run("c2dlm.real", arm, seed, "quick", settings, folder, "cpu", lambda *_: None))


def row_of(arm, seed=0):
    settings = config(arm)
    base = real.loaded(settings, TEXTS)
    (row,) = real_data.rows_of(base, TEXTS["train"], settings, seed)
    ids = {place: token for token, place in base.places.items()}
    return row, base.tokenizer.convert_ids_to_tokens([ids[token] for token in row["input_ids"]])


@pytest.mark.parametrize("arm", real.settled())
def test_every_arm_trains_and_is_scored(arm, tmp_path):
    found = run(tmp_path, arm)
    assert [*found["bases"]] == ["tiny"] and len(found["history"]) == 2
    assert all(0 <= found["metrics"][part]["accuracy"] <= 1 for part in ("iid", "ood"))
    assert ("flow/raw" in found["metrics"]) == (arm != "enforced")
    counted = found["metrics"][""]
    assert counted["trainable_parameters"] == counted["parameters"]


def test_a_decoder_is_trained_to_read_what_follows(tmp_path, monkeypatch):
    models, answers = [], real.answers
    monkeypatch.setattr(real, "answers", lambda model, *given: models.append(model) or answers(model, *given))
    settings = registry.config(BOTH, "diffusion", "quick")
    found = real.run_real(Run(BOTH, "diffusion", 0, "quick", settings, tmp_path, "cpu", lambda *_: None))
    assert len(found["history"]) == 2 and "flow/raw" in found["metrics"]
    counted, model = found["metrics"][""], models[-1].eval()
    assert 0 < counted["trainable_parameters"] < counted["parameters"] / 2
    first, other = torch.tensor([[5, 6, 7]]), torch.tensor([[5, 6, 8]])
    assert not torch.equal(model(input_ids=first).logits[:, 0], model(input_ids=other).logits[:, 0])


def test_a_decoder_reads_the_sentence_of_the_encoder_between_its_own_ends():
    settings = registry.config(BOTH, "diffusion", "quick")
    base = real.loaded(settings, TEXTS)
    (row,) = real_data.rows_of(base, TEXTS["train"], {**settings, "graph": "causal"}, 0)
    ids = {place: token for token, place in base.places.items()}
    assert base.tokenizer.decode([ids[one] for one in row["input_ids"][:-1]]) == "".join(
        (PROMPT.rstrip(), " Middle Risk")
    )
    assert row["input_ids"][-1] == base.special("eos")
    mask = row["supervision"].dense()
    causes = base.tokenizer.decode([ids[row["input_ids"][k]] for k in (mask[-2] == 1).nonzero()[:, 0]])
    assert [*re.findall(r"\w+", causes)] == ["Smoking", "3", "Weight", "5", "Exercise", "2"]


def test_a_decoder_is_loaded_with_all_its_weights_to_train():
    base = real.loaded(registry.config(BOTH, "diffusion", "quick"), TEXTS)
    assert all(weight.requires_grad for weight in base.model.parameters())


def test_a_start_token_is_before_the_prompt_where_there_is_one():
    base = real.loaded(registry.config(BOTH, "diffusion", "quick"), TEXTS)
    assert real_data.starts_of(base) == []
    base.tokenizer.bos_token = base.tokenizer.mask_token
    assert real_data.starts_of(base) == [base.special("mask")]


def test_arms_begin_with_one_model_and_one_noise(tmp_path):
    plain, guided = run(tmp_path / "a", "diffusion"), run(tmp_path / "b", "c2dlm", gamma=0.0)
    assert plain["history"] == guided["history"] and plain["bases"] == guided["bases"]
    other = run(tmp_path / "c", "c2dlm", gamma=5.0, gamma_schedule=False)
    assert other["history"] != plain["history"]
    assert run(tmp_path / "d", "diffusion", seed=1)["history"] != plain["history"]


def test_the_answer_is_drawn_to_the_words_of_its_causes():
    row, words = row_of("c2dlm")
    mask, place = row["supervision"].dense(), words.index("middle")
    causes = [words[k] for k in (mask[place] == 1).nonzero()[:, 0].tolist()]
    assert causes == ["smoking", ":", "3", "weight", ":", "5", "exercise", ":", "2"]
    assert words[0] == "[CLS]" and words[-3:] == ["middle", "risk", "[SEP]"]
    assert row["prompt_mask"] == [1] * (len(words) - 3) + [0] * 3
    assert row["input_ids"][-3:-1] == row["said"]


def test_a_placebo_has_as_many_edges():
    true, placebo = row_of("c2dlm")[0]["supervision"], row_of("placebo", seed=1)[0]["supervision"]
    edges = [int((one.relation == 1).sum()) for one in (true, placebo)]
    assert edges == [3, 3] and not torch.equal(true.dense(), placebo.dense())


def test_enforced_no_number_reaches_the_answer_but_those_of_its_causes():
    row, words = row_of("enforced")
    sees = row["visible"].float()
    reached = torch.linalg.matrix_power(sees, 6)[words.index("middle")] > 0
    seen = {word for word, hit in zip(words, reached.tolist(), strict=True) if hit}
    assert seen == {"smoking", "weight", "exercise", ":", "3", "5", "2", "middle", "risk"}
    assert row_of("isolated")[0]["supervision"].rows.all()


def test_swapped_rows_keep_causes_and_answers_and_the_tests_are_the_same():
    plain, swapped = (real_data.pairs(registry.config("c2dlm.real.stg_l", arm, "laptop")) for arm in PLAIN)
    assert len(swapped["train"]) == 10 * len(plain["train"])
    for (prompt, answer), (other, same) in zip(plain["train"], swapped["train"], strict=False):
        numbers, theirs = stg.values(prompt), stg.values(other)
        assert answer == same and all(numbers[name] == theirs[name] for name in stg.CAUSES)
    assert numbers != theirs and {part: plain[part] for part in TESTS} == {
        part: swapped[part] for part in TESTS
    }


@pytest.mark.parametrize("arm", real.KEPT)
def test_what_adapters_learned_is_kept(arm, tmp_path, monkeypatch):
    models, answers = [], real.answers
    monkeypatch.setattr(real, "answers", lambda model, *given: models.append(model) or answers(model, *given))
    monkeypatch.setattr(adapters, "file_of", lambda *_: tmp_path / "kept.safetensors")
    settings = registry.config("c2dlm.real.adapters", arm, "quick")
    given = Run("c2dlm.real.adapters", arm, 0, "quick", settings, tmp_path, "cpu", lambda *_: None)
    found = real.run_real(given)["metrics"]
    assert found[""]["trainable_parameters"] < found[""]["parameters"] / 2
    assert {f"do/{name}" for name in stg.ATTRIBUTES} <= {*found}
    set_seed(0)  # a tiny base is drawn
    base = real.loaded(settings, real_data.pairs(settings))
    adapters.add(base.model, settings["lora"])
    weights = dict(real.build(settings, base).named_parameters())
    learned = {name: one for name, one in models[-1].named_parameters() if one.requires_grad}

    def same():
        return {name for name, one in learned.items() if torch.equal(one.half(), weights[name].half())}

    assert not same() and all(weights[name].requires_grad for name in learned)
    adapters.load(base.model, tmp_path / "kept.safetensors")
    assert same() == {*learned}
    assert all(
        torch.equal(one, weights[name]) for name, one in models[-1].named_parameters() if name not in learned
    )


def test_moved_tells_who_reads_copies_from_who_reads_causes(monkeypatch):
    settings, part = config("diffusion"), stg.generate(3)["test"][:60]
    base = real.loaded(settings, {"iid": part})
    back = {place: token for token, place in base.places.items()}

    def reader(cause, copy):  # answers by the rule, from the copy where it is asked to
        def said(model, rows, base):
            found = []
            for row in rows:
                text = base.tokenizer.decode([back[one] for one in row["input_ids"]])
                number = {
                    name: int(re.search(rf"{name.lower()} ?: (\d+)", text)[1]) for name in stg.ATTRIBUTES
                }
                number[cause] = number[copy]
                found.append([stg.risk(*(number[name] for name in stg.CAUSES))])
            return found

        return said

    for cause, copy in (("Weight", "Weight"), ("Weight", "Clothing size")):
        monkeypatch.setattr(real, "answers", reader(cause, copy))
        found = real.moved(None, base, part, settings, 0)
        for name in stg.ATTRIBUTES:
            changed, should = (found[f"do/{name}"][its] for its in ("changed", "should"))
            if name in (cause, copy) and cause != copy:
                assert (changed > 0.1) is (name == copy) and (should > 0.1) is (name == cause)
            else:
                assert changed == should and (should > 0.1) is (name in stg.CAUSES)


def test_an_answer_counts_word_by_word(monkeypatch):
    rows = [{"said": [1, 2]}, {"said": [1, 2]}]
    monkeypatch.setattr(real, "answers", lambda *_: [[1, 2], [1, 3]])
    assert real.accuracy(None, rows, None) == 0.5


@pytest.mark.parametrize("arm", ["diffusion", "enforced"])
def test_answers_end_where_the_model_ends_them(arm):
    settings = config(arm)
    texts = real_data.pairs(settings)
    base = real.loaded(settings, texts)
    rows = real_data.data(base, texts, settings, 0)["iid"]
    model = real.build(settings, base)
    head = model.get_output_embeddings()
    with torch.no_grad():
        head.bias[real_data.end_of(base)] = 1e4
    assert real.answers(model, rows, base) == [[] for _ in rows]


def test_a_filler_is_cut_tied_and_saved(tmp_path):
    base = pretrained("tiny", ["a b c", "c d"], "filler", hidden_dropout_prob=0.0)
    inside, head = base.model.get_input_embeddings(), base.model.get_output_embeddings()
    assert head.weight is inside.weight and len(head.bias) == len(base.places) == inside.num_embeddings
    assert base.model.cls.predictions.bias is head.bias and base.model.config.hidden_dropout_prob == 0.0
    model = MaskedDiffusionModel.from_base(base.model.eval(), base.special("mask"))
    ids = torch.tensor([base.ids("a b c", special=True)])
    model.save_pretrained(tmp_path)
    again = AutoModel.from_pretrained(tmp_path).eval()
    torch.testing.assert_close(again(input_ids=ids).logits, model(input_ids=ids).logits)
    assert again.get_output_embeddings().weight is again.get_input_embeddings().weight


def test_tiny_encoders_are_the_same_each_time():
    made = []
    for _ in range(2):
        torch.manual_seed(0)
        made.append(pretrained("tiny", ["five words make one text"], "filler").digest)
    assert made[0] == made[1]


def test_the_search_chooses_by_both_development_parts(monkeypatch):
    scores = dict.fromkeys(real.SEARCHED, (0.1, 0.1))
    scores |= {"diffusion_lr1e-4": (0.9, 0.5), "diffusion_lr3e-4": (0.8, 0.7), "c2dlm_gamma3": (0.2, 0.1)}
    changed = {}

    def read(id, arm, seed, profile):
        settings = registry.config(id, arm, profile) | changed
        values = dict(zip(("iid", "ood"), scores[arm], strict=True))
        return SimpleNamespace(config=settings, value=lambda part, _: values[part])

    monkeypatch.setattr(results, "read", read)
    assert real_choose.computed() == {
        "diffusion": {"learning_rate": 3e-4},
        "c2dlm": {"learning_rate": 1e-4, "gamma": 3.0},
    }
    changed["steps"] = 7
    with pytest.raises(LabError, match="other settings now"):
        real_choose.computed()


def test_what_was_chosen_is_what_the_search_says_and_what_runs(monkeypatch):
    chosen = json.loads(real.CHOSEN.read_text(encoding="utf-8"))
    monkeypatch.setenv("CAUSALNB_RESULTS", str(root() / "data" / "results"))
    assert chosen == real_choose.computed()
    for arm, method in {"diffusion": "diffusion", "c2dlm": "c2dlm", "placebo": "c2dlm"}.items():
        settings = registry.config("c2dlm.real.stg_l", arm, "laptop")
        assert {name: settings[name] for name in chosen[method]} == chosen[method]
    rates = [
        registry.config("c2dlm.real.stg_l", arm, "laptop")["learning_rate"]
        for arm in ("isolated", "enforced")
    ]
    assert rates == [chosen["c2dlm"]["learning_rate"]] * 2
