"""One key against many cues: how often each is right, by counting, and what is refused."""

from itertools import product

import pytest

from causalnb import tasks
from causalnb.errors import DataError
from causalnb.tasks import fan_in


@pytest.mark.parametrize("cues", [1, 3, 5])
def test_a_vote_is_counted_over_all_outcomes(cues):
    accuracy, right = 0.7, 0.0
    for outcome in product((True, False), repeat=cues):
        chance = 1.0
        for one in outcome:
            chance *= accuracy if one else 1 - accuracy
        right += chance * (sum(outcome) > cues / 2)
    assert fan_in.vote(accuracy, cues) == pytest.approx(right, abs=1e-12)


def test_more_cues_are_weaker_and_together_as_good():
    each = [fan_in.cue_accuracy(cues, 0.97) for cues in (1, 3, 5, 9, 17)]
    assert each[0] == pytest.approx(0.97) and each == sorted(each, reverse=True) and each[-1] > 0.5
    for cues, one in zip((1, 3, 5, 9, 17), each, strict=True):
        assert fan_in.vote(one, cues) == pytest.approx(0.97, abs=1e-9)


@pytest.mark.parametrize("cues, key", [(3, True), (4, True), (5, False), (0, True)])
def test_a_reader_answers_what_is_likelier_given_all_its_words(cues, key):
    right, key_right, home, away = 0.7, 0.8, 0.0, 0.0

    def chance(words, of_cues, of_key):  # words: whether each speaks for label 1, the key's last
        found = 1.0
        for one in words[:cues]:
            found *= of_cues if one else 1 - of_cues
        return found * (of_key if words[-1] else 1 - of_key) if key else found

    for words in product((True, False), repeat=cues + key):
        one, zero = chance(words, right, key_right), chance(words, 1 - right, 1 - key_right)
        says = 0.5 if one == pytest.approx(zero) else float(one > zero)
        home += (says * one + (1 - says) * zero) / 2
        away += (
            says * chance(words, 1 - right, key_right) + (1 - says) * chance(words, right, 1 - key_right)
        ) / 2
    assert fan_in.reader(cues, key, right, key_right) == pytest.approx((home, away), abs=1e-12)


def test_a_reader_of_one_word_takes_the_better_one_and_of_three_the_key_where_cues_are_weak():
    assert fan_in.reader_of(1, 1) == pytest.approx((0.97, 0.03))
    assert fan_in.reader_of(1, 3) == pytest.approx((0.9, 0.9))
    kept = [cues for cues in range(1, 20, 2) if fan_in.reader_of(3, cues)[1] > 0.5]
    ratio = [(each / (1 - each)) ** 2 for each in map(fan_in.cue_accuracy, kept)]
    assert (
        kept
        and max(ratio) < 9 < (fan_in.cue_accuracy(kept[0] - 2) / (1 - fan_in.cue_accuracy(kept[0] - 2))) ** 2
    )
    assert fan_in.reader_of(18, 17)[0] > 0.97 and fan_in.reader_of(18, 17)[1] < 0.1
    with pytest.raises(DataError, match="words is 0: a reader needs at least one"):
        fan_in.reader_of(0, 3)


def shares(rows):
    """How often the key, one cue and the vote of all are right."""
    right = {"key": 0, "cue": 0, "vote": 0}
    for row in rows:
        words = row["text"].split()
        said = {kind: [int(word[3:]) for word in words if word.startswith(kind)] for kind in ("key", "cue")}
        right["key"] += said["key"] == [row["label"]]
        right["cue"] += said["cue"].count(row["label"]) / len(said["cue"])
        right["vote"] += said["cue"].count(row["label"]) > len(said["cue"]) / 2
    return {kind: found / len(rows) for kind, found in right.items()}


def test_the_key_is_as_good_everywhere_and_cues_are_turned():
    data = tasks.load("fan_in", cues=9, key=0.9, n_train=4000, n_test=4000)
    each, near = fan_in.cue_accuracy(9), dict(abs=0.02)
    for part, kept in fan_in.PARTS.items():
        found = shares(data[part])
        assert found["key"] == pytest.approx(0.9, **near), part
        assert found["cue"] == pytest.approx(kept * each + (1 - kept) * (1 - each), **near), part
    assert shares(data["train"])["vote"] == pytest.approx(0.97, **near)
    assert shares(data["flipped"])["vote"] == pytest.approx(0.03, **near)
    assert {len(row["text"].split()) for row in data["train"]} == {fan_in.LENGTH}
    assert data["train"][:50] == fan_in.load(cues=9, n_train=50, n_test=1)["train"][:50]
    assert data["train"][:9] != data["validation"][:9]


@pytest.mark.parametrize(
    "given, message",
    [
        (dict(cues=2), "cues is 2: give an odd number from 1 to 19"),
        (dict(cues=21), "cues is 21: give an odd number from 1 to 19"),
        (dict(cues=True), "cues is True: give an odd"),
        (dict(key=1.2), "key is 1.2: give a share from 0 to 1"),
        (dict(together=0.4), "together is 0.4: give a share of at least a half and below 1"),
        (dict(n_train=-1), "n_train is -1: give a whole number, 0 or more"),
    ],
)
def test_bad_options_are_named(given, message):
    with pytest.raises(DataError, match=message):
        fan_in.load(**given)
