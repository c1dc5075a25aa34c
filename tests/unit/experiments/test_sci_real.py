"""SCI on a pre-trained base: rows, words without meaning, and that each arm trains."""

import pytest
from safetensors.torch import load_file

from causalnb.errors import LabError
from causalnb.experiments.sci import real
from causalnb.lab import bases, registry
from causalnb.lab.probes import probing


def test_words_of_the_search_are_no_words_of_the_test():
    def drawn(kind: str) -> set:
        return {word for seed in range(40) for word in real.nonce_words(kind, "jump", seed).values()}

    assert drawn("tried") and not drawn("tried") & drawn("nonce")
    assert real.nonce_words("nonce", "jump", 3) == real.nonce_words("nonce", "jump", 3)
    assert not {*real.VERBS} & {one.lower() for one in real.ACTIONS}
    assert real.nonce_words("plain", "jump", 3) == {}
    with pytest.raises(LabError, match="words is 'new': choose plain, nonce, tried, copied, known."):
        real.nonce_words("new", "jump", 0)


@pytest.mark.parametrize("seed", range(4))
def test_known_and_copied_are_told_apart_by_two_pairs_that_share_a_word_each_with_the_others(seed):
    neither = real.nonce_words("nonce", "jump", seed)
    copied, known = (real.nonce_words(kind, "jump", seed) for kind in ("copied", "known"))
    assert copied == {"jump": neither["jump"], "Jump": neither["jump"].capitalize()}
    assert known == {"Jump": neither["Jump"]}
    assert real.told("jump twice", "I_JUMP I_JUMP", known) == (
        "IN: jump twice OUT:",
        " {0} {0}".format(neither["Jump"]),
    )


def test_a_pair_is_told_in_words_of_the_base():
    nonce = {"jump": "zim", "Jump": "Rax"}
    assert real.told("jump opposite left", "I_TURN_LEFT I_TURN_LEFT I_JUMP", nonce) == (
        "IN: zim opposite left OUT:",
        " Left Left Rax",
    )


def test_rows_mark_the_prompt_and_end_the_answer():
    base = bases.pretrained("tiny", real.every_word({}))
    (row,) = real.encoded([{"text": "walk", "actions": "I_WALK", "structure": "_"}], base, {})
    prompt = sum(row["prompt_mask"])
    assert row["labels"][:prompt] == [-100] * prompt
    assert row["input_ids"][prompt:] == row["labels"][prompt:] == [*base.ids(" Walk"), base.special("eos")]


@pytest.mark.parametrize("arm", real.ARMS)
def test_each_arm_trains_on_a_tiny_base(arm, tmp_path):
    config = registry.config("sci.real.nonce", arm, "quick")
    run = registry.Run("sci.real.nonce", arm, 0, "quick", config, tmp_path, "cpu", lambda *_: None)
    with probing(steps=2) as noted:
        found = real.run_real(run)
    assert [step["gradient"] > 0 for step in noted] == [True, True]
    assert found["metrics"]["test"]["rows"] == min(config["test_rows"], 8)
    assert set(found["bases"]) == {"tiny"}


@pytest.mark.parametrize("arm", ["plain", "sci_separated"])
def test_a_checkpoint_without_the_frozen_base_resumes_with_the_same_numbers(arm, tmp_path, capfd):
    config = registry.config("sci.real.nonce", arm, "quick") | {"steps": 4, "evaluate_every": 2}

    def go(folder, stopped_at=None) -> dict:
        def progress(done: int, total: int, note: str) -> None:
            if done == stopped_at:
                raise KeyboardInterrupt

        return real.run_real(registry.Run("sci.real.nonce", arm, 0, "quick", config, folder, "cpu", progress))

    whole = go(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        go(tmp_path / "parts", stopped_at=3)
    (weights,) = (tmp_path / "parts").glob("checkpoint-2/model.safetensors")
    assert not any("embed_tokens" in name or "base_layer" in name for name in load_file(weights))
    capfd.readouterr()
    assert go(tmp_path / "parts") == whole
    assert "missing keys" not in capfd.readouterr().err
