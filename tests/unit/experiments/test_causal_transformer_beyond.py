"""The runs beyond the paper: words have classes, and arms differ where they should."""

import pytest
import torch

from causalnb.experiments import causal_transformer_beyond as beyond
from causalnb.experiments import causal_transformer_tasks as tasks
from causalnb.experiments.causal_transformer_grid import (
    BEYOND,
    BEYOND_TRIES,
    BLANKET_TRIES,
    OVERLAP,
)
from causalnb.lab import registry
from causalnb.tasks import overlap

NLI = "causal_transformer.beyond.nli.m5"


def run_of(folder, arm, progress=lambda *_: None, **changes):
    return registry.Run(NLI, arm, 0, "quick", registry.config(NLI, arm, "quick") | changes, folder, "cpu",
                        progress)


@pytest.fixture(scope="module")
def nli():
    rows = overlap.pairs(1200, 0.05)
    tokenizer = tasks.pair_tokenizer(rows, 1000)
    return rows, tokenizer, tasks.encoded(rows, tokenizer)


def test_sentences_are_those_of_the_pair(nli):
    rows, tokenizer, ready = nli
    for row, tokens in zip(rows[:20], ready, strict=False):
        said = [tokenizer.decode(beyond.sentence(tokens, kind), skip_special_tokens=True).strip()
                for kind in (0, 1)]
        assert said == [row["sentence1"].lower(), row["sentence2"].lower()]


def test_words_of_a_kind_are_of_a_class_and_marks_are_not(nli):
    _, tokenizer, ready = nli
    config = registry.config(NLI, "all", "quick") | {"distance": 1.4}  # joins all words
    model = beyond.build_invariant(config, len(tokenizer), 2, ready)
    sizes = torch.bincount(model.classes)[model.classes]
    assert sizes[[tasks.PAD, tasks.BOS, tasks.EOS]].tolist() == [1, 1, 1] and sizes.max() > 10
    assert model.config.interchanged and model.config.parents == 2 and model.config.compared


@pytest.mark.parametrize("arm", [*BEYOND])
def test_a_stopped_run_is_the_same(arm, tmp_path):
    class Stop(Exception):
        pass

    def stop(done, total, note):
        if done == 2:
            raise Stop

    changes = dict(steps=3, evaluate_every=1, distance=1.3)
    whole = beyond.run_beyond(run_of(tmp_path / "whole", arm, **changes))
    with pytest.raises(Stop):
        beyond.run_beyond(run_of(tmp_path / "cut", arm, stop, **changes))
    assert beyond.run_beyond(run_of(tmp_path / "cut", arm, **changes)) == whole
    halves = {f"{cell}_{label}" for cell in ("challenge", "held_out") for label in overlap.LABELS}
    assert halves < set(whole["metrics"]) and len(whole["history"]) == 3


def test_arms_add_one_part_after_the_other():
    for name in OVERLAP:
        seen = {}
        for arm in registry.arms(f"causal_transformer.beyond.{name}.m5"):
            found = registry.config(f"causal_transformer.beyond.{name}.m5", arm, "laptop")
            seen[arm] = (found["compared"], found["parents"] == 2 and found["directed"],
                         found["interchanged"], found["causal_weight"] == 1)
        assert seen == {"transformer": (False,) * 4, "compared": (True, False, False, False),
                        "directed": (True, True, False, False), "interchanged": (True, False, True, False),
                        "all": (True, True, True, False), "held_attention": (True,) * 4,
                        "blanket_1": (True, False, False, False), "blanket_3": (True, False, False, True)}
        assert set(registry.arms(f"causal_transformer.beyond.{name}.m1")) < set(seen)


def test_what_was_tried_differs_from_all_in_one_setting():
    for name in OVERLAP:
        id = f"causal_transformer.beyond.search.{name}"
        whole = registry.config(id, "all", "laptop")
        assert whole["data"]["family"] == "development" and "test" not in whole["cells"]
        for arm in set(BEYOND_TRIES) - set(BEYOND) | {"held_attention"}:
            found = registry.config(id, arm, "laptop")
            assert len({key for key in whole if found[key] != whole[key]}) == 1


def test_the_papers_method_is_tried_on_the_comparison():
    for name in OVERLAP:
        id = f"causal_transformer.beyond.search.{name}"
        plain = registry.config(id, "compared", "laptop")
        for arm in BLANKET_TRIES:
            found = registry.config(id, arm, "laptop")
            assert {key for key in plain if found[key] != plain[key]} == {"gcn", "blanket", "causal_weight",
                                                                          "ramp"}


def test_the_challenge_is_not_trained_on_and_data_are_the_tables_own():
    for name in OVERLAP:
        for suffix in ("m1", "m5"):
            ids = [f"causal_transformer.{kind}.{name}.{suffix}" for kind in ("beyond", "overlap")]
            ours, table = (registry.config(id, "transformer", "laptop") for id in ids)
            differ = {key for key in ours if ours[key] != table.get(key)}
            assert differ == {"interchanged", "compared", "directed", "distance", "causal_weight",
                              "ramp"}
