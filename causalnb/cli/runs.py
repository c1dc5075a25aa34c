"""Commands that train: run."""

import sys
from collections import Counter

import typer

from causalnb.cli.common import (
    EXIT_FAILED,
    DryRun,
    Fresh,
    Jobs,
    Json,
    Profile,
    Seeds,
    Targets,
    app,
    say,
    show,
    tally,
)
from causalnb.lab import profiles, registry


def warn_of_other_settings(ids, profile: str | None) -> None:
    """Say which experiments have no settings for a GPU's profile, and whose they take in its place."""
    scale, taken = profiles.current(profile), {}
    for id in ids if scale.device == "cuda" else ():
        taken.setdefault(registry.settings_profile(id, scale), []).append(id)
    for other in taken.keys() - {scale.name}:
        print(
            f"no settings for the profile {scale.name}, so {other}'s: {', '.join(taken[other])}",
            file=sys.stderr,
        )


@app.command()
def run(
    targets: Targets,
    profile: Profile = None,
    seeds: Seeds = None,
    jobs: Jobs = None,
    fresh: Fresh = False,
    dry_run: DryRun = False,
    json_: Json = False,
) -> None:
    """Train what is missing or out of date; interrupted, the same command resumes."""
    from causalnb.lab import runner
    from causalnb.lab.results import duration

    planned = runner.plan(targets, profile, seeds)
    todo = [job for job in planned if fresh or job.state != "fresh"]
    if not json_:
        warn_of_other_settings(dict.fromkeys(job.experiment for job in planned), profile)
    if dry_run:
        if json_:
            return say([job._asdict() for job in todo])
        times = [job.estimate for job in todo]
        show(
            ("experiment", "arm", "seed", "now", "expected"),
            [(*job[:4], duration(job.estimate)) for job in todo],
        )
        expected = max([sum(times) / (jobs or profiles.current(profile).jobs), *times])
        print(f"{len(todo)} to train of {len(planned)}" + (f", about {duration(expected)}" if todo else ""))
        return
    if not planned and not json_:
        print(f"{', '.join(targets)}: no training needed, causalnb tables and causalnb figures build at once")
        return
    summary = runner.run(targets, profile, seeds, jobs, fresh)
    failed = [job for job in summary if job["outcome"] == "failed"]
    if json_:
        say(summary)
    else:
        show(
            ("experiment", "arm", "seed", "outcome", "time"),
            [
                (
                    *(job[key] for key in ("experiment", "arm", "seed")),
                    job["error"] or job["outcome"],
                    duration(job["seconds"]),
                )
                for job in summary
                if job["outcome"] != "kept"
            ],
        )
        counts = Counter(job["outcome"] for job in summary)
        print(tally({key: counts[key] for key in ("done", "kept", "failed")}))
    raise typer.Exit(EXIT_FAILED if failed else 0)
