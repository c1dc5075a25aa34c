"""Losses of a batch that several processes share, equal in value and gradient to one process with all of it."""

import torch
import torch.distributed as dist
from torch.distributed.nn.functional import all_gather


def processes() -> int:
    """How many processes train together; 1 outside torch.distributed."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def shared_mean(loss: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """A mean over this process's labels (B, T) other than -100, weighted by its share of all processes' labels."""
    if processes() == 1:
        return loss
    counted = (labels[:, 1:] != -100).sum()
    total = counted.clone()
    dist.all_reduce(total)
    weighted = torch.where(counted > 0, loss, 0.0) * counted  # a mean over nothing is nan
    return weighted * processes() / total


def shared_rows(*rows: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The rows of all processes, each with as many as this one, in order; gradients flow back to their owners."""
    if processes() == 1:
        return rows
    return tuple(torch.cat(all_gather(part.contiguous())) for part in rows)
