"""The four systems on real pre-trained bases in one table: levels, controls, and what each did."""

from collections.abc import Callable
from functools import partial

from causalnb.lab.report import Measured, Report, Row, Values, arm, mean, share

SNLI, TEMPLATES = "causal_transformer.real.snli", "causal_transformer.real.nli.m5"
KNOWN, NONCE = "sci.real.jump", "sci.real.nonce"
RAVEN, MATCHED = "iclm.real.raven", "iclm.real.raven_matched"
STG = "c2dlm.real.stg_l"
NEAR, FAR = "plain, i.i.d.", "plain, shifted"
GAIN, OTHER, BEYOND = "method - plain", "control - plain", "method - control"


def _raven(home: str, name: str, cell: str) -> Values:
    """An arm's choices in a set of RAVEN, the mean over both formats."""
    return mean(*(arm(home, name, f"{cell}_{format}_choice") for format in ("text", "symbolic")))


def _exact(id: str, name: str, part: str) -> Values:
    return arm(id, name, f"{part}_exact_match")


def _right(id: str, name: str, part: str) -> Values:
    return arm(id, name, f"{part}_accuracy")


def _moved(before: Values, after: Values, words: str, said: Callable, profile: str | None = None) -> str:
    """What a method holds, under plain tuning and under the method."""
    return f"{words}: {said(before.of(profile=profile))}, then {said(after.of(profile=profile))}"


def _row(words: tuple, did, near: Values, far: tuple[Values, Values, Values]) -> Row:
    """words: system, base, data, method, control; far: plain, method and control where rows have moved."""
    plain, method, control = far
    cells = {NEAR: near, FAR: plain, GAIN: method - plain, OTHER: control - plain, BEYOND: method - control}
    return Row((*words, did), cells)


def _rows():
    outside = "nodes outside the bounds, %"
    for id, data, cell, far in (
        (SNLI, "SNLI, hard rows", "test", "hard"),
        (TEMPLATES, "templates, challenge", "challenge", "challenge"),
    ):
        words = "Causal Transformer", "MiniLM", data, "loss, late", "entropy alone, late"
        held = (arm(id, name, f"{cell}_violated") for name in ("vanilla", "loss_late"))
        arms = (_right(id, name, far) for name in ("vanilla", "loss_late", "entropy_late"))
        yield _row(words, partial(_moved, *held, outside, share), _right(id, "vanilla", "test"), (*arms,))
    for id, data in ((KNOWN, "SCAN, a known word"), (NONCE, "SCAN, a word without meaning")):
        words = "SCI", "gemma-3-270m", data, "SCI", "words swapped by its labels"
        arms = (_exact(id, name, "test") for name in ("plain", "sci", "plain_swap"))
        yield _row(words, "on training rows (29)", _exact(id, "plain", "validation"), (*arms,))
    for cell, data in (("in_center", "RAVEN, In-Center"), ("four", "RAVEN, Four")):
        words = "ICLM", "gemma-3-270m", data, "ICLM", "one module of its size"
        told = partial(_told, arm(RAVEN, "iclm", _parted))
        far = (
            _raven(RAVEN, "single", cell),
            _raven(RAVEN, "iclm", cell),
            _raven(MATCHED, "single_matched", cell),
        )
        yield _row(words, told, _raven(RAVEN, "single", "iid"), far)
    for name, control in (("placebo", "a placebo graph"), ("swapped", "rows swapped by the graph")):
        words = "C2DLM", "MiniLM", "spurious token game L", "C2DLM", control
        looks = (arm(STG, one, "flow_weighted_causes") for one in ("diffusion", "c2dlm"))
        arms = (_right(STG, one, "ood") for one in ("diffusion", "c2dlm", name))
        did = partial(_moved, *looks, "attention on causes, %", share)
        yield _row(words, did, _right(STG, "diffusion", "iid"), (*arms,))


def _parted(frame):
    """The share of rows that reach their format's module, whichever number it has; one half is chance."""
    apart = frame["iid_text_module0"] - frame["iid_symbolic_module0"]
    return (1 + apart.abs()) / 2


def _told(right: Values, profile: str | None = None) -> str:
    """How a router parts the two formats."""
    return f"rows sent to their format's module, %: {share(right.of(profile=profile))}"


table = Report(
    "real_bases",
    [
        "system",
        "base",
        "data",
        "method",
        "control",
        "did it do what it says?",
        Measured(NEAR, format=share),
        Measured(FAR, format=share),
        *(Measured(heading) for heading in (GAIN, OTHER, BEYOND)),
    ],
    _rows,
    "The four systems on pre-trained bases: percent right, and differences of the same seeds in points, with "
    "95 % intervals (seeds)",
    "Shifted: what the column *data* says. A control gets what the method is told, or its concentration, or "
    "its size. One seed decides nothing. MiniLM was tuned by its authors on pairs of SNLI and MNLI, among "
    "others; what gemma has read is not listed.",
)
