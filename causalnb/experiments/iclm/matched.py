"""One module and ICLM on the true shifts, each at the rate and size with which both reach one i.i.d. score.

These were chosen on mirrored shifts (iclm.frontier, frontier_choose); beside them the oracle router of the
single module's rate and size.
"""

import json
from pathlib import Path

from causalnb.experiments.iclm.grid import FRONTIER, LENGTHS, SHIFTS, TABLE_1, add

CHOSEN = Path(__file__).with_name("frontier_chosen.json")  # written by frontier_choose
HEADLINE = 8  # seeds of the two sides


def chosen() -> dict[str, dict[str, str]]:
    """{family: {side: its setting of FRONTIER}}, of the families whose frontier is complete."""
    return json.loads(CHOSEN.read_text(encoding="utf-8"))


def settled(family: str) -> dict[str, dict]:
    """The arms of a family, with the settings that were chosen for it."""
    single, iclm = (FRONTIER[chosen()[family][side]] for side in ("single", "iclm"))
    return {"single": single, "iclm": iclm, "oracle": single | TABLE_1["oracle"]}


MATCHED = {  # experiment -> its shift
    f"iclm.matched.{name}": name for name, (family, _) in SHIFTS.items() if family in chosen()
}
for id, name in MATCHED.items():
    family, changes = SHIFTS[name]
    add(
        id,
        f"A true shift, {name.replace('_', ' ')}: one module and ICLM at one i.i.d. score",
        family,
        settled(family),
        3,
        450,
        more={"single": HEADLINE, "iclm": HEADLINE},
        **{"length": LENGTHS[family], "by_length": True, "alone_choices": 500, **changes},
    )
