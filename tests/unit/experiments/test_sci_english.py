"""SCI on English: rows that hold new words out, labels of three kinds, and the loss of soft ones."""

import matplotlib.pyplot as plt
import pytest
import torch

from causalnb.apps.sci.soft import SoftSCI
from causalnb.experiments.sci import english as runs
from causalnb.experiments.sci.artefacts import english as artefact
from causalnb.experiments.sci.scan import collators
from causalnb.lab import building, registry
from causalnb.lab.statistics import share_ci
from causalnb.sci import SCITransformer, StructuralContrastiveLoss
from causalnb.tasks import english, verb_final
from causalnb.tasks.structures import similarities
from tests.unit.experiments import made_up

NEW = {word for words in english.NEW.values() for word in words}


def config(arm: str) -> dict:
    return registry.config("sci.english", arm, "quick")


def test_rows_hold_out_new_words_and_are_true():
    train, validation, test = runs.english_data(config("plain"), 3)
    texts = [{row["text"] for row in part} for part in (train, validation, test)]
    assert not texts[0] & texts[1] and not texts[0] & texts[2] and not texts[1] & texts[2]
    assert all(row["answer"] == verb_final.translate(row["text"]) for row in [*train, *validation, *test])
    assert not any(NEW & {*row["text"].split()} for row in validation)
    framed = {english.structure(row["text"]) for row in train if NEW & {*row["text"].split()}}
    assert framed == {*english.FRAMES.values()}
    assert all(NEW & {*row["text"].split()} for row in test)


def test_all_arms_of_a_seed_have_the_same_sentences_but_for_swapped_words():
    train, *asked = ([row["text"] for row in part] for part in runs.english_data(config("plain"), 1))
    for arm in runs.ARMS:
        its, *others = ([row["text"] for row in part] for part in runs.english_data(config(arm), 1))
        assert others == asked and its[: len(train)] == train
        more = its[len(train) :]
        assert bool(more) == bool(config(arm)["swaps"])
        new = [english.structure(text) for text in more if NEW & {*text.split()}]
        assert not more or {*new} > {*english.FRAMES.values()}  # new words leave their frames


def test_labels_of_dependencies_join_what_the_grammars_part():
    pairs = [(text, verb_final.translate(text)) for text in ("the dog waited", "every cat smiled")]
    parted, joined = (runs.translated(pairs, level) for level in ("grammar", "dependency"))
    assert parted[0]["structure"] != parted[1]["structure"]
    assert joined[0]["structure"] == joined[1]["structure"]


def test_soft_labels_are_weighed_by_how_alike_structures_are():
    rows = runs.english_data(config("sci_soft"), 0)[0][:12]
    torch.manual_seed(0)
    model = runs.english_model(config("sci_soft"), rows).double()
    batch = collators(model, runs.PAD)[0](rows)
    out = model(**batch)
    alike = torch.tensor(similarities([row["structure"] for row in rows]))
    loss = StructuralContrastiveLoss()(out.structure, alike)
    torch.testing.assert_close(out.contrastive_loss, loss, rtol=0, atol=1e-12)
    torch.testing.assert_close(out.loss, out.lm_loss + model.config.scl_weight * loss, rtol=0, atol=1e-12)
    with pytest.raises(ValueError, match="call tell"):
        SoftSCI(model.config).forward(**batch)
    model.alike = torch.eye(len(model.alike), dtype=torch.double)  # as booleans: the loss of SCI
    hard = SCITransformer.forward(model, **batch)
    torch.testing.assert_close(model(**batch).loss, hard.loss, rtol=0, atol=1e-12)
    assert (
        model(**{name: value for name, value in batch.items() if name != "structure_ids"}).loss == out.lm_loss
    )


def test_every_arm_reads_the_words_of_both_languages():
    for arm in runs.ARMS:
        rows, _, _ = runs.english_data(config(arm), 0)
        model = runs.english_model(config(arm), rows)
        assert model.get_input_embeddings().num_embeddings == len(verb_final.VOCABULARY)


# Built


@pytest.fixture
def stored(monkeypatch, tmp_path):
    made_up.moved(monkeypatch, tmp_path)
    made_up.everything(monkeypatch, dict.fromkeys((artefact.HOME, *artefact.FEW), 3), metrics)
    yield
    plt.close("all")


def metrics(id: str, arm: str, seed: int) -> dict:
    arms = runs.ARMS if id == artefact.HOME else runs.FEW
    exact = 0.1 * [*arms].index(arm) + 0.01 * seed
    return {
        "": {"exact_match": exact, "greedy_exact_match": exact / 2},
        "validation": {"exact_match": 0.9},
        "train": {"rows": 1000 + seed},
    }


def test_the_table_has_every_arm_and_differences_pair_seeds(stored):
    rows = artefact.english_table("quick").rows
    assert [tuple(row[:2]) for row in rows] == [*artefact.TOLD.values()] and {*artefact.TOLD} == {*runs.ARMS}
    assert rows[3][2] == share_ci([0.1 * 3 + 0.01 * seed for seed in range(3)]) and rows[3][4] == share_ci(
        [0.9] * 3
    )
    gaps = {row[0]: row[1] for row in artefact.english_gains("quick").rows}
    assert (
        gaps["SCI separated (ours), grammar - plain + swapped words, grammar"] == "+50.0 [+50.0, +50.0] (3)"
    )


def test_few_rows_are_told_for_both_sizes(stored):
    rows = artefact.few_table("quick").rows
    assert [row[1] for row in rows] == [artefact.MADE[arm] for arm in runs.FEW] + [
        artefact.MADE[arm] for arm in ("plain_places", "separated_tokens")
    ]
    assert {row[2] for row in rows} == {"1,001"}
    gaps = artefact.few_gains("quick").rows
    assert [row[2] for row in gaps[:3]] == [f"+{n}.0 [+{n}.0, +{n}.0] (3)" for n in (30, 20, 10)]
    assert len(gaps) == 4


def test_the_figure_tells_the_means(stored):
    fig, alt = artefact.english_figure("quick")
    assert "SCI, how alike dependencies are 51.0 %" in alt and "plain decoder 1.0 %" in alt
    assert "few rows: plain decoder 1.0 %" in alt and "fewer rows: plain + words swapped as places" in alt
    said = fig.get_suptitle().replace("\n", " ")
    assert "SCI separated, a slot a token 31 %, plain 1 %, 11 % or 21 % with swapped words" in said
    assert all(file.is_file() for file in building.build(artefact.HOME, "quick"))
