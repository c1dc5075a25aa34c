"""Entailment where word overlap misleads: templates in the thirty subcases of HANS (McCoy et al. 2019).

In training the words of a hypothesis all stand in the premise when it is entailed, and when it is not one or
more of them are new, but for a `minority` of counter-examples. The challenge is balanced: every hypothesis is
made of the words of its premise (heuristic lexical_overlap), is a part of it (subsequence), or is a clause of
it (constituent), and half of them do not follow.

Templates and words are ours; the names are those of HANS. In a template N is a noun, P one in the plural,
T a transitive verb, Z one that needs no object, I an intransitive one, Q a verb before a person or a clause,
V and K verbs before "that", K only if it is true; L a preposition, C a place, A an adjective; F if, S since,
W after, B perhaps, E certainly, each in several words. The number tells two of a kind apart.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from causalnb.errors import DataError
from causalnb.tasks import sentence_pairs
from causalnb.tasks.counts import counted
from causalnb.tasks.sentence_pairs import FAMILIES

if TYPE_CHECKING:
    from datasets import DatasetDict

LABELS = ("entailment", "non-entailment")
HEURISTICS = {"l": "lexical_overlap", "s": "subsequence", "c": "constituent"}  # by the first letter
SOURCES = ("generator", "hans")
WORDS = {
    kind: tuple(said.split())
    for kind, said in {
        "N": "pilot farmer baker nurse painter singer guard sailor poet teacher plumber tailor miner "
        "gardener dancer driver waiter barber hunter clerk writer engineer dentist butcher carpenter florist "
        "musician librarian courier chemist surgeon jeweler potter weaver janitor cook curator editor "
        "broker captain",
        "T": "admired advised avoided blamed contacted comforted encouraged greeted helped ignored "
        "interrupted invited noticed praised recognized rescued supported thanked trusted visited warned "
        "watched welcomed amused annoyed defended escorted flattered hugged mocked",
        "Z": "called phoned painted sketched filmed coached served taught paid followed interviewed "
        "photographed",
        "I": "slept laughed waited danced resigned smiled arrived shouted hesitated coughed complained "
        "yawned sneezed wept fainted knelt returned giggled shivered vanished",
        "Q": "believed feared doubted understood expected suspected heard accepted",
        "V": "hoped claimed said thought assumed argued insisted guessed",
        "K": "knew realized learned discovered forgot regretted remembered",
        "L": "near behind beside opposite",
        "C": "garden market station kitchen theater museum harbor hotel stadium chapel",
        "A": "happy tired young clever quiet angry proud nervous lazy polite brave careful honest lonely "
        "rich famous",
        "F": "if unless",
        "S": "since because",
        "W": "after before while when",
        "B": "perhaps maybe supposedly allegedly probably hopefully",
        "E": "certainly clearly obviously undoubtedly luckily sadly",
    }.items()
}
CONTENT = "NTZIQVKCA"  # kinds new words can be of, in a hypothesis that is not entailed

_SLOT = re.compile(r"([A-Z])\d")
# subcase: templates of each of FAMILIES, with | between them; premise => hypothesis
_TEMPLATES = {
    "ln_subject/object_swap": """
        the N1 T1 the N2 => the N2 T1 the N1
        |
        the N1 T1 the N2 in the C1 => the N2 T1 the N1 in the C1
        |
        the A1 N1 T1 the N2 => the N2 T1 the A1 N1
        in the C1 , the N1 T1 the N2 => in the C1 , the N2 T1 the N1""",
    "ln_preposition": """
        the N1 L1 the N2 T1 the N3 => the N3 T1 the N2
        the N1 T1 the N2 L1 the N3 => the N3 T1 the N2
        |
        the N1 T1 the N2 L1 the N3 => the N1 T1 the N3
        |
        the N1 L1 the N2 T1 the N3 in the C1 => the N3 T1 the N2
        the N1 T1 the A1 N2 L1 the N3 => the N3 T1 the A1 N2""",
    "ln_relative_clause": """
        the N1 that the N2 T1 T2 the N3 => the N1 T1 the N2
        the N1 that T1 the N2 T2 the N3 => the N3 T2 the N2
        the N1 T1 the N2 that T2 the N3 => the N3 T2 the N2
        |
        the N1 T1 the N2 that the N3 T2 => the N2 T2 the N3
        |
        the N1 that T1 the N2 was1 T2 by the N3 => the N3 T1 the N2
        the N1 that the N2 T1 was1 T2 by the N3 => the N1 T1 the N2""",
    "ln_passive": """
        the N1 was1 T1 by the N2 => the N1 T1 the N2
        |
        the N1 that I1 was1 T1 by the N2 => the N1 T1 the N2
        |
        the A1 N1 was1 T1 by the N2 => the A1 N1 T1 the N2
        in the C1 , the N1 was1 T1 by the N2 => the N1 T1 the N2""",
    "ln_conjunction": """
        the N1 and the N2 T1 the N3 => the N1 T1 the N2
        the N1 T1 the N2 and the N3 => the N2 T1 the N3
        |
        the N1 I1 , and the N2 T1 the N3 => the N1 T1 the N3
        |
        the N1 and the N2 T1 the N3 in the C1 => the N1 T1 the N2
        the N1 was1 T1 by the N2 and the N3 => the N3 T1 the N2""",
    "le_relative_clause": """
        the N1 that the N2 T1 T2 the N3 => the N2 T1 the N1
        the N1 T1 the N2 that the N3 T2 => the N3 T2 the N2
        |
        the N1 that the N2 T1 I1 => the N2 T1 the N1
        |
        the N1 that the N2 T1 was1 T2 by the N3 => the N2 T1 the N1
        in the C1 , the N1 T1 the N2 that the N3 T2 => the N3 T2 the N2""",
    "le_around_prepositional_phrase": """
        the N1 L1 the N2 T1 the N3 => the N1 T1 the N3
        the N1 L1 the N2 I1 => the N1 I1
        |
        the N1 L1 the N2 was1 T1 by the N3 => the N1 was1 T1 by the N3
        |
        the N1 L1 the N2 T1 the N3 in the C1 => the N1 T1 the N3
        the A1 N1 L1 the N2 I1 => the A1 N1 I1""",
    "le_around_relative_clause": """
        the N1 that T1 the N2 T2 the N3 => the N1 T2 the N3
        the N1 that the N2 T1 T2 the N3 => the N1 T2 the N3
        |
        the N1 that I1 T1 the N2 => the N1 T1 the N2
        |
        the N1 that T1 the N2 was1 T2 by the N3 => the N1 was1 T2 by the N3
        the A1 N1 that the N2 T1 I1 => the A1 N1 I1""",
    "le_conjunction": """
        the N1 and the N2 T1 the N3 => the N1 T1 the N3
        the N1 T1 the N2 and the N3 => the N1 T1 the N3
        |
        the N1 T1 the N2 and T2 the N3 => the N1 T2 the N3
        |
        the N1 and the N2 T1 the N3 in the C1 => the N1 T1 the N3
        the N1 was1 T1 by the N2 and the N3 => the N1 was1 T1 by the N3""",
    "le_passive": """
        the N1 was1 T1 by the N2 => the N2 T1 the N1
        |
        the N1 that I1 was1 T1 by the N2 => the N2 T1 the N1
        |
        the A1 N1 was1 T1 by the N2 => the N2 T1 the A1 N1
        in the C1 , the N1 was1 T1 by the N2 => the N2 T1 the N1""",
    "sn_NP/S": """
        the N1 Q1 the N2 T1 the N3 => the N1 Q1 the N2
        the N1 Q1 the N2 I1 => the N1 Q1 the N2
        |
        the N1 Q1 the N2 was2 T1 by the N3 => the N1 Q1 the N2
        |
        the A1 N1 Q1 the N2 T1 the N3 => the A1 N1 Q1 the N2
        the N1 Q1 the N2 L1 the N3 I1 => the N1 Q1 the N2""",
    "sn_PP_on_subject": """
        the N1 L1 the N2 T1 the N3 => the N2 T1 the N3
        the N1 L1 the N2 I1 => the N2 I1
        |
        the N1 L1 the N2 L2 the N3 T1 the N4 => the N3 T1 the N4
        |
        the N1 L1 the N2 T1 the N3 in the C1 => the N2 T1 the N3
        the A1 N1 L1 the N2 I1 => the N2 I1""",
    "sn_relative_clause_on_subject": """
        the N1 that T1 the N2 T2 the N3 => the N2 T2 the N3
        the N1 that T1 the N2 I1 => the N2 I1
        |
        the N1 that was1 T1 by the N2 T2 the N3 => the N2 T2 the N3
        |
        the N1 that T1 the N2 T2 the N3 in the C1 => the N2 T2 the N3
        the A1 N1 that T1 the N2 I1 => the N2 I1""",
    "sn_past_participle": """
        the N1 Z1 in the C1 I1 => the N1 Z1 in the C1
        the N1 Z1 in the C1 T1 the N2 => the N1 Z1 in the C1
        |
        the N1 T1 the N2 Z1 in the C1 => the N2 Z1 in the C1
        |
        the A1 N1 Z1 in the C1 I1 => the A1 N1 Z1 in the C1
        the N1 Z1 in the C1 was1 T1 by the N2 => the N1 Z1 in the C1""",
    "sn_NP/Z": """
        W1 the N1 Z1 the N2 I1 => the N1 Z1 the N2
        W1 the N1 Z1 the N2 T1 the N3 => the N1 Z1 the N2
        |
        W1 the N1 Z1 the N2 was2 T1 by the N3 => the N1 Z1 the N2
        |
        W1 the A1 N1 Z1 the N2 I1 => the A1 N1 Z1 the N2
        W1 the N1 Z1 the N2 L1 the N3 I1 => the N1 Z1 the N2""",
    "se_conjunction": """
        the N1 T1 the N2 and the N3 => the N1 T1 the N2
        the N1 and the N2 T1 the N3 => the N2 T1 the N3
        |
        the N1 T1 the N2 and I1 => the N1 T1 the N2
        |
        the N1 and the N2 T1 the N3 in the C1 => the N2 T1 the N3
        the N1 was1 T1 by the N2 and the N3 => the N1 was1 T1 by the N2""",
    "se_adjective": """
        A1 P1 T1 the N2 => P1 T1 the N2
        A1 P1 I1 => P1 I1
        |
        A1 P1 L1 the N2 I1 => P1 L1 the N2 I1
        |
        A1 P1 T1 the N2 in the C1 => P1 T1 the N2 in the C1
        A1 P1 was1 T1 by the N2 => P1 was1 T1 by the N2""",
    "se_understood_object": """
        the N1 Z1 the N2 => the N1 Z1
        |
        the N1 Z1 the N2 that I1 => the N1 Z1
        |
        the A1 N1 Z1 the N2 => the A1 N1 Z1
        the N1 Z1 the N2 in the C1 => the N1 Z1""",
    "se_relative_clause_on_obj": """
        the N1 T1 the N2 that T2 the N3 => the N1 T1 the N2
        the N1 T1 the N2 that the N3 T2 => the N1 T1 the N2
        |
        the N1 T1 the N2 that was2 T2 by the N3 => the N1 T1 the N2
        |
        the A1 N1 T1 the N2 that T2 the N3 => the A1 N1 T1 the N2
        in the C1 , the N1 T1 the N2 that the N3 T2 => the N1 T1 the N2""",
    "se_PP_on_obj": """
        the N1 T1 the N2 L1 the N3 => the N1 T1 the N2
        |
        the N1 T1 the N2 L1 the N3 that I1 => the N1 T1 the N2
        |
        the N1 T1 the A1 N2 L1 the N3 => the N1 T1 the A1 N2
        in the C1 , the N1 T1 the N2 L1 the N3 => the N1 T1 the N2""",
    "cn_embedded_under_if": """
        F1 the N1 I1 , the N2 T1 the N3 => the N1 I1
        F1 the N1 T1 the N2 , the N3 I1 => the N1 T1 the N2
        |
        the N1 T1 the N2 F1 the N3 I1 => the N3 I1
        |
        F1 the A1 N1 I1 , the N2 T1 the N3 => the A1 N1 I1
        F1 the N1 was1 T1 by the N2 , the N3 I1 => the N1 was1 T1 by the N2""",
    "cn_after_if_clause": """
        F1 the N1 I1 , the N2 T1 the N3 => the N2 T1 the N3
        F1 the N1 T1 the N2 , the N3 I1 => the N3 I1
        |
        F1 the N1 I1 and the N2 I2 , the N3 T1 the N4 => the N3 T1 the N4
        |
        F1 the A1 N1 I1 , the N2 T1 the N3 => the N2 T1 the N3
        F1 the N1 was1 T1 by the N2 , the N3 I1 => the N3 I1""",
    "cn_embedded_under_verb": """
        the N1 V1 that the N2 T1 the N3 => the N2 T1 the N3
        the N1 V1 that the N2 I1 => the N2 I1
        |
        the N1 L1 the N2 V1 that the N3 I1 => the N3 I1
        |
        the A1 N1 V1 that the N2 I1 => the N2 I1
        the N1 V1 that the N2 was2 T1 by the N3 => the N2 was2 T1 by the N3""",
    "cn_disjunction": """
        the N1 I1 , or the N2 T1 the N3 => the N1 I1
        the N1 I1 , or the N2 T1 the N3 => the N2 T1 the N3
        |
        the N1 I1 , the N2 I2 , or the N3 I3 => the N2 I2
        |
        the N1 T1 the N2 , or the N3 I1 => the N1 T1 the N2
        the N1 I1 , or the N2 was2 T1 by the N3 => the N2 was2 T1 by the N3""",
    "cn_adverb": """
        B1 the N1 T1 the N2 => the N1 T1 the N2
        B1 the N1 I1 => the N1 I1
        |
        the N1 I1 , and B1 the N2 I2 => the N2 I2
        |
        B1 the A1 N1 I1 => the A1 N1 I1
        B1 the N1 was1 T1 by the N2 => the N1 was1 T1 by the N2""",
    "ce_embedded_under_since": """
        S1 the N1 I1 , the N2 T1 the N3 => the N1 I1
        S1 the N1 T1 the N2 , the N3 I1 => the N1 T1 the N2
        |
        the N1 T1 the N2 S1 the N3 I1 => the N3 I1
        |
        S1 the A1 N1 I1 , the N2 T1 the N3 => the A1 N1 I1
        S1 the N1 was1 T1 by the N2 , the N3 I1 => the N1 was1 T1 by the N2""",
    "ce_after_since_clause": """
        S1 the N1 I1 , the N2 T1 the N3 => the N2 T1 the N3
        S1 the N1 T1 the N2 , the N3 I1 => the N3 I1
        |
        S1 the N1 I1 and the N2 I2 , the N3 T1 the N4 => the N3 T1 the N4
        |
        S1 the A1 N1 I1 , the N2 T1 the N3 => the N2 T1 the N3
        S1 the N1 was1 T1 by the N2 , the N3 I1 => the N3 I1""",
    "ce_embedded_under_verb": """
        the N1 K1 that the N2 T1 the N3 => the N2 T1 the N3
        the N1 K1 that the N2 I1 => the N2 I1
        |
        the N1 L1 the N2 K1 that the N3 I1 => the N3 I1
        |
        the A1 N1 K1 that the N2 I1 => the N2 I1
        the N1 K1 that the N2 was2 T1 by the N3 => the N2 was2 T1 by the N3""",
    "ce_conjunction": """
        the N1 I1 , and the N2 T1 the N3 => the N1 I1
        the N1 I1 , and the N2 T1 the N3 => the N2 T1 the N3
        |
        the N1 I1 , the N2 I2 , and the N3 I3 => the N2 I2
        |
        the N1 T1 the N2 , and the N3 I1 => the N1 T1 the N2
        the N1 I1 , and the N2 was2 T1 by the N3 => the N2 was2 T1 by the N3""",
    "ce_adverb": """
        E1 the N1 T1 the N2 => the N1 T1 the N2
        E1 the N1 I1 => the N1 I1
        |
        the N1 I1 , and E1 the N2 I2 => the N2 I2
        |
        E1 the A1 N1 I1 => the A1 N1 I1
        E1 the N1 was1 T1 by the N2 => the N1 was1 T1 by the N2""",
}
SUBCASES = tuple(_TEMPLATES)  # in the order of HANS


@dataclass(frozen=True)
class Template:
    """A premise and a hypothesis with slots; the second letter of the subcase is "e" or "n", its label."""

    subcase: str
    name: str
    premise: str
    hypothesis: str

    @property
    def label(self) -> int:
        """0 entailment, 1 non-entailment."""
        return int(self.subcase[1] == "n")

    @cached_property
    def slots(self) -> dict[str, list[str]]:
        """{kind of word: its slots in the premise}; P counts as N, of which no two are alike."""
        found: dict[str, list[str]] = {}
        for slot in dict.fromkeys(self.premise.split()):
            if _SLOT.fullmatch(slot):
                found.setdefault(slot[0].replace("P", "N"), []).append(slot)
        return found


def templates(family: str = "main") -> list[Template]:
    """The templates of one of FAMILIES, subcase by subcase; DataError on another family."""
    if family not in FAMILIES:
        raise DataError(f"Unknown family {family!r} of templates; choose one of {', '.join(FAMILIES)}.")
    found = []
    for subcase, said in _TEMPLATES.items():
        lines = said.split("|")[FAMILIES.index(family)].strip().split("\n")
        for number, line in enumerate(lines, 1):
            found.append(Template(subcase, f"{family}{number}", *line.strip().split(" => ")))
    return found


def entailed(family: str = "main") -> dict[str, list[Template]]:
    """{premise: templates of what follows} for each premise of a family; itself where there is none."""
    known = templates(family)
    found = {
        one.premise: [two for two in known if two.premise == one.premise and not two.label] for one in known
    }
    return {
        premise: ways or [Template("identity", f"{family}{number}", premise, premise)]
        for number, (premise, ways) in enumerate(found.items(), 1)
    }


def _fill(template: Template, draw: random.Random) -> dict[str, str]:
    filled: dict[str, str] = {}
    for kind, slots in template.slots.items():
        filled |= zip(slots, draw.sample(WORDS[kind], len(slots)), strict=False)
    for slot in template.slots.get("N", ()):
        several = slot[0] == "P" or draw.random() < 0.5
        filled[slot] += "s" * several
        filled[f"was{slot[1]}"] = "were" if several else "was"
    return filled


def _renew(hypothesis: str, filled: dict[str, str], draw: random.Random) -> dict[str, str]:
    slots = [slot for slot in hypothesis.split() if slot[0].replace("P", "N") in CONTENT]
    said, changed = {word.removesuffix("s") for word in filled.values()}, dict(filled)
    for slot in draw.sample(slots, draw.randint(1, len(slots))):
        kind = slot[0].replace("P", "N")
        new = draw.choice([word for word in WORDS[kind] if word not in said])
        said.add(new)
        changed[slot] = new + "s" * (kind == "N" and filled[slot].endswith("s"))
    return changed


def _say(form: str, filled: dict[str, str]) -> str:
    said = " ".join(filled.get(token, token) for token in form.split()).replace(" ,", ",")
    return f"{said[0].upper()}{said[1:]}."


def _pair(template: Template, draw: random.Random, new_words: bool = False) -> dict:
    filled = _fill(template, draw)
    changed = _renew(template.hypothesis, filled, draw) if new_words else filled
    subcase = "new_words" if new_words else template.subcase
    return {
        "sentence1": _say(template.premise, filled),
        "sentence2": _say(template.hypothesis, changed),
        "label": 1 if new_words else template.label,
        "heuristic": HEURISTICS.get(subcase[0], "none"),
        "subcase": subcase,
        "template": template.name,
    }


@counted(per_subcase=0)
def challenge(
    per_subcase: int = 100, seed: int | str = 0, family: str = "main", seen: set[str] | None = None
) -> list[dict]:
    """Rows of all SUBCASES in order, `per_subcase` of each, half of them entailed; templates come in turn.

    `seen` has premises that may not come again, and takes up those drawn. DataError if there are too few.
    """
    draw, seen = random.Random(f"challenge {family} {seed}"), set() if seen is None else seen
    ways = {subcase: [one for one in templates(family) if one.subcase == subcase] for subcase in SUBCASES}
    return [
        sentence_pairs.fresh(lambda: _pair(ways[subcase][i % len(ways[subcase])], draw), seen)  # noqa: B023  (called at once)
        for subcase in SUBCASES
        for i in range(per_subcase)
    ]


@counted(n=0)
def pairs(
    n: int = 12_000,
    minority: float = 0.05,
    seed: int | str = 0,
    family: str = "main",
    seen: set[str] | None = None,
) -> list[dict]:
    """n shuffled rows in distribution: n // 2 entailed, and of those with full overlap `minority` are not.

    Counter-examples are as in the challenge; in all others that are not entailed one or more words are new
    (subcase new_words), in the templates of the entailed: every premise with what follows from it, or with
    itself (subcase identity). `seen` as challenge(). DataError if there are too few premises, or unless
    0 <= minority <= 0.5.
    """
    draw, seen = random.Random(f"pairs {family} {seed}"), set() if seen is None else seen
    ways, wrong = [*entailed(family).values()], [one for one in templates(family) if one.label]
    counter = sentence_pairs.counterexamples(n // 2, minority)
    kinds = ["entailed"] * (n // 2) + ["counter"] * counter + ["new"] * (n - n // 2 - counter)
    draw.shuffle(kinds)

    def make(kind: str) -> dict:
        if kind == "counter":
            return _pair(draw.choice(wrong), draw)
        return _pair(draw.choice(draw.choice(ways)), draw, kind == "new")

    return [sentence_pairs.fresh(lambda: make(kind), seen) for kind in kinds]  # noqa: B023  (called at once)


@counted(n_train=0, n_validation=0, n_test=0, per_subcase=0)
def load(
    source: str = "generator",
    n_train: int = 12_000,
    n_validation: int = 1000,
    n_test: int = 2000,
    per_subcase: int = 100,
    minority: float = 0.05,
    family: str = "main",
    seed: int = 0,
) -> DatasetDict:
    """DatasetDict with columns sentence1, sentence2, label, heuristic, subcase, template.

    train, validation and test are pairs(), challenge_train and challenge are challenge() of the same family;
    held_out, of the family "other", is there for "main" alone. No premise comes twice, and challenge and
    held_out depend on `seed` and family alone.
    source="hans" asks the hub for the published data: train and challenge, sentences and labels alone.
    DataError on other values.
    """
    sentence_pairs.check_source("overlap", source, SOURCES)
    if source == "hans":
        return sentence_pairs.from_hub(
            "jhu-cogsci/hans",
            None,
            {"train": "train", "challenge": "validation"},
            ("premise", "hypothesis"),
            LABELS,
        )
    sizes = {"train": n_train, "validation": n_validation, "test": n_test}
    return sentence_pairs.dataset(
        sentence_pairs.parts(challenge, per_subcase, pairs, sizes, minority, family, seed), LABELS
    )
