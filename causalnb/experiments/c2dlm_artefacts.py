"""C2DLM's tables and figures from stored results: the paper's numbers beside ours."""

NAMES = {
    "autoregressive": "autoregressive",
    "diffusion": "diffusion SFT",
    "c2dlm": "C2DLM",
    "no_v": "C2DLM, attention without value norms",
    "placebo": "C2DLM's loss, placebo graph",
    "isolated": "concepts isolated (ours)",
    "ordered": "noise and decoding in the graph's order (ours)",
}
LOOKS = {
    "autoregressive": ("black", "o", ":"),
    "diffusion": ("blue", "s", "--"),
    "c2dlm": ("vermillion", "D", "-"),
    "no_v": ("orange", "v", "-."),
    "placebo": ("green", "X", "-."),
    "isolated": ("purple", "P", "-"),
    "ordered": ("purple", "P", "-"),
}
PAPER_ROWS = {
    "autoregressive": ("Llama-3.2-1B", "Qwen3-8B", "Qwen2.5-1.5B", "Llama-3.1-8B"),
    "diffusion": ("LLaDA-8B-Instruct (SFT)",),
    "c2dlm": ("C2DLM",),
}
SIZES = (200, 500, 5000)
STG_SIZES = ("S", "M", "L", "H")


def percent(values):
    """Mean and interval of shares, in percent, one digit: a table's cell."""
    from causalnb.lab.statistics import mean_ci
    from causalnb.lab.tables import estimate

    return estimate(mean_ci([100 * value for value in values]), 1)


def printed_cell(paper, arm: str, **where) -> str:
    """The numbers that the paper prints for an arm's models in a cell, without their signs: "3.00, 67.40"."""
    found = paper
    for column, value in where.items():
        found = found[found[column] == value]
    cells = [found[found.row == row].printed for row in PAPER_ROWS.get(arm, ())]
    return ", ".join(cell.iloc[0].rstrip("%") for cell in cells if len(cell))


def cells_of(frame, arm: str, metrics) -> list[str]:
    """Percentages of an arm in metrics."""
    rows = frame[frame.arm == arm]
    return [percent(rows[metric]) for metric in metrics]


# --- Sudoku


def sudoku_table(profile: str | None = None):
    """Table 3: cells and puzzles of the published 500 and of those with one solution, by training size."""
    from causalnb.lab import registry, results
    from causalnb.lab.tables import Table
    from causalnb.lab.tables import paper as paper_of

    paper, rows = paper_of("c2dlm.table3"), []
    metrics = ("test_cells", "test_solved", "test_cells_unique", "test_solved_unique")
    for size in SIZES:
        id = f"c2dlm.sudoku.n{size}"
        found = results.require(id, profile)
        for arm in registry.arms(id):
            name = arm.removesuffix("_scratch")
            said = NAMES[name] + (", from scratch" if name != arm else "")
            stated = printed_cell(paper, arm, column=f"n={size}")
            rows.append([f"{size:,}", said, stated, *cells_of(found, arm, metrics)])
    return Table(
        "c2dlm.table3",
        ["training puzzles", "model", "paper", "cells", "puzzles", "cells, one solution",
         "puzzles, one solution"],
        rows,
        "4x4 Sudoku, percent right: mean ± half of the 95 % interval (seeds)",
        "Paper: Llama-3.2-1B, Qwen3-8B and Llama-3.1-8B where three numbers stand. Its autoregressive rows "
        "are multiples of 1/500, whole puzzles as it seems; its diffusion rows are multiples of 1/2048, the "
        "cells of 256 puzzles. Both metrics are given here. In 124 of the 500 puzzles several solutions fit.",
    )


# --- learning curves


def first_reach(history, metric: str, level: float, smooth: int = 3) -> float:
    """First step at which the mean of the last `smooth` entries of a metric reaches `level`; inf if none."""
    import math

    values = [entry[metric] for entry in history]
    for at in range(len(values)):
        part = values[max(0, at + 1 - smooth) : at + 1]
        if sum(part) / len(part) >= level:
            return float(history[at]["step"])
    return math.inf


def best_smoothed(history, metric: str, smooth: int = 3) -> float:
    """The largest mean of `smooth` successive entries of a metric."""
    values = [entry[metric] for entry in history]
    parts = (values[max(0, at + 1 - smooth) : at + 1] for at in range(len(values)))
    return max(sum(part) / len(part) for part in parts)


def speed_ups(experiment: str, metric: str, arm: str, against: str = "diffusion", profile: str | None = None):
    """For each seed, steps until `against` first reaches its own best smoothed score over those of `arm`.

    {seed: ratio}; 0 where the arm never gets there. Above 1: the arm is faster.
    """
    from causalnb.lab import results

    curves = results.curves(experiment, profile, arms=[arm, against])
    found = {}
    for seed, rows in curves.groupby("seed"):
        mine, theirs = (rows[rows.arm == name].to_dict("records") for name in (arm, against))
        level = best_smoothed(theirs, metric)
        found[seed] = first_reach(theirs, metric, level) / first_reach(mine, metric, level)
    return found
