"""Does an arm still compute what it did? First steps at the real settings, and the quick run, again.

A probe is a JSON file in data/probes/: losses and gradient norms of the first steps at the laptop settings
with seed 0, scores after them on a few rows, and the quick run, whole. `verified` lists the code, by the
hashes of what ran, and the libraries under which all of these numbers came out.
"""

import functools
import gc
import json
import math
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fnmatch import fnmatch
from fractions import Fraction
from pathlib import Path

from causalnb.errors import FileError, LabError, sentence
from causalnb.lab import codebase, files, registry
from causalnb.lab.records import installed, is_texts, parsed, plain, sealed, unsealed
from causalnb.paths import cache_dir, probes_dir, shown

COMMAND = [sys.executable, "-c", "from causalnb.lab import probes; probes.main()"]
ENDED = "its process was ended"
LONGEST = 1800.0  # seconds that one arm's probe may take
PER_PROCESS = 40  # arms that one process probes
STEPS = 3  # of each training at the real settings
ROWS = 8  # of each part that is scored after them
LIBRARIES = ("torch", "transformers")
RTOL, ACROSS = 1e-5, 1e-3  # with the same versions of the libraries, and across versions and processors
TIPPED = 2  # shares of a few rows that rounding may tip, by a row each
TINY = 1e-6  # numbers this near are equal: a difference of logits has the rounding of the logits
PROFILE = "laptop"  # whose settings are probed: all profiles run the same code
FIELDS = {
    **dict.fromkeys(("experiment", "arm", "date"), str),
    **dict.fromkeys(("config", "numbers", "versions"), dict),
    "version": int,
    "verified": list,
    "seconds": float,
}
ENTRY = {*LIBRARIES, "units", "edges", "missed"}  # of `verified`
_probing: ContextVar["Probing | None"] = ContextVar("probing", default=None)


@dataclass
class Probing:
    """Within a probe: how many steps a training takes, and what it noted of them."""

    steps: int
    rows: int
    noted: list[dict]


@contextmanager
def probing(steps: int = STEPS, rows: int = ROWS) -> Iterator[list[dict]]:
    """Within, `training.train` stops after `steps` and notes each, and `scored` gives at most `rows`."""
    token = _probing.set(Probing(steps, rows, noted := []))
    try:
        yield noted
    finally:
        _probing.reset(token)


def now() -> Probing | None:
    """The probe that is running, if one is."""
    return _probing.get()


def scored(rows: list) -> list:
    """The rows that are scored: all of them; within a probe, the first few."""
    return rows if now() is None else rows[: now().rows]  # type: ignore[union-attr]


def looked_at(steps: Sequence[int]) -> list[int]:
    """The steps of a fit at which it is looked at: all of them; within a probe, its few steps' last alone."""
    return [*steps] if now() is None else [now().steps]  # type: ignore[union-attr]


def versions() -> dict[str, str | None]:
    """The libraries that decide on the numbers, as installed."""
    return {name: installed(name) for name in LIBRARIES}


def path(experiment: str, arm: str) -> Path:
    """Where the probe of an arm lies."""
    return probes_dir(PROFILE) / experiment / f"{arm}.json"


def read(experiment: str, arm: str) -> dict | None:
    """The stored probe, None if there is none; FileError naming a damaged file."""
    file = path(experiment, arm)
    try:
        kept = file.stat()
        record = dict(_parsed(file, kept.st_ino, kept.st_mtime_ns, kept.st_size))
        if (record["experiment"], record["arm"]) != (experiment, arm):
            raise ValueError(f"it is of {record['experiment']} {record['arm']}")
        return record
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise FileError(
            f"{shown(file)} is damaged ({error}): restore it from git, or delete it and run "
            f"`causalnb verify {experiment} --make`."
        ) from None


@functools.lru_cache(2048)
@codebase.unrecorded
def _parsed(file: Path, *version: int) -> dict:
    """The probe in a file, which is read again when its inode, time or size changes."""
    return opened(parsed(file.read_bytes()))


@codebase.unrecorded
def opened(content: dict) -> dict:
    """The probe that the content of a file holds; ValueError for a damaged one."""
    record = unsealed(content, "probe", FIELDS)
    for entry in record["verified"]:
        if not is_texts(entry) or set(entry) != ENTRY:
            raise ValueError("verified is not as a probe has it")
    return record


def write(record: dict) -> Path:
    """Store a probe, a field a line."""
    target = path(record["experiment"], record["arm"])
    files.write_atomic(target, sealed(record))
    return target


def state(experiment: str, arm: str) -> tuple[bool, str]:
    """(whether the code and libraries of today gave the arm's numbers, one-line reason)."""
    try:
        probe = read(experiment, arm)
    except FileError as error:
        return False, str(error)
    if probe is None:
        return False, "it has no probe yet"
    if outdated := _outdated(probe):
        return False, outdated
    here = versions()
    known = [entry for entry in probe["verified"] if {name: entry[name] for name in LIBRARIES} == here]
    if not known:
        return False, f"its probe did not run with {' and '.join(f'{n} {v}' for n, v in here.items())} yet"
    if any(codebase.index().holds(entry["units"], entry["edges"]) for entry in known):
        return True, "verified"
    return False, "the code that it ran has changed since"


def _outdated(probe: dict) -> str:
    """Why a probe is not of the arm as it is registered today; "" if it is."""
    experiment, arm = probe["experiment"], probe["arm"]
    if probe["version"] != registry.experiment(experiment).version:
        return "its probe is of another version"
    same = registry.same_settings(experiment, probe["config"], registry.config(experiment, arm, PROFILE))
    return "" if same else "its probe has other settings"


def running(experiment: str, arm: str) -> str:
    """A name for the code that an arm runs, the same while it does not change; without a probe, all code."""
    probe = read(experiment, arm)
    for entry in probe["verified"] if probe else ():
        if codebase.index().holds(entry["units"], entry["edges"]):
            return entry["edges"]
    return codebase.index().digest


# comparing


def flat(value, name: str = "") -> Iterator[tuple[str, object]]:
    """("losses[2].loss", 3.4) for every leaf of nested lists and dicts, in order."""
    if isinstance(value, Mapping):
        for key in value:
            yield from flat(value[key], ".".join(filter(None, (name, str(key)))))
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from flat(item, f"{name}[{place}]")
    else:
        yield name, value


def difference(stored: dict, found: dict, rtol: float, ignored: Iterable[str] = ()) -> str | None:
    """The first number that differs, as "first[0].loss: 2.31 stored, 2.35 now"; None where all agree.

    `ignored`: patterns of names that are not compared, by their last part. Where numbers differ in their last
    digits, as on another processor, scores after the steps may differ by ACROSS, and TIPPED shares of a few
    rows by one row.
    """

    def kept(numbers: dict) -> dict:
        leaves = dict(flat(numbers))
        return {
            name: value
            for name, value in leaves.items()
            if not any(fnmatch(name.rpartition(".")[2], pattern) for pattern in ignored)
        }

    one, two = kept(stored), kept(found)
    # where another processor's last digits differ, what follows the steps differs more, and near ties tip
    rounded, apart, tipped = False, [], 0
    for name in [*one, *(name for name in two if name not in one)]:
        before, after = one.get(name, "nothing"), two.get(name, "nothing")
        told = f"{name}: {_told(before)} stored, {_told(after)} now"
        if isinstance(before, float) or isinstance(after, float):
            numbers = all(isinstance(value, (int, float)) for value in (before, after))
            follows = numbers and "steps[" not in name
            if numbers and math.isclose(before, after, rel_tol=rtol, abs_tol=TINY):
                rounded |= before != after
                continue
            near = follows and math.isclose(before, after, rel_tol=ACROSS)
            if near or follows and _a_row_apart(before, after):
                apart.append(told)
                tipped += not near
                continue
        if before != after:
            return told
    return None if rounded and tipped <= TIPPED else next(iter(apart), None)


def _a_row_apart(*values: float) -> bool:
    """Whether two numbers can be shares of the same few rows, one of which changed sides."""
    before, after = (Fraction(value).limit_denominator(4 * ROWS) for value in values)
    for value, share in zip(values, (before, after), strict=True):
        if not 0 <= value <= 1 or abs(share - Fraction(value)) >= TINY:
            return False
    row = Fraction(1, math.lcm(before.denominator, after.denominator))
    return abs(before - after) <= min(row, Fraction(1, 4))


def _rounded(value):
    """Floats with 8 digits, more than are compared."""
    if isinstance(value, dict):
        return {name: _rounded(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return float(f"{value:.8g}") if isinstance(value, float) else value


def _told(value) -> str:
    text = f"{value:.8g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


# running


def measure(experiment: str, arm: str) -> tuple[dict, dict[Path, set[int]]]:
    """(numbers, executed lines by file) of an arm: first steps at the real settings, and the quick run."""
    try:
        from coverage import Coverage
    except ImportError:
        raise LabError("`causalnb verify` needs the package coverage: run make setup.") from None

    spec, numbers = registry.experiment(experiment), {}
    folder = Path(tempfile.mkdtemp(prefix="causalnb-probe-"))
    roots = [str(place) for place in codebase.current().roots.values()]
    tracer = Coverage(data_file=None, config_file=False, include=[f"{root}/*" for root in roots])
    try:
        for part, profile in (("first", PROFILE), ("quick", "quick")):
            config = registry.config(experiment, arm, profile)
            run = registry.Run(
                experiment,
                arm,
                0,
                "quick",
                config,
                folder / part,
                "cpu",
                lambda done, total, note="": None,  # type: ignore[misc]
            )
            run.folder.mkdir(parents=True)
            noted: list[dict] = []
            tracer.start()
            try:
                if part == "first":
                    with probing() as noted:
                        returned = spec.run(run)
                else:
                    returned = spec.run(run)
            finally:
                tracer.stop()
            numbers[part] = _rounded(plain({"steps": noted, **returned}, part))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    data = tracer.get_data()
    return numbers, {Path(file): set(data.lines(file) or ()) for file in data.measured_files()}


def entry(lines: Mapping[Path, set[int]]) -> tuple[dict, list[codebase.Unit]]:
    """What `verified` lists of the code that ran, and its units."""
    units = codebase.current().at(lines)
    missed = codebase.current().changed(units, lines, set())
    return {**codebase.described(units), "missed": " ".join(sorted(missed)), **versions()}, units


def make(experiment: str, arm: str) -> dict:
    """Run a probe for the first time and store it."""
    start = time.process_time()
    numbers, lines = measure(experiment, arm)
    record = {
        "experiment": experiment,
        "arm": arm,
        "version": registry.experiment(experiment).version,
        "config": registry.config(experiment, arm, PROFILE),
        "numbers": numbers,
        "versions": versions(),
        "verified": [entry(lines)[0]],
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(time.process_time() - start, 1),
    }
    write(record)
    return record


def ensure(experiment: str, arm: str) -> None:
    """Store the probe of an arm whose result was made just now, by the same code, unless it has one."""
    probe = read(experiment, arm)
    if probe is None or _outdated(probe):
        make(experiment, arm)


@dataclass(frozen=True)
class Check:
    """What a probe said: outcome "same", "differs", "made", "no probe" or "failed".

    `unrun`: {hash: place} of new lines in code that ran which did not; `ran`: hashes of those that did.
    """

    experiment: str
    arm: str
    outcome: str
    detail: str = ""
    entry: dict | None = None
    unrun: dict | None = None
    ran: tuple = ()
    seconds: float = 0.0


def check(experiment: str, arm: str, create: bool = False) -> Check:
    """Run the probe of an arm and compare.

    No probe is written, but where there is none of today's version and settings and `create` is set. What
    came out the same, and waits for a probe that runs its other new lines, is kept, and not run again.
    """
    start = time.perf_counter()
    stored, spec = read(experiment, arm), registry.experiment(experiment)
    lacking = "it has none" if stored is None else _outdated(stored)
    if lacking and create:
        make(experiment, arm)
        return Check(experiment, arm, "made", seconds=time.perf_counter() - start)
    if stored is None or lacking:
        return Check(experiment, arm, "no probe", f"{lacking}: add --make to store one")
    if kept := _kept(stored):
        return kept
    numbers, lines = measure(experiment, arm)
    rtol = RTOL if stored["versions"] == versions() else ACROSS
    found = difference(stored["numbers"], numbers, rtol, spec.timed)
    took = time.perf_counter() - start
    if found:
        return Check(experiment, arm, "differs", found, seconds=took)
    new, units = entry(lines)
    known = {hash for one in stored["verified"] for hash in one["missed"].split()}
    unrun = codebase.current().changed(units, lines, known)
    ran = codebase.current().statements(units) - set(new["missed"].split())
    same = Check(experiment, arm, "same", "", new, unrun, tuple(sorted(ran)), took)
    if unrun:
        files.write_atomic(
            _waiting(experiment, arm), json.dumps({**vars(same), "probe": stored["date"]}).encode()
        )
    return same


def _waiting(experiment: str, arm: str) -> Path:
    """Where a check lies that came out the same, and waits for another probe."""
    return cache_dir() / "checks" / experiment / f"{arm}.json"


def _kept(stored: dict) -> Check | None:
    """The check of a stored probe that waits, if it is of this probe and of today's code and libraries."""
    try:
        kept = json.loads(_waiting(stored["experiment"], stored["arm"]).read_bytes())
        entry, code = kept["entry"], codebase.index()
        if kept.pop("probe") != stored["date"] or {name: entry[name] for name in LIBRARIES} != versions():
            return None
        if not code.holds(entry["units"], entry["edges"]):
            return None
        own, source = set(entry["units"].split()), codebase.current()
        asked = source.statements(
            unit for unit in source.units if unit.hash in own
        )  # marked ones no longer are
        unrun = {hash: place for hash, place in kept["unrun"].items() if hash in asked}
        return Check(**{**kept, "unrun": unrun, "ran": tuple(kept["ran"]), "seconds": 0.0})
    except (OSError, ValueError, KeyError, TypeError):
        return None  # there is none, or it is damaged: the probe runs


def accept(checks: Iterable[Check]) -> list[Check]:
    """Write into its `verified` list what each probe that came out the same has shown; the rest is told.

    A changed line in code that a probe ran, which did not run in it, is shown by another probe that ran it
    and came out the same, now or before; else the arm stays unverified, with outcome "unrun".
    """
    checks = list(checks)
    shown_by = {hash for one in checks if one.outcome in ("same", "verified") for hash in one.ran}
    if any(one.outcome == "same" and one.unrun for one in checks):
        shown_by |= _shown_before()
    return [_accepted(one, shown_by) for one in checks]


def _shown_before() -> set[str]:
    """Hashes of the statements that probes ran whose arms are verified with today's code and libraries."""
    within = {unit.hash: codebase.current().statements([unit]) for unit in codebase.current().units}
    found: set[str] = set()
    for file in probes_dir(PROFILE).glob("*/*.json"):
        for entry in (read(file.parent.name, file.stem) or {"verified": ()})["verified"]:
            same = {name: entry[name] for name in LIBRARIES} == versions()
            if same and codebase.index().holds(entry["units"], entry["edges"]):
                ran = set().union(*(within[hash] for hash in entry["units"].split()))
                found |= ran - set(entry["missed"].split())
    return found


def _accepted(check: Check, shown_by: set[str]) -> Check:
    if check.outcome != "same":
        return check
    left = [place for hash, place in check.unrun.items() if hash not in shown_by]  # type: ignore[union-attr]
    if left:
        return replace(check, outcome="unrun", detail=f"{min(left)} is new, and no probe ran it")
    busy = f"another command is writing the probe of {check.experiment} {check.arm}: stop it."
    with files.lock(path(check.experiment, check.arm), busy, wait=60):
        record = read(check.experiment, check.arm)
        same = [old for old in record["verified"] if any(old[n] != check.entry[n] for n in LIBRARIES)]  # type: ignore[index]
        record["verified"] = [*same, check.entry]  # type: ignore[index]
        write(record)  # type: ignore[arg-type]
        _waiting(check.experiment, check.arm).unlink(missing_ok=True)
    return replace(check, outcome="verified")


def main() -> None:
    """The child: checks the arms that its parent names on standard input, and tells of each in a line."""
    channel = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
    os.dup2(2, 1)
    import torch

    torch.set_num_threads(1)
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    import transformers.trainer  # noqa: F401  (all that is heavy, once)

    gc.freeze()  # the Trainer collects garbage often, and torch alone is a million objects
    for line in sys.stdin:
        experiment, arm, create = json.loads(line)
        try:
            found = check(experiment, arm, create)
        except Exception as error:
            found = Check(experiment, arm, "failed", sentence(error))
        print(json.dumps(found.__dict__), file=channel)


def verify(
    arms: list[tuple[str, str]],
    jobs: int = 1,
    create: bool = False,
    tell: Callable[[Check], None] = lambda check: None,
) -> list[Check]:
    """Check the probes of (experiment, arm) in `jobs` processes, and `accept` what came out the same.

    A probe that takes longer than LONGEST is ended and named; so is, at once, all that runs at Ctrl-C.
    """
    import subprocess
    from concurrent.futures import ThreadPoolExecutor
    from queue import Empty, SimpleQueue
    from threading import Timer

    queue: SimpleQueue = SimpleQueue()
    for arm in arms:
        queue.put(arm)
    env = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "CAUSALNB_PROFILE": PROFILE,
        "PYTHONPATH": os.pathsep.join(
            filter(None, [str(Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH")])
        ),
    }

    children: set = set()

    def asked(child, experiment: str, arm: str) -> Check:
        late = Timer(LONGEST, child.kill)
        late.start()
        try:
            child.stdin.write(json.dumps([experiment, arm, create]) + "\n")
            child.stdin.flush()
            said = child.stdout.readline()
        except OSError:
            said = ""
        finally:
            late.cancel()
        return Check(**json.loads(said)) if said else Check(experiment, arm, "failed", ENDED)

    def some() -> list[Check]:
        """The checks of one process, which asks no more than PER_PROCESS, for its memory grows with each."""
        found: list[Check] = []
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        with subprocess.Popen(COMMAND, encoding="utf-8", env=env, **pipes) as child:  # type: ignore[call-overload]
            children.add(child)
            while len(found) < PER_PROCESS and not (found and found[-1].detail == ENDED):
                try:
                    arm = queue.get_nowait()
                except Empty:
                    break
                one = asked(child, *arm)
                # what needs no other probe is written at once, so that an interrupted run loses little
                found.append(one if one.unrun else _accepted(one, set()))
                tell(found[-1])
            with suppress(OSError):
                child.stdin.close()
        return found

    def work(_: int) -> list[Check]:
        found: list[Check] = []
        while not queue.empty():
            found += some()
        return found

    jobs = min(jobs, len(arms) or 1)
    with ThreadPoolExecutor(jobs) as pool:
        try:
            found = [one for part in pool.map(work, range(jobs)) for one in part]
        except BaseException:
            while not queue.empty():  # so that no thread starts another
                with suppress(Empty):
                    queue.get_nowait()
            for child in children:
                child.kill()
            raise
    done = {(one.experiment, one.arm) for one in found}
    found += [Check(*arm, "failed", "it was not reached") for arm in arms if arm not in done]
    return accept(found)
