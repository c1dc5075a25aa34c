"""A server on the loopback interface that answers as it likes."""

import socket
import threading
import time
from contextlib import contextmanager, suppress


@contextmanager
def serving(*answers):
    """(address, requests): a server that gives each connection one of the answers, the last one for ever.

    An answer is bytes, or what yields bytes and is sent piece by piece until the client has gone.
    """
    requests, left = [], list(answers)

    def serve(connection):
        given = left.pop(0) if len(left) > 1 else left[0]
        with connection, connection.makefile("rb") as asked, suppress(OSError):
            lines = list(iter(asked.readline, b"\r\n"))
            fields = dict(line.rstrip().lower().split(b": ") for line in lines[1:])
            requests.append((b"".join(lines).decode(), asked.read(int(fields.get(b"content-length", 0)))))
            for part in [given] if isinstance(given, bytes) else given():
                connection.sendall(part)

    def listen():
        with suppress(OSError):  # closed at the end
            while True:
                threading.Thread(target=serve, args=[listening.accept()[0]], daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=listen, daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", requests
        listening.shutdown(socket.SHUT_RDWR)


def whole(body: bytes, status: str = "200 OK", **fields) -> bytes:
    """A whole answer."""
    lines = [f"HTTP/1.1 {status}", *(f"{name.replace('_', '-')}: {value}" for name, value in fields.items())]
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "Connection: close", "", ""]).encode() + body


def redirect(place: str) -> bytes:
    """An answer that sends the client elsewhere."""
    return whole(b"", "302 Found", Location=place)


def slowly(begin: bytes, part: bytes = b" ", wait: float = 0.02):
    """An answer of which a little comes again and again."""

    def parts():
        yield begin
        while True:
            time.sleep(wait)
            yield part

    return parts


def endless(begin: bytes = b"HTTP/1.1 200 OK\r\n\r\n", part: bytes = b" " * 2**16):
    """An answer that has no end and comes fast."""
    return slowly(begin, part, 0.0)
