"""Figures 5 and 9 to 15 of ICLM: where its router sees the inputs, and which layers are alike."""

from causalnb.experiments.iclm.artefacts.variants import FAMILIES, FORMATS, SCORES, decided, over_seeds
from causalnb.lab import evidence
from causalnb.lab.registry import artefact
from causalnb.lab.tables import points
from causalnb.lab.verdicts import reading

ARMS = {  # arm -> what tables call it; the controls are of iclm.controls.<family>
    "iclm": "ICLM",
    "untrained": "ICLM on a base of random weights",
    "matched": "ICLM, equal lengths",
}
CLUSTERS = "iclm.clusters"
BOTH = tuple(f"iclm.{family}" for family in FAMILIES)
CONTROLS = tuple(f"iclm.controls.{family}" for family in FAMILIES)
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
GROUPS = (("vermillion", "P"), ("sky", "X"), ("black", "v"), ("yellow", "*"))  # modules or clusters
SHARED = ("causalnb.experiments.iclm.artefacts.variants",)


def cells_of(family: str) -> list[str]:
    """The cells of a family, the i.i.d. one first."""
    from causalnb.experiments.iclm import grid as iclm_grid

    return iclm_grid.FAMILIES[family]["cells"]


def home(family: str, arm: str) -> str:
    """The experiment that trains one of ARMS."""
    return f"iclm.{family}" if arm == "iclm" else f"iclm.controls.{family}"


def _history(family: str, arm: str, column: str, profile):
    """Rows of an arm's history that have a column; LabError, as evidence.require, where one is missing."""
    from causalnb.lab import results

    evidence.require(home(family, arm), profile, [arm])
    found = results.curves(home(family, arm), profile, [arm])
    return found[found[column].notna()].dropna(axis=1, how="all")


# ------------------------------------------------------------------------------------- maps of the router
def router_map(family: str, arm: str = "iclm", profile: str | None = None):
    """DataFrame of seed, cell, format, module, x, y: where a tuned router sees the test inputs."""
    found = _history(family, arm, "x", profile)[["seed", "cell", "format", "module", "x", "y"]]
    return found.astype({"module": int})


def silhouette(points, labels) -> float:
    """How far labelled points (n, 2) are from the nearest other label against their own, in [-1, 1].

    0 where there is a single label, or where each point has its own.
    """
    from sklearn.metrics import silhouette_score

    labels = [*labels]
    few = 2 <= len(set(labels)) < len(labels)
    return float(silhouette_score(points, labels)) if few else 0.0


def separations(found) -> dict[str, float]:
    """Of one router's map: how far formats lie apart, cells within a format, and how modules split formats.

    formats, cells: silhouettes in [-1, 1], the latter a mean over formats; split: half the sum over modules
    of the difference between the formats' shares, 0 (alike) to 1 (each format has modules of its own).
    """
    import pandas as pd

    each = [silhouette(rows[["x", "y"]], rows["cell"]) for _, rows in found.groupby("format")]
    shares = pd.crosstab(found["module"], found["format"], normalize="columns")
    return {
        "formats": silhouette(found[["x", "y"]], found["format"]),
        "cells": sum(each) / len(each),
        "split": float((shares["text"] - shares["symbolic"]).abs().sum() / 2),
    }


def separated(family: str, arm: str = "iclm", profile: str | None = None):
    """DataFrame of `separations`, a row for each seed."""
    import pandas as pd

    found = router_map(family, arm, profile)
    return pd.DataFrame({seed: separations(rows) for seed, rows in found.groupby("seed")}).T


def shift_distances(family: str, profile: str | None = None):
    """DataFrame of seed, format, cell, distance, change: o.o.d. sets of a family in the tuned router's map.

    distance: of the set's mean from that of the i.i.d. inputs of its format, in root mean square distances of
    these from their mean; change: of accuracy from the i.i.d. set's, exact or, on RAVEN, by choice.
    """
    import pandas as pd

    first, *others = cells_of(family)
    score = [*SCORES[family]][-1]  # what the paper scores
    scores = evidence.require(f"iclm.{family}", profile, ["iclm"]).set_index("seed")
    rows = []
    for (seed, format), found in router_map(family, profile=profile).groupby(["seed", "format"]):
        places = {cell: group[["x", "y"]].to_numpy() for cell, group in found.groupby("cell")}
        centre = places[first].mean(0)
        spread = (((places[first] - centre) ** 2).sum(1).mean()) ** 0.5
        for cell in others:
            away = float(((places[cell].mean(0) - centre) ** 2).sum() ** 0.5)
            change = scores[f"{cell}_{format}_{score}"][seed] - scores[f"{first}_{format}_{score}"][seed]
            rows.append(
                {
                    "seed": seed,
                    "family": family,
                    "format": format,
                    "cell": cell,
                    "distance": away / spread if spread else 0.0,
                    "change": float(change),
                }
            )
    return pd.DataFrame(rows)


def far_and_near(found) -> tuple[float, float]:
    """(of all sets, of the two in each family and format) accuracy of the farther minus the nearer.

    `found`: shift_distances of one seed. The first compares the farther half of all sets with the nearer.
    """
    ranked = found.sort_values("distance", kind="stable")
    half = len(ranked) // 2
    within = []
    for _, sets in ranked.groupby(["family", "format"]):
        within.append(sets["change"].iloc[-1] - sets["change"].iloc[0])
    return (
        float(ranked["change"].iloc[-half:].mean() - ranked["change"].iloc[:half].mean()),
        float(sum(within) / len(within)),
    )


def contrasts(profile: str | None = None) -> dict[str, dict[int, float]]:
    """{claim: {seed: contrast}} of claims 8 and 9, on the seeds that both families have."""
    found = {family: separated(family, profile=profile) for family in FAMILIES}
    acre, raven = (found[family] for family in FAMILIES)
    return {
        "iclm.claim8": ((acre["formats"] + raven["formats"]) / 2).dropna().to_dict(),
        "iclm.claim9": (raven["cells"] - acre["cells"]).dropna().to_dict(),
    }


def distance_contrasts(profile: str | None = None) -> dict[int, tuple[float, float]]:
    """{seed: far_and_near} over both families, on the seeds that both have: the first is claim 11's."""
    import pandas as pd

    each = [shift_distances(family, profile) for family in FAMILIES]
    common = set.intersection(*(set(one["seed"]) for one in each))
    found = pd.concat(each)
    return {int(seed): far_and_near(found[found["seed"] == seed]) for seed in sorted(common)}


def _claimed(claim: str) -> str:
    from causalnb.lab.verdicts import claims

    return claims("iclm").set_index("id")["claim"][claim]


def separation_table(profile: str | None = None):
    """How far formats and sets lie apart in the router's map, with two controls; verdicts on claims 8, 9."""
    from causalnb.lab.tables import Table

    rows = []
    for family, name in FAMILIES.items():
        for arm, said in ARMS.items():
            found = separated(family, arm, profile)
            rows.append([name, said, *(over_seeds(found[one]) for one in ("formats", "cells", "split")), ""])
    for claim, values in contrasts(profile).items():
        summary = over_seeds(values.values())
        formats = claim == "iclm.claim8"
        rows.append(
            [
                "mean of both" if formats else "RAVEN − ACRE",
                _claimed(claim),
                summary if formats else "",
                "" if formats else summary,
                "",
                str(decided(claim, values.values())),
            ]
        )
    return Table(
        "iclm.fig5_separation",
        ["task", "model", "formats apart", "sets apart within a format", "split by module", "verdict"],
        rows,
        "How far inputs lie apart in the router's map: mean ± half of the 95 % interval (seeds)",
        "Apart: silhouette in the two dimensions of the map, from -1 to 1; 0: groups lie in each other. "
        "Split: half the sum over modules of the difference between the formats' shares. Equal lengths: "
        "prompts of both formats filled up to one length.",
    )


def named(text: str) -> str:
    """A set's name as a reader has it."""
    for task in ("acre", "raven", "pvr", "arc"):
        text = text.replace(task, task.upper())
    return text.strip().replace("_", "-")


def draw_points(ax, found, groups: dict, column: str, word: str = "") -> None:
    """Points of a map, one look (colour, marker) for each value of a column, the rest grey; as pixels.

    The window is a square around all points, so that distances are true and panels of one map agree. A
    legend below names each value, after `word`.
    """
    from causalnb.lab.figures import COLOURS as NAMED

    rest = found[~found[column].isin(groups)]
    ax.scatter(rest["x"], rest["y"], s=5, color="0.85", linewidths=0, rasterized=True)
    for value, (colour, marker) in groups.items():
        rows = found[found[column] == value]
        edge = {"edgecolors": "0.3", "linewidths": 0.3 * (colour == "yellow")}  # yellow alone is faint
        ax.scatter(
            rows["x"],
            rows["y"],
            s=10,
            alpha=0.65,
            color=NAMED[colour],
            marker=marker,
            **edge,
            label=named(f"{word} {value}"),
            rasterized=True,
        )
    low, high = found[["x", "y"]].min(), found[["x", "y"]].max()
    half = 0.53 * max(*(high - low), 1e-9)
    window = {
        f"{axis}lim": ((low[axis] + high[axis]) / 2 - half, (low[axis] + high[axis]) / 2 + half)
        for axis in "xy"
    }
    ax.set(xticks=[], yticks=[], box_aspect=1, **window)
    ax.grid(False)
    ax.legend(
        fontsize=7,
        ncols=2 if len(groups) < 6 else 3,
        loc="upper center",
        bbox_to_anchor=(0.5, -0.01),
        markerscale=1.6,
        handletextpad=0.1,
        columnspacing=0.7,
    )


def truth(cells) -> dict[str, tuple[str, str]]:
    """{"cell format": (colour, marker)} of a family's sets."""
    return {
        f"{cell} {format}": (colour, mark)
        for cell, colour in zip(cells, COLOURS, strict=False)
        for format, mark in zip(FORMATS, MARKS, strict=False)
    }


def routing_figure(profile: str | None = None, seed: int = 0):
    """(figure, alt): Figure 5, router states of both families by set and by the module they go to."""
    import matplotlib.pyplot as plt

    maps = {family: router_map(family, profile=profile) for family in FAMILIES}
    fig, axes = plt.subplots(2, 2, figsize=(6.6, 7.4))
    told = []
    for (left, right), (family, name), letters in zip(axes, FAMILIES.items(), ("ab", "cd"), strict=True):
        found = maps[family][maps[family]["seed"] == seed]
        found = found.assign(set=found["cell"] + " " + found["format"])
        modules = {module: GROUPS[module] for module in sorted(found["module"].unique())}
        draw_points(left, found, truth(cells_of(family)), "set")
        draw_points(right, found, modules, "module", "module")
        left.set_title(f"({letters[0]}) {name}: the sets", fontsize=9)
        right.set_title(f"({letters[1]}) {name}: the module by vector quantisation", fontsize=9)
        one = separations(found)
        shares = found.groupby("format")["module"].value_counts(normalize=True)
        sent = "; ".join(
            f"{format}: "
            + ", ".join(f"{share:.0%} to module {module}" for module, share in shares[format].items())
            for format in FORMATS
        )
        told.append(
            f"{name}, {len(found)} inputs: silhouette of the formats {one['formats']:.2f}, of the "
            f"sets within a format {one['cells']:.2f}; {sent}"
        )
    return fig, (
        f"Two-dimensional maps of the router's states in the run of seed {seed}, left by set, right "
        f"by the module each input goes to. {'. '.join(told)}."
    )


@artefact(
    "iclm.fig5",
    needs=(*BOTH, *CONTROLS),
)
def fig5(profile):
    """Figure 5: maps of the router's states, and how far apart formats and sets lie over seeds."""
    from causalnb.lab.figures import save_figure
    from causalnb.lab.tables import save_table

    fig, alt = routing_figure(profile)
    save_figure(
        fig,
        "iclm.fig5",
        alt=alt,
        caption="Where the tuned router sees the inputs (metric scaling), by set and by module; one seed.",
    )
    save_table(separation_table(profile))


# ----------------------------------------------------------------------------- clusters of the bare base
SETS = {  # figure -> arm of iclm.clusters, whether its i.i.d. or its o.o.d. sets, what they are
    "iclm.fig9": ("acre", True, "ACRE, i.i.d. inputs"),
    "iclm.fig10": ("acre", False, "ACRE, o.o.d. inputs"),
    "iclm.fig11": ("raven", True, "RAVEN, i.i.d. inputs"),
    "iclm.fig12": ("raven", False, "RAVEN, o.o.d. inputs"),
    "iclm.fig13": ("six", None, "six data sets"),
}


def clusters(arm: str, profile: str | None = None):
    """DataFrame of layer, set, cluster, x, y of an arm of iclm.clusters; LabError if missing."""
    from causalnb.lab import results

    evidence.require(CLUSTERS, profile, [arm])
    return results.curves(CLUSTERS, profile, [arm])


def shown_sets(figure: str) -> dict[str, tuple[str, str]]:
    """{set: (colour, marker)} of one of SETS."""
    arm, first, _ = SETS[figure]
    if first is None:
        return SIX
    cells = cells_of(arm)
    kept = cells[:1] if first else cells[1:]
    return {name: look for name, look in truth(cells).items() if name.partition(" ")[0] in kept}


def clusters_figure(figure: str, profile: str | None = None):
    """(figure, alt): one of Figures 9 to 13, truth and four clusters in the last layer and the one before."""
    import matplotlib.pyplot as plt

    arm, _, what = SETS[figure]
    found, looks = clusters(arm, profile), shown_sets(figure)
    fig, axes = plt.subplots(1, 4, figsize=(10.4, 3.2))
    told = []
    for place, layer in enumerate((-1, -2)):
        every = found[found["layer"] == layer]
        shown = every[every["set"].isin(looks)]
        groups = {number: GROUPS[number] for number in sorted(shown["cluster"].unique())}
        left, right = axes[2 * place : 2 * place + 2]
        draw_points(left, every, looks, "set")
        hidden = every.assign(cluster=every["cluster"].where(every["set"].isin(looks)))
        draw_points(right, hidden, groups, "cluster", "cluster")
        for ax, title, letter in ((left, "the sets", "ac"[place]), (right, "four clusters", "bd"[place])):
            ax.set_title(f"({letter}) {title}, layer {layer}", fontsize=9)
        most = shown.groupby("set")["cluster"].agg(lambda one: one.value_counts(normalize=True).iloc[0])
        told.append(
            f"layer {layer}: {len(shown)} inputs in {len(groups)} clusters, silhouette of the sets "
            f"{silhouette(shown[['x', 'y']], shown['set']):.2f}; share of a set in its largest "
            f"cluster: {', '.join(f'{named(name)} {most[name]:.2f}' for name in looks)}"
        )
    return fig, (
        f"Maps of the untuned base's mean states of {what}: by set and by K-means with four "
        f"clusters, in the last layer and the one before. {'. '.join(told)}."
    )


def set_silhouettes(profile: str | None = None) -> dict[str, float]:
    """{set: mean silhouette of its inputs} in the map of six data sets, last layer; decides claim 10."""
    from sklearn.metrics import silhouette_samples

    found = clusters("six", profile)
    found = found[found["layer"] == -1]
    each = silhouette_samples(found[["x", "y"]], found["set"])
    return found.assign(each=each).groupby("set")["each"].mean().to_dict()


def clusters_table(profile: str | None = None):
    """How far sets and formats lie apart in the base's states, at full width; verdict on claim 10."""
    from causalnb.lab.tables import Table

    found = evidence.require(CLUSTERS, profile).set_index("arm")
    names = {**FAMILIES, "six": "six data sets"}
    rows = [
        [
            names[arm],
            f"{-layer}",
            *(
                f"{found.loc[arm, f'{name}_layer{layer}']:.2f}"
                for name in ("silhouette_formats", "silhouette_sets", "rand")
            ),
            "",
        ]
        for arm in names
        for layer in (1, 2)
    ]
    each = set_silhouettes(profile)
    rows.append(
        [
            "six data sets, in the map",
            "-1",
            "",
            over_seeds(each.values()),
            "",
            str(decided("iclm.claim10", each.values())),
        ]
    )
    return Table(
        "iclm.fig13_clusters",
        ["inputs", "layer", "formats apart", "sets apart", "clusters like the sets", "verdict"],
        rows,
        "Mean states of the untuned base: silhouettes of formats and of sets, and the adjusted Rand index of "
        "K-means with four clusters",
        "At full width, of one base; nothing is trained. Last row: the mean over sets of their silhouette in "
        f"two dimensions ± half of the 95 % interval over {len(each)} sets, the lowest "
        f"{min(each.values()):.2f}; PVR and ARC count as formats of their own; for: "
        f"{_claimed('iclm.claim10')}",
    )


def distance_table(profile: str | None = None):
    """Whether accuracy falls with the distance of an o.o.d. set from the i.i.d. one; verdict on claim 11."""
    import pandas as pd

    from causalnb.lab.tables import Table

    found = pd.concat([shift_distances(family, profile) for family in FAMILIES])
    rows = [
        [
            f"{FAMILIES[family]} {cell}, {format}",
            over_seeds(one["distance"]),
            points(over_seeds(one["change"])),
            "",
        ]
        for (family, cell, format), one in found.groupby(["family", "cell", "format"], sort=False)
    ]
    of_all, within = zip(*distance_contrasts(profile).values(), strict=False)
    rows.append(
        [
            "the farther half of these sets − the nearer",
            "",
            points(over_seeds(of_all)),
            str(decided("iclm.claim11", of_all)),
        ]
    )
    rows.append(["the same within a task and a format", "", points(over_seeds(within)), reading([*within])])
    return Table(
        "iclm.fig13_distance",
        ["o.o.d. set", "distance from i.i.d.", "accuracy − i.i.d., points", "verdict"],
        rows,
        "Distance in the router's map and accuracy: means over seeds with 95 % intervals",
        "Distance of the means, in root mean square distances of the i.i.d. inputs from theirs. The paper "
        "compares RAVEN's sets with ACRE's; two tasks differ in more than a distance, so the last row "
        "compares the two o.o.d. sets of one task and format. Accuracy: of exact answers on ACRE, of choices "
        "among eight on RAVEN.",
    )


def _save_clusters(figure: str, profile) -> None:
    from causalnb.lab.figures import save_figure

    fig, alt = clusters_figure(figure, profile)
    save_figure(
        fig,
        figure,
        alt=alt,
        caption=f"{SETS[figure][2]}: mean states of the untuned base (metric "
        "scaling) by set and by K-means with four clusters, last layer and the one before. "
        "i.i.d. and o.o.d. inputs share one map and one clustering.",
    )


@artefact("iclm.fig9", needs=(CLUSTERS,))
def fig9(profile):
    """Figure 9: clusters of ACRE's i.i.d. inputs."""
    _save_clusters("iclm.fig9", profile)


@artefact("iclm.fig10", needs=(CLUSTERS,))
def fig10(profile):
    """Figure 10: clusters of ACRE's o.o.d. inputs."""
    _save_clusters("iclm.fig10", profile)


@artefact("iclm.fig11", needs=(CLUSTERS,))
def fig11(profile):
    """Figure 11: clusters of RAVEN's i.i.d. inputs."""
    _save_clusters("iclm.fig11", profile)


@artefact("iclm.fig12", needs=(CLUSTERS,))
def fig12(profile):
    """Figure 12: clusters of RAVEN's o.o.d. inputs."""
    _save_clusters("iclm.fig12", profile)


@artefact(
    "iclm.fig13",
    needs=(CLUSTERS, *BOTH),
)
def fig13(profile):
    """Figure 13: clusters of six data sets, how far they lie apart, and whether distance costs accuracy."""
    from causalnb.lab.tables import save_table

    _save_clusters("iclm.fig13", profile)
    save_table(clusters_table(profile))
    save_table(distance_table(profile))


# ----------------------------------------------------------------------------------- layers of the modules
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


def domains(metrics, cell: str) -> dict[str, str]:
    """{"symbolic" and "text": "0" or "1"}: which of two domain modules takes more of a format than the other.

    metrics: one run's shares `{cell}_{format}_module{i}`. Which module a format gets is chance, so that
    panels are averaged over seeds by format; the paper's module 0 has the symbolic inputs.
    """
    lead = [metrics[f"{cell}_text_module{i}"] - metrics[f"{cell}_symbolic_module{i}"] for i in range(2)]
    text = int(lead[1] >= lead[0])
    return {"text": str(text), "symbolic": str(1 - text)}


def matrices(family: str, arm: str = "iclm", profile: str | None = None) -> dict[int, dict[tuple, object]]:
    """{seed: {panel: (L + 1, L + 1)}} correlations of layers on i.i.d. inputs; rows are the first module's.

    A pair that is stored the other way round is turned.
    """

    cell, each = cells_of(family)[0], {}
    metrics = evidence.require(home(family, arm), profile, [arm]).set_index("seed")
    found = _history(family, arm, "pair", profile)
    for seed, rows in found[found["cell"] == cell].groupby("seed"):
        pairs = {pair: _square(lines) for pair, lines in rows.groupby("pair")}
        named, each[int(seed)] = domains(metrics.loc[seed], cell), {}
        for panel in PANELS:
            one, other = (named.get(module, module) for module in panel)
            straight = pairs.get(f"{one}|{other}")
            each[int(seed)][panel] = pairs[f"{other}|{one}"].T if straight is None else straight
    return each


def mean_matrices(found: dict[int, dict]) -> dict[tuple, object]:
    """{panel: (L + 1, L + 1)} of `matrices`, the mean over seeds."""
    return {panel: sum(each[panel] for each in found.values()) / len(found) for panel in PANELS}


def _square(rows):
    """(L + 1, L + 1) of the rows of one pair, by layer."""
    return rows.sort_values("layer")[[f"to_{i}" for i in range(len(rows))]].to_numpy(float)


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
    found, end = [], size
    while end:
        found.insert(0, list(range(start[end - 1], end)))
        end = start[end - 1]
    return found


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


def blocks_of(found: dict[int, dict]) -> list[list[int]]:
    """The blocks of `matrices`: those of the mean, over seeds, of what modules have with themselves."""
    own = [matrix for (one, other), matrix in mean_matrices(found).items() if one == other]
    return layer_blocks(sum(own) / len(own))


def block_contrasts(found: dict[int, dict]):
    """DataFrame, a row for each seed of `matrices`: within, between, and what goes beyond layers' distance.

    within: block_contrast of a module with itself, between: of two modules, on the same blocks; means over
    panels. *_beyond: less that of `by_distance` of the same matrix.
    """
    import pandas as pd

    blocks, rows = blocks_of(found), []
    for seed, panels in found.items():
        for (one, other), matrix in panels.items():
            same = one == other
            contrast = block_contrast(matrix, blocks, same)
            near = block_contrast(by_distance(matrix), blocks, same)
            name = "within" if same else "between"
            rows.append({"seed": seed, name: contrast, f"{name}_beyond": contrast - near})
    return pd.DataFrame(rows).groupby("seed").mean()


def layer_verdicts(profile: str | None = None) -> dict[str, tuple[dict[int, float], object]]:
    """{claim: ({seed: contrast}, Verdict)} of claims 32 and 33: means over families, on common seeds."""
    acre, raven = (block_contrasts(matrices(family, profile=profile)) for family in FAMILIES)
    both = ((acre + raven) / 2).dropna()
    found = {}
    for claim, name in (("iclm.claim32", "within"), ("iclm.claim33", "between")):
        found[claim] = both[name].to_dict(), decided(claim, both[name])
    return found


def said_blocks(blocks) -> str:
    """Blocks as text: "0-1 | 2 | 3-4"."""
    return " | ".join(f"{layers[0]}-{layers[-1]}" if len(layers) > 1 else str(layers[0]) for layers in blocks)


def blocks_table(profile: str | None = None):
    """Blocks of layers in modules and between them, with an untrained base; verdicts on claims 32 and 33."""
    from causalnb.lab.tables import Table, paper

    names = ("within", "within_beyond", "between", "between_beyond")
    rows = []
    for family, name in FAMILIES.items():
        for arm in ("iclm", "untrained"):
            found = matrices(family, arm, profile)
            contrasts = block_contrasts(found)
            rows.append(
                [
                    name,
                    ARMS[arm],
                    said_blocks(blocks_of(found)),
                    *(over_seeds(contrasts[one]) for one in names),
                    "",
                ]
            )
    for claim, (values, verdict) in layer_verdicts(profile).items():
        within, summary = claim == "iclm.claim32", over_seeds(values.values())
        rows.append(
            [
                "mean of both",
                _claimed(claim),
                "",
                summary if within else "",
                "",
                "" if within else summary,
                "",
                str(verdict),
            ]
        )
    printed = paper("iclm.text").set_index("column")["value"]["correlation blocks on ACRE"]
    return Table(
        "iclm.fig14_blocks",
        [
            "task",
            "model",
            "blocks of layers",
            "within a module",
            "beyond distance",
            "between modules",
            "beyond distance (between)",
            "verdict",
        ],
        rows,
        "Correlation of layers in the same block minus that of layers in different ones: mean ± half of the "
        "95 % interval (seeds)",
        f"The paper sees {printed:g} blocks in 33 states on ACRE. Layer 0: embeddings, the same in all "
        "modules. Blocks are read from what modules have with themselves, and looked for between modules. "
        "Beyond distance: less the same difference where each entry is the mean of all that are as many "
        "layers apart; near 0, layers are alike because they are near, and form no blocks.",
    )


def layers_figure(family: str, profile: str | None = None):
    """(figure, alt): Figure 14 or 15, ten panels of correlations of layers, mean over seeds, with blocks."""
    import matplotlib.pyplot as plt

    found = matrices(family, profile=profile)
    means, blocks = mean_matrices(found), blocks_of(found)
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
        ax.set_title(f"({letter}) {name}", fontsize=8)
        told.append(f"{name} {mean[-1, -1]:.2f} in the last layer, {mean[0, -1]:.2f} from first to last")
    fig.supxlabel("layer of the second module", fontsize=9)
    fig.supylabel("layer of the first module", fontsize=9)
    fig.colorbar(image, ax=axes.ravel().tolist(), label="Pearson correlation", shrink=0.8)
    return fig, (
        f"Ten matrices of Pearson correlations, layers 0 to {len(mean) - 1} of two modules, on "
        f"{FAMILIES[family]}; dashed lines part blocks {said_blocks(blocks)}. {'; '.join(told)}."
    )


def _save_layers(figure: str, family: str, profile) -> None:
    from causalnb.lab.figures import save_figure

    fig, alt = layers_figure(family, profile)
    save_figure(
        fig,
        figure,
        alt=alt,
        caption=f"{FAMILIES[family]}: Pearson correlation of every layer of "
        "one module with every layer of another at the answers of i.i.d. inputs, mean over seeds; "
        "domain modules by the format they take; dashed: blocks.",
    )


@artefact(
    "iclm.fig14",
    needs=(*BOTH, *CONTROLS),
)
def fig14(profile):
    """Figure 14: correlations of layers on ACRE, and the blocks of both tasks."""
    from causalnb.lab.tables import save_table

    _save_layers("iclm.fig14", "acre", profile)
    save_table(blocks_table(profile))


@artefact("iclm.fig15", needs=BOTH[1:])
def fig15(profile):
    """Figure 15: correlations of layers on RAVEN."""
    _save_layers("iclm.fig15", "raven", profile)
