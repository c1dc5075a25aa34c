"""Commands that train, compare, and bring in what was trained elsewhere: run, verify, merge."""

import sys
from collections import Counter
from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

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
    steps,
    stoppable,
    tally,
)
from causalnb.errors import FileError, LabError
from causalnb.lab import probes, profiles, registry, results
from causalnb.paths import given, shown

EXIT_REFUSED = 2  # of merge, when a file was not brought in
EXIT_LEFT = 75  # of run --minutes, when something is left: EX_TEMPFAIL, "try again", of sysexits.h
HERE = "here"


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


def fail_of(reasons: Iterable[str]) -> None:
    """Name what cannot be read, and exit with 1 if there is any."""
    if found := [*filter(None, reasons)]:
        for reason in found:
            typer.echo(f"causalnb: {reason}", err=True)
        raise typer.Exit(EXIT_FAILED)


def unreadable(experiment: str, arm: str) -> str:
    """Why the probe of an arm cannot be read, "" if it can."""
    try:
        probes.read(experiment, arm)
    except FileError as error:
        return str(error)
    return ""


def engine_of(executor: str, folder: Path | None, options: list[str]):
    """The engine that --executor names; LabError where it cannot be used."""
    from causalnb.lab import cluster, runner

    if executor != HERE:
        return cluster.Cluster(executor, folder and given(folder, "--executor-folder"), options)
    if folder or options:
        raise LabError("--executor-folder and --slurm are for a cluster: give --executor submitit, too.")
    return runner.Here()


def pack(planned: list, archive: Path | None, profile: str | None, aside: bool) -> None:
    """Write the archive that was asked for, and tell what is in it, `aside` on standard error."""
    from causalnb.lab import archives

    if archive is None:
        return
    counts, left_out = archives.pack(planned, archive, profile)
    for reason in left_out:
        typer.echo(f"causalnb: {reason}", err=True)
    size = archive.stat().st_size / 2**20
    typer.echo(f"{shown(archive)}: {tally(counts) or 'nothing'}, {size:.1f} MiB", err=aside)


@app.command()
def run(
    targets: Targets,
    profile: Profile = None,
    seeds: Seeds = None,
    jobs: Jobs = None,
    fresh: Fresh = False,
    shard: Annotated[
        str | None, typer.Option(metavar="K/N", help="Only the K-th of N parts of all that is asked for.")
    ] = None,
    executor: Annotated[
        str, typer.Option(help="here, submitit (a SLURM cluster) or submitit-local (its stand-in).")
    ] = HERE,
    executor_folder: Annotated[
        Path | None, typer.Option(help="What is submitted lies there; default: submitit in the cache.")
    ] = None,
    slurm: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="An option of sbatch; may be repeated.")
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(help="Stop then, as Ctrl-C does; exit code 75 where something is left.")
    ] = None,
    archive: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A .tar.gz for `merge` of what is there at the end, done or not."),
    ] = None,
    dry_run: DryRun = False,
    json_: Json = False,
) -> None:
    """Train what is missing or out of date; interrupted, the same command resumes.

    Exit code 0: all is there; 75: --minutes are over and something is left; 1: something failed.
    """
    from causalnb.lab import archives, runner
    from causalnb.lab.results import duration

    if minutes is not None and executor != HERE:
        raise LabError(
            "--minutes is for runs on this machine: leave it out with --executor, or use --slurm time=N."
        )
    if archive is not None:
        archives.check(archive := given(archive, "--archive"))
    part = None if shard is None else runner.shard(shard)
    engine = None if dry_run else engine_of(executor, executor_folder, slurm or [])
    whole = runner.plan(targets, profile, seeds)
    planned = runner.part_of(whole, part, profile)
    said = {} if part is None else {"shard": str(part), "plan": runner.digest(whole, profile)}
    todo = [job for job in planned if fresh or job.state not in results.USABLE]
    if not json_:
        warn_of_other_settings(dict.fromkeys(job.experiment for job in planned), profile)
    if dry_run:
        broken = {} if fresh else runner.unreadable(planned, profile)
        if json_:
            say([{**job._asdict(), **said} for job in todo])
            return fail_of(broken.values())
        times = [job.estimate for job in todo]
        show(
            ("experiment", "arm", "seed", "now", "expected"),
            [(*job[:4], duration(job.estimate)) for job in todo],
        )
        expected = max([sum(times) / (jobs or profiles.current(profile).jobs), *times])
        print(f"{len(todo)} to train of {len(planned)}" + (f", about {duration(expected)}" if todo else ""))
        if part:
            mine, every = (sum(runner.costs(jobs, profile).values()) for jobs in (planned, whole))
            print(
                f"part {part} of plan {said['plan']}: {len(planned)} of {len(whole)} results, "
                f"{mine / 3600:.1f} of {every / 3600:.1f} core-hours as registered"
            )
        return fail_of(broken.values())
    if whole and not planned and not json_:
        print(f"part {part} is empty: there are only {len(whole)} results")
        return pack(planned, archive, profile, json_)
    if not planned and not json_:
        print(f"{', '.join(targets)}: no training needed, causalnb tables and causalnb figures build at once")
        return pack(planned, archive, profile, json_)
    with stoppable() if executor != HERE else nullcontext():  # whose jobs do not end with this process
        summary = runner.run(targets, profile, seeds, jobs, fresh, part=part, engine=engine, minutes=minutes)
    left = [job for job in summary if job["outcome"] == "left"]
    failed = [job for job in summary if job["outcome"] == "failed"]
    if json_:
        say([{**job, **said} for job in summary])
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
                if job["outcome"] not in ("kept", "left")
            ],
        )
        counts = Counter(job["outcome"] for job in summary)
        print(tally({key: counts[key] for key in ("done", "kept", "failed")}))
        if left:
            there = counts["done"] + counts["kept"]
            print(f"{there} of {len(summary)} are there and {len(left)} are left: the same command goes on")
    pack(planned, archive, profile, json_)
    raise typer.Exit(EXIT_LEFT if left else EXIT_FAILED if failed else 0)


def compared(ids: Iterable[str], every: bool) -> tuple[list[tuple[str, str]], int]:
    """(arms with results whose probes are to run, number of those that need not)."""
    arms = [
        (id, arm)
        for id in ids
        for arm in registry.arms(id)
        if any(
            results.path(id, arm, seed, probes.PROFILE).exists()
            for seed in registry.seeds(id, probes.PROFILE, arm)
        )
    ]
    wanted = [arm for arm in arms if every or not probes.state(*arm)[0]]
    return wanted, len(arms) - len(wanted)


@app.command()
def verify(
    targets: Annotated[
        list[str] | None, typer.Argument(metavar="[TARGET]...", help="Default: all; see `run`.")
    ] = None,
    jobs: Jobs = None,
    every: Annotated[bool, typer.Option("--all", help="Also those that are verified.")] = False,
    make: Annotated[bool, typer.Option("--make", help="Store a probe where an arm has none.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be compared.")] = False,
    json_: Json = False,
) -> None:
    """Does today's code give the stored numbers? Runs the probes of arms that are unverified.

    A probe is an arm's first steps at the real settings and its quick run. Where all numbers are the same,
    the arm's results are fresh again; the first number that differs is named, and then its version has to be
    raised, or the change undone.
    """
    chosen = registry.resolve(targets) if targets else [one.id for one in registry.experiments()]
    wanted, kept = compared(chosen, every)
    if dry_run:
        rows = [{"experiment": id, "arm": arm, "now": probes.state(id, arm)[1]} for id, arm in wanted]
        broken = [unreadable(*arm) for arm in wanted]
        if json_:
            say(rows)
        else:
            show(("experiment", "arm", "now"), [tuple(row.values()) for row in rows])
            print(f"{len(wanted)} to compare, {kept} verified")
        return fail_of(broken)
    checks = []
    with stoppable(), steps(len(wanted)) as step:

        def tell(check: probes.Check) -> None:
            text = " ".join(filter(None, (check.outcome, check.detail)))
            step(f"{check.experiment} {check.arm}", f"{text}, {check.seconds:.0f} s", 1.0, done=True)

        if wanted:
            checks = probes.verify(wanted, jobs or profiles.current(probes.PROFILE).jobs, make, tell)
    rows = [
        {name: getattr(one, name) for name in ("experiment", "arm", "outcome", "detail")} for one in checks
    ]
    bad = [row for row in rows if row["outcome"] not in ("verified", "made")]
    if json_:
        say(rows)
    else:
        show(("experiment", "arm", "outcome", "what"), [tuple(row.values()) for row in bad])
        counts = Counter({"kept": kept}) + Counter(row["outcome"] for row in rows)
        print(tally(dict(counts)) or "nothing to verify")
    raise typer.Exit(EXIT_FAILED if bad else 0)


@app.command()
def merge(
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="FOLDER...",
            help="Checkouts, data folders, folders with such files, or archives of `run`.",
        ),
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be brought in.")] = False,
    json_: Json = False,
) -> None:
    """Bring in results and probes that were made elsewhere; what differs from ours is refused, by name.

    With an archive come checkpoints of unfinished runs, which `run` goes on from, and adapters. Exit code 2
    where a file was refused; the others are brought in all the same.
    """
    from causalnb.lab import merging

    rows = merging.merge([given(folder, "FOLDER") for folder in folders], dry_run)
    if json_:
        say([vars(row) for row in rows])
    else:
        show(("file", "outcome", "why"), [(row.file, row.outcome, row.why) for row in rows if row.why])
        counts = Counter(row.outcome for row in rows)
        print(tally({key: counts[key] for key in ("new", "kept", "refused", "foreign")}))
    raise typer.Exit(EXIT_REFUSED if any(row.outcome == "refused" for row in rows) else 0)
