"""Figure 15 of ICLM: correlations of layers on RAVEN."""

from causalnb.experiments.iclm.artefacts.layers import draw_layers
from causalnb.lab.report import builds


@builds("iclm.fig15", needs=["iclm.raven"])
def fig15(profile):
    """Figure 15: correlations of layers on RAVEN."""
    draw_layers(profile, "iclm.fig15", "raven")
