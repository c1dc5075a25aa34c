"""The teacher: its prompt, endpoints that answer, fail and talk nonsense, records, cost, and ratings."""

import json
import math
import os
import threading
import time
import traceback
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from causalnb import c2dlm
from causalnb.c2dlm import (
    ConceptGraph,
    Endpoint,
    LocalChat,
    Rating,
    Recorded,
    RuleTeacher,
    TeacherFailed,
    teacher,
)
from tests.unit.c2dlm.small import base
from tests.unit.hostile import endless, redirect, serving, slowly, whole

GRAPH = {"So it is 12": ["4 rows", "rows of 3"]}
ITEM = ("How many in 4 rows of 3?", "4 x 3. So it is 12.")


@pytest.fixture
def server():
    """A loopback endpoint that takes its replies, one a call, from .replies, and keeps what it was asked."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self.server.asked.append((self.path, self.headers["Authorization"], body))
            status, reply, wait = self.server.replies.pop(0)
            time.sleep(wait)
            self.send_response(status)
            self.end_headers()
            try:
                self.wfile.write(reply.encode())
            except OSError:
                pass  # the client has gone

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as found:
        found.asked, found.replies = [], []
        threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield found
        found.shutdown()


def chat(content, status=200, wait=0.0):
    return status, json.dumps({"choices": [{"message": {"role": "assistant", "content": content}}]}), wait


def endpoint(server, **settings):
    return Endpoint(f"http://127.0.0.1:{server.server_address[1]}/v1/", "some-model", **settings)


def test_an_endpoint_is_asked_as_the_protocol_wants(server):
    server.replies = [chat(json.dumps(GRAPH)), chat("{}")]
    assert endpoint(server, api_key="k")(*ITEM) == json.dumps(GRAPH)
    path, key, body = server.asked[0]
    assert path == "/v1/chat/completions" and key == "Bearer k" and body["model"] == "some-model"
    assert body["temperature"] == 0 and body["messages"] == teacher.messages(*ITEM)
    endpoint(server)(*ITEM)
    assert server.asked[1][1] is None and "'k'" not in repr(endpoint(server, api_key="k"))


@pytest.mark.parametrize(
    "reply, said",
    [
        ((500, "broken", 0), "gave no answer .*500.*: check the address and the key"),
        ((200, "<html>", 0), "answered no chat completion .*: check that it speaks the OpenAI protocol"),
        ((200, '{"choices": []}', 0), "answered no chat completion"),
        (chat(None), "answered NoneType instead of text"),
        (chat("late", wait=1.2), "gave no answer .*timed out"),
    ],
)
def test_an_endpoint_that_fails_says_how(server, reply, said):
    server.replies = [reply]
    with pytest.raises(TeacherFailed, match=said):
        endpoint(server, timeout=0.5 if "timed" in said else 20)(*ITEM)


def test_an_endpoint_nobody_listens_to_or_of_another_kind():
    with pytest.raises(TeacherFailed, match="http://127.0.0.1:9 gave no answer"):
        Endpoint("http://127.0.0.1:9", "m", timeout=1)(*ITEM)
    with pytest.raises(ValueError, match="the endpoint is 'file:///x': give an address that begins"):
        Endpoint("file:///x", "m")


def test_failures_are_retried_then_recorded_and_the_rest_is_kept(server):
    server.replies = [
        chat("no idea"),
        (500, "", 0),
        chat(json.dumps(GRAPH)),  # the third attempt succeeds
        chat("late", wait=2.5),
        chat("{}"),
        chat("[1, 2"),  # three failures
        chat(f"Here it is:\n```json\n{json.dumps(GRAPH)}\n```\nDone."),
    ]
    counted = []
    found = c2dlm.annotate(
        endpoint(server, timeout=1.5), [ITEM, ("Q", "A"), ITEM], wait=0.0, progress=counted.append
    )
    assert [one.attempts for one in found] == [3, 3, 1] and counted == [1, 2, 3] and not server.replies
    assert [one.edges for one in found] == [GRAPH, None, GRAPH] and found[0].error is None
    assert found[1].error == "the reply holds no object {effect: [causes]}: '[1, 2'"
    with pytest.raises(TeacherFailed, match="the annotation failed .*: annotate it again or leave it out"):
        _ = found[1].graph
    counts = teacher.summary(found)
    assert counts == dict(
        annotated=2, failed=1, retried=2, effects=2, pairs=4, missing_effects=0, missing_causes=0, cyclic=0
    )
    with pytest.raises(ValueError, match="retries is -1: choose 0 or more"):
        c2dlm.annotate(str, [ITEM], retries=-1)


def test_waiting_doubles(monkeypatch):
    waited = []
    monkeypatch.setattr(teacher.time, "sleep", waited.append)
    c2dlm.annotate(Recorded({}), [ITEM], retries=3, wait=0.5)
    assert waited == [0.5, 1, 2]


def test_misses_and_cycles_are_counted():
    rule = RuleTeacher(
        lambda question, answer: {
            "So it is 12": ["4 rows", "12 rows"],
            "4 rows": ["So it is 12"],
            "nothing": ["4 rows"],
        }
    )
    found = c2dlm.annotate(rule, [ITEM])[0]
    assert found.missing_effects == ["nothing"] and found.missing_causes == ["12 rows"]
    assert found.cycles == [["So it is 12", "4 rows"]] and found.graph == ConceptGraph(found.edges)
    counts = teacher.summary([found])
    assert counts["cyclic"] == counts["missing_effects"] == counts["missing_causes"] == 1


def test_a_graph_of_another_text_is_a_failure():
    """As a server gives it that repeats what it was asked, demonstrations and all."""
    repeats = RuleTeacher(lambda question, answer: teacher.DEMONSTRATIONS[0][2])
    one = c2dlm.annotate(repeats, [ITEM], retries=0)[0]
    assert one.edges is None and one.error.startswith("the reply's graph names nothing of the text: '{")
    question, answer, edges = teacher.DEMONSTRATIONS[0]
    assert c2dlm.annotate(repeats, [(question, answer)], retries=0)[0].edges == edges


def test_records_are_kept_and_replayed(tmp_path):
    live = c2dlm.annotate(RuleTeacher(lambda *_: GRAPH), [ITEM])
    failed = c2dlm.annotate(Recorded({}), [("Q", "A")], retries=0)
    assert failed[0].error == "no reply is recorded for 'Q': annotate it with a live teacher"
    teacher.save_annotations(live + failed, tmp_path / "a.jsonl")
    again = teacher.load_annotations(tmp_path / "a.jsonl")
    assert again == live + failed
    replayed = c2dlm.annotate(Recorded({(one.question, one.answer): one.reply for one in again}), [ITEM])
    assert replayed == live
    with open(tmp_path / "a.jsonl", "a", encoding="utf-8") as file:
        file.write("{\n")
    with pytest.raises(ValueError, match="line 3 of .*a.jsonl is no annotation .*: restore the file"):
        teacher.load_annotations(tmp_path / "a.jsonl")


def test_a_local_chat_model_answers():
    words = ["[U]", "[E]", *"Question : Answer the".split()]
    tokenizer = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="[U]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="[E]", pad_token="[E]")
    tokenizer.chat_template = "{% for m in messages %}{{ m.content }} {% endfor %}"
    model = base(max_position_embeddings=1024)
    reply = LocalChat(model, tokenizer, max_new_tokens=3)(*ITEM)
    assert isinstance(reply, str) and len(reply.split()) <= 3
    found = c2dlm.annotate(LocalChat(model, tokenizer, max_new_tokens=3), [ITEM], retries=0)
    assert found[0].edges is None and "the reply holds no object" in found[0].error


def refusing(*roles):
    """A chat template that raises for these roles."""
    refuse = "{% if m.role in ROLES %}{{ raise_exception('Unknown role') }}{% endif %}"
    return "{% for m in messages %}REFUSE{{ m.role }}: {{ m.content }}|{% endfor %}".replace(
        "REFUSE", refuse.replace("ROLES", str(roles))
    )


def test_a_chat_template_without_a_system():
    tokenizer = Tokenizer(models.WordLevel({"[U]": 0, "[E]": 1}, unk_token="[U]"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="[E]", pad_token="[E]")
    tokenizer.chat_template = refusing("system")
    chat = LocalChat(base(max_position_embeddings=1024), tokenizer, max_new_tokens=3)
    assert isinstance(chat(*ITEM), str)
    system, first, *others = teacher.messages(*ITEM)
    merged = [{"role": "user", "content": system["content"] + "\n\n" + first["content"]}, *others]
    asked = chat._templated([system, first, *others])["input_ids"]
    assert torch.equal(asked, chat._templated(merged)["input_ids"])
    tokenizer.chat_template = refusing("system", "assistant")
    with pytest.raises(TeacherFailed, match=r"chat template refuses the chat \(Unknown role\): choose anot"):
        chat(*ITEM)
    assert "the tokenizer's chat template" in c2dlm.annotate(chat, [ITEM], retries=0)[0].error


@pytest.mark.parametrize(
    "reply",
    [
        json.dumps(GRAPH),
        f"Sure [see below]: {json.dumps(GRAPH)} {{}}",
        json.dumps([GRAPH]),
        f"{{note}} {{}} ```\n{json.dumps(GRAPH)}\n```",
    ],
)
def test_a_graph_is_found_in_chatter(reply):
    assert c2dlm.parse_answer(reply).edges == {"So it is 12": ("4 rows", "rows of 3")}


@pytest.mark.parametrize(
    "reply",
    ["", "none", "{}", '{"a": []}', '["a"]', '{"a": [null]}', '{"a": ["b"]', "[" * 5000],
    ids=lambda reply: reply[:12],
)
def test_no_graph_is_a_failure(reply):
    with pytest.raises(TeacherFailed, match=r"the reply holds no object \{effect: \[causes\]\}"):
        c2dlm.parse_answer(reply)


def test_backslashes_of_the_text_survive_json():
    text = r"area \frac{1}{2} \times \boxed{3}, \alpha"
    escaped = json.dumps({r"\boxed{3}": [r"\frac{1}{2}", r"\times", r"\alpha"]})
    for reply in (escaped, escaped.replace("\\\\", "\\")):  # as JSON wants it, and as teachers write it
        graph = c2dlm.parse_answer(reply, text)
        assert graph.edges == {r"\boxed{3}": (r"\frac{1}{2}", r"\times", r"\alpha")}
    assert c2dlm.parse_answer(r'{"say \"a\"": ["b"]}').edges == {'say "a"': ("b",)}


def test_the_prompt_keeps_its_contract():
    """System, two demonstrations, the question; the demonstrations obey the rules they illustrate."""
    chatted = teacher.messages("QQ", "AA")
    assert [m["role"] for m in chatted] == ["system", "user", "assistant", "user", "assistant", "user"]
    assert chatted[-1]["content"] == "Question: QQ\nAnswer: AA"
    for asked, answered in (chatted[1:3], chatted[3:5]):
        graph = c2dlm.parse_answer(answered["content"], asked["content"])
        assert graph.cycles() == [] and len(graph.pairs) > 3
        assert all(asked["content"].count(concept) == 1 for concept in graph.concepts)
        assert all(len(spans) == 1 for spans in graph.find(asked["content"]).values())
        assert set(graph.edges) & {cause for cause, _ in graph.pairs}  # linked end to end


def test_the_cost_is_appendix_d():
    cost = c2dlm.annotation_cost()
    assert cost == {"cny": pytest.approx(3.3143, abs=5e-5), "usd": pytest.approx(0.4640, abs=5e-5)}
    assert c2dlm.annotation_cost(1000, 0, 0, price_in=1.5)["cny"] == pytest.approx(1.5)
    with pytest.raises(ValueError, match="the numbers 0, 1981.0, .* give no price: choose a text of"):
        c2dlm.annotation_cost(text_tokens=0)


# ratings


def test_the_formulas_of_appendix_f():
    one = Rating("Human 1", [[1, 1, 0.5], [0.0]])
    assert one.accuracy == pytest.approx((2.5 / 3 + 0) / 2) and one.pair_accuracy == pytest.approx(2.5 / 4)
    assert one.counts == {1.0: 2, 0.5: 1, 0.0: 1} and not one.simulated
    for counts, printed in (((280, 28, 3), 94.53), ((271, 29, 11), 91.80)):
        human = Rating("human", [[1.0] * counts[0] + [0.5] * counts[1] + [0.0] * counts[2]])
        assert 100 * human.pair_accuracy == pytest.approx(printed, abs=5e-3)
    mean, half = c2dlm.spread([94.84, 92.02])
    assert mean == pytest.approx(93.43) and half == pytest.approx(1.41)


def test_agreement_is_cohens_kappa():
    one, two = Rating("a", [[1, 1, 0, 0]]), Rating("b", [[1, 0, 0, 0]])
    assert c2dlm.agreement(one, two) == pytest.approx((0.75 - 0.5) / (1 - 0.5))
    assert c2dlm.agreement(one, one) == c2dlm.agreement(Rating("a", [[1, 1]]), Rating("b", [[1, 1]])) == 1
    with pytest.raises(ValueError, match="a and b rated different pairs: compare the same graphs"):
        c2dlm.agreement(one, Rating("b", [[1, 1], [0, 0]]))


def test_recall_and_scripted_raters():
    gold = ConceptGraph({"a": ["b", "c"], "d": ["a"], "e": ["f"]})
    found = ConceptGraph({"a": ["b", "c"], "d": ["a", "b"], "g": ["a"]})
    precision, recall = c2dlm.precision_recall(found, gold)
    assert precision == pytest.approx(3 / 5) and recall == pytest.approx(3 / 4)
    rater = c2dlm.scripted_rater("script", [found, ConceptGraph({})], [gold, gold])
    assert rater.simulated and rater.scores == [[1.0, 1.0, 0.5, 0.5, 0.0]]
    slips = c2dlm.scripted_rater("script", [found] * 300, [gold] * 300, slip=0.2, seed=1)
    changed = sum(a != b for a, b in zip(slips.pairs, rater.pairs * 300, strict=False)) / len(slips.pairs)
    assert changed == pytest.approx(0.2, abs=0.04)
    assert slips == c2dlm.scripted_rater("script", [found] * 300, [gold] * 300, slip=0.2, seed=1)


def test_ratings_that_do_not_fit():
    with pytest.raises(ValueError, match="x rated an instance without pairs: leave failed instances out"):
        Rating("x", [[1], []])
    with pytest.raises(ValueError, match="x gave the score 0.7: choose among 0, 0.5 and 1"):
        Rating("x", [[0.7]])
    with pytest.raises(ValueError, match="0 found and 1 gold pairs: both graphs need at least one"):
        c2dlm.precision_recall(ConceptGraph({}), ConceptGraph({"a": ["b"]}))
    with pytest.raises(ValueError, match="slip 2 with 0 found and 0 gold graphs"):
        c2dlm.scripted_rater("x", [], [], slip=2)


@pytest.mark.parametrize(
    "answer, said",
    [
        (
            b'HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{"choices"',
            "gave no answer .*received 10 bytes, expected 500",
        ),
        (b"hello\r\n\r\n", r"gave no answer \(RemoteProtocolError: illegal status line.*hello"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            "gave no answer .*illegal chunk header",
        ),
    ],
)
def test_answers_that_are_no_http_are_failures_like_others(answer, said):
    with serving(answer) as (place, _):
        found = answered(Endpoint(place, "m", timeout=5))
    with pytest.raises(TeacherFailed, match=said):
        _ = found.graph


def answered(one):
    """The annotation by a teacher whose next question another teacher answers."""
    asked = iter([one, lambda *_: json.dumps(GRAPH)])
    found = c2dlm.annotate(lambda *item: next(asked)(*item), [("Q", "A"), ITEM], retries=0)
    assert found[1].edges == GRAPH
    return found[0]


NESTED = "[" * 100_000
HOSTILE = [
    (slowly(b"HTTP/1.1 200 OK\r\n\r\n"), "gave no answer .it timed out"),
    (endless(), "gave no answer .it sent more than 1,048,576 bytes"),
    (whole(NESTED.encode()), "answered no chat completion .RecursionError"),
    (whole((NESTED + "]" * len(NESTED)).encode()), "answered no chat completion .RecursionError"),
    (whole(b"\xff" * 1000), "answered no chat completion .UnicodeDecodeError[^\xff]{0,180}$"),
    (whole(chat(NESTED)[1].encode()), "the reply holds no object"),
    (whole(chat(f'{{"a": {NESTED}{"]" * len(NESTED)}}}')[1].encode()), "the reply holds no object"),
]


@pytest.mark.parametrize("answer, said", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_answer_is_a_failure_like_others(answer, said):
    with serving(answer) as (place, _):
        found = answered(Endpoint(place, "m", timeout=0.5 if "timed" in said else 20))
    with pytest.raises(TeacherFailed, match=said):
        _ = found.graph


# the key

KEY = "sk-0123456789"
ENDS = [f"{KEY}\n", f"{KEY}\r\nX: y", f" {KEY}", f"{KEY}\u00e9", f"{KEY}\u0410", f"{KEY}\x00", KEY.encode()]


@pytest.mark.parametrize("key", ENDS, ids=range(len(ENDS)))
def test_a_key_that_no_header_can_hold_is_refused_without_it(key):
    with pytest.raises(
        ValueError, match="^the endpoint's key has a line's end, a space or a letter"
    ) as caught:
        Endpoint("http://127.0.0.1:9", "m", key)
    assert KEY not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    "place", ["http://me:{}@127.0.0.1", "http:/me:{}@x", "http://x/v1?key={}", "http://x#{}"]
)
def test_a_key_in_the_address_is_refused_without_it(place):
    with pytest.raises(
        ValueError, match="^the endpoint's address has an @, [?] or #: give the bare"
    ) as caught:
        Endpoint(place.format(KEY), "m")
    assert KEY not in str(caught.value)


def test_a_key_cannot_be_changed_after_it_was_checked():
    with pytest.raises(AttributeError):
        Endpoint("http://127.0.0.1:9", "m", KEY).api_key = f"{KEY}\n"


@pytest.mark.parametrize("elsewhere", ["another host", "another port", "itself"])
def test_a_redirect_gets_no_key(elsewhere):
    with serving(whole(b"")) as (other, asked_there):
        there = {
            "another host": other.replace("127.0.0.1", "localhost"),
            "another port": other,
            "itself": "/on",
        }
        with serving(redirect(there[elsewhere])) as (place, asked):
            with pytest.raises(TeacherFailed, match="gave no answer .it answered 302 Found.: check"):
                Endpoint(place, "m", KEY)(*ITEM)
        assert not asked_there and len(asked) == 1 and f"Bearer {KEY}" in asked[0][0]


ECHOES = [
    whole(KEY.encode(), f"401 Unauthorized {KEY}", Location=KEY),
    f"HTTP/1.1 {KEY}\r\n\r\n".encode(),
    f"{KEY}\r\n\r\n".encode(),
    f"HTTP/1.1 200 OK\r\nContent-Length: {KEY}\r\n\r\n".encode(),
    whole(f"{KEY} \xff".encode("latin1")),
    whole(json.dumps({KEY: KEY}).encode()),
    whole(chat({KEY: KEY})[1].encode()),
    whole(chat(f"Your key {KEY} is wrong")[1].encode()),
    whole(chat(json.dumps({f"is {KEY}": [KEY]}))[1].encode()),
]


@pytest.mark.parametrize("answer", ECHOES, ids=range(len(ECHOES)))
def test_a_key_stands_in_no_text(answer, tmp_path):
    with serving(answer) as (place, _):
        endpoint = Endpoint(place, "m", KEY, timeout=5)
        kept = c2dlm.annotate(endpoint, [ITEM], retries=0)
        teacher.save_annotations(kept, tmp_path / "kept")
        texts = [repr(endpoint), str(endpoint), (tmp_path / "kept").read_text(encoding="utf-8"), repr(kept)]
        try:
            texts += [repr(c2dlm.parse_answer(endpoint(*ITEM)))]
        except TeacherFailed as error:
            texts += ["".join(traceback.format_exception(error)), repr(error.__context__)]
    assert not [text for text in texts if KEY in text]


# files


@pytest.mark.parametrize("character", ["\u2028", "\u2029", "\x85", "\r", "\n", "\f"], ids=ascii)
@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=ascii)
def test_annotations_of_any_text_come_back(tmp_path, character, end):
    kept = [c2dlm.Annotation(f"a{character}b", "c"), c2dlm.Annotation("d", "e")]
    teacher.save_annotations(kept, tmp_path / "kept")
    lines = (tmp_path / "kept").read_bytes().replace(b"\n", end.encode())
    (tmp_path / "kept").write_bytes(lines)
    assert teacher.load_annotations(tmp_path / "kept") == kept


@pytest.mark.parametrize(
    "damage",
    [
        lambda lines: lines[1:],
        lambda lines: lines[:-1],
        lambda lines: [lines[0].replace(b"rain", b"ruin"), *lines[1:]],
        lambda lines: [*lines[:-1], lines[-1].replace(b"sha256", b"sha257")],
        lambda lines: [],
    ],
    ids=["a line less", "no sum", "another letter", "another sum", "empty"],
)
def test_annotations_that_were_changed_are_refused(tmp_path, damage):
    teacher.save_annotations([c2dlm.Annotation("rain", "b"), c2dlm.Annotation("d", "e")], tmp_path / "kept")
    lines = (tmp_path / "kept").read_bytes().splitlines(keepends=True)
    (tmp_path / "kept").write_bytes(b"".join(damage(lines)))
    with pytest.raises(ValueError, match="kept is not whole, or was changed after it was saved: restore"):
        teacher.load_annotations(tmp_path / "kept")


def test_no_annotations_are_kept_too(tmp_path):
    teacher.save_annotations([], tmp_path / "kept")
    assert teacher.load_annotations(tmp_path / "kept") == []


def test_half_a_character_is_kept(tmp_path):
    odd = c2dlm.Annotation("a\ud800b", "\udfff", {"\udc80": ["\u00e9"]}, reply="\\ud800")
    kept = [odd, c2dlm.Annotation("d", "e")]
    teacher.save_annotations(kept, tmp_path / "kept")
    assert teacher.load_annotations(tmp_path / "kept") == kept
    assert "\u00e9" in (tmp_path / "kept").read_text(encoding="utf-8")


def test_a_save_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    teacher.save_annotations(old := [c2dlm.Annotation("a", "b")], tmp_path / "kept")
    with pytest.raises(TypeError):
        teacher.save_annotations([c2dlm.Annotation("c", object())], tmp_path / "kept")
    for step in ("fsync", "replace"):
        with monkeypatch.context() as patch, pytest.raises(OSError, match="No space left"):
            patch.setattr(os, step, full)
            teacher.save_annotations([c2dlm.Annotation("c", "d")], tmp_path / "kept")
    assert teacher.load_annotations(tmp_path / "kept") == old and len([*tmp_path.iterdir()]) == 1


@pytest.mark.parametrize("wrong", [[], [math.nan, 0.7], [0.5, math.inf], [None, 0.7], None])
def test_a_spread_of_other_than_numbers_is_refused(wrong):
    with pytest.raises(ValueError, match="the accuracies are .*: give at least one, finite numbers all"):
        c2dlm.spread(wrong)


@pytest.mark.parametrize(
    "given, said",
    [
        ({"timeout": math.inf}, "timeout is inf"),
        ({"timeout": 0}, "timeout is 0"),
        ({"max_tokens": 1.5}, "max_tokens is 1.5"),
        ({"max_tokens": True}, "max_tokens is True"),
    ],
)
def test_an_endpoint_without_bounds_is_refused(given, said):
    with pytest.raises(ValueError, match=said):
        Endpoint("http://127.0.0.1:9", "m", **given)


@pytest.mark.parametrize(
    "given", [{"retries": math.nan}, {"retries": True}, {"wait": -1.0}, {"wait": math.inf}]
)
def test_retries_and_waits_that_are_none_are_refused(given):
    with pytest.raises(ValueError, match=f"{min(given)} is"):
        teacher.annotate(lambda q, a: "{}", [], **given)


def test_a_large_reply_is_read_in_time_that_grows_with_its_length():
    pairs = [f'"b": ["cause {n}"]' for n in range(60_000)]
    start = time.process_time()
    graph = teacher.parse_answer("{" + ", ".join(pairs) + "}")
    assert len(graph.edges["b"]) == 60_000
    knots = {f"a {n}": [f"b {n}"] for n in range(3_000)} | {f"b {n}": [f"a {n}"] for n in range(3_000)}
    assert len(c2dlm.ConceptGraph(knots, dict.fromkeys(knots, 0)).cycles()) == 3_000
    assert time.process_time() - start < 10
