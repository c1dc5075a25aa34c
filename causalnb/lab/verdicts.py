"""The word that stands beside a claim of a source, by rule."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from causalnb.errors import LabError
from causalnb.lab.statistics import Summary, mean_ci

AS_WELL = ">="  # the direction of a claim that something does as well or better
LABELS = ("reproduced", "same direction", "opposite", "excluded", "undecided", "not attempted")


@dataclass(frozen=True)
class Verdict:
    """One of LABELS, with the contrast's summary and the size stated, or why it was not attempted.

    but: what the label leaves out, as that the baseline cannot do the task. counted: what there are n of.
    """

    label: str
    summary: Summary | None = None
    size: float | None = None
    why: str = ""
    but: str = ""
    counted: str = "seeds"

    def __str__(self) -> str:
        told = f"{self.label}, but {self.but}" if self.but else self.label
        return f"{told}: {self.why}" if self.why else told


def verdict(
    differences: Sequence[float],
    size: float | None = None,
    direction: int = +1,
    margin: float | None = None,
    as_well: bool = False,
) -> Verdict:
    """The rule, for a contrast by seed that the source claims to lie in `direction`, with a `size` >= 0.

    reproduced: its 95 % interval is beyond 0 that way and the mean reaches the size (if one is stated);
    same direction: beyond 0, smaller; opposite: beyond 0 the other way; excluded: 0 is in it and the size is
    not, or where none is stated, the `margin` > 0, the smallest gain that counts as one, or all but 0 is
    outside; undecided: both are in it, or 0 where there is neither, or n < 2. What is claimed to do `as_well`
    or better is reproduced by an interval above -margin, opposite by one below, else undecided. Not attempted
    where a difference is no finite number: its run diverged.
    """
    if direction not in (1, -1):
        raise LabError(f"direction={direction!r} is none: give +1 or -1.")
    if size is not None and not 0 <= size < math.inf:
        raise LabError(f"size={size!r} is no size: give a number from 0 on; a decrease is direction=-1.")
    if margin is not None and not 0 < margin < math.inf:
        raise LabError(f"margin={margin!r} is no smallest gain: give a number above 0, or None.")
    if as_well and (margin is None or size is not None or direction != 1):
        raise LabError("what does as well has a margin, and neither a size nor a direction of its own.")
    return judged(mean_ci(differences), size, direction, margin, as_well)


def judged(
    summary: Summary,
    size: float | None = None,
    direction: int = +1,
    margin: float | None = None,
    as_well: bool = False,
) -> Verdict:
    """The same rule for a difference whose mean and 95 % interval are known."""
    if summary.mean != summary.mean:
        return not_attempted(f"a run diverged among those of {summary.n} seeds")
    low, high = sorted((direction * summary.low, direction * summary.high))
    if as_well:
        below = -(margin or 0.0)
        label = "reproduced" if low > below else "opposite" if high < below else "undecided"
    elif low > 0:
        label = "reproduced" if size is None or direction * summary.mean >= size else "same direction"
    elif high < 0:
        label = "opposite"
    else:
        least = margin if size is None else size
        outside = high < least if least is not None else low == high
        label = "excluded" if outside else "undecided"
    return Verdict(label, summary, size)


def reading(differences: Sequence[float], size: float | None = None) -> str:
    """The verdict on a claimed gain (size in points), or where no gain is claimed, the side of 0."""
    summary = mean_ci(differences)
    if size is not None or summary.mean != summary.mean:
        return str(verdict([100 * value for value in differences], size))
    sides = {summary.low > 0: "above 0", summary.high < 0: "below 0"}
    return sides.get(True, "0 is inside" if summary.low == summary.low else "one seed")


def not_attempted(why: str) -> Verdict:
    """The verdict on a claim that was not tested, with the reason."""
    if not why.strip():
        raise LabError("a claim is not attempted for a reason: say why.")
    return Verdict("not attempted", why=why)


def claims(source: str | None = None):
    """DataFrame of data/paper/claims.csv, or of one source in it."""
    from causalnb.lab.tables import printed

    found = printed("claims", source or "")
    if source is None:
        return found
    if source not in set(found["source"]):
        known = ", ".join(sorted(set(found["source"])))
        raise LabError(f"there is no claim of {source!r}: there are those of {known}.")
    return found[found["source"] == source].reset_index(drop=True)


def _measured(claim: dict, arm: str, metric: str, profile: str | None) -> dict[int, float]:
    """{seed: value} of an arm ("arm" of the claim's experiment, or "experiment:arm") in a metric or "a-b".

    "a+b" is the mean, of arms on the seeds that all have, and of metrics; nan is the value of a diverged run.
    """
    from causalnb.lab.evidence import require

    def one(arm: str, column: str):
        experiment, _, arm = arm.rpartition(":")
        experiment = experiment or claim["experiment"]
        found = require(experiment, profile, [arm]).set_index("seed")
        if column not in found:
            raise LabError(
                f"{claim['id']} compares {column!r}, which {experiment} does not measure: correct claims.csv."
            )
        return found[column]

    def difference(arm: str, columns: str):
        first, *second = (one(arm, column) for column in columns.split("-"))
        return first - second[0] if second else first

    parts = [difference(each, columns) for each in arm.split("+") for columns in metric.split("+")]
    seeds = sorted(set.intersection(*(set(part.index) for part in parts)))
    return (sum(part[seeds] for part in parts) / len(parts)).to_dict()


def by_claim(differences: Sequence[float], claim: Mapping) -> Verdict:
    """The verdict on a row of claims.csv from differences, which are shares if the claim is in points."""
    scale = 100.0 if claim["unit"] == "pp" else 1.0
    size, margin = (None if math.isnan(claim[name]) else float(claim[name]) for name in ("size", "margin"))
    direction, as_well = -1 if claim["direction"] == "-" else 1, claim["direction"] == AS_WELL
    found = verdict([scale * value for value in differences], size, direction, margin, as_well)
    return qualified(found, claim)


def qualified(found: Verdict, claim: Mapping) -> Verdict:
    """A verdict with what claims.csv says that it leaves out and counts, where anything was measured."""
    told = {name: claim[name] for name in ("but", "counted") if isinstance(claim.get(name), str)}
    return replace(found, **told) if found.summary is not None else found


def decide(claim, profile: str | None = None) -> Verdict:
    """The verdict on a row of claims.csv: paired seeds of its contrast, or why it was not attempted.

    our_metric is a metric, "a-b" for a difference of two, or "a|b": a of our_treatment against b of
    our_baseline. An arm of another experiment is written "experiment:arm"; "a+b" is the mean of several arms
    or metrics. These, and arms that are asked for more seeds, are paired on the seeds that both have. A claim
    in percentage points is compared in them.
    LabError for a contrast that the stored results do not hold.
    """
    from causalnb.lab import registry
    from causalnb.lab.statistics import paired

    claim = claim._asdict() if hasattr(claim, "_asdict") else dict(claim)  # of itertuples or iterrows
    if not isinstance(claim["experiment"], str):
        return not_attempted(claim["reason"])
    ours, _, theirs = claim["our_metric"].partition("|")
    treated = _measured(claim, claim["our_treatment"], ours, profile)
    compared = _measured(claim, claim["our_baseline"], theirs or ours, profile)
    joined = set(":+") & set(claim["our_treatment"] + claim["our_baseline"])
    if joined or registry.experiment(claim["experiment"]).more_seeds:
        both = treated.keys() & compared.keys()
        treated, compared = ({seed: part[seed] for seed in both} for part in (treated, compared))
    return by_claim(paired(treated, compared), claim)
