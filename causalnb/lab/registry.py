"""What there is to run and to build: experiments, and every table and figure of the sources with status."""

import difflib
import functools
import importlib
import json
import pkgutil
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from types import UnionType
from typing import get_args, get_origin, get_type_hints

import causalnb
from causalnb.errors import FileError, LabError
from causalnb.lab import paper, profiles

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
    """A training with its arms: `settings["laptop"]`, a dataclass, is complete; the rest is laid over it.

    Other profiles and arms are mappings of what differs. A setting that a stored result does not have yet is
    taken to have had its default, so that a new parameter makes nothing stale.

    `run(Run) -> {"metrics": {cell: {measure: float}}, "history": [{...}, ...]}`, cells as results.Result has
    them, with "bases": {name: digest} of the pre-trained models it began from; seeds are 0 .. count-1;
    `more_seeds`: by profile, counts of arms that have more of them; `version`
    is raised, with a line in CHANGELOG.md, by whoever changes what the numbers mean; `timed`: patterns of
    measures that are seconds and differ from run to run; `cost`: first guess of core-seconds per result and
    profile, replaced by measured ones; `memory`: by profile, estimated GiB on the device, where that is much;
    `at_most`: by profile, numbers that no arm's settings exceed there, for arms that differ in their size.
    """

    id: str
    title: str
    arms: Mapping[str, Mapping]
    settings: Mapping[str, object]
    seeds: Mapping[str, int]
    run: Callable[[Run], dict]
    cost: Mapping[str, float]
    notebook: str = ""
    version: int = 1
    timed: tuple[str, ...] = ()
    memory: Mapping[str, float] = field(default_factory=dict)
    at_most: Mapping[str, Mapping] = field(default_factory=dict)
    more_seeds: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


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
    build: Callable[[str], None] | None = None
    extra: bool = False


_experiments: dict[str, Experiment] = {}
_artefacts: dict[str, Artefact] = {}
_unread: dict[str, FileError] = {}  # by module


def _place(function: Callable) -> tuple[str, str]:
    return function.__module__, function.__qualname__


def _plain(settings) -> dict:
    """Settings as a dict, from a dataclass or a mapping; what they hold is not copied."""
    return dict(vars(settings)) if is_dataclass(settings) else dict(settings)


def _hints(settings) -> dict:
    """{field: type} of settings that are a dataclass."""
    return get_type_hints(type(settings)) if is_dataclass(settings) else {}


def _fits(value, hint) -> bool:
    """Whether a value is of a type; a whole number is a float, too, and True is no number."""
    if isinstance(hint, UnionType):
        return any(_fits(value, part) for part in get_args(hint))
    if hint in (int, float):
        return not isinstance(value, bool) and isinstance(value, (int, hint))
    return isinstance(value, get_origin(hint) or hint)


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
    for profile, counts in e.more_seeds.items():
        least = e.seeds[profile] + 1
        for arm, count in counts.items():
            if arm not in e.arms or count < least:
                raise LabError(
                    f"{e.id} gives {arm!r} {count} seeds: name an arm of it, and at least {least}."
                )
    complete, hints = _plain(e.settings["laptop"]), _hints(e.settings["laptop"])
    for place, values in [*e.settings.items(), *e.arms.items(), *e.at_most.items()]:  # type: ignore[assignment]
        values = _plain(values)
        if unknown := set(values) - set(complete):
            raise LabError(f"{e.id} sets {min(unknown)!r} for {place} only: give laptop a value for it too.")
        for name in hints.keys() & values.keys():
            if not _fits(values[name], hints[name]):
                kind = getattr(hints[name], "__name__", hints[name])
                raise LabError(f"{e.id} sets {name!r} for {place} to {values[name]!r}: give a {kind}.")
    _experiments[e.id] = e
    return e


def artefact(
    id: str,
    needs: Iterable[str] = (),
    extra: bool = False,
    printed_as: str = "",
    shows: str = "",
    kind: str = "computed",
    notebook: str = "",
) -> Callable:
    """Register the decorated `build(profile)`; `needs`: the experiments whose results it is made from.

    extra=True: an artefact of ours that no source prints; it gives printed_as and shows itself.
    """
    if extra and not (printed_as and shows):
        raise LabError(f"the extra artefact {id!r} needs printed_as and shows.")

    def decorate(build: Callable[[str], None]) -> Callable[[str], None]:
        if id in _artefacts and _place(_artefacts[id].build) != _place(build):  # type: ignore[arg-type]
            raise LabError(f"{id!r} has a builder already in {_artefacts[id].build.__module__}: remove one.")
        _artefacts[id] = Artefact(
            id,
            id.partition(".")[0],
            printed_as,
            shows,
            kind,
            notebook,
            tuple(needs),
            build,
            extra,
        )
        return build

    return decorate


def load_all() -> None:
    """Import every module of causalnb.CATALOGUES, which registers what it holds; see `unread`."""
    for catalogue in causalnb.CATALOGUES:
        package = importlib.import_module(catalogue)
        for module in pkgutil.walk_packages(package.__path__, f"{catalogue}."):
            if module.name not in _unread:
                try:
                    importlib.import_module(module.name)
                except FileError as error:
                    _unread[module.name] = error


def unread() -> list[str]:
    """What is wrong with the files for want of which modules could not be imported."""
    return list(map(str, _unread.values()))


def _unknown(kind: str, id: str, known: Iterable[str]) -> LabError:
    if _unread:  # it may be in one of them
        return next(iter(_unread.values()))
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


def seeds(id: str, profile: str | None = None, arm: str | None = None) -> range:
    """The seeds an experiment asks for in a profile: those of an arm, or (None) those that all arms have."""
    spec = experiment(id)
    asked = profiles.pick(profile, **{name: name for name in spec.seeds})
    return range(spec.more_seeds.get(asked, {}).get(arm or "", spec.seeds[asked]))


def settings_profile(id: str, profile: str | None = None) -> str:
    """The profile whose settings an experiment takes: the one asked for, or what stands in for it."""
    return profiles.pick(profile, **{name: name for name in experiment(id).settings})


def config(id: str, arm: str, profile: str | None = None) -> dict:
    """The settings of one arm as plain json: laptop's, under the profile's, under the arm's."""
    spec, (arm,) = experiment(id), arms(id, [arm])
    merged = {
        **_plain(spec.settings["laptop"]),
        **_plain(profiles.pick(profile, **spec.settings)),
        **spec.arms[arm],
    }
    bounds = spec.at_most.get(settings_profile(id, profile), {})
    merged |= {name: min(merged[name], bound) for name, bound in bounds.items()}
    try:
        return json.loads(json.dumps(merged, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise LabError(f"the settings of {id} {arm} are no json ({error}): use numbers and texts.") from None


@functools.lru_cache(None)
def _defaults(kind: type) -> dict:
    """{field: default} of a dataclass of settings, as JSON has it; {} of a mapping."""
    made = {}
    for part in fields(kind) if is_dataclass(kind) else ():
        if part.default_factory is not MISSING:
            made[part.name] = part.default_factory()
        elif part.default is not MISSING:
            made[part.name] = part.default
    return json.loads(json.dumps(made))


def same_settings(id: str, stored: Mapping, now: Mapping) -> bool:
    """Whether two settings mean the same: what only one of them has is compared with its default."""
    defaults = _defaults(type(experiment(id).settings["laptop"]))  # type: ignore[arg-type]
    absent = object()
    return all(
        stored.get(name, defaults.get(name, absent)) == now.get(name, defaults.get(name, absent))
        for name in {*stored, *now}
    )


def artefacts(extras: bool = False) -> list[Artefact]:
    """The artefacts of data/paper/artefacts.csv with their builders, in order; `extras`: our own too."""
    load_all()
    columns = ("id", "source", "printed as", "what it shows", "kind", "notebook")
    printed = [Artefact(*(row[name] for name in columns)) for row in paper.rows(paper.LISTED, columns)]  # type: ignore[arg-type]
    if not printed:
        raise paper.damaged(paper.LISTED, "it lists no artefact")
    ours = {a.id for a in _artefacts.values() if a.extra}
    if lost := set(_artefacts) - ours - {a.id for a in printed}:
        raise LabError(
            f"the builder of {min(lost)!r} has no row in data/paper/{paper.LISTED}: add it, or extra=True."
        )
    found = []
    for a in printed:
        made = _artefacts.get(a.id)
        found.append(
            replace(a, needs=made.needs, build=made.build, notebook=a.notebook or made.notebook)
            if made
            else a
        )
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
            raise _unknown(
                "experiment, artefact or source",
                id,
                [*_experiments, *known, *{a.source for a in known.values()}],
            )
    return list(dict.fromkeys(found))
