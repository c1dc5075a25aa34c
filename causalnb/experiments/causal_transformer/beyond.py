"""Beyond the paper: dependencies that are sparse, directed and invariant, where overlap misleads."""

from causalnb.experiments.causal_transformer.data import (
    BOS,
    EOS,
    LABELS,
    PAD,
    cells,
    encoded,
    pair_tokenizer,
    parts,
)
from causalnb.experiments.causal_transformer.models import attention_measures, fit, right, settings
from causalnb.experiments.causal_transformer.runs import cell_scores, spread
from causalnb.lab.batches import grouped
from causalnb.lab.probes import scored
from causalnb.lab.registry import Run

OWN = ("parents", "directed", "compared", "interchanged")  # settings of the invariant model's configuration
SPREAD = ("entropy_target", "entropy_weight")  # and of its control's, which is asked for by the second


def sentence(row: dict, kind: int) -> list[int]:
    """The tokens of an encoded row's first (0) or second (1) sentence."""
    return [token for token, at in zip(row["input_ids"], row["token_type_ids"], strict=True) if at == kind]


def build_invariant(config: dict, vocabulary: int, labels: int, rows: list[dict]):
    """The model of an arm, which knows the classes of the words of encoded rows."""
    from causalnb.causal_transformer.invariance import InvariantForSequenceClassification, word_classes
    from causalnb.causal_transformer.spread import SpreadForSequenceClassification

    controlled = config["entropy_weight"] is not None
    kind = SpreadForSequenceClassification if controlled else InvariantForSequenceClassification
    own = {name: config[name] for name in (*OWN, *(SPREAD if controlled else ()))}
    size = dict(vocab_size=vocabulary, num_labels=labels)
    model = kind(kind.config_class(**size, **own, **settings(config, config["steps"])))
    model.classes.copy_(
        word_classes(
            [sentence(row, kind) for row in rows for kind in (0, 1)],
            vocabulary,
            config["distance"],
            (PAD, BOS, EOS),
        )
    )
    return model


def run_beyond(run: Run) -> dict:
    """Train an arm and score all cells, as `run_pairs`; the history follows accuracy and attention."""
    from transformers import set_seed

    config = run.config
    found = parts(config["task"], config["data"], run.seed + config["data_seed"])
    tokenizer = pair_tokenizer(found["train"], config["vocabulary"])
    rows = encoded(found["train"], tokenizer)
    validation = scored(encoded(found["validation"], tokenizer)[: config["validation_rows"]])
    followed = spread(validation, config["follow_rows"])
    set_seed(run.seed)
    model = build_invariant(config, len(tokenizer), len(LABELS[config["task"]]), rows)

    def measure(model) -> dict:
        return {
            "accuracy": float(right(model, validation).mean()),
            "entropy": attention_measures(model, followed)["entropy"],
        }

    history = fit(run, model, rows, grouped(rows, config["batch"], config["steps"], run.seed), measure)
    asked = {cell: scored(some) for cell, some in cells(found, config["cells"], config["real"]).items()}
    metrics = {"": {"parameters": model.num_parameters()}, **cell_scores(model, asked, tokenizer, config)}
    return {"metrics": metrics, "history": history}
