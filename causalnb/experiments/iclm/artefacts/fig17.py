"""Figure 17 of ICLM: the transfer model's modules layer by layer on RAVEN."""

from causalnb.experiments.iclm.artefacts.fig16 import draw_layers, ties_table
from causalnb.lab.report import builds


@builds("iclm.fig17", ties_table("raven"))
def fig17(profile):
    """Figure 17: the same on RAVEN."""
    draw_layers(profile, "iclm.fig17", "raven")
