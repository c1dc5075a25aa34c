"""Figure 11 of ICLM: clusters of RAVEN's i.i.d. inputs."""

from causalnb.experiments.iclm.artefacts.maps import CLUSTERS, draw_clusters
from causalnb.lab.report import builds


@builds("iclm.fig11", needs=[CLUSTERS])
def fig11(profile):
    """Figure 11: clusters of RAVEN's i.i.d. inputs."""
    draw_clusters(profile, "iclm.fig11")
