"""Translation: our grammar by hand and by its own rules, files refused by line, the real Multi30k."""

import os
from pathlib import Path

import datasets
import pytest

from causalnb.errors import DataError
from causalnb.tasks import files, translation

needs_files = pytest.mark.skipif(
    not os.environ.get("CAUSALNB_DATA"), reason="needs CAUSALNB_DATA, a mirror of the data files"
)
NOUNS = translation.PEOPLE | translation.THINGS
VERBS = translation.DEEDS | translation.ALONE
GERMAN = {german: (english, gender) for english, (german, gender) in NOUNS.items()}
OF = {
    german: english for known in (translation.LOOKS, translation.COLOURS) for english, german in known.items()
}


def back(german: str) -> str:
    """The English of a German sentence, by a translator of our own that reads cases and places of verbs."""
    main, _, because = f"{german[0].lower()}{german[1:-1]}".partition(", weil ")
    place = next((one for one, said in translation.PLACES.items() if said in main), "")
    at = translation.PLACES.get(place, "nowhere")
    english = clause(main.replace(at, "").split(), verb_last=False)
    if place:
        english = f"{place}, {english}" if main.startswith(at) else f"{english} {place}"
    if because:
        english += f" because {clause(because.split(), verb_last=True)}"
    return f"{english[0].upper()}{english[1:]}."


def clause(said: list[str], verb_last: bool) -> str:
    """A clause without its place: noun phrases by their case, the verb wherever it stands."""
    verbs = {german: english for english, german in VERBS.items()}
    at = next(i for i, word in enumerate(said) if word in verbs)
    assert at == len(said) - 1 if verb_last else at in (0, 2, 3)
    phrases, phrase = [], []
    for word in said[:at] + said[at + 1 :]:
        phrase.append(word)
        if word in GERMAN:
            phrases.append(noun(phrase, "na"[len(phrases)]))
            phrase = []
    assert not phrase and len(phrases) == 1 + (verbs[said[at]] in translation.DEEDS)
    return " ".join([phrases[0], verbs[said[at]], *phrases[1:]])


def noun(phrase: list[str], case: str) -> str:
    """A German noun phrase in English; its article and the ending of its adjective must fit the case."""
    article, *looks, last = phrase
    english, gender = GERMAN[last]
    kind = gender + case if gender == "m" else gender
    assert article == {"mn": "ein", "ma": "einen", "f": "eine", "n": "ein"}[kind]
    for look in looks:
        ending = {"mn": "er", "ma": "en", "f": "e", "n": "es"}[kind]
        stem = next(one for one in OF if look == one.removesuffix("e") + ending)
        english = f"{OF[stem]} {english}"
    return f"{'an' if english[0] in 'aeiou' else 'a'} {english}"


def test_the_grammar_translates_back():
    pairs = translation.generate(400, seed=3)
    assert len({english for english, _ in pairs}) == 400
    for english, german in pairs:
        assert back(german) == english
    shapes = [sum(mark in english for english, _ in pairs) for mark in (", ", " because ")]
    assert all(60 < n < 140 for n in shapes)


def test_one_sentence_by_hand():
    assert back("Im Park hält ein alter Mann einen roten Ball.") == (
        "In the park, an old man is holding a red ball."
    )
    assert back("Ein Kind lacht, weil eine Frau ein neues Boot sucht.") == (
        "A child is laughing because a woman is looking for a new boat."
    )


def test_parts_are_disjoint_and_directions_turn():
    data = translation.load(n_train=200, n_validation=20, n_test=30, seed=1)
    assert data.num_rows == {"train": 200, "validation": 20, "test": 30}
    assert len({said for rows in data.values() for said in rows["source"]}) == 250
    turned = translation.load(direction="de-en", n_train=200, n_validation=20, n_test=30, seed=1)
    assert turned["test"]["source"][:] == data["test"]["target"][:]
    assert [*turned["test"].features] == ["source", "target"]
    few, same, other = (translation.generate(5, seed) for seed in (1, 1, 2))
    assert few == same != other


def test_max_words_is_kept_by_both_sides():
    data = translation.load(max_words=7, n_train=200, n_validation=50, n_test=50)
    lengths = [
        len(said.split())
        for rows in data.values()
        for column in ("source", "target")
        for said in rows[column]
    ]
    assert max(lengths) == 7 and data["train"].num_rows < 200
    with pytest.raises(
        DataError, match="No pair of train is left with n_train=3000 and max_words=2: allow more of either"
    ):
        translation.load(max_words=2)


def test_files_are_read_and_an_empty_side_refused(monkeypatch):
    assert translation.parse("A  cat.\nA dog.\n", "Eine Katze.\nEin Hund.", "x") == [
        ("A cat.", "Eine Katze."),
        ("A dog.", "Ein Hund."),
    ]
    with pytest.raises(DataError, match="^x.de, line 2: the sentence is empty; take a fresh copy"):
        translation.parse("A cat.\nA dog.\n", "Eine Katze.\n \n", "x")
    with pytest.raises(DataError, match="^x.en, line 1: the sentence is empty"):
        translation.parse("\nA dog.\n", "Eine Katze.\nEin Hund.\n", "x")
    with pytest.raises(DataError, match="^x.en has 1 lines and x.de has 2: take fresh copies of both"):
        translation.parse("A cat.\n", "Eine Katze.\nEin Hund.\n", "x")
    monkeypatch.setattr(files, "read", lambda name: name.encode())
    data = translation.load("multi30k")
    assert [*data] == ["train", "validation", "test", "test2017"]
    assert data["test2017"][0] == {
        "source": "multi30k/test_2017_flickr.en",
        "target": "multi30k/test_2017_flickr.de",
    }


def test_wrong_options_are_refused(monkeypatch):
    with pytest.raises(DataError, match="Unknown source 'iwslt' of translation; choose one of generator"):
        translation.load("iwslt")
    with pytest.raises(DataError, match="Unknown direction 'en-ro' of multi30k; choose one of en-de, de-en"):
        translation.load("multi30k", "en-ro")
    with pytest.raises(DataError, match="Unknown part 'dev' of Multi30k; choose one of train, validation"):
        translation.read("dev")
    monkeypatch.setattr(translation, "sentence", lambda draw: ("A cat.", "Eine Katze."))
    with pytest.raises(DataError, match="2 different sentences were not found beside 0: ask for fewer"):
        translation.generate(2)


@pytest.mark.parametrize(("direction", "part"), [("en-ro", "ro-en"), ("ro-en", "ro-en"), ("de-en", "de-en")])
def test_the_hub_is_asked_by_name(direction, part, monkeypatch):
    def hub(*names):
        assert names == ("wmt/wmt16", part)
        sides = part.split("-")
        rows = [
            dict(zip(sides, pair, strict=False))
            for pair in (("eins", "one"), (" ", "two"), ("drei", ""), ("eins zwei drei", "one two three"))
        ]
        return datasets.DatasetDict({"train": datasets.Dataset.from_dict({"translation": rows})})

    monkeypatch.setattr(datasets, "load_dataset", hub)
    data = translation.load("wmt16", direction, max_words=2)
    first, last = ("eins", "one") if direction == part else ("one", "eins")
    assert data["train"][:] == {"source": [first], "target": [last]}


@needs_files
def test_multi30k_is_whole():
    counts = {part: len(translation.read(part)) for part in translation.FILES}
    assert counts == {"train": 29_000, "validation": 1_014, "test": 1_000, "test2017": 1_000}
    short = translation.load("multi30k", max_words=12).num_rows.values()
    card = " ".join((Path(__file__).parents[3] / "data" / "README.md").read_text(encoding="utf-8").split())
    assert "with at most 12 words on both sides {:,}, {:,}, {:,} and {:,}.".format(*short) in card
    assert translation.read("test")[0] == (
        "A man in an orange hat starring at something.",
        "Ein Mann mit einem orangefarbenen Hut, der etwas anstarrt.",
    )
