"""Where order alone tells a paraphrase, beside where the place told it: tables of made-up results."""

import numpy as np
import pytest

from causalnb.errors import LabError
from causalnb.experiments.causal_transformer import grid
from causalnb.experiments.causal_transformer.artefacts import crossed as made
from causalnb.lab import building, evidence, registry, report
from causalnb.lab.report import fraction, share
from tests.unit.experiments.made_up import everything, moved, without
from tests.unit.experiments.made_up import number as drawn

TABLE_1, MASKED, BEYOND = (
    f"causal_transformer.{name}"
    for name in ("overlap.paraphrase.m5", "masked.paraphrase", "beyond.paraphrase.m5")
)
SEEDS = {made.HOME: 4, made.LONGER: 3, TABLE_1: 4, MASKED: 3, BEYOND: 5}
CELLS = ("test", "challenge", "held_out", "uncrossed", "paws_qqp")
MEASURES = ("accuracy", "macro_f", "paraphrase", "other", "auc", "violated")
UNASKED = "random"  # as where the files of PAWS-QQP are not there
BEFORE = {
    **dict.fromkeys(("bilstm", "transformer"), TABLE_1),
    "random": MASKED,
    **dict.fromkeys(("compared", "directed", grid.CHOSEN), BEYOND),
}
END = {"transformer": 0.75, "compared": 0.625, "compared_balanced": 0.25}


def metrics(id: str, arm: str, seed: int) -> dict:
    cells = [cell for cell in CELLS if (arm, cell) != (UNASKED, "paws_qqp")]
    found = {cell: {its: 0.5 + drawn(id, arm, seed, cell, its) / 4 for its in MEASURES} for cell in cells}
    return found | {"": {"minority": 0.05 + seed / 1000, "rows": 11_000 + 100 * seed}}


def history(arm: str) -> list[dict]:
    return [
        {"step": step, "loss": 1.0, "entropy": 1.0, "accuracy": accuracy}
        for step, accuracy in ((1, 0.5), (2, END.get(arm, 1.0)))
    ]


@pytest.fixture(scope="module", autouse=True)
def stored(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        moved(patch, tmp_path_factory.mktemp("crossed"))
        everything(patch, SEEDS, metrics, history)
        with evidence.stored_only():
            yield


def lines(made_of) -> dict:
    table = made_of()
    found = {row[0]: dict(zip(table.columns, row, strict=True)) for row in table.rows}
    assert len(found) == len(table.rows)
    return found


def place(name: str) -> tuple[str, str]:
    """Where an arm of NAMES is stored: (experiment, arm)."""
    return (made.LONGER, "compared") if name == "compared_longer" else (made.HOME, name)


def of(id: str, arm: str, cell: str, measure: str = "accuracy", seeds: int | None = None) -> np.ndarray:
    return np.array([metrics(id, arm, seed)[cell][measure] for seed in range(seeds or SEEDS[id])])


def gap(one: tuple[str, str], other: tuple[str, str], cell: str, measure: str = "accuracy") -> str:
    """The difference of two (experiment, arm) on the seeds of both, as a table has it."""
    seeds = min(SEEDS[one[0]], SEEDS[other[0]])
    return report.tested(of(*one, cell, measure, seeds) - of(*other, cell, measure, seeds))


def test_they_are_made_from_the_runs_where_order_alone_tells_and_those_before():
    assert {*made.scores.needed()} == {made.HOME, made.LONGER}
    assert {*made.contrasts.needed()} == {*SEEDS}


def test_every_arm_stands_with_all_it_was_asked():
    rows = lines(made.scores)
    assert {*made.NAMES} == {*registry.arms(made.HOME), "compared_longer"}
    assert [*rows] == [*made.NAMES.values()]
    shown = {
        "in distribution": ("test", "accuracy"),
        "challenge, paraphrase": ("challenge", "paraphrase"),
        "challenge, no paraphrase": ("challenge", "other"),
        "challenge": ("challenge", "accuracy"),
        "nodes outside the bounds": ("challenge", "violated"),
        "other templates": ("held_out", "accuracy"),
        "before crossing": ("uncrossed", "accuracy"),
        "PAWS-QQP, paraphrase": ("paws_qqp", "paraphrase"),
        "PAWS-QQP, no paraphrase": ("paws_qqp", "other"),
    }
    for arm, said in made.NAMES.items():
        row = rows[said]
        assert [*row] == ["arm", *shown, "PAWS-QQP, AUC"]
        there = {heading: at for heading, at in shown.items() if (arm, at[0]) != (UNASKED, "paws_qqp")}
        assert {heading: row[heading] for heading in there} == {
            heading: share(of(*place(arm), *at)) for heading, at in there.items()
        }
        assert {row[heading] for heading in shown.keys() - there.keys()} <= {""}
        area = "" if arm == UNASKED else fraction()(of(*place(arm), "paws_qqp", "auc"))
        assert row["PAWS-QQP, AUC"] == area
    assert made.scores().notes.startswith(
        "5.2% of the pairs of the same words are counter-examples, of 11,150 "
    )


def test_differences_stand_beside_those_where_the_place_told_it_too():
    rows = lines(made.contrasts)
    assert [*rows] == [f"{made.NAMES[name]} - {made.NAMES[other]}" for name, other in made.PAIRS]
    for name, other in made.PAIRS:
        row = rows[f"{made.NAMES[name]} - {made.NAMES[other]}"]
        once = ""
        if name in BEFORE and other in BEFORE:
            once = gap((BEFORE[name], name), (BEFORE[other], other), "challenge")
        assert row["the place tells, too"] == once
        pair = place(name), place(other)
        assert row["order alone tells"] == gap(*pair, "challenge")
        assert row["other templates"] == gap(*pair, "held_out")
        assert row["PAWS-QQP, AUC"] == ("" if UNASKED in (name, other) else gap(*pair, "paws_qqp", "auc"))


def test_only_what_was_not_trained_before_lacks_the_first_difference():
    first = {pair: row["the place tells, too"] for pair, row in lines(made.contrasts).items()}
    new = {"+ comparison, reweighted", "+ comparison, twice the steps", made.NAMES["obeyed"]}
    empty = {pair for pair, said in first.items() if not said}
    assert empty == {pair for pair in first if new & {*pair.split(" - ")}} and len(empty) == 4
    assert first["+ random mask - Transformer"] and first["+ comparison - Transformer"]


def test_competence_says_its_numbers():
    gains = {  # of the longer training as of the other, on its seeds
        "transformer": ("Transformer", "+25.0 [+25.0, +25.0] (4)"),
        "compared": ("+ comparison", "+12.5 [+12.5, +12.5] (4)"),
        "compared_longer": ("+ comparison, twice the steps", "+12.5 [+12.5, +12.5] (3)"),
        "compared_balanced": ("+ comparison, reweighted", "-25.0 [-25.0, -25.0] (4)"),
    }
    assert made.competence_remark() == [
        f"{said}: {share(of(*place(arm), 'test'))} in distribution, and {more} points on validation pairs in "
        "the second half of training."
        for arm, (said, more) in gains.items()
    ]


def test_it_is_built():
    assert all(file.is_file() for file in building.build(made.HOME))
    assert building.status(made.HOME, "quick")[0] == "built"
    item = registry.find(made.HOME)
    assert item.extra and item.notebook == grid.TOLD


@pytest.mark.parametrize(
    "table, id, arm",
    [
        (made.scores, made.HOME, "directed"),
        (made.contrasts, made.LONGER, "compared"),
        (made.contrasts, MASKED, "random"),
        (made.contrasts, BEYOND, "compared"),
    ],
)
def test_a_missing_result_is_named(table, id, arm):
    with (
        without(id, arm, 1),
        pytest.raises(LabError, match=f"1 of {SEEDS[id]} quick results of {id} are not"),
    ):
        table()
