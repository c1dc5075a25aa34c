"""The base model that is asked for, checked, and SCI on it."""

from causalnb.errors import LabError, sentence
from causalnb.tasks import scan

from ..bases import TINY, above_width, check_ids, decoder_of, tiny_depth, with_lora
from .settings import Settings

__all__ = ["TINY", "base_and_tokenizer", "build", "fits", "tiny_llama"]


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
    if depth := tiny_depth(name):
        return tiny_llama(depth), scan.tokenizer()
    base, tokenizer = decoder_of(name)
    words = tokenizer(" ".join((*scan.WORDS, *scan.ACTIONS)), add_special_tokens=False)["input_ids"]
    if tokenizer.unk_token_id in words:
        raise LabError(f"the tokenizer of {name!r} does not know all of SCAN's words: choose another base.")
    check_ids(base, tokenizer, words, name)
    return base, tokenizer


def build(settings: Settings):
    """SCI on the settings' base, and the tokenizer; LabError for layers, slots or a rank beyond it."""
    from causalnb.sci import SCITransformer

    base, tokenizer = base_and_tokenizer(settings.base_model)
    depth, chosen = base.config.num_hidden_layers, settings.cbm_layers
    if chosen and max(chosen) >= depth:
        raise LabError(
            f"--cbm-layers names layer {max(chosen)}, but the base {settings.base_model} has {depth} layers: "
            f"leave --cbm-layers out, choose from 0 to {depth - 1}, or take --base-model tiny:22."
        )
    if settings.lora > base.get_input_embeddings().embedding_dim:
        raise above_width(base, settings.lora, settings.base_model)
    if settings.lora:
        base = with_lora(base, settings.lora)
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
