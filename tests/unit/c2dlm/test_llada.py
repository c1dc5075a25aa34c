"""LLaDA checkpoints: a literal forward pass under LLaDA's names, both conversions, a folder read whole."""

import json
import math

import pytest
import torch
from safetensors.torch import save_file
from transformers import LlamaForCausalLM

from causalnb import c2dlm

D, H, G, L, F, V, T = 16, 4, 2, 2, 20, 19, 7
SETTINGS = {
    "model_type": "llada",
    "block_type": "llama",
    "d_model": D,
    "n_heads": H,
    "n_kv_heads": G,
    "n_layers": L,
    "mlp_hidden_size": F,
    "vocab_size": V,
    "embedding_size": V,
    "max_sequence_length": 32,
    "rope": True,
    "rope_theta": 500000.0,
    "rms_norm_eps": 1e-5,
    "layer_norm_type": "rms",
    "activation_type": "silu",
    "weight_tying": False,
    "include_bias": False,
    "include_qkv_bias": False,
    "mask_token_id": 18,
    "eos_token_id": 1,
    "pad_token_id": 1,
}


def checkpoint(tied=False):
    """Random weights under LLaDA's names."""
    draw = torch.Generator().manual_seed(0)
    kv = D // H * G
    block = dict(
        attn_norm=(D,),
        q_proj=(D, D),
        k_proj=(kv, D),
        v_proj=(kv, D),
        attn_out=(D, D),
        ff_norm=(D,),
        ff_proj=(F, D),
        up_proj=(F, D),
        ff_out=(D, F),
    )
    shapes = {"wte": (V, D), "ln_f": (D,), **({} if tied else {"ff_out": (V, D)})}
    shapes |= {f"blocks.{i}.{name}": shape for i in range(L) for name, shape in block.items()}
    return {
        f"model.transformer.{name}.weight": torch.randn(shape, generator=draw) * 0.5
        for name, shape in shapes.items()
    }


def literal(state, ids):
    """LLaDA by its equations: RMS norms, rotation of halves, full attention, SwiGLU, in float64."""
    w = {
        name.removeprefix("model.transformer.").removesuffix(".weight"): t.double()
        for name, t in state.items()
    }

    def norm(x, scale):
        return x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() * scale

    def rotated(x):  # (T, heads, D/H)
        half = x.shape[-1] // 2
        out = torch.zeros_like(x)
        for t in range(len(x)):
            for i in range(half):
                angle = t * 500000.0 ** (-2 * i / x.shape[-1])
                a, b = x[t, :, i], x[t, :, i + half]
                out[t, :, i] = a * math.cos(angle) - b * math.sin(angle)
                out[t, :, i + half] = b * math.cos(angle) + a * math.sin(angle)
        return out

    x = w["wte"][ids]
    for layer in range(L):
        at = {name.split(".")[2]: t for name, t in w.items() if name.startswith(f"blocks.{layer}.")}
        y = norm(x, at["attn_norm"])
        q = rotated((y @ at["q_proj"].T).view(T, H, D // H))
        k = rotated((y @ at["k_proj"].T).view(T, G, D // H))
        v = (y @ at["v_proj"].T).view(T, G, D // H)
        heads = [
            ((q[:, h] @ k[:, h * G // H].T) / math.sqrt(D // H)).softmax(-1) @ v[:, h * G // H]
            for h in range(H)
        ]
        x = x + torch.cat(heads, -1) @ at["attn_out"].T
        y = norm(x, at["ff_norm"])
        gate = y @ at["ff_proj"].T
        x = x + (gate * torch.sigmoid(gate) * (y @ at["up_proj"].T)) @ at["ff_out"].T
    return norm(x, w["ln_f"]) @ w.get("ff_out", w["wte"]).T


def write(folder, state, shards=1, **changes):
    (folder / "config.json").write_text(json.dumps(SETTINGS | changes), encoding="utf-8")
    names = sorted(state)
    parts = [{name: state[name] for name in names[i::shards]} for i in range(shards)]
    if shards == 1:
        return save_file(state, folder / "model.safetensors")
    places = {}
    for i, part in enumerate(parts):
        save_file(part, folder / f"part-{i}.safetensors")
        places |= dict.fromkeys(part, f"part-{i}.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}), encoding="utf-8")


@pytest.mark.parametrize("shards, tied", [(1, False), (3, False), (1, True)])
def test_a_loaded_checkpoint_computes_what_llada_does(tmp_path, shards, tied):
    state = checkpoint(tied)
    write(tmp_path, state, shards, weight_tying=tied)
    loss = c2dlm.ReattentionLoss(3.0, 10.0)
    model = c2dlm.load_llada(tmp_path, loss, dtype=torch.float64, gamma=0.5).eval()
    assert model.config.mask_token_id == 18 and model.config.gamma == 0.5 and model.reattention.alpha == 3
    ids = torch.randint(2, V, (1, T))
    found = model(ids).logits[0]  # its norms are in float32
    torch.testing.assert_close(found, literal(state, ids[0]), rtol=0, atol=1e-5)
    assert c2dlm.sample(model, ids, 4, 2, 4).shape == (1, T + 4)


def test_both_ways_give_the_same_weights_back():
    state = checkpoint()
    there = c2dlm.from_llada(state)
    assert there["model.layers.1.mlp.gate_proj.weight"] is state["model.transformer.blocks.1.ff_proj.weight"]
    assert len(there) == len(state) == 9 * L + 3
    back = c2dlm.to_llada(there)
    assert back.keys() == state.keys() and all(back[name] is state[name] for name in state)
    bare = {name.removeprefix("model."): tensor for name, tensor in state.items()}
    assert c2dlm.from_llada(bare).keys() == there.keys()
    config = c2dlm.llada_config(SETTINGS)
    assert config.is_causal is False and config.rope_parameters["rope_theta"] == 500000.0


@pytest.mark.parametrize("name", ["../model.safetensors", "/model.safetensors"])
def test_a_shard_lies_in_its_folder(tmp_path, name):
    (tmp_path / "inside").mkdir()
    write(tmp_path / "inside", checkpoint())
    (tmp_path / "inside" / "model.safetensors").rename(tmp_path / "model.safetensors")
    (tmp_path / "inside" / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": {"w": name}}), encoding="utf-8"
    )
    with pytest.raises(ValueError, match=f"index.json names {name!r}, no file of its folder: download"):
        c2dlm.load_llada(tmp_path / "inside")


def test_what_does_not_convert_is_refused(tmp_path):
    with pytest.raises(ValueError, match="'model.transformer.blocks.0.att_proj.weight' is no weight of a"):
        c2dlm.from_llada({"model.transformer.blocks.0.att_proj.weight": torch.zeros(1)})
    with pytest.raises(ValueError, match="'model.layers.0.q.lora_A.weight' is no weight of a plain Llama"):
        c2dlm.to_llada({"model.layers.0.q.lora_A.weight": torch.zeros(1)})
    for change, said in (
        ({"block_type": "olmo"}, "block_type is 'olmo' .*: only 'llama' converts"),
        ({"alibi": True}, "alibi is set in this LLaDA configuration, which Llama does not"),
    ):
        with pytest.raises(ValueError, match=said):
            c2dlm.llada_config(SETTINGS | change)
    with pytest.raises(ValueError, match="the LLaDA configuration has no 'd_model': pass its whole"):
        c2dlm.llada_config({"n_heads": 2})
    with pytest.raises(ValueError, match="no LLaDA checkpoint can be read in .*: download it whole"):
        c2dlm.load_llada(tmp_path)
    state = checkpoint()
    state.pop("model.transformer.ln_f.weight")
    write(tmp_path, state)
    with pytest.raises(ValueError, match="model.norm.weight is missing, left over or of another shape"):
        c2dlm.load_llada(tmp_path)
    write(tmp_path, checkpoint(), mlp_hidden_size=F + 1)
    with pytest.raises(ValueError, match="mlp.down_proj.weight is missing, left over or of another shape"):
        c2dlm.load_llada(tmp_path)


def test_a_tied_model_is_written_without_its_head(tmp_path):
    tied = LlamaForCausalLM(c2dlm.llada_config(SETTINGS | {"weight_tying": True}))
    state = c2dlm.to_llada(tied.state_dict())
    assert "model.transformer.ff_out.weight" not in state
    write(tmp_path, state, weight_tying=True)
    again = c2dlm.load_llada(tmp_path, dtype=torch.float32).base
    assert all(torch.equal(weight, again.state_dict()[name]) for name, weight in tied.state_dict().items())


def test_a_setting_misspelt_and_a_mask_token_missing(tmp_path):
    write(tmp_path, checkpoint())
    with pytest.raises(ValueError, match="there is no setting 'gama': give weight, gamma"):
        c2dlm.load_llada(tmp_path, gama=3)
    (tmp_path / "config.json").write_text(
        json.dumps({k: v for k, v in SETTINGS.items() if "mask" not in k}), encoding="utf-8"
    )
    with pytest.raises(ValueError, match="the config.json in .* has no mask_token_id: add the id of"):
        c2dlm.load_llada(tmp_path)


@pytest.mark.parametrize("text", ["[" * 100_000, "[]", "null", "\xff"])
def test_a_configuration_that_is_none_is_refused(tmp_path, text):
    (tmp_path / "config.json").write_text(text, encoding="latin-1")
    save_file({}, tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match=str(tmp_path)):
        c2dlm.load_llada(tmp_path)
