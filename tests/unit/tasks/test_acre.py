"""ACRE: labels by trying every assignment, rules, frequencies, prompts and rows that can be undone."""

import json
import os
from collections import Counter
from functools import lru_cache
from itertools import chain, combinations, product
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chi2_contingency

from causalnb.errors import DataError
from causalnb.tasks import acre, files, icl_rows
from causalnb.tasks.acre import Problem, Query, View

REAL = Path(os.environ.get("CAUSALNB_DATA", ""), "acre")
needs_files = pytest.mark.skipif(not REAL.is_dir(), reason="needs CAUSALNB_DATA, a mirror of the data files")
published = lru_cache(acre.read)
VIEWS = (
    View((3,), "on"),
    View((17,), "off"),
    View((3, 17), "on"),
    View((25, 46, 40, 29), "on"),
    View((29,), "off"),
    View((40, 29), "off"),
)  # the first problem of the published IID test file
FIRST = Problem(
    VIEWS,
    (
        Query((46,), 1, "potential"),
        Query((3,), 2, "direct"),
        Query((40, 29, 17), 0, "screen_off", 5),
        Query((40, 29, 25), 1, "potential", 5),
    ),
)


@pytest.fixture(scope="module")
def problems():
    return acre.generate("IID", 400, seed=1)


def by_assignments(views, objects):
    """Label by trying every set of blickets that explains the views."""
    known = sorted({one for view in views for one in view.objects} | {*objects})
    lights = set()
    for blickets in chain.from_iterable(combinations(known, n) for n in range(len(known) + 1)):
        if all(bool({*view.objects} & {*blickets}) == (view.state == "on") for view in views):
            lights.add(bool({*objects} & {*blickets}))
    return {(False,): 0, (True,): 2}.get(tuple(lights), 1)


def solved(problem):
    """The labels of a problem's queries, from its views alone."""
    return [acre.solve(problem.views, query.objects) for query in problem.queries]


def test_the_objects():
    assert len(acre.OBJECTS) == 48 and acre.OBJECTS[17] == ("gray", "cylinder", "metal")
    assert len(acre.TRAIN_OBJECTS) == len(acre.TEST_OBJECTS) == 24
    spheres = {i for i in range(48) if acre.OBJECTS[i][1] == "sphere"}
    assert {acre.OBJECTS[i][2] for i in spheres & {*acre.TRAIN_OBJECTS}} == {"rubber"}
    shown = {acre.OBJECTS[i][:2] for i in acre.TRAIN_OBJECTS if i not in spheres}
    assert ("brown", "cube") in shown and ("brown", "cylinder") not in shown


def test_solving_by_hand():
    assert solved(FIRST) == [1, 2, 0, 1]
    assert acre.solve(VIEWS, (25, 46)) == 2 and acre.solve((), (1,)) == 1 and acre.solve(VIEWS, (0,)) == 1
    assert acre.types(VIEWS) == {
        3: "direct",
        17: "screen_off",
        29: "screen_off",
        40: "screen_off",
        25: "potential",
        46: "potential",
    }
    assert acre.types(VIEWS[:2] + (View((17, 9), "on"), View((5,), "off")))[9] == "indirect"
    assert acre.open_sets(VIEWS) == [(25, 46)]
    assert acre.evidence(VIEWS)[0] == {17, 29, 40}
    with pytest.raises(DataError, match="contradict each other: a group is on whose objects are all seen"):
        acre.solve((View((1,), "off"), View((1,), "on")), (1,))


def test_labels_are_those_of_all_assignments(problems):
    draw = np.random.default_rng(0)
    for problem in problems[:60]:
        asked = [query.objects for query in problem.queries]
        asked += [tuple(draw.permutation(problem.objects)[:3].tolist())]
        for objects in asked:
            assert acre.solve(problem.views, objects) == by_assignments(problem.views, objects)
    assert all(solved(one) == [query.label for query in one.queries] for one in problems)


@pytest.mark.parametrize(
    ("regime", "part", "supply", "kinds"),
    [
        ("IID", "train", range(48), {3, 4}),
        ("Comp", "test", range(24), {3, 4}),
        ("Sys", "val", range(48), {4}),
        ("comp_true", "train", acre.TRAIN_OBJECTS, {3, 4}),
        ("comp_true", "test", acre.TEST_OBJECTS, {3, 4}),
        ("sys_true", "train", range(48), {3}),
        ("sys_true", "test", range(48), {4}),
    ],
)
def test_regimes(regime, part, supply, kinds):
    drawn = acre.generate(regime, 150, 0, part)
    assert {one for problem in drawn for one in problem.objects} == {*supply}
    assert {sum(view.state == "on" for view in problem.views) for problem in drawn} == kinds
    assert drawn == acre.generate(regime, 150, 0, part) != acre.generate(regime, 150, 1, part)


def test_the_rules_of_a_problem(problems):
    for problem in problems:
        assert sorted(len(view.objects) for view in problem.views[:3]) == [1, 1, 2]
        assert 5 <= len(problem.objects) <= 8 and Counter(view.state for view in problem.views[:3])["on"] == 2
        kinds = acre.types(problem.views)
        singles, interventions = problem.queries[:2], problem.queries[2:]
        assert all(kinds[query.objects[0]] == query.type and query.ref is None for query in singles)
        assert [query.type for query in singles].count("potential") == ("potential" in kinds.values())
        assert len({query.objects for query in singles}) == 2
        assert len({query.ref for query in interventions}) == 1
        for query in interventions:
            view = problem.views[query.ref]
            assert view.state == "off" and query.objects[: len(view.objects)] == view.objects
            assert {*query.objects} <= {*problem.objects} and len(query.objects) > len(view.objects)


def test_another_supply_of_objects():
    assert {one for problem in acre.generate(n=20, objects=range(40, 48)) for one in problem.objects} == {
        *range(40, 48)
    }
    for wrong in (range(7), [*range(7), 48], [-1, *range(8)]):
        with pytest.raises(DataError, match="cannot supply ACRE: give at least 8 different ids from 0 to 47"):
            acre.generate(objects=wrong)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: acre.generate("iid"), "Unknown regime 'iid' of ACRE; choose one of IID, Comp"),
        (lambda: acre.generate("IID", part="dev"), "part 'dev' of ACRE; choose one of .*train, val, test"),
        (
            lambda: acre.generate("Comp"),
            "Comp has no training part: .* trains on IID; choose that, or comp_true",
        ),
        (lambda: acre.read("sys_true"), "sys_true is ours and has no file; take generate\\('sys_true'\\)"),
        (lambda: acre.prompt(FIRST, FIRST.queries[0], "image"), "Unknown format 'image' of ACRE; choose one"),
        (lambda: acre.rows([FIRST], "image"), "Unknown format 'image'"),
        (lambda: acre.parse_answer("2", "text"), "'2' is no text answer of ACRE; it is one of off, undeter"),
        (lambda: acre.load(source="web"), "Unknown source 'web' of ACRE; choose 'generator' or 'file'"),
    ],
)
def test_what_is_unknown_is_refused(call, sentence):
    with pytest.raises(DataError, match=sentence):
        call()


def test_prompts_as_printed():
    text, answer = acre.prompt(FIRST, FIRST.queries[2], "text")
    lines = text.split("\n")
    assert len(lines) == 11 and answer == "off"
    assert lines[0].endswith("Your answer must contain a single word:")
    assert lines[1:4] == ["on.", "off.", "undetermined."]
    assert lines[6] == "A red cube in metal is visible. A gray cylinder in metal is visible. The light is on."
    assert lines[-1] == (
        "A brown sphere in rubber is visible. A cyan cylinder in metal is visible. A gray "
        "cylinder in metal is visible. The state of the light is "
    )
    text, answer = acre.prompt(FIRST, FIRST.queries[2], "symbolic")
    lines = text.split("\n")
    assert lines[1:4] == ["0.", "1.", "2."] and lines[6] == "[3, 17] -> 2" and answer == "0"
    assert lines[-1] == "[40, 29, 17] -> " and "You can answer 1 if the solution" in lines[0]


def there_and_back(problem):
    for query in problem.queries:
        said = {format: acre.prompt(problem, query, format) for format in acre.FORMATS}
        for format, (text, answer) in said.items():
            views, objects = acre.parse_prompt(text, format)
            assert (views, objects) == (problem.views, query.objects)
            assert acre.parse_answer(answer, format) == query.label
            again = Problem(views, (Query(objects, acre.parse_answer(answer, format), query.type),))
            assert all(acre.prompt(again, again.queries[0], other) == said[other] for other in acre.FORMATS)


def test_prompts_can_be_undone(problems):
    for problem in [FIRST, *problems[:100]]:
        there_and_back(problem)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda text: text[1:], "is no text prompt of ACRE: it must begin with the instruction"),
        (lambda text: text.split("\n")[0], "must begin with the instruction"),
        (lambda text: text[:-40], "Line 11 of a text prompt of ACRE"),
        (
            lambda text: text.replace("light is off.", "light is dim.", 1),
            "Line 6 of a text prompt .* expected",
        ),
        (lambda text: text.replace("red cube", "pink cube", 1), "Line 5 of a text prompt"),
        (lambda text: text.rsplit("\n", 1)[0], "Line 10 of a text prompt"),
    ],
)
def test_a_wrong_prompt_is_refused(change, sentence):
    with pytest.raises(DataError, match=sentence):
        acre.parse_prompt(change(acre.prompt(FIRST, FIRST.queries[0])[0]))
    with pytest.raises(DataError, match="Line 5 of a symbolic prompt of ACRE, '\\[48\\] -> 2', is none"):
        text, _ = acre.prompt(FIRST, FIRST.queries[0], "symbolic")
        acre.parse_prompt(text.replace("[3]", "[48]"), "symbolic")


@pytest.mark.parametrize("format", acre.FORMATS)
def test_rows_of_one_query(problems, format):
    made = acre.rows(problems[:50], format)
    assert len(made) == 200 and [row["query"] for row in made[:4]] == [0, 1, 2, 3]
    for row in made:
        problem, query = problems[row["problem"]], problems[row["problem"]].queries[row["query"]]
        assert acre.read_row(row) == (problem.views, [(query.objects, query.label)])
        assert (row["label"], row["type"], sum(row["answer"])) == (query.label, query.type, 1)
        assert row["answer"][-1] and len(row["words"]) == len(row["answer"]) == len(row["supervised"])
        states = [
            row["supervised"][i]
            for i, word in enumerate(row["words"][1:])
            if word in (";", icl_rows.SEPARATOR)
        ]
        assert states == [
            acre.solve(problem.views[:i], view.objects) != 1 for i, view in enumerate(problem.views)
        ]
        assert sum(row["supervised"]) == sum(states) + 1
    assert made == acre.rows(problems[:50], format)


def test_objects_are_renamed_anew_for_each_row(problems):
    made = acre.rows(problems[:200])
    firsts = Counter(row["words"][0] for row in made)
    assert {*firsts} == {*acre.SLOTS} and max(firsts.values()) < 2 * min(firsts.values())
    for row in made[:50]:
        used = [one for one in row["slots"] if one >= 0]
        assert sorted(used) == sorted(problems[row["problem"]].objects)
        assert len(row["slots"]) == len(acre.SLOTS)


def test_dense_rows_ask_everything_and_leak_nothing(problems):
    """An answered query is a view that follows from the others: adding it changes the label of no other."""
    symbolic, text = (acre.rows(problems[:60], format, dense=True, sets=4) for format in ("symbolic", "text"))
    for row, other, problem in zip(symbolic, text, problems, strict=False):
        views, asked = acre.read_row(row)
        assert (views, asked) == acre.read_row(other) and views == problem.views and row["query"] == -1
        assert {objects[0] for objects, _ in asked if len(objects) == 1} == {*problem.objects}
        assert len(asked) == len(problem.objects) + 4 == sum(row["answer"])
        more = [View(objects, acre.STATES[label]) for objects, label in asked if label != 1]
        for objects, label in asked:
            assert label == by_assignments(problem.views, objects) == acre.solve((*views, *more), objects)
    assert len({tuple(row["words"]) for row in symbolic}) == 60


def test_formats_share_separators_alone(problems):
    symbolic, text = (
        {word for row in acre.rows(problems, format) for word in row["words"]}
        for format in ("symbolic", "text")
    )
    assert symbolic & text == {">", ";", icl_rows.SEPARATOR} and symbolic | text == {
        *acre.WORDS,
        icl_rows.SEPARATOR,
    }
    shared = acre.rows(problems, "text", shared=True)
    assert {word for row in shared for word in row["words"]} & symbolic == {
        ">",
        ";",
        icl_rows.SEPARATOR,
        "0",
        "1",
        "2",
    }
    assert acre.read_row(shared[0]) == acre.read_row(acre.rows(problems, "text")[0])


def test_load():
    data = acre.load("comp_true", n_train=10, n_test=5, format="symbolic")
    assert {part: rows.num_rows for part, rows in data.items()} == {"train": 40, "test": 20}
    assert data["test"].column_names == ["prompt", "response", "label", "type", "problem"]
    assert {*data["train"]["response"]} <= {"0", "1", "2"} and data["train"]["problem"][-1] == 9
    assert {*acre.load("Comp", n_test=2)} == {"test"}


def raw(problem):
    return [{"light_state": view.state, "objects": [*view.objects]} for view in problem.views] + [
        {
            "light_state": "no",
            "objects": [*query.objects],
            "label": query.label,
            "type": query.type,
            **({} if query.ref is None else {"ref": query.ref}),
        }
        for query in problem.queries
    ]


def test_files_are_read_and_wrong_ones_refused(problems, monkeypatch):
    good = json.dumps([raw(problem) for problem in problems[:3]], indent=1)
    assert acre.parse_problems(good, "few.json") == problems[:3]
    with pytest.raises(DataError, match=f"few.json, line {good[:-20].count(chr(10)) + 1}: this is no JSON"):
        acre.parse_problems(good[:-20], "few.json")
    for empty in ("{}", "[]"):
        with pytest.raises(DataError, match="few.json, line 1: expected a list of problems"):
            acre.parse_problems(empty, "few.json")
    for change in (
        lambda one: one.pop(),
        lambda one: one[1].update(objects=[]),
        lambda one: one[0].update(objects=[48]),
        lambda one: one[9].pop("label"),
        lambda one: one[9].update(type="x"),
        lambda one: one[2].update(light_state="dim"),
    ):
        wrong = raw(problems[0])
        change(wrong)
        with pytest.raises(DataError, match="few.json, problem 2: expected 6 views with objects and a light"):
            acre.parse_problems(json.dumps([raw(problems[1]), wrong]), "few.json")
    monkeypatch.setattr(files, "read", lambda name: good.encode())
    assert acre.load("IID", "file")["test"]["label"][:4] == [query.label for query in problems[0].queries]


def features(problems):
    """Counts that a wrong rule would change, by what is counted."""
    queries = [query for problem in problems for query in problem.queries]
    views = [
        (view, sum(one.state == "on" for one in problem.views))
        for problem in problems
        for view in problem.views[3:]
    ]
    return {
        "label": Counter(query.label for query in queries),
        "type and label": Counter((query.type, query.label, query.ref is None) for query in queries),
        "types of single queries": Counter(
            tuple(sorted(query.type for query in problem.queries[:2])) for problem in problems
        ),
        "objects": Counter(len(problem.objects) for problem in problems),
        "views": Counter((len(view.objects), view.state, on) for view, on in views),
        "queries": Counter(len(query.objects) for query in queries),
        "open sets": Counter(len(acre.open_sets(problem.views)) for problem in problems),
    }


@needs_files
@pytest.mark.parametrize("regime", ["IID", "Comp", "Sys"])
def test_generated_problems_are_distributed_as_the_published_ones(regime):
    ours = features(acre.generate(regime, 1000, seed=3, part="test"))
    theirs = features(published(regime, "test"))
    for name in ours:
        table = np.array(
            [
                [counts[value] for value in {**ours[name], **theirs[name]}]
                for counts in (ours[name], theirs[name])
            ]
        )
        table = table[:, table.sum(axis=0) >= 20]
        assert chi2_contingency(table).pvalue > 1e-3, name


@needs_files
@pytest.mark.parametrize(
    ("regime", "part", "n"),
    [("IID", "train", 6000), *product(("IID", "Comp", "Sys"), ("val", "test"), [2000])],
)
def test_the_published_labels_and_prompts(regime, part, n):
    found = published(regime, part)
    assert len(found) == n and found[0] != found[1]
    assert all(solved(one) == [query.label for query in one.queries] for one in found)
    for problem in found[:50]:
        there_and_back(problem)
        assert all(acre.read_row(row)[0] == problem.views for row in acre.rows([problem], "text"))
    assert {one for problem in found for one in problem.objects} == {*range(24 if regime == "Comp" else 48)}
    if regime == "IID" and part == "test":
        assert found[0] == FIRST


@needs_files
def test_the_published_table_of_objects():
    table = json.loads(files.read("acre/object_dict.json"))
    assert [tuple(table[str(i)][key] for key in ("color", "shape", "material")) for i in range(48)] == [
        *acre.OBJECTS
    ]
