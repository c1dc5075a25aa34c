"""Figure 4 of ICLM: correlation of the modules' last states at test time."""

from itertools import product

from causalnb.experiments.iclm.artefacts.layers import tables_of, turned
from causalnb.experiments.iclm.artefacts.scores import FAMILIES, SETS, history, rows_of, symbolic_module
from causalnb.experiments.iclm.artefacts.training import LOOKS, NAMES, NEEDS
from causalnb.lab.report import builds, draw

MODULES = ("Inv", "Dom 0", "Dom 1")


def matrices(family: str, name: str, profile: str | None = None) -> dict[str, object]:
    """{"iid", "ood": (seeds, 3, 3)}: Pearson's r of last states of MODULES; Dom 0 is the symbolic one."""
    import numpy as np

    rows, own = (
        history(family, name, profile, "pair"),
        symbolic_module(rows_of(family, name, profile), family),
    )
    first, *others = SETS[family]
    told = {"iid": np.ones((len(own), 3, 3)), "ood": np.ones((len(own), 3, 3))}
    for (kind, cells), (place, (seed, swapped)) in product(
        (("iid", [first]), ("ood", others)), enumerate(own.items())
    ):
        order = ("invariant", *("10" if swapped else "01"))
        tables = [tables_of(rows[rows.seed == seed], cell) for cell in cells]
        for i, j in ((0, 1), (0, 2), (1, 2)):
            both = np.mean([turned(each, order[i], order[j])[-1, -1] for each in tables])
            told[kind][place, i, j] = told[kind][place, j, i] = both
    return told


def printed_matrices() -> dict[tuple[str, str], object]:
    """{(family, "iid" | "ood"): (3, 3)} of the paper's Figure 4."""
    from causalnb.lab.tables import paper

    table = paper("iclm.fig4")
    return {
        (family, which): table[table.row_group == family.upper() + " o.o.d." * (which == "ood")]
        .pivot(index="row", columns="column", values="value")
        .loc[[*MODULES], [*MODULES]]
        .to_numpy()
        for family, which in product(FAMILIES, ("iid", "ood"))
    }


def matrices_figure(families=FAMILIES, profile: str | None = None):
    """(figure, alt): Figure 4, matrices of correlations: the paper's, ICLM's and the untrained control's."""
    import matplotlib.pyplot as plt
    import numpy as np

    from causalnb.lab.figures import headline, signed, text_size

    panels, said, told = [*product(families, ("iid", "ood"))], printed_matrices(), []
    lines = {"the paper": {panel: said[panel][None] for panel in panels}}
    for name in LOOKS:
        made = {family: matrices(family, name, profile) for family in families}
        lines[NAMES[name]] = {(family, which): made[family][which] for family, which in panels}
    shape = {"figsize": (1.75 * len(panels) + 0.6, 5.0), "layout": "compressed"}
    fig, axes = plt.subplots(len(lines), len(panels), squeeze=False, sharex=True, sharey=True, **shape)
    for row, (name, each) in zip(axes, lines.items(), strict=True):
        for ax, panel in zip(row, panels, strict=True):
            values = each[panel]
            mean, spread = values.mean(0), values.max(0) - values.min(0)
            image = ax.imshow(mean, **signed([-1, 1]))
            for i, j in np.ndindex(3, 3):
                half = f"\n±{spread[i, j] / 2:.2f}" if len(values) > 1 and i != j else ""
                look = {"fontsize": text_size(7), "color": "white" if abs(mean[i, j]) > 0.65 else "black"}
                ax.text(j, i, f"{mean[i, j]:.2f}{half}", ha="center", va="center", **look)
            ax.set_xticks(range(3), MODULES, fontsize=text_size(6.5))
            ax.set_yticks(range(3), MODULES, fontsize=text_size(6.5))
            ax.grid(False)
            title = f"{panel[0].upper()}{'' if panel[1] == 'iid' else ' o.o.d.'}"
            told.append(
                f"{name}, {title}: Inv and Dom 0 {mean[0, 1]:.2f}, Inv and Dom 1 {mean[0, 2]:.2f}, "
                f"Dom 0 and Dom 1 {mean[1, 2]:.2f}"
            )
            if name == "the paper":
                ax.set_title(title, fontsize=text_size(9))
        row[0].set_ylabel(name)
    pairs = np.triu_indices(3, 1)
    means = (
        f"{name} {np.mean([each[panel].mean(0)[pairs] for panel in panels]):.2f}"
        for name, each in lines.items()
    )
    headline(fig, f"Mean correlation of two modules: {', '.join(means)}")
    fig.colorbar(image, ax=axes.ravel().tolist(), label="Pearson's r of last states", shrink=0.5)
    return fig, (
        "Matrices of correlations between the invariant module and two domain modules at test time, "
        f"a row for the paper, ICLM and the untrained control. {'; '.join(told)}."
    )


@builds("iclm.fig4", needs=NEEDS)
def fig4(profile):
    """Figure 4: correlation of the modules' last states at test time."""
    caption = (
        "Pearson's r over all entries of last states that predict test labels, both formats; mean over "
        "seeds, ± half of their range. Dom 0 gets the symbolic prompts."
    )
    draw(profile, "iclm.fig4", matrices_figure(profile=profile), caption)
