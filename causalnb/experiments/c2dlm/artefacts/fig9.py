"""Figure 9 of C2DLM: the answer's attention to each attribute, raw and weighted."""

from causalnb.experiments.c2dlm.artefacts.games import (
    STG_L,
    answer_bars,
    flows,
    legend_of_kinds,
    listed,
    on_causes,
)
from causalnb.lab.report import builds, draw


def bars_figure(profile: str | None = None):
    """(figure, alt): Figure 9, the answer's attention to each attribute, raw and weighted, SFT and C2DLM."""
    import matplotlib.pyplot as plt

    from causalnb.lab.figures import headline, text_size

    rows = {title: flow[:, -1] for title, flow in flows(profile).items()}
    fig, axes = plt.subplots(4, 1, figsize=(4.4, 4.9), sharex=True, sharey=True)
    told = []
    for ax, (title, shares) in zip(axes, rows.items(), strict=True):
        told.append(f"{title}: {listed(answer_bars(ax, shares))}")
        ax.set_title(title, fontsize=text_size(9), loc="left")
        ax.set_ylabel("share")
    ax.set_ylim(bottom=0)
    legend_of_kinds(fig)
    causes = (f"{title} {on_causes(shares)}" for title, shares in rows.items())
    headline(fig, f"Of the answer's attention to attributes, on its causes: {', '.join(causes)}")
    return fig, f"Four rows of bars, the answer's attention to the eight attributes. {'; '.join(told)}."


@builds("c2dlm.fig9", needs=[STG_L])
def fig9(profile):
    """Figure 9: the answer's attention to each attribute, raw and weighted."""
    caption = "STG_L: the last row of Figure 8, with 95 % intervals over seeds."
    draw(profile, "c2dlm.fig9", bars_figure(profile), caption)
