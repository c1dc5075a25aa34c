"""Concept graphs, found again in a tokenised text and kept as a sparse supervision mask."""

import json
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property

import networkx as nx
import torch

IGNORE = 2  # in a mask: neither encouraged, neutral nor penalised
OCCURRENCES = ("all", "first", "unique_only")
STEP_RULES = ("no_lookahead", "prune_earlier", "off")
WORD = r"[^\W\u0E00-\u0EFF\u1000-\u109F\u1780-\u17FF\u3040-\u30FF\u3400-\u9FFF]"  # no script without spaces
Span = tuple[int, int]


def _joined(pairs: Iterable[tuple[str, object]]) -> dict:
    """An object of JSON whose repeated keys join their lists instead of replacing each other."""
    found: dict[str, object] = {}
    for key, value in pairs:
        old, new = ([part] if isinstance(part, str) else part for part in (found.get(key), value))
        if isinstance(old, list) and isinstance(new, list):
            old += new  # in place: a reply may repeat a key very often
            value = old
        found[key] = value
    return found


@dataclass(frozen=True)
class ConceptGraph:
    """Direct causes of each effect, {effect: [causes]}; steps numbers the step of a concept, where known.

    Concepts are strings quoted from a text. Raises ValueError for anything else; cycles are allowed and
    counted.
    """

    edges: Mapping[str, Sequence[str]]
    steps: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self):
        if not isinstance(self.edges, Mapping) or not isinstance(self.steps, Mapping):
            raise ValueError(f"a concept graph needs an object {{effect: [causes]}}, not {self.edges!r:.60}")
        tidy = {}
        for effect, causes in self.edges.items():
            causes = [causes] if isinstance(causes, str) else causes
            strings = isinstance(causes, Sequence) and all(isinstance(c, str) for c in (effect, *causes))
            if not strings or not all(c.strip() for c in (effect, *causes)):
                raise ValueError(
                    f"the causes of {effect!r:.40} are {causes!r:.60}: give a list of quoted phrases"
                )
            tidy[effect] = tuple(dict.fromkeys(causes))
        object.__setattr__(self, "edges", tidy)
        known = set(self.concepts)
        if stray := [name for name in self.steps if name not in known]:
            raise ValueError(
                f"a step is given for {stray[0]!r:.60}, which is no concept of the graph: remove it"
            )
        if odd := [
            step
            for step in self.steps.values()
            if isinstance(step, bool) or not isinstance(step, int) or step < 0
        ]:
            raise ValueError(f"a step is {odd[0]!r}: number steps 0, 1, 2, ...")

    @cached_property
    def concepts(self) -> tuple[str, ...]:
        """Every concept once, in order of appearance."""
        return tuple(dict.fromkeys(c for effect, causes in self.edges.items() for c in (effect, *causes)))

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """All (cause, effect)."""
        return [(cause, effect) for effect, causes in self.edges.items() for cause in causes]

    @classmethod
    def from_json(cls, text: str, steps: Mapping[str, int] | None = None) -> "ConceptGraph":
        """Of {effect: [causes]}, a list of such objects, or {"edges": ..., "steps": ...}; numbers as printed.

        Raises ValueError for text that does not parse and for other contents.
        """
        try:
            found = json.loads(text, object_pairs_hook=_joined, parse_int=str, parse_float=str)
        except (TypeError, json.JSONDecodeError, RecursionError) as error:
            raise ValueError(
                f"the graph is no JSON ({error}): pass an object {{effect: [causes]}}"
            ) from error
        if isinstance(found, dict) and isinstance(found.get("edges"), dict):
            try:
                steps = {name: int(step) for name, step in found.get("steps", {}).items()} | dict(steps or {})
            except (AttributeError, TypeError, ValueError) as error:
                raise ValueError(f"the steps are {found['steps']!r:.60}: give {{concept: number}}") from error
            found = found["edges"]
        if isinstance(found, list) and all(isinstance(part, dict) for part in found):
            found = _joined((key, value) for part in found for key, value in part.items())
        return cls(found, steps or {})

    def to_json(self) -> str:
        """What from_json reads."""
        edges = {effect: list(causes) for effect, causes in self.edges.items()}
        whole = {"edges": edges, "steps": dict(self.steps)} if self.steps else edges
        return json.dumps(whole, ensure_ascii=False)

    def cycles(self) -> list[list[str]]:
        """One cycle [a, b, ...], each the cause of the next, for every knot of mutual causes."""
        graph = nx.DiGraph(self.pairs)
        knots = [
            knot
            for knot in nx.strongly_connected_components(graph)
            if len(knot) > 1 or graph.has_edge(*[next(iter(knot))] * 2)
        ]
        place = {concept: number for number, concept in enumerate(self.concepts)}
        ordered = sorted(knots, key=lambda knot: min(map(place.__getitem__, knot)))
        starts = [min(knot, key=place.__getitem__) for knot in ordered]
        return [
            [cause for cause, _ in nx.find_cycle(graph.subgraph(knot), start)]
            for knot, start in zip(ordered, starts, strict=False)
        ]

    def find(self, text: str, occurrences: str = "all") -> dict[str, list[Span]]:
        """Where each concept stands in the text, [] where it does not; "5" is found neither in "53" nor "-5".

        occurrences: "all", the "first", or "unique_only", which leaves out concepts that stand there twice.
        """
        if occurrences not in OCCURRENCES:
            raise ValueError(f"occurrences is {occurrences!r}: choose among {', '.join(OCCURRENCES)}")
        found = {concept: list(_places(concept, text)) for concept in self.concepts}
        if occurrences == "unique_only":
            return {c: spans if len(spans) == 1 else [] for c, spans in found.items()}
        return {c: spans[:1] if occurrences == "first" else spans for c, spans in found.items()}

    def shuffled(self, seed: int, among: Sequence[str] | None = None) -> "ConceptGraph":
        """A placebo: every effect keeps its number of causes, drawn anew `among` these, else all concepts."""
        draw = random.Random(seed)
        pool = self.concepts if among is None else among
        others = {effect: [c for c in pool if c != effect] for effect in self.edges}
        edges = {
            effect: draw.sample(others[effect], min(len(causes), len(others[effect])))
            for effect, causes in self.edges.items()
        }
        left = {*edges, *(cause for causes in edges.values() for cause in causes)}  # no edge, no concept
        return ConceptGraph(edges, {name: step for name, step in self.steps.items() if name in left})


def _places(concept: str, text: str) -> Iterator[Span]:
    """Where the concept stands in the text with no word or number going on before or after it."""
    before = _before(re.match(WORD, concept) is not None, re.match(r"\d", concept) is not None)
    after = _after(re.search(f"{WORD}$", concept) is not None, re.search(r"\d$", concept) is not None)
    start = text.find(concept)
    while start >= 0:
        end = start + len(concept)
        alone = before.match(text, start) and after.match(text, end)
        if alone:
            yield start, end
        start = text.find(concept, end if alone else start + 1)


@cache
def _before(word: bool, digit: bool) -> re.Pattern:
    number = r"(?<!\d[.,])(?<!(?<![\w)])[-−])"  # no rest of 1.5 or 1,500, and no number after its sign
    return re.compile(f"(?<!{WORD})" * word + number * digit)


@cache
def _after(word: bool, digit: bool) -> re.Pattern:
    return re.compile(f"(?!{WORD})" * word + r"(?![.,]\d)" * digit)


@dataclass
class Report:
    """What became of a graph in a text; `problems` says it in sentences."""

    missing_effects: list[str] = field(default_factory=list)
    missing_causes: list[str] = field(default_factory=list)
    overlapping: list[str] = field(default_factory=list)  # concepts that lost tokens they share
    erased: list[str] = field(default_factory=list)  # in the text, yet without a token of their own
    ambiguous: list[str] = field(default_factory=list)  # left out by occurrences="unique_only"
    cycles: list[list[str]] = field(default_factory=list)
    edges: int = 0
    kept: int = 0  # edges both ends of which have tokens

    @property
    def problems(self) -> list[str]:
        """One sentence for each kind of trouble, [] when there is none."""
        kinds = (
            ("effect(s) are not in the text and give no row", self.missing_effects),
            ("cause(s) are not in the text and give no column", self.missing_causes),
            ("concept(s) share tokens with another, which count as context", self.overlapping),
            ("concept(s) have no token of their own left", self.erased),
            ("concept(s) stand in the text more than once and are left out", self.ambiguous),
        )
        said = [f"{len(names)} {what}: {', '.join(map(repr, names))}." for what, names in kinds if names]
        if self.cycles:
            shown = "; ".join(" -> ".join([*cycle, cycle[0]]) for cycle in self.cycles)
            said.append(f"{len(self.cycles)} cycle(s) in the graph, so it is no causal order: {shown}.")
        return said


@dataclass
class Supervision:
    """The mask of section 3.1 without its T x T numbers: M[q, k] = relation[concept[q], concept[k]].

    Row q is the effect (query), column k the cause (key). concept (T,) int64, -1 for context; relation (C, C)
    int8 in {-1, 0, 1, 2 = ignored}; step (C,) int64, -1 where unknown; ignore (T,) bool marks keys that are
    not even neutral (padding); rows (T,) bool the queries that are supervised. A batch has B in front.
    Raises ValueError for parts that do not fit each other.
    """

    concept: torch.Tensor
    relation: torch.Tensor
    step: torch.Tensor
    ignore: torch.Tensor
    rows: torch.Tensor
    report: Report = field(default_factory=Report, repr=False)

    FIELDS = ("concept", "relation", "step", "ignore", "rows")

    def __post_init__(self):
        given = torch.as_tensor(self.relation)
        for name, dtype in zip(
            self.FIELDS, (torch.int64, torch.int8, torch.int64, torch.bool, torch.bool), strict=False
        ):
            setattr(self, name, torch.as_tensor(getattr(self, name), dtype=dtype))
        tokens, concepts = self.concept.shape[-1], self.relation.shape[-1]
        lengths = {self.step.shape[-1], self.relation.shape[-2]}
        if {self.ignore.shape, self.rows.shape} != {self.concept.shape} or lengths != {concepts}:
            raise ValueError(
                f"supervision of {tokens} tokens and {concepts} concepts has parts of other "
                "lengths: build it with supervision() or from_dense()"
            )
        if not bool(((self.concept >= -1) & (self.concept < concepts)).all()):
            raise ValueError(
                f"concept has numbers from {int(self.concept.min())} to "
                f"{int(self.concept.max())}: give -1, or 0 to {concepts - 1} as relation has"
            )
        if not bool(((self.relation == given) & (self.relation >= -1) & (self.relation <= IGNORE)).all()):
            raise ValueError(
                f"relation has values from {given.min():g} to {given.max():g}: give -1, 0, 1 or 2 (ignored)"
            )

    @classmethod
    def empty(cls, tokens: int) -> "Supervision":
        """No concept and no supervised row among `tokens` tokens."""
        none = torch.zeros(tokens, dtype=torch.bool)
        return cls(torch.full((tokens,), -1), torch.zeros(1, 1), torch.tensor([-1]), none, none)

    @classmethod
    def from_dense(cls, mask: torch.Tensor) -> "Supervision":
        """Any mask (T, T) in {-1, 0, 1, 2}, every token a concept of its own."""
        if mask.dim() != 2 or mask.shape[0] != mask.shape[1] or not bool(((mask >= -1) & (mask <= 2)).all()):
            raise ValueError(
                f"a mask of shape {tuple(mask.shape)} is no square of -1, 0, 1 and 2: pass (T, T)"
            )
        tokens = len(mask)
        nowhere = torch.full((tokens,), -1)
        return cls(torch.arange(tokens), mask, nowhere, (mask == IGNORE).all(0), torch.ones(tokens).bool())

    @classmethod
    def of(cls, given) -> "Supervision":
        """Itself, or a mapping with its five fields as lists or tensors."""
        return given if isinstance(given, cls) else cls(**{name: given[name] for name in cls.FIELDS})

    def extended(self, tokens: int) -> "Supervision":
        """The supervision of one text with tokens after it, up to `tokens`: context, and no rows."""
        if (more := tokens - len(self.concept)) == 0:
            return self
        concept, ignore, rows = (  # unprobed: the tasks make supervision of whole texts
            torch.nn.functional.pad(part, [0, more], value=fill)
            for part, fill in ((self.concept, -1), (self.ignore, False), (self.rows, False))
        )
        return Supervision(concept, self.relation, self.step, ignore, rows, self.report)  # unprobed: the same

    def to_lists(self) -> dict[str, list]:
        """The five fields as lists: what a row of a dataset can hold."""
        return {name: getattr(self, name).tolist() for name in self.FIELDS}

    @classmethod
    def stack(cls, items: Sequence["Supervision | Mapping | None"], tokens: int) -> dict[str, torch.Tensor]:
        """The fields of a batch, padded to `tokens` tokens (ignored) and to the most concepts of an item.

        None is an item without supervision. Raises ValueError for an item of more than `tokens` tokens.
        """
        items = [cls.empty(tokens) if item is None else cls.of(item) for item in items]
        if (longest := max(len(item.concept) for item in items)) > tokens:
            raise ValueError(f"supervision of {longest} tokens does not fit {tokens}: raise tokens or cut it")
        most = max(len(item.step) for item in items)

        def padded(name, size, value):
            parts = [getattr(item, name) for item in items]
            if all(len(part) == size for part in parts):
                return torch.stack(parts)
            grow = ([0, size - len(part)] * part.dim() for part in parts)
            pairs = zip(parts, grow, strict=True)
            return torch.stack([torch.nn.functional.pad(part, more, value=value) for part, more in pairs])

        fill = dict(
            concept=(tokens, -1),
            relation=(most, 0),
            step=(most, -1),
            ignore=(tokens, True),
            rows=(tokens, False),
        )
        return {name: padded(name, *given) for name, given in fill.items()}

    def visible(self, step_rule: str = "no_lookahead") -> torch.Tensor:
        """The graph enforced: True (T, T) or (B, T, T) where a query sees a key, all but the -1 of dense."""
        return self.dense(step_rule) != -1

    def dense(self, step_rule: str = "no_lookahead") -> torch.Tensor:
        """M (T, T) or (B, T, T) int8 in {-1, 0, 1, 2 = ignored}; unsupervised rows hold no 1, -1."""
        relation = with_steps(self.relation, self.step, step_rule)
        batched = self.concept.dim() == 2
        concept = self.concept if batched else self.concept[None]
        mask = mask_rows(
            relation if batched else relation[None],
            concept,
            self.ignore.view_as(concept),
            concept.masked_fill(~self.rows.view_as(concept), -1),
        )
        return mask if batched else mask[0]


def with_steps(relation: torch.Tensor, step: torch.Tensor, step_rule: str) -> torch.Tensor:
    """Relations (..., C, C) with -1 where the rule of steps (..., C) asks for it and the graph said 0.

    "no_lookahead": a key of a later step; "prune_earlier": a key of an earlier step; "off": neither.
    """
    if step_rule not in STEP_RULES:
        raise ValueError(f"step_rule is {step_rule!r}: choose among {', '.join(STEP_RULES)}")
    if step_rule == "off":
        return relation
    query, key = step[..., :, None], step[..., None, :]
    against = key > query if step_rule == "no_lookahead" else key < query
    return relation.masked_fill(against & (query >= 0) & (key >= 0) & (relation == 0), -1)


def mask_rows(relation, concept, ignore, query) -> torch.Tensor:
    """M (B, R, T) int8 of rows whose query tokens have concepts query (B, R); relation (B, C, C)."""
    lines = relation.gather(1, query.clamp(min=0)[..., None].expand(-1, -1, relation.shape[-1]))  # (B, R, C)
    columns = concept.clamp(min=0)[:, None].expand(-1, query.shape[1], -1)
    mask = lines.gather(2, columns)  # (B, R, T)
    mask.masked_fill_((concept < 0)[:, None] | (query < 0)[..., None], 0)
    return mask.masked_fill_(ignore[:, None], IGNORE)


def supervision(
    graph: ConceptGraph,
    text: str,
    offsets,
    *,
    response_start: int = 0,
    rows: str = "response",
    occurrences: str = "all",
    reverse: int = -1,
    mutual: int = 0,
    unrelated: int = 0,
    same: int = 0,
    strict: bool = False,
    places: Mapping[str, Sequence[Span]] | None = None,
) -> Supervision:
    """The mask of a graph in the tokens of a text; offsets (T, 2) as a fast tokenizer returns them.

    Direct causes get 1, and -1, 0, 1 or 2 (ignored) is for `reverse` edges, `mutual` causes, `unrelated`
    pairs of concepts and tokens of the `same` concept. Queries are the tokens from character response_start
    on, or rows="all". Concepts are searched for in the text, or, where they are known, at `places`, {concept:
    [(start, end)]}. What is not there, shares tokens or runs in cycles is listed in .report; strict raises
    ValueError with the first such sentence.
    """
    offsets = torch.as_tensor(offsets, dtype=torch.int64)
    if offsets.dim() != 2 or offsets.shape[1] != 2:
        raise ValueError(f"offsets have shape {tuple(offsets.shape)}: pass (tokens, 2), one text at a time")
    if rows not in ("response", "all"):
        raise ValueError(f"rows is {rows!r}: choose 'response' or 'all'")
    for name, value in dict(reverse=reverse, mutual=mutual, unrelated=unrelated, same=same).items():
        if value not in (-1, 0, 1, IGNORE):
            raise ValueError(f"{name} is {value!r}: choose -1, 0, 1 or 2 (ignored)")
    start, end = offsets.T
    if len(offsets) and int(end.max()) > len(text):
        raise ValueError(
            f"offsets reach to {int(end.max())} in a text of {len(text)} characters: "
            "take them from this very text"
        )
    concepts = graph.concepts
    if places is None:
        found = graph.find(text, occurrences)
    else:
        found = {name: list(places.get(name, ())) for name in concepts}
    number = {name: i for i, name in enumerate(concepts)}
    spans = [(a, b, number[name]) for name in concepts for a, b in found[name]]
    spans = torch.tensor(spans, dtype=torch.int64).view(-1, 3)
    inside = (start < spans[:, 1:2]) & (end > spans[:, :1]) & (end > start)  # (spans, T)
    member = torch.zeros(max(len(concepts), 1), len(offsets), dtype=torch.int64)
    member = member.index_add(0, spans[:, 2], inside.long()) > 0  # (C, T)
    shared = member.sum(0) > 1
    concept = torch.where(member.any(0) & ~shared, member.long().argmax(0), -1)

    cause = torch.zeros(len(member), len(member), dtype=torch.bool)  # cause[q, k]: k is a cause of q
    if pairs := [(number[effect], number[origin]) for origin, effect in graph.pairs]:
        cause[tuple(torch.tensor(pairs).T)] = True
    relation = torch.full_like(cause, unrelated, dtype=torch.int8)
    relation[cause.T] = reverse
    relation[cause] = 1
    relation[cause & cause.T] = mutual
    relation.fill_diagonal_(same)
    step = torch.tensor([graph.steps.get(name, -1) for name in concepts] or [-1])

    owned = torch.bincount(concept[concept >= 0], minlength=len(member)) > 0
    everywhere = graph.find(text) if places is None and occurrences == "unique_only" else found
    absent = {name for name in concepts if not everywhere[name]}
    causes = dict.fromkeys(origin for origin, _ in graph.pairs)
    report = Report(
        [name for name in graph.edges if name in absent],
        [name for name in causes if name in absent],
        [name for name in concepts if bool((member[number[name]] & shared).any())],
        [name for name in concepts if found[name] and not owned[number[name]]],
        [name for name in concepts if everywhere[name] and not found[name]],
        graph.cycles(),
        len(graph.pairs),
        sum(bool(owned[q] and owned[k]) for q, k in pairs),
    )
    if strict and report.problems:
        raise ValueError(report.problems[0])
    asked = end > response_start if rows == "response" else torch.ones(len(offsets), dtype=torch.bool)
    return Supervision(concept, relation, step, torch.zeros(len(offsets), dtype=torch.bool), asked, report)
