"""Figure 5 of ICLM: maps of the router's states, and how far apart formats and sets lie over seeds."""

from causalnb.experiments.iclm.artefacts.maps import GROUPS, draw_points, router_map, silhouette, truth
from causalnb.experiments.iclm.artefacts.scores import FAMILIES, FORMATS, home
from causalnb.lab.report import (
    Measured,
    Reading,
    Report,
    Row,
    Values,
    builds,
    draw,
    mean,
    number,
    of_claim,
    values,
)
from causalnb.lab.statistics import mean_ci

ARMS = {
    "iclm": "ICLM",
    "untrained": "ICLM on a base of random weights",
    "matched": "ICLM, equal lengths",
}
KINDS = {"formats": "formats apart", "cells": "sets apart within a format", "split": "split by module"}
LEAST = {"formats": -1.0, "cells": -1.0, "split": 0.0}


def separations(rows) -> dict[str, float]:
    """Of one router's map: how far formats lie apart, cells within a format, and how modules split formats.

    formats, cells: silhouettes in [-1, 1], the latter a mean over formats; split: half the sum over modules
    of the difference between the formats' shares, 0 (alike) to 1 (each format has modules of its own).
    """
    import pandas as pd

    each = [silhouette(its[["x", "y"]], its["cell"]) for _, its in rows.groupby("format")]
    shares = pd.crosstab(rows["module"], rows["format"], normalize="columns")
    return {
        "formats": silhouette(rows[["x", "y"]], rows["format"]),
        "cells": sum(each) / len(each),
        "split": float((shares["text"] - shares["symbolic"]).abs().sum() / 2),
    }


def separated(family: str, name: str = "iclm", profile: str | None = None):
    """DataFrame of `separations`, a row for each seed."""
    import pandas as pd

    rows = router_map(family, name, profile)
    return pd.DataFrame({seed: separations(its) for seed, its in rows.groupby("seed")}).T


def _of(family: str, kind: str) -> Values:
    return values(lambda profile: separated(family, profile=profile)[kind], home(family, "iclm"))


CONTRASTS = {  # claim -> its values
    "iclm.claim8": mean(*(_of(family, "formats") for family in FAMILIES)),
    "iclm.claim9": _of("raven", "cells") - _of("acre", "cells"),
}


def _rows(profile):
    for family, said in FAMILIES.items():
        for name, label in ARMS.items():
            apart = separated(family, name, profile)
            yield [said, label, *(mean_ci(apart[kind], within=(LEAST[kind], 1.0)) for kind in KINDS), ""]


separation_table = Report(
    "iclm.fig5_separation",
    ["task", "model", *(Measured(head, format=number()) for head in KINDS.values()), Reading("verdict")],
    [
        _rows,
        *(
            Row((label, of_claim(claim, "{claim}")), {KINDS[kind]: CONTRASTS[claim]}, claim=claim)
            for claim, label, kind in (
                ("iclm.claim8", "mean of both", "formats"),
                ("iclm.claim9", "RAVEN − ACRE", "cells"),
            )
        ),
    ],
    "How far inputs lie apart in the router's map: mean ± half of the 95 % interval (seeds)",
    "Apart: silhouette in the two dimensions of the map, from -1 to 1; 0: groups lie in each other. "
    "Split: half the sum over modules of the difference between the formats' shares. Equal lengths: "
    "prompts of both formats filled up to one length.",
    needs=tuple(dict.fromkeys(home(family, name) for family in FAMILIES for name in ARMS)),
)


def routing_figure(profile: str | None = None, seed: int = 0):
    """(figure, alt): Figure 5, router states of both families by set and by the module they go to."""
    import matplotlib.pyplot as plt

    from causalnb.lab.figures import headline, text_size

    maps = {family: router_map(family, profile=profile) for family in FAMILIES}
    fig, axes = plt.subplots(2, 2, figsize=(6.6, 7.4))
    told, ends = [], []
    for (left, right), (family, title), letters in zip(axes, FAMILIES.items(), ("ab", "cd"), strict=True):
        rows = maps[family][maps[family]["seed"] == seed]
        rows = rows.assign(set=rows["cell"] + " " + rows["format"])
        modules = {module: GROUPS[module] for module in sorted(rows["module"].unique())}
        draw_points(left, rows, truth(family), "set")
        draw_points(right, rows, modules, "module", "module")
        left.set_title(f"({letters[0]}) {title}: the sets", fontsize=text_size(9))
        right.set_title(f"({letters[1]}) {title}: the module by vector quantisation", fontsize=text_size(9))
        apart = separations(rows)
        ends.append(f"{title} formats {apart['formats']:.2f}, sets {apart['cells']:.2f}")
        shares = rows.groupby("format")["module"].value_counts(normalize=True)
        sent = "; ".join(
            f"{format}: "
            + ", ".join(f"{share:.0%} to module {module}" for module, share in shares[format].items())
            for format in FORMATS
        )
        told.append(
            f"{title}, {len(rows)} inputs: silhouette of the formats {apart['formats']:.2f}, of the "
            f"sets within a format {apart['cells']:.2f}; {sent}"
        )
    headline(fig, f"How far apart the router's states are, silhouettes: {'; '.join(ends)}")
    return fig, (
        f"Two-dimensional maps of the router's states in the run of seed {seed}, left by set, right "
        f"by the module each input goes to. {'. '.join(told)}."
    )


@builds("iclm.fig5", separation_table)
def fig5(profile):
    """Figure 5: maps of the router's states, and how far apart formats and sets lie over seeds."""
    caption = "Where the tuned router sees the inputs (metric scaling), by set and by module; one seed."
    draw(profile, "iclm.fig5", routing_figure(profile), caption)
