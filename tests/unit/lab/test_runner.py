"""Runs in their own processes: done, kept, failed, interrupted, killed and resumed."""

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from causalnb import paths
from causalnb.errors import LabError
from causalnb.lab import registry, results, runner


class Told(runner.PlainReporter):
    """Keeps what it is told; `at` is called with the job at every progress message."""

    def __init__(self, at=lambda job: None):
        super().__init__(io.StringIO())
        self.at, self.begun = at, []

    def begin(self, job):
        self.begun.append((job.experiment, job.arm, job.seed))
        super().begin(job)

    def update(self, job, done, total, note):
        super().update(job, done, total, note)
        self.at(job)

    @property
    def text(self):
        return self.stream.getvalue()


def outcomes(summary):
    return {(one["experiment"], one["arm"], one["seed"]): (one["outcome"], one["error"]) for one in summary}


def test_done_kept_and_failed(lab):
    runner.execute("toy.sum", "one", 0)
    told = Told()
    summary = runner.run(["toy.sum", "toy.bad", "toy.worse", "toy.gone", "toy.full"], "laptop", reporter=told)
    found = outcomes(summary)
    assert found.pop(("toy.sum", "one", 0)) == ("kept", "")
    assert all(
        found.pop(("toy.sum", arm, seed)) == ("done", "")
        for arm, seed in (("one", 1), ("two", 0), ("two", 1))
    )
    assert found.pop(("toy.bad", "it", 0)) == ("failed", "this arm is bad: use another")
    outcome, error = found.pop(("toy.worse", "it", 0))
    log = lab.folder / "cache" / "logs" / "laptop.toy.worse.it.seed0.log"
    assert (outcome, error) == ("failed", f"KeyError: 'key' (see {log.relative_to(lab.folder)})")
    assert "Traceback" in log.read_text(encoding="utf-8") and "a library prints this" in log.read_text(
        encoding="utf-8"
    )
    assert found.pop(("toy.gone", "it", 0))[1].startswith("it ended with exit code 9 (see cache/logs/")
    full = found.pop(("toy.full", "it", 0))[1]
    assert (
        "could not be written because the disk is full: free some space and run the same command again"
        in full
    )
    assert not found and results.state("toy.sum", "two", 1)[0] == "fresh"
    assert not log.with_name("laptop.toy.sum.two.seed0.log").exists()
    assert told.text.startswith("7 to run, 1 kept, about 2 s, 2 at a time\n")
    assert re.search(r"\ntoy.bad it seed 0: failed after \d+ s: this arm is bad: use another\n", told.text)
    again = runner.run(["toy.sum"], reporter=Told())
    assert {one["outcome"] for one in again} == {"kept"}
    assert {tuple(one) for one in again} == {("experiment", "arm", "seed", "outcome", "seconds", "error")}


def test_cheapest_first_and_fresh(lab):
    registry.register(replace(registry.experiment("toy.bad"), cost={"laptop": 9}))
    told = Told()
    runner.run(["toy.bad", "toy.sum"], seeds=1, jobs=1, reporter=told)
    assert [begun[0] for begun in told.begun] == ["toy.sum", "toy.sum", "toy.bad"]
    before = results.read("toy.sum", "one", 0)
    folder = results.path("toy.sum", "one", 0)
    stamp = folder.stat().st_mtime_ns
    assert outcomes(runner.run(["toy.sum"], seeds=[0], fresh=True, reporter=Told()))[
        ("toy.sum", "one", 0)
    ] == ("done", "")
    assert folder.stat().st_mtime_ns > stamp and results.read("toy.sum", "one", 0).rows == before.rows


def test_one_thread_a_child(lab, monkeypatch):
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "TOKENIZERS_PARALLELISM", "CAUSALNB_PROFILE")
    for name in names:
        monkeypatch.setenv(name, "7")
    tell = f"raise ValueError(*[' '.join(os.environ[name] for name in {names})])"
    lab.module.write_text(
        lab.module.read_text(encoding="utf-8").replace('exec(run.config["fault"])', tell), encoding="utf-8"
    )
    (summary,) = runner.run(["toy.bad"], "laptop", reporter=Told())
    assert summary["error"] == "1 1 false laptop"


def stop(job):
    raise KeyboardInterrupt


def kill_slow(lab, job):
    if job.experiment == "toy.slow":
        (pid,) = lab.folder.glob("cache/runs/laptop/toy.slow/it/seed0-*/pid")
        os.kill(int(pid.read_text(encoding="utf-8")), signal.SIGKILL)


def test_an_interrupt_keeps_the_checkpoint_and_the_next_call_resumes(lab):
    with pytest.raises(KeyboardInterrupt):
        runner.run(["toy.slow"], reporter=Told(stop))
    with results.lock("toy.slow", "it", 0):
        pass
    (mark,) = lab.folder.glob("cache/runs/laptop/toy.slow/it/seed0-*/step")
    assert (
        0 < int(mark.read_text(encoding="utf-8").split()[0]) < 40
        and results.state("toy.slow", "it", 0)[0] == "missing"
    )
    told = Told()
    (summary,) = runner.run(["toy.slow"], reporter=told)
    resumed = results.read("toy.slow", "it", 0)
    total = 0.0
    for _ in range(40):
        total += 1 / 3
    assert summary["outcome"] == "done" and resumed.rows == [["", "total", total], ["", "resumed", 1.0]]
    assert not list(lab.folder.glob("cache/runs/laptop/toy.slow/it/*")) and " of 40 on its way" in told.text


@pytest.mark.parametrize("thread", [signal.raise_signal, lambda number: os.kill(os.getpid(), number)])
def test_ctrl_c_ends_a_wait_whichever_thread_takes_it(interruptible, thread):
    """The signal of a thread is its own: a main thread that waits for a lock does not wake of it."""
    inbox, began = runner.queue.Queue(), time.monotonic()
    timers = [threading.Timer(0.1, thread, [signal.SIGINT]), threading.Timer(20, inbox.put, [("late", None)])]
    for timer in timers:
        timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            runner.heard(inbox)
    finally:
        timers[1].cancel()
    assert time.monotonic() - began < 10


def test_a_killed_child_is_told_and_the_others_go_on(lab):
    told = Told(lambda job: kill_slow(lab, job))
    summary = outcomes(runner.run(["toy.slow", "toy.sum"], seeds=1, reporter=told))
    outcome, error = summary.pop(("toy.slow", "it", 0))
    assert outcome == "failed" and error.startswith(
        "it was ended by SIGKILL (often: out of memory): the same command"
    )
    assert set(summary.values()) == {("done", "")}
    assert list(lab.folder.glob("cache/runs/laptop/toy.slow/it/seed0-*/step"))


def test_children_end_with_their_parent(lab):
    code = (
        f"import sys\nsys.path.insert(0, {str(lab.folder)!r})\nimport toylab\n"
        "from causalnb.lab import registry, runner\n"
        f"registry.load_all = lambda: None\nrunner.COMMAND = [sys.executable, {str(lab.child)!r}]\n"
        "class Told(runner.PlainReporter):\n    def update(self, *_):\n        print('running', flush=True)\n"
        "runner.run(['toy.endless'], reporter=Told())"
    )
    home = str(Path(paths.__file__).parents[1])
    parent = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        encoding="utf-8",
        env={**os.environ, "PYTHONPATH": home},
    )
    assert parent.stdout.readline() == "running\n"
    with pytest.raises(
        LabError, match="another run is writing toy.endless it seed 0: wait for it or stop it"
    ):
        runner.execute("toy.endless", "it", 0)
    (twin,) = runner.run(["toy.endless"], reporter=Told())
    assert twin["error"] == "another run is writing toy.endless it seed 0: wait for it or stop it."
    parent.kill()
    parent.communicate()
    with results.lock("toy.endless", "it", 0, wait=5):
        assert results.state("toy.endless", "it", 0)[0] == "missing"


@pytest.mark.parametrize("other", ["CACHE", "RESULTS", None])
def test_a_run_is_one_for_its_result_and_one_for_its_checkpoints(lab, monkeypatch, other):
    spec = registry.experiment("toy.sum")

    def go(run):
        with monkeypatch.context() as patch:
            if other:
                patch.setenv(f"CAUSALNB_{other}", str(lab.folder / "elsewhere"))
            else:  # as `make clean` does
                shutil.rmtree(lab.folder / "cache")
            with pytest.raises(LabError, match="another run is writing toy.sum one seed 0: wait for it or"):
                runner.execute("toy.sum", "one", 0)
        return {"metrics": {}}

    registry._experiments["toy.sum"] = replace(spec, run=go)
    assert runner.execute("toy.sum", "one", 0).rows == []
    assert not [*lab.folder.rglob("*.lock")]


def left_behind(lab, monkeypatch, seed):
    """A run that is stopped between storing its result and deleting its checkpoints."""
    with monkeypatch.context() as patch:
        patch.setattr(runner, "_clear", stop)
        with pytest.raises(KeyboardInterrupt):
            runner.execute("toy.sum", "one", seed)
    (left,) = lab.folder.glob(f"cache/runs/laptop/toy.sum/one/seed{seed}-*")
    assert results.state("toy.sum", "one", seed)[0] == "fresh"
    return left


def test_checkpoints_of_a_stored_result_go(lab, monkeypatch):
    left, other = (left_behind(lab, monkeypatch, seed) for seed in (0, 1))
    runner.execute("toy.sum", "one", 0)
    assert not left.exists() and other.exists()
    with runner.held("toy.sum", "one", 1, "laptop"):  # whoever makes it again is not disturbed
        runner.run(["toy.sum"], reporter=Told())
        assert other.exists()
    runner.run(["toy.sum"], reporter=Told())
    assert not other.exists() and results.state("toy.sum", "one", 1)[0] == "fresh"


def test_the_log_of_a_stored_result_goes(lab):
    """As it stays where the parent is killed and the child has stored its result."""
    runner.execute("toy.sum", "one", 0)
    log, other = (lab.folder / f"cache/logs/laptop.toy.sum.one.seed{seed}.log" for seed in (0, 9))
    log.parent.mkdir(parents=True, exist_ok=True)
    for file in (log, other):
        file.touch()
    runner.run(["toy.sum"], reporter=Told())
    assert not log.exists() and other.exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is full")
def test_a_full_disk_is_said_though_the_log_cannot_be_written(lab, monkeypatch):
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    lab.module.write_text(
        lab.module.read_text(encoding="utf-8").replace("{}['key']", "print('a library prints this')"),
        encoding="utf-8",
    )
    logs = lab.folder / "cache" / "logs"
    logs.mkdir(parents=True)
    for name in ("full", "worse"):
        (logs / f"laptop.toy.{name}.it.seed0.log").symlink_to("/dev/full")
    found = outcomes(runner.run(["toy.full", "toy.worse"], reporter=Told()))
    outcome, error = found["toy.full", "it", 0]
    assert outcome == "failed" and re.fullmatch(
        r"cache/runs/laptop/toy.full/it/seed0-\S+ could not be written because the disk is full: free some "
        r"space and run the same command again; what was there before is untouched\.",
        error,
    )
    assert found["toy.worse", "it", 0] == ("done", "")  # it only printed


def test_a_child_that_does_not_listen_is_killed(lab):
    lab.child.write_text(
        "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        'print(\'{"progress": [1, 2, ""]}\', flush=True)\ntime.sleep(60)\n',
        encoding="utf-8",
    )
    child = runner.Child(runner.plan(["toy.slow"])[0], "laptop", False, inbox := runner.queue.Queue())
    assert inbox.get()[1] == {"progress": [1, 2, ""]}
    child.end(grace=0.1)
    assert inbox.get()[1] is None and child.outcome()[1].startswith("it was ended by SIGKILL")
    child.end()


def test_noise_in_the_messages_stops_nothing(lab):
    lab.child.write_text("print('{\"progress\": [1, 2')", encoding="utf-8")
    (summary,) = runner.run(["toy.bad"], reporter=Told())
    assert summary["outcome"] == "done"


def test_a_log_that_cannot_be_written_is_said(lab):
    (lab.folder / "cache").mkdir()
    (lab.folder / "cache" / "logs").touch()
    with pytest.raises(LabError, match="could not be written"):
        runner.run(["toy.bad"], reporter=Told())


def test_run_refuses(lab, monkeypatch):
    with pytest.raises(LabError, match="jobs=0 runs nothing"):
        runner.run(["toy.sum"], jobs=0)
    with pytest.raises(LabError, match="no experiment, artefact or source 'nothing'"):
        runner.run(["nothing"])
    monkeypatch.setitem(
        sys.modules, "torch", SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: False))
    )
    with pytest.raises(LabError, match="no GPU for the gpu profile"):
        runner.run(["toy.sum"], "gpu", reporter=Told())
    assert not (lab.folder / "cache").exists()


def test_execute_on_a_gpu_names_it(lab, monkeypatch):
    cuda = SimpleNamespace(is_available=lambda: True, get_device_name=lambda index: "Toy 3000")
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    assert runner.execute("toy.sum", "one", 0, "gpu").device == "cuda:Toy 3000"


@pytest.mark.parametrize(
    "returned",
    [
        None,
        {},
        {"metrics": 1},
        {"metrics": {"total": 1.0}},
        {"metrics": {"": {"total": 1.0}, "test": [["total", 1.0]]}},
        {"metrics": {}, "more": 1},
        {"metrics": {}, "history": {}},
        {"metrics": {}, "history": [1]},
    ],
)
def test_what_is_no_result_is_refused(lab, returned):
    registry._experiments["toy.sum"] = replace(registry.experiment("toy.sum"), run=lambda run: returned)
    with pytest.raises(LabError, match='toy.sum returned no result: return {"metrics"'):
        runner.execute("toy.sum", "one", 0)
    assert not results.path("toy.sum", "one", 0).exists()


def test_other_errors_pass_through(lab):
    with pytest.raises(KeyError):
        runner.execute("toy.worse", "it", 0)
    registry._experiments["toy.sum"] = replace(
        registry.experiment("toy.sum"), run=lambda run: open("/nowhere/x", encoding="utf-8")
    )
    with pytest.raises(LabError, match="the disk is full"):
        runner.execute("toy.full", "it", 0)
    with pytest.raises(FileNotFoundError):
        runner.execute("toy.sum", "one", 0)


def test_checkpoints_of_other_code_are_not_resumed(lab):
    spec = registry.experiment("toy.sum")
    seen = []

    def go(run):
        seen.append(
            (run.folder, list(run.folder.iterdir()), run.seed, run.config["steps"], run.device, run.profile)
        )
        (run.folder / "mark").touch()
        raise ValueError("stop")

    for settings in (spec.settings, spec.settings, {"laptop": {**spec.settings["laptop"], "steps": 5}}):
        registry._experiments["toy.sum"] = replace(spec, run=go, settings=settings)
        with pytest.raises(ValueError, match="stop"):
            runner.execute("toy.sum", "one", 1)
    first, again, other = seen
    assert (
        first[0] == again[0] != other[0]
        and not first[1]
        and [p.name for p in again[1]] == ["mark"]
        and not other[1]
    )
    assert again[2:] == (1, 4, "cpu", "laptop")
    registry._experiments["toy.sum"] = replace(spec, run=go)
    with pytest.raises(ValueError):
        runner.execute("toy.sum", "one", 1, fresh=True)
    assert seen[-1][0] == first[0] and not seen[-1][1] and not other[0].exists()


def test_time_of_interrupted_attempts_counts(lab, monkeypatch):
    monkeypatch.setattr(runner, "CLOCK_SECONDS", 0.0)
    spec = registry.experiment("toy.sum")

    def go(run):
        run.progress(1, 2, "")
        if not (run.folder / "mark").exists():
            (run.folder / "mark").touch()
            (run.folder / "seconds.json").write_text("[100, 50]", encoding="utf-8")
            raise ValueError("stop")
        assert json.loads((run.folder / "seconds.json").read_text(encoding="utf-8"))[0] > 100
        return {"metrics": {}}

    registry._experiments["toy.sum"] = replace(spec, run=go)
    with pytest.raises(ValueError):
        runner.execute("toy.sum", "one", 0)
    result = runner.execute("toy.sum", "one", 0)
    assert 100 < result.wall_seconds < 110 and 50 < result.cpu_seconds < 60 and result.history == []


def child(lab, monkeypatch, capfd, *words):
    monkeypatch.setattr(runner, "_die_with_parent", lambda: None)
    monkeypatch.setattr(os, "dup2", lambda *_: None)
    code = runner.main(list(words))
    return code, [json.loads(line) for line in capfd.readouterr().out.splitlines() if line.startswith("{")]


def test_the_words_of_a_child(lab, monkeypatch, capfd):
    code, said = child(lab, monkeypatch, capfd, "toy.sum", "one", "0", "laptop")
    assert (
        code == 0
        and said[0] == {"progress": [1, 4, "on its way"]}
        and said[-1] == {"progress": [4, 4, "on its way"]}
    )
    assert child(lab, monkeypatch, capfd, "toy.sum", "one", "0", "laptop") == (0, [])
    code, said = child(lab, monkeypatch, capfd, "toy.sum", "one", "0", "laptop", "fresh")
    assert code == 0 and said
    code, said = child(lab, monkeypatch, capfd, "toy.bad", "it", "0", "laptop")
    assert code == 1 and said[-1] == {"error": "this arm is bad: use another", "unexpected": False}
    code, said = child(lab, monkeypatch, capfd, "toy.worse", "it", "0", "laptop")
    assert code == 1 and said[-1] == {"error": "KeyError: 'key'", "unexpected": True}


def test_a_child_dies_when_its_input_ends(monkeypatch):
    ended = []
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    monkeypatch.setattr(os, "_exit", ended.append)
    runner._die_with_parent()
    assert ended == [1]


def test_plain_lines(capsys):
    job = runner.Job("toy.sum", "one", 0, "missing", 100.0)
    plain = runner.PlainReporter()
    plain.start([job, job], 3, 2)
    plain.begin(job)
    for done in range(11):
        plain.update(job, done, 10, "loss 0.1")
    plain.update(job, 1, 0, "")
    plain.end(job, "failed", 3600, "it is bad.")
    plain.stop()
    assert capsys.readouterr().err.splitlines() == [
        "2 to run, 3 kept, about 2 min, 2 at a time",
        "toy.sum one seed 0: started, about 2 min",
        "toy.sum one seed 0: 3 of 10 loss 0.1",
        "toy.sum one seed 0: 5 of 10 loss 0.1",
        "toy.sum one seed 0: 8 of 10 loss 0.1",
        "toy.sum one seed 0: failed after 60 min: it is bad.",
    ]
    plain.start([], 3, 2)
    assert capsys.readouterr().err == "0 to run, 3 kept\n"


def test_bars_on_a_terminal(lab, monkeypatch, capsys):
    from rich.console import Console

    assert type(runner.default_reporter()) is runner.PlainReporter
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert type(runner.default_reporter()) is runner.RichReporter
    out = io.StringIO()
    bars = runner.RichReporter(Console(file=out, force_terminal=True, width=150))
    runner.run(["toy.sum", "toy.bad"], seeds=1, reporter=bars)
    assert "all results" in out.getvalue() and "toy.sum one seed 0" in out.getvalue()
    assert re.search(r"toy.bad it seed 0: failed after \d+ s: this arm is bad: use another", out.getvalue())
    assert bars.bars.finished and not bars.bars.live.is_started


WRONG = ["", "[1]", "[1, 2, 3]", "[null, 1]", "[NaN, 1]", "[1e999, 1]", "[-5, 1]", "[" * 100_000]


@pytest.mark.parametrize("text", WRONG, ids=range(len(WRONG)))
def test_a_damaged_clock_begins_at_zero(tmp_path, text):
    (tmp_path / "seconds.json").write_text(text, encoding="utf-8")
    assert runner._Clock(tmp_path / "seconds.json").before == (0.0, 0.0)
    (tmp_path / "seconds.json").write_bytes(b"\xff")
    assert runner._Clock(tmp_path / "seconds.json").before == (0.0, 0.0)


def test_an_unreadable_result_is_told_and_starts_nothing(lab, monkeypatch):
    for job in runner.plan(["toy.sum"]):
        runner.execute(*job[:3])
    file = results.path("toy.sum", "one", 0)
    file.write_text("{", encoding="utf-8")
    monkeypatch.setattr(runner, "Child", None)
    said = {(job["arm"], job["seed"]): job for job in runner.run(["toy.sum"])}
    assert said["one", 0]["outcome"] == "failed" and "seed0.json is damaged" in said["one", 0]["error"]
    assert {job["outcome"] for at, job in said.items() if at != ("one", 0)} == {"kept"}
    assert file.read_text(encoding="utf-8") == "{"
