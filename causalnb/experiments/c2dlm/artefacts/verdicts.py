"""Every claim of C2DLM with what decides it here, and the verdict."""

from causalnb.experiments.c2dlm.artefacts import table1, table3
from causalnb.lab.report import Claim, Contrast, Decided, Ours, Report, builds, claim_rows, higher
from causalnb.lab.verdicts import LABELS


def _contrast(claim) -> str:
    """What a row of claims.csv compares, in words; experiments in front of arms are left out."""
    if not isinstance(claim["experiment"], str):
        return ""

    def arms(text: str) -> str:
        return " + ".join(dict.fromkeys(arm.rpartition(":")[2] for arm in text.split("+")))

    ours, _, theirs = claim["our_metric"].partition("|")
    if theirs:
        return f"{ours} of {arms(claim['our_treatment'])} − {theirs} of {arms(claim['our_baseline'])}"
    return f"{arms(claim['our_treatment'])} − {arms(claim['our_baseline'])}, {ours}"


QUALIFIED = "measured, and decides nothing"
OF_TABLES = {row.claim: row for row in (table1.SPREAD_OF_ORDERS, table3.GAIN_OF_FEW)}
verdict_table = Report(
    "c2dlm.verdicts",
    [
        Claim("", lambda claim: claim["id"].removeprefix("c2dlm.")),
        Claim("claim"),
        Claim("stated", higher),
        Contrast("contrast here", _contrast),
        Ours("ours"),
        Decided("verdict"),
    ],
    lambda: claim_rows("c2dlm", beside=OF_TABLES),
    "C2DLM's claims and what was measured here at small scale: difference of paired seeds, mean ± half "
    "of the 95 % interval (seeds)",
    "Claims in points (pp) are compared in points. Small models and synthetic tasks: a verdict is about "
    "the claim at this scale.",
)


def tally(profile: str | None = None, strict: bool = True) -> dict[str, int]:
    """How many of C2DLM's claims have each verdict; "no result yet" for those whose results are missing.

    QUALIFIED are those whose verdict decides nothing.
    """
    found = dict.fromkeys((*LABELS, QUALIFIED, "no result yet"), 0)
    for *_, decided in verdict_table(profile, strict).rows:
        found[QUALIFIED if getattr(decided, "but", "") else getattr(decided, "label", decided)] += 1
    return found


def tally_remark(profile: str | None = None, strict: bool = True) -> str:
    """What of C2DLM reproduces here, in one paragraph computed from the verdicts."""
    counts = tally(profile, strict)
    tested = sum(counts[label] for label in LABELS) - counts["not attempted"]
    told = (
        f"Of {sum(counts.values())} claims: {counts['not attempted']} not attempted (the table gives "
        f"the reasons), {counts['no result yet']} waiting for results, {counts[QUALIFIED]} measured on "
        "models that cannot do the task or still learn, which decides nothing, "
        f"{tested} decided by a contrast of paired seeds."
    )
    if not tested:
        return told
    return (
        f"{told} Of those decided: {counts['reproduced']} reproduced in direction, and in size where "
        f"one is stated, {counts['same direction']} in direction only, {counts['opposite']} "
        f"the opposite, {counts['excluded']} excluded, because 0 is in the interval and the size stated is "
        f"not, and {counts['undecided']} undecided, because 0 is in it, and any size that is stated."
    )


@builds(
    "c2dlm.verdicts",
    verdict_table,
    extra=True,
    printed_as="ours",
    kind="measured",
    shows="every claim of C2DLM with its contrast and verdict",
    notebook="45_downstream_ablations_costs",
)
def verdicts(profile):
    """C2DLM's claims, each with what decides it, or why nothing does."""
