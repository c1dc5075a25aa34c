"""The store of measured numbers: a JSON per (experiment, arm, seed) with what it was made from."""

import functools
import math
import platform
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from statistics import median

import causalnb
from causalnb.errors import FileError, LabError
from causalnb.lab import codebase, files, probes, profiles, registry
from causalnb.lab.records import canonical, installed, parsed, plain, sealed, short, unsealed
from causalnb.paths import TEMPORARY, results_dir, root, shown

SCHEMA = 2
ROW = ("cell", "measure", "value")  # what a row of a result holds
USABLE = ("fresh", "unverified")  # states of results that tables and figures are made from


@dataclass(frozen=True)
class Result:
    """One measured result: rows [cell, measure, value] of what came out, history of what was followed.

    A cell is a path, "after/acre/Comp/text", of the part of the data and what else tells it from others; ""
    is the whole run. A value is a finite number or None; the rows of the history are flat dicts.
    `version`: the experiment's when it ran; `code`: digest of all code that was there, see lab.codebase.
    """

    experiment: str
    arm: str
    seed: int
    profile: str
    version: int
    config: dict
    code: str
    rows: list
    history: list
    device: str
    versions: dict
    git: dict
    wall_seconds: float
    cpu_seconds: float
    date: str
    schema: int = SCHEMA

    @property
    def diverged(self) -> bool:
        """Whether its loss was no finite number at some step: what it measured then says nothing."""
        return any(line.get("loss", 0.0) is None for line in self.history)

    def value(self, cell: str, measure: str) -> float | None:
        """The value of a measure on a cell; LabError where there is none."""
        for *place, value in self.rows:
            if place == [cell, measure]:
                return value
        raise LabError(f"{self.experiment} does not measure {measure!r} on {cell!r}: correct the name.")


def rows_of(metrics: Mapping[str, Mapping]) -> list[list]:
    """The rows [cell, measure, value] of what a run returns, {cell: {measure: value}}."""
    return [[cell, measure, value] for cell, its in metrics.items() for measure, value in its.items()]


def column(cell: str, measure: str) -> str:
    """What `frame`, tables and claims.csv call a measure on a cell: "after_acre_Comp_text_exact"."""
    return f"{cell.replace('/', '_')}_{measure}" if cell else measure


def settings_hash(config: dict) -> str:
    """16 hex digits of the canonical json of `config`."""
    return short(canonical(config))


def versions() -> dict:
    """What a result was computed with."""
    libraries = {name: installed(name) for name in ("torch", "transformers", "numpy")}
    return {"python": platform.python_version(), "causalnb": causalnb.__version__, **libraries}


def git() -> dict:
    """{commit, dirty} of the checkout, nulls without git; dirty means its code, not results and figures."""

    def ask(*words: str) -> str:
        words = ["git", "-C", str(root()), *words]  # type: ignore[assignment]
        return subprocess.run(words, capture_output=True, encoding="utf-8", check=True).stdout.strip()

    try:
        top, commit = ask("rev-parse", "--show-toplevel", "HEAD").splitlines()
        if Path(top).resolve() == root().resolve():
            dirty = ask("status", "--porcelain", "--", "causalnb", "pyproject.toml")
            return {"commit": commit, "dirty": bool(dirty)}
    except (OSError, subprocess.CalledProcessError):
        pass
    return {"commit": None, "dirty": None}


def path(experiment: str, arm: str, seed: int, profile: str | None = None) -> Path:
    """Where the result of one run lies."""
    return results_dir(profiles.current(profile).name) / experiment / arm / f"seed{seed}.json"


def write(result: Result) -> Path:
    """Store a result at once; LabError if the disk refuses, and the previous one is untouched.

    LabError, too, for a value that is no number, and for two rows that `frame` would have in one column.
    """
    record = {field.name: plain(getattr(result, field.name), field.name) for field in fields(Result)}
    columns: dict[str, str] = {}
    for cell, measure, value in record["rows"]:
        what = f"{measure!r} on {cell!r}" if cell else repr(measure)
        if isinstance(value, bool) or not isinstance(value, (int, float, type(None))):
            raise LabError(f"{what} of {result.experiment} is {value!r}: give a number or None.")
        name = column(cell, measure)
        if name in columns:
            raise LabError(
                f"{result.experiment} measures {columns[name]} and {what}, both in the column {name!r}: "
                "rename one."
            )
        columns[name] = what
    target = path(result.experiment, result.arm, result.seed, result.profile)
    files.write_atomic(target, sealed(record))
    return target


@codebase.unrecorded
def read(experiment: str, arm: str, seed: int, profile: str | None = None) -> Result:
    """The stored result; LabError naming the file if it is absent, FileError if it is not as written here."""
    file, profile = path(experiment, arm, seed, profile), profiles.current(profile).name
    redo = f"causalnb run {experiment} --profile {profile}"
    try:
        kept = file.stat()
        result = _parsed(file, kept.st_ino, kept.st_mtime_ns, kept.st_size)
    except FileNotFoundError:
        raise LabError(f"there is no result {shown(file)}: make it with `{redo}`.") from None
    except (OSError, ValueError) as error:
        why = f"{shown(file)} is damaged ({error})"
        raise FileError(f"{why}: restore it from git, or delete it and `{redo}`.") from None
    if isinstance(result, int | str | None):
        older = isinstance(result, int) and result < SCHEMA
        raise FileError(
            f"{shown(file)} has schema {result!r} and this causalnb reads {SCHEMA}: "
            f"{'' if older else 'update causalnb, or '}delete it and `{redo}`."
        )
    if (result.experiment, result.arm, result.seed, result.profile) != (experiment, arm, seed, profile):
        raise FileError(
            f"{shown(file)} holds {result.experiment} {result.arm} seed {result.seed} of "
            f"{result.profile}: put it back where it belongs and `{redo}`."
        )
    return result


@functools.lru_cache(8192)
@codebase.unrecorded
def _parsed(file: Path, *version: int) -> Result | int | str | None:
    """The result in a file, which is read again when its inode, time or size changes; or its other schema."""
    return opened(parsed(file.read_bytes()))


@codebase.unrecorded
def opened(record: dict) -> Result | int | str | None:
    """The result that a record holds, or its schema where that is another; ValueError for a damaged one."""
    if record.get("schema") != SCHEMA:
        schema = record.get("schema")
        return schema if isinstance(schema, int | None) else str(schema)
    shape: dict = {field.name: field.type for field in fields(Result)}
    result = Result(**unsealed(record, "result", shape))
    for row in result.rows:
        if not isinstance(row, list) or [*map(type, row)][:2] != [str, str] or not _is_value(*row[2:]):
            raise ValueError(f"{row!r} is no row [cell, measure, value]")
    for line in result.history:
        if not _is_line(line):
            raise ValueError(f"{str(line)[:60]} is no line {{name: number}} of a history")
    return result


def _is_line(line: object) -> bool:
    return isinstance(line, dict) and not any(isinstance(value, dict | list) for value in line.values())


def _is_value(*values) -> bool:
    return len(values) == 1 and type(values[0]) in (int, float, type(None))


def _look(experiment: str, arm: str, seed: int, profile: str | None) -> tuple[str, str, Result | None]:
    try:
        path(experiment, arm, seed, profile).stat()
    except FileNotFoundError:
        return "missing", "not run yet", None
    except OSError:
        pass  # reading it says why
    try:
        result = read(experiment, arm, seed, profile)
    except FileError as error:
        return "unreadable", str(error), None
    return (*judged(result, profile), result)


def judged(result: Result, profile: str | None = None) -> tuple[str, str]:
    """("fresh" | "unverified" | "stale", one-line reason) of a result, wherever it lies."""
    experiment, arm = result.experiment, result.arm
    if not registry.same_settings(experiment, result.config, registry.config(experiment, arm, profile)):
        return "stale", "its settings have changed since"
    if result.version != registry.experiment(experiment).version:
        return "stale", "its experiment has another version now"
    if profiles.current(profile).name in TEMPORARY:
        if result.code != codebase.index().digest:
            return "stale", "the code has changed since"
        return "fresh", f"measured {result.date[:10]}"
    good, reason = probes.state(experiment, arm)
    return ("fresh", f"measured {result.date[:10]}") if good else ("unverified", reason)


def state(experiment: str, arm: str, seed: int, profile: str | None = None) -> tuple[str, str]:
    """("fresh" | "unverified" | "stale" | "missing" | "unreadable", one-line reason)."""
    return _look(experiment, arm, seed, profile)[:2]


def states(experiment: str, profile: str | None = None, arms: Iterable[str] | None = None) -> dict:
    """{(experiment, arm, seed): (state, reason)} of every result the experiment asks for."""
    return {
        (experiment, arm, seed): state(experiment, arm, seed, profile)
        for arm in registry.arms(experiment, arms)
        for seed in registry.seeds(experiment, profile, arm)
    }


def taken(experiment: str, arm: str, seed: int) -> str:
    """The sentence for who would make a result that another one makes."""
    return f"another run is writing {experiment} {arm} seed {seed}: wait for it or stop it."


def lock(experiment: str, arm: str, seed: int, profile: str | None = None, wait: float = 0.0):
    """Context manager: only one runner writes a result; LabError for the second after `wait` seconds."""
    return files.lock(path(experiment, arm, seed, profile), taken(experiment, arm, seed), wait)


def estimates(experiment: str, profile: str | None = None) -> dict[str, float]:
    """{arm: core-seconds of one result}: the median measured for it, else its experiment, else the guess.

    What was measured on another kind of device does not count.
    """
    spec, measured, device = registry.experiment(experiment), {}, profiles.wanted_device(profile)
    for other in spec.arms:
        for file in path(experiment, other, 0, profile).parent.glob("seed*.json"):
            if file.stem[4:].isdecimal():
                kind, reason, result = _look(experiment, other, int(file.stem[4:]), profile)
                if result and result.device.startswith(device) and "settings" not in reason:
                    measured.setdefault(other, []).append(result.cpu_seconds)
    anyones = [seconds for some in measured.values() for seconds in some]
    guess = median(anyones) if anyones else float(profiles.pick(profile, **spec.cost))
    return {arm: median(measured[arm]) if arm in measured else guess for arm in spec.arms}


def duration(seconds: float) -> str:
    """`seconds` as a reader says it; LabError for no finite number."""
    if not isinstance(seconds, int | float) or not math.isfinite(seconds):
        raise LabError(f"{seconds!r} s are no duration: give a finite number.")
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


@codebase.unrecorded
def usable(experiment: str, profile: str | None = None, arms: Iterable[str] | None = None) -> list[Result]:
    """The results that the experiment asks for, neither missing nor stale; LabError if one is unreadable."""
    found = []
    for arm in registry.arms(experiment, arms):
        for seed in registry.seeds(experiment, profile, arm):
            kind, reason, result = _look(experiment, arm, seed, profile)
            if kind == "unreadable":
                raise LabError(reason)
            if kind in USABLE:
                found.append(result)
    return found  # type: ignore[return-value]


def _measured(found: Iterable[Result]) -> list[tuple[Result, list]]:
    """Each result with its rows, nan where a value is None, and in all rows of one that diverged."""

    def numbers(rows, diverged: bool) -> list:
        return [(*at, math.nan if value is None or diverged else value) for *at, value in rows]

    return [(result, numbers(result.rows, result.diverged)) for result in found]


def _diverged(found: Iterable[Result]) -> list[str]:
    """Names of those that diverged, or lack a value which another seed of their arm has."""
    numbers = {(r.arm, *at) for r in found for *at, value in r.rows if value is not None}
    return [
        f"{r.experiment} {r.arm} seed {r.seed}"
        for r in found
        if r.diverged or any(value is None and (r.arm, *at) in numbers for *at, value in r.rows)
    ]


def long(experiment: str, profile: str | None = None, arms: Iterable[str] | None = None):
    """DataFrame of the rows of the usable results: arm, seed, cell, measure, value; NaN where it is None.

    Those of a run that diverged are all NaN; attrs["diverged"] names such runs.
    """
    import pandas as pd

    found = usable(experiment, profile, arms)
    lines = [(r.arm, r.seed, *row) for r, rows in _measured(found) for row in rows]
    table = pd.DataFrame(lines, columns=["arm", "seed", *ROW]).astype({"value": float})
    table.attrs["diverged"] = _diverged(found)
    return table


def _lines(results: list[Result], lines: Iterable):
    import pandas as pd

    return pd.DataFrame(
        [{"arm": result.arm, "seed": result.seed, **line} for result, line in lines],
        columns=None if results else ["arm", "seed"],
    )


def frame(experiment: str, profile: str | None = None, arms: Iterable[str] | None = None):
    """DataFrame of the usable results: arm, seed and a `column` for each row; NaN where its value is None.

    NaN and attrs["diverged"] as of `long`.
    """
    found = usable(experiment, profile, arms)
    wide = [(r, {column(*at): value for *at, value in rows}) for r, rows in _measured(found)]
    table = _lines(found, wide)
    table.attrs["diverged"] = _diverged(found)
    return table


def curves(experiment: str, profile: str | None = None, arms: Iterable[str] | None = None):
    """DataFrame of the histories of the usable results: arm, seed and the columns of the history."""
    found = usable(experiment, profile, arms)
    return _lines(found, [(r, line) for r in found for line in r.history])


def digest(needs: Iterable[str], profile: str | None = None, texts: Iterable[str] = ()) -> str | None:
    """16 hex digits of the needed results' settings and numbers, and of `texts`; None if one is missing."""
    parts = [*texts]
    for id in sorted(needs):
        found = usable(id, profile)
        if len(found) < sum(len(registry.seeds(id, profile, arm)) for arm in registry.arms(id)):
            return None
        parts += [canonical([id, r.arm, r.seed, r.config, sorted(r.rows), r.history]) for r in found]
    return short("\n".join(parts))
