"""Table 5 of ICLM: routers on RAVEN, and what differs."""

from causalnb.experiments.iclm.artefacts.variants import ROUTERS, Variants
from causalnb.lab.report import builds

made = Variants("iclm.table5", "raven", ROUTERS)
scores, contrasts, remarks = made.scores(), made.contrasts(), made.remarks


@builds("iclm.table5", scores, contrasts)
def table5(profile):
    """Table 5: routers on RAVEN, and what differs."""
