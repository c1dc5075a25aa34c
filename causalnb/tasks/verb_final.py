"""English in miniature, translated into a language of our own whose verbs come last.

    the dog near a bird chased every big cat   BIRD A NEAR DOG THE ga CAT BIG EVERY o CHASED
    a cat was chased by the big dog            DOG BIG THE ga CAT A o CHASED

Each word but `was` and `by` has one translation. A noun stands before its adjective and its determiner, and
behind a place or a clause that belongs to it; `ga` follows who acts and `o` who is acted on, in the passive
too, which the language lacks. Adverbs and places precede the verb, which ends its clause, and what joins two
clauses follows both.

Who learns which translation belongs to which word, and where the words go, translates a new noun or verb in
any sentence after one frame. The rows of `split` show each new word in its frame alone, and old words there,
too. `parse` gives the dependencies of a sentence in the form of spaCy's tokens; `while` and `because` join
clauses as `and` does, which is simpler than English.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from causalnb.errors import DataError
from causalnb.tasks import english
from causalnb.tasks.counts import counted

ACTS, ACTED_ON = "ga", "o"
TRANSLATED = {word: word.upper() for word in english.WORDS if word not in ("was", "by")}
SAID = (*TRANSLATED.values(), ACTS, ACTED_ON)
VOCABULARY = english.VOCABULARY | {word: len(english.VOCABULARY) + i for i, word in enumerate(SAID)}
POS = {
    "N": "NOUN",
    "A": "ADJ",
    "R": "ADV",
    "VI": "VERB",
    "VT": "VERB",
    "that": "PRON",
    "was": "AUX",
    "by": "ADP",
}
POS |= {
    word: name
    for words, name in (
        (english.DETERMINERS, "DET"),
        (english.PREPOSITIONS, "ADP"),
        (english.JOINTS, "CCONJ"),
    )
    for word in words
}
FRAMED = 40  # rows of each frame with old words


@dataclass(eq=False)
class Token:
    """A word of a sentence: its place, part of speech, relation and head, which is itself for the root."""

    i: int
    text: str
    pos_: str
    dep_: str = "ROOT"
    head: Token = None  # type: ignore[assignment]
    after: dict[str, Token] = field(default_factory=dict)  # its dependents by their relation

    def take(self, relation: str, token: Token) -> None:
        """Make a token a dependent."""
        token.dep_, token.head = relation, self
        self.after[relation] = token


def parse(sentence: str) -> list[Token]:
    """The words of a sentence of `english` with their dependencies; DataError for any other text."""
    form = english.structure(sentence).split()
    tokens = [
        Token(i, word, POS[part]) for i, (word, part) in enumerate(zip(sentence.split(), form, strict=True))
    ]
    for token in tokens:
        token.head = token
    _Parser(tokens, form).sentence()
    return tokens


class Parser:
    """`parse` as a pipeline of spaCy has it: what `structures_from_text` takes."""

    def pipe(self, texts: Iterable[str]) -> Iterator[list[Token]]:
        """The tokens of each text."""
        return map(parse, texts)


class _Parser:
    """Reads tokens from left to right; the grammar, which the caller has checked, never makes it go back."""

    def __init__(self, tokens: list[Token], form: list[str]):
        self.tokens, self.form, self.at = tokens, form, 0

    def next(self, *parts: str) -> Token | None:
        """The next token if it is one of these parts or words."""
        if self.at < len(self.form) and self.form[self.at] in parts:
            self.at += 1
            return self.tokens[self.at - 1]
        return None

    def word(self, *parts: str) -> Token:
        """The next token, which the grammar makes one of these parts or words."""
        token = self.next(*parts)
        assert token is not None, f"{self.form[self.at :]} does not begin with {parts}"
        return token

    def noun(self) -> Token:
        some, quality = self.next(*english.DETERMINERS), self.next("A")
        noun = self.word("N")
        for relation, token in (("det", some), ("amod", quality)):
            if token:
                noun.take(relation, token)
        return noun

    def place(self, head: Token) -> None:
        if near := self.next(*english.PREPOSITIONS):
            head.take("prep", near)
            near.take("pobj", self.noun())

    def subject(self) -> Token:
        noun = self.noun()
        self.place(noun)
        if that := self.next("that"):
            if self.form[self.at] in english.DETERMINERS:  # that the cat chased
                actor = self.noun()
                verb = self.word("VT")
                verb.take("nsubj", actor)
                verb.take("dobj", that)
            else:
                verb = self.word("VI", "VT")
                verb.take("nsubj", that)
                if english.CLASS[verb.text] == "VT":
                    verb.take("dobj", self.noun())
            noun.take("relcl", verb)
        return noun

    def predicate(self, subject: Token) -> Token:
        if was := self.next("was"):
            verb = self.word("VT")
            verb.take("nsubjpass", subject)
            verb.take("auxpass", was)
            by = self.word("by")
            verb.take("agent", by)
            by.take("pobj", self.noun())
            return verb
        verb = self.word("VI", "VT")
        verb.take("nsubj", subject)
        if english.CLASS[verb.text] == "VT":
            verb.take("dobj", self.noun())
        if how := self.next("R"):
            verb.take("advmod", how)
        self.place(verb)
        return verb

    def sentence(self) -> None:
        first = self.predicate(self.subject())
        if joint := self.next(*english.JOINTS):
            second = self.predicate(self.noun())
            first.take("conj", second)
            first.take("cc", joint)


def translate(sentence: str) -> str:
    """The translation of a sentence of `english`; DataError if it is none of its grammar's."""
    (root,) = (token for token in parse(sentence) if token.head is token)
    words = _clause(root)
    if "conj" in root.after:
        words += [*_clause(root.after["conj"]), _word(root.after["cc"])]
    return " ".join(words)


def _word(token: Token) -> str:
    return TRANSLATED[token.text]


def _noun(noun: Token) -> list[str]:
    before = []
    if verb := noun.after.get("relcl"):
        actor, other = verb.after["nsubj"], verb.after.get("dobj")
        before += [*_noun(actor), ACTS] if actor.text != "that" else []
        before += [*_noun(other), ACTED_ON] if other and other.text != "that" else []
        before += [_word(verb), TRANSLATED["that"]]
    return [
        *before,
        *_place(noun),
        *map(_word, [noun, *(noun.after[one] for one in ("amod", "det") if one in noun.after)]),
    ]


def _place(head: Token) -> list[str]:
    near = head.after.get("prep")
    return [*_noun(near.after["pobj"]), _word(near)] if near else []


def _clause(verb: Token) -> list[str]:
    if by := verb.after.get("agent"):
        actor, other = by.after["pobj"], verb.after.get("nsubjpass")
    else:
        actor, other = verb.after["nsubj"], verb.after.get("dobj")
    how = [_word(verb.after["advmod"])] if "advmod" in verb.after else []
    acted_on = [*_noun(other), ACTED_ON] if other else []
    return [*_noun(actor), ACTS, *acted_on, *how, *_place(verb), _word(verb)]


@counted(n_structures=1, contents=2)
def split(n_structures: int = 500, contents: int = 12, seed: int = 0) -> tuple[list[str], list[str]]:
    """(train, test) sentences: `english.split("new_words")` and, in the frames of new words, old ones.

    So an old word and a new one are seen in one structure, and the new one there alone; the test puts new
    words into all others.
    """
    train, test = english.split("new_words", n_structures, contents, seed)
    old = [text for form in english.FRAMES.values() for text in english.sentences(form, FRAMED, seed)]
    return train + old, test


def encode(sentence: str, translation: str) -> dict[str, list[int]]:
    """`<bos> sentence <sep> translation <eos>` as token ids: input_ids, prompt_mask and labels, lists (T,).

    DataError for a word that is not in VOCABULARY.
    """
    asked = ["<bos>", *sentence.split(), "<sep>"]
    words = [*asked, *translation.split(), "<eos>"]
    for word in words:
        if word not in VOCABULARY:
            raise DataError(
                f"Unknown word {word!r}: causalnb.tasks.verb_final.VOCABULARY has those that are known."
            )
    ids = [VOCABULARY[word] for word in words]
    return {
        "input_ids": ids,
        "prompt_mask": [1] * len(asked) + [0] * (len(ids) - len(asked)),
        "labels": [-100] * len(asked) + ids[len(asked) :],
    }
