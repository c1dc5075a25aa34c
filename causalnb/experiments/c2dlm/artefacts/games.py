"""What the tables and figures on Sudoku and the spurious token game share: names, looks and attention."""

from causalnb.lab import evidence

NAMES = {
    "autoregressive": "autoregressive",
    "diffusion": "diffusion, SFT",
    "c2dlm": "C2DLM",
    "placebo": "placebo graph",
    "no_v": "C2DLM without V",
    "isolated": "every concept isolated (ours)",
    "isolated_placebo": "isolated, placebo graph (ours)",
    "enforced": "graph enforced, at test too (ours)",
    "half_enforced": "half the rows under the mask (ours)",
    "half_placebo": "half under a random mask (ours)",
    "swapped": "swapped rows (ours)",
    "half_swapped": "swapped rows, half enforced (ours)",
    "diffusion_s2000": "diffusion, SFT, twice the steps",
    "half_swapped_s2000": "swapped rows, half enforced, twice the steps (ours)",
    "mutual": "cells decide each other (mutual)",
}
SFT = "diffusion"
PAPER = {"diffusion": "LLaDA-8B-Instruct (SFT)", "c2dlm": "C2DLM"}
KINDS = {"causal": ("purple", ""), "spurious": ("green", "//"), "irrelevant": ("yellow", "..")}
STG_L = "c2dlm.long.stg_l"
MAPPED = [(arm, kind) for arm in ("diffusion", "c2dlm") for kind in ("raw", "weighted")]


def kinds() -> dict[str, str]:
    """{attribute: "causal", "spurious" or "irrelevant"} of S, M and L, in that order."""
    from causalnb.tasks import stg

    parts = (stg.CAUSES, stg.SPURIOUS, stg.IRRELEVANT)
    return {name: kind for kind, names in zip(KINDS, parts, strict=True) for name in names}


def attribute_flow(arm: str, kind: str, profile: str | None = None, experiment: str = STG_L):
    """(seeds, 9, 8) shares of attention, kind "raw" or "weighted": rows the 8 attributes and the answer."""
    import numpy as np

    rows, names = evidence.rows(experiment, profile, [arm]), list(kinds())
    flow = rows.pivot(index="seed", columns=["cell", "measure"], values="value")
    places = [(f"{kind}/{effect}", cause) for effect in (*names, "Answer") for cause in names]
    return np.asarray(flow[places]).reshape(len(flow), 9, 8)


def flows(profile: str | None = None) -> dict:
    """{title: attribute_flow} of both models, raw and weighted."""
    return {f"{NAMES[arm]}, {kind}": attribute_flow(arm, kind, profile) for arm, kind in MAPPED}


def answer_bars(ax, shares) -> list[float]:
    """Draw the answer's row (seeds, 8) as bars with intervals over seeds; the means."""
    import numpy as np

    from causalnb.lab.figures import COLOURS, text_size
    from causalnb.lab.statistics import mean_ci

    summaries = [mean_ci(column) for column in shares.T]
    for place, (summary, kind) in enumerate(zip(summaries, kinds().values(), strict=True)):
        colour, hatch = KINDS[kind]
        look = {"color": COLOURS[colour], "hatch": hatch, "edgecolor": "black", "linewidth": 0.6}
        ax.bar(place, summary.mean, yerr=np.nan_to_num(summary.half), capsize=2, **look)
    ax.set_xticks(range(len(summaries)), kinds(), rotation=40, ha="right", fontsize=text_size(7))
    ax.grid(axis="x", visible=False)
    return [summary.mean for summary in summaries]


def legend_of_kinds(fig) -> None:
    """Below the figure, what the bars of each kind of attribute look like."""
    from matplotlib.patches import Patch

    from causalnb.lab.figures import COLOURS, text_size

    looks = {kind: {"facecolor": COLOURS[colour], "hatch": hatch} for kind, (colour, hatch) in KINDS.items()}
    patches = [Patch(edgecolor="black", label=kind, **look) for kind, look in looks.items()]
    fig.legend(handles=patches, loc="outside lower center", ncols=3, fontsize=text_size(8))


def on_causes(shares) -> str:
    """The percentage of the answer's attention to attributes that is on its causes; shares (seeds, 8)."""
    means = shares.mean(0)
    causes = [kind == "causal" for kind in kinds().values()]
    return f"{100 * means[causes].sum() / means.sum():.0f} %"


def listed(means) -> str:
    """The attributes with their shares, for alt text."""
    return ", ".join(f"{name} {share:.3f}" for name, share in zip(kinds(), means, strict=True))
