"""Made-up results for tests of tables and figures: numbers a test can recompute, stored as by a run."""

from contextlib import contextmanager
from dataclasses import replace

from causalnb.lab import codebase, registry, results


def number(*parts) -> float:
    """A value in (0, 1) of its own for each text."""
    return int(results.settings_hash({"of": parts}), 16) / 16**16


def counted(monkeypatch, id: str, seeds: int) -> registry.Experiment:
    """The experiment of that name, registered with this many seeds while the test lasts."""
    spec = replace(registry.experiment(id), seeds={"laptop": seeds}, more_seeds={})
    monkeypatch.setitem(registry._experiments, id, spec)
    return spec


def wide(measured: dict | list) -> dict:
    """{column of results.frame: value} of a run's metrics, or of a result's rows."""
    rows = results.rows_of(measured) if isinstance(measured, dict) else measured
    return {results.column(*place): value for *place, value in rows}


def write(spec: registry.Experiment, arm: str, seed: int, metrics: dict, history: list[dict]) -> None:
    """Store metrics, {cell: {measure: value}} as a run gives them, as a fresh result in the quick profile."""
    results.write(
        results.Result(
            spec.id,
            arm,
            seed,
            "quick",
            spec.version,
            registry.config(spec.id, arm, "quick"),
            codebase.index().digest,
            results.rows_of(metrics),
            history,
            "cpu",
            {},
            {"commit": None, "dirty": None},
            1.0,
            1.0,
            "2000-01-01",
        )
    )


def everything(monkeypatch, seeds: dict[str, int], metrics, history=lambda arm: [{"step": 1, "loss": 1.0}]):
    """Store every arm of experiments on so many seeds: metrics(id, arm, seed) as `write`, history(arm)."""
    for id, count in seeds.items():
        spec = counted(monkeypatch, id, count)
        for arm in spec.arms:
            for seed in range(count):
                write(spec, arm, seed, metrics(id, arm, seed), history(arm))


def moved(monkeypatch, folder) -> None:
    """Results, figures and caches lie in a folder while the test lasts."""
    for name in ("RESULTS", "FIGURES", "CACHE"):
        monkeypatch.setenv(f"CAUSALNB_{name}", str(folder / name.lower()))


@contextmanager
def without(id: str, arm: str, seed: int):
    """One stored result is gone while this lasts."""
    gone = results.path(id, arm, seed)
    kept = gone.read_bytes()
    gone.unlink()
    try:
        yield
    finally:
        gone.write_bytes(kept)
