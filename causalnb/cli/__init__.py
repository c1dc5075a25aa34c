"""The command line: list, run, reproduce, tables, figures, train, evaluate, data, doctor, lab."""

from causalnb.cli import applications, course, data, reports, runs, status  # noqa: F401  (they add their commands)
from causalnb.cli.common import app, show, steps

__all__ = ["app", "main", "show", "steps"]


def main() -> None:
    """The entry point; exit code 0: done, 1: some of the work failed, 2: the request was wrong."""
    app(prog_name="causalnb")
