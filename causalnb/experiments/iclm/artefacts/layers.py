"""Correlations of the layers of modules: read, cut into blocks and drawn."""

from causalnb.experiments.iclm.artefacts.scores import FAMILIES, SETS, history, rows_of, symbolic_module
from causalnb.lab.report import draw

PANELS = (
    ("router", "router"),
    ("router", "invariant"),
    ("router", "symbolic"),
    ("router", "text"),
    ("invariant", "invariant"),
    ("invariant", "symbolic"),
    ("invariant", "text"),
    ("symbolic", "symbolic"),
    ("text", "text"),
    ("symbolic", "text"),
)  # in the paper's order
TITLES = {"router": "Router", "invariant": "Inv", "symbolic": "Dom symb", "text": "Dom text"}


def tables_of(rows, cell: str) -> dict[tuple[str, str], object]:
    """{(one, other): correlations (L + 1, L + 1)} of modules on a cell, of one run's history.

    Rows are layers of the one, columns of the other.
    """
    rows = rows[rows.pair.notna() & (rows.cell == cell)].sort_values("layer", kind="stable")
    places = [f"to_{i}" for i in range(rows.layer.nunique())]
    return {
        tuple(pair.split("|")): its[places].to_numpy(float) for pair, its in rows.groupby("pair", sort=False)
    }


def turned(tables: dict, one: str, other: str):
    """The table of two modules, whichever of them was stored first."""
    return tables[one, other] if (one, other) in tables else tables[other, one].T


def matrices(family: str, name: str = "iclm", profile: str | None = None) -> dict[int, dict[tuple, object]]:
    """{seed: {panel: (L + 1, L + 1)}} correlations of layers on i.i.d. inputs; rows are the first module's.

    Domain modules are named by the format they take: which module that is is chance, so that panels are
    averaged over seeds by format.
    """
    rows, each = history(family, name, profile, "pair"), {}
    for seed, own in symbolic_module(rows_of(family, name, profile), family).items():
        numbers = {"symbolic": str(own), "text": str(1 - own)}
        tables = tables_of(rows[rows["seed"] == seed], next(iter(SETS[family])))
        each[int(seed)] = {
            panel: turned(tables, *(numbers.get(module, module) for module in panel)) for panel in PANELS
        }
    return each


def mean_matrices(each: dict[int, dict]) -> dict[tuple, object]:
    """{panel: (L + 1, L + 1)} of `matrices`, the mean over seeds."""
    return {panel: sum(panels[panel] for panels in each.values()) / len(each) for panel in PANELS}


def layer_blocks(matrix) -> list[list[int]]:
    """The layers of a symmetric matrix of correlations (L, L) cut into runs, each a block.

    Of all ways to cut, the one for which the correlations within blocks exceed the mean of all pairs most, in
    sum; found exactly by dynamic programming. A layer may be a block of its own; ValueError for fewer than 3.
    """
    import numpy as np

    size = len(matrix)
    if size < 3:
        raise ValueError(f"{size} layers cannot be told into blocks: give a matrix of 3 or more")
    excess = np.triu(matrix - matrix[np.triu_indices(size, 1)].mean(), 1)
    best, start = [0.0], []
    for end in range(1, size + 1):
        gains = [best[first] + excess[first:end, first:end].sum() for first in range(end)]
        start.append(max(range(end), key=lambda first: (gains[first], first)))
        best.append(gains[start[-1]])
    blocks, end = [], size
    while end:
        blocks.insert(0, list(range(start[end - 1], end)))
        end = start[end - 1]
    return blocks


def block_contrast(matrix, blocks, same_module: bool) -> float:
    """Mean correlation of layers in the same block minus that of layers in different ones.

    Of one module with itself a layer's correlation with itself does not count. 0 where there is nothing to
    compare.
    """
    import numpy as np

    block = np.concatenate([[number] * len(layers) for number, layers in enumerate(blocks)])
    same = block[:, None] == block
    counts = ~np.eye(len(block), dtype=bool) | (not same_module)
    if not (same & counts).any() or same.all():
        return 0.0
    return float(matrix[same & counts].mean() - matrix[~same].mean())


def by_distance(matrix):
    """The matrix (L, L) with each entry the mean of all that are as many layers apart: without blocks."""
    import numpy as np

    apart = abs(np.subtract.outer(np.arange(len(matrix)), np.arange(len(matrix))))
    return np.array([matrix[apart == far].mean() for far in range(len(matrix))])[apart]


def blocks_of(each: dict[int, dict]) -> list[list[int]]:
    """The blocks of `matrices`: those of the mean, over seeds, of what modules have with themselves."""
    own = [matrix for (one, other), matrix in mean_matrices(each).items() if one == other]
    return layer_blocks(sum(own) / len(own))


def block_contrasts(each: dict[int, dict]):
    """DataFrame, a row for each seed of `matrices`: within, between, and what goes beyond layers' distance.

    within: block_contrast of a module with itself, between: of two modules, on the same blocks; means over
    panels. *_beyond: less that of `by_distance` of the same matrix.
    """
    import pandas as pd

    blocks, rows = blocks_of(each), []
    for seed, panels in each.items():
        for (one, other), matrix in panels.items():
            same = one == other
            contrast, near = (block_contrast(its, blocks, same) for its in (matrix, by_distance(matrix)))
            kind = "within" if same else "between"
            rows.append({"seed": seed, kind: contrast, f"{kind}_beyond": contrast - near})
    return pd.DataFrame(rows).groupby("seed").mean()


def said_blocks(blocks) -> str:
    """Blocks as text: "0-1 | 2 | 3-4"."""
    return " | ".join(f"{layers[0]}-{layers[-1]}" if len(layers) > 1 else str(layers[0]) for layers in blocks)


def layers_figure(family: str, profile: str | None = None):
    """(figure, alt): Figure 14 or 15, ten panels of correlations of layers, mean over seeds, with blocks."""
    import matplotlib.pyplot as plt

    from causalnb.lab.figures import text_size

    each = matrices(family, profile=profile)
    means, blocks = mean_matrices(each), blocks_of(each)
    fig, axes = plt.subplots(2, 5, figsize=(10.2, 4.5), sharex=True, sharey=True)
    told = []
    for ax, (panel, mean), letter in zip(axes.flat, means.items(), "abcdefghij", strict=True):
        image = ax.imshow(mean, cmap="RdBu", vmin=-1, vmax=1)
        for layers in blocks[1:]:
            for line in (ax.axhline, ax.axvline):
                line(layers[0] - 0.5, color="black", linewidth=0.8, linestyle="--", marker="")
        ax.grid(False)
        ax.set(xticks=range(len(mean)), yticks=range(len(mean)))
        name = " - ".join(TITLES[module] for module in panel)
        ax.set_title(f"({letter}) {name}", fontsize=text_size(8))
        told.append(f"{name} {mean[-1, -1]:.2f} in the last layer, {mean[0, -1]:.2f} from first to last")
    fig.supxlabel("layer of the second module", fontsize=text_size(9))
    fig.supylabel("layer of the first module", fontsize=text_size(9))
    fig.colorbar(image, ax=axes.ravel().tolist(), label="Pearson correlation", shrink=0.8)
    return fig, (
        f"Ten matrices of Pearson correlations, layers 0 to {len(mean) - 1} of two modules, on "
        f"{FAMILIES[family]}; dashed lines part blocks {said_blocks(blocks)}. {'; '.join(told)}."
    )


def draw_layers(profile: str | None, figure: str, family: str) -> None:
    """Write Figure 14 or 15."""
    caption = (
        f"{FAMILIES[family]}: Pearson correlation of every layer of one module with every layer of another "
        "at the answers of i.i.d. inputs, mean over seeds; domain modules by the format they take; dashed: "
        "blocks."
    )
    draw(profile, figure, layers_figure(family, profile), caption)
