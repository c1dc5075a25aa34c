"""ICLM and its controls: accuracy, dependence and routing, and the claims on routing and independence."""

from functools import partial

from causalnb.experiments.iclm.artefacts.fig4 import matrices
from causalnb.experiments.iclm.artefacts.fig7 import stated_floor
from causalnb.experiments.iclm.artefacts.scores import FAMILIES, SETS, home, rows_of, scored, stated
from causalnb.experiments.iclm.artefacts.table1 import verdict_report
from causalnb.experiments.iclm.artefacts.table3 import SPLIT, apart, routed, split
from causalnb.experiments.iclm.artefacts.training import LOOKS, NAMES, at_end, at_step, measured
from causalnb.lab.registry import arms
from causalnb.lab.report import (
    Measured,
    Printed,
    Report,
    Row,
    Values,
    arm,
    builds,
    fraction,
    mean,
    number,
    values,
)

INFORMATION, CKA, PEARSON = "I at the end, nats", "CKA", "Pearson"
EXACT_IID, EXACT_OOD, CHOICE = "exact, i.i.d.", "exact, o.o.d.", "choice, o.o.d."
ENDS = {INFORMATION: "forward", CKA: "cka", PEARSON: "pearson"}

DIGITS = 4  # of nats and correlations in the verdicts


def controls_of(family: str, name: str) -> dict[str, Values]:
    """{column: values} of ICLM or one of its controls."""
    first, *others = SETS[family]

    def ending(metric):
        return values(lambda profile: at_end(measured(family, name, profile))[metric], home(family, name))

    metrics = {EXACT_IID: scored("exact", first), EXACT_OOD: scored("exact", others)}
    metrics |= {CHOICE: scored("choice", others)} if family == "raven" else {}
    metrics[SPLIT] = apart(family, first)
    told = {head: arm(home(family, name), name, metric) for head, metric in metrics.items()}
    return told | {head: ending(metric) for head, metric in ENDS.items()}


def _digits(head: str):
    """The format of a column: of shares, of nats or of correlations."""
    return number(5 if head == INFORMATION else 3) if head in ENDS else fraction()


def controls_table(families=tuple(FAMILIES)) -> Report:
    """ICLM and its controls: accuracy, dependence of the modules at the end of training, routing."""
    heads = [EXACT_IID, EXACT_OOD, *[CHOICE] * ("raven" in families), *ENDS, SPLIT]
    return Report(
        "iclm.controls",
        ["", "setting", *(Measured(head, format=_digits(head)) for head in heads)],
        [
            Row((family.upper(), NAMES[name]), controls_of(family, name))
            for family in families
            for name in NAMES
            if name in arms(home(family, name))
        ],
        "ICLM and its controls: mean ± half of the 95 % interval (seeds)",
        "I is Equation 2 on the states that predict validation labels, over all of them; means over "
        "the domain modules. The untrained base has random, frozen weights below its adapters.",
    )


def _near_zero() -> float:
    return stated("mutual information near zero after")


def _routing(family, name, profile):
    sent, others = routed(rows_of(family, name, profile), family), [*SETS[family]][1:]
    return sum(split(sent, cell) for cell in others) / len(others)  # n=0 was chosen by the first


def _fall(metric, family, name, profile):
    rows = measured(family, name, profile)
    return at_end(rows)[metric] - at_step(rows, 0)[metric]


def _soon(family, name, profile):
    rows = measured(family, name, profile)
    near = at_step(rows, 0).forward / 10  # the paper does not say what "close to zero" is
    return at_step(rows, _near_zero()).forward - near


def _lowest(family, name, profile):
    return measured(family, name, profile).groupby("seed").forward.min() - stated_floor()


def _tested(family, name, profile):
    end = at_end(measured(family, name, profile)).pearson
    alike = sum(each[:, 0, 1:].mean(axis=1) for each in matrices(family, name, profile).values()) / 2
    return dict(zip(end.index, alike - end.to_numpy(), strict=True))


CLAIMS = {  # claim -> contrast in words, by family, arm and profile, families
    7: ("share of symbolic - share of text sent to n=0, o.o.d. sets", _routing, ("acre",)),
    18: ("Pearson, last - first measured", partial(_fall, "pearson"), FAMILIES),
    19: ("I, last - first measured", partial(_fall, "forward"), FAMILIES),
    20: (lambda profile: f"I, after {_near_zero():g} steps - a tenth of the first", _soon, FAMILIES),
    21: (lambda profile: f"lowest I - {stated_floor():g}", _lowest, FAMILIES),
    22: ("Pearson, tests i.i.d. and o.o.d. - end of training", _tested, FAMILIES),
}


def contrast(claim: int, families=tuple(FAMILIES), name: str = "iclm") -> Values:
    """What decides one of CLAIMS for an arm: the mean over those families that the claim is about."""
    _, make, about = CLAIMS[claim]
    asked = [family for family in families if family in about]
    return mean(*(values(partial(make, family, name), home(family, name)) for family in asked))


def claims(families=tuple(FAMILIES)) -> Report:
    """Claims 7 and 18 to 22: the verdict on ICLM, and the one that the untrained control would get."""

    def rows(name):
        for claim, (words, _, about) in CLAIMS.items():
            if {*families} & {*about}:
                yield words, contrast(claim, families, name), f"iclm.claim{claim}"

    ours, control = LOOKS
    other = verdict_report(
        "iclm.controls_verdicts", [Row(*told[:2], claim=told[2]) for told in rows(control)], digits=DIGITS
    )

    def of_control(claim, profile):
        told = other(profile, only=lambda row: row.claim == claim).rows[0][-1]
        return f"{told.summary.mean:.{DIGITS}f}: {told}"

    lines = [Row(*told[:2], partial(of_control, told[2]), told[2]) for told in rows(ours)]
    return verdict_report("iclm.controls_verdicts", lines, Printed(NAMES[control]), digits=DIGITS)


@builds(
    "iclm.controls",
    controls_table(),
    claims(),
    extra=True,
    printed_as="ours",
    kind="measured",
    notebook="32_reasoning",
    shows="accuracy, dependence and routing of ICLM's controls, and verdicts on independence",
)
def controls(profile):
    """All controls, and the claims on routing and independence."""
