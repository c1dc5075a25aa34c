"""Results and probes made elsewhere are brought in: checked, compared, never written over others.

With an archive come checkpoints of runs that are not done, and adapters.
"""

import os
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from causalnb.errors import FileError, LabError
from causalnb.lab import adapters, archives, files, probes, profiles, registry, results, runner
from causalnb.lab.records import parsed
from causalnb.paths import cache_dir, shown

KINDS = ("results", "probes")  # folders of a data folder that are looked through
LARGEST = 64 * 2**20  # bytes of a file that is read
RESULT_CAME = ("result", "new")
BUSY = "another command is writing the probe of {} {}: wait for it or stop it."


@dataclass(frozen=True)
class Brought:
    """What became of a file: "new", "kept" (the same is here), "refused", or "foreign": neither of the two.

    `what`: "result", "probe", "adapter", "checkpoint" (all of a run's together; "kept" where the run is as
    far here, or done), or "" where it is not known; `why`: of what is refused or foreign.
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
    name: str  # by which it is told
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
        return Brought(self.name, self.what, *self.place, outcome, why)


@dataclass
class _Opened:
    """What a folder or an archive holds: {file: its name}, by kind."""

    listed: dict[Path, str]
    kept: dict[Path, str] = field(default_factory=dict)  # adapters
    runs: dict[Path, str] = field(default_factory=dict)  # folders of checkpoints
    refused: list[Brought] = field(default_factory=list)


def merge(places: Iterable[Path], dry_run: bool = False) -> list[Brought]:
    """Bring in the results and probes of `places`, each file by itself; what became of each, in order.

    A place is a checkout, its data folder, its data/results, a folder with such files in any order, or an
    archive. A result has to be as it was written, of today's settings and version. One that is here with the
    same numbers is kept, and one that differs is refused, as are two that are brought and differ; a stale one
    gives way, as it does to `causalnb run`. Probes agree as `causalnb verify` has it. Checkpoints are for
    today's settings and code, and give way to those that are as far; adapters go with their results.
    `dry_run`: nothing is written. LabError for a place that is none or holds nothing.
    """
    with ExitStack() as stack:
        opened = [_archive(at, stack) if at.is_file() else _Opened(dict(_files(at))) for at in places]
        done = _merged({file: name for one in opened for file, name in one.listed.items()}, dry_run)
        done += [refused for one in opened for refused in one.refused]
        new = {
            (one.experiment, one.arm, one.profile) for one in done if (one.what, one.outcome) == RESULT_CAME
        }
        for bring, kind in ((_adapters, "kept"), (_run, "runs")):
            for file, name in [pair for one in opened for pair in getattr(one, kind).items()]:
                done.append(bring(file, name, new, dry_run))
    return done


def _merged(listed: dict[Path, str], dry_run: bool) -> list[Brought]:
    """What became of files that are results or probes, in order."""
    looked = [_looked(file, name) for file, name in listed.items()]
    firsts: dict[Path, _Found] = {}
    came: dict[Path, tuple[str, str]] = {}  # (outcome, why) of each place
    for one in looked:
        if isinstance(one, _Found):
            first = firsts.setdefault(one.target, one)
            if differs := _difference(first.held, one.held):
                came.setdefault(one.target, ("refused", f"{first.name} and {one.name} differ: {differs}"))
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


def _files(folder: Path) -> Iterator[tuple[Path, str]]:
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
                    yield (file := Path(place) / name), shown(file)
    if not found:
        raise LabError(f"{folder} holds no file: give a folder that holds results.")


def _archive(file: Path, stack: ExitStack) -> _Opened:
    """What an archive holds, taken out of it into a folder of the cache, which goes with the stack."""
    try:
        cache_dir().mkdir(parents=True, exist_ok=True)
        inside = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="merging-", dir=cache_dir())))
    except OSError as error:
        raise files.disk_error(cache_dir(), error) from error
    names, refused = archives.unpack(file, inside)
    if not names and not refused:
        raise LabError(f"{shown(file)} holds no file: give an archive that holds results.")
    opened = _Opened({})
    opened.refused = [
        Brought(f"{shown(file)}: {name}", "", "", "", None, "", "refused", why) for name, why in refused
    ]
    for name in names:
        if run := archives.RUN.fullmatch(name):
            opened.runs[inside / run[1]] = f"{shown(file)}: {run[1]}"
        elif archives.ADAPTER.fullmatch(name):
            opened.kept[inside / name.removesuffix(".sha256")] = (
                f"{shown(file)}: {name.removesuffix('.sha256')}"
            )
        else:
            opened.listed[inside / name] = f"{shown(file)}: {name}"
    return opened


def _looked(file: Path, name: str) -> _Found | Brought:
    """What a file holds, or why it cannot be brought in."""

    def no(outcome: str, why: str) -> Brought:
        return Brought(name, "", "", "", None, "", outcome, why)

    if file.suffix != ".json":
        return no("foreign", "it is no .json file")
    try:
        size, kind = (status := file.stat()).st_size, status.st_mode
        if not stat.S_ISREG(kind) or size > LARGEST:
            return no("refused", "it is no file that holds a result")
        record = parsed(data := file.read_bytes())
        if {"rows", "history"} <= set(record):
            return _result(file, name, data, record)
        if {"numbers", "verified"} <= set(record):
            return _probe(file, name, data, record)
    except LabError as error:
        return no("refused", str(error))
    except (OSError, ValueError) as error:
        return no("refused", f"it is damaged ({error}): bring it anew")
    return no("refused", "it is neither a result nor a probe")


def _result(file: Path, name: str, data: bytes, record: dict) -> _Found | Brought:
    held = results.opened(record)
    if not isinstance(held, results.Result):
        raise LabError(f"it has schema {held!r} and this causalnb reads {results.SCHEMA}: make it anew")
    if held.profile not in profiles.PROFILES or held.seed < 0:
        raise LabError(f"it is of profile {held.profile!r} and seed {held.seed}, which are none here")
    _check_names(held.experiment, held.arm)
    place = results.path(held.experiment, held.arm, held.seed, held.profile)
    found = _Found(file, name, data, place, held)
    if found.is_here:
        return found.became("kept")
    now = registry.config(held.experiment, held.arm, held.profile)
    state, reason = results.judged(held, held.profile)
    if state not in results.USABLE:
        more = _first_setting(held.experiment, held.config, now)
        return found.became("refused", f"it is {state}: {reason}{more}")
    return found


def _probe(file: Path, name: str, data: bytes, record: dict) -> _Found | Brought:
    held = probes.opened(record)
    experiment, arm = held["experiment"], held["arm"]
    _check_names(experiment, arm)
    found = _Found(file, name, data, probes.path(experiment, arm), held)
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


def _asked(experiment: str, arm: str, profile: str) -> None:
    """LabError where there is no such arm, or no such profile."""
    _check_names(experiment, arm)
    if profile not in profiles.PROFILES:
        raise LabError(f"it is of profile {profile!r}, which is none here")
    registry.arms(experiment, [arm])


def _adapters(file: Path, name: str, new: set[tuple[str, str, str]], dry_run: bool) -> Brought:
    """Write adapters where they belong: with a result that came, or beside one that is here without them."""
    experiment, _, arm = file.name.removesuffix(".safetensors").rpartition(".")
    profile = file.parent.name

    def became(outcome: str, why: str = "") -> Brought:
        return Brought(name, "adapter", experiment, arm, None, profile, outcome, why)

    try:
        _asked(experiment, arm, profile)
        data, came = archives.adapter(file), (experiment, arm, profile) in new
        target = adapters.file_of(experiment, arm, profile)
        states = [
            results.state(experiment, arm, n, profile)[0] for n in registry.seeds(experiment, profile, arm)
        ]
        if not came and not {*states} & {*results.USABLE}:
            return became("refused", "no result of it is here, and none comes with it")
        if target.is_file() and target.read_bytes() == data:
            return became("kept")
        if target.is_file() and not came:
            return became("refused", f"{shown(target)} is another one, and of the result that is here")
        if not dry_run:
            with files.uninterrupted():
                files.write_atomic(target, data)
                files.write_atomic(
                    target.with_name(f"{target.name}.sha256"), Path(f"{file}.sha256").read_bytes()
                )
        return became("new")
    except LabError as error:
        return became("refused", str(error))


def _run(folder: Path, name: str, _, dry_run: bool) -> Brought:
    """Put the checkpoints of a run that is not done where it goes on from, unless it is as far here."""
    *_, profile, experiment, arm, own = folder.parts
    seed = int(own.partition("-")[0].removeprefix("seed"))

    def became(outcome: str, why: str = "") -> Brought:
        return Brought(name, "checkpoint", experiment, arm, seed, profile, outcome, why)

    try:
        _asked(experiment, arm, profile)
        here, far = runner.checkpoints(experiment, arm, seed, profile), archives.steps(folder)
        if own != here.name:
            return became("refused", "it is of other settings or other code than today's")
        if not far:
            return became("refused", "it has no checkpoint")
        if results.state(experiment, arm, seed, profile)[0] in results.USABLE:
            return became("kept")
        with nullcontext() if dry_run else runner.held(experiment, arm, seed, profile):
            if sum(runner.newest(here).values()) >= far:
                return became("kept")
            if not dry_run:
                _replace(here, folder)
        return became("new")
    except LabError as error:
        return became("refused", str(error))


def _replace(here: Path, folder: Path) -> None:
    """Put a folder in the place of another one, which is dropped; LabError where the disk refuses."""
    try:
        with files.uninterrupted():
            here.parent.mkdir(parents=True, exist_ok=True)
            if here.exists():
                os.rename(here, folder.with_name(f"{folder.name}.before"))
            os.rename(folder, here)
    except OSError as error:
        raise files.disk_error(here, error) from error
