"""What this machine has and what it could run: packages, device, memory, disk, results, the work left."""

import os
import platform
import shutil
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from causalnb.errors import FileError, LabError, sentence
from causalnb.lab import building, probes, profiles, registry, results, runner, weights
from causalnb.lab.records import installed
from causalnb.paths import models_dir, results_dir, root, shown

OPTIONAL = {
    "cluster",
    "text",
    "site",
    "browser",
}  # extras that a user adds; without them all of the course runs


def packages() -> list[dict]:
    """Each package pyproject.toml asks for: {name, extra ("" for the core), range, installed, ok}."""
    from packaging.requirements import Requirement

    path = root() / "pyproject.toml"
    try:
        project = tomllib.loads(path.read_bytes().decode())["project"]
        extras = {"": project["dependencies"], **project["optional-dependencies"]}
        needs = [(extra, Requirement(line)) for extra, lines in extras.items() for line in lines]
    except (OSError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise LabError(f"{shown(path)} cannot be read ({error}): run causalnb in its checkout.") from None
    found = []
    for extra, need in needs:
        version = installed(need.name)
        inside = version is not None and need.specifier.contains(version, prereleases=True)
        found.append(
            {
                "name": need.name,
                "extra": extra,
                "range": str(need.specifier),
                "installed": version,
                "ok": inside or version is None and extra in OPTIONAL,
            }
        )
    return found


def machine() -> dict:
    """Python, system, cores, memory and free disk space in GiB, threads of torch, the GPU if there is one."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    found = {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": cores,
        "memory_gib": round(memory / 2**30, 1),
        "disk_free_gib": round(shutil.disk_usage(_present(results_dir("laptop"))).free / 2**30, 1),
        "threads": None,
        "gpu": None,
    }
    try:
        import torch
    except ImportError:
        return found
    gpu = torch.cuda.get_device_name(0) if torch.cuda.is_available() else None
    return {**found, "threads": torch.get_num_threads(), "gpu": gpu}


def _present(folder: Path) -> Path:
    return next(place for place in (folder, *folder.parents) if place.exists())


def work(profile: str | None = None) -> list[dict]:
    """Per experiment: results by state, core-seconds of those to train, seconds with the profile's jobs.

    settings: the profile whose settings it takes; memory_gib: what a training takes on the device by
    estimate, None where that is little.
    """
    scale, found = profiles.current(profile), {}
    for job in runner.plan(None, scale.name):
        found.setdefault(job.experiment, []).append(job)
    table = []
    for id, jobs in found.items():
        todo = [job.estimate for job in jobs if job.state not in results.USABLE]
        table.append(
            {
                "experiment": id,
                "settings": registry.settings_profile(id, scale.name),
                "results": dict(Counter(job.state for job in jobs)),
                "core_seconds": sum(todo),
                "memory_gib": registry.experiment(id).memory.get(scale.name),
                "seconds": max([sum(todo) / scale.jobs, *todo], default=0.0),
            }
        )
    return table


def damaged(ids: Iterable[str], profile: str | None = None) -> list[str]:
    """What is wrong with the files at hand of experiments: results, probes, and what registers them."""
    ids = dict.fromkeys(ids)
    found = [
        reason for id in ids for kind, reason in results.states(id, profile).values() if kind == "unreadable"
    ]
    for file in [probes.path(id, arm) for id in ids for arm in registry.arms(id)]:
        try:
            probes.read(file.parent.name, file.stem)
        except FileError as error:
            found.append(str(error))
    return list(dict.fromkeys([*registry.unread(), *found]))


def artefacts(items: Iterable[registry.Artefact]) -> tuple[dict[str, tuple[str, str]], list[str]]:
    """({id: (status, reason)}, what is wrong with the files that say so); status as `building.status` has it.

    An artefact of which nothing can be said, as the manifest is damaged, is "unreadable".
    """
    items = list(items)
    found, problems = {}, damaged(need for item in items for need in item.needs)
    for item in items:
        try:
            found[item.id] = building.status(item.id)
        except (FileError, OSError) as error:
            found[item.id] = "unreadable", sentence(error)
            problems.append(sentence(error))
    return found, list(dict.fromkeys(problems))


def _kept(file: Path) -> Callable:
    adapted, _, arm = file.stem.rpartition(".")  # lab.adapters names its files by experiment and arm
    return lambda: weights.check(file, f"causalnb run {adapted or arm.partition('_')[0] + '.base'}")


def report(profile: str | None = None) -> dict:
    """All of it; `problems` are sentences about what would keep the course from running here."""
    scale, needs, here = profiles.current(profile), packages(), machine()
    problems = [
        f"{need['name']} {need['range']} is needed and {need['installed'] or 'none'} is installed: "
        "run make setup."
        for need in needs
        if not need["ok"]
    ]
    bases = sorted(models_dir("laptop").glob("*.safetensors"))
    for check in (lambda: profiles.device(scale), *map(_kept, bases)):
        try:
            check()
        except LabError as error:
            problems.append(str(error))
    return {
        "profile": scale.name,
        "machine": here,
        "packages": needs,
        "work": work(scale.name),
        "problems": problems + damaged(one.id for one in registry.experiments()),
    }
