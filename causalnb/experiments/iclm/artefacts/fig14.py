"""Figure 14 of ICLM: correlations of layers on ACRE, and the blocks of both tasks."""

from causalnb.experiments.iclm.artefacts.layers import (
    block_contrasts,
    blocks_of,
    draw_layers,
    matrices,
    said_blocks,
)
from causalnb.experiments.iclm.artefacts.scores import FAMILIES, home, stated
from causalnb.experiments.iclm.artefacts.training import NEEDS
from causalnb.lab.report import (
    Measured,
    Reading,
    Report,
    Row,
    Values,
    builds,
    mean,
    number,
    of_claim,
    values,
)
from causalnb.lab.statistics import mean_ci

ARMS = {"iclm": "ICLM", "untrained": "ICLM on a base of random weights"}
KINDS = {
    "within": "within a module",
    "within_beyond": "beyond distance",
    "between": "between modules",
    "between_beyond": "beyond distance (between)",
}


def contrast(kind: str) -> Values:
    """One of `block_contrasts` of ICLM, mean over families."""
    return mean(
        *(
            values(
                lambda profile, family=family: block_contrasts(matrices(family, profile=profile))[kind],
                home(family, "iclm"),
            )
            for family in FAMILIES
        )
    )


def _rows(profile):
    for family, task in FAMILIES.items():
        for name, label in ARMS.items():
            each = matrices(family, name, profile)
            told = block_contrasts(each)
            yield [task, label, said_blocks(blocks_of(each)), *(mean_ci(told[kind]) for kind in KINDS), ""]


def _notes(profile) -> str:
    return (
        f"The paper sees {stated('correlation blocks on ACRE'):g} blocks in 33 states on ACRE. Layer 0: "
        "embeddings, the same in all modules. Blocks are read from what modules have with themselves, and "
        "looked for between modules. Beyond distance: less the same difference where each entry is the mean "
        "of all that are as many layers apart; near 0, layers are alike because they are near, and form no "
        "blocks."
    )


blocks_table = Report(
    "iclm.fig14_blocks",
    [
        "task",
        "model",
        "blocks of layers",
        *(Measured(head, format=number()) for head in KINDS.values()),
        Reading("verdict"),
    ],
    [
        _rows,
        *(
            Row(("mean of both", of_claim(claim, "{claim}")), {KINDS[kind]: contrast(kind)}, claim=claim)
            for claim, kind in (("iclm.claim32", "within"), ("iclm.claim33", "between"))
        ),
    ],
    "Correlation of layers in the same block minus that of layers in different ones: mean ± half of the "
    "95 % interval (seeds)",
    _notes,
    needs=NEEDS,
)


@builds("iclm.fig14", blocks_table)
def fig14(profile):
    """Figure 14: correlations of layers on ACRE, and the blocks of both tasks."""
    draw_layers(profile, "iclm.fig14", "acre")
