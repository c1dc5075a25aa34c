"""ACRE and RAVEN as a pre-trained model reads them: the compact rows said in plain words.

    gray metal cube and red rubber sphere > on ; ... ? red rubber sphere >  on
    a medium cyan square rotated 45deg | ... ;                               a large cyan square rotated 0deg

One training has all true shifts of a family as its tests. ACRE: half of the objects, and views of one kind
(OnOffOff); `comp` asks about the other objects, `sys` shows views of the other kind. RAVEN: one entity in the
centre; `four` has up to four on a grid, `in_center` one inside another. Mirrored, for development, what the
shifts ask for is trained on, and the reverse asked for.
"""

import re
from collections.abc import Callable
from functools import cache

from causalnb.experiments.iclm.data import CELLS, FORMATS
from causalnb.lab.bases import Pretrained
from causalnb.lab.probes import scored
from causalnb.tasks import acre, icl_rows, raven

IID = "iid"
WORDS = {"acre": acre.WORDS + (icl_rows.SEPARATOR,), "raven": raven.WORDS}
OF_RAVEN = {  # cell -> the configuration that is drawn, by whether the shifts are mirrored
    False: {IID: "center", "four": "four", "in_center": "in_center"},
    True: {IID: "in_center", "center": "center"},
}


def cells(config: dict) -> tuple[str, ...]:
    """The cells that are scored, i.i.d. first."""
    return (IID, "comp", "sys") if config["family"] == "acre" else (*OF_RAVEN[config["mirrored"]],)


def problems(config: dict, cell: str, n: int, seed) -> list:
    """n problems of a cell, drawn; RAVEN's have balanced candidates, which alone say nothing."""
    mirrored = config["mirrored"]
    if config["family"] == "raven":
        configuration = CELLS["raven"][OF_RAVEN[mirrored][cell]]  # type: ignore[index]
        return raven.generate(configuration, n, seed, "balanced")
    objects = acre.TEST_OBJECTS if (cell == "comp") != mirrored else acre.TRAIN_OBJECTS
    return acre.generate("sys_true", n, seed, "test" if (cell == "sys") != mirrored else "train", objects)


def spoken(word: str) -> str:
    """A compact word as text: objects and places without their hyphens, `?` before what is asked."""
    plain = {icl_rows.SEPARATOR: "?"}.get(word, word)
    return " " + re.sub(r"(?<=[a-z])-(?=[a-z])", " ", plain)


def reader(base: Pretrained) -> Callable[[str], list[int]]:
    """The base's ids of a compact word, each word looked up once."""
    return cache(lambda word: base.ids(spoken(word)))


def encoded(base: Pretrained, read, words: list[str], wanted: list[bool], prompt: int, end: bool) -> dict:
    """A row of the base's ids: the prompt is what stands before the word of that number, labels are wanted.

    With `end` the text's end follows, as a label.
    """
    start = base.ids("", special=True)
    ids, mask, labels = list(start), [1] * len(start), [-100] * len(start)
    for at, (word, label) in enumerate(zip(words, wanted, strict=True)):
        tokens = read(word)
        ids += tokens
        mask += [int(at < prompt)] * len(tokens)
        labels += tokens if label else [-100] * len(tokens)
    if end:
        last = base.special("eos")
        ids, mask, labels = [*ids, last], [*mask, 0], [*labels, last]
    return {"input_ids": ids, "prompt_mask": mask, "labels": labels}


def routing(config: dict, format: str) -> dict:
    """What routes a row of a format: the router, or the module that is told."""
    if config["routed_by"] == "router":
        return {"routed": True}
    return {"module": FORMATS.index(format) if config["routed_by"] == "format" else 0}


def training_rows(config: dict, base: Pretrained, seed: int) -> list[dict]:
    """Rows of config's train_rows problems in each format, with labels on every word that can be deduced.

    A problem of ACRE asks for all of its objects and some groups; in RAVEN every panel is predicted.
    """
    drawn, read, made = problems(config, IID, config["train_rows"], [seed, 1]), reader(base), []
    for format in FORMATS:
        if config["family"] == "acre":
            rows = acre.rows(drawn, format, seed, dense=True)
        else:
            rows = raven.rows(drawn, format)
        for row in rows:
            prompt = icl_rows.prompt_length(row)
            one = encoded(base, read, row["words"], row["supervised"], prompt, config["family"] == "raven")
            made.append(one | routing(config, format))
    return made


def test_rows(config: dict, base: Pretrained, cell: str, n: int, seed: int) -> dict[str, list[list[dict]]]:
    """{format: one list of rows for each question about n problems of a cell}, labels on the answers.

    ACRE has a row for each of four queries, RAVEN one for each of a problem's eight candidates, the right one
    first.
    """
    drawn, read, made = problems(config, cell, n, seed), reader(base), {}
    for format in FORMATS:
        asked = []
        if config["family"] == "acre":
            for row in scored(acre.rows(drawn, format, seed)):
                prompt = icl_rows.prompt_length(row)
                asked.append([encoded(base, read, row["words"], row["answer"], prompt, False)])
        else:
            for row in scored(raven.rows(drawn, format)):
                prompt, (*options,) = icl_rows.prompt_length(row), row["candidates"]
                options.insert(0, options.pop(row["target"]))
                before, said = row["words"][:prompt], [False] * prompt
                asked.append(
                    [
                        encoded(base, read, before + words, said + [True] * len(words), prompt, True)
                        for words in options
                    ]
                )
        made[format] = [[row | routing(config, format) for row in rows] for rows in asked]
    return made
