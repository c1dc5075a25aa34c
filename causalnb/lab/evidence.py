"""The numbers that tables, figures and notebooks are made from: stored, or trained now where it is short."""

import gc
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from causalnb.errors import LabError
from causalnb.lab import codebase, profiles, registry, results, runner

_stored_only: ContextVar[bool] = ContextVar("stored_only", default=False)
_diverged: ContextVar[dict | None] = ContextVar("diverged", default=None)
_read: ContextVar[dict | None] = ContextVar("read", default=None)  # by what was asked for


@contextmanager
def stored_only() -> Iterator[None]:
    """Within this context `require` trains nothing: tables and figures are made from what is stored."""
    token = _stored_only.set(True)
    try:
        yield
    finally:
        _stored_only.reset(token)


@contextmanager
def unchanged() -> Iterator[None]:
    """Within this context no result changes: `require` and `rows` read each once."""
    token = _read.set({})
    try:
        yield
    finally:
        _read.reset(token)


@contextmanager
def diverging() -> Iterator[dict[str, None]]:
    """Gives the names of the diverged runs that `require` and `rows` read within this context."""
    token = _diverged.set(runs := {})
    try:
        yield runs
    finally:
        _diverged.reset(token)


def lacking(
    experiment: str, profile: str | None = None, arms: Iterable[str] | None = None
) -> tuple[list, float]:
    """The (experiment, arm, seed) that are missing or stale, and the core-seconds they should take."""
    wanted = results.states(experiment, profile, arms)
    jobs = [job for job, (kind, _) in wanted.items() if kind in ("missing", "stale")]
    seconds = results.estimates(experiment, profile) if jobs else {}
    return jobs, sum(seconds[arm] for _, arm, _ in jobs)


def live(seconds: float, profile: str | None = None) -> bool:
    """Whether training of that length is done without being asked: short in this profile, or FRESH=1."""
    return seconds < profiles.current(profile).live_seconds or os.environ.get("FRESH") == "1"


def require(experiment: str, profile: str | None = None, arms: Iterable[str] | None = None):
    """`results.frame`, complete: what is missing or stale is trained now if that is short or FRESH=1 is set.

    Else LabError says which command makes it and how long that takes; LabError if one is unreadable.
    """
    return _complete(results.frame, experiment, profile, arms)


def rows(experiment: str, profile: str | None = None, arms: Iterable[str] | None = None):
    """`results.long`, complete; LabError as `require`."""
    return _complete(results.long, experiment, profile, arms)


def _complete(read, experiment: str, profile: str | None, arms: Iterable[str] | None):
    """What `read` gives of an experiment when nothing is short, a copy of its own for every caller."""
    scale, arms = profiles.current(profile), registry.arms(experiment, arms)
    asked, kept = (read, experiment, scale.name, *arms), _read.get()
    if kept is not None and asked in kept:
        found = kept[asked].copy()
    else:
        _train_short(experiment, scale, arms)
        found = read(experiment, scale.name, arms)
        if kept is not None:
            kept[asked] = found.copy()
    if (runs := _diverged.get()) is not None:
        runs.update(dict.fromkeys(found.attrs["diverged"]))
    return found


@codebase.unrecorded
def _train_short(experiment: str, scale: profiles.Profile, arms: list[str]) -> None:
    short, total = lacking(experiment, scale.name, arms)
    if short and (_stored_only.get() or not live(total, scale.name)):
        of = sum(len(registry.seeds(experiment, scale.name, arm)) for arm in arms)
        raise LabError(
            f"{len(short)} of {of} {scale.name} results of {experiment} are not there: "
            f"`causalnb run {experiment} --profile {scale.name}` makes them in about "
            f"{results.duration(total / min(scale.jobs, len(short)))}."
        )
    if short:
        from tqdm.auto import tqdm

        gc.freeze()  # the Trainer collects garbage often, and torch alone is a million objects
        with tqdm(total=len(short), desc=experiment, disable=not scale.progress) as bar:

            def note(done: int, total: int, text: str) -> None:
                bar.set_postfix_str(f"{arm} {seed}: {done}/{total} {text}")

            for _, arm, seed in short:
                runner.execute(experiment, arm, seed, scale.name, note, wait=3600)
                bar.update()
