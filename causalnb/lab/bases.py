"""Decoders by name with their tokenizers: a folder, a repository of the hub, or a tiny one made at once."""

import os
from pathlib import Path

from causalnb.errors import LabError
from causalnb.paths import moved

TINY = "tiny"  # the base of this name is made on the spot, with a tokenizer trained on the task
SPEED = 1.5e14  # operations a second that a large GPU reaches in 16 bits, about half of what it is sold with


def downloaded(name: str) -> Path:
    """The folder of a base: `name` if it is one, or $CAUSALNB_BASES/name, else a snapshot from the hub."""
    mirror = moved("CAUSALNB_BASES")
    for folder in (Path(name), *([mirror / name] if mirror else [])):
        if os.path.isdir(folder):
            return folder
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        return Path(snapshot_download(name, allow_patterns=["*.json", "*.safetensors", "*.txt", "*.model"]))
    except (OSError, HfHubHTTPError, HFValidationError) as error:
        raise LabError(
            f"the base {name} is no folder here and cannot be downloaded ({error}): give a "
            "folder, point CAUSALNB_BASES at one that has it under its name, or go online."
        ) from error


def tiny_base(config: dict, texts: list[str]):
    """(decoder, tokenizer, id of the mask, id of the end): a random Llama of config's size.

    The tokenizer's byte pairs are learned from texts, digits apart.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    core.decoder = decoders.ByteLevel()
    core.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=config["vocabulary"],
            show_progress=False,
            special_tokens=["<eos>", "<mask>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        ),
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core, eos_token="<eos>", mask_token="<mask>", pad_token="<eos>"
    )
    decoder = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=config["hidden_size"],
            intermediate_size=4 * config["hidden_size"],
            num_hidden_layers=config["layers"],
            num_attention_heads=config["heads"],
            max_position_embeddings=2048,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )
    return decoder, tokenizer, tokenizer.mask_token_id, tokenizer.eos_token_id


def question(tokenizer, prompt: str) -> tuple[str, int]:
    """The text up to the answer, and where the prompt begins in it."""
    if not tokenizer.chat_template:
        return f"{prompt}\n", 0
    said = tokenizer.apply_chat_template(
        [{"role": "user", "content": prompt}], tokenize=False, add_generation_prompt=True
    )
    return said, said.index(prompt.strip())


def base_parameters(shape: dict) -> int:
    """Parameters of a Llama of this shape without grouped keys and without its few norms."""
    width = shape["hidden_size"]
    layer = 4 * width**2 + 3 * width * shape["intermediate_size"]
    return shape["layers"] * layer + 2 * shape["vocabulary"] * width
