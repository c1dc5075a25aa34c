"""The store: exact, atomic, honest about what is stale, damaged or foreign."""

import errno
import json
import math
import os
import re
import shutil
import subprocess
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from causalnb.errors import LabError
from causalnb.lab import evidence, probes, records, registry, results, runner
from tests.unit.lab.conftest import forget_code

ONE = {"laptop": 1}


@pytest.fixture
def stored(lab):
    """The first result of the toy, measured."""
    return runner.execute("toy.sum", "one", 0, "laptop")


def test_a_result_says_where_it_comes_from(stored):
    assert stored == results.read("toy.sum", "one", 0)
    assert stored.rows == [["", "total", pytest.approx(4 / 3, abs=1e-15)], ["", "resumed", 0.0]]
    assert stored.config == {"steps": 4, "start": 0.0, "nap": 0.0, "fault": ""}
    assert set(stored.versions) == {"python", "torch", "transformers", "numpy", "causalnb"}
    assert stored.versions["numpy"] == np.__version__
    assert stored.git == {"commit": None, "dirty": None} and stored.device == "cpu"
    assert stored.date.endswith("+00:00") and 0 < stored.cpu_seconds < 60 and 0 < stored.wall_seconds < 60
    text = results.path("toy.sum", "one", 0).read_text(encoding="utf-8")
    assert (
        os.uname().nodename not in text.split('"')
        and str(results.path("toy.sum", "one", 0).parent) not in text
    )


@pytest.mark.parametrize("read, of", [(evidence.require, "frame"), (evidence.rows, "long")])
def test_what_does_not_change_is_read_once(stored, monkeypatch, read, of):
    asked, original = [], getattr(results, of)
    monkeypatch.setitem(registry._experiments, "toy.sum", replace(registry.experiment("toy.sum"), seeds=ONE))
    monkeypatch.setattr(results, of, lambda *which: asked.append(which) or original(*which))
    with evidence.unchanged():
        first = read("toy.sum", arms=["one"])
        first["seed"] = -1
        again = read("toy.sum", arms=["one"])
        assert len(asked) == 1 and again.seed.tolist() == [0] * len(again) and len(again)
    read("toy.sum", arms=["one"])
    assert len(asked) == 2


@given(st.lists(st.floats(), min_size=1), st.integers())
def test_numbers_survive_exactly(values, whole):
    text = json.dumps(records.plain({"v": values, "w": whole}))
    back = json.loads(text)
    assert back["w"] == whole
    for value, again in zip(values, back["v"], strict=True):
        assert repr(again) == repr(value if math.isfinite(value) else None)


def test_numbers_of_any_library():
    value = {
        "a": np.float32(0.1),
        "b": np.int64(3),
        "c": np.array([[1.0, np.nan]]),
        "d": (1, "x", None, True),
        5: math.inf,
    }
    assert records.plain(value) == {
        "a": float(np.float32(0.1)),
        "b": 3,
        "c": [[1.0, None]],
        "d": [1, "x", None, True],
        "5": None,
    }
    with pytest.raises(LabError, match=r"metrics\['a'\]\[1\] is a set, which no result holds"):
        records.plain({"a": [1, {2}]}, "metrics")


ROWS = [
    ["", "a", 0.1],
    ["four/text", "exact", 1e-300],
    ["four/text", "choice", None],
    ["test", "sn_NP/Z", -0.0],
    ["after/acre/four/text", "exact", 3],
]
WIDE = ["a", "four_text_exact", "four_text_choice", "test_sn_NP/Z", "after_acre_four_text_exact"]


def test_rows_are_read_as_they_were_written(stored):
    metrics = {}
    for cell, measure, value in ROWS:
        metrics.setdefault(cell, {})[measure] = math.nan if value is None else value
    assert repr(results.rows_of(metrics)) == repr(ROWS).replace("None", "nan")
    results.write(replace(stored, rows=results.rows_of(metrics)))
    found = results.read("toy.sum", "one", 0)
    assert repr(found.rows) == repr(ROWS)
    assert found.value("four/text", "exact") == 1e-300 and found.value("", "a") == 0.1
    assert found.value("four/text", "choice") is None
    for place in (("four", "exact"), ("four/text", "a"), ("", "exact")):
        with pytest.raises(LabError, match=f"toy.sum does not measure {place[1]!r} on {place[0]!r}: correct"):
            found.value(*place)


def test_a_value_is_a_number(stored):
    for value in ("high", True, [1.0]):
        with pytest.raises(LabError, match="'a' on 'four/text' of toy.sum is .*: give a number or None"):
            results.write(replace(stored, rows=[["four/text", "a", value]]))
    assert results.read("toy.sum", "one", 0) == stored


@pytest.mark.parametrize(
    "one, other, words",
    [
        (("four/text", "exact"), ("four", "text_exact"), "'exact' on 'four/text' and 'text_exact' on 'four'"),
        (("four/text", "exact"), ("four_text", "exact"), "'exact' on 'four/text' and 'exact' on 'four_text'"),
        (("", "four_exact"), ("four", "exact"), "'four_exact' and 'exact' on 'four'"),
        (("four", "exact"), ("four", "exact"), "'exact' on 'four' and 'exact' on 'four'"),
    ],
)
def test_two_rows_of_one_column_are_refused(stored, one, other, words):
    rows = [[*one, 1.0], ["", "a", 1.0], [*other, 2.0]]
    column = results.column(*one)
    with pytest.raises(LabError, match=f"^toy.sum measures {words}, both in the column {column!r}: rename"):
        results.write(replace(stored, rows=rows))
    assert results.read("toy.sum", "one", 0) == stored
    results.write(replace(stored, rows=rows[:2]))


ODD = {  # fields that another program might write, with their checksum
    "no settings": {"config": None},
    "a row that is none": {"rows": [["", "total"]]},
    "a row of text": {"rows": [["", "total", "1.5"]]},
    "a row of no list": {"rows": [{"": "total"}]},
    "a history of texts": {"history": ["step 1"]},
    "a history of lists": {"history": [{"step": 1, "loss": [1.0, 2.0]}]},
    "a schema of lists": {"schema": [2]},
}


def damage(text, how):
    record = json.loads(text)
    if how == "newer":
        return json.dumps({**record, "schema": 3})
    if how == "older":
        kept = {name: value for name, value in record.items() if name not in ("checksum", "rows", "version")}
        kept |= {"schema": 1, "metrics": {"total": 4 / 3}, "config_hash": "0", "code_hash": "0"}
        return json.dumps({**kept, "checksum": records.short(records.canonical(kept))})
    if how == "other type":
        return json.dumps({**record, "seed": "0"})
    if how == "lacks rows":
        return json.dumps({key: value for key, value in record.items() if key != "rows"})
    if how == "has more":
        return json.dumps({**record, "note": "by hand"})
    if how in ODD:
        kept = {name: value for name, value in record.items() if name != "checksum"} | ODD[how]
        return json.dumps(
            {**kept, "checksum": records.short(json.dumps(kept, sort_keys=True, separators=(",", ":")))}
        )
    return {
        "empty": "",
        "half": text[: len(text) // 2],
        "a list": "[]",
        "no text": "\udcff",
        "edited": text.replace("1.3333", "1.4333"),
        "not a number": text.replace("1.3333333333333333", "NaN"),
        "infinite": text.replace("1.3333333333333333", "1e999"),
        "deep": text.replace("1.3333333333333333", "[" * 100_000 + "]" * 100_000),
    }[how]


@pytest.mark.parametrize(
    "how, words",
    [
        ("empty", "damaged"),
        ("half", "damaged"),
        ("a list", "it holds no record"),
        ("no text", "damaged"),
        ("edited", "changed after it was written"),
        ("other type", "seed is not as a result has it"),
        ("lacks rows", "rows is not as a result has it"),
        ("has more", "note is not"),
        ("not a number", "damaged .NaN is no finite number"),
        ("infinite", "damaged .1e999 is no finite number"),
        ("deep", "damaged .it is nested too deep"),
        ("no settings", "config is not as a result has it"),
        ("a row that is none", "is no row .cell, measure, value."),
        ("a row of text", "is no row .cell, measure, value."),
        ("a row of no list", "is no row .cell, measure, value."),
        ("a history of texts", "step 1 is no line .name: number. of a history"),
        ("a history of lists", "is no line .name: number. of a history"),
        ("a schema of lists", "has schema '.2.' and this causalnb reads 2"),
        ("newer", r"has schema 3 and this causalnb reads 2: update causalnb, or delete it and `causalnb run"),
        ("older", r"has schema 1 and this causalnb reads 2: delete it and `causalnb run toy.sum --profile"),
    ],
)
def test_a_damaged_result_is_named_and_left_alone(stored, how, words):
    path = results.path("toy.sum", "one", 0)
    broken = damage(path.read_text(encoding="utf-8"), how).encode(errors="surrogateescape")
    assert broken != path.read_bytes()
    path.write_bytes(broken)
    with pytest.raises(LabError, match=words) as caught:
        results.read("toy.sum", "one", 0)
    assert "results/laptop/toy.sum/one/seed0.json" in str(caught.value) and "causalnb run toy.sum" in str(
        caught.value
    )
    assert results.state("toy.sum", "one", 0) == ("unreadable", str(caught.value))
    for use in (results.frame, results.long, results.curves, evidence.require, evidence.rows):
        with pytest.raises(LabError, match=words):
            use("toy.sum")
    with pytest.raises(LabError, match=words):
        runner.execute("toy.sum", "one", 0)
    assert path.read_bytes() == broken
    runner.execute("toy.sum", "one", 0, fresh=True)
    assert results.read("toy.sum", "one", 0).rows == stored.rows


@pytest.mark.parametrize("name", ["seed².json", "seed٣.json", "seed.json", "seedx.json"])
def test_a_file_of_an_odd_name_is_no_result(stored, name):
    place = results.path("toy.sum", "one", 0)
    before = results.estimates("toy.sum")["one"]
    (place.parent / os.fsdecode(name.encode())).write_bytes(place.read_bytes())  # in any locale
    assert results.estimates("toy.sum")["one"] == before


def test_times_of_another_device_are_no_estimate(stored, monkeypatch):
    before = results.estimates("toy.sum")["one"]
    results.write(replace(stored, seed=1, device="cuda:a card", cpu_seconds=1e4))
    assert results.estimates("toy.sum")["one"] == before
    monkeypatch.setenv("CAUSALNB_DEVICE", "cuda")
    assert results.estimates("toy.sum")["one"] == 1e4


@pytest.mark.parametrize("what", ["a folder", "a file"])
def test_what_stands_in_the_place_of_a_result_or_its_folder_is_named(stored, what):
    place = results.path("toy.sum", "one", 0)
    shutil.rmtree(place.parent)
    if what == "a folder":
        place.mkdir(parents=True)
    else:
        place.parent.write_text("no folder", encoding="utf-8")
    kind, reason = results.state("toy.sum", "one", 0)
    assert kind == "unreadable" and "results/laptop/toy.sum/one/seed0.json is damaged (" in reason


def test_every_single_digit_counts(stored):
    path = results.path("toy.sum", "one", 0)
    good = path.read_bytes()
    for at in [i for i, byte in enumerate(good) if chr(byte).isdigit()][::7]:
        path.write_bytes(changed := good[:at] + bytes([(good[at] - 48 + 1) % 10 + 48]) + good[at + 1 :])
        try:  # the last digits of a time may name the same float
            same = json.loads(changed) == json.loads(good)
        except ValueError:
            same = False
        told = "fresh" if same else "unreadable"
        assert results.state("toy.sum", "one", 0)[0] == told, good[at - 20 : at + 5]


def test_a_result_in_another_place_is_refused(stored):
    place = results.path("toy.sum", "two", 1)
    place.parent.mkdir(parents=True)
    results.path("toy.sum", "one", 0).rename(place)
    with pytest.raises(LabError, match="holds toy.sum one seed 0 of laptop: put it back"):
        results.read("toy.sum", "two", 1)
    with pytest.raises(LabError, match="there is no result .*seed0.json: make it with"):
        results.read("toy.sum", "one", 0)


def test_a_full_disk_loses_nothing(stored, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", refuse)
        with pytest.raises(LabError, match="seed0.json could not be written because the disk is full"):
            results.write(replace(stored, rows=[["", "total", 0.0]]))
    assert results.read("toy.sum", "one", 0) == stored


def test_states_follow_settings_and_version(lab, stored):
    assert results.state("toy.sum", "one", 0)[0] == "fresh"
    assert results.state("toy.sum", "one", 1) == ("missing", "not run yet")
    assert {job: kind for job, (kind, _) in results.states("toy.sum", arms=["one"]).items()} == {
        ("toy.sum", "one", 0): "fresh",
        ("toy.sum", "one", 1): "missing",
    }
    spec = registry.experiment("toy.sum")
    registry.register(replace(spec, settings={"laptop": {**spec.settings["laptop"], "steps": 5}}))
    assert results.state("toy.sum", "one", 0) == ("stale", "its settings have changed since")
    registry.register(replace(spec, version=2))
    assert results.state("toy.sum", "one", 0) == ("stale", "its experiment has another version now")
    assert results.frame("toy.sum").empty and list(results.frame("toy.sum").columns) == ["arm", "seed"]
    registry.register(spec)
    lab.module.write_text(
        lab.module.read_text(encoding="utf-8").replace("(run.seed + 1) / 3", "(run.seed + 2) / 3"),
        encoding="utf-8",
    )
    forget_code()
    assert results.state("toy.sum", "one", 0)[0] == "fresh"  # that is for its probe to say


@dataclass(frozen=True)
class Settings:
    """The toy's, with one that came later."""

    steps: int = 4
    start: float = 0.0
    nap: float = 0.0
    fault: str = ""
    later: float | None = 0.5


def test_a_new_setting_makes_nothing_stale(lab, stored):
    spec = registry.experiment("toy.sum")
    more = {**spec.settings["laptop"], "later": 0.5}
    registry.register(replace(spec, settings={"laptop": more}))
    assert results.state("toy.sum", "one", 0)[0] == "stale"  # nobody says what it was before
    for settings, state in ((Settings(), "fresh"), (Settings(later=0.6), "stale"), (Settings(5), "stale")):
        registry.register(replace(spec, settings={"laptop": settings}))
        assert results.state("toy.sum", "one", 0)[0] == state


@pytest.mark.parametrize(
    "arm, words",
    [
        ({"steps": 2.5}, "sets 'steps' for a to 2.5: give a int"),
        ({"steps": True}, "sets 'steps' for a to True: give a int"),
        ({"fault": 3}, "sets 'fault' for a to 3: give a str"),
        ({"later": "x"}, "sets 'later' for a to 'x': give a float | None"),
    ],
)
def test_settings_have_types(lab, arm, words):
    spec = replace(registry.experiment("toy.sum"), settings={"laptop": Settings()})
    registry.register(replace(spec, arms={"a": {"start": 1, "later": None}}))
    with pytest.raises(LabError, match=re.escape(words)):
        registry.register(replace(spec, arms={"a": arm}))


def test_an_unverified_result_is_used(stored, monkeypatch):
    monkeypatch.setattr(probes, "state", lambda *_: (False, "the code that it ran has changed since"))
    assert results.state("toy.sum", "one", 0) == ("unverified", "the code that it ran has changed since")
    assert len(results.frame("toy.sum")) == 1 and len(evidence.lacking("toy.sum")[0]) == 3
    assert runner.execute("toy.sum", "one", 0) == stored


def test_quick_results_are_of_the_code_of_today(lab):
    evidence.require("toy.sum", "quick", ["one"])
    assert results.state("toy.sum", "one", 0, "quick")[0] == "fresh"
    lab.module.write_text(
        lab.module.read_text(encoding="utf-8").replace("(run.seed + 1) / 3", "(run.seed + 2) / 3"),
        encoding="utf-8",
    )
    forget_code()
    assert results.state("toy.sum", "one", 0, "quick") == ("stale", "the code has changed since")


def test_settings_hash_ignores_order():
    assert results.settings_hash({"a": 1, "b": [1.5]}) == results.settings_hash({"b": [1.5], "a": 1})
    assert results.settings_hash({"a": 1}) != results.settings_hash({"a": 2})


def test_git_of_a_checkout(lab, monkeypatch):
    def git(*words):
        subprocess.run(
            ["git", "-C", lab.folder, "-c", "user.name=a", "-c", "user.email=a@b", *words],
            check=True,
            capture_output=True,
        )

    (lab.folder / "causalnb").mkdir()
    (lab.folder / "causalnb" / "x.py").touch()
    git("init")
    assert results.git() == {"commit": None, "dirty": None}
    git("add", "causalnb")
    git("commit", "-m", "first")
    made = results.git()
    assert len(made["commit"]) == 40 and made["dirty"] is False
    (lab.folder / "data" / "new.json").touch()
    assert results.git() == made
    (lab.folder / "causalnb" / "x.py").write_text("x = 1", encoding="utf-8")
    assert results.git() == {**made, "dirty": True}
    monkeypatch.setenv("CAUSALNB_HOME", str(lab.folder / "data"))
    assert results.git() == {"commit": None, "dirty": None}
    monkeypatch.setenv("PATH", "")
    assert results.git() == {"commit": None, "dirty": None}


def test_versions_without_a_package(monkeypatch):
    def none(name):
        raise records.importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(records.importlib.metadata, "version", none)
    monkeypatch.setattr(results, "installed", records.installed.__wrapped__)
    assert results.versions()["torch"] is None


def test_estimates_come_from_measured_times(lab):
    assert results.estimates("toy.sum")["one"] == 7.0 and results.estimates("toy.sum", "quick")["one"] == 1.0
    first = runner.execute("toy.sum", "one", 0)
    for seed, seconds in ((0, 3.0), (1, 9.0), (2, 4.0)):
        results.write(replace(first, seed=seed, cpu_seconds=seconds))
    results.path("toy.sum", "one", 0).with_name("seedless.json").write_text("{}", encoding="utf-8")
    assert results.estimates("toy.sum")["one"] == 4.0
    assert results.estimates("toy.sum")["two"] == 4.0
    second = runner.execute("toy.sum", "two", 0)
    results.write(replace(second, cpu_seconds=100.0))
    assert results.estimates("toy.sum")["two"] == 100.0
    results.write(replace(first, seed=0, cpu_seconds=3.0, config={}))
    assert results.estimates("toy.sum")["one"] == 6.5
    assert [results.duration(s) for s in (0.1, 89, 90, 3600, 9000)] == [
        "1 s",
        "89 s",
        "2 min",
        "60 min",
        "2.5 h",
    ]


def test_frames_hold_the_seeds_asked_for(lab):
    for arm in ("one", "two"):
        for seed in range(3):
            runner.execute("toy.sum", arm, seed)
    frame = results.frame("toy.sum")
    assert list(frame.columns) == ["arm", "seed", "total", "resumed"]
    assert list(zip(frame["arm"], frame["seed"], strict=False)) == [
        ("one", 0),
        ("one", 1),
        ("two", 0),
        ("two", 1),
    ]
    assert frame["total"].tolist() == pytest.approx([4 / 3, 8 / 3, 10 + 4 / 3, 10 + 8 / 3])
    one = results.read("toy.sum", "one", 0)
    results.write(replace(one, rows=[["", "total", None], ["", "resumed", 0.0]]))
    assert math.isnan(results.frame("toy.sum", arms=["one"])["total"][0])
    curves = results.curves("toy.sum", arms=["two"])
    assert list(curves.columns) == ["arm", "seed", "step", "loss"] and len(curves) == 6
    assert curves["loss"].tolist() == [1, 1 / 2, 1 / 3] * 2
    with pytest.raises(LabError, match="no arm of toy.sum called 'on': did you mean one"):
        results.frame("toy.sum", arms=["on"])


def test_long_frames_hold_a_line_for_each_row(lab):
    assert list(results.long("toy.sum").columns) == ["arm", "seed", "cell", "measure", "value"]
    assert results.long("toy.sum").empty
    long = evidence.rows("toy.sum", arms=["two"])
    assert long.values.tolist() == [
        ["two", seed, "", measure, pytest.approx(value)]
        for seed in range(2)
        for measure, value in (("total", 10 + (seed + 1) * 4 / 3), ("resumed", 0.0))
    ]
    results.write(replace(results.read("toy.sum", "two", 1), rows=ROWS))
    long = results.long("toy.sum", arms=["two"])
    assert len(long) == 2 + len(ROWS) and long.value.dtype == float
    its = long[long.seed == 1]
    assert its[["cell", "measure"]].values.tolist() == [[cell, measure] for cell, measure, _ in ROWS]
    assert its.value.tolist() == pytest.approx([0.1, 1e-300, math.nan, -0.0, 3.0], nan_ok=True, abs=0)
    frame = results.frame("toy.sum", arms=["two"])
    assert [*frame.columns] == ["arm", "seed", "total", "resumed", *WIDE]
    assert frame[WIDE].iloc[1].tolist() == pytest.approx(its.value.tolist(), nan_ok=True, abs=0)
    assert frame[WIDE].iloc[0].isna().all()


def test_a_diverged_run_has_no_numbers_and_a_name(lab):
    evidence.require("toy.sum")
    assert evidence.require("toy.sum").attrs["diverged"] == evidence.rows("toy.sum").attrs["diverged"] == []
    one, two = (results.read("toy.sum", arm, 1) for arm in ("one", "two"))
    results.write(replace(one, history=[{"step": 1, "loss": 2.0}, {"step": 2, "loss": math.nan}]))
    results.write(replace(two, rows=[["", "total", math.inf], ["", "resumed", 0.0]]))
    names = ["toy.sum one seed 1", "toy.sum two seed 1"]
    for read in (evidence.require, evidence.rows):
        with evidence.diverging() as runs:
            found = read("toy.sum")
        assert [*runs] == found.attrs["diverged"] == names
    assert found.value.isna().tolist() == [False, False, True, True, False, False, True, False]
    assert results.frame("toy.sum", arms=["one"])[["total", "resumed"]].isna().all(axis=1).tolist() == [0, 1]


def test_a_measure_that_no_seed_of_an_arm_has_is_undefined_there(lab):
    for seed in range(2):
        kept = runner.execute("toy.sum", "one", seed)
        results.write(replace(kept, rows=[["", "total", None], ["", "resumed", 0.0]]))
    assert results.frame("toy.sum").attrs["diverged"] == []


def test_require_trains_what_is_short(lab, capfd):
    frame = evidence.require("toy.sum", arms=["two"])
    assert frame["total"].tolist() == pytest.approx([10 + 4 / 3, 10 + 8 / 3])
    assert "toy.sum" in capfd.readouterr().err
    dates = results.path("toy.sum", "two", 0).stat().st_mtime_ns
    assert evidence.require("toy.sum", arms=["two"]).equals(frame)
    assert results.path("toy.sum", "two", 0).stat().st_mtime_ns == dates


def test_require_says_the_command_for_what_is_long(lab, monkeypatch):
    spec = replace(registry.experiment("toy.sum"), cost={"laptop": 30})
    registry.register(spec)
    with pytest.raises(
        LabError,
        match=r"4 of 4 laptop results of toy.sum are not there: `causalnb run toy.sum "
        r"--profile laptop` makes them in about 60 s",
    ):
        evidence.require("toy.sum")
    assert not results.path("toy.sum", "one", 0).exists()
    assert len(evidence.require("toy.sum", "quick")) == 2
    monkeypatch.setenv("FRESH", "1")
    assert len(evidence.require("toy.sum")) == 4


def test_quick_is_always_trained(lab):
    registry.register(replace(registry.experiment("toy.sum"), cost={"laptop": 1e9}))
    assert evidence.require("toy.sum", "quick", ["one"])["total"].tolist() == pytest.approx([2 / 3])


def test_digest_speaks_of_numbers_not_of_times(lab):
    assert results.digest(["toy.sum"]) is None
    evidence.require("toy.sum")
    before = results.digest(["toy.sum"])
    one = results.read("toy.sum", "one", 0)
    results.write(replace(one, cpu_seconds=5.0, date="2030-01-01T00:00:00+00:00"))
    assert results.digest(["toy.sum"]) == before != results.digest(["toy.sum"], texts=["a claim"])
    results.write(replace(one, rows=one.rows[::-1]))
    assert results.digest(["toy.sum"]) == before
    for changed in (
        {"rows": [["", "total", 0.0], ["", "resumed", 0.0]]},
        {"rows": [["total", *row[1:]] for row in one.rows]},
        {"history": one.history[1:]},
    ):
        results.write(replace(one, **changed))
        assert results.digest(["toy.sum"]) not in (before, None)
    assert results.digest([]) == results.digest([])
