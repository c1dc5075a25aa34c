"""Attention sinks and value norms: on maps whose answer is known, and of the tiny bases."""

import math

import matplotlib.pyplot as plt
import pytest
import torch

from causalnb.experiments.c2dlm import sinks
from causalnb.experiments.c2dlm.artefacts import sinks as made
from causalnb.lab import registry
from causalnb.lab.bases import TINY, pretrained
from tests.unit.experiments.made_up import everything, moved

TEXT = "Please predict the probability of cancer. Smoking: 2, Weight: 1."
ENCODER, DECODER = (
    registry.config(sinks.HOME, arm, "laptop") | {"seen": 1} for arm in ("encoder", "decoder")
)


def heads(attention, norms, kind, config) -> list[dict]:
    values = torch.zeros(*attention.shape[:2], 2).double()
    values[..., 0] = torch.tensor(norms)
    return [*sinks.measured(attention.double(), values, torch.tensor(kind), config)]


def test_shares_are_means_over_those_who_see_a_token():
    causal = torch.tensor([[[1.0, 0, 0], [0.8, 0.2, 0], [0.6, 0.2, 0.2]]]).double()
    assert sinks.drawn(causal, True).tolist() == [pytest.approx([0.8, 0.2, 0.2])]
    assert sinks.drawn(causal, True, seen=2).tolist() == [pytest.approx([0.8, 0.2, 0])]
    assert sinks.drawn(causal, False).tolist() == [pytest.approx([0.8, 0.4 / 3, 0.2 / 3])]
    assert sinks.fair(4, False).tolist() == [1] * 4
    assert sinks.fair(3, True).tolist() == pytest.approx([1 + 1 / 2 + 1 / 3, 1 / 2 + 1 / 3, 1 / 3])
    assert float(sinks.fair(50, True).sum()) == pytest.approx(50)


def test_a_sink_a_mark_and_words_have_the_norms_that_they_were_given():
    attention = torch.tensor([[0.7, 0.1, 0.1, 0.1]]).repeat(4, 1)[None]
    kind = [sinks.SPECIAL, sinks.MARK, sinks.WORD, sinks.WORD]
    (found,) = heads(attention, [0.5, 3.0, 1.0, 4.0], kind, ENCODER)
    assert found["sinks"] == found["sinks_special"] == 1 and found["sinks_mark"] == 0
    assert found["sink_norm"] == pytest.approx(math.log(0.5)) and found["mark_norm"] == pytest.approx(
        math.log(3)
    )
    assert found["word_norm"] == found["word_norm_beside"] == pytest.approx(math.log(2))
    assert found["sink_drawn"] == pytest.approx(2.8) and found["mark_drawn"] == pytest.approx(0.4)
    assert found["sinks_first"] == 1
    assert found["raw"] == pytest.approx(0.7)
    assert found["weighted"] == pytest.approx(0.35 / (0.35 + 0.3 + 0.1 + 0.4)) and "spared_norm" not in found


def test_a_kind_gets_its_share_of_what_is_fair():
    kind = [sinks.SPECIAL, sinks.MARK, sinks.WORD, sinks.WORD]
    (found,) = heads(torch.eye(4)[None], [1.0] * 4, kind, DECODER)  # each token itself alone
    fair = sinks.fair(4, True).double()
    assert found["mark_drawn"] == pytest.approx(1 / float(fair[1]))
    assert found["word_drawn"] == pytest.approx(2 / float(fair[2:].sum()))
    (found,) = heads(torch.eye(4)[None], [1.0] * 4, kind, ENCODER)
    assert found["mark_drawn"] == found["word_drawn"] == pytest.approx(1)


def test_a_comma_that_draws_is_a_sink_and_a_special_token_that_does_not_is_none():
    attention = torch.tensor([[0.1, 0.7, 0.1, 0.1]]).repeat(4, 1)[None]
    kind = [sinks.SPECIAL, sinks.MARK, sinks.WORD, sinks.WORD]
    (found,) = heads(attention, [0.5, 3.0, 1.0, 4.0], kind, ENCODER)
    assert found["sinks_mark"] == 1 and found["sink_norm"] == pytest.approx(math.log(3))
    assert found["spared_norm"] == pytest.approx(math.log(0.5))
    assert found["word_norm_spared"] == found["word_norm"]
    assert "sink_norm" not in heads(torch.full((1, 4, 4), 0.25), [1.0] * 4, kind, ENCODER)[0]


def test_what_hardly_anybody_sees_is_no_sink():
    attention = torch.eye(4)[None]  # each token itself alone
    kind = [sinks.SPECIAL, sinks.MARK, sinks.WORD, sinks.WORD]
    assert heads(attention, [1.0] * 4, kind, DECODER)[0]["sinks"] == 3  # of .25, .33, .5 and 1
    assert heads(attention, [1.0] * 4, kind, DECODER | {"seen": 2})[0]["sinks"] == 2


@pytest.mark.parametrize("kind", ["filler", "decoder"])
def test_kinds_of_tokens(kind):
    base = pretrained(TINY, [TEXT], kind)
    ids = base.ids(TEXT, special=True)
    told = {place: one for one, place in base.places.items()}
    said = [base.tokenizer.decode([told[one]]).strip().lower() for one in ids]
    found = dict(zip(said, sinks.kinds_of(base, ids).tolist(), strict=True))
    assert found["of"] == found[","] == found[":"] == sinks.MARK and found["2"] == sinks.WORD
    assert kind == "decoder" or found["[cls]"] == found["[sep]"] == sinks.SPECIAL


def test_tables_figure_and_remark_tell_factors(monkeypatch, tmp_path):
    moved(monkeypatch, tmp_path)
    norms = {"sink_norm": math.log(0.1), "mark_norm": 0.0, "word_norm": 0.0, "spared_norm": math.log(0.5)}
    more = {"word_norm_beside": 0.0, "word_norm_spared": 0.0, "sinks": 0.4, "sinks_special": 0.75}
    more |= {"sinks_mark": 0.25, "sinks_first": 0.5, "raw": 0.4, "weighted": 0.05}
    drawn = dict.fromkeys(("sink_drawn", "spared_drawn", "mark_drawn", "word_drawn"), 1.5)
    layers = [{"layer": 0, **{name: norms[name] for name in ("mark_norm", "word_norm")}}]
    layers.append({"layer": 1, **norms, **more})
    everything(monkeypatch, {sinks.HOME: 3}, lambda *_: {"": norms | more | drawn}, lambda _: layers)
    rows = {tuple(row[:2]): row[2:] for row in made.table().rows}
    shares = ["75.0 ± 0.0 (3)", "50.0 ± 0.0 (3)", "25.0 ± 0.0 (3)"]
    for arm, base in made.BASES.items():
        assert rows[base, "sinks"] == ["0.40 ± 0.00 (3)", *shares, "1.50 ± 0.00 (3)", "0.1 [0.1, 0.1] (3)"]
        assert ((base, made.SPARED) in rows) == (arm in made.NAMES)
        assert rows[base, "words"][-1].startswith("1 ")
    assert rows[made.BASES["encoder"], made.SPARED][-1].startswith("0.5 ")
    weighted = made.weighted().rows
    assert len(weighted) == 2 and weighted[0][1:] == ["40.0 ± 0.0 (3)", "5.0 ± 0.0 (3)"]
    fig, alt = made.sink_figure()
    assert "Sinks carry 10 and 10 % of a word's value norm" in fig.get_suptitle()
    assert [*fig.axes[0].lines[1].get_xdata()] == [2] and "sinks: 0.1;" in alt and "bare texts: 0.1" in alt
    assert made.sink_remark()[0].startswith(
        "MiniLM, sees both sides: 0.40 sinks a head, 50 % of them the first"
    )
    plt.close("all")
