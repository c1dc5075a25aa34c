"""figures/manifest.json: the files of each artefact, what they show, and the results they were made from."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import sha256
from pathlib import Path

from causalnb.errors import LabError
from causalnb.lab import files, profiles, registry
from causalnb.paths import figures_dir, shown

_current: ContextVar = ContextVar("current", default=None)  # (artefact, profile, files, alts, captions)
FIELDS = {"files", "alt", "caption", "profile", "results", "needs"}


def entries(profile: str | None = None) -> dict:
    """The manifest by artefact id, empty if there is none; LabError naming the file if it is damaged."""
    path = figures_dir(profiles.current(profile).name) / "manifest.json"
    try:
        found = json.loads(path.read_bytes())
        if all(set(entry) == FIELDS for entry in found.values()):
            return found
        raise ValueError("an entry is incomplete")
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise LabError(f"{shown(path)} is damaged ({error}): restore it from git, or delete it and run "
                       "`causalnb figures`.") from None


def _commit(item: registry.Artefact, profile: str, content: Mapping[str, bytes], alt: str, caption: str,
            whole: bool) -> None:
    folder = figures_dir(profile)
    with files.lock("manifest", "another run is writing the figures: wait for it or stop it.", wait=60):
        known = entries(profile)
        before = known.get(item.id, {"files": {}})["files"]
        for name, data in content.items():
            files.write_atomic(folder / name, data)
        written = {name: sha256(data).hexdigest() for name, data in content.items()}
        known[item.id] = {"files": written if whole else {**before, **written}, "alt": alt,
                          "caption": caption, "profile": profile, "needs": list(item.needs),
                          "results": registry.origin(item, profile)}
        text = json.dumps(known, indent=1, sort_keys=True) + "\n"
        files.write_atomic(folder / "manifest.json", text.encode())
        for name in set(before) - set(written) if whole else ():
            (folder / name).unlink(missing_ok=True)


@contextmanager
def building(item: registry.Artefact, profile: str) -> Iterator[dict[str, bytes]]:
    """Gather what is saved inside under the artefact; all is written at the end, nothing after an error."""
    content, alts, captions = {}, [], []
    token = _current.set((item, profile, content, alts, captions))
    try:
        yield content
    finally:
        _current.reset(token)
    _commit(item, profile, content, " ".join(alts), " ".join(captions), whole=True)


def save(id: str, content: Mapping[str, bytes], alt: str, caption: str,
         profile: str | None = None) -> list[Path]:
    """Keep `content` (suffix -> bytes) as figures/<source>/<name><suffix>, under the artefact being built."""
    named = {f"{id.replace('.', '/', 1)}{suffix}": data for suffix, data in content.items()}
    if _current.get():
        item, used, gathered, alts, captions = _current.get()
        if not registry.ID.fullmatch(id) or id != item.id and not id.startswith(f"{item.id}_"):
            raise LabError(f"the builder of {item.id} saves {id!r}: name it {item.id} or {item.id}_<more>.")
        gathered.update(named)
        alts.append(alt)
        captions.append(caption)
    else:
        used = profiles.current(profile).name
        _commit(registry.find(id), used, named, alt, caption, whole=False)
    return [figures_dir(used) / name for name in named]
