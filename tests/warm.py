"""Runs a command in which the kernel `warm` is a fork of one process that has imported what notebooks import.

    python -m tests.warm pytest --nbval-lax --nbval-kernel-name warm notebooks

Only the start of a kernel is another one: nbval talks to it, checks it and ends it as it does with python3.
Where forking is not safe (macOS), `warm` is python3.
"""

import builtins
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn

LATER = {"ipywidgets"}  # asks at its import for the kernel it is in


def of_the_notebooks() -> Iterator[str]:
    """Dotted names of what the notebooks import, in the order in which they do."""
    from tests.repo.tree import code_of, imports, notebooks

    for path in notebooks():
        yield from sorted(imports(code_of(json.loads(path.read_text(encoding="utf-8")))))


def heat(names: Iterable[str] | None = None) -> None:
    """Import `names` (default: what the notebooks import) as they would be in a kernel."""
    os.environ.setdefault("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    import ipykernel.kernelapp  # noqa: F401

    builtins.get_ipython = lambda: SimpleNamespace(kernel=True)  # pandas asks whether this is a terminal
    import pandas  # noqa: F401

    del builtins.get_ipython
    for name in of_the_notebooks() if names is None else names:
        while name and name.partition(".")[0] not in LATER:
            try:
                import_module(name)
                break
            except ImportError:  # the last part names what is in the module
                name = name.rpartition(".")[0]


def become_a_kernel(connection: socket.socket, wanted: dict) -> NoReturn:
    """In the fork: what `python -m ipykernel_launcher` does; ends when the one who asked is gone."""
    try:
        run_a_kernel(connection, wanted)
    finally:
        os._exit(0)


def run_a_kernel(connection: socket.socket, wanted: dict) -> None:
    """Take over environment and folder of the one who asked, and be the kernel of its connection file."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.environ.clear()
    os.environ.update(wanted["env"])
    os.chdir(wanted["cwd"])
    import numpy

    numpy.random.seed()  # a new process draws anew; random does so after a fork by itself
    connection.sendall(str(os.getpid()).encode())

    def watch() -> None:
        with connection:
            while connection.recv(1):
                pass
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nowhere, number)
    from ipykernel.kernelapp import IPKernelApp

    IPKernelApp.launch_instance(["-f", wanted["file"], "--HistoryManager.hist_file=:memory:"])


def serve(listening: socket.socket, command: subprocess.Popen) -> int:
    """Fork a kernel for whoever asks, until the command has ended; returns its exit code."""
    kernels = set()
    try:
        while command.poll() is None:
            kernels = {pid for pid in kernels if not os.waitpid(pid, os.WNOHANG)[0]}
            if not select.select([listening], [], [], 0.2)[0]:
                continue
            connection, _ = listening.accept()
            with connection, connection.makefile("r") as asked:
                wanted = json.loads(asked.readline())
                pid = os.fork()
                if not pid:
                    listening.close()
                    become_a_kernel(connection, wanted)
                kernels.add(pid)
    finally:
        command.terminate()  # nothing, where it has ended
        for pid in kernels:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    return command.returncode


def ask(address: str, file: str) -> None:
    """The process that jupyter starts as the kernel: asks for a fork, hands signals on, ends with it.

    It ends, too, when the one who started it has ended, and the fork with it.
    """
    parent = os.getppid()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        wanted = {"file": file, "cwd": os.getcwd(), "env": dict(os.environ)}
        connection.sendall(json.dumps(wanted).encode() + b"\n")
        pid = int(connection.recv(32) or 0)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda number, _: os.kill(pid, number))
        ended = False
        while not ended and os.getppid() == parent:
            ended = select.select([connection], [], [], 1.0)[0] and not connection.recv(1)


def main(words: list[str]) -> int:
    """Run the command `words` with the kernel `warm` at hand."""
    with tempfile.TemporaryDirectory() as folder:
        address = os.path.join(folder, "warm")
        argv = [sys.executable, "-I", __file__, "--ask", address, "{connection_file}"]
        if forks := sys.platform == "linux":
            heat()
        else:
            argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        spec = Path(folder, "kernels/warm/kernel.json")
        spec.parent.mkdir(parents=True)
        spec.write_text(
            json.dumps({"argv": argv, "display_name": "warm", "language": "python"}), encoding="utf-8"
        )
        paths = [folder, *filter(None, [os.environ.get("JUPYTER_PATH")])]
        env = {**os.environ, "JUPYTER_PATH": os.pathsep.join(paths)}
        if not forks:
            return subprocess.call(words, env=env)
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(address)
            listening.listen()
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
            with subprocess.Popen(words, env=env) as command:
                return serve(listening, command)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--ask"]:
        ask(*sys.argv[2:])
    else:
        sys.exit(main(sys.argv[1:]))
