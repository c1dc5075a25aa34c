"""The rows of Table 1 where tests do leave the training support."""

from itertools import product

from causalnb.experiments.iclm.artefacts.scores import CHOSEN, FORMATS, ROWS, measure_of, scored
from causalnb.experiments.iclm.artefacts.shifts import TRUE, named
from causalnb.lab import registry
from causalnb.lab.report import Measured, Report, Row, arm, builds, fraction


def shift_rows_table(ids=tuple(TRUE)) -> Report:
    """The rows of Table 1 on the true shifts and beside them, by CHOSEN.

    ICLM's size is an arm of the shifts; so is ICLM where its best try was Table 1's.
    """
    places = [(id, *place) for id in ids for place in product(TRUE[id][1], FORMATS)]

    def value(row, id, cell, format):
        name, other = ROWS[row][0], id.replace("shift", "shift_rows")
        if name not in registry.arms(other):
            other, name = id, "strong" if name == "iclm" else name
        return arm(other, name, scored(measure_of(row, CHOSEN[TRUE[id][0]]), cell, format))

    return Report(
        "iclm.shift_rows",
        ["", *(Measured(named(*place), format=fraction()) for _, *place in places)],
        [
            Row(row, {named(*place[1:]): value(row, *place) for place in places})
            for row in ROWS
            if row != "no invariant module, ICLM's head"
        ],
        "Table 1's rows on true shifts and the i.i.d. cells beside them: accuracy, mean ± half of "
        "the 95 % interval (seeds)",
        "ACRE: exact answers; RAVEN: the likeliest of eight, of balanced candidates. Rows that the "
        "next table has too have its seeds.",
    )


@builds(
    "iclm.shift_rows",
    shift_rows_table(),
    extra=True,
    printed_as="ours",
    kind="measured",
    notebook="32_reasoning",
    shows="the rows of Table 1 where tests do leave the training support",
)
def shift_rows(profile):
    """Table 1's rows on the true shifts."""
