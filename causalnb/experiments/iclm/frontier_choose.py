"""Writes frontier_chosen.json: rate and size of one module and of ICLM on RAVEN, from the stored frontier.

python -m causalnb.experiments.iclm.frontier_choose
"""

import json

from causalnb.experiments.iclm.artefacts.frontier import best, points
from causalnb.experiments.iclm.matched import CHOSEN

if __name__ == "__main__":
    CHOSEN.write_text(json.dumps(best(points("laptop")), indent=1) + "\n", encoding="utf-8")
