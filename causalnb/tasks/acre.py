"""ACRE in words (Zhang et al. 2021, as text by Gendron et al.): which objects switch a light on?

A problem shows six groups of objects, each with the light on or off, and asks four times for the light of
another group. The light is on where at least one object of a group is a "blicket". Groups seen off clear
their objects; a group seen on has a blicket among the objects that are not cleared. So an answer is "off" if
all objects are cleared, "on" if some group's uncleared objects are all there, else "undetermined".

The problems are drawn here by the rules of the published sets, and their files are read as well. "Comp" and
"Sys", o.o.d. by name, hold objects and rules that IID training has shown; "comp_true" and "sys_true" do not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from causalnb.errors import DataError
from causalnb.tasks import files, icl_rows
from causalnb.tasks.counts import counted

if TYPE_CHECKING:
    from datasets import DatasetDict

COLOURS = ("gray", "red", "blue", "green", "brown", "purple", "cyan", "yellow")
SHAPES = ("cube", "cylinder", "sphere")
MATERIALS = ("rubber", "metal")
OBJECTS = tuple((colour, shape, material) for shape in SHAPES for colour in COLOURS for material in MATERIALS)
STATES = ("off", "undetermined", "on")  # of the light, by label
TYPES = ("direct", "indirect", "screen_off", "potential")
FORMATS = ("text", "symbolic")
PARTS = ("train", "val", "test")
KINDS = ("OnOffOff", "OnOnOff")  # the three views after habituation
REGIMES = ("IID", "Comp", "Sys", "comp_true", "sys_true")
SLOTS = tuple(f"o{i}" for i in range(10))  # names of objects in the compact symbolic format
NAMES = tuple("-".join((colour, material, shape)) for colour, shape, material in OBJECTS)  # in the text one
WORDS = (">", ";", "and", *(str(label) for label in range(len(STATES))), *STATES, *SLOTS, *NAMES)

_ALL = tuple(range(len(OBJECTS)))
_TRAIN_COLOURS = {"cube": ("gray", "blue", "brown", "yellow"), "cylinder": ("red", "green", "purple", "cyan")}
TRAIN_OBJECTS = tuple(
    i
    for i, (colour, shape, material) in enumerate(OBJECTS)
    if (material == "rubber" if shape == "sphere" else colour in _TRAIN_COLOURS[shape])
)  # of the visual ACRE
TEST_OBJECTS = tuple(i for i in _ALL if i not in TRAIN_OBJECTS)
_COMP = tuple(range(len(OBJECTS) // 2))

_SIZES = {"OnOffOff": ((2, 3), (3, 5)), "OnOnOff": ((2, 4), (3, 4))}  # potential blickets, others: low, high
_HABITUATION, _VIEWS, _SINGLE, _QUERIES = 3, 6, 2, 4
_ASKED = {
    "symbolic": "Figure out the pattern in the following examples and apply it to the test case. Your answer "
    "must follow the format of the examples. You can answer 1 if the solution cannot be "
    "determined. Your answer must be one of the following choices:\n0.\n1.\n2.",
    "text": "Objects of various color, shape, and texture are displayed. Some objects may contain a device "
    "to turn a light on if displayed. From the observations, deduce if the light is on, off, or if "
    "the state cannot be determined. Your answer must contain a single word:\non.\noff.\n"
    "undetermined.",
}
_ANSWERS = {"symbolic": ("0", "1", "2"), "text": STATES}
_ID = {" ".join(name): i for i, name in enumerate(OBJECTS)}


@dataclass(frozen=True)
class View:
    """Objects, by id from 0 to 47 in the order shown, and the light: "on" or "off"."""

    objects: tuple[int, ...]
    state: str


@dataclass(frozen=True)
class Query:
    """Objects asked for, the label (0 off, 1 undetermined, 2 on), one of TYPES, the view it starts from."""

    objects: tuple[int, ...]
    label: int
    type: str
    ref: int | None = None


@dataclass(frozen=True)
class Problem:
    """Six views and four queries: two of one object, two of an off view's objects and something else."""

    views: tuple[View, ...]
    queries: tuple[Query, ...]

    @property
    def objects(self) -> tuple[int, ...]:
        """The objects of the views, in order of first appearance; queries have no others."""
        return tuple(dict.fromkeys(one for view in self.views for one in view.objects))


def evidence(views: Iterable[View]) -> tuple[frozenset[int], list[frozenset[int]]]:
    """(objects known to be no blickets, sets that hold at least one); DataError if the views contradict."""
    views = list(views)
    cleared = frozenset(one for view in views if view.state == "off" for one in view.objects)
    causes = [frozenset(view.objects) - cleared for view in views if view.state == "on"]
    if frozenset() in causes:
        raise DataError(
            "The views contradict each other: a group is on whose objects are all seen off; "
            "change one of them."
        )
    return cleared, causes


def _label(objects: frozenset[int], cleared: frozenset[int], causes: list[frozenset[int]]) -> int:
    if objects <= cleared:
        return 0
    return 2 if any(cause <= objects for cause in causes) else 1


def solve(views: Iterable[View], objects: Iterable[int]) -> int:
    """Label of a group of objects after some views: 0 off, 1 undetermined, 2 on; exact.

    DataError if the views contradict.
    """
    return _label(frozenset(objects), *evidence(views))


def types(views: Iterable[View]) -> dict[int, str]:
    """One of TYPES for each object of the views: how much it takes to know whether it is a blicket.

    direct: seen on alone, or never seen on; indirect: all others of a group seen on are cleared; screen_off:
    cleared, though seen in a group that was on; potential: not known.
    """
    views = list(views)
    cleared, causes = evidence(views)
    on = [frozenset(view.objects) for view in views if view.state == "on"]
    alone, shown = frozenset().union(*(group for group in on if len(group) == 1)), frozenset().union(*on)
    known = alone.union(*(cause for cause in causes if len(cause) == 1))
    return {
        one: ("screen_off" if one in shown else "direct")
        if one in cleared
        else ("direct" if one in alone else "indirect")
        if one in known
        else "potential"
        for one in cleared | shown
    }


def open_sets(views: Iterable[View]) -> list[tuple[int, ...]]:
    """Smallest sets of several objects with a blicket among them, none of which is known to be one."""
    causes = set(evidence(views)[1])
    known = frozenset().union(*(cause for cause in causes if len(cause) == 1))
    several = [cause for cause in causes if len(cause) > 1 and not cause & known]
    return sorted(tuple(sorted(one)) for one in several if not any(other < one for other in several))


def _shuffled(draw: np.random.Generator, items: Sequence) -> list:
    return [items[i] for i in draw.permutation(len(items))]


def _two_covers(draw: np.random.Generator, items: Sequence[int]) -> list[list[int]]:
    """Two groups that hold all items between them, the second with some of the first again."""
    order = _shuffled(draw, items)
    cut = int(draw.integers(1, len(order) + 1))
    first, rest = order[:cut], order[cut:]
    return [first, rest + first[: draw.integers(0 if rest else 1, cut + 1)]]


def _draw_views(draw: np.random.Generator, supply: np.ndarray, kind: str) -> tuple[View, ...]:
    (low, high), (least, most) = _SIZES[kind]
    n_potential, n_other = int(draw.integers(low, high + 1)), int(draw.integers(least, most + 1))
    chosen = draw.choice(supply, n_potential + n_other, replace=False).tolist()
    (blicket, *potential), (harmless, *others) = chosen[:n_potential], chosen[n_potential:]

    def noise() -> list[int]:
        return _shuffled(draw, others)[: draw.integers(0, n_other)]

    if kind == "OnOffOff":
        groups = [(potential + noise(), "on"), *((group, "off") for group in _two_covers(draw, others))]
    else:
        groups = [(others, "off"), *((group + noise(), "on") for group in _two_covers(draw, potential))]
    first = [([blicket], "on"), ([harmless], "off"), ([blicket, harmless], "on")]
    return tuple(
        View(tuple(_shuffled(draw, group)), state)
        for group, state in (*_shuffled(draw, first), *_shuffled(draw, groups))
    )


def _counts(draw: np.random.Generator, available: dict[str, list[int]], spare: int) -> dict[str, int]:
    """How many queries of one object there are of each type; `spare` screened off ones are never asked."""
    counts = {"potential": min(1, len(available["potential"]))}
    left = _SINGLE - counts["potential"]
    while True:
        counts["direct"] = int(draw.integers(0, min(len(available["direct"]), left) + 1))
        rest = left - counts["direct"]
        counts["indirect"] = int(draw.integers(0, min(len(available["indirect"]), rest) + 1))
        counts["screen_off"] = rest - counts["indirect"]
        if counts["screen_off"] <= max(0, len(available["screen_off"]) - spare):
            return counts


def _single(draw: np.random.Generator, kinds: dict[int, str], spare: int) -> list[tuple[int, str]]:
    available = {type_: [one for one in kinds if kinds[one] == type_] for type_ in TYPES}
    counts = _counts(draw, available, spare)
    return [(one, type_) for type_ in TYPES for one in _shuffled(draw, available[type_])[: counts[type_]]]


def _interventions(
    draw: np.random.Generator, views: Sequence[View], kinds: dict[int, str], n: int
) -> list[tuple[tuple[int, ...], str, int]]:
    """(objects, type, ref) of n groups: an off view with one thing more, twice as often a potential one."""
    ref = _shuffled(draw, [i for i, view in enumerate(views) if view.state == "off"])[0]
    shown = views[ref].objects
    pool: list[tuple[tuple[int, ...], str]] = [((one,), kinds[one]) for one in kinds if one not in shown]
    pool += [(group, "indirect") for group in open_sets(views)]
    pool += [((one,), "potential") for one in kinds if kinds[one] == "potential"]
    return [(shown + more, type_, ref) for more, type_ in _shuffled(draw, pool)[:n]]


def _draw_problem(draw: np.random.Generator, supply: np.ndarray, kind: str, spare: int) -> Problem:
    views = _draw_views(draw, supply, kind)
    facts, kinds = evidence(views), types(views)
    asked: list[tuple[tuple[int, ...], str, int | None]] = [
        ((one,), type_, None) for one, type_ in _shuffled(draw, _single(draw, kinds, spare))
    ]
    asked += _interventions(draw, views, kinds, _QUERIES - _SINGLE)
    return Problem(
        views,
        tuple(
            Query(objects, _label(frozenset(objects), *facts), type_, ref) for objects, type_, ref in asked
        ),
    )


def _rules(regime: str, part: str) -> tuple[Any, tuple[str, ...], int]:
    """(objects, kinds, screened off objects that are never asked) of a part of a regime."""
    if regime not in REGIMES or part not in PARTS:
        name, wrong, known = ("part", part, PARTS) if regime in REGIMES else ("regime", regime, REGIMES)
        raise DataError(f"Unknown {name} {wrong!r} of ACRE; choose one of {', '.join(known)}.")
    train = part == "train"
    if train and regime in ("Comp", "Sys"):
        raise DataError(
            f"{regime} has no training part: the source trains on IID; choose that, or {regime.lower()}_true."
        )
    return {
        "IID": (_ALL, KINDS, 1),
        "Comp": (_COMP, KINDS, 2),
        "Sys": (_ALL, KINDS[1:], 1),
        "comp_true": (TRAIN_OBJECTS if train else TEST_OBJECTS, KINDS, 1),
        "sys_true": (_ALL, KINDS[:1] if train else KINDS[1:], 1),
    }[regime]


@counted(n=0)
def generate(
    regime: str = "IID",
    n: int = 1000,
    seed: int | list[int] = 0,
    part: str = "train",
    objects: Iterable[int] | None = None,
) -> list[Problem]:
    """n problems of a part (train, val, test) of a regime, drawn by the published rules.

    IID: all 48 objects, as many of each of KINDS. Comp: objects 0 to 23. Sys: OnOnOff alone. comp_true trains
    on TRAIN_OBJECTS and tests on the others; sys_true trains on OnOffOff and tests on OnOnOff. `objects` is
    another supply, of at least 8 ids. DataError on an unknown regime or part, and on training parts of Comp
    and Sys.
    """
    supply, kinds, spare = _rules(regime, part)
    supply = np.array(sorted(set(supply if objects is None else objects)))
    needed = max(high + most for (_, high), (_, most) in _SIZES.values())
    if len(supply) < needed or supply.min() < 0 or supply.max() >= len(OBJECTS):
        raise DataError(
            f"Objects {supply.tolist()} cannot supply ACRE: give at least {needed} different ids "
            f"from 0 to {len(OBJECTS) - 1}."
        )
    draw = np.random.default_rng([seed, PARTS.index(part)])
    return [_draw_problem(draw, supply, kinds[i % len(kinds)], spare) for i in draw.permutation(n)]


def _shown(objects: Iterable[int], format: str) -> str:
    if format == "symbolic":
        return str(list(objects))
    return " ".join("A {} {} in {} is visible.".format(*OBJECTS[one]) for one in objects)


def _check_format(format: str) -> None:
    if format not in FORMATS:
        raise DataError(f"Unknown format {format!r} of ACRE; choose one of {', '.join(FORMATS)}.")


def prompt(problem: Problem, query: Query, format: str = "text") -> tuple[str, str]:
    """(prompt, answer) in the source's words, "text" or "symbolic"; DataError on another format."""
    _check_format(format)
    before, after = (" -> ", "") if format == "symbolic" else (" The light is ", ".")
    said = dict(zip(STATES, _ANSWERS[format], strict=False))
    lines = [f"{_shown(view.objects, format)}{before}{said[view.state]}{after}" for view in problem.views]
    asked = before if format == "symbolic" else " The state of the light is "
    return (
        "\n".join((_ASKED[format], *lines, f"{_shown(query.objects, format)}{asked}")),
        _ANSWERS[format][query.label],
    )


_ONE = re.compile(r"A (\w+ \w+) in (\w+) is visible\.")
_LINE = {
    "symbolic": re.compile(r"\[(\d+(?:, \d+)*)\] -> ([02]?)"),
    "text": re.compile(
        r"((?:A \w+ \w+ in \w+ is visible\. )+)The (?:light is (on|off)\.|state of the "
        r"light is )"
    ),
}


def parse_prompt(text: str, format: str = "text") -> tuple[tuple[View, ...], tuple[int, ...]]:
    """(views, objects asked for) of a prompt(): its inverse. DataError names the line that does not fit."""
    _check_format(format)
    head, lines = _ASKED[format], text.split("\n")
    start = head.count("\n") + 1
    if not text.startswith(f"{head}\n") or len(lines) == start:
        raise DataError(f"{text[:60]!r} is no {format} prompt of ACRE: it must begin with the instruction.")
    read = []
    for number, line in enumerate(lines[start:], start + 1):
        found = _LINE[format].fullmatch(line)
        objects = found and _read_objects(found[1], format)
        if not objects or bool(found[2]) != (number < len(lines)):  # type: ignore[index]
            raise DataError(
                f"Line {number} of a {format} prompt of ACRE, {line[:60]!r}, is none: expected "
                f"objects and, but for the last line, the light."
            )
        read.append((objects, found[2]))  # type: ignore[index]
    views = tuple(View(objects, "on" if state in ("on", "2") else "off") for objects, state in read[:-1])
    return views, read[-1][0]


def _read_objects(text: str, format: str) -> tuple[int, ...] | None:
    if format == "symbolic":
        found = [int(one) for one in text.split(", ")]
    else:
        found = [_ID.get(" ".join(one), -1) for one in _ONE.findall(text)]
    return tuple(found) if all(0 <= one < len(OBJECTS) for one in found) else None


def parse_answer(answer: str, format: str = "text") -> int:
    """Label of an answer, "on" or "2"; DataError on any other word."""
    _check_format(format)
    if answer not in _ANSWERS[format]:
        raise DataError(
            f"{answer!r} is no {format} answer of ACRE; it is one of {', '.join(_ANSWERS[format])}."
        )
    return _ANSWERS[format].index(answer)


@counted(sets=0)
def dense_queries(problem: Problem, draw: np.random.Generator, sets: int = 4) -> list[Query]:
    """All objects of a problem singly and `sets` groups, in random order, each with its solved label.

    Groups, of type "group", are by turns an off view's objects with one thing more, and any 2 to 4 objects.
    All labels follow from the views alone, so that an answered query tells nothing new about another one.
    """
    facts, kinds = evidence(problem.views), types(problem.views)
    groups: list[tuple[tuple[int, ...], int | None]] = [((one,), None) for one in problem.objects]
    groups += [
        (objects, ref)
        for _ in range((sets + 1) // 2)
        for objects, _, ref in _interventions(draw, problem.views, kinds, 1)
    ]
    groups += [
        (tuple(_shuffled(draw, problem.objects)[: draw.integers(2, 5)]), None) for _ in range(sets // 2)
    ]
    return [
        Query(
            objects,
            _label(frozenset(objects), *facts),
            kinds[objects[0]] if len(objects) == 1 else "group",
            ref,
        )
        for objects, ref in _shuffled(draw, groups)
    ]


def _named(objects: Iterable[int], names: dict[int, str] | None) -> list[str]:
    if names is not None:
        return [names[one] for one in objects]
    words = [word for one in objects for word in ("and", NAMES[one])]
    return words[1:]


def _compact(
    problem: Problem, asked: Sequence[Query], names: dict[int, str] | None, shared: bool
) -> list[icl_rows.Piece]:
    """Pieces of a row; names of the objects make it symbolic, None is text."""
    said = _ANSWERS["symbolic" if names is not None or shared else "text"]
    pieces = []
    for i, view in enumerate(problem.views):
        pieces += icl_rows.plain([*_named(view.objects, names), ">"])
        known = solve(problem.views[:i], view.objects) != 1
        pieces.append((said[2 if view.state == "on" else 0], icl_rows.DEDUCIBLE if known else icl_rows.PLAIN))
        pieces += icl_rows.plain([";" if i + 1 < len(problem.views) else icl_rows.SEPARATOR])
    for i, query in enumerate(asked):
        pieces += icl_rows.plain([*([";"] if i else []), *_named(query.objects, names), ">"])
        pieces.append((said[query.label], icl_rows.ANSWER))
    return pieces


@counted(sets=0)
def rows(
    problems: Sequence[Problem],
    format: str = "symbolic",
    seed: int = 0,
    dense: bool = False,
    sets: int = 4,
    shared: bool = False,
) -> list[dict]:
    """Compact rows of problems: a row a query, or with `dense` a row a problem that asks dense_queries().

    symbolic: an object is one of SLOTS, by an injection drawn anew for each row; text: an object is one of
    NAMES. Answers are other words in each unless `shared`; separators are the same. Both formats ask the same
    queries for the same seed. Besides icl_rows' keys a row has `format`, `problem` (its place in the list),
    `query` (its place in the problem; -1 if dense), `label` and `type` of its last query, and `slots`: the
    ids that stand behind SLOTS, -1 for those unused. DataError on an unknown format.
    """
    _check_format(format)
    made = []
    for number, problem in enumerate(problems):
        draw = np.random.default_rng([seed, number])
        asked = (
            [(-1, dense_queries(problem, draw, sets))]
            if dense
            else [(i, [query]) for i, query in enumerate(problem.queries)]
        )
        for place, queries in asked:
            slots = np.full(len(SLOTS), -1)
            slots[draw.permutation(len(SLOTS))[: len(problem.objects)]] = problem.objects
            names = {one: SLOTS[i] for i, one in enumerate(slots.tolist())} if format == "symbolic" else None
            made.append(
                icl_rows.make(
                    _compact(problem, queries, names, shared),
                    format=format,
                    problem=number,
                    query=place,
                    label=queries[-1].label,
                    type=queries[-1].type,
                    slots=slots.tolist(),
                )
            )
    return made


def read_row(row: dict) -> tuple[tuple[View, ...], list[tuple[tuple[int, ...], int]]]:
    """(views, [(objects, label)]) of a row of rows(), fillers or not: its inverse."""
    words = icl_rows.without_fillers(row)["words"]
    groups, group = [], []
    for word in words:
        if word in (";", icl_rows.SEPARATOR):
            groups, group = [*groups, group], []
        else:
            group.append(word)
    read = [_read_group(one, row) for one in [*groups, group]]
    views = tuple(View(objects, STATES[label]) for objects, label in read[:_VIEWS])
    return views, read[_VIEWS:]


def _read_group(words: list[str], row: dict) -> tuple[tuple[int, ...], int]:
    *said, answer = [word for word in words if word not in (">", "and")]
    label = (STATES if answer in STATES else _ANSWERS["symbolic"]).index(answer)
    if row["format"] == "symbolic":
        return tuple(row["slots"][SLOTS.index(word)] for word in said), label
    return tuple(map(NAMES.index, said)), label


def parse_problems(text: str, source: str) -> list[Problem]:
    """Problems of a raw JSON file; DataError names `source` and the line, or the problem, that is wrong."""
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(
            f"{source}, line {error.lineno}: this is no JSON ({error.msg}); take a fresh copy of the file."
        ) from None
    except RecursionError:
        raise DataError(f"{source} is nested too deep for JSON; take a fresh copy of the file.") from None
    if not isinstance(found, list) or not found:
        raise DataError(f"{source}, line 1: expected a list of problems; take a fresh copy of the file.")
    problems = []
    for number, panels in enumerate(found, 1):
        try:
            problems.append(_read_problem(panels))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise DataError(
                f"{source}, problem {number}: expected {_VIEWS} views with objects and a light, "
                f"then {_QUERIES} queries with objects, label and type; take a fresh copy of the "
                f"file."
            ) from None
    return problems


def _read_problem(panels: list[dict]) -> Problem:
    views = tuple(View(tuple(one["objects"]), one["light_state"]) for one in panels[:_VIEWS])
    queries = tuple(
        Query(tuple(one["objects"]), one["label"], one["type"], one.get("ref")) for one in panels[_VIEWS:]
    )
    if (
        len(panels) != _VIEWS + _QUERIES
        or {view.state for view in views} != {"on", "off"}
        or not all(shown.objects and {*shown.objects} <= {*_ALL} for shown in (*views, *queries))  # type: ignore[attr-defined]
        or not all(query.label in range(3) and query.type in TYPES for query in queries)
    ):
        raise ValueError
    return Problem(views, queries)


def read(regime: str = "IID", part: str = "test") -> list[Problem]:
    """The published problems of IID, Comp or Sys; DataError on others, or if there is no copy.

    val and test are 2,000 each; IID's train, 6,000, was made with the published generator and has no home.
    """
    _rules(regime, part)
    if regime.endswith("_true"):
        raise DataError(f"{regime} is ours and has no file; take generate({regime!r}).")
    name = f"acre/raw/{regime}/{part}.json"
    return parse_problems(files.read(name).decode(), name)


@counted(n_train=0, n_test=0)
def load(
    regime: str = "IID",
    source: str = "generator",
    n_train: int = 2000,
    n_test: int = 500,
    seed: int = 0,
    format: str = "text",
) -> DatasetDict:
    """DatasetDict train/test (Comp, Sys: test), four rows a problem: prompt, response, label, type, problem.

    source="generator" draws n_train and n_test problems; "file" reads the published ones, of which IID's
    train needs a mirror. DataError on others.
    """
    from datasets import Dataset, DatasetDict

    if source not in ("generator", "file"):
        raise DataError(f"Unknown source {source!r} of ACRE; choose 'generator' or 'file'.")
    parts = {}
    for part, n in (("train", n_train), ("test", n_test)):
        if part == "train" and regime in ("Comp", "Sys"):
            continue
        problems = read(regime, part) if source == "file" else generate(regime, n, seed, part)
        said = [
            (*prompt(problem, query, format), query.label, query.type, i)
            for i, problem in enumerate(problems)
            for query in problem.queries
        ]
        columns = ("prompt", "response", "label", "type", "problem")
        parts[part] = Dataset.from_dict(dict(zip(columns, map(list, zip(*said, strict=False)), strict=False)))
    return DatasetDict(parts)
