"""Figure 16 of ICLM: the transfer model's modules layer by layer on ACRE, and whether one collapses."""

from causalnb.experiments.iclm.artefacts.continual import (
    CONTINUAL,
    IID,
    TASKS,
    histories,
    layer_tables,
    rows_of,
)
from causalnb.experiments.iclm.artefacts.layers import tables_of
from causalnb.experiments.iclm.artefacts.scores import shares
from causalnb.lab.report import Report, builds, draw

COLLAPSED = 0.5  # of the other domain modules' mean tie: below it a module counts as collapsed
WIDE, SHIFT = 6, (1.22, 1.38)  # panels in a row, and from one to the next, in widths of a panel


def panels(tables: dict) -> list[tuple[str, str]]:
    """The pairs in the order of the paper's panels: the router's, the invariant's, own ones, the others."""
    domains = [(a, b) for a, b in tables if a.isdigit()]
    return (
        [pair for pair in tables if not pair[0].isdigit()]
        + [(a, b) for a, b in domains if a == b]
        + [(a, b) for a, b in domains if a != b]
    )


def ties(tables: dict) -> dict[str, tuple[float, float]]:
    """{domain module: (mean correlation with its own other layers, with all layers of other modules)}."""
    import numpy as np

    told = {}
    for name in (a for a, b in tables if a == b and a.isdigit()):
        own = tables[name, name]
        others = [table.mean() for pair, table in tables.items() if name in pair and pair[0] != pair[1]]
        told[name] = (float(own[~np.eye(len(own), dtype=bool)].mean()), float(np.mean(others)))
    return told


def collapse(task: str, profile: str | None = None, cell: str | None = None) -> dict[int, dict]:
    """{seed: `ties`} of the transfer model on a cell of a task, None for its i.i.d. one."""
    each = histories(task, profile).groupby("seed")
    return {int(seed): ties(tables_of(rows, cell or IID[task])) for seed, rows in each}


def shares_of_others(each: dict[str, tuple[float, float]]) -> dict[str, float]:
    """{domain module: its tie, the mean of its two numbers, over the other domain modules' mean tie}."""
    tie = {name: sum(both) / 2 for name, both in each.items()}
    return {name: one * (len(tie) - 1) / (sum(tie.values()) - one) for name, one in tie.items()}


def collapse_contrast(task: str, profile: str | None = None) -> dict[int, float]:
    """{seed: the lowest module's tie as a share of the others' mean tie, less COLLAPSED}; below 0: collapsed.

    The lowest of several is always below the others' mean, so that a mere difference could not fail.
    """
    return {
        seed: min(shares_of_others(each).values()) - COLLAPSED
        for seed, each in collapse(task, profile).items()
    }


def ties_table(task: str) -> Report:
    """Every domain module of every seed: its ties, what it is given, and whether it has collapsed."""

    def rows(profile):
        given = [shares(rows_of("iclm", profile), IID[one], when="after") for one in TASKS]
        for seed, each in collapse(task, profile).items():
            for name, part in shares_of_others(each).items():
                yield [
                    seed,
                    _title(name),
                    *(f"{value:.2f}" for value in (*each[name], part)),
                    *(f"{100 * share.loc[seed, int(name)]:.0f}" for share in given),
                    "yes" if part < COLLAPSED else "",
                ]

    return Report(
        f"iclm.{'fig16' if task == TASKS[0] else 'fig17'}_ties",
        [
            "seed",
            "module",
            "own layers",
            "other modules",
            "of the others' tie",
            "% of ACRE",
            "% of RAVEN",
            "collapsed",
        ],
        [rows],
        f"Mean correlations of the domain modules on {task.upper()}, i.i.d., after both tasks",
        "A module's tie is the mean of its two correlations, with its own other layers and with all layers "
        f"of other modules; it has collapsed where its tie is below {COLLAPSED:g} of the other domain "
        "modules' mean tie. Shares are of inputs that the router gives to it.",
        needs=(CONTINUAL,),
    )


def _title(name: str) -> str:
    return f"Dom {name}" if name.isdigit() else {"router": "Router", "invariant": "Inv"}[name]


def draw_panels(ax, tables: dict):
    """Draw each table of layers in the paper's order on one ax, on one scale from -1 to 1; the last image."""
    from matplotlib.patches import Rectangle

    from causalnb.lab.figures import text_size

    last = len(next(iter(tables.values()))) - 1
    for place, pair in enumerate(panels(tables)):
        row, column = divmod(place, WIDE)
        left, top = column * SHIFT[0], row * SHIFT[1]
        image = ax.imshow(tables[pair], cmap="RdBu", vmin=-1, vmax=1, extent=(left, left + 1, top + 1, top))
        ax.add_patch(Rectangle((left, top), 1, 1, fill=False, linewidth=0.6))
        title = f"({chr(ord('a') + place)}) {_title(pair[0])}-{_title(pair[1])}"
        ax.text(left + 0.5, top - 0.05, title, fontsize=text_size(7.5), ha="center")
        for layer in (0, last):
            near = (layer + 0.5) / (last + 1)
            if column == 0:
                ax.text(left - 0.04, top + near, layer, fontsize=text_size(6), ha="right", va="center")
            ax.text(left + near, top + 1.04, layer, fontsize=text_size(6), ha="center", va="top")
    middle = {"fontsize": text_size(7), "rotation": 90, "ha": "center", "va": "center"}
    ax.text(-0.2, SHIFT[1] * row / 2 + 0.5, "layer of the first", **middle)
    ax.text(0.5, top + 1.2, "layer of the second", fontsize=text_size(7), ha="center", va="top")
    ax.set(xlim=(-0.3, SHIFT[0] * WIDE - 0.2), ylim=(top + 1.35, -0.25), aspect="equal")
    ax.set_axis_off()
    return image


def _draw_ties(ax, task: str, profile, cell, seed: int) -> str:
    """Every seed's domain modules as shares of the others' tie, the panels' seed filled; it in words."""
    from causalnb.lab.figures import COLOURS, MARKERS, text_size

    told, every = [], collapse(task, profile, cell)
    for place, (one, each) in enumerate(every.items()):
        parts, aside = shares_of_others(each), 0.12 * (place - (len(every) - 1) / 2)
        look = {"color": COLOURS["blue"], "markerfacecolor": COLOURS["blue"] if one == seed else "white"}
        look |= {"marker": MARKERS[place % len(MARKERS)], "zorder": 3 if one == seed else 2}
        at = [at + aside for at in range(len(parts))]
        ax.plot(at, list(parts.values()), linestyle="", markersize=6, label=f"seed {one}", **look)
        told.append(f"seed {one}: " + ", ".join(f"Dom {name} {part:.2f}" for name, part in parts.items()))
    ax.axhline(COLLAPSED, color=COLOURS["vermillion"], linestyle="--", marker="", linewidth=1)
    look = {"color": COLOURS["vermillion"], "fontsize": text_size(7), "ha": "right", "va": "top"}
    ax.text(0.99, COLLAPSED - 0.02, "collapsed below", transform=ax.get_yaxis_transform(), **look)
    ax.set_xticks(range(len(parts)), [_title(name) for name in parts], fontsize=text_size(7))
    ax.set(xlim=(-0.5, len(parts) - 0.5), ylim=(min(0.0, ax.get_ylim()[0]), max(1.6, ax.get_ylim()[1] + 0.3)))
    ax.tick_params(axis="y", labelsize=text_size(7))
    ax.set_title("tie, as a share of the others'", fontsize=text_size(7.5))
    ax.legend(fontsize=text_size(6), loc="upper center", ncols=len(every), borderaxespad=0.1)
    return "; ".join(told)


def layers_figure(task: str, profile: str | None = None, cell: str | None = None, seed: int = 0):
    """(figure, alt): Figure 16 or 17, every pair of modules layer by layer, and the domain modules' ties."""
    import matplotlib.pyplot as plt

    from causalnb.lab.figures import text_size

    tables = layer_tables(task, profile, cell, seed)
    deep, rest = -(-len(tables) // WIDE), len(tables) % WIDE
    fig = plt.figure(figsize=(8.8, 1.62 * deep))
    fig.set_layout_engine("none")  # the places of all parts are known
    ax = fig.add_axes((0, 0, 0.92, 1))
    image = draw_panels(ax, tables)
    bar = fig.colorbar(image, cax=fig.add_axes((0.93, 0.35, 0.012, 0.4)), ticks=(-1, 0, 1))
    bar.ax.tick_params(labelsize=text_size(7))
    bar.set_label("Pearson correlation", fontsize=text_size(7.5), labelpad=-4)
    told = ""
    if rest:  # what is left of the last row
        (left, right), (bottom, top) = ax.get_xlim(), ax.get_ylim()
        low, start = (deep - 1) * SHIFT[1] + 1, rest * SHIFT[0]
        wide, tall = right - left, bottom - top
        corner = (start + 0.55) / wide, (bottom - low) / tall
        inset = ax.inset_axes((*corner, (right - start - 0.4) / wide, 1 / tall))
        told = _draw_ties(inset, task, profile, cell, seed)
    means = ", ".join(f"{_title(a)}-{_title(b)} {tables[a, b].mean():.2f}" for a, b in panels(tables))
    return fig, (
        f"{len(tables)} maps of correlations between layers of two modules on {task.upper()}, seed "
        f"{seed}; their means: {means}. Ties of domain modules as shares of the others': {told}."
    )


def draw_layers(profile: str | None, figure: str, task: str) -> None:
    """Write Figure 16 or 17."""
    caption = (
        f"Pearson correlations between the layers of two modules on {task.upper()}, i.i.d., at the states "
        "that predict an answer; one seed, and the domain modules' ties of all seeds."
    )
    draw(profile, figure, layers_figure(task, profile), caption)


@builds("iclm.fig16", ties_table("acre"))
def fig16(profile):
    """Figure 16: the transfer model's modules layer by layer on ACRE."""
    draw_layers(profile, "iclm.fig16", "acre")
