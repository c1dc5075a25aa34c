r"""Reasoning: six small synthetic tasks in the shape of C2DLM's table 5, and loaders of the real test sets.

The synthetic tasks are written in separate words over a small vocabulary; every response shows its steps, and
every row names its concepts and what each follows from, in words that stand in the row exactly once:

    purchases   numbers in a story           for GSM8K       #### 11
    equations   linear equations             for MATH500     \\boxed{ 5 }
    ordering    who is oldest, of a chain    for GPQA        Answer : B
    formulas    a formula of physics         for MMLU STEM   Answer : B
    kinds       what follows from its kind   for ARC-C       Answer : B
    systems     two equations, two unknowns  for SAT         Answer : B

They have the shape of the real tasks and none of their difficulty: numbers on them say nothing about those.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from io import StringIO
from typing import TYPE_CHECKING

from causalnb.errors import DataError
from causalnb.tasks import answers, files
from causalnb.tasks.counts import counted

if TYPE_CHECKING:
    from datasets import DatasetDict

SYNTHETIC = {
    "purchases": "gsm8k",
    "equations": "math500",
    "ordering": "gpqa",
    "formulas": "mmlu_stem",
    "kinds": "arc_c",
    "systems": "sat",
}  # and the real task each stands for
REAL = ("gsm8k", "math500", "sat", "arc_c")
HUB = {
    "gpqa": ("Idavidrein/gpqa", "gpqa_main"),
    "mmlu_stem": ("TIGER-Lab/MMLU-STEM", None),
    "s1k": ("simplescaling/s1K-1.1", None),
}
ANNOTATED = ("gsm8k_val", "mawps_train", "svamp_train")
KINDS = {
    "gsm8k": "number",
    "purchases": "number",
    "math500": "math",
    "equations": "math",
    "s1k": "math",
    **dict.fromkeys(
        ("gpqa", "mmlu_stem", "arc_c", "sat", "ordering", "formulas", "kinds", "systems"), "choice"
    ),
}
PEOPLE = ("Ann", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gus", "Hana")
THINGS = ("apples", "books", "coins", "eggs", "pens", "stamps")
FORMULAS = {
    "distance": ("speed", "*", "time"),
    "force": ("mass", "*", "acceleration"),
    "voltage": ("current", "*", "resistance"),
    "work": ("force", "*", "distance"),
    "momentum": ("mass", "*", "speed"),
    "density": ("mass", "/", "volume"),
    "pressure": ("force", "/", "area"),
    "charge": ("current", "*", "time"),
}
CREATURES = ("wug", "dax", "mip", "blick", "fep", "toma")
COLOURS = ("red", "blue", "green", "black", "white", "brown")
PETS = ("Rex", "Kit", "Lola", "Otto")
_SAYINGS = (
    "has buys boxes of gives to How many does have now ? . * + - / = #### Solve for x y \\boxed{ } > "
    "is older than Who the oldest The What ( ) A B C D Answer : Every a and"
)
WORDS = tuple(
    dict.fromkeys(
        (
            *_SAYINGS.split(),
            *PEOPLE,
            *THINGS,
            *FORMULAS,
            *(word for rule in FORMULAS.values() for word in rule),
            *CREATURES,
            *COLOURS,
            *PETS,
        )
    )
)  # beside whole numbers

_FILES = {
    "gsm8k": {"train": "gsm8k/train.jsonl", "test": "gsm8k/test.jsonl"},
    "math500": {"test": "math500/test.jsonl"},
    "sat": {"test": "sat/sat-math.jsonl"},
    "arc_c": {"test": "arc/ARC-Challenge_test_llm_adapters.json"},
}
_LETTERS = "ABCDE"


def _row(question: str, steps: dict[str, list[str]], answer: str, close: str, last: list[str]) -> dict:
    """A row whose response says `steps` (effect -> causes) and then `close`, which follows from `last`."""
    return {
        "prompt": question,
        "response": f"{' . '.join(steps)} . {close}",
        "answer": answer,
        "graph": {**steps, close: last},
    }


def _choose(draw: random.Random, right: str, wrong: list[str]) -> tuple[str, str]:
    options = [right, *wrong]
    draw.shuffle(options)
    said = " ".join(f"( {letter} ) {option}" for letter, option in zip(_LETTERS, options, strict=False))
    return said, _LETTERS[options.index(right)]


def _near(draw: random.Random, right: int) -> list[str]:
    return [str(value) for value in draw.sample([v for v in range(right - 6, right + 7) if v != right], 3)]


def _purchases(draw: random.Random) -> dict:
    (who, other), what = draw.sample(PEOPLE, 2), draw.choice(THINGS)
    first, boxes, each = draw.randint(2, 30), draw.randint(2, 9), draw.randint(2, 9)
    bought, total = boxes * each, first + boxes * each
    given = draw.randint(1, total - 1)
    facts = [
        f"{who} has {first} {what}",
        f"{who} buys {boxes} boxes of {each} {what}",
        f"{who} gives {given} {what} to {other}",
    ]
    steps = {f"{boxes} * {each} = {bought}": [facts[1]]}
    steps[f"{first} + {bought} = {total}"] = [facts[0], *steps]
    left = f"{total} - {given} = {total - given}"
    steps[left] = [list(steps)[1], facts[2]]
    return _row(
        f"{' . '.join(facts)} . How many {what} does {who} have now ?",
        steps,
        str(total - given),
        f"#### {total - given}",
        [left],
    )


def _equations(draw: random.Random) -> dict:
    factor, x, shift = draw.randint(2, 9), draw.randint(-4, 12), draw.randint(1, 30)
    equation, moved = f"{factor} x + {shift} = {factor * x + shift}", f"{factor} x = {factor * x}"
    found = f"x = {factor * x} / {factor} = {x}"
    return _row(
        f"Solve {equation} for x .", {moved: [equation], found: [moved]}, str(x), f"\\boxed{{ {x} }}", [found]
    )


def _ordering(draw: random.Random) -> dict:
    chain = draw.sample(PEOPLE, 4)
    facts = [f"{a} is older than {b}" for a, b in zip(chain, chain[1:], strict=False)]
    said = draw.sample(facts, 3)
    options, letter = _choose(draw, chain[0], chain[1:])
    steps = {" > ".join(chain[:3]): facts[:2]}
    steps[f"{chain[2]} > {chain[3]}"] = facts[2:]
    oldest = f"{chain[0]} is the oldest"
    steps[oldest] = list(steps)
    return _row(
        f"{' . '.join(said)} . Who is the oldest ? {options}",
        steps,
        letter,
        f"Answer : {letter}",
        [oldest, f"( {letter} ) {chain[0]}"],
    )


def _formulas(draw: random.Random) -> dict:
    wanted, (left, sign, right) = draw.choice(list(FORMULAS.items()))
    a, b = draw.randint(2, 12), draw.randint(2, 12)
    value, a = (a * b, a) if sign == "*" else (a, a * b)
    other = draw.choice([name for name in FORMULAS if name not in (wanted, left, right)])
    facts = [f"The {left} is {a}", f"The {right} is {b}", f"The {other} is {draw.randint(2, 12)}"]
    options, letter = _choose(draw, str(value), _near(draw, value))
    rule, found = f"{wanted} = {left} {sign} {right}", f"= {a} {sign} {b} = {value}"
    question = f"{' . '.join(draw.sample(facts, 3))} . What is the {wanted} ? {options}"
    return _row(
        question,
        {rule: [f"What is the {wanted}"], found: [rule, *facts[:2]]},
        letter,
        f"Answer : {letter}",
        [found, f"( {letter} ) {value}"],
    )


def _kinds(draw: random.Random) -> dict:
    kinds, colours, pet = draw.sample(CREATURES, 4), draw.sample(COLOURS, 4), draw.choice(PETS)
    facts = [
        f"{pet} is a {kinds[0]}",
        f"Every {kinds[0]} is a {kinds[1]}",
        f"Every {kinds[1]} is {colours[0]}",
    ]
    others = [f"Every {kind} is {colour}" for kind, colour in zip(kinds[2:], colours[1:], strict=False)]
    options, letter = _choose(draw, colours[0], colours[1:])
    steps = {f"{pet} is a {kinds[1]}": facts[:2]}
    steps[f"{pet} is {colours[0]}"] = [*steps, facts[2]]
    return _row(
        f"{' . '.join(draw.sample([*facts, *others], 5))} . What is {pet} ? {options}",
        steps,
        letter,
        f"Answer : {letter}",
        [f"{pet} is {colours[0]}", f"( {letter} ) {colours[0]}"],
    )


def _systems(draw: random.Random) -> dict:
    x, y = draw.randint(1, 40), draw.randint(1, 40)
    facts = [f"x + y = {x + y}", f"x - y = {x - y}"]
    options, letter = _choose(draw, str(x), _near(draw, x))
    double, found = f"2 * x = {x + y} + {x - y} = {2 * x}", f"x = {2 * x} / 2 = {x}"
    question = f"{facts[0]} and {facts[1]} . What is x ? {options}"
    return _row(
        question, {double: facts, found: [double]}, letter, f"Answer : {letter}", [found, f"( {letter} ) {x}"]
    )


_MAKERS: dict[str, Callable[[random.Random], dict]] = {
    "purchases": _purchases,
    "equations": _equations,
    "ordering": _ordering,
    "formulas": _formulas,
    "kinds": _kinds,
    "systems": _systems,
}


def find(concept: str, text: str) -> list[tuple[int, int]]:
    """(first character, end) of every place of a concept in a text: "5" is not found in "53" or "5.2"."""
    before = r"(?<![\w.])" if concept[:1].isalnum() else ""
    after = r"(?![\w]|\.\d)" if concept[-1:].isalnum() else ""
    pattern = before + re.escape(concept) + after
    return [found.span() for found in re.finditer(pattern, text)] if concept else []


def draw_row(task: str, draw: random.Random) -> dict:
    """One row of a task of SYNTHETIC as generate() gives them, whether or not its concepts stand once."""
    return _MAKERS[task](draw)


@counted(n=0)
def generate(task: str, n: int, seed: int = 0) -> list[dict]:
    """`n` different rows of a task of SYNTHETIC: prompt, response, answer, graph {effect: [causes]}.

    Every concept of a row stands exactly once in its prompt and response joined by a space. DataError on
    another task, or if so many rows are not found.
    """
    if task not in SYNTHETIC:
        raise DataError(f"Unknown synthetic task {task!r}; choose one of {', '.join(SYNTHETIC)}.")
    draw, found = random.Random(f"{task} {seed}"), {}
    for _ in range(20 * n + 100):
        if len(found) == n:
            break
        row = draw_row(task, draw)
        text = f"{row['prompt']} {row['response']}"
        concepts = {*row["graph"], *(cause for causes in row["graph"].values() for cause in causes)}
        if all(text.count(concept) == 1 or len(find(concept, text)) == 1 for concept in concepts):
            found.setdefault(row["prompt"], row)
    if n < 1 or len(found) < n:
        raise DataError(
            f"{n} different rows of {task!r} were not found: ask for at least one, and for fewer "
            f"than {max(2, len(found)):,}."
        )
    return list(found.values())


def check(task: str, response: str, answer: str) -> bool:
    """Whether a response to a task of KINDS gives the answer on record; DataError on another task."""
    if task not in KINDS:
        raise DataError(f"Unknown reasoning task {task!r}; choose one of {', '.join(KINDS)}.")
    return answers.check(KINDS[task], response, answer)


def _gsm8k(row: dict) -> dict:
    return {"prompt": row["question"], "response": row["answer"], "answer": row["answer"].split("#### ")[1]}


def _math500(row: dict) -> dict:
    return {"prompt": row["problem"], "response": row["solution"], "answer": row["answer"]}


def _sat(row: dict) -> dict:
    question = "\n".join(filter(None, (row["passage"], row["question"], *row["options"])))
    return {"prompt": question, "response": row["other"]["solution"], "answer": row["label"]}


def _arc_c(row: dict) -> dict:
    return {
        "prompt": row["instruction"],
        "response": row["output"],
        "answer": _LETTERS[int(row["answer"].removeprefix("answer")) - 1],
    }


_READERS: dict[str, Callable[[dict], dict]] = {
    "gsm8k": _gsm8k,
    "math500": _math500,
    "sat": _sat,
    "arc_c": _arc_c,
}


def parse(task: str, text: str, source: str) -> list[dict]:
    """Rows prompt, response, answer of a file of a task of REAL; DataError names `source` and the row."""
    if task not in REAL:
        raise DataError(f"Reasoning task {task!r} has no registered file; {', '.join(REAL)} have.")
    number, rows = 0, []
    try:
        raw = json.loads(text) if text.lstrip().startswith("[") else map(json.loads, StringIO(text))
        for number, row in enumerate(raw, 1):  # noqa: B007  (named in the error)
            rows.append(_READERS[task](row))
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(
            f"{source}, row {number + (len(rows) == number)}: this is no row of {task} "
            f"({type(error).__name__}); take a fresh copy of the file."
        ) from None
    return rows


def annotations(name: str) -> list[dict]:  # type: ignore[no-redef]
    """Rows prompt, response, graph of a file of ANNOTATED: causes that a language model named, as they are.

    Effects that come several times have their causes joined; entries that are no {effect: [causes]} are left
    out and counted in `malformed`. DataError on another name.
    """
    if name not in ANNOTATED:
        raise DataError(f"Unknown annotated file {name!r}; choose one of {', '.join(ANNOTATED)}.")
    source, rows = f"cat_annotated/{name}.jsonl", []
    for line in StringIO(files.read(source).decode()):  # not splitlines, which cuts at U+2028
        row, graph, malformed = json.loads(line), {}, 0
        for effect, causes in (pair for entry in row["important"] for pair in entry.items()):
            if isinstance(causes, list):
                graph[effect] = list(dict.fromkeys([*graph.get(effect, ()), *causes]))
            else:
                malformed += 1
        rows.append(
            {"prompt": row["input"], "response": row["target"], "graph": graph, "malformed": malformed}
        )
    return rows


def _from_hub(task: str, seed: int) -> dict[str, list[dict]]:
    from datasets import load_dataset

    home, part = HUB[task]
    data = load_dataset(home, part) if part else load_dataset(home)
    draw = random.Random(seed)

    def row(raw: dict) -> dict:
        if task == "s1k":
            return {"prompt": raw["question"], "response": raw["deepseek_attempt"], "answer": raw["solution"]}
        if task == "gpqa":
            options = [raw["Correct Answer"], *(raw[f"Incorrect Answer {i}"] for i in (1, 2, 3))]
            draw.shuffle(options)
            question, letter = raw["Question"], _LETTERS[options.index(raw["Correct Answer"])]
        else:
            question, options, letter = raw["question"], raw["choices"], _LETTERS[int(raw["answer"])]
        said = "\n".join(
            [question, *(f"({name}) {option}" for name, option in zip(_LETTERS, options, strict=False))]
        )
        return {"prompt": said, "response": f"The answer is ({letter}).", "answer": letter}

    try:
        return {
            "train" if task == "s1k" else "test": [
                row(raw) for raw in data["test" if task == "mmlu_stem" else "train"]
            ]
        }
    except KeyError as error:
        raise DataError(
            f"{home} has no {error}: its columns have changed, so adapt causalnb.tasks.reasoning to them."
        ) from None


@counted(n_train=0, n_test=0)
def load(task: str = "purchases", n_train: int = 2000, n_test: int = 500, seed: int = 0) -> DatasetDict:
    """DatasetDict with columns prompt, response, answer, graph (JSON, {} where nobody named concepts).

    A task of SYNTHETIC has train and test, drawn with `seed` and disjoint; REAL has the published parts, from
    checked files; HUB is downloaded from the Hugging Face hub, options in an order drawn with `seed`.
    """
    from datasets import Dataset, DatasetDict

    if task in SYNTHETIC:
        rows = generate(task, n_train + n_test, seed)
        parts = {"train": rows[:n_train], "test": rows[n_train:]}
    elif task in REAL:
        parts = {part: parse(task, files.read(name).decode(), name) for part, name in _FILES[task].items()}
    elif task in HUB:
        parts = _from_hub(task, seed)
    else:
        raise DataError(
            f"Unknown reasoning task {task!r}; choose one of {', '.join((*SYNTHETIC, *REAL, *HUB))}."
        )
    return DatasetDict(
        {
            part: Dataset.from_dict(
                {
                    **{column: [row[column] for row in rows] for column in ("prompt", "response", "answer")},
                    "graph": [json.dumps(row.get("graph", {})) for row in rows],
                }
            )
            for part, rows in parts.items()
        }
    )
