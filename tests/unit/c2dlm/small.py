"""Tiny random models, one batch for them, and supervision at random."""

import torch
import transformers

from causalnb import c2dlm

VOCABULARY, MASK, EOS = 23, 22, 2
DECODER = dict(
    vocab_size=VOCABULARY,
    hidden_size=24,
    intermediate_size=20,
    num_hidden_layers=3,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=64,
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=EOS,
)
BASES = {
    "llama": ("Llama", "ForCausalLM", DECODER),
    "qwen2": ("Qwen2", "ForCausalLM", DECODER),
    "qwen3": ("Qwen3", "ForCausalLM", DECODER | dict(head_dim=10)),
    "mistral": ("Mistral", "ForCausalLM", DECODER | dict(sliding_window=None)),
    "gpt2": (
        "GPT2",
        "LMHeadModel",
        dict(
            vocab_size=VOCABULARY,
            n_embd=24,
            n_layer=3,
            n_head=4,
            n_positions=64,
            bos_token_id=1,
            eos_token_id=EOS,
            attn_pdrop=0.0,
            embd_pdrop=0.0,
            resid_pdrop=0.0,
        ),
    ),
}


def base(name="llama", dtype=torch.float32, seed=0, **settings):
    """A tiny Hugging Face decoder in eval mode, its weights large enough for outputs far from uniform."""
    torch.manual_seed(seed)
    family, head, config = BASES[name]
    config = getattr(transformers, family + "Config")(**config | settings)
    model = getattr(transformers, family + head)(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return model.to(dtype).eval()


def bert(dtype=torch.float32):
    """A plain masked model of Hugging Face."""
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=20,
        max_position_embeddings=40,
        pad_token_id=0,
    )
    model = transformers.BertForMaskedLM(config).to(dtype).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return model


def wrapped(decoder=None, reattention=None, **settings):
    """MaskedDiffusionModel on a tiny decoder."""
    decoder = base() if decoder is None else decoder
    return c2dlm.MaskedDiffusionModel.from_base(decoder, MASK, reattention, **settings).eval()


def masks(batch, tokens, concepts=5, seed=3):
    """Supervision of `batch` items: random concepts, relations in {-1, 0, 1, 2}, steps and ignored tails."""
    draw = torch.Generator().manual_seed(seed)
    items = []
    for i in range(batch):
        relation = torch.randint(-1, 3, (concepts, concepts), generator=draw)
        relation[0, 1], relation[1, 0] = 1, -1
        ignore = torch.arange(tokens) >= tokens - i % 3
        items.append(
            c2dlm.Supervision(
                torch.randint(-1, concepts, (tokens,), generator=draw),
                relation,
                torch.randint(-1, 3, (concepts,), generator=draw),
                ignore,
                torch.rand(tokens, generator=draw) < 0.7,
            )
        )
    return items


def batch_of(rows=3, tokens=12, prompt=4, seed=2, supervised=False):
    """What the collator makes of random rows of different lengths."""
    draw = torch.Generator().manual_seed(seed)
    items = masks(rows, tokens) if supervised else [None] * rows
    given = []
    for i in range(rows):
        ids = torch.randint(3, MASK, (tokens,), generator=draw)
        asked = torch.arange(tokens) < prompt - i % 2
        given.append(dict(input_ids=ids, prompt_mask=asked, supervision=items[i], draw=i))
    return c2dlm.MaskedDiffusionCollator(MASK, EOS)(given)


def gradients(model, inputs):
    """The loss of one backward pass and the gradient of every parameter that has one."""
    model.zero_grad()
    loss = model(**inputs).loss
    loss.backward()
    return loss.item(), {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
