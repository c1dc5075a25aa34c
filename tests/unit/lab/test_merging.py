"""Results and probes of elsewhere: brought in, kept, refused by name, and nothing written over."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from causalnb.errors import LabError
from causalnb.lab import merging, probes, records, registry, results, runner

PROBE = {"first": {"steps": [{"loss": 2.5}], "metrics": {"": {"total": 1.0}}}}


@pytest.fixture
def elsewhere(lab, monkeypatch):
    """Folders of another machine: its results, four of toy.sum, which are not here."""
    other = lab.folder / "elsewhere"
    with monkeypatch.context() as patch:
        patch.setenv("CAUSALNB_RESULTS", str(other / "data" / "results"))
        for job in runner.plan(["toy.sum"]):
            runner.execute(*job[:3])
    return other


def stored(other, arm="one", seed=0):
    return other / "data" / "results" / "laptop" / "toy.sum" / arm / f"seed{seed}.json"


def changed(file, **fields):
    """Write a result with other fields, sealed as it should be."""
    record = json.loads(file.read_bytes()) | fields
    del record["checksum"]
    file.write_bytes(records.sealed(record))


def probe(folder, loss=2.5, **fields):
    record = {
        "experiment": "toy.sum", "arm": "one", "version": 1, "config": registry.config("toy.sum", "one"),
        "numbers": {"first": {"steps": [{"loss": loss}]}}, "versions": {"torch": "1"}, "verified": [],
        "date": "2026-01-01", "seconds": 1.0,
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "one.json").write_bytes(records.sealed(record | fields))


def outcomes(*folders, **options):
    return [(one.outcome, one.why) for one in merging.merge(folders, **options)]


def files_of(folder):
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.mark.parametrize("inner", ["", "data", "data/results", "data/results/laptop/toy.sum"])
def test_all_that_is_missing_is_brought_in_once(lab, elsewhere, inner):
    assert outcomes(elsewhere / inner, dry_run=True) == [("new", "")] * 4
    assert not (lab.folder / "results").exists()
    assert outcomes(elsewhere / inner) == [("new", "")] * 4
    for file, data in files_of(elsewhere).items():
        here = lab.folder / file.relative_to(elsewhere / "data")
        assert here.read_bytes() == data
    assert {results.state(*job[:3])[0] for job in runner.plan(["toy.sum"])} == {"fresh"}
    assert outcomes(elsewhere / inner) == [("kept", "")] * 4
    assert not [*lab.folder.rglob("*.lock")]


def test_what_became_of_a_file_is_told(lab, elsewhere):
    (one,) = merging.merge([stored(elsewhere, "two", 1).parent / ".."], dry_run=True)[-1:]
    assert (one.what, one.experiment, one.arm, one.seed, one.profile) == (
        "result",
        "toy.sum",
        "two",
        1,
        "laptop",
    )
    assert one.file.startswith("elsewhere/data/results/laptop/toy.sum")


def test_files_in_any_order(lab, elsewhere):
    heap = lab.folder / "heap"
    heap.mkdir()
    for at, file in enumerate(sorted(files_of(elsewhere))):
        shutil.copy(file, heap / f"{at}.json")
    (heap / ".0.json.lock").touch()
    (heap / "notes.txt").write_text("x", encoding="utf-8")
    assert outcomes(heap) == [("new", "")] * 4 + [("foreign", "it is no .json file")]


def test_a_result_with_other_numbers_is_refused_and_the_rest_is_brought_in(lab, elsewhere):
    runner.execute("toy.sum", "one", 0)
    rows = json.loads(stored(elsewhere).read_bytes())["rows"]
    changed(stored(elsewhere), rows=[[*rows[0][:2], 7.25], *rows[1:]])
    before = files_of(lab.folder / "results")
    came = outcomes(elsewhere)
    assert [one[0] for one in came] == ["refused", "new", "new", "new"]
    place = "results/laptop/toy.sum/one/seed0.json"
    assert came[0][1] == f"{place} is another one: total: {rows[0][2]} and 7.25"
    assert before.items() <= files_of(lab.folder / "results").items()


@pytest.mark.parametrize(
    "fields, why",
    [
        ({"history": [{"step": 0, "loss": 1.0}, {"step": 1, "loss": 0.75}, {"step": 2, "loss": 1 / 3}]},
         "history[1].loss: 0.5 and 0.75"),
        ({"history": [{"step": 0, "loss": 1.0}]}, "history[1].step: 1 and nothing"),
        ({"rows": []}, "total: 1.3333333333333333 and nothing"),
    ],
)  # fmt: skip
def test_the_first_number_that_differs_is_named(lab, elsewhere, fields, why):
    runner.execute("toy.sum", "one", 0)
    changed(stored(elsewhere), **fields)
    assert outcomes(stored(elsewhere).parent)[0][1].endswith(f" is another one: {why}")


def test_seconds_and_dates_may_differ(lab, elsewhere):
    registry.register(replace(registry.experiment("toy.sum"), timed=("res*",)))
    runner.execute("toy.sum", "one", 0)
    data = stored(elsewhere).read_bytes()
    rows = json.loads(data)["rows"]
    changed(stored(elsewhere), rows=[rows[0], ["", "resumed", 9.0]], date="1999-01-01", cpu_seconds=7.0)
    kept = results.path("toy.sum", "one", 0).read_bytes()
    assert outcomes(stored(elsewhere).parent)[0] == ("kept", "")
    assert results.path("toy.sum", "one", 0).read_bytes() == kept != data


def test_two_that_are_brought_and_differ_are_both_refused(lab, elsewhere):
    twin = lab.folder / "twin"
    shutil.copytree(elsewhere, twin)
    assert [one[0] for one in outcomes(elsewhere, twin, dry_run=True)] == ["new"] * 4 + ["kept"] * 4
    changed(stored(twin), rows=[["", "total", 7.25]])
    came = outcomes(elsewhere, twin)
    assert [one[0] for one in came] == ["refused", *["new"] * 3, "refused", *["kept"] * 3]
    assert came[0][1] == came[4][1] == (
        "elsewhere/data/results/laptop/toy.sum/one/seed0.json and twin/data/results/laptop/toy.sum/one/"
        "seed0.json differ: total: 1.3333333333333333 and 7.25"
    )  # fmt: skip
    assert not results.path("toy.sum", "one", 0).exists()


def test_a_second_copy_of_what_is_refused_is_refused(lab, elsewhere):
    runner.execute("toy.sum", "one", 0)
    changed(stored(elsewhere), rows=[["", "total", 7.25]])
    came = outcomes(stored(elsewhere).parent, stored(elsewhere).parent)
    assert [one[0] for one in came] == ["refused", "new"]  # the same file is looked at once
    shutil.copy(stored(elsewhere), stored(elsewhere).with_name("again.json"))
    assert [one[0] for one in outcomes(stored(elsewhere).parent)] == ["refused", "refused", "kept"]


@pytest.mark.parametrize(
    "fields, why",
    [
        ({"version": 2}, "it is stale: its experiment has another version now"),
        ({"config": {"steps": 5, "start": 0.0, "nap": 0.0, "fault": ""}},
         "it is stale: its settings have changed since (steps: 5 there, 4 here)"),
        ({"config": {"steps": 4, "start": 0.0, "nap": 0.0}},
         "it is stale: its settings have changed since (fault: None there, '' here)"),
        ({"experiment": "toy.sun"}, "there is no experiment 'toy.sun': did you mean toy.sum"),
        ({"experiment": "../../x"}, "it is of '../../x' and 'one', which are no names of an experiment"),
        ({"arm": "../one"}, "it is of 'toy.sum' and '../one', which are no names of"),
        ({"arm": "three"}, "there is no arm of toy.sum called 'three'"),
        ({"profile": "../../x"}, "it is of profile '../../x' and seed 0, which are none here"),
        ({"seed": -1}, "it is of profile 'laptop' and seed -1, which are none here"),
        ({"seed": "0"}, "it is damaged (seed is not as a result has it): bring it anew"),
        ({"schema": 1}, "it has schema 1 and this causalnb reads 2: make it anew"),
        ({"rows": [[1, 2, 3]]}, "it is damaged ([1, 2, 3] is no row [cell, measure, value]): bring it anew"),
    ],
)  # fmt: skip
def test_what_is_not_of_today_is_refused(lab, elsewhere, fields, why):
    changed(stored(elsewhere), **fields)
    (came, *rest) = outcomes(stored(elsewhere).parent)
    assert came[0] == "refused" and came[1].startswith(why)
    assert rest == [("new", "")]
    assert set(files_of(lab.folder / "results")) == {results.path("toy.sum", "one", 1)}


@pytest.mark.parametrize(
    "data, why",
    [
        (b"{", "it is damaged (Expecting"),
        (b"\xff", "it is damaged ("),
        (b"[]", "it is damaged (it holds no record): bring it anew"),
        (b"{}", "it is neither a result nor a probe"),
        (b'{"rows": [], "history": []}', "it has schema None and this causalnb reads 2"),
    ],
)
def test_what_cannot_be_read_is_refused(lab, elsewhere, data, why):
    stored(elsewhere).write_bytes(data)
    came = outcomes(stored(elsewhere).parent)
    assert came[0][0] == "refused" and came[0][1].startswith(why) and came[1] == ("new", "")


def test_a_number_changed_by_hand_is_refused(lab, elsewhere):
    text = stored(elsewhere).read_text(encoding="utf-8")
    stored(elsewhere).write_text(text.replace("1.3333", "1.4444"), encoding="utf-8")
    assert outcomes(stored(elsewhere).parent)[0] == (
        "refused", "it is damaged (it was changed after it was written): bring it anew",
    )  # fmt: skip


def test_what_is_no_plain_file_is_refused(lab, elsewhere, monkeypatch):
    stored(elsewhere).unlink()
    os.mkfifo(stored(elsewhere))
    (stored(elsewhere).with_name("gone.json")).symlink_to("nowhere")
    came = outcomes(stored(elsewhere).parent)
    assert [one[0] for one in came] == ["refused", "refused", "new"]
    assert came[1] == ("refused", "it is no file that holds a result")
    monkeypatch.setattr(merging, "LARGEST", 10)
    assert outcomes(stored(elsewhere).parent)[2] == came[1]


def test_what_is_unreadable_here_is_left_alone(lab, elsewhere):
    here = results.path("toy.sum", "one", 0)
    here.parent.mkdir(parents=True)
    here.write_bytes(b"{")
    outcome, why = outcomes(elsewhere)[0]
    assert outcome == "refused" and "seed0.json is damaged" in why and here.read_bytes() == b"{"


def test_a_stale_one_gives_way(lab, elsewhere):
    shutil.copytree(elsewhere / "data" / "results", lab.folder / "results")
    changed(results.path("toy.sum", "one", 0), version=0, rows=[])
    came = outcomes(elsewhere)
    assert came[0] == ("new", "what was here is stale: its experiment has another version now")
    assert [one[0] for one in came[1:]] == ["kept"] * 3
    assert results.path("toy.sum", "one", 0).read_bytes() == stored(elsewhere).read_bytes()


def test_old_files_of_both_checkouts_are_no_matter(lab, elsewhere):
    """They were committed long ago, and lie here and there."""
    changed(stored(elsewhere), version=0)
    changed(stored(elsewhere, seed=1), arm="gone")
    probe(elsewhere / "data" / "probes" / "laptop" / "toy.sum", version=0)
    shutil.copytree(elsewhere / "data" / "results", lab.folder / "results")
    shutil.copytree(elsewhere / "data" / "probes", lab.folder / "probes")
    (lab.folder / "results/laptop/toy.sum/gone").mkdir()
    shutil.copy(stored(elsewhere, seed=1), lab.folder / "results/laptop/toy.sum/gone")
    assert outcomes(elsewhere) == [("kept", "")] * 5


def test_what_a_run_is_writing_is_refused(lab, elsewhere):
    with results.lock("toy.sum", "one", 0):
        came = outcomes(elsewhere)
    assert came[0] == ("refused", "another run is writing toy.sum one seed 0: wait for it or stop it.")
    assert [one[0] for one in came[1:]] == ["new"] * 3


def test_probes_come_along(lab, elsewhere):
    folder = elsewhere / "data" / "probes" / "laptop" / "toy.sum"
    probe(folder)
    assert outcomes(elsewhere) == [("new", "")] * 5
    assert probes.path("toy.sum", "one").read_bytes() == (folder / "one.json").read_bytes()
    (one,) = merging.merge([folder])
    assert (one.what, one.experiment, one.arm, one.seed, one.profile) == (
        "probe",
        "toy.sum",
        "one",
        None,
        "laptop",
    )
    probe(folder, loss=2.5 + 1e-6)  # another processor's last digits
    assert outcomes(folder) == [("kept", "")]
    probe(folder, loss=2.6)
    why = "probes/laptop/toy.sum/one.json is another one: first.steps[0].loss: 2.5 stored, 2.6 now"
    assert outcomes(folder) == [("refused", why)]
    assert probes.read("toy.sum", "one")["numbers"]["first"]["steps"][0]["loss"] == 2.5
    probes.path("toy.sum", "one").write_bytes(b"{")
    assert outcomes(folder)[0][0] == "refused" and probes.path("toy.sum", "one").read_bytes() == b"{"


@pytest.mark.parametrize(
    "fields, why",
    [
        ({"version": 2}, "it is stale: its experiment has another version now"),
        (
            {"config": {"steps": 9}},
            "it is stale: its settings have changed since (fault: None there, '' here)",
        ),
        ({"arm": "three"}, "there is no arm of toy.sum called 'three'"),
        ({"verified": [1]}, "it is damaged (verified is not as a probe has it): bring it anew"),
        ({"seconds": 1}, "it is damaged (seconds is not as a probe has it): bring it anew"),
    ],
)
def test_a_probe_that_is_not_of_today_is_refused(lab, tmp_path, fields, why):
    probe(tmp_path / "other", **fields)
    ((outcome, said),) = outcomes(tmp_path / "other")
    assert outcome == "refused" and said.startswith(why) and not (lab.folder / "probes").exists()


def test_a_folder_that_is_none_or_empty_is_said(lab, tmp_path):
    with pytest.raises(LabError, match="there is no folder nowhere: give one that holds results."):
        merging.merge([Path("nowhere")])
    (tmp_path / "empty").mkdir()
    with pytest.raises(LabError, match="empty holds no file: give a folder that holds results."):
        merging.merge([tmp_path / "empty"])
