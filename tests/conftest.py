"""Every test: seeded, one thread, no network, and nothing written into the checkout."""

import functools
import gc
import os
import random
import socket
import sys

os.environ |= {
    "CAUSALNB_PROFILE": "quick",
    "CAUSALNB_OFFLINE": "1",
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "MPLBACKEND": "agg",
}
for name in ("FRESH", "CAUSALNB_DEVICE"):
    os.environ.pop(name, None)

import hypothesis  # noqa: E402
import numpy  # noqa: E402
import pytest  # noqa: E402

hypothesis.settings.register_profile(
    "causalnb", deadline=None, derandomize=True, database=None, max_examples=25
)
hypothesis.settings.load_profile("causalnb")


class NetworkUsed(Exception):
    """A test reached for the network; no OSError, so that no fallback can swallow it."""


def local(address) -> bool:
    """True for a Unix socket path and for the loopback addresses."""
    return not isinstance(address, tuple) or address[0] in {"localhost", "127.0.0.1", "::1", "", None}


@pytest.fixture(scope="session", autouse=True)
def no_network():
    """Connecting, sending or asking for a name anywhere but on this machine raises NetworkUsed."""

    def guarded(call, where):
        def wrapper(*args, **kwargs):
            if not local(where(args)):
                raise NetworkUsed(f"a test tried to reach {where(args)!r}: give it local data instead")
            return call(*args, **kwargs)

        return wrapper

    with pytest.MonkeyPatch.context() as patch:
        for name, where in {
            "connect": lambda args: args[1],
            "connect_ex": lambda args: args[1],
            "sendto": lambda args: args[-1],
        }.items():
            patch.setattr(socket.socket, name, guarded(getattr(socket.socket, name), where), raising=False)
        patch.setattr(socket, "getaddrinfo", guarded(socket.getaddrinfo, lambda args: (args[0],)))
        yield


@pytest.fixture(scope="session", autouse=True)
def own_folders(tmp_path_factory):
    """Results, figures, probes and caches of the whole session go to a temporary folder."""
    folder = tmp_path_factory.mktemp("causalnb")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("RESULTS", "FIGURES", "CACHE", "PROBES"):
            patch.setenv(f"CAUSALNB_{name}", str(folder / name.lower()))
        yield


@pytest.fixture(scope="session", autouse=True)
def no_waiting_for_the_disk():
    """Temporary files need not outlive a power cut: fsync, some milliseconds each, checks its file alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda file: os.fstat(file if isinstance(file, int) else file.fileno()))
        yield


@functools.cache
def _freeze():
    gc.collect()
    gc.freeze()


def freeze_once():
    """Spares the garbage collector the million objects of torch, since the Trainer calls it after every run.

    Noted here: gc.get_freeze_count() counts them, which takes a tenth of a second.
    """
    if "transformers.trainer" in sys.modules:
        _freeze()


@pytest.fixture(autouse=True)
def seeded():
    """The same random numbers and no open figure, whatever ran before; only of what a test has loaded."""
    freeze_once()
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close("all")
    random.seed(0)
    numpy.random.seed(0)
    if torch := sys.modules.get("torch"):
        torch.manual_seed(0)
        torch.set_num_threads(1)
