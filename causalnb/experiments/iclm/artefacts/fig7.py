"""Figure 7 of ICLM: three readings of the mutual information loss in training."""

from causalnb.experiments.c2dlm.curves import draw_curve
from causalnb.experiments.iclm.artefacts.scores import FAMILIES, stated
from causalnb.experiments.iclm.artefacts.training import LOOKS, NEEDS, course, log_steps, measured
from causalnb.lab.report import builds, draw

ESTIMATORS = {  # column of a history -> label, colour, line, marker
    "forward": ("Equation 2", "blue", "-", "o"),
    "reverse": ("reversed", "green", "-.", "^"),
    "clamped": ("reversed and clamped, the code's", "orange", ":", "D"),
}


def stated_floor() -> float:
    """The mutual information that Appendix D.1 says training falls below."""
    return stated("mutual information falls below")


def draw_floor(ax, floor: float, named: bool) -> None:
    """A line at the mutual information that the paper states, on logarithmic nats, with words if `named`."""
    from causalnb.lab.figures import text_size

    ax.axhline(floor, color="black", linestyle="-", linewidth=0.8, marker="")
    ax.set(yscale="log")
    ax.set_ylim(bottom=floor / 4)
    if named:
        ax.annotate(
            f"the paper: below {floor:g}",
            (0.03, floor),
            (0, 3),
            fontsize=text_size(7),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
        )


def information_figure(families=FAMILIES, profile: str | None = None):
    """(figure, alt): Figure 7, mutual information in training by three estimators, and untrained."""
    import matplotlib.pyplot as plt

    from causalnb.lab.figures import headline, text_size

    floor, told = stated_floor(), []
    curves = {(family, name): measured(family, name, profile) for family in families for name in LOOKS}
    lows = []
    fig, axes = plt.subplots(1, len(families), figsize=(3.9 * len(families), 3.3), sharey=True, squeeze=False)
    for ax, family in zip(axes[0], families, strict=True):
        curve, other = curves[family, "iclm"], curves[family, "untrained"]
        for metric, (name, *look) in ESTIMATORS.items():
            draw_curve(ax, curve, metric, 1, name, *look)
            told.append(f"{family.upper()}, {name}: {course(curve, metric)}")
        lows.append(f"{family.upper()} {curve.groupby('step').forward.mean().min():.2g}")
        draw_curve(ax, other, "forward", 1, "untrained base, Equation 2", *LOOKS["untrained"])
        told.append(f"{family.upper()}, untrained base: {course(other, 'forward')}")
        log_steps(ax)
        draw_floor(ax, floor, named=ax is axes[0, 0])
        ax.set(xlabel="training step", title=family.upper())
    headline(fig, f"Mutual information at its lowest, nats: {', '.join(lows)}; the paper: below {floor:g}")
    axes[0, 0].set_ylabel("mutual information, nats")
    fig.legend(
        *axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=text_size(8)
    )
    return fig, (
        f"Mutual information against training steps, both axes logarithmic, a line at {floor:g}. "
        f"{'; '.join(told)}. What is 0 or below leaves the picture at the bottom."
    )


@builds("iclm.fig7", needs=NEEDS)
def fig7(profile):
    """Figure 7: the mutual information loss in training."""
    caption = (
        "Three readings of the mutual information loss: mean over seeds, band from the lowest to the highest."
    )
    draw(profile, "iclm.fig7", information_figure(profile=profile), caption)
