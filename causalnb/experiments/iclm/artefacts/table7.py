"""Table 7 of ICLM: aggregations on RAVEN, and what differs."""

from causalnb.experiments.iclm.artefacts.variants import AGGREGATIONS, Variants
from causalnb.lab.report import builds

made = Variants("iclm.table7", "raven", AGGREGATIONS)
scores, contrasts, remarks = made.scores(), made.contrasts(), made.remarks


@builds("iclm.table7", scores, contrasts)
def table7(profile):
    """Table 7: aggregations on RAVEN, and what differs."""
