"""Results and probes made elsewhere are brought in: checked, compared, never written over others."""

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from causalnb.errors import FileError, LabError
from causalnb.lab import files, probes, profiles, registry, results
from causalnb.lab.records import parsed
from causalnb.paths import shown

KINDS = ("results", "probes")  # folders of a data folder that are looked through
LARGEST = 64 * 2**20  # bytes of a file that is read
BUSY = "another command is writing the probe of {} {}: wait for it or stop it."


@dataclass(frozen=True)
class Brought:
    """What became of a file: "new", "kept" (the same is here), "refused", or "foreign": neither of the two.

    `what`: "result", "probe", or "" where it is not known; `why`: of what is refused or foreign.
    """

    file: str
    what: str
    experiment: str
    arm: str
    seed: int | None
    profile: str
    outcome: str
    why: str = ""


@dataclass(frozen=True)
class _Found:
    """A file that can be brought in as it is: where to, and what it holds."""

    file: Path
    data: bytes
    target: Path
    held: Any  # results.Result or the record of a probe

    @property
    def what(self) -> str:
        return "result" if isinstance(self.held, results.Result) else "probe"

    @property
    def place(self) -> tuple[str, str, int | None, str]:
        """(experiment, arm, seed, profile)."""
        if isinstance(self.held, results.Result):
            return self.held.experiment, self.held.arm, self.held.seed, self.held.profile
        return self.held["experiment"], self.held["arm"], None, probes.PROFILE

    @property
    def is_here(self) -> bool:
        """Whether the very file lies where it is to go, stale or not."""
        try:
            return self.target.read_bytes() == self.data
        except OSError:
            return False

    def became(self, outcome: str, why: str = "") -> Brought:
        return Brought(shown(self.file), self.what, *self.place, outcome, why)


def merge(folders: Iterable[Path], dry_run: bool = False) -> list[Brought]:
    """Bring in the results and probes of `folders`, each file by itself; what became of each, in order.

    A folder is a checkout, its data folder, its data/results, or one with such files in any order. A result
    has to be as it was written, of today's settings and version. One that is here with the same numbers is
    kept, and one that differs is refused, as are two that are brought and differ; a stale one gives way, as
    it does to `causalnb run`. Probes agree as `causalnb verify` has it. `dry_run`: nothing is written.
    LabError for a folder that is none or holds nothing.
    """
    listed = [file for folder in folders for file in _files(folder)]
    looked = [_looked(file) for file in dict.fromkeys(listed)]
    firsts: dict[Path, _Found] = {}
    came: dict[Path, tuple[str, str]] = {}  # (outcome, why) of each place
    for one in looked:
        if isinstance(one, _Found):
            first = firsts.setdefault(one.target, one)
            if differs := _difference(first.held, one.held):
                why = f"{shown(first.file)} and {shown(one.file)} differ: {differs}"
                came.setdefault(one.target, ("refused", why))
    done = []
    for one in looked:
        if isinstance(one, Brought):
            done.append(one)
            continue
        again = one.target in came
        outcome, why = came.get(one.target) or _bring(one, dry_run)
        came[one.target] = outcome, why
        done.append(one.became("kept" if again and outcome == "new" else outcome, why))
    return done


def _files(folder: Path) -> Iterator[Path]:
    """The files of a folder but for hidden ones; of a checkout, those of data/results and data/probes."""
    if not os.path.isdir(folder):
        raise LabError(f"there is no folder {folder}: give one that holds results.")
    inner = [folder / "data" / kind for kind in KINDS], [folder / kind for kind in KINDS]
    chosen = next((some for some in ([p for p in ps if p.is_dir()] for ps in inner) if some), [folder])
    found = 0
    for top in chosen:
        for place, inside, names in os.walk(top):
            inside[:] = sorted(name for name in inside if not name.startswith("."))
            for name in sorted(names):
                if not name.startswith("."):
                    found += 1
                    yield Path(place) / name
    if not found:
        raise LabError(f"{folder} holds no file: give a folder that holds results.")


def _looked(file: Path) -> _Found | Brought:
    """What a file holds, or why it cannot be brought in."""

    def no(outcome: str, why: str) -> Brought:
        return Brought(shown(file), "", "", "", None, "", outcome, why)

    if file.suffix != ".json":
        return no("foreign", "it is no .json file")
    try:
        size, kind = (status := file.stat()).st_size, status.st_mode
        if not stat.S_ISREG(kind) or size > LARGEST:
            return no("refused", "it is no file that holds a result")
        record = parsed(data := file.read_bytes())
        if {"rows", "history"} <= set(record):
            return _result(file, data, record)
        if {"numbers", "verified"} <= set(record):
            return _probe(file, data, record)
    except LabError as error:
        return no("refused", str(error))
    except (OSError, ValueError) as error:
        return no("refused", f"it is damaged ({error}): bring it anew")
    return no("refused", "it is neither a result nor a probe")


def _result(file: Path, data: bytes, record: dict) -> _Found | Brought:
    held = results.opened(record)
    if not isinstance(held, results.Result):
        raise LabError(f"it has schema {held!r} and this causalnb reads {results.SCHEMA}: make it anew")
    if held.profile not in profiles.PROFILES or held.seed < 0:
        raise LabError(f"it is of profile {held.profile!r} and seed {held.seed}, which are none here")
    _check_names(held.experiment, held.arm)
    found = _Found(file, data, results.path(held.experiment, held.arm, held.seed, held.profile), held)
    if found.is_here:
        return found.became("kept")
    now = registry.config(held.experiment, held.arm, held.profile)
    state, reason = results.judged(held, held.profile)
    if state not in results.USABLE:
        more = _first_setting(held.experiment, held.config, now)
        return found.became("refused", f"it is {state}: {reason}{more}")
    return found


def _probe(file: Path, data: bytes, record: dict) -> _Found | Brought:
    held = probes.opened(record)
    experiment, arm = held["experiment"], held["arm"]
    _check_names(experiment, arm)
    found = _Found(file, data, probes.path(experiment, arm), held)
    if found.is_here:
        return found.became("kept")
    now = registry.config(experiment, arm, probes.PROFILE)
    if held["version"] != registry.experiment(experiment).version:
        return found.became("refused", "it is stale: its experiment has another version now")
    if not registry.same_settings(experiment, held["config"], now):
        more = _first_setting(experiment, held["config"], now)
        return found.became("refused", f"it is stale: its settings have changed since{more}")
    return found


def _check_names(experiment: str, arm: str) -> None:
    """LabError for names that no experiment and no arm can have, and that may lead out of a folder."""
    if not registry.ID.fullmatch(experiment) or not registry.NAME.fullmatch(arm):
        raise LabError(f"it is of {experiment!r} and {arm!r}, which are no names of an experiment and an arm")


def _first_setting(experiment: str, stored: Mapping, now: Mapping) -> str:
    """The first setting that differs, as text to follow a reason; "" if none does."""
    for name in sorted({*stored, *now}):
        one, two = ({name: some[name]} if name in some else {} for some in (stored, now))
        if not registry.same_settings(experiment, one, two):
            return f" ({name}: {stored.get(name)!r} there, {now.get(name)!r} here)"
    return ""


def _leaves(held: results.Result) -> dict[str, object]:
    """All numbers of a result by name, without those that are seconds."""
    timed = registry.experiment(held.experiment).timed
    named = [(f"{cell} {measure}".strip(), measure, value) for cell, measure, value in held.rows]
    named += [
        (f"history[{place}].{name}", name, value)
        for place, line in enumerate(held.history)
        for name, value in line.items()
    ]
    return {
        whole: value for whole, last, value in named if not any(fnmatch(last, pattern) for pattern in timed)
    }


def _difference(here: Any, there: Any) -> str:
    """The first number in which two results, or two probes, of the same differ; "" where none does."""
    if isinstance(here, results.Result):
        one, two = _leaves(here), _leaves(there)
        for name in dict.fromkeys([*one, *two]):
            before, after = one.get(name, "nothing"), two.get(name, "nothing")
            if before != after:
                return f"{name}: {before} and {after}"
        return ""
    near = probes.RTOL if here["versions"] == there["versions"] else probes.ACROSS
    timed = registry.experiment(here["experiment"]).timed
    return probes.difference(here["numbers"], there["numbers"], near, timed) or ""


def _held(found: _Found) -> AbstractContextManager:
    experiment, arm, seed, profile = found.place
    if seed is None:
        return files.lock(found.target, BUSY.format(experiment, arm))
    return results.lock(experiment, arm, seed, profile)


def _judged(found: _Found) -> tuple[str, str]:
    """(outcome, why) of a file beside what lies where it is to go; FileError where that cannot be read."""
    experiment, arm, seed, profile = found.place
    here: Any = None
    if seed is None:
        here = probes.read(experiment, arm)
    elif (state := results.state(experiment, arm, seed, profile))[0] == "unreadable":
        raise FileError(state[1])
    elif state[0] == "stale":
        return "new", f"what was here is stale: {state[1]}"
    elif state[0] != "missing":
        here = results.read(experiment, arm, seed, profile)
    if here is None:
        return "new", ""
    differs = _difference(here, found.held)
    return ("refused", f"{shown(found.target)} is another one: {differs}") if differs else ("kept", "")


def _bring(found: _Found, dry_run: bool) -> tuple[str, str]:
    """Write a file where it belongs, unless there is one; (outcome, why)."""
    try:
        came = _judged(found)
        if came[0] == "new" and not dry_run:
            with _held(found):
                if (came := _judged(found))[0] == "new":
                    files.write_atomic(found.target, found.data)
        return came
    except LabError as error:
        return "refused", str(error)
