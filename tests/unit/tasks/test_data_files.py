"""Data files: mirror before downloads before network, and whatever fails its hash is refused by name."""

import gzip
import os
import threading
import tracemalloc
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from causalnb.errors import DataError
from causalnb.paths import downloads_dir
from causalnb.tasks import files, scan
from tests.unit.hostile import endless, redirect, serving, slowly, whole

CONTENT = b"IN: jump OUT: I_JUMP\nIN: walk OUT: I_WALK\n"
NAME = "toy/two.txt"
RENAMED = {
    "arc/ARC-Challenge_test_llm_adapters.json": "ARC-Challenge/test.json",  # in a mirror, at home
    "arc_agi/symbolic_hard_train.jsonl": "symbolic_hard/train.jsonl",
    "arc_agi/symbolic_hard_test.jsonl": "symbolic_hard/test.jsonl",
    **{f"hans/{name}": f"berts_of_a_feather/{name}" for name in ["berts_of_a_feather_accuracies_by_run.csv"]},
    "paws/paws_qqp_dev_and_test.tsv": "paws_qqp/dev_and_test.tsv",
    "snli/becel_snli_test.tsv": "snli/test.tsv",
    "snli/becel_snli_validation.tsv": "snli/validation.tsv",
}


@pytest.fixture
def origin():
    """A server on this machine: answers every path with `.content`, or 404 if that is None."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(404 if server.content is None else 200)
            self.end_headers()
            self.wfile.write(server.content or b"")

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.content = CONTENT
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """An empty downloads folder, no mirror, network allowed, and a registry of one small file."""
    monkeypatch.setenv("CAUSALNB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "*")
    for name in ("CAUSALNB_DATA", "CAUSALNB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(
        files,
        "REGISTRY",
        {NAME: files.File(NAME, "http://127.0.0.1:9/two.txt", sha256(CONTENT).hexdigest(), "none")},
    )
    return tmp_path


@pytest.fixture
def online(origin, monkeypatch):
    """The registry points at the server."""
    url = f"http://127.0.0.1:{origin.server_port}/two.txt"
    monkeypatch.setitem(files.REGISTRY, NAME, files.File(NAME, url, sha256(CONTENT).hexdigest(), "none"))
    return origin


@pytest.fixture
def mirror(place, monkeypatch):
    monkeypatch.setenv("CAUSALNB_DATA", str(place / "mirror"))
    (place / "mirror" / "toy").mkdir(parents=True)
    return place / "mirror"


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_mirror_serves_plain_and_gzipped_files(mirror, suffix):
    path = mirror / f"{NAME}{suffix}"
    path.write_bytes(gzip.compress(CONTENT) if suffix else CONTENT)
    assert files.fetch(NAME) == path
    assert files.read(NAME) == CONTENT
    assert files.verify() == [(NAME, "ok")]


def corrupted(path: Path) -> bytes:
    return CONTENT.replace(b"I_JUMP", b"I_HOP")


def truncated(path: Path) -> bytes:
    return gzip.compress(CONTENT)[:-12]


def damaged(path: Path) -> bytes:
    whole = bytearray(gzip.compress(CONTENT))
    whole[10] = 0xFF  # a deflate block of a kind that does not exist
    return bytes(whole)


@pytest.mark.parametrize(
    ("suffix", "make", "sentence"),
    [
        (
            "",
            corrupted,
            f"two.txt is refused: the sha256 of its content is .{{12}}, expected "
            f"{sha256(CONTENT).hexdigest()[:12]};",
        ),
        (".gz", lambda path: gzip.compress(corrupted(path)), "two.txt.gz is refused: the sha256"),
        (".gz", truncated, "two.txt.gz cannot be read"),
        (".gz", damaged, "two.txt.gz cannot be read"),
        (".gz", corrupted, "two.txt.gz cannot be read .Not a gzipped file"),
    ],
)
def test_a_bad_mirror_file_is_refused_by_name_and_left_alone(mirror, online, suffix, make, sentence):
    path = mirror / f"{NAME}{suffix}"
    bad = make(path)
    path.write_bytes(bad)
    for use in (files.read, files.fetch):
        with pytest.raises(DataError, match=sentence) as refusal:
            use(NAME)
        assert "\n" not in str(refusal.value) and str(path) in str(refusal.value)
    [(name, state)] = files.verify()
    assert name == NAME and state == str(refusal.value)
    assert path.read_bytes() == bad and not (downloads_dir() / NAME).exists()


def test_a_mirror_that_is_no_folder_is_named(place, monkeypatch):
    monkeypatch.setenv("CAUSALNB_DATA", str(place / "nowhere"))
    with pytest.raises(DataError, match="CAUSALNB_DATA is '.*nowhere', which is no folder"):
        files.read(NAME)


def test_a_download_is_checked_and_kept(online, monkeypatch):
    assert files.verify() == [(NAME, "missing")]
    path = files.fetch(NAME)
    assert path == downloads_dir() / NAME and path.read_bytes() == CONTENT
    online.content = None
    monkeypatch.setenv("CAUSALNB_OFFLINE", "1")
    assert files.read(NAME) == CONTENT, "the second call needs no network"
    assert files.verify() == [(NAME, "ok")]
    path.write_bytes(CONTENT[:-1])
    with pytest.raises(DataError, match="toy/two.txt is refused"):
        files.read(NAME)


def test_a_file_that_is_gzipped_at_home_is_checked_by_its_content(origin, monkeypatch):
    url = f"http://127.0.0.1:{origin.server_port}/two.txt.gz"
    monkeypatch.setitem(files.REGISTRY, NAME, files.File(NAME, url, sha256(CONTENT).hexdigest(), "none"))
    for wrong in (gzip.compress(CONTENT[1:]), CONTENT):
        origin.content = wrong
        with pytest.raises(DataError, match="two.txt.gz is refused: what it sent .*; it was not kept"):
            files.read(NAME)
        assert [path for path in downloads_dir().rglob("*") if path.is_file()] == []
    origin.content = gzip.compress(CONTENT)
    assert files.fetch(NAME) == downloads_dir() / f"{NAME}.gz" and files.read(NAME) == CONTENT
    origin.content = None
    assert files.verify() == [(NAME, "ok")] and files.read(NAME) == CONTENT


def test_a_mirror_without_the_file_falls_back(mirror, online):
    assert files.fetch(NAME) == downloads_dir() / NAME


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (CONTENT * 2, "two.txt is refused: what it sent does not have the sha256 .{12}; it was not kept"),
        (None, r"two.txt cannot be downloaded \(it answered 404 Not Found\)"),
    ],
)
def test_what_the_origin_sends_is_checked(online, content, sentence):
    online.content = content
    with pytest.raises(DataError, match=sentence):
        files.read(NAME)
    assert [path for path in downloads_dir().rglob("*") if path.is_file()] == []


def at(monkeypatch, url):
    monkeypatch.setitem(files.REGISTRY, NAME, files.File(NAME, url, sha256(CONTENT).hexdigest(), "none"))


HOSTILE = [
    (slowly(b"HTTP/1.1 200 OK\r\n\r\n"), "cannot be downloaded .it timed out, with no whole answer in 0.5 s"),
    (endless(), "cannot be downloaded .it sent more than 1,000,000 bytes"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\nhalf", "cannot be downloaded .*received 4 bytes"),
    (redirect("/two.txt"), "cannot be downloaded .TooManyRedirects"),
    (b"garbage\r\n\r\n", "cannot be downloaded .RemoteProtocolError"),
    (whole(gzip.compress(CONTENT), Content_Encoding="gzip"), "is refused: what it sent does not have the"),
]


@pytest.mark.parametrize("answer, sentence", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_origin_is_one_sentence(answer, sentence, monkeypatch):
    monkeypatch.setattr(files, "SECONDS", 0.5 if "timed" in sentence else 20)
    monkeypatch.setattr(files, "LIMIT", 1_000_000)
    with serving(answer) as (place, _):
        at(monkeypatch, f"{place}/two.txt")
        with pytest.raises(DataError, match=sentence) as refusal:
            files.read(NAME)
    assert "\n" not in str(refusal.value)
    assert [path for path in downloads_dir().rglob("*") if path.is_file()] == []


def test_a_redirect_of_the_origin_is_followed(origin, monkeypatch):
    with serving(redirect(f"http://127.0.0.1:{origin.server_port}/moved")) as (place, _):
        at(monkeypatch, f"{place}/two.txt")
        assert files.read(NAME) == CONTENT


def test_a_bomb_is_unpacked_within_bounds(origin, mirror, monkeypatch):
    monkeypatch.setattr(files, "LIMIT", 1_000_000)
    origin.content = bomb = gzip.compress(bytes(100_000_000), 1)
    at(monkeypatch, f"http://127.0.0.1:{origin.server_port}/two.txt.gz")
    tracemalloc.start()
    with pytest.raises(DataError, match="two.txt.gz is refused: what it sent does not have the sha256"):
        files.read(NAME)
    (mirror / f"{NAME}.gz").write_bytes(bomb)
    with pytest.raises(DataError, match="two.txt.gz is refused: the sha256 of its content"):
        files.read(NAME)
    assert tracemalloc.get_traced_memory()[1] < 20_000_000
    tracemalloc.stop()


def test_no_network_is_one_sentence(place):
    with pytest.raises(
        DataError,
        match=r"127.0.0.1:9/two.txt cannot be downloaded \(ConnectError: .*\); "
        r"check the network or point CAUSALNB_DATA",
    ):
        files.read(NAME)


def test_offline_does_not_try(monkeypatch):
    monkeypatch.setenv("CAUSALNB_OFFLINE", "1")
    monkeypatch.setattr(files.network, "answer", lambda *args, **kwargs: pytest.fail("tried to download"))
    with pytest.raises(DataError, match="toy/two.txt is not on this machine and CAUSALNB_OFFLINE forbids"):
        files.read(NAME)


def test_a_full_disk_is_one_sentence(online, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(DataError, match="toy/two.txt cannot be written .No space left on device"):
        files.read(NAME)


def test_unknown_names_are_refused():
    for use in (files.fetch, files.read):
        with pytest.raises(DataError, match="registered as 'toy/three.txt'; the registry has toy/two.txt"):
            use("toy/three.txt")
    [(_, state)] = files.verify(["toy/three.txt"])
    assert state.startswith("No data file is registered")


def test_fetch_all_goes_on_after_a_failure(online, monkeypatch):
    url = f"http://127.0.0.1:{online.server_port}/broken.txt"
    broken = files.File("toy/broken.txt", url, "0" * 64, "none")
    monkeypatch.setattr(files, "REGISTRY", {broken.name: broken, **files.REGISTRY})
    seen = []
    states = dict(files.fetch_all(report=lambda *args: seen.append(args)))
    assert states[NAME] == "ok" and "broken.txt is refused" in states[broken.name]
    assert seen == [(1, 2, broken.name), (2, 2, NAME)]
    assert files.fetch_all([NAME]) == [(NAME, "ok")]


def test_a_file_at_no_address_is_looked_for_in_the_folders_alone(mirror, monkeypatch):
    made = files.File("toy/made.txt", "", sha256(CONTENT).hexdigest(), "none", "the output of a program")
    monkeypatch.setattr(files, "REGISTRY", {made.name: made, NAME: files.REGISTRY[NAME]})
    monkeypatch.setattr(files.network, "answer", lambda *args, **kwargs: pytest.fail("tried to download"))
    sentence = "^toy/made.txt lies at no address: it is the output of a program; point CAUSALNB_DATA"
    for use in (files.read, files.fetch):
        with pytest.raises(DataError, match=sentence) as refusal:
            use(made.name)
    assert str(refusal.value) == files.homeless(made.name)
    assert dict(files.verify())[made.name] == "missing"
    (mirror / NAME).write_bytes(CONTENT)
    assert files.fetch_all() == [(made.name, files.homeless(made.name)), (NAME, "ok")]
    for path in (mirror / "toy/made.txt", downloads_dir() / "toy/made.txt"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(CONTENT)
        assert files.fetch(made.name) == path and dict(files.verify())[made.name] == "ok"
        path.write_bytes(CONTENT[:-1])
        with pytest.raises(DataError, match="replace it with a fresh copy of the output of a program"):
            files.read(made.name)
        path.unlink()


def test_the_registry_is_complete_and_public(monkeypatch):
    monkeypatch.undo()
    assert {name for split in scan.SPLITS for name in _names(split)} == {
        name for name in files.REGISTRY if name.startswith("scan/")
    }
    for name, file in files.REGISTRY.items():
        assert file.name == name and file.licence
        at_home = RENAMED.get(name, name.partition("/")[2]) + ".gz" * name.startswith("multi30k/")
        if not file.made:
            assert file.url.startswith("https://") and file.url.endswith(f"/{at_home}")
        else:
            assert not file.url and file.made in files.homeless(name)
        assert len(file.sha256) == 64 and set(file.sha256) <= set("0123456789abcdef")
    assert len({file.sha256 for file in files.REGISTRY.values()}) == len(files.REGISTRY)


def _names(split):
    try:
        return scan.file_names(split)
    except DataError:
        return ()


def test_scan_reads_checked_files(mirror, monkeypatch):
    train, test = scan.file_names("length")
    digest = sha256(CONTENT).hexdigest()
    rows = {name: files.File(name, "", digest, "none") for name in (train, test)}
    monkeypatch.setattr(files, "REGISTRY", rows)
    for name in (train, test):
        path = mirror / f"{name}.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(CONTENT))
    data = scan.load("length", source="file")
    assert data["train"]["command"][:] == ["jump", "walk"] and data["test"]["structure"][:] == ["_", "_"]


@pytest.mark.skipif(not os.environ.get("CAUSALNB_DATA"), reason="needs CAUSALNB_DATA, a mirror of the files")
def test_the_mirror_verifies(monkeypatch):
    monkeypatch.undo()
    assert {state for _, state in files.verify()} <= {"ok", "missing"}
