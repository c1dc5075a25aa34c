"""What texts hold of the concept graphs that a teacher or a rule named for them, counted."""

import re
from dataclasses import dataclass

from causalnb.lab.probes import scored
from causalnb.lab.registry import Experiment, Run, register
from causalnb.tasks import reasoning

COLUMNS = {  # count -> (what it is a share of, heading)
    "effect_found": ("effects", "effect verbatim"),
    "effect_repeated": ("effects", "effect more than once"),
    "cause_found": ("edges", "cause verbatim"),
    "before": ("both_found", "effect before its cause"),
    "overlap": ("both_found", "the two overlap"),
    "kept": ("edges", "edges kept as tokens"),
    "bare": ("concepts", "single words"),
    "cyclic": ("records", "records with a cycle"),
}
TITLES = {
    "gsm8k_val": "GSM8K (annotated)",
    "mawps_train": "MAWPS (annotated)",
    "svamp_train": "SVAMP (annotated)",
    **{task: f"{task} (rule)" for task in reasoning.SYNTHETIC},
}
COUNTS = ("records", "empty", "effects", "edges", "concepts", "both_found", *COLUMNS)


def word_offsets(text: str) -> list[tuple[int, int]]:
    """(first character, end) of every word and every sign of a text: a tokenizer that needs no file."""
    return [match.span() for match in re.finditer(r"\w+|[^\w\s]", text)]


def count_edges(graph, text: str) -> dict[str, int]:
    """What a text holds of a graph, as counts; an edge is kept when both ends have tokens of their own."""
    from causalnb.c2dlm import supervision

    places = graph.find(text)
    report = supervision(graph, text, word_offsets(text), places=places).report
    both = [
        (places[effect][0], places[cause][0])
        for cause, effect in graph.pairs
        if places[effect] and places[cause]
    ]
    return {
        "effects": len(graph.edges),
        "edges": len(graph.pairs),
        "concepts": len(graph.concepts),
        "effect_found": sum(bool(places[effect]) for effect in graph.edges),
        "effect_repeated": sum(len(places[effect]) > 1 for effect in graph.edges),
        "cause_found": sum(bool(places[cause]) for cause, _ in graph.pairs),
        "both_found": len(both),
        "before": sum(effect[0] < cause[0] for effect, cause in both),
        "overlap": sum(effect[0] < cause[1] and cause[0] < effect[1] for effect, cause in both),
        "kept": report.kept,
        "cyclic": int(bool(report.cycles)),
        "bare": sum(len(concept.split()) == 1 for concept in graph.concepts),
    }


def count_records(rows: list[dict]) -> dict[str, int]:
    """The sum of count_edges over rows prompt, response, graph; records, and how many are empty."""
    from causalnb.c2dlm import ConceptGraph

    total = dict.fromkeys(COUNTS, 0)
    for row in rows:
        graph = ConceptGraph(row["graph"])
        total["records"] += 1
        total["empty"] += not graph.pairs
        for name, count in count_edges(graph, f"{row['prompt']}\n{row['response']}").items():
            total[name] += count
    return total


def run_coverage(run: Run) -> dict:
    """Counts over the rows of one source."""
    config = run.config
    if config["source"] in reasoning.ANNOTATED:
        rows = scored(reasoning.annotations(config["source"])[: config["rows"]])
    else:
        rows = reasoning.generate(config["source"], config["drawn"])
    counts = {name: float(count) for name, count in count_records(rows).items()}
    return {"metrics": {"": counts}, "history": []}


@dataclass(frozen=True)
class Settings:
    """Which rows are counted; None: all of them."""

    source: str = "purchases"
    rows: int | None = None
    drawn: int = 200


register(
    Experiment(
        id="c2dlm.coverage",
        title="What texts hold of graphs that a language model or a rule named for them",
        run=run_coverage,
        notebook="41_concept_graphs",
        arms={source: {"source": source} for source in TITLES},
        settings={
            "laptop": Settings(),
            "quick": {"rows": 25, "drawn": 10},
        },
        seeds={"laptop": 1},
        cost={"quick": 1, "laptop": 10},
    )
)
