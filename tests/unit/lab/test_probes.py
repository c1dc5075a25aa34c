"""Probes: the first steps are the real ones, what differs is named, and what did not run is not verified."""

import json
import re
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path

import pytest

from causalnb.errors import LabError
from causalnb.lab import codebase, doctor, probes, records, registry, results, runner
from causalnb.lab.probes import Check
from tests.unit.lab.conftest import forget_code

REAL_STATE = probes.state
TRAINED = '''
    """A toy that trains a line on four points."""
    from causalnb.lab.probes import scored
    from causalnb.lab.registry import Experiment, register

    def slope(config):
        """The line."""
        if config["kind"] == "steep":
            return 4.0
        return 2.0

    def sums(rows):
        """Sums."""
        return sum(rows)

    def go(run):
        """Trains."""
        import torch
        from transformers import set_seed

        from causalnb.lab.training import TrainingSettings, train

        class Line(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.a = torch.nn.Parameter(torch.zeros(3))

            def forward(self, x, y):
                return {"loss": ((self.a.sum() * x - y) ** 2).mean()}

        set_seed(run.seed)
        rows = [{"x": float(i), "y": slope(run.config) * i} for i in range(4)]
        model = Line()

        def collate(rows):
            return {name: torch.tensor([row[name] for row in rows]) for name in ("x", "y")}

        settings = TrainingSettings.of(run.config, seed=run.seed)
        batches = [[i % 4, (i + 1) % 4] for i in range(run.config["steps"])]
        history = train(model, rows, collate, batches, settings, run.folder,
                        lambda model: {"a": float(model.a[0])}, run.progress)
        whole = {"a": float(model.a[0]), "seconds": 1.0, "sum": sums([1, 2])}
        return {"metrics": {"": whole, "test/easy": {"rows": len(scored(list(range(50))))}},
                "history": history}

    BASE = {"steps": 40, "learning_rate": 0.1, "evaluate_every": 10, "kind": "flat"}
    register(Experiment("toy.line", "a line", {"one": {}, "two": {"kind": "steep"}},
                        {"laptop": BASE, "quick": {"steps": 2, "evaluate_every": 1}},
                        {"laptop": 1, "quick": 1}, go, {"laptop": 7, "quick": 1}, timed=("seconds",)))
'''


@pytest.fixture
def line(lab, monkeypatch):
    """The trained toy, with its code known and its state read from its probe; probes run in this process."""
    file = lab.folder / "toyline.py"
    file.write_text(textwrap.dedent(TRAINED), encoding="utf-8")
    monkeypatch.setattr(probes, "state", REAL_STATE)
    monkeypatch.delitem(sys.modules, "toyline", raising=False)
    forget_code()
    import toyline

    yield file, toyline
    sys.modules.pop("toyline", None)


def edit(file: Path, old: str, new: str) -> None:
    """Change the toy's code and import it anew."""
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")
    del sys.modules["toyline"]
    registry._experiments.pop("toy.line")
    forget_code()
    sys.dont_write_bytecode = True
    __import__("toyline")


@pytest.fixture
def traced(monkeypatch):
    """Coverage's own tracer, whatever traces these tests; the line numbers come from sys.settrace."""

    class Lines:
        def __init__(self, **_):
            self.found = {}

        def start(self):
            self.before = sys.gettrace()
            sys.settrace(self.note)

        def note(self, frame, event, _):
            name = frame.f_code.co_filename
            if "toyline" not in name:
                return None
            self.found.setdefault(name, set()).add(frame.f_lineno)
            return self.note

        def stop(self):
            sys.settrace(self.before)

        def get_data(self):
            return self

        def measured_files(self):
            return list(self.found)

        def lines(self, file):
            return sorted(self.found[file])

    monkeypatch.setattr("coverage.Coverage", Lines)


def test_the_first_steps_are_those_of_the_real_run(line, traced):
    numbers, _ = probes.measure("toy.line", "one")
    steps = numbers["first"]["steps"]
    assert [one["step"] for one in steps] == [1, 2, 3]
    assert [one["learning_rate"] for one in steps] == pytest.approx([0.0, 0.025, 0.05])  # 4 steps of warm-up
    assert [one["update"] for one in steps][0] == 0.0 and all(one["update"] > 0 for one in steps[1:])
    assert steps[0]["loss"] == pytest.approx((0 + 2**2) / 2) and steps[0]["gradient"] > 0
    assert numbers["first"]["metrics"]["test/easy"]["rows"] == probes.ROWS
    assert [row["step"] for row in numbers["first"]["history"]] == [3]
    assert numbers["quick"]["steps"] == [] and numbers["quick"]["metrics"]["test/easy"]["rows"] == 50
    assert [row["step"] for row in numbers["quick"]["history"]] == [1, 2]
    assert probes.now() is None


def test_an_arm_is_verified_by_its_probe_and_stays_so(line, traced):
    assert probes.state("toy.line", "one") == (False, "it has no probe yet")
    record = probes.make("toy.line", "one")
    assert probes.read("toy.line", "one") == {**record}
    assert probes.state("toy.line", "one") == (True, "verified")
    runner.execute("toy.line", "one", 0)
    assert results.state("toy.line", "one", 0)[0] == "fresh"
    edit(line[0], '"""Sums."""', '"""Adds."""\n    # in no time')
    assert probes.state("toy.line", "one") == (True, "verified")


def test_a_refactoring_is_verified(line, traced):
    probes.make("toy.line", "one")
    edit(line[0], "return sum(rows)", "total = sum(rows)\n    return total")
    assert probes.state("toy.line", "one") == (False, "the code that it ran has changed since")
    (one,) = probes.accept([probes.check("toy.line", "one")])
    assert (one.outcome, one.detail) == ("verified", "")
    assert probes.state("toy.line", "one") == (True, "verified")
    assert len(probes.read("toy.line", "one")["verified"]) == 1


@pytest.mark.parametrize(
    "old, new, words",
    [
        ("TrainingSettings.of(run.config, seed", "TrainingSettings.of({**run.config, 'learning_rate': "
         "run.config['learning_rate'] * 1.001}, seed", r"first.steps\[1\].update"),
        ("* i}", "* i + 0.001}", r"first.steps\[0\].loss: 2 stored, 2.00"),
        ("return sum(rows)", "return sum(rows) + 1", "first.metrics.sum: 3 stored, 4 now"),
        ('"sum": sums([1, 2])', '"sum": sums([1, 2]), "more": 1', "first.metrics.more: nothing"),
        ("range(50)", "range(7)", "first.metrics.test/easy.rows: 8 stored, 7 now"),
    ],
)  # fmt: skip
def test_the_first_number_that_differs_is_named(line, traced, old, new, words):
    probes.make("toy.line", "one")
    before = probes.path("toy.line", "one").read_bytes()
    edit(line[0], old, new)
    (one,) = probes.accept([probes.check("toy.line", "one")])
    assert one.outcome == "differs"
    assert re.match(words, one.detail), one.detail
    assert probes.path("toy.line", "one").read_bytes() == before
    assert not probes.state("toy.line", "one")[0]


def test_seconds_may_differ(line, traced):
    probes.make("toy.line", "one")
    edit(line[0], '"seconds": 1.0', '"seconds": 1.5')
    assert probes.accept([probes.check("toy.line", "one")])[0].outcome == "verified"


def test_a_changed_line_that_no_probe_runs_stays_unverified(line, traced):
    for arm in ("one", "two"):
        probes.make("toy.line", arm)
    edit(line[0], "return 4.0", "return 8.0 / 2")
    one = probes.check("toy.line", "one")  # its line is the other one
    assert [item.outcome for item in probes.accept([one])] == ["unrun"]
    assert "toyline.py line 9 is new, and no probe ran it" in probes.accept([one])[0].detail
    assert probes.state("toy.line", "one") == (False, "the code that it ran has changed since")
    both = probes.accept([one, probes.check("toy.line", "two")])
    assert [item.outcome for item in both] == ["verified", "verified"]
    assert probes.state("toy.line", "one")[0] and probes.state("toy.line", "two")[0]


def test_a_check_that_waits_for_another_probe_is_not_run_again(line, traced, monkeypatch):
    for arm in ("one", "two"):
        probes.make("toy.line", arm)
    edit(line[0], "return 4.0", "return 8.0 / 2")
    assert [item.outcome for item in probes.accept([probes.check("toy.line", "one")])] == ["unrun"]
    two = probes.check("toy.line", "two")

    def never(*_):
        raise AssertionError("it is measured again")

    measure = probes.measure
    monkeypatch.setattr(probes, "measure", never)
    assert [item.outcome for item in probes.accept([probes.check("toy.line", "one")])] == ["unrun"]
    edit(line[0], "return 8.0 / 2", "return 8.0 / 2  # unprobed: the other arm's")  # told later: it counts
    assert [item.outcome for item in probes.accept([probes.check("toy.line", "one")])] == ["verified"]
    assert [item.outcome for item in probes.accept([two])] == ["verified"]
    edit(line[0], "return 8.0 / 2  # unprobed: the other arm's", "return 16.0 / 4")
    monkeypatch.setattr(probes, "measure", measure)
    assert [item.outcome for item in probes.accept([probes.check("toy.line", "one")])] == ["unrun"]
    monkeypatch.setattr(probes, "measure", never)
    waiting = probes._waiting("toy.line", "one")
    for damage in ("{", "{}", waiting.read_text(encoding="utf-8").replace('"probe": "', '"probe": "x')):
        waiting.write_text(damage, encoding="utf-8")
        with pytest.raises(AssertionError, match="measured again"):
            probes.check("toy.line", "one")
    edit(line[0], "return sum(rows)", "total = sum(rows)\n    return total")  # of other code
    with pytest.raises(AssertionError, match="measured again"):
        probes.check("toy.line", "one")


def test_a_line_that_says_why_it_is_not_reached_is_trusted(line, traced):
    probes.make("toy.line", "one")
    edit(line[0], "return 4.0", "return 8.0 / 2  # unprobed: the other arm's")
    assert [item.outcome for item in probes.accept([probes.check("toy.line", "one")])] == ["verified"]
    edit(line[0], "  # unprobed: the other arm's", "  # unprobed")  # without a reason it says nothing
    edit(line[0], "return 8.0 / 2", "return 16.0 / 4")
    assert [item.outcome for item in probes.accept([probes.check("toy.line", "one")])] == ["unrun"]


def test_a_line_is_shown_by_a_probe_that_was_verified_before(line, traced):
    for arm in ("one", "two"):
        probes.make("toy.line", arm)
    edit(line[0], "return 4.0", "return 8.0 / 2")
    one = probes.check("toy.line", "one")
    probes.make("toy.line", "two")
    assert [item.outcome for item in probes.accept([one])] == ["verified"]


def test_other_libraries_are_another_state(line, traced, monkeypatch):
    probes.make("toy.line", "one")
    mine = probes.versions()
    monkeypatch.setattr(probes, "versions", lambda: {**mine, "torch": "9.9.9"})
    state = probes.state("toy.line", "one")
    assert state[0] is False and "did not run with torch 9.9.9 and transformers" in state[1]
    assert probes.accept([probes.check("toy.line", "one")])[0].outcome == "verified"
    assert probes.state("toy.line", "one")[0]
    assert [one["torch"] for one in probes.read("toy.line", "one")["verified"]] == [mine["torch"], "9.9.9"]
    monkeypatch.undo()


@pytest.mark.parametrize("change", [{"version": 2}, {"settings": {"laptop": {"steps": 41}}}])
def test_a_probe_of_another_version_or_other_settings_verifies_nothing(line, traced, change):
    probes.make("toy.line", "one")
    spec = registry.experiment("toy.line")
    if "settings" in change:
        change = {"settings": {**spec.settings, "laptop": {**spec.settings["laptop"], "steps": 41}}}
    registry.register(replace(spec, **change))
    assert probes.state("toy.line", "one")[0] is False


def test_a_damaged_probe_is_named_and_verifies_nothing(line, traced):
    probes.make("toy.line", "one")
    runner.execute("toy.line", "one", 0)
    file = probes.path("toy.line", "one")
    good = file.read_text(encoding="utf-8")
    for broken in ("", "[]", good[:50], good.replace("toy.line", "toy.lime", 1), good.replace("40", "41", 1)):
        file.write_text(broken, encoding="utf-8")
        with pytest.raises(LabError, match="probes/laptop/toy.line/one.json is damaged"):
            probes.read("toy.line", "one")
        assert results.state("toy.line", "one", 0)[0] == "unverified"


@pytest.mark.parametrize("change, said", [
    ({"config": None}, "config is not as a probe has it"),
    ({"seconds": "1"}, "seconds is not as a probe has it"),
    ({"verified": [None]}, "verified is not as a probe has it"),
    ({"verified": [{"torch": "2"}]}, "verified is not as a probe has it"),
    ({"seconds": float("nan")}, "NaN is no finite number"),
    ({"seconds": float("-inf")}, "-Infinity is no finite number"),
])  # fmt: skip
def test_a_probe_of_odd_values_is_named(line, traced, change, said):
    probes.make("toy.line", "one")
    runner.execute("toy.line", "one", 0)
    file = probes.path("toy.line", "one")
    kept = {
        name: value
        for name, value in json.loads(file.read_text(encoding="utf-8")).items()
        if name != "checksum"
    } | change
    text = json.dumps(kept, sort_keys=True, separators=(",", ":"))
    file.write_text(json.dumps({**kept, "checksum": records.short(text)}), encoding="utf-8")
    with pytest.raises(LabError, match=f"probes/laptop/toy.line/one.json is damaged .{said}"):
        probes.read("toy.line", "one")
    kind, reason = results.state("toy.line", "one", 0)
    assert kind == "unverified" and said in reason
    assert doctor.damaged(["toy.line"]) == [reason]


def test_a_probe_of_another_arm_is_refused(line, traced):
    probes.make("toy.line", "one")
    probes.path("toy.line", "one").rename(probes.path("toy.line", "two"))
    with pytest.raises(LabError, match=r"toy.line/two.json is damaged \(it is of toy.line one\): restore"):
        probes.read("toy.line", "two")


@pytest.mark.parametrize(
    "stored, found, words",
    [
        ({"a": 1.0}, {"a": 1.0 + 9e-6}, None),
        ({"a": 1.0}, {"a": 1.0 + 2e-5}, "a: 1 stored, 1.00002 now"),
        ({"a": 1e-9}, {"a": -1e-9}, None),
        ({"a": None}, {"a": 0.0}, "a: None stored, 0 now"),
        ({"a": [1.0, {"b": "x"}]}, {"a": [1.0, {"b": "y"}]}, "a[1].b: x stored, y now"),
        ({"a": 1}, {}, "a: 1 stored, nothing now"),
        ({"a": True}, {"a": 1.0}, None),
        # scores follow the steps: less exactly where the steps' last digits are another processor's
        ({"steps": [1.0], "a": 1.0, "b": 2.0}, {"steps": [1.0], "a": 1.0 + 1e-7, "b": 2.001}, None),
        ({"a": 1.0, "b": 2.0}, {"a": 1.0, "b": 2.001}, "b: 2 stored, 2.001 now"),
        ({"steps": [1.0], "a": 1.0}, {"steps": [1.0001], "a": 1.0 + 1e-7}, "steps[0]: 1 stored, 1.0001 now"),
        # a share of 12 rows: tipped by another processor's last digits, or by other code
        ({"a": 2.3, "b": 4 / 12}, {"a": 2.3 + 1e-7, "b": 5 / 12}, None),
        ({"a": 2.3, "b": 0.3333333}, {"a": 2.3, "b": 5 / 12}, "b: 0.3333333 stored, 0.41666667 now"),
        ({"a": 2.3, "b": 0.5}, {"a": 2.3 + 1e-7, "b": 0.75}, None),
        ({"a": 2.3, "b": 4 / 12}, {"a": 2.3 + 1e-7, "b": 7 / 12}, "b: 0.33333333 stored, 0.58333333 now"),
        ({"a": 2.3, "b": 0.0}, {"a": 2.3 + 1e-7, "b": 0.5}, "b: 0 stored, 0.5 now"),
        ({"a": 2.3, "b": 0.33}, {"a": 2.3 + 1e-7, "b": 0.41}, "b: 0.33 stored, 0.41 now"),
        ({"a": 2.3, "b": [0.5] * 3}, {"a": 2.3 + 1e-7, "b": [0.375] * 3}, "b[0]: 0.5 stored, 0.375 now"),
    ],
)
def test_difference(stored, found, words):
    assert probes.difference(stored, found, 1e-5) == words


def test_verify_runs_children_and_names_what_was_not_reached(line, monkeypatch):
    folder = line[0].parent
    child = folder / "probing.py"
    child.write_text(
        f"import sys, pathlib\nsys.path.insert(0, folder := {str(folder)!r})\nimport toyline\n"
        "from causalnb.lab import codebase, probes\n"
        "codebase.roots = lambda: {'toyline': pathlib.Path(folder)}\n"
        "probes.main()\n",
        encoding="utf-8",
    )
    monkeypatch.setattr(probes, "COMMAND", [sys.executable, str(child)])
    told = []
    made = probes.verify([("toy.line", "one"), ("toy.none", "one")], 1, create=True, tell=told.append)
    assert [(one.experiment, one.outcome) for one in made] == [("toy.line", "made"), ("toy.none", "failed")]
    assert "there is no experiment 'toy.none'" in made[1].detail and len(told) == 2
    again = probes.verify([("toy.line", "one")], 2)
    assert [one.outcome for one in again] == ["verified"]
    monkeypatch.setattr(probes, "COMMAND", [sys.executable, "-c", "import os; os._exit(3)"])
    ended = probes.verify([("toy.line", "one"), ("toy.line", "two")], 1)
    assert [one.outcome for one in ended] == ["failed", "failed"]
    assert {one.detail for one in ended} == {probes.ENDED}


def test_a_process_probes_some_and_the_next_goes_on(line, monkeypatch):
    started = line[0].parent / "started"
    said = json.dumps({"experiment": "toy.line", "arm": "one", "outcome": "failed"})
    child = (
        f"import sys\nopen({str(started)!r}, 'a').write('.')\nfor _ in sys.stdin: print({said!r}, flush=True)"
    )
    monkeypatch.setattr(probes, "COMMAND", [sys.executable, "-c", child])
    monkeypatch.setattr(probes, "PER_PROCESS", 2)
    told = []
    probes.verify([("toy.line", str(number)) for number in range(5)], 1, tell=told.append)
    assert len(told) == 5 and not any(one.detail for one in told)  # each was asked and answered
    assert started.read_text(encoding="utf-8") == "..."


SILENT = "import sys, time\nfor _ in sys.stdin: time.sleep(600)"


def test_a_probe_that_takes_too_long_is_ended(line, monkeypatch):
    monkeypatch.setattr(probes, "COMMAND", [sys.executable, "-c", SILENT])
    monkeypatch.setattr(probes, "LONGEST", 0.5)
    [one] = probes.verify([("toy.line", "one")], 1)
    assert (one.outcome, one.detail) == ("failed", probes.ENDED)


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_verify_ends_its_children_at_once(tmp_path, sign):
    started = tmp_path / "started"
    child = f"import os, sys; open({str(started)!r}, 'a').write(f'{{os.getpid()}} '); {SILENT[11:]}"
    parent = (
        "from causalnb.cli.common import stoppable\nfrom causalnb.lab import probes\n"
        f"probes.COMMAND[-1] = {('import sys, time' + chr(10) + child)!r}\n"
        "with stoppable(): probes.verify([('toy.line', 'one'), ('toy.line', 'two')], 2)\n"
    )
    verifying = subprocess.Popen([sys.executable, "-c", parent], stderr=subprocess.DEVNULL)
    try:
        waited(lambda: started.exists() and len(started.read_text(encoding="utf-8").split()) == 2)
        verifying.send_signal(sign)
        verifying.wait(5)
    finally:
        verifying.kill()
    pids = started.read_text(encoding="utf-8").split()
    waited(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))


def waited(true, seconds: float = 30.0) -> None:
    """Until `true()` is."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.05)


def test_a_child_takes_the_first_steps_only(line, monkeypatch):
    """The module that the child starts is the one that training asks."""
    folder = line[0].parent
    start = (
        f"import sys, pathlib; sys.path.insert(0, {str(folder)!r}); import toyline; "
        "from causalnb.lab import codebase; "
        f"codebase.roots = lambda: {{'toyline': pathlib.Path({str(folder)!r})}}; "
    )
    monkeypatch.setattr(probes, "COMMAND", [*probes.COMMAND[:-1], start + probes.COMMAND[-1]])
    assert [one.outcome for one in probes.verify([("toy.line", "one")], 1, create=True)] == ["made"]
    first = probes.read("toy.line", "one")["numbers"]["first"]
    assert [one["step"] for one in first["steps"]] == [1, 2, 3] and first["history"][-1]["step"] == 3


def test_a_check_without_a_probe_says_what_to_do(line):
    why = "it has none: add --make to store one"
    assert probes.check("toy.line", "one") == Check("toy.line", "one", "no probe", why)
    assert not probes.path("toy.line", "one").exists()


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"config": {"steps": 7}}, "its probe has other settings"),
        ({"version": 9}, "its probe is of another version"),
    ],
)
def test_a_probe_of_other_settings_is_made_again_and_not_compared(line, traced, changes, why):
    made = probes.make("toy.line", "one")
    for again in (
        lambda: probes.check("toy.line", "one", create=True),
        lambda: probes.ensure("toy.line", "one"),
    ):
        changed = {"config": made["config"] | changes.get("config", {}), "version": changes.get("version", 1)}
        probes.write(made | changed)
        assert probes.state("toy.line", "one") == (False, why)
        found = probes.check("toy.line", "one")
        assert (found.outcome, found.detail) == ("no probe", f"{why}: add --make to store one")
        again()
        assert probes.state("toy.line", "one") == (True, "verified")
    before = probes.path("toy.line", "one").stat().st_mtime_ns
    probes.ensure("toy.line", "one")
    assert probes.path("toy.line", "one").stat().st_mtime_ns == before


def test_a_probe_is_a_field_a_line(line, traced):
    probes.make("toy.line", "one")
    text = probes.path("toy.line", "one").read_text(encoding="utf-8")
    record = json.loads(text)
    assert len(text.splitlines()) == len(record) + 2 and set(record) == {*probes.FIELDS, "checksum"}
    assert codebase.index().holds(record["verified"][0]["units"], record["verified"][0]["edges"])


def test_a_fit_is_looked_at_once_within_a_probe():
    assert probes.looked_at((300, 1000)) == [300, 1000]
    with probes.probing(steps=3):
        assert probes.looked_at((300, 1000)) == [3]
