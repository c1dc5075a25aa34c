"""ICLM tuned on a real base: what each arm answers, and what its modules and its router do."""

from math import ceil, sqrt

from causalnb.experiments.iclm.artefacts.scores import FORMATS
from causalnb.experiments.iclm.real import CONTROLS, NOTEBOOK
from causalnb.lab import registry
from causalnb.lab.report import (
    Measured,
    Report,
    Row,
    Values,
    arm,
    builds,
    first,
    looked,
    mean,
    number,
    values,
)

ID, HOME = "iclm.real_tuned", "iclm.real.raven"
EXTRA = {"extra": True, "printed_as": "ours", "kind": "measured", "notebook": NOTEBOOK}
SINGLE, MATCHED, METHOD = "single", "single_matched", "iclm"
ARMS = {  # arm -> how it is called, the experiment that has it
    SINGLE: ("one module", HOME),
    MATCHED: ("one module of ICLM's size", f"{HOME}{CONTROLS[MATCHED]}"),
    METHOD: ("ICLM", HOME),
}
LOOKS = {"validation, 1/3": 1, "validation, 2/3": 2, "validation, end": 3}  # heading -> thirds of the steps
CELLS = {"iid": "i.i.d.", "in_center": "In-Center", "four": "Four"}
WATCHED = {  # heading -> measure of modules, format
    "MI, nats": ("forward", number(4)),
    "Pearson's r": ("pearson", number(2)),
    "CKA, debiased": ("cka", number(2)),
}


def _config(profile: str | None) -> dict:
    return registry.config(HOME, METHOD, profile)


def _looks(profile: str | None = None) -> int:
    config = _config(profile)
    return config["steps"] // config["evaluate_every"]


def validated(name: str, thirds: int) -> Values:
    """An arm's choices on validation rows, after so many thirds of its looks."""
    home = ARMS[name][1]
    return values(
        lambda profile: looked(home, name, "choice", ceil(thirds * _looks(profile) / 3) - 1).of(
            profile=profile
        ),
        home,
    )


def of_cell(name: str, cell: str, measure: str = "choice") -> Values:
    """An arm's measure on a cell, the mean over formats."""
    home = ARMS[name][1]
    return mean(*(arm(home, name, f"{cell}_{format}_{measure}") for format in FORMATS))


def parted(cell: str) -> Values:
    """The share of a cell's rows that ICLM's router sends to the module of their format.

    Which module is whose is what fits better on this cell: at least a half, and a half where formats do not
    matter.
    """
    text, symbolic = (arm(HOME, METHOD, f"{cell}_{format}_module0") for format in FORMATS)

    def share(frame):
        apart = frame[text.metric] - frame[symbolic.metric]
        return (1 + apart.abs()) / 2

    return arm(HOME, METHOD, share)


def _percent(values) -> str:
    return ", ".join(f"{100 * value:.1f}" for value in values)


def _rows():
    for name, (words, home) in ARMS.items():
        cells = {heading: of_cell(name, cell) for cell, heading in CELLS.items()}
        cells["written exactly, i.i.d."] = of_cell(name, "iid", "exact")
        cells["trained parameters"] = arm(home, name, "trainable_parameters")
        cells |= {heading: validated(name, thirds) for heading, thirds in LOOKS.items()}
        yield Row(words, cells)


def _notes(profile):
    config = _config(profile)
    return (
        f"{config['base']}, one seed. LoRA of rank {config['lora_rank']} in all linear maps but those of the "
        f"lower {config['shared_layers']} layers, which run once for all modules and whose states the router "
        f"reads; {config['steps']} steps of {config['batch']} rows, rate {config['learning_rate']:g} for "
        f"all. Validation, after so much of the steps: {config['validation_rows']} other problems; else "
        f"{config['test_rows']}, each in two formats."
    )


tuned = Report(
    ID,
    [
        "arm",
        Measured("trained parameters", format=first("{:,.0f}")),
        *(Measured(heading, format=_percent) for heading in LOOKS),
        *(Measured(heading, format=_percent) for heading in CELLS.values()),
        Measured("written exactly, i.i.d.", format=_percent),
    ],
    _rows,
    "RAVEN on gemma-3-270m: the right panel of eight is the likeliest, % (luck: 12.5), mean over formats",
    _notes,
)


def _watched_rows():
    for look in range(_looks()):
        found = {head: looked(HOME, METHOD, measure, look) for head, (measure, _) in WATCHED.items()}
        yield Row(f"{(look + 1) * _config(None)['evaluate_every']}", found)


watched = Report(
    f"{ID}_modules",
    ["step", *(Measured(head, format=its) for head, (_, its) in WATCHED.items())],
    _watched_rows,
    "ICLM's invariant module beside its domain modules, at the labels of validation rows, while it is tuned",
    "Mean over both domain modules, one seed. At step 0 all modules are the base: r and CKA are 1.",
)


def gap_remark(profile: str | None = None) -> str:
    """ICLM minus one module on each cell, with what luck in the problems alone makes of it.

    A problem counts once: its two formats may be right and wrong together.
    """
    problems, lines = _config(profile)["test_rows"], []
    for other in (SINGLE, MATCHED):
        parts = []
        for cell, heading in CELLS.items():
            (ours,), (theirs,) = (of_cell(name, cell).of(profile=profile) for name in (METHOD, other))
            luck = 1.96 * sqrt((ours * (1 - ours) + theirs * (1 - theirs)) / problems)
            parts.append(f"{heading} {100 * (ours - theirs):+.1f} ± {100 * luck:.1f}")
        lines.append(f"ICLM - {ARMS[other][0]}, points: {'; '.join(parts)}")
    return f"{'. '.join(lines)} ({problems} problems each, one seed)."


def router_remark(profile: str | None = None) -> str:
    """Which share of rows the router parts by format, on each cell."""
    parts = ", ".join(
        f"{heading} {_percent(parted(cell).of(profile=profile))}" for cell, heading in CELLS.items()
    )
    return f"Rows that the router sends to their format's module, %: {parts}."


@builds(
    ID,
    tuned,
    watched,
    shows="ICLM and one module, tuned on a real language model",
    **EXTRA,
)
def real_tuned(profile):
    """Arms tuned on the real base, and how alike their modules are."""
