"""A byte-pair tokenizer, trained on the texts of a task and saved with the model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from causalnb.errors import DataError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

SPECIALS = {
    "pad_token": "<pad>",
    "bos_token": "<s>",
    "eos_token": "</s>",
    "cls_token": "<s>",
    "sep_token": "</s>",
}


def tokenizer(
    texts: Iterable[str], vocabulary: int = 4000, padding_side: str = "right", lowercase: bool = False
) -> PreTrainedTokenizerFast:
    """Byte-level byte-pair tokenizer of at most `vocabulary` tokens; the same texts give the same one.

    A text becomes `<s> text </s>`, a pair `<s> text </s> text </s>`, token_type_ids are 0 and 1 if asked for.
    No text is unknown: the 256 bytes are tokens. DataError if there is no text to train on, or the vocabulary
    is too small for the bytes.
    """
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    special, texts = list(dict.fromkeys(SPECIALS.values())), list(texts)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    smallest = len(special) + len(alphabet)
    if not any(texts) or vocabulary < smallest:
        raise DataError(
            f"A byte-pair tokenizer of {vocabulary} tokens cannot be trained on {len(texts)} "
            f"texts: give at least one text and {smallest} tokens."
        )
    core = Tokenizer(models.BPE())
    if lowercase:
        core.normalizer = normalizers.Lowercase()
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    core.decoder = decoders.ByteLevel()
    core.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=vocabulary, special_tokens=special, initial_alphabet=alphabet, show_progress=False
        ),
    )
    core.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> $B:1 </s>:1",
        special_tokens=[(token, core.token_to_id(token)) for token in special[1:]],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=core, padding_side=padding_side, clean_up_tokenization_spaces=False, **SPECIALS
    )
