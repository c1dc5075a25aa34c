"""What processes share equals one process with all of it."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F

from causalnb import parallel
from causalnb.sci import StructuralContrastiveLoss

HALVES = Path(__file__).with_name("halves.py")


@pytest.fixture
def turn(monkeypatch):
    """turn(rank, rows, total) makes this the process `rank` of two that hold the halves of each of `rows`."""

    def take(rank, rows=(), total=0):
        waiting = iter(rows)

        def all_gather(parts, own):
            halves = next(waiting).detach().chunk(2)
            torch.testing.assert_close(own, halves[rank])
            assert not own.requires_grad
            for part, half in zip(parts, halves, strict=True):
                part.copy_(half)

        given = {"is_available": True, "is_initialized": True, "get_world_size": 2, "get_rank": rank}
        calls = {name: lambda value=value: value for name, value in given.items()}
        fake = SimpleNamespace(**calls, all_gather=all_gather, all_reduce=lambda count: count.fill_(total))
        monkeypatch.setattr(parallel, "dist", fake)

    return take


def averaged(losses, weights):
    """What DistributedDataParallel makes of the losses of two processes: their mean, and that gradient."""
    mean = sum(loss.detach() for loss in losses) / 2
    return mean, sum(torch.autograd.grad(loss, weights)[0] for loss in losses) / 2


def test_rows_of_all_processes_give_the_gradient_of_one_with_all(turn):
    inputs, weights = torch.randn(6, 5), torch.randn(5, 12, requires_grad=True)
    ids, loss = torch.tensor([0, 1, 0, 1, -1, 0]), StructuralContrastiveLoss()

    def slots(rows):
        return torch.tanh(rows @ weights).reshape(-1, 3, 4)

    whole = loss.of_ids(slots(inputs), ids)
    parts = []
    for rank in (0, 1):
        turn(rank, (slots(inputs), ids))
        shared = parallel.shared_rows(slots(inputs.chunk(2)[rank]), ids.chunk(2)[rank])
        assert torch.equal(shared[1], ids)
        parts.append(loss.of_ids(*shared))
    mean, gradient = averaged(parts, weights)
    torch.testing.assert_close(mean, whole.detach())
    torch.testing.assert_close(gradient, torch.autograd.grad(whole, weights)[0], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("without", [(), (0, 1)], ids=["uneven", "a process without labels"])
def test_means_are_weighted_by_labels(turn, without):
    inputs, weights = torch.randn(4, 3, 5), torch.randn(5, 7, requires_grad=True)
    labels = torch.tensor([[-100, 1, 2], [-100, -100, 3], [-100, 4, 5], [6, -100, 0]])
    labels[list(without)] = -100

    def mean(rows, labels):
        return F.cross_entropy((rows @ weights)[:, :-1].reshape(-1, 7), labels[:, 1:].reshape(-1))

    whole, total = mean(inputs, labels), int((labels[:, 1:] != -100).sum())
    parts = []
    for rank in (0, 1):
        turn(rank, total=total)
        own = labels.chunk(2)[rank]
        parts.append(parallel.shared_mean(mean(inputs.chunk(2)[rank], own), own))
    value, gradient = averaged(parts, weights)
    torch.testing.assert_close(value, whole.detach())
    torch.testing.assert_close(gradient, torch.autograd.grad(whole, weights)[0])


def test_an_evaluation_is_not_shared(turn):
    turn(1)
    rows, labels, loss = torch.randn(2, 3), torch.ones(2, 3), torch.tensor(1.5)
    with torch.no_grad():
        assert parallel.processes() == 1
        assert parallel.shared_rows(rows)[0] is rows and parallel.shared_mean(loss, labels) is loss
    assert parallel.processes() == 2


def test_models_in_two_processes_are_one_model(tmp_path):
    """Losses, gradients and buffers of halves of a batch, averaged, are those of the batch, for each loss."""
    ranks = [
        subprocess.Popen(
            [sys.executable, str(HALVES), str(rank), str(tmp_path)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
        ) for rank in (0, 1)
    ]  # fmt: skip
    try:
        said = [rank.communicate(timeout=240) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    for (out, errors), rank in zip(said, ranks, strict=True):
        assert rank.returncode == 0, errors
        assert len(out.splitlines()) == 25 and all(line.endswith(" is equal") for line in out.splitlines()), (
            out
        )
