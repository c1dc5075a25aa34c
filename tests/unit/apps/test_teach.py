"""Concept graphs of a user's own texts: the cost told before, replies kept, what is refused."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest
import torch
from typer.testing import CliRunner

from causalnb import cli
from causalnb.apps import bases, training
from causalnb.apps.text.teach import cost, items_of, teach, teacher_of
from causalnb.apps.text.train import with_graphs
from causalnb.c2dlm.teacher import SYSTEM, TeacherFailed
from causalnb.errors import DataError, FileError, LabError

ITEMS = [(f"There are {n} rows of 3.", f"So it is {3 * n}.") for n in range(4, 8)]


def graph(question: str, answer: str) -> str:
    """The stand-in's reply: the answer follows from the rows."""
    return json.dumps({answer.rstrip("."): [question.removesuffix(" of 3.").removeprefix("There are ")]})


@pytest.fixture
def texts(tmp_path):
    folder = tmp_path / "texts"
    folder.mkdir()
    for n, (question, answer) in enumerate(ITEMS):
        (folder / f"{n}.txt").write_text(f"{question}\n \n{answer}\n", encoding="utf-8")
    return folder


@pytest.fixture
def endpoint():
    """An endpoint on this computer that answers as the stand-in, and keeps what it was asked."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self.server.asked.append((self.headers["Authorization"], body["model"]))
            question, answer = body["messages"][-1]["content"].removeprefix("Question: ").split("\nAnswer: ")
            reply = {"choices": [{"message": {"content": graph(question, answer)}}]}
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(reply).encode())

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as found:
        found.asked = []
        threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield found
        found.shutdown()


def test_a_folder_of_texts_is_annotated_by_an_endpoint_in_one_command(texts, endpoint, tmp_path, monkeypatch):
    monkeypatch.setenv("OF_MINE", "a-key-of-mine")
    output = tmp_path / "my graphs.jsonl"
    address = f"http://127.0.0.1:{endpoint.server_address[1]}/v1"
    command = ["teach", "--data", str(texts), "--teacher", "some-model", "--endpoint", address]
    command += ["--key-from", "OF_MINE", "--output", str(output), "--price-in", "1", "--price-out", "2"]
    told = CliRunner().invoke(cli.app, [*command, "--dry-run"])
    assert told.exit_code == 0 and "4 texts: about" in told.output and "by your prices" in told.output
    assert not endpoint.asked and not output.exists()
    folder = CliRunner().invoke(cli.app, [*command, "--output", str(tmp_path)])
    assert folder.exit_code == 2 and "is a folder: give a file" in folder.output
    assert "4 texts" not in folder.output

    said = CliRunner().invoke(cli.app, command)
    assert said.exit_code == 0 and "4 annotated" in said.output and "a-key-of-mine" not in said.output
    assert f"now: causalnb train c2dlm --data {texts} --graphs '{output}'" in said.output
    assert endpoint.asked == [("Bearer a-key-of-mine", "some-model")] * 4
    rows = with_graphs([{"at": n} for n in range(4)], str(output))
    assert rows[1]["graph"].edges == {"So it is 15": ("5 rows",)}
    assert CliRunner().invoke(cli.app, command).exit_code == 0 and len(endpoint.asked) == 4  # it is done


def test_what_was_replied_is_kept_and_the_rest_is_asked(tmp_path):
    output, asked = tmp_path / "graphs.jsonl", []

    def tires(question, answer):
        asked.append(question)
        if len(asked) == 3:
            raise KeyboardInterrupt
        return graph(question, answer)

    with pytest.raises(KeyboardInterrupt):
        teach(ITEMS, tires, output)
    partial = tmp_path / "graphs.jsonl.partial"
    assert not output.exists() and len(partial.read_text(encoding="utf-8").splitlines()) == 2
    with open(partial, "a", encoding="utf-8") as journal:
        journal.write('{"question": "cut')  # by a kill
    assert teach(ITEMS, tires, output)["annotated"] == 4
    assert asked == [question for question, _ in (*ITEMS[:3], *ITEMS[2:])] and not partial.exists()


def test_a_text_without_a_graph_is_asked_again_next_time(tmp_path):
    output, fails = tmp_path / "graphs.jsonl", [True]

    def moody(question, answer):
        if question == ITEMS[1][0] and fails:
            raise TeacherFailed("it is tired")
        return graph(question, answer)

    counts = teach(ITEMS, moody, output, wait=0)
    assert (counts["annotated"], counts["failed"]) == (3, 1)
    assert with_graphs([{"at": n} for n in range(4)], str(output))[1]["graph"] is None
    fails.clear()
    assert teach(ITEMS, moody, output)["failed"] == 0


def test_a_teacher_that_never_answers_is_left_soon(tmp_path):
    asked = []

    def silent(question, answer):
        asked.append(question)
        raise TeacherFailed("nobody is there")

    many = [(f"Question {n}", "Answer") for n in range(100)]
    with pytest.raises(LabError, match=r"^5 texts in a row got no graph \(nobody is there\): correct"):
        teach(many, silent, tmp_path / "graphs.jsonl", retries=0)
    assert len(asked) == 5


def test_a_chat_model_of_this_computer_goes_where_training_goes(monkeypatch):
    model, tokenizer = torch.nn.Linear(1, 1), SimpleNamespace(chat_template="any")
    monkeypatch.setattr(bases, "loaded", lambda *_: (model, tokenizer))
    monkeypatch.setattr(training, "best_device", lambda: "meta")
    assert teacher_of("a-chat-model").model.weight.is_meta and not model.training


def test_the_cost_is_an_estimate_by_hand():
    found = cost([("a" * 400, "b" * 400)], 1.0, 2.0)
    assert found["tokens_in"] > (len(SYSTEM) + 800) / 4 and found["tokens_out"] == round(200 * 295.3 / 865.2)
    exact = (found["tokens_in"] + 2 * 200 * 295.3 / 865.2) / 1e6
    assert found["texts"] == 1 and found["price"] == pytest.approx(exact, rel=1e-3)
    assert cost([])["price"] is None
    assert (
        cost([("a", "b")] * 3)["tokens_out"] == 60
    )  # a graph has quotes and brackets however short the text


def test_what_is_refused(texts, tmp_path, monkeypatch):
    with pytest.raises(LabError, match="--price-in is 1 and --price-out None: give both"):
        cost([], 1, None)
    with pytest.raises(LabError, match="variable NOT_SET of --key-from is not set"):
        monkeypatch.delenv("NOT_SET", raising=False)
        teacher_of("some-model", "http://127.0.0.1:1/v1", "NOT_SET")
    with pytest.raises(LabError, match="give an address that begins with http"):
        teacher_of("some-model", "ftp://there")
    with pytest.raises(LabError, match="--key-from is the key of an endpoint"):
        teacher_of("some-model", None, "OF_MINE")
    with pytest.raises(LabError, match=r"no chat model could be loaded from --teacher .*: give a folder"):
        teacher_of(str(tmp_path / "nothing"))
    (texts / "9.txt").write_text("Only one paragraph.", encoding="utf-8")
    with pytest.raises(DataError, match=r"9.txt has no second paragraph: write what is asked"):
        items_of(str(texts), {})
    with pytest.raises(LabError, match="--output .* is a folder: give a file, such as graphs.jsonl"):
        teach(ITEMS, graph, tmp_path)
    (tmp_path / "graphs.jsonl").write_text("mine\n", encoding="utf-8")
    with pytest.raises(FileError, match=r"graphs.jsonl or its .partial holds no graphs of ours"):
        teach(ITEMS, graph, tmp_path / "graphs.jsonl")
    assert (tmp_path / "graphs.jsonl").read_text(encoding="utf-8") == "mine\n"
