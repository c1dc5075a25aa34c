"""Figure 6 of ICLM: without an invariant module, with it, and with the mutual information loss."""

from causalnb.experiments.iclm.artefacts.graphs import PANELS, printed_figure
from causalnb.lab.report import builds, draw


@builds("iclm.fig6")
def fig6(profile):
    """Figure 6: without an invariant module, with it, and with the mutual information loss."""
    caption = (
        "The three temporal causal graphs. Each adds edges to the one before, and an added edge never "
        "separates."
    )
    draw(profile, "iclm.fig6", printed_figure(tuple(PANELS)), caption)
