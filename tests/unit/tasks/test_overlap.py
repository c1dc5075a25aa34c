"""Template entailment: labels by a reader of our own, exact rates, no cue but overlap, no leak."""

import random
import re
from collections import Counter
from itertools import combinations, product
from pathlib import Path

import pytest

from causalnb.errors import DataError
from causalnb.tasks import load, overlap
from causalnb.tasks.sentence_pairs import overlap as share
from causalnb.tasks.sentence_pairs import words

CARD = Path(__file__).parents[3] / "data" / "README.md"
KIND = {word: kind for kind, said in overlap.WORDS.items() for word in said}
KIND |= {f"{word}s": "N" for word in overlap.WORDS["N"]} | {",": ",", ".": "."}


class Reading:
    """All ways to read a sentence: each way is what it asserts, a set of facts such as (verb, who, whom).

    What is only said, supposed or conditional is part of a fact and none by itself. Written from English, not
    from the templates: phrases by recursive descent, every way kept.
    """

    def __init__(self, sentence: str):
        self.tokens = re.findall(r"\w+|[,.]", sentence.lower())

    def kind(self, i: int) -> str:
        token = self.tokens[i] if i < len(self.tokens) else "."
        return KIND.get(token, token)

    def facts(self) -> list[frozenset]:
        return [facts for facts, end in self.sentence(0) if self.tokens[end:] == ["."]]

    def sentence(self, i):
        """Subordinate or main clauses, or "in the garden," and one; (facts, place after)."""
        if self.kind(i) in ("F", "S"):
            for (one, j), sure in product(list(self.clauses(i + 1)), [self.kind(i) == "S"]):
                if self.kind(j) == ",":
                    for two, k in self.clause(j + 1):
                        yield one | two if sure else frozenset({(self.tokens[i], one, two)}), k
        if self.kind(i) == "in" and self.kind(i + 3) == ",":
            for facts, j in self.clause(i + 4):
                yield facts | {("in", self.tokens[i + 2], *sorted(map(str, facts)))}, j
        if self.kind(i) == "W":
            for one, j in self.clause(i + 1):
                for two, k in self.clause(j):
                    yield one | two, k
        yield from self.clauses(i)

    def clauses(self, i):
        """One clause, or several with "and", "or", "if", "since" between them."""
        for one, j in self.clause(i):
            yield one, j
            middle = [(one, j, 1)]
            while middle:
                facts, at, n = middle.pop()
                comma = self.kind(at) == ","
                joint = self.kind(at + comma)
                for two, k in self.clause(at + comma + (joint in ("and", "or", "F", "S"))):
                    if joint in ("and", "S"):
                        yield facts | two, k
                    elif joint in ("or", "F"):
                        yield frozenset({(self.tokens[at + comma], facts, two)}), k
                    elif comma and n == 1:
                        middle.append((facts | two, k, 2))

    def clause(self, i):
        if self.kind(i) in ("B", "E"):
            for facts, j in self.clause(i + 1):
                yield facts if self.kind(i) == "E" else frozenset({(self.tokens[i], facts)}), j
        else:
            for heads, facts, j in self.person(i):
                for more, k in self.predicate(j, heads):
                    yield facts | more, k

    def person(self, i):
        """(heads, facts, place after) of "the happy pilot", "pilots", with what follows, and joined ones."""
        for heads, facts, j in self.one(i):
            yield heads, facts, j
            if self.kind(j) == "and":
                for more, others, k in self.one(j + 1):
                    yield heads + more, facts | others, k

    def one(self, i):
        bare = self.kind(i) != "the"
        i += not bare
        said = i
        while self.kind(i) == "A":
            i += 1
        if self.kind(i) != "N" or bare and not self.tokens[i].endswith("s"):
            return
        head = (self.tokens[i],)
        being = frozenset(("is", adjective, *head) for adjective in self.tokens[said:i])
        yield head, being, i + 1
        yield from ((head, being | facts, j) for facts, j in self.modifier(i + 1, head))

    def modifier(self, i, head):
        if self.kind(i) == "L":
            for others, facts, j in self.one(i + 1):
                yield facts | {(self.tokens[i], head[0], others[0])}, j
        if self.kind(i) == "Z" and self.kind(i + 1) == "in":
            done = (self.tokens[i], None, head[0])
            yield frozenset({done, ("in", self.tokens[i + 3], str(done))}), i + 4
        if self.kind(i) == "that":
            yield from self.predicate(i + 1, head)
            for who, facts, j in self.one(i + 1):
                if self.kind(j) == "T":
                    yield facts | {(self.tokens[j], one, head[0]) for one in who}, j + 1

    def predicate(self, i, who):
        for facts, j in self.verb(i, who):
            yield facts, j
            if self.kind(j) == "and":
                for more, k in self.verb(j + 1, who):
                    yield facts | more, k

    def verb(self, i, who):
        for facts, j in self.plain(i, who):
            yield facts, j
            if self.kind(j) == "in" and self.kind(j + 2) == "C":
                yield facts | {("in", self.tokens[j + 2], *sorted(map(str, facts)))}, j + 3

    def plain(self, i, who):
        kind, said = self.kind(i), self.tokens[i] if i < len(self.tokens) else "."
        alone = frozenset((said, one, None) for one in who)
        if kind in ("I", "Z"):
            yield alone, i + 1
        if kind in ("T", "Z", "Q"):
            for whom, facts, j in self.person(i + 1):
                done = {(said, a, b) for a in who for b in whom}
                yield facts | done | (alone if kind == "Z" else set()), j
        if kind == "Q":
            yield from ((frozenset((said, one, facts) for one in who), j) for facts, j in self.clause(i + 1))
        if kind in ("V", "K") and self.kind(i + 1) == "that":
            for facts, j in self.clause(i + 2):
                yield frozenset((said, one, facts) for one in who) | (facts if kind == "K" else set()), j
        if kind in ("was", "were") and self.kind(i + 1) == "T" and self.kind(i + 2) == "by":
            for agents, facts, j in self.person(i + 3):
                yield facts | {(self.tokens[i + 1], a, b) for a in agents for b in who}, j


def follows(premise: str, hypothesis: str) -> bool:
    """Whether the hypothesis has a reading whose facts every reading of the premise asserts."""
    given, asked = Reading(premise).facts(), Reading(hypothesis).facts()
    assert given and asked, f"{premise} / {hypothesis} cannot be read"
    return any(all(facts <= known for known in given) for facts in asked)


def contiguous(row: dict) -> bool:
    return f" {' '.join(words(row['sentence2']))} " in f" {' '.join(words(row['sentence1']))} "


@pytest.fixture(scope="module")
def challenges():
    return {family: overlap.challenge(8, family=family) for family in overlap.FAMILIES}


@pytest.fixture(scope="module")
def data():
    return overlap.load(n_train=3000, n_validation=200, n_test=400, per_subcase=10, minority=0.05, seed=1)


def test_the_reader_by_hand():
    assert follows("The pilot near the bakers slept.", "The pilot slept.")
    assert not follows("The pilot near the bakers slept.", "The bakers slept.")
    assert follows("The pilot was hugged by the baker.", "The baker hugged the pilot.")
    assert not follows("If the pilot slept, the baker laughed.", "The baker laughed.")
    assert not follows("After the pilot paid the baker slept.", "The pilot paid the baker.")
    assert follows("After the pilot paid the baker slept.", "The baker slept.")
    assert follows("The happy pilot slept.", "The pilot slept.")
    assert not follows("The happy pilot hugged the baker.", "The pilot hugged the happy baker.")
    assert follows("In the garden, the pilot slept.", "The pilot slept in the garden.")
    assert not follows("In the garden, the pilot slept.", "The pilot slept in the market.")
    with pytest.raises(AssertionError, match="cannot be read"):
        follows("Baker slept.", "The baker slept.")
    with pytest.raises(AssertionError, match="cannot be read"):
        follows("The pilot the slept.", "The pilot slept.")


@pytest.mark.parametrize("family", overlap.FAMILIES)
def test_every_label_is_what_the_reader_finds(challenges, family):
    for row in challenges[family] + overlap.pairs(400, 0.2, seed=3, family=family):
        assert follows(row["sentence1"], row["sentence2"]) == (row["label"] == 0), row


def test_the_challenge_is_balanced_and_made_of_the_three_heuristics(challenges):
    assert len(overlap.SUBCASES) == 30 and len({*overlap.SUBCASES}) == 30
    for rows in challenges.values():
        assert Counter(row["subcase"] for row in rows) == dict.fromkeys(overlap.SUBCASES, 8)
        assert Counter((row["heuristic"], row["label"]) for row in rows) == {
            (name, label): 40 for name in overlap.HEURISTICS.values() for label in (0, 1)
        }
        for row in rows:
            assert share(row["sentence1"], row["sentence2"]) == 1
            assert contiguous(row) == (row["heuristic"] != "lexical_overlap"), row
            assert (row["label"] == 0) == (row["subcase"][1] == "e")


def test_no_noun_comes_twice_in_a_sentence(challenges, data):
    for row in [*(row for rows in challenges.values() for row in rows), *data["train"]]:
        for column in ("sentence1", "sentence2"):
            nouns = [
                word.removesuffix("s")
                for word in words(row[column])
                if word.removesuffix("s") in overlap.WORDS["N"]
            ]
            assert len(nouns) == len({*nouns})


def test_agreement_in_each_template():
    draw = random.Random(0)
    for one in (one for family in overlap.FAMILIES for one in overlap.templates(family)):
        for _ in range(5):
            filled = overlap._fill(one, draw)
            for slot, word in filled.items():
                if slot.startswith("was"):
                    noun = filled.get(f"N{slot[3]}") or filled[f"P{slot[3]}"]
                    assert noun.endswith("s") == (word == "were")
                if slot[0] == "P":
                    assert word.endswith("s")


def test_words_have_one_kind():
    said = [word for group in overlap.WORDS.values() for word in group]
    assert len(said) == len({*said}) and not any(word.endswith("s") for word in overlap.WORDS["N"])


@pytest.mark.parametrize(
    ("n", "minority", "counter"),
    [(2000, 0, 0), (2000, 0.01, 10), (2000, 0.05, 53), (2001, 0.2, 250), (2000, 0.5, 1000)],
)
def test_the_minority_is_exact(n, minority, counter):
    rows = overlap.pairs(n, minority)
    assert len(rows) == n and Counter(row["label"] for row in rows)[0] == n // 2
    full = [row for row in rows if share(row["sentence1"], row["sentence2"]) == 1]
    wrong = [row for row in full if row["label"]]
    assert len(wrong) == counter and abs(len(wrong) - minority * len(full)) <= 0.5
    assert {row["subcase"] for row in rows if row["label"] and row not in wrong} <= {"new_words"}
    assert all(row["subcase"] in overlap.SUBCASES for row in wrong)


def test_without_a_minority_nothing_but_overlap_tells_the_label():
    rows, many = overlap.pairs(6000, 0), []
    for row in rows:
        said = share(row["sentence1"], row["sentence2"])
        assert (said == 1) == (row["label"] == 0)
        new = {*words(row["sentence2"])} - {*words(row["sentence1"])}
        many.append(len(new))
        assert {KIND[word] for word in new} <= {*overlap.CONTENT}
    assert Counter(many)[0] == 3000 and min(Counter(many)[n] for n in (1, 2, 3)) > 300
    for column in ("sentence1", "sentence2"):
        shapes = {
            label: Counter(
                " ".join(KIND.get(word, word) for word in words(row[column]))
                for row in rows
                if row["label"] == label
            )
            for label in (0, 1)
        }
        assert {*shapes[0]} == {*shapes[1]}
        for shape, n in shapes[0].items():
            assert abs(n - shapes[1][shape]) < 5 * (n + shapes[1][shape]) ** 0.5, shape


def test_no_premise_is_in_two_parts_and_no_word_is_new(data):
    assert [*data] == ["train", "validation", "test", "challenge_train", "challenge", "held_out"]
    premises = [premise for part in data.values() for premise in part["sentence1"]]
    assert len(premises) == len({*premises}) == 3000 + 200 + 400 + 3 * 300
    known = {word for row in data["train"] for word in words(row["sentence1"])}
    for part in ("challenge", "held_out"):
        for row in data[part]:
            assert {*words(row["sentence1"])} <= known
    assert data["train"].features["label"].names == [*overlap.LABELS]


def families(part) -> set[str]:
    return {name.rstrip("0123456789") for name in part["template"]}


def test_families_have_different_templates(data):
    known = {family: overlap.templates(family) for family in overlap.FAMILIES}
    for one, two in combinations(known.values(), 2):
        assert not {(way.premise, way.hypothesis) for way in one} & {
            (way.premise, way.hypothesis) for way in two
        }
    tested = {way.premise for family in ("main", "other") for way in known[family]}
    assert not tested & {way.premise for way in known["development"]}
    for ways in known.values():
        assert {one.subcase for one in ways} == {*overlap.SUBCASES}
    counts = map(len, known.values())
    assert "- {} templates in the family main, {} in other, {} in development.".format(
        *counts
    ) in CARD.read_text(encoding="utf-8")
    assert families(data["held_out"]) == {"other"}
    assert families(data["train"]) == families(data["challenge"]) == {"main"}


def test_settings_can_be_chosen_without_a_look_at_the_tests():
    chosen = overlap.load(n_train=20, n_validation=4, n_test=4, per_subcase=1, family="development")
    assert [*chosen] == ["train", "validation", "test", "challenge_train", "challenge"]
    assert all(families(part) == {"development"} for part in chosen.values())


def test_seeds_and_what_does_not_depend_on_the_training_side(data):
    same = load("overlap", n_train=50, n_validation=200, n_test=30, per_subcase=10, minority=0, seed=1)
    assert same["challenge"][:] == data["challenge"][:] and same["held_out"][:] == data["held_out"][:]
    assert overlap.pairs(60, seed=4) == overlap.pairs(60, seed=4) != overlap.pairs(60, seed=5)
    assert overlap.challenge(1, seed=4) == overlap.challenge(1, seed=4) != overlap.challenge(1, seed=5)


def test_wrong_options_are_refused():
    with pytest.raises(DataError, match="Unknown family 'third' of templates; choose one of main, other"):
        overlap.load(family="third")
    with pytest.raises(DataError, match="minority of 0.6 cannot be had with balanced labels: give a share"):
        overlap.pairs(10, 0.6)
    with pytest.raises(DataError, match="Unknown source 'file' of overlap; choose one of generator, hans"):
        overlap.load("file")
    with pytest.raises(DataError, match="The part 'train' would have 0 rows"):
        overlap.load(n_train=0, n_validation=2, n_test=2, per_subcase=1)
