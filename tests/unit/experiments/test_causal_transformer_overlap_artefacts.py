"""Table 1, Figures 1 and 7 and the search of the Causal Transformer say what made-up results say."""

from statistics import mean

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from causalnb.errors import DataError, LabError
from causalnb.experiments.causal_transformer import grid, published
from causalnb.experiments.causal_transformer.artefacts import (
    crossed,
    draws,
    fig1,
    fig7,
    longer,
    search,
    table1,
)
from causalnb.experiments.causal_transformer.artefacts import overlap as made
from causalnb.lab import building, evidence, registry
from causalnb.lab.statistics import mean_ci, share_ci, sign_flip, wilson
from causalnb.lab.tables import estimate, percent, points
from causalnb.lab.verdicts import claims
from causalnb.tasks import hans, overlap, paraphrase
from tests.unit.experiments.made_up import everything, moved, number, wide, without

SEEDS = 3
REAL = {"nli": ["mnli_contradicting"], "paraphrase": ["paws_qqp"]}
COUNTS = {arm: [(10 * k, k) for k in range(1, 6)] for arm in published.PAIRS} | {
    "mnli": [(100, 10), (100, 20), (100, 40), (100, 60), (100, 90)],
    "paws_qqp": [(0, 0), (0, 0), (1, 0), (40, 20), (160, 30)],
}
RUNS = [
    {"mnli": 0.8, "accuracy": 0.5, "entailment": 0.9, "non-entailment": 0.1},
    {"mnli": 0.9, "accuracy": 0.7, "entailment": 1.0, "non-entailment": 0.4},
]


def scored(id: str, arm: str, seed: int, cells, labels) -> dict:
    """Metrics of run_pairs: a number of its own for each."""
    names = [f"{cell}_{name}" for cell in cells for name in ("accuracy", "macro_f", *labels)]
    of_kinds = [name for task in made.TASKS for group in made.kinds(task).values() for name in group]
    looked_into = [] if arm in grid.CONTRAST_ARMS else ["challenge_violated", "challenge_entropy"]
    return {name: number(id, arm, seed, name) for name in (*names, *of_kinds, *looked_into)}


HOMES = {id: task for (task, _), id in made.IDS.items()} | {id: task for task, id in made.MASKED.items()}
OTHERS = (*longer.LONGER.values(), *search.AGAIN_USED.values(), draws.DRAWS, crossed.HOME, fig1.SEQUENCE)
SEARCHES = (*search.SEARCHES.values(), *search.AGAIN.values())


def metrics(id: str, arm: str, seed: int) -> dict:
    """What a run of any of these measures."""
    if id == fig1.SEQUENCE:
        return sequence(arm, seed)
    if id in HOMES:
        return scored(id, arm, seed, (*grid.CELLS, *REAL[HOMES[id]]), made.TASKS[HOMES[id]][2])
    return scored(id, arm, seed, ("validation", "challenge") if id in SEARCHES else grid.CELLS, ())


def sequence(arm: str, seed: int) -> dict:
    """Metrics of run_sequence."""
    names = [f"after_{one}_{other}" for one in grid.STAGES for other in grid.STAGES]
    names += [*fig1.LOST, *(f"forgotten_{task}" for task in grid.STAGES)]
    return {name: number("sequence", arm, seed, name) for name in names}


def of_file(arm: str) -> tuple[dict, list]:
    """Metrics and history of run_published."""
    if arm == "hans":
        return {
            model: {name: number(model, name) for name in ("accuracy", *overlap.LABELS)}
            for model in hans.MODELS
        }, []
    if arm == "bert_runs":
        return {"": {"runs": 2.0}}, RUNS
    counts = {
        name: {str(k): float(pair[i]) for k, pair in enumerate(COUNTS[arm])}
        for i, name in enumerate(("pairs", "label"))
    }
    return counts, [
        {"sentence1": "The cat saw a dog.", "sentence2": "A dog saw the cat?", "has_label": has}
        for has in (True, False)
    ]


@pytest.fixture(scope="module", autouse=True)
def stored(tmp_path_factory):
    folder = tmp_path_factory.mktemp("overlap")
    with pytest.MonkeyPatch.context() as patch:
        moved(patch, folder)
        everything(
            patch,
            dict.fromkeys((*HOMES, *OTHERS), SEEDS) | dict.fromkeys(SEARCHES, 1),
            lambda *run: {"": metrics(*run)},
        )
        everything(
            patch, {made.PUBLISHED: 1}, lambda _, arm, seed: of_file(arm)[0], lambda arm: of_file(arm)[1]
        )
        with evidence.stored_only():
            yield


def values(task, minority, arm, metric) -> np.ndarray:
    id = made.MASKED[task] if arm in grid.MASKS else made.IDS[task, minority]
    return np.array([number(id, arm, seed, metric) for seed in range(SEEDS)])


def gap(task, minority, arm, other="transformer", metric="challenge_accuracy") -> np.ndarray:
    return values(task, minority, arm, metric) - values(task, minority, other, metric)


def by_label(table, columns: int = 1) -> dict:
    key = (lambda row: row[0]) if columns == 1 else (lambda row: tuple(row[:columns]))
    return {key(row): dict(zip(table.columns, row, strict=True)) for row in table.rows}


# Table 1


def test_table_1_has_the_printed_rows_the_constant_answer_and_ours():
    rows = by_label(table1.accuracies())
    assert rows["paper: Causal Transformer"]["PAWS-QQP"] == "78.1"
    assert rows["paper: Causal Transformer (STL)"]["MNLI-m"] == ""
    assert rows["the most frequent answer"] == {
        "": "the most frequent answer",
        "MNLI-m": "",
        "HANS": "50.0",
        "QQP": "",
        "PAWS-QQP": f"{100 * 151 / 201:.1f}",
    }
    of = values("paraphrase", "m5", "gcn", "challenge_accuracy")
    assert rows["ours: + GCN"]["PAWS-QQP"] == percent(share_ci(of))
    assert len(rows) == 10 + 1 + len(grid.TABLE_1 | grid.single_task("nli")) + len(grid.MASKS)
    of = values("nli", "m5", "band", "challenge_accuracy")
    assert rows["ours: + band mask"]["HANS"] == percent(share_ci(of))
    assert rows["ours: constant answer"]["QQP"] == made.either(
        values("paraphrase", "m5", "constant", "test_accuracy")
    )


@pytest.mark.parametrize(
    "values, told",
    [
        ([0.0, 0.0, 1.0], "0.0 or 100.0"),
        ([1.0], "0.0 or 100.0"),
        ([0.5, 0.5], "50.0"),
        ([0.282], "28.2 or 71.8"),
        ([0.282, 0.718], "28.2 or 71.8"),
    ],
)
def test_a_constant_answer_is_told_for_both_labels(values, told):
    assert made.either(values) == told != percent(share_ci(values))


def test_full_tables_have_every_arm_at_every_minority():
    table = table1.full("nli")()
    rows = by_label(table, 2)
    assert len(rows) == len(table.rows) == 3 * len(grid.TABLE_1) + len(grid.single_task("nli")) + 2
    for minority, share in (("m0", "0 %"), ("m1", "1 %")):
        of = values("nli", minority, "entropy", "challenge_non-entailment")
        assert rows[share, "+ entropy alone"]["challenge, non-entailment"] == percent(share_ci(of))
        of = values("nli", minority, "entropy", "challenge_entropy")
        assert rows[share, "+ entropy alone"]["entropy of attention, nats"] == estimate(mean_ci(of), 2)
        assert rows[share, "BoW"]["entropy of attention, nats"] == ""
    of = values("nli", "m5", "both_stl", "mnli_contradicting_accuracy")
    line = rows["5 %", "+ both, trained on challenge pairs"]
    assert line["MNLI's contradicting pairs"] == percent(share_ci(of))
    aims = [
        f"{grid.ENTROPIES['nli'][one]:g} at {share}"
        for one, share in zip(grid.MINORITIES, ("0 %", "1 %", "5 %"), strict=True)
    ]
    assert f"seeds: {', '.join(aims)} of counter-examples." in table.notes
    rows = by_label(table1.full("paraphrase")(), 2)
    of = values("paraphrase", "m1", "bow", "paws_qqp_other")
    assert rows["1 %", "BoW"]["PAWS-QQP, no paraphrase"] == percent(share_ci(of))


def test_kinds_of_pairs_are_means_over_their_subcases():
    rows = by_label(table1.by_kind("nli")())
    of = [
        mean(
            number(made.IDS["nli", "m5"], "bow", seed, f"challenge_{subcase}")
            for subcase in overlap.SUBCASES
            if subcase.startswith("sn")
        )
        for seed in range(SEEDS)
    ]
    assert rows["BoW"]["subsequence, non-entailment"] == percent(share_ci(of))
    assert [len(group) for group in made.kinds("nli").values()] == [5] * 6
    rows = by_label(table1.by_kind("paraphrase")())
    of = values("paraphrase", "m5", "both", "challenge_swapped")
    assert rows["+ both"]["swapped"] == percent(share_ci(of))


def test_published_answers_and_the_spread_of_runs():
    rows = by_label(table1.answers())
    assert rows["SPINN"]["non-entailment"] == f"{100 * number('SPINN', 'non-entailment'):.1f}"
    assert rows["BERT, 2 runs: range"]["HANS"] == "50.0 to 70.0"
    assert rows["BERT, 2 runs: mean ± sd"]["MNLI-m"] == f"85.0 ± {10 / 2**0.5:.1f}"


def test_contrasts_pair_seeds_and_average_minorities():
    table = table1.contrasts()
    rows = by_label(table, 2)
    gaps = [gap("nli", minority, "both") for minority in grid.MINORITIES]
    line = rows["entailment", "+ both - Transformer"]
    assert line["challenge, 1 %"] == f"{points(mean_ci(gaps[1]))}, p {sign_flip(gaps[1]):.2g}"
    assert line["challenge, mean"].startswith(points(mean_ci(np.mean(gaps, axis=0))))
    real = [
        gap("paraphrase", minority, "loss", "entropy", "paws_qqp_macro_f") for minority in grid.MINORITIES
    ]
    line = rows["paraphrase", "+ loss - + entropy alone"]
    assert line["PAWS-QQP, macro-F, mean"].startswith(points(mean_ci(np.mean(real, axis=0))))
    assert rows["entailment", "+ loss - + entropy alone"]["PAWS-QQP, macro-F, mean"] == ""
    line = rows["entailment", "+ both, trained on challenge pairs - Transformer, trained on challenge pairs"]
    own = gap("nli", "m5", "both_stl", "transformer_stl", "test_accuracy")
    assert line["challenge, 0 %"] == "" and line["in distribution, mean"].startswith(points(mean_ci(own)))
    masked = gap("paraphrase", "m5", "random", metric="held_out_accuracy")
    line = rows["paraphrase", "+ random mask - Transformer"]
    assert line["challenge, 1 %"] == "" and line["other templates, mean"].startswith(points(mean_ci(masked)))
    assert len(rows) == 20 and "5 %, 3 seeds: 0.25" in table.notes
    assert f"the {6 * 14 + 4 * 6 + 7 * 1 + 3 * 1} tests" in table.notes


def test_claims_are_decided_at_one_minority_and_shown_at_all():
    found = {id.rpartition("claim")[2]: verdicts for id, (_, verdicts) in table1.decided().items()}
    for minority in grid.MINORITIES:
        verdict = found["4"][minority]
        assert verdict.summary.mean == pytest.approx(100 * gap("paraphrase", minority, "both").mean())
        assert verdict.size == 37.5

    def of_both(*pairs, **metric):
        return np.mean([gap(task, "m5", *pair, **metric) for task in made.TASKS for pair in pairs])

    violated = of_both(("loss", "transformer"), ("both", "gcn"), metric="challenge_violated")
    assert found["19"]["m5"].summary.mean == pytest.approx(violated)
    older = np.mean([gap(task, "m1", "transformer", "bilstm") for task in made.TASKS])
    assert found["13"]["m1"].summary.mean == pytest.approx(100 * older)
    assert [*found["21"]] == [*found["22"]] == ["m5"]
    assert found["21"]["m5"].summary.mean == pytest.approx(100 * of_both(("band", "transformer")))
    ordered = [  # claim 22 asks questions that order alone answers
        number(crossed.HOME, "random", seed, "challenge_accuracy")
        - number(crossed.HOME, "transformer", seed, "challenge_accuracy")
        for seed in range(SEEDS)
    ]
    random = np.mean([gap("nli", "m5", "random"), ordered])
    assert found["22"]["m5"].summary.mean == pytest.approx(100 * random)
    attempted = {claim for claim, verdicts in found.items() if len(verdicts) == 3}
    assert attempted == {"3", "4", "5", "6", "7", "8", "13", "19"}
    table = table1.verdicts()
    assert [str(row[-1])[:13] for row in table.rows].count("not attempted") == len(found) - len(attempted) - 2
    line = next(row for row in table.rows if "no pre-training" in row[0] and "HANS" in row[0])
    assert line[1:3] == ["higher 35.3 pp", estimate(mean_ci(100 * gap("nli", "m0", "both")), 1)]


def test_remarks_are_read_from_the_results():
    data = values("nli", "m5", "transformer", "challenge_accuracy") - values(
        "nli", "m0", "transformer", "challenge_accuracy"
    )
    assert (
        f"5 % of counter-examples in place of 0 % change the plain Transformer's challenge score by "
        f"{points(mean_ci(data))} points"
    ) in table1.minority_remark()
    method = np.mean([gap("paraphrase", minority, "both") for minority in grid.MINORITIES], axis=0)
    assert table1.minority_remark().endswith(
        f"The whole method changes it by {points(mean_ci(method))} "
        "points, mean over the shares of counter-examples."
    )
    lowest = min(
        mean(values("nli", "m5", arm, "test_accuracy"))
        for arm in ("transformer", "gcn", "loss", "both", "entropy")
    )
    slack = table1.but_exceptions("nli") - lowest
    assert slack > 0 and table1.but_exceptions("nli") == pytest.approx(1 - 316 / 12_000, abs=1e-4)
    first = table1.gate_remark(slack=slack + 1e-6).partition("Paraphrase")[0]
    assert first.startswith("Entailment: who misses nothing but the counter-examples has 97.4%")
    assert first.endswith("points below are none. ")
    assert "may be this" in table1.gate_remark(slack=slack - 1e-6).partition("Paraphrase")[0]
    rows = paraphrase.pairs(12_000, 0.05)
    swapped = sum(row["kind"] == "swapped" for row in rows)
    assert table1.but_exceptions("paraphrase") == 1 - swapped / len(rows)


def test_twice_the_steps_stand_beside_table_1():
    rows = by_label(longer.twice(), 2)
    assert [*rows] == [(name, arm) for name, *_ in made.TASKS.values() for arm in ("Transformer", "+ both")]
    line, id = rows["entailment", "+ both"], longer.LONGER["nli"]
    twice = {
        arm: np.array([number(id, arm, seed, "challenge_accuracy") for seed in range(SEEDS)])
        for arm in ("both", "transformer")
    }
    assert line["challenge, longer"] == percent(share_ci(twice["both"]))
    once = values("nli", "m5", "both", "challenge_accuracy")
    assert line["challenge"] == percent(share_ci(once))
    last = line["challenge - Transformer's, longer"]
    assert last.startswith(points(mean_ci(twice["both"] - twice["transformer"])))
    assert rows["paraphrase", "Transformer"]["challenge - Transformer's, longer"] == ""


def test_draws_are_the_units_of_what_the_random_mask_adds():
    tables = {"transformer": made.IDS["paraphrase", "m5"], "random": made.MASKED["paraphrase"]}

    def challenge(arm):
        id = tables.get(arm, draws.DRAWS)
        return np.array([number(id, arm, seed, "challenge_accuracy") for seed in range(SEEDS)])

    gains = {
        arm: float((challenge(arm) - challenge("transformer")).mean())
        for arm in ("random", *grid.DRAWS, "relative")
    }
    over = [gain for arm, gain in gains.items() if arm != "relative"]
    told = draws.draws_remark()
    assert f"5 draws of the mask, each the mean of the same {SEEDS} seeds" in told
    assert f"moves by {points(mean_ci(over))} points; by draw" in told
    assert ", ".join(f"{100 * gain:+.1f}" for gain in over) in told
    assert "whose own error is not in it" in told
    assert told.endswith(f"move it by {100 * gains['relative']:+.1f} points.")


def test_every_draw_has_a_row_with_all_kinds():
    rows = by_label(draws.drawn())
    assert list(rows) == [
        "Transformer",
        "draw 0, Table 1's",
        *(f"draw {n}" for n in range(1, 5)),
        "no mask, relative positions",
    ]
    swapped = [number(draws.DRAWS, "draw_3", seed, "challenge_swapped") for seed in range(SEEDS)]
    assert rows["draw 3"]["challenge, swapped"] == percent(share_ci(swapped))
    first = [number(made.MASKED["paraphrase"], "random", seed, "test_accuracy") for seed in range(SEEDS)]
    assert rows["draw 0, Table 1's"]["in distribution"] == percent(share_ci(first))


def test_the_entropy_control_of_the_search_aims_at_what_the_loss_leaves(monkeypatch):
    """Of the stored search, not of the made-up one."""
    monkeypatch.delenv("CAUSALNB_RESULTS")
    for task in made.TASKS:
        try:
            found = search.tries(task, "laptop").loc["loss"]
        except LabError as missing:
            pytest.skip(str(missing))
        left = found[found.used].challenge_entropy.item()
        assert left == pytest.approx(grid.ENTROPIES[task]["search"], abs=0.005)


def test_the_figure_shows_the_half_against_the_rule():
    fig, alt = table1.minority_figure()
    plt.close(fig)
    for ax, task in zip(fig.axes, made.TASKS, strict=False):
        other = made.TASKS[task][2][1]
        drawn = [line.get_ydata().astype(float) for line in ax.lines]
        for arm in made.LOOKS:
            expected = [
                100 * values(task, minority, arm, f"challenge_{other}").mean() for minority in grid.MINORITIES
            ]
            assert any(len(one) == len(expected) and np.allclose(one, expected) for one in drawn)
    assert "5 % of counter-examples" in alt


# The search


def test_every_try_is_shown_and_the_one_in_use_is_marked():
    found = search.tries("nli")
    assert len(found) == len(grid.SEARCHED) * grid.TRIES
    assert set(found.groupby("arm").used.sum()) <= {0, 1}
    for arm in grid.SEARCHED:
        config = registry.config(made.IDS["nli", "m5"], arm, "quick")
        for place, one in enumerate(grid.tries(arm, "nli")):
            row = found.loc[(arm, place)]
            assert row.used == all(
                config[key] == value for key, value in one.items() if key != "entropy_target"
            )  # Table 1 has its own
            assert row.challenge_accuracy == number(
                search.SEARCHES["nli"], f"{arm}_{place}", 0, "challenge_accuracy"
            )
    table = search.every()
    assert len(table.rows) == len({tuple(row[:2]) for row in table.rows}) == len(found) + grid.TRIES
    assert all(row[1] for row in table.rows)
    at_once = [row[0] for row in table.rows if row[1] == "ramp constant"]
    assert at_once == ["+ loss", "+ both", "+ entropy alone", "+ both, at + GCN's rate"]
    assert "2 steps, where Table 1 has 2." in table.notes  # of the quick profile


def test_the_whole_method_is_tried_at_its_gcns_rate_too():
    """Which is the Transformer's in entailment."""
    assert [*search.AGAIN] == ["paraphrase"]
    table = search.every()
    rows = [row for row in table.rows if row[0] == "+ both, at + GCN's rate"]
    for place, (row, one) in enumerate(zip(rows, grid.tries("both", "paraphrase"), strict=True)):
        tried = registry.config(search.AGAIN["paraphrase"], f"both_{place}", "laptop")
        rate = registry.config(made.IDS["paraphrase", "m5"], "gcn", "laptop")["learning_rate"]
        assert {key: tried[key] for key in one} == one | {"learning_rate": rate}
        scores = [
            number(search.AGAIN["paraphrase"], f"both_{place}", 0, f"{cell}_accuracy")
            for cell in ("validation", "challenge")
        ]
        assert row[2:] == ["", "", *(f"{100 * score:.1f}" for score in scores), ""]
    for metric in ("test_accuracy", "challenge_accuracy"):
        ours = [number(search.AGAIN_USED["paraphrase"], "both", seed, metric) for seed in range(SEEDS)]
        theirs = [
            percent(share_ci(values("paraphrase", "m5", arm, metric))) for arm in ("both", "transformer")
        ]
        assert (
            "{}, + both as used {}, the Transformer {}".format(percent(share_ci(ours)), *theirs)
            in table.notes
        )


def test_the_search_is_drawn_and_summed_up():
    fig, _ = search.search_figure()
    plt.close(fig)
    assert [len(ax.lines) for ax in fig.axes] == [len(grid.SEARCHED) * grid.TRIES] * 2
    tries = search.tries("paraphrase")
    used = 100 * tries[tries.used].challenge_accuracy.groupby("arm").mean()
    last = search.search_remark().partition("Paraphrase")[2]
    assert f"{used['both'] - used['transformer']:+.1f} points against" in last


# Figure 1


def test_figure_1_shows_forgotten_shares_and_accuracies():
    fig, alt = fig1.sequence_figure()
    plt.close(fig)
    bars, *lines = fig.axes
    heights = [bar.get_height() for bar in bars.patches]
    expected = [
        100 * np.mean([number("sequence", arm, seed, name) for seed in range(SEEDS)])
        for arm in fig1.MODELS
        for name in fig1.LOST
    ]
    assert heights == pytest.approx(expected)
    for ax, task in zip(lines, grid.STAGES, strict=False):
        after = [
            100
            * np.mean([number("sequence", "bilstm", seed, f"after_{stage}_{task}") for seed in range(SEEDS)])
            for stage in grid.STAGES
        ]
        assert any(np.allclose(line.get_ydata(), after) for line in ax.lines if len(line.get_ydata()) == 3)
    assert "BiLSTM lost" in alt and len(fig1.LOST) == 2  # nothing follows the third


def test_the_table_of_figure_1_has_both_ends():
    rows = by_label(fig1.forgotten())
    for head, metric in (
        ("entailment, its own stage", "after_overlap_overlap"),
        ("entailment, the end", "after_fact_check_overlap"),
        ("fact check, forgotten", "forgotten_fact_check"),
        ("paraphrase, lost", "lost_paraphrase"),
    ):
        of = [number("sequence", "both", seed, metric) for seed in range(SEEDS)]
        assert rows["+ both"][head] == percent(share_ci(of))
    assert "fact check, the end" not in rows["+ both"]  # its own stage is the end


def test_forgetting_is_decided_against_both_older_models():
    def forgotten(arm, seed):
        return mean(number("sequence", arm, seed, name) for name in fig1.LOST)

    gap = [
        forgotten("transformer", seed) - (forgotten("bow", seed) + forgotten("bilstm", seed)) / 2
        for seed in range(SEEDS)
    ]
    assert f"the Transformer loses {points(mean_ci(gap))} points" in fig1.forgetting_remark()


# Figure 7


def test_overlap_is_counted_in_groups_by_hand():
    rows = [
        {"sentence1": "a b c d", "sentence2": said, "label": label}
        for said, label in (("a b", 0), ("a x", 1), ("x y", 0), ("a b c x", 0), ("d", 1))
    ]
    found = published.count_overlaps(rows, 0)
    assert [*found["pairs"].values()] == [1, 0, 1, 1, 2]
    assert [*found["label"].values()] == [1, 0, 0, 1, 1]
    assert [published.group_of(share) for share in (0, 0.25, 0.6, 0.75, 0.99, 1)] == [0, 1, 2, 3, 3, 4]


def test_examples_are_short_differ_and_overlap():
    long = " ".join("abcdefghij")
    rows = [
        {"sentence1": one, "sentence2": two, "label": label}
        for one, two, label in (
            ("a b", "a b", 0),
            ("a b", "c", 0),
            (long, "a", 1),
            ("a b", "b", 1),
            ("a b c", "c", 0),
            ("a b", "a", 0),
        )
    ]
    assert published.examples(rows, 0) == [
        {"sentence1": "a b c", "sentence2": "c", "has_label": True},
        {"sentence1": "a b", "sentence2": "b", "has_label": False},
    ]


def test_the_table_of_overlaps_has_wilsons_intervals():
    rows = by_label(fig7.shares())
    one = wilson(90, 100)
    assert rows["MNLI, development set"]["every word in common"] == (
        f"90.0 [{100 * one.low:.1f}, {100 * one.high:.1f}] (100)"
    )
    assert rows["MNLI, development set"]["less than half in common"].startswith("15.0 [")
    assert rows["PAWS-QQP"]["less than half in common"] == "" and set(fig7.SETS) == set(published.PAIRS)


def test_figure_7_leaves_small_groups_out_and_marks_common_words():
    fig, alt = fig7.overlap_figure()
    plt.close(fig)
    legend = [text.get_text() for text in fig.axes[1].get_legend().get_texts()]
    assert legend == [fig7.SETS[arm][0] for arm in fig7.CURVES]
    assert "PAWS-QQP: 3/4 to 1 50 %, all words 19 %" in alt and "SNLI, validation set: 1/4 to 1/2 10 %" in alt
    words = {text.get_text(): text.get_weight() for text in fig.axes[0].findobj(plt.Text)}
    assert words["cat?"] == "bold"
    assert "ours, challenge, not entailment: The cat saw a dog. / A dog saw the cat?" in alt


def test_uncommon_words_are_plain():
    fig, ax = plt.subplots()
    fig7._pair(ax, 1, "title", ["A dog barks.", "The dog sleeps ?"])
    plt.close(fig)
    words = {text.get_text(): text.get_weight() for text in ax.findobj(plt.Text)}
    assert words["dog"] == "bold" and words["barks."] == words["sleeps"] == words["?"] == "normal"


def test_claims_on_overlap_count_pairs():
    training, paws = fig7.overlap_verdicts().values()
    assert training.label == "reproduced" and training.summary.mean == pytest.approx(0.9 - 130 / 400)
    assert training.summary.n == 100 and paws.summary.n == 160
    assert sum(row["label"] for row in hans.published_rows()) == 15_000  # of 30,000: nothing to estimate
    assert paws.summary.mean == pytest.approx(30 / 160 - 20 / 41)


def test_the_interval_of_two_shares_is_newcombes():
    found = fig7.between((70, 56), (80, 48), 1)  # Newcombe (1998), example (a), method 10
    assert (found.label, round(found.summary.mean, 4)) == ("reproduced", 0.2)
    assert (round(found.summary.low, 4), round(found.summary.high, 4)) == (0.0524, 0.3339)
    assert fig7.between((70, 56), (80, 48), -1).label == "opposite"


def test_both_claims_on_figure_7_are_decided():
    reasons = claims("causal_transformer").set_index("id").reason
    assert {*fig7.overlap_verdicts()} == {id for id in reasons.index if "Figure 7" in str(reasons[id])}


# Files


def run(arm: str, folder, **changes) -> dict:
    config = registry.config(made.PUBLISHED, arm, "quick") | changes
    return published.run_published(registry.Run(made.PUBLISHED, arm, 0, "quick", config, folder, "cpu", None))


def test_our_own_pairs_are_counted_without_files(tmp_path):
    for arm in ("our_nli", "our_questions", "our_challenge", "our_swapped"):
        counts = run(arm, tmp_path, minority=0.1)["metrics"]
        against = 0.1 if arm in ("our_nli", "our_questions") else 0.5
        assert 1 - counts["label"]["4"] / counts["pairs"]["4"] == pytest.approx(against, abs=0.01)


def test_files_hold_what_their_scores_are_made_of(tmp_path):
    try:
        real = {arm: run(arm, tmp_path) for arm in ("paws_qqp", "hans", "bert_runs")}
    except DataError as error:
        pytest.skip(str(error))
    counts = real["paws_qqp"]["metrics"]
    assert [sum(counts[name].values()) for name in ("pairs", "label")] == [677, 191]
    assert set(wide(real["hans"]["metrics"])) == set(wide(of_file("hans")[0]))
    assert real["hans"]["metrics"]["BERT"]["accuracy"] == pytest.approx(0.548, abs=5e-4)
    runs = pd.DataFrame(real["bert_runs"]["history"])
    assert len(runs) == 100 and set(runs) == set(RUNS[0])
    assert np.allclose(runs.accuracy, (runs.entailment + runs["non-entailment"]) / 2, atol=1e-6)
    assert round(100 * runs.accuracy.mean(), 1) == 56.7


def test_real_runs_measure_what_made_up_results_have(tmp_path):
    def metrics(id, arm):
        config = registry.config(id, arm, "quick")
        return set(
            wide(
                registry.experiment(id).run(
                    registry.Run(id, arm, 0, "quick", config, tmp_path / id / arm, "cpu", lambda *_: None)
                )["metrics"]
            )
        )

    for task, (_, _, labels) in made.TASKS.items():
        id = made.IDS[task, "m0"]
        there = {f"{cell}_{name}" for cell in grid.CELLS for name in ("accuracy", *labels)}
        there |= {name for group in made.kinds(task).values() for name in group}
        assert there | {"challenge_violated"} <= metrics(id, "loss")
    assert {"validation_accuracy", "challenge_accuracy"} <= metrics(search.SEARCHES["nli"], "loss_0")
    assert set(sequence("bow", 0)) <= metrics(fig1.SEQUENCE, "bow")


def test_artefacts_are_built_and_a_missing_result_is_named():
    for id in ("table1", "longer", "draws", "search", "fig1", "fig7"):
        assert all(file.is_file() for file in building.build(f"causal_transformer.{id}"))
        assert building.status(f"causal_transformer.{id}", "quick")[0] == "built"
    with (
        without(made.IDS["nli", "m1"], "bow", 1),
        pytest.raises(LabError, match=f"1 of 3 quick results of {made.IDS['nli', 'm1']} are not"),
    ):
        table1.full("nli")()


@pytest.mark.parametrize("task", made.TASKS)
def test_one_try_of_each_arm_is_used(task):
    """A weight is tried with a schedule and without one: tries that share a setting are not one another."""
    used = search.tries(task).used.groupby("arm").sum()
    assert (used == 1).all() and len(used) == len(grid.SEARCHED)
