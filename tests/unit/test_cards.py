"""The card beside weights: what it is told of a training, and what transformers uploads of it."""

from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch
from huggingface_hub import ModelCard, ModelCardData
from huggingface_hub.errors import EntryNotFoundError
from transformers import modeling_utils
from transformers.utils import hub

from causalnb.cards import EMPTY, OURS, card
from tests.unit.causal_transformer.small import classifier
from tests.unit.sci.tiny import base, sci

MODELS = {"sci": lambda: sci(base(dtype=torch.float32)), "causal_transformer": classifier}
every_model = pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)


@every_model
@pytest.mark.parametrize(
    "value", [np.float64(0.5), np.float32(0.5), np.array(0.5), torch.tensor(0.5), 0.5], ids=repr
)
def test_metrics_of_any_library_are_numbers(make, value, tmp_path):
    model = make()
    model.card = {"metrics": {"accuracy": value, "rows": np.int64(3)}}
    assert model.card == {"metrics": {"accuracy": 0.5, "rows": 3}}
    model.save_pretrained(tmp_path)
    written = ModelCard.load(tmp_path / "README.md")
    assert "| accuracy | 0.5 |" in written.text and "| rows | 3 |" in written.text
    metrics = written.data.to_dict()["model-index"][0]["results"][0]["metrics"]
    assert [each["value"] for each in metrics] == [0.5, 3]


@every_model
@pytest.mark.parametrize(
    "told, message",
    [
        ({"metrics": {"accuracy": None}}, "the card's metric accuracy is None: give a number"),
        ({"metrics": {"loss": 1.0, "accuracy": "0.9"}}, "the card's metric accuracy is '0.9': give a number"),
        ({"metrics": {"accuracy": torch.ones(2)}}, "the card's metric accuracy is tensor.*: give a number"),
        ({"metrics": 0.9}, "the card's metrics are 0.9: give a dictionary of numbers"),
        ({"licence": "mit"}, "a card has no 'licence': give command, data, metrics, task"),
    ],
)
def test_what_is_no_card_is_refused_before_the_weights_are_written(make, told, message, tmp_path):
    model = make()
    model.card = told
    with pytest.raises(ValueError, match=message):
        model.save_pretrained(tmp_path)
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match=message):
        card(model.config, "", told=told)


@every_model
def test_a_card_is_a_dictionary(make, tmp_path):
    model = make()
    model.card = "mine"
    with pytest.raises(ValueError, match="the card is 'mine': give a dictionary of command, data"):
        model.save_pretrained(tmp_path)


def empty(tags=()) -> str:
    """What transformers writes of any model."""
    known = ModelCardData(tags=list(tags), library_name="transformers")
    return ModelCard.from_template(known, model_description=EMPTY).content


def uploaded(model, there: str | None, folder=None, **settings) -> ModelCard:
    """The card that a push uploads, `there` on the hub before."""
    found = []

    def load(*_, **__):
        if there is None:
            raise EntryNotFoundError("there is none")
        return ModelCard(there)

    def upload(self, place, *_, **__):
        found.append(ModelCard((Path(place) / "README.md").read_text(encoding="utf-8")))

    api = mock.Mock()
    api.return_value.create_repo.return_value.repo_id = "me/mine"
    with (
        mock.patch.object(hub.ModelCard, "load", load),
        mock.patch.object(hub, "hf_api", api),
        mock.patch.object(modeling_utils, "hf_api", api),
        mock.patch.object(hub.PushToHubMixin, "_upload_modified_files", upload),
    ):
        if folder is None:
            model.push_to_hub("me/mine", **settings)
        else:
            model.save_pretrained(folder, push_to_hub=True, repo_id="me/mine", **settings)
    return found[0]


@every_model
@pytest.mark.parametrize("there", [None, empty(["old"])], ids=["none", "empty"])
def test_what_is_uploaded_is_our_card(make, there, tmp_path):
    model = make()
    model.card = {"data": "mine.jsonl", "metrics": {"accuracy": 0.5}}
    for found in (uploaded(model, there, tags=["new"]), uploaded(model, there, tmp_path)):
        assert OURS in found.text and "| accuracy | 0.5 |" in found.text
        assert {"causalnb", model.config.model_type} <= {*found.data.tags}
        assert ("old" in found.data.tags) == (there is not None)
    assert "new" in uploaded(model, there, tags=["new"]).data.tags
    assert OURS in (tmp_path / "README.md").read_text(encoding="utf-8")
    again = uploaded(model, found.content)
    assert again.text == found.text and again.data.tags == found.data.tags


@every_model
def test_what_another_hand_wrote_on_the_hub_stays(make):
    mine = empty().replace("[More Information Needed]", "told by hand")
    for there in ("---\nlicense: mit\n---\nmy own text\n", mine):
        assert uploaded(make(), there).content == there
