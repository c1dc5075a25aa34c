"""The common vocabulary of ACRE, RAVEN, PVR and ARC, their rows as ids, and fillers."""

from collections import Counter
from pathlib import Path

import pytest

from causalnb.errors import DataError
from causalnb.tasks import acre, arc, icl_rows, icl_words, pvr, raven


@pytest.fixture(scope="module")
def rows():
    problems = acre.generate(n=60, seed=5)
    made = {("acre", format): acre.rows(problems, format, dense=True) for format in acre.FORMATS}
    made |= {
        (name, format): raven.rows(raven.generate(name, 20), format)
        for name in raven.CONFIGURATIONS
        for format in raven.FORMATS
    }
    return made | {"pvr": pvr.rows(pvr.generate(20)), "arc": arc.rows(arc.generate(20))}


def test_the_vocabulary(rows):
    assert list(icl_words.VOCABULARY.values()) == list(range(len(icl_words.VOCABULARY)))
    assert [*icl_words.VOCABULARY][:4] == ["<pad>", "<bos>", "<eos>", "<sep>"]
    assert len(icl_words.VOCABULARY) < 200
    assert not any(" " in word for word in icl_words.VOCABULARY)
    card = " ".join((Path(__file__).parents[3] / "data" / "README.md").read_text(encoding="utf-8").split())
    assert f"vocabulary of {len(icl_words.VOCABULARY)} tokens, of which {len(icl_words.SPECIALS)}" in card
    said = {word for made in rows.values() for row in made for word in row["words"]}
    assert {*icl_words.VOCABULARY} - said == {"<pad>", "<bos>", "<eos>", icl_rows.FILLER}


def test_the_tokenizer_and_encode_agree(rows, tmp_path):
    from transformers import AutoTokenizer

    icl_words.tokenizer("left").save_pretrained(tmp_path)
    kept = AutoTokenizer.from_pretrained(tmp_path)
    assert kept.get_vocab() == icl_words.VOCABULARY and kept.padding_side == "left"
    assert [kept.pad_token, kept.bos_token, kept.eos_token, kept.sep_token] == [*icl_words.VOCABULARY][:4]
    for made in rows.values():
        row = icl_words.encode(made[0])
        assert row["input_ids"] == kept(f"<bos> {' '.join(made[0]['words'])} <eos>").input_ids
    with pytest.raises(Exception, match="Missing \\[UNK\\] token"):
        kept("o3 banana")


def test_masks_of_encoded_rows(rows):
    for made in rows.values():
        for row in made[:5]:
            encoded = icl_words.encode(row)
            words = [*row["words"], "<eos>"]
            for key, mask in (("labels", "answer"), ("supervised", "supervised")):
                wanted = [
                    icl_words.VOCABULARY[word] if said else -100
                    for word, said in zip(words, [*row[mask], row[mask][-1]], strict=False)
                ]
                assert encoded[key] == [-100, *wanted]
            n = encoded["prompt_mask"].index(0)
            assert encoded["labels"][n] != -100 and {*encoded["labels"][:n]} == {-100}
            assert {len(values) for values in encoded.values()} == {len(words) + 1}
    cut = arc.rows(arc.generate(1), limit=3, cut=True)[0]
    assert icl_words.encode(cut)["prompt_mask"] == [1, 1, 1, 1, 0]
    assert {*icl_words.encode(cut)["labels"]} == {-100}
    with pytest.raises(DataError, match="Unknown word 'banana' in 'o3 banana': the vocabulary has the words"):
        icl_words.ids(["o3", "banana"])


def test_fillers(rows):
    for made in rows.values():
        for row in made[:10]:
            longer = icl_rows.pad(row, icl_rows.prompt_length(row) + 7, seed=1)
            assert icl_rows.prompt_length(longer) == icl_rows.prompt_length(row) + 7
            assert longer["words"].count(icl_rows.FILLER) == 7 and icl_rows.without_fillers(longer) == row
            assert not any(
                said
                for word, said in zip(longer["words"], longer["supervised"], strict=False)
                if word == icl_rows.FILLER
            )
            asked = [i for i, said in enumerate(longer["supervised"]) if said]
            assert all(longer["words"][i - 1] != icl_rows.FILLER for i in asked if not row["supervised"][0])
    with pytest.raises(DataError, match="cannot be padded to 3: ask for more"):
        icl_rows.pad(rows["pvr"][0], 3)


def test_places_of_fillers_are_uniform(rows):
    row = rows["pvr"][0]
    n = icl_rows.prompt_length(row)
    fillers = Counter(icl_rows.pad(row, n + 1, seed)["words"].index(icl_rows.FILLER) for seed in range(400))
    assert len(fillers) > 0.9 * (n - 4) and max(fillers.values()) < 25


@pytest.mark.parametrize("key", ["acre", *raven.CONFIGURATIONS])
def test_matched_lengths(rows, key):
    left, right = rows[key, "symbolic"], rows[key, "text"]
    a, b = icl_rows.match_lengths(left, right, extra=9, seed=3)
    lengths = [icl_rows.prompt_length(row) for row in a]
    assert lengths == [icl_rows.prompt_length(row) for row in b]
    added = {
        n - max(icl_rows.prompt_length(x), icl_rows.prompt_length(y))
        for n, x, y in zip(lengths, left, right, strict=False)
    }
    assert min(added) == 0 and max(added) <= 9 and len(added) > 5
    assert [icl_rows.without_fillers(row) for row in a] == left and a == icl_rows.match_lengths(
        left, right, extra=9, seed=3
    )[0]
    assert {icl_rows.FILLER in row["words"] for row in icl_rows.match_lengths(left, right)[1]} == {False}
    with pytest.raises(DataError, match="rows cannot be matched with 3: give the same problems twice"):
        icl_rows.match_lengths(left, right[:3])


def test_padded_rows_still_read(rows):
    for format in acre.FORMATS:
        row = rows["acre", format][0]
        assert acre.read_row(icl_rows.pad(row, icl_rows.prompt_length(row) + 20)) == acre.read_row(row)
        row = rows[raven.CONFIGURATIONS[1], format][0]
        assert raven.read_row(icl_rows.pad(row, icl_rows.prompt_length(row) + 20)) == raven.read_row(row)
