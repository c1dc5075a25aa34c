"""Writes chosen.json: what the searches chose, from their stored results.

python -m causalnb.experiments.causal_transformer.searches
"""

import json
from statistics import fmean

from causalnb.errors import LabError
from causalnb.experiments.causal_transformer import chosen, grid
from causalnb.experiments.causal_transformer import obeyed as loss
from causalnb.lab import registry, results

SOURCE = "causal_transformer"
MOST = 0.1  # the share of nodes outside the bounds below which a loss is obeyed


def stored(id: str, arm: str) -> list:
    """The laptop results of an arm, of all seeds; LabError for one that is missing or has other settings."""
    experiment = f"{SOURCE}.{id}"
    now = registry.config(experiment, arm, "laptop")
    found = [results.read(experiment, arm, seed, "laptop") for seed in registry.seeds(experiment, "laptop")]
    for result in found:
        if not registry.same_settings(experiment, result.config, now):
            raise LabError(f"{experiment} {arm} seed {result.seed} has other settings now: run it first.")
    return found


def mean(found: list) -> float:
    """The mean of (result, value); LabError for a value that is no number, as after a run that diverged."""
    for result, value in found:
        if value is None:
            raise LabError(
                f"{result.experiment} {result.arm} seed {result.seed} measured no number: look at its "
                "history, and run it again or take it out of the search."
            )
    return fmean(value for _, value in found)


def best(arms, *ids: str) -> str:
    """The first of the arms with the highest mean of validation and challenge accuracy in these searches."""

    def score(arm: str) -> float:
        some = [result for id in ids for result in stored(id, arm)]
        cells = ("validation", "challenge")
        return mean([(result, result.value(cell, "accuracy")) for result in some for cell in cells])

    return max(arms, key=score)


def obeyed(arms, id: str) -> str:
    """Of the arms with less than MOST of the nodes outside the bounds on the challenge, the best of a search.

    Where none has, the one with the fewest outside.
    """

    def outside(arm: str) -> float:
        return mean([(result, result.value("challenge", "violated")) for result in stored(id, arm)])

    return best([arm for arm in arms if outside(arm) < MOST] or [min(arms, key=outside)], id)


def rounded(nats: float) -> float:
    """To hundredths, half up, of the thousandths that are shown: 0.63499 is 0.635, and 0.64."""
    return (int(1000 * nats + 0.5) + 5) // 10 / 100


def final_entropy(id: str, arm: str) -> float:
    """The entropy of an arm's maps at the end of training, on validation pairs."""
    return rounded(mean([(result, result.history[-1]["entropy"]) for result in stored(id, arm)]))


def computed() -> dict:
    """The choices, from the stored results; LabError for the first one that is missing."""

    def best_try(arm: str, id: str) -> int:
        return int(best([f"{arm}_{number}" for number in range(grid.TRIES)], id).rpartition("_")[2])

    searches = [f"beyond.search.{name}" for name in grid.OVERLAP]
    used = {name: {arm: best_try(arm, f"search.{name}") for arm in grid.SEARCHED} for name in grid.OVERLAP}
    on_trial, entropies, compared, spreads, spread_used = best(grid.BEYOND_TRIES, *searches), {}, {}, {}, {}
    for name, search in zip(grid.OVERLAP, searches, strict=True):
        held = stored(f"search.{name}", f"loss_{used[name]['loss']}")
        entropies[name] = {
            "search": rounded(mean([(result, result.value("challenge", "entropy")) for result in held])),
            **{part: final_entropy(f"overlap.{name}.{part}", "loss") for part in grid.MINORITIES},
        }
        compared[name] = best(grid.RATE_TRIES, search)
        spreads[name] = {
            "search": final_entropy(search, on_trial),
            "m5": final_entropy(f"beyond.{name}.m5", on_trial),
        }
        spread_used[name] = best(grid.SPREAD_TRIES, f"beyond.spread.search.{name}")
    kept = obeyed(loss.TRIES, loss.SEARCH)
    return {
        "used": used,
        "gcn_used": {name: best_try("both", f"search.rate.{name}") for name in grid.GCN_RATES},
        "entropies": entropies,
        "on_trial": on_trial,
        "blanket": best(grid.BLANKET_TRIES, *searches),
        "compared": compared,
        "spreads": spreads,
        "spread_used": spread_used,
        "obeyed": kept,
        "obeyed_entropy": final_entropy(loss.SEARCH, kept),
    }


if __name__ == "__main__":
    chosen.FILE.write_text(json.dumps(computed(), indent=1) + "\n", encoding="utf-8")
