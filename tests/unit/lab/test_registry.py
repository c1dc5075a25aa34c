"""What can be registered, what an id stands for, and how an artefact's status is computed."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import causalnb
from causalnb import paths
from causalnb.errors import FileError, LabError
from causalnb.lab import (
    building,
    codebase,
    doctor,
    evidence,
    latex,
    manifest,
    paper,
    probes,
    registry,
    report,
    results,
    runner,
    tables,
    verdicts,
)
from tests.unit.lab.conftest import forget_code


def change(spec, **values):
    return replace(spec, id="toy.new", **values)


@pytest.mark.parametrize(
    "values, words",
    [
        ({"id": "Toy"}, "'Toy' is no experiment id"),
        ({"id": "toy/x.y"}, "no experiment id"),
        ({"arms": {}}, "an arm called ''"),
        ({"arms": {"a/b": {}}}, "an arm called 'a/b'"),
        ({"arms": {"a": {"stepps": 1}}}, "sets 'stepps' for a only"),
        ({"settings": {"quick": {"steps": 1}}}, r"settings of toy.new are for \['quick'\]"),
        ({"settings": {"laptop": {"steps": 1}, "quick": {"stepps": 1}}}, "sets 'stepps' for quick only"),
        ({"at_most": {"quick": {"stepps": 1}}}, "sets 'stepps' for quick only"),
        ({"seeds": {"laptop": 2, "labtop": 1}}, "the seeds of toy.new are for"),
        ({"cost": {}}, "the cost of toy.new"),
        ({"id": "toy.sum", "run": print}, "'toy.sum' is registered already by toylab"),
    ],
)
def test_a_malformed_experiment_is_refused(lab, values, words):
    spec = replace(change(registry.experiment("toy.sum"), arms={"a": {}}), **values)
    with pytest.raises(LabError, match=words):
        registry.register(spec)
    assert "toy.new" not in registry._experiments


def test_settings_are_laid_over_each_other(lab):
    spec = registry.experiment("toy.sum")
    registry.register(
        change(
            spec,
            settings={"laptop": {"steps": 4, "start": 0, "pair": (1, 2)}, "quick": {"steps": 2}},
            arms={"a": {}, "b": {"start": 5}},
        )
    )
    assert registry.config("toy.new", "a", "laptop") == {"steps": 4, "start": 0, "pair": [1, 2]}
    assert registry.config("toy.new", "b", "quick") == {"steps": 2, "start": 5, "pair": [1, 2]}
    assert registry.config("toy.new", "b", "paper") == {"steps": 4, "start": 5, "pair": [1, 2]}
    assert registry.seeds("toy.sum", "quick") == range(1) and registry.seeds("toy.sum", "gpu") == range(2)
    more = registry.register(change(spec, more_seeds={"laptop": {"two": 4}}))
    assert registry.seeds(more.id, "laptop", "two") == registry.seeds(more.id, "gpu", "two") == range(4)
    assert registry.seeds(more.id, "laptop", "one") == registry.seeds(more.id, "laptop") == range(2)
    assert registry.seeds(more.id, "quick", "two") == range(1)
    for odd in ({"tow": 4}, {"two": 2}):
        with pytest.raises(LabError, match="name an arm of it, and at least 3"):
            registry.register(change(spec, more_seeds={"laptop": odd}))
    for value in ({1}, float("nan")):
        registry.register(change(spec, settings={"laptop": {"x": value}}, arms={"a": {}}))
        with pytest.raises(LabError, match="the settings of toy.new a are no json"):
            registry.config("toy.new", "a")


def test_arms_that_differ_in_size_are_bounded_in_a_profile(lab):
    registry.register(
        change(
            registry.experiment("toy.sum"),
            settings={"laptop": {"steps": 4}, "quick": {"steps": 2}},
            arms={"small": {"steps": 1}, "large": {"steps": 900}},
            at_most={"quick": {"steps": 3}},
        )
    )
    assert [registry.config("toy.new", arm, "quick")["steps"] for arm in ("small", "large")] == [1, 3]
    assert registry.config("toy.new", "large", "laptop")["steps"] == 900


def test_unknown_names_bring_close_ones(lab):
    with pytest.raises(LabError, match="no experiment 'toy.som': did you mean toy.sum"):
        registry.experiment("toy.som")
    with pytest.raises(LabError, match="no arm of toy.sum called 'xyz': there are one, two"):
        registry.arms("toy.sum", ["xyz"])
    with pytest.raises(LabError, match="no artefact 'toy.tabel1': did you mean toy.table1"):
        registry.find("toy.tabel1")
    with pytest.raises(LabError, match="no experiment, artefact or source 'oter': did you mean other"):
        registry.resolve(["oter"])


def test_resolve(lab):
    @registry.artefact("toy.table1", needs=("toy.sum", "toy.bad"))
    def build(profile):
        """Nothing."""

    everything = [e.id for e in registry.experiments()]
    assert everything == sorted(everything) and registry.resolve(["toy"]) == everything
    assert registry.resolve(["toy.bad", "toy.table1", "toy.sum"]) == ["toy.bad", "toy.sum"]
    with pytest.raises(LabError, match="toy.fig1 has no builder yet"):
        registry.resolve(["toy.fig1"])
    with pytest.raises(LabError, match="no experiment of other is registered yet"):
        registry.resolve(["other"])


def test_a_name_that_is_an_experiment_and_an_artefact_stands_for_both(lab):
    @registry.artefact("toy.sum", needs=("toy.slow",), extra=True, printed_as="Ours", shows="both")
    def build(profile):
        """Nothing."""

    assert registry.resolve(["toy.sum"]) == ["toy.sum", "toy.slow"]


def test_building_trains_nothing(lab):
    @registry.artefact("toy.table1", needs=("toy.sum",))
    def build(profile):
        """Needs what is not there."""
        evidence.require("toy.sum")

    with pytest.raises(LabError, match="results of toy.sum are not there"):
        building.build("toy.table1")
    assert not results.path("toy.sum", "one", 0).exists()
    assert len(evidence.require("toy.sum")) == 4


def test_an_artefact_is_stale_when_a_claim_of_its_source_changes(lab):
    claims = lab.folder / "data" / "paper" / "claims.csv"
    claims.write_text("id,source\ntoy.claim1,toy\nother.claim1,other\n", encoding="utf-8")

    @registry.artefact("toy.table1")
    def build(profile):
        """A table."""
        tables.save_table(tables.Table("toy.table1", ["a"], [[1]], "c"))

    building.build("toy.table1")
    claims.write_text(
        claims.read_text(encoding="utf-8").replace("other.claim1", "other.claim2"), encoding="utf-8"
    )
    assert building.status("toy.table1")[0] == "built"
    claims.write_text(
        claims.read_text(encoding="utf-8").replace("toy.claim1", "toy.claim2"), encoding="utf-8"
    )
    assert building.status("toy.table1")[0] == "stale"


PRINTED = "row,column,value\nSCI,length,0.014\n"


@pytest.fixture
def printing(lab):
    """The folder of printed files, and a stranger's artefact, made from one of them."""
    folder = lab.folder / "data" / "paper"
    (folder / "toy_table1.csv").write_text(PRINTED, encoding="utf-8")
    (folder / "toy_table2.csv").write_text(PRINTED, encoding="utf-8")
    (folder / "claims.csv").write_text(
        "id,source,artefact\ntoy.claim1,toy,toy.table1\nother.claim1,other,x\n", encoding="utf-8"
    )

    @registry.artefact("toy.table1")
    def build(profile):
        rows = tables.paper("toy.table1")[["row", "value"]].values.tolist()
        tables.save_table(tables.Table("toy.table1", ["row", "value"], rows, "Printed."))

    building.build("toy.table1")
    return folder


@pytest.mark.parametrize(
    "name, old, new, status",
    [
        ("toy_table1.csv", "0.014", "0.814", "stale"),
        ("toy_table2.csv", "0.014", "0.814", "built"),
        ("claims.csv", "toy.claim1", "toy.claim2", "stale"),
        ("claims.csv", "other.claim1", "other.claim2", "built"),
    ],
)
def test_an_artefact_is_stale_when_a_printed_file_that_it_reads_changes(printing, name, old, new, status):
    assert building.status("toy.table1") == ("built", "0 results, 3 files")
    (printing / name).write_text(
        (printing / name).read_text(encoding="utf-8").replace(old, new), encoding="utf-8"
    )
    assert building.status("toy.table1")[0] == status


def test_an_artefact_says_which_printed_files_it_reads(printing):
    assert manifest.entries()["toy.table1"]["paper"] == ["toy_table1.csv"]
    kept = json.loads((printing.parents[1] / "figures" / "manifest.json").read_text(encoding="utf-8"))
    kept["toy.table1"]["paper"] = []  # and the checksum says so
    (printing.parents[1] / "figures" / "manifest.json").write_text(json.dumps(kept), encoding="utf-8")
    assert building.status("toy.table1") == (
        "stale",
        "what the manifest says of it was changed after it was made",
    )


@pytest.mark.parametrize(
    "read, noted",
    [
        (lambda: tables.printed("toy_table1"), {"toy_table1.csv"}),
        (lambda: tables.printed("claims"), {"claims.csv"}),
        (lambda: verdicts.claims("toy"), {"claims.csv toy"}),
        (lambda: report.claims_of("other"), {"claims.csv other"}),
        (lambda: report.cell("toy.table1", "{value}", row="SCI")(), {"toy_table1.csv"}),
        (registry.artefacts, {"artefacts.csv"}),
        (lambda: paper.rows("nothing.csv", ()), {"nothing.csv"}),
    ],
)
def test_every_way_to_a_printed_file_is_noted(printing, read, noted):
    with paper.noted() as found:
        read()
    assert found == noted
    with paper.noted() as found:
        pass
    assert not found


def test_what_was_read_is_told_apart(printing):
    before = paper.used({"toy_table1.csv", "claims.csv toy"})
    assert before[:2] == ["claims.csv toy", "toy.claim1,toy,toy.table1"] and "SCI,length,0.014" in before
    assert paper.used({"gone.csv"}) == ["gone.csv"]


@pytest.mark.parametrize(
    "data",
    [
        b"id,source,artefact\n\xff,a,b\n",
        b'id,source,artefact\n"a,b',
        b"id,source\na,b\n",
        b"id,source,artefact\na,b\n",
        b"id,source,artefact\na,b,c,d\n",
    ],
)
def test_a_damaged_file_of_printed_rows_is_named(printing, data):
    (printing / "claims.csv").write_bytes(data)
    with pytest.raises(FileError, match="^data/paper/claims.csv cannot be read .*: restore it from git.$"):
        report.claims_of("toy")


def test_a_printed_file_that_is_a_folder_is_named(printing):
    (printing / "toy_table1.csv").unlink()
    (printing / "toy_table1.csv").mkdir()
    for read in (lambda: tables.printed("toy_table1"), lambda: building.status("toy.table1")):
        with pytest.raises(FileError, match="data/paper/toy_table1.csv cannot be read .*directory"):
            read()


def test_a_module_that_needs_a_damaged_file_is_told_and_the_rest_is_there(lab, monkeypatch, tmp_path):
    monkeypatch.undo()
    monkeypatch.setenv("CAUSALNB_HOME", str(lab.folder))
    package = tmp_path / "catalogued"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "first.py").write_text(
        "from causalnb.lab import report\nreport.claims_of('toy')\n", encoding="utf-8"
    )
    (package / "second.py").write_text(
        "from causalnb.lab import registry\nregistry.artefact('toy.fig1')(print)\n", encoding="utf-8"
    )
    (lab.folder / "data" / "paper" / "claims.csv").write_bytes(b"\xff")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(causalnb, "CATALOGUES", ["catalogued"])
    monkeypatch.setattr(registry, "_artefacts", {})
    monkeypatch.setattr(registry, "_unread", {})
    for _ in range(2):
        assert registry.find("toy.fig1").build is print
        (said,) = registry.unread()
        assert said.startswith("data/paper/claims.csv cannot be read (")
    assert doctor.damaged([]) == [said]
    with pytest.raises(FileError, match="claims.csv cannot be read"):  # it may be registered there
        registry.experiment("toy.unknown")
    for name in ("catalogued", "catalogued.second"):
        sys.modules.pop(name)


def test_the_list_of_artefacts(lab):
    @registry.artefact("toy.own", extra=True, printed_as="Ours", shows="more")
    def own(profile):
        """Nothing."""

    listed = registry.artefacts()
    assert [a.id for a in listed] == ["toy.table1", "toy.fig1", "other.fig1"]
    assert listed[0] == registry.Artefact("toy.table1", "toy", "Table 1", "the sums", "measured", "20_toy")
    assert registry.artefacts(extras=True)[-1].shows == "more"
    with pytest.raises(LabError, match="extra artefact 'toy.own2' needs printed_as and shows"):
        registry.artefact("toy.own2", extra=True)
    with pytest.raises(LabError, match="'toy.own' has a builder already"):
        registry.artefact("toy.own", extra=True, printed_as="a", shows="b")(print)
    registry.artefact("toy.fig2")(print)
    with pytest.raises(LabError, match="the builder of 'toy.fig2' has no row in data/paper/artefacts.csv"):
        registry.artefacts()


NAMED = "id,source,printed as,what it shows,kind,notebook\n"


@pytest.mark.parametrize("text", [None, "id,source\na,b\n", b"\xff\xfe\x00", NAMED, NAMED + "a,b\n"])
def test_an_unusable_list_of_artefacts_is_named(lab, text):
    path = lab.folder / "data" / "paper" / "artefacts.csv"
    path.unlink() if text is None else path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(LabError, match="data/paper/artefacts.csv is no list of artefacts"):
        registry.artefacts()


def test_load_all_imports_every_module_of_experiments(tmp_path, monkeypatch):
    import causalnb.experiments

    (tmp_path / "planted.py").write_text("x = 1\n", encoding="utf-8")
    monkeypatch.setattr(causalnb.experiments, "__path__", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "causalnb.experiments.planted", raising=False)
    registry.load_all()
    assert sys.modules.pop("causalnb.experiments.planted").x == 1


@pytest.fixture
def table(lab):
    """The toy's table: built from its results; `words` is what it says."""
    words = ["as it is"]

    @registry.artefact("toy.table1", needs=["toy.sum"])
    def build(profile):
        rows = [[row.arm, row.seed, row.total] for row in results.frame("toy.sum", profile).itertuples()]
        tables.save_table(tables.Table("toy.table1", ["arm", "seed", "total"], rows, f"Sums {words[0]}."))

    return words


def test_status_from_nothing_to_built(lab, table):
    assert building.status("other.fig1") == ("missing", "no builder yet")
    assert building.status("toy.table1") == ("missing", "4 of 4 results (toy.sum) missing")
    building.build("toy.table1")
    assert building.status("toy.table1") == ("stale", "4 of 4 results (toy.sum) missing")
    evidence.require("toy.sum")
    assert building.status("toy.table1") == ("stale", "what it is made from has changed since")
    made = building.build("toy.table1")
    assert [path.name for path in made] == ["table1.csv", "table1.md", "table1.tex"]
    assert building.status("toy.table1") == ("built", "4 results, 3 files")
    entry = json.loads((lab.folder / "figures" / "manifest.json").read_text(encoding="utf-8"))["toy.table1"]
    assert (
        entry["needs"] == ["toy.sum"]
        and entry["profile"] == "laptop"
        and entry["caption"] == "Sums as it is."
    )
    assert set(entry["files"]) == {f"toy/table1.{kind}" for kind in ("md", "tex", "csv")}


def test_status_turns_stale_with_anything_that_changes(lab, table):
    evidence.require("toy.sum")
    made = building.build("toy.table1")

    def status(undo):
        found = building.status("toy.table1")
        undo()
        assert building.status("toy.table1")[0] == "built"
        return found

    text = made[0].read_text(encoding="utf-8")
    made[0].write_text(text + " ", encoding="utf-8")
    assert status(lambda: made[0].write_text(text, encoding="utf-8")) == (
        "stale",
        "toy/table1.csv was changed after it was made",
    )
    made[0].unlink()
    assert status(lambda: made[0].write_text(text, encoding="utf-8")) == ("stale", "toy/table1.csv is gone")
    described = manifest.entries()["toy.table1"]
    for field in ("alt", "caption", "checksum"):
        (lab.folder / "figures" / "manifest.json").write_text(
            json.dumps({"toy.table1": {**described, field: "otherwise"}}), encoding="utf-8"
        )
        assert status(lambda: building.build("toy.table1")) == (
            "stale",
            "what the manifest says of it was changed after it was made",
        )
    one = results.read("toy.sum", "one", 1)
    results.write(replace(one, rows=[["", "total", 0.0]]))
    assert status(lambda: results.write(one)) == ("stale", "what it is made from has changed since")
    results.write(replace(one, version=0))
    assert status(lambda: results.write(one)) == ("stale", "1 of 4 results (toy.sum) stale")
    results.path("toy.sum", "one", 1).write_text("{", encoding="utf-8")
    assert status(lambda: results.write(one)) == ("stale", "1 of 4 results (toy.sum) unreadable")
    evidence.require("toy.sum", "quick")
    building.build("toy.table1", "quick")
    assert status(lambda: building.build("toy.table1")) == ("stale", "made from quick results")
    for path in made:
        path.unlink()
    assert building.status("toy.table1") == ("missing", "not made yet: causalnb figures toy.table1")


def test_the_manifest_is_the_same_every_time(lab, table):
    evidence.require("toy.sum")
    path = lab.folder / "figures" / "manifest.json"
    building.build("toy.table1")
    before = path.read_bytes()
    building.build("toy.table1")
    assert path.read_bytes() == before and before.endswith(b"}\n")

    @registry.artefact("toy.fig1")
    def other(profile):
        manifest.save("toy.fig1", {".svg": b"1"}, "alt", "")

    building.build("toy.fig1")
    both = path.read_bytes()
    path.unlink()
    assert building.build("toy.fig1") and building.build("toy.table1") and path.read_bytes() == both
    table[0] = "otherwise"
    building.build("toy.table1")
    assert path.read_bytes() != before


def test_an_entry_that_came_out_the_same_is_kept_whatever_else_ran_in_its_build(lab, table, monkeypatch):
    evidence.require("toy.sum")
    path = lab.folder / "figures" / "manifest.json"
    building.build("toy.table1")
    before, other = path.read_bytes(), {"units": "", "edges": "0" * 16}
    assert json.loads(before)["toy.table1"]["code"] != other
    monkeypatch.setattr(codebase, "described", lambda units: other)
    building.build("toy.table1")
    assert path.read_bytes() == before
    monkeypatch.setattr(codebase.Index, "holds", lambda self, units, edges: False)
    building.build("toy.table1")
    assert json.loads(path.read_bytes())["toy.table1"]["code"] == other


LATE = """
from functools import cache


def decorated(function):
    return function


@cache
@decorated
def words():
    return "A caption."
"""


def test_the_manifest_is_the_same_in_any_order_and_with_any_cache(lab, monkeypatch):
    ours = {"toylab": lab.folder, "causalnb.lab": Path(codebase.__file__).parent}
    monkeypatch.setattr(codebase, "roots", lambda: ours)
    (lab.folder / "toylate.py").write_text(LATE, encoding="utf-8")
    forget_code()
    evidence.require("toy.sum")

    def builder(id, read):
        def build(profile):
            from toylate import words

            rows = read("toy.sum", profile)[["arm", "seed"]].values.tolist()
            tables.save_table(tables.Table(id, ["arm", "seed"], rows, words()))

        registry.artefact(id, needs=["toy.sum"])(build)
        return id

    ids = [builder("toy.table1", evidence.require), builder("toy.fig1", evidence.rows)]
    path, made = lab.folder / "figures" / "manifest.json", set()
    for order in (ids, ids[::-1]):
        for cold in (True, False):
            if cold:
                sys.modules.pop("toylate", None)
                for kept in (results._parsed, registry._defaults, latex._width):
                    kept.cache_clear()
            for id in order:
                building.build(id)
            made.add(path.read_bytes())
            path.unlink()
    assert len(made) == 1
    names = {unit.hash: f"{unit.module}.{unit.name}" for unit in codebase.current().units}
    code = json.loads(made.pop())["toy.table1"]["code"]["units"].split()
    ran = {names[hash].removeprefix("causalnb.lab.") for hash in code}
    assert {"results.frame", "tables.save_table", "latex._width", "toylab.toylate.words"} <= ran
    stored = ("results.usable", "results._parsed", "registry.config", "registry._defaults", "records.short")
    assert not {*stored, "manifest.save", "files.below", "toylab.toylate.decorated"} & ran


def test_a_failing_builder_leaves_what_was_there(lab, table):
    evidence.require("toy.sum")
    made = building.build("toy.table1")
    before = {path: path.read_bytes() for path in [*made, lab.folder / "figures" / "manifest.json"]}

    @registry.artefact("toy.fig1")
    def build(profile):
        tables.save_table(tables.Table("toy.fig1", ["a"], [[1]], "c"))
        raise KeyError("oops")

    assert building.build_all() == [
        {"id": "toy.table1", "outcome": "done", "files": [str(path) for path in made], "error": ""},
        {"id": "toy.fig1", "outcome": "failed", "files": [], "error": "KeyError: 'oops'"},
    ]
    assert {path: path.read_bytes() for path in before} == before and not (
        made[0].parent / "fig1.md"
    ).exists()


def test_build_refuses(lab):
    with pytest.raises(LabError, match="other.fig1 has no builder yet"):
        building.build("other.fig1")

    @registry.artefact("toy.fig1")
    def empty(profile):
        """Saves nothing."""

    @registry.artefact("toy.table1")
    def foreign(profile):
        tables.save_table(tables.Table("toy.fig1", ["a"], [[1]], "c"))

    assert [one["error"] for one in building.build_all(ids=["toy.fig1", "toy.table1"])] == [
        "the builder of toy.fig1 saved nothing: call save_figure or save_table.",
        "the builder of toy.table1 saves 'toy.fig1': name it toy.table1 or toy.table1_<more>.",
    ]
    assert not (lab.folder / "figures").exists()


def test_files_no_longer_made_go(lab, table):
    old = building.build("toy.table1")
    entries = manifest.entries()
    assert set(entries) == {"toy.table1"}

    @registry.artefact("toy.fig1")
    def build(profile):
        manifest.save("toy.fig1_part", {".svg": b"1"}, "alt one", "first")
        manifest.save("toy.fig1", {".svg": b"2"}, "alt two", "")

    building.build("toy.fig1")
    entry = manifest.entries()["toy.fig1"]
    assert entry["alt"] == "alt one alt two" and set(entry["files"]) == {"toy/fig1.svg", "toy/fig1_part.svg"}
    manifest.save("toy.fig1", {".png": b"3"}, "alone", "alone")
    entry = manifest.entries()["toy.fig1"]
    assert (
        set(entry["files"]) == {"toy/fig1.svg", "toy/fig1_part.svg", "toy/fig1.png"}
        and entry["alt"] == "alone"
    )
    building.build("toy.fig1")
    assert not (lab.folder / "figures" / "toy" / "fig1.png").exists() and all(path.exists() for path in old)
    with pytest.raises(LabError, match="no artefact 'toy.fig9'"):
        manifest.save("toy.fig9", {".svg": b""}, "", "")


ENTRY = {
    **dict.fromkeys(manifest.FIELDS, ""),
    "files": {},
    "code": manifest.NO_CODE,
    "needs": [],
    "paper": [],
}
ODD = [
    {"files": None},
    {"files": {"a": 3}},
    {"code": {}},
    {"code": {"units": 1, "edges": ""}},
    {"needs": 3},
    {"alt": None},
    {"results": 1},
    {"paper": ["../x.csv"]},
    {"paper": [None]},
    dict.fromkeys(ENTRY, 3),
]


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"toy.table1": {}}',
        '{"toy.table1": 3}',
        '{"toy.table1": NaN}',
        "[" * 100_000,
        *(json.dumps({"toy.table1": ENTRY | odd}) for odd in ODD),
    ],
)
def test_a_damaged_manifest_is_named(lab, table, text):
    (lab.folder / "figures").mkdir()
    (lab.folder / "figures" / "manifest.json").write_text(text, encoding="utf-8")
    for use in (building.status, building.build):
        with pytest.raises(FileError, match="figures/manifest.json is damaged"):
            use("toy.table1")
    assert (lab.folder / "figures" / "manifest.json").read_text(encoding="utf-8") == text


def test_files_that_cannot_be_read_are_named_and_the_rest_is_told(lab, table, monkeypatch):
    evidence.require("toy.sum")
    building.build("toy.table1")
    results.path("toy.sum", "one", 1).write_text("[NaN]", encoding="utf-8")
    probe = probes.path("toy.sum", "two")
    probe.parent.mkdir(parents=True)
    probe.write_text("null", encoding="utf-8")
    states, problems = doctor.artefacts(registry.artefacts())
    assert states["toy.table1"] == ("stale", "1 of 4 results (toy.sum) unreadable") and states["toy.fig1"]
    assert [problem.partition(" is damaged")[0] for problem in problems] == [
        "results/laptop/toy.sum/one/seed1.json",
        "probes/laptop/toy.sum/two.json",
    ]
    results.path("toy.sum", "one", 1).unlink()
    (lab.folder / "figures" / "manifest.json").write_text("[]", encoding="utf-8")
    states, problems = doctor.artefacts(registry.artefacts())
    assert states["other.fig1"] == ("missing", "no builder yet") and len(problems) == 2
    assert states["toy.table1"] == ("unreadable", problems[1]) and "manifest.json is damaged" in problems[1]


def test_a_file_of_an_artefact_that_the_disk_refuses_is_named(lab, table, monkeypatch):
    evidence.require("toy.sum")
    building.build("toy.table1")

    def refuse(path):
        raise PermissionError(13, "Permission denied", str(path))

    kept = manifest.entries()
    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", refuse)
        patch.setattr(manifest, "entries", lambda profile: kept)
        states, problems = doctor.artefacts([registry.find("toy.table1")])
    assert states["toy.table1"][0] == "unreadable"
    assert len(problems) == 1 and "Permission denied" in problems[0] and "toy/table1" in problems[0]


@pytest.mark.parametrize(
    "name", ["../../victim", "{}", "toy/link/victim", "C:/victim", "toy\\..\\..\\victim"]
)
def test_a_manifest_touches_nothing_outside_of_figures(lab, table, tmp_path_factory, name):
    building.build("toy.table1")
    folder, victim = lab.folder / "figures", tmp_path_factory.mktemp("elsewhere") / "victim"
    victim.write_text("mine", encoding="utf-8")
    (folder.parent / "victim").write_text("mine", encoding="utf-8")
    (folder / "toy" / "link").symlink_to(victim.parent)
    entries = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    entries["toy.table1"]["files"] |= {name.format(victim): "0"}
    (folder / "manifest.json").write_text(json.dumps(entries), encoding="utf-8")
    for use in (building.status, building.build):
        with pytest.raises(LabError, match=r"figures/manifest.json is damaged \(.* leads out of figures\)"):
            use("toy.table1")
    assert (
        victim.read_text(encoding="utf-8") == (folder.parent / "victim").read_text(encoding="utf-8") == "mine"
    )


WRITER = """
import sys
from causalnb.lab import manifest, registry
print("ready", flush=True)
sys.stdin.readline()
for name in sys.argv[1:]:
    registry._artefacts[name] = item = registry.Artefact(name, "toy", "", "", "", "", extra=True)
    with manifest.building(item, "laptop"):
        manifest.save(name, {".md": name.encode()}, "alt", "")
"""


def test_entries_written_at_once_are_all_kept(lab):
    names = [f"toy.table{number}" for number in range(20, 60)]
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, *names[at::4]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
            env={
                **os.environ,
                "PYTHONPATH": str(Path(paths.__file__).parents[1]),
                "CAUSALNB_CACHE": str(lab.folder / f"cache{at}"),
            },
        )
        for at in range(4)
    ]
    for writer in writers:
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        writer.stdin.write("go\n")
        writer.stdin.flush()
    assert [writer.wait(60) for writer in writers] == [0] * 4
    for writer in writers:
        writer.communicate()
    assert sorted(manifest.entries()) == names
    assert not [*(lab.folder / "figures").glob(".*")]


def test_the_registry_is_light():
    code = (
        "import sys, causalnb.lab.registry, causalnb.lab.runner, causalnb.lab.manifest; print(*sys.modules)"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(paths.__file__).parents[1],
        check=True,
        encoding="utf-8",
        capture_output=True,
    ).stdout.split()
    assert not {"torch", "transformers", "pandas", "numpy", "scipy", "matplotlib", "rich"} & set(loaded)


@pytest.mark.parametrize("seeds", [50_000_000, 10**20, 10_001, [10_000], [0, 10**20]])
def test_too_many_seeds_are_refused_before_they_are_counted(lab, seeds):
    with pytest.raises(LabError, match="is too much: give at most 10000, or seeds below that"):
        runner.plan(["toy.sum"], seeds=seeds)
    assert len(runner.plan(["toy.sum"], seeds=[9_999])) == 2


def test_plan(lab):
    found = runner.plan(["toy.sum"], "laptop")
    assert [(job.arm, job.seed, job.state, job.estimate) for job in found] == [
        (arm, seed, "missing", 7.0) for arm in ("one", "two") for seed in (0, 1)
    ]
    assert {job.experiment for job in runner.plan()} == {e.id for e in registry.experiments()}
    assert [job.seed for job in runner.plan(["toy.bad"], seeds=3)] == [0, 1, 2]
    assert [job.seed for job in runner.plan(["toy.bad"], seeds=[4, 2, 4])] == [4, 2]
    for seeds in (0, [], [-1]):
        with pytest.raises(LabError, match="asks for no run"):
            runner.plan(["toy.bad"], seeds=seeds)
