"""The command line on a toy course: what it prints, what it writes, and its exit codes."""

import json
import os
import re
import runpy
import shutil
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner

from causalnb import cli
from causalnb.errors import LabError
from causalnb.lab import doctor, notebooks, probes, registry, runner
from causalnb.tasks import files

ROOT = Path(__file__).parents[2]
TABLE, FIGURE, EXTRA = "sci.table2", "sci.components", "sci.fig_toy"


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A course of one experiment, one table, one figure, one of our own, two notebooks; one process."""
    for name, value in {
        "HOME": tmp_path,
        "RESULTS": tmp_path / "results",
        "FIGURES": tmp_path / "figures",
        "CACHE": tmp_path / "cache",
        "PROFILE": "laptop",
        "DATA": "",
    }.items():
        monkeypatch.setenv(f"CAUSALNB_{name}", str(value))
    for name in ("_experiments", "_artefacts"):
        monkeypatch.setattr(registry, name, {})
    monkeypatch.setattr(registry, "load_all", lambda: None)
    monkeypatch.setattr(probes, "state", lambda experiment, arm: (True, "verified"))
    (tmp_path / "data/paper").mkdir(parents=True)
    shutil.copy(ROOT / "data/paper/artefacts.csv", tmp_path / "data/paper")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "notebooks").mkdir()
    for name in ("00_start_here", "20_toy"):
        (tmp_path / f"notebooks/{name}.ipynb").write_text("{}", encoding="utf-8")

    def train(run):
        if run.arm == "bad":
            raise ValueError("the arm is bad: use another.")
        return {"metrics": {"": {"score": run.seed + 0.5}}, "history": []}

    def register(id, arms):
        registry.register(
            registry.Experiment(
                id,
                "a toy",
                arms,
                {"laptop": {}},
                {"laptop": 2},
                train,
                {"laptop": 120.0},
            )
        )

    register("sci.toy", {"plain": {}, "ours": {}})
    register("iclm.broken", {"good": {}, "bad": {}})

    @registry.artefact(TABLE, needs=("sci.toy",))
    def table(profile):
        from causalnb.lab import results, tables

        found = results.frame("sci.toy", profile)
        if found.empty:
            raise LabError("no results of sci.toy: causalnb run sci.toy.")
        tables.save_table(tables.Table(TABLE, ["mean"], [[float(found["score"].mean())]], "A toy table"))

    @registry.artefact(FIGURE)
    @registry.artefact(EXTRA, extra=True, printed_as="ours", shows="a toy figure")
    def figure(profile):
        import matplotlib.pyplot as plt

        from causalnb.lab import figures, manifest

        fig, ax = plt.subplots()
        item = manifest._current.get().item
        figures.save_figure(fig, item.id, alt="An empty pair of axes, which shows nothing.")
        plt.close(fig)

    def in_process(
        ids, profile=None, seeds=None, jobs=None, fresh=False, part=None, engine=None, minutes=None
    ):
        summary = []
        for job in runner.part_of(runner.plan(ids, profile, seeds), part, profile):
            outcome, error = "kept" if job.state == "fresh" and not fresh else "done", ""
            try:
                runner.execute(*job[:3], profile, fresh=fresh)
            except ValueError as failure:
                outcome, error = "failed", str(failure)
            summary.append(
                {
                    "experiment": job.experiment,
                    "arm": job.arm,
                    "seed": job.seed,
                    "outcome": outcome,
                    "seconds": 1.0,
                    "error": error,
                }
            )
        return summary

    monkeypatch.setattr(runner, "run", in_process)
    return tmp_path


def call(*words, code=0):
    """Standard output and standard error of a command that must exit with `code`."""
    result = CliRunner().invoke(cli.app, words)
    assert result.exit_code == code, (result.stdout, result.stderr, result.exception)
    return result.stdout, result.stderr


def listed(*words):
    return {row["id"]: row for row in json.loads(call("list", "--json", *words)[0])}


def test_list_knows_sixty_artefacts_and_computes_their_status(home):
    rows = listed()
    assert len(rows) == 60 and {row["status"] for row in rows.values()} == {"missing"}
    assert {"id", "source", "status", "reason", "notebook", "files"} <= set(rows[TABLE])
    assert rows[TABLE]["notebook"] == "notebooks/21_sci_scan.ipynb" and rows[TABLE]["files"] == []
    call("run", "sci.toy")
    call("tables", TABLE)
    row = listed()[TABLE]
    assert row["status"] == "built" and row["files"] and all((home / name).is_file() for name in row["files"])
    (home / "figures/sci/table2.md").write_text("changed by hand", encoding="utf-8")
    row = listed()[TABLE]
    assert row["status"] == "stale" and "table2.md" in row["reason"]
    assert f"{TABLE}\tstale: {row['reason']}\t21_sci_scan\t" in call("list")[0]


def test_list_of_one_source_and_with_our_own():
    assert {row["source"] for row in listed("--source", "iclm").values()} == {"iclm"}
    assert set(listed("--extras")) - set(listed()) == {EXTRA}
    plain = call("list", "--source", "sci")[0].splitlines()
    assert len(plain) == 6 and plain[-1] == "5 artefacts: 0 built, 0 unverified, 0 stale, 5 missing"
    wrong = call("list", "--source", "sc", code=2)[1]
    assert wrong == "causalnb: there is no source 'sc': there are c2dlm, causal_transformer, iclm, sci.\n"


def test_run_trains_keeps_and_trains_again(home):
    assert "sci.toy\tours\t1\tdone\t1 s" in call("run", "sci.toy")[0]
    assert call("run", TABLE)[0] == "0 done, 4 kept, 0 failed\n"
    assert [job["outcome"] for job in json.loads(call("run", "sci", "--fresh", "--json")[0])] == ["done"] * 4
    assert len(list(home.glob("results/laptop/sci.toy/*/seed*.json"))) == 4
    assert len(json.loads(call("run", "sci.toy", "--seeds", "3", "--json")[0])) == 6


def test_a_failed_run_exits_with_one_and_keeps_the_others():
    out, _ = call("run", "iclm.broken", code=1)
    assert "iclm.broken\tbad\t0\tthe arm is bad: use another." in out and "2 done, 0 kept, 2 failed" in out


def test_dry_run_trains_nothing(home):
    out, _ = call("run", "sci.toy", "--dry-run", "--jobs", "4")
    assert "sci.toy\tplain\t0\tmissing\t2 min" in out and "4 to train of 4, about 2 min" in out
    assert json.loads(call("run", "sci", "--dry-run", "--json")[0])[0] == {
        "experiment": "sci.toy",
        "arm": "plain",
        "seed": 0,
        "state": "missing",
        "estimate": 120.0,
    }
    assert not (home / "results").exists()
    call("run", "sci.toy")
    assert call("run", "sci.toy", "--dry-run")[0] == "0 to train of 4\n"
    assert "4 to train of 4" in call("run", "sci.toy", "--dry-run", "--fresh")[0]


def test_a_part_of_a_run(home):
    parts = [
        json.loads(call("run", "sci.toy", "--dry-run", "--json", "--shard", f"{k}/3")[0]) for k in (1, 2, 3)
    ]
    jobs = [(job["arm"], job["seed"]) for part in parts for job in part]
    assert sorted(jobs) == [("ours", 0), ("ours", 1), ("plain", 0), ("plain", 1)]
    assert [{job["shard"] for job in part} for part in parts] == [{"1/3"}, {"2/3"}, {"3/3"}]
    (plan,) = {job["plan"] for part in parts for job in part}
    out, _ = call("run", "sci.toy", "--dry-run", "--shard", "1/3")
    assert out.splitlines()[-2:] == [
        "2 to train of 2, about 2 min",
        f"part 1/3 of plan {plan}: 2 of 4 results, 0.1 of 0.1 core-hours as registered",
    ]
    made = json.loads(call("run", "sci.toy", "--shard", "2/3", "--json")[0])
    assert [(job["arm"], job["seed"], job["outcome"]) for job in made] == [
        (job["arm"], job["seed"], "done") for job in parts[1]
    ]
    assert {(job["shard"], job["plan"]) for job in made} == {("2/3", plan)}
    assert len([*home.glob("results/laptop/sci.toy/*/seed*.json")]) == 1
    again = [
        json.loads(call("run", "sci.toy", "--dry-run", "--json", "--shard", f"{k}/3")[0]) for k in (1, 2, 3)
    ]
    names = [[(job["arm"], job["seed"]) for job in part] for part in again]
    assert names == [[(job["arm"], job["seed"]) for job in part] for part in (parts[0], [], parts[2])]
    assert call("run", "sci.toy", "--shard", "9/9")[0] == "part 9/9 is empty: there are only 4 results\n"
    assert call("run", "sci.toy", "--shard", "9/9", "--json")[0] == "[]\n"
    assert "shard" not in call("run", "sci.toy", "--dry-run", "--json")[0]


def test_a_run_goes_where_it_is_sent(home, monkeypatch):
    asked, handlers = [], []

    def run(*words, engine, **options):
        asked.append(engine)
        handlers.append(signal.getsignal(signal.SIGTERM))
        return []

    monkeypatch.setattr(runner, "run", run)
    call("run", "sci.toy")
    call("run", "sci.toy", "--executor", "submitit-local", "--executor-folder", str(home / "there"))
    assert type(asked[0]) is runner.Here and asked[1].cluster == "local" and asked[1].folder == home / "there"
    assert handlers[0] is signal.SIG_DFL and callable(handlers[1])  # its jobs are cancelled by SIGTERM, too
    (home / "bin").mkdir()
    (home / "bin/sbatch").write_text("", encoding="utf-8")
    (home / "bin/sbatch").chmod(0o700)
    monkeypatch.setenv("PATH", str(home / "bin"))
    call("run", "sci.toy", *"--executor submitit --slurm partition=gpu --slurm time=60".split())
    assert asked[2].options == {"partition": "gpu", "time": "60"}
    assert asked[2].folder == home / "cache/submitit"
    call("run", "sci.toy", "--dry-run", "--executor", "submitit-local")
    assert len(asked) == 3


def test_merge_brings_in_what_was_made_elsewhere(home, monkeypatch):
    monkeypatch.setenv("CAUSALNB_RESULTS", str(home / "elsewhere"))
    call("run", "sci.toy")
    monkeypatch.setenv("CAUSALNB_RESULTS", str(home / "results"))
    out, _ = call("merge", str(home / "elsewhere"), "--dry-run")
    assert out == "4 new, 0 kept, 0 refused, 0 foreign\n" and not (home / "results").exists()
    assert call("merge", str(home / "elsewhere"))[0] == out
    assert call("run", "sci.toy")[0] == "0 done, 4 kept, 0 failed\n"
    file = home / "elsewhere/laptop/sci.toy/ours/seed1.json"
    file.write_text(file.read_text(encoding="utf-8").replace("1.5", "2.5"), encoding="utf-8")
    out, _ = call("merge", str(home / "elsewhere"), code=2)
    why = "it is damaged (it was changed after it was written): bring it anew"
    assert out == (
        f"elsewhere/laptop/sci.toy/ours/seed1.json\trefused\t{why}\n0 new, 3 kept, 1 refused, 0 foreign\n"
    )
    rows = json.loads(call("merge", str(home / "elsewhere"), "--json", code=2)[0])
    assert [row["outcome"] for row in rows] == ["kept", "refused", "kept", "kept"]
    assert rows[0] == {"file": "elsewhere/laptop/sci.toy/ours/seed0.json", "what": "result",
                       "experiment": "sci.toy", "arm": "ours", "seed": 0, "profile": "laptop",
                       "outcome": "kept", "why": ""}  # fmt: skip


def test_a_run_leaves_an_archive_that_merge_takes(home, monkeypatch):
    file = str(home / "it.tar.gz")
    out, _ = call("run", "sci.toy", "--archive", file)
    assert out.splitlines()[-2] == "4 done, 0 kept, 0 failed"
    assert re.fullmatch(r"it.tar.gz: 4 results, \d.\d MiB", out.splitlines()[-1])
    out, said = call("run", "sci.toy", "--archive", file, "--json")
    assert len(json.loads(out)) == 4 and said.startswith("it.tar.gz: 4 results")
    assert call("run", "sci.toy", "--archive", file, "--shard", "9/9")[0].endswith("nothing, 0.0 MiB\n")
    call("run", "iclm.broken", "--archive", file, code=1)
    monkeypatch.setenv("CAUSALNB_RESULTS", str(home / "elsewhere"))
    assert call("merge", file)[0] == "2 new, 0 kept, 0 refused, 0 foreign\n"
    assert len([*home.glob("elsewhere/laptop/iclm.broken/good/*.json")]) == 2
    out, _ = call("run", "sci.toy", "--archive", str(home / "dry.tar.gz"), "--dry-run")
    assert not (home / "dry.tar.gz").exists()


def test_a_run_whose_time_is_up_exits_with_75_and_says_what_is_left(home, monkeypatch):
    asked, ends = [], iter(["left", "failed", "failed"])

    def run(ids, *_, minutes, **options):
        asked.append(minutes)
        return [
            {
                **dict(zip(("experiment", "arm", "seed"), job[:3], strict=True)),
                "outcome": outcome,
                "seconds": 1.0,
                "error": "it is bad" if outcome == "failed" else "",
            }
            for job, outcome in zip(runner.plan(ids), ("kept", "done", "left", next(ends)), strict=True)
        ]

    monkeypatch.setattr(runner, "run", run)
    for left in (2, 1):
        out, _ = call("run", "sci.toy", "--minutes", "7.5", "--archive", str(home / "it.tgz"), code=75)
        assert f"\n2 of 4 are there and {left} are left: the same command goes on\n" in out
        assert "it.tgz: nothing" in out
    rows = json.loads(call("run", "sci.toy", "--minutes", "7.5", "--json", code=75)[0])
    assert [row["outcome"] for row in rows] == ["kept", "done", "left", "failed"] and set(asked) == {7.5}


def test_a_big_profile_says_whose_settings_it_takes():
    out, said = call("run", "sci.toy", "--dry-run", "--profile", "paper")
    assert "4 to train of 4" in out and said == "no settings for the profile paper, so laptop's: sci.toy\n"
    assert not call("run", "sci.toy", "--dry-run", "--profile", "quick")[1]
    assert "toy" not in call("run", "sci.toy", "--dry-run", "--profile", "paper", "--json")[1]
    work = {row["experiment"]: row["settings"] for row in doctor.work("paper")}
    assert work == {"sci.toy": "laptop", "iclm.broken": "laptop"}


def test_an_artefact_without_needs_is_not_run():
    assert "no training needed" in call("run", FIGURE)[0]
    assert call("run", FIGURE, "--json")[0] == "[]\n"


@pytest.mark.parametrize(
    "words, sentence",
    [
        (["run", "sci.tabel2"], "no experiment, artefact or source 'sci.tabel2': did you mean sci.table2"),
        (["run", "iclm.table1"], "iclm.table1 has no builder yet"),
        (["run", "sci.toy", "--profile", "big"], "there is no profile 'big'"),
        (["run", "sci.toy", "--jobs", "0"], "--jobs"),
        (["run", "sci.toy", "--seeds", "0"], "--seeds"),
        (["run"], "TARGET"),
        (
            ["run", "sci.toy", "--shard", "0/4"],
            "the shard is '0/4': give K/N, with K from 1 to N, such as 3/16.",
        ),
        (["run", "sci.toy", "--dry-run", "--shard", "5/4"], "the shard is '5/4': give K/N"),
        (["run", "sci.toy", "--json", "--shard", "a/b"], "the shard is 'a/b': give K/N"),
        (["run", "sci.toy", "--executor", "ray"], "there is no executor 'ray': use one of here, submitit, "),
        (["run", "sci.toy", "--slurm", "partition=gpu"], "are for a cluster: give --executor submitit, too."),
        (["run", "sci.toy", "--executor-folder", "x"], "are for a cluster: give --executor submitit, too."),
        (
            ["run", "sci.toy", "--executor", "submitit", "--slurm", "x"],
            "--slurm is 'x': give an option of sbatch",
        ),
        (
            ["run", "sci.toy", "--archive", "x.zip"],
            "the archive is 'x.zip': give a name that ends in .tar.gz",
        ),
        (
            ["run", "sci.toy", "--archive", "no/x.tgz"],
            "cannot be an archive: give a file in a folder that is",
        ),
        (
            ["run", "sci.toy", "--minutes", "5", "--executor", "submitit"],
            "--minutes is for runs on this machine: leave it out with --executor, or use --slurm time=N.",
        ),
        (["merge"], "FOLDER"),
        (["merge", "nowhere"], "there is no folder nowhere: give one that holds results."),
        (["merge", "~nobodyhere/x"], "FOLDER is '~nobodyhere/x', which is no path"),
        (["tables", "sci.tabl2"], "did you mean sci.table2"),
        (["tables", "--format", "docx"], "docx"),
        (["doctor", "--profile", "big"], "there is no profile 'big'"),
        (["reproduce", "--profile", "big"], "there is no profile 'big'"),
        (["data", "fetch", "nowhere"], "there is no data file 'nowhere'"),
        (["data", "fetch", "scan/", "\x1b[31m"], "there is no data file '\\x1b[31m'"),
        (["data", "fetch", ""], "there is no data file ''"),
        (["frobnicate"], "frobnicate"),
    ],
)
def test_a_wrong_request_exits_with_two(words, sentence):
    out, err = call(*words, code=2)
    assert sentence in " ".join(err.split()) and "Traceback" not in err and out == ""


def test_ctrl_c_says_how_to_go_on(monkeypatch):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "run", interrupted)
    assert "stopped; the same command goes on" in call("run", "sci.toy", code=1)[1]
    monkeypatch.setattr(sys, "argv", ["causalnb", "run", "sci.toy", "--fresh"])
    said = call("run", "sci.toy", "--fresh", code=1)[1]
    assert "stopped; the same command, without --fresh, goes on" in said


def test_tables_print_each_format():
    call("run", "sci.toy")
    assert "A toy table" in call("tables")[0]
    assert r"\begin{table}" in call("tables", TABLE, "--format", "tex")[0]
    assert call("tables", "--format", "csv")[0].splitlines() == ["mean", "1"]


def test_what_was_never_built_for_want_of_results_is_to_come(home):
    out, err = call("figures")
    assert f"{TABLE}: to come: it needs sci.toy" in err and "figures/sci/components.svg" in out
    assert (home / "figures/sci/fig_toy.png").is_file()


def test_a_builder_that_fails_does_not_stop_the_others(home, executed):
    call("run", "sci.toy")
    call("tables")
    shutil.rmtree(home / "results")
    assert "results of sci.toy" in call("tables", code=1)[1]
    out, _ = call("reproduce", code=1)
    assert "4 of 5 done" in out and f"{FIGURE}\t" in out and "results of sci.toy" in out


def test_figures_as_pdf_on_request(home):
    assert "figures/sci/components.pdf" in call("figures", "sci.components", "--format", "pdf")[0]
    assert (home / "figures/sci/components.pdf").read_bytes()[:4] == b"%PDF"


def test_figures_and_tables_leave_each_other_alone():
    call("run", "sci.toy")
    call("tables")
    assert "table2" not in call("figures")[0]
    assert "made, but it has no .csv file" in call("tables", FIGURE, "--format", "csv")[1]


def test_nothing_to_make(monkeypatch):
    monkeypatch.setattr(registry, "_artefacts", {})
    assert "nothing to make yet" in call("tables")[1]


@pytest.fixture
def executed(monkeypatch):
    """Notebooks that were executed, instead of executing them; with "fail" in the list they fail."""
    done = []

    def execute(path, profile, timeout, progress, fresh):
        progress(0, 1, path.stem)
        if "fail" in done:
            raise LabError(f"{path.name}, cell 1: ValueError: no")
        done.append((path, profile))
        return notebooks.Executed(1.0, ("cell 3: no such file.",))

    monkeypatch.setattr(notebooks, "execute", execute)
    return done


def test_reproduce_builds_then_runs_notebooks(home, executed):
    call("run", "sci.toy")
    out, err = call("reproduce")
    assert executed == [(home / f"notebooks/{name}.ipynb", "laptop") for name in ("00_start_here", "20_toy")]
    assert [line.split("\t")[0] for line in out.splitlines()[:-1]] == [
        FIGURE,
        TABLE,
        EXTRA,
        "notebooks/00_start_here.ipynb",
        "notebooks/20_toy.ipynb",
    ]
    assert "5 of 5 done, " in out and "[5/5]" in err
    assert "\tdone; stored outputs kept in cell 3: no such file." in out
    assert listed()[TABLE]["status"] == "built"


def test_reproduce_fresh_trains_first(home, executed):
    out, _ = call("reproduce", "--fresh", code=1)
    assert "sci.toy plain 0\t1.0\tdone" in out and "iclm.broken bad 0\t1.0\tthe arm is bad" in out


def test_reproduce_says_what_failed_and_goes_on(executed):
    executed.append("fail")
    out, err = call("reproduce", code=1)
    assert "cell 1: ValueError: no" in out and f"{FIGURE}\t" in out and "2 of 4 done" in out
    assert f"{TABLE}\t\tto come: it needs sci.toy" in out
    assert "[3/4] 00_start_here.ipynb: 00_start_here.ipynb, cell 1: ValueError: no" in err


def test_a_quick_reproduction_leaves_the_notebooks_alone(home, executed):
    out, _ = call("reproduce", "--profile", "quick")  # it trains what a table lacks and is short, no other
    assert "sci.toy plain 0\t" in out and "iclm.broken" not in out
    assert [path.parent for path, _ in executed] == [home / "cache/notebooks/quick"] * 2
    assert executed[0][1] == "quick"


def test_reproduce_without_notebooks(home):
    shutil.rmtree(home / "notebooks")
    assert "there is no notebook in notebooks" in call("reproduce", code=2)[1]


def test_the_gpu_profile_needs_a_gpu(monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert "gpu profile" in call("reproduce", "--profile", "gpu", code=2)[1]
    assert "use --profile laptop" in call("doctor", "--profile", "gpu", code=1)[0]


@pytest.fixture
def mirror(home, monkeypatch):
    """A registry of two small files, one of them in a mirror folder."""
    from hashlib import sha256

    digest = sha256(b"x").hexdigest()
    known = {
        name: files.File(name, f"https://example.org/{name}", digest, "MIT")
        for name in ("toy/a.txt", "toy/b.txt")
    }
    monkeypatch.setattr(files, "REGISTRY", known)
    monkeypatch.setenv("CAUSALNB_DATA", str(home / "mirror"))
    (home / "mirror/toy").mkdir(parents=True)
    (home / "mirror/toy/a.txt").write_bytes(b"x")
    return home / "mirror/toy"


def test_data_verify_forgives_missing_files_only(mirror):
    assert call("data", "verify")[0] == "toy/a.txt\tok\ntoy/b.txt\tmissing\n"
    (mirror / "b.txt").write_bytes(b"y")
    assert "toy/b.txt\t" in call("data", "verify", code=1)[0]
    assert "is refused" in call("doctor", code=1)[0]


def test_a_mirror_that_is_no_folder_is_said_once(mirror, monkeypatch):
    monkeypatch.setenv("CAUSALNB_DATA", "nowhere")
    said = (
        "CAUSALNB_DATA is 'nowhere', which is no folder; point it at a mirror of the data files or unset it."
    )
    for command in ("verify", "fetch"):
        assert call("data", command, code=2)[1].endswith(f"causalnb: {said}\n")
    assert call("doctor", code=1)[0].count(said) == 1
    assert json.loads(call("doctor", "--json", code=1)[0])["problems"] == [said]


def test_data_fetch_names_what_it_could_not_get(mirror):
    assert call("data", "fetch", "toy/a")[0] == "toy/a.txt\tok\n"
    assert "CAUSALNB_OFFLINE forbids the download" in call("data", "fetch", code=1)[0]


def test_data_fetch_forgives_files_at_no_address_unless_named(mirror, monkeypatch):
    made = files.File("toy/made.txt", "", files.REGISTRY["toy/a.txt"].sha256, "none", "made by hand")
    monkeypatch.setattr(files, "REGISTRY", {"toy/a.txt": files.REGISTRY["toy/a.txt"], made.name: made})
    assert "toy/made.txt lies at no address: it is made by hand;" in call("data", "fetch")[0]
    call("data", "fetch", "toy/made.txt", code=1)
    (mirror / "made.txt").write_bytes(b"y")
    assert "is refused" in call("data", "fetch", code=1)[0]


def test_doctor_reports(home):
    call("run", "sci.toy", "--seeds", "1")
    found = json.loads(call("doctor", "--json")[0])
    assert found["problems"] == [] and found["profile"] == "laptop" and found["artefacts"] == {"missing": 60}
    assert found["machine"]["python"] == ".".join(map(str, sys.version_info[:3]))
    assert found["machine"]["cores"] >= 1 and found["machine"]["memory_gib"] > 0
    needs = {need["name"]: need for need in found["packages"]}
    assert needs.keys() >= {"torch", "jupyterlab", "pytest"} and needs["spacy"]["ok"]  # there, or not needed
    toy = next(row for row in found["work"] if row["experiment"] == "sci.toy")
    assert toy["results"] == {"fresh": 2, "missing": 2} and 0 < toy["seconds"] <= toy["core_seconds"] < 240
    plain = call("doctor")[0]
    assert "sci.toy\t2 fresh, 2 missing\t" in plain and plain.endswith("\nready\n")


def test_doctor_names_damaged_weights(home):
    (home / "data" / "models").mkdir(parents=True)
    (home / "data" / "models" / "iclm_base_8.safetensors").write_bytes(b"weights")
    said = "iclm_base_8.safetensors is damaged: its sha256 is not the one in iclm_base_8.safetensors.sha256"
    assert said in call("doctor", code=1)[0]


def test_doctor_names_what_is_missing_or_out_of_range(home):
    project = home / "pyproject.toml"
    wanted = (
        project.read_text(encoding="utf-8")
        .replace('"torch>=2.8,<3"', '"torch>=99"')
        .replace('"httpx2', '"no-such-httpx')
    )
    project.write_text(wanted, encoding="utf-8")
    out, _ = call("doctor", code=1)
    assert f"torch >=99 is needed and {version('torch')} is installed: run make setup." in out
    assert "no-such-httpx <3,>=2 is needed and none is installed: run make setup." in out
    project.write_text("[", encoding="utf-8")
    assert "pyproject.toml cannot be read" in call("doctor", code=2)[1]


def test_doctor_without_torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert doctor.machine()["threads"] is None and doctor.machine()["gpu"] is None


def test_lab_opens_the_first_notebook(home, monkeypatch):
    asked = []
    monkeypatch.setattr(subprocess, "call", lambda words: asked.append(words) or 3)
    call("lab", "--source", code=3)
    assert asked == [[sys.executable, "-m", "jupyterlab", str(home / "notebooks/00_start_here.ipynb")]]
    (home / "notebooks/00_start_here.ipynb").unlink()
    assert "there is no notebooks/00_start_here.ipynb" in call("lab", "--source", code=2)[1]
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "run make setup" in call("lab", "--source", code=2)[1]


def test_on_a_terminal_it_draws(monkeypatch, capsys):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    cli.show(("name", "state"), [("a[b]", 1)], "Title")
    with cli.steps(1) as step:
        step("one", "half", 0.5)
        step("one", "2 s", 1.0, done=True)
    out, err = capsys.readouterr()
    assert "Title" in out and "a[b]" in out and "\t" not in out and "one: 2 s" in err and "1/1" in err


@pytest.mark.parametrize("words, code", [(["--help"], 0), (["nothing"], 2), (["run", "nothing"], 2)])
def test_python_dash_m(monkeypatch, words, code):
    monkeypatch.setattr(sys, "argv", ["causalnb", *words])
    with pytest.raises(SystemExit) as exit:
        runpy.run_module("causalnb", run_name="__main__")
    assert exit.value.code == code


def test_the_installed_command_lists_the_real_course(monkeypatch):
    for name in ("HOME", "RESULTS", "FIGURES", "CACHE"):
        monkeypatch.delenv(f"CAUSALNB_{name}")
    words = [sys.executable, "-m", "causalnb", "list", "--json"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, encoding="utf-8")
    assert done.returncode == 0 and len(json.loads(done.stdout)) == 60, done.stderr


@pytest.fixture
def quickstart(monkeypatch):
    """What the quick start was asked, instead of training: [(settings, folder, device), ...]."""
    from causalnb.apps import sci

    asked = []

    def train_sci(settings, output, say, progress):
        asked.append((settings, output))
        for step in (1, 2):
            progress(step, 2, "training")
        say("step 2 of 2: [fine]")

    def evaluate_sci(checkpoint, dataset, split, rows, decoded):
        asked.append((checkpoint, dataset, split, rows, decoded))
        return {
            "exact_match": 0.25,
            "rows": 40,
            "greedy_exact_match": 0.5,
            "decoded": 4,
            "trained_on": "length",
            "rows_trained_on": 0 if split == "length" else 3,
        }

    monkeypatch.setattr(sci, "train_sci", train_sci)
    monkeypatch.setattr(sci, "evaluate_sci", evaluate_sci)
    monkeypatch.setenv("TRANSFORMERS_VERBOSITY", "error")
    return asked


GUIDE = (
    "--base-model base --dataset scan --split length --n-structural-slots 8 --cbm-layers 6,11,16 "
    "--scl-weight 0.1 --epochs 20"
).split()


def test_train_takes_the_flags_of_the_guide(quickstart):
    from causalnb.apps.sci import Settings

    out, err = call("train", "sci", *GUIDE)
    assert quickstart == [(Settings("base", "scan", "length", 8, (6, 11, 16), 0.1, 20), Path("outputs/sci"))]
    assert (
        err.splitlines()
        == [
            "step 2 of 2: [fine]",
            "saved in outputs/sci; now: causalnb evaluate sci "
            "--checkpoint outputs/sci --dataset scan --split length",
        ]
        and out == ""
    )
    call("train", "sci")
    assert quickstart[1][0] == Settings()
    call(
        "train",
        "sci",
        *"--learning-rate 1e-3 --batch-size 8 --structure-level verb_direction --seed 5 "
        "--max-steps 3 --evaluate-every 2 --bf16 --lora 4 --output here".split(),
    )
    assert quickstart[2] == (
        Settings(
            learning_rate=1e-3,
            batch_size=8,
            structure_level="verb_direction",
            max_steps=3,
            evaluate_every=2,
            bf16=True,
            lora=4,
            seed=5,
        ),
        Path("here"),
    )


def test_what_to_call_next_can_be_copied(quickstart, own):
    assert "--checkpoint 'my models/a' --dataset" in call("train", "sci", "--output", "my models/a")[1]
    err = call("train", "iclm", "--data", "x.jsonl", "--output", "my models/b")[1]
    assert "causalnb evaluate 'my models/b' --data FILE" in err


def test_only_the_first_process_speaks(quickstart, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    assert call("train", "sci") == ("", "") and len(quickstart) == 1


def test_training_draws_a_bar_on_a_terminal(quickstart, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    err = call("train", "sci")[1]
    assert "2/2" in err and "training" in err and "[fine]" in err and "saved in outputs/sci" in err


def test_evaluate_takes_the_flags_of_the_guide(quickstart):
    out, _ = call("evaluate", "sci", "--checkpoint", "here", "--dataset", "scan", "--split", "length")
    assert out == "forced\t0.2500\t40\ngreedy\t0.5000\t4\n"
    assert quickstart == [(Path("here"), "scan", "length", None, 300)]
    out, _ = call("evaluate", "sci", *"--checkpoint here --split simple --rows 9 --decoded 2".split())
    assert out.endswith("3 of the 40 rows were trained on: the training was on length\n")
    assert quickstart[1][2:] == ("simple", 9, 2)
    assert json.loads(call("evaluate", "sci", "--checkpoint", "here", "--json")[0])["exact_match"] == 0.25


@pytest.fixture
def own(monkeypatch):
    """What training and evaluating on own data were asked, instead of doing it."""
    from causalnb.apps import text

    asked = []

    def train_text(settings, output, say, progress, report_to):
        asked.append((settings, output, report_to))

    def evaluate_text(folder, data, challenge, **more):
        asked.append((folder, data, challenge, more))
        part = {"accuracy": 0.5, "low": 0.25, "high": 0.75, "rows": 8}
        found = {"source": data, "trained_on": 3, "domains": {"easy": part}, "majority": None, **part}
        found |= {"unanswerable": 0, "first_unanswerable": None}
        if challenge == "strange.jsonl":
            found |= {"unanswerable": 2, "first_unanswerable": "line 7 is strange.", "majority": 0.625}
        return {"system": "sci", "data": found, "challenge": None if challenge is None else found}

    monkeypatch.setattr(text, "train_text", train_text)
    monkeypatch.setattr(text, "evaluate_text", evaluate_text)
    monkeypatch.setenv("TRANSFORMERS_VERBOSITY", "error")
    return asked


@pytest.mark.parametrize(
    "words, expected",
    [
        (
            "sci --separated --structure-level pos --columns prompt=q,answer=a",
            {
                "columns": {"prompt": "q", "answer": "a"},
                "options": {"separated": True, "structure_level": "pos"},
            },
        ),
        ("sci --cbm-layers 1,2", {"options": {"cbm_layers": [1, 2]}}),
        (
            "iclm --num-modules 3 --aggregation logit --lora 16 --bf16",
            {"lora": 16, "bf16": True, "options": {"num_modules": 3, "aggregation": "logit"}},
        ),
        (
            "c2dlm --graphs g.jsonl --gamma 0.5 --seed 4",
            {"seed": 4, "options": {"graphs": "g.jsonl", "gamma": 0.5}},
        ),
        (
            "causal-transformer --base-model base --causal-weight 0.2 --epochs 5 --batch-size 8 "
            "--max-steps 9 --evaluate-every 3 --validation 0.2 --learning-rate 1e-3",
            {
                "base_model": "base",
                "epochs": 5,
                "batch_size": 8,
                "max_steps": 9,
                "evaluate_every": 3,
                "validation": 0.2,
                "learning_rate": 1e-3,
                "options": {"causal_weight": 0.2},
            },
        ),
    ],
)
def test_train_takes_own_rows(own, words, expected):
    from causalnb.apps.text import Settings
    from causalnb.apps.text.train import command

    system, *rest = words.split()
    _, err = call("train", system, "--data", "x.jsonl", *rest, "--report-to", "none")
    settings = Settings(system, "x.jsonl", **expected)
    assert own == [(settings, Path("outputs") / system, "none")]
    assert err.endswith(f"saved in outputs/{system}; now: causalnb evaluate outputs/{system} --data FILE "
                        "--challenge FILE\n")  # fmt: skip
    again = command(settings).split()[1:]  # what a card says repeats it
    call(*again)
    assert own[1][0] == settings


@pytest.mark.parametrize("option", ["--columns prompt=q", "--separated", "--validation 0.2"])
def test_what_is_for_own_rows_is_refused_without_them(own, option):
    _, err = call("train", "sci", *option.split(), code=2)
    assert f"{option.split()[0]}" in err and "are for your own rows: give them with --data" in err
    assert own == []


def test_evaluate_takes_a_folder(own):
    out, _ = call("evaluate", "here", "--data", "x.jsonl", "--challenge", "y.jsonl")
    scored = "0.5000\t[0.250, 0.750]\t8\n"
    assert out.startswith(
        f"i.i.d.\t{scored}i.i.d., easy\t{scored}challenge\t{scored}challenge, easy\t{scored}"
    )
    assert out.endswith("3 rows of x.jsonl were trained on, and are left out\n")
    named = {"columns": {}, "challenge_columns": {}, "predictions": None}
    assert own == [(Path("here"), "x.jsonl", "y.jsonl", named)]
    assert json.loads(call("evaluate", "here", "--data", "x.jsonl", "--json")[0])["challenge"] is None


def test_evaluate_says_what_cannot_be_answered_and_takes_other_columns(own):
    out, _ = call(
        *"evaluate here --data x.jsonl --challenge strange.jsonl --columns prompt=q --challenge-columns "
        "prompt=r,label=gold --predictions said.jsonl".split()
    )
    assert own[0][3] == {
        "columns": {"prompt": "q"},
        "challenge_columns": {"prompt": "r", "label": "gold"},
        "predictions": Path("said.jsonl"),
    }
    assert "challenge, always the commonest label\t0.6250\t" in out
    assert "2 rows of x.jsonl cannot be answered, and count as wrong; the first: line 7 is strange." in out
    assert out.endswith("said.jsonl has what was said\n")


@pytest.mark.parametrize(
    "words, sentence",
    [
        (
            ["train", "sci", "--split", "lenght"],
            "causalnb: Unknown SCAN split 'lenght'; choose one of simple, ",
        ),
        (["train", "sci", "--epochs", "0"], "causalnb: --epochs is 0: give at least 1."),
        (
            ["train", "sci", "--cbm-layers", "all"],
            "causalnb: --cbm-layers is 'all': give layers, counted from 0",
        ),
        (["train", "sci", "--epochs", "many"], "--epochs"),
        (["train", "sci", "--base_model", "x"], "base_model"),
        (["evaluate", "sci", "--checkpoint", "nowhere"], "causalnb: nowhere holds no training: give the"),
        (["evaluate", "sci"], "--checkpoint"),
        (["train", "iclm"], "--data"),
        (["train", "iclm", "--data", "gone.jsonl"], "causalnb: gone.jsonl cannot be read"),
        (["train", "gpt"], "gpt"),
        (["train", "sci", "--data", "x.jsonl", "--split", "length"], "--data is your own and --dataset and"),
        (["train", "sci", "--separated"], "are for your own rows: give them with --data"),
        (
            ["train", "c2dlm", "--data", "x.jsonl", "--columns", "text=a"],
            "causalnb: --columns has 'text=a': give pairs",
        ),
        (
            "evaluate here --data x.jsonl --challenge-columns prompt=a".split(),
            "causalnb: --challenge-columns names columns of --challenge: give it too",
        ),
        (
            "evaluate here --data x --challenge y --challenge-columns text=a".split(),
            "causalnb: --challenge-columns has 'text=a': give pairs",
        ),
        (["train", "c2dlm", "--data", "x.jsonl", "--report-to", "paper"], "--report-to is 'paper': choose"),
        (
            ["evaluate", "nowhere", "--data", "x.jsonl"],
            "causalnb: nowhere holds no training: give the --output",
        ),
        (["evaluate", "nowhere"], "--data"),
    ],
)
def test_a_wrong_training_exits_with_two(words, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRANSFORMERS_VERBOSITY", "error")
    out, err = call(*words, code=2)
    assert sentence in " ".join(err.split()) and "Traceback" not in err and out == ""
    assert not (tmp_path / "outputs").exists()


@pytest.fixture
def probed(home, monkeypatch):
    """Results of sci.toy, of which `ours` is unverified; what `verify` asked for, and how it came out."""
    asked, outcome = [], {"ours": ("verified", "")}
    call("run", "sci.toy")
    monkeypatch.setattr(probes, "state", lambda _, arm: (arm == "plain", "" if arm == "plain" else "changed"))

    def verify(arms, jobs, make, tell):
        asked.append((arms, jobs, make))
        checks = [probes.Check(*arm, *outcome.get(arm[1], ("verified", ""))) for arm in arms]
        for check in checks:
            tell(check)
        return checks

    monkeypatch.setattr(probes, "verify", verify)
    return asked, outcome


def test_verify_compares_what_is_unverified(probed):
    asked, _ = probed
    out, err = call("verify", "sci", "--dry-run")
    assert out == "sci.toy\tours\tchanged\n1 to compare, 1 verified\n" and not asked
    out, err = call("verify", "--jobs", "1")
    assert asked == [([("sci.toy", "ours")], 1, False)]
    assert out == "1 kept, 1 verified\n" and "sci.toy ours: verified, 0 s" in err
    call("verify", "sci.toy", "--all")
    assert asked[-1] == ([("sci.toy", "plain"), ("sci.toy", "ours")], 2, False)
    call("verify", "--make")
    assert asked[-1] == ([("sci.toy", "ours")], 2, True)


def test_verify_names_what_differs(probed):
    asked, outcome = probed
    outcome["ours"] = ("differs", "first.steps[0].loss: 1 stored, 2 now")
    out, _ = call("verify", code=1)
    assert out == "sci.toy\tours\tdiffers\tfirst.steps[0].loss: 1 stored, 2 now\n1 kept, 1 differs\n"
    (row,) = json.loads(call("verify", "--json", code=1)[0])
    assert row == {"experiment": "sci.toy", "arm": "ours", "outcome": "differs",
                   "detail": "first.steps[0].loss: 1 stored, 2 now"}  # fmt: skip
    assert json.loads(call("verify", "--dry-run", "--json")[0]) == [
        {"experiment": "sci.toy", "arm": "ours", "now": "changed"}
    ]


def test_what_is_unverified_is_built_with_a_mark_and_refused_by_strict(probed):
    call("tables", TABLE)
    assert f"{TABLE}\tunverified: 2 of 4 results unverified" in call("list")[0]
    assert "1 unverified" in call("list", "--strict", code=1)[0]
    assert json.loads(call("list", "--strict", "--json", code=1)[0])


@pytest.mark.parametrize("output", ["closed", "full"])
@pytest.mark.parametrize("words", [["list", "--source", "sci"], ["--help"]])
def test_a_standard_output_that_takes_nothing_is_told(output, words):
    prepare = {"closed": lambda: os.close(1), "full": lambda: os.dup2(os.open("/dev/full", os.O_WRONLY), 1)}
    command = [sys.executable, "-m", "causalnb", *words]
    done = subprocess.run(command, cwd=ROOT, stderr=subprocess.PIPE, preexec_fn=prepare[output])
    assert done.returncode == 1
    assert re.fullmatch(rb"causalnb: standard output cannot be used: [^\n]+\.\n", done.stderr), done.stderr


def test_a_result_that_cannot_be_read_is_named_and_left_alone(home):
    call("run", "sci.toy")
    file = home / "results/laptop/sci.toy/plain/seed0.json"
    file.write_text("{", encoding="utf-8")
    for words in (["--dry-run"], ["--dry-run", "--json"]):
        assert "seed0.json is damaged" in call("run", "sci.toy", *words, code=1)[1]
    assert file.read_text(encoding="utf-8") == "{"


def test_a_probe_that_cannot_be_read_is_named(home, monkeypatch):
    call("run", "sci.toy")
    monkeypatch.setattr(probes, "probes_dir", lambda profile: home / "probes")
    file = probes.path("sci.toy", "plain")
    file.parent.mkdir(parents=True)
    file.write_text('{"seconds": -Infinity}', encoding="utf-8")
    assert "plain.json is damaged" in call("verify", "sci.toy", "--all", "--dry-run", code=1)[1]
