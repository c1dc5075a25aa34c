"""Sparse attentions that are fixed beforehand: the ones of Figure 2, and Star-Transformer's, for Table 3."""

from numbers import Integral

import torch
from torch import Tensor

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
    if any(isinstance(one, bool) or not isinstance(one, Integral) for one in (tokens, width, global_tokens)):
        raise ValueError(
            f"a pattern of {tokens!r} tokens has width {width!r} and {global_tokens!r} global tokens: choose "
            "whole numbers"
        )
    if tokens < 1 or not width >= 1 or not 0 <= share <= 1 or not global_tokens >= 0:
        raise ValueError(
            f"a pattern of {tokens} tokens has width {width}, share {share} and {global_tokens} "
            "global tokens: choose at least 1 token, width 1 or more, share in [0, 1] and 0 "
            "global tokens or more"
        )
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
