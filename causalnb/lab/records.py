"""Values as the JSON files of the lab hold them, checksums of them, and the versions they were made with."""

import functools
import importlib.metadata
import json
import math
from hashlib import sha256

from causalnb.errors import LabError


def canonical(value) -> str:
    """JSON of a value, the same text for equal values."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


@functools.cache
def installed(package: str) -> str | None:
    """The version of a package that is installed, None where it is not."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def short(text: str) -> str:
    """16 hex digits of a text."""
    return sha256(text.encode()).hexdigest()[:16]


def plain(value, where: str = "value"):
    """`value` as json has it: arrays to lists, numbers to int or float, nan and infinity to None."""
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): plain(item, f"{where}[{key!r}]") for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item, f"{where}[{i}]") for i, item in enumerate(value)]
    if hasattr(value, "tolist"):
        return plain(value.tolist(), where)
    raise LabError(f"{where} is a {type(value).__name__}, which no result holds: return numbers and lists.")
