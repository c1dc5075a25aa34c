"""A run that is bounded in time, and the archive that it leaves: all of it comes back, and nothing else."""

import gzip
import io
import json
import os
import tarfile
import time
from types import SimpleNamespace

import pytest

from causalnb.errors import FileError, LabError
from causalnb.lab import adapters, archives, files, merging, probes, records, registry, results, runner

TRAIN = '''

def trained(run):
    """Adds 1/3 per step, with a checkpoint as the Trainer's at every second one; waits once, at step 4."""
    import json
    from pathlib import Path
    from causalnb.lab import runner
    total, done = 0.0, 0
    for place, done in runner.newest(run.folder).items():
        total = json.loads((place / "trainer_state.json").read_text())["total"]
    for step in range(done, 6):
        total += 1 / 3
        if step % 2:
            keep(run.folder / "first", step + 1, total)
        run.progress(step + 1, 6, "")
        wait = Path(run.config["wait"])
        while step == 3 and done == 0 and run.config["wait"] and not wait.exists():
            time.sleep(0.05)
            run.progress(4, 6, "")
    return {"metrics": {"": {"total": total, "begun": float(done)}}}

def keep(folder, step, total):
    import json, shutil
    from hashlib import sha256
    for old in folder.glob("checkpoint-*"):
        shutil.rmtree(old)
    place = folder / f"checkpoint-{step}"
    place.mkdir(parents=True)
    content = {"trainer_state.json": json.dumps({"total": total}).encode(), "optimizer.pt": b"x" * step}
    for name, data in content.items():
        (place / name).write_bytes(data)
    sums = {name: sha256(data).hexdigest() for name, data in content.items()}
    (place / "checksums.json").write_text(json.dumps(sums))

register(Experiment("toy.trained", "a training", {"it": {}}, {"laptop": {"wait": "never"}}, {"laptop": 1},
                    trained, {"laptop": 20}))
'''
RUN = "runs/laptop/toy.trained/it"


@pytest.fixture
def trained(lab, monkeypatch):
    """The laboratory with toy.trained, which waits for ever at step 4 unless it resumes."""
    with open(lab.module, "a", encoding="utf-8") as module:
        module.write(TRAIN)
    names = vars(lab.toy)
    exec(compile(TRAIN, str(lab.module), "exec"), names)
    from causalnb.lab import codebase

    codebase.current.cache_clear()
    codebase.index.cache_clear()
    return lab


class Hurried(runner.PlainReporter):
    """Lets an hour pass when a run says that it has come to a step."""

    def __init__(self, clock, step):
        super().__init__(io.StringIO())
        self.clock, self.step = clock, step

    def update(self, job, done, total, note):
        super().update(job, done, total, note)
        if done == self.step and done < total:
            self.clock.passed = 3600.0


@pytest.fixture
def bounded(monkeypatch):
    """run(ids, step): {arm and seed: outcome}, and what was told, of a run that is bounded by ten minutes.

    An hour passes when one of the runs has come to `step`.
    """

    def run(ids, step=None, **options):
        clock = SimpleNamespace(passed=0.0, perf_counter=time.perf_counter, process_time=time.process_time)
        clock.monotonic = lambda: time.monotonic() + clock.passed
        told = Hurried(clock, step)
        with monkeypatch.context() as patch:
            patch.setattr(runner, "time", clock)
            summary = runner.run(ids, reporter=told, minutes=10, **options)
        return {(one["experiment"], one["arm"], one["seed"]): one["outcome"] for one in summary}, (
            told.stream.getvalue()
        )

    return run


def elsewhere(lab, monkeypatch, name="elsewhere"):
    """Be another machine, which has nothing yet."""
    for kind in ("results", "cache", "probes"):
        monkeypatch.setenv(f"CAUSALNB_{kind.upper()}", str(lab.folder / name / kind))
    monkeypatch.setattr("causalnb.lab.adapters.models_dir", lambda _: lab.folder / name / "models")


def told(*places, **options):
    return [(one.what, one.outcome, one.why) for one in merging.merge(places, **options)]


def members(file):
    with tarfile.open(file) as tar:
        return {member.name: tar.extractfile(member).read() for member in tar}


def written(file, contents, kinds=()):
    """An archive with such members; `kinds`: {name: (type, link)} of those that are no plain files."""
    with tarfile.open(file, "w:gz") as tar:
        for name, data in contents.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
        for name, (kind, link) in dict(kinds).items():
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, link
            tar.addfile(member)
    return file


# a bound on the time


def test_at_the_end_of_its_time_what_runs_is_stopped_and_goes_on_with_the_same_numbers(trained, bounded):
    asked = ["toy.sum", "toy.trained", "toy.endless"]
    runner.execute("toy.sum", "one", 0)
    began = time.monotonic()
    found, text = bounded(asked, 4, seeds=1, jobs=1)
    assert time.monotonic() - began < 120
    assert [*found.values()] == ["kept", "done", "left", "left"]
    assert "time is up: what runs is stopped, and its checkpoints are kept" in text
    assert "no checkpoint" not in text and "toy.endless" not in text
    (place,) = runner.newest(runner.checkpoints("toy.trained", "it", 0, "laptop"))
    assert place.name == "checkpoint-4"
    found, text = bounded(asked[:2], seeds=1)
    assert [*found.values()] == ["kept", "kept", "done"] and "time is up" not in text
    assert values() == {"total": sum([1 / 3] * 6, 0.0), "begun": 4.0}


def test_what_came_to_no_checkpoint_in_all_its_time_is_told(lab, bounded):
    found, text = bounded(["toy.endless"], 1)
    assert [*found.values()] == ["left"]
    assert text.endswith("toy.endless it seed 0 came to no checkpoint in its time: give it more minutes\n")


def test_one_that_does_not_listen_is_killed(lab, bounded, monkeypatch):
    monkeypatch.setattr(runner, "GRACE_SECONDS", 0.2)
    lab.child.write_text(
        "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        'print(\'{"progress": [1, 2, ""]}\', flush=True)\ntime.sleep(600)\n',
        encoding="utf-8",
    )
    assert set(bounded(["toy.slow", "toy.endless"], 1)[0].values()) == {"left"}


def test_what_is_done_when_time_is_up_is_done(lab, bounded, monkeypatch):
    """Its process had ended, and nobody had heard of it yet."""
    lab.child.write_text('print(\'{"progress": [1, 2, ""]}\', flush=True)\n', encoding="utf-8")
    ask = runner.Child.ask
    monkeypatch.setattr(runner.Child, "ask", lambda child: (child.process.wait(), ask(child)))
    assert [*bounded(["toy.slow"], 1)[0].values()] == ["done"]


def test_messages_do_not_put_the_end_off():
    inbox = runner.queue.Queue()
    for _ in range(3):
        inbox.put(("child", "message"))
    assert runner.heard(inbox, time.monotonic() - 1) == (None, None)
    assert runner.heard(inbox) == ("child", "message")


@pytest.mark.parametrize("minutes", [0, -1, float("nan"), float("inf")])
def test_a_bound_is_a_number_above_0(lab, minutes):
    with pytest.raises(LabError, match=f"minutes={minutes} runs nothing, or has no end: give a number above"):
        runner.run(["toy.sum"], minutes=minutes)


def test_a_bound_is_no_time_to_begin_anew_nor_a_clusters(lab):
    with pytest.raises(LabError, match="fresh within minutes begins anew at every call: leave one of"):
        runner.run(["toy.sum"], minutes=1, fresh=True)
    with pytest.raises(LabError, match="minutes are for runs on this machine: leave them out where"):
        runner.run(["toy.sum"], minutes=1, engine=SimpleNamespace())


# there and back


@pytest.fixture
def made(trained, bounded):
    """An archive of toy.sum, done, and toy.trained, stopped at its second checkpoint; counts; what is not."""
    for job in runner.plan(["toy.sum"]):
        runner.execute(*job[:3])
    bounded(["toy.trained"], 4)
    return packed(trained)


def values():
    return {name: value for _, name, value in results.read("toy.trained", "it", 0).rows}


def packed(lab, ids=("toy.sum", "toy.trained"), name="it.tar.gz"):
    file = lab.folder / name
    return file, *archives.pack(runner.plan(ids), file)


def test_another_machine_goes_on_with_the_numbers_of_an_uninterrupted_run(
    trained, made, bounded, monkeypatch
):
    file, counts, left = made
    assert counts == {"results": 4, "unfinished runs": 1} and left == []
    own = runner.checkpoints("toy.trained", "it", 0, "laptop").name
    inside = [name for name in members(file) if name.startswith(RUN)]
    at = f"{RUN}/{own}/first/checkpoint-4"
    assert {*inside} >= {f"{at}/{name}" for name in ("checksums.json", "optimizer.pt", "trainer_state.json")}
    elsewhere(trained, monkeypatch)
    came = [("result", "new", "")] * 4 + [("checkpoint", "new", "")]
    assert told(file, dry_run=True) == came
    assert not (trained.folder / "elsewhere/results").exists()
    assert not [*trained.folder.glob("elsewhere/cache/*")]
    assert told(file) == came
    assert told(file) == [("result", "kept", "")] * 4 + [("checkpoint", "kept", "")]
    found, _ = bounded(["toy.sum", "toy.trained"])
    assert found.pop(("toy.trained", "it", 0)) == "done" and set(found.values()) == {"kept"}
    assert values() == {"total": sum([1 / 3] * 6, 0.0), "begun": 4.0}
    assert told(file)[-1] == ("checkpoint", "kept", "")  # it is done
    again, counts, _ = packed(trained, name="again.tar.gz")
    assert counts == {"results": 5}
    elsewhere(trained, monkeypatch, "third")
    assert told(file, again)[-1] == ("checkpoint", "kept", "")
    assert results.state("toy.trained", "it", 0)[0] == "fresh"


def test_the_same_content_gives_the_same_bytes_and_a_failure_leaves_the_archive_before(lab, monkeypatch):
    runner.execute("toy.sum", "one", 0)
    file, counts, _ = packed(lab, ["toy.sum"])
    before = file.read_bytes()
    assert counts == {"results": 1} and packed(lab, ["toy.sum"])[0].read_bytes() == before
    runner.execute("toy.sum", "one", 1)
    monkeypatch.setattr(os, "replace", lambda *_: exec("raise OSError(28, 'No space left on device')"))
    with pytest.raises(FileError, match="it.tar.gz could not be written because the disk is full"):
        packed(lab, ["toy.sum"])
    assert file.read_bytes() == before and not [*lab.folder.glob(".it*")]
    with files.lock(file, "busy"), pytest.raises(LabError, match="another command is writing it.tar.gz"):
        packed(lab, ["toy.sum"])


def test_what_is_less_far_gives_way_and_what_is_as_far_stays(trained, made, monkeypatch):
    file, *_ = made
    elsewhere(trained, monkeypatch)
    here = runner.checkpoints("toy.trained", "it", 0, "laptop")
    trained.toy.keep(here / "first", 2, 0.5)
    assert told(file)[-1] == ("checkpoint", "new", "")
    assert [*runner.newest(here).values()] == [4]
    trained.toy.keep(here / "first", 5, 0.5)
    assert told(file)[-1] == ("checkpoint", "kept", "")
    assert [*runner.newest(here).values()] == [5]
    with runner.held("toy.trained", "it", 0, "laptop"):
        assert told(file)[-1] == (
            "checkpoint", "refused", "another run is writing toy.trained it seed 0: wait for it or stop it.",
        )  # fmt: skip
    assert not [*trained.folder.glob("elsewhere/cache/merging-*")]


def test_a_checkpoint_that_is_damaged_or_being_written_is_left_out(trained):
    folder = runner.checkpoints("toy.trained", "it", 0, "laptop")
    trained.toy.keep(folder / "first", 2, 0.5)
    trained.toy.keep(folder / "first" / "unfinished", 4, 0.5)
    with runner.held("toy.trained", "it", 0, "laptop"):
        _, counts, (left,) = packed(trained)
    assert not counts and left == (
        "toy.trained it seed 0 is not in the archive: another run is writing toy.trained it seed 0: wait for "
        "it or stop it."
    )
    file, counts, _ = packed(trained)
    assert counts == {"unfinished runs": 1} and not any("unfinished" in name for name in members(file))
    (folder / "first/checkpoint-2/more").touch()
    assert "checksums.json of a checkpoint does not name more." in packed(trained)[2][0]
    (folder / "first/checkpoint-2/more").unlink()
    (folder / "first/checkpoint-2/optimizer.pt").write_bytes(b"other")
    _, counts, (left,) = packed(trained)
    assert not counts and "a checkpoint is damaged" in left


def test_what_no_training_here_writes_is_left_out(trained):
    folder = runner.checkpoints("toy.trained", "it", 0, "laptop")
    trained.toy.keep(folder / "first", 2, 0.5)
    place = folder / "first/checkpoint-2"
    os.rename(place / "optimizer.pt", place / "run.py")
    sums = json.loads((place / "checksums.json").read_text(encoding="utf-8"))
    sums["run.py"] = sums.pop("optimizer.pt")
    (place / "checksums.json").write_text(json.dumps(sums), encoding="utf-8")
    assert packed(trained)[2][0].endswith(
        "first/checkpoint-2/run.py is no part of a checkpoint that is known here."
    )


def test_checkpoints_of_the_trainer_have_the_names_that_are_known():
    at = f"{RUN}/seed0-0a-1b/checkpoint-7"
    names = (
        "checksums.json config.json generation_config.json model.safetensors optimizer.pt scheduler.pt "
        "rng_state.pth rng_state_1.pth trainer_state.json training_args.bin model-00001-of-00002.safetensors"
    )
    assert all(archives.RUN.fullmatch(f"{at}/{name}") for name in names.split())
    assert not any(archives.RUN.fullmatch(f"{at}/{name}") for name in ("a.py", "pytorch_model.bin", "x.pkl"))


# refused


def test_members_that_lead_out_or_are_no_results_are_refused_by_name_and_the_rest_comes_in(lab, monkeypatch):
    runner.execute("toy.sum", "one", 0)
    data = results.path("toy.sum", "one", 0).read_bytes()
    good = "results/laptop/toy.sum/one/seed0.json"
    names = {
        "../out.json": "its name leads out of the archive",
        "/tmp/out.json": "its name leads out of the archive",
        "results/../../out.json": "its name leads out of the archive",
        "c:/out.json": "its name leads out of the archive",
        "results/.hidden.json": "it is nothing that a run leaves",
        "results/run.py": "it is nothing that a run leaves",
        "causalnb/__init__.py": "it is nothing that a run leaves",
        "runs/laptop/toy.sum/one/seed0-ab-cd/step": "it is nothing that a run leaves",
    }
    links = {
        "results/link.json": (tarfile.SYMTYPE, "/etc/passwd"),
        "results/hard.json": (tarfile.LNKTYPE, good),
        "results/pipe.json": (tarfile.FIFOTYPE, ""),
    }
    file = written(lab.folder / "x.tar.gz", {f"./{good}": data, **dict.fromkeys(names, data)}, links)
    elsewhere(lab, monkeypatch)
    rows = merging.merge([file])
    assert rows[0].outcome == "new" and rows[0].file == f"x.tar.gz: {good}"
    came = {row.file.removeprefix("x.tar.gz: "): (row.outcome, row.why) for row in rows[1:]}
    assert came == {name: ("refused", why) for name, why in names.items()} | {
        name: ("refused", "it is a link, or no plain file") for name in links
    }
    assert [*(lab.folder / "elsewhere").rglob("*.json")] == [results.path("toy.sum", "one", 0)]
    assert not [*lab.folder.rglob("out.json")]


def test_a_name_that_comes_twice_and_one_that_is_too_large_are_refused(lab, monkeypatch):
    file = lab.folder / "x.tar.gz"
    with tarfile.open(file, "w:gz") as tar:
        for data in (b"{}", b"[]"):
            member = tarfile.TarInfo("results/a.json")
            member.size = 2
            tar.addfile(member, io.BytesIO(data))
    assert told(file)[-1] == ("", "refused", "it comes twice")
    monkeypatch.setattr(archives, "LARGEST", 1)
    assert [why for *_, why in told(file)] == ["it is larger than 0 MiB"] * 2


@pytest.mark.parametrize(
    "damage",
    [lambda data: b"", lambda data: b"not an archive", lambda data: data[:-40],
     lambda data: data[:-9] + b"x" * 9,
     lambda data: gzip.compress(b"no tar" * 200)],
)  # fmt: skip
def test_what_is_no_archive_or_cut_off_is_refused_whole(lab, damage):
    runner.execute("toy.sum", "one", 0)
    file, *_ = packed(lab, ["toy.sum"])
    file.write_bytes(damage(file.read_bytes()))
    results.path("toy.sum", "one", 0).unlink()
    with pytest.raises(LabError, match="it.tar.gz (is no archive of `causalnb run`|holds no file)"):
        merging.merge([file])
    assert results.state("toy.sum", "one", 0)[0] == "missing"


def test_results_of_an_archive_are_checked_as_a_folders(lab, monkeypatch):
    runner.execute("toy.sum", "one", 0)
    data = results.path("toy.sum", "one", 0).read_bytes()
    file = written(lab.folder / "x.tar.gz", {"results/a.json": data.replace(b"1.3333", b"1.4444")})
    assert told(file) == [
        ("", "refused", "it is damaged (it was changed after it was written): bring it anew")
    ]


def test_checkpoints_of_other_settings_unknown_arms_and_damaged_ones_are_refused(trained, made, monkeypatch):
    file, *_ = made
    elsewhere(trained, monkeypatch)
    own = runner.checkpoints("toy.trained", "it", 0, "laptop").name
    whole = {name: data for name, data in members(file).items() if name.startswith(RUN)}

    def came(contents):
        ((what, outcome, why),) = told(written(trained.folder / "x.tar.gz", contents))
        assert (what, outcome) == ("checkpoint", "refused")
        return why

    def moved(old, new):
        return {name.replace(old, new): data for name, data in whole.items()}

    assert came(moved(own, "seed0-0-0")) == "it is of other settings or other code than today's"
    assert came(moved("/it/", "/that/")).startswith("there is no arm of toy.trained called 'that'")
    assert came(moved("toy.trained", "toy.train")).startswith("there is no experiment 'toy.train'")
    assert came(moved("laptop", "desktop")) == "it is of profile 'desktop', which is none here"
    assert came({name: data + b"x" for name, data in whole.items()}).startswith("a checkpoint is damaged (")
    assert came({name: data for name, data in whole.items() if "optimizer" not in name}).startswith(
        "a checkp"
    )
    more = f"{RUN}/{own}/first/checkpoint-4/scheduler.pt"
    assert came({**whole, more: b""}) == "checksums.json of a checkpoint does not name scheduler.pt."
    assert came({f"{RUN}/{own}/seconds.json": b"[1, 1]"}) == "it has no checkpoint"
    assert not runner.checkpoints("toy.trained", "it", 0, "laptop").exists()


# adapters


@pytest.fixture
def kept(lab, monkeypatch):
    """Adapters that toy.sum keeps, and an archive that has them with its results."""
    monkeypatch.setattr("causalnb.lab.adapters.models_dir", lambda _: lab.folder / "models")
    for job in runner.plan(["toy.sum"]):
        runner.execute(*job[:3])
    file = adapters.file_of("toy.sum", "one")
    put(file, 1.0)
    archive, counts, _ = packed(lab, ["toy.sum"])
    assert counts == {"results": 4, "adapters": 1}
    return archive, file


def put(file, value):
    import torch

    from causalnb.lab import weights

    model = torch.nn.Linear(1, 1)
    torch.nn.init.constant_(model.weight, value)
    torch.nn.init.zeros_(model.bias)
    weights.save_weights(model, file)


def test_adapters_come_with_their_result_and_never_over_others(lab, kept, monkeypatch):
    archive, file = kept
    assert told(archive)[-1] == ("adapter", "kept", "")
    put(file, 2.0)
    assert told(archive)[-1] == (
        "adapter", "refused", "models/toy.sum.one.safetensors is another one, and of the result that is here",
    )  # fmt: skip
    elsewhere(lab, monkeypatch)
    there = adapters.file_of("toy.sum", "one")
    assert told(archive, dry_run=True)[-1] == ("adapter", "new", "") and not there.exists()
    put(there, 3.0)  # of a result that is gone
    assert told(archive)[-1] == ("adapter", "new", "")
    assert archives.adapter(there) == members(archive)["models/laptop/toy.sum.one.safetensors"]
    there.unlink()
    assert told(archive)[-1] == ("adapter", "new", "")


def test_adapters_that_are_damaged_or_of_nothing_are_refused(lab, kept, monkeypatch):
    archive, _ = kept
    elsewhere(lab, monkeypatch)
    name = "models/laptop/toy.sum.one.safetensors"
    pair = {one: data for one, data in members(archive).items() if one.startswith("models")}

    def came(contents):
        ((what, outcome, why),) = told(written(lab.folder / "x.tar.gz", contents))
        assert (what, outcome) == ("adapter", "refused")
        return why

    assert came(pair) == "no result of it is here, and none comes with it"
    assert came({name: pair[name]}) == "its sha256 is not the one in toy.sum.one.safetensors.sha256."
    assert came({**pair, name: b"x"}) == "its sha256 is not the one in toy.sum.one.safetensors.sha256."
    from hashlib import sha256

    sealed = {name: b"no tensors", f"{name}.sha256": sha256(b"no tensors").hexdigest().encode()}
    assert came(sealed).startswith("it holds no tensors (")
    other = {one.replace("toy.sum", "toy.sun"): data for one, data in pair.items()}
    assert came(other).startswith("there is no experiment 'toy.sun'")
    assert not (lab.folder / "elsewhere/models").exists()


def test_probes_come_along_in_an_archive(lab, monkeypatch):
    runner.execute("toy.sum", "one", 0)
    record = {
        "experiment": "toy.sum", "arm": "one", "version": 1, "config": registry.config("toy.sum", "one"),
        "numbers": {"first": {}}, "versions": {"torch": "1"}, "verified": [], "date": "2026-01-01",
        "seconds": 1.0,
    }  # fmt: skip
    probes.path("toy.sum", "one").parent.mkdir(parents=True)
    probes.path("toy.sum", "one").write_bytes(records.sealed(record))
    file, counts, _ = packed(lab, ["toy.sum"])
    assert counts == {"results": 1, "probes": 1}
    elsewhere(lab, monkeypatch)
    assert sorted(told(file)) == [("probe", "new", ""), ("result", "new", "")]


@pytest.mark.parametrize("name", ["x.zip", "x", ".tar.gz", "nowhere/x.tar.gz"])
def test_where_no_archive_can_be_is_said(lab, name):
    with pytest.raises(LabError, match="give a (name that ends in .tar.gz|file in a folder that is there)"):
        archives.check(lab.folder / name)
    archives.check(lab.folder / "x.tgz")
