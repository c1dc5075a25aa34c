"""The feature updater of Equation 4: a graph convolution whose adjacency matrix is the attention."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

GCN_MODES = ("paper", "two_hop", "none")
ACTIVATIONS = {"gelu": F.gelu, "relu": F.relu}


class GCNValueUpdate(nn.Module):
    """sigma(A sigma(X W0) W1) of Equation 4, from values X W0 (B, H, T, d) of all heads; W1 is (H, d, d).

    "paper" applies A once, as printed, which reaches one hop. "two_hop" is sigma(A sigma(A X W0) W1), a
    graph convolution of two layers, which reaches parents of parents. "none" is A X W0, of ordinary
    attention. activation is sigma, which the paper leaves open. Raises ValueError for unknown settings.
    """

    def __init__(self, heads: int, width: int, mode: str = "paper", activation: str = "gelu"):
        super().__init__()
        for name, chosen, known in (("mode", mode, GCN_MODES), ("activation", activation, ACTIVATIONS)):
            if chosen not in known:
                raise ValueError(f"{name} is {chosen!r}: choose among {', '.join(map(repr, known))}")
        self.mode, self.activation = mode, activation
        self.sigma = ACTIVATIONS[activation]
        if mode != "none":
            self.weight = nn.Parameter(torch.randn(heads, width, width) * width**-0.5)

    def extra_repr(self) -> str:
        """What print(model) shows of the settings."""
        return f"mode={self.mode!r}, activation={self.activation!r}"

    def forward(self, attention: Tensor | Callable[[Tensor], Tensor], value: Tensor) -> Tensor:
        """The new features (B, H, T, d); attention is a map (B, H, T, T), or a function value -> A value."""
        product = attention if callable(attention) else attention.matmul
        return self.outer(product(self.inner(product, value)))

    def inner(self, product: Callable[[Tensor], Tensor], value: Tensor) -> Tensor:
        """What A is applied to last, (B, H, T, d)."""
        if self.mode == "none":
            return value
        return self.sigma(product(value) if self.mode == "two_hop" else value) @ self.weight

    def outer(self, gathered: Tensor) -> Tensor:
        """The features after the last product with A."""
        return gathered if self.mode == "none" else self.sigma(gathered)
