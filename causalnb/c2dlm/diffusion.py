"""Masked diffusion: noising, its loss, and a view of a model's logits at chosen positions alone."""

from collections.abc import Sequence
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import nn

WEIGHTS = ("1/t", "none")


def mask_tokens(input_ids, prompt_mask, mask_token_id, t=None, eps=1e-3, generator=None):
    """Forward process: each response token becomes the mask with probability p = (1 - eps) t + eps.

    input_ids and prompt_mask (True on the prompt) are (B, T); t in (0, 1] is a number or (B,), drawn
    uniformly when None; generator may be B of them, one for each row. Returns noised ids (B, T), masked
    (B, T) bool and p (B,). Prompts are never masked. Raises ValueError for t or eps out of range, shapes that
    do not fit and a row without a response.
    """
    if not 0 <= eps < 1:
        raise ValueError(f"eps is {eps}: choose it in [0, 1), as the smallest masking probability")
    _checked_rows(input_ids, prompt_mask)
    batch, device = len(input_ids), input_ids.device
    if t is None:
        t = 1 - _uniform((batch,), generator, device)  # in (0, 1]
    t = torch.as_tensor(t, dtype=torch.get_default_dtype(), device=device).expand(batch)
    if not bool(((t > 0) & (t <= 1)).all()):
        wrong = t[~((t > 0) & (t <= 1))][0].item()
        raise ValueError(f"t is {wrong:g}: the share of noise must lie in (0, 1]")
    p = (1 - eps) * t + eps
    masked = (_uniform(input_ids.shape, generator, device) < p[:, None]) & ~prompt_mask.bool()
    return input_ids.masked_fill(masked, mask_token_id), masked, p


def mask_in_order(input_ids, prompt_mask, mask_token_id, rank, generator=None):
    """Ours, not the paper's: the first k response tokens by rank stay, the rest are masked, k uniform.

    rank (B, T): causes below effects, as `sample` fills them; equal ranks in the order of the text. So every
    noised row is a state that sampling by rank can reach. generator as in mask_tokens. Returns noised ids
    (B, T), masked (B, T) bool and p (B,), the share masked, in (0, 1]. Raises ValueError as mask_tokens and
    for ranks that do not fit.
    """
    _checked_rows(input_ids, prompt_mask)
    if rank.shape != input_ids.shape:
        raise ValueError(
            f"rank has shape {tuple(rank.shape)}, but input_ids {tuple(input_ids.shape)}: give "
            "one rank for each token"
        )
    response = ~prompt_mask.bool()
    length = response.sum(1)  # (B,)
    kept = (_uniform((len(input_ids),), generator, input_ids.device) * length).long()
    place = rank.double().masked_fill(~response, torch.inf).argsort(dim=1, stable=True).argsort(dim=1)
    masked = response & (place >= kept[:, None])
    p = (length - kept).to(torch.get_default_dtype()) / length
    return input_ids.masked_fill(masked, mask_token_id), masked, p


def _uniform(shape, generator, device) -> torch.Tensor:
    """Uniform numbers in [0, 1) of one generator (None: torch's), or each row's of its own."""
    if isinstance(generator, Sequence):
        if len(generator) != shape[0]:
            raise ValueError(f"{len(generator)} generators came with {shape[0]} rows: give one for each row")
        rows = [torch.rand(shape[1:], generator=own, device=own.device) for own in generator]
        return torch.stack(rows).to(device)
    draws_on = device if generator is None else generator.device  # unprobed: runs draw row by row
    return torch.rand(shape, generator=generator, device=draws_on).to(device)  # unprobed: the same


def diffusion_loss(logits, input_ids, masked, p, prompt_mask, weight="1/t"):
    """Section 2.1: mean over B of 1/L' sum_i m_i CE_i / p, L' counting every response token, padded EOS too.

    logits (B, T, V) stand at the positions they predict; input_ids are clean; masked, p and prompt_mask as
    from `mask_tokens`. weight="none" leaves out 1/p, as the paper prints it, which is no bound on the
    likelihood. Raises ValueError for another weight, masks of other values than 0 and 1, p outside (0, 1] and
    a row without a response.
    """
    if not bool(((p > 0) & (p <= 1)).all()):
        raise ValueError(f"p holds {p[~((p > 0) & (p <= 1))][0].item():g}: give probabilities in (0, 1]")
    masked = as_mask(masked, "masked")
    return loss_at_masked(logits[masked], input_ids, masked, p, prompt_mask, weight)


def loss_at_masked(logits, input_ids, masked, p, prompt_mask, weight="1/t"):
    """`diffusion_loss` of logits (n, V) at the n masked positions alone, in the order of masked.nonzero().

    Raises ValueError for a masked position without a label, as -100, too.
    """
    if weight not in WEIGHTS:
        raise ValueError(f"weight is {weight!r}: choose '1/t' or 'none'")
    _checked_rows(input_ids, prompt_mask)
    masked = masked.bool()
    if bool((input_ids[masked] < 0).any()):
        raise ValueError(
            f"the label {int(input_ids[masked].min())} stands at a masked position: give its "
            "clean id, and mark with prompt_mask what is not to be masked"
        )
    length = (~prompt_mask.bool()).sum(1)  # (B,)
    share = 1 / length if weight == "none" else 1 / (length * p)
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    surprise = F.cross_entropy(logits, input_ids[masked], reduction="none")  # (n,)
    rows = masked.nonzero()[:, 0]
    return (surprise * share.to(surprise.dtype)[rows]).sum() / len(input_ids)


@contextmanager
def logits_at(model: nn.Module, positions: tuple):
    """Within this context the output layer of a Hugging Face model sees hidden[positions] (n, D) alone.

    Its logits are then (1, n, V), or those of all positions where a compiled model does not see the hook.
    Raises ValueError for a model without an output layer.
    """
    head = model.get_output_embeddings()
    if head is None:
        raise ValueError(
            f"{type(model).__name__} has no output embeddings: pass a model with a language head"
        )
    hook = head.register_forward_pre_hook(lambda module, given: (given[0][positions][None], *given[1:]))
    try:
        yield
    finally:
        hook.remove()


def logits_there(logits, places):
    """What `logits_at` gave for places (B, T), True at n of them: (n, V), also where it gave all."""
    return logits[places] if logits.shape[:2] == places.shape else logits[0]


def as_mask(values, name: str):
    """Zeros and ones as bool, of the same shape; ValueError for anything else, NaN too."""
    if values.dtype != torch.bool:
        other = values[(values != 0) & (values != 1)]
        if other.numel():
            raise ValueError(f"{name} holds {other[0].item():g}: mark with 1 and 0, or True and False")
    return values.bool()


def _checked_rows(input_ids, prompt_mask) -> None:
    if input_ids.dim() != 2 or prompt_mask.shape != input_ids.shape:
        raise ValueError(
            f"input_ids have shape {tuple(input_ids.shape)} and prompt_mask "
            f"{tuple(prompt_mask.shape)}: both must be (batch, tokens)"
        )
    full = as_mask(prompt_mask, "prompt_mask").all(1).nonzero()
    if len(full):
        raise ValueError(f"row {int(full[0])} is prompt throughout: mark its response with 0 in prompt_mask")
