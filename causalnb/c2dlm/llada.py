"""LLaDA checkpoints in and out of a Llama-shaped decoder, by their state dict and without remote code."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from .model import MaskedDiffusionModel
from .reattention import ReattentionLoss

OUTER = {"wte": "model.embed_tokens", "ln_f": "model.norm", "ff_out": "lm_head"}
BLOCK = {
    "attn_norm": "input_layernorm",
    "q_proj": "self_attn.q_proj",
    "k_proj": "self_attn.k_proj",
    "v_proj": "self_attn.v_proj",
    "attn_out": "self_attn.o_proj",
    "ff_norm": "post_attention_layernorm",
    "ff_proj": "mlp.gate_proj",
    "up_proj": "mlp.up_proj",
    "ff_out": "mlp.down_proj",
}
REQUIRED = {"block_type": "llama", "layer_norm_type": "rms", "activation_type": "silu", "rope": True}
UNREADABLE = (
    *(OSError, LookupError, TypeError, AttributeError, RecursionError),
    *(UnicodeDecodeError, json.JSONDecodeError, SafetensorError),
)
FORBIDDEN = (
    "alibi",
    "attention_layer_norm",
    "include_bias",
    "include_qkv_bias",
    "input_emb_norm",
    "scale_logits",
)


def llada_config(settings: Mapping) -> LlamaConfig:
    """The bidirectional Llama configuration of a LLaDA config.json; ValueError for what Llama lacks."""
    for name, value in REQUIRED.items():
        if settings.get(name, value) != value:
            raise ValueError(
                f"{name} is {settings[name]!r} in this LLaDA configuration: only {value!r} converts"
            )
    if extra := [name for name in FORBIDDEN if settings.get(name)]:
        raise ValueError(
            f"{extra[0]} is set in this LLaDA configuration, which Llama does not have: use another"
        )
    try:
        width, heads = settings["d_model"], settings["n_heads"]
        return LlamaConfig(
            vocab_size=settings.get("embedding_size") or settings["vocab_size"],
            hidden_size=width,
            intermediate_size=settings.get("mlp_hidden_size") or settings["mlp_ratio"] * width,
            num_hidden_layers=settings["n_layers"],
            num_attention_heads=heads,
            num_key_value_heads=settings.get("n_kv_heads") or heads,
            max_position_embeddings=settings["max_sequence_length"],
            rms_norm_eps=settings.get("rms_norm_eps", 1e-5),
            rope_parameters={"rope_type": "default", "rope_theta": settings.get("rope_theta", 10000.0)},
            tie_word_embeddings=settings.get("weight_tying", False),
            bos_token_id=None,
            eos_token_id=settings.get("eos_token_id"),
            pad_token_id=settings.get("pad_token_id"),
            is_causal=False,
            use_cache=False,
        )
    except KeyError as missing:
        raise ValueError(f"the LLaDA configuration has no {missing}: pass its whole config.json") from missing


def from_llada(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """LLaDA's names to Llama's; ValueError for a name that neither has a place for."""
    return {_renamed(name): tensor for name, tensor in state.items()}


def to_llada(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Llama's names to LLaDA's, with its prefix; ValueError for a name that neither has a place for.

    A head that is tied to the embeddings is left out, as LLaDA does.
    """
    outer = {there: f"model.transformer.{here}.weight" for here, there in OUTER.items()}
    block = {there: here for here, there in BLOCK.items()}
    found = {}
    table = state.get("model.embed_tokens.weight")
    for name, tensor in state.items():
        if name == "lm_head.weight" and table is not None and tensor.data_ptr() == table.data_ptr():
            continue
        layer = re.fullmatch(r"model\.layers\.(\d+)\.(.+)\.weight", name)
        if name.removesuffix(".weight") in outer:
            found[outer[name.removesuffix(".weight")]] = tensor
        elif layer and layer[2] in block:
            found[f"model.transformer.blocks.{layer[1]}.{block[layer[2]]}.weight"] = tensor
        else:
            raise ValueError(f"{name!r} is no weight of a plain Llama: merge adapters before converting")
    return found


def _renamed(name: str) -> str:
    layer = re.fullmatch(r"(?:model\.)?transformer\.blocks\.(\d+)\.(\w+)\.weight", name)
    if layer and layer[2] in BLOCK:
        return f"model.layers.{layer[1]}.{BLOCK[layer[2]]}.weight"
    outer = re.fullmatch(r"(?:model\.)?transformer\.(\w+)\.weight", name)
    if outer and outer[1] in OUTER:
        return f"{OUTER[outer[1]]}.weight"
    raise ValueError(f"{name!r} is no weight of a LLaDA of Llama blocks: check the checkpoint's layout")


def load_llada(
    folder: str | Path, reattention: ReattentionLoss | None = None, dtype=torch.bfloat16, **settings
) -> MaskedDiffusionModel:
    """MaskedDiffusionModel of a folder with config.json and safetensors, whole or in shards.

    Raises ValueError for a missing or unreadable file, for one without mask_token_id, and for weights that do
    not fit.
    """
    folder = Path(folder)
    try:
        given = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        index = folder / "model.safetensors.index.json"
        names = (
            sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
            if index.exists()
            else ["model.safetensors"]
        )
        if outside := [name for name in names if Path(name).name != name]:
            raise ValueError(f"{index} names {outside[0]!r}, no file of its folder: download it whole")
        state = {key: tensor for name in names for key, tensor in load_file(folder / name).items()}
    except UNREADABLE as error:
        raise ValueError(
            f"no LLaDA checkpoint can be read in {folder} ({error}): download it whole"
        ) from error
    if not isinstance(given, dict) or "mask_token_id" not in given:
        raise ValueError(f"the config.json in {folder} has no mask_token_id: add the id of the mask token")
    config = llada_config(given)
    converted = from_llada(state)
    with torch.device("meta"):
        expected = {name: tensor.shape for name, tensor in LlamaForCausalLM(config).state_dict().items()}
    if config.tie_word_embeddings:
        expected.pop("lm_head.weight")
    if wrong := [
        n
        for n in expected.keys() | converted.keys()
        if n not in expected or n not in converted or converted[n].shape != expected[n]
    ]:
        raise ValueError(
            f"{sorted(wrong)[0]} is missing, left over or of another shape in {folder}: its "
            "weights do not fit its config.json"
        )
    decoder = LlamaForCausalLM.from_pretrained(None, config=config, state_dict=converted, dtype=dtype)
    return MaskedDiffusionModel.from_base(decoder, given["mask_token_id"], reattention, **settings)
