"""Table 4 of ICLM: routers on ACRE, and what differs."""

from causalnb.experiments.iclm.artefacts.variants import ROUTERS, Variants
from causalnb.lab.report import builds

made = Variants("iclm.table4", "acre", ROUTERS)
scores, contrasts, remarks = made.scores(), made.contrasts(), made.remarks


@builds("iclm.table4", scores, contrasts)
def table4(profile):
    """Table 4: routers on ACRE, and what differs."""
