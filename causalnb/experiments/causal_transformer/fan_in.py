"""One key against many weak cues: does a bound on attention keep a model from a shortcut of high fan-in?"""

from dataclasses import replace

from causalnb.experiments.causal_transformer.data import collate
from causalnb.experiments.causal_transformer.models import build_classifier, fit, map_measures, predictions
from causalnb.lab.batches import grouped
from causalnb.lab.probes import scored
from causalnb.lab.registry import Run
from causalnb.tasks import fan_in

FIRST = 1  # of every row, the token from which the label is read
VOCABULARY = {word: number for number, word in enumerate(fan_in.WORDS, FIRST + 1)}  # 0 is padding


def encoded(rows: list[dict]) -> list[dict]:
    """input_ids of FIRST and the words; labels."""
    return [
        {
            "input_ids": [FIRST, *map(VOCABULARY.__getitem__, words)],
            "token_type_ids": [0] * (1 + len(words)),
            "labels": row["label"],
        }
        for row in rows
        for words in [row["text"].split()]
    ]


def attention_of(model, rows: list[dict]) -> dict[str, float]:
    """Where maps go on encoded rows of one length: shares of nodes outside, and the reading token's row.

    violated as `map_measures`, violated_apart where rows and columns have to keep to their bounds alone; of
    the first token's rows in the last layer the entropy, and the weight on itself, on the key, on cues.
    """
    import torch

    from causalnb.causal_transformer import MarkovBlanketLoss
    from causalnb.causal_transformer.measure import excess

    given = {name: value.to(model.device) for name, value in collate(rows).items() if name != "labels"}
    ids = given["input_ids"]
    model.eval()
    with torch.no_grad():
        maps = model(**given, output_attentions=True).encoder_attentions
    apart = MarkovBlanketLoss(self_loop=True, apart=True)
    outside = [apart.violated(*excess(one)) for one in maps]
    read = maps[-1][:, :, 0].mean(1)  # (B, T)
    kinds = {
        kind: torch.isin(
            ids, torch.tensor([VOCABULARY[f"{kind}{label}"] for label in (0, 1)], device=ids.device)
        )
        for kind in ("key", "cue")
    }
    of_all = map_measures(maps, torch.ones_like(ids))
    return {
        "violated": of_all["violated"],
        "entropy": of_all["entropy"],
        "violated_apart": float(torch.stack(outside).mean()),
        "read_entropy": float(torch.special.entr(maps[-1][:, :, 0]).sum(-1).mean()),
        "to_itself": float(read[:, 0].mean()),
        **{f"to_{kind}": float((read * here).sum(1).mean()) for kind, here in kinds.items()},
    }


def run_fan_in(run: Run) -> dict:
    """Train an arm for each number of `cues`, on the same key; accuracy as in training, flipped and loose.

    Metrics {"n<cues>/<part>": {accuracy}}, and {"n<cues>": `attention_of`} on `map_rows` validation rows.
    """
    import numpy as np
    from transformers import set_seed

    config, metrics, history = run.config, {}, []
    for cues in config["cues"]:
        made = fan_in.load(
            cues, config["key"], config["together"], config["train_rows"], config["test_rows"], run.seed
        )
        rows = encoded(made["train"].to_list())
        asked = {part: scored(encoded(made[part].to_list())) for part in fan_in.PARTS if part != "train"}
        set_seed(run.seed)
        model = build_classifier(config, len(VOCABULARY) + FIRST + 1, 2, config["steps"])
        here = replace(run, folder=run.folder / f"n{cues}")
        batches = grouped(rows, config["batch"], config["steps"], run.seed)
        history += [{"cues": cues, **line} for line in fit(here, model, rows, batches)]
        for part, some in asked.items():
            right = predictions(model, some) == np.array([row["labels"] for row in some])
            metrics[f"n{cues}/{part}"] = {"accuracy": float(right.mean())}
        metrics[f"n{cues}"] = attention_of(model, asked["validation"][: config["map_rows"]])
    return {"metrics": metrics, "history": history}
