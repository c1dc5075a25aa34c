"""Inference in three classes: captions of our own, SNLI (Bowman et al. 2015), MNLI (Williams et al. 2018).

A caption says who does what, where and in what. What follows from it drops words or says them more widely;
what may be adds something; what contradicts it has another deed, place or colour.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from causalnb.errors import DataError
from causalnb.tasks import files, sentence_pairs
from causalnb.tasks.counts import counted

if TYPE_CHECKING:
    from datasets import DatasetDict

LABELS = ("entailment", "neutral", "contradiction")
SOURCES = ("generator", "snli", "mnli", "snli_full", "mnli_full")
FILES = {
    "train": "snli/becel_snli_validation.tsv",
    "test": "snli/becel_snli_test.tsv",
    "mnli": "mnli/MNLI-NUM.tsv",
}
HUB = {
    "snli_full": ("stanfordnlp/snli", None, {part: part for part in ("train", "validation", "test")}),
    "mnli_full": (
        "nyu-mll/glue",
        "mnli",
        {"train": "train", "validation": "validation_matched", "mismatched": "validation_mismatched"},
    ),
}
PEOPLE = {
    **dict.fromkeys(("man", "woman", "farmer", "nurse", "soldier", "grandmother", "grandfather"), "adult"),
    **dict.fromkeys(("boy", "girl", "schoolboy", "schoolgirl", "toddler"), "child"),
}
DEEDS = (
    "sleeping",
    "running",
    "cooking",
    "reading",
    "swimming",
    "dancing",
    "eating",
    "painting",
    "singing",
    "kneeling",
    "climbing",
    "jumping",
    "knitting",
    "waving",
)
PLACES = {
    "in a park": "outdoors",
    "on a beach": "outdoors",
    "near a river": "outdoors",
    "on a mountain": "outdoors",
    "in a kitchen": "indoors",
    "in an office": "indoors",
    "in a classroom": "indoors",
    "in a library": "indoors",
}
COLOURS = ("red", "blue", "green", "black", "white", "yellow", "brown", "gray")
ADDED = ("tall", "friendly", "famous", "hungry", "married", "nervous")
REASONS = ("to win a prize", "for a friend", "for the first time", "after a long day", "because of a bet")


def _caption(draw: random.Random, label: int) -> dict:
    who, deed, place, colour = (draw.choice(tuple(known)) for known in (PEOPLE, DEEDS, PLACES, COLOURS))

    def other(known, said: str) -> str:
        return draw.choice([one for one in known if one != said])

    far = [one for one, kind in PLACES.items() if kind != PLACES[place]]
    second = draw.choice(
        {
            "entailment": (
                f"a {who} is {deed}",
                f"a {who} is {place}",
                f"a {who} in {colour} is {deed}",
                f"the {PEOPLE[who]} is {PLACES[place]}",
                f"someone is {deed} {place}",
            ),
            "neutral": (
                f"a {draw.choice(ADDED)} {who} is {deed}",
                f"a {who} is {deed} {draw.choice(REASONS)}",
                f"the {PEOPLE[who]} is {draw.choice(ADDED)}",
            ),
            "contradiction": (
                f"a {who} is {other(DEEDS, deed)}",
                f"a {who} is {deed} {draw.choice(far)}",
                f"a {who} in {other(COLOURS, colour)} is {deed}",
                f"nobody is {deed}",
            ),
        }[LABELS[label]]
    )
    first = f"a {who} in {colour} is {deed} {place}."
    return {"sentence1": first.capitalize(), "sentence2": f"{second.capitalize()}.", "label": label}


@counted(n=0)
def generate(n: int = 3000, seed: int | str = 0, seen: set[str] | None = None) -> list[dict]:
    """n captions, each with a second sentence, labels in turn; no caption comes twice, nor one of `seen`."""
    draw, seen = random.Random(f"captions {seed}"), set() if seen is None else seen
    return [sentence_pairs.fresh(lambda: _caption(draw, i % 3), seen) for i in range(n)]  # noqa: B023  (called at once)


def parse_snli(text: str, source: str) -> list[dict]:
    """Rows of a table premise, hypothesis, label 0 to 2; DataError names `source` and the line."""
    return _rows(text, source, ("premise", "hypothesis", "label"), ("0", "1", "2"))


def parse_mnli(text: str, source: str) -> list[dict]:
    """Rows of a table index, sentence1, sentence2, gold_label; DataError names `source` and the line."""
    return _rows(text, source, ("index", "sentence1", "sentence2", "gold_label"), LABELS)


def _rows(text: str, source: str, columns: tuple[str, ...], labels: tuple[str, ...]) -> list[dict]:
    """Rows of a table whose last three columns are both sentences and the label."""
    *_, one, two, label = columns
    return [
        {
            "sentence1": sentence_pairs.said(cells[one], one, source, number),
            "sentence2": sentence_pairs.said(cells[two], two, source, number),
            "label": sentence_pairs.label_of(cells[label], labels, source, number),
        }
        for number, cells in sentence_pairs.table(text, source, columns)
    ]


def read(part: str = "test") -> list[dict]:
    """Published pairs of a part of FILES; DataError on another, or if there is no copy.

    train (9,842) is SNLI's validation set, test (9,824) its test set, mnli (9,815) the matched development
    pairs of MNLI without their numerals.
    """
    if part not in FILES:
        raise DataError(f"Unknown part {part!r} of the published pairs; choose one of {', '.join(FILES)}.")
    parse = parse_mnli if part == "mnli" else parse_snli
    return parse(files.read(FILES[part]).decode(), FILES[part])


@counted(n=0)
def hold_out(rows: list[dict], n: int, seed: int = 0) -> tuple[list[dict], list[dict]]:
    """(kept, held out) rows, at least n of them held out; all pairs of a first sentence stay together."""
    premises = [*dict.fromkeys(row["sentence1"] for row in rows)]
    random.Random(f"hold out {seed}").shuffle(premises)
    counts: dict[str, int] = {}
    for row in rows:
        counts[row["sentence1"]] = counts.get(row["sentence1"], 0) + 1
    out, total = set(), 0
    while total < min(n, len(rows)):
        out.add(premises[-1])
        total += counts[premises.pop()]
    return (
        [row for row in rows if row["sentence1"] not in out],
        [row for row in rows if row["sentence1"] in out],
    )


@counted(n_train=0, n_validation=0, n_test=0)
def load(
    source: str = "generator", n_train: int = 3000, n_validation: int = 900, n_test: int = 900, seed: int = 0
) -> DatasetDict:
    """DatasetDict with columns sentence1, sentence2, label (entailment, neutral, contradiction).

    "generator": captions, train, validation and test. "snli": the published validation set as train, from
    which n_validation pairs (or a few more) are held out by their first sentence, and the test set. "mnli":
    its development pairs, a test part alone. "snli_full" and "mnli_full": all, by name from the hub.
    DataError on other sources.
    """
    sentence_pairs.check_source("snli", source, SOURCES)
    if source in HUB:
        return sentence_pairs.from_hub(*HUB[source], ("premise", "hypothesis"), LABELS)
    if source == "mnli":
        return sentence_pairs.dataset({"test": read("mnli")}, LABELS)
    if source == "snli":
        train, validation = hold_out(read("train"), n_validation, seed)
        parts = {"train": train, "validation": validation, "test": read("test")}
        return sentence_pairs.dataset(parts, LABELS)
    seen: set[str] = set()
    sizes = {"test": n_test, "validation": n_validation, "train": n_train}
    drawn = {part: generate(n, f"{seed} {part}", seen) for part, n in sizes.items()}
    return sentence_pairs.dataset(dict(reversed(drawn.items())), LABELS)
