"""The store of measured numbers: a JSON per (experiment, arm, seed) with what it was made from."""

import ast
import functools
import gc
import importlib.machinery
import importlib.metadata
import importlib.util
import json
import math
import os
import platform
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields
from hashlib import sha256
from pathlib import Path
from statistics import median

import causalnb
from causalnb.errors import LabError
from causalnb.lab import files, profiles, registry
from causalnb.paths import results_dir, root, shown

SCHEMA = 1
_stored_only: ContextVar[bool] = ContextVar("stored_only", default=False)


@dataclass(frozen=True)
class Result:
    """One measured result; metrics are finite floats or None, history is a list of flat rows."""

    experiment: str
    arm: str
    seed: int
    profile: str
    config: dict
    config_hash: str
    code_hash: str
    metrics: dict
    history: list
    device: str
    versions: dict
    git: dict
    wall_seconds: float
    cpu_seconds: float
    date: str
    schema: int = SCHEMA


def _canonical(value) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _short(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:16]


def plain(value, where: str = "value"):
    """`value` as json has it: arrays to lists, numbers to int or float, nan and infinity to None."""
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): plain(item, f"{where}[{key!r}]") for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item, f"{where}[{i}]") for i, item in enumerate(value)]
    if hasattr(value, "tolist"):
        return plain(value.tolist(), where)
    raise LabError(f"{where} is a {type(value).__name__}, which no result holds: return numbers and lists.")


def config_hash(config: dict) -> str:
    """16 hex digits of the canonical json of `config`."""
    return _short(_canonical(config))


def _guard(node) -> bool:
    """An `if` that does nothing but raise: it stops a run, and changes no number of one that ended.

    What stands in a `try` is no guard, since the raising may be caught there; nor is a test that assigns.
    A caller elsewhere that catches the error would be missed: hashed code decides nothing by exceptions.
    """
    return (isinstance(node, ast.If) and not node.orelse and isinstance(node.body[-1], ast.Raise)
            and all(isinstance(step, (ast.Assign, ast.Raise)) for step in node.body)
            and not any(isinstance(part, ast.NamedExpr) for part in ast.walk(node.test)))


def _tree(node, caught: bool = False) -> str:
    """`node` without positions, docstrings, guards and empty fields, so that Python versions agree."""
    if isinstance(node, list):
        return "[" + ",".join(_tree(part, caught) for part in node if caught or not _guard(part)) + "]"
    if not isinstance(node, ast.AST):
        return repr(node)
    parts, caught = [], caught or isinstance(node, ast.Try)
    for name, value in ast.iter_fields(node):
        documented = isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        if name == "body" and documented and ast.get_docstring(node, clean=False) is not None:
            value = value[1:]
        if value is not None and value != []:
            parts.append(f"{name}={_tree(value, caught)}")
    return f"{type(node).__name__}({','.join(parts)})"


def _sources(module: str) -> list[tuple[str, Path]]:
    """(name, file) of a module, or of everything in a package, found without importing it."""
    top, *rest = module.split(".")
    try:
        spec = importlib.util.find_spec(top)
        for depth in range(len(rest)):
            places = spec and spec.submodule_search_locations
            name = ".".join([top, *rest[:depth + 1]])
            spec = importlib.machinery.PathFinder.find_spec(name, places) if places else None
    except ValueError:
        spec = None
    if spec and spec.submodule_search_locations:
        places = map(Path, spec.submodule_search_locations)
        return [(f"{module}/{file.relative_to(place).as_posix()}", file)
                for place in places for file in sorted(place.rglob("*.py"))]
    if not spec or not str(spec.origin).endswith(".py"):
        raise LabError(f"there is no Python module {module!r} to hash: correct the name in code=(...).")
    return [(module, Path(spec.origin))]


@functools.lru_cache(None)
def code_hash(modules: tuple[str, ...]) -> str:
    """16 hex digits of the syntax trees of modules and packages: no layout, comments, docstrings, guards."""
    try:
        return _short("\n".join(f"{name} {_tree(ast.parse(file.read_bytes()))}"
                                for module in sorted(set(modules)) for name, file in _sources(module)))
    except SyntaxError as error:
        raise LabError(f"{error.filename} line {error.lineno} is not valid Python: correct it.") from error


def versions() -> dict:
    """What a result was computed with."""
    found = {"python": platform.python_version(), "causalnb": causalnb.__version__}
    for name in ("torch", "transformers", "numpy"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None
    return found


def git() -> dict:
    """{commit, dirty} of the checkout, nulls without git; dirty means its code, not results and figures."""
    def ask(*words: str) -> str:
        words = ["git", "-C", str(root()), *words]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()

    try:
        top, commit = ask("rev-parse", "--show-toplevel", "HEAD").splitlines()
        if Path(top).resolve() == root().resolve():
            dirty = ask("status", "--porcelain", "--", "causalnb", "pyproject.toml")
            return {"commit": commit, "dirty": bool(dirty)}
    except (OSError, subprocess.CalledProcessError):
        pass
    return {"commit": None, "dirty": None}


def path(experiment: str, arm: str, seed: int, profile: str | None = None) -> Path:
    """Where the result of one run lies."""
    return results_dir(profiles.current(profile).name) / experiment / arm / f"seed{seed}.json"


def write(result: Result) -> Path:
    """Store a result at once; LabError if the disk refuses, and the previous one is untouched."""
    record = {field.name: plain(getattr(result, field.name), field.name) for field in fields(Result)}
    for name, value in record["metrics"].items():
        if isinstance(value, bool) or not isinstance(value, (int, float, type(None))):
            raise LabError(f"metric {name!r} of {result.experiment} is {value!r}: give a number or None.")
    record["checksum"] = _short(_canonical(record))
    lines = ",\n".join(f" {json.dumps(key)}: {json.dumps(value)}" for key, value in record.items())
    target = path(result.experiment, result.arm, result.seed, result.profile)
    files.write_atomic(target, f"{{\n{lines}\n}}\n".encode())
    return target


def read(experiment: str, arm: str, seed: int, profile: str | None = None) -> Result:
    """The stored result; LabError naming the file if it is absent, damaged or of another schema."""
    file, profile = path(experiment, arm, seed, profile), profiles.current(profile).name
    redo = f"causalnb run {experiment} --profile {profile}"
    try:
        record = json.loads(file.read_bytes())
        if not isinstance(record, dict):
            raise ValueError("it holds no record")
    except FileNotFoundError:
        raise LabError(f"there is no result {shown(file)}: make it with `{redo}`.") from None
    except (OSError, ValueError) as error:
        why = f"{shown(file)} is damaged ({error})"
        raise LabError(f"{why}: restore it from git, or delete it and `{redo}`.") from None
    if record.get("schema") != SCHEMA:
        raise LabError(f"{shown(file)} has schema {record.get('schema')!r} and this causalnb reads {SCHEMA}: "
                       f"update causalnb, or delete it and `{redo}`.")
    checksum = record.pop("checksum", None)
    shape = {field.name: field.type for field in fields(Result)}
    wrong = [name for name in {*shape, *record} if type(record.get(name)) is not shape.get(name)]
    if wrong or checksum != _short(_canonical(record)):
        why = f"{min(wrong)} is not as a result has it" if wrong else "it was changed after it was written"
        raise LabError(f"{shown(file)} is damaged ({why}): restore it from git, or delete it and `{redo}`.")
    result = Result(**record)
    if (result.experiment, result.arm, result.seed, result.profile) != (experiment, arm, seed, profile):
        raise LabError(f"{shown(file)} holds {result.experiment} {result.arm} seed {result.seed} of "
                       f"{result.profile}: put it back where it belongs and `{redo}`.")
    return result


def _look(experiment: str, arm: str, seed: int, profile: str | None) -> tuple[str, str, Result | None]:
    if not path(experiment, arm, seed, profile).exists():
        return "missing", "not run yet", None
    try:
        result = read(experiment, arm, seed, profile)
    except LabError as error:
        return "unreadable", str(error), None
    if result.config_hash != config_hash(registry.config(experiment, arm, profile)):
        return "stale", "its settings have changed since", result
    if result.code_hash != code_hash(registry.experiment(experiment).code_of(arm)):
        return "stale", "the code it depends on has changed since", result
    return "fresh", f"measured {result.date[:10]}", result


def state(experiment: str, arm: str, seed: int, profile: str | None = None) -> tuple[str, str]:
    """("fresh" | "stale" | "missing" | "unreadable", one-line reason)."""
    return _look(experiment, arm, seed, profile)[:2]


def states(experiment: str, profile: str | None = None, arms: Iterable[str] | None = None) -> dict:
    """{(experiment, arm, seed): (state, reason)} of every result the experiment asks for."""
    return {(experiment, arm, seed): state(experiment, arm, seed, profile)
            for arm in registry.arms(experiment, arms) for seed in registry.seeds(experiment, profile)}


def lock(experiment: str, arm: str, seed: int, profile: str | None = None, wait: float = 0.0):
    """Context manager: only one runner writes a result; LabError for the second after `wait` seconds."""
    name = f"{profiles.current(profile).name}.{experiment}.{arm}.seed{seed}"
    taken = f"another run is writing {experiment} {arm} seed {seed}: wait for it or stop it."
    return files.lock(name, taken, wait)


def estimate(experiment: str, arm: str, profile: str | None = None) -> float:
    """Core-seconds of one result: the median measured for this arm, else its experiment, else the guess."""
    spec, measured = registry.experiment(experiment), {}
    for other in spec.arms:
        now = config_hash(registry.config(experiment, other, profile))
        for file in path(experiment, other, 0, profile).parent.glob("seed*.json"):
            if file.stem[4:].isdigit():
                _, _, result = _look(experiment, other, int(file.stem[4:]), profile)
                if result and result.config_hash == now:
                    measured.setdefault(other, []).append(result.cpu_seconds)
    times = measured.get(arm) or [seconds for some in measured.values() for seconds in some]
    return median(times) if times else float(profiles.pick(profile, **spec.cost))


def duration(seconds: float) -> str:
    """`seconds` as a reader says it."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def fresh(experiment: str, profile: str | None = None, arms: Iterable[str] | None = None) -> list[Result]:
    """The fresh results among those the experiment asks for; LabError if one is unreadable."""
    found = []
    for arm in registry.arms(experiment, arms):
        for seed in registry.seeds(experiment, profile):
            kind, reason, result = _look(experiment, arm, seed, profile)
            if kind == "unreadable":
                raise LabError(reason)
            if kind == "fresh":
                found.append(result)
    return found


def _rows(results: list[Result], rows: Iterable):
    import pandas as pd

    return pd.DataFrame([{"arm": result.arm, "seed": result.seed, **row} for result, row in rows],
                        columns=None if results else ["arm", "seed"])


def frame(experiment: str, profile: str | None = None, arms: Iterable[str] | None = None):
    """DataFrame of the fresh results: arm, seed and a column per metric; NaN where a metric is None."""
    found = fresh(experiment, profile, arms)
    return _rows(found, [(r, {k: math.nan if v is None else v for k, v in r.metrics.items()}) for r in found])


def curves(experiment: str, profile: str | None = None, arms: Iterable[str] | None = None):
    """DataFrame of the histories of the fresh results: arm, seed and the columns of the history."""
    found = fresh(experiment, profile, arms)
    return _rows(found, [(r, row) for r in found for row in r.history])


@contextmanager
def stored_only() -> Iterator[None]:
    """Within this context `require` trains nothing: tables and figures are made from what is stored."""
    token = _stored_only.set(True)
    try:
        yield
    finally:
        _stored_only.reset(token)


def lacking(experiment: str, profile: str | None = None,
            arms: Iterable[str] | None = None) -> tuple[list, float]:
    """The (experiment, arm, seed) that are missing or stale, and the core-seconds they should take."""
    wanted = states(experiment, profile, arms)
    jobs = [job for job, (kind, _) in wanted.items() if kind in ("missing", "stale")]
    seconds = {arm: estimate(experiment, arm, profile) for arm in {arm for _, arm, _ in jobs}}
    return jobs, sum(seconds[arm] for _, arm, _ in jobs)


def live(seconds: float, profile: str | None = None) -> bool:
    """Whether training of that length is done without being asked: short in this profile, or FRESH=1."""
    return seconds < profiles.current(profile).live_seconds or os.environ.get("FRESH") == "1"


def require(experiment: str, profile: str | None = None, arms: Iterable[str] | None = None):
    """`frame`, complete: what is missing or stale is trained now if that is short or FRESH=1 is set.

    Else LabError says which command makes it and how long that takes; LabError if one is unreadable.
    """
    scale, arms = profiles.current(profile), registry.arms(experiment, arms)
    short, total = lacking(experiment, scale.name, arms)
    if short and (_stored_only.get() or not live(total, scale.name)):
        of = len(arms) * len(registry.seeds(experiment, scale.name))
        raise LabError(f"{len(short)} of {of} {scale.name} results of {experiment} are not there: "
                       f"`causalnb run {experiment} --profile {scale.name}` makes them in about "
                       f"{duration(total / min(scale.jobs, len(short)))}.")
    if short:
        from tqdm.auto import tqdm

        from causalnb.lab import runner

        gc.freeze()  # the Trainer collects garbage often, and torch alone is a million objects
        with tqdm(total=len(short), desc=experiment, disable=not scale.progress) as bar:
            def note(done: int, total: int, text: str) -> None:
                bar.set_postfix_str(f"{arm} {seed}: {done}/{total} {text}")

            for _, arm, seed in short:
                runner.execute(experiment, arm, seed, scale.name, note, wait=3600)
                bar.update()
    return frame(experiment, scale.name, arms)


def digest(needs: Iterable[str], profile: str | None = None, code: Iterable[str] = (),
           texts: Iterable[str] = ()) -> str | None:
    """16 hex digits of the needed results' settings and numbers, `code`, `texts`; None if not all fresh."""
    parts = [code_hash(tuple(code)) if code else "", *texts]
    for id in sorted(needs):
        found = fresh(id, profile)
        if len(found) < len(registry.arms(id)) * len(registry.seeds(id, profile)):
            return None
        parts += [_canonical([id, r.arm, r.seed, r.config, r.metrics, r.history]) for r in found]
    return _short("\n".join(parts))
