"""A decoder that was trained to read from left to right, on its way to a masked diffusion model.

The two devices are those of S. Gong et al. (2025), *Scaling Diffusion Language Models via Adaptation from
Autoregressive Models*: attention-mask annealing, by which what follows a token comes into its sight a little
at a time, and the shift kept, by which the head goes on to predict the token after its place; so at first the
model is the one that was trained before. They go on with all weights, on general text and for longer, under
one mask for a batch; here adapters learn on the task's own rows, each under a mask of its own.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from .model import MaskedDiffusionCollator


def keep_shift(decoder: nn.Module) -> None:
    """Let logits at i be what a decoder predicts from its last state at i - 1; at 0 as before.

    The states are moved under its head, so that all that reads logits at masked places finds them there;
    `hidden_states` and attention stay where they are, and a checkpoint does not keep it.
    """

    def moved(_, given, out):
        states = out.last_hidden_state
        out.last_hidden_state = torch.cat([states[:, :1], states[:, :-1]], 1)
        return out

    decoder.base_model.register_forward_hook(moved)  # type: ignore[operator, union-attr]


@dataclass
class AnnealedCollator(MaskedDiffusionCollator):
    """A collator of numbered rows in which a query sees a later key with a probability that rises to 1.

    P(seen) = min(1, draw / anneal_rows), of each pair of places alone, drawn from (seed, draw) for the
    batch's width; anneal_rows: the number of the first row that sees everything. ValueError for rows without
    a number.
    """

    anneal_rows: int = 1

    def __call__(self, rows) -> dict:
        """As the parent's, with attention_mask (B, 1, T, T) while something is hidden from a row."""
        batch = super().__call__(rows)
        draws = [row.get("draw") for row in rows]
        if None in draws:
            raise ValueError(f"row {draws.index(None)} has no draw: number rows, as NumberedRows does")
        if min(draws) < self.anneal_rows:
            batch["attention_mask"] = torch.stack([self._seen(draw, batch["labels"]) for draw in draws])
        return batch

    def _seen(self, draw: int, labels: Tensor) -> Tensor:
        tokens, share = labels.shape[1], min(1.0, draw / self.anneal_rows)
        drawn = np.random.default_rng((self.seed, draw, 2)).random((tokens, tokens)) < share
        return (torch.from_numpy(drawn) | torch.ones(tokens, tokens, dtype=torch.bool).tril())[None]
