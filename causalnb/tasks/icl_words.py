"""One vocabulary for the compact rows of ACRE, RAVEN, PVR and ARC, their token ids, and a tokenizer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from causalnb.errors import DataError
from causalnb.tasks import acre, arc, icl_rows, pvr, raven

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

SPECIALS = {"pad_token": "<pad>", "bos_token": "<bos>", "eos_token": "<eos>", "sep_token": icl_rows.SEPARATOR}
VOCABULARY = {
    word: i
    for i, word in enumerate(
        dict.fromkeys(
            (*SPECIALS.values(), icl_rows.FILLER, *pvr.WORDS, *arc.WORDS, *acre.WORDS, *raven.WORDS)
        )
    )
}


def tokenizer(padding_side: str = "right") -> PreTrainedTokenizerFast:
    """Word-level tokenizer over VOCABULARY; pads on "right" or "left", and raises on an unknown word."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    core = Tokenizer(models.WordLevel(VOCABULARY))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=core, padding_side=padding_side, clean_up_tokenization_spaces=False, **SPECIALS
    )


def ids(words: list[str]) -> list[int]:
    """Token ids of words; DataError names one that is not in VOCABULARY."""
    for word in words:
        if word not in VOCABULARY:
            raise DataError(
                f"Unknown word {word!r} in {' '.join(words)[:60]!r}: the vocabulary has the "
                f"words of the compact rows of ACRE, RAVEN, PVR and ARC."
            )
    return [VOCABULARY[word] for word in words]


def encode(row: dict) -> dict[str, list[int]]:
    """Token ids of a compact row as `<bos> words <eos>`; all lists (T,), T two more than its words.

    input_ids; prompt_mask, 1 up to the first answer; labels, -100 but on answers; supervised, -100 but on
    words that can be deduced. <eos> counts with the row's last word. DataError as ids().
    """
    tokens = [VOCABULARY["<bos>"], *ids(row["words"]), VOCABULARY["<eos>"]]
    n = icl_rows.prompt_length(row) + 1

    def labels(wanted: list[bool]) -> list[int]:
        return [
            token if said else -100 for token, said in zip(tokens, [False, *wanted, wanted[-1]], strict=False)
        ]

    return {
        "input_ids": tokens,
        "prompt_mask": [1] * n + [0] * (len(tokens) - n),
        "labels": labels(row["answer"]),
        "supervised": labels(row["supervised"]),
    }
