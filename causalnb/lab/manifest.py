"""figures/manifest.json: the files of each artefact, what they show, and the results they were made from."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from causalnb.errors import FileError, LabError
from causalnb.lab import codebase, files, profiles, records, registry
from causalnb.paths import figures_dir, shown

FIELDS = {
    **dict.fromkeys(("alt", "caption", "profile", "checksum"), str),
    **dict.fromkeys(("files", "code"), dict),
    **dict.fromkeys(("needs", "paper"), list),
    "results": str | None,
}
READ = re.compile(r"[\w-]+\.csv( \w+)?")  # below data/paper, and the source whose rows are used
NO_CODE = {"units": "", "edges": ""}
RECORDED = {".md", ".tex", ".csv", ".svg", ".png"}  # other formats lie beside these, on request


@dataclass
class Build:
    """An artefact being built: its files by name, and what stands beside them in the manifest."""

    item: registry.Artefact
    profile: str
    content: dict[str, bytes] = field(default_factory=dict)
    alts: list[str] = field(default_factory=list)
    captions: list[str] = field(default_factory=list)
    results: str | None = None
    paper: list[str] = field(default_factory=list)  # what was read of data/paper
    code: Mapping[str, str] = field(default_factory=lambda: NO_CODE)

    def path(self, name: str) -> Path:
        """Where the file `name`, <source>/<name><suffix>, is written."""
        aside = _aside.get()
        folder = aside.folder if aside else figures_dir(self.profile)
        return files.below(folder, name.replace("/", "_", 1) if aside else name)

    def paths(self) -> list[Path]:
        """All files, by name."""
        return [self.path(name) for name in sorted(self.content)]


@dataclass(frozen=True)
class Aside:
    """A folder that takes files with `suffixes` in place of figures/."""

    folder: Path
    suffixes: frozenset[str]


_current: ContextVar[Build | None] = ContextVar("current", default=None)
_aside: ContextVar[Aside | None] = ContextVar("aside", default=None)


@contextmanager
def aside(folder: Path, suffixes: Iterable[str]) -> Iterator[None]:
    """Within this context only files with `suffixes` are made, as <source>_<name><suffix> in `folder`.

    figures/ and its manifest stay as they are.
    """
    token = _aside.set(Aside(folder, frozenset(suffixes)))
    try:
        yield
    finally:
        _aside.reset(token)


def is_aside() -> bool:
    """Whether files go to another folder."""
    return _aside.get() is not None


def file_name(id: str) -> str:
    """Name of the files of `id`, without suffix."""
    return id.replace(".", "_" if is_aside() else "/", 1).rsplit("/")[-1]


def wants(suffix: str) -> bool:
    """Whether a file with `suffix` is to be made."""
    current = _aside.get()
    return current is None or suffix in current.suffixes


@codebase.unrecorded
def present(id: str, suffix: str, profile: str | None = None) -> bool:
    """Whether figures/<source>/<name><suffix> is there, and not left out."""
    build = _current.get() or Build(registry.find(id), profiles.current(profile).name)
    return _aside.get() is None and build.path(id.replace(".", "/", 1) + suffix).is_file()


def entries(profile: str | None = None) -> dict:
    """The manifest by artefact id, empty if there is none.

    FileError naming it if it is damaged, or names a file that lies elsewhere.
    """
    path = figures_dir(profiles.current(profile).name) / "manifest.json"
    try:
        kept = path.stat()
        return dict(_parsed(path, kept.st_ino, kept.st_mtime_ns, kept.st_size))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise FileError(
            f"{shown(path)} is damaged ({error}): restore it from git, or delete it and run "
            "`causalnb figures`."
        ) from None


@lru_cache(8)
@codebase.unrecorded
def _parsed(path: Path, *version: int) -> dict:
    """The entries in a manifest, which is read again when its inode, time or size changes."""
    found = records.parsed(path.read_bytes())
    for id, entry in found.items():
        if not isinstance(entry, dict) or set(entry) != set(FIELDS):
            raise ValueError(f"the entry of {id} is incomplete")
        wrong = [name for name, kind in FIELDS.items() if not isinstance(entry[name], kind)]
        wrong += [name for name in ("files", "code") if not records.is_texts(entry[name])]
        if not wrong:
            wrong = ["paper" for name in entry["paper"] if not READ.fullmatch(str(name))]
        if wrong or set(entry["code"]) != set(NO_CODE):
            raise ValueError(f"{min(wrong, default='code')} of {id} is not as a manifest has it")
        for name in entry["files"]:
            files.below(path.parent, name)
    return found


def checksum(entry: Mapping) -> str:
    """16 hex digits of an entry, but for its checksum."""
    return records.short(
        json.dumps({name: entry[name] for name in FIELDS if name != "checksum"}, sort_keys=True)
    )


def _same(kept: Mapping, made: Mapping) -> bool:
    """Whether an entry came out as it was, from code that is all still here.

    What runs in a build depends on what was built before it: a function that remembers runs once.
    """
    alike = all(kept.get(name) == made[name] for name in made if name != "code")
    return alike and kept.get("checksum") == checksum(kept) and codebase.index().holds(**kept["code"])


def _commit(build: Build, whole: bool) -> None:
    item = build.item
    if _aside.get():
        for name, data in build.content.items():
            files.write_atomic(build.path(name), data)
        return
    busy = "another run is writing the figures: wait for it or stop it."
    with files.lock(build.path("manifest.json"), busy, wait=60), files.uninterrupted():
        known = entries(build.profile)
        kept = known.get(item.id, {"files": {}})
        before = kept["files"]
        for name, data in build.content.items():
            files.write_atomic(build.path(name), data)
        written = {
            name: sha256(data).hexdigest()
            for name, data in build.content.items()
            if Path(name).suffix in RECORDED
        }
        known[item.id] = made = {
            "files": written if whole else {**before, **written},
            "alt": " ".join(build.alts),
            "caption": " ".join(build.captions),
            "profile": build.profile,
            "needs": list(item.needs),
            "results": build.results,
            "paper": build.paper,
            "code": dict(build.code),
        }
        if _same(kept, made):
            made["code"] = kept["code"]
        made["checksum"] = checksum(made)
        text = json.dumps(known, indent=1, sort_keys=True) + "\n"
        files.write_atomic(build.path("manifest.json"), text.encode())
        for name in set(before) - set(build.content) if whole else ():
            build.path(name).unlink(missing_ok=True)


@contextmanager
def building(item: registry.Artefact, profile: str) -> Iterator[Build]:
    """Gather what is saved inside under the artefact; all is written at the end, nothing after an error."""
    token = _current.set(build := Build(item, profile))
    try:
        yield build
    finally:
        _current.reset(token)
    _commit(build, whole=True)


@codebase.unrecorded
def save(
    id: str, content: Mapping[str, bytes], alt: str, caption: str, profile: str | None = None
) -> list[Path]:
    """Keep `content` (suffix -> bytes) as figures/<source>/<name><suffix>, under the artefact being built.

    Outside of a build the files are kept as well, but `causalnb list` calls the artefact stale.
    """
    build, single = _current.get(), False
    if build is None:
        build, single = Build(registry.find(id), profiles.current(profile).name), True
    elif not registry.ID.fullmatch(id) or id != build.item.id and not id.startswith(f"{build.item.id}_"):
        raise LabError(
            f"the builder of {build.item.id} saves {id!r}: name it {build.item.id} or {build.item.id}_<more>."
        )
    named = {f"{id.replace('.', '/', 1)}{suffix}": data for suffix, data in content.items()}
    build.content.update(named)
    build.alts.append(alt)
    build.captions.append(caption)
    if single:
        _commit(build, whole=False)
    return [build.path(name) for name in named]
