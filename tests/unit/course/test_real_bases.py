"""The table of the four systems on real bases, from made-up results."""

import pytest

from causalnb.course import real_bases as made
from causalnb.lab import evidence
from causalnb.lab.report import gain, share
from tests.unit.experiments.made_up import everything, moved, number

SEEDS = 2
PARTS = {
    "causal_transformer": [
        *((cell, its) for cell in ("test", "hard", "challenge") for its in ("accuracy", "violated"))
    ],
    "sci": [("test", "exact_match"), ("validation", "exact_match")],
    "iclm": [
        (f"{cell}/{form}", its)
        for cell in ("iid", "in_center", "four")
        for form in ("text", "symbolic")
        for its in ("choice", "module0")
    ],
    "c2dlm": [("iid", "accuracy"), ("ood", "accuracy"), ("flow/weighted", "causes")],
}
IDS = (made.SNLI, made.TEMPLATES, made.KNOWN, made.NONCE, made.RAVEN, made.MATCHED, made.STG)


def metrics(id: str, arm: str, seed: int) -> dict:
    found: dict = {}
    for cell, its in PARTS[id.partition(".")[0]]:
        found.setdefault(cell, {})[its] = number(id, arm, seed, cell, its)
    return found


@pytest.fixture(autouse=True)
def stored(tmp_path, monkeypatch):
    moved(monkeypatch, tmp_path)
    everything(monkeypatch, dict.fromkeys(IDS, SEEDS), metrics)
    with evidence.stored_only():
        yield


def of(id: str, arm: str, cell: str, its: str) -> list[float]:
    return [metrics(id, arm, seed)[cell][its] for seed in range(SEEDS)]


def test_levels_and_differences_are_of_the_arms_that_are_named():
    table = made.table()
    rows = {(row[2], row[4]): dict(zip(table.columns, row, strict=True)) for row in table.rows}
    assert [row[0] for row in table.rows] == sorted(
        (row[0] for row in table.rows), key=["Causal Transformer", "SCI", "ICLM", "C2DLM"].index
    )
    asked = {
        ("SNLI, hard rows", "entropy alone, late"): (
            made.SNLI, "vanilla", "loss_late", "entropy_late", ("test", "accuracy"), ("hard", "accuracy"),
        ),
        ("SCAN, a word without meaning", "words swapped by its labels"): (
            made.NONCE, "plain", "sci", "plain_swap", ("validation", "exact_match"), ("test", "exact_match"),
        ),
        ("spurious token game L", "a placebo graph"): (
            made.STG, "diffusion", "c2dlm", "placebo", ("iid", "accuracy"), ("ood", "accuracy"),
        ),
    }  # fmt: skip
    for label, (id, plain, method, control, near, far) in asked.items():
        row = rows[label]
        before, ours, others = (of(id, arm, *far) for arm in (plain, method, control))
        assert row[made.NEAR] == share(of(id, plain, *near)) and row[made.FAR] == share(before)
        for heading, one, other in (
            (made.GAIN, ours, before), (made.OTHER, others, before), (made.BEYOND, ours, others),
        ):  # fmt: skip
            assert row[heading] == gain([a - b for a, b in zip(one, other, strict=True)])


def test_a_set_in_two_formats_is_their_mean_and_what_was_held_is_told():
    rows = {row[2]: dict(zip(made.table().columns, row, strict=True)) for row in made.table().rows}
    formats = zip(
        *(of(made.RAVEN, "single", f"four/{form}", "choice") for form in ("text", "symbolic")), strict=True
    )
    assert rows["RAVEN, Four"][made.FAR] == share([(one + other) / 2 for one, other in formats])
    held = [share(of(made.STG, arm, "flow/weighted", "causes")) for arm in ("diffusion", "c2dlm")]
    assert rows["spurious token game L"]["did it do what it says?"] == (
        f"attention on causes, %: {held[0]}, then {held[1]}"
    )
    assert rows["SCAN, a known word"]["did it do what it says?"] == "on training rows (29)"


def test_a_router_is_told_by_formats_and_not_by_numbers_of_modules():
    rows = {row[2]: dict(zip(made.table().columns, row, strict=True)) for row in made.table().rows}
    both = zip(
        *(of(made.RAVEN, "iclm", f"iid/{form}", "module0") for form in ("text", "symbolic")), strict=True
    )
    right = [(1 + abs(one - other)) / 2 for one, other in both]
    told = f"rows sent to their format's module, %: {share(right)}"
    assert rows["RAVEN, Four"]["did it do what it says?"] == told
