"""What there is to run and to build: experiments, and every table and figure of the sources with status."""

import csv
import difflib
import importlib
import json
import pkgutil
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path

from causalnb.errors import LabError, sentence
from causalnb.lab import profiles
from causalnb.paths import figures_dir, paper_dir, shown

ID = re.compile(r"[a-z0-9_]+(\.[a-z0-9_]+)+")
NAME = re.compile(r"[A-Za-z0-9_+-]+")


@dataclass
class Run:
    """What an experiment's `run` is given; `folder` holds checkpoints, `progress` takes done, total, note."""

    experiment: str
    arm: str
    seed: int
    profile: str
    config: dict
    folder: Path
    device: str
    progress: Callable[[int, int, str], None]


@dataclass(frozen=True)
class Experiment:
    """A training with its arms: `settings["laptop"]` is complete, other profiles and arms are laid over it.

    `run(Run) -> {"metrics": {name: float}, "history": [{...}, ...]}`; seeds are 0 .. count-1;
    `code`: modules and packages it depends on, `arm_code`: those that an arm needs besides; `cost`: first
    guess of core-seconds per result and profile, replaced by measured ones; `memory`: by profile, estimated
    GiB on the device, where that is much.
    """

    id: str
    title: str
    arms: Mapping[str, Mapping]
    settings: Mapping[str, Mapping]
    seeds: Mapping[str, int]
    run: Callable[[Run], dict]
    code: tuple[str, ...]
    cost: Mapping[str, float]
    notebook: str = ""
    arm_code: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    memory: Mapping[str, float] = field(default_factory=dict)

    def code_of(self, arm: str) -> tuple[str, ...]:
        """The modules and packages that a result of the arm depends on."""
        return (*self.code, *self.arm_code.get(arm, ()))


@dataclass(frozen=True)
class Artefact:
    """A table or figure of a source; `build(profile)` saves it from the results of experiments `needs`."""

    id: str
    source: str
    printed_as: str
    shows: str
    kind: str
    notebook: str
    needs: tuple[str, ...] = ()
    code: tuple[str, ...] = ()
    build: Callable[[str], None] | None = None
    extra: bool = False


_experiments: dict[str, Experiment] = {}
_artefacts: dict[str, Artefact] = {}


def _place(function: Callable) -> tuple[str, str]:
    return function.__module__, function.__qualname__


def register(experiment: Experiment) -> Experiment:
    """Add an experiment; LabError if its id is taken, a name malformed or a setting unknown to laptop."""
    e = experiment
    if not ID.fullmatch(e.id):
        raise LabError(f"{e.id!r} is no experiment id: write <source>.<name> in lower case.")
    if e.id in _experiments and _place(_experiments[e.id].run) != _place(e.run):
        raise LabError(f"{e.id!r} is registered already by {_experiments[e.id].run.__module__}: rename one.")
    for arm in e.arms or [""]:
        if not NAME.fullmatch(arm):
            raise LabError(f"{e.id} has an arm called {arm!r}: name each arm with letters, digits, _+-.")
    for part, values in (("settings", e.settings), ("seeds", e.seeds), ("cost", e.cost)):
        if "laptop" not in values or set(values) - set(profiles.PROFILES):
            raise LabError(f"the {part} of {e.id} are for {sorted(values)}: give laptop, and known profiles.")
    for place, values in [*e.settings.items(), *e.arms.items()]:
        if unknown := set(values) - set(e.settings["laptop"]):
            raise LabError(f"{e.id} sets {min(unknown)!r} for {place} only: give laptop a value for it too.")
    _experiments[e.id] = e
    return e


def artefact(id: str, needs: Iterable[str] = (), code: Iterable[str] = (), extra: bool = False,
             printed_as: str = "", shows: str = "", kind: str = "computed", notebook: str = "") -> Callable:
    """Register the decorated `build(profile)`; `code`: modules it is computed from without a stored result.

    extra=True: an artefact of ours that no source prints; it gives printed_as and shows itself.
    """
    if extra and not (printed_as and shows):
        raise LabError(f"the extra artefact {id!r} needs printed_as and shows.")

    def decorate(build: Callable[[str], None]) -> Callable[[str], None]:
        if id in _artefacts and _place(_artefacts[id].build) != _place(build):
            raise LabError(f"{id!r} has a builder already in {_artefacts[id].build.__module__}: remove one.")
        _artefacts[id] = Artefact(id, id.partition(".")[0], printed_as, shows, kind, notebook,
                                  tuple(needs), tuple(code), build, extra)
        return build

    return decorate


def load_all() -> None:
    """Import every module of causalnb.experiments, which registers what it holds."""
    package = importlib.import_module("causalnb.experiments")
    for module in pkgutil.iter_modules(package.__path__, "causalnb.experiments."):
        importlib.import_module(module.name)


def _unknown(kind: str, id: str, known: Iterable[str]) -> LabError:
    close = difflib.get_close_matches(id, known := sorted(known), 3, 0.5)
    few = len(known) <= 12
    there = f"there are {', '.join(known) or 'none yet'}" if few else "`causalnb list` names them"
    hint = f"did you mean {' or '.join(close)}" if close else there
    return LabError(f"there is no {kind} {id!r}: {hint}.")


def experiments() -> list[Experiment]:
    """All experiments, by id."""
    load_all()
    return [_experiments[id] for id in sorted(_experiments)]


def experiment(id: str) -> Experiment:
    """The experiment called `id`; LabError names close ones."""
    if id not in _experiments:
        load_all()
    if id not in _experiments:
        raise _unknown("experiment", id, _experiments)
    return _experiments[id]


def arms(id: str, only: Iterable[str] | None = None) -> list[str]:
    """The arms of an experiment, or those in `only`; LabError if one is unknown."""
    known = experiment(id).arms
    for arm in only or ():
        if arm not in known:
            raise _unknown(f"arm of {id} called", arm, known)
    return list(only) if only else list(known)


def seeds(id: str, profile: str | None = None) -> range:
    """The seeds an experiment asks for in a profile."""
    return range(profiles.pick(profile, **experiment(id).seeds))


def settings_profile(id: str, profile: str | None = None) -> str:
    """The profile whose settings an experiment takes: the one asked for, or what stands in for it."""
    return profiles.pick(profile, **{name: name for name in experiment(id).settings})


def config(id: str, arm: str, profile: str | None = None) -> dict:
    """The settings of one arm as plain json: laptop's, under the profile's, under the arm's."""
    spec, (arm,) = experiment(id), arms(id, [arm])
    merged = {**spec.settings["laptop"], **profiles.pick(profile, **spec.settings), **spec.arms[arm]}
    try:
        return json.loads(json.dumps(merged, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise LabError(f"the settings of {id} {arm} are no json ({error}): use numbers and texts.") from None


def artefacts(extras: bool = False) -> list[Artefact]:
    """The artefacts of data/paper/artefacts.csv with their builders, in order; `extras`: our own too."""
    load_all()
    path = paper_dir() / "artefacts.csv"
    try:
        with open(path, newline="", encoding="utf-8") as file:
            columns = ("id", "source", "printed as", "what it shows", "kind", "notebook")
            printed = [Artefact(*(row[name] or "" for name in columns)) for row in csv.DictReader(file)]
    except (OSError, KeyError, UnicodeDecodeError) as error:
        raise LabError(f"{shown(path)} is no list of artefacts ({error}): restore it from git.") from error
    ours = {a.id for a in _artefacts.values() if a.extra}
    if lost := set(_artefacts) - ours - {a.id for a in printed}:
        raise LabError(f"the builder of {min(lost)!r} has no row in {shown(path)}: add it, or extra=True.")
    found = []
    for a in printed:
        made = _artefacts.get(a.id)
        found.append(replace(a, needs=made.needs, code=made.code, build=made.build,
                             notebook=a.notebook or made.notebook) if made else a)
    return found + ([_artefacts[id] for id in sorted(ours)] if extras else [])


def find(artefact_id: str) -> Artefact:
    """The artefact called `artefact_id`, extras included; LabError names close ones."""
    known = {a.id: a for a in artefacts(extras=True)}
    if artefact_id not in known:
        raise _unknown("artefact", artefact_id, known)
    return known[artefact_id]


def resolve(ids: Iterable[str]) -> list[str]:
    """Experiment ids for experiments, artefacts, sources and dotted prefixes, each once.

    A name may be several of these, as sci.components is: it stands for all that they need.
    """
    load_all()
    known = {a.id: a for a in artefacts(extras=True)}
    found = []
    for id in ids:
        meant = [name for name in sorted(_experiments) if name == id or name.startswith(f"{id}.")]
        meant += known[id].needs if id in known else ()
        if meant or id in known and known[id].build:  # some artefacts need no training
            found += meant
        elif id in known:
            raise LabError(f"{id} has no builder yet: nothing can be run for it.")
        elif id in {a.source for a in known.values()}:
            raise LabError(f"no experiment of {id} is registered yet.")
        else:
            raise _unknown("experiment, artefact or source", id,
                           [*_experiments, *known, *{a.source for a in known.values()}])
    return list(dict.fromkeys(found))


def status(artefact_id: str, profile: str = "laptop") -> tuple[str, str]:
    """("built" | "missing" | "stale", one-line reason), computed from files, manifest and results."""
    from causalnb.lab import manifest, results

    item = find(artefact_id)
    if not item.build:
        return "missing", "no builder yet"
    entry, folder = manifest.entries(profile).get(item.id), figures_dir(profile)
    present = [name for name in (entry or {"files": ()})["files"] if (folder / name).is_file()]
    states = [results.states(id, profile) for id in item.needs]
    wanted = {job: state for one in states for job, (state, _) in one.items()}
    short = [job for job, state in wanted.items() if state != "fresh"]
    of, why = dict.fromkeys(job[0] for job in short), sorted({wanted[job] for job in short})
    lacking = f"{len(short)} of {len(wanted)} results ({', '.join(of)}) {' or '.join(why)}" if short else ""
    if not present:
        return "missing", lacking or f"not made yet: causalnb figures {item.id}"
    if lacking:
        return "stale", lacking
    if entry["profile"] != profile:
        return "stale", f"made from {entry['profile']} results"
    for name, digest in entry["files"].items():
        if name not in present:
            return "stale", f"{name} is gone"
        if sha256((folder / name).read_bytes()).hexdigest() != digest:
            return "stale", f"{name} was changed after it was made"
    if entry["results"] != origin(item, profile):
        return "stale", "what it is made from has changed since"
    return "built", f"{len(wanted)} results, {len(present)} files"


def origin(item: Artefact, profile: str) -> str | None:
    """Digest of what an artefact is made from: results, builder, statistics, and its source's claims."""
    from causalnb.lab import results

    code = {*item.code, "causalnb.lab.statistics", "causalnb.lab.verdicts"}
    if item.build:
        code.add(item.build.__module__)
    path = paper_dir() / "claims.csv"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    claims = [line for line in lines if line.startswith(f"{item.source}.")]
    return results.digest(item.needs, profile, sorted(code), claims)


def build(artefact_id: str, profile: str | None = None) -> list[Path]:
    """Make the files of one artefact from stored results; LabError if it has no builder or saves nothing."""
    from causalnb.lab import figures, manifest, results

    item, profile = find(artefact_id), profiles.current(profile).name
    if not item.build:
        raise LabError(f"{artefact_id} has no builder yet: it cannot be made.")
    with figures.style(), results.stored_only(), manifest.building(item, profile) as files:
        item.build(profile)
        if not files:
            raise LabError(f"the builder of {artefact_id} saved nothing: call save_figure or save_table.")
    return [figures_dir(profile) / name for name in sorted(files)]


def build_all(profile: str | None = None, ids: Iterable[str] | None = None) -> list[dict]:
    """Build what has a builder (or `ids`); a dict each: id, outcome "done" | "failed", files, error."""
    summary = []
    for id in ids if ids is not None else [a.id for a in artefacts(extras=True) if a.build]:
        made, error = [], ""
        try:
            made = [str(file) for file in build(id, profile)]
        except Exception as problem:
            error = sentence(problem)
        summary.append({"id": id, "outcome": "failed" if error else "done", "files": made, "error": error})
    return summary
