"""Figure 6 of C2DLM: weighted attention of the answer, and the causes' part of it in every arm."""

from causalnb.experiments.c2dlm.artefacts import games
from causalnb.experiments.c2dlm.artefacts.games import NAMES, SFT, STG_L, kinds
from causalnb.lab import registry
from causalnb.lab.report import Measured, Reading, Report, Row, arm, builds, draw


def _arms():
    for name in registry.arms(STG_L):
        if name == "enforced":
            continue  # its answer sees the causes alone, and its stored maps are of it without its mask
        claim = "c2dlm.claim24" if name == "c2dlm" else None
        yield Row(NAMES[name], arm(STG_L, name), claim=claim)


def even(profile: str | None = None) -> str:
    """What the causes' share would be of attention that is spread evenly, and enforced, in sentences."""
    share = 100 * sum(kind == "causal" for kind in kinds().values()) / len(kinds())
    return f"Spread evenly it would be {share:.1f}; with the graph enforced it is 100 by construction."


against = "weighted - SFT, points"
shares = Report(
    "c2dlm.fig6_shares",
    [
        "model",
        Measured("raw", "raw_causal"),
        Measured("weighted", "weighted_causal"),
        Measured(against, "weighted_causal", minus=arm(STG_L, SFT)),
        Reading("reading", against),
    ],
    _arms,
    "STG_L: percent of the answer's attention to attributes that goes to the three causes, "
    "mean ± half of the 95 % interval (seeds)",
    even,
)


def answer_figure(profile: str | None = None):
    """(figure, alt): Figure 6, the answer's weighted attention to attributes, as a map and as bars."""
    import matplotlib.pyplot as plt

    from causalnb.lab.figures import headline, text_size

    flows = {name: games.attribute_flow(name, "weighted", profile)[:, -1] for name in ("diffusion", "c2dlm")}
    fig, axes = plt.subplots(2, 2, figsize=(5.8, 2.9), sharex="col", sharey="row", height_ratios=[0.3, 1])
    top, told = max(flow.mean(0).max() for flow in flows.values()), []
    for (strip, bars), (name, flow) in zip(axes.T, flows.items(), strict=True):
        strip.imshow(flow.mean(0)[None], aspect="auto", vmin=0, vmax=top)
        strip.set_yticks([0], ["answer"], fontsize=text_size(8))
        strip.set_title(NAMES[name], fontsize=text_size(9), loc="left")
        strip.grid(False)
        told.append(f"{NAMES[name]}: {games.listed(games.answer_bars(bars, flow))}")
    axes[1, 0].set_ylabel("share of the answer's\nweighted attention")
    axes[1, 0].set_ylim(bottom=0)
    games.legend_of_kinds(fig)
    causes = (f"{NAMES[name]} {games.on_causes(flow)}" for name, flow in flows.items())
    headline(fig, f"Of the answer's weighted attention to attributes, on its causes: {', '.join(causes)}")
    return fig, (
        "Weighted attention of the answer to the eight attributes, each as a strip above bars. "
        f"{'; '.join(told)}."
    )


@builds("c2dlm.fig6", shares)
def fig6(profile):
    """Figure 6: weighted attention of the answer, SFT and C2DLM; and the causes' part of it in every arm."""
    caption = (
        "STG_L, attention weighted by value norms, mean over layers, heads, 200 people and seeds; bars with "
        "95 % intervals over seeds."
    )
    draw(profile, "c2dlm.fig6", answer_figure(profile), caption)
