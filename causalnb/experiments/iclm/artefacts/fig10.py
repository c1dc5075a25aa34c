"""Figure 10 of ICLM: clusters of ACRE's o.o.d. inputs."""

from causalnb.experiments.iclm.artefacts.maps import CLUSTERS, draw_clusters
from causalnb.lab.report import builds


@builds("iclm.fig10", needs=[CLUSTERS])
def fig10(profile):
    """Figure 10: clusters of ACRE's o.o.d. inputs."""
    draw_clusters(profile, "iclm.fig10")
