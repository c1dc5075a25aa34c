"""The court: four tasks and their controls, methods that ship, methods that are refused, cards by rule."""

import json
import re
import shlex
import sys
import textwrap
from collections import Counter
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from causalnb import cli
from causalnb.apps.court import cases, child, row_losses
from causalnb.apps.court.card import VERDICTS, board, command, competence, verdict
from causalnb.apps.court.judge import ARMS, SHIPPED, Asked, judge, method_file, read, request_of, trial
from causalnb.errors import FileError, LabError

PLAIN = "def build(base, task):\n    return base\n"
SECONDS = 600.0


@pytest.fixture(scope="module")
def made():
    return {name: cases.case(name, "quick") for name in cases.CASES}


def written(folder: Path, text: str, name: str = "mine.py") -> Path:
    file = folder / name
    file.write_text(textwrap.dedent(text), encoding="utf-8")
    return file


class Judge:
    """The judge's end of a connection, which asks for three prompts of a case."""

    def __init__(self, case: cases.Case):
        self.prompts = [row["prompt"] for row in case.iid[:3]]

    def send_bytes(self, message: bytes) -> None:
        assert json.loads(message) == {"trained": True}

    def recv_bytes(self) -> bytes:
        return json.dumps(self.prompts).encode()


def tried(case: cases.Case, method: Path | None) -> dict:
    """What is told of one training of a method on a case, here."""
    try:
        return child.trained(Judge(case), request_of(case, method, case.train, case.steps, 0))
    except child.Refused as error:
        return {"refused": str(error)}
    finally:
        sys.modules.pop("method", None)


def apart(case: cases.Case, method: Path | None, seconds: float = SECONDS) -> dict:
    """The same in a process of its own."""
    return trial(request_of(case, method, case.train, case.steps, 0), Judge(case).prompts, seconds)


def test_every_task_keeps_its_tests_apart(made):
    for case in made.values():
        train, tests = (
            {(row["prompt"], row["answer"]) for part in parts for row in part}
            for parts in ((case.train, case.development), (case.iid, case.challenge))
        )
        assert not train & tests, case.name
        assert {len(part) for part in (case.development, case.iid)} == {8} and len(case.challenge) >= 8


def test_what_is_told_is_the_reason_and_the_challenge_is_not_reached_by_the_cue(made):
    for row in [*cases.cued(400, 0, 0.97), *cases.cued(400, 1, 0.5)]:
        first, second = (half.split() for half in row["prompt"].split(" | "))
        adverb = second.pop(2)
        swapped = [*first[:1], first[4], first[2], first[3], first[1]]
        assert second == (first if row["answer"] == "yes" else swapped)
        (cue,) = (answer for answer, adverbs in cases.ADVERBS.items() if adverb in adverbs)
        assert row["told"] == f"says {cue}, is {row['answer']}"
    right = [
        sum(row["told"] in ("says yes, is yes", "says no, is no") for row in cases.cued(4000, 0, agree))
        / 4000
        for agree in (cases.AGREE, 0.5)
    ]
    assert right == pytest.approx([cases.AGREE, 0.5], abs=0.03)
    alone = [row for row in made["compose"].train if "jump" in row["prompt"].split()]
    assert {row["prompt"] for row in alone} == {"jump"}
    assert all("jump" in row["prompt"].split() for row in made["compose"].challenge)
    shown = {row["prompt"][0] for row in made["modules"].train if row["told"] == "letters"}
    assert shown <= set("abcdef") and {row["prompt"][0] for row in made["modules"].challenge} <= set("ghij")
    row = made["causes"].train[0]
    assert [cause.split()[0] for cause in row["told"][row["answer"]]] == ["Smoking", "Weight", "Exercise"]


def test_the_informed_control_uses_what_is_told_and_the_placebo_does_not(made):
    for name in ("shortcut", "modules"):
        counts = Counter(row["told"] for row in made[name].informed())
        assert len(set(counts.values())) == 1 and set(counts) == {row["told"] for row in made[name].train}
    rows = {(row["prompt"], row["answer"]) for row in made["compose"].informed()}
    assert any(re.search(r"\bjump\b", prompt) and " " in prompt for prompt, _ in rows)  # as a swap makes them
    swapped = made["causes"].informed()[len(made["causes"].train) :]
    for row, new in zip(made["causes"].train, swapped, strict=True):
        assert new["told"] == row["told"] and new["answer"] == row["answer"]
    assert [row["prompt"] for row in swapped] != [row["prompt"] for row in made["causes"].train]
    for case in made.values():
        placebo = case.placebo(0)
        assert [row["prompt"] for row in placebo] == [row["prompt"] for row in case.train]
        assert [row["told"] for row in placebo] != [row["told"] for row in case.train]
        if case.label != "graph":
            assert sorted(row["told"] for row in placebo) == sorted(row["told"] for row in case.train)
    causes = made["causes"].placebo(0)[0]["told"]
    assert not {cause.split()[0] for cause in next(iter(causes.values()))} & {"Smoking", "Weight", "Exercise"}


def test_swapped_words_answer_right(made):
    from causalnb.tasks import scan

    rows = cases.swapped_words(made["compose"].train)
    assert all(scan.interpret(row["prompt"]) == row["answer"] for row in rows)
    assert any("jump" in row["prompt"] and row["prompt"] != "jump" for row in rows)


def test_the_loss_of_a_row_is_the_mean_over_its_answer():
    logits = torch.randn(2, 4, 5, generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([[-100, -100, 1, 2], [-100, 3, -100, -100]])
    by_hand = [
        -(logits[0, 1].log_softmax(-1)[1] + logits[0, 2].log_softmax(-1)[2]) / 2,
        -logits[1, 0].log_softmax(-1)[3],
    ]
    torch.testing.assert_close(row_losses(logits, labels), torch.stack(by_hand))


@pytest.mark.parametrize("name", sorted(file.stem for file in SHIPPED.glob("[!_]*.py")))
def test_a_method_that_ships_trains_on_its_first_task_and_answers(name, made):
    file = method_file(name)
    told = tried(made[Asked(file).tasks[0]], file)
    assert "refused" not in told and len(told["answers"]) == 3 and told["trained"] > 0
    assert 14 <= len(file.read_text(encoding="utf-8").splitlines()) + 9 and len(told["weights"]) == 16


def test_the_method_in_the_readme_trains(made, tmp_path):
    text = (SHIPPED.parents[3] / "README.md").read_text(encoding="utf-8")
    code = text.partition("### Your own method")[2].partition("```python\n")[2].partition("```")[0]
    told = tried(made["modules"], written(tmp_path, code))
    assert "refused" not in told and told["trained"] > 0


def body(text: str) -> str:
    return PLAIN + textwrap.dedent(text)


APART = {  # what only a process of its own bears
    "a process that dies": ("import os\ndef build(base, task):\n    os._exit(3)", "by itself with code 3"),
    "the tests drawn again": (
        "def build(base, task):\n    from causalnb.tasks import scan\n    return base",
        "build imports causalnb.tasks in line 2, by which the tests are drawn: take rows from task.train",
    ),
}
REFUSED = {
    "no build": ("x = 1", "there is no build: write def build"),
    "a file that is no Python": ("def build(:", "its first lines raised SyntaxError in line 1"),
    "a build that raises": ("def build(base, task):\n    raise ValueError('no idea')", "line 2 (no idea)"),
    "a process that leaves": (
        "import sys\ndef build(base, task):\n    sys.exit(3)",
        "build raised SystemExit",
    ),
    "no module": ("def build(base, task):\n    return 7", "build gave a int: return a torch.nn.Module"),
    "nothing to train": (
        "def build(base, task):\n    return base.requires_grad_(False)",
        "nothing to train: leave requires_grad on",
    ),
    "a loss of NaN": (
        body(
            "def loss(model, batch, task):\n    return model(batch['input_ids']).logits.mean() * float('nan')"
        ),
        "the loss is nan at step 1",
    ),
    "a loss of nothing": (
        body("import torch\ndef loss(model, batch, task):\n    return torch.ones(())"),
        "depends on nothing that is trained",
    ),
    "a loss that changes nothing": (
        body(
            "def loss(model, batch, task):\n"
            "    return 0 * sum(p.sum() for p in model.parameters() if p.dim() == 1)"  # which do not decay
        ),
        "changed no weight",
    ),
    "the test rows": ("def build(base, task):\n    return task.test", "its test rows stay with the judge"),
    "batches of other rows": (
        body("def batches(task):\n    return [[10**6]] * task.steps"),
        "with numbers from 0 to 95",
    ),
    "answers in words": (
        body("def answer(model, prompts, task):\n    return ['High'] * len(prompts)"),
        "answer gave a list for",
    ),
    "a measure that is none": (
        body("def measure(model, task):\n    return 1"),
        "measure gave 1: give a dict",
    ),
}


@pytest.mark.parametrize("text, sentence", REFUSED.values(), ids=list(REFUSED))
def test_a_method_is_refused_in_one_sentence(text, sentence, made, tmp_path):
    told = tried(made["causes"], written(tmp_path, text))
    assert sentence in told["refused"] and "\n" not in told["refused"]


@pytest.mark.parametrize("text, sentence", APART.values(), ids=list(APART))
def test_a_process_of_its_own_bears_it(text, sentence, made, tmp_path):
    assert sentence in apart(made["causes"], written(tmp_path, text))["refused"]


def test_a_training_is_the_same_in_a_process_of_its_own(made):
    here, there = (call(made["causes"], None) for call in (tried, apart))
    assert {**here, "seconds": 0.0} == {**there, "seconds": 0.0}


def test_a_method_that_takes_for_ever_is_ended_at_the_bound(made, tmp_path):
    apart(made["causes"], None)  # so that the server of processes runs
    file = written(tmp_path, "def build(base, task):\n    while True:\n        pass")
    assert "more than 3 s, the bound of one training" in apart(made["causes"], file, 3.0)["refused"]


def test_a_method_may_have_a_loss_a_collator_batches_answers_and_a_measure(made, tmp_path):
    file = written(
        tmp_path,
        """
        import torch
        from causalnb.apps.court.task import collated

        def build(base, task):
            base.seen = 0
            return base

        def collator(rows, task):
            return collated(rows, task) | {"rows": torch.tensor([len(rows)])}

        def batches(task):
            return [[0, 1, 2]] * task.steps

        def loss(model, batch, task):
            model.seen += int(batch["rows"])
            ids, labels = batch["input_ids"], batch["labels"]
            assert (batch["causes"].sum(1) == 6).all()
            return model(ids, attention_mask=batch["attention_mask"], labels=labels).loss

        def answer(model, prompts, task):
            return torch.full((len(prompts), 1), task.tokenizer.eos_token_id)

        def measure(model, task):
            return {"rows": model.seen}
        """,
    )
    told = tried(made["causes"], file)
    assert told["measures"] == {"rows": 12.0} and told["answers"] == [[2]] * 3


def arms(**challenge):
    """Records of five seeds: 99 % i.i.d., and a challenge around each arm's number."""
    values = {
        "plain": 50,
        "longer": 50,
        "informed": 50,
        "placebo": 50,
        "compute": 50,
        "method": 70,
    } | challenge
    shifts = (-1.0, -0.5, 0.0, 0.5, 1.0)
    return {
        arm: {
            seed: {
                "iid": 0.99,
                "challenge": (value + (shift if arm == "method" else 0)) / 100,
                "weights": arm,
            }
            for seed, shift in enumerate(shifts)
        }
        for arm, value in values.items()
    }


def test_the_verdict_is_a_rule():
    assert verdict(arms())[0] == "helps"
    word, why = verdict(arms(informed=70))
    assert word == "no more than a control" and why.endswith("not above same labels as rows")
    assert verdict(arms(longer=70))[1] == "above plain tuning, not above twice the steps"
    dear = arms()
    for record in dear["method"].values():
        record["iid"] = 0.9
    assert verdict(dear) == ("helps", "above plain tuning and every control; it loses 9.0 points i.i.d.")
    assert verdict(arms(method=50))[0] == "no effect shown"
    assert verdict(arms(method=30))[0] == "harms"
    lame = arms()
    for record in lame["plain"].values():
        record["iid"] = 0.9
    assert verdict(lame) == ("no verdict", "plain tuning has 90.0 % i.i.d., below 95 %")
    rising = arms()
    for record in rising["plain"].values():
        record["iid"] = 0.96
    assert "twice the steps give plain tuning 3.0 points more" in competence(rising)
    single, four = (
        {arm: {i: records[i] for i in range(n)} for arm, records in arms().items()} for n in (1, 4)
    )
    assert verdict(single) == ("no verdict", "1 seed of at least 5")
    assert verdict(four) == ("no verdict", "4 seeds of at least 5")
    blind = arms(informed=90)
    for seed, record in blind["placebo"].items():
        record |= blind["method"][seed]
    assert verdict(blind)[0] == "helps" and "uses nothing of what it is told" in verdict(blind)[1]
    blind["placebo"][0]["iid"] = 0.98  # the same weights, and other answers: it reads what it is told there
    assert verdict(blind)[0] == "no more than a control"


def test_a_method_gets_its_card_resumes_and_stands_on_the_board(tmp_path):
    file = written(tmp_path, f'"""Nothing new."""\nON = "causes"\n{PLAIN}')
    out = tmp_path / "my court"
    command = ["try", str(file), "--seeds", "1", "--profile", "quick", "--output", str(out)]
    said = CliRunner().invoke(cli.app, command)
    assert said.exit_code == 0 and "causes\tno verdict\tplain tuning has" in said.output
    text = (out / "mine/card.md").read_text(encoding="utf-8")
    assert "**no finding**" in text and "![Accuracy in the challenge of mine" in text
    assert all(words in text for words in ARMS.values())
    again = ["causalnb", *command[:2], "--on", "causes", *command[2:]]
    assert f"\n{shlex.join(again)}\n" in text
    assert f"all cards: causalnb board '{out}'" in said.output
    assert (out / "mine/card.svg").read_text(encoding="utf-8").count("<svg") == 1
    card = json.loads((out / "mine/card.json").read_bytes())
    assert card["about"] == "Nothing new." and card["tasks"]["causes"]["verdict"] in VERDICTS
    lines = CliRunner().invoke(cli.app, ["board", str(out)]).output.splitlines()
    assert len(lines) == 1 and lines[0].startswith("mine (quick)\tcauses\tno verdict")

    before = {path: path.read_bytes() for path in out.glob("*/causes-*.json")}
    assert len(before) >= 5
    lost = out / "mine/causes-placebo-0.json"
    lost.unlink()
    lines = []
    found = judge(Asked(file, seeds=1, profile="quick"), out, lines.append)
    assert [line.split(",")[1] for line in lines] == [" placebo"]
    assert (
        found["causes"]["placebo"][0]["weights"]
        == read(lost)["weights"]
        == found["causes"]["method"][0]["weights"]
    )
    assert all(path.read_bytes() == data for path, data in before.items() if path != lost)

    lost.write_text("{", encoding="utf-8")
    with pytest.raises(FileError, match=r"causes-placebo-0.json cannot be read .*: restore or delete it"):
        judge(Asked(file, seeds=1, profile="quick"), out)
    lost.unlink()
    written(
        tmp_path, f'ON = "causes"\n{PLAIN}    raise ValueError("worse")\n'.replace("    return base\n", "")
    )
    with pytest.raises(LabError, match=r"mine.py, on causes, seed 0: build raised ValueError .* is kept"):
        judge(Asked(file, seeds=1, profile="quick"), out)
    (out / "mine/card.json").write_text("{}", encoding="utf-8")
    with pytest.raises(FileError, match="card.json cannot be read"):
        board(out)


def test_a_card_ends_with_the_command_that_repeats_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("my methods").mkdir()
    Path("my methods/one.py").write_text(f'ON = "causes,shortcut"\n{PLAIN}', encoding="utf-8")
    for asked, line in (
        (
            Asked(method_file("irm"), seeds=2, profile="gpu"),
            "irm --on shortcut,compose,modules --seeds 2 --profile gpu",
        ),
        (
            Asked(method_file("my methods/one.py"), seconds=60.5, profile="laptop"),
            "'my methods/one.py' --on shortcut,causes --seeds 5 --profile laptop --seconds 60.5",
        ),
    ):
        assert command(asked) == f"causalnb try {line}"
        words = shlex.split(line)
        named = dict(zip(words[1::2], words[2::2], strict=True))
        again = Asked(
            method_file(words[0]),
            tuple(named["--on"].split(",")),
            int(named["--seeds"]),
            float(named.get("--seconds", Asked.seconds)),
            named["--profile"],
        )
        assert (again.method, again.tasks, again.seconds) == (asked.method, asked.tasks, asked.seconds)


@pytest.mark.parametrize(
    "words, sentence",
    [
        (["nowhere.py"], "'nowhere.py' is no method: give a .py file with def build"),
        (["plain", "--on", "compose,chess"], "--on names 'chess': choose among shortcut,compose"),
        (["c2dlm", "--on", "shortcut"], "c2dlm.py is for causes, as its ON says: leave shortcut out"),
        (["plain", "--seeds", "0"], "--seeds is 0: give 1 to 100"),
        (["plain", "--seconds", "0"], "--seconds is 0.0: give the seconds"),
    ],
)
def test_a_wrong_request_is_told_in_a_sentence(words, sentence, tmp_path):
    said = CliRunner().invoke(cli.app, ["try", *words, "--output", str(tmp_path / "court")])
    assert said.exit_code == 2 and sentence in said.output and not (tmp_path / "court").exists()


def test_the_tasks_of_a_method_are_a_text_in_its_file(tmp_path):
    for on in ('ON = "shortcut, modules"', 'ON: str = "shortcut,modules"'):
        asked = Asked(written(tmp_path, f"{on}\n{PLAIN}"))
        assert asked.tasks == ("shortcut", "modules")
    assert len(Asked(written(tmp_path, f"ON: str\n{PLAIN}")).tasks) == 4
    for on in ('ON = ("shortcut", "modules")', "ON = None", 'ON: list = ["shortcut"]', "ON = here.text"):
        with pytest.raises(LabError, match='the ON of mine.py is no text: write ON = "shortcut,modules"'):
            Asked(written(tmp_path, f"{on}\n{PLAIN}"))


def test_a_folder_without_cards_is_told(tmp_path):
    said = CliRunner().invoke(cli.app, ["board", str(tmp_path)])
    assert said.exit_code == 2 and "holds no card: give the --output of causalnb try" in said.output


def test_what_a_method_does_before_training_counts_too(made, tmp_path):
    """Its seconds and its state: an early start in build is time, a note in a buffer is information."""
    file = written(
        tmp_path,
        """
        import time

        def build(base, task):
            end = time.process_time() + 1
            while time.process_time() < end:
                pass
            return base
        """,
    )
    assert tried(made["causes"], file)["seconds"] > 1 + 0.5 * tried(made["causes"], None)["seconds"]
    file = written(
        tmp_path,
        """
        import torch

        def build(base, task):
            base.register_buffer("note", torch.tensor(len(task.train[0]["told"])))
            return base
        """,
        "notes.py",
    )
    told, placebo = (
        child.trained(Judge(case), request_of(case, file, rows, case.steps, 0))
        for case in [made["causes"]]
        for rows in (case.train, [row | {"told": {}} for row in case.train])
    )
    assert told["weights"] != placebo["weights"]


def test_measures_have_the_same_names_in_each_training(tmp_path):
    file = written(
        tmp_path,
        f'ON = "causes"\n{PLAIN}def measure(model, task):\n    return {{f"seed {{task.seed}}": 1.0}}\n',
    )
    with pytest.raises(
        LabError, match=r"mine.py, on causes, method, seed 1: measure gave seed 1 and before seed 0"
    ):
        judge(Asked(file, seeds=2, profile="quick"), tmp_path / "court")


def test_the_board_of_the_course_is_drawn_with_its_verdicts(tmp_path):
    from causalnb.apps.court.card import board_table, draw_board, write

    for name in ("irm", "c2dlm"):
        asked = Asked(method_file(name), seeds=1, profile="quick")
        write(asked, judge(asked, tmp_path), tmp_path)
    cards = board(tmp_path)
    figure, alt = draw_board(cards)
    assert [ax.get_title() for ax in figure.axes] == list(cases.CASES)
    assert (
        "causes: plain" in alt and alt.count("(no verdict)") == 4 and "irm" not in alt.partition("causes:")[2]
    )
    table = board_table(cards).splitlines()
    assert len(table) == 2 + sum(len(one["tasks"]) for one in cards)
    arms = cards[0]["tasks"]["causes"]["arms"]  # C2DLM's
    ((name, value),) = arms["method"]["measures"].items()
    assert table[2].endswith(f"| {name} {value:.2f} ({arms['placebo']['measures'][name]:.2f}) |")
    ours, rows = (arms[arm]["seconds"] / arms["plain"]["seconds"] for arm in ("method", "informed"))
    assert f"| {ours:.2f} ({rows:.2f}) |" in table[2]


def test_a_placebo_that_changes_nothing_on_the_first_seed_is_not_made_again(tmp_path):
    """Else it is: a method that is told of its rows has one for each seed."""
    deaf = written(tmp_path, f'ON = "causes"\n{PLAIN}', "deaf.py")
    for file, made in ((deaf, [0]), (method_file("c2dlm"), [0, 1])):
        found = judge(Asked(file, seeds=2, profile="quick"), tmp_path / "court")["causes"]
        kept = sorted(path.name for path in (tmp_path / "court" / file.stem).glob("causes-placebo-*"))
        assert kept == [f"causes-placebo-{seed}.json" for seed in made]
        same = [found["placebo"][i]["weights"] == found["method"][i]["weights"] for i in range(2)]
        assert same == [file is deaf] * 2
    assert found["placebo"][1]["arm"] == "placebo"
