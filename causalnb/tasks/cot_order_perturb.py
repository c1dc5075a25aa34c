"""COT-OrderPerturb (C2DLM, appendix C): 13 formulas lead from two numbers to Stardust, told in nine ways.

Zorin and Vortex are integers from 0 to 100. Every formula is computed in floating point, in the printed order
of its operators, and rounded half to even before the next one uses it; Stardust alone is cut towards zero.
All 10,201 inputs are in table(), so nothing has to be downloaded.

The variables form a graph of 28 edges, and a chain of thought lists the formulas in some order. Eight orders
and no chain at all are the modes; they change where a step stands, never its numbers.
"""

from __future__ import annotations

import json
import random
import re
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from causalnb.errors import DataError
from causalnb.tasks.counts import counted

if TYPE_CHECKING:
    from datasets import DatasetDict

Pair = tuple[int, int]

SOURCES = ("Zorin", "Vortex")
TARGET = "Stardust"
RANGE = range(101)  # of either source
_RULES = {  # as printed, and as computed on numbers or arrays
    "Quasar": ("(Zorin + Vortex) * 0.5 + 10", lambda Zorin, Vortex, **_: (Zorin + Vortex) * 0.5 + 10),
    "Flux": ("(Zorin - Vortex) * 0.6 + 20", lambda Zorin, Vortex, **_: (Zorin - Vortex) * 0.6 + 20),
    "Radiant": ("(Quasar + 2 * Flux) / 3", lambda Quasar, Flux, **_: (Quasar + 2 * Flux) / 3),
    "Nova": (
        "(Quasar - Flux + Zorin) / 3 + 5",
        lambda Quasar, Flux, Zorin, **_: (Quasar - Flux + Zorin) / 3 + 5,
    ),
    "Gravity": ("(Radiant * Quasar) / 120 + 8", lambda Radiant, Quasar, **_: (Radiant * Quasar) / 120 + 8),
    "Pulse": ("Radiant * 0.4 + Flux * 0.9", lambda Radiant, Flux, **_: Radiant * 0.4 + Flux * 0.9),
    "Helix": (
        "(Gravity + Pulse + Radiant) / 3",
        lambda Gravity, Pulse, Radiant, **_: (Gravity + Pulse + Radiant) / 3,
    ),
    "Echo": ("(Pulse - Flux) * 0.8", lambda Pulse, Flux, **_: (Pulse - Flux) * 0.8),
    "Comet": ("(Pulse + Gravity) * 0.6 + 2", lambda Pulse, Gravity, **_: (Pulse + Gravity) * 0.6 + 2),
    "Aether": ("(Echo + Gravity) * 0.5", lambda Echo, Gravity, **_: (Echo + Gravity) * 0.5),
    "Nebula": ("(Helix + Comet) / 2 + 3", lambda Helix, Comet, **_: (Helix + Comet) / 2 + 3),
    "Celestia": (
        "(Nebula + Aether + Echo) * 1.1 + 6",
        lambda Nebula, Aether, Echo, **_: (Nebula + Aether + Echo) * 1.1 + 6,
    ),
    "Stardust": ("int(Celestia * 0.7)", lambda Celestia, **_: Celestia * 0.7),
}
FORMULAS = {name: text for name, (text, _) in _RULES.items()}
STEPS = tuple(FORMULAS)
VARIABLES = (*SOURCES, *STEPS)
GRAPH = {
    name: tuple(dict.fromkeys(word for word in re.findall(r"[A-Z]\w+", text)))
    for name, text in FORMULAS.items()
}  # effect -> causes
MODES = ("normal", "DFS", "LR", "OF", "RE", "R1", "R2", "R3", "no_cot")
ENCODINGS = ("text", "compact", "formulas")
SCOPES = ("result", "line")
WORDS = (*VARIABLES, "Answer")  # of the compact encoding, beside NUMBERS
SPACED = {name: " ".join(re.findall(r"[\w.]+|\S", text)) for name, text in FORMULAS.items()}
FORMULA_WORDS = tuple(  # of the encoding with formulas, beside those
    dict.fromkeys(word for text in ("=", *SPACED.values()) for word in text.split() if word not in WORDS)
)
NUMBERS = range(-40, 153)  # every value of every variable


def _evaluate(zorin, vortex) -> dict:
    found = {"Zorin": zorin, "Vortex": vortex}
    for name, (_, rule) in _RULES.items():
        found[name] = (np.trunc if name == TARGET else np.rint)(rule(**found))  # type: ignore[operator]
    return found


def values(zorin: int, vortex: int) -> dict[str, int]:
    """Value of each of the 15 variables; DataError unless both are integers from 0 to 100."""
    for name, value in zip(SOURCES, (zorin, vortex), strict=False):
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value not in RANGE:
            raise DataError(f"{name} is {value!r}; give an integer from 0 to {RANGE[-1]}.")
    return dict(zip(VARIABLES, table()[zorin * len(RANGE) + vortex].tolist(), strict=False))


@lru_cache(maxsize=1)
def _table() -> np.ndarray:
    sources = [axis.ravel() for axis in np.meshgrid(RANGE, RANGE, indexing="ij")]
    table = np.stack(list(_evaluate(*sources).values()), axis=1).astype(np.int64)
    table.setflags(write=False)
    return table


def table() -> np.ndarray:
    """All inputs and their variables: (10201, 15) integers, columns VARIABLES, Zorin in the outer loop."""
    return _table()


def _one_of(what: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise DataError(f"Unknown {what} {value!r} of COT-OrderPerturb; choose one of {', '.join(known)}.")


def _depth_first() -> list[str]:
    found: dict[str, None] = {}

    def visit(cause: str) -> None:
        for step in STEPS:
            if cause in GRAPH[step] and step not in found:
                found.setdefault(step)
                visit(step)

    for source in SOURCES:
        visit(source)
    return list(found)


def order(mode: str = "normal") -> tuple[str, ...]:
    """Names of the steps as a mode of MODES lists them; none for no_cot. DataError on another mode.

    RE reversed; LR neighbours swapped in pairs; OF the last step first; DFS first visits, depth first, from
    Zorin and then Vortex; R1, R2, R3 shuffled with random.Random(1), (2), (3).
    """
    _one_of("mode", mode, MODES)
    steps = list(STEPS)
    if mode[0] == "R" and mode[1].isdigit():
        random.Random(int(mode[1])).shuffle(steps)
        return tuple(steps)
    swapped = [name for i in range(0, len(steps), 2) for name in reversed(steps[i : i + 2])]
    return tuple(
        {
            "normal": steps,
            "RE": steps[::-1],
            "LR": swapped,
            "OF": [steps[-1], *steps[:-1]],
            "DFS": _depth_first(),
            "no_cot": [],
        }[mode]
    )


def steps(mode: str = "normal") -> dict[str, int]:
    """Place of each variable in the chain of a mode: 0 for the sources, then 1 to 13."""
    return dict.fromkeys(SOURCES, 0) | {name: i for i, name in enumerate(order(mode), 1)}


def violations(names: tuple[str, ...]) -> int:
    """How many edges between listed steps have the effect before its cause, 0 to 23."""
    place = {name: i for i, name in enumerate(names)}
    return sum(place[effect] < place[cause] for effect in names for cause in GRAPH[effect] if cause in place)


def _pieces(found: dict[str, int], mode: str, encoding: str) -> tuple[list, list]:
    """Prompt and response as (variable, text before its result, result, text after it)."""
    if encoding != "text":
        rules = {name: f"= {SPACED[name]} = " if encoding == "formulas" else "" for name in STEPS}
        prompt = [(name, f"{name} ", found[name], " ") for name in SOURCES]
        rest = [(name, f"{name} {rules[name]}", found[name], " ") for name in order(mode)]
        return prompt, [*rest, (None, "Answer ", found[TARGET], " ")]
    prompt = [
        (  # type: ignore[list-item]
            None,
            "Please infer the value of the Stardust variable based on the variables below. "
            "The input variables are ",
            "",
            "",
        ),
        *(
            (name, f"{name} (value: ", found[name], f"){end}")
            for name, end in zip(SOURCES, (" and ", "."), strict=False)
        ),
    ]
    rest = [(name, f"{name} = {FORMULAS[name]} = ", found[name], "\n") for name in order(mode)]
    closing = [(None, "Therefore, the final answer is ", found[TARGET], ".\n")] if rest else []
    return prompt, [*rest, *closing, (None, "Answer: ", found[TARGET], "")]


def render(zorin: int, vortex: int, mode: str = "normal", encoding: str = "text") -> tuple[str, str]:
    """(prompt, response): the printed text, or compact, a word a name and a number: "Zorin 80 Vortex 79".

    With formulas each step of the compact text has its rule, as printed: "Echo = ( Pulse - Flux ) * 0.8 = 5".
    The last thing is the answer: a line "Answer: 70", or the words "Answer 70". DataError as values, order.
    """
    _one_of("encoding", encoding, ENCODINGS)
    parts = _pieces(values(zorin, vortex), mode, encoding)
    return tuple(  # type: ignore[return-value]
        "".join(f"{before}{result}{after}" for _, before, result, after in part).rstrip(" ") for part in parts
    )


def spans(
    zorin: int, vortex: int, mode: str = "normal", encoding: str = "text", scope: str = "result"
) -> dict[str, tuple[int, int, int]]:
    """Where each variable stands in render(): (0 prompt or 1 response, first character, end).

    scope "result" is the number alone, "line" its name and formula as well. DataError as render.
    """
    _one_of("scope", scope, SCOPES)
    _one_of("encoding", encoding, ENCODINGS)
    found = {}
    for part, pieces in enumerate(_pieces(values(zorin, vortex), mode, encoding)):
        at = 0
        for name, before, result, after in pieces:
            start, end = at + len(before), at + len(before) + len(str(result))
            if name:
                close = end + (part == 0 and encoding == "text")  # "Zorin (value: 80)"
                found[name] = (part, start, end) if scope == "result" else (part, at, close)
            at = end + len(after)
    return found


def graph(zorin: int, vortex: int, encoding: str = "text") -> dict[str, list[str]]:
    """Effect -> causes as they stand in render(), each once: "Flux = ... = 21", "Zorin (value: 80)"."""
    prompt, response = render(zorin, vortex, "normal", encoding)
    place = spans(zorin, vortex, "normal", encoding, "line")
    said = {name: (prompt, response)[part][start:end] for name, (part, start, end) in place.items()}
    return {said[effect]: [said[cause] for cause in causes] for effect, causes in GRAPH.items()}


def read_answer(response: str) -> int | None:
    """The number after the last "Answer" of a response, of any encoding; None if there is none."""
    found = re.findall(r"\bAnswer:? *(-?\d+)(?![\d.]*\d)", response)
    return int(found[-1]) if found else None


def read_steps(response: str) -> dict[str, int]:
    """The value a response of any encoding gives each step, the first one where it gives several."""
    lines = re.findall(r"\b(\w+) = [^=\n]* = (-?\d+)(?= |$)", response, re.M) or re.findall(
        r"\b(\w+) (-?\d+)\b", response
    )
    found: dict[str, int] = {}
    for name, value in lines:
        if name in GRAPH:
            found.setdefault(name, int(value))
    return found


@counted(n_train=0, n_test=0)
def split(n_train: int = 2000, n_test: int = 500, seed: int = 42) -> tuple[list[Pair], list[Pair]]:
    """(train, test) inputs, all different, drawn with `seed`; DataError if more than 10,201 are asked for."""
    total = len(RANGE) ** 2
    if not 0 < n_train + n_test <= total:
        raise DataError(f"{n_train} and {n_test} inputs cannot be drawn: there are {total:,} different ones.")
    drawn = [divmod(i, len(RANGE)) for i in random.Random(seed).sample(range(total), n_train + n_test)]
    return drawn[:n_train], drawn[n_train:]


def load(
    mode: str = "normal", n_train: int = 2000, n_test: int = 500, seed: int = 42, encoding: str = "text"
) -> DatasetDict:
    """DatasetDict train/test with columns prompt, response, answer, zorin, vortex, graph (JSON).

    All modes of a seed hold the same inputs in the same order. DataError as split and render.
    """
    from datasets import Dataset, DatasetDict

    def rows(pairs: list[Pair]) -> Dataset:
        said = [render(*pair, mode, encoding) for pair in pairs]
        return Dataset.from_dict(
            {
                "prompt": [prompt for prompt, _ in said],
                "response": [response for _, response in said],
                "answer": [values(*pair)[TARGET] for pair in pairs],
                "zorin": [pair[0] for pair in pairs],
                "vortex": [pair[1] for pair in pairs],
                "graph": [json.dumps({} if mode == "no_cot" else graph(*pair, encoding)) for pair in pairs],
            }
        )

    return DatasetDict(
        {
            part: rows(pairs)
            for part, pairs in zip(("train", "test"), split(n_train, n_test, seed), strict=False)
        }
    )
