"""Figure 1 of C2DLM: influences against changed tokens, the mask against the graph, the figure's numbers."""

import matplotlib.pyplot as plt
import pytest
import torch

from causalnb.c2dlm import MaskedDiffusionModel
from causalnb.experiments.c2dlm.artefacts import fig1 as artefacts
from causalnb.experiments.c2dlm.models import MASK, small_llama
from causalnb.lab import building
from causalnb.tasks import cot_order_perturb as cot


@pytest.fixture(scope="module")
def found():
    return artefacts.dependence_structures()


def test_an_autoregressive_prediction_uses_what_stands_before_and_a_diffusion_model_everything(found):
    matrices, words = found
    tokens = len(words)
    assert words[:5] == ["Zorin", "80", "Vortex", "79", "<sep>"] and words[-1] == "<eos>" and tokens == 34
    before = torch.ones(tokens, tokens).tril(-1).bool()
    assert torch.equal(matrices["AR"] > 0, before)
    assert (matrices["DLM"] > 0).all()


def test_influence_is_there_where_a_changed_token_changes_the_prediction():
    torch.manual_seed(1)
    ids, other = torch.tensor([10, 11, 12, 13, 14]), 20
    causal = small_llama(artefacts.SMALL).double().eval()
    torch.manual_seed(1)
    both = MaskedDiffusionModel.from_base(small_llama(artefacts.SMALL).double(), MASK).eval()
    for model, mask, shift in ((causal, None, 1), (both, MASK, 0)):
        changed = torch.zeros(5, 5, dtype=torch.bool)
        for i in range(shift, 5):
            text = ids.clone()
            if mask is not None:
                text[i] = mask
            for j in range(5):
                edited = text.clone()
                edited[j] = other
                with torch.no_grad():
                    moved = model(edited[None]).logits[0, i - shift] - model(text[None]).logits[0, i - shift]
                changed[i, j] = moved.abs().max() > 1e-12
        assert torch.equal(artefacts.influence(model, ids, mask) > 0, changed)
        assert changed.any()


def test_the_mask_is_the_graph_token_by_token(found):
    mask, words = found[0]["C2DLM"], found[1]
    place = {name: words.index(name) + 1 for name in cot.VARIABLES}
    step, wanted = cot.steps(), torch.zeros(len(words), len(words), dtype=torch.int8)
    for query in cot.STEPS:
        for key in cot.VARIABLES:
            if key in cot.GRAPH[query]:
                wanted[place[query], place[key]] = 1
            elif step[key] > step[query]:
                wanted[place[query], place[key]] = -1
    assert torch.equal(mask, wanted)
    assert (mask == 1).sum() == 28 and (mask == -1).sum() == 13 * 12 // 2


def test_the_figure_says_what_it_shows_and_is_built(tmp_path, monkeypatch):
    monkeypatch.setenv("CAUSALNB_FIGURES", str(tmp_path))
    fig, alt = artefacts.figure()
    titles = [ax.get_title() for ax in fig.axes[:3]]
    assert fig.get_suptitle() == (
        "Of 1,122 pairs of tokens, used: AR 561, DLM 1,122; the graph asks for 28 of them and against 78"
    )
    plt.close(fig)
    assert titles[:2] == ["AR: 561 of 1,122 pairs used", "DLM: 1,122 of 1,122 pairs used"]
    assert "28 entries +1" in alt and "78 entries -1" in alt
    names = sorted(path.name for path in building.build("c2dlm.fig1"))
    assert names == ["fig1.png", "fig1.svg"]
