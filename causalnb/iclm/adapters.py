"""Low-rank adapters of several modules on one frozen base, chosen for each row of a batch."""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from causalnb.wrapping import OfThread, of_all_threads


class Rows:
    """Which module's adapter each row of this thread's batch takes: (R,) indices, one for all, or None."""

    module = OfThread()

    @contextmanager
    def of(self, module: Tensor | int | None) -> Iterator[None]:
        """Within this context the rows belong to `module`."""
        previous, self.module = self.module, module
        try:
            yield
        finally:
            self.module = previous

    def __getstate__(self) -> dict:
        return of_all_threads(vars(self))


class RowLoRA(nn.Module):
    """A frozen linear map plus alpha/r B_m A_m x, where m is the module of the row that x stands in.

    A is (M, r, in), B (M, out, r) and 0 at first, as in LoRA; both are float32 where the base is of less or
    quantised. All rows of a batch go through the frozen map at once; adapters take two batched products. A
    module alone, of a rank so high that its two products cost more than one by W + alpha/r B A, takes that.
    Modules marked in the buffer frozen (M,) get no gradient.
    """

    def __init__(self, base: nn.Module, modules: int, rows: Rows, rank: int, alpha: float, dropout: float):
        super().__init__()
        transposed = isinstance(base, Conv1D)
        inside, outside = base.weight.shape if transposed else (base.in_features, base.out_features)
        made = {
            "device": base.weight.device,
            "dtype": torch.float64 if base.weight.dtype == torch.float64 else torch.float32,
        }
        self.base, self.rows, self.scaling = base, rows, alpha / rank
        self.dropout = nn.Dropout(dropout)
        self.A = nn.Parameter(torch.empty(modules, rank, inside, **made))
        self.B = nn.Parameter(torch.zeros(modules, outside, rank, **made))
        nn.init.uniform_(self.A, -1 / math.sqrt(inside), 1 / math.sqrt(inside))
        self.register_buffer("frozen", torch.zeros(modules, dtype=torch.bool, device=base.weight.device))
        same = type(base) in (nn.Linear, Conv1D) and base.weight.dtype == made["dtype"]  # nor quantised
        self.merges = same and dropout == 0 and 3 * rank * (inside + outside) > inside * outside

    def forward(self, x: Tensor) -> Tensor:
        """(R, T, in) to (R, T, out). Raises ValueError where a batch has another number of rows."""
        module = self.rows.module
        if module is None:
            return self.base(x)
        if isinstance(module, Tensor) and (x.dim() != 3 or len(x) != len(module)):
            raise ValueError(
                f"an adapted layer of {len(module)} rows was given {tuple(x.shape)}: name only "
                "layers in lora's target_modules that see (batch, tokens, features)"
            )
        hold = self.frozen[:, None, None]
        A, B = (torch.where(hold, weight.detach(), weight) for weight in (self.A, self.B))
        B = self.scaling * B
        if isinstance(module, Tensor) and len(self.A) == 1:
            module = 0
        if isinstance(module, int) and self.merges and not self._watched():
            added, bias = B[module] @ A[module], self.base.bias  # (out, in)
            if isinstance(self.base, Conv1D):
                weight = self.base.weight + added.mT  # unprobed: no run has a GPT-2
                return torch.addmm(bias, x.flatten(0, -2), weight).unflatten(0, x.shape[:-1])  # unprobed: so
            return F.linear(x, self.base.weight + added, bias)
        out, x = self.base(x), self.dropout(x).to(A.dtype)
        if isinstance(module, int):
            return out + F.linear(F.linear(x, A[module]), B[module]).to(out.dtype)
        thin = x @ A[module].mT  # (R, T, r)
        if out.dtype == thin.dtype:
            return torch.baddbmm(out, thin, B[module].mT)
        return out + (thin @ B[module].mT).to(out.dtype)  # unprobed: a base of another dtype; see its tests

    def _watched(self) -> bool:
        """Whether something waits for a call of the base: hooks, or accelerate's forward of its own."""
        return "forward" in vars(self.base) or bool(self.base._forward_hooks or self.base._forward_pre_hooks)


def adapt(
    layers: nn.Module, targets: list[str], modules: int, rows: Rows, rank: int, alpha: float, dropout: float
) -> dict[str, RowLoRA]:
    """Put a RowLoRA in place of every linear map in `layers` whose last name is in targets; {name: it}.

    Raises ValueError where there is none, for other kinds of layers, for layers that were adapted before, and
    for a rank below 1.
    """
    if rank < 1:
        raise ValueError(f"lora has r = {rank}: choose 1 or more")
    if any(isinstance(module, RowLoRA) for module in layers.modules()):
        raise ValueError("the base is part of an ICLM already: load it anew")
    found = {name: module for name, module in layers.named_modules() if name.rpartition(".")[2] in targets}
    if not found:
        raise ValueError(
            f"no layer of the base is called {' or '.join(targets)}: name its attention maps in "
            "lora's target_modules"
        )
    if {*targets} - {name.rpartition(".")[2] for name in found} and (
        sorted(targets) != ["k_proj", "o_proj", "q_proj", "v_proj"]  # the default of a base that nobody knows
    ):
        missing = sorted({*targets} - {name.rpartition(".")[2] for name in found})
        raise ValueError(
            f"no layer of the base is called {' or '.join(missing)}: name its attention maps in lora's "
            "target_modules"
        )
    for name, module in found.items():
        if not (isinstance(module, Conv1D) or hasattr(module, "in_features")):
            raise ValueError(
                f"layer {name} is a {type(module).__name__}: name linear maps in lora's target_modules"
            )
    for name, module in found.items():
        parent, _, last = name.rpartition(".")
        found[name] = RowLoRA(module, modules, rows, rank, alpha, dropout)
        setattr(layers.get_submodule(parent), last, found[name])
    return found
