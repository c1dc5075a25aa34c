"""LaTeX of tables: what is escaped, how wide each column is, which packages a file needs."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import sqrt

TALL, WIDE = 480.0, 345.0  # points: the text of an article at 10 to 12 points, as counted at 10
STRETCH = 1.15  # a bundled Times is measured; Computer Modern is wider by up to this
SIZES = {
    "normalsize": (1.0, 12.0),
    "small": (0.93, 11.0),
    "footnotesize": (0.85, 9.5),
    "scriptsize": (0.8, 8.0),
}
SHORT = 105.0  # points: a cell up to this width is broken only where nothing else fits
SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "`": r"\textasciigrave{}",
    **{character: rf"\{character}" for character in "&%$#_{}"},
}
MATHS = {
    "±": r"\pm",
    "−": "-",
    "×": r"\times",
    "·": r"\cdot",
    "≤": r"\leq",
    "≥": r"\geq",
    "≠": r"\neq",
    "≈": r"\approx",
    "→": r"\to",
    "←": r"\leftarrow",
    "↔": r"\leftrightarrow",
    "∞": r"\infty",
    "√": r"\surd",
    "∈": r"\in",
    "⊥": r"\perp",
    "′": "'",
    "²": "^2",
    "³": "^3",
}
UPRIGHT = dict(  # Greek letters that look like Latin ones have no command
    zip(
        "Alpha Beta Epsilon Zeta Eta Iota Kappa Mu Nu Omicron Rho Tau Chi omicron".split(),
        "ABEZHIKMNOPTXo",
        strict=True,
    )
)


@cache
def _shown(character: str) -> str:
    name = re.fullmatch("GREEK (SMALL|CAPITAL) LETTER (FINAL )?([A-Z]+)", unicodedata.name(character, ""))
    if character in MATHS:
        return f"${MATHS[character]}$"
    if not name:
        return SPECIAL.get(character, character)
    letter = name[3].replace("LAMDA", "LAMBDA").lower()
    letter = letter.capitalize() if name[1] == "CAPITAL" else "varsigma" if name[2] else letter
    return rf"$\mathrm{{{UPRIGHT[letter]}}}$" if letter in UPRIGHT else rf"$\{letter}$"


def escaped(text: str) -> str:
    """`text` as LaTeX shows it literally in any font encoding; what grave accents enclose is typewritten."""
    parts = re.split(r"`([^`]+)`", text)
    if parts[1:]:
        return "".join(rf"\texttt{{{escaped(p)}}}" if at % 2 else escaped(p) for at, p in enumerate(parts))
    text = re.sub(r"(?<![\w.%)\]])-(?=[\d.])", "−", text.replace("->", "→").replace("<-", "←"))
    text = re.sub(r"(?<=\w)([/_|])(?=\w)", "\\1\0", re.sub("-(?=-)", "-\1", text))
    text = re.sub(r'"([^"]*)"', r"``\1''", "".join(map(_shown, text)))
    return text.replace("\0", r"\allowbreak{}").replace("\1", "{}").replace(r"$\pm$ ", r"$\pm$~")


@cache
def _width(text: str) -> float:
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(family="STIXGeneral", size=10)
    return STRETCH * text_to_path.get_text_width_height_descent(text, font, ismath=False)[0]


def _pieces(text: str) -> list[str]:
    """What a line of `text` may end with: words, and their parts where LaTeX may break them."""
    return re.findall(r"±\s\S+|\S+?\w[-/_|](?=\w)|\S+", text)


def _lines(text: str, width: float) -> int:
    count, used = 1, 0.0
    for piece in _pieces(text):
        length = _width(piece)
        if used and used + length > width:
            count, used = count + 1, 0.0
        used += length + _width("n") / 2
    return count


@dataclass(frozen=True)
class Layout:
    """How a table is set: `size` of its text, `gap` between columns, their `widths` in points.

    `wraps`: the columns are narrower than their longest cells; `sideways`: as wide as the page is tall;
    `high`: points it takes, or would take were the page long enough.
    """

    size: str
    gap: float
    widths: Sequence[float]
    wraps: bool
    sideways: bool
    high: float

    @property
    def wide(self) -> float:
        """Points of text that it is set for."""
        return TALL if self.sideways else WIDE


def layout(rows: Sequence[Sequence[str]], under: str = "") -> Layout:
    """The layout of `rows` of plain cells, the header first, with a caption and notes `under` it.

    The largest size of text at which no short cell is broken; else one at which no estimate, or else no word,
    is; else sideways.
    """
    columns = list(zip(*rows, strict=True))
    natural = [max(map(_width, column)) for column in columns]
    words = [max(_width(piece) for cell in column for piece in _pieces(cell) or [""]) for column in columns]
    bodies = [[cell for cell in column[1:] if _width(cell) <= SHORT] for column in columns]
    whole = [max([w, *map(_width, body)]) for w, body in zip(words, bodies, strict=True)]
    estimates = [[e for cell in body for e in re.findall(r"\S+ ± \S+", cell)] for body in bodies]
    nearly = [max([w, *map(_width, body)]) for w, body in zip(words, estimates, strict=True)]
    gap = 12.0 if len(columns) < 6 else 6.0
    small = ["footnotesize", "scriptsize"]
    choices = [
        (size, least, wide, (0.98 * wide - gap * (len(columns) - 1)) / SIZES[size][0])
        for wide in (WIDE, TALL)
        for least, sizes in ((whole, [*SIZES]), (nearly, small), (words, small))
        for size in sizes
    ]
    fitting = (choice for choice in choices if sum(choice[1]) <= choice[3])
    size, least, wide, room = next(fitting, choices[-1])
    scale, leading = SIZES[size]
    wraps = sum(natural) > room
    widths = _shared(room, least, natural) if wraps else natural
    lines = sum(max(map(_lines, row, widths)) for row in rows)
    high = leading * lines + 12 * _lines(under, wide) + 40
    return Layout(size, gap, [scale * w for w in widths], wraps, wide == TALL, high)


def _shared(room: float, least: Sequence[float], most: Sequence[float]) -> list[float]:
    """Widths between `least` and `most` of sum `room`: as the roots of what each column would take."""
    low, high, least = 0.0, room, [m * min(1.0, room / sum(least)) for m in least]
    for _ in range(50):
        middle = (low + high) / 2
        widths = [min(max(middle * sqrt(n), m), n) for m, n in zip(least, most, strict=True)]
        low, high = (middle, high) if sum(widths) <= room else (low, middle)
    return [max(width, m) for width, m in zip(widths, least, strict=True)]


def _format(layout: Layout, fixed: bool) -> str:
    """The column format: as wide as the cells, or parts of the text width (`fixed`: points) that wrap."""
    if not layout.wraps:
        return "@{}" + "l" * len(layout.widths) + "@{}"
    parts = [rf"\dimexpr{(w + layout.gap) / layout.wide:.4f}\linewidth-2\tabcolsep" for w in layout.widths]
    parts = [f"{width:.1f}pt" for width in layout.widths] if fixed else parts
    return "@{}" + "".join(rf">{{\raggedright\arraybackslash\hspace{{0pt}}}}p{{{p}}}" for p in parts) + "@{}"


def _within(environment: str, text: str, options: str = "") -> str:
    return f"\\begin{{{environment}}}{options}\n{text}\\end{{{environment}}}\n"


def table(
    id: str,
    rows: Sequence[Sequence[str]],
    caption: str,
    notes: str = "",
    fit: bool = False,
    longtable: bool = False,
) -> str:
    """A table environment, label tab:<id>, of `rows` of plain text, the header first; packages named above.

    Columns wrap within the text width, on its side where a page is too narrow. A longtable where it is asked
    for or the table is longer than a page. `fit` scales a table to a text narrower than WIDE.
    """
    import pandas as pd

    plan = layout(rows, f"{caption} {notes}")
    longtable = longtable or plan.high > (WIDE if plan.sideways else TALL)
    fit = fit and not longtable
    head, *body = [[escaped(cell) for cell in row] for row in rows]
    style = pd.DataFrame(body, columns=range(len(head)), dtype=object).style.hide(axis="index")
    style = style.format_index(lambda column: head[column], axis=1)
    caption, label, notes = escaped(caption), f"tab:{id}", escaped(notes)
    options = {"caption": caption, "label": label, "environment": "longtable"} if longtable else {}
    text = style.to_latex(hrules=True, column_format=_format(plan, fixed=fit), **options)
    look = f"\\{plan.size}\n\\setlength{{\\tabcolsep}}{{{plan.gap / 2:g}pt}}\n"
    needs = ["array", "booktabs"]
    if longtable:
        needs.append("longtable")
        text = f"{look}\\setlength{{\\LTcapwidth}}{{\\linewidth}}\n{text}"
        text += f"\\noindent\\footnotesize {notes}\\par\n" if notes else ""
        needs += ["pdflscape"] * plan.sideways
        text = _within("landscape", text) if plan.sideways else f"\\begingroup\n{text}\\endgroup\n"
    else:
        needs += ["adjustbox"] * fit + ["rotating"] * (plan.sideways and not fit)
        text = _within("adjustbox", text, "{max width=\\linewidth}") if fit else text
        text += (
            "\n\\medskip\n" + _within("minipage", f"\\footnotesize {notes}\n", "{\\linewidth}")
            if notes
            else ""
        )
        text = f"\\centering\n\\caption{{{caption}}}\n\\label{{{label}}}\n{look}{text}"
        text = _within("sidewaystable" if plan.sideways and not fit else "table", text, "[htbp]")
    return f"% {id} needs in the preamble:\n% \\usepackage{{{','.join(needs)}}}\n{text}"
