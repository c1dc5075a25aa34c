"""The command line: all commands, and its entry point."""

import errno
import os
import sys

from causalnb.cli import (  # noqa: F401  (they add their commands)
    applications,
    course,
    court,
    data,
    products,
    reports,
    runs,
    status,
    teaching,
)
from causalnb.cli.common import EXIT_FAILED, app, show, steps, tell_unusable

__all__ = ["app", "main", "show", "steps"]


def main() -> None:
    """The entry point; exit code 0: done, 1: some of the work failed, 2: the request was wrong."""
    closed = sys.stdout is None
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed, so that the next file opened would stand in its place
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))
    sys.stdout.reconfigure(errors="backslashreplace")  # for letters that the terminal does not have
    try:
        if closed:
            raise OSError(errno.EBADF, "it is closed")
        try:
            app(prog_name="causalnb")
        finally:
            sys.stdout.flush()
    except OSError as error:  # outside of any command, such as in --help
        tell_unusable(error)
        sys.exit(EXIT_FAILED)
