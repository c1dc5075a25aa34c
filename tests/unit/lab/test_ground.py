"""Paths, errors, profiles, atomic files and locks."""

import errno
import fcntl
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from causalnb import paths, writing
from causalnb.errors import CausalnbError, DataError, LabError, sentence
from causalnb.lab import bases, files, profiles, records
from causalnb.tasks import files as data_files

HOME = Path(paths.__file__).parents[1]


def started(code, *words):
    """A Python process that has printed its first line."""
    process = subprocess.Popen(
        [sys.executable, "-c", code, *map(str, words)],
        stdout=subprocess.PIPE,
        encoding="utf-8",
        env={**os.environ, "PYTHONPATH": str(HOME)},
    )
    assert process.stdout.readline() == "ready\n"
    return process


def test_places_move_with_the_environment(tmp_path, monkeypatch):
    for name in ("RESULTS", "FIGURES", "CACHE"):
        monkeypatch.delenv(f"CAUSALNB_{name}", raising=False)
    monkeypatch.setenv("CAUSALNB_HOME", str(tmp_path))
    assert paths.root() == tmp_path
    assert paths.results_dir("laptop") == tmp_path / "data" / "results" / "laptop"
    assert paths.figures_dir("gpu") == tmp_path / "figures"
    assert paths.downloads_dir() == tmp_path / "data" / "downloads"
    assert paths.cache_dir() == tmp_path / "data" / "cache"
    assert paths.paper_dir() == tmp_path / "data" / "paper"
    assert paths.notebooks_dir() == tmp_path / "notebooks"
    for name in ("RESULTS", "FIGURES", "CACHE"):
        monkeypatch.setenv(f"CAUSALNB_{name}", str(tmp_path / name))
    assert paths.results_dir("quick") == tmp_path / "RESULTS" / "quick"
    assert paths.figures_dir("quick") == tmp_path / "FIGURES"
    assert paths.downloads_dir() == tmp_path / "CACHE" / "downloads"
    assert paths.cache_dir() == tmp_path / "CACHE"


def test_quick_numbers_stay_out_of_the_checkout(monkeypatch):
    for name in ("RESULTS", "FIGURES"):
        monkeypatch.delenv(f"CAUSALNB_{name}", raising=False)
    for place in (paths.results_dir("quick"), paths.figures_dir("quick")):
        assert not place.is_relative_to(paths.root()) and str(os.getuid()) in str(place)


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """The system's temporary folder, and nothing moved by the environment."""
    for name in ("RESULTS", "FIGURES"):
        monkeypatch.delenv(f"CAUSALNB_{name}", raising=False)
    monkeypatch.setattr(paths.tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_the_temporary_folder_is_private_and_one_a_checkout(temporary, monkeypatch):
    folders = set()
    for home in ("one", "other", "one"):
        monkeypatch.setenv("CAUSALNB_HOME", str(temporary / home))
        places = (paths.results_dir("quick"), paths.figures_dir("quick"), paths.models_dir("quick"))
        assert len(own := {temporary / place.relative_to(temporary).parts[0] for place in places}) == 1
        folders |= own
    assert len(folders) == 2 and {folder.stat().st_mode & 0o777 for folder in folders} == {0o700}


@pytest.mark.parametrize("fault", ["link", "open to others", "a file", "another's"])
def test_a_temporary_folder_that_others_may_enter_is_refused(temporary, monkeypatch, fault):
    folder = paths.results_dir("quick").parents[1]
    folder.rmdir()
    if fault == "link":
        (temporary / "mine").mkdir(0o700)
        folder.symlink_to(temporary / "mine")
    elif fault == "a file":
        folder.touch(0o600)
    elif fault == "open to others":
        folder.mkdir()
        folder.chmod(0o755)
    else:
        me = os.getuid()
        monkeypatch.setattr(os, "getuid", lambda: me + 1)
    for place in (paths.results_dir, paths.figures_dir, paths.models_dir):
        with pytest.raises(LabError, match="causalnb-quick-.* is no folder of yours alone: remove it, or"):
            place("quick")
        assert place("laptop")


NO_PATHS = ["~nobody-of-this-name/x", f"/{'x' * 300}", "a/" * 3000]


@pytest.mark.parametrize("named", [*NO_PATHS, "a\0b"])
def test_what_is_no_path_is_refused_with_who_named_it(named):
    with pytest.raises(LabError, match="^--out is '.*', which is no path .*: give another.$"):
        paths.given(named, "--out")


@pytest.mark.parametrize("named", NO_PATHS)
@pytest.mark.parametrize(
    "variable, place",
    [
        ("HOME", paths.root),
        ("RESULTS", lambda: paths.results_dir("laptop")),
        ("PROBES", lambda: paths.probes_dir("laptop")),
        ("FIGURES", lambda: paths.figures_dir("laptop")),
        ("CACHE", paths.downloads_dir),
        ("DATA", data_files._folders),
        ("BASES", lambda: bases.downloaded("org/base")),
    ],
)
def test_a_variable_that_is_no_path_is_named(named, variable, place, monkeypatch):
    monkeypatch.setenv(f"CAUSALNB_{variable}", named)
    with pytest.raises(LabError, match=f"CAUSALNB_{variable} is '.*', which is no path"):
        place()


def test_a_path_that_is_given_need_not_be_there(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert paths.given("~/new/folder", "--out") == tmp_path / "new" / "folder"


DEEP = '{"a": ' + "[" * 100_000 + "]" * 100_000 + "}"


@pytest.mark.parametrize(
    "text, said",
    [
        ('{"a": NaN}', "NaN is no finite number"),
        ('{"a": [-Infinity]}', "-Infinity is no finite number"),
        ('{"a": 1e999}', "1e999 is no finite number"),
        (DEEP, "it is nested too deep"),
        ("[]", "it holds no record"),
        ("null", "it holds no record"),
        ("\udcff", "utf-8"),
        ("{", "Expecting"),
    ],
)
def test_json_that_is_no_record_is_refused(text, said):
    with pytest.raises(ValueError, match=said):
        records.parsed(text.encode(errors="surrogateescape"))


def test_a_record_comes_back_from_its_seal():
    record, shape = {"name": "a", "list": [1, None, 0.5]}, {"name": str, "list": list}
    data = records.sealed(record)
    assert records.unsealed(records.parsed(data), "note", shape) == record
    for changed, said in [
        (data.replace(b"0.5", b"0.6"), "it was changed after it was written"),
        (data.replace(b'"a"', b"null"), "name is not as a note has it"),
        (data.replace(b'"name"', b'"names"'), "name is not as a note has it"),
    ]:
        with pytest.raises(ValueError, match=said):
            records.unsealed(records.parsed(changed), "note", shape)


def test_a_record_that_is_almost_too_deep_is_refused_without_a_traceback():
    deep = 1
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(ValueError, match="it is nested too deep"):
        records.unsealed({"list": deep, "checksum": "0"}, "note", {"list": list})


def test_root_is_the_checkout_or_here(tmp_path, monkeypatch):
    monkeypatch.delenv("CAUSALNB_HOME", raising=False)
    monkeypatch.setattr(paths, "__file__", str(tmp_path / "causalnb" / "paths.py"))
    monkeypatch.setattr(paths, "_checkout", paths._checkout.__wrapped__)  # which remembers nothing
    assert paths.root() == Path.cwd()
    (tmp_path / "pyproject.toml").touch()
    assert paths.root() == tmp_path
    assert paths.shown(tmp_path / "data" / "x.csv") == "data/x.csv"
    assert paths.shown(Path("/elsewhere/x")) == "/elsewhere/x"


def test_sentences():
    assert sentence(LabError("one\n  two")) == "one two"
    assert sentence(ValueError("three")) == "three"
    assert sentence(KeyError("k")) == "KeyError: 'k'" and sentence(ValueError()) == "ValueError: "
    assert issubclass(DataError, ValueError) and issubclass(DataError, CausalnbError)


def test_current_profile(monkeypatch):
    monkeypatch.delenv("CAUSALNB_PROFILE", raising=False)
    assert profiles.current().name == "laptop"
    monkeypatch.setenv("CAUSALNB_PROFILE", "gpu")
    assert profiles.current().name == "gpu" and profiles.current("paper").name == "paper"
    assert profiles.current(profiles.PROFILES["quick"]).name == "quick"
    with pytest.raises(LabError, match="no profile 'lap': use one of quick, laptop, gpu, paper"):
        profiles.current("lap")


@pytest.mark.parametrize(
    "profile, values, expected",
    [
        ("quick", {"quick": 1, "laptop": 2}, 1),
        ("quick", {"laptop": 2}, 2),
        ("laptop", {"quick": 1, "laptop": 2}, 2),
        ("gpu", {"laptop": 2, "paper": 4}, 2),
        ("gpu", {"laptop": 2, "gpu": 3}, 3),
        ("paper", {"laptop": 2, "gpu": 3}, 3),
        ("paper", {"laptop": 2}, 2),
        ("paper", {"laptop": 2, "paper": None}, None),
    ],
)
def test_pick_falls_back(profile, values, expected):
    assert profiles.pick(profile, **values) == expected


def test_pick_refuses_what_it_does_not_know():
    with pytest.raises(LabError, match="no value for profile 'laptop'"):
        profiles.pick("laptop", quick=1)
    with pytest.raises(LabError, match="no profile 'labtop'"):
        profiles.pick("laptop", labtop=1, laptop=2)


def test_a_missing_gpu_is_said(monkeypatch):
    cuda = SimpleNamespace(is_available=lambda: False)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    assert profiles.device("laptop") == profiles.device("quick") == "cpu"
    for name in ("gpu", "paper"):
        with pytest.raises(LabError, match=f"no GPU for the {name} profile: use --profile laptop"):
            profiles.device(name)
    monkeypatch.setenv("CAUSALNB_DEVICE", "cuda")
    with pytest.raises(LabError, match="no GPU for the laptop profile: unset CAUSALNB_DEVICE"):
        profiles.device("laptop")
    cuda.is_available = lambda: True
    assert profiles.device("gpu") == profiles.device("laptop") == "cuda"
    monkeypatch.setenv("CAUSALNB_DEVICE", "cpu")
    assert profiles.device("gpu") == "cpu"
    monkeypatch.setenv("CAUSALNB_DEVICE", "gpu")
    with pytest.raises(LabError, match="CAUSALNB_DEVICE is 'gpu': set it to one of cpu, cuda"):
        profiles.device("laptop")


@pytest.mark.parametrize("step", ["open", "fsync", "replace"])
@pytest.mark.parametrize(
    "number, words",
    [
        (errno.ENOSPC, "the disk is full: free some space"),
        (errno.EACCES, "Permission denied: make the folder writable"),
    ],
)
def test_a_disk_that_refuses_leaves_the_old_file(tmp_path, monkeypatch, step, number, words):
    path = tmp_path / "deep" / "x.json"
    files.write_atomic(path, b"old")

    def refuse(*arguments, **options):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(
        *{"open": (writing, "open"), "fsync": (os, "fsync"), "replace": (os, "replace")}[step],
        refuse,
        raising=False,
    )
    with pytest.raises(LabError, match=words):
        files.write_atomic(path, b"new")
    assert path.read_bytes() == b"old" and list(path.parent.iterdir()) == [path]


OUTSIDE = [
    "../x",
    "a/../../x",
    "/x",
    "C:/x",
    "C:x",
    "a\\..\\..\\x",
    "\\\\host\\x",
    "",
    ".",
    "..",
    "link/x",
    "file",
]


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_name_stays_below_its_folder(tmp_path, name):
    (folder := tmp_path / "folder").mkdir()
    (folder / "link").symlink_to(tmp_path)
    (folder / "file").symlink_to(tmp_path / "x")
    with pytest.raises(ValueError, match="leads out of .*folder"):
        files.below(folder, name)


def test_names_below_a_folder(tmp_path):
    (tmp_path / "real" / "sub").mkdir(parents=True)
    (tmp_path / "folder").symlink_to(tmp_path / "real")
    (tmp_path / "real" / "within").symlink_to("sub")
    for name in ("x..svg", "sub/x", "not/there/x", "within/x", ".x"):
        assert files.below(tmp_path / "folder", name) == tmp_path / "folder" / name


@pytest.mark.parametrize("write", [files.write_atomic, writing.write_whole])
def test_what_a_kill_left_is_swept_by_the_next_write(tmp_path, write):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    left = tmp_path / f".x[1].json.{ended.pid}.tmp"
    others = {tmp_path / f".x[1].json.{mark}.tmp" for mark in (os.getppid(), "y", "9" * 30)}
    for place in (left, *others):
        place.write_bytes(b"half")
    write(tmp_path / "x[1].json", b"new")
    assert {*tmp_path.iterdir()} == {tmp_path / "x[1].json", *others}
    assert (tmp_path / "x[1].json").read_bytes() == b"new"


def test_a_write_that_fails_names_its_file(tmp_path, monkeypatch):
    def full(file):
        raise OSError(errno.EFBIG, "File too large")

    monkeypatch.setattr(os, "fsync", full)  # which, as write, knows a number and no name
    (tmp_path / "x").write_bytes(b"old")
    with pytest.raises(OSError, match=re.escape(f"File too large: '{tmp_path / 'x'}'")):
        writing.write_whole(tmp_path / "x", b"new")
    assert (tmp_path / "x").read_bytes() == b"old" and len([*tmp_path.iterdir()]) == 1


def test_a_kill_during_a_write_leaves_a_whole_file(tmp_path):
    code = (
        "import sys\nfrom pathlib import Path\nfrom causalnb.lab import files\nprint('ready', flush=True)\n"
        "while True:\n    for letter in b'ab':\n"
        "        files.write_atomic(Path(sys.argv[1]), bytes([letter]) * 3_000_000)"
    )
    for delay in (0.02, 0.07, 0.15):
        process = started(code, tmp_path / "x")
        time.sleep(delay)
        process.kill()
        process.communicate()
        if (tmp_path / "x").exists():
            data = (tmp_path / "x").read_bytes()
            assert len(data) == 3_000_000 and len(set(data)) == 1
    assert (tmp_path / "x").exists()


def test_a_lock_is_for_one_and_dies_with_its_process(tmp_path):
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom causalnb.lab import files\n"
        "with files.lock(Path(sys.argv[1]), 'taken'):\n    print('ready', flush=True)\n    time.sleep(60)"
    )
    x, y = tmp_path / "deep" / "x", tmp_path / "deep" / "y"
    (tmp_path / "link").symlink_to(x)
    process = started(code, x)
    assert [path.name for path in x.parent.iterdir()] == [".x.lock"]
    for name in (x, tmp_path / "link"):
        with pytest.raises(LabError, match="^taken$"), files.lock(name, "taken"):
            pass
    with files.lock(y, "taken"):
        pass
    process.send_signal(signal.SIGKILL)
    with files.lock(x, "taken", wait=10), pytest.raises(LabError), files.lock(x, "taken"):
        pass
    process.communicate()
    with files.lock(x, "taken"):
        pass
    assert not [*x.parent.iterdir()]


def test_a_lock_whose_file_was_removed_meanwhile_is_not_held(tmp_path, monkeypatch):
    """Between opening and locking, the holder lets it go and another one takes it."""
    x, flock, entered = tmp_path / "x", fcntl.flock, []

    def late(handle, how):
        if not entered:
            entered.append(handle)
            (tmp_path / ".x.lock").unlink()
        flock(handle, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with files.lock(x, "taken"), pytest.raises(LabError, match="taken"), files.lock(x, "taken"):
        pass
    assert not [*tmp_path.iterdir()]


def test_a_lock_can_be_waited_for(tmp_path):
    x, order = tmp_path / "x", []

    def second():
        with files.lock(x, "taken", wait=30):
            order.append("second")

    with files.lock(x, "taken"):
        thread = threading.Thread(target=second)
        thread.start()
        time.sleep(0.2)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


def test_a_lock_that_cannot_be_made_is_said(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(LabError, match="could not be written"), files.lock(tmp_path / "file" / "x", "taken"):
        pass


def test_a_full_disk_is_said_with_the_file(tmp_path):
    def full(*more):
        with files.full_disk_said(tmp_path / "place"):
            raise OSError(errno.ENOSPC, "No space left on device", *more)

    with pytest.raises(LabError, match="place could not be written because the disk is full: free some"):
        full()
    with pytest.raises(LabError, match="^/a/file could not be written because the disk is full"):
        full("/a/file")
    with pytest.raises(FileNotFoundError), files.full_disk_said(tmp_path):
        open(tmp_path / "nothing", encoding="utf-8")
