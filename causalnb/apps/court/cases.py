"""The four tasks of the court, one for each part of the course: rows, what is told of them, and controls.

A case has training and development rows, which a method gets, and the tests, which it does not: `iid`, rows
like those of the training, and `challenge`, rows that only the right reason answers. `label` says what is
told of a training row: its group, structure or domain, each a text, or its graph, {answer: [its causes]}.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from causalnb.errors import LabError
from causalnb.lab.profiles import Profile, pick

Row = dict  # prompt, answer: words; told: what is told of it

FLOOR = 0.95  # of plain tuning i.i.d., below which nothing is compared
LETTERS = "abcdefghij"
HELD_OUT = 6  # pointers from here on are not shown in letters
ACTIONS = 12  # of the longest answer in compose
AGREE = 0.995  # of the adverbs of shortcut, in training
MANY = 32_000  # training rows of shortcut, of which so few say otherwise
ADVERBS = {"yes": ("clearly", "openly", "often", "gladly"), "no": ("hardly", "rarely", "never", "barely")}
SIZES = {  # rows: of training, of development, of each test
    "laptop": (8000, 200, 400),
    "quick": (96, 8, 8),
}


@dataclass(frozen=True)
class Case:
    """A task: how long a training is, its rows, and the rows of its controls.

    informed() gives the training rows of the plainest use of what is told, with told; placebo(seed) the
    training rows, what is told of each being another's, or a graph of what is no cause.
    """

    name: str
    part: str
    about: str
    label: str
    steps: int
    learning_rate: float
    batch_size: int
    train: list[Row]
    development: list[Row]
    iid: list[Row]
    challenge: list[Row]
    informed: Callable[[], list[Row]] = field(compare=False)
    placebo: Callable[[int], list[Row]] = field(compare=False)
    information: str = ""

    @property
    def words(self) -> list[str]:
        """All texts of the case, of which its vocabulary is made."""
        parts = (self.train, self.development, self.iid, self.challenge)
        return [f"{row['prompt']} {row['answer']}" for part in parts for row in part]


def _row(prompt: str, answer: str, told) -> Row:
    return {"prompt": prompt, "answer": answer, "told": told}


def balanced(rows: Sequence[Row]) -> list[Row]:
    """The rows, repeated so that each text that is told of them stands in as many."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row["told"], []).append(row)
    most = max(map(len, groups.values()))
    return [group[i % len(group)] for group in groups.values() for i in range(most)]


def permuted(rows: Sequence[Row], seed: int) -> list[Row]:
    """The rows, what is told of each being that of another one with as many words in prompt and answer."""
    draw, alike = random.Random(seed), {}
    for i, row in enumerate(rows):
        alike.setdefault((row["prompt"].count(" "), row["answer"].count(" ")), []).append(i)
    made = list(rows)
    for places in alike.values():
        for i, j in zip(places, draw.sample(places, len(places)), strict=True):
            made[i] = rows[i] | {"told": rows[j]["told"]}
    return made


def _strings(train: list[Row], informed: Callable[[], list[Row]]) -> dict:
    return {"informed": informed, "placebo": lambda seed: permuted(train, seed)}


def cued(n: int, seed: int, agree: float) -> list[Row]:
    """n pairs of sentences: does the second have the first one's subject and object, or are they swapped?

    Its adverb says so, too, and is right with probability `agree`. Told: the adverb's word, and the answer.
    """
    from causalnb.tasks.overlap import WORDS

    draw, made = random.Random(f"cued {seed}"), {}
    while len(made) < n:
        (one, two), verb = draw.sample(WORDS["N"], 2), draw.choice(WORDS["T"])
        answer = draw.choice(("yes", "no"))
        cue = answer if draw.random() < agree else {"yes": "no", "no": "yes"}[answer]
        first, second = (one, two) if answer == "yes" else (two, one)
        adverb = draw.choice(ADVERBS[cue])
        prompt = f"the {one} {verb} the {two} | the {first} {adverb} {verb} the {second}"
        made[prompt] = _row(prompt, answer, f"says {cue}, is {answer}")
    return list(made.values())


def shortcut(profile: str | Profile | None = None) -> Case:
    """Entailment by word order, where in training an adverb gives the answer away but for 0.5 % of the rows.

    In the challenge the adverb says nothing. Told: the group of a row, what its adverb says and its answer.
    """
    n, development, test = pick(profile, **SIZES | {"laptop": (MANY, *SIZES["laptop"][1:])})
    kinds = {
        "train": (n, AGREE),
        "held": (development, AGREE),
        "iid": (test, AGREE),
        "challenge": (test, 0.5),
    }
    data: dict[str, list[Row]] = {}
    for seed, (part, (number, agree)) in enumerate(kinds.items()):
        seen = {row["prompt"] for rows in data.values() for row in rows}
        rows = cued(2 * number + 8, seed, agree)
        data[part] = [row for row in rows if row["prompt"] not in seen][:number]
    train = data["train"]
    return Case(
        "shortcut",
        "1x",
        "entailment where an adverb misleads",
        "group",
        pick(profile, laptop=1500, quick=4),
        2e-3,
        pick(profile, laptop=64, quick=8),
        train,
        data["held"],
        data["iid"],
        data["challenge"],
        **_strings(train, lambda: balanced(train)),
        information="rows of each group equally often",
    )


def swapped_words(rows: Sequence[Row], seed: int = 0) -> list[Row]:
    """The rows, and each once more with a word swapped, as rows of one structure tell."""
    from causalnb.tasks import scan, swaps

    pairs = [(row["prompt"], row["answer"]) for row in rows]
    more = swaps.augmented(pairs, [row["told"] for row in rows], seed)
    return [*rows, *(_row(prompt, answer, scan.structure(prompt)) for prompt, answer in more)]


def compose(profile: str | Profile | None = None) -> Case:
    """SCAN's added verb: `jump` is known alone, and asked for in every structure. Told: the structure.

    Commands of at most ACTIONS actions; i.i.d. rows are commands without `jump` that were held out.
    """
    from causalnb.tasks import scan

    n, development, test = pick(profile, **SIZES)
    draw = random.Random(0)
    train, challenge = (
        [
            _row(command, actions, scan.structure(command))
            for command, actions in part
            if actions.count(" ") < ACTIONS
        ]
        for part in scan.split("add_prim_jump")
    )
    added = [row for row in train if row["prompt"] == "jump"]
    alone = [row for row in train if " " not in row["prompt"] and row["prompt"] != "jump"]
    others = [row for row in train if " " in row["prompt"]]
    draw.shuffle(others)
    held, iid, others = (
        others[:development],
        others[development : development + test],
        others[development + test :],
    )
    others = alone + others[:n]
    train = added[: -(-len(others) // 9)] + others  # the added verb is a tenth of the rows, as published
    return Case(
        "compose",
        "2x",
        "commands with a verb that was shown alone",
        "structure",
        pick(profile, laptop=1200, quick=4),
        3e-3,
        pick(profile, laptop=64, quick=8),
        train,
        held,
        iid,
        draw.sample(challenge, test),
        **_strings(train, lambda: swapped_words(train)),
        information="each row once more with a word swapped, as rows of its structure tell",
    )


def modules(profile: str | Profile | None = None) -> Case:
    """Pointer value retrieval in two notations, digits and letters; in letters not all pointers are shown.

    The challenge asks in letters for the pointers that only digits have shown. Told: the domain, a notation.
    """
    from causalnb.tasks import pvr

    n, development, test = pick(profile, **SIZES)

    def rows(number: int, seed: int, shifted: bool = False) -> list[Row]:
        made: list[Row] = []
        draw = random.Random(seed)
        for problem in pvr.generate(6 * number, seed, 1):
            letters = shifted or draw.random() < 0.5
            if len(made) == number or letters and (problem.query[0] >= HELD_OUT) != shifted:
                continue
            digits = [LETTERS[d] if letters else str(d) for d in (*problem.query, pvr.solve(problem.query))]
            made.append(_row(" ".join(digits[:-1]), digits[-1], "letters" if letters else "digits"))
        return made

    train = rows(n, 0)
    return Case(
        "modules",
        "3x",
        "pointers that one of two notations has not shown",
        "domain",
        pick(profile, laptop=1000, quick=4),
        3e-3,
        pick(profile, laptop=64, quick=8),
        train,
        rows(development, 1),
        rows(test, 2),
        rows(test, 3, True),
        **_strings(train, lambda: balanced(train)),
        information="rows of both domains equally often",
    )


def causes(profile: str | Profile | None = None) -> Case:
    """The spurious token game: three numbers decide a risk, three follow them, until the challenge.

    Told: the graph of a row, {answer: [its causes]}.
    """
    from causalnb.tasks import stg

    n, development, test = pick(profile, **SIZES)

    def rows(pairs: Sequence[tuple[str, str]], named: Sequence[str] = stg.CAUSES) -> list[Row]:
        made = []
        for prompt, answer in pairs:
            places = stg.spans(prompt, answer)
            causes = [prompt[slice(*places[name][1:])] for name in named]
            made.append(_row(prompt, answer, {answer: causes}))
        return made

    data = stg.generate(0, n, development + test, test)
    pairs = {part: [stg.compact(*pair) for pair in data[part]] for part in data}

    def placebo(seed: int) -> list[Row]:
        others = [name for name in stg.ATTRIBUTES if name not in stg.CAUSES]
        return rows(pairs["train"], random.Random(seed).sample(others, len(stg.CAUSES)))

    return Case(
        "causes",
        "4x",
        "a risk among numbers that follow its causes",
        "graph",
        pick(profile, laptop=2000, quick=4),
        1e-3,
        pick(profile, laptop=64, quick=8),
        rows(pairs["train"]),
        rows(pairs["test"][:development]),
        rows(pairs["test"][development:]),
        rows(pairs["ood"]),
        informed=lambda: rows(pairs["train"] + stg.swapped(pairs["train"], 1, 0)),
        placebo=placebo,
        information="each row once more with other numbers for what is no cause",
    )


CASES = {make.__name__: make for make in (shortcut, compose, modules, causes)}


def case(name: str, profile: str | Profile | None = None) -> Case:
    """The task of that name; LabError for another."""
    if name not in CASES:
        raise LabError(f"there is no task {name!r}: choose among {','.join(CASES)}.")
    return CASES[name](profile)
