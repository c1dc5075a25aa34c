"""Table 6 of ICLM: aggregations on ACRE, and what differs."""

from causalnb.experiments.iclm.artefacts.variants import AGGREGATIONS, Variants
from causalnb.lab.report import builds

made = Variants("iclm.table6", "acre", AGGREGATIONS)
scores, contrasts, remarks = made.scores(), made.contrasts(), made.remarks


@builds("iclm.table6", scores, contrasts)
def table6(profile):
    """Table 6: aggregations on ACRE, and what differs."""
