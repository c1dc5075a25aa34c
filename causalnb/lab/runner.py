"""Runs experiments: a process, a thread and a lock per result; what is done is kept, the rest resumes."""

import heapq
import json
import math
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from causalnb.errors import CausalnbError, LabError, sentence
from causalnb.lab import bases, codebase, files, probes, profiles, records, registry, results
from causalnb.paths import cache_dir, shown

COMMAND = [sys.executable, "-m", "causalnb.lab.runner"]
MOST_SEEDS = 10_000
SHARD = re.compile("([0-9]{1,6})/([0-9]{1,6})")
CHECKPOINT = re.compile("checkpoint-([0-9]{1,9})")
STAGING = "unfinished"  # where `lab.training` keeps the checkpoint that it is writing
CLOCK = "seconds.json"
CLOCK_SECONDS = 5.0  # how often the time spent is noted, so that a resumed run counts all of it
WAKE_SECONDS = 1.0  # how often a wait looks up: only the main thread's own signal wakes it at once
GRACE_SECONDS = 5.0  # for all that is stopped together, until it is killed
MOST_OF_IT = 0.9  # of the time given: a run that had it and came to no checkpoint will not come to one


class Job(NamedTuple):
    """One result to make: its state now and the core-seconds it is thought to take."""

    experiment: str
    arm: str
    seed: int
    state: str
    estimate: float

    def __str__(self) -> str:
        return f"{self.experiment} {self.arm} seed {self.seed}"


def plan(
    ids: Iterable[str] | None = None, profile: str | None = None, seeds: int | Iterable[int] | None = None
) -> list[Job]:
    """The results that `ids` (experiments, artefacts, sources; None: all) ask for; `seeds`: count or list."""
    chosen = registry.resolve(ids) if ids is not None else [e.id for e in registry.experiments()]
    counted = range(min(seeds, MOST_SEEDS + 1)) if isinstance(seeds, int) else seeds
    wanted = None if counted is None else list(dict.fromkeys(counted))
    if wanted is not None and (not wanted or min(wanted) < 0):
        raise LabError(f"seeds={seeds!r} asks for no run: give a count of at least 1, or seeds from 0 on.")
    if wanted is not None and max(wanted) >= MOST_SEEDS:
        raise LabError(f"seeds={seeds!r} is too much: give at most {MOST_SEEDS}, or seeds below that.")
    found = []
    for id in chosen:
        estimates = results.estimates(id, profile)
        for arm in registry.arms(id):
            found += [
                Job(id, arm, seed, results.state(id, arm, seed, profile)[0], estimates[arm])
                for seed in wanted or registry.seeds(id, profile, arm)
            ]
    return found


class Shard(NamedTuple):
    """One of `of` parts of a plan; the first is number 1."""

    number: int
    of: int

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


def shard(text: str) -> Shard:
    """The part that "3/16" names; LabError for what names none."""
    match = SHARD.fullmatch(text)
    found = Shard(*map(int, match.groups())) if match else Shard(0, 0)
    if not 1 <= found.number <= found.of:
        raise LabError(f"the shard is {text!r}: give K/N, with K from 1 to N, such as 3/16.")
    return found


def costs(planned: Iterable[Job], profile: str | None = None) -> dict[Job, float]:
    """The registered core-seconds of each job, which are the same wherever and whatever was measured."""
    return {job: float(profiles.pick(profile, **registry.experiment(job.experiment).cost)) for job in planned}


def divided(planned: Iterable[Job], parts: int, profile: str | None = None) -> list[list[Job]]:
    """The jobs of each part of a plan: disjoint, together all of them, each part of about the same cost.

    The parts are the same on every machine, whatever is stored there: they follow from the names of the jobs
    and from their registered costs. Measured times, which are better, are those of the results that a machine
    happens to have. The dearest job goes first, to the part that has least.
    """
    cost = costs(planned, profile)
    loads, found = [(0.0, part) for part in range(parts)], [[] for _ in range(parts)]
    for job in sorted(cost, key=lambda job: (-cost[job], *job[:3])):
        load, part = loads[0]
        heapq.heapreplace(loads, (load + cost[job], part))
        found[part].append(job)
    return found


def part_of(planned: list[Job], part: Shard | None, profile: str | None = None) -> list[Job]:
    """The jobs of one part of a plan, in the plan's order; all of them where `part` is None.

    LabError where an experiment could not be registered here: the parts would be others than elsewhere.
    """
    if part is None:
        return planned
    if unread := registry.unread():
        raise LabError(f"without all experiments the parts are not those of other machines: {unread[0]}")
    mine = set(divided(planned, part.of, profile)[part.number - 1])
    return [job for job in planned if job in mine]


def digest(planned: Iterable[Job], profile: str | None = None) -> str:
    """16 hex digits of what a plan asks for and of its costs: machines that share it have the same."""
    lines = [[*job[:3], cost] for job, cost in costs(planned, profile).items()]
    return records.short(records.canonical([profiles.current(profile).name, *sorted(lines)]))


def unreadable(planned: Iterable[Job], profile: str | None = None) -> dict[Job, str]:
    """Why each of those planned is unreadable that is; no run touches it until it is restored or deleted."""
    return {
        job: results.state(job.experiment, job.arm, job.seed, profile)[1]
        for job in planned
        if job.state == "unreadable"
    }


def _checked(experiment: str, returned) -> tuple[list, list, dict]:
    match returned:
        case {"metrics": dict() as metrics, **rest} if set(rest) <= {"history", "bases"}:
            metrics = records.plain(metrics, "metrics")
            history = records.plain(rest.get("history", []), "history")
            digests: dict = rest.get("bases", {})  # type: ignore[assignment]
            kinds = {*map(type, (*metrics.values(), *history))}
            if isinstance(history, list) and kinds <= {dict} and {*map(type, digests.values())} <= {str}:
                return results.rows_of(metrics), history, digests
    raise LabError(
        f"{experiment} returned no result: "
        'return {"metrics": {cell: {measure: value}}, "history": [{...}, ...], "bases": {name: digest}}, the '
        "last two where there are any."
    )


def _device_name(device: str) -> str:
    if device == "cpu":
        return device
    import torch

    return f"cuda:{torch.cuda.get_device_name(0)}"


class _Clock:
    """Seconds spent on a run, wall and CPU, those of interrupted attempts included."""

    def __init__(self, file: Path):
        self.file, self.noted = file, time.monotonic()
        self.start = time.perf_counter(), time.process_time()
        try:
            wall, cpu = map(float, json.loads(file.read_bytes()))
            known = math.isfinite(wall + cpu) and min(wall, cpu) >= 0
        except (OSError, ValueError, TypeError, OverflowError, RecursionError):
            known = False
        self.before = (wall, cpu) if known else (0.0, 0.0)

    def spent(self) -> tuple[float, float]:
        return (
            self.before[0] + time.perf_counter() - self.start[0],
            self.before[1] + time.process_time() - self.start[1],
        )

    def note(self) -> None:
        if time.monotonic() - self.noted >= CLOCK_SECONDS:
            files.write_atomic(self.file, json.dumps(self.spent()).encode())
            self.noted = time.monotonic()


def _home(experiment: str, arm: str, seed: int, profile: str) -> Path:
    """Checkpoints of a run lie beside this path, in folders whose names begin with its name and "-"."""
    return cache_dir() / "runs" / profile / experiment / arm / f"seed{seed}"


def checkpoints(experiment: str, arm: str, seed: int, profile: str) -> Path:
    """The folder of a run's checkpoints, named after its settings and the code that runs today."""
    home, config = _home(experiment, arm, seed, profile), registry.config(experiment, arm, profile)
    return home.with_name(f"{home.name}-{results.settings_hash(config)}-{probes.running(experiment, arm)}")


def newest(folder: Path) -> dict[Path, int]:
    """{checkpoint: its step}, the last one of each training in a run's folder."""
    found: dict[Path, tuple[int, Path]] = {}
    for place in folder.rglob("checkpoint-*"):
        if match := CHECKPOINT.fullmatch(place.name):
            step = int(match[1])
            found[place.parent] = max(found.get(place.parent, (-1, place)), (step, place))
    return {place: step for step, place in found.values() if place.parent.name != STAGING}


def _reached(job: "Job", profile: str) -> dict[Path, int]:
    """`newest` of a job; {} where its folder cannot be named, which the run itself will tell."""
    with suppress(LabError):
        return newest(checkpoints(*job[:3], profile))
    return {}


@contextmanager
def held(experiment: str, arm: str, seed: int, profile: str, wait: float = 0.0) -> Iterator[Path]:
    """Hold a result, and the checkpoints of its run."""
    home = _home(experiment, arm, seed, profile)
    taken = results.taken(experiment, arm, seed)
    with results.lock(experiment, arm, seed, profile, wait), files.lock(home, taken, wait):
        yield home


def _clear(home: Path) -> None:
    for old in home.parent.glob(f"{home.name}-*"):
        shutil.rmtree(old, ignore_errors=True)


def execute(
    experiment: str,
    arm: str,
    seed: int,
    profile: str | None = None,
    progress: Callable[[int, int, str], None] | None = None,
    fresh: bool = False,
    wait: float = 0.0,
) -> results.Result:
    """Make one result in this process and store it; a fresh one is returned as it is unless `fresh`.

    Checkpoints lie in a folder named after settings and the code that runs, so that none of other code is
    resumed; they go when the result is stored, or found to be.
    LabError: the result is being written by another run, unreadable, or what `run` returned is no result.
    """
    spec, scale = registry.experiment(experiment), profiles.current(profile)
    config = registry.config(experiment, arm, scale.name)
    with held(experiment, arm, seed, scale.name, wait) as home:
        state, reason = results.state(experiment, arm, seed, scale.name)
        if fresh or state in results.USABLE:
            _clear(home)
        if state in results.USABLE and not fresh:
            return results.read(experiment, arm, seed, scale.name)
        if state == "unreadable" and not fresh:
            raise LabError(reason)
        device, code = profiles.device(scale), codebase.index().digest
        folder = checkpoints(experiment, arm, seed, scale.name)
        libraries, commit = results.versions(), results.git()

        with files.full_disk_said(folder):
            folder.mkdir(parents=True, exist_ok=True)
            clock = _Clock(folder / CLOCK)

            def report(done: int, total: int, note: str = "") -> None:
                clock.note()
                if progress:
                    progress(done, total, note)

            run = registry.Run(experiment, arm, seed, scale.name, config, folder, device, report)
            returned = spec.run(run)
        rows, history, digests = _checked(experiment, returned)
        origins = {key: value for name in digests for key, value in bases.origin(name).items()}
        result = results.Result(
            experiment,
            arm,
            seed,
            scale.name,
            spec.version,
            config,
            code,
            rows,
            history,
            _device_name(device),
            libraries | digests | origins,
            commit,
            *clock.spent(),
            datetime.now(UTC).isoformat(timespec="seconds"),
        )
        results.write(result)
        _clear(home)
    return result


def _log(job: Job, profile: str) -> Path:
    return cache_dir() / "logs" / f"{profile}.{job.experiment}.{job.arm}.seed{job.seed}.log"


def _sweep(job: Job, profile: str) -> None:
    """Delete checkpoints and log of a run that was stopped between storing its result and deleting them."""
    _log(job, profile).unlink(missing_ok=True)
    home = _home(job.experiment, job.arm, job.seed, profile)
    if any(home.parent.glob(f"{home.name}-*")):
        with suppress(LabError), held(job.experiment, job.arm, job.seed, profile):  # or it is made again
            _clear(home)


class PlainReporter:
    """A line when a run starts, at each quarter, and when it ends; to standard error."""

    begins = "started"  # or what else is done with a run first

    def __init__(self, stream=None):
        self.stream, self.quarter = stream, {}

    def _say(self, text: str) -> None:
        print(text, file=self.stream or sys.stderr, flush=True)

    def start(self, todo: list[Job], kept: int, jobs: int) -> None:
        """Called once, before the first run."""
        total = sum(job.estimate for job in todo)
        longest = max((job.estimate for job in todo), default=0)
        about = f", about {results.duration(max(total / jobs, longest))}, {jobs} at a time" if todo else ""
        self._say(f"{len(todo)} to run, {kept} kept{about}")

    def begin(self, job: Job) -> None:
        """Called when a run starts."""
        self._say(f"{job}: {self.begins}, about {results.duration(job.estimate)}")

    def update(self, job: Job, done: int, total: int, note: str) -> None:
        """Called as a run goes on."""
        quarter = 4 * done // total if total > 0 else 0
        if quarter > self.quarter.get(job, 0) and done < total:
            self._say(f"{job}: {done} of {total} {note}".rstrip())
        self.quarter[job] = quarter

    def end(self, job: Job, outcome: str, seconds: float, error: str) -> None:
        """Called when a run is done or has failed."""
        self._say(f"{job}: {outcome} after {results.duration(seconds)}{': ' if error else ''}{error}")

    def tell(self, text: str) -> None:
        """Called with what else there is to know."""
        self._say(text)

    def stop(self) -> None:
        """Called once, at the end or after Ctrl-C."""


class RichReporter(PlainReporter):
    """A bar per running result and one for all of them."""

    def __init__(self, console):
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        super().__init__()
        self.bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            console=console,
        )
        self.tasks = {}

    def _say(self, text: str) -> None:
        self.bars.console.print(text, highlight=False, markup=False)

    def start(self, todo, kept, jobs):
        """Show the bars, with one for all results."""
        super().start(todo, kept, jobs)
        self.bars.start()
        self.all = self.bars.add_task("all results", total=len(todo), note="")

    def begin(self, job):
        """Add the run's bar."""
        self.tasks[job] = self.bars.add_task(str(job), total=None, note="")

    def update(self, job, done, total, note):
        """Move the run's bar."""
        self.bars.update(self.tasks[job], completed=done, total=total, note=note)

    def end(self, job, outcome, seconds, error):
        """Take the run's bar away and print its line."""
        self.bars.remove_task(self.tasks.pop(job))
        self.bars.advance(self.all)
        super().end(job, outcome, seconds, error)

    def stop(self):
        """Leave the bars as they are."""
        self.bars.stop()


def default_reporter() -> PlainReporter:
    """Bars on a terminal, plain lines otherwise; both on standard error."""
    from rich.console import Console

    console = Console(stderr=True)
    return RichReporter(console) if console.is_terminal else PlainReporter()


def python_path() -> str:
    """$PYTHONPATH of a process that is to find this package first."""
    home = str(Path(__file__).resolve().parents[2])
    return os.pathsep.join(filter(None, [home, os.environ.get("PYTHONPATH")]))


class Child:
    """A running result: its process, the thread that reads its messages, and its log."""

    def __init__(
        self, job: Job, profile: str, fresh: bool, inbox: queue.Queue, command: list[str] | None = None
    ):
        self.job, self.started, self.said = job, time.monotonic(), {}
        self.log = _log(job, profile)
        env = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "MKL_NUM_THREADS": "1",
            "TOKENIZERS_PARALLELISM": "false",
            "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
            "CAUSALNB_PROFILE": profile,
            "PYTHONPATH": python_path(),
        }
        words = [
            *(command or COMMAND),
            job.experiment,
            job.arm,
            str(job.seed),
            profile,
            *(["fresh"] if fresh else []),
        ]
        try:
            self.log.parent.mkdir(parents=True, exist_ok=True)
            with open(self.log, "ab") as log:
                self.process = subprocess.Popen(
                    words,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    encoding="utf-8",
                    env=env,
                    start_new_session=True,
                )
        except OSError as error:
            raise files.disk_error(self.log, error) from error
        threading.Thread(target=self._listen, args=(inbox,), daemon=True).start()

    def _listen(self, inbox: queue.Queue) -> None:
        with self.process.stdin, self.process.stdout:  # type: ignore[union-attr]
            for line in self.process.stdout:  # type: ignore[union-attr]
                try:
                    inbox.put((self, json.loads(line)))
                except ValueError:  # the process was killed while it wrote the line
                    continue
            self.process.wait()
        inbox.put((self, None))

    def seconds(self) -> float:
        """How long it has been running."""
        return time.monotonic() - self.started

    def outcome(self) -> tuple[str, str]:
        """("done" | "failed", error) of the process, which has ended."""
        code = self.process.returncode
        if code == 0:
            self.log.unlink(missing_ok=True)
            return "done", ""
        if code < 0:
            name = signal.Signals(-code).name
            name += " (often: out of memory)" if name == "SIGKILL" else ""
            return "failed", f"it was ended by {name}: the same command resumes from its last checkpoint."
        error = self.said.get("error", f"it ended with exit code {code}")
        return "failed", f"{error} (see {shown(self.log)})" if self.said.get("unexpected", True) else error

    def ask(self) -> None:
        """Ask the process to stop, without waiting for it."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGTERM)

    def end(self, grace: float = GRACE_SECONDS) -> None:
        """Stop the process and whatever it started; its checkpoints stay."""
        for sign, patience in ((signal.SIGTERM, grace), (signal.SIGKILL, None)):
            try:
                os.killpg(self.process.pid, sign)
                self.process.wait(patience)
                return
            except ProcessLookupError:
                return
            except subprocess.TimeoutExpired:
                continue


class Here:
    """The engine that makes results in processes of this machine; `lab.cluster` has another one."""

    begins = "started"

    def at_a_time(self, scale: profiles.Profile, waiting: int) -> int:
        """How many of those that wait are made at a time, where nobody says."""
        return scale.jobs

    def check(self, scale: profiles.Profile) -> None:
        """LabError where a result of this profile cannot be made here."""
        profiles.device(scale)

    def start(self, job: Job, profile: str, fresh: bool, inbox: queue.Queue):
        """Begin a job, which then tells `inbox` of itself: (it, message), and (it, None) at its end."""
        return Child(job, profile, fresh, inbox)

    def stop(self, running: Iterable) -> str:
        """End those that run, whose checkpoints stay; a sentence on what may still go on."""
        until = time.monotonic() + GRACE_SECONDS
        for child in (asked := [*running]):
            child.ask()
        for child in asked:
            child.end(max(0.0, until - time.monotonic()))
        return ""


def heard(inbox: queue.Queue, until: float = math.inf) -> tuple:
    """The next (child, message), (None, None) at `until`; a signal ends the wait, also another thread's."""
    while (left := until - time.monotonic()) > 0:
        with suppress(queue.Empty):
            return inbox.get(timeout=min(WAKE_SECONDS, left))
    return None, None


def run(
    ids: Iterable[str],
    profile: str | None = None,
    seeds: int | Iterable[int] | None = None,
    jobs: int | None = None,
    fresh: bool = False,
    reporter: PlainReporter | None = None,
    part: Shard | None = None,
    engine=None,
    minutes: float | None = None,
) -> list[dict]:
    """Make the results of `ids`, `jobs` at a time, cheapest first; a failing one does not stop the others.

    Fresh and unverified results are kept unless `fresh`; `part`: of one part of the plan alone; `engine`:
    Here(), or what has its methods. Returns a dict per result: experiment, arm, seed, outcome ("done" |
    "kept" | "failed" | "left"), seconds, error. Ctrl-C stops all of them; the next call resumes. So does the
    time when `minutes` are over: what is not done then is left.
    """
    limit = 60 * (math.inf if minutes is None else minutes)
    until = time.monotonic() + limit
    scale, engine = profiles.current(profile), engine or Here()
    if jobs is not None and jobs < 1:
        raise LabError(f"jobs={jobs} runs nothing: give at least 1.")
    if minutes is not None and not 0 < minutes < math.inf:
        raise LabError(f"minutes={minutes} runs nothing, or has no end: give a number above 0.")
    if minutes is not None and fresh:
        raise LabError("fresh within minutes begins anew at every call: leave one of them out.")
    if minutes is not None and not isinstance(engine, Here):
        raise LabError(
            "minutes are for runs on this machine: leave them out where a cluster has time limits of its own."
        )
    planned = part_of(plan(ids, scale.name, seeds), part, scale.name)
    broken = unreadable(planned, scale.name) if not fresh else {}
    waiting = sorted(
        (job for job in planned if fresh or job.state not in (*results.USABLE, "unreadable")),
        key=lambda job: -job.estimate,
    )
    jobs = jobs or max(1, engine.at_a_time(scale, len(waiting)))
    if waiting:
        engine.check(scale)
    said = {job: ("failed", 0.0, broken[job]) if job in broken else ("kept", 0.0, "") for job in planned}
    reporter, inbox, running = reporter or default_reporter(), queue.Queue(), {}
    reporter.begins = engine.begins
    for job in set(planned).difference(waiting, broken):
        _sweep(job, scale.name)
    reporter.start(waiting, len(planned) - len(waiting) - len(broken), min(jobs, max(1, len(waiting))))
    try:
        for job in broken:
            reporter.begin(job)
            reporter.end(job, *said[job])
        while waiting or running:
            while waiting and len(running) < jobs and time.monotonic() < until:
                job = waiting.pop()
                reporter.begin(job)
                before = {} if minutes is None else _reached(job, scale.name)
                running[engine.start(job, scale.name, fresh, inbox)] = before
            child, message = heard(inbox, until)
            if child is None:
                reporter.tell("time is up: what runs is stopped, and its checkpoints are kept")
                break
            if message is None:
                del running[child]
                outcome, error = child.outcome()
                said[child.job] = outcome, child.seconds(), error
                reporter.end(child.job, *said[child.job])
            elif "progress" in message:
                reporter.update(child.job, *message["progress"])
            else:
                child.said = message
    finally:
        if left := engine.stop(running):
            reporter.tell(left)
        reporter.stop()
    for child, before in running.items():
        done = child.outcome()[0] == "done"
        said[child.job] = "done" if done else "left", child.seconds(), ""
        no_further = _reached(child.job, scale.name) == before
        if not done and no_further and child.seconds() > MOST_OF_IT * limit:
            reporter.tell(f"{child.job} came to no checkpoint in its time: give it more minutes")
    said |= {job: ("left", 0.0, "") for job in waiting}
    return [
        {
            "experiment": job.experiment,
            "arm": job.arm,
            "seed": job.seed,
            "outcome": outcome,
            "seconds": seconds,
            "error": error,
        }
        for job, (outcome, seconds, error) in said.items()
    ]


def _die_with_parent() -> None:
    sys.stdin.read()
    os._exit(1)


def _flush_log() -> None:
    """Write what was printed; on a full disk it is lost, and the exit code still says how the run ended."""
    for stream, number in ((sys.stdout, 1), (sys.stderr, 2)):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), number)


def main(words: list[str]) -> int:
    """The child: makes one result and tells its parent in json lines; all else printed goes to the log."""
    experiment, arm, seed, profile, *fresh = words
    channel = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
    os.dup2(2, 1)
    threading.Thread(target=_die_with_parent, daemon=True).start()
    last = 0.0

    def progress(done: int, total: int, note: str) -> None:
        nonlocal last
        if time.monotonic() - last > 0.1 or done == total:
            last = time.monotonic()
            print(json.dumps({"progress": [int(done), int(total), str(note)]}), file=channel)

    try:
        execute(experiment, arm, int(seed), profile, progress, bool(fresh), wait=1.0)
        if profile == probes.PROFILE:
            with files.full_disk_said(probes.path(experiment, arm)):
                probes.ensure(experiment, arm)
        return 0
    except Exception as error:
        known = isinstance(error, (CausalnbError, ValueError))
        print(json.dumps({"error": sentence(error), "unexpected": not known}), file=channel)
        with suppress(OSError):  # the log may be on the disk that is full
            traceback.print_exc()
        return 1
    finally:
        _flush_log()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
