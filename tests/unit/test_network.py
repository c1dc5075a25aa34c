"""What a server answers is whole, in time and of bounded size, or one sentence says why it is not."""

import gzip
import time
import tracemalloc

import httpx2
import pytest

from causalnb import network
from tests.unit.hostile import endless, redirect, serving, slowly, whole

BEGIN, CHUNK = b"HTTP/1.1 200 OK\r\n", b"400\r\n%s\r\n" % (b"a" * 1024)


def test_a_whole_answer_comes_as_it_was_sent():
    zipped = gzip.compress(b"zip")
    answers = [
        whole(b"one"),
        whole(zipped, Content_Encoding="gzip"),
        BEGIN + b"\r\nno length",
        whole(b"made", "201 Y"),
    ]
    with serving(*answers) as (place, requests):
        assert network.answer(place, 5, 3) == b"one"
        assert network.answer(f"{place}/x", 5, 100, content=b"{}", headers={"A": "b"}) == zipped
        assert [network.answer(place, 5, 100) for _ in "12"] == [b"no length", b"made"]
    assert (
        requests[0][0].startswith("GET / HTTP/1.1\r\n")
        and "accept-encoding: identity" in requests[0][0].lower()
    )
    assert requests[1][0].startswith("POST /x HTTP/1.1\r\n") and "a: b\r\n" in requests[1][0].lower()
    assert requests[1][1] == b"{}"


FAULTS = {
    "slow body": (slowly(BEGIN + b"Content-Length: 900\r\n\r\n"), "timed out, with no whole answer in 0.4 s"),
    "slow body without an end": (slowly(BEGIN + b"\r\n"), "it timed out"),
    "slow status": (slowly(b"", b"H"), "it timed out"),
    "slow headers": (slowly(BEGIN, b"a: b\r\n"), "it timed out"),
    "silence": (slowly(b"", b""), "it timed out"),
    "only on the way": (slowly(b"", b"HTTP/1.1 100 Continue\r\n\r\n"), "it timed out"),
    "huge": (endless(), "it sent more than 1,000 bytes"),
    "huge and announced": (whole(b"a" * 1001), "it sent more than 1,000 bytes"),
    "chunks": (endless(BEGIN + b"Transfer-Encoding: chunked\r\n\r\n", CHUNK), "more than 1,000 bytes"),
    "huge header": (endless(BEGIN + b"a: ", b"b" * 2**16), "ProtocolError"),
    "half": (BEGIN + b"Content-Length: 500\r\n\r\nhalf", "received 4 bytes, expected 500"),
    "nothing": (b"", "ProtocolError"),
    "garbage": (b"\x00\xff\x16\x03 hello\r\n\r\n", "ProtocolError: "),
    "no length": (BEGIN + b"Content-Length: many\r\n\r\n", "ProtocolError: "),
    "refusal": (whole(b"key", "401 Your key is sk"), "^it answered 401 Unauthorized$"),
    "unknown": (whole(b"", "599 Bad"), "^it answered 599$"),
    "redirect": (redirect("http://127.0.0.1:9/"), "^it answered 302 Found$"),
}  # fmt: skip


@pytest.mark.parametrize("answer, said", FAULTS.values(), ids=FAULTS)
def test_an_answer_out_of_bounds_is_one_sentence(answer, said):
    with serving(answer) as (place, _):
        start = time.monotonic()
        with pytest.raises(ConnectionError, match=said) as caught:
            network.answer(place, 0.4 if "timed" in said else 20, 1000)
    assert time.monotonic() - start < 10 and "\n" not in str(caught.value)


def test_a_huge_answer_takes_no_memory():
    with serving(endless()) as (place, _):
        tracemalloc.start()
        with pytest.raises(ConnectionError, match="more than 1,048,576 bytes"):
            network.answer(place, 20, 2**20)
        assert tracemalloc.get_traced_memory()[1] < 8 * 2**20
        tracemalloc.stop()


def test_redirects_are_followed_when_asked_and_not_for_ever():
    with (
        serving(whole(b"there")) as (there, _),
        serving(redirect(there), redirect("/again")) as (place, requests),
    ):
        assert network.answer(place, 5, 100, follow=True) == b"there"
        with pytest.raises(ConnectionError, match="TooManyRedirects"):
            network.answer(place, 20, 100, follow=True)
    assert 5 < len(requests) < 50


@pytest.mark.parametrize("place", ["http://127.0.0.1:9", "http://127.0.0.1:99999", "gopher://x", "http://"])
def test_where_nobody_listens(place):
    with pytest.raises(ConnectionError):
        network.answer(place, 5, 10)


def test_what_else_goes_wrong_is_not_hidden(monkeypatch):
    def broken(*_, **__):
        raise ExceptionGroup("several", [TypeError("a fault of ours")])

    monkeypatch.setattr(httpx2.AsyncClient, "send", broken)
    with pytest.raises(ExceptionGroup, match="several"):
        network.answer("http://127.0.0.1:9", 5, 10)


def test_a_running_loop_is_no_obstacle():
    import asyncio

    async def cell():
        return network.answer(place, 5, 10)

    with serving(whole(b"one")) as (place, _):
        assert asyncio.run(cell()) == b"one"


def test_a_proxy_that_cannot_be_used_is_one_sentence(monkeypatch):
    monkeypatch.setenv("ALL_PROXY", "odd://me:secret@127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    with pytest.raises(ConnectionError, match="proxy") as caught:
        network.answer("http://example.org", 5, 10)
    assert "secret" not in str(caught.value)
