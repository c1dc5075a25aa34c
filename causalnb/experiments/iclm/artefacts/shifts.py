"""ICLM at its strongest and one module of its size where tests do leave the training support."""

from itertools import product

from causalnb.experiments.iclm.artefacts.scores import CHOSEN, FORMATS, scored
from causalnb.experiments.iclm.grid import FAMILIES, SHIFTS
from causalnb.lab import registry
from causalnb.lab.report import Measured, Report, Row, Values, arm, builds, fraction, gain, mean, tested

CELLS = {  # shift -> family, cells: i.i.d. ones and shifted ones
    name: (family, changes.get("cells", FAMILIES[family]["cells"]))
    for name, (family, changes) in SHIFTS.items()
}
TRUE = {f"iclm.shift.{name}": places for name, places in CELLS.items()}
SHIFTED = {
    "comp_true": "ACRE, unseen objects",
    "sys_true": "ACRE, unseen structure",
    "four": "RAVEN, one to four figures",
    "in_center": "RAVEN, a figure in another",
}
SAME = {
    "comp_iid": "ACRE i.i.d., objects of training",
    "sys_iid": "ACRE i.i.d., structure of training",
    "center": "RAVEN i.i.d., one figure",
}  # beside the shifts: what is lost where nothing shifts
NAMED = {**SAME, **SHIFTED}
# Objects become symbols that are drawn anew for every row: none is unseen.
NO_SHIFT = {("comp_true", "symbolic"), ("comp_iid", "symbolic")}
ARMS = {"finetuned_wide": "fine-tuned, ICLM's size", "strong": "ICLM, best try"}
DIFFERENCE = f"{ARMS['strong']} - {ARMS['finetuned_wide']}, points"


def named(cell: str, format: str) -> str:
    """A cell in a format in words, and where it is called a shift and is none."""
    none = " (no shift)" if cell in SHIFTED and (cell, format) in NO_SHIFT else ""
    return f"{NAMED[cell]}, {format}{none}"


def shift_scores(ids=tuple(TRUE)) -> dict[tuple[str, str, str], dict[str, Values]]:
    """{(cell, format, score): {arm: its scores}}, i.i.d. and shifted."""
    return {
        (cell, format, score): {name: arm(id, name, scored(score, cell, format)) for name in ARMS}
        for id in ids
        for cell, format in product(TRUE[id][1], FORMATS)
        for score in dict.fromkeys(("exact", CHOSEN[TRUE[id][0]]))
    }


def shift_groups(ids=tuple(TRUE)) -> dict[str, dict[str, Values]]:
    """{"ACRE shifted, exact": {arm: mean of cells and formats}, ...}; both families, by CHOSEN.

    What NO_SHIFT names is counted with the i.i.d. cells.
    """
    groups = {}
    for (cell, format, score), scores in shift_scores(ids).items():
        cell = "comp_iid" if (cell, format) in NO_SHIFT else cell
        where = f"{NAMED[cell].split()[0].rstrip(',')} {'shifted' if cell in SHIFTED else 'i.i.d.'}"
        groups.setdefault(f"{where}, {score}", []).append(scores)
    both = [f"{family.upper()} shifted, {score}" for family, score in CHOSEN.items()]

    def over(parts):
        return {name: mean(*(part[name] for part in parts)) for name in ARMS}

    means = {group: over(parts) for group, parts in groups.items()}
    return means | ({" and ".join(both): over([means[one] for one in both])} if {*both} <= {*means} else {})


def shifts_table(ids=tuple(TRUE)) -> Report:
    """Every arm on the true shifts, differences of paired seeds, and exact sign-flip tests."""

    def rows():
        lines = {f"{named(*place)}, {score}": its for (*place, score), its in shift_scores(ids).items()}
        lines |= {f"mean: {group}": its for group, its in shift_groups(ids).items()}
        for label, scores in lines.items():
            gap = {DIFFERENCE: scores["strong"] - scores["finetuned_wide"]}
            yield Row(label, {ARMS[name]: its for name, its in scores.items()} | gap)

    def notes(profile):
        seeds = min(len(registry.seeds(id, profile)) for id in ids)
        return (
            f"With {seeds} seeds no sign-flip p can be below {2 / 2**seeds:.2g}. exact: every word right; "
            "choice: the right panel is the likeliest of eight, also where the model cannot write it."
        )

    scores = (Measured(said, format=fraction()) for said in ARMS.values())
    return Report(
        "iclm.shifts",
        ["cell", *scores, Measured(DIFFERENCE, format=tested)],
        rows,
        "True shifts and the i.i.d. cells beside them: accuracy, mean ± half of the 95 % interval "
        "(seeds); differences of the same seeds with their interval and the p of an exact sign-flip test",
        notes,
    )


def shifts_remark(ids=tuple(TRUE), profile: str | None = None) -> str:
    """ICLM at its strongest against one module of the same size, in one sentence a group."""
    told = []
    for group, scores in shift_groups(ids).items():
        gap = scores["strong"] - scores["finetuned_wide"]
        ends = gap.summary(profile=profile)
        side = "better" if ends.low > 0 else "worse" if ends.high < 0 else "not to be told apart"
        told.append(f"{group}: {gain(gap.of(profile=profile))} points, {side}.")
    return f"{ARMS['strong']} minus {ARMS['finetuned_wide']}. " + " ".join(told)


@builds(
    "iclm.shifts",
    shifts_table(),
    extra=True,
    printed_as="ours",
    kind="measured",
    notebook="32_reasoning",
    shows="ICLM at its strongest and one module of its size where tests do leave the training support",
)
def shifts(profile):
    """The true shifts."""
