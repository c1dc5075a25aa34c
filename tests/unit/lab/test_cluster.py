"""Jobs through submitit: in processes of this machine, and on a SLURM of a few scripts."""

import json
import os
import queue
import signal
import stat
import sys
import textwrap
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from causalnb.errors import LabError
from causalnb.lab import cluster, records, registry, results, runner
from tests.unit.lab.test_runner import Told, outcomes, stop

LOCAL, SLURM = "submitit-local", "submitit"
SCRIPT = '''
    """sbatch, srun, sacct or scancel of a cluster of one machine, which keeps a file per job in a folder."""
    import json, os, pathlib, signal, subprocess, sys

    home, name, words = pathlib.Path(os.environ["TOY_SLURM"]), pathlib.Path(sys.argv[0]).name, sys.argv[1:]

    def kept(id):
        return json.loads((home / id).read_text())

    def keep(id, **job):
        (home / id).write_text(json.dumps(job))

    def alive(pid):
        try:
            os.kill(pid, 0)
            return b") Z" not in pathlib.Path(f"/proc/{pid}/stat").read_bytes()
        except OSError:
            return False

    if name == "sbatch":
        if "partition=full" in pathlib.Path(words[0]).read_text():
            sys.exit("sbatch: error: the partition takes no more")
        id = str(100 + sum(file.name.isdigit() for file in home.iterdir()))
        keep(id, script=words[0], state="PENDING", pid=0)
        if not (home / "hold").exists():
            subprocess.run([str(pathlib.Path(sys.argv[0]).with_name("begin")), id], check=True)
        print(f"Submitted batch job {id}")
    if name == "begin":
        job = kept(words[0])
        env = {**os.environ, "SLURM_JOB_ID": words[0]}
        quiet = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
        with open(job["script"]) as script:
            lines = script.read()
        process = subprocess.Popen(["bash", "-c", lines], env=env, start_new_session=True, **quiet)
        keep(words[0], script=job["script"], state="RUNNING", pid=process.pid)
        os._exit(0)
    if name == "srun":
        files = [open(words[words.index(option) + 1], "a") for option in ("--output", "--error")]
        at = words.index("--error") + 2
        os.dup2(files[0].fileno(), 1)
        os.dup2(files[1].fileno(), 2)
        os.execvp(words[at], words[at:])
    if name == "sacct":
        print("JobID|State|NodeList")
        for id in words[words.index("--parsable2") + 1 :]:
            if id.isdigit() and (home / id).exists():
                job = kept(id)
                over = job["state"] == "RUNNING" and not alive(job["pid"])
                print(f"{id}|{'COMPLETED' if over else job['state']}|here")
    if name == "scancel":
        for id in words:
            job = kept(id)
            if job["pid"]:
                os.killpg(job["pid"], signal.SIGKILL)
            keep(id, script=job["script"], state="CANCELLED by 0", pid=job["pid"])
'''


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    """Nobody waits for a file system that is slow to show what is there."""
    monkeypatch.setattr(cluster, "POLL_SECONDS", {"slurm": 0.1, "local": 0.1})
    monkeypatch.setattr(cluster, "GRACE_SECONDS", {"slurm": 1.0, "local": 0.3})


@pytest.fixture
def slurm(lab, monkeypatch):
    """A cluster of this machine: its folder, and hold(), begin(id), job(id), all() of its jobs."""
    home, bin = lab.folder / "slurm", lab.folder / "bin"
    home.mkdir()
    bin.mkdir()
    for name in ("sbatch", "srun", "sacct", "scancel", "begin"):
        (bin / name).write_text(f"#!{sys.executable}\n{textwrap.dedent(SCRIPT)}", encoding="utf-8")
        (bin / name).chmod(0o700)
    monkeypatch.setenv("TOY_SLURM", str(home))
    monkeypatch.setenv("PATH", str(bin), prepend=os.pathsep)
    from submitit import SlurmJob

    SlurmJob.watcher._registered.clear()
    SlurmJob.watcher.clear()
    yield SimpleNamespace(
        hold=(home / "hold").touch,
        begin=lambda id: runner.subprocess.run([bin / "begin", id], check=True),
        job=lambda id: json.loads((home / id).read_text(encoding="utf-8")),
        all=lambda: sorted(file.name for file in home.iterdir() if file.name.isdigit()),
        bin=bin,
    )
    for file in home.iterdir():
        if file.name.isdigit() and (pid := json.loads(file.read_text(encoding="utf-8"))["pid"]):
            try:
                os.killpg(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue


def slower(lab, nap):
    """Let a step of toy.slow take longer."""
    text = lab.module.read_text(encoding="utf-8").replace('"slow": 0.02', f'"slow": {nap}')
    lab.module.write_text(text, encoding="utf-8")
    spec = registry.experiment("toy.slow")
    registry.register(replace(spec, arms={"it": {"steps": 40, "nap": nap}}))


def rows(experiment, arm="it"):
    return {name: value for _, name, value in results.read(experiment, arm, 0).rows}


def test_jobs_are_done_kept_and_failed_as_they_are_here(lab):
    told = Told()
    engine = cluster.Cluster(LOCAL)
    summary = runner.run(["toy.sum", "toy.bad", "toy.gone"], seeds=1, reporter=told, engine=engine)
    found = outcomes(summary)
    assert found["toy.sum", "one", 0] == found["toy.sum", "two", 0] == ("done", "")
    assert found["toy.bad", "it", 0] == ("failed", "this arm is bad: use another")
    assert found["toy.gone", "it", 0][1].startswith(
        "it ended with exit code 9 (see cache/logs/laptop.toy.gone"
    )
    assert all(0 < job["seconds"] < 60 for job in summary)
    assert "4 to run, 0 kept" in told.text and "toy.sum one seed 0: submitted, about" in told.text
    folder = lab.folder / "cache" / "submitit"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {place.name for place in folder.iterdir()} == {
        "laptop.toy.bad.it.seed0",
        "laptop.toy.gone.it.seed0",
    }
    assert not engine.active
    again = Told()
    runner.run(["toy.sum"], seeds=1, reporter=again, engine=cluster.Cluster(LOCAL))
    assert again.text == "0 to run, 2 kept\n" and again.begun == []


def test_the_same_command_submits_what_is_missing_of_its_part(lab):
    part = runner.Shard(1, 2)
    mine = runner.part_of(runner.plan(["toy.sum"]), part)
    runner.execute(*mine[0][:3])
    told = Told()
    summary = runner.run(["toy.sum"], part=part, reporter=told, engine=cluster.Cluster(LOCAL))
    assert [job["outcome"] for job in summary] == ["kept", "done"]
    assert told.begun == [job[:3] for job in mine[1:]]


def test_ctrl_c_cancels_what_was_submitted_and_the_same_command_resumes(lab, capfd):
    slower(lab, 0.1)
    with pytest.raises(KeyboardInterrupt):
        runner.run(["toy.slow"], reporter=Told(stop), engine=cluster.Cluster(LOCAL))
    assert "Traceback" not in capfd.readouterr().err
    with results.lock("toy.slow", "it", 0, wait=5):  # nobody makes it any more
        assert results.state("toy.slow", "it", 0)[0] == "missing"
    assert [*lab.folder.glob("cache/runs/laptop/toy.slow/it/seed0-*/step")]
    told = Told()
    (summary,) = runner.run(["toy.slow"], reporter=told, engine=cluster.Cluster(LOCAL))
    assert summary["outcome"] == "done" and rows("toy.slow")["resumed"] == 1.0


def test_at_its_time_limit_a_job_goes_back_into_the_queue_and_resumes(lab):
    """submitit is told so by SIGUSR2, which comes before the limit and when a job is preempted."""
    slower(lab, 0.1)
    signalled = []

    def preempt(job):
        if not signalled:
            (file,) = lab.folder.glob("cache/runs/laptop/toy.slow/it/seed0-*/pid")
            status = Path(f"/proc/{file.read_text(encoding='utf-8')}/stat").read_text(encoding="utf-8")
            signalled.append(int(status.rpartition(")")[2].split()[1]))
            os.kill(signalled[0], signal.SIGUSR2)

    (summary,) = runner.run(["toy.slow"], reporter=Told(preempt), engine=cluster.Cluster(LOCAL))
    assert signalled and summary["outcome"] == "done" and rows("toy.slow")["resumed"] == 1.0


def test_a_job_that_ends_without_a_word_is_told(lab):
    text = lab.module.read_text(encoding="utf-8").replace("os._exit(9)", "os.kill(os.getppid(), 9)")
    lab.module.write_text(text, encoding="utf-8")
    (summary,) = runner.run(["toy.gone"], reporter=Told(), engine=cluster.Cluster(LOCAL))
    assert summary["outcome"] == "failed" and runner.re.fullmatch(
        r"job \d+ ended without a word \(\w+\): see cache/submitit/laptop.toy.gone.it.seed0/\d+_0_log.err; "
        "the same command resumes from its last checkpoint.",
        summary["error"],
    )


def test_on_a_cluster_all_jobs_are_submitted_at_once(lab, slurm):
    told = Told()
    engine = cluster.Cluster(SLURM, options=["partition=gpu", "gpus-per-node=2", "time=240", "--mem=16G"])
    summary = runner.run(["toy.sum", "toy.bad"], reporter=told, engine=engine)
    assert outcomes(summary)["toy.bad", "it", 0] == ("failed", "this arm is bad: use another")
    assert [job["outcome"] for job in summary].count("done") == 4 and len(slurm.all()) == 5
    assert "5 at a time" in told.text
    left = lab.folder / "cache" / "submitit" / "laptop.toy.bad.it.seed0"
    assert [place for place in left.parent.iterdir()] == [left]
    (script,) = [file.read_text(encoding="utf-8") for file in left.glob("*_submission.sh")]
    lines = {"partition=gpu", "gpus-per-node=2", "time=240", "mem=16G", "job-name=causalnb-toy.bad-it-seed-0"}
    assert {f"#SBATCH --{line}" for line in lines} <= set(script.splitlines())


def test_time_and_gpu_follow_from_the_job(lab, slurm, monkeypatch):
    slurm.hold()
    monkeypatch.setenv("CAUSALNB_DEVICE", "cuda")
    engine = cluster.Cluster(SLURM)
    for experiment, minutes in (("toy.sum", 60), ("toy.endless", 67)):
        job = runner.plan([experiment])[0]
        sent = engine.start(job, "laptop", False, queue.Queue())
        script = Path(slurm.job(sent.sent.job_id)["script"]).read_text(encoding="utf-8")
        assert f"#SBATCH --time={minutes}\n" in script and "#SBATCH --gpus-per-node=1\n" in script
    engine.stop([])
    other = cluster.Cluster(SLURM, options=["gres=gpu:1"])
    sent = other.start(job, "laptop", False, queue.Queue())
    assert "gpus-per-node" not in Path(slurm.job(sent.sent.job_id)["script"]).read_text(encoding="utf-8")
    assert other.stop([]) == "" and {slurm.job(id)["state"] for id in slurm.all()} == {"CANCELLED by 0"}


def test_no_gpu_is_needed_where_jobs_are_submitted(lab, slurm, monkeypatch):
    monkeypatch.setattr(runner.profiles, "device", lambda scale: stop(scale))
    cluster.Cluster(SLURM).check(runner.profiles.current("gpu"))
    with pytest.raises(KeyboardInterrupt):
        cluster.Cluster(LOCAL).check(runner.profiles.current("gpu"))


def begun(engine, experiment="toy.sum", fresh=False):
    inbox = queue.Queue()
    return engine.start(runner.plan([experiment])[0], "laptop", fresh, inbox), inbox


def test_a_job_in_the_queue_is_found_again(lab, slurm):
    """The command that submitted it was killed, and the same command comes again."""
    slurm.hold()
    first, _ = begun(cluster.Cluster(SLURM))
    again, _ = begun(cluster.Cluster(SLURM))
    assert again.sent.job_id == first.sent.job_id == "100" and slurm.all() == ["100"]
    slurm.begin("100")
    for sent in (first, again):
        while sent.inbox.get(timeout=60)[1] is not None:
            continue
    assert first.outcome() == again.outcome() == ("done", "") and not again.folder.exists()
    assert results.state("toy.sum", "one", 0)[0] == "fresh"


@pytest.mark.parametrize("fresh", [False, True])
def test_a_job_that_was_asked_for_something_else_is_in_the_way(lab, slurm, fresh):
    slurm.hold()
    begun(cluster.Cluster(SLURM))
    if not fresh:
        settings(steps=5)
    sent, inbox = begun(cluster.Cluster(SLURM), fresh=fresh)
    assert inbox.get(timeout=10) == (sent, None) and slurm.all() == ["100"]
    assert sent.outcome() == ("failed", (
        "job 100 is about to make this result with other settings or code, or not afresh: wait for it, or "
        "scancel 100."
    ))  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        lambda lab, slurm: kill(slurm),
        lambda lab, slurm: forget(slurm),
        lambda lab, slurm: sent_file(lab).write_text("{", encoding="utf-8"),
        lambda lab, slurm: sent_file(lab).write_text('{"id": "100; x", "asked": ""}', encoding="utf-8"),
    ],
    ids=["ended", "unknown", "damaged", "no id"],
)
def test_a_job_that_is_over_is_submitted_anew(lab, slurm, change):
    slurm.hold()
    begun(cluster.Cluster(SLURM))
    change(lab, slurm)
    again, _ = begun(cluster.Cluster(SLURM))
    assert again.sent.job_id == "101" and slurm.all() == ["100", "101"]


def forget(slurm):
    """As a process sees it that comes when the cluster knows the job no more."""
    from submitit import SlurmJob

    (slurm.bin / "sacct").write_text("#!/bin/sh\n", encoding="utf-8")
    SlurmJob.watcher = type(SlurmJob.watcher)()  # a question that is under way fills the one before


def kill(slurm):
    runner.subprocess.run([slurm.bin / "scancel", "100"], check=True)


def sent_file(lab):
    return lab.folder / "cache" / "submitit" / "laptop.toy.sum.one.seed0" / cluster.SENT


def settings(**changes):
    spec = registry.experiment("toy.sum")
    laptop = spec.settings["laptop"] | changes
    registry.register(replace(spec, settings={**spec.settings, "laptop": laptop}))


def test_ctrl_c_cancels_jobs_of_a_cluster(lab, slurm, interruptible):
    slurm.hold()

    def ctrl_c():
        end = time.monotonic() + 60
        while not sent_file(lab).exists() and time.monotonic() < end:
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    presser = threading.Thread(target=ctrl_c)
    presser.start()
    with pytest.raises(KeyboardInterrupt):
        runner.run(["toy.sum"], reporter=Told(), engine=cluster.Cluster(SLURM))
    presser.join(60)
    assert slurm.all() and {slurm.job(id)["state"] for id in slurm.all()} == {"CANCELLED by 0"}
    assert not [*lab.folder.glob(f"cache/submitit/*/{cluster.SENT}")]


@pytest.mark.parametrize("scancel, why", [(None, "FileNotFoundError"), ("sleep 60", "timed out after 0.2")])
def test_jobs_that_could_not_be_cancelled_are_named(lab, slurm, monkeypatch, scancel, why):
    slurm.hold()
    monkeypatch.setattr(cluster, "STOP_SECONDS", 0.2)
    if scancel:
        (slurm.bin / "scancel").write_text(f"#!/bin/sh\n{scancel}\n", encoding="utf-8")
    else:
        (slurm.bin / "scancel").unlink()
    told = Told()

    class Engine(cluster.Cluster):
        def start(self, *words):
            super().start(*words)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        runner.run(["toy.sum"], reporter=told, engine=Engine(SLURM))
    last = told.text.splitlines()[-1]
    assert last.startswith("submitted jobs may go on (") and why in last and last.endswith("): scancel 100")


def test_a_job_that_is_not_taken_is_told_and_the_others_go_on(lab, slurm):
    summary = runner.run(
        ["toy.bad"], reporter=Told(), engine=cluster.Cluster(SLURM, options=["partition=full"])
    )
    assert summary[0]["outcome"] == "failed" and summary[0]["error"] == (
        "it could not be submitted (FailedJobError: sbatch: error: the partition takes no more): correct "
        "--slurm, or give --jobs, which bounds how many are submitted at a time."
    )
    assert not slurm.all()


class Over:
    """A job of submitit's that is over."""

    job_id, state, paths = "7", "COMPLETED", SimpleNamespace(stderr=Path("log.err"))

    def done(self):
        return True


def sent_of(lab, said, job="toy.sum", fresh=False):
    sent = cluster.Sent(runner.plan([job])[0], "laptop", fresh, lab.folder / "sent", queue.Queue(), 60.0)
    sent.sent = Over()
    sent.folder.mkdir()
    (sent.folder / cluster.SAID).write_text(said, encoding="utf-8")
    return sent


def test_a_result_that_is_stored_elsewhere_is_told(lab):
    sent = sent_of(lab, '{"outcome": "done", "error": "", "seconds": 3.0}')
    assert not sent.look() and sent.seconds() == 3.0
    sent.grace = 0.0  # it is not waited for any longer
    assert sent.look()
    assert sent.outcome() == ("failed", (
        "it is done, and results/laptop/toy.sum/one/seed0.json is not here: let $CAUSALNB_RESULTS be a "
        "folder that all machines share, or bring the result in with `causalnb merge`."
    ))  # fmt: skip
    runner.execute("toy.sum", "one", 0)
    sent.grace = 60.0
    assert sent.look()
    settings(steps=9)
    assert sent.outcome() == (
        "failed",
        "it is done, and its result is stale: its settings have changed since",
    )
    assert sent.folder.exists()


def test_an_old_result_is_not_the_one_that_is_made_afresh(lab):
    runner.execute("toy.sum", "one", 0)
    sent = sent_of(lab, '{"progress": [1, 4, ""]}', fresh=True)
    assert not sent.look() and sent.inbox.get()[1] == {"progress": [1, 4, ""]}
    assert sent.outcome()[1].startswith("job 7 ended without a word (COMPLETED)")
    sent.fresh = False
    assert sent.look() and sent.outcome() == ("done", "")


def test_a_watcher_that_fails_ends_the_job_and_not_the_run(lab, monkeypatch):
    def broken(self):
        raise OSError("the folder is gone")

    monkeypatch.setattr(cluster.Sent, "look", broken)
    (summary,) = runner.run(["toy.bad"], reporter=Told(), engine=cluster.Cluster(LOCAL))
    assert summary["error"] == "OSError: the folder is gone"


def work(lab, experiment, fresh=False):
    job = runner.plan([experiment])[0]
    (lab.folder / "work").mkdir(exist_ok=True)
    return cluster.Work(job, "laptop", fresh, runner.COMMAND, lab.folder / "work", False)


def said(lab):
    return records.parsed((lab.folder / "work" / cluster.SAID).read_bytes())


def test_work_says_how_far_it_is_and_how_it_ended(lab, monkeypatch):
    spoken = []
    monkeypatch.setattr(cluster, "SAID_SECONDS", 0.0)
    monkeypatch.setattr(cluster.Work, "_say", lambda self, **words: spoken.append(words))
    work(lab, "toy.sum")()
    assert {"progress": [4, 4, "on its way"]} in spoken
    assert spoken[-1].pop("seconds") > 0 and spoken[-1] == {"outcome": "done", "error": ""}


def test_work_that_fails_is_a_failed_job_of_the_cluster_too(lab):
    with pytest.raises(LabError, match="this arm is bad: use another"):
        work(lab, "toy.bad")()
    assert said(lab)["outcome"] == "failed" and said(lab)["error"] == "this arm is bad: use another"


def test_work_that_is_interrupted_leaves_no_child(lab, monkeypatch):
    def interrupted(self, **words):
        raise SystemExit(144)

    monkeypatch.setattr(cluster.Work, "_say", interrupted)
    with pytest.raises(SystemExit):
        work(lab, "toy.endless")()
    with results.lock("toy.endless", "it", 0, wait=5):
        pass


def test_sigterm_ends_a_local_job_once(monkeypatch):
    set_ = []
    monkeypatch.setattr(signal, "signal", lambda *words: set_.append(words))
    with pytest.raises(SystemExit):
        cluster._end(signal.SIGTERM, None)
    assert set_ == [(signal.SIGTERM, signal.SIG_IGN)]


def test_a_local_job_that_does_not_end_is_named(lab, monkeypatch):
    monkeypatch.setattr(cluster, "STOP_SECONDS", 0.2)
    killed = []
    monkeypatch.setattr(os, "kill", lambda *words: killed.append(words))
    engine = cluster.Cluster(LOCAL)
    engine.active = [sent_of(lab, "{}")]
    monkeypatch.setattr(Over, "done", lambda self: False)
    assert engine.stop([]) == "submitted jobs may go on: kill 7"
    assert len(killed) > 1 and {*killed} == {(7, signal.SIGTERM)}


def test_what_goes_back_into_the_queue(lab):
    one = work(lab, "toy.sum")
    assert one.checkpoint().function is one
    assert work(lab, "toy.sum", fresh=True).checkpoint() is None  # it would begin again and again


@pytest.mark.parametrize(
    "lines, found",
    [
        ([], {}),
        (["partition=gpu", "--gpus-per-node=1"], {"partition": "gpu", "gpus_per_node": "1"}),
        (["constraint=a100&ib", "time=10", "comment=a b=c"],
         {"constraint": "a100&ib", "time": "10", "comment": "a b=c"}),
    ],
)  # fmt: skip
def test_options_of_sbatch(lines, found):
    assert cluster.sbatch_options(lines) == found


@pytest.mark.parametrize(
    "line", ["partition", "=gpu", "partition=", "", "a b=c", "x=a\nb", "-p=gpu", "X=1", "x=\x1b"]
)
def test_what_is_no_option_is_refused(line):
    with pytest.raises(LabError) as error:
        cluster.sbatch_options([line])
    assert str(error.value) == (
        f"--slurm is {line!r}: give an option of sbatch as KEY=VALUE, say partition=gpu."
    )


@pytest.mark.parametrize("time", ["4:00:00", "1-0", "0", "x", "-5", "1.5"])
def test_a_time_is_minutes(time):
    with pytest.raises(LabError, match="give it in minutes, say time=240."):
        cluster.sbatch_options([f"time={time}"])


def test_what_cannot_be_used_is_said(lab, monkeypatch, tmp_path):
    with pytest.raises(LabError, match="no executor 'ray': use one of here, submitit, submitit-local."):
        cluster.Cluster("ray")
    with pytest.raises(LabError, match="submitit-local runs on this machine, where --slurm means nothing"):
        cluster.Cluster(LOCAL, options=["partition=gpu"])
    with pytest.raises(LabError, match="folder is '.*a%j': give one without %"):
        cluster.Cluster(LOCAL, tmp_path / "a%j")
    (tmp_path / "file").touch()
    with pytest.raises(LabError, match="could not be written"):
        cluster.Cluster(LOCAL, tmp_path / "file" / "x").check(runner.profiles.current())
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        LabError, match="--executor submitit finds no sbatch here: call it on the cluster, or"
    ):
        cluster.Cluster(SLURM)
    monkeypatch.setattr(cluster.records, "installed", lambda name: None)
    with pytest.raises(LabError) as error:
        cluster.Cluster(LOCAL)
    assert str(error.value) == (
        "--executor submitit-local needs the package submitit: run "
        "`pip install -c constraints.txt -e '.[cluster]'`."
    )


def test_processes_find_this_package(monkeypatch):
    home = str(Path(runner.__file__).resolve().parents[2])
    for before in ("/x", None):
        monkeypatch.setenv("PYTHONPATH", before) if before else monkeypatch.delenv("PYTHONPATH")
        with cluster._prepared():
            assert signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())
            assert os.environ["PYTHONPATH"] == os.pathsep.join(filter(None, [home, before]))
        assert os.environ.get("PYTHONPATH") == before
        assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
