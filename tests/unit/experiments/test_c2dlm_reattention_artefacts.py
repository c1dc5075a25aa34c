"""Figure 2: its chain is annotated and found again, its arrays are the loss's own, its files are stable."""

import matplotlib.pyplot as plt
import pytest
import torch

from causalnb.experiments.c2dlm.artefacts import fig2 as artefacts
from causalnb.lab import building


@pytest.fixture(scope="module")
def shown():
    one, model = artefacts.chain(), artefacts.model_of()
    return one, model, artefacts.arrays(model, one)


def test_the_teacher_quotes_every_step_and_what_its_formula_reads():
    found = artefacts.rule("Zorin 5 Vortex 6", "Quasar 15 Flux 20")
    assert found == {"Quasar 15": ["Zorin 5", "Vortex 6"], "Flux 20": ["Zorin 5", "Vortex 6"]}


def test_the_mask_by_hand(shown):
    """Two tokens a concept: steps read the sources, Radiant the steps; reversed and later ones penalised."""
    one, _, found = shown
    assert one.words == "Zorin 80 Vortex 79 <sep> Quasar 90 Flux 21 Radiant 44 <eos>".split()
    expected = torch.zeros(12, 12, dtype=torch.int8)
    expected[5:9, :4] = 1
    expected[9:11, 5:9] = 1
    expected[5:7, 7:11] = expected[7:9, 9:11] = -1
    assert torch.equal(found["mask"], expected)
    hidden = [word for word, seen in zip(one.words, one.seen, strict=True) if seen == "[M]"]
    assert (
        hidden == [word for word, gone in zip(one.words, one.batch["masked"][0], strict=True) if gone]
        and hidden
    )


def test_the_arrays_make_up_the_loss_of_the_model(shown):
    _, model, found = shown
    rows = found["rows"]
    assert float((rows.ratio + rows.neg)[rows.valid].mean()) == pytest.approx(found["reattention"], rel=1e-5)
    assert found["total"] == pytest.approx(found["diffusion"] + artefacts.GAMMA * found["reattention"])
    torch.testing.assert_close(found["attention"].sum(-1), torch.ones(12))
    assert int(rows.valid.sum()) == 6 and (rows.neg > 0).tolist() == [5 <= q < 9 for q in range(12)]


def test_the_figure_is_built_twice_alike(tmp_path, monkeypatch):
    for name in ("RESULTS", "FIGURES", "CACHE"):
        monkeypatch.setenv(f"CAUSALNB_{name}", str(tmp_path / name.lower()))
    made = building.build("c2dlm.fig2", "quick")
    assert {path.suffix for path in made} == {".svg", ".png"}
    content = {path: path.read_bytes() for path in made}
    assert {path: path.read_bytes() for path in building.build("c2dlm.fig2", "quick")} == content
    assert building.status("c2dlm.fig2", "quick")[0] == "built"
    plt.close("all")


def test_the_alternative_text_tells_what_is_drawn(shown):
    one, model, found = shown
    fig, alt = artefacts.pipeline_figure(one, model)
    assert "24 plus signs" in alt and "12 minus signs" in alt and "Flux 21 from Zorin 80 and Vortex 79" in alt
    assert f"with mean {found['reattention']:.2f}" in alt
    said = fig.get_suptitle()
    assert "for 24 entries of A, against 12" in said and f"loss {found['total']:.2f} =" in said
    assert said.endswith(f"rows' mean {found['reattention']:.2f}")
    drawn = [text.get_text() for text in fig.axes[1].texts]
    assert (drawn.count("+"), drawn.count("–")) == (24, 12)
    plt.close(fig)
