"""Figure 13 of ICLM: clusters of six data sets, their distances, and whether distance costs accuracy."""

from causalnb.experiments.iclm.artefacts.maps import CLUSTERS, clusters, draw_clusters, router_map
from causalnb.experiments.iclm.artefacts.scores import (
    CHOSEN,
    FAMILIES,
    SETS,
    rows_of,
    scored,
)
from causalnb.lab import evidence
from causalnb.lab.report import Decided, Measured, Reading, Report, Row, builds, gain, of_claim, values
from causalnb.lab.statistics import mean_ci
from causalnb.lab.tables import points

HOMES = tuple(f"iclm.{family}" for family in FAMILIES)


def shift_distances(family: str, profile: str | None = None):
    """DataFrame of seed, family, format, cell, distance, change: o.o.d. sets of a family in the router's map.

    distance: of the set's mean from that of the i.i.d. inputs of its format, in root mean square distances of
    these from their mean; change: of accuracy from the i.i.d. set's, exact or, on RAVEN, by choice.
    """
    import pandas as pd

    first, *others = SETS[family]
    scores, rows = rows_of(family, "iclm", profile), []
    for (seed, format), its in router_map(family, profile=profile).groupby(["seed", "format"]):
        places = {cell: group[["x", "y"]].to_numpy() for cell, group in its.groupby("cell")}
        right = {cell: scored(CHOSEN[family], cell, format).read(scores)[seed] for cell in SETS[family]}
        centre = places[first].mean(0)
        spread = (((places[first] - centre) ** 2).sum(1).mean()) ** 0.5
        for cell in others:
            away = float(((places[cell].mean(0) - centre) ** 2).sum() ** 0.5)
            measured = {
                "distance": away / spread if spread else 0.0,
                "change": float(right[cell] - right[first]),
            }
            rows.append({"seed": seed, "family": family, "format": format, "cell": cell} | measured)
    return pd.DataFrame(rows)


def far_and_near(sets) -> tuple[float, float]:
    """(of all sets, of the two in each family and format) accuracy of the farther minus the nearer.

    `sets`: shift_distances of one seed. The first compares the farther half of all sets with the nearer.
    """
    ranked = sets.sort_values("distance", kind="stable")
    half = len(ranked) // 2
    within = [
        its["change"].iloc[-1] - its["change"].iloc[0] for _, its in ranked.groupby(["family", "format"])
    ]
    return (
        float(ranked["change"].iloc[-half:].mean() - ranked["change"].iloc[:half].mean()),
        float(sum(within) / len(within)),
    )


def _distances(profile):
    import pandas as pd

    return pd.concat([shift_distances(family, profile) for family in FAMILIES])


def distance_contrasts(profile: str | None = None) -> dict[int, tuple[float, float]]:
    """{seed: far_and_near} over both families, on the seeds that both have: the first is claim 11's."""
    each = _distances(profile).groupby("seed")
    return {int(seed): far_and_near(sets) for seed, sets in each if sets["family"].nunique() == len(FAMILIES)}


def _distance_rows(profile):
    for (family, cell, format), its in _distances(profile).groupby(["family", "cell", "format"], sort=False):
        change = points(mean_ci(its["change"]))
        yield [f"{FAMILIES[family]} {cell}, {format}", mean_ci(its["distance"]), change, ""]


def _contrast(part: int):
    return values(lambda profile: [both[part] for both in distance_contrasts(profile).values()], *HOMES)


distance_table = Report(
    "iclm.fig13_distance",
    [
        "o.o.d. set",
        "distance from i.i.d.",
        Measured("accuracy − i.i.d., points", format=gain),
        Reading("verdict"),
    ],
    [
        _distance_rows,
        Row("the farther half of these sets − the nearer", _contrast(0), claim="iclm.claim11"),
        Row("the same within a task and a format", _contrast(1)),
    ],
    "Distance in the router's map and accuracy: means over seeds with 95 % intervals",
    "Distance of the means, in root mean square distances of the i.i.d. inputs from theirs. The paper "
    "compares RAVEN's sets with ACRE's; two tasks differ in more than a distance, so the last row "
    "compares the two o.o.d. sets of one task and format. Accuracy: of exact answers on ACRE, of choices "
    "among eight on RAVEN.",
)


def set_silhouettes(profile: str | None = None) -> dict[str, float]:
    """{set: mean silhouette of its inputs} in the map of six data sets, last layer; decides claim 10."""
    from sklearn.metrics import silhouette_samples

    rows = clusters("six", profile)
    rows = rows[rows["layer"] == -1]
    each = silhouette_samples(rows[["x", "y"]], rows["set"])
    return rows.assign(each=each).groupby("set")["each"].mean().to_dict()


def _cluster_rows(profile):
    frame = evidence.require(CLUSTERS, profile).set_index("arm")
    for name, said in {**FAMILIES, "six": "six data sets"}.items():
        for layer in (1, 2):
            told = (
                f"{frame.loc[name, f'{kind}_layer{layer}']:.2f}"
                for kind in ("silhouette_formats", "silhouette_sets", "rand")
            )
            yield [said, f"{-layer}", *told, ""]


def _in_map(profile) -> list[float]:
    return [*set_silhouettes(profile).values()]


def _cluster_notes(profile) -> str:
    each = set_silhouettes(profile).values()
    return (
        "At full width, of one base; nothing is trained. Last row: the mean over sets of their silhouette in "
        f"two dimensions ± half of the 95 % interval over {len(each)} sets, the lowest "
        f"{min(each):.2f}; PVR and ARC count as formats of their own; for: "
        f"{of_claim('iclm.claim10', '{claim}')()}"
    )


clusters_table = Report(
    "iclm.fig13_clusters",
    [
        *("inputs", "layer", "formats apart"),
        Measured("sets apart", format=mean_ci),
        "clusters like the sets",
        Decided("verdict"),
    ],
    [
        _cluster_rows,
        Row(("six data sets, in the map", "-1"), values(_in_map, CLUSTERS), claim="iclm.claim10"),
    ],
    "Mean states of the untuned base: silhouettes of formats and of sets, and the adjusted Rand index of "
    "K-means with four clusters",
    _cluster_notes,
    needs=(CLUSTERS,),
)


@builds("iclm.fig13", clusters_table, distance_table, needs=(CLUSTERS, *distance_table.needed()))
def fig13(profile):
    """Figure 13: clusters of six data sets, how far they lie apart, and whether distance costs accuracy."""
    draw_clusters(profile, "iclm.fig13")
