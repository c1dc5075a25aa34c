"""Made-up results for tests of tables and figures: numbers a test can recompute, stored as by a run."""

from dataclasses import replace

from causalnb.lab import codebase, registry, results


def number(*parts) -> float:
    """A value in (0, 1) of its own for each text."""
    return int(results.settings_hash({"of": parts}), 16) / 16**16


def counted(monkeypatch, id: str, seeds: int) -> registry.Experiment:
    """The experiment of that name, registered with this many seeds while the test lasts."""
    spec = replace(registry.experiment(id), seeds={"laptop": seeds})
    monkeypatch.setitem(registry._experiments, id, spec)
    return spec


def write(spec: registry.Experiment, arm: str, seed: int, metrics: dict, history: list[dict]) -> None:
    """Store these as the fresh result of a run in the quick profile."""
    results.write(
        results.Result(
            spec.id,
            arm,
            seed,
            "quick",
            spec.version,
            registry.config(spec.id, arm, "quick"),
            codebase.index().digest(),
            metrics,
            history,
            "cpu",
            {},
            {"commit": None, "dirty": None},
            1.0,
            1.0,
            "2000-01-01",
        )
    )
