"""Appendix A of C2DLM: the contract of a teacher's prompt, and what texts hold of the graphs."""

from causalnb.experiments.c2dlm.coverage import COLUMNS, COUNTS, TITLES, count_records
from causalnb.lab.report import builds, draw, save
from causalnb.lab.tables import Table

RULES = (  # of the prompt, in our words -> how a program can check it
    ("a step or fact that the reasoning rests on", "not by a program"),
    ("something of substance, no bare word", "count concepts of a single word"),
    ("matters for the final result", "not by a program"),
    ("occurs exactly once in the text", "count the places of each concept"),
    ("copied letter for letter from the text", "look for each concept in the text"),
)


def readable() -> list[str]:
    """Those annotated files of CAT that can be read, or downloaded, here."""
    from causalnb.errors import DataError
    from causalnb.tasks import reasoning

    names = []
    for name in reasoning.ANNOTATED:
        try:
            reasoning.annotations(name)
        except DataError:
            continue
        names.append(name)
    return names


def coverage(names=None, rows: int | None = None, drawn: int = 200) -> dict[str, dict[str, int]]:
    """Counts by title: annotated files of CAT (all, or `names`; their first `rows`), `drawn` rows a task.

    DataError where a file is missing.
    """
    from causalnb.tasks import reasoning

    names = reasoning.ANNOTATED if names is None else names
    sources = {name: reasoning.annotations(name)[:rows] for name in names}
    sources |= {task: reasoning.generate(task, drawn) for task in reasoning.SYNTHETIC}
    return {TITLES[name]: count_records(records) for name, records in sources.items()}


def stored_coverage(profile: str | None = None) -> dict[str, dict[str, int]]:
    """Counts by title, of all sources, from the stored results."""
    from causalnb.lab import evidence

    lines = evidence.require("c2dlm.coverage", profile).set_index("arm")[[*COUNTS]].astype(int)
    return {title: lines.loc[arm].to_dict() for arm, title in TITLES.items()}


def share(counts: dict[str, int], name: str) -> float:
    """A count as a share of what it is counted among; not a number where that is nothing."""
    whole = counts[COLUMNS[name][0]]
    return counts[name] / whole if whole else float("nan")


def coverage_table(found: dict[str, dict[str, int]]) -> Table:
    """What the texts hold of the graphs, by source."""
    rows = [
        [title, "{records:,} ({empty:,})".format(**counts), f"{counts['edges']:,}"]
        + [f"{100 * share(counts, name):.1f}" for name in COLUMNS]
        for title, counts in found.items()
    ]
    return Table(
        "c2dlm.teacher",
        ["graphs of", "records (empty)", "edges", *(f"{heading}, %" for _, heading in COLUMNS.values())],
        rows,
        "What the texts hold of the concept graphs that a language model or a rule named for them",
        "Annotated: files of CAT, whose causes a language model named. Shares are of effects (columns 4 and "
        "5), of edges (6, 9), of edges both ends of which are found, at the first place of each (7, 8), of "
        "concepts (10) and of records (11). Tokens are words and signs; an edge is lost as tokens where all "
        "tokens of an end lie in other concepts too.",
    )


def contract_table(profile: str | None = None) -> Table:
    """The five rules of the prompt, how each can be checked, and what our two demonstrations score."""
    from causalnb.c2dlm import ConceptGraph, teacher

    texts = [(f"{asked}\n{solved}", ConceptGraph(graph)) for asked, solved, graph in teacher.DEMONSTRATIONS]
    places = [spans for text, graph in texts for spans in graph.find(text).values()]
    concepts = [concept for _, graph in texts for concept in graph.concepts]
    scores = (
        "",
        f"{sum(len(concept.split()) == 1 for concept in concepts)} of {len(concepts)} concepts",
        "",
        f"{sum(len(spans) == 1 for spans in places)} of {len(places)}",
        f"{sum(bool(spans) for spans in places)} of {len(places)}",
    )
    return Table(
        "c2dlm.teacher_prompt",
        ["rule", "a concept should be", "check", "our two demonstrations"],
        [[number, *RULES[number - 1], score] for number, score in enumerate(scores, 1)],
        "The prompt contract of Appendix A, in our words",
    )


def coverage_figure(found: dict[str, dict[str, int]]):
    """(figure, alt): the share of the edges of each source kept, lost to shared tokens, lost to misquotes."""
    import matplotlib.pyplot as plt
    import numpy as np

    from causalnb.lab.figures import COLOURS, headline, text_size

    fig, ax = plt.subplots(figsize=(7.0, 0.8 + 0.34 * len(found)))
    places, left, told = np.arange(len(found))[::-1], np.zeros(len(found)), []
    edges, kept, both = (
        np.array([counts[name] for counts in found.values()]) for name in ("edges", "kept", "both_found")
    )
    parts = (
        ("kept", kept, "blue", ""),
        ("quoted, but lost to shared tokens", both - kept, "orange", "//"),
        ("an end is no quote from the text", edges - both, "vermillion", "xx"),
    )
    for label, count, colour, hatch in parts:
        width, look = 100 * count / edges, {"color": COLOURS[colour], "hatch": hatch, "label": label}
        ax.barh(places, width, 0.7, left=left, edgecolor="black", linewidth=0.6, **look)
        shares = (f"{title} {percent:.0f} %" for title, percent in zip(found, width, strict=True))
        told.append(f"{label}: {', '.join(shares)}")
        left = left + width
    ax.set_yticks(places, found, fontsize=text_size(8))
    shares: dict[str, list[float]] = {}
    for title, percent in zip(found, 100 * kept / edges, strict=True):
        shares.setdefault("rules" if title.endswith("(rule)") else "a language model", []).append(percent)
    said = (f"{who} {min(some):.0f} to {max(some):.0f} %" for who, some in shares.items())
    headline(fig, f"Edges that become masks: of {', of '.join(said)}".replace(" 100 to 100 %", " 100 %"))
    ax.set(xlim=(0, 100), xlabel="edges of the graphs, %")
    ax.grid(axis="y", visible=False)
    ax.legend(loc="lower center", bbox_to_anchor=(0.4, 1), ncols=3, fontsize=text_size(7.5))
    return fig, f"Stacked bars, one a source. {'; '.join(told)}."


@builds("c2dlm.teacher", needs=["c2dlm.coverage"])
def teacher(profile):
    """Appendix A: the contract, and what texts hold of graphs named under CAT's prompt or by a rule."""
    found = stored_coverage(profile)
    save(profile, lambda profile: coverage_table(found), contract_table)
    draw(profile, "c2dlm.teacher", coverage_figure(found), "What becomes of the edges that a teacher names.")
