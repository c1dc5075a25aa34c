"""What a server answers, within bounds of time and of size."""

from functools import partial


def answer(url: str, seconds: float, limit: int, follow: bool = False, **request) -> bytes:
    """The body that `url` answers, as it was sent, to a GET, or to the POST of `content`.

    request: content and headers. seconds bound the whole exchange, limit the bytes of the body.
    Raises ConnectionError, with the reason, where no such answer comes: also for another status than 2xx, and
    so for a redirect, unless it is to be followed.
    """
    from anyio.from_thread import start_blocking_portal

    with start_blocking_portal() as portal:  # a loop of its own, for a notebook's kernel runs one already
        return portal.call(partial(_answer, url, seconds, limit, follow, **request))


async def _answer(url: str, seconds: float, limit: int, follow: bool, content=None, headers=None) -> bytes:
    import anyio
    import httpx2

    body, method = bytearray(), "GET" if content is None else "POST"
    headers = {"Accept-Encoding": "identity", **(headers or {})}  # so that there is nothing to unpack
    try:
        with anyio.fail_after(seconds):
            async with (
                httpx2.AsyncClient(timeout=None, follow_redirects=follow) as client,
                client.stream(method, url, content=content, headers=headers) as response,
            ):
                status = response.status_code
                if not response.is_success:
                    raise ConnectionError(
                        f"it answered {status} {httpx2.codes.get_reason_phrase(status)}".strip()
                    )
                async for part in response.aiter_raw():
                    body += part
                    if len(body) > limit:
                        raise ConnectionError(f"it sent more than {limit:,} bytes")
    except TimeoutError:
        raise ConnectionError(f"it timed out, with no whole answer in {seconds:g} s") from None
    except (httpx2.HTTPError, httpx2.InvalidURL, ImportError, ValueError) as error:  # the last two: proxies
        raise ConnectionError(f"{type(error).__name__}: {error}".rstrip(": ")) from None
    except ExceptionGroup as group:
        if not group.subgroup(OverflowError):
            raise
        raise ConnectionError("the address has a port beyond 65535") from None
    return bytes(body)
