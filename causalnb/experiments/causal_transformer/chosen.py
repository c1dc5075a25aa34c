"""What the searches chose: read by the grid from chosen.json, which `searches` writes from stored results.

    python -m causalnb.experiments.causal_transformer.searches

The file is committed, and settings follow from it alone: neither another folder of results nor a search run
again on another machine changes what is registered, and little is read for it. A test computes it again.
Where a choice changes, the runs that depend on it are stale: run them, and this again, until nothing changes.
"""

from pathlib import Path

from causalnb.errors import FileError
from causalnb.lab.records import parsed

FILE = Path(__file__).with_name("chosen.json")
NAMES = {"used", "gcn_used", "entropies", "on_trial", "blanket", "compared", "spreads", "spread_used"}
NAMES |= {"obeyed", "obeyed_entropy"}


def read() -> dict:
    """The choices, by NAMES; FileError where one is missing."""
    try:
        found = parsed(FILE.read_bytes())
    except (OSError, ValueError) as error:
        raise FileError(f"{FILE.name} holds no choices ({error}): restore it from git.") from error
    if missing := NAMES - set(found):
        raise FileError(f"{FILE.name} lacks {min(missing)!r}: restore it from git, or give a first value.")
    return found
