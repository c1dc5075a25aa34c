"""Reasoning: synthetic rows that name their concepts, and checkers against every answer of the real files."""

import json
import os
import re
from pathlib import Path

import datasets
import networkx
import pytest

from causalnb.errors import DataError
from causalnb.tasks import files, load, reasoning, words

REAL = Path(os.environ.get("CAUSALNB_DATA", ""))
needs_files = pytest.mark.skipif(
    not (os.environ.get("CAUSALNB_DATA") and (REAL / "gsm8k").is_dir()),
    reason="needs CAUSALNB_DATA, a mirror of the data files",
)
ROWS = {
    "gsm8k": {"question": "1 + 1 ?", "answer": "It is 2.\n#### 2"},
    "math500": {"problem": "Half?", "solution": "\\boxed{\\frac12}", "answer": "\\frac{1}{2}"},
    "sat": {
        "passage": "",
        "question": "2?",
        "options": ["(A)1", "(B)2"],
        "label": "B",
        "other": {"solution": "Choice B is correct. Choice A is incorrect."},
    },
    "arc_c": {
        "instruction": "Which? Answer1: x Answer2: y",
        "output": "the correct answer is answer2",
        "answer": "answer2",
    },
}


def other(answer: str, kind: str) -> str:
    return "ABCDE"[("ABCDE".index(answer) + 1) % 4] if kind == "choice" else str(int(answer) + 1)


@pytest.mark.parametrize("task", reasoning.SYNTHETIC)
def test_synthetic_rows(task):
    rows = reasoning.generate(task, 150, seed=1)
    assert len({row["prompt"] for row in rows}) == 150 and rows == reasoning.generate(task, 150, seed=1)
    assert rows != reasoning.generate(task, 150, seed=2)
    kind = reasoning.KINDS[task]
    for row in rows:
        assert reasoning.check(task, row["response"], row["answer"])
        wrong = re.sub(r"(#### |\{ |: )\S+( \}|$)", rf"\g<1>{other(row['answer'], kind)}\2", row["response"])
        assert wrong != row["response"] and not reasoning.check(task, wrong, row["answer"])
        assert words.encode(row["prompt"], row["response"])


@pytest.mark.parametrize("task", reasoning.SYNTHETIC)
def test_concepts_stand_once_and_make_a_graph_without_cycles(task):
    for row in reasoning.generate(task, 150):
        text = f"{row['prompt']} {row['response']}"
        edges = [(cause, effect) for effect, causes in row["graph"].items() for cause in causes]
        graph = networkx.DiGraph(edges)
        assert all(len(reasoning.find(concept, text)) == 1 for concept in graph)
        assert networkx.is_directed_acyclic_graph(graph) and len(edges) >= 3
        assert [concept for concept in graph if not graph.out_degree(concept)] == [list(row["graph"])[-1]]
        for effect in row["graph"]:
            assert effect in row["response"]
        for source in (concept for concept in graph if not graph.in_degree(concept)):
            assert source in row["prompt"]


def test_synthetic_answers_are_true():
    for row in reasoning.generate("purchases", 30):
        first, boxes, each, given = map(int, re.findall(r"\d+", row["prompt"]))
        assert int(row["answer"]) == first + boxes * each - given
    for row in reasoning.generate("equations", 30):
        factor, shift, right = map(int, re.findall(r"-?\d+", row["prompt"]))
        assert factor * int(row["answer"]) + shift == right
    for row in reasoning.generate("systems", 30):
        both, apart = map(int, re.findall(r"= (-?\d+)", row["prompt"]))
        x = dict(re.findall(r"\( (\w) \) (-?\d+)", row["prompt"]))[row["answer"]]
        assert 2 * int(x) == both + apart
    for row in reasoning.generate("ordering", 30):
        pairs = re.findall(r"(\w+) is older than (\w+)", row["prompt"])
        (oldest,) = {a for a, _ in pairs} - {b for _, b in pairs}
        assert dict(re.findall(r"\( (\w) \) (\w+)", row["prompt"]))[row["answer"]] == oldest
    for row in reasoning.generate("kinds", 30):
        rules = dict(re.findall(r"(?:Every )?(\w+) is (?:a )?(\w+)", row["prompt"]))
        pet = re.search(r"What is (\w+)", row["prompt"])[1]
        colour = rules[rules[rules[pet]]]
        assert dict(re.findall(r"\( (\w) \) (\w+)", row["prompt"]))[row["answer"]] == colour
    for row in reasoning.generate("formulas", 30):
        given = {name: int(value) for name, value in re.findall(r"The (\w+) is (\d+)", row["prompt"])}
        left, sign, right = reasoning.FORMULAS[re.search(r"What is the (\w+)", row["prompt"])[1]]
        value = given[left] * given[right] if sign == "*" else given[left] // given[right]
        assert dict(re.findall(r"\( (\w) \) (-?\d+)", row["prompt"]))[row["answer"]] == str(value)


def test_concepts_are_found_as_wholes():
    assert reasoning.find("5", "5 and 53, 2.5, 5.2, (5) a5") == [(0, 1), (21, 22)]
    assert reasoning.find("a + b", "a + b a+b") == [(0, 5)] and reasoning.find("", "abc") == []


def test_load_synthetic():
    data = load("reasoning", task="kinds", n_train=30, n_test=10)
    assert {part: rows.num_rows for part, rows in data.items()} == {"train": 30, "test": 10}
    assert data["test"].column_names == ["prompt", "response", "answer", "graph"]
    assert not {*data["train"]["prompt"]} & {*data["test"]["prompt"]}
    row = data["test"][0]
    assert list(json.loads(row["graph"])) == row["response"].split(" . ")


@pytest.mark.parametrize("task", reasoning.REAL)
def test_files_are_parsed_and_a_wrong_row_is_numbered(task, monkeypatch):
    line = json.dumps(ROWS[task])
    text, two = (f"[{line}]", f"[{line}, {{}}]") if task == "arc_c" else (line, f"{line}\n{{}}")
    (row,) = reasoning.parse(task, text, "few")
    assert set(row) == {"prompt", "response", "answer"}
    assert reasoning.check(task, row["response"], row["answer"])
    with pytest.raises(DataError, match=f"few, row 2: this is no row of {task} .KeyError.; take a "):
        reasoning.parse(task, two, "few")
    with pytest.raises(DataError, match="few, row 1: "):
        reasoning.parse(task, "{", "few")
    monkeypatch.setattr(files, "read", lambda name: text.encode())
    assert load("reasoning", task=task)["test"][0] == {**row, "graph": "{}"}


def test_annotations_are_read_as_they_are(monkeypatch):
    entries = [{"a": ["b", "c"]}, {"a": ["c", "d"], "e": ["a"]}, {"f": "g"}]
    line = json.dumps({"input": "question", "target": "answer", "important": entries})
    monkeypatch.setattr(files, "read", lambda name: f"{line}\n".encode())
    assert reasoning.annotations("svamp_train") == [
        {
            "prompt": "question",
            "response": "answer",
            "malformed": 1,
            "graph": {"a": ["b", "c", "d"], "e": ["a"]},
        }
    ]
    with pytest.raises(DataError, match="annotated file 'more'; choose one of gsm8k_val, mawps_train"):
        reasoning.annotations("more")


HUB_ROWS = {
    "gpqa": {
        "Question": "Why?",
        "Correct Answer": "yes",
        "Incorrect Answer 1": "no",
        "Incorrect Answer 2": "2",
        "Incorrect Answer 3": "3",
    },
    "mmlu_stem": {"question": "Why?", "choices": ["no", "yes", "2", "3"], "answer": 1},
    "s1k": {"question": "Why?", "deepseek_attempt": "so \\boxed{3}", "solution": "3"},
}


@pytest.mark.parametrize("task", reasoning.HUB)
def test_the_hub_is_asked_by_name(task, monkeypatch):
    asked, row = [], HUB_ROWS[task]

    def hub(*names):
        asked.append(names)
        return {"test" if task == "mmlu_stem" else "train": [row]}

    monkeypatch.setattr(datasets, "load_dataset", hub)
    (rows,) = load("reasoning", task=task).values()
    assert asked == [tuple(filter(None, reasoning.HUB[task]))]
    found = rows[0]
    assert reasoning.check(task, found["response"], found["answer"])
    assert task == "s1k" or f"({found['answer']}) yes" in found["prompt"]
    row.pop(next(iter(row)))
    with pytest.raises(DataError, match="its columns have changed"):
        load("reasoning", task=task)


def test_unknown_names_and_counts_are_refused():
    for wrong, sentence in (
        (lambda: load("reasoning", task="chess"), "task 'chess'; choose one of purchases, .*, s1k"),
        (lambda: reasoning.generate("gsm8k", 3), "synthetic task 'gsm8k'; choose one of purchases"),
        (lambda: reasoning.generate("kinds", 0), "0 different rows of 'kinds' were not found"),
        (lambda: reasoning.check("chess", "1", "1"), "task 'chess'; choose one of gsm8k"),
        (lambda: reasoning.parse("gpqa", "", "few"), "'gpqa' has no registered file; gsm8k, .* have"),
    ):
        with pytest.raises(DataError, match=sentence) as refusal:
            wrong()
        assert "\n" not in str(refusal.value)


@needs_files
@pytest.mark.parametrize(("task", "rows"), [("gsm8k", 1319), ("sat", 220), ("arc_c", 1172), ("math500", 500)])
def test_every_real_answer_is_right_and_a_changed_one_wrong(task, rows):
    data = load("reasoning", task=task)
    assert data["test"].num_rows == rows
    for row in data["test"]:
        gold = row["answer"]
        for said in (row["response"], gold, f"The answer is {gold}.", f"<answer>{gold}</answer>"):
            assert reasoning.check(task, said, gold), (said, gold)
        for said in changed(task, gold):
            assert not reasoning.check(task, said, gold), (said, gold)


def changed(task: str, gold: str) -> list[str]:
    if reasoning.KINDS[task] == "choice":
        return [*"ABCDE".replace(gold, ""), f"The answer is ({other(gold, 'choice')})."]
    if task == "gsm8k":
        value = int(gold.replace(",", ""))
        return [f"#### {value + 1}", *([f"{-value}", f"\\boxed{{{value}0}}"] if value else [])]
    digit = re.search(r"\d", gold)
    more = [] if not digit else [gold[: digit.start()] + str((int(digit[0]) + 1) % 10) + gold[digit.end() :]]
    return more + ([f"-{gold}"] if gold != "0" else [])


@needs_files
def test_the_annotated_files():
    found = {name: reasoning.annotations(name) for name in reasoning.ANNOTATED}
    assert [len(rows) for rows in found.values()] == [1319, 1239, 600]
    assert [sum(row["malformed"] for row in rows) for rows in found.values()] == [2, 0, 13]
    assert found["gsm8k_val"][0]["graph"]["25%"] == ["have puppies"]


@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=ascii)
def test_lines_end_at_line_feeds_alone(monkeypatch, end):
    said = "One\u2028two\u2029three\x85?"
    text = json.dumps({**ROWS["math500"], "problem": said}, ensure_ascii=False) + end
    assert [row["prompt"] for row in reasoning.parse("math500", text * 2, "few")] == [said] * 2
    line = json.dumps({"input": said, "target": "answer", "important": []}, ensure_ascii=False) + end
    monkeypatch.setattr(files, "read", lambda name: line.encode() * 2)
    assert [row["prompt"] for row in reasoning.annotations("svamp_train")] == [said] * 2
