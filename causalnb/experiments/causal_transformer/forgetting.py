"""Forgotten examples: right at one look at the model and wrong at the next (Toneva et al. 2019)."""

SEEN = "right_"  # begins the names of a history's columns that hold the bits


def packed(right) -> str:
    """Bools (rows,) as hexadecimal digits: what a history can hold, so that a resumed run counts the same."""
    import numpy as np

    return np.packbits(np.asarray(right, dtype=bool)).tobytes().hex()


def unpacked(digits: str, rows: int):
    """The bools (rows,) that were `packed`."""
    import numpy as np

    return np.unpackbits(np.frombuffer(bytes.fromhex(digits), np.uint8), count=rows).astype(bool)


def count_forgotten(history: list[dict], rows: dict[str, int]) -> tuple[list[dict], dict[str, dict]]:
    """A history with numbers in place of bits, and what was forgotten in all of it, for each name in rows.

    An entry's right_NAME, where it has one, becomes learned_NAME, the share of right ones, and
    forgotten_NAME, how many were right at the look before and are wrong now. In all, by name: events, their
    sum, and forgotten, the share of examples that were forgotten at least once.
    """
    import numpy as np

    before = {name: np.zeros(count, dtype=bool) for name, count in rows.items()}
    events = {name: np.zeros(count, dtype=int) for name, count in rows.items()}
    found = []
    for entry in history:
        entry = dict(entry)
        for name, count in rows.items():
            if f"{SEEN}{name}" not in entry:
                continue
            now = unpacked(entry.pop(f"{SEEN}{name}"), count)
            lost = before[name] & ~now
            entry |= {f"learned_{name}": float(now.mean()), f"forgotten_{name}": int(lost.sum())}
            events[name] += lost
            before[name] = now
        found.append(entry)
    return found, {
        "events": {name: int(each.sum()) for name, each in events.items()},
        "forgotten": {name: float((each > 0).mean()) for name, each in events.items()},
    }


def lost_later(looks) -> float:
    """Of the examples right at the first of bool looks (looks, rows), the share wrong at a later one.

    0 where none is right: what was never learned is not lost.
    """
    import numpy as np

    first, *later = np.asarray(looks, dtype=bool)
    wrong = ~np.logical_and.reduce(later) if later else np.zeros_like(first)
    return float(wrong[first].mean()) if first.any() else 0.0
