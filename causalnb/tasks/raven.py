"""RAVEN in words (Zhang et al. 2019, as text by Gendron et al.): which panel completes a matrix of 3 x 3?

A panel has one or two components of one to four entities; an entity has a size, a color, a type, an angle
and, on a grid, a position. One rule for each attribute of a component holds along the three rows: it stays,
goes up or down, takes three values in turn, or adds up. Positions and their number share one rule. The angle
is noise: drawn for each row and copied along it and to all answers, unless the number of entities changes.

Published answer sets are copies of the answer with one attribute changed, so that the majority of each
attribute gives the answer away (majority_vote); "balanced" ones halve it three times over, as I-RAVEN does
(Hu et al. 2021). Problems are drawn here by rules and frequencies measured on the published sets.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import TYPE_CHECKING

import numpy as np

from causalnb.errors import DataError
from causalnb.tasks import files, icl_rows
from causalnb.tasks.counts import counted

if TYPE_CHECKING:
    from datasets import DatasetDict

SIZES = ("tiny", "small", "medium", "large", "huge", "giant")
COLOURS = ("red", "orange", "yellow", "lime", "green", "cyan", "blue", "purple", "pink", "white")
SHAPES = ("triangle", "square", "pentagon", "hexagon", "circle")
ANGLES = (-135, -90, -45, 0, 45, 90, 135, 180)  # degrees
PLACES = {"TL": "top left", "TR": "top right", "BL": "bottom left", "BR": "bottom right"}
CONFIGURATIONS = ("center_single", "distribute_four", "in_center_single_out_center_single")
FORMATS = ("text", "symbolic")
ANSWER_SETS = ("published", "balanced")
PARTS = ("train", "val", "test")
LETTERS = "ABCDEFGH"  # of the answers
LEVELS = {
    "size": tuple("ABCDEF"),
    "color": tuple("ABCDEFGHIJ"),
    "type": tuple("BCDEF"),
    "angle": tuple(LETTERS),
}
GOVERNED = ("type", "size", "color")  # by a rule of their own

_SAID = {"size": SIZES, "color": COLOURS, "type": SHAPES, "angle": tuple(f"{angle}deg" for angle in ANGLES)}
_TOKENS = {
    "symbolic": {
        attribute: tuple(f"{attribute[0]}{letter}" for letter in letters)
        for attribute, letters in LEVELS.items()
    },
    "text": _SAID,
}
_PLACE_TOKENS = {
    "symbolic": {place: f"p{place}" for place in PLACES},
    "text": {place: said.replace(" ", "-") for place, said in PLACES.items()},
}
WORDS = (
    ",",
    "|",
    ";",
    "/",
    "a",
    "rotated",
    "outside",
    "inside",
    *(word for tokens in _TOKENS.values() for words in tokens.values() for word in words),
    *(word for tokens in _PLACE_TOKENS.values() for word in tokens.values()),
)


@dataclass(frozen=True)
class Entity:
    """Levels of size (0 to 5), color (0 to 9), type (0 to 4), angle (0 to 7); a key of PLACES, or ""."""

    size: int
    color: int
    type: int
    angle: int
    position: str = ""


Component = tuple[Entity, ...]
Panel = tuple[Component, ...]


@dataclass(frozen=True)
class Problem:
    """Eight panels, row by row, eight answers, and the place of the right one among them."""

    configuration: str
    context: tuple[Panel, ...]
    candidates: tuple[Panel, ...]
    target: int

    @property
    def answer(self) -> Panel:
        """The ninth panel."""
        return self.candidates[self.target]


# Solving: what the first two rows, and the first two panels of the third, leave of the ninth panel.

_OFFSET = {"size": 1, "color": 0}  # of the second value, in sums and differences
_STEPS = (-2, -1, 1, 2)


def _adds_up(rows: np.ndarray, attribute: str, sign: int) -> bool:
    seconds = rows[:, 1] + _OFFSET[attribute]
    return bool(seconds[:2].any()) and bool((rows[:2, 2] == rows[:2, 0] + sign * seconds[:2]).all())


def _thirds(values: Sequence[int], attribute: str) -> set[int]:
    """Levels of the ninth panel that some rule allows, given those of the first eight."""
    rows = np.array([*values, -1]).reshape(3, 3)
    found = set()
    if (rows[:2] == rows[:2, :1]).all() and rows[2, 0] == rows[2, 1]:
        found.add(int(rows[2, 1]))
    if attribute == "angle":
        return found
    steps = {*np.diff(rows[:2]).ravel().tolist(), int(rows[2, 1] - rows[2, 0])}
    if len(steps) == 1 and steps <= {*_STEPS}:
        found.add(int(rows[2, 1]) + steps.pop())
    if attribute in _OFFSET:
        found |= {
            int(rows[2, 0]) + sign * (int(rows[2, 1]) + _OFFSET[attribute])
            for sign in (1, -1)
            if _adds_up(rows, attribute, sign)
        }
    found |= _turns([row.tolist() for row in rows])
    return {value for value in found if 0 <= value < len(LEVELS[attribute])}


def _turns(rows: list[list]) -> set:
    """Third value of the third row where rows take three different values in turn, else none."""
    first, second, third = rows
    for shift in (1, 2):
        if len(set(first)) == 3 and second == first[shift:] + first[:shift]:
            last = first[-shift:] + first[:-shift]
            return {last[2]} if third[:2] == last[:2] else set()
    return set()


_GRID = tuple(frozenset(places) for n in range(1, 5) for places in combinations(PLACES, n))


def _moved(places: frozenset[str], step: int) -> frozenset[str]:
    order = [*PLACES]
    return frozenset(order[(order.index(place) + step) % 4] for place in places)


def _third_places(rows: list[list[frozenset[str]]]) -> set[frozenset[str]]:
    """Sets of places of the ninth panel that some rule of places or of their number allows."""
    (a, b, c), (d, e, f), (g, h) = rows
    found = _turns([[a, b, c], [d, e, f], [g, h, None]])
    if a == b == c and d == e == f and g == h:
        found.add(h)
    if c == a | b and f == d | e:
        found.add(g | h)
    if c == a - b and f == d - e:
        found.add(g - h)
    for step in (1, -1):
        if all(_moved(x, step) == y for x, y in ((a, b), (b, c), (d, e), (e, f), (g, h))):
            found.add(_moved(h, step))
    numbers = _third_numbers([[len(places) for places in row] for row in rows])
    return {places for places in _GRID if places in found or len(places) in numbers}


def _third_numbers(rows: list[list[int]]) -> set[int]:
    (a, b, c), (d, e, f), (g, h) = rows
    found = _turns([[a, b, c], [d, e, f], [g, h, None]])
    for step in (-1, 1):
        if {b - a, c - b, e - d, f - e, h - g} == {step}:
            found.add(h + step)
        if (c, f) == (a + step * b, d + step * e):
            found.add(g + step * h)
    return found


@dataclass(frozen=True)
class Allowed:
    """What the rules leave of a component: sets of places, and levels of each attribute, None for any.

    An attribute that entities do not share is a tuple of levels, one for each entity.
    """

    places: frozenset[frozenset[str]]
    levels: dict[str, frozenset[tuple[int, ...]] | None]

    def fits(self, component: Component) -> bool:
        """Whether a component is among those left; a level that is allowed alone is allowed for all."""
        if frozenset(one.position for one in component) not in self.places:
            return False
        for attribute, left in self.levels.items():
            found = tuple(getattr(one, attribute) for one in component)
            if left is not None and found not in left and not (len(set(found)) == 1 and found[:1] in left):
                return False
        return True


def _levels(panels: Sequence[Component], attribute: str) -> frozenset[tuple[int, ...]] | None:
    found = [tuple(getattr(one, attribute) for one in component) for component in panels]
    if all(len(set(values)) == 1 for values in found):
        thirds = _thirds([values[0] for values in found], attribute)
        return frozenset((value,) for value in thirds) or None
    same = found[0] == found[1] == found[2] and found[3] == found[4] == found[5] and found[6] == found[7]
    return frozenset(found[7:]) if same else None


def allowed(context: Sequence[Panel]) -> tuple[Allowed, ...]:
    """What the rules leave of each component of the ninth panel; exact where there is one entity.

    Entities that do not share an attribute keep theirs along a row whose number of entities stays; where it
    changes, theirs are drawn anew, and any are allowed.
    """
    left = []
    for component in zip(*context, strict=False):
        rows = [
            [frozenset(one.position for one in component[i]) for i in range(start, min(start + 3, 8))]
            for start in (0, 3, 6)
        ]
        places = _third_places(rows) if rows[0][0] != {""} else {rows[0][0]}
        left.append(Allowed(frozenset(places), {name: _levels(component, name) for name in LEVELS}))
    return tuple(left)


def ninth(context: Sequence[Panel]) -> list[Panel]:
    """All ninth panels that some rules allow, of a configuration with one entity a component.

    DataError for distribute_four, where entities that differ may be drawn anew.
    """
    left = allowed(context)
    if any(len(component) > 1 or component[0].position for panel in context for component in panel):
        raise DataError("The ninth panels of a grid cannot be listed: use solve() with its answers.")
    options = [
        [
            (Entity(*(level for (level,) in levels)),)  # type: ignore[arg-type]
            for levels in product(*(sorted(one.levels[name] or ()) for name in LEVELS))
        ]
        for one in left
    ]
    return list(product(*options))


def consistent(problem: Problem) -> tuple[int, ...]:
    """Places of the candidates that the rules leave."""
    left = allowed(problem.context)
    return tuple(
        i
        for i, panel in enumerate(problem.candidates)
        if all(one.fits(component) for one, component in zip(left, panel, strict=False))
    )


def solve(problem: Problem) -> int:
    """Place of the candidate that the rules leave, the first of several; 0 if they leave none."""
    return (*consistent(problem), 0)[0]


def _features(panel: Panel) -> list:
    return [
        tuple(getattr(one, name) for one in component)
        for component in panel
        for name in (*LEVELS, "position")
    ]


def majority_vote(candidates: Sequence[Panel]) -> int:
    """The candidate with the most common attributes among the candidates; the matrix is not seen."""
    features = [_features(panel) for panel in candidates]
    votes = [Counter(values) for values in zip(*features, strict=False)]
    return int(
        np.argmax(
            [sum(vote[value] for vote, value in zip(votes, values, strict=False)) for values in features]
        )
    )


# The source's prompts.

_CHOOSE = (
    "Find the pattern number 9 that completes the sequence. Pick the letter in front of the correct "
    "pattern that logically follows in the sequence from the answer set. Patterns in the sequence are "
    "preceded by a number from 1 to 8. Patterns in the answer set are preceded by a letter from A to "
    "H. Only return the letter in front of the correct pattern."
)
_WRITE = (
    "Find the pattern number 9 that completes the sequence. Write the correct pattern with the same "
    "format as in the examples. Patterns in the sequence are preceded by a number from 1 to 8. "
)
_LAST = {False: "The answer is ", True: "The pattern that logically follows is:\n9. "}
_LINE = "\n---------------"
_ENTITY = {
    "symbolic": re.compile(r"\(([A-F]), ([A-J]), ([B-F]), ([A-H]),(?: (TL|TR|BL|BR))?\)"),
    "text": re.compile(
        rf"a ({'|'.join(SIZES)}) ({'|'.join(COLOURS)}) ({'|'.join(SHAPES)}) rotated at "
        rf"(-?\d+) degrees(?: in the ({'|'.join(PLACES.values())}))?"
    ),
}
_SHOWN = {"symbolic": LEVELS, "text": {**_SAID, "angle": tuple(map(str, ANGLES))}}
_SHOWN_PLACES = {"symbolic": {place: place for place in PLACES}, "text": PLACES}
_INSIDE = {"symbolic": f" {_LINE}\n", "text": ". Inside: "}
_MARK = re.compile(r"^([1-9A-H])\. ", re.M)


def _check_format(format: str) -> None:
    if format not in FORMATS:
        raise DataError(f"Unknown format {format!r} of RAVEN; choose one of {', '.join(FORMATS)}.")


def _show_entity(one: Entity, format: str) -> str:
    size, color, shape, angle = (_SHOWN[format][name][getattr(one, name)] for name in LEVELS)
    place = _SHOWN_PLACES[format].get(one.position, "")
    if format == "symbolic":
        return f"({size}, {color}, {shape}, {angle},{' ' if place else ''}{place})"
    return f"a {size} {color} {shape} rotated at {angle} degrees{' in the ' if place else ''}{place}"


def show_panel(panel: Panel, format: str = "text") -> str:
    """A panel in the source's words, "text" or "symbolic"; DataError on another format."""
    _check_format(format)
    parts = [", ".join(_show_entity(one, format) for one in component) for component in panel]
    if format == "symbolic":
        return f"[{parts[0]}] " if len(parts) == 1 else "\n".join(f"[{part}] {_LINE}" for part in parts)
    return (
        f"On an image, {parts[0]}. "
        if len(parts) == 1
        else (
            f"On an image, a second figure is displayed inside a first one. Outside: {parts[0]}. "
            f"Inside: {parts[1]}. "
        )
    )


def parse_panel(text: str, format: str = "text") -> Panel:
    """The panel of show_panel(): its inverse. DataError if the text is none."""
    _check_format(format)
    names = {said: place for place, said in _SHOWN_PLACES[format].items()}
    panel = tuple(
        tuple(
            Entity(  # type: ignore[call-arg]
                *(_SHOWN[format][name].index(word) for name, word in zip(LEVELS, said, strict=False)),  # type: ignore[arg-type]
                names.get(said[4], ""),
            )
            for said in _ENTITY[format].findall(part)
        )
        for part in text.split(_INSIDE[format])
    )
    if not all(panel) or show_panel(panel, format) != text:
        raise DataError(f"{text[:60]!r} is no {format} panel of RAVEN, or not a whole one.")
    return panel


def prompt(problem: Problem, format: str = "text", open: bool = False) -> tuple[str, str]:
    """(prompt, answer): a letter of eight panels, or with `open` the ninth panel; DataError as show_panel."""
    marks = [*map(str, range(1, 9)), *LETTERS]
    panels = problem.context if open else (*problem.context, *problem.candidates)
    lines = [f"{mark}. {show_panel(panel, format)}" for mark, panel in zip(marks, panels, strict=False)]
    said = show_panel(problem.answer, format) if open else LETTERS[problem.target]
    return "\n".join((_WRITE if open else _CHOOSE, *lines, _LAST[open])), said


def parse_prompt(text: str, format: str = "text") -> tuple[tuple[Panel, ...], tuple[Panel, ...]]:
    """(eight panels, eight candidates or none) of a prompt(): its inverse.

    DataError says what does not fit.
    """
    _check_format(format)
    for open, head in ((False, _CHOOSE), (True, _WRITE)):
        if text.startswith(f"{head}\n") and text.endswith(f"\n{_LAST[open]}"):
            break
    else:
        raise DataError(
            f"{text[:60]!r} is no prompt of RAVEN: it must begin with an instruction and end "
            f"with a question of the source."
        )
    _, *cut = _MARK.split(text[len(head) + 1 : -len(_LAST[open])])
    marks, said = cut[::2], [one.removesuffix("\n") for one in cut[1::2]]
    if marks != [*map(str, range(1, 9)), *("" if open else LETTERS)]:
        raise DataError(
            f"A prompt of RAVEN has panels {', '.join(marks)}: expected 1 to 8"
            f"{'' if open else ' and A to H'}."
        )
    panels = tuple(parse_panel(one, format) for one in said)
    return panels[:8], panels[8:]


def configuration_of(panel: Panel) -> str:
    """The one of CONFIGURATIONS that a panel is drawn in."""
    if len(panel) == 2:
        return CONFIGURATIONS[2]
    return CONFIGURATIONS[1] if panel[0][0].position else CONFIGURATIONS[0]


def parse_lines(text: str, source: str, format: str = "text") -> list[Problem]:
    """Problems of JSON lines with input and ideal; of an open prompt the only candidate is the answer.

    DataError names `source` and the line that is wrong.
    """
    problems = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            row = json.loads(line)
            context, candidates = parse_prompt("\n".join(one["content"] for one in row["input"]), format)
            target = LETTERS.index(row["ideal"]) if candidates else 0
            candidates = candidates or (parse_panel(row["ideal"], format),)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            why = str(error) if isinstance(error, DataError) else f"it reads {line[:60]!r}."
            raise DataError(
                f"{source}, line {number} is no {format} problem of RAVEN: {why} Take a fresh "
                f"copy of the file."
            ) from None
        problems.append(Problem(configuration_of(context[0]), context, candidates, target))
    return problems


def read(
    configuration: str = "center_single", part: str = "test", format: str = "symbolic", open: bool = False
) -> list[Problem]:
    """The published problems; the other configurations have a test part alone. DataError if there is no copy.

    center_single: 8,000, 1,000 and 1,000 of train, val and test; the others 2,000. Only val and test of
    center_single have a public home, and only they have open files.
    """
    _check(configuration, part)
    _check_format(format)
    single = configuration == CONFIGURATIONS[0]
    if not single and part != "test" or open and (not single or part == "train"):
        raise DataError(
            f"RAVEN has no {'open ' if open else ''}file of {configuration}, part {part}; take "
            f"test, or generate()."
        )
    stem = f"{configuration}_{part}" if single else configuration
    name = f"raven/{format}{'-open' if open else ''}/{stem}.jsonl"
    return parse_lines(files.read(name).decode(), name, format)


def _check(configuration: str, part: str = "test", answer_set: str = "published") -> None:
    for value, known in ((configuration, CONFIGURATIONS), (part, PARTS), (answer_set, ANSWER_SETS)):
        if value not in known:
            raise DataError(f"RAVEN knows no {value!r}; choose one of {', '.join(known)}.")


# Drawing problems.

_OUTER = {"size": range(3, 6), "color": range(1)}  # levels of an entity around another
_ALIKE = 1 / 4  # of the grids have entities that share also what stays the same


@dataclass
class _Plan:
    """How a component is told: `places` (3, 3), in the order of its entities, and levels by `rules` (3, 3).

    levels: those an attribute can take. kept: entities stay as they are along a row. counted: the rule of the
    layout is about the number of entities, not about their places.
    """

    places: list[list[tuple[str, ...]]]
    rules: dict[str, np.ndarray]
    levels: dict[str, range]
    kept: bool = True
    counted: bool = False


def _pick(draw: np.random.Generator, options: Sequence):
    return options[int(draw.integers(len(options)))]


def _rule(draw: np.random.Generator, attribute: str, levels: range) -> tuple[str, np.ndarray]:
    """(kind, levels (3, 3)) of a rule that fits in the levels; each kind is as likely, if it fits."""
    kinds = ("constant", "progression", "three", *(("arithmetic",) if attribute in _OFFSET else ()))
    while True:
        kind = _pick(draw, kinds if len(levels) > 1 else kinds[:1])
        rows = _DRAWN[kind](draw, attribute, levels)
        if rows is not None:
            return kind, np.array(rows)


def _constant(draw: np.random.Generator, attribute: str, levels: range) -> list:
    return [[value] * 3 for value in draw.integers(levels.start, levels.stop, 3).tolist()]


def _progression(draw: np.random.Generator, attribute: str, levels: range) -> list | None:
    step = _pick(draw, _STEPS)
    firsts = [level for level in levels if level + 2 * step in levels]
    if not firsts:
        return None
    return [[value + i * step for i in range(3)] for value in draw.choice(firsts, 3).tolist()]


def _in_turn(draw: np.random.Generator, values: Sequence) -> list[list]:
    """Rows of the same three of the values, each a shift of the one before."""
    order = [values[i] for i in draw.permutation(len(values))[:3]]
    shift = int(draw.integers(1, 3))
    return [order[i * shift % 3 :] + order[: i * shift % 3] for i in range(3)]


def _three(draw: np.random.Generator, attribute: str, levels: range) -> list:
    return _in_turn(draw, levels)


def _arithmetic(draw: np.random.Generator, attribute: str, levels: range) -> list | None:
    """Rows a, b, a + b or a, b, a - b; a size is its level and one; b is not 0 in both of the first rows."""
    sign, offset = _pick(draw, (-1, 1)), _OFFSET[attribute]
    seconds = {
        level: [other for other in levels if level + sign * (other + offset) in levels] for level in levels
    }
    firsts = [level for level in levels if seconds[level]]
    while firsts:
        rows = [[first, _pick(draw, seconds[first])] for first in draw.choice(firsts, 3).tolist()]
        if any(second + offset for _, second in rows[:2]):
            return [[first, second, first + sign * (second + offset)] for first, second in rows]
    return None


_DRAWN = {"constant": _constant, "progression": _progression, "three": _three, "arithmetic": _arithmetic}


def _some(draw: np.random.Generator, n: int) -> tuple[str, ...]:
    return tuple([*PLACES][i] for i in draw.permutation(4)[:n])


# Layouts: the places of nine panels, in the order of their entities; whether entities stay as they are along
# a row; whether the rule is about their number. Numbers and conditions are those of the published sets.


def _layout_constant(draw: np.random.Generator) -> tuple:
    return [[_some(draw, n)] * 3 for n in draw.integers(1, 5, 3).tolist()], True, False


def _layout_three(draw: np.random.Generator) -> tuple:
    if _pick(draw, (True, False)):
        return [[_some(draw, n) for n in row] for row in _in_turn(draw, (1, 2, 3, 4))], False, True
    n = int(draw.integers(1, 4))
    sets = [places for places in _GRID if len(places) == n]
    chosen = {places: tuple(draw.permutation(sorted(places)).tolist()) for places in sets}
    return [[chosen[places] for places in row] for row in _in_turn(draw, sets)], True, False


def _layout_progression(draw: np.random.Generator) -> tuple:
    step = _pick(draw, (-1, 1))
    if _pick(draw, (True, False)):
        firsts = draw.integers(1, 3, 3) if step == 1 else draw.integers(3, 5, 3)
        return [[_some(draw, n + i * step) for i in range(3)] for n in firsts.tolist()], False, True
    order, rows = [*PLACES], []
    for n in draw.integers(1, 3, 3).tolist():
        first = _some(draw, n)
        rows.append([tuple(order[(order.index(place) + i * step) % 4] for place in first) for i in range(3)])
    return rows, True, False


def _layout_sum(draw: np.random.Generator) -> tuple:
    if _pick(draw, (True, False)):
        rows = _sum_of_numbers(draw)
        return [[_some(draw, n) for n in row] for row in rows], False, True
    added, rows = _pick(draw, (True, False)), []
    low, high = (1, 3) if added else (2, 3)
    for _ in range(3):
        first, rest = _some(draw, int(draw.integers(low, high + 1))), set()
        while not rest:
            second = _some(draw, int(draw.integers(low, high + 1)))
            rest = set(second) - set(first) if added else set(first) - set(second)
        third = {*first, *second} if added else rest
        rows.append([first, second, tuple(place for place in PLACES if place in third)])  # type: ignore[list-item]
    return rows, False, False


def _sum_of_numbers(draw: np.random.Generator) -> list[list[int]]:
    added, rows = _pick(draw, (True, False)), []
    for _ in range(3):
        large = int(draw.integers(1, 4)) if added else int(draw.integers(2, 5))
        small = int(draw.integers(1, 5 - large)) if added else int(draw.integers(1, large))
        rows.append([large, small, large + small if added else large - small])
    return rows


_LAYOUTS = (_layout_constant, _layout_three, _layout_progression, _layout_sum)
_SHARES = np.array([1, 2, 1, 2]) / 6  # half of the progressions do not fit, and are drawn again


def _plan(draw: np.random.Generator, configuration: str, component: int) -> _Plan:
    outer = configuration == CONFIGURATIONS[2] and component == 0
    levels = {name: range(len(letters)) for name, letters in LEVELS.items()} | (_OUTER if outer else {})
    drawn = {name: _rule(draw, name, levels[name]) for name in GOVERNED}
    drawn["angle"] = ("constant", np.array(_constant(draw, "angle", levels["angle"])))
    if configuration != CONFIGURATIONS[1]:
        return _Plan([[("",)] * 3] * 3, {name: rows for name, (_, rows) in drawn.items()}, levels)
    places, kept, counted = _LAYOUTS[draw.choice(len(_LAYOUTS), p=_SHARES)](draw)
    alike = draw.random() < _ALIKE
    rules = {name: rows for name, (kind, rows) in drawn.items() if alike or kind != "constant"}
    return _Plan(places, rules, levels, kept, counted)


def _values(draw: np.random.Generator, n: int, attribute: str) -> tuple[int, ...]:
    return tuple(draw.integers(0, len(LEVELS[attribute]), n).tolist())


Told = dict[str, tuple]  # of a component: its places and, for each attribute, the levels of its entities


def _tell(draw: np.random.Generator, plan: _Plan) -> list[Told]:
    """The nine components of a plan."""
    told: list[Told] = []
    for r, row in enumerate(plan.places):
        for c, places in enumerate(row):
            said = {"position": places}
            for name in LEVELS:
                if name in plan.rules:
                    said[name] = (int(plan.rules[name][r, c]),) * len(places)  # type: ignore[assignment]
                else:
                    said[name] = told[-1][name] if c and plan.kept else _values(draw, len(places), name)  # type: ignore[assignment]
            told.append(said)
    return told


def _built(told: Told) -> Component:
    return tuple(
        Entity(*values) for values in zip(*(told[name] for name in (*LEVELS, "position")), strict=False)
    )


def _other(draw: np.random.Generator, told: Told, name: str, levels: dict[str, range], alike: bool) -> Told:
    """A component with another number of entities (all drawn anew), other places, or other levels.

    alike: entities that share a level get the same new one.
    """
    n = len(told["position"])
    if name == "number":
        n = _pick(draw, [other for other in range(1, 5) if other != n])
        return {"position": _some(draw, n)} | {key: _values(draw, n, key) for key in LEVELS}
    if name == "position":
        sets = [places for places in _GRID if len(places) == n and places != {*told["position"]}]
        return {**told, "position": tuple(draw.permutation(sorted(_pick(draw, sets))).tolist())}
    found = [_pick(draw, [level for level in levels[name] if level != value]) for value in told[name]]
    if alike and len(set(told[name])) == 1:
        found = found[:1] * n
    return {**told, name: tuple(found)}


def _changeable(told: list[Told], plans: list[_Plan], halved: bool = False) -> list[tuple[int, str]]:
    """(component, what) in which an answer can be made wrong; halved: number or position, not both."""
    options = []
    for i, (said, plan) in enumerate(zip(told, plans, strict=False)):
        if said["position"] != ("",):
            movable = not plan.counted and len(said["position"]) < len(PLACES)
            options += [(i, "number")] if not (halved and movable) else []
            options += [(i, "position")] if movable else []
        options += [
            (i, name) for name in GOVERNED if len(plan.levels[name]) > 1 and (name in plan.rules or plan.kept)
        ]
    return options


def _panel(told: list[Told]) -> Panel:
    return tuple(_built(said) for said in told)


def _room(told: Told, name: str, levels: dict[str, range]) -> float:
    """How many other values there are of what _other() changes."""
    n = len(told["position"])
    if name == "number":
        return float("inf")
    if name == "position":
        return sum(len(places) == n for places in _GRID) - 1
    return (len(levels[name]) - 1) ** n


def _published(draw: np.random.Generator, told: list[Told], plans: list[_Plan]) -> list[Panel]:
    """The answer and seven copies, each with one thing changed to what no other has."""
    room = {(i, name): _room(told[i], name, plans[i].levels) for i, name in _changeable(told, plans)}
    panel = _panel(told)
    found = {tuple(map(frozenset, panel)): panel}
    while len(found) < len(LETTERS):
        i, name = where = _pick(draw, [one for one in room if room[one]])
        while tuple(map(frozenset, panel)) in found:
            other = _other(draw, told[i], name, plans[i].levels, alike=False)
            panel = _panel([*told[:i], other, *told[i + 1 :]])
        found[tuple(map(frozenset, panel))] = panel
        room[where] -= 1
    return [*found.values()]


def _resized(told: Told) -> Told:
    """Levels for as many entities as there are places, the same ones again where they are too few."""
    n = len(told["position"])
    return {name: tuple(values[i % len(values)] for i in range(n)) for name, values in told.items()}


def _balanced(draw: np.random.Generator, told: list[Told], plans: list[_Plan]) -> list[Panel]:
    """The answer and all other ways to keep or change three things; empty if there are not three."""
    options, found = _changeable(told, plans, halved=True), []
    chosen = [options[k] for k in draw.permutation(len(options))[:3]]
    changes = [
        (
            i,
            "position" if name == "number" else name,
            _other(draw, told[i], name, plans[i].levels, alike=True),
        )
        for i, name in chosen
    ]
    for kept in product((True, False), repeat=3):
        copy = [dict(said) for said in told]
        for (i, name, other), same in zip(changes, kept, strict=False):
            if not same:
                copy[i][name] = other[name]
        found.append(_panel([_resized(said) for said in copy]))
    return found if len(options) >= 3 else []


_ANSWERS = {"published": _published, "balanced": _balanced}


@counted(n=0)
def generate(
    configuration: str = "center_single",
    n: int = 1000,
    seed: int | list[int] = 0,
    answer_set: str = "published",
) -> list[Problem]:
    """n problems of a configuration; DataError on an unknown one, or on another answer set.

    published: seven copies of the answer with one attribute changed; balanced: all ways of keeping or
    changing three attributes, so that the answers alone say nothing.
    """
    _check(configuration, answer_set=answer_set)
    draw = np.random.default_rng([seed, CONFIGURATIONS.index(configuration), ANSWER_SETS.index(answer_set)])
    components, problems = range(2 if configuration == CONFIGURATIONS[2] else 1), []
    while len(problems) < n:
        plans = [_plan(draw, configuration, i) for i in components]
        *context, answer = (
            list(panel) for panel in zip(*(_tell(draw, plan) for plan in plans), strict=False)
        )
        candidates = _ANSWERS[answer_set](draw, answer, plans)
        if candidates:
            order = draw.permutation(len(LETTERS)).tolist()
            problems.append(
                Problem(
                    configuration,
                    tuple(map(_panel, context)),
                    tuple(candidates[i] for i in order),
                    order.index(0),
                )
            )
    return problems


# Compact rows.


def _words(panel: Panel, format: str) -> list[str]:
    """Words of a panel in the compact encoding."""
    said = []
    for i, component in enumerate(panel):
        if format == "text" and len(panel) > 1:
            said.append("outside" if i == 0 else "inside")
        elif i:
            said.append("/")
        for k, one in enumerate(component):
            size, color, shape, angle = (_TOKENS[format][name][getattr(one, name)] for name in LEVELS)
            said += [
                *([","] if k else []),
                *(["a"] if format == "text" else []),
                size,
                color,
                shape,
                *(["rotated"] if format == "text" else []),
                angle,
            ]
            said += [_PLACE_TOKENS[format][one.position]] if one.position else []
    return said


def read_words(words: Sequence[str], format: str) -> Panel:
    """The panel of compact words; DataError if they are none."""
    _check_format(format)
    levels = {word: level for tokens in _TOKENS[format].values() for level, word in enumerate(tokens)}
    places = {word: place for place, word in _PLACE_TOKENS[format].items()}
    components: list[list] = [[]]
    for word in words:
        if word in ("/", "inside"):
            components.append([])
        elif word in levels:
            components[-1].append(levels[word])
        elif word in places:
            components[-1].append(places[word])
    panel = tuple(tuple(_entities(values)) for values in components)
    if _words(panel, format) != list(words):
        raise DataError(f"{' '.join(words)[:60]!r} is no compact {format} panel of RAVEN.")
    return panel


def _entities(values: list) -> Iterable[Entity]:
    wide = len(LEVELS) + any(isinstance(value, str) for value in values)
    return [Entity(*values[i : i + wide]) for i in range(0, len(values) - wide + 1, wide)]


def rows(problems: Sequence[Problem], format: str = "symbolic") -> list[dict]:
    """Compact rows of problems: eight panels, then the ninth, which is the answer.

    symbolic: a word a level (sC cF tB aD); text: "a medium cyan triangle rotated 0deg". Supervised are the
    words of all panels. Besides icl_rows' keys a row has `format`, `problem` (its place in the list),
    `candidates` (the words of each) and `target`. DataError on an unknown format.
    """
    _check_format(format)
    made = []
    for number, problem in enumerate(problems):
        pieces = []
        for i, panel in enumerate(problem.context):
            pieces += [(word, icl_rows.DEDUCIBLE) for word in _words(panel, format)]
            pieces += icl_rows.plain([";" if i % 3 == 2 else "|"])
        candidates = [_words(panel, format) for panel in problem.candidates]
        pieces += [(word, icl_rows.ANSWER) for word in candidates[problem.target]]
        made.append(
            icl_rows.make(pieces, format=format, problem=number, candidates=candidates, target=problem.target)
        )
    return made


def read_row(row: dict) -> tuple[Panel, ...]:
    """The nine panels of a row of rows(), fillers or not: its inverse. DataError if one is none."""
    panels, words = [], []
    for word in [*icl_rows.without_fillers(row)["words"], "|"]:
        if word in ("|", ";"):
            panels, words = [*panels, read_words(words, row["format"])], []
        else:
            words.append(word)
    return tuple(panels)


@counted(n_train=0, n_test=0)
def load(
    configuration: str = "center_single",
    source: str = "generator",
    n_train: int = 2000,
    n_test: int = 500,
    seed: int = 0,
    format: str = "text",
    open: bool = False,
    answer_set: str = "published",
) -> DatasetDict:
    """DatasetDict train/test with prompt, response, target (the place of the answer).

    source="generator" draws n_train and n_test problems; "file" reads the published ones, of which many need
    a mirror, and which have a train part for center_single alone. DataError on others.
    """
    from datasets import Dataset, DatasetDict

    if source not in ("generator", "file"):
        raise DataError(f"Unknown source {source!r} of RAVEN; choose 'generator' or 'file'.")
    if source == "file" and answer_set != "published":
        raise DataError(
            f"The files have the published answer sets, not {answer_set!r}: use source='generator'."
        )
    if source == "file":
        parts = {
            part: read(configuration, part, format)
            for part in ("train", "test")
            if part == "test" or configuration == CONFIGURATIONS[0]
        }
    else:
        drawn = generate(configuration, n_train + n_test, seed, answer_set)
        parts = {"train": drawn[:n_train], "test": drawn[n_train:]}
    said = {
        part: [(*prompt(problem, format, open), problem.target) for problem in problems]
        for part, problems in parts.items()
    }
    columns = ("prompt", "response", "target")
    return DatasetDict(
        {
            part: Dataset.from_dict(dict(zip(columns, map(list, zip(*rows, strict=False)), strict=False)))
            for part, rows in said.items()
        }
    )
