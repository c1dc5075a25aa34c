"""Tables 2 and 3 of the Causal Transformer say what the stored results say: checked on made-up ones."""

import numpy as np
import pandas as pd
import pytest

from causalnb.errors import LabError
from causalnb.experiments import causal_transformer_translation_artefacts as made
from causalnb.lab import registry, results
from causalnb.lab.statistics import mean_ci
from causalnb.lab.tables import estimate
from tests.unit.experiments.made_up import number
from tests.unit.experiments.translation_made_up import SIGNATURE, history, metrics, store

SEEDS = 3


@pytest.fixture(scope="module", autouse=True)
def stored(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch, results.stored_only():
        store(patch, tmp_path_factory.mktemp("translation"), SEEDS)
        yield


def values(experiment, arm, metric) -> list[float]:
    return [number(experiment, arm, seed, metric) for seed in range(SEEDS)]


def by_label(table) -> dict[str, dict[str, str]]:
    return {row[0]: dict(zip(table.columns, row, strict=True)) for row in table.rows}


def test_a_gain_has_its_sign_and_its_side():
    assert made.gain([1.0, 2.0, 3.0]) == "+2.00 [-0.48, +4.48] (3)" and made.gain([-1.0], 1) == "-1.0 (1)"
    assert [made.side(one) for one in ([1, 1.1], [-1, -1.1], [2, -1])] == [
        "above 0", "below 0", "not to be told from 0"]


def test_table_2_has_the_papers_rows_over_ours():
    table = made.table2()
    rows = by_label(table)
    assert rows["paper: Causal Transformer"] == {
        "": "paper: Causal Transformer", "EN-DE": "31.30", "DE-EN": "32.90", "EN-RO": "34.85",
        "RO-EN": "34.73"}
    assert rows["paper: Transformer"]["DE-EN"] == "-" and len(rows) == 11 + 5
    for column, id in made.DIRECTIONS.items():
        of = values(id, "loss_encoder", "test_beams_bleu")
        assert rows["ours: loss in the encoder"][column] == estimate(mean_ci(of), 2)
    assert {rows["ours: vanilla Transformer"][column] for column in ("EN-RO", "RO-EN")} == {
        "not attempted: no data"}
    assert SIGNATURE in table.notes


def test_every_arm_of_table_2_has_a_row():
    for id in made.DIRECTIONS.values():
        assert set(registry.arms(id)) == set(made.ARMS)
    named = {arm for arm, _ in made.ATTENTIONS.values() if arm}
    assert named == set(registry.arms(made.SNLI))


def test_gains_pair_seeds_with_vanilla():
    rows = by_label(made.gains_table())
    id = made.DIRECTIONS["DE-EN"]
    for head, metric in (("DE-EN, test, greedy", "test_greedy_bleu"),
                         ("DE-EN, nodes outside the bounds, decoder", "decoder_violated")):
        gap = np.subtract(values(id, "gcn", metric), values(id, "vanilla", metric))
        assert rows["GCN value update - vanilla Transformer"][head] == made.gain(gap)
    assert len(rows) == 4


def test_the_remark_states_the_printed_gain():
    id = made.DIRECTIONS["EN-DE"]
    gap = np.subtract(values(id, "both", "test_beams_bleu"), values(id, "vanilla", "test_beams_bleu"))
    said = made.table2_remark()
    assert said.startswith("The paper's gain on EN-DE is +4.00 BLEU. EN-DE, minus vanilla: GCN value update ")
    assert f"GCN and loss in both stacks {made.gain(gap)}, {made.side(gap)}." in said


def test_table_3_has_an_attention_a_row():
    table = made.table3()
    rows = by_label(table)
    both, full, star = (100 * np.array(values(made.SNLI, arm, "test_accuracy"))
                        for arm in ("both", "full", "star"))
    assert rows["GCN and loss"]["paper: Macro-F"] == "85.56"
    assert rows["GCN and loss"]["ours: Acc"] == estimate(mean_ci(both), 2)
    assert rows["star mask"]["ours: Acc - full"] == made.gain(star - full)
    assert rows["star mask"]["paper: Macro-F"] == "-" and rows["band mask"]["paper: Acc"] == ""
    assert rows["Transformer-XL"]["ours: Acc"] == "not rebuilt"
    assert rows["block mask"]["tokens seen, of 32"] == str(made.tokens_seen("block"))
    of = 100 * np.array(values(made.SNLI, "random", "test_macro_f"))
    assert rows["random mask"]["ours: Macro-F"] == estimate(mean_ci(of), 2)
    assert "prints 86.7% and 85.2%" in table.notes
    assert f"star mask {made.gain(both - star)}, {made.side(both - star)}" in made.table3_remark()


@pytest.mark.parametrize("arm, seen", [("full", 32), ("band", 7), ("dilated", 7), ("block", 8), ("star", 32)])
def test_the_label_depends_on_what_two_layers_of_a_mask_join(arm, seen, monkeypatch):
    settings = {"pattern": "full", "pattern_width": 3, **registry.config(made.SNLI, arm, "quick"),
                "encoder_layers": 2}
    monkeypatch.setattr(registry, "config", lambda *_: settings)
    assert made.tokens_seen(arm) == 32
    settings["pattern_global"] = 0
    assert made.tokens_seen(arm) == seen == {"full": 32, "star": 32, "block": settings["pattern_width"]}.get(
        arm, 1 + 2 * 3)


def test_claims_are_decided_in_their_units():
    rows = by_label(made.verdict_table(f"{made.SOURCE}.table3"))
    accuracy = rows["The causal model is more accurate on SNLI than the plain Transformer."]
    gap = 100 * np.subtract(*(values(made.SNLI, arm, "test_accuracy") for arm in ("both", "full")))
    assert accuracy["ours"] == estimate(mean_ci(gap), 2) and accuracy["stated"] == "higher 5.33 pp"
    assert accuracy["contrast here"] == "both - full, test_accuracy"
    rows = by_label(made.verdict_table(f"{made.SOURCE}.table2"))
    verdicts = [str(row["verdict"]) for row in rows.values()]
    assert sum(verdict.startswith("not attempted: ") for verdict in verdicts) == 4 == len(verdicts) - 1
    assert "Multi30k" not in " ".join(verdicts)


def test_real_runs_measure_what_made_up_ones_do(tmp_path):
    for id, arm in ((made.SNLI, "both"), (made.DIRECTIONS["DE-EN"], "both")):
        run = registry.Run(id, arm, 0, "quick", registry.config(id, arm, "quick"), tmp_path / id, "cpu",
                           lambda *_: None)
        real, invented = registry.experiment(id).run(run), pd.DataFrame(history(id, arm))
        told = pd.DataFrame(real["history"])
        assert set(metrics(id, arm, 0)) <= set(real["metrics"]) and set(invented) <= set(told)
        assert set(invented["stack"].dropna()) == set(told["stack"].dropna())


def test_the_tables_are_built_and_a_missing_result_is_named():
    for id, count in (("table2", 3), ("table3", 2)):
        files = registry.build(f"{made.SOURCE}.{id}")
        assert len(files) == 3 * count and all(file.is_file() for file in files)
    gone = results.path(made.SNLI, "star", 1)
    kept = gone.read_bytes()
    gone.unlink()
    try:
        with pytest.raises(LabError, match="1 of 24 quick results of causal_transformer.snli are not there"):
            made.table3()
    finally:
        gone.write_bytes(kept)
