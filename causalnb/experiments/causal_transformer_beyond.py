"""Beyond the paper: attention that is invariant under interventions, on the tasks where overlap misleads."""

from causalnb.experiments.causal_transformer_models import attention_measures, fit, right, settings
from causalnb.experiments.causal_transformer_runs import cell_scores, spread
from causalnb.experiments.causal_transformer_tasks import (
    BOS,
    EOS,
    LABELS,
    PAD,
    cells,
    collate,
    encoded,
    pair_tokenizer,
    parts,
)
from causalnb.lab.batches import grouped
from causalnb.lab.registry import Run


def sentence(row: dict, kind: int) -> list[int]:
    """The tokens of an encoded row's first (0) or second (1) sentence."""
    return [token for token, at in zip(row["input_ids"], row["token_type_ids"], strict=True) if at == kind]


def weighted(rows: list[dict], vocabulary: int, seed: int) -> list[dict]:
    """Encoded rows with a weight each, which makes their labels independent of their bags of words."""
    from causalnb.causal_transformer.invariance import independence_weights

    found = independence_weights([sentence(row, 0) for row in rows], [sentence(row, 1) for row in rows],
                                 [row["labels"] for row in rows], vocabulary, seed)
    return [{**row, "weight": weight} for row, weight in zip(rows, found.tolist(), strict=True)]


def collate_weighted(rows: list[dict]) -> dict:
    """A batch as `collate` makes it; with weights (B,) where the rows have one."""
    import torch

    weights = [row["weight"] for row in rows if "weight" in row]
    return collate(rows) | ({"weights": torch.tensor(weights)} if weights else {})


def build_invariant(config: dict, vocabulary: int, labels: int, rows: list[dict]):
    """The model of an arm, which knows the classes of the words of encoded rows."""
    from causalnb.causal_transformer.invariance import (
        InvariantConfig,
        InvariantForSequenceClassification,
        word_classes,
    )

    model = InvariantForSequenceClassification(InvariantConfig(
        vocab_size=vocabulary, num_labels=labels, interchanged=config["interchanged"],
        **settings(config, config["steps"])))
    model.classes.copy_(word_classes([sentence(row, kind) for row in rows for kind in (0, 1)], vocabulary,
                                     config["distance"], (PAD, BOS, EOS)))
    return model


def run_beyond(run: Run) -> dict:
    """Train an arm and score all cells, as `run_pairs`; the history follows accuracy and attention."""
    from transformers import set_seed

    config = run.config
    found = parts(config["task"], config["data"], run.seed + config["data_seed"])
    tokenizer = pair_tokenizer(found["train"], config["vocabulary"])
    rows = encoded(found["train"], tokenizer)
    if config["weighted"]:
        rows = weighted(rows, len(tokenizer), run.seed)
    validation = encoded(found["validation"], tokenizer)[: config["validation_rows"]]
    followed = spread(validation, config["follow_rows"])
    set_seed(run.seed)
    model = build_invariant(config, len(tokenizer), len(LABELS[config["task"]]), rows)

    def measure(model) -> dict:
        return {"accuracy": float(right(model, validation).mean()),
                "entropy": attention_measures(model, followed)["entropy"]}

    order = grouped(rows, config["batch"], config["steps"], run.seed)
    history = fit(run, model, rows, order, measure, collate_weighted)
    asked = cells(found, config["cells"], config["real"])
    metrics = {"parameters": model.num_parameters(), **cell_scores(model, asked, tokenizer, config)}
    return {"metrics": metrics, "history": history}
