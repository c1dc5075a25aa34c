"""What the loss does on a real base, as tables and remarks tell it of made-up results."""

import matplotlib.pyplot as plt
import pytest

from causalnb.errors import LabError
from causalnb.experiments.causal_transformer import real
from causalnb.experiments.causal_transformer.artefacts import overlap as table1
from causalnb.experiments.causal_transformer.artefacts import real as made
from causalnb.experiments.causal_transformer.artefacts import real_maps
from causalnb.experiments.causal_transformer.artefacts.fig9 import MEASURES as OF_MAPS
from causalnb.lab import building, evidence, registry, report
from causalnb.lab.report import gain, share
from tests.unit.experiments.made_up import everything, moved, number, without

SEEDS = 3
CELLS = ("validation", "test", "hard", "challenge", "held_out", "mnli_overlapping", "paws_qqp")
MEASURES = dict.fromkeys(("accuracy", "auc", "violated", "entropy", "shut", "shift", *OF_MAPS))
TOKENS = ("[CLS]", "yes", ",", "sir")
READ = {"vanilla": [0.25] * 4, "loss_late": [1, 0, 0, 0], "entropy_late": [0.5, 0.5, 0, 0]}  # by every token


def metrics(id: str, arm: str, seed: int) -> dict:
    opened = {"": {"gate": number(id, arm, seed, "gate") / 10}}
    return opened | {
        cell: {its: 0.4 + number(id, arm, seed, cell, its) / 100 for its in MEASURES} for cell in CELLS
    }


def history(arm: str) -> list[dict]:
    first = {"loss": 1.0, "accuracy": 0.25, "violated": 0.75, "entropy": 2.0}
    looks = [{"step": 1, **first}, {"step": 2, **{its: value / 2 for its, value in first.items()}}]
    row = {f"to_{j}": weight for j, weight in enumerate(READ.get(arm, READ["vanilla"]))}
    return looks + [{"stack": "encoder", "token": token, **row} for token in TOKENS]


@pytest.fixture(scope="module", autouse=True)
def stored(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        moved(patch, tmp_path_factory.mktemp("real"))
        small = [table1.IDS["nli", minority] for minority in made.ON_PAIRS]
        ids = (made.ON_SNLI, *made.ON_PAIRS.values(), *made.SEARCHES.values(), made.SNLI, made.READERS)
        ids = (*ids, made.KEPT, made.LONGER, real_maps.MAPS)
        everything(patch, dict.fromkeys((*ids, *small), SEEDS), metrics, history)
        with evidence.stored_only():
            yield


def lines(report, labels: int) -> dict:
    table = report()
    found = {tuple(row[:labels]): dict(zip(table.columns, row, strict=True)) for row in table.rows}
    assert len(found) == len(table.rows)
    return found


def of(id: str, arm: str, cell: str, measure: str = "accuracy") -> list[float]:
    return [metrics(id, arm, seed)[cell][measure] for seed in range(SEEDS)]


def test_every_arm_has_its_row_and_what_it_did_to_maps():
    on_snli, on_pairs = lines(made.snli, 1), lines(made.pairs, 2)
    named = made.NAMED["snli"]  # with nats of its own
    assert {named[name] for name in registry.arms(made.ON_SNLI)} < {name for (name,) in on_snli}
    longer = made.NAMED["longer"]
    assert {f"{made.TWICE}: {words}" for words in longer.values()} < {name for (name,) in on_snli}
    nats = [real.CHOSEN[name] for name in ("entropy", "snli_entropy", "longer_entropy")]
    assert len({*nats}) == 3 and all(
        f"{one:g} nats, late" in names["entropy_late"]
        for one, names in zip(nats, (made.ARMS, named, longer), strict=True)
    )
    for minority, id in made.ON_PAIRS.items():
        rows = {words for part, words in on_pairs if part == table1.SHARES[minority]}
        assert {made.ARMS[name] for name in registry.arms(id)} < rows and "from scratch: + both" in rows
    kept = {f"{made.ARMS[name]}, adapters" for name in registry.arms(made.KEPT)}
    assert kept == {words for part, words in on_pairs if words.endswith("adapters")} and len(kept) == 3
    held = on_snli[(made.ARMS["loss"],)]
    assert held["hard test"] == share(of(made.ON_SNLI, "loss", "hard"))
    assert held[made.OUTSIDE] == share(of(made.ON_SNLI, "loss", "test", "violated"))
    assert held[made.HALF].startswith("25.0") and held[made.END].startswith("12.5")
    assert on_snli[("from scratch: full attention",)]["hard test"] == ""
    moved = {words: row[made.SHIFT] for (part, words), row in on_pairs.items() if row[made.SHIFT]}
    assert moved == {
        made.ARMS[name]: report.number(4)(of(made.ON_PAIRS["m5"], name, "challenge", "shift"))
        for name in ("interchanged", "held", "interchanged_entropy")
    }


def test_differences_are_of_the_same_seeds_and_against_the_control_too():
    rows, id = lines(made.contrasts, 2), made.ON_PAIRS["m5"]
    label = f"{made.ARMS['loss_late']} - {made.ARMS['entropy_late']}"
    both = zip(of(id, "loss_late", "challenge"), of(id, "entropy_late", "challenge"), strict=True)
    assert rows["templates, 5 %", label]["where it is hard"] == gain([one - other for one, other in both])
    assert {data for data, _ in rows} == {"SNLI", "SNLI, twice the steps", "templates, 5 %", "templates, 1 %"}


def test_the_search_names_what_each_try_was_used_for():
    rows = lines(made.search, 2)
    used = {names: row["used as"] for names, row in rows.items() if row["used as"]}
    late = real.CHOSEN["late"].replace("_", " ")
    assert used["templates", late] == made.ARMS["loss_late"] and used["SNLI", "hinge 10"] == made.ARMS["loss"]
    assert [names for names in used if "rate" in names[1]] == [
        (
            made.TASKS[task],
            next(name for name, rate in real.RATES.items() if rate == real.CHOSEN[task]).replace("_", " "),
        )
        for task in made.TASKS
    ]
    reach = real.CHOSEN["reach"].replace("_", " ")
    assert used["SNLI", reach] == made.ARMS["gcn"] and len([name for _, name in used if "reach" in name]) == 1
    opened = [metrics(made.SEARCHES["snli"], real.CHOSEN["reach"], seed)[""]["gate"] for seed in range(SEEDS)]
    assert (
        rows["SNLI", reach][made.GATES] == report.number(2)(opened)
        and rows["SNLI", "hinge 30"][made.GATES] == ""
    )
    assert rows["SNLI", "hinge 30"]["used as"] == rows["SNLI", "hinge 30"]["challenge"] == ""
    searched = real.OTHERS | real.HELD
    told = {name: rows["templates", name.replace("_", " ")][made.SHIFT] for name in (*searched, "late_10")}
    assert told.pop("late_10") == "" and told == {
        name: report.number(4)(of(made.SEARCHES["nli"], name, "challenge", "shift")) for name in searched
    }
    weight = real.CHOSEN["held"].replace("_", " ")
    assert [names for names in used if used[names] == made.ARMS["held"]] == [("templates", weight)]
    assert used["templates", "interchanged"] == made.ARMS["interchanged"]
    assert rows["templates", late][f"{made.OUTSIDE}, end"] == share([0.375] * SEEDS)


def test_remarks_tell_every_experiment_of_an_arm_and_nothing_without_results():
    assert [line.partition(",")[0] for line in made.remark("loss")] == ["SNLI", "Templates", "Templates"]
    assert [line.partition(",")[0] for line in made.remark("entropy_late")] == ["SNLI", "Templates"]
    assert made.NAMED["snli"]["entropy_late"] in made.remark("entropy_late")[0]
    assert len(made.remark("balanced")) == 2 and len(made.competence_remark()) == 3
    least = min(
        sum(values) / SEEDS
        for id in made.ON_PAIRS.values()
        for values in (of(id, name, "paws_qqp", "auc") for name in registry.arms(id))
    )
    assert f"PAWS-QQP {least:.2f} to" in made.carried_remark()
    names = [f"*{made.ARMS[one]}*" for one in registry.arms(made.ON_PAIRS["m5"])]
    assert made.device_remark() == [f"Trained on cpu: {'; '.join(names)}."]
    for other, line in zip(
        ("interchanged", "interchanged_entropy", "vanilla"), made.held_remark(), strict=True
    ):
        both = (of(made.ON_PAIRS["m5"], name, "challenge", "auc") for name in ("held", other))
        gap = 100 * sum(one - their for one, their in zip(*both, strict=True)) / SEEDS
        assert f"- *{made.ARMS[other]}*, AUC" in line and f"hundredths: {gap:+.1f} [" in line
    with without(made.ON_SNLI, "loss", 1), pytest.raises(LabError, match=f"results of {made.ON_SNLI}"):
        made.snli()


def test_gates_are_told_with_and_without_them():
    for name, line in zip(("gcn", "both"), made.gate_remark(), strict=True):
        opened = sum(metrics(made.ON_SNLI, name, seed)[""]["gate"] for seed in range(SEEDS)) / SEEDS
        right, shut = (100 * sum(of(made.ON_SNLI, name, "test", its)) / SEEDS for its in ("accuracy", "shut"))
        assert line.startswith(f"*{made.ARMS[name]}*: gates at {opened:.2f}; {right:.1f} %")
        assert f"{shut:.1f} % once they are shut" in line


def test_maps_of_the_base_are_drawn_and_measured():
    table = real_maps.counts()
    assert table.columns == ["measure", *real_maps.SHORT.values()]
    rows = {row[0]: row[1:] for row in table.rows}
    assert {*OF_MAPS.values()} < {*rows}
    for words, its in (("right answers, share of pairs", "accuracy"), (OF_MAPS["hubs"], "hubs")):
        assert rows[words] == [
            report.number(4)(of(real_maps.MAPS, name, "validation", its)) for name in real_maps.SHORT
        ]
    fig, alt = real_maps.maps_figure()
    cycles = [100 * sum(of(real_maps.MAPS, name, "validation", "cycles")) / SEEDS for name in real_maps.SHORT]
    told = ", ".join(
        f"{words} {one:.0f}" for words, one in zip(real_maps.SHORT.values(), cycles, strict=True)
    )
    assert fig.get_suptitle() == f"Tokens on a cycle of strong arcs, %: {told}"
    assert "+ loss, late: 1.0 effective neighbours a token, most read tokens of '[CLS]'" in alt
    assert "strong arcs 3, self-loops 1" in alt and f"{cycles[0]:.1f} %, {cycles[1]:.1f} %" in alt
    bars = [bar.get_height() for bar in fig.axes[3].patches]
    assert len(bars) == 3 * len(real_maps.DRAWN) and 1 < max(bars) < 100 and len(fig.axes) == 5
    names = {file.name for file in building.build(real_maps.HOME)}
    assert {"real_maps.svg", "real_maps.md"} <= names
    plt.close("all")


def test_artefacts_and_experiments_name_the_notebook():
    for id in (made.HOME, f"{made.HOME}_search", real_maps.HOME):
        item = registry.find(id)
        assert item.extra and item.notebook == real.NOTEBOOK
    ids = (made.ON_SNLI, made.LONGER, *made.ON_PAIRS.values(), *made.SEARCHES.values(), real_maps.MAPS)
    assert {registry.experiment(id).notebook for id in ids} == {real.NOTEBOOK}
