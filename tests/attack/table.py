"""Attacks of every kind, and a table of what became of them."""

import argparse
import os
import resource
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context

from tabulate import tabulate

from tests.attack import commands, interrupted, servers, stored, values
from tests.attack.tries import OUTCOMES, Kind, Outcome, attack

KINDS = {
    kind.name: kind for module in (stored, interrupted, servers, commands, values) for kind in module.KINDS
}
BAD = ("silent", "raw")
MEMORY = 20 * 2**30  # bytes of addresses: a request for 10^9 layers ends, and not the machine


def tried(name: str, seed: int, count: int, only: int | None) -> tuple[str, list[Outcome], float]:
    """A kind's outcomes, and the seconds that they took; in a process of its own, which prints nothing."""
    start, nothing = time.monotonic(), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    outcomes = attack(KINDS[name], seed, count, only)
    return name, outcomes, time.monotonic() - start


def table(outcomes: dict[str, list[Outcome]], seconds: dict[str, float]) -> str:
    """A row for each kind, and one for all."""
    rows = []
    for name, some in outcomes.items():
        counts = [sum(one.outcome == outcome for one in some) for outcome in OUTCOMES]
        rows.append([name, len(some), *counts, f"{seconds[name]:.0f} s"])
    if len(rows) > 1:
        rows.append(["all", *(sum(column) for column in list(zip(*rows, strict=True))[1:-1]), ""])
    return tabulate(rows, ("kind of attack", "tries", *OUTCOMES, "time"))


def again(kind: str, seed: int, bad: Outcome) -> str:
    """What was bad, and how to see it again."""
    command = f"python -m tests.attack '{kind}' --seed {seed} --only {bad.number}"
    return f"{bad.outcome}: {bad.name}\n    {bad.why}\n    again: {command}"


def main(words: list[str] | None = None) -> int:
    """The table on standard output; 1 if anything was silent or raw, and then what shows it again."""
    parser = argparse.ArgumentParser(prog="python -m tests.attack", description=__doc__)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"default: all of {', '.join(KINDS)}")
    parser.add_argument("--seed", type=int, default=0, help="another seed, other tries (0)")
    parser.add_argument("--only", type=int, help="the number of one try")
    parser.add_argument("--share", type=float, default=1.0, help="share of the tries (1)")
    parser.add_argument("--jobs", type=int, default=2, help="kinds at a time (2)")
    asked = parser.parse_args(words)
    if unknown := set(asked.kinds) - KINDS.keys():
        parser.error(f"there is no kind {min(unknown)!r}: there are {', '.join(KINDS)}")
    chosen: list[Kind] = [KINDS[name] for name in asked.kinds or KINDS]
    start, outcomes, seconds = time.monotonic(), {}, {}
    with ProcessPoolExecutor(asked.jobs, get_context("spawn"), max_tasks_per_child=1) as pool:
        jobs = [
            pool.submit(tried, kind.name, asked.seed, max(1, round(kind.count * asked.share)), asked.only)
            for kind in sorted(chosen, key=lambda kind: -kind.count)
        ]
        for job in as_completed(jobs):
            name, outcomes[name], seconds[name] = job.result()
    outcomes = {kind.name: outcomes[kind.name] for kind in chosen}
    bad = [(kind, one) for kind, some in outcomes.items() for one in some if one.outcome in BAD]
    print("\n".join(again(kind, asked.seed, one) for kind, one in bad), end="\n\n" if bad else "")
    print(table(outcomes, seconds))
    print(f"seed {asked.seed}, {time.monotonic() - start:.0f} s")
    return 1 if bad else 0
