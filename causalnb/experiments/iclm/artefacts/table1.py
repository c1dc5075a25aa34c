"""Table 1 of ICLM as measured here: both families, paired differences, and the claims on it."""

from collections.abc import Callable
from functools import partial

from causalnb.experiments.iclm.artefacts.scores import (
    CHOSEN,
    FAMILIES,
    ROWS,
    SETS,
    columns,
    in_columns,
    measure_of,
    placed,
    scored,
)
from causalnb.experiments.iclm.artefacts.table1_paper import printed_table
from causalnb.lab.report import (
    Claim,
    Contrast,
    Decided,
    Measured,
    Ours,
    Reader,
    Report,
    Row,
    Values,
    arm,
    builds,
    fraction,
    higher,
    mean,
    printed_row,
    values,
)

CONTRASTS = (
    ("ICLM", "fine-tuned"),
    ("ICLM", "fine-tuned, ICLM's size"),
    ("ICLM", "no invariant module, ICLM's head"),
    ("invariant module alone", "fine-tuned"),
    ("ICLM", "oracle router"),
    ("fine-tuned, ICLM's size", "fine-tuned"),
)
GATE = 0.9  # of the i.i.d. problems
HOW = {"exact": "every word of the answer right", "choice": "the right panel is the likeliest of eight"}


def over_sets(row: str, family: str, which: str = "all", score: str = "exact") -> Values:
    """One of ROWS, mean over "all" sets of a family, its "iid" or its "ood" ones, in both formats."""
    first, *others = SETS[family]
    cells = {"all": [first, *others], "iid": [first], "ood": others}[which]
    return arm(f"iclm.{family}", ROWS[row][0], scored(measure_of(row, score), cells))


def over_families(row: str, families=FAMILIES, which: str = "all") -> Values:
    """One of ROWS, mean over sets of all families, by CHOSEN."""
    return mean(*(over_sets(row, family, which, CHOSEN[family]) for family in families))


def gate_remark(families=FAMILIES, profile: str | None = None, wanted: float = GATE) -> str:
    """Whether plain tuning solves what it was tuned on, in one sentence a family."""
    told = []
    for family in families:
        value = over_sets("fine-tuned", family, "iid", CHOSEN[family]).summary(profile=profile).mean
        passed = value >= wanted
        so = (
            "and the o.o.d. columns ask what they should"
            if passed
            else "and differences are also differences in how much of the task was learned"
        )
        told.append(
            f"{family.upper()}: the fine-tuned model answers {value:.1%} of the i.i.d. problems "
            f"({HOW[CHOSEN[family]]}), {'at or above' if passed else 'below'} our gate of {wanted:.0%}, {so}."
        )
    return " ".join(told)


def accuracies(family: str, score: str = "exact") -> Report:
    """Table 1 on one family: every row as printed and as measured; score "choice" is RAVEN's among eight."""

    def rows():
        for name, (its, _, printed) in ROWS.items():
            if printed:
                yield printed_row(f"paper: {printed}", "iclm.table1", "{value:.3f}", row=printed)
            yield Row(f"ours: {name}", in_columns(family, f"iclm.{family}", its, measure_of(name, score)))

    written = {"acre": "chance is near 1/3", "raven": "the answer is written, not chosen"}[family]
    chance = "chance is 1/8" if score == "choice" else written
    return Report(
        "iclm.table1" + "_raven" * (family == "raven") + "_choice" * (score == "choice"),
        ["", *columns(family, fraction())],
        rows,
        f"Table 1, {family.upper()}: accuracy, mean ± half of the 95 % interval (seeds); ours: {HOW[score]}",
        lambda profile: (
            "The paper's accuracies are of one run, and of letters or words picked by an LLM of 7 "
            "billion parameters; ours of a small model on the same problems in compact rows; "
            f"{chance}. {gate_remark([family], profile)}"
        ),
    )


def contrasts(families=FAMILIES) -> Report:
    """Differences of rows by paired seeds, means over i.i.d. and over o.o.d. sets of each family."""
    heads = {
        f"{family.upper()} {said}, {score}": (family, which, score)
        for family in families
        for which, said in (("iid", "i.i.d."), ("ood", "o.o.d."))
        for score in dict.fromkeys(("exact", CHOSEN[family]))
    }
    return Report(
        "iclm.table1_contrasts",
        ["difference, points", *map(Measured, heads)],
        [
            Row(
                f"{row} - {other}",
                {head: over_sets(row, *its) - over_sets(other, *its) for head, its in heads.items()},
            )
            for row, other in CONTRASTS
        ],
        "Table 1: differences of the same seeds, mean [95 % interval] (seeds)",
        "Means over both formats, and over both o.o.d. sets as the paper names them. Seeds differ "
        "in training problems, their order and the adapters; the test problems are the same.",
    )


def _sets_won(families, profile) -> dict[int, float]:
    """{seed: sets on which ICLM is better than the fine-tuned model, less those on which it is worse}."""
    import numpy as np

    at, won = Reader(profile), []
    for family in families:
        ours, theirs = (
            placed(at.rows(f"iclm.{family}", name))
            .query(f"measure == '{CHOSEN[family]}'")
            .set_index(["seed", "cell", "format"])
            .value
            for name in ("iclm", "finetuned")
        )
        won.append(np.sign(ours - theirs).dropna().groupby("seed").sum())
    return sum(won).dropna().to_dict()


def verdict_report(id: str, rows, *more, notes: str | Callable = "", digits: int | None = None) -> Report:
    """Claims with the contrast of paired seeds and the verdict, and further columns; notes below."""
    claim, contrast = Claim("the paper's claim"), Contrast("contrast")
    return Report(
        id,
        [claim, contrast, Claim("stated", higher), Ours("ours", digits), Decided("verdict"), *more],
        rows,
        "The paper's claims: mean ± half of the 95 % interval (seeds), and the verdict by rule",
        notes,
    )


def claims(families=FAMILIES) -> Report:
    """The claims on Table 1, over the families given, all compared by CHOSEN."""

    def of(row, which="all", families=families):
        return over_families(row, families, which)

    invariant, domain, oracle = "invariant module alone", "domain module alone", "oracle router"
    won = values(lambda profile: _sets_won(families, profile), *(f"iclm.{family}" for family in families))
    decided = {
        1: ("ICLM - fine-tuned, mean of o.o.d. sets", of("ICLM", "ood") - of("fine-tuned", "ood")),
        3: ("sets won - sets lost, ICLM against fine-tuned", won),
        4: (f"{invariant} - fine-tuned, all sets", of(invariant) - of("fine-tuned")),
        5: (f"{domain} - {oracle}, all sets", of(domain) - of(oracle)),
    }
    if "raven" in families:
        hardest = scored(CHOSEN["raven"], "in_center", "symbolic")
        ours, theirs = (arm("iclm.raven", name, hardest) for name in ("iclm", "finetuned"))
        alone = mean(*(of(row, families=["raven"]) for row in (invariant, domain)))
        decided[2] = "ICLM - fine-tuned, RAVEN In-Center, symbolic", ours - theirs
        decided[6] = "single modules - oracle router, RAVEN", alone - of(oracle, families=["raven"])
    rows = [Row(*decided[claim], claim=f"iclm.claim{claim}") for claim in sorted(decided)]
    return verdict_report("iclm.table1_verdicts", rows, notes=partial(gate_remark, families))


@builds(
    "iclm.table1",
    accuracies("acre"),
    accuracies("raven"),
    accuracies("raven", "choice"),
    printed_table,
    contrasts(),
    claims(),
)
def table1(profile):
    """Table 1: as printed, both families as measured, paired differences, and the claims on it."""
