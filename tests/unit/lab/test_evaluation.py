"""Forced and greedy exact match: by hand, equal to each other, and whole to the end token."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import LlamaConfig, LlamaForCausalLM

from causalnb.lab.evaluation import by_length, greedy_matches, teacher_forced_matches
from causalnb.lab.training import PromptAnswerCollator

PAD, END = 0, 2


def rows(count=24):
    """Rows with prompts of 2 to 4 tokens and answers of 2 to 5, the end token included."""
    draw, found = torch.Generator().manual_seed(4), []
    for index in range(count):
        prompt = torch.randint(3, 20, (2 + index % 3,), generator=draw).tolist()
        answer = torch.randint(3, 20, (1 + index % 4,), generator=draw).tolist() + [END]
        found.append(
            {
                "input_ids": prompt + answer,
                "prompt_mask": [1] * len(prompt) + [0] * len(answer),
                "labels": [-100] * len(prompt) + answer,
            }
        )
    return found


@pytest.fixture(scope="module")
def trained():
    """A tiny decoder that knows half of the rows by heart."""
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=20,
            hidden_size=32,
            intermediate_size=32,
            num_hidden_layers=1,
            num_attention_heads=2,
            max_position_embeddings=32,
            pad_token_id=PAD,
            bos_token_id=1,
            eos_token_id=END,
        )
    )
    batch = PromptAnswerCollator(PAD)(rows()[:12])
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(60):
        optimizer.zero_grad()
        model(**batch).loss.backward()
        optimizer.step()
    return model


def forced(model, given, **settings):
    return teacher_forced_matches(model, given, PromptAnswerCollator(PAD), **settings)


def greedy(model, given, **settings):
    return greedy_matches(model, given, PAD, END, **dict(max_new_tokens=6) | settings)


def test_forced_equals_greedy_and_both_tell_known_rows_from_others(trained):
    found = forced(trained, rows())
    assert np.array_equal(found, greedy(trained, rows()))
    assert found.dtype == bool and found[:12].sum() >= 10 and found[12:].sum() <= 2


@pytest.mark.parametrize("batch_size", [1, 5, 24])
def test_batches_and_order_do_not_matter(trained, batch_size):
    expected, given = forced(trained, rows()), rows()
    order = np.random.default_rng(1).permutation(len(given))
    shuffled = [given[i] for i in order]
    assert np.array_equal(forced(trained, shuffled, batch_size=batch_size), expected[order])
    assert np.array_equal(greedy(trained, shuffled, batch_size=batch_size), expected[order])


def test_one_wrong_token_anywhere_in_the_answer_is_a_miss(trained):
    known = next(
        row
        for row, right in zip(rows(), forced(trained, rows()), strict=False)
        if right and len(row["labels"]) > 5
    )
    start = sum(known["prompt_mask"])
    for place in range(start, len(known["labels"])):
        wrong = {**known, "labels": list(known["labels"]), "input_ids": list(known["input_ids"])}
        wrong["labels"][place] = wrong["input_ids"][place] = 3 + (known["labels"][place] - 2) % 17
        assert not forced(trained, [wrong])[0] and not greedy(trained, [wrong])[0]
    longer = {
        **known,
        "labels": [*known["labels"][:-1], 5, END],
        "input_ids": [*known["input_ids"][:-1], 5, END],
        "prompt_mask": [*known["prompt_mask"], 0],
    }
    assert not forced(trained, [longer])[0] and not greedy(trained, [longer])[0]  # it ends too early


def test_an_answer_that_does_not_end_is_a_miss(trained):
    known = next(row for row, right in zip(rows(), forced(trained, rows()), strict=False) if right)
    answer = len(known["labels"]) - sum(known["prompt_mask"])
    assert greedy(trained, [known], max_new_tokens=answer)[0]
    assert not greedy(trained, [known], max_new_tokens=answer - 1)[0]


def test_a_model_that_is_training_is_measured_in_eval_mode_without_gradients(trained):
    for measure in (forced, greedy):
        trained.train()
        measure(trained, rows()[:3])
        assert not trained.training
    assert forced(trained, []).shape == greedy(trained, []).shape == (0,)


@given(st.lists(st.integers(1, 9), max_size=30), st.integers(1, 7))
def test_rows_of_a_batch_are_of_similar_length_and_each_comes_once(lengths, size):
    batches = by_length(lengths, size)
    assert sorted(sum(batches, [])) == list(range(len(lengths)))
    assert [lengths[row] for batch in batches for row in batch] == sorted(lengths)
    assert all(len(batch) == size for batch in batches[:-1])
