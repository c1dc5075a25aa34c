r"""Reading an answer out of a response and comparing it with the one recorded: numbers, choices, mathematics.

A marked answer wins over an unmarked one: <answer>...</answer>, \boxed{...}, "#### ...", "the answer is".
Mathematics is compared as text after LaTeX has been brought into one form, then piece by piece (tuples, sets,
intervals, matrices, unions), and each piece by its value, letters standing for fixed random numbers.
"""

from __future__ import annotations

import cmath
import math
import random
import re
from fractions import Fraction

from causalnb.errors import DataError

KINDS = ("number", "choice", "math")

_NUMBER = r"-?\$?(?:\d[\d,]*(?:\.\d+)?|\.\d+)"
_SAID = re.compile(r"\banswer\s*(?:is|are|:)\s*:?\s*", re.I)
_LONGEST = 150  # characters of a formula that is computed; a longer one is compared as text
_POINTS = 3
_FUNCTIONS = {
    "sin": cmath.sin,
    "cos": cmath.cos,
    "tan": cmath.tan,
    "log": cmath.log,
    "ln": cmath.log,
    "exp": cmath.exp,
    "cot": lambda x: 1 / cmath.tan(x),
    "sec": lambda x: 1 / cmath.cos(x),
    "csc": lambda x: 1 / cmath.sin(x),
}


def boxed(text: str) -> str | None:
    r"""Content of the last \boxed{...} whose braces close; None if there is none."""
    opened, last = [], None  # where the content of each open brace begins if it is a box's; (begin, end)
    for brace in re.finditer(r"(\\f?box(?:ed)?\s*)?\{|\}", text):
        if brace[0] != "}":
            opened.append(brace.end() if brace[1] else None)
        elif opened and (begin := opened.pop()) is not None and (last is None or begin > last[0]):
            last = begin, brace.start()
    return None if last is None else text[slice(*last)].strip()


def _marked(text: str) -> str | None:
    *closed, _ = text.split("</answer>")
    tagged = [part.partition("<answer>")[2] for part in closed if "<answer>" in part]
    inside = boxed(tagged[-1] if tagged else text)
    return inside if inside is not None else tagged[-1].strip() if tagged else None


def read_number(text: str) -> Fraction | None:
    r"""The answer as an exact number: the marked one, else the last one of the text; None if there is none.

    Marks are <answer>, \boxed, #### and "the answer is", the last of a kind; commas, $ and % do not count.
    """
    said = _marked(text)
    if said is None:
        hashes = re.findall(rf"####\s*({_NUMBER})", text)
        told = [
            found
            for place in _SAID.finditer(text)
            if (found := re.match(rf"\W*?({_NUMBER})", text[place.end() :]))
        ]
        said = hashes[-1] if hashes else told[-1][1] if told else text
    found = re.findall(_NUMBER, said)  # type: ignore[assignment]
    return Fraction(re.sub(r"[$,]", "", found[-1])) if found else None


def read_choice(text: str) -> str | None:
    """The letter of a choice, A to E; "answer3" is C. None if no choice can be made out.

    Looked for in the marked answer, "Choice B is correct", the last "answer is B" or "answer: B", the last
    "answer3", and a text that is a letter, or begins or ends with one set apart.
    """
    said = _marked(text)
    plain = re.sub(r"\\(?:mathrm|mathbf|textbf|text|mbox)\s*\{([^{}]*)\}", r"\1", said or text)
    plain = re.sub(r"[$*]|\\[()]", "", plain).strip()
    letter = r"[(\[]?\s*([A-E])\b(?!['’])"
    if first := re.search(rf"(?i:\bchoice)\s+{letter}\s*[)\]]?\s+is\s+(?:the\b|correct|right|best)", plain):
        return first[1]
    if told := re.findall(rf"(?i:\banswer)\s*(?:is|:)\s*:?\s*(?:(?i:choice|option)\s*)?{letter}", plain):
        return told[-1]
    if numbered := re.findall(r"\banswer\s?([1-5])\b", plain, re.I):
        return "ABCDE"[int(numbered[-1]) - 1]
    alone = re.match(r"[(\[]([A-E])[)\]]|([A-E])(?:[.):]|\s*$)", plain) or re.search(
        r"(?:^|\s)[(\[]?([A-E])[)\]]?\.?$", plain
    )
    return next(filter(None, alone.groups())) if alone else None


def read_math(text: str) -> str:
    """The answer as LaTeX: the marked one, else what follows the last "answer is", else the whole text."""
    said = _marked(text)
    if said is not None:
        return said
    told = list(_SAID.finditer(text))
    return re.split(r"\.?\s*(?:\n|$)", text[told[-1].end() :])[0] if told else text.strip()


def _plain(latex: str) -> str:
    """One form for what is written in several ways; spaces, units, degrees, money and "x =" are dropped."""
    text = latex.strip().strip("$").rstrip(".")
    text = re.sub(r"(?<!\\)\\[()\[\]!,;: ]|\\left|\\right|\\displaystyle|~|\\?[$%]", "", text)
    text = re.sub(r"\\[dt]frac", r"\\frac", text)
    text = re.sub(r"\^\s*(?:\{\s*\\circ\s*\}|\\circ)|°", "", text)
    text = re.sub(r"(?<=[\d})])\s*\\(?:text|mbox|mathrm)\s*\{[^{}]*\}(?:\s*\^\s*\{?\d\}?)?\s*$", "", text)
    text = re.sub(r"\\(?:text|mbox|mathrm|mathbf|textbf)\s*\{([^{}]*)\}", r"\1", text).strip()
    text = re.sub(r"(?<=\\frac)\s*(\d)\s*(\d)", r"{\1}{\2}", text)
    text = re.sub(r"\s+", "", text)
    text = re.sub(r"(?<=\\frac)(\d)(?=\{)", r"{\1}", text)
    text = re.sub(r"(\\frac\{[^{}]*\})(\d)", r"\1{\2}", text)
    text = re.sub(r"(?<![\d.}\w])(\d+)(\\frac\{\d+\}\{\d+\})", r"(\1+\2)", text)
    text = re.sub(r"_\{(\w)\}", r"_\1", text)
    text = re.sub(r"^[a-zA-Z](?:=(?!.*=)|\\in(?!f))", "", text)
    text = re.sub(r"^\(([A-Za-z])\)$", r"\1", text)
    if re.fullmatch(r"-?\d{1,3}(,\d{3})+(\.\d+)?", text):
        text = text.replace(",", "")
    return text.lower() if re.fullmatch(r"[A-Za-z]{2,}", text) else text


def _pieces(text: str, separator: str = ",") -> list[str]:
    """`text` cut at a separator that no bracket encloses."""
    found, depth, last, i = [], 0, 0, 0
    while i < len(text):
        depth += (text[i] in "([{") - (text[i] in ")]}")
        if depth == 0 and text.startswith(separator, i):
            found.append(text[last:i])
            last = i = i + len(separator)
            continue
        i += 1
    return [*found, text[last:]]


def _both_signs(pieces: list[str]) -> list[str]:
    return [
        one
        for piece in pieces
        for one in ((piece.replace(r"\pm", "+"), piece.replace(r"\pm", "-")) if r"\pm" in piece else (piece,))
    ]


def _same_in_some_order(left: list[str], right: list[str]) -> bool:
    left, right = _both_signs(left), _both_signs(right)
    for one in left:
        fits = next((i for i, other in enumerate(right) if _same(one, other)), None)
        if fits is None:
            return False
        right.pop(fits)
    return not right


def _same(left: str, right: str) -> bool:
    if left == right:
        return True
    matrix = re.compile(r"\\begin\{([bp]matrix)\}(.*)\\end\{\1\}")
    if (a := matrix.fullmatch(left)) and (b := matrix.fullmatch(right)):
        rows = [re.split(r"\\\\|&", found[2].removesuffix(r"\\")) for found in (a, b)]
        return a[2].count("&") == b[2].count("&") and len(rows[0]) == len(rows[1]) and all(map(_same, *rows))
    sides = [_pieces(side, r"\cup") for side in (left, right)]
    if len(sides[0]) > 1 or len(sides[1]) > 1:
        return _same_in_some_order(*sides)
    if left.startswith(r"\{") and right.startswith(r"\{"):
        return _same_in_some_order(
            *(_pieces(side.removeprefix(r"\{").removesuffix(r"\}")) for side in (left, right))
        )
    inner = [_pieces(side[1:-1]) for side in (left, right)]
    if all(side[:1] in "([" and side[-1:] in ")]" for side in (left, right)) and max(map(len, inner)) > 1:
        return (left[0], left[-1], len(inner[0])) == (right[0], right[-1], len(inner[1])) and all(
            map(_same, *inner)
        )
    sides = [_pieces(side) for side in (left, right)]
    if max(map(len, sides)) > 1 or r"\pm" in left + right:
        return _same_in_some_order(*sides)
    exact = [Fraction(side) for side in (left, right) if re.fullmatch(r"-?(?:\d+\.?\d*|\.\d+)", side)]
    if len(exact) == 2:
        return exact[0] == exact[1]
    computed = [_computed(side) for side in (left, right)]
    return None not in computed and all(
        cmath.isclose(a, b, rel_tol=1e-11, abs_tol=1e-11) for a, b in zip(*computed, strict=False)
    )


def same_math(left: str, right: str) -> bool:
    r"""Whether two LaTeX answers say the same: 0.5 and \frac12, \{1, 2\} and \{2, 1\}, 2(k+1) and 2k+2.

    Units, degrees, money and "x =" are dropped. What cannot be computed must be equal as text.
    """
    return _same(_plain(left), _plain(right))


class _Formula:
    """Value of a LaTeX formula at one point: sums, products, powers, fractions, roots, functions, letters."""

    def __init__(self, text: str, point: int):
        self.text, self.i, self.point = text, 0, point

    def value(self) -> complex:
        found = self.sum()
        if self.i < len(self.text):
            raise ValueError(self.text[self.i :])
        return found

    def take(self, *words: str) -> str:
        word = next((word for word in words if self.text.startswith(word, self.i)), "")
        self.i += len(word)
        return word

    def need(self, word: str) -> None:
        if not self.take(word):
            raise ValueError(f"{word} expected")

    def sum(self) -> complex:
        found = self.product()
        while sign := self.take("+", "-"):
            found += self.product() * (1 if sign == "+" else -1)
        return found

    def product(self) -> complex:
        if sign := self.take("-", "+"):
            return self.product() * (1 if sign == "+" else -1)
        found = self.power()
        while self.i < len(self.text) and self.text[self.i] not in "+-)}]":
            if self.take("/"):
                found /= self.power()
            else:
                self.take(r"\cdot", r"\times", "*")
                found *= self.power()
        return found

    def power(self) -> complex:
        found = self.atom()
        return found ** self.argument() if self.take("^") else found

    def argument(self) -> complex:
        if self.take("{"):
            found = self.sum()
            self.need("}")
            return found
        digit = re.compile(r"\d").match(self.text, self.i)
        if not digit:
            return self.atom()
        self.i += 1
        return complex(int(digit[0]))

    def atom(self) -> complex:
        if number := re.compile(r"\d+\.?\d*|\.\d+").match(self.text, self.i):
            self.i = number.end()
            return complex(float(number[0]))
        if self.take("("):
            found = self.sum()
            self.need(")")
            return found
        if self.text.startswith("{", self.i):
            return self.argument()
        if self.take(r"\frac"):
            return self.argument() / self.argument()
        if self.take(r"\sqrt"):
            root = complex(2)
            if self.take("["):
                root = self.sum()
                self.need("]")
            return self.argument() ** (1 / root)
        if self.take(r"\pi"):
            return complex(math.pi)
        if function := self.take(*("\\" + name for name in _FUNCTIONS)):
            return _FUNCTIONS[function[1:]](self.power())
        letter = re.compile(r"[a-zA-Z]|\\[a-zA-Z]+").match(self.text, self.i)
        if not letter:
            raise ValueError("a number or a letter expected")
        self.i = letter.end()
        return 1j if letter[0] == "i" else complex(random.Random(f"{letter[0]} {self.point}").uniform(0.5, 2))


def _computed(text: str) -> list[complex] | None:
    """Values of a formula at a few points; None if it is no formula, too long, or has no finite value."""
    if not text or len(text) > _LONGEST or re.search(r"[a-zA-Z]{3,}", re.sub(r"\\[a-zA-Z]+", "", text)):
        return None
    try:
        found = [_Formula(text, point).value() for point in range(_POINTS)]
    except (ValueError, ArithmeticError, RecursionError):
        return None
    return found if all(map(cmath.isfinite, found)) else None


def check(kind: str, response: str, gold: str) -> bool:
    """Whether a response gives the answer `gold`, of one of KINDS; DataError on another, or if gold has none.

    gold is an answer alone ("18", "C", "answer3", LaTeX) or a text that has it marked.
    """
    if kind not in KINDS:
        raise DataError(f"Unknown kind of answer {kind!r}; choose one of {', '.join(KINDS)}.")
    if kind == "math":
        if not read_math(gold):
            raise DataError("The answer on record is empty: give it as LaTeX.")
        return same_math(read_math(response), read_math(gold))
    read = read_number if kind == "number" else read_choice
    right = read(gold)
    if right is None:
        raise DataError(
            f"{gold[:60]!r} on record has no {kind}: give one, such as {'18' if kind == 'number' else 'C'}."
        )
    return read(response) == right
