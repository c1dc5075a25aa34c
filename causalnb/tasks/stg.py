"""The spurious token game (CAT, used by C2DLM): predict a risk from three numbers among eight.

Sizes S, M and L. Smoking, weight and exercise are integers from 1 to 10 and decide the risk; yellow fingers,
clothing size and hormones are computed from them in training and in the i.i.d. test and drawn on their own in
the o.o.d. test; a gene and a room size mean nothing. The attributes stand in random order.

Size H. An air quality index from 0 to 100 is a clipped sum of six measured numbers; five more follow them in
training and are drawn on their own, from narrower ranges, in the o.o.d. test; three mean nothing.

generate() gives S, M and L row by row as published for its seed 42; the published H has no seed, and
generate_h() has its distribution.
"""

from __future__ import annotations

import json
import random
import re
from typing import TYPE_CHECKING

import numpy as np

from causalnb.errors import DataError
from causalnb.tasks import files
from causalnb.tasks.counts import counted

if TYPE_CHECKING:
    from datasets import DatasetDict

Pair = tuple[str, str]

CAUSES = ("Smoking", "Weight", "Exercise")
SPURIOUS = {"Yellow fingers": ("Smoking",), "Clothing size": ("Weight",), "Hormones": ("Exercise",)}
IRRELEVANT = ("Certain gene", "Room size")
ATTRIBUTES = (*CAUSES, *SPURIOUS, *IRRELEVANT)
LABELS = ("High Risk", "Middle Risk", "Low Risk")
GRAPH = {"Risk": CAUSES, **SPURIOUS}  # effect -> causes, in training; o.o.d. only the first entry holds
CAUSES_H = (
    "Industrial Emissions",
    "Vehicle Emissions",
    "Coal Dependency",
    "Agricultural Burning",
    "Urban Green Coverage",
    "Meteorological Dispersion",
)
SPURIOUS_H = {
    "Ice Cream Sales Index": ("Meteorological Dispersion",),
    "Allergy Complaints Level": ("Agricultural Burning",),
    "Renewable Stock Index": ("Industrial Emissions",),
    "Public Transport Subscriptions (k)": ("Vehicle Emissions",),
    "Water Awareness Score": ("Urban Green Coverage",),
}
IRRELEVANT_H = ("City Anniversary", "Average Internet Speed", "Number of Libraries")
ATTRIBUTES_H = (*CAUSES_H, *SPURIOUS_H, *IRRELEVANT_H)
GRAPH_H = {"Answer": CAUSES_H, **SPURIOUS_H}
SIZES = {"S": 400, "M": 800, "L": 1600, "H": 3000}  # training rows
MIDDLE = ("published", "intended")
ENCODINGS = ("text", "compact")
WORDS = (
    *(name.replace(" ", "_") for name in (*ATTRIBUTES, *ATTRIBUTES_H)),
    "High",
    "Middle",
    "Low",
    "Answer",
    "-0",
    *(f".{digit}" for digit in range(10)),
)  # of the compact encoding, and whole numbers

_FILES = {
    "S": ("spurious_token_game_train3_S", "spurious_token_game_test3", "spurious_token_game_ood3_2"),
    "M": ("spurious_token_game_train3_M", "spurious_token_game_test3", "spurious_token_game_ood3_2"),
    "L": ("spurious_token_game_train3", "spurious_token_game_test3", "spurious_token_game_ood3_2"),
    "H": ("STG_H_train", "STG_H_iid_test", "STG_H_ood_test"),
}
_PARTS = ("train", "test", "ood")
_RANGES = ((30, 70), (20, 60), (10, 50), (10, 30), (40, 80), (50, 90))  # of CAUSES_H
_NOISE = (2, 2, 1.5, 1, 3, 3)  # its standard deviation
_WEIGHTS = (0.3, 0.25, 0.2, 0.15, -0.2, -0.3)
_FOLLOWS = ((5, 0.4, 2), (3, 0.2, 3), (0, 1.1, 1.5), (1, 0.15, 2), (4, -0.1, 1))  # cause, factor, noise
_ALONE = ((5, 9), (2, 6), (3, 7), (3, 9), (-8, -4))  # ranges of SPURIOUS_H, o.o.d.
_UNITS = {
    "Coal Dependency": "%",
    "Urban Green Coverage": "%",
    "City Anniversary": "th",
    "Average Internet Speed": "Mbps",
}
_WHOLE = ("Renewable Stock Index", "City Anniversary", "Number of Libraries")
_ENDS = {"Meteorological Dispersion": ". ", "Water Awareness Score": ". ", "Number of Libraries": ". "}
_NAMES = "|".join(map(re.escape, sorted((*ATTRIBUTES, *ATTRIBUTES_H), key=len, reverse=True)))
_SAID = re.compile(rf"({_NAMES}|{_NAMES.replace(chr(92) + ' ', '_')})(?:: | )(-?\d+)( ?\.\d)?(%|th\b|Mbps)?")


def risk(smoking: int, weight: int, exercise: int, middle: str = "published") -> str:
    """One of LABELS, from v = 1.2 smoking + 0.7 weight - exercise: high above 7.2.

    middle="published": middle at exactly 2.7, as the published labels are (2 of 1,000 inputs); "intended":
    from 2.7 to 7.2. DataError on another one.
    """
    if middle not in MIDDLE:
        raise DataError(f"Unknown rule {middle!r} for the middle risk; choose one of {', '.join(MIDDLE)}.")
    score = 1.2 * smoking + 0.7 * weight - exercise
    if score > 7.2:
        return LABELS[0]
    between = score == 2.7 if middle == "published" else score >= 2.7
    return LABELS[1] if between else LABELS[2]


def _prompt(said: list[tuple[str, int]]) -> str:
    return (
        "Here is the statistical data for a person. Please predict the probability of cancer. "
        f"{', '.join(f'{name}: {value}' for name, value in said)} Answer: "
    )


@counted(n_train=0, n_test=0, n_ood=0)
def generate(
    seed: int = 42,
    n_train: int = 1600,
    n_test: int = 400,
    n_ood: int = 400,
    middle: str = "published",
    cue: float = 1.0,
) -> dict[str, list[Pair]]:
    """(prompt, label) of train, test (i.i.d.) and ood; seed 42 with the default sizes is the published data.

    Drawn in this order: test, train, ood. Training rows of M and S are the first 800 and 400. cue in [0, 1]
    is the share of spurious numbers of train and test that follow their cause, the others are drawn on their
    own; DataError for another.
    """
    if isinstance(cue, bool) or not 0 <= cue <= 1:
        raise DataError(f"The cue is {cue!r}: give the share of spurious numbers that follow, 0 to 1.")
    draw = random.Random(seed)

    def follows(ood: bool) -> bool:
        return not ood and (cue == 1 or draw.random() < cue)

    def row(ood: bool) -> Pair:
        causes = [draw.randint(1, 10) for _ in CAUSES]
        follow = [
            int(factor * value) if follows(ood) else draw.randint(1, 10)
            for factor, value in zip((1.5, 1, 0.5), causes, strict=False)
        ]
        said = list(
            zip(ATTRIBUTES, (*causes, *follow, *(draw.randint(1, 10) for _ in IRRELEVANT)), strict=False)
        )
        draw.shuffle(said)
        return _prompt(said), risk(*causes, middle)  # type: ignore[arg-type, call-arg]

    same = [row(ood=False) for _ in range(n_test + n_train)]
    return {"train": same[n_test:], "test": same[:n_test], "ood": [row(ood=True) for _ in range(n_ood)]}


def _draw_h(draw: np.random.Generator, n: int, ood: bool) -> list[Pair]:
    low, high = np.array(_RANGES).T
    causes = draw.uniform(low, high, (n, 6)) + draw.normal(0, _NOISE, (n, 6))
    index = np.rint((np.clip(causes @ _WEIGHTS, -20, 30) + 20) / 50 * 100).astype(int)
    if ood:
        low, high = np.array(_ALONE).T
        follow = draw.uniform(low, high, (n, 5))
    else:
        which, factor, noise = np.array(_FOLLOWS).T
        follow = causes[:, which.astype(int)] * factor + draw.normal(0, noise, (n, 5))
    rest = np.stack(
        [draw.integers(1, 101, n), draw.uniform(80, 120, n) + draw.normal(0, 3, n), draw.integers(10, 51, n)],
        axis=1,
    )
    rows = np.concatenate([causes, follow, rest], axis=1)  # (n, 14)
    return [(_prompt_h(row), str(answer)) for row, answer in zip(rows.tolist(), index.tolist(), strict=False)]


def _prompt_h(row: list[float]) -> str:
    said = [
        f"{name}: {round(value) if name in _WHOLE else format(value, '.1f')}{_UNITS.get(name, '')}"
        f"{_ENDS.get(name, '; ')}"
        for name, value in zip(ATTRIBUTES_H, row, strict=False)
    ]
    return (
        "".join(said) + "Given these diverse conditions, what is the projected Air Quality Index (AQI) "
        "on a 0-100 scale? Answer: "
    )


@counted(n_train=0, n_test=0, n_ood=0)
def generate_h(
    seed: int = 42, n_train: int = 3000, n_test: int = 1000, n_ood: int = 1000
) -> dict[str, list[Pair]]:
    """(prompt, index) of train, test (i.i.d.) and ood of size H, distributed as in the published files."""
    draw = np.random.default_rng(seed)
    return {
        part: _draw_h(draw, n, part == "ood")
        for part, n in zip(_PARTS, (n_train, n_test, n_ood), strict=False)
    }


def _found(prompt: str) -> list[re.Match]:
    found = list(_SAID.finditer(prompt))
    if sorted(_name(one) for one in found) not in (sorted(ATTRIBUTES), sorted(ATTRIBUTES_H)):
        raise DataError(
            f"{prompt[:60]!r} is no prompt of the spurious token game: it must state each of the "
            f"{len(ATTRIBUTES)} attributes of S, M, L or the {len(ATTRIBUTES_H)} of H once."
        )
    return found


def _name(found: re.Match) -> str:
    return found[1].replace("_", " ")


def values(prompt: str) -> dict[str, float]:
    """{attribute: number} of a prompt of any size and encoding, in its order; DataError if it is none."""
    return {
        _name(one): float(one[2] + (one[3] or "").strip()) if one[3] else int(one[2])
        for one in _found(prompt)
    }


def put(prompt: str, attribute: str, number: int) -> str:
    """The prompt of S, M or L under do(attribute := number): all else stays as it is.

    DataError as values, and for an attribute that those prompts have not.
    """
    found = {_name(one): one for one in _found(prompt)}
    if attribute not in found or attribute not in ATTRIBUTES:
        raise DataError(
            f"{attribute!r} is no attribute of a prompt of S, M or L; choose one of {', '.join(ATTRIBUTES)}."
        )
    one = found[attribute]
    return f"{prompt[: one.start(2)]}{number}{prompt[one.end(2) :]}"


@counted(copies=1)
def swapped(pairs: list[Pair], copies: int, seed: int) -> list[Pair]:
    """`copies` of the pairs in which each attribute that is no cause has the number of some other row.

    The plainest use of the graph, as augmentation: what is no cause tells nothing of the answer any more, and
    is distributed as it was. Pairs of one size; DataError for copies below 1.
    """
    draw, made = random.Random(seed), []
    found = [_found(prompt) for prompt, _ in pairs]
    numbers: dict[str, list[str]] = {}
    for row in found:
        for one in row:
            numbers.setdefault(_name(one), []).append(one.string[one.end(1) : one.end()])
    for _ in range(copies):
        others = {
            name: draw.sample(numbers[name], len(pairs)) for name in sorted({*numbers} - {*CAUSES, *CAUSES_H})
        }
        for place, (row, (prompt, response)) in enumerate(zip(found, pairs, strict=True)):
            for one in reversed(row):
                if _name(one) in others:
                    prompt = prompt[: one.end(1)] + others[_name(one)][place] + prompt[one.end() :]
            made.append((prompt, response))
    return made


def spans(prompt: str, response: str) -> dict[str, tuple[int, int, int]]:
    """Where the names of GRAPH or GRAPH_H stand: (0 prompt or 1 response, first character, end).

    An attribute stands with its number, "Risk" or "Answer" is the whole response. DataError as values.
    """
    found = {_name(one): (0, *one.span()) for one in _found(prompt)}
    return found | {"Risk" if "Smoking" in found else "Answer": (1, 0, len(response))}


def graph(prompt: str, response: str) -> dict[str, list[str]]:
    """{what is predicted: its causes}, as they stand in the two texts joined: the published supervision.

    "High Risk", or "Answer: 52" with the last word of the prompt, from "Smoking: 8" and so on.
    """
    causes, place = {*CAUSES, *CAUSES_H}, spans(prompt, response)
    last = "Answer: " if "Answer" in place and prompt.endswith("Answer: ") else ""
    return {last + response: [prompt[start:end] for name, (_, start, end) in place.items() if name in causes]}


def compact(prompt: str, response: str) -> tuple[str, str]:
    """(prompt, response) in single words: "Room_size 2 ..." and "High"; of H "43 .1" and "Answer 52"."""
    said = [
        f"{_name(one).replace(' ', '_')} {one[2]}{f' {one[3].strip()}' if one[3] else ''}"
        for one in _found(prompt)
    ]
    label = response.removesuffix(" Risk")
    return " ".join(said), label if response in LABELS else f"Answer {label}"


def parse_lines(text: str, source: str) -> list[Pair]:
    """(prompt, response) of JSON lines with input and target; DataError names `source` and the wrong line."""
    pairs = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            row = json.loads(line)
            pair = (row["input"], str(row["target"]))
            _found(pair[0])
        except (ValueError, KeyError, TypeError, RecursionError):
            raise DataError(
                f"{source}, line {number}: expected JSON with input and target, found "
                f"{line[:60]!r}; take a fresh copy of the file."
            ) from None
        pairs.append(pair)
    return pairs


def file_names(size: str) -> tuple[str, str, str]:
    """Registry names of the published train, test and ood files of a size of SIZES; DataError on another."""
    if size not in SIZES:
        raise DataError(
            f"Unknown size {size!r} of the spurious token game; choose one of {', '.join(SIZES)}."
        )
    folder = "stg_h" if size == "H" else "stg"
    return tuple(f"{folder}/{stem}.jsonl" for stem in _FILES[size])  # type: ignore[return-value]


def load(
    size: str = "L",
    source: str = "generator",
    seed: int = 42,
    middle: str = "published",
    encoding: str = "text",
) -> DatasetDict:
    """DatasetDict train/test/ood with columns prompt, response, graph (JSON); size S, M, L or H.

    source="file" reads the published files, of seed 42 and the published middle. DataError on other values.
    """
    from datasets import Dataset, DatasetDict

    names = file_names(size)
    if encoding not in ENCODINGS:
        raise DataError(
            f"Unknown encoding {encoding!r} of the spurious token game; choose one of {', '.join(ENCODINGS)}."
        )
    if source == "file" and seed == 42 and middle == "published":
        parts = {
            part: parse_lines(files.read(name).decode(), name)
            for part, name in zip(_PARTS, names, strict=False)
        }
    elif source == "generator" and size == "H":
        parts = generate_h(seed)
    elif source == "generator":
        parts = generate(seed, middle=middle)
        parts["train"] = parts["train"][: SIZES[size]]
    else:
        raise DataError(
            f"Source {source!r} of the spurious token game with seed {seed!r} and middle "
            f"{middle!r}: choose 'generator', or 'file' with neither."
        )

    def rows(pairs: list[Pair]) -> Dataset:
        said = [compact(*pair) for pair in pairs] if encoding == "compact" else pairs
        return Dataset.from_dict(
            {
                "prompt": [prompt for prompt, _ in said],
                "response": [response for _, response in said],
                "graph": [json.dumps(graph(*pair)) for pair in said],
            }
        )

    return DatasetDict({part: rows(pairs) for part, pairs in parts.items()})
