"""Sampling from a masked diffusion model: blocks from left to right, in a block the surest tokens first."""

import torch

from .diffusion import as_mask, logits_at
from .model import MaskedDiffusionModel

REMASKING = ("low_confidence", "random")
EOS = ("free", "last", "never")


@torch.no_grad()
def sample(
    model,
    prompt_ids,
    gen_length,
    block_length,
    steps,
    temperature=0.0,
    remasking="low_confidence",
    *,
    mask_token_id=None,
    eos_token_id=None,
    eos="free",
    rank=None,
    attention_mask=None,
    generator=None,
    return_order=False,
):
    """Ids (B, P + gen_length): gen_length masks are appended to prompt_ids (B, P) and filled block by block.

    Each of the gen_length / block_length blocks takes steps / blocks forward passes and fixes an equal share
    of its tokens in each; what is not fixed stays masked. remasking "low_confidence" fixes the surest first,
    "random" any. temperature, 0 (greedy) or more, adds Gumbel noise. `model` is any masked model with .logits
    at the same position; the output layer sees the open positions of the block alone. eos="last" fixes
    predicted eos_token_id (one, or a list) last, "never" forbids it, "free" does neither. rank
    ((gen_length,) or (B, gen_length)) fills lower ranks first: causes before effects. Left-padded prompts
    need their attention_mask (B, P); 1 in (B, 1, P + gen_length, P + gen_length) says which query sees which
    key. With return_order also the pass (B, gen_length), from 0, in which each token was fixed. One thread at
    a time may sample from a model. Raises ValueError for lengths and steps that do not divide, prompts that
    are all mask, unknown choices, a rank or an attention_mask of another shape or with other values, and
    padding where the model numbers positions past it, as RoBERTa does.
    """
    mask_token_id = _mask_token(model, mask_token_id)
    blocks, passes = _plan(gen_length, block_length, steps)
    _checked(prompt_ids, mask_token_id, temperature, remasking, eos, eos_token_id)
    (batch, prompt), device = prompt_ids.shape, prompt_ids.device
    ids = torch.cat([prompt_ids, prompt_ids.new_full((batch, gen_length), mask_token_id)], 1).long()
    extra = {}
    if attention_mask is not None and attention_mask.dim() == 4 and _adds_masks(model):
        raise ValueError(
            "a mask of queries and keys came for a model under eager attention, which would add it to its "
            "scores: call model.set_attn_implementation('sdpa'), or wrap it in MaskedDiffusionModel"
        )
    if attention_mask is not None and attention_mask.shape == (batch, 1, *[prompt + gen_length] * 2):
        extra = {"attention_mask": as_mask(attention_mask, "attention_mask")}
    elif attention_mask is not None:
        if attention_mask.shape != prompt_ids.shape:
            raise ValueError(
                f"attention_mask has shape {tuple(attention_mask.shape)}, but prompt_ids "
                f"{tuple(prompt_ids.shape)}: pass one entry for each token of the prompt, or for each "
                "query and key of the whole text"
            )
        as_mask(attention_mask, "attention_mask")  # unprobed: of a mask that is given, which no run does
        seen = torch.cat([attention_mask, attention_mask.new_ones(batch, gen_length)], 1)
        extra = {"attention_mask": seen}
        if not seen.all():
            _require_positions_from_0(model)
            extra["position_ids"] = (seen.long().cumsum(1) - 1).clamp(min=0)
    rank = None if rank is None else _ranked(rank, batch, gen_length).to(device)
    rows, order = torch.arange(batch, device=device)[:, None], ids.new_zeros(batch, gen_length)
    for block in range(blocks):
        first = prompt + block * block_length
        places = torch.arange(first, first + block_length, device=device).expand(batch, -1)  # open, (B, m)
        for turn in range(passes):
            fixed = block_length // passes + (turn < block_length % passes)
            with logits_at(model, (rows, places)):
                logits = model(input_ids=ids, **extra).logits  # (1, B, m, V), or of all
            logits = (logits[0] if logits.dim() == 4 else logits[rows, places]).double()
            logits[..., mask_token_id] = -torch.inf
            if eos == "never":
                logits[..., eos_token_id] = -torch.inf
            noise = 0.0 if temperature == 0 else temperature * _gumbel(logits, generator)
            token = (logits + noise).argmax(-1)  # (B, m)
            sure = _confidence(logits, token, remasking, generator)
            if eos == "last":
                ends = torch.as_tensor(eos_token_id, device=device).reshape(-1)  # unprobed: none waits
                sure = sure - 1e6 * torch.isin(token, ends)  # unprobed: the same
            best = sure.argsort(dim=1, descending=True, stable=True)
            if rank is not None:
                ranked = rank.gather(1, places - prompt).gather(1, best)
                best = best.gather(1, ranked.argsort(dim=1, stable=True))
            chosen, left = best[:, :fixed], best[:, fixed:]
            where = places.gather(1, chosen)
            ids.scatter_(1, where, token.gather(1, chosen))
            order.scatter_(1, where - prompt, block * passes + turn)
            places = places.gather(1, left).sort(1).values
    return (ids, order) if return_order else ids


def _gumbel(logits, generator):
    device = logits.device if generator is None else generator.device
    uniform = torch.rand(logits.shape, dtype=torch.float64, generator=generator, device=device)
    return -(-uniform.clamp(min=1e-300).log()).log().to(logits.device)


def _confidence(logits, token, remasking, generator):
    if remasking == "random":
        device = logits.device if generator is None else generator.device
        return torch.rand(token.shape, generator=generator, device=device).to(logits)
    return logits.gather(-1, token[..., None])[..., 0] - logits.logsumexp(-1)


def _ranked(rank, batch: int, gen_length: int):
    """Ranks (B, gen_length) of one row or of each."""
    rank = torch.as_tensor(rank)
    if rank.shape not in ((gen_length,), (1, gen_length), (batch, gen_length)):
        raise ValueError(
            f"rank has shape {tuple(rank.shape)}: give one rank for each of the {gen_length} tokens, for all "
            f"rows or for each of {batch}"
        )
    if not rank.double().isfinite().all():
        raise ValueError("rank holds values that are not finite: number the tokens 0, 1, 2, ...")
    return rank.expand(batch, gen_length)


def _mask_token(model, mask_token_id) -> int:
    found = getattr(model.config, "mask_token_id", None) if mask_token_id is None else mask_token_id
    if found is None:
        raise ValueError(f"{type(model).__name__} names no mask token: pass mask_token_id")
    return found


def _plan(gen_length, block_length, steps) -> tuple[int, int]:
    """Blocks, and forward passes for each."""
    if gen_length < 1 or block_length < 1 or gen_length % block_length:
        raise ValueError(
            f"gen_length {gen_length} is not a multiple of block_length {block_length}: "
            "choose lengths that divide"
        )
    blocks = gen_length // block_length
    if steps < 1 or steps % blocks:
        raise ValueError(f"{steps} steps do not divide among {blocks} blocks: choose a multiple of {blocks}")
    if steps > gen_length:
        raise ValueError(
            f"{steps} steps are more than the {gen_length} tokens to fill: choose at most that many"
        )
    return blocks, steps // blocks


def _adds_masks(model) -> bool:
    """Whether attention adds its mask to scores, and the model makes no numbers of True and False."""
    kind = getattr(getattr(model, "config", None), "_attn_implementation", None)
    return kind == "eager" and not isinstance(model, MaskedDiffusionModel)


def _require_positions_from_0(model) -> None:
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None:
            raise ValueError(
                f"{type(model).__name__} numbers its positions from {module.padding_idx + 1}, "
                "past its padding: pass prompts of one length at a time, without padding"
            )


def _checked(prompt_ids, mask_token_id, temperature, remasking, eos, eos_token_id) -> None:
    if prompt_ids.dim() != 2:
        raise ValueError(
            f"prompt_ids have shape {tuple(prompt_ids.shape)}: pass (batch, tokens), also for one row"
        )
    if prompt_ids.is_floating_point():
        raise ValueError(f"prompt_ids are of {prompt_ids.dtype}: pass ids, whole numbers")
    empty = (prompt_ids == mask_token_id).all(1).nonzero() if prompt_ids.shape[1] else []
    if len(empty):
        raise ValueError(f"prompt {int(empty[0])} is all mask: give it at least one token to answer")
    if not 0 <= temperature < torch.inf:
        raise ValueError(f"temperature is {temperature}: choose 0 (greedy) or more, and finite")
    if remasking not in REMASKING:
        raise ValueError(f"remasking is {remasking!r}: choose 'low_confidence' or 'random'")
    if eos not in EOS or (eos != "free" and eos_token_id is None):
        raise ValueError(
            f"eos is {eos!r} with eos_token_id {eos_token_id}: choose 'free', or 'last' or "
            "'never' with the token's id, or a list of them"
        )
