"""Maps of inputs: where ICLM's router sees them, and where the bare base does, with clusters."""

from causalnb.experiments.iclm.artefacts.scores import FORMATS, SETS, history
from causalnb.lab import evidence, results
from causalnb.lab.report import draw

CLUSTERS = "iclm.clusters"
MARKS = ("o", "^")  # text, symbolic
COLOURS = ("blue", "orange", "green")  # i.i.d., then two o.o.d. sets
SIX = {
    "acre text": ("blue", "o"),
    "acre symbolic": ("blue", "^"),
    "raven text": ("orange", "o"),
    "raven symbolic": ("orange", "^"),
    "pvr": ("green", "s"),
    "arc": ("purple", "D"),
}
GROUPS = (("vermillion", "s"), ("sky", "X"), ("black", "v"), ("yellow", "*"))  # modules or clusters
SHOWN = {  # figure -> arm of iclm.clusters, which of its sets, what they are
    "iclm.fig9": ("acre", slice(1), "ACRE, i.i.d. inputs"),
    "iclm.fig10": ("acre", slice(1, None), "ACRE, o.o.d. inputs"),
    "iclm.fig11": ("raven", slice(1), "RAVEN, i.i.d. inputs"),
    "iclm.fig12": ("raven", slice(1, None), "RAVEN, o.o.d. inputs"),
    "iclm.fig13": ("six", None, "six data sets"),
}


def router_map(family: str, name: str = "iclm", profile: str | None = None):
    """DataFrame of seed, cell, format, module, x, y: where a tuned router sees the test inputs."""
    rows = history(family, name, profile, "x")[["seed", "cell", "format", "module", "x", "y"]]
    return rows.astype({"module": int})


def clusters(name: str, profile: str | None = None):
    """DataFrame of layer, set, cluster, x, y of an arm of iclm.clusters; LabError if missing."""
    evidence.require(CLUSTERS, profile, [name])
    return results.curves(CLUSTERS, profile, [name])


def silhouette(points, labels) -> float:
    """How far labelled points (n, 2) are from the nearest other label against their own, in [-1, 1].

    0 where there is a single label, or where each point has its own.
    """
    from sklearn.metrics import silhouette_score

    labels = [*labels]
    few = 2 <= len(set(labels)) < len(labels)
    return float(silhouette_score(points, labels)) if few else 0.0


def truth(family: str, part: slice = slice(None)) -> dict[str, tuple[str, str]]:
    """{"cell format": (colour, marker)} of a family's sets, or of some in their order."""
    cells = [*zip(SETS[family], COLOURS, strict=True)][part]
    return {
        f"{cell} {format}": (colour, mark)
        for cell, colour in cells
        for format, mark in zip(FORMATS, MARKS, strict=True)
    }


def shown_sets(figure: str) -> dict[str, tuple[str, str]]:
    """{set: (colour, marker)} of one of SHOWN."""
    name, part, _ = SHOWN[figure]
    return SIX if part is None else truth(name, part)


def named(text: str) -> str:
    """A set's name as a reader has it."""
    for task in ("acre", "raven", "pvr", "arc"):
        text = text.replace(task, task.upper())
    return text.strip().replace("_", "-")


def draw_points(ax, points, groups: dict, column: str, word: str = "") -> None:
    """Points of a map, one look (colour, marker) for each value of a column, the rest grey; as pixels.

    The window is a square around all points, so that distances are true and panels of one map agree. A
    legend below names each value, after `word`.
    """
    from causalnb.lab.figures import COLOURS as NAMED
    from causalnb.lab.figures import text_size

    rest = points[~points[column].isin(groups)]
    ax.scatter(rest["x"], rest["y"], s=5, color="0.85", linewidths=0, rasterized=True)
    for value, (colour, marker) in groups.items():
        rows, edge = points[points[column] == value], 0.3 * (colour == "yellow")  # yellow alone is faint
        look = {"color": NAMED[colour], "marker": marker, "edgecolors": "0.3", "linewidths": edge}
        label = named(f"{word} {value}")
        ax.scatter(rows["x"], rows["y"], s=10, alpha=0.65, label=label, rasterized=True, **look)
    low, high = points[["x", "y"]].min(), points[["x", "y"]].max()
    half = 0.53 * max(*(high - low), 1e-9)
    window = {
        f"{axis}lim": ((low[axis] + high[axis]) / 2 - half, (low[axis] + high[axis]) / 2 + half)
        for axis in "xy"
    }
    ax.set(xticks=[], yticks=[], box_aspect=1, **window)
    ax.grid(False)
    ax.legend(
        fontsize=text_size(7),
        ncols=2 if len(groups) < 6 else 3,
        loc="upper center",
        bbox_to_anchor=(0.5, -0.01),
        markerscale=1.6,
        handletextpad=0.1,
        columnspacing=0.7,
    )


def clusters_figure(figure: str, profile: str | None = None):
    """(figure, alt): one of Figures 9 to 13, truth and four clusters in the last layer and the one before."""
    import matplotlib.pyplot as plt

    from causalnb.lab.figures import text_size

    name, _, what = SHOWN[figure]
    rows, looks = clusters(name, profile), shown_sets(figure)
    fig, axes = plt.subplots(1, 4, figsize=(10.4, 3.2))
    told = []
    for place, layer in enumerate((-1, -2)):
        every = rows[rows["layer"] == layer]
        shown = every[every["set"].isin(looks)]
        groups = {number: GROUPS[number] for number in sorted(shown["cluster"].unique())}
        left, right = axes[2 * place : 2 * place + 2]
        draw_points(left, every, looks, "set")
        hidden = every.assign(cluster=every["cluster"].where(every["set"].isin(looks)))
        draw_points(right, hidden, groups, "cluster", "cluster")
        for ax, title, letter in ((left, "the sets", "ac"[place]), (right, "four clusters", "bd"[place])):
            ax.set_title(f"({letter}) {title}, layer {layer}", fontsize=text_size(9))
        most = shown.groupby("set")["cluster"].agg(lambda its: its.value_counts(normalize=True).iloc[0])
        told.append(
            f"layer {layer}: {len(shown)} inputs in {len(groups)} clusters, silhouette of the sets "
            f"{silhouette(shown[['x', 'y']], shown['set']):.2f}; share of a set in its largest "
            f"cluster: {', '.join(f'{named(name)} {most[name]:.2f}' for name in looks)}"
        )
    return fig, (
        f"Maps of the untuned base's mean states of {what}: by set and by K-means with four "
        f"clusters, in the last layer and the one before. {'. '.join(told)}."
    )


def draw_clusters(profile: str | None, figure: str) -> None:
    """Write one of Figures 9 to 13."""
    caption = (
        f"{SHOWN[figure][2]}: mean states of the untuned base (metric scaling) by set and by K-means with "
        "four clusters, last layer and the one before. i.i.d. and o.o.d. inputs share one map and one "
        "clustering."
    )
    draw(profile, figure, clusters_figure(figure, profile), caption)
