"""What is reached beyond the paper, as tables and a figure tell it of made-up results."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from causalnb.errors import LabError
from causalnb.experiments.causal_transformer import grid
from causalnb.experiments.causal_transformer.artefacts import beyond as made
from causalnb.experiments.causal_transformer.artefacts import compute, search
from causalnb.experiments.causal_transformer.artefacts import overlap as table1
from causalnb.lab import building, evidence, registry
from causalnb.lab.report import Values
from causalnb.lab.statistics import mean_ci, sign_flip
from causalnb.lab.tables import estimate, points
from causalnb.tasks import overlap, paraphrase
from tests.unit.experiments.made_up import everything, moved, number, without

SEEDS = 6
KINDS = {"nli": overlap.SUBCASES, "paraphrase": paraphrase.SAME_WORDS}
REAL = {"nli": ["mnli_contradicting"], "paraphrase": ["paws_qqp"]}


def scored(id: str, arm: str, seed: int, task: str) -> dict:
    """Metrics of run_beyond, the challenge better by 0.2 in the chosen arm."""
    names = [
        f"{cell}_{name}"
        for cell in ("validation", *grid.CELLS, *REAL[task])
        for name in ("accuracy", "macro_f", *table1.TASKS[task][2])
    ]
    names += [f"{cell}_{kind}" for cell in made.CELLS for kind in KINDS[task]]
    found = {name: number(id, arm, seed, name) / 4 + 0.5 for name in names}
    for name in ("violated", "entropy"):
        found[f"challenge_{name}"] = number(id, arm, seed, name)
    chosen = arm == grid.CHOSEN
    found["challenge_accuracy"] = number(id, seed) / 2 + (0.2 + number(id, arm, seed) / 50) * chosen
    found["test_accuracy"] = 0.95 + number(id, arm, seed) / 50 - 0.1 * (arm == grid.CHOSEN and task == "nli")
    return found


@pytest.fixture(scope="module", autouse=True)
def stored(tmp_path_factory):
    folder = tmp_path_factory.mktemp("beyond")
    with pytest.MonkeyPatch.context() as patch:
        moved(patch, folder)
        of_trials = {
            id: task for ids in (made.IDS, made.READERS, made.SPREADS) for (task, _), id in ids.items()
        }
        ids = (made.SEARCHES, made.SPREAD_SEARCHES, search.SEARCHES)
        homes = of_trials | {id: task for part in ids for task, id in part.items()} | {compute.LONGER: "nli"}
        seeds = dict.fromkeys(homes, SEEDS) | dict.fromkeys(search.SEARCHES.values(), 1)
        everything(patch, seeds, lambda id, arm, seed: {"": scored(id, arm, seed, homes[id])})
        counts = {"pairs": {"3": 79.0, "4": 598.0}, "label": {"3": 29.0, "4": 162.0}}
        everything(patch, {table1.PUBLISHED: 1}, lambda *_: counts)  # 486 of 677 are no paraphrases
        with evidence.stored_only():
            yield


def values(id, arm, metric, task) -> np.ndarray:
    return np.array([scored(id, arm, seed, task)[metric] for seed in range(SEEDS)])


@pytest.mark.parametrize("task", table1.TASKS)
def test_every_arm_has_its_row(task):
    table = made.on_trial(task)()
    rows = {tuple(row[:2]): dict(zip(table.columns, row, strict=True)) for row in table.rows}
    assert [name for share, name in rows if share == "5 %"] == [*made.SHOWN.values()]
    assert {made.SHOWN[arm] for arm in (*grid.FEWER, made.SIMPLE)} == {
        name for share, name in rows if share == "1 %"
    }
    of = 100 * values(made.IDS[task, "m1"], grid.CHOSEN, "held_out_accuracy", task)
    assert rows["1 %", "+ all three, held attention"]["other templates"] == estimate(mean_ci(of), 1)


def test_differences_are_of_the_same_seeds():
    table = made.contrasts()
    rows = {tuple(row[:3]): dict(zip(table.columns, row, strict=True)) for row in table.rows}
    assert len(rows) == len(table.rows) == 2 * (11 + 4)
    id = made.IDS["paraphrase", "m5"]
    gaps = values(id, "all", "paws_qqp_macro_f", "paraphrase") - values(
        id, "compared", "paws_qqp_macro_f", "paraphrase"
    )
    told = rows["paraphrase", "5 %", "+ all three - + comparison"]["PAWS-QQP, macro-F"]
    assert told == f"{points(mean_ci(gaps))}, p {sign_flip(gaps):.2g}"
    assert rows["entailment", "5 %", "+ all three - + comparison"]["PAWS-QQP, macro-F"] == ""
    assert "below 0.031" in table.notes and f"the {15 * 3 + 15 * 4} tests" in table.notes


@pytest.mark.parametrize("key", made.IDS)
def test_the_bilstm_is_trained_as_table_1s(key):
    one, other = (registry.config(ids[key], made.SIMPLE, "laptop") for ids in (made.READERS, table1.IDS))
    assert one == other


def test_the_arm_on_trial_is_held_against_table_1s_bilstm():
    rows = {tuple(row[:3]): row for row in made.contrasts().rows}
    ours, theirs = (
        values(id, arm, "challenge_accuracy", "nli")
        for id, arm in ((made.IDS["nli", "m1"], grid.CHOSEN), (made.READERS["nli", "m1"], "bilstm"))
    )
    gaps = ours - theirs
    told = rows["entailment", "1 %", "+ all three, held attention - BiLSTM, as in Table 1"][3]
    assert told == f"{points(mean_ci(gaps))}, p {sign_flip(gaps):.2g}"
    table = {tuple(row[:2]): row for row in made.on_trial("nli")().rows}
    assert table["5 %", "BiLSTM, as in Table 1"][2].endswith(f"({SEEDS})")


def test_the_bilstm_is_told_at_the_try_that_table_1_uses():
    said, means = made.reader_remark(), []
    for task in table1.TASKS:
        try_ = f"bilstm_{grid.USED[task]['bilstm']}"
        for cell in ("validation", "challenge"):
            one = 100 * scored(search.SEARCHES[task], try_, 0, task)[f"{cell}_accuracy"]
            two = 100 * values(made.SEARCHES[task], grid.CHOSEN, f"{cell}_accuracy", task).mean()
            assert f"{table1.TASKS[task][0]}, {cell} {one:.1f} and {two:.1f} %" in said
            means.append((one, two))
    assert said.endswith("Means: {:.1f} and {:.1f} %.".format(*np.mean(means, 0)))


def test_entropy_is_told_by_seed_without_and_with_the_penalty():
    told = made.entropy_remark()
    for arm in ("all", grid.CHOSEN, grid.SPREAD_USED["nli"]):
        id = (made.SPREAD_SEARCHES if arm in grid.SPREAD_TRIES else made.SEARCHES)["nli"]
        each = " and ".join(f"{one:.2f}" for one in values(id, arm, "challenge_entropy", "nli"))
        assert f"*{made.TRIED[arm]}* {each}" in told.partition("paraphrase")[0]


def test_what_was_tried_is_shown_whole():
    table = made.everything()
    assert [row[0] for row in table.rows] == [*made.TRIED.values()]
    assert {*made.TRIED} == {
        *grid.BEYOND_TRIES,
        *grid.APART,
        *grid.BLANKET_TRIES,
        *grid.RATE_TRIES,
        *grid.SPREAD_TRIES,
    }
    id = made.SEARCHES["nli"]
    rows = {row[0]: dict(zip(table.columns, row, strict=True)) for row in table.rows}
    row = rows["+ comparison, GCN and loss, weight 1"]
    assert len(rows) == len(table.rows) and "+ comparison, learning rate 0.00025" in rows
    for heading, metric in (
        ("validation", "validation_accuracy"),
        ("outside the bounds", "challenge_violated"),
    ):
        of = 100 * values(id, "blanket_3", metric, "nli")
        assert row[f"entailment, {heading}"] == estimate(mean_ci(of), 1)


def test_the_choice_is_the_best_mean_of_both_tasks():
    scores = {
        arm: 100
        * np.mean(
            [
                values(made.SEARCHES[task], arm, f"{cell}_accuracy", task)
                for task in table1.TASKS
                for cell in ("validation", "challenge")
            ]
        )
        for arm in grid.BEYOND_TRIES
    }
    best, second = sorted(scores, key=scores.get)[:-3:-1]
    told = made.choice_remark()
    assert f"*{made.TRIED[best]}*, {scores[best]:.1f} %; " in told
    assert told.endswith(f"*{made.TRIED[second]}*, {scores[second]:.1f} %.")


def test_the_comparisons_rate_is_told_beside_table_1s():
    told = made.rate_remark()
    for arm, rate in (("rate_1", "0.0005"), ("rate_3", "0.002")):
        of = 100 * values(made.SEARCHES["paraphrase"], arm, "challenge_accuracy", "paraphrase").mean()
        assert f"{of:.1f} % at {rate}" in told.partition("Paraphrase")[2]
    assert "Transformer, and its own best. Paraphrase" in told


def test_the_figure_has_a_mark_for_every_seed():
    fig, alt = made.beyond_figure()
    plt.close(fig)
    panels = np.reshape(fig.axes, (2, 3))
    for row, task in zip(panels, table1.TASKS, strict=True):
        for ax, cell in zip(row, ("test", "challenge", "held_out"), strict=True):
            drawn = [line for line in ax.lines if line.get_marker() in made.MARKS.values()]
            filled = [line for line in drawn if line.get_markerfacecolor() != "none"]
            assert len(filled) == len(made.SHOWN) and len(drawn) == len(filled) + len(grid.FEWER) + 1
            for (at, arm), line in zip(enumerate(made.ARMS), filled, strict=False):
                id = (made.SPREADS if arm == "spread" else made.IDS)[task, "m5"]
                ours = 100 * values(id, arm, f"{cell}_accuracy", task)
                assert np.allclose(line.get_xdata(), ours)
                assert np.allclose(line.get_ydata(), at, atol=0.4) and line.get_marker() == made.MARKS[arm]
            hollow = next(line for line in drawn if line.get_markerfacecolor() == "none")
            assert np.allclose(
                hollow.get_xdata(), 100 * values(made.IDS[task, "m1"], table1.PLAIN, f"{cell}_accuracy", task)
            )
    assert [one.get_text() for one in panels[0, 0].get_yticklabels()] == [*made.SHOWN.values()]
    id = made.IDS["nli", "m1"]
    mean = 100 * values(id, grid.CHOSEN, "held_out_accuracy", "nli").mean()
    assert f"entailment, other templates, 1 %, {made.SHOWN[grid.CHOSEN]}: {mean:.0f}" in alt


def test_kinds_stand_in_the_order_of_what_is_gained_in_other_templates():
    for task, kinds in (("nli", 15), ("paraphrase", 3)):
        other, known = (made.by_kind(task, cell) for cell in ("held_out", "challenge"))
        gains = other[grid.CHOSEN] - other["compared"]
        assert len(gains) == kinds and gains.is_monotonic_decreasing and [*known.index] == [*gains.index]
    kind = made.by_kind("nli", "challenge").index[3]
    assert kind[1] == "n"  # where overlap misleads
    of = values(made.IDS["nli", "m5"], "directed", f"challenge_{kind}", "nli")
    assert np.isclose(made.by_kind("nli", "challenge").directed[kind], 100 * of.mean())


def test_the_figure_of_kinds_draws_every_arm_on_every_kind():
    fig, alt = made.kinds_figure()
    plt.close(fig)
    for row, task in zip(np.reshape(fig.axes, (2, 2)), table1.TASKS, strict=True):
        for ax, cell in zip(row, made.CELLS, strict=True):
            means = made.by_kind(task, cell)
            assert [line.get_marker() for line in ax.lines] == [made.MARKS[arm] for arm in made.BY_KIND]
            for arm, line in zip(made.BY_KIND, ax.lines, strict=False):
                assert np.allclose(line.get_xdata(), means[arm])
                assert np.allclose(line.get_ydata(), range(len(means)), atol=0.4)
    means = made.by_kind("paraphrase", "held_out").loc["swapped"]
    assert f"other templates, swapped: {means['compared']:.0f} to {means[grid.CHOSEN]:.0f}" in alt


def planted(**gains):
    """The chosen arm minus another on six seeds, by gains in points; a seed's own where they are a list."""

    def by_seed(at, metric):
        given = gains[metric.removesuffix("_accuracy")] if isinstance(metric, str) else metric(published)
        return {seed: (given if np.isscalar(given) else given[seed]) / 100 for seed in range(6)}

    published = {"paws_qqp_accuracy": gains["paws_qqp"], "paws_qqp_macro_f": gains["macro_f"]}
    gap = Values()
    gap.by_seed = by_seed
    return gap


GOOD = {"challenge": 20, "test": -0.5, "held_out": 3, "paws_qqp": 2, "macro_f": 1}


@pytest.mark.parametrize(
    "changed, missed",
    [
        ({}, None),
        ({"challenge": 4.9}, "challenge"),
        ({"test": -1.1}, "in distribution"),
        ({"challenge": [60, 60, 60, 60, -10, -10]}, "challenge"),  # 36.7 points, and p 0.19
        ({"held_out": 0}, "other templates"),
        ({"held_out": [9, -9, 9, -9, 9, -9]}, "other templates"),
        ({"paws_qqp": -2}, "PAWS-QQP"),
        ({"macro_f": -5}, "PAWS-QQP, macro-F"),  # "no" more often
        ({"macro_f": [9, -9, 9, -9, 9, -9]}, "PAWS-QQP, macro-F"),
    ],
)
def test_the_aim_needs_every_part(changed, missed):
    met = made.reached(planted(**GOOD | changed))
    assert [name for name, (_, good) in met.items() if not good] == ([missed] if missed else [])
    assert [*met] == ["challenge", "in distribution", "other templates", "PAWS-QQP", "PAWS-QQP, macro-F"]


def of_task(task: str) -> dict:
    return {key: id for key, id in made.IDS.items() if key[0] == task}


def test_the_aim_is_told_by_task_share_and_arm(monkeypatch):
    """Made up: the challenge is won by 20 points everywhere; entailment pays ten in distribution."""
    told = made.aim_remark()
    assert told.count("held attention against") == 8
    for task, minority in made.IDS:
        for other in (table1.PLAIN, "compared"):
            gap = made.trained(task, minority, grid.CHOSEN) - made.trained(task, minority, other)
            whole = all(good for _, good in made.reached(gap).values())
            assert f"{table1.SHARES[minority]}, {made.ARMS[grid.CHOSEN]} against {made.ARMS[other]}" in told
            assert task != "nli" or not whole
    assert told.count(": not reached") >= 4
    ours, theirs = (
        values(made.IDS["nli", "m5"], arm, "challenge_accuracy", "nli") for arm in (grid.CHOSEN, "compared")
    )
    gained = ours - theirs
    assert f"challenge {points(mean_ci(gained))}, p {sign_flip(gained):.2g} (met)" in told
    assert told.endswith('reached.\n- Always "no" scores 71.8% on PAWS-QQP, macro-F 41.8%.')
    monkeypatch.setattr(made, "WANTED", 50)
    assert made.aim_remark().count(": not reached") == 8
    monkeypatch.setattr(made, "IDS", of_task("nli"))
    assert "Always" not in made.aim_remark()


def test_what_is_lost_where_all_have_one_label_is_told(monkeypatch):
    lines = made.one_label_remark().splitlines()
    assert [line.split(", ")[2] for line in lines] == ["1 %", "5 %"]
    assert [line.count(", p ") for line in lines] == [3, 6]
    for arm, other in ((grid.CHOSEN, "all"), (*grid.BLANKETS, "compared")):
        ours, theirs = (
            values(made.IDS["nli", "m5"], one, "mnli_contradicting_accuracy", "nli") for one in (arm, other)
        )
        gaps = ours - theirs
        assert (
            f"{made.SHOWN[arm]} - {made.SHOWN[other]} {points(mean_ci(gaps))}, p {sign_flip(gaps):.2g}"
        ) in lines[1]
    monkeypatch.setattr(made, "IDS", of_task("paraphrase"))
    assert not made.one_label_remark()


def test_both_halves_of_paws_are_told_with_their_mean(monkeypatch):
    lines = made.paws_remark()
    assert [line.split(", ")[1] for line in lines] == ["1 %", "5 %"]
    id = made.IDS["paraphrase", "m5"]
    one, other = (
        100 * values(id, "compared", f"paws_qqp_{its}", "paraphrase") for its in ("paraphrase", "other")
    )
    both = estimate(mean_ci((one + other) / 2), 1)
    assert f"*+ comparison* {one.mean():.0f} and {other.mean():.0f}, mean {both}" in lines[1]
    ours = (
        sum(values(id, grid.CHOSEN, f"paws_qqp_{its}", "paraphrase") for its in ("paraphrase", "other")) / 2
    )
    gaps = ours - (one + other) / 200
    assert (
        f"{made.ARMS[grid.CHOSEN]} - + comparison {points(mean_ci(gaps))}, p {sign_flip(gaps):.2g}."
        in lines[1]
    )
    monkeypatch.setattr(made, "IDS", of_task("nli"))
    assert not made.paws_remark()


def test_it_is_built_and_names_a_missing_result():
    assert all(file.is_file() for file in building.build("causal_transformer.beyond"))
    assert building.status("causal_transformer.beyond", "quick")[0] == "built"
    with (
        without(made.IDS["nli", "m1"], "compared", 1),
        pytest.raises(LabError, match=f"1 of 6 quick results of {made.IDS['nli', 'm1']} are not"),
    ):
        made.contrasts()


def test_held_attention_is_compared_with_as_many_seconds():
    rows = {row[0]: row[1:] for row in compute.compute_table().rows}
    held, plain, more = (
        values(id, arm, "challenge_accuracy", "nli")
        for id, arm in ((compute.ONCE, grid.CHOSEN), (compute.ONCE, "all"), (compute.LONGER, "all"))
    )
    gains = held - plain, more - plain, held - more
    for (said, cells), gain in zip(rows.items(), gains, strict=True):
        assert cells[0].startswith(points(mean_ci(gain))), said
    assert 0.15 < gains[0].mean() < 0.25
    assert " CPU-seconds with held attention and " in compute.compute_table().notes
    for profile in ("laptop", "gpu"):
        steps = [registry.config(id, "all", profile)["steps"] for id in (compute.ONCE, compute.LONGER)]
        assert steps[1] == grid.MATCHED * steps[0]
