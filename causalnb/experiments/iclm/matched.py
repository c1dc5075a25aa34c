"""One module and ICLM on RAVEN's true shift, at rates and sizes that are chosen alike.

With these both reach one i.i.d. score on the mirrored shift (iclm.frontier.raven, frontier_choose); beside
them the oracle router of the single module's rate and size.
"""

import json
from pathlib import Path

from causalnb.experiments.iclm.grid import FRONTIER, SHIFTS, TABLE_1, add

CHOSEN = Path(__file__).with_name("frontier_chosen.json")  # written by frontier_choose
HEADLINE = 8  # seeds of the two sides


def chosen() -> dict[str, str]:
    """{side: its setting of FRONTIER}."""
    return json.loads(CHOSEN.read_text(encoding="utf-8"))


def settled() -> dict[str, dict]:
    """The arms, with the settings that were chosen."""
    single, iclm = (FRONTIER[chosen()[side]] for side in ("single", "iclm"))
    return {"single": single, "iclm": iclm, "oracle": single | TABLE_1["oracle"]}


add(
    "iclm.matched.raven",
    "RAVEN's true shift: one module and ICLM with settings chosen alike",
    "raven",
    settled(),
    3,
    450,
    more={"single": HEADLINE, "iclm": HEADLINE},
    **{"by_length": True, "alone_choices": 500, **SHIFTS["raven"][1]},
)
