"""Makes tables and figures from stored results, and says of each whether it is what the results give."""

import os
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

from causalnb.errors import LabError, sentence
from causalnb.lab import codebase, evidence, manifest, paper, profiles, registry, results
from causalnb.paths import figures_dir


def status(artefact_id: str, profile: str = "laptop") -> tuple[str, str]:
    """("built" | "unverified" | "stale" | "missing", one-line reason), from files, manifest and results.

    unverified: built, from results whose code has changed since without the numbers having been compared.
    """
    item = registry.find(artefact_id)
    if not item.build:
        return "missing", "no builder yet"
    entry, folder = manifest.entries(profile).get(item.id), figures_dir(profile)
    present = [name for name in (entry or {"files": ()})["files"] if os.path.isfile(folder / name)]
    states = [results.states(id, profile) for id in item.needs]
    wanted = {job: state for one in states for job, (state, _) in one.items()}
    short = [job for job, state in wanted.items() if state not in results.USABLE]
    of, why = dict.fromkeys(job[0] for job in short), sorted({wanted[job] for job in short})
    lacking = f"{len(short)} of {len(wanted)} results ({', '.join(of)}) {' or '.join(why)}" if short else ""
    if entry is None or not present:
        return "missing", lacking or f"not made yet: causalnb figures {item.id}"
    if lacking:
        return "stale", lacking
    if entry.get("checksum") != manifest.checksum(entry):
        return "stale", "what the manifest says of it was changed after it was made"
    if entry["profile"] != profile:
        return "stale", f"made from {entry['profile']} results"
    for name, digest in entry["files"].items():
        if name not in present:
            return "stale", f"{name} is gone"
        if sha256((folder / name).read_bytes()).hexdigest() != digest:
            return "stale", f"{name} was changed after it was made"
    made_from = origin(item, profile, entry["paper"])
    if entry["results"] != made_from:
        return "stale", "what it is made from has changed since"
    if not codebase.index().holds(**entry["code"]):
        return "stale", "the code that makes it has changed since"
    if unverified := sum(state == "unverified" for state in wanted.values()):
        return "unverified", f"{unverified} of {len(wanted)} results unverified"
    return "built", f"{len(wanted)} results, {len(present)} files"


def origin(item: registry.Artefact, profile: str, read: Iterable[str]) -> str | None:
    """Digest of what an artefact is made from: results, its source's claims, and `read` of data/paper."""
    return results.digest(item.needs, profile, paper.used({*read, f"claims.csv {item.source}"}))


def build(artefact_id: str, profile: str | None = None) -> list[Path]:
    """Make the files of one artefact from stored results; LabError if it has no builder or saves nothing."""
    from causalnb.lab import figures

    item, profile = registry.find(artefact_id), profiles.current(profile).name
    if not item.build:
        raise LabError(f"{artefact_id} has no builder yet: it cannot be made.")
    with figures.style(), figures.closed(), manifest.building(item, profile) as made:
        with (
            evidence.stored_only(),
            evidence.unchanged(),
            codebase.recorded() as called,
            paper.noted() as read,
        ):
            item.build(profile)
        if not made.alts:
            raise LabError(f"the builder of {artefact_id} saved nothing: call save_figure or save_table.")
        made.results, made.paper = origin(item, profile, read), sorted(read)
        made.code = codebase.described(codebase.current().called(called))
    return made.paths()


def build_all(profile: str | None = None, ids: Iterable[str] | None = None) -> list[dict]:
    """Build what has a builder (or `ids`); a dict each: id, outcome "done" | "failed", files, error."""
    summary = []
    for id in ids if ids is not None else [a.id for a in registry.artefacts(extras=True) if a.build]:
        made, error = [], ""
        try:
            made = [str(file) for file in build(id, profile)]
        except Exception as problem:
            error = sentence(problem)
        summary.append({"id": id, "outcome": "failed" if error else "done", "files": made, "error": error})
    return summary
