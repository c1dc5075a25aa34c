"""The causal graphs of training (Figures 2 and 6), unrolled in time, and Equations 5 to 8 decided on them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import networkx as nx

VARIANTS = ("no_invariant", "base", "mutual_information")
CLAIMS = {5: ("HS", "HR"), 6: ("HI", "HR"), 7: ("HS", "HS"), 8: ("HS", "HI")}  # the cause that is set, effect
ROUTINGS = ("hard", "soft")
INFORMATION = ("all", "routed")
LAGS = ("0", ">0")


class Node(NamedTuple):
    """A variable at a training step, of a domain module where it has one, of a row of the batch where asked.

    Kinds: C context; HR, HI, HS states (HS without a module: the active one); Y output, YT truth; LY, LR, LI
    losses; WR, WI, WS parameters; and beyond the paper WO of the shared head, G the norm of all gradients.
    """

    kind: str
    step: int
    module: int | None = None
    row: int | None = None

    def __str__(self) -> str:
        module = "" if self.module is None else self.module
        row = "" if self.row is None else f"[{self.row}]"
        return f"{self.kind}{module}_{self.step}{row}"


class Finding(NamedTuple):
    """An equation at a lag of "0" or ">0" steps: whether it holds, and a path on which it fails, else ()."""

    equation: int
    statement: str
    lag: str
    holds: bool
    path: tuple[Node, ...] = ()


@dataclass(frozen=True)
class _Design:
    """Which edges there are at one step: `routes` holds {row of the batch: its active modules} by step."""

    variant: str
    modules: int
    routes: Sequence[Mapping[int | None, Sequence[int]]]
    hard: bool = True
    shared_head: bool = False
    shared_batch_norm: bool = False
    information: str = "all"

    def forward(self, step: int) -> Iterator[tuple[Node, Node]]:
        """The black edges of a step."""
        for row, active in self.routes[step].items():
            c, hr, hi, hs, y = (Node(kind, step, None, row) for kind in ("C", "HR", "HI", "HS", "Y"))
            yield from ((c, hr), (Node("WR", step), hr), (hr, hs))
            if self.hard:
                yield hr, Node("LR", step)
            for n in range(self.modules):
                state = Node("HS", step, n, row)
                yield from ((c, state), (Node("WS", step, n), state))
                if n in active:
                    yield state, hs
            if self.variant != "no_invariant":
                yield from ((c, hi), (Node("WI", step), hi))
            for other in self.routes[step] if self.shared_batch_norm else (row,):
                yield hs._replace(row=other), y
                if self.variant != "no_invariant":
                    yield hi._replace(row=other), y
            if self.shared_head:
                yield Node("WO", step), y
            yield from (
                (y, Node("LY", step, None, row)),
                (Node("YT", step, None, row), Node("LY", step, None, row)),
            )
            for n, term in self.terms(step, active):
                yield from ((hi, term), (Node("HS", step, n, row), term))

    def terms(self, step: int, active: Sequence[int]) -> list[tuple[int, Node]]:
        """(module, node of the information it shares): one node for all modules, or one for each active."""
        if self.variant != "mutual_information":
            return []
        if self.information == "all":
            return [(n, Node("LI", step)) for n in range(self.modules)]
        return [(n, Node("LI", step, n)) for n in active]

    def gradients(self, step: int) -> Iterator[tuple[Node, Node]]:
        """(loss of a step, parameters that its gradient moves, at the same step)."""
        router = Node("WR", step)
        if self.hard:
            yield Node("LR", step), router
        for row, active in self.routes[step].items():
            loss = Node("LY", step, None, row)
            yield from ((loss, Node("WS", step, n)) for n in active)
            if self.variant != "no_invariant":
                yield loss, Node("WI", step)
            if self.shared_head:
                yield loss, Node("WO", step)
            if not self.hard:
                yield loss, router
            for n, term in self.terms(step, active):
                yield from ((term, Node("WI", step)), (term, Node("WS", step, n)))


def temporal_graph(
    variant: str,
    steps: int,
    active: Sequence[int | Sequence[int]] | None = None,
    *,
    modules: int = 2,
    routing: str = "hard",
    clipping: bool = False,
    shared_head: bool = False,
    shared_batch_norm: bool = False,
    per_sample_loss: bool = False,
    information: str = "all",
    literal: bool = False,
) -> nx.DiGraph:
    """Figures 6a ("no_invariant"), 6b or 2 ("base"), 6c ("mutual_information") over `steps` steps.

    `active` holds the module, or the modules of a batch, that each step activates; without it every module
    feeds the output. "soft" routing does so by weights that the output loss trains.
    clipping: the norm of all gradients scales each; shared_head: a trained one; shared_batch_norm: in train
    mode. per_sample_loss: a row per entry of a step's `active`, each with its own variables. information:
    L_I as one node over "all" modules (Equation 3), or a node for each "routed" one.

    literal=True: one step as printed, losses of the step before at step -1, and the links back to them, which
    close cycles. Edges have a kind: forward, backward, link or memory (of parameters, not in the figures).
    Raises ValueError for unknown words, numbers below 1, and options that contradict each other.
    """
    _check_options(variant, steps, active, modules, routing, information, per_sample_loss)
    extended = active is not None or routing == "soft" or clipping or shared_head or shared_batch_norm
    if literal and (steps != 1 or extended):
        raise ValueError("a literal graph is one step as printed: give steps=1 and only variant and modules")
    design = _Design(
        variant,
        modules,
        _routes(active, steps, modules, per_sample_loss),
        routing == "hard",
        shared_head,
        shared_batch_norm,
        information,
    )
    return _printed(design) if literal else _unrolled(design, clipping)


def _check_options(variant, steps, active, modules, routing, information, per_sample) -> None:
    for name, value, known in (
        ("variant", variant, VARIANTS),
        ("routing", routing, ROUTINGS),
        ("information", information, INFORMATION),
    ):
        if value not in known:
            raise ValueError(f"{name} is {value!r}: choose among {', '.join(known)}")
    for name, count in (("steps", steps), ("modules", modules)):
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise ValueError(f"{name} is {count!r}: give a whole number from 1 on")
    if routing == "soft" and active is not None:
        raise ValueError(f"active is {active!r}, but soft routing activates every module: leave active out")
    if active is None and (per_sample or information == "routed"):
        raise ValueError(
            "samples are told apart by the modules they go to: give active for per_sample_loss "
            "and for routed information"
        )


def _routes(active, steps: int, modules: int, per_sample: bool) -> list[dict[int | None, tuple[int, ...]]]:
    """{row: its active modules} for each step; a single row None stands for the whole batch."""
    if active is None:
        return [{None: tuple(range(modules))}] * steps
    if isinstance(active, str) or not isinstance(active, Sequence):
        raise ValueError(f"active is {active!r}: give a list with a module, or a list of them, for each step")
    chosen = [tuple(one) if isinstance(one, Sequence) else (one,) for one in active]
    if len(chosen) != steps:
        raise ValueError(f"active names modules for {len(chosen)} steps of {steps}: give one entry a step")
    for step, one in enumerate(chosen):
        if not one or set(one) - set(range(modules)):
            raise ValueError(f"step {step} activates {list(one)}: choose modules from 0 to {modules - 1}")
    return [{row: (n,) for row, n in enumerate(one)} if per_sample else {None: one} for one in chosen]


def _unrolled(design: _Design, clipping: bool) -> nx.DiGraph:
    graph = nx.DiGraph()
    for step in range(len(design.routes)):
        graph.add_edges_from(design.forward(step), kind="forward")
        if step + 1 == len(design.routes):
            return graph
        updates = [(loss, weight._replace(step=step + 1)) for loss, weight in design.gradients(step)]
        graph.add_edges_from(updates, kind="backward")
        if clipping:
            norm = Node("G", step)
            graph.add_edges_from(((loss, norm) for loss, _ in updates), kind="backward")
            graph.add_edges_from(((norm, weight) for _, weight in updates), kind="backward")
        weights = [node for node in graph if node.step == step and node.kind.startswith("W")]
        graph.add_edges_from(((node, node._replace(step=step + 1)) for node in weights), kind="memory")


def _printed(design: _Design) -> nx.DiGraph:
    graph = nx.DiGraph()
    graph.add_edges_from(design.forward(0), kind="forward")
    for loss, weight in design.gradients(0):
        before = loss._replace(step=-1)
        graph.add_edge(before, weight, kind="backward")
        graph.add_edge(loss, before, kind="link")
    return graph


def without_links(graph: nx.DiGraph) -> nx.DiGraph:
    """A printed step without its links back: one step alone, which has no cycle."""
    kept = graph.copy()
    kept.remove_edges_from([edge for *edge, kind in graph.edges(data="kind") if kind == "link"])
    return kept


def do(graph: nx.DiGraph, nodes: Iterable[Node]) -> nx.DiGraph:
    """A copy without the edges into `nodes` (one or several): what sets them is no longer their parents.

    Raises ValueError for a node that the graph does not have.
    """
    nodes = [nodes] if isinstance(nodes, Node) else list(nodes)
    for node in nodes:
        if node not in graph:
            raise ValueError(f"there is no {node} in the graph: choose among its {len(graph)} nodes")
    cut = graph.copy()
    cut.remove_edges_from(list(graph.in_edges(nodes)))
    return cut


def witness(graph: nx.DiGraph, causes: Iterable[Node], effects: Iterable[Node]) -> tuple[Node, ...]:
    """Equation 13: () if P(effects | do(causes)) = P(effects) by d-separation, else a shortest path between.

    Raises ValueError for nodes that the graph does not have, and for a graph with a cycle.
    """
    causes, effects = ([nodes] if isinstance(nodes, Node) else list(nodes) for nodes in (causes, effects))
    _checked_acyclic(graph)
    do(graph, effects)  # refuses unknown ones
    return _connection(do(graph, causes), causes, effects)


def _connection(cut: nx.DiGraph, causes: list[Node], effects: list[Node]) -> tuple[Node, ...]:
    """() for d-separated nodes of a graph in which nothing points to the causes, else a shortest path.

    What connects them is directed: without ancestors the causes share none with the effects.
    """
    if nx.is_d_separator(cut, set(causes), set(effects), set()):
        return ()
    paths = nx.multi_source_dijkstra_path(cut, causes)
    return tuple(min((paths[node] for node in effects if node in paths), key=len))


def _checked_acyclic(graph) -> None:
    if not nx.is_directed_acyclic_graph(graph):
        cycle = [cause for cause, _ in nx.find_cycle(graph)]
        raise ValueError(
            f"the graph has the cycle {' > '.join(map(str, cycle + cycle[:1]))}: unroll it over "
            "steps, or take it without_links"
        )


def check_claims(graph: nx.DiGraph) -> list[Finding]:
    """Equations 5 to 8 by Equation 13: one state is set at one step, others are looked at then and later.

    A row for each equation whose states the graph has and each lag that it has steps for; the path is one of
    least lag, from the earliest step. Raises ValueError for a graph with a cycle.
    """
    _checked_acyclic(graph)
    states = {}
    for node in graph:
        if node.kind in ("HR", "HI") or node.kind == "HS" and node.module is not None:
            states.setdefault(node._replace(row=None), []).append(node)
    cut = {state: do(graph, nodes) for state, nodes in states.items() if state.kind != "HR"}
    found = []
    for equation, (cause, effect) in CLAIMS.items():
        pairs = [
            (x, y)
            for x, y in product(states, repeat=2)
            if (x.kind, y.kind) == (cause, effect)
            and x.step <= y.step
            and (cause != effect or x.module != y.module)
        ]
        pairs.sort(key=lambda pair: (pair[1].step - pair[0].step, pair[0].step))
        statement = _statement(cause, effect)
        for lag in LAGS:
            asked = [(x, y) for x, y in pairs if (x.step < y.step) == (lag != LAGS[0])]
            paths = (_connection(cut[x], states[x], states[y]) for x, y in asked)
            path = next(filter(None, paths), ())
            found += [Finding(equation, statement, lag, not path, path)] * bool(asked)
    return found


def _statement(cause: str, effect: str) -> str:
    of, given = effect + "n" * (effect == "HS"), cause + ("m" if effect == "HS" else "n" * (cause == "HS"))
    return f"P({of} | do({given})) = P({of})"


COLUMNS = {"W": 0.0, "C": 0.6, "H": 1.3, "HS": 2.3, "Y": 3.3, "YT": 3.3, "L": 4.3, "G": 4.75}
LANES = {
    "WR": 3.2,
    "HR": 3.2,
    "LR": 3.2,
    "G": 2.5,
    "YT": 2.1,
    "WS": 1.6,
    "HS": 1.6,
    "C": 0.8,
    "Y": 0.8,
    "LY": 0.8,
    "WI": 0.0,
    "HI": 0.0,
    "LI": -0.9,
    "WO": -1.1,
}
STRIDE = 5.2  # from one step to the next


def layout(graph: nx.DiGraph) -> dict[Node, tuple[float, float]]:
    """Positions for drawing: steps from left to right, in each from parameters by states to losses.

    The router's lane is at the top, the invariant module's at the bottom, and no two nodes share a place.
    """
    modules = 1 + max((node.module for node in graph if node.module is not None), default=0)
    apart = min(0.8, 1.6 / max(modules - 1, 1))

    def place(node):
        column = node.kind if node.kind in COLUMNS and node.module is None else node.kind[0]
        lift = 0.0 if node.module is None else apart * ((modules - 1) / 2 - node.module)
        down = 0.28 * (node.row or 0)
        return STRIDE * node.step + COLUMNS[column] + down, LANES[node.kind] + lift - down

    return {node: place(node) for node in graph}
