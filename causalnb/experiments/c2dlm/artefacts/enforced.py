"""The graph of the spurious token game enforced, and how near one comes without it at test time."""

from causalnb.experiments.c2dlm.artefacts.games import NAMES, SFT
from causalnb.lab import registry
from causalnb.lab.report import Measured, Report, Row, arm, builds, draw

HOME = "c2dlm.long.stg_l"
ORDER = (
    "autoregressive",
    SFT,
    "diffusion_s2000",
    "placebo",
    "c2dlm",
    "no_v",
    "isolated",
    "swapped",
    "half_swapped",
    "half_swapped_s2000",
    "enforced",
)
AT_TEST = ("enforced",)
GAP = "ood - iid, points"
LOOKS = {  # group of models -> colour, marker
    "plain": ("black", "s"),
    "soft": ("blue", "o"),
    "swapped": ("green", "^"),
    "mask": ("vermillion", "D"),
}
GROUPS = {
    "autoregressive": "plain",
    SFT: "plain",
    "diffusion_s2000": "plain",
    "swapped": "swapped",
    "half_swapped": "swapped",
    "half_swapped_s2000": "swapped",
} | dict.fromkeys(AT_TEST, "mask")


def _rows():
    for name in ORDER:
        iid, ood = (arm(HOME, name, f"{part}_accuracy") for part in ("iid", "ood"))
        told = "yes" if name in AT_TEST else "no"
        value = {"iid": iid, "ood": ood, GAP: ood - iid}
        if name != SFT:
            value["ood - SFT, points"] = ood - arm(HOME, SFT, "ood_accuracy")
        yield Row((NAMES[name], told), value)


def _caption(profile):
    config = registry.config(HOME, SFT, profile)
    return (
        f"The spurious token game L, {config['train_rows']:,} rows, {config['steps']:,} steps from random "
        "weights: percent right, mean ± half of the 95 % interval (seeds)"
    )


enforced_table = Report(
    "c2dlm.enforced",
    [
        "model",
        "graph needed at test",
        Measured("iid", "iid_accuracy"),
        Measured("ood", "ood_accuracy"),
        Measured(GAP, "ood_accuracy"),
        Measured("ood - SFT, points", "ood_accuracy"),
    ],
    _rows,
    _caption,
    "Enforced: a hard mask by the true graph, at test, too. Swapped: each number that is no cause is that of "
    "another row, ten copies of the rows. Half enforced: of these every second row is read under the mask; "
    "at test there is none.",
)


def enforced_figure(profile: str | None = None):
    """(figure, alt): o.o.d. against i.i.d. accuracy of every model, a small dot a seed."""
    import matplotlib.pyplot as plt
    import numpy as np

    from causalnb.lab.figures import COLOURS, headline, text_size

    fig, ax = plt.subplots(figsize=(6.8, 4.0))
    told, ends = [], {}
    ax.plot([50, 100], [50, 100], color="0.6", linestyle=":", marker="")
    for number, name in enumerate(ORDER, 1):
        colour, marker = LOOKS[GROUPS.get(name, "soft")]
        look = {"color": COLOURS[colour], "edgecolors": "black", "linewidths": 0.5}
        iid, ood = (
            100 * np.array(arm(HOME, name, f"{part}_accuracy").of(f"{part}_accuracy", profile))
            for part in ("iid", "ood")
        )
        ax.scatter(iid, ood, s=10, alpha=0.6, **look)
        ax.scatter(iid.mean(), ood.mean(), s=48, marker=marker, zorder=3, **look)
        ax.annotate(
            str(number),
            (iid.mean(), ood.mean()),
            xytext=(-5, 4),
            textcoords="offset points",
            ha="right",
            fontsize=text_size(8),
        )
        ax.scatter(
            [], [], s=30, marker=marker, label=f"{number}  {NAMES[name].removesuffix(' (ours)')}", **look
        )
        told.append(f"{NAMES[name]} {iid.mean():.1f} and {ood.mean():.1f}")
        ends[name] = ood.mean()
    ax.set(xlabel="i.i.d., % right", ylabel="o.o.d., % right", xlim=(50, 101), ylim=(50, 101))
    ax.legend(fontsize=text_size(8), loc="center left", bbox_to_anchor=(1.01, 0.5))
    soft, rows = (
        [ends[name] for name in ends if GROUPS.get(name, "soft") == group] for group in ("soft", "swapped")
    )
    headline(
        fig,
        f"O.o.d. plain SFT has {ends[SFT]:.0f} %, soft guidance {min(soft):.0f} to {max(soft):.0f} %, "
        f"rows swapped by the graph, which the test does without, up to {max(rows):.0f} %",
    )
    return fig, (
        "Accuracy on the i.i.d. and the o.o.d. test, a line where both are equal. In percent, means over "
        f"seeds: {'; '.join(told)}."
    )


@builds(
    "c2dlm.enforced",
    enforced_table,
    extra=True,
    printed_as="ours",
    kind="measured",
    shows="the graph enforced by a hard mask, and as augmentation, on the spurious token game",
    notebook="44_sudoku_and_stg",
)
def enforced(profile):
    """What the graph is worth where it binds, with and without it at test time."""
    caption = "O.o.d. against i.i.d. accuracy on STG_L; large marks are means, small dots seeds."
    draw(profile, "c2dlm.enforced", enforced_figure(profile), caption)
