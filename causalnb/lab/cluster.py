"""The jobs of a run as jobs of a SLURM cluster, or of its stand-in on this machine, through submitit."""

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
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from causalnb.errors import LabError, sentence
from causalnb.lab import files, probes, profiles, records, registry, results, runner
from causalnb.paths import cache_dir, shown

KINDS = {"submitit": "slurm", "submitit-local": "local"}  # what submitit calls them
OPTION = re.compile("(?:--)?([a-z][a-z0-9_-]*)=(.+)")
SAID, SENT = "said.json", "sent.json"  # how far a job is, and what was submitted
SAID_SECONDS = 5.0  # between two words of a job that runs
LEAST_MINUTES, MARGIN = 60, 4  # a job may take that long, or that many times what is expected
POLL_SECONDS = {"slurm": 2.0, "local": 0.2}
GRACE_SECONDS = {"slurm": 30.0, "local": 1.0}  # until what a job wrote is seen here
STOP_SECONDS = 3.5
ENDED = {"", "UNKNOWN"}  # states of jobs that nobody knows any more


def sbatch_options(lines: Iterable[str]) -> dict[str, str]:
    """{option of sbatch: value} of lines such as "partition=gpu"; LabError for what is no such line."""
    found = {}
    for line in lines:
        match = OPTION.fullmatch(line) if line.isprintable() else None
        if not match:
            raise LabError(f"--slurm is {line!r}: give an option of sbatch as KEY=VALUE, say partition=gpu.")
        found[match[1].replace("-", "_")] = match[2]
    if "time" in found and not re.fullmatch("[1-9][0-9]{0,6}", found["time"]):
        raise LabError(f"--slurm time is {found['time']!r}: give it in minutes, say time=240.")
    return found


class Work:
    """What a submitted job does, wherever it runs: the runner's child, and a file that says how far it is.

    At its time limit, or when it is preempted, it goes back into the queue and resumes from its last
    checkpoint; not where it was asked to begin afresh. `local`: SIGTERM ends it, which on a cluster may
    announce a preemption.
    """

    def __init__(
        self, job: runner.Job, profile: str, fresh: bool, command: list[str], folder: Path, local: bool
    ):
        self.job, self.profile, self.fresh = job, profile, fresh
        self.command, self.folder, self.local = command, folder, local

    def _say(self, **said) -> None:
        files.write_atomic(self.folder / SAID, json.dumps(said).encode())

    def __call__(self) -> None:
        """Make the result."""
        if self.local:
            signal.signal(signal.SIGTERM, _end)
        inbox, last = queue.Queue(), -math.inf
        child = runner.Child(self.job, self.profile, self.fresh, inbox, self.command)
        try:
            while (message := runner.heard(inbox)[1]) is not None:
                if "progress" not in message:
                    child.said = message
                elif time.monotonic() - last > SAID_SECONDS:
                    last = time.monotonic()
                    self._say(**message)
            outcome, error = child.outcome()
            self._say(outcome=outcome, error=error, seconds=child.seconds())
        except BaseException:  # also what submitit raises at the time limit
            child.end()
            raise
        if error:  # so that the cluster, too, calls it failed
            raise LabError(error)

    def checkpoint(self):
        """What submitit puts back into the queue; None: nothing."""
        from submitit.core.utils import DelayedSubmission

        return None if self.fresh else DelayedSubmission(self)


def _end(number: int, _) -> None:
    signal.signal(number, signal.SIG_IGN)
    sys.exit(1)


class Sent:
    """A job that was submitted, seen from here."""

    def __init__(
        self, job: runner.Job, profile: str, fresh: bool, folder: Path, inbox: queue.Queue, grace: float
    ):
        self.job, self.profile, self.fresh, self.folder = job, profile, fresh, folder
        self.inbox, self.grace, self.started, self.said = inbox, grace, time.monotonic(), {}
        self.sent: Any = None  # submitit's job
        self.over_since: float | None = None
        self.trouble = ""

    def _heard(self) -> dict:
        try:
            return records.parsed((self.folder / SAID).read_bytes())
        except (OSError, ValueError):
            return {}

    def _stored(self) -> bool:
        return results.state(*self.job[:3], self.profile)[0] in results.USABLE

    def _made(self) -> bool:
        """Whether its result is there; one that is made afresh is when the job says so."""
        return self._stored() and (not self.fresh or self.said.get("outcome") == "done")

    def refused(self, why: str) -> None:
        """It could not be submitted."""
        self.trouble = why
        self.inbox.put((self, None))

    def look(self) -> bool:
        """Pass on how far the job is; whether it is over, and what it wrote is here or should be."""
        before, self.said = self.said.get("progress"), self._heard()
        if self.said.get("progress") not in (None, before):
            self.inbox.put((self, {"progress": self.said["progress"]}))
        if not self.sent.done():
            return False
        self.over_since = self.over_since or time.monotonic()
        self.said = self._heard()
        complete = self.said.get("outcome") == "failed" or self._made()
        return complete or time.monotonic() - self.over_since > self.grace

    def seconds(self) -> float:
        """How long the job ran, or, where it did not say, how long it was waited for."""
        return self.said.get("seconds", time.monotonic() - self.started)

    def outcome(self) -> tuple[str, str]:
        """("done" | "failed", error) of a job that is over; what a failed one leaves is kept."""
        if self.said.get("outcome") == "failed":
            return "failed", self.said["error"]
        if self.trouble:
            return "failed", self.trouble
        if "outcome" not in self.said and not self._made():
            return "failed", (
                f"job {self.sent.job_id} ended without a word ({self.sent.state}): see "
                f"{shown(self.sent.paths.stderr)}; the same command resumes from its last checkpoint."
            )
        state, reason = results.state(*self.job[:3], self.profile)
        if state == "missing":
            place = shown(results.path(*self.job[:3], self.profile))
            return "failed", (
                f"it is done, and {place} is not here: let $CAUSALNB_RESULTS be a folder that all machines "
                "share, or bring the result in with `causalnb merge`."
            )
        if state not in results.USABLE:
            return "failed", f"it is done, and its result is {state}: {reason}"
        shutil.rmtree(self.folder, ignore_errors=True)
        return "done", ""


class Cluster:
    """An engine for `runner.run`: each job becomes one of the cluster's, all of them at once.

    `kind`: "submitit", a SLURM cluster, or "submitit-local", processes of this machine behind the same
    calls. What is written lies in `folder`, which all machines of the cluster must see, as they must see the
    checkout and its data. `options`: of sbatch, "KEY=VALUE". LabError where it cannot be used.
    """

    begins = "submitted"

    def __init__(self, kind: str, folder: Path | None = None, options: Iterable[str] = ()):
        if kind not in KINDS:
            raise LabError(f"there is no executor {kind!r}: use one of here, {', '.join(KINDS)}.")
        self.cluster, self.options = KINDS[kind], sbatch_options(options)
        if self.options and self.cluster == "local":
            raise LabError(f"{kind} runs on this machine, where --slurm means nothing: use submitit.")
        if not records.installed("submitit"):
            raise LabError(
                f"--executor {kind} needs the package submitit: run "
                "`pip install -c constraints.txt -e '.[cluster]'`."
            )
        if self.cluster == "slurm" and not shutil.which("sbatch"):
            raise LabError(
                f"--executor {kind} finds no sbatch here: call it on the cluster, or use submitit-local."
            )
        self.folder = (folder or cache_dir() / "submitit").absolute()
        if "%" in str(self.folder):
            raise LabError(f"the executor's folder is {str(self.folder)!r}: give one without %.")
        self.active: list[Sent] = []
        self._ended = threading.Event()
        self._watcher: threading.Thread | None = None

    def at_a_time(self, scale: profiles.Profile, waiting: int) -> int:
        """All on a cluster, which has a queue of its own."""
        return waiting if self.cluster == "slurm" else scale.jobs

    def check(self, scale: profiles.Profile) -> None:
        """LabError where a result cannot be made: on this machine, if it is made here."""
        if self.cluster == "local":
            profiles.device(scale)
        try:
            self.folder.mkdir(0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise files.disk_error(self.folder, error) from error

    def start(self, job: runner.Job, profile: str, fresh: bool, inbox: queue.Queue) -> Sent:
        """Submit a job, or find the one again that an earlier command submitted for the same."""
        folder = self.folder / f"{profile}.{job.experiment}.{job.arm}.seed{job.seed}"
        asked = _asked(job, profile, fresh)
        sent = Sent(job, profile, fresh, folder, inbox, GRACE_SECONDS[self.cluster])
        with files.uninterrupted():  # so that nothing is submitted that `stop` does not know
            try:
                sent.sent = self._again(folder, asked) or self._submit(job, profile, fresh, folder, asked)
            except LabError as error:
                sent.refused(str(error))
                return sent
            except (OSError, RuntimeError, ValueError) as error:
                sent.refused(
                    f"it could not be submitted ({sentence(error)}): correct --slurm, or give --jobs, which "
                    "bounds how many are submitted at a time."
                )
                return sent
            self.active.append(sent)
        if self._watcher is None:
            self._watcher = threading.Thread(target=self._watch, daemon=True)
            self._watcher.start()
        return sent

    def _again(self, folder: Path, asked: str):
        """The job that was submitted for the same and is still in the queue or runs, if there is one.

        LabError where that job was asked for something else.
        """
        if self.cluster != "slurm":  # a stand-in's jobs are known to the process alone that began them
            return None
        try:
            kept = records.parsed((folder / SENT).read_bytes())
        except (OSError, ValueError):
            return None
        if not re.fullmatch("[0-9]{1,18}", id := str(kept.get("id"))):
            return None
        from submitit import SlurmJob

        job = SlurmJob(folder, id)
        if job.state.upper() in ENDED or job.done():
            return None
        if kept.get("asked") != asked:
            raise LabError(
                f"job {id} is about to make this result with other settings or code, or not afresh: wait for "
                f"it, or scancel {id}."
            )
        return job

    def _submit(self, job: runner.Job, profile: str, fresh: bool, folder: Path, asked: str):
        from submitit import AutoExecutor

        shutil.rmtree(folder, ignore_errors=True)  # of a job that is over
        minutes = int(self.options.get("time", max(LEAST_MINUTES, math.ceil(MARGIN * job.estimate / 60))))
        on_gpu = profiles.wanted_device(profile) == "cuda"
        chosen = any(word in name for name in self.options for word in ("gpu", "gres"))
        work = Work(job, profile, fresh, [*runner.COMMAND], folder, self.cluster == "local")
        executor = AutoExecutor(folder, cluster=self.cluster)
        executor.update_parameters(
            name=f"causalnb {job}".replace(" ", "-"),
            timeout_min=minutes,
            gpus_per_node=1 if on_gpu and not chosen else None,
            slurm_additional_parameters=self.options or None,
        )
        with _prepared():
            sent = executor.submit(work)
        record = {"id": sent.job_id, "asked": asked}
        files.write_atomic(folder / SENT, json.dumps(record).encode())
        return sent

    def _watch(self) -> None:
        """Look at all jobs from time to time, and tell the run of each that is over."""
        while not self._ended.wait(POLL_SECONDS[self.cluster]):
            for sent in [*self.active]:
                try:
                    over = sent.look()
                except Exception as error:  # a run must not wait for ever for want of this thread
                    over, sent.trouble = True, sentence(error)
                if over:
                    with suppress(ValueError):
                        self.active.remove(sent)
                    sent.inbox.put((sent, None))

    def stop(self, running: Iterable) -> str:
        """Cancel what was submitted and is not over; checkpoints stay. A sentence on what may go on."""
        self._ended.set()
        left = [*self.active]
        for sent in left:
            (sent.folder / SENT).unlink(missing_ok=True)
        ids = [sent.sent.job_id for sent in left]
        if not left:
            return ""
        if self.cluster == "slurm":
            try:
                subprocess.Popen(["scancel", *ids], stdout=subprocess.DEVNULL).wait(STOP_SECONDS)
            except (OSError, subprocess.TimeoutExpired) as error:
                return f"submitted jobs may go on ({sentence(error)}): scancel {' '.join(ids)}"
            return ""
        end = time.monotonic() + STOP_SECONDS
        while going := [sent.sent.job_id for sent in left if not sent.sent.done()]:
            if time.monotonic() > end:
                return f"submitted jobs may go on: kill {' '.join(going)}"
            for id in going:  # again, since one that has just begun does not listen yet
                os.kill(int(id), signal.SIGTERM)
            time.sleep(0.1)
        return ""


def _asked(job: runner.Job, profile: str, fresh: bool) -> str:
    """What tells a job that makes the same result in the same way from others."""
    spec, config = registry.experiment(job.experiment), registry.config(job.experiment, job.arm, profile)
    code = probes.running(job.experiment, job.arm)
    return records.short(records.canonical([*job[:3], profile, fresh, spec.version, config, code]))


@contextmanager
def _prepared() -> Iterator[None]:
    """Within, a process that is started finds this package, and a terminal's Ctrl-C does not reach it."""
    before, os.environ["PYTHONPATH"] = os.environ.get("PYTHONPATH"), runner.python_path()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before
