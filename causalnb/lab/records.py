"""Values as the JSON files of the lab hold them, checksums of them, and the versions they were made with."""

import functools
import importlib.metadata
import json
import math
from collections.abc import Mapping
from hashlib import sha256

from causalnb.errors import LabError


def canonical(value) -> str:
    """JSON of a value, the same text for equal values."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def parsed(data: bytes) -> dict:
    """The object of a JSON file; ValueError for another value, NaN, infinity, and what is nested too deep."""

    def finite(text: str) -> float:
        if not math.isfinite(value := float(text)):
            raise ValueError(f"{text} is no finite number")
        return value

    try:
        found = json.loads(data, parse_float=finite, parse_constant=finite)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    if not isinstance(found, dict):
        raise ValueError("it holds no record")
    return found


def is_texts(value) -> bool:
    """Whether a value is an object whose values are all texts."""
    return isinstance(value, dict) and all(isinstance(text, str) for text in value.values())


def sealed(record: Mapping) -> bytes:
    """A record as a JSON file has it, a field a line, with its checksum."""
    record = {**record, "checksum": short(canonical(record))}
    lines = ",\n".join(f" {json.dumps(key)}: {json.dumps(value)}" for key, value in record.items())
    return f"{{\n{lines}\n}}\n".encode()


def unsealed(record: Mapping, kind: str, shape: Mapping[str, type]) -> dict:
    """What `sealed` wrote, without its checksum; ValueError unless it has `shape` and is unchanged."""
    fields = {name: value for name, value in record.items() if name != "checksum"}
    if wrong := [name for name in {*shape, *fields} if type(fields.get(name)) is not shape.get(name)]:
        raise ValueError(f"{min(wrong)} is not as a {kind} has it")
    try:
        text = canonical(fields)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    if record.get("checksum") != short(text):
        raise ValueError("it was changed after it was written")
    return fields


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
