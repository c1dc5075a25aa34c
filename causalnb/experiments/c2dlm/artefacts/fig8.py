"""Figure 8 of C2DLM: maps of attention between attributes, raw and weighted."""

from causalnb.experiments.c2dlm.artefacts.games import MAPPED, NAMES, STG_L, flows, kinds, listed, on_causes
from causalnb.lab.report import builds, draw


def maps_figure(profile: str | None = None):
    """(figure, alt): Figure 8, attention from attribute to attribute, raw and weighted, SFT and C2DLM."""
    import matplotlib.pyplot as plt

    from causalnb.lab.figures import headline, text_size

    found = flows(profile)
    maps = {title: flow.mean(0) for title, flow in found.items()}
    fig, axes = plt.subplots(2, 2, figsize=(5.6, 4.9), sharex=True, sharey=True)
    top, told = max(flow.max() for flow in maps.values()), []
    for ax, (title, flow) in zip(axes.flat, maps.items(), strict=True):
        image = ax.imshow(flow, vmin=0, vmax=top)
        ax.axhline(7.5, color="white", linewidth=2, marker="", linestyle="-")
        for edge in (2.5, 5.5):
            ax.axvline(edge, color="white", linewidth=1, marker="", linestyle="--")
        ax.set_title(title, fontsize=text_size(9), loc="left")
        ax.set_xticks(range(8), kinds(), rotation=40, ha="right", fontsize=text_size(6))
        ax.set_yticks(range(9), [*kinds(), "Answer"], fontsize=text_size(6))
        ax.grid(False)
        told.append(f"{title}: the answer's row is {listed(flow[-1])}; the largest entry is {flow.max():.3f}")
    causes: dict[str, list[str]] = {}
    for (arm, kind), flow in zip(MAPPED, found.values(), strict=True):
        causes.setdefault(NAMES[arm], []).append(f"{on_causes(flow.mean(1))} {kind}")
    ends = "; ".join(f"{name} {', '.join(each)}" for name, each in causes.items())
    headline(fig, f"Of all queries' attention to attributes, on the answer's causes: {ends}")
    for ax in axes[-1]:
        ax.set_xlabel("key: causal | spurious | irrelevant", fontsize=text_size(7))
    fig.supylabel("query", fontsize=text_size(8))
    fig.colorbar(image, ax=axes.ravel().tolist(), label="share of the query's attention", shrink=0.6)
    return fig, f"Four maps, nine queries by eight attributes. {'; '.join(told)}."


@builds("c2dlm.fig8", needs=[STG_L])
def fig8(profile):
    """Figure 8: maps between attributes, raw and weighted."""
    caption = (
        "STG_L: attention from attribute to attribute, name and number together; mean over layers, heads, "
        "200 people and seeds. The last row is the place where the answer is decoded."
    )
    draw(profile, "c2dlm.fig8", maps_figure(profile), caption)
