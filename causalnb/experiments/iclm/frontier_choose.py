"""Writes frontier_chosen.json: rate and size of one module and of ICLM, by family, from the stored frontier.

python -m causalnb.experiments.iclm.frontier_choose

A family whose frontier is not complete stays as it was.
"""

import json

from causalnb.experiments.iclm.artefacts.frontier import best, points
from causalnb.experiments.iclm.grid import FRONTIER, MIRRORED
from causalnb.experiments.iclm.matched import CHOSEN, chosen
from causalnb.lab import results


def complete(family: str) -> bool:
    """Whether every setting of a family's frontier was run."""
    return all(results.path(f"iclm.frontier.{family}", name, 0, "laptop").is_file() for name in FRONTIER)


def computed(before: dict) -> dict:
    """{family: {side: its setting}}: what best() says of the complete frontiers."""
    return before | {family: best(points(family, "laptop")) for family in MIRRORED if complete(family)}


if __name__ == "__main__":
    CHOSEN.write_text(json.dumps(computed(chosen()), indent=1) + "\n", encoding="utf-8")
