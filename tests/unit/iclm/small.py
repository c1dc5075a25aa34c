"""Tiny random bases, modules whose adapters differ, and batches of two formats."""

import torch
import transformers

from causalnb.iclm import ICLMForCausalLM

VOCABULARY, WIDTH, LAYERS, EOS, PAD = 23, 16, 3, 2, 0
DECODER = dict(
    vocab_size=VOCABULARY,
    hidden_size=WIDTH,
    intermediate_size=20,
    num_hidden_layers=LAYERS,
    num_attention_heads=2,
    num_key_value_heads=1,
    max_position_embeddings=64,
    pad_token_id=PAD,
    bos_token_id=1,
    eos_token_id=EOS,
)
BASES = {
    "llama": ("Llama", "ForCausalLM", DECODER, ["q_proj", "k_proj", "v_proj", "o_proj"]),
    "qwen2": ("Qwen2", "ForCausalLM", DECODER, ["q_proj", "v_proj", "down_proj"]),
    "gpt2": (
        "GPT2",
        "LMHeadModel",
        dict(
            vocab_size=VOCABULARY,
            n_embd=WIDTH,
            n_layer=LAYERS,
            n_head=2,
            n_positions=64,
            bos_token_id=1,
            eos_token_id=EOS,
            pad_token_id=PAD,
            attn_pdrop=0.0,
            embd_pdrop=0.0,
            resid_pdrop=0.0,
        ),
        ["c_attn", "c_proj"],
    ),
}


def base(name="llama", dtype=torch.float32, seed=0, **settings):
    """A tiny Hugging Face decoder in eval mode, its weights large enough for outputs far from uniform."""
    torch.manual_seed(seed)
    family, head, config, _ = BASES[name]
    config = getattr(transformers, family + "Config")(**config | settings)
    model = getattr(transformers, family + head)(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return model.to(dtype).eval()


def wrapped(name="llama", decoder=None, awake=True, **settings):
    """An ICLM on a tiny base, in eval mode, its router frozen unless said; awake, adapters are not zero."""
    decoder = base(name) if decoder is None else decoder
    settings.setdefault("router_trainable", False)
    settings["lora"] = {"r": 2, "dropout": 0.0, "target_modules": BASES[name][3]} | settings.get("lora", {})
    model = ICLMForCausalLM.from_base(decoder, **settings).eval()
    if awake:
        shake(model)
    return model


def shake(model, seed=5):
    """Draw the second factor of every adapter, which starts at zero."""
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for layer in model._adapted.values():
            layer.B.copy_(torch.randn(layer.B.shape, generator=draw) * 0.3)
            layer.A.copy_(torch.randn(layer.A.shape, generator=draw) * 0.3)
    return model


def aim(model, prompts):
    """Put centroid k at the router's state of prompts[k] (N, T), so that these are routed to 0, 1, ..."""
    states = model.router_states(prompts).detach()
    with torch.no_grad():
        model.router.choose.codebook.copy_(model.router.norm(states))
    return model


def batch_of(rows=4, tokens=9, prompt=6, padded=True, seed=3):
    """Left-padded inputs whose last tokens are labels; even and odd rows use different words."""
    draw = torch.Generator().manual_seed(seed)
    ids = torch.stack(
        [torch.randint(3 + 10 * (i % 2), 13 + 10 * (i % 2), (tokens,), generator=draw) for i in range(rows)]
    )
    seen = torch.ones_like(ids)
    if padded:
        for i in range(rows):
            seen[i, : i % 3] = 0
    labels = ids.masked_fill(torch.arange(tokens) < prompt, -100)
    return dict(input_ids=ids.masked_fill(seen == 0, PAD), attention_mask=seen, labels=labels)


def prompts_of(batch, prompt=6):
    """The same inputs without their answers, for generate."""
    return {name: batch[name][:, :prompt] for name in ("input_ids", "attention_mask")}


def gradients(model, inputs):
    """The loss of one backward pass and the gradient of every parameter that has one."""
    model.zero_grad()
    loss = model(**inputs).loss
    loss.backward()
    return loss.item(), {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
