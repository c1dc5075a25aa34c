"""Figure 5 of C2DLM: learning curves on STG_H, and the speed-up of every seed."""

from causalnb.experiments.c2dlm import curves
from causalnb.experiments.c2dlm.artefacts.games import NAMES, SFT
from causalnb.lab import evidence, results
from causalnb.lab.report import builds, draw

STG_H = "c2dlm.long.stg_h"
LOOKS = {
    "diffusion": ("black", ":", "o"),
    "c2dlm": ("blue", "-", "^"),
    "placebo": ("orange", "--", "s"),
}
WINDOW = 3  # evaluations


def speed_ups(profile: str | None = None) -> dict:
    """{arm: SpeedUp over plain SFT} on the validation sample."""
    evidence.require(STG_H, profile, LOOKS)
    histories = dict([*results.curves(STG_H, profile, LOOKS).groupby("arm")])
    treated = [arm for arm in LOOKS if arm != SFT]
    return {arm: curves.speed_up(histories[SFT], histories[arm], "accuracy", WINDOW) for arm in treated}


def _draw_speed_ups(ax, found: dict) -> None:
    from causalnb.lab.figures import COLOURS, text_size
    from causalnb.lab.tables import paper

    text = paper("c2dlm.text")
    stated = float(text[text.column == "training speed-up on STG_H"].value.iloc[0])
    for place, (arm, one) in enumerate(found.items()):
        colour, _, marker = LOOKS[arm]
        for seed, quotient in one.quotients.items():
            height = -place + 0.12 * (seed - (len(one.quotients) - 1) / 2)
            look = {"marker": "x" if quotient is None else marker, "color": COLOURS[colour]}
            ax.plot(quotient or 0.0, height, linestyle="", **look)
    for where, line in ((1, "-"), (stated, "--")):
        ax.axvline(where, color="0.4", linewidth=1, linestyle=line, marker="")
    names = [NAMES[arm].replace(" (ours)", "").replace(" ", "\n", 1) for arm in found]
    ax.set_yticks([-place for place in range(len(found))], names, fontsize=text_size(8))
    most = max(quotient or 0.0 for one in found.values() for quotient in one.quotients.values())
    ax.set(
        xlabel="speed-up over SFT, by seed\n(× at 0: not reached)",
        ylim=(-len(found) + 0.5, 0.5),
        xlim=(-0.15, max(stated, most) + 0.4),
        title=f"dashed: the paper, {stated:g}",
    )


def curves_figure(profile: str | None = None):
    """(figure, alt): Figure 5, accuracy during training on STG_H, and the speed-up of every seed."""
    import matplotlib.pyplot as plt

    from causalnb.lab.figures import headline, text_size

    found = speed_ups(profile)  # LabError first, where results are missing
    history = results.curves(STG_H, profile, LOOKS)
    fig, axes = plt.subplots(1, 3, figsize=(8.0, 2.7), width_ratios=[1, 1, 0.85])
    ends: list[str] = []
    told, panels = [], {"accuracy": "exact index", "within_5": "index within 5"}
    for ax, (metric, title) in zip(axes, panels.items(), strict=False):
        for arm, look in LOOKS.items():
            end = curves.draw_curve(ax, history[history.arm == arm], metric, WINDOW, NAMES[arm], *look)
            told.append(f"{title}, {NAMES[arm]} ends at {end:.3f}")
            ends += [f"{NAMES[arm]} {end:.2f}"] if metric == "accuracy" else []
        ax.set(xlabel="training step", ylabel="share right, smoothed", title=title)
        ax.set_ylim(bottom=0)
    axes[1].set_ylabel("")
    fig.legend(
        *axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=text_size(8)
    )
    _draw_speed_ups(axes[2], found)
    told += [f"speed-up of {NAMES[arm]}: {one}" for arm, one in found.items()]
    stated = axes[2].get_title().rpartition(" ")[2]
    headline(fig, f"The exact index of validation rows at the end, smoothed: {', '.join(ends)}")
    return fig, (
        f"Two panels of learning curves on STG_H and one of speed-ups. {'; '.join(told)}. "
        f"The paper states {stated}."
    )


@builds("c2dlm.fig5", needs=[STG_H])
def fig5(profile):
    """Figure 5: learning curves on STG_H and the speed-up over seeds."""
    caption = (
        f"STG_H, validation sample; mean of the last {WINDOW} evaluations, bands span the seeds. Speed-up: "
        "steps until SFT's best smoothed score, SFT's over the arm's; a cross at 0 was not reached."
    )
    draw(profile, "c2dlm.fig5", curves_figure(profile), caption)
