"""The byte-pair tokenizer: the same from the same texts, nothing unknown, saved and loaded."""

import pytest
from transformers import AutoTokenizer

from causalnb.errors import DataError
from causalnb.tasks import bpe, translation

TEXTS = [said for pair in translation.generate(200) for said in pair]


@pytest.fixture(scope="module")
def made():
    return bpe.tokenizer(TEXTS, 400)


def test_the_same_texts_give_the_same_tokenizer(made):
    again = bpe.tokenizer(iter(TEXTS), 400)
    assert again.backend_tokenizer.to_str() == made.backend_tokenizer.to_str() and len(made) == 400
    assert bpe.tokenizer(TEXTS[:40], 400).get_vocab() != made.get_vocab()


def test_texts_come_back(made):
    for text in (*TEXTS[:20], "Größe, 12 €!", "naïve 猫"):
        ids = made(text).input_ids
        assert ids[0] == made.bos_token_id and ids[-1] == made.eos_token_id
        assert made.decode(ids, skip_special_tokens=True).strip() == text
    few, many = (bpe.tokenizer(TEXTS, size).tokenize(TEXTS[0]) for size in (900, 259))
    assert len(few) < len(made.tokenize(TEXTS[0])) < len(many) == len(f" {TEXTS[0]}".encode())


def test_pairs_and_padding(made):
    one, two = (made(text).input_ids for text in ("A man.", "A dog."))
    both = made("A man.", "A dog.", return_token_type_ids=True)
    assert both.input_ids == one + two[1:]
    assert both.token_type_ids == [0] * len(one) + [1] * (len(two) - 1)
    batch = bpe.tokenizer(TEXTS, 400, padding_side="left")(["A man.", "A man is laughing."], padding=True)
    assert batch.input_ids[0][0] == made.pad_token_id and batch.attention_mask[0][0] == 0


def test_it_is_saved_with_a_model(made, tmp_path):
    made.save_pretrained(tmp_path)
    kept = AutoTokenizer.from_pretrained(tmp_path)
    assert (
        kept.get_vocab() == made.get_vocab()
        and kept("A man.", "A dog.").input_ids == made("A man.", "A dog.").input_ids
    )
    assert (kept.pad_token, kept.cls_token, kept.sep_token) == ("<pad>", "<s>", "</s>")


def test_lower_case():
    small = bpe.tokenizer(TEXTS, 300, lowercase=True)
    assert small("A MAN").input_ids == small("a man").input_ids


@pytest.mark.parametrize(("texts", "size"), [([], 400), ([""], 400), (TEXTS, 258)])
def test_what_cannot_be_trained_is_refused(texts, size):
    with pytest.raises(
        DataError,
        match=f"of {size} tokens cannot be trained on {len(texts)} texts: give at "
        f"least one text and 259 tokens",
    ):
        bpe.tokenizer(texts, size)
