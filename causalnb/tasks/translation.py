"""Translation from English to German or back: Multi30k (Elliott et al. 2016), WMT, and a grammar of our own.

The grammar gives captions with the differences that make German more than a dictionary: gender and case, the
verb in second place after a place put first, and at the end after "weil".
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from causalnb.errors import DataError
from causalnb.tasks import files
from causalnb.tasks.counts import counted
from causalnb.tasks.sentence_pairs import check_source

if TYPE_CHECKING:
    from datasets import DatasetDict

Pair = tuple[str, str]

DIRECTIONS = {
    **dict.fromkeys(("generator", "multi30k", "wmt14"), ("en-de", "de-en")),
    "wmt16": ("en-de", "de-en", "en-ro", "ro-en"),
}  # by source
FILES = {
    "train": "multi30k/train",
    "validation": "multi30k/val",
    "test": "multi30k/test_2016_flickr",
    "test2017": "multi30k/test_2017_flickr",
}
PEOPLE = {
    "man": ("Mann", "m"),
    "boy": ("Junge", "m"),
    "farmer": ("Bauer", "m"),
    "waiter": ("Kellner", "m"),
    "woman": ("Frau", "f"),
    "teacher": ("Lehrerin", "f"),
    "singer": ("Sängerin", "f"),
    "nurse": ("Pflegerin", "f"),
    "girl": ("Mädchen", "n"),
    "child": ("Kind", "n"),
}
THINGS = {
    "dog": ("Hund", "m"),
    "ball": ("Ball", "m"),
    "hat": ("Hut", "m"),
    "cat": ("Katze", "f"),
    "guitar": ("Gitarre", "f"),
    "flag": ("Fahne", "f"),
    "horse": ("Pferd", "n"),
    "book": ("Buch", "n"),
    "boat": ("Boot", "n"),
    "bicycle": ("Fahrrad", "n"),
}
LOOKS = {"big": "groß", "small": "klein", "old": "alt", "young": "jung", "tired": "müde", "happy": "froh"}
COLOURS = {"big": "groß", "small": "klein", "old": "alt", "new": "neu", "red": "rot", "green": "grün"}
DEEDS = {
    "is holding": "hält",
    "is looking for": "sucht",
    "is painting": "malt",
    "is carrying": "trägt",
    "is watching": "beobachtet",
    "is buying": "kauft",
    "is cleaning": "putzt",
    "has": "hat",
}
ALONE = {
    "is sleeping": "schläft",
    "is laughing": "lacht",
    "is waiting": "wartet",
    "is dancing": "tanzt",
    "is singing": "singt",
    "is smiling": "lächelt",
}
PLACES = {
    "in the park": "im Park",
    "in the garden": "im Garten",
    "on the beach": "am Strand",
    "in the city": "in der Stadt",
    "on the street": "auf der Straße",
    "at the window": "am Fenster",
    "in the kitchen": "in der Küche",
    "in the water": "im Wasser",
}

_ARTICLES = {"m": ("ein", "einen"), "f": ("eine", "eine"), "n": ("ein", "ein")}  # nominative, accusative
_ENDINGS = {"m": ("er", "en"), "f": ("e", "e"), "n": ("es", "es")}


def _noun(nouns: dict[str, Pair], looks: dict[str, str], case: int, draw: random.Random) -> Pair:
    """A noun with its article, and half of the time an adjective; case 0 nominative, 1 accusative."""
    english, (german, gender) = draw.choice(list(nouns.items()))
    if draw.random() < 0.5:
        look = draw.choice(list(looks))
        stem = looks[look].removesuffix("e")  # müde, but ein müder Mann
        english, german = f"{look} {english}", f"{stem}{_ENDINGS[gender][case]} {german}"
    return f"{'an' if english[0] in 'aeiou' else 'a'} {english}", f"{_ARTICLES[gender][case]} {german}"


def _clause(draw: random.Random) -> tuple[Pair, Pair, Pair]:
    """(subject, verb, object) of a clause, each in both languages; the object may be empty."""
    subject = _noun(PEOPLE, LOOKS, 0, draw)
    if draw.random() < 0.3:
        return subject, draw.choice(list(ALONE.items())), ("", "")
    return subject, draw.choice(list(DEEDS.items())), _noun(THINGS, COLOURS, 1, draw)


def _join(*parts: str) -> str:
    said = " ".join(part for part in parts if part).replace(" ,", ",")
    return f"{said[0].upper()}{said[1:]}."


def sentence(draw: random.Random) -> Pair:
    """An English sentence of the grammar and its German translation."""
    subject, verb, thing = _clause(draw)
    shape = draw.choice(("plain", "place last", "place first", "because"))
    if shape == "because":
        other, second, what = _clause(draw)
        return (
            _join(subject[0], verb[0], thing[0], "because", other[0], second[0], what[0]),
            _join(subject[1], verb[1], thing[1], ", weil", other[1], what[1], second[1]),
        )
    place = ("", "") if shape == "plain" else draw.choice(list(PLACES.items()))
    if shape == "place first":
        return (
            _join(place[0], ",", subject[0], verb[0], thing[0]),
            _join(place[1], verb[1], subject[1], thing[1]),
        )
    return (_join(subject[0], verb[0], thing[0], place[0]), _join(subject[1], verb[1], thing[1], place[1]))


@counted(n=0)
def generate(n: int = 3000, seed: int | str = 0, seen: set[str] | None = None) -> list[Pair]:
    """n (English, German) sentences, none twice and none of `seen`, which takes up the English ones.

    DataError if there are too few.
    """
    draw, seen, pairs = random.Random(f"translation {seed}"), set() if seen is None else seen, []
    for _ in range(100 * n):
        if len(pairs) == n:
            break
        pair = sentence(draw)
        if pair[0] not in seen:
            seen.add(pair[0])
            pairs.append(pair)
    if len(pairs) < n:
        raise DataError(
            f"{n} different sentences were not found beside {len(seen) - len(pairs)}: ask for fewer."
        )
    return pairs


def parse(english: str, german: str, source: str) -> list[Pair]:
    """Pairs of the lines of two files; DataError names `source` and the line where a side is empty."""
    sides = [text.removesuffix("\n").split("\n") for text in (english, german)]
    if len(sides[0]) != len(sides[1]):
        raise DataError(
            f"{source}.en has {len(sides[0])} lines and {source}.de has {len(sides[1])}: take "
            f"fresh copies of both."
        )
    pairs = []
    for number, said in enumerate(zip(*sides, strict=False), 1):
        pair = tuple(" ".join(one.split()) for one in said)
        if not all(pair):
            raise DataError(
                f"{source}.{'de' if pair[0] else 'en'}, line {number}: the sentence is empty; "
                f"take a fresh copy of the file."
            )
        pairs.append(pair)
    return pairs  # type: ignore[return-value]


def read(part: str = "train") -> list[Pair]:
    """(English, German) sentences of a part of FILES; DataError on another, or if there is no copy.

    They are 29,000, 1,014, 1,000 and 1,000.
    """
    if part not in FILES:
        raise DataError(f"Unknown part {part!r} of Multi30k; choose one of {', '.join(FILES)}.")
    english, german = (files.read(f"{FILES[part]}.{side}").decode() for side in ("en", "de"))
    return parse(english, german, FILES[part])


def _fits(pair: Pair, max_words: int | None) -> bool:
    return max_words is None or max(len(said.split()) for said in pair) <= max_words


def _from_hub(source: str, first: str, second: str, max_words: int | None) -> DatasetDict:
    from datasets import load_dataset

    part = "-".join(sorted((first, second), key=lambda side: side == "en"))  # English comes last in its names
    data = load_dataset(f"wmt/{source}", part).map(
        lambda row: {"source": row["translation"][first], "target": row["translation"][second]},
        remove_columns=["translation"],
    )
    return data.filter(
        lambda row: (
            row["source"].strip()
            and row["target"].strip()
            and _fits((row["source"], row["target"]), max_words)
        )
    )


@counted(n_train=0, n_validation=0, n_test=0)
def load(
    source: str = "generator",
    direction: str = "en-de",
    max_words: int | None = None,
    n_train: int = 3000,
    n_validation: int = 300,
    n_test: int = 500,
    seed: int = 0,
) -> DatasetDict:
    """DatasetDict with columns source, target; direction "en-de" or "de-en", in wmt16 also "en-ro", "ro-en".

    "generator": the grammar, train, validation and test. "multi30k": the published parts, test of 2016, and
    test2017. "wmt14", "wmt16": by name from the hub, without the pairs of which a side is empty. max_words
    keeps the pairs of which neither side has more words between spaces. DataError on other values, or if a
    part has no pair left.
    """
    from datasets import Dataset, DatasetDict

    check_source("translation", source, tuple(DIRECTIONS))
    if direction not in DIRECTIONS[source]:
        raise DataError(
            f"Unknown direction {direction!r} of {source}; choose one of {', '.join(DIRECTIONS[source])}."
        )
    if source.startswith("wmt"):
        data = _from_hub(source, *direction.split("-"), max_words)  # type: ignore[arg-type, call-arg]
    else:
        seen: set[str] = set()
        sizes = {"test": n_test, "validation": n_validation, "train": n_train}
        parts = (
            {part: read(part) for part in FILES}
            if source == "multi30k"
            else {part: generate(sizes[part], f"{seed} {part}", seen) for part in sizes}
        )
        kept = {
            part: [
                pair[::-1] if direction == "de-en" else pair for pair in parts[part] if _fits(pair, max_words)
            ]
            for part in FILES
            if part in parts
        }
        data = DatasetDict(
            {
                part: Dataset.from_dict(
                    {"source": [one for one, _ in pairs], "target": [two for _, two in pairs]}
                )
                for part, pairs in kept.items()
            }
        )
    for part, rows in data.items():
        if not rows.num_rows:
            drawn = {"train": n_train, "validation": n_validation, "test": n_test}
            asked = f"n_{part}={drawn[part]} and " if source == "generator" else ""
            raise DataError(
                f"No pair of {part} is left with {asked}max_words={max_words}: allow more of either."
            )
    return data
