"""One vocabulary for the compact encodings of COT-OrderPerturb, Sudoku, the spurious token game, reasoning.

A text in a compact encoding is words with spaces between them, and each word is one token; whole numbers from
-40 to 152 are words. So one small model can be trained on all these tasks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from causalnb.errors import DataError
from causalnb.tasks import cot_order_perturb, dag_chains, reasoning, stg, sudoku4

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

SPECIALS = {
    "pad_token": "<pad>",
    "bos_token": "<bos>",
    "eos_token": "<eos>",
    "sep_token": "<sep>",
    "unk_token": "<unk>",
    "mask_token": "<mask>",
}
NUMBERS = cot_order_perturb.NUMBERS
VOCABULARY = {
    word: i
    for i, word in enumerate(
        dict.fromkeys(
            (
                *SPECIALS.values(),
                *map(str, NUMBERS),
                *cot_order_perturb.WORDS,
                *sudoku4.WORDS,
                *stg.WORDS,
                *reasoning.WORDS,
            )
        )
    )
}
FORMULAS = VOCABULARY | {  # of chains whose steps have their rules
    word: len(VOCABULARY) + i
    for i, word in enumerate(w for w in cot_order_perturb.FORMULA_WORDS if w not in VOCABULARY)
}
CHAINS = VOCABULARY | {word: len(VOCABULARY) + i for i, word in enumerate(dag_chains.WORDS)}
NUMBER_IDS = {number: VOCABULARY[str(number)] for number in NUMBERS}  # for embeddings that know their order


def tokenizer(padding_side: str = "right") -> PreTrainedTokenizerFast:
    """Word-level tokenizer over VOCABULARY; pads on "right" or "left"."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    core = Tokenizer(models.WordLevel(VOCABULARY, unk_token=SPECIALS["unk_token"]))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=core, padding_side=padding_side, clean_up_tokenization_spaces=False, **SPECIALS
    )


def vocabulary(encoding: str = "compact") -> dict[str, int]:
    """{word: id} of an encoding: VOCABULARY; with "formulas" or "chains" their words after it."""
    return {"formulas": FORMULAS, "chains": CHAINS}.get(encoding, VOCABULARY)


def encode(prompt: str, response: str | None = None, encoding: str = "compact") -> dict[str, list[int]]:
    """Token ids of `prompt <sep>`, and with a response of `prompt <sep> response <eos>`; all lists (T,).

    input_ids; prompt_mask, 1 up to and with <sep>; labels (with a response only), -100 on the prompt.
    DataError names a word that is not in the vocabulary.
    """
    asked = [*prompt.split(), "<sep>"]
    told = [] if response is None else [*response.split(), "<eos>"]
    known = vocabulary(encoding)
    for word in asked + told:
        if word not in known:
            raise DataError(
                f"Unknown word {word!r} in {prompt[:60]!r}: the vocabulary has the words of the "
                f"compact encodings and whole numbers from {NUMBERS[0]} to {NUMBERS[-1]}."
            )
    encoded = {
        "input_ids": [known[word] for word in asked + told],
        "prompt_mask": [1] * len(asked) + [0] * len(told),
    }
    if response is not None:
        encoded["labels"] = [-100] * len(asked) + encoded["input_ids"][len(asked) :]
    return encoded
