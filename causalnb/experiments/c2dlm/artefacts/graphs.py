"""Concept graphs of a teacher: what texts hold of them (Appendix A), their ratings (F) and their cost (D)."""

import random

from causalnb.experiments.c2dlm.coverage import COLUMNS, COUNTS, TITLES, count_records
from causalnb.lab.registry import artefact

RULES = (  # of the prompt, in our words -> how a program can check it
    ("a step or fact that the reasoning rests on", "not by a program"),
    ("something of substance, no bare word", "count concepts of a single word"),
    ("matters for the final result", "not by a program"),
    ("occurs exactly once in the text", "count the places of each concept"),
    ("copied letter for letter from the text", "look for each concept in the text"),
)
CORRUPTIONS = {  # how gold graphs are spoilt -> rates of `corrupted`
    "gold graphs": {},
    "30 % of the effects left out": {"drop_effects": 0.3},
    "30 % of the causes left out": {"drop_causes": 0.3},
    "10 % of the causes exchanged": {"exchange": 0.1},
    "all three": {"drop_effects": 0.3, "drop_causes": 0.3, "exchange": 0.1},
}
RATES = (0.0, 0.15, 0.3, 0.45, 0.6, 0.75)


def readable() -> list[str]:
    """Those annotated files of CAT that can be read, or downloaded, here."""
    from causalnb.errors import DataError
    from causalnb.tasks import reasoning

    found = []
    for name in reasoning.ANNOTATED:
        try:
            reasoning.annotations(name)
        except DataError:
            continue
        found.append(name)
    return found


def coverage(names=None, rows: int | None = None, drawn: int = 200) -> dict[str, dict[str, int]]:
    """Counts by title: annotated files of CAT (all, or `names`; their first `rows`), `drawn` rows a task.

    DataError where a file is missing.
    """
    from causalnb.tasks import reasoning

    names = reasoning.ANNOTATED if names is None else names
    found = {TITLES[name]: count_records(reasoning.annotations(name)[:rows]) for name in names}
    return found | {
        TITLES[task]: count_records(reasoning.generate(task, drawn)) for task in reasoning.SYNTHETIC
    }


def share(found: dict[str, int], name: str) -> float:
    """A count as a share of what it is counted among; not a number where that is nothing."""
    whole = found[COLUMNS[name][0]]
    return found[name] / whole if whole else float("nan")


def coverage_table(found: dict[str, dict[str, int]]):
    """What the texts hold of the graphs, by source."""
    from causalnb.lab.tables import Table

    rows = [
        [
            title,
            f"{one['records']:,} ({one['empty']:,})",
            f"{one['edges']:,}",
            *(f"{100 * share(one, name):.1f}" for name in COLUMNS),
        ]
        for title, one in found.items()
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


def contract_table():
    """The five rules of the prompt, how each can be checked, and what our two demonstrations score."""
    from causalnb.c2dlm import ConceptGraph, teacher
    from causalnb.lab.tables import Table

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
    rows = [
        [number, rule, check, score]
        for number, ((rule, check), score) in enumerate(zip(RULES, scores, strict=True), 1)
    ]
    return Table(
        "c2dlm.teacher_prompt",
        ["rule", "a concept should be", "check", "our two demonstrations"],
        rows,
        "The prompt contract of Appendix A, in our words",
    )


def coverage_figure(found: dict[str, dict[str, int]]):
    """(figure, alt): the share of the edges of each source kept, lost to shared tokens, lost to misquotes."""
    import matplotlib.pyplot as plt
    import numpy as np

    from causalnb.lab.figures import COLOURS

    fig, ax = plt.subplots(figsize=(7.0, 0.55 + 0.34 * len(found)))
    places, left, told = np.arange(len(found))[::-1], np.zeros(len(found)), []
    edges = np.array([one["edges"] for one in found.values()])
    kept, both = (np.array([one[name] for one in found.values()]) for name in ("kept", "both_found"))
    parts = (
        ("kept", kept, "blue", ""),
        ("quoted, but lost to shared tokens", both - kept, "orange", "//"),
        ("an end is no quote from the text", edges - both, "vermillion", "xx"),
    )
    for label, count, colour, hatch in parts:
        width = 100 * count / edges
        ax.barh(
            places,
            width,
            0.7,
            left=left,
            color=COLOURS[colour],
            hatch=hatch,
            edgecolor="black",
            linewidth=0.6,
            label=label,
        )
        told.append(f"{label}: " + ", ".join(f"{title} {one:.0f} %" for title, one in zip(found, width)))
        left = left + width
    ax.set_yticks(places, found, fontsize=8)
    ax.set(xlim=(0, 100), xlabel="edges of the graphs, %")
    ax.grid(axis="y", visible=False)
    ax.legend(loc="lower center", bbox_to_anchor=(0.4, 1), ncols=3, fontsize=7.5)
    return fig, f"Stacked bars, one a source. {'; '.join(told)}."


def stored_coverage(profile: str | None = None) -> dict[str, dict[str, int]]:
    """Counts by title, of all sources, from the stored results."""
    from causalnb.lab import evidence

    found = evidence.require("c2dlm.coverage", profile).set_index("arm")
    return {
        title: {name: int(count) for name, count in found.loc[arm].items() if name in COUNTS}
        for arm, title in TITLES.items()
    }


@artefact(
    "c2dlm.teacher",
    needs=("c2dlm.coverage",),
)
def teacher_graphs(profile):
    """Appendix A: the contract, and what texts hold of graphs named under CAT's prompt or by a rule."""
    from causalnb.lab.figures import save_figure
    from causalnb.lab.tables import save_table

    found = stored_coverage(profile)
    save_table(coverage_table(found))
    save_table(contract_table())
    fig, alt = coverage_figure(found)
    save_figure(fig, "c2dlm.teacher", alt=alt, caption="What becomes of the edges that a teacher names.")


# ratings


def raters() -> dict[str, tuple[dict[float, int], float]]:
    """By rater of Table 7: how many pairs got each score, and the printed average accuracy in percent."""
    from causalnb.lab.tables import paper

    cells = paper("c2dlm.table7").pivot(index="row", columns="column", values="value")
    return {
        name: (
            {score: int(row[f"#Score={score:g}"]) for score in (1.0, 0.5, 0.0)},
            float(row["Average Accuracy"]),
        )
        for name, row in cells.iterrows()
    }


def pair_accuracy(counts: dict[float, int]) -> tuple[float, float]:
    """Mean score of all pairs, and half its 95 % interval if the pairs were independent, in percent."""
    n = sum(counts.values())
    mean = sum(score * count for score, count in counts.items()) / n
    variance = sum(count * (score - mean) ** 2 for score, count in counts.items()) / (n - 1)
    return 100 * mean, 100 * 1.96 * (variance / n) ** 0.5


def kappa_range(one: dict[float, int], other: dict[float, int]) -> tuple[float, float]:
    """The least and the greatest Cohen's kappa of two raters of whom only the counts are known."""
    import numpy as np
    from scipy.optimize import linprog

    scores, n = list(one), sum(one.values())
    chance = sum(one[score] * other[score] for score in scores) / n**2
    cells = np.arange(len(scores) ** 2).reshape(len(scores), -1)
    sums = np.array([np.isin(cells, line).ravel() for line in (*cells, *cells.T)], dtype=float)
    totals = [*one.values(), *(other[score] for score in scores)]
    diagonal = np.eye(len(scores)).ravel()
    agree = [sign * linprog(sign * diagonal, A_eq=sums, b_eq=totals).fun / n for sign in (1, -1)]
    return tuple(float((share - chance) / (1 - chance)) for share in agree)


def ratings_table():
    """Table 7: counts and accuracies as printed, and what the counts allow to recompute."""
    from causalnb.c2dlm import spread
    from causalnb.lab.tables import Table, printed

    found, text = raters(), printed("c2dlm_text").set_index(["row", "column"])["value"]
    rows, ours = [], []
    for name, (counts, average) in found.items():
        mean, half = pair_accuracy(counts)
        ours.append(mean)
        rows.append(
            [
                name,
                *map(str, (sum(counts.values()), *counts.values())),
                f"{average:.2f}",
                f"{mean:.2f} ± {half:.2f}",
            ]
        )
    middle, half = spread([average for _, average in found.values()])
    again, again_half = spread(ours)
    said = [text["Appendix F", f"graph accuracy{end}"] for end in ("", ", ±")]
    rows.append(["both, as printed in the text", "", "", "", "", f"{said[0]:.2f} ± {said[1]:.2f}", ""])
    rows.append(
        [
            "both, from this column",
            "",
            "",
            "",
            "",
            f"{middle:.2f} ± {half:.2f}",
            f"{again:.2f} ± {again_half:.2f}",
        ]
    )
    low, high = kappa_range(*(counts for counts, _ in found.values()))
    return Table(
        "c2dlm.table7",
        [
            "evaluator",
            "pairs",
            "score 1",
            "score 0.5",
            "score 0",
            "printed accuracy, %",
            "mean of all pairs, %",
        ],
        rows,
        "Table 7, as printed and recomputed from its counts",
        "Printed accuracies are means over instances, which the counts do not give. ± of an evaluator: 95 "
        "%, pairs taken as independent. ± of both: population standard deviation of two numbers, half their "
        "distance. Not printed: recall, and agreement; the counts allow a kappa from "
        f"{low:.2f} to {high:.2f}.",
    )


def corrupted(
    graph, draw: random.Random, drop_effects: float = 0.0, drop_causes: float = 0.0, exchange: float = 0.0
):
    """A teacher's mistakes at known rates: effects left out, causes left out, causes exchanged for others.

    Every graph keeps an effect, and every effect a cause.
    """
    from causalnb.c2dlm import ConceptGraph

    kept = [effect for effect in graph.edges if draw.random() >= drop_effects]
    edges = {}
    for effect in kept or [draw.choice(list(graph.edges))]:
        gold = graph.edges[effect]
        causes = [cause for cause in gold if draw.random() >= drop_causes] or [draw.choice(gold)]
        others = [concept for concept in graph.concepts if concept not in (*gold, effect)]
        edges[effect] = [draw.choice(others) if draw.random() < exchange else cause for cause in causes]
    return ConceptGraph(edges)


def simulate(instances: int, seed: int, slip: float = 0.05, **rates) -> dict[str, float]:
    """Two scripted raters on corrupted graphs of COT-OrderPerturb: their scores, agreement, and the truth."""
    from causalnb.c2dlm import ConceptGraph, agreement, precision_recall, scripted_rater
    from causalnb.tasks import cot_order_perturb as cot

    draw = random.Random(seed)
    gold = [ConceptGraph(cot.graph(*pair)) for pair in cot.split(instances, 0, seed)[0]]
    found = [corrupted(graph, draw, **rates) for graph in gold]
    first, second = (scripted_rater(f"script {i}", found, gold, slip, 2 * seed + i) for i in (0, 1))
    both = [precision_recall(*pair) for pair in zip(found, gold)]
    same = sum(a == b for a, b in zip(first.pairs, second.pairs)) / len(first.pairs)
    return {
        "accuracy 1": first.accuracy,
        "accuracy 2": second.accuracy,
        "same score": same,
        "kappa": agreement(first, second),
        "precision": sum(p for p, _ in both) / instances,
        "recall": sum(r for _, r in both) / instances,
    }


def simulated_table(instances: int = 48, seeds: int = 5, slip: float = 0.05):
    """Simulated raters on graphs whose faults are known: what the formula of Appendix F sees of them."""
    from causalnb.lab.statistics import mean_ci
    from causalnb.lab.tables import Table

    rows = []
    for title, rates in CORRUPTIONS.items():
        runs = [simulate(instances, seed, slip, **rates) for seed in range(seeds)]
        rows.append([title, *(mean_ci([run[name] for run in runs]) for name in runs[0])])
    return Table(
        "c2dlm.table7_simulated",
        [
            "teacher's graphs",
            "accuracy, rater 1",
            "accuracy, rater 2",
            "same score",
            "kappa",
            "precision",
            "recall",
        ],
        rows,
        "Simulated: two scripted raters score corrupted graphs by the rules of Appendix F",
        f"No people. {instances} graphs of COT-OrderPerturb, whose edges are known; every effect keeps a "
        f"cause; each rater gives {100 * slip:g} % of the pairs another score by chance. Mean ± half "
        "of the 95 % interval (seeds).",
    )


def simulated_figure(instances: int = 48, rates=RATES, slip: float = 0.05):
    """(figure, alt): what raters score, and the recall, as effects or causes are left out or exchanged."""
    import matplotlib.pyplot as plt

    from causalnb.lab.figures import COLOURS

    kinds = {
        "drop_effects": "whole effects left out",
        "drop_causes": "causes left out",
        "exchange": "causes exchanged",
    }
    fig, axes = plt.subplots(1, 3, figsize=(8.4, 2.9), sharey=True)
    told = []
    for ax, (kind, title) in zip(axes, kinds.items()):
        runs = [simulate(instances, 0, slip, **{kind: rate}) for rate in rates]
        for name, label, colour, line, marker in (
            ("accuracy 1", "accuracy of a simulated rater", "blue", "-", "o"),
            ("precision", "precision", "green", ":", "^"),
            ("recall", "recall", "vermillion", "--", "s"),
        ):
            values = [run[name] for run in runs]
            ax.plot(rates, values, color=COLOURS[colour], linestyle=line, marker=marker, label=label)
            told.append(f"{title}, {label}: {values[0]:.2f} to {values[-1]:.2f}")
        ax.set(title=title, xlabel="rate", ylim=(0, 1.05))
    axes[0].set_ylabel("share")
    fig.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=3, fontsize=8)
    return fig, f"Three panels, simulated, rate 0 to {rates[-1]:g}. {'; '.join(told)}."


@artefact(
    "c2dlm.table7",
)
def table7(profile):
    """Table 7 recomputed, and simulated raters on graphs with known faults."""
    from causalnb.lab.figures import save_figure
    from causalnb.lab.tables import save_table

    save_table(ratings_table())
    save_table(simulated_table())
    fig, alt = simulated_figure()
    save_figure(fig, "c2dlm.table7", alt=alt, caption="Simulated raters: left-out effects cost no accuracy.")


# cost


def printed_cost() -> dict[str, float]:
    """The numbers of Appendix D by name."""
    from causalnb.lab.tables import printed

    return printed("c2dlm_cost").set_index("column")["value"].to_dict()


def cost(hidden: float = 0.0, failed: float = 0.0, **changes) -> dict[str, float]:
    """annotation_cost with the numbers of Appendix D; hidden output tokens a call, share of failed calls."""
    from causalnb.c2dlm import annotation_cost

    p = printed_cost()
    given = (
        dict(
            text_tokens=p["input tokens, average"],
            prompt_tokens=p["prompt overhead"],
            output_tokens=p["T_out"],
            price_in=p["P_in"],
            price_out=p["P_out"],
            usd_per_cny=p["USD per RMB"],
        )
        | changes
    )
    given["output_tokens"] += hidden
    return {unit: value / (1 - failed) for unit, value in annotation_cost(**given).items()}


def cost_variants() -> dict[str, dict[str, float]]:
    """What is changed -> cost per million tokens of text, in CNY and USD."""
    from causalnb.lab.tables import printed

    text = printed("c2dlm_text").set_index("column")["value"]
    p, lost = printed_cost(), float(text["decoding error rate"]) / 100
    twice = dict(price_in=2 * p["P_in"], price_out=2 * p["P_out"])
    return {
        "as printed": cost(),
        "the instructions cost nothing (cached)": cost(prompt_tokens=0),
        "both prices doubled": cost(**twice),
        f"{lost:.0%} of the calls fail and are repeated": cost(failed=lost),
        "1,000 hidden reasoning tokens a call": cost(hidden=1000),
        "5,000 hidden reasoning tokens a call": cost(hidden=5000),
        "5,000 hidden tokens, failures repeated, prices doubled": cost(hidden=5000, failed=lost, **twice),
    }


def cost_table():
    """Appendix D recomputed, and what its result depends on."""
    from causalnb.lab.tables import Table

    p, base = printed_cost(), cost()["usd"]
    rows = [
        [what, f"{one['cny']:.4f}", f"{one['usd']:.4f}", f"{one['usd'] / base:.2f}"]
        for what, one in cost_variants().items()
    ]
    return Table(
        "c2dlm.cost",
        ["annotation", "RMB", "USD", "times the first row"],
        rows,
        "Appendix D: cost per million tokens of annotated text, recomputed and varied",
        f"Printed: {p['cost']:.2f} RMB and ${p['cost in USD']:.2f}. Prices are the paper's, its exchange "
        "rate of October 2025. "
        "A failed call is repeated until it succeeds, and costs as much as one that succeeds.",
    )


def cost_figure():
    """(figure, alt): cost against hidden reasoning tokens, output at the printed price and at twice that."""
    import matplotlib.pyplot as plt
    import numpy as np

    from causalnb.lab.figures import COLOURS

    p, hidden = printed_cost(), np.arange(0, 6001, 500)
    fig, ax = plt.subplots(figsize=(5.6, 3.0))
    told = []
    for factor, colour, line, marker in ((1, "blue", "-", "o"), (2, "vermillion", "--", "s")):
        values = [cost(hidden=tokens, price_out=factor * p["P_out"])["usd"] for tokens in hidden]
        label = "printed prices" if factor == 1 else "output at twice the price"
        ax.plot(hidden, values, color=COLOURS[colour], linestyle=line, marker=marker, label=label)
        told.append(f"{label}: {values[0]:.2f} to {values[-1]:.2f} dollars")
    ax.axhline(p["cost in USD"], color="black", linewidth=1, linestyle=":", marker="")
    ax.text(
        hidden[-1], p["cost in USD"], f"printed: ${p['cost in USD']:.2f}", ha="right", va="bottom", fontsize=8
    )
    ax.set(xlabel="hidden reasoning tokens a call", ylim=(0, None))
    ax.set_ylabel("dollars per million\ntokens of text")
    ax.legend(fontsize=8)
    return fig, (
        f"Cost against 0 to {hidden[-1]:,} hidden tokens a call. {'; '.join(told)}; "
        "a line at the printed cost."
    )


@artefact(
    "c2dlm.cost",
)
def annotation(profile):
    """Appendix D: the cost recomputed, and its sensitivity."""
    from causalnb.lab.figures import save_figure
    from causalnb.lab.tables import save_table

    save_table(cost_table())
    fig, alt = cost_figure()
    save_figure(fig, "c2dlm.cost", alt=alt, caption="What a teacher thinks and does not show is billed too.")
