"""What may happen to the bytes of a stored file."""

import json
from random import Random

DEEP = "[" * 5000 + "]" * 5000
ODD = ("null", "[]", "{}", "NaN", "-Infinity", "1e999", "true", "-1", '"x"', '"' + "x" * 10_000 + '"', DEEP)
HERE = "\0here\0"


def flip(random: Random, data: bytes) -> tuple[str, bytes]:
    """One bit."""
    place, bit = random.randrange(len(data)), random.randrange(8)
    return f"flip bit {bit} of byte {place} in", data[:place] + bytes([data[place] ^ 1 << bit]) + data[
        place + 1 :
    ]


def cut(random: Random, data: bytes) -> tuple[str, bytes]:
    """What follows a place, or all of it."""
    place = random.choice((0, len(data) - 1, random.randrange(len(data))))
    return f"cut at byte {place}", data[:place]


def no_text(random: Random, data: bytes) -> tuple[str, bytes]:
    """A byte that is no UTF-8."""
    place = random.randrange(len(data))
    return f"put byte 255 at {place} of", data[:place] + b"\xff" + data[place + 1 :]


def _places(value, path=()):
    yield path
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inside:
        yield from _places(item, (*path, key))


def odd_value(random: Random, data: bytes) -> tuple[str, bytes]:
    """Another value anywhere in JSON, the checksum as it was."""
    record, odd = {HERE: json.loads(data)}, random.choice(ODD)
    *above, last = (HERE, *random.choice([*_places(record[HERE])]))
    inside = record
    for key in above:
        inside = inside[key]
    inside[last] = HERE
    text = json.dumps(record[HERE], indent=1).replace(json.dumps(HERE), odd)
    return (
        f"put {odd[:20]} in the place {'/'.join(map(str, (*above[1:], last)))[:80] or '/'!r} of",
        text.encode(),
    )


ANY = (flip, flip, cut)
TEXT = (*ANY, no_text)
JSON = (*TEXT, odd_value, odd_value)


def damaged(random: Random, data: bytes, ways=ANY) -> tuple[str, bytes]:
    """(what was done, what is left) of the content of a file, which is not empty."""
    return random.choice(ways)(random, data)
