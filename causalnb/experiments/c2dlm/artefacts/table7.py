"""Table 7 of C2DLM recomputed, and simulated raters on graphs with known faults."""

import random

from causalnb.lab.report import builds, draw, save
from causalnb.lab.statistics import mean_ci
from causalnb.lab.tables import Table, paper, printed

CORRUPTIONS = {  # how gold graphs are spoilt -> rates of `corrupted`
    "gold graphs": {},
    "30 % of the effects left out": {"drop_effects": 0.3},
    "30 % of the causes left out": {"drop_causes": 0.3},
    "10 % of the causes exchanged": {"exchange": 0.1},
    "all three": {"drop_effects": 0.3, "drop_causes": 0.3, "exchange": 0.1},
}
RATES = (0.0, 0.15, 0.3, 0.45, 0.6, 0.75)


def raters() -> dict[str, tuple[dict[float, int], float]]:
    """By rater of Table 7: how many pairs got each score, and the printed average accuracy in percent."""
    cells = paper("c2dlm.table7").pivot(index="row", columns="column", values="value")
    return {
        name: ({score: int(row[f"#Score={score:g}"]) for score in (1.0, 0.5, 0.0)}, row["Average Accuracy"])
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


def ratings_table(profile: str | None = None) -> Table:
    """Table 7: counts and accuracies as printed, and what the counts allow to recompute."""
    from causalnb.c2dlm import spread

    found, text = raters(), printed("c2dlm_text").set_index(["row", "column"])["value"]
    ours = {name: pair_accuracy(counts) for name, (counts, _) in found.items()}
    rows = [
        [name, *map(str, (sum(counts.values()), *counts.values())), f"{average:.2f}"]
        + ["{:.2f} ± {:.2f}".format(*ours[name])]
        for name, (counts, average) in found.items()
    ]
    stated = [text["Appendix F", f"graph accuracy{end}"] for end in ("", ", ±")]
    printed_both = spread([average for _, average in found.values()])
    both = ["{:.2f} ± {:.2f}".format(*pair) for pair in (stated, printed_both)]
    again = "{:.2f} ± {:.2f}".format(*spread([mean for mean, _ in ours.values()]))
    rows.append(["both, as printed in the text", "", "", "", "", both[0], ""])
    rows.append(["both, from this column", "", "", "", "", both[1], again])
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
    both = [precision_recall(*pair) for pair in zip(found, gold, strict=True)]
    same = sum(a == b for a, b in zip(first.pairs, second.pairs, strict=True)) / len(first.pairs)
    return {
        "accuracy 1": first.accuracy,
        "accuracy 2": second.accuracy,
        "same score": same,
        "kappa": agreement(first, second),
        "precision": sum(p for p, _ in both) / instances,
        "recall": sum(r for _, r in both) / instances,
    }


def simulated_table(
    profile: str | None = None, instances: int = 48, seeds: int = 5, slip: float = 0.05
) -> Table:
    """Simulated raters on graphs whose faults are known: what the formula of Appendix F sees of them."""
    rows = []
    for title, rates in CORRUPTIONS.items():
        runs = [simulate(instances, seed, slip, **rates) for seed in range(seeds)]
        rows.append([title, *(mean_ci([run[name] for run in runs]) for name in runs[0])])
    scores = ("accuracy, rater 1", "accuracy, rater 2", "same score", "kappa", "precision", "recall")
    return Table(
        "c2dlm.table7_simulated",
        ["teacher's graphs", *scores],
        rows,
        "Simulated: two scripted raters score corrupted graphs by the rules of Appendix F",
        f"No people. {instances} graphs of COT-OrderPerturb, whose edges are known; every effect keeps a "
        f"cause; each rater gives {100 * slip:g} % of the pairs another score by chance. Mean ± half "
        "of the 95 % interval (seeds).",
    )


def simulated_figure(instances: int = 48, rates=RATES, slip: float = 0.05):
    """(figure, alt): what raters score, and the recall, as effects or causes are left out or exchanged."""
    import matplotlib.pyplot as plt

    from causalnb.lab.figures import COLOURS, text_size

    kinds = {
        "drop_effects": "whole effects left out",
        "drop_causes": "causes left out",
        "exchange": "causes exchanged",
    }
    looks = {
        "accuracy 1": ("accuracy of a simulated rater", "blue", "-", "o"),
        "precision": ("precision", "green", ":", "^"),
        "recall": ("recall", "vermillion", "--", "s"),
    }
    fig, axes = plt.subplots(1, 3, figsize=(8.4, 2.9), sharey=True)
    told = []
    for ax, (kind, title) in zip(axes, kinds.items(), strict=True):
        runs = [simulate(instances, 0, slip, **{kind: rate}) for rate in rates]
        for name, (label, colour, line, marker) in looks.items():
            values = [run[name] for run in runs]
            ax.plot(rates, values, color=COLOURS[colour], linestyle=line, marker=marker, label=label)
            told.append(f"{title}, {label}: {values[0]:.2f} to {values[-1]:.2f}")
        ax.set(title=title, xlabel="rate", ylim=(0, 1.05))
    axes[0].set_ylabel("share")
    fig.legend(
        *axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=3, fontsize=text_size(8)
    )
    return fig, f"Three panels, simulated, rate 0 to {rates[-1]:g}. {'; '.join(told)}."


@builds("c2dlm.table7")
def table7(profile):
    """Table 7 recomputed, and simulated raters on graphs with known faults."""
    save(profile, ratings_table, simulated_table)
    draw(profile, "c2dlm.table7", simulated_figure(), "Simulated raters: left-out effects cost no accuracy.")
