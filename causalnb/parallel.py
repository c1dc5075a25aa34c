"""Losses of a batch that processes share, equal in value and gradient to one process with all of it."""

import torch
import torch.distributed as dist


def processes() -> int:
    """How many processes share a batch: 1 outside torch.distributed, and in evaluation, without gradients."""
    shared = torch.is_grad_enabled() and dist.is_available() and dist.is_initialized()
    return dist.get_world_size() if shared else 1


def shared_mean(loss: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """A mean over this process's labels (B, T) other than -100, weighted by its share of all of them."""
    if processes() == 1:
        return loss
    counted = (labels[:, 1:] != -100).sum()
    total = counted.clone()
    dist.all_reduce(total)
    weighted = torch.where(counted > 0, loss, 0.0) * counted  # a mean over nothing is nan
    return weighted * processes() / total


def shared_rows(*rows: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The rows of all processes, each with as many as this one, in order.

    A process derives the loss of all rows by its own only, times the number of processes: averaged over the
    processes, as DistributedDataParallel does, that is the gradient of one process with all rows.
    """
    if (count := processes()) == 1:
        return rows
    shared = []
    for own in rows:
        parts = [torch.empty_like(own) for _ in range(count)]
        dist.all_gather(parts, own.detach().contiguous())
        if own.requires_grad:
            own = parts[dist.get_rank()] = own.clone()
            own.register_hook(lambda gradient: gradient * count)
        shared.append(torch.cat(parts))
    return tuple(shared)


def widest(tokens: int, device: torch.device) -> int:
    """The most tokens that any process has in a row."""
    most = torch.tensor(tokens, device=device)
    dist.all_reduce(most, dist.ReduceOp.MAX)
    return int(most)


def own_rows(rows: torch.Tensor, count: int) -> torch.Tensor:
    """This process's `count` rows among those of all processes, as `shared_rows` put them together."""
    return rows if len(rows) == count else rows[dist.get_rank() * count :][:count]


def part_of_step(labels: torch.Tensor, counted, shifts: bool = True) -> torch.Tensor:
    """What a batch's mean counts for in an optimiser step of several: the share of its labels in all of them.

    labels (B, T) or (B,), of which -100 are none, and with shifts the first of each row neither; counted is
    the number in the step, of all processes or of this one, as a Trainer passes it (num_items_in_batch).
    """
    own = ((labels[:, 1:] if shifts else labels) != -100).sum()
    return shared_average(own) / counted


def shared_average(value: torch.Tensor) -> torch.Tensor:
    """The mean of a value over processes, without gradient.

    A sum over this process's rows divided by the average count of rows is, averaged over processes, the mean
    over all rows.
    """
    if (count := processes()) == 1:
        return value
    total = value.detach().clone()  # unprobed: runs have one process
    dist.all_reduce(total)  # unprobed: runs have one process
    return total / count  # unprobed: runs have one process
