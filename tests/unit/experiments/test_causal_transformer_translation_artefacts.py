"""Tables 2 and 3 of the Causal Transformer say what the stored results say: checked on made-up ones."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from causalnb.errors import LabError
from causalnb.experiments.causal_transformer import translation
from causalnb.experiments.causal_transformer.artefacts import table2, table3
from causalnb.experiments.causal_transformer.artefacts import translation as made
from causalnb.lab import building, evidence, registry, report, results
from causalnb.lab.statistics import mean_ci
from causalnb.lab.tables import estimate
from causalnb.lab.verdicts import claims, judged
from tests.unit.experiments.made_up import number, wide, without
from tests.unit.experiments.translation_made_up import LOOKS, SIGNATURE, counts, history, metrics, store

SEEDS, points = 3, made.signed()


@pytest.fixture(scope="module", autouse=True)
def stored(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch, evidence.stored_only():
        store(patch, tmp_path_factory.mktemp("translation"), SEEDS)
        yield


def values(experiment, arm, metric) -> list[float]:
    return [number(experiment, arm, seed, metric) for seed in range(SEEDS)]


def by_label(table) -> dict[str, dict[str, str]]:
    return {row[0]: dict(zip(table.columns, row, strict=True)) for row in table.rows}


def test_a_gain_has_its_sign_and_its_side():
    assert (
        made.signed()([1.0, 2.0, 3.0]) == "+2.00 [-0.48, +4.48] (3)" and made.signed(1)([-1.0]) == "-1.0 (1)"
    )
    assert [made.side(one) for one in ([1, 1.1], [-1, -1.1], [2, -1])] == [
        "above 0",
        "below 0",
        "not to be told from 0",
    ]


def test_table_2_has_the_papers_rows_over_ours():
    table = table2.bleu()
    rows = by_label(table)
    assert rows["paper: Causal Transformer"] == {
        "": "paper: Causal Transformer",
        "EN-DE": "31.30",
        "DE-EN": "32.90",
        "EN-RO": "34.85",
        "RO-EN": "34.73",
        "EN-DE - vanilla's, over sentences": "",
        "DE-EN - vanilla's, over sentences": "",
    }
    assert rows["paper: Transformer"]["DE-EN"] == "-" and len(rows) == 11 + 5
    for column, id in made.DIRECTIONS.items():
        of = values(id, "loss_encoder", "test_beams_bleu")
        assert rows["ours: loss in the encoder"][column] == estimate(mean_ci(of), 2)
    assert {rows["ours: vanilla Transformer"][column] for column in ("EN-RO", "RO-EN")} == {
        "not attempted: no data"
    }
    assert SIGNATURE in table.notes


def test_table_2_draws_sentences_anew():
    rows = by_label(table2.bleu())
    for column, id in made.DIRECTIONS.items():
        head = f"{column} - vanilla's, over sentences"
        both, vanilla = (
            [table2.unpacked(counts(id, arm, seed, table2.tested()[0], "beams")) for seed in range(SEEDS)]
            for arm in ("both", "vanilla")
        )
        gap, low, high = table2.bootstrap(np.stack(both), np.stack(vanilla))
        assert rows["ours: GCN and loss in both stacks"][head] == f"{gap:+.2f} [{low:+.2f}, {high:+.2f}]"
        assert low < gap < high and rows["ours: vanilla Transformer"][head] == ""


def test_more_steps_stand_beside_those_of_table_2():
    rows, id = by_label(table2.longer()), table2.LONGER
    assert list(rows) == ["vanilla Transformer", "GCN and loss in both stacks"]
    for label, arm in zip(rows, ("vanilla", "both"), strict=True):
        for heading, of in (("BLEU", made.DIRECTIONS["EN-DE"]), ("BLEU, longer", id)):
            assert rows[label][heading] == estimate(mean_ci(values(of, arm, "test_beams_bleu")), 2)
        for heading, at in (("at 2/5", 5), ("at 4/5", 10), ("at the end", LOOKS)):
            shares = [number(id, arm, seed, at) for seed in range(SEEDS)]
            assert rows[label][heading] == report.share(shares)
    both, vanilla = (
        np.stack(
            [table2.unpacked(counts(id, arm, seed, table2.tested()[0], "beams")) for seed in range(SEEDS)]
        )
        for arm in ("both", "vanilla")
    )
    head, (gap, low, high) = "BLEU, longer, - vanilla's, over sentences", table2.bootstrap(both, vanilla)
    assert [row[head] for row in rows.values()] == ["", f"{gap:+.2f} [{low:+.2f}, {high:+.2f}]"]
    with without(id, "both", 1), pytest.raises(LabError, match=f"results of {id}"):
        table2.longer()


# Intervals over sentences


SAID = ["the dog runs in the park", "a boy holds a red ball and a red hat", "no", "", "so it is"]
WANTED = ["the small dog runs in the park", "a boy holds a red ball and one hat", "Yes!", "none", "So it is."]


def test_counts_of_sentences_are_made_by_hand():
    """Six of six words, four of five pairs, three of four triples, two of three quadruples."""
    told = translation.sentence_counts(SAID, WANTED)
    assert told.split(";")[0] == "6 7 6 4 3 2" and told.split(";")[3] == "0 1 0 0 0 0"
    assert table2.unpacked(told)[0].tolist() == [6, 7, 6, 4, 3, 2, 6, 5, 4, 3]
    assert table2.unpacked(told)[2].tolist() == [1, 2, 0, 0, 0, 0, 1, 0, 0, 0]
    assert table2.corpus_bleu(table2.unpacked(told)[0]) == pytest.approx(100 * np.exp(1 - 7 / 6) * 0.4**0.25)


@pytest.mark.parametrize("chosen", [[0], [1], [0, 1], [2], [3], [4], [2, 4], [3, 4, 4], [0, 1, 2, 3, 4]])
def test_bleu_of_summed_counts_is_sacrebleus(chosen):
    """Also where an order has no match (smoothed), where nothing was written, where nothing is right."""
    said, wanted = ([texts[i] for i in chosen] for texts in (SAID, WANTED))
    sums = table2.unpacked(translation.sentence_counts(said, wanted)).sum(0)
    expected = translation.bleu_metric().corpus_score(said, [wanted]).score
    assert table2.corpus_bleu(sums) == pytest.approx(expected, abs=1e-10)


def test_the_bootstrap_is_that_of_a_loop():
    """Sentences are drawn for both arms alike; seeds' counts of a sentence are taken together."""
    one, other = (np.stack([table2.unpacked(counts(arm, seed)) for seed in range(3)]) for arm in "ab")
    gap, low, high = table2.bootstrap(one, other, draws=200, seed=4)
    whole = [table2.corpus_bleu(part.sum((0, 1))) for part in (one, other)]
    assert gap == pytest.approx(whole[0] - whole[1])
    drawn = []
    for times in np.random.default_rng(4).multinomial(12, np.full(12, 1 / 12), 200):
        rows = np.repeat(np.arange(12), times)
        again = [table2.corpus_bleu(part[:, rows].sum((0, 1))) for part in (one, other)]
        drawn.append(again[0] - again[1])
    assert [low, high] == pytest.approx([*np.quantile(drawn, [0.025, 0.975])])
    assert table2.bootstrap(one, one) == (0, 0, 0) and table2.bootstrap(one, other) == table2.bootstrap(
        one, other
    )


def test_the_bootstrap_of_two_sentences_by_hand():
    """One sentence right in both arms, one in the first alone: each is drawn twice, once or never."""
    right, wrong = table2.unpacked("4 4 4 3 2 1"), table2.unpacked("4 4 2 1 0 0")
    one, other = np.stack([[right[0], right[0]]]), np.stack([[right[0], wrong[0]]])
    alone = 100 - table2.corpus_bleu(2 * wrong[0])
    gap, low, high = table2.bootstrap(one, other)
    assert (low, high) == (0, pytest.approx(alone)) and gap == pytest.approx(
        100 - 100 * (6 / 8 * 4 / 6 * 2 / 4 * 1 / 2) ** 0.25
    )


def test_every_arm_of_table_2_has_a_row():
    for id in made.DIRECTIONS.values():
        assert set(registry.arms(id)) == set(made.ARMS)
    named = {arm for arm, _ in made.ATTENTIONS.values() if arm}
    assert named == set(registry.arms(made.SNLI))


def test_gains_pair_seeds_with_vanilla():
    rows = by_label(table2.gains())
    id = made.DIRECTIONS["DE-EN"]
    for head, metric in (
        ("DE-EN, test 2016, greedy", "test_greedy_bleu"),
        ("DE-EN, nodes outside the bounds, decoder", "decoder_violated"),
    ):
        gap = np.subtract(values(id, "gcn", metric), values(id, "vanilla", metric))
        assert rows["GCN value update - vanilla Transformer"][head] == points(gap)
    assert len(rows) == 4


def test_where_all_of_multi30k_is_and_whether_it_ran(monkeypatch, tmp_path):
    monkeypatch.setenv("CAUSALNB_RESULTS", str(tmp_path))
    assert table2.longest("laptop").endswith("the gpu profile has all of Multi30k, and has not been run. ")
    file = results.path(made.DIRECTIONS["EN-DE"], "vanilla", 0, "gpu")
    file.parent.mkdir(parents=True)
    file.touch()
    assert table2.longest("laptop").endswith("on each side; the gpu profile has all of Multi30k. ")
    assert table2.longest("gpu") == ""


def test_sizes_and_signs_are_counted():
    id = made.DIRECTIONS["EN-DE"]
    rows = [f"{number(id, 'vanilla', 0, name):,.0f}" for name in ("train_rows", "test_rows")]
    assert table2.sizes_remark().startswith(
        f"We train on {rows[0]} pairs and translate {rows[1]} of test 2016"
    )
    assert table2.sizes_remark() in table2.bleu().notes
    cells = [
        np.mean(np.subtract(values(id, arm, metric), values(id, "vanilla", metric)))
        for id in made.DIRECTIONS.values()
        for arm in made.ARMS
        if arm != "vanilla"
        for metric in ("test_greedy_bleu", "test_beams_bleu")
    ]
    above = f"{sum(one > 0 for one in cells)} of {len(cells)} means are above 0"
    ends = f"from {min(cells):+.2f} to {max(cells):+.2f}."
    assert table2.parts_remark().startswith(f"On test 2016 {above}, {ends}")


def test_it_is_told_how_far_attention_is_held():
    levels = {
        column: f"{np.mean(values(id, 'vanilla', 'decoder_violated')):.2f} ({column})"
        for column, id in made.DIRECTIONS.items()
    }
    assert table2.bounds_remark().endswith(f"in the decoder {', '.join(levels.values())}.")
    both = [np.mean(values(made.SNLI, "both", f"test_{name}")) for name in ("violated", "neighbours")]
    assert f"With GCN and loss {both[0]:.0%} of the tokens" in table3.hold_remark()
    assert f"a row attends to {both[1]:.1f} tokens" in table3.hold_remark()


def test_pairs_that_are_held_out_are_told_where_the_pairs_are_snlis():
    assert table3.held_out("laptop") == " (900 of them held out)" and table3.held_out("quick") == ""


@pytest.mark.parametrize(
    "direction, differences, told",
    [
        ("+", [0.1, 0.2, 0.3], "the interval ends at +0.45, so that size is outside it."),
        ("+", [3.0, 4.0, 5.0], "the interval ends at +6.48, so that size is inside it."),
        ("-", [-3.0, -4.0, -5.0], "the interval ends at +6.48, so that size is inside it."),
        ("-", [3.0, 4.0, 5.0], "the interval ends at -1.52, so that size is outside it."),
    ],
)
def test_a_stated_size_is_inside_an_interval_or_not(direction, differences, told, monkeypatch):
    id = "causal_transformer.claim30"
    rows = claims(made.SOURCE).query("id == @id").assign(direction=direction, size=5.33)
    monkeypatch.setattr("causalnb.lab.verdicts.claims", lambda *_: rows)
    gap = report.values(lambda profile: [value / 100 for value in differences])
    verdicts = replace(table3.verdicts, rows=[report.Row("one - other", gap, claim=id)])
    assert made.excluded_remark(verdicts) == f"one - other: stated 5.33 pp, {told}"


def test_claims_on_table_3_say_what_their_intervals_exclude():
    said = table3.table3_excluded()
    assert "GCN and loss - full attention, test_accuracy: stated 5.33 pp" in said
    assert said.count(": stated ") == 3


def test_table_3_has_an_attention_a_row():
    table = table3.attentions()
    rows = by_label(table)
    both, full, star = (
        100 * np.array(values(made.SNLI, arm, "test_accuracy")) for arm in ("both", "full", "star")
    )
    assert rows["GCN and loss"]["paper: Macro-F"] == "85.56"
    assert rows["GCN and loss"]["ours: Acc"] == estimate(mean_ci(both), 2)
    assert rows["star mask"]["ours: Acc - full"] == points(star - full)
    assert rows["star mask"]["paper: Macro-F"] == "-" and rows["band mask"]["paper: Acc"] == ""
    assert rows["Transformer-XL"]["ours: Acc"] == "not rebuilt"
    assert rows["block mask"]["tokens seen, of 32"] == table3.tokens_seen("block")
    of = 100 * np.array(values(made.SNLI, "random", "test_macro_f"))
    assert rows["random mask"]["ours: Macro-F"] == estimate(mean_ci(of), 2)
    assert "prints 86.7% and 85.2%" in table.notes and "the random mask is one draw" in table.notes
    outside, wide = (np.mean(values(made.SNLI, "star", metric)) for metric in table3.HOLD.values())
    assert rows["star mask"]["outside the bounds"] == f"{outside:.2f}"
    assert rows["star mask"]["neighbours"] == f"{wide:.2f}" and rows["Transformer-XL"]["neighbours"] == ""
    line = 100 * number(table3.READERS, "hypothesis", "test_accuracy")
    assert rows["words of the hypothesis alone"]["ours: Acc"] == f"{line:.2f}"
    assert {rows["the commonest answer"][head] for head in ("ours: Acc - full", "paper: Acc")} == {""}
    above = [
        np.mean(values(made.SNLI, arm, "test_accuracy")) > line / 100 for arm in registry.arms(made.SNLI)
    ]
    assert f"{sum(above)} of {len(above)} attentions are above the words" in table.notes
    assert f"star mask {points(both - star)}, {made.side(both - star)}" in table3.table3_remark()


@pytest.mark.parametrize("arm, seen", [("full", 32), ("band", 7), ("dilated", 7), ("block", 8), ("star", 32)])
def test_the_label_depends_on_what_two_layers_of_a_mask_join(arm, seen, monkeypatch):
    settings = {
        "pattern": "full",
        "pattern_width": 3,
        **registry.config(made.SNLI, arm, "quick"),
        "encoder_layers": 2,
    }
    monkeypatch.setattr(registry, "config", lambda *_: settings)
    assert table3.tokens_seen(arm) == 32
    settings["pattern_global"] = 0
    assert (
        table3.tokens_seen(arm)
        == seen
        == {"full": 32, "star": 32, "block": settings["pattern_width"]}.get(arm, 1 + 2 * 3)
    )


def test_claims_are_decided_in_their_units():
    rows = by_label(table3.verdicts())
    accuracy = rows["The causal model is more accurate on SNLI than the plain Transformer."]
    gap = 100 * np.subtract(*(values(made.SNLI, arm, "test_accuracy") for arm in ("both", "full")))
    assert accuracy["ours"] == estimate(mean_ci(gap), 2) and accuracy["stated"] == "higher 5.33 pp"
    assert accuracy["contrast here"] == "GCN and loss - full attention, test_accuracy"
    rows = by_label(table2.verdicts())
    verdicts = [str(row["verdict"]) for row in rows.values()]
    assert sum(verdict.startswith("not attempted: ") for verdict in verdicts) == 5 == len(verdicts) - 1
    assert "Multi30k" not in " ".join(verdicts)


@pytest.mark.parametrize("claim", table3.BEST)
def test_the_best_attention_is_held_against_the_best_of_the_others(claim):
    """By its mean, whichever it is, and by paired seeds."""
    told, metric = claims(made.SOURCE).set_index("id").loc[claim], table3.SCORES[table3.BEST[claim]]
    line = by_label(table3.verdicts())[told.claim]
    scores = {arm: 100 * np.array(values(made.SNLI, arm, metric)) for arm in registry.arms(made.SNLI)}
    best = max(scores.keys() - {"both"}, key=lambda arm: scores[arm].mean())
    found = mean_ci(scores["both"] - scores[best])
    words = f"GCN and loss - {made.NAMES[best]}, the best of the others, {metric}"
    assert best != "star" and line["contrast here"] == words
    assert line["ours"] == estimate(found, 2) and line["stated"] == f"higher {told['size']:g} pp"
    assert str(line["verdict"]) == f"{judged(found, told['size'])}, but {told.but}"
    assert told.experiment != told.experiment and "beside Table 3" in told.reason


def test_real_runs_measure_what_made_up_ones_do(tmp_path):
    for id, arm in ((made.SNLI, "both"), (made.DIRECTIONS["DE-EN"], "both")):
        run = registry.Run(
            id, arm, 0, "quick", registry.config(id, arm, "quick"), tmp_path / id, "cpu", lambda *_: None
        )
        real, invented = registry.experiment(id).run(run), pd.DataFrame(history(id, arm))
        told = pd.DataFrame(real["history"])
        assert set(metrics(id, arm, 0)) <= set(wide(real["metrics"])) and set(invented) <= set(told)
        assert set(invented["stack"].dropna()) == set(told["stack"].dropna())
        if id != made.SNLI:
            for row in told.dropna(subset="sentences").itertuples():
                score = real["metrics"][f"{row.part}/{row.decoding}"]["bleu"]
                assert table2.corpus_bleu(table2.unpacked(row.sentences).sum(0)) == pytest.approx(
                    score, abs=1e-9
                )


def test_the_tables_are_built_and_a_missing_result_is_named():
    for id, count in (("table2", 3), ("table3", 2)):
        files = building.build(f"{made.SOURCE}.{id}")
        assert len(files) == 3 * count and all(file.is_file() for file in files)
    with (
        without(made.SNLI, "star", 1),
        pytest.raises(LabError, match="1 of 3 quick results of causal_transformer.snli are not there"),
    ):
        table3.attentions()
