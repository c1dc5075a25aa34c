"""Commands on the public data files: data fetch, data verify."""

import typer

from causalnb.cli.common import EXIT_FAILED, Files, data, show, steps
from causalnb.errors import LabError


@data.command()
def fetch(names: Files = None) -> None:
    """Download what is not here yet, each file checked against its sha256.

    A file that lies at no address is named, and no failure unless it was asked for by its name.
    """
    from causalnb.tasks import files

    known = list(files.REGISTRY)
    if unknown := [
        name for name in names or () if not name or not any(one.startswith(name) for one in known)
    ]:
        raise LabError(f"there is no data file {' or '.join(map(repr, unknown))}: see causalnb data verify.")
    wanted = [name for name in known if name.startswith(tuple(names or [""]))]
    with steps(len(wanted)) as step:
        states = files.fetch_all(wanted, lambda done, total, name: step(name, "looked at", 1.0, done=True))
    report_data(
        states,
        forgiven={
            files.homeless(name)
            for name in wanted
            if not files.REGISTRY[name].url and name not in (names or [])
        },
    )


@data.command()
def verify() -> None:
    """Check the files at hand, without the network; a missing one is no failure, a wrong one is."""
    from causalnb.tasks import files

    report_data([(name, state) for name, state in files.verify()], forgiven={"missing"})


def report_data(states: list[tuple[str, str]], forgiven: frozenset | set = frozenset()) -> None:
    """A line per file; exits with 1 if one is neither ok nor forgiven."""
    show(("file", "state"), states)
    raise typer.Exit(EXIT_FAILED if any(state not in {"ok", *forgiven} for _, state in states) else 0)
