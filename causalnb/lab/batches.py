"""Batches of rows of like lengths, so that little is padding."""

from numbers import Integral

from causalnb.errors import LabError


def grouped(rows: list[dict], size: int, steps: int, seed: int = 0, window: int = 16) -> list[list[int]]:
    """`steps` batches of row numbers; of every `window` batches of a permutation rows of like lengths meet.

    Lengths are those of a row's `input_ids`. A permutation ends with a smaller batch where `size` does not
    divide the rows. LabError for no rows, and for numbers that are no counts.
    """
    numbers = size, window, steps
    if (
        not rows
        or any(isinstance(n, bool) or not isinstance(n, Integral) for n in numbers)
        or min(size, window, steps + 1) < 1
    ):
        raise LabError(
            f"{len(rows)} rows in {steps} batches of {size} by {window}: give rows, and whole numbers, at "
            "least 1 of each."
        )
    from numpy.random import default_rng

    draw, found = default_rng(seed), []
    while len(found) < steps:
        order = draw.permutation(len(rows)).tolist()
        for at in range(0, len(order), window * size):
            near = sorted(order[at : at + window * size], key=lambda i: len(rows[i]["input_ids"]))
            chunks = [near[i : i + size] for i in range(0, len(near), size)]
            found += [chunks[i] for i in draw.permutation(len(chunks))]
    return found[:steps]
