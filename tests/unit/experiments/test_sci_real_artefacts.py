"""What SCI does on a real base, as tables and remarks tell it of made-up results."""

from math import log, sqrt

import pytest

from causalnb.errors import LabError
from causalnb.experiments.sci import real
from causalnb.experiments.sci.artefacts import real as made
from causalnb.lab import building, evidence, registry
from causalnb.lab.report import gain
from tests.unit.experiments.made_up import everything, moved, number, without

SEEDS = 2
SCRATCH = ("sci.scan.add_prim_jump", "sci.scan.template_around_right")
LOSS = {"sci": 0.06, "sci_separated": 0.25}


def metrics(id: str, arm: str, seed: int) -> dict:
    def right(cell: str) -> dict:
        return {"exact_match": number(id, arm, seed, cell)}

    if id in SCRATCH:
        return {"": {**right("test"), "validation_exact_match": 0.5}}
    cells = {cell: right(cell) for cell in ("validation", "test")}
    return {**cells, "untuned/validation": {"exact_match": 0.25}, "untuned/test": {"exact_match": 0.0}}


def history(arm: str) -> list[dict]:
    first = {"loss": 4.0, "validation": 0.375, "test_sample": 0.1}
    return [{"step": 1, **first}, {"step": 2, **first, "loss": LOSS.get(arm, 0.02), "validation": 0.75}]


@pytest.fixture(scope="module", autouse=True)
def stored(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        moved(patch, tmp_path_factory.mktemp("real"))
        everything(patch, dict.fromkeys((*made.IDS.values(), *SCRATCH), SEEDS), metrics, history)
        everything(patch, {made.SEARCH: 1, made.APART: 1}, metrics, history)
        with evidence.stored_only():
            yield


def lines(report) -> dict:
    table = report("quick")
    found = {tuple(row[:2]): dict(zip(table.columns, row, strict=True)) for row in table.rows}
    assert len(found) == len(table.rows)
    return found


def of(id: str, arm: str, cell: str = "test") -> list[float]:
    return [metrics(id, arm, seed)[cell]["exact_match"] for seed in range(SEEDS)]


def test_every_arm_has_its_row_with_every_seed():
    rows = lines(made.arms_table)
    for held, id in made.IDS.items():
        assert {made.HELD[held]} | {*made.TOLD.values()} <= {word for row in rows for word in row}
        sci = rows[made.HELD[held], made.TOLD["sci"]]
        assert sci[made.TEST] == ", ".join(f"{100 * value:.1f}" for value in of(id, "sci"))
        assert sci[made.HALF] == "37.5, 37.5" and sci[made.UNTUNED] == "12.5, 12.5"
        assert sci[made.LOSS] == "0.060, 0.060"
    scratch = {row for row in rows if row[1].startswith("from scratch")}
    assert {held for held, _ in scratch} == {made.HELD["jump"], made.HELD["around_right"]}


def test_differences_are_of_the_same_seeds_and_against_the_control_too():
    rows = lines(made.differences)
    id = made.IDS["nonce"]
    gaps = [one - other for one, other in zip(of(id, "sci"), of(id, made.SWAP), strict=True)]
    row = rows[made.HELD["nonce"], f"{made.TOLD['sci']} - {made.TOLD[made.SWAP]}"]
    assert row[made.WHOLLY] == gain(gaps)
    assert row[made.BY_SEED] == ", ".join(f"{100 * gap:+.1f}" for gap in gaps)
    pairs = zip(of(made.IDS["jump"], "plain"), of(id, "plain"), strict=True)
    known = rows["known word - word without meaning", made.TOLD["plain"]]
    assert known[made.WHOLLY] == gain([one - other for one, other in pairs])


def test_known_and_copied_are_told_apart_on_the_same_seeds():
    table = made.apart("quick")
    rows = {row[0]: dict(zip(table.columns, row, strict=True)) for row in table.rows}
    assert [*rows] == [words for words, _ in made.PLAIN.values()]
    for name, drawn in real.DRAWN.items():
        if name in made.PLAIN:  # in words: the verb, its action
            told = made.PLAIN[name][0].split(", ")
            assert [part.endswith("without meaning") for part in told] == [*drawn], name
    known, copied = (metrics(made.APART, name, 0)["test"]["exact_match"] for name in ("known", "copied"))
    assert rows[made.PLAIN["known"][0]][made.TEST] == f"{100 * known:.1f}"
    neither = of(made.IDS["nonce"], "plain")[0]
    gap = lines(made.apart_differences)[made.PLAIN["copied"][0], made.PLAIN["nonce"][0]]
    assert gap[made.BY_SEED] == f"{100 * (copied - neither):+.1f}" and gap[made.READ] == "one seed"
    *_, last = lines(made.apart_differences).values()
    whole = of(made.IDS["jump"], "plain")[0] - known - copied + neither
    assert last[made.BY_SEED] == f"{100 * whole:+.1f}"


def test_the_search_says_which_rate_each_arm_had():
    rows = lines(made.search)
    assert {rate for words, rate in rows if words == made.TOLD["plain"]} == {"0.001", "0.0003"}
    assert {words for words, _ in rows} == {*made.TOLD.values()}


def test_the_losses_bound_what_the_methods_did():
    scl, weight, noise = (
        registry.config(made.IDS["jump"], "sci_separated", "quick")[name]
        for name in ("scl_weight", "invariance_weight", "abstraction_noise")
    )
    assert made.bounds("jump", "sci", "quick") == {"contrastive": pytest.approx(LOSS["sci"] / scl)}
    ours = made.bounds("jump", "sci_separated", "quick")
    assert ours["invariance"] == pytest.approx(sqrt(LOSS["sci_separated"] / weight) / noise)
    rows = registry.config(made.IDS["jump"], "sci", "quick")
    assert made.blind("quick") == log(rows["random_rows"] + 2 * rows["pairs"] - 1)
    assert f"at most {LOSS['sci'] / scl:.2f}" in made.held_remark("quick")[0]
    assert made.competence_remark("quick")[0].startswith("plain LoRA: 37.5 to 37.5 % half-way, ")


def test_the_words_drawn_are_those_of_the_runs():
    drawn = made.words_drawn()
    assert [*drawn] == [0, 1] and drawn[1] == " -> ".join(real.nonce_words("nonce", "jump", 1).values())


def test_it_is_built_names_the_notebook_and_says_what_is_missing():
    building.build(made.HOME, "quick")
    assert building.status(made.HOME, "quick")[0] == "built"
    assert registry.find(made.HOME).notebook == real.NOTEBOOK
    assert {registry.experiment(id).notebook for id in (*made.IDS.values(), made.SEARCH, made.APART)} == {
        real.NOTEBOOK
    }
    with without(made.IDS["jump"], "sci", 1), pytest.raises(LabError, match="results of sci.real.jump"):
        made.arms_table("quick")
