"""SCAN (Lake and Baroni 2018): commands in a small language and the actions they stand for.

All 20,910 pairs and every published split come out of the grammar here, so nothing has to be downloaded:

    C -> S | S and S | S after S              [a and b] = [a][b]    [a after b] = [b][a]
    S -> V | V twice | V thrice               [V twice] = [V][V]    [V thrice] = [V][V][V]
    V -> U | X d | X opposite d | X around d  [X d] = TURN_d [X]    [X opposite d] = TURN_d TURN_d [X]
    X -> U | turn                             [X around d] = (TURN_d [X]) four times
    U -> walk | look | run | jump             [u] = I_U             [turn] = nothing
    d -> left | right
"""

from __future__ import annotations

import random
import re
from base64 import b64decode
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from causalnb.errors import DataError
from causalnb.tasks import files
from causalnb.tasks._scan_simple import TRAIN_BITS

if TYPE_CHECKING:
    from datasets import DatasetDict
    from transformers import PreTrainedTokenizerFast

Pair = tuple[str, str]

VERBS = ("walk", "look", "run", "jump")
DIRECTIONS = ("left", "right")
WORDS = (*VERBS, "turn", *DIRECTIONS, "opposite", "around", "twice", "thrice", "and", "after")
ACTIONS = (*(f"I_{verb.upper()}" for verb in VERBS), *(f"I_TURN_{d.upper()}" for d in DIRECTIONS))
SPECIALS = {
    "pad_token": "<pad>",
    "bos_token": "<bos>",
    "eos_token": "<eos>",
    "sep_token": "<sep>",
    "unk_token": "<unk>",
}
VOCABULARY = {token: i for i, token in enumerate((*SPECIALS.values(), *WORDS, *ACTIONS))}
LEVELS = ("verb", "verb_coindexed", "verb_direction")

_ADDED = {
    "add_prim_jump": "jump",
    "add_prim_turn_left": "turn left",
    "add_prim_walk": "walk",
    "add_prim_look": "look",
    "add_prim_run": "run",
}
_TEMPLATES = {
    "template_around_right": (VERBS, "around right"),
    "template_opposite_right": (VERBS, "opposite right"),
    "template_right": (VERBS, "right"),
    "template_jump_around_right": (("jump",), "around right"),
}
_FILES = {
    "simple": ("simple_split", "simple"),
    "length": ("length_split", "length"),
    "add_prim_jump": ("add_prim_split", "addprim_jump"),
    "add_prim_turn_left": ("add_prim_split", "addprim_turn_left"),
    "template_around_right": ("template_split", "template_around_right"),
}
PUBLISHED = ("simple", "length", "add_prim_jump", "add_prim_turn_left", *_TEMPLATES)
DEVELOPMENT = ("add_prim_walk", "add_prim_look", "add_prim_run")
SPLITS = (*PUBLISHED, *DEVELOPMENT)
_LONGEST_TRAIN = 22  # actions, length split


def parse(command: str) -> tuple:
    """Syntax tree, e.g. ("and", ("twice", ("left", ("jump",))), ("walk",)); DataError if there is none."""
    words = _words(command)
    tree, end = _command(words, 0)
    if end < len(words):
        raise DataError(
            f"{command!r} is not a SCAN command: {words[end]!r} cannot follow {words[end - 1]!r} "
            f"as word {end + 1}; at most one 'and' or 'after', a 'twice' or 'thrice' a side."
        )
    return tree


def _words(command: str, known: Iterable[str] = WORDS) -> list[str]:
    if not isinstance(command, str):
        raise DataError(f"A SCAN command is a text such as 'jump twice', got {command!r}.")
    words = command.split()
    for word in words:
        if word not in known:
            raise DataError(f"Unknown word {word!r} in {command!r}; SCAN knows {', '.join(known)}.")
    return words


def _expect(words: list[str], i: int, allowed: tuple[str, ...]) -> str:
    if i < len(words) and words[i] in allowed:
        return words[i]
    found = repr(words[i]) if i < len(words) else "the end"
    raise DataError(
        f"{' '.join(words)!r} is not a SCAN command: word {i + 1} must be one of "
        f"{', '.join(allowed)}, found {found}."
    )


def _at(words: list[str], i: int, allowed: tuple[str, ...]) -> bool:
    return i < len(words) and words[i] in allowed


def _command(words: list[str], i: int) -> tuple[tuple, int]:
    left, i = _repeated(words, i)
    if not _at(words, i, ("and", "after")):
        return left, i
    right, end = _repeated(words, i + 1)
    return (words[i], left, right), end


def _repeated(words: list[str], i: int) -> tuple[tuple, int]:
    tree, i = _phrase(words, i)
    return ((words[i], tree), i + 1) if _at(words, i, ("twice", "thrice")) else (tree, i)


def _phrase(words: list[str], i: int) -> tuple[tuple, int]:
    head = (_expect(words, i, (*VERBS, "turn")),)
    if _at(words, i + 1, ("opposite", "around")):
        return (words[i + 1], _expect(words, i + 2, DIRECTIONS), head), i + 3
    if head == ("turn",):
        _expect(words, i + 1, (*DIRECTIONS, "opposite", "around"))
    if _at(words, i + 1, DIRECTIONS):
        return (words[i + 1], head), i + 2
    return head, i + 1


def _meaning(tree: tuple) -> list[str]:  # type: ignore[return]
    match tree:
        case ("and", a, b):
            return _meaning(a) + _meaning(b)
        case ("after", a, b):
            return _meaning(b) + _meaning(a)
        case ("twice", a):
            return _meaning(a) * 2
        case ("thrice", a):
            return _meaning(a) * 3
        case ("opposite", direction, a):
            return [f"I_TURN_{direction.upper()}"] * 2 + _meaning(a)
        case ("around", direction, a):
            return ([f"I_TURN_{direction.upper()}"] + _meaning(a)) * 4
        case (direction, a):
            return [f"I_TURN_{direction.upper()}"] + _meaning(a)
        case (verb,):
            return [] if verb == "turn" else [f"I_{verb.upper()}"]


def interpret(command: str) -> str:
    """Actions of a command, "jump twice" -> "I_JUMP I_JUMP"; DataError on an unknown word or no parse."""
    return " ".join(_meaning(parse(command)))


@lru_cache(maxsize=1)
def _pairs() -> tuple[Pair, ...]:
    def phrase(head: str) -> list[Pair]:
        act = () if head == "turn" else (f"I_{head.upper()}",)
        plain = [(head, " ".join(act))] if act else []
        turned = [
            (f"{head} {how}{d}", " ".join(((f"I_TURN_{d.upper()}",) * turns + act) * times))
            for how, turns, times in (("", 1, 1), ("opposite ", 2, 1), ("around ", 1, 4))
            for d in DIRECTIONS
        ]
        return plain + turned

    phrases = [pair for head in (*VERBS, "turn") for pair in phrase(head)]  # 34
    repeated = [
        (command + suffix, " ".join([actions] * times))
        for command, actions in phrases
        for suffix, times in (("", 1), (" twice", 2), (" thrice", 3))
    ]  # 102
    joined = [
        (f"{a} {word} {b}", f"{x} {y}" if word == "and" else f"{y} {x}")
        for word in ("and", "after")
        for a, x in repeated
        for b, y in repeated
    ]  # 2 * 102 ** 2
    return tuple(repeated + joined)


def generate() -> list[Pair]:
    """All 20,910 (command, actions) pairs: S, then "S and S", then "S after S", in the grammar's order."""
    return list(_pairs())


def structure(command: str, level: str = "verb") -> str:
    """A command without its content; equal strings have the same structure.

    verb: walk, look, run, jump become _ (3,081 classes); verb_coindexed: A0 for the first verb, A1 for
    another one (3,963); verb_direction: directions become * as well (903). "turn" always stays: "turn left"
    and "walk left" differ in the shape of their actions. DataError on an unknown level, word, or no parse.
    """
    if level not in LEVELS:
        raise DataError(f"Unknown structure level {level!r}; choose one of {', '.join(LEVELS)}.")
    parse(command)
    seen: dict[str, str] = {}
    out = []
    for word in command.split():
        if word in VERBS:
            word = seen.setdefault(word, f"A{len(seen)}") if level == "verb_coindexed" else "_"
        elif word in DIRECTIONS and level == "verb_direction":
            word = "*"
        out.append(word)
    return " ".join(out)


@dataclass(frozen=True)
class Grammar:
    """What the guide calls `grammar`: extract_structure(text) at one of LEVELS."""

    level: str = "verb"

    def extract_structure(self, text: str) -> str:
        """structure(text, self.level)."""
        return structure(text, self.level)


def split(name: str, seed: int | None = None) -> tuple[list[Pair], list[Pair]]:
    """(train, test) of one of SPLITS: exactly the published rows, repeats included, with no file needed.

    In the order of generate(), an added primitive first: the shuffled order of the files is not kept, so that
    training is the same with and without them. The added primitive is repeated until it is a tenth of the
    training rows, as published. `seed` redraws "simple" (80/20), None is the published draw; the other splits
    are fixed. DataError on an unknown split or a seed without a meaning.
    """
    if name not in SPLITS:
        raise DataError(f"Unknown SCAN split {name!r}; choose one of {', '.join(SPLITS)}.")
    if seed is not None and (name != "simple" or not isinstance(seed, int) or seed < 0):
        raise DataError(
            f"Seed {seed!r} for SCAN split {name!r}: only 'simple' is a random draw, with an "
            f"integer >= 0; leave the seed out for the published split."
        )
    pairs = generate()
    if name == "simple":
        chosen = _published_draw()
        if seed is not None:
            chosen = set(random.Random(seed).sample(range(len(pairs)), len(chosen)))  # type: ignore[assignment]
        return (
            [p for i, p in enumerate(pairs) if i in chosen],
            [p for i, p in enumerate(pairs) if i not in chosen],
        )
    if name == "length":
        return (
            [p for p in pairs if _n_actions(p) <= _LONGEST_TRAIN],
            [p for p in pairs if _n_actions(p) > _LONGEST_TRAIN],
        )
    if name in _ADDED:
        primitive = _ADDED[name]
        test = [p for p in pairs if _has(primitive, p) and p[0] != primitive]
        rest = [p for p in pairs if not _has(primitive, p)]
        return [(primitive, interpret(primitive))] * (len(rest) // 9) + rest, test
    verbs, pattern = _TEMPLATES[name]
    pairs = [p for p in pairs if not _has(f"turn {pattern}", p)]
    held_out = f"(?:{'|'.join(verbs)}) {pattern}"
    return [p for p in pairs if not _has(held_out, p)], [p for p in pairs if _has(held_out, p)]


def _has(pattern: str, pair: Pair) -> bool:
    return re.search(rf"\b{pattern}\b", pair[0]) is not None


def _n_actions(pair: Pair) -> int:
    return pair[1].count(" ") + 1


@lru_cache(maxsize=1)
def _published_draw() -> frozenset[int]:
    bits = b64decode("".join(TRAIN_BITS.split()))
    return frozenset(i for i in range(len(_pairs())) if bits[i // 8] >> (i % 8) & 1)


def parse_lines(text: str, source: str) -> list[Pair]:
    """Pairs of lines "IN: <command> OUT: <actions>"; DataError names `source` and the line that differs."""
    pairs = []
    for number, line in enumerate(text.splitlines(), 1):
        found = re.fullmatch(r"IN: (\S.*?) OUT: (\S.*?)\s*", line)
        if not found:
            raise DataError(
                f"{source}, line {number}: expected 'IN: <command> OUT: <actions>', found "
                f"{line[:60]!r}; take a fresh copy of the file."
            )
        pairs.append((found[1], found[2]))
    return pairs


def file_names(name: str) -> tuple[str, str]:
    """Registry names of the published (train, test) files of a split; DataError if none are registered."""
    if name not in _FILES:
        raise DataError(
            f"SCAN split {name!r} has no registered file ({', '.join(_FILES)} have); use source='generator'."
        )
    folder, stem = _FILES[name]
    return f"scan/{folder}/tasks_train_{stem}.txt", f"scan/{folder}/tasks_test_{stem}.txt"


_split = split  # load() has an argument of this name


def load(
    split: str = "simple", source: str = "generator", seed: int | None = None, level: str = "verb"
) -> DatasetDict:
    """DatasetDict train/test with columns command, actions, structure (at `level`), n_actions.

    source="generator" needs nothing; "file" reads the published files, in their order. DataError on others.
    """
    from datasets import Dataset, DatasetDict

    if source == "generator":
        parts = _split(split, seed)
    elif source == "file" and seed is None:
        parts = tuple(parse_lines(files.read(name).decode(), name) for name in file_names(split))  # type: ignore[assignment]
    else:
        raise DataError(f"SCAN source {source!r} with seed {seed!r}: choose 'generator', or 'file' unseeded.")
    return DatasetDict(
        {
            part: Dataset.from_dict(
                {
                    "command": [command for command, _ in pairs],
                    "actions": [actions for _, actions in pairs],
                    "structure": [structure(command, level) for command, _ in pairs],
                    "n_actions": [_n_actions(pair) for pair in pairs],
                }
            )
            for part, pairs in zip(("train", "test"), parts, strict=False)
        }
    )


def tokenizer(padding_side: str = "right") -> PreTrainedTokenizerFast:
    """Word-level tokenizer over VOCABULARY (5 specials, 13 words, 6 actions); pads on "right" or "left"."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    core = Tokenizer(models.WordLevel(VOCABULARY, unk_token=SPECIALS["unk_token"]))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=core, padding_side=padding_side, clean_up_tokenization_spaces=False, **SPECIALS
    )


def encode(command: str, actions: str | None = None) -> dict[str, list[int]]:
    """Token ids of `<bos> command <sep>`, and with actions of `... actions <eos>`; all lists (T,).

    input_ids; prompt_mask, 1 up to and with <sep>; labels (with actions only), -100 on the prompt.
    DataError names a word that is not in the vocabulary, where a tokenizer would give <unk>.
    """
    prompt = ["<bos>", *_words(command), "<sep>"]
    answer = [] if actions is None else [*_words(actions, ACTIONS), "<eos>"]
    encoded = {
        "input_ids": [VOCABULARY[token] for token in prompt + answer],
        "prompt_mask": [1] * len(prompt) + [0] * len(answer),
    }
    if actions is not None:
        encoded["labels"] = [-100] * len(prompt) + encoded["input_ids"][len(prompt) :]
    return encoded
