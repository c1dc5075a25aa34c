"""Writes groups_chosen.json: what the searches of reweighting, GroupDRO and IRM chose, from stored results.

python -m causalnb.experiments.causal_transformer.groups_choose
"""

import json

from causalnb.experiments.causal_transformer import groups
from causalnb.experiments.causal_transformer.searches import best


def computed() -> dict[str, int]:
    """The choices as groups.read_chosen: by the rule of the other searches, `searches.best`."""

    def number(arm: str) -> int:
        names = [f"{arm}_{number}" for number in range(groups.TRIES)]
        return int(best(names, "groups.search.nli").rpartition("_")[2])

    return {arm: number(arm) for arm in groups.OBJECTIVES}


if __name__ == "__main__":
    groups.FILE.write_text(json.dumps(computed(), indent=1) + "\n", encoding="utf-8")
