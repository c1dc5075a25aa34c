"""Checkpoints of Hugging Face models: they hold what the model has and nothing else, and run no code."""

import re
from collections.abc import Callable

from safetensors import SafetensorError
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
)

DEEPEST = 1000  # layers of a decoder
HEADS = (
    r"(^|\.)(classifier|score|pre_classifier|pooler|cls|lm_head|predictions|embeddings\.position_ids)(\.|$)"
)


def whole(load: Callable, where, *arguments, passing: str = "$^", anew: str = "$^", **keywords):
    """What `load`, a from_pretrained of transformers, gives of the checkpoint `where`.

    passing: pattern of state that training starts anew, which a checkpoint may lack or have more of; anew: of
    state that it may have in another size.
    Raises ValueError for weights that cannot be read, and for a checkpoint that lacks weights of the model,
    which transformers would draw at random, or has other ones, or ones of another size that are not ignored.
    """
    asked = keywords.pop("output_loading_info", False)
    other = {} if keywords.get("ignore_mismatched_sizes") else {"mismatched_keys": "has another size of"}
    kinds = {"missing_keys": "has no", **other, "unexpected_keys": "has an unknown"}
    keywords |= {"output_loading_info": True, "ignore_mismatched_sizes": True}
    try:
        model, info = load(where, *arguments, **keywords)
    except SafetensorError as error:
        raise ValueError(
            f"the weights in {where} cannot be read ({error}): copy or save the checkpoint again"
        ) from error
    for kind, words in kinds.items():
        names = sorted(key if isinstance(key, str) else key[0] for key in info[kind])
        free = anew if kind == "mismatched_keys" else passing
        if names := [name for name in names if not re.search(free, name)]:
            raise ValueError(
                f"the checkpoint {where} {words} {names[0]}: load it with the settings it was saved with, or "
                "copy or save the whole model again"
            )
    return (model, info) if asked else model


def check_depth(config: object) -> None:
    """ValueError for a configuration of a number of layers that no decoder has."""
    depth = getattr(config, "num_hidden_layers", 1)
    if type(depth) is not int or not 1 <= depth <= DEEPEST:
        raise ValueError(f"num_hidden_layers is {depth!r}: give a whole number from 1 to {DEEPEST}")


def classifier(where, **keywords):
    """A model that classifies sequences; ValueError as the others here.

    Its head is drawn anew where there is none, or one of other classes than those that are asked for by
    num_labels or id2label.
    """
    return _headed(AutoModelForSequenceClassification, where, keywords)


def filler(where, **keywords):
    """An encoder that fills masks; a head that is not there is drawn anew, before the embeddings it shares.

    ValueError as the others here.
    """
    return _headed(AutoModelForMaskedLM, where, keywords)


def _headed(kind: type, where, keywords: dict):
    check_depth(_own_code(AutoConfig.from_pretrained, where, trust_remote_code=False))
    load = kind.from_pretrained  # type: ignore[attr-defined]
    anew = HEADS if {"num_labels", "id2label"} & keywords.keys() else "$^"
    return _own_code(whole, load, where, passing=HEADS, anew=anew, trust_remote_code=False, **keywords)


def decoder(where, **keywords):
    """The causal language model in a folder or on the hub; ValueError as the others here."""
    check_depth(_own_code(AutoConfig.from_pretrained, where, trust_remote_code=False))
    return _own_code(whole, AutoModelForCausalLM.from_pretrained, where, trust_remote_code=False, **keywords)


def tokenizer(where, **keywords):
    """The tokenizer in a folder or on the hub; ValueError for one that needs code from there."""
    return _own_code(AutoTokenizer.from_pretrained, where, trust_remote_code=False, **keywords)


def _own_code(load: Callable, *arguments, **keywords):
    try:
        return load(*arguments, **keywords)
    except ValueError as error:
        if "trust_remote_code" not in str(error):
            raise
        raise ValueError(
            f"{arguments[-1]} needs Python code that lies in it, and foreign code is not run: choose a model "
            "of a kind that transformers knows"
        ) from error
