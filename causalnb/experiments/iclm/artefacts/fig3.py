"""Figure 3 of ICLM: correlation and mutual information of the modules in training."""

from causalnb.experiments.c2dlm.curves import draw_curve
from causalnb.experiments.iclm.artefacts.scores import FAMILIES
from causalnb.experiments.iclm.artefacts.training import (
    LOOKS,
    NAMES,
    NEEDS,
    at_end,
    course,
    log_steps,
    measured,
)
from causalnb.lab.report import builds, draw

ALIGNED = {"iclm": ("sky", (0, (1, 1)), "v"), "untrained": ("orange", "-.", "D")}  # of CKA


def dependence_figure(families=FAMILIES, profile: str | None = None):
    """(figure, alt): Figure 3, correlation on the left, mutual information on the right, a row a family."""
    import matplotlib.pyplot as plt

    from causalnb.lab.figures import headline, text_size

    curves = {(family, name): measured(family, name, profile) for family in families for name in LOOKS}
    fig, axes = plt.subplots(len(families), 2, figsize=(6.8, 2.3 * len(families)), sharex=True, squeeze=False)
    told = []
    for (left, right), family in zip(axes, families, strict=True):
        for name in LOOKS:
            for ax, metric, said, look in (
                (left, "pearson", "Pearson's r", LOOKS[name]),
                (left, "cka", "CKA", ALIGNED[name]),
                (right, "forward", "mutual information", LOOKS[name]),
            ):
                draw_curve(ax, curves[family, name], metric, 1, f"{NAMES[name]}: {said}", *look)
                words = course(curves[family, name], metric)
                told.append(f"{family.upper()}, {NAMES[name]}, {said}: {words}")
        left.set(
            title=f"{family.upper()}: correlation of states",
            ylabel="r, debiased CKA",
            ylim=(min(-0.05, left.get_ylim()[0]), 1.05),
        )
        right.set(title=f"{family.upper()}: mutual information", ylabel="nats", yscale="log")
        log_steps(left)
        log_steps(right)
    for ax in axes[-1]:
        ax.set_xlabel("training step")
    ends = (
        f"{family.upper()} {NAMES[name]} {at_end(curves[family, name]).pearson.mean():.2f}"
        for family in families
        for name in LOOKS
    )
    headline(fig, f"Correlation of the modules at the end of training: {', '.join(ends)}")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    both = [label.replace("Pearson's r", "Pearson's r; mutual information") for label in labels]
    fig.legend(handles, both, loc="outside lower center", ncols=2, fontsize=text_size(8))
    return fig, (
        "States of the invariant and the domain modules in training, correlation on the left, "
        f"mutual information on the right, mean over seeds in a band of all. {'; '.join(told)}."
    )


@builds("iclm.fig3", needs=NEEDS)
def fig3(profile):
    """Figure 3: correlation and mutual information in training."""
    caption = (
        "States of the invariant and the domain modules that predict validation labels: mean over seeds, "
        "band from the lowest to the highest. At step 0, not shown, the modules are equal by construction."
    )
    draw(profile, "iclm.fig3", dependence_figure(profile=profile), caption)
