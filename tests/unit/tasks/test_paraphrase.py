"""Template paraphrases: labels by a rule of our own, exact rates, no leak; the real PAWS-QQP."""

import os
import re
from collections import Counter
from pathlib import Path

import pytest

from causalnb.errors import DataError
from causalnb.tasks import files, paraphrase, sentence_pairs

needs_files = pytest.mark.skipif(
    not os.environ.get("CAUSALNB_DATA"), reason="needs CAUSALNB_DATA, a mirror of the data files"
)
# Where order matters:
DIRECTED = re.compile(r"\b(from|convert|outrun|than|find a|uses? \S+ in|attacks?|depends?)\b")
THINGS = {thing.lower() for known in paraphrase.THINGS.values() for thing in known}


def bag(sentence: str) -> Counter:
    return Counter(sentence_pairs.words(sentence))


def things(sentence: str) -> list[str]:
    return [word for word in sentence_pairs.words(sentence) if word in THINGS]


def says_the_same(row: dict) -> bool:
    """Read from the sentences: the same two things in the same order, or in any where none is needed."""
    one, two = things(row["sentence1"]), things(row["sentence2"])
    return one == two or sorted(one) == sorted(two) and not DIRECTED.search(row["sentence1"])


def end_of(sentence: str) -> tuple[str, bool]:
    """Which of ENDS a question has, and whether in front."""
    said = sentence.lower()
    (found,) = (
        (end, front)
        for end in paraphrase.ENDS
        for front, there in ((True, said.startswith(f"{end} ")), (False, said.endswith(f" {end}?")))
        if there
    )
    return found


def changes_place(row: dict) -> bool:
    """Whether the end stands on the other side in the second sentence."""
    (one, front), (other, front_of_other) = (end_of(row[name]) for name in ("sentence1", "sentence2"))
    return one == other and front != front_of_other


def by_place(rows: list[dict]) -> float:
    """What who calls a pair a paraphrase where its end changes place has right, of both labels alike."""
    right = {
        kind: [changes_place(row) == (row["label"] == 1) for row in rows if row["kind"] == kind]
        for kind in ("moved", "swapped")
    }
    return sum(sum(found) / len(found) for found in right.values()) / 2


@pytest.fixture(scope="module")
def data():
    return paraphrase.load(n_train=3000, n_validation=200, n_test=400, n_challenge=200, seed=1)


@pytest.mark.parametrize("family", paraphrase.FAMILIES)
def test_every_label_is_what_the_sentences_say(family):
    for row in paraphrase.challenge(400, family=family) + paraphrase.pairs(1000, 0.2, family=family):
        assert len(things(row["sentence1"])) == len({*things(row["sentence1"])}) == 2
        assert says_the_same(row) == (row["label"] == 1), row


@pytest.mark.parametrize("family", paraphrase.FAMILIES)
def test_questions_are_asked_in_different_ways(family):
    known = paraphrase.questions(family)
    assert Counter(one.symmetric for one in known)[True] == len(known) / 2
    for one in known:
        assert len({*one.ways}) == 3
        for way in one.ways:
            assert way.index("{0}") < way.index("{1}")
            assert bool(DIRECTED.search(way)) != one.symmetric


def test_the_families_share_no_way_of_asking():
    ways = [way for family in paraphrase.FAMILIES for one in paraphrase.questions(family) for way in one.ways]
    assert len(ways) == len({*ways})
    counts = [len(paraphrase.questions(family)) for family in paraphrase.FAMILIES]
    card = " ".join((Path(__file__).parents[3] / "data" / "README.md").read_text(encoding="utf-8").split())
    assert "{} questions in the family main, {} in other, {} in development;".format(*counts) in card


def test_the_challenge_is_balanced_and_of_the_same_words():
    rows = paraphrase.challenge(200)
    assert Counter(row["kind"] for row in rows) == {"swapped": 100, "moved": 50, "symmetric": 50}
    assert Counter(row["label"] for row in rows) == {0: 100, 1: 100}
    for row in rows:
        assert bag(row["sentence1"]) == bag(row["sentence2"]) and row["sentence1"] != row["sentence2"]


@pytest.mark.parametrize("minority", [0, 0.01, 0.05, 0.5])
def test_the_minority_is_exact(minority):
    rows = paraphrase.pairs(2000, minority)
    assert Counter(row["label"] for row in rows) == {0: 1000, 1: 1000}
    same = [row for row in rows if bag(row["sentence1"]) == bag(row["sentence2"])]
    assert {row["kind"] for row in same} <= {*paraphrase.SAME_WORDS} and len(same) > 500
    wrong = [row for row in same if not row["label"]]
    assert abs(len(wrong) - minority * len(same)) <= 0.5 and bool(wrong) == bool(minority)


def test_low_overlap_is_there_and_no_sentence_tells_the_label():
    rows = paraphrase.pairs(4000, 0)
    apart = [row for row in rows if sentence_pairs.overlap(row["sentence1"], row["sentence2"]) < 0.5]
    assert len(apart) > 500 and {row["kind"] for row in apart} == {"topic"}
    for column in ("sentence1", "sentence2"):
        begins = {
            label: Counter(row[column].split()[0] for row in rows if row["label"] == label)
            for label in (0, 1)
        }
        assert len(begins[0]) > 10
        for word, n in begins[0].items():
            assert abs(n - begins[1][word]) < 5 * (n + begins[1][word]) ** 0.5, (column, word)


def test_no_sentence_is_in_two_parts(data):
    assert [*data] == ["train", "validation", "test", "challenge_train", "challenge", "held_out"]
    said = [one for part in data.values() for column in ("sentence1", "sentence2") for one in part[column]]
    assert len(said) == len({*said}) == 2 * (3000 + 200 + 400 + 3 * 200)


def test_other_templates_are_read_in_tokens_that_training_has(data):
    from causalnb.experiments.causal_transformer.data import encoded, pair_tokenizer

    tokenizer = pair_tokenizer(list(data["train"]), 1000)
    known, asked = (
        {token for row in encoded(list(data[part]), tokenizer) for token in row["input_ids"]}
        for part in ("train", "held_out")
    )
    assert asked <= known


def test_seeds_and_families(data):
    same = paraphrase.load(n_train=20, n_validation=200, n_test=10, n_challenge=200, minority=0, seed=1)
    assert same["challenge"][:] == data["challenge"][:] and same["held_out"][:] == data["held_out"][:]
    assert paraphrase.pairs(40, seed=4) == paraphrase.pairs(40, seed=4) != paraphrase.pairs(40, seed=5)
    assert any("find the way" in said for said in data["held_out"]["sentence1"])
    assert not any("find the way" in said for said in data["train"]["sentence1"])
    chosen = paraphrase.load(n_train=20, n_validation=4, n_test=4, n_challenge=4, family="development")
    assert [*chosen] == ["train", "validation", "test", "challenge_train", "challenge"]
    with pytest.raises(DataError, match="Unknown family 'third' of questions; choose one of main, other, d"):
        paraphrase.load(family="third")
    with pytest.raises(DataError, match="Unknown source 'paws' of paraphrase; choose one of generator, paws"):
        paraphrase.load("paws")


@pytest.fixture(scope="module")
def drawn(data):
    return {part: rows.to_list() for part, rows in data.items()}


@pytest.fixture(scope="module")
def crossed(drawn):
    return paraphrase.crossed(drawn)


def test_crossing_keeps_labels_and_words(drawn, crossed):
    assert [*crossed] == [*drawn]
    for part, rows in crossed.items():
        known = {row["sentence1"]: row for row in drawn[part]}
        for row in rows:
            once = known[row["sentence1"]]
            assert says_the_same(row) == (row["label"] == 1), row
            assert bag(row["sentence2"]) == bag(once["sentence2"])
            same = row["kind"] in ("symmetric", "swapped")
            assert (row["sentence2"] != once["sentence2"]) == same
            assert row | {"sentence2": once["sentence2"]} == once


def test_crossed_pairs_of_the_same_words_all_have_their_end_on_the_other_side(drawn, crossed):
    for part, rows in crossed.items():
        same = [row for row in rows if row["kind"] in paraphrase.SAME_WORDS]
        assert {row["kind"] for row in same} == {*paraphrase.SAME_WORDS} and all(map(changes_place, same))
        assert by_place(rows) == 0.5 and by_place(drawn[part]) == 1


def test_crossing_loses_few_rows_and_only_those_whose_sentence_another_has(drawn, crossed):
    said = [row[name] for rows in crossed.values() for row in rows for name in ("sentence1", "sentence2")]
    assert len(said) == len({*said})
    lost = 0
    for part, rows in crossed.items():
        kept = {row["sentence1"] for row in rows}
        gone = [row for row in drawn[part] if row["sentence1"] not in kept]
        assert len(rows) + len(gone) == len(drawn[part]) and len(rows) >= 0.9 * len(drawn[part])
        for row in gone:
            (alone,) = paraphrase.crossed({part: [row]})[part]
            assert {alone["sentence1"], alone["sentence2"]} & {*said}
        lost += len(gone)
    assert lost > 0


def test_crossing_twice_gives_the_first_sentences_again(drawn, crossed):
    kept = {row["sentence1"] for rows in crossed.values() for row in rows}
    assert paraphrase.crossed(crossed) == {
        part: [row for row in rows if row["sentence1"] in kept] for part, rows in drawn.items()
    }


LAST, FRONT = (
    "How far is it between Rome and Paris in general?",
    "In general how far is it between Rome and Paris?",
)


def asked(second: str, first: str = "Who asks?", kind: str = "symmetric") -> dict:
    return {"sentence1": first, "sentence2": second, "label": 1, "kind": kind}


def test_an_end_moves_with_its_capital_and_the_question_mark():
    for one, other in ((LAST, FRONT), (FRONT, LAST)):
        assert paraphrase.crossed({"test": [asked(one)]}) == {"test": [asked(other)]}
    with pytest.raises(DataError, match="^'Is it far[?]' has no end of ours: cross questions of `pairs` and"):
        paraphrase.crossed({"test": [asked("Is it far?")]})


def test_of_two_rows_with_a_sentence_that_of_the_later_part_stays():
    one, other = asked(LAST), asked(LAST, FRONT, "moved")  # crossed, the first has FRONT, too
    assert paraphrase.crossed({"train": [one], "test": [other]}) == {"train": [], "test": [other]}
    assert paraphrase.crossed({"train": [other], "test": [one]}) == {"train": [], "test": [asked(FRONT)]}
    assert paraphrase.crossed({"test": [one, other]}) == {"test": [asked(FRONT)]}


GOOD = "id\tsentence1\tsentence2\tlabel\n1\tb'Why ?'\tb\"What 's caf\\xc3\\xa9 ?\"\t1\n"


def test_bytes_literals_are_read_and_wrong_lines_refused(monkeypatch):
    rows = paraphrase.parse(GOOD, "paws.tsv")
    assert rows == [{"sentence1": "Why ?", "sentence2": "What 's café ?", "label": 1}]
    literal = "should be a bytes literal such as b'Why [?]', found"
    for old, new, sentence in (
        ("b'Why ?'", "b'Why ?", f"sentence1 {literal} b'Why [?]; take a fresh"),
        ("b'Why ?'", "'Why ?'", f"sentence1 {literal} 'Why [?]';"),
        ("b'Why ?'", "print()", rf"sentence1 {literal} print\(\);"),
        ("\\xc3", "\\xff", rf"sentence2 {literal} b\"What 's caf\\xff"),
        ("b'Why ?'", "b' '", "sentence1 is empty; take a fresh copy of the file"),
        ("\t1\n", "\t2\n", "'2' is no label; expected one of 0, 1"),
        ("\t1\n", "\n", "expected 4 columns"),
    ):
        with pytest.raises(DataError, match=f"^paws.tsv, line 2: {sentence}"):
            paraphrase.parse(GOOD.replace(old, new), "paws.tsv")
    monkeypatch.setattr(files, "read", lambda name: GOOD.encode())
    assert paraphrase.load("paws_qqp")["test"][:]["label"] == [1]


@needs_files
def test_paws_qqp_is_as_audited():
    rows = paraphrase.read()
    assert len(rows) == 677 and Counter(row["label"] for row in rows) == {0: 486, 1: 191}
    full = [row["label"] for row in rows if sentence_pairs.overlap(row["sentence1"], row["sentence2"]) == 1]
    assert len(full) == 598 and round(100 * sum(full) / len(full), 1) == 27.1
    sets = [
        ({*one.lower().split()}, {*two.lower().split()})
        for one, two in ((row["sentence1"], row["sentence2"]) for row in rows)
    ]
    assert round(sum(len(a & b) / len(a | b) for a, b in sets) / 677, 3) == 0.969
    assert (
        sum(
            Counter(row["sentence1"].lower().split()) == Counter(row["sentence2"].lower().split())
            for row in rows
        )
        == 500
    )
    lengths = [len(sentence_pairs.words(row[column])) for row in rows for column in paraphrase.COLUMNS[1:3]]
    assert (round(sum(lengths) / len(lengths), 1), max(lengths)) == (18.5, 54)
