"""C2DLM on a real base, as tables, figure and remarks tell it of made-up results."""

from itertools import product

import matplotlib.pyplot as plt
import pytest

from causalnb.errors import LabError
from causalnb.experiments.c2dlm import real, real_data
from causalnb.experiments.c2dlm.artefacts import real as made
from causalnb.experiments.c2dlm.artefacts.games import NAMES, SFT
from causalnb.experiments.c2dlm.real_choose import SEARCH
from causalnb.lab import building, evidence, registry
from causalnb.lab.report import gain, share
from causalnb.tasks import stg
from tests.unit.experiments.made_up import everything, moved, number, without

SEEDS = 3
CELLS = {"iid": "accuracy", "ood": "accuracy", "flow/weighted": "causes", "flow/raw": "causes"}
HIGHER = {"isolated", "swapped"}
C2DLM, PLACEBO = NAMES["c2dlm"], NAMES["placebo"]


def metrics(id: str, arm: str, seed: int) -> dict:
    cells = {cell: its for cell, its in CELLS.items() if cell in ("iid", "ood") or arm != "enforced"}
    level = 0.7 if arm in HIGHER else 0.4
    found = {cell: {its: level + number(id, arm, seed, cell) / 100} for cell, its in cells.items()}
    if id == made.KEPT_BY:
        found |= {f"do/{name}": {"changed": changed(arm, name), "should": 0.5} for name in stg.ATTRIBUTES}
    return found


def changed(arm: str, name: str) -> float:
    return number(made.KEPT_BY, arm, 0, name) / 100


def history(arm: str) -> list[dict]:
    return [{"step": step, "loss": 1.0, "accuracy": step / 8} for step in (1, 2, 4)]


@pytest.fixture(scope="module", autouse=True)
def stored(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        moved(patch, tmp_path_factory.mktemp("real"))
        counts = {
            made.HOME: SEEDS,
            made.DECODER: SEEDS,
            made.BOTH: SEEDS,
            made.ADAPTED: SEEDS,
            **dict.fromkeys((made.LONGER, *made.SIZES.values()), SEEDS),
            made.STG_L: SEEDS,
            SEARCH: 1,
            made.KEPT_BY: 1,
        }
        everything(patch, counts, metrics, history)
        with evidence.stored_only():
            yield
    plt.close("all")


def lines(report, labels: int) -> dict:
    table = report()
    found = {tuple(row[:labels]): dict(zip(table.columns, row, strict=True)) for row in table.rows}
    assert len(found) == len(table.rows)
    return found


def of(arm: str, cell: str, id: str = made.HOME) -> list[float]:
    return [metrics(id, arm, seed)[cell][CELLS[cell]] for seed in range(SEEDS)]


def test_every_arm_has_its_row_beside_the_printed_and_the_small_ones():
    rows = lines(made.accuracies, 2)
    assert {name for base, name in rows if base == "MiniLM"} == {
        NAMES[name] for name in registry.arms(made.HOME)
    }
    ours, small = rows["MiniLM", C2DLM], rows["from scratch", C2DLM]
    assert ours["ood"] == share(of("c2dlm", "ood")) and small["ood"] == share(of("c2dlm", "ood", made.STG_L))
    assert ours[made.CAUSES] == share(of("c2dlm", "flow/weighted")) and small[made.CAUSES] == ""
    assert rows["MiniLM", NAMES["enforced"]][made.CAUSES] == rows["MiniLM", NAMES[SFT]]["highest γ"] == ""
    assert (ours["highest γ"], rows["MiniLM", NAMES["isolated"]]["highest γ"]) == ("3", "10")
    assert small["highest γ"] == "0.3"
    assert ours[made.LATE].startswith("25.0") and ours[made.END].startswith("50.0")
    assert rows["LLaDA 8B, as printed", C2DLM]["ood"] == "92.25%"
    left, theirs = rows["gemma-3-270m", NAMES[made.LEFT]], rows["as printed", made.THEIRS]
    assert left["ood"] == share(of(made.LEFT, "ood", made.DECODER)) and theirs["ood"] == "87.00%"
    swapped = rows["gemma-3-270m", f"{NAMES[made.LEFT]}, {NAMES['swapped']}"]
    assert swapped["ood"] == share(of("swapped", "ood", made.DECODER))
    both = rows["gemma-3-270m, bidirectional", NAMES[SFT]]
    assert both["ood"] == share(of(SFT, "ood", made.BOTH)) and both[made.CAUSES]
    adapted = rows[made.BASES[made.ADAPTED], NAMES[SFT]]
    assert adapted["ood"] == share(of(made.SHIFTED, "ood", made.ADAPTED)) and adapted[made.CAUSES] == ""


def test_differences_are_of_the_same_seeds_and_the_printed_gain_is_judged():
    rows = lines(made.differences, 2)
    both = zip(of("c2dlm", "ood"), of("placebo", "ood"), strict=True)
    assert rows["MiniLM", f"{C2DLM} - {PLACEBO}"]["ood, points"] == gain([one - other for one, other in both])
    judged = {label: row["reading (ood)"] for label, row in rows.items() if row["paper, iid / ood"] != "none"}
    stated = dict.fromkeys(((made.BASES[home], f"{C2DLM} - {NAMES[SFT]}") for home in made.PAIRS), "excluded")
    stated["MiniLM, size M", f"{C2DLM} - {NAMES[SFT]}"] = "same direction"  # 12 lies in the interval
    assert judged == stated
    longer = zip(of("c2dlm", "ood", made.LONGER), of("c2dlm", "ood"), strict=True)
    gained = rows["MiniLM, twice the steps", f"{C2DLM} - the same in half of them"]
    assert gained["ood, points"] == gain([one - other for one, other in longer])


def test_the_longer_training_differs_in_its_steps_alone():
    for arm in registry.arms(made.LONGER):
        longer, config = (registry.config(home, arm, "laptop") for home in (made.LONGER, made.HOME))
        assert longer.pop("steps") == 2 * config.pop("steps")
        assert longer == config


def test_a_size_differs_in_its_rows_alone():
    for size, id in made.SIZES.items():
        for arm in (SFT, "c2dlm"):
            its, config = (registry.config(home, arm, "laptop") for home in (id, made.HOME))
            assert its.pop("train_rows") == stg.SIZES[size] and config.pop("train_rows") == stg.SIZES["L"]
            assert its == config


def test_sizes_stand_beside_what_the_paper_prints_of_each():
    rows = lines(made.sizes, 3)
    for size, printed in {"S": "88.50%", "M": "95.00%", "L": "92.25%"}.items():
        assert rows[size, "LLaDA 8B, as printed", C2DLM]["ood"] == printed
        ours = rows[size, "MiniLM", C2DLM]
        assert ours["ood"] == share(of("c2dlm", "ood", made.SIZES[size]))
        assert ours[made.END].startswith("50.0")
    readers = {size: rows[size, "no network", "least squares, all"]["ood"] for size in made.SIZES}
    assert readers["L"] == lines(made.accuracies, 2)["no network", "least squares, all"]["ood"]
    assert len({*readers.values()}) == len(readers) == 3
    smaller = lines(made.differences, 2)["MiniLM, size S", f"{C2DLM} - {NAMES[SFT]}"]
    assert smaller["paper, iid / ood"] == "+1.50% / +7.25%"


def test_a_placebo_names_what_it_drew_and_how_much_of_it_is_true():
    rows = lines(made.placebos, 2)
    assert len(rows) == SEEDS * len(made.PLACEBOS)
    for arm, seed in product(made.PLACEBOS, range(SEEDS)):
        row, named = rows[(NAMES[arm], str(seed))], made.drawn(seed)
        assert row["the placebo's causes"] == ", ".join(named) and len({*named}) == len(stg.CAUSES)
        assert row["of them true"] == str(sum(name in stg.CAUSES for name in named))
        assert row["ood"] == f"{100 * of(arm, 'ood')[seed]:.1f}"


def test_placebos_of_a_seed_have_the_same_causes_and_never_the_rest():
    names, configs = stg.ATTRIBUTES, [registry.config(made.HOME, arm, "laptop") for arm in made.PLACEBOS]
    for seed in range(20):
        weak, strict = (real_data.graph_of(names, config, seed)[0].edges for config in configs)
        assert weak["Risk"] == strict["Risk"] and real_data.REST not in strict["Risk"]
        assert real_data.REST in strict and not any(
            causes for name, causes in strict.items() if name != "Risk"
        )


def test_the_search_marks_what_is_used():
    rows = lines(made.search, 3)
    assert len(rows) == len(real.SEARCHED)
    assert [names for names, row in rows.items() if row["used"]] == [
        (NAMES[SFT], "0.0001", ""),
        (C2DLM, "0.0001", "3"),
    ]


def test_the_figure_says_who_looks_most_and_who_answers_best():
    fig, alt = made.attention_figure()
    looking, best = (
        max(made.LOOKS, key=lambda name, cell=cell: sum(of(name, cell))) for cell in ("flow/weighted", "ood")
    )
    title = fig.axes[0].get_title(loc="left")
    first, second = title.split("\n")
    assert made._short(looking) in first and made._short(best) in second
    assert f"{NAMES[SFT]} {100 * sum(of(SFT, 'flow/weighted')) / SEEDS:.0f} and" in alt
    assert {f"{made.true_ones(seed)} true" for seed in range(SEEDS)} == {
        one.get_text() for one in fig.axes[0].texts
    }


def test_arms_not_shown_to_be_below_the_best_are_named_with_it():
    assert {*made._level("swapped", made.LOOKS, None)} == HIGHER
    assert [*made._level("isolated", ["isolated", SFT], None)] == ["isolated"]


def test_what_moves_the_answer_is_told_by_attribute_beside_the_rule():
    rows = lines(made.moved, 1)
    assert [name for (name,) in rows] == [*stg.ATTRIBUTES]
    for name in stg.ATTRIBUTES:
        row = rows[(name,)]
        assert row["by the rule"] == "50.0"
        for arm in real.KEPT:
            assert row[NAMES[arm]] == f"{100 * changed(arm, name):.1f}"
    fig, alt = made.moved_figure()
    assert f"rule of the game: {stg.ATTRIBUTES[0]} 50.0" in alt
    copies = [100 * changed("c2dlm", name) for name in stg.SPURIOUS]
    assert f"C2DLM {sum(copies) / 3:.0f}\N{NO-BREAK SPACE}%" in fig.get_suptitle() + "".join(
        one.get_text() for one in fig.texts
    )
    assert len(fig.axes[0].patches) == len(stg.ATTRIBUTES) * (1 + len(real.KEPT))


def test_competence_is_told_beside_the_printed_baseline_and_with_the_last_steps():
    level, later = made.competence_remark()
    assert f"{100 * sum(of(SFT, 'iid')) / SEEDS:.1f} %" in level and "88.25%" in level
    assert "+25.0 [" in later


def test_all_artefacts_are_built_and_want_all_their_results():
    for id in (made.ID, f"{made.ID}_differences", made.MOVED):
        building.build(id, "quick")
        item = registry.find(id)
        assert building.status(id, "quick")[0] == "built"
        assert item.extra and item.notebook == real.NOTEBOOK
    with without(made.HOME, "isolated", 1), pytest.raises(LabError, match=made.HOME):
        made.differences()
