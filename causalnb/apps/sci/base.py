"""The base model that is asked for, checked, and SCI on it."""

import re

from causalnb.errors import LabError, sentence
from causalnb.tasks import scan

from .settings import Settings

TINY = re.compile(r"tiny(?::([0-9]{1,9}))?")


def tiny_llama(layers: int = 3, width: int = 64, heads: int = 4, words: int = len(scan.VOCABULARY)):
    """A Llama with random weights over SCAN's words, or over so many."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=words,
        hidden_size=width,
        intermediate_size=4 * width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        max_position_embeddings=128,
        initializer_range=0.4 / width**0.5,
        tie_word_embeddings=True,
        pad_token_id=scan.VOCABULARY["<pad>"],
        bos_token_id=scan.VOCABULARY["<bos>"],
        eos_token_id=scan.VOCABULARY["<eos>"],
    )
    return LlamaForCausalLM(config)


def base_and_tokenizer(name: str):
    """A decoder in float32 and its tokenizer: tiny, tiny:<layers>, or a folder or name on the hub.

    LabError for what cannot be loaded, sees what follows, or has a tokenizer that does not fit SCAN or it.
    """
    import torch
    from transformers.utils import logging

    from causalnb import checkpoints
    from causalnb.checkpoints import DEEPEST

    logging.disable_progress_bar()
    if tiny := TINY.fullmatch(name):
        depth = int(tiny[1] or 3)
        if not 1 <= depth <= DEEPEST:
            raise LabError(
                f"--base-model {name} has {depth or 'no'} layers: give at least 1, at most {DEEPEST}."
            )
        return tiny_llama(depth), scan.tokenizer()
    try:
        tokenizer = checkpoints.tokenizer(name)
        base = checkpoints.decoder(name, dtype=torch.float32)
    except Exception as error:  # whatever a half-copied folder makes transformers raise
        why = (str(error) or type(error).__name__).splitlines()[0][:200].rstrip(".")
        raise LabError(
            f"no language model could be loaded from --base-model {name!r} ({why}): give tiny, a folder that "
            "transformers saved, or, with a network, a name on the Hugging Face hub."
        ) from error
    if tokenizer.eos_token_id is None:
        raise LabError(f"the tokenizer of {name!r} has no end-of-text token: set its eos_token and save it.")
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token  # never read: masked, and no label
    words = tokenizer(" ".join((*scan.WORDS, *scan.ACTIONS)), add_special_tokens=False)["input_ids"]
    if tokenizer.unk_token_id in words:
        raise LabError(f"the tokenizer of {name!r} does not know all of SCAN's words: choose another base.")
    known = base.get_input_embeddings().num_embeddings
    if max(*words, tokenizer.eos_token_id, tokenizer.pad_token_id) >= known:
        raise LabError(
            f"the tokenizer of {name!r} has ids beyond the {known} of its model: save them together."
        )
    other = next(id for id in words if id != words[3])
    with torch.no_grad():
        first = base.eval()(torch.tensor([words[:4], [*words[:3], other]])).logits[:, 0]
    if not torch.allclose(*first, rtol=1e-4, atol=1e-5):
        raise LabError(f"{name!r} sees the words that follow: choose a causal decoder as --base-model.")
    return base, tokenizer


def build(settings: Settings):
    """SCI on the settings' base, and the tokenizer; LabError for layers and slots that do not fit it."""
    from peft import LoraConfig, get_peft_model

    from causalnb.sci import SCITransformer

    base, tokenizer = base_and_tokenizer(settings.base_model)
    depth, chosen = base.config.num_hidden_layers, settings.cbm_layers
    if chosen and max(chosen) >= depth:
        raise LabError(
            f"--cbm-layers names layer {max(chosen)}, but the base {settings.base_model} has {depth} layers: "
            f"leave --cbm-layers out, choose from 0 to {depth - 1}, or take --base-model tiny:22."
        )
    if settings.lora:
        rank = settings.lora
        base = get_peft_model(base, LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear"))
    try:
        model = SCITransformer.from_base(
            base,
            n_structural_slots=settings.n_structural_slots,
            cbm_layers=list(chosen) if chosen else None,
            scl_weight=settings.scl_weight,
        )
    except ValueError as error:
        raise LabError(f"{sentence(error)}.") from error
    return model, tokenizer


def fits(model, rows: list[dict], name: str) -> None:
    """LabError if a row is longer than the model's positions."""
    longest = max(len(row["input_ids"]) for row in rows)
    room = getattr(model.config.base_config, "max_position_embeddings", None) or longest
    if longest > room:
        raise LabError(f"SCAN has rows of {longest} tokens, but {name!r} reads {room}: choose another base.")


def best_device() -> str:
    """The name "cuda" where there is a GPU, else "cpu"; that too if accelerate was told to use the CPU."""
    import torch
    from accelerate.utils import parse_flag_from_env

    return "cuda" if torch.cuda.is_available() and not parse_flag_from_env("ACCELERATE_USE_CPU") else "cpu"
