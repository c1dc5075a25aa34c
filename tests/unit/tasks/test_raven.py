"""RAVEN: rules by hand, solver and vote on the published sets, prompts and rows that can be undone."""

import json
import os
from collections import Counter
from functools import lru_cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chi2_contingency

from causalnb.errors import DataError
from causalnb.tasks import files, raven
from causalnb.tasks.raven import Entity, Problem

REAL = Path(os.environ.get("CAUSALNB_DATA", ""), "raven")
needs_files = pytest.mark.skipif(not REAL.is_dir(), reason="needs CAUSALNB_DATA, a mirror of the data files")
SINGLE, FOUR, INSIDE = raven.CONFIGURATIONS
published = lru_cache(raven.read)
ALL = [*product(raven.CONFIGURATIONS, raven.ANSWER_SETS)]
# the first published problem of center_single's test: size, color, type, angle of its panels and answers
LEVELS = ("DBFF FBDF BABF BBFG DBDG FABG FAFC BADC", "DABC DAFC DAEC CABC DBBC DADC DIBC DDBC")


def panels(said):
    return tuple(
        (
            (
                Entity(
                    *(
                        raven.LEVELS[name].index(letter)
                        for name, letter in zip(raven.LEVELS, one, strict=False)
                    )
                ),
            ),
        )
        for one in said.split()
    )


FIRST = Problem(SINGLE, panels(LEVELS[0]), panels(LEVELS[1]), 0)
GRID = ((Entity(4, 7, 0, 7, "BR"), Entity(1, 7, 0, 2, "TL")),)


@pytest.fixture(scope="module")
def drawn():
    return {key: raven.generate(key[0], 150, seed=2, answer_set=key[1]) for key in ALL}


def test_panels_as_printed():
    assert raven.show_panel(FIRST.context[0], "symbolic") == "[(D, B, F, F,)] "
    assert raven.show_panel(FIRST.context[0]) == "On an image, a large orange circle rotated at 90 degrees. "
    assert raven.show_panel(GRID, "symbolic") == "[(E, H, B, H, BR), (B, H, B, C, TL)] "
    assert raven.show_panel(GRID) == (
        "On an image, a huge purple triangle rotated at 180 degrees in the "
        "bottom right, a small purple triangle rotated at -45 degrees in the "
        "top left. "
    )
    both = FIRST.context[0] + FIRST.context[1]
    line = "-" * 15
    assert raven.show_panel(both, "symbolic") == f"[(D, B, F, F,)] \n{line}\n[(F, B, D, F,)] \n{line}"
    assert raven.show_panel(both) == (
        "On an image, a second figure is displayed inside a first one. Outside: a large orange circle "
        "rotated at 90 degrees. Inside: a giant orange pentagon rotated at 90 degrees. "
    )
    assert [raven.configuration_of(panel) for panel in (FIRST.answer, GRID, both)] == [*raven.CONFIGURATIONS]


def test_prompts_as_printed():
    text, answer = raven.prompt(FIRST)
    lines = text.split("\n")
    assert len(lines) == 18 and lines[0].startswith("Find the pattern number 9") and answer == "A"
    assert lines[9] == "A. On an image, a large red triangle rotated at -45 degrees. "
    assert lines[-1] == "The answer is "
    text, answer = raven.prompt(FIRST, "symbolic", open=True)
    assert text.split("\n")[8:] == ["8. [(B, A, D, C,)] ", "The pattern that logically follows is:", "9. "]
    assert answer == "[(D, A, B, C,)] "


def column(attribute, levels):
    """Eight panels of one entity whose attribute has these levels and all else is 0."""
    return [((Entity(**{**dict.fromkeys(raven.LEVELS, 0), attribute: level}),),) for level in levels]


@pytest.mark.parametrize(
    ("attribute", "levels", "left"),
    [
        ("type", (2, 2, 2, 0, 0, 0, 4, 4), {4}),
        ("type", (0, 1, 2, 2, 3, 4, 1, 2), {3}),
        ("size", (5, 3, 1, 4, 2, 0, 5, 3), {1}),
        ("type", (0, 1, 2, 1, 2, 0, 2, 0), {1}),
        ("type", (0, 1, 2, 2, 0, 1, 1, 2), {0}),
        ("type", (0, 1, 2, 1, 2, 0, 1, 2), set()),
        ("size", (0, 1, 2, 1, 0, 2, 3, 1), {5}),
        ("size", (5, 1, 3, 3, 0, 2, 4, 2), {1}),
        ("color", (4, 3, 7, 1, 1, 2, 2, 6), {8}),
        ("color", (9, 3, 6, 4, 0, 4, 8, 5), {3}),
        ("color", (9, 3, 6, 4, 0, 4, 2, 5), set()),
        ("color", (3, 0, 3, 4, 0, 4, 8, 5), set()),
        ("angle", (3, 3, 3, 1, 1, 1, 7, 7), {7}),
        ("angle", (1, 2, 3, 1, 2, 3, 1, 2), set()),
        ("size", (1, 0, 2, 0, 1, 2, 1, 1), {3}),
    ],
)
def test_rules_of_an_attribute(attribute, levels, left):
    found = {panel[0][0] for panel in raven.ninth(column(attribute, levels))}
    if left:
        assert {getattr(one, attribute) for one in found} == left
    else:  # no rule fits: nothing is known
        assert raven.allowed(column(attribute, levels))[0].levels[attribute] is None


P = {
    letter: frozenset(places.split())
    for letter, places in {
        "a": "TL",
        "b": "TR",
        "c": "BL",
        "d": "BR",
        "ab": "TL TR",
        "ac": "TL BL",
        "bc": "TR BL",
        "cd": "BL BR",
        "abc": "TL TR BL",
        "bd": "TR BR",
        "abcd": "TL TR BL BR",
        "bcd": "TR BL BR",
        "da": "BR TL",
    }.items()
}


@pytest.mark.parametrize(
    ("rows", "left"),
    [
        ("ab ab ab|c c c|bd bd", "bd"),
        ("a b c|b c a|c a", "b"),
        ("c b a|d c b|bc ab", "da"),
        ("a b ab|ac bc abc|c d", "cd"),
        ("abc cd ab|bcd bc d|ab bc", "a"),
        ("ab c bd|c bd ab|bd ab", "c"),
        ("a bd abc|d ab bcd|b cd", 3),
        ("ab a abc|bcd a abcd|c da", 3),
        ("abc a cd|b bd abc|ac bcd", 1),
        ("abcd a abc|abc cd b|ab a", 1),
        ("ab a cd|c abc b|ab d", ""),
    ],
)
def test_rules_of_places_and_numbers(rows, left):
    found = raven._third_places([[P[one] for one in row.split()] for row in rows.split("|")])
    if isinstance(left, int):  # a rule of numbers: any places
        assert found == {places for places in raven._GRID if len(places) == left}
    else:
        assert found == {P[one] for one in left.split()}


def test_entities_that_differ():
    """They keep what they have along a row whose number of entities stays, else they are unknown."""
    kept = [GRID] * 6 + [((Entity(1, 2, 3, 4, "TL"), Entity(2, 3, 4, 5, "TR")),)] * 2
    left = raven.allowed(kept)[0]
    assert left.levels["size"] == {(1, 2)} and left.places == {P["ab"]} and left.fits(kept[7][0])
    assert not left.fits((Entity(2, 2, 3, 4, "TL"), Entity(2, 3, 4, 5, "TR")))
    assert raven.allowed([GRID, FIRST.context[0]] * 4)[0].levels["size"] is None
    with pytest.raises(DataError, match="The ninth panels of a grid cannot be listed: use solve"):
        raven.ninth(kept)


def test_the_first_published_problem_by_hand():
    assert raven.ninth(FIRST.context) == [FIRST.answer] and raven.consistent(FIRST) == (0,)
    assert raven.solve(FIRST) == 0 == raven.majority_vote(FIRST.candidates)
    lost = Problem(SINGLE, FIRST.context, FIRST.candidates[1:], 0)
    assert raven.consistent(lost) == () and raven.solve(lost) == 0
    assert [len(raven.ninth(column("size", (1, 0, 2, 0, 1, 2, 1, 1))))] == [1]


@pytest.mark.parametrize(("configuration", "answer_set"), ALL)
def test_drawn_problems_are_solved_by_their_rules(drawn, configuration, answer_set):
    problems = drawn[configuration, answer_set]
    found = [raven.consistent(problem) for problem in problems]
    assert all(problem.target in left for problem, left in zip(problems, found, strict=False))
    assert np.mean([len(left) == 1 for left in found]) > 0.97
    for problem in problems:
        assert len({*problem.candidates}) == 8 and len(problem.context) == 8
        assert raven.configuration_of(problem.answer) == configuration
        if configuration == INSIDE:
            assert all(panel[0][0].size >= 3 and panel[0][0].color == 0 for panel in problem.candidates)
    places = Counter(problem.target for problem in problems)
    assert {*places} == {*range(8)} and max(places.values()) < 40
    again = raven.generate(configuration, 150, 2, answer_set)
    assert problems == again != raven.generate(configuration, 150, 3, answer_set)


@pytest.mark.parametrize("configuration", raven.CONFIGURATIONS)
def test_only_published_answers_give_themselves_away(drawn, configuration):
    share = {
        name: np.mean(
            [raven.majority_vote(one.candidates) == one.target for one in drawn[configuration, name]]
        )
        for name in raven.ANSWER_SETS
    }
    assert share["published"] > 0.85 and share["balanced"] < 0.22


def differing(problem, panel):
    return {
        (i, name)
        for i, (ours, theirs) in enumerate(zip(problem.answer, panel, strict=False))
        for name in raven.LEVELS
        if ours[0].position == "" and getattr(ours[0], name) != getattr(theirs[0], name)
    }


@pytest.mark.parametrize("configuration", [SINGLE, INSIDE])
def test_answer_sets(drawn, configuration):
    for problem in drawn[configuration, "published"]:
        assert [len(differing(problem, panel)) for panel in problem.candidates].count(1) == 7
    for problem in drawn[configuration, "balanced"]:
        changed = [differing(problem, panel) for panel in problem.candidates]
        assert len(set().union(*changed)) == 3
        assert sorted(map(len, changed)) == [0, 1, 1, 1, 2, 2, 2, 3]


def test_balanced_answers_on_grids(drawn):
    """Each place, number of entities or set of levels that is halved stands in four of the eight answers."""
    for problem in drawn[FOUR, "balanced"]:
        layouts = Counter(frozenset(one.position for one in panel[0]) for panel in problem.candidates)
        assert sorted(layouts.values()) in ([8], [4, 4])
        for name in raven.GOVERNED:
            levels = Counter(
                (len(panel[0]), tuple(getattr(one, name) for one in panel[0])) for panel in problem.candidates
            )
            assert sorted(levels.values()) in ([8], [4, 4], [2, 2, 2, 2])


@pytest.mark.parametrize(("configuration", "format"), [*product(raven.CONFIGURATIONS, raven.FORMATS)])
def test_prompts_and_rows_can_be_undone(drawn, configuration, format):
    problems = drawn[configuration, "published"][:60]
    for problem, row in zip(problems, raven.rows(problems, format), strict=False):
        text, answer = raven.prompt(problem, format)
        assert raven.parse_prompt(text, format) == (problem.context, problem.candidates)
        assert raven.LETTERS.index(answer) == problem.target
        text, answer = raven.prompt(problem, format, open=True)
        assert raven.parse_prompt(text, format) == (problem.context, ())
        assert raven.parse_panel(answer, format) == problem.answer
        assert raven.read_row(row) == (*problem.context, problem.answer)
        assert [raven.read_words(words, format) for words in row["candidates"]] == [*problem.candidates]
        asked = row["answer"].index(True)
        assert row["words"][asked:] == row["candidates"][row["target"]] and all(row["answer"][asked:])
        assert [word for word, said in zip(row["words"], row["supervised"], strict=False) if not said] == [
            *"||;||;||"
        ]
    if configuration == SINGLE:
        lengths = {len(row["words"]) for row in raven.rows(problems, format)}
        assert lengths == {9 * (4 if format == "symbolic" else 6) + 8}


def test_formats_share_separators_alone(drawn):
    symbolic, text = (
        {word for problems in drawn.values() for row in raven.rows(problems, format) for word in row["words"]}
        for format in ("symbolic", "text")
    )
    assert symbolic & text == {"|", ";", ","} and symbolic | text == {*raven.WORDS}


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda: raven.generate("nine"),
            "RAVEN knows no 'nine'; choose one of center_single, distribute_four",
        ),
        (
            lambda: raven.generate(answer_set="fair"),
            "RAVEN knows no 'fair'; choose one of published, balanced",
        ),
        (lambda: raven.read(part="dev"), "RAVEN knows no 'dev'; choose one of train, val, test"),
        (lambda: raven.read(FOUR, "train"), "RAVEN has no file of distribute_four, part train; take test"),
        (lambda: raven.read(FOUR, open=True), "RAVEN has no open file of distribute_four, part test"),
        (
            lambda: raven.prompt(FIRST, "image"),
            "Unknown format 'image' of RAVEN; choose one of text, symbolic",
        ),
        (lambda: raven.rows([FIRST], "image"), "Unknown format 'image' of RAVEN"),
        (lambda: raven.parse_panel("[(D, B, F, F,), ", "symbolic"), "is no symbolic panel of RAVEN, or"),
        (lambda: raven.parse_panel("", "text"), "'' is no text panel of RAVEN"),
        (lambda: raven.read_words(["sA", "cA", "tB"], "symbolic"), "'sA cA tB' is no compact symbolic panel"),
        (lambda: raven.read_words(["sA", "cA", "tB", "aA", "x"], "symbolic"), "is no compact symbolic panel"),
        (
            lambda: raven.load(source="file", answer_set="balanced"),
            "The files have the published answer sets, not 'balanced': use source='generator'",
        ),
        (lambda: raven.load(source="web"), "Unknown source 'web' of RAVEN; choose 'generator' or 'file'"),
    ],
)
def test_what_is_unknown_is_refused(call, sentence):
    with pytest.raises(DataError, match=sentence):
        call()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda text: text[2:], "is no prompt of RAVEN: it must begin with an instruction and end with a"),
        (lambda text: text[:-4], "end with a question of the source"),
        (lambda text: text.replace("\n3. ", "\n4. "), "has panels 1, 2, 4, 4, .* expected 1 to 8 and A to H"),
        (
            lambda text: text.replace("large orange", "large grey"),
            "is no text panel of RAVEN, or not a whole one",
        ),
    ],
)
def test_a_wrong_prompt_is_refused(change, sentence):
    with pytest.raises(DataError, match=sentence):
        raven.parse_prompt(change(raven.prompt(FIRST)[0]))


def line(problem, **options):
    text, answer = raven.prompt(problem, **options)
    return json.dumps({"input": [{"role": "user", "content": text}], "ideal": answer})


def test_files_are_read_and_wrong_lines_refused(drawn, monkeypatch):
    problems = drawn[INSIDE, "published"][:2]
    text = "".join(f"{line(problem)}\n" for problem in problems)
    assert raven.parse_lines(text, "few.jsonl") == problems
    [opened] = raven.parse_lines(line(FIRST, open=True, format="symbolic"), "few.jsonl", "symbolic")
    assert opened == Problem(SINGLE, FIRST.context, FIRST.candidates[:1], 0)
    wrong = (
        line(FIRST)[:-30],
        "[]",
        line(FIRST).replace('"A"', '"I"'),
        line(FIRST).replace("circle", "star"),
    )
    for one in wrong:
        with pytest.raises(DataError, match="^few.jsonl, line 3 is no text problem of RAVEN: .* Take a"):
            raven.parse_lines(f"{text}{one}\n", "few.jsonl")
    monkeypatch.setattr(files, "read", lambda name: line(FIRST, format="symbolic").encode())
    data = raven.load(source="file", format="symbolic")
    assert data["train"]["response"][:] == data["test"]["response"][:] == ["A"]
    assert {*raven.load(FOUR, "file", format="symbolic")} == {"test"}


def test_load():
    data = raven.load(INSIDE, n_train=6, n_test=4, open=True)
    assert {part: rows.num_rows for part, rows in data.items()} == {"train": 6, "test": 4}
    assert data["train"].column_names == ["prompt", "response", "target"]
    assert data["test"]["response"][0].startswith("On an image, a second figure is")


def rule_of(levels):
    """The kind of rule of nine levels, by their differences; of several kinds the first."""
    rows = np.reshape(levels, (3, 3))
    steps = np.unique(np.diff(rows))
    if len(steps) == 1:
        return f"step {steps[0]}"
    if (np.sort(rows) == np.sort(rows[0])).all():
        return "three"
    return "sum" if (rows[:, 2] > rows[:, 0]).any() else "difference"


def features(problems):
    """Counts that a wrong rule would change, by what is counted."""
    found = {}
    for i in range(len(problems[0].answer)):
        nine = [[panel[i] for panel in (*problem.context, problem.answer)] for problem in problems]
        for name in raven.GOVERNED:
            told = [
                [tuple(getattr(one, name) for one in component) for component in components]
                for components in nine
            ]
            alike = [
                [values[0] for values in one] for one in told if all(len({*values}) == 1 for values in one)
            ]
            mixed = Counter({"mixed": len(told) - len(alike)})
            found[f"{i} {name}: rules"] = Counter(map(rule_of, alike)) + mixed
            found[f"{i} {name}: first"] = Counter((rule_of(one), one[0]) for one in alike)
            found[f"{i} {name}: answers"] = Counter(
                sum(
                    getattr(panel[i][0], name) != getattr(problem.answer[i][0], name)
                    for panel in problem.candidates
                )
                for problem in problems
            )
        found[f"{i} angle"] = Counter(components[0][0].angle for components in nine)
        found[f"{i} numbers"] = Counter(tuple(map(len, components[:3])) for components in nine)
        found[f"{i} places"] = Counter(one.position for components in nine for one in components[0])
        found[f"{i} number of answers"] = Counter(
            sum(len(panel[i]) != len(problem.answer[i]) for panel in problem.candidates)
            for problem in problems
        )
    return found


@needs_files
@pytest.mark.parametrize("configuration", raven.CONFIGURATIONS)
def test_generated_problems_are_distributed_as_the_published_ones(configuration):
    theirs = features(published(configuration, "test", "symbolic")[:1000])
    ours = features(raven.generate(configuration, 1000, seed=1))
    for name in ours:
        table = np.array(
            [
                [counts[value] for value in {**ours[name], **theirs[name]}]
                for counts in (ours[name], theirs[name])
            ]
        )
        table = table[:, table.sum(axis=0) >= 20]
        assert table.shape[1] == 1 or chi2_contingency(table).pvalue > 1e-3, name


@needs_files
@pytest.mark.parametrize("configuration", raven.CONFIGURATIONS)
def test_the_solver_and_the_vote_on_published_problems(configuration):
    """The data card says how often they are right; the right answer is never among those ruled out."""
    problems = published(configuration, "test", "symbolic")
    left = [raven.consistent(problem) for problem in problems]
    votes = [raven.majority_vote(problem.candidates) == problem.target for problem in problems]
    assert all(problem.target in one for problem, one in zip(problems, left, strict=False))
    solved = np.mean([one[0] == problem.target for one, problem in zip(left, problems, strict=False)])
    shares = (solved, np.mean([len(one) == 1 for one in left]), np.mean(votes))
    card = (Path(__file__).parents[3] / "data" / "README.md").read_text(encoding="utf-8")
    said = " | ".join(f"{100 * share:.2f} %" for share in shares)
    assert f"| {configuration} | {len(problems):,} | {said} |" in card
    assert configuration != FOUR or np.mean(votes[:1000]) == 0.906


@needs_files
@pytest.mark.parametrize("configuration", raven.CONFIGURATIONS)
def test_the_published_formats_say_the_same(configuration):
    symbolic, text = (published(configuration, "test", format) for format in ("symbolic", "text"))
    assert symbolic == text and len(text) == (1000 if configuration == SINGLE else 2000)
    assert all(
        raven.read_row(row)[8] == problem.answer
        for format in raven.FORMATS
        for problem, row in zip(text[:20], raven.rows(text[:20], format), strict=False)
    )


@needs_files
@pytest.mark.parametrize("format", raven.FORMATS)
def test_published_prompts_are_written_again(format):
    choice, open = raven.read(SINGLE, "val", format), raven.read(SINGLE, "val", format, open=True)
    assert [one.context for one in choice] == [one.context for one in open]
    assert [one.answer for one in choice] == [one.answer for one in open]
    name = f"raven/{format}{{}}/center_single_val.jsonl"
    for end, opened in (("", False), ("-open", True)):
        rows = [json.loads(one) for one in files.read(name.format(end)).decode().splitlines()[:100]]
        for row, problem in zip(rows, choice, strict=False):
            assert raven.prompt(problem, format, opened) == (
                "\n".join(one["content"] for one in row["input"]),
                row["ideal"],
            )
