"""What an attack is, and what may come of it: named, harmless, silent or raw."""

import faulthandler
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from unittest import mock

from causalnb.errors import CausalnbError, sentence

OUTCOMES = ("named", "harmless", "silent", "raw")
OURS = (CausalnbError, ValueError, TypeError)
SECONDS = 60.0  # that a try may take before it is called a hang


class Hang(BaseException):
    """A try that takes too long; no Exception, so that no handler swallows it."""


@dataclass(frozen=True)
class Seen:
    """What came out.

    `value` is what is compared, `told` all that a reader was told, `refused` whether the exit code or an
    error of ours said so, `raw` a traceback, or why there is something as bad.
    """

    value: object = None
    told: str = ""
    refused: bool = False
    raw: str = ""


@dataclass(frozen=True)
class Try:
    """An attack: `name` says what is done, `run` does it, and `usual` gives what comes out without it.

    A refusal has to hold one of `names`: the file, the option or the value.
    """

    name: str
    run: Callable[[], Seen]
    usual: Callable[[], Seen]
    names: tuple[str, ...]
    seconds: float = SECONDS


@dataclass(frozen=True)
class Kind:
    """A kind of attack: tries(random, folder), as many as are asked for; how many `make attack` makes.

    `sample` are those of `make test`. Equal seeds give equal tries.
    """

    name: str
    tries: Callable[[Random, Path], Iterator[Try]]
    count: int
    sample: int


@dataclass(frozen=True)
class Outcome:
    """What became of try number `number` of a kind, and for a silent or raw one, why."""

    number: int
    name: str
    outcome: str
    why: str = ""


def last_lines(error: BaseException) -> str:
    """Type and text of an error, and where it was raised."""
    *_, place = traceback.extract_tb(error.__traceback__) or [None]
    where = f" at {Path(place.filename).name}:{place.lineno}" if place else ""
    return f"{type(error).__name__}: {str(error)[:300]}{where}"


def seen(work: Callable[[], object]) -> Seen:
    """What work() returns, or the error that it raises."""
    try:
        return Seen(work())
    except OURS as error:
        return Seen(told=sentence(error), refused=True)
    except Exception as error:
        return Seen(raw=last_lines(error))


def judged(tried: Seen, usual: Seen, names: tuple[str, ...]) -> tuple[str, str]:
    """(outcome, why) of what a try gave beside what is usual."""
    if tried.raw:
        return "raw", tried.raw
    if (tried.value, tried.refused) == (usual.value, usual.refused):
        return "harmless", ""
    known = set(usual.told.splitlines())
    new = "\n".join(line for line in tried.told.splitlines() if line not in known)
    if not tried.refused:
        return "silent", f"gave {str(new or tried.value)[:300]!r}"
    if any(name in new for name in names):
        return "named", ""
    return "raw", f"named none of {names}: {new[:300]!r}"


@contextmanager
def bounded(seconds: float) -> Iterator[None]:
    """Raises Hang after `seconds`; where not even that helps, all tracebacks, and the process ends."""

    def late(*_):
        raise Hang

    before = signal.signal(signal.SIGALRM, late)
    try:
        faulthandler.dump_traceback_later(2 * seconds + 10, exit=True, file=sys.__stderr__)
        signal.setitimer(signal.ITIMER_REAL, seconds)
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        faulthandler.cancel_dump_traceback_later()
        signal.signal(signal.SIGALRM, before)


def attempt(number: int, tried: Try) -> Outcome:
    """The outcome of one try."""
    usual = tried.usual()
    try:
        with bounded(tried.seconds):
            came = tried.run()
    except Hang as hang:
        came = Seen(raw=f"took more than {tried.seconds:.0f} s: {last_lines(hang)}")
    return Outcome(number, tried.name, *judged(came, usual, tried.names))


def attack(kind: Kind, seed: int, count: int, only: int | None = None) -> list[Outcome]:
    """The outcomes of the first `count` tries of a kind, or of try number `only` alone."""
    with ExitStack() as stack:
        stack.enter_context(mock.patch.dict(os.environ))
        stack.enter_context(mock.patch.object(os, "fsync", lambda file: None))  # no power is cut
        folder = stack.enter_context(TemporaryDirectory(prefix="attack-"))
        tries = stack.enter_context(
            closing(kind.tries(Random(f"{kind.name} {seed}"), Path(folder).resolve()))
        )
        chosen = range(count) if only is None else range(only, only + 1)
        return [
            attempt(number, tried)
            for number, tried in zip(range(max(chosen) + 1), tries, strict=False)
            if number in chosen
        ]
