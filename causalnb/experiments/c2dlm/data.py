"""The tasks of the C2DLM experiments as rows: tokens, answers to score, and the mask of a concept graph.

A graph is one of GRAPHS: "none"; "causal", the task's own; "placebo", where every effect keeps its number of
causes, drawn anew; "isolated", the causal one for the answer, and for every other concept its own tokens
alone; "isolated_placebo", the same with causes drawn anew; in Sudoku also "mutual", where an answer depends
on its peers' answers, too, as they do on it (and so it does where it is isolated).
"""

import re
from dataclasses import dataclass

from causalnb.tasks import words

GRAPHS = ("none", "causal", "placebo", "isolated", "isolated_placebo", "mutual")
BETWEEN = " <sep> "


@dataclass(frozen=True)
class Scored:
    """Test rows and what their decoded words are worth: score(rows, answers) -> {metric: share}."""

    parts: dict
    score: object


def masked_by(graph, prompt: str, response: str, spans: dict, rows: str = "response", **options):
    """The supervision of one row: a graph over names with their spans (part, start, end) in the two texts."""
    from causalnb.c2dlm import supervision

    text = f"{prompt}{BETWEEN}{response} <eos>"
    start = len(prompt) + len(BETWEEN)
    places = {name: [(a + part * start, b + part * start)] for name, (part, a, b) in spans.items()}
    offsets = [found.span() for found in re.finditer(r"\S+", text)]
    return supervision(graph, text, offsets, response_start=start, rows=rows, places=places, **options)


def concept_graph(edges: dict, config: dict, seed: int, steps: dict | None = None, among=None):
    """(ConceptGraph, options of the mask) of a task's edges {effect: causes} for the arm's graph.

    A placebo's causes are drawn `among` these concepts, else among all.
    """
    from causalnb.c2dlm import ConceptGraph

    graph = ConceptGraph(edges, steps or {})
    if config["graph"].endswith("placebo"):
        graph = graph.shuffled(seed, among)
    return graph, {"rows": "all", "unrelated": -1, "same": 1} if isolated(config) else {}


def isolated(config: dict) -> bool:
    """Whether an arm's graph has every concept but the answers alone."""
    return config["graph"].startswith("isolated")


def marks(prompt: str, response: str) -> dict[str, tuple[int, int, int]]:
    """{mark: its span (part, start, end)} of the two marks behind a row's texts."""
    return {
        name: (part, len(text) + 1, len(text) + 1 + len(name))
        for part, (name, text) in enumerate({"<sep>": prompt, "<eos>": response}.items())
    }


def at_test(config: dict) -> dict:
    """The settings of rows that are only read: without a graph, but where it is always enforced."""
    return config if config.get("enforced") == 1 else {**config, "graph": "none"}


def guided(row: dict, mask, config: dict) -> dict:
    """The row with its supervision for the loss; where the graph is enforced, with what each token sees."""
    if config.get("enforced"):
        return {**row, "visible": mask.visible(config["step_rule"])}
    return {**row, "supervision": mask}


def cot_ranks(mode: str, rules: dict[str, str] | None = None) -> list[int]:
    """Rank of every token of a compact row: a step's name and number after its causes', the answer last.

    Depth in the graph, and the order of the formulas among steps of one depth; 0 for the prompt. With rules,
    {step: what stands between the two}, a step's words have the rank of its name.
    """
    import networkx as nx

    from causalnb.tasks import cot_order_perturb as cot

    graph = nx.DiGraph((cause, effect) for effect, causes in cot.GRAPH.items() for cause in causes)
    known = list(nx.lexicographical_topological_sort(graph, key=cot.VARIABLES.index))
    place = {name: number for number, name in enumerate(known, 1)}
    between = {name: len(f"= {rule} =".split()) for name, rule in (rules or {}).items()}
    steps = [
        rank
        for name in cot.order(mode)
        for rank in (*[2 * place[name]] * (1 + between.get(name, 0)), 2 * place[name] + 1)
    ]
    last = 2 * len(known) + 2
    return [0] * (2 * len(cot.SOURCES) + 1) + steps + [last, last + 1, last + 2]


def cot_rows(pairs, mode: str, config: dict, seed: int) -> list[dict]:
    """Rows of COT-OrderPerturb in an encoding, compact by default, in the order of a mode.

    pairs are (Zorin, Vortex).
    """
    from causalnb.tasks import cot_order_perturb as cot

    rows, places, steps = [], {}, cot.steps(mode)
    edges = {effect: causes for effect, causes in cot.GRAPH.items() if effect in steps}
    encoding = config.get("encoding", "compact")
    ranks = cot_ranks(mode, cot.SPACED if encoding == "formulas" else None)
    if edges and config["graph"] != "none":
        graph, options = concept_graph(edges, config, seed, steps)
    for zorin, vortex in pairs:
        prompt, response = cot.render(zorin, vortex, mode, encoding)
        row = {**words.encode(prompt, response, encoding), "values": cot.values(zorin, vortex)}
        row["rank"] = ranks
        if edges and config["graph"] != "none":
            spans = cot.spans(zorin, vortex, mode, encoding, config["scope"])
            key = tuple(spans.values())  # the same mask wherever the numbers are as long
            if key not in places:
                places[key] = masked_by(graph, prompt, response, spans, **options)
            row = guided(row, places[key], config)
        rows.append(row)
    return rows


def cot_score(rows: list[dict], answers: list[list[str]]) -> dict[str, float]:
    """exact and within_1: the answer; steps: the share of the 13 steps with their true value."""
    from causalnb.tasks import cot_order_perturb as cot

    exact = near = right = 0
    for row, answer in zip(rows, answers, strict=True):
        said, wanted = " ".join(answer), row["values"][cot.TARGET]
        found = cot.read_answer(said)
        exact += found == wanted
        near += found is not None and abs(found - wanted) <= 1
        right += sum(row["values"][name] == value for name, value in cot.read_steps(said).items())
    n = len(rows)
    return {"exact": exact / n, "within_1": near / n, "steps": right / n / len(cot.STEPS)}


def cot_data(config: dict, seed: int):
    """(training rows, validation rows, {"test": rows}, score); config's split_seed draws the inputs."""
    from causalnb.tasks import cot_order_perturb as cot

    sizes = config["train_rows"], config["test_rows"] + config["validation_rows"]
    train, rest = cot.split(*sizes, seed=config["split_seed"])
    test, validation = rest[: config["test_rows"]], rest[config["test_rows"] :]
    plain = at_test(config)
    return (
        cot_rows(train, config["mode"], config, seed),
        cot_rows(validation, config["mode"], plain, seed),
        {"test": cot_rows(test, config["mode"], plain, seed)},
        cot_score,
    )


def sudoku_rows(pairs, config: dict, seed: int) -> list[dict]:
    """Rows of (puzzle, solution); the mask is the same for all.

    An answer's causes are the clues of its cell and its peers; a mutual graph adds the peers' answers, and so
    does an isolated one, in which a clue and each of the two marks is alone.
    """
    from causalnb.tasks import sudoku4

    mask, texts, spans = None, sudoku4.render("0" * 16, "1" * 16, "compact"), sudoku4.spans("compact")
    if config["graph"] == "mutual":
        graph, options = concept_graph(sudoku4.GRAPH, config, seed)
        options |= {"reverse": 0, "mutual": 1}  # cells of one unit decide each other
    elif isolated(config):
        edges, cells = {**sudoku4.GRAPH, **dict.fromkeys(marks(*texts), ())}, [*spans]
        spans |= marks(*texts)
        graph, options = concept_graph(edges, config, seed, among=cells)
        options |= {"mutual": 1}
    elif config["graph"] != "none":
        clues = [f"clue {i}" for i in range(sudoku4.CELLS)]
        edges = {
            effect: [cause for cause in causes if cause in clues] for effect, causes in sudoku4.GRAPH.items()
        }
        graph, options = concept_graph(edges, config, seed, among=clues)
    if config["graph"] != "none":
        mask = masked_by(graph, *texts, spans, **options)
    rows = [
        {
            **words.encode(*sudoku4.render(puzzle, solution, "compact")),
            "puzzle": puzzle,
            "solution": solution,
        }
        for puzzle, solution in pairs
    ]
    return rows if mask is None else [guided(row, mask, config) for row in rows]


def sudoku_score(rows: list[dict], answers: list[list[str]]) -> dict[str, float]:
    """cells: empty cells as recorded; solved: whole puzzles; valid: any completion; and of unique puzzles."""
    from causalnb.tasks import sudoku4

    scores = [
        sudoku4.score(row["puzzle"], row["solution"], "".join(answer[:16]))
        for row, answer in zip(rows, answers, strict=True)
    ]
    unique = sudoku4.count_solutions([row["puzzle"] for row in rows]) == 1
    only = [score for score, one in zip(scores, unique, strict=True) if one]

    def shares(found: list[dict], end: str) -> dict[str, float]:
        blanks = sum(score["blanks"] for score in found)
        return {
            f"cells{end}": sum(score["cells"] for score in found) / blanks,
            f"solved{end}": sum(score["solved"] for score in found) / len(found),
        }

    valid = sum(score["valid"] for score in scores) / len(scores)
    return {**shares(scores, ""), "valid": valid, **(shares(only, "_unique") if only else {})}


def sudoku_data(config: dict, seed: int):
    """As cot_data; test puzzles are the published file's, or drawn with config's split_seed."""
    from causalnb.tasks import sudoku4

    blanks, held = config["blanks"], config["test_rows"] + config["validation_rows"]
    published = []
    if config["source"] == "file":
        from causalnb.tasks import files

        published = sudoku4.parse_lines(files.read(sudoku4.TEST_FILE).decode(), sudoku4.TEST_FILE)
    drawn = sudoku4.sample(held, blanks, True, config["split_seed"], [puzzle for puzzle, _ in published])
    validation, test = drawn[: config["validation_rows"]], published or drawn[config["validation_rows"] :]
    known = [puzzle for puzzle, _ in (*drawn, *published)]
    train = sudoku4.sample(config["train_rows"], blanks, True, config["split_seed"] + 1, known)
    plain = at_test(config)
    return (
        sudoku_rows(train, config, seed),
        sudoku_rows(validation, plain, seed),
        {"test": sudoku_rows(test[: config["test_rows"]], plain, seed)},
        sudoku_score,
    )


def stg_rows(pairs, config: dict, seed: int) -> list[dict]:
    """Rows of (prompt, response) of any size of the spurious token game, compact.

    Isolated, the two marks <sep> and <eos> are concepts as well: numbers must not pass through them.
    """
    from causalnb.tasks import stg

    rows = []
    for pair in pairs:
        prompt, response = stg.compact(*pair)
        row = {**words.encode(prompt, response), "said": response.split()}
        if config["graph"] != "none":
            spans = stg.spans(prompt, response)
            effect = "Risk" if "Risk" in spans else "Answer"
            causes = stg.CAUSES if effect == "Risk" else stg.CAUSES_H
            if isolated(config):
                spans |= marks(prompt, response)
            others = {name: () for name in sorted(spans) if name != effect}
            graph, options = concept_graph({effect: causes, **others}, config, seed)
            row = guided(row, masked_by(graph, prompt, response, spans, **options), config)
        rows.append(row)
    return rows


def reversed_spurious(pairs) -> list[tuple[str, str]]:
    """A shift for development: every spurious number v of (prompt, response) pairs becomes low + high - v.

    low and high are the attribute's smallest and largest number in the pairs.
    """
    from causalnb.tasks import stg

    def number(match) -> float:
        return float(match[2])

    names = "|".join(map(re.escape, (*stg.SPURIOUS, *stg.SPURIOUS_H)))
    pattern = re.compile(rf"({names}): (-?\d+(?:\.\d+)?)")
    ranges = {}
    for prompt, _ in pairs:
        for match in pattern.finditer(prompt):
            low, high = ranges.get(match[1], (number(match),) * 2)
            ranges[match[1]] = min(low, number(match)), max(high, number(match))

    def turned(match) -> str:
        digits = len(match[2].partition(".")[2])
        return f"{match[1]}: {sum(ranges[match[1]]) - number(match):.{digits}f}"

    return [(pattern.sub(turned, prompt), response) for prompt, response in pairs]


def stg_score(rows: list[dict], answers: list[list[str]]) -> dict[str, float]:
    """accuracy: the answer is the one on record; of size H also within_5, points of the index."""
    right = sum(row["said"] == answer for row, answer in zip(rows, answers, strict=True))
    found = {"accuracy": right / len(rows)}
    if len(rows[0]["said"]) == 2:
        said = [
            int(answer[-1]) if answer and re.fullmatch(r"-?\d+", answer[-1]) else None for answer in answers
        ]
        near = [
            value is not None and abs(value - int(row["said"][1])) <= 5
            for row, value in zip(rows, said, strict=True)
        ]
        found["within_5"] = sum(near) / len(rows)
    return found


def stg_data(config: dict, seed: int):
    """As cot_data, with test parts "iid" and "ood"; split_seed 42 is the published draw of S, M and L.

    More training rows than L has are drawn anew, none of them with a prompt of the test parts. Where
    `swapped` is above 0, so many swapped copies of the rows take their place. With the shift "reversed" the
    o.o.d. part is another i.i.d. one whose spurious numbers are turned round.
    """
    from causalnb.tasks import stg

    rows, held = config["train_rows"], config["test_rows"]
    if config["size"] == "H":
        parts = stg.generate_h(config["split_seed"], rows, held, held)
        spare = stg.generate_h(config["split_seed"] + 1000, 1, config["validation_rows"], 1)
    else:
        parts = stg.generate(config["split_seed"], cue=config["cue"])
        spare = stg.generate(config["split_seed"] + 1000, cue=config["cue"])
    plain = at_test(config)
    if config["size"] != "H" and rows > stg.SIZES["L"]:
        held_out = {prompt for part in ("test", "ood") for prompt, _ in parts[part]}
        many = stg.generate(config["split_seed"] + 2000, n_train=rows + held, cue=config["cue"])["train"]
        parts["train"] = [pair for pair in many if pair[0] not in held_out]
    tests = {"iid": parts["test"], "ood": parts["ood"]}
    if config["shift"] == "reversed":
        tests["ood"] = reversed_spurious(parts["test"])
    train = parts["train"][:rows]
    if config["swapped"]:
        train = stg.swapped(train, config["swapped"], config["split_seed"])
    return (
        stg_rows(train, config, seed),
        stg_rows(spare["test"][: config["validation_rows"]], plain, seed),
        {name: stg_rows(part[:held], plain, seed) for name, part in tests.items()},
        stg_score,
    )


def chain_rows(chains, config: dict, seed: int) -> list[dict]:
    """Rows of chains over graphs of their own; a placebo is drawn anew for each, among all names."""
    from causalnb.tasks import dag_chains

    rows = []
    for number, chain in enumerate(chains):
        prompt, response = dag_chains.render(chain)
        row = {**words.encode(prompt, response, "chains"), "chain": chain}
        row["rank"] = [0] * sum(row["prompt_mask"]) + [*range(1, len(chain.causes) + 2)]
        if config["graph"] != "none":
            place = {name: max(0, i - dag_chains.SOURCES + 1) for i, name in enumerate(chain.values)}
            edges = {name: chain.graph.get(name, ()) for name in chain.values}
            graph, options = concept_graph(edges, config, 10**6 * seed + number, place)
            mask = masked_by(graph, prompt, response, dag_chains.spans(chain), **options)
            row = guided(row, mask, config)
        rows.append(row)
    return rows


def chain_score(rows: list[dict], answers: list[list[str]]) -> dict[str, float]:
    """steps: the share of steps whose word stands at its place; named: of those whose name does.

    exact: rows with all steps right; last: the share of last steps.
    """
    right, named = [], []
    for row, answer in zip(rows, answers, strict=True):
        chain = row["chain"]
        said = [*answer, *[""] * len(chain.causes)]
        right.append([said[k] == f"{step}={chain.values[step]}" for k, step in enumerate(chain.causes)])
        named += [said[k].split("=")[0] == step for k, step in enumerate(chain.causes)]
    flat = [hit for hits in right for hit in hits]
    return {
        "steps": sum(flat) / len(flat),
        "named": sum(named) / len(named),
        "exact": sum(map(all, right)) / len(right),
        "last": sum(hits[-1] for hits in right) / len(right),
    }


def chain_data(config: dict, seed: int):
    """As cot_data; split_seed draws the rows of all parts, each from a number of its own."""
    from causalnb.tasks import dag_chains

    sizes = {
        "train": config["train_rows"],
        "validation": config["validation_rows"],
        "test": config["test_rows"],
    }
    drawn = {
        part: dag_chains.sample(rows, config["chain_steps"], 10 * config["split_seed"] + number)
        for number, (part, rows) in enumerate(sizes.items())
    }
    plain = at_test(config)
    return (
        chain_rows(drawn["train"], config, seed),
        chain_rows(drawn["validation"], plain, seed),
        {"test": chain_rows(drawn["test"], plain, seed)},
        chain_score,
    )


def reasoning_rows(task: str, rows: list[dict], config: dict, seed: int) -> list[dict]:
    """Rows of a synthetic reasoning task; concepts are quoted phrases, found again in the text."""
    from causalnb.c2dlm import supervision

    found = []
    for story in rows:
        prompt, response = story["prompt"], story["response"]
        row = {**words.encode(prompt, response), "task": task, "answer": story["answer"]}
        if config["graph"] != "none":
            graph, options = concept_graph(story["graph"], config, seed)
            text = f"{prompt}{BETWEEN}{response} <eos>"
            offsets = [word.span() for word in re.finditer(r"\S+", text)]
            start = len(prompt) + len(BETWEEN)
            row = guided(row, supervision(graph, text, offsets, response_start=start, **options), config)
        found.append(row)
    return found


def reasoning_score(rows: list[dict], answers: list[list[str]]) -> dict[str, float]:
    """accuracy: the answer that the task's checker reads is the one on record."""
    from causalnb.tasks import reasoning

    right = [
        reasoning.check(row["task"], " ".join(answer), row["answer"])
        for row, answer in zip(rows, answers, strict=True)
    ]
    return {"accuracy": sum(right) / len(right)}


def reasoning_data(config: dict, seed: int):
    """As cot_data, with a test part for each of the six tasks; training rows are spread over all six."""
    from causalnb.tasks import reasoning

    tasks, plain = list(reasoning.SYNTHETIC), at_test(config)
    train, validation, parts = [], [], {}
    held = config["test_rows"] + -(-config["validation_rows"] // len(tasks))
    for number, task in enumerate(tasks):
        mine = config["train_rows"] // len(tasks) + (number < config["train_rows"] % len(tasks))
        drawn = reasoning.generate(task, mine + held, config["split_seed"])
        train += reasoning_rows(task, drawn[:mine], config, seed)
        parts[task] = reasoning_rows(task, drawn[mine : mine + config["test_rows"]], plain, seed)
        validation += reasoning_rows(task, drawn[mine + config["test_rows"] :], plain, seed)
    return train, validation, parts, reasoning_score


DATA = {
    "cot": cot_data,
    "sudoku": sudoku_data,
    "stg": stg_data,
    "reasoning": reasoning_data,
    "chain": chain_data,
}
