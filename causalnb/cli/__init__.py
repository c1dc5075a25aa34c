"""The command line: list, run, reproduce, tables, figures, train, evaluate, data, doctor, lab."""

import os
import sys

from causalnb.cli import applications, course, data, reports, runs, status  # noqa: F401  (they add their commands)
from causalnb.cli.common import app, show, steps

__all__ = ["app", "main", "show", "steps"]


def main() -> None:
    """The entry point; exit code 0: done, 1: some of the work failed, 2: the request was wrong."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed, so that the next file opened would stand in its place
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))
    sys.stdout.reconfigure(errors="backslashreplace")  # for letters that the terminal does not have
    app(prog_name="causalnb")
