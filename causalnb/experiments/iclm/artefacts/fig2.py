"""Figure 2 of ICLM: one training step with an invariant module, as printed."""

from causalnb.experiments.iclm.artefacts.graphs import printed_figure
from causalnb.lab.report import builds, draw


@builds("iclm.fig2")
def fig2(profile):
    """Figure 2: one training step with an invariant module, as printed."""
    caption = (
        "The temporal causal graph of training. Its dotted links close cycles, so equations are decided on "
        "the graph unrolled in time."
    )
    draw(profile, "iclm.fig2", printed_figure(), caption)
