"""The shared vocabulary: every compact text is made of its words, one token each."""

import re
from pathlib import Path

import pytest

from causalnb import tasks
from causalnb.errors import DataError
from causalnb.tasks import cot_order_perturb, reasoning, stg, sudoku4, words


def test_every_task_is_named_and_loads():
    few = dict(n_train=4, n_test=2)
    for name, options in (
        ("english", dict(n_structures=20)),
        ("reasoning", few),
        ("acre", few),
        ("raven", few),
        ("arc", few),
        ("overlap", dict(few, per_subcase=1)),
        ("paraphrase", dict(few, n_challenge=2)),
        ("snli", few),
        ("translation", few),
        ("fact_check", dict(few, n_challenge=2)),
    ):
        data = tasks.load(name, **options)
        assert {"train", "test"} <= set(data) and data["train"].num_rows > data["test"].num_rows > 0
    assert tasks.load("pvr", n=3)["train"].num_rows == 3
    folder = Path(tasks.__file__).parent
    known = {
        path.stem
        for path in folder.glob("*.py")
        if re.search(r"^def load\(", path.read_text(encoding="utf-8"), re.M)
    }
    assert {*tasks.NAMES} == known - {"__init__"} and len(tasks.NAMES) == len({*tasks.NAMES})


def test_the_vocabulary():
    assert list(words.VOCABULARY.values()) == list(range(len(words.VOCABULARY)))
    assert [*words.VOCABULARY][:6] == [*words.SPECIALS.values()]
    assert words.NUMBER_IDS[-40] == 6 and words.NUMBER_IDS[152] == 6 + 192
    assert not any(" " in word for word in words.VOCABULARY)
    more = words.vocabulary("formulas")
    assert list(more.values()) == list(range(len(more))) and len(more) > len(words.VOCABULARY)
    assert words.vocabulary() == words.VOCABULARY == {word: more[word] for word in words.VOCABULARY}
    with pytest.raises(DataError, match="Unknown word '1.1'"):
        words.encode("Zorin 1", "1.1")
    assert words.encode("Zorin 1", "1.1", "formulas")["input_ids"][-2] == more["1.1"]


@pytest.mark.parametrize(
    ("prompt", "response"),
    [
        ("Zorin 80 Vortex 79", "Quasar 90 Answer 70"),
        ("3 1 0 2", "3 1 4 2"),
        ("Room_size 2 Score", None),
        ("Water_Awareness_Score -0 .4", "Answer 52"),
        ("( A ) red", "\\boxed{ 7 }"),
    ],
)
def test_the_tokenizer_and_encode_agree(prompt, response, tmp_path):
    from transformers import AutoTokenizer

    words.tokenizer("left").save_pretrained(tmp_path)
    kept = AutoTokenizer.from_pretrained(tmp_path)
    assert kept.get_vocab() == words.VOCABULARY and kept.mask_token == "<mask>"
    assert kept.padding_side == "left"
    if response is None:
        with pytest.raises(DataError, match="Unknown word 'Score' in 'Room_size 2 Score': the "):
            words.encode(prompt)
        assert kept(prompt).input_ids[-1] == kept.unk_token_id
        return
    row = words.encode(prompt, response)
    assert row["input_ids"] == kept(f"{prompt} <sep> {response} <eos>").input_ids
    n = len(words.encode(prompt)["input_ids"])
    assert row["prompt_mask"] == [1] * n + [0] * (len(row["input_ids"]) - n)
    assert row["labels"] == [-100] * n + row["input_ids"][n:] and "labels" not in words.encode(prompt)
    assert kept.decode(words.encode(prompt)["input_ids"][:-1]) == prompt


def test_the_data_cards_state_the_true_numbers():
    card = (Path(__file__).parents[3] / "data" / "README.md").read_text(encoding="utf-8")
    stated = f"their common vocabulary: {len(words.VOCABULARY)} tokens, of which {len(words.SPECIALS)}"
    assert stated in " ".join(card.split())
    for mode in cot_order_perturb.MODES[:-1]:
        names = cot_order_perturb.order(mode)
        facts = (cot_order_perturb.violations(names), names.index("Stardust") + 1)
        row = re.search(rf"^\| {mode} \| [^|]+ \| (\d+) \| (\d+) \|$", card, re.M)
        assert (int(row[1]), int(row[2])) == facts
    counts = " | ".join(f"{n:,}" for n in sudoku4.count_unique().values())
    assert f"| puzzles | {counts} |" in card
    for size, rows in stg.SIZES.items():
        assert f"| {size} | {rows:,} |" in card
    for synthetic, real in reasoning.SYNTHETIC.items():
        assert f"| {synthetic} | `{real}`" in card
