"""ICLM tuned on a real base: what each arm answers, and what its modules and its router do."""

from math import ceil, sqrt
from statistics import fmean

from causalnb.experiments.c2dlm.curves import draw_curve
from causalnb.experiments.iclm.artefacts.fig3 import ALIGNED
from causalnb.experiments.iclm.artefacts.fig7 import ESTIMATORS, draw_floor, stated_floor
from causalnb.experiments.iclm.artefacts.scores import FORMATS
from causalnb.experiments.iclm.artefacts.training import LOOKS as LOOKS_OF
from causalnb.experiments.iclm.artefacts.training import at_end, course
from causalnb.experiments.iclm.real import CONTROLS, NOTEBOOK
from causalnb.lab import registry
from causalnb.lab.report import (
    Measured,
    Reading,
    Report,
    Row,
    Values,
    arm,
    builds,
    draw,
    first,
    looked,
    mean,
    number,
    values,
)

ID, HOME, ACRE = "iclm.real_tuned", "iclm.real.raven", "iclm.real.acre"
EXTRA = {"extra": True, "printed_as": "ours", "kind": "measured", "notebook": NOTEBOOK}
SINGLE, MATCHED, METHOD = "single", "single_matched", "iclm"
ARMS = {  # arm -> how it is called, the experiment that has it
    SINGLE: ("one module", HOME),
    MATCHED: ("one module of ICLM's size", f"{HOME}{CONTROLS[MATCHED]}"),
    METHOD: ("ICLM", HOME),
}
LOOKS = {"validation, 1/3": 1, "validation, 2/3": 2, "validation, end": 3}  # heading -> thirds of the steps
CELLS = {"iid": "i.i.d.", "in_center": "In-Center", "four": "Four"}
OF_ACRE = {"iid": "i.i.d.", "comp": "ACRE-Comp", "sys": "ACRE-Sys"}
WRITTEN = ", written exactly"
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


def validated(name: str, thirds: int, home: str | None = None, measure: str = "choice") -> Values:
    """An arm's measure on validation rows, after so many thirds of its looks; home: not RAVEN's."""
    home = home or ARMS[name][1]
    return values(
        lambda profile: looked(home, name, measure, ceil(thirds * _looks(profile) / 3) - 1).of(
            profile=profile
        ),
        home,
    )


def of_cell(name: str, cell: str, measure: str = "choice", home: str | None = None) -> Values:
    """An arm's measure on a cell, the mean over formats; home: not RAVEN's."""
    home = home or ARMS[name][1]
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
        cells |= {f"{heading}{WRITTEN}": of_cell(name, cell, "exact") for cell, heading in CELLS.items()}
        cells["trained parameters"] = arm(home, name, "trainable_parameters")
        cells |= {heading: validated(name, thirds) for heading, thirds in LOOKS.items()}
        yield Row(words, cells)


def _notes(profile):
    config = _config(profile)
    return (
        f"{config['base']}, a value for each seed. LoRA of rank {config['lora_rank']} in all linear maps but "
        f"those of the lower {config['shared_layers']} layers, which run once for all modules and whose "
        f"states the router reads; {config['steps']} steps of {config['batch']} rows, rate "
        f"{config['learning_rate']:g} for all. Validation, after so much of the steps: "
        f"{config['validation_rows']} other problems; else {config['test_rows']} a seed, each in two "
        "formats. What the base has read is not listed, and RAVEN is public; these problems are drawn anew."
    )


tuned = Report(
    ID,
    [
        "arm",
        Measured("trained parameters", format=first("{:,.0f}")),
        *(Measured(heading, format=_percent) for heading in LOOKS),
        *(Measured(heading, format=_percent) for heading in CELLS.values()),
        *(Measured(f"{heading}{WRITTEN}", format=_percent) for heading in CELLS.values()),
    ],
    _rows,
    "RAVEN on gemma-3-270m: the right panel of eight is the likeliest, % (luck: 12.5), mean over formats",
    _notes,
)


def _acre_rows():
    cells = {heading: of_cell(SINGLE, cell, "exact", ACRE) for cell, heading in OF_ACRE.items()}
    cells |= {heading: validated(SINGLE, thirds, ACRE, "exact") for heading, thirds in LOOKS.items()}
    yield Row(ARMS[SINGLE][0], cells)


def _acre_notes(profile):
    config = registry.config(ACRE, SINGLE, profile)
    return (
        f"As on RAVEN, but for {config['test_rows']} problems of four questions each, whose answer is one of "
        "three words. Comp asks about objects of no training row, Sys after views of another kind."
    )


acre = Report(
    f"{ID}_acre",
    [
        "arm",
        *(Measured(heading, format=_percent) for heading in LOOKS),
        *(Measured(heading, format=_percent) for heading in OF_ACRE.values()),
    ],
    _acre_rows,
    "ACRE on gemma-3-270m: the answer's word is the likeliest of all, %, mean over formats",
    _acre_notes,
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
    "Mean over both domain modules. At step 0 all modules are the base: r and CKA are 1.",
)


def modules_figure(profile: str | None = None):
    """(figure, alt): Figures 3 and 7 on the real base, correlation on the left, information on the right."""
    import matplotlib.pyplot as plt

    from causalnb.lab import evidence, results
    from causalnb.lab.figures import headline, text_size

    evidence.require(HOME, profile, [METHOD])
    rows, floor = results.curves(HOME, profile, [METHOD]), stated_floor()
    fig, (left, right) = plt.subplots(1, 2, figsize=(7.2, 3.4))
    drawn = [
        (left, "pearson", "Pearson's r", *LOOKS_OF["iclm"]),
        (left, "cka", "debiased CKA", *ALIGNED["iclm"]),
        *((right, metric, *look) for metric, look in ESTIMATORS.items()),
    ]
    told = []
    for ax, metric, name, *look in drawn:
        draw_curve(ax, rows, metric, 1, name, *look)
        told.append(f"{name}: {course(rows, metric)}")
    draw_floor(right, floor, named=True)
    right.set(title="mutual information", ylabel="nats")
    left.set(title="correlation of states", ylabel="r, CKA", ylim=(min(-0.05, left.get_ylim()[0]), 1.05))
    for ax, place in ((left, "lower left"), (right, (0.17, 0.27))):
        ax.set_xlabel("training step")
        ax.legend(loc=place, fontsize=text_size(8))
    last = at_end(rows)
    headline(
        fig,
        f"At the end: r {last.pearson.mean():.2f}, mutual information {last.forward.mean():.2g} nats; the "
        f"paper: below {floor:g}",
    )
    return fig, (
        f"States of ICLM's invariant and domain modules on {_config(profile)['base']} in training, mean over "
        "seeds in a band of all: correlation on the left, mutual information on the right, on a logarithmic "
        f"axis with a line at {floor:g} nats, below which what is 0 or less leaves it. {'; '.join(told)}."
    )


PAIRS = ((METHOD, SINGLE), (METHOD, MATCHED), (MATCHED, SINGLE))


def gap(name: str, other: str, cell: str) -> Values:
    """One arm's choices on a cell minus another's, on the seeds that both have."""
    return of_cell(name, cell) - of_cell(other, cell)


def luck(name: str, other: str, cell: str, profile: str | None = None) -> float:
    """Half of the 95 % interval of `gap` that comes of the problems alone, were all trainings alike.

    A problem counts once: its two formats may be right and wrong together.
    """
    both = [of_cell(one, cell).of(profile=profile) for one in (name, other)]
    seen = _config(profile)["test_rows"] * min(map(len, both))
    return 1.96 * sqrt(sum(fmean(right) * (1 - fmean(right)) for right in both) / seen)


def _gap_rows():
    for name, other in PAIRS:
        cells = {heading: gap(name, other, cell) for cell, heading in CELLS.items()}
        yield Row(f"{ARMS[name][0]} - {ARMS[other][0]}", cells)


gaps = Report(
    f"{ID}_gaps",
    [
        "difference, points",
        *(Measured(heading) for heading in CELLS.values()),
        Reading("reading (Four)", "Four"),
    ],
    _gap_rows,
    "RAVEN on gemma-3-270m: differences of the same seeds, mean [95 % interval] (seeds)",
    "Each seed has training rows and a test of its own. Reading: the side of 0 on which the interval lies.",
)


def luck_remark(profile: str | None = None) -> list[str]:
    """What luck in the problems alone makes of ICLM's differences from either module."""
    lines = []
    for other in (SINGLE, MATCHED):
        parts = ", ".join(
            f"{heading} ± {100 * luck(METHOD, other, cell, profile):.1f}" for cell, heading in CELLS.items()
        )
        lines.append(f"ICLM - {ARMS[other][0]}, by luck in the problems alone, points: {parts}.")
    return lines


def router_remark(profile: str | None = None) -> str:
    """Which share of rows the router parts by format, on each cell."""
    parts = ", ".join(
        f"{heading} {_percent(parted(cell).of(profile=profile))}" for cell, heading in CELLS.items()
    )
    return f"Rows that the router sends to their format's module, %: {parts}."


@builds(
    ID,
    tuned,
    gaps,
    watched,
    acre,
    shows="ICLM and one module, tuned on a real language model",
    **EXTRA,
)
def real_tuned(profile):
    """Arms tuned on the real base, and how alike their modules are."""
    caption = (
        f"Figures 3 and 7 on {_config(profile)['base']}: the invariant module beside the domain modules, at "
        "the labels of validation rows, while ICLM is tuned on RAVEN; mean over seeds, band of all."
    )
    draw(profile, ID, modules_figure(profile), caption)
