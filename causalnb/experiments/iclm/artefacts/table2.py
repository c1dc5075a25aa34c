"""Table 2 of ICLM: ACRE, then RAVEN; where inputs are routed afterwards, and the claims on it."""

from functools import partial

from causalnb.experiments.iclm.artefacts.continual import (
    ARMS,
    CONTINUAL,
    FIRST,
    IID,
    ROUTED,
    SECOND,
    TASKS,
    first_task_modules,
    rows_of,
)
from causalnb.experiments.iclm.artefacts.fig16 import COLLAPSED, collapse_contrast
from causalnb.experiments.iclm.artefacts.scores import FORMATS, columns, in_columns, scored, shares
from causalnb.lab import registry
from causalnb.lab.report import (
    Claim,
    Contrast,
    Decided,
    Ours,
    Report,
    Row,
    Values,
    arm,
    builds,
    cell,
    claim_rows,
    gain,
    share,
    values,
)
from causalnb.lab.statistics import Summary, mean_ci
from causalnb.lab.verdicts import reading

SINGLE = {task: f"iclm.{task}" for task in TASKS}
SINGLE_TASK, IN_TURN = "Table 1", "ACRE → RAVEN"  # headings over the paper's rows


def printed_rows() -> dict[tuple[str, str], dict]:
    """{(heading, row): {(group, Text or Symb): fraction or None}} of the paper's Table 2."""
    from causalnb.lab.tables import paper

    rows = {}
    for line in paper("iclm.table2").itertuples():
        value = None if line.value != line.value else line.value
        rows.setdefault((line.row_group, line.row), {})[line.group, line.column] = value
    return rows


def _said(group: str, row: str) -> Row:
    def beside(more):
        read = cell("iclm.table2", "{value:.1%}", row_group=group, row=row, **more)
        return lambda profile: read(profile).removesuffix("%")

    return Row((f"paper: {row}", "1"), paper=beside)


def _ours(label, places: dict[str, tuple[str, str, str]], measure: str = "exact") -> Row:
    """A row of ours; places: {task: (experiment, arm, when)}."""
    value = {}
    for task, (experiment, name, when) in places.items():
        value |= in_columns(task, experiment, name, measure, when)

    def seeds(profile):
        return ", ".join(map(str, sorted({len(each.of(profile=profile)) for each in value.values()})))

    def labelled(profile):
        modules = {registry.config(home, "iclm", profile)["num_modules"] for home, *_ in places.values()}
        return f"ours: {label}".format(N=", ".join(map(str, modules)))

    return Row((labelled, seeds), value)


def _rows():
    def after(name, tasks=TASKS):
        return {task: (CONTINUAL, name, "after") for task in tasks}

    for task in TASKS:
        yield _said(SINGLE_TASK, f"ICLM {task.upper()}")
        yield _ours(f"ICLM {task.upper()} only, N = {{N}}", {task: (SINGLE[task], "iclm", "")})
    yield _ours("ICLM before RAVEN, N = {N}", {FIRST: (CONTINUAL, "iclm", "before")})
    yield _said(IN_TURN, "ICLM")
    yield _ours(ARMS["iclm"], after("iclm"))
    yield _ours("ICLM, likeliest of eight", after("iclm", [SECOND]), "choice")
    yield _ours(ARMS["kept"], after("kept"))
    yield _said(IN_TURN, "ICLM-Invariant")
    yield _ours("ICLM-Invariant", after("iclm"), "invariant")
    yield _ours("ICLM-Domain", after("iclm"), "domain")
    yield _said(IN_TURN, "LLaMA2-Finetuned-Sequential")
    yield _ours(ARMS["finetuned"], after("finetuned"))


def _notes(profile) -> str:
    asked = registry.config(CONTINUAL, "iclm", profile)["test_rows"]
    return (
        f"Ours: {asked:,} questions a cell, whole answers; of RAVEN the whole ninth panel is written, and in "
        "one row it is the likeliest of eight. The paper: one run, 101 questions a cell, RAVEN by letter. "
        "Kept: modules used by ACRE, their centroids and the router are not trained on RAVEN."
    )


def _uncounted(each) -> str:
    """`share` without the number of seeds, which has a column of its own."""
    return share(each).removesuffix(f" ({len(each)})")


continual_table = Report(
    "iclm.table2",
    ["model", "seeds"] + [column for task in TASKS for column in columns(task, _uncounted)],
    _rows,
    "ACRE, then RAVEN: percent right, ours as mean ± half of the 95 % interval over seeds",
    _notes,
)


def routing_shares(rows, profile: str | None = None, formats=tuple(FORMATS)) -> dict[str, dict[int, float]]:
    """{what: {seed: share}} of an arm's rows, i.i.d. sets, mean over formats.

    first: inputs of ACRE that go to ACRE's modules after RAVEN; overlap: of the shares of all modules before
    and after, an upper bound of the inputs of ACRE whose module is the same; second: inputs of RAVEN that go
    to ACRE's modules.
    """
    used = first_task_modules(rows, profile)
    same = sum(
        shares(rows, IID[FIRST], format, "before").clip(upper=shares(rows, IID[FIRST], format, "after"))
        for format in formats
    )
    given = {
        what: shares(rows, IID[task], formats, "after")
        for what, task in (("first", FIRST), ("second", SECOND))
    }
    return {
        **{what: {seed: each.loc[seed, used[seed]].sum() for seed in used} for what, each in given.items()},
        "overlap": (same.sum(axis=1) / len(formats)).to_dict(),
    }


def _routes(profile):
    for name, label in ROUTED.items():
        rows = rows_of(name, profile)
        used = mean_ci([len(modules) for modules in first_task_modules(rows, profile).values()])
        for format in FORMATS:
            sent = routing_shares(rows, profile, (format,))
            told = (share([*sent[what].values()]) for what in ("overlap", "first", "second"))
            yield [label, format, f"{used.mean:.1f}", *told]


routing_table = Report(
    "iclm.table2_routing",
    [
        "model",
        "format",
        "modules ACRE uses",
        "ACRE: same module, at most",
        "ACRE: in a module of ACRE",
        "RAVEN: in a module of ACRE",
    ],
    [_routes],
    "Routing after RAVEN, percent of i.i.d. inputs, mean ± half of the 95 % interval (seeds)",
    "A module of ACRE served it before RAVEN began. At most: what the shares of all modules before and "
    "after have in common.",
    needs=(CONTINUAL,),
)


def _after(name: str, cells: str, formats=tuple(FORMATS), measure: str = "exact") -> Values:
    return arm(CONTINUAL, name, scored(measure, cells, formats, "after"))


HARDEST = ("in_center", "text")
CONTROLS = {  # contrasts of ours, in words
    "one fine-tuned module on RAVEN In-Center text, after ACRE - RAVEN only": _after(
        "finetuned", *HARDEST, "choice"
    )
    - arm(SINGLE[SECOND], "finetuned", scored("choice", *HARDEST)),
    "ACRE symbolic after RAVEN, kept - sequential": _after("kept", IID[FIRST], "symbolic")
    - _after("finetuned", IID[FIRST], "symbolic"),
    "ACRE after RAVEN, kept - ICLM": _after("kept", IID[FIRST]) - _after("iclm", IID[FIRST]),
    "RAVEN, kept - ICLM": _after("kept", IID[SECOND]) - _after("iclm", IID[SECOND]),
}


def _controls(profile):
    for words, difference in CONTROLS.items():
        each = difference.of(profile=profile)
        yield ["(ours, a control)", words, "", gain(each), reading(each)]


def _more_in_first(profile) -> dict[int, float]:
    """{seed: share of RAVEN's inputs in ACRE's modules less that in others}."""
    return {
        seed: 2 * share - 1
        for seed, share in routing_shares(rows_of("iclm", profile), profile)["second"].items()
    }


def _said_size(claim) -> str:
    return "" if claim["size"] != claim["size"] else f"{claim['direction']}{claim['size']:.1f}"


def _in_points(found: Summary) -> str:
    return f"{found.mean:+.1f} [{found.low:+.1f}, {found.high:+.1f}] ({found.n})"


ROUTING = Row(
    "share of RAVEN in ACRE's modules - share in others",
    values(_more_in_first, CONTINUAL),
    claim="iclm.claim16",
)
COLLAPSE = Row(
    f"lowest tie, in % of the others' - {100 * COLLAPSED:g}",
    values(partial(collapse_contrast, FIRST), CONTINUAL),
    claim="iclm.claim17",
)
claims = Report(
    "iclm.table2_verdicts",
    [
        Claim("the paper's claim"),
        Contrast("contrast", "{treatment} - {baseline}: {metric}, {setting}".format_map),
        Claim("paper, points", _said_size),
        Ours("ours, points", _in_points),
        Decided("verdict"),
    ],
    lambda: [*claim_rows("iclm", "iclm.table2", {"iclm.claim16": ROUTING}), COLLAPSE, _controls],
    "Claims on continual learning: differences of the same seeds, mean [95 % interval] (seeds)",
    "For a control the last column is the side of 0 on which its interval lies.",
)


@builds("iclm.table2", continual_table, routing_table, claims)
def table2(profile):
    """Table 2, with where inputs are routed, and the claims on it."""
