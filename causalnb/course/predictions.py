"""Predict before you look: a student's probabilities for the verdict on a claim, kept in work/."""

import difflib
import json
import math
from collections.abc import Iterable, Mapping

from causalnb.course import claims
from causalnb.errors import LabError
from causalnb.lab import files, records, verdicts
from causalnb.paths import shown, work_dir

LABELS = tuple(label for label in verdicts.LABELS if label != "not attempted")
FILE = "predictions.json"
ROUNDING = 1e-9  # by which probabilities may miss 1


def predict(claim: str, **probabilities: float) -> None:
    """Keep probabilities for the verdict on a claim of data/paper/claims.csv; another call replaces them.

    `predict("sci.claim1", reproduced=0.5, same_direction=0.2)` spreads what is left to 1 evenly over the
    verdicts that are not named. Without probabilities it shows the claim, nothing of its verdict, and sliders
    in a notebook. LabError for an unknown claim or verdict, and for what is no probability.
    """
    known = verdicts.claims().set_index("id")
    if claim not in known.index:
        near = difflib.get_close_matches(claim, known.index, 3) or list(known.index[:3])
        raise LabError(f"there is no claim {claim!r}: did you mean {', '.join(near)}?")
    if probabilities:
        print(_keep(claim, complete({key.replace("_", " "): p for key, p in probabilities.items()})))
        return
    row = known.loc[claim]
    size = f" The source states {row['size']:g} {row['unit']}." if row["size"] == row["size"] else ""
    named = ", ".join(f"{label.replace(' ', '_')}=..." for label in LABELS)
    print(f'{row["claim"]}{size}\nYour prediction: predict("{claim}", {named})')
    _sliders(claim)


def complete(probabilities: Mapping[str, float]) -> dict[str, float]:
    """A probability for each of LABELS: those given, and what is left to 1 evenly over the others.

    LabError for an unknown label, a number outside [0, 1], and a sum that is not 1 or leaves nothing over.
    """
    for label, p in probabilities.items():
        if label not in LABELS:
            raise LabError(f"there is no verdict {label!r}: there are {', '.join(LABELS)}.")
        if isinstance(p, bool) or not isinstance(p, int | float) or not 0 <= p <= 1:
            raise LabError(f"{label} has the probability {p!r}: give a number from 0 to 1.")
    total, open_labels = (
        math.fsum(probabilities.values()),
        [one for one in LABELS if one not in probabilities],
    )
    if total > 1 + ROUNDING or not open_labels and total < 1 - ROUNDING:
        raise LabError(f"the probabilities sum to {total:g}: let them sum to 1.")
    rest = max(0.0, 1 - total)
    return {label: float(probabilities.get(label, rest / max(1, len(open_labels)))) for label in LABELS}


def stored() -> dict[str, dict[str, float]]:
    """{claim: {verdict: probability}} as predicted; LabError for a file that holds something else."""
    path = work_dir() / FILE
    if not path.exists():
        return {}
    try:
        found = records.parsed(path.read_bytes())
        return {claim: complete(found[claim]) for claim in found}
    except (OSError, ValueError, TypeError, AttributeError, LabError) as error:
        raise LabError(f"{shown(path)} cannot be read ({error}): correct it, or move it away.") from error


def _keep(claim: str, probabilities: dict[str, float]) -> str:
    """Write a prediction beside the others; what was kept, as a sentence."""
    both = {**stored(), claim: probabilities}
    path = work_dir() / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_atomic(path, (json.dumps(both, indent=1, sort_keys=True) + "\n").encode())
    return "Kept: " + ", ".join(f"{label} {p:.2f}" for label, p in probabilities.items()) + "."


def _sliders(claim: str) -> None:
    """Show a slider a verdict, and a button that keeps what they say; nothing outside of a notebook."""
    from IPython import get_ipython

    if get_ipython() is None:
        return
    from IPython.display import display
    from ipywidgets import Button, IntSlider, Label, VBox

    before = stored().get(claim, complete({}))
    sliders = [IntSlider(round(100 * before[label]), 0, 100, description=label) for label in LABELS]
    button, said = Button(description="Commit"), Label("Weights, which need not sum to 100.")

    def commit(_) -> None:
        total = sum(slider.value for slider in sliders)
        weights = {label: slider.value for label, slider in zip(LABELS, sliders, strict=True)}
        said.value = (
            _keep(claim, {label: weight / total for label, weight in weights.items()})
            if total
            else "Give at least one verdict some weight."
        )

    button.on_click(commit)
    display(VBox([*sliders, button, said]))


def decided(profile: str = "laptop") -> dict[str, str]:
    """{claim: verdict} of the claims that stored results decide by the rule; LabError where there is none."""
    found = {row.id: row.verdict for row in claims.judged(profile) if row.verdict in LABELS}
    if not found:
        raise LabError(f"no claim is decided in the {profile} profile: its results are not there.")
    return found


def brier(probabilities: Mapping[str, float], verdict: str) -> float:
    """The Brier score of a prediction: sum over verdicts of (p - [it came out])^2, from 0 (best) to 2."""
    return math.fsum((probabilities[label] - (label == verdict)) ** 2 for label in LABELS)


def base_rates(came_out: Iterable[str]) -> dict[str, float]:
    """The share of each verdict among those that came out; LabError for none."""
    every = list(came_out)
    if not every:
        raise LabError("there are no base rates of no verdicts: give at least one.")
    return {label: every.count(label) / len(every) for label in LABELS}
