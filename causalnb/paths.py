"""Where things lie; every place can be moved by an environment variable."""

import os
import stat
import tempfile
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path

from causalnb.errors import LabError

TEMPORARY = {"quick"}  # profiles whose numbers and figures are never kept beside the evidence


def given(named: str | Path, by: str) -> Path:
    """The path that a user names with an option or a variable; LabError if it is none."""
    try:
        place = Path(named).expanduser()
        place.resolve().exists()
    except (OSError, RuntimeError, ValueError) as error:
        raise LabError(f"{by} is {str(named)!r}, which is no path ({error}): give another.") from error
    return place


def moved(variable: str) -> Path | None:
    """The path that an environment variable names, None where it is not set; LabError if it is no path."""
    named = os.environ.get(variable)
    working = "" if not named or os.path.isabs(named) else os.getcwd()
    return _resolved(named, variable, working) if named else None


@cache
def _resolved(named: str, by: str, working: str) -> Path:
    return given(named, by).resolve()


@cache
def _checkout() -> Path | None:
    """The checkout that holds this package, None where it is installed."""
    folder = Path(__file__).resolve().parent.parent
    return folder if (folder / "pyproject.toml").exists() else None


def root() -> Path:
    """$CAUSALNB_HOME, or the checkout that holds this package, or the working directory."""
    return moved("CAUSALNB_HOME") or _checkout() or Path.cwd()


def paper_dir() -> Path:
    """The numbers as printed in the sources."""
    return root() / "data" / "paper"


def cache_dir() -> Path:
    """Checkpoints and logs: $CAUSALNB_CACHE or data/cache."""
    return moved("CAUSALNB_CACHE") or root() / "data" / "cache"


def downloads_dir() -> Path:
    """Downloaded data files: $CAUSALNB_CACHE/downloads or data/downloads."""
    cache = moved("CAUSALNB_CACHE")
    return cache / "downloads" if cache else root() / "data" / "downloads"


def notebooks_dir() -> Path:
    """The course."""
    return root() / "notebooks"


def work_dir() -> Path:
    """Where a student works on copies of the notebooks, and keeps predictions: $CAUSALNB_WORK or work."""
    return moved("CAUSALNB_WORK") or root() / "work"


def _aside(profile: str) -> Path | None:
    """The temporary folder of a profile that keeps nothing, one a checkout; LabError if others may enter."""
    if profile not in TEMPORARY:
        return None
    own = f"causalnb-quick-{os.getuid()}-{sha256(str(root()).encode()).hexdigest()[:8]}"
    folder = Path(tempfile.gettempdir()) / own
    with suppress(FileExistsError):
        folder.mkdir(0o700)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise LabError(f"{folder} is no folder of yours alone: remove it, or set TMPDIR to another folder.")
    return folder


def results_dir(profile: str) -> Path:
    """Our numbers: $CAUSALNB_RESULTS/<profile> or data/results/<profile>; quick: a temporary folder."""
    return (moved("CAUSALNB_RESULTS") or (_aside(profile) or root() / "data") / "results") / profile


def probes_dir(profile: str) -> Path:
    """What arms computed in their first steps: $CAUSALNB_PROBES/<profile> or data/probes/<profile>."""
    return (moved("CAUSALNB_PROBES") or root() / "data" / "probes") / profile


def models_dir(profile: str) -> Path:
    """Small pre-trained models that experiments start from: data/models; quick: a temporary folder."""
    return (_aside(profile) or root() / "data") / "models"


def court_dir() -> Path:
    """Cards of the methods that ship, and what was trained for them."""
    return root() / "data" / "court"


def figures_dir(profile: str) -> Path:
    """Figures, tables, their manifest: $CAUSALNB_FIGURES or figures; quick: a temporary folder."""
    return moved("CAUSALNB_FIGURES") or (_aside(profile) or root()) / "figures"


def shown(path: Path) -> str:
    """`path` as a reader would type it: relative to the checkout where it lies inside."""
    return str(path.relative_to(root())) if path.is_relative_to(root()) else str(path)
