"""Two domains with a shared and an own mechanism: what is drawn, what readers get, what is refused."""

from collections import Counter

import pytest

from causalnb.errors import DataError
from causalnb.tasks import two_mechanisms


def said(pair, part):
    """{(domain, word): answer} of a part."""
    rows = [pair.row(*one) for one in pair.combinations(part)]
    return {(row["domain"], row["text"].split()[1]): row["answer"] for row in rows}


@pytest.mark.parametrize("similarity", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("both", [0.0, 0.5, 1.0])
def test_words_are_asked_for_where_they_were_not_trained(similarity, both):
    pair = two_mechanisms.draw(words=32, classes=4, similarity=similarity, both=both, seed=3)
    trained, asked = said(pair, "train"), said(pair, "ood")
    assert not {*trained} & {*asked} and len(trained) + len(asked) == 2 * 32
    assert said(pair, "iid") == trained
    assert {word for _, word in trained} == {f"word{word}" for word in range(32)}
    assert Counter(pair.classes) == {one: 8 for one in range(4)}
    alike = sum(a == b for a, b in zip(*pair.answers, strict=True))
    assert alike == similarity * 4
    for part in ("train", "ood"):
        for domain, word in pair.combinations(part):
            row = pair.row(domain, word)
            assert row["text"] == f"in{domain} word{word}"
            assert row["answer"] == f"say{pair.answers[domain][pair.classes[word]]}"
            assert row["borrowed"] == f"say{pair.answers[1 - domain][pair.classes[word]]}"
            assert {*row["text"].split(), row["answer"]} <= {*two_mechanisms.vocabulary(32, 4)}


def test_all_is_kept_but_the_answers_when_domains_are_more_alike():
    apart, alike = (two_mechanisms.draw(similarity=similarity, seed=5) for similarity in (0.0, 0.5))
    assert (apart.classes, apart.both, apart.alone) == (alike.classes, alike.both, alike.alone)
    assert apart.answers[0] == alike.answers[0] and apart.answers[1] != alike.answers[1]
    assert two_mechanisms.draw(seed=5) == apart != two_mechanisms.draw(seed=6)


@pytest.mark.parametrize("similarity, both", [(0.0, 0.5), (0.5, 0.5), (0.25, 0.0), (1.0, 1.0)])
def test_readers_reach_what_is_expected_of_them(similarity, both):
    """The readers by simulation: a table of what was trained, asked on pairs drawn anew."""
    classes, right, asked = 4, Counter(), Counter()
    for seed in range(30):
        pair = two_mechanisms.draw(words=64, classes=classes, similarity=similarity, both=both, seed=seed)
        trained = said(pair, "train")
        words = {}
        for (_, word), answer in trained.items():
            words.setdefault(word, []).append(answer)
        for part in ("iid", "ood"):
            for (_, word), answer in said(pair, part).items():
                asked[part] += 1
                right["composer", part] += 1  # both tables are complete: the answer follows
                right["lookup", part] += 1 if part == "iid" else 1 / classes
                right["borrower", part] += words[word].count(answer) / len(words[word])
                right["chance", part] += 1 / classes
    for reader in two_mechanisms.READERS:
        expected = two_mechanisms.reached(reader, classes, similarity, both)
        for part, its in expected.items():
            if asked[part]:
                assert right[reader, part] / asked[part] == pytest.approx(its, abs=0.01), (reader, part)


def test_parts_as_data_sets():
    data = two_mechanisms.as_datasets(words=16, classes=2, both=0.5, seed=1)
    assert {part: len(rows) for part, rows in data.items()} == {"train": 24, "iid": 24, "ood": 8}
    assert data["train"].column_names == ["text", "answer", "domain", "borrowed"]


@pytest.mark.parametrize(
    "given, message",
    [
        (dict(words=10, classes=4), "10 words do not fill 4 classes alike: give a multiple of 4"),
        (dict(similarity=1.5), "similarity is 1.5: give a share from 0 to 1"),
        (dict(both="half"), "both is 'half': give a share from 0 to 1"),
        (dict(similarity=0.3), "similarity is 0.3 of 8 classes: give a multiple of 1/8"),
    ],
)
def test_what_is_refused(given, message):
    with pytest.raises(DataError, match=message):
        two_mechanisms.draw(**given)


def test_an_unknown_reader_is_refused():
    with pytest.raises(DataError, match="There is no reader 'oracle': choose one of composer"):
        two_mechanisms.reached("oracle")
