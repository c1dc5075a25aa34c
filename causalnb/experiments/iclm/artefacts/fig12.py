"""Figure 12 of ICLM: clusters of RAVEN's o.o.d. inputs."""

from causalnb.experiments.iclm.artefacts.maps import CLUSTERS, draw_clusters
from causalnb.lab.report import builds


@builds("iclm.fig12", needs=[CLUSTERS])
def fig12(profile):
    """Figure 12: clusters of RAVEN's o.o.d. inputs."""
    draw_clusters(profile, "iclm.fig12")
