"""The autoregressive baseline on a real base: its rows, its arms on a tiny one, what counts as right."""

import pytest
import torch

from causalnb.experiments.c2dlm import real_data
from causalnb.experiments.c2dlm import real_decoder as real
from causalnb.lab import registry
from causalnb.lab.bases import pretrained
from causalnb.lab.registry import Run

ID = "c2dlm.real.decoder"
PAIR = ("Smoking: 3, Weight: 12 Answer: ", "Middle Risk")


def config(arm="autoregressive", **changes):
    return {**registry.config(ID, arm, "quick"), **changes}


def run(folder, arm="autoregressive", seed=0, **changes):
    settings = config(arm, **changes)
    return real.run_decoder(Run(ID, arm, seed, "quick", settings, folder, "cpu", lambda *_: None))


def base():
    return pretrained("tiny", [text for pair in (PAIR, ("", "High Risk")) for text in pair])


@pytest.mark.parametrize("swapped", [0, 2])
def test_it_trains_its_adapters_and_is_scored(swapped, tmp_path):
    found = run(tmp_path, swapped=swapped)
    assert [*found["bases"]] == ["tiny"] and len(found["history"]) == 2
    assert all(0 <= found["metrics"][part]["accuracy"] <= 1 for part in ("iid", "ood"))
    counted = found["metrics"][""]
    assert 0 < counted["trainable_parameters"] < counted["parameters"] / 2


def test_a_seed_decides_the_run(tmp_path):
    one, same, other = (run(tmp_path / name, seed=seed) for name, seed in (("a", 0), ("b", 0), ("c", 1)))
    assert one["history"] == same["history"] != other["history"]


def test_rows_ask_for_the_answer_and_its_end():
    some = base()
    (row,) = real.rows_of(some, [PAIR])
    asked = sum(row["prompt_mask"])
    ids = {place: token for token, place in some.places.items()}
    assert some.tokenizer.decode([ids[one] for one in row["input_ids"][:-1]]) == "".join(PAIR).replace(
        "  ", " "
    )
    assert row["labels"] == [-100] * asked + row["input_ids"][asked:]
    assert row["labels"][-1] == some.special("eos")


def test_the_laptop_rows_are_those_of_the_encoder():
    mine, its = (
        registry.config(ID, "autoregressive", "laptop"),
        registry.config("c2dlm.real.stg_l", "diffusion", "laptop"),
    )
    assert real_data.pairs(mine) == real_data.pairs(its)


def test_only_whole_answers_count(monkeypatch):
    some = base()
    rows = real.rows_of(some, [PAIR, (PAIR[0], "High Risk")])
    wanted = torch.tensor(rows[0]["input_ids"])

    class Model(torch.nn.Module):
        device = torch.device("cpu")

        def forward(self, input_ids, **_):
            said = torch.nn.functional.one_hot(wanted.roll(-1), len(some.places)).float()
            said = torch.cat([said, said[-1:].expand(max(0, input_ids.shape[1] - len(said)), -1)])
            return type("Out", (), {"logits": said[: input_ids.shape[1]].expand(len(input_ids), -1, -1)})

    assert real.accuracy(Model(), rows, some) == 0.5
