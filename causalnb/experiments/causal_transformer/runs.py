"""One arm on one task of sentence pairs: train, follow, score."""

from causalnb.experiments.causal_transformer.data import (
    LABELS,
    balanced,
    cells,
    encoded,
    pair_tokenizer,
    parts,
)
from causalnb.experiments.causal_transformer.forgetting import SEEN, count_forgotten, packed
from causalnb.experiments.causal_transformer.models import (
    attention_measures,
    build_classifier,
    example_map,
    fit,
    logits,
    right,
)
from causalnb.lab.batches import grouped
from causalnb.lab.probes import scored
from causalnb.lab.registry import Run

EXAMPLE_IN = ("snli",)  # tasks in everyday English, whose tokenizers do not spell the paper's example


def spread(rows: list, n: int) -> list:
    """n rows, or all if there are fewer, at equal distances: of every template of a cell in order."""
    step = max(1, len(rows) // n)
    return rows[::step][:n]


def scores(rows: list[dict], predicted, labels: tuple[str, ...], by: str = "") -> dict[str, float]:
    """accuracy and macro_f (of the labels that occur), and accuracies by label and by the column `by`."""
    import numpy as np
    from sklearn.metrics import f1_score

    truth = np.array([row["label"] for row in rows])
    hits, groups = predicted == truth, {}
    for row, hit in zip(rows, hits, strict=True):
        for name in (labels[row["label"]], row.get(by)):
            if name is not None:
                groups.setdefault(name, []).append(hit)
    macro = f1_score(truth, predicted, labels=np.unique(truth), average="macro", zero_division=0)
    return {
        "accuracy": float(hits.mean()),
        "macro_f": float(macro),
        **{name: float(np.mean(group)) for name, group in groups.items()},
    }


def auc(rows: list[dict], said) -> float:
    """How often a row of label 1 is rated above one of label 0, by logits (rows, 2); NaN without both."""
    import numpy as np
    from sklearn.metrics import roc_auc_score

    truth = np.array([row["label"] for row in rows])
    return float(roc_auc_score(truth, said[:, 1] - said[:, 0])) if 0 < truth.mean() < 1 else float("nan")


def cell_scores(model, found: dict[str, list[dict]], tokenizer, config: dict) -> dict[str, dict]:
    """{cell: {measure: value}}: `scores`, how many rows, auc if asked for; of `mapped` cells attention."""
    metrics = {}
    for cell, rows in found.items():
        ready = encoded(rows, tokenizer)
        said = logits(model, ready)
        values = scores(rows, said.argmax(-1), LABELS[config["task"]], config["by"])
        if config["auc"]:
            values["auc"] = auc(rows, said)
        if cell in config["mapped"]:
            values |= attention_measures(model, spread(ready, config["map_rows"]))
        metrics[cell] = {"rows": len(rows), **values}
    return metrics


def run_pairs(run: Run) -> dict:
    """Train an arm on config's `train_part` of its task and score all cells.

    The history follows accuracy on validation pairs, attention on `follow_rows` of them, and how many of
    `probe_rows` training pairs are right and were forgotten. On tasks in EXAMPLE_IN it ends with the map of
    the paper's example.
    """
    from transformers import set_seed

    config = run.config
    found = parts(config["task"], config["data"], run.seed + config["data_seed"])
    tokenizer = pair_tokenizer(found["train"], config["vocabulary"])
    train = found[config["train_part"]]
    rows = encoded(balanced(config["task"], train) if config["balanced"] else train, tokenizer)
    validation = scored(encoded(found["validation"], tokenizer)[: config["validation_rows"]])
    probe, followed = scored(spread(rows, config["probe_rows"])), spread(validation, config["follow_rows"])
    set_seed(run.seed)
    model = build_classifier(config, len(tokenizer), len(LABELS[config["task"]]), config["steps"])

    def measure(model) -> dict:
        attention = attention_measures(model, followed)
        return {
            "accuracy": float(right(model, validation).mean()),
            f"{SEEN}train": packed(right(model, probe)),
            **{name: attention[name] for name in ("violated", "entropy") if attention},
        }

    history = fit(run, model, rows, grouped(rows, config["batch"], config["steps"], run.seed), measure)
    history, forgotten = count_forgotten(history, {"train": len(probe)})
    asked = {cell: scored(some) for cell, some in cells(found, config["cells"], config["real"]).items()}
    metrics = {"": {"parameters": model.num_parameters()}, **cell_scores(model, asked, tokenizer, config)}
    example = example_map(model, tokenizer) if config["task"] in EXAMPLE_IN else []
    return {"metrics": metrics | forgotten, "history": history + example}
