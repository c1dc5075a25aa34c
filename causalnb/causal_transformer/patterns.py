"""Sparse attentions that are fixed beforehand: the ones of Figure 2, and Star-Transformer's, for Table 3."""

import torch
from torch import Tensor

from causalnb.wrapping import check_counts

PATTERNS = ("full", "band", "dilated", "block", "random", "star")


def attention_pattern(
    kind: str, tokens: int, width: int = 1, share: float = 0.25, seed: int = 0, global_tokens: int = 0
) -> Tensor:
    """Which keys a query may attend to, (T, T) bool, whatever the sentence; the diagonal is always in.

    "band": up to `width` tokens away. "dilated": every second token up to 2 width away. "block": blocks of
    width tokens. "random": each pair by chance with probability `share`. "star": neighbours up to `width`
    away, and token 0 with all. The first `global_tokens` see all and are seen by all. A pattern of fewer
    tokens is the corner of one of more, so that padding changes nothing. Raises ValueError for an unknown
    kind, no token, width below 1, share outside [0, 1] and global_tokens below 0.
    """
    if kind not in PATTERNS:
        raise ValueError(f"pattern is {kind!r}: choose among {', '.join(map(repr, PATTERNS))}")
    check_counts(1, tokens=tokens, width=width)
    check_counts(0, global_tokens=global_tokens)
    if not 0 <= share <= 1:
        raise ValueError(f"share is {share}: choose one in [0, 1]")
    place = torch.arange(tokens)
    away = (place[:, None] - place).abs()
    if kind == "star":
        kind, global_tokens = "band", max(1, global_tokens)
    seen = (place[:, None] < global_tokens) | (place < global_tokens)
    if kind == "full":
        return torch.ones_like(seen)
    if kind == "band":
        return seen | (away <= width)
    if kind == "dilated":
        return seen | (away <= 2 * width) & (away % 2 == 0)
    if kind == "block":
        return seen | (place[:, None] // width == place // width)
    return seen | (_chance(tokens, seed) < share) | (away == 0)


def _chance(tokens: int, seed: int) -> Tensor:
    """Uniform numbers (T, T); token i draws those that it shares with tokens up to i."""
    draw = torch.Generator().manual_seed(seed)
    numbers = torch.ones(tokens, tokens)
    for i in range(tokens):
        row = torch.rand(2 * i + 1, generator=draw, dtype=torch.float32)
        numbers[i, : i + 1], numbers[:i, i] = row[: i + 1], row[i + 1 :]
    return numbers
