"""The guide's claims, each with what decides it: all of them, and those on one artefact."""

from causalnb.experiments.sci.artefacts.names import EXTRA
from causalnb.lab.report import Claim, Decided, Ours, Report, builds, claim_rows


def _contrast(claim) -> str:
    """What a row of claims.csv compares, in words."""
    ours, _, theirs = claim["our_metric"].partition("|")
    treated, compared = claim["our_treatment"], claim["our_baseline"]
    if theirs and treated == compared:
        words = f"{ours} - {theirs} of {treated}"
    else:
        words = f"{ours} of {treated} - {theirs or ours} of {compared}"
    return f"{claim['experiment']}: {words}"


verdict_table = Report(
    "sci.verdicts",
    [
        Claim("the guide's claim"),
        Claim("contrast", _contrast),
        Claim("guide", lambda claim: "no number printed"),
        Ours("ours"),
        Decided("verdict"),
    ],
    lambda: claim_rows("sci"),
    "The guide's claims and what was measured: difference of paired seeds, mean ± half of the 95 % interval "
    "(seeds)",
)


def on(*artefact_ids: str):
    """What `verdict_table(only=...)` takes for the claims on some artefacts."""
    claims = {row.claim for id in artefact_ids for row in claim_rows("sci", id)}
    return lambda row: row.claim in claims


def claims_on(artefact_id: str) -> Report:
    """The claims that one artefact decides, with the contrast in the guide's words."""
    return Report(
        f"{artefact_id}_verdicts",
        [
            Claim("the guide's claim"),
            Claim("contrast", lambda claim: "{treatment} - {baseline} ({metric})".format_map(claim)),
            Ours("ours"),
            Decided("verdict"),
        ],
        lambda: claim_rows("sci", artefact_id),
        "The guide's claims and what was measured: difference, mean ± half of the 95 % interval (seeds)",
    )


@builds(
    "sci.verdicts",
    verdict_table,
    **EXTRA,
    shows="every claim of the guide with its contrast and verdict",
    notebook="21_sci_scan",
)
def verdicts(profile):
    """The guide's claims, each with what decides it."""
