"""COT-OrderPerturb: golden values, every order by its numbers, and texts that say what the table says."""

import json
import random
from hashlib import sha256

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from causalnb.errors import DataError
from causalnb.tasks import cot_order_perturb as cot
from causalnb.tasks import load, words

source = st.integers(0, 100)
mode = st.sampled_from(cot.MODES)
encoding = st.sampled_from(cot.ENCODINGS)
WORKED = (90, 21, 44, 55, 41, 36, 40, 12, 48, 26, 47, 100, 70)  # of 80 and 79, as printed


def test_the_worked_example():
    assert tuple(cot.values(80, 79).values()) == (80, 79, *WORKED)
    prompt, response = cot.render(80, 79)
    assert (len(prompt), len(response)) == (143, 576)
    assert prompt.endswith("The input variables are Zorin (value: 80) and Vortex (value: 79).")
    assert response.startswith("Quasar = (Zorin + Vortex) * 0.5 + 10 = 90\nFlux = ")
    assert response.endswith("= 70\nTherefore, the final answer is 70.\nAnswer: 70")


@pytest.mark.parametrize(
    ("zorin", "vortex", "stardust"),
    [(0, 0, 28), (100, 100, 83), (0, 100, -4), (100, 0, 105), (50, 50, 50), (37, 4, 53)],
)
def test_golden_values(zorin, vortex, stardust):
    assert cot.values(zorin, vortex)["Stardust"] == stardust


def test_all_inputs_by_hash():
    table = cot.table()
    stardust = table[:, -1].tolist()
    assert table.shape == (10_201, 15) and len(set(map(tuple, table.tolist()))) == 10_201
    digest = "61ff52f3871e0afdda87af79fde3f749c99c5d2ad8470d6e424ef35d9b9eee27"
    assert sha256(",".join(map(str, stardust)).encode()).hexdigest() == digest and sum(stardust) == 531_304
    assert (min(stardust), max(stardust), len(set(stardust))) == (-4, 106, 106)
    assert sum(value < 0 for value in stardust) == 9
    assert (table.min(), table.max()) == (cot.NUMBERS[0], cot.NUMBERS[-1]) == (-40, 152)
    with pytest.raises(ValueError):
        table[0, 0] = 1


@given(source, source)
def test_the_printed_formulas_are_what_is_computed(zorin, vortex):
    found = {"Zorin": zorin, "Vortex": vortex}
    for name, text in cot.FORMULAS.items():
        value = eval(text, {"int": int}, found)
        found[name] = value if name == cot.TARGET else round(value)
    assert cot.values(zorin, vortex) == found


def test_the_graph():
    assert sum(map(len, cot.GRAPH.values())) == 28 and len(cot.VARIABLES) == 15
    assert sum(cause in cot.STEPS for causes in cot.GRAPH.values() for cause in causes) == 23
    assert cot.GRAPH["Nova"] == ("Quasar", "Flux", "Zorin") and cot.GRAPH["Stardust"] == ("Celestia",)
    assert not any("Nova" in causes for causes in cot.GRAPH.values())
    for step in cot.STEPS:  # a cause changes its effect, another variable does not
        columns = [cot.VARIABLES.index(name) for name in (*cot.GRAPH[step], step)]
        few = np.unique(cot.table()[:, columns], axis=0)
        assert len(np.unique(few[:, :-1], axis=0)) == len(few)


@pytest.mark.parametrize(
    ("mode", "violations", "place"),
    [
        ("normal", 0, 13),
        ("RE", 23, 1),
        ("LR", 1, 13),
        ("OF", 1, 1),
        ("DFS", 10, 7),
        ("R1", 13, 2),
        ("R2", 18, 4),
        ("R3", 11, 1),
    ],
)
def test_orders(mode, violations, place):
    names = cot.order(mode)
    assert sorted(names) == sorted(cot.STEPS)
    assert cot.violations(names) == violations and cot.steps(mode)["Stardust"] == place
    assert cot.steps(mode)["Zorin"] == 0


def test_orders_by_name():
    assert cot.order("no_cot") == () and cot.steps("no_cot") == {"Zorin": 0, "Vortex": 0}
    assert cot.order("LR")[:2] == ("Flux", "Quasar") and cot.order("LR")[-1] == "Stardust"
    assert " ".join(cot.order("DFS")) == (
        "Quasar Radiant Gravity Helix Nebula Celestia Stardust Comet Aether Pulse Echo Nova Flux"
    )
    shuffled = list(cot.STEPS)
    random.Random(2).shuffle(shuffled)
    assert cot.order("R2") == tuple(shuffled)


@given(source, source, mode, encoding)
def test_every_rendering_says_the_values(zorin, vortex, mode, encoding):
    values = cot.values(zorin, vortex)
    prompt, response = cot.render(zorin, vortex, mode, encoding)
    assert cot.read_answer(response) == values["Stardust"]
    assert cot.read_steps(response) == {name: values[name] for name in cot.order(mode)}
    assert list(cot.read_steps(response)) == list(cot.order(mode))
    if mode == "no_cot":
        assert response in (f"Answer: {values['Stardust']}", f"Answer {values['Stardust']}")
    if encoding == "compact":
        n = len(words.encode(prompt, response)["input_ids"])
        assert n == (8 if mode == "no_cot" else 34)
    if encoding == "formulas":
        row = words.encode(prompt, response, encoding)
        assert len(row["input_ids"]) == (8 if mode == "no_cot" else 172)
        assert all(f"{name} = {cot.SPACED[name]} = {values[name]} " in response for name in cot.order(mode))


@given(source, source, mode, encoding, st.sampled_from(cot.SCOPES))
def test_spans_cut_out_the_variables(zorin, vortex, mode, encoding, scope):
    values, texts = cot.values(zorin, vortex), cot.render(zorin, vortex, mode, encoding)
    places = cot.spans(zorin, vortex, mode, encoding, scope)
    assert list(places) == [*cot.SOURCES, *cot.order(mode)]
    for name, (part, start, end) in places.items():
        said = texts[part][start:end]
        assert part == (name not in cot.SOURCES)
        assert (
            said == str(values[name])
            if scope == "result"
            else (said.startswith(name) and str(values[name]) in said and "\n" not in said)
        )


@given(source, source, encoding)
def test_concepts_stand_once_in_every_order(zorin, vortex, encoding):
    graph = cot.graph(zorin, vortex, encoding)
    assert [len(causes) for causes in graph.values()] == [len(causes) for causes in cot.GRAPH.values()]
    for mode in ("normal", "R1"):
        lines = "\n".join(cot.render(zorin, vortex, mode, encoding)) + "\n"
        for concept in {*graph, *(cause for causes in graph.values() for cause in causes)}:
            assert sum(lines.count(concept + end) for end in ("\n", " ", ".")) == 1


def test_answers_that_are_not_there():
    assert cot.read_answer("Stardust = 70") is None and cot.read_answer("") is None
    assert cot.read_answer("Answer: 1\nAnswer: -4") == -4
    assert cot.read_steps("Quasar = 1 + 1 = 2\nQuasar = 1 + 2 = 3\nAnswer: 4\nfoo = 1 = 2") == {"Quasar": 2}


def test_parts_are_disjoint_and_seeded():
    train, test = cot.split()
    assert (len(train), len(test), len({*train, *test})) == (2000, 500, 2500)
    assert cot.split() == (train, test) != cot.split(seed=1)
    everything, none = cot.split(10_201, 0)
    assert len(set(everything)) == 10_201 and none == []
    with pytest.raises(DataError, match="n_train is -1: give a whole number, 0 or more"):
        cot.split(-1, 5)
    for wrong in ((10_000, 500), (0, 0)):
        with pytest.raises(DataError, match="cannot be drawn: there are 10,201 different ones"):
            cot.split(*wrong)


def test_load_has_the_columns_and_the_same_inputs_in_every_mode():
    data, bare = (
        load("cot_order_perturb", mode=mode, n_train=20, n_test=5, encoding="compact")
        for mode in ("RE", "no_cot")
    )
    assert {part: rows.num_rows for part, rows in data.items()} == {"train": 20, "test": 5}
    assert data["train"].column_names == ["prompt", "response", "answer", "zorin", "vortex", "graph"]
    assert data["train"]["prompt"][:] == bare["train"]["prompt"][:]
    row = data["test"][0]
    assert (row["prompt"], row["response"]) == cot.render(row["zorin"], row["vortex"], "RE", "compact")
    assert row["answer"] == cot.values(row["zorin"], row["vortex"])["Stardust"]
    assert json.loads(row["graph"]) == cot.graph(row["zorin"], row["vortex"], "compact")
    assert bare["test"][0]["graph"] == "{}"


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda: cot.values(101, 3), "Zorin is 101; give an integer from 0 to 100"),
        (lambda: cot.values(1, 2.0), "Vortex is 2.0; give"),
        (lambda: cot.values(True, 2), "Zorin is True"),
        (lambda: cot.render(-1, 2), "Zorin is -1"),
        (lambda: cot.order("R4"), "mode 'R4' .*; choose .* no_cot"),
        (lambda: cot.render(1, 2, "normal", "long"), "encoding 'long' .*; choose one of text, compact"),
        (lambda: cot.spans(1, 2, scope="word"), "scope 'word' .* result, line"),
    ],
)
def test_bad_input_is_one_sentence(wrong, sentence):
    with pytest.raises(DataError, match=sentence) as refusal:
        wrong()
    assert "\n" not in str(refusal.value)
