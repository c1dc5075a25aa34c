"""Concept graphs from a teacher: the prompt, who may answer it, and what is made of the answers."""

import json
import math
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from itertools import islice
from pathlib import Path

import torch
from jinja2 import TemplateError

from causalnb import network
from causalnb.wrapping import check_counts, check_finite
from causalnb.writing import write_whole

from .graph import ConceptGraph

Teacher = Callable[[str, str], str]  # (question, answer) -> reply

SYSTEM = """\
You study how a worked answer depends on what was said before it. From a question and its answer, pick the
concepts that carry the reasoning and say which of them each one follows from.

Choose concepts that
1. are steps or facts the reasoning really rests on,
2. say something of substance, a phrase or a statement rather than a bare word,
3. matter for getting the final result right,
4. occur exactly once, so that they can be located without doubt,
5. are copied letter for letter from the question or the answer.

Reply with one JSON object and nothing else. Every key is an effect; its value is the list of its direct
causes, without which it could not have been written: {"effect": ["cause", "cause"], ...}. Where you can, let
the effects of one entry be causes of the next, so that all of it leads up to the final result.
Write a backslash of the text as two, as JSON requires."""

DEMONSTRATIONS = (
    (
        "A baker fills 6 trays with 12 rolls each and sells 50 rolls. How many rolls does he keep?",
        "The trays hold 6 x 12 = 72 rolls. After the sale 72 - 50 = 22 rolls remain. So he keeps 22 of them.",
        {
            "The trays hold 6 x 12 = 72 rolls": ["6 trays with 12 rolls each"],
            "After the sale 72 - 50 = 22 rolls remain": [
                "The trays hold 6 x 12 = 72 rolls",
                "sells 50 rolls",
            ],
            "So he keeps 22 of them": ["After the sale 72 - 50 = 22 rolls remain"],
        },
    ),
    (
        "A rectangle is twice as long as it is wide, and its perimeter is 36. What is its area?",
        "Let the width be w, which makes the length 2w. The perimeter gives 2(w + 2w) = 36, hence w = 6. "
        "The long side is then 12 and the area is 6 \\cdot 12 = 72.",
        {
            "which makes the length 2w": ["A rectangle is twice as long as it is wide", "Let the width be w"],
            "2(w + 2w) = 36": ["its perimeter is 36", "which makes the length 2w"],
            "hence w = 6": ["2(w + 2w) = 36"],
            "The long side is then 12": ["which makes the length 2w", "hence w = 6"],
            "the area is 6 \\cdot 12 = 72": ["hence w = 6", "The long side is then 12"],
        },
    ),
)


LIMIT = 2**20  # bytes of an endpoint's answer


class TeacherFailed(ValueError):
    """A teacher gave no usable reply."""


def messages(question: str, answer: str) -> list[dict[str, str]]:
    """The chat of Appendix A in our words: instructions, two demonstrations, and this question and answer."""
    chat = [{"role": "system", "content": SYSTEM}]
    for asked, solved, graph in DEMONSTRATIONS:
        chat += [
            {"role": "user", "content": f"Question: {asked}\nAnswer: {solved}"},
            {"role": "assistant", "content": json.dumps(graph, ensure_ascii=False, indent=1)},
        ]
    return [*chat, {"role": "user", "content": f"Question: {question}\nAnswer: {answer}"}]


@dataclass(frozen=True)
class Endpoint:
    """Any OpenAI-compatible chat endpoint, `url` up to and without /chat/completions.

    timeout: seconds in which a whole answer must be there. Redirects are not followed. The key goes to this
    address alone, and stands in no text: where the endpoint says one of 8 letters or more, "[key]" stands.
    Raises TeacherFailed where it cannot be reached, times out or answers something else, and ValueError for
    another address than http(s), for one with a password or with what follows ? or #, for a key that no
    header can hold, and for a timeout or max_tokens not above 0.
    """

    url: str
    model: str
    api_key: str | None = field(default=None, repr=False)
    timeout: float = 120.0
    max_tokens: int = 4096

    def __post_init__(self):
        if re.search(r"[@?#]", self.url):
            raise ValueError(
                "the endpoint's address has an @, ? or #: give the bare address, and the key as api_key"
            )
        if not re.fullmatch(r"https?://\S+", self.url):
            raise ValueError(
                f"the endpoint is {self.url!r}: give an address that begins with http:// or https://"
            )
        if not 0 < self.timeout < math.inf:
            raise ValueError(f"timeout is {self.timeout!r}: choose a finite number of seconds above 0")
        check_counts(1, max_tokens=self.max_tokens)
        if self.api_key and not (isinstance(self.api_key, str) and re.fullmatch("[!-~]+", self.api_key)):
            raise ValueError(
                "the endpoint's key has a line's end, a space or a letter beyond ASCII: give the bare key"
            )

    def __call__(self, question: str, answer: str) -> str:
        """The endpoint's reply to a question and its answer; TeacherFailed where there is none."""
        asked = dict(
            model=self.model, messages=messages(question, answer), temperature=0, max_tokens=self.max_tokens
        )
        try:
            body = network.answer(
                self.url.rstrip("/") + "/chat/completions",
                self.timeout,
                LIMIT,
                content=json.dumps(asked).encode(),
                headers=self._headers(),
            )
            content = json.loads(body)["choices"][0]["message"]["content"]
        except ConnectionError as error:
            fault = f"gave no answer ({error}): check the address and the key"
        except (ValueError, LookupError, TypeError, RecursionError) as error:
            why = f"{type(error).__name__}: {error}"
            fault = f"answered no chat completion ({why}): check that it speaks the OpenAI protocol"
        else:
            if isinstance(content, str):
                return self._without_key(content)
            fault = f"answered {type(content).__name__} instead of text: check the model's name"
        raise TeacherFailed(self._without_key(f"{self.url} {fault}"))

    def _headers(self) -> dict[str, str]:
        key = {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}
        return {"Content-Type": "application/json", **key}

    def _without_key(self, text: str) -> str:
        return text.replace(self.api_key, "[key]") if len(self.api_key or "") > 7 else text


@dataclass
class LocalChat:
    """A Hugging Face chat model on this computer, answering greedily.

    Where its template refuses the role of the system, the instructions begin the first user's message.
    Raises TeacherFailed where the template refuses that, too.
    """

    model: object
    tokenizer: object
    max_new_tokens: int = 1024

    @torch.no_grad()
    def __call__(self, question: str, answer: str) -> str:
        """The model's reply to a question and its answer, chosen greedily."""
        given = self._templated(messages(question, answer)).to(self.model.device)
        out = self.model.generate(**given, do_sample=False, max_new_tokens=self.max_new_tokens)
        return self.tokenizer.decode(out[0, given["input_ids"].shape[1] :], skip_special_tokens=True)

    def _templated(self, chat: list[dict[str, str]]):
        try:
            return self.tokenizer.apply_chat_template(
                chat, add_generation_prompt=True, return_tensors="pt", return_dict=True
            )
        except TemplateError as error:
            if chat[0]["role"] != "system":
                raise TeacherFailed(
                    f"the tokenizer's chat template refuses the chat ({error}): choose another chat model"
                ) from error
        system, first, *others = chat
        return self._templated([{**first, "content": f"{system['content']}\n\n{first['content']}"}, *others])


@dataclass
class RuleTeacher:
    """A rule (question, answer) -> {effect: [causes]} in the place of a model: for synthetic tasks."""

    rule: Callable[[str, str], Mapping]

    def __call__(self, question: str, answer: str) -> str:
        """The rule's graph as JSON."""
        return json.dumps(self.rule(question, answer))


@dataclass
class Recorded:
    """Replies recorded before, by (question, answer); TeacherFailed for any other."""

    replies: Mapping[tuple[str, str], str]

    def __call__(self, question: str, answer: str) -> str:
        """The reply recorded for a question and its answer."""
        if (question, answer) not in self.replies:
            raise TeacherFailed(f"no reply is recorded for {question!r:.60}: annotate it with a live teacher")
        return self.replies[question, answer]


def parse_answer(reply: str, text: str = "") -> ConceptGraph:
    r"""The first graph in a reply, whatever is said around it.

    Backslashes that JSON would swallow (\frac, \times) are kept where more of the concepts then stand in
    text. Raises TeacherFailed when there is no graph with an effect.
    """
    doubled = re.sub(r'\\\\|\\(?!")', lambda match: "\\\\", reply)
    graphs = [graph for graph in map(_first_graph, dict.fromkeys((reply, doubled))) if graph]
    if not graphs:
        raise TeacherFailed(f"the reply holds no object {{effect: [causes]}}: {reply!r:.80}")
    return max(graphs, key=lambda graph: sum(concept in text for concept in graph.concepts))


def _first_graph(reply: str) -> ConceptGraph | None:
    for start in islice(re.finditer(r"[{\[]", reply), 200):
        try:
            _, end = json.JSONDecoder().raw_decode(reply, start.start())
            graph = ConceptGraph.from_json(reply[start.start() : end])
        except (ValueError, RecursionError):
            continue
        if graph.pairs:
            return graph
    return None


@dataclass
class Annotation:
    """What became of one question: edges, or the error of its last attempt; what the text lacks; cycles."""

    question: str
    answer: str
    edges: dict[str, list[str]] | None = None
    error: str | None = None
    attempts: int = 0
    reply: str = ""
    missing_effects: list[str] = field(default_factory=list)
    missing_causes: list[str] = field(default_factory=list)
    cycles: list[list[str]] = field(default_factory=list)

    @property
    def text(self) -> str:
        """Question and answer, where concepts are looked for."""
        return f"{self.question}\n{self.answer}"

    @property
    def graph(self) -> ConceptGraph:
        """The graph; TeacherFailed for an annotation that failed."""
        if self.edges is None:
            raise TeacherFailed(f"the annotation failed ({self.error}): annotate it again or leave it out")
        return ConceptGraph(self.edges)


def annotate(
    teacher: Teacher,
    items: Iterable[tuple[str, str]],
    retries: int = 2,
    wait: float = 1.0,
    progress: Callable[[int], None] | None = None,
) -> list[Annotation]:
    """One annotation for each (question, answer), in order.

    A teacher that fails, answers nonsense or graphs another text is asked `retries` times more, after wait,
    2 wait, ... seconds; then the item is recorded as failed and the rest goes on. Raises ValueError for
    retries that are no count and a wait that is no time.
    """
    check_counts(0, retries=retries)
    check_finite(wait=wait)
    found = []
    for question, answer in items:
        one = Annotation(question, answer)
        for one.attempts in range(1, retries + 2):
            try:
                one.reply = teacher(question, answer)
                graph = parse_answer(one.reply, one.text)
                spans = graph.find(one.text)
                if not any(spans.values()):
                    raise TeacherFailed(f"the reply's graph names nothing of the text: {one.reply!r:.80}")
            except TeacherFailed as error:
                one.error = str(error)
                if one.attempts <= retries:
                    time.sleep(wait * 2 ** (one.attempts - 1))
                continue
            one.edges, one.error = {effect: list(causes) for effect, causes in graph.edges.items()}, None
            one.missing_effects = [effect for effect in graph.edges if not spans[effect]]
            causes = dict.fromkeys(cause for cause, _ in graph.pairs)
            one.missing_causes = [cause for cause in causes if not spans[cause]]
            one.cycles = graph.cycles()
            break
        found.append(one)
        if progress is not None:
            progress(len(found))
    return found


def summary(annotations: Sequence[Annotation]) -> dict[str, float]:
    """Counts: annotated, failed, retried, effects and causes missing from texts, records with a cycle."""
    done = [one for one in annotations if one.edges is not None]
    return dict(
        annotated=len(done),
        failed=len(annotations) - len(done),
        retried=sum(one.attempts > 1 for one in annotations),
        effects=sum(len(one.edges) for one in done),
        pairs=sum(len(one.graph.pairs) for one in done),
        missing_effects=sum(len(one.missing_effects) for one in done),
        missing_causes=sum(len(one.missing_causes) for one in done),
        cyclic=sum(bool(one.cycles) for one in done),
    )


def _sum(lines: bytes) -> bytes:
    return json.dumps({"sha256": sha256(lines).hexdigest()}).encode()


def save_annotations(annotations: Sequence[Annotation], path: str | Path) -> None:
    """One JSON object a line, and their sha256; a kill, a full disk or an error leaves what was there."""
    lines = "\n".join(json.dumps(asdict(one), ensure_ascii=False) for one in annotations)
    data = lines.encode(errors="backslashreplace")  # half a character as JSON writes it
    write_whole(Path(path), b"\n".join([*filter(None, [data]), _sum(data), b""]))


def load_annotations(path: str | Path) -> list[Annotation]:
    """What save_annotations wrote; ValueError names a line that cannot be read or a file that was changed."""
    lines, _, last = Path(path).read_bytes().replace(b"\r\n", b"\n").rstrip(b"\n").rpartition(b"\n")
    found = []
    for number, line in enumerate(lines.split(b"\n") if lines else (), 1):
        try:
            found.append(Annotation(**json.loads(line)))
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(
                f"line {number} of {path} is no annotation ({error}): restore the file"
            ) from error
    if last != _sum(lines):
        raise ValueError(f"{path} is not whole, or was changed after it was saved: restore the file")
    return found


def annotation_cost(
    text_tokens: float = 865.2,
    prompt_tokens: float = 1981.0,
    output_tokens: float = 295.3,
    price_in: float = 0.8,
    price_out: float = 2.0,
    usd_per_cny: float = 0.14,
) -> dict[str, float]:
    """Appendix D: {"cny", "usd"} per million tokens of annotated text; prices in CNY per million tokens.

    T_in = text + prompt, cost = (T_in P_in + T_out P_out) / text. Hidden reasoning and retries are not in it.
    Raises ValueError for a text without tokens and for numbers that are negative or not finite.
    """
    numbers = (text_tokens, prompt_tokens, output_tokens, price_in, price_out, usd_per_cny)
    if not text_tokens > 0 or not all(0 <= number < math.inf for number in numbers):
        raise ValueError(
            f"the numbers {', '.join(map(str, numbers))} give no price: choose a text of more than 0 tokens "
            "and no negative numbers, all finite"
        )
    cny = ((text_tokens + prompt_tokens) * price_in + output_tokens * price_out) / text_tokens
    return {"cny": cny, "usd": cny * usd_per_cny}
