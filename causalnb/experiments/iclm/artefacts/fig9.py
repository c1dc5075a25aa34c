"""Figure 9 of ICLM: clusters of ACRE's i.i.d. inputs."""

from causalnb.experiments.iclm.artefacts.maps import CLUSTERS, draw_clusters
from causalnb.lab.report import builds


@builds("iclm.fig9", needs=[CLUSTERS])
def fig9(profile):
    """Figure 9: clusters of ACRE's i.i.d. inputs."""
    draw_clusters(profile, "iclm.fig9")
