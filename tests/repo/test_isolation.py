"""What tests/conftest.py promises."""

import os
import random
import socket
from pathlib import Path

import numpy
import pytest

from causalnb import paths
from tests.repo.tree import ROOT


@pytest.mark.parametrize(
    "reach",
    [
        lambda: socket.create_connection(("192.0.2.1", 80), timeout=1),
        lambda: socket.getaddrinfo("example.org", 80),
        lambda: socket.socket().connect_ex(("192.0.2.1", 80)),
        lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("192.0.2.1", 53)),
    ],
)
def test_the_network_is_refused(reach):
    with pytest.raises(Exception, match="a test tried to reach") as refusal:
        reach()
    assert not isinstance(refusal.value, OSError)


def test_this_machine_is_allowed():
    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_connection(server.getsockname()) as client:
            assert client.getpeername() == server.getsockname()


@pytest.mark.parametrize("again", [1, 2])
def test_every_test_starts_from_the_same_seed(again):
    assert random.random() == random.Random(0).random()
    assert numpy.random.rand() == numpy.random.RandomState(0).rand()


def test_nothing_is_written_into_the_checkout():
    places = [
        paths.results_dir("laptop"),
        paths.results_dir("quick"),
        paths.figures_dir("laptop"),
        paths.cache_dir(),
        paths.downloads_dir(),
    ]
    assert not [place for place in places if Path(place).is_relative_to(ROOT)]
    assert os.environ["CAUSALNB_PROFILE"] == "quick" and os.environ["OMP_NUM_THREADS"] == "1"
