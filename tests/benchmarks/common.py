"""What benchmarks of two models share: a table of rows with their bars, and a JSON file."""

import argparse
import json
import sys
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from subprocess import run

import torch
from rich.console import Console
from rich.table import Table
from transformers import logging

KEYS = ("what", "unit", "plain", "ours", "ratio", "bar")


def row(what: str, unit: str, plain: float, ours: float, bar: float | None = None) -> dict:
    """What was measured, of a plain model and ours, their ratio, and the most it may be."""
    return dict(zip(KEYS, (what, unit, plain, ours, ours / plain, bar), strict=True))


def alone(module: str, call: str) -> float:
    """The last number that call(...) of a benchmark prints in a process of its own."""
    command = [sys.executable, "-c", f"from {module} import *; {call}"]
    return float(run(command, capture_output=True, encoding="utf-8", check=True).stdout.split()[-1])


def print_peak(call: Callable) -> None:
    """Print how many MiB of tensors of its own a call holds at most; what malloc adds is left out."""
    watched = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=watched, profile_memory=True) as told:
        call()
    events = [event for event in told.profiler.kineto_results.events() if event.name() == "[memory]"]
    held = accumulate(event.nbytes() for event in sorted(events, key=lambda event: event.start_ns()))
    print(max(held) / 2**20)


def missed(rows: list[dict]) -> list[str]:
    """What exceeds its bar."""
    return [one["what"] for one in rows if one["bar"] is not None and not one["ratio"] <= one["bar"]]


def show(source: str, title: str, about: str, measure: Callable[[int, Callable], list[dict]]) -> None:
    """Run measure(repeats, say), print its rows, and add them under `source` to the file given as --json.

    With --strict a bar that is missed ends the program with status 1, after the file is written.
    """
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--repeats", type=int, default=5, help="runs of each call after a warm-up (5)")
    parser.add_argument("--json", type=Path, help="a file to write the rows to")
    parser.add_argument("--strict", action="store_true", help="fail where a bar is missed")
    options = parser.parse_args()
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    console = Console()
    table = Table("what", "unit", "plain", "ours", "ours / plain", "bar", title=title)
    with console.status("measuring") as status:
        rows = measure(options.repeats, lambda what: status.update(f"measured: {what}"))
    for one in rows:
        limit = one["bar"]
        over = one["what"] in missed([one])
        told = "" if limit is None else f"<= {limit:.2f}x, {'MISSED' if over else 'kept'}"
        table.add_row(
            one["what"],
            one["unit"],
            f"{one['plain']:.1f}",
            f"{one['ours']:.1f}",
            f"{one['ratio']:.2f}x",
            told,
        )
    console.print(table)
    if options.json:
        known = json.loads(options.json.read_text(encoding="utf-8")) if options.json.exists() else {}
        options.json.write_text(json.dumps(known | {source: rows}, indent=1) + "\n", encoding="utf-8")
    if options.strict and (over := missed(rows)):
        sys.exit(f"missed: {'; '.join(over)}")
