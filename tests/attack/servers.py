"""A hostile server on the loopback interface, for the teacher and for downloads."""

import gzip
import json
import os
import socket
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from random import Random
from unittest import mock

from causalnb.c2dlm import teacher
from causalnb.tasks import files
from tests.attack.damage import DEEP, ODD, flip
from tests.attack.tries import Kind, Seen, Try, last_lines, seen

KEY = "sk-0123456789abcdef"
PATIENCE, BOUND = 1.0, 12.0  # seconds that the client waits, and within which a try has to end
ROWS = "".join(json.dumps({"row": n}) + "\n" for n in range(200)).encode()


def reply(body: bytes, status: str = "200 OK", **headers) -> bytes:
    """An answer of HTTP; a header None is left out."""
    known = {"Content-Length": len(body), "Connection": "close", **headers}
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in known.items() if value is not None]
    return "\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode() + body


def chat(content) -> bytes:
    """A chat completion."""
    return json.dumps({"choices": [{"message": {"role": "assistant", "content": content}}]}).encode()


class Server:
    """Answers each connection with answer(server, connection, request) until it is closed."""

    def __init__(self, answer: Callable):
        self.answer, self.asked, self.open = answer, [], True
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        self.threads = [threading.Thread(target=self._serve, daemon=True)]
        self.threads[0].start()

    def _serve(self) -> None:
        with suppress(OSError):
            while self.open:
                threading.Thread(target=self._one, args=(self.socket.accept()[0],), daemon=True).start()

    def _one(self, connection: socket.socket) -> None:
        with suppress(OSError), connection:
            self.asked.append(request := connection.recv(2**16))
            self.answer(self, connection, request)

    def close(self) -> None:
        """No more answers."""
        self.open = False
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


def sends(*parts: bytes, every: float = 0.0, endless: bool = False) -> Callable:
    """Sends parts, with a pause after each; endless: the last one again and again."""

    def answer(server: Server, connection: socket.socket, _) -> None:
        for part in parts:
            connection.sendall(part)
            time.sleep(every)
        while endless and server.open:
            connection.sendall(parts[-1])
            time.sleep(every)

    return answer


def hostile(random: Random, good: bytes, elsewhere: str) -> tuple[str, Callable]:
    """(what the server does, its answer), given the body of a good answer and another server."""
    whole = reply(good)
    place = random.randrange(1, len(whole) - 1)
    odd = random.choice(ODD)
    ways = {
        "drips": sends(*(bytes([byte]) for byte in whole), every=random.choice((0.05, 0.3))),
        "drips headers": sends(b"HTTP/1.1 200 OK\r\n", b"X-A: b\r\n", every=0.1, endless=True),
        "is silent": sends(b"", every=BOUND),
        "hangs up": sends(),
        "sends without end": sends(reply(b"", Content_Length=None), b"x" * 2**16, endless=True),
        "sends headers without end": sends(b"HTTP/1.1 200 OK\r\n", b"X-A: b\r\n" * 1000, endless=True),
        "claims 10^12 bytes": sends(reply(good, Content_Length=10**12)),
        "claims less": sends(reply(good, Content_Length=len(good) // 2)),
        "claims -1 bytes": sends(reply(good, Content_Length=-1)),
        "claims NaN bytes": sends(reply(good, Content_Length="NaN")),
        f"stops after {place} bytes": sends(whole[:place]),
        "sends garbage": sends(random.randbytes(2000)),
        "sends garbage as a body": sends(reply(random.randbytes(2000))),
        "goes elsewhere": sends(reply(b"", "302 Found", Location=f"{elsewhere}/x")),
        "goes elsewhere for good": sends(reply(b"", "308 Permanent Redirect", Location=f"{elsewhere}/x")),
        "goes to itself": lambda server, connection, _: connection.sendall(
            reply(b"", "302 Found", Location=f"{server.url}/again")
        ),
        "goes to a file": sends(reply(b"", "302 Found", Location="file:///etc/hostname")),
        "fails and repeats what was asked": lambda server, connection, request: connection.sendall(
            reply(request, "500 Internal Server Error")
        ),
        "repeats what was asked": lambda server, connection, request: connection.sendall(
            reply(chat(request.decode()))
        ),
        "repeats what was asked as its reason": lambda server, connection, request: connection.sendall(
            reply(b"", f"401 {KEY}")
        ),
        "sends a bomb": sends(reply(gzip.compress(bytes(2**26)), Content_Encoding="gzip")),
        "sends a bad chunk": sends(reply(b"zz\r\n" + good, Content_Length=None, Transfer_Encoding="chunked")),
        f"sends the JSON {odd[:20]}": sends(reply(odd.encode())),
        f"replies {odd[:20]}": sends(
            reply(b'{"choices": [{"message": {"content": ' + odd.encode() + b"}}]}")
        ),
        "replies deep JSON": sends(reply(chat(DEEP.replace("[", '{"a": [').replace("]", "]}")))),
        "replies JSON without causes": sends(reply(chat(f'{{"effect": {random.choice(ODD[:4])}}}'))),
        "replies half a character": sends(reply(rb'{"choices": [{"message": {"content": "\ud800"}}]}')),
    }
    return random.choice([*ways.items()])


@contextmanager
def serving(answer: Callable) -> Iterator[Server]:
    """A server that is closed in the end."""
    server = Server(answer)
    try:
        yield server
    finally:
        server.close()


def offline_not() -> None:
    """These tries need the loopback interface, and no proxy."""
    os.environ["CAUSALNB_OFFLINE"] = "0"
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        del os.environ[name]


def asked_teacher(answer: Callable, other: Server, folder: Path) -> Seen:
    """One annotation from a server, saved and loaded; the key must be told to nobody."""
    other.asked.clear()
    with serving(answer) as server:
        endpoint = teacher.Endpoint(server.url, "toy", KEY, timeout=PATIENCE)
        try:
            (made,) = teacher.annotate(endpoint, [("Why is it wet?", "It rains.")], retries=0)
            teacher.save_annotations([made], folder / "a.jsonl")
            told = (folder / "a.jsonl").read_text(encoding="utf-8") + repr(endpoint) + repr(made)
            came = Seen(made.edges, f"{server.url} {made.error}", made.error is not None)
            if teacher.load_annotations(folder / "a.jsonl") != [made]:
                return Seen("what was saved is another annotation")
        except Exception as error:
            told = "".join(traceback.format_exception(error))
            came = Seen(raw=last_lines(error))
        if KEY in told or any(KEY.encode() in request for request in other.asked):
            return Seen("the key is told")
        if came.refused and (server.url not in (made.error or "") and "the reply" not in made.error):
            return Seen(raw=f"it names neither address nor reply: {made.error}")
        return came


def of_teacher(random: Random, folder: Path) -> Iterator[Try]:
    """The endpoint that a teacher is asked at."""
    offline_not()
    good = chat('{"It rains.": ["Why is it wet?"]}')
    with serving(sends(reply(good))) as other:
        while True:
            how, answer = hostile(random, good, other.url)
            yield Try(
                f"the server {how}; c2dlm.annotate",
                lambda: asked_teacher(answer, other, folder),  # noqa: B023
                lambda: asked_teacher(sends(reply(good)), other, folder),
                ("http://127.0.0.1",),
                BOUND,
            )


def downloaded(answer: Callable, folder: Path) -> Seen:
    """A file from a server; nothing else may be left."""
    for file in folder.rglob("*"):
        if file.is_file():
            file.unlink()
    with serving(answer) as server:
        row = files.File("toy/rows.jsonl", f"{server.url}/rows.jsonl", sha256(ROWS).hexdigest(), "none")
        with mock.patch.dict(files.REGISTRY, {row.name: row}):
            came = seen(lambda: files.read(row.name).decode())
        left = [str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()]
        if came.refused and left:
            return Seen(f"it left {left}")
        return came


def of_downloads(random: Random, folder: Path) -> Iterator[Try]:
    """The home of a data file."""
    offline_not()
    os.environ |= {"CAUSALNB_CACHE": str(folder), "CAUSALNB_DATA": ""}
    with mock.patch.multiple(files, SECONDS=PATIENCE, LIMIT=2**20), serving(sends(reply(b"x"))) as other:
        while True:
            how, answer = hostile(random, ROWS, other.url)
            if random.random() < 0.2:
                done, data = flip(random, reply(ROWS))
                how, answer = f"sends with {done} it", sends(data)
            yield Try(
                f"the server {how}; tasks.files.read",
                lambda: downloaded(answer, folder),  # noqa: B023
                lambda: downloaded(sends(reply(ROWS)), folder),
                ("http://127.0.0.1",),
                BOUND,
            )


KINDS = (Kind("teacher's server", of_teacher, 120, 3), Kind("download's server", of_downloads, 120, 3))
