"""Tiny random models with weights large enough for outputs far from uniform, and one batch for them."""

import torch
import transformers
from torch.func import functional_call

from causalnb.sci import SCITransformer

VOCABULARY = 29
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
    eos_token_id=2,
)
BASES = {
    "llama": ("Llama", DECODER),
    "qwen2": ("Qwen2", DECODER),
    "qwen3": ("Qwen3", DECODER | dict(head_dim=10)),
    "mistral": ("Mistral", DECODER | dict(sliding_window=4)),
    "gpt2": (
        "GPT2",
        dict(
            vocab_size=VOCABULARY,
            n_embd=24,
            n_layer=3,
            n_head=4,
            n_positions=64,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
            attn_pdrop=0.0,
            embd_pdrop=0.0,
            resid_pdrop=0.0,
        ),
    ),
}
SLOTS, WIDTH = 5, 8  # other than every batch size, token count and head count of the tests
FORCED = dict(do_sample=False, max_new_tokens=6, min_new_tokens=6, pad_token_id=0)


def base(name="llama", dtype=torch.float64, seed=0, **settings):
    """A tiny Hugging Face decoder in eval mode."""
    torch.manual_seed(seed)
    family, config = BASES[name]
    model = getattr(transformers, f"{family}LMHeadModel" if name == "gpt2" else f"{family}ForCausalLM")
    model = model(getattr(transformers, f"{family}Config")(**config | settings)).to(dtype).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return model


def sci(decoder=None, seed=1, **settings):
    """SCITransformer on a tiny decoder, its zero projections drawn at random so that binding shows."""
    decoder = base() if decoder is None else decoder
    torch.manual_seed(seed)
    defaults = dict(n_structural_slots=SLOTS, d_structure=WIDTH, n_structural_heads=2)
    return awake(SCITransformer.from_base(decoder, **defaults | settings).eval())


def awake(model):
    """Random weights for the projections that start at zero."""
    for projection in model.causal_binding.output_proj:
        torch.nn.init.normal_(projection.weight, std=0.7)
    return model


def batch(rows=3, tokens=9, prompt=4, seed=2, labels=True, structure_ids=None) -> dict:
    """input_ids, prompt_mask over the first `prompt` columns and labels on the rest, (rows, tokens) each."""
    draw = torch.Generator().manual_seed(seed)
    ids = torch.randint(3, VOCABULARY, (rows, tokens), generator=draw)
    mask = (torch.arange(tokens) < prompt).long().expand(rows, -1)
    found = dict(input_ids=ids, prompt_mask=mask)
    if labels:
        found["labels"] = ids.masked_fill(mask.bool(), -100)
    if structure_ids is not None:
        found["structure_ids"] = torch.tensor(structure_ids)
    return found


def left_padded(prompts):
    """input_ids and attention_mask (B, T) of prompts of different lengths, padded with 0 on the left."""
    width = max(map(len, prompts))
    ids = torch.stack([torch.cat([p.new_zeros(width - len(p)), p]) for p in prompts])
    mask = torch.stack([torch.cat([p.new_zeros(width - len(p)), torch.ones_like(p)]) for p in prompts])
    return ids, mask


def gradients(model, inputs):
    """The loss of one backward pass and the gradient of every parameter that has one."""
    model.zero_grad()
    loss = model(**inputs).loss
    loss.backward()
    return loss.item(), {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def check_gradients(module, *inputs, call=None, **fixed):
    """gradcheck in float64 of every parameter and floating input of `module` (or call(module, ...))."""
    module = module.double()
    if call is not None:
        module = _Called(module, call)
    names = [name for name, _ in module.named_parameters()]
    moving = [i for i, x in enumerate(inputs) if torch.is_tensor(x) and x.is_floating_point()]

    def run(*tensors):
        given = list(inputs)
        for place, tensor in zip(moving, tensors[len(names) :], strict=False):
            given[place] = tensor
        return functional_call(module, dict(zip(names, tensors, strict=False)), tuple(given), fixed)

    tensors = [p.detach().clone().requires_grad_() for p in module.parameters()]
    tensors += [inputs[i].detach().double().clone().requires_grad_() for i in moving]
    return torch.autograd.gradcheck(run, tensors, fast_mode=True)


def same_gradients(one, other, *inputs):
    """Outputs and the gradients of inputs and parameters (by name) of two modules agree to 1e-10."""
    found = []
    for module in (one, other):
        given = [x.detach().clone().requires_grad_() if x.is_floating_point() else x for x in inputs]
        out = module(*given)
        out = out if isinstance(out, tuple) else (out,)
        sum((part * torch.arange(part.numel()).view_as(part).cos()).sum() for part in out).backward()
        found.append((out, [x.grad for x in given], {n: p.grad for n, p in module.named_parameters()}))
    (outs, grads, parameters), (others, other_grads, other_parameters) = found
    torch.testing.assert_close(outs, others, rtol=0, atol=1e-10)
    torch.testing.assert_close(grads, other_grads, rtol=0, atol=1e-10)
    shared = parameters.keys() & other_parameters.keys()
    assert shared
    for name in shared:
        torch.testing.assert_close(parameters[name], other_parameters[name], rtol=0, atol=1e-10)


def into(attention, multihead):
    """Give our attention the weights of torch's."""
    parts = (attention.query, attention.key, attention.value)
    with torch.no_grad():
        for part, weight, bias in zip(
            parts, multihead.in_proj_weight.chunk(3), multihead.in_proj_bias.chunk(3), strict=False
        ):
            part.weight.copy_(weight)
            part.bias.copy_(bias)
    attention.output.load_state_dict(multihead.out_proj.state_dict())


class _Called(torch.nn.Module):
    """A module whose forward is call(module, ...)."""

    def __init__(self, module, call):
        super().__init__()
        self.module, self.call = module, call

    def forward(self, *inputs, **fixed):
        return self.call(self.module, *inputs, **fixed)
