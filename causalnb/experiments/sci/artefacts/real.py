"""SCI on gemma-3-270m: what each arm says of training's own commands and of those it never saw, by seed."""

from collections.abc import Sequence

from causalnb.experiments.sci import real
from causalnb.experiments.sci.artefacts.names import EXTRA
from causalnb.lab.report import Measured, Report, Row, arm, builds

HOME, NOTEBOOK = "sci.real_base", "29_sci_real_base"
DATA = {
    "jump": "jump, a word that the base knows",
    "nonce": "a verb and an action without meaning",
    "around_right": "around right",
}
ARMS = {
    "plain": "plain tuning",
    "plain_swap": "plain, and swapped words",
    "sci": "SCI, as in the guide",
    "sci_separated": "SCI separated",
}


def seeds(values: Sequence[float]) -> str:
    """Shares in percent, seed by seed: of two an interval says nothing."""
    return ", ".join(f"{100 * value:.1f}" for value in values)


def apart(values: Sequence[float]) -> str:
    """Differences of shares in points, seed by seed."""
    return ", ".join(f"{100 * value:+.1f}" for value in values)


table = Report(
    HOME,
    [
        "held out",
        "arm",
        Measured("before tuning", "untuned_validation_exact_match", seeds),
        Measured("in distribution", "validation_exact_match", seeds),
        Measured("held out, exact match", "test_exact_match", seeds),
    ],
    lambda: [
        Row((told, words), arm(f"sci.real.{name}", model))
        for name, told in DATA.items()
        for model, words in ARMS.items()
    ],
    "SCAN on gemma-3-270m, tuned with LoRA: exact match in %, seed by seed",
    "In distribution: commands like those of training, none of them in it. Held out: 1,000 commands with the "
    "verb that training has alone, or with the phrase that it never has.",
)
differences = Report(
    f"{HOME}_differences",
    [
        "held out",
        "difference",
        Measured("in distribution, points", "validation_exact_match", apart),
        Measured("held out, points", "test_exact_match", apart),
    ],
    lambda: [
        Row(
            (told, f"{ARMS[one]} - {ARMS[other]}"),
            arm(f"sci.real.{name}", one) - arm(f"sci.real.{name}", other),
        )
        for name, told in DATA.items()
        for one, other in (
            ("plain_swap", "plain"),
            ("sci", "plain"),
            ("sci_separated", "plain"),
            ("sci_separated", "plain_swap"),
        )
    ],
    "SCAN on gemma-3-270m: differences of the same seeds",
)
tries = Report(
    f"{HOME}_search",
    [
        "arm",
        "learning rate",
        Measured("in distribution", "validation_exact_match", seeds),
        Measured("held out", "test_exact_match", seeds),
    ],
    lambda: [
        Row((ARMS[name.rpartition("_")[0]], real.rate(name)), arm("sci.real.search", name))
        for name in real.SEARCHED
    ],
    "Another verb held out (look), with other words without meaning: exact match in %, one seed",
)


@builds(
    HOME,
    table,
    differences,
    tries,
    **EXTRA,
    shows="SCI, swapped words and plain tuning on a real decoder",
    notebook=NOTEBOOK,
)
def real_base(profile):
    """What each arm says on a real base, its differences, and the other verb that was looked at."""
