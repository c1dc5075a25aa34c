"""Figure 4 of C2DLM: learning curves on chains of thought, and the speed-up read from them."""

from causalnb.experiments.c2dlm.artefacts.chains import NORMAL, SPED
from causalnb.experiments.c2dlm.curves import draw_curve, speed_up
from causalnb.lab import evidence, registry, results
from causalnb.lab.report import builds, draw, save

CURVES = {  # arm -> label, colour, line, marker
    "diffusion": ("diffusion (SFT)", "black", "--", "s"),
    "c2dlm": ("C2DLM", "blue", "-", "o"),
    "placebo": ("placebo graph", "vermillion", "-.", "^"),
    "autoregressive": ("autoregressive", "orange", ":", "D"),
}


def speed_ups(profile: str | None = None) -> dict:
    """{score: SpeedUp} of C2DLM over plain diffusion on the validation inputs, for each of SPED."""
    arms = ["diffusion", "c2dlm"]
    evidence.require(NORMAL, profile, arms)
    found = results.curves(NORMAL, profile, arms)
    return {name: speed_up(*(found[found.arm == arm] for arm in arms), name) for name in SPED}


def stated_speed_up() -> float:
    """The speed-up that the paper's section 4.2 states."""
    from causalnb.lab.tables import printed

    text = printed("c2dlm_text")
    return float(text[(text.row == "Section 4.2") & (text.column == "training speed-up")].value.iloc[0])


def speed_table(profile: str | None = None):
    """The speed-up of C2DLM by each score, beside the one stated."""
    from causalnb.lab.tables import Table

    stated = {"exact": f"{stated_speed_up():g}×"}
    return Table(
        "c2dlm.fig4",
        ["smoothed score", "paper", "ours, median over seeds"],
        [[SPED[name], stated.get(name, "not stated"), str(one)] for name, one in speed_ups(profile).items()],
        "How many times sooner C2DLM is as good as plain diffusion is at its best",
    )


def curves_figure(profile: str | None = None):
    """(figure, alt): Figure 4, exact answers and right steps on validation inputs during training, by arm."""
    import matplotlib.pyplot as plt

    from causalnb.lab.figures import headline, text_size

    evidence.require(NORMAL, profile, CURVES)
    found = results.curves(NORMAL, profile, CURVES)
    config = registry.config(NORMAL, "diffusion", profile)
    steps = config["train_rows"] / config["batch"]  # of an epoch
    fig, axes = plt.subplots(1, 2, figsize=(8.2, 3.2), sharex=True)
    told: list[str] = []
    for ax, metric, title in zip(axes, ("exact", "steps"), ("exact answers", "steps right"), strict=True):
        ends = [
            f"{label} {draw_curve(ax, found[found.arm == arm], metric, 3, label, *look):.2f}"
            for arm, (label, *look) in CURVES.items()
        ]
        told.append(f"{title}, at the end: {', '.join(ends)}")
        if metric == "exact":
            headline(fig, f"Exact answers to validation inputs at the end, smoothed: {', '.join(ends)}")
        ax.set(xlabel="training step", ylabel=f"{title}, share (smoothed)", ylim=(0, None))
        upper = ax.secondary_xaxis("top", functions=(lambda step: step / steps, lambda epoch: epoch * steps))
        upper.set_xlabel("epoch")
    axes[0].legend(fontsize=text_size(8))
    return fig, (
        "Two panels of learning curves over training steps, the mean over seeds in a band from the "
        f"lowest to the highest seed. {'; '.join(told)}."
    )


@builds("c2dlm.fig4", needs=[NORMAL])
def fig4(profile):
    """Learning curves, and the speed-up read from them."""
    caption = (
        "Validation scores during training, normal order: mean over seeds, band from the lowest to the "
        "highest."
    )
    draw(profile, "c2dlm.fig4", curves_figure(profile), caption)
    save(profile, speed_table)
